#!/usr/bin/env python3
"""stepc run --infer: the outputs of the model without dropout and with running statistics, from an object and from the
interpreter, after steps and without any; --eval-data by the same rules.

usage: infer.py STEPC
"""
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), *up) for up in ([".."], ["..", "..", "samples"])]
import stepc
from tool import runner, safetensors
from tool.safetensors import read

MODEL = {
    "stepc": 1, "name": "infer",
    "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8, 3], "axes": ["batch", None]}},
    "model": {"type": "graph", "nodes": [
        {"type": "batch_norm", "name": "norm", "input": "x", "momentum": 0.5},
        {"type": "dropout", "name": "drop", "input": "norm", "rate": 0.5},
        {"type": "linear", "name": "fc", "input": "drop", "features": 3}], "output": {"mean": "fc", "hidden": "drop"}},
    "loss": "mean((model.mean - y)**2)",
    "metrics": {"error": "mean(abs(model.mean - y))"},
    "optimizer": {"type": "sgd", "learning_rate": 0.1},
    "ema": {"decay": 0.5},
}


def write(path, tensors):
    safetensors.write(path, {name: np.asarray(t, "f4") for name, t in tensors.items()})


class Infer(runner.SharedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = np.random.default_rng(1)
        cls.x, cls.y = random.normal(1, 2, (3, 8, 4)).astype("f4"), random.normal(0, 1, (3, 8, 3)).astype("f4")
        with open(cls.path("model.json"), "w") as f:
            json.dump(MODEL, f)
        write(cls.path("data.st"), {"x": cls.x, "y": cls.y})
        write(cls.path("x.st"), {"x": cls.x})
        write(cls.path("y.st"), {"y": cls.y})
        assert cls.run_stepc("compile", cls.path("model.json"), "-o", cls.path("step.so"))[0] == 0

    def expected(self, state, prefix=""):
        hidden = (self.x - state["norm.mean"]) / np.sqrt(state["norm.var"] + 1e-5) * state[prefix + "norm.scale"] + state[prefix + "norm.bias"]
        return {"model.hidden": hidden, "model.mean": hidden @ state[prefix + "fc.kernel"] + state[prefix + "fc.bias"]}

    def agrees(self, got, want):
        self.assertEqual(sorted(got), sorted(want))
        for name, t in want.items():
            np.testing.assert_allclose(got[name], t, rtol=1e-5, atol=1e-5, err_msg=name)

    def test_after_steps(self):
        for program in ("step.so", "model.json"):
            code, said = self.run_stepc("run", self.path(program), "--steps", "3", "--data", self.path("data.st"), "--save", self.path("final.st"),
                                        "--infer", self.path("out.st"))
            self.assertEqual(code, 0, said)
            self.agrees(read(self.path("out.st")), self.expected(read(self.path("final.st"))))

    def test_without_steps_and_labels(self):
        self.assertEqual(self.run_stepc("run", self.path("step.so"), "--steps", "3", "--data", self.path("data.st"), "--save", self.path("final.st"))[0], 0)
        for weights, prefix in (("params", ""), ("ema", "ema.")):
            for program in ("step.so", "model.json"):
                code, said = self.run_stepc("run", self.path(program), "--init", self.path("final.st"), "--infer", self.path("out.st"), "--infer-data",
                                            self.path("x.st"), "--eval-weights", weights)
                self.assertEqual(code, 0, said)
                self.agrees(read(self.path("out.st")), self.expected(read(self.path("final.st")), prefix))

    def test_evaluation_agrees_with_outputs(self):
        code, said = self.run_stepc("run", self.path("step.so"), "--steps", "2", "--data", self.path("data.st"), "--eval-data", self.path("data.st"),
                                    "--eval-every", "2", "--infer", self.path("out.st"), "--metrics", self.path("metrics.jsonl"))
        self.assertEqual(code, 0, said)
        last = runner.metrics(self.path("metrics.jsonl"))[-1]
        mean = read(self.path("out.st"))["model.mean"]
        self.assertAlmostEqual(last["eval_loss"], float(np.mean((mean - self.y) ** 2)), places=5)
        self.assertAlmostEqual(last["eval_error"], float(np.mean(np.abs(mean - self.y))), places=5)

    def test_by_microbatches(self):
        """A document that works through its batch in parts infers in parts too, with the same outputs; where an output has no
        rows, at once."""
        base = dict(MODEL, model=dict(MODEL["model"]))
        for more in ({}, {"output": {"mean": "fc", "total": "sum(fc)"}}):
            base["model"].update(more)
            want = None
            for parts in ({}, {"accumulate": {"microbatch_size": 2}}, {"accumulate": {"microbatch_size": 4, "split": "contiguous"}},
                          {"per_example": {"microbatch_size": 2}}):
                self.write("parts.json", dict(base, **parts))
                self.assertEqual(self.run_stepc("compile", self.path("parts.json"), "-o", self.path("parts.so")), (0, ""))
                for program in ("parts.so", "parts.json"):
                    code, said = self.run_stepc("run", self.path(program), "--infer", self.path("out.st"), "--infer-data", self.path("x.st"))
                    self.assertEqual(code, 0, said)
                    got = read(self.path("out.st"))
                    want = want or got
                    self.agrees(got, want)

    def test_on_meshes(self):
        """Outputs, rows and evaluations do not depend on the mesh, with microbatches or without."""
        x = np.random.default_rng(4).normal(size=(19, 4)).astype("f4")
        write(self.path("rows.st"), {"x": x})
        ruled = {"rules": [["batch", "d"]], "params": {"fc.kernel": [None, "m"]}}
        want = None
        for parts in ({}, {"accumulate": {"microbatch_size": 2}}, {"accumulate": {"microbatch_size": 4, "split": "contiguous"}}):
            for axes in ({}, {"d": 2}, {"d": 2, "m": 3}, {"d": 1, "m": 2}):
                more = dict(parts, mesh={"axes": axes}, sharding=ruled) if "m" in axes else dict(parts, mesh={"axes": axes}, sharding={"rules": ruled["rules"]}) if axes else parts
                self.write("mesh.json", dict(MODEL, **more))
                self.assertEqual(self.run_stepc("compile", self.path("mesh.json"), "-o", self.path("mesh.so"), "-q")[0], 0)
                code, said = self.run_stepc("run", self.path("mesh.so"), "--infer", self.path("out.st"), "--infer-data", self.path("rows.st"), "--eval-data",
                                            self.path("data.st"), "--metrics", self.path("metrics.jsonl"))
                self.assertEqual(code, 0, said)
                with open(self.path("metrics.jsonl")) as f:
                    got = dict(read(self.path("out.st")), loss=np.float32(json.loads(f.read())["eval_loss"]))
                want = want or got
                self.agrees(got, want)

    def test_rows(self):
        """As many rows as there are, whatever batch was compiled: zeros fill the last one, and outputs end where the rows do."""
        x = np.random.default_rng(2).normal(size=(21, 4)).astype("f4")
        self.assertEqual(self.run_stepc("run", self.path("step.so"), "--steps", "3", "--data", self.path("data.st"), "--save", self.path("final.st"))[0], 0)
        state = read(self.path("final.st"))
        for rows in (21, 16, 8, 3):
            write(self.path("rows.st"), {"x": x[:rows]})
            self.x = x[:rows]
            for program in ("step.so", "model.json"):
                code, said = self.run_stepc("run", self.path(program), "--init", self.path("final.st"), "--infer", self.path("out.st"), "--infer-data",
                                            self.path("rows.st"))
                self.assertEqual(code, 0, said)
                self.agrees(read(self.path("out.st")), self.expected(state))
        del self.x

    def test_rows_that_depend_on_others(self):
        """What is computed over the batch would count the zeros that fill it."""
        model = dict(MODEL, loss="mean((model.own - y[:, :1])**2)", metrics={})
        model["model"] = {"type": "graph", "nodes": [{"type": "param", "name": "w", "shape": [4]}], "output": {"own": "x * w", "others": "x * w - mean(x, axis=0)"}}
        with open(self.path("others.json"), "w") as f:
            json.dump(model, f)
        with open(self.path("partial.json"), "w") as f:
            json.dump(dict(model, partial_batches=True), f)  # how many rows count is said to step and eval
        for rows, code, name, option in ((16, 0, "others", "--infer-data"), (21, 1, "others", "--infer-data"), (21, 1, "others", "--data"), (16, 0, "partial", "--data"), (21, 1, "partial", "--data"),
                                         (21, 1, "partial", "--infer-data")):
            random, out = np.random.default_rng(2), self.path("others_out.st")
            write(self.path("others.st"), {"x": random.normal(size=(rows, 4)), **({"y": random.normal(size=(rows, *model["inputs"]["y"]["shape"][1:]))} if option == "--data" else {})})
            got, said = self.run_stepc("run", self.path(name + ".json"), "--infer", out, option, self.path("others.st"))
            self.assertEqual(got, code, said)
            self.assertEqual(os.path.exists(out), not code)
            if code:
                self.assertIn('21 rows do not fill batches of 8, and output "model.others" of a row depends on', said)
            else:
                os.unlink(out)
        self.assertEqual(self.run_stepc("compile", self.path("others.json"), "-o", self.path("others.so"))[0], 0)
        with stepc.Step(self.path("others.so")) as m:
            m.init()
            self.assertEqual(m.infer_rows(x=self.x[0, :5], output="model.own").shape, (5, 4))
            self.assertRaisesRegex(stepc.StepError, '"model.others" of a row depends on the others', m.infer_rows, x=self.x[0, :5])

    def test_ragged_evaluation(self):
        """The mean over all rows, in which a metric says what a batch counts for; from rows that do not fill the last batch, with a
        mask, and from batches that a mask covers in parts; a batch that counts for nothing does not spoil it."""
        masked = dict(MODEL, inputs=dict(MODEL["inputs"], mask={"shape": [8], "axes": ["batch"]}), loss="sum(mask * mean((model.mean - y)**2, axis=-1)) / sum(mask)",
                      metrics={"error": "sum(mask * mean(abs(model.mean - y), axis=-1)) / sum(mask)", "rows": "sum(mask)"})
        self.write("masked.json", masked)
        self.assertEqual(self.run_stepc("compile", self.path("masked.json"), "-o", self.path("masked.so")), (0, ""))
        random = np.random.default_rng(3)
        x, y, mask = random.normal(size=(27, 4)), random.normal(size=(27, 3)), (random.random(27) < 0.6).astype("f4")
        mask[8:16] = 0
        write(self.path("rows.st"), {"x": x, "y": y, "mask": mask})
        whole = lambda v: np.concatenate([v, np.zeros((5, *v.shape[1:]))]).reshape(4, 8, *v.shape[1:])
        write(self.path("batches.st"), {"x": whole(x), "y": whole(y), "mask": whole(mask)})
        write(self.path("x_rows.st"), {"x": x})
        self.assertEqual(self.run_stepc("run", self.path("masked.so"), "--infer", self.path("out.st"), "--infer-data", self.path("x_rows.st"))[0], 0)
        error = np.abs(read(self.path("out.st"))["model.mean"] - y).mean(-1)
        for data in ("rows.st", "batches.st"):
            for program in ("masked.so", "masked.json"):
                code, said = self.run_stepc("run", self.path(program), "--eval-data", self.path(data), "--eval-count", "rows", "--metrics", self.path("metrics.jsonl"))
                self.assertEqual(code, 0, said)
                lines = runner.metrics(self.path("metrics.jsonl"))
                self.assertEqual([sorted(line) for line in lines], [["eval_error", "eval_loss", "eval_rows", "step"]])
                self.assertAlmostEqual(lines[0]["eval_error"], float((error * mask).sum() / mask.sum()), places=5)
                self.assertEqual(lines[0]["eval_rows"], float(mask.sum()))
        for args, says in ((("--eval-data", self.path("rows.st")), "27 rows do not fill batches of 8"),
                           (("--eval-data", self.path("rows.st"), "--eval-count", "row"), 'did you mean "rows"?'),
                           (("--eval-data", self.path("x_rows.st")), 'no tensor for input "y"; expected float32[steps, 8, 3] or float32[rows, 3]')):
            code, said = self.run_stepc("run", self.path("masked.so"), *args)
            self.assertEqual(code, 1)
            self.assertIn(says, said)

    def test_after_the_last_step(self):
        """--eval-data without --eval-every."""
        code, said = self.run_stepc("run", self.path("step.so"), "--steps", "3", "--data", self.path("data.st"), "--eval-data", self.path("data.st"),
                                    "--metrics", self.path("metrics.jsonl"))
        self.assertEqual(code, 0, said)
        with open(self.path("metrics.jsonl")) as f:
            self.assertEqual(["eval_loss" in line for line in f], [False, False, True])
        code, said = self.run_stepc("run", self.path("step.so"), "--eval-data", self.path("data.st"))
        self.assertRegex(said, r"step 0  eval_loss [0-9.]+\nstep 0  eval_error [0-9.]+\n")

    def test_only_what_is_computed(self):
        """Metrics of the gradients or the update are none of an evaluation's."""
        self.write("updates.json", dict(MODEL, metrics={"norm": "global_norm(grads)", "error": "mean(abs(model.mean - y))", "moved": "global_norm(updates)"}))
        self.assertEqual(self.run_stepc("compile", self.path("updates.json"), "-o", self.path("updates.so")), (0, ""))
        for program in ("updates.so", "updates.json"):
            code, said = self.run_stepc("run", self.path(program), "--steps", "2", "--data", self.path("data.st"), "--eval-data", self.path("data.st"),
                                        "--metrics", self.path("metrics.jsonl"))
            self.assertEqual(code, 0, said)
            last = runner.metrics(self.path("metrics.jsonl"))[-1]
            self.assertEqual(sorted(last), ["error", "eval_error", "eval_loss", "loss", "moved", "norm", "step"])
            said = self.run_stepc("run", self.path(program), "--eval-data", self.path("data.st"))[1]
            self.assertRegex(said, r"step 0  eval_loss [0-9.]+\nstep 0  eval_error [0-9.]+\n")
            self.assertNotIn("eval_norm", said)
            self.assertIn("that an evaluation computes", self.run_stepc("run", self.path(program), "--eval-data", self.path("data.st"), "--eval-count", "norm")[1])

    def test_arrays_are_told_of(self):
        """An evaluation reports numbers: that a metric is an array, and missing, is said."""
        self.write("arrays.json", dict(MODEL, metrics={"columns": "mean(model.mean, axis=0)", "moved": "updates.fc.bias", "error": "mean(abs(model.mean - y))"}))
        for quiet in ((), ("-q",)):
            code, said = self.run_stepc("run", self.path("arrays.json"), "--eval-data", self.path("data.st"), *quiet)
            self.assertEqual((code, said.count('note: --eval-data reports numbers, not the array "columns"')), (0, not quiet), said)
            self.assertNotIn('"moved"', said)

    def test_numpy_files(self):
        np.save(self.path("x.npy"), self.x)
        np.save(self.path("y.npy"), self.y)
        np.save(self.path("columns.npy"), np.asfortranarray(self.x))
        np.save(self.path("double.npy"), self.x.astype("i8"))
        np.save(self.path("rows.npy"), self.x.reshape(-1, 4)[:13])
        np.save(self.path("objects.npy"), np.array([{}]), allow_pickle=True)
        with open(self.path("x.npy"), "rb") as f, open(self.path("short.npy"), "wb") as g:
            g.write(f.read()[:-5])
        open(self.path("empty.npy"), "w").close()
        np.save(self.path("two.npy"), self.y[:2])
        both = lambda x: ("--steps", "2", "--data", "x=" + self.path(x), "y=" + self.path("y.npy"))
        losses = []
        for args in (("--steps", "2", "--data", self.path("data.st")), both("x.npy")):
            self.assertEqual(self.run_stepc("run", self.path("step.so"), *args, "--metrics", self.path("m.jsonl"))[0], 0)
            with open(self.path("m.jsonl")) as f:
                losses.append(f.read())
        self.assertEqual(losses[0], losses[1])
        code, said = self.run_stepc("run", self.path("step.so"), "--infer", self.path("out.st"), "--infer-data", "x=" + self.path("rows.npy"))
        self.assertEqual((code, read(self.path("out.st"))["model.mean"].shape), (0, (13, 3)), said)
        for args, code, says in ((both("columns.npy"), 1, "ascontiguousarray"), (both("double.npy"), 1, "expected float32[steps, 8, 4] or float32[rows, 4], found int64[3, 8, 4]"),
                                 (both("short.npy"), 1, "cut off"), (both("objects.npy"), 1, "not supported"), (both("empty.npy"), 1, "too short"), (both("double.npy"), 1, "a.astype(np.float32)"),
                                 ((*both("x.npy")[:-1], "y=" + self.path("two.npy")), 0, "warning: %s: tensor \"y\" holds 2 steps, another one 3" % self.path("two.npy")),
                                 (both("none.npy"), 3, "No such file"),
                                 (("--steps", "2", "--data", self.path("x.npy")), 2, "--data NAME="),
                                 (("--steps", "2", "--data", "X=" + self.path("x.npy"), "y=" + self.path("y.npy")), 1, '"X" is no input')):
            got, said = self.run_stepc("run", self.path("step.so"), *args)
            self.assertEqual(got, code, said)
            self.assertIn(says, said)

    def test_stopped(self):
        """Ctrl-C ends after a step, says what became of the state, and the parent sees the signal."""
        for more, says in ((("--save", self.path("stopped.st"), "--all-state"), "its state is saved"), ((), "without --save FILE its state is lost")):
            open(self.path("m.jsonl"), "w").close()
            p = subprocess.Popen([self.program, "run", self.path("step.so"), "--steps", "1000000000", "--data", self.path("data.st"), "--metrics",
                                  self.path("m.jsonl"), *more], stderr=subprocess.PIPE, text=True, env=runner.environment())
            while not (os.path.exists(self.path("m.jsonl")) and os.path.getsize(self.path("m.jsonl"))) and p.poll() is None:
                time.sleep(0.05)
            p.send_signal(signal.SIGINT)
            said = p.communicate(timeout=600)[1]
            self.assertEqual(p.returncode, -signal.SIGINT)
            self.assertRegex(said, r"stepc: note: stopped by Ctrl-C after step \d+ of 1000000000; " + says)
        rows = 1600000  # more than any machine gets through before the signal, which comes at once
        write(self.path("many.st"), {"x": np.zeros((rows, 4), "f4"), "y": np.zeros((rows, 3), "f4")})
        for what in (("--eval-data", self.path("many.st"), "--metrics", self.path("many.jsonl")), ("--infer-data", self.path("many.st"), "--infer", self.path("many.out"))):
            p = subprocess.Popen([self.program, "run", self.path("model.json"), *what], stderr=subprocess.PIPE, text=True, env=runner.environment())  # interpreted: it takes its time
            while not p.stderr.readline().startswith("run "):
                pass
            p.send_signal(signal.SIGINT)
            p.communicate(timeout=600)
            self.assertEqual(p.returncode, -signal.SIGINT)
            self.assertFalse(os.path.exists(self.path("many.out")))
        code, said = self.run_stepc("run", self.path("step.so"), "--init", self.path("stopped.st"), "--steps", "1", "--data", self.path("data.st"))
        self.assertRegex(said, r"1 step after step [\d,]+")

    def test_mistakes(self):
        for args, code, says in ((("--infer-data", self.path("x.st"), "--steps", "1", "--data", self.path("data.st")), 2, "--infer-data needs --infer"),
                                 (("--infer", self.path("out.st"), "--infer-data", self.path("y.st")), 1, 'input "x" is missing'),
                                 (("--infer", self.path("no/out.st"), "--infer-data", self.path("x.st")), 3, "--infer: "),
                                 (("--infer", self.path("out.st"), "--infer-data", self.path("x.st"), "--save", self.path("out.st")), 2, "--infer and --save name one file"),
                                 (("--steps", "1", "--data", self.path("data.st"), "-D", "n=1"), 2, "compiled already"),
                                 (("--steps", "1", "--data", self.path("data.st"), "--mesh", "d=1"), 2, "compiled already"),
                                 (("--infer", self.path("out.st")), 2, "--data is missing")):
            got, said = self.run_stepc("run", self.path("step.so"), *args)
            self.assertEqual(got, code, said)
            self.assertIn(says, said)


if __name__ == "__main__":
    runner.main()
