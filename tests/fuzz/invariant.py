#!/usr/bin/env python3
"""`compile --numerics invariant`: recorded documents give the recorded numbers, and the same bits in all metrics and the whole
state for x86-64-v2, v3 and v4, with 1 to 4 threads, on random meshes of up to 12 devices (those of sharded.py), and in 2 to 12
microbatches, where that is not refused and the document does not make a difference of it (W0437). One in three computes in bfloat16, of which no numbers are recorded.
One in four is compiled with mesh-invariant and has its microbatches on all meshes.

    tests/fuzz/invariant.py --stepc build/stepc --cases 200 [--seed 0] [--ways 4] [-j 2] [GLOB...]

It needs numpy alone. A case that differs is left as a folder under --keep.
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import sharded
from tool import command, comparison, draws, recorded, runner, safetensors

LOOSER = 4  # than recorded, for sums in another order
CPUS = ["x86-64-v2", "x86-64-v3", "native"]


def play(options, folder, case, document, cpu, threads, numerics="invariant"):
    """The bits of all state and the metrics after the last step."""
    case.unpack(folder, document)
    at = lambda name: os.path.join(folder, name)
    runner.compile_document(options.stepc, folder, ["--numerics", numerics, "--cpu", cpu, "-Werror=W0437"])
    tensors, lines = runner.train(options.stepc, folder, case.steps, "step.so", arguments=["--all-state", *case.sets()], threads=threads)
    return tensors, lines, {k: (t.dtype, t.shape, bytes(t.data)) for k, t in safetensors.raw(at("out.safetensors")).items()}


def same_but_nan(a, b):
    """Of NaN, neither sign nor payload is promised."""
    if a[:2] != b[:2] or a[0] not in ("F32", "F64"):
        return False
    x, y = (np.frombuffer(t[2], {"F32": "<f4", "F64": "<f8"}[a[0]]) for t in (a, b))
    return bool(np.all((np.isnan(x) & np.isnan(y)) | (x.view("u%d" % x.itemsize) == y.view("u%d" % y.itemsize))))


def first_difference(a, b):
    names = sorted(set(a[2]) ^ set(b[2])) or [k for k in a[2] if a[2][k] != b[2][k] and not same_but_nan(a[2][k], b[2][k])]
    if names:
        return "state: " + ", ".join(names[:6])
    for i, (one, two) in enumerate(zip(a[1], b[1])):
        for name in one:
            if json.dumps(one[name]) != json.dumps(two.get(name)):
                return "metric %s of step %d" % (name, i + 1)
    return None if len(a[1]) == len(b[1]) else "number of steps"


def microbatches(document, d):
    rows = [i["shape"][0] for i in document["inputs"].values() if i["shape"] and (i.get("axes") or [None])[0] == "batch"]
    counts = [n for n in (2, 3, 4, 5, 6, 7, 8, 12) if rows and rows[0] and rows[0] % n == 0]
    return {"microbatch_size": rows[0] // d.one(counts), "split": d.one(["contiguous", "strided"])} if counts else None


def one(options, seed):
    d = draws.Draws(seed)
    name = d.one(options.names)
    case = recorded.load(name)
    if "optimizer" not in case.document or sharded.names_logical(case.document):
        return "left out", "", name
    statistic = lambda k: k.endswith((".mean", ".var")) or "batch_stats." in k
    shapes = {k: v.shape for k, v in case.raw("expected").items() if not k.startswith(("ema.", "slow.", "eval.")) and not statistic(k)}
    said, narrow = name, "precision" not in case.document and d.one([False, False, True])
    base = {**case.document, "precision": {"compute": "bfloat16"}} if narrow else case.document
    numerics = d.one(["invariant", "invariant", "invariant", "mesh-invariant"])
    if numerics == "mesh-invariant" and "accumulate" not in base and "partial_batches" not in base and microbatches(base, d):
        base, narrow = {**base, "accumulate": microbatches(base, d)}, True
    with tempfile.TemporaryDirectory(prefix="stepc-invariant-") as tmp:
        try:
            first = play(options, tmp, case, base, "native", 1, numerics)
            wanted = {k: v for k, v in first[0].items() if k in case.raw("expected")}
            if not narrow:
                case.check(wanted, first[1], LOOSER)
            for way in range(options.ways):
                o = sharded.on_a_mesh(base, shapes, d, 0.15) if way else base
                cpu, threads = d.one(CPUS[:2] if not way else CPUS), d.one([1, 2, 3, 4])
                said = "%s %s" % (name, json.dumps({"cpu": cpu, "threads": threads, "mesh": o.get("mesh"), "sharding": o.get("sharding"), "precision": o.get("precision"), "numerics": numerics}))
                part = microbatches(o, d) if way % 2 and numerics == "invariant" and "accumulate" not in o else None
                try:
                    found = play(options, tmp, case, {**o, "accumulate": part} if part else o, cpu, threads, numerics)
                    said += " in microbatches" if part else ""
                except runner.Failed as e:
                    if not part or not e.refused:
                        raise
                    found = play(options, tmp, case, o, cpu, threads, numerics)
                why = first_difference(first, found)
                if why:
                    if options.keep:
                        shutil.copytree(tmp, os.path.join(options.keep, "invariant_%d" % seed), dirs_exist_ok=True)
                    return "differs", why, said
        except runner.Failed as e:
            return "left out" if e.refused else "fails", e.brief(300), said
        except comparison.Differs as e:
            return "differs", str(e), said
    return "agrees", "", said


def main():
    p = command.parser(__doc__, 100)
    p.add_argument("--ways", type=int, default=4, help="of a case")
    p.add_argument("only", nargs="*", metavar="GLOB")
    options = command.options(p)
    options.names = recorded.names(options.only, sharded.WITHOUT)
    return command.loop(options, one)


if __name__ == "__main__":
    sys.exit(main())
