#!/usr/bin/env python3
"""Groups of few channels, several of which are multiplied in one vector: forward, by the image and by the kernel; groups that no vector has whole, as
many inputs as columns and other numbers of them, strides, dilations, one to three dimensions, and products of narrow matrices side by side that are no
convolutions; on one thread and on three, for every instruction set of this machine. Operands are small whole numbers, so that all sums are exact: a
single wrong element is seen.

    tests/products/grouped.py STEPC
"""
import itertools
import os
import sys

import numpy as np

from products import STEPC, levels
import stepc
from tool import runner

# images, their sides, groups, inputs and columns of each, kernel, strides, dilations
CASES = [(8, (28, 28), 8, 4, 4, (3, 3), 1, 1), (2, (13, 17), 9, 4, 4, (3, 3), 1, 1), (3, (12, 11), 5, 8, 8, (3, 3), 2, 1), (2, (9, 14), 7, 3, 3, (3, 5), 1, 1),
         (4, (10, 9), 11, 2, 6, (2, 3), 1, 2), (3, (9, 9), 6, 5, 1, (3, 3), 1, 1), (2, (8, 21), 13, 1, 4, (5, 17), (1, 2), 1), (64, (31,), 12, 2, 2, (7,), 1, 1),
         (2, (5, 6, 7), 6, 4, 2, (3, 2, 3), 1, 1), (3, (6, 6), 16, 4, 4, (1, 1), 1, 1), (2, (7, 7), 3, 7, 5, (3, 3), 1, 1),
         (2, (90,), 6, 4, 4, (31,), 1, 1), (1, (3, 3), 4, 2, 2, (3, 3), 1, 1), (9, (1, 50), 5, 8, 8, (1, 30), 1, 1)]
# rows, groups, inputs, columns
PRODUCTS = [(1000, 8, 4, 4), (37, 6, 8, 3), (5, 40, 2, 2), (515, 3, 5, 7)]


def tensor(*shape):
    return {"shape": list(shape), "axes": [None] * len(shape)}


def document(shape, kernel, out, layer):
    """Of a layer between two parameters: the loss is the sum of what it gives times the input g."""
    param = lambda name, shape: {"type": "param", "name": name, "shape": list(shape), "init": {"type": "zeros"}}
    nodes = [param("x", shape), {"name": "c", "input": "x", **layer} if isinstance(layer, dict) else param("c", kernel)]
    return {"stepc": 1, "name": "grouped", "inputs": {"g": tensor(*out)},
            "model": {"type": "graph", "nodes": nodes, "output": "c" if isinstance(layer, dict) else layer}, "loss": "sum(model * g)",
            "optimizer": {"type": "sgd", "learning_rate": 1.0}}


def taps(case):
    """The places of the image, one after the other, that each tap of the kernel meets."""
    _, sides, _, _, _, kernel, strides, dilations = case
    per = lambda n, i: n[i] if isinstance(n, tuple) else n
    extent = [(side - (size - 1) * per(dilations, i) - 1) // per(strides, i) + 1 for i, (side, size) in enumerate(zip(sides, kernel))]
    for tap in itertools.product(*map(range, kernel)):
        at = [t * per(dilations, i) for i, t in enumerate(tap)]
        yield tap, extent, tuple(slice(a, a + (n - 1) * per(strides, i) + 1, per(strides, i)) for i, (a, n) in enumerate(zip(at, extent)))


class Grouped(runner.Case):
    def play(self, model, cpu, threads, reference):
        """A step, of which `reference` makes loss, image and kernel from image, kernel and g."""
        so = self.path("step.so")
        self.stepc("compile", self.write("model.json", model), "-q", "-o", so, "--cpu", cpu)
        m, random = stepc.Step(so, threads=threads), np.random.default_rng(0)
        m.init()
        names = "x", "c.kernel" if model["model"]["output"] == "c" else "c"
        x, k = (random.integers(-3, 4, m[name].shape).astype(np.float32) for name in names)
        g = random.integers(-2, 3, model["inputs"]["g"]["shape"]).astype(np.float32)
        m[names[0]], m[names[1]] = x, k
        got = [m.step(g=g).loss, m[names[0]].copy(), m[names[1]].copy()]
        loss, dx, dk = reference(*(v.astype(np.float64) for v in (x, k, g)))
        self.assertAlmostEqual(got[0], loss, delta=1e-6 * abs(loss))
        for a, b in zip(got[1:], (x - dx, k - dk)):
            self.assertTrue(np.array_equal(a, b), "%d of %d differ" % (np.sum(a != b), a.size))

    def all(self, number, model, reference):
        for cpu in levels():
            for threads in (1, 3) if number % 2 else (1,):
                with self.subTest(model=model["model"], cpu=cpu, threads=threads):
                    self.play(model, cpu, threads, reference)

    def test_convolutions(self):
        for number, case in enumerate(CASES):
            images, sides, groups, inputs, columns, kernel, strides, dilations = case
            many = lambda n: list(n) if isinstance(n, tuple) else [n] * len(sides)
            layer = {"type": "conv", "features": groups * columns, "kernel_size": list(kernel), "strides": many(strides), "kernel_dilation": many(dilations),
                     "padding": "VALID", "use_bias": False, "feature_group_count": groups}
            out = [images, *next(taps(case))[1], groups * columns]

            def reference(x, k, g, case=case):
                x, k, g = (v.reshape(*v.shape[:-1], groups, -1) for v in (x, k, g))
                y, dx, dk = np.zeros(g.shape), np.zeros(x.shape), np.zeros(k.shape)
                for tap, _, places in taps(case):
                    at = (slice(None), *places)
                    y += np.einsum("...gi,igo->...go", x[at], k[tap])
                    dx[at] += np.einsum("...go,igo->...gi", g, k[tap])
                    dk[tap] += np.einsum("...gi,...go->...igo", x[at], g).sum(tuple(range(x.ndim - 2)))
                return np.sum(y * g), dx.reshape(*x.shape[:-2], -1), dk.reshape(*k.shape[:-2], -1)

            self.all(number, document((images, *sides, groups * inputs), None, out, layer), reference)

    def test_products(self):
        for number, (rows, groups, inputs, columns) in enumerate(PRODUCTS):
            reference = lambda x, k, g: (np.einsum("rgi,igo,rgo", x, k, g), np.einsum("igo,rgo->rgi", k, g), np.einsum("rgi,rgo->igo", x, g))
            self.all(number, document((rows, groups, inputs), (inputs, groups, columns), (rows, groups, columns), "einsum('rgi,igo->rgo', x, c)"), reference)


if __name__ == "__main__":
    runner.main()
