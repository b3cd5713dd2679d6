#!/usr/bin/env python3
"""Holds rules on single words of the source: functions that are not used here, long files, diagnostics without a page."""
import os
import re
import sys

from verdict import verdict

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BANNED = re.compile(r"(?<![\w.>])(strcpy|strcat|sprintf|vsprintf|gets|system|popen|alloca|rand|srand)\s*\(")
ALLOCATES = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free)\s*\(")
LONGEST = 800  # lines; a file that grows beyond this is two


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
    used = {}
    for folder in ("frontend", "ir", "passes", "codegen", "runtime"):
        for top, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if re.search(r"\.[ch]$", name):
                    with open(os.path.join(top, name), encoding="utf-8") as f:
                        for code in re.findall(r'"(E0\d{3})"', f.read()):
                            used.setdefault(code, os.path.relpath(os.path.join(top, name), ROOT))
    with open(os.path.join(ROOT, "frontend/cli/codes.def"), encoding="utf-8") as f:
        pages = re.findall(r"^CODE\((E\d+)", f.read(), re.M)
    faults += ["%s: %s has no page in frontend/cli/codes.def" % (used[c], c) for c in sorted(set(used) - set(pages))]
    faults += ["frontend/cli/codes.def: %s is there twice" % c for c in sorted(set(pages)) if pages.count(c) > 1]
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(main())
