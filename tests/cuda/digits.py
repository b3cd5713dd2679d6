#!/usr/bin/env python3
"""What --numerics fast makes of 16-bit arithmetic (codegen/nest/nest_wide.c): gradients of many operations are rounded once, on processors and on
a stand-in for a GPU's driver. Without it every operation rounds.

    tests/cuda/digits.py STEPC   (STEPC_CUDA_DRIVER names the stand-in)
"""
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples")]
import stepc
from tool import processor, runner

COUNT = 4000
DOCUMENT = {"stepc": 1, "name": "digits", "inputs": {"c": {"shape": [COUNT], "dtype": "float32"}},
            "model": {"type": "param", "name": "p", "shape": [COUNT], "init": {"type": "normal", "stddev": 1.5}},
            "loss": "sum(astype(gelu(astype(model, '%s')), 'float32') * c)", "optimizer": {"type": "sgd", "learning_rate": 1.0}, "seed": 3}
BITS = {"bfloat16": 8, "float16": 11}  # of a number's digits


def rounded(x, dtype):
    """Ties to even."""
    fraction, exponent = np.frexp(np.asarray(x, "f8"))
    return np.ldexp(np.round(fraction * 2.0 ** BITS[dtype]) / 2.0 ** BITS[dtype], exponent)


def gradient(x, dtype):
    """Of a GELU by its formula with tanh, whose numbers are those of the dtype."""
    a, b = rounded(np.sqrt(2 / np.pi), dtype), rounded(0.044715, dtype)
    t = np.tanh(a * (x + b * x ** 3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * b * x * x)


class Digits(runner.Case):
    verify = False

    def worst(self, dtype, *options):
        """How far gradients are from exact ones, in units of the last place of numbers from 1 to 2."""
        path, so = self.write("model.json", dict(DOCUMENT, loss=DOCUMENT["loss"] % dtype)), self.path("step.so")
        self.stepc("compile", path, "-q", "-o", so, *options)
        m = stepc.Step(so)
        m.init()
        before = m["p"].astype("f8")
        m.step(c=np.ones(COUNT, np.float32))
        made = before - m["p"].astype("f8")  # float32, of numbers of one size: that is exact enough
        return np.abs(made - gradient(rounded(before, dtype), dtype)).max() * 2 ** (BITS[dtype] - 1)

    def test_rounded_once(self):
        for dtype in BITS:
            for target in [("--cpu", level) for level in processor.levels()] + [("--target", "cuda", "--cuda-arch", "text")]:
                with self.subTest(dtype=dtype, target=target):
                    self.assertLess(self.worst(dtype, "--numerics", "fast", *target), 0.51)
                    self.assertGreater(self.worst(dtype, *target), 1.5)

    def test_counted(self):
        """`explain` counts the roundings among the instructions of a GPU's kernels, three for each of float16, most of bfloat16 at once: some 20 of an element go."""
        for dtype, each in ("float16", 3), ("bfloat16", 1):
            path = self.write("model.json", dict(DOCUMENT, loss=DOCUMENT["loss"] % dtype))
            strict, fast = (sum(row[10] for row in json.loads(self.stepc("explain", path, "--kernels", "--json", "--target", "cuda", *more).stdout)["launches"]["step"])
                            for more in ((), ("--numerics", "fast")))
            self.assertGreater(fast, 20 * COUNT)  # what a GELU's gradient takes without them
            self.assertTrue(15 * each * COUNT < strict - fast < 35 * each * COUNT, (dtype, strict, fast))


if __name__ == "__main__":
    runner.main()
