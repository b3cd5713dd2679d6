#!/usr/bin/env python3
"""The same again is the same: builds of a document in other folders, locales, time zones and years have the same bytes; so have
runs of an object on one mesh; and a clock that is set while a program runs changes no number, loses no checkpoint and ends no wait.

usage: repeats.py STEPC SHIM [TEST...]     REPEATS=N in the environment: N runs and N / 5 builds instead of a few
"""
import json
import os
import random
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

REPEATS = int(os.environ.get("REPEATS", "4"))
DAY, YEAR = 86400, 365 * 86400
MODEL = {"stepc": 1, "inputs": {"x": {"shape": [64, 48], "axes": ["batch", None]}, "y": {"shape": [64, 5], "axes": ["batch", None]}},
         "model": {"type": "sequential", "input": "x", "layers": [
             {"type": "linear", "features": 96}, {"type": "gelu"}, {"type": "batch_norm"}, {"type": "dropout", "rate": 0.2},
             {"type": "linear", "features": 5}]},
         "loss": "mean((model - y)**2)", "metrics": {"largest": "max(abs(model))"}, "ema": {"decay": 0.9},
         "optimizer": {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 0.5},
                                                       {"type": "adamw", "learning_rate": 0.01}]},
         "mesh": {"axes": {"data": 2, "model": 2}}, "sharding": {"rules": [["batch", "data"]]}}


class Repeats(runner.Case):
    verify = False

    def setUp(self):
        self.draw = random.Random(3)
        self.model, self.data = self.write("model.json", MODEL), self.path("data.safetensors")
        safetensors.write(self.data, {"x": np.float32(np.sin(np.arange(4 * 64 * 48))).reshape(4, 64, 48),
                                      "y": np.float32(np.cos(np.arange(4 * 64 * 5))).reshape(4, 64, 5)})

    def shifted(self, **clock):
        return {"LD_PRELOAD": self.shim, **{"CLOCK_" + k.upper(): str(v) for k, v in clock.items()}}

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()

    def losses(self, path):
        with open(path) as f:
            rows = [json.loads(line) for line in f]
        return [{k: v for k, v in row.items() if "second" not in k and "time" not in k and not k.endswith(("_ms", "_ns"))} for row in rows]

    def test_builds(self):
        """The control: another document has other bytes."""
        first = self.path("first.so")
        self.stepc("compile", self.model, "-o", first)
        for i in range(max(3, REPEATS // 5)):
            folder = os.path.join(self.path("build-%d" % i), self.draw.choice(["a", "folder with spaces", "\u00e9\u00e8", "x" * 200]))
            os.makedirs(os.path.join(folder, "tmp"))
            model, so = os.path.join(folder, self.draw.choice(["model.json", "another name.json"])), os.path.join(folder, "step.so")
            with open(model, "w") as f:
                json.dump(MODEL, f)
            around = {"TMPDIR": os.path.join(folder, "tmp"), "TZ": self.draw.choice(["UTC", "Asia/Kathmandu", "America/St_Johns"]),
                      "LC_ALL": self.draw.choice(["C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8"]), "HOME": folder, "USER": "user%d" % i,
                      **self.shifted(at=self.draw.choice([0, -20 * YEAR, DAY, 13 * YEAR, 90 * YEAR]))}
            umask = os.umask(self.draw.choice([0o022, 0o077]))
            try:
                self.stepc("compile", model, "-o", so, env=around)
            finally:
                os.umask(umask)
            self.assertEqual(self.read(so), self.read(first), around)
        self.stepc("compile", self.write("other.json", {**MODEL, "loss": "mean((model - 2 * y)**2)"}), "-o", so)
        self.assertNotEqual(self.read(so), self.read(first))

    def test_runs(self):
        """The control: another seed trains to other numbers."""
        so = self.path("step.so")
        self.stepc("compile", self.model, "-o", so)

        def train(name, so, *more):
            out, rows = self.path(name + ".safetensors"), self.path(name + ".jsonl")
            self.stepc("run", so, "--data", self.data, "--steps", "12", "--save", out, "--all-state", "--metrics", rows, *more)
            return self.read(out), self.losses(rows)
        first = train("first", so)
        self.assertEqual(len(first[1]), 12)
        for i in range(REPEATS):
            self.assertEqual(train("again", so, "--threads", str(self.draw.randrange(1, 5))), first)
        other = self.path("other.so")
        self.stepc("compile", self.write("other.json", {**MODEL, "seed": 5}), "-o", other)
        self.assertNotEqual(train("other", other)[1], first[1])

    def test_clock(self):
        so, plain = self.path("step.so"), self.path("plain.safetensors")
        self.stepc("compile", self.model, "-o", so)
        self.stepc("run", so, "--data", self.data, "--steps", "40", "--save", plain, "--all-state")
        year_2038 = 20 * YEAR
        for i, clock in enumerate([{"jump": DAY}, {"jump": -DAY}, {"at": year_2038}, {"at": -50 * YEAR}, {"jump": 100 * YEAR}][:max(3, REPEATS)]):
            runs, out, looks = self.path("runs-%d" % i), self.path("out.safetensors"), self.path("looks")
            around = self.shifted(looks=looks, **clock)
            self.stepc("run", so, "--data", self.data, "--steps", "20", "--save-dir", runs, "--save-every", "2", "--save-seconds", "3600",
                       "--keep", "latest=3,every=8", "--timeout", "5", env=around)
            with open(looks) as f:
                self.assertGreater(int(f.read()), 0)
            kept = sorted(int(n[5:]) for n in os.listdir(runs) if n.startswith("step-"))
            self.assertEqual(kept, [8, 16, 18, 20])
            self.assertEqual([n for n in os.listdir(runs) if n.startswith(".")], [])
            self.stepc("checkpoint", "verify", runs, env=around)
            self.stepc("run", so, "--data", self.data, "--steps", "40", "--save-dir", runs, "--resume", "auto", "--timeout", "5", "--save", out,
                       "--all-state", env=around)
            self.assertEqual(self.read(out), self.read(plain))


if __name__ == "__main__":
    Repeats.shim = os.path.abspath(sys.argv.pop(2))
    runner.main()
