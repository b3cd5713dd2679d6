#!/usr/bin/env python3
"""Random losses against Optax: every loss with random shapes, arguments, masks, weights, reductions and dtypes,
values at the edges among them (infinite and huge logits, ties, labels of 0 and 1, empty batches). A document holds the
predictions as a parameter, two steps of gradient descent show the loss and its gradient; some work through the rows in
microbatches, some of those compiled are spread over devices.

    tests/fuzz/losses.py --stepc build/stepc --cases 300 [--seed 0] [--compile 0.3] [--only huber_loss ctc_loss]

It needs JAX and Optax 0.2.8; it is run by hand.
"""
import collections
import json
import os
import re
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
import sharded
from tool import command, comparison, draws, recorded, runner

RTOL, ATOL, RATE, STEPS = 3e-5, 3e-6, 0.5, 2


def t5x_cross_entropy(logits, targets, weights=None, label_smoothing=0.0, z_loss=0.0, loss_normalizing_factor=None):
    """T5X's, written out."""
    classes = logits.shape[-1]
    confidence, low = 1.0 - label_smoothing, label_smoothing / (classes - 1)
    constant = -(confidence * np.log(confidence) + (classes - 1) * low * np.log(low + 1e-20))
    soft = jnp.where(targets[..., None] == jnp.arange(classes), confidence, low).astype(jnp.float32)
    log_z = jax.scipy.special.logsumexp(logits, axis=-1, keepdims=True)
    loss = -jnp.sum(soft * (logits - log_z), axis=-1) + z_loss * jnp.square(log_z[..., 0]) - constant
    if weights is not None:
        loss = loss * weights
    if loss_normalizing_factor is not None:
        loss = loss / loss_normalizing_factor
    return jnp.sum(loss)


class Draw(draws.Draws):
    """The arguments of one loss: what the document says of each, and its value."""

    def __init__(self, seed):
        super().__init__(seed)
        self.inputs, self.literals, self.init, self.mapped = {}, {}, {}, {}
        self.wild = self.chance(0.3)

    def shape(self, least=1, most=3, empty=True):
        out = [int(self.one([1, 2, 3, 4, 5, 6])) for _ in range(self.r.integers(least, most + 1))]
        if empty and len(out) > 1 and self.chance(0.04):
            out[0] = 0
        return out

    # Arguments: predictions are parameters (all of one gradient), everything else is an input.

    def values(self, shape):
        x = self.r.normal(size=shape) * self.one([1, 1, 1, 5])
        if self.wild and x.size:
            kind = self.one(["huge", "infinite", "minus", "ties", "zeros", "nan"])
            some = self.r.random(shape) < 0.2
            x = {"huge": np.where(some, x * 1e4, x), "infinite": np.where(some, np.inf, x), "minus": np.where(some, -np.inf, x), "ties": np.round(x),
                 "zeros": np.where(some, 0.0, x), "nan": np.where(some & self.chance(0.3), np.nan, x)}[kind]
        return np.asarray(x, np.float32)

    def param(self, name, shape, values=None):
        self.init[name] = np.asarray(self.values(shape) if values is None else values, np.float32)

    def input(self, name, value, batch=True):
        self.inputs[name] = np.asarray(value)
        self.mapped[name] = batch

    def literal(self, name, value, text=None):
        self.literals[name] = (value, value if text is None else text)

    def maybe(self, p, name, value, text=None):
        if self.chance(p):
            self.literal(name, value, text)

    def axis(self, rank, several=False):
        if self.chance(0.5):
            return -1
        if several and rank > 1 and self.chance(0.5):
            return [int(i) for i in sorted(self.r.permutation(rank)[:2])]
        return self.one([int(self.r.integers(rank)), -int(self.r.integers(rank)) - 1])

    def mask(self, shape):
        m = self.r.random(shape) < self.one([0.2, 0.5, 0.8])
        return m if self.chance(0.8) else m.astype(self.one(["int32", "float32"])) if self.chance(0.2) else m

    def distribution(self, shape, axis=-1):
        y = np.exp(self.r.normal(size=shape) * 2)
        if self.chance(0.4):
            y = np.where(self.r.random(shape) < 0.3, 0, y) + 0.0
        if self.chance(0.3):
            y = (y == y.max(axis=axis, keepdims=True)).astype(float) if y.size else y
        total = y.sum(axis=axis, keepdims=True)
        return (y / np.where(total == 0, 1, total)).astype(np.float32)

    def binary(self, shape):
        return self.one([self.r.integers(0, 2, shape).astype(np.float32), self.r.random(shape).astype(np.float32), self.r.integers(0, 2, shape).astype(np.int32)])


# ---------------------------------------------------------------- one per loss: arguments by name

def pair(first, second):
    def draw(d):
        s = d.shape(0, 3)
        d.param(first, s)
        if not d.chance(0.15):
            d.input(second, d.r.normal(size=s).astype(np.float32))
            if d.chance(0.1):
                d.inputs[second] = d.init[first].copy()  # no error at all
    return draw


def huber(d):
    pair("predictions", "targets")(d)
    d.maybe(0.7, "delta", d.one([0.5, 1, 2.0, 0.1]))


def cosine(d):
    s = d.shape(1, 3)
    d.param("predictions", s)
    d.input("targets", d.values(s))
    d.maybe(0.6, "epsilon", d.one([0, 0.0, 1e-6, 0.5]))
    d.maybe(0.5, "axis", d.axis(len(s), several=True))
    if d.chance(0.3):
        d.input("where", d.mask(s).astype(bool))


def sigmoid(d):
    s = d.shape(0, 3)
    d.param("logits", s)
    d.input("labels", d.binary(s))


def focal(d):
    sigmoid(d)
    d.maybe(0.5, "alpha", d.one([None, 0, 0.25, 1, 0.7]))
    d.maybe(0.5, "gamma", d.one([0, 1, 2.0, 0.5, 3]))


def softmax(axis=True, where=True):
    def draw(d):
        s = d.shape(1, 3)
        d.param("logits", s)
        a = d.axis(len(s), several=True) if axis and d.chance(0.5) else -1
        d.input("labels", d.distribution(s, tuple(a) if isinstance(a, list) else a))
        if axis and a != -1:
            d.literal("axis", a)
        if where and d.chance(0.3):
            d.input("where", d.mask(s).astype(bool))
    return draw


def poly(d):
    softmax()(d)
    d.maybe(0.6, "epsilon", d.one([0, 0.0, 1, -0.5, 2.0]))


def integer_labels(d):
    s = d.shape(1, 3)
    d.param("logits", s)
    a = d.axis(len(s), several=True) if d.chance(0.4) else -1
    axes = [x % len(s) for x in (a if isinstance(a, list) else [a])]
    rest, classes = [n for i, n in enumerate(s) if i not in axes], int(np.prod([s[i] for i in axes]))
    if classes == 0:
        return integer_labels(d)
    d.input("labels", d.r.integers(0, classes, rest).astype(np.int32), batch=0 not in axes)
    if a != -1:
        d.literal("axis", a)
    if d.chance(0.3):
        d.input("where", d.mask(s).astype(bool))


def divergence(first, second, logs=False):
    def draw(d):
        s = d.shape(1, 3)
        p = d.values(s)
        p = p if d.wild else np.asarray(jax.nn.log_softmax(p, -1))
        d.param(first, s, p)
        y = d.distribution(s)
        if logs:
            with np.errstate(divide="ignore"):
                y = np.log(y) if d.wild else np.log(np.maximum(y, 1e-6))
        d.input(second, y.astype(np.float32))
        d.maybe(0.5, "axis", d.axis(len(s), several=True))
        if d.chance(0.3):
            d.input("where", d.mask(s).astype(bool))
    return draw


def hinge(d):
    s = d.shape(0, 3)
    d.param("predictor_outputs", s)
    d.input("targets", np.where(d.r.random(s) < 0.5, -1, 1).astype(d.one(["float32", "int32"])))


def multiclass(first, least=1, most=3):
    def draw(d):
        s = d.shape(least, most)
        d.wild = d.wild and most == 3
        d.param(first, s)
        d.input("labels", d.r.integers(0, s[-1], s[:-1]).astype(np.int32))
    return draw


def dice(d):
    s = d.shape(3, 4)
    if d.chance(0.3):
        s[-1] = 1
    d.param("predictions", s)
    drop = d.chance(0.2) and s[-1] == 1
    d.input("targets", d.r.integers(0, 2, s[:-1] if drop else s).astype(np.float32))
    if d.chance(0.3):
        d.input("class_weights", d.r.random(s[-1]).astype(np.float32), batch=False)
    d.maybe(0.4, "smooth", d.one([0, 1, 0.5]))
    d.maybe(0.4, "alpha", d.one([0, 0.3, 1]))
    d.maybe(0.4, "beta", d.one([0, 0.7, 1.0]))
    d.maybe(0.4, "reduction", d.one(["mean", "sum", "none"]))
    d.maybe(0.3, "ignore_background", True)
    d.maybe(0.3, "axis", d.one([1, [1, 2] if len(s) > 3 else [1], [0, 1]]))


def binary_dice(d):
    s = d.shape(2, 4)
    d.param("predictions", s)
    d.input("targets", d.r.integers(0, 2, s).astype(np.float32))
    d.maybe(0.4, "smooth", d.one([0, 1, 0.5]))
    d.maybe(0.3, "apply_sigmoid", d.chance(0.5))


def generalized_dice(d):
    s = d.shape(3, 4)
    s[-1] = max(2, s[-1])
    d.param("predictions", s)
    d.input("targets", np.eye(s[-1], dtype=np.float32)[d.r.integers(0, s[-1], s[:-1])])
    d.maybe(0.4, "smooth", d.one([1, 0.5]))
    d.maybe(0.3, "ignore_background", True)


def ranking(d):
    s = d.shape(1, 3)
    d.param("logits", s)
    d.input("labels", d.r.integers(0, 4, s).astype(np.float32))
    if d.chance(0.5):
        d.input("where", d.mask(s).astype(bool))
    if d.chance(0.4):
        d.input("weights", d.r.random(s).astype(np.float32))
    if d.chance(0.5):
        name = d.one(["mean", "sum", None])
        d.literal("reduce_fn", {"mean": jnp.mean, "sum": jnp.sum, None: None}[name], name)


def contrastive(d):
    n = d.one([1, 2, 4, 6])
    d.wild = d.wild and d.chance(0.3)
    d.param("embeddings", [n, d.one([1, 3, 4])])
    d.input("labels", d.r.integers(0, d.one([1, 2, 3]), n).astype(np.int32))
    d.maybe(0.5, "temperature", d.one([0.07, 0.5, 1]))


def triplet(d):
    s = d.shape(1, 3)
    d.param("anchors", s)
    d.param("positives", s)
    d.input("negatives", d.r.normal(size=s).astype(np.float32))
    d.maybe(0.4, "axis", d.axis(len(s)))
    d.maybe(0.4, "norm_degree", d.one([1, 2, 3.0]) if d.chance(0.5) else 2)
    d.maybe(0.4, "margin", d.one([0, 0.5, 3.0]))
    d.maybe(0.4, "eps", d.one([1e-6, 0.1]))


def ctc(d):
    b, t, n, k = d.one([1, 2, 3]), d.one([1, 3, 5, 8]), d.one([1, 2, 4]), d.one([2, 3, 6])
    d.wild = d.wild and d.chance(0.3)
    d.param("logits", [b, t, k])
    blank = d.one([0, 0, k - 1])
    d.input("logit_paddings", (np.arange(t) >= d.r.integers(1, t + 1, (b, 1))).astype(np.float32))
    d.input("labels", (d.r.integers(0, k - 1, (b, n)) + (blank == 0)).astype(np.int32))
    d.input("label_paddings", (np.arange(n) >= d.r.integers(0, n + 1, (b, 1))).astype(np.float32))
    if blank:
        d.literal("blank_id", blank)
    d.maybe(0.3, "log_epsilon", d.one([-1e5, -1e4, -50.0]))


def fenchel(d):
    s = d.shape(1, 3, empty=False)
    d.param("scores", s)
    d.input("targets", d.distribution(s))
    text = d.one(["logsumexp(scores)", "0.5 * sum(scores**2)", "max(scores)", "sum(log1p(exp(scores)))"])
    f = {"logsumexp(scores)": jax.nn.logsumexp, "0.5 * sum(scores**2)": lambda x: 0.5 * jnp.sum(x ** 2), "max(scores)": jnp.max, "sum(log1p(exp(scores)))": lambda x: jnp.sum(jnp.log1p(jnp.exp(x)))}[text]
    d.literal("max_fun", f, text)


def sparsemax(d):
    s = d.shape(0, 3)
    d.param("logits", s)
    d.input("labels", d.r.integers(0, 2, s).astype(d.one(["int32", "float32"])))


def t5x(d):
    s = d.shape(2, 3)
    s[-1] = max(2, s[-1])
    d.param("logits", s)
    d.input("targets", d.r.integers(0, s[-1], s[:-1]).astype(np.int32))
    if d.chance(0.5):
        d.input("weights", d.one([d.r.random(s[:-1]), d.r.integers(0, 2, s[:-1])]).astype(np.float32))
    d.maybe(0.5, "label_smoothing", d.one([0, 0.1, 0.5]))
    d.maybe(0.5, "z_loss", d.one([0, 1e-4, 0.1]))
    d.maybe(0.4, "loss_normalizing_factor", d.one([1, 7.0, 100]))


DRAWS = {"squared_error": pair("predictions", "targets"), "l2_loss": pair("predictions", "targets"), "log_cosh": pair("predictions", "targets"), "huber_loss": huber, "cosine_similarity": cosine,
         "cosine_distance": cosine, "sigmoid_binary_cross_entropy": sigmoid, "sigmoid_focal_loss": focal, "softmax_cross_entropy": softmax(), "safe_softmax_cross_entropy": softmax(False, False),
         "softmax_cross_entropy_with_integer_labels": integer_labels, "poly_loss_cross_entropy": poly, "kl_divergence": divergence("log_predictions", "targets"),
         "kl_divergence_with_log_targets": divergence("log_predictions", "log_targets", True), "generalized_kl_divergence": divergence("log_predictions", "targets"),
         "convex_kl_divergence": divergence("log_predictions", "targets"), "hinge_loss": hinge, "perceptron_loss": hinge, "multiclass_hinge_loss": multiclass("scores"),
         "multiclass_perceptron_loss": multiclass("scores"), "dice_loss": dice, "binary_dice_loss": binary_dice, "multiclass_generalized_dice_loss": generalized_dice, "ranking_softmax_loss": ranking,
         "ntxent": contrastive, "triplet_margin_loss": triplet, "ctc_loss": ctc, "make_fenchel_young_loss": fenchel, "sparsemax_loss": sparsemax, "multiclass_sparsemax_loss": multiclass("scores", 2, 2),
         "compute_weighted_cross_entropy": t5x}
OWN_WEIGHTS = {"ranking_softmax_loss", "compute_weighted_cross_entropy"}


# ---------------------------------------------------------------- a case

def function(name):
    if name == "compute_weighted_cross_entropy":
        return t5x_cross_entropy
    if name == "make_fenchel_young_loss":
        return lambda max_fun, scores, targets: optax.losses.make_fenchel_young_loss(max_fun)(scores, targets)
    return getattr(optax.losses, name)


def make_case(seed, only):
    d = Draw(seed)
    name = d.one(sorted(only or DRAWS))
    DRAWS[name](d)
    narrow = d.chance(0.1) and not d.wild
    init = {k: v.astype(ml_dtypes.bfloat16) if narrow else v for k, v in d.init.items()}

    def elements(params, data):
        given = {k: tuple(v) if isinstance(v, list) else v for k, (v, _) in d.literals.items()} | data | params
        return function(name)(**given)

    try:
        out = jax.eval_shape(elements, init, d.inputs)
    except Exception as e:
        return None, "%s: %s: %s" % (name, type(e).__name__, str(e).strip()[:150])
    empty = lambda v: v.ndim > 0 and v.shape[0] == 0  # no tensor of a document is, a slice of one may be
    keys = {k: "params." + k + "[:0]" * empty(v) for k, v in init.items()} | {k: k + "[:0]" * empty(v) for k, v in d.inputs.items()} | {k: t for k, (_, t) in d.literals.items()}
    loss = {"type": name, **{k: keys[k] for k in d.r.permutation(sorted(keys))}}
    kind = "none"
    if out.shape != () or d.chance(0.2):
        kind = d.one(["mean", "sum"]) if name in OWN_WEIGHTS or name == "dice_loss" else d.one(["mean", "sum", "weights", "weights, sum", "expression"])
        weights = d.r.random(out.shape).astype(np.float32) if d.chance(0.7) else (d.r.random(out.shape) < 0.5).astype(d.one(["float32", "int32", "bool"]))
        if kind.startswith("weights"):
            d.inputs["row_weights"] = weights
            loss["weights"] = "row_weights" + "[:0]" * empty(weights)
            if "," in kind:
                loss["reduction"] = "sum"
            elif d.chance(0.5):
                loss["reduction"] = "mean"
        elif kind in ("mean", "sum") and not (name in OWN_WEIGHTS or name == "dice_loss"):
            loss["reduction"] = kind
        elif kind == "expression" and any(isinstance(t, str) and k not in init and k not in d.inputs for k, t in keys.items()):
            kind, loss["reduction"] = "mean", "mean"
    if kind == "expression" or out.shape != () and "reduction" not in loss and "weights" not in loss or name in OWN_WEIGHTS | {"dice_loss"} and out.shape != ():
        word = lambda k, v: "'%s'" % v if k in ("reduction", "reduce_fn") and isinstance(v, str) else "None" if v is None else str(tuple(v)) if isinstance(v, list) else str(v)
        kind = "mean" if kind == "none" else kind
        loss = "%s(%s(%s))" % ("sum" if kind == "sum" else "mean", name, ", ".join("%s=%s" % (k, word(k, v)) for k, v in loss.items() if k != "type"))

    hollow = {k for k, v in {**init, **d.inputs}.items() if empty(v)}
    fill = lambda k, v: np.ones((1, *v.shape[1:]), v.dtype) if k in hollow else v
    init, d.inputs = {k: fill(k, v) for k, v in init.items()}, {k: fill(k, v) for k, v in d.inputs.items()}

    def total(params, data):
        params, data = ({k: v[:0] if k in hollow else v for k, v in x.items()} for x in (params, data))
        w = data.pop("row_weights", None)
        x = elements(params, data)
        if kind.startswith("weights"):
            x = jnp.sum(x * w) / (1 if "," in kind else jnp.sum(w))
        elif kind != "none":
            x = jnp.sum(x) if kind == "sum" else jnp.mean(x)
        return x.astype(jnp.float32)

    parts = None
    rows = {v.shape[0] if v.ndim else 0 for k, v in [*init.items(), *((k, v) for k, v in d.inputs.items() if d.mapped.get(k, True))]}
    if len(rows) == 1 and min(rows) > 0 and not hollow and out.shape[:1] in ((), tuple(rows)) and d.chance(0.4):
        parts, loss = microbatches(d, min(rows), loss, init)

    document = {"stepc": 1, "name": "loss_%d" % seed,
                "inputs": {k: {"shape": list(v.shape), "dtype": v.dtype.name, "axes": ["batch" if parts and d.mapped.get(k, True) else None] * (v.ndim > 0) + [None] * (v.ndim - 1)} for k, v in d.inputs.items()},
                "model": {"type": "graph", "nodes": [{"type": "param", "name": k, "shape": list(v.shape)} for k, v in init.items()], "output": next(iter(init))},
                "loss": loss, "optimizer": {"type": "sgd", "learning_rate": RATE}}
    if narrow:
        document["precision"] = {"params": "bfloat16"}
    if parts:
        document["accumulate"] = parts["document"]
    data = {k: np.broadcast_to(v, (1, *v.shape)).copy() for k, v in d.inputs.items()}
    batched = {k for k in d.inputs if d.mapped.get(k, True)}
    return {"parts": parts, "batched": batched, "name": name, "document": document, "init": init, "data": data, "total": total, "narrow": narrow}, None


def microbatches(d, rows, loss, init):
    """How the rows are worked through, and the loss of some of them: each takes its own of the parameters."""
    size = d.one([n for n in range(1, rows + 1) if rows % n == 0])
    count, kind, split = rows // size, d.one(["sum", "mean", "running_mean"]), d.one(["strided", "contiguous"])
    real = d.one([None, None, d.n(0, count)])
    d.inputs["row"] = np.arange(rows, dtype=np.int32)
    said = {"microbatch_size": size, "accumulator": kind, "split": split, **({} if real is None else {"num_real_microbatches": real})}
    numbers = np.arange(rows).reshape(count, size) if split == "contiguous" else np.arange(rows).reshape(size, count).T
    replace = lambda text: re.sub(r"\bparams\.(%s)\b" % "|".join(init), r"params.\1[row]", text) if isinstance(text, str) else text
    loss = {k: v if k == "type" else replace(v) for k, v in loss.items()} if isinstance(loss, dict) else replace(loss)
    return {"document": said, "rows": numbers[:count if real is None else real], "count": count, "kind": kind}, loss


def gradient(case):
    """Of parameters and data: the loss and its gradient, accumulated over the microbatches as in optax.microbatching."""
    parts = case["parts"]
    if not parts:
        return jax.value_and_grad(case["total"])

    def some(p, d, rows):
        given = {k: v[rows] if k in case["batched"] else v for k, v in d.items() if k != "row"}
        return case["total"]({k: v[rows] for k, v in p.items()}, given)

    def accumulated(p, d):
        total = (jnp.float32(0), {k: jnp.zeros_like(v) for k, v in p.items()})
        for i, rows in enumerate(parts["rows"]):
            now = jax.value_and_grad(some)(p, d, rows)
            f = np.float32(i) / np.float32(i + 1)
            total = jax.tree.map(lambda s, v: (s * f + v * (1 - f) if parts["kind"] == "running_mean" else s + v).astype(s.dtype), total, now)
        return jax.tree.map(lambda v: v / parts["count"], total) if parts["kind"] == "mean" else total
    return accumulated


def oracle(case, change=0.0):
    p = {k: jnp.asarray(v) for k, v in case["init"].items()}
    d = {k: jnp.asarray(v[0]) for k, v in case["data"].items()}
    if change:
        p = {k: v * (1 + change * jnp.cos(jnp.arange(v.size, dtype=jnp.float32))).reshape(v.shape).astype(v.dtype) for k, v in p.items()}
    step, losses = jax.jit(gradient(case)), []
    for _ in range(STEPS):
        value, g = step(p, d)
        losses.append(float(value))
        p = {k: (v - jnp.asarray(RATE * g[k], v.dtype)).astype(v.dtype) for k, v in p.items()}
    return {k: np.asarray(v) for k, v in p.items()}, {"loss": losses}


def compare(case, got, want, noisy):
    rtol, atol = (2e-2, 2e-2) if case["narrow"] else (RTOL, ATOL)
    if case["name"] == "ctc_loss" and max(want[1]["loss"]) > 1e3:  # a sequence that cannot be: its gradient, 0, is the rounding of log_epsilon
        atol = 1e-2
    for kind in (0, 1):
        for name, value in want[kind].items():
            value, found, other = (np.asarray(x, "f8") for x in (value, got[kind][name], noisy[kind][name]))
            with np.errstate(invalid="ignore", over="ignore"):
                slack = 3 * np.abs(other - value)
            said = comparison.difference(found, value, rtol, atol, np.where(np.isfinite(slack), slack, 0))
            if said:
                return name + said
    return None


def one(options, seed):
    case, why = make_case(seed, options.only)
    if case is None:
        return "refused by Optax", why, ""
    d = draws.Draws((seed, 1))
    try:
        want, noisy = oracle(case), oracle(case, 1e-6)
    except TypeError as e:  # sparsemax of narrow scores: its rule of differentiation gives another dtype
        return "refused by Optax", "%s: %s" % (type(e).__name__, str(e).strip()[:200]), ""
    compiled = d.chance(options.compile)
    if compiled and d.chance(0.5):
        case["document"] = sharded.on_a_mesh(case["document"], {k: v.shape for k, v in case["init"].items()}, d)
    text = json.dumps({k: case["document"][k] for k in ("loss", "accumulate", "mesh", "sharding") if k in case["document"]})
    with tempfile.TemporaryDirectory(prefix="stepc-loss-") as folder:
        runner.write_document(folder, case["document"], case["data"], case["init"])
        try:
            tensors, lines = runner.play(options.stepc, folder, STEPS, compiled, options.compile_args.split())
            why = compare(case, (tensors, runner.series(lines, want[1])), want, noisy)
        except runner.Failed as e:
            why = e.brief(500)
    if why and options.keep:
        recorded.write(os.path.join(options.keep, "loss_%d" % seed), case["document"], case["data"], case["init"], STEPS, *want, *((4e-2, 2e-2) if case["narrow"] else (RTOL, ATOL)),
                           "from tests/fuzz/losses.py")
    options.seen[case["name"]] += not why
    return "differs" if why else "agrees", why or "", text


def main():
    p = command.parser(__doc__, 100)
    p.add_argument("--only", nargs="*", help="losses")
    options = command.options(p)
    options.seen = collections.Counter()
    code = command.loop(options, one, jax.clear_caches)
    never = sorted(set(DRAWS) - {k for k, n in options.seen.items() if n})
    if never and not options.only:
        print("never in a case that agrees: " + " ".join(never))
    return code


if __name__ == "__main__":
    sys.exit(main())
