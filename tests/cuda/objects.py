#!/usr/bin/env python3
"""Objects for CUDA on the stand-in for the driver: what they say where something is missing or breaks, what they ask of the driver
in a step, and that everything a host can do gives what an object for the CPU gives.

    STEPC_CUDA_DRIVER=build/cuda/libcuda.so.1 tests/cuda/objects.py build/stepc
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples")]
from tool import runner, safetensors

import numpy as np

import stepc

DOCUMENT = {
    "stepc": 1, "name": "both", "inputs": {"x": {"shape": [8, 6]}, "y": {"shape": [8, 3]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "features": 16}, {"type": "tanh"}, {"type": "dropout", "rate": 0.1}, {"type": "linear", "features": 3}]},
    "loss": "mean((model - y)**2)", "optimizer": {"type": "adamw", "learning_rate": 0.01}, "ema": {"decay": 0.9}}
LOOP = {**DOCUMENT, "name": "loop", "accumulate": {"microbatch_size": 2}}


def batch(k, size=8):
    r = np.random.default_rng(k)
    return {"x": r.standard_normal((size, 6), dtype="f4"), "y": r.standard_normal((size, 3), dtype="f4")}


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

    def test_wrong_architecture(self):
        if self.stepc("compile", self.path("both.json"), "-o", self.path("old.so"), "--target=cuda", "--cuda-arch=sm_80", code=None).returncode:
            self.skipTest("no NVRTC")
        said = self.host("try:\n    stepc.Step(%r)\nexcept stepc.StepError as e:\n    print(e)\n" % self.path("old.so"), STAND_IN_CAPABILITY="9.0")
        self.assertIn("this object has code for sm_80, cuda:0 (stand-in 0) is sm_90 (compile with --cuda-arch sm_90)", said)

    def stepc(self, *arguments, code=0, **more):
        done = runner.attempt(self.program, *arguments, **more)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_memory(self):
        self.refused("STEP_ENOMEM", "needs", "of its 4096 bytes 4096 are free", STAND_IN_MEMORY="4096")
        self.refused("STEP_ENOMEM", STAND_IN_FAIL="cuMemAlloc:3:2")

    def test_a_call_fails(self):
        for name in ("cuInit", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuModuleLoadDataEx", "cuModuleGetFunction",
                     "cuStreamCreate", "cuMemsetD8Async", "cuStreamSynchronize", "cuMemcpyHtoDAsync"):
            self.refused("CUDA_ERROR_SYSTEM_NOT_READY" if name in ("cuInit", "cuDevicePrimaryCtxRetain", "cuStreamCreate") else "STEP_E",
                         STAND_IN_FAIL=name + ":1:802")

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
        said = self.host(self.FAILS, STAND_IN_FAIL="cuGraphLaunch:2:700")
        self.assertIn("launching a graph: CUDA_ERROR_ILLEGAL_ADDRESS", said)
        self.assertIn("STEP_EPOISONED", said)
        self.assertIn("again", said)
        said = self.host(self.FAILS, STAND_IN_FAIL="cuGraphLaunch:3:214")  # memory of the card
        self.assertIn("CUDA_ERROR_ECC_UNCORRECTABLE", said)
        said = self.host(self.FAILS, STAND_IN_FAIL="cuLaunchKernel:40:719", STEPC_CUDA_CHECK="1")
        self.assertRegex(said, r"kernel_\d+ \(/\S* \w+\): CUDA_ERROR_LAUNCH_FAILED")

    def test_no_graphs(self):
        said = self.host("m = stepc.Step(SO)\nm.init()\nprint([m.step(**batch(k)).loss for k in range(4)])\nm.close()\n")
        without = self.host("m = stepc.Step(SO)\nm.init()\nprint([m.step(**batch(k)).loss for k in range(4)])\nm.close()\n",
                            STAND_IN_FAIL="cuGraphInstantiate:1:801", STEPC_LOG="error")
        self.assertEqual(said, without)

    # ------------------------------------------------------------ what it asks of the driver

    def counts(self, steps, so):
        file = self.path("counts")
        self.host("m = stepc.Step(%r)\nm.init()\nfor k in range(%d):\n    m.step(**batch(k, %d))\nm.close()\n" % (
            self.path(so), steps, 8), STAND_IN_COUNTS=file)
        with open(file) as f:
            return {name: int(n) for name, n in map(str.split, f)}

    def test_a_step_is_one_graph(self):
        for so in ("both-cuda.so", "loop-cuda.so"):
            few, many = self.counts(3, so), self.counts(13, so)
            more = {name: (n - few[name]) / 10 for name, n in many.items() if n != few[name]}
            self.assertEqual(more.pop("cuGraphLaunch"), 1, so)
            self.assertEqual(more.pop("cuMemcpyHtoDAsync"), 2, so)
            self.assertLessEqual(more.pop("cuMemcpyDtoHAsync"), 3, so)
            self.assertLessEqual(more.pop("cuStreamSynchronize"), 1, so)
            self.assertEqual(set(more) - {"cuCtxPushCurrent", "cuCtxPopCurrent"}, set(), so)  # nothing allocated, nothing made

    def test_a_trace_is_of_what_kernels_take(self):
        """With launches that nobody waits for it would be of nothing."""
        data = {n: np.stack([batch(k)[n] for k in range(5)]) for n in ("x", "y")}
        safetensors.write(self.path("data.safetensors"), data)
        runner.call(self.program, "run", self.path("both-cuda.so"), "--steps", "5", "--data", self.path("data.safetensors"), "--trace",
                    self.path("trace.json"), env={"STAND_IN_COUNTS": self.path("counts")})
        with open(self.path("counts")) as f:
            self.assertNotIn("cuGraphLaunch", f.read())

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


if __name__ == "__main__":
    runner.main()
