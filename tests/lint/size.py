#!/usr/bin/env python3
"""Holds how large the product may be: lines of all its sources together. Who needs more lines finds some that are not needed, or
raises the ceiling in a commit that says why; who has made it smaller by 250 lowers it."""
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDERS = ("frontend", "ir", "passes", "codegen", "runtime", "kernels")
ENDINGS = (".c", ".h", ".def", ".S", ".cu", ".step")
CEILING = 66000


def main():
    lines = {}
    for folder in FOLDERS:
        for top, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith(ENDINGS):
                    with open(os.path.join(top, name), "rb") as f:
                        lines[folder] = lines.get(folder, 0) + f.read().count(b"\n")
    total = sum(lines.values())
    print("%d lines: %s" % (total, ", ".join("%s %d" % row for row in lines.items())))
    if total > CEILING:
        print("at most %d" % CEILING)
    elif total <= CEILING - 250:
        print("the ceiling of %d can be %d" % (CEILING, -(-total // 250) * 250))
    return total > CEILING


if __name__ == "__main__":
    sys.exit(main())
