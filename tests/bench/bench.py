#!/usr/bin/env python3
"""Benchmarks against JAX and PyTorch, where they are installed: one command, rounds interleaved, JSON output.

    tests/bench/bench.py [--stepc build/stepc] [--json FILE] [--rounds N] [WORKLOAD...]

Both sides run in one process from the same initial values on the same data; their losses are compared first. A ratio
is the median over the rounds of peer time / our time (above 1: we are faster), with quartiles, the least and the greatest.
"""
import argparse
import ctypes
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "samples"))


def interleave(sides, rounds, pause=0):
    """sides: name -> function that works and returns seconds per step. Returns name -> list, one entry per round.
    A pause lets the thread pool of the side before go to sleep."""
    for run in sides.values():
        run()
    times = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            time.sleep(pause)
            times[name].append(run())
    return times


def report(times, unit=1e6):
    ours = np.array(times["stepc"])
    out = {"stepc": {"best_us": float(ours.min() * unit), "median_us": float(np.median(ours) * unit)}}
    for name, seconds in times.items():
        if name != "stepc":
            ratio = np.array(seconds) / ours
            out[name] = {"best_us": float(np.min(seconds) * unit), "median_us": float(np.median(seconds) * unit), "ratio": float(np.median(ratio)),
                         "quartiles": [float(q) for q in np.percentile(ratio, [25, 75])], "least": float(ratio.min()), "greatest": float(ratio.max())}
    return out


CLOCK = [time.perf_counter]


def timed(function, steps):
    start = CLOCK[0]()
    function()
    return (CLOCK[0]() - start) / steps


def compiled(options, document, extra=()):
    folder = tempfile.mkdtemp(prefix="stepc-bench-")
    path = document
    if isinstance(document, dict):
        path = os.path.join(folder, "model.json")
        with open(path, "w") as f:
            json.dump(document, f)
    so = os.path.join(folder, "step.so")
    subprocess.run([options.stepc, "compile", path, "-o", so, "--numerics", options.numerics, *extra], check=True)
    return so


def parameters(m):
    return {n: m[n] for n in m.names()}


def check(name, ours, theirs, tolerance=2e-3):
    worst = float(np.max(np.abs(np.asarray(ours) - np.asarray(theirs)) / (np.abs(np.asarray(theirs)) + 1e-6)))
    if not worst < tolerance:
        raise SystemExit("%s computes something else: losses differ by %.2g" % (name, worst))


# ---------------------------------------------------------------- the models in JAX and PyTorch

def mlp(xp, relu, p, x, activate):
    layers = sorted({n.rsplit(".", 1)[0] for n in p}, key=lambda n: int(n.split(".")[1]))
    for i, layer in enumerate(layers):
        x = x @ p[layer + ".kernel"] + p[layer + ".bias"]
        if activate and i + 1 < len(layers):
            x = relu(x)
    return x


def transformer(p, tokens, f):
    """f: functions of a framework. Pre-norm blocks, causal attention, tied output, as samples/shakespeare/model.json."""
    x = p["wte.embedding"][tokens] + p["wpe.embedding"]
    for i in range(4):
        q = "h.%d." % i
        y = f.norm(x, p[q + "ln_1.scale"], p[q + "ln_1.bias"])
        query, key, value = (f.einsum("btc,chd->bthd", y, p[q + "attn." + n + ".kernel"]) for n in ("query", "key", "value"))
        x = x + f.einsum("bthd,hdc->btc", f.attention(query, key, value), p[q + "attn.out.kernel"])
        y = f.norm(x, p[q + "ln_2.scale"], p[q + "ln_2.bias"])
        x = x + f.gelu(y @ p[q + "c_fc.kernel"]) @ p[q + "c_proj.kernel"]
    return f.norm(x, p["ln_f.scale"], p["ln_f.bias"]) @ p["wte.embedding"].T


def jax_functions():
    import jax
    import jax.numpy as jnp

    class F:
        einsum = staticmethod(jnp.einsum)
        gelu = staticmethod(jax.nn.gelu)

        @staticmethod
        def norm(x, scale, bias):
            mean = x.mean(-1, keepdims=True)
            variance = (x * x).mean(-1, keepdims=True) - mean * mean
            return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias

        @staticmethod
        def attention(q, k, v):
            s = jnp.einsum("bqhd,bkhd->bhqk", q / np.sqrt(q.shape[-1]), k)
            s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, jnp.finfo(s.dtype).min)
            return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v)
    return F


def torch_functions():
    import torch

    class F:
        einsum = staticmethod(torch.einsum)

        @staticmethod
        def gelu(x):
            return torch.nn.functional.gelu(x, approximate="tanh")

        @staticmethod
        def norm(x, scale, bias):
            return torch.nn.functional.layer_norm(x, x.shape[-1:], scale, bias, 1e-5)

        @staticmethod
        def attention(q, k, v):
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
    return F


def jax_step(loss, tx):
    import jax
    import optax

    def step(carry, batch):
        p, s = carry
        value, g = jax.value_and_grad(loss)(p, *batch)
        u, s = tx.update(g, s, p)
        return (optax.apply_updates(p, u), s), value
    return step


def jax_side(start, loss, tx, batches, count):
    """jax.jit called once per step, donated arguments. Returns (losses of the first steps, function for a round)."""
    import jax
    step = jax.jit(jax_step(loss, tx), donate_argnums=0)
    fresh = lambda: (lambda p: (p, tx.init(p)))({n: jax.numpy.array(v) for n, v in start.items()})
    carry, losses = fresh(), []
    for b in batches[:5]:
        carry, value = step(carry, b)
        losses.append(float(value))
    state = [fresh()]

    def run():
        for i in range(count):
            state[0], value = step(state[0], batches[i % len(batches)])
        value.block_until_ready()
        jax.block_until_ready(state[0])
    return losses, lambda: timed(run, count)


def torch_side(start, loss, optimizer, batches, count, clip=None):
    import torch
    batches = [tuple(torch.from_numpy(np.ascontiguousarray(a)).long() if a.dtype == np.int32 else torch.from_numpy(a) for a in b) for b in batches]

    def fresh():
        p = {n: torch.from_numpy(v.copy()).requires_grad_() for n, v in start.items()}
        return p, optimizer(p)

    def one(p, opt, b):
        opt.zero_grad()
        value = loss(p, *b)
        value.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(list(p.values()), clip)
        opt.step()
        return value
    p, opt = fresh()
    losses = [one(p, opt, b).item() for b in batches[:5]]
    state = fresh()

    def run():
        for i in range(count):
            one(*state, batches[i % len(batches)])
    return losses, lambda: timed(run, count)


# ---------------------------------------------------------------- workloads

def have(name):
    try:
        __import__(name)
        return True
    except ImportError:
        return False


def toy(options):
    """The cookbook's toy step on one thread: ours against one lax.scan under jax.jit, and against jax.jit per step."""
    import stepc
    with open(os.path.join(ROOT, "samples/cookbook/model.json")) as f:
        document = json.load(f)
    del document["ema"]
    m, n = stepc.Step(compiled(options, document), threads=1), 1000
    m.init()
    start, random = parameters(m), np.random.default_rng(0)
    x, y = random.standard_normal((n, 32, 2), np.float32), random.standard_normal((n, 32, 8), np.float32)
    first = m.step_n(5, x=x[:5], y=y[:5])
    sides = {"stepc": lambda: timed(lambda: m.step_n(n, x=x, y=y), n)}
    if have("jax"):
        import jax
        import optax
        loss = lambda p, a, b: ((mlp(np, None, p, a, False) - b) ** 2).mean()
        tx = optax.adam(1e-3)
        losses, per_call = jax_side(start, loss, tx, [(x[i], y[i]) for i in range(100)], 100)
        check("jax", first, losses)
        scan = jax.jit(lambda carry, batch: jax.lax.scan(jax_step(loss, tx), carry, batch))
        p = {k: jax.numpy.array(v) for k, v in start.items()}
        carry, batch = (p, tx.init(p)), (jax.numpy.array(x), jax.numpy.array(y))
        sides["jax.lax.scan"] = lambda: timed(lambda: jax.block_until_ready(scan(carry, batch)), n)
        sides["jax.jit per step"] = per_call
    return report(interleave(sides, options.rounds))


def lbfgs(options):
    """L-BFGS to the same loss: the cookbook's toy; Rosenbrock's function chained over 2 and 100 and in pairs over 10,000."""
    import minimise
    return minimise.lbfgs(options, sys.modules["__main__"])


def model_workload(options, document, batches, jax_loss, torch_loss, tx, torch_optimizer, count, clip=None):
    import stepc
    m = stepc.Step(compiled(options, document))
    m.init()
    start = parameters(m)
    names = m.names(stepc.INPUT)
    first = [m.step(**dict(zip(names, b))).loss for b in batches[:5]]

    def run():
        for i in range(count):
            m.step(**dict(zip(names, batches[i % len(batches)])))
    sides = {"stepc": lambda: timed(run, count)}
    if have("jax"):
        losses, sides["jax.jit"] = jax_side(start, jax_loss, tx(), batches, count)
        check("jax", first, losses)
    if have("torch") and torch_loss:
        losses, sides["pytorch"] = torch_side(start, torch_loss, torch_optimizer, batches, count, clip)
        check("pytorch", first, losses)
    return report(interleave(sides, options.rounds))


def digits(options):
    """samples/digits: batch 64, AdamW."""
    with gzip.open(os.path.join(ROOT, "samples/digits/digits.csv.gz")) as f:
        table = np.loadtxt(f, delimiter=",", dtype=np.float32)
    batches = [(np.ascontiguousarray(b[:, :64] / 16), b[:, 64].astype(np.int32)) for b in table[:64 * 28].reshape(28, 64, 65)]

    def jax_loss(p, x, y):
        import jax
        import optax
        return optax.softmax_cross_entropy_with_integer_labels(mlp(np, jax.nn.relu, p, x, True), y).mean()

    def torch_loss(p, x, y):
        import torch
        return torch.nn.functional.cross_entropy(mlp(np, torch.relu, p, x, True), y)

    def tx():
        import optax
        return optax.adamw(1e-3)

    def torch_optimizer(p):
        import torch
        return torch.optim.AdamW(p.values(), lr=1e-3, weight_decay=1e-4)
    with open(os.path.join(ROOT, "samples/digits/model.json")) as f:
        document = dict(json.load(f), optimizer={"type": "adamw", "learning_rate": 1e-3})
    return model_workload(options, document, batches, jax_loss, torch_loss, tx, torch_optimizer, 100)


def shakespeare(options):
    """samples/shakespeare: 4 layers, 128 wide, 12 x 64 characters, clipping, AdamW."""
    with open(os.path.join(ROOT, "samples/shakespeare/tinyshakespeare.txt")) as f:
        text = f.read()
    alphabet = {c: i for i, c in enumerate(sorted(set(text)))}
    numbers, random = np.array([alphabet[c] for c in text], np.int32), np.random.default_rng(0)
    batches = []
    for _ in range(20):
        at = random.integers(0, len(numbers) - 65, 12)
        batches.append((np.stack([numbers[a:a + 64] for a in at]), np.stack([numbers[a + 1:a + 65] for a in at])))
    with open(os.path.join(ROOT, "samples/shakespeare/model.json")) as f:
        document = json.load(f)
    adamw = document["optimizer"]["transforms"][1]
    adamw["learning_rate"] = 1e-3
    decayed = lambda name: name.endswith((".kernel", ".embedding"))

    def jax_loss(p, x, y):
        import optax
        return optax.softmax_cross_entropy_with_integer_labels(transformer(p, x, jax_functions()), y).mean()

    def torch_loss(p, x, y):
        import torch
        return torch.nn.functional.cross_entropy(transformer(p, x, torch_functions()).flatten(0, 1), y.flatten())

    def tx():
        import optax
        return optax.chain(optax.clip_by_global_norm(1.0),
                           optax.adamw(1e-3, b2=0.99, weight_decay=0.1, mask=lambda p: {n: decayed(n) for n in p}))

    def torch_optimizer(p):
        import torch
        groups = [{"params": [v for n, v in p.items() if decayed(n)], "weight_decay": 0.1},
                  {"params": [v for n, v in p.items() if not decayed(n)], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), eps=1e-8)
    return model_workload(options, document, batches, jax_loss, torch_loss, tx, torch_optimizer, 20, clip=1.0)


def lstm(options):
    """An LSTM language model: 128 wide, 16 x 64 tokens of 256, Adam; against the same modules of Flax NNX, on one core."""
    wide, rows, times, count = 128, 16, 64, 256
    document = {"stepc": 1, "inputs": {"x": {"shape": [rows, times], "dtype": "int32"}, "y": {"shape": [rows, times], "dtype": "int32"}},
                "model": {"type": "sequential", "input": "x", "layers": [
                    {"type": "embed", "name": "embed", "num_embeddings": count, "features": wide},
                    {"type": "rnn", "name": "rnn", "cell": {"type": "lstm_cell", "hidden_features": wide}},
                    {"type": "linear", "name": "out", "features": count}]},
                "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"},
                "optimizer": {"type": "adam", "learning_rate": 1e-3}}
    random = np.random.default_rng(0)
    batches = [(b[:, :-1].copy(), b[:, 1:].copy()) for b in random.integers(0, count, (8, rows, times + 1)).astype(np.int32)]

    def jax_loss(p, x, y):
        import optax
        from flax import nnx

        class Model(nnx.Module):
            def __init__(self, rngs):
                self.embed = nnx.Embed(count, wide, rngs=rngs)
                self.rnn = nnx.RNN(nnx.LSTMCell(wide, wide, rngs=rngs), rngs=rngs)
                self.out = nnx.Linear(wide, count, rngs=rngs)

        graph, params, rest = nnx.split(nnx.eval_shape(lambda: Model(nnx.Rngs(0))), nnx.Param, ...)
        flat = [(path, v.replace(p[".".join(map(str, path))])) for path, v in params.flat_state()]
        m = nnx.merge(graph, nnx.State.from_flat_path(flat), rest)
        carry = (0 * m.embed(x)[:, 0],) * 2
        return optax.softmax_cross_entropy_with_integer_labels(m.out(m.rnn(m.embed(x), initial_carry=carry)), y).mean()

    def tx():
        import optax
        return optax.adam(1e-3)
    return model_workload(options, document, batches, jax_loss, None, tx, None, 20)


def update(whole, threads):
    """A workload of update.py as a function of the options."""
    def run(options):
        import update as module
        return module.workload(sys.modules[__name__], options, whole, threads)
    run.__doc__ = "%s on 43 M parameters, %d thread%s: against one in-place stream of the same bytes, PyTorch and JAX." % (
        "Clipping, AdamW and averages" if whole else "AdamW", threads, "s" if threads > 1 else "")
    return run


def small_tensors(options):
    """10,000 small tensors against one of the same size: step time (many_to_one) and compile time."""
    import small_tensors as module
    return module.workload(sys.modules[__name__], options)


def model(name, doc, *arguments):
    """A workload of models.py as a function of the options."""
    def run(options):
        import models
        return getattr(models, name)(sys.modules[__name__], options, *arguments)
    run.__doc__ = doc
    return run


def artifact(options):
    """Compile time of the transformer, size of the toy object, planned against measured memory."""
    import stepc
    out = {}
    for name in "cookbook", "digits", "shakespeare":
        path, best = os.path.join(ROOT, "samples", name, "model.json"), 1e9
        for _ in range(3):
            start = time.perf_counter()
            so = compiled(options, path)
            best = min(best, time.perf_counter() - start)
        memory = stepc.Step(so).memory()
        out[name] = {"compile_s": best, "object_bytes": os.path.getsize(so), "planned_peak": memory.planned_peak,
                     "measured_peak": memory.measured_peak}
    return out


WORKLOADS = {"toy": toy, "lbfgs": lbfgs, "digits": digits, "shakespeare": shakespeare, "lstm": lstm, "adamw-1": update(False, 1), "adamw-2": update(False, 2),
             "clip-adamw-ema-1": update(True, 1), "clip-adamw-ema-2": update(True, 2), "small_tensors": small_tensors, "artifact": artifact,
             "resnet": model("resnet", "A residual network of CIFAR's size with batch normalisation, 16 images, on one core."),
             "attention-256": model("attention", "Two layers of causal attention, 256 positions, 4 heads of 64, on one core.", 256),
             "attention-1024": model("attention", "Two layers of causal attention, 1,024 positions, 4 heads of 64, on one core.", 1024),
             "mlp": model("mlp", "784-512-512-10, 128 rows, Adam."),
             "cnn": model("cnn", "Convolutions of 32 and 64 channels, means of 2 x 2, 256 and 10 columns, 64 images of 28 x 28, Adam."),
             "transformer": model("gpt", "4 layers, 512 wide, 8 x 128 tokens of 10,000, a projection, Adam.", 4, 512, 8, 10000, 8, 128, False),
             "gpt2": model("gpt", "GPT-2 124M: 12 layers, 768 wide, 4 x 64 tokens of 50,257, Adam.", 12, 768, 12, 50257, 4, 64),
             "lstm-256": model("lstm", "An LSTM language model, 256 wide, 16 x 64 tokens of 256, Adam."),
             "vocabulary": model("vocabulary", "Embedding and projection, 32,000 words, 256 wide, 256 tokens, on one core.")}
ON_ONE_CORE = ("toy", "lbfgs", "lstm", "resnet", "attention-256", "attention-1024", "vocabulary", "adamw-1", "clip-adamw-ema-1")


def text(value):
    if isinstance(value, list):
        return "-".join(map(text, value))
    return value if isinstance(value, str) else "%.4g" % value


def main():
    p = argparse.ArgumentParser(description="Interleaved benchmarks against JAX and PyTorch.")
    p.add_argument("--stepc", default=os.path.join(ROOT, "build/stepc"))
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--numerics", default="reproducible", help="as of stepc compile")
    p.add_argument("--cpu-time", action="store_true", help="for machines that others use: CPU time; says something where there is one thread")
    p.add_argument("--one", help=argparse.SUPPRESS)
    p.add_argument("workloads", nargs="*", default=list(WORKLOADS), metavar="|".join(WORKLOADS))
    options = p.parse_args()
    if options.cpu_time:
        CLOCK[0] = time.process_time
    if options.one:
        print(json.dumps(WORKLOADS[options.one](options)))
        return
    versions = {}
    for name in "jax", "optax", "torch", "scipy":
        if have(name):
            versions[name] = __import__(name).__version__
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "?")
    result = {"schema": 1, "cpu": cpu, "cores": os.cpu_count(), "machine": platform.machine(), "versions": versions}
    for name in options.workloads:
        # A process of its own each, so that the thread pools of one do not disturb the next.
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", JAX_PLATFORMS="cpu")
        command = [sys.executable, os.path.abspath(__file__), "--stepc", os.path.abspath(options.stepc), "--rounds", str(options.rounds), "--one", name]
        command += ["--numerics", options.numerics] + ["--cpu-time"] * options.cpu_time
        if name in ON_ONE_CORE:
            command = ["taskset", "-c", "0", *command]
            environment.update(OMP_NUM_THREADS="1", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE)
        if done.returncode:
            result[name] = {"error": done.returncode}
            print("%s: failed" % name, file=sys.stderr)
            continue
        result[name] = json.loads(done.stdout.splitlines()[-1])
        print("%s: %s" % (name, WORKLOADS[name].__doc__.strip().splitlines()[0]))
        for side, values in result[name].items():
            print("   %-32s %s" % (side, "  ".join("%s %s" % (k, text(v)) for k, v in values.items())))
    if options.json:
        with open(options.json, "w") as f:
            json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()
