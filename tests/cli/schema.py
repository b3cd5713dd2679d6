#!/usr/bin/env python3
"""The JSON Schema that `stepc doc schema` prints: every recorded document is valid by it, of those that must be refused it
refuses those whose mistake is one of form, and single mistakes of form in a valid document are found.

usage: schema.py STEPC
"""
import json
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import recorded, runner

# Mistakes that a form cannot know of: unknown types of blocks (definitions may have any name), `$` arithmetic, names,
# shapes, patterns and the like. The codes below are those that a table decides.
OF_FORM = {"E0101", "E0102", "E0103", "E0107", "E0400"}


class Schema:
    """A validator for the keywords that the schema uses; any other is an error."""

    def __init__(self, root):
        self.root = root

    def is_type(self, value, name):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return {"object": isinstance(value, dict), "array": isinstance(value, list), "string": isinstance(value, str), "number": number,
                "integer": number and value == int(value) if number and abs(value) < 1e300 else False, "boolean": isinstance(value, bool),
                "null": value is None}[name]

    def good(self, value, schema):
        if schema is True:
            return True
        if schema is False:
            return False
        return all(getattr(self, "check_" + key.strip("$"))(value, arg, schema) for key, arg in schema.items())

    def note(self, value, arg, schema):
        return True

    check_schema = check_id = check_else = check_defs = check_description = check_default = check_then = note

    def check_ref(self, value, arg, schema):
        assert arg.startswith("#/$defs/")
        return self.good(value, self.root["$defs"][arg[8:]])

    def check_type(self, value, arg, schema):
        return any(self.is_type(value, t) for t in ([arg] if isinstance(arg, str) else arg))

    def check_const(self, value, arg, schema):
        return type(value) is type(arg) and value == arg

    def check_enum(self, value, arg, schema):
        return value in arg

    def check_pattern(self, value, arg, schema):
        return not isinstance(value, str) or re.search(arg, value) is not None

    def check_anyOf(self, value, arg, schema):
        return any(self.good(value, s) for s in arg)

    def check_allOf(self, value, arg, schema):
        return all(self.good(value, s) for s in arg)

    def check_if(self, value, arg, schema):
        return self.good(value, schema.get("then" if self.good(value, arg) else "else", True))

    def check_items(self, value, arg, schema):
        return not isinstance(value, list) or all(self.good(v, arg) for v in value)

    def check_properties(self, value, arg, schema):
        return not isinstance(value, dict) or all(self.good(value[k], s) for k, s in arg.items() if k in value)

    def check_required(self, value, arg, schema):
        return not isinstance(value, dict) or all(k in value for k in arg)

    def check_additionalProperties(self, value, arg, schema):
        return not isinstance(value, dict) or all(self.good(v, arg) for k, v in value.items() if k not in schema.get("properties", {}))

    def bound(compare):
        return lambda self, value, arg, schema: not self.is_type(value, "number") or compare(value, arg)

    check_minimum = bound(lambda v, x: v >= x)
    check_maximum = bound(lambda v, x: v <= x)
    check_exclusiveMinimum = bound(lambda v, x: v > x)
    check_exclusiveMaximum = bound(lambda v, x: v < x)


VALID = {
    "stepc": 1, "name": "m", "constants": {"hidden": 6},
    "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8], "dtype": "int32"}},
    "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": "$hidden", "kernel_init": {"type": "zeros"}},
                                                            {"type": "gelu", "approximate": False}, {"type": "linear", "features": 3}]},
    "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"},
    "optimizer": {"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": 1.0},
                                                  {"type": "adamw", "learning_rate": {"type": "constant_schedule", "value": 0.1}}]},
}
# Where, and what is put there (a function changes the object found there).
MISTAKES = [
    ((), lambda d: d.update(optimiser=1)), ((), lambda d: d.pop("loss")), (("stepc",), 2), (("inputs", "x"), lambda d: d.pop("shape")),
    (("inputs", "x", "dtype"), "float31"), (("inputs", "x", "shape"), [8, 0]), (("model", "layers"), {}), (("model",), lambda d: d.pop("type")),
    (("model", "layers", 0), lambda d: d.update(feature=3)), (("model", "layers", 0), lambda d: d.pop("features")),
    (("model", "layers", 0, "features"), 2.5), (("model", "layers", 0, "features"), "hidden"), (("model", "layers", 2, "features"), -1),
    (("model", "layers", 0, "kernel_init", "type"), "zero"), (("model", "layers", 1), lambda d: d.update(approx=True)),
    (("model", "layers", 0, "use_bias"), 1), (("loss", "type"), "l3_loss"), (("loss", "reduction"), "max"), (("loss",), lambda d: d.update(label="y")),
    (("optimizer", "type"), "chian"), (("optimizer", "transforms", 0, "max_norm"), "1"), (("optimizer", "transforms", 1), lambda d: d.update(b1=1)),
    (("optimizer", "transforms", 1, "learning_rate", "type"), "constant"), (("optimizer", "transforms", 1, "learning_rate"), lambda d: d.pop("value")),
    (("optimizer",), [])]


class Test(runner.Case):
    @classmethod
    def setUpClass(cls):
        text = runner.call(cls.program, "doc", "schema")
        cls.root = json.loads(text, object_pairs_hook=cls.no_duplicates)
        cls.schema = Schema(cls.root)

    @staticmethod
    def no_duplicates(pairs):
        keys = [k for k, _ in pairs]
        assert len(keys) == len(set(keys)), "a key twice: %s" % keys
        return dict(pairs)

    def test_recorded_documents(self):
        names = recorded.names()
        self.assertGreater(len(names), 100)
        self.assertEqual([n for n in names if not self.schema.good(recorded.load(n).document, self.root)], [])

    def test_recorded_errors(self):
        accepted, refused = [], 0
        for name in recorded.error_names():
            _, text = recorded.error(name)
            with open(self.path("refused.json"), "wb") as f:
                f.write(text)
            code = re.search(r"error\[?.*?(E\d{4})", runner.attempt(self.program, "check", self.path("refused.json")).stderr)
            try:
                good = self.schema.good(json.loads(text), self.root)
            except (ValueError, RecursionError):
                continue
            if code and code.group(1) in OF_FORM:
                refused += not good
                accepted += [code.group(1) + " " + name] if good else []
        # The rest needs more than a form: two keys together, a schedule where only inject_hyperparams allows one, names.
        self.assertGreater(refused, 2 * len(accepted), accepted)

    def test_single_mistakes(self):
        self.assertTrue(self.schema.good(VALID, self.root))
        for where, what in MISTAKES:
            with self.subTest(where=where):
                bad = json.loads(json.dumps(VALID))
                at = bad
                for key in where if callable(what) else where[:-1]:
                    at = at[key]
                if callable(what):
                    what(at)
                else:
                    at[where[-1]] = what
                self.assertFalse(self.schema.good(bad, self.root))

    def test_types_of_blocks(self):
        """Unknown ones are refused where the document defines none; "$schema" may say what checks it."""
        d = json.loads(json.dumps(VALID))
        d.pop("define", None)
        d["$schema"] = self.root["$id"]
        d["model"] = {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 2}]}
        self.assertTrue(self.schema.good(d, self.root))
        with open(self.path("schema.json"), "w", encoding="utf-8") as f:
            json.dump(dict(d, loss="mean(model)", inputs={"x": {"shape": [2, 2]}}, metrics={}), f)
        self.assertNotIn("$schema", runner.attempt(self.program, "check", self.path("schema.json")).stderr)
        d["model"]["layers"][0]["type"] = "linaer"
        self.assertFalse(self.schema.good(d, self.root))
        d["model"]["layers"] = [{"type": "residual", "layers": [{"type": "mlp"}]}]
        self.assertFalse(self.schema.good(d, self.root))
        d["define"] = {"mlp": {"body": {"type": "relu"}}}
        self.assertTrue(self.schema.good(d, self.root))

    def test_adapters(self):
        d = dict(json.loads(json.dumps(VALID)), adapters=[{"type": "lora", "rank": 2, "match": ["**"], "alpha": 4}])
        self.assertTrue(self.schema.good(d, self.root))
        for wrong in ({"rank": 0}, {"ranc": 2}, {"rslora": 1}, {"type": "lore"}):
            self.assertFalse(self.schema.good(dict(d, adapters=[dict(d["adapters"][0], **wrong)]), self.root), wrong)

    def test_hover(self):
        """Every argument has a description, or choices that say it."""
        for name, definition in self.root["$defs"].items():
            for key, value in definition.get("properties", {}).items():
                if key not in ("//", "type", "name", "weights", "reduction", "index_checks") and "const" not in value:
                    self.assertIn("description", value, name + "." + key)

    def test_a_full_validator_agrees(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        jsonschema.Draft202012Validator.check_schema(self.root)
        full = jsonschema.Draft202012Validator(self.root)
        texts = [recorded.load(name).text for name in recorded.names()[::40]] + [recorded.error(name)[1] for name in recorded.error_names()[::10]]
        self.assertTrue(full.is_valid(VALID))
        for text in texts:
            try:
                d = json.loads(text)
            except (ValueError, RecursionError):
                continue
            self.assertEqual(full.is_valid(d), self.schema.good(d, self.root), text)


if __name__ == "__main__":
    runner.main()
