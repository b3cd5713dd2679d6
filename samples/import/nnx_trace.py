"""Calls of layers while a module is traced. Each becomes one nested call in the trace that takes all that the layer holds and is given,
so what a module does to a parameter before it calls the layer stands in the trace like any other arithmetic.

Whether a layer of the document says the same is not looked up but shown: a layer is made anew from the document's object, and what the
two compute must be the same, equation by equation. So a function given to a layer, an attribute that was replaced, a part of another
class, an argument that no row of the table knows: all of these end in arithmetic (which is spelled, or refused), never in nothing."""
import inspect

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.extend import core as jex

import nnx_layers
from jaxpr_text import NotCovered, same
from stepc_optax import path_of

MARK = "stepc_layer_"


class Call:
    """One call of a layer. block, fields: its object, and what the call adds to it; None: reason tells why there is none. operands: for
    each operand of the nested call what it is, ("own", path in the layer) or ("given", number of the argument). changed: paths of the
    layer's variables that follow the results."""

    def __init__(self, path):
        self.path, self.block, self.reason = path, None, "no layer of a document"


def _value(key, value, attribute):
    """An argument of a constructor by what the document says."""
    if isinstance(value, dict) and "type" in value:
        if isinstance(attribute, nnx.Module):
            return made_anew(attribute, value)
        name = value["type"]
        if name == "constant":
            return jax.nn.initializers.constant(value["value"])
        return next(getattr(of, name) for of in ((jax.nn.initializers,) if key.endswith("_init") else (jax.nn, jnp)) if hasattr(of, name))
    if key == "mask":
        return None  # a constant, written in full: see shown()
    if key.endswith("dtype") or key == "preferred_element_type":
        return jnp.dtype(value)
    if isinstance(value, dict):
        return {int(k): v for k, v in value.items()}
    return tuple(_value(key, v, None) for v in value) if isinstance(value, list) else value


def made_anew(layer, block):
    """A layer of this class by its object alone; only sizes that an object leaves to the shapes come from the layer."""
    kind, row, given = type(layer), nnx_layers.KINDS[type(layer)], {}
    keys = {attribute: key for key, attribute in row.keys}
    for cls in kind.__mro__:
        if "__init__" not in vars(cls) or not issubclass(cls, nnx.Module):
            continue
        for p in inspect.signature(cls.__init__).parameters.values():
            key = keys.get(p.name, p.name)
            if p.name in ("self", "args", "kwargs") or p.name in given:
                continue
            if key in block:
                given[p.name] = _value(p.name, block[key], getattr(layer, p.name, None))
            elif p.name == "rngs":
                if p.default is not True:
                    given["rngs"] = nnx.Rngs(0)
            elif p.name == "decode":
                given["decode"] = False
            elif p.default is inspect.Parameter.empty and p.name != "lora_rank":
                given[p.name] = getattr(layer, p.name) if hasattr(layer, p.name) else _features(layer)
    return kind(**given)


def _features(layer):
    """The size that GroupNorm does not keep."""
    kept = next((v for _, v in nnx.iter_graph(layer) if isinstance(v, nnx.Param)), None)
    return layer.num_groups if kept is None else int(np.prod(kept.value.shape))


class Recorder:
    """Stands in for the calls of layers of one module while it is traced."""

    def __init__(self, layers):
        """layers: path -> layer as it is before it is traced."""
        self.layers, self.calls, self.originals, self.paths, self.module = layers, [], {}, {}, None

    def begin(self, module, paths):
        """paths: id of a layer of the module -> its path."""
        self.module, self.paths = module, paths  # kept, so that no other object takes over one of these numbers

    def __enter__(self):
        for kind in nnx_layers.KINDS:
            self.originals[kind] = kind.__call__
        for kind in nnx_layers.KINDS:
            kind.__call__ = self.replaced(kind)
        return self

    def __exit__(self, *_):
        for kind, original in self.originals.items():
            kind.__call__ = original

    def replaced(self, kind):
        def __call__(layer, *args, **kwargs):
            path = self.paths.get(id(layer))
            if path is None or type(layer) is not kind:
                return self.originals[kind](layer, *args, **kwargs)
            return self.called(path, kind, layer, args, kwargs)
        return __call__

    def called(self, path, kind, layer, args, kwargs):
        plain = lambda v: v.get_value() if isinstance(v, nnx.Variable) and hasattr(v, "get_value") else v.value if isinstance(v, nnx.Variable) \
            else jnp.asarray(v) if isinstance(v, (np.ndarray, np.generic)) else v
        args, kwargs = tuple(map(plain, args)), {k: plain(v) for k, v in kwargs.items()}
        if kind is nnx.Dropout and layer.rngs is None and kwargs.get("rngs") is None:
            kwargs["rngs"] = nnx.Rngs(0)  # a document has a stream of its own
        graph, state = nnx.split((layer, args, kwargs))
        flat, tree = jax.tree_util.tree_flatten_with_path(state)
        keys, leaves = [keys for keys, _ in flat], [leaf for _, leaf in flat]
        own = {path_of(k[1:]): i for i, k in enumerate(keys) if path_of(k[:1]) == "0"}
        held = {path_of(p): v for p, v in nnx.iter_graph(layer) if isinstance(v, nnx.Variable)}
        streams = {p for p, v in held.items() if isinstance(v, nnx.RngState)}
        lasting = sorted(p for p in own if p in held and p not in streams)

        def results(layer, out):
            after = {path_of(k): leaf for k, leaf in jax.tree_util.tree_flatten_with_path(nnx.split(layer)[1])[0]}
            return out, [after[p] for p in lasting]

        def real(*leaves):
            layer, args, kwargs = nnx.merge(graph, tree.unflatten(leaves))
            return results(layer, self.originals[kind](layer, *args, **kwargs))

        closed, (out, _) = jax.make_jaxpr(real, return_shape=True)(*leaves)
        structure, call = jax.tree_util.tree_structure(out), Call(path)
        try:
            call.block, call.fields, call.structure, arrays = self.shown(path, kind, layer, args, kwargs, (graph, tree, own, results, leaves), closed)
            position = lambda a: next(i for i, leaf in enumerate(leaves) if leaf is a and i not in own.values())
            call.inputs = [position(a) for a in arrays]
        except NotCovered as e:
            call.block, call.reason = None, str(e)
        except Exception as e:  # of making the layer anew
            call.block, call.reason = None, "%s: %s" % (type(e).__name__, e)
        count, arguments = structure.num_leaves, dict(zip(closed.jaxpr.invars, range(len(leaves))))
        outvars = closed.jaxpr.outvars
        changed = [i for i, p in enumerate(lasting) if isinstance(outvars[count + i], jex.Literal) or arguments.get(outvars[count + i]) != own[p]]
        call.own = {len(closed.consts) + i: p for p, i in own.items() if p not in streams}
        call.inputs = [len(closed.consts) + i for i in getattr(call, "inputs", [])]
        call.outputs, call.changed, call.draws = structure, [lasting[i] for i in changed], bool(streams)
        typed = lambda atoms: [(v.aval.shape, v.aval.dtype) for v in atoms]
        call.avals = typed((*closed.jaxpr.constvars, *closed.jaxpr.invars)), typed(outvars[:count]) + typed(outvars[count + i] for i in changed)

        def nested(*values):
            found = jex.jaxpr_as_fun(jex.ClosedJaxpr(closed.jaxpr, values[:len(closed.consts)]))(*values[len(closed.consts):])
            return [*found[:count], *(found[count + i] for i in changed)]

        nested.__name__ = nested.__qualname__ = MARK + str(len(self.calls))
        self.calls.append(call)
        found = jax.jit(nested)(*closed.consts, *leaves)
        for p, value in zip(call.changed, found[count:]):
            held[p].value = value
        return structure.unflatten(found[:count])

    def shown(self, path, kind, layer, args, kwargs, traced, closed):
        """The layer's object, what the call adds to it, and the arrays of the call; NotCovered unless the object says all."""
        graph, tree, own, results, leaves = traced
        where = path or kind.__name__
        inputs, expressions, fields = nnx_layers.call_of(where, kind, self.originals[kind], layer, args, kwargs)
        block = nnx_layers.document_of(where, layer, self.layers[path])
        anew, variables = nnx.split(nnx.eval_shape(lambda: made_anew(layer, block)))
        flat, form = jax.tree_util.tree_flatten_with_path(variables)
        given = lambda array: next(i for i, leaf in enumerate(leaves) if leaf is array)
        at, asked = jax.tree_util.tree_map(given, (inputs, expressions)), {k: kwargs[k] for k in ("rngs",) if k in kwargs}

        def document(*leaves):
            held = [leaves[own[path_of(k)]] if path_of(k) in own else jax.random.key(0) if "key" in path_of(k) else jnp.zeros(v.shape, v.dtype) for k, v in flat]
            again = nnx.merge(anew, form.unflatten(held))
            before, _, words = nnx.merge(graph, tree.unflatten(leaves))
            for name in ("mask", "scales"):  # arrays that the document has in full
                if getattr(before, name, None) is not None:
                    setattr(again, name, getattr(before, name))
            a, e = jax.tree_util.tree_map(lambda i: leaves[i], at)
            values = {k: v for k, v in fields.items()}
            return results(again, self.originals[kind](again, *a, **e, **values, **{k: words[k] for k in asked}))

        other = jax.make_jaxpr(document)(*leaves)
        if not same(closed.jaxpr, closed.consts, other.jaxpr, other.consts):
            raise NotCovered("%s: it computes something else than \"%s\" with what a document says of it" % (where, block["type"]))
        arrays, structure = jax.tree_util.tree_flatten((inputs, expressions))
        return block, fields, structure, arrays
