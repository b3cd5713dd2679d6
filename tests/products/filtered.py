#!/usr/bin/env python3
"""Convolutions that take fewer multiplications (--numerics fast): forward, by the image and by the kernel, of tiles that stick out, and of channels
that no vector divides, on one thread and on three, for every instruction set of this machine. Operands are small whole numbers, so that
all sums and points are exact: a single wrong element is seen. `explain --kernels` says where it is so, and nowhere else.

    tests/products/filtered.py STEPC
"""
import os
import sys

import numpy as np

from products import STEPC, levels
import stepc
from tool import runner

# images, their sides, channels, features, padding; a stride in its place, for which there are no tiles
CASES = [(2, (16, 16), 32, 32, "SAME"), (3, (13, 14), 20, 50, "SAME"), (2, (17, 19), 33, 48, "VALID"), (8, (7, 7), 64, 40, [[1, 0], [2, 1]]), (1, (30, 9), 48, 16, "CIRCULAR"),
         (4, (130,), 64, 64, "SAME"), (3, (97,), 96, 72, "CAUSAL"), (6, (65,), 128, 64, "VALID"), (2, (16, 16), 32, 32, 2)]


def document(images, sides, channels, features, padding, border=False):
    """border: zeros around the result, so that its cotangent is cut off one that has a border."""
    shape = [images, *sides, channels]
    layer = {"type": "conv", "name": "c", "input": "x", "features": features, "kernel_size": [3] * len(sides), "use_bias": False,
             **({"strides": padding} if isinstance(padding, int) else {"padding": padding})}
    return {"stepc": 1, "name": "filtered", "inputs": {"rows": {"shape": [1], "axes": [None]}},
            "model": {"type": "graph", "output": "pad(c, (%s))" % ", ".join("(%d, %d)" % (n, n) for n in (0, *[1] * len(sides), 0)) if border else "c", "nodes": [{"type": "param", "name": "x", "shape": shape, "init": {"type": "zeros"}}, layer]},
            "loss": "sum(model * stop_gradient(floor(model / 64)) + relu(model + 1)) + sum(rows)", "optimizer": {"type": "sgd", "learning_rate": 1.0}}


class Filtered(runner.Case):
    def step(self, path, cpu, threads, *options):
        """Loss, image and kernel after a step."""
        so = self.path("step.so")
        self.stepc("compile", path, "-q", "-o", so, "--cpu", cpu, *options)
        m, random = stepc.Step(so, threads=threads), np.random.default_rng(0)
        m.init()
        for name in "x", "c.kernel":
            m[name] = random.integers(-3, 4, m[name].shape).astype(np.float32)
        loss = m.step(rows=np.zeros(1, np.float32)).loss
        return loss, m["x"].copy(), m["c.kernel"].copy()

    def test_exact(self):
        for number, case in enumerate(CASES):
            for border, cpus in ((False, levels()), (True, levels()[-1:])):
                path = self.write("model.json", document(*case, border))
                for cpu in cpus:
                    plain = self.step(path, cpu, 1)
                    for threads in (1, 3) if number % 2 else (1,):
                        with self.subTest(case=case, border=border, cpu=cpu, threads=threads):
                            fast = self.step(path, cpu, threads, "--numerics", "fast")
                            for a, b in zip(plain[1:], fast[1:]):
                                self.assertTrue(np.array_equal(a, b), "%d of %d differ" % (np.sum(a != b), a.size))
                            self.assertAlmostEqual(plain[0], fast[0], delta=1e-6 * abs(plain[0]))

    def test_said(self):
        for case in CASES:
            path = self.write("model.json", document(*case))
            plain, fast = (self.stepc("explain", path, "--kernels", *options).stdout for options in ((), ("--numerics", "fast")))
            self.assertNotIn("winograd", plain)
            self.assertEqual("with fewer multiplications (winograd)" in fast, not isinstance(case[4], int), case)

    def test_where(self):
        """Not with checks, not of bfloat16 that the CPU multiplies in pairs; too late for what is fused."""
        whole = document(*CASES[0])
        half = {**whole, "precision": {"compute": "bfloat16"}}
        for is_so, model, cpu, *options in ((True, whole, "x86-64-v3"), (False, whole, "x86-64-v3", "--check-finite"), (True, half, "x86-64-v3"), (False, half, "znver4"),
                                            (False, whole, "x86-64-v3", "--blas", "openblas")):
            path = self.write("model.json", model)
            text = self.stepc("compile", path, "-q", "--cpu", cpu, "--numerics", "fast", "--stop-after", "fuse", *options).stdout
            self.assertEqual("winograd(" in text, is_so, (cpu, options))
        late = self.write("late.sir", text)
        self.assertIn("W0109", self.stepc("compile", late, "-o", self.path("late.so"), "--numerics", "fast", "-W", "error", code=1).stderr)


if __name__ == "__main__":
    runner.main()
