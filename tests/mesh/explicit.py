#!/usr/bin/env python3
""""mode": "explicit": the programs of programs.py, and others, whose layouts all follow from what is given are compiled and give
the bits of the default mode; of the others the first message names the place and what could be said. Of the
operations, JAX's explicit mode (0.10.2) was asked the same one by one: it also refuses indices into a table that is not split,
plain slices, and joining with an operand that is not split, where the answer is forced here; and it takes a reshape that merges
a split inner dimension.

    tests/mesh/explicit.py --stepc build/stepc
"""
import argparse
import copy
import os
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from mesh import programs
from tool import comparison, runner

STEPS = 2
KNOWN = {d["name"]: d for d in programs.PROGRAMS}
TWICE = "would lie over \"%s\" along two dimensions"
SUMS = "%s sums over \"model\", which splits what it sums: how the result lies is not forced"


def expr(text, mesh=programs.GRID, spec=("batch", "model"), columns=16):
    """A model that ends with an expression of what lies so."""
    return programs.document("expression", mesh, {"x": programs.tensor(8, 16)}, [programs.linear("a", columns), programs.hold(*spec), programs.expr(text)], "mean(model**2)", {"**": []})


def linear(features, *layers, kernel):
    return programs.document("linear", programs.GRID, {"x": programs.tensor(8, 16)}, [programs.hold("batch", "model"), programs.linear("a", features), *layers], "mean(model**2)",
                             {"a.kernel": kernel, "**": []})


# What is refused: place of the first message, what it says, and what its hint offers.
REFUSED = [
    (linear(8, kernel=["model"]), "/model/layers/1", SUMS % "dot", '["data", null], [["data", "model"], null] or ["data", "model"]'),
    (linear(8, {"type": "gelu"}, programs.linear("b", 4), kernel=["model"]), "/model/layers/1", SUMS % "dot", "sharding_constraint behind it"),
    (linear(8, kernel=[None, "data"]), "/model/layers/1", TWICE % "data", '["data", null] or [null, "data"]'),
    (KNOWN["fsdp"], "/model/layers/0", TWICE % "data", '["data", null] or [null, "data"]'),
    (KNOWN["megatron_mlp"], "/model/layers/2", SUMS % "dot", '["data", null, null]'),
    (KNOWN["sequence"], "/model/layers/1/layers/0/layers/1", TWICE % "model", '["data", null, "model", null] or ["data", null, null, "model"]'),
    (KNOWN["vocabulary_embedding"], "/model/layers/0", SUMS % "take", '["data", null, null]'),
    (expr("x + transpose(x)", {"data": 2}, (None, "data"), 8), "/model/layers/2/expr", TWICE % "data", '["data", null] or [null, "data"]'),
    (expr("x.reshape(8, 2, 8)"), "/model/layers/2/expr", 'reshape needs dimension 1 of float32[8, 16] whole, and it lies over "model"', '["data", null]'),
]
HELD = programs.hold("batch", None, None)
ACCEPTED = [
    *[KNOWN[k] for k in ("data_parallel", "zero_1", "dot_relu_dot", "experts_capacity", "experts_all_to_all", "lstm", "microbatches", "convolution_space")],
    linear(8, programs.hold("batch", None), kernel=["model"]),
    linear(8, {"type": "gelu"}, programs.hold("batch", "model"), programs.linear("b", 4, use_bias=False), programs.hold("batch"), kernel=["model"]),
    KNOWN["megatron_mlp"] | {"model": {"type": "sequential", "input": "x", "layers": [*KNOWN["megatron_mlp"]["model"]["layers"], HELD]}},
    expr("max(x, axis=1) + x[:, ::-1].sum(axis=1)"),
]


def explicit(document):
    made = copy.deepcopy(document)
    made["sharding"]["mode"] = "explicit"
    return made


def train(options, folder, document, data):
    runner.write_document(folder, document, data)
    runner.compile_document(options.stepc, folder)
    return runner.train(options.stepc, folder, STEPS, "step.so")


def draw(r, i):
    """Few rows do; labels and tokens lie below 16."""
    shape = [STEPS, *i["shape"]]
    return r.integers(0, 16, shape).astype("i4") if i["dtype"] == "int32" else r.standard_normal(shape).astype("f4")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    options, wrong = p.parse_args(), []
    for document, place, said, offered in REFUSED:
        with tempfile.TemporaryDirectory(prefix="stepc-explicit-") as folder:
            path = runner.write_json(os.path.join(folder, "model.json"), explicit(document))
            done = runner.attempt(options.stepc, "check", path)
            first = done.stderr.split("error[")[1] if "error[" in done.stderr else done.stderr
            missing = [x for x in ("E0435]", said, "at %s\n" % place, offered) if x not in first]
            if done.returncode != 1 or missing:
                wrong.append("%s: exit %d, without %s: %s" % (document["name"], done.returncode, missing, done.stderr[:1500]))
    for document in ACCEPTED:
        r = np.random.default_rng(0)
        data = {k: draw(r, i) for k, i in document["inputs"].items()}
        with tempfile.TemporaryDirectory(prefix="stepc-explicit-") as folder:
            try:
                (got, ours), (want, lines) = train(options, folder, explicit(document), data), train(options, folder, document, data)
                comparison.all_agree(got, want)
                if ours != lines:
                    wrong.append("%s: %s, expected %s" % (document["name"], ours, lines))
            except (runner.Failed, comparison.Differs) as e:
                wrong.append("%s: %s" % (document["name"], str(e)[:1500]))
    print("\n".join(wrong) if wrong else "%d refused, %d accepted" % (len(REFUSED), len(ACCEPTED)))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
