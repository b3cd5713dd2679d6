#!/usr/bin/env python3
"""Time is a loop: a recurrent model over 1,000 times compiles as fast as over 10 (CPU time, at most 1.5 times; the least of three,
and of more in turns where that is not so), its object is as large (at most 1.1 times), and its memory grows with the times, as
the report says, by what one time needs.

usage: times.py STEPC
"""
import json
import os
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.json")


def measure(stepc, folder, times):
    path = os.path.join(folder, "step.so")
    spent = runner.seconds(stepc, "compile", MODEL, "-D", "times=%d" % times, "-o", path)
    report = runner.call(stepc, "explain", MODEL, "-D", "times=%d" % times, "--memory", "--json")
    return spent, os.path.getsize(path), json.loads(report)["memory"]["peak"]


def main():
    with tempfile.TemporaryDirectory(prefix="stepc-times-") as folder:
        few, some, many = (measure(sys.argv[1], folder, n) for n in (10, 505, 1000))
        for _ in range(3):  # machines have others to serve, and it is not always the same that they do
            if many[0] <= 1.5 * few[0]:
                break
            few, many = (min(was, measure(sys.argv[1], folder, n)) for was, n in ((few, 10), (many, 1000)))
    growth = (many[2] - some[2]) / (some[2] - few[2])
    print("10 times: %.2f s, %d bytes, %d of memory; 1,000 times: %.2f s, %d bytes, %d of memory; the second half of that is %.2f of the first"
          % (*few, *many, growth))
    return many[0] > 1.5 * few[0] or many[1] > 1.1 * few[1] or not 0.9 < growth < 1.1


sys.exit(main())
