#!/usr/bin/env python3
"""How steps of 50 us to 2 ms scale from one worker to two: the least time of a step among many, both in turn in one process, workers on cores
of their own. Say by --cores which two, as what looks like two cores may be one (SMT): a pair of those gives 1.4x at best. README.md has the numbers.

    tests/bench/threads.py [--stepc build/stepc] [--seconds S] [--cores A,B] [MODEL...]
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import runner


def document(shape, model, **more):
    return {"stepc": 1, "name": "threads", "inputs": {"x": {"shape": shape, "axes": ["batch"] + [None] * (len(shape) - 1)}, "y": {"shape": shape[:1], "dtype": "int32", "axes": ["batch"]}},
            "model": model, "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"},
            "optimizer": {"type": "adam", "learning_rate": 1e-3}}


def mlp(batch, given, *widths):
    layers = [layer for w in widths for layer in ({"type": "linear", "features": w}, {"type": "relu"})]
    return document([batch, given], {"type": "sequential", "input": "x", "layers": layers + [{"type": "linear", "features": 10}]})


def cnn(batch, *channels):
    layers = [layer for c in channels for layer in ({"type": "conv", "features": c, "kernel_size": [3, 3]}, {"type": "relu"},
                                                    {"type": "max_pool", "window_shape": [2, 2], "strides": [2, 2]})]
    layers += [{"type": "expr", "expr": "reshape(x, (x.shape[0], -1))"}, {"type": "linear", "features": 10}]
    return document([batch, 16, 16, 1], {"type": "sequential", "input": "x", "layers": layers})


def rnn(cell, width, rows, times=16):
    nodes = [{"type": "rnn", "name": "r", "input": "x", "cell": {"type": cell, "hidden_features": width}}, {"type": "linear", "name": "o", "input": "r[:, -1]", "features": 10}]
    return document([rows, times, width], {"type": "graph", "nodes": nodes, "output": "o"})


MODELS = {"mlp-128-128": mlp(64, 64, 128, 128), "mlp-256-128": mlp(64, 128, 256, 128), "mlp-256-256": mlp(128, 256, 256, 256), "mlp-512-512": mlp(128, 784, 512, 512),
          "cnn-8-16": cnn(8, 8, 16), "cnn-16-32": cnn(16, 16, 32), "lstm-32": rnn("lstm_cell", 32, 8), "lstm-64": rnn("lstm_cell", 64, 16), "lstm-128": rnn("lstm_cell", 128, 16),
          "gru-96": rnn("gru_cell", 96, 16)}


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--stepc", default=os.path.join(HERE, "..", "..", "build", "stepc"))
    options.add_argument("--seconds", default="2")
    options.add_argument("--cores", help="A,B: of these two")
    options.add_argument("models", nargs="*", metavar="MODEL")
    options = options.parse_args()
    if options.cores:
        os.sched_setaffinity(0, {int(c) for c in options.cores.split(",")})
    with tempfile.TemporaryDirectory(prefix="stepc-threads-") as tmp:
        program, so = os.path.join(tmp, "threads"), os.path.join(tmp, "step.so")
        subprocess.run(["gcc", "-O2", "-I" + os.path.join(HERE, "..", "..", "runtime", "include"), os.path.join(HERE, "threads.c"), "-o", program, "-ldl"], check=True)
        for name in options.models or MODELS:
            path = runner.write_json(os.path.join(tmp, "model.json"), MODELS[name])
            subprocess.run([options.stepc, "compile", "-q", path, "-o", so], check=True)
            one, two = map(float, subprocess.run([program, options.seconds, so], check=True, capture_output=True).stdout.split())
            print("%-12s %8.1f us on one core, %8.1f us on two: %.2fx" % (name, one, two, one / two))


if __name__ == "__main__":
    main()
