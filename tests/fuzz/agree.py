#!/usr/bin/env python3
"""Random valid documents, drawn from the tables that `stepc doc schema` prints, trained for a few steps in several ways: by
the interpreter; by objects: optimised, with the optimisations of LLVM left out (-O0), with the passes that can be left out left out, too;
some of them on several devices, where the interpreter has one; by the interpreter with other microbatches. Batches are worked
through at once, in microbatches, by examples, or in both. All must agree in every metric, parameter and state. Where a change of
the data in the last bits changes a result more than the tolerance, the case says nothing of it and is counted as unsettled.

    tests/fuzz/agree.py --stepc build/stepc --cases 200 --seed 7 --keep disagreeing
    tests/fuzz/agree.py --stepc build/stepc --cases 200 --seed 7 --quickly        one object of each document, drawn: most time goes into LLVM
    tests/fuzz/agree.py --stepc build/stepc --cases 200 --quickly --compile-args "--target cuda --cuda-arch text"   on the stand-in of the driver
    tests/fuzz/agree.py --stepc build/stepc --control                            a planted difference must be noticed

It needs numpy alone. A document that stepc refuses is drawn again; too many of those are a failure too.
"""
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import sharded
from tool import command, comparison, draws, runner, safetensors

STEPS, BATCH, RTOL, ATOL = 2, 6, 2e-3, 2e-4
OBJECTS = {"optimised": [], "unoptimised": ["-O0", "--disable", "outline,ghost,simplify,outline_more"], "by half": ["-O0"]}
# A last bit of a gradient decides what these do (signs, ranks, searches), or they want a document of their own.
NOT_DRAWN = ("sign", "lion", "rprop", "linesearch", "lbfgs", "custom", "per_example", "differentially", "dpsgd", "sam", "galore", "prodigy", "momo", "dog", "mechan",
             "sophia", "hutchinson", "hessian", "polyak", "plateau", "dowg", "cocob", "dadapt", "sparsify", "normalized", "schedule_free", "multi", "partition", "masked",
             "mask", "condition", "maybe", "finite", "flatten", "inject", "lookahead", "chain", "selective", "split", "snapshot", "monitor", "noise", "noisy",
             "skip", "apply_every", "centralize", "muon", "orthogonal", "amos", "stateless", "keep_params", "learning_rate_free", "schedule", "trust", "set_to_zero")


# ---------------------------------------------------------------- drawing

class Draw:
    def __init__(self, schema, seed):
        self.defs, self.random, self.used = schema["$defs"], random.Random(seed), collections.Counter()

    def types(self, of):
        return sorted(k[len(of) + 1:] for k in self.defs if k.startswith(of + "."))

    def number(self, s, default):
        """A number near the default and within the range of the table."""
        low, high = s.get("minimum", s.get("exclusiveMinimum")), s.get("maximum", s.get("exclusiveMaximum"))
        base = default if isinstance(default, (int, float)) and default else 0.25
        if s["type"] == "integer":
            return max(1, int(base) + self.random.choice((-1, 0, 1)))
        value = base * self.random.uniform(0.5, 1.1)
        if high is not None:
            value = min(value, 0.95 * high)
        return round(max(value, low or -1e9), 6) or base

    def value(self, s):
        """A value for an argument with this schema; None: it stays as it is."""
        default = s.get("default")
        for option in [s] + s.get("anyOf", []) + [o for a in s.get("anyOf", []) for o in a.get("anyOf", [])]:
            if "enum" in option:
                return self.random.choice(option["enum"])
            if option.get("type") == "boolean":
                return self.random.random() < 0.5
            if option.get("type") in ("number", "integer") and "learning" not in str(s):
                return self.number(option, default)
            if option.get("$ref") == "#/$defs/initializer":
                fans = ("lecun_normal", "glorot_uniform", "he_normal") if "fan" in str(default) or "lecun" in str(default) else ()
                return {"type": self.random.choice(("zeros", "ones", "normal") + fans)}
        return None

    def optional(self, o, table, kind, chance, leave):
        """Some of the arguments that may be left out."""
        schema = self.defs["%s.%s" % (table, kind)]
        for name, s in sorted(schema["properties"].items()):
            if name in o or name in leave or name in schema["required"] or self.random.random() > chance:
                continue
            value = self.value(s)
            if value is not None:
                o[name] = value
        return o

    # Shapes go along: the block, and what it makes of [batch, ...].

    def activation(self):
        leave_out = {"glu", "one_hot", "hard_tanh", "sparse_plus", "sparse_sigmoid", "standardize", "logmeanexp", "logsumexp"}
        return {"type": self.random.choice([t for t in self.types("activation") if t not in leave_out])}

    def inner(self, width):
        return {"type": "sequential", "layers": [{"type": "linear", "features": width}, self.activation()]}

    def block(self, kind, shape, width):
        """Blocks of blocks."""
        r, rank = self.random, len(shape)
        wide = shape[:-1] + [width]
        if kind == "graph":
            nodes = [{"type": "linear", "name": "a", "features": width, "input": "x"}, {**self.activation(), "name": "b", "input": "a * 0.5"}]
            return {"type": "graph", "nodes": nodes, "output": r.choice(("a + b", "a * b - b", "where(a > b, a, b)"))}, wide
        if kind == "define":
            self.define["of_width"] = {"params": {"width": 2}, "body": {"type": "sequential", "layers": [{"type": "linear", "features": "$width"}, self.activation()]}}
            return {"type": "of_width", "width": width}, wide
        if kind == "shared":
            self.shared += 1
            name = "once%d" % self.shared
            return {"type": "graph", "nodes": [{"type": "linear", "name": name, "features": shape[-1], "input": "x"}, {"type": "shared", "name": "again", "block": name, "input": "tanh(%s)" % name}],
                    "output": "again"}, shape
        if kind == "embed":
            self.ids = True
            return {"type": "graph", "nodes": [{"type": "embed", "name": "table", "num_embeddings": 3, "features": shape[-1], "input": "ids"}],
                    "output": "x + table[:%s]" % (", None" * (rank - 1) + ", :")}, shape
        if kind == "micro_vmap":
            sizes = [n for n in range(1, self.rows + 1) if self.rows % n == 0]
            return {"type": kind, "block": self.inner(width), **({"microbatch_size": r.choice(sizes)} if r.random() < 0.8 else {})}, wide
        if kind == "einsum":
            return {"type": kind, "einsum_str": "n%sa,ab->n%sb" % (("tuv"[:rank - 1],) * 2), "kernel_shape": [shape[-1], width], **({"bias_shape": [width]} if r.random() < 0.5 else {})}, wide
        if kind in ("lora", "lora_linear"):
            return ({"type": kind, "lora_rank": 2, "base_module": {"type": "linear", "features": width}} if kind == "lora" else {"type": kind, "features": width, "lora_rank": 1}), wide
        if kind in ("weight_norm", "spectral_norm"):
            return {"type": kind, "layer_instance": {"type": "linear", "features": width}}, wide
        if kind == "bidirectional":
            cell = lambda: {"type": "rnn", "cell": {"type": r.choice(("lstm_cell", "gru_cell", "simple_cell")), "hidden_features": width}}
            return {"type": kind, "forward_rnn": cell(), "backward_rnn": cell()}, [shape[0], 2 * width]
        return {"type": "graph", "nodes": [{"type": "noise", "name": "drawn", "input": "x"}], "output": "x + 0.1 * drawn"}, shape

    def layer(self, shape):
        r, rank = self.random, len(shape)
        width = r.choice((2, 3, 4, 5))
        kinds = ["linear", "activation", "layer_norm", "rms_norm", "batch_norm", "dropout", "prelu", "residual", "expr", "linear_general", "repeat", "remat"]
        if rank == 2:
            kinds += ["multi_head_attention", "rnn", "instance_norm", "conv"]
        if rank == 3:
            kinds += ["conv", "avg_pool", "max_pool", "group_norm", "conv_transpose", "conv"]
        blocks = ["graph", "define", "shared", "embed", "micro_vmap", "einsum", "lora", "lora_linear", "weight_norm", "spectral_norm", "noise"] + ["bidirectional"] * (rank == 2)
        if self.rows == 1:
            kinds.remove("batch_norm")
        kind = r.choice(kinds if r.random() < 0.6 else blocks)
        self.used[kind] += 1
        if kind in blocks:
            return self.block(kind, shape, width)
        if kind == "activation":
            return self.activation(), shape
        if kind == "expr":
            return {"type": "expr", "expr": r.choice(("x * sigmoid(1.7 * x)", "x - mean(x, axis=-1, keepdims=True)", "tanh(x) + 0.1 * x**2", "where(x > 0, x, 0.2 * x)",
                                                     "concatenate([x, -x], axis=-1)[..., :x.shape[-1]]", "x / (1 + abs(x))"))}, shape
        if kind in ("residual", "remat", "repeat"):
            inner = [{"type": "linear", "features": shape[-1]}, self.activation()]
            return {"residual": {"type": "residual", "layers": inner}, "remat": {"type": "remat", "block": {"type": "sequential", "layers": inner}},
                    "repeat": {"type": "repeat", "count": r.choice((1, 2, 3)), "block": {"type": "residual", "layers": inner}}}[kind], shape
        if kind == "linear":
            return self.optional({"type": kind, "features": width}, "block", kind, 0.3, {"dtype", "param_dtype", "in_features"}), shape[:-1] + [width]
        if kind == "linear_general":
            return {"type": kind, "features": width, "use_bias": r.random() < 0.5}, shape[:-1] + [width]
        if kind in ("layer_norm", "rms_norm", "batch_norm", "instance_norm"):
            return self.optional({"type": kind}, "block", kind, 0.3, {"dtype", "param_dtype", "use_fast_variance"}), shape
        if kind == "group_norm":
            return {"type": kind, "num_groups": r.choice([g for g in (1, 2, 3, 4, 5) if shape[-1] % g == 0])}, shape
        if kind == "dropout":
            return {"type": kind, "rate": r.choice((0.0, 0.1, 0.5))}, shape
        if kind == "prelu":
            return {"type": kind}, shape
        if kind == "multi_head_attention":
            heads = r.choice([h for h in (1, 2, 3, 4, 5) if shape[-1] % h == 0])
            return {"type": kind, "num_heads": heads, "is_causal": r.random() < 0.5, "use_bias": r.random() < 0.5}, shape
        if kind == "rnn":
            cell = r.choice(("lstm_cell", "gru_cell", "simple_cell", "optimized_lstm_cell"))
            return {"type": kind, "cell": {"type": cell, "hidden_features": width}, "reverse": r.random() < 0.5}, [shape[0], width]
        if kind == "conv":
            stride = r.choice((1, 1, 2))
            return ({"type": kind, "features": width, "kernel_size": [2 if s > 1 else 1 for s in shape[:-1]], "strides": stride, "padding": "SAME", "use_bias": r.random() < 0.7},
                    [-(-s // stride) for s in shape[:-1]] + [width])
        if kind == "conv_transpose":
            return {"type": kind, "features": width, "kernel_size": [2] * (rank - 1), "padding": "SAME"}, shape[:-1] + [width]
        return {"type": kind, "window_shape": [2] * (rank - 1), "padding": "SAME"}, shape  # pooling

    def optimizer(self):
        names = [t for t in self.types("optimizer") if not any(n in t for n in NOT_DRAWN)]
        kind = self.random.choice(names)
        self.used["optimizer " + kind] += 1
        schema, o = self.defs["optimizer." + kind], {"type": kind}
        for name in schema["required"]:
            if name != "type":
                o[name] = 0.01 if "learning_rate" in name or "step_size" in name else self.value(schema["properties"][name])
        if "learning_rate" in o and self.random.random() < 0.3:
            o["learning_rate"] = {"type": "linear_schedule", "init_value": 0.01, "end_value": 0.001, "transition_steps": 3}
        if self.random.random() < 0.3:
            for name in ("momentum", "nesterov", "weight_decay", "b1"):
                value = self.value(schema["properties"][name]) if name in schema["properties"] else None
                if value is not None:
                    o[name] = value
        if kind.startswith(("scale", "trace", "ema", "add", "clip", "adaptive", "identity", "bias")):
            return {"type": "chain", "transforms": [o, {"type": "scale", "step_size": -0.01}]}
        return {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, o]} if self.random.random() < 0.3 else o

    def parts(self, document):
        """How the batch is worked through; the rows that the model sees at once."""
        r, how = self.random, self.random.random()
        if how < 0.35:
            document["accumulate"] = {"microbatch_size": r.choice((1, 2, 3, 6)), "split": r.choice(("strided", "contiguous"))}
            document["accumulate"]["accumulator"] = r.choice(("sum", "mean", "running_mean"))
            if r.random() < 0.3:
                document["accumulate"]["num_real_microbatches"] = r.choice((1, 2, "1 + (sum(x) > 30)"))
            self.rows = document["accumulate"]["microbatch_size"]
        if how < 0.1 or 0.35 < how < 0.55:
            sizes = [n for n in range(1, self.rows + 1) if self.rows % n == 0]
            document["per_example"] = {"microbatch_size": r.choice(sizes), "accumulator": r.choice(("sum", "mean", "running_mean")), "transform": r.choice((
                [], [{"type": "clip_by_global_norm", "max_norm": 0.5}], [{"type": "clip", "max_delta": 0.1}, "update + 0.01 * param"], [{"type": "normalize_by_update_norm"}])),
                "metrics": r.choice(({}, {"each": "per_param_norm"}, {"each": "loss", "all": {"expr": "global_norm(grads)", "accumulator": "mean"}}))}
            self.rows = 1
        self.used.update(k for k in ("accumulate", "per_example") if k in document)

    def document(self):
        r = self.random
        self.define, self.shared, self.ids, self.rows = {}, 0, False, BATCH
        shape = r.choice(([4], [5], [3, 4], [5, 4], [4, 4, 2], [5, 3, 3]))
        document = {"stepc": 1, "name": "drawn", "inputs": {"x": {"shape": [BATCH, *shape], "axes": ["batch"] + [None] * len(shape)}}}
        self.parts(document)
        layers, at = [], list(shape)
        for _ in range(r.randint(1, 5)):
            layer, at = self.layer(at)
            layers.append(layer)
        layers.append({"type": "linear", "features": 3})
        at = at[:-1] + [3]
        document["model"] = {"type": "sequential", "input": "x", "layers": layers}
        labels = r.random() < 0.4
        document["inputs"]["y"] = {"shape": [BATCH, *(at[:-1] if labels else at)], "dtype": "int32" if labels else "float32"}
        losses = ["softmax_cross_entropy_with_integer_labels"] if labels else ["squared_error", "l2_loss", "huber_loss", "log_cosh", "sigmoid_binary_cross_entropy",
                                                                                "softmax_cross_entropy", "cosine_distance", "hinge_loss", "kl_divergence"]
        kind = r.choice(losses)
        names = list(self.defs["loss." + kind]["properties"])
        document["loss"] = {"type": kind, names[0]: "model", names[1]: "y", "reduction": r.choice(("mean", "sum")) if labels else "mean"}
        document["metrics"] = {"norm": "global_norm(grads)", "largest": "max(abs(model))"}
        document["optimizer"] = self.optimizer()
        if r.random() < 0.15:
            document["optimizer"] = {"type": "multi_steps", "opt": document["optimizer"], "every_k_schedule": r.choice((1, 2))}
        if r.random() < 0.15:
            document["precision"] = {"loss_scale": r.choice(({"type": "static", "scale": 256}, {"type": "dynamic_scale", "scale": 1024, "growth_interval": 1}))}
        if r.random() < 0.15:
            document.setdefault("precision", {}).update({key: r.choice(("bfloat16", "float16")) for key in r.choice((["compute"], ["params"], ["params", "compute"], ["gradients"], ["compute", "gradients"]))})
        if r.random() < 0.15:
            document["adapters"] = [{"type": "lora", "rank": 1, "match": ["**"]}]
            document["trainable"] = r.choice((["**"], ["@lora"]))
        if self.ids:
            document["inputs"]["ids"] = {"shape": [BATCH], "dtype": "int32", "axes": ["batch"]}
        if self.define:
            document["define"] = self.define
        if r.random() < 0.3:
            document["ema"] = {"decay": 0.9}
        document["inputs"]["y"]["axes"] = ["batch"] + [None] * (len(document["inputs"]["y"]["shape"]) - 1)
        document["seed"] = r.randrange(1000)
        return document


# ---------------------------------------------------------------- playing

def data(document, seed, change=0.0):
    generator, out = np.random.default_rng(seed), {}
    for name, i in document["inputs"].items():
        shape = [STEPS, *i["shape"]]
        scale = 1 + change * np.random.default_rng(0).uniform(-1, 1, shape)
        out[name] = generator.integers(0, 3, shape).astype("<i4") if i.get("dtype") == "int32" else (scale * generator.uniform(0.1, 1.0, shape)).astype("<f4")
    return out


def results(stepc, folder, program, file="data.safetensors"):
    try:
        tensors, lines = runner.train(stepc, folder, STEPS, program, file, ["--all-state"], threads=None, timeout=600)
    except runner.Failed as e:
        raise RuntimeError(e.brief()) from e
    return {**tensors, **{"%s at step %d" % (name, n + 1): np.atleast_1d(comparison.numbers(value)) for n, line in enumerate(lines) for name, value in line.items()}}


def differences(a, b, looser=1):
    """Tensors that differ, with how far: against the largest element of the tensor, as cancellation leaves no more."""
    if a.keys() != b.keys():
        return [("", "not the same tensors: " + ", ".join(sorted(a.keys() ^ b.keys())))]
    bad = []
    for name in sorted(a):
        x, y = a[name], b[name]
        finite = np.isfinite(x) & np.isfinite(y)
        largest = np.max(np.abs(x[finite]), initial=0.0)
        with np.errstate(invalid="ignore"):
            wrong = np.where(finite, np.abs(x - y) > looser * (ATOL + RTOL * largest), ~((x == y) | (np.isnan(x) & np.isnan(y))))
        if wrong.any():
            at = int(np.argmax(wrong))
            bad.append((name, "%s[%d]: %.9g and %.9g" % (name, at, x.flat[at], y.flat[at])))
    return bad


def moved(a, b):
    """How far two tensors are apart."""
    with np.errstate(invalid="ignore"):
        return np.max(np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf)), initial=0.0)


def other_parts(document, r):
    """The document with its batch in other parts that give the same numbers; None: this one has none. What couples rows of a microbatch, or
    goes from one to the next, is another number; so are metrics that are no means of the parts', and 16-bit roundings of them."""
    text, o = json.dumps(document), json.loads(json.dumps(document))
    if "per_example" in o:
        rows = o["accumulate"]["microbatch_size"] if "accumulate" in o else BATCH
        o["per_example"]["microbatch_size"] = r.choice([n for n in range(1, rows + 1) if rows % n == 0 and n != o["per_example"]["microbatch_size"]] or [rows])
        return o if rows > 1 else None
    if re.search("batch_norm|weight_norm|spectral_norm|micro_vmap|float16|dynamic_scale|num_real", text):
        return None
    mean = document["loss"]["reduction"]
    if o.get("accumulate", {}).get("accumulator", mean).split("_")[-1] != mean:
        return None
    o["accumulate"] = {"microbatch_size": r.choice((1, 2, 3, 6)), "split": r.choice(("strided", "contiguous")), "accumulator": "sum" if mean == "sum" else r.choice(("mean", "running_mean"))}
    return o


def shaken(stepc, folder, r, rounding):
    """Initial parameters, each a little beside what it is, by no more than a rounding of what the step computes in:
    init.safetensors, which `train` takes."""
    at = lambda name: os.path.join(folder, name)
    if os.path.exists(at("init.safetensors")):
        os.remove(at("init.safetensors"))
    runner.call(stepc, "run", at("plain.json"), "--steps", "0", "--data", at("data.safetensors"), "--save", at("init.safetensors"), "-q")
    around = np.random.default_rng(r.randrange(1 << 30))

    def beside(t):
        value = safetensors.array(t)
        value = (value + (1e-6 + rounding * np.abs(value)) * around.uniform(-1, 1, t.shape)).astype("<f4")
        return safetensors.of_array(value) if t.dtype == "F32" else safetensors.bfloat16(value) if t.dtype == "BF16" else safetensors.of_array(value.astype("<f2"))

    safetensors.write(at("init.safetensors"), {name: beside(t) if t.dtype in ("F32", "F16", "BF16") else t for name, t in safetensors.raw(at("init.safetensors")).items()})


def play(options, document, folder, seed):
    runner.write_document(folder, document, data(document, seed))
    shutil.copy(os.path.join(folder, "model.json"), os.path.join(folder, "plain.json"))
    d, r = draws.Draws(seed), random.Random(seed)
    if d.chance(0.3):
        said = runner.call(options.stepc, "explain", os.path.join(folder, "model.json"), "--state", "--color", "never")
        shapes = {name: [int(n) for n in dims.split(",") if n] for name, dims in re.findall(r"(\S+) +\w+\[([\d, ]*)\] .* param$", said, re.M)}
        runner.write_json(os.path.join(folder, "model.json"), sharded.on_a_mesh(document, shapes, d))
    ways = r.choices(("optimised", "by half", "unoptimised"), (1, 2, 1)) if options.quickly else ["optimised", "unoptimised"]
    for way in ways:
        runner.compile_document(options.stepc, folder, OBJECTS[way] + options.compile_args.split(), way + ".so", 600)
    parts = other_parts(document, r)
    if parts:
        runner.write_json(os.path.join(folder, "parts.json"), parts)
    first = ways[0]
    got = {run: results(options.stepc, folder, program) for run, program in
           [("interpreted", "plain.json"), *((way, way + ".so") for way in ways), *([("in other parts", "parts.json")] if parts else [])]}
    if options.control:
        planted = sorted(got[first])[0]
        got[first][planted] = got[first][planted] * 1.01 + 0.01
    if parts:  # the largest element is no mean; what examples say comes in the order of the batch
        got["in other parts"] = {name: v if "largest" not in name else got["interpreted"].get(name, v) for name, v in got["in other parts"].items()}
    # Sums of 16-bit numbers are rounded part by part, on devices that split them and in microbatches.
    looser, rounding = next(((15, e) for name, e in (("bfloat16", 2.0**-8), ("float16", 2.0**-11)) if '"%s"' % name in json.dumps(document)), (1, 0.0))
    pairs = [(first, other) for other in ("interpreted", *ways[1:])] + ([("interpreted", "in other parts")] if parts else [])
    bad = [(name, "%s and %s: %s" % (one, other, d), moved(got[one][name], got[other][name]) if name else np.inf)
           for one, other in pairs for name, d in differences(got[one], got[other], looser)]
    loose, explained, seen = set(), set(), {run: [got[run]] for run in (first, "interpreted")}
    changes = (3e-7, -3e-7, 2e-6, *((1e-3, -1e-3) if looser > 1 else ())) if bad and not options.control else ()
    shakes = [0.0] * 3 + [rounding] * 3 * (looser > 1)
    for change, shake in [(c, None) for c in changes] + [(0, s) for s in shakes if changes]:
        safetensors.write(os.path.join(folder, "changed.safetensors"), data(document, seed, change))
        if shake is not None:  # what is behind a factor of 0 does not see the data
            shaken(options.stepc, folder, r, shake)
        for run, program in (first, first + ".so"), ("interpreted", "plain.json"):  # where one is NaN for all of them, the other may tell
            other = results(options.stepc, folder, program, "changed.safetensors")
            loose |= {name for name, _ in differences(got[run], other, looser)} if not shake else set()
            # a few directions of many: what roundings move by half as far may be as far apart
            explained |= {d for name, d, far in bad if name in other and any(moved(one[name], other[name]) >= far / 2 for one in seen[run])}
            seen[run].append(other)
    if bad and '"float16"' in json.dumps(document) and not all(np.isfinite(v).all() for v in got["interpreted"].values()):
        loose |= {name for name, _, _ in bad}  # a sum overflows, or inf - inf comes of it, by the order of its terms
    if any(" at step " in name for name in loose):  # what comes after it is as loose
        loose |= {name for name, _, _ in bad}
    return [d for name, d, _ in bad if name not in loose and d not in explained], bool(bad)


def case(options, schema, seed):
    refused = []
    for attempt in range(8):
        draw = Draw(schema, seed * 1000 + attempt)
        document = draw.document()
        with tempfile.TemporaryDirectory(prefix="stepc-agree-") as folder:
            try:
                bad, unsettled = play(options, document, folder, seed)
            except runner.Failed as e:
                if e.refused:
                    refused.append(e.said)
                    continue
                bad, unsettled = [e.brief()], False
            except RuntimeError as e:
                bad, unsettled = [str(e)], False
            if bad and options.keep:
                shutil.copytree(folder, os.path.join(options.keep, "seed%d" % seed), dirs_exist_ok=True)
            return seed, document, bad, unsettled and not bad, refused, draw.used
    return seed, None, ["refused every time"], False, refused, collections.Counter()


def main():
    p = command.parser(__doc__, 60)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("-j", type=int, default=os.cpu_count() or 1)
    p.add_argument("--quickly", action="store_true", help="one object of each document")
    p.add_argument("--compile-args", default="", help="of all objects")
    p.add_argument("--control", action="store_true", help="one case, one number of which is changed")
    options = p.parse_args()
    options.cases = 1 if options.control else options.cases
    options.stepc = runner.Server.of(options.stepc)
    schema = json.loads(runner.call(options.stepc, "doc", "schema"))
    failed, unsettled, refused, used = 0, 0, [], collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for seed, document, bad, loose, refusals, kinds in pool.map(lambda n: case(options, schema, options.seed * 100000 + n), range(options.cases)):
            used += kinds
            refused += refusals
            failed += bool(bad)
            unsettled += loose
            if bad:
                print("seed %d: %s%s" % (seed, "; ".join(bad[:3]), " (and %d more)" % (len(bad) - 3) if len(bad) > 3 else ""), flush=True)
                if not options.keep:
                    print(json.dumps(document))
    if options.control:
        print("the planted difference was %snoticed" % ("" if failed else "not "))
        return not failed
    if options.v:
        print(dict(used))
        print("\n".join(sorted({r.split("\n")[0] for r in refused})))
    print("%d documents, %d disagree, %d unsettled; %d more were refused; %d kinds of layers and optimizers" % (options.cases, failed, unsettled, len(refused), len(used)))
    return 1 if failed or max(len(refused), 2 * unsettled) > options.cases / 2 else 0


if __name__ == "__main__":
    sys.exit(main())
