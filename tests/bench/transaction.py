#!/usr/bin/env python3
"""What it costs that a step may be refused: steps under `skip` against plain ones, and steps whose host is asked, rounds
interleaved in one process on the same object. A ratio is the median over the rounds of plain time / time (below 1: it costs).
On a machine that does other work, too, --cpu-time counts only what the caller's thread takes.

    tests/bench/transaction.py [--stepc build/stepc] [--rounds N] [--threads N] [--cpu-time] [--json FILE] [WORKLOAD...]
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
sys.path[:0] = [os.path.join(HERE, "..", "..", "samples")]
import stepc


def mlp(width, batch, optimizer="adam"):
    layer = lambda n, m: {"type": "linear", "features": m}
    return {"stepc": 1, "inputs": {"x": {"shape": [batch, 784]}, "y": {"shape": [batch, 10]}},
            "model": {"type": "sequential", "input": "x", "layers": [layer(784, width), {"type": "relu"}, layer(width, width), {"type": "relu"}, layer(width, 10)]},
            "loss": "mean((model - y)**2)", "optimizer": {"type": optimizer, "learning_rate": 1e-4}}


def cookbook():
    with open(os.path.join(HERE, "..", "..", "samples", "cookbook", "model.json")) as f:
        return json.load(f)


CLIPPED = {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0},
                                           {"type": "adamw", "learning_rate": 1e-4, "weight_decay": 0.1}]}
WORKLOADS = {"cookbook": (cookbook(), 4000), "mlp_512_64": (mlp(512, 64), 30), "mlp_512_256": (mlp(512, 256), 15), "mlp_2048_64": (mlp(2048, 64), 4),
             "mlp_512_64_sgd": (mlp(512, 64, "sgd"), 30), "mlp_64_64": (mlp(64, 64), 300),
             "mlp_512_64_clip": (dict(mlp(512, 64), optimizer=CLIPPED, ema={"decay": 0.99}), 30)}


def measure(options, name):
    document, steps = WORKLOADS[name]
    with tempfile.TemporaryDirectory() as folder:
        model, so = os.path.join(folder, "model.json"), os.path.join(folder, "step.so")
        with open(model, "w") as f:
            json.dump(document, f)
        subprocess.run([options.stepc, "compile", "-q", model, "-o", so], check=True)
        m = stepc.Step(so, threads=options.threads)
    m.init()
    rng, keep = np.random.default_rng(0), []
    data = {n: np.broadcast_to(rng.standard_normal(t.shape[:t.rank]).astype("f4"), (steps, *t.shape[:t.rank])) for n, t in m._inputs.items()}
    batches = {kind: m._batch(data, keep) for kind in ("plain", "skip", "accept")}
    batches["skip"].flags = 2
    libc = ctypes.CDLL(None)  # a function that returns what is not 0 and costs nothing: its arguments are pointers
    batches["accept"].accept = ctypes.cast(libc.abs, ctypes.c_void_p)
    batches["accept"].user = 1

    clock = time.thread_time if options.cpu_time else time.perf_counter

    def run(batch):
        begin = clock()
        m._check(m._step_n(m._instance, ctypes.byref(batch), ctypes.c_uint64(steps), None))
        return (clock() - begin) / steps
    times = {kind: [] for kind in batches}
    for turn in range(options.rounds + 2):
        for kind in list(batches)[turn % 3:] + list(batches)[:turn % 3]:
            run(batches[kind])  # as it is in a training: the step before was of the same kind
            times[kind] += [run(batches[kind])] if turn > 1 else []
    plain = np.array(times["plain"])
    out = {"us": float(np.median(plain) * 1e6)}
    for kind in ("skip", "accept"):
        ratio = plain / np.array(times[kind])
        out[kind] = {"ratio": float(np.median(ratio)), "quartiles": [float(q) for q in np.percentile(ratio, [25, 75])],
                     "best": float(plain.min() / np.min(times[kind]))}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepc", default=os.path.join(HERE, "..", "..", "build", "stepc"))
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("workloads", nargs="*", default=[])
    options = parser.parse_args()
    results = {}
    for name in options.workloads or WORKLOADS:
        r = results[name] = measure(options, name)
        print("%-16s %9.2f us; %s" % (name, r["us"], "; ".join("%s %.3f (%.3f to %.3f, best %.3f)" % (k, r[k]["ratio"], *r[k]["quartiles"], r[k]["best"]) for k in ("skip", "accept"))), flush=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
