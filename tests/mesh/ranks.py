#!/usr/bin/env python3
"""Recorded cases over several ranks: each case of the family mesh, on its largest mesh that two ranks can share, is compiled,
its tables are linked with tests/mesh/ranks.c and the runtime, and that trains in one process, as two and four ranks, and on
devices whose memory the host cannot read. All agree bit for bit, and the losses are those recorded.

    tests/mesh/ranks.py --stepc build/stepc --runtime build/libstep_runtime.a [CASE...]
"""
import argparse
import concurrent.futures
import glob
import math
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, comparison, recorded

FLAGS = ["-std=gnu11", "-O1", "-g", "-D_GNU_SOURCE", "-I", ROOT, "-I", os.path.join(ROOT, "runtime", "include")]


def devices(arguments, document):
    """How many devices a variant of a case has."""
    if arguments:
        return math.prod(int(axis.split("=")[1]) for axis in arguments[1].split(","))
    return math.prod(document["mesh"]["axes"].values())


def said(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError("%s: exit %d\n%s" % (os.path.basename(command[0]), done.returncode, done.stderr[-1500:]))
    return done.stdout


def play(options, path, main, folder):
    """Why a case is wrong, None: it is not."""
    case = recorded.Case(path)
    variant = max((v for v in case.variants if devices(v, case.document) % 2 == 0), key=lambda v: devices(v, case.document))
    folder = os.path.join(folder, case.name)
    model = case.unpack(folder)
    init = os.path.join(folder, "init.safetensors")
    try:
        said(options.stepc, "compile", model, *variant, "-q", "-o", os.path.join(folder, "case.so"), "--save-temps=" + folder)
        tables, program = glob.glob(os.path.join(folder, "*.o")), os.path.join(folder, "ranks")
        said("cc", "-o", program, main, *tables, options.runtime, "-lm", "-lpthread", "-ldl")
        out = said(program, str(case.steps), os.path.join(folder, "data.safetensors"), init if os.path.exists(init) else "-")
        comparison.agree("loss", [float(x) for x in out.split()], case.metrics["loss"], case.rtol, case.atol)
    except (RuntimeError, comparison.Differs) as e:
        return "%s %s: %s" % (case.name, " ".join(variant), e)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--runtime", default="build/libstep_runtime.a", type=os.path.abspath)
    p.add_argument("cases", nargs="*")
    options = p.parse_args()
    paths = [path[:-5] for path in sorted(glob.glob(os.path.join(recorded.CASES, "mesh", "*.json")))]
    paths = [path for path in paths if not options.cases or os.path.basename(path) in options.cases]
    with tempfile.TemporaryDirectory(prefix="stepc-ranks-") as folder:
        main = os.path.join(folder, "ranks.o")
        said("cc", *FLAGS, "-Wall", "-Wextra", "-Werror", "-c", os.path.join(ROOT, "tests", "mesh", "ranks.c"), "-o", main)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            faults = [why for why in pool.map(lambda path: play(options, path, main, folder), paths) if why]
    print("\n".join(faults + ["%d cases, %d wrong" % (len(paths), len(faults))]))
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
