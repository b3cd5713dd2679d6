"""Rows for nnx_layers.py: every layer of Flax NNX with the arguments that Flax's own tests/nnx/nn try, and the forms of its examples;
needs flax. A row is a function of nnx.Rngs that makes the module, its inputs and, if it must be refused, what says so.

Argument choices are taken from a product, each value several times (`some`); --all takes the whole product.
"""
import itertools
import os

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

ALL = "STEPC_ALL_ROWS" in os.environ
R = np.random.default_rng(7)
F = lambda *shape: R.standard_normal(shape).astype(np.float32)
I = lambda limit, *shape: R.integers(0, limit, shape).astype(np.int32)
HALF = [jnp.float32, jnp.float16]
PRECISION = [None, "default", jax.lax.Precision.HIGH, "highest"]
ROWS = {}


class Row:
    def __init__(self, make, inputs, call=None, refused=None, around=None, loose=1, rate=0.1):
        self.make, self.inputs, self.call, self.refused, self.loose, self.rate = make, inputs, call, refused, loose, rate
        # Between an input of floats and the layer stands a trained scale, so that the layer's gradient by its input counts too.
        self.around = next(iter(inputs.values())).dtype.kind == "f" if around is None else around


def row(name, *arguments, **more):
    assert name not in ROWS, name
    ROWS[name] = Row(*arguments, **more)


def named(value):
    if isinstance(value, np.ndarray):
        return "given"
    value = getattr(value, "__name__", getattr(value, "name", value))
    return "".join(c if c.isalnum() else "_" for c in str(value)).strip("_").lower()


def some(name, choices, make, inputs, **more):
    """Rows for choices of arguments: all, or as many that each value is there at least twice."""
    names, values = list(choices), list(choices.values())
    if ALL:
        picked = list(itertools.product(*values))
    else:
        count, order = 2 * max(map(len, values)) + 1, np.random.default_rng(len(name))
        columns = [order.permutation(np.resize(np.arange(len(v)), count)) for v in values]
        picked = [[v[i] for v, i in zip(values, at)] for at in dict.fromkeys(zip(*columns))]
    for p in picked:
        arguments = dict(zip(names, p))
        half = any(v is jnp.float16 or v is jnp.bfloat16 for v in p)
        said = ["%s_%s" % (k, named(v)) if not isinstance(v, bool) else k if v else "no_" + k for k, v in arguments.items() if v is not None]
        row("_".join([name, *said]) if said else name + "_plain",
            lambda rngs, arguments=arguments: make(rngs=rngs, **{k: v for k, v in arguments.items() if v is not None}), inputs, **{"loose": 300 if half else 1, **more})


# ---------------------------------------------------------------- linear, convolutions, tables

DTYPES = {"dtype": [None, jnp.float32, jnp.float16, jnp.bfloat16], "param_dtype": [jnp.float32, jnp.float16]}
PRODUCT = {**DTYPES, "precision": PRECISION, "preferred_element_type": [None, jnp.float32]}
PLAIN = {**DTYPES, "precision": PRECISION}
some("linear", {"use_bias": [True, False], **PRODUCT}, lambda **a: nnx.Linear(4, 3, **a), {"x": F(5, 4)})
some("linear_general", PRODUCT, lambda **a: nnx.LinearGeneral(4, 3, **a), {"x": F(5, 4)})
row("linear_general_features", lambda rngs: nnx.LinearGeneral(2, (3, 4), rngs=rngs), {"x": F(5, 2)})
row("linear_general_axes", lambda rngs: nnx.LinearGeneral((3, 4), (2, 5), axis=(1, -1), use_bias=False, rngs=rngs), {"x": F(2, 3, 4)})
row("linear_general_batch", lambda rngs: nnx.LinearGeneral(4, 2, axis=-1, batch_axis={0: 3}, rngs=rngs), {"x": F(3, 5, 4)})
some("einsum", {"einsum_str": ["defab,bcef->adefc", "d...ab,bc...->ad...c"], "bias_shape": [None, (6, 7, 5)], **PRODUCT},
     lambda **a: nnx.Einsum(a.pop("einsum_str"), (4, 5, 6, 7), a.pop("bias_shape", None), **a), {"x": F(2, 6, 7, 3, 4)})
row("einsum_in_call", lambda rngs: nnx.Einsum("ab,bc->ac", (4, 3), (3,), rngs=rngs), {"x": F(5, 4)}, call=lambda m, x: m(x, einsum_str="ab,bc->cab".replace("cab", "ac")))
row("einsum_op", lambda rngs: nnx.Einsum("ab,bc->ac", (4, 3), einsum_op=lambda *a, **k: 2 * jnp.einsum(*a, **k), rngs=rngs), {"x": F(5, 4)})
row("linear_dot_general", lambda rngs: nnx.Linear(4, 3, dot_general=lambda *a, **k: 2 * jax.lax.dot_general(*a, **k), rngs=rngs), {"x": F(5, 4)})
row("linear_promote_dtype", lambda rngs: nnx.Linear(4, 3, promote_dtype=lambda a, **k: tuple(None if x is None else 3 * x for x in a), rngs=rngs), {"x": F(5, 4)})
some("prelu", DTYPES, lambda rngs, **a: nnx.PReLU(negative_slope_init=0.02, **a), {"x": np.linspace(-10, 10, 20, dtype=np.float32)})
row("linear_scalar_batch", lambda rngs: nnx.Linear(4, 3, rngs=rngs), {"x": F(4)})
row("linear_three", lambda rngs: nnx.Linear(4, 3, rngs=rngs), {"x": F(2, 3, 4)})
row("linear_integers", lambda rngs: nnx.Linear(4, 3, rngs=rngs), {"x": I(9, 5, 4)})

CONV = {"strides": [1, (2, 3), None], "use_bias": [True, False], "mask": [None, np.tril(np.ones((7, 4, 1, 6), np.float32))], "dtype": [None, jnp.float32],
        "param_dtype": [jnp.float32, jnp.float16], "precision": PRECISION, "preferred_element_type": [None, jnp.float32]}
some("conv", CONV, lambda **a: nnx.Conv(3, 6, (7, 4), padding=(4, 2), input_dilation=(2, 3), kernel_dilation=(2, 3), feature_group_count=3, **a), {"x": F(2, 24, 9, 3)})
for padding in ("VALID", "SAME", "CIRCULAR", "REFLECT", ((1, 2), (0, 3)), 2):
    row("conv_padding_" + named(padding), lambda rngs, padding=padding: nnx.Conv(3, 4, (3, 2), padding=padding, strides=(2, 1), rngs=rngs), {"x": F(2, 8, 7, 3)})
row("conv_causal", lambda rngs: nnx.Conv(3, 4, 3, padding="CAUSAL", rngs=rngs), {"x": F(2, 8, 3)})
row("conv_integer_size", lambda rngs: nnx.Conv(2, 4, 3, rngs=rngs), {"x": F(2, 8, 2)})
row("conv_no_batch", lambda rngs: nnx.Conv(2, 4, (3,), rngs=rngs), {"x": F(8, 2)})
row("conv_batches", lambda rngs: nnx.Conv(2, 4, (3,), rngs=rngs), {"x": F(2, 3, 8, 2)})
row("conv_own", lambda rngs: nnx.Conv(2, 4, (3,), conv_general_dilated=lambda *a, **k: 2 * jax.lax.conv_general_dilated(*a, **k), rngs=rngs), {"x": F(2, 8, 2)})
TRANSPOSED = {"strides": [None, (2, 3)], "padding": ["VALID", "CIRCULAR", (4, 2), "SAME"], **{k: v for k, v in CONV.items() if k != "strides"},
              "mask": [None, np.tril(np.ones((5, 4, 3, 6), np.float32))], "transpose_kernel": [False]}
some("conv_transpose", TRANSPOSED, lambda **a: nnx.ConvTranspose(3, 6, (5, 4), kernel_dilation=(2, 3), **a), {"x": F(2, 6, 5, 3)})
row("conv_transpose_kernel", lambda rngs: nnx.ConvTranspose(3, 6, (5, 4), transpose_kernel=True, rngs=rngs), {"x": F(2, 6, 5, 3)})
for limit, more in ((1, {}), (7, {}), (7, {"dtype": jnp.float16}), (7, {"param_dtype": jnp.float16}), (7, {"dtype": jnp.float16, "param_dtype": jnp.float16})):
    row("_".join(["embed", str(limit), *("%s_%s" % (k, named(v)) for k, v in more.items())]), lambda rngs, limit=limit, more=more: nnx.Embed(limit, 5, rngs=rngs, **more),
        {"x": I(limit, 3, 4)}, loose=300 if more else 1)
row("embed_attend", lambda rngs: nnx.Embed(7, 5, rngs=rngs), {"x": F(3, 5)}, call=lambda m, x: m.attend(x))

# ---------------------------------------------------------------- normalization

NORM = {**DTYPES, "use_fast_variance": [True, False], "use_scale": [True, False]}
MASK = np.array([True, True, True, False, True, True])


def kept(*shape):
    """Two of three elements: every sum has some."""
    return (np.arange(np.prod(shape)) % 3 > 0).astype(np.int32).reshape(shape)


for name, make in (("layer_norm", lambda **a: nnx.LayerNorm(6, **a)), ("rms_norm", lambda **a: nnx.RMSNorm(6, **a)), ("batch_norm", lambda **a: nnx.BatchNorm(6, **a)),
                   ("group_norm", lambda **a: nnx.GroupNorm(6, num_groups=3, **a)), ("instance_norm", lambda **a: nnx.InstanceNorm(6, **a))):
    kinds = {"x": F(3, 8, 6)} if name in ("instance_norm", "group_norm") else {"x": F(5, 6)}
    some(name, NORM, make, kinds)
    row(name + "_mask_constant", lambda rngs, make=make: make(rngs=rngs), kinds, call=lambda m, x: m(x, mask=MASK))
    row(name + "_mask", lambda rngs, make=make: make(rngs=rngs), {"x": kinds["x"], "k": kept(*kinds["x"].shape)}, call=lambda m, x, k: m(x, mask=k > 0))
    row(name + "_epsilon", lambda rngs, make=make: make(epsilon=0.1, rngs=rngs), kinds)
    if name != "rms_norm":
        row(name + "_no_bias", lambda rngs, make=make: make(use_bias=False, rngs=rngs), kinds)
    row(name + "_promote_dtype", lambda rngs, make=make: make(promote_dtype=lambda x, **k: x, rngs=rngs), kinds, refused="promote_dtype" if name == "batch_norm" else None)
row("layer_norm_axes", lambda rngs: nnx.LayerNorm(6, reduction_axes=(1, 2), feature_axes=-1, rngs=rngs), {"x": F(3, 4, 6)})
row("rms_norm_axes", lambda rngs: nnx.RMSNorm(6, reduction_axes=(-2, -1), feature_axes=-1, rngs=rngs), {"x": F(3, 4, 6)})
row("group_norm_size", lambda rngs: nnx.GroupNorm(6, num_groups=None, group_size=2, rngs=rngs), {"x": F(3, 4, 6)})
row("group_norm_axes", lambda rngs: nnx.GroupNorm(6, num_groups=3, reduction_axes=(1, -1), rngs=rngs), {"x": F(3, 4, 6)})
row("batch_norm_momentum", lambda rngs: nnx.BatchNorm(6, momentum=0.5, rngs=rngs), {"x": F(5, 4, 6)})
row("batch_norm_axis", lambda rngs: nnx.BatchNorm(4, axis=1, rngs=rngs), {"x": F(5, 4, 6)})
row("batch_norm_running", lambda rngs: nnx.BatchNorm(6, use_running_average=True, rngs=rngs), {"x": F(5, 6)})
row("batch_norm_running_in_call", lambda rngs: nnx.BatchNorm(6, rngs=rngs), {"x": F(5, 6)}, call=lambda m, x: m(x, use_running_average=True))
row("batch_norm_training_in_call", lambda rngs: nnx.BatchNorm(6, use_running_average=True, rngs=rngs), {"x": F(5, 6)}, call=lambda m, x: m(x, use_running_average=False))
row("batch_norm_eval", lambda rngs: evaluated(nnx.Sequential(nnx.Linear(4, 6, rngs=rngs), nnx.BatchNorm(6, rngs=rngs), nnx.Dropout(0.5, rngs=rngs))), {"x": F(5, 4)})
row("batch_norm_twice", lambda rngs: nnx.BatchNorm(6, rngs=rngs), {"x": F(5, 6)}, call=lambda m, x: m(m(x) * x))
row("batch_norm_running_second", lambda rngs: nnx.BatchNorm(6, rngs=rngs), {"x": F(5, 6)}, call=lambda m, x: m(x) + m(2 * x, use_running_average=True), refused="use_running_average|other arguments")


def evaluated(model):
    model.eval()
    return model


class Normalized(nnx.Module):
    """A wrapper over a layer that it holds too."""

    def __init__(self, make, rngs):
        self.dense = nnx.Linear(6, 4, rngs=rngs)
        self.normed = make(self.dense, rngs)

    def __call__(self, x):
        return self.normed(x)


for scale, axes in ((1.0, -1), (10.0, -1), (0.5, (0, 1))):
    row("weight_norm_%d_%s" % (10 * scale, named(axes)), lambda rngs, scale=scale, axes=axes: nnx.WeightNorm(
        nnx.Linear(6, 4, rngs=rngs), use_scale=True, scale_init=nnx.initializers.constant(scale), feature_axes=axes, rngs=rngs), {"x": F(5, 6)})
row("weight_norm_epsilon", lambda rngs: nnx.WeightNorm(nnx.Conv(3, 4, (3,), rngs=rngs), epsilon=0.1, rngs=rngs), {"x": F(2, 5, 3)})
row("weight_norm_own_filter", lambda rngs: nnx.WeightNorm(nnx.Linear(6, 4, rngs=rngs), variable_filter=nnx.PathContains("bias"), rngs=rngs), {"x": F(5, 6)}, refused="changes a parameter")
row("weight_norm_held_twice", lambda rngs: Normalized(lambda d, r: nnx.WeightNorm(d, rngs=r), rngs), {"x": F(5, 6)}, refused="changes a parameter")
row("weight_norm_no_scale", lambda rngs: nnx.WeightNorm(nnx.Linear(6, 4, rngs=rngs), use_scale=False, rngs=rngs), {"x": F(5, 6)})
for steps, update in ((1, True), (10, True), (1, False)):
    row("spectral_norm_%d%s" % (steps, "" if update else "_fixed"), lambda rngs, steps=steps, update=update: nnx.SpectralNorm(
        nnx.Sequential(nnx.Linear(6, 4, rngs=rngs), nnx.relu, nnx.BatchNorm(4, use_running_average=not update, rngs=rngs)), n_steps=steps, update_stats=update, rngs=rngs),
        {"x": F(5, 6)}, refused="running statistics|changes a parameter")

# ---------------------------------------------------------------- recurrent

CELLS = {"lstm": lambda **a: nnx.LSTMCell(3, 4, **a), "optimized_lstm": lambda **a: nnx.OptimizedLSTMCell(3, 4, **a), "gru": lambda **a: nnx.GRUCell(3, 4, **a), "simple": lambda **a: nnx.SimpleCell(3, 4, **a)}
T = {"x": F(2, 5, 3)}
LENGTHS = {"x": F(3, 5, 3), "n": np.array([3, 5, 1], np.int32)}
carried = lambda out: {"y": out[1], **{"c%d" % i: c for i, c in enumerate(jax.tree_util.tree_leaves(out[0]))}}
for name, cell in CELLS.items():
    first = lambda m, batch=2: m.initialize_carry((batch, 3), nnx.Rngs(0))
    row(name + "_cell", lambda rngs, cell=cell: cell(rngs=rngs), {"x": F(2, 3)}, call=lambda m, x: carried(m(m.initialize_carry(x.shape, nnx.Rngs(0)), x)))

    def sequence(m, x):
        carry, out = m.initialize_carry(x.shape[1:], nnx.Rngs(0)), []
        for t in range(x.shape[0]):
            carry, y = m(carry, x[t])
            out.append(y)
        return jnp.stack(out)
    row(name + "_sequence", lambda rngs, cell=cell: cell(rngs=rngs), {"x": F(3, 2, 3)}, call=sequence)
    row(name + "_rnn", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs)), T)
    row(name + "_rnn_carry", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs)), T, call=lambda m, x: m(x, initial_carry=m.cell.initialize_carry((2, 3), nnx.Rngs(0))))
    row(name + "_rnn_time_major", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs), time_major=True), {"x": F(5, 2, 3)})
    row(name + "_rnn_time_major_in_call", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs)), {"x": F(5, 2, 3)}, call=lambda m, x: m(x, time_major=True))
    row(name + "_rnn_reverse", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs), reverse=True), T)
    row(name + "_rnn_keep_order", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs), reverse=True, keep_order=True), T)
    row(name + "_rnn_reverse_in_call", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs)), T, call=lambda m, x: m(x, reverse=True, keep_order=True))
    row(name + "_rnn_lengths", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs), return_carry=True), LENGTHS, call=lambda m, x, n: carried(m(x, seq_lengths=n)))
    row(name + "_rnn_return_carry", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs)), T, call=lambda m, x: carried(m(x, return_carry=True)))
    row(name + "_rnn_unroll", lambda rngs, cell=cell: nnx.RNN(cell(rngs=rngs), unroll=2), {"x": F(2, 6, 3)})
    row(name + "_rnn_dtypes", lambda rngs, cell=cell: nnx.RNN(cell(dtype=jnp.bfloat16, rngs=rngs)), T, loose=1000)
    if name != "simple":
        row(name + "_gates", lambda rngs, cell=cell: nnx.RNN(cell(gate_fn=jax.nn.relu, activation_fn=jax.nn.elu, rngs=rngs)), T, rate=0.01)
    row(name + "_activation", lambda rngs, cell=cell: nnx.RNN(cell(activation_fn=nnx.softplus, rngs=rngs)), T)
    row(name + "_own_activation", lambda rngs, cell=cell: nnx.RNN(cell(activation_fn=lambda x: x * 0.5, rngs=rngs)), T)
    row(name + "_carry_ones", lambda rngs, cell=cell: nnx.RNN(cell(carry_init=nnx.initializers.ones, rngs=rngs)), T)
    row(name + "_carry_drawn", lambda rngs, cell=cell: nnx.RNN(cell(carry_init=nnx.initializers.normal(), rngs=rngs)), T, refused="carry_init")
    row(name + "_bidirectional", lambda rngs, cell=cell: nnx.Bidirectional(nnx.RNN(cell(rngs=rngs)), nnx.RNN(CELLS["gru"](rngs=rngs))), LENGTHS, call=lambda m, x, n: m(x, seq_lengths=n))
row("simple_residual", lambda rngs: nnx.RNN(nnx.SimpleCell(4, 4, residual=True, rngs=rngs)), {"x": F(2, 5, 4)})
row("bidirectional_carry", lambda rngs: nnx.Bidirectional(nnx.RNN(CELLS["lstm"](rngs=rngs)), nnx.RNN(CELLS["gru"](rngs=rngs)), return_carry=True), T, call=lambda m, x: carried(m(x)))
row("bidirectional_initial", lambda rngs: nnx.Bidirectional(nnx.RNN(CELLS["lstm"](rngs=rngs)), nnx.RNN(CELLS["gru"](rngs=rngs))), {"x": F(2, 5, 3), "h": F(2, 4)},
    call=lambda m, x, h: m(x, initial_carry=((h, 2 * h), 3 * h)))
row("bidirectional_time_major", lambda rngs: nnx.Bidirectional(nnx.RNN(CELLS["lstm"](rngs=rngs)), nnx.RNN(CELLS["gru"](rngs=rngs)), time_major=True), {"x": F(5, 2, 3)})
row("bidirectional_merge", lambda rngs: nnx.Bidirectional(nnx.RNN(CELLS["gru"](rngs=rngs)), nnx.RNN(CELLS["gru"](rngs=rngs)), merge_fn=lambda a, b: a * jnp.tanh(b)), T)


class OwnCell(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear(7, 4, rngs=rngs)

    def __call__(self, carry, inputs):
        h = jnp.tanh(self.dense(jnp.concatenate([inputs, carry], axis=-1)))
        return h, h

    def initialize_carry(self, input_shape, rngs=None):
        return jnp.zeros((input_shape[0], 4))

    @property
    def num_feature_axes(self):
        return 1


class DroppedCell(nnx.OptimizedLSTMCell):
    def __init__(self, rngs):
        super().__init__(3, 4, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rng_collection="recurrent_dropout", rngs=rngs)

    def __call__(self, carry, x):
        carry, y = super().__call__(carry, x)
        return jax.tree_util.tree_map(self.drop, carry), y


row("own_cell_rnn", lambda rngs: nnx.RNN(OwnCell(rngs)), T, call=lambda m, x: m(x, initial_carry=jnp.zeros((2, 4))))
row("dropped_cell_rnn", lambda rngs: nnx.RNN(DroppedCell(rngs), broadcast_rngs="recurrent_dropout"), T, refused="random numbers|dropout|rngs")

# ---------------------------------------------------------------- attention

A = {"x": F(2, 4, 6)}
attend = lambda m, x, *more, **a: m(x, *more, decode=False, **a)
some("attention", {"use_bias": [True, False], **PLAIN, "normalize_qk": [False, True]}, lambda **a: nnx.MultiHeadAttention(2, 6, 8, 5, decode=False, **a), A)
row("attention_defaults", lambda rngs: nnx.MultiHeadAttention(2, 6, rngs=rngs), A, call=attend)
row("attention_no_batch", lambda rngs: nnx.MultiHeadAttention(2, 6, decode=False, rngs=rngs), {"x": F(4, 6)})
row("attention_cross", lambda rngs: nnx.MultiHeadAttention(2, 6, 8, in_kv_features=3, rngs=rngs), {"x": F(2, 4, 6), "k": F(2, 5, 3)}, call=lambda m, x, k: attend(m, x, k))
row("attention_three", lambda rngs: nnx.MultiHeadAttention(2, 6, 8, rngs=rngs), {"x": F(2, 4, 6), "k": F(2, 5, 6), "v": F(2, 5, 6)}, call=lambda m, x, k, v: attend(m, x, k, v))
row("attention_mask", lambda rngs: nnx.MultiHeadAttention(2, 6, rngs=rngs), {"x": F(2, 4, 6), "k": I(3, 2, 4)},
    call=lambda m, x, k: attend(m, x, mask=nnx.combine_masks(nnx.make_attention_mask(k > 0, k > 0), nnx.make_causal_mask(k))))
row("attention_is_causal", lambda rngs: nnx.MultiHeadAttention(2, 6, rngs=rngs), A, call=lambda m, x: attend(m, x, is_causal=True))
row("attention_causal_and_mask", lambda rngs: nnx.MultiHeadAttention(2, 6, rngs=rngs), {"x": F(2, 4, 6), "k": I(3, 2, 4)},
    call=lambda m, x, k: attend(m, x, mask=nnx.make_attention_mask(k >= 0, k > 0), is_causal=True))
row("attention_groups", lambda rngs: nnx.MultiHeadAttention(6, 6, 12, num_kv_heads=2, rngs=rngs), A, call=attend)
row("attention_groups_one", lambda rngs: nnx.MultiHeadAttention(4, 6, 12, num_kv_heads=1, rngs=rngs), A, call=attend)
row("attention_deterministic", lambda rngs: nnx.MultiHeadAttention(2, 6, dropout_rate=0.5, deterministic=True, rngs=rngs), A, call=attend)
row("attention_deterministic_in_call", lambda rngs: nnx.MultiHeadAttention(2, 6, dropout_rate=0.5, rngs=rngs), A, call=lambda m, x: attend(m, x, deterministic=True))
row("attention_eval", lambda rngs: evaluated(nnx.MultiHeadAttention(2, 6, dropout_rate=0.5, decode=False, rngs=rngs)), A)
row("attention_sow", lambda rngs: nnx.MultiHeadAttention(2, 6, rngs=rngs), A, call=lambda m, x: attend(m, x, sow_weights=True))
row("attention_decode", lambda rngs: decoding(nnx.MultiHeadAttention(2, 6, decode=True, rngs=rngs)), {"x": F(2, 1, 6)}, refused="decode|cache")
row("attention_own_function", lambda rngs: nnx.MultiHeadAttention(2, 6, attention_fn=lambda q, k, v, **a: jax.nn.dot_product_attention(q, k, v), rngs=rngs), A, call=attend)
row("attention_own_product", lambda rngs: nnx.MultiHeadAttention(2, 6, qkv_dot_general=lambda *a, **k: 2 * jax.lax.dot_general(*a, **k), rngs=rngs), A, call=attend)


def decoding(model):
    model.init_cache((2, 4, 6), dtype=jnp.float32)
    return model


class Products(nnx.Module):
    """nnx.dot_product_attention by itself."""

    def __init__(self, heads, groups, rngs):
        self.q, self.k, self.v = (nnx.LinearGeneral(6, (h, 4), rngs=rngs) for h in (heads, groups, groups))

    def __call__(self, x, **more):
        return nnx.dot_product_attention(self.q(x), self.k(x), self.v(x), **more)


row("dot_product_attention", lambda rngs: Products(2, 2, rngs), A)
row("dot_product_attention_groups", lambda rngs: Products(6, 3, rngs), A)
row("dot_product_attention_masks", lambda rngs: Products(2, 2, rngs), {"x": F(2, 4, 6), "k": I(3, 2, 4)}, call=lambda m, x, k: m(x, mask=nnx.make_attention_mask(k >= 0, k > 0), is_causal=True))
row("dot_product_attention_bias", lambda rngs: Products(2, 2, rngs), {"x": F(2, 4, 6), "b": F(2, 2, 4, 4)}, call=lambda m, x, b: m(x, bias=b))

# ---------------------------------------------------------------- stochastic, LoRA, activations, pooling, containers

row("dropout_deterministic", lambda rngs: nnx.Dropout(0.5, deterministic=True, rngs=rngs), {"x": F(3, 10)})
row("dropout_deterministic_in_call", lambda rngs: nnx.Dropout(0.5), {"x": F(3, 10)}, call=lambda m, x: m(x, deterministic=True))
row("dropout_zero", lambda rngs: nnx.Dropout(0.0, rngs=rngs), {"x": F(3, 10)})
row("dropout_one", lambda rngs: nnx.Dropout(1.0, rngs=rngs), {"x": F(3, 10)})
row("dropout_rngs_in_call", lambda rngs: nnx.Dropout(0.0), {"x": F(3, 10)}, call=lambda m, x: m(x, rngs=nnx.Rngs(dropout=0)))
row("dropout_view", lambda rngs: nnx.view(nnx.Dropout(0.5), deterministic=True), {"x": F(3, 10)})


class OwnBase(nnx.Module):
    def __init__(self):
        self.kernel = nnx.Param(jnp.linspace(-1, 1, 12).reshape(3, 4))

    def __call__(self, x, w=None):
        return x @ (self.kernel[...] if w is None else w)


X3 = {"x": F(5, 3)}
row("lora", lambda rngs: nnx.LoRA(3, 2, 4, rngs=rngs), X3)
row("lora_base", lambda rngs: nnx.LoRA(3, 2, 4, base_module=nnx.Linear(3, 4, use_bias=False, rngs=rngs), rngs=rngs), X3)
row("lora_own_base", lambda rngs: nnx.LoRA(3, 2, 4, base_module=OwnBase(), rngs=rngs), X3)
row("lora_own_base_argument", lambda rngs: nnx.LoRA(3, 2, 4, base_module=OwnBase(), rngs=rngs), {"x": F(5, 3), "w": F(3, 4)}, call=lambda m, x, w: m(x, w=w))
row("lora_dtype", lambda rngs: nnx.LoRA(3, 4, 2, dtype=jnp.float16, param_dtype=jnp.float32, rngs=rngs), X3, loose=300)
row("lora_param_type", lambda rngs: nnx.LoRA(3, 4, 2, lora_param_type=nnx.Param, rngs=rngs), X3)
row("lora_linear", lambda rngs: nnx.LoRALinear(3, 4, lora_rank=2, rngs=rngs), X3)
some("lora_linear", {"use_bias": [True, False], "lora_dtype": [None, jnp.bfloat16], "lora_param_dtype": [jnp.float32, jnp.float16], "dtype": [None, jnp.float16], "param_dtype": [jnp.float32, jnp.bfloat16]},
     lambda **a: nnx.LoRALinear(3, 4, lora_rank=2, **a), X3)


class Mlp(nnx.Module):
    def __init__(self, rngs, swap):
        self.linear1, self.linear2 = nnx.Linear(3, 3, rngs=rngs), nnx.Linear(3, 3, rngs=rngs)
        self.linear2 = swap(self.linear2, rngs)

    def __call__(self, x):
        return self.linear2(self.linear1(x))


row("lora_swapped", lambda rngs: Mlp(rngs, lambda old, r: nnx.LoRA(3, 4, 3, base_module=old, rngs=r)), X3)
row("lora_linear_swapped", lambda rngs: Mlp(rngs, lambda old, r: nnx.LoRALinear(3, 3, lora_rank=4, rngs=r)), X3)
X2 = {"x": 2 * F(4, 6)}
for name in ("celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "relu", "relu6",
             "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus", "standardize", "swish", "tanh"):
    row("activation_" + name, lambda rngs: nnx.Linear(6, 6, rngs=rngs), X2, call=lambda m, x, name=name: getattr(nnx, name)(m(x)))
row("activation_gelu_exact", lambda rngs: nnx.Linear(6, 6, rngs=rngs), X2, call=lambda m, x: nnx.gelu(m(x), approximate=False))
row("activation_one_hot", lambda rngs: nnx.Linear(6, 6, rngs=rngs), {"x": I(6, 4)}, call=lambda m, x: m(nnx.one_hot(x, 6)), around=False)
P = {"x": F(2, 7, 6, 3)}
for name, more in (("avg_pool", {}), ("max_pool", {"strides": (2, 1)}), ("min_pool", {"strides": (2, 1)}), ("avg_pool", {"padding": "SAME"}), ("max_pool", {"padding": "SAME"}),
                   ("avg_pool", {"padding": "SAME", "count_include_pad": False}), ("avg_pool", {"padding": ((1, 0), (1, 2)), "strides": (2, 2)})):
    row("_".join([name, *map(named, more.values())]), lambda rngs: nnx.Linear(3, 3, rngs=rngs), P, call=lambda m, x, name=name, more=more: getattr(nnx, name)(m(x), (2, 3), **more))
row("sequential", lambda rngs: nnx.Sequential(nnx.Linear(3, 4, rngs=rngs), nnx.relu, nnx.Dropout(0.5, deterministic=True), nnx.Linear(4, 2, rngs=rngs)), X3)
