#!/usr/bin/env python3
"""What any training obeys, whatever the model: the documents that `stepc init` writes and the samples, made small. A learning rate
of 0 changes no bit; one batch is learnt by heart; microbatches, devices, the order of the rows, rows that the loss masks and the
names of things change nothing beyond rounding; a language model that knows nothing has the loss ln(vocabulary); averages of weights,
clipped gradients and adapters are their closed forms; 300 steps of a transformer go as in PyTorch (curve.json, which curve.py
records). Each law is also broken on purpose and must notice.

    tests/training/training.py build/stepc [--quick] [MODEL...]
"""
import argparse
import concurrent.futures
import copy
import itertools
import json
import math
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(ROOT, "samples")]
from tool import runner

import numpy as np

import curve
import stepc

TEMPLATES = ("mlp", "cnn", "gpt2", "llama", "lora", "microbatches")
SAMPLES = ("cookbook", "digits", "shakespeare")
OWN = ("recurrent", "residual", "vision")  # documents beside this file
QUICK = ("mlp", "cnn", "gpt2", "lora")
SMALL = {"batch": 8, "context": 12, "vocabulary": 64, "width": 32, "heads": 4, "kv_heads": 2, "depth": 8, "inner": 64, "layers": 2,
         "hidden": 32, "size": 12}
ROWS = 8
ROUNDING = 1e-6  # of parameters and losses of about 1, after a step of plain descent
LEARNT, STEPS = 0.01, 600


def without_noise(node):
    """The document without dropout, whose noise is another one for each microbatch, device and row."""
    if isinstance(node, dict):
        return {k: 0.0 if k == "rate" and node.get("type") == "dropout" else without_noise(v) for k, v in node.items()}
    return [without_noise(v) for v in node] if isinstance(node, list) else node


def document(stepc_program, name):
    if name in TEMPLATES:
        text = runner.call(stepc_program, "init", name)
    else:
        with open(os.path.join(HERE, name + ".json") if name in OWN else os.path.join(ROOT, "samples", name, "model.json")) as f:
            text = f.read()
    out = without_noise(json.loads(text))
    for key in ("accumulate", "ema", "mesh", "sharding", "metrics"):
        out.pop(key, None)
    out["constants"] = {k: SMALL.get(k, v) for k, v in out.get("constants", {}).items()}
    for i in out["inputs"].values():
        i["shape"][0] = ROWS
    return out


def batch_of(d):
    """Rows of which no two begin alike, so that all can be learnt."""
    rng, constants = np.random.default_rng(0), d["constants"]
    kinds = constants.get("vocabulary") or constants.get("classes") or 10
    out = {}
    for name, i in d["inputs"].items():
        shape = [constants[n[1:]] if isinstance(n, str) else n for n in i["shape"]]
        out[name] = rng.standard_normal(shape).astype("f4") if i["dtype"] == "float32" else rng.integers(0, kinds, shape).astype("i4")
    if "tokens" in out:
        out["tokens"][:, 0] = np.arange(ROWS)
    return out


class Model:
    def __init__(self, program, d, folder, batch=None, numbers=None):
        self.program, self.document, self.folder, self.next = program, d, folder, numbers or itertools.count()
        self.batch = batch or batch_of(d)

    def kinds(self):
        """How many classes or words there are; None: the loss is another one."""
        constants = self.document["constants"]
        return constants.get("vocabulary") or constants.get("classes")

    def linear(self):
        return {l["type"] for l in self.document["model"].get("layers", [{"type": "graph"}])} == {"linear"}

    def build(self, optimizer, *options, **keys):
        path = os.path.join(self.folder, "%d" % next(self.next))
        with open(path + ".json", "w") as f:
            json.dump(dict(copy.deepcopy(self.document), optimizer=optimizer, **keys), f)
        runner.call(self.program, "compile", "-q", path + ".json", "-o", path + ".so", *options, verify=False)
        m = stepc.Step(path + ".so", threads=1)
        m.init()
        return m

    def begun(self):
        with self.build({"type": "sgd", "learning_rate": 0.1}) as m:
            return {n: m[n] for n in m.names()}

    def descended(self, batch, *options, **keys):
        """Loss and parameters after one step of plain descent."""
        with self.build({"type": "sgd", "learning_rate": 0.1}, *options, **keys) as m:
            loss = m.step(**batch).loss
            return dict({n: m[n] for n in m.names()}, loss=np.float32(loss))


def apart(a, b):
    """The largest difference, of numbers above 1 by their size."""
    return max(float(np.max(np.abs(a[n].astype("f8") - b[n]) / np.maximum(1, np.abs(b[n])), initial=0)) for n in b)


# Laws: what is measured, and the same where the law is broken on purpose; a measure within the bound holds.


def no_rate(m, broken):
    """A learning rate of 0 changes no bit of a parameter."""
    with m.build({"type": "adam", "learning_rate": 1e-7 if broken else 0.0}) as step:
        before = {n: step[n] for n in step.names()}
        for _ in range(3):
            step.step(**m.batch)
        return sum(step[n].tobytes() != before[n].tobytes() for n in before)


def learnt(m, broken):
    """One batch is learnt by heart; not without a learning rate."""
    if m.linear():
        return None
    with m.build({"type": "adam", "learning_rate": 0.0 if broken else 5e-3}) as step:
        for _ in range(STEPS):
            loss = step.step(**m.batch).loss
            if loss < LEARNT / 2:
                break
        return loss


def microbatches(m, broken):
    """A batch in four parts is one batch; not if a row is another one."""
    if "batch_norm" in json.dumps(m.document):
        return None  # which makes statistics of each part
    return apart(m.descended(other(m.batch) if broken else m.batch, accumulate={"microbatch_size": 2}), m.descended(m.batch))


def devices(m, broken):
    """Two devices with half of the rows each are one with all."""
    split = {"rules": [["batch", "data"]]}
    return apart(m.descended(other(m.batch) if broken else m.batch, "--mesh", "data=2", sharding=split), m.descended(m.batch))


def permuted(m, broken):
    """The order of the rows is nothing; that of one input alone is not."""
    order = np.random.default_rng(1).permutation(ROWS)
    names = list(m.batch)[:1] if broken else list(m.batch)
    return apart(m.descended({n: v[order] if n in names else v for n, v in m.batch.items()}), m.descended(m.batch))


def unknowing(m, broken):
    """Weights near 0 tell nothing: the loss is ln(vocabulary), or of as many classes; as it begins too where the document says
    how narrow its weights are."""
    if not m.kinds():
        return None
    worst, narrow = 0, "stddev" in json.dumps(m.document)
    for scale in (30.0,) if broken else (0.05, 1.0) if narrow else (0.05,):
        with m.build({"type": "sgd", "learning_rate": 0.0}) as step:
            for n in step.names():
                step[n] = step[n] * np.float32(scale)
            worst = max(worst, abs(step.step(**m.batch).loss / math.log(m.kinds()) - 1))
    return worst


def other(batch):
    """The batch with its last row replaced by the first."""
    return {n: np.concatenate([v[:-1], v[:1]]) for n, v in batch.items()}


def with_rows(m, rows, masked):
    """The document with other rows, a part of which is kept, and the batch with rows of nonsense behind; labels too, if they are masked."""
    d = copy.deepcopy(m.document)
    for i in d["inputs"].values():
        i["shape"][0] = rows
    d["inputs"]["kept"] = {"shape": [rows], "dtype": "bool", "axes": ["batch"]}
    loss, rank = d["loss"], len(d["inputs"][list(m.batch)[-1]]["shape"])
    kept = "kept" + "[:, None]" * (rank == 2)
    each = "%s(%s, %s, where=%s)" % (loss["type"], loss["logits"], loss["labels"], kept) if isinstance(loss, dict) else "where(%s, %s, 0)" % (kept, loss[5:-1])
    per_row = int(np.prod(m.batch[list(m.batch)[-1]].shape[1:]))
    d["loss"] = "sum(%s) / (sum(kept) * %d)" % (each, per_row)
    d.pop("metrics", None)
    rng, batch = np.random.default_rng(2), {}
    for name, v in m.batch.items():
        nonsense = rng.permutation(v)[:rows - ROWS]
        batch[name] = np.concatenate([v, -nonsense - 1 if masked and name == (loss["labels"] if isinstance(loss, dict) else "") else nonsense])
    batch["kept"] = np.arange(rows) < (ROWS if masked else rows)
    return d, batch


def padded(m, broken):
    """Rows that the loss masks are nothing, whatever they hold; others are something."""
    if "batch_norm" in json.dumps(m.document):
        return None  # which sees them
    d, batch = with_rows(m, ROWS + 4, not broken)
    return apart(Model(m.program, d, m.folder, batch, m.next).descended(batch), m.descended(m.batch))


def renamed(m, broken):
    """Other names of inputs and layers, in another order of the alphabet, change no bit; other numbers to begin with do."""
    text = json.dumps(m.document)
    names = set(m.document["inputs"]) | set(re.findall(r'"name": "(\w+)"', json.dumps([m.document["model"], m.document.get("define")])))
    names -= set(m.document["constants"]) | {"x"}  # which is also what a layer reads
    new = {n: "%s_%s" % ("zyxwvutsrqponmlkjihgfedcba"[i % 26], n) for i, n in enumerate(sorted(names))}

    def change(node, key=None):
        if isinstance(node, dict):
            return {new.get(k, k) if key == "inputs" else k: change(v, k) for k, v in node.items()}
        if isinstance(node, list):
            return [change(v, key) for v in node]
        fixed = key in ("type", "dtype", "axes", "//") or not isinstance(node, str)
        return node if fixed else re.sub(r"(?<![\w'\"])(%s)(?!\w)" % "|".join(map(re.escape, new)), lambda n: new[n[1]], node)

    d = change(json.loads(text))
    batch = {new.get(n, n): v for n, v in m.batch.items()}
    other_numbers = {"seed": 1} if broken else {}
    ours, theirs = Model(m.program, d, m.folder, batch, m.next).descended(batch, **other_numbers), m.descended(m.batch)
    back = lambda n: re.sub(r"(?<!\w)[a-z]_(%s)(?!\w)" % "|".join(map(re.escape, names)), r"\1", n)
    return sum(v.tobytes() != theirs[back(n)].tobytes() for n, v in ours.items())


def averaged(m, broken):
    """The average of the weights is d a + (1 - d) w after every step, from the weights themselves."""
    decay, worst = 0.9, 0
    with m.build({"type": "sgd", "learning_rate": 0.1}, ema={"decay": decay}) as step:
        averages = step.names(stepc.EMA)
        plain = lambda n: n[len("ema."):]
        expected = {n: step[n].astype("f8") for n in averages}
        for _ in range(3):
            step.step(**m.batch)
            for n in averages:
                expected[n] = (decay + 0.05 * broken) * expected[n] + (1 - decay - 0.05 * broken) * step[plain(n)]
        for n in averages:
            worst = max(worst, float(np.max(np.abs(step[n] - expected[n]), initial=0)))
    return worst


def clipped(m, broken):
    """Clipping by the norm of all gradients is one factor of a step of plain descent."""
    before, plain = m.begun(), m.descended(m.batch)
    step = {n: before[n].astype("f8") - plain[n] for n in before}
    norm = math.sqrt(sum(float(np.sum(v**2)) for v in step.values())) / 0.1
    most = norm / 3
    with m.build({"type": "chain", "transforms": [{"type": "clip_by_global_norm", "max_norm": most}, {"type": "sgd", "learning_rate": 0.1}]}) as c:
        c.step(**m.batch)
        got = {n: c[n] for n in c.names()}
    factor = 1 if broken else most / norm
    return max(float(np.max(np.abs(got[n] - (before[n] - factor * step[n])) / np.maximum(1, np.abs(before[n])), initial=0)) for n in before)


def adapted(m, broken):
    """An adapter beside a layer is the layer with kernel W + a b."""
    if "batch_norm" in json.dumps(m.document) or m.document.get("adapters"):
        return None
    frozen = {"type": "sgd", "learning_rate": 0.0}
    rank, rng = 2, np.random.default_rng(3)
    with m.build(frozen, adapters=[{"type": "lora", "rank": rank, "match": ["**"]}], trainable=["@lora"]) as with_adapters, m.build(frozen) as alone:
        pairs = sorted(n[:-len("lora_a")] for n in with_adapters.names() if n.endswith("lora_a"))
        if not pairs:
            return None
        for n in alone.names():
            alone[n] = with_adapters[n]
        for p in pairs:
            a, b = (0.5 * rng.standard_normal(with_adapters[p + x].shape).astype("f4") for x in ("lora_a", "lora_b"))
            with_adapters[p + "lora_a"], with_adapters[p + "lora_b"] = a, b
            kernel = alone[p + "kernel"]
            alone[p + "kernel"] = kernel + (0.5 if broken else 1) * (a.reshape(-1, rank) @ b.reshape(rank, -1)).reshape(kernel.shape)
        return abs(with_adapters.step(**m.batch).loss - alone.step(**m.batch).loss)


LAWS = {no_rate: 0, learnt: LEARNT, microbatches: ROUNDING, devices: ROUNDING, permuted: ROUNDING, unknowing: 0.02, padded: ROUNDING,
        renamed: 0, averaged: ROUNDING, clipped: ROUNDING, adapted: 1e-5}


def one(arguments):
    program, name = arguments
    wrong, said = [], []
    with tempfile.TemporaryDirectory() as folder:
        m = Model(program, document(program, name), folder)
        for law, bound in LAWS.items():
            try:
                holds, breaks = law(m, False), law(m, True)
            except (runner.Failed, stepc.StepError) as e:
                wrong.append("%s, %s: %s" % (name, law.__name__, e))
                continue
            if holds is None:
                continue
            said.append("%s %.2g (broken %.2g)" % (law.__name__, holds, breaks))
            if not holds <= bound:
                wrong.append("%s, %s: %g, at most %g" % (name, " ".join(law.__doc__.split()), holds, bound))
            if not breaks > bound:
                wrong.append("%s: broken on purpose, it is not noticed (%g): %s" % (name, breaks, " ".join(law.__doc__.split())))
    return name, said, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stepc")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--quick", action="store_true", help="some")
    parser.add_argument("only", nargs="*")
    options = parser.parse_intermixed_args()
    names = options.only or (QUICK if options.quick else TEMPLATES + SAMPLES + OWN)
    count = 0
    for why in [] if options.only else curve.differences(options.stepc):
        print(why)
        count += 1
    with concurrent.futures.ProcessPoolExecutor(options.j) as pool:
        for name, said, wrong in pool.map(one, [(options.stepc, n) for n in names]):
            if options.v:
                print(name + ":", "; ".join(said))
            for why in wrong:
                print(why)
            count += len(wrong)
    print("%d models; %d laws do not hold" % (len(names), count))
    sys.exit(count > 0 or not names)


if __name__ == "__main__":
    main()
