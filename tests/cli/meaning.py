#!/usr/bin/env python3
"""What a document says is what is trained: rates by formulas are Optax's schedules of the same callable, a repeated block hands
on what it has, noise of a shape of its own is new in every microbatch.

    tests/cli/meaning.py STEPC
"""
import os
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

F = np.float32
RATES = {"0.1 / (step + 1)": lambda k: F(0.1) / F(k + 1), "peak * minimum(1.0, (step + 1) / 2)": lambda k: F(0.5) * min(F(1), F(k + 1) / F(2)),
         "where(step < 2, 0.1, 0.01)": lambda k: F(0.1 if k < 2 else 0.01), "0.1 * 0.5 ** step": lambda k: F(0.1) * F(0.5) ** F(k),
         "peak / 10": lambda k: F(0.05)}


def document(**more):
    return {"stepc": 1, "constants": {"peak": 0.5}, "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}}, "model": {"type": "linear", "features": 4, "use_bias": False, "input": "x"},
            "loss": "sum(model)", "optimizer": {"type": "sgd", "learning_rate": 0.1}, **more}


class Meaning(runner.Case):
    def steps(self, text, steps, rows=8):
        runner.write_json(self.path("model.json"), text)
        safetensors.write(self.path("data.safetensors"), {"x": np.ones((1, rows, 4), "f4")})
        return runner.train(self.program, self.folder, steps)

    def after(self, optimizer, steps=5):
        """What the steps take off a weight whose gradient is 8."""
        first, _ = self.steps(document(optimizer={"type": "sgd", "learning_rate": 0.0}), 1)
        last, _ = self.steps(document(optimizer=optimizer), steps)
        return (first["kernel"] - last["kernel"])[0, 0] / 8

    def test_rates(self):
        for text, rate in RATES.items():
            want = sum(float(rate(k)) for k in range(5))
            joined = {"type": "join_schedules", "schedules": [text, {"type": "constant_schedule", "value": 0.25}], "boundaries": [3]}
            for name, optimizer, total in (("rate", {"type": "sgd", "learning_rate": text}, want), ("chain", {"type": "chain", "transforms": [{"type": "scale_by_schedule", "step_size_fn": "-(%s)" % text}]}, want),
                                           ("inject", {"type": "inject_hyperparams", "opt": {"type": "sgd", "learning_rate": text}}, want),
                                           ("joined", {"type": "sgd", "learning_rate": joined}, sum(float(rate(k)) for k in range(3)) + 0.5)):
                with self.subTest(text, name=name):
                    np.testing.assert_allclose(self.after(optimizer), total, rtol=1e-5)
        long = [{"init_value": rate, "peak_value": rate, "end_value": rate, "warmup_steps": 0, "decay_steps": 2000000000} for rate in (0.1, 0.2, 0.3)]
        np.testing.assert_allclose(self.after({"type": "sgd", "learning_rate": {"type": "sgdr_schedule", "cosine_kwargs": long}}), 0.5, rtol=1e-5)
        numbers = {"type": "join_schedules", "schedules": [0.1, "$peak", "peak / 10"], "boundaries": [2, 4]}
        np.testing.assert_allclose(self.after({"type": "sgd", "learning_rate": numbers}), 2 * 0.1 + 2 * 0.5 + 0.05, rtol=1e-5)

    def test_pads_of_bools(self):
        """What is made of both values is true where it is not 0, as jnp.pad has it: no mean of bools is rounded."""
        kept = "array([[True, False, False, False], [False, False, True, True]])"
        for mode, want in (("mean", [[1, 1, 0, 1, 1, 1], [1, 1, 0, 0, 0, 1], [1, 0, 0, 1, 1, 1], [1, 1, 0, 1, 1, 1]]),
                           ("maximum", [[1, 1, 0, 1, 1, 1], [1, 1, 0, 0, 0, 1], [1, 0, 0, 1, 1, 1], [1, 1, 0, 1, 1, 1]]),
                           ("minimum", [[0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]])):
            got = self.steps(document(loss="sum(model)", metrics={"m": "pad(%s, 1, mode='%s') * 1.0" % (kept, mode)}), 1)[1][0]["m"]
            np.testing.assert_array_equal(np.array(got), want, mode)

    def test_differences_of_nothing(self):
        """An axis of one element or of none has no differences (jnp.diff)."""
        for text, extent in (("diff(x[:, :0], axis=1)", 0), ("diff(x[:, :1], axis=1)", 0), ("diff(x[:, :1], n=3, axis=1)", 0), ("diff(x[:, :2], axis=1)", 1)):
            self.assertEqual(self.steps(document(loss="sum(model)", metrics={"m": "1.0 * (%s).shape[1] + sum(%s)" % (text, text)}), 1)[1][0]["m"], extent, text)

    def test_weights_of_short_floats(self):
        """Means by weight of 16-bit numbers are as precise as these: tokens of a batch are more than float16 holds or bfloat16 counts."""
        def train(dtype, **more):
            return self.steps(document(precision={"params": dtype}, loss="mean(astype(model, 'float32')**2)", metrics={"f": "mean(30 * x)", "h": "mean(astype(30 * x, 'float16'))", "b": "mean(astype(30 * x, 'bfloat16'))"}, **more), 3)
        for dtype, rtol in (("float16", 2e-3), ("bfloat16", 2e-2)):
            (whole, lines), (tensors, parts) = train(dtype), train(dtype, accumulate={"microbatch_size": 1, "weight": "1001 * sum(x)"})
            np.testing.assert_allclose(tensors["kernel"], whole["kernel"], rtol, rtol)
            np.testing.assert_allclose([line["loss"] for line in parts], [line["loss"] for line in lines], rtol)
            self.assertEqual([[line[k] for k in "fhb"] for line in parts], 3 * [[30, 30, 30]])
        self.refused(document(metrics={"all": "all(x > 0)"}, accumulate={"microbatch_size": 4, "weight": "sum(x)"}), "E0432", "bool[]", "/metrics/all")

    def test_repeat(self):
        """Copies of a block with two results are those written one after the other."""
        pair = {"type": "graph", "nodes": [{"name": "g", "type": "linear", "features": 4, "use_bias": False}], "output": "(g, g * 2)"}
        two = {"type": "define_pair"}
        define = {"define_pair": {"inputs": ["p", "q"], "body": {"type": "graph", "nodes": [{"name": "g", "type": "linear", "features": 4, "use_bias": False, "input": "p + 3 * q"}], "output": "(g, g * 2)"}}}
        last = {"type": "define_sum"}
        define["define_sum"] = {"inputs": ["p", "q"], "body": {"type": "expr", "expr": "p - 5 * q"}}
        losses = [self.steps(document(define=define, loss="mean(model**2)", model={"type": "sequential", "inputs": ["x", "x"], "layers": layers}, seed=1), 2)[1]
                  for layers in ([two, two, last], [{"type": "repeat", "count": 2, "block": two}, last])]
        self.assertEqual(*[[line["loss"] for line in lines] for lines in losses])
        for layers, code in (([pair, pair], "E0113"), ([pair, {"type": "relu"}], "E0113"), ([pair, {"type": "expr", "expr": "x"}], "E0113"),
                             ([{"type": "repeat", "count": 2, "block": dict(pair, nodes=[dict(pair["nodes"][0], input="x")])}], "E0113")):
            with self.subTest(layers):
                self.refused(document(model={"type": "sequential", "input": "x", "layers": layers}, loss="mean(model[0]**2)"), code)

    def refused(self, text, code, *says):
        runner.write_json(self.path("refused.json"), text)
        said = self.stepc("check", self.path("refused.json"), code=1).stderr
        for part in ("[%s]" % code, *says):
            self.assertIn(part, said)

    def test_no_input(self):
        """A first block without an input says how it gets one, whatever the block is."""
        for layer in ({"type": "linear", "features": 4}, {"type": "relu"}, {"type": "flatten"}, {"type": "residual", "layers": [{"type": "relu"}]},
                      {"type": "micro_vmap", "block": {"type": "relu"}}, {"type": "sharding_constraint", "spec": [None, None]}):
            with self.subTest(layer):
                self.refused(document(model={"type": "sequential", "layers": [layer]}), "E0113", "\"%s\" needs one: \"input\": \"x\"" % layer["type"])

    def test_words(self):
        """A word that is none of those which an argument knows, or something else than a flag, is refused."""
        for call in ("sum(convolve(model[0], model[1], mode='smae'))", "sum(correlate(model[0], model[1], mode='smae'))", "sum(convolve2d(model, model, mode='ful'))",
                     "sum(correlate2d(model, model, mode='ful'))", "sum(searchsorted(model[0], model[1], side='rigth')) * mean(model)",
                     "sum(meshgrid(model[0], model[1], indexing='yx')[0])", "mean(ravel_multi_index(([0, 1], [1, 0]), (2, 2), mode='warp') * model[0, :2])",
                     "ranking_softmax_loss(model, x, reduce_fn='men')", "dice_loss(expand_dims(model, 0), expand_dims(x, 0), reduction='men')",
                     "mean(model, keepdims='no')", "sum(cumsum(model, axis=0, reverse=model[0, 0] > 0))", "sum(svd(model, full_matrices='no')[0])",
                     "mean(where(model > 0, model, 0.0, size=3))", "sum(eigvalsh(model[:4], symmetrize_input=False))", "sum(unique(model, size=3, equal_nan=False))",
                     "factorial(mean(model), exact=True)", "sum(fill_diagonal(model, 0.0, wrap=True, inplace=False))", "sum(polyfit(model[0], model[1], 1, full=True))",
                     "argmax(model, out=model) + mean(model)", "median(model, out=model)", "median(model, overwrite_input=True)",
                     "mean(ravel_multi_index((argmax(model, axis=-1), [0] * 8), (4, 4)) * model[:, 0])", "mean(ravel_multi_index(([0, 1], [1, 0]), (2, 2), mode='raise') * model[0, :2])",
                     "mean(matmul(model, x.T, precision='hihgest'))", "mean(matmul(model, x.T, precision=3))", "mean(matmul(model, x.T, precision=('high', 'low')))", "mean(einsum('ab,cb->ac', model, x, optimize='fast'))",
                     "mean(sort(model, kind='quick'))", "mean(sort(model, kind=1))", "mean(sort(model, order='a'))", "mean(argsort(model, kind='quick') * model)", "mean(sort(model, stable='no'))",
                     "sum(searchsorted(model[0], model[1], method='sorted')) * mean(model)", "sum(digitize(model[0], x[0], method='lu')) * mean(model)", "sum(isin(model, x, method='scan')) * mean(model)",
                     "slogdet(model[:4], method='sort')[1]", "mean(copy(model, order='Q'))", "mean(nan_to_num(model, copy=model))", "sum(solve(model[:4], x[:4], assume_a='symmetric'))",
                     "mean(pad(model, 1, end_values=2.0))", "mean(pad(model, 1, mode='edge', constant_values=2.0))", "mean(pad(model, 1, mode='linear_ramp', stat_length=2))", "mean(pad(model, 1, mode='mean', end_values=1))",
                     "mean(pad(model, 1, mode='reflect', stat_length=2))", "mean(pad(model, 1, mode='empty', constant_values=1.0))"):
            with self.subTest(call):
                runner.write_json(self.path("model.json"), document(loss=call))
                self.assertRegex(self.stepc("check", self.path("model.json"), code=1).stderr, "error.E0(310|312|103).: .*(is|expected|takes|supported)")
        for key in ("print_win_rate_every_n_steps", 5), ("verbose", True):
            runner.write_json(self.path("model.json"), document(optimizer={"type": "sophia", "learning_rate": 0.1, key[0]: key[1]}))
            self.assertIn("printing from inside a step", self.stepc("check", self.path("model.json"), code=1).stderr)

    def test_words_without_effect(self):
        """Words of the field that change nothing of a result are still taken."""
        for call in ("mean(matmul(model, x.T, precision='highest'))", "mean(matmul(model, x.T, precision=('high', None)))", "mean(einsum('ab,cb->ac', model, x, optimize=True))", "mean(sort(model, kind='stable', stable=False))",
                     "sum(searchsorted(model[0], x[0], method='scan')) * mean(model)", "sum(isin(model, x, method='auto', assume_unique=True)) * mean(model)", "mean(nan_to_num(model, copy=False))",
                     "slogdet(model[:4], method='qr')[1]", "mean(pad(model, 1, constant_values=2.0, stat_length=None))", "mean(pad(model, 1, mode='linear_ramp', end_values=2.0))",
                     "sum(histogram_bin_edges(model, weights=x)) + mean(model)", "mean(segment_sum(model, [0] * 8, 2, bucket_size=4))"):
            with self.subTest(call):
                runner.write_json(self.path("model.json"), document(loss=call))
                self.stepc("check", self.path("model.json"))

    def test_repeat_to_a_length(self):
        for text, same in (("repeat(model[0], 2, total_repeat_length=3)", "array([model[0, 0], model[0, 0], model[0, 1]])"), ("repeat(model[0, :2], 2, total_repeat_length=5)", "model[0, [0, 0, 1, 1, 1]]")):
            self.assertEqual(self.steps(document(loss="sum(model)", metrics={"m": "max(abs(%s - %s))" % (text, same)}), 1)[1][0]["m"], 0)

    def test_delta_orthogonal(self):
        """column_axis says which side of the matrix the columns are: the centre's first row as jax.nn.initializers gives it."""
        for axis, want in ((0, [0.8837235, -1.0310256, 0.6371961]), (-1, [0.8837235, -0.6532553, -1.0209262])):
            init = {"type": "delta_orthogonal", "column_axis": axis, "scale": 1.5}
            runner.write_json(self.path("model.json"), document(inputs={"x": {"shape": [2, 8, 3], "axes": ["batch", None, None]}}, loss="mean(model**2)", seed=0, model={
                "type": "conv", "input": "x", "features": 3, "kernel_size": [3], "kernel_init": init}, optimizer={"type": "sgd", "learning_rate": 0.0}))
            safetensors.write(self.path("data.safetensors"), {"x": np.zeros((1, 2, 8, 3), "f4")})
            np.testing.assert_allclose(runner.train(self.program, self.folder, 1)[0]["kernel"][1, 0], want, atol=1e-6)

    def test_remat(self):
        remat = {"type": "sequential", "input": "x", "layers": [{"type": "remat", "block": {"type": "linear", "features": 4}}]}
        runner.write_json(self.path("model.json"), document(model=remat))
        self.assertNotIn("warning", self.stepc("check", self.path("model.json"), "-Wno-W0117").stderr)
        remat["layers"][0]["policy"] = "dots_saveable"
        runner.write_json(self.path("model.json"), document(model=remat))
        self.assertIn("E0111", self.stepc("check", self.path("model.json"), code=1).stderr)

    def test_no_gradient(self):
        for loss in ("mean(stop_gradient(model)**2)", "mean(x**2)", "mean(float32(model > 0))", "mean(round(model))", "sum(stop_gradient(params.kernel))"):
            with self.subTest(loss):
                self.refused(document(loss=loss), "E0440", "gradient", "/loss")
        adapted = document(adapters=[{"type": "lora", "rank": 2, "match": ["**"]}], trainable=["@lora"], loss="mean(model**2)")
        runner.write_json(self.path("good.json"), adapted)
        self.stepc("check", self.path("good.json"))
        self.refused(dict(adapted, loss="mean(x**2)"), "E0440")
        frozen = {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 3}, {"type": "linear", "features": 3}]}
        self.refused(document(model=frozen, loss="mean(params.layers.0.kernel**2)", trainable=["layers.1.*"]), "E0440")
        runner.write_json(self.path("good.json"), document(model=frozen, loss="mean(params.layers.0.kernel**2)"))
        self.stepc("check", self.path("good.json"))  # one layer without a gradient is what JAX makes of it

    def test_names_of_state(self):
        for name, more in (("step", {}), ("ema.l.kernel", {"ema": {"decay": 0.9}}), ("hyperparameters.learning_rate", {})):
            nodes = [{"type": "linear", "features": 4, "input": "x", "name": "l"}, {"type": "param", "shape": [4, 4], "name": name}]
            self.refused(document(model={"type": "graph", "nodes": nodes, "output": "l"}, **more), "E0110", '"%s"' % name)

    def test_nearest_table(self):
        """attend takes an earlier table, the nearest of its name, whatever table of that name comes later."""
        embed = {"type": "embed", "num_embeddings": 7, "features": 5, "name": "e"}
        nodes = [{"type": "sequential", "name": "blk", "input": "int32(x)", "layers": [embed, {"type": "attend", "embedding": "e"}]}, {**embed, "input": "int32(x)"}]
        near, far = np.arange(35, dtype="f4").reshape(7, 5), np.ones((7, 5), "f4")
        safetensors.write(self.path("init.safetensors"), {"blk.e.embedding": near, "e.embedding": far})
        y = self.steps(document(model={"type": "graph", "nodes": nodes, "output": "blk"}, loss="mean(model) + 0 * mean(params.e.embedding)", metrics={"y": "model[0, 0]"}), 1)[1][0]["y"]
        np.testing.assert_array_equal(y, near @ near[1])

    def test_sharding(self):
        mesh, names = {"mesh": {"axes": {"data": 2, "model": 2}}}, [["embed", "model"], ["mlp", "model"], ["free", None]]
        for sharding in ({"params": {"kernel": ["data"]}}, {"rules": names}):
            runner.write_json(self.path("good.json"), document(sharding=sharding))
            self.assertIn("warning[W0406]", self.stepc("check", self.path("good.json")).stderr)
        for spec in ["data"], [None, ["data"]], [None, None]:
            block = {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 4, "use_bias": False}, {"type": "sharding_constraint", "spec": spec}]}
            runner.write_json(self.path("good.json"), document(model=block))
            self.assertEqual(self.stepc("check", self.path("good.json")).stderr.count("warning[W0406]"), int(spec != [None, None]))
        for more, says in (({"sharding": {"params": {"kernel": ["embed", "embed"]}}}, "names two dimensions"), ({**mesh, "sharding": {"rules": names, "params": {"kernel": ["embed", "embed"]}}}, "names two dimensions"),
                           ({**mesh, "sharding": {"rules": names, "params": {"kernel": ["free", "free"]}}}, "names two dimensions"),
                           ({**mesh, "sharding": {"rules": names, "inputs": {"x": [["data", "data"], None]}}}, "splits two dimensions"),
                           ({**mesh, "sharding": {"rules": names, "resolver": "map", "params": {"kernel": ["embed", "mlp"]}}}, "another entry")):
            with self.subTest(more):
                self.refused(document(**more), "E0406", says)
        self.refused(document(inputs={"x": {"shape": [8, 4], "axes": ["batch", "batch"]}}), "E0406", "names two dimensions")
        for rules, resolver, spec, lies in ([["data", "model"]], "first_fit", ["data", None], "[1, 0]"), ([["e", "data"], ["e", "model"]], "map", ["e"], "[2, 0]"), (
                [["a", "data"], ["e", "data"], ["e", "model"]], "first_fit", ["a", "e"], "[1, 2]"), ([["a", "data"], ["e", "data"]], "first_fit", ["a", "e"], "[1, 0]"):
            block = {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 4}, {"type": "sharding_constraint", "spec": spec}]}
            runner.write_json(self.path("good.json"), document(**mesh, model=block, sharding={"rules": rules, "resolver": resolver}))
            self.stepc("compile", self.path("good.json"), "--stop-after", "explicit", "-o", self.path("good.sir"))  # names mean there what they mean in "sharding"
            with open(self.path("good.sir"), encoding="utf-8") as f:
                self.assertIn(" axes=" + lies, f.read(), (rules, resolver, spec))
        twice = {"type": "sequential", "input": "x", "layers": [{"type": "sharding_constraint", "spec": ["data", "data"]}, {"type": "linear", "features": 2}]}
        self.refused(document(model=twice, **mesh), "E0406")
        runner.write_json(self.path("good.json"), document(**mesh, sharding={"rules": names, "params": {"kernel": ["embed", "mlp"]}}))
        self.stepc("check", self.path("good.json"))  # first_fit leaves the second one whole, as T5X does
        scaled = {"type": "graph", "nodes": [{"name": "l", "type": "linear", "features": 4, "input": "x"}, {"name": "t", "type": "param", "shape": [], "init": {"type": "ones"}}], "output": "l * t"}
        runner.write_json(self.path("good.json"), document(**mesh, model=scaled, optimizer={"type": "adam", "learning_rate": 0.1}, sharding={"optimizer_state": {"**": ["data"]}}))
        self.stepc("check", self.path("good.json"))  # a number has nothing to split; where it is named, that is a slip
        self.refused(document(**mesh, model=scaled, optimizer={"type": "adam", "learning_rate": 0.1}, sharding={"optimizer_state": {"t": ["data"]}}), "E0406", "0 dimensions")

    def test_noise(self):
        """Row k of what one batch draws, for the microbatch that begins with it."""
        model = {"type": "graph", "nodes": [{"name": "n", "type": "noise", "shape": [1, 4]}, {"name": "l", "type": "linear", "features": 4, "input": "x + n"}], "output": {"y": "l", "n": "n"}}
        draw = lambda **more: np.array(self.steps(document(model=model, loss="sum(model.y)", metrics={"n": "model.n * 1.0"}, **more), 1)[1][0]["n"])
        for split, begins in (("strided", range(4)), ("contiguous", range(0, 8, 2))):
            parts = draw(accumulate={"microbatch_size": 2, "split": split, "metrics": {"n": "concat"}})
            model["nodes"][0]["shape"] = [8, 4]
            whole = draw()
            model["nodes"][0]["shape"] = [1, 4]
            np.testing.assert_array_equal(parts, whole[list(begins)])

    def test_noise_of_rows(self):
        """Every row has its own, by its number in the batch: inside of micro_vmap twice, in microbatches, and outside of training."""
        nested = {"type": "micro_vmap", "block": {"type": "micro_vmap", "block": {"type": "dropout", "rate": 0.5}}}
        model = lambda block, given, out: {"type": "graph", "nodes": [{"name": "l", "type": "linear", "features": 4, "input": "x"},
                                                                      {**block, "name": "n", "input": given}], "output": out}
        rows = {"type": "micro_vmap", "block": {"type": "noise"}}
        for text in (model(nested, "ones((shape(x)[0], 3, 4))", "l * 0 + n[:, 0] + 2 * n[:, 1] + 4 * n[:, 2]"), model(rows, "reshape(l, (-1, 2))", "l * 0 + reshape(n, (-1, 4))")):
            draw = lambda **more: np.array(self.steps(document(model=text, metrics={"n": "model * 1.0"}, **more), 1)[1][0]["n"])
            whole = draw()
            self.assertEqual(len(np.unique(whole, axis=0)), 8)
            np.testing.assert_array_equal(draw(accumulate={"microbatch_size": 2}), whole)
        parts = document(model=model({"type": "micro_vmap", "block": {"type": "noise"}}, "transpose(ones((shape(x)[0], 3)))", "l * transpose(sum(n, axis=0))[:, None]"), accumulate={"microbatch_size": 2})
        self.refused(parts, "E0111", "micro_vmap over 3 rows")
        nodes = [{"type": "micro_vmap", "name": "m", "input": "x", "block": {"type": "dropout", "rate": 0.5, "name": "d"}}, {"type": "shared", "block": "m.d", "name": "s", "input": "m"},
                 {"name": "l", "type": "linear", "features": 4, "input": "s"}]
        draw = lambda **more: np.array(self.steps(document(model={"type": "graph", "nodes": nodes, "output": "l"}, metrics={"n": "model * 1.0"}, **more), 1)[1][0]["n"])
        np.testing.assert_allclose(draw(accumulate={"microbatch_size": 2}), draw(), rtol=1e-6)  # of one layer by rows, and of the batch
        self.refused(document(model=model(rows, "reshape(transpose(reshape(l, (-1, 2, 2)), (1, 0, 2)), (-1, 2))", "l * sum(n)"), accumulate={"microbatch_size": 2}), "E0111", "micro_vmap over 4 rows")
        drawn = []
        for more in ({}, {"accumulate": {"microbatch_size": 2}}):
            self.steps(document(model=model({"type": "noise"}, "l", "l * 0 + n"), **more), 1)
            self.stepc("run", self.path("model.json"), "-q", "--infer", self.path("out.safetensors"), "--infer-data", self.path("data.safetensors"))
            drawn.append(safetensors.wide(self.path("out.safetensors"))["model"])
        np.testing.assert_array_equal(*drawn)

    def test_rows_among_others(self):
        """A microbatch draws what the whole batch does where other dimensions stand before its rows, behind them, or both, as many as they may be."""
        draws = {"type": "dropout", "rate": 0.5, "input": "m + 3"}, {"type": "rnn", "cell": {"type": "simple_cell", "hidden_features": 4, "carry_init": {"type": "normal"}}, "input": "m[:, None]"}
        def drawn(to, back, block=draws[0], **more):
            nodes = [{"name": "l", "type": "linear", "features": 4, "input": "x"}, {"name": "r", "type": "rnn", "cell": {"type": "gru_cell", "hidden_features": 8}, "input": "l[:, None] + reshape(arange(8), (1, 8, 1))"},
                     {"name": "m", "type": "linear", "features": 4, "input": to}, {"name": "d", **block}]
            return np.array(self.steps(document(model={"type": "graph", "nodes": nodes, "output": back}, metrics={"n": "model * 1.0"}, **more), 1)[1][0]["n"])
        pair = "stack((l, l + 1), axis=1)"  # [rows, 2, 4]: a microbatch has as many rows
        for to, back in (("reshape(r, (-1, 8))", "reshape(d, (-1, 32))"), ("reshape(%s, (-1, 4))" % pair, "reshape(d, (-1, 8))"), ("reshape(transpose(%s, (1, 0, 2)), (-1, 4))" % pair, "reshape(transpose(reshape(d, (2, -1, 4)), (1, 0, 2)), (-1, 8))"),
                         ("reshape(reshape(transpose(%s, (1, 0, 2)), (2, -1, 2, 2)), (-1, 4))" % pair, "transpose(reshape(d, (2, -1, 4)), (1, 0, 2))[:, 1]")):
            for block in draws:
                np.testing.assert_allclose(drawn(to, back, block, accumulate={"microbatch_size": 2}), drawn(to, back, block), rtol=1e-6)
        # as many times, or other dimensions, as rows: what a loop makes lies as in its body
        nodes = [{"name": "l", "type": "linear", "features": 4, "input": "x"}, {"name": "r", "type": "rnn", "cell": {"type": "gru_cell", "hidden_features": 4}, "input": "l[None, :, None] + reshape(arange(8), (8, 1, 1, 1)) + reshape(arange(8), (8, 1))"},
                 {"name": "d", "type": "dropout", "rate": 0.5, "input": "reshape(r, (-1, 4)) + 3"}]
        draw = lambda **more: np.array(self.steps(document(model={"type": "graph", "nodes": nodes, "output": "reshape(d, (8, -1, 8, 4))[3, :, 2]"}, metrics={"n": "model * 1.0"}, **more), 1)[1][0]["n"])
        np.testing.assert_allclose(draw(accumulate={"microbatch_size": 2}), draw(), rtol=1e-6)
        for given, says in ("ones((16, 4))", "micro_vmap over 16 rows"), ("ones((8, 4))", "micro_vmap over 8 rows"), ("ones((2 * shape(x)[0], 4))", "micro_vmap over 4 rows"), ("flip(l, 0)", "micro_vmap over 2 rows"):
            nodes[2] = {"name": "d", "type": "micro_vmap", "block": {"type": "noise"}, "input": given}
            self.refused(document(model={"type": "graph", "nodes": nodes, "output": "l * sum(d)"}, accumulate={"microbatch_size": 2}), "E0111", says)
        nodes = [{"name": "l", "type": "linear", "features": 4, "input": "x"}, {"name": "d", "type": "dropout", "rate": 0.5, "input": "flip(l, 0)"}]
        self.refused(document(model={"type": "graph", "nodes": nodes, "output": "flip(d, 0)"}, accumulate={"microbatch_size": 2}), "E0111", "where its rows lie in dimension 0 is not known")
        nodes = [{"name": "l", "type": "linear", "features": 4, "input": "x"}, {"name": "d", "type": "dropout", "rate": 0.5, "input": "concatenate((l, l), axis=0)"}]
        self.refused(document(model={"type": "graph", "nodes": nodes, "output": "d[:shape(x)[0]]"}, accumulate={"microbatch_size": 2}), "E0111", "where its rows lie in dimension 0 is not known")


if __name__ == "__main__":
    runner.main()
