"""Families of decoders of transformers: a row says what differs from Llama, the first one. decoders.py makes documents and tables of
weights of any row.

A name of a key (a string) stands where config.json decides. `defaults` are what transformers takes of a key that is not there.
"""
import rope

LLAMA = {
    # keys of config.json
    "defaults": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000,
                 "max_position_embeddings": 2048, "initializer_range": 0.02, "hidden_act": "silu", "tie_word_embeddings": False},
    "epsilon": "rms_norm_eps",
    "activation": "hidden_act",
    "other_activation": None,               # a key of the same meaning that some files have and transformers does not read
    "means": {},                            # names of activations that stand for others
    "own_depth": True,                      # "head_dim" may differ from the width's share
    "unread": (),                           # keys that its files have and transformers does not read
    "only": {},                             # keys of which one value alone is covered
    # tensors
    "prefix": "model.", "embed": "embed_tokens", "last_norm": "norm", "head": "lm_head", "head_bias": False,
    "buffers": ("rotary_emb.inv_freq",),    # of attention, which files have beside the weights
    "head_names": ("lm_head.weight",),      # of its tensor in files; the first that is there
    "norm": "rms",                          # "rms", "one" (RMS, by 1 + weight), "layer" (with a bias), "scaled" (without)
    "norms": ("input_layernorm", None, "post_attention_layernorm", None),  # before and after attention, before and after the MLP
    "parallel": False,                      # attention and MLP of the same x, norms of both or one for both
    "one_norm": False,                      # a parallel block has one norm
    "attention": "self_attn", "query": ("q_proj", "k_proj", "v_proj"), "out": "o_proj",
    "joined": None,                         # of a single product: "parts" (all queries, keys, values) or "heads" (those of each head)
    "query_bias": "attention_bias", "out_bias": "attention_bias",
    "query_norm": None,                     # "head" (of each, shared), "heads" (of each, its own), "all" (of all heads at once), "apart" (modules of each head)
    "query_norm_if": None, "query_norms": ("q_norm", "k_norm"),
    "mlp": ("gate_proj", "up_proj", "down_proj"), "mlp_bias": "mlp_bias",  # two names: no gate, or where the first is "gate_up_proj" both in one
    # arithmetic
    "pads": True,                           # the table learns nothing from tokens that are "pad_token_id"
    "embed_scale": None, "residual_scale": None, "attention_scale": None, "logit_scale": None,  # a function of the configuration
    "attention_cap": None, "logit_cap": None,
    "dropouts": {"attention": "attention_dropout"},  # also "embed", "residual" (of attention and MLP), "mlp"
    "theta": 10000.0, "theta_key": "rope_theta", "share": 1.0, "share_key": None, "rope": rope.KINDS, "neighbours": False,
    "still": False,                         # "no_rope_layers": some have no positions
    "window": None,                         # "all" layers, those "asked" for from one on or by "layer_types", or "alternating"
}


def _number(key, default):
    return lambda config: config.number(key, default)


def _cap(key, default):
    """A soft cap; null: none."""
    def read(config):
        value = config.given(key, default)
        if value is not None and config.number(key, default) <= 0:
            config.fail(key, "a positive number or null is needed")
        return value
    return read


GEMMA = {
    "defaults": {"num_key_value_heads": 16, "head_dim": 256, "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28, "num_attention_heads": 16, "vocab_size": 256000,
                 "max_position_embeddings": 8192, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True, "pad_token_id": 0},
    "norm": "one", "mlp_bias": False, "embed_scale": lambda config: config.integer("hidden_size", 3072) ** 0.5, "only": {"use_bidirectional_attention": (None, False)},
    "other_activation": "hidden_activation"}

FAMILIES = {
    "llama": {"only": {"pretraining_tp": (1,), "sliding_window": (None,)}},
    "qwen2": {
        "defaults": {"num_key_value_heads": 32, "intermediate_size": 22016, "vocab_size": 151936, "max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28},
        "query_bias": True, "out_bias": False, "mlp_bias": False, "window": "asked", "only": {"use_mrope": (False,)}},
    "mistral": {
        "defaults": {"num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 131072, "sliding_window": 4096},
        "query_bias": False, "out_bias": False, "mlp_bias": False, "window": "all"},
    "qwen3": {
        "defaults": {"num_key_value_heads": 32, "head_dim": 128, "intermediate_size": 22016, "vocab_size": 151936, "max_position_embeddings": 32768, "sliding_window": 4096,
                     "max_window_layers": 28},
        "query_norm": "head", "mlp_bias": False, "window": "asked"},
    "gemma": {**GEMMA, "means": {"gelu": "gelu_pytorch_tanh"}},  # as transformers reads what the first files say
    "gemma2": {
        **GEMMA, "defaults": {**GEMMA["defaults"], "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
                              "sliding_window": 4096, "hidden_activation": "gelu_pytorch_tanh"},
        "embed_scale": lambda config: config.integer("hidden_size", 2304) ** 0.5, "activation": "hidden_activation", "other_activation": "hidden_act",
        "norms": ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"), "window": "alternating",
        "attention_scale": lambda config: config.positive("query_pre_attn_scalar", 256) ** -0.5,
        "attention_cap": _cap("attn_logit_softcapping", 50.0), "logit_cap": _cap("final_logit_softcapping", 30.0)},
    "phi3": {
        "defaults": {"hidden_size": 3072, "intermediate_size": 8192, "vocab_size": 32064, "max_position_embeddings": 4096, "original_max_position_embeddings": 4096,
                     "rms_norm_eps": 1e-5, "pad_token_id": 32000},
        "query": ("qkv_proj",), "joined": "parts", "query_bias": False, "out_bias": False, "mlp": ("gate_up_proj", "down_proj"), "mlp_bias": False,
        "dropouts": {"attention": "attention_dropout", "residual": "resid_pdrop"}, "share_key": "partial_rotary_factor", "rope": rope.LONG, "window": "all",
        "unread": ("embd_pdrop",), "only": {"lm_head_bias": (False,), "mlp_bias": (False,), "attention_bias": (False,), "full_attn_mod": (1,), "interpolate_factor": (1,)}},
    "olmo2": {
        "defaults": {"vocab_size": 50304, "rms_norm_eps": 1e-5, "pad_token_id": 1},
        "norms": (None, "post_attention_layernorm", None, "post_feedforward_layernorm"), "query_norm": "all", "mlp_bias": False},
    "gpt_neox": {
        "defaults": {"hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44, "num_attention_heads": 64, "vocab_size": 50432, "hidden_act": "gelu",
                     "attention_bias": True, "layer_norm_eps": 1e-5, "use_parallel_residual": True},
        "epsilon": "layer_norm_eps", "own_depth": False, "prefix": "gpt_neox.", "buffers": ("rotary_emb.inv_freq", "bias", "masked_bias"), "embed": "embed_in", "last_norm": "final_layer_norm", "head_names": ("embed_out.weight", "lm_head.weight"),
        "norm": "layer", "parallel": "use_parallel_residual", "attention": "attention", "query": ("query_key_value",), "joined": "heads", "out": "dense",
        "mlp": ("dense_h_to_4h", "dense_4h_to_h"), "mlp_bias": True, "pads": False,
        "dropouts": {"attention": "attention_dropout", "residual": "hidden_dropout", "embed": "hidden_dropout"},
        "theta_key": "rotary_emb_base", "share": 0.25, "share_key": "rotary_pct", "unread": ("classifier_dropout",),
        "only": {"attention_probs_dropout_prob": (0,), "hidden_dropout_prob": (0,)}},
    "phi": {
        "defaults": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24, "vocab_size": 51200, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5},
        "epsilon": "layer_norm_eps", "own_depth": False, "last_norm": "final_layernorm", "head_bias": True, "norm": "layer", "norms": ("input_layernorm", None, None, None), "parallel": True, "one_norm": True,
        "out": "dense", "query_bias": True, "out_bias": True, "mlp": ("fc1", "fc2"), "mlp_bias": True,
        "query_norm": "head", "query_norm_if": "qk_layernorm", "query_norms": ("q_layernorm", "k_layernorm"),
        "dropouts": {"attention": "attention_dropout", "residual": "resid_pdrop", "embed": "embd_pdrop"}, "share": 0.5, "share_key": "partial_rotary_factor",
        "only": {"tie_word_embeddings": (False,)}},
    "stablelm": {
        "defaults": {"num_key_value_heads": 32, "hidden_size": 2560, "intermediate_size": 6912, "vocab_size": 50304, "max_position_embeddings": 4096, "layer_norm_eps": 1e-5},
        "epsilon": "layer_norm_eps", "own_depth": False, "norm": "layer", "parallel": "use_parallel_residual", "one_norm": True, "query_bias": "use_qkv_bias", "out_bias": False, "mlp_bias": False,
        "query_norm": "apart", "query_norm_if": "qk_layernorm", "query_norms": ("q_layernorm", "k_layernorm"),
        "dropouts": {"attention": "attention_dropout", "mlp": "hidden_dropout"}, "share": 0.25, "share_key": "partial_rotary_factor"},
    "starcoder2": {
        "defaults": {"num_key_value_heads": 2, "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 30, "num_attention_heads": 24, "vocab_size": 49152,
                     "max_position_embeddings": 4096, "initializer_range": 0.018042, "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "use_bias": True,
                     "tie_word_embeddings": True},
        "epsilon": "norm_epsilon", "norm": "layer", "query_bias": "use_bias", "out_bias": "use_bias", "mlp": ("c_fc", "c_proj"), "mlp_bias": "use_bias", "window": "all",
        "dropouts": {"attention": "attention_dropout", "residual": "residual_dropout", "embed": "embedding_dropout"},
        "unread": ("activation_function", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"),
        "only": {"norm_type": ("layer_norm",), "mlp_type": ("default",), "scale_attn_weights": (True,)}},
    "granite": {
        "embed_scale": _number("embedding_multiplier", 1.0), "residual_scale": _number("residual_multiplier", 1.0), "attention_scale": _number("attention_multiplier", 1.0),
        "logit_scale": lambda config: 1 / config.positive("logits_scaling", 1.0)},
    "smollm3": {
        "defaults": {"num_key_value_heads": 4, "hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16, "vocab_size": 128256, "max_position_embeddings": 32768,
                     "tie_word_embeddings": True, "pad_token_id": 128004, "no_rope_layer_interval": 4},
        "theta": 2000000.0, "still": True, "window": "asked"},
    "cohere": {
        "defaults": {"hidden_size": 8192, "intermediate_size": 22528, "num_hidden_layers": 40, "num_attention_heads": 64, "vocab_size": 256000, "max_position_embeddings": 8192,
                     "layer_norm_eps": 1e-5, "tie_word_embeddings": True, "pad_token_id": 0},
        "epsilon": "layer_norm_eps", "norm": "scaled", "norms": ("input_layernorm", None, None, None), "parallel": True, "one_norm": True, "mlp_bias": False,
        "query_norm": "heads", "query_norm_if": "use_qk_norm", "logit_scale": _number("logit_scale", 0.0625), "theta": 500000.0, "neighbours": True},
}


def row(name):
    """All that there is to say of a family."""
    differs = FAMILIES[name]
    return {**LLAMA, **differs, "defaults": {**LLAMA["defaults"], **differs.get("defaults", {})}}
