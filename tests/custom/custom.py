#!/usr/bin/env python3
"""Transformations that a document writes itself.

pairs/*.json hold an optimizer that is built in and the same one written as `custom`; both train the same model, and the
results must agree bit by bit, interpreted and compiled. errors/*.json hold mistakes and what has to be said about them.
Every document in docs/custom-optimizers.md compiles.

usage: custom.py STEPC [NAME...]
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
STEPC = None
STEPS = 9
DOCUMENT = {
    "stepc": 1, "name": "custom",
    "inputs": {"x": {"shape": [8, 3], "axes": ["batch", None]}, "y": {"shape": [8, 2], "axes": ["batch", None]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "features": 5}, {"type": "tanh"}, {"type": "layer_norm"}, {"type": "linear", "features": 2}]},
    "loss": "mean((model - y)**2)", "seed": 3}


def safetensors(path, arrays):
    header, body = {}, b""
    for name, a in arrays.items():
        raw = np.ascontiguousarray(a, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def tensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    begin = 8 + n
    return {name: (t["dtype"], t["shape"], raw[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]])
            for name, t in json.loads(raw[8:begin]).items() if name != "__metadata__"}


class Custom(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="stepc-custom-")

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def stepc(self, *args, code=0):
        p = subprocess.run([STEPC, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(p.returncode, code, "stepc %s: %s%s" % (" ".join(args), p.stdout, p.stderr))
        return p.stderr + p.stdout

    def write(self, name, document):
        with open(self.path(name), "w") as f:
            json.dump(document, f, indent=1)
        return self.path(name)

    def trained(self, name, optimizer, compiled, settings, *more):
        model = self.write(name + ".json", dict(DOCUMENT, optimizer=optimizer))
        if compiled:
            self.stepc("compile", model, "-o", self.path("step.so"))
            model = self.path("step.so")
        arguments = [a for s in settings for a in ("--set", s)]
        out = self.path(name + ".safetensors")
        self.stepc("run", model, "--steps", str(STEPS), "--data", self.path("data.safetensors"), "--save", out, *arguments, *more)
        return tensors(out)

    def data(self):
        rng = np.random.default_rng(0)
        safetensors(self.path("data.safetensors"), {"x": rng.normal(size=(STEPS, 8, 3)), "y": rng.normal(size=(STEPS, 8, 2))})

    def test_pairs(self):
        self.data()
        names = sorted(os.listdir(os.path.join(HERE, "pairs")))
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            with open(os.path.join(HERE, "pairs", name)) as f:
                pair = json.load(f)
            for compiled in (False, True):
                with self.subTest(name, compiled=compiled):
                    settings = pair.get("set", [])
                    want = self.trained("built_in", pair["built_in"], compiled, settings)
                    got = self.trained("custom", pair["custom"], compiled, settings)
                    untrained = self.trained("untrained", {"type": "set_to_zero"}, False, [])
                    self.assertEqual(sorted(got), sorted(want))
                    for tensor in want:
                        self.assertNotEqual(want[tensor], untrained[tensor], tensor)
                        a, b = (np.frombuffer(t[2], "<f4") for t in (got[tensor], want[tensor]))
                        self.assertEqual(got[tensor], want[tensor], "%s differs by %g" % (tensor, np.abs(a - b).max()))


if __name__ == "__main__":
    STEPC = sys.argv.pop(1)
    unittest.main()
