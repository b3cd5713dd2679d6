"""The ledger of long campaigns, tests/fuzz/LEDGER.md: a row for each, with the commit that it was run at."""
import datetime
import os
import subprocess

from . import ROOT, TESTS

LEDGER = os.path.join(TESTS, "fuzz", "LEDGER.md")


def add(what, tried, faults, seed="-"):
    """`faults`: a list of what was found."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    with open(LEDGER, "a", encoding="utf-8") as f:
        f.write("| %s | %s | %s | %s | %d | %s |\n" % (datetime.date.today(), commit, what, seed, tried, "%d faults" % len(faults) if faults else "none"))
