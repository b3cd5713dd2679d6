"""Llama as transformers' LlamaForCausalLM: RMS norms, rotary positions over halves, grouped queries, SwiGLU, [out, in] matrices
(transposed here), a head of its own or the embedding."""
import math
import re

from gpt2 import ACTIVATIONS
from config import Weight, is_number, namespace, same, training, transposed


def _rope(config):
    """The base, and what divides the frequencies: nothing, a factor (linear), or the bands of Llama 3."""
    parameters = config.get("rope_parameters", {})
    key = "rope_parameters" if parameters else "rope_scaling"
    scaling = parameters or config.get("rope_scaling", {})
    config.get("rope_scaling")
    if type(scaling) is not dict:
        config.fail(key, "an object is needed")
    scaling = dict(scaling)
    base = scaling.pop("rope_theta", None)
    base = config.number("rope_theta", 10000.0) if base is None else base
    config.get("rope_theta")
    if not is_number(base) or base <= 1:
        config.fail(key if "rope_theta" not in config.values else "rope_theta", "a base above 1 is needed")
    kind = scaling.pop("rope_type", None) or scaling.pop("type", None) or "default"
    scaling.pop("type", None)
    wanted = {"default": (), "linear": ("factor",),
              "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
              "dynamic": ("factor",), "yarn": ("factor",)}
    optional = {"dynamic": {"original_max_position_embeddings"},
                "yarn": {"attention_factor", "beta_fast", "beta_slow", "original_max_position_embeddings", "truncate"}}
    if type(kind) is not str or kind not in wanted:
        config.fail(key, "its rope_type \"%s\" is not supported; there are %s" % (kind, ", ".join(wanted)))
    for name in wanted[kind]:
        if not is_number(scaling.get(name)) or scaling[name] <= 0:
            config.fail(key, "rope_type \"%s\" needs a positive \"%s\"" % (kind, name))
    for name, value in scaling.items():
        if value is not None and (type(value) is not bool if name == "truncate" else not is_number(value) or value <= 0):
            config.fail(key, "\"%s\" of rope_type \"%s\": %s is needed" % (name, kind, "true or false" if name == "truncate" else "a positive number"))
    partial = scaling.pop("partial_rotary_factor", 1.0)
    extra = sorted(set(scaling) - set(wanted[kind]) - optional.get(kind, set())) if kind != "default" else sorted(set(scaling))
    if partial != 1.0 or extra:
        config.fail(key, "\"%s\" is not supported" % (extra[0] if extra else "partial_rotary_factor"))
    return float(base), kind, scaling


def read(config):
    width, heads = config.integer("hidden_size", 4096), config.integer("num_attention_heads", 32)
    base, kind, scaling = _rope(config)
    c = namespace(name="llama", width=width, heads=heads, kv_heads=config.integer("num_key_value_heads", heads),
                  depth=config.integer("head_dim", max(width // heads, 1)), inner=config.integer("intermediate_size", 11008),
                  layers=config.integer("num_hidden_layers", 32), vocabulary=config.integer("vocab_size", 32000),
                  positions=config.integer("max_position_embeddings", 2048), positions_key="max_position_embeddings",
                  epsilon=config.number("rms_norm_eps", 1e-6), stddev=config.number("initializer_range", 0.02),
                  attention_bias=config.flag("attention_bias", False), mlp_bias=config.flag("mlp_bias", False),
                  tied=config.flag("tie_word_embeddings", False), base=base, rope=kind, scaling=scaling,
                  table="embed_tokens.weight", head_names=("lm_head.weight",), prefixes=("model.", ""))
    if "head_dim" not in config.values and width % heads:
        config.fail("num_attention_heads", "\"hidden_size\" (%d) is no multiple of it" % width)
    if heads % c.kv_heads:
        config.fail("num_key_value_heads", "\"num_attention_heads\" (%d) is no multiple of it" % heads)
    if c.depth % 2:
        config.fail("head_dim", "rotary positions need an even one")
    c.activation = config.get("hidden_act", "silu")
    if not isinstance(c.activation, str) or c.activation not in ACTIVATIONS:
        config.fail("hidden_act", "there are " + ", ".join(ACTIVATIONS))
    config.only("pretraining_tp", 1)
    config.only("partial_rotary_factor", 1.0)
    config.only("sliding_window", None)
    config.only("rope_interleaved", False)
    config.only("is_encoder_decoder", False)
    config.only("is_decoder", False)
    if config.rate("attention_dropout", 0.0):
        config.fail("attention_dropout", "only 0 is supported")
    c.skips = lambda name: re.fullmatch(r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq", name) is not None
    return c


def _frequencies(c):
    """An expression for the frequencies of the pairs, [half]."""
    plain = "rope_base ** (-arange(half) / half)"
    if c.rope in ("default", "dynamic"):  # dynamic: until a text is longer than the model's positions
        return plain, {}
    if c.rope == "yarn":
        return _yarn(c, plain)
    if c.rope == "linear":
        return "%s / rope_factor" % plain, {"rope_factor": c.scaling["factor"]}
    s = c.scaling
    names = {"rope_factor": s["factor"], "rope_low": s["low_freq_factor"], "rope_high": s["high_freq_factor"],
             "rope_length": s["original_max_position_embeddings"]}
    # Waves longer than length/low are slowed down, those shorter than length/high are not, between them it blends.
    blend = "clip((rope_length * {f} / (2 * pi) - rope_low) / (rope_high - rope_low), 0, 1)".format(f="(%s)" % plain)
    return "({f}) * ({b} + (1 - {b}) / rope_factor)".format(f=plain, b=blend), names


def _yarn(c, plain):
    """Peng et al. 2023: pairs that turn often keep their frequency, slow ones are divided by the factor, a ramp between them."""
    s, half = c.scaling, c.depth // 2
    length = s.get("original_max_position_embeddings") or c.positions
    pair = lambda turns: c.depth * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(c.base))
    low, high = pair(s.get("beta_fast") or 32), pair(s.get("beta_slow") or 1)
    if s.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, c.depth - 1)
    ramp = "clip((arange(half) - rope_low) / (rope_high - rope_low), 0, 1)"
    c.turned = s.get("attention_factor") or (0.1 * math.log(s["factor"]) + 1.0 if s["factor"] > 1 else 1.0)
    return "(%s) * (1 - %s * (1 - 1 / rope_factor))" % (plain, ramp), {
        "rope_factor": s["factor"], "rope_low": low, "rope_high": high + (0.001 if low == high else 0), "rope_scale": c.turned}


def document(c, options):
    normal = {"type": "normal", "stddev": c.stddev}
    frequencies, constants = _frequencies(c)
    scaled = " * rope_scale" if "rope_scale" in constants else ""
    rope = {"params": {"half": "$head // 2"}, "body": {"type": "graph", "nodes": [
        {"type": "expr", "name": "angle", "expr": "arange(shape(x)[1])[:, None] * (%s)" % frequencies},
        {"type": "expr", "name": "c", "expr": "cos(angle)[:, None]%s" % scaled},
        {"type": "expr", "name": "s", "expr": "sin(angle)[:, None]%s" % scaled}],
        "output": "concatenate([x[..., :half] * c - x[..., half:] * s, x[..., half:] * c + x[..., :half] * s], axis=-1)"}}
    project = lambda name, heads: {"type": "linear_general", "name": name, "features": [heads, "$head"], "use_bias": c.attention_bias,
                                   "kernel_init": normal, "input": "x"}
    attention = {"body": {"type": "graph", "nodes": [
        project("q_proj", "$heads"), project("k_proj", "$kv_heads"), project("v_proj", "$kv_heads"),
        {"type": "rope", "name": "q", "input": "q_proj"}, {"type": "rope", "name": "k", "input": "k_proj"},
        {"type": "linear_general", "name": "o_proj", "features": "$width", "axis": [-2, -1], "use_bias": c.attention_bias,
         "kernel_init": normal, "input": "dot_product_attention(q, k, v_proj, is_causal=True)"}], "output": "o_proj"}}
    linear = lambda name, features, entry: {"type": "linear", "name": name, "features": features, "use_bias": c.mlp_bias,
                                            "kernel_init": normal, "input": entry}
    gate = [] if c.activation in ("silu", "swish") else [{**ACTIVATIONS[c.activation], "name": "gate", "input": "gate_proj"}]
    swiglu = {"body": {"type": "graph", "nodes": [
        linear("gate_proj", "$inner", "x"), linear("up_proj", "$inner", "x"),
        *gate, linear("down_proj", "$width", "%s * up_proj" % (gate[0]["name"] if gate else "silu(gate_proj)"))], "output": "down_proj"}}
    norm = lambda name: {"type": "rms_norm", "name": name, "epsilon": c.epsilon}
    block = {"body": {"type": "sequential", "layers": [
        {"type": "residual", "name": "", "layers": [norm("input_layernorm"), {"type": "attention", "name": "self_attn"}]},
        {"type": "residual", "name": "", "layers": [norm("post_attention_layernorm"), {"type": "swiglu", "name": "mlp"}]}]}}
    model = {"type": "sequential", "input": "tokens", "layers": [
        {"type": "embed", "name": "embed_tokens", "num_embeddings": "$vocabulary", "features": "$width", "embedding_init": normal},
        {"type": "repeat", "name": "layers", "count": "$layers", "block": {"type": "block"}},
        norm("norm"),
        {"type": "attend", "embedding": "embed_tokens"} if c.tied else
        {"type": "linear", "name": "lm_head", "features": "$vocabulary", "use_bias": False, "kernel_init": normal}]}
    return training(c, options, model, {"rope": rope, "attention": attention, "swiglu": swiglu, "block": block},
                    {"vocabulary": c.vocabulary, "width": c.width, "layers": c.layers, "heads": c.heads, "kv_heads": c.kv_heads,
                     "head": c.depth, "inner": c.inner, "rope_base": c.base, **constants})


def weights(c):
    w, depth = c.width, c.depth
    table = [same("embed_tokens.weight", (c.vocabulary, w), "embed_tokens.embedding")]
    for i in range(c.layers):
        at = "layers.%d." % i
        for norm in ("input_layernorm", "post_attention_layernorm"):
            table.append(same(at + norm + ".weight", (w,), at + norm + ".scale"))
        for name, heads in (("q_proj", c.heads), ("k_proj", c.kv_heads), ("v_proj", c.kv_heads)):
            there = at + "self_attn." + name
            table.append(transposed(there + ".weight", (heads * depth, w), there + ".kernel", (w, heads, depth)))
            if c.attention_bias:
                table.append(_reshaped(there + ".bias", (heads * depth,), there + ".bias", (heads, depth)))
        there = at + "self_attn.o_proj"
        table.append(transposed(there + ".weight", (w, c.heads * depth), there + ".kernel", (c.heads, depth, w)))
        if c.attention_bias:
            table.append(same(there + ".bias", (w,), there + ".bias"))
        for name, shape in (("gate_proj", (c.inner, w)), ("up_proj", (c.inner, w)), ("down_proj", (w, c.inner))):
            there = at + "mlp." + name
            table.append(transposed(there + ".weight", shape, there + ".kernel"))
            if c.mlp_bias:
                table.append(same(there + ".bias", shape[:1], there + ".bias"))
    table.append(same("norm.weight", (w,), "norm.scale"))
    if not c.tied:
        table.append(transposed("lm_head.weight", (c.vocabulary, w), "lm_head.kernel"))
    return table


def _reshaped(name, shape, path, here):
    return Weight(name, shape, [(path, here)], lambda a: [a.reshape(here)], lambda p: p[0].reshape(shape))
