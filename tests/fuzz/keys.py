#!/usr/bin/env python3
"""No key is ignored: in recorded documents every key that the tables (`stepc doc schema`) know of an object is given other values,
one at a time. Where the document is still accepted, what is compiled (the IR and the plan, without places), or what is warned of,
must change. A key that changes nothing anywhere is a defect, unless NOTHING says why.

    tests/fuzz/keys.py --stepc build/stepc --share 40 [--seed 1]    every fortieth key; 1, the default: all
    tests/fuzz/keys.py --stepc build/stepc --everywhere [TYPE.KEY...]    and where a key changes nothing, though it does elsewhere
"""
import argparse
import collections
import concurrent.futures
import copy
import fnmatch
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import recorded, runner

SETTINGS = ("ema", "accumulate", "per_example", "precision", "mesh", "sharding")
PLACES = re.compile(r"^(place|document) .*\n|( @\d+)(?=\W)| origin=\S+", re.M)

# What has no effect on what is compiled, or none that a recorded document can show, and why.
NOTHING = {
    "activation.*.name": "without parameters there is no path", "block.expr.name": "without parameters there is no path", "block.attend.name": "the parameters are those of the table",
    "block.*_pool.name": "without parameters there is no path", "block.sharding_constraint.name": "without parameters there is no path", "block.noise.name": "without parameters there is no path",
    "*.num_features": "a check: another size is refused", "*.in_features": "a check: another size is refused", "*.in_kv_features": "a check: another size is refused",
    "block.*.precision": "products of float32 are exact to rounding here, whatever is asked for", "block.conv*.preferred_element_type": "types that the layer has already, others are refused",
    "block.batch_norm.axis_name": "statistics are those of all devices anyway", "optimizer.sam.batch_axis_name": "gradients are those of all devices anyway",
    "block.remat.prevent_cse": "what is computed again is never shared with what was computed before", "block.rnn.unroll": "speed, in JAX", "block.rms_norm.use_fast_variance": "there is no mean to subtract, so both are one formula",
    "block.dropout.rng_collection": "a seed that is a number is that of all streams", "block.weight_norm.param_dtype": "Flax takes no notice of it: the scale is float32",
    "block.spectral_norm.error_on_non_matrix": "a check: kernels that are no matrices are refused", "block.multi_head_attention.deterministic": "recorded with a rate of 0", "block.multi_head_attention.broadcast_dropout": "recorded with a rate of 0",
    "block.max_pool.padding": "recorded with its default alone", "block.bidirectional.return_carry": "recorded with its default alone", "define.params": "recorded where no parameter has the default",
    "block.graph.output": "tried with what is written there alone",
    "initializer.delta_orthogonal.column_axis": "recorded for matrices that are not square: the same values",
    "initializer.lecun_*.in_axis": "what goes in is all but what goes out", "initializer.he_*.in_axis": "what goes in is all but what goes out", "initializer.kaiming_*.in_axis": "what goes in is all but what goes out",
    "loss.*.reduction": "of a loss that is one number", "loss.compute_weighted_cross_entropy.positions": "T5X finds ends of segments by them, which segment_ids say", "loss.*.where": "tried with constants alone",
    "optimizer.scale_by_ademamix.mu_dtype": "zeros of any dtype become float32 beside a gradient", "optimizer.*.mask_compatible_extra_args": "no mask is a function here", "optimizer.*.forward_extra_args": "no condition is a function here",
    "optimizer.inject_hyperparams.static_args": "recorded where it names what is static anyway", "optimizer.scale_by_muon.weight_dimension_numbers": "recorded with its default alone",
    "optimizer.adabelief.mask": "recorded without decay", "optimizer.adabelief.weight_decay_mask": "recorded without decay",
}


def compiled(program, folder, document):
    """What a document becomes: a digest of it, or None where it is refused."""
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".json", delete=False) as f:
        json.dump(document, f)
    path = f.name
    done = runner.attempt(program, "compile", path, "--stop-after", "memplan", "-o", path + ".sir", verify=False, timeout=60)
    text = ""
    if done.returncode == 0:
        with open(path + ".sir") as f:
            text = PLACES.sub("", f.read())
        os.unlink(path + ".sir")
        warned = "".join(line.split(": ", 1)[-1] for line in done.stderr.splitlines() if "warning[" in line)
    os.unlink(path)
    return hashlib.md5((text + warned).encode()).hexdigest() if text else None


class Table:
    """The objects of documents, by the schema that stepc prints."""

    def __init__(self, program):
        self.all = json.loads(subprocess.run([program, "doc", "schema"], stdout=subprocess.PIPE, check=True, text=True).stdout)["$defs"]
        self.of_type = {k.split(".", 1)[1]: k for k in self.all if "." in k and k != "activation.identity"}

    def objects(self, document):
        """(name, path, properties) of every object of a document that the tables know."""
        for key in SETTINGS:
            if isinstance(document.get(key), dict):
                yield key, (key,), self.all[key]
        for key in ("input", "define"):
            for name, value in document.get(key + "s" * (key == "input"), {}).items():
                yield key, (key + "s" * (key == "input"), name), self.all[key]
        stack = [((), document)]
        while stack:
            path, value = stack.pop()
            items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            stack += [(path + (k,), v) for k, v in items]
            name = self.of_type.get(value.get("type")) if isinstance(value, dict) and isinstance(value.get("type"), str) else None
            if name and value["type"] not in document.get("define", {}):
                yield name, path, self.all[name]

    def others(self, schema, now):
        """Values of the kind that the schema says, none like the one that it has."""
        found, seen = [], []

        def walk(s):
            if s in seen:
                return
            seen.append(s)
            for inner in s.get("anyOf", []):
                walk(inner)
            if s.get("type") == "boolean":
                found.extend([True, False])
            found.extend(s.get("enum", []) if s.get("type") != "boolean" else [])
            if s.get("type") in ("number", "integer"):
                v = now if isinstance(now, (int, float)) and not isinstance(now, bool) else 1
                found.extend([v + 1, v * 2, max(v // 2, 1), 1, 2, 3, 4] if s["type"] == "integer" else [v * 0.75, v + 0.125, 0.37, v * 2, 2.5, v + 1])
            if s.get("type") == "null":
                found.append(None)
            if s.get("$ref") == "#/$defs/dtype":
                found.extend(["bfloat16", "float16", "float32", "float64", "int32"])
            elif s.get("$ref") == "#/$defs/initializer":
                found.append({"type": "constant", "value": 0.37})
            elif s.get("$ref") == "#/$defs/patterns":
                found.extend([["**.bias"], ["**.kernel"], ["**.0.**"], ["**"]])
            elif s.get("$ref") == "#/$defs/schedule":
                found.append({"type": "linear_schedule", "init_value": 0.5, "end_value": 0.25, "transition_steps": 3})
            elif s.get("$ref") in ("#/$defs/expression", "#/$defs/literal") and isinstance(now, str):
                found.extend(["(%s) * 1.25" % now, "1 - (%s)" % now])
            elif s.get("$ref") == "#/$defs/rate":
                walk(self.all["rate"])
            if not set(s) & {"anyOf", "type", "enum", "$ref"} or s.get("$ref") == "#/$defs/literal":  # of no kind that is said
                if isinstance(now, bool):
                    found.append(not now)
                elif isinstance(now, (int, float)):
                    found.extend([now + 1, now - 1, now * 0.75])
                elif isinstance(now, list):
                    found.extend([now[::-1], now[1:], [v + 1 if isinstance(v, int) else v for v in now]])
                elif now is None or now == "":
                    found.extend([True, 1, 0, -1, [0], 2, 0.5, [2], [1, 1], "x > 0"])
            if s.get("type") == "array" and isinstance(now, list):
                found.extend([now[:-1], now + now[-1:], now[::-1], [v + 1 if isinstance(v, int) else v for v in now]])
            if s.get("type") == "string" and "enum" not in s:
                found.append("renamed")
        walk(schema)
        kept = []
        for v in found:
            if json.dumps(v) != json.dumps(now) and v not in kept and not (isinstance(v, float) and isinstance(now, (int, float)) and v == now):
                kept.append(v)
        return kept


def within(document, path):
    for k in path:
        document = document[k]
    return document


def try_key(program, folder, document, before, path, key, values):
    """True: some value changes something. False: some are accepted and none does. None: all are refused. With the values."""
    held = []
    for value in values:
        other = copy.deepcopy(document)
        there = within(other, path)
        if value == "remove" and key in there:
            del there[key]
        else:
            there[key] = value
        after = compiled(program, folder, other)
        if after not in (before, None):
            return True, value
        if after:
            held.append(value)
    return (False, held) if held else (None, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepc", required=True)
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--contexts", type=int, default=12, help="documents in which a key is tried until it changes something")
    parser.add_argument("--everywhere", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-v", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    table = Table(options.stepc)
    documents = {name: recorded.load(name).document for name in recorded.names()}
    for document in documents.values():  # recorded ones leave the sizes of their axes to variants
        document.get("mesh", {}).get("axes", {}).update({k: 2 for k in document.get("mesh", {}).get("axes", {})})
    places = collections.defaultdict(list)  # "block.linear.features" -> (document, path)
    for name, document in documents.items():
        for kind, path, properties in table.objects(document):
            for key in properties["properties"]:
                if key not in ("type", "//"):
                    places["%s.%s" % (kind, key)].append((name, path, key, properties["properties"][key]))
    known = ["%s.%s" % (k, key) for k, d in table.all.items() for key in d.get("properties", {}) if key not in ("type", "//")]
    chosen = [k for k in known if not options.names or any(fnmatch.fnmatch(k, n) for n in options.names)]
    chosen = [k for k in chosen if int(hashlib.md5((k + str(options.seed)).encode()).hexdigest(), 16) % options.share == 0]
    with tempfile.TemporaryDirectory(prefix="stepc-keys-") as folder, concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        bases = {}

        def look(key):
            r, tried, changed, nothing = random.Random(key), 0, 0, []
            for name, path, k, schema in sorted(places[key], key=lambda p: (p[2] not in within(documents[p[0]], p[1]), r.random())):
                if name not in bases:
                    bases[name] = compiled(options.stepc, folder, documents[name])
                if not bases[name]:
                    continue
                now = within(documents[name], path)
                others = table.others(schema, now.get(k, schema.get("default"))) + (["remove"] if k in now else [])
                result, values = try_key(options.stepc, folder, documents[name], bases[name], path, k, others)
                tried += result is not None
                changed += result is True
                if result is False:
                    nothing.append((name, "/" + "/".join(map(str, path)), values))
                if (changed and not options.everywhere) or tried >= options.contexts:
                    break
            return key, tried, changed, nothing

        name, path, key, _ = next(p for p in places["optimizer.adam.learning_rate"] if "learning_rate" in within(documents[p[0]], p[1]))
        same, base = within(documents[name], path)[key], compiled(options.stepc, folder, documents[name])
        if [try_key(options.stepc, folder, documents[name], base, path, key, [v])[0] for v in (same, 0.0625)] != [False, True]:
            print("the control: a rate that stays is not seen to change nothing, or another one is not seen")
            return 1
        ignored, untried = [], []
        for key, tried, changed, nothing in pool.map(look, chosen):
            excused = any(fnmatch.fnmatch(key, pattern) for pattern in NOTHING)
            if not tried:
                untried.append(key)
            if tried and not changed and not excused:
                ignored.append(key)
            if nothing and ((tried and not changed and not excused) or options.everywhere):
                for name, path, values in nothing[:4]:
                    print("%s %s: %s%s with %s" % ("IGNORED" if not changed else "here only", key, name, path, json.dumps(values)[:150]), flush=True)
        print("%d keys, %d of them in no document that takes another value%s" % (
            len(chosen), len(untried), ": " + " ".join(untried) if options.v else ""))
    return bool(ignored)


sys.exit(main())
