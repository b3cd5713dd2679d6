#!/usr/bin/env python3
"""Holds rules on single words of the source: functions that are not used here, and long files."""
import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BANNED = re.compile(r"(?<![\w.>])(strcpy|strcat|sprintf|vsprintf|gets|system|popen|alloca|rand|srand)\s*\(")
ALLOCATES = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free)\s*\(")
LONGEST = 700  # lines; a file that grows beyond this is two


def code_lines(text):
    """The text without comments and strings, line by line."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S).split("\n")


def main():
    faults = []
    for folder in ("frontend", "ir", "passes", "codegen", "runtime", "kernels"):
        for top, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if not re.search(r"\.[ch]$", name):
                    continue
                path = os.path.relpath(os.path.join(top, name), ROOT)
                with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                    lines = code_lines(f.read())
                if len(lines) > LONGEST:
                    faults.append("%s: %d lines, at most %d" % (path, len(lines), LONGEST))
                for number, line in enumerate(lines, 1):
                    m = BANNED.search(line)
                    if m:
                        faults.append("%s:%d: %s is not used here" % (path, number, m.group(1)))
                    m = ALLOCATES.search(line)
                    if m and folder in ("frontend", "ir", "passes", "codegen") and path != "ir/base/arena.c" \
                            and not path.startswith("frontend/cli/run"):  # a run is a host: its buffers live and die
                        faults.append("%s:%d: %s: compiler memory comes from arenas" % (path, number, m.group(1)))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
