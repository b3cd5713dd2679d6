#!/usr/bin/env python3
"""What it costs that a step may be refused: steps under the policies `stop` and `skip`, steps whose host is asked, and steps in two
calls (STEP_COMPUTE, then commit) against plain ones, rounds interleaved in one process on the same object. A ratio is the median
over the rounds of plain time / time (below 1: it costs). On a machine that does other work, too, --cpu-time counts only what
the caller's thread takes. README.md has the numbers.

    tests/bench/transaction.py [--stepc build/stepc] [--rounds N] [--threads N] [--cpu-time] [--json FILE] [WORKLOAD...]
"""
import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(ROOT, "samples"), os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "update")]
import stepc
import update

RATE = {"learning_rate": 1e-4}
ADAM, ADAMW, SGD, MOMENTUM = (dict(RATE, type="adam"), dict(RATE, type="adamw", weight_decay=0.1), dict(RATE, type="sgd"),
                              dict(RATE, type="sgd", momentum=0.9))
CLIP = {"type": "clip_by_global_norm", "max_norm": 1.0}
CLASSES = {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"}


def chain(*transforms):
    return {"type": "chain", "transforms": list(transforms)}


def mlp(width, batch, optimizer, layers=3, **more):
    hidden = [{"type": "linear", "features": width}, {"type": "relu"}] * (layers - 1)
    return dict({"stepc": 1, "inputs": {"x": {"shape": [batch, 784]}, "y": {"shape": [batch, 10]}},
                 "model": {"type": "sequential", "input": "x", "layers": hidden + [{"type": "linear", "features": 10}]},
                 "loss": "mean((model - y)**2)", "optimizer": optimizer}, **more)


def cookbook():
    with open(os.path.join(ROOT, "samples", "cookbook", "model.json")) as f:
        return json.load(f)


def lstm(optimizer):
    return {"stepc": 1, "inputs": {"x": {"shape": [16, 32], "dtype": "int32"}, "y": {"shape": [16, 32], "dtype": "int32"}},
            "model": {"type": "sequential", "input": "x", "layers": [
                {"type": "embed", "num_embeddings": 64, "features": 128}, {"type": "rnn", "cell": {"type": "lstm_cell", "hidden_features": 128}},
                {"type": "linear", "features": 64}]}, "loss": CLASSES, "optimizer": optimizer}


def workloads(options):
    def template(name):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.json")
            subprocess.run([options.stepc, "init", name, path], check=True, capture_output=True)
            with open(path) as f:
                return json.load(f)
    wide = lambda optimizer, **more: mlp(options.width, options.batch, optimizer, **more)
    every = lambda n: {"type": "multi_steps", "opt": ADAMW, "every_k_schedule": n}
    return {
        "toy": cookbook, "mlp_sgd": lambda: wide(SGD), "mlp_momentum": lambda: wide(MOMENTUM), "mlp_adam": lambda: wide(ADAM),
        "mlp_adamw": lambda: wide(ADAMW), "mlp_clip": lambda: wide(chain(CLIP, ADAMW), ema={"decay": 0.99}),
        "mlp_deep_clip_momentum": lambda: mlp(128, 64, chain(CLIP, MOMENTUM), layers=10),
        "mlp_deep_momentum_clip": lambda: mlp(128, 64, chain({"type": "trace", "decay": 0.9}, CLIP, dict(RATE, type="scale_by_learning_rate")), layers=10),
        "mlp_small": lambda: mlp(64, 64, ADAM), "mlp_large": lambda: mlp(2048, 64, ADAM), "mlp_batch_256": lambda: mlp(512, 256, ADAM),
        "cnn": lambda: template("cnn"), "gpt2": lambda: template("gpt2"), "llama": lambda: template("llama"), "lora": lambda: template("lora"),
        "lstm": lambda: lstm(ADAM), "microbatches": lambda: template("microbatches"),
        "mlp_lamb": lambda: wide(dict(RATE, type="lamb")), "mlp_multi_steps": lambda: wide(every(4)),
        "mlp_inject": lambda: wide({"type": "inject_hyperparams", "opt": ADAMW}),
        "mlp_schedule_free": lambda: wide({"type": "schedule_free_adamw", **RATE}), "mlp_yogi": lambda: wide(dict(RATE, type="yogi")),
        "mlp_adadelta": lambda: wide(dict(RATE, type="adadelta")), "mlp_radam": lambda: wide(dict(RATE, type="radam")),
        "mlp_float16": lambda: wide(ADAM, precision={"compute": "float16", "loss_scale": {"type": "dynamic_scale"}}),
        "mlp_bfloat16": lambda: wide(ADAM, precision={"compute": "bfloat16"}),
        "mlp_rmsprop_centered": lambda: wide(dict(RATE, type="rmsprop", centered=True)),
        "mlp_stddev": lambda: wide(chain({"type": "scale_by_stddev"}, dict(RATE, type="scale_by_learning_rate"))),
        "mlp_normalize": lambda: wide(chain({"type": "normalize_by_update_norm"}, MOMENTUM)),
        "mlp_madgrad": lambda: wide(dict(RATE, type="madgrad")),
        "mlp_noisy": lambda: wide(dict(RATE, type="noisy_sgd")),
        "mlp_prodigy": lambda: wide({"type": "prodigy"}), "mlp_cocob": lambda: wide({"type": "cocob"}),
        "mlp_momo": lambda: wide({"type": "momo"}), "mlp_momo_adam": lambda: wide({"type": "momo_adam"}),
        "mlp_dowg": lambda: wide({"type": "dowg"}),
    }


def optimizers(options):
    """Every row of the table of optimizers, with what it needs; what makes no small step itself is made to."""
    small = {"type": "scale", "step_size": -1e-6}
    with open(update.TABLE) as f:
        rows = re.findall(r"^(FORMULA|TRANSFORM|ALIAS)\((\w+),", f.read(), re.M)
    for kind, name in rows:
        if name not in update.WRAPPERS:
            own = update.ARGUMENTS.get(name, {})
            rows = [dict(more, type=name) for more in (dict(own, **RATE), own)]
            yield name, [mlp(options.width, options.batch, row if kind == "ALIAS" else chain(row, small)) for row in rows]


def compiles(options, document):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        with open(path, "w") as f:
            json.dump(document, f)
        return subprocess.run([options.stepc, "check", path], capture_output=True).returncode == 0


def measure(options, document, library):
    with tempfile.TemporaryDirectory() as folder:
        model, so = os.path.join(folder, "model.json"), os.path.join(folder, "step.so")
        with open(model, "w") as f:
            json.dump(document, f)
        subprocess.run([options.stepc, "compile", "-q", model, "-o", so, *options.compile], check=True)
        late = json.loads(subprocess.run([options.stepc, "explain", so, "--json"], capture_output=True, check=True).stdout).get("late")
        m = stepc.Step(so, threads=options.threads)
        object_file = ctypes.CDLL(so)
    m.init()
    rng, keep = np.random.default_rng(0), []
    object_file.step_query.restype = ctypes.POINTER(stepc._Api)
    table = object_file.step_query(ctypes.c_uint32(1), ctypes.c_uint32(2)).contents
    data = {n: rng.integers(0, 8, t.shape[:t.rank]).astype("i4") if stepc._DTYPES[t.dtype] == np.int32 else rng.standard_normal(t.shape[:t.rank]).astype("f4")
            for n, t in m._inputs.items()}
    batches = {kind: m._batch(data, keep) for kind in ("plain", "stop", "skip", "accept", "commit")}
    batches["stop"].flags, batches["skip"].flags, batches["commit"].flags = 1, 2, 4
    batches["accept"].accept = ctypes.cast(library.transaction_accept, ctypes.c_void_p)
    batches["accept"].user = 1

    def timed(kind, steps):
        seconds = library.transaction_run(table.step, table.commit, m._instance, ctypes.byref(batches[kind]), steps, int(options.cpu_time))
        if seconds < 0:
            raise stepc.StepError(0, "%s: %s" % (kind, m._last_error(m._instance).decode()))
        return seconds / steps
    for kind in batches:
        timed(kind, 2)
    steps = max(1, int(options.seconds / timed("plain", 2)))
    times = {kind: [] for kind in batches}
    for turn in range(options.rounds + 2):
        for kind in list(batches)[turn % 5:] + list(batches)[:turn % 5]:
            timed(kind, 1 + steps // 4)  # as it is in a training: the step before was of the same kind
            times[kind] += [timed(kind, steps)] if turn > 1 else []
    m.close()
    plain = np.array(times.pop("plain"))
    out = {"us": float(np.median(plain) * 1e6), "late": bool(late)}
    for kind, t in times.items():
        ratio = plain / np.array(t)
        out[kind] = {"ratio": float(np.median(ratio)), "quartiles": [float(q) for q in np.percentile(ratio, [25, 75])],
                     "best": float(plain.min() / np.min(t))}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepc", default=os.path.join(ROOT, "build", "stepc"))
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.03, help="about as long are steps measured at a time")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--width", type=int, default=512, help="of most of the networks; with 4096 and few rows memory counts")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--compile", action="append", default=[], help="an argument of `stepc compile`")
    parser.add_argument("--optimizers", action="store_true", help="workloads are rows of the table of optimizers; all that need no more than a rate")
    parser.add_argument("workloads", nargs="*", default=[])
    options = parser.parse_args()
    results, table = {}, workloads(options)
    if options.optimizers:
        tried = {n: [d for d in documents if compiles(options, d)] for n, documents in optimizers(options)}
        table = {n: (lambda d=d[0]: d) for n, d in tried.items() if d}
        print("left out: %s" % " ".join(n for n in tried if n not in table))
    with tempfile.TemporaryDirectory() as folder:
        so = os.path.join(folder, "transaction.so")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-I" + os.path.join(ROOT, "runtime", "include"), os.path.join(HERE, "transaction.c"), "-o", so], check=True)
        library = ctypes.CDLL(so)
    library.transaction_run.restype = ctypes.c_double
    library.transaction_run.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int, ctypes.c_int]
    for name in options.workloads or table:
        try:
            r = results[name] = measure(options, table[name](), library)
        except stepc.StepError as e:
            print("%-24s %s" % (name, e), flush=True)
            continue
        kinds = [k for k in r if isinstance(r[k], dict)]
        print("%-24s %9.2f us %-5s %s" % (name, r["us"], "late" if r["late"] else "", "; ".join(
            "%s %.3f (%.3f to %.3f)" % (k, r[k]["ratio"], *r[k]["quartiles"]) for k in kinds)), flush=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
