#!/usr/bin/env python3
"""Meshes of GPUs in one process, on the stand-in for the driver: recorded cases of the family mesh, each on its largest mesh, and
programs with every kind of collective. By the devices' own copies and kernels, with events between their streams, as through the
host: bit for bit, metrics and state; and the metrics are those recorded. Less is copied to and from the host.

    STEPC_CUDA_DRIVER=build/cuda/libcuda.so.1 tests/cuda/peers.py --stepc build/stepc [CASE...]
"""
import argparse
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from mesh import programs
from mesh.explicit import STEPS, draw
from mesh.mpi import devices
from tool import comparison, recorded, runner

QUICK = ["mesh_data_parallel", "mesh_tensor_parallel", "mesh_transformer_state", "mesh_uneven_accumulate", "mesh_batch_over_both_axes"]
SMALL = programs.document("halves", {"data": 3}, {"x": programs.tensor(6, 16)}, [programs.linear("a", 16), programs.linear("b", 5)], "mean(model**2)", {"**": []})
PROGRAMS = [d for d in programs.PROGRAMS if d["name"] in ("experts_all_to_all", "convolution_space", "zero_1")]  # all kinds of moves
PROGRAMS.append(SMALL | {"precision": {"params": "bfloat16", "compute": "bfloat16"}, "metrics": {"most": "max(model)", "least": "min(model)"}})
COPIES = ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync")


def said(command, folder, **env):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env={**os.environ, **env})
    if done.returncode:
        raise RuntimeError("%s: exit %d\n%s" % (" ".join(command), done.returncode, done.stderr[-1500:]))
    return done.stderr


def counted(path):
    with open(path) as f:
        return {name: int(n) for name, n in (line.split() for line in f)}


def content(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def compiled(options, folder, model, *variant):
    said([options.stepc, "compile", model, *variant, "-q", "-o", "step.so", "--target", "cuda", "--cuda-arch", "text"], folder)


def both_ways(options, folder, steps, *more):
    """The losses; RuntimeError: the two ways are not alike."""
    run, calls = [options.stepc, "run", "step.so", "--steps", str(steps), "--data", "data.safetensors", "--all-state", "-q", *more], []
    for peers in "01":
        said([*run, "--metrics", peers + ".jsonl", "--save", peers + ".safetensors"], folder, STAND_IN_PEERS=peers,
             STAND_IN_COUNTS=os.path.join(folder, peers + ".counts"))
        calls.append(counted(os.path.join(folder, peers + ".counts")))
    for kind in (".jsonl", ".safetensors"):
        if content(folder, "0" + kind) != content(folder, "1" + kind):
            raise RuntimeError("%s between devices is not as through the host" % kind)
    through_host, between = (sum(c.get(name, 0) for name in COPIES) for c in calls)
    if between >= through_host:
        raise RuntimeError("as many copies to and from the host as through it: %d" % between)
    return [json.loads(line)["loss"] for line in content(folder, "1.jsonl").splitlines()]


def play_case(options, path, folder):
    case = recorded.Case(path)
    variant = max(case.variants, key=lambda v: devices(v, case.document))
    model, init = case.unpack(folder), os.path.join(folder, "init.safetensors")
    compiled(options, folder, model, *variant)
    losses = both_ways(options, folder, case.steps, *(["--init", init] if os.path.exists(init) else []))
    comparison.agree("loss", losses, case.metrics["loss"], case.rtol, case.atol)


def play_program(options, document, folder):
    r = np.random.default_rng(0)
    runner.write_document(folder, document, {k: draw(r, i) for k, i in document["inputs"].items()})
    compiled(options, folder, "model.json")
    both_ways(options, folder, STEPS)


def play(options, what, folder):
    """What is wrong, None: nothing."""
    name = what["name"] if isinstance(what, dict) else os.path.basename(what)
    folder = os.path.join(folder, name)
    os.makedirs(folder)
    try:
        (play_program if isinstance(what, dict) else play_case)(options, what, folder)
    except (RuntimeError, subprocess.TimeoutExpired, comparison.Differs) as e:
        return "%s: %s" % (name, e)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--all", action="store_true")
    p.add_argument("cases", nargs="*")
    options = p.parse_args()
    paths = [path[:-5] for path in sorted(glob.glob(os.path.join(recorded.CASES, "mesh", "*.json")))]
    wanted = options.cases or ([] if options.all else QUICK)
    todo = [path for path in paths if not wanted or os.path.basename(path) in wanted]
    todo += [d for d in PROGRAMS if not options.cases or d["name"] in options.cases]
    with tempfile.TemporaryDirectory(prefix="stepc-cuda-mesh-") as folder:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            faults = [why for why in pool.map(lambda what: play(options, what, folder), todo) if why]
    print("\n".join(faults + ["%d cases, %d wrong" % (len(todo), len(faults))]))
    return 1 if faults or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
