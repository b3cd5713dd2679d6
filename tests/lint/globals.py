#!/usr/bin/env python3
"""Holds that nothing outlives a call: the only variables with static storage that can change are those of the table below, each
with its reason. Constant data that the loader relocates (.data.rel.ro) does not change.

    tests/lint/globals.py OBJECT-OR-ARCHIVE...
"""
import re
import subprocess
import sys

from verdict import verdict

KNOWN = {
    "bug_hook": "what a thread calls before BUG aborts, so that a pass can leave its input behind",
    "caught": "the signal that ends a run after its step: a handler has no other way to say it",
    "save_wanted": "the signal that has a run save what it has, likewise",
    "cg_llvm_table": "where LLVM's functions are, once it is opened; then its pages cannot be written",
    "live": "the instances that there are, so that one is not destroyed twice",
    "live_lock": "guards them",
    "record_key": "the thread's last error, which step.h promises for as long as the thread lives",
    "record_lock": "so that record_key is made once",
    "record_ready": "whether there is a record_key",
}


def variables(path):
    """(object file, name) of what lies in a section that can be written."""
    listed = subprocess.run(["nm", "-f", "sysv", path], capture_output=True, text=True, check=True).stdout
    file = path.split("/")[-1]
    for line in listed.splitlines():
        begins = re.match(r"Symbols from .*\[(.*)\]:$", line)
        if begins:
            file = begins.group(1)
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == 7 and columns[2] in "bBdDC" and columns[3] != "SECTION" and not columns[6].startswith(".data.rel.ro"):
            yield re.sub(r"\.o$", "", file), columns[0].split(".")[0]


def main():
    paths = sys.argv[1:]
    found = sorted({variable for path in paths for variable in variables(path)})
    names = [name for _, name in found]
    faults = ["%s: %s can change and is no variable of tests/lint/globals.py: pass it on, or make it const" % (file, name)
              for file, name in found if name not in KNOWN or names.count(name) > 1]
    faults += ["%s is gone: take it out of tests/lint/globals.py" % name for name in KNOWN if name not in names]
    print("%d variables in %d files" % (len(found), len(paths)))
    return verdict(faults) or int(not paths)


if __name__ == "__main__":
    sys.exit(main())
