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
import json
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.extend import core as jex

import jaxpr_text
import tensors
from jaxpr_text import NotCovered, Text, plain
from stepc_optax import path_of, settled


def _dtype(path, layer, out):
    if getattr(layer, "dtype", None) is not None:
        out["dtype"] = np.dtype(layer.dtype).name
    if np.dtype(getattr(layer, "param_dtype", np.float32)) != np.float32:
        raise NotCovered("%s: param_dtype %s" % (path, np.dtype(layer.param_dtype).name))
    if getattr(layer, "precision", None) is not None:
        raise NotCovered("%s: precision" % path)
    return out


def _fields(kind, **names):
    """A row of the table: keys of the document by attributes of the layer."""
    return lambda layer: {"type": kind, **{key: plain(getattr(layer, attribute)) for key, attribute in names.items()}}


def _keys(text):
    return {k: k for k in text.split()}


def _conv(layer):
    if layer.mask is not None:
        raise NotCovered("nnx.Conv: mask")
    out = _fields("conv", features="out_features", **_keys("kernel_size strides padding input_dilation kernel_dilation feature_group_count use_bias"))(layer)
    return out


def _attention(layer):
    if getattr(layer, "deterministic", None):
        return {**_attention_fields(layer), "dropout_rate": 0.0}
    return _attention_fields(layer)


def _attention_fields(layer):
    if layer.attention_fn is not nnx.dot_product_attention or layer.decode:
        raise NotCovered("nnx.MultiHeadAttention: its own attention_fn, or decode")
    return _fields("multi_head_attention", use_bias="use_bias", normalize_qk="normalize_qk",
                   **_keys("num_heads qkv_features out_features dropout_rate broadcast_dropout"))(layer)


def _dropout(layer):
    if layer.deterministic:
        return {"type": "dropout", "rate": 0.0}
    return {"type": "dropout", "rate": float(layer.rate), **({"broadcast_dims": plain(layer.broadcast_dims)} if layer.broadcast_dims else {})}


def _norm(kind, *more):
    return _fields(kind, epsilon="epsilon", use_scale="use_scale", **({"use_bias": "use_bias"} if kind != "rms_norm" else {}), **{k: k for k in more})


def _batch_norm(layer):
    if layer.use_running_average:
        raise NotCovered("nnx.BatchNorm: use_running_average; a step trains (see nnx.Module.train)")
    return _norm("batch_norm", "axis", "momentum")(layer)


def _given(layer, *names):
    """Arguments that may be None: those that are not."""
    return {k: plain(getattr(layer, k)) for k in names if getattr(layer, k) is not None}


def _conv_transpose(layer):
    if layer.mask is not None:
        raise NotCovered("nnx.ConvTranspose: mask")
    return {"type": "conv_transpose", "features": layer.out_features, **_given(layer, *"kernel_size strides padding kernel_dilation use_bias transpose_kernel".split())}


def _activation(where, function):
    name = getattr(function, "__name__", "")
    if getattr(jax.nn, name, None) is not function and getattr(jnp, name, None) is not function:
        raise NotCovered("%s: a function of one's own" % where)
    return {"type": name}


CELLS = {nnx.LSTMCell: "lstm_cell", nnx.OptimizedLSTMCell: "optimized_lstm_cell", nnx.GRUCell: "gru_cell", nnx.SimpleCell: "simple_cell"}


def _cell(cell):
    if type(cell) not in CELLS:
        raise NotCovered("nnx.RNN of a %s" % type(cell).__name__)
    if getattr(cell.carry_init, "__name__", "") != "zeros":
        raise NotCovered("%s: carry_init" % type(cell).__name__)
    out = {"type": CELLS[type(cell)], "hidden_features": cell.hidden_features}
    for key, usual in (("gate_fn", "sigmoid"), ("activation_fn", "tanh")):
        function = getattr(cell, key, None)
        if function is not None and getattr(function, "__name__", "") != usual:
            out[key] = _activation("%s: %s" % (type(cell).__name__, key), function)
    if getattr(cell, "residual", False):
        out["residual"] = True
    return _dtype("cell", cell, out)


def _rnn(layer):
    if layer.return_carry:
        raise NotCovered("nnx.RNN: return_carry")
    out = {"type": "rnn", "cell": _cell(layer.cell)}
    out.update({k: True for k in ("time_major", "reverse", "keep_order") if getattr(layer, k)})
    return out


def _bidirectional(layer):
    if layer.return_carry or getattr(layer.merge_fn, "__name__", "") != "_concatenate":
        raise NotCovered("nnx.Bidirectional: return_carry, or its own merge_fn")
    return {"type": "bidirectional", "forward_rnn": _rnn(layer.forward_rnn), "backward_rnn": _rnn(layer.backward_rnn), **({"time_major": True} if layer.time_major else {})}


def _lora(layer):
    out = {"type": "lora", "lora_rank": int(layer.lora_a.value.shape[1])}
    base = layer.base_module
    if base is None:
        return {**out, "features": layer.out_features}
    if type(base) not in LAYERS:
        raise NotCovered("nnx.LoRA around a %s" % type(base).__name__)
    return {**out, "base_module": _dtype("base_module", base, LAYERS[type(base)](base))}


def _lora_linear(layer):
    return {"type": "lora_linear", "features": layer.out_features, "use_bias": layer.use_bias, "lora_rank": int(layer.lora.lora_a.value.shape[1])}


LAYERS = {
    nnx.Linear: _fields("linear", features="out_features", use_bias="use_bias"),
    nnx.LinearGeneral: _fields("linear_general", features="out_features", axis="axis", batch_axis="batch_axis", use_bias="use_bias"),
    nnx.Einsum: _fields("einsum", **_keys("einsum_str kernel_shape bias_shape")),
    nnx.Embed: _fields("embed", **_keys("num_embeddings features")),
    nnx.Conv: _conv,
    nnx.LayerNorm: _norm("layer_norm", "reduction_axes", "feature_axes"),
    nnx.RMSNorm: _norm("rms_norm", "reduction_axes", "feature_axes"),
    nnx.GroupNorm: _norm("group_norm", "num_groups"),
    nnx.BatchNorm: _batch_norm,
    nnx.InstanceNorm: _norm("instance_norm", "feature_axes"),
    nnx.ConvTranspose: _conv_transpose,
    nnx.PReLU: _fields("prelu"),
    nnx.RNN: _rnn,
    nnx.Bidirectional: _bidirectional,
    nnx.LoRA: _lora,
    nnx.LoRALinear: _lora_linear,
    nnx.MultiHeadAttention: _attention,
    nnx.Dropout: _dropout,
}
CALLS = {nnx.MultiHeadAttention: ("inputs_q", "inputs_k", "inputs_v")}  # the others take one input

ROOT = "whole_model"  # stands for the result of a model that is one layer, whose parameters have no prefix

def _paths(model):
    """Path -> layer of the table that it belongs to, and all variables by path."""
    layers, variables = {}, {}
    for path, node in nnx.iter_graph(model):
        text = ".".join(map(str, path))
        if type(node) in LAYERS and not any(text.startswith(p + ".") or p == "" for p in layers):
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
            kwargs.pop("rngs", None)
            names, given = CALLS.get(kind, ("x",)), list(args[:3])
            for key in names[len(given):]:
                if kwargs.get(key) is not None:
                    given.append(kwargs.pop(key))
            keywords = {k: v for k, v in kwargs.items() if v is not None and not (k == "deterministic" and v is False) and not (k == "decode" and not v)}
            if len(args) > len(names):
                keywords["mask"] = args[3]
            more = {k: keywords.pop(k) for k in ("mask", "seq_lengths", "initial_carry") if isinstance(keywords.get(k), jax.Array)}
            fields = {k: keywords.pop(k) for k in ("is_causal", "einsum_str") if keywords.get(k)}
            if keywords:
                raise NotCovered("%s: %s of its call" % (path, ", ".join(keywords)))
            LAYERS[kind](self)  # what is not covered says so
            graph, state = nnx.split(self)
            equation = {k: v for k, v in fields.items() if k == "einsum_str"}
            out = jax.eval_shape(lambda s, a, m: originals[kind](nnx.merge(graph, s), *a, **m, **equation), state, given, more)
            calls.append((path, self, fields))
            arrays = [jnp.asarray(a) for a in (*given, *more.values())]
            return jaxpr_text.layer.bind(*arrays, number=len(calls) - 1, shape=out.shape, dtype=out.dtype, keywords=tuple(more))
        return replace

    graph, values, rest = nnx.split(model, nnx.Param, ...)
    order = [path_of(keys) for keys, _ in jax.tree_util.tree_flatten_with_path(values)[0]] + sorted(inputs)

    def run(values, given):
        copy = nnx.merge(graph, values, rest)
        number.update((id(layer), path) for path, layer in _paths(copy)[0].items())
        number[None] = copy  # so that no other object takes over one of these numbers
        return call(copy, **given)

    for kind in LAYERS:
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
        path, layer, fields = calls[eqn.params["number"]]
        more = dict(zip(eqn.params["keywords"], a[len(a) - len(eqn.params["keywords"]):]))
        a = a[:len(a) - len(more)]
        if path in seen:
            node = {"type": "shared", "name": "%s_again%d" % (path, seen[path]), "block": path}
            seen[path] += 1
        else:
            node = {**_dtype(path, layer, LAYERS[type(layer)](layer)), "name": path}
            seen[path] = 1
        node.update({"input": a[0]} if len(a) == 1 else {"inputs": a})
        for key, text in more.items():
            if not re.search(r"\bx\b", text):
                node[key] = text
                continue
            # By the name of a node: in a block's own arguments `x` is the block's input.
            nodes.append({"type": "expr", "name": "%s_%s" % (path.replace(".", "_"), key), "expr": text})
            node[key] = nodes[-1]["name"]
        node.update(fields)
        nodes.append(node)
        return node["name"] or ROOT

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
