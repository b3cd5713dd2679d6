#!/usr/bin/env python3
"""Lets the n-th allocation fail, once or from then on, in every command that reads, compiles or trains, and holds what then must
be: an end with exit code 3 and a message (or 0, where the result is complete), never a signal or an internal error; no part of a
file where a result should be, and no temporary one.

    tests/faults/allocations.py --stepc build/stepc --shim build/liballocations.so             3 documents, points from a fixed seed
    tests/faults/allocations.py --stepc ... --shim ... --long [--minutes 30]                   10 documents, every point; fuzz/LEDGER.md

Before that, its own control: a program that lacks the check, namely a shell that is told to end with a signal, must be noticed.
"""
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import command, ledger, recorded, runner

SHORT = ("layer_linear", "optim_adamw", "loss_softmax_cross_entropy")
POINTS = 7  # of a command and a mode, in the short turn


def documents(many):
    """Names of recorded cases: one of each family."""
    families = {}
    for name in recorded.names():
        case = recorded.load(name)
        if case.raw("init") and "mesh" not in case.document:
            families.setdefault(recorded.family(name), name)
    wanted = sorted(families.values())
    return wanted[:: max(1, len(wanted) // many)][:many]


def commands(folder):
    """(name, arguments, what is written) in the order in which they can run."""
    at = lambda name: os.path.join(folder, name)
    run = ["--steps", "2", "--data", at("data.safetensors"), "--init", at("init.safetensors"), "--save", at("new.safetensors"), "--all-state",
           "--metrics", at("new.jsonl"), "-q"]
    return (("check", ["check", at("model.json"), "-q"], []), ("explain", ["explain", at("model.json")], []),
            ("compile", ["compile", at("model.json"), "-q", "-o", at("new.so")], ["new.so"]),
            ("train", ["run", at("step.so"), *run], ["new.safetensors", "new.jsonl"]),
            ("interpret", ["run", at("model.json"), *run], ["new.safetensors", "new.jsonl"]),
            ("report", ["explain", at("step.so")], []))


def outcome(code, said, left, allowed):
    """What is wrong with an end, None: nothing."""
    said = said.strip()
    if code not in (0, 3):
        return "ended with %s: %s" % (code, said[-300:])
    if code == 3 and not re.search("memory|allocate|STEP_ENOMEM", said):
        return "ended with 3 and did not say that memory was lacking: %s" % said[-300:]
    strange = [name for name in left if name not in allowed]
    return "left %s" % ", ".join(strange) if strange else None


class Campaign:
    def __init__(self, options):
        self.options, self.tried, self.faults = options, 0, []
        self.random = random.Random(6)

    def attempt(self, folder, arguments, point, forever):
        env = {"LD_PRELOAD": os.path.abspath(self.options.shim), "FAULT_AT": str(point), "TMPDIR": folder,
               **({"FAULT_FOREVER": "1"} if forever else {"FAULT_COUNT": os.path.join(folder, "count")} if not point else {})}
        return runner.attempt(self.options.stepc, *arguments, verify=False, env=env, timeout=120)

    def command(self, folder, name, label, arguments, written, until):
        known = set(os.listdir(folder))
        whole = self.attempt(folder, arguments, 0, False)
        if whole.returncode:
            self.faults.append("%s %s without a fault: %s" % (label, name, whole.stderr[-300:]))
            return
        with open(os.path.join(folder, "count")) as f:
            count = int(f.read())
        os.remove(os.path.join(folder, "count"))
        result = {}
        for path in written:
            with open(os.path.join(folder, path), "rb") as f:
                result[path] = f.read()
            os.remove(os.path.join(folder, path))
        for forever in (False, True):
            points = range(1, count + 1) if self.options.long else sorted(self.random.sample(range(1, count + 1), min(count, POINTS)))
            for point in points:
                if time.monotonic() > until:
                    return
                done = self.attempt(folder, arguments, point, forever)
                left = set(os.listdir(folder)) - known
                for path in left:
                    if path.startswith("stepc-"):  # where the linker works: a compilation removes those that are a minute old
                        os.utime(os.path.join(folder, path), (time.time() - 90, time.time() - 90))
                if any(path.startswith("stepc-") for path in left):
                    self.attempt(folder, ["compile", os.path.join(folder, "model.json"), "-q", "-o", os.path.join(folder, "other.so")], 0, False)
                    os.remove(os.path.join(folder, "count"))
                    os.remove(os.path.join(folder, "other.so"))
                    left = set(os.listdir(folder)) - known
                why = outcome(done.returncode, done.stderr, left, written)
                for path in left:
                    at = os.path.join(folder, path)
                    if os.path.isdir(at):
                        shutil.rmtree(at)
                        continue
                    with open(at, "rb") as f:
                        if path in result and not path.endswith(".jsonl") and f.read() != result[path]:  # metrics have times
                            why = why or "%s is not what it should be" % path
                    os.remove(at)
                if name == "compile" and done.returncode == 3 and left & set(written):
                    why = why or "ended with 3, and the object stands"
                if done.returncode == 0 and left != set(written):
                    why = why or "ended with 0 and wrote %s only" % ", ".join(left)
                self.tried += 1
                if why:
                    self.faults.append("%s %s, allocation %d of %d%s: %s" % (label, name, point, count, " and all after it" if forever else "", why))

    def document(self, name, until):
        with tempfile.TemporaryDirectory(prefix="stepc-faults-") as folder:
            case = recorded.load(name)
            case.unpack(folder, None)
            runner.call(self.options.stepc, "compile", os.path.join(folder, "model.json"), "-q", "-o", os.path.join(folder, "step.so"))
            for row in commands(folder):
                self.command(folder, row[0], name, row[1], row[2], until)


def control():
    """What must be seen as a fault."""
    killed = subprocess.run(["sh", "-c", "kill -SEGV $$"], capture_output=True).returncode
    return all((outcome(killed, "", [], []), outcome(4, "E0900", [], []), outcome(3, "no", [], []), outcome(0, "", ["x"], []))) \
        and not outcome(3, "out of memory", [], []) and not outcome(0, "", ["new.so"], ["new.so"])


def main():
    p = command.campaign(__doc__, "shim")
    p.add_argument("--minutes", type=float, default=60)
    options = p.parse_args()
    if not control():
        sys.exit("the control was not noticed")
    campaign, until = Campaign(options), time.monotonic() + 60 * options.minutes
    names = documents(10 if options.long else 3)
    for name in names:
        campaign.document(name, until)
        if options.long:
            print("%s: %d tried, %d faults" % (name, campaign.tried, len(campaign.faults)), flush=True)
    print("\n".join(campaign.faults + ["%d allocations failed in %d documents" % (campaign.tried, len(names))]))
    if options.long:
        ledger.add("allocations", campaign.tried, campaign.faults)
    return 1 if campaign.faults else 0


if __name__ == "__main__":
    sys.exit(main())
