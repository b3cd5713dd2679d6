#!/usr/bin/env python3
"""Recorded documents on random meshes: their inputs, parameters and optimizer state are split over random axes of 2 to 12
devices in one process, whether the extents divide or not, and the recorded numbers must come out.

    tests/fuzz/sharded.py --stepc build/stepc --cases 200 [--seed 0] [GLOB...]

It needs numpy alone. A case that differs is left as a folder under --keep.
"""
import json
import os
import re
import shutil
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, comparison, draws, recorded, runner

MESHES = [{"data": 2}, {"data": 3}, {"data": 4}, {"data": 8}, {"model": 2}, {"model": 3}, {"data": 2, "model": 2}, {"data": 3, "model": 2}, {"data": 2, "model": 4}, {"fsdp": 4},
          {"data": 2, "fsdp": 2, "tensor": 2}, {"data": 1, "model": 2}, {"expert": 2, "data": 2}, {"data": 4, "model": 3}]
LOOSER = 4  # than one device, for sums in another order
WITHOUT = ("precision_dynamic_loss_scale", "mixed_dynamic_*", "mixed_bits_*")  # a float16 sum overflows or not by the order of its terms; bit by bit


def spec(d, axes, shape):
    """A mesh axis, several or none for every dimension; often fewer entries than dimensions."""
    left, out = list(d.r.permutation(axes)), []
    for extent in shape:
        several = [str(left.pop()) for _ in range(d.one([0, 0, 1, 1, 1, 2])) if left] if extent > 1 or d.chance(0.05) else []
        out.append(None if not several else several[0] if len(several) == 1 else several)
    while out and out[-1] is None and d.chance():
        out.pop()
    return out


def on_a_mesh(document, shapes, d, constraint=0.0):
    """The document with a mesh and shardings of what it has: parameters by path have `shapes`."""
    o = json.loads(json.dumps(document))
    mesh = d.one(MESHES)
    axes = list(mesh)
    o["mesh"] = {"axes": mesh}
    sharding = o["sharding"] = {k: v for k, v in o.get("sharding", {}).items() if k not in ("params", "optimizer_state", "inputs", "rules", "resolver")}
    given = [i for i in o.get("inputs", {}).values() if i["shape"]]
    over = d.one([["data"], ["data"], ["fsdp"], ["data", "fsdp"], ["model"], []])
    over = [a for a in over if a in axes]
    sharding["rules"] = [["batch", over[0] if len(over) == 1 else over or None]]
    for i in given:
        if i["shape"][0] == given[0]["shape"][0] and "axes" not in i:
            i["axes"] = ["batch"] + [None] * (len(i["shape"]) - 1)
        i["axes"] = [a if a == "batch" else None for a in i.get("axes", [None] * len(i["shape"]))]
    if d.chance(0.2):
        sharding["inputs"] = {k: spec(d, axes, i["shape"]) for k, i in o["inputs"].items() if i["shape"] and d.chance(0.6)}
    for key, share in (("params", 0.8), ("optimizer_state", 0.3)):
        if d.chance(share):
            sharding[key] = {k: spec(d, axes, s) for k, s in sorted(shapes.items()) if s and d.chance(0.7)} | {"**": []}
            sharding[key] = {re.sub(r"([*?{},\[\]])", r"\\\1", k) if k != "**" else k: v for k, v in sharding[key].items()}
    if d.chance(constraint):  # of a model that gives one tensor
        o["model"] = {"type": "sequential", "name": "", "layers": [o["model"], {"type": "sharding_constraint", "spec": d.one([["batch"], [None]])}]}
        o["model"]["layers"][0].setdefault("name", "")
    return o


def names_logical(document):
    """Whether the optimizer wants the names of axes."""
    return "logical_factor_rules" in json.dumps(document["optimizer"]) or "factor_map" in json.dumps(document["optimizer"])


def one(options, seed):
    d = draws.Draws(seed)
    name = d.one(options.names)
    case = recorded.load(name)
    document = case.document
    statistic = lambda k: k.endswith((".mean", ".var")) or "batch_stats." in k
    shapes = {k: v.shape for k, v in case.raw("expected").items() if not k.startswith(("ema.", "slow.", "eval.")) and not statistic(k)}
    if "optimizer" not in document or names_logical(document):
        return "left out", "", name
    o = on_a_mesh(document, shapes, d, 0.15)
    said = "%s %s" % (name, json.dumps({"mesh": o["mesh"], "sharding": o["sharding"]}))
    with tempfile.TemporaryDirectory(prefix="stepc-mesh-") as tmp:
        case.unpack(tmp, o)
        why = None
        try:
            runner.compile_document(options.stepc, tmp)
            case.check(*runner.train(options.stepc, tmp, case.steps, "step.so", arguments=case.sets()), LOOSER)
        except runner.Failed as e:
            if e.refused and not e.unsupported:  # a constraint of what is no tensor, replaced constants
                return "left out", e.brief(300), said
            return "not supported yet" if e.unsupported else "fails", e.brief(), said
        except comparison.Differs as e:
            why = str(e)
        if why and options.keep:
            shutil.copytree(tmp, os.path.join(options.keep, "mesh_%d" % seed), dirs_exist_ok=True)
    return "differs" if why else "agrees", why or "", said


def main():
    p = command.parser(__doc__, 100)
    p.add_argument("only", nargs="*", metavar="GLOB")
    options = command.options(p)
    options.names = recorded.names(options.only, WITHOUT)
    return command.loop(options, one)


if __name__ == "__main__":
    sys.exit(main())
