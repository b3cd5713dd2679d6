#!/usr/bin/env python3
"""What `stepc explain --link --device` predicts, beside what ranks of this machine measure. The rate of the link is that of one all_reduce of
64 MiB, the latency that of a round in a step that sends next to nothing, and a device computes what the program reaches on one. The time of
communication is what workers spend in it and wait for it (step_result.ns_communication), without what is under way while kernels run.

    tests/bench/links.py [--stepc build/stepc] [--ranks 2 4] [--steps N]
"""
import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:1] = [os.path.join(ROOT, "samples"), os.path.join(ROOT, "tests")]  # not this folder, whose mesh.py is another one
import stepc
from mesh import mpi, programs

WIDE = {"x": programs.tensor(64, 1024), "y": programs.tensor(64, 1024)}
LAYERS = [programs.linear("l%d" % i, 1024) for i in range(4)]


def probe(axes, width):
    """One sum of width x width numbers and little else."""
    return programs.document("probe%d" % width, axes, {n: programs.tensor(8, width) for n in "xy"}, [programs.linear("w", width, use_bias=False)],
                             programs.SQUARE, {"**": []}, {"type": "sgd", "learning_rate": 0.001})


def documents(axes):
    yield programs.document("data_parallel", axes, WIDE, LAYERS, programs.SQUARE, {"**": []})
    yield programs.document("zero_1", axes, WIDE, LAYERS, programs.SQUARE, {"**": []}, state={"**": ["data"]})
    yield programs.document("fsdp", axes, {n: programs.tensor(512, 1024) for n in "xy"}, LAYERS, programs.SQUARE, {"**": ["data"]})
    yield programs.transformer("transformer", axes, {"**": []})


def rank(so, steps):
    """Best and median ms of communication in a step, and of the whole step."""
    m, keep = stepc.Step(so, threads=1), []
    m.init()
    r = np.random.default_rng(0)
    values = {n: r.integers(0, 8, list(t.shape[: t.rank])).astype("i4") if t.dtype != 10 and n in ("tokens", "labels") else r.standard_normal(list(t.shape[: t.rank])).astype("f4") for n, t in m._inputs.items()}
    batch, times = m._batch(values, keep), []
    for i in range(steps + 2):
        result = stepc._Result()
        m._check(m._step(m._instance, ctypes.byref(batch), ctypes.byref(result)))
        times += [(result.ns_communication * 1e-6, result.ns_total * 1e-6)] if i > 1 else []
    best = min(t[0] for t in times), statistics.median(t[0] for t in times), min(t[1] for t in times)
    print("MEASURED " + json.dumps(best), flush=True)


def measure(o, document, ranks, folder):
    path, so = (os.path.join(folder, document["name"] + end) for end in (".json", ".so"))
    with open(path, "w") as f:
        json.dump(document, f)
    subprocess.run([o.stepc, "compile", "-q", path, "-o", so], check=True)
    family = mpi.installed(o.stepc)[0]
    environment = mpi.QUIET | {"STEPC_PLUGIN_PATH": os.path.dirname(o.stepc)} | ({"STEPC_TRANSPORT": "mpi"} if ranks > 1 else {})
    out = subprocess.run([*mpi.launcher(family, ranks), sys.executable, os.path.abspath(__file__), "--rank", so, "--steps", str(o.steps)],
                         env=environment, capture_output=True, text=True, timeout=600)
    found = [json.loads(text) for text in re.findall(r"MEASURED (\[.*?\])", out.stdout)]
    if len(found) != ranks:
        raise SystemExit(out.stderr[-2000:])
    return path, [min(f[k] for f in found) for k in range(3)]


def predict(o, path, link, device):
    """Bytes sent, rounds, ms of communication, ms of it that nothing hides, ms of a step."""
    text = subprocess.run([o.stepc, "explain", path, "--link", link, "--device", device], check=True, capture_output=True, text=True).stdout
    over = re.search(r"sends ([\d,]+) B per step in (\d+) rounds", text)
    spent, hidden, step = map(float, re.search(r"([\d.e+-]+) ms of communication per step, ([\d.e+-]+) ms of it while kernels run; a step takes ([\d.e+-]+) ms", text).groups())
    return int(over[1].replace(",", "")), int(over[2]), spent, spent - hidden, step


def speed(o, document, folder):
    """What one device computes in this program."""
    path, (_, _, step) = measure(o, document | {"name": document["name"] + "_alone"}, 1, folder)
    said = json.loads(subprocess.run([o.stepc, "explain", path, "--json"], check=True, capture_output=True, text=True).stdout)
    return next(e for e in said["entries"] if e["name"] == "step")["flops"] / step * 1e-6


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--rank")
    o = p.parse_args()
    if o.rank:
        return rank(o.rank, o.steps)
    print("%-14s %5s %10s %6s %12s %10s %10s %6s %8s %8s %6s" % ("program", "ranks", "B sent", "rounds", "in all", "not hidden", "measured", "ratio", "step", "measured", "ratio"))
    with tempfile.TemporaryDirectory(prefix="stepc-links-") as folder:
        speeds = [speed(o, document, folder) for document in documents({"data": 1})]
        for ranks in o.ranks:
            path, (small, _, _) = measure(o, probe({"data": ranks}, 16), ranks, folder)
            latency = small * 1e3 / predict(o, path, "data=1TB/s", "1TFLOP/s")[1]
            path, (large, _, _) = measure(o, probe({"data": ranks}, 4096), ranks, folder)
            rate = predict(o, path, "data=1TB/s", "1TFLOP/s")[0] / large / 1e6
            print("%-14s %5d %.2f GB/s, %.1f us" % ("link", ranks, rate, latency))
            for document, reached in zip(documents({"data": ranks}), speeds):
                path, (best, _, step) = measure(o, document, ranks, folder)
                sent, rounds, spent, left, whole = predict(o, path, "data=%.4gGB/s:%.4gus" % (rate, latency), "%.4gGFLOP/s" % reached)
                print("%-14s %5d %10d %6d %9.2f ms %7.2f ms %7.2f ms %6.2f %5.1f ms %5.1f ms %6.2f"
                      % (document["name"], ranks, sent, rounds, spent, left, best, best / left if left else 0, whole, step, step / whole))


if __name__ == "__main__":
    main()
