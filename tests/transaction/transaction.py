#!/usr/bin/env python3
"""Steps that do not count, on recorded documents: a batch with a NaN under `skip` and under `stop`, and a good one that the host
refuses, leave every bit of the state as it was; the good batches after them give what they give without. An accepted step has
made nothing infinite or NaN.

    tests/transaction/transaction.py --stepc build/stepc                all recorded documents, on meshes too
    tests/transaction/transaction.py --stepc build/stepc NAME...        some
    tests/transaction/transaction.py --stepc build/stepc --late         those whose update may wait for the decision; it does, however small
"""
import argparse
import concurrent.futures
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples")]
from tool import recorded, runner

import numpy as np

import stepc

NONFINITE = 12
ALWAYS = "STEPC_LATE_ALWAYS"  # the update of a step waits for the decision wherever it may (codegen/late)
# Documents of which no part may wait, or not all, for a reason that has no other test.
KEPT = {"accumulate_stops_early_by_input": "a command that makes state makes a loop's limit too",
        "optimizer_lbfgs_backtracking": "what an update reads is written over before the end of the step",
        "optimizer_lbfgs_zoom_keep": "the same",
        "mesh_t5x_adafactor": "the same"}


class Wrong(Exception):
    pass


def same(what, got, want, without=()):
    for name, value in want.items():
        if not name.startswith(without) and got[name].tobytes() != value.tobytes():
            raise Wrong("%s: %s is %s, was %s" % (what, name, np.ravel(got[name])[:4], np.ravel(value)[:4]))


def poisoned(batch):
    """The batch with a NaN in each of its arrays of floats; None: it has none."""
    bad = {n: v.copy() for n, v in batch.items()}
    floats = [v for v in bad.values() if v.dtype.kind == "f" and v.size]
    for v in floats:
        v.flat[v.size // 2] = np.nan
    return bad if floats else None


def refused(m, batch, policy):
    """Whether a step did not count under the policy, and what it says of itself then."""
    try:
        r = m.step(on_nonfinite=policy, **batch)
    except stepc.StepError as e:
        if policy != "stop" or e.status != NONFINITE:
            raise
        return True
    if policy == "stop" and not r.finite:
        raise Wrong("stop: a step that is not finite passed")
    if r.accepted == (not r.finite):
        raise Wrong("%s: accepted and finite are %s and %s" % (policy, r.accepted, r.finite))
    return not r.accepted


def bad_step(m, batch, policy):
    """One that must not count. Without floats among the inputs a parameter is made NaN and put back afterwards."""
    bad, held = poisoned(batch), None
    if bad is None:
        name = m.names()[0]
        held = m[name]
        broken = held.copy()
        if held.dtype.kind != "f" or not held.size:
            return False
        broken.flat[0] = np.nan
        m[name] = broken
    before = m.state()
    out = refused(m, bad or batch, policy)
    if out:
        same(policy, m.state(), before, ("loss_scale.",) if policy == "skip" else ())
    elif held is None:
        for n, v in m.state().items():
            if v.dtype.kind == "f" and (~np.isfinite(v) & np.isfinite(before[n])).any():
                raise Wrong("%s: %s became infinite or NaN, but the step counts" % (policy, n))
    if held is not None:
        m[name] = held
    return out


def start(folder, case):
    m = stepc.Step(os.path.join(folder, "step.so"), threads=1)
    if m.names() or not case.raw("init"):
        m.init()
    if case.raw("init"):
        m.load(os.path.join(folder, "init.safetensors"), cast=True)
    return m


def play(options, name, variant, folder):
    case = recorded.load(name)
    model = case.unpack(folder)
    so = os.path.join(folder, "step.so")
    runner.call(options.stepc, "compile", model, "-o", so, *variant, *options.compile_args, env={ALWAYS: "1"} if options.late else None)
    if options.late and not json.loads(runner.call(options.stepc, "explain", so, "--json")).get("late"):
        return "nothing may wait"
    plain, m = start(folder, case), start(folder, case)
    data = case.arrays("data")
    batch = lambda k: {n: v[k % len(v)] for n, v in data.items()}
    if not m.state():
        return "no state"
    scaled = any(n.startswith("loss_scale.") for n in m.state())
    stopped = bad_step(m, batch(0), "stop")  # the first of all
    if not stopped:  # it counts
        m.close()
        m = start(folder, case)
    if not plain.step(**batch(0)).finite:
        return "its own numbers are not finite"
    if not m.step(on_nonfinite="stop", **batch(0)).accepted:
        raise Wrong("a good step does not count")
    same("a good step under stop", m.state(), plain.state())
    skipped = scaled or bad_step(m, batch(1), "skip")  # a dynamic loss scale has a rule of its own for such steps
    kept = m.state()
    seen = []
    r = m.step(accept=lambda r: seen.append(r.step) or False, **batch(1))
    if r.accepted or seen != [r.step + 1]:
        raise Wrong("a veto: accepted %s, was asked about step %s after step %d" % (r.accepted, seen, r.step))
    same("a veto", m.state(), kept)
    with m.compute(**batch(1)):
        same("a step that waits", m.state(), kept)
    same("a step that is discarded", m.state(), kept)
    for k in (1, 2, 3) if stopped else ():
        want = plain.step(**batch(k))
        if k == 3:
            got = m.compute(**batch(k))
            got.commit()
        else:
            got = m.step(**batch(k), on_nonfinite="skip" if k == 2 and want.finite else "continue")
        if stopped and skipped:
            same("a good step after bad ones", m.state(), plain.state())
            if (want.loss, want.step) != (got.loss, got.step) and want.loss == want.loss:
                raise Wrong("a good step after bad ones: loss %r at %d, without them %r at %d" % (got.loss, got.step, want.loss, want.step))
    m.close()
    plain.close()
    return "" if stopped and skipped else "the NaN reaches nothing"


def one(arguments):
    options, name, variant = arguments
    with tempfile.TemporaryDirectory() as folder:
        try:
            return name, variant, play(options, name, variant, folder), None
        except runner.Failed as e:
            return name, variant, "not supported", None if e.unsupported else e.brief()
        except (Wrong, stepc.StepError) as e:
            return name, variant, None, str(e)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepc", required=True)
    parser.add_argument("--every", type=int, default=1, help="one in so many, and those that have to be there")
    parser.add_argument("--late", action="store_true", help="updates wait for the decision wherever they may")
    parser.add_argument("--compile-args", type=str.split, default=[])
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("-v", action="store_true")
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    names = recorded.names(options.only)
    there = lambda n: n in KEPT if options.late else recorded.family(n) == "mesh"
    names = [n for i, n in enumerate(names) if i % options.every == 0 or there(n)] if not options.only else names
    work = [(options, n, v) for n in names for v in recorded.load(n).variants]
    counts, wrong = {}, 0
    with concurrent.futures.ProcessPoolExecutor(options.j) as pool:
        for name, variant, note, why in pool.map(one, work):
            counts[note] = counts.get(note, 0) + 1
            if why or options.v:
                print(name, *variant, why or note or "ok")
            wrong += why is not None
    print("%d steps refused and repeated; %s; %d wrong" % (counts.get("", 0), ", ".join("%d: %s" % (n, k) for k, n in counts.items() if k), wrong))
    if counts.get("", 0) < 0.8 * (len(work) - counts.get("nothing may wait", 0)):
        print("most of them should refuse a NaN")
        wrong += 1
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
