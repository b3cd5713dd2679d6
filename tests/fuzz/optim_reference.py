"""What a document's optimizer means: its JSON object as a transformation of Optax 0.2.8 over a dict of parameters by path.

T5X's rules are written out here from their definitions (T5X is not installable beside a current JAX), as are the
arguments that Optax has had only since 0.2.8. Expressions and patterns are those of the language, as far as the fuzzer
writes them.
"""
import fnmatch
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax

HOMES = [optax, optax.transforms, optax.contrib] + [m for n, m in vars(optax.contrib).items() if n.startswith("_") and inspect.ismodule(m)]


# ---------------------------------------------------------------- patterns, expressions

def match(pattern, path):
    """`**` any number of segments, `*` within one, `{a,b}` either."""
    if "{" in pattern:
        head, rest = pattern.split("{", 1)
        inner, tail = rest.split("}", 1)
        return any(match(head + x + tail, path) for x in inner.split(","))

    def segments(p, s):
        if not p:
            return not s
        if p[0] == "**":
            return any(segments(p[1:], s[i:]) for i in range(len(s) + 1))
        return bool(s) and fnmatch.fnmatchcase(s[0], p[0]) and segments(p[1:], s[1:])

    return segments(pattern.split("."), path.split("."))


def first(entries, path, missing=None):
    return next((v for p, v in entries.items() if match(p, path)), missing)


def mask(patterns):
    inside = lambda k: any(match(p, k) for p in patterns)
    return lambda tree: {k: inside(k) for k in tree} if isinstance(tree, dict) else inside("")


def by_label(labels, missing=None):
    return lambda tree: {k: first(labels, k, missing) if hasattr(v, "shape") else v for k, v in tree.items()}


def expression(text, *names):
    env = {"global_norm": optax.global_norm, "where": jnp.where, "sqrt": jnp.sqrt, "abs": jnp.abs, "minimum": jnp.minimum, "maximum": jnp.maximum, "sum": jnp.sum}
    return lambda *values: eval(text, env, dict(zip(names, values)))


def measure(m):
    if isinstance(m, str):
        return expression(m, "updates", "params")
    rest = {k: dtype(v) if k.endswith("dtype") else v for k, v in m.items() if k not in ("type", "measure")}
    return optax.transforms.measure_with_ema(measure(m["measure"]), **rest)


def dtype(name):
    return None if name is None else jnp.dtype(name)


# ---------------------------------------------------------------- schedules

T5X_FACTORS = {
    "constant": lambda s, a: a["base_learning_rate"],
    "linear_warmup": lambda s, a: jnp.minimum(1.0, s / a["warmup_steps"]),
    "linear_decay": lambda s, a: a["base_learning_rate"] * jnp.minimum(s / a["warmup_steps"], 1 + a["decay_factor"] * (a["warmup_steps"] - s)),
    "rsqrt_decay": lambda s, a: 1 / jnp.sqrt(jnp.maximum(s, a["warmup_steps"])),
    "rsqrt_normalized_decay": lambda s, a: np.sqrt(a["warmup_steps"]) / jnp.sqrt(jnp.maximum(s, a["warmup_steps"])),
    "decay_every": lambda s, a: a["decay_factor"] ** (s // a["steps_per_decay"]),
    "cosine_decay": lambda s, a: jnp.maximum(0.0, 0.5 * (1 + jnp.cos(jnp.pi * (jnp.maximum(0.0, (s - a["warmup_steps"]) / float(a["steps_per_cycle"])) % 1.0)))),
}
T5X_SCHEDULE = {"factors": "constant * linear_warmup * rsqrt_decay", "base_learning_rate": 0.5, "warmup_steps": 1000, "decay_factor": 0.5,
                "steps_per_decay": 20000, "steps_per_cycle": 100000, "step_offset": 0, "min_learning_rate": 1e-8}


def t5x_schedule(o):
    a = {**T5X_SCHEDULE, **o}

    def at(step):
        s, rate = jnp.maximum(0, step - a["step_offset"]), 1.0
        for name in a["factors"].split("*"):
            rate = rate * T5X_FACTORS[name.strip()](s, a)
        return jnp.asarray(jnp.maximum(rate, a["min_learning_rate"]), jnp.float32)

    return at


def is_schedule(o):
    return isinstance(o, dict) and "type" in o and ("schedule" in o["type"] and not o["type"].startswith(("scale_by", "schedule_free"))
                                                    or o["type"] in ("exponential_decay",))


def schedule(o):
    o = dict(o)
    name = o.pop("type")
    if name.startswith("t5x"):
        return t5x_schedule(o)
    if o.get("boundaries_and_scales"):
        o["boundaries_and_scales"] = {int(k): v for k, v in o["boundaries_and_scales"].items()}
    if "schedules" in o:
        o["schedules"] = [schedule(s) for s in o["schedules"]]
    return getattr(optax.schedules, name)(**o)


def rate_of(x):
    return schedule(x) if isinstance(x, dict) else lambda c: x


# ---------------------------------------------------------------- T5X

STANDARD = dict(vocab="col", embed="row", mlp="col", heads="col", kv="col", joined_kv="col", relpos_buckets="none", layers="batch", stack="batch",
                q_wi_fused="col", o_wo_fused="col", multiquery_heads="col", kv_fused="col", layer_norm_scale="none", mlp_activations="col",
                expert="batch", expert_mlp="col", unmodeled="none", mlp_embed="row")


def factor_rule(o, path, shape, axes):
    """Row dimensions, column dimensions (None: not factored) and those that averages go over."""
    rank, least, everything = len(shape), o.get("min_dim_size_to_factor", 128), tuple(range(len(shape)))

    def by_size():
        if rank < 2 or not o.get("factored", True):
            return None
        order = np.argsort(shape)
        return None if shape[order[-2]] < least else ((int(order[-2]),), (int(order[-1]),))

    if not o.get("factored", True):
        return None, everything
    rule = "heuristic"
    if o.get("logical_factor_rules") is not None:
        rules = STANDARD if o["logical_factor_rules"] == "standard" else o["logical_factor_rules"]
        rule = [rules[a] if a else "none" for a in first(axes, path)]
        if not ({"row", "col"} <= {{"column": "col"}.get(r, r) for r in rule}):
            rule = ["batch" if r == "batch" else "none" for r in rule]
    elif o.get("factor_map") is not None:
        rule = first(o["factor_map"], path)
    if rule is None:
        return None, everything
    if rule == "heuristic" or (rank <= 2 and "batch" not in rule):
        return by_size(), everything
    rows = tuple(i for i, r in enumerate(rule) if r == "row")
    cols = tuple(i for i, r in enumerate(rule) if r in ("col", "column"))
    return ((rows, cols) if rows + cols else None), tuple(i for i, r in enumerate(rule) if r != "batch")


def of_leaves(init, update):
    """A transformation of the leaves that no mask took away."""
    there = lambda tree: {k: v for k, v in tree.items() if hasattr(v, "shape")}

    def masked(g, s, p=None, **_):
        u, s = update(there(g), s, there(p))
        return {**g, **u}, s

    return optax.GradientTransformationExtraArgs(lambda p: init(there(p)), masked)


def t5x_adafactor(o, axes):
    rate, offset, decay_rate = rate_of(o["learning_rate"]), o.get("step_offset", 0), o.get("decay_rate", 0.8)
    eps1, eps2, clip = o.get("epsilon1", 1e-30), o.get("epsilon2", 1e-3), o.get("clipping_threshold", 1.0)
    beta1, shrink, power = o.get("beta1"), o.get("weight_decay_rate"), o.get("weight_decay_rate_lr_exponent")
    scaled, largest, momentum = o.get("multiply_by_parameter_scale", True), o.get("max_parameter_scale"), dtype(o.get("dtype_momentum", "float32"))
    most, skip = o.get("global_norm_clip_threshold"), o.get("skip_nan_updates", False)

    def start(path, p):
        factors, _ = factor_rule(o, path, p.shape, axes)
        s = {k: jnp.zeros(1) for k in ("row", "col", "v", "m")}
        if factors is not None:
            s["row"], s["col"] = jnp.zeros(tuple(np.delete(p.shape, factors[1]))), jnp.zeros(tuple(np.delete(p.shape, factors[0])))
        else:
            s["v"] = jnp.zeros(p.shape)
        if beta1 is not None:
            s["m"] = jnp.zeros(p.shape, momentum)
        return s

    def leaf(path, g, s, p, count):
        factors, over = factor_rule(o, path, p.shape, axes)
        g = g.astype(jnp.float32)
        rms = lambda x: jnp.sqrt(jnp.mean(x * x, axis=over, keepdims=True))
        lr, new = rate(count), {k: jnp.zeros(1) for k in s}
        decay = shrink if not power else (shrink or 1.0) * lr ** power
        beta = 1.0 - (jnp.array(count - offset, jnp.float32) + 1.0) ** (-decay_rate)
        size = lr
        if scaled if isinstance(scaled, bool) else first(scaled, path):
            scale = jnp.maximum(rms(p), eps2)
            size = lr * (scale if largest is None else jnp.minimum(scale, largest))
        sq = g * g + eps1
        if factors is not None:
            rows, cols = factors
            new["row"] = beta * s["row"] + (1 - beta) * jnp.mean(sq, axis=cols)
            new["col"] = beta * s["col"] + (1 - beta) * jnp.mean(sq, axis=rows)
            there = tuple(d - sum(c < d for c in cols) for d in rows)
            by_row = (new["row"] / jnp.mean(new["row"], axis=there, keepdims=True)) ** -0.5
            y = g * jnp.expand_dims(by_row, cols) * jnp.expand_dims(new["col"] ** -0.5, rows)
        else:
            new["v"] = beta * s["v"] + (1 - beta) * sq
            y = g * new["v"] ** -0.5
        if clip is not None:
            y = y / jnp.maximum(1.0, rms(y) / clip)
        y = size * y
        if beta1 is not None:
            y = beta1 * s["m"] + (1 - beta1) * y
            new["m"] = y.astype(momentum)
        q = (1 - decay) * p - y if decay is not None else p - y
        if skip:
            new = {k: jnp.where(jnp.isnan(v), s[k], v) for k, v in new.items()}
            q = jnp.where(jnp.isnan(q), p, q)
        return q - p, new

    def update(g, s, p):
        if most:
            norm = jnp.sqrt(sum(jnp.sum(x * x) for x in g.values()))
            g = {k: x * (most * jnp.minimum(1 / most, 1 / norm)) for k, x in g.items()}
        new = {k: leaf(k, g[k], s["of"][k], p[k], s["count"]) for k in g}
        return {k: u for k, (u, _) in new.items()}, {"count": s["count"] + 1, "of": {k: x for k, (_, x) in new.items()}}

    return of_leaves(lambda p: {"count": jnp.int32(0), "of": {k: start(k, x) for k, x in p.items()}}, update)


def scale_by_amos(o):
    rate, beta, l2 = rate_of(o["learning_rate"]), o.get("beta", 0.999), o.get("extra_l2", 0.0)
    c_coef, d_coef, eps, shapes = o.get("c_coef", 0.25), o.get("d_coef", 0.25), o.get("epsilon", 2.0 ** -125), o.get("shape_fn") or {}

    def eta(path, shape):
        value = first(o["eta_fn"], path)
        return expression(value, "SHAPE")(shape) if isinstance(value, str) else value

    def slot(path, p):
        kept = first(shapes, path)
        return p.shape if kept is None else tuple(p.shape[i] if k is None else k for i, k in enumerate(kept))

    def leaf(path, g, v, b, p, count):
        xi, e = rate(count), eta(path, p.shape)
        if v.shape:
            sq = jnp.mean(g * g, axis=tuple(i for i, k in enumerate(g.shape) if v.shape[i] < k), keepdims=True)
        else:
            sq = jnp.mean(g * g)
        v = beta * v + (1 - beta) * sq
        r = (1 - beta ** count) / jnp.maximum(v, eps)
        gamma = xi ** 2 * r * sq / jnp.sqrt(1 + c_coef * jnp.sqrt(xi) * b)
        u = ((-gamma / 2 - l2) * p - xi * e * jnp.sqrt(r) * g) / (1 + d_coef * jnp.sqrt(xi * e) * b)
        return u, v, b + gamma * (1 + b)

    def update(g, s, p):
        new = {k: leaf(k, g[k], s["v"][k], s["b"][k], p[k], s["count"] + 1) for k in g}
        return {k: x[0] for k, x in new.items()}, {"count": s["count"] + 1, "v": {k: x[1] for k, x in new.items()}, "b": {k: x[2] for k, x in new.items()}}

    zeros = lambda p: {k: jnp.zeros(slot(k, x)) for k, x in p.items()}
    return of_leaves(lambda p: {"count": jnp.int32(0), "v": zeros(p), "b": zeros(p)}, update)


# ---------------------------------------------------------------- objects

def without_extra(t):
    """Some transformations take no further keywords, though they say so."""
    return optax.GradientTransformationExtraArgs(t.init, lambda u, s, p=None, **_: t.update(u, s, p))


def with_only(t, *names):
    return optax.GradientTransformationExtraArgs(t.init, lambda u, s, p=None, **e: t.update(u, s, p, **{k: v for k, v in e.items() if k in names}))


def prodigy_masked(decayed, plain, patterns):
    """Decay leaves Prodigy's state alone, so that the masked form chooses between the updates with and without it."""
    def update(g, s, p=None, **_):
        with_decay, new = decayed.update(g, s, p)
        without, _ = plain.update(g, s, p)
        return {k: with_decay[k] if patterns is None or any(match(x, k) for x in patterns) else without[k] for k in g}, new

    return optax.GradientTransformationExtraArgs(decayed.init, update)


def make(o, axes=None):
    """The transformation that the object describes; `axes`: logical names of the parameters' dimensions, by pattern."""
    o = dict(o)
    name = o.pop("type")
    inner = lambda x: make(x, axes)
    if name in ("chain", "named_chain"):
        parts = o["transforms"]
        return optax.chain(*map(inner, parts)) if name == "chain" else optax.named_chain(*[(k, inner(t)) for k, t in parts.items()])
    if name in ("partition", "multi_transform"):
        labels = o["labels"]
        return optax.partition({k: inner(t) for k, t in o["transforms"].items()}, by_label(labels),
                               mask_compatible_extra_args=o.get("mask_compatible_extra_args", False))
    if name == "multi_optimizer":  # parameters of no set are left alone
        groups = {str(i): inner(x["opt"]) for i, x in enumerate(o["optimizers"])} | {"none": optax.set_to_zero()}
        labels = {p: str(i) for i, x in enumerate(o["optimizers"]) for p in x["match"]} | {"**": "none"}
        return without_extra(optax.partition(groups, by_label(labels)))  # T5X hands on gradients and parameters alone
    if name == "selective_transform":  # whose mask Optax takes as a tree alone
        frozen = mask(o["freeze_mask"])
        return optax.partition({"train": inner(o["optimizer"]), "freeze": optax.set_to_zero()}, lambda tree: {k: "freeze" if v else "train" for k, v in frozen(tree).items()})
    if name == "maybe_update":  # the old name
        return inner({"type": "conditionally_transform", "inner": o["inner"], "should_transform_fn": o["should_update_fn"]})
    if name == "t5x_adafactor":
        return t5x_adafactor(o, axes)
    if name == "scale_by_amos":
        return scale_by_amos(o)
    if name == "amos":
        parts = [optax.clip(o["clip_value"])] if o.get("clip_value") else []
        return optax.chain(*parts, scale_by_amos(o), *([optax.ema(o["momentum"], debias=False)] if o.get("momentum") else []))
    if name == "inject_hyperparams":
        opt, static = dict(o["opt"]), o.get("static_args", [])
        factory, args = factory_of(opt.pop("type")), arguments(opt, inner)
        keep = [k for k in args if k.endswith(("mask", "axis", "memory_size", "num_betas"))]
        static = [*static, *keep, *[k for k, p in inspect.signature(factory).parameters.items() if isinstance(args.get(k, p.default), int) and k not in keep and k not in static]]
        return optax.inject_hyperparams(factory, static_args=static, hyperparam_dtype=dtype(o.get("hyperparam_dtype")))(**args)
    if name == "stateless":
        f = expression(o["f"], "updates", "params", "update", "param")
        return optax.stateless(lambda u, p: {k: f(u, p, v, p[k]) if hasattr(v, "shape") else v for k, v in u.items()})
    if name == "stateless_with_tree_map":
        return optax.stateless_with_tree_map(lambda u, p, f=expression(o["f"], "update", "param"): f(u, p) if hasattr(u, "shape") else u)
    if name == "snapshot":
        return optax.transforms.snapshot(o["measure_name"], measure(o["measure"]))
    if name == "monitor":
        return optax.transforms.monitor({k: measure(v) for k, v in o["measures"].items()})
    if name == "adabelief" and {"weight_decay", "mask", "weight_decay_mask"} & set(o):  # since 0.2.9
        decay, where = o.pop("weight_decay", None), o.pop("mask", None) or o.pop("weight_decay_mask", None)
        o.pop("weight_decay_mask", None)
        rate = o.pop("learning_rate")
        parts = [{"type": "scale_by_belief", **o}, {"type": "scale_by_learning_rate", "learning_rate": rate}]
        if decay is not None:
            parts.insert(1, {"type": "add_decayed_weights", "weight_decay": decay, "mask": where})
        return inner({"type": "chain", "transforms": parts})
    if name == "prodigy" and {"mask", "weight_decay_mask"} & set(o):  # since 0.2.9: as in the paper's code, what is decayed
        where = o.pop("mask", None) or o.pop("weight_decay_mask", None)
        o.pop("weight_decay_mask", None)
        return prodigy_masked(inner({"type": name, **o}), inner({"type": name, **o, "weight_decay": 0.0}), where)
    if name == "scale_by_muon" and not o.get("weight_dimension_numbers"):
        o["weight_dimension_numbers"] = {"**": {}}
    o.pop("nan_passes", None)
    given = arguments(o, inner)
    if name in ("dpsgd", "differentially_private_aggregate"):
        given |= {k: o[k] for k in ("seed", "key") if k in o}
    t = factory_of(name)(**given)
    if name == "multi_steps":
        return optax.GradientTransformationExtraArgs(t.init, t.update)
    if name == "sam":
        return with_only(t, "grad_fn")
    if name in ("lookahead", "scale_by_lbfgs"):
        return without_extra(t)
    if name in ("lbfgs", "scale_by_zoom_linesearch", "scale_by_backtracking_linesearch"):
        return with_only(t, "value", "grad", "value_fn")
    return t


def factory_of(name):
    if name == "multi_steps":
        return optax.MultiSteps
    if name == "normalize":
        return optax.contrib.normalize
    return next(getattr(m, name) for m in HOMES if hasattr(m, name))


def numbers_of_dimensions(entries, kind):
    def spec(v):
        axes = lambda x: tuple(x) if isinstance(x, list) else x
        return None if v is None else kind(**{k: axes(x) for k, x in v.items()})
    return lambda tree: {k: spec(first(entries, k)) if hasattr(v, "shape") else v for k, v in tree.items()}


def arguments(o, inner):
    out = {}
    for k, v in o.items():
        if k.endswith("mask") and v is not None:
            v = mask(v)
        elif k.endswith("dtype"):
            v = dtype(v)
        elif k.endswith("dimension_numbers") and v is not None:
            v = numbers_of_dimensions(v, optax.contrib.MuonDimensionNumbers if "update_proj_gap" not in o else optax.contrib.GaLoreDimensionNumbers)
        elif k == "clip_value_fn":
            v = expression(v, "x")
        elif k == "decay_rate_fn":
            v = expression(v, "step", "decay_rate")
        elif k == "should_transform_fn":
            v = expression(v, "step")
        elif k == "every_k_schedule" and not isinstance(v, int):
            f = expression(v, "gradient_step") if isinstance(v, str) else schedule(v)
            v = lambda c, f=f: jnp.asarray(f(c)).astype(jnp.int32)
        elif k == "should_skip_update_fn" and v is not None:
            v = (lambda u, g, p, n=v["max_squared_norm"]: optax.skip_large_updates(u, g, p, n)) if v["type"] == "skip_large_updates" else optax.skip_not_finite
        elif k in ("key", "seed", "random_seed"):
            v = jax.random.key(v)
        elif k in ("betas", "init_step") or (k == "axis" and isinstance(v, list)):
            v = tuple(v)
        elif k == "ns_coeffs" and isinstance(v, list):
            v = tuple(tuple(x) for x in v) if isinstance(v[0], list) else tuple(v)
        elif is_schedule(v):
            v = schedule(v)
        elif isinstance(v, dict):
            v = inner(v)
        out[k] = v
    return out
