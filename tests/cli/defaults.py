#!/usr/bin/env python3
"""What the reference says of arguments is true: a default that is given is one that was left out, defaults are Optax's (recorded in
defaults.json), `null:` is said of what may be null, schedules of what may be one, and sentences that contradict a formula are gone.

    tests/cli/defaults.py STEPC            (defaults.py --record writes defaults.json; needs optax)
"""
import inspect
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), HERE]
import numpy as np
from doc import documents, entries
from tool import runner, safetensors

RECORDED = os.path.join(HERE, "defaults.json")
TOPICS = ("settings", "optimizers", "schedules", "structures", "layers", "adapters", "initializers")
ROW = re.compile(r"(?m)^\| `(\w+)` \| ([^|]*) \| (?:`(.*?)`|required) \| ([^|]*) \| (.*) \|$")
# null inside of a value; arguments whose kind alone does not say that schedules may stand in them
INSIDE = {("input", "axes"), ("define", "params"), ("sharding_constraint", "spec")}
SCHEDULES = {("join_schedules", "schedules"), ("multi_steps", "every_k_schedule"), ("custom", "hyperparams")}


def arguments(text):
    """name, value, default as JSON text or None, meaning."""
    return [(m[1], m[2], m[3], m[5]) for m in ROW.finditer(text) if not re.match(r"(int|uint|float|bool|bfloat)\d*$", m[2])]


def plain(text):
    """The IR without the document, its places and the marks of these."""
    return re.sub(r" @\d+|(?m:^(?:document|place) .*\n)", "", text)


class Defaults(runner.Case):
    def ir(self, doc):
        runner.write_json(self.path("model.json"), doc)
        code, out, error = runner.attempt(self.program, "compile", self.path("model.json"), "--stop-after", "autodiff")
        return plain(out) if not code else None

    def test_given_is_left_out(self):
        tried = 0
        for topic in TOPICS[1:]:
            for name, text in entries(topic).items():
                example = json.loads(re.search(r"(?m)^Example:\n\n```\n(.*)\n```\n", text)[1])
                if example.get("type") != name:  # it stands inside of another entry
                    continue
                bases = [(i, self.ir(doc)) for i, doc in enumerate(documents(topic, json.dumps(example)))]
                which, base = next(b for b in bases if b[1])
                for argument, _, default, _ in arguments(text):
                    if default is None or argument in example:
                        continue
                    given = {**example, argument: json.loads(default)}
                    if (name, argument) == ("scale_by_factored_rms", "decay_rate_fn") or (name == "noise" and argument in ("minval", "maxval", "lower", "upper", "p")):
                        continue  # the same formula in other words; for another distribution
                    found = self.ir(documents(topic, json.dumps(given))[which])
                    self.assertIsNotNone(found, "%s %s: its default %s is refused" % (name, argument, default))
                    self.assertEqual(found, base, "%s %s: its default is not %s" % (name, argument, default))
                    tried += 1
        self.assertGreater(tried, 600)

    def test_defaults_of_optax(self):
        with open(RECORDED, encoding="utf-8") as f:
            recorded = json.load(f)
        self.assertGreater(len(recorded), 120)
        ours = {**entries("optimizers"), **entries("schedules")}
        for name, defaults in recorded.items():
            found = {a: default and json.loads(default) for a, _, default, _ in arguments(ours[name])}
            self.assertEqual({a: found[a] for a in defaults}, defaults, name)

    def test_null_and_schedules(self):
        for topic in TOPICS:
            for name, text in entries(topic).items():
                for argument, value, _, meaning in arguments(text):
                    if (name, argument) not in INSIDE:
                        self.assertEqual("null" in value, "null" in meaning, "%s %s: %s" % (name, argument, meaning))
                    if (name, argument) not in SCHEDULES and topic == "optimizers":
                        self.assertEqual("schedule" in value, bool(re.search(r"\b(a|its) schedule\b", meaning)), "%s %s: %s" % (name, argument, meaning))

    def test_sentences(self):
        """Words of common sentences that are false of some: an average that is a sum, a decay that is none, a rate that moves nothing."""
        optimizers = {name: {a: meaning for a, _, _, meaning in arguments(text)} for name, text in entries("optimizers").items()}
        for name, text in entries("optimizers").items():
            if re.search(r"(mu|m|trace) <- \w+ = g \+ \w+ \* (mu|m|trace)|b1 \* mu \+ decayed", text):
                decay = optimizers[name].get("decay", optimizers[name].get("b1"))
                self.assertRegex(decay, "sum", name)
        for name, argument, word in (("lion", "b1", "sign"), ("adan", "b2", "changes"), ("muon", "preconditioning", "before"), ("sophia", "b2", "Hessian"), ("schedule_free", "b1", "where gradients are taken"),
                                     ("schedule_free", "learning_rate", "moves nothing"), ("scale_by_amos", "eta_fn", "root mean square"), ("dowg", "init_estim_sq_dist", "null: eps"),
                                     ("adamw", "mask", "decay"), ("add_noise", "seed", "`key`"), ("hutchinson_estimator_diag_hessian", "random_seed", "null: 0"), ("sam", "reset_state", "adv_optimizer")):
            self.assertIn(word, optimizers[name][argument], name + " " + argument)

    def test_losses_say_what_they_are(self):
        """A sentence for each of them, and for each function, not one for a family; what `index_checks` does is what the formula does."""
        told = {}
        for name, text in [*entries("losses").items(), *entries("expressions").items()]:
            if "The same as `" not in text:
                told.setdefault(next(line for line in text.splitlines() if line and not line.startswith(("- `", "`%s(" % name))), []).append(name)
        self.assertEqual([names for names in told.values() if len(names) > 1], [])
        losses = {"ce": "softmax_cross_entropy_with_integer_labels(model, i, index_checks=False)", "hinge": "multiclass_hinge_loss(model, i, index_checks=False)",
                  "sparsemax": "multiclass_sparsemax_loss(model, i, index_checks=False)", "zero": "multiclass_hinge_loss(model, i * 0, index_checks=False)"}
        runner.write_json(self.path("model.json"), {"stepc": 1, "inputs": {"x": {"shape": [2, 4]}, "i": {"shape": [2], "dtype": "int32"}}, "model": {"type": "linear", "features": 3, "input": "x"}, "loss": "mean(model)",
                                                    "metrics": losses, "optimizer": {"type": "sgd", "learning_rate": 0.1}})
        safetensors.write(self.path("data.safetensors"), {"x": np.ones((1, 2, 4), "f4"), "i": np.array([[9, -1]], "i4")})
        found = {k: np.array(v, float) for k, v in runner.train(self.program, self.folder, 1)[1][0].items() if k in losses}
        self.assertTrue(np.isnan(found["ce"][0]) and np.isfinite(found["ce"][1]))  # "negative ones count from the last, losses of others are NaN"
        self.assertTrue(np.isfinite(found["hinge"]).all() and np.isfinite(found["sparsemax"]).all())  # "count as none of the classes"

    def test_seeds_are_not_the_documents(self):
        """Noise of an optimizer has its own seed, 0 where none is given, whatever the document's is."""
        safetensors.write(self.path("data.safetensors"), {"x": np.ones((1, 4, 8), "f4")})
        for optimizer in ({"type": "noisy_sgd", "learning_rate": 0.1}, {"type": "chain", "transforms": [{"type": "hutchinson_estimator_diag_hessian"}, {"type": "scale", "step_size": -0.1}]}):
            said = []
            for seed in (1, 2):
                doc = {"stepc": 1, "inputs": {"x": {"shape": [4, 8], "axes": ["batch", None]}}, "model": {"type": "linear", "input": "x", "features": 3, "kernel_init": {"type": "ones"}},
                       "loss": "mean(model ** 2)", "optimizer": optimizer, "seed": seed}
                runner.write_json(self.path("model.json"), doc)
                said.append(runner.train(self.program, self.folder, 2)[0]["kernel"])
            np.testing.assert_array_equal(*said)


def record():
    import optax
    places = [optax, optax.contrib, optax.transforms, optax.schedules]
    names, out = {**entries("optimizers"), **entries("schedules")}, {}
    for name, text in names.items():
        made = next((getattr(p, name) for p in places if hasattr(p, name)), None)
        if made is None or name == "split_real_and_imaginary":
            continue
        ours = {a for a, *_ in arguments(text)}
        kept = {}
        for key, p in inspect.signature(made).parameters.items():
            value = list(p.default) if isinstance(p.default, tuple) else p.default
            if key in ours and (value is None or isinstance(value, (bool, int, float, str)) or (isinstance(value, list) and all(isinstance(x, float) for x in value))):
                kept[key] = value
        # what stands for something that JSON has no word for
        for key in {"add_noise": ("key",), "noisy_sgd": ("key",), "scale_by_muon": ("ns_coeffs",), "muon": ("ns_coeffs",), "lars": ("weight_decay_mask", "trust_ratio_mask")}.get(name, ()):
            kept.pop(key, None)
        out[name] = kept
    with open(RECORDED, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(json.dumps(k) + ": " + json.dumps(v) for k, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    if "--record" in sys.argv:
        runner.Case.program = os.path.abspath(sys.argv[1])
        record()
    else:
        runner.main()
