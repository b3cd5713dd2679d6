#!/usr/bin/env python3
"""Random expressions of one row, for all rows at once: the calls of expressions.py inside of micro_vmap, with operands that
differ from row to row and others that do not, against JAX row by row: values and gradients.

    tests/fuzz/rows.py --stepc build/stepc --cases 300 [--seed 0] [--first 0] [--compile] [--only sort cumsum]

It needs JAX and Optax 0.2.8, and so is none of the tests that always run.
"""
import ast
import collections
import os
import re
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import expressions
from tool import command, runner

ROWS = 4


def spread(g, r):
    """Gives some operands rows of their own; the name of an operand in the block is its own with another ending."""
    g.rows = {}
    for group in (g.params, g.inputs):
        for k, v in list(group.items()):
            if r.random() < 0.7 or k == next(iter(g.params), None):
                turned = [np.roll(v.ravel(), i).reshape(v.shape) if i and v.size > 1 else v for i in range(ROWS)]
                if v.dtype == np.float32 and g.flavour == "plain":
                    turned = [t * np.float32(1 - 0.03 * i) for i, t in enumerate(turned)]
                group[k] = np.stack(turned)
                g.rows[k] = True
    g.size = int(r.choice([1, 2, 4]))


def evaluate(g, weights):
    code = compile(ast.parse(g.text.replace("params.", "params_"), mode="eval"), "expression", "eval")

    def value(params, inputs):
        space = dict(expressions.SPACE, **inputs, **{"params_%s_%s" % (g.prefix, k): v for k, v in params.items()})
        return jnp.asarray(eval(code, {"__builtins__": {}}, space))

    row = lambda group, i: {k: jnp.asarray(v[i] if k in g.rows else v) for k, v in group.items()}
    shape = jax.eval_shape(value, row(g.params, 0), row(g.inputs, 0))
    floating = jnp.issubdtype(shape.dtype, jnp.floating) and g.params
    size = int(np.prod(shape.shape))
    if ROWS * size > len(weights):
        return None
    f = jax.jit(value)
    slope = jax.jit(jax.grad(lambda p, i, w: jnp.sum(value(p, i).astype(jnp.float32) * w)))
    values, grads = [], {k: [] for k in g.params}
    for i in range(ROWS):
        values.append(np.asarray(f(row(g.params, i), row(g.inputs, i)).astype(jnp.float32 if floating else shape.dtype)))
        if floating:
            d = slope(row(g.params, i), row(g.inputs, i), jnp.asarray(weights[i * size:(i + 1) * size].reshape(shape.shape)))
            for k, v in d.items():
                grads[k].append(np.asarray(v))
    joined = {k: np.stack(v) if k in g.rows else np.sum(v, axis=0) for k, v in grads.items()} if floating else None
    return np.stack(values), joined, shape


def document(calls, weights):
    nodes, metrics, inputs, terms = [{"type": "param", "name": "zero", "shape": []}], {}, {"weights": {"shape": [len(weights)], "dtype": "float32", "axes": [None]}}, ["params.zero"]
    output, define = {"zero": "zero"}, {}
    for g in calls:
        nodes += [{"type": "param", "name": "%s_%s" % (g.prefix, k), "shape": list(v.shape)} for k, v in g.params.items()]
        for k, v in g.inputs.items():
            inputs[k] = {"shape": list(v.shape), "dtype": {"i": "int32", "b": "bool", "f": "float32"}[v.dtype.kind], "axes": [None] * v.ndim}
        text, names, given = g.text, [], []
        for k in g.rows:
            whole = "%s_%s" % (g.prefix, k) if k in g.params else k
            text = re.sub(r"(params\.)?\b%s\b" % whole, whole + "_row", text)
            names.append(whole + "_row")
            given.append(whole)
        define[g.prefix + "_of_row"] = {"inputs": names, "body": {"type": "expr", "expr": text if g.shape.dtype not in (jnp.bfloat16, jnp.float16) else "astype(%s, 'float32')" % text}}
        nodes.append({"type": "micro_vmap", "name": g.prefix, "inputs": given, "microbatch_size": g.size, "block": {"type": g.prefix + "_of_row"}})
        output[g.prefix] = g.prefix
        metrics[g.prefix] = "model." + g.prefix
        if g.want[1] is not None:
            size = g.want[0].size
            terms.append("sum(model.%s * reshape(weights[:%d], %s))" % (g.prefix, size, "(" + "".join("%d, " % d for d in g.want[0].shape) + ")"))
            for k in g.params:
                metrics["g_%s_%s" % (g.prefix, k)] = "grads.%s_%s" % (g.prefix, k)
    return {"stepc": 1, "name": "fuzz", "inputs": inputs, "define": define, "model": {"type": "graph", "nodes": nodes, "output": output}, "loss": " + ".join(terms), "metrics": metrics,
            "optimizer": {"type": "sgd", "learning_rate": 0.0}}


def play(options, calls, weights):
    with tempfile.TemporaryDirectory(prefix="stepc-fuzz-") as tmp:
        init = {"zero": np.float32(0), **{"%s_%s" % (g.prefix, k): v for g in calls for k, v in g.params.items()}}
        runner.write_document(tmp, document(calls, weights), {"weights": weights[None], **{k: v[None] for g in calls for k, v in g.inputs.items()}}, init)
        try:
            return runner.play(options.stepc, tmp, 1, options.compile)[1][0]
        except runner.Failed as e:
            return str(e)


def play_all(options, calls, weights):
    """(call, metrics or message); what fails is found by halves."""
    if not calls:
        return []
    got = play(options, calls, weights)
    if isinstance(got, dict) or len(calls) == 1:
        return [(g, got) for g in calls]
    half = len(calls) // 2
    return play_all(options, calls[:half], weights) + play_all(options, calls[half:], weights)


def main():
    p = command.parser(__doc__, 300, keep=False)
    p.add_argument("--batch", type=int, default=20, help="expressions per document")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--first", type=int, default=0, help="number of the first case")
    p.add_argument("--compile", action="store_true", help="compile instead of interpreting")
    p.add_argument("--only", nargs="*", help="functions, or index, operator, composed and the like")
    options = p.parse_args()
    weights = np.random.default_rng(1).normal(size=expressions.WEIGHTS).astype(np.float32)
    counts = collections.Counter()

    def say(kind, g, why):
        counts[kind] += 1
        if kind in ("differs", "refused") or options.v:
            operands = ["%s=%s" % (k, re.sub(r"\s+", " ", str(v.tolist()))) for k, v in {**g.params, **g.inputs}.items() if v.size <= 24]
            print("%s %s (%s), rows: %s: %s\n    %s" % (kind, g.prefix, g.function, " ".join(g.rows), why, "; ".join([g.text] + operands)), flush=True)

    for first in range(options.first, options.first + options.cases, options.batch):
        calls = []
        for number in range(first, min(first + options.batch, options.first + options.cases)):
            g = expressions.make(options.seed, number, options.only)
            spread(g, np.random.default_rng((options.seed, number, 1)))
            if not g.rows or g.flavour == "extreme":
                continue
            try:
                g.want = evaluate(g, weights)
                if g.want is None or g.want[0].size == 0:
                    continue
                g.shape = g.want[2]
                calls.append(g)
            except Exception as e:  # JAX refuses it
                say("refused by JAX", g, "%s: %s" % (type(e).__name__, str(e).strip()[:150]))
        for g, got in play_all(options, calls, weights):
            if not isinstance(got, dict):
                say("refused", g, re.sub(r"\s+", " ", got)[:400])
                continue
            why = expressions.differs(g, "value", got[g.prefix], g.want[0], lambda: g.want[0])
            for k in g.params if g.want[1] is not None else ():
                why = why or expressions.differs(g, "gradient of " + k, got["g_%s_%s" % (g.prefix, k)], g.want[1][k], lambda k=k: g.want[1][k])
            say("no NaN" if why and why.startswith("gradient") and expressions.kinder(g, got) else "differs" if why else "agrees", g, why or "")
        jax.clear_caches()
    print(command.summary(counts))
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
