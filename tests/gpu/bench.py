#!/usr/bin/env python3
"""Times of a step on a GPU. The objects are made where the compiler is, without a GPU, and timed where the GPU is:

    tests/gpu/bench.py pack --stepc build/stepc --arch sm_90        compiles the documents below into build/gpu/bench-NAME.so
    tests/gpu/bench.py run                                          best and median of rounds, per step, and per step of step_n; the copy that
                                                                    all is measured by; each in a process of its own, so that one that fails
                                                                    or hangs costs no other one its device
    tests/gpu/bench.py beside                                       the documents that are there for sm_90a as well: numbers beside those for sm_90
    tests/gpu/bench.py arrays                                       steps from arrays that PyTorch, CuPy or JAX, where they are here, have on the
                                                                    GPU: the bits are those of arrays of the host
"""
import argparse
import ctypes
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(ROOT, "samples")]
from tool import runner

import numpy as np
import play

import stepc


def transformer(layers, width, rows, context):
    return "samples/shakespeare/model.json", {"layers": layers, "width": width, "heads": max(1, width // 64), "batch": rows, "context": context}


TOY = {"stepc": 1, "name": "toy", "inputs": {"x": {"shape": [32, 2]}, "y": {"shape": [32, 8]}},
       "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 16}, {"type": "tanh"}, {"type": "linear", "features": 8}]},
       "loss": "mean((model - y)**2)", "optimizer": {"type": "adam", "learning_rate": 0.001}}
UPDATE = {"stepc": 1, "name": "update", "inputs": {"x": {"shape": [1]}},  # AdamW over 64 Mi parameters: 24 bytes of each, w and both moments
          "model": {"type": "graph", "nodes": [{"type": "param", "name": "w", "shape": [1 << 26]}], "output": "w"},
          "loss": "sum(params.w) * x[0]", "optimizer": {"type": "adamw", "learning_rate": 0.001}}
PRODUCTS = {"stepc": 1, "name": "products", "inputs": {"x": {"shape": [1]}},  # 687 GFLOP in five products, which lie each way round; what is multiplied
            "model": {"type": "graph", "nodes": [                             # is on the card, as copying it there takes longer than they do
                {"type": "param", "name": "rows", "shape": [4096, 4096], "init": {"type": "normal", "stddev": 1.0}},
                {"type": "sequential", "name": "of", "input": "rows", "layers": [{"type": "linear", "features": 4096}, {"type": "tanh"}, {"type": "linear", "features": 4096}]}],
                "output": "of"},
            "trainable": ["of.**"], "loss": "mean(astype(model, 'float32')**2) * x[0]", "optimizer": {"type": "sgd", "learning_rate": 0.01}}
TRANSFORMER = transformer(12, 768, 4, 256)
GPT2 = (TRANSFORMER[0], {**TRANSFORMER[1], "batch": 8, "context": 1024, "vocabulary": 50304})  # 124M parameters, long attention
BF16 = {"precision": {"compute": "bfloat16"}}
MICROBATCHES = {**BF16, "accumulate": {"microbatch_size": 2}}  # 16 of 512 rows
OWN, FAST = "--blas=own", "--numerics=fast"  # as its peers round
ROWS = {"toy": (TOY, {}), "update": (UPDATE, {}), "shakespeare": ("samples/shakespeare/model.json", {}), "transformer": TRANSFORMER,  # document, constants,
        "gpt2-bf16": (*GPT2, BF16), "transformer-bf16": (*TRANSFORMER, BF16), "transformer-bf16-cublaslt": (*TRANSFORMER, BF16, "--blas=cublaslt"),  # keys beside, options
        "gpt2-bf16-fast": (*GPT2, BF16, FAST), "microbatches-bf16-fast": (*transformer(12, 768, 32, 256), MICROBATCHES, FAST),
        "products-bf16": (PRODUCTS, {}, BF16, OWN), "products-bf16-cublaslt": (PRODUCTS, {}, BF16, "--blas=cublaslt")}
WARPGROUPS = {name + "-sm_90a": name for name in ("transformer-bf16", "products-bf16")}  # beside sm_90: what has wgmma there
# Compared, not timed: by Adam all gradients change weights alike, wrong ones too, and those that are 0 but for rounding as much as others.
SGD = {"transformer-bf16-sgd": (*TRANSFORMER, {**BF16, "optimizer": {"type": "sgd", "learning_rate": 0.1}})}
COMPARED = {name + "-sm_90a": name for name in (*SGD, "products-bf16")}
MOVED = {"update": 24 << 26}  # bytes of a step, at least


def path_of(options, name):
    return os.path.join(options.into, "bench-%s.so" % name)


def names_for(arch):
    return [*ROWS, *([*SGD, *{**WARPGROUPS, **COMPARED}] if arch == "sm_90" else ())]


def pack(options):
    os.makedirs(options.into, exist_ok=True)
    names = [n for n in names_for(options.arch) if not options.only or n in options.only]
    for name in names:
        of = {**WARPGROUPS, **COMPARED}.get(name)
        document, values, *more = {**ROWS, **SGD}[of or name]
        arch = "sm_90a" if of else options.arch
        if isinstance(document, str):
            with open(os.path.join(ROOT, document), encoding="utf-8") as f:
                document = json.load(f)
        with tempfile.TemporaryDirectory(prefix="stepc-gpu-") as folder:
            path = runner.write_json(os.path.join(folder, "model.json"), {**document, **(more[0] if more else {})})
            runner.call(options.stepc, "compile", path, "-o", path_of(options, name), "--target=cuda", "--cuda-arch=" + arch,
                        *("-D%s=%s" % v for v in values.items()), *more[1:], verify=False)
    print("%d documents to time or compare packed for %s" % (len(names), options.arch))


def batch_of(m):
    """Tokens and labels are below 64, which all documents have; were they all the same, one block would add all rows of their gradient."""
    r = np.random.default_rng(0)
    out = {}
    for name, t in m._inputs.items():
        shape, dtype = t.shape[:t.rank], stepc._DTYPES[t.dtype]
        out[name] = r.standard_normal(shape).astype(dtype) if np.dtype(dtype).kind == "f" else r.integers(0, 64, shape).astype(dtype)
    return out


def copy_speed():
    """Bytes per second of a copy on the device (read and written), by the driver."""
    d = ctypes.CDLL(os.environ.get("STEPC_CUDA_DRIVER") or "libcuda.so.1")
    p, size = ctypes.c_void_p, ctypes.c_size_t(1 << 30)
    context, stream, a, b = p(), p(), p(), p()
    done = [d.cuInit(0), d.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), d.cuCtxPushCurrent_v2(context),
            d.cuStreamCreate(ctypes.byref(stream), 1), d.cuMemAlloc_v2(ctypes.byref(a), size), d.cuMemAlloc_v2(ctypes.byref(b), size)]
    best = 0.0
    for _ in range(7):
        begin = time.perf_counter()
        done += [d.cuMemcpyAsync(b, a, size, stream) for _ in range(10)] + [d.cuStreamSynchronize(stream)]
        best = max(best, 20 * size.value / (time.perf_counter() - begin))
    done += [d.cuMemFree_v2(a), d.cuMemFree_v2(b), d.cuStreamDestroy_v2(stream), d.cuCtxPopCurrent_v2(ctypes.byref(p())), d.cuDevicePrimaryCtxRelease_v2(0)]
    return None if any(done) else best


def measure(options, name, speed):
    """A row: best and median of rounds."""
    begin = time.perf_counter()
    with stepc.Step(path_of(options, name)) as m:
        m.init()
        batch, times = batch_of(m), []
        loss = m.step(**batch).loss
        first = time.perf_counter() - begin
        for _ in range(options.rounds):
            begin, n = time.perf_counter(), 0
            while n < 3 or time.perf_counter() - begin < options.seconds / options.rounds:
                m.step(**batch)
                n += 1
            times.append((time.perf_counter() - begin) / n)
        n = max(8, min(1000, int(options.seconds / options.rounds / min(times))))
        many, behind = {k: np.broadcast_to(v, (n, *v.shape)) for k, v in batch.items()}, []
        for _ in range(options.rounds):
            begin = time.perf_counter()
            m.step_n(n, **many)
            behind.append((time.perf_counter() - begin) / n)
        row = {"name": name, "best_us": 1e6 * min(times), "median_us": 1e6 * statistics.median(times), "step_n_us": 1e6 * min(behind),
               "create_to_first_step_s": first, "first_loss": loss, "peak_bytes": m.memory().measured_peak}
    if speed and name in MOVED:
        row["of_copy"] = MOVED[name] / min(times) / speed
    return row


def one(options):
    """What is measured as a line of JSON, the last one: of a document, or, without a name, of the copy."""
    print(json.dumps(measure(options, options.name, options.speed) if options.name else copy_speed()), flush=True)
    return 0


def apart(options, *more):
    """What `one` says, or (None, why it says nothing). A device that is lost to a process is lost to all that it does later."""
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "one", *more, "--into", options.into, "--rounds", str(options.rounds), "--seconds", str(options.seconds)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=options.patience)
    except subprocess.TimeoutExpired:
        return None, "no end after %g s" % options.patience
    if done.returncode:
        return None, (done.stderr.strip().split("\n")[-1] or "it says nothing") + " (ended with %d)" % done.returncode
    return json.loads(done.stdout.strip().split("\n")[-1]), None


def run(options):
    rows, missing, names, speed = [], 0, options.only or [*ROWS, *WARPGROUPS], None
    if set(names) & set(MOVED):
        speed, why = apart(options)
        missing += not speed
        print("copy on the device: %s" % ("%.0f GB/s" % (speed / 1e9) if speed else "failed%s" % (": " + why if why else "")), flush=True)
    for name in names:
        if not os.path.exists(path_of(options, name)):
            continue
        row, why = apart(options, name, *(["--speed", str(speed)] if speed else []))
        if not row:
            print("%s: %s" % (name, why), flush=True)
            missing += 1
            continue
        rows.append(row)
        print("%-23s best %10.1f us, median %10.1f us a step, %10.1f us of step_n; first step after %.2f s; loss %.6g%s" % (
            name, row["best_us"], row["median_us"], row["step_n_us"], row["create_to_first_step_s"], row["first_loss"],
            "; %.0f %% of a copy" % (100 * row["of_copy"]) if "of_copy" in row else ""), flush=True)
        if options.json:
            runner.write_json(options.json, {"device": play.device(), "copy": speed, "rows": rows})
    return missing > 0 or not rows


LIBRARIES = {  # what makes an array of the GPU
    "torch": lambda torch, a: torch.from_numpy(np.array(a)).cuda(),
    "cupy": lambda cupy, a: cupy.asarray(a),
    "jax": lambda jax, a: jax.device_put(a, jax.devices("gpu")[0]),
}


def steps_of(path, place, n=20):
    """Losses and weights of steps that are waited for, and of some one behind another."""
    with stepc.Step(path) as m:
        m.init()
        batch = batch_of(m)
        many = {k: np.random.default_rng(1).permuted(np.stack([v] * n), axis=1) for k, v in batch.items()}
        losses = [m.step(**{k: place(v) for k, v in batch.items()}).loss for _ in range(3)]
        losses += list(m.step_n(n, **{k: place(v) for k, v in many.items()}))
        return [np.array(losses), *(m[name] for name in m.names())]


def changes_of(path):
    """Losses of two steps, and what these change each weight by."""
    with stepc.Step(path) as m:
        m.init()
        before, batch = [m[name].astype("f8") for name in m.names()], batch_of(m)
        losses = [m.step(**batch).loss for _ in range(2)]
        return [np.array(losses), *(m[name] - old for name, old in zip(m.names(), before))]


def beside(options):
    """By what losses and changes of weights differ, of the largest number of a tensor."""
    differ = 0
    for name, plain in COMPARED.items():
        if not all(os.path.exists(path_of(options, n)) for n in (name, plain)):
            continue
        try:
            want, got = (changes_of(path_of(options, n)) for n in (plain, name))
            most = max(float(np.abs(a - b).max() / max(1e-30, np.abs(b).max())) for a, b in zip(got, want))
            print("%s: differs by %.2g of the largest number from %s, losses %s and %s" % (name, most, plain, got[0][:3], want[0][:3]), flush=True)
            differ += not most < 0.2  # rounding makes 0.03; what is not added or added twice about 1
        except Exception as e:
            print("%s: %s: %s" % (name, type(e).__name__, e), flush=True)
            differ += 1
    return differ > 0


def arrays(options):
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    differ = 0
    for name, make in LIBRARIES.items():
        if options.only and name not in options.only:
            continue
        try:
            library = importlib.import_module(name)
            make(library, np.zeros(1, "f4"))
        except Exception as e:
            print("%s: not here (%s)" % (name, str(e)[:100]), flush=True)
            continue
        try:
            own, theirs = (steps_of(path_of(options, "toy"), place) for place in (np.asarray, lambda a: make(library, a)))
            same = all(a.tobytes() == b.tobytes() for a, b in zip(own, theirs))
            print("%s: %s" % (name, "the same bits" if same else "other bits: %s, %s" % (own[0], theirs[0])), flush=True)
            differ += not same
        except Exception as e:
            print("%s: %s: %s" % (name, type(e).__name__, e), flush=True)
            differ += 1
    return differ > 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("pack", "run", "one", "beside", "arrays"))
    p.add_argument("name", nargs="?", default="")
    p.add_argument("--stepc", default="build/stepc")
    p.add_argument("--arch", default="sm_90")
    p.add_argument("--into", default=os.path.join(ROOT, "build", "gpu"))
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=3.0, help="for each document")
    p.add_argument("--speed", type=float, default=0, help="one: bytes per second of a copy")
    p.add_argument("--patience", type=float, default=60, help="run: seconds for each")
    p.add_argument("--json", help="a file for the rows")
    p.add_argument("--only", action="append", default=[])
    options = p.parse_args()
    options.stepc = os.path.abspath(options.stepc)
    return {"pack": pack, "run": run, "one": one, "beside": beside, "arrays": arrays}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
