#!/usr/bin/env python3
"""Recurrent networks whose weights are merged and lie in panels: compiled = interpreted after three steps, all parameters and the optimizer's
state, for widths and rows that no tile divides, on one thread and on three, for every instruction set of this machine.

    tests/products/recurrent.py STEPC
"""
import os
import sys
import tempfile

import numpy as np

from products import STEPC, levels
from tool import runner, safetensors

# cell, hidden, input, rows, times, more of the rnn
CASES = [("lstm_cell", 72, 40, 6, 40, {}), ("optimized_lstm_cell", 65, 33, 9, 25, {"reverse": True}), ("gru_cell", 100, 100, 5, 45, {}),
         ("simple_cell", 96, 17, 16, 13, {"time_major": True}), ("lstm_cell", 64, 64, 16, 16, {"seq_lengths": "lengths"}), ("gru_cell", 67, 3, 4, 50, {"both": True}),
         ("lstm_cell", 80, 20, 5, 40, {"both": True}), ("lstm_cell", 72, 40, 16, 24, {"dtype": "bfloat16"}),
         ("gru_cell", 67, 35, 16, 24, {"dtype": "bfloat16"})]


def document(cell, hidden, given, rows, times, more):
    more = dict(more)
    compute = more.pop("dtype", "float32")
    kind = {"type": cell, "hidden_features": hidden}
    both, major = more.pop("both", False), more.get("time_major", False)
    rnn = {"type": "rnn", "cell": kind, **more}
    layer = {"type": "bidirectional", "forward_rnn": rnn, "backward_rnn": rnn} if both else rnn
    shape = [times, rows, given] if major else [rows, times, given]
    inputs = {"x": {"shape": shape, "dtype": "float32", "axes": [None] * 3}}
    if "seq_lengths" in more:
        inputs["lengths"] = {"shape": [rows], "dtype": "int32", "axes": [None]}
    return {"stepc": 1, "name": "recurrent", "inputs": inputs,
            "model": {"type": "graph", "nodes": [dict(layer, name="r", input="x"), {"type": "linear", "name": "o", "input": "r", "features": 3}], "output": "o"},
            "loss": "mean((model - 0.1) ** 2)", "optimizer": {"type": "sgd", "learning_rate": 0.5, "momentum": 0.9}, "seed": 3, "precision": {"compute": compute}}


def main():
    random, wrong, count = np.random.default_rng(1), 0, 0
    with tempfile.TemporaryDirectory(prefix="stepc-recurrent-") as tmp:
        data, want, got, so = (os.path.join(tmp, n) for n in ("data.safetensors", "want.safetensors", "got.safetensors", "step.so"))
        for case in CASES:
            d = document(*case)
            path = runner.write_json(os.path.join(tmp, "model.json"), d)
            batch = {"x": random.standard_normal([3] + d["inputs"]["x"]["shape"]).astype("f4")}
            if "lengths" in d["inputs"]:
                batch["lengths"] = random.integers(1, case[4] + 1, (3, case[3])).astype("i4")
            safetensors.write(data, batch)
            common = ("--steps", "3", "--data", data, "--all-state")
            runner.call(STEPC, "run", path, *common, "--save", want)
            expected = safetensors.read(want)
            near = {"rtol": 2e-4, "atol": 2e-6} if "dtype" not in case[5] else {"rtol": 0.05, "atol": 0.01}
            for cpu in levels("dtype" in case[5]):
                runner.call(STEPC, "compile", path, "-o", so, "--cpu", cpu)
                for threads in "1", "3":
                    runner.call(STEPC, "run", so, *common, "--save", got, "--threads", threads)
                    found = safetensors.read(got)
                    count += 1
                    assert found.keys() == expected.keys() and len(found) > 4
                    for name, x in expected.items():
                        if not np.allclose(found[name], x, **near):
                            print("%s, %s, %s threads: %s differs by %.2g" % (case, cpu, threads, name, np.abs(found[name] - x).max()))
                            wrong += 1
    print("%d runs of recurrent networks, %d tensors wrong" % (count, wrong))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
