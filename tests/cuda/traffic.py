#!/usr/bin/env python3
"""What kernels ask of memory, warp by warp, counted on the stand-in for the driver (traffic.hpp): for the documents below no kernel touches more sectors, or
asks the banks of shared memory more often, than its kind is allowed to.

    STEPC_CUDA_DRIVER=build/cuda/libcuda.so.1 tests/cuda/traffic.py build/stepc              the test
    ... tests/cuda/traffic.py build/stepc --show [NAME...] [--lines] [--below PERCENT]       all kernels, or those; the places in them, with their text
"""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
from tool import runner

ADAMW = {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, {"type": "adamw", "learning_rate": 0.001}]}
SGD = {"type": "sgd", "learning_rate": 0.1}


def sequential(shape, layers, y=None, loss="mean((astype(model, 'float32') - y)**2)", optimizer=SGD, **more):
    return {"stepc": 1, "inputs": {"x": {"shape": shape}, **({"y": y} if y else {})}, "model": {"type": "sequential", "input": "x", "layers": layers}, "loss": loss,
            "optimizer": optimizer, **more}


def expression(expr, shape, parameters, dtype="float32"):
    nodes = [{"type": "param", "name": n, "shape": s, "init": {"type": "normal", "stddev": 0.1}} for n, s in parameters.items()]
    return {"stepc": 1, "inputs": {"x": {"shape": shape, "dtype": dtype}}, "model": {"type": "graph", "nodes": nodes, "output": expr}, "loss": "mean(model * cos(model))", "optimizer": SGD}


def transformer(**constants):
    with open(os.path.join(ROOT, "samples", "shakespeare", "model.json"), encoding="utf-8") as f:
        document = json.load(f)
    document["constants"].update(constants)
    return document


BF16 = {"precision": {"compute": "bfloat16"}}
LABELS = "softmax_cross_entropy_with_integer_labels"
CONV = {"type": "conv", "kernel_size": [3, 3], "use_bias": False}
DOCUMENTS = {
    "mlp": sequential([1024, 784], [{"type": "linear", "features": 512}, {"type": "gelu"}, {"type": "linear", "features": 512}, {"type": "relu"}, {"type": "linear", "features": 10}],
                      {"shape": [1024], "dtype": "int32"}, {"type": LABELS, "logits": "model", "labels": "y", "reduction": "mean"}, ADAMW),
    "transformer": transformer(layers=1, width=256, heads=4, batch=4, context=128),
    "transformer-bf16": {**transformer(layers=1, width=512, heads=8, batch=8, context=128, vocabulary=1000), **BF16},
    "images": sequential([32, 32, 32, 3], [{**CONV, "features": 32}, {"type": "batch_norm", "momentum": 0.9}, {"type": "relu"}, {"type": "max_pool", "window_shape": [2, 2], "strides": [2, 2]},
                         {**CONV, "features": 64}, {"type": "batch_norm", "momentum": 0.9}, {"type": "relu"}, {"type": "expr", "expr": "mean(x, axis=(1, 2))"}, {"type": "linear", "features": 10}],
                         {"shape": [32], "dtype": "int32"}, {"type": LABELS, "logits": "model", "labels": "y", "reduction": "mean"}),
    "images-bf16": {**sequential([16, 16, 16, 32], [{**CONV, "features": 64}, {"type": "relu"}, {**CONV, "features": 64, "strides": [2, 2]}], {"shape": [16, 8, 8, 64]}), **BF16},
    "lstm": sequential([32, 16, 128], [{"type": "rnn", "cell": {"type": "lstm_cell", "hidden_features": 128}}, {"type": "linear", "features": 64}], {"shape": [32, 16, 64]}),
    "rows": expression("softmax(x * w + v, axis=-1) * var(x, axis=-1, keepdims=True) + max(x * w, axis=-1, keepdims=True)", [1000, 1000], {"w": [1000], "v": [1000]}),
    "rows-short": expression("softmax(reshape(x * w, (8000, 40)), axis=-1)", [8000, 40], {"w": [40]}),
    "columns": expression("(x - mean(x, axis=0)) * w / (0.1 + std(x, axis=0)) + sum(x * v, axis=0)", [4000, 300], {"w": [300], "v": [4000, 1]}),
    "middle": expression("x * w - mean(x * w, axis=1, keepdims=True)", [64, 100, 96], {"w": [96]}),
    "transposes": expression("transpose(tanh(x), (1, 0)) * w + transpose(v, (1, 0))", [1000, 600], {"w": [600, 1000], "v": [1000, 600]}),
    "heads": expression("transpose(reshape(x, (16, 64, 8, 32)), (0, 2, 1, 3)) * w", [16, 64, 256], {"w": [8, 64, 32]}),
    "odd": sequential([333, 77], [{"type": "linear", "features": 131}, {"type": "tanh"}, {"type": "layer_norm"}, {"type": "linear", "features": 67}], {"shape": [333, 67]}, optimizer=ADAMW),
}
INTEGERS = 10  # below which the inputs' integers are


# ---------------------------------------------------------------- a step, told

STEP = """
import sys
sys.path[:0] = %r
import numpy as np, stepc
with stepc.Step(%r) as m:
    m.init()
    r, batch = np.random.default_rng(0), {}
    for name, t in m._inputs.items():
        shape, dtype = t.shape[:t.rank], np.dtype(stepc._DTYPES[t.dtype])
        batch[name] = r.standard_normal(shape).astype(dtype) if dtype.kind == "f" else r.integers(0, %d, shape).astype(dtype)
    open(%r, "w").close()
    m.step(**batch)
"""
Place = collections.namedtuple("Place", "space does at accesses asked wanted done least")


class Kernel:
    """What launches of one have asked for. Sums are of the blocks that ran."""

    def __init__(self, name, made, kind, where):
        self.name, self.made, self.kind, self.where, self.places, self.blocks = name, made, kind, where, [], 0

    def of(self, space, does=("read", "write")):
        return [p for p in self.places if p.space == space and p.does in does]

    def percent(self, space, does=("read", "write")):
        """Of what was done, what had to be."""
        done = sum(p.done for p in self.of(space, does))
        return 100.0 * sum(p.least for p in self.of(space, does)) / done if done else 100.0

    def bytes(self, does=("read", "write")):
        return sum(p.wanted for p in self.of("global", does))

    def each(self):
        """Bytes that a lane asks for at a time."""
        lanes = sum(p.accesses for p in self.of("global")) * 32
        return sum(p.asked for p in self.of("global")) / lanes if lanes else 0

    def row(self):
        ran = max(1, self.blocks)
        return "%-10s %-9s %5.1f kB a block, %3.0f %% of sectors read, %3.0f %% written, %4.1f bytes a lane; shared %3.0f %%  %s" % (
            self.name, self.kind, self.bytes() / ran / 1e3, self.percent("global", ("read",)), self.percent("global", ("write",)), self.each(), self.percent("shared"), self.where)


def kernels_of(stepc, model, so, told):
    """By name those of a step."""
    out, current, known = {}, None, {}
    for line in runner.call(stepc, "explain", so, "--kernels", verify=False).splitlines():
        found = re.match(r"(?:kernels)?\s*#\d+\s+(\w+)\s+(\w+) .* at (\S+)", line)
        if found:
            known.setdefault(found[2], (found[1], found[3]))
    with open(told, encoding="utf-8") as f:
        for line in f:
            what, *rest = line.split()
            if what == "kernel":
                name = rest[0]
            elif what == "launch":
                current = out.get(name)
                if current is None:
                    current = out[name] = Kernel(name, rest[0], *known.get(name, ("?", "?")))
                current.blocks += int(rest[3])
            else:
                current.places.append(Place(what, rest[0], int(rest[1], 16), *map(int, rest[2:])))
    return out


def measure(stepc, folder, name, *options):
    model, so, told = (os.path.join(folder, name + end) for end in (".json", ".so", ".traffic"))
    runner.write_json(model, DOCUMENTS[name])
    runner.call(stepc, "compile", model, "-q", "-o", so, "--target=cuda", "--cuda-arch=text", *options, verify=False)
    done = subprocess.run([sys.executable, "-c", STEP % ([os.path.join(ROOT, "samples")], so, INTEGERS, told)], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "STAND_IN_TRAFFIC": told})
    if done.returncode:
        raise AssertionError("%s: %s%s" % (name, done.stdout, done.stderr))
    return kernels_of(stepc, model, so, told)


# ---------------------------------------------------------------- the test

# Percent of sectors read and written, and of what banks are asked, that are needed: what each kind reaches with room for what a row begins and ends with. Of
# products and attention: pairs of 16 bits a thread are half of a sector to a row; statistics are read by the lanes that have them; weights of attention are put
# into shared memory by columns, four lanes to a bank, which is little beside what its products read there.
BOUNDS = {"map": (90, 90, 95), "copy": (95, 95, 95), "row": (80, 80, 95), "column": (80, 80, 95), "scatter": (95, 95, 95), "dot": (85, 50, 90), "attention": (70, 95, 90)}
# What falls short, and why. Rows of odd length begin in the middle of sectors, and four neighbours of a thread are no access there.
EXCEPTIONS = {("odd", "dot"): (50, 20, 90), ("odd", "map"): (90, 80, 95), ("transformer", "dot"): (75, 20, 90), ("transformer-bf16", "dot"): (80, 20, 95),  # 65 letters
              ("transformer-bf16", "attention"): (70, 50, 90),  # of a row four threads have 8 numbers
              ("images", "map"): (70, 90, 95), ("images", "dot"): (70, 50, 90),  # three channels, padded
              ("transposes", "row"): (15, 90, 95)}  # a sum over everything, of tensors that lie both ways
LEAST_SECTORS = 64  # of a kernel of which something is said


class Traffic(runner.SharedCase):
    def check(self, name):
        wanted = 0
        for kernel in measure(self.program, self.folder, name).values():
            if kernel.name in ("move", "sequence"):  # single numbers, for the host; commands of a few numbers
                continue
            bounds = EXCEPTIONS.get((name, kernel.kind), BOUNDS[kernel.kind])
            found = (kernel.percent("global", ("read",)), kernel.percent("global", ("write",)), kernel.percent("shared"))
            wanted += kernel.bytes()
            if sum(p.done for p in kernel.of("global")) >= LEAST_SECTORS:
                self.assertTrue(all(f >= b for f, b in zip(found, bounds)), "%s of at least %s: %s" % (name, bounds, kernel.row()))
        self.assertGreater(wanted, 10000)


for _name in DOCUMENTS:
    setattr(Traffic, "test_" + _name.replace("-", "_"), lambda self, name=_name: self.check(name))


# ---------------------------------------------------------------- to look at

def lines_of(kernel, places):
    """The lines of the kernel's text that these places are, where binutils' addr2line is."""
    if not shutil.which("addr2line"):
        return [""] * len(places)
    library, texts, out = os.path.realpath(os.path.join(os.environ["STAND_IN_CACHE"], kernel.made + ".so")), {}, []
    said = subprocess.run(["addr2line", "-a", "-i", "-e", library, *("%x" % p.at for p in places)], capture_output=True, text=True).stdout
    for one in said.split("\n0x"):
        path, _, number = one.splitlines()[-1].split(" ")[0].rpartition(":")
        if path not in texts:
            texts[path] = open(path, encoding="utf-8").read().splitlines() if os.path.exists(path) else []
        line = int(number) if number.isdigit() else 0
        out.append(texts[path][line - 1].strip() if 0 < line <= len(texts[path]) else one)
    return out


def show(stepc, arguments):
    names = [a for a in arguments if a in DOCUMENTS] or list(DOCUMENTS)
    below = float(arguments[arguments.index("--below") + 1]) if "--below" in arguments else 101
    with tempfile.TemporaryDirectory(prefix="stepc-traffic-") as folder:
        os.environ.setdefault("STAND_IN_CACHE", folder)
        for name in names:
            print(name, flush=True)
            for kernel in measure(stepc, folder, name).values():
                if min(kernel.percent("global"), kernel.percent("shared")) >= below:
                    continue
                print("  " + kernel.row(), flush=True)
                bad = sorted((p for p in kernel.places if p.done > p.least), key=lambda p: p.least - p.done)[:12]
                for p, text in zip(bad, lines_of(kernel, bad) if bad and "--lines" in arguments else ()):
                    print("      %s %s %d for %d, %d bytes each: %s" % (p.space, p.does, p.done, p.least, p.asked / p.accesses / 32 + .5, text[:230]))


if __name__ == "__main__":
    if "--show" in sys.argv:
        show(os.path.abspath(sys.argv[1]), sys.argv[2:])
    else:
        runner.main()
