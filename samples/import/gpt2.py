"""GPT-2 as transformers' GPT2LMHeadModel: learned positions, norms before the blocks, one product for query, key and value
(split here), kernels that lie [in, out] (Conv1D), a head that is the embedding."""
import re

import numpy as np

from config import Weight, namespace, same, training, transposed

ACTIVATIONS = {"gelu_new": {"type": "gelu", "approximate": True}, "gelu_pytorch_tanh": {"type": "gelu", "approximate": True},
               "gelu": {"type": "gelu", "approximate": False}, "relu": {"type": "relu"}, "silu": {"type": "silu"},
               "swish": {"type": "silu"}, "tanh": {"type": "tanh"}, "gelu_fast": {"type": "gelu", "approximate": True},
               "gelu_python": {"type": "gelu", "approximate": False}, "sigmoid": {"type": "sigmoid"}, "relu6": {"type": "relu6"},
               "mish": {"type": "mish"}, "leaky_relu": {"type": "leaky_relu"}, "relu2": {"type": "expr", "expr": "relu(x)**2"},
               "quick_gelu": {"type": "expr", "expr": "x * sigmoid(1.702 * x)"}}


def read(config):
    width = config.integer("n_embd", 768)
    c = namespace(name="gpt2", width=width, vocabulary=config.integer("vocab_size", 50257),
                  positions=config.integer("n_positions", 1024), positions_key="n_positions", layers=config.integer("n_layer", 12),
                  heads=config.integer("n_head", 12), inner=config.integer("n_inner", 4 * width),
                  activation=config.get("activation_function", "gelu_new"), epsilon=config.number("layer_norm_epsilon", 1e-5),
                  stddev=config.number("initializer_range", 0.02), drop_embed=config.rate("embd_pdrop", 0.1),
                  drop_residual=config.rate("resid_pdrop", 0.1), drop_attention=config.rate("attn_pdrop", 0.1),
                  tied=config.flag("tie_word_embeddings", True), unused=("transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias"), table="wte.weight", head_names=("lm_head.weight",),
                  head_name="lm_head.weight", prefixes=("transformer.", ""))
    if not isinstance(c.activation, str) or c.activation not in ACTIVATIONS:
        config.fail("activation_function", "there are " + ", ".join(ACTIVATIONS))
    if width % c.heads:
        config.fail("n_head", "\"n_embd\" (%d) is no multiple of it" % width)
    c.scaled, c.by_layer = config.flag("scale_attn_weights", True), config.flag("scale_attn_by_inverse_layer_idx", False)
    if (c.by_layer or not c.scaled) and c.drop_attention:
        config.fail("attn_pdrop", "only 0 is supported where attention is scaled in another way than usual")
    config.flag("reorder_and_upcast_attn", False)  # products in float32, as they are here
    config.only("add_cross_attention", False)
    config.only("is_encoder_decoder", False)
    config.only("is_decoder", False)
    config.only("pruned_heads", {})
    for key in config.values:
        if key.startswith("summary_"):  # of a head for classification
            config.get(key)
    c.skips = lambda name: re.fullmatch(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)", name) is not None  # causal masks
    return c


def _attention(c, kernel_init, out_kernel_init):
    """Attention whose products are divided by the number of the layer, or by nothing."""
    part = lambda name: {"type": "linear_general", "name": name, "features": ["$heads", "$width // heads"], "kernel_init": kernel_init, "input": "x"}
    scale = "1" if not c.scaled else "(width // heads) ** -0.5"
    return {"type": "graph", "name": "attn", "output": "out", "nodes": [
        part("query"), part("key"), part("value"),
        {"type": "linear_general", "name": "out", "features": "$width", "axis": [-2, -1], "kernel_init": out_kernel_init,
         "input": "dot_product_attention(query, key, value, scale=%s%s, is_causal=True)" % (scale, " / divisor" if c.by_layer else "")}]}


def document(c, options):
    normal = lambda deviation=c.stddev: {"type": "normal", "stddev": deviation}
    residual = c.stddev / (2 * c.layers) ** 0.5  # the projections into the residual stream, as the paper has them
    norm = lambda name: {"type": "layer_norm", "name": name, "epsilon": c.epsilon, "use_fast_variance": False}  # as PyTorch, in two passes
    dropout = lambda rate: [{"type": "dropout", "rate": rate}] if rate else []
    attention = {"type": "multi_head_attention", "name": "attn", "num_heads": "$heads", "is_causal": True,
                 "kernel_init": normal(), "out_kernel_init": normal(residual)}
    if c.by_layer or not c.scaled:
        attention = _attention(c, normal(), normal(residual))
    if c.drop_attention:
        attention.update(dropout_rate=c.drop_attention, broadcast_dropout=False)
    block = {"type": "sequential", "layers": [
        {"type": "residual", "name": "", "layers": [norm("ln_1"), attention] + dropout(c.drop_residual)},
        {"type": "residual", "name": "", "layers": [
            norm("ln_2"), {"type": "linear", "name": "mlp.c_fc", "features": "$inner", "kernel_init": normal()},
            ACTIVATIONS[c.activation],
            {"type": "linear", "name": "mlp.c_proj", "features": "$width", "kernel_init": normal(residual)}] + dropout(c.drop_residual)}]}
    nodes = [
        {"type": "embed", "name": "wte", "num_embeddings": "$vocabulary", "features": "$width", "input": "tokens",
         "embedding_init": normal()},
        {"type": "embed", "name": "wpe", "num_embeddings": "$positions", "features": "$width", "input": "arange(length)",
         "embedding_init": normal()}]
    entry = "wte + wpe"
    if c.drop_embed:
        nodes.append({"type": "dropout", "name": "drop", "rate": c.drop_embed, "input": entry})
        entry = "drop"
    blocks = {"type": "repeat", "name": "h", "count": "$layers", "block": {"type": "block"}, "input": entry}
    if c.by_layer:  # every one has its own factor
        blocks = {"type": "sequential", "name": "h", "input": entry, "layers": [{"type": "block", "name": str(i), "divisor": i + 1} for i in range(c.layers)]}
    nodes += [blocks,
              {**norm("ln_f"), "input": "h"},
              {"type": "attend", "name": "logits", "embedding": "wte", "input": "ln_f"} if c.tied else
              {"type": "linear", "name": "lm_head", "features": "$vocabulary", "use_bias": False, "kernel_init": normal(), "input": "ln_f"}]
    return training(c, options, {"type": "graph", "nodes": nodes, "output": "logits" if c.tied else "lm_head"}, {"block": {"params": {"divisor": 1}, "body": block} if c.by_layer else {"body": block}},
                    {"vocabulary": c.vocabulary, "positions": c.positions, "width": c.width, "heads": c.heads, "inner": c.inner,
                     "layers": c.layers})


def _fused(name, c, shape, path, leaf):
    """c_attn: columns of query, key and value beside each other -> [in, heads, head_dim] three times (biases without `in`)."""
    depth, lead = c.width // c.heads, shape[:-1]
    here = lead + (c.heads, depth)
    return Weight(name, shape, [("%s.%s.%s" % (path, part, leaf), here) for part in ("query", "key", "value")],
                  lambda a: [p.reshape(here) for p in np.split(a, 3, axis=-1)],
                  lambda p: np.concatenate([q.reshape(lead + (c.width,)) for q in p], axis=-1), len(lead))


def weights(c):
    w, heads = c.width, c.heads
    table = [same("wte.weight", (c.vocabulary, w), "wte.embedding"), same("wpe.weight", (c.positions, w), "wpe.embedding")]
    for i in range(c.layers):
        at = "h.%d." % i
        for norm in ("ln_1", "ln_2"):
            table += [same(at + norm + ".weight", (w,), at + norm + ".scale"), same(at + norm + ".bias", (w,), at + norm + ".bias")]
        table += [_fused(at + "attn.c_attn.weight", c, (w, 3 * w), at + "attn", "kernel"),
                  _fused(at + "attn.c_attn.bias", c, (3 * w,), at + "attn", "bias"),
                  Weight(at + "attn.c_proj.weight", (w, w), [(at + "attn.out.kernel", (heads, w // heads, w))],
                         lambda a: [a.reshape(heads, w // heads, w)], lambda p: p[0].reshape(w, w), 2),
                  same(at + "attn.c_proj.bias", (w,), at + "attn.out.bias"),
                  same(at + "mlp.c_fc.weight", (w, c.inner), at + "mlp.c_fc.kernel"),
                  same(at + "mlp.c_fc.bias", (c.inner,), at + "mlp.c_fc.bias"),
                  same(at + "mlp.c_proj.weight", (c.inner, w), at + "mlp.c_proj.kernel"),
                  same(at + "mlp.c_proj.bias", (w,), at + "mlp.c_proj.bias")]
    table += [same("ln_f.weight", (w,), "ln_f.scale"), same("ln_f.bias", (w,), "ln_f.bias")]
    return table + ([] if c.tied else [transposed("lm_head.weight", (c.vocabulary, w), "lm_head.kernel")])
