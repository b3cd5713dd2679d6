#!/usr/bin/env python3
"""Records cases/mixed_*: documents with 16-bit parameters, layers and gradients, beside the same models of Flax NNX, trained
with Optax and Flax's DynamicScale. Run from anywhere; `--out DIR` writes them elsewhere."""
import os
import sys

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"  # every rounding is meant
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, recorded

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16, "float16": jnp.float16, None: None}


# ---------------------------------------------------------------- models: (block of the document, NNX module, inputs)

class Chain(nnx.Module):
    def __init__(self, *layers):
        self.layers = nnx.List(list(layers))

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def named(layers):
    return {"type": "sequential", "input": "x", "layers": [dict(l, name="layers.%d" % i) for i, l in enumerate(layers)]}


def mlp(d, p, r):
    block = named([{"type": "linear", "features": 6}, {"type": "tanh"}, {"type": "linear", "features": 3}])
    return block, Chain(nnx.Linear(4, 6, dtype=d, param_dtype=p, rngs=r), jnp.tanh, nnx.Linear(6, 3, dtype=d, param_dtype=p, rngs=r))


def conv(d, p, r):
    block = named([{"type": "conv", "features": 4, "kernel_size": [3, 3]}, {"type": "batch_norm"}, {"type": "relu"},
                   {"type": "conv", "features": 4, "kernel_size": [3, 3], "strides": 2, "feature_group_count": 2}, {"type": "group_norm", "num_groups": 2},
                   {"type": "conv_transpose", "features": 3, "kernel_size": [2, 2], "strides": [2, 2]}, {"type": "avg_pool", "window_shape": [6, 6]}])
    k = dict(dtype=d, param_dtype=p, rngs=r)
    return block, Chain(nnx.Conv(2, 4, (3, 3), **k), nnx.BatchNorm(4, use_running_average=False, **k), nnx.relu,
                        nnx.Conv(4, 4, (3, 3), strides=2, feature_group_count=2, **k), nnx.GroupNorm(4, num_groups=2, **k),
                        nnx.ConvTranspose(4, 3, (2, 2), strides=(2, 2), **k), lambda x: nnx.avg_pool(x, (6, 6)))


def attention(d, p, r):
    block = named([{"type": "linear", "features": 8}, {"type": "multi_head_attention", "num_heads": 2, "normalize_qk": True,
                                                      "mask": "make_causal_mask(x[..., 0])"},
                   {"type": "rms_norm"}, {"type": "linear_general", "features": [2, 3]}, {"type": "gelu"},
                   {"type": "linear_general", "features": 4, "axis": [-2, -1]}, {"type": "layer_norm"},
                   {"type": "einsum", "einsum_str": "btf,fg->btg", "kernel_shape": [4, 3], "bias_shape": [3]}])
    k = dict(dtype=d, param_dtype=p, rngs=r)

    class Model(Chain):
        def __call__(self, x):
            for layer in self.layers:
                causal = isinstance(layer, nnx.MultiHeadAttention)
                x = layer(x, mask=nnx.make_causal_mask(x[..., 0])) if causal else layer(x)
            return x
    return block, Model(nnx.Linear(4, 8, **k), nnx.MultiHeadAttention(2, 8, normalize_qk=True, decode=False, **k), nnx.RMSNorm(8, **k),
                        nnx.LinearGeneral(8, (2, 3), **k), nnx.gelu, nnx.LinearGeneral((2, 3), 4, axis=(-2, -1), **k), nnx.LayerNorm(4, **k),
                        nnx.Einsum("btf,fg->btg", (4, 3), (3,), **k))


def recurrent(cell, kind):
    def make(d, p, r):
        block = {"type": "sequential", "input": "tokens", "layers": [
            {"type": "embed", "num_embeddings": 7, "features": 5, "name": "layers.0"},
            {"type": "rnn", "cell": {"type": cell, "hidden_features": 5}, "name": "layers.1"}, {"type": "attend", "embedding": "layers.0"}]}
        k = dict(dtype=d, param_dtype=p, rngs=r)

        class Model(Chain):
            def __call__(self, x):
                return self.layers[0].attend(self.layers[1](self.layers[0](x)))
        k["recurrent_kernel_init"] = nnx.initializers.lecun_normal()  # QR knows no 16-bit types
        return block, Model(nnx.Embed(7, 5, dtype=d, param_dtype=p, rngs=r), nnx.RNN(kind(5, 5, **k), rngs=r))
    return make


def lora(d, p, r):
    block = named([{"type": "lora_linear", "features": 6, "lora_rank": 2}, {"type": "prelu"},
                   {"type": "lora", "lora_rank": 2, "base_module": {"type": "linear", "features": 3}}])
    k = dict(dtype=d, param_dtype=p, rngs=r)
    return block, Chain(nnx.LoRALinear(4, 6, lora_rank=2, lora_dtype=d, lora_param_dtype=p, **k), nnx.PReLU(param_dtype=p),
                        nnx.LoRA(6, 2, 3, base_module=nnx.Linear(6, 3, **k), **k))


def own(d, p, r):
    """Layers that say their dtypes themselves."""
    block = named([{"type": "linear", "features": 6, "dtype": "bfloat16"}, {"type": "tanh"}, {"type": "linear", "features": 5, "param_dtype": "bfloat16"},
                   {"type": "layer_norm", "dtype": "float16"}, {"type": "linear", "features": 3, "dtype": "float32", "param_dtype": "float16"}])
    return block, Chain(nnx.Linear(4, 6, dtype=jnp.bfloat16, rngs=r), jnp.tanh, nnx.Linear(6, 5, param_dtype=jnp.bfloat16, rngs=r),
                        nnx.LayerNorm(5, dtype=jnp.float16, rngs=r), nnx.Linear(5, 3, dtype=jnp.float32, param_dtype=jnp.float16, rngs=r))


SHAPES = {mlp: (8, 4), conv: (4, 6, 6, 2), attention: (4, 5, 4), lora: (8, 4), own: (8, 4)}
SQUARES = "mean((model - y)**2)"

# ---------------------------------------------------------------- cases

ADAMW = {"type": "adamw", "learning_rate": 0.02, "eps": 0.01, "b1": 0.5, "b2": 0.75, "weight_decay": 0.1}
SGD = {"type": "sgd", "learning_rate": 0.2}
CLIPPED = {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 0.5}, ADAMW]}
DYNAMIC = {"type": "dynamic_scale", "scale": 4194304.0, "growth_interval": 1}


def schedule(o):
    return getattr(optax, o["type"])(**{k: v for k, v in o.items() if k != "type"})


def optimizer(o):
    o = dict(o)
    kind = o.pop("type")
    if kind == "chain":
        return optax.chain(*map(optimizer, o["transforms"]))
    if kind.startswith("inject"):
        inner = {k: schedule(v) if isinstance(v, dict) else v for k, v in o["opt"].items()}
        factory = getattr(optax, inner.pop("type"))
        return getattr(optax, kind)(factory, static_args=o.get("static_args", ()), hyperparam_dtype=DTYPES[o.get("hyperparam_dtype")])(**inner)
    if kind == "multi_steps":
        return optax.MultiSteps(optimizer(o["opt"]), o["every_k_schedule"])
    return getattr(optax if hasattr(optax, kind) else optax.contrib, kind)(**o)


CASES = {
    "compute_conv": (conv, {"compute": "bfloat16"}, SGD, {}),
    "compute_conv_float16": (conv, {"compute": "float16"}, {**SGD, "momentum": 0.5}, {}),
    "params_conv": (conv, {"params": "bfloat16"}, SGD, {}),
    # heads of 4 elements that are normalized: with other numbers, or for longer, their roundings grow without bounds
    "compute_attention": (attention, {"compute": "bfloat16"}, SGD, {"seed": 41, "steps": 3}),
    "all_attention": (attention, {"params": "bfloat16", "compute": "bfloat16", "loss_scale": {"type": "static", "scale": 512.0}}, SGD, {}),
    "params_attention": (attention, {"params": "bfloat16"}, SGD, {}),
    "compute_lstm": (recurrent("lstm_cell", nnx.LSTMCell), {"compute": "bfloat16"}, SGD, {}),
    "compute_optimized_lstm": (recurrent("optimized_lstm_cell", nnx.OptimizedLSTMCell), {"compute": "float16"}, SGD, {}),
    "compute_gru": (recurrent("gru_cell", nnx.GRUCell), {"compute": "bfloat16", "gradients": "bfloat16"}, SGD, {}),
    "all_simple_cell": (recurrent("simple_cell", nnx.SimpleCell), {"params": "bfloat16", "compute": "bfloat16"}, SGD, {}),
    "compute_lora": (lora, {"compute": "bfloat16"}, SGD, {}),
    "params_lora": (lora, {"params": "float16"}, SGD, {}),
    "own_dtypes": (own, {}, SGD, {}),
    "params_float16_momentum": (mlp, {"params": "float16"}, {**SGD, "momentum": 0.9}, {}),
    "params_adamw": (mlp, {"params": "bfloat16"}, ADAMW, {}),
    "params_lion": (mlp, {"params": "bfloat16", "compute": "bfloat16"}, {"type": "lion", "learning_rate": 0.01}, {}),
    "inject_sgd": (mlp, {"params": "bfloat16"}, {"type": "inject_hyperparams", "opt": {**SGD, "learning_rate": 0.23, "momentum": 0.77}}, {}),
    "inject_schedule": (mlp, {"params": "float16"}, {"type": "inject_hyperparams", "opt": {"type": "sgd", "momentum": 0.7, "learning_rate": {
        "type": "linear_schedule", "init_value": 0.3, "end_value": 0.017, "transition_steps": 7}}}, {}),
    "inject_dtype": (mlp, {}, {"type": "inject_hyperparams", "hyperparam_dtype": "bfloat16", "opt": {
        **ADAMW, "learning_rate": {"type": "constant_schedule", "value": 0.023},
        "weight_decay": {"type": "exponential_decay", "init_value": 0.13, "transition_steps": 2, "decay_rate": 0.7}}}, {}),
    "inject_stateful": (mlp, {"params": "bfloat16"}, {"type": "inject_stateful_hyperparams", "static_args": ["b2"], "opt": {**ADAMW, "learning_rate": {
        "type": "cosine_decay_schedule", "init_value": 0.03, "decay_steps": 9}}}, {}),
    "inject_stateful_sgd": (mlp, {}, {"type": "inject_stateful_hyperparams", "opt": {"type": "sgd", "learning_rate": 0.31, "momentum": {
        "type": "linear_schedule", "init_value": 0.3, "end_value": 0.9, "transition_steps": 4}}}, {}),
    "gradients_float16": (mlp, {"gradients": "float16"}, ADAMW, {}),
    "dynamic_clip_ema": (mlp, {"compute": "float16", "loss_scale": {**DYNAMIC, "minimum_scale": 65536.0}}, CLIPPED, {"ema": 0.5}),
    "dynamic_params": (mlp, {"params": "float16", "loss_scale": DYNAMIC}, SGD, {}),
    "dynamic_multi_steps": (mlp, {"compute": "float16", "loss_scale": {**DYNAMIC, "growth_factor": 4.0, "backoff_factor": 0.25}},
                            {"type": "multi_steps", "opt": SGD, "every_k_schedule": 2}, {}),
    "dynamic_accumulate": (mlp, {"compute": "float16", "loss_scale": DYNAMIC}, ADAMW, {"accumulate": 4}),
    "accumulate_running_mean": (mlp, {"params": "bfloat16"}, SGD, {"accumulate": 2, "accumulator": "running_mean", "split": "strided"}),
    "accumulate_sum_float16": (mlp, {"params": "float16", "compute": "bfloat16", "gradients": "bfloat16"}, CLIPPED, {"accumulate": 2, "accumulator": "sum", "split": "strided"}),
    "per_example_mean": (mlp, {"params": "bfloat16"}, SGD, {"clip": 0.5}),
    "dynamic_per_example": (mlp, {"compute": "float16", "loss_scale": DYNAMIC}, SGD, {"clip": 0.5}),
}


LOSSES = {SQUARES: lambda m, y: jnp.mean((m - y) ** 2), "sum((model - y)**2)": lambda m, y: jnp.sum((m - y) ** 2),
          "mean(huber_loss(model, y, delta=0.5))": lambda m, y: jnp.mean(optax.huber_loss(m, y, delta=0.5)),
          "mean((model - y)**2) + 0.1 * mean(logsumexp(model, axis=-1))": lambda m, y: jnp.mean((m - y) ** 2) + 0.1 * jnp.mean(jax.nn.logsumexp(m, axis=-1)),
          "mean((softmax(model) - y)**2)": lambda m, y: jnp.mean((jax.nn.softmax(m) - y) ** 2)}
METRICS = {"mean(model)": lambda m: jnp.mean(m), "max(model)": lambda m: jnp.max(m), "sum(model**2)": lambda m: jnp.sum(m ** 2), "var(model)": lambda m: jnp.var(m),
           "mean(softmax(model), axis=0)[0]": lambda m: jnp.mean(jax.nn.softmax(m), axis=0)[0]}


def accumulator(kind, count):
    """As optax.microbatching has them."""
    return {"sum": lambda *v: sum(v), "mean": lambda *v: sum(v) / count, "running_mean": lambda *v: running_mean(v)}[kind]


def running_mean(values):
    carry = jnp.zeros_like(values[0])
    for i, v in enumerate(values):
        p = np.float32(i) / np.float32(i + 1)  # takes the dtype of the values, as the weak float32 of Optax
        carry = carry * float(p) + v * float(np.float32(1) - p)
    return carry


def reference(name, make, precision, opt, more, steps, seed, noise=0.0):
    """A document, initial values, data, and what the steps give: tensors and metrics."""
    rng = np.random.default_rng(seed)
    dynamic = (precision.get("loss_scale") or {}).get("type") == "dynamic_scale"
    tokens = make not in SHAPES
    d, p = DTYPES[precision.get("compute")], DTYPES[precision.get("params", "float32")]
    block, module = make(d, p, nnx.Rngs(3))
    graph, params, rest = nnx.split(module, nnx.Param, ...)
    flat = lambda state: {".".join(map(str, k)): np.asarray(v[...], np.float32) for k, v in nnx.to_flat_state(state) if isinstance(v, (nnx.Param, nnx.BatchStat))}
    params = jax.tree.map(lambda v: jnp.asarray(v + 0.1 * rng.normal(size=v.shape), v.dtype), params)
    shape = (4, 5) if tokens else SHAPES[make]
    x0 = jnp.zeros(shape, jnp.int32 if tokens else jnp.float32)
    y_shape = nnx.merge(graph, params, rest, copy=True)(x0).shape
    data = {"tokens": rng.integers(0, 7, (steps, *shape)).astype(np.int32)} if tokens else {
        "x": rng.normal(size=(steps, *shape)).astype(np.float32), "y": rng.normal(size=(steps, *y_shape)).astype(np.float32)}
    if "factor" in more and "x" in data:
        data["x"] *= np.float32(more["factor"])
    if noise:
        data = {k: v if tokens else (v * (1 + noise * np.cos(np.arange(v.size).reshape(v.shape)))).astype(np.float32) for k, v in data.items()}
        jitter = lambda v: (v.astype(jnp.float32) * (1 + noise * jnp.cos(1 + jnp.arange(v.size).reshape(v.shape)))).astype(v.dtype)
        params = jax.tree.map(jitter, params)
    document = {"stepc": 1, "name": name, "inputs": {k: {"shape": list(v.shape[1:]), "dtype": str(v.dtype), "axes": ["batch"] + [None] * (v.ndim - 2)}
                                                     for k, v in data.items()},
                "model": block, "loss": more.get("loss", SQUARES), "optimizer": opt, "precision": precision}
    if tokens:
        document["loss"] = {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model[:, :-1]", "labels": "tokens[:, 1:]", "reduction": "mean"}
    if not precision:
        del document["precision"]
    measured = {"m%d" % i: m for i, m in enumerate(more.get("metrics", []))}
    if dynamic or measured:
        document["metrics"] = {**({"scale": "loss_scale"} if dynamic else {}), **measured}
    if "ema" in more:
        document["ema"] = {"decay": more["ema"]}
    kind = more.get("accumulator", "mean")
    if "accumulate" in more:
        document["accumulate"] = {"microbatch_size": more["accumulate"], "accumulator": kind, "split": more.get("split", "contiguous")}
    if "clip" in more:
        document["per_example"] = {"accumulator": kind, "transform": [{"type": "clip_by_global_norm", "max_norm": more["clip"]}]}

    tx = optax.with_extra_args_support(optimizer(opt))

    def loss_of(params, rest, batch):
        model = nnx.merge(graph, params, rest, copy=True)
        if tokens:
            out = model(batch["tokens"])
            l = optax.softmax_cross_entropy_with_integer_labels(out[:, :-1], batch["tokens"][:, 1:]).mean()
        else:
            out = model(batch["x"])
            l = LOSSES[more.get("loss", SQUARES)](out, batch["y"])
        return l, ({k: METRICS[m](out) for k, m in measured.items()}, nnx.split(model, nnx.Param, ...)[2])

    setting = precision.get("loss_scale")

    def gradient(params, rest, batch, scale):
        """Loss and metrics, statistics and unscaled gradients."""
        def scaled(*a):
            l, (m, r) = loss_of(*a)
            return l * scale, ({"loss": l, **m}, r)
        if setting is None:
            (l, (m, rest)), g = jax.value_and_grad(loss_of, has_aux=True)(params, rest, batch)
            return {"loss": l, **m}, rest, g
        g, (m, rest) = jax.grad(scaled, has_aux=True)(params, rest, batch)
        return m, rest, jax.tree.map(lambda g: g.astype(jnp.float32) / scale, g)

    def whole(params, rest, batch, scale):
        if "accumulate" in more:
            size, count = more["accumulate"], shape[0] // more["accumulate"]
            rows = [slice(i, None, count) if more.get("split") == "strided" else slice(size * i, size * (i + 1)) for i in range(count)]
            parts = [jax.tree.map(lambda v: v[r], batch) for r in rows]
            results = []
            for part in parts:
                m, rest, g = gradient(params, rest, part, scale)
                results.append((m, g))
            return *jax.tree.map(accumulator(kind, len(parts)), *results), rest
        if "clip" in more:
            clip = optax.clip_by_global_norm(more["clip"])
            one = lambda row: (lambda m, r, g: (m, clip.update(g, clip.init(g))[0]))(*gradient(params, rest, jax.tree.map(lambda v: v[None], row), scale))
            ms, gs = jax.vmap(one)(batch)
            of_all = lambda v: v.sum(0) if kind == "sum" else v.mean(0)
            return jax.tree.map(of_all, ms), jax.tree.map(of_all, gs), rest
        m, rest, g = gradient(params, rest, batch, scale)
        return m, g, rest

    @jax.jit
    def step(params, rest, state, ema, scale, fin, batch):
        m, g, rest = whole(params, rest, batch, scale)
        if precision.get("gradients"):
            g = jax.tree.map(lambda g: g.astype(DTYPES[precision["gradients"]]), g)
        finite = jnp.all(jnp.stack([jnp.isfinite(v).all() for v in jax.tree.leaves(g)]))
        u, new_state = tx.update(g, state, params, value=m["loss"])
        new = optax.apply_updates(params, u)
        # the dtypes of a state are those it began with
        new_state = jax.tree.map(lambda a, b: a.astype(jnp.asarray(b).dtype), new_state, state)
        if dynamic:
            new, new_state = jax.tree.map(lambda a, b: jnp.where(finite, a, b), (new, new_state), (params, state))
            grow = fin == setting["growth_interval"]
            larger = jnp.where(grow & finite, scale * setting.get("growth_factor", 2.0), scale)
            smaller = jnp.maximum(scale * setting.get("backoff_factor", 0.5), setting.get("minimum_scale", 0.0))
            scale, fin = jnp.where(finite, larger, smaller), jnp.where(grow | ~finite, 0, fin + 1)
        if "ema" in more:
            ema = jax.tree.map(lambda e, p: more["ema"] * e + (1 - more["ema"]) * p, ema, new)
        return new, rest, new_state, ema, scale, fin, m

    init = {**flat(params), **flat(rest)}
    state, ema = tx.init(params), params
    scale, fin = jnp.float32(setting["scale"] if setting else 1), jnp.int32(0)
    expected = {"loss": [], **({"scale": []} if dynamic else {}), **{k: [] for k in measured}}
    for i in range(steps):
        if dynamic:
            expected["scale"].append(float(scale))
        params, rest, state, ema, scale, fin, m = step(params, rest, state, ema, scale, fin, {k: jnp.asarray(v[i]) for k, v in data.items()})
        for k, v in m.items():
            expected[k].append(np.asarray(v, np.float64).tolist())
    final = {**flat(params), **flat(rest)}
    if "ema" in more:
        final.update({"ema." + k: v for k, v in flat(ema).items()})
    return document, init, data, final, expected


def tolerances(make, precision):
    half = {precision.get(k) for k in ("params", "compute", "gradients")} | ({"bfloat16"} if make is own else set())
    params_half = precision.get("params", "float32") != "float32"
    rtol = 0.02 if "bfloat16" in half else 0.003
    if make is conv:  # XLA multiplies by rounded reciprocals where the model divides
        rtol *= 3
    if make is attention:
        rtol *= 2
    return rtol * (2 if params_half else 1), rtol / (2 if params_half or make is attention else 4)


def record(name, out):
    make, precision, opt, more = CASES[name]
    steps = more.get("steps", 12 if precision.get("loss_scale", {}).get("type") == "dynamic_scale" else 6)
    document, init, data, final, expected = reference(name, make, precision, opt, more, steps, more.get("seed", 11 + len(name)))
    recorded.record("mixed_" + name, document, data, init, steps, final, expected, *tolerances(make, precision), out=out)
    print(name, expected["loss"][0], expected["loss"][-1], [int(s) for s in expected.get("scale", [])])


if __name__ == "__main__":
    command.record(__doc__, list(CASES), record)
