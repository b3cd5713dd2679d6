#!/usr/bin/env python3
"""Random models with random annotations on random meshes: a mesh trains to the numbers of one device, and, where a Python with jax 0.8
and optax is named, each device sends at most 1.02 times the bytes that XLA's partitioner lets it send for the same model.

    tests/fuzz/layouts.py --stepc build/stepc --cases 20 [--seed 0]
    tests/fuzz/layouts.py --stepc build/stepc --cases 20 --jax PYTHON    only what is sent
"""
import fnmatch
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from mesh import programs, traffic
from tool import command, comparison, draws, runner, safetensors

MESHES = [{"data": 8}, {"data": 2, "model": 4}, {"data": 4, "model": 2}, {"data": 2, "fsdp": 2, "model": 2}, {"model": 8}, {"fsdp": 8}, {"data": 2, "fsdp": 4}]
STEPS, RATE = 2, 0.05
TRANSPOSE = "transpose(x, (0, 2, 1))"


class Draw(draws.Draws):
    """One document: its mesh, its layers, and how parameters lie."""

    def __init__(self, seed):
        super().__init__(seed)
        self.mesh = self.one(MESHES)
        self.batch = [a for a in self.mesh if a in ("data", "fsdp")]
        self.width, self.rank = self.one([64, 128, 256]), self.one([2, 3, 3, 3, 4])
        rows, self.length = self.one([16, 32, 64]), self.one([16, 32, 64])
        self.shape = {2: [4 * rows, self.width], 3: [rows, self.length, self.width], 4: [rows, 16, 16, self.width // 8]}[self.rank]
        self.held = self.spec(self.shape) if self.chance(0.4) else None

    def split(self, shape, axes):
        left = list(self.r.permutation(axes))
        return [str(left.pop()) if left and self.chance() and n % self.mesh[left[-1]] == 0 else None for n in shape]

    def spec(self, shape):
        return ["batch" if self.batch else None] + self.split(shape[1:], [a for a in self.mesh if a not in self.batch])

    def hold(self, shape):
        return {"type": "sharding_constraint", "spec": self.spec(shape)}

    def perceptron(self, name, features, width, *around):
        return programs.residual(name, programs.norm(), *around, programs.linear("up", features), {"type": self.one(["gelu", "tanh"])}, programs.linear("down", width), *around)

    def layer(self, name):
        """Layers that leave the shape as it is."""
        kind = self.one(["perceptron", "perceptron", "linear", "norm", "wide"] + ["attention", "attention", "mix", "conv"] * (self.rank == 3) + ["conv", "conv", "conv", "conv", "pool", "batch_norm"] * (self.rank == 4))
        width = self.shape[-1]
        if kind == "perceptron":
            return [self.perceptron(name, width * self.one([2, 4]), width)]
        if kind == "mix":
            return [self.perceptron(name, 2 * self.length, self.length, programs.expr(TRANSPOSE))]
        if kind == "attention":
            return [programs.residual(name, programs.norm(), programs.attention())]
        if kind == "linear":
            return [programs.linear(name, width), {"type": "tanh"}]
        if kind == "conv":
            return [{"type": "conv", "name": name, "features": width, "kernel_size": [3] * (self.rank - 2), "feature_group_count": self.one([1, 1, 1, 4, width])}, {"type": "tanh"}]
        if kind == "pool":
            return [{"type": "max_pool", "window_shape": [3, 3], "strides": [1, 1], "padding": "SAME"}]
        if kind == "batch_norm":
            return [{"type": "batch_norm", "name": name}]
        if kind == "wide":
            between = [self.hold(self.shape[:-1] + [4 * width])] * self.chance()
            return [programs.sequential(programs.linear("up", 4 * width, use_bias=False), {"type": "tanh"}, *between, programs.linear("down", width, use_bias=False)) | {"name": name}]
        return [programs.norm(name)]

    def patterns(self):
        """None: at random, by parameter."""
        model = "model" if "model" in self.mesh else list(self.mesh)[-1]
        split = self.batch[-1] if len(self.batch) == 1 or (self.batch and self.chance()) else self.batch or model
        mixed = {"**.{query,key,value}.kernel": [split, model], "**.{query,key,value}.bias": [model], "**.out.kernel": [model, None, split], "**.up.kernel": [split, model], "**.up.bias": [model],
                 "**.down.kernel": [model, split], "**.embedding": [model, split]}
        megatron = {k: [a and model for a in s] for k, s in programs.MEGATRON.items()}
        return self.one([megatron, {"**": [split]}, {}, None] + [mixed] * (model not in split))

    def document(self, name):
        inputs, layers, classes = {"x": programs.tensor(*self.shape)}, [], None
        if self.rank == 3 and self.chance(0.4):
            inputs["x"] = programs.tensor(*self.shape[:2], dtype="int32")
            layers.append({"type": "embed", "name": "embedding", "num_embeddings": 512, "features": self.width})
        for i in range(self.n(1, 3)):
            layers += self.layer("l%d" % i)
            if self.held and self.chance(0.8):
                layers.append({"type": "sharding_constraint", "spec": self.held})
            elif self.chance(0.2):
                layers.append(self.hold(self.shape))
        out = list(self.shape)
        if self.rank == 4 or (self.rank == 3 and self.chance(0.3)):
            layers.append(programs.expr("mean(x, axis=1)" if self.rank == 3 else "mean(x, axis=(1, 2))"))
            out = [out[0], out[-1]]
        if self.chance() or not any("name" in l for l in layers):  # something to train
            classes = self.one([16, 512, 1024])
            layers.append(programs.TIED if inputs["x"]["dtype"] == "int32" and self.chance(0.4) else programs.linear("head", classes))
        inputs |= {"y": programs.tensor(*out)} if not classes else {"labels": programs.tensor(*out[:-1], dtype="int32")}
        patterns = self.patterns()
        o = programs.document(name, self.mesh, inputs, layers, programs.LABELS if classes else programs.SQUARE, patterns or {})
        o["sharding"]["rules"] = [["batch", self.batch[0] if len(self.batch) == 1 else self.batch or None]]
        if self.chance(0.15):
            o["optimizer"] = programs.CLIPPED
        if patterns is not None and self.batch and self.chance(0.2):
            o["sharding"]["optimizer_state"] = {"**": [self.batch[0]]}
        return o, patterns is None


def spec_of(patterns, path):
    return next((s for p, s in patterns.items() if any(fnmatch.fnmatchcase("." + path, "." + q.replace("**.", "*")) for q in alternatives(p))), [])


def alternatives(pattern):
    head, brace, rest = pattern.partition("{")
    inside, _, tail = rest.partition("}")
    return [head + word + tail for word in inside.split(",")] if brace else [pattern]


def drawn(options, seed, folder):
    """The document, the shapes of its parameters, and what stepc reports of it: patterns that match nothing are left out, and so is what does not divide."""
    d = Draw(seed)
    o, at_random = d.document("r%d" % seed)
    sharding = o["sharding"]
    given = {k: sharding.pop(k, {}) for k in ("params", "optimizer_state")}
    shapes = {t["name"]: t["shape"] for t in traffic.report(options.stepc, o | {"sharding": sharding | {"params": {}}}, folder)["tensors"] if t["role"] == "param"}
    parts = lambda axes: math.prod(d.mesh[a] for a in ([axes] if isinstance(axes, str) else axes or []))
    for key, patterns in given.items():
        specs = {k: d.split(s, list(d.mesh)) if at_random else spec_of(patterns, k) for k, s in shapes.items()}
        sharding[key] = {k: s if all(n % parts(a) == 0 for n, a in zip(shapes[k], s)) else [] for k, s in specs.items()}
        if not patterns and not at_random:
            del sharding[key]
    return o, shapes


def trained(options, o, folder, name):
    path = os.path.join(folder, name)
    with open(path + ".json", "w") as f:
        json.dump(o, f)
    for arguments in (["compile", path + ".json", "-q", "-o", path + ".so"],
                      ["run", path + ".so", "-q", "--steps", str(STEPS), "--data", os.path.join(folder, "data.safetensors"), "--save", path + ".safetensors"]):
        done = subprocess.run([options.stepc] + arguments, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(done.stderr[-800:])
    return {k: np.frombuffer(bytes(t.data), "f4") for k, t in safetensors.raw(path + ".safetensors").items() if t.dtype == "F32"}


def numbers(options, seed):
    with tempfile.TemporaryDirectory(prefix="stepc-layouts-") as folder:
        o, _ = drawn(options, seed, folder)
        o["optimizer"] = {"type": "sgd", "learning_rate": RATE}
        o["sharding"].pop("optimizer_state", None)
        r = np.random.default_rng(seed)
        draw = lambda i: r.integers(0, 16, [STEPS] + i["shape"]).astype("i4") if i["dtype"] == "int32" else r.normal(size=[STEPS] + i["shape"]).astype("f4")
        safetensors.write(os.path.join(folder, "data.safetensors"), {k: draw(i) for k, i in o["inputs"].items()})
        said = json.dumps({k: o[k] for k in ("mesh", "sharding", "model", "loss")})
        try:
            got, want = trained(options, o, folder, "mesh"), trained(options, o | {"mesh": {"axes": {a: 1 for a in o["mesh"]["axes"]}}}, folder, "alone")
            for k in want:
                comparison.agree(k, got[k], want[k], 1e-3, 1e-5 + 1e-4 * np.abs(want[k]).max())
        except RuntimeError as e:
            return "fails", str(e), said
        except comparison.Differs as e:
            command.keep(options, "layouts_%d.json" % seed, json.dumps(o))
            return "differs", str(e), said
    return "agrees", "", said


def beside_xla(options):
    """All at once: JAX starts slowly. Exit code."""
    with tempfile.TemporaryDirectory(prefix="stepc-layouts-") as folder:
        reports, wanted = {}, []
        for seed in range(options.seed, options.seed + options.cases):
            o, shapes = drawn(options, seed, folder)
            reports[o["name"]] = traffic.sent(traffic.report(options.stepc, o, folder))[0], o
            wanted.append({"document": o, "parameters": shapes})
    there = subprocess.run([options.jax, os.path.join(traffic.HERE, "traffic_xla.py")], input=json.dumps({"programs": wanted}), stdout=subprocess.PIPE, text=True, check=True)
    theirs, more, ratios = json.loads(there.stdout), 0, []
    for name, (ours, o) in reports.items():
        ring = theirs[name]["ring"]
        ratios += [ours / ring] if ring else []
        if ours > traffic.MOST * ring:
            more += 1
            command.keep(options, name + ".json", json.dumps(o))
            print("%s: %d bytes, XLA %d: %.2f\n    %s" % (name, ours, ring, ours / max(ring, 1), json.dumps({k: o[k] for k in ("mesh", "sharding", "model")})))
    print("%d programs, %d send more; median %.2f, most %.2f of XLA's bytes" % (len(reports), more, np.median(ratios or [0]), max(ratios, default=0)))
    return 1 if more else 0


def main():
    p = command.parser(__doc__, 20)
    p.add_argument("--jax", metavar="PYTHON")
    options = command.options(p)
    return beside_xla(options) if options.jax else command.loop(options, numbers)


if __name__ == "__main__":
    sys.exit(main())
