#!/usr/bin/env python3
"""Training that diverges: the first step that is not finite is told with its number, a run whose weights became NaN does not end
with 0 unless somebody asked for that or has every step's numbers, and what is saved is what the message says.

    tests/cli/nonfinite.py STEPC
"""
import json
import os
import signal
import subprocess
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

DOCUMENT = {"stepc": 1, "name": "diverges", "inputs": {"x": {"shape": [3], "dtype": "float32"}}, "model": {"type": "param", "name": "w", "shape": [3]},
            "loss": "sum((model * x)**2)", "optimizer": {"type": "sgd", "learning_rate": 1e18}}
FIRST = "warning: step 3: the loss is infinite"  # 1e18, 1e36, then beyond float32

# options; exit code; the file that is written and whether its weights are finite; part of the message; steps that count
RUNS = [
    ([], 1, ("out.nonfinite", False), "out is not written"),
    (["--on-nonfinite", "stop"], 1, ("out", True), "step 3"),
    (["--on-nonfinite", "skip"], 0, ("out", True), "the step is skipped"),
    (["--on-nonfinite", "continue"], 0, ("out", False), FIRST),
    (["--on-nonfinite", "continue"], 0, ("out", False), "out: its weights are NaN or infinite since step 3"),
    (["--metrics", "metrics"], 0, ("out", False), FIRST),
    (["--metrics", "metrics"], 0, ("out", False), "out: its weights are NaN or infinite since step 3"),
]


class NonFinite(runner.Case):
    def setUp(self):
        super().setUp()
        self.model = self.write("model.json", json.dumps(DOCUMENT))
        self.data, self.init = self.path("data"), self.path("init")
        safetensors.write(self.data, {"x": np.ones((1, 3), "f4")})
        safetensors.write(self.init, {"w": np.ones(3, "f4")})
        self.stepc("compile", self.model, "-o", self.path("step.so"))

    def test_runs(self):
        for what in (self.model, self.path("step.so")):
            for options, code, (written, finite), said in RUNS:
                with self.subTest(what=what, options=options):
                    for name in ("out", "out.nonfinite"):
                        if os.path.exists(self.path(name)):
                            os.unlink(self.path(name))
                    options = [self.path(o) if o == "metrics" else o for o in options]
                    run = self.stepc("run", what, "--steps", "8", "--data", self.data, "--init", self.init, "--save", self.path("out"), *options, code=code)
                    self.assertIn(said, run.stderr)
                    self.assertEqual([n for n in ("out", "out.nonfinite") if os.path.exists(self.path(n))], [written])
                    self.assertEqual(bool(np.isfinite(safetensors.read(self.path(written))["w"]).all()), finite)

    def test_signal(self):
        """SIGUSR1 puts no such weights in the place of a file that is good, nor does the end of the run."""
        good = self.write("out", "precious")
        run = subprocess.Popen([self.program, "run", self.path("step.so"), "--steps", "1000000000", "--data", self.data, "--init", self.init, "--save", good],
                               stderr=subprocess.PIPE, text=True)
        for said, then in ((FIRST, signal.SIGUSR1), ("the weights are NaN or infinite, nothing is saved", signal.SIGINT)):
            while said not in run.stderr.readline():
                self.assertIsNone(run.poll())
            run.send_signal(then)
        self.assertIn("out is not written", run.stderr.read())
        self.assertNotEqual(run.wait(), 0)
        with open(good) as f:
            self.assertEqual(f.read(), "precious")

    def test_stream(self):
        """There is no name beside standard output: such weights are not written there, but where somebody asked for them."""
        for options, code, said in (([], 1, b""), (["--on-nonfinite", "continue"], 0, b"NaN or infinite since step 3")):
            run = subprocess.run([self.program, "run", self.path("step.so"), "--steps", "8", "--data", self.data, "--init", self.init, "--save", "-", *options],
                                 capture_output=True, cwd=self.folder, timeout=600)
            self.assertEqual((run.returncode, bool(run.stdout)), (code, code == 0), run.stderr)
            self.assertIn(said, run.stderr)
            self.assertFalse([n for n in os.listdir(self.folder) + os.listdir("/dev") if "nonfinite" in n])

    def test_number(self):
        """A parameter that is one number is looked at like any other: the loss was finite, what follows is not."""
        model = self.write("number.json", json.dumps({**DOCUMENT, "model": {"type": "param", "name": "w", "shape": []}, "loss": "sum(model * x)",
                                                      "optimizer": {"type": "sgd", "learning_rate": 1e30}}))
        safetensors.write(self.data, {"x": np.full((1, 3), 1e30, "f4")})
        safetensors.write(self.init, {"w": np.float32(0)})
        self.stepc("compile", model, "-o", self.path("number.so"))
        for what in (model, self.path("number.so")):
            run = self.stepc("run", what, "--steps", "1", "--data", self.data, "--init", self.init, "--save", self.path("out"), "--on-nonfinite", "stop", code=1)
            self.assertIn("step 1", run.stderr)

    def test_finite_again(self):
        """One batch is NaN: a loss that is, and weights that are not, are warned of; the run ends well."""
        safetensors.write(self.data, {"x": np.array([[1, 1, 1], [np.nan, 1, 1], [1, 1, 1]], "f4")})
        mild = self.write("mild.json", json.dumps({**DOCUMENT, "optimizer": {"type": "apply_if_finite", "inner": {"type": "sgd", "learning_rate": 0.1}, "max_consecutive_errors": 5}}))
        run = self.stepc("run", mild, "--steps", "3", "--data", self.data, "--init", self.init, "--save", self.path("out"))
        self.assertIn("warning: step 2: the loss is NaN", run.stderr)
        self.assertTrue(np.isfinite(safetensors.read(self.path("out"))["w"]).all())


if __name__ == "__main__":
    runner.main()
