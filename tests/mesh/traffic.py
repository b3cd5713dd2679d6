#!/usr/bin/env python3
"""What each device of a mesh sends in one step, beside what XLA's partitioner sends for the same model with the same
annotations: bytes by ring formulas, for the programs of programs.py. XLA's side is recorded in traffic.json; never above MOST.

    tests/mesh/traffic.py --stepc build/stepc [PROGRAM...]
    tests/mesh/traffic.py --stepc build/stepc --renew --jax PYTHON     a Python with jax 0.8 and optax writes traffic.json anew
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from mesh import programs

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "traffic.json")
MOST = 1.02  # of XLA's bytes


def report(stepc, document, folder):
    path = os.path.join(folder, document["name"] + ".json")
    with open(path, "w") as f:
        json.dump(document, f)
    done = subprocess.run([stepc, "explain", path, "--comm", "--json"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError("%s: exit %d\n%s" % (document["name"], done.returncode, done.stderr[-1500:]))
    return json.loads(done.stdout)


def sent(report):
    """Bytes per step, and by how many commands."""
    commands = next(e for e in report["entries"] if e["name"] == "step").get("collectives", [])
    return sum(c["ring"] * c["times"] for c in commands), len(commands)


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
    chosen = [d for d in programs.PROGRAMS if not options.programs or d["name"] in options.programs]
    with tempfile.TemporaryDirectory(prefix="stepc-traffic-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        reports = list(zip(chosen, pool.map(lambda d: report(options.stepc, d, folder), chosen)))
    if options.renew:
        renew(options, reports)
    recorded, wrong = json.load(open(RECORDED)), 0
    print("%-26s %12s %12s %7s  %s" % ("program", "stepc", "XLA", "", "commands"))
    for document, found in reports:
        name, (ours, count) = document["name"], sent(found)
        theirs = recorded[name]
        most = programs.ABOVE.get(name, MOST)
        wrong += ours > most * theirs["ring"]
        print("%-26s %12.0f %12.0f %7.2f  %d, %d%s" % (name, ours, theirs["ring"], ours / theirs["ring"], count, theirs["collectives"], "  MORE than %.2f" % most if ours > most * theirs["ring"] else ""))
    print("%d programs, %d wrong" % (len(reports), wrong))
    return 1 if wrong or not reports else 0


if __name__ == "__main__":
    sys.exit(main())
