#!/usr/bin/env python3
"""samples/import/nnx_to_stepc.py, row by row: each layer of Flax NNX and each form of its examples (nnx_rows.py, nnx_forms.py) becomes a
document that trains three steps to the losses, the parameters and the statistics of Flax and Optax, or is refused by name.

    nnx_agree.py STEPC [TEST]                     what Flax computed is recorded in tests/import/rows: needs NumPy only
    nnx_agree.py --anew STEPC [--all] [ROW...]    with the Flax that is installed, every row; --all takes all choices of arguments
    nnx_agree.py --record [ROW...]                records anew (the versions are in rows/versions.json)
"""
import concurrent.futures
import fnmatch
import json
import os
import re
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = os.path.join(HERE, "rows")
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples", "import")]
import numpy as np
from tool import comparison, recorded, runner, safetensors

STEPS, RTOL, ATOL = 3, 3e-5, 3e-6


# ---------------------------------------------------------------- what Flax computes

class Reference:
    """A row in Flax: the model that is converted, the function of its call, the data of the steps."""

    def __init__(self, name, row):
        import jax
        import jax.numpy as jnp
        from flax import nnx
        rngs = nnx.Rngs(0, dropout=1)
        self.name, self.row = name, row
        inner = row.make(rngs)
        call = row.call or (lambda m, *given, **more: m(*given, **more))
        if row.around:
            first = next(iter(row.inputs.values()))

            class Around(nnx.Module):
                def __init__(self):
                    self.scale, self.inner = nnx.Param(jnp.linspace(0.8, 1.2, first.shape[-1])), inner

            self.model, self.call = Around(), lambda m, x, *more: call(m.inner, x * m.scale[...] if hasattr(m.scale, "__getitem__") else x * m.scale.value, *more)
        else:
            self.model, self.call = inner, call
        random = np.random.default_rng(sum(map(ord, name)))
        graph, state = nnx.split(self.model)
        out = jax.eval_shape(lambda s, given: self.call(nnx.merge(graph, s), *given), state, [jnp.asarray(v) for v in row.inputs.values()])
        self.inputs = dict(row.inputs)
        for i, leaf in enumerate(jax.tree_util.tree_leaves(out)):
            self.inputs["target%d" % i] = np.asarray(random.standard_normal(leaf.shape), np.float32)
        # Floats differ from step to step; integers may be what fits together only so.
        self.data = {k: np.stack([v + 0.1 * i * random.standard_normal(v.shape).astype(np.float32) if v.dtype == np.float32 else v for i in range(STEPS)]) for k, v in self.inputs.items()}

    def given(self, inputs):
        return [inputs[k] for k in self.row.inputs]

    def loss(self, out, **inputs):
        import jax
        import jax.numpy as jnp
        return sum(jnp.mean((leaf.astype(jnp.float32) - inputs["target%d" % i]) ** 2) for i, leaf in enumerate(jax.tree_util.tree_leaves(out)))

    def convert(self, optimizer):
        import nnx_to_stepc
        return nnx_to_stepc.convert(self.model, optimizer, self.inputs, self.loss, call=lambda m, **inputs: self.call(m, *self.given(inputs)), name=self.name, stepc="")

    def train(self, optimizer):
        """(losses, parameters and statistics at the end)."""
        import jax
        import optax
        from flax import nnx
        graph, params, rest = nnx.split(self.model, nnx.Param, ...)
        state = optimizer.init(params)

        def loss(params, rest, given):
            model = nnx.merge(graph, *jax.tree_util.tree_map(lambda x: x, (params, rest)))  # variables of this trace
            value = self.loss(self.call(model, *self.given(given)), **given)
            _, changed, _, after = nnx.split(model, nnx.Param, nnx.Intermediate, ...)
            return value, (changed, after)

        @jax.jit
        def step(params, rest, state, given):
            (value, (params, after)), grads = jax.value_and_grad(loss, has_aux=True)(params, rest, given)  # as nnx.Optimizer: on what the call left
            updates, state = optimizer.update(grads, state, params)
            return value, optax.apply_updates(params, updates), after, state

        losses = []
        for i in range(STEPS):
            value, params, rest, state = step(params, rest, state, {k: v[i] for k, v in self.data.items()})
            losses.append(float(value))
        model = nnx.merge(graph, params, rest)
        return losses, {".".join(map(str, path)): np.asarray(v[...] if v.shape else v.value) for path, v in nnx.iter_graph(model) if isinstance(v, (nnx.Param, nnx.BatchStat))}


def flax_rows():
    """All rows; with any Flax, for its versions are what is tested here."""
    import nnx_to_stepc
    nnx_to_stepc.TESTED = (0,), (99,)
    import nnx_rows
    import nnx_forms
    return {**nnx_rows.ROWS, **nnx_forms.ROWS}


def attempt(name, row):
    """(document, weights, Reference, optimizer) or the words of the refusal. What this Flax lacks is None."""
    import nnx_to_stepc
    import stepc_optax
    try:
        reference = Reference(name, row)
    except (TypeError, AttributeError, ValueError, NotImplementedError) as e:
        return "absent: %s" % e
    optimizer = stepc_optax.sgd(row.rate, momentum=0.9)
    try:
        document, weights = reference.convert(optimizer)
    except nnx_to_stepc.NotCovered as e:
        return "refused: %s" % e
    return document, weights, reference, optimizer


def case(name, row, folder):
    """Writes what Flax computes as a recorded case; None if it is refused as it must be."""
    got = attempt(name, row)
    if isinstance(got, str):
        if got.startswith("absent"):
            return got
        if row.refused is None or not re.search(row.refused, got):
            raise comparison.Differs("%s, expected %s" % (got, row.refused or "a document"))
        return got
    if row.refused:
        raise comparison.Differs("converted, expected to be refused: %s" % row.refused)
    document, weights, reference, optimizer = got
    try:
        losses, state = reference.train(optimizer)
    except ValueError as e:
        if "not supported by dot_general on CPU" not in str(e):
            raise
        return "absent: %s" % e
    known = {path for path in state if path in weights or not fixed(path, reference, state)}
    recorded.write(os.path.join(folder, name), document, reference.data, weights, STEPS, {k: v for k, v in state.items() if k in known}, {"loss": losses}, row.loose * RTOL, row.loose * ATOL,
                   note="from tests/import/nnx_agree.py")
    return None


def fixed(path, reference, state):
    """Statistics that training does not change: constants of the document."""
    from flax import nnx
    before = next(v for p, v in nnx.iter_graph(reference.model) if ".".join(map(str, p)) == path)
    return isinstance(before, nnx.BatchStat) and np.array_equal(before.value, state[path])


def select(rows, patterns):
    return {k: v for k, v in rows.items() if not patterns or any(fnmatch.fnmatchcase(k, p) for p in patterns)}


def record(patterns):
    import flax
    import jax
    import optax
    if not patterns:
        shutil.rmtree(ROWS, ignore_errors=True)
    os.makedirs(ROWS, exist_ok=True)
    for name, row in select(flax_rows(), patterns).items():
        said = case(name, row, ROWS)
        if said and said.startswith("absent"):
            print("%s: not in this Flax, or not with this JAX: %s" % (name, said.split("\n")[0][8:200]))
    runner.write_json(os.path.join(ROWS, "versions.json"), {"flax": flax.__version__, "jax": jax.__version__, "optax": optax.__version__})


# ---------------------------------------------------------------- what stepc computes

COMPILED = 8  # one of so many rows is compiled, the others are interpreted: tests/parity shows that objects do the same


def play(program, path, compiled):
    """None, or in words how stepc differs from what is recorded at `path`."""
    one = recorded.Case(path)
    with tempfile.TemporaryDirectory(prefix="stepc-rows-") as folder:
        try:
            one.unpack(folder)
            one.check(*runner.play(program, folder, one.steps, compiled))
        except (comparison.Differs, runner.Failed) as e:
            return "%s: %s" % (one.name, str(e)[:700])
    return None


class Rows(runner.Case):
    def test_recorded(self):
        paths = [p for name, p in recorded.paths(ROWS).items() if name != "versions"]
        self.assertGreater(len(paths), 200)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            failed = [said for said in pool.map(lambda at: play(runner.Case.program, at[1], at[0] % COMPILED == 0), enumerate(paths)) if said]
        self.assertFalse(failed, "\n".join(failed))


def anew(program, patterns):
    """Every row with the Flax that is installed: how many agree, are refused as they must be, or do not exist in it."""
    import flax
    import jax
    import optax
    counts = {"agree": 0, "refused": 0, "absent": 0}
    failed, lines = [], []
    with tempfile.TemporaryDirectory(prefix="stepc-rows-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        played = []
        for name, row in select(flax_rows(), patterns).items():
            try:
                said = case(name, row, folder)
            except comparison.Differs as e:
                failed.append("%s: %s" % (name, e))
            except Exception as e:  # a crash of the converter is what this looks for
                failed.append("%s: %s: %s" % (name, type(e).__name__, str(e)[:500]))
            else:
                if said is None:
                    played.append(pool.submit(play, program, os.path.join(folder, name), len(played) % COMPILED == 0))
                else:
                    counts[said.split(":")[0]] += 1
                    lines.append("%s: %s" % (name, said[:200]))
        results = [p.result() for p in played]
    failed += [said for said in results if said]
    counts["agree"] = sum(said is None for said in results)
    print("\n".join(lines))
    print("\n".join(failed))
    print("flax %s, jax %s, optax %s: %s, %d failed" % (flax.__version__, jax.__version__, optax.__version__, ", ".join("%d %s" % (n, k) for k, n in counts.items()), len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] in (["--record"], ["--anew"]):
        import warnings
        warnings.filterwarnings("ignore")
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"  # every rounding is meant
        if "--all" in sys.argv:
            sys.argv.remove("--all")
            os.environ["STEPC_ALL_ROWS"] = "1"
        sys.exit(record(sys.argv[2:]) if sys.argv[1] == "--record" else anew(os.path.abspath(sys.argv[2]), sys.argv[3:]))
    runner.main()
