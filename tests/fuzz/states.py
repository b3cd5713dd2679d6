#!/usr/bin/env python3
"""The whole state of random optimizers: the documents of optimizers.py, and what --all-state writes for them.

    tests/fuzz/states.py --stepc build/stepc --cases 200 [--seed 0] [--compile 0.2] [--only adam lookahead]

Each document is asked, by the interpreter or as an object:
  * after the last step every slot has the name, the dtype and the shape of Optax's state, and its numbers;
  * k steps, --save --all-state, --init of that file and the other steps give the bytes of all steps in one run;
  * `explain --state` lists what the file holds;
  * a hyper-parameter that can be set, set before some step: Optax goes the same way where it can (inject_hyperparams).
Like optimizers.py it needs JAX and Optax 0.2.8.
"""
import json
import os
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import optimizers as fuzz
import jax
import jax.numpy as jnp
import optax
from tool import command, draws, runner, safetensors

# Those that optim_reference.py writes out in its own way.
WRITTEN_OUT = {"t5x_adafactor", "amos", "scale_by_amos", "multi_optimizer", "maybe_update", "selective_transform", "split_real_and_imaginary"}


def segment(key):
    return str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", None))))


def named(state):
    """name -> array of everything in a state of Optax, keys as the two words that they are."""
    out = {}
    for path, x in jax.tree_util.tree_flatten_with_path(state)[0]:
        x = jnp.asarray(x)
        x = jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        name = ".".join(["opt_state"] + [segment(k) for k in path])
        if x.size and not name.endswith(".ns_coeffs") and (not name.endswith(".b1") or "hyperparams" in name):  # which never change
            out[name] = np.asarray(x)
    return out


def injected(state, settings):
    """A state whose hyperparams of inject_hyperparams are others."""
    if hasattr(state, "hyperparams"):
        return state._replace(hyperparams={**state.hyperparams, **{k: jnp.asarray(v, jnp.asarray(state.hyperparams[k]).dtype) for k, v in settings.items()}})
    return state


def states(case, factors, settings=None):
    """The named state of Optax and the parameters after the last step, per factor that the data are multiplied with."""
    with_state, kept = [], fuzz.measures_of

    def watch(state):
        with_state.append(state)
        return kept(state)

    fuzz.measures_of = watch
    try:
        results = fuzz.oracle(case, factors, before=lambda t, s: injected(s, settings.get(t, {})) if settings else s)
    finally:
        fuzz.measures_of = kept
    steps = case["steps"]
    return [({**tensors, **named(with_state[(i + 1) * steps - 1])}, metrics) for i, (tensors, metrics) in enumerate(results)]


def names_differ(path, theirs):
    """None, or which names, dtypes and shapes of a file are not Optax's."""
    mine = {k: "%s%s" % (t["dtype"], t["shape"]) for k, t in safetensors.header(path).items() if k.startswith("opt_state.")}
    want = {k: "%s%s" % (safetensors.NAMES[v.dtype.name], list(v.shape)) for k, v in theirs.items() if k.startswith("opt_state.")}
    for k in [k for k in mine if k not in want and (".measurements." in k or k.startswith("opt_state.first") or ".first" in k)]:
        del mine[k]
    wrong = sorted(k for k in set(mine) | set(want) if mine.get(k) != want.get(k))
    return "names: " + ", ".join("%s %s, Optax %s" % (k, mine.get(k, "no"), want.get(k, "no")) for k in wrong[:4]) if wrong else None


class Player:
    def __init__(self, stepc, folder, steps, compiled):
        self.stepc, self.folder, self.steps = stepc, folder, steps
        self.program = "step.so" if compiled else "model.json"
        if compiled:
            runner.compile_document(stepc, folder)

    def at(self, name):
        return os.path.join(self.folder, name)

    def run(self, steps, init, save, *more):
        runner.call(self.stepc, "run", self.at(self.program), "-q", "--steps", str(steps), "--data", self.at("data.safetensors"), "--init", self.at(init),
                     "--save", self.at(save), "--all-state", "--metrics", self.at(save + ".jsonl"), *more)
        with open(self.at(save + ".jsonl")) as f:
            text = f.read()
        with open(self.at(save), "rb") as f:
            return f.read(), text

    def continues(self, k, whole, *more):
        _, before = self.run(k, "init.safetensors", "part", *more)
        rest, after = self.run(self.steps - k, "part", "rest", *more)
        if rest != whole[0]:
            a, b = safetensors.wide(self.at("whole")), safetensors.wide(self.at("rest"))
            return "%d + %d steps: %s" % (k, self.steps - k, [n for n in sorted(set(a) | set(b)) if n not in a or n not in b or a[n].tobytes() != b[n].tobytes()][:5])
        return "%d + %d steps: metrics" % (k, self.steps - k) if before + after != whole[1] else None

    def listed(self):
        return json.loads(runner.call(self.stepc, "explain", self.at(self.program), "--state", "--json"))


def check(options, case, r, want, noisy):
    kinds = set(draws.types_in(case["document"]["optimizer"]))
    compiled = r.random() < options.compile
    with tempfile.TemporaryDirectory(prefix="stepc-states-") as folder:
        runner.write_document(folder, case["document"], case["data"], case["init"])
        try:
            player = Player(options.stepc, folder, case["steps"], compiled)
            whole = player.run(case["steps"], "init.safetensors", "whole")
            ours = safetensors.wide(player.at("whole"))
            listed = player.listed()
            why = player.continues(int(r.integers(1, case["steps"])), whole)
            names = {t["name"] for t in listed["state"]}
            if not why and names != set(ours):
                why = "explain --state and --all-state differ: %s" % sorted(names ^ set(ours))[:5]
            if not why and not kinds & WRITTEN_OUT:
                why = names_differ(player.at("whole"), want[0])
            if not why:
                of_ours = lambda k: k.startswith("opt_state.") and (kinds & WRITTEN_OUT or ".projector." in k)  # singular vectors of any sign
                of_projected = lambda k: bool(kinds & {"galore", "scale_by_galore"}) and ".base_optimizer_state." in k  # moments along these vectors
                sized = lambda tensors: {k: np.abs(v) if of_projected(k) else v for k, v in tensors.items()}
                there = lambda w: (sized({k: v for k, v in w[0].items() if not of_ours(k)}), w[1])
                lines = [json.loads(line) for line in whole[1].splitlines()]
                why, loose = fuzz.compare(case, (sized(ours), runner.series(lines, want[1])), there(want), [there(n) for n in noisy])
                if not why and loose > 1e-2:
                    return "unsettled"
            return why or sets(case, player, listed, r)
        except runner.Failed as e:
            return e.brief(500)


def sets(case, player, listed, r):
    """What --set does is what Optax does after its hyperparams were changed."""
    able = [h for h in listed["hyperparameters"] if h["settable"]]
    for h in able:
        at, value = int(r.integers(1, case["steps"] + 1)), float("%.3g" % r.uniform(0.01, 0.9))
        more = ("--set", "%s=%r@%d" % (h["name"], value, at))
        whole = player.run(case["steps"], "init.safetensors", "whole", *more)
        why = player.continues(int(r.integers(1, case["steps"])), whole, *more)
        if why:
            return "--set %s: %s" % (more[1], why)
        if case["document"]["optimizer"]["type"] == "inject_hyperparams" and not any(isinstance(v, dict) for v in case["document"]["optimizer"]["opt"].values()):
            with np.errstate(all="ignore"):
                want, noisy = states(case, (0, 1e-6), {at - 1: {h["name"]: value}})
            lines = [json.loads(line) for line in whole[1].splitlines()]
            why, _ = fuzz.compare(case, (safetensors.wide(player.at("whole")), runner.series(lines, want[1])), want, [noisy])
            if why:
                return "--set %s: %s" % (more[1], why)
    return None


def one(options, seed):
    try:
        case = fuzz.make_case(seed, options.only, options.steps)
    except KeyError as e:
        return "generator", "no value for %s" % e, None
    optimizer = json.dumps(case["document"]["optimizer"])
    try:
        want, *noisy = states(case, (0, 1e-6, -1e-6, 1e-5, -1e-5) if "bfloat16" in json.dumps(case["document"]) else (0, 1e-6))
    except Exception as e:  # Optax refuses it
        return "refused by Optax", "%s: %s" % (type(e).__name__, str(e).strip()[:200]), optimizer
    why = check(options, case, np.random.default_rng(seed), want, noisy)
    if why not in (None, "unsettled") and options.keep:
        fuzz.write_case(os.path.join(options.keep, "state_%d" % seed), case, *want)
    return ("agrees", "", optimizer) if why is None else ("unsettled", "", optimizer) if why == "unsettled" else ("differs", why, optimizer)


def main():
    p = command.parser(__doc__, 100)
    p.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    p.add_argument("--steps", type=int, help="steps of a case (5 to 9)")
    p.add_argument("--compile", type=float, default=0.0, help="the part of the cases that is compiled instead of interpreted")
    p.add_argument("--only", nargs="*", help="optimizers at the root")
    return command.loop(p.parse_args(), one, jax.clear_caches)


if __name__ == "__main__":
    sys.exit(main())
