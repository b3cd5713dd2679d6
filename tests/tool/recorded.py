#!/usr/bin/env python3
"""Recorded cases: training steps whose results another library has computed.

A case is two files in the folder of its family, tests/parity/cases/FAMILY:

NAME.json holds on the first lines, one key each, what is known of it: `steps`, `rtol`, `atol`, `variants` (lists of arguments
for compile), `set` (values that the host sets: step -> name -> value), `note`, `not_compared`, `metrics` (name -> a value per
step), and as the last one `document`, whose text stands there as it was written, so that its lines are those that diagnostics
speak of. NAME.safetensors holds all tensors: "data/X" for every input X (a leading dimension counts steps), "init/P" for
parameters that are given (stepc draws them if there is none), "expected/P" for what must be there after the last step.

    tests/tool/recorded.py NAME... --into FOLDER       writes FOLDER/NAME/{model.json,data.safetensors,init.safetensors}
"""
import fnmatch
import json
import os
import sys

if __name__ == "__main__":
    sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, comparison, safetensors

PARITY = os.path.join(ROOT, "tests", "parity")
CASES = os.path.join(PARITY, "cases")
ERRORS = os.path.join(PARITY, "errors")
DOCUMENT = '\n"document": '
PARTS = ("data", "init", "expected")
# Names of cases begin with their subject; those that stand alone are of the family that is given here.
FAMILIES = {
    "accumulate": ("micro", "per"), "adapter": ("adapt",), "attention": ("attn",), "expr": ("op",), "freeze": ("trainable",), "metrics": ("monitor",),
    "model": ("struct", "cookbook"), "precision": ("mixed",), "privacy": ("dpsgd", "differentially"), "random": ("noise", "dropout"), "schedule": ("plateau", "reduce"),
    "transform": ("apply", "chain", "clip", "conditionally", "converges", "every", "flatten", "lion", "lookahead", "masked", "maybe", "mechanize", "multi",
                  "named", "partition", "polyak", "rosenbrock", "sam", "selective", "set", "snapshot", "stateless")}
OF_PREFIX = {prefix: family for family, prefixes in FAMILIES.items() for prefix in prefixes}


def family(name):
    """The folder of a case."""
    prefix = name.split("_")[0]
    return OF_PREFIX.get(prefix, prefix)


def split(text):
    """A file with a document: (the keys before it, its text)."""
    at = text.index(DOCUMENT)
    return json.loads(text[:at].rstrip(",") + "}"), text[at + len(DOCUMENT):text.rindex("\n}")] + "\n"


def join(keys, document):
    """The text of a file with a document, which is a value or its text."""
    text = document if isinstance(document, str) else json.dumps(document, indent=1)
    return "{\n%s%s%s\n}\n" % (",\n".join("%s: %s" % (json.dumps(k), json.dumps(v)) for k, v in keys.items()) + ",", DOCUMENT, text.strip("\n"))


class Case:
    """One that is recorded."""

    def __init__(self, path):
        """`path` without an ending."""
        self.path, self.name = path, os.path.basename(path)
        with open(path + ".json", encoding="utf-8") as f:
            self.keys, self.text = split(f.read())
        self.document = json.loads(self.text)
        self.steps, self.rtol, self.atol = self.keys["steps"], self.keys["rtol"], self.keys["atol"]
        self.variants, self.metrics = self.keys.get("variants") or [[]], self.keys["metrics"]
        self._tensors = None

    def raw(self, part):
        """Tensors of "data", "init" or "expected" as they stand in the file: name -> safetensors.Raw."""
        if self._tensors is None:
            self._tensors = safetensors.raw(self.path + ".safetensors")
        return {name[len(part) + 1:]: t for name, t in self._tensors.items() if name.startswith(part + "/")}

    def arrays(self, part):
        return {name: safetensors.array(t) for name, t in self.raw(part).items()}

    def wide(self, part):
        return {name: safetensors.array(t).astype("f8") for name, t in self.raw(part).items()}

    def unpack(self, folder, document=None):
        """model.json, data.safetensors and, if parameters are given, init.safetensors in a folder; another document in place of
        its own. The path of model.json."""
        os.makedirs(folder, exist_ok=True)
        model = os.path.join(folder, "model.json")
        with open(model, "w", encoding="utf-8") as f:
            f.write(self.text if document is None else json.dumps(document, indent=1))
        for part in PARTS[:2]:
            tensors = self.raw(part)
            if tensors or part == "data":
                safetensors.write(os.path.join(folder, part + ".safetensors"), tensors)
        return model

    def sets(self):
        """The arguments of `run` for what the host sets."""
        return [word for at, values in self.keys.get("set", {}).items() for name, value in values.items() for word in ("--set", "%s=%s@%s" % (name, json.dumps(value), at))]

    def check(self, tensors, lines, looser=1):
        """Raises comparison.Differs if tensors after the last step, or metrics of the steps, are not what is recorded."""
        rtol, atol = looser * self.rtol, looser * self.atol
        comparison.all_agree(tensors, self.wide("expected"), rtol, atol)
        for name, values in self.metrics.items():
            for i, want in enumerate(values):
                if i >= len(lines) or lines[i].get("step") != i + 1 or name not in lines[i]:
                    raise comparison.Differs("step %d reports no metric %s" % (i + 1, name))
                comparison.agree("metric %s at step %d" % (name, i + 1), comparison.numbers(lines[i][name]), comparison.numbers(want), rtol, atol)


def paths(folder=CASES):
    """name -> path without its ending, of all cases, by name."""
    found = {}
    for place, _, files in os.walk(folder):
        for file in files:
            stem, end = os.path.splitext(file)
            if end == ".json":
                assert stem not in found, "two cases have the name " + stem
                found[stem] = os.path.join(place, stem)
    return dict(sorted(found.items()))


def names(only=(), without=()):
    """The names of cases that one of the patterns `only` fits (all, if there is none) and none of `without`."""
    among = lambda name, globs: any(fnmatch.fnmatchcase(name, g) for g in globs)
    return [n for n in paths() if (not only or among(n, only)) and not among(n, without)]


def load(name):
    return Case(os.path.join(CASES, family(name), name))


def write(path, document, data, init, steps, expected, metrics, rtol, atol, note="", variants=((),)):
    """A case at `path` (without an ending); init None: stepc draws the parameters."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    keys = {"note": note, "steps": steps, "rtol": rtol, "atol": atol, "variants": [list(v) for v in variants],
            "metrics": {k: comparison.text_of(list(v)) for k, v in metrics.items()}}
    with open(path + ".json", "w", encoding="utf-8") as f:
        f.write(join(keys, document))
    safetensors.write(path + ".safetensors", {"%s/%s" % (part, k): v for part, tensors in zip(PARTS, (data, init or {}, expected)) for k, v in tensors.items()})


def record(name, document, data, init, steps, expected, metrics, rtol, atol, note="", variants=((),), out=CASES):
    """A case in the folder of its family under `out`."""
    write(os.path.join(out, family(name), name), document, data, init, steps, expected, metrics, rtol, atol, note, variants)


# ---------------------------------------------------------------- documents that must be refused

def error(name):
    """(keys, the text of the document in bytes) of one that must be refused: tests/parity/errors/NAME.json. `expect` lists what
    must be said, `arguments` are for compile. A document that is no JSON stands in `text`; a byte that is no UTF-8 is there as
    a lone surrogate, 0xdc00 + byte."""
    with open(os.path.join(ERRORS, name + ".json"), encoding="utf-8") as f:
        text = f.read()
    if DOCUMENT in text:
        keys, document = split(text)
    else:
        keys = json.loads(text)
        document = keys.pop("text")
    return keys, document.encode("utf-8", "surrogateescape")


def error_names():
    return sorted(os.path.splitext(file)[0] for file in os.listdir(ERRORS))


def main():
    import argparse
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="+", metavar="NAME")
    p.add_argument("--into", required=True, metavar="FOLDER")
    options = p.parse_args()
    for name in options.names:
        print(os.path.dirname(load(name).unpack(os.path.join(options.into, name))))


if __name__ == "__main__":
    main()
