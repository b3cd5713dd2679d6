#!/usr/bin/env python3
"""Products of many shapes by tiles of a GPU (codegen/lower/lower_dot_grid.c), forward and both gradients, on a stand-in for the driver: steps beside those of
the interpreter. Extents around those of tiles and of blocks of k, with batch dimensions, operands that are turned, prologues, epilogues, in several dtypes; and
convolutions, which are products of taps.

    tests/cuda/products.py STEPC   (STEPC_CUDA_DRIVER names the stand-in)
"""
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner


BARRIER = re.compile(r"__syncthreads\(\);|stepc_barrier\(")


def pieces(text):
    """The kernels, and those that are parts of sequences."""
    kernels = text.split('extern "C" __global__')[1:]
    parts = [re.split(r"\n        case \d+: {", k)[1:] for k in kernels if " sequence(" in k.split("\n")[0]]
    return [k for k in kernels if " sequence(" not in k.split("\n")[0]] + [p.split("\n            at += ")[0] for p in sum(parts, [])]


def step(inputs, expression, parameters, dtype="float32"):
    """A model of one expression over parameters w and v."""
    nodes = [{"type": "param", "name": n, "shape": s, "dtype": dtype, "init": {"type": "normal", "stddev": 0.1}} for n, s in parameters.items()]
    return {"stepc": 1, "inputs": {n: {"shape": s, "dtype": dtype} for n, s in inputs.items()}, "model": {"type": "graph", "nodes": nodes, "output": expression},
            "loss": "mean(astype(model * cos(model), '%s'))" % ("float64" if dtype == "float64" else "float32"), "optimizer": {"type": "sgd", "learning_rate": 0.5}}


def product(m, k, n, dtype="float32"):
    return step({"x": [m, k]}, "tanh(x @ w + v) * 2", {"w": [k, n], "v": [n]}, dtype)


def convolution(shape, precision="float32", **layer):
    """Two of them, so that the second one has the gradient of its image."""
    layer = {"type": "conv", "features": 20, "kernel_size": [3] * (len(shape) - 2), **layer}
    return {"stepc": 1, "inputs": {"x": {"shape": shape}}, "model": {"type": "sequential", "input": "x", "layers": [layer, {"type": "tanh"}, {**layer, "features": 24}]},
            "loss": "mean(astype(model * cos(model), 'float32'))", "optimizer": {"type": "sgd", "learning_rate": 0.5},
            **({"precision": {"compute": precision}} if precision != "float32" else {})}


CONVOLUTIONS = {
    "image": convolution([3, 9, 11, 8]), "line": convolution([4, 33, 6], padding="CAUSAL"), "volume": convolution([2, 5, 6, 7, 4]),
    "strides": convolution([2, 13, 10, 12], strides=[2, 3], padding="VALID"), "dilation": convolution([2, 12, 12, 9], kernel_dilation=[2, 1], padding=[[1, 0], [2, 1]]),
    "circular": convolution([2, 10, 9, 4], padding="CIRCULAR"), "groups": convolution([2, 9, 9, 8], feature_group_count=4), "few_features": convolution([6, 18, 18, 3], features=5),
    "of_bfloat16": convolution([3, 9, 11, 8], "bfloat16"), "of_float16": convolution([3, 8, 8, 16], "float16"), "parts": convolution([16, 12, 12, 16]),
}
CASES = {
    **CONVOLUTIONS, "few_columns": product(300, 40, 5), "few_rows": product(6, 70, 90), "one_row": product(1, 600, 40), "sixteen": product(200, 33, 16),
    "few_both": product(7, 600, 9), "bfloat16_few_columns": product(150, 40, 12, "bfloat16"), "bfloat16_few_rows": product(5, 70, 90, "bfloat16"),
    "split_batch": step({"x": [3, 20, 512]}, "einsum('bik,bkj->bij', x, w) * v", {"w": [3, 512, 24], "v": [24]}),
    "even": product(128, 64, 64), "of_one_block_of_k": product(64, 16, 32), "less_than_a_tile": product(17, 9, 18), "ragged": product(67, 45, 131),
    "ragged_k": product(64, 33, 64), "ragged_rows": product(130, 32, 64), "ragged_columns": product(64, 32, 67), "many_tiles": product(640, 24, 416),
    "many_ragged_tiles": product(1289, 17, 531), "turned": step({"x": [40, 70]}, "(x.T @ w).T @ v", {"w": [40, 33], "v": [70, 21]}),
    "turned_both": step({"x": [48, 80]}, "(w.T @ x.T) + v", {"w": [80, 40], "v": [48]}),
    "batch": step({"x": [3, 34, 20]}, "einsum('bik,bkj->bij', x, w) * v", {"w": [3, 20, 50], "v": [50]}),
    "heads": step({"x": [2, 18, 4, 24]}, "einsum('bqhd,bkhd->bhqk', x * v, x + w)", {"w": [24], "v": [4, 24]}),
    "prologue": step({"x": [66, 35]}, "relu(x + v) @ exp(w)", {"w": [35, 49], "v": [35]}),
    "signs": step({"x": [130, 24]}, "relu(x @ w) @ v", {"w": [24, 128], "v": [128, 20]}),
    "split": product(40, 512, 72), "split_float64": product(33, 640, 18, "float64"),
    "split_rows": step({"x": [3, 256, 20]}, "tanh(x @ w)", {"w": [20, 36]}), "chunked": product(96, 40, 150),
    "bfloat16_split": product(40, 512, 72, "bfloat16"), "float16_split": product(33, 640, 18, "float16"),
    "float64": product(65, 33, 34, "float64"),
    "bfloat16": product(96, 40, 80, "bfloat16"), "float16": product(96, 40, 80, "float16"),
    "bfloat16_ragged": product(131, 37, 67, "bfloat16"), "bfloat16_turned": step({"x": [48, 80]}, "(w.T @ x.T) + v", {"w": [80, 40], "v": [48]}, "bfloat16"),
}
# What is copied to shared memory by itself, each way round: tiles that stick out, batches, blocks of k that are not whole and fewer than stages, one operand that
# is made on its way, large tiles.
COPIED = {
    **{"%s_%s" % (name, dtype): o for dtype in ("bfloat16", "float16") for name, o in (
        ("ragged", product(200, 104, 136, dtype)), ("one_block", product(128, 16, 128, dtype)), ("two_blocks", product(72, 40, 64, dtype)),
        ("turned", step({"x": [200, 136]}, "(w.T @ x.T) + v", {"w": [136, 104], "v": [200]}, dtype)),
        ("batch", step({"x": [3, 136, 72]}, "einsum('bik,bkj->bij', x, w) * v", {"w": [3, 72, 152], "v": [152]}, dtype)),
        ("prologue", step({"x": [72, 136]}, "relu(x + v) @ w", {"w": [136, 80], "v": [136]}, dtype)))},
    "large": product(1160, 40, 1152, "bfloat16"), "largest": product(1416, 40, 2296, "bfloat16"),
    "heads": step({"x": [2, 72, 4, 64]}, "einsum('bqhd,bkhd->bhqk', x, x * v) + w", {"w": [72], "v": [64]}, "bfloat16"),
    "slices": step({"x": [136, 192]}, "x[:, 64:128] @ w[:, 8:136]", {"w": [64, 144]}, "bfloat16"),
}
LARGE = {"large": "4, 6", "largest": "4, 8"}  # four warps of 64 by 48, or by 64, side by side
# What warpgroups multiply: several tiles that stick out, operands that lie either way round, blocks of k that are not whole, batches, splits.
WARPGROUPS = {
    **{"%s_%s" % (name, dtype): o for dtype in ("bfloat16", "float16") for name, o in (
        ("ragged", product(300, 104, 270, dtype)), ("odd", product(131, 101, 267, dtype)), ("one_block", product(128, 16, 128, dtype)),
        ("turned", step({"x": [140, 90]}, "(w.T @ x.T) + v", {"w": [90, 136], "v": [140]}, dtype)),
        ("batch", step({"x": [3, 134, 72]}, "einsum('bik,bkj->bij', x, w) * v", {"w": [3, 72, 150], "v": [150]}, dtype)),
        ("prologue", step({"x": [66, 135]}, "relu(x + v) @ exp(w)", {"w": [135, 49], "v": [135]}, dtype)))},
    "split": product(40, 1512, 72, "bfloat16"), "image": convolution([3, 9, 11, 8], "bfloat16"), "image_float16": convolution([3, 8, 8, 16], "float16"), "narrow": product(300, 70, 12, "bfloat16"),
    "strides": convolution([2, 13, 10, 12], "bfloat16", strides=[2, 3], padding="VALID"), "wide": product(200, 40, 392, "bfloat16"), "wider": product(140, 72, 200, "float16"),
    "wide_registers": product(135, 270, 205, "bfloat16"),
}
# Of the largest of a tensor: by what the order of a sum differs, which an activation of 16 bits then rounds to its neighbour.
MOST = {"bfloat16": "2e-2", "float16": "3e-3", "float64": "2e-7"}  # the loss is reported in float32


MORE = {"chunked": ["--chunk-rows", "32"]}


class Products(runner.Case):
    verify = False

    def check(self, name, o, arch, env=None):
        """The kernels' text, whose steps are those of the interpreter."""
        most = MOST.get(o.get("precision", o["inputs"]["x"]).get("compute", o["inputs"]["x"].get("dtype")), "2e-5")
        model = self.write("model.json", o)
        self.stepc("compile", model, "-q", "-o", "step.so", "--target", "cuda", "--cuda-arch", arch, "--save-temps=" + self.folder, *MORE.get(name, []), env=env)
        self.stepc("check", model, "--against", "step.so", "--rtol", most, "--atol", most)
        with open(self.path("step.cu")) as f:
            return f.read()

    def test_products(self):
        for name, o in CASES.items():
            with self.subTest(name=name):
                self.check(name, o, "text")

    def test_copies(self):
        """One barrier for a block of k, and one before them, or two; operands lie as they do in memory, each way round."""
        ways, staged = set(), 0
        for name, o in COPIED.items():
            with self.subTest(name=name):
                kernels = [k for k in self.check(name, o, "text").split('extern "C" __global__')[1:] if "stepc_copy(" in k.split("\n}\n")[0]]
                self.assertGreaterEqual(len(kernels), 1)
                if name in LARGE:
                    self.assertTrue(any("stepc_matrix_bf16<%s>" % LARGE[name] in k and "threadIdx.x / 32 % 4," in k for k in kernels))
                for kernel in kernels:
                    left, right = (re.search(r"stepc_take_%s<\d+, 32, (\d+), 0>" % side, kernel) for side in ("left", "right"))
                    self.assertLessEqual(kernel.count("__syncthreads();"), 3 if "__launch_bounds__(256, 1)" in kernel else 2, kernel)
                    self.assertEqual("stepc_dynamic" in kernel, "__launch_bounds__(256, 1)" in kernel)
                    ways.add(("bf16" if "stepc_matrix_bf16" in kernel else "f16", left[1] == "0", right[1] == "0"))
                    staged += "stepc_store_whole(b" in kernel or "stepc_load_whole" in kernel
        self.assertEqual(len(ways), 8, ways)
        self.assertGreaterEqual(staged, 2)

    def test_warpgroups(self):
        """sm_90a: one barrier for a block of k; operands lie as they do in memory, each way round, and are copied or come by way of registers."""
        ways, tiles = set(), set()
        for name, o in WARPGROUPS.items():
            with self.subTest(name=name):
                kernels = [k for k in self.check(name, o, "text_90a", {"STEPC_WARPGROUPS_ALWAYS": "1"}).split('extern "C" __global__')[1:] if "stepc_warpgroup_" in k.split("\n}\n")[0]]
                self.assertGreaterEqual(len(kernels), 1)
                for kernel in kernels:
                    columns, *way = re.search(r"stepc_warpgroup_(\w+)<(\d+), 32, (\w+), (\w+)>", kernel).group(2, 1, 3, 4)
                    self.assertEqual(kernel.count("__syncthreads();"), 2, kernel)
                    self.assertIn("__launch_bounds__(256, %d)" % (2 if columns == "128" else 1), kernel)
                    ways.add(tuple(way))
                    tiles.add((columns, "stepc_copy(" in kernel, "stepc_store_whole(b" in kernel or "stepc_load_whole" in kernel))
        self.assertEqual(len(ways), 8, ways)
        self.assertEqual(len(tiles), 8, tiles)

    def test_warpgroups_are_asked_for(self):
        """By name, and made of what has tiles for a whole GPU."""
        def kernels(o, arch):
            self.stepc("compile", self.write("model.json", o), "-q", "-o", "step.so", "--target", "cuda", "--cuda-arch", arch, "--save-temps=" + self.folder)
            with open(self.path("step.cu")) as f:
                return f.read().split('extern "C"', 1)[1]
        large, small = product(1408, 64, 1536, "bfloat16"), product(512, 64, 640, "bfloat16")
        for arch, o, asked in ("text", large, False), ("text_90a", large, True), ("text,text_90a", large, True), ("text_90a", small, False):
            self.assertEqual("stepc_warpgroup_" in kernels(o, arch), asked, arch)

    def test_all_by_tiles(self):
        """Where rows are made in chunks the operands of products are views; there, and where products are split, all of them go through shared memory. Nothing
        waits between the elements of a tile, whether it sticks out or is one of many batches."""
        ragged, convolutions = product(650, 64, 433), [(name, 5) for name in CONVOLUTIONS]  # two forward, three gradients
        for name, products in ("chunked", 2), ("split", 2), ("split_rows", 1), ("heads", 2), ("ragged", 2), ("few_columns", 2), ("few_rows", 2), *convolutions:
            model = self.write("model.json", {**CASES, "ragged": ragged}[name])
            self.stepc("compile", model, "-q", "-o", "step.so", "--target", "cuda", "--cuda-arch", "text", "--save-temps=" + self.folder, *MORE.get(name, []))
            with open(self.path("step.cu")) as f:
                kernels = pieces(f.read())
            tiles = re.compile(r"__align__\(|\)\(shared \+ ")
            self.assertGreaterEqual(sum(bool(tiles.search(k)) for k in kernels), products)
            for kernel in kernels:
                if "fmaf" in kernel:
                    self.assertRegex(kernel, tiles)
                    self.assertNotRegex(kernel[kernel.index("fmaf"):], BARRIER)

    def test_text(self):
        """Both operands go through shared memory: barriers before what has come is stored there and before it is read, none between the elements of a
        tile, though an epilogue reads what its result may take the place of."""
        self.stepc("compile", self.write("model.json", product(640, 64, 416)), "-q", "-o", "step.so", "--target", "cuda", "--cuda-arch", "text", "--save-temps=" + self.folder)
        with open(self.path("step.cu")) as f:
            kernels = [k for k in pieces(f.read()) if "__align__" in k]
        self.assertGreaterEqual(len(kernels), 2)  # forward with what is behind it, the gradient of w
        for kernel in kernels:
            self.assertEqual(kernel.count("__shared__ __align__(16) float"), 2, kernel)
            self.assertLessEqual(kernel.count("__syncthreads();"), 4, kernel)
            loops = kernel[kernel.index("fmaf"):]
            self.assertNotIn("__syncthreads();", loops, kernel)

    def test_unit(self):
        """What has 16 bits is multiplied by the matrix unit, also where parts are summed in float32."""
        for dtype, name in ("bfloat16", "bf16"), ("float16", "f16"):
            for steps in 64, 512:
                self.stepc("compile", self.write("model.json", product(64, steps, 64, dtype)), "-q", "-o", "step.so", "--target", "cuda", "--cuda-arch", "text",
                           "--save-temps=" + self.folder)
                with open(self.path("step.cu")) as f:
                    kernels = "".join(f.read().split('extern "C" __global__')[1:])
                self.assertRegex(kernels, r"stepc_matrix_%s<1, 4>\(r" % name)
                self.assertNotIn("fmaf(", kernels)

    def test_unit_of_taps(self):
        """Also what a convolution pads, and its taps."""
        for dtype, name in ("bfloat16", "bf16"), ("float16", "f16"):
            self.stepc("compile", self.write("model.json", convolution([4, 12, 12, 16], dtype)), "-q", "-o", "step.so", "--target", "cuda", "--cuda-arch", "text",
                       "--save-temps=" + self.folder)
            with open(self.path("step.cu")) as f:
                kernels = [k for k in pieces(f.read()) if "__align__(" in k]
            self.assertGreaterEqual(len(kernels), 5)
            for kernel in kernels:
                self.assertIn("stepc_matrix_" + name, kernel)

    def test_wide(self):
        """What lies side by side is fetched by accesses of 16 bytes, and what a thread stores of it needs no barrier between; what a host gives may lie anywhere."""
        image = convolution([4, 12, 12, 16])
        for o, few, least in (product(128, 64, 64), 4, 2), (product(2048, 640, 1024, "bfloat16"), 4, 2), (product(128, 62, 66), 2, 1), (image, 4, 5):
            self.stepc("compile", self.write("model.json", o), "-q", "-o", "step.so", "--target", "cuda", "--cuda-arch", "text", "--save-temps=" + self.folder)
            with open(self.path("step.cu")) as f:
                kernels = [k for k in pieces(f.read()) if "__align__(" in k or "stepc_dynamic" in k]
            self.assertGreaterEqual(sum("stepc_load_whole<%d>" % few in k or "stepc_copy(" in k for k in kernels), least, few)
            for kernel in kernels:
                self.assertLessEqual(kernel.count("__syncthreads();"), 4, kernel)


if __name__ == "__main__":
    runner.main()
