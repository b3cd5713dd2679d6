#!/usr/bin/env python3
"""Random optimizers on random meshes: the documents of optimizers.py whose parameters, and whose state, are split somehow.

    tests/fuzz/meshes.py --stepc build/stepc --cases 200 [--seed 0] [--only adam lookahead]

The whole state after the last step is that of one device up to rounding, and a run of one device goes on from what a mesh has
saved. Rounding that changes the result more than the tolerance says nothing: a second run of one device with data changed in
the last bits tells what it may change. Draws are those of optimizers.py, Optax is not asked.
"""
import json
import os
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import optimizers as fuzz
from tool import command, comparison, runner, safetensors

MESHES = [{"x": 2}, {"x": 2, "y": 2}, {"x": 3}, {"x": 4}, {"x": 1, "y": 2}]


def specs(r, case, axes):
    """Patterns to specs: every dimension over nothing, one axis or all of them, no axis twice."""
    out = {}
    for p, shape in case["shapes"].items():
        free, spec = list(axes), []
        for _ in shape:
            names = [free.pop(int(r.integers(len(free)))) for _ in range(int(r.integers(0, len(free) + 1))) if r.random() < 0.6 and free]
            spec.append(names[0] if len(names) == 1 else names or None)
        if shape and r.random() < 0.8:
            out[p] = spec
    return out


def meshed(case, r):
    document = dict(case["document"])
    mesh = MESHES[int(r.integers(len(MESHES)))]
    sharding = dict(document.get("sharding", {}))
    if "params" not in sharding:
        sharding["params"] = {**specs(r, case, mesh), "**": []}
    if r.random() < 0.4:
        sharding["optimizer_state"] = {**specs(r, case, mesh), "**": []}
    if case["loss"] == "rows":
        sharding.setdefault("rules", []).append(["batch", "x"])
    return {**document, "mesh": {"axes": mesh}, "sharding": sharding}


def run(options, folder, document, case, data, save, init="init.safetensors", steps=None):
    at = lambda name: os.path.join(folder, name)
    runner.write_json(at("model.json"), document)
    safetensors.write(at("data.safetensors"), data)
    runner.compile_document(options.stepc, folder)
    steps = case["steps"] if steps is None else steps
    runner.call(options.stepc, "run", at("step.so"), "-q", "--steps", str(steps), "--data", at("data.safetensors"), "--init", at(init), "--save", at(save),
                 "--all-state", "--metrics", at(save + ".jsonl"))
    return safetensors.wide(at(save)), runner.metrics(at(save + ".jsonl"))


def differ(case, ours, alone, other, skip=()):
    """None, or which tensor differs by more than rounding."""
    rtol, atol = (4e-2, 2e-2) if case["narrow"] or "bfloat16" in json.dumps(case["document"]) else (1e-4, 1e-5)
    if set(ours) != set(alone):
        return "names %s" % sorted(set(ours) ^ set(alone))[:4]
    for name, want in alone.items():
        found, noise = ours[name], other[name]
        if found.shape == want.shape and any(s in name for s in skip):
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            slack = 10 * np.abs(noise - want)
        said = comparison.difference(found, want, rtol, atol, np.where(np.isfinite(slack), slack, np.inf))
        if said:
            return name + said
    return None


def one(options, seed):
    try:
        case = fuzz.make_case(seed, options.only, options.steps or 4)
    except KeyError as e:
        return "generator", "no value for %s" % e, None
    r = np.random.default_rng(seed)
    case["shapes"] = {n["name"]: n["shape"] for n in case["document"]["model"]["nodes"]}
    document = meshed(case, r)
    text = json.dumps({k: document[k] for k in ("optimizer", "mesh", "sharding")})
    with tempfile.TemporaryDirectory(prefix="stepc-meshes-") as folder:
        safetensors.write(os.path.join(folder, "init.safetensors"), case["init"])
        try:
            alone, _ = run(options, folder, case["document"], case, case["data"], "alone")
        except runner.Failed as e:
            return "refused alone", e.brief(300), text
        try:
            ours, _ = run(options, folder, document, case, case["data"], "meshed")
            part, _ = run(options, folder, document, case, case["data"], "part", steps=2)
            rest, _ = run(options, folder, case["document"], case, case["data"], "rest", init="part", steps=case["steps"] - 2)
            noise = {k: (v * (1 + 1e-6 * np.cos(np.arange(v.size)).reshape(v.shape))).astype(v.dtype) for k, v in case["data"].items()}
            other, _ = run(options, folder, case["document"], case, noise, "other")
        except runner.Failed as e:
            return "differs", e.brief(500), text
        why = differ(case, ours, alone, other, (".projector.",)) or differ(case, rest, alone, other, (".projector.",))
    return ("differs", why, text) if why else ("agrees", "", text)


def main():
    p = command.parser(__doc__, 100, keep=False)
    p.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    p.add_argument("--steps", type=int, help="steps of a case (4)")
    p.add_argument("--only", nargs="*", help="optimizers at the root")
    return command.loop(p.parse_args(), one)


if __name__ == "__main__":
    sys.exit(main())
