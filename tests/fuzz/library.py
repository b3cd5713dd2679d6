#!/usr/bin/env python3
"""Every function of the library as an object, most on random meshes: recorded calls (tests/unit/frontend/function_cases.json), several in
a document, whose inputs and parameters are split over random axes whether their extents divide or not. Some are mapped over rows
(micro_vmap), or all of them are made in a loop over microbatches of one row; the first row holds the recorded numbers, the others the same
ones in other places. Values and gradients must be those of the interpreter, which makes them call by call.

    tests/fuzz/library.py --stepc build/stepc --cases 100 [--seed 0] [--compile-args "--target cuda"] [FUNCTION...]

It needs numpy alone. A case that differs is left as a folder under --keep.
"""
import functools
import json
import os
import re
import shutil
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import sharded
from tool import ROOT, command, comparison, draws, runner

CALLS = os.path.join(ROOT, "tests/unit/frontend/function_cases.json")
# A result in 16 bits is a dozen terms that are rounded one by one.
TOLERANCE = {"float32": 2e-5, "float16": 6e-3, "bfloat16": 4e-2}
TOGETHER = 8


@functools.lru_cache
def calls(only):
    with open(CALLS) as f:
        return [c for c in json.load(f)["cases"] if not only or c["function"] in only]


def numbers(t):
    return np.array([float(v) if isinstance(v, str) else v for v in t["values"]], {"bool": "?", "int32": "i4"}.get(t["dtype"], "f4")).reshape(t["shape"])


def numbers_of(metric):
    return np.array(comparison.numbers(metric), dtype="f8")


def row(call, r, looped=False):
    """The call on the same numbers, moved by r places; in a loop over rows the parameters are the same for all of them."""
    moved = lambda v: v[r % max(len(v), 1):] + v[:r % max(len(v), 1)]
    return call | {"inputs": {k: t if looped and k in call["grads"] else t | {"values": moved(t["values"])} for k, t in call["inputs"].items()}}


def document(chosen, weights, rows=None, microbatch=None, looped=0):
    """The calls as metrics; the loss is what gives their gradients. With rows, each call is mapped over as many (0: not mapped); looped: a loop over so many rows."""
    nodes, inputs, metrics, terms = [{"type": "param", "name": "zero", "shape": []}], {"weights": {"shape": [weights.size], "dtype": "float32", "axes": [None]}}, {}, ["params.zero"]
    data, init, define = {"weights": weights}, {"zero": np.zeros([], "f4")}, {}
    for k, call in enumerate(chosen):
        new = functools.partial(re.sub, r"^[cw]\d+_", "e%d_" % k)
        text, value, n = call["expr"], call["value"], rows[k] if rows else 0
        for name in call["inputs"]:
            of_rows = n or looped * (name not in call["grads"])
            text = re.sub(r"\b%s\b" % name, ("params." if name in call["grads"] and not n else "") + new(name) + ("[0]" if of_rows and not n else ""), text)
        for name, t in call["inputs"].items():
            of_rows = n or looped * (name not in call["grads"])
            values = np.stack([numbers(row(call, r, looped)["inputs"][name]) for r in range(of_rows)]) if of_rows else numbers(t)
            if name in call["grads"]:
                nodes.append({"type": "param", "name": new(name), "shape": list(values.shape)})
                init[new(name)] = values
                metrics["g_" + new(name)] = "grads." + new(name)
            else:
                inputs[new(name)] = {"shape": list(values.shape), "dtype": t["dtype"], "axes": ["batch" if looped and i == 0 else None for i in range(values.ndim)]}
                data[new(name)] = values
        if n:
            names = [new(i) for i in call["inputs"]]
            define["call%d" % k] = {"inputs": names, "body": {"type": "expr", "expr": text}}
            node = {"type": "micro_vmap", "name": "e%d" % k, "inputs": names, "block": {"type": "call%d" % k}}
            nodes.append(node | ({"microbatch_size": microbatch} if microbatch else {}))
            metrics["e%d" % k] = "model.e%d" % k
            text = metrics["e%d" % k]
        metrics["e%d" % k] = "astype(%s, 'float32')" % text if value["dtype"] in ("float16", "bfloat16") else text
        if looped:
            metrics["e%d" % k] = "(%s)[None]" % metrics["e%d" % k]
        if call["grads"]:
            size = int(np.prod(value["shape"]))
            terms.append("sum((%s) * reshape(weights[:%d], (%s)))" % (text, size, "".join("%d, " % d for d in value["shape"])))
    mapped = {"e%d" % k: "e%d" % k for k in range(len(chosen)) if rows and rows[k]}
    o = {"stepc": 1, "name": "library", "inputs": inputs, "define": define, "model": {"type": "graph", "nodes": nodes, "output": mapped or "zero"},
         "loss": " + ".join(terms), "metrics": metrics, "optimizer": {"type": "sgd", "learning_rate": 0.0}}
    return o | ({"accumulate": {"microbatch_size": 1, "accumulator": "sum", "metrics": {m: "concat" for m in metrics if m[0] == "e"}}} if looped else {}), data, init


def on_a_mesh(plain, init, d):
    o = json.loads(json.dumps(plain))
    o["mesh"] = {"axes": d.one(sharded.MESHES)}
    axes = list(o["mesh"]["axes"])
    specs = lambda shapes: {k: sharded.spec(d, axes, s) for k, s in shapes.items() if s and d.chance(0.8)}
    o["sharding"] = {"rules": [], "inputs": specs({k: i["shape"] for k, i in o["inputs"].items()}), "params": specs({k: list(v.shape) for k, v in init.items()}) | {"**": []}}
    return o


def one(options, seed):
    d = draws.Draws(seed)
    every = calls(tuple(options.only))
    chosen = [d.one(every) for _ in range(min(TOGETHER, len(every)))]
    weights = d.r.uniform(0.5, 1.5, 512).astype("f4")
    looped = d.n(2, 4) if any(set(c["inputs"]) - set(c["grads"]) for c in chosen) and d.chance(0.3) else 0
    rows = [d.n(2, 4) if c["inputs"] and not looped and d.chance(0.3) else 0 for c in chosen]
    alone = [row(c, r, looped) for c, n in zip(chosen, rows) for r in range(n or looped or 1)]
    plain, *given = document(alone, weights)
    o, *together = document(chosen, weights, rows, d.one([0, 1]), looped)
    o = on_a_mesh(o, together[1], d) if d.chance(0.7) else o
    said = "%s %s" % (" ".join(c["function"] for c in chosen), json.dumps({k: o[k] for k in ("mesh", "sharding") if k in o}))
    with tempfile.TemporaryDirectory(prefix="stepc-library-") as tmp:
        apart, several = [os.path.join(tmp, n) for n in ("apart", "several")]
        for folder, doc, (data, init) in ((apart, plain, given), (several, o, together)):
            os.mkdir(folder)
            runner.write_document(folder, doc, {k: v[None] for k, v in data.items()}, init)
        try:
            want = runner.train(options.stepc, apart, 1)[1][0]
        except runner.Failed as e:  # an index that was promised to be within its bounds
            return "refused alone", e.brief(), said
        try:
            runner.compile_document(options.stepc, several, options.compile_args.split())
            got = runner.train(options.stepc, several, 1, "step.so")[1][0]
        except runner.Failed as e:
            return "not supported yet" if e.unsupported else "fails", e.brief(), said
        first = 0
        for k, (call, n) in enumerate(zip(chosen, rows)):
            for what in [m for m in sorted(o["metrics"]) if re.match(r"(g_)?e%d(_|$)" % k, m) and m in got]:
                a = numbers_of(got[what])
                b = np.stack([numbers_of(want[what.replace("e%d" % k, "e%d" % (first + r), 1)]) for r in range(n or looped or 1)])
                b = np.sum(b, 0) if looped and what.startswith("g") else b if n or looped else b[0]
                rtol = TOLERANCE.get(call["value"]["dtype"], 2e-5)
                most = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
                why = comparison.difference(a, b, rtol * (50 if call["rough"] else 1), rtol * most)
                if why:
                    if options.keep:
                        shutil.copytree(tmp, os.path.join(options.keep, "library_%d" % seed), dirs_exist_ok=True)
                    return "differs", "%s of %s%s%s" % (what, call["expr"], " in %d rows" % (n or looped) if n or looped else "", why), said
            first += n or looped or 1
    return "agrees", "", said


def main():
    p = command.parser(__doc__, 100)
    p.add_argument("only", nargs="*", metavar="FUNCTION")
    return command.loop(command.options(p), one)


if __name__ == "__main__":
    sys.exit(main())
