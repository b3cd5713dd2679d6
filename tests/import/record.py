#!/usr/bin/env python3
"""Records tests/import/models: tiny random models of transformers (PyTorch), saved as transformers saves them, with tokens and the
logits it computes. Needs torch and transformers; the test needs neither.

    python3 tests/import/record.py [NAME...]
"""
import os
import shutil
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
GPT2 = dict(vocab_size=29, n_positions=16, n_embd=12, n_layer=2, n_head=3)
LLAMA = dict(vocab_size=31, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64)
ROW = dict(vocab_size=19, hidden_size=12, intermediate_size=10, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=64,
           initializer_range=0.3, pad_token_id=None, bos_token_id=None, eos_token_id=None)
WHOLE = {k: v for k, v in ROW.items() if k != "num_key_value_heads"}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16}
LONG = {"rope_type": "longrope", "rope_theta": 100.0, "partial_rotary_factor": 0.5, "short_factor": [1.5, 2.0], "long_factor": [3.0, 5.0]}
PART = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}
CASES = {
    "gpt2": ("GPT2", dict(GPT2)),
    "gpt2_untied": ("GPT2", dict(GPT2, tie_word_embeddings=False, n_inner=20, activation_function="gelu", layer_norm_epsilon=1e-3,
                                 embd_pdrop=0.0, attn_pdrop=0.0)),
    "gpt2_bfloat16": ("GPT2", dict(GPT2, n_layer=1)),
    "llama": ("Llama", dict(LLAMA)),
    "llama_bands": ("Llama", dict(LLAMA, num_key_value_heads=1, head_dim=6, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                                  rms_norm_eps=1e-5, rope_parameters={"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
                                                                      "high_freq_factor": 4.0, "original_max_position_embeddings": 16})),
    "llama_linear": ("Llama", dict(LLAMA, num_hidden_layers=1, num_key_value_heads=4, rope_parameters={"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.5})),
    "gpt2_layers": ("GPT2", dict(GPT2, scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True, activation_function="mish", attn_pdrop=0.0)),
    "llama_yarn": ("Llama", dict(LLAMA, num_hidden_layers=1, hidden_act="gelu", rope_parameters={"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
                                                                                               "original_max_position_embeddings": 16})),
    "gpt2_narrow": ("GPT2", dict(GPT2, n_embd=2, n_layer=3, n_head=1)),  # of two numbers that are nearly equal the variance has digits only if the mean is taken off first
    # Of each family of samples/import/families.py: what it has and Llama does not, with windows shorter than the text, and without it.
    "qwen2": ("Qwen2", dict(ROW, pad_token_id=3)),
    "qwen2_windows": ("Qwen2", dict(ROW, tie_word_embeddings=True, use_sliding_window=True, sliding_window=3, max_window_layers=1, rope_parameters=YARN)),
    "mistral": ("Mistral", dict(ROW, head_dim=6, sliding_window=4)),
    "mistral_bfloat16": ("Mistral", dict(ROW, sliding_window=None, tie_word_embeddings=True, num_hidden_layers=1)),
    "qwen3": ("Qwen3", dict(ROW, head_dim=6, rope_parameters=LLAMA3)),
    "qwen3_windows": ("Qwen3", dict(ROW, head_dim=2, attention_bias=True, tie_word_embeddings=True, use_sliding_window=True, sliding_window=2,
                                    layer_types=["sliding_attention", "full_attention"])),
    "gemma": ("Gemma", dict(ROW, head_dim=6, pad_token_id=0)),
    "gemma_untied": ("Gemma", dict(ROW, head_dim=2, num_hidden_layers=1, tie_word_embeddings=False, attention_bias=True, hidden_act="gelu")),
    "gemma2": ("Gemma2", dict(ROW, head_dim=6, num_hidden_layers=3, sliding_window=3, query_pre_attn_scalar=5, attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    "gemma2_plain": ("Gemma2", dict(ROW, head_dim=2, num_hidden_layers=1, sliding_window=5, attn_logit_softcapping=None, final_logit_softcapping=None, tie_word_embeddings=False,
                                    rope_parameters={"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.5})),
    "phi3": ("Phi3", dict(ROW, hidden_size=24, rope_parameters=PART, sliding_window=3)),
    "phi3_long": ("Phi3", dict(ROW, hidden_size=24, num_hidden_layers=1, num_key_value_heads=3, tie_word_embeddings=True, original_max_position_embeddings=8, rope_parameters=LONG)),
    "phi3_short": ("Phi3", dict(ROW, hidden_size=24, num_hidden_layers=1, original_max_position_embeddings=16, rope_parameters=LONG)),
    "olmo2": ("Olmo2", dict(ROW)),
    "olmo2_biases": ("Olmo2", dict(ROW, head_dim=6, num_hidden_layers=1, attention_bias=True, tie_word_embeddings=True)),
    "gpt_neox": ("GPTNeoX", dict(WHOLE, hidden_size=24, rope_parameters=PART)),
    "gpt_neox_serial": ("GPTNeoX", dict(WHOLE, num_hidden_layers=1, use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True, rope_parameters=dict(PART, partial_rotary_factor=1.0))),
    "phi": ("Phi", dict(ROW, rope_parameters=PART)),
    "phi_norms": ("Phi", dict(ROW, num_hidden_layers=1, qk_layernorm=True, hidden_act="relu", rope_parameters=PART)),
    "stablelm": ("StableLm", dict(ROW, use_qkv_bias=True, rope_parameters=PART)),
    "stablelm_parallel": ("StableLm", dict(ROW, num_hidden_layers=1, use_parallel_residual=True, qk_layernorm=True, tie_word_embeddings=True, rope_parameters=PART)),
    "starcoder2": ("Starcoder2", dict(ROW, sliding_window=3)),
    "starcoder2_plain": ("Starcoder2", dict(ROW, num_hidden_layers=1, use_bias=False, tie_word_embeddings=False, sliding_window=None)),
    "granite": ("Granite", dict(ROW, embedding_multiplier=3.5, residual_multiplier=0.22, attention_multiplier=0.3, logits_scaling=2.5, attention_bias=True, mlp_bias=True)),
    "smollm3": ("SmolLM3", dict(ROW, num_hidden_layers=3, no_rope_layer_interval=2)),
    "smollm3_windows": ("SmolLM3", dict(ROW, no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=3, attention_bias=True, mlp_bias=True, tie_word_embeddings=False)),
    "cohere": ("Cohere", dict(ROW, logit_scale=0.5, pad_token_id=0)),
    "cohere_norms": ("Cohere", dict(ROW, num_hidden_layers=1, use_qk_norm=True, attention_bias=True, tie_word_embeddings=False)),
}


def trained(model, words):
    """The losses of three steps of AdamW, and the logits after them; a large eps, as Adam's first steps make a full one of gradients that
    are rounding alone."""
    tokens = torch.randint(0, words, (3, 2, 12))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3, weight_decay=0.1)
    losses = []
    for batch in tokens:
        loss = model(batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        after = model(tokens[0]).logits.numpy()
    return {"batches": tokens.numpy().astype(np.int32), "losses": np.array(losses, np.float64), "after": after}


def main():
    for number, (name, (kind, values)) in enumerate(CASES.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(number)
        config = getattr(transformers, kind + "Config")(**values)
        model = getattr(transformers, {"GPT2": "GPT2LMHeadModel"}.get(kind, kind + "ForCausalLM"))._from_config(config, attn_implementation="eager").eval()
        with torch.no_grad():
            for p in model.parameters():  # away from the initial ones, zeros and small numbers: every weight matters
                p.add_(torch.randn_like(p) * 0.2)
        if name.endswith("bfloat16"):
            model = model.to(torch.bfloat16)
        folder = os.path.join(HERE, name)
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        for extra in os.listdir(folder):
            if extra not in ("config.json", "model.safetensors"):
                os.remove(os.path.join(folder, extra))
        # Read again where the file rounds: `float` would leave frequencies rounded, which are in no file.
        model = model.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval() if name.endswith("bfloat16") else model
        tokens = torch.randint(0, config.vocab_size, (2, 12))
        with torch.no_grad():
            out = model(tokens, labels=tokens)
        expected = {"tokens": tokens.numpy().astype(np.int32), "logits": out.logits.numpy(), "loss": out.loss.numpy()[None]}
        if not kind.startswith("GPT2") and kind != "Llama":  # whose adapters' tests record what training them does
            expected.update(trained(model, config.vocab_size))
        save_file(expected, os.path.join(folder, "expected.safetensors"))
        print(name, float(out.loss))
    for folder, _, names in os.walk(HERE):
        for name in names:
            os.chmod(os.path.join(folder, name), 0o644)


main()
