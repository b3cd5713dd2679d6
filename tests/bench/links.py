#!/usr/bin/env python3
"""What `stepc explain --comm --link` predicts, beside what ranks of this machine measure: the rate of the link is that of one
all_reduce of 64 MiB, the time of a step's communication what workers spend in it and wait for it (step_result.ns_communication).

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


def probe(axes):
    """One sum of 64 MiB and little else."""
    return programs.document("probe", axes, {n: programs.tensor(8, 4096) for n in "xy"}, [programs.linear("w", 4096, use_bias=False)],
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
    said = json.loads(subprocess.run([o.stepc, "explain", path, "--comm", "--json"], check=True, capture_output=True, text=True).stdout)
    step = next(e for e in said["entries"] if e["name"] == "step")
    sent = sum(c["ring"] * c["times"] for c in step.get("collectives", []))
    family = mpi.installed(o.stepc)[0]
    environment = mpi.QUIET | {"STEPC_TRANSPORT": "mpi", "STEPC_PLUGIN_PATH": os.path.dirname(o.stepc)}
    out = subprocess.run([*mpi.launcher(family, ranks), sys.executable, os.path.abspath(__file__), "--rank", so, "--steps", str(o.steps)],
                         env=environment, capture_output=True, text=True, timeout=600)
    found = [json.loads(text) for text in re.findall(r"MEASURED (\[.*?\])", out.stdout)]
    if len(found) != ranks:
        raise SystemExit(out.stderr[-2000:])
    return sent, [min(f[k] for f in found) for k in range(3)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--rank")
    o = p.parse_args()
    if o.rank:
        return rank(o.rank, o.steps)
    print("%-14s %5s %12s %10s %10s %8s %10s" % ("program", "ranks", "B sent", "predicted", "measured", "ratio", "step"))
    with tempfile.TemporaryDirectory(prefix="stepc-links-") as folder:
        for ranks in o.ranks:
            sent, (best, _, _) = measure(o, probe({"data": ranks}), ranks, folder)
            rate = sent / best / 1e6
            print("%-14s %5d %12d %10s %10.2f %8s          %.2f GB/s" % ("probe", ranks, sent, "", best, "", rate))
            for document in documents({"data": ranks}):
                sent, (best, _, step) = measure(o, document, ranks, folder)
                predicted = sent / rate / 1e6
                print("%-14s %5d %12d %7.2f ms %7.2f ms %8.2f %7.2f ms" % (document["name"], ranks, sent, predicted, best, best / predicted, step))


if __name__ == "__main__":
    main()
