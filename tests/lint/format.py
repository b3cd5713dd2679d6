#!/usr/bin/env python3
"""Holds that every C and C++ file is as .clang-format says, by the version of clang-format that tests/setup.sh installs: others
break lines elsewhere. With --write: formats instead."""
import os
import re
import shutil
import subprocess
import sys

from verdict import verdict

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FORMATTER, VERSION = "clang-format-16", "16."
FOLDERS = ("frontend", "ir", "passes", "codegen", "runtime", "kernels", "samples", "tests")
LONGEST = 120  # columns; tables, which the formatter leaves alone, may be wider


def sources():
    for folder in FOLDERS:
        for top, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if re.search(r"\.(c|cc|h|cpp|hpp)$", name):
                    yield os.path.join(top, name)


def too_wide(path):
    table = False
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            table = "clang-format off" in line or table and "clang-format on" not in line
            if not table and len(line.rstrip("\n")) > LONGEST:
                yield "%s:%d: over %d columns" % (os.path.relpath(path, ROOT), number, LONGEST)


def main():
    if not shutil.which(FORMATTER):
        print("%s is not installed: tests/setup.sh does it" % FORMATTER)
        return 1
    said = subprocess.run([FORMATTER, "--version"], capture_output=True, text=True).stdout
    if " version " + VERSION not in said:
        print("%s is of another version than %s: %s" % (FORMATTER, VERSION, said.strip()))
        return 1
    paths = list(sources())
    if "--write" in sys.argv[1:]:
        return subprocess.run([FORMATTER, "-i", *paths]).returncode
    done = subprocess.run([FORMATTER, "--dry-run", "-Werror", *paths], capture_output=True, text=True)
    faults = sorted(set(re.findall(r"^(\S+?:\d+):\d+: error", done.stderr, re.M)))
    faults = [os.path.relpath(fault, ROOT) + ": is not as .clang-format says (tests/lint/format.py --write)" for fault in faults]
    for path in paths:
        faults += too_wide(path)
    return verdict(faults) or int(done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
