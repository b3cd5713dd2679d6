#!/usr/bin/env python3
"""Random layers against Flax NNX: documents of a few layers with random arguments, initializers, shapes, masks and data,
run by stepc and by the same NNX modules: initial values drawn from the seed, losses, running statistics and, through steps
of SGD, gradients.

    tests/fuzz/layers.py --stepc build/stepc --cases 50 [--seed 0] [--blocks 3] [--compile 0.2] [--only conv rnn]

It needs JAX and Flax (0.12.6 for weight_norm, spectral_norm and num_kv_heads), and so is none of the tests that always
run. A case that disagrees is left as a recorded case under --keep. Differences that a change
of the data in the last bits makes too are none.
"""
import collections
import json
import os
import sys
import tempfile
import types
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_allow_excess_precision=false"  # every rounding is meant
os.environ["XLA_FLAGS"] += " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"  # compiling takes longest
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

warnings.filterwarnings("ignore")
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, comparison, draws, recorded, runner, safetensors

RTOL, ATOL, RATE = 2e-5, 2e-6, 0.1


# ---------------------------------------------------------------- documents

class Generator(draws.Draws):
    def __init__(self, seed):
        super().__init__(seed)
        self.inputs, self.data = {}, {}
        self.steps = 3

    def some(self, o, **choices):
        """Each of the choices (a function without arguments) with probability a half."""
        for k, v in choices.items():
            if self.chance():
                o[k] = v()
        return o

    def given(self, shape, dtype="float32", high=None, low=0):
        """The name of a new input."""
        name = "x%d" % len(self.inputs)
        self.inputs[name] = {"shape": list(shape), "dtype": dtype, "axes": [None] * len(shape)}
        size = (self.steps, *shape)
        self.data[name] = self.r.normal(size=size).astype(np.float32) if dtype == "float32" else self.r.integers(low, high, size).astype(np.int32)
        return name

    def mask(self, shape):
        return self.given(shape, "int32", 2) + (" > 0")

    # ------------------------------------------------------------ initializers

    def scaled_axes(self, o, rank):
        if rank == 2:
            self.some(o, in_axis=lambda: self.one([0, -2]), out_axis=lambda: self.one([1, -1]))
        elif rank > 2 and self.chance():
            order = [int(i) for i in self.r.permutation(rank)]
            o["in_axis"], o["out_axis"] = self.one([(order[0], order[1]), ([order[0], order[1]], order[2] - rank), (order[0] - rank, order[1])])
            rest = [i for i in order[3:]]
            if rest and self.chance():
                o["batch_axis"] = self.one([rest[0], [rest[0]]])
        return o

    def init(self, rank):
        """An initializer object for a parameter of that rank."""
        plain = [{"type": "zeros"}, {"type": "ones"}, {"type": "constant", "value": self.uniform(-1, 1)}, self.some({"type": "normal"}, stddev=lambda: self.uniform(0.1, 1)),
                 self.some({"type": "uniform"}, scale=lambda: self.uniform(0.1, 1)),
                 self.some({"type": "truncated_normal"}, stddev=lambda: self.uniform(0.1, 1), lower=lambda: self.uniform(-2, -0.5), upper=lambda: self.uniform(0, 1.5))]
        if rank < 2 or self.chance(0.3):
            return self.one(plain)
        kinds = ["variance_scaling"] * 4 + ["orthogonal"] * 2 + [a + b for a in ("lecun", "glorot", "xavier", "he", "kaiming") for b in ("_normal", "_uniform")]
        if rank in (3, 4, 5):
            kinds += ["delta_orthogonal"]
        name = self.one(kinds)
        if name == "variance_scaling":
            return self.scaled_axes({"type": name, "scale": self.uniform(0.3, 3), "mode": self.one(["fan_in", "fan_out", "fan_avg", "fan_geo_avg"]),
                                     "distribution": self.one(["truncated_normal", "normal", "uniform"])}, rank)
        if name == "orthogonal":
            return self.some({"type": name}, scale=lambda: self.uniform(0.3, 2), column_axis=lambda: self.n(-rank, rank - 1))
        if name == "delta_orthogonal":
            return self.some({"type": name}, scale=lambda: self.uniform(0.3, 2), column_axis=lambda: self.one([-1, 1]))
        return self.scaled_axes({"type": name}, rank)

    def inits(self, o, kernel, bias=1, p=0.4):
        if o.get("type") in PRODUCTS and self.chance(0.15):
            o["precision"] = self.one(["default", "high", "highest", None])
        if o.get("type") in PRODUCTS[:5] and self.chance(0.15):
            o["preferred_element_type"] = self.one(["float32", "float32", None])
        if self.chance(p):
            o["kernel_init"] = self.init(kernel)
        if self.chance(p):
            o["bias_init"] = self.init(bias)
        return o

    def bias(self, o):
        if self.chance(0.3):
            o["use_bias"] = self.chance()
        return o

    def activation(self, simple=False):
        plain = ["relu", "relu6", "sigmoid", "tanh", "softplus", "silu", "swish", "selu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "log_sigmoid",
                 "soft_sign", "mish", "sparse_plus", "sparse_sigmoid", "identity"]
        args = [lambda: self.some({"type": "gelu"}, approximate=self.chance), lambda: self.some({"type": "elu"}, alpha=lambda: self.uniform(0.2, 2)),
                lambda: self.some({"type": "celu"}, alpha=lambda: self.uniform(0.2, 2)), lambda: self.some({"type": "leaky_relu"}, negative_slope=lambda: self.uniform(0.05, 0.5)),
                lambda: self.some({"type": "squareplus"}, b=lambda: self.uniform(0.5, 5))]
        shape = [lambda: self.some({"type": "softmax"}, axis=lambda: self.one([-1, 0, 1, [0, 1]])), lambda: self.some({"type": "log_softmax"}, axis=lambda: self.one([-1, 0, [0, 1]])),
                 lambda: self.some({"type": "standardize"}, axis=lambda: self.one([-1, 0, [0, 1]]), epsilon=lambda: self.uniform(1e-4, 0.1)),
                 lambda: self.some({"type": "logsumexp"}, axis=lambda: self.one([-1, 0]), keepdims=self.chance), lambda: self.some({"type": "logmeanexp"}, axis=lambda: self.one([-1, 0]), keepdims=self.chance),
                 lambda: self.some({"type": "glu"}, axis=lambda: self.one([-1, 0, 1])), lambda: {"type": "relu"}]
        return self.one([lambda: {"type": self.one(plain)}] * 3 + args + ([] if simple else shape))()

    # ------------------------------------------------------------ layers: each adds its inputs

    def linear(self):
        rank = self.n(1, 4)
        x = self.given([self.n(1, 4) for _ in range(rank)])
        return self.inits(self.bias({"type": "linear", "features": self.n(1, 5), "input": x}), 2)

    def linear_general(self):
        rank = self.n(2, 4)
        shape = [self.n(1, 4) for _ in range(rank)]
        batch = self.n(1, rank - 1) if self.chance(0.4) else 0
        axes = sorted(int(i) for i in self.r.permutation(range(batch, rank))[:self.n(1, rank - batch)])
        if self.chance(0.3):
            axes = axes[::-1]
        o = {"type": "linear_general", "features": self.one([self.n(1, 4), [self.n(1, 3)], [self.n(1, 3), self.n(1, 3)]]),
             "axis": [a - rank if self.chance() else a for a in axes], "input": self.given(shape)}
        if len(axes) == 1 and self.chance():
            o["axis"] = o["axis"][0]
        if batch:
            o["batch_axis"] = {str(i): shape[i] for i in range(batch)}
        return self.inits(self.bias(o), 2)

    def einsum(self):
        formula, x, kernel, bias = self.one([("ab,bc->ac", (3, 4), (4, 2), [None, (2,)]), ("abc,cd->abd", (2, 3, 4), (4, 2), [None, (2,)]),
            ("...c,cde->...de", (2, 3, 4), (4, 2, 3), [None, (2, 3)]), ("bac,acd->bad", (2, 3, 4), (3, 4, 2), [None, (3, 2)]),
            ("abc,dc->dab", (2, 3, 4), (5, 4), [None, (5,)]), ("ab,ab->ab", (3, 4), (3, 4), [None, (3, 4)]), ("abc, bcd -> ad", (2, 3, 4), (3, 4, 2), [None, (2,)]),
            ("abc,dec->ebda", (2, 3, 4), (5, 3, 4), [None, (3, 5), None])])
        o = {"type": "einsum", "einsum_str": formula, "kernel_shape": list(kernel), "input": self.given(x)}
        b = self.one(bias)
        if b:
            o["bias_shape"] = list(b)
        return self.inits(o, len(kernel), len(b or (1,)))

    def embed(self):
        n, features = self.one([1, 3, 7]), self.n(1, 4)
        outside = self.chance(0.3)  # a negative number counts from the end, what is not there is NaN
        x = self.given([self.n(1, 4) for _ in range(self.n(n == 1, 3))], "int32", n + 4 * outside) + " - 2" * outside  # an input itself is checked
        o = self.some({"type": "embed", "num_embeddings": n, "features": features, "input": x}, embedding_init=lambda: self.init(2))
        if outside:
            return {"type": "sequential", "layers": [o, {"type": "expr", "expr": "where(isnan(x), 3 * ones(shape(x)), x)"}]}
        if self.chance():
            return o
        o["name"] = "table"
        return {"type": "sequential", "layers": [o, {"type": "linear", "features": features}, {"type": "attend", "embedding": "table"}]}

    def conv_common(self, rank, kernel, padding):
        per_axis = lambda f: self.one([f(), [f() for _ in range(rank)]])
        o = {"type": "conv", "kernel_size": kernel, "features": 0}
        if self.chance():
            o["strides"] = per_axis(lambda: self.n(1, 3))
        if self.chance(0.4):
            o["kernel_dilation"] = per_axis(lambda: self.n(1, 2))
        if self.chance(0.8):
            o["padding"] = padding()
        return self.inits(self.bias(o), rank + 2)

    def conv(self):
        rank, groups, batch = self.n(1, 3), self.one([1, 1, 2, 3]), self.one([1, 1, 1, 0, 2])
        kernel = [self.n(1, 3) for _ in range(rank)]
        numbers = lambda: self.one([self.n(0, 2), [self.n(0, 2) for _ in range(rank)], [[self.n(0, 2), self.n(0, 2)] for _ in range(rank)]])
        o = self.conv_common(rank, kernel, lambda: self.one([self.one(["SAME", "SAME_LOWER", "VALID", "CIRCULAR", "REFLECT"] + (["CAUSAL"] if rank == 1 else [])), numbers()]))
        if rank == 1 and self.chance():
            o["kernel_size"] = kernel[0]
        o |= {"type": "conv", "feature_group_count": groups, "features": groups * self.n(1, 2)}
        inside = self.n(1, 2)
        if self.chance(0.3):
            o["input_dilation"] = self.one([self.n(1, 2), [self.n(1, 2) for _ in range(rank)]])
            if isinstance(o.get("padding", "SAME"), str):  # JAX wants numbers
                o["padding"] = self.n(0, 2)
        o["input"] = self.given([self.n(1, 2) for _ in range(batch)] + [self.n(5, 6 if rank > 1 else 9) for _ in range(rank)] + [inside * groups])
        if self.chance(0.2):
            o["mask"] = self.given(kernel + [inside, o["features"]], "int32", 2)
        return o

    def conv_transpose(self):
        rank, batch, inside = self.n(1, 3), self.one([1, 1, 1, 0, 2]), self.n(1, 3)
        kernel = [self.n(1, 4) for _ in range(rank)]
        numbers = lambda: self.one([self.n(0, 2), [self.n(0, 2) for _ in range(rank)], [[self.n(0, 3), self.n(0, 2)] for _ in range(rank)]])
        o = self.conv_common(rank, kernel, lambda: self.one([self.one(["SAME", "VALID", "CIRCULAR"]), numbers()]))
        o |= {"type": "conv_transpose", "features": self.n(1, 3), "transpose_kernel": self.chance(0.3)}
        if rank == 1 and self.chance():
            o["kernel_size"] = kernel[0]
        o["input"] = self.given([self.n(1, 2) for _ in range(batch)] + [self.n(3, 5) for _ in range(rank)] + [inside])
        if self.chance(0.2):
            o["mask"] = self.given(kernel + ([o["features"], inside] if o["transpose_kernel"] else [inside, o["features"]]), "int32", 2)
        return o

    def norm_common(self, o, shape, features=1):
        self.some(o, epsilon=lambda: self.uniform(1e-6, 0.1), use_scale=self.chance, use_fast_variance=self.chance)
        if o["type"] != "rms_norm":
            self.some(o, use_bias=self.chance)
            if self.chance(0.3):
                o["bias_init"] = self.init(features)
        if self.chance(0.3):
            o["scale_init"] = self.init(features)
        if self.chance(0.25):
            o["mask"] = self.mask(self.one([shape, shape[:-1] + [1]]))
        return o

    def layer_norm(self, name="layer_norm"):
        rank = self.n(1, 4)
        shape = [self.n(2, 5) for _ in range(rank)]
        o = {"type": name, "input": self.given(shape)}
        features = 1
        if rank > 1 and self.chance():
            o["reduction_axes"] = self.one([-1, rank - 2, [-1, -2], list(range(rank))])
        if rank > 1 and self.chance(0.3):
            o["feature_axes"] = self.one([-2, 0, [-2, -1]])  # NNX sizes parameters by one number
            features = len(o["feature_axes"]) if isinstance(o["feature_axes"], list) else 1
            if features > 1:
                o["feature_axes"] = -1
                features = 1
        return self.norm_common(o, shape, features)

    def rms_norm(self):
        return self.layer_norm("rms_norm")

    def batch_norm(self):
        shape = [self.n(2, 5) for _ in range(self.n(2, 4))]
        o = self.some({"type": "batch_norm", "input": self.given(shape)}, use_running_average=lambda: self.chance(0.3), axis=lambda: self.one([self.n(-len(shape), len(shape) - 1), [-1]]), momentum=lambda: self.uniform(0, 1))
        return self.norm_common(o, shape)

    def group_norm(self):
        groups, size = self.n(1, 3), self.n(1, 3)
        shape = [self.n(2, 4) for _ in range(self.n(1, 3))] + [groups * size]
        o = {"type": "group_norm", "input": self.given(shape)} | self.one([{"num_groups": groups}, {"num_groups": None, "group_size": size}])
        if len(shape) > 2 and self.chance(0.4):
            o["reduction_axes"] = self.one([[-1], [1, -1], list(range(1, len(shape))), [-2, -1]])
        return self.norm_common(o, shape)

    def instance_norm(self):
        shape = [self.n(2, 5) for _ in range(self.n(2, 4))]
        o = self.some({"type": "instance_norm", "input": self.given(shape)}, feature_axes=lambda: self.one([-1, 1, [-1], [1]]))
        return self.norm_common(o, shape)

    def prelu(self):
        return self.some({"type": "prelu", "input": self.given([self.n(1, 4) for _ in range(self.n(0, 3))])}, negative_slope_init=lambda: self.uniform(-0.5, 0.5))

    def multi_head_attention(self):
        heads = self.one([1, 2, 4])
        depth, batch = self.n(1, 3), [self.n(1, 2) for _ in range(self.one([0, 1, 1, 1, 2]))]
        nq, nk, inside, kv = self.n(1, 4), self.n(1, 4), self.n(1, 5), self.n(1, 5)
        o = {"type": "multi_head_attention", "num_heads": heads, "qkv_features": heads * depth}
        if self.chance(0.3):
            inside = heads * depth
            del o["qkv_features"]
        form = self.n(1, 3)
        if form == 1:
            nk, kv = nq, inside
        if form > 1 and self.chance():
            o["in_kv_features"] = kv
        o["inputs"] = [self.given(batch + [nq, inside])] + [self.given(batch + [nk, kv]) for _ in range(form - 1)]
        if form == 1:
            o["input"] = o.pop("inputs")[0]
        self.some(o, out_features=lambda: self.n(1, 4), use_bias=self.chance, normalize_qk=self.chance)
        if self.chance(0.2):
            o["in_features"] = inside
        self.inits(o, 2, p=0.2)
        for k, rank in (("out_kernel_init", 2), ("out_bias_init", 1)):
            if self.chance(0.2):
                o[k] = self.init(rank)
        if self.chance(0.3):
            o["num_kv_heads"] = self.one([h for h in (1, 2, 4) if heads % h == 0])
        if self.chance(0.4):
            o["mask"] = self.mask(batch + [self.one([1, heads]), nq, nk])
        if self.chance(0.3):
            o["is_causal"] = True
        if self.chance(0.3):
            o["dropout_rate"] = self.uniform(0, 0.6)
            self.some(o, broadcast_dropout=self.chance)
            o["deterministic"] = self.chance(0.3)
        return o

    def attention_expression(self):
        batch, t, s, depth, kv = self.n(1, 2), self.n(1, 4), self.n(1, 4), self.n(1, 3), self.n(1, 2)
        heads = kv * self.n(1, 2)
        x = lambda *shape: self.given(shape)
        more = self.some({}, bias=lambda: x(self.one([1, batch]), self.one([1, heads]), t, s), scale=lambda: self.uniform(0.1, 2), is_causal=lambda: True,
                         query_seq_lengths=lambda: self.given([batch], "int32", t + 1, 1), key_value_seq_lengths=lambda: self.given([batch], "int32", s + 1, 1),
                         local_window_size=lambda: self.one([self.n(0, 2), "(%d, %d)" % (self.n(0, 2), self.n(0, 2)), "None"]))
        if self.chance():
            more["mask"] = "(%s > 0)" % self.given([self.one([1, batch]), self.one([1, heads]), t, s], "int32", 2)
        call = "dot_product_attention(x, %s, %s%s)" % (x(batch, s, kv, depth), x(batch, s, kv, depth), "".join(", %s=%s" % pair for pair in more.items()))
        return {"type": "sequential", "layers": [{"type": "linear", "features": depth, "input": x(batch, t, heads, depth)}, {"type": "expr", "expr": call}]}

    def cell(self, recurrent=True):
        name = self.one(["lstm_cell", "optimized_lstm_cell", "gru_cell", "simple_cell"])
        o = {"type": name, "hidden_features": self.n(1, 4)}
        self.inits(o, 2, p=0.25)
        if self.chance(0.25):
            o["recurrent_kernel_init"] = self.init(2)
        if self.chance(0.25):
            o["activation_fn"] = self.activation(True)
        if name == "simple_cell":
            self.some(o, residual=self.chance)
        elif self.chance(0.25):
            o["gate_fn"] = self.activation(True)
        if self.chance(0.15):
            o["keep_rngs"] = self.chance()
            o["carry_init"] = self.one([{"type": "ones"}, {"type": "constant", "value": self.uniform(-1, 1)}, {"type": "zeros"}, {"type": "normal", "stddev": 0.5},
                                        {"type": "uniform", "scale": 1.5}, {"type": "truncated_normal", "stddev": 0.7, "lower": -1, "upper": 1}])
        return o

    def rnn_options(self, o, batch, time, hidden, pair):
        self.some(o, time_major=lambda: self.chance(0.4), return_carry=lambda: self.chance(0.6))
        if "time_major" in o and o["time_major"] and len(batch) > 1:
            o["time_major"] = False
        if self.chance(0.4):
            o["seq_lengths"] = self.given(batch, "int32", time + 1, 1)
            if len(batch) > 1:  # NNX takes other rows' carries
                o["return_carry"] = False
        return o

    def rnn(self):
        batch, time, inside = [self.n(1, 3) for _ in range(self.one([1, 1, 1, 0, 2]))], self.n(1, 4), self.n(1, 3)
        cell = self.cell()
        pair = "lstm" in cell["type"]
        o = self.some({"type": "rnn", "cell": cell}, reverse=self.chance, keep_order=self.chance, unroll=lambda: self.n(1, 3))
        self.rnn_options(o, batch, time, cell["hidden_features"], pair)
        shape = batch + [cell["hidden_features"]]
        if self.chance(0.3):
            o["initial_carry"] = "(%s, %s)" % (self.given(shape), self.given(shape)) if pair else self.given(shape)
        o["input"] = self.given([time] + batch + [inside] if o.get("time_major") else batch + [time, inside])
        return o

    def bidirectional(self):
        batch, time, inside = [self.n(1, 3)], self.n(1, 4), self.n(1, 3)
        cells = [self.cell(), self.cell()]
        ways = [self.some({"type": "rnn", "cell": c}, reverse=self.chance, unroll=lambda: self.n(1, 3), time_major=self.chance) for c in cells]
        o = {"type": "bidirectional", "forward_rnn": ways[0], "backward_rnn": ways[1]}
        self.rnn_options(o, batch, time, 0, False)
        if self.chance(0.25):
            o["merge_fn"] = "a + 2 * b"
            cells[1]["hidden_features"] = cells[0]["hidden_features"]
        if self.chance(0.3):
            part = lambda c: "(%s, %s)" % tuple(self.given(batch + [c["hidden_features"]]) for _ in range(2)) if "lstm" in c["type"] else self.given(batch + [c["hidden_features"]])
            o["initial_carry"] = "(%s, %s)" % (part(cells[0]), part(cells[1]))
        o["input"] = self.given([time] + batch + [inside] if o.get("time_major") else batch + [time, inside])
        return o

    def cell_alone(self):
        cell = self.cell()
        shape = [self.n(1, 3), cell["hidden_features"]]
        carry = "(%s, %s)" % (self.given(shape), self.given(shape)) if "lstm" in cell["type"] else self.given(shape)
        x = self.given([shape[0], self.n(1, 3)])
        if self.chance(0.3):
            return cell | {"keep_rngs": True, "input": x}
        cell.pop("carry_init", None)
        return cell | {"inputs": [carry, x]}

    def pool(self):
        rank, batch = self.n(1, 3), self.one([1, 1, 0, 2])
        window = [self.n(1, 3) for _ in range(rank)]
        o = {"type": self.one(["avg_pool", "max_pool", "min_pool"]), "window_shape": window}
        self.some(o, strides=lambda: [self.n(1, 3) for _ in range(rank)], padding=lambda: self.one(["SAME", "SAME_LOWER", "VALID", [[self.n(0, w - 1), self.n(0, w - 1)] for w in window]]))
        if o["type"] == "avg_pool":
            self.some(o, count_include_pad=self.chance)
        if isinstance(o.get("padding"), list):  # as many as the batch has axes are put in front by NNX: one
            batch = 1
        batches = [self.n(1, 2) for _ in range(1 if o.get("count_include_pad") is False else batch)]  # NNX's count has one batch axis
        return o | {"input": self.given(batches + [self.n(3, 5) for _ in range(rank)] + [self.n(1, 3)])}

    def with_input(self, make):
        o = make()
        while "input" not in o:
            o = make()
        return o, o.pop("input")

    def lora(self):
        if self.chance(0.4):
            o = {"type": "lora", "features": self.n(1, 4), "input": self.given([3, 4])}
        else:
            base, x = self.with_input(self.one([self.linear, self.linear, self.lora_linear]))
            if self.chance(0.3):
                base, x = {"type": "conv", "kernel_size": 3, "features": self.n(1, 3)}, self.given([2, self.n(2, 4), 2])
            elif self.chance(0.2):
                base, x = {"type": "sequential", "layers": [{"type": "linear", "features": 3}, self.activation(True), {"type": "linear", "features": 2}]}, self.given([3, 2])
            o = {"type": "lora", "base_module": base, "input": x} | ({"features": 2} if base["type"] == "sequential" else {})
        return self.some(o | {"lora_rank": self.n(1, 3)}, a_initializer=lambda: self.init(2), b_initializer=lambda: self.init(2))

    def lora_linear(self):
        o = self.linear() | {"type": "lora_linear", "lora_rank": self.n(1, 3)}
        return self.some(o, a_initializer=lambda: self.init(2), b_initializer=lambda: self.init(2))

    def wrapped(self, depth=0):
        if self.chance(0.1):
            layers = [{"type": "linear", "features": self.n(1, 4)}, self.activation(True), {"type": "linear", "features": self.n(1, 4), "use_bias": self.chance()}]
            return {"type": "sequential", "layers": layers}, self.given([3, self.n(1, 4)])
        if depth == 0 and self.chance(0.2):
            return self.with_input(lambda: self.one([self.weight_norm, self.spectral_norm])(1))
        return self.with_input(self.one([self.linear, self.linear, self.linear_general, self.conv, self.einsum, self.multi_head_attention, self.conv_transpose, self.lora_linear, self.plain_rnn]))

    def plain_rnn(self):
        return {"type": "rnn", "cell": self.cell(), "input": self.given([2, self.n(1, 3), self.n(1, 3)])}

    def weight_norm(self, depth=0):
        layer, x = self.wrapped(depth)
        o = self.some({"type": "weight_norm", "layer_instance": layer, "input": x}, use_scale=self.chance, epsilon=lambda: self.uniform(1e-12, 0.1), feature_axes=lambda: self.one([-1, None, 0, [-1, -2]]))
        if self.chance():
            o["scale_init"] = self.one([{"type": "constant", "value": self.uniform(0.3, 2)}, {"type": "ones"}])
        if self.chance(0.2) and o.get("feature_axes", -1) in (-1, 0, None):
            o["variable_filter"] = self.one([["**"], "**.kernel", ["**.{kernel,bias}"]])
        return o

    def spectral_norm(self, depth=0):
        layer, x = self.wrapped(depth)
        return self.some({"type": "spectral_norm", "layer_instance": layer, "input": x}, n_steps=lambda: self.n(0, 3), epsilon=lambda: self.uniform(1e-12, 1e-3), update_stats=self.chance)

    def dropout(self):
        rank = self.n(1, 3)
        return self.some({"type": "dropout", "rate": self.one([0, 1, self.uniform(0.1, 0.9), self.uniform(0.1, 0.9)]), "input": self.given([self.n(2, 5) for _ in range(rank)])},
                         broadcast_dims=lambda: [int(i) - (rank if self.chance() else 0) for i in self.r.permutation(rank)[:self.n(0, rank)]],
                         deterministic=lambda: self.chance(0.2), rng_collection=lambda: self.one(["dropout", "noise", "params"]))

    def activated(self):
        shape = [2 * self.n(1, 3), 2 * self.n(1, 2)]
        o, first = self.activation(), {"type": "linear", "features": 4, "input": self.given(shape)}
        if self.chance(0.1):
            return {"type": "sequential", "layers": [first, {"type": "softplus"}, {"type": "log1mexp"}]}
        if o["type"] in ("softmax", "log_softmax", "standardize", "logsumexp", "logmeanexp") and self.chance(0.4):
            o["where"] = self.mask([shape[0], 4])
        return {"type": "sequential", "layers": [first, o]}

    def param(self):
        shape = [self.n(1, 3) for _ in range(self.n(0, 3))]
        return self.some({"type": "param", "shape": shape}, init=lambda: self.init(len(shape)))

    # ------------------------------------------------------------ structures, of layers that keep [.., 4]

    def inner(self, depth=0):
        """A block from [2, 3, 4] to the same."""
        flat = [lambda: self.inits(self.bias({"type": "linear", "features": 4}), 2), lambda: self.activation(True), lambda: {"type": "layer_norm"}, lambda: {"type": "batch_norm"},
                lambda: {"type": "dropout", "rate": 0.3}, lambda: {"type": "expr", "expr": "x * 0.5 + tanh(x)"}, lambda: {"type": "multi_head_attention", "num_heads": 2},
                lambda: {"type": "rnn", "cell": {"type": "gru_cell", "hidden_features": 4}}, lambda: {"type": "conv", "features": 4, "kernel_size": [3]}, lambda: {"type": "prelu"},
                lambda: {"type": "twice", "hidden": self.n(1, 5)}, lambda: {"type": "twice"}, lambda: {"type": "lora_linear", "features": 4, "lora_rank": 2},
                lambda: {"type": "expr", "expr": "x * extra + 0.1"}, lambda: {"type": "mixed", "hidden": self.n(1, 3), "inputs": ["x", self.one(["x * x", "extra", "x"])]},
                lambda: {"type": "group_norm", "num_groups": 2}, lambda: {"type": "rms_norm", "input": "x + 0.5"}, lambda: {"type": "weight_norm", "layer_instance": {"type": "linear", "features": 4}},
                lambda: {"type": "spectral_norm", "layer_instance": {"type": "linear", "features": 4}}, lambda: {"type": "sharding_constraint", "spec": [None, None]}]
        deep = [lambda: {"type": "sequential", "layers": [self.inner(depth + 1) for _ in range(self.n(1, 3))]}, lambda: {"type": "residual", "layers": [self.inner(depth + 1) for _ in range(self.n(1, 3))]},
                lambda: {"type": "repeat", "count": self.n(1, 3), "block": {k: v for k, v in self.inner(depth + 1).items() if k != "name"}}, lambda: {"type": "remat", "block": self.inner(depth + 1)}, lambda: self.graph(depth + 1), lambda: self.parts(depth + 1),
                lambda: {"type": "repeat", "count": self.n(1, 3), "inputs": ["x", "0.3 * x"], "block": {"type": "mixed", "inner": self.n(1, 3)}}]
        o = self.one(flat if depth > 2 or self.chance(0.5) else deep)()
        if o["type"] in ("linear", "sequential", "residual", "layer_norm", "multi_head_attention") and self.chance(0.2):
            self.names = getattr(self, "names", 0) + 1
            o["name"] = "named%d%s" % (self.names, self.one(["", ".deep"]))
        return o

    def placed(self, depth, name, x):
        o = self.inner(depth) | {"name": name}
        return o if "inputs" in o else o | {"input": x}

    def graph(self, depth):
        nodes = [self.inner(depth) | {"name": "a"}, self.placed(depth, "b", self.one(["a", "x + a", "tanh(a)"]))]
        if self.chance():
            nodes.append({"type": "shared", "name": "c", "block": self.one([n["name"] for n in nodes if "inputs" not in n] or ["a"]), "input": self.one(["a + b", "b", "0.5 * x"])})
        if self.chance(0.3):
            nodes.append({"type": "param", "name": "p", "shape": [4], "init": self.init(1)})
        return {"type": "graph", "nodes": nodes, "output": " + ".join(n["name"] for n in nodes)}

    def parts(self, depth):
        """A graph whose output is a map, inside of another."""
        inside = {"type": "graph", "name": "both", "nodes": [self.inner(depth + 1) | {"name": "a"}, self.inner(depth + 1) | {"name": "b"}], "output": {"left": "a", "right": "a - 0.5 * b"}}
        return {"type": "graph", "nodes": [inside, self.placed(depth + 1, "last", "both.left")], "output": "last + both.right"}

    def structure(self):
        o = self.inner()
        while o["type"] not in ("sequential", "residual", "repeat", "remat", "graph", "twice", "mixed") or "inputs" in o:
            o = self.inner()
        if "extra" not in self.inputs:
            self.inputs["extra"] = self.inputs.pop(self.given([2, 3, 4]))
            self.data["extra"] = self.data.pop(list(self.data)[-1])
        return o | {"input": self.given([2, 3, 4])}


PRODUCTS = ["linear", "linear_general", "einsum", "conv", "conv_transpose", "multi_head_attention"]
KINDS = ["linear", "linear_general", "einsum", "embed", "conv", "conv_transpose", "layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm", "prelu", "multi_head_attention", "attention_expression", "rnn",
         "bidirectional", "pool", "lora", "lora_linear", "weight_norm", "spectral_norm", "dropout", "activated", "param", "structure", "cell_alone"]
DEFINE = {"mixed": {"params": {"hidden": 2, "inner": "$hidden + 1"}, "inputs": ["p", "q"],
                    "body": {"type": "graph", "nodes": [{"type": "linear", "name": "one", "features": "$inner", "input": "p"}, {"type": "tanh", "name": "two", "input": "one"},
                                                        {"type": "linear", "name": "three", "features": 4, "use_bias": False, "input": "two"}], "output": "three + q"}},
          "twice": {"params": {"hidden": 3}, "body": {"type": "sequential", "layers": [{"type": "linear", "features": "$hidden"}, {"type": "tanh"}, {"type": "linear", "features": 4}]}}}


DTYPED = {"linear", "linear_general", "einsum", "embed", "conv", "conv_transpose", "layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm", "multi_head_attention", "lstm_cell",
          "optimized_lstm_cell", "gru_cell", "simple_cell", "lora", "lora_linear", "prelu"}


def narrow(g, o):
    """Gives some of the layers inside a dtype and a param_dtype."""
    for v in list(o.values()) if isinstance(o, dict) else o if isinstance(o, list) else ():
        narrow(g, v)
    kind = o.get("type") if isinstance(o, dict) else None
    if kind in ("weight_norm", "spectral_norm"):
        g.some(o, dtype=lambda: g.one(["bfloat16", "float16", "float32"]), param_dtype=lambda: g.one(["bfloat16", "float16", "float32"]))
    if kind not in DTYPED or (kind == "multi_head_attention" and g.chance(0.7)):  # XLA's CPU has few of its products
        return
    g.some(o, dtype=lambda: g.one(["bfloat16", "bfloat16", "float16", "float32"]))
    if kind.endswith("cell"):  # what a carry is made of is what comes out
        o.setdefault("recurrent_kernel_init", {"type": "lecun_normal"})
        if "dtype" in o and "orthogonal" not in json.dumps(o):
            o["param_dtype"] = o["dtype"]
        else:
            o["dtype"] = "float32"
    elif g.chance() and "orthogonal" not in json.dumps(o):  # JAX has it in 32 bits only
        o["param_dtype"] = g.one(["bfloat16", "bfloat16", "float16", "float32"])


def make_case(seed, only, blocks, narrowed=False):
    g = Generator(seed)
    nodes, more = [], {}
    for i in range(blocks):
        node = getattr(g, g.one(only or [k for k in KINDS if not narrowed or k != "attention_expression"]))()
        x = g.inputs.get(node.get("input"))
        bare = "pool" in node["type"] or node["type"] == "dropout"  # it has no parameters
        if x and x["dtype"] == "float32" and x["shape"] and (bare or g.chance(0.4)):
            before = {"type": "linear", "features": x["shape"][-1], "input": node.pop("input")}
            node = {"type": "sequential", "layers": [before, node]}
        if narrowed:
            narrow(g, node)
        nodes.append(node | {"name": "n%d" % i})
    nodes.append({"type": "param", "name": "base", "shape": [1]})  # a document needs a parameter
    if narrowed and g.chance(0.4) and not any(n in json.dumps(nodes) for n in ("orthogonal", "_norm", "cell")):
        more["precision"] = g.some({}, compute=lambda: g.one(["bfloat16", "float16"]), params=lambda: g.one(["bfloat16", "float16"]))
    document = {**more, "stepc": 1, "name": "fuzz_%d" % seed, "inputs": g.inputs, "seed": g.one([0, 7, 12345, {"params": 3, "dropout": 4, "noise": 5}, {"default": 6}, 4294967295]),
                "define": DEFINE, "model": {"type": "graph", "nodes": nodes, "output": {}}, "loss": "", "optimizer": {"type": "sgd", "learning_rate": RATE}}
    return {"document": document, "data": g.data, "steps": g.steps, "seed": seed, "rough": "float16" in json.dumps(nodes) + json.dumps(more)}


# ---------------------------------------------------------------- the same in NNX

def initializer(o):
    a = {k: tuple(v) if isinstance(v, list) else v for k, v in o.items() if k != "type"}
    if o["type"] in ("zeros", "ones"):
        return getattr(jax.nn.initializers, o["type"])
    return getattr(jax.nn.initializers, o["type"])(**a)


def function(o, **more):
    a = {k: tuple(v) if isinstance(v, list) else v for k, v in o.items() if k not in ("type", "input", "inputs", "name")} | more
    name = {"logmeanexp": "logmeanexp", "logsumexp": "logsumexp", "tanh": "tanh"}.get(o["type"], o["type"])
    f = getattr(jax.nn, name, None) or getattr(nnx, name)
    return lambda x: f(x, **a)


def tuples(v):
    return tuple(tuples(x) for x in v) if isinstance(v, list) else v


class Net(nnx.Module):
    pass


class Reference:
    """Interprets a document with NNX modules, which are made when they are first met."""

    def __init__(self, document):
        self.document, self.net = document, Net()
        seed = document["seed"]
        self.rngs = nnx.Rngs(**seed) if isinstance(seed, dict) else nnx.Rngs(seed)
        self.names, self.fresh, self.known, self.paths = {}, {}, {}, {}

    def module(self, net, path, make):
        if path not in self.names:
            name = "m%d" % len(self.names)
            self.names[path] = name
            made = make()
            self.fresh[name] = nnx.clone(made)
            setattr(net, name, made)
        return getattr(net, self.names[path])

    def value(self, expression, env):
        if not isinstance(expression, str):
            return expression
        names = {k: getattr(jnp, k) for k in ("tanh", "ones", "where", "concatenate", "isnan", "shape", "mean", "maximum")}
        names |= {"make_causal_mask": nnx.make_causal_mask, "dot_product_attention": jax.nn.dot_product_attention, "True": True, "None": None}
        return eval(expression.strip(), {"__builtins__": {}}, names | env)

    def path(self, o, parent, segment):
        segment = o.get("name", segment)
        return ".".join(s for s in (parent, segment) if s)

    def block(self, net, o, parent, segment, xs, env):
        path = self.path(o, parent, segment)
        if "input" in o:
            xs = (self.value(o["input"], env),)
        if "inputs" in o:
            xs = tuple(self.value(e, env) for e in o["inputs"])
        self.known[path] = o
        env = env | ({"x": xs[0]} if xs else {})
        kind = o["type"]
        if kind in ("sequential", "residual"):
            ys = xs
            for i, c in enumerate(o["layers"]):
                y = self.block(net, c, path, "layers.%d" % i, ys, env | {"x": ys[0]} if ys else env)
                ys = y if isinstance(y, tuple) else (y,)
            y = ys if len(ys) > 1 else ys[0]
            return y if kind == "sequential" else xs[0] + y
        if kind == "repeat":
            for i in range(o["count"]):
                xs = (self.block(net, o["block"], path, str(i), xs, env | {"x": xs[0]}),) + xs[1:]
            return xs[0]
        if kind == "remat":
            return self.block(net, o["block"], path, "", xs, env)
        if kind == "graph":
            for c in o["nodes"]:
                env = env | {c["name"]: self.block(net, c, path, "", xs, env)}
            if not path:
                return env
            return self.value(o["output"], env) if isinstance(o["output"], str) else types.SimpleNamespace(**{k: self.value(e, env) for k, e in o["output"].items()})
        if kind == "shared":
            earlier = self.path({}, parent, o["block"])
            again = {k: v for k, v in self.known[earlier].items() if k not in ("input", "inputs")}
            return self.block(net, again | {"name": ""}, earlier, "", xs, env)
        if kind == "twice":
            body = json.loads(json.dumps(DEFINE["twice"]["body"]).replace('"$hidden"', str(o.get("hidden", 3))))
            return self.block(net, body, path, "", xs, env)
        if kind == "mixed":
            hidden = o.get("hidden", 2)
            body = json.loads(json.dumps(DEFINE["mixed"]["body"]).replace('"$inner"', str(o.get("inner", hidden + 1))))
            return self.block(net, body, path, "", xs, dict(self.inputs, p=xs[0], q=xs[1]))
        if kind == "sharding_constraint":
            return xs[0]
        if kind == "expr":
            return self.value(o["expr"], env)
        if kind == "param":
            make = lambda: nnx.Param(initializer(o.get("init", {"type": "zeros"}))(self.rngs.params(), tuple(o["shape"]), jnp.dtype(self.document.get("precision", {}).get("params", "float32"))))
            return self.module(net, path, make)[...]
        if kind == "attend":
            beside = self.path({}, parent, o["embedding"])
            return getattr(net, self.names[beside]).attend(xs[0])
        if kind.endswith("_pool"):
            a = {k: tuples(v) for k, v in o.items() if k not in ("type", "input", "name")}
            return getattr(nnx, kind)(xs[0], **a)
        if not hasattr(self, "make_" + kind):
            return function(o, **{k: self.value(o[k], env) for k in ("where",) if k in o})(xs[0])
        m = self.module(net, path, lambda: getattr(self, "make_" + kind)(o, xs))
        call = {}
        for k in ("mask", "seq_lengths", "initial_carry"):
            if o.get(k) is not None and kind not in ("conv", "conv_transpose"):
                call[k] = self.value(o[k], env)
        if kind == "multi_head_attention" and o.get("is_causal"):
            causal = jnp.tril(jnp.ones((xs[0].shape[-2], xs[min(1, len(xs) - 1)].shape[-2]), bool))
            call["mask"] = jnp.logical_and(call["mask"], causal) if "mask" in call else jnp.broadcast_to(causal, (*xs[0].shape[:-2], 1, *causal.shape))
        if kind.endswith("_cell") and len(xs) == 1:
            return m(m.initialize_carry(xs[0].shape), xs[0])
        inside, convolution = o.get("layer_instance", {}), None
        inside = inside.get("layer_instance", inside)
        inner = m.layer_instance if hasattr(m, "layer_instance") else None
        inner = getattr(inner, "layer_instance", inner)
        if "mask" in inside and kind == "weight_norm" and "conv" not in inside["type"]:
            call["mask"] = self.value(inside["mask"], env)
            if inside.get("is_causal"):
                call["mask"] = jnp.logical_and(call["mask"], jnp.tril(jnp.ones(call["mask"].shape[-2:], bool)))
        elif ("mask" in inside and "conv" not in inside["type"]) or inside.get("is_causal"):
            raise ValueError("spectral_norm passes no mask on")
        for c, made in ((o, m), (inside, inner)):
            if "mask" in c and "conv" in c["type"]:
                convolution, mask = made, self.value(c["mask"], env)
        if not convolution:
            return m(*xs, **call)
        object.__setattr__(convolution, "mask", mask)  # a constant in NNX, an expression in a document
        y = m(*xs, **call)
        object.__setattr__(convolution, "mask", None)
        return y

    def own(self, o, *without, **more):
        """The arguments of the constructor."""
        a = {k: initializer(v) if k.endswith(("_init", "_initializer")) and isinstance(v, dict) else tuples(v) for k, v in o.items()
             if k not in ("type", "name", "input", "inputs", "mask", "seq_lengths", "initial_carry", "is_causal", "features", "in_features", *without)}
        if "preferred_element_type" in a and a["preferred_element_type"]:
            a["preferred_element_type"] = jnp.dtype(a["preferred_element_type"])
        if "variable_filter" in a:
            patterns = a["variable_filter"] if isinstance(a["variable_filter"], tuple) else (a["variable_filter"],)
            a["variable_filter"] = lambda path, value: any(p == "**" or path[-1] in p.rsplit(".", 1)[-1].strip("{}").split(",") for p in patterns)
        for k in ("gate_fn", "activation_fn"):
            if k in a:
                a[k] = function(o[k])
        for k, general in (("dtype", "compute"), ("param_dtype", "params")):
            given = a.get(k) or self.document.get("precision", {}).get(general) if o["type"] in DTYPED else a.get(k)
            if given:
                a[k] = jnp.dtype(given)
        return a | more | {"rngs": self.rngs}

    def make_linear(self, o, xs): return nnx.Linear(xs[0].shape[-1], o["features"], **self.own(o))
    def make_lora_linear(self, o, xs):
        given = {"lora_" + k: jnp.dtype(self.document["precision"][general]) for k, general in (("dtype", "compute"), ("param_dtype", "params")) if self.document.get("precision", {}).get(general)}
        return nnx.LoRALinear(xs[0].shape[-1], o["features"], **self.own(o), **given)

    def make_embed(self, o, xs): return nnx.Embed(o["num_embeddings"], o["features"], **self.own(o, "num_embeddings"))
    def make_prelu(self, o, xs): return nnx.PReLU(**{k: v for k, v in self.own(o).items() if k != "rngs"})
    def make_dropout(self, o, xs): return nnx.Dropout(**self.own(o))
    def make_layer_norm(self, o, xs): return nnx.LayerNorm(self.feature(o.get("feature_axes", -1), xs), **self.own(o))
    def make_rms_norm(self, o, xs): return nnx.RMSNorm(self.feature(o.get("feature_axes", -1), xs), **self.own(o))
    def make_instance_norm(self, o, xs): return nnx.InstanceNorm(self.feature(o.get("feature_axes", -1), xs), **self.own(o))
    def make_group_norm(self, o, xs): return nnx.GroupNorm(xs[0].shape[-1], **self.own(o))
    def make_batch_norm(self, o, xs): return nnx.BatchNorm(self.feature(o.get("axis", -1), xs), **self.own(o))
    def make_lstm_cell(self, o, xs): return self.a_cell(o, xs[-1])
    make_optimized_lstm_cell = make_gru_cell = make_simple_cell = make_lstm_cell

    def feature(self, axis, xs):
        return xs[0].shape[axis[0] if isinstance(axis, list) else axis]

    def make_linear_general(self, o, xs):
        axes = o.get("axis", -1)
        axes = axes if isinstance(axes, list) else [axes]
        inside = tuple(xs[0].shape[a] for a in sorted(a % xs[0].ndim for a in axes))  # NNX sorts them
        return nnx.LinearGeneral(inside, tuples(o["features"]), **self.own(o, "batch_axis", batch_axis={int(k): v for k, v in o.get("batch_axis", {}).items()}))

    def make_einsum(self, o, xs):
        return nnx.Einsum(o["einsum_str"], tuple(o["kernel_shape"]), tuple(o["bias_shape"]) if "bias_shape" in o else None, **self.own(o, "einsum_str", "kernel_shape", "bias_shape"))

    def make_conv(self, o, xs): return nnx.Conv(xs[0].shape[-1], o["features"], **self.own(o))
    def make_conv_transpose(self, o, xs): return nnx.ConvTranspose(xs[0].shape[-1], o["features"], **self.own(o))

    def make_multi_head_attention(self, o, xs):
        more = {"in_kv_features": xs[1].shape[-1]} if len(xs) > 1 else {}
        return nnx.MultiHeadAttention(in_features=xs[0].shape[-1], decode=False, **self.own(o, "in_kv_features", deterministic=o.get("deterministic", False), **more))

    def a_cell(self, o, x):
        kind = {"lstm_cell": nnx.LSTMCell, "optimized_lstm_cell": nnx.OptimizedLSTMCell, "gru_cell": nnx.GRUCell, "simple_cell": nnx.SimpleCell}[o["type"]]
        return kind(x.shape[-1], **self.own(o))

    def make_rnn(self, o, xs):
        return nnx.RNN(self.a_cell(o["cell"], xs[0]), **{k: v for k, v in self.own(o, "cell").items() if k != "rngs"})

    def make_bidirectional(self, o, xs):
        ways = [self.make_rnn(o[k], xs) for k in ("forward_rnn", "backward_rnn")]
        more = {k: v for k, v in self.own(o, "forward_rnn", "backward_rnn", "merge_fn").items() if k != "rngs"}
        if "merge_fn" in o:
            more["merge_fn"] = lambda a, b: eval(o["merge_fn"], {}, {"a": a, "b": b})
        return nnx.Bidirectional(*ways, **more)

    def make_lora(self, o, xs):
        base = getattr(self, "make_" + o["base_module"]["type"])(o["base_module"], xs) if "base_module" in o else None
        features = o.get("features") or o["base_module"]["features"]
        return nnx.LoRA(xs[0].shape[-1], out_features=features, base_module=base, **self.own(o, "base_module"))

    def make_sequential(self, o, xs):
        inside, made = xs[0].shape[-1], []
        for layer in o["layers"]:
            if layer["type"] != "linear":
                made.append(function(layer))
                continue
            made.append(nnx.Linear(inside, layer["features"], **self.own(layer)))
            inside = layer["features"]
        return nnx.Sequential(*made)

    def make_weight_norm(self, o, xs):
        inside = getattr(self, "make_" + o["layer_instance"]["type"])(o["layer_instance"], xs)
        return nnx.WeightNorm(inside, **self.own(o, "layer_instance"))

    def make_spectral_norm(self, o, xs):
        inside = getattr(self, "make_" + o["layer_instance"]["type"])(o["layer_instance"], xs)
        return nnx.SpectralNorm(inside, **self.own(o, "layer_instance"))

    def path_of(self, place):
        """The path in the document of a variable of the net."""
        if not self.paths:
            self.paths = {name: path for path, name in self.names.items()}
        return ".".join([self.paths[place[0]]] + [str(s) for part in place[1:] for s in (part if isinstance(part, tuple) else (part,))])

    def tensors(self, net, *kinds):
        return {self.path_of(place): np.asarray(v[...]) for place, v in nnx.to_flat_state(nnx.state(net, nnx.Any(*(kinds or (nnx.Param, nnx.BatchStat)))))}


class Adapted(nnx.Linear):
    """A linear layer with an adapter beside it."""

    def __call__(self, x):
        return super().__call__(x) + x @ self.lora_a[...] @ self.lora_b[...]


def adapt(ref, r):
    """Adapters beside some linear layers, drawn after the whole model."""
    at = [(path, name) for path, name in ref.names.items() if type(getattr(ref.net, name)) is nnx.Linear]
    chosen = {at[i][0] for i in set(r.integers(len(at), size=3))} if at else set()
    rank = int(r.integers(1, 4))
    for path, name in at:
        for m in (getattr(ref.net, name), ref.fresh[name]) if path in chosen else ():
            m.__class__ = Adapted
            if m is not ref.fresh[name]:
                keys = ref.rngs.params(), ref.rngs.params()
            m.lora_a = nnx.Param(jax.nn.initializers.he_uniform()(keys[0], (m.in_features, rank), m.param_dtype))
            m.lora_b = nnx.Param(jax.nn.initializers.normal(0.3)(keys[1], (rank, m.out_features), m.param_dtype))
    return [{"type": "lora", "rank": rank, "match": sorted(chosen), "b_initializer": {"type": "normal", "stddev": 0.3}}] if chosen else []


def leaves(v, text, joint="[%d]"):
    """The tensors of a value and how each is written."""
    if isinstance(v, tuple):
        for i, x in enumerate(v):
            yield from leaves(x, text + joint % i, joint)
    else:
        yield v, text


def matches(pattern, path):
    return pattern == path or (pattern.startswith("**.") and path.split(".")[-1] == pattern[3:]) or (pattern.endswith(".**") and path.startswith(pattern[:-2]))


def draw_trainable(r, paths):
    """Patterns of which parameters are trained; None: all are."""
    if r.random() > 0.15:
        return None
    last, first = {"**." + p.split(".")[-1] for p in paths if "." in p}, {p.split(".")[0] + ".**" for p in paths if "." in p}
    pool = sorted(set(paths) | last | first)
    return ["base"] + [pool[i] for i in sorted(set(r.integers(len(pool), size=r.integers(1, 4))))]


def oracle(case, factors):
    """Per factor that the data are changed by: the tensors after the last step, the losses, and what is inferred then, by NNX.
    It adds the loss to the document, whose weights are the inputs named w."""
    document, results = case["document"], []
    ref = Reference(document)
    feed = lambda t, factor: {k: jnp.asarray(v[t] * (1 + factor * np.cos(np.arange(v[t].size)).reshape(v[t].shape)).astype(np.float32) if v.dtype == np.float32 else v[t]) for k, v in case["data"].items()}

    def forward(net, d):
        ref.inputs = d
        return ref.block(net, document["model"] | {"name": ""}, "", "", (), d)

    out = forward(ref.net, feed(0, 0))
    own = np.random.default_rng(case["seed"])
    if own.random() < 0.15 and not case["rough"]:
        document["adapters"] = adapt(ref, own)
    r, terms = np.random.default_rng(1), []
    for node in document["model"]["nodes"]:
        name = node["name"]
        document["model"]["output"][name] = name
        for v, text in leaves(out[name], "model." + name):
            w = "w%d" % len(terms)
            document["inputs"][w] = {"shape": list(v.shape), "dtype": "float32", "axes": [None] * v.ndim}
            case["data"][w] = r.normal(size=(case["steps"], *v.shape)).astype(np.float32)
            terms.append("sum(%s * %s) / %d" % (w, text, max(1, v.size) ** 0.5 + 1))
    document["loss"] = " + ".join(terms)
    names = {"sum": jnp.sum}
    outputs = document["model"]["output"]
    trainable = draw_trainable(own, sorted(ref.tensors(ref.net, nnx.Param)))
    if trainable:
        document["trainable"] = trainable

    def loss(net, d):
        out = forward(net, d)
        return eval(document["loss"].replace("model.", "model_"), names, {"model_" + k: out[k] for k in outputs} | d)

    @nnx.jit
    def step(net, d):
        value, grads = nnx.value_and_grad(loss)(net, d)
        rule = lambda path, p, g: p - RATE * g if not trainable or any(matches(t, ref.path_of(path)) for t in trainable) else p
        state, grads = dict(nnx.to_flat_state(nnx.state(net, nnx.Param))), dict(nnx.to_flat_state(grads))
        nnx.update(net, nnx.from_flat_state({path: v.replace(rule(path, v[...], grads[path][...])) for path, v in state.items()}))
        return value

    @nnx.jit
    def infer(net, d):
        out = forward(net, d)
        return {k: out[k] for k in outputs}

    for factor in factors:
        net, losses, inferred = Net(), [], []
        for name, m in ref.fresh.items():
            setattr(net, name, nnx.clone(m))
        for t in range(case["steps"]):
            losses.append(float(step(net, feed(t, factor))))
        for t in range(case["steps"]):
            apart = nnx.clone(net)  # layers with normalised weights write them even now
            apart.eval()
            inferred.append(infer(apart, feed(t, factor)))
        stacked = {text: np.stack([np.asarray(v) for v in values]) for k in outputs for (_, text), *values in zip(leaves(inferred[0][k], "model." + k, ".%d"), *([v for v, _ in leaves(i[k], "")] for i in inferred))}
        results.append((ref.tensors(net), {"loss": losses}, stacked))
    return results


# ---------------------------------------------------------------- playing it

def write_case(folder, case, tensors, metrics, note="from tests/fuzz/layers.py"):
    recorded.write(folder, case["document"], case["data"], None, case["steps"], tensors, metrics, RTOL, ATOL, note)


def compare(got, want, noisy, rough):
    """None, or what differs; differences that noise in the data can make are no differences. Rough: a document with 16-bit
    types, where what is rounded is as large as the largest number."""
    for kind in range(3):
        for name, value in want[kind].items():
            value, found, others = np.asarray(value, "f8"), got[kind].get(name), [np.asarray(n[kind][name], "f8") for n in noisy]
            if found is None:
                return "%s is not there; there are %s" % (name, ", ".join(sorted(got[kind])))
            with np.errstate(invalid="ignore", over="ignore"):
                spread = max((np.abs(o - value) for o in others), key=lambda d: np.nan_to_num(d, nan=np.inf).max(initial=0))
                slack = np.where(np.isfinite(spread), 3 * np.nan_to_num(spread).max(initial=0), np.inf)
                slack = slack + (0.03 * np.nan_to_num(np.abs(value), posinf=0).max(initial=0.1) if rough else 0)
            said = comparison.difference(found, value, RTOL, ATOL, slack)
            if said:
                return "inferred " * (kind == 2) + name + said
    return None


def play(options, case, compiled, want, noisy):
    with tempfile.TemporaryDirectory(prefix="stepc-fuzz-") as tmp:
        runner.write_document(tmp, case["document"], case["data"])
        try:
            program, inferred = "step.so" if compiled else "model.json", os.path.join(tmp, "inferred.safetensors")
            if compiled:
                runner.compile_document(options.stepc, tmp)
            tensors, lines = runner.train(options.stepc, tmp, case["steps"], program, arguments=["--infer", inferred])
        except runner.Failed as e:
            return e.brief()
        header = safetensors.header(inferred)
        for name, value in want[2].items():
            if name in header and header[name]["dtype"] != safetensors.NAMES[value.dtype.name]:
                return "inferred %s: %s instead of %s" % (name, header[name]["dtype"], value.dtype.name)
        return compare((tensors, runner.series(lines, want[1]), safetensors.wide(inferred)), want, noisy, case["rough"])


def one(options, seed):
    case = make_case(seed, options.only, options.blocks, options.narrow)
    nodes = json.dumps(case["document"]["model"]["nodes"])
    shapes = json.dumps({k: v["shape"] for k, v in case["document"]["inputs"].items()})
    try:
        want, *noisy = oracle(case, (0, 1e-6, -1e-6, 3e-6))
    except Exception as e:  # NNX refuses it
        return seed, "refused by NNX", "%s: %s" % (type(e).__name__, str(e).strip()[:200]), nodes + shapes
    if not all(np.isfinite(v).all() for v in want[0].values()) or any(0 in v["shape"] for v in case["document"]["inputs"].values()):
        return seed, "not finite", "", nodes
    why = play(options, case, np.random.default_rng(seed).random() < options.compile, want, noisy)
    if options.keep and (why or options.keep_all):
        write_case(os.path.join(options.keep, "fuzz_%s_%d" % ("_".join(options.only or ["layers"]), seed)), case, *want[:2])
    if why is None:
        return seed, "agrees", "", nodes
    return seed, "not supported yet" if "not supported yet" in why else "differs", why, nodes + shapes


def main():
    p = command.parser(__doc__, 50)
    p.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    p.add_argument("--blocks", type=int, default=2, help="blocks of a case, each with its own inputs")
    p.add_argument("--compile", type=float, default=0.0, help="the part of the cases that is compiled instead of interpreted")
    p.add_argument("--narrow", action="store_true", help="16-bit layers and parameters")
    p.add_argument("--keep-all", action="store_true", help="keep the cases that agree, too: to record them")
    p.add_argument("--only", nargs="*", choices=KINDS, help="kinds of blocks")
    options = p.parse_args()
    counts, seen = collections.Counter(), collections.Counter()
    for seed in range(options.seed, options.seed + options.cases):
        seed, outcome, why, nodes = one(options, seed)
        counts[outcome] += 1
        if outcome == "agrees":
            seen.update(set(draws.types_in(json.loads(nodes))))
        if options.v or outcome not in ("agrees", "not finite"):
            print("%s %d: %s\n    %s" % (outcome, seed, why, nodes), flush=True)
        if counts.total() % 40 == 0:
            jax.clear_caches()
    print(command.summary(counts))
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
