#!/usr/bin/env python3
"""Ranks that save a checkpoint together, each its own files: one of them ends before its n-th system call of saving, or that call
fails; a signal comes to one or to all at a random time; or the power is cut (saves.py) after a call of any of them. Saves whose n-th
call it is compress if n is odd. Then every step-N is whole, none that was told to be saved is lost, what could not be saved ends the
run with a message, and ranks that go on end with the very bytes of those that nobody disturbed. By Open MPI and MPICH in turn, where
both are there.

    tests/faults/ranks.py --stepc build/stepc --shim build/libcalls.so    some points from a fixed seed
    tests/faults/ranks.py --stepc ... --shim ... --long                   every call of each rank, 200 signals, images; fuzz/LEDGER.md

Controls: a step without one of its files, and ranks that sync nothing, must be noticed.
"""
import concurrent.futures
import errno
import math
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
from saves import Disk
from tool import command, ledger, runner

RANKS, STEPS, LONG, ERRORS, SHORT = 2, 9, 600, ("EIO", "ENOSPC", "EACCES", "short"), 14
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGKILL)
MODEL = {"stepc": 1, "inputs": {"x": {"shape": [4, 6], "axes": ["batch", None]}}, "ema": {"decay": 0.9}, "mesh": {"axes": {"data": RANKS}},
         "sharding": {"rules": [["batch", "data"]], "params": {"layers.0.kernel": ["data"]}, "optimizer_state": {"**.kernel": ["data"]}},
         "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 400}, {"type": "dropout", "rate": 0.2}]},
         "loss": "mean(model**2)", "optimizer": {"type": "adam", "learning_rate": 0.01}}


class Campaign:
    def __init__(self, options, folder, family):
        self.options, self.folder, self.family = options, folder, family
        os.makedirs(folder)
        runner.write_document(folder, MODEL, {"x": np.random.default_rng(1).standard_normal((4, 4, 6)).astype(np.float32)})
        runner.compile_document(options.stepc, folder)
        self.start = os.path.join(folder, "start")
        self.end(self.run(self.start, "--compress", "all", steps=6))
        with open(os.path.join(self.start, "step-6", "manifest.json")) as f:
            if '"stored"' not in f.read():
                sys.exit("nothing is compressed")
        whole = os.path.join(folder, "whole")
        self.end(self.run(whole, "--save", whole + ".safetensors", "--all-state"))
        with open(whole + ".safetensors", "rb") as f:
            self.whole = f.read()

    def run(self, saved, *more, steps=STEPS, rank=None, **env):
        """The job; `env`: of one rank, or of all."""
        at = lambda name: os.path.join(self.folder, name)
        command = [self.options.stepc, "run", at("step.so"), "--data", at("data.safetensors"), "--steps", str(steps), "--save-dir", saved, "--resume", "auto", "--threads", "1",
                   "--save-every", "3", "--keep", "latest=2", "--timeout", "4", "--transport", "mpi", *more]
        script = 'export CALL_RANK="${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; if [ %s = "$CALL_RANK" ]; then export %s; fi; exec "$@"' % (
            '"$CALL_RANK"' if rank is None else rank, " ".join("%s=%s" % pair for pair in env.items()) or "A=")
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

    def counts(self):
        """How many calls each rank makes."""
        counts = []
        for rank in range(RANKS):
            saved, told = os.path.join(self.folder, "count"), os.path.join(self.folder, "calls")
            shutil.copytree(self.start, saved, symlinks=True)
            self.end(self.run(saved, rank=rank, LD_PRELOAD=self.options.shim, CALL_COUNT=told))
            shutil.rmtree(saved)
            with open(told) as f:
                counts.append(int(f.read()))
        return counts

    def signal(self, saved, draw):
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
        return job, "signal %s" % what

    def call(self, saved, rank, point, do):
        more = ("--compress", "all") if point % 2 else ()
        job = self.run(saved, *more, rank=rank, LD_PRELOAD=self.options.shim, CALL_AT=point, CALL_DO=do if do in ("kill", "short") else getattr(errno, do))
        return job, "rank %d, call %d, %s" % (rank, point, do)

    def attempt(self, point):
        """`point`: (rank, call, what it does), or the seed of a signal."""
        with tempfile.TemporaryDirectory(dir=self.folder) as here:
            saved = os.path.join(here, "run")
            shutil.copytree(self.start, saved, symlinks=True)
            job, name = self.call(saved, *point) if isinstance(point, tuple) else self.signal(saved, random.Random(point))
            said = self.end(job, False)
            why = self.judge(saved, here, job.returncode, said)
            return "%s, %s: %s" % (self.family, name, why) if why else None

    def power_cuts(self, images, every, **env):
        """Faults and how many images there were. A step was told to be saved before the next one is begun."""
        log, saved, draw = os.path.join(self.folder, "log"), os.path.join(self.folder, "cut", "run"), random.Random(images)
        shutil.rmtree(os.path.dirname(saved), ignore_errors=True)
        os.mkdir(os.path.dirname(saved))
        if os.path.exists(log):
            os.unlink(log)
        self.end(self.run(saved, LD_PRELOAD=self.options.shim, CALL_LOG=log, **env))
        with open(log) as f:
            lines = f.read().splitlines()
        disk, told, begun, faults, made = Disk(os.path.dirname(saved)), 0, 0, [], 0
        for k, line in enumerate([*lines, "0 end 0"]):
            who, _, what = line.partition(" ")
            begins = re.search(r"^mkdir .*\.tmp-step-([0-9]+)-", what)
            told, begun = (begun, int(begins.group(1))) if begins else (STEPS if what == "end 0" else told, begun)
            disk.do(what, who + ":")
            if what != "end 0" and (what.startswith(("write", "open", "close")) or k % every):
                continue
            for kind in (0, 1, *range(2, 2 + images)):
                with tempfile.TemporaryDirectory(dir=self.folder) as here:
                    disk.image(os.path.join(here, "image"), draw, kind)
                    made += 1
                    there = os.path.join(here, "image", "run")
                    why = self.judge(there, here, 3, "", told, kind == 0) if os.path.isdir(there) or told else None
                    faults += ["%s, power cut after call %d (%s), image %d: %s" % (self.family, k, line[:60], kind, why)] if why else []
        return faults, made if told == STEPS and begun == STEPS else 0

    def judge(self, saved, here, code, said, told=6, goes_on=True):
        """`told`: what was saved before; a newer one may have taken its place."""
        there = {int(n[5:]) for n in os.listdir(saved) if re.fullmatch(r"step-[0-9]+", n)} if os.path.isdir(saved) else set()
        told = max([told, *(int(n) for n in re.findall(r"saved step ([0-9]+) in", said))])
        if said == "hangs":
            return said
        if told and told not in there:
            return "step-%d is lost; there are %s\n%s" % (told, there, said[-500:])
        if code == 0 and not there & {STEPS, LONG}:
            return "ended with 0 and has not saved the end\n%s" % said[-500:]
        for step in there:
            checked = runner.attempt(self.options.stepc, "checkpoint", "verify", "-q", os.path.join(saved, "step-%d" % step), verify=False)
            if checked.returncode:
                return "step-%d: %s" % (step, checked.stderr[-300:])
        if not goes_on or max(there, default=0) > STEPS:
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


def points_of(campaign, options):
    """Every call of each rank that comes to harm in each way, and signals; some of them."""
    calls = [(rank, call + 1, do) for rank, count in enumerate(campaign.counts()) for call in range(count) for do in ("kill", *ERRORS)]
    draw = random.Random(options.seed)
    draw.shuffle(calls)
    points = [*calls, *range(200)] if options.long else [*calls[:SHORT - 4], *range(4)]
    if options.seconds:
        draw.shuffle(points)
    return points


def main():
    p = command.campaign(__doc__, "shim", workers=2)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--seconds", type=float, help="with --long: begin no point after that time; which ones follows from the seed")
    p.add_argument("--skip", type=int, default=0, help="with --long and --seconds: points of this seed that were done before")
    options = p.parse_args()
    families = mpi.installed(options.stepc)
    if not families:
        return mpi.SKIPPED
    os.environ["STEPC_PLUGIN_PATH"] = mpi.QUIET["STEPC_PLUGIN_PATH"] = os.path.dirname(options.stepc)
    faults, images = [], 0
    with tempfile.TemporaryDirectory(prefix="stepc-ranks-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        campaigns = [Campaign(options, os.path.join(folder, family), family) for family in families]
        if not all(campaign.control() for campaign in campaigns):
            sys.exit("the control was not noticed")
        if not campaigns[0].power_cuts(0, 1, CALL_NOSYNC="1")[0]:
            sys.exit("ranks that sync nothing were not noticed")
        for campaign in campaigns:
            wrong, made = campaign.power_cuts(6 if options.long else 1, 1 if options.long else 9)
            faults += wrong if made else ["%s: saves were not recorded" % campaign.family]
            images += made
        points, until, done = points_of(campaigns[0], options), time.monotonic() + (options.seconds or math.inf), []

        def attempt(n):
            if time.monotonic() < until:
                done.append(n)
                return campaigns[n % len(campaigns)].attempt(points[n])

        with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
            for why in pool.map(attempt, range(options.skip, len(points))):
                if why:
                    faults.append(why)
                    print(why, flush=True)
    part = "%d of %d%s" % (len(done), len(points), ", behind the first %d," % options.skip if options.skip else "") if options.seconds else len(points)
    told = "%s faults of ranks that save together, %d images after power cuts" % (part, images)
    print("\n".join(faults + ["%s, by %s" % (told, " and ".join(families))]))
    if options.long:
        which = "in a random order" if options.seconds else "every call of each rank ends it or fails, signals"
        ledger.add("%s, by %s: %s" % (told, " and ".join(families), which), len(done) + images, faults, options.seed)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
