#!/usr/bin/env python3
"""Memory does not grow with the number of microbatches: the planned peak of accumulation, of gradients of single examples,
of both in each other and of micro_vmap is the same however many microbatches of one size there are. Inputs are memory of the host.

    tests/cli/memory.py STEPC
"""
import json
import os
import subprocess
import sys
import tempfile

STEPC = sys.argv[1]
CLIP = [{"type": "clip_by_global_norm", "max_norm": 1.0}]
LINEAR = {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 48}, {"type": "relu"}, {"type": "linear", "features": 8}]}
ROWS = {"type": "sequential", "input": "x", "layers": [
    {"type": "micro_vmap", "microbatch_size": 4, "accumulator": "sum",
     "block": {"type": "sequential", "layers": [{"type": "linear", "features": 32}, {"type": "expr", "expr": "sum(sin(x[:, None] * x), axis=0)"}]}}]}
FORMS = {
    "accumulate": (LINEAR, {"accumulate": {"microbatch_size": 4}}),
    "accumulate contiguous": (LINEAR, {"accumulate": {"microbatch_size": 4, "split": "contiguous", "accumulator": "running_mean"}}),
    "per_example": (LINEAR, {"per_example": {"microbatch_size": 4, "transform": CLIP}}),
    "per_example in accumulate": (LINEAR, {"per_example": {"microbatch_size": 2, "transform": CLIP}, "accumulate": {"microbatch_size": 4}}),
    "dpsgd": (LINEAR, {"optimizer": {"type": "dpsgd", "learning_rate": 0.1, "l2_norm_clip": 1, "noise_multiplier": 1, "seed": 1}}),
    "micro_vmap": (ROWS, {}),
}


def peak(name, model, more, rows):
    document = {"stepc": 1, "name": name, "inputs": {"x": {"shape": [rows, 24], "dtype": "float32"}}, "model": model,
                "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.1}, **more}
    with tempfile.TemporaryDirectory(prefix="stepc-memory-") as tmp:
        path = os.path.join(tmp, "model.json")
        with open(path, "w") as f:
            json.dump(document, f)
        done = subprocess.run([STEPC, "explain", path, "--memory", "--json"], stdout=subprocess.PIPE, check=True, timeout=120)
    return next(e for e in json.loads(done.stdout)["entries"] if e["name"] == "step")["memory"]["peak"]


def main():
    wrong = 0
    for name, (model, more) in FORMS.items():
        peaks = [peak(name, model, more, rows) for rows in (32, 64, 256)]
        if len(set(peaks)) > 1:
            print("%s: peaks of %s B for 32, 64 and 256 rows" % (name, ", ".join(map(str, peaks))))
            wrong += 1
    print("%d forms, %d grow" % (len(FORMS), wrong))
    return wrong != 0


sys.exit(main())
