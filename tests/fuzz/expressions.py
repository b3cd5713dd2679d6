#!/usr/bin/env python3
"""Random expressions against JAX: calls of every function of functions.def, losses.def and the library of formulas, and expressions
composed of them, over random shapes (sizes 0 and 1, broadcasts), dtypes and values (ties, NaN, infinities, large ones).
Values and gradients of many expressions are computed by one document.

    tests/fuzz/expressions.py --stepc build/stepc --cases 300 [--seed 0] [--compile] [--only sort cumsum] [-v]

`--record FILE` writes two cases of every function with what JAX gives, which unit.frontend_test_functions reads: after a new row
give it an entry of MAKE if its arguments are not just tensors, and record again with --only its name (the others stay).

The expressions of written_expressions.txt, with arguments that are seldom drawn, are recorded as the function `written`.
It needs JAX and Optax 0.2.8, and so is none of the tests that always run. Where a change of the data in the last bits changes
the result as much as what differs, the case says nothing.
"""
import ast
import collections
import glob
import json
import os
import re
import sys
import tempfile
import types

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"  # casts to bfloat16 are meant
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, command, comparison, draws, runner

SHAPES = [(), (1,), (0,), (3,), (4,), (5,), (2, 3), (3, 3), (1, 4), (3, 1), (0, 3), (2, 3, 4), (2, 1, 3)]
WEIGHTS = 4096


# ---------------------------------------------------------------- names

def namespace():
    space = {}
    for module in (jax.lax, optax, jax.scipy.linalg, jax.scipy.special, jnp.linalg, jnp, jax.nn, optax.losses, optax.transforms, optax.contrib):
        for name in dir(module):
            if not name.startswith("_"):
                space[name] = getattr(module, name)
    for name in ("make_causal_mask", "make_attention_mask", "combine_masks"):
        space[name] = getattr(nnx, name)
    for name in ("rsqrt", "top_k", "stop_gradient", "cummax", "cummin", "cumlogsumexp", "erf_inv"):
        space[name] = getattr(jax.lax, name)
    for name in ("select", "clip", "max", "min", "sum", "reshape", "transpose", "concatenate", "pad", "squeeze", "full", "sort", "argmax", "argmin", "round", "cross", "trace", "diagonal",
                 "outer", "matmul", "tensordot", "vdot", "sign", "pow", "power", "cumsum", "cumprod", "log", "exp", "split", "where"):
        space[name] = getattr(jnp, name)
    space["norm"], space["partition"] = jnp.linalg.norm, jnp.partition
    space["astype"] = lambda x, d: jnp.asarray(x).astype(d)
    # running sums have the arguments of jax.numpy and `reverse` of jax.lax
    def running(lax_one, numpy_one):
        def f(a, axis=None, dtype=None, reverse=False):
            a = jnp.asarray(a) if dtype is None else jnp.asarray(a).astype(dtype)
            if axis is None:
                a, axis = a.ravel(), 0
            axis += a.ndim if axis < 0 else 0
            if numpy_one and not reverse:
                return numpy_one(a, axis=axis)
            return lax_one(a.astype(jnp.int32) if a.dtype == bool else a, axis=axis, reverse=reverse)
        return f
    for name, numpy_one in (("cumsum", jnp.cumsum), ("cumprod", jnp.cumprod), ("cummax", None), ("cummin", None), ("cumlogsumexp", None)):
        space[name] = running(getattr(jax.lax, name), numpy_one)
    for name in ("segment_sum", "segment_max", "segment_min", "segment_prod"):
        space[name] = getattr(jax.ops, name)
    for name in ("svd", "eigh", "qr", "pinv", "inv", "det", "solve", "cholesky", "cond", "lstsq", "vecdot", "matrix_rank", "matrix_power", "multi_dot"):
        space[name] = getattr(jnp.linalg, name)
    for name in ("where", "sort", "choose", "real", "imag", "conj", "rem"):
        space[name] = getattr(jnp, name, space[name])
    space.update(rem=jnp.fmod, div=lax_div, array=jnp.array)
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "sub", "mul"):
        space[name] = {"eq": jnp.equal, "ne": jnp.not_equal, "lt": jnp.less, "le": jnp.less_equal, "gt": jnp.greater, "ge": jnp.greater_equal, "sub": jnp.subtract, "mul": jnp.multiply}[name]
    space["population_count"] = lambda x: jax.lax.population_count(jnp.asarray(x))
    space["result_type"] = lambda *a: str(jnp.result_type(*a))
    space["dtype"] = lambda x: str(jnp.asarray(x).dtype)
    space["choose"] = lambda a, c, mode="clip": jnp.choose(a, c, mode=mode)
    space["expi"], space["spence"] = jax.scipy.special.expi, jax.scipy.special.spence
    space["igamma"], space["igammac"] = jax.scipy.special.gammainc, jax.scipy.special.gammaincc
    space["bessel_i0e"], space["bessel_i1e"], space["lgamma"], space["logistic"] = jax.scipy.special.i0e, jax.scipy.special.i1e, jax.scipy.special.gammaln, jax.nn.sigmoid
    space["integer_pow"] = lambda x, n: jnp.asarray(x) ** n
    for module in (optax.projections, optax.tree_utils):
        space.update({name: getattr(module, name) for name in dir(module) if name.startswith(("projection_", "tree_"))})
    space["image_resize"] = jax.image.resize
    space["safe_norm"], space["safe_root_mean_squares"] = optax.safe_norm, optax.safe_root_mean_squares
    space["select_n"] = lambda w, *c: jax.lax.select_n(w, *jnp.broadcast_arrays(*c))
    space["clamp"] = lambda a, x, b: jnp.minimum(jnp.maximum(jnp.asarray(x), a), b)
    for name in ("fft", "ifft", "rfft", "irfft", "fftfreq", "rfftfreq", "fftshift", "ifftshift", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
        space[name] = getattr(jnp.fft, name)
    space.update(dct=jax.scipy.fft.dct, idct=jax.scipy.fft.idct, complex=lambda x, y: jax.lax.complex(*jnp.broadcast_arrays(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))))
    space.update(conv_general_dilated=jax.lax.conv_general_dilated, convolve2d=jax.scipy.signal.convolve2d, correlate2d=jax.scipy.signal.correlate2d)
    for name, f in (("sum", jnp.sum), ("prod", jnp.prod), ("max", jnp.max), ("min", jnp.min), ("and", jnp.all), ("or", jnp.any)):
        space["reduce_" + name] = f
    space.update(neg=jnp.negative, is_finite=jnp.isfinite, shift_left=jnp.left_shift, shift_right_arithmetic=jnp.right_shift, convert_element_type=lambda x, d: jnp.asarray(x).astype(d))
    space["nonzero"], space["unique"] = jnp.nonzero, jnp.unique
    space.update(float32=lambda x: jnp.asarray(x).astype("float32"), int32=lambda x: jnp.asarray(x).astype("int32"), bfloat16=lambda x: jnp.asarray(x).astype("bfloat16"),
                 float16=lambda x: jnp.asarray(x).astype("float16"), uint32=lambda x: jnp.asarray(x).astype("uint32"), bool_=lambda x: jnp.asarray(x).astype("bool"),
                 len=len, slice=slice, int=int, float=float, pi=np.pi, inf=np.inf, nan=np.nan, e=np.e)
    return space


def lax_div(x, y):
    x, y = jnp.broadcast_arrays(jnp.asarray(x), jnp.asarray(y))
    d = jnp.promote_types(x.dtype, y.dtype)
    return jax.lax.div(x.astype(d), y.astype(d))


SPACE = namespace()


def tables():
    """Signatures of functions and of losses ("x alpha=1.0") and the names that formulas alone use: rows with makers in C and
    entries of the library."""
    functions, losses, hidden = {}, {}, set()

    def add(name, signature, words):
        (losses if "loss" in words.lower() else functions)[name] = signature
        if "hidden" in words.lower():
            hidden.add(name)

    for path in ("expr/functions.def", "losses/losses.def"):
        with open(os.path.join(ROOT, "frontend", path)) as f:
            for name, signature, flags in re.findall(r'^X\((\w+), "([^"]*)", \w+, [^,]*, (.*)\)', f.read(), re.M):
                add(name, re.sub(r": \w+", "", signature), path + flags if "losses" in path else flags)
    for path in sorted(glob.glob(os.path.join(ROOT, "frontend", "expr", "library", "*.step"))):
        with open(path) as f:
            for words, name, signature, other in re.findall(r"^(\w[\w ]*?) (\w+)(?:\(([^)]*)\)| = (\w+)$)", f.read(), re.M):
                add(name, {**losses, **functions}[other] if other else " ".join(re.split(r",\s+", re.sub(r": \w+", "", signature))), words)
    return functions, losses, hidden


FUNCTIONS, LOSSES, HIDDEN = tables()


# ---------------------------------------------------------------- arguments

class Call(draws.Draws):
    """Draws the arguments of one expression; tensors are parameters (floats) and inputs (integers and bools) of its own."""

    def __init__(self, seed, number):
        super().__init__((seed, number))
        self.prefix, self.params, self.inputs = "c%d" % number, {}, {}
        self.s = SHAPES[self.r.integers(len(SHAPES))]
        self.flavour = self.one(["plain"] * 7 + ["ties"] * 2 + ["extreme"])
        self.narrow = self.one([None] * 6 + ["bfloat16", "float16"])

    def values(self, shape, low=None, high=None):
        v = self.r.normal(size=shape) * 1.5 if low is None else self.r.uniform(low, high, size=shape)
        if self.flavour == "ties":
            v = np.round(v * 2) / 2 if low is None else np.round(v * 4) / 4
        if self.flavour == "extreme" and low is None:
            special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-30, 88.0, -88.0, 1000.0, -1000.0, 1.0, -1.0, 20.0, -20.0])
            v = np.where(self.r.random(size=shape) < 0.6, special[self.r.integers(len(special), size=shape)], v)
        return np.asarray(v, np.float32)

    def p(self, value):
        name = "p%d" % len(self.params)
        self.params[name], part = self.filled(np.asarray(value, np.float32))
        return "params.%s_%s%s" % (self.prefix, name, part)

    def filled(self, value):
        """No parameter or input is empty: one with a row more, and the slice without it."""
        if value.size:
            return value, ""
        axis = value.shape.index(0)
        return np.ones([d or 1 for d in value.shape], value.dtype), "[%s:0]" % (":, " * axis)

    def input(self, value):
        name = "%s_i%d" % (self.prefix, len(self.inputs))
        self.inputs[name], part = self.filled(np.asarray(value))
        return name + part

    def x(self, shape=None, low=None, high=None):
        text = self.p(self.values(self.s if shape is None else shape, low, high))
        return "astype(%s, '%s')" % (text, self.narrow) if self.narrow and self.chance(0.8) else text

    def u(self, shape=None):
        return self.x(shape, 0.02, 0.98)

    def pos(self, shape=None):
        return self.x(shape, 0.05, 4.0)

    def fits(self):
        """A shape that broadcasts with s to s."""
        return tuple(1 if self.chance(0.3) else d for d in self.s[self.r.integers(len(self.s) + 1):]) if self.chance(0.5) else self.s

    def num(self):
        return self.one(["0", "1", "2", "-1", "0.5", "-0.25", "1.5", "3"])

    def y(self, low=None, high=None):
        return self.num() if low is None and self.chance(0.15) else self.x(self.fits(), low, high)

    def i(self, shape=None, low=-6, high=7):
        shape = self.s if shape is None else shape
        v = self.r.integers(low, high, size=shape).astype(np.int32)
        if self.chance(0.1) and low == -6:
            v = np.where(self.r.random(size=shape) < 0.3, np.array([2**31 - 1, -2**31, 0, 65536], np.int32)[self.r.integers(4, size=shape)], v).astype(np.int32)
        text = self.input(v)
        return "astype(%s, '%s')" % (text, self.one(["int8", "uint8", "int16", "uint16", "uint32"])) if self.chance(0.25) and low == -6 else text

    def b(self, shape=None):
        return self.input(self.r.random(size=self.s if shape is None else shape) < 0.6)

    def mask(self):
        return self.b(self.fits())

    def any(self, shape=None):
        return self.one([self.x, self.x, self.x, self.i, self.b])(shape)

    def any2(self):
        return self.one([lambda: self.y(), lambda: self.y(), lambda: self.i(self.fits()), lambda: self.b(self.fits()), lambda: self.num()])()

    def whole2(self):
        return self.one([lambda: self.i(self.fits()), lambda: self.i(self.fits()), lambda: self.one(["1", "2", "3", "7"])])()

    def need(self, least, most=9, least_size=0):
        """A shape of some rank, without empty dimensions if least_size is 1."""
        pool = [s for s in SHAPES if least <= len(s) <= most and min(s, default=9) >= least_size]
        self.s = self.one(pool)
        return self

    def axis(self):
        return str(int(self.r.integers(-len(self.s), len(self.s))))

    def axis_or_none(self):
        return self.axis() if self.s and self.chance(0.75) else "None"

    def axes(self):
        if not self.s or self.chance(0.3):
            return "None"
        if len(self.s) > 1 and self.chance(0.5):
            chosen = [int(a) for a in self.r.permutation(len(self.s))[:self.r.integers(1, len(self.s) + 1)]]
            return "(%s,)" % ", ".join(str(a - len(self.s) if self.chance(0.4) else a) for a in chosen)
        return self.axis()

    def flag(self):
        return str(self.chance(0.5))

    def some(self, *arguments):
        """Some of the optional arguments."""
        return "".join(", " + a for a in arguments if self.chance(0.5))


def reduction(name, initial=("0", "1.5", "-2")):
    def make(g):
        floats = name in ("mean", "var", "std")
        if name in ("max", "min", "amax", "amin", "argmax", "argmin", "ptp"):
            g.need(0, 9, 1)
        a, axes = g.any(), g.axes()
        extra = g.some("keepdims=" + g.flag())
        if name in ("max", "min", "amax", "amin"):
            extra += g.one(["", "", ", initial=" + g.one(initial), ", initial=%s, where=%s" % (g.one(initial), g.mask())])
        elif name in ("sum", "prod"):
            extra += g.some("initial=" + g.one(initial), "where=" + g.mask()) + (", dtype='%s'" % g.one(["float32", "int32", "bfloat16"]) if g.chance(0.2) else "")
        elif name in ("any", "all", "mean"):
            extra += g.some("where=" + g.mask())
        elif floats:
            extra += g.some("where=" + g.mask(), "ddof=" + g.one(["0", "1"]))
        return "%s(%s, axis=%s%s)" % (name, a, axes, extra)
    return make


def einsum(g):
    sizes = dict(a=2, b=3, c=4, d=1)
    def term(n):
        return "".join(str(x) for x in g.r.choice(list("abcd"), size=n, replace=bool(g.chance(0.15))))
    terms = [term(g.r.integers(1, 4)) for _ in range(g.r.integers(1, 4))]
    dots = g.chance(0.2)
    letters = sorted(set("".join(terms)))
    out = "".join(str(x) for x in g.r.permutation(letters)[:g.r.integers(0, len(letters) + 1)])
    operands = [g.x(((2,) if dots else ()) + tuple(sizes[l] for l in t)) for t in terms]
    text = ",".join(("..." if dots else "") + t for t in terms)
    if g.chance(0.8):
        text += "->" + ("..." if dots else "") + out
    return "einsum('%s', %s)" % (text, ", ".join(operands))


def index(g):
    g.need(1)
    items, tensors = [], 0
    def slice_(n):
        part = lambda: g.one(["", "", str(int(g.r.integers(-n - 1, n + 2)))])
        return part() + ":" + part() + g.one(["", ":" + g.one(["1", "2", "-1", "-2", "3", "-3"])])
    shared = g.one([(2,), (3,), (1,), (2, 1), ()])
    for n in g.s:
        kind = g.one(["slice", "slice", "slice", "number", "tensor", "list", "new", "stop"])
        if kind == "stop":
            break
        if kind == "new":
            items.append("None")
        if kind == "number" and n:
            items.append(str(int(g.r.integers(-n, n))))
        elif kind == "tensor" and n:
            items.append(g.input(g.r.integers(-n - 1, n + 1, size=shared).astype(np.int32)))
        elif kind == "list" and n and shared == (2,):
            items.append("[%d, %d]" % tuple(g.r.integers(-n, n, size=2)))
        else:
            items.append(slice_(n))
    if len([i for i in items if i != "None"]) <= len(g.s) and g.chance(0.25):
        items.insert(int(g.r.integers(len(items) + 1)), "...")
        if len([i for i in items if i not in ("None", "...")]) == len(g.s) and g.chance(0.5):
            items.pop()
    return "%s[%s]" % (g.any(), ", ".join(items) or "...")


def matmul(g):
    a, b = g.one([((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 3), (2, 3, 4)), ((2, 1, 3), (1, 3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((1, 1), (1, 1)), ((3,), (2, 3, 4)), ((2, 2, 3), (3,))])
    return "%s, %s" % (g.one([g.x, g.x, g.i])(a), g.one([g.x, g.x, g.i])(b))


def attention(g):
    t, s, heads, kv = g.one([1, 3, 4]), g.one([1, 2, 4]), 2, g.one([1, 2])
    extra = g.some("scale=0.3", "mask=" + g.b((2, g.one([1, heads]), t, s)), "bias=" + g.x((1, heads, t, s)), "is_causal=" + g.flag())
    if g.chance(0.3):
        extra += ", key_value_seq_lengths=" + g.input(np.array([1, s], np.int32)) + ", query_seq_lengths=" + g.input(np.array([t, 1], np.int32))
    if g.chance(0.2):
        extra += ", local_window_size=" + g.one(["1", "(1, 0)", "(0, 2)"])
    return "dot_product_attention(%s, %s, %s%s)" % (g.x((2, t, heads, 3)), g.x((2, s, kv, 3)), g.x((2, s, kv, 3)), extra)


def triangle(name):
    return lambda g: "%s(%s%s)" % (name, g.need(2).any(), g.some("k=" + g.one(["0", "1", "-1", "2"])))


def labelled(name, extra=lambda g: ""):
    """A loss of scores and integer classes."""
    def make(g):
        rows, classes = g.one([(), (3,), (1,), (2, 3)]), g.one([1, 3, 5])
        return "%s(%s, %s%s)" % (name, g.x(rows + (classes,)), g.input(g.r.integers(0, classes, size=rows).astype(np.int32)), extra(g))
    return make


def distributions(name, log_first, log_second, axis=True):
    def make(g):
        g.need(1, 9, 1)
        a = "log_softmax(%s)" % g.x() if log_first else g.x()
        b = "log_softmax(%s)" % g.x() if log_second else g.one(["softmax(%s)" % g.x(), g.u(), "one_hot(argmax(%s, axis=-1), %d)" % (g.x(), g.s[-1])])
        return "%s(%s, %s%s)" % (name, a, b, g.some("axis=" + g.axis(), "where=" + g.b()) if axis else "")
    return make


def scores(name):
    return lambda g: "%s(%s, %s)" % (name, g.x(), g.one(["sign(%s)" % g.x(), g.u(), g.input((g.r.random(size=g.s) < 0.5).astype(np.int32))]))


def ctc(g):
    b, t, n, k = 2, g.one([3, 5]), g.one([1, 2, 3]), 4
    paddings = np.arange(t)[None] >= np.array([[t], [t - 1]])
    label_paddings = np.arange(n)[None] >= np.array([[n], [max(n - 1, 0)]])
    return "%%s(%s, %s, %s, %s%s)" % (g.x((b, t, k)), g.input(paddings.astype(np.float32)), g.input(g.r.integers(1, k, size=(b, n)).astype(np.int32)), g.input(label_paddings.astype(np.float32)), g.some("log_epsilon=-1e4"))


def unary_float(low, high):
    return lambda g: "%%s(%s)" % g.one([lambda: g.x(None, low, high), lambda: g.x(), lambda: g.i()])()


def joined(name, axis=True):
    def make(g):
        g.need(1 if axis else 0)
        k = g.r.integers(1, 4)
        return "%s([%s]%s)" % (name, ", ".join(g.any() for _ in range(k)), g.some("axis=" + g.axis()) if axis else "")
    return make


def dice(g):
    s = g.one([(2, 3, 4), (3, 2), (2, 2, 2, 3)])
    return g.x(s), g.one([g.u(s), "one_hot(%s, %d)" % (g.input(g.r.integers(0, s[-1], size=s[:-1]).astype(np.int32)), s[-1])])


def square(g):
    """Well conditioned matrices, also batches of them."""
    n = g.one([1, 2, 3, 4] if g.function != "large" else [9, 10])
    g.flavour, g.narrow = "plain", None
    batch = g.one([(), (), (2,)]) if n < 9 else ()
    return g.x(batch + (n, n)), n, batch


MAKE = {
    "round": lambda g: "round(%s%s)" % (g.any(), g.some("decimals=" + g.one(["1", "2", "0", "-1"]))),
    "nan_to_num": lambda g: "nan_to_num(%s%s)" % (g.any(), g.some("nan=1.5", "posinf=7.0", "neginf=-3.0")),
    "bitwise_not": lambda g: "bitwise_not(%s)" % g.one([g.i, g.b])(), "invert": lambda g: "invert(%s)" % g.one([g.i, g.b])(),
    "scale_gradient": lambda g: "scale_gradient(%s, 0.3)" % g.x(),
    "divmod": lambda g: "divmod(%s, %s)[%d]" % (g.any(), g.any2(), g.r.integers(2)),
    "clip": lambda g: "clip(%s%s)" % (g.any(), g.one([", -0.5, 0.5", ", None, 1", ", min=-1", ", max=%s" % g.y(), ", %s, 2" % g.y(), ", 1, -1"])),
    "where": lambda g: "where(%s, %s, %s)" % (g.one([g.mask, g.mask, lambda: g.x(g.fits())])(), g.any(), g.any2()),
    "select": lambda g: "select([%s, %s], [%s, %s]%s)" % (g.b(), g.b(), g.x(), g.x(), g.some("default=0.5")),
    "astype": lambda g: "astype(%s, '%s')" % (g.any(), g.one(["float32", "bfloat16", "float16", "int32", "int8", "uint8", "bool", "uint32", "int16"])),
    "power": lambda g: "power(%s, %s)" % (g.one([g.x, g.pos, g.i])(), g.one([g.num(), g.num(), g.y(), "-2", "3", "2.0", g.i(g.fits(), 0, 5)])),
    "pow": lambda g: "pow(%s, %s)" % (g.one([g.x, g.pos, g.i])(), g.one([g.num(), g.y(), g.i(g.fits(), 0, 5)])),
    "float_power": lambda g: "float_power(%s, %s)" % (g.one([g.x, g.pos, g.i])(), g.one([g.num(), g.y()])),
    "xlogy": lambda g: "xlogy(%s, %s)" % (g.x(), g.one([g.pos, g.x])(g.fits())), "xlog1py": lambda g: "xlog1py(%s, %s)" % (g.x(), g.one([g.pos, g.x])(g.fits())),
    "betaln": lambda g: "betaln(%s, %s)" % (g.pos(), g.pos(g.fits())),
    "average": lambda g: "average(%s, axis=%s%s)" % (g.need(0, 9, 1).any(), g.axes(), g.one(["", ", weights=" + g.pos()]) + g.some("keepdims=" + g.flag())),
    "argmax": lambda g: "argmax(%s, axis=%s%s)" % (g.need(0, 9, 1).any(), g.axis_or_none(), g.some("keepdims=" + g.flag())),
    "argmin": lambda g: "argmin(%s, axis=%s%s)" % (g.need(0, 9, 1).any(), g.axis_or_none(), g.some("keepdims=" + g.flag())),
    "top_k": lambda g: "top_k(%s, %d)[%d]" % (g.need(1, 9, 1).any(), g.r.integers(1, g.s[-1] + 1), g.r.integers(2)),
    "norm": lambda g: "norm(%s, ord=%s, axis=%s%s)" % (g.need(1, 9, 1).x(), *g.one([("None", "None"), ("None", g.axis()), ("2", g.axis()), ("1", g.axis()), ("inf", g.axis()), ("-inf", g.axis()), ("3", g.axis()), ("0", g.axis()), ("0.5", g.axis()), ("-1", g.axis())]
            + ([("'fro'", "(0, 1)"), ("1", "(0, 1)"), ("inf", "(-2, -1)"), ("-1", "(1, 0)"), ("None", "(0, 1)"), ("-inf", "(0, 1)")] if len(g.s) > 1 else [])), g.some("keepdims=" + g.flag())),
    "global_norm": lambda g: "global_norm([%s, %s])" % (g.x(), g.x((2,))),
    "tree_norm": lambda g: "tree_norm([%s, %s]%s)" % (g.need(0, 9, 1).x(), g.x((2,)), g.some("ord=" + g.one(["1", "2", "inf", "'inf'"]), "squared=" + g.flag())),
    **{name: lambda g, name=name: "%s([%s, %s])" % (name, g.need(0, 9, 1).x(), g.x((2,))) for name in ("tree_sum", "tree_max", "tree_min")},
    "tree_size": lambda g: "tree_size([%s, %s]) + %s" % (g.x(), g.x((2,)), g.x((1,))), "tree_vdot": lambda g: "tree_vdot([%s, %s], [%s, %s])" % (g.x(), g.x((2,)), g.x(), g.x((2,))),
    **{"projection_" + name: lambda g, name=name: "projection_%s(%s%s)" % (name, g.need(1, 9, 1).p(g.values(g.s)), g.some("scale=" + g.one(["2", "0.5", "3.0"])))
       for name in ("hypercube", "simplex", "l1_sphere", "l1_ball", "l2_sphere", "l2_ball", "linf_ball")},
    "projection_non_negative": lambda g: "projection_non_negative(%s)" % g.x(), "projection_box": lambda g: "projection_box(%s, %s, %s)" % (g.p(g.values(g.s)), g.one(["-1", "0.25"]), g.one(["0.5", "1"])),
    "projection_vector": lambda g: "projection_vector(%s, %s)" % (g.p(g.values(g.need(1, 9, 1).s)), g.p(g.values(g.s))),
    **{"projection_" + name: lambda g, name=name: "projection_%s(%s, %s, %s)" % (name, g.p(g.values(g.need(1, 9, 1).s)), g.p(g.values(g.s)), g.one(["0.5", "-1.0", "2"])) for name in ("hyperplane", "halfspace")},
    "cumlogsumexp": lambda g: "cumlogsumexp(%s, axis=%s%s)" % (g.need(1).x(), g.axis(), g.some("reverse=" + g.flag())),
    "cummax": lambda g: "cummax(%s, axis=%s%s)" % (g.need(1).x(), g.axis(), g.some("reverse=" + g.flag())),
    "cummin": lambda g: "cummin(%s, axis=%s%s)" % (g.need(1).x(), g.axis(), g.some("reverse=" + g.flag())),
    "diff": lambda g: "diff(%s%s)" % (g.need(1).any(), g.some("n=" + g.one(["0", "1", "2"]), "axis=" + g.axis())),
    "reshape": lambda g: "reshape(%s, %s)" % (g.any(), g.one(["-1", "(-1,)", "(1, -1)", "(-1, 1)"]) if 0 not in g.s else "(0,)"),
    "transpose": lambda g: "transpose(%s%s)" % (g.any(), g.one(["", ", axes=(%s)" % "".join("%d," % a for a in g.r.permutation(len(g.s)))])),
    "swapaxes": lambda g: "swapaxes(%s, %s, %s)" % (g.need(1).any(), g.axis(), g.axis()), "moveaxis": lambda g: "moveaxis(%s, %s, %s)" % (g.need(1).any(), g.axis(), g.axis()),
    "expand_dims": lambda g: "expand_dims(%s, %s)" % (g.any(), g.one(["0", "-1", "(0, 2)", "(-1, 0)"])),
    "squeeze": lambda g: "squeeze(%s)" % g.any(),
    "concatenate": joined("concatenate"), "stack": joined("stack"), "hstack": joined("hstack", False), "vstack": joined("vstack", False), "dstack": joined("dstack", False), "column_stack": joined("column_stack", False),
    "append": lambda g: "append(%s, %s%s)" % (g.need(1).any(), g.any(), g.some("axis=" + g.axis())),
    "split": lambda g: "split(%s, %s)[%d]" % (g.need(1).any(), g.one(["1", "[1]", "[-1]", "[0, 2]"]), g.one([0, -1])),
    "broadcast_to": lambda g: "broadcast_to(%s, %s)" % (g.one([g.x, g.i])(g.fits()), g.s),
    "flip": lambda g: "flip(%s, axis=%s)" % (g.any(), g.axes()),
    "roll": lambda g: "roll(%s, %s)" % (g.any(), g.one(["1", "-2", "7"]) + (g.some("axis=" + g.axis()) if g.s else "")),
    "rot90": lambda g: "rot90(%s%s)" % (g.need(2).any(), g.some("k=" + g.one(["0", "1", "2", "3", "-1"]))),
    "pad": lambda g: "pad(%s, %s%s)" % (g.need(1, 9, 1).any(), g.one(["1", "(1, 2)", "((0, 2),)", "2", "0"]), g.one(["", "", ", constant_values=2", ", mode='edge'", ", mode='reflect'", ", mode='symmetric'", ", mode='wrap'", ", mode='maximum'", ", mode='mean'", ", mode='minimum'", ", mode='median'", ", mode='linear_ramp', end_values=2"])),
    "repeat": lambda g: "repeat(%s, %s, axis=%s)" % (g.any(), g.one(["0", "1", "2", "3"]), g.axis_or_none()),
    "tile": lambda g: "tile(%s, %s)" % (g.any(), g.one(["2", "(2, 1)", "(1, 2, 2)", "0"])),
    "take": lambda g: "take(%s, %s, axis=%s)" % (g.need(1, 9, 1).any(), g.i(g.one([(), (2,), (2, 2), (0,)]), 0, min(g.s)), g.axis_or_none()),
    "take_along_axis": lambda g: "take_along_axis(%s, %s, axis=%s)" % (g.need(1, 9, 1).any(), g.i(None, -min(g.s), min(g.s)), g.axis()),
    "shape": lambda g: "shape(%s)[-1] * 1" % g.need(1).x(), "size": lambda g: "size(%s%s)" % (g.x(), g.some("axis=" + g.axis()) if g.s else ""), "ndim": lambda g: "ndim(%s)" % g.x(), "len": lambda g: "len(%s)" % g.need(1).x(),
    "zeros": lambda g: "zeros(%s%s)" % (g.s, g.some("dtype='int32'")), "ones": lambda g: "ones(%s%s)" % (g.s, g.some("dtype='int32'")),
    "full": lambda g: "full(%s, %s%s)" % (g.s, g.one(["2", "1.5", "True", g.x(())]), g.some("dtype='float32'")),
    "full_like": lambda g: "full_like(%s, %s)" % (g.any(), g.one(["2", "1.5", g.x(())])),
    "arange": lambda g: "arange(%s)" % g.one(["5", "2, 7", "1, 8, 2", "5, 0, -1", "0, 1, 0.25", "3.5", "0, 3, dtype='float32'", "4, 1", "-1.5, 2.5", "1, 2, 0.3"]),
    "linspace": lambda g: "linspace(%s)" % g.one(["0, 1", "0, 1, 5", "-1, 2, 4, endpoint=False", "3, 3, 2", "0, 10, 1"]),
    "logspace": lambda g: "logspace(%s)" % g.one(["0, 1, 5", "-1, 2, 4, endpoint=False", "0, 3, 4, base=2.0"]),
    "eye": lambda g: "eye(%s)" % g.one(["3", "2, 4", "3, k=1", "3, 4, -1", "0", "2, dtype='int32'"]), "tri": lambda g: "tri(%s)" % g.one(["3", "2, 4", "3, k=1", "3, 4, -1"]),
    "tril": triangle("tril"), "triu": triangle("triu"), "diag": lambda g: "diag(%s%s)" % (g.need(1, 2).any(), g.some("k=" + g.one(["0", "1", "-1"]))),
    "diagonal": lambda g: "diagonal(%s%s)" % (g.need(2).any(), g.some("offset=" + g.one(["0", "1", "-1"]))), "trace": lambda g: "trace(%s)" % g.need(2).any(),
    "array": lambda g: "array([%s, %s])" % (g.num(), g.x(())), "asarray": lambda g: "asarray([[1, 2], [3, %s]]%s)" % (g.num(), g.some("dtype='float32'")),
    "matmul": lambda g: "matmul(%s)" % matmul(g), "dot": lambda g: "dot(%s, %s)" % (g.x((2, 3)), g.x(g.one([(3,), (3, 2), (2, 3, 2), ()]))), "inner": lambda g: "inner(%s, %s)" % (g.x(g.one([(3,), (2, 3)])), g.x(g.one([(3,), (4, 3)]))),
    "vdot": lambda g: "vdot(%s, %s)" % (g.x(), g.x()), "outer": lambda g: "outer(%s, %s)" % (g.any(), g.any((2,))), "kron": lambda g: "kron(%s, %s)" % (g.x(g.one([(3,), (2, 3)])), g.x(g.one([(2,), (2, 2)]))),
    "tensordot": lambda g: "tensordot(%s, %s%s)" % (g.x((2, 3, 4)), *g.one([(g.x((3, 4, 2)), ""), (g.x((4, 2)), ", axes=1"), (g.x((2, 2)), ", axes=0"), (g.x((4, 3)), ", axes=[[1, 2], [1, 0]]"), (g.x((2, 3, 4)), ", axes=3")])),
    "einsum": einsum,
    "gelu": lambda g: "gelu(%s%s)" % (g.x(), g.some("approximate=False")), "elu": lambda g: "elu(%s%s)" % (g.x(), g.some("alpha=0.5")), "celu": lambda g: "celu(%s%s)" % (g.x(), g.some("alpha=0.5")),
    "leaky_relu": lambda g: "leaky_relu(%s%s)" % (g.x(), g.some("negative_slope=0.2")), "squareplus": lambda g: "squareplus(%s%s)" % (g.x(), g.some("b=1.5")), "log1mexp": lambda g: "log1mexp(%s)" % g.one([g.pos, g.x])(),
    "glu": lambda g: "glu(%s%s)" % (g.x((2, 4)), g.some("axis=" + g.one(["0", "1", "-1"]))),
    "softmax": lambda g: "softmax(%s%s)" % (g.need(1, 9, 1).x(), g.some("axis=" + g.one([g.axis(), g.axes() if g.chance(0.8) else "None"])) + (", where=" + g.b() if g.chance(0.3) else "")),
    "log_softmax": lambda g: "log_softmax(%s%s)" % (g.need(1, 9, 1).x(), g.some("axis=" + g.axis()) + (", where=" + g.b() if g.chance(0.3) else "")),
    "logsumexp": lambda g: "logsumexp(%s, axis=%s%s)" % (g.need(0, 9, 1).any(), g.axes(), g.some("keepdims=" + g.flag(), "b=" + g.pos(g.fits())) + (", where=" + g.b() if g.chance(0.3) else "")),
    "logmeanexp": lambda g: "logmeanexp(%s, axis=%s%s)" % (g.need(0, 9, 1).x(), g.axes(), g.some("keepdims=" + g.flag()) + (", where=" + g.b() if g.chance(0.3) else "")),
    "standardize": lambda g: "standardize(%s%s)" % (g.need(1, 9, 1).x(), g.some("axis=" + g.axis(), "epsilon=1e-3") + (", where=" + g.b() if g.chance(0.2) else "")),
    "one_hot": lambda g: "one_hot(%s, 4%s)" % (g.i(None, -1, 5), g.some("axis=" + g.one(["-1", "0"]), "dtype='int32'")),
    "make_causal_mask": lambda g: "make_causal_mask(%s%s)" % (g.need(1).x(), g.some("extra_batch_dims=1")),
    "make_attention_mask": lambda g: "make_attention_mask(%s, %s)" % (g.x((2, 3)), g.x((2, 4))),
    "combine_masks": lambda g: "combine_masks(%s, None, %s)" % (g.b((2, 3)), g.b((2, 3))),
    "dot_product_attention": attention,
    "sort": lambda g: "sort(%s%s)" % (g.need(1).any(), g.some("axis=" + g.axis_or_none(), "descending=" + g.flag())), "argsort": lambda g: "argsort(%s%s)" % (g.need(1).any(), g.some("axis=" + g.axis_or_none(), "descending=" + g.flag())),
    "median": lambda g: "median(%s, axis=%s%s)" % (g.need(0, 9, 1).any(), g.axes(), g.some("keepdims=" + g.flag())),
    "quantile": lambda g: "quantile(%s, %s, axis=%s%s)" % (g.need(0, 9, 1).x(), g.one(["0.5", "0.3", "0", "1", "[0.1, 0.9]"]), g.axes(), g.some("keepdims=" + g.flag(), "method='%s'" % g.one(["linear", "lower", "higher", "nearest", "midpoint"]))),
    "percentile": lambda g: "percentile(%s, %s, axis=%s%s)" % (g.need(0, 9, 1).x(), g.one(["50", "30", "[10, 90.0]"]), g.axes(), g.some("keepdims=" + g.flag())),
    "cross": lambda g: "cross(%s, %s)" % (g.x((2, 3)), g.x(g.one([(3,), (2, 3)]))),
    "arctan2": lambda g: "arctan2(%s, %s)" % (g.any(), g.any2()), "copysign": lambda g: "copysign(%s, %s)" % (g.x(), g.y()), "heaviside": lambda g: "heaviside(%s, %s)" % (g.x(), g.y()),
    # losses
    "cosine_similarity": lambda g: "cosine_similarity(%s, %s%s)" % (g.need(1, 9, 1).x(), g.x(), g.some("epsilon=0.1", "axis=" + g.axis(), "where=" + g.b())),
    "cosine_distance": lambda g: "cosine_distance(%s, %s%s)" % (g.need(1, 9, 1).x(), g.x(), g.some("epsilon=0.1", "axis=" + g.axis(), "where=" + g.b())),
    "huber_loss": lambda g: "huber_loss(%s%s%s)" % (g.x(), g.some(g.x()), g.some("delta=0.5")), "squared_error": lambda g: "squared_error(%s%s)" % (g.x(), g.some(g.x())), "l2_loss": lambda g: "l2_loss(%s%s)" % (g.x(), g.some(g.x())), "log_cosh": lambda g: "log_cosh(%s%s)" % (g.x(), g.some(g.x())),
    "sigmoid_binary_cross_entropy": scores("sigmoid_binary_cross_entropy"), "sigmoid_focal_loss": lambda g: scores("sigmoid_focal_loss")(g)[:-1] + g.some("alpha=0.3", "gamma=" + g.one(["1.0", "2.0", "0.5"])) + ")",
    "softmax_cross_entropy": distributions("softmax_cross_entropy", 0, 0), "safe_softmax_cross_entropy": distributions("safe_softmax_cross_entropy", 0, 0, False), "poly_loss_cross_entropy": distributions("poly_loss_cross_entropy", 0, 0),
    "kl_divergence": distributions("kl_divergence", 1, 0), "kl_divergence_with_log_targets": distributions("kl_divergence_with_log_targets", 1, 1), "generalized_kl_divergence": distributions("generalized_kl_divergence", 1, 0), "convex_kl_divergence": distributions("convex_kl_divergence", 1, 0),
    "softmax_cross_entropy_with_integer_labels": labelled("softmax_cross_entropy_with_integer_labels"), "multiclass_hinge_loss": labelled("multiclass_hinge_loss"), "multiclass_perceptron_loss": labelled("multiclass_perceptron_loss"), "multiclass_sparsemax_loss": lambda g: "multiclass_sparsemax_loss(%s, %s)" % (g.x((3, 4)), g.input(g.r.integers(0, 4, size=3).astype(np.int32))),
    "hinge_loss": scores("hinge_loss"), "perceptron_loss": scores("perceptron_loss"), "sparsemax_loss": scores("sparsemax_loss"),
    "smooth_labels": lambda g: "smooth_labels(%s, 0.1)" % g.need(1, 9, 1).u(),
    "dice_loss": lambda g: "dice_loss(%s, %s%s)" % (*dice(g), g.some("smooth=0.5", "alpha=0.3", "beta=0.7", "apply_softmax=False", "ignore_background=True", "reduction='%s'" % g.one(["none", "mean", "sum"]))),
    "binary_dice_loss": lambda g: "binary_dice_loss(%s, %s%s)" % (g.need(2, 9, 1).x(), g.u(), g.some("smooth=0.5", "apply_sigmoid=False")),
    "multiclass_generalized_dice_loss": lambda g: "multiclass_generalized_dice_loss(%s, %s%s)" % (*dice(g), g.some("smooth=0.5", "apply_softmax=False", "ignore_background=True")),
    "ranking_softmax_loss": lambda g: "ranking_softmax_loss(%s, %s%s)" % (g.need(1, 9, 1).x(), g.u(), g.some("where=" + g.b(), "weights=" + g.pos(), "reduce_fn=%s" % g.one(["None"]))),
    "ntxent": lambda g: "ntxent(%s, %s%s)" % (g.x((4, 3)), g.input(g.r.integers(0, 2, size=4).astype(np.int32)), g.some("temperature=0.3")),
    "triplet_margin_loss": lambda g: "triplet_margin_loss(%s, %s, %s%s)" % (g.need(1, 9, 1).x(), g.x(), g.x(), g.some("axis=" + g.axis(), "norm_degree=" + g.one(["1", "2", "3"]), "margin=0.5", "eps=1e-3")),
    "ctc_loss": lambda g: ctc(g) % "ctc_loss", "ctc_loss_with_forward_probs": lambda g: ctc(g) % "ctc_loss_with_forward_probs" + "[0]",
    "operator": lambda g: "%s %s %s" % (g.any(), g.one("+ - * / // % < <= > >= == !=".split()), g.any2()),
    "whole_operator": lambda g: "%s %s %s" % (g.i(), g.one("// % & | ^ << >> + - * /".split()), g.whole2()),
    "unary_operator": lambda g: g.one(["-%s" % g.x(), "-%s" % g.i(), "~%s" % g.i(), "~%s" % g.b(), "+%s" % g.any()]),
    "power_operator": lambda g: "%s ** %s" % (g.one([g.x, g.pos, g.i])(), g.one([g.num(), "2", "3", "-2", "0.5", "-1.5", g.y(), g.i(g.fits(), 0, 5)])),
    "index": index, "matmul_operator": lambda g: " @ ".join(matmul(g).rsplit(", ", 1)) if False else "(%s) @ (%s)" % tuple(re.split(r", (?=c\d|params|astype)", matmul(g))),
    # by order, counting, polynomials
    "searchsorted": lambda g: "searchsorted(sort(%s), %s%s)" % (g.need(0).x((5,)), g.x(), g.some("side='%s'" % g.one(["left", "right"]))),
    "bincount": lambda g: "bincount(%s, %slength=4)" % (g.i((6,), 0, 4), g.one(["", "weights=%s, " % g.x((6,))])),
    "interp": lambda g: "interp(%s, sort(%s), %s%s)" % (g.x(), g.x((5,)), g.x((5,)), g.some("left=-1.0", "right=2.0")),
    "convolve": lambda g: "convolve(%s, %s%s)" % (g.x(g.one([(5,), (3,), (1,)])), g.x(g.one([(3,), (2,), (4,)])), g.some("mode='%s'" % g.one(["full", "same", "valid"]))),
    "correlate": lambda g: "correlate(%s, %s%s)" % (g.x(g.one([(5,), (3,), (1,)])), g.x(g.one([(3,), (2,), (4,)])), g.some("mode='%s'" % g.one(["full", "same", "valid"]))),
    "meshgrid": lambda g: "meshgrid(%s, %s%s)[%d]" % (g.any((3,)), g.any((2,)), g.some("indexing='ij'"), g.r.integers(2)),
    "trapezoid": lambda g: "trapezoid(%s%s)" % (g.need(1, 9, 1).x(), g.some(g.one(["dx=0.5", "x=%s" % g.x()]), "axis=" + g.axis())),
    "gradient": lambda g: "gradient(%s, %s)" % (g.x(g.one([(4,), (3,), (2,)])), g.one(["1", "0.5"])),
    "vander": lambda g: "vander(%s%s)" % (g.x((3,)), g.some("N=" + g.one(["2", "4"]), "increasing=True")), "polyval": lambda g: "polyval(%s, %s)" % (g.x((3,)), g.x()),
    "polygamma": lambda g: "polygamma(%s, %s)" % (g.one(["0", "1", "2", "3"]), g.pos()), "zeta": lambda g: "zeta(%s, %s)" % (g.x(None, 1.5, 5), g.x(None, 0.5, 4)),
    "gammainc": lambda g: "gammainc(%s, %s)" % (g.pos(), g.pos()), "gammaincc": lambda g: "gammaincc(%s, %s)" % (g.pos(), g.pos()),
    "inv": lambda g: "inv(%s + 3 * eye(%d))" % square(g)[:2], "det": lambda g: "det(%s)" % square(g)[0], "slogdet": lambda g: "slogdet(%s)[%d]" % (square(g)[0], g.r.integers(2)),
    "solve": lambda g: (lambda m, n, b: "solve(%s + 3 * eye(%d), %s)" % (m, n, g.x(b + (n, 2))))(*square(g)),
    "cholesky": lambda g: (lambda m, n, b: "cholesky(%s @ swapaxes(%s, -1, -2) + eye(%d))" % (m, m, n))(*square(g)),
    "block_diag": lambda g: "block_diag(%s, %s)" % (g.x((2, 3)), g.x((1, 2))), "gcd": lambda g: "gcd(%s, %s)" % (g.i(), g.i()), "lcm": lambda g: "lcm(%s, %s)" % (g.i(None, -9, 10), g.i(None, -9, 10)),
    "nextafter": lambda g: "nextafter(%s, %s)" % (g.p(g.values(g.s)), g.p(g.values(g.s))), "ldexp": lambda g: "ldexp(%s, %s)" % (g.x(), g.i(None, -3, 4)),
    "histogram": lambda g: "histogram(%s, %s)[0]" % (g.x((8,)), g.one(["4", "3, range=(-1, 2)"])), "choose": lambda g: "choose(%s, [%s, %s])" % (g.i(None, 0, 2), g.x(), g.x()),
    "lexsort": lambda g: "lexsort([%s, %s])" % (g.i((5,), 0, 3), g.i((5,), 0, 3)),
}
def symmetric(g):
    m, n, b = square(g)
    return "(%s + swapaxes(%s, -1, -2))" % (m, m)


def tall(g, shapes=((3, 2), (2, 3), (3, 3), (4, 2), (2, 3, 2), (1, 3), (3, 1), (1, 1), (5, 4))):
    g.flavour, g.narrow = "plain", None
    s = g.one(list(shapes))
    return g.x(s), min(s[-2:])


def updates(g):
    """x.at[...].add(y) and the like."""
    g.need(1, 9, 1)
    text = index(g)
    base, inside = text[:text.index("[")], text
    depth, cut = 0, None
    for k, ch in enumerate(text):  # the index that was put on last
        if ch == "[" and depth == 0:
            cut = k
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(ch, 0)
    how = g.one(["set", "add", "multiply", "min", "max", "subtract"])
    return "asarray(%s).at%s.%s(%s)" % (text[:cut], text[cut:], how, g.one([g.num(), g.x(()), "2"]))


def methods(g):
    g.need(1, 9, 1)
    x = g.x()
    return "(%s)%s" % (x, g.one([".sum()", ".mean(axis=-1)", ".max()", ".T", ".reshape(-1)", ".astype('int32')", ".ravel() * 2", ".std()", ".argmax(axis=0)", ".shape[0] * 1", ".clip(-1, 1)", ".round()", ".cumsum()", ".sum(axis=0, keepdims=True)", ".flatten()[::-1]"]))


MAKE.update({
    "at": updates, "method": methods,
    "repeat": lambda g: g.one(["repeat(%s, %s, axis=%s)" % (g.any(), g.one(["0", "1", "2", "3"]), g.axis_or_none()), "repeat(%s, [2, 0, 1], axis=0%s)" % (g.x((3, 2)), g.some("total_repeat_length=4")), "repeat(%s, %s, total_repeat_length=5)" % (g.x((3,)), g.i((3,), 0, 3))]),
    "roll": lambda g: "roll(%s, %s%s)" % (g.need(1).any(), g.one(["1", "-2", "7", g.i((), -9, 9)]), g.some("axis=" + g.axis())), "where": lambda g: g.one(["where(%s, size=4)[0]" % g.b((2, 3)), "where(%s, %s, %s)" % (g.one([g.mask, g.mask, lambda: g.x(g.fits())])(), g.any(), g.any2())]),
    "zeros_like": lambda g: "zeros_like(%s%s)" % (g.any(), g.some("dtype='int32'", "shape=(2, 1)")), "full_like": lambda g: "full_like(%s, %s%s)" % (g.any(), g.one(["2", "1.5", g.x(())]), g.some("shape=(3,)")),
    "isclose": lambda g: "isclose(%s, %s%s)" % (g.any(), g.any2(), g.some("rtol=0.3", "equal_nan=True")), "allclose": lambda g: "allclose(%s, %s%s)" % (g.x(), g.y(), g.some("atol=3.0")),
    "array_equal": lambda g: "array_equal(%s, %s%s)" % (g.i(None, 0, 2), g.i(None, 0, 2), g.some("equal_nan=True")), "array_equiv": lambda g: "array_equiv(%s, 1)" % g.i(None, 0, 2),
    "bitwise_invert": lambda g: "bitwise_invert(%s)" % g.one([g.i, g.b])(), "bitwise_count": lambda g: "bitwise_count(%s)" % g.i(), "population_count": lambda g: "population_count(%s)" % g.i(),
    "angle": lambda g: "angle(%s%s)" % (g.any(), g.some("deg=True")), "modf": lambda g: "modf(%s)[%d]" % (g.x(), g.r.integers(2)), "frexp": lambda g: "frexp(stop_gradient(%s))[%d]" % (g.p(g.values(g.s)), g.r.integers(2)),
    "spacing": lambda g: "spacing(%s)" % g.p(g.values(g.s)), "integer_pow": lambda g: "integer_pow(%s, %s)" % (g.x(), g.one(["0", "1", "2", "3", "-2"])), "around": lambda g: "around(%s%s)" % (g.any(), g.some("decimals=1")),
    "piecewise": lambda g: "piecewise(%s, [%s, %s], [%s, 2.0%s])" % (g.x(), g.b(), g.b(), g.num() + ".0" if False else "1.5", g.one(["", ", -1.0"])),
    "clamp": lambda g: "clamp(-0.5, %s, 1.0)" % g.x(), "select_n": lambda g: "select_n(%s, %s, %s)" % (g.b(), g.p(g.values(g.s)), g.p(g.values(g.s))), "choose": lambda g: "choose(%s, [%s, %s]%s)" % (g.i(None, -2, 4), g.x(), g.x(), g.some("mode='wrap'")),
    "lcm": lambda g: "lcm(%s, %s)" % (g.i(None, -9, 10), g.i(None, -9, 10)), "gcd": lambda g: "gcd(%s, %s)" % (g.i(None, -99, 100), g.i(g.fits(), -99, 100)), "div": lambda g: "div(%s, %s)" % g.one([(g.i(), g.i(None, 1, 5)), (g.p(g.values(g.s)), g.p(g.values(g.s)))]), "rem": lambda g: "rem(%s, %s)" % (g.i(), g.i(None, 1, 5)),
    "vector_norm": lambda g: "vector_norm(%s%s)" % (g.need(1, 9, 1).x(), g.some("axis=" + g.axes(), "ord=" + g.one(["1", "2", "inf", "-inf", "0", "3", "0.5"]), "keepdims=" + g.flag())),
    "matrix_norm": lambda g: "matrix_norm(%s%s)" % (tall(g)[0], g.some("ord=" + g.one(["1", "-1", "2", "-2", "inf", "'fro'", "'nuc'"]), "keepdims=" + g.flag())),
    "safe_norm": lambda g: "safe_norm(%s, %s%s)" % (g.need(1, 9, 1).x(), g.one(["0.1", "5.0"]), g.some("axis=" + g.axis(), "keepdims=" + g.flag())), "safe_root_mean_squares": lambda g: "safe_root_mean_squares(%s, %s)" % (g.x(), g.one(["0.1", "5.0"])),
    "cumulative_sum": lambda g: "cumulative_sum(%s%s)" % (g.need(1, 1).any() if g.chance(0.3) else "%s, axis=%s" % (g.need(1).any(), g.axis()), g.some("include_initial=" + g.flag())),
    "cumulative_prod": lambda g: "cumulative_prod(%s%s)" % (g.need(1, 1).any() if g.chance(0.3) else "%s, axis=%s" % (g.need(1).any(), g.axis()), g.some("include_initial=" + g.flag())),
    "nancumsum": lambda g: "nancumsum(where(%s, nan, %s), axis=%s)" % (g.b(), g.x(), g.axis_or_none()), "nancumprod": lambda g: "nancumprod(where(%s, nan, %s), axis=%s)" % (g.b(), g.x(), g.axis_or_none()),
    "nanargmax": lambda g: "nanargmax(where(%s, nan, %s), axis=%s%s)" % (g.need(1, 9, 1).b(), g.x(), g.axis_or_none(), g.some("keepdims=" + g.flag())), "nanargmin": lambda g: "nanargmin(where(%s, nan, %s), axis=%s)" % (g.need(1, 9, 1).b(), g.x(), g.axis_or_none()),
    "ediff1d": lambda g: "ediff1d(%s%s)" % (g.any(), g.some("to_end=1", "to_begin=[0, 2]")), "diff": lambda g: "diff(%s%s)" % (g.need(1).any(), g.some("n=" + g.one(["0", "1", "2"]), "axis=" + g.axis()) or ", prepend=%s, append=1" % g.one(["0", "2"])),
    "gradient": lambda g: "gradient(%s%s)%s" % g.one([(g.x((4,)), g.one([", 1", ", 0.5", ""]), ""), (g.x((3, 2)), ", axis=%d" % g.r.integers(-2, 2), ""), (g.x((3, 4)), ", 0.5", "[%d]" % g.r.integers(2)), (g.x((3, 4)), ", 0.5, 2.0", "[%d]" % g.r.integers(2))]),
    "histogram": lambda g: "histogram(%s%s)[%d]" % (g.x((8,)), g.some("bins=" + g.one(["4", "3"]), "range=(-1, 2)", "density=True", "weights=" + g.x((8,))), g.r.integers(2)), "histogram_bin_edges": lambda g: "histogram_bin_edges(%s%s)" % (g.x((8,)), g.some("bins=3", "range=(-1, 2)")),
    "digitize": lambda g: "digitize(%s, %s%s)" % (g.x(), g.one(["sort(%s)", "sort(%s)[::-1]"]) % g.x((4,)), g.some("right=True")),
    "cov": lambda g: "cov(%s%s)" % (g.x(g.one([(3, 4), (4,), (1, 4)])), g.some("bias=True", "ddof=0", "rowvar=False", "fweights=[1, 2, 1, 3]" if False else "ddof=1")), "corrcoef": lambda g: "corrcoef(%s%s)" % (g.x((3, 4)), g.some("rowvar=False")),
    "unwrap": lambda g: "unwrap(%s%s)" % (g.x(g.one([(5,), (2, 4)]), -9, 9), g.some("axis=0", "period=3.0", "discont=2.0")),
    "segment_sum": lambda g: "segment_sum(%s, %s, 3)" % (g.x((5,) + g.one([(), (2,)])), g.i((5,), -1, 4)), "segment_max": lambda g: "segment_max(%s, %s, 3)" % (g.any((5,) + g.one([(), (2,)])), g.i((5,), 0, 3)), "segment_min": lambda g: "segment_min(%s, %s, 3)" % (g.x((5,)), g.i((5,), 0, 3)), "segment_prod": lambda g: "segment_prod(%s, %s, 3)" % (g.x((5,)), g.i((5,), 0, 3)),
    "permute_dims": lambda g: "permute_dims(%s, (%s))" % (g.any(), "".join("%d," % a for a in g.r.permutation(len(g.s)))), "matrix_transpose": lambda g: "matrix_transpose(%s)" % g.need(2).any(), "rollaxis": lambda g: "rollaxis(%s, %s%s)" % (g.need(2).any(), g.axis(), g.some("start=1")),
    "block": lambda g: "block([[%s, %s], [%s, %s]])" % (g.x((2, 2)), g.x((2, 1)), g.x((1, 2)), g.x((1, 1))), "concat": joined("concat"),
    "array_split": lambda g: "array_split(%s, %s)[%d]" % (g.x((5, 2)), g.one(["2", "3", "4", "[1, 3]"]), g.one([0, 1, -1])), "hsplit": lambda g: "hsplit(%s, 2)[1]" % g.x(g.one([(4,), (3, 2)])), "vsplit": lambda g: "vsplit(%s, 2)[0]" % g.x((4, 2)), "dsplit": lambda g: "dsplit(%s, 2)[0]" % g.x((1, 2, 4)), "unstack": lambda g: "unstack(%s%s)[0]" % (g.need(1, 9, 1).any(), g.some("axis=" + g.axis())),
    "fliplr": lambda g: "fliplr(%s)" % g.need(2).any(), "flipud": lambda g: "flipud(%s)" % g.need(1).any(), "rev": lambda g: "rev(%s, (0,))" % g.p(g.values(g.need(1).s)), "rot90": lambda g: "rot90(%s%s)" % (g.need(2).any(), g.some("k=" + g.one(["0", "1", "2", "3", "-1"]), "axes=(1, 0)")),
    "image_resize": lambda g: "image_resize(%s, %s, '%s'%s)" % (g.x((3, 4)), g.one(["(6, 4)", "(5, 7)", "(2, 3)", "(1, 9)"]), g.one(["nearest", "linear", "bicubic", "lanczos3", "lanczos5"]), g.some("antialias=" + g.one(["True", "False"]))),
    "resize": lambda g: "resize(%s, %s)" % (g.x((2, 3)), g.one(["(3, 3)", "(2, 2)", "7"])), "delete": lambda g: "delete(%s, %s%s)" % (g.x((3, 3)), g.one(["0", "-1", "[0, 2]"]), g.some("axis=" + g.one(["0", "1"]))), "insert": lambda g: "insert(%s, %s, %s%s)" % (g.x((3, 3)), g.one(["0", "-1", "2"]), g.one(["5.0", g.x(())]), g.some("axis=" + g.one(["0", "1"]))),
    "broadcast_arrays": lambda g: "broadcast_arrays(%s, %s)[%d]" % (g.x((2, 1)), g.x((3,)), g.r.integers(2)), "broadcast_shapes": lambda g: "zeros(broadcast_shapes((2, 1), (3,)))",
    "put_along_axis": lambda g: "put_along_axis(%s, argmax(%s, axis=1, keepdims=True), %s, axis=1, inplace=False)" % (g.x((2, 3)), g.x((2, 3)), g.one(["9.0", g.x((2, 1))])), "compress": lambda g: "compress(asarray([True, False, True]), %s, axis=0, size=2)" % g.x((3, 2)),
    "nonzero": lambda g: "nonzero(%s, size=3%s)[%d]" % (g.b((2, 3)), g.some("fill_value=-1"), g.r.integers(2)), "flatnonzero": lambda g: "flatnonzero(%s, size=3%s)" % (g.b((2, 3)), g.some("fill_value=9")), "argwhere": lambda g: "argwhere(%s, size=3)" % g.b((2, 3)), "unique": lambda g: "unique(%s, size=4%s)" % (g.i((6,), 0, 4), g.some("fill_value=-1")),
    "ravel_multi_index": lambda g: "ravel_multi_index((%s, %s), (3, 4), mode='%s')" % (g.i((3,), -1, 5), g.i((3,), -1, 5), g.one(["clip", "wrap"])), "unravel_index": lambda g: "unravel_index(%s, (3, 4))[%d]" % (g.i((4,), 0, 12), g.r.integers(2)), "ix_": lambda g: "%s[ix_([0, 2], [1, 0])]" % g.x((3, 3)) if False else "ix_(%s, %s)[0]" % (g.i((2,), 0, 3), g.i((3,), 0, 3)),
    "isin": lambda g: "isin(%s, %s%s)" % (g.i(None, 0, 4), g.i((2,), 0, 4), g.some("invert=True")),
    "dynamic_slice": lambda g: "dynamic_slice(%s, (%s, %s), (2, 2))" % (g.x((3, 4)), g.i((), -2, 5), g.i((), -2, 5)), "dynamic_update_slice": lambda g: "dynamic_update_slice(%s, %s, (%s, 1))" % (g.p(g.values((3, 4))), g.p(g.values((2, 2))), g.i((), -2, 5)),
    "dynamic_slice_in_dim": lambda g: "dynamic_slice_in_dim(%s, %s, 2, axis=%s)" % (g.x((3, 4)), g.i((), -2, 5), g.one(["0", "1", "-1"])), "dynamic_index_in_dim": lambda g: "dynamic_index_in_dim(%s, %s%s)" % (g.x((3, 4)), g.i((), -2, 4), g.some("keepdims=False", "axis=1")), "dynamic_update_slice_in_dim": lambda g: "dynamic_update_slice_in_dim(%s, %s, %s, axis=0)" % (g.p(g.values((3, 4))), g.p(g.values((2, 4))), g.i((), -2, 5)),
    "slice_in_dim": lambda g: "slice_in_dim(%s, 1, 3%s)" % (g.x((4, 3)), g.some("stride=2", "axis=1")), "index_in_dim": lambda g: "index_in_dim(%s, %s%s)" % (g.x((4, 3)), g.one(["0", "-1", "2"]), g.some("axis=1", "keepdims=False")),
    "dtype": lambda g: "zeros((2,), dtype=dtype(%s))" % g.any(), "result_type": lambda g: "zeros((2,), dtype=result_type(%s, %s))" % (g.any(), g.any()), "promote_types": lambda g: "zeros((2,), dtype=promote_types('%s', '%s'))" % (g.one(["int8", "bfloat16", "uint8"]), g.one(["int32", "float16"])), "finfo": lambda g: "finfo('%s').%s * 1.0" % (g.one(["float32", "float16", "bfloat16"]), g.one(["eps", "max", "min", "tiny"])), "iinfo": lambda g: "iinfo('%s').max + zeros(1)" % g.one(["int8", "int32", "uint8"]),
    "empty": lambda g: "empty(%s) * 0" % str(g.s), "linspace": lambda g: "linspace(%s)" % g.one(["0, 1", "0, 1, 5", "-1, 2, 4, endpoint=False", "3, 3, 2", "0, 10, 1", "0, 1, 0", "%s, %s, 4" % (g.x(), g.x()), "%s, 2.0, 3, axis=-1" % g.x((2,)), "0, 5, 4, dtype='int32'", "0, 1, 1, endpoint=False"]),
    "logspace": lambda g: "logspace(%s)" % g.one(["0, 1, 5", "-1, 2, 4, endpoint=False", "0, 3, 4, base=2.0", "0.0, 1.0, 0"]), "geomspace": lambda g: "geomspace(%s)" % g.one(["1, 1000, 4", "2.0, 0.5, 3", "1, 8, 3, endpoint=False"]),
    "diagflat": lambda g: "diagflat(%s%s)" % (g.x((2,)), g.some("k=1")), "fill_diagonal": lambda g: "fill_diagonal(%s, %s, inplace=False)" % (g.x((3, 3)), g.one(["7.0", g.x(()), g.x((3,))])),
    "diag_indices": lambda g: "diag_indices(3)[%d]" % g.r.integers(2), "diag_indices_from": lambda g: "%s[diag_indices_from(zeros((3, 3)))[0]]" % g.x((3, 3)), "tril_indices": lambda g: "tril_indices(3%s)[%d]" % (g.some("k=-1", "m=4"), g.r.integers(2)), "triu_indices": lambda g: "triu_indices(3%s)[%d]" % (g.some("k=1", "m=4"), g.r.integers(2)), "tril_indices_from": lambda g: "tril_indices_from(%s)[0]" % g.x((3, 3)), "triu_indices_from": lambda g: "triu_indices_from(%s, k=1)[1]" % g.x((3, 3)),
    "indices": lambda g: "indices((2, 3))", "iota": lambda g: "iota('%s', 4)" % g.one(["int32", "float32"]), "broadcasted_iota": lambda g: "broadcasted_iota('int32', (2, 3), %d)" % g.r.integers(2),
    "toeplitz": lambda g: "toeplitz(%s%s)" % (g.x((3,)), g.one(["", ", %s" % g.x((4,))])), "hilbert": lambda g: "hilbert(3)", "kaiser": lambda g: "kaiser(5, %s)" % g.one(["2.0", "8.6"]),
    "vecdot": lambda g: "vecdot(%s, %s%s)" % (g.x((2, 3)), g.x(g.one([(3,), (2, 3)])), ""), "matvec": lambda g: "matvec(%s, %s)" % (g.x((2, 3)), g.x((3,))), "vecmat": lambda g: "vecmat(%s, %s)" % (g.x((2,)), g.x((2, 3))), "multi_dot": lambda g: "multi_dot([%s, %s, %s])" % (g.x((2, 3)), g.x((3, 2)), g.x((2, 4))), "batch_matmul": lambda g: "batch_matmul(%s, %s)" % (g.p(g.values((2, 2, 3))), g.p(g.values((2, 3, 1)))),
    "polyadd": lambda g: "polyadd(%s, %s)" % (g.x((3,)), g.x((2,))), "polysub": lambda g: "polysub(%s, %s)" % (g.x((2,)), g.x((3,))), "polymul": lambda g: "polymul(%s, %s)" % (g.x((3,)), g.x((2,))), "polyder": lambda g: "polyder(%s%s)" % (g.x((4,)), g.some("m=2")), "polyint": lambda g: "polyint(%s%s)" % (g.x((3,)), g.some("k=2")),
    "polyfit": lambda g: "polyfit(arange(5.0), %s, %s)" % (g.p(g.values((5,))), g.one(["1", "2"])), "poly": lambda g: "poly(%s)" % g.x((3,)), "searchsorted": lambda g: "searchsorted(sort(%s), %s%s)" % (g.need(0).x((5,)), g.x(), g.some("side='%s'" % g.one(["left", "right"]))),
    "interp": lambda g: "interp(%s, sort(%s), %s%s)" % (g.x(), g.x((5,)), g.x((5,)), g.one(["", ", left=-1.0", ", right=2.0"])),
    "nanmedian": lambda g: "nanmedian(where(%s, nan, %s), axis=%s%s)" % (g.need(0, 9, 1).b(), g.x(), g.axes(), g.some("keepdims=" + g.flag())), "nanquantile": lambda g: "nanquantile(where(%s, nan, %s), %s, axis=%s%s)" % (g.need(0, 9, 1).b(), g.x(), g.one(["0.5", "0.3", "[0.1, 0.9]"]), g.axes(), g.some("keepdims=" + g.flag(), "method='%s'" % g.one(["linear", "lower", "higher", "nearest", "midpoint"]))), "nanpercentile": lambda g: "nanpercentile(where(%s, nan, %s), 30, axis=%s)" % (g.need(0, 9, 1).b(), g.x(), g.axes()),
    "partition": lambda g: "partition(%s, %d%s)" % (g.need(1, 9, 1).x(), g.r.integers(0, g.s[-1]), ""), "argpartition": lambda g: "sort(argpartition(%s, 0), axis=-1)" % g.need(1, 9, 1).x(), "sort_key_val": lambda g: "sort_key_val(%s, %s)[1]" % (g.p(g.values((5,))), g.p(g.values((5,)))), "long_sort": lambda g: g.one(["sort(%s%s)", "argsort(%s%s)"]) % (g.x(g.one([(200,), (2, 150)])), g.some("descending=True")), "long_top_k": lambda g: "top_k(%s, %s)[%d]" % (g.x(g.one([(200,), (2, 150), (20,)])), g.one(["9", "20"]), g.r.integers(2)),
    "gammainc": lambda g: "gammainc(%s, %s)" % (g.x(None, 0.1, g.one([4, 30])), g.x(None, 0.05, g.one([4, 40]))), "gammaincc": lambda g: "gammaincc(%s, %s)" % (g.x(None, 0.1, g.one([4, 30])), g.x(None, 0.05, g.one([4, 40]))), "igamma": lambda g: "igamma(%s, %s)" % (g.p(g.values(g.s, 0.1, 4)), g.p(g.values(g.s, 0.1, 6))), "igammac": lambda g: "igammac(%s, %s)" % (g.p(g.values(g.s, 0.1, 4)), g.p(g.values(g.s, 0.1, 6))),
    "betainc": lambda g: "betainc(%s, %s, %s)" % (g.one(["2.0", "0.5", "7.5"]), g.one(["1.0", "3.0", "0.3"]), g.u()), "exp1": lambda g: "exp1(%s)" % g.x(None, 0.05, 20), "expi": lambda g: "expi(%s)" % g.p(g.values(g.s, -10, g.one([10, 60]))), "expn": lambda g: "expn(%s, %s)" % (g.one(["1", "2", "5", "0"]), g.x(None, 0.05, 10)), "spence": lambda g: "spence(%s)" % g.x(None, 0.01, 5),
    "multigammaln": lambda g: "multigammaln(%s, %s)" % (g.x(None, 2.5, 9), g.one(["1", "2", "4"])), "gamma": lambda g: "gamma(%s)" % g.one([g.pos, g.x])(), "factorial": lambda g: "factorial(%s)" % g.one([g.pos, lambda: g.i(None, 0, 6)])(), "beta": lambda g: "beta(%s, %s)" % (g.pos(), g.pos()), "poch": lambda g: "poch(%s, %s)" % (g.pos(), g.pos()), "rel_entr": lambda g: "rel_entr(%s, %s)" % (g.u(), g.u(g.fits())), "kl_div": lambda g: "kl_div(%s, %s)" % (g.u(), g.u()), "lgamma": lambda g: "lgamma(%s)" % g.pos(),
    "qr": lambda g: "qr(%s%s)%s" % g.one([(tall(g)[0], "", "[%d]" % g.r.integers(2)), (tall(g, ((3, 3), (2, 2)))[0], ", mode='complete'", "[%d]" % g.r.integers(2)), (tall(g)[0], ", mode='r'", "")]),
    "eigh": lambda g: g.one(["eigh(%s)[0]", "abs(eigh(%s)[1])", "eigh(%s)[1] ** 2"]) % symmetric(g), "eigvalsh": lambda g: "eigvalsh(%s)" % symmetric(g), "svd": lambda g: g.one(["svd(%s, full_matrices=False)[1]", "svd(%s, compute_uv=False)", "abs(svd(%s, full_matrices=False)[0])", "svd(%s, full_matrices=False)[2] ** 2"]) % tall(g)[0], "svdvals": lambda g: "svdvals(%s)" % tall(g)[0],
    "pinv": lambda g: "pinv(%s)" % tall(g)[0], "lstsq": lambda g: "lstsq(%s, %s)[0]" % (tall(g, ((3, 2), (3, 3)))[0], g.x(g.one([(3,), (3, 2)]))), "matrix_rank": lambda g: "matrix_rank(%s)" % tall(g)[0], "cond": lambda g: "cond(%s%s)" % (square(g)[0], g.some("p=" + g.one(["1", "2", "inf"]))), "matrix_power": lambda g: "matrix_power(%s, %s)" % (square(g)[0], g.one(["0", "1", "2", "3", "5"])), "expm": lambda g: "expm(%s)" % square(g)[0],
    "solve_triangular": lambda g: (lambda m, n, b: "solve_triangular(%s + 3 * eye(%d), %s%s)" % (m, n, g.x(b + (n, 2)), g.some("lower=True", "trans=1", "unit_diagonal=True")))(*square(g)), "cho_factor": lambda g: (lambda m, n, b: "triu(cho_factor(%s @ swapaxes(%s, -1, -2) + eye(%d))[0])" % (m, m, n))(*square(g)), "cho_solve": lambda g: (lambda m, n, b: "cho_solve(cho_factor(%s @ swapaxes(%s, -1, -2) + eye(%d)), %s)" % (m, m, n, g.x(b + (n, 1))))(*square(g)),
    "tensorinv": lambda g: "tensorinv(reshape(%s + 3 * eye(4), (2, 2, 4)), ind=2)" % tall(g, ((4, 4),))[0], "tensorsolve": lambda g: "tensorsolve(reshape(%s + 4 * eye(4), (2, 2, 4)), %s)" % (tall(g, ((4, 4),))[0], g.x((2, 2))), "cholesky": lambda g: (lambda m, n, b: "cholesky(%s @ swapaxes(%s, -1, -2) + eye(%d)%s)" % (m, m, n, g.some("upper=True")))(*square(g)),
})
def plain(g):
    g.flavour, g.narrow = "plain", None
    return g


COMPLEX = ["abs(%s)", "real(%s)", "imag(%s)", "abs(%s) ** 2", "angle(%s + 3.0)"]
for name in ("fft", "ifft", "rfft"):
    MAKE[name] = (lambda n: lambda g: g.one(COMPLEX) % ("%s(%s%s)" % (n, plain(g).p(g.values(g.one([(4,), (5,), (2, 6), (36,), (1,)]))), g.some("n=" + g.one(["3", "8"]), "norm='%s'" % g.one(["ortho", "forward"])))))(name)
for name in ("fft2", "ifft2", "rfft2"):
    MAKE[name] = (lambda n: lambda g: g.one(COMPLEX) % ("%s(%s%s)" % (n, plain(g).p(g.values(g.one([(3, 4), (2, 4, 3)]))), g.some("axes=(0, 1)", "norm='ortho'"))))(name)
for name in ("fftn", "ifftn", "rfftn"):
    MAKE[name] = (lambda n: lambda g: "abs(%s(%s%s))" % (n, g.p(g.values(g.one([(3, 4), (2, 3, 4), (5,)]))), g.one(["", ", norm='ortho'", ", axes=(0,)", ", s=(3,)"])))(name)
MAKE["irfftn"] = lambda g: "irfftn(rfftn(%s)%s)" % (plain(g).p(g.values(g.one([(3, 4), (2, 3, 4), (6,)]))), g.some("norm='ortho'"))
MAKE["slice"] = lambda g: "%s[slice(%s), slice(None, None, -1)]" % (g.x((3, 4)), g.one(["2", "1, 3", "None, None, 2", "-1, None"]))
MAKE["dynamic_update_index_in_dim"] = lambda g: "dynamic_update_index_in_dim(%s, %s, %s, axis=%s)" % (g.p(g.values((3, 4))), *g.one([(g.p(g.values((4,))), g.i((), -2, 5), "0"), (g.p(g.values((3, 1))), g.i((), -2, 5), "1")]))
MAKE["irfft2"] = lambda g: "irfft2(rfft2(%s)%s)" % (plain(g).p(g.values((3, 4))), g.some("norm='ortho'"))
for name in ("convolve2d", "correlate2d"):
    MAKE[name] = (lambda n: lambda g: "%s(%s, %s%s)" % (n, g.p(g.values(g.one([(4, 5), (4, 5), (2, 2)]))), g.p(g.values(g.one([(2, 3), (3, 3), (2, 2), (4, 1), (1, 4)]))), g.some("mode='%s'" % g.one(["full", "same", "valid"]))))(name)
for name in ("sum", "prod", "max", "min", "and", "or"):
    MAKE["reduce_" + name] = (lambda n: lambda g: "reduce_%s(%s, (0,))" % (n, (g.b if n in ("and", "or") else g.x)(g.one([(3,), (2, 3)]))))(name)
MAKE["convert_element_type"] = lambda g: "convert_element_type(%s, 'int32')" % g.x()
for name in ("shift_left", "shift_right_arithmetic"):
    MAKE[name] = (lambda n: lambda g: "%s(%s, %s)" % (n, g.i(), g.i(None, 0, 9)))(name)
MAKE["irfft"] = lambda g: "irfft(rfft(%s) * 2.0%s)" % (g.p(g.values(g.one([(4,), (6,), (2, 8), (36,)]))), g.some("n=5", "norm='ortho'"))
COMPLEX_OF = ["%s * (1.0 + 0)", "%s - {x}", "%s / complex(2.0 + {u}, 1.0)", "%s * complex({u}, 2.0)", "exp(%s)", "log(%s + 9.0)", "sqrt(%s + 9.0)", "sin(%s)", "cosh(%s)", "tanh(%s)", "(%s + 9.0) ** {u}", "(%s + 9.0) ** complex({u}, 0.5)",
              "concatenate([%s, {x}])", "stack([{x}, %s])", "where({x} > 0, %s, {x})", "where({x} > 0, %s, 1)", "outer(%s, {x})", "dot(%s, complex({x}, {x}))", "einsum('i,j,i->j', %s, {x}, complex({x}, 0.5))", "vdot(%s, complex({x}, {x}))",
              "conj(tile(%s, 2))", "pad(%s, 1, constant_values=0.5)", "diff(%s)", "split(%s, 3)[1]", "cumsum(%s)", "sum(%s, initial=0.5)", "take(%s, array([2, 0]))", "repeat(%s, 2)", "matmul({x}, %s)", "reshape(%s, (3, 1)) @ complex({x}, 1.0)[None]"]
MAKE["complex"] = lambda g: g.one(COMPLEX) % (lambda form, z: form.replace("%s", z).replace("{x}", g.p(g.values((3,)))).replace("{u}", g.p(g.values((), 0, 1))))(g.one(COMPLEX_OF), "complex(%s, %s)" % (plain(g).p(g.values((3,))), g.p(g.values((3,)))))
for name in ("fftfreq", "rfftfreq"):
    MAKE[name] = (lambda n: lambda g: "%s(%s%s)" % (n, g.one(["4", "5", "1"]), g.some("d=0.5")))(name)
for name in ("fftshift", "ifftshift"):
    MAKE[name] = (lambda n: lambda g: "%s(%s%s)" % (n, g.need(1).x(), g.some("axes=" + g.axis())))(name)
for name in ("dct", "idct"):
    MAKE[name] = (lambda n: lambda g: "%s(%s%s)" % (n, g.p(g.values(g.one([(4,), (5,), (2, 3)]))), g.some("norm='ortho'", "axis=0")))(name)
for name in ("bartlett", "blackman", "hamming", "hanning"):
    MAKE[name] = (lambda n: lambda g: "%s(%s)" % (n, g.one(["1", "2", "5", "8"])))(name)
for name in ("acos", "asin", "atanh"):
    MAKE[name] = (lambda n: lambda g: "%s(%s)" % (n, g.x(None, -0.99, 0.99)))(name)
def large(g):
    """Matrices of more rows than are unrolled."""
    m, n, _ = square(g)
    return g.one(["solve(%s + 9 * eye({0}), ones({0}))", "inv(%s + 9 * eye({0}))", "slogdet(%s + 9 * eye({0}))[1]", "cholesky(%s @ transpose(%s) + 9 * eye({0}))", "qr(%s)[0]", "qr(%s)[1]", "svdvals(%s)", "eigvalsh(%s)", "det(%s / 2)"]).format(n).replace("%s", m)


MAKE["large"] = large
def convolution(g):
    """Input, kernel and result in any order of dimensions, in groups, apart, cropped."""
    rank, groups, r = g.one([0, 1, 1, 2, 2, 2]), g.one([1, 1, 2]), lambda *values: "(%s)" % "".join("%s, " % g.one(values) for _ in range(rank))
    sizes, taps, first, each = [int(g.one("3456")) for _ in range(rank)], [int(g.one("123")) for _ in range(rank)], int(g.one("12")), int(g.one("12"))
    letters = "HW"[:rank]
    spec = lambda named: "".join(g.one([named + letters, named[0] + letters + named[1], letters + named[::-1]]))
    specs = [spec("NC"), spec("OI"), spec("NC")] if g.chance(0.6) else ["NC" + letters, "OI" + letters, "NC" + letters]
    extents = [{"N": 2, "C": first * groups, **dict(zip(letters, sizes))}, {"I": first, "O": each * groups, **dict(zip(letters, taps))}]
    shapes = [tuple(of[c] for c in spec) for of, spec in zip(extents, specs)]
    padding = g.one(["'SAME'", "'SAME_LOWER'", "[%s]" % ", ".join("(%s, %s)" % (g.one("324"), g.one("123")) for _ in range(rank))])
    more = ["dimension_numbers=('%s', '%s', '%s')" % tuple(specs)] + (["feature_group_count=%d" % groups] if groups > 1 else []) + (["rhs_dilation=" + r(1, 2)] if g.chance(0.4) else [])
    more += ["lhs_dilation=" + r(1, 2, 3)] if padding[0] == "[" and g.chance(0.5) else []
    return "conv_general_dilated(%s, %s, %s, %s, %s)" % (g.p(g.values(shapes[0])), g.p(g.values(shapes[1])), r(1, 2), padding, ", ".join(more))


MAKE["conv_general_dilated"] = convolution
MAKE["acosh"] = lambda g: "acosh(%s)" % g.x(None, 1.0, 5.0)
for name in ("bitwise_left_shift", "bitwise_right_shift"):
    MAKE[name] = (lambda n: lambda g: "%s(%s, %s)" % (n, g.i(), g.whole2()))(name)
for name in ("sum", "mean", "prod", "max", "min", "amax", "amin", "any", "all", "var", "std", "ptp", "count_nonzero", "nansum", "nanmean", "nanmax", "nanmin", "nanvar", "nanstd", "nanprod"):
    MAKE[name] = reduction(name) if not name.startswith("nan") else (lambda n: lambda g: "%s(where(%s, nan, %s), axis=%s%s)" % (n, g.need(0, 9, 1).b(), g.x(), g.axes(), g.some("keepdims=" + g.flag())))(name)
for name in ("cumsum", "cumprod"):
    MAKE[name] = (lambda n: lambda g: "%s(%s, axis=%s%s)" % (n, g.any(), g.axis_or_none(), g.some("reverse=" + g.flag())))(name)
for name in ("arcsin", "arccos", "arctanh", "erfinv", "erf_inv"):
    MAKE[name] = (lambda n: lambda g: "%s(%s)" % (n, g.x(None, -0.99, 0.99) if g.chance(0.8) else g.x()))(name)
for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "gammaln", "digamma"):
    MAKE[name] = (lambda n: lambda g: "%s(%s)" % (n, g.pos() if g.chance(0.7) else g.any()))(name)
for name in ("arccosh",):
    MAKE[name] = lambda g: "arccosh(%s)" % (g.x(None, 1.0, 5.0) if g.chance(0.8) else g.x())
for name in ("logit", "entr", "ndtri"):
    MAKE[name] = (lambda n: lambda g: "%s(%s)" % (n, g.u() if g.chance(0.8) else g.x()))(name)
for name in ("erfc", "ndtr", "log_ndtr"):
    MAKE[name] = (lambda n: lambda g: "%s(%s)" % (n, g.x(None, -9, 9)))(name)
for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
    MAKE[name] = (lambda n: lambda g: "%s(%s, %s)" % (n, g.i(), g.whole2()))(name)
COMPOSED = ["tanh({}) * {}", "where({} > {}, sin({}), {} ** 2)", "sum(softplus({}) * {})", "mean(({} - {}) ** 2)", "logsumexp({}) - {}", "maximum({}, {}) / (1 + {} ** 2)", "({} + {}) // 0.7", "exp(-abs({})) % ({} ** 2 + 0.3)",
            "sigmoid({} * 2) + relu({}) - {}", "sqrt({} ** 2 + {} ** 2 + 1e-3)", "clip({}, -1, 1) * sign({})", "cumsum(ravel({} * {}))", "sort(ravel({}))[::-1]", "stop_gradient({}) * {}"]
OPERATORS = {"operator", "whole_operator", "unary_operator", "power_operator", "index", "matmul_operator", "at", "method", "long_sort", "long_top_k", "large"}
SKIP = HIDDEN | {"make_fenchel_young_loss", "compute_weighted_cross_entropy", "gradient_last", "interp_inside", "convolve_sized", "slide", "log_ndtr_low"}  # not functions of tensors alone


def make(seed, number, only):
    g = Call(seed, number)
    pool = sorted((set(FUNCTIONS) | set(LOSSES) | OPERATORS) - SKIP)
    name = only[number % len(only)] if only else pool[(number - number // 4 - 1) % len(pool)] if number % 4 else "composed"
    g.function = name
    if name == "composed":
        text = g.one(COMPOSED)
        while "{}" in text:
            inner = g.one(["{y}", "{y}", "{y}", "tanh({y})", "{y} ** 2", "abs({y})", "({y} + {y})", "({y} * {y})"])
            for _ in range(inner.count("{y}")):
                inner = inner.replace("{y}", g.x(g.fits()), 1)
            text = text.replace("{}", inner, 1)
    elif name in MAKE:
        text = MAKE[name](g)
    else:
        signature = FUNCTIONS.get(name, LOSSES.get(name, "x")).split()
        required = [a for a in signature if "=" not in a and a[0] not in "~!"]
        text = "%s(%s)" % (name, ", ".join(g.any() if k == 0 else g.any2() for k in range(len(required))))
    g.text = text % name if "%s" in text else text
    return g


# ---------------------------------------------------------------- written ones

def written_tensors():
    """What the expressions of written_expressions.txt are about: params (f..), integers (i..) and bools (b..)."""
    r = np.random.default_rng(7)
    f = lambda *s: r.normal(size=s).astype(np.float32)
    params = {"fa": f(3, 4), "fb": f(3, 4), "fv": f(4), "fu": f(3), "fs": f(), "fm": f(3, 3) + 2 * np.eye(3, dtype=np.float32), "ft": f(2, 3, 4), "fc": f(2, 3, 4, 2), "fh": f(4, 3), "fl": f(7), "fw": f(3, 1)}
    params.update(fp=np.abs(f(3, 4)) + np.float32(0.3), fx=np.round(f(3, 4) * 2) / 2, fd=np.array([[4, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]], np.float32), f0=np.array([0.0, -0.0, 1.0, -1.0], np.float32))
    inputs = {"ii": r.integers(-4, 6, (3, 4)), "ip": r.integers(1, 9, (3, 4)), "im": r.integers(0, 3, (3, 4)), "ij": np.array([0, 2, 1, 2]), "il": np.array([2, 0, 1]), "iw": np.array([5, -7, 1, 3]), "ik": np.array(2)}
    inputs = {k: v.astype(np.int32) for k, v in inputs.items()}
    inputs.update(bc=r.random((3, 4)) < 0.6, bd=np.array([True, False, True, True]), bu=np.array([True, False, True]))
    return params, inputs


def written_calls():
    params, inputs = written_tensors()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "written_expressions.txt")) as f:
        lines = [line.strip() for line in f if line.strip() and line[0] != "#"]
    name = r"(?<!['\w.])([bfi][a-z0-9])\b(?!')"
    for number, line in enumerate(lines):
        rough, line = line[0] == "~", line.lstrip("~ ") if line[:2] == "~ " else line
        g = types.SimpleNamespace(prefix="w%d" % number, function="written", flavour="rough" if rough else "plain")
        used = set(re.findall(name, line))
        g.params, g.inputs = {k: v for k, v in params.items() if k in used}, {"%s_%s" % (g.prefix, k): v for k, v in inputs.items() if k in used}
        g.text = re.sub(name, lambda m: "params.%s_%s" % (g.prefix, m[1]) if m[1] in params else "%s_%s" % (g.prefix, m[1]) if m[1] in inputs else m[1], line)
        yield g


# ---------------------------------------------------------------- by JAX

def evaluate(g, weights, factor=0.0):
    """The value and the gradients of sum(value * weights), or None where the value is an integer."""
    code = compile(ast.parse(g.text.replace("params.", "params_"), mode="eval"), "expression", "eval")

    def value(params, inputs):
        space = dict(SPACE, **inputs, **{"params_%s_%s" % (g.prefix, k): v for k, v in params.items()})
        return jnp.asarray(eval(code, {"__builtins__": {}}, space))

    params = {k: jnp.asarray(v * np.float32(1 + factor * (1 if v.ndim == 0 else np.cos(np.arange(v.size)).reshape(v.shape))) if factor else v, jnp.float32) for k, v in g.params.items()}
    inputs = {k: jnp.asarray(v) for k, v in g.inputs.items()}
    shape = jax.eval_shape(value, params, inputs)
    if not jnp.issubdtype(shape.dtype, jnp.floating) or not params:
        return np.asarray(jax.jit(value)(params, inputs)), None, shape
    w = jnp.asarray(weights[:int(np.prod(shape.shape))].reshape(shape.shape))
    out, grads = jax.jit(lambda p, i: (value(p, i), jax.grad(lambda q: jnp.sum(value(q, i).astype(jnp.float32) * w))(p)))(params, inputs)
    return np.asarray(out.astype(jnp.float32)), {k: np.asarray(v) for k, v in grads.items()}, shape


# ---------------------------------------------------------------- by stepc

def document(calls, weights):
    nodes, metrics, inputs, terms = [{"type": "param", "name": "zero", "shape": []}], {}, {"weights": {"shape": [WEIGHTS], "dtype": "float32", "axes": [None]}}, ["params.zero"]
    for g in calls:
        nodes += [{"type": "param", "name": "%s_%s" % (g.prefix, k), "shape": list(v.shape)} for k, v in g.params.items()]
        for k, v in g.inputs.items():
            inputs[k] = {"shape": list(v.shape), "dtype": {"i": "int32", "b": "bool", "f": "float32"}[v.dtype.kind], "axes": [None] * v.ndim}
        metrics[g.prefix] = "astype(%s, '%s')" % (g.text, "float32" if g.shape.dtype in (jnp.bfloat16, jnp.float16) else g.shape.dtype) if g.shape.dtype != jnp.float32 else g.text
        if g.want[1] is not None:
            size = int(np.prod(g.shape.shape))
            # a value that stepc cannot differentiate is named by its metric, not by the loss of all
            terms.append("sum((%s) * reshape(weights[:%d], %s))" % (g.text, size, "(" + "".join("%d, " % d for d in g.shape.shape) + ")"))
            for k in g.params:
                metrics["g_%s_%s" % (g.prefix, k)] = "grads.%s_%s" % (g.prefix, k)
    return {"stepc": 1, "name": "fuzz", "inputs": inputs, "model": {"type": "graph", "nodes": nodes, "output": "zero"}, "loss": " + ".join(terms), "metrics": metrics, "optimizer": {"type": "sgd", "learning_rate": 0.0}}


def play(options, calls, weights, compiled):
    """Metrics, or the message of what went wrong."""
    with tempfile.TemporaryDirectory(prefix="stepc-fuzz-") as tmp:
        init = {"zero": np.float32(0), **{"%s_%s" % (g.prefix, k): v for g in calls for k, v in g.params.items()}}
        runner.write_document(tmp, document(calls, weights), {"weights": weights[None], **{k: v[None] for g in calls for k, v in g.inputs.items()}}, init)
        try:
            return runner.play(options.stepc, tmp, 1, compiled)[1][0]
        except runner.Failed as e:
            return str(e)


def play_all(options, calls, weights, compiled):
    """(call, metrics) of those that work, (call, message) of the others; what fails is found by halves."""
    if not calls:
        return [], []
    got = play(options, calls, weights, compiled)
    if isinstance(got, dict):
        return [(g, got) for g in calls], []
    if len(calls) == 1:
        return [], [(calls[0], got)]
    named = set(re.findall(r"/metrics/(c\d+)\b", got))
    blamed = [g for g in calls if g.prefix in named]
    if blamed:
        fine, faults = play_all(options, [g for g in calls if g not in blamed], weights, compiled)
        for g in blamed:
            a, b = play_all(options, [g], weights, compiled)
            fine, faults = fine + a, faults + b
        return fine, faults
    half = len(calls) // 2
    a, b = play_all(options, calls[:half], weights, compiled), play_all(options, calls[half:], weights, compiled)
    return a[0] + b[0], a[1] + b[1]


def numbers(value, shape):
    return np.asarray(comparison.numbers(value), "f8").reshape(shape) if np.size(comparison.numbers(value)) == int(np.prod(shape)) else None


def differs(g, what, got, want, noisy):
    narrow = "bfloat16" if "bfloat16" in g.text else "float16" if "float16" in g.text else None
    rtol, atol = {None: (2e-5, 2e-6), "float16": (4e-3, 2e-3), "bfloat16": (3e-2, 2e-2)}[narrow]
    want, got = np.asarray(want, "f8"), numbers(got, np.shape(want))
    if FUNCTIONS.get(g.function) == "x" and not narrow:  # small values count, too
        rtol, atol = 1e-4, 1e-30
    if got is None:
        return "%s: another shape than %s" % (what, list(np.shape(want)))
    scale = np.abs(want[np.isfinite(want)]).max(initial=0) * rtol * (0.1 if atol > 1e-20 else 0)
    bad = comparison.differences(got, want, rtol, atol, scale)
    if bad.any():
        with np.errstate(all="ignore"):
            bad &= comparison.differences(got, want, slack=4 * np.abs(np.asarray(noisy(), "f8") - want))
    said = comparison.in_words(got, want, bad)
    return said and what + said


def kinder(g, got):
    """Whether the only differences are gradients that are NaN by JAX (0 times infinity) and not here."""
    for k in g.params if g.want[1] is not None else ():
        value = numbers(got["g_%s_%s" % (g.prefix, k)], g.want[1][k].shape)
        nan = np.isnan(g.want[1][k])
        if value is None or not np.allclose(value[~nan], g.want[1][k][~nan], 1e-3, 1e-5, equal_nan=True):
            return False
    return True


def judge(g, got, weights):
    noise = {}
    def noisy(which):
        if not noise:
            noise.update(zip(("value", "grads"), evaluate(g, weights, 1e-6)[:2]))
        return noise["value"] if which is None else noise["grads"][which]
    why = differs(g, "value", got[g.prefix], g.want[0], lambda: noisy(None))
    for k in (g.params if g.want[1] is not None else ()):
        why = why or differs(g, "gradient of " + k, got["g_%s_%s" % (g.prefix, k)], g.want[1][k], lambda: noisy(k))
    return why


# ---------------------------------------------------------------- recording

# what has no derivative that differences would find: it stops or scales gradients, or looks at bits
ROUGH = {"stop_gradient", "scale_gradient", "frexp", "nextafter", "spacing", "make_fenchel_young_loss"}
NOT_IN_JAX = {"nextafter", "spacing", "segment_prod"}  # have no gradient there
RECORD_WEIGHTS = np.cos(np.arange(WEIGHTS) + 1.0).astype(np.float32)


def recorded_calls(name, seed):
    """Two of the calls of a function that JAX takes: a plain one with a gradient if there is one, and any other."""
    plain, other = [], []
    for number, g in enumerate(written_calls() if name == "written" else [None] * 16):
        try:
            g = g or make(seed, 1000 + number, [name])
            code = compile(ast.parse(g.text.replace("params.", "params_"), mode="eval"), "expression", "eval")
            def value(params, inputs, g=g, code=code):
                space = dict(SPACE, **inputs, **{"params_%s_%s" % (g.prefix, k): v for k, v in params.items()})
                return jnp.asarray(eval(code, {"__builtins__": {}}, space))
            g.value = value
            g.shape = jax.eval_shape(value, *[{k: jnp.asarray(v) for k, v in d.items()} for d in (g.params, g.inputs)])
        except Exception as e:
            if name == "written":
                print("%s: %s: %s" % (g.text, type(e).__name__, str(e).strip()[:200]))
            continue
        if name == "written":
            plain.append(g)
            continue
        if int(np.prod(g.shape.shape)) > (100 if name == "large" else 40) or sum(v.size for v in {**g.params, **g.inputs}.values()) > (210 if name.startswith("l") else 100):
            continue
        smooth = g.flavour == "plain" and not re.search("float16|int8", g.text) and g.params and g.shape.dtype == jnp.float32 and int(np.prod(g.shape.shape))
        (plain if smooth else other).append(g)
    return plain if name == "written" else plain[:8] if name == "large" else (plain[:1] + other[:1] + plain[1:2] + other[1:2])[:2]


def numbers_of(v):
    v = np.asarray(v)
    flat = [float(x) if v.dtype.kind not in "iub" else int(x) for x in (v.astype("f4") if str(v.dtype) in ("bfloat16", "float16") else v).ravel()]
    text = [x if isinstance(x, int) else float("%.9g" % x) if np.isfinite(x) else {np.inf: "Infinity", -np.inf: "-Infinity"}.get(x, "NaN") for x in flat]
    return {"shape": list(v.shape), "dtype": str(v.dtype), "values": text}


def record(options):
    names = sorted(options.only or (set(FUNCTIONS) | set(LOSSES) | OPERATORS | {"written"}) - SKIP)
    kept = []
    if options.only and os.path.exists(options.record):
        with open(options.record) as f:
            kept = [c for c in json.load(f)["cases"] if c["function"] not in names]
    calls = [g for name in names for g in recorded_calls(name, options.seed)]
    missing = sorted(set(names) - {g.function for g in calls})

    def loss(params, inputs, g):
        v = g.value(params, inputs)
        return jnp.sum(v.astype(jnp.float32) * RECORD_WEIGHTS[:v.size].reshape(v.shape)), v

    def one(g, params, inputs):
        if g.function in NOT_IN_JAX or not g.params or not jnp.issubdtype(g.shape.dtype, jnp.floating):
            return g.value(params, inputs), {}
        grads, v = jax.grad(loss, has_aux=True)(params, inputs, g)
        return v, grads

    def run(batch):
        every = jax.jit(lambda ps, ins: [one(g, p, i) for g, p, i in zip(batch, ps, ins)])
        return every([g.params for g in batch], [g.inputs for g in batch])

    for first in range(0, len(calls), 16):
        batch, results = calls[first:first + 16], []
        try:
            results = run(batch)
        except Exception:
            for g in batch:
                try:
                    results += run([g])
                except Exception as e:
                    missing.append("%s (%s)" % (g.function, type(e).__name__))
                    results.append(None)
        for g, r in zip(batch, results):
            if r is None:
                continue
            tensors = {"%s_%s" % (g.prefix, k): numbers_of(v) for k, v in g.params.items()}
            tensors.update({k: numbers_of(v) for k, v in g.inputs.items()})
            rough = g.function in ROUGH or g.flavour != "plain" or bool(re.search("float16|int8|int16|'int32'", g.text))
            kept.append({"function": g.function, "expr": g.text.replace("params.", ""), "rough": rough, "inputs": tensors, "value": numbers_of(r[0]),
                         "grads": {"%s_%s" % (g.prefix, k): numbers_of(v) for k, v in r[1].items()}})
        jax.clear_caches()
        print("%d of %d" % (min(first + 16, len(calls)), len(calls)), flush=True)
    kept.sort(key=lambda c: (c["function"], c["expr"]))
    with open(options.record, "w") as f:
        f.write('{"cases": [\n' + ",\n".join(json.dumps(c) for c in kept) + "\n]}\n")
    print("without a case: " + " ".join(missing))


def main():
    p = command.parser(__doc__, 300, keep=False)
    p.add_argument("--batch", type=int, default=50, help="expressions per document")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--first", type=int, default=0, help="number of the first case")
    p.add_argument("--compile", action="store_true", help="compile instead of interpreting")
    p.add_argument("--only", nargs="*", help="functions, or index, operator, composed and the like")
    p.add_argument("--written", action="store_true", help="those of written_expressions.txt alone")
    p.add_argument("--record", metavar="FILE", help="write tests/unit/frontend/function_cases.json")
    options = p.parse_args()
    if options.record:
        return record(options)
    weights = np.random.default_rng(1).normal(size=WEIGHTS).astype(np.float32)
    counts, seen = collections.Counter(), collections.Counter()

    def say(kind, g, why):
        counts[kind] += 1
        if kind in ("differs", "refused", "generator") or options.v:
            print("%s %s (%s): %s\n    %s" % (kind, g.prefix, g.function, why, "; ".join([g.text] + ["%s=%s" % (k, re.sub(r"\s+", " ", str(v.tolist()))) for k, v in {**g.params, **g.inputs}.items() if v.size <= 12])), flush=True)

    written = list(written_calls()) if options.written else None
    if written:
        options.first, options.cases = 0, len(written)
    for first in range(options.first, options.first + options.cases, options.batch):
        calls = []
        for number in range(first, min(first + options.batch, options.first + options.cases)):
            g = written[number] if written else make(options.seed, number, options.only)
            try:
                g.want = evaluate(g, weights)
                g.shape = g.want[2]
                if g.want[0].size > WEIGHTS or g.want[0].size == 0 and g.want[0].ndim == 0:
                    continue
                calls.append(g)
            except NameError as e:
                say("generator", g, str(e))
            except Exception as e:  # JAX refuses it
                say("refused by JAX", g, "%s: %s" % (type(e).__name__, str(e).strip()[:150]))
        fine, faults = play_all(options, calls, weights, options.compile)
        for g, why in faults:
            say("refused", g, re.sub(r"\s+", " ", why)[:260])
        for g, got in fine:
            why = judge(g, got, weights)
            forgiven = why and why.startswith("gradient") and kinder(g, got)
            say("no NaN" if forgiven else "differs" if why else "agrees", g, why or "")
            seen[g.function] += not why
        jax.clear_caches()
    print(command.summary(counts))
    never = sorted((set(FUNCTIONS) | set(LOSSES)) - set(seen) - HIDDEN)
    if never and not options.only and not written:
        print("never in a case that agrees: " + " ".join(never))
    return 1 if counts["differs"] or counts["generator"] else 0


if __name__ == "__main__":
    sys.exit(main())
