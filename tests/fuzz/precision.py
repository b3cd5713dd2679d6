#!/usr/bin/env python3
"""Random 16-bit training against JAX: the models of tests/parity/record_precision.py with random dtypes of parameters, layers
and gradients, loss scales, optimizers, losses, metrics, accumulation and clipped gradients of examples; some on several devices.

    tests/fuzz/precision.py --stepc build/stepc --cases 50 [--seed 0] [--compile 0.3]

It needs JAX, Flax and Optax, and so is none of the tests that always run. A case that disagrees is left as a recorded
case under --keep. Sums in another order round otherwise now and then: a difference that noise of
half a unit of the coarsest dtype makes too is none.
"""
import json
import os
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "parity")]
import sharded
import record_precision as models  # of tests/parity
import jax
from tool import command, comparison, draws, recorded, runner

DTYPES = ["float32", "bfloat16", "float16"]
RECURRENT = {"lstm_cell": "LSTMCell", "optimized_lstm_cell": "OptimizedLSTMCell", "gru_cell": "GRUCell", "simple_cell": "SimpleCell"}


def draw(seed):
    r = np.random.default_rng(seed)
    one = lambda items: items[r.integers(len(items))]
    chance = lambda p: bool(r.random() < p)
    f = lambda low, high: float("%.3g" % r.uniform(low, high))
    kind = one(["mlp"] * 4 + ["conv", "attention", "attention", "lora", "own", *RECURRENT])
    cell = kind in RECURRENT
    make = models.recurrent(kind, getattr(models.nnx, RECURRENT[kind])) if cell else getattr(models, kind)
    precision = {}
    if kind != "own":
        if chance(0.5):
            precision["params"] = one(DTYPES[1:])
        if chance(0.6):
            precision["compute"] = one(DTYPES)
    if chance(0.4):
        precision["gradients"] = one(DTYPES)
    if chance(0.4):
        precision["loss_scale"] = one([{"type": "static", "scale": one([128.0, 1024.0, 3.0, 0.37])},
                                       {"type": "dynamic_scale", "scale": one([1024.0, 2.0 ** 20, 2.0 ** 24, 1000.0]), "growth_interval": int(r.integers(1, 4)),
                                        **one([{}, {"growth_factor": 4.0}, {"backoff_factor": 0.25}, {"minimum_scale": 4096.0}])}])
    rate = f(0.02, 0.2)
    moments = {} if chance(0.6) else {"mu_dtype": one(DTYPES)}
    simple = [{"type": "sgd", "learning_rate": rate}, {"type": "sgd", "learning_rate": rate, "momentum": 0.5, "nesterov": chance(0.5)},
              {"type": "adamw", "learning_rate": f(0.005, 0.05), "eps": 0.01, "b1": 0.5, "b2": 0.75, "weight_decay": f(0, 0.2), **moments},
              {"type": "adam", "learning_rate": f(0.005, 0.05), "eps": 0.01, **moments}, {"type": "rmsprop", "learning_rate": 0.02, "eps": 0.01, "decay": 0.8},
              {"type": "adagrad", "learning_rate": 0.05}, {"type": "adafactor", "learning_rate": 0.02}, {"type": "lamb", "learning_rate": 0.02, "eps": 0.01},
              {"type": "yogi", "learning_rate": 0.02}, {"type": "radam", "learning_rate": 0.02, "eps": 0.01}, {"type": "nadam", "learning_rate": 0.02, "eps": 0.01, **moments},
              {"type": "adamax", "learning_rate": 0.02, "eps": 0.01}, {"type": "adabelief", "learning_rate": 0.02, "eps": 0.01}, {"type": "sm3", "learning_rate": 0.05},
              {"type": "lars", "learning_rate": 0.1}, {"type": "fromage", "learning_rate": 0.02}, {"type": "adadelta", "learning_rate": 0.5}, {"type": "amsgrad", "learning_rate": 0.02, "eps": 0.01, **moments},
              {"type": "adan", "learning_rate": 0.02, "eps": 0.01}, {"type": "novograd", "learning_rate": 0.02, "eps": 0.01}, {"type": "polyak_sgd", "max_learning_rate": 0.1}]
    wide = [{"type": "schedule_free_adamw", "learning_rate": 0.02, "eps": 0.01}, {"type": "schedule_free_sgd", "learning_rate": rate}, {"type": "muon", "learning_rate": 0.02}, {"type": "prodigy", "learning_rate": 0.1},
            {"type": "momo", "learning_rate": 0.1}, {"type": "momo_adam", "learning_rate": 0.02, "eps": 0.01}, {"type": "optimistic_gradient_descent", "learning_rate": rate}, {"type": "lbfgs", "learning_rate": 0.05, "linesearch": None},
            {"type": "ademamix", "learning_rate": 0.02, "eps": 0.01}, {"type": "simplified_ademamix", "learning_rate": 0.02, "eps": 0.01}, {"type": "adopt", "learning_rate": 0.02, "eps": 0.01}, {"type": "dog", "learning_rate": 0.5},
            {"type": "dowg", "learning_rate": 0.5}, {"type": "adamw", "learning_rate": 0.02, "eps": 0.01, "nesterov": True, **moments}, {"type": "noisy_sgd", "learning_rate": rate, "eta": 0.0}]
    simple += wide if chance(0.4) else []
    opt = one(simple)
    if chance(0.25):
        opt = {"type": "chain", "transforms": [one([{"type": "clip_by_global_norm", "max_norm": f(0.1, 1)}, {"type": "clip", "max_delta": f(0.02, 0.2)},
                                                    {"type": "adaptive_grad_clip", "clipping": f(0.05, 0.5)}, {"type": "clip_by_block_rms", "threshold": f(0.05, 0.5)}]), opt]}
    if chance(0.15):
        opt = {"type": "multi_steps", "opt": opt, "every_k_schedule": int(r.integers(1, 4))}
    more = {}
    if not cell:
        more["loss"] = one(list(models.LOSSES))
        more["factor"] = one([1, 1, 1, 4, 0.1])
    if chance(0.5):
        more["metrics"] = [one(list(models.METRICS)) for _ in range(2)]
    if chance(0.2):
        more["ema"] = f(0.3, 0.95)
    rows = 4 if cell else models.SHAPES[make][0]
    if chance(0.25):
        more["accumulate"] = one([rows // 2, rows // 4, rows])
        more["accumulator"], more["split"] = one(["sum", "mean", "running_mean"]), one(["contiguous", "strided"])
    elif chance(0.2) and kind != "conv":
        more["clip"] = f(0.1, 1)
        more["accumulator"] = one(["sum", "mean"])
    return kind, make, precision, opt, more, int(r.integers(2, 5)) + (4 if "loss_scale" in precision and chance(0.3) else 0), r.random()


def unit(kind, precision):
    half = {precision.get(k) for k in ("params", "compute", "gradients")} | ({"bfloat16"} if kind == "own" else set())
    return 2.0 ** -9 if "bfloat16" in half else 2.0 ** -12 if "float16" in half else 1e-6


def compare(got, want, noisy, rtol, atol):
    for kind in (0, 1):
        for name, value in want[kind].items():
            if name not in got[kind]:
                return "%s is not there" % name
            w, f, n = (np.asarray(x[kind][name], "f8") for x in (want, got, noisy))
            with np.errstate(invalid="ignore", over="ignore"):
                slack = 3 * np.abs(n - w).max(initial=0)
            said = comparison.difference(f, w, rtol, atol, slack if np.isfinite(slack) else np.inf)
            if said:
                return name + said
    return None


def one(options, seed):
    kind, make, precision, opt, more, steps, luck = draw(seed)
    text = json.dumps({"model": kind, "precision": precision, "optimizer": opt, **more})
    u = unit(kind, precision)
    rtol, atol = {2.0 ** -9: (0.015, 0.004), 2.0 ** -12: (0.002, 0.0005)}.get(u, (2e-5, 5e-6))
    try:
        case = models.reference("fuzz", make, precision, opt, more, steps, seed)
    except Exception as e:
        return "refused by the reference", "%s: %s" % (type(e).__name__, str(e).strip()[:300]), text
    want = case[3:]
    with tempfile.TemporaryDirectory(prefix="stepc-fuzz-") as folder:
        document, init, data, tensors, metrics = case
        runner.write_document(folder, document, data, init)
        d, compiled = draws.Draws((seed, 1)), luck < options.compile
        if compiled and d.chance(0.3) and not ("float16" in text and "dynamic" in text):  # sums in another order overflow or not
            shapes = {k: v.shape for k, v in case[1].items() if not k.endswith((".mean", ".var"))}
            runner.write_json(os.path.join(folder, "model.json"), sharded.on_a_mesh(case[0], shapes, d))
        try:
            tensors, lines = runner.play(options.stepc, folder, steps, compiled, options.compile_args.split())
            got = tensors, runner.series(lines, lines[0])
            why = compare(got, want, want, rtol, atol)
            if why is not None:
                why = compare(got, want, models.reference("fuzz", make, precision, opt, more, steps, seed, u)[3:], rtol, atol)
                if why is None:
                    return "unsettled", "", text
        except runner.Failed as e:
            if e.unsupported:
                return "not supported yet", e.brief(), text
            why = e.brief()
        if why and options.keep:
            recorded.write(os.path.join(options.keep, "precision_%d" % seed), document, data, init, steps, tensors, metrics, rtol, atol)
    return "agrees" if why is None else "differs", why or "", text


def main():
    return command.loop(command.options(command.parser(__doc__, 50)), one, jax.clear_caches)


if __name__ == "__main__":
    sys.exit(main())
