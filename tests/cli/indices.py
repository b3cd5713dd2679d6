#!/usr/bin/env python3
"""Integers of a batch that index: a label that is no class, or x[i] from outside, is an error of the batch, which names input,
position, value and range, before anything of the step runs, unless a mask leaves the row out or the document says that it wants
what Optax and JAX do. Interpreted, compiled, on a mesh, in microbatches, of several steps at once.

    tests/cli/indices.py STEPC
"""
import json
import os
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

CE = "softmax_cross_entropy_with_integer_labels"
LABELS = {"type": CE, "logits": "model", "labels": "y", "reduction": "mean"}
MASK = [1, 0, 1, 1]
GOOD, LOW, HIGH = [0, 1, 2, 9], [0, -1, 2, 9], [0, 1, 2, 10]
AT_LOW, AT_HIGH = ('"y"[1] is -1', "0 <= value < 10"), ('"y"[3] is 10', "0 <= value < 10")


def of(loss, **more):
    """A loss object, and the same as an expression."""
    names = {"compute_weighted_cross_entropy": ("logits", "targets"), CE: ("logits", "labels"), "ntxent": ("embeddings", "labels")}.get(loss, ("scores", "labels"))
    return {"type": loss, names[0]: "model", names[1]: "y", "reduction": "mean", **more}


# loss, labels, what the error says (None: there is none)
CASES = [
    (LABELS, GOOD, None), (LABELS, LOW, AT_LOW), (LABELS, HIGH, AT_HIGH),
    ("mean(%s(model, y))" % CE, LOW, AT_LOW),
    # Optax's behaviour: negative labels count from the end, others make NaN
    ({**LABELS, "index_checks": False}, LOW, None), ("mean(%s(model, y, index_checks=False))" % CE, HIGH, None),
    # masked rows do not matter, others do
    (of(CE, where="y >= 0"), LOW, None), (of(CE, where="y >= 0"), HIGH, AT_HIGH),
    (of(CE, where="m"), LOW, None), (of(CE, where="m"), HIGH, AT_HIGH),
    ({"type": CE, "logits": "model", "labels": "y", "weights": "y != -1"}, LOW, None),
    ({"type": CE, "logits": "model", "labels": "y", "weights": "m"}, HIGH, AT_HIGH),
    ("sum(%s(model, y) * m) / sum(m)" % CE, LOW, None), ("sum(%s(model, y) * m) / sum(m)" % CE, HIGH, AT_HIGH),
    ("sum(where(y == -100, 0, %s(model, y)))" % CE, [0, -100, 2, 9], None),
    ("sum(where(y == -100, 0, %s(model, y)))" % CE, [0, -100, -1, 9], ('"y"[2] is -1',)),
    ("mean(%s(model[1:], y[1:]))" % CE, [-1, 0, 1, 2], None), ("mean(%s(model[1:], y[1:]))" % CE, [0, 0, 1, 10], ('"y[1:]"[2] is 10',)),
    ("mean(%s(model, y)[2:])" % CE, LOW, None), ("mean(%s(model, y)[2:])" % CE, HIGH, AT_HIGH),
    # labels that are computed
    ("mean(%s(model, y - 1))" % CE, [1, 10, 2, 9], None), ("mean(%s(model, y - 1))" % CE, [1, 0, 2, 9], ('"y - 1"[1] is -1',)),
    ("mean(%s(model, where(y >= 0, y, 0)))" % CE, LOW, None), ("mean(%s(model, where(y >= 0, y, 0)))" % CE, HIGH, ("[3] is 10",)),
    ("mean(%s(model, y %% 10))" % CE, HIGH, None),
    ("mean(%s(model[None], y[None]))" % CE, HIGH, AT_HIGH),
    # one_hot leaves out what it does not know, as JAX's does, but labels are to be known
    ("mean(softmax_cross_entropy(model, one_hot(y, 10)))", HIGH, AT_HIGH), ("mean(softmax_cross_entropy(model, smooth_labels(one_hot(y, 10), 0.1)))", LOW, AT_LOW),
    ("mean(softmax_cross_entropy(model, one_hot(y, 10, index_checks=False)))", HIGH, None), ("mean(model * one_hot(y, 10))", HIGH, None),
    ("mean(softmax_cross_entropy(model, one_hot(y, 10)) * m)", LOW, None),
    # what has its own idea of elements from outside
    ("mean(model[arange(4), y] ** 2)", LOW, None), ("mean(model[arange(4), y] ** 2)", HIGH, ('"y"[3] is 10', "-10 <= value < 10")),
    ("mean(model.at[arange(4), y].get(mode='clip') ** 2)", HIGH, None), ("mean(take(model, y, axis=1, mode='clip') ** 2)", HIGH, None),
    (of("compute_weighted_cross_entropy", weights="m"), LOW, None), (of("compute_weighted_cross_entropy", weights="m"), HIGH, AT_HIGH),
    (of("compute_weighted_cross_entropy"), LOW, AT_LOW), (of("compute_weighted_cross_entropy", index_checks=False), LOW, None),
    (of("compute_weighted_cross_entropy", loss_normalizing_factor="NUM_REAL_TARGET_TOKENS"), LOW, None),
    (of("compute_weighted_cross_entropy", loss_normalizing_factor="NUM_REAL_TARGET_TOKENS"), HIGH, AT_HIGH),
] + [(of(name, **more), labels, said) for name in ("multiclass_hinge_loss", "multiclass_perceptron_loss", "multiclass_sparsemax_loss")
     for more, labels, said in (({}, GOOD, None), ({}, LOW, AT_LOW), ({}, HIGH, AT_HIGH), ({"index_checks": False}, HIGH, None))] + [(of("ntxent"), HIGH, None)]


def document(loss, dtype="int32", **more):
    rows = {"shape": [4], "axes": ["batch"]}
    return {"stepc": 1, "inputs": {"x": {"shape": [4, 3], "axes": ["batch", None]}, "y": {**rows, "dtype": dtype}, "m": rows},
            "model": {"type": "linear", "features": 10, "input": "x"}, "loss": loss, "optimizer": {"type": "sgd", "learning_rate": 0.1}, **more}


class Indices(runner.Case):
    def data(self, *labels, dtype="int32"):
        n = len(labels)
        x = np.random.default_rng(0).normal(size=(n, 4, 3)).astype("f4")
        safetensors.write(self.path("d.safetensors"), {"x": x, "y": np.array(labels, dtype), "m": np.array([MASK] * n, "f4")})

    def goes(self, what, said, steps=1, at=1, **more):
        save = self.path("after.safetensors")
        r = self.stepc("run", what, "--steps", str(steps), "--data", self.path("d.safetensors"), "--save", save, code=1 if said else 0, **more)
        for text in said or ():
            self.assertIn(text, r.stderr)
        if said:
            self.assertIn("step %d:" % at, r.stderr)

    def compiled(self, path, *arguments):
        self.stepc("compile", path, "-o", self.path("s.so"), *arguments)
        return self.path("s.so")

    def test_cases(self):
        for loss, labels, said in CASES:
            with self.subTest(loss=loss, labels=labels):
                self.data(labels)
                self.goes(self.write("m.json", json.dumps(document(loss))), said)

    def test_ways(self):
        """One mask, every way to run it, every dtype."""
        for name, more, arguments in (("object", {}, ()), ("mesh", {"mesh": {"axes": {"batch": 2}}}, ()), ("team", {}, ("--disable", "outline")),
                                      ("microbatches", {"accumulate": {"microbatch_size": 2}}, ()), ("examples", {"per_example": {"transform": []}}, ())):
            for loss in (of(CE, where="m"), LABELS):
                so = self.compiled(self.write("m.json", json.dumps(document(loss, **more))), *arguments)
                for labels, said in ((LOW, None if "where" in loss else AT_LOW), (HIGH, AT_HIGH)):
                    with self.subTest(name, loss=loss, labels=labels):
                        self.data(labels)
                        self.goes(so, said)
        for dtype in ("int8", "uint8", "int16", "uint16", "int64", "uint32"):
            for loss in (of(CE, where="y != 11"), LABELS):
                so = self.compiled(self.write("m.json", json.dumps(document(loss, dtype))))
                for labels, said in ((GOOD, None), (HIGH, AT_HIGH)):
                    with self.subTest(dtype, loss=loss):
                        self.data(labels, dtype=dtype)
                        self.goes(so, said)

    def test_before_the_step(self):
        """The second batch is refused: the state is the one after the first."""
        for loss in (of(CE, where="m"), LABELS):
            so = self.compiled(self.write("m.json", json.dumps(document(loss))))
            self.data(GOOD)
            self.goes(so, None)
            first = safetensors.read(self.path("after.safetensors"))
            self.data(GOOD, HIGH)
            self.goes(so, AT_HIGH, steps=2, at=2)
            second = safetensors.read(self.path("after.safetensors"))
            self.assertEqual({k: v.tolist() for k, v in first.items()}, {k: v.tolist() for k, v in second.items()})

    def test_eval(self):
        so = self.compiled(self.write("m.json", json.dumps(document(of(CE, where="m")))))
        self.data(HIGH)
        os.rename(self.path("d.safetensors"), self.path("e.safetensors"))
        self.data(GOOD)
        r = self.stepc("run", so, "--steps", "1", "--data", self.path("d.safetensors"), "--eval-data", self.path("e.safetensors"), "--eval-every", "1", code=1)
        self.assertIn(AT_HIGH[0], r.stderr)

    def test_infer(self):
        """What the model indexes with is checked before infer, too; what the loss leaves out of a step is an output all the same."""
        rows = {"shape": [4], "axes": ["batch"]}
        for expr, more, y, said in (("x[y + 1]", "mean(model**2)", [0, 1, 2, 3], None), ("x[y + 1]", "mean(model**2)", [0, 1, 2, 4], ('"y + 1"[3] is 5', "-5 <= value < 5")),
                                    ("where(m == 0, 0, x[y + 1][:, 0])", "mean(model**2)", [0, 7, 2, 3], None), ("where(m == 0, 0, x[y + 1][:, 0])", "mean(model**2)", [0, 7, 9, 3], ('"y + 1"[2] is 10',)),
                                    ("x[y + 1]", "sum(where(z[:, None] == 0, 0, model)**2)", [0, 7, 2, 3], ('"y + 1"[1] is 8',)), ("x[y]", "sum(where(z[:, None] == 0, 0, model)**2)", [0, 7, 2, 3], ('"y"[1] is 7',)),
                                    ("x[y]", "mean(softmax_cross_entropy_with_integer_labels(model, y + 9))", [0, 1, 2, 3], None)):
            document = {"stepc": 1, "inputs": {"v": {"shape": [5, 2]}, "y": {**rows, "dtype": "int32"}, "m": rows, "z": rows},
                        "model": {"type": "sequential", "input": "v", "layers": [{"type": "linear", "features": 3}, {"type": "expr", "expr": expr}]}, "loss": more, "optimizer": {"type": "sgd", "learning_rate": 0.1}}
            model = self.write("m.json", json.dumps(document))
            safetensors.write(self.path("i.safetensors"), {"v": np.ones((1, 5, 2), "f4"), "y": np.array([y], "i4"), **({"m": np.array([MASK], "f4")} if "m" in expr else {})})
            for what in (model, self.compiled(model)):
                with self.subTest(expr, y=y, what=what):
                    r = self.stepc("run", what, "--infer", self.path("o.safetensors"), "--infer-data", self.path("i.safetensors"), code=1 if said else 0)
                    for text in said or ():
                        self.assertIn(text, r.stderr)

    def test_wide(self):
        """64-bit integers compute as 32 bits, as in JAX, but none becomes another number: those that do not fit are refused."""
        for dtype, fits, no, least in (("int64", [-2**31, 2**31 - 1, 0, 1], [2**31, -2**31 - 1, 2**32 + 1, 2**63 - 1], "-2147483648"), ("uint64", [0, 2**32 - 1, 1, 2], [2**32, 2**64 - 1], "0")):
            document = {"stepc": 1, "inputs": {"v": {"shape": [4, 2]}, "n": {"shape": [4], "dtype": dtype}, "d": {"shape": [2], "dtype": "float64"}},
                        "model": {"type": "linear", "features": 1, "input": "v"}, "loss": "mean(model * n[:, None])", "metrics": {"most": "max(n)", "d": "d[0]", "far": "d[1]"},
                        "optimizer": {"type": "sgd", "learning_rate": 0.0}}
            model = self.write("m.json", json.dumps(document))
            for what in (model, self.compiled(model)):
                for n, bad in [(fits, None)] + [([1, 2, x, 3], x) for x in no]:
                    with self.subTest(dtype, what=what, bad=bad):
                        safetensors.write(self.path("d.safetensors"), {"v": np.ones((1, 4, 2), "f4"), "n": np.array([n], dtype), "d": np.array([[0.1, 1e300]], "f8")})
                        r = self.stepc("run", what, "--steps", "1", "--data", self.path("d.safetensors"), "--metrics", self.path("m.jsonl"), code=1 if bad else 0)
                        if bad:
                            self.assertIn('"n"[2] is %d; expected %s <= value' % (float(bad), least), r.stderr)
                            continue
                        with open(self.path("m.jsonl")) as f:
                            m = json.loads(f.readline())
                        self.assertEqual(m["most"], max(n))
                        self.assertEqual((m["d"], m["far"]), (0.1, "Infinity"))  # floats are rounded

    def test_ctc(self):
        """Labels behind the end of a sequence do not matter."""
        shape = {"axes": ["batch", None]}
        ctc = {"type": "ctc_loss", "logits": "reshape(model, (2, 5, 4))", "logit_paddings": "lp", "labels": "y", "label_paddings": "yp", "reduction": "mean"}
        text = {"stepc": 1, "inputs": {"x": {"shape": [2, 3], **shape}, "lp": {"shape": [2, 5], **shape}, "yp": {"shape": [2, 2], **shape}, "y": {"shape": [2, 2], "dtype": "int32", **shape}},
                "model": {"type": "linear", "features": 20, "input": "x"}, "loss": ctc, "optimizer": {"type": "sgd", "learning_rate": 0.1}}
        path = self.write("m.json", json.dumps(text))
        for labels, said in (([[1, 2], [3, 1]], None), ([[1, 2], [3, -7]], None), ([[1, 4], [3, 1]], ('"y"[0, 1] is 4', "0 <= value < 4"))):
            arrays = {"x": np.ones((1, 2, 3), "f4"), "lp": np.zeros((1, 2, 5), "f4"), "yp": np.array([[[0, 0], [0, 1]]], "f4"), "y": np.array([labels], "i4")}
            safetensors.write(self.path("d.safetensors"), arrays)
            self.goes(path, said)

    def test_lengths(self):
        """Lengths of sequences choose times where the last carry is asked for, or a sequence is turned round: those of more times than there are, or negative ones, are refused."""
        cell = {"type": "gru_cell", "hidden_features": 2}
        both = {"type": "bidirectional", "forward_rnn": {"type": "rnn", "cell": cell}, "backward_rnn": {"type": "rnn", "cell": cell}}
        rnn = {"type": "rnn", "cell": cell}
        long, negative = ('"n"[1] is 6', "0 <= value < 6"), ('"n"[0] is -1', "0 <= value < 6")
        for layer, loss, checks in (({**rnn, "return_carry": True}, "sum(model[0])", True), ({**rnn, "reverse": True}, "sum(model[:, 0])", True),
                                    ({**rnn, "reverse": True, "keep_order": True, "return_carry": True}, "sum(model[1])", True),
                                    (both, "sum(model)", True), ({**both, "return_carry": True}, "sum(model[0][0])", True), (rnn, "sum(model)", False)):
            text = {"stepc": 1, "inputs": {"x": {"shape": [2, 5, 3], "axes": ["batch", None, None]}, "n": {"shape": [2], "dtype": "int32", "axes": ["batch"]}},
                    "model": {**layer, "input": "x", "seq_lengths": "n"}, "loss": loss, "optimizer": {"type": "sgd", "learning_rate": 0.1}}
            path = self.write("m.json", json.dumps(text))
            for what in (path, self.compiled(path)):
                for lengths, said in (([0, 5], None), ([2, 6], long), ([-1, 3], negative)):
                    with self.subTest(layer=layer, what=what, lengths=lengths):
                        safetensors.write(self.path("d.safetensors"), {"x": np.ones((1, 2, 5, 3), "f4"), "n": np.array([lengths], "i4")})
                        self.goes(what, said if checks else None)


if __name__ == "__main__":
    runner.main()
