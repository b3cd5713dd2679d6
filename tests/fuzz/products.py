#!/usr/bin/env python3
"""Random products, one behind the other, and with them those of their gradients: dimensions in every order, batches, extents that no
tile divides and some that several blocks of it do, three dtypes; objects for this processor (with its matrix unit, where it has one) and
three others, with one or several threads. What an object computes must agree with the interpreter: loss, gradients (as momentum) and
parameters. Some are compiled with --numerics invariant for two processors, and must then agree to the bit.

    tests/fuzz/products.py --stepc build/stepc --cases 200 [--seed 1] [-v]

A case is its seed.
"""
import json
import os
import random
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, comparison, processor, runner

EXTENTS = (1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 130)
LONG = (255, 256, 257, 300, 511, 513, 530, 784)
TOLERANCE = {"float32": 2e-4, "bfloat16": 3e-2, "float16": 4e-3}
CPUS = ("x86-64-v3", "x86-64-v4", "native", "native", "native")


def document(seed):
    r = random.Random(seed)
    size = {c: r.choice(EXTENTS) for c in "mknj"}
    several = r.random() < 0.3  # rows and steps of two dimensions each, in any order
    size.update({c: r.choice((2, 3, 4, 8)) for c in "gh"} if several else {})
    if r.random() < 0.4:
        size[r.choice("mknj")] = r.choice(LONG)
    batch = "b" if r.random() < 0.4 else ""
    size["b"] = r.choice((1, 2, 3, 5))
    order = lambda letters: "".join(r.sample(letters, len(letters)) if r.random() < 0.6 else letters)
    rows, steps = ("gm", "hk") if several else ("m", "k")
    shape = lambda letters: [size[c] for c in letters]
    x, w, v, y, z = order(batch + rows + steps), order((batch if r.random() < 0.5 else "") + steps + "n"), order("nj"), order(batch + rows + "n"), order(batch + rows + "j")
    work = lambda of: r.choice(("%s", "tanh(%s)", "silu(%s)", "%s + 0.1")) % of
    dtype = r.choice(("bfloat16",) * 4 + ("float32", "float16"))
    first = work("einsum('%s,%s->%s', %s(x * params.s), %s(params.w))" % (x, w, y, dtype, dtype))
    param = lambda name, letters, scale: {"type": "param", "name": name, "shape": shape(letters), "init": {"type": "normal", "stddev": scale}}
    model = {"stepc": 1, "inputs": {"x": {"shape": shape(x)}},
             "model": {"type": "graph", "nodes": [param("s", x, 1.0), param("w", w, size["k"] ** -0.5), param("v", v, size["n"] ** -0.5)],
                       "output": work("einsum('%s,%s->%s', %s, %s(params.v))" % (y, v, z, first, dtype))},
             "loss": "mean(tanh(float32(model)) * (float32(model) + 0.3))", "optimizer": {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9}}
    return model, dtype, processor.able(r.choice(CPUS)), ["-O0"] if r.random() < 0.3 else [], r.choice((1, 1, 3)), r.random() < 0.15


def run(stepc, folder, what, threads=1):
    tensors, lines = runner.train(stepc, folder, 1, what, arguments=["--all-state"], threads=threads)
    return {**tensors, **runner.series(lines, lines[0])}


def play(stepc, seed, folder, more):
    """None, or what is wrong."""
    model, dtype, cpu, arguments, threads, invariant = document(seed)
    invariant = invariant and not more
    shape = model["inputs"]["x"]["shape"]
    runner.write_document(folder, model, {"x": np.random.default_rng(seed).normal(size=[1] + shape).astype(np.float32)})
    try:
        runner.compile_document(stepc, folder, more or ["--cpu", cpu, *arguments, *(["--numerics", "invariant"] if invariant else [])])
        if invariant:
            runner.compile_document(stepc, folder, ["--cpu", "x86-64-v3", "--numerics", "invariant"], "other.so")
        got = run(stepc, folder, "step.so", threads)
        want = run(stepc, folder, "other.so" if invariant else "model.json")
    except runner.Failed as e:
        return e.brief()
    most = max(float(np.max(np.abs(v), initial=0)) for v in want.values())
    for name, value in want.items():
        if name not in got:
            return "%s is not there" % name
        slack = 0 if invariant else TOLERANCE[dtype] * max(np.max(np.abs(value), initial=0), 0.02 * most)
        said = comparison.difference(got[name], value, atol=slack)
        if said:
            return name + said
    return None


def main():
    options = command.seeds(__doc__, 20, compile_args="")
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="stepc-products-") as folder:
        for seed in range(options.seed, options.seed + options.cases):
            said = play(options.stepc, seed, folder, options.compile_args.split())
            wrong += said is not None
            if said or options.v:
                print("seed %d: %s\n  %s" % (seed, said or "agrees", json.dumps(document(seed))), flush=True)
    print("%d documents, %d wrong" % (options.cases, wrong))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
