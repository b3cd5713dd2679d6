#!/usr/bin/env python3
"""Random arrays moved about: transposed, reshaped, joined, cut, padded, turned round, looked up, scanned and summed, a dozen operations on
top of one another, of extents at which kernels are cut, turned, joined and shared out; three dtypes; objects for this processor and others,
with one or several threads. What an object computes must agree with the interpreter: loss, gradients (as momentum) and parameters.

    tests/fuzz/arrays.py --stepc build/stepc --cases 200 [--seed 1] [--compile-args "--target cuda"] [-v]

A case is its seed. Values stay near one, so that nothing hides behind a larger number; sums of what is rounded differ in their last bits.
"""
import os
import random
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import sequences
from tool import processor

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 48, 64, 65, 96, 100, 130, 256, 257, 300, 512)
MOST = 1 << 18
CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "native", "native")


class Draw:
    """Expressions over arrays that are there already, as (text, shape)."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.made = []

    def extent(self, most):
        return self.r.choice([e for e in EXTENTS if e <= max(most, 1)])

    def shape(self):
        rank, shape, left = self.r.choice((1, 2, 2, 2, 3, 3, 4)), [], self.r.choice((5000, 40000, MOST))
        for _ in range(rank):
            shape.append(self.extent(left))
            left //= shape[-1]
        return self.r.sample(shape, rank)

    def pick(self, rank=1):
        fit = [m for m in self.made[-4:] if len(m[1]) >= rank]
        return self.r.choice(fit[-1:] + fit) if fit else None

    def moved(self):
        """One more array, or None where what was picked does not suit."""
        r = self.r
        found = self.pick(r.choice((1, 1, 2, 2, 3)))
        if found is None:
            return None
        a, s = found
        n, axis = len(s), r.randrange(len(s))
        size = int(np.prod(s))
        kind = r.choice(("transpose", "transpose", "reshape", "concatenate", "concatenate", "split", "slice", "pad", "flip", "roll", "take", "lookup", "scan",
                         "sum", "normalise", "map", "map", "binary", "binary", "where", "matmul", "repeat", "stack", "sort", "triangle", "strided", "update", "update", "top", "put"))
        if kind == "transpose" and n > 1:
            axes = r.sample(range(n), n)
            return "transpose(%s, %s)" % (a, axes), [s[i] for i in axes]
        if kind == "reshape":
            flat = [f for e in s for f in self.factors(e)]
            shape = []
            for f in flat:
                if shape and (r.random() < 0.5 or len(shape) > 3):
                    shape[-1] *= f
                else:
                    shape.append(f)
            return "reshape(%s, %s)" % (a, shape or [1]), shape or [1]
        if kind in ("concatenate", "stack"):
            same = [m for m in self.made[-6:] if len(m[1]) == n and all(x == y or (i == axis and kind == "concatenate") for i, (x, y) in enumerate(zip(m[1], s)))]
            parts = [r.choice(same) for _ in range(r.choice((2, 2, 3, 4, 5)))] if same else [found, found]
            if kind == "stack":
                shape = s[:axis] + [len(parts)] + s[axis:]
            else:
                shape = [sum(p[1][i] for p in parts) if i == axis else e for i, e in enumerate(s)]
            return None if np.prod(shape) > MOST or len(shape) > 5 else ("%s([%s], axis=%d)" % (kind, ", ".join("%s * %.2f" % (p[0], r.uniform(0.3, 1)) for p in parts), axis), shape)
        if kind in ("split", "slice", "strided"):
            cut = []
            for i, e in enumerate(s):
                if kind != "slice" and i != axis or r.random() < 0.3:
                    cut.append((0, e, 1))
                else:
                    begin = r.randrange(e)
                    cut.append((begin, r.randrange(begin, e) + 1, r.choice((2, 3)) if kind == "strided" else 1))
            return "%s[%s]" % (a, ", ".join("%d:%d:%d" % c for c in cut)), [len(range(*c)) for c in cut]
        if kind == "pad":
            widths = [(r.choice((0, 0, 1, 3)), r.choice((0, 0, 1, 2))) for _ in s]
            shape = [e + sum(w) for e, w in zip(s, widths)]
            return None if np.prod(shape) > MOST else ("pad(%s, %s, constant_values=%s)" % (a, [list(w) for w in widths], r.choice(("0", "0.5"))), shape)
        if kind == "flip":
            return "flip(%s, axis=%d)" % (a, axis), s
        if kind == "roll":
            return "roll(%s, %d, axis=%d)" % (a, r.randrange(-s[axis], s[axis] + 1), axis), s
        if kind == "take":
            count = self.extent(MOST // max(size // s[axis], 1))
            return "take(%s, (arange(%d) * %d + %d) %% %d, axis=%d)" % (a, count, r.choice((1, 3, 7)), r.randrange(s[axis]), s[axis], axis), s[:axis] + [count] + s[axis + 1:]
        if kind == "lookup":
            index = "int32(iota('int32', %d)[%s] * 5 + iota('int32', %d)[%s]) %% %d" % (
                s[axis], ", ".join(":" if i == axis else "None" for i in range(n)), s[0], ", ".join(":" if i == 0 else "None" for i in range(n)), s[axis])
            return "take_along_axis(%s, broadcast_to(%s, %s), axis=%d)" % (a, index, s, axis), s
        if kind == "scan":
            return "%s(%s * %.4f, axis=%d)" % (r.choice(("cumsum", "cummax", "cumsum", "cumlogsumexp")), a, 1 / s[axis], axis), s
        if kind == "sum":
            axes = sorted(r.sample(range(n), r.randrange(1, n + 1)))
            keep = r.random() < 0.5
            shape = [1 if i in axes else e for i, e in enumerate(s) if keep or i not in axes]
            return None if not shape else ("%s(%s, axis=%s, keepdims=%s)" % (r.choice(("mean", "mean", "max", "logsumexp", "min")), a, axes, ("False", "True")[keep]), shape)
        if kind == "normalise":
            return r.choice(("softmax(%s, axis=%d)", "log_softmax(%s, axis=%d) * 0.1", "%s - mean(%s, axis=%d, keepdims=True)", "%s / (1 + sqrt(mean(square(%s), axis=%d, keepdims=True)))")).replace(
                "%s", a).replace("%d", str(axis)), s
        if kind == "map":
            return r.choice(("tanh(%s)", "silu(%s)", "gelu(%s)", "sin(%s * 2)", "exp(%s * 0.3)", "relu(%s) - 0.3", "sqrt(1 + square(%s))", "abs(%s)", "clip(%s, -0.7, 0.9)")) % a, s
        if kind == "binary":
            other = [m for m in self.made[-6:] if self.fits(m[1], s)]
            b = r.choice(other)[0] if other else a
            return "(%s %s %s)" % (a, r.choice(("+", "-", "*")), b), s
        if kind == "where":
            other = [m for m in self.made[-6:] if self.fits(m[1], s)]
            b = r.choice(other)[0] if other else a
            return "where(%s > %.1f, %s, %s)" % (a, r.uniform(-0.5, 0.5), r.choice(("0.1", b + " * 0.5")), b), s
        if kind == "matmul" and n > 1:
            other = [m for m in self.made[-6:] if len(m[1]) == 2 and m[1][0] == s[-1]]
            if other:
                b, t = r.choice(other)
            else:
                b, t = "transpose(reshape(%s, [%d, %d]))" % (a, size // s[-1], s[-1]), [s[-1], size // s[-1]]
            shape = s[:-1] + [t[1]]
            return None if np.prod(shape) * s[-1] > 64 << 20 or np.prod(shape) > MOST else ("matmul(%s, %s) * %.5f" % (a, b, s[-1] ** -0.5), shape)
        if kind == "repeat":
            count = r.choice((2, 3))
            shape = s[:axis] + [s[axis] * count] + s[axis + 1:]
            return None if np.prod(shape) > MOST else ("%s" % r.choice(("repeat(%s, %d, axis=%d)" % (a, count, axis), "tile(%s, %s)" % (a, [count if i == axis else 1 for i in range(n)]))), shape)
        if kind == "sort":
            return "sort(%s, axis=%d)" % (a, axis), s
        if kind == "update":
            sizes = [r.randrange(1, e + 1) if r.random() < 0.6 else e for e in s]
            begin = lambda: [r.randrange(e - c + 1) for e, c in zip(s, sizes)]
            piece = "%s[%s] * 0.7" % (r.choice([m for m in self.made[-6:] if m[1] == s])[0], ", ".join("%d:%d" % (b, b + c) for b, c in zip(begin(), sizes)))
            at = begin()
            if r.random() < 0.4:
                at[axis] = "where(max(%s) > 1, %d, %d)" % (self.made[0][0], at[axis], r.randrange(s[axis] - sizes[axis] + 1))
            return "dynamic_update_slice(%s, %s, [%s])" % (a, piece, ", ".join(map(str, at))), s
        if kind == "top":
            k = r.randrange(1, min(s[-1], 9) + 1)
            return "top_k(%s, %d)[0]" % (a, k), s[:-1] + [k]
        if kind == "put":
            same = r.choice([m for m in self.made[-6:] if m[1] == s])[0]
            return "put_along_axis(%s, broadcast_to((iota('int32', %d) * 7)[%s] %% %d, %s), %s * 0.8, axis=%d)" % (
                a, s[axis], ", ".join(":" if i == axis else "None" for i in range(n)), s[axis], s, same, axis), s
        if kind == "triangle" and n > 1:
            return "%s(%s, %d)" % (r.choice(("tril", "triu")), a, r.choice((-1, 0, 2))), s
        return None

    def fits(self, shape, into):
        return len(shape) <= len(into) and all(x in (1, y) for x, y in zip(shape[::-1], into[::-1]))

    def factors(self, extent):
        for f in self.r.sample((2, 3, 4, 5, 8, 16), 6):
            if extent % f == 0 and extent > f:
                return [f, extent // f] if self.r.random() < 0.5 else [extent // f, f]
        return [extent]


def draw(seed):
    d = Draw(seed)
    r = d.r
    dtype = r.choice(("float32", "float32", "float32", "bfloat16", "float16"))
    nodes, shape = [], d.shape()
    for name in ("w", "v"):
        nodes.append({"type": "param", "name": name, "shape": shape, "init": {"type": "normal", "stddev": 1.0}})
        d.made.append(("%s(params.%s)" % (dtype, name), list(shape)))
        if r.random() < 0.6:
            shape = r.sample(shape, len(shape)) if r.random() < 0.5 else d.shape()
    x = list(r.choice(d.made)[1])
    d.made.insert(0, ("%s(x)" % dtype, x))
    count, tries = r.randrange(4, 14), 0
    while len(d.made) < count + 3 and tries < 100:
        tries += 1
        more = d.moved()
        if more is None or np.prod(more[1]) < 1:
            continue
        name = "y%d" % len(d.made)
        nodes.append({"type": "expr", "name": name, "input": "x", "expr": more[0]})
        d.made.append((name, list(more[1])))
    ends = [d.made[-1]] + r.sample(d.made[1:-1], r.choice((0, 1, 2)))
    loss = " + ".join("mean(tanh(float32(%s)) * (float32(%s) + 0.3))" % (e[0], e[0]) for e in ends)
    model = {"stepc": 1, "seed": seed, "inputs": {"x": {"shape": x}}, "model": {"type": "graph", "nodes": nodes, "output": loss},
             "loss": "model", "optimizer": {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9}}
    rng = np.random.default_rng(seed)
    arguments = ["--cpu", processor.able(r.choice(CPUS)), *r.choice(([], [], ["-O0"], ["--remat", "2"]))]
    return model, {"x": rng.standard_normal([2, *x]).astype("f4")}, dtype, arguments, r.choice((1, 1, 3))


if __name__ == "__main__":
    sys.exit(sequences.campaign(__doc__, draw, compile_args=""))
