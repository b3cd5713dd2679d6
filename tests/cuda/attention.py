#!/usr/bin/env python3
"""Attention by tiles of a GPU (codegen/lower/lower_attention_grid.c) on a stand-in for the driver: the documents of tests/attention beside the interpreter, and
extents around those of tiles, with heads of usual and of odd sizes.

    tests/cuda/attention.py STEPC [TestOnGpu.test_NAME]   (STEPC_CUDA_DRIVER names the stand-in)
"""
import json
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "attention"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import attention as forms
from attention import document, heads, written
from tool import runner

TARGET = ("--target", "cuda", "--cuda-arch", "text")


class TestOnGpu(forms.TestAttention):
    test_processors = test_long = test_memory = test_too_many = test_elsewhere = test_stored = test_made_again = None  # of the passes, or of a CPU

    def groups(self, doc, *arguments):
        return super().groups(doc, *(a for a in arguments if a not in TARGET[2:]))

    def agree(self, doc, groups=3, arguments=(), **more):
        """Contractions over rows and over columns are groups of their own, whatever the batch."""
        found, _ = self.groups(doc, *arguments, *TARGET)
        self.assertGreaterEqual(found, groups)
        super().agree(doc, groups=found, arguments=(*arguments, *TARGET), **more)

    def kernels(self, doc):
        self.stepc("compile", self.write("model.json", doc), "-q", "-o", "step.so", *TARGET, "--save-temps=" + self.folder)
        with open(self.path("step.cu")) as f:
            return f.read().split('extern "C" __global__')[1:]

    def test_heads(self):
        for depth in (40, 64, 80, 128):
            self.agree(document(1, 2 * depth + 117, 2 * depth, [heads(num_heads=2, qkv_features=2 * depth, is_causal=depth != 64)]))

    def test_other_lengths(self):
        """Queries and keys of different numbers, both no multiples of a tile; few numbers that are weighted."""
        keys = {"c": {"shape": [2, 97, 20], "dtype": "float32", "axes": ["batch", None, None]}}
        self.agree(document(2, 150, 20, [heads(inputs=["x", "c"])], keys))
        self.agree(document(8, 131, 12, [written("softmax(q @ swapaxes(k, -1, -2)) @ v", 12, depth=5)]))

    def test_statistics_alone(self):
        """Made again for gradients alone, where nothing is weighted."""
        for layer in heads(is_causal=True), heads(num_heads=4, num_kv_heads=2):
            self.agree(document(3, 160, 32, [layer]), arguments=("--remat", "1"))

    UNIT = re.compile(r"stepc_matrix_b?f16<1, (\d+)>")

    def half(self, doc, kernels, dtype="bfloat16", **more):
        """Agrees, and so many kernels of attention multiply by the matrix unit."""
        doc["precision"] = {"compute": dtype}
        found = [k for k in self.kernels(doc) if re.search(r"expf\(|rough_exp\(", k) and self.UNIT.search(k)]
        self.assertEqual(len(found), kernels)
        report = json.loads(self.stepc("explain", "model.json", "--kernels", "--json", *TARGET[:2]).stdout)
        for entry, by_unit in ("step", kernels - 1), ("eval", 1):  # what it is rated by: the last number of a launch
            kind = {g["command"]: g["kind"] for e in report["entries"] if e["name"] == entry for g in e["groups"]}
            rows = [row for row in report["launches"][entry] if kind[row[0]] == "attention"]
            self.assertEqual(sum(row[8] for row in rows), by_unit)
        self.agree(doc, **more)

    def test_half(self):
        """Weights of 16 bits as they are, those of float32 (the gradient behind a softmax of float32) by three of bfloat16: of float16 they stay outside."""
        self.half(document(2, 128, 32, [heads(is_causal=True)]), 4)
        self.half(document(2, 128, 32, [heads(is_causal=True)]), 2, "float16")
        self.half(document(1, 277, 160, [heads(num_heads=2)]), 4)
        self.half(document(1, 373, 256, [heads(num_heads=2, is_causal=True)]), 4)
        self.half(document(3, 101, 28, [heads(is_causal=True)]), 4)
        self.half(document(2, 128, 32, [heads(num_kv_heads=2)]), 4)
        given = {"m": {"shape": [2, 1, 128, 128], "dtype": "bool"}}
        self.half(document(2, 128, 32, [heads(mask="m", is_causal=True)], given), 4)
        keys = {"c": {"shape": [2, 97, 20], "dtype": "float32", "axes": ["batch", None, None]}}
        self.half(document(2, 150, 20, [heads(inputs=["x", "c"])], keys), 4)

    def test_half_of_other_sizes(self):
        """Panels with columns by 64, 32 and 16 side by side, of heads so wide that one tile is there at a time, and of what lies by columns in memory."""
        self.half(document(2, 200, 96, [heads(num_heads=2, is_causal=True)]), 4)
        self.half(document(1, 215, 192, [heads(num_heads=2)]), 4)
        self.half(document(1, 512, 256, [heads(num_heads=1)]), 2)
        weights = "astype(softmax(astype(q @ %s, 'float32')), 'bfloat16') @ v"
        columns = {"m": {"shape": [2, 16, 190], "dtype": "float32", "axes": ["batch", None, None]}}
        self.half(document(2, 190, 24, [written(weights % "astype(m, 'bfloat16')", 24, depth=16)], columns), 4)

    def test_divided(self):
        """What scores are divided by is one number for each row, whose reciprocal is made once, or one for each column, or each score: of as
        many numbers where there are as many columns as rows, or as batches."""
        for batch, length, divisor in (8, 96, "[:, :, None]"), (8, 96, "[:, None]"), (64, 64, ""):
            given = {"t": {"shape": [batch, length, 32], "dtype": "float32", "axes": ["batch" if divisor else None, None, None]}}
            formula = "softmax(q @ swapaxes(k, -1, -2) / max(abs(t), axis=-1)%s) @ v" % divisor
            self.agree(document(batch, length, 16, [written(formula, 16)], given))

    def test_counted(self):
        """`explain` counts what tiles take, also where a causal mask may leave them out: FLOP of them are counted, too."""
        self.write("model.json", document(8, 1024, 768, [heads(num_heads=12, is_causal=True)], precision={"compute": "bfloat16"}))
        report = json.loads(self.stepc("explain", "model.json", "--kernels", "--json", *TARGET[:2]).stdout)
        kind = {g["command"]: g["kind"] for e in report["entries"] if e["name"] == "step" for g in e["groups"]}
        counts = [row[10] / (8 * 12 * 1024 * 1024) for row in report["launches"]["step"] if kind[row[0]] == "attention"]
        self.assertEqual(len(counts), 3)
        self.assertTrue(all(8 < count < 60 for count in counts), counts)

    def test_one_query(self):
        """One row of scores is no tile: it goes as it is stored."""
        found, _ = self.groups(document(2, 1, 32, [heads(is_causal=True)]), *TARGET)
        self.assertEqual(found, 0)

    def test_float64(self):
        doc = document(5, 129, 16, [written("softmax(astype(q @ swapaxes(k, -1, -2), 'float64')) @ astype(v, 'float64')", 16)])
        doc["loss"] = "mean((astype(model, 'float32') - y)**2)"
        self.agree(doc)

    def test_text(self):
        """Operands and weights are in shared memory, sums in registers; nothing waits between the elements of a tile."""
        kernels = [k for k in self.kernels(document(8, 1024, 768, [heads(num_heads=12, is_causal=True)])) if "expf(" in k and k.count("fmaf(") > 1]
        self.assertEqual(len(kernels), 4)  # forward, the gradients of queries, and of keys and values; forward of eval
        for kernel in kernels:
            self.assertIn("__launch_bounds__(128)", kernel)
            self.assertNotIn("scratch", kernel)
            self.assertEqual(kernel.count(" / v"), 1, kernel)  # for a row, not for each of its scores
            self.assertLessEqual(kernel.count("__syncthreads();"), 14, kernel)
            for piece in kernel.split("__syncthreads();"):  # takes numbers of both sides, and multiplies them
                if "fmaf(" in piece:
                    self.assertEqual(piece.count("fmaf("), 1, kernel)


if __name__ == "__main__":
    runner.main()
