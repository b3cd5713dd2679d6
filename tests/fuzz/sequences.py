#!/usr/bin/env python3
"""Random documents of the sizes at which passes change what is computed in which order: attention whose scores are never stored, logits and
losses in chunks of rows, loops over time whose products are merged and hoisted, large products in panels, what is made again (--remat,
--max-memory); with odd extents, extents of 1, 16-bit types, masks, dropout, sequences of several lengths, meshes and microbatches.
What an object computes must agree with the interpreter: metrics, parameters and their momentum after two steps.

    tests/fuzz/sequences.py --stepc build/stepc --cases 200 [--seed 1] [-v]

A case is its seed. What moves about as much if parameters change in their last bits says nothing of it (unsettled).
"""
import collections
import json
import os
import random
import re
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, comparison, runner, safetensors

TOLERANCE = {"float32": 3e-4, "bfloat16": 1e-1, "float16": 3e-2}
SHAKE = {"float32": 2e-7, "bfloat16": 4e-3, "float16": 5e-4}
INTEGER_LOSS = "softmax_cross_entropy_with_integer_labels"


def attention(r, length, width):
    heads = r.choice([h for h in (1, 2, 3, 4) if width % h == 0])
    out = {"type": "multi_head_attention", "num_heads": heads, "decode": False, "is_causal": r.random() < 0.5, "use_bias": r.random() < 0.5}
    if r.random() < 0.2:
        out["qkv_features"] = heads * r.choice((4, 5, 8, 12))
    if heads % 2 == 0 and r.random() < 0.3:
        out["num_kv_heads"] = r.choice((1, heads // 2))
    if r.random() < 0.2:
        out["normalize_qk"] = True
    if r.random() < 0.25:
        out.update(dropout_rate=0.25, broadcast_dropout=r.random() < 0.5)
    if r.random() < 0.3:
        out["mask"] = r.choice(("m[:, None, None, :]", "arange(%d)[:, None] - arange(%d)[None, :] < %d" % (length, length, r.randint(1, length)),
                                "(m[:, None, :, None] == m[:, None, None, :])"))
    return out


def mixing(r, length, width):
    """Attention as expressions write it."""
    depth = r.choice((4, 7, 8))
    project = [{"name": n, "type": "linear", "features": f, "input": "x"} for n, f in (("q", depth), ("k", depth), ("v", width))]
    index = "arange(%d)" % length
    scores = r.choice(("q @ swapaxes(k, -1, -2)", "q @ swapaxes(k, -1, -2) * 0.3", "einsum('btd,bsd->bts', q, k)", "swapaxes(k @ swapaxes(q, -1, -2), -1, -2)",
                       "einsum('btd,bsd->bts', q, k) - 0.05 * abs(%s[:, None] - %s[None, :])" % (index, index), "tanh(q @ swapaxes(k, -1, -2) / 5) * 5"))
    if r.random() < 0.5:
        scores = "where(%s, %s, %s)" % (r.choice(("%s[:, None] >= %s[None, :]" % (index, index), "m[:, None, :]", "logical_or(m[:, None, :], %s[:, None] == %s[None, :])" % (index, index),
                                                    "abs(%s[:, None] - %s[None, :]) < %d" % (index, index, r.randint(1, length)))), scores, r.choice(("-1e9", "-30.0", "-1e30")))
    weights = r.choice(("softmax(%s)", "softmax(%s)", "softmax(%s) * 0.9", "exp(log_softmax(%s))", "softmax(%s) * (%s[None, :] %% 3 != 1)" % ("%s", index), "sigmoid(%s) / %d" % ("%s", length)))
    if "%%" in weights:
        weights = weights.replace("%%", "%")
    weights = weights.replace("%s", scores, 1)
    weights = weights.replace("%%", "%")
    out = r.choice(("w @ v", "einsum('bts,bsd->btd', w, v)", "w @ v + mean(w) * 0.1", "w @ v + sum(w, axis=-1, keepdims=True)", "w @ v + swapaxes(w, -1, -2) @ v"))
    if r.random() < 0.6:
        return {"type": "graph", "nodes": [*project, {"name": "o", "type": "expr", "expr": out.replace("w", "(" + weights + ")"), "input": "x"}], "output": "o"}
    return {"type": "graph", "nodes": [*project, {"name": "w", "type": "expr", "expr": weights, "input": "x"}, {"name": "o", "type": "expr", "expr": out, "input": "x"}], "output": "o"}


def recurrent(r, length, top=True):
    cell = {"type": r.choice(("lstm_cell", "optimized_lstm_cell", "gru_cell", "simple_cell")), "hidden_features": r.choice((1, 5, 8, 16, 33))}
    if top and r.random() < 0.25:
        out = {"type": "bidirectional", "forward_rnn": recurrent(r, length, False), "backward_rnn": recurrent(r, length, False)}
        out["backward_rnn"]["cell"] = dict(cell)
        out["forward_rnn"]["cell"] = dict(cell)
        for k in ("reverse", "keep_order", "seq_lengths"):
            out["forward_rnn"].pop(k, None), out["backward_rnn"].pop(k, None)
        return out
    out = {"type": "rnn", "cell": cell}
    if r.random() < 0.3:
        out["reverse"] = True
        out["keep_order"] = r.random() < 0.6
    if r.random() < 0.3:
        out["unroll"] = r.choice((2, 3, 4))
    if top and r.random() < 0.3:
        out["seq_lengths"] = "n"
    return out


def document(seed):
    r = random.Random(seed)
    kind = r.choice(("attention", "attention", "written", "recurrent", "recurrent", "logits"))
    batch = r.choice((1, 2, 3, 4, 6, 8))
    length = r.choice((1, 2, 7, 12, 33)) if kind == "recurrent" else r.choice((64, 65, 96, 101, 128, 160)) if kind != "logits" else r.choice((1, 3, 16, 64))
    width = r.choice((12, 24, 32)) if kind != "recurrent" else r.choice((1, 3, 16, 20))
    vocabulary = r.choice((2, 17, 64, 251, 1000)) if kind == "logits" else r.choice((5, 16, 64))
    layers = []
    tokens = r.random() < 0.6
    if tokens:
        layers.append({"type": "embed", "num_embeddings": vocabulary, "features": width})
    for _ in range(r.choice((1, 1, 2))):
        inner = attention(r, length, width) if kind == "attention" else mixing(r, length, width) if kind == "written" else recurrent(r, length) if kind == "recurrent" else {"type": "linear", "features": r.choice((width, 3 * width))}
        if kind in ("attention", "written") and r.random() < 0.6:
            inner = {"type": "residual", "layers": ([{"type": r.choice(("layer_norm", "rms_norm"))}] if r.random() < 0.6 else []) + [inner]}
        if r.random() < 0.15:
            inner = {"type": "remat", "block": inner}
        layers.append(inner)
        if r.random() < 0.4:
            layers.append({"type": r.choice(("gelu", "tanh", "silu"))})
        if r.random() < 0.15:
            layers.append({"type": "dropout", "rate": 0.2})
        if r.random() < 0.3:
            layers.append({"type": "layer_norm"})
    if kind in ("attention", "written") and r.random() < 0.2:
        layers = [*layers[:tokens], {"type": "repeat", "count": r.choice((1, 2, 3)), "block": {"type": "residual", "layers": [attention(r, length, width)]}}]
    x = {"shape": [batch, length], "dtype": "int32"} if tokens else {"shape": [batch, length, width]}
    inputs = {"x": dict(x, axes=["batch"] + [None] * (len(x["shape"]) - 1))}
    axes = {"axes": ["batch", None]}
    text = r.random()
    metrics = {}
    if text < 0.6:
        head = {"type": "linear", "features": vocabulary, "use_bias": r.random() < 0.5}
        if tokens and r.random() < 0.2:
            layers += [{"type": "linear", "features": width}, {"type": "attend", "embedding": "layers.0"}]
        else:
            layers.append(head)
        inputs["y"] = {"shape": [batch, length], "dtype": "int32", **axes}
        base = {"type": INTEGER_LOSS, "logits": "model", "labels": "y"}
        pick = r.random()
        if pick < 0.35:
            loss = dict(base, reduction="mean")
        elif pick < 0.5:
            loss = dict(base, reduction="mean", where="m")
            inputs["m"] = {"shape": [batch, length], "dtype": "bool", **axes}
        else:
            each = "%s(model, y)" % INTEGER_LOSS
            loss = r.choice(("mean(%s)", "sum(%s) / 50", "mean(%s) + 1e-3 * mean(logsumexp(model, axis=-1)**2)", "mean(%s * (y %% 2 + 1))" % "%s",
                             "sum(mean(%s, axis=1)) * 0.2", "sum(max(%s, axis=1)) * 0.1", "log(sum(exp(%s)))", "mean(%s) * (1 + mean(model**2))")).replace("%%", "%").replace("%s", each)
        if r.random() < 0.4:
            metrics["accuracy"] = "mean(argmax(model, axis=-1) == y)" if r.random() < 0.3 else "mean(max(softmax(model), axis=-1))"
    else:
        inputs["y"] = {"shape": [batch, length, 1], "axes": ["batch", None, None]}
        loss = r.choice(("mean((model - y)**2)", "mean(tanh(model) * y)", "mean(abs(model - y)**1.5)", "mean(log(1 + (model - y)**2))"))
    whole = json.dumps([layers, loss])
    if '"m' in whole and "m[" in whole:
        inputs["m"] = {"shape": [batch, length], "dtype": "bool", **axes}
    if '"n"' in whole:
        inputs["n"] = {"shape": [batch], "dtype": "int32", "axes": ["batch"]}
    model = {"stepc": 1, "seed": seed, "inputs": inputs, "model": {"type": "sequential", "input": "x", "layers": layers}, "loss": loss,
             "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9}}
    if metrics:
        model["metrics"] = metrics
    dtype = r.choice(("float32",) * 6 + ("bfloat16", "float16"))
    if dtype != "float32":
        model["precision"] = {"compute": dtype}
    if r.random() < 0.25 and batch > 1:
        model["accumulate"] = {"microbatch_size": r.choice([b for b in range(1, batch) if batch % b == 0])}
    arguments = ["--cpu", r.choice(("x86-64-v2", "x86-64-v3", "native", "native")), r.choice(("-O0", "-O0", "-O2"))]
    if r.random() < 0.35:
        arguments += ["--remat", str(r.choice((1, 2, 3)))]
    if r.random() < 0.4 or kind == "logits":
        arguments += ["--chunk-rows", str(r.choice((1, 4, 7, 16, 64)))]
    if r.random() < 0.25 and batch % 2 == 0:
        arguments += ["--mesh", "data=2"]
    elif r.random() < 0.1:
        arguments += ["--numerics", "invariant"]
    return model, dtype, arguments, r.choice((1, 1, 3)), vocabulary


def data(model, vocabulary, seed):
    rng, out = np.random.default_rng(seed), {}
    for name, s in model["inputs"].items():
        shape = [2] + s["shape"]
        length = model["inputs"]["x"]["shape"][1]
        kind = s.get("dtype", "float32")
        out[name] = (rng.random(shape) < 0.7 if kind == "bool" else rng.integers(0, length + 1, shape).astype("i4") if name == "n" else
                     rng.integers(0, vocabulary, shape).astype("i4") if kind == "int32" else rng.standard_normal(shape).astype("f4"))
        if name == "m":
            out[name][..., 0] = True
    return out


def replaced(form, token):
    """The words of a form by what stands for them."""
    return re.sub(r"\b(%s)\b" % "|".join(token), lambda m: token[m.group(1)], form)


def trained(stepc, folder, what, threads=1):
    tensors, lines = runner.train(stepc, folder, 2, what, arguments=["--all-state"], threads=threads)
    return {**tensors, **{n: np.array(v) for n, v in runner.series(lines, lines[0]).items()}}


def shaken(stepc, folder, want, dtype):
    """By how much each result moves if parameters, which the interpreter has drawn, change in their last bits."""
    init = os.path.join(folder, "init.safetensors")
    runner.train(stepc, folder, 0)
    rng = np.random.default_rng(0)
    tensors = {n: (a * (1 + SHAKE[dtype] * rng.standard_normal(a.shape))).astype(a.dtype) if a.dtype.kind == "f" else a
               for n, a in safetensors.read(os.path.join(folder, "out.safetensors")).items()}
    safetensors.write(init, tensors)
    try:
        moved = trained(stepc, folder, "model.json")
    finally:
        os.remove(init)
    return {n: np.nanmax(np.abs(moved[n] - v), initial=0) for n, v in want.items()}


def judge(stepc, folder, model, given, dtype, arguments, threads):
    """What became of a document, and what there is to say about it."""
    runner.write_document(folder, model, given)
    try:
        runner.compile_document(stepc, folder, arguments)
    except runner.Failed as e:
        return "wrong" if e.code != 1 or "error[E09" in e.said else "refused", e.brief()
    try:
        want, got = trained(stepc, folder, "model.json"), trained(stepc, folder, "step.so", threads)
    except runner.Failed as e:
        return "wrong", e.brief()
    traces = [np.nanmax(np.abs(v), initial=0) for n, v in want.items() if ".trace." in n]
    for name, value in want.items():
        if name not in got:
            return "wrong", "%s is not there" % name
        most = np.nanmax(np.abs(value), initial=0)
        said = comparison.difference(got[name], value, atol=max(1e-9, TOLERANCE[dtype] * max(most, 0.03 * max(traces, default=1))))
        if said and np.nanmax(np.abs(got[name] - value)) > 8 * shaken(stepc, folder, want, dtype)[name]:
            return "wrong", name + said
        if said:
            return "unsettled", name + said
    return "agrees", None


def campaign(description, draw, **more):
    """Plays one seed after another. `draw` gives what judge asks of one: document, data, dtype, arguments to compile with, threads."""
    options = command.seeds(description, 20, **more)
    extra = getattr(options, "compile_args", "").split()
    found = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="stepc-seeds-") as folder:
        for seed in range(options.seed, options.seed + options.cases):
            model, given, dtype, arguments, threads = draw(seed)
            arguments = extra or arguments
            what, said = judge(options.stepc, folder, model, given, dtype, arguments, threads)
            found[what] += 1
            if what == "wrong" or options.v:
                print("seed %d %s: %s\n  %d threads, %s, %s" % (seed, what, said, threads, " ".join(arguments), json.dumps(model)), flush=True)
    few = found["agrees"] < options.cases * 0.6
    print("%d documents: %s%s" % (options.cases, ", ".join("%d %s" % (found[k], k) for k in ("agrees", "unsettled", "refused", "wrong")), "; too few agree" if few else ""))
    return found["wrong"] > 0 or few


def draw(seed):
    model, dtype, arguments, threads, vocabulary = document(seed)
    return model, data(model, vocabulary, seed), dtype, arguments, threads


if __name__ == "__main__":
    sys.exit(campaign(__doc__, draw))
