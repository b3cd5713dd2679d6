#!/usr/bin/env python3
"""Random optimizers against Optax: documents whose optimizer is drawn from the rows of optim.def and schedules.def, with
random arguments, nesting, masks, schedules, shapes and data, run by stepc and by Optax.

    tests/fuzz/optimizers.py --stepc build/stepc --cases 200 [--seed 0] [--compile 0.2] [--only adam lookahead]

It needs JAX, Optax 0.2.8 and a C compiler's preprocessor, and so is none of the tests that always run. A case that
disagrees is left as a recorded case under --keep. Where a change of the data in the last bits
changes the result more than the tolerance, the case says nothing, and is counted as unsettled.
"""
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"  # casts to bfloat16 are meant
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import optim_reference
from tool import ROOT, command, comparison, draws, recorded, runner

RTOL, ATOL = 2e-5, 2e-6
NARROW = [0.08]  # the part of the cases whose parameters are bfloat16


# ---------------------------------------------------------------- the tables

def rows(table):
    """name -> argument -> (kind, flags, default, choices), as the C preprocessor sees the rows."""
    with open(os.path.join(ROOT, "frontend", "document", "arguments.h")) as f:
        short = [line for line in f.read().replace("\\\n", " ").splitlines() if line.startswith("#define") and not line.startswith(("#define ARG(", "#define FRONTEND"))]
    head = ["#define ARG(name, kind, flags, preset, choices) [A name ~ kind ~ flags ~ preset ~ choices A]", "#define TRANSFORM(name, arguments, ...) [R name ~ arguments R]",
            "#define ALIAS(name, chain, arguments, ...) [R name ~ arguments R]", "#define FORMULA(name, arguments, ...) [R name ~ arguments R]", "#define PLANNED(name)", "#define X(name, arguments, ...) [R name ~ arguments R]"]
    source = "\n".join(head + short) + '\n#include "frontend/%s.def"\n' % table
    text = subprocess.run(["cc", "-E", "-P", "-x", "c", "-I", ROOT, "-"], input=source, capture_output=True, text=True, check=True).stdout
    out = {}
    for name, arguments in re.findall(r"\[R (\w+) ~ (.*?)\s*R\]", text, re.S):
        found = [[x.strip() for x in a.split(" ~ ")] for a in re.findall(r"\[A (.*?) A\]", arguments, re.S)]
        out[name] = {a[0]: (a[1], a[2], a[3].strip('"').replace('\\"', '"'), a[4].strip('"')) for a in found}
    return out


OPTIMIZERS, SCHEDULES = rows("optim/optim"), rows("optim/schedules")
WRAPPERS = {"chain", "named_chain", "masked", "partition", "multi_transform", "multi_steps", "selective_transform", "multi_optimizer", "apply_if_finite",
            "conditionally_transform", "conditionally_mask", "maybe_update", "inject_hyperparams", "flatten", "sam", "lookahead", "mechanize", "schedule_free",
            "split_real_and_imaginary", "apply_every", "scale_by_backtracking_linesearch", "scale_by_zoom_linesearch", "lbfgs", "scale_by_lbfgs",
            "per_example_global_norm_clip", "per_example_layer_norm_clip", "differentially_private_aggregate", "dpsgd", "sophia", "galore", "scale_by_galore", "custom", "inject_stateful_hyperparams", "hutchinson_estimator_diag_hessian"}
OF_LOSS = {"scale_by_polyak", "polyak_sgd", "reduce_on_plateau", "momo", "momo_adam"}
SHAPES = [(), (1,), (4,), (5,), (3, 4), (4, 2), (1, 5), (4, 1), (3, 3), (2, 3, 4), (5, 1, 3), (4, 4, 2), (2, 3, 2, 4), (6, 7), (2, 1, 1, 3)]
NAMES = ["layers.0.kernel", "layers.0.bias", "layers.1.kernel", "layers.1.bias", "head.kernel", "scale"]
MATRICES = {"muon", "scale_by_muon"}
# Per parameter p and data g. Cubic interpolation of a quadratic function is rounding alone: line searches have the last one.
BATCH = 4
ROWS = ("0.5 * mean(sum(reshape(({0} - {1})**2, (shape({1})[0], -1)), axis=1))", lambda p, g: 0.5 * jnp.sum((p - g) ** 2))  # the second one for one row
LOSSES = [("sum({0} * {1})", lambda p, g: jnp.sum(p * g)), ("0.5 * sum(({0} - {1})**2)", lambda p, g: 0.5 * jnp.sum((p - g) ** 2)),
          ("0.5 * sum(({0} - {1})**2) + 0.1 * sum(({0} - {1})**4)", lambda p, g: 0.5 * jnp.sum((p - g) ** 2) + 0.1 * jnp.sum((p - g) ** 4))]


class Generator(draws.Draws):
    def __init__(self, seed):
        super().__init__(seed)
        self.measures = 0
        names = list(self.r.permutation(NAMES)[:self.r.integers(2, 5)])
        self.shapes = {str(n): SHAPES[self.r.integers(len(SHAPES))] for n in sorted(names)}
        self.axes = None
        self.extremes = 0.3 if self.chance(0.3) else 0.0
        self.batch = self.narrow = False

    def log(self, low, high):
        return float("%.3g" % np.exp(self.r.uniform(np.log(low), np.log(high))))

    # ------------------------------------------------------------ patterns

    def patterns(self, paths=None):
        """Patterns and so the parameters that are in: some, sometimes all."""
        paths = list(paths or self.shapes)
        pool = paths + ["**." + p.split(".")[-1] for p in paths if "." in p] + ["layers.**" for p in paths if p.startswith("layers")] + ["**"]
        pool += ["layers.*." + p.split(".")[-1] for p in paths if p.startswith("layers")] + ["{%s,%s}" % (paths[0], paths[-1])]
        return sorted({self.one(pool) for _ in range(self.r.integers(1, 3))})

    def by_pattern(self, value):
        """An ordered map from the parameters to values."""
        return {p: value(p) for p in self.shapes}

    # ------------------------------------------------------------ schedules

    def schedule(self, largest=0.3, depth=0):
        name = self.one(SCHEDULES)
        x = lambda: self.log(largest / 30, largest)
        n = lambda low=1: int(self.r.integers(low, 9))
        o = {"type": name}
        for k, (kind, flags, preset, choices) in SCHEDULES[name].items():
            required = "FE_REQUIRED" in flags
            if not required and self.chance(0.4):
                continue
            if k in ("init_value", "end_value", "peak_value", "value", "base_learning_rate"):
                o[k] = x()
            elif k == "decay_steps":
                o[k] = n(6) + 4
            elif k == "warmup_steps":
                o[k] = n(0 if not name.startswith("t5x") else 1)
            elif k in ("transition_steps", "steps_per_decay", "steps_per_cycle"):
                o[k] = n(0 if name in ("linear_schedule", "polynomial_schedule", "exponential_decay") else 4 if "cycle" in name else 1)
            elif k == "step_offset":
                o[k] = n(0) // 2
            elif k == "transition_begin":
                o[k] = n(0) // 2
            elif k == "boundaries_and_scales":
                o[k] = {str(int(b)): self.uniform(0.1, 2) for b in self.r.permutation(9)[:self.r.integers(1, 4)]}
            elif k == "schedules":
                count = n() % 3 + 1 if depth == 0 else 2
                o[k] = [self.schedule(largest, depth + 1) for _ in range(count)]
                o["boundaries"] = sorted(int(b) for b in self.r.permutation(9)[:count - 1])
            elif k == "boundaries":
                continue
            elif k == "cosine_kwargs":
                o[k] = [{"init_value": x(), "peak_value": x(), "warmup_steps": n(0) % 3, "decay_steps": 3 + n() % 4,
                         **({"end_value": x()} if self.chance(0.5) else {}), **({"exponent": self.uniform(0.5, 2)} if self.chance(0.3) else {})} for _ in range(n() % 3 + 1)]
            elif k == "factors":
                o[k] = " * ".join(self.one(optim_reference.T5X_FACTORS) for _ in range(n() % 3 + 1))
            elif k == "pct_final":
                o[k] = self.uniform(0.6, 0.95)
            elif k == "pct_start":
                o[k] = self.uniform(0.1, 0.5)
            elif k == "power":
                o[k] = self.one([1, 2, 3, 0.5, 1.5, 2.0])
            elif k == "decay_rate":
                o[k] = self.one([0.0, 0.5, 0.9, 1.3])
            elif k in ("alpha", "decay_factor"):
                o[k] = self.uniform(0, 0.6)
            elif k in ("div_factor", "final_div_factor"):
                o[k] = self.log(2, 100)
            elif k == "exponent":
                o[k] = self.uniform(0.5, 3)
            elif k == "min_learning_rate":
                o[k] = self.log(1e-8, largest / 10)
            elif kind == "FE_BOOL":
                o[k] = self.chance(0.5)
            elif kind == "FE_ENUM":
                o[k] = self.one(choices.split("|"))
            else:
                raise KeyError("%s of schedule %s" % (k, name))
        if name == "warmup_cosine_decay_schedule":
            o["decay_steps"] = o["warmup_steps"] + n()
        if self.extremes and self.chance(0.5):
            self.extreme_schedule(o)
        return o

    def extreme_schedule(self, o):
        """One argument at the end of what makes sense."""
        ends = {"init_value": [0, 0.0, 1, -0.1], "peak_value": [0, 0.0, 1, -0.1], "end_value": [0, 0.0, 1, -0.05], "value": [0, 1, -0.1], "power": [0, 1, 0.0, 2], "transition_steps": [0, 1, 1000000],
                "transition_begin": [0, 20, -1], "decay_steps": [1, 100], "warmup_steps": [0, 1, 100], "boundaries_and_scales": [{}, {"0": 0.5}, {"1": 0, "2": 0.5}, {"100": 0.1}],
                "decay_rate": [0, 1, 1.0, 2], "alpha": [0, 1, 1.0], "exponent": [0, 1, 2.0], "pct_start": [0.0, 1.0], "div_factor": [1, 1.0, 0.5], "final_div_factor": [1, 1.0], "staircase": [True]}
        k = self.one([k for k in o if k in ends] or [None])
        if k:
            o[k] = self.one(ends[k])

    # ------------------------------------------------------------ arguments

    def extreme(self, k, flags):
        """The ends of what the table allows, and whole numbers written as such; None: no such value."""
        if k in ("max_linesearch_steps", "scale_factor", "f_min", "lower_bound", "num_betas", "threshold") or "norm" in k and "max" in k:
            return None
        if "FE_UNIT_CLOSED" in flags:
            return self.one([0, 0.0, 1, 1.0] if "FE_POSITIVE" not in flags else [1, 1.0])
        if "FE_UNIT" in flags:
            return self.one([0, 0.0, 0.99999]) if "FE_POSITIVE" not in flags else None
        if "FE_NOT_NEGATIVE" in flags:
            return self.one([0, 0.0, 0.0, 1, 2])
        return self.one([1, 2, 1.0])

    def number(self, name, k, preset, flags=""):
        if self.chance(self.extremes):
            value = self.extreme(k, flags)
            if value is not None:
                return value
        if k in ("b1", "b2", "b3", "beta", "beta1", "beta3", "decay", "momentum", "rho", "smooth", "adam_b1", "adam_b2"):
            if name.endswith("sm3") and k == "b2":
                return self.one([1.0, self.uniform(0.3, 0.99)])
            return self.one([self.uniform(0.05, 0.95), self.uniform(0.5, 0.999), 0.5])
        if k == "decay_rate":
            return self.uniform(0.3, 0.95)
        if k.startswith("eps") or k in ("adam_eps_root", "epsilon1", "epsilon"):
            return self.one([self.log(1e-9, 1e-1), self.log(1e-4, 1e-1), self.uniform(0.01, 0.3)])
        if k in ("learning_rate", "scaling", "max_learning_rate", "adam_learning_rate"):
            return self.log(1e-2, 0.5)
        if "weight_decay" in k:
            return self.one([0.0, self.log(1e-3, 0.3), self.log(1e-3, 0.3)])
        if k in ("min_step_size",):
            return self.log(1e-6, 1e-2)
        if k in ("eta_minus", "slow_step_size", "decrease_factor"):
            return self.uniform(0.2, 0.9)
        if k in ("f_min", "lower_bound"):
            return self.uniform(-2, 0.5)
        if k == "initial_accumulator_value":
            return self.one([0.0, self.log(1e-3, 1)]) if "rss" in name or name == "adagrad" else self.log(1e-6, 1)
        try:
            return self.log(float(preset) / 3, float(preset) * 3) if float(preset) > 0 else self.one([0.0, self.log(1e-3, 1)])
        except (ValueError, TypeError):
            return self.log(0.05, 2)

    def argument(self, name, k, kind, flags, preset, choices):
        nullable = "FE_NULLABLE" in flags
        if nullable and self.chance(0.15):
            return None
        if k == "step_size_fn":
            return self.schedule()
        if kind == "FE_SCHEDULE":
            return self.schedule(0.3 if k != "alpha" else 5.0) if self.chance(0.5) else self.number(name, k, preset, flags)
        if kind == "FE_NUMBER":
            return self.number(name, k, preset, flags)
        if kind == "FE_BOOL":
            return False if k in ("verbose", "nan_passes") else self.chance(0.5)
        if kind == "FE_ENUM":
            return self.one(choices.split("|"))
        if kind == "FE_PATTERNS":
            return ["**"] if self.flat else self.patterns()
        if kind == "FE_DTYPE":
            return self.one(["float32", "bfloat16"])
        if kind == "FE_INTEGER":
            if k in ("key", "seed", "random_seed"):
                return int(self.r.integers(0, 1000))
            if k == "min_dim_size_to_factor":
                return self.one([1, 2, 3, 4])
            if k in ("step_offset", "decay_offset"):
                return 0 if self.chance(0.7) else -int(self.r.integers(1, 3))
            return int(self.r.integers(1, 5))
        if k == "betas":
            return [self.uniform(0.5, 0.95), self.uniform(0.7, 0.999)]
        if k == "init_step":
            return [self.one(["heuristic", "distance", "learning_rate"]), self.log(1e-6, 1e-1)]
        if k == "clip_value_fn":
            return self.one(["x**0.25", "x**0.5", "0.5 + 0.1*x", "minimum(x, 3)"])
        if k == "decay_rate_fn":
            return self.one(["1 - (step + 1.0)**(-decay_rate)", "0.5 * decay_rate"])
        if k in ("axis", "hessian_diagonal_fn"):
            return None
        if k == "ns_coeffs":
            return self.one(["standard", "dion", [3.0, -3.2, 1.2], [[4.0, -6.9, 2.9], [2.8, -3.1, 1.2]]])
        if k.endswith("dimension_numbers"):
            return self.dimension_numbers(name)
        if k == "eta_fn":
            return self.by_pattern(lambda p: self.one([self.uniform(0.2, 2), "1 / sqrt(SHAPE[0])"]) if self.shapes[p] else self.uniform(0.2, 2))
        if k == "shape_fn":
            return self.by_pattern(lambda p: self.one([[], [self.one([1, None]) for _ in self.shapes[p]]]))
        if k == "factor_map":
            return self.by_pattern(self.factors)
        if k == "logical_factor_rules":
            return None
        if k == "multiply_by_parameter_scale":
            return self.one([True, False, self.by_pattern(lambda p: self.chance(0.5))])
        if k == "f":
            return self.one(["update * 0.5 - 0.1 * param", "sqrt(abs(update)) + 0.01 * param"]
                            + (["update / (1 + global_norm(updates)) - 0.01 * global_norm(params) * param"] if name == "stateless" else []))
        raise KeyError("%s of %s" % (k, name))

    def dimension_numbers(self, name):
        def spec(p):
            rank = len(self.shapes[p])
            if rank < 2 or (name == "muon" and self.chance(0.2)):
                return None
            order = [int(i) for i in self.r.permutation(rank)]
            if rank > 2 and self.chance(0.5):
                return {"reduction_axis": order[:2] if self.chance(0.5) else order[0], "output_axis": order[2]}
            return self.one([{"reduction_axis": order[0], "output_axis": order[1]}, {}, {"reduction_axis": -2, "output_axis": -1}])
        return self.by_pattern(spec)

    def factors(self, p):
        shape = self.shapes[p]
        rule = [self.one(["row", "col", "batch", "none", "column"]) for _ in shape]
        choices = [None, None]
        if len(shape) <= 2:
            choices.append("heuristic")
        if len(shape) and ("row" in rule) == bool({"col", "column"} & set(rule)):
            choices += [rule] * 4
        return self.one(choices)

    # ------------------------------------------------------------ transformations

    def leaf(self, name):
        o = {"type": name}
        for k, (kind, flags, preset, choices) in OPTIMIZERS[name].items():
            if "FE_REQUIRED" not in flags and self.chance(0.35):
                continue
            o[k] = self.argument(name, k, kind, flags, preset, choices)
        self.mend(o)
        return o

    def mend(self, o):
        name = o["type"]
        if name == "t5x_adafactor":
            ranks = any(len(s) > 2 for s in self.shapes.values())
            if self.chance(0.3) and not self.axes:
                names_of = lambda p: [str(n) for n in self.r.choice(["embed", "mlp", "layers", "heads", "relpos_buckets"], len(self.shapes[p]), False)]
                self.axes = self.by_pattern(names_of)
                for p, names in self.axes.items():  # rows and columns allow no other dimension
                    kinds = {optim_reference.STANDARD[n] for n in names}
                    if {"row", "col"} <= kinds:
                        self.axes[p] = ["stack" if n == "relpos_buckets" else n for n in names]
                o["logical_factor_rules"], o["factor_map"] = "standard", None
            if o.get("factor_map") is None and o.get("logical_factor_rules") is None and ranks and o.get("factored", True):
                o["factor_map"] = self.by_pattern(self.factors)
            if not o.get("factored", True):
                o.pop("factor_map", None)
                o.pop("logical_factor_rules", None)
            if o.get("min_dim_size_to_factor", 128) > 8:
                o["min_dim_size_to_factor"] = 2
        if o.get("mu_dtype", o.get("accumulator_dtype")) == "bfloat16":  # whose rounding of decays is not defined otherwise
            for k in ("b1", "b2", "beta", "decay", "momentum", "adam_b1"):
                if k in OPTIMIZERS[name] and (k in o or k != "b2"):
                    if o.get(k, 0) is not None:
                        o[k] = 0.5
        if o.get("mask") is not None:
            o.pop("weight_decay_mask", None)
        if "seed" in o:
            o.pop("key" if o["seed"] is not None else "seed", None)
        if o.get("state_dtype") == "bfloat16":
            o["state_dtype"] = None
        if o.get("ns_coeffs") == "dion" or isinstance(o.get("ns_coeffs"), list) and isinstance(o["ns_coeffs"][0], list):
            o["ns_steps"] = 5  # Optax's test of their number is the wrong way around
        if name == "scale_by_stddev" or o.get("centered"):  # the variance of one step is rounding
            o["eps"], o["eps_in_sqrt"] = self.log(1e-3, 1e-1), True
        if name == "adaptive_grad_clip":
            least = min(len(s) for s in self.shapes.values())
            o["axis"] = None if not least or self.chance(0.5) else self.one([0, [0], -1])
            if o["axis"] is None:
                del o["axis"]

    def transformation(self, depth=0, name=None, scaled=True):
        if name is None:
            wrap = depth < 3 and self.chance(0.5 if depth else 0.6)
            pool = [n for n in WRAPPERS - {"lookahead", "lbfgs", "scale_by_lbfgs", "hutchinson_estimator_diag_hessian"} if hasattr(self, "wrap_" + n)] if wrap else set(OPTIMIZERS) - WRAPPERS
            name = self.one(sorted(pool))
        make = getattr(self, "wrap_" + name, None)
        if make:
            return make(depth)
        o = self.leaf(name)
        if name in ("sm3", "scale_by_sm3"):
            return self.for_ranks(o, 1)
        if name == "scale_by_muon":
            return self.for_ranks(o, 2)
        if name.startswith("scale_by") and scaled and self.chance(0.7):
            return {"type": "chain", "transforms": [o, self.rate()]}
        return o

    def rate(self):
        return self.one([{"type": "scale", "step_size": -self.log(1e-2, 0.3)}, {"type": "scale_by_learning_rate", "learning_rate": self.schedule()},
                         {"type": "scale_by_schedule", "step_size_fn": self.schedule()}])

    def for_ranks(self, o, least):
        paths = [p for p, s in self.shapes.items() if len(s) >= least]
        if not paths:
            return self.leaf("adam")
        if o["type"] == "scale_by_muon":
            if all(len(self.shapes[p]) == 2 for p in paths) and self.chance(0.3):
                o.pop("weight_dimension_numbers", None)
            else:
                numbers = self.dimension_numbers("scale_by_muon")
                o["weight_dimension_numbers"] = {p: numbers[p] for p in paths}
        return {"type": "masked", "inner": o, "mask": paths} if len(paths) < len(self.shapes) else o

    def inner(self, depth, **k):
        return self.transformation(depth + 1, **k)

    def wrap_chain(self, depth):
        return {"type": "chain", "transforms": [self.inner(depth) for _ in range(self.r.integers(1, 4))]}

    def wrap_named_chain(self, depth):
        return {"type": "named_chain", "transforms": {"part%d" % i: self.inner(depth) for i in range(self.r.integers(1, 4))}}

    def only(self, paths, depth):
        """A transformation for some of the parameters: inside, the others are not there."""
        shapes, self.shapes = self.shapes, {p: self.shapes[p] for p in paths}
        try:
            return self.inner(depth)
        finally:
            self.shapes = shapes

    def chosen(self, patterns):
        return [p for p in self.shapes if any(optim_reference.match(x, p) for x in patterns)]

    def wrap_masked(self, depth):
        patterns = self.patterns()
        return {"type": "masked", "inner": self.only(self.chosen(patterns), depth), "mask": patterns}

    def wrap_selective_transform(self, depth):
        patterns = self.patterns()
        rest = [p for p in self.shapes if p not in self.chosen(patterns)]
        if not rest:
            return self.inner(depth)
        return {"type": "selective_transform", "optimizer": self.only(rest, depth), "freeze_mask": patterns}

    def wrap_partition(self, depth, name="partition"):
        count = self.r.integers(1, 4)
        labels = {p: "g%d" % self.r.integers(count) for p in self.shapes}
        groups = sorted(set(labels.values()))
        return {"type": name, "transforms": {g: self.only([p for p in labels if labels[p] == g], depth) for g in groups}, "labels": labels}

    def wrap_multi_transform(self, depth):
        return self.wrap_partition(depth, "multi_transform")

    def wrap_multi_optimizer(self, depth):
        count = self.r.integers(1, 3)
        group = {p: int(self.r.integers(count + 1)) for p in self.shapes}
        sets = [[p for p in group if group[p] == i] for i in range(count)]
        return {"type": "multi_optimizer", "optimizers": [{"match": s, "opt": self.only(s, depth)} for s in sets if s]} if any(sets) else self.inner(depth)

    def wrap_multi_steps(self, depth):
        o = {"type": "multi_steps", "opt": self.inner(depth), "every_k_schedule": self.one([1, 2, 3, "where(gradient_step < 1, 1, 2)", "gradient_step + 1",
             {"type": "piecewise_constant_schedule", "init_value": 1, "boundaries_and_scales": {"2": 3}}, {"type": "constant_schedule", "value": 2}])}
        o["nan_passes"] = True
        if self.chance(0.5):
            o["use_grad_mean"] = self.chance(0.5)
        if self.chance(0.3):
            o["accumulator_dtype"] = "float32"
        if self.chance(0.3):
            o["should_skip_update_fn"] = self.one([{"type": "skip_not_finite"}, {"type": "skip_large_updates", "max_squared_norm": self.log(5, 50)}])
        return o

    def wrap_apply_every(self, depth):
        return {"type": "chain", "transforms": [self.inner(depth), {"type": "apply_every", "k": int(self.r.integers(1, 4)), "nan_passes": True}]}

    def wrap_apply_if_finite(self, depth):
        self.poison = True
        return {"type": "apply_if_finite", "inner": self.inner(depth), "max_consecutive_errors": int(self.r.integers(0, 3))}

    def condition(self):
        return self.one(["step < 3", "step >= 2", "step % 2 == 1", "(step > 1) & (step < 4)", "step != 2"])

    def wrap_conditionally_transform(self, depth):
        return {"type": "conditionally_transform", "inner": self.inner(depth), "should_transform_fn": self.condition()}

    def wrap_conditionally_mask(self, depth):
        return {"type": "conditionally_mask", "inner": self.inner(depth), "should_transform_fn": self.condition()}

    def wrap_maybe_update(self, depth):
        return {"type": "maybe_update", "inner": self.inner(depth), "should_update_fn": self.condition()}

    def wrap_split_real_and_imaginary(self, depth):
        return {"type": "split_real_and_imaginary", "inner": self.inner(depth)}

    def wrap_inject_hyperparams(self, depth):
        names = [n for n in OPTIMIZERS if n not in WRAPPERS and n not in ("optimistic_adam", "rprop", "scale_by_rprop", "sm3", "scale_by_sm3", "muon", "scale_by_muon", "amos",
                 "scale_by_amos", "t5x_adafactor", "adopt", "scale_by_adopt", "scale_by_schedule", "scale_by_distance_over_gradients", "multi_optimizer", "snapshot", "monitor", "stateless", "stateless_with_tree_map", "freeze", "scale_by_lbfgs", "lbfgs")]
        o = self.leaf(self.one(names))
        for k, (kind, flags, preset, _) in OPTIMIZERS[o["type"]].items():
            if kind == "FE_NUMBER" and k in ("b1", "b2", "momentum", "decay") and o.get(k) and self.chance(0.3):
                o[k] = {"type": "linear_schedule", "init_value": 0.9, "end_value": 0.5, "transition_steps": 4}
            elif kind == "FE_NUMBER" and o.get(k) and self.chance(0.15):
                o[k] = {"type": "piecewise_constant_schedule", "init_value": o[k], "boundaries_and_scales": {"1": 0.5, "3": 0.8}}
        out = {"type": "inject_hyperparams", "opt": o}
        if self.chance(0.15):
            out["hyperparam_dtype"] = "bfloat16"
        if self.chance(0.3):
            pool = [k for k, v in o.items() if isinstance(v, (int, float)) and not isinstance(v, bool) and k != "type"]
            if pool:
                out["static_args"] = [self.one(pool)]
        return out

    def wrap_flatten(self, depth):
        shapes, axes = self.shapes, self.axes
        size = sum(int(np.prod(s)) for s in shapes.values())
        self.shapes, self.flat = {"**": (size,)}, True
        try:
            for _ in range(20):
                o = self.leaf(self.one(n for n in OPTIMIZERS if n not in WRAPPERS | MATRICES and n not in ("freeze", "snapshot", "monitor", "multi_optimizer")))
                if o["type"] not in ("stateless", "add_noise") and not any(kind == "FE_MAP" for kind, *_ in OPTIMIZERS[o["type"]].values()):
                    return {"type": "flatten", "inner": o}
            return {"type": "flatten", "inner": {"type": "lamb", "learning_rate": 0.1}}
        finally:
            self.shapes, self.axes, self.flat = shapes, axes, False

    def wrap_sam(self, depth):
        adversary = {"type": "chain", "transforms": [{"type": "normalize"}, self.one([{"type": "sgd", "learning_rate": self.log(0.01, 0.2), "momentum": self.one([None, 0.5])},
                     {"type": "adam", "learning_rate": self.log(0.01, 0.1)}])]}
        o = {"type": "sam", "optimizer": self.inner(depth), "adv_optimizer": adversary, "nan_passes": True}
        for k, v in (("sync_period", int(self.r.integers(1, 4))), ("reset_state", self.chance(0.5)), ("opaque_mode", self.chance(0.5))):
            if self.chance(0.7):
                o[k] = v
        if o.get("opaque_mode"):
            self.quadratic = True
        return o

    def wrap_lookahead(self, depth):
        return {"type": "lookahead", "fast_optimizer": self.inner(depth), "sync_period": int(self.r.integers(1, 5)), "slow_step_size": self.uniform(0.2, 0.9), "reset_state": self.chance(0.5), "nan_passes": True}

    def wrap_mechanize(self, depth):
        o = {"type": "mechanize", "base_optimizer": self.inner(depth)}
        for k, v in (("weight_decay", self.log(1e-3, 0.1)), ("eps", self.log(1e-8, 1e-3)), ("s_init", self.log(1e-4, 1e-1)), ("num_betas", int(self.r.integers(1, 7)))):
            if self.chance(0.6):
                o[k] = v
        return o

    def wrap_schedule_free(self, depth):
        o = {"type": "schedule_free", "base_optimizer": self.inner(depth), "learning_rate": self.one([self.log(0.01, 0.5), self.schedule()])}
        for k, v in (("b1", self.uniform(0.3, 0.95)), ("weight_lr_power", self.uniform(0.5, 3))):
            if self.chance(0.6):
                o[k] = v
        return o

    def wrap_lbfgs(self, depth):
        self.quadratic = self.searched = True
        o = self.leaf("scale_by_lbfgs")
        o = {**o, "type": "lbfgs", "learning_rate": self.one([None, self.log(0.05, 1), self.schedule(1.0)]), "memory_size": int(self.r.integers(1, 5))}
        kind = self.r.integers(4)
        if kind == 1:
            o["linesearch"] = None
        elif kind == 2:
            o["linesearch"] = self.leaf("scale_by_zoom_linesearch") | {"max_linesearch_steps": int(self.r.integers(3, 15)), "tol": 0.0, "increase_factor": self.uniform(1.5, 3), "verbose": False}
        elif kind == 3:
            o["linesearch"] = self.leaf("scale_by_backtracking_linesearch") | {"max_backtracking_steps": int(self.r.integers(2, 12)), "verbose": False}
        return o

    def wrap_scale_by_lbfgs(self, depth):
        return {"type": "chain", "transforms": [self.leaf("scale_by_lbfgs"), {"type": "scale", "step_size": -0.1}]}

    def wrap_scale_by_zoom_linesearch(self, depth):
        if depth:
            return self.transformation(depth, "sgd")
        self.quadratic = self.searched = True
        search = self.leaf("scale_by_zoom_linesearch") | {"max_linesearch_steps": int(self.r.integers(3, 15)), "tol": 0.0, "increase_factor": self.uniform(1.5, 3)}
        return {"type": "chain", "transforms": [{"type": "sgd", "learning_rate": self.log(0.05, 1)}, search]}

    def wrap_scale_by_backtracking_linesearch(self, depth):
        if depth:
            return self.transformation(depth, "sgd")
        self.quadratic = self.searched = True
        search = self.leaf("scale_by_backtracking_linesearch") | {"max_backtracking_steps": int(self.r.integers(2, 12))}
        return {"type": "chain", "transforms": [{"type": "sgd", "learning_rate": self.log(0.5, 3)}, search]}

    def wrap_sophia(self, depth):
        if depth:
            return self.transformation(depth, "adamw")
        self.quadratic = self.searched = True
        o = self.leaf("sophia")
        o["hessian_diagonal_fn"] = {"type": "hutchinson_estimator_diag_hessian", **({"random_seed": int(self.r.integers(100))} if self.chance(0.7) else {})}
        o["update_interval"], o["gamma"] = int(self.r.integers(1, 4)), self.log(0.01, 1)
        o.pop("print_win_rate_every_n_steps", None)
        if self.chance(0.3):
            del o["hessian_diagonal_fn"]
        return self.one([o, {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": self.log(0.5, 20)}, o]}])

    def wrap_hutchinson_estimator_diag_hessian(self, depth):
        if depth:
            return self.transformation(depth, "adamw")
        self.quadratic = self.searched = True
        return {"type": "chain", "transforms": [{"type": "hutchinson_estimator_diag_hessian", "random_seed": int(self.r.integers(100))}, {"type": "scale", "step_size": -0.01}]}

    def wrap_scale_by_galore(self, depth):
        return {"type": "chain", "transforms": [self.wrap_galore(depth, "scale_by_galore"), {"type": "scale", "step_size": -self.log(0.01, 0.3)}]}

    def wrap_galore(self, depth, name="galore"):
        o = {k: v for k, v in self.leaf("sgd" if name == "galore" else "identity").items() if k == "learning_rate"}
        o = {"type": name, **o, "rank": int(self.r.integers(1, 4)), "update_proj_gap": int(self.r.integers(1, 4)), "scale": self.one([1, self.log(0.1, 2)])}
        if self.chance(0.4):  # a new projection with other signs than Optax's means nothing to these
            o["base_optimizer"] = self.one([{"type": "identity"}, {"type": "scale_by_sign"}, {"type": "clip", "max_delta": 0.1}, {"type": "scale", "step_size": 0.5}])
        else:
            o["update_proj_gap"] = 200
            if self.chance(0.7):
                o["base_optimizer"] = self.leaf(self.one(["scale_by_adam", "scale_by_lion", "scale_by_rms", "trace", "sgd", "scale_by_amsgrad", "scale_by_optimistic_gradient", "ema"]))
        if name == "galore" and self.chance(0.5):
            o |= {"weight_decay": self.one([0.0, self.log(1e-3, 0.1), self.schedule()]), "mask": self.one([None, self.patterns()]) if not self.flat else None}
        if self.chance(0.5):
            def spec(p):
                rank = len(self.shapes[p])
                if rank < 2 or self.chance(0.2):
                    return None
                order, cut = [int(i) for i in self.r.permutation(rank)], int(self.r.integers(1, rank))
                one = lambda x: x[0] if len(x) == 1 and self.chance(0.5) else x
                return {"reduction_axis": one(order[:cut]), "output_axis": one(order[cut:])}
            o["weight_dimension_numbers"] = self.by_pattern(spec)
        return o

    def wrap_dpsgd(self, depth):
        if depth:
            return self.transformation(depth, "sgd")
        self.batch = True
        o = self.leaf("dpsgd") | {"l2_norm_clip": self.log(0.1, 10)}
        if o.get("seed") is None:
            o["seed"] = 3
        return o

    def wrap_differentially_private_aggregate(self, depth):
        if depth:
            return self.transformation(depth, "sgd")
        self.batch = True
        o = {"type": "differentially_private_aggregate", "l2_norm_clip": self.log(0.1, 10), "noise_multiplier": self.one([0, 0.0, self.log(0.01, 2)]), "seed": int(self.r.integers(100))}
        rest = self.inner(depth)
        while set(draws.types_in(rest)) & (OF_LOSS | {"sam", "stateless", "flatten"}):
            rest = self.inner(depth)
        return {"type": "chain", "transforms": [o, rest]}

    def wrap_snapshot(self, depth):
        self.measures += 1
        return {"type": "snapshot", "measure_name": "m%d" % self.measures, "measure": self.measured()}

    def measured(self):
        return self.one(["global_norm(updates)", "global_norm(updates)**2", "1 / (1 + global_norm(updates))"])

    def wrap_monitor(self, depth):
        self.measures += 1
        ema = {"type": "measure_with_ema", "measure": self.measured(), "decay": self.uniform(0.3, 0.95), "debias": self.chance(0.5)}
        return {"type": "monitor", "measures": {"a%d" % self.measures: self.measured(), "b%d" % self.measures: ema}}


# ---------------------------------------------------------------- a case

def mangled(path):
    return "g_" + path.replace(".", "_")


def make_case(seed, only, steps=None):
    g = Generator(seed)
    g.quadratic, g.searched, g.poison, g.flat = g.chance(0.3), False, g.chance(0.03), False
    g.narrow = g.chance(NARROW[0])
    shapes = dict(g.shapes)
    if g.chance(0.12) and len(shapes) > 2:  # the others are frozen
        del g.shapes[g.one(g.shapes)]
    name = g.one(only) if only else ("lookahead" if g.chance(0.04) else None)
    optimizer = g.transformation(0, name)
    while sum(t.startswith("schedule_free") for t in draws.types_in(optimizer)) > 1:  # one eval.NAME: refused
        optimizer = g.transformation(0, name)
    kinds = set(draws.types_in(optimizer))
    if kinds & OF_LOSS:
        g.quadratic = g.quadratic or g.chance(0.5)
    g.narrow = g.narrow and not g.batch
    steps = steps or int(g.r.integers(5, 10))
    of = "rows" if g.batch else g.quadratic + g.searched
    loss = " + ".join((ROWS if g.batch else LOSSES[of])[0].format("params." + p, mangled(p)) for p in shapes)
    rows = (BATCH,) if g.batch else ()
    document = {"stepc": 1, "name": "fuzz_%d" % seed,
                "inputs": {mangled(p): {"shape": [*rows, *s], "dtype": "float32", "axes": ["batch"] * len(rows) + [None] * len(s)} for p, s in shapes.items()},
                "model": {"type": "graph", "nodes": [{"type": "param", "name": p, "shape": list(s)} for p, s in shapes.items()], "output": next(iter(shapes))},
                "loss": loss, "optimizer": optimizer}
    if len(shapes) > len(g.shapes):
        document["trainable"] = list(g.shapes)
    if g.narrow:
        document["precision"] = {"params": "bfloat16"}
    if g.chance(0.1):
        document["ema"] = {"decay": g.one([0, 1, g.uniform(0.3, 0.99), g.uniform(0.3, 0.99)])}
        if g.chance(0.5):
            document["ema"]["only"] = [g.one(shapes)]
    if g.axes:
        names = sorted({n for a in g.axes.values() for n in a})
        document["sharding"] = {"rules": [[n, None] for n in names], "params": g.axes}
    init = {p: (g.r.normal(size=s) + 0.0).astype(np.float32) for p, s in shapes.items()}
    if g.narrow:
        init = {p: v.astype(ml_dtypes.bfloat16) for p, v in init.items()}
    scale = 1 if g.chance(0.7) else 10.0 ** g.r.integers(-3, 2)
    data = {mangled(p): (g.r.normal(size=(steps, *rows, *s)) * scale * (0.2 + np.arange(steps) % 3).reshape(-1, *[1] * len((*rows, *s)))).astype(np.float32) for p, s in shapes.items()}
    if g.chance(0.15):
        p = g.one(g.shapes)
        data[mangled(p)][...] = 0
    if g.poison:
        for t in set(int(t) for t in g.r.integers(0, steps, 2)):
            p = g.one(g.shapes)
            np.put(data[mangled(p)][t, ...] if (*rows, *g.shapes[p]) else data[mangled(p)][t:t + 1], [0], [g.one([np.nan, np.inf])])
    return {"document": document, "init": init, "data": data, "steps": steps, "trained": list(g.shapes), "loss": of, "axes": g.axes, "narrow": g.narrow}


def measures_of(state):
    """The measures that snapshot and monitor keep in a state."""
    out = {}

    def visit(s):
        if isinstance(s, dict) and s and all(hasattr(v, "shape") for v in s.values()) and all(re.fullmatch(r"[mab]\d+", k) for k in s) and not {"b1", "b2"} >= set(s):
            out.update(s)
        elif hasattr(s, "_asdict"):
            for v in s._asdict().values():
                visit(v)
        elif isinstance(s, (tuple, list)):
            for v in s:
                visit(v)
        elif isinstance(s, dict):
            for v in s.values():
                visit(v)

    visit(state)
    return out


def oracle(case, factors, before=lambda t, state: state):
    """Parameters after the last step and metrics by Optax, per factor that the data and the parameters are changed by; `before` may change
    the state at the beginning of a step."""
    document, trained, rows = case["document"], case["trained"], case["loss"] == "rows"
    pair = document["optimizer"]["type"] == "lookahead"
    tx = optax.with_extra_args_support(optim_reference.make(document["optimizer"], case["axes"]))
    ema = document.get("ema", {})
    average = lambda k: any(optim_reference.match(x, k) for x in ema.get("only", ["**"]))
    form = ROWS[1] if rows else LOSSES[case["loss"]][1]
    frozen = {k: jnp.asarray(v) for k, v in case["init"].items() if k not in trained}

    def of_one(p, d):
        return sum(form(v, d[mangled(k)]) for k, v in {**p, **frozen}.items())

    def loss(p, d):
        return jnp.mean(jax.vmap(of_one, (None, 0))(p, d)) if rows else of_one(p, d)

    def step(p, s, e, d):
        at = p.fast if pair else p
        value, g = jax.value_and_grad(loss)(at, d)
        if rows:
            g = jax.vmap(jax.grad(of_one), (None, 0))(at, d)
        f = lambda q: loss(q, d)
        extra = {} if pair else dict(value=value, grad=g, value_fn=f, grad_fn=lambda q, i: jax.grad(loss)(q, d), **({"obj_fn": f} if case["of_function"] else {}))
        u, s = tx.update(g, s, p, **extra)
        p = optax.apply_updates(p, u)
        if ema:
            e = jax.tree.map(lambda x, y: (ema["decay"] * x + (1 - ema["decay"]) * y).astype(x.dtype), e, p.fast if pair else p)
        return p, s, e, value

    case["of_function"] = bool({"sophia", "hutchinson_estimator_diag_hessian"} & set(draws.types_in(document["optimizer"])))
    step = jax.jit(step)
    results = []
    for factor in factors:
        shaken = lambda v: (v * (1 + 0.2 * factor * np.sin(1 + np.arange(v.size))).reshape(v.shape)).astype(v.dtype)  # in the last bits
        p = {k: jnp.asarray(shaken(np.asarray(v)) if factor else v) for k, v in case["init"].items() if k in trained}
        p, e = (optax.LookaheadParams.init_synced(p) if pair else p), p
        s, metrics = tx.init(p), collections.defaultdict(list)
        for t in range(case["steps"]):
            noise = {k: v[t] * (np.float32(1) + np.float32(factor) * np.cos(np.arange(v[t].size)).reshape(v[t].shape)).astype(np.float32) for k, v in case["data"].items()}
            p, s, e, value = step(p, before(t, s), e, {k: jnp.asarray(v) for k, v in noise.items()})
            metrics["loss"].append(float(value))
            for k, v in measures_of(s).items():
                metrics[k].append(float(v))
        tensors = {k: np.asarray(v) for k, v in {**frozen, **(p.fast if pair else p)}.items()}
        tensors |= {"slow." + k: np.asarray(v) for k, v in p.slow.items()} if pair else {}
        tensors |= {"ema." + k: np.asarray(v) for k, v in {**frozen, **e}.items() if average(k)} if ema else {}
        results.append((tensors, dict(metrics)))
    return results


# ---------------------------------------------------------------- playing it

def write_case(folder, case, tensors, metrics, note="from tests/fuzz/optimizers.py"):
    recorded.write(folder, case["document"], case["data"], case["init"], case["steps"], tensors, metrics, *((4e-2, 2e-2) if case["narrow"] else (RTOL, ATOL)), note)


def compare(case, got, want, noisy):
    """None, or what differs; differences that noise in data and parameters can make are no differences."""
    rtol, atol = (2e-2, 1e-2) if case["narrow"] else (RTOL, ATOL)
    worst, trust = 0.0, 30 if "lbfgs" in json.dumps(case["document"]["optimizer"]) else 3
    for kind in (0, 1):
        for name, value in want[kind].items():
            value, found, other = np.asarray(value, "f8"), got[kind].get(name), np.stack([np.asarray(n[kind][name], "f8") for n in noisy])
            if found is None:
                return "%s is not there" % name, 0
            found = np.asarray(found, "f8")
            if found.size == value.size == 1:  # Optax makes a vector of a scalar here and there
                found = found.reshape(value.shape)
            if found.shape != value.shape:
                return "%s: shape %s instead of %s" % (name, found.shape, value.shape), 0
            with np.errstate(invalid="ignore", over="ignore"):
                slack = trust * np.abs(other - value).max(0)
                bad = comparison.differences(found, value, rtol, atol, np.where(np.isfinite(slack), slack, np.inf))
                bad &= np.isfinite(other).all(0) | np.isfinite(found) | ~np.isfinite(value)
                loose = np.where(np.isfinite(slack), slack / (1e-3 + np.abs(value)), 0).max(initial=0)
            worst = max(worst, loose)
            if bad.any():
                return name + comparison.in_words(found, value, bad), worst
    return None, worst


def play(options, case, compiled, want, noisy):
    with tempfile.TemporaryDirectory(prefix="stepc-fuzz-") as tmp:
        runner.write_document(tmp, case["document"], case["data"], case["init"])
        try:
            tensors, lines = runner.play(options.stepc, tmp, case["steps"], compiled)
        except runner.Failed as e:
            return e.brief(500), 0
        return compare(case, (tensors, runner.series(lines, want[1])), want, noisy)


def one(options, seed):
    try:
        case = make_case(seed, options.only, options.steps)
    except KeyError as e:
        return seed, "generator", "no value for %s" % e, None
    optimizer = json.dumps(case["document"]["optimizer"])
    try:
        want, *noisy = oracle(case, (0, 1e-6, -1e-6, 1e-5, -1e-5) if "bfloat16" in json.dumps(case["document"]) else (0, 1e-6))
    except Exception as e:  # Optax refuses it
        return seed, "refused by Optax", "%s: %s" % (type(e).__name__, str(e).strip()[:200]), optimizer
    why, loose = play(options, case, np.random.default_rng(seed).random() < options.compile, want, noisy)
    if why is None:
        return seed, "unsettled" if loose > 1e-2 else "agrees", "", optimizer
    if options.keep:
        write_case(os.path.join(options.keep, "fuzz_%d" % seed), case, *want)
    return seed, "differs", why, optimizer


def main():
    p = command.parser(__doc__, 100)
    p.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    p.add_argument("--steps", type=int, help="steps of a case (5 to 9)")
    p.add_argument("--compile", type=float, default=0.0, help="the part of the cases that is compiled instead of interpreted")
    p.add_argument("--only", nargs="*", help="optimizers at the root")
    p.add_argument("--narrow", type=float, default=NARROW[0], help="the part of the cases whose parameters are bfloat16")
    p.add_argument("-j", type=int, default=1)
    options = p.parse_args()
    NARROW[0] = options.narrow
    counts, rows_seen = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for seed, outcome, why, optimizer in pool.map(lambda s: one(options, s), range(options.seed, options.seed + options.cases)):
            counts[outcome] += 1
            if optimizer and outcome == "agrees":
                rows_seen.update(set(draws.types_in(json.loads(optimizer))))
            if options.v or outcome not in ("agrees", "unsettled"):
                print("%s %d: %s\n    %s" % (outcome, seed, why, optimizer), flush=True)
            if counts.total() % 25 == 0:
                jax.clear_caches()
    print(command.summary(counts))
    never = sorted((set(OPTIMIZERS) | set(SCHEDULES)) - set(rows_seen))
    if never and not options.only:
        print("never in a case that agrees: " + " ".join(never))
    return 1 if counts["differs"] or counts["generator"] else 0


if __name__ == "__main__":
    sys.exit(main())
