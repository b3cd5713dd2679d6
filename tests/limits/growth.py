#!/usr/bin/env python3
"""Compiling takes time and memory that grow about as the document does: everything of which a document may hold many, n times and
4 n times. Four times as many may cost at most 7 times as much time and memory (16 times is what grows with the square), beyond
what the least document costs and 0.2 s and 24 MiB.

    tests/limits/growth.py STEPC [--full] [--verbose] [NAME...]      --full: to 3,000 of each; CTest runs it to 400
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

LINEAR = {"type": "linear", "features": 4}
TIMES, SECONDS, MEBI = 7, 0.2, 24


def document(layers=(LINEAR,), loss="mean(model**2)", **more):
    return {"stepc": 1, "name": "growth", "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}},
            "model": {"type": "sequential", "input": "x", "layers": list(layers)}, "loss": loss,
            "optimizer": {"type": "sgd", "learning_rate": 0.1}, **more}


def each(form, n, between=", "):
    return between.join(form.format(i=i, j=i % 4, k=i % 4 + 1, f=1 + i / 1024) for i in range(n))


def formula(text, form, between=", "):
    return lambda n: document(loss="mean(model) + mean(%s)" % (text % each(form, n, between)))


def layers(*block, **more):
    return lambda n: document([LINEAR, *block * n], **more)


def graph(node, output, first=LINEAR):
    def of(n):
        nodes = [{**first, "name": "n0", "input": "x"}] + [{**node(i), "name": "n%d" % i} for i in range(1, n)]
        return {**document(), "model": {"type": "graph", "nodes": nodes, "output": output(n)},
                "loss": "mean(model.a**2)" if isinstance(output(n), dict) else "mean(model**2)"}
    return of


def optimizer(make):
    return lambda n: document(optimizer=make(n))


def chain(link):
    return optimizer(lambda n: {"type": "chain", "transforms": [link(i) for i in range(n)] + [{"type": "sgd", "learning_rate": 0.1}]})


def defines(n):
    n = n // 5
    blocks = {"d%d" % i: {"body": {"type": "d%d" % (i - 1)}} for i in range(1, n)}
    return document([{"type": "d%d" % (n - 1)}], define={"d0": {"body": LINEAR}, **blocks})


def partition(n):
    labels = {"layers.%d.**" % i: "l%d" % i for i in range(n)}
    return document([LINEAR] * n, optimizer={"type": "partition", "transforms": {l: SGD for l in labels.values()}, "labels": labels})


def schedule(n):
    return document(optimizer={"type": "sgd", "learning_rate": {
        "type": "join_schedules", "boundaries": list(range(1, n)),
        "schedules": [{"type": "linear_schedule", "init_value": 0.1, "end_value": 1 / (i + 2), "transition_steps": 7} for i in range(n)]}})


def steps_of(n):
    return document(optimizer={"type": "sgd", "learning_rate": {
        "type": "piecewise_constant_schedule", "init_value": 0.1, "boundaries_and_scales": {str(i + 1): 1 - 1 / (i + 2) for i in range(n)}}})


SGD = {"type": "sgd", "learning_rate": 0.1}
MANY = {
    # functions with lists, sums and chains
    "concatenate": formula("sin(concatenate([%s]))", "model * {f}"),
    "concatenate, last": formula("sin(concatenate([%s], axis=1))", "model * {f}"),
    "concatenate, sizes": formula("sin(concatenate([%s], axis=1))", "model[:, {j}:] * {f}"),
    "concatenate slices": formula("sin(concatenate([%s], axis=1))", "model[:, {j}:{k}]"),
    "concatenate rows": formula("sin(concatenate([%s]))", "model[{j}:{k}]"),
    "stack": formula("sin(stack([%s]))", "model * {f}"),
    "stack, last": formula("sin(stack([%s], axis=-1))", "model * {f}"),
    "hstack of an input": formula("sin(hstack([%s]))", "x * {f}"),
    "array of numbers": formula("sin(array([%s]))", "{f}"),
    "array of values": formula("sin(array([%s]))", "sum(model * {f})"),
    "select": lambda n: document(loss="mean(select([%s], [%s]))" % (each("model > {f}", n), each("model * {f}", n))),
    "piecewise": lambda n: document(loss="mean(model * piecewise(model, [%s], [%s]))" % (each("model > {f}", n), each("{f}", n))),
    "choose": lambda n: document(loss="mean(model * choose(array(%d, dtype='int32'), [%s]))" % (n // 2, each("x * {f}", n))),
    "sum": formula("%s", "sin(model * {f})", " + "),
    "product": formula("%s", "cos(model / {f} / 1e4)", " * "),
    "and": formula("where(%s, model, 0)", "(model > {f})", " & "),
    "sums of squares": formula("%s", "mean((model * {f}) ** 2)", " + "),
    "block": lambda n: document(loss="mean(concatenate([concatenate([%s], axis=1), concatenate([%s], axis=1)]) ** 2)" % (
        each("model * {f}", n // 2), each("x * {f}", n // 2))),
    # layers one behind the other
    "linear": layers(LINEAR), "relu": layers(LINEAR, {"type": "relu"}), "layer_norm": layers({"type": "layer_norm"}),
    "batch_norm": layers({"type": "batch_norm"}), "dropout": layers({"type": "dropout", "rate": 0.1}),
    "expr": layers({"type": "expr", "expr": "sin(x) * 1.5"}), "where": layers({"type": "expr", "expr": "where(x > 0.1, x * 1.1, sin(x))"}),
    "rolls": layers({"type": "expr", "expr": "concatenate([x[1:], x[:1]])"}),
    "turns": layers({"type": "expr", "expr": "concatenate([x[:, 1:], x[:, :1]], axis=1)"}),
    "updates": layers({"type": "expr", "expr": "x.at[1:3].set(0.5)"}), "softmax": layers({"type": "expr", "expr": "softmax(x)"}),
    "cumsum": layers({"type": "expr", "expr": "cumsum(x, axis=0)"}), "sort": layers({"type": "expr", "expr": "sort(x, axis=0)"}),
    "take": layers({"type": "expr", "expr": "take(x, [1, 0, 2, 3, 4, 5, 6, 7], axis=0)"}),
    "residual": layers({"type": "residual", "layers": [LINEAR]}),
    "lora": layers(LINEAR, adapters=[{"type": "lora", "rank": 2, "match": ["**"]}]),
    "repeat": lambda n: document([{"type": "repeat", "count": n, "block": LINEAR}]),
    "define": defines,
    "attention": lambda n: {**document([{"type": "multi_head_attention", "num_heads": 2}] * (n // 8 + 1)),
                            "inputs": {"x": {"shape": [2, 8, 4], "axes": ["batch", None, None]}}},
    "conv": lambda n: {**document([{"type": "conv", "features": 4, "kernel_size": [3]}] * (n // 4 + 1)),
                       "inputs": {"x": {"shape": [2, 8, 4], "axes": ["batch", None, None]}}},
    "lstm": lambda n: {**document([{"type": "rnn", "cell": {"type": "lstm_cell", "hidden_features": 4}}] * (n // 8 + 1)),
                       "inputs": {"x": {"shape": [2, 8, 4], "axes": ["batch", None, None]}}},
    # graphs
    "graph, a chain": graph(lambda i: {**LINEAR, "input": "n%d" % (i - 1)}, lambda n: "n%d" % (n - 1)),
    "graph, a fan": graph(lambda i: {**LINEAR, "input": "n0"}, lambda n: each("n{i}", n, " + ")),
    "graph, all of all": graph(lambda i: {"type": "expr", "expr": "n%d + n%d * 0.5" % (i - 1, i // 2)}, lambda n: "n%d" % (n - 1)),
    "graph, outputs": graph(lambda i: {**LINEAR, "input": "n0"}, lambda n: {"a": "n0", **{"b%d" % i: "n%d" % i for i in range(n)}}),
    # the top level
    "inputs": lambda n: {**document(loss="mean(model) + " + each("mean(y{i} ** 2)", n, " + ")), "inputs": {
        "x": {"shape": [8, 4], "axes": ["batch", None]}, **{"y%d" % i: {"shape": [8]} for i in range(n)}}},
    "metrics": lambda n: document(metrics={"m%d" % i: "mean(model * %g)" % (1 + i / 1024) for i in range(n)}),
    "metrics, rows": lambda n: document(metrics={"m%d" % i: "max(sin(model * %g), axis=1)" % (1 + i / 1024) for i in range(n)}),
    "constants": lambda n: document(constants={"c%d" % i: i if i < 1 else "$c%d + 1" % (i - 1) for i in range(n)}, loss="mean(model**2) * c%d" % (n - 1)),
    "average": lambda n: document([LINEAR] * n, ema={"decay": 0.9, "only": ["layers.%d.**" % i for i in range(n)]}),
    "trainable": lambda n: document([LINEAR] * n, trainable=["layers.%d.**" % i for i in range(n)]),
    "accumulate": lambda n: document([LINEAR] * n, accumulate={"microbatch_size": 4}),
    "rules": lambda n: document([LINEAR] * n, mesh={"axes": {"data": 2}}, sharding={
        "rules": [["batch", "data"]], "params": {"layers.%d.kernel" % i: [None, None] for i in range(n)}}),
    # optimizers
    "adamw": lambda n: document([LINEAR] * n, optimizer={"type": "adamw", "learning_rate": 0.1, "mask": ["layers.%d.**" % i for i in range(n)]}),
    "clip": lambda n: document([LINEAR] * n, optimizer={"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0}, SGD]}),
    "chain of scale": chain(lambda i: {"type": "scale", "step_size": 1 + i / 1024}), "chain of adam": chain(lambda i: {"type": "scale_by_adam"}),
    "chain of clip": chain(lambda i: {"type": "clip_by_global_norm", "max_norm": 1 + i / 1024}),
    "partition": partition, "join_schedules": schedule, "piecewise_constant": steps_of,
    "lbfgs": optimizer(lambda n: {"type": "lbfgs", "memory_size": n // 8 + 1}),
    "muon": lambda n: document([LINEAR] * (n // 4 + 1), optimizer={"type": "muon", "learning_rate": 0.1}),
}


def spent(program, model, folder):
    """CPU seconds and MiB of compiling it, or what was said against it."""
    path = os.path.join(folder, "m.json")
    with open(path, "w") as f:
        json.dump(model, f)
    environment = {k: v for k, v in os.environ.items() if k != "STEPC_VERIFY_EACH"}
    with subprocess.Popen([program, "compile", path, "-o", path + ".so"], stderr=subprocess.PIPE, text=True, env=environment) as run:
        said = run.stderr.read()
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, said if run.returncode else ""


def lesser(was, now):
    return tuple(map(min, was, now)) if was and not was[2] and not now[2] else now


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stepc")
    parser.add_argument("names", nargs="*", help="all, if none is given")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    most = 3000 if options.full else 400
    failed = 0
    with tempfile.TemporaryDirectory(prefix="stepc-growth-") as folder:
        least = spent(options.stepc, document(), folder)
        for name in options.names or MANY:
            few = many = None
            for _ in range(5):  # machines have others to serve: of times and sizes, which they only add to, the least counts
                few, many = (lesser(was, spent(options.stepc, MANY[name](n), folder)) for was, n in ((few, most // 4), (many, most)))
                text = "%-22s %6.2f %6.2f s %6.0f %6.0f MiB" % (name, few[0], many[0], few[1], many[1])
                wrong = few[2] or many[2]
                slow = many[0] - least[0] > TIMES * max(few[0] - least[0], 0) + SECONDS
                large = many[1] - least[1] > TIMES * max(few[1] - least[1], 0) + MEBI
                if wrong or large or not slow:
                    break
                least = lesser(least, spent(options.stepc, document(), folder))
            if wrong or slow or large or options.verbose:
                print(text, "  refused: " + wrong.splitlines()[0][:150] if wrong else "", "  slow" * slow, "  large" * large, flush=True)
            failed += bool(wrong or slow or large)
    print("%d of %d grow as they should" % (len(options.names or MANY) - failed, len(options.names or MANY)))
    return failed != 0


sys.exit(main())
