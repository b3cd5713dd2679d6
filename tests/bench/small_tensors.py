"""Thousands of small parameters against one of the same size: time of a step, time to compile."""
import os
import time

import numpy as np

COUNT = 10000
CLIP = {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, {"type": "adamw", "learning_rate": 1e-3}]}
OPTIMIZERS = {"adamw": {"type": "adamw", "learning_rate": 1e-3}, "clip-adamw-ema": CLIP}


def document(count, elements, optimizer):
    """A quadratic loss: hardly any work but the update's."""
    nodes = [{"name": "w%d" % i, "type": "param", "shape": [elements], "init": {"type": "normal", "stddev": 0.1}} for i in range(count)]
    terms = ["sum(w%d * w%d)" % (i, i) for i in range(count)]
    while len(terms) > 1:
        terms = ["(" + " + ".join(terms[i:i + 16]) + ")" for i in range(0, len(terms), 16)]
    out = {"stepc": 1, "inputs": {"x": {"shape": [8], "axes": ["batch"]}}, "loss": "model * mean(x)",
           "model": {"type": "graph", "nodes": nodes, "output": terms[0]}, "optimizer": OPTIMIZERS[optimizer]}
    return dict(out, ema={"decay": 0.999}) if "ema" in optimizer else out


def workload(bench, options):
    import stepc
    out, x = {}, np.ones(8, np.float32)
    for optimizer in OPTIMIZERS:
        for elements in 100, 16:
            thousands = document(COUNT, elements, optimizer)
            clock = time.perf_counter()
            many = bench.compiled(options, thousands)
            compile_s = time.perf_counter() - clock
            one = bench.compiled(options, document(1, COUNT * elements, optimizer))
            for threads in 1, 2:
                sides = {}
                for name, so in ("stepc", many), ("one tensor", one):
                    m = stepc.Step(so, threads=threads)
                    m.init()
                    sides[name] = lambda m=m: bench.timed(lambda: [m.step(x=x) for _ in range(20)], 20)
                r = bench.report(bench.interleave(sides, options.rounds))
                out["%s-%d-%dt" % (optimizer, elements, threads)] = {
                    "many_us": r["stepc"]["median_us"], "one_us": r["one tensor"]["median_us"],
                    "many_to_one": 1 / r["one tensor"]["ratio"], "compile_s": compile_s, "object_bytes": os.path.getsize(many)}
    return out
