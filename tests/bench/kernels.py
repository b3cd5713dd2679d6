#!/usr/bin/env python3
"""Plain matrix products: the kernels of this compiler against OpenBLAS and PyTorch (MKL or oneDNN), one thread, rounds interleaved.

    tests/bench/kernels.py [--stepc build/stepc] [--rounds N] [--peer openblas] [--peer torch] [--cpu NAME] [--dtype bfloat16] [--json FILE] [LAYOUTxMxNxK ...]

LAYOUT: nn, nt, tn (t: the operand is stored transposed). A document with one product is compiled with `--blas own` and, for that peer,
`--blas openblas`, and evaluated in turns with the peers. All sides also read the product once, to sum it. Times are those of the thread, so
that what else runs on the machine takes no part; a side's time in a round is its best of several steps, a ratio the median over the rounds of
the peer's time / ours (above 1: we are faster), with the least and the greatest. "of FMA" is our best time beside the chains of multiply-adds
that run in the same rounds. Of a product so small that its step becomes one function both sides run the same code. The rules in
kernels/kernels.def come from this table.
"""
import argparse
import ctypes
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
          "tn128x512x8192", "tn512x512x3000", "tn512x512x8192",
          # of transformers, forward and both gradients, then such that no dimension is a multiple of a vector
          "nn2048x1536x512", "nn2048x512x512", "nn2048x2048x512", "nn2048x512x2048", "nn1024x10000x512", "nt2048x512x2048",
          "nt2048x2048x512", "nt1024x512x10000", "tn512x2048x2048", "tn2048x512x2048", "tn512x512x2048", "tn512x10000x1024",
          "nn128x784x512", "nn777x1001x333", "nn2047x511x513", "nt1001x333x777", "tn333x1001x777"]
PROBE = r"""
#define C(r, k) "vfmadd231ps %%" r "14, %%" r "15, %%" r #k "\n\t"
#define ALL(r) C(r, 0) C(r, 1) C(r, 2) C(r, 3) C(r, 4) C(r, 5) C(r, 6) C(r, 7) C(r, 8) C(r, 9) C(r, 10) C(r, 11)
#define RUN(r, lanes) { long left = 600000; __asm__ volatile("vxorps %%xmm14, %%xmm14, %%xmm14\n\tvxorps %%xmm15, %%xmm15, %%xmm15\n" \
    "1:\n\t" ALL(r) "dec %0\n\tjnz 1b" : "+r"(left) :: "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
    "xmm9", "xmm10", "xmm11", "xmm14", "xmm15"); return 2.0 * lanes * 12 * 600000; }
double wide(void) RUN("zmm", 16)
double narrow(void) RUN("ymm", 8)
"""


def parse(text):
    m, n, k = (int(x) for x in text[2:].split("x"))
    return text[:2], m, n, k


def document(shape, dtype):
    layout, m, n, k = shape
    tensor = lambda *dims: {"shape": list(dims), "dtype": dtype, "axes": [None, None]}
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
        json.dump(document(shape, options.dtype), f)
    subprocess.run([options.stepc, "compile", source, "-o", so, "--blas", blas, "--cpu", options.cpu], check=True)
    m = stepc.Step(so, threads=1)
    m.init()
    return m


def torch_side(a, b, shape, dtype):
    import torch
    torch.set_num_threads(1)
    x, y = (torch.from_numpy(v).to(getattr(torch, dtype)) for v in (a, b))
    x, y = x.T if shape[0][0] == "t" else x, y.T if shape[0][1] == "t" else y
    out = torch.empty(shape[1], shape[2], dtype=x.dtype)
    return lambda: float(torch.matmul(x, y, out=out).sum())


def probe(folder, options):
    """What multiply-adds reach without memory: a function that runs them and says how many there were."""
    source, so = os.path.join(folder, "probe.c"), os.path.join(folder, "probe.so")
    with open(source, "w") as f:
        f.write(PROBE)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", so], check=True)
    with open("/proc/cpuinfo") as f:
        wide = "avx512f" in f.read() and options.cpu in ("native", "x86-64-v4")
    run = getattr(ctypes.CDLL(so), "wide" if wide else "narrow")
    run.restype = ctypes.c_double
    return run


def seconds(run):
    start = time.thread_time()
    run()
    return time.thread_time() - start


def measure(options, folder, shape, flops):
    layout, m, n, k = shape
    random = np.random.default_rng(0)
    a = random.standard_normal((k, m) if layout[0] == "t" else (m, k), np.float32)
    b = random.standard_normal((n, k) if layout[1] == "t" else (k, n), np.float32)
    import stepc
    ours = [stepc.bits(v) if options.dtype == "bfloat16" else v for v in (a, b)]

    def loss(step):
        run = step.bind(a=ours[0], b=ours[1])  # what a call from Python costs else is half of a small product
        return lambda: run().loss
    sides = {blas: loss(side(options, folder, shape, blas)) for blas in ["own"] + [p for p in options.peer if p == "openblas"]}
    if "torch" in options.peer:
        sides["torch"] = torch_side(a, b, shape, options.dtype)
    for name, run in sides.items():
        if not np.isclose(run(), sides["own"](), rtol=1e-3, atol=(1e-3 if options.dtype == "float32" else 2e-2) * (m * n * k) ** 0.5):
            raise SystemExit("%s: %s computes something else" % (shape, name))
    count = max(1, int(options.work / (2 * m * n * k)))
    times, peak = {name: [] for name in sides}, []
    for _ in range(options.rounds):
        start = time.thread_time()
        done = flops()
        peak.append(done / (time.thread_time() - start))
        for name, run in sides.items():
            times[name].append(min(seconds(run) for _ in range(count)))
    own = np.array(times["own"])
    result = {"own_gflops": 2e-9 * m * n * k / own.min(), "of_fma": 2.0 * m * n * k / own.min() / max(peak)}
    for name in times:
        if name != "own":
            ratio = np.array(times[name]) / own
            result[name] = {"ratio": float(np.median(ratio)), "least": float(ratio.min()), "greatest": float(ratio.max())}
    return result


def main():
    p = argparse.ArgumentParser(description="Matrix products: own kernels against libraries, interleaved.")
    p.add_argument("--stepc", default=os.path.join(ROOT, "build/stepc"))
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--work", type=float, default=4e9, help="operations per round and side")
    p.add_argument("--peer", action="append", choices=["openblas", "torch"], help="openblas where none is named")
    p.add_argument("--cpu", default="native", help="as of stepc compile")
    p.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="of the operands and the product")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("shapes", nargs="*", default=SHAPES, metavar="LAYOUTxMxNxK, as tn512x128x768")
    options = p.parse_args()
    options.peer = options.peer or ["openblas"]
    result = {}
    with tempfile.TemporaryDirectory(prefix="stepc-kernels-") as folder:
        flops = probe(folder, options)
        for text in options.shapes:
            result[text] = r = measure(options, folder, parse(text), flops)
            print("%-18s own %6.1f GFLOP/s %3.0f %% of FMA" % (text, r["own_gflops"], 100 * r["of_fma"]),
                  *("  %s %.2f (%.2f to %.2f)" % (p, r[p]["ratio"], r[p]["least"], r[p]["greatest"]) for p in options.peer), flush=True)
    mean = lambda values: float(np.exp(np.mean(np.log(list(values)))))
    print("geometric mean: %.0f %% of FMA" % (100 * mean(r["of_fma"] for r in result.values())),
          *("  %s %.2f" % (p, mean(r[p]["ratio"] for r in result.values())) for p in options.peer))
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"schema": 2, "shapes": result}, f, indent=1)


if __name__ == "__main__":
    main()
