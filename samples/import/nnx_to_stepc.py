"""A Flax NNX module and an Optax transformation as a document of stepc, with the module's weights as its initial values.

    import stepc_optax as optax                 # Optax that remembers its arguments
    from nnx_to_stepc import convert

    document, weights = convert(model, optax.adamw(1e-3), inputs={"x": x, "y": y}, call=lambda model, x, y: model(x),
                                loss=lambda out, x, y: jnp.mean((out - y) ** 2))
    nnx_to_stepc.save("work", document, weights)     # work/model.json, work/init.safetensors

The module's call is traced. Layers that a document has stay layers, under their own paths, where the trace shows that they compute
what the document's layer computes, of the module's own parameters (nnx_trace.py). Whatever else there is becomes expressions
(jaxpr_text.py), parameters `param` blocks. What has no spelling raises NotCovered, which names it; nothing else comes out of convert.
The loss is a function of the call's result and the inputs, an expression, or an object of the document such as
{"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"}.

Initializers are not converted: the weights that the module has go into the file. Random streams are not either: dropout draws as
stepc does for "seed": 0. Variables that the call changes and nothing depends on (counters, what is sown) are left out; those that it
reads and never changes are constants.
"""
import json
import os
import re
import shutil

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import nnx_layers
import tensors
from jaxpr_text import NotCovered, Text, is_complex, results_of
from nnx_trace import MARK, Recorder
from nnx_verify import verify
from stepc_optax import path_of, settled

TESTED = (0, 12, 0), (0, 13)  # versions of Flax: from the first, before the second
TAKEN = ("inf", "nan", "params", "True", "False", "None")
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


def convert(model, optimizer, inputs, loss, call=None, name="model", batch=None, stepc=None):
    """(document, {path: array}). inputs: name -> array (or what has a shape and a dtype); call(model, **inputs), by default the model
    on the first input; batch: names of the inputs whose first dimension is the batch, by default those that are as long there as the
    first input; stepc: the compiler, by which a step of the document is held against one of the module (nnx_verify.py), by default the
    one on PATH if there is one; "" for none."""
    inputs = {k: v if hasattr(v, "dtype") else np.asarray(v) for k, v in inputs.items()}
    place, call = {}, call or (lambda model, **given: model(next(iter(given.values()))))
    stepc = shutil.which("stepc") if stepc is None else stepc
    try:
        if not stepc and not TESTED[0] <= tuple(int(n) for n in re.findall(r"\d+", flax.__version__)[:3]) < TESTED[1]:
            raise NotCovered("flax %s: tested are those from %d.%d.%d and before %d.%d; with stepc=PROGRAM a step is held against the module's" % (flax.__version__, *TESTED[0], *TESTED[1]))
        document, weights = _converted(model, optimizer, inputs, loss, call, name, batch, place)
        if stepc:
            verify(document, weights, model, inputs, call, loss, stepc)
        return document, weights
    except NotCovered:
        raise
    except Exception as e:
        frames, path = e.__traceback__, ""
        while frames:
            path, frames = place.get(id(frames.tb_frame.f_locals.get("self")), path), frames.tb_next
        raise NotCovered("%s%s: %s" % (path and path + ": ", type(e).__name__, str(e).strip().split("\n")[0])) from e


def _converted(model, optimizer, inputs, loss, call, name, batch, place):
    if jax.dtypes.canonicalize_dtype(np.float64) == np.float64:
        raise NotCovered("jax_enable_x64: a document computes without types of 64 bits")
    if not hasattr(optimizer, "document"):
        raise NotCovered("the optimizer was made by Optax itself; make it by stepc_optax")
    layers, variables = _paths(model)
    params = {path: v for path, v in variables.items() if isinstance(v, nnx.Param)}
    graph, state = nnx.split(model)
    flat, tree = jax.tree_util.tree_flatten_with_path(state)
    held = {path_of(keys): leaf for keys, leaf in flat}
    variables = {path: v for path, v in variables.items() if path in held}  # by one path each
    params = {path: v for path, v in params.items() if path in held}
    recorder = Recorder(layers)
    given = {k: jax.ShapeDtypeStruct(np.shape(v), jax.dtypes.canonicalize_dtype(v.dtype)) for k, v in inputs.items()}

    def run(leaves, arrays):  # lists, whose order is kept: JAX sorts the keys of a dictionary
        copy = nnx.merge(graph, tree.unflatten(leaves))
        recorder.begin(copy, {id(layer): path for path, layer in _paths(copy)[0].items()})
        place.update((id(node), ".".join(map(str, path))) for path, node in nnx.iter_graph(copy) if isinstance(node, nnx.Module))
        out = call(copy, **dict(zip(inputs, arrays)))
        after = {path_of(keys): leaf for keys, leaf in jax.tree_util.tree_flatten_with_path(nnx.split(copy)[1])[0]}
        return out, [after.get(path, leaf) for path, leaf in zip(held, leaves)]

    with recorder:
        closed, (shape, _) = jax.make_jaxpr(run, return_shape=True)(list(held.values()), list(given.values()))
    if any(map(is_complex, [*jax.tree_util.tree_leaves(shape), *given.values()])):
        raise NotCovered("complex numbers as inputs or results of the call")
    _apart(closed, params, held, "call")
    results, several = jax.tree_util.tree_leaves(shape), results_of(shape)
    jaxpr, whole = closed.jaxpr, set()
    streams = {path for path, v in variables.items() if isinstance(v, nnx.RngState)}
    statistics = {path for path, v in variables.items() if isinstance(v, nnx.BatchStat)}
    untrained = variables.keys() - params.keys() - streams - statistics
    after = dict(zip(held, jaxpr.outvars[len(results):]))
    lasts = {path for path, v in zip(held, jaxpr.invars) if after[path] is v and path not in params and path not in streams}
    why = {**{path: "random numbers that the call draws itself" for path in streams},
           **{path: "running statistics that the module computes itself" for path in statistics}}
    while True:
        # In a graph an input that has the name of a node is known by it only before the node.
        nodes = []
        blocks = _Layers(recorder.calls, nodes, params, untrained, whole, given)
        text = blocks.text = Text(nodes, blocks, why, {*given, *layers, *params})
        hidden = {k: text.free("input_" + k) for k in given if k in layers or k in params}
        nodes += [{"type": "expr", "name": v, "expr": k} for k, v in hidden.items()]
        found = text.results(jaxpr, closed.consts, ["params." + p if p in params else "@" + p for p in held] + [hidden.get(k, k) for k in given],
                             [leaf if p in lasts else None for p, leaf in held.items()] + [None] * len(given),
                             [1] * len(results) + [p in params or p in statistics for p in held])
        texts = [text.read(*pair) for pair in found[:len(results)]]
        output = dict(zip(several, texts)) if several else texts[0]
        early = _early(nodes, blocks.seen) or _nameless(nodes, output, given)
        if not early:
            break
        whole |= early  # layers that something needs where they have no name yet: arithmetic of parameters, which come first
    for path, (value, _) in zip(held, found[len(results):]):
        if path in params and value not in ("params." + path, "@@" + path):  # @@: as the layer of the document does it
            raise NotCovered("%s: the call changes a parameter" % path)
        if path in statistics and value not in ("@" + path, "@@" + path):
            raise NotCovered("%s: %s" % (path, why[path]))
    for n in [*given, *blocks.seen, *(path for path in params if path not in blocks.seen)]:
        if n and (not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", n) or n in TAKEN):
            raise NotCovered("%s: a name that expressions cannot have; rename it" % n)
    for k, v in hidden.items():
        if k in layers and re.search(r"(?<![\w.])%s\b" % re.escape(k), json.dumps([[e for key, e in n.items() if key in ("expr", "input", "inputs") and n["name"] != v] for n in nodes] + [output])):
            raise NotCovered("%s: a layer of the module and an input have this name; give the input another one" % k)
    made = [n["name"] for n in nodes if n["type"] not in ("expr", "shared")]
    inside = lambda path: any(n == "" or path.startswith(n + ".") for n in made)
    lost = [p for p in params if not inside(p)]  # of no layer, or of one that is arithmetic here; what the call does not use has a gradient of 0
    nodes = _mentioned(nodes, output)
    wide = lambda p: {} if held[p].dtype == np.float32 else {"dtype": held[p].dtype.name}
    nodes[len(hidden):len(hidden)] = [{"type": "param", "name": p, "shape": list(held[p].shape), "init": {"type": "zeros"}, **wide(p)} for p in lost]
    document = {"stepc": 1, "name": name,
                "inputs": {k: {"shape": list(v.shape), "dtype": np.dtype(v.dtype).name} for k, v in given.items()},
                "model": _model(nodes, output), "loss": _loss(loss, shape, given, lambda closed: _apart(closed, params, held, "loss")),
                "optimizer": settled(optimizer.document, nnx.state(model, nnx.Param)), "seed": 0}
    rows = next(iter(given.values())).shape[:1]
    for k, v in document["inputs"].items():
        if v["shape"]:
            batched = k in batch if batch is not None else tuple(v["shape"][:1]) == rows
            v["axes"] = ["batch" if batched else None] + [None] * (len(v["shape"]) - 1)
    # parameters and the running statistics of layers; counts and keys of random streams are stepc's own
    weights = {p: np.asarray(held[p]) for p in variables if p in params or p in statistics and inside(p)}
    return document, weights


def _early(nodes, layers):
    """Layers whose parameters stand in the text of a node before them."""
    found, mentioned = set(), ""
    for node in nodes:
        if node["name"] in layers and re.search(r"params\.%s\b" % re.escape(node["name"]), mentioned):
            found.add(node["name"])
        mentioned += json.dumps(node)
    return found


class _Layers:
    """Calls of layers as nodes: those whose layer a document has, and which are given the model's own variables. whole: paths of layers
    that are arithmetic, whatever they are; inputs: names of the document's."""

    def __init__(self, calls, nodes, params, untrained, whole, inputs):
        self.calls, self.nodes, self.params, self.untrained, self.whole, self.inputs, self.seen = calls, nodes, params, untrained, whole, inputs, {}

    def __call__(self, eqn, a, values):
        name = eqn.params.get("name", "")
        if not name.startswith(MARK):
            return None
        call = self.calls[int(name[len(MARK):])]
        below = lambda p: (call.path + "." + p).lstrip(".")
        if call.block is None:
            return call.reason
        if call.path in self.whole:
            return "%s: its parameters are needed before it" % call.path
        if call.avals != ([(v.aval.shape, v.aval.dtype) for v in eqn.invars], [(v.aval.shape, v.aval.dtype) for v in eqn.outvars]):
            return "%s: a layer that is called inside of another transformation" % call.path
        for i, p in call.own.items():
            path = below(p)
            if a[i] not in (("params." + path,) if path in self.params else ("@" + path, "@@" + path)):
                return "%s: what is done to it before the layer is called" % path
            if path not in self.params and path in self.untrained:
                return "%s: a variable that is no parameter" % path
        apart = lambda text, atom: self.text.apart(text, atom.aval.dtype)
        found = self.node(call, [apart(self.text.read(a[i], values[i]), eqn.invars[i]) for i in call.inputs])
        return found if isinstance(found, str) else [*map(apart, found, eqn.outvars), *("@@" + below(p) for p in call.changed)]

    def node(self, call, texts):
        """The texts of the results, or why this call is no node."""
        inputs, more = jax.tree_util.tree_unflatten(call.structure, texts)
        says = {**call.block, **{key: _spelled(value) for key, value in more.items()}, **call.fields}
        first, times = self.seen.setdefault(call.path, [says, 0])
        if first != says and call.own:
            return "%s: a call that differs from an earlier one in %s" % (call.path, ", ".join(k for k in {**first, **says} if first.get(k) != says.get(k)))
        self.seen[call.path][1] += 1
        name = self.text.free("%s_again%d" % (call.path, times)) if times else call.path
        if times and first == says:
            node = {"type": "shared", "name": name, "block": call.path}  # with all that the first call says
        else:
            node = {**call.block, "name": name}
        inputs = [_spelled(x) for x in inputs]
        node.update({"input": inputs[0]} if len(inputs) == 1 else {"inputs": inputs})
        for key in more if node["type"] != "shared" else ():
            if not re.search(r"\bx\b", says[key]):
                node[key] = says[key]
                continue
            # By the name of a node: in a block's own arguments `x` is the block's input.
            self.nodes.append({"type": "expr", "name": self.text.free("%s_%s" % (name.replace(".", "_"), key)), "expr": says[key]})
            node[key] = self.nodes[-1]["name"]
        node.update(call.fields if node["type"] != "shared" else {})
        self.nodes.append(node)
        if name in self.inputs and not (call.changed or call.draws):
            # Its name says the input or its result, so that no expression may use it: the result is that of a second use, and the
            # first one, which nothing reads, is left out of what is compiled.
            node = {"type": "shared", "name": self.text.free(name + "_again0"), "block": name, **{k: node[k] for k in ("input", "inputs") if k in node}}
            self.nodes.append(node)
        at = jax.tree_util.tree_flatten_with_path(jax.tree_util.tree_unflatten(call.outputs, range(call.outputs.num_leaves)))[0]
        return [(node["name"] or ROOT) + "".join("[%d]" % k.idx for k in keys) for keys, _ in at]


def _apart(closed, params, held, what):
    """Refuses what takes a parameter from the module outside instead of from what it is given: no gradient would come of it."""
    for c in closed.consts:
        for path in params:
            if c is held[path]:
                raise NotCovered("%s: the %s takes it from a module outside; a call is given the module, and can return what a loss needs" % (path, what))


def _spelled(texts):
    """An array, or the tuple of arrays that a carry is."""
    return "(%s)" % ", ".join(map(_spelled, texts)) if isinstance(texts, (tuple, list)) else texts


def _mentioned(nodes, output):
    """Without expressions that nothing needs, such as what a loop carries out of its last round."""
    kept, words = [], set(re.findall(r"\w+", json.dumps(output)))
    for node in reversed(nodes):
        if node["type"] != "expr" or not re.fullmatch(r"t\d+", node["name"]) or node["name"] in words:
            kept.append(node)
            words.update(re.findall(r"\w+", json.dumps(node)) if node["type"] != "expr" else re.findall(r"\w+", node["expr"]))
    return kept[::-1]


def _nameless(nodes, output, given):
    """Whether a model that is one layer, which has no name, is needed by one: for several results, twice, beside an input x."""
    if not any(n["name"] == "" for n in nodes):
        return set()
    text = json.dumps([nodes[1:], output])
    twice = nodes[0]["name"] or any(n["type"] == "shared" for n in nodes) or "%s[" % ROOT in text
    return {""} if twice or output != ROOT and "x" in given and re.search(r"\bx\b", text) else set()


def _model(nodes, output):
    """A graph; a model that is one layer stands before what is computed from its result."""
    if not any(n["name"] == "" for n in nodes):
        return {"type": "graph", "nodes": nodes, "output": output}
    rest = json.dumps({"type": "graph", "name": "", "nodes": nodes[1:], "output": output})
    return nodes[0] if output == ROOT else {"type": "sequential", "layers": [nodes[0], json.loads(re.sub(r"\b%s\b" % ROOT, "x", rest))]}


def _loss(loss, output, given, check):
    if not callable(loss):
        return loss
    closed = jax.make_jaxpr(lambda out, rest: loss(out, **rest))(output, given)
    check(closed)
    names = ["model." + k for k in results_of(output)] or ["model"]
    [text] = Text().walk(closed.jaxpr, closed.consts, names + sorted(given))
    return text


def save(folder, document, weights):
    os.makedirs(folder, exist_ok=True)
    tensors.write(os.path.join(folder, "init.safetensors"),
                  [(p, "F32", w.shape, lambda w=w: w) for p, w in sorted(weights.items())])
    tensors.write_json(os.path.join(folder, "model.json"), document)
