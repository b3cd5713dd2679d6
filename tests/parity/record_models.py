#!/usr/bin/env python3
"""Records cases/model_more_*: small models of many kinds, interpreted by tests/fuzz/layers.py as Flax NNX modules and as
expressions of JAX, and trained by SGD. Run from anywhere; `--out DIR` writes them elsewhere, names record just these."""

import json
import os
import re
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(os.path.dirname(HERE), "fuzz")]
import expressions
import layers

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tool import command, recorded

RATE, STEPS = 0.1, 3
MODELS = {}


# ---------------------------------------------------------------- documents

random = np.random.default_rng(0)


def f(*shape):
    return random.normal(size=(STEPS,) + shape).astype(np.float32)


def ints(below, *shape):
    return random.integers(0, below, (STEPS,) + shape).astype(np.int32)


def I(**inputs):
    """Inputs by name: dtype, then the shape."""
    return {n: {"shape": list(shape), "dtype": dtype, "axes": ["batch"] + [None] * (len(shape) - 1)} for n, (dtype, *shape) in inputs.items()}


def lin(name, features, x=None, **more):
    return {"type": "linear", "name": name, "features": features, **({"input": x} if x else {}), **more}


def G(nodes, output, **more):
    return {"type": "graph", "nodes": nodes, "output": output, **more}


def E(name, expression):
    return {"type": "expr", "name": name, "expr": expression}


def model(make):
    MODELS[make.__name__] = make
    return make


F, N = "float32", "int32"


@model
def seq2seq():
    return dict(
        inputs=I(src=(N, 4, 6), tgt=(N, 4, 5), n=(N, 4)),
        model=G(
            [
                {"type": "embed", "name": "es", "num_embeddings": 9, "features": 5, "input": "src"},
                {"type": "rnn", "name": "enc", "cell": {"type": "lstm_cell", "hidden_features": 6}, "return_carry": True, "seq_lengths": "n % 6 + 1", "input": "es"},
                {"type": "embed", "name": "et", "num_embeddings": 9, "features": 5, "input": "tgt[:, :-1]"},
                {"type": "rnn", "name": "dec", "cell": {"type": "lstm_cell", "hidden_features": 6}, "initial_carry": "enc[0]", "input": "et"},
                {"type": "multi_head_attention", "name": "att", "num_heads": 2, "inputs": ["dec", "enc[1]"], "mask": "(arange(6)[None, :] < (n % 6 + 1)[:, None])[:, None, None, :]"},
                lin("out", 9, "dec + att"),
            ],
            "out",
        ),
        loss="mean(softmax_cross_entropy_with_integer_labels(model, tgt[:, 1:]))",
    ), dict(src=ints(9, 4, 6), tgt=ints(9, 4, 5), n=ints(30, 4))


@model
def unet():
    c = lambda n, w, x, **k: {"type": "conv", "name": n, "features": w, "kernel_size": [3, 3], "input": x, **k}
    return dict(
        inputs=I(x=(F, 2, 8, 8, 2), y=(F, 2, 8, 8, 1)),
        model=G(
            [
                c("a", 4, "x"),
                {"type": "group_norm", "name": "an", "num_groups": 2, "input": "a"},
                E("a1", "silu(an)"),
                {"type": "max_pool", "name": "p", "window_shape": [2, 2], "strides": [2, 2], "input": "a1"},
                c("b", 6, "p"),
                {"type": "batch_norm", "name": "bn", "input": "b"},
                E("b1", "relu(bn)"),
                {"type": "conv", "name": "d", "features": 8, "kernel_size": [2, 2], "strides": 2, "padding": "VALID", "input": "b1"},
                {"type": "conv_transpose", "name": "u", "features": 6, "kernel_size": [2, 2], "strides": [2, 2], "padding": "VALID", "input": "gelu(d)"},
                {"type": "conv_transpose", "name": "v", "features": 4, "kernel_size": [3, 3], "strides": [2, 2], "input": "concatenate([u, b1], axis=-1)"},
                c("o", 1, "concatenate([v, a1], axis=-1)", padding="CIRCULAR"),
            ],
            "o",
        ),
        loss="mean(sigmoid_binary_cross_entropy(model, (y > 0).astype('float32')))",
    ), dict(x=f(2, 8, 8, 2), y=f(2, 8, 8, 1))


@model
def moe():
    return dict(
        inputs=I(x=(F, 8, 5), y=(F, 8, 3)),
        model=G(
            [
                lin("gate", 4, "x", use_bias=False),
                E("w", "softmax(gate)"),
                E("top", "top_k(w, 2)"),
                E("route", "sum(one_hot(top[1], 4) * top[0][..., None], axis=1)"),
                {"type": "param", "name": "k1", "shape": [4, 5, 6], "init": {"type": "lecun_normal", "batch_axis": 0}},
                {"type": "param", "name": "k2", "shape": [4, 6, 3], "init": {"type": "glorot_uniform", "batch_axis": [0]}},
                E("h", "gelu(einsum('bi,eih->ebh', x, k1))"),
                E("y_", "einsum('ebh,eho->ebo', h, k2)"),
            ],
            {"out": "einsum('be,ebo->bo', route, y_)", "balance": "4 * sum(mean(w, axis=0) * mean(one_hot(argmax(w, axis=-1), 4), axis=0))"},
        ),
        loss="mean(squared_error(model.out, y)) + 0.1 * model.balance",
    ), dict(x=f(8, 5), y=f(8, 3))


@model
def clip():
    t = lambda n, x, w: {"type": "sequential", "name": n, "input": x, "layers": [lin("l0", 8), {"type": "gelu", "approximate": False}, {"type": "layer_norm"}, lin("l1", w, use_bias=False)]}
    return dict(
        inputs=I(a=(F, 5, 7), b=(F, 5, 4)),
        model=G(
            [
                t("ia", "a", 6),
                t("tb", "b", 6),
                {"type": "param", "name": "scale", "shape": [], "init": {"type": "constant", "value": 1.5}},
                E("za", "ia / norm(ia, axis=-1, keepdims=True)"),
                E("zb", "tb / norm(tb, axis=-1, keepdims=True)"),
            ],
            "exp(scale) * za @ zb.T",
        ),
        loss="0.5 * mean(softmax_cross_entropy_with_integer_labels(model, arange(5))) + 0.5 * mean(softmax_cross_entropy_with_integer_labels(model.T, arange(5)))",
    ), dict(a=f(5, 7), b=f(5, 4))


@model
def wavenet():
    blk = {
        "params": {"d": 1},
        "body": G(
            [
                {"type": "conv", "name": "f", "features": 4, "kernel_size": 2, "kernel_dilation": "$d", "padding": "CAUSAL", "input": "x"},
                {"type": "conv", "name": "g", "features": 4, "kernel_size": 2, "kernel_dilation": "$d", "padding": "CAUSAL", "input": "x"},
                E("z", "tanh(f) * sigmoid(g)"),
                lin("s", 3, "z"),
                lin("r", 4, "z"),
            ],
            {"skip": "s", "res": "x + r"},
        ),
    }
    return dict(
        inputs=I(x=(N, 3, 10)),
        define={"wave": blk},
        model=G(
            [
                {"type": "embed", "name": "e", "num_embeddings": 8, "features": 4, "input": "x[:, :-1]"},
                {"type": "wave", "name": "a", "d": 1, "input": "e"},
                {"type": "wave", "name": "b", "d": 2, "input": "a.res"},
                {"type": "wave", "name": "c", "d": 4, "input": "b.res"},
                lin("o", 8, "relu(a.skip + b.skip + c.skip)"),
            ],
            "o",
        ),
        loss="mean(softmax_cross_entropy_with_integer_labels(model, x[:, 1:]))",
    ), dict(x=ints(8, 3, 10))


@model
def convnext():
    blk = {
        "params": {"w": 4},
        "body": {
            "type": "residual",
            "layers": [
                G(
                    [
                        {"type": "conv", "name": "dw", "features": "$w", "kernel_size": [3, 3], "feature_group_count": "$w", "input": "x"},
                        {"type": "layer_norm", "name": "n", "epsilon": 1e-5, "input": "dw"},
                        lin("up", 16, "n"),
                        lin("down", "$w", "gelu(up)"),
                        {"type": "param", "name": "gamma", "shape": ["$w"], "init": {"type": "constant", "value": 0.5}},
                        E("se", "sigmoid(mean(down, axis=(1, 2), keepdims=True))"),
                    ],
                    "gamma * down * se",
                    name="",
                )
            ],
        },
    }
    return dict(
        inputs=I(x=(F, 2, 6, 6, 3), y=(N, 2)),
        define={"next": blk},
        model=G(
            [
                {"type": "conv", "name": "stem", "features": 4, "kernel_size": [2, 2], "strides": [2, 2], "padding": "VALID", "input": "x"},
                {"type": "repeat", "name": "stages", "count": 2, "block": {"type": "next", "w": 4}, "input": "stem"},
                E("pool", "stages.mean(axis=(1, 2))"),
                lin("head", 3, "pool"),
            ],
            "head",
        ),
        loss="mean(softmax_cross_entropy(model, smooth_labels(one_hot(y, 3), 0.1)))",
    ), dict(x=f(2, 6, 6, 3), y=ints(3, 2))


@model
def t5():
    return dict(
        inputs=I(x=(N, 2, 6)),
        model=G(
            [
                {"type": "embed", "name": "emb", "num_embeddings": 11, "features": 8, "input": "x[:, :-1]"},
                {"type": "embed", "name": "rel", "num_embeddings": 9, "features": 2, "input": "clip(arange(5)[None, :] - arange(5)[:, None], -4, 4) + 4"},
                {"type": "rms_norm", "name": "n", "input": "emb"},
                {"type": "linear_general", "name": "q", "features": [2, 4], "use_bias": False, "input": "n"},
                {"type": "linear_general", "name": "k", "features": [2, 4], "use_bias": False, "input": "n"},
                {"type": "linear_general", "name": "v", "features": [2, 4], "use_bias": False, "input": "n"},
                E("a", "dot_product_attention(q, k, v, bias=transpose(rel, (2, 0, 1))[None], scale=1.0, is_causal=True)"),
                {"type": "linear_general", "name": "o", "features": 8, "axis": [-2, -1], "use_bias": False, "input": "a"},
                E("h", "emb + o"),
                {"type": "rms_norm", "name": "n2", "input": "h"},
                lin("wi0", 12, "n2", use_bias=False),
                lin("wi1", 12, "n2", use_bias=False),
                lin("wo", 8, "gelu(wi0) * wi1", use_bias=False),
                {"type": "rms_norm", "name": "nf", "input": "h + wo"},
                {"type": "attend", "name": "logits", "embedding": "emb", "input": "nf / sqrt(8.0)"},
            ],
            "logits",
        ),
        loss="mean(softmax_cross_entropy_with_integer_labels(model, x[:, 1:])) + 1e-3 * mean(logsumexp(model, axis=-1)**2)",
    ), dict(x=ints(11, 2, 6))


@model
def realnvp():
    cp = {
        "params": {"h": 6},
        "inputs": ["x", "ld", "mask"],
        "body": G(
            [
                {"type": "sequential", "name": "net", "input": "x * mask", "layers": [lin("a", "$h"), {"type": "tanh"}, lin("b", 8)]},
                E("s", "tanh(net[..., :4]) * (1 - mask)"),
                E("t", "net[..., 4:] * (1 - mask)"),
            ],
            {"y": "x * exp(s) + t", "ld": "ld + sum(s, axis=-1)"},
        ),
    }
    return dict(
        inputs=I(x=(F, 6, 4)),
        define={"couple": cp},
        model=G(
            [
                {"type": "couple", "name": "c1", "inputs": ["x", "zeros(6)", "asarray([1.0, 0, 1, 0])"]},
                {"type": "couple", "name": "c2", "h": 5, "inputs": ["c1.y", "c1.ld", "asarray([0.0, 1, 0, 1])"]},
            ],
            {"z": "c2.y", "ld": "c2.ld"},
        ),
        loss="-mean(sum(-0.5 * model.z**2 - 0.5 * log(2 * pi), axis=-1) + model.ld)",
    ), dict(x=f(6, 4))


@model
def diffusion():
    return dict(
        inputs=I(x=(F, 4, 6, 3), e=(F, 4, 6, 3), t=(N, 4)),
        constants={"T": 50},
        model=G(
            [
                E("ab", "cos(t / T * pi / 2)**2"),
                E("xt", "sqrt(ab)[:, None, None] * x + sqrt(1 - ab)[:, None, None] * e"),
                E("fr", "exp(-log(100.0) * arange(4) / 4)"),
                E("te", "concatenate([sin(t[:, None] * fr), cos(t[:, None] * fr)], axis=-1)"),
                lin("f1", 8, "te"),
                lin("f2", 10, "silu(f1)"),
                {"type": "conv", "name": "c1", "features": 5, "kernel_size": 3, "input": "xt"},
                {"type": "group_norm", "name": "g", "num_groups": 5, "use_bias": False, "use_scale": False, "input": "c1"},
                E("film", "g * (1 + split(f2, 2, axis=-1)[0][:, None]) + split(f2, 2, axis=-1)[1][:, None]"),
                {
                    "type": "conv",
                    "name": "c2",
                    "features": 3,
                    "kernel_size": 3,
                    "kernel_init": {"type": "variance_scaling", "scale": 0.1, "mode": "fan_avg", "distribution": "uniform"},
                    "input": "silu(film)",
                },
            ],
            "c2",
        ),
        loss="mean(minimum(1 / (1 - cos(t / T * pi / 2)**2 + 0.1), 5.0)[:, None, None] * (model - e)**2)",
    ), dict(x=f(4, 6, 3), e=f(4, 6, 3), t=ints(50, 4))


@model
def gat():
    return dict(
        inputs={
            "x": {"shape": [6, 4], "axes": [None, None]},
            "s": {"shape": [12], "dtype": "int32", "axes": [None]},
            "d": {"shape": [12], "dtype": "int32", "axes": [None]},
            "y": {"shape": [6], "dtype": "int32", "axes": [None]},
        },
        model=G(
            [
                {"type": "linear_general", "name": "w", "features": [2, 3], "use_bias": False, "input": "x"},
                {"type": "param", "name": "al", "shape": [2, 3], "init": {"type": "glorot_normal"}},
                {"type": "param", "name": "ar", "shape": [2, 3], "init": {"type": "glorot_normal"}},
                E("sc", "leaky_relu(sum(w * al, axis=-1)[s] + sum(w * ar, axis=-1)[d], 0.2)"),
                E("mx", "segment_max(sc, d, 6)"),
                E("ex", "exp(sc - where(isfinite(mx), mx, 0)[d])"),
                E("den", "segment_sum(ex, d, 6)"),
                E("h", "segment_sum((ex / den[d])[..., None] * w[s], d, 6)"),
                lin("o", 3, "elu(reshape(h, (6, 6)))"),
            ],
            "o",
        ),
        loss="mean(softmax_cross_entropy_with_integer_labels(model, y))",
    ), dict(x=f(6, 4), s=ints(6, 12), d=ints(6, 12), y=ints(3, 6))


@model
def dqn():
    q = {"type": "sequential", "name": "q", "layers": [lin("a", 8), {"type": "relu"}, lin("b", 3)]}
    return dict(
        inputs=I(s=(F, 6, 4), s2=(F, 6, 4), a=(N, 6), rew=(F, 6), done=(N, 6)),
        model=G(
            [{**q, "input": "s"}, {"type": "shared", "name": "q2", "block": "q", "input": "s2"}],
            {"q": "take_along_axis(q, a[:, None], axis=1)[:, 0]", "target": "stop_gradient(rew + 0.9 * (1 - done) * max(q2, axis=-1))"},
        ),
        loss="mean(huber_loss(model.q, model.target))",
    ), dict(s=f(6, 4), s2=f(6, 4), a=ints(3, 6), rew=f(6), done=ints(2, 6))


@model
def deepfm():
    return dict(
        inputs=I(c=(N, 6, 3), v=(F, 6, 3), y=(N, 6)),
        model=G(
            [
                {"type": "embed", "name": "e", "num_embeddings": 10, "features": 4, "embedding_init": {"type": "normal", "stddev": 0.3}, "input": "c"},
                {"type": "embed", "name": "l", "num_embeddings": 10, "features": 1, "input": "c"},
                E("z", "e * v[..., None]"),
                E("fm", "0.5 * sum(sum(z, axis=1)**2 - sum(z**2, axis=1), axis=-1)"),
                lin("d1", 5, "reshape(z, (6, -1))"),
                {"type": "prelu", "name": "pr", "input": "d1"},
                lin("d2", 1, "pr"),
                {"type": "param", "name": "b", "shape": []},
            ],
            "b + fm + d2[:, 0] + sum(l[..., 0] * v, axis=1)",
        ),
        loss="mean(sigmoid_focal_loss(model, y.astype('float32'), alpha=0.6, gamma=1.5))",
    ), dict(c=ints(10, 6, 3), v=f(6, 3), y=ints(2, 6))


@model
def perceiver():
    blk = {
        "inputs": ["z", "d"],
        "body": G(
            [
                {"type": "layer_norm", "name": "n", "input": "z"},
                {"type": "multi_head_attention", "name": "xa", "num_heads": 2, "qkv_features": 4, "inputs": ["n", "d"]},
                E("h", "z + xa"),
                {"type": "sequential", "name": "ff", "input": "h", "layers": [{"type": "layer_norm"}, lin("u", 7), {"type": "gelu"}, lin("w", 4)]},
            ],
            "h + ff",
        ),
    }
    return dict(
        inputs=I(x=(F, 3, 9, 5), y=(F, 3, 2)),
        define={"cross": blk},
        model=G(
            [
                {"type": "param", "name": "lat", "shape": [4, 4], "init": {"type": "truncated_normal", "stddev": 0.5}},
                E("z0", "broadcast_to(lat[None], (3, 4, 4))"),
                {"type": "repeat", "name": "rep", "count": 2, "block": {"type": "cross"}, "inputs": ["z0", "x"]},
                lin("o", 2, "rep.mean(axis=1)"),
            ],
            "o",
        ),
        loss="mean(log_cosh(model, y))",
    ), dict(x=f(3, 9, 5), y=f(3, 2))


@model
def tagger():
    return dict(
        inputs=I(x=(N, 4, 7), n=(N, 4), y=(N, 4, 7)),
        model=G(
            [
                {"type": "embed", "name": "e", "num_embeddings": 9, "features": 5, "input": "x"},
                {
                    "type": "bidirectional",
                    "name": "bi",
                    "forward_rnn": {"type": "rnn", "cell": {"type": "gru_cell", "hidden_features": 4}},
                    "backward_rnn": {"type": "rnn", "cell": {"type": "optimized_lstm_cell", "hidden_features": 3}},
                    "seq_lengths": "n % 7 + 1",
                    "input": "e",
                },
                lin("sc", 1, "tanh(bi)"),
                E("msk", "arange(7)[None, :] < (n % 7 + 1)[:, None]"),
                E("aw", "softmax(where(msk[..., None], sc, -1e9), axis=1)"),
                lin("o", 4, "concatenate([bi, broadcast_to(sum(aw * bi, axis=1, keepdims=True), (4, 7, 7))], axis=-1)"),
            ],
            {"logits": "o", "mask": "msk"},
        ),
        loss="sum(softmax_cross_entropy_with_integer_labels(model.logits, y) * model.mask) / sum(model.mask)",
    ), dict(x=ints(9, 4, 7), n=ints(30, 4), y=ints(4, 4, 7))


@model
def hypernet():
    return dict(
        inputs=I(x=(F, 5, 3), c=(F, 5, 2), y=(F, 5, 4)),
        model=G([{"type": "sequential", "name": "hy", "input": "c", "layers": [lin("a", 6), {"type": "selu"}, lin("b", 12)]}], "einsum('bi,bio->bo', x, hy.reshape(5, 3, 4))"),
        loss="mean(cosine_distance(model, y, epsilon=1e-3)) + 0.01 * sum(params.hy.a.kernel**2)",
    ), dict(x=f(5, 3), c=f(5, 2), y=f(5, 4))


@model
def vqvae():
    return dict(
        inputs=I(x=(F, 6, 5)),
        model=G(
            [
                {"type": "sequential", "name": "enc", "input": "x", "layers": [lin("a", 6), {"type": "mish"}, lin("b", 3)]},
                {"type": "param", "name": "book", "shape": [7, 3], "init": {"type": "uniform", "scale": 1.0}},
                E("dist", "sum((enc[:, None] - book[None])**2, axis=-1)"),
                E("code", "argmin(dist, axis=-1)"),
                E("zq", "book[code]"),
                E("st", "enc + stop_gradient(zq - enc)"),
                {"type": "sequential", "name": "dec", "input": "st", "layers": [lin("a", 6), {"type": "softplus"}, lin("b", 5)]},
            ],
            {"y": "dec", "commit": "mean((enc - stop_gradient(zq))**2)", "book": "mean((stop_gradient(enc) - zq)**2)"},
        ),
        loss="mean((model.y - x)**2) + 0.25 * model.commit + model.book",
    ), dict(x=f(6, 5))


@model
def normalised_weights():
    return dict(
        inputs=I(x=(F, 4, 3, 6)),
        model={
            "type": "sequential",
            "input": "x",
            "layers": [
                {"type": "weight_norm", "layer_instance": {"type": "linear", "features": 4}},
                {
                    "type": "repeat",
                    "count": 2,
                    "block": {
                        "type": "sequential",
                        "layers": [{"type": "batch_norm", "momentum": 0.6, "axis": -1}, {"type": "linear", "features": 4, "bias_init": {"type": "normal"}}, {"type": "tanh"}],
                    },
                },
                {"type": "spectral_norm", "layer_instance": {"type": "linear", "features": 2}, "n_steps": 2},
                {"type": "rnn", "cell": {"type": "simple_cell", "hidden_features": 3, "residual": False}},
            ],
        },
        loss="mean(model**2) + mean(model[:, -1])",
    ), dict(x=f(4, 3, 6))


@model
def tied_autoencoder():
    return dict(
        inputs=I(x=(F, 6, 5)),
        model=G(
            [
                {"type": "sequential", "name": "enc", "input": "x", "layers": [lin("first", 4), {"type": "tanh"}, lin("second", 3)]},
                E("h", "tanh(enc @ params.enc.second.kernel.T)"),
                {"type": "param", "name": "b", "shape": [5]},
            ],
            "h @ params.enc.first.kernel.T + b * params.enc.first.kernel.mean()",
        ),
        loss="mean((model - x)**2) + 0.01 * sum((params.enc.second.kernel.T @ params.enc.second.kernel - eye(3))**2)",
    ), dict(x=f(6, 5))


@model
def attention_of_one():
    q = {"type": "linear_general", "features": [2, 3], "input": "x"}
    return dict(
        inputs={"x": {"shape": [5, 6], "axes": [None, None]}},
        model=G(
            [q | {"name": "q"}, q | {"name": "k"}, E("a", "dot_product_attention(q, k, tanh(k), is_causal=True, implementation='xla')"), {"type": "linear_general", "name": "o", "features": 6, "axis": [-2, -1], "input": "a"}],
            "x + o",
        ),
        loss="mean(model**2) + model[0, 0]",
    ), dict(x=f(5, 6))


# ---------------------------------------------------------------- the same in JAX


class Reference(layers.Reference):
    def parameter(self, path):
        parts = path.split(".")
        for n in range(len(parts), 0, -1):
            owner = ".".join(parts[:n])
            if owner in self.names:
                value = getattr(self.current, self.names[owner])
                for part in parts[n:]:
                    value = getattr(value, part)
                return value if callable(value) else value[...]
        raise KeyError(path)

    def block(self, net, o, parent, segment, xs, env):
        self.current = net
        own = self.document.get("define", {}).get(o["type"])
        if not own:
            return super().block(net, o, parent, segment, xs, env)
        params = {k: o.get(k, v) for k, v in own.get("params", {}).items()}
        body = json.dumps(own["body"])
        for k, v in params.items():
            body = body.replace('"$%s"' % k, json.dumps(v))
        if "input" in o:
            xs = (self.value(o["input"], env),)
        if "inputs" in o:
            xs = tuple(self.value(e, env) for e in o["inputs"])
        return self.block(net, json.loads(body), self.path(o, parent, segment), "", xs, {**self.inputs, **params, **dict(zip(own.get("inputs", ["x"]), xs))})

    def value(self, expression, env):
        if not isinstance(expression, str):
            return expression
        text = re.sub(r"\bparams\.([A-Za-z_][\w.]*)", r'parameter("\1")', expression.strip())
        names = {"True": True, "False": False, "None": None, "parameter": self.parameter, **self.document.get("constants", {})}
        return eval(text, {"__builtins__": {}}, {**expressions.SPACE, **names, **env})

    def model(self, net, inputs):
        self.inputs, o = inputs, self.document["model"]
        out = self.block(net, o | {"name": ""}, "", "", (self.value(o["input"], inputs),) if "input" in o else (), inputs)
        self.current = net
        if o["type"] != "graph":
            return out
        if isinstance(o["output"], str):
            return self.value(o["output"], out)
        return types.SimpleNamespace(**{k: self.value(e, out) for k, e in o["output"].items()})


def record(name, out):
    global random
    random = np.random.default_rng(sum(map(ord, name)))
    document, data = MODELS[name]()
    document = {"stepc": 1, "name": "model_more_" + name, "seed": 3, **document, "optimizer": {"type": "sgd", "learning_rate": RATE}}
    ref = Reference(document)
    feed = lambda t: {k: jnp.asarray(v[t]) for k, v in data.items()}
    ref.model(ref.net, feed(0))
    net = layers.Net()
    for k, m in ref.fresh.items():
        setattr(net, k, m)

    def loss(net, inputs):
        return jnp.asarray(ref.value(document["loss"], {**inputs, "model": ref.model(net, inputs)}), jnp.float32)

    @nnx.jit
    def step(net, inputs):
        value, grads = nnx.value_and_grad(loss)(net, inputs)
        state, grads = dict(nnx.to_flat_state(nnx.state(net, nnx.Param))), dict(nnx.to_flat_state(grads))
        nnx.update(net, nnx.from_flat_state({k: v.replace(v[...] - RATE * grads[k][...]) for k, v in state.items()}))
        return value

    losses = [float(step(net, feed(t))) for t in range(STEPS)]
    recorded.record(document["name"], document, data, None, STEPS, ref.tensors(net), {"loss": losses}, 2e-4, 2e-5, out=out)


if __name__ == "__main__":
    command.record(__doc__, list(MODELS), record)
