#!/usr/bin/env python3
"""What the compiler asks NVRTC for, seen by a stand-in (nvrtc/nvrtc.c): PTX once for sm_80 and sm_90, cubins of that PTX where it can
be the body of a kernel, and of the text where not.

    STAND_IN_NVRTC=build/cuda/nvrtc tests/cuda/nvrtc.py build/stepc
"""
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

DOCUMENT = {
    "stepc": 1, "name": "both", "inputs": {"x": {"shape": [8, 6]}, "y": {"shape": [8, 3]}},
    "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 16}, {"type": "tanh"}, {"type": "linear", "features": 3}]},
    "loss": "mean((model - y)**2)", "optimizer": {"type": "sgd", "learning_rate": 0.01}}
INLINE = b'asm(R"ptx({'


class Calls(runner.SharedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        runner.write_json(cls.path("model.json"), DOCUMENT)

    def calls(self, archs, document=None, **env):
        """What was asked for each piece of the text, and the object's bytes."""
        runner.write_json(self.path("model.json"), document or DOCUMENT)
        calls, so = self.path("calls"), self.path("step.so")
        if os.path.exists(calls):
            os.remove(calls)
        runner.call(self.program, "compile", self.path("model.json"), "-o", so, "--target=cuda", "--cuda-arch=" + archs,
                    env={"LD_LIBRARY_PATH": os.environ["STAND_IN_NVRTC"], "STAND_IN_NVRTC_CALLS": calls, **env})
        with open(calls) as f:
            asked = f.read().split("\n")[:-1]
        with open(so, "rb") as f:
            return sorted(asked), f.read()

    def test_named(self):
        """By STEPC_NVRTC, whatever else there is; a name that is none is an error that says it."""
        there = os.path.join(os.environ["STAND_IN_NVRTC"], "libnvrtc.so.13")
        self.assertEqual(self.calls("sm_90", LD_LIBRARY_PATH="", STEPC_NVRTC=there)[0], ["sm_90 text"])
        self.assertIn(there + " (13.0)", runner.call(self.program, "doctor", env={"STEPC_NVRTC": there}))
        done = runner.attempt(self.program, "compile", self.path("model.json"), "-o", self.path("step.so"), "--target=cuda", env={"STEPC_NVRTC": "nothing.so"})
        self.assertEqual(done.returncode, 3)
        self.assertIn("STEPC_NVRTC=nothing.so cannot be opened", done.stderr)

    def test_matrix_unit(self):
        """Kernels multiply 16 bits by it where all architectures have one; by threads that ask each other they took minutes to compile."""
        wide = {"x": {"shape": [64, 96]}, "y": {"shape": [64, 3]}}
        half = dict(DOCUMENT, inputs=wide, precision={"compute": "bfloat16"})
        for archs, has in ("sm_80", True), ("sm_75", False), ("sm_75,sm_90", False):
            calls = re.findall(rb"\n *stepc_matrix_bf16<\d+, \d+>\(", self.calls(archs, half)[1])
            self.assertEqual(bool(calls), has, archs)

    def test_one(self):
        for arch in ("sm_80", "sm_90", "sm_86", "compute_90"):
            asked, data = self.calls(arch)
            self.assertEqual(asked, [arch + " text"])
            self.assertNotIn(INLINE, data)

    def test_several(self):
        asked, data = self.calls("sm_80,sm_90,compute_90,sm_86")
        self.assertEqual(asked, ["compute_80 text", "sm_80 inline", "sm_86 text", "sm_90 inline"])
        self.assertEqual(re.findall(rb"\n\.target sm_(\d+)\n", data), [b"90"])
        kernels = data.count(b'extern "C" __global__') // 3
        self.assertEqual(data.count(INLINE), 2 * kernels)
        self.assertEqual(self.calls("sm_90,compute_90")[0], ["compute_90 text", "sm_90 inline"])

    def test_of_its_own(self):
        """sm_90a has other instructions: what is made for others is not for it, nor the other way round."""
        self.assertEqual(self.calls("sm_80,sm_90a,sm_90")[0], ["compute_80 text", "sm_80 inline", "sm_90 inline", "sm_90a text"])
        self.assertEqual(self.calls("sm_90a,compute_90a,sm_90")[0], ["compute_90a text", "sm_90 text", "sm_90a text"])

    def test_kernels_with_data_keep_their_text(self):
        asked, data = self.calls("sm_80,sm_90", STAND_IN_NVRTC_PTX="data")
        self.assertEqual(asked, ["compute_80 text", "sm_80 inline", "sm_90 inline"])
        kernels = data.count(b'extern "C" __global__') // 2
        self.assertEqual(data.count(INLINE), 2 * (kernels - 1))
        self.assertNotIn(b"data_outside", data)

    def test_another_form(self):
        asked, data = self.calls("sm_80,sm_90", STAND_IN_NVRTC_PTX="function")
        self.assertEqual(asked, ["compute_80 text", "sm_80 text", "sm_90 text"])
        self.assertNotIn(INLINE, data)

    def test_refused(self):
        asked, data = self.calls("sm_80,sm_90", STAND_IN_NVRTC_REFUSES="1")
        self.assertEqual(asked, ["compute_80 text", "sm_80 inline", "sm_80 text", "sm_90 inline", "sm_90 text"])
        self.assertNotIn(INLINE, data)


if __name__ == "__main__":
    runner.main()
