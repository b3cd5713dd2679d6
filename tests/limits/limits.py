#!/usr/bin/env python3
"""Small documents that ask for much: refused at their place before they have it, or compiled in a time that grows with what they
are. Every limit one below, at, and one above; the message of each; nothing depends on the stack of the shell.

    tests/limits/limits.py STEPC [TEST...]
"""
import json
import os
import resource
import subprocess
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

LINEAR = {"type": "linear", "features": 4}


def document(layers=(LINEAR,), loss="mean(model**2)", **more):
    return {"stepc": 1, "name": "limits", "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}},
            "model": {"type": "sequential", "input": "x", "layers": list(layers)}, "loss": loss,
            "optimizer": {"type": "sgd", "learning_rate": 0.1}, **more}


def nested(call, times, argument="model"):
    for _ in range(times):
        argument = call % argument
    return "mean(%s)" % argument


def repeat(count, block):
    return {"type": "repeat", "count": count, "block": block}


def doubling(times, leaf):
    blocks = {"d%d" % i: {"body": {"type": "sequential", "layers": [{"type": "d%d" % (i - 1)}] * 2}} for i in range(1, times + 1)}
    return document([{"type": "d%d" % times}], define={"d0": {"body": leaf}, **blocks})


def within(levels):
    """A block within `levels` others: JSON that is 4 + 2 * levels deep."""
    block = LINEAR
    for _ in range(levels):
        block = {"type": "sequential", "layers": [block]}
    return document([block])


UNFOLDING = {
    "repeat of repeat of repeat": (document([repeat(1000, repeat(1000, repeat(1000, LINEAR)))]), "/model/layers/0/block/count"),
    "copies that share everything": (document([repeat(4096, repeat(4096, {"type": "relu"}))]), "/model/layers/0/count"),
    "definitions that double": (doubling(30, LINEAR), "/define/d"),
    "more than a third in one trace": (document([LINEAR, repeat(3500, {"type": "expr", "expr": "gammaln(softplus(gammaln(softplus(x))))"})]), "/model/layers/1/count"),
    "many parameters": (document([repeat(100, repeat(4096, {"type": "batch_norm"}))]), "/model/layers/0/count"),
    "split": (document(loss="mean(model) + sum(split(y, 1000000)[0])",
                       inputs={"x": {"shape": [8, 4]}, "y": {"shape": [1000000]}}), "/loss"),
    "array_split": (document(loss="mean(model) + sum(array_split(x, 1000000000000)[0])"), "/loss"),
}


class Limits(runner.Case):
    verify = False

    def spent(self, *arguments, **more):
        """Done and its CPU time."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = self.stepc(*arguments, **more)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return done, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def test_compile_time_grows_with_the_expression(self):
        for call in "integer_pow(%s, 3)", "gammaln(%s)", "softplus(%s)":
            few, many = (self.spent("compile", self.write("m.json", document(loss=nested(call, n))), "-o", "m.so", timeout=120)[1]
                         for n in (30, 60))
            self.assertLess(many, 4 * few + 0.5, call)

    def test_long_sums(self):
        """A chain of sums is not walked from each of them to its beginning."""
        few, many = (self.spent("check", self.write("m.json", document([LINEAR] + [{"type": "expr", "expr": "x * x + x"}] * n)), timeout=120)[1] for n in (3000, 12000))
        self.assertLess(many, 7 * few + 0.5)

    def test_fusing_many_rows(self):
        """Clusters that may be siblings look at what others read: not again for every reader."""
        path = self.write("m.json", document([{"type": "layer_norm"}] * 2000))
        said = self.stepc("compile", path, "--time-passes", "--stop-after", "fuse", "-o", "m.sir").stderr
        took = {line.split()[0]: float(line.split()[1]) for line in said.splitlines()}
        self.assertLess(took["fuse"], 6 * (took["outline"] + took["autodiff"] + took["simplify"]), said)

    def test_fusing_keeps_no_search(self):
        """What looks for an order of clusters leaves nothing behind: its memory was twice that of all others."""
        text = "sort(roll(where(cumsum(concatenate([flip(softplus(x), 0), flip(softplus(x), 0)])[:8], axis=0) > 0, x, 0.1), 1, axis=0), axis=0)"
        path = self.write("m.json", document([LINEAR, repeat(400, {"type": "expr", "expr": text})]))
        self.stepc("check", path, "--limit", "memory=384MiB")

    def test_what_is_cut_into_several_kernels(self):
        """Concatenations of very many, and work without end on the same elements: the numbers of the interpreter."""
        parts = lambda n, axis: "concatenate([%s], axis=%d)" % (
            ", ".join(["model[:, %d:] * %g", "model[%d:] * %g"][axis == 0] % (i % 3, 1 + i / 64) for i in range(n)), axis)
        losses = {"%d along %d" % (n, axis): "mean(%s ** 2)" % parts(n, axis) for n in (63, 64, 65) for axis in (0, 1)}
        losses["stacked"] = "mean(stack([%s], axis=-1) ** 3)" % ", ".join("sin(model * %g)" % (1 + i / 64) for i in range(70))
        losses["slices"] = "mean(concatenate([%s], axis=1) ** 2)" % ", ".join("model[:, %d:%d]" % (i * i % 4, i * i % 4 + 1) for i in range(80))
        losses["a long sum"] = "mean(%s)" % " + ".join("sin(model * %g)" % (1 + i / 64) for i in range(100))
        layers = {"turns": [LINEAR, repeat(400, {"type": "expr", "expr": "concatenate([sin(x[:, 1:]), x[:, :1]], axis=1)"})]}
        data = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 8, 4)}
        for name, model in {**{k: document(loss=v) for k, v in losses.items()}, **{k: document(v) for k, v in layers.items()}}.items():
            with self.subTest(name):
                runner.write_document(self.path(name), model, data)
                (weights, lines), (own, said) = (runner.play(self.program, self.path(name), 2, compiled) for compiled in (False, True))
                for at, here in zip(lines, said):
                    self.assertLess(abs(at["loss"] - here["loss"]), 1e-5 * abs(at["loss"]) + 1e-7, name)
                for path, array in weights.items():
                    self.assertTrue(np.allclose(array, own[path], 1e-4, 1e-6), path)

    def test_unfolding(self):
        for name, (model, pointer) in UNFOLDING.items():
            with self.subTest(name):
                path = self.write("m.json", model)
                self.assertLess(os.path.getsize(path), 8000)
                done, seconds = self.spent("check", path, "--diagnostics", "json", code=1, timeout=60)
                said = json.loads(done.stderr)
                self.assertEqual(said["code"], "E0116")
                self.assertTrue(said["pointer"].startswith(pointer), said["pointer"])
                self.assertGreater(said["spans"][0]["line"], 1)
                self.assertLess(seconds, 6)  # 2 where nothing else runs

    def test_values(self):
        path = self.write("m.json", document([repeat(3, LINEAR)]))
        at_most = lambda n: runner.attempt(self.program, "check", path, "--limit", "values=%d" % n)
        low, high = 1, 1 << 12
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if at_most(middle).returncode == 0 else (middle, high)
        for n, code in (high - 1, 1), (high, 0), (high + 1, 0):
            done = at_most(n)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual("E0116" in done.stderr, code == 1)

    def test_every_value_has_a_place(self):
        """Wherever the limit is met: model, loss, optimizer, initial values, evaluation, averages."""
        layers = [LINEAR, {"type": "dropout", "rate": 0.1}, {"type": "batch_norm"}, {"type": "expr", "expr": "gammaln(x)"}]
        path = self.write("m.json", document(layers, metrics={"norm": "global_norm(grads)"}, optimizer={"type": "adamw", "learning_rate": 0.1}, ema={"decay": 0.9},
                                             adapters=[{"type": "lora", "rank": 1, "match": ["**"]}], precision={"loss_scale": {"type": "dynamic_scale"}}, trainable=["**"]))
        said, ends = lambda n: runner.attempt(self.program, "check", path, "--diagnostics", "json", "--limit", "values=%d" % n), set()
        for n in range(1, 3000, 23):
            done = said(n)
            if not done.returncode:
                break
            first = json.loads(done.stderr.splitlines()[0])
            self.assertEqual(first["code"], "E0116")
            self.assertTrue(first.get("pointer") and first["spans"], "%d values: %s" % (n, done.stderr))
            ends.add(first["pointer"].split("/")[1])
        self.assertEqual(done.returncode, 0)
        self.assertLessEqual({"model", "loss", "optimizer"}, ends)

    def test_texts(self):
        """What is limited in the text itself: one below and at the limit it is another mistake, or none."""
        padded = lambda n: json.dumps(document()).ljust(n)
        items = lambda n: "[%s]" % ",".join("0" * (n - 1))  # the list is one of them
        depth = lambda n: "[" * n + "]" * n
        digits = lambda n: "[0.%s]" % ("1" * (n - 2))
        rank = lambda n: json.dumps(document(inputs={"x": {"shape": [8, 4]}, "y": {"shape": [1] * n}}))
        size = lambda n: json.dumps(document(inputs={"x": {"shape": [8, 4]}, "y": {"shape": [n // 1024, 1024] if n % 2 == 0 else [n]}}))
        call = lambda n: json.dumps(document(loss="(" * (n - 1) + "mean(model)" + ")" * (n - 1)))
        for code, at, make in (("which is the limit", 64 << 20, padded), ("E0016", 1000000, items), ("E0015", 128, depth), ("E0011", 63, digits),
                               ("E0202", 8, rank), ("E0203", (1 << 48) - 1, size)):
            for n in at - 1, at, at + 1:
                done = runner.attempt(self.program, "check", self.write("m.json", make(n)))
                self.assertEqual(code in done.stderr, n > at, "%s of %d: %s" % (code, n, done.stderr[:300]))
                self.assertIn(done.returncode, (0, 1), done.stderr)
        depth_of = lambda n: runner.attempt(self.program, "check", self.write("m.json", call(n))).returncode
        deepest = max(n for n in range(120, 136) if depth_of(n) == 0)
        self.assertEqual([depth_of(n) for n in (deepest - 1, deepest, deepest + 1)], [0, 0, 1])
        self.assertIn(deepest, range(124, 129))
        path = self.write("m.json", padded(2000))
        for name, value, says in ("document", 1999, "which is the limit"), ("json", 10, "E0016"):
            self.assertIn(says, self.stepc("check", path, "--limit", "%s=%d" % (name, value), code=1).stderr)
            self.stepc("check", path, "--limit", "%s=2000" % name)
        for command in ("check",), ("check", "--grad"), ("explain",), ("bench",), ("run", "--steps", "1"), ("compile", "-o", self.path("m.so")):
            self.assertIn("which is the limit", self.stepc(command[0], path, *command[1:], "--limit", "document=100", code=1).stderr)

    def test_memory(self):
        path = self.write("m.json", document([repeat(300, {"type": "layer_norm"}), {"type": "linear", "features": 30}]))
        codes = set()
        for mebi in 1, 10, 20, 40, 60, 80, 120, 160, 240, 400:
            done = runner.attempt(self.program, "compile", path, "-o", self.path("m.so"), "--limit", "memory=%dMiB" % mebi)
            codes.add(done.returncode)
            self.assertIn(done.returncode, (0, 3), "%d MiB: %s" % (mebi, done.stderr))
            self.assertEqual(done.returncode == 3, "--limit memory=" in done.stderr, done.stderr)
        self.assertEqual(codes, {0, 3})

    def test_memory_of_the_machine(self):
        """What is lacking is not always what --limit allows."""
        path, said = self.write("m.json", document([repeat(1000, {"type": "layer_norm"}), {"type": "linear", "features": 30}])), set()
        for mebi in range(64, 4000, 24):
            done = subprocess.run(["sh", "-c", "ulimit -v %d; exec \"$@\"" % (mebi * 1024), "sh", self.program, "check", path], capture_output=True, text=True)
            said |= {done.stderr} if "out of memory" in done.stderr else set()
            if not done.returncode:
                break
        self.assertTrue(said)
        for text in said:
            self.assertNotIn("--limit", text)

    def test_time(self):
        path = self.write("m.json", document([LINEAR, repeat(4000, {"type": "expr", "expr": "sin(tanh(x))"})]))
        done = self.stepc("compile", path, "-o", "m.so", "--timeout", "1", code=3)
        self.assertIn("--timeout", done.stderr)
        self.assertFalse(os.path.exists(self.path("m.so")))

    def test_options(self):
        path = self.write("m.json", document())
        for given, says in (("vaules=5", "did you mean \"values\""), ("values", "NAME=NUMBER"), ("values=1GiB", "whole number"),
                            ("memory=many", "16GiB"), ("memory=0", "16GiB"), ("values=99999999999999999999", "whole number")):
            self.assertIn(says, self.stepc("check", path, "--limit", given, code=2).stderr)
        doctor = runner.attempt(self.program, "doctor").stdout
        for line in "limit document     64 MiB", "limit json         1000000", "limit values       1048576", "limit memory       4096 MiB", \
                    "limit time         600 s":
            self.assertIn(line, doctor)

    def test_stack(self):
        """The deepest documents and the longest chains, on the smallest stacks."""
        deepest = max(n for n in range(40, 64) if runner.attempt(self.program, "check", self.write("m.json", within(n))).returncode == 0)
        self.assertEqual(deepest, 62)  # JSON that is 128 deep
        texts = {"blocks": within(deepest), "one too many": within(deepest + 1), "calls": document(loss=nested("tanh(%s)", 120)),
                 "formulas": document(loss=nested("gammaln(%s)", 40)), "terms": document(loss="mean(%s)" % "+".join(["model"] * 900)),
                 "definitions": document([{"type": "d50"}], define={"d0": {"body": LINEAR}, **{
                     "d%d" % i: {"body": {"type": "d%d" % (i - 1)}} for i in range(1, 51)}}),
                 "views": document([LINEAR, repeat(1200, {"type": "expr", "expr": "concatenate([x[1:], x[:1]])"})]),
                 "arithmetic": document([LINEAR, repeat(1200, {"type": "expr", "expr": "x * 1.5 + 1"})])}
        for name, model in texts.items():
            path = self.write("m.json", model)
            codes = []
            for stack in "unlimited", "256", "64":
                shell = "ulimit -S -s %s; exec \"$@\"" % stack
                done = subprocess.run(["sh", "-c", shell, "sh", self.program, "compile", path, "-o", self.path("m.so")],
                                      capture_output=True, text=True, timeout=300)
                codes.append(done.returncode)
            self.assertEqual(codes, [name == "one too many"] * 3, name)


runner.main()
