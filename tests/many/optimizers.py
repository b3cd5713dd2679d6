#!/usr/bin/env python3
"""Every optimizer and transformation that `stepc doc schema` has, over so many small tensors that the passes compute them together:
some steps by an object and by the interpreter, all parameters, state and metrics compared, against the largest number of each.

usage: optimizers.py STEPC [--all] [-j N] [NAME...]

Without --all every third is played, and those of ALWAYS. What an entry needs is in ARGUMENTS; one that the table lacks, or that is
refused, is a failure. What is made of gradients keeps their sign, and so is followed by a small negative factor. Gradients have full
rank: Adam behind `galore` takes a step of full size along singular vectors of a singular value that is 0 but for rounding. Of the
line searches of L-BFGS the one by zoom is left out: where it finds a step of 1e-8, what is remembered of it is rounding alone.
"""
import argparse
import concurrent.futures
import json
import os
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import comparison, runner

STEPS, LAYERS, RTOL, ATOL = 4, 9, 1e-3, 1e-7
ALWAYS = ("scale_by_novograd", "scale_by_distance_over_gradients", "scale_by_galore")  # numbers or matrices beside tensors
RATE = {"learning_rate": 0.01}
ADAM, SGD = {"type": "adam", **RATE}, {"type": "sgd", **RATE}
TWO = {"transforms": {"k": ADAM, "b": SGD}, "labels": {"**.kernel": "k", "**": "b"}}
FALLING = {"type": "linear_schedule", "init_value": -0.01, "end_value": -0.001, "transition_steps": 3}
BACKTRACKING = {"type": "scale_by_backtracking_linesearch", "max_backtracking_steps": 5}
EXAMPLES = ("per_example_global_norm_clip", "per_example_layer_norm_clip")  # transformations of one example's gradient
MATRICES = ("scale_by_muon",)  # takes nothing else
PRIVATE = {"l2_norm_clip": 0.5, "noise_multiplier": 0.1}
GALORE = [{"rank": r, "update_proj_gap": gap, **more} for r, gap, more in (
    (1, 1, {}), (3, 2, {"scale": 0.4}), (2, 200, {"base_optimizer": {"type": "trace", "decay": 0.9}}), (128, 3, {}))]
ARGUMENTS = {
    "adaptive_grad_clip": {"clipping": 0.1}, "add_noise": {"eta": 0.01, "gamma": 0.55, "key": 1}, "amos": {"eta_fn": {"**": 1.0}, **RATE},
    "apply_if_finite": {"inner": ADAM, "max_consecutive_errors": 2}, "chain": {"transforms": [{"type": "clip", "max_delta": 0.5}, ADAM]},
    "clip": {"max_delta": 0.1}, "clip_by_block_rms": {"threshold": 0.1}, "clip_by_global_norm": {"max_norm": 0.1},
    "conditionally_mask": {"inner": ADAM, "should_transform_fn": "step % 2 == 1"},
    "conditionally_transform": {"inner": ADAM, "should_transform_fn": "step < 2"},
    "custom": {"slots": {"m": {}}, "update": {"m": "0.9 * m + g", "g": "-0.01 * m"}}, "differentially_private_aggregate": {**PRIVATE, "key": 4},
    "dpsgd": {**PRIVATE, **RATE, "seed": 4}, "ema": {"decay": 0.9}, "flatten": {"inner": ADAM}, "freeze": {"mask": ["**.bias"]},
    "galore": [dict(o, **RATE) for o in GALORE], "inject_hyperparams": {"opt": ADAM}, "inject_stateful_hyperparams": {"opt": ADAM},
    "lbfgs": [dict(RATE, linesearch=None), {"linesearch": BACKTRACKING}],
    "lookahead": {"fast_optimizer": ADAM, "sync_period": 2, "slow_step_size": 0.5}, "masked": {"inner": ADAM, "mask": ["**.kernel"]},
    "maybe_update": {"inner": ADAM, "should_update_fn": "step < 2"}, "mechanize": {"base_optimizer": ADAM},
    "monitor": {"measures": {"size": "global_norm(updates)"}},
    "multi_optimizer": {"optimizers": [{"match": ["**.kernel"], "opt": ADAM}, {"match": ["**.bias"], "opt": SGD}]},
    "multi_steps": {"opt": ADAM, "every_k_schedule": 2}, "multi_transform": TWO, "partition": TWO,
    "named_chain": {"transforms": {"clip": {"type": "clip", "max_delta": 0.5}, "rest": ADAM}},
    "per_example_global_norm_clip": {"l2_norm_clip": 0.1}, "per_example_layer_norm_clip": {"global_l2_norm_clip": 0.1},
    "sam": {"optimizer": ADAM, "adv_optimizer": SGD, "sync_period": 2}, "scale": {"step_size": 0.5}, "scale_by_amos": {"eta_fn": {"**": 1.0}, **RATE},
    "scale_by_backtracking_linesearch": {k: v for k, v in BACKTRACKING.items() if k != "type"}, "scale_by_galore": GALORE,
    "scale_by_schedule": {"step_size_fn": FALLING}, "scale_by_zoom_linesearch": {"max_linesearch_steps": 5},
    "schedule_free": {"base_optimizer": dict(ADAM, b1=0.0), **RATE}, "selective_transform": {"optimizer": ADAM, "freeze_mask": ["**.bias"]},
    "snapshot": {"measure_name": "size", "measure": "global_norm(updates)"}, "split_real_and_imaginary": {"inner": ADAM},
    "stateless": {"f": "update + 0.01 * global_norm(updates) * param"}, "stateless_with_tree_map": {"f": "update + 0.1 * param"},
    "trace": {"decay": 0.9},
}


def document(name, arguments, properties):
    """Layers of two widths, so that tensors of one shape are interleaved with those of another one."""
    array = {"shape": [6, 4], "axes": ["batch", None]}
    own = {"type": name, **arguments}
    out = {"stepc": 1, "inputs": {"x": array, "y": array}, "loss": "mean((model - y)**2)", "metrics": {"norm": "global_norm(grads)"},
           "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": (4, 5)[i % 2]} for i in range(LAYERS)]}}
    if name in EXAMPLES:
        return dict(out, per_example={"transform": [own]}, optimizer=SGD)
    if name in MATRICES:
        own = {"type": "masked", "inner": own, "mask": ["**.kernel"]}
    small = {"type": "scale", "step_size": -0.01}
    return dict(out, optimizer=own if "learning_rate" in properties else {"type": "chain", "transforms": [own, small]})


def cases(stepc):
    """(what is played, its document)"""
    for entry, schema in json.loads(runner.call(stepc, "doc", "schema"))["$defs"].items():
        if not entry.startswith("optimizer."):
            continue
        name, properties = entry.split(".")[1], schema["properties"]
        own = ARGUMENTS.get(name, {k: v for k, v in RATE.items() if k in properties})
        for i, arguments in enumerate(own if isinstance(own, list) else [own]):
            yield name, "%s %d" % (name, i + 1) if isinstance(own, list) else name, document(name, arguments, properties)


def play(stepc, label, model):
    """None, or what is wrong."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="stepc-many-") as folder:
        runner.write_document(folder, model, {n: rng.normal(size=[STEPS] + i["shape"]).astype(np.float32) for n, i in model["inputs"].items()})
        try:
            runner.compile_document(stepc, folder, ["-O0"])
            found = [runner.train(stepc, folder, STEPS, what, arguments=["--all-state"]) for what in ("model.json", "step.so")]
        except runner.Failed as e:
            return "%s: %s" % (label, e.brief())
    want, got = [{**tensors, **runner.series(lines, lines[0])} for tensors, lines in found]
    if want.keys() != got.keys():
        return "%s: not the same tensors: %s" % (label, sorted(want.keys() ^ got.keys()))
    for name, value in want.items():
        if not np.all(np.isfinite(value)):
            return "%s: %s is not finite" % (label, name)
        said = comparison.difference(got[name], value, atol=ATOL + RTOL * np.max(np.abs(value), initial=0))
        if said:
            return "%s: %s%s" % (label, name, said)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("stepc", metavar="STEPC", type=os.path.abspath)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--all", action="store_true")
    p.add_argument("-j", type=int, default=2)
    options = p.parse_args()
    found = list(cases(options.stepc))
    unknown = sorted({*ARGUMENTS, *ALWAYS, *options.names} - {name for name, _, _ in found})
    if unknown:
        sys.exit("not in the schema: " + ", ".join(unknown))
    some = [c for i, c in enumerate(found) if (c[0] in options.names if options.names else options.all or i % 3 == 0 or c[0] in ALWAYS)]
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        wrong = [w for w in pool.map(lambda c: play(options.stepc, *c[1:]), some) if w]
    for w in wrong:
        print(w)
    print("%d of %d agree; %d in all" % (len(some) - len(wrong), len(some), len(found)))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
