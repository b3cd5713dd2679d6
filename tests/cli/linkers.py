#!/usr/bin/env python3
"""The ways to an object: modules that become machine code beside each other, LLVM and lld in the library of the program's own, or the system's LLVM and a linker that is started. They
make the same one, and a linker that hangs or is ended leaves a message and nothing else.

usage: linkers.py STEPC"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner

DOCUMENTS = ("samples/cookbook/model.json", "samples/digits/model.json")
OWN = "libstepc_llvm.so"
os.environ.pop("STEPC_LLVM", None)


def child_of(pid):
    """The process that it has started, None: none."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name) as f:
                if int(f.read().rpartition(")")[2].split()[1]) == pid:
                    return int(name)
        except OSError:
            continue  # it has just ended
    return None


class Objects(runner.Case):
    def object(self, env, *arguments, **how):
        self.stepc("compile", *arguments, "-q", "-o", "step.so", env=env, **how)
        self.stepc("verify", "step.so")  # its first steps
        with open(self.path("step.so"), "rb") as f:
            return f.read()


class Modules(Objects):
    def test_modules(self):
        """Machine code of many kernels is made in several modules, of which the object does not show how many threads there were; what it needs is what any of them needs."""
        document = os.path.join(ROOT, "samples/shakespeare/model.json")
        kept = self.object({}, document, "-O0", "--save-temps=.")
        self.assertGreater(len([n for n in os.listdir(self.folder) if n.endswith(".o")]), 2)
        one = {min(os.sched_getaffinity(0))}
        self.assertEqual(kept, self.object({}, document, "-O0", preexec_fn=lambda: os.sched_setaffinity(0, one)))
        layers = [l for i in range(14) for l in ({"type": "linear", "features": 40 + 24 * i}, {"type": ("gelu", "tanh", "silu", "softplus")[i % 4]})]
        narrow = {"stepc": 1, "name": "narrow", "inputs": {"x": {"shape": [256, 256], "dtype": "float32", "axes": ["batch", None]}}, "loss": "mean(model ** 2)",
                  "model": {"type": "sequential", "input": "x", "layers": [*layers, {"type": "linear", "features": 256, "dtype": "bfloat16"}]},
                  "optimizer": {"type": "adam", "learning_rate": 0.1}}
        for cpu in "znver4", "x86-64-v4":  # the first module multiplies no pairs, others do
            self.stepc("compile", self.write("narrow.json", narrow), "-q", "-O0", "-o", "narrow.so", "--cpu", cpu)
            self.assertEqual("avx512bf16" in json.loads(self.stepc("explain", "narrow.so", "--json").stdout)["target"]["features"], cpu == "znver4")


class Linkers(Objects):
    def setUp(self):
        system = re.search(r"^STEPC_LLVM .*path of (\S+)\)", self.stepc("doctor").stdout, re.M).group(1)
        self.system = {"STEPC_LLVM": system}
        self.own = {"STEPC_LLVM": os.path.join(os.path.dirname(self.program), OWN)}
        if not os.path.exists(self.own["STEPC_LLVM"]):
            self.skipTest("%s was not built" % OWN)

    def test_which(self):
        beside, named = self.stepc("doctor").stdout, self.stepc("doctor", env=self.system).stdout
        for text, what in (beside, self.own), (named, self.system):
            self.assertRegex(text, r"(?m)^LLVM +%s$" % re.escape(what["STEPC_LLVM"]))
        self.assertRegex(beside, r"(?m)^linker +lld in %s$" % re.escape(self.own["STEPC_LLVM"]))
        self.assertRegex(named, r"(?m)^linker +/.*/ld")
        none = dict(self.own, PATH="/nonexistent")  # neither LLVM nor a linker of others
        self.stepc("doctor", env=none)
        self.stepc("compile", os.path.join(ROOT, DOCUMENTS[0]), "-o", "step.so", env=none)
        self.assertIn("found neither ld.lld nor ld", self.stepc("compile", os.path.join(ROOT, DOCUMENTS[0]), "-o", "step.so", env=dict(none, **self.system), code=3).stderr)

    def test_same_object(self):
        for document in DOCUMENTS:
            for level in "-O0", "-O2":
                with self.subTest(document=document, level=level):
                    row = os.path.join(ROOT, document), level
                    own = self.object(self.own, *row)
                    self.assertEqual(self.object(self.own, *row), own)
                    self.assertEqual(self.object(self.own, *row, "--linker", "ld.lld"), self.object(self.system, *row, "--linker", "ld.lld"))
                    self.assertNotRegex(own, rb"LLD|LLVM|clang")  # no versions, nor who linked it
                    if shutil.which("ld.lld-16"):
                        self.assertEqual(self.object(self.system, *row, "--linker", "ld.lld-16"), own)
                    self.object(self.own, *row, "--linker", "ld")

    def hanging(self, env):
        """A compiler whose linker waits for a reader, and that linker."""
        os.mkdir(self.path("tmp"))
        os.mkfifo(self.path("pipe"))
        p = subprocess.Popen([self.program, "compile", os.path.join(ROOT, DOCUMENTS[0]), "-O0", "-o", "never.so"], stderr=subprocess.PIPE, text=True,
                             cwd=self.folder, env=runner.environment(TMPDIR=self.path("tmp"), LLD_REPRODUCE=self.path("pipe"), **env))
        end, child = time.monotonic() + 120, None
        while not child and p.poll() is None and time.monotonic() < end:
            child = child_of(p.pid)
        self.assertIsNotNone(child, p.communicate()[1] if p.poll() is not None else "no child")
        return p, child

    def gone(self):
        self.assertEqual(os.listdir(self.path("tmp")), [])
        self.assertFalse(os.path.exists(self.path("never.so")))
        shutil.rmtree(self.path("tmp"))
        os.unlink(self.path("pipe"))

    def test_ended(self):
        """Whoever ends the linker, the compiler says so; what ends the compiler ends the linker, too."""
        for env in self.own, self.system:
            p, child = self.hanging(env)
            os.kill(child, signal.SIGKILL)
            said = p.communicate(timeout=60)[1]
            self.assertEqual(p.returncode, 3, said)
            self.assertRegex(said, r"the linker (ld\.)?lld was ended by signal 9")
            self.gone()
            for number in signal.SIGTERM, signal.SIGINT:
                p, child = self.hanging(env)
                p.send_signal(number)
                said = p.communicate(timeout=60)[1]
                self.assertEqual(p.returncode, -number, said)
                self.assertFalse(os.path.exists("/proc/%d" % child))
                self.gone()


if __name__ == "__main__":
    runner.main()
