#!/usr/bin/env python3
"""LoRA adapters beside every kind of layer: the loss is that of the base with kernels W + a b, the gradients of a and b are
those of that kernel times b and a, what is frozen keeps its bits and takes no backward work, and the base's own draws and
checkpoints do not change.

usage: adapters.py STEPC
"""
import json
import os
import re
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

LORA = lambda rank, *match: {"type": "lora", "rank": rank, "match": list(match)}
X = {"x": {"shape": [4, 3, 6]}}

# model, adapters, and per adapted layer the labels of a, b and the kernel
CASES = {
    "linear": ({"type": "linear", "features": 5, "input": "x"}, [LORA(2, "**")], {"": "ir,ro->io"}),
    "no bias, rank above the sizes": ({"type": "linear", "name": "l", "features": 2, "use_bias": False, "input": "x"}, [LORA(9, "l")], {"l": "ir,ro->io"}),
    "several adapters": ({"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 5, "name": "a"}, {"type": "tanh"},
                          {"type": "linear", "features": 4, "name": "b"}, {"type": "linear", "features": 3, "name": "c"}]},
                         [LORA(3, "c"), LORA(1, "{a,d}")], {"a": "ir,ro->io", "c": "ir,ro->io"}),
    "linear layers, those of cells too, before general ones":
        ({"type": "sequential", "input": "x", "layers": [{"type": "linear_general", "features": [2, 3], "name": "g"}, {"type": "expr", "expr": "reshape(x, (4, 3, 6))"},
                                                         {"type": "rnn", "name": "r", "cell": {"type": "gru_cell", "hidden_features": 4}}, {"type": "linear", "features": 3, "name": "l"}]},
         [LORA(2, "**")], {"r.cell.dense_i": "ir,ro->io", "r.cell.dense_h": "ir,ro->io", "l": "ir,ro->io"}),
    "linear_general": ({"type": "linear_general", "features": [2, 3], "axis": [-2, -1], "input": "x", "name": "g"}, [LORA(2, "g")], {"g": "ijr,rpq->ijpq"}),
    "linear_general with batch axes": ({"type": "linear_general", "features": [2, 3], "axis": -1, "batch_axis": {"0": 4}, "input": "x", "name": "g"},
                                       [LORA(2, "g")], {"g": "bir,brpq->bipq"}),
    "einsum": ({"type": "einsum", "einsum_str": "abc,dcb->abd", "kernel_shape": [5, 6, 3], "bias_shape": [3, 5], "input": "x", "name": "e"},
               [LORA(2, "e")], {"e": "cbr,brd->dcb"}),
    "attention": ({"type": "multi_head_attention", "num_heads": 2, "input": "x", "name": "attn"}, [LORA(2, "attn.{query,out}"), LORA(1, "attn.value")],
                  {"attn.query": "ir,rhd->ihd", "attn.out": "hdr,ro->hdo", "attn.value": "ir,rhd->ihd"}),
    "grouped queries and cross attention": ({"type": "multi_head_attention", "num_heads": 2, "num_kv_heads": 1, "inputs": ["x", "x[:, 1:]"], "name": "attn"},
                                            [LORA(2, "**.key")], {"attn.key": "ir,rhd->ihd"}),
    "lstm": ({"type": "rnn", "cell": {"type": "lstm_cell", "hidden_features": 4}, "input": "x"}, [LORA(2, "cell.{ii,hf}")],
             {"cell.ii": "ir,ro->io", "cell.hf": "ir,ro->io"}),
    "gru": ({"type": "rnn", "cell": {"type": "gru_cell", "hidden_features": 4}, "input": "x"}, [LORA(2, "**")],
            {"cell.dense_i": "ir,ro->io", "cell.dense_h": "ir,ro->io"}),
    "shared": ({"type": "graph", "nodes": [{"type": "linear", "name": "a", "features": 6, "input": "x"}, {"type": "shared", "name": "b", "block": "a", "input": "tanh(a)"}],
                "output": "a * b"}, [LORA(2, "a")], {"a": "ir,ro->io"}),
    "base of a lora layer": ({"type": "lora", "lora_rank": 1, "base_module": {"type": "linear", "features": 4}, "input": "x", "name": "l"},
                             [LORA(2, "**")], {"l.base_module": "ir,ro->io"}),
    "lora_linear": ({"type": "lora_linear", "lora_rank": 1, "features": 4, "input": "x", "name": "l"}, [LORA(2, "**")], {"l": "ir,ro->io"}),
    "repeat": ({"type": "repeat", "count": 3, "name": "h", "input": "x", "block": {"type": "residual", "layers": [{"type": "linear", "features": 6, "name": "up"}, {"type": "gelu"}]}},
               [LORA(2, "h.{0,2}.up")], {"h.0.up": "ir,ro->io", "h.2.up": "ir,ro->io"}),
}


class Adapters(runner.Case):
    counter = 0

    def document(self, model, **more):
        self.counter += 1
        document = {"stepc": 1, "inputs": X, "model": model, "loss": "mean(sin(model)**2)", "optimizer": {"type": "sgd", "learning_rate": 1.0}, "seed": 3}
        document.update(more)
        return self.write("model%d.json" % self.counter, document)

    def run_steps(self, document, steps, init=None, compiled=False):
        safetensors.write(self.path("data"), {"x": np.random.default_rng(1).standard_normal((1, 4, 3, 6)).astype("f4")})
        step = document
        if compiled:
            step = self.path("step.so")
            self.stepc("compile", document, "-o", step)
        args = ["run", step, "--steps", str(steps), "--data", self.path("data"), "--save", self.path("out"), "--metrics", self.path("metrics")]
        if init:
            safetensors.write(self.path("init"), init)
            args += ["--init", self.path("init")]
        self.stepc(*args)
        return safetensors.read(self.path("out")), [line["loss"] for line in runner.metrics(self.path("metrics"))]

    def test_scale(self):
        """alpha / rank times, or alpha / sqrt(rank): the kernel W + s a b; `lora_s` says s, and is neither trained nor averaged."""
        model = {"type": "linear", "features": 5, "input": "x", "name": "l"}
        random = np.random.default_rng(2)
        base = {"l.kernel": random.normal(size=(6, 5)), "l.bias": random.normal(size=5)}
        both = {"l.lora_a": random.normal(size=(6, 4)), "l.lora_b": random.normal(size=(4, 5))}
        base, both = ({k: v.astype("f4") for k, v in d.items()} for d in (base, both))
        for more, scale in (({}, 1), ({"alpha": 6}, 1.5), ({"alpha": 6, "rslora": True}, 3)):
            for compiled in (False, True):
                adapted = self.document(model, adapters=[{**LORA(4, "l"), **more}], trainable=["**"] if compiled else ["@lora"], ema={"decay": 0.5})
                scaled = {"l.lora_s": np.float32(scale)} if more else {}
                saved, losses = self.run_steps(adapted, 2, {**base, **both, **scaled}, compiled)
                merged = self.document(model, trainable=["l.bias"])
                _, want = self.run_steps(merged, 1, {**base, "l.kernel": base["l.kernel"] + scale * both["l.lora_a"] @ both["l.lora_b"]}, compiled)
                self.assertAlmostEqual(losses[0], want[0], places=5)
                self.assertNotEqual(losses[0], losses[1])
                self.assertEqual({k: v for k, v in saved.items() if "lora_s" in k}, scaled)
        self.assertIn("E0103", self.stepc("check", self.document(model, adapters=[{**LORA(4, "l"), "rslora": True}]), code=1).stderr)

    def test_dropout(self):
        """Of what the adapters read, in training alone; drawn anew in every step, the same in parts of the batch."""
        for model, name in (({"type": "linear", "features": 5, "input": "x", "name": "l"}, "l"), ({"type": "rnn", "cell": {"type": "lstm_cell", "hidden_features": 4}, "input": "x"}, "cell.ii"),
                            ({"type": "multi_head_attention", "num_heads": 2, "input": "x", "name": "attn"}, "attn.query")):
            lora = {**LORA(2, name), "b_initializer": {"type": "normal", "stddev": 1.0}}
            still = {"optimizer": {"type": "sgd", "learning_rate": 0.0}, "metrics": {"of": "mean(model)"}}
            _, without = self.run_steps(self.document(model, adapters=[lora], **still), 2)
            self.assertEqual(*without)
            dropped = self.document(model, adapters=[{**lora, "dropout": 0.5}], **still)
            state, interpreted = self.run_steps(dropped, 2)
            self.assertEqual(len({without[0], *interpreted}), 3, name)
            _, compiled = self.run_steps(dropped, 2, compiled=True)
            np.testing.assert_allclose(compiled, interpreted, rtol=1e-5)
            _, parts = self.run_steps(self.document(model, adapters=[{**lora, "dropout": 0.5}], accumulate={"microbatch_size": 2}, **still), 2)
            np.testing.assert_allclose(parts, interpreted, rtol=1e-5)
            self.stepc("run", dropped, "--eval-data", self.path("data"), "--metrics", self.path("metrics"))
            self.assertAlmostEqual(runner.metrics(self.path("metrics"))[0]["eval_loss"], without[0], places=6)

    def test_numbers(self):
        for name, (model, adapters, layers) in CASES.items():
            for compiled in (False, True):
                with self.subTest(name, compiled=compiled):
                    join = lambda layer, leaf: layer + "." + leaf if layer else leaf
                    document, base = self.document(model, adapters=adapters), self.document(model)
                    start, plain = self.run_steps(document, 0)[0], self.run_steps(base, 0)[0]
                    for path, value in plain.items():  # the base draws what it draws without adapters
                        np.testing.assert_array_equal(start[path], value)
                    added = {join(layer, leaf) for layer in layers for leaf in ("lora_a", "lora_b")}
                    self.assertEqual(set(start) - set(plain), added)
                    random = np.random.default_rng(2)
                    init = {path: 0.5 * random.standard_normal(v.shape).astype("f4") for path, v in sorted(start.items())}
                    merged = {path: init[path] for path in plain}
                    for layer, formula in layers.items():
                        a, b = init[join(layer, "lora_a")], init[join(layer, "lora_b")]
                        merged[join(layer, "kernel")] = merged[join(layer, "kernel")] + np.einsum(formula, a, b)
                    got, loss = self.run_steps(document, 1, init, compiled)
                    want, want_loss = self.run_steps(base, 1, merged)
                    np.testing.assert_allclose(loss, want_loss, rtol=1e-5)
                    for layer, formula in layers.items():
                        a, b, k = re.split(",|->", formula)
                        path = join(layer, "kernel")
                        gradient = merged[path].astype("f8") - want[path]
                        for leaf, formula_of, other in (("lora_a", "%s,%s->%s" % (k, b, a), "lora_b"), ("lora_b", "%s,%s->%s" % (a, k, b), "lora_a")):
                            other = init[join(layer, other)]
                            operands = (gradient, other) if leaf == "lora_a" else (other, gradient)
                            np.testing.assert_allclose(init[join(layer, leaf)] - got[join(layer, leaf)], np.einsum(formula_of, *operands), rtol=2e-4, atol=2e-5)

    def test_frozen(self):
        """No gradient of what is frozen: no backward op for it, no state, the same bits."""
        layers = [{"type": "linear", "features": 8, "name": "l%d" % i} for i in range(4)]
        model = {"type": "sequential", "input": "x", "layers": layers}
        more = {"adapters": [LORA(2, "l{0,2}")], "optimizer": {"type": "adam", "learning_rate": 0.1}}
        frozen, free = self.document(model, trainable=["@lora"], **more), self.document(model, **more)
        dots = {}
        for document in (frozen, free):
            text = self.stepc("compile", document, "--stop-after", "autodiff", "-o", "-").stdout
            body = text[text.index('func "step"'):]
            body = body[:body.index("\n}")]
            dots[document] = body.count(" = dot(")
        # forward: four kernels, two adapters; backward: through three kernels and l2's adapter (nobody asks for the gradient of
        # the input), into both adapters' middle, and for their a and b
        self.assertEqual(dots[frozen], 4 + 2 * 2 + 3 + 1 + 2 + 2 * 2)
        self.assertEqual(dots[free], dots[frozen] + 4)  # the four kernels
        explained = self.stepc("explain", frozen, "--tensors").stdout
        self.assertEqual(len(re.findall(r"l\d\.(kernel|bias) +\S+ +param, frozen", explained)), 8)
        self.assertNotIn("kernel", " ".join(line for line in explained.splitlines() if "opt_state" in line))
        start = self.run_steps(frozen, 0)[0]
        end = self.run_steps(frozen, 3)[0]
        for path, value in start.items():
            same = np.array_equal(value, end[path])
            self.assertEqual(same, "lora" not in path, path)

    def test_base(self):
        """A file of the base lacks the adapters, all of them, and the run says so; one that holds some of them lacks the others."""
        self.stepc("init", "lora", self.path("lora.json"))
        with open(self.path("lora.json")) as f:
            document = json.load(f)
        base = {k: v for k, v in document.items() if k not in ("adapters", "trainable")}
        averaged = self.write("averaged.json", {**document, "ema": {"decay": 0.5}})
        random = np.random.default_rng(0)
        safetensors.write(self.path("data"), {"x": random.standard_normal((1, 32, 64)).astype("f4"), "y": random.integers(0, 10, (1, 32)).astype("i4")})
        go = lambda document, steps, *more, **how: self.stepc("run", document, "--steps", str(steps), "--data", self.path("data"), "--save", self.path("out"), *more, **how)
        go(self.write("base.json", base), 3)
        trained = safetensors.read(self.path("out"))
        safetensors.write(self.path("init"), trained)
        fresh = go(self.path("lora.json"), 0) and safetensors.read(self.path("out"))
        adapters = {n: v for n, v in fresh.items() if ".lora_" in n}
        self.assertEqual(set(fresh), set(trained) | set(adapters))
        for document in (self.path("lora.json"), averaged):
            self.stepc("compile", document, "-o", self.path("step.so"))
            for step in (document, self.path("step.so")):
                said = go(step, 0, "--init", self.path("init")).stderr
                self.assertRegex(said, r'init lacks adapters; "layers\.2\.lora_b" etc\. are as init left them')
                out = safetensors.read(self.path("out"))
                for name, value in {**trained, **adapters}.items():
                    for path in (name, "ema." + name) if document == averaged else (name,):
                        np.testing.assert_array_equal(out[path], value, path)
        self.stepc("run", self.path("base.json"), "--steps", "3", "--data", self.path("data"), "--save", self.path("whole"), "--all-state")
        for step in (self.path("lora.json"), self.path("step.so")):
            said = go(step, 0, "--init", self.path("whole"), "--params-only").stderr
            self.assertIn('lacks adapters: "layers.0.lora_a"', said)
            out = safetensors.read(self.path("out"))
            for name, value in {**trained, **adapters}.items():
                np.testing.assert_array_equal(out[name], value, name)
            safetensors.write(self.path("init"), {**safetensors.read(self.path("whole")), "layers.0.lora_a": adapters["layers.0.lora_a"]})
            self.assertIn('lacks "layers.0.lora_b"', go(step, 0, "--init", self.path("init"), "--params-only", code=1).stderr)
        for step in (self.path("lora.json"), self.path("step.so")):
            for lost in ({"layers.0.lora_a"}, {"layers.0.lora_a", "layers.0.lora_b"}, {"layers.2.kernel", *adapters}):
                safetensors.write(self.path("init"), {n: v for n, v in {**trained, **adapters}.items() if n not in lost})
                said = go(step, 0, "--init", self.path("init"), code=1).stderr
                self.assertIn('tensor "%s" is missing' % min(lost - (set(adapters) if "layers.2.kernel" in lost else set())), said)
            safetensors.write(self.path("init"), {**trained, "other.kernel": trained["head.bias"]})
            self.assertIn('"other.kernel"', go(step, 0, "--init", self.path("init"), code=1).stderr)

    def test_with_everything(self):
        """Adapters with masks, a partition, averages of the adapters alone, and a checkpoint of the base."""
        model = {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 5, "name": "a"}, {"type": "linear", "features": 3, "name": "b"}]}
        optimizer = {"type": "partition", "labels": {"**.lora_a": "slow", "**.lora_b": "fast", "**": "rest"},
                     "transforms": {"slow": {"type": "sgd", "learning_rate": 0.01}, "fast": {"type": "adamw", "learning_rate": 0.1, "mask": ["a.*"]},
                                    "rest": {"type": "set_to_zero"}}}
        document = self.document(model, adapters=[LORA(2, "a"), LORA(1, "b")], optimizer=optimizer, ema={"decay": 0.5, "only": ["@lora"]})
        out, _ = self.run_steps(document, 2)
        self.assertEqual({p for p in out if p.startswith("ema.")}, {"ema.%s.lora_%s" % (l, k) for l in "ab" for k in "ab"})
        base = self.run_steps(self.document(model), 0)[0]
        for path in base:
            np.testing.assert_array_equal(base[path], out[path])

    def test_sharding(self):
        """a and b are split like the kernel, unless a pattern names them alone."""
        model = {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 8, "name": "a"}, {"type": "linear", "features": 6, "name": "b"}]}
        spec = {"mesh": {"axes": {"m": 2}}, "sharding": {"params": {"a.kernel": [None, "m"], "b.kernel": ["m", None], "b.lora_b": ["m"], "**": []}}}
        document = self.document(model, adapters=[LORA(2, "**")], **spec)
        text = self.stepc("compile", document, "--stop-after", "autodiff", "-o", "-").stdout
        specs = dict(re.findall(r'^slot \d+ "(\w+\.lora_\w)" param \S+ .*?<(.*)>', text, re.M))
        self.assertEqual(specs, {"a.lora_a": "-, -", "a.lora_b": '-, "m"', "b.lora_a": '"m", -', "b.lora_b": '"m", -'})
        split, _ = self.run_steps(document, 2, compiled=True)
        whole, _ = self.run_steps(self.document(model, adapters=[LORA(2, "**")]), 2)
        for path, value in whole.items():
            np.testing.assert_allclose(split[path], value, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    runner.main()
