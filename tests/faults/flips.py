#!/usr/bin/env python3
"""One flipped bit of an object or of saved tensors: detected, or without any effect; never a signal, a hang, exit 127 or other
numbers. The negative controls flip the same bits where the checksum does not see them.

usage: flips.py STEPC [TEST...]     FLIPS=N in the environment: so many per kind instead of a few
"""
import os
import random
import subprocess
import sys
import zlib

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner, safetensors

sys.path[:0] = [os.path.join(ROOT, "samples"), os.path.join(ROOT, "samples", "import")]
FLIPS = int(os.environ.get("FLIPS", "40"))
HEAD = bytes([6, 0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0]) + b"stepc\0\0\0"
MODEL = {"stepc": 1, "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8, 3], "axes": ["batch", None]}},
         "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 6}, {"type": "tanh"}, {"type": "linear", "features": 3}]},
         "loss": "mean((model - y)**2)", "optimizer": {"type": "adam", "learning_rate": 0.01}}
# Objects or files, one path per line: what the Python host says of each, as "status" or "state HASH".
HOST = """
import sys, zlib
sys.path.insert(0, %r)
import stepc
step = None if sys.argv[1] == "-" else stepc.Step(sys.argv[1])
for line in sys.stdin:
    try:
        m = step or stepc.Step(line.strip())
        if step:
            m.load(line.strip())
        else:
            m.init()
        print("state %%08x" %% zlib.crc32(repr(sorted((n, a.tobytes()) for n, a in m.state().items())).encode()), flush=True)
    except stepc.StepError as e:
        print("status %%d" %% e.status, flush=True)
""" % os.path.join(ROOT, "samples")


def flipped(raw, bit):
    raw = bytearray(raw)
    raw[bit // 8] ^= 1 << bit % 8
    return bytes(raw)


def sealed(raw, at):
    """An object with the checksum, at `at`, of what it is now."""
    return raw[:at] + zlib.crc32(raw[at + 4:], zlib.crc32(raw[:at])).to_bytes(4, "little") + raw[at + 4:]


class Flips(runner.Case):
    verify = False

    def setUp(self):
        self.draw = random.Random(7)
        self.model, self.so, self.data = self.write("model.json", MODEL), self.path("step.so"), self.path("data.safetensors")
        safetensors.write(self.data, {"x": np.float32(np.sin(range(64))).reshape(2, 8, 4), "y": np.float32(np.cos(range(48))).reshape(2, 8, 3)})
        self.stepc("compile", self.model, "-o", self.so)
        with open(self.so, "rb") as f:
            self.object = f.read()
        self.note = self.object.index(HEAD) + len(HEAD)

    def put(self, name, raw):
        with open(self.path(name), "wb") as f:
            f.write(raw)
        return self.path(name)

    def host(self, what, paths):
        done = subprocess.run([sys.executable, "-c", HOST, what], input="\n".join(paths), capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\n")[:-1]

    def train(self, so, *more):
        try:
            done = runner.attempt(self.program, "run", so, "--steps", "2", "--data", self.data, "--metrics", "-", "-q", *more, timeout=20)
            return done.returncode, done.stdout
        except runner.Failed:
            return "hang", ""

    def bits(self):
        """Of the headers, of the note that holds the sum, of code, tables and the end."""
        size, at = len(self.object) * 8, (self.note - len(HEAD)) * 8
        return [self.draw.randrange(*part) for _ in range(FLIPS // 4) for part in ((0, 568 * 8), (at, at + 256), (0, size), (size - 3000, size))]

    def test_objects(self):
        names = []
        for k, bit in enumerate(self.bits()):
            so = self.put("bad%d.so" % k, flipped(self.object, bit))
            names.append(so)
            for verb in (("explain",), ("verify",), ("run", "--steps", "2", "--data", self.data)):
                done = runner.attempt(self.program, verb[0], so, *verb[1:], timeout=60)
                self.assertEqual(done.returncode, 1, (verb, bit, done))
                if bit >= 32:  # the first four bytes say that it is an object
                    self.assertIn("damaged", done.stderr)
        self.assertEqual(self.host("-", names), ["status 7"] * len(names))
        self.assertEqual(self.host("-", [self.so])[0][:5], "state")

    def test_objects_control(self):
        """With the sum of the damaged bytes the loader and the code meet them: some trainings crash or differ, and `verify`, which
        makes the first steps in a process of its own, still only says so."""
        right, found = self.train(self.so), {"other": 0, "signal": 0}
        self.assertEqual(right[0], 0)
        rate = self.object.index(np.float64([0.01]).tobytes()) * 8 + 50  # a bit of the learning rate, since all others may be of what does not count
        for bit in [*self.bits(), rate]:
            so = self.put("sealed.so", sealed(flipped(self.object, bit), self.note))
            code, said = self.train(so)
            found["signal"] += code == "hang" or code < 0 or code > 4
            found["other"] += code == 0 and said != right[1]
            self.assertIn(runner.attempt(self.program, "verify", so, timeout=120).returncode, (0, 1, 3), bit)
        self.assertGreater(found["signal"] + found["other"], 0)

    def test_self_test(self):
        """A constant of the code that changes under a right sum is found by the first steps."""
        text = self.stepc("verify", self.so).stdout
        self.assertIn("give the bits that were recorded", text)
        half = np.float32([0.999]).tobytes()  # Adam's decay
        at = self.object.index(half)
        so = self.put("half.so", sealed(self.object[:at] + np.float32([0.5]).tobytes() + self.object[at + 4:], self.note))
        self.assertIn("other bits", self.stepc("verify", so, code=1).stderr)

    def saved(self):
        path = self.path("state.safetensors")
        self.train(self.so, "--save", path, "--all-state")
        with open(path, "rb") as f:
            return path, f.read()

    def test_saved(self):
        path, raw = self.saved()
        right = self.host(self.so, [path])
        begin = 8 + int.from_bytes(raw[:8], "little")
        every = range(len(raw) * 8) if len(raw) < 4000 else range(0, len(raw) * 8, 7)
        bits = list(every) if FLIPS > 1000 else sorted(self.draw.sample(list(every), 25 * FLIPS))
        for part in (bits[i:i + 500] for i in range(0, len(bits), 500)):
            said = self.host(self.so, [self.put("b%d.safetensors" % k, flipped(raw, bit)) for k, bit in enumerate(part)])
            for bit, one in zip(part, said):
                self.assertTrue(one.startswith("status") or one == right[0], (bit, one))
                self.assertTrue(one == "status 7" or bit < begin * 8, (bit, one))
        import tensors
        for bit in self.draw.sample(range(begin * 8, len(raw) * 8), FLIPS // 4):
            bad = self.put("bad.safetensors", flipped(raw, bit))
            self.assertEqual(self.train(self.so, "--init", bad)[0], 1)
            self.assertRaises(tensors.Bad, tensors.open_model, bad)

    def test_saved_control(self):
        """Without a checksum, as files of others, flipped data are taken for what they are."""
        path, raw = self.saved()
        at = raw.index(b'crc32":"') + 8
        raw = raw[:at] + b"0" * 8 + raw[at + 8:]
        plain = self.put("plain.safetensors", raw)
        right, begin = self.host(self.so, [plain])[0], 8 + int.from_bytes(raw[:8], "little")
        self.assertTrue(right.startswith("state"))
        said = self.host(self.so, [self.put("b%d.safetensors" % k, flipped(raw, self.draw.randrange(begin * 8, len(raw) * 8))) for k in range(20)])
        self.assertGreater(sum(one != right for one in said), 10)
        safetensors.write(self.path("other.safetensors"), {n: a for n, a in safetensors.read(path).items()})
        self.assertEqual(self.host(self.so, [self.path("other.safetensors")])[0][:5], "state")


if __name__ == "__main__":
    runner.main()
