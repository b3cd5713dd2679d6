#!/usr/bin/env python3
"""Large products, whose right operand lies in panels: every layout, sizes that no tile divides, long sums, more columns than rows, with work
behind them, in loops; on one thread and on three, for every instruction set of this machine. Operands are small whole numbers, so that sums
are exact in any order: a single wrong element is seen.

    tests/products/products.py STEPC
"""
import os
import sys
import tempfile

import numpy as np

STEPC = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../samples")]
import stepc
from tool import runner

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
BEHIND = ["%s", "relu(%s + mean(b) * 0 + 1) * 2", "minimum(%s, 5) + maximum(%s, c) - c"]


def reference(expr, a, b, c):
    names = {"a": a, "b": b, "c": c, "transpose": np.transpose, "reshape": np.reshape, "einsum": np.einsum, "mean": np.mean,
             "relu": lambda x: np.maximum(x, 0), "minimum": np.minimum, "maximum": np.maximum}
    return eval(expr, names)


def levels():
    with open("/proc/cpuinfo") as f:
        flags = set(next((line for line in f if line.startswith("flags")), "").split())
    return ["x86-64-v2"] + ["x86-64-v3"] * ("avx2" in flags and "fma" in flags) + ["x86-64-v4"] * ("avx512vl" in flags and "avx512bw" in flags)


def main():
    random, wrong, count = np.random.default_rng(1), 0, 0
    with tempfile.TemporaryDirectory(prefix="stepc-products-") as tmp:
        for number, (expr, *shapes) in enumerate(CASES):
            a, b = (random.integers(-1, 2, s).astype("f4") for s in shapes)
            for behind in (BEHIND[0], BEHIND[1 + number % 2]):
                whole = behind.replace("%s", expr)
                c = random.integers(0, 2, reference(expr, a, b, 0).shape).astype("f4") * 2 - 1
                want = float((reference(whole, *(x.astype("f8") for x in (a, b, c))) * c).sum())
                tensor = lambda x: {"shape": list(x.shape), "dtype": "float32", "axes": [None] * x.ndim}
                document = {"stepc": 1, "name": "product", "inputs": {"a": tensor(a), "b": tensor(b), "c": tensor(c)},
                            "model": {"type": "param", "name": "w", "shape": [1], "init": {"type": "ones"}},
                            "loss": "sum((%s) * c) * sum(model)" % whole, "optimizer": {"type": "sgd", "learning_rate": 0.0}}
                path = runner.write_json(os.path.join(tmp, "model.json"), document)
                for cpu in levels():
                    so = os.path.join(tmp, "%d-%s.so" % (count, cpu))
                    runner.call(STEPC, "compile", path, "-o", so, "--cpu", cpu, "--blas", "own")
                    for threads in (1, 3):
                        with stepc.Step(so, threads=threads) as m:
                            m.init()
                            loss = m.step(a=a, b=b, c=c).loss
                        count += 1
                        if loss != want:
                            print("%s of %s, %s, %d threads: %r instead of %r" % (whole, shapes, cpu, threads, loss, want))
                            wrong += 1
                    os.unlink(so)
    print("%d products, %d wrong" % (count, wrong))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
