#!/usr/bin/env python3
"""Plain matrix products: the kernels of this compiler against OpenBLAS, one thread, rounds interleaved.

    tests/bench/kernels.py [--stepc build/stepc] [--rounds N] [--json FILE] [LAYOUTxMxNxK ...]

LAYOUT: nn, nt, tn (t: the operand is stored transposed). A document with one product is compiled twice, with
`--blas own` and `--blas openblas`, and evaluated in turns. Both sides also read the product once, to sum it. A side's
time in a round is its best of several steps, a ratio the median over the rounds of OpenBLAS's time / ours (above 1: we
are faster), with the least and the greatest. Of a product so small that its step becomes one function both sides run
the same code. The rules in kernels/kernels.def come from this table.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "samples"))

SHAPES = ["nn64x256x64", "nn768x128x128", "nn768x512x128", "nn768x128x512", "nt768x65x128",
          "nt768x128x512", "nt768x512x128", "tn128x128x768", "tn512x128x768", "tn128x512x768", "nn512x512x512",
          "nt512x512x512", "tn512x512x512", "nn1024x1024x1024", "tn128x128x8192", "tn256x256x4096",
          "tn128x512x8192", "tn512x512x3000", "tn512x512x8192"]


def parse(text):
    m, n, k = (int(x) for x in text[2:].split("x"))
    return text[:2], m, n, k


def document(shape):
    layout, m, n, k = shape
    tensor = lambda *dims: {"shape": list(dims), "dtype": "float32", "axes": [None, None]}
    a = tensor(k, m) if layout[0] == "t" else tensor(m, k)
    b = tensor(n, k) if layout[1] == "t" else tensor(k, n)
    product = "%s @ %s" % ("transpose(a)" if layout[0] == "t" else "a", "transpose(b)" if layout[1] == "t" else "b")
    return {"stepc": 1, "name": "product", "inputs": {"a": a, "b": b},
            "model": {"type": "param", "name": "w", "shape": [1], "init": {"type": "ones"}},
            "loss": "sum(%s) * sum(model)" % product, "optimizer": {"type": "sgd", "learning_rate": 0.0}}


def side(options, folder, shape, blas):
    import stepc
    source, so = os.path.join(folder, "model.json"), os.path.join(folder, "%s-%s.so" % (blas, "-".join(map(str, shape))))
    with open(source, "w") as f:
        json.dump(document(shape), f)
    subprocess.run([options.stepc, "compile", source, "-o", so, "--blas", blas], check=True)
    m = stepc.Step(so, threads=1)
    m.init()
    return m


def measure(options, folder, shape):
    layout, m, n, k = shape
    random = np.random.default_rng(0)
    a = random.standard_normal((k, m) if layout[0] == "t" else (m, k), np.float32)
    b = random.standard_normal((n, k) if layout[1] == "t" else (k, n), np.float32)
    sides = {blas: side(options, folder, shape, blas) for blas in ("own", "openblas")}
    values = {name: s.step(a=a, b=b).loss for name, s in sides.items()}
    if not np.isclose(values["own"], values["openblas"], rtol=1e-3, atol=1e-3 * (m * n * k) ** 0.5):
        raise SystemExit("%s: the sides differ: %s" % (shape, values))
    count = max(1, int(options.work / (2 * m * n * k)))
    times = {name: [] for name in sides}
    for _ in range(options.rounds + 1):
        for name, s in sides.items():
            times[name].append(min(s.step(a=a, b=b).seconds for _ in range(count)))
    own, other = (np.array(times[name][1:], float) for name in ("own", "openblas"))
    ratio = other / own
    return {"own_gflops": 2e-9 * m * n * k / own.min(), "openblas_gflops": 2e-9 * m * n * k / other.min(),
            "ratio": float(np.median(ratio)), "least": float(ratio.min()), "greatest": float(ratio.max())}


def main():
    p = argparse.ArgumentParser(description="Matrix products: own kernels against OpenBLAS, interleaved.")
    p.add_argument("--stepc", default=os.path.join(ROOT, "build/stepc"))
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--work", type=float, default=4e9, help="operations per round and side")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("shapes", nargs="*", default=SHAPES, metavar="LAYOUTxMxNxK, as tn512x128x768")
    options = p.parse_args()
    result = {}
    with tempfile.TemporaryDirectory(prefix="stepc-kernels-") as folder:
        for text in options.shapes:
            result[text] = r = measure(options, folder, parse(text))
            print("%-18s own %6.1f GFLOP/s  openblas %6.1f GFLOP/s  ratio %.2f (%.2f to %.2f)"
                  % (text, r["own_gflops"], r["openblas_gflops"], r["ratio"], r["least"], r["greatest"]), flush=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"schema": 1, "shapes": result}, f, indent=1)


if __name__ == "__main__":
    main()
