#!/usr/bin/env python3
"""What a document says and nothing acts upon is told, at its place and with the name that was meant; what may be left over is not.

    tests/cli/idle.py STEPC
"""
import json
import os
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

SGD = {"type": "sgd", "learning_rate": 0.1}
LINEAR = {"type": "linear", "features": 4}
MESH = {"axes": {"data": 2}}
INPUTS = {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8], "dtype": "int32", "axes": ["batch"]}}


def document(**more):
    return {"stepc": 1, "name": "idle", "inputs": INPUTS,
            "model": {"type": "sequential", "input": "x", "layers": [dict(LINEAR, name="first"), {"type": "batch_norm", "name": "norm"}, dict(LINEAR, name="second")]},
            "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"}, "optimizer": SGD, **more}


def labels(**patterns):
    return document(optimizer={"type": "partition", "transforms": {"a": SGD, "b": {"type": "set_to_zero"}}, "labels": patterns})


def axes(*names, **more):
    return document(inputs={**INPUTS, "x": {"shape": [8, 4], "axes": list(names)}}, **more)


def rate(name, **arguments):
    return document(optimizer={**SGD, "learning_rate": {"type": name, **arguments}})


def graph(output, **more):
    return document(model={"type": "graph", "nodes": [dict(LINEAR, name="one", input="x"), dict(LINEAR, name="two", input="x")], "output": output}, **more)


def parts(count, **more):
    return document(accumulate={"microbatch_size": 4, "num_real_microbatches": count}, **more)


def defined(params, inputs, text):
    return document(define={"block": {"params": params, "inputs": inputs, "body": {"type": "expr", "expr": text}}},
                    model={"type": "sequential", "input": "x", "layers": [{"type": "block"}, LINEAR]})


def layer(**o):
    return document(inputs={**INPUTS, "x": {"shape": [8, 2, 4], "axes": ["batch", None, None]}},
                    model={"type": "sequential", "input": "x", "layers": [o, {"type": "expr", "expr": "mean(x, axis=1)"}, LINEAR]})


HIGHEST = "reshape(model, (1, 1, 1, 1, 1, 1, 1, -1))"
TOLD = [  # a document, the code, what is underlined, and what else is said
    (document(trainable="{first,secnod}.kernel"), "W0405", "secnod", 'did you mean "second"?'),
    (document(trainable=["first.**", "{second.{kernel,bais},first.bias}"]), "W0405", "bais", 'did you mean "bias"?'),
    (document(trainable='{"first",fir\\st,second}.kernel'), "W0405", r'\"first\"', ""),  # places of escaped text
    (document(trainable=["**.kernel", "norm.mean"]), "W0405", '"norm.mean"', "running statistics alone"),
    (document(mesh=MESH, sharding={"params": {"{first,thrid}.kernel": ["data"]}}), "W0405", "thrid", ""),
    (document(mesh=MESH, sharding={"params": {"*.kernel": ["data"], "first.kernel": [None, "data"]}}), "W0405", '"first.kernel"', '"*.kernel" stands here'),
    (document(mesh=MESH, sharding={"optimizer_state": {"**": [], "first.kernel": ["data"]}}, optimizer={"type": "adam", "learning_rate": 0.1}), "W0405", '"first.kernel"', '"**" stands here'),
    (document(adapters=[{"type": "lora", "rank": 2, "match": ["{first,third}"]}]), "W0405", "third", ""),
    (labels(**{"**.kernel": "a", "second.kernel": "b", "**": "b"}), "W0405", '"second.kernel"', '"**.kernel" stands here'),
    (labels(**{"{first,sceond}.kernel": "a", "**": "b"}), "W0405", "sceond", 'did you mean "second"?'),
    (labels(**{"**": "a"}), "W0409", '"b"', "has no parameter"),
    (document(trainable=["first.**"], ema={"decay": 0.5, "only": ["first.bias", "second.bias"]}), "W0405", '"second.bias"', "frozen parameters alone"),
    (document(trainable=["first.**"], optimizer={"type": "adamw", "learning_rate": 0.1, "mask": ["*.kernel", "second.**"]}), "W0405", '"second.**"', "frozen parameters alone"),
    (labels(**{"first.**": "a", "second.**": "b", "**": "b"}) | {"trainable": ["first.**", "norm.**"]}, "W0405", '"second.**"', "frozen parameters alone"),
    (document(mesh=MESH, sharding={"rules": [["embed", "data"]]}, model={"type": "sequential", "input": "x", "layers": [LINEAR, {"type": "sharding_constraint", "spec": [None, "embd"]}]}), "E0403", '"embd"', 'did you mean "embed"?'),
    (rate("polynomial_schedule", init_value=1, end_value=0.5, power=0.9, transition_steps=10), "W0410", "0.9", "NaN after 10 steps"),
    (layer(type="linear", features=4, use_bias=False, bias_init={"type": "ones"}), "W0407", '"bias_init"', '"use_bias" is false'),
    (layer(type="layer_norm", use_scale=False, scale_init={"type": "zeros"}), "W0407", '"scale_init"', '"use_scale" is false'),
    (layer(type="multi_head_attention", num_heads=2, use_bias=False, out_bias_init={"type": "ones"}), "W0407", '"out_bias_init"', '"use_bias" is false'),
    (axes("bacth", None), "W0403", '"bacth"', 'did you mean "batch"?'),
    (axes("batch", "embd", mesh=MESH, sharding={"rules": [["embed", "data"]]}), "W0403", '"embd"', 'did you mean "embed"?'),
    (document(mesh=MESH, sharding={"rules": [["bacth", "data"]]}), "W0403", '"bacth"', 'did you mean "batch"?'),
    (document(ema={"decay": 0.5, "only": []}), "W0405", "[]", "no parameter is averaged"),
    (parts(3), "W0432", "3", "the batch has 2 microbatches"),
    (parts("1 + n", constants={"n": 2}), "W0432", '"1 + n"', "the batch has 2 microbatches"),
    (parts(-1), "E0432", "-1", "expected a number of microbatches"),
    (parts("1 - n", constants={"n": 2}), "E0432", '"1 - n"', "expected a number of microbatches"),
    (document(accumulate={"microbatch_size": 4, "metrics": {"wide": "concat"}}, metrics={"wide": HIGHEST}), "E0432", '"%s"' % HIGHEST, "/metrics/wide"),
    (document(per_example={"metrics": {"wide": HIGHEST}}), "E0432", '"%s"' % HIGHEST, "/per_example/metrics/wide"),
    (document(constants={"model": 3}, metrics={"m": "2 * mean(model)"}), "W0110", "model", "the constant stands here"),
    (document(constants={"step": 3}, optimizer={"type": "sgd", "learning_rate": "0.1 / (1 + step)"}), "W0110", "step", "int32[] here, and not the constant"),
    (document(constants={"update": 3}, per_example={"transform": ["2 * update"]}), "W0110", "update", "and not the constant"),
    (document(constants={"params": 3}, metrics={"m": "params.first.kernel[0, 0]"}), "W0110", "params.first.kernel", "and not the constant"),
    (document(constants={"e": 3}, metrics={"m": "mean(model) * e"}), "W0110", "e", "is the constant here"),
    (document(constants={"True": 3}), "E0110", '"True"', ""),
    (document(constants={"hidden": 3, "used": 2}, metrics={"m": "used * mean(model)"}), "W0117", '"hidden"', "nothing mentions constant"),
    (document(inputs={**INPUTS, "z": {"shape": [8]}}), "W0117", '"z"', "nothing mentions input"),
    (document(define={"block": {"body": LINEAR}}), "W0117", '"block"', "nothing mentions definition"),
    (defined({"n": 2, "m": 3}, ["v"], "v * n"), "W0117", '"m"', 'parameter "m" in the definition "block"'),
    (defined({"n": 2}, ["v"], "x * n"), "W0117", '"v"', 'input "v" in the definition "block"'),
    (graph("one"), "W0117", '"two"', "nothing mentions node"),
]
FINE = [  # nothing is told
    layer(type="linear", features=4, use_bias=True, bias_init={"type": "ones"}), layer(type="multi_head_attention", num_heads=2, use_bias=False, out_bias_init=None),
    document(trainable=["{first,second}.{kernel,bias}", "**.{scale,bias}"]), document(trainable=["**", "first.**"]), labels(**{"first.**": "a", "{second,norm}.**": "b", "**": "a"}),
    axes("batch", "bacth_of_rows", mesh=MESH, sharding={"rules": [["bacth", "data"], ["batch", "data"]]}), axes("batch", "width"), axes("batch", "batches_of_rows"), axes("rows", None), parts(0), parts(2), parts("n", inputs={**INPUTS, "n": {"shape": [], "dtype": "int32"}}),
    document(constants={"grads": 4, "pi": 3.141592653589793}, metrics={"m": "mean(model) * pi"}, model={"type": "linear", "input": "x", "features": "$grads"}),
    document(constants={"p": 3, "u": 2}, model={"type": "sequential", "input": "x", "layers": [LINEAR, {"type": "linear", "features": "$p + u - 1"}, {"type": "residual", "layers": [{"type": "noise", "distribution": "bernoulli", "dtype": "float32"}]}]}),
    document(constants={"mu": 3, "v": 2}, metrics={"m": "mean(model) * mu * v"}, optimizer={"type": "custom", "slots": {"mu": {}}, "let": {"v": "0.9 * mu + g"}, "update": {"mu": "v", "g": "-0.1 * v"}}),
    document(constants={"n": 3}, define={"block": {"params": {"n": "$n"}, "inputs": ["v"], "body": {"type": "expr", "expr": "v * n"}}},
             model={"type": "sequential", "input": "x", "layers": [{"type": "block", "n": 2}, LINEAR]}),
    rate("polynomial_schedule", init_value=1, end_value=0.5, power=0.9, transition_steps=8), rate("polynomial_schedule", init_value=1, end_value=0.5, power=2.0, transition_steps=10),
    rate("polynomial_schedule", init_value=1, end_value=0.5, power=0.5, transition_steps=0), rate("linear_schedule", init_value=1, end_value=0.5, transition_steps=10),
    graph("one + two"), graph("one + two", constants={"one": 3}, metrics={"m": "mean(model)", "n": "one"}), graph("one", metrics={"m": "mean(params.two.kernel)"}), graph("one", loss="mean(model**2) + sum(y) + 0.1 * global_norm(params)"),
]


class Idle(runner.Case):
    def said(self, o):
        """The diagnostics of a document."""
        with open(self.write("model.json", json.dumps(o)), encoding="utf-8") as f:
            text = f.read()
        done = runner.attempt(self.program, "check", self.path("model.json"), "--diagnostics=json")
        return text, [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")], done.returncode

    def test_told(self):
        for o, code, underlined, more in TOLD:
            with self.subTest(document=json.dumps(o), code=code):
                text, said, status = self.said(o)
                found = [d for d in said if d["code"] == code]
                self.assertTrue(found, said)
                self.assertEqual(status, code[0] == "E", said)
                self.assertEqual({d["code"] for d in said}, {code}, said)
                span = found[0]["spans"][0]
                self.assertEqual(text[span["byte_start"]:span["byte_end"]], underlined)
                self.assertIn(more, found[0]["rendered"])

    def test_fine(self):
        for o in FINE:
            with self.subTest(document=json.dumps(o)):
                self.assertEqual(self.said(o)[1:], ([], 0))

    def test_errors_come_first(self):
        """Twenty diagnostics are shown: no warning takes the place of an error."""
        o = document(constants={"c%d" % i: i for i in range(30)}, trainable=["{%s,first}.kernel" % ",".join("n%d" % i for i in range(600))], optimizer={"type": "adamm", "learning_rate": 0.1})
        self.assertIn("E0400", self.said(o)[1][0]["code"])


if __name__ == "__main__":
    runner.main()
