#!/usr/bin/env python3
"""samples/import/orbax_to_stepc.py and dcp_to_stepc.py, where their libraries are installed: every array of a checkpoint comes back bit
for bit under its name, what is no array is named, and `stepc run --init` begins with it.

usage: checkpoints.py STEPC
"""
import contextlib
import io
import os
import signal
import subprocess
import sys
import unittest

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
IMPORT = os.path.join(HERE, "../../samples/import")
sys.path[:0] = [os.path.join(HERE, ".."), IMPORT]
try:
    import jax.numpy as jnp
    import orbax.checkpoint as ocp
    ORBAX = None
except ImportError as e:
    ORBAX = e
try:
    import torch
    import torch.distributed.checkpoint as dcp
    TORCH = None
except ImportError as e:
    TORCH = e
import tensor_trees
from tool import runner, safetensors

MODEL = {"stepc": 1, "inputs": {"x": {"shape": [4, 3]}}, "model": {"type": "linear", "name": "a", "features": 2, "input": "x"},
         "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.1}}
DRAW = np.random.default_rng(5)
ARRAYS = {"params.a.kernel": DRAW.standard_normal((3, 2)).astype("f4"), "params.a.bias": DRAW.standard_normal(2).astype("f4"),
          "opt.0.mu": DRAW.standard_normal((2, 3, 1)).astype("f2"), "opt.0.count": np.array(7, "i4"), "mask": np.array([True, False])}
BITS = np.array([0x3F80, 0x7FC0, 0x8000, 1], "u2")  # of bfloat16: 1, a NaN, -0, the smallest


class Checkpoints(runner.Case):
    def tool(self, name, *arguments, code=0):
        done = subprocess.run([sys.executable, os.path.join(IMPORT, name), *arguments, "-o", self.path("out.safetensors")], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr

    def comes_back(self, name, path, prefix="params"):
        self.assertIn("left out: text", self.tool(name, path))
        found = safetensors.raw(self.path("out.safetensors"))
        self.assertEqual(set(found), {*ARRAYS, "half"})
        for key, value in ARRAYS.items():
            self.assertEqual((list(found[key].shape), bytes(found[key].data)), (list(value.shape), value.tobytes()), key)
        self.assertEqual((found["half"].dtype, bytes(found["half"].data)), ("BF16", BITS.tobytes()))
        self.assertIn("opt.0.mu", self.tool(name, path, "--prefix", prefix))  # named, since it is left out
        model, begun = self.write("model.json", MODEL), self.path("begun.safetensors")
        safetensors.write(self.path("x"), {"x": np.ones((1, 4, 3), "f4")})
        self.stepc("run", model, "--steps", "0", "--data", self.path("x"), "--init", self.path("out.safetensors"), "--save", begun)
        for key, value in safetensors.read(begun).items():
            np.testing.assert_array_equal(value, ARRAYS["params." + key])
        self.assertIn("holds no array below", self.tool(name, path, "--prefix", "nothing", code=1))

    @unittest.skipIf(ORBAX, "skipped: %s" % ORBAX)
    def test_orbax(self):
        a = {key: jnp.asarray(value) for key, value in ARRAYS.items()}
        saved = {"params": {"a": {"kernel": a["params.a.kernel"], "bias": a["params.a.bias"]}}, "mask": a["mask"], "text": "no array",
                 "opt": [{"mu": a["opt.0.mu"], "count": a["opt.0.count"]}], "half": jnp.asarray(BITS).view(jnp.bfloat16)}
        with ocp.CheckpointManager(self.path("runs")) as runs:
            runs.save(3, args=ocp.args.Composite(state=ocp.args.PyTreeSave(saved), other=ocp.args.PyTreeSave(saved)))
        self.comes_back("orbax_to_stepc.py", self.path("runs/3/state"))
        said = self.tool("orbax_to_stepc.py", self.path("runs/3"), code=1)
        self.assertTrue("3/state" in said and "3/other" in said, said)
        os.mkdir(self.path("old"))
        self.write("old/checkpoint", {})
        self.assertIn('"checkpoint" without _METADATA is that of T5X', self.tool("orbax_to_stepc.py", self.path("old"), code=1))
        ocp.Checkpointer(ocp.ArrayCheckpointHandler()).save(self.path("one"), args=ocp.args.ArraySave(a["mask"]))
        self.assertRegex(self.tool("orbax_to_stepc.py", self.path("one"), code=1), "error: .*/one cannot be read: IsADirectoryError: ")
        for name in ("_METADATA", "manifest.ocdbt"):
            with open(self.path("runs/3/state/" + name), "rb+") as f:
                f.truncate(os.path.getsize(f.name) // 2)
            said = self.tool("orbax_to_stepc.py", self.path("runs/3/state"), code=1)
            self.assertRegex(said, "error: .*/state cannot be read: [A-Za-z]+: ")
            self.assertNotIn("Traceback", said)

    @unittest.skipIf(TORCH, "skipped: %s" % TORCH)
    def test_dcp(self):
        a = {key: torch.from_numpy(np.array(value)) for key, value in ARRAYS.items()}
        dcp.save({**a, "half": torch.from_numpy(BITS.view("i2").copy()).view(torch.bfloat16), "text": "no tensor"}, checkpoint_id=self.path("saved"), no_dist=True)
        self.comes_back("dcp_to_stepc.py", self.path("saved"))
        self.assertIn("no .metadata", self.tool("dcp_to_stepc.py", self.folder, code=1))
        narrow = torch.ones(2).to(torch.float8_e4m3fn)  # NumPy has no such dtype
        dcp.save({"narrow": narrow, "wide.w": torch.ones(2)}, checkpoint_id=self.path("narrow"), no_dist=True)
        self.assertIn('error: "narrow" has the dtype torch.float8_e4m3fn, which is not supported', self.tool("dcp_to_stepc.py", self.path("narrow"), code=1))
        self.assertIn("left out: narrow", self.tool("dcp_to_stepc.py", self.path("narrow"), "--prefix", "wide"))
        os.remove(self.path("narrow/__0_0.distcp"))
        said = self.tool("dcp_to_stepc.py", self.path("narrow"), code=1)
        self.assertTrue("error: %s cannot be read: FileNotFoundError" % self.path("narrow") in said and "Traceback" not in said, said)

    def test_what_they_share(self):
        """Names, dtypes and mistakes, without a library."""
        out = self.path("t.safetensors")
        run = lambda leaves, *more: tensor_trees.run("test", lambda _: (leaves, []), ["folder", "-o", out, *more])
        one = np.arange(3, dtype=">i4")
        self.assertEqual(run([("m.w.value", one, False), ("m.b.value", BITS, True), ("other", one, False)], "--prefix", "m", "--suffix", "value"), 0)
        found = safetensors.raw(out)
        self.assertEqual({name: (t.dtype, bytes(t.data)) for name, t in found.items()}, {"w": ("I32", one.astype("<i4").tobytes()), "b": ("BF16", BITS.tobytes())})
        for wrong in ([("w", one, False), ("w.value", one, False)], [("w", np.zeros(2, "c8"), False)], []):
            os.remove(out) if os.path.exists(out) else None
            self.assertEqual(run(wrong, "--suffix", "value"), 1)
            self.assertFalse(os.path.exists(out))
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(tensor_trees.run("test", lambda _: ([("w", one, False)], []), ["folder", "-o", "/dev/full"]), 3)
        self.assertIn("No space left on device: '/dev/full'", said.getvalue())

    def test_ended_while_it_writes(self):
        """Nothing stays beside what was there, whatever ends the program and on whatever file system."""
        program = """import os, signal, sys; sys.path.insert(0, sys.argv[1])
import numpy as np, tensors
def ended():
    signal.raise_signal(int(sys.argv[3]))
    return np.ones(3, "f4")
if sys.argv[4] == "named":
    tensors.os.O_TMPFILE = -1  # as where there is none
tensors.program(lambda: tensors.write(sys.argv[2], [("w", "F32", (3,), ended)]))"""
        out = self.path("t.safetensors")
        for how, signals in (("nameless", (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)), ("named", (signal.SIGINT,))):
            for number in signals:
                self.write("t.safetensors", {"as": "before"})
                done = subprocess.run([sys.executable, "-c", program, IMPORT, out, str(int(number)), how], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (-number, ""))
                self.assertEqual((os.listdir(self.folder), tensor_trees.tensors.read_json(out)), (["t.safetensors"], {"as": "before"}))


if __name__ == "__main__":
    runner.main()
