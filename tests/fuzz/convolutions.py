#!/usr/bin/env python3
"""Random convolutions, three behind one another, so that the gradients of kernels and images are made too: one to three spatial
dimensions, strides, dilations of kernel and input, every padding, groups, transposed ones, odd extents and numbers of channels,
batch normalisation between them, four dtypes; objects for three instruction sets and with one or several threads. What an object
computes must agree with the interpreter: loss, gradients (as momentum) and parameters.

    tests/fuzz/convolutions.py --stepc build/stepc --cases 200 [--seed 1] [--compile-args "--target cuda"] [-v]

A case is its seed. A document that stepc refuses (a window that does not fit) is drawn again.
"""
import json
import os
import random
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, comparison, processor, runner

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 24, 33, 40, 50)
TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "bfloat16": 8e-2, "float16": 2e-2}


def convolution(r, rank, given, last):
    pick = lambda *values: [r.choice(values) for _ in range(rank)]
    if r.random() < 0.15 and not last:
        return {"type": "conv_transpose", "features": r.choice(CHANNELS), "kernel_size": pick(1, 2, 3), "strides": pick(1, 1, 2, 3),
                "padding": r.choice(("SAME", "VALID", "CIRCULAR")), "use_bias": r.random() < 0.5}
    groups = r.choice([1, 1, 1, 1] + [g for g in range(2, given + 1) if given % g == 0])
    features = groups * r.choice((1, 1, 2, 3, 4, 5, 8)) if groups > 1 else r.choice(CHANNELS)
    paddings = ["SAME", "SAME", "VALID", "CIRCULAR", "REFLECT", "SAME_LOWER", 1, [[r.randint(0, 2), r.randint(0, 2)] for _ in range(rank)]]
    out = {"type": "conv", "features": features, "kernel_size": pick(1, 2, 3, 3, 5), "strides": pick(1, 1, 1, 2, 3), "use_bias": r.random() < 0.5,
           "padding": r.choice(paddings + (["CAUSAL"] if rank == 1 else [])), "feature_group_count": groups}
    if r.random() < 0.2:
        out["kernel_dilation"] = pick(1, 2)
    if r.random() < 0.1:
        out["input_dilation"] = pick(1, 2)
    return out


def document(seed):
    r = random.Random(seed)
    rank = r.choice((1, 2, 2, 2, 2, 3))
    large = seed % 10 == 0  # more than the second cache holds
    most = {1: 900, 2: 40, 3: 12}[rank] if large else {1: 40, 2: 17, 3: 7}[rank]
    given, layers = r.choice(CHANNELS[-5:] if large else CHANNELS), []
    shape = [r.choice((5, 9, 16) if large else (1, 2, 3, 5))] + [r.randint(most * 2 // 3 if large else 3, most) for _ in range(rank)] + [given]
    for i in range(2 if large else 3):
        layers.append(convolution(r, rank, given, i == 2))
        given = layers[-1]["features"]
        if r.random() < 0.3:
            layers[-1]["use_bias"] = False  # its gradient would be 0, and what is found rounding alone
            layers.append({"type": "batch_norm"})
        if r.random() < 0.5:
            layers.append({"type": r.choice(("relu", "tanh", "gelu"))})
    dtype = r.choice(("float32",) * 6 + ("float64", "bfloat16", "float16"))
    model = {"stepc": 1, "inputs": {"x": {"shape": shape, "axes": ["batch"] + [None] * (rank + 1)}},
             "model": {"type": "sequential", "input": "x", "layers": layers}, "loss": "mean(tanh(model) * (model + 0.3))",
             "optimizer": {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9}}
    if dtype in ("bfloat16", "float16"):
        model["precision"] = {"compute": dtype}
    if dtype == "float64":
        model["inputs"]["x"]["dtype"] = dtype
    arguments, threads = ["--cpu", processor.able(r.choice(("x86-64-v2", "x86-64-v3", "x86-64-v4", "native"))), r.choice(("-O0", "-O0", "-O2"))], r.choice((1, 1, 3))
    return model, dtype, arguments + ["--numerics", r.choice(("reproducible", "fast"))], threads


def play(stepc, seed, folder, more):
    """None; what is wrong; or that it was refused."""
    model, dtype, arguments, threads = document(seed)
    rng = np.random.default_rng(seed)
    shape = model["inputs"]["x"]["shape"]
    runner.write_document(folder, model, {"x": rng.normal(size=[1] + shape).astype(dtype if dtype == "float64" else np.float32)})
    try:
        runner.compile_document(stepc, folder, more or arguments)
    except runner.Failed as e:
        return None if "error[E02" in str(e) or "error[E01" in str(e) else e.brief(), True
    try:
        want = runner.train(stepc, folder, 1, arguments=["--all-state"])
        got = runner.train(stepc, folder, 1, "step.so", arguments=["--all-state"], threads=threads)
    except runner.Failed as e:
        return e.brief(), False
    want, got = [{**tensors, **runner.series(lines, lines[0])} for tensors, lines in (want, got)]
    rtol = TOLERANCE[dtype if dtype != "float64" else "float32"]
    most = max(float(np.max(np.abs(v), initial=0)) for v in want.values())
    for name, value in want.items():
        if name not in got:
            return "%s is not there" % name, False
        said = comparison.difference(got[name], value, atol=rtol * max(np.max(np.abs(value), initial=0), 0.02 * most))  # a gradient may be 0 but for rounding
        if said:
            return "%s%s" % (name, said), False
    return None, False


def main():
    options = command.seeds(__doc__, 20, compile_args="")
    wrong = refused = 0
    with tempfile.TemporaryDirectory(prefix="stepc-convolutions-") as folder:
        for seed in range(options.seed, options.seed + options.cases):
            said, no = play(options.stepc, seed, folder, options.compile_args.split())
            refused += no and not said
            wrong += said is not None
            if said or options.v:
                print("seed %d: %s\n  %s" % (seed, said or ("refused" if no else "agrees"), json.dumps(document(seed)[0]["model"])), flush=True)
    few = refused > options.cases * 0.6
    print("%d documents: %d agree, %d refused, %d wrong%s" % (options.cases, options.cases - refused - wrong, refused, wrong, "; too many were refused" if few else ""))
    return wrong != 0 or few


if __name__ == "__main__":
    sys.exit(main())
