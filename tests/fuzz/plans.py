#!/usr/bin/env python3
"""One or two edits of the plan in a dump of the compiler: a number, a line that is gone, given twice or exchanged with another
one. stepc must compile the text or refuse it with a place, never crash and never call it an internal error.

    tests/fuzz/plans.py --stepc build/stepc --cases 600 [--seed 1] [DOCUMENT...]

By default the documents are those of tests/resume. It needs nothing but Python and NumPy.
"""
import collections
import concurrent.futures
import glob
import os
import random
import re
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, command, runner

NUMBERS = (0, 1, 2, 3, 7, 64, 2**32 - 1, 2**64 - 1)
PLANNED = re.compile(r"\s*(plan|group|command|buffer|kernel|loop)")


def another(r, number):
    return str(r.choice(NUMBERS + (int(number) + 1, max(0, int(number) - 1))))


def edit(r, lines, first):
    at, how = r.randrange(first, len(lines)), r.random()
    numbers = list(re.finditer(r"\d+", lines[at]))
    if numbers and how < 0.6:
        m = r.choice(numbers)
        lines[at] = lines[at][: m.start()] + another(r, m.group()) + lines[at][m.end() :]
    elif how < 0.75:
        del lines[at]
    elif how < 0.9:
        lines.insert(r.randrange(first, len(lines)), lines[at])
    else:
        other = r.randrange(first, len(lines))
        lines[at], lines[other] = lines[other], lines[at]


def one(options, texts, n, folder):
    r = random.Random("%d.%d" % (options.seed, n))
    lines = r.choice(texts).split("\n")
    first = next(i for i, line in enumerate(lines) if PLANNED.match(line))
    for _ in range(r.randint(1, 2)):
        edit(r, lines, first)
    path = os.path.join(folder, "%d.sir" % n)
    with open(path, "w") as f:
        f.write("\n".join(lines))
    try:
        p = runner.attempt(options.stepc, "compile", path, "-o", path + ".so", "--reproducer", folder, verify=False)
        outcome = {0: "accepted", 1: "refused"}.get(p.returncode, "crash")
        said = "exit %d: %s" % (p.returncode, p.stderr.strip()[:300])
    except runner.Failed as e:
        outcome, said = "crash", str(e)
    for made in (path, path + ".so"):
        if os.path.exists(made):
            os.unlink(made)
    return outcome, said, "\n".join(lines)


def main():
    options = command.edits(__doc__, 600)
    texts, counts = [], collections.Counter()
    with tempfile.TemporaryDirectory(prefix="stepc-plans-") as folder, concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for n, document in enumerate(options.documents or sorted(glob.glob(ROOT + "/tests/resume/*.json"))):
            dumps = os.path.join(folder, "dump%d" % n)
            os.mkdir(dumps)
            runner.call(options.stepc, "compile", document, "-o", dumps + "/step.so", "--dump=fuse,schedule,memplan", "--dump-dir", dumps)
            texts += [open(path).read() for path in sorted(glob.glob(dumps + "/*.sir"))]
        for n, (outcome, said, text) in enumerate(pool.map(lambda n: one(options, texts, n, folder), range(options.cases))):
            counts[outcome] += 1
            if outcome == "crash":
                print("%d: %s" % (n, said), flush=True)
                command.keep(options, "plan_%d_%d.sir" % (options.seed, n), text)
    print("%d edits, %s" % (options.cases, command.summary(counts)))
    return 1 if counts["crash"] or not counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
