"""More programs whose communication is counted, of kinds that users train; see programs.py. models_xla.py has them for JAX.

    experts of which a token has two (GShard, arXiv:2006.16668), vision transformers (2010.11929) and shifted windows (2103.14030), T5
    (1910.10683), Llama (2302.13971), LoRA on ZeRO-3, RWKV's shift of tokens (2305.13048), batches and windows that do not divide
"""
from mesh.programs import (ADAM, CLIPPED, GRID, LABELS, LINE, MEGATRON, ROWS, SPLIT, SQUARE, TIED, block, document, experts, expr, hold, linear, residual, stages, tensor,
                           transformer)

WITHOUT_BIAS = {"use_bias": False}


def graph(output, *nodes):
    """Nodes are layers, and pairs of a name and an expression."""
    return {"type": "graph", "nodes": [expr(n[1]) | {"name": n[0]} if isinstance(n, tuple) else n for n in nodes], "output": output}


def of(name, x, layer):
    return layer | {"name": name, "input": x}


def two_experts(name):
    """GShard's layer: the best expert of a token and the second best, which comes behind all first ones in the queue."""
    o = experts(name, GRID, "model", ["model", "batch"])
    keep = [n for n in o["model"]["nodes"] if n["name"] not in ("chosen", "position", "dispatch", "y_hat")]
    put = [("first", "one_hot(argmax(gate, axis=-1), 8)"), ("second", "one_hot(argmax(shares * (1 - first), axis=-1), 8)"),
           ("at_first", "cumsum(first, axis=1) * first"), ("at_second", "(cumsum(second, axis=1) + sum(first, axis=1, keepdims=True)) * second"),
           ("dispatch", "(first * (at_first <= 12))[..., None] * one_hot(at_first - 1, 12) + (second * (at_second <= 12))[..., None] * one_hot(at_second - 1, 12)"),
           ("weight", "shares * (first + second) / sum(shares * (first + second), axis=-1, keepdims=True)")]
    at = [n["name"] for n in keep].index("sent")
    o["model"] = graph("y_hat", *keep[:at], *put, *keep[at:], ("y_hat", "einsum('gsec,egcm->gsm', dispatch * weight[..., None], ready)"))
    return o


def vision(name, params, *between, tokens=64):
    """Patches behind a token for the class, whose place at the end is read."""
    inputs = {"patches": tensor(16, tokens, 48), "labels": tensor(16, dtype="int32")}
    return document(name, GRID, inputs, graph(
        "head", of("embedded", "patches", linear("embedded", 128)),
        {"type": "param", "name": "token", "shape": [1, 1, 128], "init": {"type": "normal"}},
        {"type": "param", "name": "places", "shape": [1, tokens + 1, 128], "init": {"type": "normal"}},
        ("all", "concatenate((broadcast_to(token, (16, 1, 128)), embedded), axis=1) + places"),
        *([of("held", "all", between[0])] if between else []),
        of("layers", "held" if between else "all", {"type": "sequential", "layers": [block("b0", 128, *between), block("b1", 128, *between)]}),
        ("read", "layers[:, 0]"), of("head", "read", linear("head", 64))), LABELS, params)


def attends(name, x, seen, bias=None, causal=False):
    """T5's attention: no biases, nothing scaled, a bias by how far tokens are apart."""
    part = lambda p, source: of("%s_%s" % (name, p), source, {"type": "linear_general", "features": [8, 16]} | WITHOUT_BIAS)
    scores = "einsum('bqhd,bkhd->bhqk', %s_query, %s_key)" % (name, name) + (" + %s" % bias if bias else "")
    masked = "where(arange(32)[:, None] >= arange(32)[None, :], %s_scores, -1e9)" % name if causal else "%s_scores" % name
    return [part("query", x), part("key", seen), part("value", seen), (name + "_scores", scores), (name + "_weights", "softmax(%s, axis=-1)" % masked),
            (name + "_mixed", "einsum('bhqk,bkhd->bqhd', %s_weights, %s_value)" % (name, name)),
            of(name + "_out", name + "_mixed", {"type": "linear_general", "features": 128, "axis": [-2, -1]} | WITHOUT_BIAS)]


def t5(name):
    rms = lambda name, x: of(name, x, {"type": "rms_norm"})
    mlp = lambda name, x: [of(name + "_up", x, linear("", 512, **WITHOUT_BIAS)), (name + "_on", "relu(%s_up)" % name), of(name + "_down", name + "_on", linear("", 128, **WITHOUT_BIAS))]
    table = lambda name: {"type": "param", "name": name, "shape": [32, 8], "init": {"type": "normal"}}
    apart = "transpose(take(%s, clip(arange(32)[None, :] - arange(32)[:, None], -16, 15) + 16, axis=0), (2, 0, 1))"
    inputs = {"tokens": tensor(16, 32, dtype="int32"), "before": tensor(16, 32, dtype="int32"), "labels": tensor(16, 32, dtype="int32")}
    return document(name, GRID, inputs, graph(
        "logits", of("x0", "tokens", {"type": "embed", "num_embeddings": 512, "features": 128}), table("encoder_table"), table("decoder_table"),
        ("encoder_bias", apart % "encoder_table"), ("decoder_bias", apart % "decoder_table"),
        rms("n0", "x0"), *attends("encoder", "n0", "n0", "encoder_bias"), ("x1", "x0 + encoder_out"), rms("n1", "x1"), *mlp("encoder_mlp", "n1"), ("x2", "x1 + encoder_mlp_down"), rms("read", "x2"),
        ("y0", "take(params.x0.embedding, before, axis=0)"),
        rms("m0", "y0"), *attends("decoder", "m0", "m0", "decoder_bias", True), ("y1", "y0 + decoder_out"), rms("m1", "y1"), *attends("across", "m1", "read"), ("y2", "y1 + across_out"),
        rms("m2", "y2"), *mlp("decoder_mlp", "m2"), ("y3", "y2 + decoder_mlp_down"), rms("last", "y3"), ("logits", "last @ transpose(params.x0.embedding) / 11.3137085")),
        LABELS | {"logits": "model"},
        {"*_{query,key,value}.kernel": [None, "model"], "*_out.kernel": ["model"], "*_up.kernel": [None, "model"], "*_down.kernel": ["model"], "*_table": [None, "model"], "**": []})


def llama(name):
    """Grouped queries turned by their places, gated feed-forward layer; between them sequences are split."""
    part = lambda name, heads: of(name, "normed", {"type": "linear_general", "features": [heads, 16]} | WITHOUT_BIAS)
    turned = lambda x: ("turned_" + x, "concatenate((%s[..., :8] * cos(angle) - %s[..., 8:] * sin(angle), %s[..., 8:] * cos(angle) + %s[..., :8] * sin(angle)), axis=-1)" % (x, x, x, x))
    return document(name, GRID, ROWS, graph(
        "end", of("begin", "x", SPLIT), of("normed", "begin", {"type": "rms_norm"}), part("query", 8), part("key", 4), part("value", 4),
        ("angle", "astype(arange(32), 'float32')[:, None, None] * 0.1**astype(arange(8), 'float32')"), turned("query"), turned("key"),
        ("seen", "dot_product_attention(turned_query, turned_key, value, is_causal=True)"), of("out", "seen", {"type": "linear_general", "features": 128, "axis": [-2, -1]} | WITHOUT_BIAS),
        of("sum_out", "out", SPLIT), ("mixed", "begin + sum_out"), of("inner", "mixed", {"type": "rms_norm"}), of("gate", "inner", linear("", 512, **WITHOUT_BIAS)),
        of("up", "inner", linear("", 512, **WITHOUT_BIAS)), ("gated", "silu(gate) * up"), of("down", "gated", linear("", 128, **WITHOUT_BIAS)), of("sum_down", "down", SPLIT), ("end", "mixed + sum_down")),
        SQUARE, {"{query,key,value}.kernel": [None, "model"], "out.kernel": ["model"], "{gate,up}.kernel": [None, "model"], "down.kernel": ["model"], "**": []})


def uneven_batch(name):
    layers = []
    for i, features in enumerate((16, 32)):
        layers += [{"type": "conv", "name": "c%d" % i, "features": features, "kernel_size": [3, 3]}, {"type": "batch_norm", "name": "n%d" % i}, {"type": "relu"}]
    inputs = {"x": tensor(30, 16, 16, 8), "labels": tensor(30, dtype="int32")}
    return document(name, LINE, inputs, [*layers, expr("mean(x, axis=(1, 2))"), linear("head", 16)], LABELS, {"**": []})


def adapted(name):
    lora = lambda name, features: {"type": "lora", "name": name, "lora_rank": 8, "base_module": {"type": "linear", "features": features}}
    return document(name, LINE, ROWS, [residual("a", lora("up", 512), {"type": "gelu"}, lora("down", 128)), residual("b", lora("up", 512), {"type": "gelu"}, lora("down", 128))], SQUARE,
                    {"**.base_module.**": ["data"], "**": []}, CLIPPED, trainable=["@lora"])


def deep(name):
    layers = [residual("l%d" % i, linear("up", 512), {"type": "gelu"}, linear("down", 256)) for i in range(6)]
    return document(name, LINE, {"x": tensor(256, 256), "y": tensor(256, 256)}, layers, SQUARE, {"**": ["data"]}, ADAM)


def token_shift(name):
    """What a token was before, beside what it is; sequences are split."""
    shifted = lambda x: "concatenate((zeros_like(%s[:, :1]), %s[:, :-1]), axis=1)" % (x, x)
    return document(name, GRID, ROWS, graph(
        "end", of("begin", "x", SPLIT), {"type": "param", "name": "share", "shape": [128], "init": {"type": "normal"}}, {"type": "param", "name": "part", "shape": [128], "init": {"type": "normal"}},
        of("normed", "begin", {"type": "layer_norm"}), ("mixed", "normed * share + %s * (1 - share)" % shifted("normed")), of("key", "mixed", linear("", 512, **WITHOUT_BIAS)),
        ("on", "relu(key)**2"), of("value", "on", linear("", 128, **WITHOUT_BIAS)), of("held", "value", SPLIT),
        ("gate", "held * part + %s * (1 - part)" % shifted("held")), ("end", "begin + gate")), SQUARE, {"**": []})


def shifted_windows(name):
    """Swin: attention in windows of 4 x 4, the second time of an image that is rolled by half a window; rows are split."""
    held = hold("batch", "model", None, None)

    def windows(n, x, shift):
        part = lambda p: of(n + "_" + p, n + "_cut", {"type": "linear_general", "features": [4, 16]})
        return [(n + "_rolled", "roll(%s, (%d, %d), (1, 2))" % (x, -shift, -shift) if shift else "%s * 1" % x),
                (n + "_cut", "reshape(transpose(reshape(%s_rolled, (8, 8, 4, 4, 4, 64)), (0, 1, 3, 2, 4, 5)), (8, 8, 4, 16, 64))" % n), part("query"), part("key"), part("value"),
                (n + "_seen", "einsum('bijhqk,bijkhd->bijqhd', softmax(einsum('bijqhd,bijkhd->bijhqk', %s_query, %s_key), axis=-1), %s_value)" % (n, n, n)),
                of(n + "_out", n + "_seen", {"type": "linear_general", "features": 64, "axis": [-2, -1]}),
                (n + "_put", "reshape(transpose(reshape(%s_out, (8, 8, 4, 4, 4, 64)), (0, 1, 3, 2, 4, 5)), (8, 32, 16, 64))" % n),
                (n + "_back", "roll(%s_put, (%d, %d), (1, 2))" % (n, shift, shift) if shift else "%s_put * 1" % n), (n + "_sum", "%s + %s_back" % (x, n)), of(n, n + "_sum", held)]
    return document(name, GRID, {"x": tensor(8, 32, 16, 64), "y": tensor(8, 32, 16, 64)}, graph("b", of("image", "x", held), *windows("a", "image", 0), *windows("b", "a", 2)),
                    "mean((model - y)**2)", {"**": []})


def swapped(name, shape):
    """Two dimensions change places on the mesh, and back."""
    at, other = hold("data", "model"), hold("model", "data")
    none = [None] * len(shape)
    return document(name, GRID, {"x": tensor(*shape, axes=none), "y": tensor(*shape, axes=none)},
                    [linear("first", shape[-1]), {"type": "relu"}, at, linear("second", shape[-1]), {"type": "relu"}, other, linear("third", shape[-1]), {"type": "relu"}, at], SQUARE, {"**": []})


PROGRAMS = [
    two_experts("two_experts"),
    vision("vision", MEGATRON | {"**": []}),
    vision("vision_sequence", MEGATRON | {"**": []}, SPLIT),
    t5("t5"),
    transformer("tied_fsdp", LINE, {"**": ["data"]}, head=TIED),
    llama("llama_sequence"),
    uneven_batch("convolution_norm_uneven"),
    adapted("lora_fsdp"),
    deep("deep_zero_3"),
    token_shift("token_shift"),
    shifted_windows("shifted_windows"),
    swapped("swapped", [8, 8, 64]),
    swapped("swapped_uneven", [7, 9, 64]),
    stages("convolution_valid", GRID, [8, 64, 16, 4], [3, 3], [1, 1], [2, 2], ["batch", "model", None, None], padding="VALID"),
]

REACHED = {"two_experts": 0.96, "vision": 0.71, "vision_sequence": 0.79, "t5": 0.66, "tied_fsdp": 0.59, "llama_sequence": 0.46, "lora_fsdp": 1.0, "deep_zero_3": 0.36, "token_shift": 0.76, "swapped": 0.80, "swapped_uneven": 0.77,
           "shifted_windows": 0.60, "convolution_valid": 0.80}
