#!/usr/bin/env python3
"""A rank that is killed, crashes, ends or is stopped while a mesh of processes trains: every other one is gone within the
time-out and 2 s, says whom it waited for, and the job ends with code 3, if `stepc run -n` started it. The fault comes at a random moment of a phase: while steps
run (forward, collective, update) or while the state is saved.

    tests/mesh/faults.py --stepc build/stepc [--all] [--ledger FILE]
"""
import argparse
import datetime
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import numpy as np
from tool import safetensors
from mesh import mpi

TIMEOUT = 2
FAULTS = {"killed": signal.SIGKILL, "crashed": signal.SIGSEGV, "stopped": signal.SIGSTOP, "ended": signal.SIGTERM}
DOCUMENT = {
    "stepc": 1, "name": "lost",
    "inputs": {"x": {"shape": [24, 64], "dtype": "float32"}, "y": {"shape": [24, 8], "dtype": "float32"}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "in_features": 64, "features": 512}, {"type": "gelu"},
        {"type": "linear", "in_features": 512, "features": 8}]},
    "loss": "mean((model - y)**2)", "optimizer": {"type": "adam", "learning_rate": 1e-3},
    "sharding": {"inputs": {"x": ["data", None], "y": ["data", None]}, "optimizer_state": {"**": ["data"]}}}


def ranks_of(job):
    """Processes of `stepc run` under the launcher, by their rank."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                env = dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                command = f.read().split(b"\0")
        except OSError:
            continue
        if env.get(b"STEPC_TEST_JOB") == job.encode() and any(c.startswith(b"--transport") for c in command) and command[1] == b"run":
            rank = env.get(b"OMPI_COMM_WORLD_RANK") or env.get(b"PMI_RANK")
            if rank:
                found[int(rank)] = int(pid)
    return found


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def play(options, family, ranks, fault, phase, seed, folder):
    """Why it is wrong, None: it is not."""
    draw, job = random.Random(seed), "%d-%d" % (os.getpid(), seed)
    metrics = os.path.join(folder, "metrics-%s.jsonl" % job)
    by_stepc = draw.random() < 0.5 and family in os.path.realpath(shutil.which("mpirun") or "")
    run = [options.stepc, "run", "%d.so" % ranks, "--steps", "1000000" if phase == "step" else "50", "--data", "data.safetensors",
           "--threads", "1", "--timeout", str(TIMEOUT), "-q"]
    run += ["--metrics", metrics] if phase == "step" else ["--save", "saved-%s.safetensors" % job, "--all-state"]
    env = dict(mpi.QUIET, STEPC_TEST_JOB=job)
    with open(os.path.join(folder, "said-" + job), "w+b") as said:
        command = [*run, "-n", str(ranks)] if by_stepc else [*mpi.launcher(family, ranks), *run, "--transport", "mpi"]
        process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until and process.poll() is None:
                pids = ranks_of(job)
                if len(pids) == ranks and (phase != "step" or os.path.exists(metrics)):
                    break
                time.sleep(0.01)
            time.sleep(draw.random() * 0.3)
            victim = draw.randrange(ranks)
            pids = ranks_of(job)
            if victim not in pids:
                return None if phase == "save" and process.wait(30) == 0 else "it ended before the fault"
            os.kill(pids[victim], FAULTS[fault])
            begin = time.monotonic()
            survivors = [pid for rank, pid in pids.items() if rank != victim]
            while any(alive(pid) for pid in survivors) and time.monotonic() - begin < TIMEOUT + 12:
                time.sleep(0.02)
            took = time.monotonic() - begin
            code = process.wait(40)
        except subprocess.TimeoutExpired:
            return "the launcher is still there"
        finally:
            for pid in ranks_of(job).values():
                os.kill(pid, signal.SIGKILL)
            if process.poll() is None:
                process.kill()
            process.wait()
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    if code == 0 and phase == "save":
        return None  # all was done when the fault came
    if fault == "ended":  # SIGTERM stops a run after its step, on all ranks
        return None if took < TIMEOUT + 2 and code != 0 or code == 0 else "exit %d after %.1f s\n%s" % (code, took, text)
    if took > TIMEOUT + 2:
        return "the others took %.1f s\n%s" % (took, text)
    if by_stepc and code != 3:
        return "stepc run -n ended with %d\n%s" % (code, text)
    if code == 0 or (fault == "stopped" and family == "openmpi" and code != 3):  # MPICH's mpirun has codes of its own
        return "exit %d\n%s" % (code, text)
    if fault == "stopped" and (not re.search(r"rank %d \(host \S+, pid \d+\) does not answer" % victim, text)):
        return "exit %d; rank %d was stopped\n%s" % (code, victim, text)
    if fault != "stopped" and not re.search(r"signal|rank %d|EXIT CODE" % victim, text):
        return "exit %d; rank %d is not named\n%s" % (code, victim, text)
    return None


def prepare(options, folder, counts):
    rng = np.random.default_rng(1)
    safetensors.write(os.path.join(folder, "data.safetensors"),
                      {"x": rng.normal(size=(4, 24, 64)).astype("f4"), "y": rng.normal(size=(4, 24, 8)).astype("f4")})
    with open(os.path.join(folder, "model.json"), "w") as f:
        json.dump(DOCUMENT, f)
    for ranks in counts:
        mpi.said([options.stepc, "compile", "model.json", "--mesh", "data=%d" % ranks, "-o", "%d.so" % ranks, "-q"], folder)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--all", action="store_true", help="2, 3 and 4 ranks, five times each")
    p.add_argument("--ledger", help="leaves a line there")
    options = p.parse_args()
    families = mpi.installed(options.stepc)
    if not families:
        return mpi.SKIPPED
    counts, rounds = ([2, 3, 4], 5) if options.all else ([2, 3], 1)
    faults, runs = [], 0
    with tempfile.TemporaryDirectory(prefix="stepc-faults-") as folder:
        prepare(options, folder, counts)
        for k in range(rounds):
            for family in families:
                for ranks in counts:
                    for fault in FAULTS:
                        for phase in ("step", "save"):
                            if not options.all and (phase == "save") != (fault == "killed" and ranks == 3):
                                continue
                            runs += 1
                            why = play(options, family, ranks, fault, phase, 1000 * k + runs, folder)
                            if why:
                                faults.append("%s, %d ranks, one %s in a %s: %s" % (family, ranks, fault, phase, why))
    print("\n".join(faults + ["%d runs by %s, %d wrong" % (runs, " and ".join(families), len(faults))]))
    if options.ledger:
        with open(options.ledger, "a") as f:
            f.write("%s lost ranks: %d runs by %s, %d wrong\n" % (datetime.date.today(), runs, " and ".join(families), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
