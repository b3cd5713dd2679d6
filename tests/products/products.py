#!/usr/bin/env python3
"""Large products, whose right operand lies in panels: every layout, sizes that no tile divides, long sums, more columns than rows, with work
behind them, in loops; in float32 and 16 bits; on one thread and on three, for every instruction set of this machine. Operands are small whole numbers, so that sums
are exact in any order: a single wrong element is seen.

    tests/products/products.py STEPC
"""
import json
import os
import re
import sys
import tempfile

import numpy as np

STEPC = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../samples")]
import stepc
from tool import processor, runner

# expression, shapes of a and b, what numpy makes of them
CASES = [
    ("a @ b", (2048, 256), (256, 448)), ("a @ b", (777, 333), (333, 1001)), ("a @ b", (1001, 331), (331, 333)), ("a @ b", (193, 512), (512, 209)),
    ("a @ b", (229, 5003), (5003, 67)), ("a @ b", (650, 4099), (4099, 131)), ("a @ b", (193, 2500), (2500, 777)), ("a @ b", (300, 40), (40, 10007)),
    ("a @ transpose(b)", (777, 333), (1001, 333)), ("a @ transpose(b)", (515, 640), (200, 640)), ("a @ transpose(b)", (333, 2055), (259, 2055)),
    ("transpose(a) @ b", (512, 384), (512, 640)), ("transpose(a) @ b", (777, 333), (777, 1001)), ("transpose(a) @ b", (4100, 640), (4100, 96)),
    ("transpose(a) @ b", (8200, 257), (8200, 65)), ("transpose(a) @ transpose(b)", (333, 777), (401, 333)),
    ("einsum('btc,chd->bhtd', a, b)", (3, 100, 256), (256, 7, 64)), ("einsum('btc,chd->bhtd', a, b)", (3, 100, 256), (256, 23, 20)),
    ("einsum('bthd,hdc->btc', a, b)", (3, 100, 5, 48), (5, 48, 500)), ("einsum('btc,hcd->bthd', a, b)", (3, 100, 256), (7, 256, 64)),
    ("transpose(reshape(a @ b, (4, 64, 9, 48)), (0, 2, 1, 3))", (256, 300), (300, 432)),
]
# few rows: more vectors of a row, and columns that are rows in memory turned in registers, by whole lines of the cache, halves and less
THIN = [("a @ b", (1, 700), (700, 333)), ("a @ b", (2, 519), (519, 264)), ("a @ transpose(b)", (1, 530), (77, 530)), ("a @ transpose(b)", (1, 520), (200, 520)),
        ("a @ transpose(b)", (1, 512), (64, 512)), ("a @ transpose(b)", (3, 100), (17, 100)), ("a @ transpose(b)", (5, 1031), (19, 1031)),
        ("a @ transpose(b)", (6, 40), (64, 40)), ("einsum('btc,ndc->btnd', a, b)", (1, 2, 72), (5, 8, 72)), ("a @ transpose(b)", (2, 2500), (40, 2500)),
        # one row or column, as sums along lines of memory: by four, three and two, and one by one, behind batches, of two dimensions
        ("a @ transpose(b)", (1, 531), (99, 531)), ("relu(a @ transpose(b)) * 2", (1, 516), (1030, 516)), ("a @ b", (333, 500), (500, 1)),
        ("einsum('bc,bnc->bn', a, b)", (3, 130), (3, 77, 130)), ("einsum('cd,ncd->n', a, b)", (5, 40), (82, 5, 40)), ("einsum('c,bnc->bn', a, b)", (100,), (7, 11, 100))]
# of bfloat16, whose pairs CPUs with AVX512_BF16 multiply: whole pairs, halves of them in between, rows of y beside each other and apart
PAIRS = [CASES[0], CASES[1], CASES[3], ("a @ b", (229, 5004), (5004, 67)), ("a @ b", (40, 64), (64, 24)), ("a @ b", (300, 40), (40, 5000)),
         ("a @ transpose(b)", (515, 640), (200, 640)), ("a @ transpose(b)", (400, 1024), (1000, 1024)), ("a @ transpose(b)", (333, 2056), (259, 2056)),
         ("transpose(a) @ b", (512, 384), (512, 640)), ("transpose(a) @ b", (778, 333), (778, 1001)), ("transpose(a) @ b", (4100, 640), (4100, 96)),
         ("transpose(a) @ transpose(b)", (333, 777), (401, 333)), ("transpose(a) @ b", (777, 334), (777, 1001)), ("a @ b", (333, 2047), (2047, 209)),
         ("a @ transpose(b)", (400, 1023), (1000, 1023)), ("einsum('bij,bjk->bik', a, b)", (3, 50, 34), (3, 34, 70)),
         ("float32(a) @ float32(b)", (300, 64), (64, 96)), ("transpose(float32(a)) @ float32(b)", (512, 40), (512, 24)), *CASES[16:20]]
BEHIND = ["%s", "relu(%s + mean(b) * 0 + 1) * 2", "minimum(%s, 5) + maximum(%s, c) - c"]


def reference(expr, a, b, c):
    names = {"a": a, "b": b, "c": c, "transpose": np.transpose, "reshape": np.reshape, "einsum": np.einsum, "mean": np.mean,
             "relu": lambda x: np.maximum(x, 0), "float32": lambda x: x, "minimum": np.minimum, "maximum": np.maximum}
    return eval(expr, names)


def levels(pairs=False):
    return processor.levels() + ["native"] * (pairs and "avx512_bf16" in processor.flags())


def rounded(x, dtype):
    """Ties to even."""
    if dtype != "bfloat16":
        return x.astype(dtype).astype("f8")
    bits = x.astype("f4").view("u4")
    return (bits + 0x7fff + (bits >> 16 & 1) & 0xffff0000).view("f4").astype("f8")


def document(whole, dtype, **operands):
    tensor = lambda x: {"shape": list(x.shape), "dtype": "float32", "axes": [None] * x.ndim}
    for name in "ab" * (dtype != "float32"):
        whole = re.sub(r"\b%s\b" % name, "%s(%s)" % (dtype, name), whole)
    return {"stepc": 1, "name": "product", "inputs": {name: tensor(x) for name, x in operands.items()},
            "model": {"type": "param", "name": "w", "shape": [1], "init": {"type": "ones"}},
            "loss": "sum((%s) * c) * sum(model)" % whole, "optimizer": {"type": "sgd", "learning_rate": 0.0}}


def cases():
    for number, (expr, *shapes) in enumerate(CASES):
        for behind in (BEHIND[0], BEHIND[1 + number % 2]):
            yield behind.replace("%s", expr), shapes, "float32"
    for expr, *shapes in THIN:
        yield expr, shapes, "float32"
    for number, (expr, *shapes) in enumerate(PAIRS):
        yield expr, shapes, "bfloat16"
        if number % 3 == 1:
            yield expr, shapes, "float16"


def check_needs(tmp):
    """An object asks for AVX512_BF16 where it multiplies pairs, and nowhere else."""
    a, wrong = np.zeros((256, 256), "f4"), 0
    for dtype, cpu, numerics in ("bfloat16", "znver4", "reproducible"), ("bfloat16", "x86-64-v4", "reproducible"), \
            ("float32", "znver4", "reproducible"), ("bfloat16", "znver4", "invariant"):
        path, so = runner.write_json(os.path.join(tmp, "needs.json"), document("a @ b", dtype, a=a, b=a, c=a)), os.path.join(tmp, "needs.so")
        runner.call(STEPC, "compile", path, "-o", so, "--cpu", cpu, "--numerics", numerics)
        needed = "avx512bf16" in json.loads(runner.call(STEPC, "explain", so, "--json"))["target"]["features"]
        if needed != (dtype == "bfloat16" and cpu == "znver4" and numerics == "reproducible"):
            print("%s, --cpu %s, %s: AVX512_BF16 needed: %s" % (dtype, cpu, numerics, needed))
            wrong += 1
    return wrong


def main():
    random, wrong, count = np.random.default_rng(1), 0, 0
    with tempfile.TemporaryDirectory(prefix="stepc-products-") as tmp:
        wrong += check_needs(tmp)
        for whole, shapes, dtype in cases():
            a, b = (random.integers(-1, 2, s).astype("f4") for s in shapes)
            c = random.integers(0, 2, reference(whole, a, b, 0).shape).astype("f4") * 2 - 1
            want = reference(whole, *(x.astype("f8") for x in (a, b, c)))
            want = float((rounded(want, "float32" if "float32" in whole else dtype) * c).sum())
            path = runner.write_json(os.path.join(tmp, "model.json"), document(whole, dtype, a=a, b=b, c=c))
            for cpu in levels(dtype == "bfloat16"):
                so = os.path.join(tmp, "%d-%s.so" % (count, cpu))
                runner.call(STEPC, "compile", path, "-o", so, "--cpu", cpu, "--blas", "own")
                for threads in (1, 3):
                    with stepc.Step(so, threads=threads) as m:
                        m.init()
                        loss = m.step(a=a, b=b, c=c).loss
                    count += 1
                    if loss != want:
                        print("%s of %s, %s, %s, %d threads: %r instead of %r" % (whole, shapes, dtype, cpu, threads, loss, want))
                        wrong += 1
                os.unlink(so)
    print("%d products, %d wrong" % (count, wrong))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
