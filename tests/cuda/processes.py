#!/usr/bin/env python3
"""GPUs of several processes by NCCL, on the stand-ins for it and for the driver: recorded cases of the family mesh, programs with every
kind of collective and the samples, as ranks that meet through a file, give what one process gives, up to rounding, for NCCL sums in
another order. A rank that is killed, stopped or runs another object ends the others in time, with its name; so does what is missing.

    STEPC_CUDA_DRIVER=build/cuda/libcuda.so.1 STEPC_NCCL=build/cuda/libnccl.so.2 tests/cuda/processes.py build/stepc
"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from mesh import mpi, programs
from mesh.explicit import STEPS, draw
from tool import ROOT, comparison, recorded, runner, safetensors

TIMEOUT = 3
CASES = [("mesh_data_parallel", "data=4", 4, 0), ("mesh_tensor_parallel", "model=4", 2, 0), ("mesh_transformer_state", "data=2,model=2", 4, 2e-4),
         ("mesh_uneven_accumulate", "data=4", 4, 0)]
WITH_MOVES = ("experts_all_to_all", "convolution_space", "zero_1")
HALVES = programs.document("halves", {"data": 4}, {"x": programs.tensor(8, 16)}, [programs.linear("a", 16), programs.linear("b", 5)], "mean(model**2)", {"**": []}) | {
    "precision": {"params": "bfloat16", "compute": "bfloat16"}, "metrics": {"most": "max(model)", "least": "min(model)"}}


class Processes(runner.SharedCase):
    def compiled(self, name, model, *more):
        runner.call(self.program, "compile", model, "-q", "-o", self.path(name + ".so"), "--target=cuda", "--cuda-arch=text", *more, verify=False)
        return self.path(name + ".so")

    def start(self, ranks, so, *arguments, timeout=60, last=None, **env):
        """Processes of a run; `last`: the object of the last rank."""
        meet = self.path("meet-%d" % len(os.listdir(self.path("."))))
        return [subprocess.Popen([self.program, "run", last if last and k == ranks - 1 else so, "-q", "--transport=nccl", "--timeout=%d" % timeout, *arguments],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                                 env={**os.environ, "STEPC_RANK": str(k), "STEPC_RANKS": str(ranks), "STEPC_NCCL_ID_FILE": meet, "STAND_IN_NCCL_FOLDER": self.path("."), **env})
                for k in range(ranks)]

    def ended(self, processes, code=0, within=120):
        """What they say."""
        try:
            said = [p.communicate(timeout=within)[1] for p in processes]
        finally:
            for p in processes:
                p.kill()
        self.assertEqual([p.returncode for p in processes], [code] * len(processes), said)
        return said

    def agrees(self, name, so, ranks, steps, data, rtol, *more):
        """One process and several: losses and all state."""
        files = {n: (self.path("%s-%d.jsonl" % (name, n)), self.path("%s-%d.safetensors" % (name, n))) for n in (1, ranks)}
        run = ["--steps=%d" % steps, "--data", data, "--all-state", *more]
        runner.call(self.program, "run", so, "-q", *run, "--metrics", files[1][0], "--save", files[1][1])
        counts = self.path(name + ".counts")
        self.ended(self.start(ranks, so, *run, "--metrics", files[ranks][0], "--save", files[ranks][1], STAND_IN_NCCL_COUNTS=counts))
        one, many = ([line["loss"] for line in runner.metrics(files[n][0])] for n in (1, ranks))
        self.assertEqual(len(many), steps)
        comparison.agree(name + " loss", many, one, max(rtol, 1e-5), 1e-6)
        one, many = (safetensors.wide(files[n][1]) for n in (1, ranks))
        comparison.all_agree(many, one, max(rtol, 1e-4), max(rtol, 1e-5))
        with open(counts) as f:
            calls = {}
            for line in f:
                kind, n = line.split()
                calls[kind] = calls.get(kind, 0) + int(n)
        return calls

    # ------------------------------------------------------------ the same numbers

    def test_recorded(self):
        """With one device in a process, and with two."""
        for name, mesh, ranks, rtol in CASES:
            case = recorded.Case(os.path.join(recorded.CASES, "mesh", name))
            folder = self.path(name)
            model, init = case.unpack(folder), os.path.join(folder, "init.safetensors")
            so = self.compiled(name, model, "--mesh", mesh)
            calls = self.agrees(name, so, ranks, case.steps, os.path.join(folder, "data.safetensors"), rtol, *(["--init", init] if os.path.exists(init) else []))
            self.assertGreater(calls["ncclAllReduce"], 0, name)

    def test_moves(self):
        """By an optimizer that does not amplify rounding. What goes from some to some, and pieces that are packed; sums of 16 bits, and a maximum, which NCCL is not asked for."""
        seen = {}
        for document in [d for d in programs.PROGRAMS if d["name"] in WITH_MOVES] + [HALVES]:
            folder, r = self.path(document["name"]), np.random.default_rng(0)
            os.makedirs(folder)
            document = document | {"optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9}, "mesh": {"axes": {axis: min(n, 2) for axis, n in document["mesh"]["axes"].items()}}}
            runner.write_document(folder, document, {k: draw(r, i) for k, i in document["inputs"].items()})
            so = self.compiled(document["name"], os.path.join(folder, "model.json"))
            rtol = 2e-2 if document["name"] == "halves" else 1e-3
            for kind, n in self.agrees(document["name"], so, 2, STEPS, os.path.join(folder, "data.safetensors"), rtol).items():
                seen[kind] = seen.get(kind, 0) + n
        for kind in ("ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclSend", "ncclRecv"):
            self.assertGreater(seen[kind], 0, seen)

    def test_samples(self):
        r = np.random.default_rng(0)
        for name, defines in (("digits", ()), ("shakespeare", ("-Dlayers=1", "-Dwidth=32", "-Dcontext=16", "-Dbatch=8"))):
            model = os.path.join(ROOT, "samples", name, "model.json")
            for ranks in (2, 4):
                so = self.compiled("%s-%d" % (name, ranks), model, *defines, "--mesh=data=%d" % ranks)
                inputs = json.loads(runner.attempt(self.program, "explain", so, "--json").stdout)["tensors"]
                data = {t["name"]: r.standard_normal([3, *t["shape"]]).astype("f4") if t["dtype"] == "float32" else r.integers(0, 10, [3, *t["shape"]]).astype("i4")
                        for t in inputs if t["role"] == "input"}
                safetensors.write(self.path(name + ".data"), {k: safetensors.of_array(v) for k, v in data.items()})
                self.agrees("%s-%d" % (name, ranks), so, ranks, 3, self.path(name + ".data"), 1e-3)

    def test_mpirun(self):
        """Processes that mpirun starts meet by MPI."""
        if not mpi.installed(self.program):
            self.skipTest("no MPI")
        so, data = self.small(2)
        run = ["run", so, "--steps=3", "-q", "--data", data, "--metrics"]
        runner.call(self.program, *run, self.path("alone.jsonl"))
        runner.call(self.program, *run, self.path("mpi.jsonl"), "-n", "2", "--transport=nccl", env={**mpi.QUIET, "STAND_IN_NCCL_FOLDER": self.path(".")})
        many, one = ([line["loss"] for line in runner.metrics(self.path(name))] for name in ("mpi.jsonl", "alone.jsonl"))
        comparison.agree("loss", many, one, 1e-5)

    # ------------------------------------------------------------ what goes wrong

    def small(self, devices, name="small", features=16):
        folder, r = self.path("%s-%d" % (name, devices)), np.random.default_rng(0)
        if not os.path.exists(folder):
            os.makedirs(folder)
            document = programs.document(name, {"data": devices}, {"x": programs.tensor(8, 16)}, [programs.linear("a", features), programs.linear("b", 5)], "mean(model**2)", {"**": []})
            runner.write_document(folder, document, {"x": r.standard_normal((2, 8, 16)).astype("f4")})
            self.compiled("%s-%d" % (name, devices), os.path.join(folder, "model.json"))
        return self.path("%s-%d.so" % (name, devices)), os.path.join(folder, "data.safetensors")

    def lose(self, number, *wanted, ranks=3):
        so, data = self.small(ranks)
        started = self.start(ranks, so, "--steps=100000", "--data", data, "--metrics=-", timeout=TIMEOUT)
        for _ in range(5):  # it trains
            self.assertTrue(started[0].stdout.readline())
        lost = started[1]
        lost.send_signal(number)
        begin = time.monotonic()
        try:
            said = self.ended([p for p in started if p is not lost], code=3, within=TIMEOUT + 2)
        finally:
            for p in started:
                p.kill()
                p.communicate()
        self.assertLess(time.monotonic() - begin, TIMEOUT + 2)
        for text in wanted:
            self.assertIn(text, "".join(said))
        return said

    def test_killed(self):
        self.lose(signal.SIGKILL, "rank 1 has ended: its connection is closed")

    def test_stopped(self):
        self.assertRegex("".join(self.lose(signal.SIGSTOP)), r"waited \d+ ms at step \d+\n  rank 1 \(host \S+, pid \d+\) does not answer")

    def test_another_object(self):
        (so, data), (other, _) = self.small(2), self.small(2, "other", 24)
        for said in self.ended(self.start(2, so, "--steps=2", "--data", data, last=other), code=3):
            self.assertIn("runs another object (other, mesh data=2) than rank 0 (small, mesh data=2): start all with the same file", said)

    def test_a_rank_that_does_not_come(self):
        so, data = self.small(2)
        started = self.start(2, so, "--steps=2", "--data", data, timeout=2)
        started[1].kill()
        started[1].communicate()
        said = self.ended(started[:1], code=3, within=10)[0]
        self.assertRegex(said, r'transport "nccl", rank 0 of 2, by the file \S+: (1 of 2 ranks came|rank 1 went away)|rank 1 has ended')  # it may have come

    def refused(self, *wanted, code=3, **env):
        so, data = self.small(2)
        for said in self.ended(self.start(1, so, "--steps=2", "--data", data, timeout=2, **env), code):
            for text in wanted:
                self.assertIn(text, said)
            self.assertEqual(said.count("\n"), 1, said)

    def test_what_is_missing(self):
        nothing = self.path("nothing.so")
        self.refused('transport "nccl" needs NCCL, and there is none here (%s): install libnccl2, or name the file in STEPC_NCCL' % nothing, STEPC_NCCL=nothing)
        self.refused("is 2.17, 2.18 or later is needed", STAND_IN_NCCL_VERSION="21700")
        self.refused("lacks nccl", STEPC_NCCL=os.environ["STEPC_CUDA_DRIVER"])
        self.refused("which rank of how many this process is STEPC_RANK and STEPC_RANKS say", code=1, STEPC_RANK="2", STEPC_RANKS="2")

    def test_cpu(self):
        runner.call(self.program, "compile", os.path.join(os.path.dirname(self.small(2)[1]), "model.json"), "-q", "-o", self.path("cpu.so"))
        done = runner.attempt(self.program, "run", self.path("cpu.so"), "--steps=1", "--transport=nccl", "--data", self.small(2)[1])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('transport "nccl" needs GPUs of a mesh: compile --target cuda --mesh data=N', done.stderr)


if __name__ == "__main__":
    runner.main()
