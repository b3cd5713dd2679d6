#!/usr/bin/env python3
"""What a mesh costs on one machine: the transformer of samples/shakespeare on two devices, its batch split, against one device with
two threads, rounds interleaved in one process. A ratio is the median over the rounds of time on the mesh / time on one device; with
--cpu-time that of the whole process, which other work on the machine changes less. --wide: a transformer of 2 layers with 10,000 words.

    tests/bench/mesh.py [--stepc build/stepc] [--rounds N] [--steps N] [--devices N] [--cpu-time] [--wide]
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

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:1] = [os.path.join(ROOT, "samples"), os.path.join(ROOT, "tests")]  # not this folder, whose name for this file is that of a package
import stepc
from mesh import programs


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--devices", type=int, default=2)
    p.add_argument("--cpu-time", action="store_true")
    p.add_argument("--wide", action="store_true")
    o = p.parse_args()
    clock = time.process_time if o.cpu_time else time.perf_counter
    if o.wide:
        inputs = {name: programs.tensor(8, 128, dtype="int32") for name in ("tokens", "labels")}
        layers = [{"type": "embed", "name": "embedding", "num_embeddings": 10000, "features": 512},
                  *[programs.block("layers.%d" % i, 512) for i in range(2)], programs.linear("head", 10000)]
        document = programs.document("wide", {}, inputs, layers, programs.LABELS, {"**": []}, {"type": "adamw", "learning_rate": 1e-3})
    else:
        with open(os.path.join(ROOT, "samples", "shakespeare", "model.json")) as f:
            document = json.load(f)
    document["sharding"] = {"rules": [["batch", "data"]]}
    tokens = np.random.default_rng(0).integers(0, 65, (8, 128) if o.wide else (12, 64)).astype("i4")
    data = {name: np.broadcast_to(tokens, (o.steps, *tokens.shape)) for name in document["inputs"]}
    steps, batches, keep, times = [], [], [], [[], []]
    with tempfile.TemporaryDirectory() as folder:
        for devices, threads in ((1, o.devices), (o.devices, 1)):
            model, so = os.path.join(folder, "model.json"), os.path.join(folder, "%d.so" % devices)
            with open(model, "w") as f:
                json.dump(document | {"mesh": {"axes": {"data": devices}}}, f)
            subprocess.run([o.stepc, "compile", "-q", model, "-o", so], check=True)
            steps.append(stepc.Step(so, threads=threads))
            steps[-1].init()
            batches.append(steps[-1]._batch(data, keep))
    for turn in range(o.rounds + 1):
        for i in ((0, 1), (1, 0))[turn % 2]:
            begin = clock()
            steps[i]._check(steps[i]._step_n(steps[i]._instance, ctypes.byref(batches[i]), ctypes.c_uint64(o.steps), None))
            times[i] += [(clock() - begin) / o.steps] if turn else []
    ratio = np.array(times[1]) / np.array(times[0])
    print("one device %.2f ms, mesh of %d %.2f ms, ratio %.3f (%.3f to %.3f)"
          % (np.median(times[0]) * 1e3, o.devices, np.median(times[1]) * 1e3, np.median(ratio), *np.percentile(ratio, [25, 75])))


if __name__ == "__main__":
    main()
