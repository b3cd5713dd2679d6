#!/usr/bin/env python3
"""Random optimizers that a document writes itself: a few slots, values between, and updates in which slots become one another, are turned,
cut, joined, sorted, looked up and summed, so that what is overwritten is still to be read somewhere. Tensors are small, and all of them are
compared after two steps: parameters, slots and loss of the interpreter and of the object; every third on a mesh.

    tests/fuzz/updates.py --stepc build/stepc --cases 200 [--seed 1] [--compile-args "--target cuda"] [-v]

A case is its seed.
"""
import os
import random
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import sequences
from tool import processor

SHAPES = ((6, 6), (5, 5), (8, 4), (1, 7), (16, 16), (3, 9), (4, 4), (33, 33), (2, 40), (7, 1), (6, 14), (9, 25))
# A and B stand for values, R for a row, C for a column, K for a small number, D for an axis; n and m are the extents.
FORMS = ("tanh(A)", "(A + B) * 0.5", "(A - B) * 0.5", "A * B", "A[::-1]", "A[:, ::-1]", "reshape(A.T, shape(p))", "roll(A, K, axis=D)", "softmax(A, axis=D)",
         "A - mean(B, axis=D, keepdims=True)", "A * rsqrt(1 + sum(square(B), axis=D, keepdims=True))", "concatenate([A[1:], B[:1]], axis=0)",
         "concatenate([A[:, :1], B[:, 1:]], axis=1)", "where(A > B, A, -B)", "tanh(cumsum(A, axis=D))", "sort(A, axis=D)", "tanh(A @ B.T @ A)", "maximum(A, B)", "A.at[R].add(B[R])",
         "A.at[:, C].set(B[:, C])", "take(A, (arange(n) * K) % n, axis=0)", "A.at[(arange(n) * K) % n].add(0.3 * B)", "clip(A, -0.5, 0.5)",
         "(A + max(B, axis=D, keepdims=True)) * 0.5", "A / (1 + abs(B))", "A + 0 * sum(B)", "reshape(reshape(A, (-1,))[::-1], shape(p))", "(A + B[R]) * 0.5", "(A + B[:, C][:, None]) * 0.5",
         "float32(bfloat16(A))", "pad(A[1:], ((1, 0), (0, 0)))", "pad(A[:, :-1], ((0, 0), (1, 0)))", "A * sum(B, axis=0) * 0.3", "tril(A) + triu(B, 1)",
         "A - take_along_axis(B, argmax(A, axis=1)[:, None], axis=1)", "A - take(reshape(B, (-1,)), arange(n) * K)[:, None]", "A * A[arange(n), (arange(n) * K) % m][:, None]")


def value(r, shape, names, depth):
    if depth <= 0 or r.random() < 0.12:
        return r.choice(names)
    small = {"R": r.randrange(shape[0]), "C": r.randrange(shape[1]), "K": r.choice((1, 2, 3)), "D": r.randrange(2), "n": shape[0], "m": shape[1]}
    a, b = (value(r, shape, names, depth - r.choice((1, 1, 2))) for _ in "AB")
    token = {"A": "(%s)" % a, "B": "(%s)" % b, **{k: str(v) for k, v in small.items()}}
    return sequences.replaced(r.choice(FORMS), token)


def draw(seed):
    r = random.Random(seed)
    shape = r.choice(SHAPES)
    slots = {s: {"init": r.choice((0.1, 0.2, 1, "0.5 * p", 0.0))} for s in "abcd"[:r.randrange(2, 5)]}
    names, let = [*slots, "p", "g"], {}
    for i in range(r.randrange(4)):
        let["l%d" % i] = value(r, shape, names, r.randrange(1, 4))
        names += ["l%d" % i] * 2
    update = {s: r.choice(list(slots)) if r.random() < 0.25 else value(r, shape, names, r.choice((1, 1, 2, 3))) for s in slots}
    used = " + ".join("0.1 * (%s)" % value(r, shape, [v], r.randrange(3)) for v in [*slots, *let])
    update["g"] = "-learning_rate * (g + %s)" % used
    optimizer = {"type": "custom", "hyperparams": {"learning_rate": 0.1}, "slots": slots, **({"let": let} if let else {}), "update": update}
    model = {"stepc": 1, "seed": seed, "inputs": {n: {"shape": [8, k], "axes": ["batch", None]} for n, k in zip("xy", shape)},
             "model": {"type": "linear", "input": "x", "features": shape[1], "use_bias": False}, "loss": "mean((model - y)**2)", "optimizer": optimizer}
    if r.random() < 0.15:
        model["accumulate"] = {"microbatch_size": 4}
    if r.random() < 0.33:
        axes = r.choice(({"data": 2}, {"data": 4}, {"data": 2, "model": 2}))
        some = lambda: r.choice(([], ["data"], [None, "data"], [list(axes)[-1]], [None, list(axes)[-1]]))
        model.update(mesh={"axes": axes}, sharding={"rules": [["batch", "data"]], "params": {"**": some()}, "optimizer_state": {"**": some()}})
    rng = np.random.default_rng(seed)
    given = {n: rng.standard_normal((2, 8, k)).astype("f4") for n, k in zip("xy", shape)}
    arguments = ["--cpu", processor.able(r.choice(("x86-64-v2", "x86-64-v3", "native"))), *r.choice(([], [], ["-O0"], ["--disable", "outline,outline_more,join"]))]
    return model, given, "float32", arguments, r.choice((1, 1, 3))


if __name__ == "__main__":
    sys.exit(sequences.campaign(__doc__, draw, compile_args=""))
