#!/usr/bin/env python3
"""--chunk-rows, --remat, --max-memory and "memory": a wide last projection with mask, label smoothing, z-loss and accuracy takes less in
chunks, also where rows are cut off behind it, blocks that are made again take less, the numbers stay, and what is allowed is kept to or
refused with what would fit. Without a norm of all gradients no more than one of them lives, whatever the optimizer asks of each.

usage: fit.py STEPC
"""
import json
import os
import re
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import comparison, runner

import numpy as np

B, T, V, D, LAYERS = 4, 32, 1024, 16, 4
BLOCK = {"type": "residual", "layers": [{"type": "layer_norm"}, {"type": "linear", "features": 4 * D}, {"type": "gelu"}, {"type": "linear", "features": D}]}
DOCUMENT = {
    "stepc": 1, "name": "masked", "constants": {"v": V},
    "inputs": {"x": {"shape": [B, T, D], "dtype": "float32", "axes": ["batch", None, None]},
               "labels": {"shape": [B, T], "dtype": "int32", "axes": ["batch", None]},
               "mask": {"shape": [B, T], "dtype": "float32", "axes": ["batch", None]}},
    "model": {"type": "sequential", "input": "x", "layers": [BLOCK] * LAYERS + [{"type": "linear", "features": V}]},
    "loss": "sum(mask * (softmax_cross_entropy(model, 0.9 * one_hot(labels, v) + 0.1 / v) + 1e-4 * logsumexp(model, axis=-1) ** 2)) / sum(mask)",
    "metrics": {"accuracy": "sum(mask * (argmax(model, axis=-1) == labels)) / sum(mask)"},
    "optimizer": {"type": "adam", "learning_rate": 1e-3}, "seed": 0}

SHIFTED = dict(DOCUMENT, loss="mean(softmax_cross_entropy_with_integer_labels(model[:, :-1], labels[:, 1:]))",
               metrics={"accuracy": "mean(argmax(model[:, :-1], axis=-1) == labels[:, 1:])"})
WIDE, DEEP = 640, 6


def one_gradient(stepc, tmp):
    """Updates come as soon as their gradients are there."""
    for optimizer, most in (("sgd", 1), ("adamw", 1), ("lamb", 1), ("lars", 1), ("adafactor", 1), ("fromage", 1), ("schedule_free_adamw", 1),
                            ({"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, {"type": "sgd", "learning_rate": 1e-3}]}, DEEP)):
        document = {"stepc": 1, "name": "deep", "inputs": {k: {"shape": [4, WIDE], "dtype": "float32", "axes": ["batch", None]} for k in ("x", "y")},
                    "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": WIDE}, {"type": "relu"}] * DEEP},
                    "loss": "mean((model - y) ** 2)", "seed": 0,
                    "optimizer": optimizer if isinstance(optimizer, dict) else {"type": optimizer, "learning_rate": 1e-3}}
        runner.write_document(tmp, document, {k: np.zeros((1, 4, WIDE), "f4") for k in ("x", "y")})
        text = runner.call(stepc, "explain", os.path.join(tmp, "model.json"), "--memory")
        need = int(re.search(r"temporaries need ([\d,]+) B", text).group(1).replace(",", ""))
        gradient = WIDE * WIDE * 4
        assert need <= (most + 0.5) * gradient and (most == 1 or need >= most * gradient), (optimizer, need, text)


# What a gelu makes takes 16 MB in each of four blocks.
TALL = {"stepc": 1, "name": "tall", "inputs": {"x": {"shape": [16384, D], "dtype": "float32", "axes": ["batch", None]}},
        "model": {"type": "sequential", "input": "x", "layers": [{"type": "residual", "layers": [
            {"type": "layer_norm"}, {"type": "linear", "features": 256}, {"type": "gelu"}, {"type": "linear", "features": D}]}] * 4},
        "loss": "mean((model - x) ** 2)", "optimizer": {"type": "sgd", "learning_rate": 1e-2}, "seed": 0}


BY_HAND = dict(DOCUMENT, model=dict(DOCUMENT["model"], layers=[{"type": "remat", "block": BLOCK}] * LAYERS + [{"type": "linear", "features": V}]))


def peak_of(text):
    return int(re.search(r"peak ([\d,]+) B", text).group(1).replace(",", ""))


def one_by_one(stepc, tmp):
    """On a GPU microbatches are made together, which takes more memory, unless that is limited."""
    document = dict(TALL, inputs={"x": {"shape": [64, D], "axes": ["batch", None]}}, loss="mean(model ** 2)", accumulate={"microbatch_size": 4})
    path = os.path.join(tmp, "model.json")
    with open(path, "w") as f:
        json.dump(document, f)

    def explained(*arguments):
        done = runner.attempt(stepc, "explain", path, "--target", "cuda", *arguments)
        assert done.returncode == 0, done
        return done.stdout, done.stderr

    text, _ = explained()
    peak = peak_of(text)
    assert "rounds   microbatches are made up to 16 at a time" in text, text
    assert json.loads(explained("--json")[0])["together"] == 16
    text, said = explained("--max-memory", str(peak - 1))
    assert peak_of(text) < peak and "up to 8 at a time" in text and "by microbatches that are made 8 at a time; a step computes" in said, (peak, text, said)
    peak = peak_of(explained("--max-memory", str(peak_of(text) - 1))[0])
    while peak:  # down to one by one
        text, said = explained("--max-memory", str(peak - 1))
        assert peak_of(text) < peak, (peak, text, said)
        peak = peak_of(text) if "rounds" in text else 0
    assert "by microbatches that are made one by one; a step computes" in said, said
    assert "rounds" not in runner.call(stepc, "explain", path)


def dumped(stepc, tmp):
    """Where that takes more than 8 GiB it is compared with microbatches that are made one by one; what --dump writes is what is taken."""
    rows = lambda *shape, **more: {"shape": [1024, *shape], "axes": ["batch"] + [None] * len(shape), **more}
    document = {"stepc": 1, "name": "table", "inputs": {"x": rows(64, 64), "ids": rows(dtype="int32")}, "accumulate": {"microbatch_size": 4},
                "model": {"type": "graph", "nodes": [{"type": "embed", "name": "table", "num_embeddings": 12000000, "features": 64, "input": "ids"},
                                                     {"type": "linear", "name": "line", "features": 64, "input": "x"}], "output": "line + table[:, None, :]"},
                "loss": "mean(model ** 2)", "optimizer": {"type": "adam", "learning_rate": 1e-3}}
    path = os.path.join(tmp, "model.json")
    with open(path, "w") as f:
        json.dump(document, f)
    peaks = []
    for text, *arguments in ((path, "--dump=memplan", "--dump-dir", tmp), (os.path.join(tmp, "23-memplan.sir"),), (path, "--disable", "together")):
        runner.call(stepc, "compile", text, "-q", "--target", "cuda", "--cuda-arch", "text", "-o", os.path.join(tmp, "step.so"), *arguments)
        peaks.append(peak_of(runner.call(stepc, "explain", os.path.join(tmp, "step.so"))))
    taken, again, apart = peaks
    assert taken == again > apart > 8 << 30, peaks


def main():
    stepc = sys.argv[1]
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((3, B, T, D), "f4"), "labels": rng.integers(0, V, (3, B, T)).astype("i4"),
            "mask": (rng.random((3, B, T)) < 0.8).astype("f4")}
    with tempfile.TemporaryDirectory(prefix="stepc-fit-") as tmp:
        def trained(*arguments, document=DOCUMENT, data=data):
            runner.write_document(tmp, document, data)
            said = runner.call(stepc, "compile", os.path.join(tmp, "model.json"), "-o", os.path.join(tmp, "step.so"), *arguments)
            text = runner.call(stepc, "explain", os.path.join(tmp, "step.so"), "--memory")
            peak = int(re.search(r"peak ([\d,]+) B", text).group(1).replace(",", ""))
            return peak, text, runner.train(stepc, tmp, 3, "step.so")

        whole, _, (weights, lines) = trained("--chunk-rows", "off")
        for arguments, most in ((("--chunk-rows", "16"), 0.6), (("--remat", "2", "--chunk-rows", "16"), 0.55), (("--max-memory", str(whole * 6 // 10)), 0.6)):
            peak, text, (got, other) = trained(*arguments)
            assert peak <= most * whole, (arguments, peak, whole)
            assert "rows: " in text, text
            comparison.all_agree(got, weights, rtol=1e-4, atol=1e-6)
            comparison.all_agree({k: np.array([l[k] for l in other]) for k in ("loss", "accuracy")},
                                 {k: np.array([l[k] for l in lines]) for k in ("loss", "accuracy")}, rtol=1e-5, atol=1e-6)
        whole, _, (weights, lines) = trained("--chunk-rows", "off", document=SHIFTED)
        peak, text, (got, other) = trained("--chunk-rows", "31", document=SHIFTED)
        assert peak <= 0.6 * whole and "4 of 31 rows" in text, (peak, whole, text)
        comparison.all_agree(got, weights, rtol=1e-4, atol=1e-6)
        comparison.all_agree({k: np.array([l[k] for l in other]) for k in ("loss", "accuracy")},
                             {k: np.array([l[k] for l in lines]) for k in ("loss", "accuracy")}, rtol=1e-5, atol=1e-6)
        whole, _, (weights, _) = trained("--chunk-rows", "16")
        peak, text, (got, _) = trained("--chunk-rows", "16", document=BY_HAND)
        assert peak <= 0.8 * whole and "%d blocks of the document" % LAYERS in text, (peak, whole, text)
        comparison.all_agree(got, weights, rtol=1e-5, atol=1e-7)
        assert "remat" not in trained("--chunk-rows", "16", "--remat", "0", document=BY_HAND)[1]
        _, text, _ = trained(document=dict(DOCUMENT, accumulate={"microbatch_size": 1}, loss="mean(model ** 2)", metrics={}))
        made = int(re.search(r" infer ([\d,]+) B", text).group(1).replace(",", ""))
        assert made < B * T * V * 4, text  # rows of an output are made where the host reads them
        one_gradient(stepc, tmp)
        rows = {"x": rng.standard_normal((3, 16384, D), "f4")}
        whole, _, (weights, _) = trained("--remat", "0", document=TALL, data=rows)
        peak, text, (got, _) = trained(document=TALL, data=rows)
        assert peak <= 0.55 * whole, (peak, whole, text)
        comparison.all_agree(got, weights, rtol=1e-5, atol=1e-7)
        whole, _, _ = trained("--chunk-rows", "off")
        assert trained(document=dict(DOCUMENT, memory={"max": "%d" % (whole * 6 // 10)}))[0] <= whole * 6 // 10
        for value, says in (("1KiB", r"E0501.*a step needs .* on one device, 1 KiB are allowed; with --chunk-rows \d+ --remat \d+ at the peak, command \d+ of \"\w+\".*hint: [\d.]+ KiB of it are state: a mesh"), ("much", "whole number of bytes")):
            done = runner.attempt(stepc, "compile", os.path.join(tmp, "model.json"), "-o", os.path.join(tmp, "none.so"), "--max-memory", value)
            assert done.returncode and re.search(says, done.stderr, re.S) and not os.path.exists(os.path.join(tmp, "none.so")), done
        one_by_one(stepc, tmp)
        dumped(stepc, tmp)
        halves = {"x": rng.standard_normal((2, 64, D), "f4")}
        for loss, kind, scaled in (("mean(model ** 2)", "mean", False), ("sum(model ** 2) / 1e4", "sum", False), ("sum(model ** 2) / 1e4", "mean", True), ("mean(model ** 2)", "sum", True)):
            document = dict(TALL, inputs={"x": {"shape": [64, D], "axes": ["batch", None]}}, loss=loss, accumulate={"microbatch_size": 32, "accumulator": kind})
            (_, _, (weights, _)), (most, _, _) = (trained(document=dict(document, accumulate=dict(document["accumulate"], microbatch_size=n)), data=halves) for n in (32, 2))
            fit = dict(document, memory={"max": str(most), "microbatches": True})
            runner.write_document(tmp, fit, halves)
            done = runner.attempt(stepc, "compile", os.path.join(tmp, "model.json"), "-o", os.path.join(tmp, "step.so"))
            assert bool(done.returncode) == scaled, (loss, kind, done)
            if scaled:
                assert re.search("E0501.*smaller microbatches would change what is trained: .* is no %s over rows" % kind, done.stderr, re.S), done
            else:
                comparison.all_agree(runner.train(stepc, tmp, 3, "step.so")[0], weights, rtol=1e-4, atol=1e-6)
    return 0


if __name__ == "__main__":
    sys.exit(main())
