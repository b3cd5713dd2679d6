#!/usr/bin/env python3
"""stepc run --infer: the outputs of the model without dropout and with running statistics, from an object and from the
interpreter, after steps and without any; --eval-data by the same rules.

usage: infer.py STEPC
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

STEPC = None
MODEL = {
    "stepc": 1, "name": "infer",
    "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8, 3], "axes": ["batch", None]}},
    "model": {"type": "graph", "nodes": [
        {"type": "batch_norm", "name": "norm", "input": "x", "momentum": 0.5},
        {"type": "dropout", "name": "drop", "input": "norm", "rate": 0.5},
        {"type": "linear", "name": "fc", "input": "drop", "features": 3}], "output": {"mean": "fc", "hidden": "drop"}},
    "loss": "mean((model.mean - y)**2)",
    "metrics": {"error": "mean(abs(model.mean - y))"},
    "optimizer": {"type": "sgd", "learning_rate": 0.1},
    "ema": {"decay": 0.5},
}


def write(path, tensors):
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        data = np.ascontiguousarray(t, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = np.frombuffer(raw[8 + n + a:8 + n + b], "<f4").reshape(t["shape"])
    return out


class Infer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory(prefix="stepc-infer-")
        random = np.random.default_rng(1)
        cls.x, cls.y = random.normal(1, 2, (3, 8, 4)).astype("f4"), random.normal(0, 1, (3, 8, 3)).astype("f4")
        with open(cls.path("model.json"), "w") as f:
            json.dump(MODEL, f)
        write(cls.path("data.st"), {"x": cls.x, "y": cls.y})
        write(cls.path("x.st"), {"x": cls.x})
        write(cls.path("y.st"), {"y": cls.y})
        assert cls.run_stepc("compile", cls.path("model.json"), "-o", cls.path("step.so"))[0] == 0

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.tmp.name, name)

    @staticmethod
    def run_stepc(*args):
        p = subprocess.run([STEPC, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        return p.returncode, p.stderr

    def expected(self, state, prefix=""):
        hidden = (self.x - state["norm.mean"]) / np.sqrt(state["norm.var"] + 1e-5) * state[prefix + "norm.scale"] + state[prefix + "norm.bias"]
        return {"model.hidden": hidden, "model.mean": hidden @ state[prefix + "fc.kernel"] + state[prefix + "fc.bias"]}

    def agrees(self, got, want):
        self.assertEqual(sorted(got), sorted(want))
        for name, t in want.items():
            np.testing.assert_allclose(got[name], t, rtol=1e-5, atol=1e-5, err_msg=name)

    def test_after_steps(self):
        for program in ("step.so", "model.json"):
            code, said = self.run_stepc("run", self.path(program), "--steps", "3", "--data", self.path("data.st"), "--save", self.path("final.st"),
                                        "--infer", self.path("out.st"))
            self.assertEqual(code, 0, said)
            self.agrees(read(self.path("out.st")), self.expected(read(self.path("final.st"))))

    def test_without_steps_and_labels(self):
        self.assertEqual(self.run_stepc("run", self.path("step.so"), "--steps", "3", "--data", self.path("data.st"), "--save", self.path("final.st"))[0], 0)
        for weights, prefix in (("params", ""), ("ema", "ema.")):
            for program in ("step.so", "model.json"):
                code, said = self.run_stepc("run", self.path(program), "--init", self.path("final.st"), "--infer", self.path("out.st"), "--infer-data",
                                            self.path("x.st"), "--eval-weights", weights)
                self.assertEqual(code, 0, said)
                self.agrees(read(self.path("out.st")), self.expected(read(self.path("final.st")), prefix))

    def test_evaluation_agrees_with_outputs(self):
        code, said = self.run_stepc("run", self.path("step.so"), "--steps", "2", "--data", self.path("data.st"), "--eval-data", self.path("data.st"),
                                    "--eval-every", "2", "--infer", self.path("out.st"), "--metrics", self.path("metrics.jsonl"))
        self.assertEqual(code, 0, said)
        with open(self.path("metrics.jsonl")) as f:
            last = json.loads(f.readlines()[-1])
        mean = read(self.path("out.st"))["model.mean"]
        self.assertAlmostEqual(last["eval_loss"], float(np.mean((mean - self.y) ** 2)), places=5)
        self.assertAlmostEqual(last["eval_error"], float(np.mean(np.abs(mean - self.y))), places=5)

    def test_by_microbatches(self):
        """A document that works through its batch in parts infers in parts too, with the same outputs; where an output has no
        rows, at once."""
        base = dict(MODEL, model=dict(MODEL["model"]))
        for more in ({}, {"output": {"mean": "fc", "total": "sum(fc)"}}):
            base["model"].update(more)
            want = None
            for parts in ({}, {"accumulate": {"microbatch_size": 2}}, {"accumulate": {"microbatch_size": 4, "split": "contiguous"}},
                          {"per_example": {"microbatch_size": 2}}):
                with open(self.path("parts.json"), "w") as f:
                    json.dump(dict(base, **parts), f)
                self.assertEqual(self.run_stepc("compile", self.path("parts.json"), "-o", self.path("parts.so")), (0, ""))
                for program in ("parts.so", "parts.json"):
                    code, said = self.run_stepc("run", self.path(program), "--infer", self.path("out.st"), "--infer-data", self.path("x.st"))
                    self.assertEqual(code, 0, said)
                    got = read(self.path("out.st"))
                    want = want or got
                    self.agrees(got, want)

    def test_mistakes(self):
        for args, code, says in ((("--infer-data", self.path("x.st"), "--steps", "1", "--data", self.path("data.st")), 2, "--infer-data needs --infer"),
                                 (("--infer", self.path("out.st"), "--infer-data", self.path("y.st")), 1, 'input "x" is missing'),
                                 (("--infer", self.path("no/out.st"), "--infer-data", self.path("x.st")), 3, "--infer: "),
                                 (("--infer", self.path("out.st")), 2, "--data is missing")):
            got, said = self.run_stepc("run", self.path("step.so"), *args)
            self.assertEqual(got, code, said)
            self.assertIn(says, said)


if __name__ == "__main__":
    STEPC = sys.argv.pop(1)
    unittest.main()
