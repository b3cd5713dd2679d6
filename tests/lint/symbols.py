#!/usr/bin/env python3
"""Holds the directions of calls, by the symbols of the libraries: symbols.py ARCHIVE...

A file may use symbols of the folders that it may include, and of rooms that come before its own (includes.py). Files that
use each other in a circle are a fault unless a row of CIRCLES has exactly them, with the reason: recursion of the idea itself. A row
that has other files than its circle is a fault, too. The shape that keeps files out of circles: a file that walks, or that
holds a table, calls the rules; what the rules share is in a file of its own.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from includes import MAY, may_use, place, room, sources  # noqa: E402
from verdict import verdict  # noqa: E402

CIRCLES = [
    ("frontend/model/block.c frontend/model/structure.c frontend/model/micro_vmap.c", "blocks contain blocks"),
    ("frontend/expr/expr_call.c frontend/expr/expr_complex.c frontend/expr/expr_eval.c frontend/expr/expr_index.c frontend/expr/library.c",
     "an expression calls a function, a function is a formula or is made of calls with both parts of a complex value, and a formula is made of expressions"),
    ("ir/build.c ir/fold.c ir/fold_constant.c ir/fold_shape.c", "making a node folds it, and what it folds to is made of nodes"),
    ("ir/eval.c ir/eval_control.c", "an op with a body evaluates a function"),
    ("ir/parse.c ir/plan_parse.c", "the text of a module holds that of its plan, which names values of the module"),
    ("passes/vmap.c passes/vmap_control.c", "an op with a body is mapped by mapping its body"),
    ("passes/autodiff.c passes/vjp_control.c passes/vjp_scan.c", "an op with a body is differentiated by its body"),
    ("codegen/lower/lower_value.c codegen/lower/lower_taps.c codegen/lower/lower_window.c",
     "a value is computed from values: those of a window and of taps, too"),
]


def read(archives):
    """Who defines a symbol, and what every file uses of others: {user: {definer: {symbols}}}."""
    paths = {os.path.basename(p): p for p in sources()}
    defined, wanted, path = {}, {}, None
    for archive in archives:
        text = subprocess.run(["nm", "-g", "-P", archive], check=True, stdout=subprocess.PIPE, text=True).stdout
        for line in text.split("\n"):
            member = re.match(r".*\[(.+)\.o\]:$", line)
            words = line.split()
            if member:
                path = paths.get(member.group(1))
            elif path and len(words) > 1 and words[1] in "Uw":
                wanted.setdefault(path, set()).add(words[0])
            elif path and len(words) > 1:
                defined[words[0]] = path
    uses = {path: {} for path in set(defined.values()) | set(wanted)}
    for path, symbols in wanted.items():
        for symbol in symbols:
            if defined.get(symbol, path) != path:
                uses[path].setdefault(defined[symbol], set()).add(symbol)
    return uses


def circles(uses):
    """Tarjan's strongly connected components of two files and more."""
    number, low, stack, found = {}, {}, [], []

    def visit(path):
        number[path] = low[path] = len(number)
        stack.append(path)
        for other in sorted(uses[path]):
            if other not in number:
                visit(other)
            if other in stack:
                low[path] = min(low[path], low[other])
        if low[path] == number[path]:
            at = stack.index(path)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for path in sorted(uses):
        if path not in number:
            visit(path)
    return found


def folder_of(path):
    here = place(path)
    return "runtime" if here == "abi" else here


def main():
    uses, faults = read(sys.argv[1:]), []
    if not uses:
        return "no symbols in %s" % " ".join(sys.argv[1:])
    for path in sorted(uses):
        for other in sorted(uses[path]):
            symbols = ", ".join(sorted(uses[path][other]))
            if not may_use(room(path), room(other)):
                faults.append("%s: the room comes before that of %s, of which it uses %s" % (path, other, symbols))
            if folder_of(other) not in MAY[folder_of(path)] and {folder_of(path), folder_of(other)} != LINKED:
                faults.append("%s may not use %s: %s" % (path, other, symbols))
    allowed, found = {frozenset(files.split()) for files, _ in CIRCLES}, circles(uses)
    for circle in found:
        if frozenset(circle) not in allowed:
            inside = [(a, b) for a in circle for b in sorted(uses[a]) if b in circle]
            faults.append("these files use each other in a circle: %s\n%s" % (" ".join(circle), "\n".join(
                "    %s -> %s: %s" % (a, b, ", ".join(sorted(uses[a][b]))) for a, b in inside)))
    for files in sorted(sorted(row) for row in allowed - {frozenset(circle) for circle in found}):
        faults.append("no circle of just these files, to be taken off the list: %s" % " ".join(files))
    return verdict(faults)


LINKED = {"frontend", "runtime"}  # `stepc run` opens objects and files by the runtime's headers for hosts

if __name__ == "__main__":
    sys.exit(main())
