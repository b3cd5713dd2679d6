"""How the programs of this folder run stepc: documents and tensors are written into a folder, compiled or interpreted there,
and read back; a folder can be kept as a recorded case (in the form of tests/parity/cases). It needs numpy alone.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import struct
import subprocess
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "parity")]
import run as parity  # reads safetensors and metrics

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int32": "I32", "uint32": "U32", "bool": "BOOL"}
TIMEOUT = 600


class Failed(Exception):
    """stepc did not end with 0. `refused`: the document is at fault; `unsupported`: it says "not supported yet"."""

    def __init__(self, verb, code, said):
        super().__init__("%s ended with %s: %s" % (verb, code, said.strip()))
        self.verb, self.code, self.said = verb, code, said
        self.refused, self.unsupported = code == 1, "not supported yet" in said

    def brief(self, length=700):
        return re.sub(r"\s+", " ", str(self))[:length]


# ---------------------------------------------------------------- draws

class Draws:
    """What is drawn from a seed: the same for the same seed."""

    def __init__(self, seed):
        self.r = np.random.default_rng(seed)

    def chance(self, p=0.5):
        return bool(self.r.random() < p)

    def one(self, items):
        items = list(items)
        return items[self.r.integers(len(items))]

    def n(self, low, high):
        return int(self.r.integers(low, high + 1))

    def uniform(self, low, high):
        return float("%.3g" % self.r.uniform(low, high))


# ---------------------------------------------------------------- files

def write_tensors(path, tensors):
    """A safetensors file of a map of names to arrays."""
    header, at, blobs = {}, 0, []
    for k in sorted(tensors):
        v = np.ascontiguousarray(tensors[k])
        header[k] = {"dtype": DTYPES[v.dtype.name], "shape": list(np.shape(tensors[k])), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
        blobs.append(v.tobytes())
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + b"".join(blobs))


def header(path):
    """name -> {"dtype", "shape", ..} of a safetensors file."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        return json.loads(f.read(n))


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f, indent=1)


def text_of(x):
    """A number as expected.json has it."""
    if isinstance(x, (list, tuple)):
        return [text_of(y) for y in x]
    return "NaN" if x != x else "Infinity" if x == np.inf else "-Infinity" if x == -np.inf else x


def write_document(folder, document, data, init=None):
    """model.json, data.safetensors (a leading dimension counts steps) and, unless stepc draws them, init.safetensors."""
    os.makedirs(folder, exist_ok=True)
    write_json(os.path.join(folder, "model.json"), document)
    write_tensors(os.path.join(folder, "data.safetensors"), data)
    if init is not None:
        write_tensors(os.path.join(folder, "init.safetensors"), init)


def write_case(folder, document, data, init, steps, tensors, metrics, rtol, atol, note):
    """A recorded case: a document and what must come out."""
    write_document(folder, document, data, init)
    write_tensors(os.path.join(folder, "expected.safetensors"), tensors)
    write_json(os.path.join(folder, "expected.json"), {k: text_of(list(v)) for k, v in metrics.items()})
    write_json(os.path.join(folder, "case.json"), {"steps": steps, **({"init": False} if init is None else {}), "rtol": rtol, "atol": atol, "note": note, "variants": [[]]})


# ---------------------------------------------------------------- stepc

def call(stepc, *arguments, timeout=TIMEOUT):
    """What stepc says, or Failed."""
    try:
        done = subprocess.run([stepc, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(arguments[0], "a time-out", "it took more than %g s" % timeout) from None
    if done.returncode:
        raise Failed(arguments[0], done.returncode, (done.stderr + done.stdout).decode("utf-8", "replace"))
    return done.stdout.decode("utf-8", "replace")


def compile_document(stepc, folder, arguments=(), into="step.so", timeout=TIMEOUT):
    call(stepc, "compile", os.path.join(folder, "model.json"), "-q", "-o", os.path.join(folder, into), *arguments, timeout=timeout)


def train(stepc, folder, steps, program="model.json", data="data.safetensors", arguments=(), threads=1, timeout=TIMEOUT):
    """The tensors that are saved and a list of metrics per step, by an object or, for a document, by the interpreter."""
    at = lambda name: os.path.join(folder, name)
    init = ["--init", at("init.safetensors")] if os.path.exists(at("init.safetensors")) else []
    call(stepc, "run", at(program), "--steps", str(steps), "--data", at(data), *init, "--save", at("out.safetensors"), "--metrics", at("metrics.jsonl"),
         "-q", *(["--threads", str(threads)] if threads else []), *arguments, timeout=timeout)
    with open(at("metrics.jsonl")) as f:
        return parity.tensors(at("out.safetensors")), [json.loads(line) for line in f]


def play(stepc, folder, steps, compiled, compile_arguments=()):
    """What `train` gives for the document of the folder."""
    if compiled:
        compile_document(stepc, folder, compile_arguments)
    return train(stepc, folder, steps, "step.so" if compiled else "model.json")


def series(lines, names):
    """name -> its values in the order of steps."""
    return {k: [parity.numbers(line.get(k, "NaN")) for line in lines] for k in names}


# ---------------------------------------------------------------- the command line

def parser(description, cases, keep=True):
    """What all of them can be asked."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--cases", type=int, default=cases)
    if keep:
        p.add_argument("--keep", help="folder for the cases that disagree")
    p.add_argument("-v", action="store_true", help="say something of every case")
    return p


def options(p):
    """What is asked of those that draw a case from each seed."""
    p.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    p.add_argument("--compile", type=float, default=0.3, help="the part of the cases that is compiled instead of interpreted")
    p.add_argument("--compile-args", default="")
    p.add_argument("-j", type=int, default=1)
    return p.parse_args()


QUIET = ("agrees", "unsettled", "empty", "left out", "refused by Optax", "refused alone")


def loop(options, one, clear=lambda: None):
    """Plays cases, one(options, seed) -> (outcome, why, what the case is), and says what is not as it should be: the exit code.
    `clear` is called now and then."""
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(getattr(options, "j", 1)) as pool:
        seeds = range(options.seed, options.seed + options.cases)
        for seed, (outcome, why, text) in zip(seeds, pool.map(lambda seed: one(options, seed), seeds)):
            counts[outcome] += 1
            if options.v or outcome not in QUIET:
                print("%s %d: %s\n    %s" % (outcome, seed, why, text), flush=True)
            if counts.total() % 25 == 0:
                clear()
    print(summary(counts))
    return 1 if counts["differs"] or counts["fails"] or counts["generator"] else 0


def record(description, names, one):
    """The command line of those that record cases, one(name, folder of the cases): all of them, or those that are named."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME", help="of " + ", ".join(names))
    p.add_argument("--out", default=os.path.join(ROOT, "tests", "parity", "cases"))
    options = p.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        p.error("no case %s; there are %s" % (", ".join(sorted(unknown)), ", ".join(names)))
    for name in options.names or names:
        one(name, options.out)


def types_in(o):
    """Every type that is named in a document, or in a part of it."""
    if isinstance(o, dict):
        return ([o["type"]] if isinstance(o.get("type"), str) else []) + [n for v in o.values() for n in types_in(v)]
    return [n for v in o for n in types_in(v)] if isinstance(o, list) else []


def summary(counts):
    return ", ".join("%d %s" % (n, k) for k, n in counts.most_common())
