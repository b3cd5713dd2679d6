#!/usr/bin/env python3
"""A transformer that computes in bfloat16: ours against PyTorch (autocast, and a model in bfloat16) and JAX, rounds interleaved, CPU time.

    tests/bench/bf16.py [--stepc build/stepc] [--rounds N] [--steps N] [--layers N] [--rows N] [--length N] [--width N] [--words N] [--peer NAME ...]

Pre-norm blocks, 64 elements to a head, Adam; parameters and moments float32, but for the peer `torch model`, whose parameters are bfloat16.
One thread each, so that CPU time is what a core of one's own would take. A ratio is the median over the rounds of the peer's time / ours.
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
import numpy as np

import bench

HERE = os.path.dirname(os.path.abspath(__file__))


def document(o, compute):
    with open(os.path.join(bench.ROOT, "samples/shakespeare/model.json")) as f:
        d = json.load(f)
    d["constants"].update(batch=o.rows, context=o.length, vocabulary=o.words, width=o.width, heads=o.width // 64, layers=o.layers)
    d["model"]["nodes"].append({"type": "linear", "name": "head", "features": "$vocabulary", "use_bias": False, "input": "ln_f"})
    d["model"]["output"] = "head"
    d["optimizer"] = {"type": "adam", "learning_rate": 1e-4}
    return dict(d, precision={"compute": compute})


def forward(p, tokens, f, layers, cast):
    x = cast(p["wte.embedding"][tokens] + p["wpe.embedding"])
    for i in range(layers):
        q = "h.%d." % i
        y = f.norm(x, p[q + "ln_1.scale"], p[q + "ln_1.bias"])
        query, key, value = (f.einsum("btc,chd->bthd", y, cast(p[q + "attn." + n + ".kernel"])) for n in ("query", "key", "value"))
        x = x + f.einsum("bthd,hdc->btc", f.attention(query, key, value), cast(p[q + "attn.out.kernel"]))
        y = f.norm(x, p[q + "ln_2.scale"], p[q + "ln_2.bias"])
        x = x + f.gelu(y @ cast(p[q + "c_fc.kernel"])) @ cast(p[q + "c_proj.kernel"])
    return f.norm(x, p["ln_f.scale"], p["ln_f.bias"]) @ cast(p["head.kernel"])


def torch_side(start, o, batch, autocast):
    import contextlib
    import torch
    torch.set_num_threads(1)
    f = bench.torch_functions()
    dtype = torch.float32 if autocast else torch.bfloat16
    p = {n: torch.from_numpy(v.copy()).to(dtype).requires_grad_() for n, v in start.items()}
    optimizer = torch.optim.Adam(p.values(), lr=1e-4, fused=True)
    x, y = (torch.from_numpy(a).long() for a in batch)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
            logits = forward(p, x, f, o.layers, lambda v: v)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), y.flatten())
        loss.backward()
        optimizer.step()
        return float(loss.detach())
    return step


def jax_side(start, o, batch):
    import jax
    import jax.numpy as jnp
    import optax
    base = bench.jax_functions()

    class F(base):
        @staticmethod
        def norm(x, scale, bias):
            return base.norm(x.astype("float32"), scale, bias).astype("bfloat16")
    loss = lambda p, x, y: optax.softmax_cross_entropy_with_integer_labels(
        forward(p, x, F, o.layers, lambda v: v.astype("bfloat16")).astype("float32"), y).mean()
    tx = optax.adam(1e-4)
    run = jax.jit(bench.jax_step(loss, tx), donate_argnums=0)
    p = {n: jnp.array(v) for n, v in start.items()}
    state = [(p, tx.init(p))]

    def step():
        state[0], value = run(state[0], batch)
        return float(value)
    return step


def main():
    p = argparse.ArgumentParser(description="A transformer that computes in bfloat16, interleaved with PyTorch and JAX.")
    p.add_argument("--stepc", default=os.path.join(bench.ROOT, "build/stepc"))
    for name, value in ("rounds", 7), ("steps", 2), ("layers", 2), ("rows", 8), ("length", 128), ("width", 512), ("words", 10000):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--peer", action="append", choices=["float32", "pairs", "v4", "autocast", "model", "jax"])
    p.set_defaults(numerics="reproducible")
    o = p.parse_args()
    import stepc
    random = np.random.default_rng(0)
    batch = [random.integers(0, o.words, (o.rows, o.length)).astype(np.int32) for _ in range(2)]

    def ours(compute, *options):
        m = stepc.Step(bench.compiled(o, document(o, compute), options), threads=1)
        m.init()
        return m, lambda: m.step(tokens=batch[0], targets=batch[1]).loss
    m, step = ours("bfloat16")
    start, sides = bench.parameters(m), {"stepc": step}
    cpus = {"pairs": "cooperlake", "v4": "x86-64-v4"}  # without AMX, without AVX512_BF16
    for peer in o.peer or ["float32", "pairs", "v4", "autocast", "model", "jax"]:
        sides[peer] = ours("float32")[1] if peer == "float32" else ours("bfloat16", "--cpu", cpus[peer])[1] if peer in cpus \
            else jax_side(start, o, batch) if peer == "jax" else torch_side(start, o, batch, peer == "autocast")
    first = {name: side() for name, side in sides.items()}
    for name, loss in first.items():
        bench.check(name, [first["stepc"]], [loss], 1e-2)
    bench.CLOCK[0] = time.process_time
    times = bench.interleave({name: lambda run=run: bench.timed(lambda: [run() for _ in range(o.steps)], o.steps) for name, run in sides.items()}, o.rounds)
    for name, seconds in times.items():
        ratio = np.array(seconds) / np.array(times["stepc"])
        print("%-10s best %7.1f ms, median %7.1f; / ours: %.2f (%.2f to %.2f)" % (
            name, 1e3 * min(seconds), 1e3 * np.median(seconds), np.median(ratio), ratio.min(), ratio.max()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
