#!/usr/bin/env python3
"""Numbers at the edges, in every place of two documents where a number stands: 0, negative ones, those around 2**31, 2**32, 2**53 and
2**63, the largest and the least that a float64 has, what is none; lists of rank 9 and of 10 MB; tensors without elements. Each is accepted, or refused by
diagnostics with a line and a column; none takes long or much memory, and none ends otherwise.

    tests/limits/extremes.py STEPC [TEST...]
"""
import copy
import json
import os
import re
import resource
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import numpy as np
from tool import runner, safetensors

EDGES = ["0", "-1", "2147483647", "2147483648", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
         "18446744073709551616", "1e308", "-1e308", "1e309", "1e-320", "0.5", "-0.0", "1e18", "NaN", "Infinity"]
SECONDS, MEBI = 2, 256  # 0.05 s where nothing else runs; CPU time

SMALL = {"stepc": 1, "name": "extremes", "constants": {"n": 4}, "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8], "dtype": "int32", "axes": ["batch"]}},
         "model": {"type": "sequential", "input": "x", "layers": [
             {"type": "linear", "features": 4}, {"type": "layer_norm", "epsilon": 1e-6}, {"type": "dropout", "rate": 0.1},
             {"type": "repeat", "count": 2, "block": {"type": "linear", "features": 4}}, {"type": "expr", "expr": "x * 2"}]},
         "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"},
         "optimizer": {"type": "adamw", "learning_rate": {"type": "warmup_cosine_decay_schedule", "init_value": 0, "peak_value": 0.1, "warmup_steps": 3, "decay_steps": 9}, "b1": 0.9},
         "ema": {"decay": 0.9}, "accumulate": {"microbatch_size": 4}, "seed": 0}
IMAGE = {"stepc": 1, "inputs": {"x": {"shape": [4, 8, 8, 2], "axes": ["batch", None, None, None]}},
         "model": {"type": "sequential", "input": "x", "layers": [
             {"type": "conv", "features": 2, "kernel_size": [3, 3], "strides": 1, "feature_group_count": 1}, {"type": "max_pool", "window_shape": [2, 2], "strides": [2, 2]},
             {"type": "group_norm", "num_groups": 1}, {"type": "expr", "expr": "reshape(x, (4, -1))"}]},
         "loss": "mean(model ** 2) + sum(arange(4)) * 0", "optimizer": {"type": "sgd", "learning_rate": 0.1}, "mesh": {"axes": {"data": 1}}}


def numbers(value, path=()):
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path
    elif isinstance(value, (dict, list)):
        for k, v in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(v, path + (k,))


def with_text(document, path, text):
    document = copy.deepcopy(document)
    there = document
    for k in path[:-1]:
        there = there[k]
    there[path[-1]] = "@@"
    return json.dumps(document, indent=1).replace('"@@"', text)


def extremes():
    for document in SMALL, IMAGE:
        for path in numbers(document):
            for text in EDGES:
                yield "/".join(map(str, path)) + " = " + text, with_text(document, path, text)
    for text in ("model / 0", "model[2147483648:]", "model[-9223372036854775808]", "arange(9223372036854775807)", "reshape(model, (4294967296, 4294967296))", "zeros((2147483648, 2147483648))",
                 "model * 1e400", "model ** 2147483648", "repeat(model, 4294967296)", "eye(2147483648)", "pad(model, 2147483648)", "roll(model, 9223372036854775807)", "model + 99999999999999999999999999",
                 "tile(model, (65536, 65536, 65536))", "linspace(0, 1, 9223372036854775807)", "model << 4294967296", "one_hot(model, 1099511627776)", "broadcast_to(model, (2147483647, 2147483647, 8, 4))"):
        yield "loss " + text, json.dumps({**SMALL, "loss": "mean(%s)" % text}, indent=1)
    for size in ([0, 3], [3, 0], [65536, 65536]):
        layers = [{"type": "conv", "features": 4, "kernel_size": size, "kernel_init": {"type": "delta_orthogonal"}}]
        yield "delta_orthogonal of %s" % size, json.dumps({"stepc": 1, "inputs": {"x": {"shape": [2, 8, 8, 3]}}, "model": {"type": "sequential", "input": "x", "layers": layers},
                                                           "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.1}}, indent=1)
    yield "10 MB of numbers", with_text(SMALL, ("inputs", "x", "shape", 0), "[%s]" % ",".join(["1"] * 5000000))
    yield "10 MB of a text", json.dumps({**SMALL, "loss": "x" * 10000000})
    yield "rank 9", with_text(SMALL, ("inputs", "x", "shape"), str([1] * 9))

# What has no elements: expressions of z, a parameter [0, 3], or [2, 0]; and optimizers of matrices beside one.
EMPTY = ("append(x, x)", "concatenate([x, x])", "cov(x, x)", "corrcoef(x, x)", "x @ transpose(x)", "transpose(x) @ x", "matmul(x, ones((3, 4)))", "matmul(ones((4, 2)), x)", "concatenate(x)",
         "outer(x, x)", "einsum('ij,ik->jk', x, x)", "tensordot(x, x)", "roll(x, 1)", "sort(x)", "cumsum(x, axis=0)")
MATRICES = [{"type": name, "learning_rate": 0.1, **more} for name, more in (("muon", {}), ("galore", {"rank": 2}), ("adafactor", {"min_dim_size_to_factor": 0}), ("sm3", {}), ("lbfgs", {}), ("lamb", {}))]


REFUSED = ("concatenate(x) of [0, 3]", "matmul(ones((4, 2)), x) of [0, 3]", "matmul(x, ones((3, 4))) of [2, 0]")


def empty():
    for shape in [0, 3], [2, 0]:
        base = {"stepc": 1, "inputs": {"g": {"shape": [2, 3]}}, "loss": "sum(params.w ** 2) + sum(g) + sum(params.z)", "optimizer": {"type": "sgd", "learning_rate": 0.1}}
        nodes = [{"type": "param", "name": "z", "shape": shape}, {"type": "param", "name": "w", "shape": [4, 3]}]
        for text in EMPTY:
            model = {"type": "graph", "nodes": nodes + [{"type": "expr", "name": "o", "input": "z", "expr": text}], "output": "o"}
            yield "%s of %s" % (text, shape), {**base, "model": model, "loss": base["loss"] + " + sum(model)"}
        for optimizer in MATRICES:
            yield "%s beside %s" % (optimizer["type"], shape), {**base, "model": {"type": "graph", "nodes": nodes, "output": "w"}, "optimizer": optimizer}


class Extremes(runner.Case):
    verify = False

    def run_one(self, text, program=None):
        path = self.write("m.json", text)
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        with subprocess.Popen([program or self.program, "check", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", preexec_fn=limit) as run:
            said = run.stderr.read()
            _, status, used = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
        return self.faults(run.returncode, said, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)

    def faults(self, code, said, seconds, mebi):
        errors = re.findall(r"^.*error\[E\d+\].*$", said, re.M)
        placed = re.findall(r"^\S+\.json:\d+:\d+: error\[E\d+\]", said, re.M)
        found = ["ended with %d" % code] if code not in (0, 1) else []
        found += ["refused without a diagnostic"] if code == 1 and not errors else []
        found += ["no place: " + errors[0][:150]] if len(errors) != len(placed) else []
        found += ["%.2f s" % seconds] * (seconds > SECONDS) + ["%.0f MiB" % mebi] * (mebi > MEBI)
        return found

    def test_extremes(self):
        count = 0
        for name, text in extremes():
            count += 1
            with self.subTest(name):
                self.assertEqual(self.run_one(text), [])
        self.assertGreater(count, 250)
        print("%d documents" % count, file=sys.stderr)

    def test_empty(self):
        """Compiled, or refused by a diagnostic; what is trained beside it has no NaN."""
        for name, document in empty():
            with self.subTest(name):
                path, save = self.write("m.json", json.dumps(document)), self.path("out.safetensors")
                code = 1 if name in REFUSED else 0
                run = runner.attempt(self.program, "compile", path, "-q", "-o", self.path("m.so"))
                self.assertEqual(run.returncode, code, run.stderr)
                if not code:
                    safetensors.write(self.path("d.safetensors"), {"g": np.ones((1, 2, 3), "f4")})
                    runner.call(self.program, "run", self.path("m.so"), "-q", "--steps", "2", "--data", self.path("d.safetensors"), "--save", save)
                    self.assertTrue(np.isfinite(safetensors.wide(save)["w"]).all())

    def test_control(self):
        """What is slow, large, has no place or another code is seen."""
        self.assertEqual(self.faults(1, "m.json:1:2: error[E0101]: x\n", 0.1, 60), [])
        for code, said, seconds, mebi in (3, "", 0, 9), (1, "", 0, 9), (1, "error[E0101]: x", 0, 9), (0, "", 9, 9), (0, "", 0, 999), (-11, "", 0, 9):
            self.assertEqual(len(self.faults(code, said, seconds, mebi)), 1)


runner.main()
