#!/usr/bin/env python3
"""Small commands of a GPU that are one launch (codegen/cuda/cuda_sequence.c): documents that fill the table of a sequence and that have
more kernels than its code holds, on the stand-in for the driver; what `explain` says of them is what is launched.

    STEPC_CUDA_DRIVER=build/cuda/libcuda.so.1 tests/cuda/sequences.py build/stepc
"""
import itertools
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples")]
from tool import recorded, runner

import numpy as np

import stepc

WORDS, PARTS = 508, 64  # of a table; kernels that are parts of sequences
SMOOTH = ("sin", "cos", "tanh", "exp", "sigmoid", "softplus", "arctan", "sinh", "erf", "expm1", "square", "cosh", "arcsinh", "gelu", "silu", "elu", "selu")
EACH = ["%s(x) / 8" % f for f in SMOOTH] + ["%s(%s(x)) / 8" % pair for pair in itertools.product(SMOOTH[:5], SMOOTH[:5])]
SEQUENCE = r"sequence of (\d+) kernels? +(\d+) x (\d+), +\S+ k?B shared  one launch, 1 % of the card"


def document(activations):
    """Products that nothing can be joined with but what follows them."""
    layers = [layer for a in activations for layer in ({"type": "linear", "features": 6}, {"type": "expr", "expr": a})]
    return {"stepc": 1, "name": "sequences", "inputs": {"x": {"shape": [2, 6]}}, "model": {"type": "sequential", "input": "x", "layers": layers},
            "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.01}}


class Sequences(runner.SharedCase):
    def compiled(self, name, path, device):
        so = self.path("%s-%s.so" % (name, device))
        runner.call(self.program, "compile", path, "-q", "-o", so, *(("--target=cuda", "--cuda-arch=text", "--save-temps=" + self.folder) if device == "cuda" else ()))
        return so

    def words(self, name):
        """By number the words of a kernel as a part."""
        with open(self.path(name + "-cuda.cu"), encoding="utf-8") as f:
            _, between, kernel = f.read().partition(" sequence(const __grid_constant__")
        self.assertTrue(between)
        cases = re.findall(r"^        case (\d+): {$(.*?)^            at \+= (\d+);$", kernel, re.M | re.S)
        return {int(number): 1 + int(words) for number, _, words in cases}

    def launches(self, so, steps):
        file = self.path("counts")
        text = "import sys\nsys.path[:0] = %r\nimport numpy as np, stepc\nm = stepc.Step(%r)\nm.init()\nfor k in range(%d):\n    m.step(x=np.ones((2, 6), 'f4'))\nm.close()\n"
        subprocess.run([sys.executable, "-c", text % (sys.path[:2], so, steps)], check=True, timeout=600, env={**os.environ, "STAND_IN_COUNTS": file})
        with open(file, encoding="utf-8") as f:
            return {name: int(n) for name, n in map(str.split, f)}.get("cuLaunchKernel", 0)

    def told(self, so):
        """The rows of a step; how many launches it has as `explain` says; what it says."""
        said = self.stepc("explain", so, "--kernels").stdout
        rows = json.loads(self.stepc("explain", so, "--kernels", "--json").stdout)["launches"]["step"]
        return rows, int(re.search(r"launches of a step: (\d+);", said)[1]), said

    def alike(self, name, steps=3):
        with stepc.Step(self.path(name + "-cuda.so")) as m, stepc.Step(self.path(name + "-cpu.so"), threads=1) as n:
            m.init()
            n.init()
            for k in range(steps):
                x = np.random.default_rng(k).standard_normal((2, 6), dtype="f4")
                self.assertAlmostEqual(m.step(x=x).loss, n.step(x=x).loss, 5)
            for tensor, value in n.state().items():
                np.testing.assert_allclose(np.asarray(m[tensor], "f8"), np.asarray(value, "f8"), rtol=2e-4, atol=2e-5, err_msg=tensor)

    def run_both(self, name, activations):
        path = runner.write_json(self.path(name + ".json"), document(activations))
        so = self.compiled(name, path, "cuda")
        self.compiled(name, path, "cpu")
        self.alike(name)
        rows, launches, said = self.told(so)
        # Once everything was seen to work a graph is made, of so many launches; what goes out for the host is one more if it has no room.
        made = self.launches(so, 2) - self.launches(so, 1)
        self.assertIn(made, (launches, launches + 1))
        numbers = [row[9] for row in rows]
        self.assertEqual([(int(n), int(blocks), int(threads)) for n, blocks, threads in re.findall(SEQUENCE, said)],
                         [(numbers.count(i), 1, 256) for i in range(1, max(numbers) + 1)])
        for command, kernel, blocks, threads, *_, sequence, instructions in rows:  # of a part no grid: it is launched with none of its own
            self.assertRegex(said, r"#%d +\w+ +kernel_%d +%s" % (command, kernel, "part of it " if sequence else "%d x %d, " % (blocks, threads)))
        return rows

    def test_full_table(self):
        """One kernel may be a part any number of times: a table is full before its code is, and what is left begins another one."""
        rows, words = self.run_both("words", ["tanh(x)"] * 60), self.words("words")
        self.assertLess(len(words), PARTS)
        full = 0
        for (number, run), (after, following) in itertools.pairwise((n, list(r)) for n, r in itertools.groupby(rows, key=lambda row: row[9])):
            used = 1 + sum(words[row[1]] for row in run) if number else 0
            self.assertLessEqual(used, WORDS)
            if number and after:
                self.assertGreater(used + words[following[0][1]], WORDS)
                full += 1
        self.assertGreater(full, 0)

    def test_full_code(self):
        """As many kernels as NVRTC takes seconds for; what is small beside them has launches of its own."""
        rows, words = self.run_both("parts", EACH[:40]), self.words("parts")
        self.assertEqual(len(words), PARTS)
        self.assertGreater(len({row[1] for row in rows if not row[9]} - set(words)), 10)

    def test_parts_of_ops(self):
        case = recorded.load("op_more_factors").unpack(self.folder)
        self.compiled("ops", case, "cuda")
        self.assertIn(len(self.words("ops")), range(50, PARTS + 1))


if __name__ == "__main__":
    runner.main()
