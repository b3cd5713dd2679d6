"""Programs whose communication is counted: documents with the annotations of their papers and guides. traffic.py compiles them,
traffic_xla.py holds the same models for JAX, by the same names.

    data parallel, ZeRO 1 to 3 (arXiv:1910.02054), Megatron's MLP and attention (1909.08053) and with split sequences (2205.05198),
    experts with capacity (GShard, 2006.16668), T5X's and the GSPMD guide's annotations
"""

LINE, GRID = {"data": 8}, {"data": 2, "model": 4}
ADAM = {"type": "adam", "learning_rate": 0.001}
CLIPPED = {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, ADAM]}
RULES = [["batch", "data"]]
LABELS = {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "labels", "reduction": "mean"}
SQUARE = "mean((model - y)**2)"


def tensor(*shape, dtype="float32", axes=None):
    return {"shape": list(shape), "dtype": dtype, "axes": axes or ["batch"] + [None] * (len(shape) - 1)}


def document(name, mesh, inputs, layers, loss, params, optimizer=None, state=None, **more):
    sharding = {"rules": RULES if "data" in mesh else [], "params": params} | ({"optimizer_state": state} if state else {})
    model = layers if isinstance(layers, dict) else {"type": "sequential", "input": next(iter(inputs)), "layers": layers}
    return {"stepc": 1, "name": name, "inputs": inputs, "model": model, "loss": loss, "optimizer": optimizer or ADAM, "mesh": {"axes": mesh}, "sharding": sharding} | more


def linear(name, features, **more):
    return {"type": "linear", "name": name, "features": features} | more


def hold(*spec):
    return {"type": "sharding_constraint", "spec": list(spec)}


def expr(text):
    return {"type": "expr", "expr": text}


def residual(name, *layers):
    return {"type": "residual", "name": name, "layers": list(layers)}


def norm(name="norm"):
    return {"type": "layer_norm", "name": name}


def attention(heads=8):
    return {"type": "multi_head_attention", "name": "mha", "num_heads": heads}


def sequential(*layers):
    return {"type": "sequential", "layers": list(layers)}


def block(name, width, *between, inside=()):
    return {"type": "sequential", "name": name, "layers": [
        residual("attn", norm(), *inside, attention(), *between), *between,
        residual("mlp", norm(), *inside, linear("up", 4 * width), {"type": "gelu"}, linear("down", width), *between), *between]}


MEGATRON = {"**.{query,key,value}.kernel": [None, "model"], "**.{query,key,value}.bias": ["model"], "**.out.kernel": ["model"],
            "**.up.kernel": [None, "model"], "**.up.bias": ["model"], "**.down.kernel": ["model"]}
MLP = [linear("up", 512), {"type": "relu"}, linear("middle", 512), {"type": "relu"}, linear("down", 256)]
WIDE = {"x": tensor(64, 256), "y": tensor(64, 256)}
ROWS = {"x": tensor(16, 32, 128), "y": tensor(16, 32, 128)}
TOKENS = {"tokens": tensor(16, 32, dtype="int32"), "labels": tensor(16, 32, dtype="int32")}


def transformer(name, mesh, params, optimizer=None, blocks=2, head=linear("head", 512), **more):
    return document(name, mesh, TOKENS, [
        {"type": "embed", "name": "embedding", "num_embeddings": 512, "features": 128},
        *[block("layers.%d" % i, 128) for i in range(blocks)], head], LABELS, params, optimizer, **more)


def experts(name, mesh, axis, groups, tokens=None):
    """Switch's feed-forward layer: every token goes to one expert, which takes so many tokens of each group. `tokens`: how
    what is sent lies before it goes to the experts, and where it comes back."""
    turned = lambda name, x: [hold(*tokens) | {"name": name + "_here", "input": x}, expr("transpose(%s_here, (1, 0, 2, 3))" % name) | {"name": name}] if tokens else []
    return document(name, mesh, {"x": tensor(16, 32, 64), "y": tensor(16, 32, 64)}, {"type": "graph", "nodes": [
        {"type": "linear", "name": "gate", "features": 8, "use_bias": False, "input": "x"},
        {"type": "param", "name": "wi", "shape": [8, 64, 256], "init": {"type": "normal", "stddev": 0.1}},
        {"type": "param", "name": "wo", "shape": [8, 256, 64], "init": {"type": "normal", "stddev": 0.1}},
        expr("softmax(gate)") | {"name": "shares"},
        expr("one_hot(argmax(gate, axis=-1), 8)") | {"name": "chosen"},
        expr("cumsum(chosen, axis=1) * chosen") | {"name": "position"},
        expr("(chosen * (position <= 8))[..., None] * one_hot(position - 1, 8)") | {"name": "dispatch"},
        expr("einsum('gsec,gsm->%s', dispatch, x)" % ("gecm" if tokens else "egcm")) | {"name": "sent"}, *turned("turned", "sent"),
        hold(*groups) | {"name": "there", "input": "turned" if tokens else "sent"},
        expr("relu(einsum('egcm,emh->egch', there, wi))") | {"name": "hidden"},
        expr("einsum('egch,ehm->egcm', hidden, wo)") | {"name": "made"},
        hold(*groups) | {"name": "ready", "input": "made"},
        *([expr("transpose(ready, (1, 0, 2, 3))") | {"name": "back"}, hold(*tokens) | {"name": "home", "input": "back"}] if tokens else []),
        expr("einsum('gsec,%s->gsm', dispatch * shares[..., None], %s)" % (("gecm", "home") if tokens else ("egcm", "ready"))) | {"name": "y_hat"}],
        "output": "y_hat"}, SQUARE, {"wi": [axis], "wo": [axis], "**": []})


def convolutions(name, mesh, *between):
    layers = []
    for i, features in enumerate((32, 64)):
        layers += [{"type": "conv", "name": "c%d" % i, "features": features, "kernel_size": [3, 3]}, *between,
                   {"type": "batch_norm", "name": "n%d" % i}, {"type": "relu"}]
    inputs = {"x": tensor(32, 16, 16, 8), "labels": tensor(32, dtype="int32")}
    return document(name, mesh, inputs, [*between, *layers, expr("mean(x, axis=(1, 2))"), linear("head", 16)], LABELS, {"**": []})


def stages(name, mesh, shape, kernel, strides, pool, spec, **more):
    """Convolutions and pools one behind the other, split in space."""
    layers = [hold(*spec)]
    for i, features in enumerate((16, 32)):
        layers += [{"type": "conv", "name": "c%d" % i, "features": features, "kernel_size": kernel, "strides": strides[i]} | more, {"type": "relu"}, hold(*spec)]
    if pool:
        layers += [{"type": "max_pool", "window_shape": pool, "strides": [2] * len(pool), "padding": "SAME"}, hold(*spec)]
    return document(name, mesh, {"x": tensor(*shape, axes=None if "data" in mesh else [None] * len(shape))}, layers, "mean((model - 0.3)**2)", {"**": []})


VOCABULARY = {"embedding.embedding": ["model"], "head.kernel": [None, "model"], "head.bias": ["model"], "**": []}


TIED = {"type": "attend", "embedding": "embedding"}


def vocabulary(name, head, params):
    return document(name, GRID, TOKENS, [{"type": "embed", "name": "embedding", "num_embeddings": 1024, "features": 64},
                                         residual("mlp", norm(), linear("up", 256), {"type": "gelu"}, linear("down", 64)), *head], LABELS, params)


SPLIT = hold("batch", "model", None)


def u_net(name, mesh, spec):
    """Down by strided convolutions, up by transposed ones, and across."""
    at = hold(*spec)
    node = lambda layer, name, x: [layer | {"name": name, "input": x}, expr("relu(%s)" % name) | {"name": name + "_on"}, at | {"name": name + "_held", "input": name + "_on"}]
    conv = lambda features, **more: {"type": "conv", "features": features, "kernel_size": [3, 3]} | more
    return document(name, mesh, {"x": tensor(8, 64, 16, 4), "y": tensor(8, 64, 16, 4)}, {"type": "graph", "nodes": [
        at | {"name": "image", "input": "x"},
        *node(conv(16), "first", "image"), *node(conv(32, strides=2), "down", "first_held"), *node(conv(32), "middle", "down_held"),
        *node({"type": "conv_transpose", "features": 16, "kernel_size": [2, 2], "strides": [2, 2]}, "up", "middle_held"),
        expr("concatenate((first_held, up_held), axis=-1)") | {"name": "both"},
        *node(conv(16), "last", "both"), conv(4) | {"name": "made", "input": "last_held"}, at | {"name": "made_held", "input": "made"}],
        "output": "made_held"}, "mean((model - y)**2)", {"**": []})


def grouped_queries(name, mesh, params):
    """Llama's attention: 8 heads read 4 heads of keys and values."""
    part = lambda name, heads: [{"type": "linear_general", "name": name, "features": [heads, 16], "use_bias": False, "input": "normed"}]
    return document(name, mesh, ROWS, {"type": "graph", "nodes": [
        {"type": "rms_norm", "name": "normed", "input": "x"}, *part("query", 8), *part("key", 4), *part("value", 4),
        expr("dot_product_attention(query, key, value, is_causal=True)") | {"name": "seen"},
        {"type": "linear_general", "name": "out", "features": 128, "axis": [-2, -1], "use_bias": False, "input": "seen"},
        expr("x + out") | {"name": "mixed"}, {"type": "rms_norm", "name": "inner", "input": "mixed"},
        linear("gate", 512, use_bias=False, input="inner"), linear("up", 512, use_bias=False, input="inner"), expr("silu(gate) * up") | {"name": "gated"},
        linear("down", 128, use_bias=False, input="gated"), expr("mixed + down") | {"name": "y_hat"}], "output": "y_hat"}, SQUARE, params)


def shared_expert(name):
    """DeepSeek's layer: what all tokens go through, split as Megatron's, beside experts of which each token has one."""
    o = experts(name, GRID, "model", ["model", "batch"])
    o["model"]["nodes"] += [linear("shared_up", 256, input="x"), expr("relu(shared_up)") | {"name": "shared"}, linear("shared_down", 64, input="shared"), expr("y_hat + shared_down") | {"name": "all"}]
    o["model"]["output"] = "all"
    o["sharding"]["params"] = {"shared_up.kernel": [None, "model"], "shared_up.bias": ["model"], "shared_down.kernel": ["model"]} | o["sharding"]["params"]
    return o


def adapted(name, mesh):
    """LoRA beside Megatron's products: what is trained is small."""
    lora = lambda name, features: {"type": "lora", "name": name, "lora_rank": 8, "base_module": {"type": "linear", "features": features}}
    return document(name, mesh, ROWS, [residual("mlp", norm(), lora("up", 512), {"type": "gelu"}, lora("down", 128))], SQUARE,
                    {"**.up.base_module.kernel": [None, "model"], "**.up.base_module.bias": ["model"], "**.up.lora_b": [None, "model"],
                     "**.down.base_module.kernel": ["model"], "**.down.lora_a": ["model"], "**": []}, trainable=["@lora"])

PROGRAMS = [
    document("data_parallel", LINE, WIDE, MLP, SQUARE, {"**": []}),
    document("zero_1", LINE, WIDE, MLP, SQUARE, {"**": []}, state={"**": ["data"]}),
    document("zero_2", LINE, WIDE, MLP, SQUARE, {"**": []}, {"type": "multi_steps", "opt": ADAM, "every_k_schedule": 4}, {"**": ["data"]}),
    transformer("zero_3", LINE, {"**": ["data"]}),
    document("fsdp", LINE, {"x": tensor(512, 256), "y": tensor(512, 256)}, MLP, SQUARE, {"**": ["data"]}),
    document("megatron_mlp", GRID, ROWS, [linear("up", 512), {"type": "gelu"}, linear("down", 128)], SQUARE, {"up.kernel": [None, "model"], "up.bias": ["model"], "down.kernel": ["model"], "**": []}),
    document("megatron_attention", GRID, ROWS, [attention()], SQUARE, {"**.{query,key,value}.kernel": [None, "model"], "**.{query,key,value}.bias": ["model"], "**.out.kernel": ["model"], "**": []}),
    document("dot_relu_dot", GRID, WIDE, [linear("w1", 1024, use_bias=False), {"type": "relu"}, hold("batch", "model"), linear("w2", 256, use_bias=False), hold("batch", None)], SQUARE, {"w1.kernel": [None, "model"], "w2.kernel": ["model", None]}),
    transformer("transformer", GRID, MEGATRON | {"**": []}),
    document("cookbook_moments", {"x": 2, "y": 4}, {"x": tensor(32, 64, axes=[None, None]), "y": tensor(32, 256, axes=[None, None])}, [linear("first", 256), linear("second", 256)], SQUARE, {"**": []}, state={"**.kernel": ["x", "y"], "**": []}),
    transformer("clipped", LINE, {"**": []}, CLIPPED, head=TIED),
    document("microbatches", LINE, WIDE, MLP, SQUARE, {"**": []}, accumulate={"microbatch_size": 16, "accumulator": "mean"}),
    document("lstm", LINE, {"x": tensor(16, 16, 64), "y": tensor(16, 16, 128)}, [{"type": "rnn", "name": "rnn", "cell": {"type": "optimized_lstm_cell", "hidden_features": 128}}], SQUARE, {"**": []}),
    document("sequence", GRID, ROWS, [SPLIT, block("block", 128, SPLIT)], SQUARE, {"**": []}),
    document("megatron_sequence", GRID, ROWS, [SPLIT, block("block", 128, SPLIT)], SQUARE, MEGATRON | {"**": []}),
    experts("experts_capacity", GRID, "model", ["model", "batch"]),
    experts("experts_all_to_all", LINE, "data", ["data", None]),
    experts("expert_parallel", LINE, "data", ["data", None], ["batch", None]),
    vocabulary("vocabulary_embedding", [linear("head", 1024)], {"embedding.embedding": ["model"], "**": []}),
    vocabulary("vocabulary_cross_entropy", [linear("head", 1024)], VOCABULARY),
    vocabulary("vocabulary_tied", [TIED], {"embedding.embedding": ["model"], "**": []}),
    convolutions("convolution_norm", LINE),
    convolutions("convolution_space", GRID, hold("batch", "model", None, None)),
    stages("convolution_tiles", {"rows": 2, "columns": 4}, [8, 64, 64, 4], [3, 3], [2, 1], [3, 3], [None, "rows", "columns", None]),
    u_net("u_net", GRID, ["batch", "model", None, None]),
    stages("convolution_circular", GRID, [8, 64, 16, 4], [3, 3], [1, 1], None, ["batch", "model", None, None], padding="CIRCULAR"),
    grouped_queries("grouped_queries", GRID, {"{query,key,value}.kernel": [None, "model"], "out.kernel": ["model"], "{gate,up}.kernel": [None, "model"], "down.kernel": ["model"], "**": []}),
    shared_expert("shared_expert"),
    adapted("lora_megatron", GRID),
    document("lstm_tensor", GRID, {"x": tensor(16, 16, 64), "y": tensor(16, 16, 128)}, [{"type": "rnn", "name": "rnn", "cell": {"type": "lstm_cell", "hidden_features": 128}}], SQUARE,
             {"**.kernel": [None, "model"], "**.bias": ["model"]}),
    document("vocabulary_tied_sequence", GRID, TOKENS, [{"type": "embed", "name": "embedding", "num_embeddings": 1024, "features": 128}, SPLIT, block("block", 128, SPLIT), TIED], LABELS,
             {"embedding.embedding": ["model"]} | MEGATRON | {"**": []}),
    stages("convolution_causal", GRID, [8, 256, 16], [4], [1, 1], None, ["batch", "model", None], padding="CAUSAL", kernel_dilation=2),
    stages("convolution_channels", GRID, [16, 16, 16, 4], [3, 3], [1, 1], None, ["batch", None, None, "model"]),
]

# How many of XLA's bytes those send that send fewer: no change may take that back.
REACHED = {"zero_1": 0.40, "zero_2": 0.40, "zero_3": 0.64, "fsdp": 0.61, "transformer": 0.77, "cookbook_moments": 0.87, "clipped": 0.88,
           "microbatches": 0.25, "lstm": 0.07, "sequence": 0.71, "megatron_sequence": 0.33, "megatron_attention": 0.82, "experts_capacity": 0.86, "experts_all_to_all":
           0.19, "vocabulary_tied": 0.86, "convolution_space": 0.60, "convolution_tiles": 0.35, "convolution_causal": 0.66, "grouped_queries": 0.52, "shared_expert": 0.85, "lora_megatron": 0.98,
           "lstm_tensor": 0.15, "vocabulary_tied_sequence": 0.42, "u_net": 0.39, "convolution_circular": 0.25, "convolution_channels": 0.50}
