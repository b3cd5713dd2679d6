#!/usr/bin/env python3
"""Memory and kernels of an object. Memory does not grow with the number of microbatches: what accumulation, gradients of
single examples, both in each other and micro_vmap need in every entry is the same however many microbatches of one size there are.
Inputs are memory of the host.
The entries of one object (step, eval, infer, init) share state, one block of temporaries and every kernel that they have in common.

    tests/cli/memory.py STEPC
"""
import json
import os
import sys
import tempfile

import numpy as np

STEPC = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../samples")]
import stepc
from tool import runner

CLIP = [{"type": "clip_by_global_norm", "max_norm": 1.0}]
LINEAR = {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 48}, {"type": "relu"}, {"type": "linear", "features": 8}]}
ROWS = {"type": "sequential", "input": "x", "layers": [
    {"type": "micro_vmap", "microbatch_size": 4, "accumulator": "sum",
     "block": {"type": "sequential", "layers": [{"type": "linear", "features": 32}, {"type": "expr", "expr": "sum(sin(x[:, None] * x), axis=0)"}]}}]}
ROWS1 = {"type": "sequential", "input": "x", "layers": [
    {"type": "micro_vmap", "block": {"type": "sequential", "layers": [{"type": "linear", "features": 32}, {"type": "expr", "expr": "sum(sin(x[:, None] * x), axis=0)"}]}}]}
NESTED = {"type": "sequential", "input": "x", "layers": [
    {"type": "expr", "expr": "reshape(x, (-1, 6, 4))"},
    {"type": "micro_vmap", "microbatch_size": 4, "accumulator": "mean", "block": {
        "type": "micro_vmap", "microbatch_size": 2, "accumulator": "sum", "block": {
            "type": "sequential", "layers": [{"type": "linear", "features": 5}, {"type": "expr", "expr": "sum(sin(x[:, None] * x), axis=0)"}]}}}]}
DRAWS = {"type": "sequential", "input": "x", "layers": [
    {"type": "linear", "features": 32}, {"type": "batch_norm"}, {"type": "dropout", "rate": 0.3}, {"type": "linear", "features": 8}]}
ATTENTION = {"type": "sequential", "input": "reshape(x, (-1, 6, 4))", "layers": [{"type": "multi_head_attention", "num_heads": 2}, {"type": "layer_norm"}]}
LSTM = {"type": "sequential", "input": "reshape(x, (-1, 6, 4))", "layers": [{"type": "rnn", "cell": {"type": "lstm_cell", "hidden_features": 8}}]}
FORMS = {
    "accumulate": (LINEAR, {"accumulate": {"microbatch_size": 4}}),
    "accumulate contiguous": (LINEAR, {"accumulate": {"microbatch_size": 4, "split": "contiguous", "accumulator": "running_mean"}}),
    "per_example": (LINEAR, {"per_example": {"microbatch_size": 4, "transform": CLIP}}),
    "per_example in accumulate": (LINEAR, {"per_example": {"microbatch_size": 2, "transform": CLIP}, "accumulate": {"microbatch_size": 4}}),
    "dpsgd": (LINEAR, {"optimizer": {"type": "dpsgd", "learning_rate": 0.1, "l2_norm_clip": 1, "noise_multiplier": 1, "seed": 1}}),
    "micro_vmap": (ROWS, {}),
    "micro_vmap in micro_vmap": (NESTED, {}),
    "micro_vmap in accumulate": (ROWS, {"accumulate": {"microbatch_size": 8}}),
    "micro_vmap in per_example in accumulate": (ROWS1, {"accumulate": {"microbatch_size": 8}, "per_example": {"microbatch_size": 2, "transform": CLIP}}),
    "statistics and dropout": (DRAWS, {"accumulate": {"microbatch_size": 4}, "ema": {"decay": 0.9}}),
    "statistics of examples": (DRAWS, {"per_example": {"microbatch_size": 4, "accumulator": "mean"}}),
    "metrics": (LINEAR, {"accumulate": {"microbatch_size": 4, "metrics": {"b": "running_mean"}}, "metrics": {"a": "mean(abs(model))", "b": "max(model)", "c": "global_norm(grads)", "d": "mean(model, axis=0)"}}),
    "metrics of examples": (LINEAR, {"per_example": {"microbatch_size": 4, "metrics": {"squares": {"expr": "grads.layers.0.kernel**2", "accumulator": "mean"}}}}),
    "weights, stopped early": (LINEAR, {"accumulate": {"microbatch_size": 4, "weight": "mean(x) > 0", "num_real_microbatches": "1 + (sum(x) > 0)"}}),
    "16 bits": (LINEAR, {"accumulate": {"microbatch_size": 4}, "precision": {"params": "bfloat16", "compute": "bfloat16", "loss_scale": {"type": "dynamic_scale"}}}),
    "multi_steps": (LINEAR, {"accumulate": {"microbatch_size": 4}, "optimizer": {"type": "multi_steps", "opt": {"type": "adam", "learning_rate": 0.1}, "every_k_schedule": 2}}),
    "lbfgs": (LINEAR, {"accumulate": {"microbatch_size": 4}, "optimizer": {"type": "lbfgs"}}),
    "sophia": (LINEAR, {"accumulate": {"microbatch_size": 4}, "optimizer": {"type": "sophia", "learning_rate": 0.1}}),
    "sam of examples": (LINEAR, {"per_example": {"microbatch_size": 4, "transform": CLIP}, "optimizer": {
        "type": "sam", "optimizer": {"type": "sgd", "learning_rate": 0.1}, "adv_optimizer": {"type": "sgd", "learning_rate": 0.1}, "opaque_mode": True}}),
    "attention": (ATTENTION, {"accumulate": {"microbatch_size": 4}}),
    "attention of examples": (ATTENTION, {"per_example": {"microbatch_size": 4, "transform": CLIP}}),
    "lstm": (LSTM, {"accumulate": {"microbatch_size": 4, "split": "contiguous"}}),
    "lstm of examples": (LSTM, {"per_example": {"microbatch_size": 2, "transform": CLIP}, "precision": {"compute": "bfloat16"}}),
    "on a mesh": (LSTM, {"accumulate": {"microbatch_size": 4}, "mesh": {"axes": {"data": 2}}, "sharding": {"rules": [["batch", "data"]], "params": {"**.kernel": ["data"], "**": []}}}),
}


def needs(name, model, more, rows):
    """Temporaries of the entries. Outputs, which have a row for every row of the batch, are made where the host reads them."""
    document = {"stepc": 1, "name": name, "inputs": {"x": {"shape": [rows, 24], "dtype": "float32"}}, "model": model,
                "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.1}, **more}
    with tempfile.TemporaryDirectory(prefix="stepc-memory-") as tmp:
        report = json.loads(runner.call(STEPC, "explain", runner.write_json(os.path.join(tmp, "model.json"), document), "--memory", "--json"))
    arenas = {e["name"]: e["memory"]["arena"] for e in report["entries"]}
    if "per_example" not in more and "accumulate" not in more:
        del arenas["infer"], arenas["eval"]
    return arenas


BLOCK = {"type": "residual", "layers": [{"type": "layer_norm"}, {"type": "multi_head_attention", "num_heads": 4, "is_causal": True},
                                        {"type": "linear", "features": 512}, {"type": "gelu"}, {"type": "linear", "features": 128}]}
DEEP = {"stepc": 1, "name": "deep", "inputs": {"x": {"shape": [8, 64, 128], "axes": ["batch", None, None]}},
        "model": {"type": "sequential", "input": "x", "layers": [{"type": "repeat", "count": 3, "block": BLOCK}]},
        "loss": "mean(model**2)", "optimizer": {"type": "adamw", "learning_rate": 0.001}, "ema": {"decay": 0.9}}
# An output that the loss has no use for needs more temporaries than a step.
WIDE = {"stepc": 1, "name": "wide", "inputs": {"x": {"shape": [512, 4], "axes": ["batch", None]}}, "accumulate": {"microbatch_size": 2},
        "model": {"type": "graph", "nodes": [{"name": "small", "type": "linear", "features": 4, "input": "x"},
                                             {"name": "wide", "type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 2048}, {"type": "linear", "features": 16}]}],
                  "output": {"small": "small", "wide": "wide"}},
        "loss": "mean(model.small**2)", "trainable": ["small.**"], "optimizer": {"type": "sgd", "learning_rate": 0.1}}


def shared(document, least, input_shape):
    """least: kernels that eval and step have in common."""
    with tempfile.TemporaryDirectory(prefix="stepc-shared-") as tmp:
        path, so = os.path.join(tmp, "model.json"), os.path.join(tmp, "step.so")
        runner.call(STEPC, "compile", runner.write_json(path, document), "-o", so, "--save-temps=" + tmp)
        report = json.loads(runner.call(STEPC, "explain", so, "--json"))
        text = runner.call(STEPC, "explain", so, "--memory")
        with open(os.path.join(tmp, "step.nests")) as f:
            nests = [n.split(": ", 1)[1] for n in f.read().split("kernel.")[1:]]
        size = os.path.getsize(so)
        with stepc.Step(so, threads=1) as m:
            m.init()
            x = np.ones(input_shape, "f4")
            before = m.eval(x=x).loss
            m.infer(x=x)
            m.infer("ema" if "ema" in document else "params", x=x)
            assert m.step(x=x).loss == before
            measured, planned = m.memory().measured_peak, m.memory().planned_peak
            state = sum(m[n].nbytes + 63 & -64 for role in (stepc.PARAM, stepc.EMA, stepc.OPT_STATE, stepc.STATE) for n in m.names(role))
    code = report["code"]
    arenas = {e["name"]: e["memory"]["arena"] if "memory" in e else e.get("arena", 0) for e in report["entries"]}
    if least:  # tables of commands are bytes, not pointers: 40 KiB of the 200 that a transformer of this kind takes (AVX-512
        # packs six operands apart that AVX2 does not, 4 KiB of commands)
        assert size < 208 * 1024, size
    assert len(set(nests)) == len(nests), "a kernel stands in the object twice"
    assert len(nests) == sum(own for _, own in code.values()), (len(nests), code)
    assert code["eval"][0] - code["eval"][1] >= least, code
    assert not least or code["infer"][1] == 0, code
    # Sizes of blocks are rounded up by a line and no more: state once, temporaries of the entry that needs most.
    assert planned == state + max(arenas.values()), (planned, state, arenas)
    assert planned <= measured <= planned + 4096, (planned, measured)
    assert "peak {:,} B".format(planned) in text and "one block of {:,} B".format(max(arenas.values())) in text, text
    return arenas


def main():
    wrong = 0
    arenas = shared(DEEP, 6, (8, 64, 128))
    assert arenas["eval"] < arenas["step"]
    arenas = shared(WIDE, 0, (512, 4))
    assert arenas["infer"] > arenas["step"], arenas
    for name, (model, more) in FORMS.items():
        arenas = [needs(name, model, more, rows) for rows in (32, 64, 256)]
        for entry in arenas[0]:
            bytes_of = [a[entry] for a in arenas]
            if len(set(bytes_of)) > 1:
                print("%s: temporaries of %s take %s B for 32, 64 and 256 rows" % (name, entry, ", ".join(map(str, bytes_of))))
                wrong += 1
    print("%d forms, %d grow" % (len(FORMS), wrong))
    return wrong != 0


sys.exit(main())
