#!/usr/bin/env python3
"""Runs the fuzzers: a few seconds of each that needs Python and NumPy alone, as tests do, or all of them for long, with seeds
that were not tried before.

    tests/fuzz/run.py --quick [NAME...]                   the quick set; 77 if a fuzzer that is named lacks a module
    tests/fuzz/run.py --long [--minutes 60] [NAME...]     in turn until the time is up; every fuzzer leaves a line in LEDGER.md
    tests/fuzz/run.py --list                              names of the quick set

A finding is minimised and becomes a recorded case or a unit test; the line of the ledger says what became of it.
"""
import argparse
import collections
import datetime
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import ROOT, runner

LEDGER = os.path.join(HERE, "LEDGER.md")
SKIPPED = 77
JAX = ("jax", "optax", "flax")
# arguments besides --seed and --cases; cases of a quick and of a long turn, and by how much the seed of the next turn is larger
# (0: by the cases, each of which has a seed of its own); modules; arguments of a long turn, where they are others. No cases: what the
# arguments name is played, once.
Fuzzer = collections.namedtuple("Fuzzer", "script arguments quick turn stride modules long", defaults=(1, (), None))
FUZZERS = {
    "arrays": Fuzzer("arrays.py", [], 20, 500),
    "agree": Fuzzer("agree.py", [], 60, 200, long=["--quickly", "-j", "{jobs}"]),
    "bytes": Fuzzer("documents.py", ["--bytes"], 200, 3000),
    "compiled": Fuzzer("documents.py", ["--compile"], 50, 1000),
    "convolutions": Fuzzer("convolutions.py", [], 20, 400),
    "documents": Fuzzer("documents.py", [], 200, 3000),
    "invariant": Fuzzer("invariant.py", [], 8, 100),
    "library": Fuzzer("library.py", [], 6, 100, 0),
    "keys": Fuzzer("keys.py", ["--share", "40"], None, None, long=[]),
    "mistakes": Fuzzer("mistakes.py", [], 500, 3000),
    "parts": Fuzzer("parts.py", ["--quick"], None, None, long=[]),
    "plans": Fuzzer("plans.py", [], 60, 600, 0),
    "unfolding": Fuzzer("unfolding.py", [], 40, 2000),
    "updates": Fuzzer("updates.py", [], 24, 1000),
    "products": Fuzzer("products.py", [], 20, 500),
    "sequences": Fuzzer("sequences.py", [], 24, 500),
    "sharded": Fuzzer("sharded.py", [], 20, 200, 0),
    "layouts": Fuzzer("layouts.py", [], 12, 100, 0),
    "expressions": Fuzzer("expressions.py", [], 50, 500, 1, JAX),
    "layers": Fuzzer("layers.py", [], 5, 50, 0, JAX),
    "losses": Fuzzer("losses.py", [], 10, 100, 0, JAX),
    "meshes": Fuzzer("meshes.py", [], 5, 50, 0, JAX),
    "microbatches": Fuzzer("microbatches.py", [], 5, 50, 0, JAX),
    "optimizers": Fuzzer("optimizers.py", [], 10, 100, 0, JAX),
    "precision": Fuzzer("precision.py", [], 5, 50, 0, JAX),
    "rows": Fuzzer("rows.py", [], 20, 300, 1, JAX),
    "states": Fuzzer("states.py", [], 10, 100, 0, JAX),
    "traffic": Fuzzer("layouts.py", ["--jax", sys.executable], 10, 60, 0, JAX),
}
QUICK = [name for name, fuzzer in FUZZERS.items() if not fuzzer.modules]
ROW = re.compile(r"^\| \S+ \| \S+ \| (\w+) \| (\d+) to (\d+) \|", re.M)


def missing(name):
    return [m for m in FUZZERS[name].modules if importlib.util.find_spec(m) is None]


def turn(options, name, seed, cases, arguments):
    """(exit code, what was printed)"""
    numbers = [] if cases is None else ["--seed", str(seed), "--cases", str(cases)]
    done = subprocess.run([sys.executable, os.path.join(HERE, FUZZERS[name].script), "--stepc", options.stepc, *numbers, *arguments],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=ROOT,
                          env=runner.environment())
    return done.returncode, done.stdout


def counts(said):
    """The line that counts outcomes."""
    lines = said.strip().splitlines() or ["nothing said"]
    return next((line for line in reversed(lines) if re.match(r"\d+ \w", line)), lines[-1])


def quick(options):
    failed = skipped = 0
    for name in options.names or QUICK:
        fuzzer = FUZZERS[name]
        if missing(name):
            print("%s skipped: no %s" % (name, ", ".join(missing(name))))
            skipped += 1
            continue
        begun = time.monotonic()
        code, said = turn(options, name, 1, fuzzer.quick, fuzzer.arguments)
        print("%s, %.1f s: %s" % (name, time.monotonic() - begun, said.strip() if code else counts(said)), flush=True)
        failed += code != 0
    return 1 if failed else SKIPPED if skipped else 0


def next_seed(name):
    """The first seed that the ledger does not have; those of the quick set are not new either."""
    with open(LEDGER, encoding="utf-8") as f:
        return max([int(last) + 1 for who, _, last in ROW.findall(f.read()) if who == name] + [1 + max(1, FUZZERS[name].quick or 1)])


def commit():
    if not shutil.which("git"):
        return "-"
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip() or "-"


def long(options):
    names = options.names or list(FUZZERS)
    for name in [n for n in names if missing(n)]:
        print("%s skipped: no %s" % (name, ", ".join(missing(name))))
    names = [n for n in names if not missing(n)]
    tried = {name: [next_seed(name), next_seed(name), 0, []] for name in names}  # first seed, next one, cases, findings
    until, left = time.monotonic() + 60 * options.minutes, list(names)
    while left and time.monotonic() < until:
        for name in list(left):
            if time.monotonic() >= until:
                break
            fuzzer, row = FUZZERS[name], tried[name]
            arguments = fuzzer.arguments if fuzzer.long is None else [a.format(jobs=options.jobs) for a in fuzzer.long]
            code, said = turn(options, name, row[1], fuzzer.turn, arguments)
            print("%s, seed %d: %s" % (name, row[1], said.strip() if code else counts(said)), flush=True)
            if code:
                row[3].append(said.strip().split("\n")[0][:120].replace("|", "/"))
            if fuzzer.turn is None:
                row[2] += sum(map(int, re.findall(r"(\d+) (?:agrees|differs|failed)", counts(said))))
                left.remove(name)
            else:
                row[2] += fuzzer.turn
            row[1] += fuzzer.stride or fuzzer.turn
    with open(LEDGER, "a", encoding="utf-8") as f:
        for name, (first, after, cases, findings) in tried.items():
            if cases:
                f.write("| %s | %s | %s | %d to %d | %d | %s |\n" % (datetime.date.today(), commit(), name, first, after - 1, cases, "; ".join(findings) or "none"))
    return any(row[3] for row in tried.values())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default=os.path.join(ROOT, "build/stepc"), type=os.path.abspath)
    what = p.add_mutually_exclusive_group(required=True)
    for option in ("--quick", "--long", "--list"):
        what.add_argument(option, action="store_true")
    p.add_argument("--minutes", type=float, default=60, help="of a long run, in all")
    p.add_argument("--jobs", type=int, default=1, help="cases at once in a long run, where the fuzzer can")
    p.add_argument("names", nargs="*", metavar="NAME", help="of " + ", ".join(FUZZERS))
    options = p.parse_args()
    unknown = sorted(set(options.names) - set(FUZZERS))
    if unknown:
        p.error("no fuzzer %s; there are %s" % (", ".join(unknown), ", ".join(FUZZERS)))
    if options.list:
        print("\n".join(QUICK))
        return 0
    return quick(options) if options.quick else long(options)


if __name__ == "__main__":
    sys.exit(main())
