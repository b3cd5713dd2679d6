#!/usr/bin/env python3
"""Every transformation, schedule and wrapper of Optax through samples/import/stepc_optax.py, every argument changed by itself: the
document changes, or the argument is refused by name. Masks, labels and dimension numbers that are prefixes of the parameters. The
documents are recorded (optax.json), and the compiler takes each of them; where optax is installed they are made anew.

usage: optax_arguments.py STEPC            (optax_arguments.py --record writes optax.json; needs optax)
"""
import concurrent.futures
import inspect
import json
import os
import sys
import unittest

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../samples/import")]
from tool import runner

RECORDED = os.path.join(HERE, "optax.json")
try:
    import jax
    import jax.numpy as jnp
    import optax as plain

    import stepc_optax as optax
    PARAMS = {"first": {"bias": jnp.zeros(3), "kernel": jnp.ones((4, 3))}, "second": {"kernel": jnp.ones((3, 2))}}
    HALF = jnp.bfloat16
except ImportError:
    plain = None

REFUSED_BY_STEPC = ("verbose", "print_win_rate_every_n_steps")  # printing: E0111


class Made:
    """A value that is made by the module at hand: Optax itself, or the one that remembers."""

    def __init__(self, make):
        self.make = make


def values():
    """Argument -> a value for it, and another one. What is not here has a default, of which another value is made."""
    m, sgd, adam = Made, Made(lambda m: m.sgd(0.1)), Made(lambda m: m.adam(0.2))
    masks = {"first": True, "second": False}, {"first": {"bias": False, "kernel": True}, "second": True}
    several = {"inner": (sgd, adam), "opt": (sgd, adam), "optimizer": (sgd, adam), "fast_optimizer": (sgd, adam), "base_optimizer": (sgd, adam), "tx": (sgd, adam),
               "adv_optimizer": (m(lambda m: m.chain(m.contrib.normalize(), m.sgd(0.05))), sgd),
               "linesearch": (m(lambda m: m.scale_by_zoom_linesearch(7)), m(lambda m: m.scale_by_backtracking_linesearch(5))),
               "hessian_diagonal_fn": (m(lambda m: m.contrib.hutchinson_estimator_diag_hessian()), m(lambda m: m.contrib.hutchinson_estimator_diag_hessian(jax.random.key(3)))),
               "step_size_fn": (m(lambda m: m.linear_schedule(0.1, 0.0, 5)), m(lambda m: m.linear_schedule(0.2, 0.0, 5))),
               "schedules": (m(lambda m: [m.constant_schedule(0.1), m.constant_schedule(0.2)]), m(lambda m: [m.constant_schedule(0.1), m.constant_schedule(0.3)])),
               "transforms": (m(lambda m: {"a": m.sgd(0.1), "b": m.adam(0.1)}), m(lambda m: {"a": m.sgd(0.1), "b": m.adam(0.2)})),
               "measure": (m(lambda m: m.global_norm),) * 2, "measures": (m(lambda m: {"n": m.global_norm}), m(lambda m: {"o": m.global_norm})),
               "every_k_schedule": (2, lambda step: jnp.where(step < 3, 1, 2)), "should_skip_update_fn": (m(lambda m: m.skip_not_finite), None),
               "decay_rate_fn": (None, lambda step, decay: decay), "f": (lambda u, p: u, lambda u, p: -u)}
    functions = {name: (lambda step: step > 2, lambda step: step > 3) for name in ("should_transform_fn", "should_update_fn")}
    functions["clip_value_fn"] = (lambda x: jnp.minimum(x, 1.0), lambda x: jnp.minimum(x, 2.0))
    cycle = lambda peak: [{"init_value": 0.0, "peak_value": peak, "decay_steps": 10, "warmup_steps": 2}]
    numbers = {"learning_rate": (0.1, 0.2), "step_size": (0.5, 0.25), "decay": (0.9, 0.8), "max_delta": (1.0, 2.0), "threshold": (1.0, 2.0), "max_norm": (1.0, 2.0), "value": (0.1, 0.2),
               "clipping": (0.1, 0.2), "eta": (0.1, 0.2), "gamma": (0.5, 0.6), "k": (2, 3), "max_consecutive_errors": (3, 4), "init_value": (0.1, 0.2), "end_value": (0.01, 0.02),
               "peak_value": (0.5, 0.6), "transition_steps": (10, 11), "decay_rate": (0.9, 0.8), "decay_steps": (20, 21), "warmup_steps": (3, 4), "power": (2, 3), "alpha": (0.1, 0.2),
               "sync_period": (2, 3), "slow_step_size": (0.5, 0.6), "l2_norm_clip": (1.0, 2.0), "noise_multiplier": (0.5, 0.6), "max_backtracking_steps": (5, 6),
               "max_linesearch_steps": (5, 6), "momentum": (0.9, 0.8), "weight_decay_rate": (0.1, 0.2), "optimism": (0.1, 0.2), "beta3": (0.9, 0.8), "init_estim_sq_dist": (1.0, 2.0),
               "lambda_param": (0.1, 0.2), "consistent_rms": (0.1, 0.2), "adam_learning_rate": (0.1, 0.2), "axis": (0, -1), "max_stepsize": (1.0, 2.0), "weight_decay": (0.1, 0.3),
               "init_step": (1e-6, 1e-5), "init_learning_rate": (0.1, 0.2), "betas": ((0.9, 0.99), (0.9, 0.95)), "ns_coeffs": ((3.4445, -4.775, 2.0315), (3.0, -4.0, 2.0)), "etas": ((0.5, 1.2), (0.4, 1.3)), "step_sizes": ((1e-6, 50.0), (1e-6, 40.0)),
               "boundaries": ([5], [6]), "boundaries_and_scales": ({5: 0.5}, {6: 0.5}), "cosine_kwargs": (cycle(1.0), cycle(2.0)), "max_learning_rate": (1.0, 2.0)}
    words = {"measure_name": ("n", "o"), "interpolate_type": ("linear", "cosine"), "variant": ("sps", "sps+"), "mode": ("hard", "smooth"), "initial_guess_strategy": ("keep", "one"),
             "preconditioning": ("frobenius", "spectral"), "batch_axis_name": (None, "batch")}
    keys = {"key": (0, jax.random.key(7)), "seed": (0, 7), "random_seed": (jax.random.PRNGKey(1), jax.random.key(3))}
    trees = {"mask": masks, "weight_decay_mask": masks, "freeze_mask": masks, "param_labels": ({"first": "a", "second": "b"}, {"first": "b", "second": "a"}),
             "weight_dimension_numbers": ({"first": None, "second": None},) * 2, "muon_weight_dimension_numbers": ({"first": None, "second": None}, {"first": None, "second": plain_numbers()})}
    dtypes = {name: (None, HALF) for name in ("mu_dtype", "dtype", "accumulator_dtype", "state_dtype", "dtype_momentum", "param_dtype", "hyperparam_dtype")}
    return {**several, **functions, **numbers, **words, **keys, **trees, **dtypes}


def plain_numbers():
    numbers = getattr(plain.contrib, "MuonDimensionNumbers", None)
    return numbers and numbers((0,), (1,))


def factories():
    for prefix, module in (("", plain), *((name + ".", getattr(plain, name)) for name in ("contrib", "schedules", "transforms") if hasattr(plain, name))):
        for name in sorted(dir(module)):
            thing = getattr(module, name)
            if not name.startswith("_") and callable(thing) and not inspect.ismodule(thing) and (not inspect.isclass(thing) or name == "MultiSteps"):
                if not prefix or getattr(plain, name, None) is not thing:
                    yield prefix + name


def made(module, name, arguments):
    for part in name.split("."):
        module = getattr(module, part)
    return module(**arguments)


def call(module, name, arguments):
    return made(module, name, {k: v.make(module) if isinstance(v, Made) else v for k, v in arguments.items()})


def another(default):
    """Another value than the default, where that tells of what kind it is."""
    if isinstance(default, bool):
        return not default
    return default + 1 if isinstance(default, int) else default * 0.5 + 0.01 if isinstance(default, float) else None


def document(name, arguments):
    return json.loads(json.dumps(optax.settled(call(optax, name, arguments).document, PARAMS)))


def sweep():
    """name or name:argument -> document, or why not; names of arguments whose change does nothing."""
    found, same, table = {}, [], values()
    for name in factories():
        try:
            parameters = inspect.signature(getattr(getattr(plain, name.rpartition(".")[0], plain), name.rpartition(".")[2])).parameters
        except (TypeError, ValueError):
            continue
        named = {k: p for k, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        base = {k: table.get(k, (None,))[0] for k, p in named.items() if p.default is p.empty}
        try:
            result = call(plain, name, base)
        except Exception:
            continue  # no factory
        schedule = inspect.isfunction(result) and ("schedule" in name or "decay" in name)
        if not schedule and not isinstance(result, (plain.GradientTransformation, plain.MultiSteps)):
            continue
        try:
            found[name] = document(name, base)
        except optax.NotCovered as e:
            found[name] = str(e)
        for key, parameter in named.items():
            default = parameter.default
            choices = [v for v in table.get(key, (another(default),)) if key not in base or v is not base[key]]
            choices = [v for v in choices if v is not None and not (isinstance(v, type(default)) and v == default)]
            for choice in choices[-1:]:
                arguments = {**base, key: choice}
                try:
                    call(plain, name, arguments)
                except Exception:
                    continue  # Optax refuses it
                try:
                    found[name + ":" + key] = document(name, arguments)
                except optax.NotCovered as e:
                    found[name + ":" + key] = str(e)
                if found[name + ":" + key] == found[name] and isinstance(found[name], dict):
                    same.append(name + ":" + key)
            if not choices and default is not parameter.empty:
                same.append("%s:%s has no value in the table" % (name, key))
    return found, same


def document_of(found):
    schedule = found["type"].endswith(("_schedule", "_schedules")) or found["type"] == "exponential_decay" or found["type"].startswith("warmup_")
    schedule = schedule and found["type"] != "scale_by_schedule"
    return {"stepc": 1, "inputs": {"x": {"shape": [2, 4], "axes": ["batch", None]}}, "loss": "mean(model**2)",
            "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "name": "first", "features": 3}, {"type": "linear", "name": "second", "features": 2, "use_bias": False}]},
            "optimizer": {"type": "sgd", "learning_rate": found} if schedule else found}


class Arguments(runner.Case):
    def test_compiler(self):
        """It takes every recorded document but those of which it says why not."""
        with open(RECORDED) as f:
            recorded = json.load(f)["documents"]
        def check(number, name, found):
            path = self.write("model%d.json" % number, document_of(found))
            done = runner.attempt(runner.Case.program, "check", path)
            return name, done.returncode, done.stderr
        unique = {json.dumps(found): (name, found) for name, found in recorded.items() if isinstance(found, dict)}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, code, said in pool.map(lambda job: check(job[0], *job[1]), enumerate(unique.values())):
                not_there = name.rpartition(":")[2] in REFUSED_BY_STEPC or name.startswith("measure_with_ema")  # inside of monitor alone
                matrices = name.startswith("contrib.scale_by_muon") and "is no matrix" in said
                with self.subTest(name):
                    self.assertEqual(code, 1 if not_there or matrices else 0, said)

    def test_no_label(self):
        """A transformation that no label names has what Optax keeps of it: what belongs to no parameter."""
        parts = {"type": "partition", "transforms": {"a": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9}, "b": {"type": "adam", "learning_rate": 0.1}}, "labels": {"**": "a"}}
        told = self.stepc("explain", self.write("model.json", document_of(parts)), "--state", "--json").stdout
        slots = {slot["name"]: slot["shape"] for slot in json.loads(told)["state"] if slot["name"].startswith("opt_state")}
        trace = "opt_state.inner_states.a.inner_state.0.trace."
        self.assertEqual(slots, {trace + "first.kernel": [4, 3], trace + "first.bias": [3], trace + "second.kernel": [3, 2], "opt_state.inner_states.b.inner_state.0.count": []})

    @unittest.skipIf(plain is None, "needs optax")
    def test_every_argument(self):
        found, same = sweep()
        self.assertEqual(same, [])
        with open(RECORDED) as f:
            recorded = json.load(f)
        for name, what in found.items():
            with self.subTest(name):
                if plain.__version__ == recorded["optax"]:
                    self.assertEqual(what, recorded["documents"][name])
                elif optax.VERSION < optax.CHANGED.get(name.split(":")[0].rpartition(".")[2], ()):
                    self.assertIn("is another one", what)
                elif name in recorded["documents"] and list(what) == list(recorded["documents"][name]):  # a key or a rate may be required
                    self.assertEqual(what, recorded["documents"][name])
        if plain.__version__ == recorded["optax"]:
            self.assertEqual(sorted(found), sorted(recorded["documents"]))

    @unittest.skipIf(plain is None, "needs optax")
    def test_prefixes(self):
        """A value stands for all parameters below it; what names none, or leaves one out, is an error."""
        settle = lambda made: optax.settled(made.document, PARAMS)
        adamw = lambda mask: optax.adamw(0.1, mask=mask)
        for mask, names in (({"first": True, "second": False}, ["first.bias", "first.kernel"]), (lambda p: {"first": {"bias": False, "kernel": True}, "second": True}, ["first.kernel", "second.kernel"]),
                            (True, ["**"]), (False, []), (np.bool_(True), ["**"]), (lambda p: True, ["first.bias", "first.kernel", "second.kernel"]),
                            (jax.tree.map(lambda p: jnp.array(p.ndim > 1), PARAMS), ["first.kernel", "second.kernel"])):
            self.assertEqual(settle(adamw(mask))["mask"], names)
        self.assertEqual(settle(optax.chain(optax.masked(optax.sgd(0.1), {"first": False, "second": True})))["transforms"][0]["mask"], ["second.kernel"])
        parts = lambda labels: getattr(optax, "partition" if hasattr(plain, "partition") else "multi_transform")({"a": optax.sgd(0.1), "b": optax.adam(0.1)}, labels)
        for labels in ({"first": "a", "second": {"kernel": "b"}}, lambda p: {"first": "a", "second": "b"}):
            self.assertEqual(settle(parts(labels))["labels"], {"first.bias": "a", "first.kernel": "a", "second.kernel": "b"})
        self.assertEqual(set(settle(parts(lambda p: "a"))["labels"].values()), {"a"})  # "b" has no label, which Optax takes
        numbers = plain_numbers()
        if numbers:
            muon = settle(optax.contrib.muon(0.1, muon_weight_dimension_numbers={"first": None, "second": numbers}))["muon_weight_dimension_numbers"]
            self.assertEqual(muon, {"first.bias": None, "first.kernel": None, "second.kernel": {"reduction_axis": [0], "output_axis": [1]}})
        for wrong, words in ((adamw({"first": True}), ["adamw", "mask", "says nothing", "second.kernel"]), (adamw({"first": True, "second": True, "third": True}), ["no parameter \"third\""]),
                             (adamw({"first": {"weight": True}, "second": True}), ["first.weight"]), (adamw({"first": 1, "second": True}), ["True and False"]),
                             (adamw({"first": None, "second": True}), ["says nothing", "first.bias"]), (adamw(lambda p: p), ["True and False"]),
                             (parts({"first": "a"}), ["param_labels", "second.kernel"]), (parts({"first": "a", "second": 1}), ["param_labels", "names"])):
            self.refused(words, lambda: settle(wrong))

    def refused(self, words, act):
        with self.assertRaises(optax.NotCovered) as caught:
            act()
        for word in words:
            self.assertIn(word, str(caught.exception))

    @unittest.skipIf(plain is None, "needs optax")
    def test_refused(self):
        """By name, and by nothing but NotCovered."""
        import functools
        typed, old = jax.random.key(3), jax.random.PRNGKey(3)
        noise = lambda key: optax.add_noise(0.1, 0.5, key)
        skipping = lambda rule: optax.MultiSteps(optax.sgd(0.1), 2, should_skip_update_fn=rule)
        def skip_not_finite(updates, step, params):
            return jnp.array(True), ()
        for words, act in (
                (["add_noise", "key"], lambda: noise(jax.random.split(typed)[0])), (["add_noise", "key"], lambda: noise(jax.random.split(old)[0])),
                (["add_noise", "key"], lambda: noise(jax.random.key(3, impl="rbg"))), (["sgd", "learning_rate", "ArrayImpl"], lambda: optax.sgd(jnp.ones(3))),
                (["sgd", "learning_rate", "ndarray"], lambda: optax.sgd(np.ones(3))), (["sgd", "nan"], lambda: optax.sgd(float("nan"))), (["clip", "inf"], lambda: optax.clip(np.inf)),
                (["sgd", "learning_rate", "function"], lambda: optax.sgd(lambda step: 0.1)), (["clip", "complex"], lambda: optax.clip(1j)),
                (["inject_hyperparams"], lambda: optax.inject_hyperparams(lambda rate: optax.sgd(rate))), (["inject_hyperparams"], lambda: optax.inject_hyperparams(plain.adam)),
                (["inject_hyperparams"], lambda: optax.inject_hyperparams(inner_factory=plain.adam, static_args="b1")),
                (["should_skip_update_fn"], lambda: skipping(skip_not_finite)), (["should_skip_update_fn"], lambda: skipping(functools.partial(optax.skip_large_updates, 1.0))),
                (["should_transform_fn"], lambda: optax.conditionally_mask(optax.sgd(0.1), lambda step, **more: step.nothing)),
                (["should_transform_fn"], lambda: optax.conditionally_mask(optax.sgd(0.1), lambda step, value: step > 2)),
                (["every_k_schedule"], lambda: optax.MultiSteps(optax.sgd(0.1), lambda step: (step, step))), (["boundaries_and_scales", "5.5"], lambda: optax.piecewise_constant_schedule(0.1, {5.5: 0.5})),
                (["stepc_optax"], lambda: optax.chain(plain.sgd(0.1))), (["stepc_optax"], lambda: optax.masked(plain.sgd(0.1), True)), (["monitor", "measures"], lambda: optax.monitor({"n": lambda u: 1.0})),
                (["freeze_mask"], lambda: optax.selective_transform(optax.sgd(0.1), freeze_mask=lambda p: p))):
            if words[0] not in ("add_noise", "monitor", "freeze_mask") or optax.VERSION >= (0, 2, 7):
                with self.subTest(words):
                    self.refused(words, act)
        self.assertEqual([noise(key).document["key"] for key in (typed, old, 3)[-1 if optax.VERSION < (0, 2, 7) else 0:]][-1], 3)
        self.assertEqual(optax.with_extra_args_support(optax.sgd(0.1)).document, optax.sgd(0.1).document)
        steps = optax.MultiSteps(optax.sgd(0.1), 2)
        state = steps.gradient_transformation().init(PARAMS)
        self.assertEqual(steps.gradient_transformation().document, steps.document)
        self.assertEqual([bool(steps.has_updated(s)) for s in (state, steps.update(PARAMS, state, PARAMS)[1])], [False, False])
        self.assertEqual(optax.inject_stateful_hyperparams(optax.sgd)(0.1).document, optax.inject_hyperparams(optax.sgd)(0.1).document)
        self.assertEqual(optax.inject_hyperparams(inner_factory=optax.contrib.prodigy, static_args="betas", hyperparam_dtype=jnp.float32)(0.5).document,
                         {"type": "inject_hyperparams", "opt": {"type": "prodigy", "learning_rate": 0.5}, "static_args": ["betas"], "hyperparam_dtype": "float32"})
        self.assertEqual(skipping(functools.partial(optax.skip_large_updates, max_squared_norm=2.0)).document["should_skip_update_fn"], {"type": "skip_large_updates", "max_squared_norm": 2.0})


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        found, same = sweep()
        with open(RECORDED, "w") as f:
            json.dump({"optax": plain.__version__, "documents": found}, f, indent=0, separators=(",", ":"))
            f.write("\n")
        sys.exit("\n".join(same) or 0)
    runner.main()
