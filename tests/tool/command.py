"""The command lines of tests and fuzzers."""
import argparse
import collections
import concurrent.futures
import os

from . import recorded


def parser(description, cases, keep=True):
    """What all that draw cases can be asked."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--cases", type=int, default=cases)
    if keep:
        p.add_argument("--keep", help="folder for the cases that disagree")
    p.add_argument("-v", action="store_true", help="say something of every case")
    return p


def options(p):
    """What is asked of those that draw a case from each seed."""
    p.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    p.add_argument("--compile", type=float, default=0.3, help="the part of the cases that is compiled instead of interpreted")
    p.add_argument("--compile-args", default="")
    p.add_argument("-j", type=int, default=1)
    return p.parse_args()


def seeds(description, cases, **more):
    """The command line of those that play seeds one after another; `more`: what else can be set, with its default."""
    p = parser(description, cases, keep=False)
    p.add_argument("--seed", type=int, default=1)
    for name, default in more.items():
        p.add_argument("--" + name.replace("_", "-"), type=str if isinstance(default, str) else float, default=default)
    return p.parse_args()


def edits(description, cases):
    """The command line of those that draw edits of documents from one seed."""
    p = parser(description, cases)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("documents", nargs="*")
    p.add_argument("-j", type=int, default=1)
    return p.parse_args()


def campaign(description, helper, workers=0):
    """The command line of those that let something come to harm: what they need, some points or all of them, in so many threads."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", required=True, type=os.path.abspath)
    p.add_argument("--" + helper, required=True, type=os.path.abspath)
    p.add_argument("--long", action="store_true")
    if workers:
        p.add_argument("-j", type=int, default=workers)
    return p


def keep(options, name, text):
    """A case into the folder of --keep, if that is wanted."""
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        with open(os.path.join(options.keep, name), "w") as f:
            f.write(text)


QUIET = ("agrees", "unsettled", "empty", "left out", "refused by Optax", "refused alone")


def loop(options, one, clear=lambda: None):
    """Plays cases, one(options, seed) -> (outcome, why, what the case is), and says what is not as it should be: the exit code.
    `clear` is called now and then."""
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(getattr(options, "j", 1)) as pool:
        seeds = range(options.seed, options.seed + options.cases)
        for seed, (outcome, why, text) in zip(seeds, pool.map(lambda seed: one(options, seed), seeds)):
            counts[outcome] += 1
            if options.v or outcome not in QUIET:
                print("%s %d: %s\n    %s" % (outcome, seed, why, text), flush=True)
            if counts.total() % 25 == 0:
                clear()
    print(summary(counts))
    return 1 if counts["differs"] or counts["fails"] or counts["generator"] else 0


def summary(counts):
    return ", ".join("%d %s" % (n, k) for k, n in counts.most_common())


def record(description, names, one):
    """The command line of those that record cases, one(name, folder of the cases): all of them, or those that are named."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME", help="of " + ", ".join(names))
    p.add_argument("--out", default=recorded.CASES, help="folder of the folders of families")
    options = p.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        p.error("no case %s; there are %s" % (", ".join(sorted(unknown)), ", ".join(names)))
    for name in options.names or names:
        one(name, options.out)
