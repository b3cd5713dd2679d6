#!/usr/bin/env python3
"""Recorded documents worked through in parts, several ways that must agree: row by row with accumulate and with per_example,
per_example inside of accumulate, gradients clipped by a transformation (whose norms come without the gradients where that is
cheaper) and by an expression, groups of several sizes, and more threads.

    tests/fuzz/parts.py --stepc build/stepc [--compile] [GLOB...]

Documents that cannot see one row, and those whose state goes from one microbatch to the next, are left out. It needs numpy alone.
"""
import collections
import json
import os
import re
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, comparison, recorded, runner

CLIP = 0.3
# What must agree: names of ways, each a document's changes.
WAYS = {
    "row by row": lambda rows: {"accumulate": {"microbatch_size": 1, "accumulator": "mean", "split": "contiguous"}},
    "examples": lambda rows: {"per_example": {"accumulator": "mean"}},
    "examples in groups": lambda rows: {"per_example": {"accumulator": "mean", "microbatch_size": 2 if rows % 2 == 0 else 1}},
    "examples in microbatches": lambda rows: {"per_example": {"accumulator": "mean"}, "accumulate": {"microbatch_size": 2 if rows % 2 == 0 else 1}},
    "clipped": lambda rows: {"per_example": {"accumulator": "mean", "transform": [{"type": "clip_by_global_norm", "max_norm": CLIP}]}},
    "clipped in groups": lambda rows: {"per_example": {"accumulator": "mean", "microbatch_size": 1, "transform": [{"type": "clip_by_global_norm", "max_norm": CLIP}]}},
    "clipped by hand": lambda rows: {"per_example": {"accumulator": "mean", "transform": ["where(global_norm(updates) < %g, update, update / global_norm(updates) * %g)" % (CLIP, CLIP)]}},
}
AGREE = [["row by row", "examples", "examples in groups", "examples in microbatches"], ["clipped", "clipped in groups", "clipped by hand"]]


def changed(document, way):
    """The document in parts: an input whose first dimension is that of the first input has rows."""
    d = {k: v for k, v in document.items() if k not in ("ema", "sharding", "metrics")}
    given = [i for i in d["inputs"].values() if i["shape"]]
    rows = next((i["shape"][0] for i in given if i.get("axes", ["batch"])[0] == "batch"), given[0]["shape"][0])
    d["inputs"] = {k: {**v, "axes": ["batch" if v["shape"] and v["shape"][0] == rows else None, *[None] * (len(v["shape"]) - 1)] if v["shape"] else []}
                   for k, v in d["inputs"].items()}
    return {**d, "optimizer": {"type": "sgd", "learning_rate": 0.1}, **WAYS[way](rows)}


def is_statistic(document, name):
    return re.search(r"(mean|var|\.count|\.u|\.sigma)$", name) is not None


def main():
    p = command.parser(__doc__, 0, keep=False)
    p.add_argument("--compile", action="store_true", help="compile instead of interpreting")
    p.add_argument("--steps", type=int, default=2)
    p.add_argument("--quick", action="store_true", help="every fortieth document")
    p.add_argument("only", nargs="*")
    options = p.parse_args()
    counts = collections.Counter()
    for name in recorded.names(options.only)[::40 if options.quick else 1]:
        case = recorded.load(name)
        document = case.document
        text = json.dumps(document)
        if any('"%s"' % k in text for k in ("accumulate", "per_example", "mesh", "dpsgd", "differentially_private_aggregate", "loss_scale", "spectral_norm", "weight_norm")) or not any(i["shape"] for i in document.get("inputs", {}).values()):
            continue
        steps, found = min(options.steps, case.steps), {}
        with tempfile.TemporaryDirectory(prefix="stepc-parts-") as tmp:
            for way in WAYS:
                case.unpack(tmp, changed(document, way))
                try:
                    found[way], lines = runner.play(options.stepc, tmp, steps, options.compile)
                    found[way]["loss"] = np.array(runner.series(lines, ["loss"])["loss"])
                except runner.Failed as e:
                    refused = e.refused and not e.unsupported
                    counts["refused" if refused else "unsupported" if e.code == 1 else "failed"] += 1
                    if not refused:
                        print("%s, %s: %s" % (name, way, e.brief(500)), flush=True)
                    if way == "row by row" and refused:
                        break
        half = any(t in text for t in ("bfloat16", "float16"))
        rtol, atol = (0.05, 0.02) if half else (1e-4, 1e-5)
        for group in AGREE:
            ways = [w for w in group if w in found]
            for other in ways[1:]:
                a, b = found[ways[0]], found[other]
                worst = None
                for k in a:
                    if ways[0] == "row by row" and is_statistic(document, k):
                        continue
                    worst = comparison.difference(b[k], a[k], rtol, atol)
                    if worst:
                        worst = k + worst
                        break
                counts["differs" if worst else "agrees"] += 1
                if worst:
                    print("%s: %s, %s: %s" % (name, ways[0], other, worst), flush=True)
    print(command.summary(counts))
    return 1 if counts["differs"] or counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
