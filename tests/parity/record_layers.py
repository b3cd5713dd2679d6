#!/usr/bin/env python3
"""Records cases/layer_more_* beside Flax NNX 0.12.6: layers with arguments, or in places, that no other case has. Run from
anywhere; `--out DIR` writes them elsewhere, names record just these."""
import dataclasses
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(os.path.dirname(HERE), "fuzz")]

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
import optim_reference
from tool import command, recorded

RATE, STEPS = 0.1, 4
CASES = {}


@dataclasses.dataclass
class Case:
    document: dict
    net: dict  # path -> layer
    forward: object  # (net, inputs) -> loss
    tolerance: float = 2e-5
    renamed: dict = dataclasses.field(default_factory=dict)  # segments of paths
    optimizer: dict = dataclasses.field(default_factory=lambda: {"type": "sgd", "learning_rate": RATE})


def case(f):
    CASES[f.__name__] = f
    return f


def vmapped_norm(batch, momentum, microbatches=None):
    """A batch_norm inside of micro_vmap: every row [5, 3] has its own statistics, and the mean of what the rows make of the
    running ones is left. `microbatches`: so many of two rows are real."""
    document = {"inputs": {"x": {"shape": [batch, 5, 3]}},
                "model": {"type": "sequential", "input": "x", "layers": [{"type": "micro_vmap", "microbatch_size": 2, "block": {"type": "sequential", "name": "row", "layers": [
                    {"type": "linear", "features": 4, "name": "first"}, {"type": "batch_norm", "momentum": momentum, "name": "norm"}, {"type": "tanh"}]}}, {"type": "linear", "features": 2, "name": "last"}]},
                "loss": "mean(model**2) + mean(model[:, 0, 0])"}
    if microbatches:
        document["model"]["layers"][0]["num_real_microbatches"] = microbatches
    rngs = nnx.Rngs(0)
    net = {"layers.0.row.first": nnx.Linear(3, 4, rngs=rngs), "layers.0.row.norm": nnx.BatchNorm(4, momentum=momentum, rngs=rngs), "last": nnx.Linear(4, 2, rngs=rngs)}

    def forward(net, d):
        graph, state = nnx.split(net["layers.0.row.norm"])

        def row(x):
            norm = nnx.merge(graph, state, copy=True)
            y = jnp.tanh(norm(net["layers.0.row.first"](x)))
            return y, nnx.state(norm, nnx.BatchStat)

        y, stats = jax.vmap(row)(d["x"])
        real = np.arange(batch) % (batch // 2) < (microbatches or batch)  # rows are dealt out to the microbatches
        y = jnp.where(real[:, None, None], y, 0)
        nnx.update(net["layers.0.row.norm"], jax.tree.map(lambda v: jax.lax.stop_gradient(v[real].mean(0)), stats))
        y = net["last"](y)
        return jnp.mean(y**2) + jnp.mean(y[:, 0, 0])

    return Case(document, net, forward)


@case
def micro_vmap_batch_norm():
    return vmapped_norm(6, 0.7)


@case
def micro_vmap_batch_norm_stops_early():
    return vmapped_norm(8, 0.9, 3)


def one(block, x, make, tolerance=2e-5):
    """One layer of an input; `make` gives it in NNX."""
    document = {"inputs": {"x": {"shape": list(x)}}, "model": block | {"input": "x", "name": "n"}, "loss": "mean(model**2) + mean(model * cos(x)[..., :1])"}

    def forward(net, d):
        y = net["n"](d["x"])
        return jnp.mean(y**2) + jnp.mean(y * jnp.cos(d["x"])[..., :1])

    return Case(document, {"n": make(nnx.Rngs(0))}, forward, tolerance)


@case
def layer_prelu_integers():
    """The slope is rounded to the dtype of the input."""
    document = {"inputs": {"x": {"shape": [6, 5], "dtype": "int32", "below": 8}}, "loss": "mean(model**2)",
                "model": {"type": "sequential", "input": "x - 4", "layers": [{"type": "prelu", "negative_slope_init": 2.7, "name": "p"}, {"type": "linear", "features": 3, "name": "n"}]}}
    return Case(document, {"p": nnx.PReLU(2.7), "n": nnx.Linear(5, 3, rngs=nnx.Rngs(0))}, lambda net, d: jnp.mean(net["n"](net["p"](d["x"] - 4)) ** 2))


@case
def layer_linear_wide_product():
    return one({"type": "linear", "features": 3, "dtype": "bfloat16", "preferred_element_type": "float32", "precision": "highest"}, (6, 5),
               lambda rngs: nnx.Linear(5, 3, dtype=jnp.bfloat16, preferred_element_type=jnp.float32, precision="highest", rngs=rngs), 4e-3)


@case
def layer_einsum_wide_product():
    return one({"type": "einsum", "einsum_str": "abc,cd->abd", "kernel_shape": [4, 3], "bias_shape": [3], "dtype": "bfloat16", "preferred_element_type": "float32"}, (2, 3, 4),
               lambda rngs: nnx.Einsum("abc,cd->abd", (4, 3), (3,), dtype=jnp.bfloat16, preferred_element_type=jnp.float32, rngs=rngs), 4e-3)


@case
def layer_weight_norm_filter():
    return one({"type": "weight_norm", "layer_instance": {"type": "linear", "features": 3}, "variable_filter": ["**.bias"], "epsilon": 0.5}, (6, 5),
               lambda rngs: nnx.WeightNorm(nnx.Linear(5, 3, rngs=rngs), variable_filter=nnx.PathContains("bias"), epsilon=0.5, rngs=rngs))


@case
def layer_weight_norm_bfloat16():
    return one({"type": "weight_norm", "layer_instance": {"type": "linear", "features": 3}, "dtype": "bfloat16"}, (6, 5),
               lambda rngs: nnx.WeightNorm(nnx.Linear(5, 3, rngs=rngs), dtype=jnp.bfloat16, rngs=rngs), 1e-2)


@case
def layer_weight_norm_of_bfloat16():
    return one({"type": "weight_norm", "layer_instance": {"type": "linear", "features": 3, "param_dtype": "bfloat16"}}, (6, 5),
               lambda rngs: nnx.WeightNorm(nnx.Linear(5, 3, param_dtype=jnp.bfloat16, rngs=rngs), rngs=rngs), 1e-2)


@case
def layer_spectral_norm_bfloat16():
    return one({"type": "spectral_norm", "layer_instance": {"type": "linear", "features": 3}, "dtype": "bfloat16", "param_dtype": "bfloat16", "n_steps": 2}, (6, 5),
               lambda rngs: nnx.SpectralNorm(nnx.Linear(5, 3, rngs=rngs), dtype=jnp.bfloat16, param_dtype=jnp.bfloat16, n_steps=2, rngs=rngs), 1e-2)


@case
def layer_spectral_norm_named():
    case = one({"type": "spectral_norm", "layer_instance": {"type": "linear_general", "features": [3, 2], "name": "inside"}}, (6, 5),
               lambda rngs: nnx.SpectralNorm(nnx.LinearGeneral(5, (3, 2), rngs=rngs), rngs=rngs))
    case.document["loss"] = "mean(model**2) + mean(model[..., 0] * cos(x)[..., :1])"

    def loss(net, d):
        y = net["n"](d["x"])
        return jnp.mean(y**2) + jnp.mean(y[..., 0] * jnp.cos(d["x"])[..., :1])

    return dataclasses.replace(case, forward=loss, renamed={"layer_instance": "inside"})


@case
def layer_cell_draws_its_carry():
    case = one({"type": "lstm_cell", "hidden_features": 3, "carry_init": {"type": "normal", "stddev": 0.5}, "keep_rngs": True}, (6, 5),
               lambda _: nnx.LSTMCell(5, 3, carry_init=jax.nn.initializers.normal(0.5), keep_rngs=True, rngs=nnx.Rngs(params=7, carry=3)))
    case.document["loss"] = "mean(model[1]**2) + mean(model[0][0])"
    case.document["seed"] = {"params": 7, "carry": 3}

    def loss(net, d):
        carry, y = net["n"](net["n"].initialize_carry(d["x"].shape), d["x"])
        return jnp.mean(y**2) + jnp.mean(carry[0])

    return dataclasses.replace(case, forward=loss)


class LowRank(nnx.Module):
    def __init__(self, inside, rank, outside):
        r = np.random.default_rng(0)
        self.lora_a, self.lora_b = (nnx.Param(jnp.asarray(r.normal(size=size) * 0.3, jnp.float32)) for size in ((inside, rank), (rank, outside)))


def adapted(kind, wrapper):
    """What is normalised is the kernel, not the adapter beside it."""
    case = one({"type": kind, "layer_instance": {"type": "linear", "features": 3}}, (6, 5), lambda rngs: wrapper(nnx.Linear(5, 3, rngs=rngs), rngs=rngs))
    case.document["adapters"] = [{"type": "lora", "rank": 2, "match": ["n.**"]}]
    case.net["n.layer_instance"] = LowRank(5, 2, 3)

    def loss(net, d):
        beside = net["n.layer_instance"]
        y = net["n"](d["x"]) + d["x"] @ beside.lora_a[...] @ beside.lora_b[...]
        return jnp.mean(y**2) + jnp.mean(y * jnp.cos(d["x"])[..., :1])

    return dataclasses.replace(case, forward=loss)


@case
def adapt_weight_norm():
    return adapted("weight_norm", nnx.WeightNorm)


@case
def adapt_spectral_norm():
    return adapted("spectral_norm", nnx.SpectralNorm)


@case
def layer_pool_integers():
    """Extrema of integers are integers, also above what float32 tells apart; a sum of int8 is int8 before it is divided."""
    nodes = [{"type": "max_pool", "name": "most", "input": "i", "window_shape": [2]}, {"type": "min_pool", "name": "least", "input": "i", "window_shape": [2], "padding": "SAME"},
             {"type": "avg_pool", "name": "average", "input": "astype(i % 256 - 128, 'int8')", "window_shape": [3], "padding": "SAME", "count_include_pad": False},
             {"type": "max_pool", "name": "outside", "input": "astype(i % 100, 'uint8')", "window_shape": [2], "strides": [2], "padding": [[3, 1]]},
             {"type": "linear", "name": "last", "features": 2, "input": "most % 7 + (least % 5)[:, 1:] + (average / 50)[:, 1:] + outside * 0.01"}]
    document = {"inputs": {"i": {"shape": [2, 6, 1], "dtype": "int32", "below": 1 << 25}}, "model": {"type": "graph", "nodes": nodes, "output": "last"}, "loss": "mean(model**2)"}

    def forward(net, d):
        i = d["i"]
        most, least = nnx.max_pool(i, (2,)), nnx.min_pool(i, (2,), padding="SAME")
        average = nnx.avg_pool((i % 256 - 128).astype(jnp.int8), (3,), padding="SAME", count_include_pad=False)
        outside = nnx.max_pool((i % 100).astype(jnp.uint8), (2,), (2,), ((3, 1),))
        return jnp.mean(net["last"](most % 7 + (least % 5)[:, 1:] + (average / 50)[:, 1:] + outside * 0.01) ** 2)

    return Case(document, {"last": nnx.Linear(1, 2, rngs=nnx.Rngs(0))}, forward)


@case
def layer_pool_count_float16():
    """What is divided by a count without its padding is float32."""
    nodes = [{"type": "linear", "name": "first", "features": 3, "dtype": "float16", "input": "x"},
             {"type": "avg_pool", "name": "average", "input": "first", "window_shape": [3], "padding": "SAME", "count_include_pad": False},
             {"type": "expr", "name": "kept", "expr": "astype(average + 2049.0, 'float32') - 2049.0"}]
    document = {"inputs": {"x": {"shape": [2, 6, 4]}}, "model": {"type": "graph", "nodes": nodes, "output": "kept"}, "loss": "mean(model**2)"}

    def forward(net, d):
        y = nnx.avg_pool(net["first"](d["x"]), (3,), padding="SAME", count_include_pad=False)
        return jnp.mean(((y + 2049.0).astype(jnp.float32) - 2049.0) ** 2)

    return Case(document, {"first": nnx.Linear(4, 3, dtype=jnp.float16, rngs=nnx.Rngs(0))}, forward, tolerance=1e-2)


@case
def layer_norms_begin():
    """Optimizers that keep the parameters that they began with: those before a forward pass left normalised ones."""
    rngs = nnx.Rngs(0)
    net = {"a": nnx.WeightNorm(nnx.Linear(5, 4, rngs=rngs), rngs=rngs), "b": nnx.SpectralNorm(nnx.Linear(4, 3, rngs=rngs), rngs=rngs)}
    inside = {"type": "linear", "features": 0}
    document = {"inputs": {"x": {"shape": [6, 5]}}, "loss": "mean((model - cos(x)[:, :3])**2)",
                "model": {"type": "sequential", "input": "x", "layers": [{"type": "weight_norm", "name": "a", "layer_instance": inside | {"features": 4}},
                                                                         {"type": "spectral_norm", "name": "b", "layer_instance": inside | {"features": 3}}]}}
    optimizer = {"type": "partition", "labels": {"a.**": "a", "b.**": "b"},
                 "transforms": {"a": {"type": "flatten", "inner": {"type": "madgrad", "learning_rate": RATE}}, "b": {"type": "dog", "init_step": ["heuristic", 0.01]}}}
    return Case(document, net, lambda net, d: jnp.mean((net["b"](net["a"](d["x"])) - jnp.cos(d["x"])[:, :3]) ** 2), optimizer=optimizer)


def paths(holder, case, *kinds):
    """Variables by their paths in the document."""
    for name in case.net:
        for path, v in nnx.to_flat_state(nnx.state(holder[name], nnx.Any(*kinds))):
            yield ".".join([name] + [str(case.renamed.get(s, s)) for part in path for s in (part if isinstance(part, tuple) else (part,))]), v


def tensors(holder, case):
    return {path: np.asarray(v[...]) for path, v in paths(holder, case, nnx.Param, nnx.BatchStat)}


def record(name, out):
    case = CASES[name]()
    document = {"stepc": 1, "name": name, **case.document, "optimizer": case.optimizer}
    r = np.random.default_rng(sum(map(ord, name)))
    data = {}
    for k, i in document["inputs"].items():
        i.setdefault("dtype", "float32")
        size = (STEPS, *i["shape"])
        data[k] = r.normal(size=size).astype(np.float32) if i["dtype"] == "float32" else r.integers(1, i.pop("below", 4), size).astype(np.int32)
    holder, rule = nnx.Dict(case.net), optim_reference.make(case.optimizer)

    @nnx.jit
    def step(holder, state, d):
        value, grads = nnx.value_and_grad(case.forward)(holder, d)
        names, flat = [path for path, _ in paths(holder, case, nnx.Param)], dict(nnx.to_flat_state(nnx.state(holder, nnx.Param)))
        grads = dict(nnx.to_flat_state(grads))
        by_path = lambda tree: {path: v[...] for path, v in zip(names, tree)}
        before = by_path(flat.values())
        updates, state = rule.update(by_path(grads[k] for k in flat), state, before)
        after = optax.apply_updates(before, updates)
        nnx.update(holder, nnx.from_flat_state({k: v.replace(after[path]) for path, (k, v) in zip(names, flat.items())}))
        return value, state

    first, losses = {k: np.array(v) for k, v in tensors(holder, case).items()}, []
    state = rule.init({path: v[...] for path, v in paths(holder, case, nnx.Param)})
    for t in range(STEPS):
        value, state = step(holder, state, {k: jnp.asarray(v[t]) for k, v in data.items()})
        losses.append(float(value))
    recorded.record(name, document, data, None if "seed" in document else first, STEPS, tensors(holder, case), {"loss": losses}, case.tolerance, case.tolerance / 10, out=out)


if __name__ == "__main__":
    command.record(__doc__, list(CASES), record)
