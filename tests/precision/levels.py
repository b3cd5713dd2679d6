#!/usr/bin/env python3
"""16-bit types round alike everywhere: recorded cases give the same bits by the interpreter and by objects for every level of
x86-64, with and without conversions in hardware. Levels that this processor lacks are left out.

    tests/precision/levels.py build/stepc"""
import os
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import recorded, runner

# Those whose float32 sums are exact or rounded away.
EXACT = ["precision_compute_bfloat16", "precision_compute_float16", "precision_dynamic_loss_scale_options", "precision_params_bfloat16_adam",
         "mixed_all_attention", "mixed_compute_conv", "mixed_compute_lstm", "mixed_dynamic_clip_ema", "mixed_dynamic_params", "mixed_params_adamw"]
LEVELS = [["--cpu", "x86-64-v2"], ["--cpu", "x86-64-v3"], ["--cpu", "x86-64-v4"], ["--cpu", "native"], ["-O0"]]


def main(stepc):
    different = 0
    with open("/proc/cpuinfo") as f:
        flags = next((line.split() for line in f if line.startswith("flags")), [])
    levels = [l for l in LEVELS if ("v3" not in l[-1] or "avx2" in flags) and ("v4" not in l[-1] or "avx512vl" in flags)]
    with tempfile.TemporaryDirectory() as tmp:
        step, final = os.path.join(tmp, "step.so"), os.path.join(tmp, "final.safetensors")
        for name in EXACT:
            case = recorded.load(name)
            model = case.unpack(tmp)

            def run(what):
                runner.call(stepc, "run", what, "-q", "--steps", str(case.steps), "--data", os.path.join(tmp, "data.safetensors"),
                            "--init", os.path.join(tmp, "init.safetensors"), "--all-state", "--save", final)
                with open(final, "rb") as f:
                    return f.read()
            want = run(model)
            for level in levels:
                runner.call(stepc, "compile", model, "-o", step, *level)
                if run(step) != want:
                    print("%s %s: other bits than the interpreter's" % (name, " ".join(level)))
                    different += 1
    print("%d cases at %d levels, %d different" % (len(EXACT), len(levels), different))
    return different


sys.exit(1 if main(sys.argv[1]) else 0)
