#!/usr/bin/env python3
"""Plays the recorded cases against a stepc and compares every number, and gives it the documents that it must refuse. What a
case is says tests/tool/recorded.py. A value agrees if |got - expected| <= atol + rtol * |expected|.
"""
import argparse
import concurrent.futures
import fnmatch
import itertools
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import comparison, recorded, runner, safetensors


class Unsupported(Exception):
    pass


def must_succeed(options, *arguments):
    try:
        runner.call(options.stepc, *arguments, timeout=options.timeout)
    except runner.Failed as e:
        if e.unsupported:
            raise Unsupported(next(line for line in e.said.splitlines() if "not supported yet" in line)) from None
        raise


def spread(document, devices):
    """The document with its inputs split over a mesh axis named batch, which no recorded case knows of."""
    inputs = [i for i in document["inputs"].values() if i["shape"]]
    for i in inputs:
        if i["shape"][0] == inputs[0]["shape"][0]:
            i["axes"] = ["batch"] + [None] * (len(i["shape"]) - 1)
    document["mesh"] = {"axes": {"batch": devices}}
    sharding = document.get("sharding", {})  # logical names that only the optimizer's factor rules know
    names = {name for spec in sharding.get("params", {}).values() for name in spec if isinstance(name, str)}
    if names and not sharding.get("rules"):
        sharding["rules"] = [[name, None] for name in sorted(names)]
    return document


def play_case(options, case, variant, tmp):
    model = case.unpack(tmp, spread(case.document, options.spread) if options.spread else None)
    file = lambda name: os.path.join(tmp, name)
    if options.interpret:
        arguments = ["run", model, *variant]
    else:
        must_succeed(options, "compile", model, "-o", file("step.so"), *variant, *options.compile_args)
        arguments = ["run", file("step.so")]
    init = ["--init", file("init.safetensors")] if case.raw("init") else []
    must_succeed(options, *arguments, "--steps", str(case.steps), "--data", file("data.safetensors"), "--save", file("final.safetensors"),
                 "--metrics", file("metrics.jsonl"), *init, *case.sets())
    case.check(safetensors.wide(file("final.safetensors")), runner.metrics(file("metrics.jsonl")))


def met(demand, code, text):
    """Whether what must be said was said."""
    word, _, rest = demand.partition(" ")
    if word == "exit":
        return str(code) in rest.split("|")
    if word in ("line", "column") and rest.isdigit():
        return re.search(r"\b%s %s\b|:%s%s\b" % (word, rest, r"\d+:" if word == "column" else "", rest), text)
    if word == "any":
        return any(part.strip().lower() in text.lower() for part in rest.split("|"))
    return demand in text


def play_error(options, name, _, tmp):
    keys, document = recorded.error(name)
    model, step = os.path.join(tmp, "refused.json"), os.path.join(tmp, "step.so")
    with open(model, "wb") as f:
        f.write(document)
    done = runner.attempt(options.stepc, "compile", model, "-o", step, *keys.get("arguments", []), timeout=options.timeout)
    text = (done.stderr + done.stdout).replace(tmp, "")
    for demand in keys["expect"]:
        if not met(demand, done.returncode, text):
            if done.returncode == 1 and "not supported yet" in text:
                raise Unsupported(text.strip().splitlines()[0])
            raise comparison.Differs("%r is not met (exit %d): %s" % (demand, done.returncode, text.strip()[:300]))
    if os.path.exists(step):
        raise comparison.Differs("refused, but an object was written")


def jobs(options, listed):
    if options.errors:
        for name in recorded.error_names():
            if not options.only or any(fnmatch.fnmatchcase(name, g) for g in options.only):
                yield play_error, "errors/" + name, name, []
        return
    for name in recorded.names(options.only, options.without):
        if options.supported and name in listed:
            continue
        case = recorded.load(name)
        if options.spread and "mesh" in case.document:
            continue  # it has a mesh of its own
        for variant in case.variants if options.mesh else case.variants[:1]:
            yield play_case, " ".join([name, *variant]), case, variant


def play(options, job):
    run, label, what, variant = job
    with tempfile.TemporaryDirectory(prefix="stepc-parity-") as tmp:
        try:
            run(options, what, variant, tmp)
            return label, "passed", ""
        except Unsupported as e:
            return label, "unsupported", str(e)
        except (comparison.Differs, runner.Failed, OSError, ValueError, KeyError) as e:
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
    p.add_argument("--every", type=int, default=1, metavar="N", help="one of N of these cases")
    p.add_argument("--first", action="store_true", help="end at the first that fails")
    p.add_argument("--timeout", type=float, default=600)
    p.add_argument("-j", type=int, default=os.cpu_count())
    p.add_argument("-v", action="store_true")
    p.add_argument("only", nargs="*", metavar="GLOB")
    options = p.parse_args()
    options.stepc = runner.Server.of(options.stepc)
    with open(options.list) as f:
        listed = {line.strip() for line in f if line.strip() and not line.startswith("#")}
    counts, passed_though_listed = {"passed": 0, "failed": 0, "unsupported": 0}, set()
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for label, outcome, why in pool.map(lambda job: play(options, job), itertools.islice(jobs(options, listed), 0, None, options.every)):
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
            if outcome == "failed" and options.first:
                pool.shutdown(wait=True, cancel_futures=True)
                return 1
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
