#!/usr/bin/env python3
"""What is emitted for the plans of tests/golden/emitted, NAME.sir: the nests, as NAME.nests says, and how many instructions
of each kind the functions have before LLVM's own passes, as NAME.llvm says; for those that end with _cuda or _sm_90a the kernels' text
behind the prelude, as NAME.cu says. Decisions about speed show here: what is shared, vectorised, unrolled, kept in registers,
loaded once; which threads have what.

STEPC_GOLDEN_UPDATE=1 writes what is expected: look at the difference before committing it. A plan is made anew of its
document, which stands in it: --plans does that.

usage: emitted.py STEPC [--plans]
"""
import collections
import itertools
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import runner

GOLDEN = os.path.join(HERE, "..", "golden", "emitted")
CUDA = {"_cuda": "text", "_sm_90a": "text_90a"}  # by the end of a name: what stands for an architecture
with open(os.path.join(HERE, "..", "..", "kernels", "cuda", "prelude.cu"), encoding="utf-8") as prelude:
    PRELUDE = prelude.read() + "\n"
MOVE = 'extern "C" __global__ void __launch_bounds__(256) move('  # the last kernel of every module, which does not depend on it
FLAGS = r"nuw|nsw|fast|exact|inbounds|contract|reassoc|nnan|ninf|nsz|arcp|afn|[osun]\w\w|eq|ne|true|false"


def arch_of(name):
    return next((arch for end, arch in CUDA.items() if name.endswith(end)), None)


def target(name):
    """Options of the compiler; the first two are those of the plan, too."""
    arch = arch_of(name)
    return ("--target", "cuda", "--cuda-arch", arch) if arch else ("--cpu", "x86-64-v4" if name.endswith("_avx512") else "x86-64-v3")


def names():
    return sorted(name[:-4] for name in os.listdir(GOLDEN) if name.endswith(".sir"))


def kind(op, rest):
    """What an instruction is counted as: its name, with the type that it works on or what it calls."""
    if op == "call":
        return "call " + re.search(r"@([\w.]+)|%\w+(?=\()", rest).group(0).lstrip("@")
    if op in ("load", "alloca"):
        return "%s %s" % (op, rest.split(",")[0].strip())
    of_type = None if op in ("br", "getelementptr", "phi", "ret") else re.match(r"(?: (?:%s))* (<[^>]*>|\w+)" % FLAGS, rest)
    return op + (" " + of_type.group(1) if of_type else "")


def counted(text):
    """A line per function of LLVM's text and one per kind of instruction."""
    out, count = [], collections.Counter()
    for line in text.split("\n"):
        begin, instruction = re.match(r"define .*?@([\w.]+)\(", line), re.match(r"  (?:%\S+ = )?(?:tail |musttail )?(\w+)(.*)", line)
        if begin:
            out.append(begin.group(1))
            count.clear()
        elif line == "}":
            out += ["  %d %s" % (n, k) for k, n in sorted(count.items())]
        elif instruction and out:
            count[kind(*instruction.groups())] += 1
    return "\n".join(out) + "\n"


class Emitted(runner.Case):
    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def modules(self, name):
        """The text of all: NAME.ll, NAME.1.ll, ..."""
        more = itertools.takewhile(lambda n: os.path.exists(self.path(n)), ("%s.%d.ll" % (name, i) for i in itertools.count(1)))
        return "".join(map(self.read, [name + ".ll", *more]))

    def test_golden(self):
        for name in names():
            with self.subTest(name):
                options = target(name)
                self.stepc("compile", os.path.join(GOLDEN, name + ".sir"), "-q", "-o", self.path(name + ".so"), *options, "--save-temps=" + self.path(""), env={"STEPC_WARPGROUPS_ALWAYS": "1"})
                texts = {".cu": self.read(name + ".cu")[len(PRELUDE):].split(MOVE)[0]} if arch_of(name) else {".nests": self.read(name + ".nests"), ".llvm": counted(self.modules(name))}
                for ending, text in texts.items():
                    at = os.path.join(GOLDEN, name + ending)
                    if os.environ.get("STEPC_GOLDEN_UPDATE"):
                        with open(at, "w", encoding="utf-8") as f:
                            f.write(text)
                    with open(at, encoding="utf-8") as f:
                        expected = f.read().split("\n")
                    found = text.split("\n")
                    differs = next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b), None)
                    self.assertTrue(differs is None and len(expected) == len(found), "%s, from line %s: expected\n%s\nfound\n%s" % (
                        name + ending, (differs or 0) + 1, "\n".join(expected[differs or 0:][:12]), "\n".join(found[differs or 0:][:12])))

    def test_places_of_taps(self):
        """Of a convolution each element is a constant away from what loops carry: no loop that multiplies divides for the place of a tap."""
        for channels, size, groups in (48, 3, 1), (192, 5, 4), (96, 7, 2), (60, 5, 3):
            layer = {"type": "conv", "features": 120, "kernel_size": [size, size], "feature_group_count": groups}
            o = {"stepc": 1, "inputs": {"x": {"shape": [8, 17, 17, channels]}}, "model": {"type": "sequential", "input": "x", "layers": [layer, {"type": "tanh"}, layer]},
                 "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.1}}
            for cpu in "x86-64-v3", "x86-64-v4":
                with self.subTest(size=size, groups=groups, cpu=cpu):
                    self.stepc("compile", self.write("taps.json", o), "-q", "-o", self.path("taps.so"), "--cpu", cpu, "--save-temps=" + self.path(""))
                    nests = [n for n in self.read("taps.nests").split("\nkernel.") if " fma " in n]
                    self.assertGreaterEqual(len(nests), 5)
                    for loop in itertools.chain(*(n.split(" serial ")[1:] for n in nests)):
                        self.assertNotIn(" div int32 ", loop[:loop.rfind(" fma ") + 1], loop)

    def test_columns_at_the_end_of_a_row(self):
        """What is added to a product's columns is found without a division, whether panels divide these or not."""
        for features in 333, 222, 50:
            o = {"stepc": 1, "inputs": {"x": {"shape": [100, 300]}}, "precision": {"compute": "bfloat16"}, "loss": "mean(astype(model, 'float32')**2)",
                 "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": features}, {"type": "relu"}]}, "optimizer": {"type": "sgd", "learning_rate": 0.1}}
            for cpu in "x86-64-v3", "x86-64-v4":
                with self.subTest(features=features, cpu=cpu):
                    self.stepc("compile", self.write("row.json", o), "-q", "-o", self.path("row.so"), "--cpu", cpu, "--save-temps=" + self.path(""))
                    self.assertNotIn(" div int32 ", self.read("row.nests"))

    def test_read_by_few_rows(self):
        """Few rows of a product read its other operand: with 32 registers it is packed only where its rows share cache sets."""
        for rows, columns, g, cpu, packed in ((32, 200, "softmax(g)", "x86-64-v4", False), (128, 256, "softmax(g)", "x86-64-v4", False), (64, 784, "softmax(g)", "x86-64-v4", False), (64, 1024, "softmax(g)", "x86-64-v4", True),
                                              (128, 256, "g", "x86-64-v4", True), (32, 200, "softmax(g)", "x86-64-v3", True)):  # a host's memory may begin anywhere
            o = {"stepc": 1, "inputs": {"x": {"shape": [1024, rows]}, "g": {"shape": [1024, columns]}}, "loss": "sum(model * (transpose(x) @ %s))" % g,
                 "model": {"type": "graph", "nodes": [{"type": "param", "name": "w", "shape": [rows, columns]}], "output": "w"}, "optimizer": {"type": "sgd", "learning_rate": 0.1}}
            with self.subTest(rows=rows, columns=columns, g=g, cpu=cpu):
                self.stepc("compile", self.write("few.json", o), "-q", "-o", self.path("few.so"), "--cpu", cpu, "--save-temps=" + self.path(""))
                (product,) = [n for n in self.read("few.nests").split("\nkernel.") if re.search(r" set r1\[.* fma .* set r0\[", n, re.DOTALL)]
                local = re.findall(r"^  local (b\d)", product, re.M)
                self.assertEqual({b in local for b in re.findall(r" load (b\d)\[.*\]\n +set r1\[", product)}, {packed})

    def test_long_functions(self):
        """Few of them stand side by side in a GPU's row: the slow path of a cosine is a hundred lines."""
        for function, wanted in ("cos", "#pragma unroll 4"), ("abs", "#pragma unroll"):
            o = {"stepc": 1, "inputs": {"x": {"shape": [1024, 16384], "dtype": "bfloat16"}}, "loss": "mean(model)", "optimizer": {"type": "sgd", "learning_rate": 0.1},
                 "model": {"type": "graph", "nodes": [{"type": "param", "name": "w", "shape": [1024, 1]}], "output": "sum(astype(x * %s(x), 'float32') * w, axis=1)" % function}}
            self.stepc("compile", self.write("long.json", o), "-q", "-o", self.path("long.so"), "--target", "cuda", "--cuda-arch", "text", "--save-temps=" + self.path(""))
            unrolled = re.findall(r"(#pragma .*)\n +for \(long long from = thread \* 8;", self.read("long.cu"))
            self.assertEqual(set(unrolled), {wanted}, function)

    def test_equal_layers(self):
        """The last one makes again what the others make again: none of 12 has its GELU, or that of the gradients, in a kernel of its own."""
        with open(os.path.join(HERE, "..", "..", "samples", "shakespeare", "model.json"), encoding="utf-8") as f:
            o = {**json.load(f), "precision": {"compute": "bfloat16"}}
        o["constants"].update(layers=12, width=768, heads=12, batch=4, context=256)
        said = self.stepc("explain", self.write("layers.json", o), "--kernels", "--target", "cuda").stdout
        self.assertGreaterEqual(len(re.findall(r" dot +kernel_\d+ .* at /define/block/body/layers/1/layers/1", said)), 24)  # which have it in their end
        self.assertNotRegex(said, r" map +kernel_\d+ .* at /define/block/body/layers/1/layers/2")


def make_plans(program):
    for name in names():
        at = os.path.join(GOLDEN, name + ".sir")
        with open(at, encoding="utf-8") as f:
            document = re.search(r"^document (\".*\")$", f.read(), re.M).group(1)
        runner.write_json(at + ".json", json.loads(json.loads(document)))
        runner.call(program, "compile", at + ".json", "-q", "--stop-after", "memplan", "-o", at, *target(name)[:2],
                    *(("--numerics", "fast") if name.startswith("fast_") else ()))
        os.remove(at + ".json")


if __name__ == "__main__":
    if "--plans" in sys.argv:
        make_plans(sys.argv[1])
    else:
        runner.main()
