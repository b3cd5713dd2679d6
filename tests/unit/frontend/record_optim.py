#!/usr/bin/env python3
"""Records optimizer trajectories with optax (0.2.8 was used) into optim_cases.json, which test_optim.c replays.

Each case is an optimizer as a document spells it. The gradients are the same for all cases; the parameters after the
first and after the last step are recorded. Schedules are recorded at a list of steps.
"""
import json
import os
import fnmatch
import numpy as np
import jax
import jax.numpy as jnp
import optax

STEPS = 7
SHAPES = {"layers.0.kernel": (3, 4), "layers.0.bias": (4,), "layers.1.kernel": (4, 2), "scale": ()}
rng = np.random.default_rng(0)
INITIAL = {k: np.asarray(rng.normal(size=s), np.float32) for k, s in SHAPES.items()}
GRADS = [{k: np.asarray(rng.normal(size=s) * (0.1 + t % 3), np.float32) for k, s in SHAPES.items()} for t in range(STEPS)]

LR = {"type": "linear_schedule", "init_value": 0.3, "end_value": 0.01, "transition_steps": 4}
ADAM = {"type": "adam", "learning_rate": 0.01}
SGD = {"type": "sgd", "learning_rate": 0.1}
OPTIMIZERS = [
    SGD, {**SGD, "momentum": 0.9}, {**SGD, "momentum": 0.9, "nesterov": True}, {**SGD, "learning_rate": LR, "momentum": 0.5},
    {**SGD, "momentum": 0.5, "accumulator_dtype": "bfloat16"},
    ADAM, {**ADAM, "learning_rate": LR}, {**ADAM, "nesterov": True, "eps_root": 1e-4}, {**ADAM, "b1": 0.5, "mu_dtype": "bfloat16"},
    {"type": "nadam", "learning_rate": 0.01},
    {"type": "adamw", "learning_rate": 0.01, "weight_decay": 0.2}, {"type": "adamw", "learning_rate": LR, "weight_decay": LR, "mask": ["**.kernel"]},
    {"type": "nadamw", "learning_rate": 0.01, "weight_decay": 0.1},
    {"type": "amsgrad", "learning_rate": 0.01}, {"type": "amsgrad", "learning_rate": 0.01, "bias_correction_mu": False, "bias_correction_nu": False},
    {"type": "adamax", "learning_rate": 0.01}, {"type": "adamaxw", "learning_rate": 0.01, "mask": ["scale"]},
    {"type": "adabelief", "learning_rate": 0.01}, {"type": "yogi", "learning_rate": 0.01},
    {"type": "adagrad", "learning_rate": 0.1}, {"type": "adagrad", "learning_rate": 0.1, "initial_accumulator_value": 0.0},
    {"type": "adadelta", "learning_rate": 1.0, "weight_decay": 0.1}, {"type": "adadelta"},
    {"type": "rmsprop", "learning_rate": 0.01}, {"type": "rmsprop", "learning_rate": LR, "centered": True, "momentum": 0.5, "nesterov": True},
    {"type": "rmsprop", "learning_rate": 0.01, "eps_in_sqrt": False, "initial_scale": 0.5, "bias_correction": True},
    {"type": "lion", "learning_rate": 0.01}, {"type": "scale_by_lion", "mode": "smooth", "smooth_beta": 2.0}, {"type": "scale_by_lion", "mode": "refined"},
    {"type": "lamb", "learning_rate": 0.1, "weight_decay": 0.1}, {"type": "lars", "learning_rate": 1.0, "weight_decay": 0.1, "trust_ratio_mask": ["**.kernel"]},
    {"type": "lars", "learning_rate": LR, "weight_decay_mask": ["scale"], "weight_decay": 0.5},
    {"type": "sign_sgd", "learning_rate": 0.01}, {"type": "signum", "learning_rate": 0.01},
    {"type": "identity"}, {"type": "set_to_zero"}, {"type": "scale", "step_size": -0.5},
    {"type": "scale_by_learning_rate", "learning_rate": 0.1, "flip_sign": False}, {"type": "scale_by_schedule", "step_size_fn": LR},
    {"type": "trace", "decay": 0.9}, {"type": "ema", "decay": 0.9}, {"type": "ema", "decay": 0.5, "debias": False, "accumulator_dtype": "bfloat16"},
    {"type": "add_decayed_weights", "weight_decay": 0.1, "mask": ["**.bias"]}, {"type": "clip", "max_delta": 0.3},
    {"type": "clip_by_block_rms", "threshold": 0.5}, {"type": "clip_by_global_norm", "max_norm": 1.0}, {"type": "clip_by_global_norm", "max_norm": 100.0},
    {"type": "centralize"}, {"type": "zero_nans"}, {"type": "keep_params_nonnegative"}, {"type": "normalize_by_update_norm"},
    {"type": "scale_by_param_block_norm"}, {"type": "scale_by_param_block_rms"}, {"type": "scale_by_trust_ratio", "min_norm": 0.5},
    {"type": "chain", "transforms": [{"type": "clip", "max_delta": 1.0}, {"type": "chain", "transforms": [{"type": "trace", "decay": 0.5}, SGD]}]},
    {"type": "named_chain", "transforms": {"clip": {"type": "clip", "max_delta": 1.0}, "rest": ADAM}},
    {"type": "masked", "inner": ADAM, "mask": ["layers.0.*"]},
    {"type": "partition", "transforms": {"k": ADAM, "b": SGD}, "labels": {"**.kernel": "k", "**": "b"}},
    {"type": "multi_steps", "opt": ADAM, "every_k_schedule": 3},
    {"type": "multi_steps", "opt": {**ADAM, "learning_rate": LR}, "every_k_schedule": 2, "use_grad_mean": False},
    {"type": "multi_steps", "opt": {"type": "multi_steps", "opt": SGD, "every_k_schedule": 2}, "every_k_schedule": 2},
    {"type": "multi_steps", "opt": ADAM, "every_k_schedule": 2, "should_skip_update_fn": {"type": "skip_large_updates", "max_squared_norm": 50.0}},
    {"type": "chain", "transforms": [SGD, {"type": "apply_every", "k": 3}]},
    {"type": "apply_if_finite", "inner": ADAM, "max_consecutive_errors": 2},
    {"type": "scale_by_adam"}, {"type": "scale_by_amsgrad"}, {"type": "scale_by_adamax"}, {"type": "scale_by_belief", "nesterov": True}, {"type": "scale_by_yogi"},
    {"type": "scale_by_rms"}, {"type": "scale_by_stddev", "bias_correction": True, "eps": 0.1}, {"type": "scale_by_rss"}, {"type": "scale_by_adadelta"},
    {"type": "scale_by_sign"}, {"type": "freeze", "mask": ["**.bias"]},
    {"type": "conditionally_transform", "inner": ADAM, "should_transform_fn": "step < 3"},
    {"type": "conditionally_mask", "inner": ADAM, "should_transform_fn": "step % 2 == 1"},
    {"type": "multi_transform", "transforms": {"k": ADAM, "b": {"type": "set_to_zero"}}, "labels": {"layers.**": "k", "scale": "b"}},
    {"type": "multi_steps", "opt": ADAM, "every_k_schedule": "where(gradient_step < 1, 1, 2)"},
    {"type": "multi_steps", "opt": ADAM, "every_k_schedule": {"type": "piecewise_constant_schedule", "init_value": 1, "boundaries_and_scales": {"2": 3}}},
    {"type": "radam", "learning_rate": 0.01}, {"type": "radam", "learning_rate": 0.01, "nesterov": True, "b2": 0.9}, {"type": "scale_by_radam", "b2": 0.5},
    {"type": "adan", "learning_rate": 0.01, "weight_decay": 0.1}, {"type": "scale_by_adan"}, {"type": "novograd", "learning_rate": 0.01, "weight_decay": 0.1},
    {"type": "scale_by_novograd"}, {"type": "acprop", "learning_rate": 0.01}, {"type": "scale_by_acprop", "eps": 0.01},
    {"type": "ademamix", "learning_rate": 0.01, "alpha": LR}, {"type": "scale_by_ademamix"}, {"type": "simplified_ademamix", "learning_rate": 0.01, "alpha": 2.0},
    {"type": "scale_by_simplified_ademamix"}, {"type": "adopt", "learning_rate": 0.01}, {"type": "scale_by_adopt", "nesterov": True, "clip_value_fn": "x**0.5"},
    {"type": "rprop", "learning_rate": 0.01}, {"type": "scale_by_rprop", "learning_rate": 0.1}, {"type": "scale_by_optimistic_gradient", "alpha": 0.5},
    {"type": "optimistic_gradient_descent", "learning_rate": 0.01}, {"type": "optimistic_adam", "learning_rate": 0.01}, {"type": "optimistic_adam_v2", "learning_rate": LR},
    {"type": "scale_by_factored_rms", "min_dim_size_to_factor": 2}, {"type": "adafactor", "learning_rate": 0.01, "min_dim_size_to_factor": 3, "momentum": 0.5, "weight_decay_rate": 0.1},
    {"type": "adafactor"}, {"type": "fromage", "learning_rate": 0.1}, {"type": "fromage", "learning_rate": LR}, {"type": "normalize"},
    {"type": "adaptive_grad_clip", "clipping": 0.1}, {"type": "polyak_sgd", "max_learning_rate": 0.3, "scaling": 0.5, "variant": "sps+"}, {"type": "scale_by_polyak", "f_min": -2.0},
    {"type": "chain", "transforms": [SGD, {"type": "reduce_on_plateau", "factor": 0.5, "patience": 1, "cooldown": 1}]},
    {"type": "masked", "inner": {"type": "sm3", "learning_rate": 0.1}, "mask": ["layers.**"]}, {"type": "masked", "inner": {"type": "scale_by_sm3", "b2": 0.9}, "mask": ["layers.**"]},
    {"type": "selective_transform", "optimizer": ADAM, "freeze_mask": ["**.bias"]},
    {"type": "t5x_adafactor", "learning_rate": LR, "min_dim_size_to_factor": 3, "beta1": 0.5, "weight_decay_rate": 0.1},
    {"type": "t5x_adafactor", "learning_rate": 0.1, "factor_map": {"layers.0.kernel": ["batch", "none"], "layers.1.kernel": ["row", "batch"], "**": None}},
    {"type": "amos", "learning_rate": LR, "eta_fn": {"**.kernel": 0.5, "**": 1.0}, "shape_fn": {"layers.0.kernel": [1, None]}, "momentum": 0.5, "clip_value": 0.3},
    {"type": "scale_by_amos", "learning_rate": 0.1, "eta_fn": {"**": 1.0}, "beta": 0.9, "extra_l2": 0.01},
    {"type": "multi_optimizer", "optimizers": [{"match": ["**.kernel"], "opt": ADAM}, {"match": ["scale"], "opt": SGD}]},
    {"type": "dog"}, {"type": "dog", "init_step": ["learning_rate", 0.1], "weight_decay": 0.1}, {"type": "dowg", "init_estim_sq_dist": 0.1}, {"type": "scale_by_distance_over_gradients"},
    {"type": "dadapt_adamw", "betas": [0.8, 0.9]}, {"type": "prodigy", "weight_decay": 0.1}, {"type": "cocob", "weight_decay": 0.1}, {"type": "scale_by_cocob"},
    {"type": "madgrad", "learning_rate": LR}, {"type": "scale_by_madgrad", "learning_rate": 0.1}, {"type": "momo", "adapt_lower_bound": True, "weight_decay": 0.1}, {"type": "momo_adam"},
    {"type": "lbfgs", "learning_rate": 0.01, "linesearch": None, "memory_size": 3}, {"type": "lbfgs", "linesearch": None}, {"type": "scale_by_lbfgs", "memory_size": 2, "scale_init_precond": False},
    {"type": "sam", "optimizer": ADAM, "adv_optimizer": {"type": "chain", "transforms": [{"type": "normalize"}, {**SGD, "momentum": 0.5}]}, "sync_period": 2},
    {"type": "lookahead", "fast_optimizer": ADAM, "sync_period": 3, "slow_step_size": 0.5, "reset_state": True},
    {"type": "mechanize", "base_optimizer": ADAM},
    {"type": "inject_hyperparams", "opt": {**ADAM, "learning_rate": LR}},
    {"type": "muon", "learning_rate": 0.1}, {"type": "muon", "learning_rate": LR, "ns_coeffs": "dion", "adaptive": True, "adam_learning_rate": 0.01, "weight_decay": 0.1, "consistent_rms": 0.2},
    {"type": "muon", "learning_rate": 0.1, "preconditioning": "aol", "nesterov": False, "ns_steps": 3},
    {"type": "muon", "learning_rate": 0.1, "preconditioning": "schatten", "ns_coeffs": [2.0, -1.5, 0.5]},
    {"type": "masked", "inner": {"type": "scale_by_muon", "preconditioning": "spectral", "ns_coeffs": [[4.0, -6.9, 2.9], [2.8, -3.1, 1.2]]}, "mask": ["**.kernel"]},
    {"type": "add_noise", "eta": 0.1, "gamma": 0.5, "key": 3}, {"type": "noisy_sgd", "learning_rate": 0.1}, {"type": "flatten", "inner": {"type": "lamb", "learning_rate": 0.1}},
    {"type": "maybe_update", "inner": ADAM, "should_update_fn": "step < 3"}, {"type": "split_real_and_imaginary", "inner": ADAM},
    {"type": "stateless", "f": "update * 0.1 + 0.01 * global_norm(updates) * param - 0.01 * global_norm(params)"},
    {"type": "stateless_with_tree_map", "f": "sqrt(abs(update)) - 0.1 * param"},
    {"type": "custom", "hyperparams": {"learning_rate": LR, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0.1}, "slots": {"mu": {}, "nu": {}},
     "let": {"m": "(1 - b1) * g + b1 * mu", "v": "(1 - b2) * g**2 + b2 * nu", "m_hat": "m / (1 - b1**count_inc)", "v_hat": "v / (1 - b2**count_inc)"},
     "update": {"mu": "m", "nu": "v", "g": "-learning_rate * (m_hat / (sqrt(v_hat) + eps) + weight_decay * p)"}},
    {"type": "chain", "transforms": [{"type": "snapshot", "measure_name": "norm", "measure": "global_norm(updates)"}, SGD]},
    {"type": "chain", "transforms": [{"type": "monitor", "measures": {"norm": "global_norm(updates)",
     "smooth": {"type": "measure_with_ema", "measure": "global_norm(updates)", "decay": 0.9}}}, SGD]},
    {"type": "schedule_free", "base_optimizer": {**ADAM, "b1": 0.0}, "learning_rate": LR},
    {"type": "schedule_free_sgd", "learning_rate": 0.1, "warmup_steps": 3}, {"type": "schedule_free_sgd", "learning_rate": 0.1, "b1": 0.5, "weight_decay": 0.1, "weight_lr_power": 1.5},
    {"type": "schedule_free_adamw", "learning_rate": 0.1, "warmup_steps": 4, "weight_decay": 0.1}, {"type": "schedule_free_adamw"},
    {"type": "galore", "learning_rate": 0.1, "rank": 2}, {"type": "scale_by_galore", "rank": 1, "update_proj_gap": 1, "base_optimizer": {"type": "scale_by_sign"}},
    {"type": "galore", "learning_rate": LR, "rank": 1, "update_proj_gap": 3, "scale": 0.5, "base_optimizer": {"type": "scale_by_rms"}, "weight_decay": 0.1, "mask": ["**.kernel"]},
    {"type": "scale_by_galore", "rank": 1, "weight_dimension_numbers": {"layers.1.*": {"reduction_axis": 1, "output_axis": 0}, "**": None}},
]

STEPS_OF_SCHEDULES = [0, 1, 2, 3, 4, 5, 7, 9, 10, 15, 50, 100000]
SCHEDULES = [
    {"type": "constant_schedule", "value": 0.25}, LR, {**LR, "transition_begin": 3}, {**LR, "transition_steps": 0},
    {"type": "polynomial_schedule", "init_value": 1.0, "end_value": 0.1, "power": 2, "transition_steps": 9, "transition_begin": -1},
    {"type": "polynomial_schedule", "init_value": 1.0, "end_value": 0.1, "power": 0.5, "transition_steps": 8},
    {"type": "piecewise_constant_schedule", "init_value": 1.0, "boundaries_and_scales": {"5": 0.5, "2": 0.1, "0": 3.0}},
    {"type": "piecewise_constant_schedule", "init_value": 1.0},
    {"type": "exponential_decay", "init_value": 1.0, "transition_steps": 4, "decay_rate": 0.5},
    {"type": "exponential_decay", "init_value": 1.0, "transition_steps": 4, "decay_rate": 0.5, "staircase": True, "transition_begin": 2, "end_value": 0.2},
    {"type": "exponential_decay", "init_value": 1.0, "transition_steps": 4, "decay_rate": 1.5, "end_value": 2.0},
    {"type": "cosine_decay_schedule", "init_value": 1.0, "decay_steps": 10, "alpha": 0.1, "exponent": 1.5},
    {"type": "cosine_decay_schedule", "init_value": 0.1, "decay_steps": 7},
    {"type": "piecewise_interpolate_schedule", "interpolate_type": "linear", "init_value": 1.0, "boundaries_and_scales": {"4": 0.1, "8": 0.5, "2": 2.0}},
    {"type": "piecewise_interpolate_schedule", "interpolate_type": "cosine", "init_value": 1.0, "boundaries_and_scales": {"4": 0.1, "8": 0.5}},
    {"type": "linear_onecycle_schedule", "transition_steps": 11, "peak_value": 0.5},
    {"type": "cosine_onecycle_schedule", "transition_steps": 11, "peak_value": 0.5},
    {"type": "warmup_constant_schedule", "init_value": 0.0, "peak_value": 0.5, "warmup_steps": 4},
    {"type": "warmup_cosine_decay_schedule", "init_value": 0.0, "peak_value": 0.5, "warmup_steps": 4, "decay_steps": 12, "end_value": 0.05},
    {"type": "warmup_cosine_decay_schedule", "init_value": 0.1, "peak_value": 0.0, "warmup_steps": 0, "decay_steps": 12, "exponent": 2.0},
    {"type": "warmup_exponential_decay_schedule", "init_value": 0.0, "peak_value": 0.5, "warmup_steps": 4, "transition_steps": 3, "decay_rate": 0.5},
    {"type": "sgdr_schedule", "cosine_kwargs": [{"init_value": 0.0, "peak_value": 0.5, "warmup_steps": 1, "decay_steps": 4},
                                                {"init_value": 0.1, "peak_value": 0.3, "warmup_steps": 2, "decay_steps": 5}]},
    {"type": "join_schedules", "schedules": [LR, {"type": "constant_schedule", "value": 0.5}, {**LR, "init_value": 0.9}], "boundaries": [3, 5]},
]


def match(pattern, path):
    """The few globs used here: ** over segments, * within one."""
    if pattern == "**":
        return True
    if pattern.endswith(".**"):
        return path.startswith(pattern[:-2])
    if pattern.startswith("**."):
        return fnmatch.fnmatch(path, "*." + pattern[3:]) or fnmatch.fnmatch(path, pattern[3:])
    return fnmatch.fnmatch(path, pattern) and path.count(".") == pattern.count(".")


def mask(patterns):
    return lambda tree: {k: any(match(p, k) for p in patterns) for k in tree}


def label(labels):
    return lambda tree: {k: next(v for p, v in labels.items() if match(p, k)) for k in tree}


def schedule(o):
    o = dict(o)
    name = o.pop("type")
    if "boundaries_and_scales" in o:
        o["boundaries_and_scales"] = {int(k): v for k, v in o["boundaries_and_scales"].items()}
    if "schedules" in o:
        o["schedules"] = [schedule(s) for s in o["schedules"]]
    return getattr(optax, name)(**o)


def expression(text):
    """An expression over updates and params (and one leaf of both)."""
    env = {"global_norm": optax.global_norm, "sqrt": jnp.sqrt, "abs": jnp.abs}
    return lambda updates, params=None, update=None, param=None: eval(text, env, {"updates": updates, "params": params, "update": update, "param": param})


def measure(m):
    if isinstance(m, str):
        return expression(m)
    return optax.transforms.measure_with_ema(**{**{k: v for k, v in m.items() if k != "type"}, "measure": expression(m["measure"])})


def rows(o, k, shape):
    """T5X's factor rule of a parameter as row, column and averaging dimensions; rows None: not factored."""
    rule = next((r for p, r in o["factor_map"].items() if match(p, k)), None) if "factor_map" in o else "heuristic"
    dims, least = tuple(range(len(shape))), o.get("min_dim_size_to_factor", 128)
    if rule is None:
        return None, None, dims
    if rule == "heuristic" or (len(shape) <= 2 and "batch" not in rule):
        large = len(shape) == 2 and min(shape) >= least
        return *((tuple(np.argsort(shape, kind="stable")[[i]]) for i in (0, 1)) if large else (None, None)), dims
    row, col = (tuple(i for i in dims if rule[i] == n) for n in ("row", "col"))
    return *((row, col) if row + col else (None, None)), tuple(i for i in dims if rule[i] != "batch")


def t5x_adafactor(o):
    """T5X's Adafactor, written out from its definition (it is not installable beside this JAX)."""
    rate = schedule(o["learning_rate"]) if isinstance(o["learning_rate"], dict) else lambda c: o["learning_rate"]
    beta, decay = o.get("beta1", 0.0), o.get("weight_decay_rate", 0.0)

    def leaf(k, g, s, p, c):
        row, col, over = rows(o, k, g.shape)
        rms = lambda x: jnp.sqrt(jnp.mean(x * x, axis=over, keepdims=True))
        mean = lambda x, d: jnp.mean(x, axis=d, keepdims=True)
        d, sq = 1 - (c + 1.0) ** -0.8, g * g + 1e-30
        if row is None:
            s = {**s, "v": d * s["v"] + (1 - d) * sq}
            y = g * s["v"] ** -0.5
        else:
            s = {**s, "row": d * s["row"] + (1 - d) * mean(sq, col), "col": d * s["col"] + (1 - d) * mean(sq, row)}
            y = g * (s["row"] / mean(s["row"], row)) ** -0.5 * s["col"] ** -0.5
        y = y / jnp.maximum(1.0, rms(y))
        m = beta * s["m"] + (1 - beta) * rate(c) * jnp.maximum(rms(p), 1e-3) * y
        return -m - decay * p, {**s, "m": m}

    def update(g, s, p=None, **_):
        new = {k: leaf(k, g[k], s["of"][k], p[k], s["count"]) for k in g}
        return {k: u for k, (u, _) in new.items()}, {"count": s["count"] + 1, "of": {k: x for k, (_, x) in new.items()}}

    start = lambda x: {"v": 0 * x, "row": 0 * x, "col": 0 * x, "m": 0 * x}
    return optax.GradientTransformationExtraArgs(lambda p: {"count": jnp.int32(0), "of": {k: start(x) for k, x in p.items()}}, update)


def amos(o):
    """Amos as in JEstimator, written out."""
    rate = schedule(o["learning_rate"]) if isinstance(o["learning_rate"], dict) else lambda c: o["learning_rate"]
    beta, l2 = o.get("beta", 0.999), o.get("extra_l2", 0.0)
    first = lambda m, k: next((v for p, v in m.items() if match(p, k)), None)

    def leaf(k, g, v, b, p, c):
        eta, kept, xi = first(o["eta_fn"], k), first(o.get("shape_fn", {}), k), rate(c)
        over = () if kept is None else tuple(i for i, x in enumerate(kept) if x == 1)
        sq = jnp.mean(g * g, axis=over, keepdims=True) if over else g * g
        v = beta * v + (1 - beta) * sq
        r = (1 - beta ** c) / jnp.maximum(v, 2.0 ** -125)
        gamma = xi ** 2 * r * sq / jnp.sqrt(1 + 0.25 * jnp.sqrt(xi) * b)
        u = ((-gamma / 2 - l2) * p - xi * eta * jnp.sqrt(r) * g) / (1 + 0.25 * jnp.sqrt(xi * eta) * b)
        return u, v, b + gamma * (1 + b)

    def update(g, s, p=None, **_):
        new = {k: leaf(k, g[k], s["v"][k], s["b"][k], p[k], s["count"] + 1) for k in g}
        return {k: x[0] for k, x in new.items()}, {"count": s["count"] + 1, "v": {k: x[1] for k, x in new.items()}, "b": {k: x[2] for k, x in new.items()}}

    zeros = lambda p: {k: 0 * x for k, x in p.items()}
    return optax.GradientTransformationExtraArgs(lambda p: {"count": jnp.int32(0), "v": zeros(p), "b": zeros(p)}, update)


def make(o):
    o = dict(o)
    name = o.pop("type")
    if name == "maybe_update":  # the old name
        return make({"type": "conditionally_transform", "inner": o["inner"], "should_transform_fn": o["should_update_fn"]})
    if name == "scale_by_galore" and "weight_dimension_numbers" in o:
        numbers = {k: next(v for p, v in o["weight_dimension_numbers"].items() if match(p, k)) if len(s) == 2 else None for k, s in SHAPES.items()}
        o["weight_dimension_numbers"] = {k: v and optax.contrib.GaLoreDimensionNumbers(**v) for k, v in numbers.items()}
        return optax.contrib.scale_by_galore(**o)
    if name == "scale_by_muon":
        o["weight_dimension_numbers"] = lambda tree: jax.tree.map(lambda _: optax.contrib.MuonDimensionNumbers(), tree)
    if name == "stateless":
        return optax.stateless(lambda u, p: {k: expression(o["f"])(u, p, u[k], p[k]) for k in u})
    if name == "stateless_with_tree_map":
        return optax.stateless_with_tree_map(lambda u, p: expression(o["f"])(None, None, u, p))
    if name == "custom":  # the one above says AdamW
        return optax.adamw(**{**o["hyperparams"], "learning_rate": schedule(o["hyperparams"]["learning_rate"])})
    if name == "snapshot":
        return optax.transforms.snapshot(o["measure_name"], expression(o["measure"]))
    if name == "monitor":
        return optax.transforms.monitor({k: measure(v) for k, v in o["measures"].items()})
    if name == "chain":
        return optax.chain(*[make(t) for t in o["transforms"]])
    if name == "named_chain":
        return optax.named_chain(*[(k, make(t)) for k, t in o["transforms"].items()])
    if name in ("partition", "multi_transform"):
        return optax.partition({k: make(t) for k, t in o["transforms"].items()}, label(o["labels"]))
    if name == "inject_hyperparams":
        inner = dict(o["opt"])
        return optax.inject_hyperparams(getattr(optax, inner.pop("type")))(**{k: schedule(v) if isinstance(v, dict) else v for k, v in inner.items()})
    if name == "multi_optimizer":  # T5X's: parameters of no set are left alone
        groups = {str(i): make(x["opt"]) for i, x in enumerate(o["optimizers"])} | {"none": optax.set_to_zero()}
        return optax.partition(groups, label({p: str(i) for i, x in enumerate(o["optimizers"]) for p in x["match"]} | {"**": "none"}))
    if name == "t5x_adafactor":
        return t5x_adafactor(o)
    if name in ("amos", "scale_by_amos"):
        parts = [optax.clip(o["clip_value"])] if "clip_value" in o else []
        return optax.chain(*parts, amos(o), *([optax.ema(o["momentum"], debias=False)] if "momentum" in o else []))
    if name == "selective_transform":
        return optax.selective_transform(make(o["optimizer"]), freeze_mask=mask(o["freeze_mask"])(SHAPES))
    if name == "skip_large_updates":
        return lambda u, g, p: optax.skip_large_updates(u, g, p, **o)
    for k, v in o.items():
        if k.endswith("mask"):
            o[k] = mask(v)
        elif k == "clip_value_fn":
            o[k] = eval("lambda x: " + v)
        elif k == "should_transform_fn":
            o[k] = eval("lambda step: " + v)
        elif k == "every_k_schedule" and isinstance(v, str):
            o[k] = eval("lambda gradient_step: " + v, {"where": jnp.where})
        elif k == "every_k_schedule" and isinstance(v, dict):
            o[k] = lambda c, f=schedule(v): f(c).astype(jnp.int32)
        elif isinstance(v, dict):
            o[k] = schedule(v) if "schedule" in v["type"] or "decay" in v["type"] and "add" not in v["type"] else make(v)
        elif k.endswith("dtype"):
            o[k] = jnp.dtype(v)
    if name == "multi_steps":
        return optax.MultiSteps(**o).gradient_transformation()
    home = next(m for m in (optax, optax.transforms, optax.contrib, optax.contrib._acprop, optax.contrib._cocob, optax.contrib._madgrad, optax.contrib._sam) if hasattr(m, name))
    return getattr(home, name)(**o)


def flat(tree):
    return {k: [float(x) for x in np.ravel(v)] for k, v in tree.items()}


def main():
    cases, schedules = [], []
    for o in OPTIMIZERS:
        tx = optax.with_extra_args_support(make(o))
        p = {k: jnp.asarray(v) for k, v in INITIAL.items()}
        seen, pair = [], o["type"] == "lookahead"  # whose parameters are (fast, slow)
        p = optax.LookaheadParams.init_synced(p) if pair else p
        s = tx.init(p)
        update = jax.jit(tx.update)
        for g in GRADS:
            value = sum(jnp.sum((p.fast if pair else p)[k] * g[k]) for k in g)  # the document's loss
            u, s = update({k: jnp.asarray(v) for k, v in g.items()}, s, p, **({} if o["type"] in ("sam", "lookahead") else {"value": value}))
            p = optax.apply_updates(p, u)
            seen.append(flat(p.fast if pair else p))
        cases.append({"optimizer": o, "first": seen[0], "last": seen[-1]})
    for o in SCHEDULES:
        f = schedule(o)  # not jitted: XLA divides by multiplying with a rounded reciprocal
        schedules.append({"schedule": o, "values": [float(f(jnp.asarray(c, jnp.int32))) for c in STEPS_OF_SCHEDULES]})
    out = {"shapes": {k: list(s) for k, s in SHAPES.items()}, "initial": flat(INITIAL), "grads": [flat(g) for g in GRADS],
           "cases": cases, "steps": STEPS_OF_SCHEDULES, "schedules": schedules}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim_cases.json"), "w") as f:
        f.write("{\n" + ",\n".join(json.dumps(k) + ": " + (json.dumps(v) if not isinstance(v, list) else "[\n" + ",\n".join(json.dumps(x) for x in v) + "]") for k, v in out.items()) + "}\n")


if __name__ == "__main__":
    main()
