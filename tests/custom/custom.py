#!/usr/bin/env python3
"""Transformations that a document writes itself.

pairs/*.json hold an optimizer that is built in and the same one written as `custom`; both train the same model, and the
results must agree bit by bit, interpreted and compiled: the expressions of a document mean what the formulas of
frontend/optim/optimizers.step mean, which other code reads and runs, and what the rules in C compute. errors/*.json hold mistakes and what has to be said about them.
Every document in frontend/optim/CUSTOM.md compiles and runs.

usage: custom.py STEPC [NAME...]
"""
import json
import os
import re
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import ROOT, runner, safetensors

STEPS = 9
DOCUMENT = {
    "stepc": 1, "name": "custom",
    "inputs": {"x": {"shape": [8, 3], "axes": ["batch", None]}, "y": {"shape": [8, 2], "axes": ["batch", None]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "features": 5}, {"type": "tanh"}, {"type": "layer_norm"}, {"type": "linear", "features": 2}]},
    "loss": "mean((model - y)**2)", "seed": 3}


class Custom(runner.Case):
    def trained(self, name, optimizer, compiled, settings, *more):
        model = self.write(name + ".json", dict(DOCUMENT, optimizer=optimizer))
        if compiled:
            self.stepc("compile", model, "-o", self.path("step.so"))
            model = self.path("step.so")
        arguments = [a for s in settings for a in ("--set", s)]
        out = self.path(name + ".safetensors")
        self.stepc("run", model, "--steps", str(STEPS), "--data", self.path("data.safetensors"), "--save", out, "--on-nonfinite", "continue", *arguments, *more)
        return safetensors.raw(out)

    def data(self):
        rng = np.random.default_rng(0)
        safetensors.write(self.path("data.safetensors"), {"x": np.float32(rng.normal(size=(STEPS, 8, 3))), "y": np.float32(rng.normal(size=(STEPS, 8, 2)))})

    def test_pairs(self):
        self.data()
        names = sorted(os.listdir(os.path.join(HERE, "pairs")))
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            with open(os.path.join(HERE, "pairs", name)) as f:
                pair = json.load(f)
            for compiled in (False, True):
                with self.subTest(name, compiled=compiled):
                    settings = pair.get("set", [])
                    want = self.trained("built_in", pair["built_in"], compiled, settings)
                    got = self.trained("custom", pair["custom"], compiled, settings)
                    untrained = self.trained("untrained", {"type": "set_to_zero"}, False, [])
                    self.assertEqual(sorted(got), sorted(want))
                    for tensor in want:
                        self.assertNotEqual(want[tensor], untrained[tensor], tensor)
                        a, b = (safetensors.array(t) for t in (got[tensor], want[tensor]))
                        self.assertEqual(got[tensor], want[tensor], "%s differs by %g" % (tensor, np.abs(a - b).max()))

    def test_inside_wrappers(self):
        """Adam written as custom behaves like Adam wherever it stands."""
        self.data()
        with open(os.path.join(HERE, "pairs", "injected.json")) as f:
            pair = json.load(f)
        adam, own = (dict(pair[k]["opt"], **more) for k, more in (("built_in", {"learning_rate": 0.01}), ("custom", {})))
        own["hyperparams"] = dict(own["hyperparams"], learning_rate=0.01)
        sgd = {"type": "sgd", "learning_rate": 0.1}
        wrappers = [
            lambda o: {"type": "named_chain", "transforms": {"a": {"type": "clip", "max_delta": 0.5}, "b": o}},
            lambda o: {"type": "masked", "mask": ["**.bias"], "inner": o},
            lambda o: {"type": "multi_steps", "opt": o, "every_k_schedule": 3},
            lambda o: {"type": "apply_if_finite", "inner": o, "max_consecutive_errors": 2},
            lambda o: {"type": "conditionally_transform", "inner": o, "should_transform_fn": "step % 2 == 0"},
            lambda o: {"type": "lookahead", "fast_optimizer": o, "sync_period": 3, "slow_step_size": 0.5, "reset_state": True},
            lambda o: {"type": "sam", "optimizer": o, "adv_optimizer": sgd, "opaque_mode": True},
            lambda o: {"type": "sam", "optimizer": o, "adv_optimizer": sgd},
            lambda o: {"type": "mechanize", "base_optimizer": o},
            lambda o: {"type": "schedule_free", "base_optimizer": o, "learning_rate": 0.01},
            lambda o: {"type": "flatten", "inner": o},
            lambda o: {"type": "selective_transform", "optimizer": o, "freeze_mask": ["**.scale"]},
            lambda o: {"type": "multi_optimizer", "optimizers": [{"match": ["**.kernel"], "opt": o}, {"match": ["**.bias"], "opt": sgd}]},
            lambda o: {"type": "inject_hyperparams", "opt": {"type": "chain", "transforms": [{"type": "clip", "max_delta": 0.5}, o]}},
        ]
        for i, wrap in enumerate(wrappers):
            with self.subTest(wrap(sgd)):
                compiled = i % 2 == 0
                self.assertEqual(self.trained("custom", wrap(own), compiled, []), self.trained("built_in", wrap(adam), compiled, []))

    def test_methods(self):
        """m.sum() is sum(m), also in what it says of m: one value per parameter, used, asks for the step."""
        self.data()
        optimizer = lambda g_mean, m_sum, step: {
            "type": "custom", "hyperparams": {"lr": 0.1}, "slots": {"m": {}, "t": {"per": "tree"}}, "let": {"z": g_mean, "own": "lr.astype('float32')"},
            "update": {"m": "g - z", "t": "tree_norm(%s)" % g_mean, "g": "-own * %s * (g - z + 0.1 * %s + t)" % (step, m_sum)}}
        trained = [self.trained("model", optimizer(*words), False, []) for words in
                   (("g.mean()", "m.sum()", "step.astype('float32')"), ("mean(g)", "sum(m)", "astype(step, 'float32')"))]
        self.assertEqual(*trained)

    def test_exchanged_slots(self):
        """Each becomes what the other was, also where the last kernel that reads one of them could store what the other becomes."""
        self.data()
        for let in ({}, {"m": "softmax(a * b, axis=-1)", "k": "m @ b"}, {"m": "softmax(a * b, axis=-1)", "k": "b.T @ m"}, {"m": "a * 2 + b", "k": "cumsum(m, axis=0)"}):
            for square in ({"a": "b", "b": "a"}, {"a": "b", "b": "a + 1"}):
                optimizer = {"type": "custom", "hyperparams": {"learning_rate": 0.1}, "slots": {"a": {"init": 1}, "b": {"init": 2}},
                             **({"let": let} if let else {}), "update": {"g": "-learning_rate * (g + 0.01 * %s)" % ("k" if let else "a"), **square}}
                document = dict(DOCUMENT, model={"type": "linear", "input": "x", "features": 3, "use_bias": False}, loss="mean(model**2)", optimizer=optimizer)
                model = self.write("exchange.json", document)
                self.stepc("compile", model, "-o", self.path("step.so"), "-q")
                self.stepc("check", model, "--against", self.path("step.so"), "--rtol", "1e-5")

    def test_on_two_devices(self):
        """Slots are split as their parameters are; the numbers do not depend on it beyond rounding."""
        self.data()
        with open(os.path.join(HERE, "pairs", "adafactor.json")) as f:
            pair = json.load(f)
        sharding = {"params": {"layers.0.kernel": [None, "d"], "layers.3.kernel": ["d"]}, "optimizer_state": {"**": ["d"]}}
        for optimizer in (pair["built_in"], pair["custom"]):
            saved = []
            for more in ({}, {"mesh": {"axes": {"d": 2}}, "sharding": sharding}):
                model = self.write("mesh.json", dict(DOCUMENT, optimizer=optimizer, **more))
                self.stepc("compile", model, "-o", self.path("step.so"))
                self.stepc("run", self.path("step.so"), "--steps", "5", "--data", self.path("data.safetensors"), "--save", self.path("mesh.safetensors"))
                saved.append(safetensors.raw(self.path("mesh.safetensors")))
            for name in saved[0]:
                a, b = (safetensors.array(s[name]) for s in saved)
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=name)

    def test_slots_of_own_shape_on_meshes(self):
        """`axes`, or extents that say which axis is meant; square and stacked slots; in any case the same numbers."""
        self.data()
        kernel = "rank == 2"
        own = {"type": "custom", "hyperparams": {"learning_rate": 0.05, "decay": 0.75},
               "slots": {"row": {"shape": "shape(p)[:1] if %s else None" % kernel},
                         "column": {"shape": "shape(p)[1:] if %s else None" % kernel, "axes": [1]},
                         "last": {"shape": "(2, shape(p)[0], shape(p)[1]) if %s else None" % kernel, "axes": "(None, 0, 1)"},
                         "turned": {"shape": "(shape(p)[1], shape(p)[0]) if %s else None" % kernel, "axes": [-1, 0]},
                         "table": {"shape": [4], "init": "1.5"}},
               "let": {"r": "decay * row + mean(g**2, axis=1) if %s else None" % kernel,
                       "c": "decay * column + mean(g**2, axis=0) if %s else None" % kernel,
                       "t": "decay * turned + transpose(g) if %s else None" % kernel,
                       "u": "(g / (1 + r[:, None] + c) + 0.1 * last[0] + 0.2 * last[1] + 0.1 * transpose(t)) if %s else g" % kernel},
               "update": {"row": "r", "column": "c", "turned": "t", "last": "stack([last[1], g]) if %s else None" % kernel,
                          "table": "concatenate([table[1:], reshape(mean(table) + mean(abs(g)), (1,))])",
                          "g": "-learning_rate * mean(table) * u"}}
        linear = {"type": "linear", "features": 6}
        model = {"type": "sequential", "input": "x", "layers": [linear, {"type": "tanh"}, linear, {"type": "linear", "features": 2}]}
        rules = {"rules": [["batch", "d"]], "params": {"layers.0.kernel": [None, "m"], "layers.2.kernel": ["d", "m"], "**": []}}
        saved = []
        for more in ({}, {"mesh": {"axes": {"d": 2, "m": 2}}, "sharding": rules}, {"mesh": {"axes": {"d": 1, "m": 3}}, "sharding": rules},
                     {"mesh": {"axes": {"d": 2, "m": 1}}, "sharding": dict(rules, optimizer_state={"**": ["d"]})}):
            document = self.write("mesh.json", dict(DOCUMENT, model=model, optimizer=own, **more))
            self.stepc("compile", document, "-o", self.path("step.so"))
            self.stepc("run", self.path("step.so"), "--steps", "6", "--data", self.path("data.safetensors"), "--all-state", "--save",
                       self.path("mesh.safetensors"))
            saved.append(safetensors.raw(self.path("mesh.safetensors")))
            for name in saved[0]:
                self.assertEqual(saved[0][name][:2], saved[-1][name][:2], name)
                if saved[0][name][0] == "F32":
                    a, b = (safetensors.array(s[name]) for s in (saved[0], saved[-1]))
                    np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=name)
            if len(saved) == 2:
                slots = {t["name"]: t for t in json.loads(self.stepc("explain", self.path("step.so"), "--state", "--json").stdout)["state"]}
                for name, sharding in (("row.layers.0.kernel", [[]]), ("column.layers.0.kernel", [["m"]]), ("turned.layers.0.kernel", [["m"], []]),
                                       ("row.layers.2.kernel", [[]]), ("column.layers.2.kernel", [["m"]]), ("last.layers.2.kernel", [[], ["d"], ["m"]]),
                                       ("turned.layers.2.kernel", [["m"], ["d"]]), ("last.layers.0.kernel", [[], [], ["m"]])):
                    self.assertEqual(slots["opt_state." + name]["sharding"], sharding, name)

    def test_errors(self):
        slot = lambda **settings: {"slots": {"d": settings}}
        own = {"update": {"d": "d", "g": "g + sum(d)"}}
        for custom, says in [
                ({"update": {"g": "-learning_rte * g"}, "hyperparams": {"learning_rate": 0.1}},
                 ["E0301", 'did you mean "learning_rate"?', "/optimizer/update/g"]),
                ({"update": {"g": "-0.1 * mu"}, "slots": {"mu": {}}}, ["E0451", 'slot "mu" never gets a new value', "/optimizer/slots/mu"]),
                ({"update": {"g": "-0.1 * g", "mu": "g"}, "slots": {"mu": {}}}, ["E0451", '"mu" is used nowhere', "/optimizer/slots/mu"]),
                ({"update": {"g": "g"}, "hyperparams": {"k": 1}}, ["E0451", '"k" is used nowhere', "/optimizer/hyperparams/k"]),
                ({"update": {"g": "g"}, "let": {"m": "g"}}, ["E0451", '"m" is used nowhere', "/optimizer/let/m"]),
                ({"update": {"g": "g * mu", "nu": "mu"}, "slots": {"mu": {}}}, ["E0107", "expected one of: g, mu", "/optimizer/update/nu"]),
                ({"update": {"mu": "g + mu"}, "slots": {"mu": {}}}, ["E0102", '"update" needs "g"', "/optimizer/update"]),
                ({"update": {"g": "g", "g2": "g2"}, "slots": {"g2": {}}, "let": {"g2": "g"}}, ["E0110", '"g2" is the name of a slot already', "/optimizer/let/g2"]),
                ({"update": {"g": "g * p"}, "let": {"p": "g"}}, ["E0110", '"p" has a meaning already', "/optimizer/let/p"]),
                ({"update": {"g": "g * a"}, "let": {"a": "b", "b": "g"}}, ["E0301", '"b" has no value yet', "/optimizer/let/a"]),
                ({"update": {"g": "g * d", "d": "d + sum(g**2)"}, **slot(per="tree")}, ["E0452", "tree_sum", "/optimizer/update/d"]),
                ({"update": {"g": "g * d", "d": "d + g.sum()"}, **slot(per="tree")}, ["E0452", "tree_sum", "/optimizer/update/d"]),
                ({"update": {"g": "g * a"}, "let": {"a": "b.sum()", "b": "g"}}, ["E0301", '"b" has no value yet', "/optimizer/let/a"]),
                ({"update": {"g": "g * d", "d": "d + tree_sum(g**2) * ones(2)"}, **slot(per="tree")}, ["E0452", "float32[2]", "/optimizer/update/d"]),
                ({"update": {"g": "g * d", "d": "d"}, **slot(per="tree", shape=[2])}, ["E0452", "scalar", "/optimizer/slots/d/shape"]),
                ({"update": {"g": "g * d", "d": "sum(g, axis=0)"}, **slot()}, ["E0452", 'slot "d" is float32[3, 5]', "layers.0.kernel", "/optimizer/update/d"]),
                ({"update": {"g": "g * d", "d": "d + 0.5"}, **slot(dtype="int32")}, ["E0452", "astype() converts", "/optimizer/update/d"]),
                ({"update": {"g": "g * d", "d": "d"}, **slot(dtype="float33")}, ["E0201", "bfloat16, float32, float64", "/optimizer/slots/d/dtype"]),
                ({"update": {"g": "g * d", "d": "d"}, **slot(inti=1)}, ["E0107", 'did you mean "init"?', "/optimizer/slots/d/inti"]),
                ({"update": {"g": "g * d", "d": "d"}, **slot(init="zeros(7)")}, ["E0452", "cannot begin with float32[7]", "/optimizer/slots/d/init"]),
                ({"update": {"g": "g * d", "d": "d"}, **slot(reduction_axis=-2)}, ["E0212", "axis -2", "of shape float32[5]", "/optimizer/slots/d/reduction_axis"]),
                ({"update": {"g": "g * d", "d": "d"}, **slot(reduction_axis=0, shape=[2])}, ["E0452", '"shape" already', "/optimizer/slots/d/reduction_axis"]),
                ({**own, **slot(shape=[2], axes=[0, None])}, ["E0310", "every dimension of float32[2]", "/optimizer/slots/d/axes"]),
                ({**own, **slot(shape=[2], axes=[0])}, ["E0310", "dimension 0 of the slot has 2 elements, axis 0 of the parameter has 3", "/optimizer/slots/d/axes"]),
                ({**own, **slot(shape=[2], axes=[0.5])}, ["E0310", "integers expected", "/optimizer/slots/d/axes"]),
                ({**own, **slot(shape=[2], axes=[5])}, ["E0212", "axis 5", "/optimizer/slots/d/axes"]),
                ({**own, **slot(axes=[0])}, ["E0452", 'those of a "shape"', "/optimizer/slots/d/axes"]),
                ({"update": {"g": "sum(g, axis=-1)"}}, ["E0452", "the update is float32[3, 5]", "/optimizer/update/g"]),
                ({"update": {"g": "g if sum(g) > 0 else p"}}, ["E0310", "use where()", "/optimizer/update/g"]),
                ({"update": {"g": "g if rank > 1"}}, ["E0305", '"else" expected', "/optimizer/update/g"]),
                ({"update": {"g": "g / tree_norm(2)"}}, ["E0310", "updates or params", "/optimizer/update/g"]),
                ({"update": {"g": "g / tree_vdot(g)"}}, ["E0312", "tree_vdot(x, y)", "/optimizer/update/g"]),
                ({"update": {"g": "g * k"}, "hyperparams": {"k": {"type": "cosine_decay"}}}, ["E0410", "cosine_decay", "/optimizer/hyperparams/k/type"]),
                ({"update": {"g": "g * value"}, "inside": "sam"}, ["E0429", '"sam" does not hand on', "/optimizer/optimizer/update/g"]),
        ]:
            with self.subTest(custom):
                inside, optimizer = custom.pop("inside", None), dict({"type": "custom"}, **custom)
                if inside:
                    optimizer = {"type": inside, "optimizer": optimizer, "adv_optimizer": {"type": "sgd", "learning_rate": 0.1}}
                model = self.write("model.json", dict(DOCUMENT, optimizer=optimizer))
                text = self.stepc("check", model, code=1).stderr
                self.assertRegex(text, r"^\S*model\.json:\d+:\d+: error")
                self.assertEqual(text.count("error["), 1, text)
                for part in says:
                    self.assertIn(part, text)

    def test_examples_of_the_page(self):
        """Complete documents and optimizers of the page that explains `custom`."""
        self.data()
        with open(os.path.join(ROOT, "frontend", "optim", "CUSTOM.md")) as f:
            blocks = re.findall(r"^```json\n(.*?)^```", f.read(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 4)
        for block in blocks:
            with self.subTest(block):
                given = json.loads(block)
                document = given if "stepc" in given else dict(DOCUMENT, optimizer=given)
                self.stepc("compile", self.write("page.json", document), "-o", self.path("page.so"))
                metrics = self.path("metrics.jsonl")
                self.stepc("run", self.path("page.so"), "--steps", str(STEPS), "--data", self.path("data.safetensors"), "--metrics", metrics)
                losses = [line["loss"] for line in runner.metrics(metrics)]
                self.assertEqual(len([x for x in losses if isinstance(x, float)]), STEPS)
                self.assertEqual(len(set(losses)), STEPS)

    def test_beside_other_mistakes(self):
        """Expressions that are not well-formed are found even where the model cannot be traced."""
        custom = {"type": "custom", "slots": {"m": {"init": "1 +"}}, "let": {"a": "g *"}, "update": {"m": "m)", "g": "a"}}
        model = dict(DOCUMENT, model={"type": "liner", "features": 2, "input": "x"}, optimizer={"type": "chain", "transforms": [custom]})
        text = self.stepc("check", self.write("model.json", model), code=1).stderr
        self.assertEqual(text.count("error[E0305]"), 3, text)

    def test_names_of_state(self):
        """A slot has the path that an NNX optimizer gives."""
        self.data()
        inner = {"type": "custom", "slots": {"mu": {}, "d": {"per": "tree", "init": 1}, "row": {"reduction_axis": "-1 if rank == 2 else None"}},
                 "let": {"rows": "mean(g**2, axis=-1) + row if rank == 2 else None"},
                 "update": {"mu": "g + mu * step", "d": "d + tree_norm(mu)", "row": "rows", "g": "-0.01 * mu * d"}}
        chain = {"type": "chain", "transforms": [{"type": "clip", "max_delta": 1.0}, inner]}
        saved = self.trained("state", chain, False, [], "--all-state")
        shapes = {name: t[1] for name, t in saved.items() if name.startswith("opt_state.")}
        self.assertEqual(shapes["opt_state.1.mu.layers.0.kernel"], [3, 5])
        self.assertEqual(shapes["opt_state.1.row.layers.0.kernel"], [3])
        self.assertEqual(shapes["opt_state.1.d"], [])
        self.assertEqual(shapes["opt_state.1.count"], [])
        self.assertNotIn("opt_state.1.row.layers.0.bias", shapes)
        self.assertEqual(len(shapes), 2 + 6 + 2)


if __name__ == "__main__":
    runner.main()
