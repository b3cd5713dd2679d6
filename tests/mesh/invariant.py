#!/usr/bin/env python3
"""`compile --numerics invariant`: one document gives the same bits on every mesh, with any number of threads and of microbatches
and on every instruction set, and what cannot is refused.

    tests/mesh/invariant.py build/stepc [TEST...]
"""
import itertools
import json
import os
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

ROWS, STEPS = 32, 3
CPUS = ["x86-64-v2", "x86-64-v3", "native"]
MESHES = [{"data": 2}, {"data": 4}, {"data": 8}, {"data": 2, "model": 2}, {"data": 2, "model": 4}, {"model": 2}, {"data": 3}]

PERCEPTRON = {
    "inputs": {"x": {"shape": [ROWS, 20], "dtype": "float32", "axes": ["batch", None]}, "y": {"shape": [ROWS], "dtype": "int32", "axes": ["batch"]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "features": 48, "name": "first"}, {"type": "gelu"}, {"type": "layer_norm"},
        {"type": "linear", "features": 24, "name": "second"}, {"type": "tanh"}, {"type": "linear", "features": 10}]},
    "loss": "mean(softmax_cross_entropy_with_integer_labels(model, y)) + 1e-3 * sum(params.first.kernel ** 2)",
    "metrics": {"accuracy": "mean(argmax(model, axis=-1) == y)"},
    "sharding": {"rules": [["batch", "data"]], "params": {"first.kernel": [None, "model"], "second.kernel": ["model", None], "**": []}}}
TRANSFORMER = {
    "inputs": {"x": {"shape": [ROWS, 8], "dtype": "int32", "axes": ["batch", None]}, "y": {"shape": [ROWS, 8], "dtype": "int32", "axes": ["batch", None]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "embed", "num_embeddings": 10, "features": 16},
        {"type": "residual", "layers": [{"type": "rms_norm"}, {"type": "multi_head_attention", "num_heads": 4, "is_causal": True, "name": "attention"}]},
        {"type": "residual", "layers": [{"type": "linear", "features": 32, "name": "up"}, {"type": "silu"}, {"type": "linear", "features": 16, "name": "down"}]},
        {"type": "linear", "features": 10}]},
    "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"},
    "sharding": {"rules": [["batch", "data"]], "params": {"**.up.kernel": [None, "model"], "**.down.kernel": ["model", None], "**": []}}}
CONVOLUTIONS = {
    "inputs": {"x": {"shape": [ROWS, 6, 6, 2], "dtype": "float32", "axes": ["batch", None, None, None]}, "y": {"shape": [ROWS], "dtype": "int32", "axes": ["batch"]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "conv", "features": 8, "kernel_size": [3, 3]}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "max_pool", "window_shape": [2, 2], "strides": [2, 2]},
        {"type": "dropout", "rate": 0.1}, {"type": "linear", "features": 10, "input": "reshape(x, (x.shape[0], -1))"}]},
    "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"},
    "sharding": {"rules": [["batch", "data"]]}}
RECURRENT = {
    "inputs": {"x": {"shape": [ROWS, 6, 5], "dtype": "float32", "axes": ["batch", None, None]}, "y": {"shape": [ROWS, 6], "dtype": "int32", "axes": ["batch", None]},
               "lengths": {"shape": [ROWS], "dtype": "int32", "axes": ["batch"]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "rnn", "cell": {"type": "optimized_lstm_cell", "hidden_features": 12}, "seq_lengths": "minimum(lengths, 6)"},
        {"type": "bidirectional", "forward_rnn": {"type": "rnn", "cell": {"type": "gru_cell", "hidden_features": 8}}, "backward_rnn": {"type": "rnn", "cell": {"type": "simple_cell", "hidden_features": 4}}},
        {"type": "linear", "features": 10}]},
    "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"},
    "sharding": {"rules": [["batch", "data"]]}}
DROPOUT = {**CONVOLUTIONS, "model": {**CONVOLUTIONS["model"], "layers": [l for l in CONVOLUTIONS["model"]["layers"] if l["type"] != "batch_norm"]}}
OPTIMIZER = {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 0.5}, {"type": "adamw", "learning_rate": 1e-2}]}


def with_rows(base, rows):
    """The document with so many rows in a batch."""
    inputs = {k: {**i, "shape": [rows, *i["shape"][1:]]} for k, i in base["inputs"].items()}
    return {**base, "inputs": inputs}


def document(base, mesh=None, microbatches=1, split="contiguous", **more):
    o = {"stepc": 1, "name": "invariant", **base, "optimizer": OPTIMIZER, "seed": 1}
    sharding = o.pop("sharding")
    if mesh:
        spec = lambda s: [a if a in mesh else None for a in s]
        o["mesh"] = {"axes": mesh}
        o["sharding"] = {"rules": [["batch", "data" if "data" in mesh else None]], **({"params": {k: spec(v) for k, v in sharding["params"].items()}} if "params" in sharding else {})}
    if microbatches > 1:
        rows = o["inputs"]["x"]["shape"][0]
        o["accumulate"] = {"microbatch_size": rows // microbatches, "split": split, **more}
    return o


# What microbatches there are does not depend on LLVM's work, which is most of the time; numbers are the same at every -O
# (precision.levels). These let it work.
OPTIMIZED = ("test_perceptron", "test_transformer", "test_convolutions", "test_recurrent")


class Invariant(runner.Case):
    verify = False

    def bits(self, o, arguments=("--numerics", "invariant"), threads=1):
        """The whole state and the metrics of all steps."""
        r = np.random.default_rng(7)
        draw = lambda i: r.integers(0, 10, [STEPS] + i["shape"]).astype("i4") if i["dtype"] == "int32" else r.normal(size=[STEPS] + i["shape"]).astype("f4")
        safetensors.write(self.path("data.safetensors"), {k: draw(i) for k, i in o["inputs"].items()})
        self.write("model.json", o)
        level = () if self._testMethodName in OPTIMIZED else ("-O0",)
        self.stepc("compile", "model.json", "-q", "-o", "step.so", *level, *arguments)
        self.stepc("run", "step.so", "-q", "--steps", str(STEPS), "--data", "data.safetensors", "--save", "out.safetensors", "--all-state", "--metrics", "out.jsonl",
                   "--threads", str(threads))
        return {k: bytes(t.data) for k, t in safetensors.raw(self.path("out.safetensors")).items()}, runner.metrics(self.path("out.jsonl"))

    def same(self, base, ways, split="contiguous", **more):
        first = self.bits(document(base))
        for mesh, microbatches, cpu, threads in ways:
            with self.subTest(mesh=mesh, microbatches=microbatches, cpu=cpu, threads=threads):
                state, lines = self.bits(document(base, mesh, microbatches, split, **more), ("--numerics", "invariant", "--cpu", cpu), threads)
                self.assertEqual([k for k in first[0] if first[0][k] != state.get(k)], [])
                self.assertEqual(first[1], lines)

    def ways(self, most):
        """Some of all, in which every mesh, number and instruction set stands."""
        all_of = list(itertools.product([None, *MESHES], most, CPUS, [1, 2, 4]))
        return all_of[1::max(1, len(all_of) // 14) | 1]

    def test_perceptron(self):
        self.same(PERCEPTRON, self.ways([1, 2, 4]))

    def test_transformer(self):
        self.same(TRANSFORMER, self.ways([1, 2, 4, 8]))

    def test_convolutions(self):
        self.same(CONVOLUTIONS, self.ways([1]))

    def test_recurrent(self):
        """Sums over time and rows begin with the rows; loops over time hand rows on."""
        self.same(RECURRENT, self.ways([1, 2, 4, 8]))

    def test_other_numbers(self):
        """No power of two of microbatches: 96 rows have leaves of 12, 28 leaves of 14, 30 of 15, and 12 rows are one leaf."""
        for base in PERCEPTRON, TRANSFORMER, RECURRENT:
            self.same(with_rows(base, 96), [(None, 3, "native", 1), ({"data": 8}, 6, "x86-64-v3", 1), ({"data": 2, "model": 2}, 12, "x86-64-v2", 2), ({"data": 3}, 3, "native", 4),
                                            ({"data": 4}, 24, "native", 1)])
            self.same(with_rows(base, 28), [({"data": 2}, 7, "native", 2), (None, 14, "native", 1)])
            self.same(with_rows(base, 30), [(None, 5, "native", 1), ({"data": 2}, 3, "x86-64-v2", 1)])
            self.same(with_rows(base, 12), [(None, 3, "native", 2), ({"data": 4}, 6, "native", 1)])

    def test_parts_of_leaves(self):
        """Powers of two of microbatches that hold no whole leaf: 32 rows have leaves of 8, 40 rows leaves of 10, and 12 rows are one leaf."""
        for base in PERCEPTRON, RECURRENT, DROPOUT:
            self.same(base, [(None, 8, "native", 1), ({"data": 2}, 16, "x86-64-v2", 2)])
            self.same(with_rows(base, 12), [({"data": 2}, 2, "native", 1), (None, 4, "x86-64-v3", 2)])
        for base in PERCEPTRON, TRANSFORMER:
            self.same(with_rows(base, 40), [({"data": 4}, 8, "native", 1)])

    def test_single_rows(self):
        """A sum over one row is not told from the row, so that no microbatch has a single one; what is a function of a sum is refused for them as for others."""
        for base in PERCEPTRON, TRANSFORMER:
            self.same(base, [({"data": 2}, ROWS, "native", 1)])
        for base in RECURRENT, DROPOUT:
            self.same(with_rows(base, 24), [(None, 24, "native", 2)], "strided")
        self.same(with_rows(PERCEPTRON, 2), [(None, 2, "native", 1)])
        beside = {**TRANSFORMER, "inputs": {**TRANSFORMER["inputs"], "z": {"shape": [ROWS, 1, 5], "axes": ["batch", None, None], "dtype": "float32"}}}
        private = {"type": "dpsgd", "learning_rate": 0.3, "l2_norm_clip": 0.8, "noise_multiplier": 0.0, "seed": 0}
        refusal = lambda o: self.stepc("compile", self.write("single.json", o), "-q", "-o", "single.so", "--numerics", "invariant", code=1).stderr
        for metric in "sum(sqrt(mean(abs(z), axis=0)))", "sum(abs(sum(z, axis=0) - 1))", "mean(exp(mean(z, axis=0, keepdims=True)))":
            with self.subTest(metric=metric):
                self.assertRegex(refusal(document({**beside, "metrics": {"some": metric}}, None, ROWS)), "E0434.*linear in sums over rows at /metrics/some")
        self.assertRegex(refusal({**document(PERCEPTRON, None, ROWS), "optimizer": private}), "E0434.*microbatches of a single row cannot be where gradients are of single examples")
        self.assertRegex(refusal(document(PERCEPTRON, None, ROWS, num_real_microbatches=ROWS)), "E0434.*microbatches of a single row")

    def test_strided(self):
        """Which rows a microbatch has does not matter."""
        for base in PERCEPTRON, RECURRENT, DROPOUT:
            self.same(base, [({"data": 2}, 4, "native", 2), (None, 8, "x86-64-v2", 1)], "strided")
            self.same(with_rows(base, 30), [(None, 3, "native", 1)], "strided")

    def test_dropout(self):
        """Masks are those of the whole batch, and the counter goes on once."""
        self.same(DROPOUT, [({"data": 2}, 2, "native", 1), (None, 4, "x86-64-v2", 2)])
        self.same(with_rows(DROPOUT, 96), [(None, 3, "native", 2)])

    def test_examples(self):
        """Sums over the gradients of single examples, which become products over rows (36 rows: in halves of leaves of 9), in microbatches and in groups."""
        clip, private = {"transform": [{"type": "clip_by_global_norm", "max_norm": 0.5}]}, {"type": "dpsgd", "learning_rate": 0.3, "l2_norm_clip": 0.8, "noise_multiplier": 0.0, "seed": 0}
        for rows, sizes in (24, [3, 12]), (36, [9]):
            o = document(with_rows(PERCEPTRON, rows))
            first = self.bits({**o, "per_example": clip})
            for size in sizes:
                with self.subTest(rows=rows, size=size):
                    self.assertEqual(first, self.bits({**o, "per_example": {**clip, "microbatch_size": size}}))
        first = self.bits({**o, "inputs": with_rows(PERCEPTRON, 32)["inputs"], "optimizer": private})
        for microbatches in 2, 8:
            with self.subTest(microbatches=microbatches):
                self.assertEqual(first, self.bits({**document(PERCEPTRON, None, microbatches), "optimizer": private}, threads=2))

    def test_bfloat16(self):
        """Sums of 16 bits are taken in float32 and rounded once, so they may be cut: 96 rows are more than the windows in which XLA rounds them."""
        compute, all_of_it = {"compute": "bfloat16"}, {"compute": "bfloat16", "params": "bfloat16"}
        for base in PERCEPTRON, TRANSFORMER, RECURRENT:
            self.same({**with_rows(base, 96), "precision": compute}, [({"data": 2}, 4, "x86-64-v2", 2), ({"data": 8}, 3, "native", 1)])
        self.same({**TRANSFORMER, "precision": all_of_it}, [({"data": 4}, 2, "x86-64-v2", 2), (None, 8, "native", 1)], "strided")
        clip = {"transform": [{"type": "clip_by_global_norm", "max_norm": 0.5}]}
        o = {**document(with_rows(PERCEPTRON, 24)), "precision": compute}
        self.assertEqual(self.bits({**o, "per_example": clip}), self.bits({**o, "per_example": {**clip, "microbatch_size": 12}}))

    def test_weight(self):
        """Means over what a mask counts, beside what is the same for all rows, in the bits of the whole batch."""
        mask = {"m": {"shape": [ROWS, 8], "dtype": "int32", "axes": ["batch", None]}}
        tokens = {**TRANSFORMER, "inputs": {**TRANSFORMER["inputs"], **mask}, "loss": {**TRANSFORMER["loss"], "weights": "m / 9"}, "metrics": {"right": "sum((argmax(model, axis=-1) == y) * (m / 9)) / sum(m / 9)"}}
        tokens["loss"].pop("reduction")
        entropy = "softmax_cross_entropy_with_integer_labels(model, y)"
        rows = {**PERCEPTRON, "inputs": {**PERCEPTRON["inputs"], "m": {"shape": [ROWS], "dtype": "int32", "axes": ["batch"]}},
                "loss": "sum(m * %s) / sum(m) + 1e-3 * sum(params.first.kernel ** 2)" % entropy, "metrics": {"right": "sum(m * (argmax(model, axis=-1) == y)) / sum(m)", "norm": "sqrt(sum(params.first.bias ** 2))"}}
        for base, weight in (tokens, "sum(m / 9)"), (rows, "sum(m)"):
            self.same(base, [({"data": 2}, 4, "native", 2), (None, 8, "x86-64-v2", 1)], weight=weight)
            self.same(with_rows(base, 30), [({"data": 2}, 3, "native", 1)], "strided", weight=weight, accumulator="running_mean")

    def test_other_results(self):
        """Sums of sums, means of what counts its rows itself, and a metric with rows, in the bits of the whole batch."""
        entropy = "softmax_cross_entropy_with_integer_labels(model, y)"
        for loss, more in [("sum(%s)" % entropy, {"accumulator": "sum"}), ("sum(%s) / x.shape[0]" % entropy, {}), ("sum(%s / x.shape[0])" % entropy, {})]:
            base = {**with_rows(PERCEPTRON, 96), "loss": loss, "metrics": {"right": "argmax(model, axis=-1) == y"}}
            first, o = document(base), document(base, None, 3)
            o["accumulate"].update(more, metrics={"right": "concat"})
            with self.subTest(loss=loss):
                self.assertEqual(self.bits(first), self.bits(o))

    def test_zeros(self):
        """A gradient of nothing but zeros: sums of microbatches begin with -0, what is drawn at the start with 0."""
        short = json.loads(json.dumps(RECURRENT).replace("[%d, 6" % ROWS, "[%d, 1" % ROWS))
        self.same(short, [(None, 4, "native", 1)])

    def test_others_differ(self):
        """Which is what the option is for."""
        plain = self.bits(document(PERCEPTRON), ("--cpu", "x86-64-v2"))
        self.assertNotEqual(plain, self.bits(document(PERCEPTRON), ("--cpu", "x86-64-v3")))
        self.assertNotEqual(plain, self.bits(document(PERCEPTRON, {"data": 4}), ("--cpu", "x86-64-v2")))

    def test_refused(self):
        def refusal(o, *arguments, code=1):
            return self.stepc("compile", self.write("refused.json", o), "-o", "refused.so", "--numerics", "invariant", *arguments, code=code).stderr
        self.assertIn("batch_norm", json.dumps(CONVOLUTIONS))
        said = refusal(document(CONVOLUTIONS, None, 2))
        self.assertRegex(said, r"E0434.*depends on the number of microbatches")
        self.assertIn("/model/layers/1", said)
        self.assertIn("--blas own", refusal(document(PERCEPTRON), "--blas", "openblas", code=2))
        entropy = "softmax_cross_entropy_with_integer_labels(model, y)"
        said = refusal({**document(PERCEPTRON, None, 2), "precision": {"compute": "float16"}})
        self.assertRegex(said, r'E0434.*a sum of float16, .*"first.kernel" depends on the number of microbatches')
        self.stepc("compile", self.write("plain.json", {**document(PERCEPTRON, None, 2), "precision": {"compute": "bfloat16"}}), "-q", "-O0", "-o", "plain.so", "--dump=widen")
        said = self.stepc("compile", "07-widen.sir", "-o", "refused.so", "--numerics", "invariant", code=2).stderr
        self.assertIn("--numerics invariant: 07-widen.sir was made without it, up to pass widen", said)
        with open(self.path("07-widen.sir"), encoding="utf-8") as f:
            text = f.read().replace("after widen\n", 'after widen\nnumerics "invariant"\n', 1)
        said = self.stepc("compile", self.write("said.sir", text), "-o", "refused.so", "--numerics", "invariant", code=1).stderr  # that it was is not true
        self.assertRegex(said, "E0434.*a sum of bfloat16 that pass widen has not seen")
        self.assertIn('said.sir was made with --numerics invariant', self.stepc("compile", self.path("said.sir"), "-o", "refused.so", "--numerics", "mesh-invariant", code=2).stderr)
        for metric in ["mean(%s[:3])", "mean(%s[::2])", "mean(pad(%s, (1, 1)))", "mean(roll(%s, 1) * y)", "mean(max(reshape(%s, (4, -1)), axis=1))"]:  # some rows, or rows beside others
            with self.subTest(metric=metric):
                self.assertRegex(refusal(document({**PERCEPTRON, "metrics": {"some": metric % entropy}}, None, 2)), 'E0434.*rows.*"some" depends on the number of microbatches')
        halves = document({**PERCEPTRON, "metrics": {"some": "sum((y > 2).astype('uint32')) // 2"}}, None, 2)
        halves["accumulate"]["metrics"] = {"some": "sum"}
        self.assertRegex(refusal(halves), 'E0434.*a quotient of a sum over rows without what is left over: "some" depends')

    def test_larger(self):
        """Microbatches of at least twice the rows are told of, once, and those that hold whole leaves are not."""
        def said(base, rows, microbatches, *arguments, code=0):
            o = document(with_rows(base, rows), None, microbatches)
            return self.stepc("compile", self.write("larger.json", o), "-q", "-o", "larger.so", "--numerics", "invariant", *arguments, code=code).stderr
        for rows, microbatches, made in (32, 8, 8), (32, 16, 8), (12, 2, 12), (9, 3, 9), (30, 6, 15):
            with self.subTest(rows=rows, microbatches=microbatches):
                text = said(PERCEPTRON, rows, microbatches)
                self.assertEqual(text.count("W0434"), 1)
                self.assertRegex(text, r'warning\[W0434\]: --numerics invariant makes microbatches of %d rows, not of %d: .*(.|\n)*"microbatch_size": %d says so' % (made, rows // microbatches, made))
                self.assertEqual(said(PERCEPTRON, rows, rows // made), "")
        self.assertEqual(said(TRANSFORMER, 32, 8) + said(PERCEPTRON, 96, 3) + said(PERCEPTRON, 32, 8, "-Wno-W0434"), "")
        for rows, microbatches in (32, 8), (9, 3):
            self.assertIn("error[W0434]", said(PERCEPTRON, rows, microbatches, "-Werror", code=1))

    def test_scales(self):
        """Means of sums and sums of means are told of where the number of microbatches is a power of two; for others they are refused."""
        def said(loss, **more):
            o = document({**PERCEPTRON, "loss": loss, "metrics": {}}, None, 2, **more)
            return self.stepc("compile", self.write("scales.json", o), "-q", "-o", "scales.so", "--numerics", "invariant").stderr
        entropy = "softmax_cross_entropy_with_integer_labels(model, y)"
        for loss, more in [("mean(%s)", {}), ("sum(%s) / x.shape[0]", {}), ("sum(%s)", {"accumulator": "sum"}), ("mean(reshape(%s, (16, -1)))", {})]:  # of the last one nothing is known
            self.assertEqual(said(loss % entropy, **more), "")
        for loss, more, what in [("sum(%s)", {}, "mean"), ("sum(%s) / 16", {}, "mean"), ("mean(%s)", {"accumulator": "sum"}, "sum")]:
            self.assertRegex(said(loss % entropy, **more), r"warning\[W0437\].*is no %s over rows: it depends on the number of microbatches" % what)
        for loss, few, many in [("mean(%s) + x.shape[0]", "16", "32"), ("mean(%s / (x.shape[0] - 1))", "15", "31"), ("mean(%s * exp(x.shape[0] / 16))", r"2\.7\d*", r"7\.3\d*"),
                                ("mean((%s + x.shape[0])**2)", "16", "32")]:  # inside of a mean, too
            self.assertRegex(said(loss % entropy), r"warning\[W0437\].*a number that counts rows, %s in microbatches of 16 and %s in those of 32, at /loss: it depends on the number of microbatches(.|\n)*hint: x.shape\[0\] is that" % (few, many))
        for metric in ("mean(argmax(model, -1) == y)", "mean(x) * 16", "mean(x + 16)"):
            o = document({**PERCEPTRON, "metrics": {"some": metric}}, None, 2)
            self.assertEqual(self.stepc("compile", self.write("scales.json", o), "-q", "-o", "scales.so", "--numerics", "invariant").stderr, "")

    def test_scales_of_examples(self):
        """The same of what is summed or averaged over examples first."""
        for inner, outer, accuracy, said in [("mean", "mean", "mean", ""), ("sum", "sum", "sum", ""), ("sum", "mean", "mean", '"first.kernel" is no mean'),
                                             ("mean", "sum", "sum", '"first.kernel" is no sum'), ("mean", "mean", "sum", '"accuracy" is no sum')]:
            o = document(PERCEPTRON, None, 2, accumulator=outer, metrics={"accuracy": accuracy})
            o["per_example"] = {"accumulator": inner, "metrics": {"norm": {"expr": "global_norm(grads)", "accumulator": "mean"}}}
            with self.subTest(inner=inner, outer=outer, accuracy=accuracy):
                text = self.stepc("compile", self.write("scales.json", o), "-q", "-o", "scales.so", "--numerics", "invariant").stderr
                self.assertRegex(text, r"warning\[W0437\].*%s over rows: it depends on the number of microbatches" % said if said else "^$")

    def test_mesh_invariant(self):
        """What depends on the number of microbatches depends on nothing else: statistics, roots of means, float16, microbatches that do not run, single rows."""
        mesh_invariant, entropy = ("--numerics", "mesh-invariant"), "softmax_cross_entropy_with_integer_labels(model, y)"
        root = {**PERCEPTRON, "loss": "sqrt(mean(%s))" % entropy, "metrics": {"some": "mean(%s[:3])" % entropy}}
        for base, rows, microbatches, more in [(CONVOLUTIONS, ROWS, 4, {}), (root, 24, 3, {"split": "strided"}), ({**TRANSFORMER, "precision": {"compute": "float16"}}, ROWS, 2, {}),
                                               (PERCEPTRON, ROWS, 8, {"num_real_microbatches": 5}), (PERCEPTRON, 6, 6, {"num_real_microbatches": 5})]:
            o = lambda mesh: document(with_rows(base, rows), mesh, microbatches, **more)
            with self.subTest(model=base["model"]["layers"][0], microbatches=microbatches, **more):
                said = self.stepc("compile", self.write("refused.json", o(None)), "-o", "refused.so", "--numerics", "invariant", code=1).stderr
                self.assertRegex(said, r"E0434(.|\n)*--numerics mesh-invariant keeps the bits on every mesh")
                first = self.bits(o(None), mesh_invariant)
                for mesh, cpu, threads in ({"data": 2}, "x86-64-v2", 2), ({"data": 2, "model": 2}, "native", 1):
                    self.assertEqual(first, self.bits(o(mesh), (*mesh_invariant, "--cpu", cpu), threads))
        self.assertIn("--numerics mesh-invariant: only with", self.stepc("compile", self.write("refused.json", document(PERCEPTRON)), "-o", "refused.so", *mesh_invariant, "--blas", "openblas", code=2).stderr)

    def test_refused_numbers(self):
        """What three microbatches give, and others would not."""
        def refusal(base, **more):
            o = document(with_rows(base, 96), None, 3)
            o["accumulate"].update(more)
            return self.stepc("compile", self.write("refused.json", o), "-o", "refused.so", "--numerics", "invariant", code=1).stderr
        entropy = "softmax_cross_entropy_with_integer_labels(model, y)"
        for loss, why in [("sum(%s) / 32" % entropy, "no mean over rows"), ("mean(%s) * x.shape[0]" % entropy, "no mean over rows"), ("sqrt(mean(%s))" % entropy, "/loss"),
                          ("mean(%s) + sum(%s)" % (entropy, entropy), "/loss"), ("mean(%s) + mean(x / x.shape[0])" % entropy, "/loss"), ("sum(%s) / (x.shape[0] - 1)" % entropy, "a number that counts rows"),
                          ("mean((model - mean(model, axis=0))**2)", "rows that depend on a sum over rows"), ("mean(model @ transpose(model))", "rows that depend on each other"),
                          ("mean(model * transpose(reshape(model, (10, -1))))", "/loss"), ("mean(arange(x.shape[0]) * %s)" % entropy, "/loss"), ("mean(cumsum(model, axis=0))", "/loss"),
                          ("mean(%s[:3])" % entropy, "/loss"), ("mean(reshape(model, (32, -1)))", "microbatches of 24 rows")]:
            with self.subTest(loss=loss):
                self.assertRegex(refusal({**PERCEPTRON, "loss": loss}), "E0434.*" + why)
        self.assertRegex(refusal(PERCEPTRON, accumulator="sum"), "E0434.*no sum over rows")
        self.assertRegex(refusal(PERCEPTRON, num_real_microbatches=2), "E0434.*power of two")
        self.assertRegex(refusal(CONVOLUTIONS), "E0434.*/model/layers/1")
        masked = {**PERCEPTRON, "inputs": {**PERCEPTRON["inputs"], "m": PERCEPTRON["inputs"]["y"]}}
        mean = "sum(m * %s) / sum(m)" % entropy
        for loss, weight, why in [("mean(%s)" % entropy, "sum(m)", "no mean over rows by the weight"), (mean + " * sum(m) / x.shape[0]", "sum(m)", "by the weight"), (mean, "sum(m) + 1", "/loss"),
                                  (mean, "maximum(sum(m), 1)", "/loss"), (mean, "mean(m)", "/loss"), (mean, "3", "/loss"), (mean, "sum(m[:3])", "/loss"), (mean, "sum(model)", '"model"'),
                                  ("%s + mean(%s)" % (mean, entropy), "sum(m)", "/loss"), ("(sum(m * %s) + 1) / sum(m)" % entropy, "sum(m)", "/loss"), ("sqrt(%s)" % mean, "sum(m)", "/loss")]:
            with self.subTest(loss=loss, weight=weight):
                self.assertRegex(refusal({**masked, "loss": loss}, weight=weight), "E0434.*" + why)
        wrong = refusal({**PERCEPTRON, "metrics": {"first": "model[0, 0] > 0"}}, metrics={"first": "mean"})  # whatever the number
        self.assertRegex(wrong, "E0432.*first")
        self.assertNotIn("E0434", wrong)


if __name__ == "__main__":
    runner.main()
