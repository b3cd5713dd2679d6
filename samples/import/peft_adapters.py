"""LoRA adapters as PEFT has them: a folder with adapter_config.json and adapter_model.safetensors. Beside a module of the model stand
lora_A [rank, in] and lora_B [out, rank], added alpha / rank times (rslora: alpha / sqrt(rank)).

A module that is several layers here (GPT-2's c_attn: query, key and value) has one lora_A for all of them. Coming in, each layer gets
a copy of that matrix, which is said, since training moves them apart, and its part of lora_B; going out, ranks are put beside each other: lora_B has blocks, and no number changes.
"""
import json
import math
import os
import re
import sys

import numpy as np

import tensors
from config import is_number
from tensors import Bad

CONFIG, WEIGHTS, BEGIN = "adapter_config.json", "adapter_model.safetensors", "base_model.model."
# What changes what adapters compute, and the one value that is covered; a list, dict or None that is empty changes nothing.
PLAIN = {"peft_type": "LORA", "bias": "none", "use_dora": False, "lora_bias": False, "modules_to_save": None, "layer_replication": None,
         "trainable_token_indices": None, "use_qalora": False, "target_parameters": None, "alora_invocation_tokens": None, "layers_to_transform": None,
         "arrow_config": None, "exclude_modules": None, "corda_config": None, "eva_config": None, "use_bdlora": None, "monteclora_config": None,
         "velora_config": None, "lora_ga_config": None, "ensure_weight_tying": False}
# What says how they were made, where they are, or what is read from the tensors themselves.
SAID = {"r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "lora_dropout", "fan_in_fan_out", "target_modules", "base_model_name_or_path", "task_type",
        "inference_mode", "init_lora_weights", "revision", "auto_mapping", "layers_pattern", "megatron_config", "megatron_core", "loftq_config", "runtime_config",
        "qalora_group_size", "peft_version"}


def _pattern(patterns, module, preset):
    """PEFT's rank_pattern and alpha_pattern: a module's own name, or an end of it."""
    for pattern, value in (patterns or {}).items():
        if re.match(r"(.*\.)?(%s)$" % pattern, module):  # with ^ all of its name
            return value
    return preset


def _is_pattern(text):
    try:
        return bool(re.compile(text))
    except re.error:
        return False


def _is_alpha(value):
    return is_number(value) and 0 < value < 1e30


def _divided(path, shape, width):
    """A kernel's shape as (inputs, outputs)."""
    for i in range(1, len(shape)):
        if math.prod(shape[:i]) == width:
            return shape[:i], shape[i:]
    raise Bad("no adapter fits beside \"%s\" %s: it takes %d numbers" % (path, list(shape), width))


def read(folder, table, base):
    """Adapters of the document, and their tensors by path. Every tensor of the folder is used; base(weight) gives the model's own one,
    which PEFT writes beside the adapter of a head."""
    path = os.path.join(folder, CONFIG)
    config = tensors.read_json(path)
    for key, says, good in (("r", "a positive integer", lambda v: type(v) is int and v > 0), ("lora_alpha", "a positive number", _is_alpha), ("use_rslora", "true or false", lambda v: v is None or type(v) is bool),
                            ("lora_dropout", "a rate from 0 up to 1", lambda v: v is None or is_number(v) and 0 <= v < 1),
                            *((key, "an object with patterns and numbers", lambda v: v is None or type(v) is dict and all(map(_is_pattern, v)) and all(map(_is_alpha, v.values()))) for key in ("rank_pattern", "alpha_pattern"))):
        if not good(config.get(key)):
            raise Bad("%s: \"%s\" is %s; %s is needed" % (path, key, json.dumps(config.get(key)), says))
    for key, value in config.items():
        if key not in SAID and value not in (None, [], {}, PLAIN.get(key)):
            raise Bad("%s: \"%s\": %s is not supported" % (path, key, json.dumps(value)))
    if isinstance(config.get("init_lora_weights"), str) and config["init_lora_weights"] not in ("gaussian", "orthogonal", "eva"):
        raise Bad("%s: \"init_lora_weights\": \"%s\" changes the model's own weights, which are not those of its folder" % (path, config["init_lora_weights"]))
    if config.get("peft_type") != "LORA":
        raise Bad("%s: \"peft_type\" is %s; there is LORA" % (path, json.dumps(config.get("peft_type"))))
    file, values, groups, used, divided = tensors.open_model(os.path.join(folder, WEIGHTS)), {}, {}, set(), []
    for name in file.names():
        if not name.endswith(".lora_A.weight"):
            continue
        module, other = name[len(BEGIN):-len(".lora_A.weight")], name.replace(".lora_A.", ".lora_B.")
        w = table.get(module + ".weight")
        if not name.startswith(BEGIN) or w is None or not all(p.endswith(".kernel") for p, _ in w.parts):
            raise Bad("%s: \"%s\" stands beside no layer of the model" % (file.files[0].path, name))
        if other not in file.where:
            raise Bad("%s lacks \"%s\"" % (file.files[0].path, other))
        for n in (name, other):
            tensors.need_float(file, n)
        a, b = (tensors.widen(file.array(n), file.dtype(n)) for n in (name, other))
        used |= {name, other}
        rank = a.shape[0] if a.ndim == 2 else None
        alpha = _pattern(config.get("alpha_pattern"), module, config["lora_alpha"])
        if a.ndim != 2 or b.ndim != 2 or b.shape[1] != rank or rank != _pattern(config.get("rank_pattern"), module, config["r"]):
            raise Bad("%s: \"%s\" %s and \"%s\" %s are no adapter of the rank that %s has for them" % (folder, name, list(a.shape), other, list(b.shape), CONFIG))
        at = 0
        if len(w.parts) > 1:
            divided.append(module)
        for p, shape in w.parts:
            inputs, outputs = _divided(p, shape, a.shape[1])
            width = math.prod(outputs)
            layer = p[:-len(".kernel")]
            values[layer + ".lora_a"] = np.ascontiguousarray(a.T.reshape(*inputs, rank))
            values[layer + ".lora_b"] = np.ascontiguousarray(b[at:at + width].T.reshape(rank, *outputs))
            values[layer + ".lora_s"] = np.float32(alpha / (math.sqrt(rank) if config.get("use_rslora") else rank))
            groups.setdefault((rank, alpha), []).append(layer)
            at += width
        if at != b.shape[0]:
            raise Bad("%s: \"%s\" %s: the layer gives %d numbers" % (folder, other, list(b.shape), at))
    for name in file.names():
        if name in used:
            continue
        weight = name.removeprefix(BEGIN).removesuffix(".base_layer.weight") + ".weight"
        if not name.endswith(".base_layer.weight") or weight not in table:
            raise Bad("%s: \"%s\" is not used: it would be lost" % (file.files[0].path, name))
        tensors.need_float(file, name)
        if not np.array_equal(tensors.widen(file.array(name), file.dtype(name)), base(weight)):
            raise Bad("%s: \"%s\" is not the \"%s\" of the model: it would be lost" % (file.files[0].path, name, weight))
    if divided:
        print("hf.py: note: --peft %s: each of these is several layers here, with a lora_A of their own: they compute the same, and are trained otherwise than one for all: %s%s"
              % (folder, ", ".join('"%s"' % m for m in divided[:10]), " and %d more" % (len(divided) - 10) if len(divided) > 10 else ""), file=sys.stderr)
    more = {**({"rslora": True} if config.get("use_rslora") else {}), **({"dropout": config["lora_dropout"]} if config.get("lora_dropout") else {})}
    return [{"type": "lora", "rank": rank, "alpha": alpha, **more, "match": sorted(layers)} for (rank, alpha), layers in groups.items()], values


def write(folder, trained, table, fan_in_fan_out, base):
    """The adapters of what was trained, each module with its rank and alpha."""
    entries, ranks, alphas, targets = [], {}, {}, []
    for name, w in table.items():
        parts = [(p, shape, trained.adapter(p)) for p, shape in w.parts if p.endswith(".kernel")]
        if not any(both for _, _, both in parts):
            continue
        module, a, b, scales = name.removesuffix(".weight"), [], [], set()
        rows = sum(math.prod(_outputs(trained, shape, both, parts)) for _, shape, both in parts)
        at = 0
        for p, shape, both in parts:
            width = math.prod(_outputs(trained, shape, both, parts))
            if both:
                first, second = (trained.array(n) for n in both)
                rank = second.shape[0]
                a.append(first.reshape(-1, rank).T)
                block = np.zeros((rows, rank), np.float32)
                block[at:at + width] = second.reshape(rank, -1).T
                b.append(block)
                scales.add(trained.scale(p))
            at += width
        if len(scales) > 1:
            raise Bad("\"%s\": its parts are scaled by %s: PEFT has one scale for a module" % (module, ", ".join(map(str, sorted(scales)))))
        a, b = np.concatenate(a), np.concatenate(b, axis=1)
        targets.append(module)
        ranks[module], alphas[module] = len(a), scales.pop() * len(a)
        entries += [(BEGIN + module + ".lora_A.weight", "F32", a.shape, lambda a=a: a), (BEGIN + module + ".lora_B.weight", "F32", b.shape, lambda b=b: b)]
    if not entries:
        raise Bad("%s holds no adapters" % trained.path)
    rank, alpha = ranks[targets[0]], alphas[targets[0]]
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": os.path.abspath(base), "r": rank, "lora_alpha": alpha, "lora_dropout": 0.0, "bias": "none",
              "fan_in_fan_out": fan_in_fan_out, "use_rslora": False, "target_modules": targets, "inference_mode": True,
              "rank_pattern": {m: r for m, r in ranks.items() if r != rank}, "alpha_pattern": {m: s for m, s in alphas.items() if s != alpha}}
    os.makedirs(folder, exist_ok=True)
    tensors.write(os.path.join(folder, WEIGHTS), sorted(entries, key=lambda t: t[0]), {"format": "pt"})
    tensors.write_json(os.path.join(folder, CONFIG), config)


def _outputs(trained, shape, both, parts):
    """The outputs of a kernel: as its adapter divides it, or as that of another part of the module."""
    for one in (both, *(b for _, _, b in parts)):
        if one:
            return shape[len(trained.shape(one[0])) - 1:]
    return shape[1:]
