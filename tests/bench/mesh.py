#!/usr/bin/env python3
"""What a mesh costs on one machine: the transformer of samples/shakespeare on two devices, its batch split, against one device with
two threads, rounds interleaved in one process. A ratio is the median over the rounds of time on the mesh / time on one device; with
--cpu-time that of the whole process, which other work on the machine changes less. --wide: a transformer of 2 layers with 10,000 words.
--ranks: the same mesh of as many processes, by MPI, against the threads of one; the first rank has both.

    tests/bench/mesh.py [--stepc build/stepc] [--rounds N] [--steps N] [--devices N] [--cpu-time] [--wide] [--ranks]
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
from mesh import mpi, programs


def compiled(o, document, folder, devices):
    model, so = os.path.join(folder, "model.json"), os.path.join(folder, "%d.so" % devices)
    with open(model, "w") as f:
        json.dump(document | {"mesh": {"axes": {"data": devices}}}, f)
    subprocess.run([o.stepc, "compile", "-q", model, "-o", so], check=True)
    return so


def opened(so, threads, data):
    """The step, the batches of a round, and what these lie in."""
    step, keep = stepc.Step(so, threads=threads), []
    step.init()
    return step, step._batch(data, keep), keep


def go(side, steps):
    step, batches, _ = side
    step._check(step._step_n(step._instance, ctypes.byref(batches), ctypes.c_uint64(steps), None))


def report(times, first, second):
    ratio = np.array(times[1]) / np.array(times[0])
    print("%s %.2f ms, %s %.2f ms, ratio %.3f (%.3f to %.3f)"
          % (first, np.median(times[0]) * 1e3, second, np.median(times[1]) * 1e3, np.median(ratio), *np.percentile(ratio, [25, 75])))


def start_ranks(o, so, folder):
    family = mpi.installed(o.stepc)[0]
    given = [a for a in sys.argv[1:] if a != "--ranks"]
    subprocess.run([*mpi.launcher(family, o.devices), sys.executable, os.path.abspath(__file__), *given, "--rank", so, os.path.join(folder, "turn")], check=True,
                   env=mpi.QUIET | {"STEPC_PLUGIN_PATH": os.path.dirname(o.stepc)})


def beside_ranks(o, data):
    """Rounds of all ranks and rounds of the first one's threads in turns. The others sleep as long as those take: until a file says which
    turn it is. The first half of a round, which waits for whoever wakes last, is not counted."""
    so, turns = o.rank
    first = next(os.environ[k] for k in ("OMPI_COMM_WORLD_RANK", "PMI_RANK") if k in os.environ) == "0"
    os.environ["STEPC_TRANSPORT"] = "mpi"
    ranks = opened(so, 1, data)
    os.environ["STEPC_TRANSPORT"] = "thread"
    threads, times = opened(so, 1, data) if first else None, [[], []]

    def timed(side, times, turn):
        go(side, o.steps)
        begin = time.perf_counter()
        go(side, o.steps)
        times += [(time.perf_counter() - begin) / o.steps] if turn else []

    for turn in range(o.rounds + 1):
        if first:
            timed(threads, times[0], turn)
            with open(turns + ".new", "w") as f:
                f.write(str(turn))
            os.rename(turns + ".new", turns)
        while not os.path.exists(turns) or int(open(turns).read()) < turn:
            time.sleep(0.002)
        timed(ranks, times[1], turn)
    if first:
        report(times, "threads of one process", "as many ranks")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--devices", type=int, default=2)
    p.add_argument("--cpu-time", action="store_true")
    p.add_argument("--wide", action="store_true")
    p.add_argument("--ranks", action="store_true")
    p.add_argument("--rank", nargs=2, metavar=("OBJECT", "FILE"))
    o = p.parse_args()
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
    if o.rank:
        return beside_ranks(o, data)
    with tempfile.TemporaryDirectory() as folder:
        objects = [compiled(o, document, folder, devices) for devices in ((o.devices,) if o.ranks else (1, o.devices))]
        if o.ranks:
            start_ranks(o, objects[0], folder)
            return
        sides = [opened(so, threads, data) for so, threads in zip(objects, (o.devices, 1))]
    clock, times = time.process_time if o.cpu_time else time.perf_counter, [[], []]
    for turn in range(o.rounds + 1):
        for i in ((0, 1), (1, 0))[turn % 2]:
            begin = clock()
            go(sides[i], o.steps)
            times[i] += [(clock() - begin) / o.steps] if turn else []
    report(times, "one device", "mesh of %d" % o.devices)


if __name__ == "__main__":
    main()
