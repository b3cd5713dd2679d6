#!/usr/bin/env python3
"""Plays the recorded cases against a stepc and compares every number.

A case is a folder: model.json, init.safetensors (unless case.json says "init": false), data.safetensors (one tensor per
input, leading dimension = step), expected.safetensors (tensors after the last step), expected.json (a list per metric,
one entry per step), case.json (steps, rtol, atol, variants of arguments for compile, `set`: values set by the host).
A value agrees if |got - expected| <= atol + rtol * |expected|.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U64": "u8", "U32": "u4",
          "U16": "u2", "U8": "u1", "BOOL": "?"}


class Failed(Exception):
    pass


class Unsupported(Exception):
    pass


def tensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        data = raw[8 + n + begin:8 + n + end]
        if t["dtype"] == "BF16":
            values = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = np.frombuffer(data, "<" + DTYPES[t["dtype"]])
        out[name] = values.reshape(t["shape"]).astype("f8")
    return out


def numbers(value):
    """A metric as recorded or reported: a number, "NaN" and the like, or nested arrays."""
    return np.array([numbers(v) for v in value]) if isinstance(value, list) else np.float64(value)


def agree(what, got, want, case):
    got, want = np.asarray(got, "f8"), np.asarray(want, "f8")
    if got.shape != want.shape:
        raise Failed("%s: shape %s, expected %s" % (what, list(got.shape), list(want.shape)))
    with np.errstate(invalid="ignore"):
        bad = ~((np.abs(got - want) <= case["atol"] + case["rtol"] * np.abs(want)) | (got == want) | (np.isnan(got) & np.isnan(want)))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise Failed("%s%s: %.9g, expected %.9g (%d of %d differ)" % (what, list(at) if at else "", got[at], want[at], bad.sum(), bad.size))


def stepc(options, arguments):
    try:
        done = subprocess.run([options.stepc, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=options.timeout)
    except subprocess.TimeoutExpired:
        raise Failed("%s took more than %g s" % (arguments[0], options.timeout))
    return done.returncode, (done.stderr + done.stdout).decode("utf-8", "replace")


def must_succeed(options, arguments):
    code, text = stepc(options, arguments)
    if code == 1 and "not supported yet" in text:
        raise Unsupported(next(line for line in text.splitlines() if "not supported yet" in line))
    if code != 0:
        raise Failed("%s ended with %d: %s" % (arguments[0], code, text.strip()[:400] or "nothing said"))


def spread(path, devices, tmp):
    """The document with its inputs split over a mesh axis named batch, which no recorded case knows of."""
    with open(path) as f:
        document = json.load(f)
    inputs = [i for i in document["inputs"].values() if i["shape"]]
    for i in inputs:
        if i["shape"][0] == inputs[0]["shape"][0]:
            i["axes"] = ["batch"] + [None] * (len(i["shape"]) - 1)
    document["mesh"] = {"axes": {"batch": devices}}
    sharding = document.get("sharding", {})  # logical names that only the optimizer's factor rules know
    names = {name for spec in sharding.get("params", {}).values() for name in spec if isinstance(name, str)}
    if names and not sharding.get("rules"):
        sharding["rules"] = [[name, None] for name in sorted(names)]
    out = os.path.join(tmp, "model.json")
    with open(out, "w") as f:
        json.dump(document, f)
    return out


def play_case(options, folder, variant, tmp):
    file = lambda name: os.path.join(folder, name)
    with open(file("case.json")) as f:
        case = json.load(f)
    model = spread(file("model.json"), options.spread, tmp) if options.spread else file("model.json")
    step, final, metrics = (os.path.join(tmp, n) for n in ("step.so", "final.safetensors", "metrics.jsonl"))
    if options.interpret:
        arguments = ["run", model, *variant]
    else:
        must_succeed(options, ["compile", model, "-o", step, *variant, *options.compile_args])
        arguments = ["run", step]
    arguments += ["--steps", str(case["steps"]), "--data", file("data.safetensors"), "--save", final, "--metrics", metrics]
    if case.get("init", True):
        arguments += ["--init", file("init.safetensors")]
    for at, values in case.get("set", {}).items():
        for name, value in values.items():
            arguments += ["--set", "%s=%s@%s" % (name, json.dumps(value), at)]
    must_succeed(options, arguments)
    got = tensors(final)
    for name, want in tensors(file("expected.safetensors")).items():
        if name not in got:
            raise Failed("tensor %s was not saved; there are %s" % (name, ", ".join(sorted(got))[:200]))
        agree("tensor " + name, got[name], want, case)
    with open(file("expected.json")) as f:
        expected = json.load(f)
    rows = [json.loads(line) for line in open(metrics)] if expected else []
    for name, series in expected.items():
        for i, want in enumerate(series):
            if i >= len(rows) or rows[i].get("step") != i + 1 or name not in rows[i]:
                raise Failed("step %d reports no metric %s" % (i + 1, name))
            agree("metric %s at step %d" % (name, i + 1), numbers(rows[i][name]), numbers(want), case)


def play_error(options, stem, _, tmp):
    with open(stem + ".expect") as f:
        demands = [line.strip("\n") for line in f if line.strip()]
    extra = [a for d in demands if d.startswith("args ") for a in d.split()[1:]]
    step = os.path.join(tmp, "step.so")
    code, text = stepc(options, ["compile", stem + ".json", "-o", step, *extra])
    for demand in demands:
        word, _, rest = demand.partition(" ")
        if word == "exit":
            met = str(code) in rest.split("|")
        elif word in ("line", "column") and rest.isdigit():
            met = re.search(r"\b%s %s\b|:%s%s\b" % (word, rest, r"\d+:" if word == "column" else "", rest), text)
        elif word == "any":
            met = any(part.strip().lower() in text.lower() for part in rest.split("|"))
        else:
            met = word == "args" or demand in text
        if not met:
            if code == 1 and "not supported yet" in text:
                raise Unsupported(text.strip().splitlines()[0])
            raise Failed("%r is not met (exit %d): %s" % (demand, code, text.strip()[:300]))
    if os.path.exists(step):
        raise Failed("refused, but an object was written")


def jobs(options, listed):
    among = lambda name, globs: any(fnmatch.fnmatchcase(name, g) for g in globs)
    wanted = lambda name: (not options.only or among(name, options.only)) and not among(name, options.without)
    if options.errors:
        folder = os.path.join(HERE, "errors")
        for name in sorted(os.listdir(folder)):
            stem, end = os.path.splitext(name)
            if end == ".expect" and wanted(stem):
                yield play_error, "errors/" + stem, os.path.join(folder, stem), []
        return
    folder = os.path.join(HERE, "cases")
    for name in sorted(os.listdir(folder)):
        if not wanted(name) or (options.supported and name in listed):
            continue
        with open(os.path.join(folder, name, "model.json")) as f:
            if options.spread and "mesh" in json.load(f):
                continue  # it has a mesh of its own
        with open(os.path.join(folder, name, "case.json")) as f:
            variants = json.load(f).get("variants") or [[]]
        for variant in variants if options.mesh else variants[:1]:
            yield play_case, " ".join([name, *variant]), os.path.join(folder, name), variant


def play(options, job):
    run, label, path, variant = job
    with tempfile.TemporaryDirectory(prefix="stepc-parity-") as tmp:
        try:
            run(options, path, variant, tmp)
            return label, "passed", ""
        except Unsupported as e:
            return label, "unsupported", str(e)
        except (Failed, OSError, ValueError, KeyError) as e:
            return label, "failed", str(e)


def main():
    p = argparse.ArgumentParser(description="Plays the recorded cases against a stepc.")
    p.add_argument("--stepc", default="build/stepc")
    p.add_argument("--interpret", action="store_true", help="run the documents by the interpreter")
    p.add_argument("--mesh", action="store_true", help="every variant of a case, not only the first")
    p.add_argument("--spread", type=int, default=0, metavar="N", help="every case on N devices, its inputs split along their first dimension")
    p.add_argument("--errors", action="store_true", help="the invalid documents instead")
    p.add_argument("--supported", action="store_true", help="leave out the cases of unsupported.txt")
    p.add_argument("--list", default=os.path.join(HERE, "unsupported.txt"), help="cases not supported yet")
    p.add_argument("--update", action="store_true", help="take passing cases off the list (it can only shrink)")
    p.add_argument("--without", action="append", default=[], metavar="GLOB", help="not these cases")
    p.add_argument("--compile-args", type=str.split, default=[])
    p.add_argument("--timeout", type=float, default=600)
    p.add_argument("-j", type=int, default=os.cpu_count())
    p.add_argument("-v", action="store_true")
    p.add_argument("only", nargs="*", metavar="GLOB")
    options = p.parse_args()
    options.stepc = os.path.abspath(options.stepc)
    with open(options.list) as f:
        listed = {line.strip() for line in f if line.strip() and not line.startswith("#")}
    counts, passed_though_listed = {"passed": 0, "failed": 0, "unsupported": 0}, set()
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for label, outcome, why in pool.map(lambda job: play(options, job), jobs(options, listed)):
            name = label.split()[0]
            if outcome == "unsupported" and name not in listed:
                outcome, why = "failed", why + " (and the list does not say so)"
            elif outcome == "passed" and name in listed:
                passed_though_listed.add(name)
            elif outcome == "failed" and name in listed:
                why += " (listed as not supported yet: the error must say so)"
            counts[outcome] += 1
            if outcome == "failed" or options.v:
                print("%-11s %s%s" % (outcome, label, ": " + why if why else ""), flush=True)
    if passed_though_listed and options.update:
        with open(options.list) as f:
            lines = f.readlines()
        with open(options.list, "w") as f:
            f.writelines(line for line in lines if line.strip() not in passed_though_listed)
    elif passed_though_listed:
        print("these pass and must leave %s: %s" % (os.path.basename(options.list), " ".join(sorted(passed_though_listed))))
        counts["failed"] += len(passed_though_listed)
    print("%(passed)d passed, %(failed)d failed, %(unsupported)d not supported yet" % counts)
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
