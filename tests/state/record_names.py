#!/usr/bin/env python3
"""Records the names, dtypes and shapes of optimizer state that optax (0.2.8 was used) gives into names.json.

An NNX optimizer names its state by the path in what tx.init gives: fields of tuples by name, elements by number, entries of
maps by key, then the parameter's path. Optimizers that are written out in the recorder of trajectories (T5X) are left out.
"""
import json
import os
import sys

import jax
import jax.numpy as jnp
import optax

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../unit/frontend"))
import record_optim as recorder

OURS = {"t5x_adafactor", "amos", "scale_by_amos", "multi_optimizer", "custom", "maybe_update"}
ADAM, LR = recorder.ADAM, recorder.LR
MORE = [
    {"type": "lbfgs"}, {"type": "lbfgs", "learning_rate": 0.1, "linesearch": {"type": "scale_by_backtracking_linesearch", "max_backtracking_steps": 5, "store_grad": True}},
    {"type": "chain", "transforms": [{"type": "sgd", "learning_rate": 0.1}, {"type": "scale_by_backtracking_linesearch", "max_backtracking_steps": 5}]},
    {"type": "chain", "transforms": [{"type": "sgd", "learning_rate": 0.1}, {"type": "scale_by_zoom_linesearch", "max_linesearch_steps": 5}]},
    {"type": "multi_steps", "opt": {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, {"type": "adamw", "learning_rate": LR}]}, "every_k_schedule": 2},
    {"type": "inject_hyperparams", "opt": {"type": "adamw", "learning_rate": 0.1}},
    {"type": "masked", "inner": {"type": "multi_steps", "opt": ADAM, "every_k_schedule": 2}, "mask": ["**.kernel"]},
    {"type": "apply_if_finite", "inner": {"type": "multi_steps", "opt": ADAM, "every_k_schedule": 2}, "max_consecutive_errors": 3},
    {"type": "named_chain", "transforms": {"first": {"type": "masked", "inner": ADAM, "mask": ["scale"]}, "second": {"type": "inject_hyperparams", "opt": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9}}}},
    {"type": "lookahead", "fast_optimizer": {"type": "multi_steps", "opt": ADAM, "every_k_schedule": 2}, "sync_period": 2, "slow_step_size": 0.5},
    {"type": "adafactor", "learning_rate": LR, "min_dim_size_to_factor": 2, "momentum": 0.9, "weight_decay_rate": 0.1, "weight_decay_mask": ["**.kernel"]},
    {"type": "multi_steps", "opt": ADAM, "every_k_schedule": 2, "should_skip_update_fn": {"type": "skip_not_finite"}},
    {"type": "sam", "optimizer": ADAM, "adv_optimizer": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9}, "opaque_mode": True},
    {"type": "sam", "optimizer": ADAM, "adv_optimizer": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9}, "sync_period": 1, "opaque_mode": True},
]


def segment(key):
    return str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", None))))


def names(o):
    tx = recorder.make(o) if "skip_not_finite" not in str(o) else optax.MultiSteps(recorder.make(ADAM), 2, should_skip_update_fn=optax.skip_not_finite)
    p = {k: jnp.asarray(v) for k, v in recorder.INITIAL.items()}
    state = tx.init(optax.LookaheadParams.init_synced(p) if o["type"] == "lookahead" else p)
    leaves = jax.tree_util.tree_flatten_with_path(state)[0]
    return {".".join(["opt_state"] + [segment(k) for k in path]): [str(jnp.asarray(x).dtype), list(jnp.shape(x))] for path, x in leaves}


def main():
    cases = [{"optimizer": o, "state": names(o)} for o in recorder.OPTIMIZERS + MORE if o["type"] not in OURS and "lookahead" not in str(o.get("inner", ""))]
    with open(os.path.join(HERE, "names.json"), "w") as f:
        f.write("{\"shapes\": %s,\n\"cases\": [\n%s]}\n" % (json.dumps({k: list(s) for k, s in recorder.SHAPES.items()}), ",\n".join(json.dumps(c) for c in cases)))


if __name__ == "__main__":
    main()
