#!/usr/bin/env python3
"""Steps whose update waits for the decision (codegen/late): every optimizer of the table on a small network. Under `skip`, when a
host is asked, and in two calls between which it reads, sets and evaluates, a step gives bit for bit what a plain one gives, or what it does not accept leaves all as it was: with
inputs of all magnitudes, and a state that a host has made huge, negative or infinite. Which updates wait is held below.

    tests/transaction/late.py --stepc build/stepc [--mesh AXES] [--quick] [NAME...]
"""
import argparse
import concurrent.futures
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "update"), os.path.join(HERE, "..", "..", "samples")]
from tool import runner
import update

import numpy as np

import stepc

SHAPES = {"x": (32, 256), "y": (32, 10)}
SCALES = (0, 1e-25, 1, 1e3, 1e8, 1e11, 1e13, 1e16, 1e19, 1e25, 1e38)  # a step refuses some, goes around the proof for others
VALUES = (1e13, 1e20, 3e38, 1e-30, -1.0, np.inf, np.nan)  # put into the state
NUMBERS = (-1, 2**30 + 1, 2**31 - 1)  # and into integers
EVERYWHERE = (1e9, 1e-30)  # put into all of a tensor
# Rows and chains whose update must wait: those not named here may, or nothing is proved of them, or no gradient is stored.
LATE = set("""
    adam nadam adamw nadamw amsgrad adamax adamaxw adabelief adagrad lion signum adan ademamix adopt rprop sgd adadelta radam hyper-parameters rmsprop lars polyak_sgd
    optimistic_gradient_descent optimistic_adam clip_by_global_norm clip_by_block_rms normalize_by_update_norm momentum nesterov
    partition lookahead masked lamb yogi scale_by_yogi schedule_free_adamw schedule_free_sgd scale_by_trust_ratio fromage dog
    acprop simplified_ademamix reduce_on_plateau momo momo_adam dowg cocob scale_by_cocob madgrad scale_by_madgrad""".split()) | {"clip, adamw with a mask", "clip, lion", "values clipped, adamax", "decay, momentum", "adam, plateau",
                                             "a schedule", "finite only", "finite only, clip"}
QUICK = ("adamw", "adan", "lars", "sgd", "yogi", "clip, adamw with a mask", "finite only, clip", "every third, clip", "lookahead", "a schedule",
         "adadelta", "radam", "hyper-parameters", "lamb", "momo", "dowg", "cocob", "madgrad", "schedule_free_adamw", "momentum, clip", "float16", "adam, plateau")
MORE = {"momentum, clip": {"type": "chain", "transforms": [{"type": "trace", "decay": 0.9}, update.CLIP, {"type": "scale_by_learning_rate", **update.RATE}]},
        "float16": dict(update.RATE, type="adam"),
        "adam, plateau": {"type": "chain", "transforms": [dict(update.RATE, type="adam"), {"type": "reduce_on_plateau", "patience": 2, "accumulation_size": 2}]}}
PRECISION = {"float16": {"compute": "float16", "loss_scale": {"type": "static", "scale": 256}}}


def document(optimizer, averages, precision=None):
    inputs = {n: {"shape": list(s), "dtype": "float32", "axes": ["batch", None]} for n, s in SHAPES.items()}
    linear = lambda n: {"type": "linear", "features": n}
    out = {"stepc": 1, "inputs": inputs, "loss": "mean((model - y)**2)", "optimizer": optimizer,
           "model": {"type": "sequential", "input": "x", "layers": [linear(128), {"type": "gelu"}, linear(96), {"type": "relu"}, linear(10)]},
           "metrics": {"norm": "sqrt(sum(model**2))"}}
    out = dict(out, precision=precision) if precision else out
    return dict(out, ema={"decay": 0.99}) if averages else out


def same(what, got, want):
    for name, value in want.items():
        if got[name].tobytes() != value.tobytes():
            return "%s: %s is %s, should be %s" % (what, name, np.ravel(got[name])[:4], np.ravel(value)[:4])
    return None


def restore(m, state):
    for name, value in state.items():
        m[name] = value


def finite(before, after):
    return not any(v.dtype.kind == "f" and (~np.isfinite(v) & np.isfinite(before[n])).any() for n, v in after.items())


def two_calls(m, batch):
    """A step with a rate of its own, in two calls. What happens in between is not in it: its inputs are gone, hyper-parameters set."""
    own = {n: a.copy() for n, a in batch.items()}
    before, rates = m.state(), {n: v for n, v in m.hypers().items() if n == "learning_rate"}
    step = m.compute(on_nonfinite="skip", **own, **{n: 2 * v for n, v in rates.items()})
    if not step.accepted:
        return step
    for a in own.values():
        a.fill(np.nan)
    m.infer(x=batch["x"] + 1)
    wrong = same("while a step waits", m.state(), before)
    if wrong:
        raise stepc.StepError(0, wrong)
    for n, v in rates.items():
        m.set(n, 64 * v)
    step.commit()
    for n, v in rates.items():
        if m.get(n) != 64 * v:
            raise stepc.StepError(0, "%s is %g after commit, was set to %g" % (n, m.get(n), 64 * v))
        m.set(n, v)
    return step


def compare(what, plain, m, batch, asked):
    """One step of both, which begin alike, and are alike again afterwards."""
    before = plain.state()
    r = plain.step(**batch, **({n: 2 * v for n, v in plain.hypers().items() if n == "learning_rate"} if asked == "two calls" else {}))
    want = plain.state()
    good = bool(np.isfinite(r.loss)) and finite(before, want)
    if asked == "two calls":
        got, asked = two_calls(m, batch), False
    else:
        got = m.step(accept=lambda r: True, **batch) if asked else m.step(on_nonfinite="skip", **batch)
    if asked or good:
        if not got.accepted or (got.finite != good):
            return "%s: accepted %s, finite %s, should be %s" % (what, got.accepted, got.finite, good), good
        if (got.loss, got.step, got.metrics) != (r.loss, r.step, r.metrics) and good:
            return "%s: loss %r, without %r" % (what, got.loss, r.loss), good
        return same(what, m.state(), want), good
    restore(plain, before)
    if got.accepted:
        return "%s: a step that makes what is not finite counts" % what, good
    return same("%s refused" % what, m.state(), before), good


@np.errstate(over="ignore")
def play(begun, plain, every=1):
    m = begun()
    rng = np.random.default_rng(0)
    batch = lambda scale: {n: rng.standard_normal(s).astype("f4") * np.float32(scale) for n, s in SHAPES.items()}
    begin = m.state()
    taken, turn = set(), 0
    for i, scale in enumerate((1, 1, 1) + SCALES + (1,)):
        before = m.state()
        if m.step(accept=lambda r: False, **batch(scale)).accepted:
            return "a veto is not heard"
        wrong = same("a veto", m.state(), before)
        wrong = wrong or same("the other", plain.state(), before)
        if wrong:
            return wrong
        wrong, good = compare("inputs of %g" % scale, plain, m, batch(scale), "two calls" if i % 2 == 0 else i % 4 == 1 and scale < 1e3)
        if wrong:
            return wrong
        taken.add(good)
        if scale > 1e3:
            for t in (m, plain):
                restore(t, begin)
    for name in [n for n, v in begin.items() if v.dtype.kind in "fi" and v.size < 20000]:
        one = [(v, False) for v in (VALUES if begin[name].dtype.kind == "f" else NUMBERS)]
        for value, everywhere in one + [(v, True) for v in EVERYWHERE if begin[name].dtype.kind == "f"]:
            turn += 1
            if turn % every:
                continue
            m.close()
            m = begun()  # one that has found bad states does not look at the next ones for a while
            for t in (m, plain):
                restore(t, begin)
                changed = begin[name].copy()
                changed.flat[slice(None) if everywhere else changed.size // 2] = value
                t[name] = changed
            for scale in (0, 1, 1e5) if everywhere else (1, 1):  # the second time nothing was written in between
                wrong, _ = compare("%s with %g" % (name, value), plain, m, batch(scale), False)
                if wrong:
                    return wrong
    m.close()
    return None if taken == {True, False} else "no step was %s" % ("refused" if True in taken else "accepted")


def one(arguments):
    options, name, optimizer, other, averages = arguments
    label = name + (" with averages" if averages else "")
    with tempfile.TemporaryDirectory() as folder:
        model, so = os.path.join(folder, "model.json"), os.path.join(folder, "step.so")
        for tried in (optimizer, other):
            with open(model, "w") as f:
                json.dump(document(tried, averages, PRECISION.get(name)), f)
            # Numbers are the same at every -O, and which updates wait is decided before LLVM.
            p = runner.attempt(options.stepc, "compile", "-q", "-O0", model, "-o", so, *(["--mesh", options.mesh] if options.mesh else []))
            if not p.returncode or not other:
                break
        if p.returncode:
            return label, None, p.stderr.strip().splitlines()[0]
        report = json.loads(runner.attempt(options.stepc, "explain", so, "--json").stdout)
        late = report.get("late")
        def begun():
            m = stepc.Step(so, threads=options.threads)
            m.init()
            return m
        plain = begun()
        try:
            wrong = play(begun, plain, 2 if options.quick else 1)
        except stepc.StepError as e:
            wrong = str(e)
        plain.close()
        return label, late, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepc", required=True)
    parser.add_argument("--mesh")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--quick", action="store_true", help="some, and of the states every other one")
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    only = options.only or (QUICK if options.quick else None)
    cases = [*update.cases(), *((n, o, None) for n, o in MORE.items())]
    work = [(options, *c, a) for c in cases for a in (False, True) if c[0] != "freeze" and (not only or c[0] in only)]
    late, wrong = [], 0
    with concurrent.futures.ProcessPoolExecutor(options.j) as pool:
        for (label, how, why), w in zip(pool.map(one, work), work):
            late += [w[1]] if how else []
            if why or options.v:
                print(label, why or how or "as before")
            wrong += why is not None
            if w[1] in LATE and not how:
                print(label, "should wait")
                wrong += 1
    print("%d updates, %d of them wait; %d wrong" % (len(work), len(late), wrong))
    sys.exit(wrong > 0 or not work)


if __name__ == "__main__":
    main()
