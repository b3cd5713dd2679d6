"""Traces of JAX (jaxprs) as expressions of a document: an operation at a time, by the tables below. What has no spelling raises
NotCovered."""
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex


class NotCovered(Exception):
    """What has no spelling in a document, or none that can be seen from Python."""


def plain(value):
    """Tuples and NumPy's numbers as JSON has them."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if hasattr(value, "items"):  # flax's own kinds of mappings too
        return {str(k): plain(v) for k, v in dict(value).items()}
    return value.item() if isinstance(value, np.generic) else value


layer = jex.Primitive("stepc_layer")  # a layer of the table, whatever it computes
layer.multiple_results = True
layer.def_abstract_eval(lambda *args, number, results: [jax.core.ShapedArray(shape, dtype) for shape, dtype in results])

UNARY = {"exp": "exp", "exp2": "exp2", "log": "log", "log1p": "log1p", "expm1": "expm1", "tanh": "tanh", "logistic": "sigmoid", "sqrt": "sqrt",
         "rsqrt": "rsqrt", "cbrt": "cbrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
         "sinh": "sinh", "cosh": "cosh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "abs": "abs", "sign": "sign",
         "floor": "floor", "ceil": "ceil", "erf": "erf", "erfc": "erfc", "erf_inv": "erfinv", "square": "square", "is_finite": "isfinite",
         "neg": "negative", "not": "invert", "stop_gradient": "stop_gradient"}
BINARY = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=", "and": "&", "or": "|", "xor": "^"}
CALLED = {"max": "maximum", "min": "minimum", "atan2": "arctan2", "rem": "fmod"}
REDUCED = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_and": "all", "reduce_or": "any"}
POOLS = {"reduce_window_max": "max_pool", "reduce_window_min": "min_pool", "reduce_window_sum": "avg_pool"}
NAMED = {"relu", "relu6", "silu", "logsumexp"}  # functions with gradients of their own: by name, never by what they are made of
INLINED = {"pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint", "remat2"}


LONGEST = 40000  # characters of a constant


def _number(x):
    x = np.asarray(x).item()
    if isinstance(x, float) and not np.isfinite(x):
        return "nan" if x != x else "inf" if x > 0 else "(-inf)"
    return repr(x) if isinstance(x, bool) or x >= 0 else "(%r)" % x


def _tuple(t):
    return "(%s%s)" % (", ".join(str(int(i)) for i in t), "," if len(t) == 1 else "")


def _einsum(p, ranks):
    (ca, cb), (ba, bb) = p["dimension_numbers"]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    a = [next(letters) for _ in range(ranks[0])]
    b = [None] * ranks[1]
    for i, j in list(zip(ca, cb)) + list(zip(ba, bb)):
        b[j] = a[i]
    b = [c or next(letters) for c in b]
    out = [a[i] for i in ba] + [c for i, c in enumerate(a) if i not in ca and i not in ba] + [c for i, c in enumerate(b) if i not in cb and i not in bb]
    return "%s,%s->%s" % ("".join(a), "".join(b), "".join(out))


def _taken_axis(equation):
    """The axis, if a gather is what jnp.take does: whole rows along one axis."""
    d, operand, indices = equation.params["dimension_numbers"], equation.invars[0].aval.shape, equation.invars[1].aval.shape
    if len(d.start_index_map) != 1 or getattr(d, "operand_batching_dims", ()):
        return None
    axis, sizes = d.start_index_map[0], list(operand)
    sizes[axis] = 1
    rest = tuple(i for i in range(len(operand) + len(indices) - 2) if not axis <= i < axis + len(indices) - 1)
    return axis if d.collapsed_slice_dims == (axis,) and tuple(equation.params["slice_sizes"]) == tuple(sizes) and d.offset_dims == rest else None


def _along_axis(equation):
    """The axis, if a gather is what jnp.take_along_axis does: one element of it for each of the others."""
    d, operand, indices = equation.params["dimension_numbers"], equation.invars[0].aval.shape, equation.invars[1].aval.shape
    others = tuple(i for i in range(len(operand)) if i not in d.collapsed_slice_dims)
    found = len(d.collapsed_slice_dims) == 1 and d.start_index_map == d.collapsed_slice_dims and not d.offset_dims and indices[-1] == 1 \
        and d.operand_batching_dims == d.start_indices_batching_dims == others and len(indices) == len(operand) + 1
    return d.collapsed_slice_dims[0] if found else None


class Text:
    """Equations of a trace as expressions. A value that is used more than once becomes a node, where nodes can stand."""

    def __init__(self, nodes=None):
        self.nodes, self.count = nodes, 0  # nodes None: one text

    def spell(self, equation, a):
        """The expression of one equation; a: expressions of its operands, safe as operands."""
        name, p = equation.primitive.name, equation.params
        shape = lambda i: equation.invars[i].aval.shape
        out = equation.outvars[0].aval
        if name in UNARY:
            return "%s(%s)" % (UNARY[name], a[0])
        if name in BINARY:
            if name == "div" and not jnp.issubdtype(out.dtype, jnp.floating):
                raise NotCovered("division of integers")
            return "(%s %s %s)" % (a[0], BINARY[name], a[1])
        if name in CALLED:
            return "%s(%s, %s)" % (CALLED[name], a[0], a[1])
        if name in REDUCED:
            return "%s(%s, axis=%s)" % (REDUCED[name], a[0], _tuple(p["axes"]))
        if name in ("argmax", "argmin"):
            return "%s(%s, axis=%d)" % (name, a[0], p["axes"][0])
        if name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
            return "%s(%s, axis=%d, reverse=%s)" % (name, a[0], p["axis"], bool(p["reverse"]))
        if name == "integer_pow":
            return "(%s ** %s)" % (a[0], _number(p["y"]))
        if name == "convert_element_type":
            kept = equation.invars[0].aval.dtype == p["new_dtype"]
            return a[0] if kept else "astype(%s, '%s')" % (a[0], np.dtype(p["new_dtype"]).name)
        if name in ("reshape", "squeeze", "expand_dims"):
            return "reshape(%s, %s)" % (a[0], _tuple(out.shape))
        if name == "broadcast_in_dim":
            kept = [1] * len(out.shape)
            for i, d in enumerate(p["broadcast_dimensions"]):
                kept[d] = shape(0)[i]
            inner = a[0] if tuple(kept) == shape(0) else "reshape(%s, %s)" % (a[0], _tuple(kept))
            return inner if tuple(kept) == out.shape else "broadcast_to(%s, %s)" % (inner, _tuple(out.shape))
        if name == "transpose":
            return "transpose(%s, %s)" % (a[0], _tuple(p["permutation"]))
        if name == "dot_general":
            return "einsum('%s', %s, %s)" % (_einsum(p, [len(shape(0)), len(shape(1))]), a[0], a[1])
        if name == "concatenate":
            return "concatenate([%s], axis=%d)" % (", ".join(a), p["dimension"])
        if name == "slice":
            strides = p["strides"] or [1] * len(out.shape)
            return "%s[%s]" % (a[0], ", ".join("%d:%d%s" % (b, e, ":%d" % s if s != 1 else "") for b, e, s in
                                               zip(p["start_indices"], p["limit_indices"], strides)))
        if name == "rev":
            return "flip(%s, axis=%s)" % (a[0], _tuple(p["dimensions"]))
        if name == "select_n" and len(a) == 3:
            return "where(%s, %s, %s)" % (a[0], a[2], a[1])
        if name == "clamp":
            return "clip(%s, %s, %s)" % (a[1], a[0], a[2])
        if name == "iota":
            line = [1] * len(out.shape)
            line[p["dimension"]] = out.shape[p["dimension"]]
            return "broadcast_to(reshape(arange(%d, dtype='%s'), %s), %s)" % (line[p["dimension"]], out.dtype.name, _tuple(line), _tuple(out.shape))
        if name == "gather":
            taken = _taken_axis(equation)
            if taken is not None:
                return "take(%s, reshape(%s, %s), axis=%d)" % (a[0], a[1], _tuple(shape(1)[:-1]), taken)
            along = _along_axis(equation)
            if along is not None:
                return "take_along_axis(%s, reshape(%s, %s), axis=%d)" % (a[0], a[1], _tuple(shape(1)[:-1]), along)
        if name == "dynamic_slice" and all(re.fullmatch(r"\(?-?\d+\)?", b) for b in a[1:]):
            begin = [min(max(int(b.strip("()")), 0), n - k) for b, n, k in zip(a[1:], shape(0), p["slice_sizes"])]
            return "%s[%s]" % (a[0], ", ".join("%d:%d" % (b, b + k) for b, k in zip(begin, p["slice_sizes"])))
        if name in POOLS and self.nodes is not None:
            return self.pool(name, p, a[0])
        if name == "pad" and all(low >= 0 and high >= 0 and not inner for low, high, inner in p["padding_config"]):
            return "pad(%s, (%s,), constant_values=%s)" % (a[0], ", ".join("(%d, %d)" % (low, high) for low, high, _ in p["padding_config"]), a[1])
        if name == "sort" and len(a) == 1:
            return "sort(%s, axis=%d)" % (a[0], p["dimension"])
        if name in ("copy", "copy_p", "optimization_barrier", "sharding_constraint"):
            return a[0]
        raise NotCovered("the operation \"%s\" of the traced call" % name)

    def pool(self, name, p, x):
        """A window of 1 over the first and the last dimension, as pooling layers have it."""
        window, strides, padding = p["window_dimensions"], p["window_strides"], p["padding"]
        if {window[0], window[-1], strides[0], strides[-1]} != {1} or {*padding[0], *padding[-1], 0} != {0} or {*p["base_dilation"], *p["window_dilation"]} != {1}:
            raise NotCovered("the operation \"%s\" of the traced call over these windows" % name)
        self.count += 1
        self.nodes.append({"type": POOLS[name], "name": "t%d" % self.count, "window_shape": plain(window[1:-1]), "strides": plain(strides[1:-1]),
                           "padding": plain(padding[1:-1]), "input": x})
        return "(t%d * %d)" % (self.count, np.prod(window)) if name == "reduce_window_sum" else "t%d" % self.count

    def read(self, known, var, fixed):
        if isinstance(var, jex.Literal):
            return _number(var.val)
        if known[var] is None:
            known[var] = self.constant(fixed[var])
        return known[var]

    def constant(self, c):
        if jax.dtypes.issubdtype(c.dtype, jax.dtypes.prng_key):
            return "random_key"  # handed through by transformations; what draws from it is not covered by its own name
        c = np.asarray(c)
        if c.ndim == 0:
            return _number(c)
        if c.size and np.all(c == c.flat[0]):
            return "full(%s, %s, dtype='%s')" % (_tuple(c.shape), _number(c.flat[0]), c.dtype.name)
        words = {"true": "True", "false": "False", "NaN": "nan", "Infinity": "inf"}
        text = "array(%s%s)" % (re.sub("|".join(words), lambda m: words[m[0]], json.dumps(c.tolist())),
                                "" if c.dtype in (np.float32, np.int32, bool) else ", dtype='%s'" % c.dtype.name)
        if len(text) > LONGEST:
            raise NotCovered("a constant array of %d elements in the traced call" % c.size)
        return self.hold(text, 2)

    def hold(self, text, times):
        """The text, or the name of a node that holds it."""
        if self.nodes is None or len(text) < 24 and times < 2 or times < 2 and len(text) < 160 or re.fullmatch(r"[\w.]+", text):
            return text
        self.count += 1
        name = "t%d" % self.count
        self.nodes.append({"type": "expr", "name": name, "expr": text})
        return name

    def equation(self, eqn, value, known, times, fixed, on_layer):
        """One equation: the expressions of its results become known."""
        a = [self.read(known, v, fixed) for v in eqn.invars]
        if eqn.primitive is layer:
            known.update(zip(eqn.outvars, on_layer(eqn, a)))
            return
        if eqn.primitive.name == "split":
            at = list(np.cumsum(eqn.params["sizes"])[:-1])
            source = self.hold(a[0], len(eqn.outvars))
            for i, v in enumerate(eqn.outvars):
                known[v] = "split(%s, %s, axis=%d)[%d]" % (source, [int(x) for x in at], eqn.params["axis"], i)
            return
        if eqn.primitive.name in INLINED:
            inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr", eqn.params.get("fun_jaxpr")))
            called = eqn.params.get("name") or getattr(getattr(inner, "jaxpr", inner), "debug_info", None)
            called = called if isinstance(called, str) else getattr(called, "func_name", "")
            if called in NAMED and len(a) == 1:
                known[eqn.outvars[0]] = self.hold("%s(%s)" % (called, a[0]), times.get(eqn.outvars[0], 0))
                return
            closed = inner if hasattr(inner, "consts") else None
            a = [self.hold(x, 2) for x in a]
            results = self.walk(closed.jaxpr if closed else inner, closed.consts if closed else [], a, on_layer, value)
            for v, r in zip(eqn.outvars, results):
                known[v] = self.hold(r, times.get(v, 0))
            return
        if eqn.primitive.name == "top_k":
            for i, v in enumerate(eqn.outvars):
                known[v] = "top_k(%s, %d)[%d]" % (a[0], eqn.params["k"], i)
            return
        if len(eqn.outvars) != 1:
            raise NotCovered("the operation \"%s\" of the traced call" % eqn.primitive.name)
        v = eqn.outvars[0]
        known[v] = self.hold(self.spell(eqn, a), times.get(v, 0))

    def walk(self, jaxpr, constants, values, on_layer=None, given=None):
        """The expressions of the results of a jaxpr; given: the values of its arguments, where they are fixed."""
        known, times, fixed = {}, {}, {}  # fixed: values that no input and no parameter has a part in
        for eqn in jaxpr.eqns:
            for v in eqn.invars:
                if not isinstance(v, jex.Literal):
                    times[v] = times.get(v, 0) + 1
        for v in jaxpr.outvars:
            if not isinstance(v, jex.Literal):
                times[v] = times.get(v, 0) + 1
        for v, c in zip(jaxpr.constvars, constants):
            known[v], fixed[v] = None, c  # spelt where it is used
        for v, text, c in zip(jaxpr.invars, values, given or [None] * len(values)):
            known[v] = text
            if c is not None:
                fixed[v] = c
        for eqn in jaxpr.eqns:
            if eqn.primitive.name != "stepc_layer" and not any(times.get(v) for v in eqn.outvars):
                continue
            value = [v.val if isinstance(v, jex.Literal) else fixed.get(v) for v in eqn.invars]
            constant = eqn.primitive is not layer and not eqn.effects and all(c is not None for c in value)
            if constant:
                bound = eqn.primitive.get_bind_params(eqn.params)
                first, more = bound if isinstance(bound, tuple) else ((), bound)  # JAX 0.10: functions are among the keywords
                results = eqn.primitive.bind(*first, *value, **more)
                fixed.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results]))
                known.update((v, None) for v in eqn.outvars)
                if all(v.aval.shape == () for v in eqn.outvars):
                    continue
            before = self.count, len(self.nodes or []), [v for v in fixed if known[v] is None]
            try:
                self.equation(eqn, value, known, times, fixed, on_layer)
            except NotCovered:
                if not constant:
                    raise
                self.count = before[0]  # by its value, then
                del (self.nodes or [])[before[1]:]
                known.update((v, None) for v in before[2])
        return [self.read(known, v, fixed) for v in jaxpr.outvars]
