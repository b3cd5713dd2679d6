"""A Flax NNX module and an Optax transformation as a document of stepc, with the module's weights as its initial values.

    import stepc_optax as optax                 # Optax that remembers its arguments
    from nnx_to_stepc import convert

    document, weights = convert(model, optax.adamw(1e-3), inputs={"x": x, "y": y}, call=lambda model, x, y: model(x),
                                loss=lambda out, x, y: jnp.mean((out - y) ** 2))
    nnx_to_stepc.save("work", document, weights)     # work/model.json, work/init.safetensors

The module's call is traced. Standard layers stay layers, under their own paths; whatever else it computes becomes expressions, and
parameters that no standard layer owns become `param` blocks. So a module of any class works as long as its arithmetic has a spelling;
what has none (loops, gathers by computed indices, state of unknown layers) raises NotCovered, which names it. The loss is a function
of the call's result and the inputs, an expression, or an object of the document such as
{"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"}.

Initializers are not converted: the weights that the module has go into the file. Random streams are not either: dropout draws as
stepc does for "seed": 0.
"""
import inspect
import json
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.extend import core as jex

import jaxpr_text
import nnx_layers
import tensors
from jaxpr_text import NotCovered, Text
from stepc_optax import path_of, settled

ROOT = "whole_model"  # stands for the result of a model that is one layer, whose parameters have no prefix


def _paths(model):
    """Path -> layer of the table that it belongs to, and all variables by path."""
    layers, variables = {}, {}
    for path, node in nnx.iter_graph(model):
        text = ".".join(map(str, path))
        if type(node) in nnx_layers.KINDS and not any(text.startswith(p + ".") or p == "" for p in layers):
            layers[text] = node
        elif isinstance(node, nnx.Variable):
            variables[text] = node
    inside = lambda text, of: any(p == "" or text.startswith(p + ".") for p in of)
    # iter_graph visits what a node holds before the node: the outermost layers count
    layers = {p: n for p, n in layers.items() if not inside(p, [q for q in layers if q != p])}
    return layers, variables


def convert(model, optimizer, inputs, loss, call=None, name="model"):
    """(document, {path: array}). inputs: name -> array (or what has a shape and a dtype); call(model, **inputs), by default the model
    on the first input."""
    if not hasattr(optimizer, "document"):
        raise NotCovered("the optimizer was made by Optax itself; make it by stepc_optax")
    call = call or (lambda model, **given: model(next(iter(given.values()))))
    layers, variables = _paths(model)
    number = {}
    own = lambda path: any(p == "" or path.startswith(p + ".") for p in layers)
    for path, v in variables.items():
        if not own(path) and not isinstance(v, nnx.Param) and not isinstance(v, nnx.RngState):
            raise NotCovered("%s: a variable of kind %s outside the layers that are known" % (path, type(v).__name__))
    params = {path: v for path, v in variables.items() if isinstance(v, nnx.Param)}
    calls, originals = [], {}

    def patched(kind):
        def replace(self, *args, **kwargs):
            path = number.get(id(self))
            if path is None:
                return originals[kind](self, *args, **kwargs)
            inputs, expressions, fields = nnx_layers.call_of(path, kind, originals[kind], self, args, kwargs)
            document = nnx_layers.document_of(path, layers[path])
            graph, state = nnx.split(self)
            quiet = {"deterministic": True} if "deterministic" in inspect.signature(originals[kind]).parameters else {}
            out = jax.eval_shape(lambda s, a, m: originals[kind](nnx.merge(graph, s), *a, **{**m, **fields, **quiet}), state, inputs, expressions)
            arrays, structure = jax.tree_util.tree_flatten((inputs, expressions))
            leaves, results = jax.tree_util.tree_flatten(out)
            calls.append((path, document, fields, structure, results))
            found = jaxpr_text.layer.bind(*map(jnp.asarray, arrays), number=len(calls) - 1, results=tuple((leaf.shape, leaf.dtype) for leaf in leaves))
            return jax.tree_util.tree_unflatten(results, found)
        return replace

    graph, values, rest = nnx.split(model, nnx.Param, ...)
    order = [path_of(keys) for keys, _ in jax.tree_util.tree_flatten_with_path(values)[0]] + sorted(inputs)

    def run(values, given):
        copy = nnx.merge(graph, values, rest)
        number.update((id(layer), path) for path, layer in _paths(copy)[0].items())
        number[None] = copy  # so that no other object takes over one of these numbers
        return call(copy, **given)

    for kind in nnx_layers.KINDS:
        originals[kind] = kind.__call__
        kind.__call__ = patched(kind)
    try:
        given = {k: jax.ShapeDtypeStruct(np.shape(v), v.dtype) for k, v in inputs.items()}
        closed, shape = jax.make_jaxpr(run, return_shape=True)(values, given)
    finally:
        for kind, original in originals.items():
            kind.__call__ = original
    several = isinstance(shape, dict) and all(hasattr(v, "shape") and str(k).isidentifier() for k, v in shape.items())
    if not several and len(jax.tree_util.tree_leaves(shape)) != 1:
        raise NotCovered("a call with several results that is no dictionary of arrays")
    nodes, seen, variable_of = [], {}, dict(zip(order, closed.jaxpr.invars))
    used = {v for e in closed.jaxpr.eqns for v in e.invars if not isinstance(v, jex.Literal)}
    entries = []
    for variable, key in zip(closed.jaxpr.invars, order):
        if len(entries) >= len(params):
            entries.append(key)
        elif own(key):
            entries.append("params." + key)
        else:
            if variable in used:
                nodes.append({"type": "param", "name": key, "shape": list(params[key].value.shape), "init": {"type": "zeros"}})
            entries.append(key)

    def on_layer(eqn, a):
        path, document, fields, structure, results = calls[eqn.params["number"]]
        inputs, more = jax.tree_util.tree_unflatten(structure, a)
        if path in seen:
            node = {"type": "shared", "name": "%s_again%d" % (path, seen[path]), "block": path}
            seen[path] += 1
        else:
            node = {**document, "name": path}
            seen[path] = 1
        inputs = [_spelled(x) for x in inputs]
        node.update({"input": inputs[0]} if len(inputs) == 1 else {"inputs": inputs})
        for key, value in more.items():
            text = _spelled(value)
            if not re.search(r"\bx\b", text):
                node[key] = text
                continue
            # By the name of a node: in a block's own arguments `x` is the block's input.
            nodes.append({"type": "expr", "name": "%s_%s" % (path.replace(".", "_"), key), "expr": text})
            node[key] = nodes[-1]["name"]
        node.update(fields)
        nodes.append(node)
        name = node["name"] or ROOT
        at = jax.tree_util.tree_flatten_with_path(jax.tree_util.tree_unflatten(results, range(results.num_leaves)))[0]
        return [name + "".join("[%d]" % k.idx for k in keys) for keys, _ in at]

    results = Text(nodes).walk(closed.jaxpr, closed.consts, entries, on_layer)
    output = dict(zip(sorted(shape), results)) if several else results[0]
    made = [n["name"] for n in nodes if n["type"] not in ("expr", "shared")]
    lost = [p for p in params if not any(n == "" or p == n or p.startswith(n + ".") for n in made)]
    for path in lost:  # of layers that are not called themselves: nnx.remat, products with a kernel
        if variable_of[path] not in used:
            raise NotCovered("%s: a parameter that the call does not use" % path)
        owner = next((p for p in layers if p == "" or path.startswith(p + ".")), path)
        more = [q for q, v in variables.items() if q.startswith(owner + ".") and not isinstance(v, nnx.Param)]
        if more:
            raise NotCovered("%s: state of a layer that is called inside of another transformation" % more[0])
    nodes[:0] = [{"type": "param", "name": p, "shape": list(params[p].value.shape), "init": {"type": "zeros"}} for p in lost]
    document = {"stepc": 1, "name": name,
                "inputs": {k: {"shape": list(v.shape), "dtype": np.dtype(v.dtype).name} for k, v in given.items()},
                "model": _model(nodes, output, given), "loss": _loss(loss, shape if several else jax.tree_util.tree_leaves(shape)[0], given),
                "optimizer": settled(optimizer.document, values), "seed": 0}
    for k, v in document["inputs"].items():
        if v["shape"]:
            v["axes"] = ["batch"] + [None] * (len(v["shape"]) - 1)
    # running statistics and parameters; counts and keys of random streams are stepc's own
    weights = {p: np.asarray(v.value) for p, v in variables.items() if isinstance(v, (nnx.Param, nnx.BatchStat))}
    return document, weights


def _spelled(texts):
    """An array, or the tuple of arrays that a carry is."""
    return "(%s)" % ", ".join(map(_spelled, texts)) if isinstance(texts, (tuple, list)) else texts


def _model(nodes, output, given):
    """A graph; a model that is one layer has no name there, so it stands before what is computed from its result."""
    if not any(n["name"] == "" for n in nodes):
        return {"type": "graph", "nodes": nodes, "output": output}
    layer, rest = nodes[0], {"type": "graph", "name": "", "nodes": nodes[1:], "output": output}
    text = json.dumps(rest)
    if layer["name"] or any(n["type"] == "shared" for n in nodes) or "x" in given and re.search(r"\bx\b", text):
        raise NotCovered("a layer as the whole model with arithmetic around it; make it a part of a module")
    return layer if output == ROOT else {"type": "sequential", "layers": [layer, json.loads(re.sub(r"\b%s\b" % ROOT, "x", text))]}


def _loss(loss, output, given):
    if not callable(loss):
        return loss
    closed = jax.make_jaxpr(lambda out, rest: loss(out, **rest))(output, given)
    names = ["model." + k for k in sorted(output)] if isinstance(output, dict) else ["model"]
    [text] = Text().walk(closed.jaxpr, closed.consts, names + sorted(given))
    if len(text) > 20000:
        raise NotCovered("a loss of %d characters; give it as an object of the document" % len(text))
    return text


def save(folder, document, weights):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
    tensors.write(os.path.join(folder, "init.safetensors"),
                  [(p, "F32", w.shape, lambda w=w: w) for p, w in sorted(weights.items())])
