"""The update alone: 43 M parameters in the 124 tensors of a transformer of 12 layers, 512 wide, gradients as inputs.

The loss is sum(params * g), so that g is the gradient; it is made in the update's own pass and costs no bytes of its own.
The peers get the gradients and compute no loss. The stream is one pass over as many arrays of the same size, written by
hand: read and written in place, the gradient read, and with a norm the gradient read once before.
"""
import ctypes
import os
import subprocess
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RATE, DECAY, AVERAGE, EPSILON = 1e-3, 0.1, 0.999, 1e-8
VARIANTS = ["one vector", "four vectors", "eight vectors", "prefetch", "non-temporal"]


def shapes(layers=12, width=512, heads=8, vocabulary=10000, context=512):
    out = {"wte.embedding": (vocabulary, width), "wpe.embedding": (context, width)}
    for i in range(layers):
        q = "h.%d." % i
        out[q + "ln_1.scale"] = out[q + "ln_1.bias"] = out[q + "ln_2.scale"] = out[q + "ln_2.bias"] = (width,)
        for n in "query", "key", "value":
            out[q + "attn.%s.kernel" % n] = (width, heads, width // heads)
        out[q + "attn.out.kernel"] = (heads, width // heads, width)
        out[q + "c_fc.kernel"], out[q + "c_proj.kernel"] = (width, 4 * width), (4 * width, width)
    out["ln_f.scale"] = out["ln_f.bias"] = (width,)
    return out


def decayed(name):
    return name.endswith((".kernel", ".embedding"))


def document(sizes, whole):
    """whole: clipping and averages too."""
    adamw = {"type": "adamw", "learning_rate": RATE, "weight_decay": DECAY, "mask": ["**.kernel", "**.embedding"]}
    inputs = {"g%d" % i: {"shape": list(s), "dtype": "float32", "axes": [None] * len(s)} for i, s in enumerate(sizes.values())}
    nodes = [{"type": "param", "name": n, "shape": list(s), "init": {"type": "normal", "stddev": 0.02}} for n, s in sizes.items()]
    out = {"stepc": 1, "name": "update", "inputs": inputs, "model": {"type": "graph", "nodes": nodes, "output": "0.0"},
           "loss": " + ".join("sum(params.%s * g%d)" % (n, i) for i, n in enumerate(sizes)), "optimizer": adamw}
    if whole:
        clip = {"type": "clip_by_global_norm", "max_norm": 1.0}
        out.update(optimizer={"type": "chain", "transforms": [clip, adamw]}, ema={"decay": AVERAGE})
    return out


def stepc_side(so, threads, gradients):
    import stepc
    m = stepc.Step(so, threads=threads)
    m.init()
    keep, result = [], stepc._RESULT(size=ctypes.sizeof(stepc._RESULT))
    batch = m._batch({"g%d" % i: g for i, g in enumerate(gradients.values())}, keep)  # once, not in every round

    def run():
        m._check(m._step(m._instance, ctypes.byref(batch), ctypes.byref(result)))
    run.keep = keep
    return m, run


def aligned(n):
    """On a cache line: stores past the caches want it."""
    a = np.zeros(n + 16, np.float32)
    at = -a.ctypes.data % 64 // 4
    return a[at:at + n]


def stream_sides(n, whole, threads, flat):
    """name -> function, for every way to write the pass."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "probe.so")
        subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-pthread", os.path.join(HERE, "probe.c"), "-o", library], check=True)
        probe = ctypes.CDLL(library)
    arrays = [aligned(n) for _ in range(4 if whole else 3)]
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])

    def one(variant):
        def run():
            if whole:
                probe.probe_squares(flat.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(n), threads)
            probe.probe_update(pointers, len(arrays), flat.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(n), threads, variant)
        run.keep = arrays, flat
        return run
    return {"stream, " + name: one(i) for i, name in enumerate(VARIANTS)}


def torch_side(start, gradients, whole, threads, **form):
    import torch
    torch.set_num_threads(threads)
    p = {n: torch.from_numpy(v.copy()).requires_grad_() for n, v in start.items()}
    average = [v.detach().clone() for v in p.values()]
    values, detached = list(p.values()), [v.detach() for v in p.values()]
    groups = [{"params": [v for n, v in p.items() if decayed(n)], "weight_decay": DECAY},
              {"params": [v for n, v in p.items() if not decayed(n)], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=EPSILON, **form)

    def fresh():  # clipping changes gradients in place
        for n, v in p.items():
            v.grad = torch.from_numpy(gradients[n].copy())
    fresh()

    def run():
        if whole:
            torch.nn.utils.clip_grad_norm_(values, 1.0)
        optimizer.step()
        if whole:
            torch._foreach_lerp_(average, detached, 1 - AVERAGE)
    return run, fresh, p


def jax_side(start, gradients, whole):
    import jax
    import optax
    tx = optax.adamw(RATE, weight_decay=DECAY, mask=lambda p: {n: decayed(n) for n in p})
    if whole:
        tx = optax.chain(optax.clip_by_global_norm(1.0), tx)

    def step(carry, g):
        p, state, average = carry
        u, state = tx.update(g, state, p)
        p = optax.apply_updates(p, u)
        average = jax.tree.map(lambda a, x: AVERAGE * a + (1 - AVERAGE) * x, average, p) if whole else None
        return p, state, average
    step = jax.jit(step, donate_argnums=0)
    p = {n: jax.numpy.array(v) for n, v in start.items()}
    carry = [(p, tx.init(p), jax.tree.map(jax.numpy.copy, p) if whole else None)]
    g = {n: jax.numpy.array(v) for n, v in gradients.items()}

    def run():
        carry[0] = jax.block_until_ready(step(carry[0], g))
    return run, lambda: carry[0][0]


def workload(bench, options, whole, threads):
    sizes = shapes()
    so = bench.compiled(options, document(sizes, whole))
    flat = np.random.default_rng(0).standard_normal(sum(int(np.prod(s)) for s in sizes.values()), np.float32)
    gradients, at = {}, 0
    for name, s in sizes.items():
        count = int(np.prod(s))
        gradients[name] = flat[at:at + count].reshape(s)
        at += count
    m, ours = stepc_side(so, threads, gradients)
    start = {n: m[n] for n in sizes}
    sides, checks = stream_sides(len(flat), whole, threads, flat), {}
    sides["stepc"] = ours  # not right behind JAX, which goes on freeing memory for a while
    if bench.have("torch"):
        for name, form in ("fused", {"fused": True}), ("foreach", {"foreach": True}), ("default", {}):
            run, fresh, p = torch_side(start, gradients, whole, threads, **form)
            sides["pytorch " + name] = run
            checks["pytorch " + name] = (run, fresh, lambda p=p: {n: v.detach().numpy() for n, v in p.items()})
    if bench.have("jax"):
        run, p = jax_side(start, gradients, whole)
        sides["jax.jit"] = run
        checks["jax.jit"] = (run, lambda: None, p)
    for _ in range(3):
        ours()
    for name, (run, fresh, p) in checks.items():
        for _ in range(3):
            fresh()
            run()
        theirs = p()
        worst = max(float(np.max(np.abs(m[n] - np.asarray(theirs[n])))) for n in sizes)
        if not worst < 2e-5:
            raise SystemExit("%s computes something else: parameters differ by %.2g" % (name, worst))
    times = bench.interleave({n: lambda run=run: bench.timed(run, 1) for n, run in sides.items()}, options.rounds, 0.02)
    streams = [n for n in times if n.startswith("stream")]
    best = min(streams, key=lambda n: np.median(times[n]))
    times = {n if n != best else "stream": t for n, t in times.items() if n not in streams or n == best}
    out = bench.report(times)
    out["stream"]["written as"] = best[len("stream, "):]
    out["stepc"]["GB/s"] = (40 if whole else 28) * len(flat) / np.median(times["stepc"]) * 1e-9
    return out
