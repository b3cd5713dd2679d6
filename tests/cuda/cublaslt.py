#!/usr/bin/env python3
"""Products by cuBLASLt on GPUs (runtime/cublaslt.c), on stand-ins for the driver and for it: every layout, dtype and batch beside
the interpreter; what an object does where the library is missing, too old, fails, has no algorithm, or gives wrong numbers.

    tests/cuda/cublaslt.py STEPC   (STEPC_CUDA_DRIVER and STEPC_CUBLASLT name the stand-ins)
"""
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import numpy as np

from tool import runner, safetensors
from products import MOST, convolution, product, step

PLAIN = product(64, 48, 40)
CASES = {
    "plain": PLAIN, "ragged": product(67, 45, 131), "few_columns": product(300, 40, 5), "bfloat16": product(96, 40, 80, "bfloat16"),
    "bfloat16_ragged": product(131, 37, 67, "bfloat16"), "float16": product(96, 40, 80, "float16"), "long": product(40, 1200, 72),
    "turned_both": step({"x": [48, 80]}, "(w.T @ x.T) + v", {"w": [80, 40], "v": [48]}),
    "turned_right": step({"x": [48, 80]}, "einsum('ik,jk->ij', x, w) + v", {"w": [40, 80], "v": [40]}, "bfloat16"),
    "batch": step({"x": [3, 34, 20]}, "einsum('bik,bkj->bij', x, w) * v", {"w": [3, 20, 50], "v": [50]}),
    "batch_float16": step({"x": [3, 34, 24]}, "einsum('bik,bkj->bij', x, w) * v", {"w": [3, 24, 56], "v": [56]}, "float16"),
    "rows_apart": step({"x": [34, 3, 20]}, "einsum('ibk,bkj->bij', x, w) * v", {"w": [3, 20, 50], "v": [50]}),
    "twice_the_same": step({"x": [32, 24]}, "einsum('ik,jk->ij', x, x) * sum(w * w) + sum(v)", {"w": [24], "v": [24]}),
    "float64": product(65, 33, 34, "float64"), "image": convolution([3, 9, 11, 8]),
}
OF_KERNELS = ("image",)  # the library is not asked for taps


class Library(runner.Case):
    verify = False

    def compiled(self, o, *more):
        model = self.write("model.json", o)
        self.stepc("compile", model, "-q", "-o", "step.so", "--target", "cuda", "--cuda-arch", "text", *(more or ("--blas", "cublaslt")))
        return model

    def check(self, model, code=0, most="2e-5", **env):
        """What a process says of the object beside the interpreter, and how often the library multiplied."""
        counts = self.path("counts")
        if os.path.exists(counts):
            os.remove(counts)
        env = {"STEPC_LOG": "info", "STAND_IN_LT_COUNTS": counts, **env}
        done = self.stepc("check", model, "--against", "step.so", "--rtol", most, "--atol", most, code=code, env=env)
        made = 0
        if os.path.exists(counts):
            with open(counts) as f:
                made = int(re.search(r"made (\d+)", f.read()).group(1))
        return done.stdout + done.stderr, made

    def test_products(self):
        for name, o in CASES.items():
            with self.subTest(name=name):
                model = self.compiled(o)
                dtype = o["inputs"]["x"].get("dtype")
                said, made = self.check(model, most=MOST.get(dtype, "2e-5"))
                self.assertIn("agree", said)
                if name not in OF_KERNELS:
                    self.assertGreater(made, 3, said)
                self.assertNotIn("own kernel", said)

    def test_launches(self):
        """What is fused into an own kernel stands behind the library's product; nothing else changes."""
        model = self.write("model.json", PLAIN)
        lists = {blas: self.stepc("explain", model, "--kernels", "--target", "cuda", "--blas", blas).stdout for blas in ("auto", "own", "cublaslt")}
        self.assertEqual(lists["auto"], lists["own"])
        self.assertNotIn("cuBLASLt", lists["own"])
        self.assertEqual(lists["cublaslt"].count("dot "), 2)
        self.assertEqual(len(re.findall("dot .*by cuBLASLt", lists["cublaslt"])), 2)

    def test_auto(self):
        """By the table: large ones of 16 bits, not those of float32, nor what is few rows."""
        for o, wanted in (product(2048, 2048, 1024, "bfloat16"), True), (product(2048, 2048, 1024), False), (product(64, 2048, 1024, "bfloat16"), False):
            said = self.stepc("explain", self.write("model.json", o), "--kernels", "--target", "cuda").stdout
            self.assertEqual("by cuBLASLt" in said, wanted, said)

    def test_mixed_precision(self):
        """A document that computes in bfloat16: all large products of a step, forward and both gradients, are the library's."""
        layers = [{"type": "linear", "features": 2048}, {"type": "gelu"}, {"type": "linear", "features": 1024}]
        o = {"stepc": 1, "inputs": {"x": {"shape": [2048, 1024]}, "y": {"shape": [2048, 1024]}}, "model": {"type": "sequential", "input": "x", "layers": layers},
             "loss": "mean((model - y)**2)", "optimizer": {"type": "adamw", "learning_rate": 0.01}, "precision": {"compute": "bfloat16"}}
        said = self.stepc("explain", self.write("model.json", o), "--kernels", "--target", "cuda").stdout
        self.assertEqual((len(re.findall(" dot ", said)), len(re.findall(" dot .*by cuBLASLt", said))), (5, 5), said)

    def test_not_carried(self):
        """An object without a product for it knows nothing of the library."""
        for o, blas, there in (PLAIN, "auto", False), (PLAIN, "own", False), (PLAIN, "cublaslt", True):
            self.compiled(o, "--blas", blas)
            with open(self.path("step.so"), "rb") as f:
                self.assertEqual(b"cublasLtMatmul" in f.read(), there, blas)

    def test_refused(self):
        model = self.write("model.json", PLAIN)
        for target, blas in ("cpu", "cublaslt"), ("cuda", "openblas"):
            said = self.stepc("compile", model, "-o", "step.so", "--target", target, "--blas", blas, code=2).stderr
            self.assertIn("--blas %s: not with --target %s" % (blas, target), said)

    def test_own_kernels_instead(self):
        model = self.compiled(PLAIN)
        for env, wanted in (({"STEPC_CUBLASLT": self.path("nothing.so")}, "cuBLASLt is not here"), ({"STAND_IN_LT_VERSION": "110901"}, "12.0 or later is needed"),
                            ({"STEPC_CUBLASLT": os.environ["STEPC_CUDA_DRIVER"]}, "lacks cublasLtCreate"), ({"STAND_IN_LT_VERSION": "0"}, "12.0 or later"),
                            ({"STAND_IN_LT_NONE": "1"}, "/model/output: dot (64 x 40 x 48): no algorithm of cuBLASLt (CUBLAS_STATUS_NOT_SUPPORTED): the own kernel"),
                            ({"STAND_IN_LT_FAIL": "13"}, "no algorithm of cuBLASLt (CUBLAS_STATUS_EXECUTION_FAILED): the own kernel"),
                            ({"STAND_IN_FAIL": "cuMemAlloc:1:2"}, "no algorithm of cuBLASLt (no memory to try one): the own kernel")):
            said, made = self.check(model, **env)
            self.assertIn("agree", said, env)
            self.assertIn(wanted, said)
            self.assertLessEqual(made, 12 if "STAND_IN_FAIL" in env else 0, said)

    def test_a_library_that_lies(self):
        """The first product is the one that is tried when the instance is created."""
        model = self.compiled(PLAIN)
        said, _ = self.check(model, code=3, STAND_IN_LT_LIE="1")
        self.assertRegex(said, r"cuda:0: /model/output: dot: cuBLASLt \(.*libcublasLt.so.13\) does not give the product of float32 \[64, 48\] and \[48, 40\]: "
                               r"element 2559 of 2560 is -?\d+, the object's own kernel gives -?\d+; STEPC_CUBLASLT=/dev/null")
        self.assertIn("agree", self.check(model, STAND_IN_LT_LIE="1000")[0])  # a control: another one is not looked at
        for name in "bfloat16", "float16", "batch":
            self.assertIn("does not give the product", self.check(self.compiled(CASES[name]), code=3, STAND_IN_LT_LIE="2")[0])

    def test_fewer_digits(self):
        """float32 is not multiplied as TF32."""
        said, _ = self.check(self.compiled(PLAIN), code=3, STAND_IN_LT_SHORT="1")
        self.assertIn("does not give the product of float32", said)

    def test_devices(self):
        """Of a mesh: all by the library, or, where devices would do other things, none."""
        o = {**PLAIN, "mesh": {"axes": {"data": 2}}}
        o["inputs"] = {"x": {"shape": [64, 48], "axes": ["data", None]}}
        model = self.compiled(o)
        said, made = self.check(model)
        self.assertIn("agree", said)
        self.assertGreater(made, 8)
        said, other = self.check(model, STAND_IN_LT_DIFFERS="1")
        self.assertIn("it is another one on another device", said)
        self.assertIn("agree", said)
        self.assertLess(other, 4)

    def test_same_bits(self):
        """Of two processes; a control with the object's own kernels, whose sums go in another order."""
        self.compiled(CASES["long"])
        np.random.seed(3)
        safetensors.write(self.path("data.safetensors"), {"x": np.random.standard_normal((40, 1200)).astype("f4")})
        saved = []
        for env in {}, {}, {"STEPC_CUBLASLT": "/dev/null"}:
            self.stepc("run", "step.so", "--steps", "3", "--data", "data.safetensors", "--save", "end.safetensors", env=env)
            with open(self.path("end.safetensors"), "rb") as f:
                saved.append(f.read())
        self.assertEqual(saved[0], saved[1])
        self.assertNotEqual(saved[0], saved[2])

    def test_several_at_once(self):
        """Products that are alike are one command, but a call each."""
        names = ["w%d" % i for i in range(6)]
        o = step({"x": [64, 48]}, "tanh(x @ w) + v", {"w": [48, 40], "v": [40]})
        nodes = [{"type": "param", "name": n, "shape": [48, 40], "init": {"type": "normal", "stddev": 0.1}} for n in names]
        o["model"] = {"type": "graph", "nodes": nodes, "output": " + ".join("sin(x @ %s)" % n for n in names)}
        model = self.compiled(o)
        rows = re.findall("dot .*", self.stepc("explain", model, "--kernels", "--target", "cuda", "--blas", "cublaslt").stdout)
        self.assertLess(len(rows), 12)
        said, made = self.check(model)
        self.assertIn("agree", said)
        self.assertGreaterEqual(made, 36)

    def test_doctor(self):
        said = self.stepc("doctor").stdout
        self.assertRegex(said, r"cuBLASLt  .*libcublasLt.so.13")
        os.makedirs(self.path("lib64"))
        os.symlink(os.environ["STEPC_CUBLASLT"], self.path("lib64/nothing.so"))
        said = self.stepc("doctor", env={"STEPC_CUBLASLT": "nothing.so", "CUDA_HOME": self.folder}).stdout  # objects look nowhere else
        self.assertRegex(said, r"cuBLASLt  .*not found: own kernels do the products")


if __name__ == "__main__":
    runner.main()
