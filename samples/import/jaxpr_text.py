"""Traces of JAX (jaxprs) as expressions of a document: an operation at a time, by the tables below. What has no spelling raises
NotCovered."""
import json
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex


class NotCovered(Exception):
    """What has no spelling in a document, or none that can be seen from Python."""


def results_of(shape):
    """Names of the results of a call in the order of their leaves: keys of a dictionary, fields of a named tuple, output_0 and so on of
    another one. None of them: it is one array."""
    arrays = lambda values: all(hasattr(v, "shape") for v in values)
    if isinstance(shape, dict) and arrays(shape.values()) and all(str(k).isidentifier() for k in shape):
        return sorted(shape)
    leaves = jax.tree_util.tree_leaves(shape)
    if len(leaves) == 1:
        return []
    if not isinstance(shape, (tuple, list)) or not leaves or not arrays(shape):
        raise NotCovered("a call with several results that is no dictionary or tuple of arrays")
    return list(getattr(shape, "_fields", ["output_%d" % i for i in range(len(shape))]))


def plain(value):
    """Tuples and NumPy's numbers as JSON has them."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if hasattr(value, "items"):  # flax's own kinds of mappings too
        return {str(k): plain(v) for k, v in dict(value).items()}
    return value.item() if isinstance(value, np.generic) else value


UNARY = {"exp": "exp", "exp2": "exp2", "log": "log", "log1p": "log1p", "expm1": "expm1", "tanh": "tanh", "logistic": "sigmoid", "sqrt": "sqrt",
         "rsqrt": "rsqrt", "cbrt": "cbrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
         "sinh": "sinh", "cosh": "cosh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "abs": "abs", "sign": "sign",
         "floor": "floor", "ceil": "ceil", "erf": "erf", "erfc": "erfc", "erf_inv": "erfinv", "lgamma": "gammaln", "digamma": "digamma",
         "bessel_i0e": "i0e", "bessel_i1e": "i1e", "square": "square", "is_finite": "isfinite", "conj": "conj", "population_count": "population_count",
         "neg": "negative", "not": "invert", "stop_gradient": "stop_gradient"}
BINARY = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=", "and": "&", "or": "|", "xor": "^", "shift_left": "<<", "shift_right_arithmetic": ">>"}
CALLED = {"max": "maximum", "min": "minimum", "atan2": "arctan2", "rem": "rem", "complex": "complex", "nextafter": "nextafter", "igamma": "igamma",
          "igammac": "igammac", "zeta": "zeta", "polygamma": "polygamma", "regularized_incomplete_beta": "betainc"}
REDUCED = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_and": "all", "reduce_or": "any"}
SCATTERS = {"scatter": "set", "scatter-add": "add", "scatter-mul": "multiply", "scatter-min": "min", "scatter-max": "max"}  # of x.at[..]
POOLS = {"reduce_window_max": "max_pool", "reduce_window_min": "min_pool", "reduce_window_sum": "avg_pool"}
COMPLEX = {"add", "add_any", "sub", "mul", "div", "neg", "abs", "sign", "conj", "exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "pow", "integer_pow", "square", "sin", "cos", "tan", "sinh", "cosh",
           "tanh", "logistic", "eq", "ne", "is_finite", "real", "imag", "complex", "fft", "dot_general", "reduce_sum", "cumsum", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose", "slice",
           "dynamic_slice", "dynamic_update_slice", "rev", "pad", "gather", "split", "unstack", "stack", "concatenate", "tile", "select_n", "scatter", "scatter-add", "scatter_add", "scan", "while", "cond", "convert_element_type", "copy",
           "stop_gradient"}  # that know complex numbers
NAMED = {"relu": jax.nn.relu, "relu6": jax.nn.relu6, "silu": jax.nn.silu, "logaddexp": jnp.logaddexp, "xlogy": jax.scipy.special.xlogy, "xlog1py": jax.scipy.special.xlog1py,
         "sinc": jnp.sinc}  # functions of JAX with gradients of their own: by name, never by what they are made of
LENT = {"wrapped_fun", "_custom_root"}  # what stands in JAX for a function whose derivative its user gives: custom_gradient, custom_root
INLINED = {"pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint", "remat2"}


# Functions of JAX that are one call in a trace, by their names there (an expression has none that begins with _), and arguments that a
# trace does not show. Which they were is seen by making the call anew: it has to be the same, equation by equation.
WHOLE = {"inv": (jnp.linalg.inv, {}), "det": (jnp.linalg.det, {}), "slogdet": (jnp.linalg.slogdet, {}), "solve": (jnp.linalg.solve, {}),
         "cholesky": (jnp.linalg.cholesky, {}, {"upper": True}, {"symmetrize_input": False}, {"upper": True, "symmetrize_input": False}), "eigh": (jnp.linalg.eigh, {}),
         "svd": (jnp.linalg.svd, {"full_matrices": False}, {}, {"compute_uv": False}), "searchsorted": (jnp.searchsorted, {}, {"side": "right"}),
         "_interp": (jnp.interp, {}), "convolve": (jnp.convolve, {}, {"mode": "same"}, {"mode": "valid"}),
         "correlate": (jnp.correlate, {}, {"mode": "same"}, {"mode": "full"}), "floor_divide": (jnp.floor_divide, {})}
DTYPES = {"bool", "bfloat16", "float16", "float32", *(kind + bits for kind in ("int", "uint") for bits in ("8", "16", "32"))}
LONGEST = 40000  # characters of a constant
UNROLLED = 100  # rounds of a loop that are written one after the other
EQUATIONS = 10000  # of all rounds of a longer one, whose number is known: some ten seconds of the compiler
SHORT = {"and": False, "or": True}  # what one operand of bools says alone
CLAMPS = ("CLIP", "PROMISE_IN_BOUNDS")  # what XLA does with indices that are promised to be inside


def _number(x):
    if _above(x):
        return "astype(%s, 'uint32')" % _number(np.asarray(x).view(np.int32))
    x = np.asarray(x).item()
    if isinstance(x, complex):
        return "complex(%s, %s)" % (_number(x.real), _number(x.imag))
    if isinstance(x, float) and not np.isfinite(x):
        return "nan" if x != x else "inf" if x > 0 else "(-inf)"
    return repr(x) if isinstance(x, bool) or x >= 0 else "(%r)" % x


def _above(x):
    """Whether there are numbers of 32 bits without a sign that a literal, which is an int32, cannot be."""
    return np.asarray(x).dtype == np.uint32 and bool(np.any(np.asarray(x) > np.iinfo(np.int32).max))


def is_complex(array):
    return hasattr(array, "dtype") and jnp.issubdtype(array.dtype, jnp.complexfloating)


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


def _counted(index, extent, never_negative, clamped):
    """An index as expressions count it, where those below 0 are outside, as in a gather or a scatter."""
    known = re.fullmatch(r"(?:reshape\()?where\(\((.+) < 0\), \(\1 \+ %d\), \1\)(?:, \([\d, ]*\)\))?" % extent, index)
    if known and not clamped:
        return known[1]  # counted from the end as there
    return index if never_negative else "maximum(%s, 0)" % index if clamped else "where((%s < 0), %d, %s)" % (index, extent, index)


def _padded(x, value, shape, config, out):
    """Between elements, then around all, then without what a negative width takes off."""
    config = plain(config)
    for axis, (_, _, between) in enumerate(config):
        if between and shape[axis] > 1:
            lines = [*shape[:axis + 1], 1, *shape[axis + 1:]]
            spread = "pad(reshape(%s, %s), (%s,), constant_values=%s)" % (x, _tuple(lines), ", ".join("(0, %d)" % (between * (i == axis + 1)) for i in range(len(lines))), value)
            shape = [n if i != axis else n * (between + 1) for i, n in enumerate(shape)]
            x = "reshape(%s, %s)" % (spread, _tuple(shape))
            shape[axis] -= between
            x = "%s[%s]" % (x, ", ".join(":%d" % n if i == axis else ":" for i, n in enumerate(shape)))
    around = [(max(low, 0), max(high, 0)) for low, high, _ in config]
    if any(map(any, around)):
        x = "pad(%s, (%s,), constant_values=%s)" % (x, ", ".join(map(str, around)), value)
    if all(low >= 0 and high >= 0 for low, high, _ in config):
        return x
    return "%s[%s]" % (x, ", ".join("%d:%d" % (max(-low, 0), max(-low, 0) + n) for (low, _, _), n in zip(config, out)))


def _solved(a, p):
    """The solution by a triangular matrix: from the right, x a = b, it is that of a' x' = b'."""
    turned = lambda x: x if p["left_side"] else "swapaxes(%s, -1, -2)" % x
    return turned("solve_triangular(%s, %s, trans=%d, lower=%s, unit_diagonal=%s)" % (
        a[0], turned(a[1]), bool(p["transpose_a"]) == bool(p["left_side"]), bool(p["lower"]), bool(p["unit_diagonal"])))


def _along_axis(equation):
    """The axis, if a gather is what jnp.take_along_axis does: one element of it for each of the others."""
    d, operand, indices = equation.params["dimension_numbers"], equation.invars[0].aval.shape, equation.invars[1].aval.shape
    others = tuple(i for i in range(len(operand)) if i not in d.collapsed_slice_dims)
    found = len(d.collapsed_slice_dims) == 1 and d.start_index_map == d.collapsed_slice_dims and not d.offset_dims and indices[-1] == 1 \
        and d.operand_batching_dims == d.start_indices_batching_dims == others and len(indices) == len(operand) + 1
    return d.collapsed_slice_dims[0] if found else None


def _indexed(dims, collapsed, window, dimensions, indices, operand, batching):
    """Whether a gather or a scatter indexes as x[i, :, j] does: axes in their order, whole runs of the others, what the indices count
    where these axes were, or in front if they are apart. dims, collapsed, window, dimensions: the axes that are indexed, those without
    a dimension in the slices, the dimensions of the slices, how many these and the indices' are. batching: axes of the operand and of
    the indices that go together, which are indexed by their numbers."""
    both, other = map(tuple, batching)
    if both != other or both != tuple(range(len(both))) or indices[-1] != len(dims):
        return False
    dims, collapsed = both + tuple(dims), both + tuple(collapsed)
    if not dims or dims != tuple(sorted(dims)) or dims != collapsed:
        return False
    first = dims[0] if dims == tuple(range(dims[0], dims[0] + len(dims))) else 0
    rest = tuple(i for i in range(dimensions) if not first <= i < first + len(indices) - 1)
    return tuple(window) == rest and dimensions == len(operand) - len(dims) + len(indices) - 1


def _places(dims, at, both, indices):
    """[i, :, j]: by the texts of indices of the axes `dims`; axes that go together by their numbers."""
    line = lambda i: _tuple([indices[i] if k == i else 1 for k in range(len(indices) - 1)])
    texts = {**dict(zip(dims, at)), **{i: "reshape(arange(%d), %s)" % (indices[i], line(i)) for i in both}}
    return "[%s]" % ", ".join(texts.get(i, ":") for i in range(max(texts) + 1))


def _inner(params):
    """The jaxpr that an equation calls, and its constants."""
    inner = next(params[k] for k in ("jaxpr", "call_jaxpr", "fun_jaxpr") if k in params)
    return (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, [])


def _is_made_by(function, eqn, inner, constants):
    """Whether a call computes what the function does, of as many arguments."""
    try:
        made = jax.make_jaxpr(function)(*(v.aval for v in eqn.invars)).jaxpr.eqns
    except TypeError:
        return False  # it takes others
    return len(made) == 1 and made[0].primitive.name in INLINED and same(inner, constants, *_inner(made[0].params))


def _equations(jaxpr):
    """How many there are, those of the calls and loops among them instead of these."""
    inside = [[_inner({"jaxpr": x})[0] for x in jax.tree_util.tree_leaves(list(e.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr") or hasattr(x, "eqns"))
               if hasattr(x, "jaxpr") or hasattr(x, "eqns")] for e in jaxpr.eqns]
    return sum(e.params.get("length", 1) * sum(map(_equations, of)) if of else 1 for e, of in zip(jaxpr.eqns, inside))


def _handed(jaxpr):
    """For each result the number of the argument that it is, also through calls that hand it on; None: it is none of them."""
    made, arguments = {v: (e, i) for e in jaxpr.eqns for i, v in enumerate(e.outvars)}, {v: i for i, v in enumerate(jaxpr.invars)}

    def of(v):
        if isinstance(v, jex.Literal) or v in arguments:
            return None if isinstance(v, jex.Literal) else arguments[v]
        e, i = made.get(v, (None, 0))
        k = _handed(_inner(e.params)[0])[i] if e is not None and e.primitive.name in INLINED else None
        return None if k is None else of(e.invars[k])
    return [of(v) for v in jaxpr.outvars]


def _source(jaxpr):
    return getattr(getattr(jaxpr, "debug_info", None), "func_src_info", "")


def _same_parameter(a, b):
    if hasattr(a, "jaxpr") and hasattr(b, "jaxpr"):
        return same(a.jaxpr, a.consts, b.jaxpr, b.consts)
    if hasattr(a, "eqns") and hasattr(b, "eqns"):
        return same(a, (), b, ())
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_same_parameter, a, b))
    if callable(a) and callable(b) or "rapped" in type(a).__name__:
        return True  # rules of derivatives: those of one place of the source, see same()
    try:
        return bool(np.all((a == b) | ((a != a) & (b != b))))  # NaN fills what is outside
    except (TypeError, ValueError):
        return False


def same(a, consts_a, b, consts_b):
    """Whether two jaxprs compute the same results by the same equations, whatever else they compute."""
    made = [{v: (e, i) for e in jaxpr.eqns for i, v in enumerate(e.outvars)} for jaxpr in (a, b)]
    arguments = [{v: i for i, v in enumerate(jaxpr.invars)} for jaxpr in (a, b)]
    constants = [dict(zip(jaxpr.constvars, consts)) for jaxpr, consts in ((a, consts_a), (b, consts_b))]
    known = {}

    def alike(x, y):
        if x.aval.shape != y.aval.shape or x.aval.dtype != y.aval.dtype:
            return False
        if isinstance(x, jex.Literal) or isinstance(y, jex.Literal):
            return isinstance(x, jex.Literal) and isinstance(y, jex.Literal) and np.array_equal(x.val, y.val, equal_nan=True)
        if x in arguments[0] or y in arguments[1]:
            return arguments[0].get(x) == arguments[1].get(y)
        if x in constants[0] or y in constants[1]:
            p, q = constants[0].get(x), constants[1].get(y)
            return p is q or p is not None and q is not None and not isinstance(p, jax.core.Tracer) and not isinstance(q, jax.core.Tracer) \
                and np.array_equal(p, q)
        if (x, y) not in known:
            (e, i), (f, k) = made[0][x], made[1][y]
            known[x, y] = i == k and e.primitive is f.primitive and len(e.invars) == len(f.invars) and e.params.keys() == f.params.keys() \
                and all(_same_parameter(e.params[p], f.params[p]) for p in e.params if p != "name") and _derived_alike(e, f) \
                and all(map(alike, e.invars, f.invars))
        return known[x, y]

    return len(a.outvars) == len(b.outvars) and all(map(alike, a.outvars, b.outvars))


def _derived_alike(e, f):
    if not e.primitive.name.startswith("custom_"):
        return True
    of = lambda eqn: _source(next((getattr(p, "jaxpr", p) for p in eqn.params.values() if hasattr(p, "jaxpr") or hasattr(p, "eqns")), None))
    return of(e) == of(f)


class Text:
    """Equations of a trace as expressions. A value that is used more than once becomes a node, where nodes can stand.

    A text that begins with @ stands for what no expression can name: state and random streams of a module, by their paths. It may be
    handed to a layer that has it, and is refused (why: path -> reason) where an operation needs it, unless its value never changes."""

    def __init__(self, nodes=None, on_call=None, why=None, taken=()):
        self.nodes, self.count, self.taken = nodes, 0, {*taken}  # nodes None: one text; taken: names of other things
        self.on_call, self.why, self.constants = on_call, why or {}, {}  # on_call(equation, texts, values): texts of the results, or why there are none
        self.branch = ""  # the condition of the branch that is written; "" outside of branches

    def spell(self, equation, a, never_negative=False):
        """The expression of one equation; a: expressions of its operands, safe as operands; never_negative: of indices."""
        name, p = equation.primitive.name, equation.params
        shape = lambda i: equation.invars[i].aval.shape
        out = equation.outvars[0].aval
        if name in UNARY:
            return "%s(%s)" % (UNARY[name], a[0])
        if name == "div" and out.dtype.kind == "u":
            return "(%s // %s)" % (a[0], a[1])
        if name == "div" and out.dtype.kind == "i":  # without the rest, towards zero
            return "where((%s == 0), -1, (%s - fmod(%s, %s)) // %s)" % (a[1], a[0], a[0], a[1], a[1])
        if name in BINARY:
            return "(%s %s %s)" % (a[0], BINARY[name], a[1])
        if name in CALLED:
            return "%s(%s)" % (CALLED[name], ", ".join(a))
        if name in REDUCED and not (name in ("reduce_and", "reduce_or") and out.dtype != bool):  # of integers: bit by bit
            text = "%s(%s, axis=%s)" % (REDUCED[name], a[0], _tuple(p["axes"]))
            return "astype(%s, '%s')" % (text, out.dtype.name) if out.dtype.kind in "iu" and out.dtype.itemsize < 4 else text  # sum widens them
        if name in ("argmax", "argmin"):
            return "%s(%s, axis=%d)" % (name, a[0], p["axes"][0])
        if name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
            return "%s(%s, axis=%d, reverse=%s)" % (name, a[0], p["axis"], bool(p["reverse"]))
        if name == "integer_pow":
            return "(%s ** %s)" % (a[0], _number(p["y"]))
        if name == "convert_element_type":
            if not is_complex(out) and np.dtype(p["new_dtype"]).name not in DTYPES:
                raise NotCovered("the dtype %s in the traced call" % np.dtype(p["new_dtype"]).name)
            kept = equation.invars[0].aval.dtype == p["new_dtype"] or np.dtype(p["new_dtype"]).kind == "c"  # beside a complex number
            return a[0] if kept else "astype(%s, '%s')" % (a[0], np.dtype(p["new_dtype"]).name)
        if name in ("reshape", "squeeze", "expand_dims"):
            turned = p["dimensions"] if name == "reshape" else None  # lax.reshape: in another order first
            return "reshape(%s, %s)" % (a[0] if turned is None else "transpose(%s, %s)" % (a[0], _tuple(turned)), _tuple(out.shape))
        if name == "broadcast_in_dim":
            kept = [1] * len(out.shape)
            for i, d in enumerate(p["broadcast_dimensions"]):
                kept[d] = shape(0)[i]
            inner = a[0] if tuple(kept) == shape(0) else "reshape(%s, %s)" % (a[0], _tuple(kept))
            return inner if tuple(kept) == out.shape else "broadcast_to(%s, %s)" % (inner, _tuple(out.shape))
        if name == "transpose":
            return "transpose(%s, %s)" % (a[0], _tuple(p["permutation"]))
        if name == "dot_general":
            precision = p.get("precision")
            if any(v is not None and not isinstance(v, jax.lax.Precision) for v in (precision if isinstance(precision, tuple) else (precision,))):
                raise NotCovered("a product by the algorithm %s" % (precision,))
            usual = jnp.promote_types(equation.invars[0].aval.dtype, equation.invars[1].aval.dtype)
            return "einsum('%s', %s, %s%s)" % (_einsum(p, [len(shape(0)), len(shape(1))]), a[0], a[1],
                                               "" if usual == out.dtype else ", preferred_element_type='%s'" % out.dtype.name)
        if name == "conv_general_dilated" and p["batch_group_count"] == 1 and p.get("preferred_element_type") in (None, out.dtype):
            d, letters, specs = p["dimension_numbers"], "0123456789"[:len(out.shape) - 2], []
            for spec, (first, second) in ((d.lhs_spec, "NC"), (d.rhs_spec, "OI"), (d.out_spec, "NC")):
                specs.append("".join(c for _, c in sorted(zip(spec, first + second + letters))))
            more = "".join(", %s=%s" % (k, _tuple(p[k])) for k in ("lhs_dilation", "rhs_dilation") if {*p[k]} - {1})
            return "conv_general_dilated(%s, %s, %s, [%s], dimension_numbers=('%s', '%s', '%s')%s%s)" % (
                a[0], a[1], _tuple(p["window_strides"]), ", ".join(map(_tuple, p["padding"])), *specs, more,
                ", feature_group_count=%d" % p["feature_group_count"] if p["feature_group_count"] != 1 else "")
        if name == "stack":
            return "stack([%s], axis=%d)" % (", ".join(a), p["axis"])
        if name == "concatenate":
            return "concatenate([%s], axis=%d)" % (", ".join(a), p["dimension"])
        if name == "tile":
            return "tile(%s, %s)" % (a[0], _tuple(p["reps"]))
        if name == "slice":
            strides = p["strides"] or [1] * len(out.shape)
            return "%s[%s]" % (a[0], ", ".join("%d:%d%s" % (b, e, ":%d" % s if s != 1 else "") for b, e, s in
                                               zip(p["start_indices"], p["limit_indices"], strides)))
        if name == "rev":
            return "flip(%s, axis=%s)" % (a[0], _tuple(p["dimensions"]))
        if name == "select_n" and equation.invars[0].aval.dtype == bool:
            return "where(%s, %s, %s)" % (a[0], a[2], a[1])
        if name == "select_n":
            return "".join("where((%s == %d), %s, " % (a[0], i, case) for i, case in enumerate(a[1:-1])) + a[-1] + ")" * (len(a) - 2)
        if name == "clamp":
            return "clip(%s, %s, %s)" % (a[1], a[0], a[2])
        if name == "iota":
            line = [1] * len(out.shape)
            line[p["dimension"]] = out.shape[p["dimension"]]
            return "broadcast_to(reshape(arange(%d, dtype='%s'), %s), %s)" % (line[p["dimension"]], out.dtype.name, _tuple(line), _tuple(out.shape))
        if name.replace("_", "-") in SCATTERS:
            return self.scattered(equation, a, never_negative)
        if name == "gather":
            clamped, fill = p["mode"].name in CLAMPS, p["fill_value"]
            filled = "" if fill is None else ", mode='fill', fill_value=%s" % _number(fill)
            for function, axis in (("take", _taken_axis(equation)), ("take_along_axis", _along_axis(equation))):
                if axis is not None:
                    index = _counted(a[1], shape(0)[axis], never_negative, clamped)
                    return "%s(%s, reshape(%s, %s), axis=%d%s)" % (function, a[0], index, _tuple(shape(1)[:-1]), axis, ", mode='clip'" if clamped else filled)
            d = p["dimension_numbers"]
            both, dims, sizes = d.operand_batching_dims, d.start_index_map, p["slice_sizes"]
            kept = [i for i in range(len(shape(0))) if i not in d.collapsed_slice_dims and i not in both]
            ones = {o: i for i, o in zip(kept, d.offset_dims) if i in dims and sizes[i] == 1}  # dimensions of one element
            window = [o - sum(g < o for g in ones) for o in d.offset_dims if o not in ones]
            found = _indexed(dims, sorted([*d.collapsed_slice_dims, *ones.values()]), window, len(out.shape) - len(ones), shape(1), shape(0),
                             (both, d.start_indices_batching_dims))
            if found and all(n == (1 if i in (*dims, *both) else shape(0)[i]) for i, n in enumerate(sizes)):
                at = ["clip(%s[..., %d], 0, %d)" % (a[1], i, shape(0)[axis] - 1) if clamped else _counted("%s[..., %d]" % (a[1], i), shape(0)[axis], never_negative, False) for i, axis in enumerate(dims)]
                places = _places(dims, at, both, shape(1))
                text = "(%s)%s" % (a[0], places) if clamped else "(%s).at%s.get(%s)" % (a[0], places, filled[2:] or "mode='fill'")
                return "reshape(%s, %s)" % (text, _tuple(out.shape)) if ones else text
        if name == "dynamic_slice" and all(re.fullmatch(r"\(?-?\d+\)?", b) for b in a[1:]):
            begin = [min(max(int(b.strip("()")), 0), n - k) for b, n, k in zip(a[1:], shape(0), p["slice_sizes"])]
            return "%s[%s]" % (a[0], ", ".join("%d:%d" % (b, b + k) for b, k in zip(begin, p["slice_sizes"])))
        if name in POOLS and self.nodes is not None:
            return self.pool(name, p, a[0])
        if name == "pad":
            return _padded(a[0], a[1], shape(0), p["padding_config"], out.shape)
        if name == "fft":
            kind, lengths = p["fft_type"].name, p["fft_lengths"]
            return "%sn(%s, s=%s, axes=%s)" % (kind.lower(), a[0], _tuple(lengths), _tuple(range(-len(lengths), 0)))
        if name in ("real", "imag"):
            return "(%s).%s" % (a[0], name)
        if name == "dynamic_slice":
            return "dynamic_slice(%s, (%s,), %s)" % (a[0], ", ".join(a[1:]), _tuple(p["slice_sizes"]))
        if name == "dynamic_update_slice":
            return "dynamic_update_slice(%s, %s, (%s,))" % (a[0], a[1], ", ".join(a[2:]))
        if name == "round" and int(p["rounding_method"]) == 1:
            return "round(%s)" % a[0]
        if name in ("copy", "copy_p", "optimization_barrier", "sharding_constraint", "name"):
            return a[0]
        if name == "cholesky":  # of the lower triangle; its derivative takes the whole matrix, as this argument has it
            return "cholesky(%s, symmetrize_input=False)" % a[0]
        if name == "shift_right_logical":
            wide = "astype(%s, 'uint%d')" % (a[0], 8 * out.dtype.itemsize)
            return "(%s >> %s)" % (a[0], a[1]) if out.dtype.kind == "u" else "astype((%s >> astype(%s, 'uint%d')), '%s')" % (wide, a[1], 8 * out.dtype.itemsize, out.dtype.name)
        if name == "triangular_solve":
            return _solved(a, p)
        raise NotCovered("the operation \"%s\" of the traced call" % name)

    def scattered(self, equation, a, never_negative):
        """x.at[i, j, ...].add(y) and the like, whose indices count from the end in JAX before they come here."""
        d, mode, name = equation.params["dimension_numbers"], equation.params["mode"].name, equation.primitive.name
        operand, indices, updates = (v.aval.shape for v in equation.invars)
        dims, both = d.scatter_dims_to_operand_dims, d.operand_batching_dims
        found = _indexed(dims, d.inserted_window_dims, d.update_window_dims, len(updates), indices, operand, (both, d.scatter_indices_batching_dims))
        kept = [n for i, n in enumerate(operand) if i not in (*dims, *both)]
        if not found or [updates[i] for i in d.update_window_dims] != kept:
            raise NotCovered("the operation \"%s\" of the traced call at these places" % name)
        each = [a[1] if len(dims) == 1 else "%s[..., %d]" % (a[1], i) for i in range(len(dims))]
        counted = lambda i, n: "clip(%s, 0, %d)" % (i, n - 1) if mode == "CLIP" else _counted(i, n, never_negative, False)
        at = ["reshape(%s, %s)" % (counted(i, operand[axis]), _tuple(indices[:-1])) for i, axis in zip(each, dims)]
        return "(%s).at%s.%s(%s)" % (a[0], _places(dims, at, both, indices), SCATTERS[name.replace("_", "-")], a[2])

    def put(self, equation, a, begin):
        """x.at[1:3, 2].add(y): a scatter of one window whose place is known; None: it is another one, or lies outside."""
        d, operand, updates = equation.params["dimension_numbers"], equation.invars[0].aval.shape, equation.invars[2].aval.shape
        if np.ndim(begin) != 1 or d.update_window_dims != tuple(range(len(updates))) or d.operand_batching_dims:
            return None
        sizes, begins = iter(updates), dict(zip(d.scatter_dims_to_operand_dims, map(int, begin)))
        at = [(begins.get(i, 0), None if i in d.inserted_window_dims else next(sizes)) for i in range(len(operand))]
        if any(b < 0 or b + (1 if k is None else k) > n for (b, k), n in zip(at, operand)):
            return None
        places = ", ".join("%d" % b if k is None else "%d:%d" % (b, b + k) for b, k in at)
        return "(%s).at[%s].%s(%s)" % (a[0], places, SCATTERS[equation.primitive.name.replace("_", "-")], a[2])

    def pool(self, name, p, x):
        """A window of 1 over the first and the last dimension, as pooling layers have it."""
        window, strides, padding = p["window_dimensions"], p["window_strides"], p["padding"]
        if {window[0], window[-1], strides[0], strides[-1]} != {1} or {*padding[0], *padding[-1], 0} != {0} or {*p["base_dilation"], *p["window_dilation"]} != {1}:
            raise NotCovered("the operation \"%s\" of the traced call over these windows" % name)
        made = self.free()
        self.nodes.append({"type": POOLS[name], "name": made, "window_shape": plain(window[1:-1]), "strides": plain(strides[1:-1]),
                           "padding": plain(padding[1:-1]), "input": x})
        return "(%s * %d)" % (made, np.prod(window)) if name == "reduce_window_sum" else made

    def free(self, name=None):
        """A name that nothing has: this one if it is free, else one with a number."""
        while name is None or name in self.taken:
            self.count += 1
            name = "t%d" % self.count
        self.taken.add(name)
        return name

    def read(self, text, value):
        """A text for an operand; value: what it is, where that is fixed."""
        if text is not None and not text.startswith("@"):
            return self.apart(text) if text.startswith("params.") else text
        if value is not None:
            if id(value) not in self.constants:
                self.constants[id(value)] = value, self.constant(value)
            return self.constants[id(value)][1]
        path = re.match(r"@+([^@\[]*)", text)[1]
        raise NotCovered("%s: %s" % (path, self.why.get(path, "state that the call changes")))

    def apart(self, text, dtype=np.float32):
        """What a branch is given, gives to a layer or takes from it: where it does not count, zeros, and no gradient goes back through it,
        whatever is not finite inside."""
        return self.hold("where(%s, %s, 0)" % (self.branch, text), 2) if self.branch and jnp.issubdtype(dtype, jnp.inexact) else text

    def constant(self, c):
        if jax.dtypes.issubdtype(c.dtype, jax.dtypes.prng_key):
            return "random_key"  # handed through by transformations; what draws from it is not covered by its own name
        c = np.asarray(c)
        if c.ndim == 0:
            return _number(c)
        if is_complex(c):
            return self.hold("complex(%s, %s)" % (self.constant(c.real), self.constant(c.imag)), 2)
        if c.size and np.all(c == c.flat[0]):
            return "full(%s, %s, dtype='%s')" % (_tuple(c.shape), _number(c.flat[0]), c.dtype.name)
        if _above(c):
            return self.hold("astype(%s, 'uint32')" % self.constant(c.view(np.int32)), 2)
        words = {"true": "True", "false": "False", "NaN": "nan", "Infinity": "inf"}
        text = "array(%s%s)" % (re.sub("|".join(words), lambda m: words[m[0]], json.dumps(c.tolist())),
                                "" if c.dtype in (np.float32, np.int32, bool) else ", dtype='%s'" % c.dtype.name)
        if len(text) > LONGEST:
            raise NotCovered("a constant array of %d elements in the traced call" % c.size)
        return self.hold(text, 2)

    def hold(self, text, times):
        """The text, or the name of a node that holds it."""
        if self.nodes is None and len(text) > LONGEST:  # what is used twice is written twice
            raise NotCovered("an expression of more than %d characters; give a loss as an object of the document, or let the call return what it is of" % LONGEST)
        if self.nodes is None or len(text) < 24 and times < 2 or times < 2 and len(text) < 160 or re.fullmatch(r"[\w.]+", text):
            return text
        name = self.free()
        self.nodes.append({"type": "expr", "name": name, "expr": text})
        return name

    def equation(self, eqn, a, value, times):
        """The results of one equation, as pairs of a text and, where nothing else has a part in it, a value. a, value: its operands."""
        name, p, wanted = eqn.primitive.name, eqn.params, [times.get(v, 0) for v in eqn.outvars]
        if name in INLINED:
            inner, constants = _inner(p)
            source = getattr(inner.debug_info, "func_src_info", None) or ""
            called = source.split(" ")[0]
            own = os.path.dirname(jax.__file__) not in source or called in LENT
            usual = not own and not any(is_complex(v.aval) for v in (*eqn.invars, *eqn.outvars))
            if called in NAMED and usual and _is_made_by(NAMED[called], eqn, inner, constants):  # and not its derivative, which has its name
                return [(self.hold("%s(%s)" % (called, ", ".join(map(self.read, a, value))), wanted[0]), None)]
            whole = self.whole(eqn, inner, constants, source, a, value) if usual else None
            if whole:
                return [(self.hold(text, n), None) for text, n in zip(whole, wanted)]
            if name.startswith("custom_") and own:
                raise NotCovered("%s: a function with a derivative of its own" % (source or "the traced call"))
            found = self.on_call(eqn, a, value) if self.on_call else None
            if isinstance(found, list):
                return [(text, None) for text in found]
            try:
                known = self.results(inner, constants, [x and self.held(x, 2) for x in a], value, wanted)
            except NotCovered as e:
                raise e if found is None else NotCovered("%s; as arithmetic: %s" % (found, e)) from None
            return [(t and self.held(t, n), v) for (t, v), n in zip(known, wanted)]
        if name not in COMPLEX and any(is_complex(v.aval) for v in (*eqn.invars, *eqn.outvars)):
            raise NotCovered("the operation \"%s\" of the traced call with complex numbers" % name)
        if name == "scan":
            return self.loop(p, a, value, wanted)
        if name == "cond" and value[0] is not None:
            branch = p["branches"][int(value[0])]
            return self.results(branch.jaxpr, branch.consts, a[1:], value[1:], wanted)
        if name == "cond":
            return self.branches(p["branches"], eqn.invars[1:], a, value, wanted)
        if name == "while":
            return self.rounds(p, a, value, wanted)
        a = list(map(self.read, a, value))
        if name == "split":
            at, source = [int(x) for x in np.cumsum(p["sizes"])[:-1]], self.hold(a[0], len(eqn.outvars))
            return [("split(%s, %s, axis=%d)[%d]" % (source, at, p["axis"], i), None) for i in range(len(eqn.outvars))]
        if name == "sort":
            keys, by = p["num_keys"], "argsort(%s, axis=%d)" % (a[0], p["dimension"])
            order = self.hold(by if keys == 1 else "lexsort([%s], axis=%d)" % (", ".join(reversed(a[:keys])), p["dimension"]), len(a)) if len(a) > 1 else ""
            texts = ["sort(%s, axis=%d)" % (a[0], p["dimension"])] + ["take_along_axis(%s, %s, axis=%d)" % (x, order, p["dimension"]) for x in a[1:]]
            return [(self.hold(text, n), None) for text, n in zip(texts, wanted)]
        if name == "unstack":
            return [("unstack(%s, axis=%d)[%d]" % (self.hold(a[0], len(eqn.outvars)), p["axis"], i), None) for i in range(len(eqn.outvars))]
        if name == "qr" and not p["full_matrices"] and not p["pivoting"]:
            held = self.hold("qr(%s)" % a[0], 2)
            return [("%s[%d]" % (held, i), None) for i in range(2)]
        if name == "top_k":
            return [("top_k(%s, %d)[%d]" % (a[0], p["k"], i), None) for i in range(len(eqn.outvars))]
        if len(eqn.outvars) != 1:
            raise NotCovered("the operation \"%s\" of the traced call" % name)
        window = self.put(eqn, a, np.asarray(value[1])) if name.replace("_", "-") in SCATTERS and value[1] is not None else None
        if window:
            return [(self.hold(window, wanted[0]), None)]
        never_negative = (name == "gather" or name.startswith("scatter")) and (eqn.invars[1].aval.dtype.kind == "u" or value[1] is not None and bool(np.all(np.asarray(value[1]) >= 0)))
        return [(self.hold(self.spell(eqn, a, never_negative), wanted[0]), None)]

    def whole(self, eqn, inner, constants, source, a, value):
        """The results as the expression of one of the functions that are named whole; None: it is none of them."""
        name = source.split(" ")[0]
        function, *choices = WHOLE.get(name, (None,))
        for more in choices:
            if _is_made_by(lambda *given: function(*given, **more), eqn, inner, constants):
                text = "%s(%s)" % (name.lstrip("_"), ", ".join([*map(self.read, a, value), *("%s=%r" % pair for pair in more.items())]))
                held = self.hold(text, 2) if len(eqn.outvars) > 1 else text
                return [text] if len(eqn.outvars) == 1 else ["%s[%d]" % (held, i) for i in range(len(eqn.outvars))]
        return None

    def held(self, text, times):
        return text if text.startswith("@") else self.hold(text, times)

    def loop(self, p, a, value, wanted):
        """A scan, one round after the other."""
        n, c, length = p["num_consts"], p["num_carry"], p["length"]
        if length > UNROLLED and length * _equations(p["jaxpr"].jaxpr) > EQUATIONS or not length and any(wanted[c:]):
            raise NotCovered("a loop of %d rounds of %d equations" % (length, _equations(p["jaxpr"].jaxpr)))
        a = [x and self.held(x, 2) for x in a]
        carry, rows = list(zip(a[n:n + c], value[n:n + c])), [None] * length
        for t in range(length)[::-1 if p["reverse"] else 1]:
            row = [(x and "%s[%d]" % (x, t), None if v is None else v[t]) for x, v in zip(a[n + c:], value[n + c:])]
            given = [*zip(a[:n], value[:n]), *carry, *row]
            found = self.results(p["jaxpr"].jaxpr, p["jaxpr"].consts, [x for x, _ in given], [v for _, v in given], [1] * c + wanted[c:])
            carry, rows[t] = [(x and self.held(x, 2), v) for x, v in found[:c]], found[c:]
        handed = [k - n - c if k is not None and k >= n + c else None for k in _handed(p["jaxpr"].jaxpr)[c:]]  # rows as they were given
        stacks = [(None, None) if not wanted[c + i] else (a[n + c + k], value[n + c + k]) if k is not None
                  else ("stack([%s])" % ", ".join(self.read(*row[i]) for row in rows), None) for i, k in enumerate(handed)]
        return carry + [(x and self.held(x, n), v) for (x, v), n in zip(stacks, wanted[c:])]

    def branches(self, branches, given, a, value, wanted):
        """All of them side by side, of which one counts."""
        which, outer, found = self.hold(self.read(a[0], value[0]), len(branches)), self.branch, []
        for i, branch in enumerate(branches):
            taken = "(%s == %d)" % (which, i)
            self.branch = "(%s & %s)" % (outer, taken) if outer else taken
            lasts = lambda x, v: x is None or v is not None or x.startswith(("@", "params."))  # parameters: as they are for layers, else see read()
            inside = [x if lasts(x, v) else self.apart(x, atom.aval.dtype) for x, v, atom in zip(a[1:], value[1:], given)]
            found.append(self.results(branch.jaxpr, branch.consts, inside, value[1:], wanted))
        self.branch = outer
        return [self.selected(which, results, n) for results, n in zip(zip(*found), wanted)]

    def selected(self, which, results, times):
        """One of several pairs of a text and a value, by its number."""
        if not times or all(x == results[0][0] and v is results[0][1] for x, v in results):
            return results[0]
        texts = [self.read(*pair) for pair in results]
        return self.hold("".join("where((%s == %d), %s, " % (which, i, x) for i, x in enumerate(texts[:-1])) + texts[-1] + ")" * (len(texts) - 1), times), None

    def rounds(self, p, a, value, wanted):
        """A while loop that is known to end: its rounds one after the other, and of what it carries what is there when it ends. Where the end
        is not known, rounds are made as long as the condition can hold."""
        n, k = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
        a = [x and self.held(x, 2) for x in a]
        carry, ends = list(zip(a[k:], value[k:])), []
        for _ in range(UNROLLED + 1):
            fixed, given = list(zip(a[:n], value[:n])), list(zip(a[n:k], value[n:k]))
            [(text, on)] = self.results(p["cond_jaxpr"].jaxpr, p["cond_jaxpr"].consts, *zip(*fixed, *carry), [1])
            if on is not None and not on:
                break
            if on is None:
                ends.append((self.hold(self.read(text, on), 2), carry))
            body = p["body_jaxpr"]
            found = self.results(body.jaxpr, body.consts, *zip(*given, *carry), [1] * len(carry))
            carry = [(x and self.held(x, 2), v) for x, v in found]
        else:
            raise NotCovered("a while loop that may have more than %d rounds" % UNROLLED)
        for on, before in reversed(ends):
            carry = [self.selected("astype(%s, 'int32')" % on, pair, n) for pair, n in zip(zip(before, carry), wanted)]
        return carry

    def walk(self, jaxpr, constants, texts):
        """The expressions of the results of a jaxpr."""
        return [self.read(*pair) for pair in self.results(jaxpr, constants, texts)]

    def results(self, jaxpr, constants, texts, values=None, wanted=None):
        """The results of a jaxpr that are wanted, as pairs of a text and a value: what no input and no parameter has a part in is
        computed, and spelt (its text is None) where it is used."""
        known, times, fixed = {}, {}, {}
        use = lambda atoms: times.update((v, times.get(v, 0) + 1) for v in atoms if not isinstance(v, jex.Literal))
        wanted = wanted or [1] * len(jaxpr.outvars)
        use(v for v, n in zip(jaxpr.outvars, wanted) if n)
        for eqn in reversed(jaxpr.eqns):  # what nothing depends on is left out
            if any(v in times for v in eqn.outvars):
                for v in eqn.invars:
                    use([v])
        known.update((v, None) for v in jaxpr.constvars)
        fixed.update(zip(jaxpr.constvars, constants))
        for v, text, value in zip(jaxpr.invars, texts, values or [None] * len(texts)):
            known[v] = text
            if value is not None:
                fixed[v] = value
        text_of = lambda v: _number(v.val) if isinstance(v, jex.Literal) else known[v]
        value_of = lambda v: v.val if isinstance(v, jex.Literal) else fixed.get(v)
        for eqn in jaxpr.eqns:
            if not any(v in times for v in eqn.outvars):
                continue
            value = [value_of(v) for v in eqn.invars]
            constant = not eqn.effects and all(c is not None for c in value)
            alone = SHORT.get(eqn.primitive.name) if eqn.outvars[0].aval.dtype == bool else None
            if alone is not None and not constant and any(v is not None and np.all(np.asarray(v) == alone) for v in value):
                fixed[eqn.outvars[0]], known[eqn.outvars[0]] = np.full(eqn.outvars[0].aval.shape, alone), None
                continue
            if constant:
                bound = eqn.primitive.get_bind_params(eqn.params)
                first, more = bound if isinstance(bound, tuple) else ((), bound)  # JAX 0.10: functions are among the keywords
                results = eqn.primitive.bind(*first, *value, **more)
                fixed.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results]))
                known.update((v, None) for v in eqn.outvars)
                if all(v.aval.shape == () or v.aval.dtype == np.uint32 for v in eqn.outvars):  # uint32: bits of random numbers
                    continue
            before = self.count, len(self.nodes or [])
            try:
                found = self.equation(eqn, list(map(text_of, eqn.invars)), value, times)
            except NotCovered:
                if not constant:
                    raise
                self.count, made = before[0], (self.nodes or [])[before[1]:]  # by its value, then
                self.taken.difference_update(n["name"] for n in made)
                del (self.nodes or [])[before[1]:]
                self.constants.clear()
                continue
            for v, (text, value) in zip(eqn.outvars, found):
                known[v] = text
                if value is not None:
                    fixed[v] = value
        return [(text_of(v), value_of(v)) if n else (None, None) for v, n in zip(jaxpr.outvars, wanted)]
