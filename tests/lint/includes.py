#!/usr/bin/env python3
"""Holds the directions in which folders and rooms may include each other, who may include foreign headers, that no file
name stands twice, and the prefixes of types that headers share.

frontend | passes | codegen -> ir -> kernels;  codegen -> runtime/include/stepc/step_abi.h;  runtime -> kernels;
everyone -> ir/base.  frontend/main.c and way.[ch] alone see all folders. The rooms of the frontend have an order (ROOMS), which
symbols.py holds for calls, too. Any argument: a folder to check instead of the project.
"""
import os
import re
import sys

from verdict import verdict

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDERS = ("frontend", "ir", "passes", "codegen", "runtime", "kernels")
MAY = {
    "frontend": {"frontend", "ir", "ir/base", "kernels", "abi"},
    "passes": {"passes", "ir", "ir/base", "kernels"},
    "codegen": {"codegen", "ir", "ir/base", "kernels", "abi"},
    "ir": {"ir", "ir/base", "kernels"},
    "ir/base": {"ir/base"},
    "runtime": {"runtime", "kernels", "ir/base", "abi"},
    "kernels": {"kernels"},
}
# A room uses those in lines above its own. Rooms of one line do not see each other. Layers come after the blocks that they
# are made of; blocks find them by name in a table that the context gives them, as expressions find functions and losses.
ROOMS = [
    ["frontend/document"],
    ["frontend/expr"],
    ["frontend/expr/functions"],
    ["frontend/model"],
    ["frontend/model/layers", "frontend/losses", "frontend/optim"],
    ["frontend/step"],
    ["frontend/cli"],
]
PROGRAM = ("frontend/main.c", "frontend/way.c", "frontend/way.h")
LEVELS = {room: level for level, line in enumerate(ROOMS) for room in line}
# What the name of a type in a header begins with, by folder; the last folder of a path that is listed counts.
PREFIXES = {
    "frontend": "fe way", "frontend/document": "fe expr", "frontend/optim": "optim custom fe", "frontend/cli": "cli run doc plot lsp",
    "ir": "ir plan eval infer parse report", "ir/base": "arena diag diags interval intervals json map own str",
    "passes": "pass chunk fuse memplan outline scan shard vjp vmap",
    "codegen": "cg", "codegen/nest": "nest", "codegen/lower": "lower", "codegen/llvm": "cg emit", "codegen/cuda": "cg cuda",
    "runtime": "rt step stepc", "runtime/include/stepc": "step stepc st", "kernels": "k",
}
# A foreign header stays behind few files: header prefix, who may include it, and how many files at most.
FOREIGN = [
    ("llvm-c/", r"codegen/(llvm/llvm_[a-z_]+|describe/describe)\.[ch]$", 14),
    ("nvrtc", r"codegen/cuda/cuda_[a-z_]+\.c$", 2),
    ("cuda", r"(codegen/cuda/cuda_[a-z_]+|runtime/device_cuda)\.c$", 2),
    ("mpi.h", r"runtime/comm_mpi\.c$", 1),
    ("nccl", r"runtime/(comm_nccl|nccl_library)\.c$", 2),
    ("cjson/", r"(ir/base/json_tree\.c|frontend/cli/((explain|run_names|lsp)\.h|(grad|bench_by|plot_read|explain_page)\.c))$", 8),
]


def place(path):
    if path.startswith("ir/base/"):
        return "ir/base"
    if path.startswith("runtime/include/stepc/") or path.startswith("stepc/"):
        return "abi"
    return path.split("/")[0]


def room(path):
    folder = os.path.dirname(path)
    return folder if folder in LEVELS else None


def may_use(here, there):
    """Whether a file of room `here` may use one of room `there`; NULL: of no room."""
    if not here or not there:
        return True
    return here == there or LEVELS[there] < LEVELS[here]


def sources():
    for folder in FOLDERS:
        for top, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if re.search(r"\.(c|h|def|S|cu|step)$", name):
                    yield os.path.relpath(os.path.join(top, name), ROOT).replace(os.sep, "/")


def check_names():
    """No file name twice; types in headers with a prefix."""
    faults, seen = [], {}
    for path in sources():
        name = os.path.basename(path)
        if name in seen:
            faults.append("%s: the name %s stands twice: %s" % (path, name, seen[name]))
        seen[name] = path
        if not name.endswith(".h"):
            continue
        folder = os.path.dirname(path)
        while folder not in PREFIXES:
            folder = os.path.dirname(folder)
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        for tag in re.findall(r"^(?:typedef )?(?:struct|enum|union) (\w+) \{", text, flags=re.M):
            if not any(tag == p or tag.startswith(p + "_") for p in PREFIXES[folder].split()):
                faults.append("%s: type %s: names of types in %s/ begin with %s"
                              % (path, tag, folder, " or ".join(p + "_" for p in PREFIXES[folder].split())))
    return faults


def main():
    faults, users = check_names(), {}
    for folder in FOLDERS:
        for top, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if not re.search(r"\.(c|h|def|cu)$", name):
                    continue
                path = os.path.relpath(os.path.join(top, name), ROOT).replace(os.sep, "/")
                here = place(path)
                if here == "abi":
                    here = "runtime"
                with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                    lines = f.read().split("\n")
                for number, line in enumerate(lines, 1):
                    m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
                    if not m:
                        continue
                    header = m.group(2)
                    for prefix, who, _ in FOREIGN:
                        if header.startswith(prefix):
                            users.setdefault(prefix, set()).add(path)
                            if not re.search(who, path):
                                faults.append("%s:%d: %s may only be included by %s" % (path, number, header, who))
                    if header.startswith("../") or "/../" in header:
                        faults.append("%s:%d: %s: paths start at the top of the project" % (path, number, header))
                    if not may_use(room(path), room(header)):
                        faults.append("%s:%d: the room %s comes before that of %s" % (path, number, room(path), header))
                    there = place(header)
                    if m.group(1) == '"' and there not in FOLDERS and there not in ("abi", "ir/base"):
                        if os.path.exists(os.path.join(ROOT, os.path.dirname(path), header)):
                            there = here
                        else:
                            faults.append("%s:%d: %s is not found from the top of the project" % (path, number, header))
                            continue
                    if there not in FOLDERS and there not in ("abi", "ir/base"):
                        continue
                    if path in PROGRAM or there in MAY[here]:
                        continue
                    faults.append("%s:%d: %s may not include %s (%s)" % (path, number, here, there, header))
    for prefix, _, most in FOREIGN:
        if len(users.get(prefix, ())) > most:
            faults.append("%s is included by %d files, at most %d: %s"
                          % (prefix, len(users[prefix]), most, ", ".join(sorted(users[prefix]))))
    return verdict(faults)


if __name__ == "__main__":
    ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ROOT)
    sys.exit(main())
