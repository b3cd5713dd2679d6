#!/usr/bin/env python3
"""Small documents that unfold to a lot: repeats of repeats, definitions that use one another several times, nested calls, splits,
many parameters, in each other at random. stepc must check them or refuse them with a diagnostic at its place, with no more CPU
time and memory than a limit of values allows, never be ended from outside, and take a time that follows the values.

    tests/fuzz/unfolding.py --stepc build/stepc --cases 2000 [--seed 1] [-v]

A case is its seed. CPU seconds for a refusal: 2 on a quiet machine, for what is checked 3; --slow 3 times as many by default.
"""
import json
import os
import random
import resource
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, runner

CALLS = ["integer_pow({}, 3)", "gammaln({})", "softplus({})", "({} + 1.5)", "tanh({})", "{} * {}", "where({} > 0, {}, 0.1)", "concatenate([{}, {}])[:8]", "roll({}, 1, axis=0)",
         "split({}, 2)[0]", "softmax({}, axis=-1)", "cumsum({}, axis=0)", "sort({}, axis=0)", "flip({}, 0)", "{} + {}"]
LEAVES = [{"type": "linear", "features": 4}, {"type": "relu"}, {"type": "layer_norm"}, {"type": "dropout", "rate": 0.1}, {"type": "expr", "expr": "x * 1.5"},
          {"type": "linear", "features": 4, "use_bias": False}, {"type": "param", "shape": [4]}, {"type": "batch_norm"}]
OPTIMIZERS = [{"type": "sgd", "learning_rate": 0.1}, {"type": "adamw", "learning_rate": 0.1}, {"type": "lion", "learning_rate": 0.1}]
SIZES = [1, 2, 3, 5, 10, 30, 100, 300, 1000, 4096]


def expression(draw, depth):
    text = "x"
    for _ in range(draw.randint(1, depth)):
        call = draw.choice(CALLS)
        if len(text) * call.count("{}") > 4000:
            break
        text = call.format(*[text] * call.count("{}"))
    return text


def block(draw, depth, definitions):
    kinds = ["leaf", "leaf", "expr"] + (["repeat", "repeat", "sequential", "residual"] if depth else []) + (["define"] * 2 if definitions else [])
    kind = draw.choice(kinds)
    if kind == "expr":
        return {"type": "expr", "expr": expression(draw, draw.choice([2, 10, 40]))}
    if kind == "define":
        return {"type": draw.choice(definitions)}
    if kind == "repeat":
        return {"type": "repeat", "count": draw.choice(SIZES), "block": block(draw, depth - 1, definitions)}
    if kind in ("sequential", "residual"):
        return {"type": kind, "layers": [block(draw, depth - 1, definitions) for _ in range(draw.randint(1, 4))]}
    return dict(draw.choice(LEAVES))


def document(seed):
    draw = random.Random(seed)
    defines = {}
    for i in range(draw.choice([0, 0, 2, 10, 30])):
        before = ["d%d" % (i - 1)] if i else []
        defines["d%d" % i] = {"body": {"type": "sequential", "layers": [block(draw, 1, before) for _ in range(draw.randint(1, 3))]}}
    layers = [{"type": "linear", "features": 4}] + [block(draw, draw.randint(0, 4), list(defines)[-1:]) for _ in range(draw.randint(1, 3))]
    return {"stepc": 1, "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}}, "model": {"type": "sequential", "input": "x", "layers": layers},
            "loss": "mean(model**2)", "optimizer": draw.choice(OPTIMIZERS), **({"define": defines} if defines else {}),
            **({"ema": {"decay": 0.9}} if draw.random() < 0.2 else {})}


def attempt(options, path):
    """(exit code, what it said, CPU seconds, MiB)"""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0), os.dup2(null, 1), os.dup2(writer, 2)
            os.execv(options.stepc, [options.stepc, "check", path, "--diagnostics", "json", "--timeout", str(int(60 * options.slow))])
        finally:  # not the folder's end, which is the parent's
            os._exit(127)
    os.close(writer)
    with open(reader, encoding="utf-8", errors="replace") as f:
        said = f.read()
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), said, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def judge(options, code, said, seconds, mebi):
    """What is wrong; None: nothing."""
    if code not in (0, 1):
        return "ended with %d: %s" % (code, said[-300:])
    if mebi > 4096 + 256:
        return "took %d MiB" % mebi
    if code == 0:
        return "checked in %.1f s" % seconds if seconds > 3 * options.slow else None
    if not said.startswith("{"):
        return "refused without a diagnostic: %s" % said[:300]
    first = json.loads(said.splitlines()[0])
    if not first["spans"] or not first.get("pointer"):
        return "no place: %s" % said[:300]
    if seconds > 2 * options.slow:
        return "refused after %.1f s: %s" % (seconds, first["message"])
    return None


def main():
    options = command.seeds(__doc__, 100, slow=3)
    os.environ.pop(runner.VERIFY, None)
    counts, wrong, most = {}, 0, [0, 0]
    with tempfile.TemporaryDirectory(prefix="stepc-unfolding-") as folder:
        for seed in range(options.seed, options.seed + options.cases):
            path = runner.write_json(os.path.join(folder, "m.json"), document(seed))
            code, said, seconds, mebi = attempt(options, path)
            why = judge(options, code, said, seconds, mebi)
            kind = "checked" if code == 0 else "unfold too far" if "E0116" in said else "refused otherwise"
            counts[kind] = counts.get(kind, 0) + 1
            most = [max(most[0], seconds), max(most[1], mebi)]
            if options.v:
                print("%d: %s, %.2f s, %d MiB %s" % (seed, kind, seconds, mebi, said[:200] if code else ""), flush=True)
            if why:
                wrong += 1
                print("seed %d: %s" % (seed, why), flush=True)
    print("%d documents: %s; at most %.1f s of CPU time and %d MiB; %d wrong"
          % (options.cases, ", ".join("%d %s" % (n, kind) for kind, n in sorted(counts.items())), *most, wrong))
    return wrong != 0


sys.exit(main())
