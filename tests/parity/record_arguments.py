#!/usr/bin/env python3
"""Records cases/transform_arguments_*: the building blocks of Optax with every argument that no other case gives, a few in one
document, each for a parameter of its own. Run from anywhere; `--out DIR` writes them elsewhere."""
import os
import sys

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"  # casts to bfloat16 are meant
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../fuzz")]
import numpy as np
import optimizers as fuzz
from tool import command

STEPS = 8
LINE = {"type": "linear_schedule", "init_value": 2.0, "end_value": 0.5, "transition_steps": 5}
GROUPS = {
    "adam": [
        {"type": "scale_by_adam", "b2": 0.9, "eps": 0.02, "mu_dtype": "bfloat16", "b1": 0.5},
        {"type": "scale_by_amsgrad", "b1": 0.7, "b2": 0.8, "eps": 0.03, "eps_root": 0.01, "mu_dtype": "float32", "bias_correction_mu": False},
        {"type": "scale_by_adamax", "b1": 0.6, "b2": 0.9, "eps": 0.05},
        {"type": "scale_by_belief", "b1": 0.7, "b2": 0.8, "eps": 0.04, "eps_root": 0.001, "nesterov": True},
        {"type": "scale_by_yogi", "b1": 0.8, "b2": 0.7, "eps": 0.02, "eps_root": 0.1, "initial_accumulator_value": 0.05},
        {"type": "scale_by_radam", "b1": 0.8, "b2": 0.9, "eps": 0.03, "eps_root": 0.02, "threshold": 4.5, "nesterov": True},
        {"type": "scale_by_adan", "b1": 0.9, "b2": 0.8, "b3": 0.7, "eps": 0.02, "eps_root": 0.01}],
    "more_adam": [
        {"type": "scale_by_novograd", "b1": 0.5, "b2": 0.6, "eps": 0.05, "eps_root": 0.02, "weight_decay": 0.1, "mu_dtype": "bfloat16"},
        {"type": "scale_by_acprop", "b1": 0.7, "b2": 0.8, "eps": 0.3, "eps_root": 0.2},
        {"type": "scale_by_ademamix", "b1": 0.7, "b2": 0.8, "b3": 0.95, "alpha": LINE, "eps": 0.03, "eps_root": 0.02, "mu_dtype": "bfloat16"},
        {"type": "scale_by_simplified_ademamix", "b1": 0.8, "b2": 0.7, "alpha": LINE, "eps": 0.03, "eps_root": 0.02},
        {"type": "scale_by_adopt", "b1": 0.5, "b2": 0.8, "eps": 0.2, "mu_dtype": "bfloat16", "use_clipping": False, "nesterov": True},
        {"type": "nadamw", "learning_rate": 0.1, "b1": 0.5, "b2": 0.8, "eps": 0.03, "eps_root": 0.02, "mu_dtype": "bfloat16", "weight_decay": 0.2},
        {"type": "optimistic_adam_v2", "learning_rate": 0.1, "alpha": 0.7, "beta": 0.4, "b1": 0.5, "eps": 0.05, "mu_dtype": "bfloat16", "nesterov": False},
        {"type": "optimistic_adam", "learning_rate": 0.1, "optimism": 0.03, "b1": 0.5, "b2": 0.8, "eps": 0.05, "eps_root": 0.02, "mu_dtype": "bfloat16"}],
    "others": [
        {"type": "scale_by_rss", "initial_accumulator_value": 0.0, "eps": 0.1},
        {"type": "trace", "decay": 0.5, "nesterov": True, "accumulator_dtype": "bfloat16"},
        {"type": "scale_by_rprop", "learning_rate": 0.1, "eta_minus": 0.4, "eta_plus": 1.5, "min_step_size": 0.05, "max_step_size": 0.3},
        {"type": "scale_by_sm3", "b1": 0.6, "b2": 0.8, "eps": 0.05},
        {"type": "scale_by_factored_rms", "factored": False, "step_offset": -2, "decay_rate": 0.6, "epsilon": 0.01},
        {"type": "scale_by_madgrad", "learning_rate": 0.1, "momentum": 0.6, "eps": 0.05},
        {"type": "adamaxw", "learning_rate": 0.1, "b1": 0.7, "b2": 0.8, "eps": 0.05, "weight_decay": 0.1},
        {"type": "scale_by_amos", "learning_rate": 0.3, "eta_fn": {"**": 0.7}, "shape_fn": {"**": [1, None]}, "d_coef": 0.4, "c_coef": 0.6, "epsilon": 0.01, "beta": 0.8}],
    "matrices": [
        {"type": "scale_by_muon", "beta": 0.8, "eps": 0.01, "mu_dtype": "float32", "nesterov": False, "adaptive": True, "weight_dimension_numbers": {"**": {"reduction_axis": 1, "output_axis": 0}}},
        {"type": "scale_by_galore", "rank": 2, "scale": 0.4, "base_optimizer": {"type": "scale_by_sign"}, "weight_dimension_numbers": {"**": {"reduction_axis": 1, "output_axis": 0}}},
        {"type": "schedule_free_adamw", "learning_rate": 0.1, "weight_lr_power": 1.5, "state_dtype": "float32"},
        {"type": "prodigy", "estim_lr0": 0.01, "weight_decay": 0.1, "weight_decay_mask": ["**"]},
        {"type": "noisy_sgd", "learning_rate": 0.1, "eta": 0.2, "gamma": 0.3, "seed": 5}],
    "value": [
        {"type": "polyak_sgd", "max_learning_rate": 0.1, "f_min": 0.3, "eps": 0.1, "variant": "sps+"},
        {"type": "conditionally_transform", "inner": {"type": "polyak_sgd", "max_learning_rate": 0.2}, "should_transform_fn": "step % 3 != 1", "forward_extra_args": True},
        {"type": "conditionally_mask", "inner": {"type": "chain", "transforms": [{"type": "reduce_on_plateau", "factor": 0.5, "patience": 1}, {"type": "sgd", "learning_rate": 0.1}]},
         "should_transform_fn": "step > 1", "forward_extra_args": True},
        {"type": "chain", "transforms": [{"type": "masked", "inner": {"type": "momo", "learning_rate": 0.2}, "mask": ["**"], "mask_compatible_extra_args": True}, {"type": "scale", "step_size": 0.5}]},
        {"type": "multi_steps", "opt": {"type": "adam", "learning_rate": 0.1, "eps": 0.01}, "every_k_schedule": 2, "accumulator_dtype": "bfloat16"}],
}


def record(name, out):
    transformations = GROUPS[name]
    r = np.random.default_rng(len(name))
    shapes = {"p%d" % i: (4, 3 + i % 3) for i in range(len(transformations))}
    scaled = lambda o: o if "learning_rate" in o or not o["type"].startswith(("scale_by", "trace")) else {"type": "chain", "transforms": [o, {"type": "scale", "step_size": -0.1}]}
    document = {"stepc": 1, "name": "transform_arguments_" + name,
                "inputs": {"g_" + p: {"shape": list(s), "dtype": "float32", "axes": [None] * len(s)} for p, s in shapes.items()},
                "model": {"type": "graph", "nodes": [{"type": "param", "name": p, "shape": list(s)} for p, s in shapes.items()], "output": "p0"},
                "loss": " + ".join(fuzz.LOSSES[1][0].format("params." + p, "g_" + p) for p in shapes),
                "optimizer": {"type": "partition", "transforms": {"t%d" % i: scaled(o) for i, o in enumerate(transformations)}, "labels": {"p%d" % i: "t%d" % i for i in range(len(transformations))}}}
    case = {"document": document, "steps": STEPS, "trained": list(shapes), "loss": 1, "axes": None, "narrow": False,
            "init": {p: r.normal(size=s).astype(np.float32) for p, s in shapes.items()},
            "data": {"g_" + p: r.normal(size=(STEPS, *s)).astype(np.float32) for p, s in shapes.items()}}
    tensors, metrics = fuzz.oracle(case, (0,))[0]
    fuzz.write_case(os.path.join(out, "transform", "transform_arguments_" + name), case, tensors, metrics, "")
    print(name, metrics["loss"][0], metrics["loss"][-1])


if __name__ == "__main__":
    command.record(__doc__, list(GROUPS), record)
