#!/usr/bin/env python3
"""Records tests/import/models/*/adapters.safetensors: LoRA adapters of PEFT around the tiny models, with random values, and the logits
that PEFT computes with them; and tests/import/peft: folders that PEFT wrote of others, and what it computes with these. Needs torch, transformers and peft; the test needs none of them.

    python3 tests/import/record_adapters.py [--folders [NAME...]]
"""
import json
import os
import sys

import numpy as np
import peft
import torch
import transformers
from safetensors.numpy import load_file, save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
CASES = {"llama": ("q_proj", "v_proj", "o_proj", "up_proj", "down_proj"), "llama_bands": ("k_proj", "gate_proj"), "gpt2": ("c_fc", "c_proj"),
         "gpt2_untied": ("c_proj", "lm_head"), "gpt2_bfloat16": ("c_fc",)}


def main():
    for number, (name, modules) in enumerate(CASES.items()):
        torch.manual_seed(number)
        model = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(HERE, name), dtype=torch.float32)
        rank = 2 + number
        config = peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=list(modules), lora_dropout=0.0, bias="none", fan_in_fan_out=name.startswith("gpt2"))
        model = peft.get_peft_model(model, config).eval()
        out = {}
        with torch.no_grad():
            for path, p in model.named_parameters():
                if "lora_" in path:
                    p.copy_(torch.randn_like(p) * 0.3)
                    out[path.removeprefix("base_model.model.").replace(".default.weight", "")] = p.numpy()
            tokens = load_file(os.path.join(HERE, name, "expected.safetensors"))["tokens"]
            out["logits"] = model(torch.tensor(tokens.astype(np.int64))).logits.numpy()
        save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, os.path.join(HERE, name, "adapters.safetensors"))
        os.chmod(os.path.join(HERE, name, "adapters.safetensors"), 0o644)
        print(name, len(out))


def folders(only):
    for name, modules in (("gpt2", ["c_attn", "c_proj"]), ("llama", ["q_proj", "o_proj", "gate_proj"]), ("phi3", ["qkv_proj", "gate_up_proj"])):
        if only and name not in only:
            continue
        torch.manual_seed(7)
        model = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(HERE, name), dtype=torch.float32)
        config = peft.LoraConfig(r=2, lora_alpha=5, use_rslora=name == "gpt2", target_modules=modules, rank_pattern={modules[1]: 3}, alpha_pattern={modules[1]: 4}, lora_dropout=0.1,
                                 fan_in_fan_out=name == "gpt2", init_lora_weights=False)
        model, folder = peft.get_peft_model(model, config).eval(), os.path.join(HERE, "..", "peft", name)
        model.save_pretrained(folder)
        os.unlink(os.path.join(folder, "README.md"))
        path = os.path.join(folder, "adapter_config.json")
        with open(path, encoding="utf-8") as f:
            said = {**json.load(f), "base_model_name_or_path": name}
        said["target_modules"] = sorted(said["target_modules"])
        with open(path, "w", encoding="utf-8") as f:
            json.dump(said, f, indent=1)
            f.write("\n")
        tokens = load_file(os.path.join(HERE, name, "expected.safetensors"))["tokens"]
        with torch.no_grad():
            logits = model(torch.tensor(tokens.astype(np.int64))).logits.numpy()
        save_file({"tokens": tokens, "logits": np.ascontiguousarray(logits)}, os.path.join(folder, "expected.safetensors"))
        for file in os.listdir(folder):
            os.chmod(os.path.join(folder, file), 0o644)


main() if "--folders" not in sys.argv else folders(sys.argv[2:])
