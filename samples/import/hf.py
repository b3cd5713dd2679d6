#!/usr/bin/env python3
"""Decoders of Hugging Face (GPT-2, Llama and the families of families.py) to stepc and back; needs NumPy alone.

    python3 hf.py import gpt2/ -o work/            # config.json + safetensors -> work/model.json, work/init.safetensors, work/names.json
    stepc compile work/model.json -o step.so
    stepc run step.so --steps 100 --init work/init.safetensors --data tokens.safetensors --save final.safetensors
    python3 hf.py export gpt2/ final.safetensors -o tuned/   # the same names, dtypes, shapes and files that gpt2/ has
    python3 hf.py import gpt2/ --peft adapter/ -o work/      # with LoRA adapters, as PEFT wrote them
    python3 hf.py export gpt2/ final.safetensors --peft -o adapter/   # these alone, as PEFT reads them

What comes in untouched goes out bit for bit; what LoRA adapters of the document have learnt is added to the kernels that they
stand beside, which is said, unless --peft asks for the adapters alone. A tensor that would not go out is an error that names it; the optimizer's state, counters and keys stay behind. A
value of config.json that would change the numbers and is not covered is an error that names its key, and so is a key that
nobody here knows (`--ignore KEY` takes the responsibility). What each model needs is in gpt2.py, and in decoders.py with families.py: its
document, and a table of weights. names.json is that table for `stepc checkpoint export --names`, which then needs neither Python nor the
original weights.
"""
import argparse
import json
import os
import re
import shutil
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import decoders
import families
import gpt2
import peft_adapters
import tensors
from config import Config
from tensors import Bad

MODELS = {"gpt2": gpt2, **{name: decoders for name in families.FAMILIES}}


def read_config(folder, ignore=()):
    path = os.path.join(folder, "config.json")
    try:
        values = tensors.read_json(path)
    except OSError as e:
        raise Bad("%s: %s" % (path, e.strerror))
    kind = values.get("model_type")
    if type(kind) is not str or kind not in MODELS:
        raise Bad("%s: \"model_type\" is %s; there are %s" % (path, json.dumps(kind), ", ".join(MODELS)))
    config = Config(path, values, ignore)
    c = MODELS[kind].read(config)
    config.finish()
    return MODELS[kind], c


def table_of(weights, prefix, c):
    """Weights by their names in the file; the head stands beside the model, so it has no prefix."""
    return {(w.name if w.name in c.head_names else prefix + w.name): w for w in weights}


def check_weights(model, weights, prefix, c):
    """The table against the file: nothing missing, nothing left over, shapes as the configuration says."""
    known = table_of(weights, prefix, c)
    for name, w in known.items():
        if name not in model.where:
            raise Bad("the weights lack \"%s\"" % name)
        if model.shape(name) != tuple(w.shape):
            raise Bad("\"%s\" is %s; config.json asks for %s" % (name, list(model.shape(name)), list(w.shape)))
        tensors.need_float(model, name)
    for name in model.names():
        if name in known or c.skips(name):
            continue
        if c.tied and name in c.head_names:
            table = model.array(prefix + c.table)
            if model.shape(name) != table.shape or model.array(name).tobytes() != table.tobytes():
                raise Bad("\"%s\" differs from \"%s\", though \"tie_word_embeddings\" ties them" % (name, prefix + c.table))
            continue
        raise Bad("the weights hold \"%s\", which config.json does not ask for" % name)


def prefix_of(model, c):
    """Files of the bare model have no prefix, those of the model with its head do."""
    for prefix in c.prefixes:
        if prefix + c.table in model.where:
            return prefix
    raise Bad("the weights lack \"%s\"" % (c.prefixes[0] + c.table))


def open_weights(folder, kind, c):
    model = tensors.open_model(folder)
    if c.layers > len(model.where):
        raise Bad("config.json asks for %d layers, the weights are %d tensors" % (c.layers, len(model.where)))
    prefix = prefix_of(model, c)
    c.head_name = next((n for n in c.head_names if n in model.where), c.head_names[0])
    weights = kind.weights(c)
    check_weights(model, weights, prefix, c)
    return model, prefix, weights


def names_of(folder, weights, prefix, c):
    """The table of weights as `stepc checkpoint export --names` and `import --names` read it; equal rows of all layers are one."""
    star = lambda name: re.sub(r"\.\d+\.", ".*.", name, count=1) if re.match(r"(.*\.)?(h|layers)\.\d+\.", name) else name
    rules = {}
    for name, w in table_of(weights, prefix, c).items():
        rule = w.rule()
        rules[star(name)] = {**rule, "from": [star(p) for p in rule["from"]] if type(rule["from"]) is list else star(rule["from"])} if type(rule) is dict else star(rule)
    config = tensors.read_json(os.path.join(folder, "config.json"))
    # PEFT stands around the model with its head: of a bare model's files its names have a prefix more.
    peft = {"task_type": "CAUSAL_LM", "base_model_name_or_path": os.path.abspath(folder)}
    if prefix != c.prefixes[0]:
        peft.update(prefix=c.prefixes[0], beside=list(c.head_names))
    unused = [prefix + n.removeprefix(c.prefixes[0]) for n in c.unused]
    return {"tensors": rules, "unused": unused, "peft": peft, **({"tied": {n: prefix + c.table for n in c.head_names}} if c.tied else {}),
            "config": {k: v for k, v in config.items() if k not in ("dtype", "torch_dtype")}}  # what is written has a dtype of its own


def import_model(folder, out, options):
    kind, c = read_config(folder, options.ignore)
    model, prefix, weights = open_weights(folder, kind, c)
    document, entries = kind.document(c, options), []
    if options.peft:
        there = dict(zip(table_of(weights, c.prefixes[0], c), table_of(weights, prefix, c)))  # its names are those of the model with its head
        base = lambda name: tensors.widen(model.array(there[name]), model.dtype(there[name]))
        document["adapters"], adapters = peft_adapters.read(options.peft, table_of(weights, c.prefixes[0], c), base)
        document["trainable"] = ["@lora"]
        entries = [(path, "F32", a.shape, lambda a=a: a) for path, a in adapters.items()]
    for name, w in table_of(weights, prefix, c).items():
        for i, (path, shape) in enumerate(w.parts):
            entries.append((path, "F32", shape, lambda w=w, i=i, name=name: w.split(tensors.widen(model.array(name), model.dtype(name)))[i]))
    os.makedirs(out, exist_ok=True)
    tensors.write(os.path.join(out, "init.safetensors"), sorted(entries, key=lambda t: t[0]))
    tensors.write_json(os.path.join(out, "model.json"), document)
    tensors.write_json(os.path.join(out, "names.json"), names_of(folder, weights, prefix, c))
    return document


# What a model of transformers has no place for, and no use: the state of a training. Averages of the weights are none of it.
STATE = re.compile(r"(opt_state|hyperparameters|rng)\.|(step|data\.cursor|loss_scale(\..*)?)$")
AVERAGES = ("ema", "slow", "eval")


class Trained:
    """What `stepc run --save` wrote, seen as one set of weights: "params", or averages of them. Every tensor that is read is noted."""

    def __init__(self, path, which):
        self.path, self.file, self.seen, self.adapters = path, tensors.open_model(path), set(), []
        self.others = [a for a in AVERAGES if any(n.startswith(a + ".") for n in self.file.names())]
        if which is None and self.others:
            raise Bad("%s holds averages beside the parameters (\"%s.*\"): say which go out, --weights params or --weights %s" % (path, self.others[0], self.others[0]))
        if which not in (None, "params", *self.others):
            raise Bad("%s holds no averages \"%s.*\"" % (path, which))
        self.pick = "" if which in (None, "params") else which + "."

    def name(self, path):
        """Its name in the file: what has no average stands for itself, as when the object evaluates with averages."""
        return self.pick + path if self.pick + path in self.file.where else path

    def shape(self, path):
        name = self.name(path)
        if name not in self.file.where:
            raise Bad("%s lacks \"%s\"" % (self.path, self.pick + path))
        self.seen.add(name)
        return self.file.shape(name)

    def array(self, path):
        tensors.need_float(self.file, self.name(path), "F64")
        return tensors.widen(self.file.array(self.name(path)), self.file.dtype(self.name(path)))

    def adapter(self, path):
        """Paths of the low-rank product beside a kernel; None: there is none."""
        if not path.endswith(".kernel"):
            return None
        *both, scale = [path[:-len("kernel")] + leaf for leaf in ("lora_a", "lora_b", "lora_s")]
        if not any(self.name(p) in self.file.where for p in (*both, scale)):
            return None
        (*inputs, rank), (also, *outputs) = self.shape(both[0]), self.shape(both[1])
        if tuple(inputs + outputs) != tuple(self.shape(path)) or rank != also:
            raise Bad("%s: \"%s\" %s and \"%s\" %s make no kernel of %s" % (self.path, both[0], self.shape(both[0]), both[1], self.shape(both[1]), self.shape(path)))
        return both

    def scale(self, path):
        """How often the low-rank product beside a kernel is added: as its file says it, or once."""
        name = path[:-len("kernel")] + "lora_s"
        if self.name(name) not in self.file.where:
            return 1.0
        if self.shape(name) != ():
            raise Bad("%s: \"%s\" is %s instead of a number" % (self.path, name, list(self.shape(name))))
        return float(self.array(name))

    def kernel(self, path):
        """A tensor, with what its adapter adds to it."""
        both = self.adapter(path)
        if both is None:
            return self.array(path)
        base, change = self.array(path), np.tensordot(*(self.array(p).astype(np.float64) for p in both), 1) * self.scale(path)
        return np.where(change == 0, base, base + change).astype(np.float32)  # -0 + 0 is 0

    def check(self, weights):
        """Everything that goes out is there, everything that is there goes out."""
        for w in weights:
            for path, shape in w.parts:
                if self.shape(path) != tuple(shape):
                    raise Bad("%s: \"%s\" is %s instead of %s" % (self.path, self.name(path), list(self.shape(path)), list(shape)))
                if self.adapter(path):
                    self.adapters.append(path)
                    self.scale(path)
        for name in self.file.names():
            other = name.split(".")[0] in AVERAGES and not (self.pick and name.startswith(self.pick))
            averaged = self.pick and self.pick + name in self.seen
            if name not in self.seen and not other and not averaged and not STATE.match(name):
                raise Bad("%s holds \"%s\", which has no place in the model: it would be lost" % (self.path, name))


def export_model(folder, trained, out, options):
    kind, c = read_config(folder, options.ignore)
    model, prefix, weights = open_weights(folder, kind, c)
    result = Trained(trained, options.weights)
    if os.path.realpath(out) == os.path.realpath(folder):
        raise Bad("%s: the original is not overwritten" % out)
    result.check(weights)
    table = table_of(weights, prefix, c)
    if options.peft:
        changed = [path for name, w in table.items() for (path, _), old in zip(w.parts, w.split(tensors.widen(model.array(name), model.dtype(name))))
                   if not np.array_equal(result.array(path), old, equal_nan=True)]
        if changed and not options.adapters_alone:
            raise Bad("%s: \"%s\"%s changed in the training and is no adapter: it would be lost; without --peft all is written, --adapters-alone leaves out what is none"
                      % (trained, changed[0], len(changed) > 1 and " (and %d more)" % (len(changed) - 1) or ""))
        return peft_adapters.write(out, result, table_of(weights, c.prefixes[0], c), kind is gpt2, folder)
    if result.adapters:
        print("hf.py: note: adapters are merged into %d kernels; --peft writes them alone" % len(result.adapters), file=sys.stderr)

    def make(name):
        w = table.get(name) or (table[prefix + c.table] if c.tied and name in c.head_names else None)
        if w is None:
            return model.array(name)  # a buffer, such as GPT-2's causal mask
        return tensors.narrow(w.join([result.kernel(path) for path, _ in w.parts]), model.dtype(name))

    os.makedirs(out, exist_ok=True)
    for f in model.files:
        tensors.write(os.path.join(out, os.path.basename(f.path)),
                          [(n, model.dtype(n), model.shape(n), lambda n=n: make(n)) for n in f.tensors], f.metadata)
    for name in sorted(os.listdir(folder)):  # config.json, the tokenizer, the index
        source = os.path.join(folder, name)
        if os.path.isfile(source) and (name.endswith(".json") or name in ("merges.txt", "vocab.txt", "tokenizer.model")):
            with open(source, "rb") as f, tensors.replaced(os.path.join(out, name)) as copy:
                shutil.copyfileobj(f, copy)


def main(arguments=None):
    p = argparse.ArgumentParser(description="decoders of Hugging Face to stepc and back: " + ", ".join(MODELS))
    sub = p.add_subparsers(dest="command", required=True)
    i = sub.add_parser("import", help="config.json and safetensors -> model.json, init.safetensors and names.json")
    i.add_argument("model", help="a folder with config.json and model.safetensors (or its index and parts)")
    i.add_argument("-o", dest="out", required=True, help="the folder to write to")
    i.add_argument("--batch", type=int, default=8)
    i.add_argument("--length", type=int, default=None, help="tokens per row (at most what the model was made for, and 1,024)")
    i.add_argument("--learning-rate", type=float, default=3e-5)
    i.add_argument("--weight-decay", type=float, default=0.0)
    i.add_argument("--peft", metavar="DIR", help="a folder of PEFT with LoRA adapters of the model, which are trained alone")
    i.add_argument("--ignore", action="append", default=[], metavar="KEY", help="a key of config.json that may be ignored")
    e = sub.add_parser("export", help="what stepc saved -> files as those of the model")
    e.add_argument("model", help="the folder that was imported: names, dtypes and the other files come from it")
    e.add_argument("trained", help="what `stepc run --save` wrote")
    e.add_argument("-o", dest="out", required=True, help="the folder to write to")
    e.add_argument("--weights", choices=["params", *AVERAGES], help="the parameters, or averages of them; need not be said where there are no averages")
    e.add_argument("--peft", action="store_true", help="write the adapters alone, as PEFT reads them, instead of merging them")
    e.add_argument("--adapters-alone", action="store_true", help="--peft: what else was trained is left out, instead of being an error")
    e.add_argument("--ignore", action="append", default=[], metavar="KEY")
    o = p.parse_args(arguments)
    try:
        if o.command == "import":
            import_model(o.model, o.out, o)
        else:
            export_model(o.model, o.trained, o.out, o)
    except Bad as error:
        print("hf.py: error: %s" % error, file=sys.stderr)
        return 1
    except OSError as error:
        print("hf.py: error: %s" % error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    tensors.program(main)
