#!/usr/bin/env python3
"""Training steps of one to nine layers, one thread, CPU time, rounds interleaved: this compiler beside PyTorch's eager mode.

    tests/bench/layers.py [--stepc build/stepc] [--other STEPC] [--rounds N] [NAME ...]

A step is mean(model**2), its gradients, and a plain update, of a batch of 8 unless the shape says otherwise. Images are channels last on both
sides. A ratio is the median over the rounds of the peer's time / ours, above 1: we are faster; `--other`: another build of this compiler is
a peer, too. Initial values are each side's own; how many parameters there are and what comes out of the model's shape is compared.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "samples"))


def layer(kind, **more):
    return {"type": kind, **more}


def conv(features, size=3, **more):
    return layer("conv", features=features, kernel_size=size if isinstance(size, list) else [size, size], **more)


def pool(kind, size=2, stride=2, **more):
    return layer(kind, window_shape=[size, size], strides=[stride, stride], **more)


def expr(text):
    return layer("expr", expr=text)


def conv_transpose(features):
    return layer("conv_transpose", features=features, kernel_size=[4, 4], strides=[2, 2])


RELU, BATCH = layer("relu"), layer("batch_norm")
LINEAR = lambda features: layer("linear", features=features)
CASES = {  # shape, our layers; `peers` has the same for PyTorch
    "images of odd channels": ((50, 29, 29, 3), [conv(20), BATCH, RELU, pool("max_pool"), conv(50), BATCH, RELU, pool("max_pool"), conv(123)]),
    "batch norm, max pool": ((32, 28, 28, 1), [conv(32), BATCH, RELU, pool("max_pool"), conv(64), BATCH, RELU, pool("max_pool")]),
    "max pool 3 / 2": ((8, 56, 56, 64), [conv(64), RELU, pool("max_pool", 3, padding=[[1, 1], [1, 1]]), conv(64)]),
    "mean pool": ((8, 56, 56, 64), [conv(64), RELU, pool("avg_pool"), conv(64)]),
    "nearest neighbour x 2": ((8, 28, 28, 64), [conv(64), expr("repeat(repeat(x, 2, axis=1), 2, axis=2)"), conv(32)]),
    "pixel shuffle": ((8, 28, 28, 32), [conv(128), expr("reshape(transpose(reshape(x, (8,28,28,2,2,32)), (0,1,3,2,4,5)), (8,56,56,32))"), conv(32)]),
    "depthwise": ((8, 28, 28, 128), [conv(128, feature_group_count=128), BATCH, RELU, conv(128, 1)]),
    "transposed": ((8, 14, 14, 64), [conv_transpose(64), RELU, conv_transpose(32)]),
    "group norm": ((8, 28, 28, 64), [conv(64), layer("group_norm", num_groups=8), RELU, conv(64)]),
    "instance norm": ((8, 28, 28, 64), [conv(64), layer("instance_norm"), RELU, conv(64)]),
    "1 x 1, batch norm": ((8, 56, 56, 64), [conv(64, 1), BATCH, RELU]),
    "1-D, stride 2": ((8, 1024, 32), [conv(64, [9], strides=[2]), RELU, conv(64, [9], strides=[2])]),
    "1-D, max pool": ((8, 1024, 32), [conv(64, [9]), layer("max_pool", window_shape=[2], strides=[2]), conv(64, [3])]),
    "1-D, causal, dilated": ((8, 256, 64), [conv(64, [3], kernel_dilation=[2], padding="CAUSAL"), RELU, conv(64, [3], kernel_dilation=[4], padding="CAUSAL")]),
    "GRU": ((8, 64, 128), [layer("rnn", cell=layer("gru_cell", hidden_features=128))]),
    "GLU, layer norm": ((8, 128, 128), [LINEAR(256), layer("glu"), LINEAR(128), layer("layer_norm")]),
    "mixer": ((8, 196, 128), [layer("layer_norm"), expr("swapaxes(x,1,2)"), LINEAR(256), layer("gelu"), LINEAR(196), expr("swapaxes(x,1,2)"),
                              LINEAR(256), layer("gelu"), LINEAR(128)]),
    "attention": ((8, 256, 128), [layer("multi_head_attention", num_heads=4, decode=False), layer("layer_norm")]),
    "attention, odd": ((8, 197, 192), [layer("multi_head_attention", num_heads=3, decode=False), layer("layer_norm")]),
    "RMS norm": ((8, 256, 512), [layer("rms_norm"), LINEAR(512), layer("rms_norm")]),
    "softmax": ((8, 128, 256), [LINEAR(256), layer("softmax"), LINEAR(64)]),
    "dropout, GELU": ((8, 128, 256), [LINEAR(256), layer("dropout", rate=0.1), layer("gelu"), LINEAR(256)]),
    "MLP, odd": ((123, 777), [LINEAR(501), RELU, LINEAR(513), RELU, LINEAR(10)]),
    "unit length": ((8, 128, 256), [LINEAR(256), expr("x / sqrt(sum(x**2, axis=-1, keepdims=True) + 1e-6)")]),
}


def peers():
    import torch
    from torch import nn

    class Of(nn.Module):
        def __init__(self, f, *parts):
            super().__init__()
            self.f, self.parts = f, nn.ModuleList(parts)

        def forward(self, x):
            return self.f(x, *self.parts)

    c = lambda i, o, k=3, **more: nn.Conv2d(i, o, k, padding=k // 2, **more)
    t = lambda i, o: nn.ConvTranspose2d(i, o, 4, 2, 1)
    swap = lambda: Of(lambda x: x.transpose(1, 2))
    line = lambda *parts: nn.Sequential(swap(), *parts, swap())
    gelu = lambda: nn.GELU(approximate="tanh")

    def heads(width, count):
        def run(x, first, last, norm):
            q, k, v = first(x).view(*x.shape[:2], 3, count, width // count).permute(2, 0, 3, 1, 4)
            return norm(last(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)))
        return Of(run, nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width))

    return {
        "images of odd channels": lambda: nn.Sequential(c(3, 20), nn.BatchNorm2d(20), nn.ReLU(), nn.MaxPool2d(2), c(20, 50), nn.BatchNorm2d(50), nn.ReLU(),
                                                        nn.MaxPool2d(2), c(50, 123)),
        "batch norm, max pool": lambda: nn.Sequential(c(1, 32), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), c(32, 64), nn.BatchNorm2d(64), nn.ReLU(),
                                                      nn.MaxPool2d(2)),
        "max pool 3 / 2": lambda: nn.Sequential(c(64, 64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), c(64, 64)),
        "mean pool": lambda: nn.Sequential(c(64, 64), nn.ReLU(), nn.AvgPool2d(2), c(64, 64)),
        "nearest neighbour x 2": lambda: nn.Sequential(c(64, 64), nn.Upsample(scale_factor=2), c(64, 32)),
        "pixel shuffle": lambda: nn.Sequential(c(32, 128), nn.PixelShuffle(2), c(32, 32)),
        "depthwise": lambda: nn.Sequential(c(128, 128, groups=128), nn.BatchNorm2d(128), nn.ReLU(), c(128, 128, 1)),
        "transposed": lambda: nn.Sequential(t(64, 64), nn.ReLU(), t(64, 32)),
        "group norm": lambda: nn.Sequential(c(64, 64), nn.GroupNorm(8, 64), nn.ReLU(), c(64, 64)),
        "instance norm": lambda: nn.Sequential(c(64, 64), nn.InstanceNorm2d(64, affine=True), nn.ReLU(), c(64, 64)),
        "1 x 1, batch norm": lambda: nn.Sequential(c(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU()),
        "1-D, stride 2": lambda: line(nn.Conv1d(32, 64, 9, 2, 4), nn.ReLU(), nn.Conv1d(64, 64, 9, 2, 4)),
        "1-D, max pool": lambda: line(nn.Conv1d(32, 64, 9, 1, 4), nn.MaxPool1d(2), nn.Conv1d(64, 64, 3, 1, 1)),
        "1-D, causal, dilated": lambda: line(nn.ConstantPad1d((4, 0), 0.0), nn.Conv1d(64, 64, 3, 1, 0, 2), nn.ReLU(), nn.ConstantPad1d((8, 0), 0.0),
                                             nn.Conv1d(64, 64, 3, 1, 0, 4)),
        "GRU": lambda: Of(lambda x, gru: gru(x)[0], nn.GRU(128, 128, batch_first=True)),
        "GLU, layer norm": lambda: nn.Sequential(nn.Linear(128, 256), nn.GLU(), nn.Linear(128, 128), nn.LayerNorm(128)),
        "mixer": lambda: nn.Sequential(nn.LayerNorm(128), swap(), nn.Linear(196, 256), gelu(), nn.Linear(256, 196), swap(), nn.Linear(128, 256), gelu(),
                                       nn.Linear(256, 128)),
        "attention": lambda: heads(128, 4),
        "attention, odd": lambda: heads(192, 3),
        "RMS norm": lambda: nn.Sequential(nn.RMSNorm(512), nn.Linear(512, 512), nn.RMSNorm(512)),
        "softmax": lambda: nn.Sequential(nn.Linear(256, 256), nn.Softmax(-1), nn.Linear(256, 64)),
        "dropout, GELU": lambda: nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.1), gelu(), nn.Linear(256, 256)),
        "MLP, odd": lambda: nn.Sequential(nn.Linear(777, 501), nn.ReLU(), nn.Linear(501, 513), nn.ReLU(), nn.Linear(513, 10)),
        "unit length": lambda: nn.Sequential(nn.Linear(256, 256), Of(lambda x: x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt())),
    }


def ours(stepc_program, name, folder, x):
    import stepc
    shape, layers = CASES[name]
    path, so = os.path.join(folder, "model.json"), os.path.join(folder, "step-%d.so" % len(os.listdir(folder)))
    with open(path, "w") as f:
        json.dump({"stepc": 1, "name": "layers", "inputs": {"x": {"shape": list(shape), "axes": ["batch"] + [None] * (len(shape) - 1)}},
                   "model": {"type": "sequential", "input": "x", "layers": layers}, "loss": "mean(model**2)",
                   "optimizer": {"type": "sgd", "learning_rate": 1e-3}}, f)
    subprocess.run([stepc_program, "compile", path, "-q", "-o", so], check=True)
    s = stepc.Step(so, threads=1)
    s.init()
    parameters = json.loads(subprocess.run([stepc_program, "explain", so, "--json"], check=True, capture_output=True).stdout)["parameters"]
    return s.bind(x=x), parameters


def theirs(make, x):
    import torch
    torch.set_num_threads(1)
    model, x = make(), torch.from_numpy(x)
    if x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.permute(0, 3, 1, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()
    return step, sum(p.numel() for p in model.parameters())


def best(run, count):
    least = float("inf")
    for _ in range(count):
        start = time.thread_time()
        run()
        least = min(least, time.thread_time() - start)
    return least


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default=os.path.join(ROOT, "build/stepc"))
    p.add_argument("--other", help="another build of this compiler")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("names", nargs="*", default=list(CASES), metavar="NAME")
    options = p.parse_args()
    make = peers()
    for name in options.names:
        x = np.random.default_rng(0).standard_normal(CASES[name][0]).astype("f4")
        with tempfile.TemporaryDirectory(prefix="stepc-layers-") as folder:
            sides = {"stepc": ours(options.stepc, name, folder, x), "PyTorch": theirs(make[name], x)}
            if options.other:
                sides["other"] = ours(options.other, name, folder, x)
        if len({count for _, count in sides.values()}) > 1 and name != "GRU":  # PyTorch's has two biases of a gate
            raise SystemExit("%s: other parameters: %s" % (name, {side: count for side, (_, count) in sides.items()}))
        for run, _ in sides.values():
            best(run, 2)
        count = max(1, int(0.15 / best(sides["stepc"][0], 1)))
        times = {side: np.array([]) for side in sides}
        for _ in range(options.rounds):
            for side, (run, _) in sides.items():
                times[side] = np.append(times[side], best(run, count))
        ratio = {side: times[side] / times["stepc"] for side in sides if side != "stepc"}
        print("%-24s %8.2f ms" % (name, 1e3 * times["stepc"].min()),
              *("  %s %.2f (%.2f to %.2f)" % (side, np.median(r), r.min(), r.max()) for side, r in ratio.items()), flush=True)


if __name__ == "__main__":
    main()
