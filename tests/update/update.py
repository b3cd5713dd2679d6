#!/usr/bin/env python3
"""The update is one pass: for every element-wise optimizer of the table, and chains of them, `stepc explain` reports that
kernels move exactly the least: each slot and gradient read once, what changes written once, once more what a norm reads.

Gradients are inputs here (the loss is sum(params * g)). A row of the table is either listed below as one that is not
element-wise, or held to this; a new row is held to it by itself.

usage: update.py STEPC [NAME...]
"""
import json
import math
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner

FUSED = os.path.join(ROOT, "tests", "golden", "emitted", "dense_adam.sir")
TABLE = os.path.join(ROOT, "frontend", "optim", "optim.def")
SHAPES = {"a.kernel": (64, 48), "a.bias": (2048,), "b.kernel": (8, 16, 32), "c.embedding": (100, 64), "d.kernel": (33, 67),
          "e.kernel": (512, 160), "f.kernel": (8192, 4096)}  # the last one is as large as what passes weigh by its bytes
RATE = {"learning_rate": 1e-3}

# What must see whole tensors, other examples, or the loss at other points before it can go on.
NOT_ELEMENTWISE = set("""
    scale_by_sm3 sm3 scale_by_factored_rms adafactor t5x_adafactor scale_by_amos amos adaptive_grad_clip dadapt_adamw
    per_example_global_norm_clip per_example_layer_norm_clip differentially_private_aggregate dpsgd sam mechanize
    scale_by_muon muon scale_by_galore galore scale_by_lbfgs lbfgs scale_by_backtracking_linesearch
    scale_by_zoom_linesearch hutchinson_estimator_diag_hessian sophia centralize scale_by_novograd novograd
    """.split())
# Wrappers: in CHAINS below, or as good as what they hold.
WRAPPERS = set("""
    chain named_chain masked partition multi_transform multi_steps selective_transform multi_optimizer apply_if_finite
    conditionally_transform conditionally_mask inject_hyperparams inject_stateful_hyperparams maybe_update flatten
    split_real_and_imaginary stateless stateless_with_tree_map custom snapshot monitor lookahead schedule_free apply_every freeze
    """.split())
ARGUMENTS = {
    "ema": {"decay": 0.9}, "trace": {"decay": 0.9}, "scale": {"step_size": -0.1}, "scale_by_learning_rate": RATE,
    "scale_by_schedule": {"step_size_fn": {"type": "linear_schedule", "init_value": -0.1, "end_value": -0.01, "transition_steps": 10}},
    "clip": {"max_delta": 0.5}, "clip_by_global_norm": {"max_norm": 1.0}, "clip_by_block_rms": {"threshold": 1.0},
    "add_decayed_weights": {"weight_decay": 0.1}, "add_noise": {"eta": 0.01, "gamma": 0.55, "seed": 1},
    "noisy_sgd": dict(RATE, eta=0.01, gamma=0.55), "polyak_sgd": {}, "scale_by_polyak": {}, "scale_by_rprop": RATE,
    "add_noise": {"eta": 0.01, "gamma": 0.55, "key": 1},
}
ADAMW = dict(RATE, type="adamw", weight_decay=0.1, mask=["**.kernel"])
CLIP = {"type": "clip_by_global_norm", "max_norm": 1.0}
CHAINS = {
    "clip, adamw with a mask": {"type": "chain", "transforms": [CLIP, ADAMW]},
    "clip, lion": {"type": "chain", "transforms": [CLIP, dict(RATE, type="lion", mask=["**.kernel"])]},
    "values clipped, adamax": {"type": "chain", "transforms": [{"type": "clip", "max_delta": 0.5}, dict(RATE, type="adamax")]},
    "decay, momentum": {"type": "chain", "transforms": [{"type": "add_decayed_weights", "weight_decay": 0.1, "mask": ["**.kernel"]},
                                                        dict(RATE, type="sgd", momentum=0.9)]},
    "momentum": dict(RATE, type="sgd", momentum=0.9), "nesterov": dict(RATE, type="sgd", momentum=0.9, nesterov=True),
    "centered rmsprop": dict(RATE, type="rmsprop", centered=True, momentum=0.9),
    "a schedule": dict(ADAMW, learning_rate={"type": "cosine_decay_schedule", "init_value": 1e-3, "decay_steps": 100}),
    "finite only": {"type": "apply_if_finite", "inner": ADAMW, "max_consecutive_errors": 3},
    "finite only, clip": {"type": "apply_if_finite", "inner": {"type": "chain", "transforms": [CLIP, ADAMW]}, "max_consecutive_errors": 3},
    "every third": {"type": "multi_steps", "opt": ADAMW, "every_k_schedule": 3},
    "every third, clip": {"type": "multi_steps", "opt": {"type": "chain", "transforms": [CLIP, ADAMW]}, "every_k_schedule": 3},
    "partition": {"type": "partition", "transforms": {"k": ADAMW, "b": dict(RATE, type="sgd", momentum=0.9), "f": {"type": "set_to_zero"}},
                  "labels": {"**.kernel": "k", "**.bias": "f", "**": "b"}},
    "lookahead": {"type": "lookahead", "fast_optimizer": dict(RATE, type="adam"), "sync_period": 5, "slow_step_size": 0.5},
    "hyper-parameters": {"type": "inject_hyperparams", "opt": {"type": "chain", "transforms": [CLIP, ADAMW]}},
    "freeze": {"type": "chain", "transforms": [dict(RATE, type="adam"), {"type": "freeze", "mask": ["a.**"]}]},
    "masked": {"type": "chain", "transforms": [{"type": "masked", "inner": dict(RATE, type="adam"), "mask": ["**.kernel"]}]},
}


def document(optimizer, averages):
    inputs = {"g%d" % i: {"shape": list(s), "dtype": "float32", "axes": [None] * len(s)} for i, s in enumerate(SHAPES.values())}
    nodes = [{"type": "param", "name": n, "shape": list(s), "init": {"type": "normal", "stddev": 0.02}} for n, s in SHAPES.items()]
    out = {"stepc": 1, "name": "update", "inputs": inputs, "model": {"type": "graph", "nodes": nodes, "output": "0.0"},
           "loss": " + ".join("sum(params.%s * g%d)" % (n, i) for i, n in enumerate(SHAPES)), "optimizer": optimizer}
    return dict(out, ema={"decay": 0.99}) if averages else out


def cases():
    with open(TABLE) as f:
        rows = re.findall(r"^(FORMULA|TRANSFORM|ALIAS)\((\w+),", f.read(), re.M)
    for kind, name in rows:
        if name in NOT_ELEMENTWISE or name in WRAPPERS:
            continue
        own = ARGUMENTS.get(name, RATE if kind == "ALIAS" else {})
        yield name, dict(own, type=name), dict(RATE, type=name)
    for name, optimizer in CHAINS.items():
        yield name, optimizer, None


def traffic(stepc, optimizer, averages):
    """(what the report says, None) or (None, the message)"""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(document(optimizer, averages), f)
        f.flush()
        p = runner.attempt(stepc, "explain", f.name, "--json")
    if p.returncode:
        return None, p.stderr.strip()
    step = {e["name"]: e for e in json.loads(p.stdout)["entries"]}["step"]
    return dict(step["update"], all_bytes=step["bytes"]) if "update" in step else None, None


def check(stepc, name, optimizer, other, averages):
    """None, or what is wrong."""
    label = name + (" with averages" if averages else "")
    found, why = traffic(stepc, optimizer, averages)
    if why and other:
        found, why = traffic(stepc, other, averages) # those that need a rate
    if why:
        return "%s: %s" % (label, why.splitlines()[0])
    if found and found["bytes"] > found["least"]:
        return "%s: moves %.2f bytes per parameter, %.2f are enough" % (label, found["bytes_per_parameter"], found["least_per_parameter"])
    # All kernels together, counted another way: beside the update there is the loss, which reads parameters and gradients.
    beside = found["all_bytes"] - found["bytes"] if found else 0
    if beside > 8 * sum(map(math.prod, SHAPES.values())) + 32768:
        return "%s: kernels move %d bytes that are neither the update's nor the loss's" % (label, beside)
    return None


def possible(stepc):
    """None, or what is wrong: where a kernel uses the gradient that it makes, no less is moved than is said to be needed."""
    step = {e["name"]: e for e in json.loads(runner.attempt(stepc, "explain", FUSED, "--json").stdout)["entries"]}["step"]
    found = step["update"]
    return "%s: moves %d bytes, %d are needed" % (FUSED, found["bytes"], found["least"]) if found["least"] > found["bytes"] else None


def main():
    stepc, only = sys.argv[1], sys.argv[2:]
    todo = [(stepc, *case, averages) for case in cases() for averages in (False, True) if not only or case[0] in only]
    with ThreadPoolExecutor(2) as pool:
        wrong = [w for w in pool.map(lambda t: check(*t), todo) if w]
    impossible = possible(stepc)
    for w in wrong + [impossible] * bool(impossible):
        print(w)
    print("%d of %d updates move no byte twice" % (len(todo) - len(wrong), len(todo)))
    sys.exit(1 if wrong or impossible or not todo else 0)


if __name__ == "__main__":
    main()
