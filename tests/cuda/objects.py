#!/usr/bin/env python3
"""Objects for CUDA on the stand-in for the driver: what they say where something is missing or breaks, what they ask of the driver
in a step, and that everything a host can do gives what an object for the CPU gives.

    STEPC_CUDA_DRIVER=build/cuda/libcuda.so.1 tests/cuda/objects.py build/stepc
"""
import ctypes
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples")]
from tool import recorded, runner, safetensors

import numpy as np

import stepc

def model(features):
    return {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "features": features}, {"type": "tanh"}, {"type": "dropout", "rate": 0.1}, {"type": "linear", "features": 3}]}


DOCUMENT = {
    "stepc": 1, "name": "both", "inputs": {"x": {"shape": [8, 6]}, "y": {"shape": [8, 3]}}, "model": model(16),
    "loss": "mean((model - y)**2)", "optimizer": {"type": "adamw", "learning_rate": 0.01}, "ema": {"decay": 0.9}}
LOOP = {**DOCUMENT, "name": "loop", "model": model(512), "accumulate": {"microbatch_size": 2}}  # too wide for a sequence


def batch(k, size=8):
    r = np.random.default_rng(k)
    return {"x": r.standard_normal((size, 6), dtype="f4"), "y": r.standard_normal((size, 3), dtype="f4")}


def every(keys):
    """The batches of these numbers, one behind the other."""
    return {n: np.stack([batch(k)[n] for k in keys]) for n in ("x", "y")}


def results_of(m, n, values, lacking=None):
    """All that step_n tells: (step, loss, flags) each, and its status; lacking: the one whose size is not set."""
    keep, results = [], (stepc._RESULT * n)()
    for i, r in enumerate(results):
        r.size = ctypes.sizeof(stepc._RESULT) if i != lacking else 0
    status = m._step_n(m._instance, ctypes.byref(m._batch(values, keep)), ctypes.c_uint64(n), results)
    return [(r.step, r.loss, r.flags) for r in results], status


def close(test, got, want, what):
    for name, value in want.items():
        np.testing.assert_allclose(np.asarray(got[name], "f8"), np.asarray(value, "f8"), rtol=2e-4, atol=2e-5, err_msg="%s: %s" % (what, name))
    test.assertEqual(set(got), set(want))


class Objects(runner.SharedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, document in (("both", DOCUMENT), ("loop", LOOP)):
            runner.write_json(cls.path(name + ".json"), document)
            for device, more in (("cpu", ()), ("cuda", ("--target=cuda", "--cuda-arch=text"))):
                runner.call(cls.program, "compile", cls.path(name + ".json"), "-o", cls.path("%s-%s.so" % (name, device)), *more)

    def host(self, text, code=0, **env):
        """What a process says that runs the text on an object for CUDA."""
        head = "import sys\nsys.path[:0] = %r\nimport numpy as np, stepc\nfrom objects import batch\nSO = %r\n" % (
            [HERE, *sys.path[:2]], self.path("both-cuda.so"))
        done = subprocess.run([sys.executable, "-c", head + text], capture_output=True, text=True, timeout=600, env={**os.environ, **env})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def refused(self, *wanted, **env):
        """`create` fails and the process lives."""
        said = self.host("try:\n    stepc.Step(SO)\nexcept stepc.StepError as e:\n    print(e)\nelse:\n    sys.exit(1)\n", **env)
        for text in wanted:
            self.assertIn(text, said)

    # ------------------------------------------------------------ what is missing

    def test_no_driver(self):
        self.refused("STEP_EDEVICE", "no CUDA driver here (%s)" % self.path("nothing.so"), STEPC_CUDA_DRIVER=self.path("nothing.so"))

    def test_old_driver(self):
        self.refused("too old", "CUDA 11.4", STAND_IN_VERSION="11040")

    def test_no_device(self):
        self.refused("there is no CUDA device here", STAND_IN_DEVICES="0")
        self.refused("there is no CUDA device here", "CUDA_VISIBLE_DEVICES=-1", CUDA_VISIBLE_DEVICES="-1")

    def test_list_of_devices(self):
        self.refused('there is no cuda:3; the driver shows 1 device', STEPC_DEVICES="cuda:3", STAND_IN_DEVICES="1")
        self.refused("expected a list like cuda:0,1", STEPC_DEVICES="cuda:x")
        self.refused("expected a list like cuda:0,1", STEPC_DEVICES="cpu")
        self.host("m = stepc.Step(SO)\nm.init()\nm.close()\n", STEPC_DEVICES="cuda:1", STAND_IN_DEVICES="2")

    def test_slice_of_a_card(self):
        """In MIG mode a process sees one slice, whatever it lists; its name says what it is."""
        env = {"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2", "STAND_IN_DEVICES": "2"}
        self.refused("there is no cuda:1; the driver shows 1 device, CUDA_VISIBLE_DEVICES=MIG-1,MIG-2 (of MIG slices a process sees one)",
                     STEPC_DEVICES="cuda:1", **env)
        self.host("m = stepc.Step(SO)\nm.init()\nm.step(**batch(0))\nm.close()\n", **env)
        self.assertIn("0: stand-in 0 MIG 1g.10gb (sm_80", runner.attempt(self.program, "doctor", env=env).stdout)

    def cubins(self, so, *more):
        """Compiled by NVRTC; without it the test is not for this machine."""
        done = self.stepc("compile", self.path("both.json"), "-o", self.path(so), "--target=cuda", *more, code=None)
        if done.returncode == 3 and "needs NVRTC" in done.stderr:
            self.skipTest("no NVRTC")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path(so), "rb") as f:
            return f.read()

    def create(self, so, **env):
        return self.host("try:\n    stepc.Step(%r)\nexcept stepc.StepError as e:\n    print(e)\n" % self.path(so), **env)

    def test_wrong_architecture(self):
        self.cubins("old.so", "--cuda-arch=sm_80")
        said = self.create("old.so", STAND_IN_CAPABILITY="9.0")
        self.assertIn("this object has code for sm_80, cuda:0 (stand-in 0) is sm_90 (compile with --cuda-arch sm_90)", said)

    def test_architectures(self):
        """The best image is taken: a cubin of the device's generation, else PTX, whose compiler is heard."""
        self.cubins("several.so", "--cuda-arch=sm_80,sm_90,compute_90")
        for capability, arch in (("8.0", "sm_80"), ("8.9", "sm_80"), ("9.0", "sm_90"), ("10.0", "compute_90"), ("12.0", "compute_90")):
            said = self.create("several.so", STAND_IN_CAPABILITY=capability)
            self.assertIn("cuda:0 does not take this object's code for %s:" % arch, said)
        self.assertIn("CUDA_ERROR_INVALID_PTX", said)
        self.assertIn("compile with --cuda-arch for this device itself\n  ptxas fatal: the stand-in compiles no PTX", said)
        said = self.create("several.so", STAND_IN_CAPABILITY="7.5")
        self.assertIn("this object has code for sm_80,sm_90,compute_90, cuda:0 (stand-in 0) is sm_75", said)

    def test_of_one_device_only(self):
        """Code with a letter is for one device, and the best for it."""
        self.cubins("letter.so", "--cuda-arch=sm_90,sm_90a,compute_90a,sm_80")
        for capability, arch in (("8.0", "sm_80"), ("9.0", "sm_90a"), ("9.1", "sm_90")):
            said = self.create("letter.so", STAND_IN_CAPABILITY=capability)
            self.assertIn("cuda:0 does not take this object's code for %s:" % arch, said)
        said = self.create("letter.so", STAND_IN_CAPABILITY="10.0")
        self.assertIn("this object has code for sm_90,sm_90a,compute_90a,sm_80, cuda:0 (stand-in 0) is sm_100", said)
        self.cubins("letter.so", "--cuda-arch=compute_90a")
        self.assertIn("cuda:0 does not take this object's code for compute_90a:", self.create("letter.so", STAND_IN_CAPABILITY="9.0"))

    def test_bytes_do_not_depend_on_cores(self):
        cores = os.sched_getaffinity(0)
        many = self.cubins("again.so", "--cuda-arch=sm_80,sm_90")
        os.sched_setaffinity(0, {min(cores)})
        try:
            self.assertTrue(many == self.cubins("again.so", "--cuda-arch=sm_80,sm_90"))
        finally:
            os.sched_setaffinity(0, cores)

    def test_pieces(self):
        """A long text is several, which hold every kernel once."""
        model = os.path.join(HERE, "..", "..", "samples", "shakespeare", "model.json")
        runner.call(self.program, "compile", model, "-Dlayers=1", "-o", self.path("long.so"), "--target=cuda", "--cuda-arch=text",
                    "--save-temps=" + self.path("."), verify=False)
        with open(self.path("long.so"), "rb") as f:
            data = f.read()
        with open(self.path("long.cu"), "rb") as f:
            kernels = re.compile(rb'extern "C" __global__[^(]*\([^)]*\) (kernel_\d+)\(')
            text = f.read()
        printed, parts = kernels.findall(text), [b"kernel_" + n for n in re.findall(rb"\n        case (\d+): {", text)]
        self.assertGreater(len(printed), 20)
        with open(self.path("long.cu.nests"), "rb") as f:
            nests = re.findall(rb"^(kernel_\d+): nest ", f.read(), re.MULTILINE)
        self.assertEqual(set(nests), set(printed + parts))
        self.assertGreater(len(nests), 20)
        self.assertFalse(os.path.exists(self.path("long.nests")))  # of the kernels of a CPU
        self.assertEqual(kernels.findall(data), printed)
        self.assertGreater(data.count(b"stepc_bf16_value(unsigned short bits)"), 1)  # a prelude each

    def stepc(self, *arguments, code=0, **more):
        done = runner.attempt(self.program, *arguments, **more)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_memory(self):
        self.refused("STEP_ENOMEM", "needs", "of its 4096 bytes 4096 are free", STAND_IN_MEMORY="4096")
        self.refused("STEP_ENOMEM", STAND_IN_FAIL="cuMemAlloc:3:2")
        self.refused("STEP_ENOMEM", "of its 1000000 bytes 2000 are free; who has the others, of this and other processes, nvidia-smi shows",
                     STAND_IN_MEMORY="1000000", STAND_IN_USED="998000")

    def test_two_processes(self):
        """Of which the card takes one only; and which share it."""
        self.refused("CUDA_ERROR_DEVICE_UNAVAILABLE 46", "another process has the device for itself", STAND_IN_FAIL="cuDevicePrimaryCtxRetain:1:46")
        self.host("m = stepc.Step(SO)\nm.init()\nprint(m.step(**batch(0)).loss)\nm.close()\n", STAND_IN_USED="1000000000")

    def test_what_a_status_means(self):
        self.refused("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH 803", "give the container the driver of its host", STAND_IN_FAIL="cuInit:1:803")
        self.refused("CUDA_ERROR_UNKNOWN 999", "may have an Xid", STAND_IN_FAIL="cuDeviceGetCount:1:999")
        self.refused("STEP_EDEVICE", "unknown error 12345", STAND_IN_FAIL="cuInit:1:12345")

    def test_fork(self):
        """What was used of the driver before is of no use to the child, whose own object says so; without it the child has one."""
        child = "if not os.fork():\n    try:\n        stepc.Step(SO).close()\n        print('opened', flush=True)\n    except stepc.StepError as e:\n        print(e, flush=True)\n    os._exit(0)\nos.wait()\n"
        said = self.host("import os\nm = stepc.Step(SO)\n" + child + "m.close()\n")
        self.assertIn("CUDA_ERROR_NOT_INITIALIZED 3", said)
        self.assertIn("the child of a fork", said)
        self.assertIn("opened", self.host("import os\n" + child))

    def test_a_call_fails(self):
        for name in ("cuInit", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncLoad",
                     "cuStreamCreate", "cuMemsetD8Async", "cuStreamSynchronize", "cuMemcpyHtoDAsync"):
            self.refused("CUDA_ERROR_SYSTEM_NOT_READY" if name in ("cuInit", "cuDevicePrimaryCtxRetain", "cuStreamCreate") else "STEP_E",
                         STAND_IN_FAIL=name + ":1:802")

    def test_doctor(self):
        said = self.stepc("doctor", env={"STAND_IN_DEVICES": "2", "STAND_IN_MEMORY": str(80 << 30), "STAND_IN_CAPABILITY": "9.0"}).stdout
        for line in (r"CUDA driver  .*libcuda.so.1 \(for CUDA 13.0\)", r"CUDA devices 0: stand-in 0 \(sm_90, 80.0 GiB\); 1: stand-in 1 \(sm_90, 80.0 GiB\)",
                     "NVRTC  ", "cuBLASLt  ", "NCCL  "):
            self.assertRegex(said, line)
        for env, wanted in (({"STAND_IN_VERSION": "11040"}, "for CUDA 11.4; objects need one for 12.0 or later"),
                            ({"STAND_IN_DEVICES": "0"}, "CUDA devices none: the driver says 100"),
                            ({"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA devices none: the driver says 100, CUDA_ERROR_NO_DEVICE; CUDA_VISIBLE_DEVICES=-1"),
                            ({"STAND_IN_FAIL": "cuInit:1:803"}, "none: the driver says 803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
                            ({"STEPC_CUDA_DRIVER": self.path("nothing.so")}, "CUDA driver  not found")):
            self.assertIn(wanted, self.stepc("doctor", env=env).stdout)

    # ------------------------------------------------------------ what breaks

    FAILS = """
m = stepc.Step(SO)
for k in range(9):
    try:
        m.step(**batch(k)) if k else m.init()
    except stepc.StepError as e:
        print(k, e)
        break
try:
    m.step(**batch(0))
except stepc.StepError as e:
    print(e)
m.close()
n = stepc.Step(SO)  # the context was given back with its failure
n.init()
print("again", n.step(**batch(0)).loss)
n.close()
"""

    def test_a_launch_fails(self):
        said = self.host(self.FAILS, STAND_IN_FAIL="cuLaunchKernel:6:719")  # in the first run: with its name
        self.assertRegex(said, r'STEP_EDEVICE: device 0 \(cuda:0\): entry "\w+", kernel_\d+ \(/\S* \w+\): CUDA_ERROR_LAUNCH_FAILED')
        said = self.host(self.FAILS, STAND_IN_FAIL="cuLaunchKernel:%d:700" % (self.counts(1, "both-cuda.so")["cuLaunchKernel"] + 2))
        self.assertRegex(said, r'entry "step", kernel_\d+ \(/\S* \w+\) or one before it or launched with it: CUDA_ERROR_ILLEGAL_ADDRESS')
        self.assertIn("again", said)
        loop = self.FAILS.replace("SO", repr(self.path("loop-cuda.so")))
        said = self.host(loop, STAND_IN_FAIL="cuGraphLaunch:2:700")
        self.assertIn("launching a graph: CUDA_ERROR_ILLEGAL_ADDRESS", said)
        self.assertIn("STEP_EPOISONED", said)
        self.assertIn("again", said)
        said = self.host(loop, STAND_IN_FAIL="cuGraphLaunch:3:214")  # memory of the card
        self.assertIn("CUDA_ERROR_ECC_UNCORRECTABLE 214", said)
        self.assertIn("the system's log has an Xid", said)
        said = self.host(self.FAILS, STAND_IN_FAIL="cuLaunchKernel:40:719", STEPC_CUDA_CHECK="1")
        self.assertRegex(said, r"kernel_\d+ \(/\S* \w+\): CUDA_ERROR_LAUNCH_FAILED")

    def test_no_graphs(self):
        """What the driver makes no graph of is launched one by one, and asked for again a few times."""
        text, counts = "m = stepc.Step(%r)\nm.init()\nprint([m.step(**batch(k)).loss for k in range(9)])\nm.close()\n" % self.path("loop-cuda.so"), self.path("counts")

        def calls(**env):
            said = self.host(text, STAND_IN_COUNTS=counts, STEPC_LOG="warning", **env)
            with open(counts) as f:
                return said, {name: int(n) for name, n in (line.split() for line in f)}
        said, usual = calls()
        self.assertGreater(usual["cuGraphLaunch"], 1)
        once, later = calls(STAND_IN_FAIL="cuGraphInstantiate:1:801")
        self.assertRegex(once, "launched one by one, the driver makes no graph of them: CUDA_ERROR_NOT_SUPPORTED 801")
        self.assertTrue(once.startswith(said))
        self.assertIn(later["cuGraphLaunch"], range(1, usual["cuGraphLaunch"]))
        never, none = calls(STAND_IN_FAIL="cuStreamBeginCapture:0:900")
        self.assertRegex(never, "launched one by one from now on, the driver makes no graph .* 900 .*; a stream is being captured")
        self.assertTrue(never.startswith(said))
        self.assertEqual((none["cuStreamBeginCapture"], none.get("cuGraphLaunch", 0)), (3, 0))

    # ------------------------------------------------------------ code for the CPU and for GPUs in one object

    def test_both(self):
        """A GPU where it can be used, else the CPU, or what is asked for; each as the object for it alone."""
        self.stepc("compile", self.path("both.json"), "-o", self.path("two.so"), "--target=cpu,cuda", "--cuda-arch=text")
        steps = """
m = stepc.Step(%r, threads=1)
m.init()
print([m.step(**batch(k)).loss for k in range(3)], sorted((n, m[n].sum()) for n in m.names()))
m.close()
"""
        alone = {device: self.host(steps % self.path("both-%s.so" % device)) for device in ("cpu", "cuda")}
        self.assertNotEqual(alone["cpu"], alone["cuda"])
        for wanted, env in (("cuda", {}), ("cuda", {"STEPC_DEVICES": "cuda:0"}), ("cpu", {"STEPC_DEVICES": "cpu"}),
                            ("cpu", {"STEPC_CUDA_DRIVER": self.path("nothing.so")}), ("cpu", {"STAND_IN_DEVICES": "0"}), ("cpu", {"STAND_IN_VERSION": "11040"})):
            self.assertEqual(self.host(steps % self.path("two.so"), **env), alone[wanted], env)
        said = self.host(steps % self.path("two.so"), STAND_IN_DEVICES="0", STEPC_LOG="info")
        self.assertIn("both: on the CPU: STEP_EDEVICE: this object was compiled for CUDA, and there is no CUDA device here", said)
        said = self.host("try:\n    stepc.Step(%r)\nexcept stepc.StepError as e:\n    print(e)\n" % self.path("two.so"), STEPC_DEVICES="cuda:2", STAND_IN_DEVICES="1")
        self.assertIn("there is no cuda:2", said)
        with stepc.Step(self.path("two.so"), devices="cuda") as m, stepc.Step(self.path("two.so"), devices="cpu", threads=1) as n:
            m.init()
            m.step(**batch(0))
            m.save(self.path("two.safetensors"))  # what one saves the other one loads
            n.load(self.path("two.safetensors"))
            self.assertAlmostEqual(m.step(**batch(1)).loss, n.step(**batch(1)).loss, 5)
            close(self, n.state(), m.state(), "loaded")
        self.assertIn("cpu,cuda", self.stepc("explain", self.path("two.so")).stdout)
        self.stepc("verify", self.path("two.so"))
        for option in ("--check-finite", "--numerics=invariant"):
            done = self.stepc("compile", self.path("both.json"), "-o", self.path("no.so"), "--target=cpu,cuda", option, code=2)
            self.assertIn("only with --target cpu", done.stderr)

    # ------------------------------------------------------------ what it asks of the driver

    def counts(self, steps, so):
        file = self.path("counts")
        self.host("m = stepc.Step(%r)\nm.init()\nfor k in range(%d):\n    m.step(**batch(k, %d))\nm.close()\n" % (
            self.path(so), steps, 8), STAND_IN_COUNTS=file)
        with open(file) as f:
            return {name: int(n) for name, n in map(str.split, f)}

    def test_a_step_is_one_launch(self):
        for so, asked in (("both-cuda.so", {"cuLaunchKernel": 1}), ("loop-cuda.so", {"cuGraphLaunch": 1, "cuMemcpyHtoDAsync": 2, "cuLaunchKernel": 1})):
            few, many = self.counts(3, so), self.counts(13, so)
            more = {name: (n - few[name]) / 10 for name, n in many.items() if n != few[name]}
            self.assertEqual(more.pop("cuCtxPushCurrent"), more.pop("cuCtxPopCurrent"), so)
            self.assertEqual(more, {"cuStreamSynchronize": 1, **asked}, so)  # nothing allocated, nothing made

    def test_a_stream_is_of_one_device(self):
        runner.call(self.program, "compile", self.path("both.json"), "-o", self.path("two-gpus.so"), "--target=cuda", "--cuda-arch=text", "--mesh=data=2")
        with stepc.Step(self.path("two-gpus.so"), devices="cuda:0,1") as m:
            m.init()
            keep, result = [], stepc._RESULT(size=ctypes.sizeof(stepc._RESULT))
            given = m._batch(batch(0), keep)
            given.stream = 1
            with self.assertRaisesRegex(stepc.StepError, "STEP_EUNSUPPORTED: batch: a stream is for one GPU"):
                m._check(m._step(m._instance, ctypes.byref(given), ctypes.byref(result)), free=True)
            m.step(**batch(0))

    def test_more_tensors_than_a_launch_passes(self):
        """Sums of so many tensors, one or three for each operation."""
        document = self.path("many.json")
        for count, term in (600, "x%d"), (500, "where(c%d, x%d, y%d)"):
            each = re.findall(r"([cxy])%d", term)
            tensors = {kind + str(i): np.full(8, i % 2 if kind == "c" else i / count, "?" if kind == "c" else "f4") for kind in each for i in range(count)}
            formula = " + ".join(term % ((i,) * len(each)) for i in range(count))
            runner.write_json(document, {"stepc": 1, "name": "many", "inputs": {n: {"shape": [8], "dtype": "bool" if n[0] == "c" else "float32"} for n in tensors},
                                         "model": {"type": "graph", "nodes": [{"type": "param", "name": "w", "shape": [8]}], "output": "w"},
                                         "loss": "mean((params.w - (%s))**2)" % formula, "optimizer": {"type": "sgd", "learning_rate": 0.01}})
            losses = []
            for device, more in (("cpu", ()), ("cuda", ("--target=cuda", "--cuda-arch=text"))):
                runner.call(self.program, "compile", document, "-o", self.path("many.so"), *more)
                with stepc.Step(self.path("many.so")) as m:
                    m.init()
                    losses.append(m.step(**tensors).loss)
            self.assertAlmostEqual(losses[1] / losses[0], 1, 5)

    def test_loops_share_launches(self):
        """Before a loop over microbatches all weights are cast by one launch, and all accumulators filled by one; in it what has equal code is one."""
        nodes = [{"type": "linear", "name": n, "features": 64, "input": "x", "use_bias": False} for n in "abc"]
        document = {"stepc": 1, "name": "share", "inputs": {"x": {"shape": [64, 64]}}, "model": {"type": "graph", "nodes": nodes, "output": "a * tanh(b) + c"},
                    "loss": "mean(astype(model, 'float32')**2)", "precision": {"compute": "bfloat16"},
                    "optimizer": {"type": "sgd", "learning_rate": 0.5}, "accumulate": {"microbatch_size": 16}, "metrics": {"root": "sqrt(loss)"}}  # no sum over rows: one by one
        path = runner.write_json(self.path("share.json"), document)
        rows = [line for line in self.stepc("explain", path, "--target=cuda", "--kernels").stdout.splitlines() if "kernel_" in line]
        kinds = [(line.split()[1], "  x4  " in line) for line in rows]
        self.assertEqual(kinds.count(("copy", False)), 1, rows)
        self.assertEqual(kinds.index(("copy", False)) - kinds.index(("map", False)), 2, rows)  # the step's number, the weights
        self.assertEqual(kinds.count(("map", True)), 1, rows)  # the rows of a microbatch
        self.assertEqual(kinds.count(("dot", True)), 4, rows)  # of three gradients one
        runner.call(self.program, "compile", path, "-o", self.path("share-cpu.so"))
        runner.call(self.program, "compile", path, "-o", self.path("share.so"), "--target=cuda", "--cuda-arch=text")
        x = np.random.default_rng(0).standard_normal((64, 64), dtype="f4")
        with stepc.Step(self.path("share.so")) as m, stepc.Step(self.path("share-cpu.so")) as n:
            m.init()
            n.init()
            for _ in range(3):
                self.assertAlmostEqual(m.step(x=x).loss, n.step(x=x).loss, 2)

    def test_many_tensors_in_one_launch(self):
        """An update of many tensors, whatever their shapes, is as many launches as its table of members needs; the norm of all of them two."""
        shapes = {"g%d" % i: [1 + 7 * i % 5, 3 + i % 4] if i % 3 else [2 + i] for i in range(80)}
        document = {
            "stepc": 1, "name": "many", "inputs": {n: {"shape": s} for n, s in shapes.items()},
            "model": {"type": "graph", "output": "p0", "nodes": [{"type": "param", "name": n.replace("g", "p"), "shape": s} for n, s in shapes.items()]},
            "loss": " + ".join("sum(params.%s * %s)" % (n.replace("g", "p"), n) for n in shapes),
            "optimizer": {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, {"type": "adam", "learning_rate": 0.01}]}}
        path = runner.write_json(self.path("many.json"), document)
        runner.call(self.program, "compile", path, "-o", self.path("many-cpu.so"))
        runner.call(self.program, "compile", path, "-o", self.path("many.so"), "--target=cuda", "--cuda-arch=text")
        r = np.random.default_rng(0)
        given = [{n: r.standard_normal(s).astype("f4") for n, s in shapes.items()} for _ in range(3)]
        np.savez(self.path("given.npz"), **{"%s/%d" % (n, k): v for k, b in enumerate(given) for n, v in b.items()})
        text = """
given = np.load(%r)
m = stepc.Step(%r)
m.init()
for k in range(%%d):
    m.step(**{n[:-2]: given[n] for n in given.files if n.endswith("/%%%%d" %%%% k)})
np.savez(%r, **m.state())
m.close()
""" % (self.path("given.npz"), self.path("many.so"), self.path("state.npz"))
        launches = []
        for steps in (1, 3):
            self.host(text % steps, STEPC_CUDA_CHECK="1", STAND_IN_COUNTS=self.path("counts"))
            with open(self.path("counts")) as f:
                launches.append({name: int(n) for name, n in map(str.split, f)}["cuLaunchKernel"])
        self.assertLessEqual((launches[1] - launches[0]) / 2, 12)
        with stepc.Step(self.path("many-cpu.so")) as want:
            want.init()
            for b in given:
                want.step(**b)
            with np.load(self.path("state.npz")) as state:
                close(self, dict(state), want.state(), "many tensors")

    def text(self, name, layers, inputs):
        """The kernels of a stack of layers."""
        document = {"stepc": 1, "name": name, "inputs": {"x": {"shape": inputs}}, "model": {"type": "sequential", "input": "x", "layers": layers},
                    "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.5}}
        path = runner.write_json(self.path(name + ".json"), document)
        runner.call(self.program, "compile", path, "-o", self.path(name + ".so"), "--target=cuda", "--cuda-arch=text")
        with open(self.path(name + ".so"), "rb") as f:
            return f.read().decode("latin-1")

    def test_kernels_that_differ_in_numbers_are_one(self):
        """Layers with keys and scales of their own, however many, have the kernels of a few; every launch passes its numbers."""
        def layer(i):
            normal = {"type": "normal", "stddev": 0.1 + 0.05 * i}
            return [{"type": "linear", "features": 16, "kernel_init": normal}, {"type": "tanh"}, {"type": "dropout", "rate": 0.1 + 0.02 * i}]
        few, many = (sum([layer(i) for i in range(n)], []) for n in (4, 7))
        texts = [self.text(name, layers, [8, 16]) for name, layers in (("few", few), ("many", many))]
        heads = [re.findall(r"__global__ .*|case \d+: {|unsigned number_0 = ", t) for t in texts]
        self.assertEqual(len(heads[0]), len(heads[1]))
        self.assertGreaterEqual(sum("number_0" in h for h in heads[1]), 3)
        runner.call(self.program, "compile", self.path("many.json"), "-o", self.path("many-cpu.so"))
        x = np.random.default_rng(0).standard_normal((8, 16), dtype="f4")
        with stepc.Step(self.path("many.so")) as m, stepc.Step(self.path("many-cpu.so")) as n:
            m.init()
            n.init()
            close(self, m.state(), n.state(), "initial")
            for _ in range(3):
                self.assertAlmostEqual(m.step(x=x).loss, n.step(x=x).loss, 5)
            close(self, m.state(), n.state(), "after steps")

    def test_long_loops_are_unrolled_in_part(self):
        """The steps of a product, of which a thread has many sums: the loop that chooses no registers stays a loop."""
        layers = [{"type": "linear", "features": 2048}]
        self.assertRegex(self.text("large", layers, [2048, 64]), r"#pragma unroll 8\n *for \(long long i\d+ = 0; i\d+ < 16ll")

    def test_a_trace_is_of_what_kernels_take(self):
        """With launches that nobody waits for it would be of nothing."""
        data = {n: np.stack([batch(k)[n] for k in range(5)]) for n in ("x", "y")}
        safetensors.write(self.path("data.safetensors"), data)
        runner.call(self.program, "run", self.path("both-cuda.so"), "--steps", "5", "--data", self.path("data.safetensors"), "--trace",
                    self.path("trace.json"), env={"STAND_IN_COUNTS": self.path("counts")})
        with open(self.path("counts")) as f:
            self.assertNotIn("cuGraphLaunch", f.read())

    def test_explained_kernels(self):
        """What `explain` says of launches is what a step launches; the roofline is that of the card."""
        for what, *more in (self.path("both.json"), "--target=cuda"), (self.path("both-cuda.so"),):
            report = json.loads(self.stepc("explain", what, "--kernels", "--json", *more).stdout)
            rows = report["launches"]["step"]
            counts = [self.counts(steps, "both-cuda.so")["cuLaunchKernel"] for steps in (0, 1)]
            self.assertEqual(sum(row[6] for row in rows), counts[1] - counts[0] - 2)  # inputs, and what the host asks for
            said = self.stepc("explain", what, "--kernels", "--card=H100", *more).stdout
            for command, kernel, blocks, threads, *_, sequence, instructions in rows:
                self.assertRegex(said, r"#%d +\w+ +kernel_%d +%s" % (command, kernel, "part of it " if sequence else "%d x %d," % (blocks, threads)))
        step = json.loads(self.stepc("explain", self.path("both.json"), "--json", "--target=cuda").stdout)["entries"]
        groups = next(e for e in step if e["name"] == "step")["groups"]
        least, issued = {}, {row[0]: 2 * row[10] for row in report["launches"]["step"]}  # a multiply-add is two operations
        for g in groups:
            least[g["command"]] = tuple(a + g[key] for a, key in zip(least.get(g["command"], (0, 0)), ("flops", "bytes")))
        for card, speed, rate in ("h100", 66.9e12, 3350e9), ("l4", 30.3e12, 300e9):
            said = self.stepc("explain", self.path("both.json"), "--kernels", "--target=cuda", "--card", card).stdout
            told = float(re.search(r"a step takes (\S+) us at least, by what is published of the card and a rough count of instructions; nothing was measured", said)[1])
            self.assertAlmostEqual(told, 1e6 * sum(max(f / speed, b / rate, issued[command] / speed) for command, (f, b) in least.items()), delta=told * 0.01)
        said = self.stepc("explain", self.path("both.json"), "--kernels").stdout
        self.assertRegex(said, r"dot .* own, .*tiles of \d+ x \d+ .* % of the FLOPs")
        self.assertIn('did you mean "h100"?', self.stepc("explain", self.path("both.json"), "--kernels", "--target=cuda", "--card=h10", code=2).stderr)
        self.assertIn("--card needs --kernels", self.stepc("explain", self.path("both.json"), "--card=h100", code=2).stderr)
        self.assertIn("explain the document", self.stepc("explain", self.path("both-cpu.so"), "--kernels", code=2).stderr)

    VIEWS = """
import ctypes, gc
driver = ctypes.CDLL(os.environ["STEPC_CUDA_DRIVER"])
m = stepc.Step(SO, devices="cuda:1")
m.init()
name = m.names()[1]
view = m.view(name)
assert view.__dlpack_device__() == (2, 1)
for refused in (lambda: np.asarray(view), lambda: view.__dlpack__(dl_device=(1, 0))):
    try:
        refused()
    except BufferError as e:
        assert "it lies on a GPU" in str(e)
    else:
        raise SystemExit("not refused")

def read(managed):  # as a library that takes it does
    t = stepc._Versioned.from_address(managed).tensor
    assert (t.device_type, t.device_id, t.bits, t.code) == (2, 1, 32, 2)
    out, context = np.empty(view.shape, "f4"), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) == 0 and driver.cuCtxPushCurrent_v2(context) == 0
    stream = ctypes.c_void_p()
    driver.cuStreamCreate(ctypes.byref(stream), 1)
    assert driver.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(t.data), ctypes.c_size_t(out.nbytes), stream) == 0
    assert driver.cuStreamSynchronize(stream) == 0
    driver.cuStreamDestroy_v2(stream), driver.cuCtxPopCurrent_v2(ctypes.byref(context)), driver.cuDevicePrimaryCtxRelease_v2(1)
    return out

managed = view._managed(True)
view.__dlpack__(stream=2, max_version=(1, 0)), view.__dlpack__()  # capsules that nobody takes are given back
for k in range(6):  # whatever becomes of a step
    m.step(**batch(k), **[{}, {"on_nonfinite": "skip"}, {"accept": lambda r: False}][k % 3])
    np.testing.assert_array_equal(read(managed), m[name])
last = m[name]
m.close()
np.testing.assert_array_equal(read(managed), last)
stepc._Pin(managed)
del view
gc.collect()
"""

    DEVICE_ARRAYS = """
import ctypes
from objects import every, results_of
driver, p = ctypes.CDLL(os.environ["STEPC_CUDA_DRIVER"]), ctypes.c_void_p
context, stream, event = p(), p(), p()
m, n = stepc.Step(SO), stepc.Step(SO)
m.init(), n.init()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxPushCurrent_v2(context) == 0
driver.cuStreamCreate(ctypes.byref(stream), 1), driver.cuEventCreate(ctypes.byref(event), 2)

class Array:  # of a library that fills it on a stream of its own
    def __init__(self, a, device=0):
        self.a, self.at, self.device, self.shape = np.ascontiguousarray(a), p(), device, a.shape
        assert driver.cuMemAlloc_v2(ctypes.byref(self.at), ctypes.c_size_t(a.nbytes)) == 0
        self.fill(a)
    def fill(self, a):
        assert driver.cuMemcpyHtoDAsync_v2(self.at, p(np.ascontiguousarray(a).ctypes.data), ctypes.c_size_t(a.nbytes), stream) == 0
    def __dlpack_device__(self):
        return 2, self.device
    def __dlpack__(self, stream=None):
        assert stream == 1
        driver.cuEventRecord(event, globals()["stream"]), driver.cuStreamWaitEvent(p(stream), event, 0)
        t = stepc._DLTensor(data=self.at.value, device_type=2, device_id=self.device, rank=self.a.ndim, code={"f": 2, "i": 0}[self.a.dtype.kind],
                            bits=8 * self.a.itemsize, lanes=1, shape=(ctypes.c_int64 * self.a.ndim)(*self.a.shape))
        self.managed = stepc._Managed(tensor=t, deleter=stepc._DELETER(lambda _: None))
        return stepc._capsule(ctypes.addressof(self.managed), b"dltensor", None)
    def end(self):
        driver.cuMemFree_v2(self.at)

def there(values):
    return {name: Array(v) for name, v in values.items()}

arrays, more = there(batch(0)), there(batch(1))  # two sets of addresses
for k in range(6):
    values = [arrays, more][k % 2]
    for name, v in batch(k).items():
        values[name].fill(v)
    assert m.step(**values).loss == n.step(**batch(k)).loss, k
assert m.eval("params", **arrays).loss == n.eval("params", **batch(4)).loss
assert m.step(x=arrays["x"], y=batch(4)["y"]).loss == n.step(**batch(4)).loss  # one here, one there
long = there(every(range(12)))
assert results_of(m, 12, long) == results_of(n, 12, every(range(12)))
before = int(m["step"])
assert results_of(m, 12, long, lacking=9)[1] == 1 and int(m["step"]) < before + 10  # before it posts the step whose result has no place
n.step_n(int(m["step"]) - before, **every(range(int(m["step"]) - before)))
for name in m.names():
    np.testing.assert_array_equal(m[name], n[name])

def refused(text, call):
    try:
        call()
    except stepc.StepError as e:
        assert text in str(e), e
    else:
        raise SystemExit("not refused: " + text)

arrays["x"].device = 1
refused("memory of device type 2, number 1; expected memory of the host, or for inputs of the one device", lambda: m.step(**arrays))
arrays["x"].device = 0
refused("stage: inputs of the host alone", lambda: m._check(m._stage(m._instance, ctypes.byref(m._batch(arrays, [])))))
refused("expected float32[8, 6]", lambda: m.step(x=arrays["y"], y=arrays["y"]))
for a in (*arrays.values(), *more.values(), *long.values()):
    a.end()
driver.cuEventDestroy_v2(event), driver.cuStreamDestroy_v2(stream), driver.cuCtxPopCurrent_v2(ctypes.byref(context))
driver.cuDevicePrimaryCtxRelease_v2(0)
m.close(), n.close()
"""

    def test_inputs_on_the_device(self):
        """Behind the stream that fills them; whatever addresses; other devices are refused."""
        for eager in "013":
            self.host("import os\n" + self.DEVICE_ARRAYS.replace("SO", repr(self.path("both-cuda.so"))), STAND_IN_EAGER=eager)
        said = self.host("""
import os
b = stepc._Batch(stream=1)
m = stepc.Step(%r)
m.init()
print(m._step(m._instance, __import__("ctypes").byref(b), None), m._last_error(m._instance))
""" % self.path("both-cpu.so"))
        self.assertIn("a stream is for one GPU", said)

    def test_indices_on_the_device(self):
        """Are looked at before anything runs, as those of the host."""
        document = {"stepc": 1, "name": "rows", "inputs": {"x": {"shape": [4, 6]}, "at": {"shape": [4], "dtype": "int32"}},
                    "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 7}]},
                    "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "at", "reduction": "mean"},
                    "optimizer": {"type": "sgd", "learning_rate": 0.1}}
        path = runner.write_json(self.path("rows.json"), document)
        self.stepc("compile", path, "-o", self.path("rows.so"), "--target=cuda", "--cuda-arch=text")
        begin = self.DEVICE_ARRAYS.split("def there")[0]
        self.host("import os\n" + begin.replace("SO", repr(self.path("rows.so"))) + """
x = batch(0)["x"][:4]
good, bad = Array(np.array([0, 6, 3, 3], "i4")), Array(np.array([0, 7, 3, 3], "i4"))
assert m.step(x=x, at=good).loss == n.step(x=x, at=np.array([0, 6, 3, 3], "i4")).loss
try:
    m.step(x=x, at=bad)
except stepc.StepError as e:
    assert '"at"[1] is 7; expected 0 <= value < 7' in str(e), e
else:
    raise SystemExit("not refused")
good.end(), bad.end()
driver.cuEventDestroy_v2(event), driver.cuStreamDestroy_v2(stream), driver.cuCtxPopCurrent_v2(ctypes.byref(context))
driver.cuDevicePrimaryCtxRelease_v2(0)
m.close(), n.close()
""")

    def test_views(self):
        """Tensors where they lie, which keep their address and outlive the instance."""
        for target in "cuda", "cpu,cuda":
            self.stepc("compile", self.path("both.json"), "-o", self.path("views.so"), "--target=" + target, "--cuda-arch=text", "--views")
            self.host("import os\n" + self.VIEWS.replace("SO", repr(self.path("views.so"))), STAND_IN_DEVICES="2")

    # ------------------------------------------------------------ steps one behind another

    QUEUED = """
from objects import every, results_of
m, n = stepc.Step(SO), stepc.Step(SO)
m.init(), n.init()
for first, last in ((0, 2), (2, 25), (25, 26), (26, 60)):
    said, status = results_of(m, last - first, every(range(first, last)))
    single = [n.step(**batch(k)) for k in range(first, last)]
    assert status == 0 and said == [(r.step, r.loss, 0) for r in single], (first, said)
    assert m.eval("ema", **batch(0)).loss == n.eval("ema", **batch(0)).loss
for name in m.names():
    np.testing.assert_array_equal(m[name], n[name])
m.close(), n.close()
"""

    def test_steps_are_those_of_single_calls(self):
        """Whatever is copied early or late, two sets of addresses, numbers asked for in between."""
        for so in ("both-cuda.so", "loop-cuda.so"):
            for eager in "0124":
                self.host(self.QUEUED.replace("SO", repr(self.path(so))), STAND_IN_EAGER=eager)

    def test_nobody_waits_between_steps(self):
        def counts(so, n):
            self.host("from objects import every\nm = stepc.Step(%r)\nm.init()\nm.step_n(16, **every(range(16)))\nm.step_n(%d, **every(range(%d)))\nm.close()\n"
                      % (self.path(so), n, n), STAND_IN_COUNTS=self.path("counts"))
            with open(self.path("counts")) as f:
                return {name: int(n) for name, n in map(str.split, f)}

        for so, graphs, asked in (
                ("both-cuda.so", 0, {"cuLaunchKernel": 1, "cuEventRecord": 1, "cuEventSynchronize": 1}),  # all of a brief step
                ("loop-cuda.so", 4, {"cuGraphLaunch": 1, "cuMemcpyHtoDAsync": 2, "cuLaunchKernel": 1,  # at two batches the host comes no further
                                     "cuEventRecord": 3, "cuStreamWaitEvent": 2, "cuEventSynchronize": 2})):
            few, many = counts(so, 20), counts(so, 40)
            for said in few, many:
                self.assertEqual(said.pop("most_graphs_waiting"), graphs)
            more = {name: (n - few[name]) / 20 for name, n in many.items() if n != few[name]}
            self.assertEqual(more, asked, so)  # no stream is waited for, nothing made

    def test_flags_of_posted_steps(self):
        """A gradient that overflows once stays in the state for one step, and no other step says so."""
        document = {**DOCUMENT, "name": "spike", "inputs": {"x": {"shape": [8, 6]}}, "loss": "sum(x * params.w)",
                    "model": {"type": "graph", "nodes": [{"type": "param", "name": "w", "shape": [6], "init": {"type": "zeros"}}], "output": "w"},
                    "optimizer": {"type": "chain", "transforms": [{"type": "scale_by_optimistic_gradient"}, {"type": "clip", "max_delta": 1},
                                                                  {"type": "scale", "step_size": -1e-3}]}}
        document.pop("ema")
        path = runner.write_json(self.path("spike.json"), document)
        values = np.stack([batch(k)["x"] for k in range(24)])
        values[:13], values[13] = 0, 3e38
        said = []
        for more in ((), ("--target=cuda", "--cuda-arch=text")):
            runner.call(self.program, "compile", path, "-o", self.path("spike.so"), *more)
            with stepc.Step(self.path("spike.so"), threads=1) as m:
                m.init()
                results, status = results_of(m, 24, {"x": values})
                self.assertEqual(status, 0)
                said.append([(step, flags) for step, _, flags in results])
                self.assertTrue(np.isfinite([loss for _, loss, _ in results]).all())
            os.remove(self.path("spike.so"))
        self.assertEqual(said[0], [(k + 1, stepc.NONFINITE if k == 13 else 0) for k in range(24)])
        self.assertEqual(said[1], said[0])

    def test_a_posted_step_fails(self):
        said = self.host("""
from objects import every, results_of
m = stepc.Step(SO)
m.init()
said, status = results_of(m, 30, every(range(30)))
print(status, [s for s, _, _ in said])
try:
    m.step(**batch(0))
except stepc.StepError as e:
    print(e)
m.close()
""", STAND_IN_FAIL="cuLaunchKernel:%d:719" % (self.counts(1, "both-cuda.so")["cuLaunchKernel"] + 12))
        self.assertIn("STEP_EPOISONED", said)
        self.assertIn("9 [1, 2, 3, 4", said)

    def test_interrupted(self):
        """Steps that were posted are done; what was told of them is right."""
        said = self.host("""
import threading
from objects import every, results_of
m, n = stepc.Step(SO), stepc.Step(SO)
m.init(), n.init()
values = every(list(range(40)) * 50)
threading.Timer(0.05, lambda: m._interrupt(m._instance)).start()
said, status = results_of(m, 2000, values)
done = [r for r in said if r[0]]
print(status, len(done))
for k, (step, loss, _) in enumerate(done[:-1] if status else done):
    assert (step, loss) == (k + 1, n.step(**batch(k % 40)).loss), k
for name in m.names():
    np.testing.assert_array_equal(m[name], n[name])
m.close(), n.close()
""", STAND_IN_ORDERS="1")
        self.assertRegex(said, r"^13 \d+")  # STEP_ECANCELLED

    # ------------------------------------------------------------ the same as on the CPU

    def test_whatever_a_host_does(self):
        for name in ("both", "loop"):
            m, want = (stepc.Step(self.path("%s-%s.so" % (name, device)), threads=1) for device in ("cuda", "cpu"))
            for x in (m, want):
                x.init()
            close(self, m.state(), want.state(), "init")
            for k in range(3):
                a, b = (x.step(**batch(k)) for x in (m, want))
                self.assertAlmostEqual(a.loss, b.loss, 5)
            close(self, m.state(), want.state(), "steps")
            for weights in ("params", "ema"):
                self.assertAlmostEqual(m.eval(weights, **batch(7)).loss, want.eval(weights, **batch(7)).loss, 5)
                np.testing.assert_allclose(m.infer(weights, x=batch(7)["x"]), want.infer(weights, x=batch(7)["x"]), rtol=1e-4, atol=1e-5)
            self.assertNotEqual(m.eval("params", **batch(7)).loss, m.eval("ema", **batch(7)).loss)
            several = {n: np.stack([batch(k)[n] for k in range(3, 7)]) for n in ("x", "y")}
            np.testing.assert_allclose(m.step_n(4, **several), want.step_n(4, **several), rtol=1e-4)
            close(self, m.state(), want.state(), "step_n")
            m.save(self.path("state.safetensors"))
            want.load(self.path("state.safetensors"), params_only=True)
            first = m.names()[0]
            m[first] = np.ones_like(m[first])
            self.assertTrue((m[first] == 1).all())
            m.load(self.path("state.safetensors"), params_only=True)
            np.testing.assert_array_equal(m[first], want[first])
            bad = {**batch(1), "x": np.full((8, 6), np.nan, "f4")}
            before = m.state()
            self.assertFalse(m.step(on_nonfinite="skip", **bad).accepted)
            close(self, m.state(), before, "a step that is skipped")
            m.close()
            want.close()

    def test_flags_of_kernels(self):
        """An update that overflows though the loss is finite is seen, as on the CPU, and without a policy told."""
        document = {**DOCUMENT, "name": "huge", "optimizer": {"type": "sgd", "learning_rate": 1e38}, "loss": "mean((model - y)**2) * 10000"}
        document.pop("ema")
        path = runner.write_json(self.path("huge.json"), document)
        for more in ((), ("--target=cuda", "--cuda-arch=text")):
            runner.call(self.program, "compile", path, "-o", self.path("huge%d.so" % len(more)), *more)
        m, want = (stepc.Step(self.path("huge%d.so" % n), threads=1) for n in (2, 0))
        for x in (m, want):
            x.init()
        for x in (m, want):
            before = x.state()
            self.assertFalse(x.step(on_nonfinite="skip", **batch(0)).accepted)
            np.testing.assert_equal(x.state(), before)
            r = x.step(**batch(0))
            self.assertTrue(np.isfinite(r.loss) and not r.finite)
            x.close()
        values = {n: np.where(np.arange(24).reshape(-1, 1, 1) < 13, 0 * v, v).astype("f4") for n, v in every(range(24)).items()}
        m, want = (stepc.Step(self.path("huge%d.so" % n), threads=1) for n in (2, 0))  # of posted steps each says what it stored itself
        for x in (m, want):
            x.init()
        said = [(step, flags) for step, _, flags in results_of(m, 24, values)[0]]
        self.assertEqual(said, [(step, flags) for step, _, flags in results_of(want, 24, values)[0]])
        self.assertEqual(said, [(k + 1, stepc.NONFINITE if k >= 13 else 0) for k in range(24)])
        m.close(), want.close()


if __name__ == "__main__":
    runner.main()
