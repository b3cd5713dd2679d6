#!/usr/bin/env python3
"""Convolutions, one thread: forward and both gradients beside PyTorch's (oneDNN, channels last) and the peak of fused multiply-adds.

    tests/bench/convolutions.py [--stepc build/stepc] [--repeats N] [--numerics fast] [NAME | BxHxWxCxO,kK,sS[,gG] ...]

The image is a parameter, so that its gradient is made too, unless it has up to 4 channels: then it is an input. Of ours it is the share of the fastest step that `stepc bench --by kernel`
gives the layer: with padding, phases and the update that a gradient's kernel takes along (of channels by themselves, which are element-wise work, that of the
whole step, into whose kernels they are fused); of PyTorch it is the best of many calls for each
of the three. Both are the least of several turns, taken one after the other, so the ratio (above 1: we are faster) holds on a machine
that others use too. Without PyTorch the columns stay empty. The table in README.md comes from here.
"""
import argparse
import json
import os
import re
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {  # batch, height, width, channels, features, kernel, stride, groups
    "stem": "8x224x224x3x64,k7,s2", "56": "8x56x56x64x64,k3,s1", "28": "8x28x28x128x128,k3,s1", "56 / 2": "8x56x56x64x128,k3,s2", "14": "8x14x14x256x256,k3,s1",
    "7": "8x7x7x512x512,k3,s1", "1x1": "8x56x56x64x64,k1,s1", "1x1 / 2": "8x56x56x64x128,k1,s2", "1x1 wide": "8x14x14x256x1024,k1,s1", "depthwise": "8x28x28x128x128,k3,s1,g128",
    "4 groups": "8x28x28x128x128,k3,s1,g4", "cnn 1": "64x28x28x1x32,k3,s1", "cnn 2": "64x14x14x32x64,k3,s1", "odd 3": "50x28x28x3x20,k3,s1", "odd 20": "50x28x28x20x50,k3,s1",
    "odd 50": "50x14x14x50x123,k3,s1", "odd 123": "50x7x7x123x50,k3,s1", "odd 29": "10x29x29x20x50,k5,s1", "to 3": "10x28x28x50x3,k3,s1"}


def parse(text):
    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)x(\d+),k(\d+),s(\d+)(?:,g(\d+))?", text)
    if not found:
        raise SystemExit("not a convolution: %s (a name of %s, or BxHxWxCxO,kK,sS[,gG])" % (text, ", ".join(SHAPES)))
    return [int(n or 1) for n in found.groups()]


def is_input(shape):
    return shape[3] <= 4


def document(shape):
    b, h, w, c, o, k, s, groups = shape
    layer = {"type": "conv", "features": o, "kernel_size": [k, k], "strides": s, "use_bias": False, "feature_group_count": groups, "name": "c", "input": "x"}
    tensor = lambda *dims: {"shape": dims, "axes": ["batch", None, None, None]}
    inputs = {"g": tensor(b, -(-h // s), -(-w // s), o), **({"x": tensor(b, h, w, c)} if is_input(shape) else {})}
    image = [] if is_input(shape) else [{"type": "param", "name": "x", "shape": [b, h, w, c], "init": {"type": "normal"}}]
    return {"stepc": 1, "inputs": inputs, "model": {"type": "graph", "nodes": image + [layer], "output": "c"},
            "loss": "sum(model * g)", "optimizer": {"type": "sgd", "learning_rate": 1e-6}}


def ours(stepc, path, whole):
    """Seconds of the layer's kernels, of the fastest step; the rate that the machine's probe saw."""
    said = json.loads(subprocess.run([stepc, "bench", path, "--threads", "1", "--by", "kernel", "--rounds", "7", "--json"], check=True, capture_output=True, text=True).stdout)
    one = said["objects"][0]
    share = sum(k["seconds"] for k in one["by"] if whole or k["place"].startswith("/model")) / sum(k["seconds"] for k in one["by"])
    return one["seconds"]["best"] * share, said["machine"]["flops_per_second"]


def peer(torch, shape):
    """What PyTorch does, as two or three functions."""
    b, h, w, c, o, k, s, groups = shape
    torch.set_num_threads(1)
    last = torch.channels_last
    x, kernel = torch.randn(b, c, h, w).to(memory_format=last), torch.randn(o, c // groups, k, k).to(memory_format=last)
    pad = (max((-(-h // s) - 1) * s + k - h, 0) + 1) // 2
    forward = lambda: torch.nn.functional.conv2d(x, kernel, stride=s, padding=pad, groups=groups)
    given = torch.randn_like(forward())
    back = lambda *which: lambda: torch.ops.aten.convolution_backward(given, x, kernel, None, [s, s], [pad, pad], [1, 1], False, [0, 0], groups, list(which))
    return (forward, back(False, True, False)) if is_input(shape) else (forward, back(True, False, False), back(False, True, False))


def best(call, seconds=0.25):
    least, end = 1e9, time.perf_counter() + seconds
    call()
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default=os.path.join(HERE, "..", "..", "build", "stepc"), type=os.path.abspath)
    p.add_argument("--repeats", type=int, default=4)
    p.add_argument("--numerics", default="reproducible", help="as of stepc compile; fast: rates are those of the plain sums, which are not made")
    p.add_argument("shapes", nargs="*", default=list(SHAPES))
    options = p.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    print("| convolution | GFLOP/s | of peak | PyTorch forward, (image,) kernel | all | ratio |\n|---|---|---|---|---|---|")
    for name in options.shapes:
        shape = parse(SHAPES.get(name, name))
        b, h, w, c, o, k, s, groups = shape
        own, peak, theirs = 1e9, 0, None
        flops = 2e-9 * b * -(-h // s) * -(-w // s) * o * (c // groups) * k * k
        with tempfile.TemporaryDirectory(prefix="stepc-convolutions-") as folder, (torch.no_grad() if torch else tempfile.TemporaryFile()):
            source, path = os.path.join(folder, "m.json"), os.path.join(folder, "m.so")
            with open(source, "w") as f:
                json.dump(document(shape), f)
            subprocess.run([options.stepc, "compile", source, "-o", path, "--numerics", options.numerics], check=True)
            calls = peer(torch, shape) if torch else ()
            for _ in range(options.repeats):
                seconds, rate = ours(options.stepc, path, groups == c > 1)
                own, peak = min(own, seconds), max(peak, rate)
                turn = [best(call) for call in calls]
                theirs = [min(pair) for pair in zip(turn, theirs or turn)]
        work = flops * (2 if is_input(shape) else 3)
        row = [name, "%.0f" % (work / own), "%.0f %%" % (1e11 * work / own / peak)]
        row += [", ".join("%.0f" % (flops / t) for t in theirs), "%.0f" % (work / sum(theirs)), "%.2f" % (sum(theirs) / own)] if theirs else [""] * 3
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
