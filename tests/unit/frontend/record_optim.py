#!/usr/bin/env python3
"""Records optimizer trajectories with optax (0.2.8 was used) into optim_cases.json, which test_optim.c replays.

Cases that the file has already are kept; take the file away to record all of them again. Each case is an optimizer as a document spells it. The gradients are the same for all cases; the parameters after the
first and after the last step are recorded. Schedules are recorded at a list of steps.
"""
import json
import os
import sys
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"  # casts to bfloat16 are meant
import numpy as np
import jax
import jax.numpy as jnp
import optax
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "fuzz"))
from optim_reference import make, schedule

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
    {"type": "sam", "optimizer": {"type": "lbfgs", "learning_rate": 0.01, "linesearch": None}, "adv_optimizer": {**SGD, "learning_rate": 0.01}},
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
    # arguments and nestings that tests/fuzz/optimizers.py tells apart
    {"type": "adabelief", "learning_rate": 0.1, "weight_decay": 0.1, "mask": ["**.kernel"], "nesterov": True, "eps_root": 1e-3},
    {"type": "adabelief", "learning_rate": LR, "weight_decay": LR, "weight_decay_mask": ["scale"], "b1": 0.5},
    {"type": "prodigy", "learning_rate": LR, "weight_decay": 0.2, "mask": ["**.kernel"], "safeguard_warmup": True, "estim_lr0": 0.01, "beta3": 0.9},
    {"type": "nadam", "learning_rate": 0.1, "nesterov": False}, {"type": "nadamw", "learning_rate": LR, "nesterov": False, "mask": ["**.bias"], "weight_decay": 0.3},
    {"type": "noisy_sgd", "learning_rate": LR, "seed": 5, "gamma": 0.2}, {"type": "scale_by_factored_rms", "min_dim_size_to_factor": 2, "decay_rate_fn": "0.5 * decay_rate"},
    {"type": "scale_by_distance_over_gradients", "param_dtype": "bfloat16", "reps_rel": 0.01, "global_scale": 2.0},
    {"type": "dog", "learning_rate": LR, "init_step": ["distance", 0.05], "eps": 0.1, "weight_decay": 0.1, "mask": ["**.kernel"]},
    {"type": "conditionally_transform", "inner": {"type": "prodigy", "estim_lr0": 0.01}, "should_transform_fn": "step >= 2"},
    {"type": "chain", "transforms": [{"type": "conditionally_mask", "inner": {"type": "dog", "init_step": ["heuristic", 0.1]}, "should_transform_fn": "step % 2 == 1"},
                                     {"type": "stateless_with_tree_map", "f": "update - 0.05 * param"}]},
    {"type": "chain", "transforms": [{"type": "multi_steps", "opt": {"type": "schedule_free_sgd", "learning_rate": 0.1}, "every_k_schedule": 2},
                                     {"type": "stateless_with_tree_map", "f": "update - 0.05 * param"}]},
    {"type": "lookahead", "fast_optimizer": {"type": "dog", "init_step": ["heuristic", 0.1]}, "sync_period": 2, "slow_step_size": 0.4, "reset_state": True},
    {"type": "lookahead", "fast_optimizer": {"type": "madgrad", "learning_rate": LR}, "sync_period": 3, "slow_step_size": 0.7, "reset_state": True},
    {"type": "lookahead", "fast_optimizer": {"type": "chain", "transforms": [{"type": "add_noise", "eta": 0.1, "gamma": 0.5, "key": 2}, SGD]}, "sync_period": 1, "slow_step_size": 0.3},
    {"type": "sam", "optimizer": SGD, "adv_optimizer": {"type": "cocob", "learning_rate": 0.1}, "sync_period": 3, "reset_state": True},
    {"type": "sam", "optimizer": {**ADAM, "learning_rate": LR}, "adv_optimizer": ADAM, "sync_period": 3, "reset_state": False},
    {"type": "sam", "optimizer": SGD, "adv_optimizer": SGD, "sync_period": 1},
    {"type": "conditionally_transform", "inner": {"type": "sam", "optimizer": ADAM, "adv_optimizer": SGD}, "should_transform_fn": "step > 1"},
    {"type": "mechanize", "base_optimizer": {"type": "dowg"}, "weight_decay": 0.1, "s_init": 0.01, "num_betas": 2, "eps": 1e-3},
    {"type": "mechanize", "base_optimizer": {"type": "schedule_free_adamw", "warmup_steps": 2}, "s_init": 0.1},
    {"type": "flatten", "inner": {"type": "schedule_free_sgd", "learning_rate": 0.1, "b1": 0.7}}, {"type": "flatten", "inner": {"type": "adamw", "learning_rate": 0.1, "mask": ["**"], "weight_decay": 0.2}},
    {"type": "flatten", "inner": {"type": "noisy_sgd", "learning_rate": 0.1, "eta": 0.5, "key": 4}}, {"type": "flatten", "inner": {"type": "scale_by_sm3"}}, {"type": "flatten", "inner": {"type": "zero_nans"}},
    {"type": "flatten", "inner": {"type": "chain", "transforms": [{"type": "normalize"}, {"type": "dadapt_adamw", "estim_lr0": 0.01}]}},
    {"type": "inject_hyperparams", "opt": {**ADAM, "b1": 0.9, "b2": 0.95}, "hyperparam_dtype": "bfloat16"},
    {"type": "inject_hyperparams", "opt": {**ADAM, "b1": {"type": "linear_schedule", "init_value": 0.9, "end_value": 0.5, "transition_steps": 4}, "learning_rate": LR}},
    {"type": "inject_hyperparams", "opt": {"type": "lars", "learning_rate": LR, "weight_decay": 0.1, "momentum": LR}, "static_args": ["eps"]},
    {"type": "inject_hyperparams", "opt": {"type": "clip_by_global_norm", "max_norm": LR}},
    {"type": "inject_hyperparams", "opt": {"type": "adagrad", "learning_rate": 0.1, "initial_accumulator_value": LR}},
    {"type": "inject_hyperparams", "opt": {"type": "adagrad", "learning_rate": 0.1, "initial_accumulator_value": 0.1}, "hyperparam_dtype": "bfloat16"},
    {"type": "partition", "transforms": {"a": {"type": "inject_hyperparams", "opt": ADAM}, "b": {"type": "inject_hyperparams", "opt": {**SGD, "momentum": 0.5}}}, "labels": {"**.kernel": "a", "**": "b"}},
    {"type": "partition", "transforms": {"a": {"type": "multi_steps", "opt": ADAM, "every_k_schedule": "gradient_step + 1"}, "b": {"type": "apply_if_finite", "inner": SGD, "max_consecutive_errors": 1}},
     "labels": {"layers.0.**": "a", "**": "b"}},
    {"type": "masked", "inner": {"type": "partition", "transforms": {"a": {"type": "lamb", "learning_rate": LR}, "b": {"type": "freeze", "mask": ["scale"]}}, "labels": {"**.kernel": "a", "scale": "b"}},
     "mask": ["**.kernel", "scale"]},
    {"type": "multi_steps", "opt": {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, {"type": "momo_adam", "learning_rate": 0.1, "lower_bound": -5.0}]}, "every_k_schedule": 2},
    {"type": "multi_steps", "opt": ADAM, "every_k_schedule": 3, "nan_passes": True, "use_grad_mean": False, "accumulator_dtype": "bfloat16"},
    {"type": "chain", "transforms": [ADAM, {"type": "apply_every", "k": 2, "nan_passes": True}]},
    {"type": "muon", "learning_rate": 0.1, "ns_coeffs": "dion", "adaptive": True, "nesterov": False, "muon_weight_dimension_numbers": {"layers.0.kernel": {"reduction_axis": 1, "output_axis": 0}, "**": None}},
    {"type": "muon", "learning_rate": LR, "ns_coeffs": [[4.0, -6.9, 2.9], [2.8, -3.1, 1.2]], "weight_decay": LR, "weight_decay_mask": ["layers.0.*"], "adam_weight_decay": 0.3, "adam_eps_root": 0.1, "beta": 0.5,
     "mu_dtype": "bfloat16", "adam_b1": 0.5},
    {"type": "adafactor", "learning_rate": LR, "min_dim_size_to_factor": 2, "decay_offset": -1, "clipping_threshold": None, "momentum": 0.5, "dtype_momentum": "bfloat16", "weight_decay_rate": 0.1,
     "weight_decay_mask": ["**.bias"]},
    {"type": "adafactor", "learning_rate": 0.1, "factored": False, "multiply_by_parameter_scale": False, "clipping_threshold": 0.3, "eps": 0.1},
    {"type": "t5x_adafactor", "learning_rate": LR, "min_dim_size_to_factor": 2, "weight_decay_rate": 0.5, "weight_decay_rate_lr_exponent": 1.5, "global_norm_clip_threshold": 0.5, "max_parameter_scale": 0.4,
     "step_offset": -1, "clipping_threshold": None},
    {"type": "t5x_adafactor", "learning_rate": 0.1, "multiply_by_parameter_scale": {"**.kernel": False, "**": True}, "epsilon2": 0.5, "beta1": 0.5, "dtype_momentum": "bfloat16",
     "factor_map": {"layers.0.kernel": ["batch", "row"], "layers.1.kernel": ["col", "batch"], "**": "heuristic"}},
    {"type": "amos", "learning_rate": LR, "eta_fn": {"**.kernel": "1 / sqrt(SHAPE[0])", "**": 0.7}, "shape_fn": {"layers.0.kernel": [], "layers.1.kernel": [None, 1]}, "c_coef": 0.5, "d_coef": 0.1, "extra_l2": 0.1},
    {"type": "chain", "transforms": [{"type": "masked", "inner": {"type": "scale_by_lion", "mode": "smooth", "mu_dtype": "bfloat16", "b1": 0.5, "b2": 0.5}, "mask": ["layers.{0,1}.kernel"]}, SGD]},
    {"type": "ademamix", "learning_rate": 0.1, "b3": LR, "alpha": 2.0, "eps_root": 0.1, "weight_decay": LR, "mask": ["scale"]},
    {"type": "adopt", "learning_rate": LR, "clip_value_fn": "0.5 + 0.1 * x", "nesterov": True, "b1": 0.5, "mu_dtype": "bfloat16"}, {"type": "adopt", "learning_rate": 0.1, "use_clipping": False, "eps": 0.5},
    {"type": "radam", "learning_rate": LR, "b1": 0.5, "b2": 0.9, "threshold": 4.5, "eps_root": 0.1}, {"type": "rprop", "learning_rate": 0.1, "eta_minus": 0.3, "eta_plus": 2.0, "min_step_size": 0.05, "max_step_size": 0.15},
    {"type": "momo", "learning_rate": LR, "beta": 0.5, "lower_bound": -5.0, "weight_decay": 0.2}, {"type": "momo_adam", "learning_rate": 0.1, "b1": 0.5, "adapt_lower_bound": True, "lower_bound": -50.0, "weight_decay": 0.1},
    {"type": "chain", "transforms": [SGD, {"type": "reduce_on_plateau", "factor": 0.7, "patience": 1, "accumulation_size": 2, "cooldown": 1, "min_scale": 0.5, "rtol": 0.5, "atol": 0.1}]},
    {"type": "polyak_sgd", "max_learning_rate": 0.1, "scaling": LR, "f_min": -30.0, "eps": 1.0}, {"type": "dowg", "learning_rate": LR, "eps": 0.01, "weight_decay": 0.1, "mask": ["**.bias"]},
    {"type": "adaptive_grad_clip", "clipping": 0.2, "eps": 0.5}, {"type": "normalize_by_update_norm", "scale_factor": 0.3, "eps": 0.1},
    {"type": "rmsprop", "learning_rate": LR, "decay": 0.5, "eps": 0.1, "centered": True, "bias_correction": True, "momentum": 0.3},
    {"type": "masked", "inner": {"type": "sm3", "learning_rate": 0.1, "momentum": 0.5}, "mask": ["layers.**"]},
    {"type": "galore", "learning_rate": 0.1, "rank": 2, "update_proj_gap": 10, "scale": 0.5, "weight_decay": 0.1, "mask": ["**.kernel"]},
    {"type": "chain", "transforms": [{"type": "scale_by_galore", "rank": 1, "update_proj_gap": 10}, {"type": "scale", "step_size": -0.1}]},
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


def flat(tree):
    return {k: [float(x) for x in np.ravel(v)] for k, v in tree.items()}


def main():
    cases, schedules, path = [], [], os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim_cases.json")
    known = {}
    if os.path.exists(path):
        with open(path) as f:
            known = {json.dumps(c["optimizer"]): c for c in json.load(f)["cases"]}
    for o in OPTIMIZERS:
        if json.dumps(o) in known:
            cases.append(known[json.dumps(o)])
            continue
        tx = optax.with_extra_args_support(make(o))
        p = {k: jnp.asarray(v) for k, v in INITIAL.items()}
        seen, pair = [], o["type"] == "lookahead"  # whose parameters are (fast, slow)
        p = optax.LookaheadParams.init_synced(p) if pair else p
        s = tx.init(p)
        update = jax.jit(tx.update, static_argnames="grad_fn")
        for g in GRADS:
            value = sum(jnp.sum((p.fast if pair else p)[k] * g[k]) for k in g)  # the document's loss
            given = {k: jnp.asarray(v) for k, v in g.items()}
            u, s = update(given, s, p, **({} if pair else {"value": value, "grad_fn": lambda *_, given=given: given} if "sam" in json.dumps(o) else {"value": value}))
            p = optax.apply_updates(p, u)
            seen.append(flat(p.fast if pair else p))
        cases.append({"optimizer": o, "first": seen[0], "last": seen[-1]})
    for o in SCHEDULES:
        f = schedule(o)  # not jitted: XLA divides by multiplying with a rounded reciprocal
        schedules.append({"schedule": o, "values": [float(f(jnp.asarray(c, jnp.int32))) for c in STEPS_OF_SCHEDULES]})
    out = {"shapes": {k: list(s) for k, s in SHAPES.items()}, "initial": flat(INITIAL), "grads": [flat(g) for g in GRADS],
           "cases": cases, "steps": STEPS_OF_SCHEDULES, "schedules": schedules}
    with open(path, "w") as f:
        f.write("{\n" + ",\n".join(json.dumps(k) + ": " + (json.dumps(v) if not isinstance(v, list) else "[\n" + ",\n".join(json.dumps(x) for x in v) + "]") for k, v in out.items()) + "}\n")


if __name__ == "__main__":
    main()
