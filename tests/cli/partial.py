#!/usr/bin/env python3
"""Documents with "partial_batches": a batch of 8 of which 5 rows count gives what a document of 5 rows gives: loss, metrics, all
state. Interpreted, compiled, on meshes, in microbatches; evaluated over rows that do not fill batches. What is no sum or mean
over rows is refused at its place.

usage: partial.py STEPC
"""
import os
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import comparison, runner, safetensors

FULL, SOME, WIDE, TIMES = 8, 5, 6, 4
LABELS = {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"}
LINEAR = {"type": "linear", "features": 3}
LAYERS = [{"type": "linear", "features": 16}, {"type": "relu"}, LINEAR]


def document(rows, layers=None, loss=LABELS, metrics=None, x=None, optimizer="adamw", **more):
    return {"stepc": 1, "name": "partial",
            "inputs": {"x": {"shape": [rows, *(x or [WIDE])], "axes": ["batch", *[None] * len(x or [WIDE])]},
                       "y": {"shape": [rows], "dtype": "int32", "axes": ["batch"]}, "w": {"shape": [rows], "axes": ["batch"]}},
            "model": {"type": "sequential", "input": "x", "layers": layers or LAYERS}, "loss": loss,
            "metrics": metrics or {"right": "sum(argmax(model, axis=-1) == y)", "rms": "sqrt(mean(model**2))", "of_w": "sum(w * model[:, 0]) / sum(w)"},
            "optimizer": optimizer if isinstance(optimizer, dict) else {"type": optimizer, "learning_rate": 0.01}, "seed": 0, **more}


CASES = {
    "cross entropy": {},
    "sum": {"loss": {**LABELS, "reduction": "sum"}},
    "weighted": {"loss": {**{k: v for k, v in LABELS.items() if k != "reduction"}, "weights": "w"}},
    "squares and penalty": {"loss": "mean((model - w[:, None])**2) + 0.01 * sum(params.layers.0.kernel**2)"},
    "nested means": {"loss": "mean(mean(model**2, axis=0)) + mean(sum(model, axis=-1)) / 3"},
    "variance": {"loss": "var(model) + mean(abs(model))"},
    "root": {"loss": "sqrt(mean((model[:, 0] - w)**2)) + exp(mean(model))"},
    "numbers of rows": {"loss": "0.3 * sum(model**2) / model.size + 0.1 * sum(w * mean(model, axis=-1)) / len(w)", "metrics": {"of": "mean(ones_like(w) * w)"}},
    "penalty by rows": {"loss": "mean((model - w[:, None])**2) + 0.3 * sum(params.layers.0.kernel**2) / len(x) + mean(params.layers.2.kernel / len(x))"},
    "tables of rows": {"loss": "mean(tri(len(x)) @ model) + mean(exp(eye(len(x)) @ model)) + mean(model * (arange(len(x)) / len(x))[:, None])",
                       "metrics": {"of": "sum(ones((len(x), len(x))) @ model)", "copies": "sum(mean(model) * ones(len(x)))"}},
    "gram": {"loss": "mean((transpose(model) @ model / 3)**2) + mean(model**2)"},
    "batch norm": {"optimizer": "sgd", "layers": [{"type": "linear", "features": 16}, {"type": "batch_norm"}, {"type": "relu"}, LINEAR]},
    "layer norm, residual, remat": {"layers": [{"type": "linear", "features": 16}, {"type": "repeat", "count": 2, "block": {"type": "residual", "layers": [
        {"type": "layer_norm"}, {"type": "remat", "block": {"type": "linear", "features": 16}}, {"type": "gelu"}]}}, LINEAR]},
    "tokens": {"optimizer": "sgd", "x": [TIMES, WIDE], "layers": [{"type": "linear", "features": 16}, {"type": "multi_head_attention", "num_heads": 2, "is_causal": True},
                                              {"type": "expr", "expr": "reshape(x, (-1, 16))"}, LINEAR], "loss": "mean((model - 1)**2)",
               "metrics": {"of": "mean(model)"}},
    "recurrent": {"x": [TIMES, WIDE], "layers": [{"type": "rnn", "cell": {"type": "lstm_cell", "hidden_features": 8}}, {"type": "expr", "expr": "x[:, -1]"}, LINEAR]},
    "convolution": {"x": [6, 6, 2], "layers": [{"type": "conv", "features": 4, "kernel_size": [3, 3]}, {"type": "max_pool", "window_shape": [2, 2], "strides": [2, 2]},
                                               {"type": "expr", "expr": "mean(x, axis=(1, 2))"}, LINEAR]},
    "line search": {"optimizer": {"type": "lbfgs", "learning_rate": None}},
    "norm of gradients": {"optimizer": {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 0.1}, {"type": "sgd", "learning_rate": 0.5}]},
                          "metrics": {"norm": "global_norm(grads)"}},
    "per example": {"per_example": {"transform": [{"type": "clip_by_global_norm", "max_norm": 0.5}], "accumulator": "mean"}, "metrics": {"of": "mean(model)"}},
    "bfloat16": {"precision": {"compute": "bfloat16"}},
}
MICRO = {"accumulate": {"microbatch_size": 2}}
MODES = {"interpreted": {}, "compiled": {}, "microbatches": MICRO, "contiguous": {"accumulate": {"microbatch_size": 4, "split": "contiguous"}},
         "mesh": {"mesh": {"axes": {"data": 2}}, "sharding": {"rules": [["batch", "data"]]}},
         "single rows": {"accumulate": {"microbatch_size": 1}}, "mesh of 4": {"mesh": {"axes": {"data": 4}}, "sharding": {"rules": [["batch", "data"]]}, **MICRO}}
NOT_IN_PARTS = {"sum", "weighted", "variance", "root", "gram", "batch norm", "per example", "squares and penalty", "penalty by rows", "tables of rows", "bfloat16"}


class Partial(runner.SharedCase):
    def one(self, name, given, rows, mode, steps=3, some=SOME):
        """Metrics of every step and all state behind the last one."""
        random = np.random.default_rng(3)
        folder = os.path.join(self.path("."), name.replace(" ", "_").replace(",", ""))
        os.makedirs(folder, exist_ok=True)
        x = random.normal(size=(some, *given.get("x", [WIDE]))).astype("f4")
        safetensors.write(os.path.join(folder, "rows.st"), {"x": x, "y": random.integers(0, 3, some).astype("i4"), "w": random.random(some).astype("f4")})
        partial = {} if rows == some else {"partial_batches": True, **MODES[mode]}
        made = document(rows, **{**given, **partial})
        if "accumulate" in made:
            made["metrics"].pop("of_w", None), made["metrics"].pop("right", None), made["metrics"].pop("rms", None)
        runner.write_json(os.path.join(folder, "model.json"), made)
        what = os.path.join(folder, "model.json")
        if mode not in ("interpreted", "plain"):
            code, said = self.run_stepc("compile", what, "-o", os.path.join(folder, "step.so"))
            self.assertEqual(code, 0, said)
            what = os.path.join(folder, "step.so")
        code, said = self.run_stepc("run", what, "--steps", str(steps), "--data", os.path.join(folder, "rows.st"), "--save", os.path.join(folder, "state.st"), "--all-state",
                                    "--metrics", os.path.join(folder, "metrics.jsonl"), "-q")
        self.assertEqual(code, 0, "%s, %s: %s" % (name, mode, said))
        return runner.metrics(os.path.join(folder, "metrics.jsonl")), safetensors.wide(os.path.join(folder, "state.st"))

    def agree(self, name, given, mode, some=SOME, plain=None):
        """plain: what the document of `some` rows has, too."""
        want, state = self.one(name, {**given, **(plain or {})}, some, "plain", some=some)
        got, reached = self.one(name, given, FULL, mode, some=some)
        loose = 3e-2 if "bfloat16" in name else 3e-4
        for a, b in zip(got, want):
            for key in a:
                comparison.agree("%s, %s: %s of step %d" % (name, mode, key, a["step"]), np.array(a[key]), np.array(b[key]), loose, loose)
        comparison.all_agree({k: v for k, v in reached.items() if k in state}, state, loose * 10, loose * 10, name + ", " + mode + ": ")

    def test_interpreted(self):
        for name, given in CASES.items():
            self.agree(name, given, "interpreted")

    def test_compiled(self):
        for name, given in CASES.items():
            self.agree(name, given, "compiled")

    def test_microbatches(self):
        for name, given in CASES.items():
            if name not in NOT_IN_PARTS:
                self.agree(name, given, "microbatches")
                self.agree(name, given, "contiguous")
        self.agree("cross entropy", {}, "single rows")

    def test_microbatches_without_rows(self):
        """They count for nothing, not even for 0/0, and change no statistics."""
        for name in ("weighted", "batch norm", "squares and penalty"):
            self.agree(name, CASES[name], "contiguous", MODES["contiguous"]["accumulate"]["microbatch_size"], MODES["contiguous"])

    def test_evaluation(self):
        """Means over all rows, sums per full batch; training takes the rest of the data as its last batch."""
        random = np.random.default_rng(4)
        x, y = random.normal(size=(21, WIDE)).astype("f4"), random.integers(0, 3, 21).astype("i4")
        w = random.random(21).astype("f4")
        safetensors.write(self.path("all.st"), {"x": x, "y": y, "w": w})
        for rows, more in ((21, {}), (8, {"partial_batches": True})):
            made = document(rows, **more)
            made["metrics"].pop("of_w"), made["metrics"].pop("rms")
            made["metrics"]["each"] = "(model[:, 0] > 0) * w"
            runner.write_json(self.path("all%d.json" % rows), made)
            self.stepc("compile", self.path("all%d.json" % rows), "-o", self.path("all%d.so" % rows))
            self.stepc("run", self.path("all%d.so" % rows), "--eval-data", self.path("all.st"), "--metrics", self.path("all%d.jsonl" % rows))
        want, got = (runner.metrics(self.path("all%d.jsonl" % rows))[0] for rows in (21, 8))
        comparison.agree("loss", np.array(got["eval_loss"]), np.array(want["eval_loss"]), 1e-5)
        comparison.agree("sum", np.array(got["eval_right"]) * 21 / 8, np.array(want["eval_right"]), 1e-6)
        self.stepc("run", self.path("all8.so"), "--epochs", "2", "--shuffle=3", "--data", self.path("all.st"), "--metrics", self.path("all.jsonl"))
        lines = runner.metrics(self.path("all.jsonl"))
        self.assertEqual(len(lines), 6)
        self.assertEqual([sum(v != 0 for v in line["each"][5:]) for line in lines[2::3]], [0, 0])
        self.stepc("run", self.path("all8.so"), "--steps", "4", "--shuffle=3", "--data", self.path("all.st"), "--save", self.path("half.st"), "--all-state")
        self.stepc("run", self.path("all8.so"), "--steps", "2", "--shuffle=3", "--data", self.path("all.st"), "--init", self.path("half.st"), "--metrics", self.path("rest.jsonl"))
        self.assertEqual(runner.metrics(self.path("rest.jsonl")), lines[4:])

    def test_no_rows(self):
        runner.write_json(self.path("none.json"), document(FULL, metrics={"of": "mean(model)"}, partial_batches=True))
        self.stepc("compile", self.path("none.json"), "-o", self.path("none.so"))
        for rows, code in ((0, 1), (-1, 1), (1, 0), (FULL + 1, 0)):
            safetensors.write(self.path("none.st"), {"x": np.ones((1, FULL, WIDE), "f4"), "y": np.zeros((1, FULL), "i4"), "w": np.ones((1, FULL), "f4"), "batch.rows": np.array([rows], "i4")})
            for made in ("none.json", "none.so"):
                done, text = self.run_stepc("run", self.path(made), "--steps", "1", "--data", self.path("none.st"))
                self.assertEqual(done, code, text)
                self.assertEqual('input "batch.rows" is %d; expected 1 <= value' % rows in text, code == 1, text)

    def test_refused(self):
        for said, loss, more in (("rows that depend on each other", "max(model) + mean(model)", {}), ("rows that depend on each other", "mean(cumsum(model, axis=0))", {}),
                                 ("rows that depend on each other", "mean(model[1:] - model[:-1])", {}), ("may count rows", "sum(model) / 16", {}),
                                 ("may count rows", "mean(model) * shape(model)[0]", {}), ("may count rows", "sum((model - mean(model))**2) / (size(model) - 1)", {}),
                                 ("may count rows", "0.1 * sum(model) / (size(model) - 1)", {}), ("counts rows, 0.8", "mean(model) + 0.1 * len(x) * mean(w)", {}),
                                 ("counts rows, 8 ", "mean(model) + sum(ones_like(w))", {}), ("no input is in, over 8 rows", "mean(model) + sum(arange(len(x)))", {}),
                                 ("others for another number", "mean(abs(fft(model, axis=0)))", {}), ("rows that depend on each other", "sum(one_hot(y, len(x)) * model[:, :1])", {}),
                                 ("counts rows, 0.125", "sum(softmax(zeros((len(x), len(x))), axis=-1) @ model)", {}), ("rows that depend on each other", "sum(max(transpose(model) @ eye(len(x)), axis=1))", {}),
                                 ("counts rows, 0.2", "mean(model) + 0.1 * len(x) * mean(w)", MICRO), ("may count rows", "sum(model / 8)", {}), ("mean over microbatches of sums", "sum(model)", MICRO),
                                 ("sum over microbatches of means", "mean(model)", {"accumulate": {"microbatch_size": 2, "accumulator": "sum"}})):
            self.assertEqual(document(FULL)["inputs"]["x"]["shape"][0], 8)
            runner.write_json(self.path("refused.json"), document(FULL, loss=loss, metrics={"of": "mean(model)"}, partial_batches=True, **more))
            _, text = self.run_stepc("check", self.path("refused.json"))
            self.assertRegex(text, r"refused.json:\d+:\d+: error\[E0436\].*" + said, loss)
        for loss in ("sum(model) / sqrt(len(x))", "mean(hanning(len(x)) * model[:, 0])", "mean(var(model, axis=0, ddof=1))"):  # 1, 1.0 and powers of two are folded away
            runner.write_json(self.path("refused.json"), document(2, loss=loss, metrics={"of": "mean(model)"}, partial_batches=True))
            _, text = self.run_stepc("check", self.path("refused.json"))
            self.assertRegex(text, r"refused.json:\d+:\d+: error\[E0436\].*another number of rows", loss)
        runner.write_json(self.path("refused.json"), document(FULL, loss="mean(model)", metrics={"first": "mean(x)", "second": "sum(x)"}, partial_batches=True, **MICRO))
        _, text = self.run_stepc("check", self.path("refused.json"))
        self.assertIn("at /metrics/second", text)  # the sum is a part of the mean before it, too

    def test_literal(self):
        """A number that is that of the rows follows them, which is said; means and lengths are not told of, in no mode."""
        said = lambda path: self.run_stepc("check", path)[1]
        for loss, number in ("sum(model) / 24", "24"), ("sum(w) / 8 + mean(model)", "8"), ("mean(model) + 0.3 * sum(w * 0.125)", None), ("sum(w) * 0.125 + mean(model)", "8"):
            text = said(runner.write_json(self.path("literal.json"), document(FULL, loss=loss, metrics={"of": "mean(model)"}, partial_batches=True)))
            if number:
                self.assertRegex(text, r"warning\[W0438\]: .* divided by %s, which is taken for their number" % number)
            self.assertEqual(text.count("W0438"), number is not None, text)
        kept = document(FULL, loss="sum(model) / norm", metrics={"of": "mean(model)"}, partial_batches=True)
        kept["inputs"]["norm"] = {"shape": []}
        self.assertNotIn("W0438", said(runner.write_json(self.path("literal.json"), kept)))
        for name, given in CASES.items():
            for mode in ("compiled", "mesh"):
                made = document(FULL, **given, partial_batches=True, **MODES[mode])
                self.assertNotIn("W0438", said(runner.write_json(self.path("literal.json"), made)), name)
        made = document(FULL, metrics={"of": "mean(model)"}, partial_batches=True, **MICRO)
        self.assertNotIn("W0438", said(runner.write_json(self.path("literal.json"), made)))

    def test_meshes(self):
        for name in ("cross entropy", "weighted", "batch norm", "tokens", "root"):
            self.agree(name, CASES[name], "mesh")
        self.agree("cross entropy", {}, "mesh of 4")


if __name__ == "__main__":
    runner.main()
