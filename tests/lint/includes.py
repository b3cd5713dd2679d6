#!/usr/bin/env python3
"""Holds the directions in which folders may include each other, and who may include foreign headers.

frontend | passes | codegen -> ir -> kernels;  codegen -> runtime/include/stepc/step_abi.h;  runtime -> kernels;
everyone -> ir/base.  frontend/main.c alone sees all folders. Any argument: a folder to check instead of the project.
"""
import os
import re
import sys

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", ".."))
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
# A foreign header stays behind few files: header prefix, who may include it, and how many files at most.
FOREIGN = [
    ("llvm-c/", r"codegen/(llvm/llvm_[a-z_]+|describe/describe)\.[ch]$", 14),
    ("nvrtc", r"codegen/cuda/cuda_[a-z_]+\.c$", 2),
    ("cuda", r"(codegen/cuda/cuda_[a-z_]+|runtime/device_cuda)\.c$", 2),
    ("mpi.h", r"runtime/comm_mpi\.c$", 1),
    ("nccl", r"runtime/comm_nccl\.c$", 1),
    ("cjson/", r"(ir/base/json_tree|frontend/cli/(explain|grad))\.c$", 3),
]


def place(path):
    if path.startswith("ir/base/"):
        return "ir/base"
    if path.startswith("runtime/include/stepc/") or path.startswith("stepc/"):
        return "abi"
    return path.split("/")[0]


def main():
    faults, users = [], {}
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
                    there = place(header)
                    if m.group(1) == '"' and there not in FOLDERS and there not in ("abi", "ir/base"):
                        if os.path.exists(os.path.join(ROOT, os.path.dirname(path), header)):
                            there = here
                        else:
                            faults.append("%s:%d: %s is not found from the top of the project" % (path, number, header))
                            continue
                    if there not in FOLDERS and there not in ("abi", "ir/base"):
                        continue
                    if path == "frontend/main.c" or there in MAY[here]:
                        continue
                    faults.append("%s:%d: %s may not include %s (%s)" % (path, number, here, there, header))
    for prefix, _, most in FOREIGN:
        if len(users.get(prefix, ())) > most:
            faults.append("%s is included by %d files, at most %d: %s"
                          % (prefix, len(users[prefix]), most, ", ".join(sorted(users[prefix]))))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
