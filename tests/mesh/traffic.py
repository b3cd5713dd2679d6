#!/usr/bin/env python3
"""What each device of a mesh sends in one step, beside what XLA's partitioner sends for the same model with the same
annotations: bytes by ring formulas, for the programs of programs.py and models.py. XLA's side is recorded in traffic.json; never above MOST, nor above what was reached.

    tests/mesh/traffic.py --stepc build/stepc [PROGRAM...]
    tests/mesh/traffic.py --stepc build/stepc --renew --jax PYTHON     a Python with jax 0.8 and optax writes traffic.json anew
"""
import argparse
import concurrent.futures
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from mesh import models, programs

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "traffic.json")
MOST = 1.02  # of XLA's bytes
LARGEST = 1.0  # of its temporaries


def report(stepc, document, folder):
    path = os.path.join(folder, document["name"] + ".json")
    with open(path, "w") as f:
        json.dump(document, f)
    done = subprocess.run([stepc, "explain", path, "--comm", "--json"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError("%s: exit %d\n%s" % (document["name"], done.returncode, done.stderr[-1500:]))
    return json.loads(done.stdout)


def sent(report):
    """Bytes per step, by how many commands, and those of temporaries."""
    step = next(e for e in report["entries"] if e["name"] == "step")
    commands = step.get("collectives", [])
    return sum(c["ring"] * c["times"] for c in commands), len({c["command"] for c in commands}), step["memory"]["arena"]


def state(report):
    """Bytes of parameters and of the optimizer's state that a device holds."""
    total, width = 0, {"bfloat16": 2, "float16": 2}
    for t in report["tensors"]:
        if t["role"] in ("param", "opt_state"):
            parts = [math.prod(report["mesh"][a] for a in axes) for axes in t["sharding"]]
            total += width.get(t["dtype"], 4) * math.prod(-(-n // k) for n, k in zip(t["shape"], parts))
    return total


def renew(options, reports):
    wanted = [{"document": d, "parameters": {t["name"]: t["shape"] for t in r["tensors"] if t["role"] == "param"}} for d, r in reports]
    done = subprocess.run([options.jax, os.path.join(HERE, "traffic_xla.py")], input=json.dumps({"programs": wanted}), stdout=subprocess.PIPE, text=True, check=True)
    old = json.load(open(RECORDED)) if os.path.exists(RECORDED) else {}
    with open(RECORDED, "w") as f:
        json.dump(old | json.loads(done.stdout), f, indent=1, sort_keys=True)
        f.write("\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--renew", action="store_true")
    p.add_argument("--jax", default=sys.executable, metavar="PYTHON")
    p.add_argument("programs", nargs="*")
    options = p.parse_args()
    reached = programs.REACHED | models.REACHED
    chosen = [d for d in programs.PROGRAMS + models.PROGRAMS if not options.programs or d["name"] in options.programs]
    with tempfile.TemporaryDirectory(prefix="stepc-traffic-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        reports = list(zip(chosen, pool.map(lambda d: report(options.stepc, d, folder), chosen)))
    if options.renew:
        renew(options, reports)
    recorded, wrong = json.load(open(RECORDED)), 0
    print("%-26s %10s %10s %5s %9s   %s" % ("program", "stepc", "XLA", "", "commands", "temporaries"))
    for document, found in reports:
        name, (ours, count, temporaries) = document["name"], sent(found)
        theirs = recorded[name]
        bytes_over, memory_over = ours / theirs["ring"], temporaries / theirs["temporaries"]
        faults = ["sends more"] * (bytes_over > reached.get(name, MOST)) + ["is larger"] * (memory_over > LARGEST)
        faults += ["holds %d bytes, XLA %d" % (state(found), theirs["state"])] * (state(found) > theirs["state"])
        wrong += bool(faults)
        print("%-26s %10.0f %10.0f %5.2f %4d, %3d   %5.2f %s" % (name, ours, theirs["ring"], bytes_over, count, theirs["collectives"], memory_over, " ".join(faults)))
    print("%d programs, %d wrong" % (len(reports), wrong))
    return 1 if wrong or not reports else 0


if __name__ == "__main__":
    sys.exit(main())
