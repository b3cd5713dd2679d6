#!/usr/bin/env python3
"""Training and evaluation: every layer of the table either computes the same in both, or is one that is known to differ; then
evaluation and inference compute what the layer does with its random or running part switched off, from objects and interpreted.

usage: modes.py STEPC
"""
import json
import os
import re
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

FLAT, TIMES, IMAGE, IDS = [4, 6], [4, 5, 6], [4, 6, 6, 2], [4, 3]
LINEAR, LSTM = {"type": "linear", "features": 3}, {"type": "lstm_cell", "hidden_features": 3}
CARRY = "zeros((4, 3))"


def cell(kind, carry):
    return FLAT, {"type": "graph", "output": "cell[1]", "nodes": [{"type": kind, "name": "cell", "hidden_features": 3, "inputs": [carry, "x"]}]}


# Per layer: the input's shape and a block, and where it differs the same block with that switched off.
LAYERS = {
    "linear": (FLAT, LINEAR),
    "linear_general": (FLAT, {"type": "linear_general", "features": [2, 3]}),
    "einsum": (FLAT, {"type": "einsum", "einsum_str": "bf,fg->bg", "kernel_shape": [6, 3]}),
    "embed": (IDS, {"type": "embed", "num_embeddings": 7, "features": 3}),
    "attend": (IDS, {"type": "sequential", "layers": [{"type": "embed", "name": "e", "num_embeddings": 7, "features": 3}, {"type": "attend", "embedding": "e"}]}),
    "layer_norm": (FLAT, {"type": "layer_norm"}),
    "rms_norm": (FLAT, {"type": "rms_norm"}),
    "group_norm": (IMAGE, {"type": "group_norm", "num_groups": 2}),
    "instance_norm": (IMAGE, {"type": "instance_norm"}),
    "batch_norm": (FLAT, {"type": "batch_norm", "momentum": 0.5}, {"use_running_average": True}),
    "prelu": (FLAT, {"type": "prelu"}),
    "multi_head_attention": (TIMES, {"type": "multi_head_attention", "num_heads": 2, "dropout_rate": 0.5}, {"deterministic": True}),
    "dropout": (FLAT, {"type": "dropout", "rate": 0.5}, {"deterministic": True}),
    "noise": (FLAT, {"type": "noise", "train_only": True}, {"type": "expr", "expr": "0 * x"}),
    "conv": (IMAGE, {"type": "conv", "features": 3, "kernel_size": [3, 3]}),
    "conv_transpose": (IMAGE, {"type": "conv_transpose", "features": 3, "kernel_size": [2, 2]}),
    "avg_pool": (IMAGE, {"type": "avg_pool", "window_shape": [2, 2]}),
    "max_pool": (IMAGE, {"type": "max_pool", "window_shape": [2, 2]}),
    "min_pool": (IMAGE, {"type": "min_pool", "window_shape": [2, 2]}),
    "lstm_cell": cell("lstm_cell", "(%s, %s)" % (CARRY, CARRY)),
    "optimized_lstm_cell": cell("optimized_lstm_cell", "(%s, %s)" % (CARRY, CARRY)),
    "gru_cell": cell("gru_cell", CARRY),
    "simple_cell": cell("simple_cell", CARRY),
    "rnn": (TIMES, {"type": "rnn", "cell": LSTM}),
    "bidirectional": (TIMES, {"type": "bidirectional", "forward_rnn": {"type": "rnn", "cell": LSTM}, "backward_rnn": {"type": "rnn", "cell": LSTM}}),
    "lora": (FLAT, {"type": "lora", "lora_rank": 2, "base_module": LINEAR}),
    "lora_linear": (FLAT, {"type": "lora_linear", "features": 3, "lora_rank": 2}),
    "weight_norm": (FLAT, {"type": "weight_norm", "layer_instance": LINEAR}),
    "spectral_norm": (FLAT, {"type": "spectral_norm", "layer_instance": LINEAR}),  # iterates in both, keeps the vector in training
}


class Modes(runner.Case):
    def document(self, name, shape, block, data):
        """A bias behind the layer gives something to train where the layer has nothing."""
        layers = [dict(block, name="layer"), {"type": "expr", "expr": "x + params.shift"}]
        inner = {"type": "sequential", "layers": layers} if data.dtype.kind == "i" else {"type": "residual" if name == "noise" else "sequential", "layers": layers}
        document = {"stepc": 1, "name": name, "inputs": {"x": {"shape": shape, "dtype": str(data.dtype), "axes": ["batch"] + [None] * (len(shape) - 1)}},
                    "model": {"type": "graph", "output": "body", "nodes": [{"type": "param", "name": "shift", "shape": [], "init": {"type": "zeros"}},
                                                                           dict(inner, name="body", input="x")]},
                    "loss": "mean((model - 0.25)**2)", "optimizer": {"type": "sgd", "learning_rate": 0.1}, "seed": 2}
        return self.write("model.json", document)

    def run_all(self, program):
        """Loss of a first step, of an evaluation before it, twice; then the file with the state after two steps."""
        data, state = self.path("data.st"), self.path("state.st")
        lines = lambda text: [json.loads(line) for line in text.splitlines()]
        evaluated = [lines(self.stepc("run", program, "-q", "--eval-data", data, "--metrics", "-").stdout)[0]["eval_loss"] for _ in range(2)]
        steps = lines(self.stepc("run", program, "-q", "--steps", "2", "--data", data, "--metrics", "-", "--save", state).stdout)
        self.assertEqual(evaluated[0], evaluated[1])
        return steps[0]["loss"], evaluated[0], state

    def outputs(self, program, state):
        self.stepc("run", program, "-q", "--init", state, "--infer", self.path("out.st"), "--infer-data", self.path("data.st"))
        return np.concatenate([v.ravel() for v in safetensors.read(self.path("out.st")).values()])

    def test_every_layer(self):
        names = re.findall(r"^## (\S+)$", self.stepc("doc", "layers").stdout, re.M)
        self.assertEqual(sorted(names), sorted(LAYERS), "a layer without a case here")
        random = np.random.default_rng(0)
        for name, (shape, block, *off) in LAYERS.items():
            data = (random.integers(0, 7, [1] + shape) if shape == IDS else random.normal(size=[1] + shape)).astype("i4" if shape == IDS else "f4")
            safetensors.write(self.path("data.st"), {"x": data})
            for compiled in (False, True) if off else (False,):
                with self.subTest(name, compiled=compiled):
                    program = self.document(name, shape, block, data)
                    if compiled:
                        self.stepc("compile", program, "-o", self.path("step.so"))
                        program = self.path("step.so")
                    trained, evaluated, state = self.run_all(program)
                    if not off:
                        self.assertAlmostEqual(trained, evaluated, places=6)
                        continue
                    self.assertGreater(abs(trained - evaluated), 1e-3)
                    os.rename(state, self.path("kept.st"))
                    got = self.outputs(program, self.path("kept.st"))
                    program = self.document(name, shape, off[0] if "type" in off[0] else dict(block, **off[0]), data)
                    if compiled:
                        self.stepc("compile", program, "-o", self.path("step.so"))
                        program = self.path("step.so")
                    without = self.run_all(program)
                    self.assertAlmostEqual(without[0], without[1], places=6)
                    self.assertAlmostEqual(without[1], evaluated, places=6)
                    np.testing.assert_allclose(got, self.outputs(program, self.path("kept.st")), rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    runner.main()
