#!/usr/bin/env python3
"""Random accumulation, gradients of single examples and micro_vmap against JAX: documents with small models, losses,
metrics, numbers of real microbatches, weights, optimizers and averages, run by stepc and by an interpreter of such documents
in JAX that follows optax.microbatching.

    tests/fuzz/microbatches.py --stepc build/stepc --cases 100 [--seed 0] [--compile 0.3]

It needs JAX and Optax 0.2.8, and so is none of the tests that always run. A case that disagrees is left as a recorded
case under --keep.
"""
import argparse
import collections
import json
import os
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import numpy as np
import optax

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import optim_reference
import sharded
from tool import command, comparison, draws, recorded, runner

RTOL, ATOL = 2e-5, 3e-6
SEARCHES = False  # optimizers that want the loss elsewhere alone


# ---------------------------------------------------------------- expressions

class Tree(dict):
    """Values by path; attributes are segments."""
    def __getattr__(self, name):
        inside = {k[len(name) + 1:]: v for k, v in self.items() if k.startswith(name + ".")}
        return inside[""] if "" in inside else self[name] if name in self else Tree(inside)


def over_leaves(f):
    return lambda x, *rest: Tree({k: f(v, *rest) for k, v in x.items()}) if isinstance(x, Tree) else f(x, *rest)


def expected_labels(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


FUNCTIONS = {name: getattr(jnp, name) for name in ("mean", "sum", "sqrt", "sin", "cos", "tanh", "exp", "var", "where", "maximum", "minimum", "max", "min", "argmax",
                                                   "cumsum", "sort", "outer", "std", "concatenate", "reshape", "isfinite", "logical_and")}
FUNCTIONS |= {"abs": jnp.abs, "softmax": jax.nn.softmax, "softmax_cross_entropy_with_integer_labels": expected_labels,
              "global_norm": lambda t: jnp.sqrt(sum(jnp.sum(v * v) for v in t.values())), "stop_gradient": jax.lax.stop_gradient}


def evaluate(text, names):
    return eval(text, dict(FUNCTIONS), names) if isinstance(text, str) else text


# ---------------------------------------------------------------- the model

class Context:
    def __init__(self, names, params, stats, make=None):
        self.names, self.params, self.stats, self.make = names, params, dict(stats), make

    def parameter(self, path, shape, scale=1.0, statistic=False, one=False):
        into = self.stats if statistic else self.params
        if path not in into:  # the first tracing, which makes them
            into[path] = np.asarray((1.0 if one else 0.0) + scale * self.make.normal(size=shape) / max(1, shape[0] if shape else 1) ** 0.5, np.float32)
        return into[path]


def join(path, name):
    return path + "." + name if path and name else path or name


def block(c, o, path, x):
    kind = o["type"]
    at = join(path, o["name"]) if "name" in o else path
    x = evaluate(o["input"], c.names if x is None else {**c.names, "x": x}) if "input" in o else x
    if kind == "sequential":
        for layer in o["layers"]:
            x = block(c, layer, at, x)
        return x
    if kind == "linear":
        w, b = c.parameter(at + ".kernel", (x.shape[-1], o["features"])), c.parameter(at + ".bias", (o["features"],), 0.1)
        return x @ w + b
    if kind == "embed":
        return c.parameter(at + ".embedding", (o["num_embeddings"], o["features"]), 2)[x]
    if kind == "layer_norm":
        m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - m) * (jax.lax.rsqrt(v + 1e-6) * c.parameter(at + ".scale", (x.shape[-1],), 0.1, one=True)) + c.parameter(at + ".bias", (x.shape[-1],), 0.1)
    if kind == "batch_norm":
        over = tuple(range(x.ndim - 1))
        scale, bias = c.parameter(at + ".scale", (x.shape[-1],), 0.1, one=True), c.parameter(at + ".bias", (x.shape[-1],), 0.1)
        mean, var = c.parameter(at + ".mean", (x.shape[-1],), 0.1, True), c.parameter(at + ".var", (x.shape[-1],), 0.01, True, True)
        m = x.mean(over)
        v = jnp.maximum(0, (x * x).mean(over) - m * m)
        r = o["momentum"]
        c.stats[at + ".mean"], c.stats[at + ".var"] = jax.lax.stop_gradient(r * mean + (1 - r) * m), jax.lax.stop_gradient(r * var + (1 - r) * v)
        return (x - m) * (jax.lax.rsqrt(v + 1e-5) * scale) + bias
    if kind == "tanh":
        return jnp.tanh(x)
    if kind == "expr":
        return evaluate(o["expr"], {**c.names, "x": x})
    if kind == "param":
        return c.parameter(at, tuple(o["shape"]))
    if kind == "remat":
        return block(c, o["block"], at, x)
    if kind == "micro_vmap":
        return micro_vmap(c, o, at, x)
    raise KeyError(kind)


def micro_vmap(c, o, path, x):
    size, how = o.get("microbatch_size") or x.shape[0], o.get("accumulator", "concat")
    real = evaluate(o.get("num_real_microbatches"), c.names)
    block(c, o["block"], path, x[0])  # makes the parameters
    rows = lambda _, part, i: (0, {"y": aggregate(jax.vmap(lambda row: block(c, o["block"], path, row))(part["x"]), how)})
    return loop(rows, 0, {"x": x}, x.shape[0], size, "strided", real, {"y": how})[1]["y"]


# ---------------------------------------------------------------- microbatches

def aggregate(values, how):
    return values if how == "concat" else values.sum(0) if how == "sum" else values.mean(0)


def loop(function, carry, batches, rows, size, split, real, kinds):
    """function(carry, part, i) -> (carry, results) over the microbatches: the last carry and the accumulated results."""
    count = rows // size
    real = count if real is None else jnp.minimum(real, count)
    numbers = np.arange(rows).reshape(count, size) if split == "contiguous" else np.arange(rows).reshape(size, count).T
    part = lambda i: {k: v[jnp.asarray(numbers)[i]] for k, v in batches.items()}
    shapes = jax.eval_shape(lambda: function(carry, part(0), 0)[1])
    start = {k: jnp.zeros((count, *v.shape) if kinds[k] == "concat" else v.shape, v.dtype) for k, v in shapes.items()}

    def body(state, i):
        old, sums = state
        new, results = function(old, part(i), i)
        p = i / (i + 1)
        add = {"sum": lambda s, v: s + v, "mean": lambda s, v: s + v, "running_mean": lambda s, v: (s * p + v * (1 - p)).astype(s.dtype), "concat": lambda s, v: s.at[i].set(v)}
        sums_now = {k: add[kinds[k]](sums[k], v) for k, v in results.items()}
        keep = lambda a, b: jax.tree.map(lambda x, y: jnp.where(i < real, x, y), a, b)
        return (keep(new, old), keep(sums_now, sums)), None

    (carry, sums), _ = jax.lax.scan(body, (carry, start), jnp.arange(count))
    out = {}
    for k, v in sums.items():
        if kinds[k] == "mean":
            v = v / count
        elif kinds[k] == "concat":
            ordered = v.reshape(count, 1, *v.shape[1:]) if v.ndim == 1 else v  # of numbers: one of each microbatch
            v = ordered.reshape(-1, *ordered.shape[2:], order="F" if split == "strided" else "C")
        out[k] = v
    return carry, out


class Step:
    """What a document's step computes, over dicts by path."""
    def __init__(self, document):
        self.d = document
        self.batched = [k for k, v in document["inputs"].items() if v["shape"] and v.get("axes", ["batch"])[0] == "batch"]
        self.rows = document["inputs"][self.batched[0]]["shape"][0]
        self.metrics = document.get("metrics", {})
        self.late = {k for k, v in self.metrics.items() if any(n in v for n in ("grads", "updates", "loss_scale"))}
        patterns = document.get("trainable", ["**"])
        self.trained = lambda p: {k: v for k, v in p.items() if any(optim_reference.match(x, k) for x in patterns)}
        self.setting = document.get("precision", {}).get("loss_scale")

    def value(self, p, stats, inputs):
        c = Context({**inputs, "params": Tree(p)}, p, stats)
        names = {**c.names, "model": block(c, self.d["model"], "", None)}
        names["loss"] = evaluate(self.d["loss"], names)
        return names["loss"], (names, c.stats)

    def gradient(self, p, stats, inputs, scale):
        """Loss, names, statistics, unscaled gradients of the trained parameters."""
        def scaled(t):
            value, rest = self.value({**p, **t}, stats, inputs)
            return value * scale, (value, *rest)
        g, (value, names, stats) = jax.grad(scaled, has_aux=True)(self.trained(p))
        return value, {**names, "params": Tree(p)}, stats, {k: v / scale for k, v in g.items()}

    def whole(self, p, stats, inputs, scale, clip):
        value, names, stats, g = self.gradient(p, stats, inputs, scale)
        out = {"loss": value, **{"m:" + k: evaluate(v, names) for k, v in self.metrics.items() if k not in self.late}, **{"g:" + k: v for k, v in g.items()}}
        return stats, out, names

    def examples(self, p, stats, inputs, scale, clip):
        o = self.d.get("per_example", {})
        rows = inputs[self.batched[0]].shape[0]
        size = o.get("microbatch_size") or (rows if "per_example" in self.d else next(s for s in range(16, 0, -1) if rows % s == 0))
        kind = o.get("accumulator", "sum") if "per_example" in self.d else "mean"
        kinds = {}

        def one(inputs_):
            row = {k: v[None] if k in self.batched else v for k, v in {**inputs, **inputs_}.items()}
            value, names, new, g = self.gradient(p, stats, row, scale)
            out = {"loss": value}
            kinds["loss"] = kind
            for k, v in self.metrics.items():
                if k not in self.late:
                    m = jnp.asarray(evaluate(v, names))
                    is_row = m.ndim > 0 and m.shape[0] == 1 and k in self.by_rows
                    out["m:" + k], kinds["m:" + k] = (m[0] if is_row else m), ("concat" if is_row else kind)
            names = {**names, "grads": Tree(g), "per_param_norm": Tree({k: jnp.sqrt(jnp.sum(v * v)) for k, v in g.items()})}
            for k, v in o.get("metrics", {}).items():
                how = v.get("accumulator", "concat") if isinstance(v, dict) else "concat"
                m = evaluate(v["expr"] if isinstance(v, dict) else v, names)
                for name, leaf in ({k + "." + n: x for n, x in m.items()} if isinstance(m, Tree) else {k: m}).items():
                    out["m:" + name], kinds["m:" + name] = leaf, how
            for t in o.get("transform", []):
                if isinstance(t, str):
                    g = {k: evaluate(t, {"update": v, "param": p[k], "updates": Tree(g), "params": Tree(self.trained(p)), **FUNCTIONS}) for k, v in g.items()}
                else:
                    tx = optax.with_extra_args_support(optim_reference.make(t))
                    g, _ = tx.update(g, tx.init(self.trained(p)), self.trained(p))
            if clip is not None:  # as per_example_global_norm_clip
                norm = jnp.sqrt(sum(jnp.sum(v * v) for v in g.values()))
                g = {k: v / jnp.maximum(norm / clip, 1.0) for k, v in g.items()}
            out.update({"g:" + k: v for k, v in g.items()})
            for k in g:
                kinds["g:" + k] = "sum" if clip is not None else kind
            out.update({"s:" + k: v for k, v in new.items()})
            for k in new:
                kinds["s:" + k] = "running_mean"
            return out

        def group(carry, part, i):
            all_ = jax.vmap(one)(part)
            return carry, {k: aggregate(v, kinds[k]) for k, v in all_.items()}

        batches = {k: inputs[k] for k in self.batched}
        jax.eval_shape(lambda: one({k: v[0] for k, v in batches.items()}))
        real = evaluate(o.get("num_real_microbatches"), {**inputs, "params": Tree(p)})
        _, out = loop(group, 0, batches, rows, size, "strided", real, kinds)
        none = real is not None and jnp.asarray(real) <= 0
        new = {k[2:]: jnp.where(none, stats[k[2:]], v) for k, v in out.items() if k.startswith("s:")}
        return new, {k: v for k, v in out.items() if not k.startswith("s:")}, {**inputs, "params": Tree(p), "loss": out["loss"]}

    def outcome(self, p, stats, inputs, scale, clip):
        """Statistics and loss, metrics, gradients."""
        inner = self.examples if "per_example" in self.d or clip is not None else self.whole
        shapes = jax.eval_shape(lambda: self.whole(p, stats, inputs, scale, clip)[1])  # rows are those of the whole batch: an extent may be a part's by chance
        self.by_rows = {k[2:] for k, v in shapes.items() if k.startswith("m:") and v.shape[:1] == (self.rows,)}
        a = self.d.get("accumulate")
        if a is None:
            return inner(p, stats, inputs, scale, clip)[:2]
        size, kind, kinds = a["microbatch_size"], a.get("accumulator", "mean"), {}
        batches = {k: inputs[k] for k in self.batched}

        def micro(stats, part, i):
            new, out, names = inner(p, stats, {**inputs, **part}, scale, clip)
            w = jnp.float32(evaluate(a["weight"], {**names, **({"loss": out["loss"]})})) if a.get("weight") else None
            for k, v in out.items():
                m = k[2:] if k.startswith("m:") else None
                is_row = m is not None and jnp.ndim(v) > 0 and v.shape[0] == size and (m in self.by_rows or m not in self.metrics)
                kinds[k] = "concat" if is_row else "sum" if clip is not None and k.startswith("g:") else kind
                own = self.d.get("per_example", {}).get("metrics", {}) if m else {}
                if m and any(m == n or m.startswith(n + ".") for n in own):
                    of = next(v for n, v in own.items() if m == n or m.startswith(n + "."))
                    kinds[k] = of.get("accumulator", "concat") if isinstance(of, dict) else "concat"
                if m in (a.get("metrics") or {}):
                    kinds[k] = a["metrics"][m]
                if w is not None and kinds[k] in ("mean", "running_mean"):
                    out[k], kinds[k] = jnp.where(w == 0, 0, v * w), "by weight"
            if w is not None:
                out["weight"], kinds["weight"] = w, "sum"
            weighed.update(k for k in kinds if kinds[k] == "by weight")
            kinds.update({k: "sum" for k in weighed})
            return new, out

        weighed = set()
        real = evaluate(a.get("num_real_microbatches"), {**inputs, "params": Tree(p)})
        stats, out = loop(micro, stats, batches, self.rows, size, a.get("split", "strided"), real, kinds)
        total = out.pop("weight", None)
        for k in weighed:
            out[k] = jnp.where(total == 0, 0, out[k] / total)
        return stats, out


# ---------------------------------------------------------------- training

def clip_of(optimizer):
    """The clip of the optimizer that asks for gradients of examples itself."""
    for part in [optimizer, *(optimizer.get("transforms") or [])[:1]]:
        if part["type"] in ("dpsgd", "differentially_private_aggregate"):
            return part["l2_norm_clip"]
    return None


def aggregated(optimizer, rows):
    """The same optimizer where the clipped sums are there already: one example that is the sum, and a clip that is none."""
    o = json.loads(json.dumps(optimizer))
    for part in [o, *(o.get("transforms") or [])[:1]]:
        if part["type"] in ("dpsgd", "differentially_private_aggregate"):
            part["noise_multiplier"] *= part["l2_norm_clip"] / 1e30
            part["l2_norm_clip"] = 1e30
    return optim_reference.make(o)


def oracle(case):
    """A function of the noise to put on data and parameters: tensors after the last step, metrics."""
    document = case["document"]
    s = Step(document)
    optimizer, pair = document["optimizer"], document["optimizer"]["type"] == "lookahead"
    clip = clip_of(optimizer)
    tx = optax.with_extra_args_support(optim_reference.make(optimizer) if clip is None else aggregated(optimizer, s.rows))
    decay, setting = document.get("ema", {}).get("decay"), s.setting
    dynamic = setting is not None and setting["type"] == "dynamic_scale"

    def step(t, rest, stats, state, ema, scale, fin, inputs):
        at = {**rest, **(t.fast if pair else t)}
        new_stats, out = s.outcome(at, stats, inputs, scale, clip)
        g = {k[2:]: v for k, v in out.items() if k.startswith("g:")}
        if clip is not None:  # what Optax divides by the number of examples, here one
            given = {k: v[None] / s.rows for k, v in g.items()}
        else:
            given = g
        def elsewhere(q):
            found = s.outcome({**rest, **q}, stats, inputs, scale, clip)[1]
            return found["loss"], {k[2:]: v for k, v in found.items() if k.startswith("g:")}
        value_fn = jax.custom_vjp(lambda q: elsewhere(q)[0])
        value_fn.defvjp(elsewhere, lambda g, up: (jax.tree.map(lambda v: v * up, g),))
        extra = {} if pair else dict(value=out["loss"], grad=given, value_fn=value_fn, grad_fn=lambda q, i: elsewhere(q)[1])
        u, new_state = tx.update(given, state, t, **extra)
        new = optax.apply_updates(t, u)
        finite = jnp.all(jnp.stack([jnp.isfinite(v).all() for v in g.values()]))
        metrics = {"loss": out["loss"], **{k[2:]: v for k, v in out.items() if k.startswith("m:")}}
        names = {**inputs, "params": Tree(at), "loss": out["loss"], "grads": Tree(g), "updates": Tree(u.fast if pair else u), "loss_scale": scale}
        metrics |= {k: evaluate(s.metrics[k], names) for k in s.late}
        if dynamic:
            new, new_state = jax.tree.map(lambda a, b: jnp.where(finite, a, b), (new, new_state), (t, state))
            grow = fin == setting["growth_interval"]
            larger = jnp.where(grow & finite, jnp.minimum(scale * setting["growth_factor"], np.finfo(np.float32).max), scale)
            smaller = scale * setting["backoff_factor"]
            scale, fin = jnp.where(finite, larger, smaller), jnp.where(grow | ~finite, 0, fin + 1)
        if decay is not None:
            ema = jax.tree.map(lambda e, p: decay * e + (1 - decay) * p, ema, {**rest, **(new.fast if pair else new)})
        return new, new_stats, new_state, ema, scale, fin, metrics

    step = jax.jit(step)

    def run(factor=0):
        noise = lambda v: v * (1 + factor * np.cos(np.arange(v.size)).reshape(v.shape)).astype(np.float32) if v.dtype == np.float32 else v
        p = {k: jnp.asarray(noise(v)) for k, v in case["params"].items()}
        stats = {k: jnp.asarray(v) for k, v in case["stats"].items()}
        t = s.trained(p)
        rest = {k: v for k, v in p.items() if k not in t}
        t = optax.LookaheadParams.init_synced(t) if pair else t
        state, ema = tx.init(t), p
        scale, fin, series = jnp.float32(setting["scale"] if setting else 1), jnp.int32(0), collections.defaultdict(list)
        for i in range(case["steps"]):
            t, stats, state, ema, scale, fin, metrics = step(t, rest, stats, state, ema, scale, fin, {k: jnp.asarray(noise(v[i])) for k, v in case["data"].items()})
            for k, v in metrics.items():
                series[k].append(np.asarray(v, "f8"))
        tensors = {**rest, **(t.fast if pair else t), **stats}
        tensors |= {"slow." + k: v for k, v in t.slow.items()} if pair else {}
        tensors |= {"ema." + k: v for k, v in ema.items()} if decay is not None and not pair else {}
        return {k: np.asarray(v, "f8") for k, v in tensors.items()}, dict(series)

    return run


# ---------------------------------------------------------------- documents

class Generator(draws.Draws):
    def divisor(self, n):
        return self.one([d for d in range(1, n + 1) if n % d == 0])

    # ------------------------------------------------------------ models

    def row_block(self, shape, depth):
        """A function of one row of that shape, and the shape that it gives."""
        kind = self.one(["expr", "expr", "linear", "both", "nested" if depth < 1 else "expr"])
        self.count += 1
        name = "m%d" % self.count
        if kind == "linear":
            f = self.n(1, 4)
            return {"type": "linear", "name": name, "features": f}, (*shape[:-1], f)
        if kind == "both":
            f = self.n(1, 4)
            return {"type": "sequential", "name": "", "layers": [{"type": "linear", "name": name, "features": f}, {"type": "expr", "expr": "sin(x) * u"}]}, (*shape[:-1], f)
        if kind == "nested" and len(shape) > 1:
            return self.micro_vmap(shape, depth + 1)
        return self.one([({"type": "expr", "expr": "sum(softmax(sin(outer(x, x)), axis=-1), axis=0)"}, shape) if len(shape) == 1 else ({"type": "expr", "expr": "sum(x * cos(x), axis=0)"}, shape[1:]),
                         ({"type": "expr", "expr": "tanh(x) * u + x"}, shape), ({"type": "expr", "expr": "x * sum(x**2)"}, shape), ({"type": "expr", "expr": "mean(x, axis=-1)"}, shape[:-1])])

    def micro_vmap(self, shape, depth=0):
        inner, out = self.row_block(shape[1:], depth)
        o = {"type": "micro_vmap", "name": "", "block": inner}
        if self.chance(0.8):
            o["microbatch_size"] = self.divisor(self.seen if depth == 0 else shape[0])
        if self.chance(0.6):
            o["accumulator"] = self.one(["concat", "sum", "mean", "running_mean"])
        if self.chance(0.3):
            o["num_real_microbatches"] = self.one([self.n(0, 4), "n", "n - 1"])
        return o, ((shape[0], *out) if o.get("accumulator", "concat") == "concat" else out)

    def model(self, rows):
        """The layers and the shape of what they give, for `rows` rows."""
        self.count, d = 0, self.n(1, 5)
        self.kind = self.one(["mlp", "mlp", "tokens", "tokens", "norm", "rows", "rows", "deep"])
        if self.kind == "tokens":
            t = self.n(2, 5)
            self.inputs = {"x": {"shape": [rows, t], "dtype": "int32"}, "y": {"shape": [rows, t], "dtype": "int32"}, "w": {"shape": [rows, t], "dtype": "float32"}}
            return [{"type": "embed", "name": "e", "num_embeddings": 7, "features": 4}, *([{"type": "layer_norm", "name": "ln"}] if self.chance() else []),
                    {"type": "linear", "name": "out", "features": 5}], (rows, t, 5)
        shape = (rows, d) if self.kind != "deep" else (rows, self.one([2, 3, 4]), d)
        self.inputs = {"x": {"shape": list(shape), "dtype": "float32"}}
        layers, h = [{"type": "linear", "name": "a.b", "features": self.n(2, 5)}], None
        shape = (*shape[:-1], layers[0]["features"])
        if self.kind == "norm":
            layers.append({"type": "batch_norm", "name": "bn", "momentum": self.uniform(0.5, 0.95)})
        if self.chance(0.7):
            layers.append({"type": "tanh"})
        if self.kind in ("rows", "deep"):
            for _ in range(self.n(1, 2)):
                if len(shape) < 2 or shape[0] != rows:
                    break
                o, shape = self.micro_vmap(shape)
                layers.append(o)
        if self.chance(0.5) and len(shape) > 1:
            layers.append({"type": "linear", "name": "c", "features": self.n(1, 4)})
            shape = (*shape[:-1], layers[-1]["features"])
        return layers, shape

    # ------------------------------------------------------------ the rest

    def loss(self, rows, shape):
        if self.kind == "tokens":
            each = "softmax_cross_entropy_with_integer_labels(model, y)"
            return self.one(["sum(%s * w) / maximum(sum(w), 1)" % each, "sum(%s * w)" % each, "mean(%s)" % each, "sum(%s * w) / sum(w)" % each if self.weighted else "mean(%s)" % each])
        if len(shape) and shape[0] == rows:
            self.inputs["y"] = {"shape": list(shape), "dtype": "float32"}
            return self.one(["mean((model - y)**2)", "sum((model - y)**2)", "mean((model - y)**2) + 0.5 * mean(model)**2", "mean(abs(model - y)) * u + mean(var(model, axis=0))"])
        return self.one(["mean((model - 1)**2)", "sum(model**2) + mean(x)"])

    def metrics(self, rows, shape, trained):
        out, names = {}, iter("pqrstv")
        same = len(shape) and shape[0] == rows
        pool = ["mean(model)", "sum(abs(model))", "max(model)", "mean(x)", "u", "loss * 2", "loss + mean(model)"]
        if same:
            pool += ([] if self.single else ["sum(model > 0)"]) + ["model", "sum(reshape(model, (model.shape[0], -1)), axis=1)" if False else "model * 2", "model[:, 0]" if len(shape) > 1 else "model", "x[:, 0]"]
            if len(shape) > 1 and shape[1] not in (1, rows, *self.sizes):
                pool += ["mean(model, axis=0)" if len(shape) == 2 else "mean(model)"]
        pool += ["global_norm(updates)", "sum(params.%s)" % self.one(trained)] + ([] if self.private_ else ["global_norm(grads)", "grads.%s" % self.one(trained)])
        for _ in range(self.n(0, 3)):
            out[next(names)] = self.one(pool)
        return out

    def optimizer(self, multi=True, depth=0):
        rate = lambda: self.uniform(0.02, 0.3)
        adam = lambda: {"type": self.one(["adam", "adamw", "amsgrad", "nadam"]), "learning_rate": self.uniform(0.01, 0.1), "eps": self.uniform(0.01, 0.1)}
        sgd = lambda: {"type": "sgd", "learning_rate": rate(), **self.one([{}, {"momentum": 0.7}, {"momentum": 0.5, "nesterov": True}])}
        clip = lambda: self.one([{"type": "clip_by_global_norm", "max_norm": self.uniform(0.05, 1)}, {"type": "clip", "max_delta": self.uniform(0.01, 0.3)}, {"type": "adaptive_grad_clip", "clipping": self.uniform(0.05, 0.5)}])
        simple = [sgd, sgd, adam, lambda: {"type": "chain", "transforms": [clip(), self.one([sgd, adam])()]}]
        more = [{"type": "adafactor", "learning_rate": rate(), "min_dim_size_to_factor": self.n(1, 3)}, {"type": "lamb", "learning_rate": 0.05, "eps": 0.01}, {"type": "lars", "learning_rate": 0.2},
                {"type": "yogi", "learning_rate": 0.05}, {"type": "radam", "learning_rate": 0.05, "eps": 0.01}, {"type": "adagrad", "learning_rate": 0.1}, {"type": "rmsprop", "learning_rate": 0.03, "eps": 0.01},
                {"type": "adabelief", "learning_rate": 0.05, "eps": 0.01}, {"type": "novograd", "learning_rate": 0.05, "eps": 0.01}, {"type": "adan", "learning_rate": 0.05, "eps": 0.01},
                {"type": "sm3", "learning_rate": 0.1}, {"type": "fromage", "learning_rate": 0.05}, {"type": "adadelta", "learning_rate": 0.5}, {"type": "adamax", "learning_rate": 0.05, "eps": 0.01},
                {"type": "optimistic_gradient_descent", "learning_rate": 0.1}, {"type": "muon", "learning_rate": 0.05}, {"type": "prodigy", "learning_rate": 0.3}, {"type": "dowg"}, {"type": "momo", "learning_rate": 0.3},
                {"type": "schedule_free_adamw", "learning_rate": 0.05, "eps": 0.01}, {"type": "dog", "learning_rate": 0.5}]
        nests = [lambda: {"type": "multi_steps", "nan_passes": True, "opt": self.optimizer(depth=1), "every_k_schedule": self.n(1, 3), **self.one([{}, {"use_grad_mean": False}])},
                 lambda: {"type": "apply_if_finite", "inner": self.optimizer(depth=1), "max_consecutive_errors": self.n(0, 2)},
                 lambda: {"type": "schedule_free", "base_optimizer": sgd(), "learning_rate": rate(), "b1": 0.8},
                 lambda: {"type": "chain", "transforms": [clip(), {"type": "scale_by_learning_rate", "learning_rate": {"type": "exponential_decay", "init_value": 0.2, "transition_steps": 2, "decay_rate": 0.7}}]},
                 lambda: {"type": "chain", "transforms": [adam(), {"type": "reduce_on_plateau", "patience": 1, "accumulation_size": self.n(1, 2), "factor": 0.5}]},
                 lambda: {"type": "polyak_sgd", "max_learning_rate": 0.4, "f_min": -0.5}]
        searches = [lambda: {"type": "lbfgs", "memory_size": self.n(1, 4)}, lambda: {"type": "lbfgs", "learning_rate": 0.1, "linesearch": None},
                    lambda: {"type": "chain", "transforms": [{"type": "sgd", "learning_rate": 1.0}, {"type": "scale_by_backtracking_linesearch", "max_backtracking_steps": 5}]},
                    lambda: {"type": "sam", "optimizer": sgd(), "adv_optimizer": {"type": "chain", "transforms": [{"type": "normalize"}, {"type": "sgd", "learning_rate": 0.05}]}, "sync_period": 2, "opaque_mode": self.chance(0.8)}]
        if depth == 0 and not multi:
            return self.one(searches)()
        if depth == 0:
            nests += [lambda: {"type": "lookahead", "fast_optimizer": sgd(), "sync_period": self.n(1, 3), "slow_step_size": 0.5},
                      lambda: {"type": "inject_hyperparams", "opt": sgd()}]
        return self.one(more) if self.chance(0.25) else self.one(simple * 2 + nests)()

    def private(self):
        o = {"l2_norm_clip": self.uniform(0.05, 1), "noise_multiplier": 0.0, "key": 1}
        if self.chance():
            o["seed"] = o.pop("key")
            return {"type": "dpsgd", "learning_rate": 0.2, **o, **self.one([{}, {"momentum": 0.5}])}
        return {"type": "chain", "transforms": [{"type": "differentially_private_aggregate", **o}, {"type": "adam", "learning_rate": 0.05, "eps": 0.02}]}

    def transform(self):
        return self.one([lambda: {"type": "clip_by_global_norm", "max_norm": self.uniform(0.05, 1)}, lambda: {"type": "clip", "max_delta": self.uniform(0.01, 0.3)},
                         lambda: {"type": "normalize_by_update_norm", "scale_factor": self.uniform(0.5, 2)}, lambda: {"type": "scale", "step_size": self.uniform(0.3, 2)},
                         lambda: {"type": "clip_by_block_rms", "threshold": self.uniform(0.05, 1)}, lambda: {"type": "adaptive_grad_clip", "clipping": self.uniform(0.05, 0.5)},
                         lambda: {"type": "add_decayed_weights", "weight_decay": self.uniform(0.01, 0.3)}, lambda: "update * abs(update)", lambda: "update + 0.1 * param",
                         lambda: "update / (1 + global_norm(updates))", lambda: {"type": "centralize"}])()

    def real(self, count):
        return self.one([None, self.n(0, count), self.n(0, count + 2), "n", "n - 1", "sum(u > 0) + n"])

    def case(self):
        rows = self.one([2, 4, 6, 6, 8, 8, 12, 3, 1])
        accumulate, single = self.one([(1, 0), (1, 0), (0, 1), (1, 1), (1, 1), (0, 0)])
        private = self.chance(0.25)
        size = self.divisor(rows)
        self.sizes = [size, rows]
        a = {"microbatch_size": size, **({"accumulator": self.one(["sum", "mean", "running_mean"])} if self.chance(0.7) else {}),
             **({"split": self.one(["strided", "contiguous"])} if self.chance(0.7) else {})}
        self.weighted = accumulate and a.get("accumulator", "mean") != "sum" and self.chance(0.35)
        self.seen = 1 if single or private else size if accumulate else rows  # rows that the model sees at once
        layers, shape = self.model(rows)
        if private and self.kind in ("rows", "deep") and self.chance(0.7):
            private = False
        loss = self.loss(rows, shape)
        document = {"stepc": 1, "name": "fuzz", "inputs": {**self.inputs, "u": {"shape": [], "dtype": "float32"}, "n": {"shape": [], "dtype": "int32"}},
                    "model": {"type": "sequential", "input": "x", "layers": layers}, "loss": loss}
        if self.chance(0.2) and rows > 1 and "w" not in document["inputs"]:
            document["inputs"]["u"] = {"shape": [1], "dtype": "float32", "axes": [None]}
            document["loss"] = "sum(u) * (%s)" % loss if " u " in loss else loss
            if " u " in loss:
                document["loss"] = loss.replace(" u ", " sum(u) ")
        steps = self.n(3, 5)
        data = {}
        for k, v in document["inputs"].items():
            size_ = (steps, *v["shape"])
            if k == "n":
                data[k] = self.r.integers(0, 5, size_).astype(np.int32)
            elif v["dtype"] == "int32":
                data[k] = self.r.integers(0, 5, size_).astype(np.int32)
            elif k == "w":
                data[k] = (self.r.random(size_) * (self.r.random(size_) < 0.6) * (self.r.random(size_[:2])[..., None] < 0.7)).astype(np.float32)
            else:
                data[k] = self.r.normal(size=size_).astype(np.float32)
        c = Context({k: jnp.asarray(v[0]) for k, v in data.items()}, {}, {}, self.r)
        c.names["params"] = Tree({})
        block(c, document["model"], "", None)
        params, stats = {k: np.asarray(v, np.float32) for k, v in c.params.items()}, {k: v for k, v in c.stats.items()}
        stats = {k: np.asarray(self.r.uniform(0.5, 1.5, np.shape(v)), np.float32) for k, v in stats.items()}
        if not params:
            return None
        paths = sorted(params)
        if self.chance(0.15) and len(paths) > 1:
            document["trainable"] = sorted({self.one(paths) for _ in range(2)})
        trained = [k for k in paths if k in document.get("trainable", paths)]
        self.single, self.private_ = single or private, private
        metrics = self.metrics(rows, shape, trained)
        if metrics:
            document["metrics"] = metrics
        if accumulate:
            if self.chance(0.4):
                a["num_real_microbatches"] = self.real(rows // size)
            if self.weighted:
                a["weight"] = self.one(["sum(w)" if "w" in document["inputs"] else "maximum(sum(x), 0)", "loss", "mean(x) > 0" if self.kind != "tokens" else "sum(w)"])
            own = {k: self.one(["sum", "mean", "running_mean"]) for k, v in metrics.items() if self.chance(0.3) and not any(n in v for n in ("grads", "updates"))}
            own |= {k: "sum" for k, v in metrics.items() if ">" in v}
            own = {k: "sum" if ">" in metrics[k] else "concat" if "[" in metrics[k] or metrics[k].startswith("model") or self.chance(0.2) else v for k, v in own.items()}
            if own:
                a["metrics"] = own
            document["accumulate"] = a
        if single:
            part = size if accumulate else rows
            e = {**({"microbatch_size": self.divisor(part)} if self.chance(0.8) else {}), **({"accumulator": self.one(["sum", "mean", "running_mean"])} if self.chance(0.7) else {})}
            if self.chance(0.7):
                e["transform"] = [self.transform() for _ in range(self.n(1, 2))]
            if self.chance(0.3):
                e["num_real_microbatches"] = self.real(part // e.get("microbatch_size", part))
            own = {}
            for k in "abc"[:self.n(0, 3)]:
                g = "grads." + self.one(trained)
                own[k] = self.one(["per_param_norm", "global_norm(grads)", "loss", "mean(model)", g, {"expr": g + "**2", "accumulator": self.one(["sum", "mean", "running_mean", "concat"])},
                                   "sum(x)", "max(abs(%s))" % g, "grads", {"expr": "loss * 2", "accumulator": "mean"}])
            if own:
                e["metrics"] = own
            document["per_example"] = e
        document["optimizer"] = self.private() if private else self.optimizer(multi=self.chance(0.85) and not SEARCHES)
        if self.chance(0.3):
            document["ema"] = {"decay": self.uniform(0.3, 0.95)}
        if self.chance(0.2):
            document["precision"] = {"loss_scale": self.one([{"type": "static", "scale": 512.0}, {"type": "dynamic_scale", "scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": self.n(1, 2)}])}
        if (self.chance(0.3) if "precision" in document or "finite" in json.dumps(document["optimizer"]) else self.chance(0.05)) and data["x"].dtype == np.float32:
            t = self.n(0, steps - 1)
            data["x"][t].reshape(-1)[self.n(0, data["x"][t].size - 1)] = self.one([np.nan, np.inf])
        return {"document": document, "params": params, "stats": stats, "data": data, "steps": steps}


# ---------------------------------------------------------------- playing it

def compare(got, want, noisy):
    """(what differs or None, how loose the comparison was): noise in the data can make differences that are none."""
    worst = 0.0
    for kind in (0, 1):
        for name, value in want[kind].items():
            found = got[kind].get(name)
            if found is None:
                return "%s is not there" % name, 0
            for i, (w, f, o) in enumerate(zip(value, found, noisy[kind][name]) if kind else [(value, found, noisy[0][name])]):
                where = name + (" at step %d" % (i + 1) if kind else "")
                w, f, o = np.asarray(w, "f8"), np.asarray(f, "f8"), np.asarray(o, "f8")
                with np.errstate(invalid="ignore", over="ignore"):
                    slack = 3 * np.max(np.abs(o - w), initial=0, where=np.isfinite(o - w)) + 0 * w
                    slack = np.where(np.isfinite(slack), slack, np.where(np.isfinite(w) != np.isfinite(o), np.inf, 0))
                    worst = max(worst, (slack / (1e-3 + np.abs(w)))[np.isfinite(w)].max(initial=0))
                said = comparison.difference(f, w, RTOL, ATOL, slack)
                if said:
                    return where + said, worst
    return None, worst


def one(options, seed):
    case = Generator(seed).case()
    if case is None:
        return "empty", "", ""
    text = json.dumps(case["document"])
    try:
        reference = oracle(case)
        want = reference()
    except Exception as e:
        return "refused by the reference", "%s: %s" % (type(e).__name__, str(e).strip()[:300]), text
    init, loose, d = {**case["params"], **case["stats"]}, 0, draws.Draws((seed, 1))
    compiled = d.chance(options.compile)
    if compiled and d.chance(options.mesh):
        case["document"] = sharded.on_a_mesh(case["document"], {k: v.shape for k, v in case["params"].items()}, d)
        text = json.dumps(case["document"])
    with tempfile.TemporaryDirectory(prefix="stepc-fuzz-") as folder:
        runner.write_document(folder, case["document"], case["data"], init)
        try:
            tensors, lines = runner.play(options.stepc, folder, case["steps"], compiled, options.compile_args.split())
            got = tensors, {k: [comparison.numbers(line[k]) for line in lines] for k in want[1] if k in lines[0]}
            why, _ = compare(got, want, want)
            if why is not None:  # as much as noise in the data can do?
                why, loose = compare(got, want, reference(1e-6))
        except runner.Failed as e:
            if e.unsupported:
                return "not supported yet", e.brief(), text
            why = e.brief()
    if why is None:
        return "unsettled" if loose > 1e-2 else "agrees", "", text
    if options.keep:
        plain = lambda v: np.asarray(v, np.float64).tolist()
        recorded.write(os.path.join(options.keep, "micro_%d" % seed), case["document"], case["data"], init, case["steps"],
                           {k: np.asarray(v, np.float32) for k, v in want[0].items()}, {k: [plain(x) for x in v] for k, v in want[1].items()}, RTOL, ATOL, "")
    return "differs", why, text


def main():
    p = command.parser(__doc__, 100)
    p.add_argument("--searches", action="store_true", help="only optimizers that ask for loss and gradients at other parameters")
    p.add_argument("--mesh", type=float, default=0.3, help="the part of those compiled that runs on several devices")
    options = command.options(p)
    global SEARCHES
    SEARCHES = options.searches
    return command.loop(options, one, jax.clear_caches)


if __name__ == "__main__":
    sys.exit(main())
