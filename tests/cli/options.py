#!/usr/bin/env python3
"""Values of options: what is wrong with one by itself is wrong usage, and lists that are given again add up.

    tests/cli/options.py STEPC
"""
import json
import os
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

DOCUMENT = {
    "stepc": 1, "name": "small", "constants": {"hidden": 6},
    "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8, 3], "axes": ["batch", None]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "features": "$hidden"}, {"type": "tanh"}, {"type": "linear", "features": 3}]},
    "loss": "mean((model - y)**2)", "optimizer": {"type": "adam", "learning_rate": 0.01}}


class Options(runner.Case):
    def setUp(self):
        self.model = self.write("model.json", json.dumps(DOCUMENT))

    def test_mistakes_of_the_command_line(self):
        """Whatever document they are given with; where the document is wrong as well, that counts."""
        for option, value, says in (("--mesh", "data", "AXIS=N"), ("--mesh", "data=x", "AXIS=N"), ("--mesh", "data=2,", "ends with a comma"), ("--mesh", "data=2,data=2", "given twice"),
                                    ("--mesh", "data=0", "has size 0"), ("-D", "hidden=a", "a number"), ("-D", "hiden=3", 'did you mean "hidden"')):
            for command in ("check", "explain"):
                self.assertIn(says, self.stepc(command, self.model, option, value, code=2).stderr)
            self.assertIn(says, self.stepc("run", self.model, "--steps", "1", option, value, code=2).stderr)
        bad = self.write("bad.json", json.dumps(dict(DOCUMENT, optimiser={})))
        self.assertIn("E0107", self.stepc("check", bad, "-D", "hiden=3", code=1).stderr)

    def test_lists_given_again(self):
        """Parts that are left out, and passes, are those of all lists."""
        so, data = self.path("step.so"), self.path("data.safetensors")
        safetensors.write(data, {"x": np.ones((1, 8, 4), np.float32), "y": np.ones((1, 8, 3), np.float32)})
        self.stepc("compile", self.model, "-o", so, "--without", "trace", "--without", "compression", "-q")
        run = ("run", so, "--steps", "1", "--data", data, "-q")
        self.assertIn("so small that a step is one function", self.stepc(*run, "--trace", self.path("t.json"), code=1).stderr)
        self.assertIn("compression", self.stepc(*run, "--save-dir", self.path("runs"), "--compress", "all", code=1).stderr)
        passes = self.stepc("compile", self.model, "-o", so, "--disable", "simplify", "--disable", "join", "--time-passes").stderr
        self.assertNotRegex(passes, r"\b(simplify|join)\b")
        self.assertIn('unknown pass "fuze"', self.stepc("compile", self.model, "-o", so, "--disable", "fuze", "--disable", "remat", code=2).stderr)


if __name__ == "__main__":
    runner.main()
