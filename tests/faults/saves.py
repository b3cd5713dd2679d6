#!/usr/bin/env python3
"""Checkpoint directories in harm's way (saves.c says what must hold): a process that ends at each system call of saves, calls that
fail, full disks, two writers, files cut at every byte; and power cuts: what a save does is recorded call by call, and the
states that a disk may be in after each call are made: what was synced is there, of the rest any part, and files whose
bytes were not synced hold a part of them or zeros.

    tests/faults/saves.py --stepc build/stepc --saves build/saves              seconds
    tests/faults/saves.py --stepc ... --saves ... --long                      every fault, 7,000 images; fuzz/LEDGER.md

Controls: who acknowledges what was not saved, and a writer that syncs nothing, must be noticed.
"""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import command, ledger

MODEL = {"stepc": 1, "inputs": {"x": {"shape": [4, 3], "axes": ["batch", None]}}, "ema": {"decay": 0.9},
         "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 5}, {"type": "dropout", "rate": 0.2}]},
         "loss": "mean(model**2)", "optimizer": {"type": "adam", "learning_rate": 0.01}}


class File:
    def __init__(self):
        self.bytes, self.synced = b"", 0


class Folder:
    def __init__(self):
        self.synced, self.now, self.pending = {}, {}, []  # name -> what it is; changes: (names that go, names that come)

    def change(self, goes, comes):
        self.pending.append((goes, comes))
        self.apply(self.now, self.pending[-1])

    @staticmethod
    def apply(names, change):
        goes, comes = change
        for name in goes:
            names.pop(name, None)
        names.update(comes)

    def sync(self):
        self.synced, self.pending = dict(self.now), []


class Disk:
    """What was done to the files below a folder, in order."""
    def __init__(self, root):
        self.root, self.top, self.open, self.saved = root, Folder(), {}, []
        self.top.now[""] = self.top.synced[""] = self.base = Folder()

    def find(self, fd, path):
        """The folder that holds it and its name there; None: outside."""
        at = self.open.get(fd) if not path.startswith("/") else None
        if path.startswith("/"):
            if not path.startswith(self.root + "/"):
                return None
            at, path = self.base, path[len(self.root) + 1:]
        *above, name = path.split("/")
        for part in above:
            at = at.now.get(part) if isinstance(at, Folder) else None
        return (at, name) if isinstance(at, Folder) else None

    def do(self, line, who=""):
        """`who`: the process that did it; each has descriptors of its own."""
        what, *rest = line.split(" ")
        if what == "saved":
            self.saved.append(int(rest[0]))
            return
        fd, rest[1:2] = who + rest[0], [who + rest[1]] if what == "open" else rest[1:2]
        if what == "open" and not rest[0].startswith("-"):
            path = " ".join(rest[3:])
            self.open.pop(fd, None)
            if path == "..":
                above = [f for f in self.folders() if self.open.get(rest[1]) in f.now.values()]
                self.open[fd] = above[0] if above else None
                return
            if path in (".", self.root):
                self.open[fd] = self.open.get(rest[1]) if path == "." else self.base
                return
            place = self.find(rest[1], path)
            if place and rest[2] == "1" and place[1] not in place[0].now:
                place[0].change([], {place[1]: File()})
            if place:
                self.open[fd] = place[0].now.get(place[1])
        elif what == "close":
            self.open.pop(fd, None)
        elif what == "write" and isinstance(self.open.get(fd), File):
            self.open[fd].bytes += bytes.fromhex(rest[1])
        elif what == "sync":
            node = self.open.get(fd)
            if isinstance(node, Folder):
                node.sync()
            elif node:
                node.synced = len(node.bytes)
        elif what in ("mkdir", "link", "unlink"):
            place = self.find(fd, rest[1])
            if place and what == "unlink" and place[1] in place[0].now:
                place[0].change([place[1]], {})
            elif place and what != "unlink" and place[1] not in place[0].now:
                place[0].change([], {place[1]: Folder() if what == "mkdir" else "link"})
        elif what == "name":
            a, b = self.find(fd, rest[1]), self.find(fd, rest[2])
            if a and a[1] in a[0].now:
                a[0].change([a[1]], {b[1]: a[0].now[a[1]]})

    def folders(self):
        found = [self.base]
        for f in found:
            found += [n for n in f.now.values() if isinstance(n, Folder)]
        return found

    def image(self, to, draw, kind):
        """What may be there: kind 0, only what was synced; 1, all; else something between."""
        def make(folder, path):
            os.makedirs(path, exist_ok=True)
            names, likely = dict(folder.synced), draw.choice((0, 0.5, 1))
            for change in folder.pending:
                if kind == 1 or (kind > 1 and draw.random() < likely):
                    Folder.apply(names, change)
            for name, node in names.items():
                at = os.path.join(path, name)
                if isinstance(node, Folder):
                    make(node, at)
                elif isinstance(node, File):
                    n = node.synced if kind == 0 else len(node.bytes) if kind == 1 else draw.randint(node.synced, len(node.bytes))
                    kept = node.bytes[:n]
                    if kind > 1 and draw.random() < 0.5:
                        kept += bytes(len(node.bytes) - n)
                    with open(at, "wb") as f:
                        f.write(kept)
                else:
                    os.symlink("step-1", at)
        make(self.base, to)


class Harm:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        model, self.so = os.path.join(folder, "model.json"), os.path.join(folder, "step.so")
        with open(model, "w") as f:
            json.dump(MODEL, f)
        subprocess.run([options.stepc, "compile", "-q", model, "-o", self.so], check=True)

    def run(self, what, *more, folder="work", env=None):
        done = subprocess.run([self.options.saves, self.so, os.path.join(self.folder, folder), what, *map(str, more)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, env=dict(os.environ, **(env or {})), timeout=7200)
        if done.returncode not in (0, 1):
            return ["%s %s: ended with %d" % (what, more, done.returncode)], done.stdout
        return done.stdout.splitlines()[:-1] if done.returncode else [], done.stdout

    def power_cuts(self, rules, images, seed, **env):
        draw, log = random.Random(seed), os.path.join(self.folder, "log")
        if os.path.exists(log):
            os.unlink(log)
        root = os.path.join(self.folder, "work")
        faults, said = self.run("log", rules, env={"CALL_LOG": log, **env})
        if faults:
            return faults, 0
        with open(log) as f:
            lines = f.read().splitlines()
        disk, made = Disk(root), 0
        if lines.count("saved 4") != 1:
            return ["four saves were not recorded"], 0
        for k, line in enumerate(lines):
            disk.do(line)
            if line.startswith(("write", "open", "close")) and k % 7:
                continue
            for kind in (0, 1, *range(2, 2 + images)):
                to = os.path.join(self.folder, "image")
                shutil.rmtree(to, ignore_errors=True)
                disk.image(to, draw, kind)
                made += 1
                run = os.path.join("image", "a", "run")
                saved = 0 if not disk.saved else 1 << disk.saved[-1] if rules else sum(1 << n for n in disk.saved)
                there = os.path.join(self.folder, run)
                if not os.path.isdir(there):
                    wrong = ["saved steps, but no folder"] if saved else []
                elif not saved and not any(n.startswith("step-") for n in os.listdir(there)):
                    wrong = []
                else:
                    done = self.run("look", saved, *([rules] if rules else []), folder=run)
                    wrong = done[0] or done[1].splitlines()
                faults += ["power cut after call %d (%s), image %d, keep %s: %s" % (k, line[:60], kind, rules or "all", w) for w in wrong]
        return faults, made


def main():
    p = command.campaign(__doc__, "saves")
    p.add_argument("--every", type=int, default=0, help="so many faults are one that is tried")
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    faults, counts = [], []
    with tempfile.TemporaryDirectory(prefix="stepc-saves-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        harm = Harm(options, folder)
        if not harm.run("faults", 301, "break")[0]:
            sys.exit("who acknowledges what was not saved was not noticed")
        if not harm.power_cuts("", 0, 1, CALL_NOSYNC="1")[0]:
            sys.exit("a writer that syncs nothing was not noticed")
        sizes = [1 << k for k in range(16, 24)] + [3 << k for k in range(15, 22)]
        for what in ([("faults", options.every or (1 if options.long else 61)), ("race",), ("headers",)] + [("disk", n) for n in (range(1 << 16, 1 << 23, 1 << 15) if options.long else sizes)] +
                     [("disk", n, "limit") for n in range(64, 4096, 16 if options.long else 640)]):
            wrong, said = harm.run(*what)
            faults += wrong
            counts += said.splitlines()[-1:]
        made = 0
        for rules in ("", "latest=1", "latest=2,every=3"):
            wrong, images = harm.power_cuts(rules, 12 if options.long else 1, options.seed)
            faults += wrong
            made += images
        counts.append("%d images of disks after power cuts" % made)
    shown = [c for c in counts if not c.startswith(("disk", "files"))]
    print("\n".join(faults + shown + ["%d full disks and limits" % (len(counts) - len(shown))]))
    if options.long:
        tried = sum(int(n) for c in shown for n in re.findall(r"^(\d+) (?:faults|cuts|images)", c)) + len(counts) - len(shown)
        ledger.add("checkpoints in harm's way (%s)" % "; ".join(re.sub(r": 0 wrong$", "", c) for c in shown), tried, faults, options.seed)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
