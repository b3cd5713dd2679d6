#!/usr/bin/env python3
"""The whole state in one file, and learning rates that the host sets, for every optimizer.

usage: state.py STEPC [-j N] [--all] [NAME-GLOB...]

Documents are those recorded for the optimizer table (tests/unit/frontend/optim_cases.json: every row), the recorded cases of
tests/parity whose features have state, and some with meshes. Each is asked, by the interpreter and some as objects:
  * N steps are k steps, --save --all-state, --init of that file and N-k steps: the same bytes of state and metrics; so they are
    with a checkpoint directory and --resume. All problems of a file are reported: a missing, an extra, a mistyped tensor.
  * --set of a plain learning rate gives the bits of the document that has this rate.
  * `explain --state` lists what --all-state writes, with its bytes.
  * Slots have the names, dtypes and shapes of Optax's state (names.json, recorded by record_names.py).
"""
import argparse
import concurrent.futures
import copy
import fnmatch
import json
import os
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import ROOT, comparison, recorded, runner, safetensors
from tool.comparison import Differs
from tool.safetensors import Raw

IN_TABLE = ("optimizer_", "transform_")  # recorded cases that are played with --all only: the table has them too
WITHOUT_STATE = ("layer_", "act_", "op_", "loss_", "init_", "expr_", "struct_", "model_", "attn_", "schedule_")


class Run:
    """One document in a folder of its own."""

    def __init__(self, stepc, folder, document, data, steps, compiled=False, more=()):
        self.stepc, self.folder, self.data, self.steps, self.more = stepc, folder, data, steps, list(more)
        self.model = self.path("model.json")
        runner.write_json(self.model, document)
        if compiled:
            # Bits of one object are compared with one another: LLVM has no part in them.
            self.must("compile", self.model, "-O0", "-o", self.path("step.so"))
            self.model = self.path("step.so")

    def path(self, name):
        return os.path.join(self.folder, name)

    def must(self, *arguments):
        return runner.call(self.stepc, *arguments)

    def run(self, name, steps, init=None, *more):
        data = ["--data", self.data] if self.data else []
        self.must("run", self.model, "-q", "--steps", str(steps), *data, "--save", self.path(name), "--all-state", "--metrics",
                  self.path(name + ".jsonl"), *(["--init", init] if init else []), *self.more, *more)
        with open(self.path(name + ".jsonl")) as f:
            return self.path(name), f.read()


def same(what, a, b):
    with open(a, "rb") as x, open(b, "rb") as y:
        if x.read() == y.read():
            return
    comparison.same_bits(what, safetensors.raw(b), safetensors.raw(a))
    raise Differs(what + ": the headers of the files")


def continues(run, init, breaks):
    whole, metrics = run.run("whole", run.steps, init)
    for k in breaks:
        part, before = run.run("part", k, init)
        rest, after = run.run("rest", run.steps - k, part)
        same("%d + %d steps" % (k, run.steps - k), whole, rest)
        if before + after != metrics:
            raise Differs("%d + %d steps: metrics differ" % (k, run.steps - k))
    if breaks and run.steps > breaks[0]:  # and by a checkpoint directory
        with tempfile.TemporaryDirectory(prefix="stepc-state-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            run.run("part", breaks[0], init, "--save-dir", folder)
            rest, after = run.run("rest", run.steps, None, "--save-dir", folder, "--resume", "auto")
        same("a checkpoint after %d steps" % breaks[0], whole, rest)
    return whole


def moves(stepc, folder, document, whole, run):
    """The state of a mesh is that of one device, and back."""
    single = {k: v for k, v in document.items() if k != "mesh"}
    os.mkdir(os.path.join(folder, "single"))
    there, _ = Run(stepc, os.path.join(folder, "single"), single, run.data, run.steps).run("there", 0, whole)
    same("from the mesh to one device", whole, there)
    back, _ = run.run("back", 0, there)
    same("from one device to the mesh", whole, back)


def complains(run, whole):
    """Missing, extra and mistyped tensors of a whole state."""
    tensors = safetensors.raw(whole)
    state = sorted(n for n in tensors if n.startswith("opt_state.")) or ["step"]
    for change, says in [(lambda t: t.pop(state[0]), '"%s" is missing' % state[0]),
                         (lambda t: t.update(zzz=Raw("F32", [1], bytes(4))), '"zzz" is not one of'),
                         (lambda t: t.update({state[-1]: Raw("F64", [3], bytes(24))}), '"%s": expected' % state[-1])]:
        broken = dict(tensors)
        change(broken)
        if state == ["step"] and "step" not in broken and not any(n.startswith("hyperparameters.") for n in broken):
            continue  # what is left are parameters
        safetensors.write(run.path("broken"), broken)
        code, _, text = runner.attempt(run.stepc, "run", run.model, "-q", "--steps", "1", *(["--data", run.data] if run.data else []), "--init", run.path("broken"))
        if code != 1 or says not in text:
            raise Differs("expected %r, found exit %d: %s" % (says, code, text.strip()[:200]))


def lists(run, whole):
    listed = json.loads(run.must("explain", run.model, "--state", "--json", *[m for m in run.more if m != "--init"]))
    saved, names = safetensors.raw(whole), {t["name"]: t for t in listed["state"]}
    if set(saved) != set(names):
        raise Differs("explain --state and --all-state differ: %s" % sorted(set(saved) ^ set(names))[:5])
    total = 0
    for name, (dtype, shape, data) in saved.items():
        if names[name]["shape"] != shape or (names[name]["bytes"] != len(data) and not names[name].get("computed")):
            raise Differs("explain --state: %s is %s of %d bytes, saved %s of %d" % (name, names[name]["shape"], names[name]["bytes"], shape, len(data)))
        total += names[name]["bytes"]
    if total != listed["totals"]["bytes"]:
        raise Differs("explain --state: %d bytes in all, found %d" % (listed["totals"]["bytes"], total))
    return listed


def rates(node):
    """The plain learning rates of an optimizer: (object, key)."""
    if isinstance(node, list):
        return [r for n in node for r in rates(n)]
    if not isinstance(node, dict) or node.get("type") in ("inject_hyperparams", "rprop", "scale_by_rprop", "custom"):
        return []
    own = [(node, "learning_rate")] if isinstance(node.get("learning_rate"), (int, float)) else []
    return own + [r for k, n in node.items() if k != "learning_rate" for r in rates(n)]


def sets_rate(run, document, init, listed, stepc, compiled):
    """The bits of a document with another rate."""
    found = rates(document["optimizer"])
    settable = [h for h in listed["hyperparameters"] if h["settable"] and h["slot"] == "hyperparameters." + h["name"]]
    if [h["name"] for h in settable] != ["learning_rate"] or settable[0]["value"] is None or len(found) > 1:
        return False
    other, value = copy.deepcopy(document), settable[0]["value"] * 0.37 + 1e-4
    if not found and any(isinstance(v, (dict, list)) for v in document["optimizer"].values()):
        return False  # a default somewhere inside
    holder, key = rates(other["optimizer"])[0] if found else (other["optimizer"], "learning_rate")
    holder[key] = value
    with tempfile.TemporaryDirectory(prefix="stepc-state-") as folder:
        there = Run(stepc, folder, other, run.data, run.steps, compiled, run.more)
        want, metrics = there.run("want", run.steps, init)
        got, ours = run.run("got", run.steps, init, "--set", "learning_rate=%r" % value)
        same("--set learning_rate", want, got)
        if metrics != ours:
            raise Differs("--set learning_rate: metrics differ")
    return True


# ---------------------------------------------------------------- names

# What Optax keeps although it never changes, and what we keep besides. Optax hides keys in a type of their own.
CONSTANTS = (".ns_coeffs", "opt_state.b1", "optimizer_state.b1")
ADDITIONAL = ("slow.", "eval.", "opt_state.first", "opt_state.0.measurements.")


def names_agree(options):
    with open(os.path.join(HERE, "names.json")) as f:
        optax = json.load(f)
    document, initial, data, steps, _ = next(table_documents())[1:]
    agree = 0
    for case in optax["cases"]:
        with tempfile.TemporaryDirectory(prefix="stepc-state-") as folder:
            run = Run(options.stepc, folder, dict(document, optimizer=case["optimizer"]), None, steps)
            listed = json.loads(run.must("explain", run.model, "--state", "--json"))["state"]
        ours = {t["name"]: [t["dtype"], t["shape"]] for t in listed if t["role"] != "param" and t["name"] != "step"}
        theirs = {n: ["uint32", [2]] if t[0].startswith("key<") else t for n, t in case["state"].items()
                  if not n.endswith(CONSTANTS) and 0 not in t[1]}
        for name in [n for n in ours if n not in theirs and n.startswith(ADDITIONAL + ("hyperparameters.",))]:
            del ours[name]
        if ours != theirs:
            different = sorted(n for n in set(ours) | set(theirs) if ours.get(n) != theirs.get(n))
            print("failed  names of %s: %s" % (json.dumps(case["optimizer"])[:100], [(n, ours.get(n), theirs.get(n)) for n in different[:4]]))
        agree += ours == theirs
    print("%d of %d optimizers name their state as Optax does" % (agree, len(optax["cases"])))
    return agree == len(optax["cases"])


# ---------------------------------------------------------------- documents

def table_documents():
    """Those of tests/unit/frontend/test_optim.c: a loss whose gradients are the inputs."""
    with open(os.path.join(ROOT, "tests/unit/frontend/optim_cases.json")) as f:
        table = json.load(f)
    names = {p: p.replace(".", "_") for p in table["shapes"]}
    document = {"stepc": 1, "name": "test", "inputs": {"g_" + names[p]: {"shape": s} for p, s in table["shapes"].items()},
                "model": {"type": "graph", "output": "scale",
                          "nodes": [{"type": "param", "name": p, "shape": s} for p, s in table["shapes"].items()]},
                "loss": " + ".join("sum(params.%s * g_%s)" % (p, names[p]) for p in names), "metrics": {"size": "global_norm(updates)"}}
    initial = {p: np.reshape(np.float32(table["initial"][p]), s) for p, s in table["shapes"].items()}
    data = {"g_" + names[p]: np.reshape(np.float32([g[p] for g in table["grads"]]), [len(table["grads"])] + s) for p, s in table["shapes"].items()}
    for i, case in enumerate(table["cases"]):
        yield "table_%03d_%s" % (i, case["optimizer"]["type"]), dict(document, optimizer=case["optimizer"]), initial, data, len(table["grads"]), ()


def recorded_cases(everything):
    for name in recorded.names():
        if name.startswith(WITHOUT_STATE) or (name.startswith(IN_TABLE) and not everything):
            continue
        case = recorded.load(name)
        if case.steps >= 2:
            yield name, case.document, case.raw("init") or None, case.raw("data"), min(case.steps, 7), case.sets()


def layered(optimizer, mesh=None, params=None, state=None, **more):
    document = {"stepc": 1, "name": "layered", "inputs": {"x": {"shape": [8, 12], "axes": ["batch", None]}, "y": {"shape": [8, 4], "axes": ["batch", None]}},
                "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 16}, {"type": "tanh"}, {"type": "linear", "features": 4}]},
                "loss": "mean((model - y)**2)", "metrics": {"norm": "global_norm(grads)"}, "optimizer": optimizer}
    if mesh:
        document["mesh"] = {"axes": mesh}
        document["sharding"] = {"rules": [["batch", "data"]], "params": params or {"**": []}}
        if state:
            document["sharding"]["optimizer_state"] = state
    document.update(more)
    values = [((i * 2654435761) % 2048) / 1024.0 - 1 for i in range(5 * 8 * 12)]
    data = {"x": np.reshape(np.float32(values), (5, 8, 12)), "y": np.reshape(np.float32(values[:160]), (5, 8, 4))}
    return document, None, data, 7, ()


SPLIT = {"layers.0.kernel": [None, "model"], "layers.0.bias": ["model"], "layers.2.kernel": ["model", None], "**": []}
ADAM = {"type": "adamw", "learning_rate": 0.01}
FACTORED = {"type": "adafactor", "learning_rate": 0.01, "min_dim_size_to_factor": 2}


def own_documents():
    mesh = {"data": 2, "model": 2}
    yield "mesh_adamw_zero", *layered(ADAM, mesh, SPLIT, {"**": ["data"]})
    yield "mesh_adafactor", *layered(FACTORED, mesh, SPLIT)
    yield "mesh_adafactor_zero", *layered(FACTORED, mesh, SPLIT, {"**": ["data"]})
    yield "mesh_sm3", *layered({"type": "sm3", "learning_rate": 0.01}, mesh, SPLIT)
    yield "mesh_lbfgs", *layered({"type": "lbfgs", "memory_size": 3}, mesh, SPLIT)
    yield "mesh_multi_steps", *layered({"type": "multi_steps", "opt": ADAM, "every_k_schedule": 3}, mesh, SPLIT, {"**": ["data"]}, ema={"decay": 0.9})
    yield "mesh_schedule_free", *layered({"type": "schedule_free_adamw", "learning_rate": 0.01}, mesh, SPLIT)
    yield "half_moments", *layered(dict(ADAM, mu_dtype="bfloat16"))
    yield "half_momentum", *layered({"type": "sgd", "learning_rate": 0.1, "momentum": 0.9, "accumulator_dtype": "bfloat16"})
    yield "half_accumulator", *layered({"type": "multi_steps", "opt": dict(ADAM, mu_dtype="bfloat16"), "every_k_schedule": 2, "accumulator_dtype": "bfloat16"})
    yield "lookahead_window", *layered({"type": "lookahead", "fast_optimizer": ADAM, "sync_period": 3, "slow_step_size": 0.5}, ema={"decay": 0.9})
    yield "two_rates", *layered({"type": "partition", "labels": {"**.kernel": "a", "**": "b"}, "transforms": {"a": ADAM, "b": {"type": "sgd", "learning_rate": 0.1}}})
    yield "injected_schedule", *layered({"type": "inject_hyperparams", "opt": dict(ADAM, learning_rate={"type": "linear_schedule", "init_value": 0.1, "end_value": 0.01, "transition_steps": 5})})
    yield "plain_schedule", *layered(dict(ADAM, learning_rate={"type": "linear_schedule", "init_value": 0.1, "end_value": 0.01, "transition_steps": 5}))


def some_compiled(jobs):
    """Every fourth document of the table once more, as an object."""
    for i, job in enumerate(jobs):
        yield job
        if i % 4 == 0:
            yield ("compiled_" + job[0], *job[1:])


def play(options, job):
    name, document, init, data, steps, sets = job
    compiled = name.startswith(("mesh_", "half_", "lookahead_", "compiled_"))
    with tempfile.TemporaryDirectory(prefix="stepc-state-") as folder:
        try:
            own = name not in options.recorded
            safetensors.write(os.path.join(folder, "data"), data)
            if init:
                safetensors.write(os.path.join(folder, "init"), init)
                init = os.path.join(folder, "init")
            run = Run(options.stepc, folder, document, os.path.join(folder, "data"), steps, compiled, sets)
            # the recorded cases are many, and each optimizer is in the table too
            whole = continues(run, init, [steps // 2] if not own else sorted({1, steps // 2}))
            if document.get("mesh"):
                moves(options.stepc, folder, document, whole, run)
            run.more = []
            listed = lists(run, whole)
            if own and not name.startswith("mesh_"):
                complains(run, whole)
            return name, "set" if sets == () and sets_rate(run, document, init, listed, options.stepc, compiled) else "", ""
        except runner.Failed as e:
            return name, "unsupported" if e.unsupported else "failed", e.brief()
        except (Differs, OSError, ValueError, KeyError) as e:
            return name, "failed", repr(e)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("stepc")
    p.add_argument("-j", type=int, default=2)
    p.add_argument("--all", action="store_true", help="every recorded case with state")
    p.add_argument("--every", type=int, default=1, help="only every Nth document")
    p.add_argument("only", nargs="*")
    options = p.parse_args()
    options.stepc = runner.Server.of(options.stepc)
    options.recorded = set(recorded.names())
    jobs = [j for source in (own_documents(), some_compiled(table_documents()), recorded_cases(options.all or options.only)) for j in source
            if not options.only or any(fnmatch.fnmatchcase(j[0], g) for g in options.only)][:: options.every]
    counts = {"": 0, "set": 0, "unsupported": 0, "failed": 0}
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for name, outcome, why in pool.map(lambda job: play(options, job), jobs):
            counts[outcome] += 1
            if outcome == "failed":
                print("failed  %s: %s" % (name, why), flush=True)
    print("%d continue bit for bit, of these %d with a rate that was set; %d failed, %d not supported yet" %
          (counts[""] + counts["set"], counts["set"], counts["failed"], counts["unsupported"]))
    names = bool(options.only) or names_agree(options)
    return 1 if counts["failed"] or not counts["set"] or not names else 0


if __name__ == "__main__":
    sys.exit(main())
