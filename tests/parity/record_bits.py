#!/usr/bin/env python3
"""Records cases/mixed_bits_*: optimizers of bfloat16 parameters beside Optax, where every rounding is JAX's, so that nothing
may differ. Gradients are exact differences. Run from anywhere; `--out DIR` writes them elsewhere."""
import os
import sys

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"  # every rounding is meant
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../fuzz")]
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import optim_reference
from tool import command, recorded

SHAPES = {"bias": (21,), "kernel": (7, 9), "stack": (3, 4, 5)}
STEPS = 4
LINE = {"type": "linear_schedule", "init_value": 0.113, "end_value": 0.017, "transition_steps": 5}
WAVE = {"type": "cosine_decay_schedule", "init_value": 0.113, "decay_steps": 7}
STAIRS = {"type": "piecewise_constant_schedule", "init_value": 0.113, "boundaries_and_scales": {"2": 0.7}}


def scaled(*transforms):
    return {"type": "chain", "transforms": [*transforms, {"type": "scale", "step_size": -0.113}]}


CASES = {
    "adafactor": {"type": "adafactor", "learning_rate": 0.0371, "min_dim_size_to_factor": 4, "momentum": 0.5, "weight_decay_rate": 0.013},
    "adopt": {"type": "adopt", "learning_rate": 0.0371, "b1": 0.7, "nesterov": True},
    "ademamix": {"type": "ademamix", "learning_rate": 0.0371, "b3": WAVE, "alpha": LINE, "mu_dtype": "float32", "weight_decay": STAIRS},
    "simplified_ademamix": {"type": "simplified_ademamix", "learning_rate": 0.0371, "alpha": WAVE, "weight_decay": 0.03},
    "backtracking": {"type": "chain", "transforms": [{"type": "sgd", "learning_rate": 3.1},
                     {"type": "scale_by_backtracking_linesearch", "max_backtracking_steps": 6, "decrease_factor": 0.798, "increase_factor": 1.18, "max_learning_rate": 2.0}]},
    "block_rms": scaled({"type": "clip_by_block_rms", "threshold": 0.7}, {"type": "scale_by_param_block_rms"}),
    "centralize": scaled({"type": "centralize"}),
    "decay_function": scaled({"type": "scale_by_factored_rms", "min_dim_size_to_factor": 4, "decay_rate_fn": "1 - (step + 1.0)**(-decay_rate)"}),
    "decay_number": scaled({"type": "scale_by_factored_rms", "min_dim_size_to_factor": 4, "epsilon": 0.01, "decay_rate_fn": "0.5 * decay_rate"}),
    "decays": {"type": "chain", "transforms": [{"type": "add_decayed_weights", "weight_decay": s} for s in (LINE, WAVE, STAIRS)] + [{"type": "sgd", "learning_rate": 0.0371}]},
    "fromage": {"type": "fromage", "learning_rate": LINE},
    "madgrad": {"type": "madgrad", "learning_rate": LINE, "momentum": 0.7},
    "momo_adam": {"type": "momo_adam", "learning_rate": 0.113},
    "noise": {"type": "noisy_sgd", "learning_rate": 0.0371, "key": 4},
    "schedule_free": {"type": "schedule_free_sgd", "learning_rate": 0.272, "warmup_steps": 2, "b1": 0.703, "state_dtype": "float32"},
    "unfactored": {"type": "adafactor", "learning_rate": 0.0371, "factored": False, "multiply_by_parameter_scale": False},
}


def record(name, out):
    optimizer = CASES[name]
    r = np.random.default_rng(len(name))
    init = {p: r.normal(size=s).astype(ml_dtypes.bfloat16) for p, s in SHAPES.items()}
    data = {"t_" + p: r.normal(size=(STEPS, *s)).astype(ml_dtypes.bfloat16).astype(np.float32) for p, s in SHAPES.items()}
    document = {"stepc": 1, "name": "mixed_bits_" + name,
                "inputs": {"t_" + p: {"shape": list(s), "dtype": "float32", "axes": [None] * len(s)} for p, s in SHAPES.items()},
                "model": {"type": "graph", "nodes": [{"type": "param", "name": p, "shape": list(s)} for p, s in SHAPES.items()], "output": "bias"},
                "loss": " + ".join("0.5 * sum((params.%s - t_%s)**2)" % (p, p) for p in SHAPES), "precision": {"params": "bfloat16"}, "optimizer": optimizer}
    tx = optax.with_extra_args_support(optim_reference.make(optimizer))
    loss = lambda p, d: sum(0.5 * jnp.sum((p[k] - d["t_" + k]) ** 2) for k in SHAPES)

    @jax.jit
    def step(p, s, d):
        value, g = jax.value_and_grad(loss)(p, d)
        u, s = tx.update(g, s, p, value=value, grad=g, value_fn=lambda q: loss(q, d))
        return optax.apply_updates(p, u), s, value

    p = {k: jnp.asarray(v) for k, v in init.items()}
    s, losses = tx.init(p), []
    for t in range(STEPS):
        p, s, value = step(p, s, {k: jnp.asarray(v[t]) for k, v in data.items()})
        losses.append(float(value))
    wide = lambda tree: {k: np.asarray(v, np.float32) for k, v in tree.items()}
    recorded.record("mixed_bits_" + name, document, data, wide(init), STEPS, wide(p), {"loss": losses}, 1e-6, 0, "rounded as JAX rounds it: the parameters bit by bit", out=out)
    print(name, losses[0], losses[-1])


if __name__ == "__main__":
    command.record(__doc__, list(CASES), record)
