#!/usr/bin/env python3
"""Documents with hundreds of small parameters: what they compile to does not grow with their number, and computing many of
them by one command changes no bit of the result, on one or two workers and on a mesh; the interpreter agrees.

usage: many.py STEPC
"""
import json
import os
import random
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

SHAPES = ([], [16], [8, 8], [100], [3], [5, 7], [1])
STEP_OF_LAYER = 3
ADAMW = {"type": "adamw", "learning_rate": 1e-3}
SOME, OTHERS = {"graph": "**0", "deep": "**.kernel"}, {"graph": "**1", "deep": "**.bias"}


def optimizers(form):
    return {
        "sgd": {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9},
        "adamw": ADAMW,
        "clip": {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, ADAMW]},
        "mask": dict(ADAMW, mask=[SOME[form]]),
        "partition": {"type": "partition", "transforms": {"a": ADAMW, "b": {"type": "sgd", "learning_rate": 0.1}},
                      "labels": {OTHERS[form]: "a", "**": "b"}},
        "lamb": {"type": "lamb", "learning_rate": 1e-3},
    }


def tree(terms):
    while len(terms) > 1:
        terms = ["(" + " + ".join(terms[i:i + 9]) + ")" for i in range(0, len(terms), 9)]
    return terms[0]


def graph(shapes, optimizer, ema):
    """A quadratic loss over bare parameters."""
    nodes = [{"name": "w%d" % i, "type": "param", "shape": s, "init": {"type": "normal", "stddev": 0.1}} for i, s in enumerate(shapes)]
    document = {"stepc": 1, "inputs": {"x": {"shape": [8], "axes": ["batch"]}}, "loss": "model * mean(x)", "optimizer": optimizer,
                "model": {"type": "graph", "nodes": nodes, "output": tree(["sum(w%d * w%d)" % (i, i) for i in range(len(shapes))])}}
    return dict(document, ema={"decay": 0.9}) if ema else document


TWO_DEVICES = {"mesh": {"axes": {"data": 2}}, "sharding": {"rules": [["batch", "data"]]}}


def deep(count, optimizer, ema, features=4, **more):
    """A chain of small layers."""
    layer = {"type": "residual", "layers": [{"type": "linear", "features": features}]}
    array = {"shape": [8, features], "axes": ["batch", None]}
    document = {"stepc": 1, "inputs": {"x": array, "y": array}, "loss": "mean((model - y)**2)", "optimizer": optimizer,
                "model": {"type": "repeat", "input": "x", "count": count, "block": dict(layer, input="x")}, **more}
    return dict(document, ema={"decay": 0.9}) if ema else document


class Case:
    def __init__(self, stepc, folder, document):
        self.stepc, self.folder = stepc, folder
        self.model, self.data = self.file("model.json"), self.file("data.safetensors")
        runner.write_json(self.model, document)
        rng = np.random.default_rng(1)
        safetensors.write(self.data, {n: rng.normal(size=[3] + i["shape"]).astype(np.float32) for n, i in document["inputs"].items()})

    def file(self, name):
        return os.path.join(self.folder, name)

    def call(self, *arguments):
        return runner.call(self.stepc, *arguments)

    def compile(self, name, *arguments):
        self.call("compile", self.model, "-o", self.file(name), "-q", *arguments)

    def run(self, what, *arguments):
        out, metrics = self.file("out.safetensors"), self.file("metrics.jsonl")
        self.call("run", what, "-q", "--steps", "3", "--data", self.data, "--save", out, "--all-state", "--metrics", metrics, *arguments)
        with open(out, "rb") as f, open(metrics) as m:
            return f.read(), m.read(), safetensors.read(out)

    def kernels(self, name):
        report = json.loads(self.call("explain", self.file(name), "--json"))
        return {e["name"]: e["kernels"] for e in report["entries"]}


def expect(what, truth):
    if not truth:
        sys.exit("failed: " + what)


def same_bits(case, label):
    """Sums may be made in another order where a tensor's own norm is part of its update; nothing else may differ."""
    case.compile("many.so")
    case.compile("each.so", "--disable", "outline,outline_more")
    one = case.run(case.file("many.so"), "--threads", "1")
    expect(label + ": two workers compute something else", case.run(case.file("many.so"), "--threads", "2")[:2] == one[:2])
    each = case.run(case.file("each.so"), "--threads", "1")
    if "lamb" in label:
        near(label, one[2], each[2])
    else:
        expect(label + ": outlining changes the result", each[:2] == one[:2])
    return one[2]


def near(label, ours, theirs):
    for name, a in theirs.items():
        error = np.max(np.abs(ours[name].astype(np.float64) - a)) if a.size else 0
        expect("%s: %s differs by %g" % (label, name, error), error <= 2e-5 * (1 + np.max(np.abs(a.astype(np.float64)), initial=0)))


def places(stepc, folder):
    """What depends on where an element stands, of tensors that lie end to end."""
    for shape, text in ([100], "{0} * arange(100.0)"), ([100], "{0} * flip({0})"), ([60], "{0} * roll({0}, 3)"), ([100], "{0} * {0}[5]"), ([12, 5], "tril({0}) * flip({0}, 0)"):
        names = ["w%d" % i for i in range(150)]
        nodes = [{"name": n, "type": "param", "shape": shape, "init": {"type": "normal", "stddev": 0.1}} for n in names]
        case = Case(stepc, folder, {"stepc": 1, "inputs": {"x": {"shape": [8], "axes": ["batch"]}}, "loss": "model * mean(x)", "optimizer": {"type": "sgd", "learning_rate": 0.01},
                                    "model": {"type": "graph", "nodes": nodes, "output": tree(["sum(%s)" % text.format(n) for n in names])}})
        case.compile("many.so")
        near(text, case.run(case.file("many.so"))[2], case.run(case.model)[2])


def joined(stepc, folder):
    """Norms of tensors that lie end to end: parameters, gradients, sums of microbatches; of sizes that fill no line of the
    cache, and of sizes that do."""
    shapes = [[n] for n in (7, 16, 300, 64, 1024, 5)] * 20 + [[64, 65], [256]] * 10
    clip = optimizers("deep")["clip"]
    documents = {"parameters": graph(shapes, optimizers("graph")["clip"], True), "gradients": deep(40, clip, True, 5),
                 "microbatches": deep(40, clip, False, 7, accumulate={"microbatch_size": 2}),
                 "large and small": graph(shapes, {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0},
                                                                                   {"type": "lamb", "learning_rate": 1e-3}]}, False)}
    for label, document in documents.items():
        case = Case(stepc, folder, document)
        case.compile("joined.so")
        case.compile("apart.so", "--disable", "join")
        one = case.run(case.file("joined.so"), "--threads", "1")
        expect(label + ": two workers compute something else", case.run(case.file("joined.so"), "--threads", "2")[:2] == one[:2])
        near(label + ", joined", one[2], case.run(case.file("apart.so"))[2])
        near(label + ", interpreted", one[2], case.run(case.model)[2])


def growing(draw):
    """Documents by the number of tensors whose kernels, of every entry, do not become more with it."""
    all = optimizers("graph")
    out = {"vectors, clip and average": lambda count: graph([[100]] * count, all["clip"], True)}
    for name in all:
        out["in turn, " + name] = lambda count, name=name: graph([SHAPES[i % 4] for i in range(count)], all[name], name == "clip")
    out["at random"] = lambda count: graph([draw.choice(SHAPES) for _ in range(count)], all["clip"], True)
    out["scalars"] = lambda count: graph([[]] * count, all["adamw"], False)
    return out


def layers_in_order(stepc, folder):
    """What follows one after the other does so: at most so many kernels per layer. The rest is done at once for all."""
    case = Case(stepc, folder, dict(deep(200, optimizers("deep")["clip"], True), mesh={"axes": {"data": 1}}))
    case.compile("step.so")
    sizes = case.kernels("step.so")
    expect("kernels per layer: %s" % sizes, sizes["step"] <= 200 * STEP_OF_LAYER + 40 and sizes["eval"] <= 240 and
           sizes["infer"] <= 240 and sizes["init"] <= 20)


def main():
    stepc = os.path.abspath(sys.argv[1])
    draw = random.Random(7)
    with tempfile.TemporaryDirectory(prefix="stepc-many-") as folder:
        for name in optimizers("graph"):
            ema = draw.random() < 0.5
            shapes = [draw.choice(SHAPES) for _ in range(150)]
            case = Case(stepc, folder, graph(shapes, optimizers("graph")[name], ema))
            near("graph, " + name, same_bits(case, "graph, " + name), case.run(case.model)[2])
            same_bits(Case(stepc, folder, deep(40, optimizers("deep")[name], ema, **TWO_DEVICES)), "deep, %s, two devices" % name)
        places(stepc, folder)
        joined(stepc, folder)
        for what, document in growing(draw).items():
            sizes = {}
            for count in 300, 1500:
                case = Case(stepc, folder, document(count))
                case.compile("step.so")
                sizes[count] = case.kernels("step.so")
            expect("%s: kernels grow with the number of tensors: %s" % (what, sizes),
                   all(sizes[1500][e] <= sizes[300][e] + 12 and sizes[1500][e] <= 80 for e in sizes[1500]))
        layers_in_order(stepc, folder)
    print("ok")


main()
