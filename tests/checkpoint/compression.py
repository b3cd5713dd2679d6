#!/usr/bin/env python3
"""Checkpoints that are compressed: they hold the same bits, go on as others do, leave parameters and averages as files that others read,
and are refused by name where Zstandard is not there. What is damaged is found; what a manifest makes up is no way in.

usage: compression.py STEPC [TEST...]
"""
import ctypes
import json
import os
import shutil
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples")]
import stepc as host
from tool import runner, safetensors

MODEL = {"stepc": 1, "inputs": {"x": {"shape": [8, 40], "axes": ["batch", None]}, "y": {"shape": [8, 5], "axes": ["batch", None]}},
         "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 300}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "linear", "features": 5}]},
         "loss": "mean((model - y)**2)", "ema": {"decay": 0.9}, "optimizer": {"type": "adamw", "learning_rate": 0.01}}
STEPS = 9
NO_LIBRARY = {"STEPC_ZSTD": "/none/libzstd.so"}


def read(path):
    with open(path, "rb") as f:
        return f.read()


def library():
    try:
        ctypes.CDLL("libzstd.so.1")
        return True
    except OSError:
        return False


class Compression(runner.Case):
    verify = False

    def setUp(self):
        if not library():
            self.skipTest("libzstd.so.1 is not installed")
        numbers = np.random.default_rng(7)
        self.model, self.so, self.data = self.write("model.json", MODEL), self.path("step.so"), self.path("data.safetensors")
        safetensors.write(self.data, {"x": numbers.standard_normal((7, 8, 40)).astype(np.float32), "y": numbers.standard_normal((7, 8, 5)).astype(np.float32)})
        self.stepc("compile", self.model, "-o", self.so, "-q")

    def train(self, *more, what=None, steps=STEPS, code=0, env=None):
        return self.stepc("run", what or self.so, "--steps", str(steps), "--data", self.data, "--threads", "1", "-q", *more, code=code, env=env)

    def manifest(self, run, step=4):
        with open(self.path("%s/step-%d/manifest.json" % (run, step))) as f:
            return json.load(f)

    def test_same_bits(self):
        """Each way of saving leads to the same end, from the tool and from hosts; only what is asked for is compressed."""
        self.train("--save", "whole.safetensors", "--all-state")
        whole, sizes = read(self.path("whole.safetensors")), {}
        for name, more in (("plain", ()), ("opt_state", ("--compress", "opt_state")), ("all", ("--compress", "all"))):
            self.train("--save-dir", name, *more, steps=4)
            self.stepc("checkpoint", "verify", "-q", name)
            self.assertEqual(self.manifest(name)["stepc_checkpoint"], 1 if name == "plain" else 2)
            told = {n: slot for n, slot in self.manifest(name)["slots"].items() if "stored" in slot["pieces"][0]}
            self.assertEqual({slot["role"] for slot in told.values()}, {"plain": set(), "opt_state": {"opt_state"}, "all": {"param", "ema", "opt_state", "state"}}[name])
            sizes[name] = sum(os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(self.path(name + "/step-4")) for f in files if f != "manifest.json")
            self.train("--save-dir", name, "--resume", "auto", "--save", "end.safetensors", "--all-state", *more)
            self.assertEqual(read(self.path("end.safetensors")), whole, name)
            m = host.Step(self.so, threads=1)
            m.load(self.path(name + "/step-9"))
            for tensor, wanted in safetensors.read(self.path("whole.safetensors")).items():
                self.assertEqual(m[tensor].tobytes(), wanted.tobytes(), tensor)
            head, data = host._open(self.path(name))  # as Python reads it by itself
            self.assertEqual({n: data[slice(*t["data_offsets"])] for n, t in head.items()}, {n: t.tobytes() for n, t in safetensors.read(self.path("whole.safetensors")).items()})
            self.assertEqual([(one.step, one.complete) for one in host.checkpoints(self.path(name))], [(4, True), (9, True)])
            self.assertEqual(self.stepc("checkpoint", "diff", "plain/step-4", name + "/step-4").returncode, 0)
            shown = self.stepc("checkpoint", "show", name + "/step-4").stdout
            self.assertEqual(shown.count("compressed, "), len(told))
            self.stepc("checkpoint", "convert", name, "-o", name + "-again", "-q")
            self.assertEqual(read(self.path(name + "-again/step-9/opt_state.safetensors")), read(self.path("plain/step-9/opt_state.safetensors")))
            if more:  # and back
                self.stepc("checkpoint", "convert", name + "-again", "-o", name + "-back", "-q", *more)
                for file in ("params", "ema", "opt_state", "state"):
                    self.assertEqual(read(self.path(name + "-back/step-9/%s.safetensors" % file)), read(self.path(name + "/step-9/%s.safetensors" % file)))
            self.stepc("checkpoint", "export", name, "-o", name + ".safetensors", "-q")
            self.assertEqual(read(self.path(name + ".safetensors")), read(self.path("plain.safetensors")))
        for file in ("params", "ema", "state"):
            self.assertEqual(read(self.path("opt_state/step-4/%s.safetensors" % file)), read(self.path("plain/step-4/%s.safetensors" % file)))
        self.assertLess(sizes["opt_state"], 0.95 * sizes["plain"])
        self.assertLess(sizes["all"], 0.95 * sizes["opt_state"])

    def test_python(self):
        m = host.Step(self.so, threads=1)
        m.init()
        batch = {n: v[0] for n, v in safetensors.read(self.data).items()}
        with m.checkpoints(self.path("a"), keep="latest=2", compress="opt_state") as runs:
            for _ in range(3):
                m.step(**batch)
                runs.save({"n": 1}, {"loss": 1.0})
        one = host.Step(self.so, threads=1)
        self.assertEqual(one.checkpoints(self.path("a")).resume(), 3)
        for role in (host.PARAM, host.EMA, host.OPT_STATE, host.STATE):
            for name in m.names(role):
                self.assertEqual(m[name].tobytes(), one[name].tobytes(), name)
        with self.assertRaisesRegex(ValueError, 'compress="zip": expected opt_state or all'):
            m.checkpoints(self.path("a"), compress="zip")

    def test_zeros(self):
        """What is never smaller than a 64th: no file justifies more memory than that."""
        document = json.loads(json.dumps(MODEL))
        document["model"]["layers"][0]["features"] = 20000
        self.stepc("compile", self.write("wide.json", document), "-o", self.path("wide.so"), "-q")
        m = host.Step(self.path("wide.so"), threads=1)
        m.init()
        with m.checkpoints(self.path("z"), compress="opt_state") as runs:
            runs.save()
        piece = self.manifest("z", 0)["slots"]["opt_state.0.mu.layers.0.kernel"]["pieces"][0]
        self.assertEqual((piece["stored"], piece["chunked"]), (40 * 20000 * 4 // 64, 40 * 20000 * 4))
        one = host.Step(self.path("wide.so"), threads=1)
        one.load(self.path("z"))
        self.assertFalse(one["opt_state.0.mu.layers.0.kernel"].any())

    def test_not_there(self):
        """Without the library a save is refused before anything is written, and what is compressed is not read; checksums are compared all the same."""
        self.train("--save-dir", "a", "--compress", "opt_state", steps=4)
        for more in (("--save-dir", "b", "--compress", "all"), ("--resume", "a/step-4"), ("--init", "a")):
            refused = self.train(*more, code=3, env=NO_LIBRARY)
            self.assertIn("compressed checkpoints need Zstandard 1.4 or later, and there is none here (/none/libzstd.so): install libzstd1", refused.stderr)
        self.assertFalse(os.path.exists(self.path("b")))
        self.stepc("checkpoint", "verify", "-q", "a", env=NO_LIBRARY)
        self.stepc("checkpoint", "ls", "a", env=NO_LIBRARY)
        self.assertIn("need Zstandard", self.stepc("checkpoint", "convert", "a", "-o", "c", env=NO_LIBRARY, code=3).stderr)
        self.assertFalse(os.path.exists(self.path("c")))
        without = self.path("without.so")
        self.stepc("compile", self.model, "-o", without, "-q", "--without", "compression")
        for more in (("--save-dir", "b", "--compress", "all"), ("--resume", "a/step-4")):
            self.assertIn("object compiled --without compression", self.train(*more, what=without, code=1).stderr)
        self.assertFalse(os.path.exists(self.path("b")))
        self.train("--save-dir", "b", what=without)
        self.assertIn("--compress needs --save-dir DIR", self.train("--compress", "all", code=2).stderr)
        self.assertIn('--compress: expected one of opt_state|all, found "opt"', self.train("--compress", "opt", "--save-dir", "b", code=2).stderr)
        file = host.Step(self.so, threads=1)
        file.init()
        with self.assertRaisesRegex(host.StepError, "compression are of directories"):
            file._check(file._save(file._instance, ctypes.byref(host._Save(directory=self.path("x.safetensors").encode(), flags=1)), None))

    def test_damaged(self):
        """Flipped bits are found by checksums, and without them by what they are not; the run takes the checkpoint before."""
        self.train("--save-dir", "a", "--save-every", "4", "--compress", "all", steps=8)
        path, draw = self.path("a/step-8/opt_state.safetensors"), np.random.default_rng(3)
        good, m, refused = read(path), host.Step(self.so, threads=1), 0
        m.init()
        for _ in range(150):
            bad = bytearray(good)
            bad[draw.integers(2000, len(good))] ^= 1 << int(draw.integers(8))
            with open(path, "wb") as f:
                f.write(bad)
            with self.assertRaisesRegex(host.StepError, "STEP_ECORRUPT"):
                m.load(self.path("a/step-8"))
            try:
                m.load(self.path("a/step-8"), verify=False)
            except host.StepError as e:
                self.assertEqual(e.status, 7)
                refused += 1
        self.assertGreater(refused, 0)
        self.assertIn("opt_state.safetensors is damaged", self.stepc("checkpoint", "verify", "a", code=1).stderr)
        self.assertIn("step-8", self.train("--save-dir", "a", "--resume", "auto", "--save", "end.safetensors", "--all-state").stderr)
        self.train("--save", "whole.safetensors", "--all-state")
        self.assertEqual(read(self.path("end.safetensors")), read(self.path("whole.safetensors")))

    def test_made_up(self):
        """Manifests that say something else of what is compressed, with a checksum that is right."""
        self.train("--save-dir", "a", "--compress", "all", steps=4)
        told, name = self.manifest("a"), "opt_state.0.mu.layers.0.kernel"
        whole, real = 40 * 300 * 4, told["slots"][name]["pieces"][0]
        for change in ({"stored": 0}, {"stored": real["stored"] - 1}, {"stored": real["stored"] + 1}, {"stored": whole + 1}, {"stored": 1}, {"stored": 2**52},
                       {"chunked": 0}, {"chunked": 1}, {"chunked": whole - 4}, {"chunked": whole + 4}, {"chunked": 2**52}, {"stored": -1}, {"chunked": "x"}, {"stored": None}, {"file": "params.safetensors"}):
            shutil.rmtree(self.path("b"), ignore_errors=True)
            shutil.copytree(self.path("a"), self.path("b"))
            made = json.loads(json.dumps(told))
            made["slots"][name]["pieces"][0].update(change)
            del made["self"]
            text = json.dumps(made, separators=(",", ":"))[:-1] + ","
            with open(self.path("b/step-4/manifest.json"), "w") as f:
                f.write(text + '"self":"%s"}' % host._xxh3(text.encode()))
            m = host.Step(self.so, threads=1)
            with self.assertRaises(host.StepError, msg=str(change)) as raised:
                m.load(self.path("b/step-4"))
            self.assertEqual(raised.exception.status, 7, "%s: %s" % (change, raised.exception))


if __name__ == "__main__":
    runner.main()
