#!/usr/bin/env python3
"""What slides over a dimension that is split: random convolutions and pools in one to three dimensions (strides, dilation, every
padding, groups, both gradients), and splits that move between dimensions, on random meshes against one device.

    tests/mesh/windows.py --stepc build/stepc [--cases 12] [--seed 0]

Losses, parameters and statistics agree up to rounding. The cases with names also say which collectives they may need: neighbours
exchange rims, nobody gathers what is split.
"""
import json
import os
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, comparison, draws, runner

STEPS = 2
MESHES = [{"space": 2}, {"space": 4}, {"data": 2, "space": 2}, {"data": 2, "space": 4}, {"rows": 2, "space": 2}, {"rows": 2, "space": 4}]


def hold(*spec):
    return {"type": "sharding_constraint", "spec": list(spec)}


def document(mesh, x, layers, spec):
    """Inputs of shape `x`; what the layers make is compared with a number. The values between layers lie as `spec` says."""
    between = [hold(*spec)]
    model = [*between, *[e for layer in layers for e in ([layer, *between] if layer["type"] != "relu" else [layer])]]
    rules = [["batch", "data"]] if "data" in mesh else []
    return {"stepc": 1, "inputs": {"x": {"shape": x, "dtype": "float32", "axes": ["batch"] + [None] * (len(x) - 1)}},
            "model": {"type": "sequential", "input": "x", "layers": model}, "loss": "mean(mean(mean((model - 0.3)**2, axis=-1), axis=-1))", "metrics": {"largest": "max(model)"},
            "optimizer": {"type": "sgd", "learning_rate": 0.05}, "mesh": {"axes": mesh}, "sharding": {"rules": rules, "params": {"**": []}}}


def conv(features, size, **more):
    return {"type": "conv", "features": features, "kernel_size": size, **more}


def expr(text):
    return {"type": "expr", "expr": text}


# name: mesh, shape of x, layers, layout between them, collectives of training beside sums
NAMED = {
    "same": ({"space": 4}, [2, 16, 3], [conv(4, [3]), {"type": "relu"}, conv(4, [5])], [None, "space", None], {"permute"}),
    "causal": ({"space": 4}, [2, 32, 3], [conv(4, [4], padding="CAUSAL", kernel_dilation=2), {"type": "relu"}, conv(4, [3], padding="CAUSAL")], [None, "space", None], {"permute"}),
    "strides": ({"space": 4}, [2, 32, 8, 3], [conv(4, [3, 3], strides=2), {"type": "relu"}, conv(4, [3, 3], strides=[2, 1])], [None, "space", None, None], {"permute"}),
    "projection": ({"space": 4}, [2, 32, 3], [conv(4, [1], strides=2)], [None, "space", None], set()),
    "valid": ({"space": 2}, [2, 32, 3], [conv(4, [3], padding="VALID"), {"type": "relu"}, conv(4, [5], padding="VALID")], [None, "space", None], {"permute"}),
    "two_dimensions": ({"rows": 2, "space": 2}, [2, 8, 16, 3], [conv(4, [3, 3]), {"type": "relu"}, conv(4, [5, 3])], [None, "rows", "space", None], {"permute"}),
    "three_dimensions": ({"data": 2, "space": 2}, [2, 4, 8, 6, 2], [conv(3, [3, 3, 3]), {"type": "relu"}, conv(3, [2, 2, 2])], ["batch", None, "space", None, None], {"permute"}),
    "pools": ({"space": 4}, [2, 32, 8, 3], [conv(4, [3, 3]), {"type": "max_pool", "window_shape": [3, 3], "strides": [2, 2], "padding": "SAME"},
                                            {"type": "avg_pool", "window_shape": [2, 2], "strides": [2, 2]}, {"type": "min_pool", "window_shape": [3, 1], "padding": "SAME"}],
              [None, "space", None, None], {"permute"}),
    "transposed": ({"space": 4}, [2, 16, 8, 3], [{"type": "conv_transpose", "features": 4, "kernel_size": k, "strides": s, "padding": "SAME"} for k, s in (([2, 2], [2, 2]), ([3, 3], [2, 1]), ([4, 4], [2, 2]), ([5, 1], [3, 1]))],
                   [None, "space", None, None], {"permute"}),
    "groups": ({"space": 4}, [2, 16, 4], [conv(4, [3], feature_group_count=4), {"type": "relu"}, conv(4, [3], feature_group_count=2)], [None, "space", None], {"permute"}),
    "narrow": ({"space": 4}, [2, 16, 3], [conv(4, [3], dtype="bfloat16"), {"type": "relu"}, conv(4, [3], dtype="bfloat16")], [None, "space", None], {"permute"}),
    "indivisible": ({"space": 4}, [2, 30, 3], [conv(4, [3], padding="VALID"), {"type": "relu"}, conv(4, [4], strides=2), {"type": "max_pool", "window_shape": [2], "strides": [2], "padding": "SAME"}], [None, "space", None], {"permute"}),
    "around": ({"space": 4}, [2, 16, 3], [conv(4, [4], padding="CIRCULAR", kernel_dilation=2), {"type": "relu"}, conv(4, [5], strides=2, padding="CIRCULAR")], [None, "space", None], {"permute"}),
    "mirrored": ({"rows": 2, "space": 2}, [2, 16, 8, 3], [conv(4, [4, 3], padding="REFLECT"), {"type": "relu"}, conv(4, [3, 5], padding="REFLECT")], [None, "rows", "space", None], {"permute"}),
    "symmetric": ({"space": 4}, [2, 16, 3], [conv(4, [1]), expr("pad(x * x, ((0, 0), (2, 1), (0, 0)), mode='symmetric')[:, 1:-2]")], [None, "space", None], {"permute"}),
    "edges": ({"space": 4}, [2, 16, 3], [conv(4, [1]), expr("pad(x, ((0, 0), (2, 2), (0, 0)), mode='edge')[:, 1:-3] * pad(x, ((0, 0), (1, 1), (1, 0)), mode='edge')[:, 2:, 1:]")], [None, "space", None], {"permute"}),
    "rolled": ({"space": 4}, [2, 16, 3], [conv(4, [1]), expr("x * roll(x, 3, axis=1) + roll(x * x, -6, axis=1)"), expr("concatenate((x[:, 1:], x[:, :1]), axis=1) * x")], [None, "space", None], {"permute"}),
    "uneven_batch": ({"data": 4}, [6, 16, 3], [conv(4, [3]), {"type": "relu"}, conv(4, [3]), {"type": "batch_norm"}, conv(4, [3], padding="CIRCULAR")], ["batch", None, None], set()),
    "turned": ({"space": 2, "wide": 2}, [8, 8, 16], [{"type": "linear", "features": 16}, hold(None, "space", "wide"), {"type": "linear", "features": 8}], [None, "wide", "space"], {"permute", "all_gather", "reduce_scatter"}),
    "moved_past_one": ({"data": 1, "space": 4}, [8, 8, 16], [{"type": "linear", "features": 16}, hold("space", "data"), {"type": "linear", "features": 8}], ["data", "space"], {"all_gather", "all_to_all"}),
    "rows_twice": ({"data": 2}, [8, 4, 6], [{"type": "graph", "inputs": ["x"], "nodes": [{"type": "param", "name": "table", "shape": [6, 3], "init": {"type": "normal"}},
                                                                       expr("argmax(x, axis=-1)") | {"name": "row"}, expr("sum(table, axis=-1, keepdims=True)[row] + table[row]") | {"name": "sums"}], "output": "sums"}],
                   ["batch"], set()),
    "moved": ({"space": 4}, [8, 8, 16], [{"type": "linear", "features": 16}, hold("space"), {"type": "linear", "features": 8}], [None, "space"], {"all_to_all"}),
}


def random_case(d):
    mesh, rank = d.one(MESHES), d.one([1, 1, 2, 2, 3])
    axes = [a for a in mesh if a != "data"]
    x = [int(d.one([2, 4])), *[int(d.one([8, 9, 12, 14, 16] if rank > 1 else [16, 19, 24, 30, 32])) for _ in range(rank)], int(d.one([1, 2, 4]))]
    places = [int(i) for i in d.r.permutation(rank)]
    spec = ["batch" if "data" in mesh else None] + [None] * (rank + 1)
    for axis, place in zip(axes, places):
        spec[1 + place] = axis
    layers = [conv(2, [1] * rank)] if d.one([0, 0, 1]) else []
    for _ in range(d.one([1, 2, 2])):
        kind = d.one(["conv"] * 4 + ["max_pool", "avg_pool", "conv_transpose", "roll", "pad"])
        size = [int(d.one([1, 2, 3, 3, 4, 5] if rank < 3 else [1, 2, 3])) for _ in range(rank)]
        strides = [int(d.one([1, 1, 2])) for _ in range(rank)]
        padding = d.one(["SAME", "SAME", "VALID", *(["CAUSAL"] if rank == 1 else []), [[int(d.one([0, 1, 2])), int(d.one([0, 1, 3]))] for _ in range(rank)]])
        if kind == "conv":
            layers.append(conv(int(d.one([2, 4])), size, strides=strides, padding=d.one([padding, padding, "CIRCULAR", "REFLECT"]), kernel_dilation=int(d.one([1, 1, 2]))))
        elif kind == "roll":
            layers.append(expr("x * roll(x, %d, axis=1) - roll(x, %d, axis=-2)" % (d.one([-3, -1, 1, 2, 5]), d.one([-2, 1, 3]))))
        elif kind == "pad":
            widths = [(int(d.one([0, 1, 2])), int(d.one([0, 1, 3]))) for _ in range(rank)]
            layers.append(expr("pad(x, %s, mode='%s')" % (repr(((0, 0), *widths, (0, 0))), d.one(["wrap", "reflect", "symmetric", "edge"]))))
        elif kind == "conv_transpose":
            layers.append({"type": kind, "features": 2, "kernel_size": size, "strides": strides, "padding": d.one(["SAME", "VALID"])})
        else:
            layers.append({"type": kind, "window_shape": size, "strides": strides, "padding": "SAME" if padding == "SAME" else "VALID"})
        layers.append({"type": "relu"})
    return mesh, x, layers[:-1], spec


def play(options, folder, made, r):
    """Why a document gives something else on its mesh, "": it does not; "refused": one device has no such document."""
    mesh, x, layers, spec = made
    runner.write_document(folder, document(mesh, x, layers, spec), {"x": r.standard_normal([STEPS, *x]).astype("f4")})
    alone = ["--mesh", ",".join("%s=1" % a for a in mesh)]
    try:
        runner.compile_document(options.stepc, folder, alone, "alone.so")
    except runner.Failed as e:
        return "refused" if e.refused else e.brief()
    loose = 3e-2 if "bfloat16" in json.dumps(layers) else 1e-5
    try:
        want, lines = runner.train(options.stepc, folder, STEPS, "alone.so")
        runner.compile_document(options.stepc, folder)
        got, ours = runner.train(options.stepc, folder, STEPS, "step.so")
        for k in lines[0]:
            comparison.agree(k, *[runner.series(m, [k])[k] for m in (ours, lines)], loose, loose)
        comparison.all_agree(got, want, 5 * loose, loose)
    except (runner.Failed, comparison.Differs) as e:
        return str(e)[:600]
    return ""


def collectives(options, folder):
    entries = json.loads(runner.call(options.stepc, "explain", os.path.join(folder, "model.json"), "--comm", "--json"))["entries"]
    return {c["kind"] for e in entries if e["name"] == "step" for c in e["collectives"]} - {"all_reduce"}


def one(options, seed):
    d = draws.Draws(seed)
    made = random_case(d)
    with tempfile.TemporaryDirectory(prefix="stepc-windows-") as folder:
        why = play(options, folder, made, np.random.default_rng(seed))
    return "left out" if why == "refused" else "differs" if why else "agrees", why, json.dumps(made)


def main():
    p = command.parser(__doc__, 12, keep=False)
    options = command.options(p)
    wrong = 0
    for name, (*made, wanted) in NAMED.items():
        with tempfile.TemporaryDirectory(prefix="stepc-windows-") as folder:
            why = play(options, folder, made, np.random.default_rng(0))
            found = set() if why else collectives(options, folder)
            if not why and found != wanted:
                why = "devices use %s, expected %s" % (sorted(found), sorted(wanted))
        if why:
            print("%s: %s" % (name, why))
            wrong += 1
    return command.loop(options, one) or bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
