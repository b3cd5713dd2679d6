#!/usr/bin/env python3
"""samples/import/nnx_to_stepc.py: documents that were made from Flax NNX modules and Optax transformations train to the losses that
Flax and Optax recorded. Where flax and optax are installed the modules are converted anew, and what is not covered is refused by name.

usage: nnx.py STEPC            (nnx.py --record [NAME...] writes tests/import/nnx; needs flax and optax)
"""
import json
import os
import shutil
import sys
import unittest
import unittest.mock

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "nnx")
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples", "import")]
try:
    import jax
    import jax.numpy as jnp
    from flax import nnx
    import jaxpr_text
    import nnx_cases
    import nnx_to_stepc
    import stepc_optax as optax
    MISSING = None
except ImportError as e:
    MISSING = e
import tensors
from tool import runner


def record(names):
    import flax
    for name, make in nnx_cases.CASES.items():
        if names and name not in names:
            continue
        shutil.rmtree(os.path.join(GOLDEN, name), ignore_errors=True)
        model, optimizer, inputs, loss = make()
        folder = os.path.join(GOLDEN, name)
        nnx_to_stepc.save(folder, *nnx_to_stepc.convert(model, optimizer, inputs, loss, name=name))
        tensors.write(os.path.join(folder, "data.safetensors"),
                      [(k, "I32" if v.dtype.kind == "i" else "F32", (1,) + v.shape, lambda v=v: v[None]) for k, v in inputs.items()])
        with open(os.path.join(folder, "expected.json"), "w") as f:
            json.dump({"flax": flax.__version__, "jax": jax.__version__, "losses": nnx_cases.losses(model, optimizer, inputs, loss)}, f)
            f.write("\n")


class Documents(runner.Case):
    def losses(self, model, init, data, steps):
        step, metrics = os.path.join(self.folder, "step.so"), os.path.join(self.folder, "metrics")
        for arguments in (["compile", model, "-o", step], ["run", step, "--steps", str(steps), "--init", init, "--data", data, "--metrics", metrics]):
            self.stepc(*arguments)
        return [line["loss"] for line in runner.metrics(metrics)]

    def test_recorded(self):
        for name in sorted(os.listdir(GOLDEN)):
            with self.subTest(name):
                at = lambda file: os.path.join(GOLDEN, name, file)
                with open(at("expected.json")) as f:
                    expected = json.load(f)["losses"]
                found = self.losses(at("model.json"), at("init.safetensors"), at("data.safetensors"), len(expected))
                np.testing.assert_allclose(found, expected, rtol=1e-4)


@unittest.skipIf(MISSING, "not installed: %s" % MISSING)
class Conversion(unittest.TestCase):
    def test_as_recorded(self):
        import flax
        for name, make in nnx_cases.CASES.items():
            with open(os.path.join(GOLDEN, name, "expected.json")) as f:
                recorded = json.load(f)
            if (flax.__version__, jax.__version__) != (recorded["flax"], recorded["jax"]):
                self.skipTest("recorded with flax %s and jax %s" % (recorded["flax"], recorded["jax"]))
            with self.subTest(name):
                model, optimizer, inputs, loss = make()
                document, weights = nnx_to_stepc.convert(model, optimizer, inputs, loss, name=name)
                with open(os.path.join(GOLDEN, name, "model.json")) as f:
                    self.assertEqual(json.loads(json.dumps(document)), json.load(f))
                init = tensors.open_model(os.path.join(GOLDEN, name, "init.safetensors"))
                self.assertEqual(sorted(init.names()), sorted(weights))
                for path, w in weights.items():
                    np.testing.assert_array_equal(init.array(path), w)

    def test_optimizers(self):
        tree = {"a": {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}}
        for made, expected in (
                (optax.sgd(0.1), {"type": "sgd", "learning_rate": 0.1}),
                (optax.adamw(learning_rate=np.float32(0.5), b2=0.95, mask={"a": {"kernel": True, "bias": False}}),
                 {"type": "adamw", "learning_rate": 0.5, "b2": 0.95, "mask": ["a.kernel"]}),
                (optax.chain(optax.clip(1.0), optax.scale_by_adam(), optax.scale_by_schedule(optax.cosine_decay_schedule(1.0, 10))),
                 {"type": "chain", "transforms": [{"type": "clip", "max_delta": 1.0}, {"type": "scale_by_adam"},
                                                  {"type": "scale_by_schedule", "step_size_fn": {"type": "cosine_decay_schedule", "init_value": 1.0, "decay_steps": 10}}]}),
                (optax.partition({"k": optax.adam(1e-3), "b": optax.set_to_zero()}, {"a": {"kernel": "k", "bias": "b"}}),
                 {"type": "partition", "transforms": {"k": {"type": "adam", "learning_rate": 1e-3}, "b": {"type": "set_to_zero"}},
                  "labels": {"a.bias": "b", "a.kernel": "k"}}),
                (optax.inject_hyperparams(optax.adam)(learning_rate=0.1, b1=0.8),
                 {"type": "inject_hyperparams", "opt": {"type": "adam", "learning_rate": 0.1, "b1": 0.8}}),
                (optax.MultiSteps(optax.lion(1e-4), every_k_schedule=4), {"type": "multi_steps", "opt": {"type": "lion", "learning_rate": 1e-4}, "every_k_schedule": 4}),
                (optax.MultiSteps(optax.sgd(0.1), lambda step: jnp.where(step < 3, 1, 2), should_skip_update_fn=optax.skip_not_finite),
                 {"type": "multi_steps", "opt": {"type": "sgd", "learning_rate": 0.1}, "every_k_schedule": "where((gradient_step < 3), 1, 2)",
                  "should_skip_update_fn": {"type": "skip_not_finite"}}),
                (optax.conditionally_mask(optax.sgd(0.1), lambda step: step > 2),
                 {"type": "conditionally_mask", "inner": {"type": "sgd", "learning_rate": 0.1}, "should_transform_fn": "(step > 2)"}),
                (optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(3)), optax.transforms.snapshot("n", optax.global_norm)),
                 {"type": "chain", "transforms": [{"type": "add_noise", "eta": 0.1, "gamma": 0.5, "key": 3},
                                                  {"type": "snapshot", "measure_name": "n", "measure": "global_norm(updates)"}]}),
                (optax.contrib.prodigy(0.5), {"type": "prodigy", "learning_rate": 0.5})):
            self.assertEqual(optax.settled(made.document, tree), expected)
            updates, _ = made.update(tree, made.init(tree), tree)  # it works as Optax's does
            self.assertEqual(jax.tree_util.tree_structure(updates), jax.tree_util.tree_structure(tree))

    def refused(self, words, act, *more):
        with self.assertRaises(nnx_to_stepc.NotCovered) as caught:
            act(*more)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_compared(self):
        """Inputs of every dtype are held against the module, where there is a step to compare."""
        for dtype in (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.bool_, np.float16, jnp.bfloat16):
            x = {"x": np.asarray([[1, 0, 1, 1]] * 2, dtype)}
            document, _ = nnx_to_stepc.convert(nnx.Linear(4, 3, rngs=nnx.Rngs(0)), optax.sgd(0.1), x, lambda out, x: jnp.mean(out**2), lambda model, x: model(x.astype(jnp.float32)),
                                               stepc=runner.Case.program)
            self.assertEqual(document["inputs"]["x"]["dtype"], np.dtype(dtype).name)

    def test_refused(self):
        import optax as plain
        x = {"x": np.ones((2, 4), np.float32)}
        convert = lambda model, optimizer=None, call=None: nnx_to_stepc.convert(model, optimizer or optax.sgd(0.1), x, "mean(model)", call)
        linear = lambda **more: nnx.Linear(4, 4, rngs=nnx.Rngs(0), **more)
        self.refused(["stepc_optax"], convert, linear(), plain.sgd(0.1))
        self.refused(["stepc_optax"], optax.chain, plain.sgd(0.1))
        jax.config.update("jax_enable_x64", True)  # where 3e9 is no int32, and 1 + 1e-9 is not 1
        self.addCleanup(jax.config.update, "jax_enable_x64", False)
        self.refused(["jax_enable_x64", "64 bits"], convert, linear())
        jax.config.update("jax_enable_x64", False)
        self.refused(["adamw", "mask", "True and False"], convert, linear(), optax.adamw(0.1, mask=lambda p: p))
        self.refused(["selective_transform", "freeze_mask", "function"], lambda: optax.selective_transform(optax.sgd(0.1), freeze_mask=lambda p: p))
        self.refused(["snapshot", "measure"], lambda: optax.transforms.snapshot("n", lambda updates: 1.0))
        self.refused(["sgd", "learning_rate", "function"], lambda: optax.sgd(lambda count: 0.1))
        self.refused(["while"], lambda: convert(linear(), call=lambda m, x: jax.lax.while_loop(lambda v: v.sum() < 9, m, x)))
        self.refused(["0", "a name"], convert, nnx.Dict({"0": linear()}), None, lambda m, x: m["0"](x))
        self.refused(["several results"], lambda: convert(linear(), call=lambda m, x: ((m(x), x), x)))
        self.refused(["x", "another one"], lambda: convert(nnx.Dict({"x": nnx.BatchNorm(4, rngs=nnx.Rngs(0))}), call=lambda m, x: jnp.sin(m["x"](x))))
        for act in (lambda z: jnp.real(jnp.arcsin(z)), lambda z: jnp.cumprod(z, axis=0).real, lambda z: jnp.linalg.inv(z[:, :2] + jnp.eye(2)).real, lambda z: z):
            self.refused(["complex numbers"], lambda: convert(linear(), call=lambda m, x: act(1j * m(x))))
        self.refused(["constant array"], lambda: convert(linear(), call=lambda m, x: m(x) + np.arange(40000.0, dtype=np.float32).reshape(10000, 1, 4)))


    def test_inputs(self):
        linear, squared = nnx.Linear(4, 4, rngs=nnx.Rngs(0)), lambda out, **more: jnp.mean((out - more["a"]) ** 2)
        array = lambda *shape: jnp.zeros(shape)
        document, _ = nnx_to_stepc.convert(linear, optax.sgd(0.1), {"x": array(3, 4), "a": array(3, 4), "scale": array(4), "rate": array()}, squared)
        self.assertEqual(document["model"]["input"], "x")  # the first one, not the first by name
        axes = {k: v.get("axes") for k, v in document["inputs"].items()}
        self.assertEqual(axes, {"x": ["batch", None], "a": ["batch", None], "scale": [None], "rate": None})
        document, _ = nnx_to_stepc.convert(linear, optax.sgd(0.1), {"x": array(4, 4), "a": array(4, 4), "table": array(4, 4)}, squared, batch=["x", "a"])
        self.assertEqual(document["inputs"]["table"]["axes"], [None, None])

    def test_not_covered(self):
        """What a module does and no document says is named; nothing else comes out of convert."""
        class Own(nnx.Module):
            def __init__(self, act, **parts):
                self.act, self.layer = act, nnx.Linear(4, 4, rngs=nnx.Rngs(0))
                for name, part in parts.items():
                    setattr(self, name, part)

            def __call__(self, x):
                return self.act(self, x)

        def overwrites(self, x):
            self.layer.kernel.value = self.layer.kernel.value * 0.5
            return self.layer(x)

        def counts(self, x):
            self.count.value = self.count.value + 1
            return self.layer(x) * self.count.value

        @jax.custom_vjp
        def reversal(x):
            return x * 1.0

        reversal.defvjp(lambda x: (x * 1.0, None), lambda _, g: (-g,))

        @jax.custom_jvp
        def relu(x):
            return jnp.maximum(x, 0.25 * x)

        relu.defjvp(lambda x, t: (relu(x[0]), t[0]))

        def scaled(self, x):
            scale = self.norm.scale.value
            self.norm.scale.value = scale * 0.5
            out = self.norm(x)
            self.norm.scale.value = scale
            return out

        norm, count = lambda: nnx.BatchNorm(4, rngs=nnx.Rngs(0)), lambda kind: kind(jnp.zeros(()))
        double = lambda *a, **k: 2 * jax.lax.conv_general_dilated(*a, **k)
        x = {"x": np.ones((3, 4), np.float32)}
        for words, model in ((["layer.kernel", "changes a parameter"], Own(overwrites)),
                             (["count", "changes"], Own(counts, count=count(nnx.Variable))),
                             (["count", "statistics"], Own(lambda self, x: overwrites_count(self, x), count=count(nnx.BatchStat))),
                             (["reversal", "derivative of its own"], Own(lambda self, x: reversal(self.layer(x)))),
                             (["relu", "derivative of its own"], Own(lambda self, x: relu(self.layer(x)))),
                             (["norm.scale", "before the layer"], Own(scaled, norm=norm())),
                             (["rngs", "random numbers"], Own(lambda self, x: self.layer(x) + jax.random.normal(self.rngs.noise(), x.shape), rngs=nnx.Rngs(0))),
                             (["conv", "conv_general_dilated"], Own(lambda self, x: self.conv(x[..., None]),
                                                                    conv=nnx.Conv(1, 2, (3,), conv_general_dilated=double, rngs=nnx.Rngs(0)))),
                             (["a loop of 1000 rounds"], Own(lambda self, x: jax.lax.fori_loop(0, 1000, lambda i, x: self.layer(x), x))),
                             (["norm", "differs from an earlier one", "use_running_average"],
                              Own(lambda self, x: self.norm(self.norm(x)) + self.norm(x, use_running_average=True), norm=norm())),
                             (["inf", "a name"], Own(lambda self, x: self.inf(x), inf=nnx.Linear(4, 4, rngs=nnx.Rngs(0)))),
                             (["part", "TypeError"], Own(lambda self, x: self.part(x), part=Own(lambda self, x: x @ x))),
                             (["TypeError", "not callable"], nnx.Dict(layer=nnx.Linear(4, 4, rngs=nnx.Rngs(0))))):
            with self.subTest(words):
                self.refused(words, lambda: nnx_to_stepc.convert(model, optax.sgd(0.1), x, "mean(model)"))

        own = Own(lambda self, x: self.layer(x))
        self.refused(["layer.kernel", "the loss takes it"], lambda: nnx_to_stepc.convert(own, optax.sgd(0.1), x, lambda out, x: (own.layer.kernel.value ** 2).sum() + out.sum()))
        self.refused(["layer.kernel", "the call takes it"], lambda: nnx_to_stepc.convert(own, optax.sgd(0.1), x, "mean(model)", lambda m, x: m(x) + own(x)))
        with unittest.mock.patch.object(nnx_to_stepc.flax, "__version__", "1.2.3"):
            self.refused(["1.2.3", "stepc="], lambda: nnx_to_stepc.convert(own, optax.sgd(0.1), x, "mean(model)", stepc=""))

        drop = Own(lambda self, x: self.drop(self.layer(x)), drop=nnx.Dropout(0.5))  # as Flax's MNIST has it: streams come with the call
        document, _ = nnx_to_stepc.convert(drop, optax.sgd(0.1), x, "mean(model)")
        self.assertEqual([n["type"] for n in document["model"]["nodes"]], ["linear", "dropout"])

    def test_verified(self):
        """A step by stepc is a step by JAX; what would be wrong in a document is found there, whatever it is."""
        x = {"x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)}
        convert = lambda model, loss="mean(model)", call=None: nnx_to_stepc.convert(model, optax.adam(0.1), x, loss, call, stepc=runner.Case.program)
        model, optimizer, inputs, loss = nnx_cases.CASES["changed"]()
        nnx_to_stepc.convert(model, optimizer, inputs, loss, stepc=runner.Case.program)
        layer = nnx.Linear(4, 4, rngs=nnx.Rngs(0))
        layer.kernel = nnx.Param(layer.kernel.value, on_get_value=lambda _, value: value * 2)  # the file has what is stored
        _, weights = convert(nnx.Sequential(layer, nnx.Dropout(0.5, rngs=nnx.Rngs(1)), nnx.Linear(4, 4, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))))
        np.testing.assert_array_equal(weights["layers.0.kernel"] * 2, layer.kernel.value)
        convert(nnx.Linear(4, 4, rngs=nnx.Rngs(0)), lambda out, x: (out ** 2).mean(), lambda model, x: model(x) + x)
        convert(nnx.Sequential(nnx.WeightNorm(nnx.Linear(4, 4, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1)), nnx.relu))  # which leaves another kernel
        model = nnx.Sequential(nnx.Linear(4, 4, rngs=nnx.Rngs(0)), lambda x: nnx.relu(jnp.sin(x)))
        table = nnx_to_stepc.nnx_layers
        with unittest.mock.patch.dict(jaxpr_text.UNARY, sin="cos"):
            self.refused(["output", "differs"], convert, model)
        straight = jaxpr_text.Text.spell
        with unittest.mock.patch.object(jaxpr_text.Text, "spell", lambda *a: "stop_gradient(%s)" % straight(*a)):
            self.refused(["gradient"], convert, nnx.Sequential(nnx.Linear(4, 4, rngs=nnx.Rngs(0)), jnp.sin, nnx.Linear(4, 4, rngs=nnx.Rngs(0))))
        document_of = table.document_of
        with unittest.mock.patch.object(table, "document_of", lambda *a: {**document_of(*a), "use_bias": False}):
            document, _ = convert(model)  # made anew it has no bias, so it is no layer
            self.assertNotIn("linear", [n["type"] for n in document["model"]["nodes"]])

    def test_indices(self):
        """Indices outside of either end, and sums of integers of few bits, which wrap."""
        layer, x = nnx.Linear(4, 4, rngs=nnx.Rngs(0)), np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
        convert = lambda call, given: nnx_to_stepc.convert(layer, optax.sgd(0.1), {"x": x, "given": given}, "mean(model)", call, stepc=runner.Case.program)
        at = np.array([[0, -4], [-5, 3], [-9, 4]], np.int32)
        for take in (lambda y, at, mode: jnp.take_along_axis(y, at, axis=1, mode=mode), lambda y, at, mode: jnp.take(y, at, axis=1, mode=mode)):
            for mode in (None, "clip"):
                filled = lambda y: jnp.where(jnp.isnan(y), 0.5, y)
                convert(lambda model, x, given: filled(take(model(x), given, mode)), at)
        reduced = lambda initial, op: lambda model, x, given: model(x) * jax.lax.reduce(given, given.dtype.type(initial), op, (0,))
        convert(reduced(0, jax.lax.add), np.full((100, 4), 3, np.uint8))
        self.refused(["reduce_or"], convert, reduced(0, jax.lax.bitwise_or), np.array([[1, 2, 4, 8], [8, 1, 1, 1]], np.int32))


def overwrites_count(self, x):
    self.count.value = self.count.value * 0.9 + 0.1 * x.mean()
    return self.layer(x)


if __name__ == "__main__":
    if sys.argv[1] == "--record":
        record(sys.argv[2:])
    else:
        if MISSING:
            print("nnx.py: %s: recorded documents only, no conversion" % MISSING)
        runner.main()
