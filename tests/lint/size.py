#!/usr/bin/env python3
"""Holds how large the product may be: lines of its code, and lines of the formulas that it carries as texts (.step). Who needs
more lines finds some that are not needed, or raises the ceiling in a commit that says why; who has made it smaller by 250 lowers it."""
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDERS = ("frontend", "ir", "passes", "codegen", "runtime", "kernels")
CEILINGS = {"code": ((".c", ".cc", ".h", ".def", ".S", ".cu"), 119_060), "formulas": ((".step",), 3290)}


def main():
    too_many = False
    for what, (endings, ceiling) in CEILINGS.items():
        lines = {}
        for folder in FOLDERS:
            for top, _, names in os.walk(os.path.join(ROOT, folder)):
                for name in names:
                    if name.endswith(endings):
                        with open(os.path.join(top, name), "rb") as f:
                            lines[folder] = lines.get(folder, 0) + f.read().count(b"\n")
        total = sum(lines.values())
        print("%s: %d lines: %s" % (what, total, ", ".join("%s %d" % row for row in lines.items())))
        if total > ceiling:
            print("at most %d" % ceiling)
            too_many = True
        elif total <= ceiling - 250:
            print("the ceiling of %d can be %d" % (ceiling, -(-total // 250) * 250))
    return too_many


if __name__ == "__main__":
    sys.exit(main())
