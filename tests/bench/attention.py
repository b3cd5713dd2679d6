#!/usr/bin/env python3
"""Attention, forward and backward, one thread: this compiler beside PyTorch's scaled_dot_product_attention and JAX's
dot_product_attention, interleaved in one process that is pinned to one core.

    tests/bench/attention.py [--stepc build/stepc] [--other STEPC] [--rounds N] [--causal] [BxTxHxD ...]

A step computes sum(attention(q, k, v) * w) and its gradient by q, k and v, which it takes off them times 0. A side's time is its
best of several steps in a round, a ratio the median over the rounds of a peer's time / ours (above 1: we are faster). Memory: what
the step needs for temporaries, in sizes of q. A peer that is not installed is left out; --other: an older compiler as one more."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "samples"))
SHAPES = ["8x256x4x64", "2x1024x4x64", "1x4096x4x64"]


def document(shape, causal):
    param = lambda name: {"name": name, "type": "param", "shape": list(shape), "init": {"type": "normal", "stddev": 1.0}}
    attend = "dot_product_attention(q, k, v, is_causal=%s)" % causal
    return {"stepc": 1, "name": "attention", "inputs": {"w": {"shape": list(shape), "dtype": "float32"}},
            "model": {"type": "graph", "input": "w", "nodes": [param("q"), param("k"), param("v"), {"name": "o", "type": "expr", "expr": attend}], "output": "o"},
            "loss": "sum(model * w)", "optimizer": {"type": "sgd", "learning_rate": 0.0}, "seed": 0}


def ours(compiler, folder, shape, causal):
    import stepc
    source, so = os.path.join(folder, "model.json"), os.path.join(folder, "%s.so" % abs(hash((compiler, shape))))
    with open(source, "w") as f:
        json.dump(document(shape, causal), f)
    subprocess.run([compiler, "compile", source, "-q", "-o", so], check=True)
    report = json.loads(subprocess.run([compiler, "explain", source, "--memory", "--json"], check=True, capture_output=True).stdout)
    m = stepc.Step(so, threads=1)
    m.init()
    w = np.random.default_rng(0).standard_normal(shape).astype("f4")
    q_bytes = 4 * int(np.prod(shape))
    memory = next(e for e in report["entries"] if e["name"] == "step")["memory"]
    return lambda: m.step(w=w), memory["arena"] / q_bytes


def torch_side(shape, causal):
    import torch
    torch.set_num_threads(1)
    q, k, v, w = (torch.randn(shape).transpose(1, 2).contiguous().transpose(1, 2) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()

    def step():
        o = torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=causal)
        torch.autograd.grad((o.transpose(1, 2) * w).sum(), (q, k, v))
    return step


def jax_side(shape, causal):
    import jax
    keys = jax.random.split(jax.random.key(0), 4)
    q, k, v, w = (jax.random.normal(key, shape) for key in keys)
    loss = lambda q, k, v: (jax.nn.dot_product_attention(q, k, v, is_causal=causal) * w).sum()
    step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))
    return lambda: jax.block_until_ready(step(q, k, v))


def best(step, seconds=0.25):
    least, until = float("inf"), time.perf_counter() + seconds
    while least == float("inf") or time.perf_counter() < until:
        begin = time.process_time()
        step()
        least = min(least, time.process_time() - begin)
    return least


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--stepc", default=os.path.join(ROOT, "build", "stepc"))
    arguments.add_argument("--other")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--causal", action="store_true")
    arguments.add_argument("--peers", default="torch,jax")
    arguments.add_argument("shapes", nargs="*", default=SHAPES)
    options = arguments.parse_args()
    for text in options.shapes:
        shape = tuple(int(x) for x in text.split("x"))
        with tempfile.TemporaryDirectory() as folder:
            step, memory = ours(options.stepc, folder, shape, options.causal)
            sides = {"ours": step}
            if options.other:
                sides["other"], _ = ours(options.other, folder, shape, options.causal)
            for name, make in (("torch", torch_side), ("jax", jax_side)):
                try:
                    if name in options.peers:
                        sides[name] = make(shape, options.causal)
                except ImportError:
                    pass
            times = {name: [] for name in sides}
            for side in sides.values():
                side()
            for _ in range(options.rounds):
                for name, side in sides.items():
                    times[name].append(best(side))
        batch, length, heads, depth = shape
        work = 2 * 7 * batch * heads * length * length * depth * (0.5 if options.causal else 1)
        print("%-14s ours %8.2f ms, %5.1f GFLOP/s, temporaries %.2f q;" % (text, 1e3 * min(times["ours"]), work / min(times["ours"]) / 1e9, memory),
              ", ".join("%s %.2fx (best %.2f ms)" % (name, statistics.median(b / a for a, b in zip(times["ours"], times[name])), 1e3 * min(times[name]))
                        for name in sides if name != "ours"), flush=True)


main()
