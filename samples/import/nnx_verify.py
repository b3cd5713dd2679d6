"""One step of a converted document beside the module's own: outputs and gradients, on numbers that hide nothing (parameters moved away
from zeros and ones, every element of every output with a weight of its own). What a document says wrongly, whatever the reason, shows
here; that nothing is dropped is shown without numbers, in nnx_trace.py."""
import copy
import json
import os
import subprocess
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import tensors
from jaxpr_text import NotCovered, results_of
from stepc_optax import path_of

TOLERANCE = {"float32": 2e-3, "bfloat16": 6e-2, "float16": 1e-2}


KINDS = {**{np.dtype(t).name: name for name, t in tensors.DTYPES.items() if name != "BF16"}, "bfloat16": "BF16"}


def _raw(array):
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _quiet(document):
    """Without dropout, whose numbers are stepc's own."""
    for value in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        _quiet(value)
    if isinstance(document, dict):
        document.update((k, 0.0) for k in ("rate", "dropout_rate") if isinstance(document.get(k), float))
    return document


def _numbers(inputs, random):
    """What is given; random numbers where only a shape is, or one number alone."""
    def value(v):
        given = np.asarray(v) if hasattr(v, "__array__") else np.zeros(v.shape, v.dtype)
        given = given.astype(jax.dtypes.canonicalize_dtype(given.dtype))
        if given.dtype.kind != "f" or given.size and np.any(given != given.flat[0]):
            return given
        return random.standard_normal(given.shape).astype(given.dtype)
    return {k: value(v) for k, v in inputs.items()}


def _step(stepc, document, weights, data):
    """(metrics, what the weights are after it) of one step."""
    import nnx_to_stepc  # which needs this module
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        nnx_to_stepc.save(folder, document, weights)
        tensors.write(at("data"), [(k, KINDS[v.dtype.name], (1, *v.shape), lambda v=v: _raw(v)[None]) for k, v in data.items()])
        for command in (["compile", at("model.json"), "-o", at("step.so")],
                        ["run", at("step.so"), "--steps", "1", "--init", at("init.safetensors"), "--data", at("data"), "--metrics", at("metrics"), "--save", at("after")]):
            done = subprocess.run([stepc, *command], capture_output=True, text=True)
            if done.returncode:
                raise NotCovered("stepc %s: %s" % (command[0], done.stderr.strip()[:400]))
        with open(at("metrics"), encoding="utf-8") as f:
            metrics = json.loads(f.readline())
        after = tensors.open_model(at("after"))
        wide = lambda name, a: (a.astype(np.uint32) << 16).view(np.float32) if after.dtype(name) == "BF16" else np.asarray(a, np.float32)
        return metrics, {name: wide(name, after.array(name)) for name in weights}


def _same(what, found, expected, tolerance, least=1e-3):
    """tolerance: of the largest element; least: what that counts for at least."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    largest = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    if not np.allclose(found, expected, rtol=0, atol=tolerance * max(largest, least), equal_nan=True):
        raise NotCovered("%s: a step of this document differs from the module's: %s" %
                         (what, "%g, not %g" % (found, expected) if found.ndim == 0 else "by %g of %g" % (np.max(np.abs(found - expected)), largest)))


def verify(document, weights, model, inputs, call, loss, stepc):
    """NotCovered unless outputs, gradients and the loss (if it is a function) agree. call(model, **inputs)."""
    random = np.random.default_rng(0)
    inputs = _numbers(inputs, random)
    graph, values, rest = nnx.split(model, nnx.Param, ...)
    moved = jax.tree_util.tree_map(lambda p: jnp.asarray(p + 0.1 * random.standard_normal(p.shape), p.dtype), values)
    weights = {**weights, **{path_of(k): np.asarray(p) for k, p in jax.tree_util.tree_flatten_with_path(moved)[0]}}

    others, tree = jax.tree_util.tree_flatten(rest)

    def out_of(values, others):
        module = nnx.merge(graph, values, tree.unflatten(others))
        for _, node in nnx.iter_graph(module):
            for rate in {"rate", "dropout_rate"} & set(vars(node) if isinstance(node, (nnx.Dropout, nnx.MultiHeadAttention)) else ()):
                setattr(node, rate, 0.0)
        out = call(module, **{k: jnp.asarray(v) for k, v in inputs.items()})
        return out, nnx.split(module, nnx.Param, ...)[1]  # what a step changes is what the call leaves (nnx.WeightNorm)

    shape, _ = jax.eval_shape(out_of, moved, others)
    named = {"model." + k: i for i, k in enumerate(results_of(shape))} or {"model": 0}
    of = lambda out, key: jax.tree_util.tree_leaves(out)[key]
    probes = {text: random.standard_normal(of(shape, key).shape).astype(np.float32) for text, key in named.items()}
    probed = lambda out: sum(jnp.sum(of(out, key).astype(jnp.float32) * probes[text]) for text, key in named.items())
    with_out = jax.value_and_grad(lambda *of: (lambda out, left: (probed(out), (out, left)))(*out_of(*of)), has_aux=True)
    (value, (out, left)), gradient = jax.jit(with_out)(moved, others)
    left = {path_of(keys): np.asarray(p, np.float32) for keys, p in jax.tree_util.tree_flatten_with_path(left)[0]}
    document = _quiet(copy.deepcopy(document))
    document.update(optimizer={"type": "sgd", "learning_rate": 1.0}, metrics={"given_loss": document["loss"]} if callable(loss) else {})
    data = {**inputs, **{"probe%d" % i: p for i, p in enumerate(probes.values())}}
    for i, p in enumerate(probes.values()):
        document["inputs"]["probe%d" % i] = {"shape": list(p.shape), "dtype": "float32"}
    document["loss"] = " + ".join("sum(astype(%s, 'float32') * probe%d)" % (text, i) for i, text in enumerate(probes))
    metrics, after = _step(stepc, document, weights, data)
    narrow = [d for d in ("float16", "bfloat16") if d in json.dumps(document)]
    tolerance = TOLERANCE[narrow[-1] if narrow else "float32"]
    scale = sum(float(np.sum(np.abs(np.asarray(of(out, key), np.float64) * probes[text]))) for text, key in named.items())
    _same("the output", metrics["loss"], float(value), tolerance, scale)
    if callable(loss):
        _same("the loss", metrics["given_loss"], float(loss(out, **inputs)), tolerance)
    gradients = {path_of(keys): np.asarray(g, np.float32) for keys, g in jax.tree_util.tree_flatten_with_path(gradient)[0]}
    most = max(float(np.max(np.abs(g), initial=0.0)) for g in gradients.values())
    for path, g in gradients.items():
        before = left[path]
        rounding = np.max(np.abs(before), initial=0.0) * (0.1 if narrow else 1e-3)  # of p - (p - g)
        _same("the gradient of " + path, before - after[path], g, 5 * tolerance, max(most * 1e-3, scale * 1e-4, rounding))
