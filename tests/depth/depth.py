#!/usr/bin/env python3
"""Compiling a transformer of 48 layers takes at most 1.3 times as long per layer as one of 12, and that of 12 at most 3 seconds: CPU
time, the least of three, because machines have others to serve.

usage: depth.py STEPC
"""
import os
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transformer.json")


def main():
    with tempfile.TemporaryDirectory(prefix="stepc-depth-") as folder:
        few, many = (runner.seconds(sys.argv[1], "compile", MODEL, "-D", "layers=%d" % n, "-o", os.path.join(folder, "step.so")) for n in (12, 48))
    print("12 layers %.2f s, 48 layers %.2f s: %.2f times per layer" % (few, many, many / 48 / (few / 12)))
    return few > 3 or many / 48 > 1.3 * few / 12


sys.exit(main())
