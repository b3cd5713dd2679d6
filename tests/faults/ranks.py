#!/usr/bin/env python3
"""Ranks that save a checkpoint together, each its own files: one of them ends before its n-th system call of saving, or that call
fails; or a signal comes to one or to all at a random time. Then every step-N is whole, none that was told to be saved is lost, what
could not be saved ends the run with a message, and ranks that go on end with the very bytes of those that nobody disturbed.

    tests/faults/ranks.py --stepc build/stepc --shim build/libcalls.so           some points from a fixed seed
    tests/faults/ranks.py --stepc ... --shim ... --long [--points N]             fuzz/LEDGER.md

The control: a step without one of its files must be noticed.
"""
import argparse
import concurrent.futures
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "mesh")]
import mpi
from tool import ledger, runner

RANKS, STEPS, LONG, ERRORS = 2, 9, 600, ("EIO", "ENOSPC", "EACCES", "short")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGKILL)
MODEL = {"stepc": 1, "inputs": {"x": {"shape": [4, 6], "axes": ["batch", None]}}, "ema": {"decay": 0.9}, "mesh": {"axes": {"data": RANKS}},
         "sharding": {"rules": [["batch", "data"]], "params": {"layers.0.kernel": ["data"]}, "optimizer_state": {"**.kernel": ["data"]}},
         "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 5}, {"type": "dropout", "rate": 0.2}]},
         "loss": "mean(model**2)", "optimizer": {"type": "adam", "learning_rate": 0.01}}


class Campaign:
    def __init__(self, options, folder, family):
        self.options, self.folder, self.family = options, folder, family
        runner.write_document(folder, MODEL, {"x": np.random.default_rng(1).standard_normal((4, 4, 6)).astype(np.float32)})
        runner.compile_document(options.stepc, folder)
        self.start = os.path.join(folder, "start")
        self.end(self.run(self.start, steps=6))
        whole = os.path.join(folder, "whole")
        self.end(self.run(whole, "--save", whole + ".safetensors", "--all-state"))
        with open(whole + ".safetensors", "rb") as f:
            self.whole = f.read()

    def run(self, saved, *more, steps=STEPS, rank=None, **env):
        """The job; `env`: of one rank."""
        at = lambda name: os.path.join(self.folder, name)
        command = [self.options.stepc, "run", at("step.so"), "--data", at("data.safetensors"), "--steps", str(steps), "--save-dir", saved, "--resume", "auto", "--threads", "1",
                   "--save-every", "3", "--keep", "latest=2", "--timeout", "4", "--transport", "mpi", *more]
        script = 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = "%s" ]; then export %s; fi; exec "$@"' % (rank, " ".join("%s=%s" % pair for pair in env.items()) or "A=")
        return subprocess.Popen([*mpi.launcher(self.family, RANKS), "sh", "-c", script, "sh", *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, env=mpi.QUIET, cwd=self.folder)

    def end(self, job, good=True):
        try:
            said = job.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            job.kill()
            return "hangs"
        if good and job.returncode:
            raise RuntimeError("ended with %d: %s" % (job.returncode, said))
        return said

    def attempt(self, number):
        draw = random.Random(number)
        with tempfile.TemporaryDirectory(dir=self.folder) as here:
            saved = os.path.join(here, "run")
            shutil.copytree(self.start, saved, symlinks=True)
            rank, kind = draw.randrange(RANKS), draw.choice(("kill", "error", "signal"))
            if kind == "signal":
                what = draw.choice(SIGNALS)
                job, until = self.run(saved, steps=LONG), time.monotonic() + 30
                while not os.path.exists(os.path.join(saved, "step-9")) and time.monotonic() < until:
                    time.sleep(0.005)  # before that a launcher may lose the signal
                time.sleep(0.3 * draw.random())
                ranks = [pid for pid, command in runner.processes("--save-dir\0%s\0" % saved) if command.startswith(self.options.stepc.encode())]
                for pid in ranks[:: draw.choice((1, 2))]:
                    try:
                        os.kill(pid, what)
                    except OSError:
                        pass
                name = "signal %s" % what
            else:
                do = "kill" if kind == "kill" else draw.choice(ERRORS)
                point = draw.randrange(1, 400 if rank == 0 else 90)
                name = "rank %d, call %d, %s" % (rank, point, do)
                job = self.run(saved, rank=rank, LD_PRELOAD=self.options.shim, CALL_AT=point, CALL_DO=do if do in ("kill", "short") else getattr(errno, do))
            said = self.end(job, False)
            why = self.judge(saved, here, job.returncode, said)
            return "%d: %s: %s" % (number, name, why) if why else None

    def judge(self, saved, here, code, said):
        there = {int(n[5:]) for n in os.listdir(saved) if re.fullmatch(r"step-[0-9]+", n)}
        told = {int(n) for n in re.findall(r"saved step ([0-9]+) in", said)} | {6}
        if said == "hangs":
            return said
        if max(told) not in there:
            return "step-%d is lost; there are %s\n%s" % (max(told), there, said[-500:])
        if code == 0 and not there & {STEPS, LONG}:
            return "ended with 0 and has not saved the end\n%s" % said[-500:]
        for step in there:
            checked = runner.attempt(self.options.stepc, "checkpoint", "verify", "-q", os.path.join(saved, "step-%d" % step), verify=False)
            if checked.returncode:
                return "step-%d: %s" % (step, checked.stderr[-300:])
        if max(there) > STEPS:
            return None
        end = os.path.join(here, "end.safetensors")
        after = self.run(saved, "--save", end, "--all-state")
        said = self.end(after, False)
        if after.returncode or "damaged" in said:
            return "does not go on: %s" % said[-500:]
        with open(end, "rb") as f:
            if f.read() != self.whole:
                return "goes on to another end"
        left = [n for n in os.listdir(saved) if n.startswith((".tmp-step", ".del-step"))]
        return "leaves %s" % left if left and STEPS not in there else None

    def control(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as here:
            saved = os.path.join(here, "run")
            shutil.copytree(self.start, saved, symlinks=True)
            parts = [n for n in os.listdir(os.path.join(saved, "step-6")) if n.startswith("params-")]
            os.unlink(os.path.join(saved, "step-6", parts[0]))
            return self.judge(saved, here, 3, "") is not None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", required=True, type=os.path.abspath)
    p.add_argument("--shim", required=True, type=os.path.abspath)
    p.add_argument("--long", action="store_true")
    p.add_argument("--points", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("-j", type=int, default=2)
    options = p.parse_args()
    families = mpi.installed(options.stepc)
    if not families:
        return mpi.SKIPPED
    os.environ["STEPC_PLUGIN_PATH"] = mpi.QUIET["STEPC_PLUGIN_PATH"] = os.path.dirname(options.stepc)
    points = options.points or (600 if options.long else 14)
    with tempfile.TemporaryDirectory(prefix="stepc-ranks-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        campaign = Campaign(options, folder, families[0])
        if not campaign.control():
            sys.exit("the control was not noticed")
        with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
            faults = [why for why in pool.map(campaign.attempt, range(options.seed, options.seed + points)) if why]
    print("\n".join(faults + ["%d faults of ranks that save together tried" % points]))
    if options.long:
        ledger.add("ranks that save together: kills and failures at system calls of one, signals", points, faults, "%d to %d" % (options.seed, options.seed + points - 1))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
