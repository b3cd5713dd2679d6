#!/usr/bin/env python3
"""Holds that every program of tests/tools.txt is there on a Debian machine after tests/setup.sh: its package is installed by
that script or belongs to every Debian system (priority "required", or "essential")."""
import os
import re
import shutil
import subprocess
import sys

from verdict import verdict

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def main():
    with open(os.path.join(ROOT, "tests/setup.sh"), encoding="utf-8") as f:
        installed = set(re.search(r'^stepc_packages="([^"]*)"', f.read(), re.M).group(1).split())
    with open(os.path.join(ROOT, "tests/tools.txt"), encoding="utf-8") as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    faults = ["tests/tools.txt: expected a program and its package: %s" % " ".join(row) for row in rows if len(row) != 2]
    names = [row[0] for row in rows]
    faults += ["tests/tools.txt: %s is there twice" % name for name in sorted(set(names)) if names.count(name) > 1]
    if shutil.which("dpkg-query"):
        for package in sorted({row[1] for row in rows} - installed):
            said = subprocess.run(["dpkg-query", "-W", "-f", "${Essential} ${Priority}", package], capture_output=True, text=True).stdout
            if "yes" not in said.split() and "required" not in said.split():
                faults.append("tests/tools.txt: %s: tests/setup.sh does not install it, and a Debian system may lack it" % package)
    else:
        print("skipped: no dpkg-query, so nobody knows what each Debian system has")
    return verdict(faults) or (0 if shutil.which("dpkg-query") else 77)


if __name__ == "__main__":
    sys.exit(main())
