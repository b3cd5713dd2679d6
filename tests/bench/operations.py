#!/usr/bin/env python3
"""Single operations with their gradient and a plain update, one thread, rounds interleaved, CPU time: this compiler beside PyTorch's eager mode.

    tests/bench/operations.py [--stepc build/stepc] [--other STEPC] [--rounds N] [NAME ...]

A step computes sum(f(x) * w) and takes the gradient off x. A ratio is the median over the rounds of the peer's time / ours, above 1: we are
faster; `--other`: another build of this compiler is a peer, too. What both make of x is compared.
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

LAST, FIRST, ONE, ODD, FEW, MIDDLE = (2048, 512), (512, 2048), (1 << 20,), (777, 501), (7, 10001), (64, 128, 96)
CASES = {  # expression of x, shape, the same for PyTorch
    "cumsum": ("cumsum(model, axis=-1)", LAST, lambda t, x: t.cumsum(x, -1)),
    "cumsum, reversed, odd": ("cumsum(model, axis=-1, reverse=True)", ODD, lambda t, x: x.flip(-1).cumsum(-1).flip(-1)),
    "cumsum, first": ("cumsum(model, axis=0)", FIRST, lambda t, x: t.cumsum(x, 0)),
    "cumsum, middle": ("cumsum(model, axis=1)", MIDDLE, lambda t, x: t.cumsum(x, 1)),
    "cumsum, one row": ("cumsum(model, axis=0)", ONE, lambda t, x: t.cumsum(x, 0)),
    "cumsum, seven rows": ("cumsum(model, axis=1)", FEW, lambda t, x: t.cumsum(x, 1)),
    "cumprod": ("cumprod(model * 0.01 + 1, axis=-1)", LAST, lambda t, x: t.cumprod(x * 0.01 + 1, -1)),
    "cummax": ("cummax(model, axis=1)", LAST, lambda t, x: t.cummax(x, -1).values),
    "cumlogsumexp": ("cumlogsumexp(model, axis=1)", LAST, lambda t, x: t.logcumsumexp(x, -1)),
    "sort": ("sort(model, axis=-1)", LAST, lambda t, x: t.sort(x, dim=-1, stable=True).values),
    "sort, odd": ("sort(model, axis=-1)", ODD, lambda t, x: t.sort(x, dim=-1, stable=True).values),
    "sort, short": ("sort(model, axis=-1)", (16384, 40), lambda t, x: t.sort(x, dim=-1, stable=True).values),
    "sort, first": ("sort(model, axis=0)", FIRST, lambda t, x: t.sort(x, dim=0, stable=True).values),
    "argsort": ("model * astype(argsort(model, axis=-1), 'float32')", LAST, lambda t, x: x * t.argsort(x, dim=-1, stable=True).float()),
    "top_k": ("top_k(model, 8)[0]", LAST, lambda t, x: t.topk(x, 8, -1).values),
    "transpose": ("reshape(transpose(model), (2048, 512))", LAST, lambda t, x: x.T.reshape(2048, 512)),
    "transpose, odd": ("transpose(model) * 3", ODD, lambda t, x: x.T * 3),
    "take_along_axis": ("take_along_axis(model, astype(abs(stop_gradient(model)) * 100, 'int32'), axis=-1)", LAST,
                        lambda t, x: t.gather(x, -1, (x.detach().abs() * 100).long())),
}


def matrices():
    """Functions of matrices; those that need it get a positive definite one."""
    definite = lambda t, x: x @ x.mT / x.shape[-1] + t.eye(x.shape[-1])
    ours = "(model @ swapaxes(model, -1, -2) / %d + eye(%d))"
    for shape in ((16, 16), (32, 32), (64, 64), (128, 128), (256, 256), (512, 512), (1024, 1024), (64, 16, 16), (256, 8, 8), (32, 64, 64)):
        n, name = shape[-1], " x ".join(map(str, shape))
        of = ours % (n, n)
        yield "cholesky, " + name, ("cholesky(%s)" % of, shape, lambda t, x: t.linalg.cholesky(definite(t, x)))
        yield "solve, " + name, ("solve(model + 4 * eye(%d), stop_gradient(model))" % n, shape,
                                 lambda t, x: t.linalg.solve(x + 4 * t.eye(x.shape[-1]), x.detach()))
        yield "solve, one, " + name, ("solve(model + 4 * eye(%d), stop_gradient(model[..., :1]))" % n, shape,
                                      lambda t, x: t.linalg.solve(x + 4 * t.eye(x.shape[-1]), x.detach()[..., :1]))
        yield "solve_triangular, " + name, ("solve_triangular(%s, stop_gradient(model), lower=True)" % of, shape,
                                            lambda t, x: t.linalg.solve_triangular(definite(t, x).tril(), x.detach(), upper=False))
        yield "inv, " + name, ("inv(%s)" % of, shape, lambda t, x: t.linalg.inv(definite(t, x)))
        yield "slogdet, " + name, ("slogdet(%s)[1]" % of, shape, lambda t, x: t.linalg.slogdet(definite(t, x))[1])
        yield "qr, " + name, ("qr(model)[1]", shape, lambda t, x: t.linalg.qr(x)[1])
        yield "eigh, " + name, ("eigh(%s)[0]" % of, shape, lambda t, x: t.linalg.eigh(definite(t, x))[0])
        yield "svd, " + name, ("svd(model, full_matrices=False)[1]", shape, lambda t, x: t.linalg.svd(x, full_matrices=False)[1])
    for shape in ((64, 256), (64, 1024), (16, 4096), (64, 1000), (256, 16), (1, 65536)):
        yield "fft, " + " x ".join(map(str, shape)), ("real(fft(model)) + imag(fft(model))", shape,
                                                      lambda t, x: (lambda y: y.real + y.imag)(t.fft.fft(x)))


CASES.update(matrices())


def ours(stepc_path, folder, name, expression, shape, out):
    import stepc
    tensor = lambda s: {"shape": list(s), "dtype": "float32", "axes": [None] * len(s)}
    source, so = os.path.join(folder, "op.json"), os.path.join(folder, "%s.so" % name)
    with open(source, "w") as f:
        json.dump({"stepc": 1, "name": "op", "inputs": {"w": tensor(out)},
                   "model": {"type": "param", "name": "x", "shape": list(shape), "init": {"type": "normal", "stddev": 1.0}},
                   "loss": "sum((%s) * w)" % expression, "optimizer": {"type": "sgd", "learning_rate": 1e-3}}, f)
    subprocess.run([stepc_path, "compile", source, "-o", so, "--views"], check=True)
    m = stepc.Step(so, threads=1)
    m.init()
    return m


def torch_side(x, w, f):
    import torch
    torch.set_num_threads(1)
    x, w = torch.tensor(x, requires_grad=True), torch.tensor(w)

    def step():
        x.grad = None
        (f(torch, x) * w).sum().backward()
        with torch.no_grad():
            x.sub_(x.grad, alpha=1e-3)
    return step, x


def best(step):
    times = []
    for _ in range(5):
        start = time.thread_time()
        step()
        times.append(time.thread_time() - start)
    return min(times)


def main():
    p = argparse.ArgumentParser(description="Single operations beside PyTorch.")
    p.add_argument("--stepc", default=os.path.join(ROOT, "build/stepc"))
    p.add_argument("--other", help="another build of this compiler")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("names", nargs="*", metavar="NAME", help="of " + "; ".join(CASES))
    options = p.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    for name in options.names or CASES:
        expression, shape, f = CASES[name]
        out = f(torch, torch.randn(shape)).shape if torch else (shape if name != "top_k" else shape[:-1] + (8,))
        w = np.random.default_rng(0).standard_normal(out).astype(np.float32)
        with tempfile.TemporaryDirectory(prefix="stepc-operations-") as folder:
            builds = {"ours": options.stepc, **({"other": options.other} if options.other else {})}
            steps = {n: ours(path, folder, n, expression, shape, out) for n, path in builds.items()}
            start = np.array(steps["ours"].view("x"))
            sides = {n: m.bind(w=w) for n, m in steps.items()}
            after = {n: (lambda m: lambda: np.array(m.view("x")))(m) for n, m in steps.items()}
            if torch:
                sides["torch"], x = torch_side(start, w, f)
                after["torch"] = lambda: x.detach().numpy()
            for step in sides.values():
                step()
            change = np.abs(after["ours"]() - start).max()
            for n in sides:
                if not np.abs(after[n]() - after["ours"]()).max() <= 1e-3 * change + 1e-6:
                    raise SystemExit("%s: %s computes something else" % (name, n))
            times = {n: [] for n in sides}
            for _ in range(options.rounds):
                for n, step in sides.items():
                    times[n].append(best(step))
        ratios = {n: np.array(t) / np.array(times["ours"]) for n, t in times.items() if n != "ours"}
        print("%-22s %8.0f us" % (name, 1e6 * min(times["ours"])),
              *("  %s %.2f (%.2f to %.2f)" % (n, np.median(r), r.min(), r.max()) for n, r in ratios.items()), flush=True)


if __name__ == "__main__":
    main()
