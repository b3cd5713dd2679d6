#!/usr/bin/env python3
"""What optimizers that reckon in float32 leave of parameters of 16 bits.

usage: optimizers.py STEPC [TEST...]
"""
import os
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors


class Optimizers(runner.Case):
    def test_t5x_adafactor(self):
        """T5X rounds the parameter that it makes: of p - 31/32 p nothing is lost, as it is where what it changes by is rounded."""
        document = {"stepc": 1, "inputs": {"x": {"shape": [4, 6], "axes": ["batch", None]}}, "precision": {"params": "bfloat16"}, "seed": 3,
                    "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 40, "use_bias": False}]}, "loss": "mean(model**2)",
                    "optimizer": {"type": "t5x_adafactor", "learning_rate": 0.1, "weight_decay_rate": 0.96875}}
        runner.write_document(self.folder, document, {"x": np.zeros((1, 4, 6), np.float32)})
        for command in ("init.safetensors", "0"), ("end.safetensors", "1"):
            self.stepc("run", "model.json", "--data", "data.safetensors", "-q", "--steps", command[1], "--save", command[0])
        before, after = (safetensors.read(self.path(n))["layers.0.kernel"].astype(np.float32) for n in ("init.safetensors", "end.safetensors"))
        self.assertTrue(before.any())
        np.testing.assert_array_equal(after, before / 32)


if __name__ == "__main__":
    runner.main()
