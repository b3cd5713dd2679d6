#!/usr/bin/env python3
"""Ends `stepc run --save-dir` before its n-th system call, and lets the n-th one fail or transfer half, from the making of the
directory to the last sync; then holds what must be: every step-N is whole, none that was told to be saved is lost, those from
before are as they were, and the run that goes on ends with the very bytes of one that nobody disturbed.

    tests/faults/checkpoints.py --stepc build/stepc --shim build/libcalls.so             some points from a fixed seed
    tests/faults/checkpoints.py --stepc ... --shim ... --long                            every point; fuzz/LEDGER.md

Before that, what a save does is read call by call: every file and directory is synced before the checkpoint has its name, and
the name after it. Controls: a directory with a name and without its files, and a writer that syncs nothing, must be
noticed.
"""
import concurrent.futures
import errno
import filecmp
import json
import os
import random
import re
import shutil
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from saves import MODEL
from tool import command, ledger, runner

WIDE = json.loads(json.dumps(MODEL).replace('"features": 5', '"features": 400'))  # tensors that become smaller
STEPS, ERRORS = 9, ("EIO", "ENOSPC", "EDQUOT", "EINTR", "EMFILE", "EACCES", "short")
ARGUMENTS = ("--threads", "1", "--save-every", "3", "--keep", "latest=2")
COMPRESSED = ("--compress", "all")


class Campaign:
    def __init__(self, options, folder):
        self.options, self.folder, self.faults, self.tried = options, folder, [], 0
        at = lambda name: os.path.join(folder, name)
        self.so, self.data = at("step.so"), at("data.safetensors")
        runner.write_document(folder, WIDE, {"x": np.random.default_rng(1).standard_normal((4, 4, 3)).astype(np.float32)})
        runner.compile_document(options.stepc, folder)
        self.start = at("start")  # with step-3 and step-6, and what a killed writer has left
        self.run(self.start, *COMPRESSED, steps=6)
        with open(os.path.join(self.start, "step-6", "manifest.json")) as f:
            if '"stored"' not in f.read():
                sys.exit("nothing is compressed")
        os.makedirs(os.path.join(self.start, ".tmp-step-7-0badcafe", "items"))
        with open(os.path.join(self.start, ".tmp-step-7-0badcafe", "params.safetensors"), "w") as f:
            f.write("half")
        whole = at("whole")
        self.run(whole, "--save", at("whole.safetensors"), "--all-state")
        with open(at("whole.safetensors"), "rb") as f:
            self.whole = f.read()

    def run(self, run, *more, steps=STEPS, env=None):
        return runner.attempt(self.options.stepc, "run", self.so, "--data", self.data, "--steps", str(steps), "--save-dir", run, "--resume", "auto", *ARGUMENTS, *more,
                              verify=False, timeout=120, env=env)

    def count(self, loads):
        run, told = os.path.join(self.folder, "count"), os.path.join(self.folder, "calls")
        shutil.copytree(self.start, run, symlinks=True)
        self.run(run, env={"LD_PRELOAD": self.options.shim, "CALL_COUNT": told, **loads})
        shutil.rmtree(run)
        with open(told) as f:
            return int(f.read())

    def attempt(self, point, what, forever, loads, more):
        """What is wrong after this fault, None: nothing."""
        with tempfile.TemporaryDirectory(dir=self.folder) as here:
            run = os.path.join(here, "run")
            shutil.copytree(self.start, run, symlinks=True)
            number = what if what in ("kill", "short") else str(getattr(errno, what))
            done = self.run(run, *more, env={"LD_PRELOAD": self.options.shim, "CALL_AT": str(point), "CALL_DO": number, **({"CALL_FOREVER": "1"} if forever else {}), **loads})
            return self.judge(run, here, done, what)

    def judge(self, run, here, done, what):
        if what == "kill":
            if done.returncode not in (-9, 0):
                return "ended with %d" % done.returncode
        elif done.returncode not in (0, 1, 3):
            return "ended with %d: %s" % (done.returncode, done.stderr[-300:])
        elif done.returncode and "stepc: error: " not in done.stderr:
            return "ended with %d and said nothing" % done.returncode
        there = {int(n[5:]) for n in os.listdir(run) if re.fullmatch(r"step-[0-9]+", n)}
        told = {int(n) for n in re.findall(r"saved step ([0-9]+) in", done.stderr)}
        newest = max(told | {6})
        if newest not in there:
            return "step-%d is lost; there are %s" % (newest, there)
        for step in there:  # whole, each by itself
            alone = runner.attempt(self.options.stepc, "run", self.so, "--data", self.data, "--steps", "0", "--resume", os.path.join(run, "step-%d" % step), "-q", verify=False)
            if alone.returncode:
                return "step-%d: %s" % (step, alone.stderr[-300:])
        end = os.path.join(here, "end.safetensors")
        after = self.run(run, "--save", end, "--all-state")
        if after.returncode or "damaged" in after.stderr:
            return "does not go on: %s" % after.stderr[-300:]
        with open(end, "rb") as f:
            if f.read() != self.whole:
                return "goes on to another end"
        left = [n for n in os.listdir(run) if n.startswith((".tmp-step", ".del-step"))]
        return "leaves %s" % left if left and STEPS not in there else None

    def not_synced(self, **env):
        """What a save had not synced when it gave the directory its name, or at the end."""
        with tempfile.TemporaryDirectory(dir=self.folder) as here:
            log = os.path.join(here, "log")
            done = self.run(os.path.join(here, "run"), env={"LD_PRELOAD": self.options.shim, "CALL_LOG": log, **env})
            with open(log) as f:
                lines = [line.split() for line in f]
        wrong, path, dirty, named = [], {}, {}, {}
        for what, *rest in lines:
            if what == "open" and int(rest[0]) >= 0:
                fd, base, creates, name = int(rest[0]), int(rest[1]), rest[2] == "1", rest[3]
                path[fd] = name if name[0] == "/" or base < 0 else os.path.normpath(os.path.join(path.get(base, "?"), name))
                if creates:
                    dirty[path[fd]] = "its bytes"
                    dirty[os.path.dirname(path[fd])] = "the names in it"
            elif what == "write" and int(rest[0]) in path:
                dirty[path[int(rest[0])]] = "its bytes"
            elif what == "sync":
                dirty.pop(path.get(int(rest[0])), None)
            elif what == "name" and rest[2].startswith("step-"):
                base = os.path.join(path[int(rest[0])], rest[1])
                wrong += ["%s had its name before %s of %s were synced" % (rest[2], w, n) for n, w in dirty.items() if n.startswith(base)]
                dirty[path[int(rest[0])]] = "the name %s" % rest[2]
                named[rest[2]] = path[int(rest[0])]
        wrong += ["%s was not synced before the end" % dirty[n] for n in named.values() if n in dirty]
        if done.returncode or not named:
            wrong.append("nothing was saved: %s" % done.stderr)
        return wrong

    def replaced(self, goes_on):
        """Another run saves step-9 and removes step-6 before any call of a load: one of both is taken. And how many calls there were.
        `goes_on`: the run saves there, too, and step-6 stays: what the other one has saved is nobody's damage."""
        wrong, point, told = [], 0, os.path.join(self.folder, "calls")
        newer = os.path.join(self.folder, "whole", "step-%d" % STEPS)
        while True:
            with tempfile.TemporaryDirectory(dir=self.folder) as here:
                run, end = os.path.join(here, "run"), os.path.join(here, "end.safetensors")
                shutil.copytree(self.start, run, symlinks=True)
                shutil.copytree(newer, os.path.join(run, ".tmp-step-9-00c0ffee"))
                name = lambda n: os.path.join(run, n)
                moves = ":".join(["move", name(".tmp-step-9-00c0ffee"), name("step-9"), *([] if goes_on else [name("step-6"), name(".del-step-6-00c0ffee")])])
                where = ("auto", "--save-dir", run) if goes_on else (run,)
                done = runner.attempt(self.options.stepc, "run", self.so, "--data", self.data, "--steps", str(STEPS), "--threads", "1", "--save", end, "--all-state", "--resume", *where,
                                      verify=False, env={"LD_PRELOAD": self.options.shim, "CALL_LOADS": "1", "CALL_AT": str(point), "CALL_DO": moves, "CALL_COUNT": told})
                taken = re.search("resume   step ([0-9]+)", done.stderr)
                same = False
                if not done.returncode:
                    with open(end, "rb") as f:
                        same = f.read() == self.whole
                if goes_on:
                    same = same or done.returncode in (1, 3) and "step-9" in done.stderr
                    same &= not any("damaged" in n for n in os.listdir(run)) and filecmp.cmp(name("step-9/params.safetensors"), os.path.join(newer, "params.safetensors"), False)
                if not same or not taken or taken.group(1) not in ("6", "9"):
                    wrong.append("step-9 in place of step-6 before call %d of a load: %s" % (point, done.stderr[-300:]))
            with open(told) as f:
                count = int(f.read())
            if point >= count:
                return wrong, point
            point += 1

    def control(self):
        """A writer without a temporary name: a part of the files, and no fault would be seen if nobody looked."""
        with tempfile.TemporaryDirectory(dir=self.folder) as here:
            run = os.path.join(here, "run")
            shutil.copytree(self.start, run, symlinks=True)
            shutil.copytree(os.path.join(run, "step-6"), os.path.join(run, "step-8"))
            os.unlink(os.path.join(run, "step-8", "manifest.json"))
            done = runner.Done(-9, "", "")
            return self.judge(run, here, done, "kill") is not None


def main():
    options = command.campaign(__doc__, "shim", workers=2).parse_args()
    draw = random.Random(5)
    with tempfile.TemporaryDirectory(prefix="stepc-faults-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        campaign = Campaign(options, folder)
        if not campaign.control():
            sys.exit("the control was not noticed")
        faults = campaign.not_synced()
        if len(campaign.not_synced(CALL_NOSYNC="1")) < 4:
            sys.exit("a writer that syncs nothing was not noticed")
        for goes_on in (False, True):
            wrong, calls = campaign.replaced(goes_on)
            faults += wrong if calls > 10 else ["loads make %d calls" % calls]
        points = []
        for loads in ({}, {"CALL_LOADS": "1"}):
            count = campaign.count(loads)
            kinds = [(w, f) for w in ("kill", *ERRORS) for f in (False, True) if not (f and w in ("kill", "EINTR", "short"))]
            all_points = [(n, w, f, loads, more) for n in range(1, count + 1) for w, f in kinds for more in ((), COMPRESSED) if not (loads and w == "kill")]
            points += all_points if options.long else draw.sample(all_points, min(60, len(all_points)))
            print("%d calls" % count)
        with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
            results = list(pool.map(lambda point: campaign.attempt(*point), points))
        faults += ["call %d, %s%s%s%s: %s" % (n, w, " from then on" if f else "", ", of a load" if loads else "", ", compressed" if more else "", why)
                  for (n, w, f, loads, more), why in zip(points, results) if why]
    print("\n".join(faults + ["%d faults tried, %d of them kills" % (len(points), sum(point[1] == "kill" for point in points))]))
    if options.long:
        ledger.add("system calls of saves and loads", len(points), faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
