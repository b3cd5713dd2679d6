#!/usr/bin/env python3
"""Attention by tiles against the interpreter, which stores all scores: named forms and random ones, trained for two steps; which
are found, by `explain`; and memory that grows with the length of the sequence, not with its square.

usage: attention.py STEPC [TestAttention.test_NAME]; ATTENTION=N draws N random documents more
"""
import json
import os
import random
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import comparison, processor, runner

EXACT = {"float32": 2e-5, "bfloat16": 6e-2, "float16": 1e-2}  # of what an update moves


def document(batch, length, width, layers, inputs=None, **more):
    """A loss that gives every token a gradient of its own."""
    inputs = {"x": {"shape": [batch, length, width], "dtype": "float32", "axes": ["batch", None, None]},
              "y": {"shape": [batch, length, width], "dtype": "float32", "axes": ["batch", None, None]}, **(inputs or {})}
    return {"stepc": 1, "name": "attention", "inputs": inputs, "model": {"type": "sequential", "input": "x", "layers": layers},
            "loss": "mean((model - y)**2)", "optimizer": {"type": "sgd", "learning_rate": 10.0}, "seed": 3, **more}


def heads(**more):
    return {"type": "multi_head_attention", "num_heads": 4, "decode": False, **more}


def written(formula, width, depth=8, **more):
    """Queries, keys and values by linear layers, the rest as the document writes it."""
    project = [{"name": n, "type": "linear", "features": f, "input": "x"} for n, f in (("q", depth), ("k", depth), ("v", width))]
    return {"type": "graph", "nodes": [*project, {"name": "a", "type": "expr", "expr": formula, "input": "x"}], "output": "a", **more}


def data(doc, seed, steps=2):
    """Numbers of the inputs: one tensor per input, whose leading dimension counts steps."""
    rng, made = np.random.default_rng(seed), {}
    for name, spec in doc["inputs"].items():
        shape = (steps, *spec["shape"])
        made[name] = rng.random(shape) < 0.8 if spec["dtype"] == "bool" else rng.standard_normal(shape).astype("f4")
    return made


class TestAttention(runner.Case):
    def groups(self, doc, *arguments):
        """Groups of attention in the step, and the bytes of its memory."""
        report = json.loads(self.stepc("explain", self.write("model.json", doc), "--fusion", "--memory", "--json", *arguments).stdout)
        step = next(e for e in report["entries"] if e["name"] == "step")
        return sum(g["kind"] == "attention" for g in step["groups"]), report["memory"]["peak"]

    def agree(self, doc, groups=2, arguments=(), seed=0, threads=2, level="native"):
        """The object gives what the interpreter gives, twice the same bits, and has so many groups of attention."""
        found, _ = self.groups(doc, *arguments)
        self.assertEqual(found, groups, "groups of attention in %s" % json.dumps(doc))
        runner.write_document(self.folder, doc, data(doc, seed))
        dtype = doc.get("precision", {}).get("compute", "float32")
        want, _ = runner.play(self.program, self.folder, 2, compiled=False)
        got, _ = runner.play(self.program, self.folder, 2, compiled=True, compile_arguments=(*arguments, "--cpu", level))
        still, _ = runner.train(self.program, self.folder, 0, "step.so")
        for name in want:
            moved = np.max(np.abs(want[name] - still[name]), initial=0)
            scale = max(np.max(np.abs(want[n] - still[n]), initial=0) for n in want)
            off = np.max(np.abs(got[name] - want[name]), initial=0)
            self.assertLessEqual(off, EXACT[dtype] * max(moved, scale / (30 if dtype == "float32" else 3)), "%s of %s" % (name, json.dumps(doc)))
        again, _ = runner.train(self.program, self.folder, 2, "step.so", threads=threads)
        comparison.all_agree(again, got)

    def test_plain(self):
        self.agree(document(2, 128, 32, [heads()]))

    def test_few_heads(self):
        """Few batches and heads: the gradient of queries, and that of keys and values, are groups of their own."""
        for length in (192, 197):
            self.agree(document(1, length, 32, [heads(is_causal=True, num_heads=2)]), groups=3)

    def test_turned(self):
        """Rows that are many enough for their lanes to be turned in registers; the last block begins inside of the one before."""
        self.agree(document(16, 133, 128, [heads(is_causal=True)]))

    def test_causal(self):
        self.agree(document(2, 128, 32, [heads(is_causal=True)]))

    def test_processors(self):
        """Vectors of 4, 8 and 16 numbers, 16 and 32 registers, heads of so many numbers that are no whole tiles."""
        for level in processor.levels():
            for depth in (8, 20, 40):
                self.agree(document(2, 136, 32, [heads(qkv_features=4 * depth, is_causal=True)]), level=level)

    def test_padded_rows(self):
        """Rows all of whose keys are masked have even weights, also where the mask leaves tiles out."""
        mask = "logical_and(arange(192)[:, None] >= arange(192)[None, :], arange(192)[None, :] >= 70)"
        for fill in ("-1e9", "-3e38", "-50.0"):
            self.agree(document(8, 192, 16, [written("softmax(where(%s, q @ swapaxes(k, -1, -2), %s)) @ v" % (mask, fill), 16)]))

    def test_window(self):
        near = "logical_and(arange(256)[:, None] - arange(256)[None, :] < 32, arange(256)[:, None] >= arange(256)[None, :])"
        self.agree(document(8, 256, 16, [written("softmax(where(%s, q @ swapaxes(k, -1, -2), -inf)) @ v" % near, 16)]))

    def test_odd(self):
        self.agree(document(3, 101, 28, [heads(is_causal=True)]))
        self.agree(document(2, 131, 44, [heads(qkv_features=24)]))

    def test_grouped_queries(self):
        self.agree(document(2, 128, 32, [heads(num_kv_heads=2, is_causal=True)]))

    def test_dropout(self):
        self.agree(document(2, 128, 32, [heads(dropout_rate=0.3)]))
        self.agree(document(2, 128, 32, [heads(dropout_rate=0.3, broadcast_dropout=False, is_causal=True)]))

    def test_mask(self):
        given = {"m": {"shape": [2, 1, 128, 128], "dtype": "bool"}}
        self.agree(document(2, 128, 32, [heads(mask="m")], given))
        self.agree(document(2, 128, 32, [heads(mask="m", is_causal=True)], given))

    def test_normalised(self):
        self.agree(document(2, 128, 32, [heads(normalize_qk=True)]))

    def test_two_layers(self):
        self.agree(document(2, 128, 32, [{"type": "residual", "layers": [heads(is_causal=True)]}, heads(is_causal=True)]), groups=4)

    def test_half(self):
        for dtype in ("bfloat16", "float16"):
            self.agree(document(2, 128, 32, [heads(is_causal=True)], precision={"compute": dtype}))

    def test_written(self):
        for formula in ("softmax(q @ swapaxes(k, -1, -2) * 0.35) @ v",
                        "softmax(einsum('bqd,bkd->bqk', q, k) - 0.1 * abs(arange(96)[:, None] - arange(96)[None, :])) @ v",
                        "softmax(where(arange(96)[:, None] >= arange(96)[None, :], q @ swapaxes(k, -1, -2), -inf)) @ v"):
            self.agree(document(8, 96, 16, [written(formula, 16)]))
        given = {"b": {"shape": [96, 96], "dtype": "float32"}}
        self.agree(document(8, 96, 16, [written("softmax(q @ swapaxes(k, -1, -2) + b) @ v", 16)], given))

    def test_mesh(self):
        self.agree(document(4, 128, 32, [heads(is_causal=True)]), arguments=("--mesh", "data=2"))

    def test_microbatches(self):
        self.agree(document(4, 128, 32, [heads(is_causal=True)], accumulate={"microbatch_size": 2}))

    def test_remat(self):
        # forward; again the sums of rows, and the output; the gradients
        self.agree(document(2, 128, 32, [{"type": "remat", "block": heads(is_causal=True)}]), groups=4)

    def test_made_again(self):
        """Scores that are made again are not stored either: where all is, and where rows between blocks are kept."""
        for layers in ([heads(is_causal=True)], [{"type": "residual", "layers": [heads(is_causal=True, dropout_rate=0.3)]}]):
            for level in ("1", "2", "3"):
                self.agree(document(2, 128, 32, layers), groups=3, arguments=("--remat", level))
        blocks = [{"type": "residual", "layers": [heads(is_causal=True)]} for _ in range(2)]
        plain, some, more = (self.groups(document(1, 1024, 32, blocks), "--remat", level)[1] for level in ("0", "1", "2"))
        self.assertLess(some, 1.5 * plain)
        self.assertLess(more, plain)

    def test_stored(self):
        """What something else reads, or is small, or has an order of its own, stays as it is."""
        self.agree(document(2, 48, 32, [heads()]), groups=0)
        self.agree(document(2, 128, 32, [heads()]), groups=0, arguments=("--numerics", "invariant"))
        self.agree(document(8, 96, 16, [written("softmax(q @ swapaxes(k, -1, -2) * 0.35)", 16)], loss="mean((model - 0.1)**2)"), groups=0)

    def test_too_many(self):
        """More products or values than a group has place for: other groups, or what is stored, and never a refusal."""
        names = ["k%d" % i for i in range(9)]
        for count, groups in ((5, 3), (9, 0)):
            summed = " + ".join("q @ swapaxes(%s, -1, -2)" % name for name in names[:count])
            model = written("softmax((%s) * 0.2) @ v" % summed, 16)
            model["nodes"][1:2] = [{"name": name, "type": "linear", "features": 8, "input": "x"} for name in names[:count]]
            self.agree(document(8, 96, 16, [model]), groups=groups)
        weights = "softmax(q @ swapaxes(k, -1, -2))"
        several = " + ".join("tanh(%s @ (v * v * %g))" % (weights, i + 0.5) for i in range(6))
        self.agree(document(8, 96, 16, [written("0.1 * (%s)" % several, 16)]), groups=0)

    def test_squares(self):
        """Sums and products of themselves in scores, masks and weights: each is looked at once, not once for every way to it."""
        def chain(name, first, step):
            return [{"name": "%s%d" % (name, i), "type": "expr", "expr": step.format("%s%d" % (name, i - 1)) if i else first, "input": "x"} for i in range(41)]
        scores, masked, index = "q @ swapaxes(k, -1, -2)", "softmax(where(%s, %s, -1e9))", "arange(256)"
        causal = "%s[:, None] >= %s[None, :]" % (index, index)
        for nodes, formula in ((chain("s", scores, "{0} * {0}"), masked % (causal, "s40") + " @ v"),
                               (chain("m", "%s[:, None] - %s[None, :]" % (index, index), "{0} + {0}"), masked % ("m40 < 7", scores) + " @ v"),
                               (chain("w", "q[:, :, :1] + k[:, None, :, 0]", "{0} * {0}"), "{0} @ v + (w40 * {0}) @ v".format(masked % (causal, scores)))):
            model = written(formula, 16)
            model["nodes"][3:3] = nodes
            said = self.stepc("explain", self.write("model.json", document(1, 256, 16, [model])), "--fusion", "--json", timeout=60)
            self.assertIn("attention", [g["kind"] for e in json.loads(said.stdout)["entries"] for g in e["groups"]])
            self.stepc("compile", self.path("model.json"), "-o", self.path("step.so"), "-O0", timeout=60)  # 1 s

    def test_elsewhere(self):
        """Scores that are read where other ones are made, and weights times what their softmax makes only then."""
        scores = "q @ swapaxes(k, -1, -2)"
        self.agree(document(8, 96, 16, [written("softmax(%s + swapaxes(%s, -1, -2)) @ v" % (scores, scores), 16)]), groups=0)
        self.agree(document(8, 96, 16, [written("0.01 * ((softmax(%s) * max(%s, axis=-1, keepdims=True)) @ v)" % (scores, scores), 16)]), groups=0)

    def test_long(self):
        """Products large enough to read panels: of one batch, in float32, as they are."""
        flat = {name: {"shape": [1664, 64], "dtype": "float32", "axes": ["batch", None]} for name in ("x", "y")}
        self.agree(document(1, 1664, 64, [written("softmax(q @ swapaxes(k, -1, -2) * 0.125) @ v", 64, depth=64)], flat), groups=3)

    def test_memory(self):
        """Of 4 times as long a sequence 4 times as much, not 16 times."""
        short, long = (self.groups(document(1, n, 32, [heads(is_causal=True, dropout_rate=0.1)]))[1] for n in (1024, 4096))
        self.assertLess(long, 4.7 * short)
        self.assertLess(long, 40 * 4096 * 32 * 4)

    def test_random(self):
        rng = random.Random(11)
        for _ in range(3 + int(os.environ.get("ATTENTION", "0"))):
            options = {"is_causal": rng.random() < 0.5, "normalize_qk": rng.random() < 0.2, "use_bias": rng.random() < 0.5}
            options.update(num_kv_heads=rng.choice((1, 2, 4))) if rng.random() < 0.4 else None
            options.update(dropout_rate=rng.choice((0.1, 0.5)), broadcast_dropout=rng.random() < 0.5) if rng.random() < 0.3 else None
            batch, length = rng.choice((1, 2, 3)), rng.randint(128, 200)
            given = {"m": {"shape": [batch, 1, rng.choice((1, length)), length], "dtype": "bool"}}
            options.update(mask="m") if rng.random() < 0.3 else None
            more = {"precision": {"compute": "bfloat16"}} if rng.random() < 0.2 else {}
            self.agree(document(batch, length, 4 * rng.randint(3, 14), [heads(**options)], given if "mask" in options else None, **more),
                       seed=rng.randrange(1000000))


if __name__ == "__main__":
    runner.main()
