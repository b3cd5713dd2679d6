#!/usr/bin/env python3
"""What the bits of an object depend on, as README.md says it. 16-bit types round alike everywhere: recorded cases give the same bits
by the interpreter and by objects for every level of x86-64, with and without conversions in hardware. In float32, what is made
element by element is alike with AVX2 and AVX-512, and all of it at every -O, in every run, and with --cpu native as with its level.
Levels that this processor lacks are left out.

    tests/precision/levels.py build/stepc"""
import os
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import processor, recorded, runner

# Those whose float32 sums are exact or rounded away.
EXACT = ["precision_compute_bfloat16", "precision_compute_float16", "precision_dynamic_loss_scale_options", "precision_params_bfloat16_adam",
         "mixed_all_attention", "mixed_compute_conv", "mixed_compute_lstm", "mixed_dynamic_clip_ema", "mixed_dynamic_params", "mixed_params_adamw"]
# float32 optimizers that sum nothing up: their state, not the loss, which is a sum.
ELEMENTS = ["optimizer_acprop", "optimizer_adagrad_options", "optimizer_adamw_mask_nesterov", "optimizer_amsgrad_raw_mu", "optimizer_nadamw_options",
            "optimizer_optimistic_adam_v2", "optimizer_rmsprop_momentum_schedule", "optimizer_sgd_2", "optimizer_yogi_options"]
# Losses, norms and products in float32.
SUMS = ["optimizer_lamb_options", "act_standardize_2", "model_more_clip", "layer_conv2d_padding_int"]


def runs(stepc, name, folder, whats):
    """(state, metrics) of a case by the interpreter ("") or compiled with each of some lists of arguments."""
    case = recorded.load(name)
    model = case.unpack(folder)
    at = lambda file: os.path.join(folder, file)
    init = ["--init", at("init.safetensors")] if os.path.exists(at("init.safetensors")) else []
    for arguments in whats:
        what = at("step.so") if arguments else model
        if arguments:
            runner.call(stepc, "compile", model, "-q", "-o", what, *arguments)
        runner.call(stepc, "run", what, "-q", "--steps", str(case.steps), "--data", at("data.safetensors"), *init, "--all-state",
                    "--save", at("final.safetensors"), "--metrics", at("metrics.jsonl"), *(["--threads", "1"] if arguments else []))
        with open(at("final.safetensors"), "rb") as state, open(at("metrics.jsonl"), "rb") as metrics:
            yield state.read(), metrics.read()


def main(stepc):
    there = processor.levels()
    own, levels = there[-1], [["--cpu", level] for level in there] + [["--cpu", "native"], ["-O0"]]
    checks = [(name, [""] + levels, 0) for name in EXACT]
    checks += [(name, [["--cpu", "x86-64-v3"], ["--cpu", "x86-64-v4"]], 0) for name in ELEMENTS if len(there) == 3]
    checks += [(name, [["--cpu", own], ["--cpu", "native"], ["--cpu", own, "-O0"], ["--cpu", own, "-O3"]], 1) for name in SUMS + ELEMENTS[:1]]
    different = 0
    for name, whats, metrics in checks:
        with tempfile.TemporaryDirectory() as folder:
            results = [(state, said if metrics else None) for state, said in runs(stepc, name, folder, whats)]
        for arguments, result in zip(whats, results):
            if result != results[0]:
                print("%s %s: other bits than %s" % (name, " ".join(arguments), " ".join(whats[0]) or "the interpreter's"))
                different += 1
    print("%d cases, %d levels, %d different" % (len(checks), len(levels), different))
    return different


sys.exit(1 if main(sys.argv[1]) else 0)
