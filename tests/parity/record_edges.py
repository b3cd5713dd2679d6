#!/usr/bin/env python3
"""Records cases/transform_edges_*: optimizers of which an infinite gradient reaches the state, over some steps, and what is injected
where a wrapper keeps the state. The gradient is what the data say. Run from anywhere; `--out DIR` writes them elsewhere."""
import os
import sys

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"  # casts to 16 bits are meant
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../fuzz")]
import jax
import numpy as np
import optimizers as fuzz
from tool import command

SHAPES = {"a": (), "b": (5,), "c": (3, 4)}
INF = np.float32(np.inf)
UPHILL = {"type": "chain", "transforms": [{"type": "clip", "max_delta": 1.0}, {"type": "sgd", "learning_rate": 0.05}]}
CLIPPED = {"type": "chain", "transforms": [{"type": "trace", "decay": 0.5}, {"type": "clip", "max_delta": 1.0}, {"type": "scale", "step_size": -0.1}]}


def one_infinity(g):
    g["b"][1, 2] = INF


LINE = {"type": "linear_schedule", "init_value": 0.1, "end_value": 0.02, "transition_steps": 4}


# name: optimizer, what is done to gradients [steps, ..] by parameter, metrics: what they are in a state
CASES = {
    # what is held back, or begins anew, is multiplied by 0: an infinity is NaN in the optimizer's state and in the next update
    "sam_nan_passes": ({"type": "sam", "optimizer": CLIPPED, "adv_optimizer": UPHILL, "sync_period": 3, "nan_passes": True}, one_infinity),
    "lookahead_nan_passes": ({"type": "lookahead", "fast_optimizer": CLIPPED, "sync_period": 3, "slow_step_size": 0.5, "reset_state": True, "nan_passes": True}, one_infinity),
    # what a state begins with is a schedule's value before the first step
    "injected_initial_values": ({"type": "partition", "labels": {p: p for p in SHAPES},
                                 "transforms": {p: {"type": "inject_hyperparams", "opt": {"type": o, "learning_rate": 0.1, k: LINE}}
                                                for p, o, k in (("a", "adagrad", "initial_accumulator_value"), ("b", "rmsprop", "initial_scale"), ("c", "rprop", "learning_rate"))}}, lambda g: None),
    # a candidate's schedule is ahead of what the last update was made with
    "injected_in_multi_steps": ({"type": "multi_steps", "every_k_schedule": 3, "opt": {"type": "inject_hyperparams", "opt": {"type": "sgd", "learning_rate": LINE, "momentum": 0.5}}}, lambda g: None,
                                {"hyperparams." + k: lambda s, k=k: s.inner_opt_state.hyperparams[k] for k in ("learning_rate", "momentum")}),
    # 1 is not a part of an average but a sum, also where it is a hyper-parameter
    "injected_sum": ({"type": "partition", "labels": {"a": "scalar", "b": "sum", "c": "sum"}, "transforms": {"scalar": {"type": "sgd", "learning_rate": 0.1}, "sum": {
        "type": "chain", "transforms": [{"type": "inject_hyperparams", "opt": {"type": "scale_by_sm3", "b1": 0.5}}, {"type": "scale", "step_size": -0.1}]}}}, lambda g: None),
}
UNCOMPILED = {"injected_sum"}  # JAX cannot compile a comparison that Python makes


def record(name, out):
    optimizer, change, *shown = CASES[name]
    r, steps = np.random.default_rng(len(name)), 8
    gradients = {p: r.normal(size=(steps, *s)).astype(np.float32) for p, s in SHAPES.items()}
    change(gradients)
    document = {"stepc": 1, "name": "transform_edges_" + name,
                "inputs": {"g_" + p: {"shape": list(s), "dtype": "float32", "axes": [None] * len(s)} for p, s in SHAPES.items()},
                "model": {"type": "graph", "nodes": [{"type": "param", "name": p, "shape": list(s)} for p, s in SHAPES.items()], "output": "a"},
                "loss": " + ".join(fuzz.LOSSES[0][0].format("params." + p, "g_" + p) for p in SHAPES), "optimizer": optimizer}
    seen = {"m%d" % i: f for i, f in enumerate(shown[0].values())} if shown else {}
    if shown:
        document["metrics"] = dict(zip(seen, shown[0]))
    case = {"document": document, "steps": steps, "trained": list(SHAPES), "loss": 0, "axes": None, "narrow": False,
            "init": {p: r.normal(size=s).astype(np.float32) if s else np.float32(r.normal()) for p, s in SHAPES.items()},
            "data": {"g_" + p: g for p, g in gradients.items()}}
    states = []
    with jax.disable_jit(name in UNCOMPILED):
        tensors, metrics = fuzz.oracle(case, (0,), before=lambda t, state: states.append(state) or state)[0]
    metrics |= {k: [float(f(state)) for state in states[1:]] for k, f in seen.items()}
    fuzz.write_case(os.path.join(out, "transform", "transform_edges_" + name), case, tensors, metrics, "")
    print(name, metrics["loss"], {k: v.ravel()[:3] for k, v in tensors.items()})


if __name__ == "__main__":
    command.record(__doc__, list(CASES), record)
