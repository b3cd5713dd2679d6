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
}


def main():
    for number, (name, (kind, values)) in enumerate(CASES.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(number)
        config = getattr(transformers, kind + "Config")(**values)
        model = getattr(transformers, {"GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM"}[kind])(config).eval()
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
        model = model.float()
        tokens = torch.randint(0, config.vocab_size, (2, 12))
        with torch.no_grad():
            out = model(tokens, labels=tokens)
        save_file({"tokens": tokens.numpy().astype(np.int32), "logits": out.logits.numpy(), "loss": out.loss.numpy()[None]},
                  os.path.join(folder, "expected.safetensors"))
        print(name, float(out.loss))
    for folder, _, names in os.walk(HERE):
        for name in names:
            os.chmod(os.path.join(folder, name), 0o644)


main()
