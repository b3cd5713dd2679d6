#!/usr/bin/env python3
"""Signals and kills at random times: files are those of before or complete ones, what was done is saved, a second signal ends
the process, and what killed processes leave behind goes with the next command.

usage: kills.py STEPC [TEST...]     KILLS=N in the environment: so many times instead of a few
"""
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner, safetensors

KILLS = int(os.environ.get("KILLS", "12"))
WIDE = 600
MODEL = {"stepc": 1, "inputs": {"x": {"shape": [2, WIDE], "axes": ["batch", None]}}, "constants": {"hidden": WIDE},
         "model": {"type": "linear", "input": "x", "features": "$hidden"}, "loss": "mean(model**2)", "optimizer": {"type": "adam", "learning_rate": 0.01}}


class Kills(runner.Case):
    verify = False

    def setUp(self):
        self.draw = random.Random(int(os.environ.get("SEED", "3")))
        self.model, self.so, self.data = self.write("model.json", MODEL), self.path("step.so"), self.path("data.safetensors")
        safetensors.write(self.data, {"x": np.float32(np.sin(range(2 * WIDE))).reshape(1, 2, WIDE)})
        self.stepc("compile", self.model, "-o", self.so)

    def start(self, *arguments, **more):
        return subprocess.Popen([self.program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                env=runner.environment(False, TMPDIR=self.folder), **more)

    def forsaken(self):
        """What lies there of processes that are gone, made two hours older."""
        left = [n for n in os.listdir(self.folder) if n.startswith((".tmp-stepc-", "stepc-"))]
        for name in left:
            os.utime(self.path(name), (time.time() - 7200,) * 2)
        return left

    def await_orphans(self):
        """A linker outlives the compiler that was killed, and writes into its folder for a moment."""
        until = time.monotonic() + 60
        while any(runner.processes(self.folder)):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def test_compile_killed(self):
        took = time.monotonic()
        self.start("compile", self.model, "-o", self.so).communicate()
        took = time.monotonic() - took
        for _ in range(KILLS):
            p = self.start("compile", self.model, "-o", self.so, "-D", "hidden=%d" % self.draw.randrange(5, 50))
            time.sleep(self.draw.random() * took)
            p.kill()
            p.communicate()
            self.stepc("verify", self.so)
        self.await_orphans()
        os.mkdir(self.path("stepc-abcdef"), 0o700)
        self.write("stepc-abcdef/step.o", "")
        self.write(".tmp-stepc-4999999-2", "")  # no such process
        self.assertGreaterEqual(len(self.forsaken()), 2)
        self.stepc("compile", self.model, "-o", self.so, env={"TMPDIR": self.folder})
        self.assertEqual(self.forsaken(), [])
        self.write(".tmp-stepc-%d-3" % os.getpid(), "")  # its maker may live
        self.stepc("compile", self.model, "-o", self.so, env={"TMPDIR": self.folder})
        self.assertEqual(len(self.forsaken()), 1)

    def test_save_killed(self):
        """--save replaces its file at once; nothing lies beside it."""
        out = self.path("out.safetensors")
        run = ("run", self.so, "--steps", "3", "--data", self.data, "--save", out, "--all-state")
        self.stepc(*run)
        took = time.monotonic()
        self.start(*run).communicate()
        took = time.monotonic() - took
        for _ in range(KILLS):
            p = self.start(*run)
            time.sleep(self.draw.random() * took)
            p.kill()
            p.communicate()
            self.stepc("run", self.so, "--steps", "1", "--data", self.data, "--init", out)
        self.assertLessEqual(len(self.forsaken()), 1)

    def test_save_killed_control(self):
        """The test sees what a writer leaves that writes in place."""
        out = self.path("out.safetensors")
        self.stepc("run", self.so, "--steps", "1", "--data", self.data, "--save", out)
        with open(out, "rb") as f:
            raw = f.read()
        with open(out, "wb") as f:
            f.write(raw[:len(raw) // 2])
        self.assertIn("damaged", self.stepc("run", self.so, "--steps", "1", "--data", self.data, "--init", out, code=1).stderr)

    def followed(self, p, metrics):
        """Until steps are made."""
        end = time.monotonic() + 300
        while (not os.path.exists(metrics) or os.path.getsize(metrics) == 0) and p.poll() is None and time.monotonic() < end:
            time.sleep(0.002)

    def test_signals(self):
        """The step that is in work is finished and saved, and the signal is raised again; SIGUSR1 saves and goes on."""
        metrics, out = self.path("metrics"), self.path("out.safetensors")
        for k in range(KILLS):
            number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)[k % 4]
            for path in (metrics, out):
                if os.path.exists(path):
                    os.unlink(path)
            p = self.start("run", self.so, "--steps", "100000000", "--data", self.data, "--save", out, "--all-state", "--metrics", metrics)
            self.followed(p, metrics)
            time.sleep(self.draw.random() * 0.05)
            p.send_signal(number)
            if number == signal.SIGUSR1:
                end = time.monotonic() + 300
                while not os.path.exists(out) and time.monotonic() < end:
                    time.sleep(0.002)
                self.assertIsNone(p.poll())
                first = int(safetensors.header(out)["__metadata__"]["step"])
                p.send_signal(signal.SIGTERM)
            said = p.communicate(timeout=300)[1]
            self.assertEqual(p.returncode, -(signal.SIGTERM if number == signal.SIGUSR1 else number), said)
            with open(metrics) as f:
                last = json.loads(f.readlines()[-1])["step"]
            self.assertEqual(int(safetensors.header(out)["__metadata__"]["step"]), last, said)
            if number == signal.SIGUSR1:
                self.assertLessEqual(first, last)
                self.assertIn("SIGUSR1: saved the state after step %d" % first, said)
            self.stepc("run", self.so, "--steps", "1", "--data", self.data, "--init", out)
        self.assertEqual(self.forsaken(), [])

    def ends_at_once(self, p, number, times=1):
        begin = time.monotonic()
        for _ in range(times):
            p.send_signal(number)
            time.sleep(0.1)
        said = p.communicate(timeout=60)[1]
        self.assertLess(time.monotonic() - begin, 10, said)  # it would wait for ever
        self.assertEqual(p.returncode, -number, said)

    def test_pipe_without_reader(self):
        pipe, metrics = self.path("pipe"), self.path("metrics")
        os.mkfifo(pipe)
        waits = lambda p: self.waits_in_open(p)
        p = self.start("run", self.so, "--steps", "1", "--data", self.data, "--save", pipe)
        waits(p)
        self.ends_at_once(p, signal.SIGTERM)
        p = self.start("run", self.so, "--data", self.data, "--infer", pipe)
        waits(p)
        self.ends_at_once(p, signal.SIGINT)
        p = self.start("compile", self.model, "-o", pipe)
        waits(p)
        self.ends_at_once(p, signal.SIGTERM)
        p = self.start("run", self.so, "--steps", "100000000", "--data", self.data, "--save", pipe, "--metrics", metrics)
        self.followed(p, metrics)
        self.ends_at_once(p, signal.SIGTERM)  # told to stop: it does not wait for a reader

    def test_linker_hangs(self):
        """A signal ends the linker too, and the folder of both is gone."""
        linker = self.write("linker", "#!/bin/sh\nexec sleep 1000\n")
        os.chmod(linker, 0o755)
        p = self.start("compile", self.model, "-o", self.path("never.so"), "--linker", linker)
        end = time.monotonic() + 120
        while not any(n.startswith("stepc-") for n in os.listdir(self.folder)) and time.monotonic() < end:
            time.sleep(0.01)
        self.ends_at_once(p, signal.SIGTERM)
        self.assertEqual(self.forsaken(), [])

    def waits_in_open(self, p):
        """Until a thread of the process sleeps in open(2)."""
        def opens():
            try:
                calls = []
                for task in os.listdir("/proc/%d/task" % p.pid):
                    with open("/proc/%d/task/%s/syscall" % (p.pid, task)) as f:
                        calls.append(f.read().split()[0])
            except OSError:  # it is gone
                return False
            return "2" in calls or "257" in calls

        end = time.monotonic() + 120
        while time.monotonic() < end and p.poll() is None:
            if opens() and (time.sleep(0.05) or opens()):
                return
            time.sleep(0.01)
        self.fail("it does not wait for a reader: %s" % p.communicate()[1] if p.poll() is not None else "it does not open the pipe")

    def test_second_signal(self):
        """While a step runs that takes long, a second signal ends the process."""
        big = self.write("big.json", {"stepc": 1, "inputs": {"x": {"shape": [4000, 4000], "axes": ["batch", None]}},
                                      "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 4000}] * 6},
                                      "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.01}})
        self.stepc("compile", big, "-o", self.path("big.so"))
        safetensors.write(self.path("big.safetensors"), {"x": np.zeros((1, 4000, 4000), np.float32)})
        p = self.start("run", self.path("big.so"), "--steps", "1000", "--data", self.path("big.safetensors"), "--threads", "1")
        time.sleep(3)
        self.ends_at_once(p, signal.SIGTERM, times=2)


if __name__ == "__main__":
    runner.main()
