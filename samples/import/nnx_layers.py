"""The layers of Flax NNX that a document has: one row per layer. A row says which attributes become which keys, what of a call
becomes keys or expressions, and what must be as the constructor leaves it. Every argument of the constructor is one of these, so one
that is not spelled, also one of a later Flax, is refused by its name as soon as it is not the default.
"""
import inspect

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jaxpr_text import NotCovered, plain

# What a document means without the key: such values are left out.
USUAL = {"param_dtype": "float32", "lora_param_dtype": "float32", "use_fast_variance": True, "deterministic": False, "use_running_average": False,
         "time_major": False, "return_carry": False, "reverse": False, "keep_order": False, "residual": False, "broadcast_dims": [],
         "transpose_kernel": False, "carry_init": {"type": "zeros"}, "gate_fn": {"type": "sigmoid"}, "activation_fn": {"type": "tanh"}, "scale_init": {"type": "ones"}}
# Arguments that say how a layer begins, how it is placed or how its loop is compiled: its weights are converted, not these.
BEGINNINGS = ("self", "args", "kwargs", "rngs", "keep_rngs", "rng_collection", "unroll", "state_axes", "broadcast_rngs", "lora_rank")
BEGINNING_ENDS = ("_init", "_initializer", "_metadata")
DTYPES = "dtype param_dtype "
PRODUCT = DTYPES + "use_bias precision preferred_element_type "
NORM = DTYPES + "=num_features epsilon use_scale use_fast_variance "


def _plain(value):
    if isinstance(value, (np.dtype, type)):
        return np.dtype(value).name
    return value.item() if isinstance(value, jax.Array) and value.ndim == 0 else plain(value)


def _precision(value):
    """One for both operands: jax.lax.Precision or what it may be called."""
    pair = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    try:
        names = {jax.lax.Precision(v).name.lower() for v in pair}
    except ValueError:
        names = set()
    if len(names) != 1:
        raise NotCovered("precision %s" % (value,))
    return names.pop()


def _function(value):
    """An activation of jax.nn or jax.numpy as an object."""
    name = getattr(value, "__name__", "")
    if getattr(jax.nn, name, None) is not value and getattr(jnp, name, None) is not value:
        raise NotCovered("a function of one's own")
    return {"type": name}


def _initializer(value):
    """The first carry: of the function that draws it only the name can be seen."""
    name = getattr(value, "__name__", "")
    if name not in ("zeros", "ones") or value is not getattr(jax.nn.initializers, name) and value is not getattr(nnx.initializers, name):
        raise NotCovered("an initializer that is drawn")
    return {"type": name}


def _constant(value):
    """A mask as an expression."""
    value = np.asarray(value)
    if value.size and np.all(value == value.flat[0]):
        return "full(%s, %s, dtype='%s')" % (tuple(value.shape), value.flat[0].item(), value.dtype.name)
    if value.size > LARGEST:
        raise NotCovered("a constant of %d elements" % value.size)
    return "array(%s, dtype='%s')" % (value.tolist(), value.dtype.name)


def _scales(value):
    """Of weight_norm: arrays that nothing trains, so the document says what they are."""
    found = np.unique(np.concatenate([np.ravel(leaf) for leaf in jax.tree_util.tree_leaves(value)]))
    if found.size != 1:
        raise NotCovered("scales that are not all alike")
    return {"type": "ones"} if found[0] == 1 else {"type": "constant", "value": found[0].item()}


LARGEST = 10000
MADE = {"scale_init": _scales, "precision": _precision, "gate_fn": _function, "activation_fn": _function, "carry_init": _initializer, "mask": _constant,
        "rate": float, "dropout_rate": float}


class Row:
    """keys: "key", "key=attribute", or "=attribute" (what it says is in the weights); inside: layers that it holds, by key; own: layers
    that it makes itself, which must be as it made them, by attribute. Of its call: arrays it takes, expressions (arrays that are keys of
    the document) and fields (values that replace those of the layer)."""

    def __init__(self, kind, keys, inside="", own="", inputs="x inputs", expressions="", fields=""):
        pairs = [k.partition("=") for k in keys.split()]
        self.kind, self.inside, self.own = kind, inside.split(), own.split()
        self.keys = [(k, attribute or k) for k, _, attribute in pairs if k]
        self.spelled = {attribute or k for k, _, attribute in pairs} | {*self.inside}
        self.inputs, self.expressions, self.fields = inputs.split(), expressions.split(), fields.split()


CELL = DTYPES + "hidden_features activation_fn carry_init =in_features "
CONV = PRODUCT + "features=out_features kernel_size strides padding kernel_dilation mask =in_features "
RUN = "time_major return_carry "
ROWS = {
    "Linear": Row("linear", PRODUCT + "features=out_features =in_features"),
    "LinearGeneral": Row("linear_general", PRODUCT + "features=out_features axis batch_axis =in_features"),
    "Einsum": Row("einsum", DTYPES + "precision preferred_element_type einsum_str kernel_shape bias_shape", fields="einsum_str"),
    "Embed": Row("embed", DTYPES + "num_embeddings features"),
    "Conv": Row("conv", CONV + "input_dilation feature_group_count"),
    "ConvTranspose": Row("conv_transpose", CONV + "transpose_kernel"),
    "LayerNorm": Row("layer_norm", NORM + "use_bias reduction_axes feature_axes", expressions="mask"),
    "RMSNorm": Row("rms_norm", NORM + "reduction_axes feature_axes", expressions="mask"),
    "GroupNorm": Row("group_norm", NORM + "use_bias num_groups =group_size reduction_axes", expressions="mask"),
    "InstanceNorm": Row("instance_norm", NORM + "use_bias feature_axes", expressions="mask"),
    "BatchNorm": Row("batch_norm", NORM + "use_bias axis momentum use_running_average axis_name", expressions="mask", fields="use_running_average"),
    "PReLU": Row("prelu", DTYPES),
    "WeightNorm": Row("weight_norm", DTYPES + "epsilon use_scale feature_axes scale_init=scales", inside="layer_instance"),
    "Dropout": Row("dropout", "rate broadcast_dims deterministic", fields="deterministic"),
    "LSTMCell": Row("lstm_cell", CELL + "gate_fn", inputs="carry inputs"),
    "OptimizedLSTMCell": Row("optimized_lstm_cell", CELL + "gate_fn", inputs="carry inputs"),
    "GRUCell": Row("gru_cell", CELL + "gate_fn", inputs="carry inputs"),
    "SimpleCell": Row("simple_cell", CELL + "residual", inputs="carry inputs"),
    "RNN": Row("rnn", RUN + "reverse keep_order", inside="cell", expressions="seq_lengths initial_carry", fields=RUN + "reverse keep_order"),
    "Bidirectional": Row("bidirectional", RUN, inside="forward_rnn backward_rnn", expressions="seq_lengths initial_carry", fields=RUN),
    "LoRA": Row("lora", DTYPES + "features=out_features =in_features", inside="base_module"),
    "LoRALinear": Row("lora_linear", PRODUCT + "features=out_features =in_features =lora_dtype =lora_param_dtype =lora_promote_dtype", own="lora"),
    "MultiHeadAttention": Row("multi_head_attention", DTYPES + "num_heads in_features qkv_features out_features in_kv_features num_kv_heads "
                              "dropout_rate broadcast_dropout deterministic normalize_qk use_bias precision",
                              own="query key value out query_ln key_ln", inputs="inputs_q inputs_k inputs_v", expressions="mask",
                              fields="deterministic is_causal"),
}
KINDS = {getattr(nnx, name): row for name, row in ROWS.items() if hasattr(nnx, name)}


def _usual(value, default):
    if value is default or value in (None, False) and default in (None, False):
        return True
    return type(value) is type(default) and not hasattr(value, "dtype") and value == default


def _arguments(kind):
    """Name -> default of what the constructors of a layer take."""
    found = {}
    for cls in kind.__mro__:
        if "__init__" in vars(cls) and issubclass(cls, nnx.Module):
            for p in inspect.signature(cls.__init__).parameters.values():
                found.setdefault(p.name, p.default)
    return found


def _check(path, layer, row):
    """Refuses what this layer is and a document cannot say."""
    for name, default in _arguments(type(layer)).items():
        if name in row.spelled or name in BEGINNINGS or name.endswith(BEGINNING_ENDS) or default is inspect.Parameter.empty or name in row.own:
            continue
        value = getattr(layer, name, default)
        if not _usual(value, default) and not (name == "lora_param_type" and issubclass(value, nnx.Param)):
            raise NotCovered("%s: %s" % (path, name))
    for name in row.own:
        part = getattr(layer, name, None)
        if part is not None:
            if type(part) not in KINDS:
                raise NotCovered("%s: a %s as its %s" % (path, type(part).__name__, name))
            _check("%s.%s" % (path, name), part, KINDS[type(part)])


def _adapter(path, layer, out):
    """The part of LoRA that its arguments leave to the weights."""
    adapter = layer if isinstance(layer, nnx.LoRA) else layer.lora
    out["lora_rank"] = int(adapter.lora_a.value.shape[1])
    if adapter is not layer:
        out.update(_keys(path, adapter, [("lora_dtype", "dtype"), ("lora_param_dtype", "param_dtype")], adapter))
        if adapter.base_module is not None:
            raise NotCovered("%s.lora: base_module" % path)


def _keys(path, layer, keys, before):
    out = {}
    for key, attribute in keys:
        value = getattr(layer, attribute, None)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(value)):
            value = getattr(before, attribute, None)
        if value is None:
            continue
        try:
            value = MADE.get(key, _plain)(value)
        except NotCovered as e:
            raise NotCovered("%s: %s: %s" % (path, attribute, e)) from None
        if key not in USUAL or value != USUAL[key]:
            out[key] = value
    return out


def document_of(path, layer, before=None):
    """The layer as an object of the document, without its name and its inputs; before: the same before it was traced, which has the
    values of its arrays."""
    row = KINDS.get(type(layer))
    if row is None:
        raise NotCovered("%s: a %s" % (path, type(layer).__name__))
    _check(path, layer, row)
    out = {"type": row.kind, **_keys(path, layer, row.keys, before or layer)}
    for name in row.inside:
        if getattr(layer, name, None) is not None:
            out[name] = document_of("%s.%s" % (path, name) if path else name, getattr(layer, name), getattr(before or layer, name, None))
    if row.kind in ("lora", "lora_linear"):
        _adapter(path, layer, out)
    return out


def call_of(path, kind, original, layer, args, kwargs):
    """(inputs, {key: arrays}, {key: value}) of a call; refuses what a document cannot say of it."""
    row = KINDS[kind]
    given = inspect.signature(original).bind(layer, *args, **kwargs).arguments
    given = {k: v for k, v in list(given.items())[1:] if v is not None and k != "rngs"}
    inputs = [given.pop(k) for k in row.inputs if k in given]
    expressions = {k: given.pop(k) for k in row.expressions if k in given}
    fields = {k: _plain(given.pop(k)) for k in row.fields if k in given}
    for k, v in given.items():
        if v is not False and not (v == {} or v == ()):
            raise NotCovered("%s: %s of its call" % (path, ", ".join(v) if isinstance(v, dict) else k))
    return inputs, expressions, {k: v for k, v in fields.items() if not (k in USUAL and USUAL[k] == v and v == getattr(layer, k, v))}
