#!/usr/bin/env python3
"""Objects compiled with --check-finite, and documents that are interpreted with it. Every op of ir/ops.def that can make a NaN or an infinity from finite operands does so here,
and is named with its place, the element and that its inputs were finite; every other one is given a NaN that an op before it made,
which is named instead. Recorded documents give the same bits with the checks and without, and a NaN in a batch is named as given.

    tests/finite/finite.py --stepc build/stepc
"""
import argparse
import concurrent.futures
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples")]
from tool import recorded, runner, safetensors

import numpy as np

import stepc

F, D, H, I = "float32", "float64", "float16", "int32"
BIG = 3e38

# By op the operands (dtype, value of element 3; the others are 0.5 or 0), what its line says, and the type of its result.
MAKES = {
    "exp": ([(F, 1000)], "exp(%a)", F), "expm1": ([(F, 1000)], "expm1(%a)", F),
    "log": ([(F, -1)], "log(%a)", F), "log1p": ([(F, -2)], "log1p(%a)", F), "log2": ([(F, -1)], "log2(%a)", F),
    "sqrt": ([(F, -1)], "sqrt(%a)", F), "rsqrt": ([(F, 0)], "rsqrt(%a)", F), "erf_inv": ([(F, 2)], "erf_inv(%a)", F),
    "cast": ([(D, 1e300)], "cast(%a)", F), "bitcast": ([(I, 0x7f800000)], "bitcast(%a)", F),
    "add": ([(F, BIG), (F, BIG)], "add(%a, %b)", F), "sub": ([(F, BIG), (F, -BIG)], "sub(%a, %b)", F),
    "mul": ([(F, BIG), (F, BIG)], "mul(%a, %b)", F), "div": ([(F, 1), (F, 0)], "div(%a, %b)", F),
    "rem": ([(F, 1), (F, 0)], "rem(%a, %b)", F), "pow": ([(F, -1), (F, 0.5)], "pow(%a, %b)", F),
    "reduce_prod": ([(F, BIG), (F, BIG)], "reduce_prod(%r) dims=0", None), "reduce_sum": ([(F, BIG), (F, BIG)], "reduce_sum(%r) dims=0", None),
    "dot": ([(F, BIG), (F, BIG)], "dot(%a, %b) lhs_batch=[] rhs_batch=[] lhs_contract=0 rhs_contract=0", None),
    "cumulate": ([(F, BIG), (F, BIG)], "cumulate(%r) dim=0 kind=0 reverse=0", F),
    "scatter_add": ([(F, BIG), (I, 3), (F, BIG)], "scatter_add(%a, %b, %c) dim=0", F),
}
# What cannot make one, of a %a that has a NaN in element 3.
PASSES = {name: "%s(%%a)" % name for name in "neg abs sign tanh logistic sin cos erf cbrt floor ceil round stop_gradient".split()}
PASSES.update({name: "%s(%%a, %%b)" % name for name in "atan2 max min surrogate sloped".split()})
PASSES.update({
    "select": "select(%t, %a, %b)", "broadcast": "broadcast(%a) dims=0", "reshape": "reshape(%a)", "transpose": "transpose(%a) perm=0",
    "slice": "slice(%a) start=0 limit=8 stride=1", "pad": "pad(%a, %one) low=0 high=0 interior=0", "extend": "extend(%a) low=4 high=-4 kind=0", "concat": "concat(%h, %g) dim=0",
    "reverse": "reverse(%a) dims=0", "dynamic_slice": "dynamic_slice(%a, %zero) sizes=8", "dynamic_update": "dynamic_update(%b, %a, %zero)",
    "take": "take(%a, %i) dim=0", "reduce_max": "reduce_max(%a) dims=[]", "reduce_min": "reduce_min(%a) dims=[]",
})
# No floats come out, nothing is computed, or it stands in no plan, or in none that is checked (winograd); collectives are in the documents with meshes below.
OTHERS = set("""param constant iota not is_finite and or xor shl shr eq ne lt le threefry argmax argmin order call loop proj grad accumulate
scan vmap sharding_constraint all_reduce all_gather reduce_scatter all_to_all permute device_index
winograd winograd_points winograd_sum""".split())


# What is said between a name and the element: by objects of what only a select takes, by the interpreter of the numbers.
SAID = r"(?:, which a where may leave out)?(?:, \d+ of \d+ (?:NaN|infinite))*(?:, (?:the others|of operands) from \S+ to [^\s,]+)*"


OVERFLOWS = {"mixed_dynamic_accumulate"}  # the loss scale, at first, and grows smaller for it


class Wrong(Exception):
    pass


def table():
    with open(os.path.join(HERE, "..", "..", "ir", "ops.def")) as f:
        return re.findall(r"^X\((\w+),", f.read(), re.M)


class Text:
    """A module whose step is made line by line."""

    def __init__(self):
        self.slots, self.body, self.inputs = [], [], {}

    def line(self, text, kind, place=0):
        self.body.append("  %%%d = %s : %s%s" % (len(self.body) + 1, text, kind, " @%d" % place if place else ""))
        return "%%%d" % len(self.body)

    def input(self, name, dtype, value, shape=(8,)):
        array = np.full(shape, 0.5 if dtype != I else 0, dtype)
        if shape:
            array.flat[3] = value
        self.inputs[name] = array
        self.slots.append('slot %d "%s" input %s%s' % (len(self.slots), name, dtype, list(shape)))
        return self.line('param index=%d "%s" slot=%d' % (len(self.slots) - 1, name, len(self.slots) - 1), "%s%s" % (dtype, list(shape)))

    def text(self, loss):
        self.slots.append('slot %d "loss" metric float32[]' % len(self.slots))
        self.slots.append('slot %d "count" state int32[]' % len(self.slots))
        return "\n".join(['module "op" stage tensor', 'place 1 0+0 "/before"', 'place 2 0+0 "/op"', 'place 3 0+0 "/after"', *self.slots, "",
                          'func "step" entry {', *self.body, '  result "loss" %s slot=%d' % (loss, len(self.slots) - 2), "}", "",
                          'func "init" entry {', "  %1 = constant 0 : int32[]", '  result "count" %%1 slot=%d' % (len(self.slots) - 1), "}", ""])


def total(t, value, dtype=F):
    if dtype != F:
        value = t.line("cast(%s)" % value, "float32[8]", 3)
    return t.line("reduce_sum(%s) dims=0" % value, "float32[]", 3)


def fill(form, operands):
    return re.sub(r"%([a-z]+)", lambda m: operands[m.group(1)], form)


def maker(op):
    """A step in which the op makes it, and what is to be said."""
    operands, form, result = MAKES[op]
    t = Text()
    names = {k: t.input(k, d, v) for k, (d, v) in zip("abc", operands)}
    if "%r" in form:
        t.inputs["b"][2] = t.inputs["b"][3]
        names["r"] = t.line("abs(%b)".replace("%b", names["b"]), "float32[8]", 1)
    out = t.line(fill(form, names), "float32[8]" if result else "float32[]", 2)
    return t, t.text(total(t, out, result) if result else out), "/op"


def passer(op):
    t = Text()
    a = t.input("a", F, -1)
    b, i = t.input("b", F, 1), t.input("i", I, 3)
    made = t.line("log(%s)" % a, "float32[8]", 1)
    names = {"a": made, "b": b, "i": i}
    for name in re.findall(r"%([a-z]+)", PASSES[op]):
        if name == "t":
            zero = t.line("constant 0", "float32[8]")
            names[name] = t.line("lt(%s, %s)" % (zero, b), "bool[8]")
        elif name == "one":
            names[name] = t.line("constant 1", "float32[]")
        elif name == "zero":
            names[name] = t.line("constant 0", "int32[]")
        elif name in "hg":
            names[name] = t.line("slice(%s) start=%d limit=%d stride=1" % (made, 4 * (name == "g"), 4 + 4 * (name == "g")), "float32[4]", 2)
    if op == "take":
        t.inputs["i"] = np.arange(8, dtype=I)
        t.slots[2] += " index_limit=8"
    out = t.line(fill(PASSES[op], names), "float32[8]", 2)
    return t, t.text(total(t, out)), "/before"


def log_of(folder, source, inputs, options, interpreted):
    model, data = os.path.join(folder, "op.sir"), os.path.join(folder, "data.safetensors")
    with open(model, "w") as f:
        f.write(source)
    safetensors.write(data, {n: safetensors.of_array(v[None]) for n, v in inputs.items()})
    what = [model, "--check-finite"] if interpreted else [os.path.join(folder, "op.so")]
    if not interpreted:
        runner.call(options.stepc, "compile", model, "--check-finite", "-o", *what)
    done = runner.attempt(options.stepc, "run", *what, "--steps", "1", "--data", data)
    return done.stderr


def one_op(arguments):
    options, op, interpreted = arguments
    with tempfile.TemporaryDirectory() as folder:
        t, text, place = (maker if op in MAKES else passer)(op)
        try:
            said = log_of(folder, text, t.inputs, options, interpreted)
        except runner.Failed as e:
            return op, e.brief()
    first = re.search(r"step 1: the first value that is not finite: (\w+) at (\S+?)" + SAID + r"(, element (\d+))?(, made from .*)?\n", said)
    if not first:
        return op, "nothing is named: %s" % said
    name, where, _, element, inputs = first.groups()
    want = "log" if place == "/before" else op
    if where != place or (name != want and op != "erf_inv"):
        return op, "%s at %s is named, not %s at %s" % (name, where, want, place)
    if inputs != ", made from finite inputs":
        return op, "inputs: %s" % inputs
    if element not in ("3", "0" if op in ("dot", "reduce_sum", "reduce_prod") else "3"):
        return op, "element %s" % element
    return op, None


WHERE = {"stepc": 1, "inputs": {"x": {"shape": [4]}}, "model": {"type": "sequential", "input": "x", "layers": [
    {"type": "expr", "expr": "reshape(where(x > 0, log(x), x), (4, 1))"}, {"type": "linear", "features": 1}]},
    "loss": "mean(model[:, 0] * 1e38 * 1e38)", "optimizer": {"type": "sgd", "learning_rate": 0.1}}


def left_out(options):
    """A NaN in a branch that `where` does not take: an object says that it may not matter, the interpreter names what does."""
    with tempfile.TemporaryDirectory() as folder:
        model, data, so = (os.path.join(folder, n) for n in ("m.json", "data.safetensors", "m.so"))
        with open(model, "w") as f:
            json.dump(WHERE, f)
        safetensors.write(data, {"x": np.array([[1, -1, 2, 3]], "f4")})
        runner.call(options.stepc, "compile", model, "--check-finite", "-o", so)
        for what, wanted in ([so], "log at /model/layers/0/expr (%s:1:" % model), ([model, "--check-finite"], "mul at /loss (%s:1:" % model):
            said = runner.attempt(options.stepc, "run", *what, "--steps", "1", "--data", data).stderr
            if "that is not finite: " + wanted not in said or (so in what) != ("which a where may leave out" in said):
                return " ".join(what), said
            if interpreted_only(what) != (" of 4 infinite, " in said and ", of operands from " in said):
                return " ".join(what), said
    return "where", None


def interpreted_only(what):
    return "--check-finite" in what


SUM = {"stepc": 1, "inputs": {"x": {"shape": [4], "axes": ["batch"]}}, "model": {"type": "sequential", "input": "x", "layers": [
    {"type": "expr", "expr": "reshape(x, (4, 1))"}, {"type": "linear", "features": 1, "use_bias": False, "kernel_init": {"type": "ones"}}]},
    "loss": "sum(model)", "optimizer": {"type": "sgd", "learning_rate": 0.0}}


def elsewhere(options):
    """eval and infer name what they give that is not finite, each as it is; so does a step whose sum over devices is its loss."""
    with tempfile.TemporaryDirectory() as folder:
        model, data, so = (os.path.join(folder, n) for n in ("m.json", "data.safetensors", "m.so"))
        for more, x, wanted in (({}, 1.6e38, {"eval": "reduce_sum at /loss", "infer": None}), ({}, 3.2e38, {"eval": "reduce_sum at /loss", "infer": None}),
                                ({"mesh": {"axes": {"data": 2}}, "sharding": {"rules": [["batch", "data"]]}}, 1.6e38, {"step 1": "all_reduce of what devices gave, which is loss"}),
                                ({"mesh": {"axes": {"data": 3}}, "sharding": {"rules": [["batch", "data"]]}, "loss": "sum(log(model)) + sum(sqrt(0 - model))"}, 2, {"step 1": "sqrt at /loss"}),  # not the padding
                                ({"loss": "sum(log(model))"}, -1, {"eval": "log at /loss", "infer": None}), ({"loss": "sum(model * 0)"}, np.nan, {"eval": "input x", "infer": "input x"})):
            with open(model, "w") as f:
                json.dump({**SUM, **more}, f)
            safetensors.write(data, {"x": np.full((1, 4), x, "f4")})
            runner.call(options.stepc, "compile", model, "--check-finite", "-o", so)
            for what in [so], [model, "--check-finite"]:
                steps = ["--steps", "1", "--data", data] if "mesh" in more else ["--eval-data", data, "--infer", data + ".out", "--infer-data", data]
                if "mesh" in more and what != [so]:
                    continue  # the interpreter has no devices
                said = runner.attempt(options.stepc, "run", *what, *steps).stderr
                for call, name in wanted.items():
                    got = re.search(r"warning: %s: (?:\".*?\": )?(?:the first value that is not finite: )?(.*)" % call, said)
                    if (got is None) != (name is None) or got and not got.group(1).startswith(name):
                        return "%s of %s, x %g: %s" % (call, " ".join(what), x, more), said
    return "eval, infer", None


PRODUCT = {"stepc": 1, "inputs": {"x": {"shape": [256, 512]}, "y": {"shape": [256, 384]}}, "model": {"type": "sequential", "input": "x", "layers": [
    {"type": "linear", "features": 384, "use_bias": False, "kernel_init": {"type": "ones"}}]}, "loss": "mean(model * y)",
    "optimizer": {"type": "sgd", "learning_rate": 0.0}}


def product(options):
    """A library's product that infer gives as it is, and one that a step goes on with, by the object's own and by the library's."""
    with tempfile.TemporaryDirectory() as folder:
        model, data, out, so = (os.path.join(folder, n) for n in ("m.json", "data.safetensors", "out.safetensors", "m.so"))
        with open(model, "w") as f:
            json.dump(PRODUCT, f)
        for blas, threads in (("own", "1"), ("openblas", "1"), ("openblas", "3")):
            runner.call(options.stepc, "compile", model, "--check-finite", "--blas", blas, "-o", so)
            for value, wanted in ((3e36, "dot at /model/layers/0 (%s:1:" % model), (np.nan, None)):
                x = np.ones((1, 256, 512), "f4")
                x[0, 5] = value
                safetensors.write(data, {"x": x, "y": np.ones((1, 256, 384), "f4")})
                for what in (["--infer", out, "--infer-data", data], ["--steps", "1", "--data", data]):
                    said = runner.attempt(options.stepc, "run", so, *what, "--threads", threads).stderr
                    given = wanted is None and (blas == "own" or "--infer" not in what)  # a kernel of the object reads it, too
                    begin, end = (wanted, "made from finite inputs") if wanted else ("input x", "as it was given") if given else \
                        ("dot at /model/layers/0 (%s:1:" % model, "made from inputs that are not finite")
                    got = re.search(r"the first value that is not finite: (.*), element (\d+), (.*)", said)
                    if not got or not got.group(1).startswith(begin) or int(got.group(2)) != 5 * (512 if given else 384) or got.group(3) != end:
                        return "%s of %g in %s: %s, %s" % (blas, value, what[0], begin, end), said
    return "products", None


PASSED = {"stepc": 1, "inputs": {"x": {"shape": [300, 256]}}, "model": {"type": "sequential", "input": "x", "layers": [
    {"type": "expr", "expr": "where(x > 1, -inf, x)"}, {"type": "linear", "features": 500, "use_bias": False, "kernel_init": {"type": "ones"}}]},
    "loss": "mean(model)", "optimizer": {"type": "sgd", "learning_rate": 0.0}}


def summed(options):
    """A sum of what is infinite on purpose did not make it, whichever worker adds it up; what makes a NaN of it later is named."""
    with tempfile.TemporaryDirectory() as folder:
        model, data, so = (os.path.join(folder, n) for n in ("m.json", "data.safetensors", "m.so"))
        with open(model, "w") as f:
            json.dump(PASSED, f)
        x = np.ones((1, 300, 256), "f4")
        x[0, 5, 3] = 2
        safetensors.write(data, {"x": x})
        runner.call(options.stepc, "compile", model, "--check-finite", "-o", so)
        for what in [so, "--threads", "1"], [so, "--threads", "2"], [so, "--threads", "4"], [model, "--check-finite"]:
            said = runner.attempt(options.stepc, "run", *what, "--steps", "1", "--data", data).stderr
            if not re.search(r"that is not finite: mul at /optimizer .*element 1500, made from inputs that are not finite\n", said):
                return " ".join(what), said
    return "sums", None


def crowd(layers, mesh, kernels, penalty=""):
    return {"stepc": 1, "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}}, "model": {"type": "repeat", "count": layers, "input": "x", "block": {
        "type": "residual", "layers": [{"type": "linear", "features": 4}, {"type": "tanh"}]}}, "loss": "mean(model**2)" + penalty,
        "optimizer": {"type": "lbfgs"}, "mesh": {"axes": mesh}, "sharding": {"rules": [["batch", "data"]], "params": kernels}}


def alike(options):
    """Copies and sums of many tensors that are one command, of which some were moved or sent by devices, and others made where they are."""
    with tempfile.TemporaryDirectory() as folder:
        model, data, so = (os.path.join(folder, n) for n in ("m.json", "data.safetensors", "m.so"))
        for document in (crowd(20, {"data": 2, "model": 2}, {"**.kernel": ["model"], "**": []}, " + 0.1 * global_norm(params)"), crowd(2, {"data": 2, "model": 4}, {"0.layers.0.bias": [["model", "data"]], "**": []})):
            with open(model, "w") as f:
                json.dump(document, f)
            runner.call(options.stepc, "compile", model, "--check-finite", "--remat", "1", "-o", so)
            for value, begin in ((np.nan, "input x, element 9, as it was given"), (3e38, r"\w+ at .*, made from finite inputs")):
                x = np.ones((1, 8, 4), "f4")
                x[0].flat[9] = value
                safetensors.write(data, {"x": x})
                said = runner.attempt(options.stepc, "run", so, "--steps", "1", "--data", data).stderr
                if not re.search("the first value that is not finite: (%s)\n" % begin, said):
                    return "%g given to %d devices" % (value, np.prod(list(document["mesh"]["axes"].values()))), said
    return "alike", None


def bits(t):
    """Of numbers; which sign a NaN has that comes of two is up to the order of an instruction's operands."""
    value = safetensors.array(t)
    return t.data if value.dtype.kind != "f" else (np.isnan(value).tobytes(), np.where(np.isnan(value), 0, value).tobytes())


def same_bits(options, name, variant, folder):
    case = recorded.load(name)
    model = case.unpack(folder)
    objects = []
    for k, checks in enumerate(([], ["--check-finite"])):
        path = os.path.join(folder, "step%d.so" % k)
        runner.call(options.stepc, "compile", model, "-o", path, *variant, *checks)
        objects.append(path)
    results = []
    for k, path in enumerate(objects):
        out, metrics = os.path.join(folder, "out%d" % k), os.path.join(folder, "metrics%d" % k)
        data = ["--data", os.path.join(folder, "data.safetensors")] if os.path.exists(os.path.join(folder, "data.safetensors")) else []
        said = runner.attempt(options.stepc, "run", path, "--steps", "3", *data, "--save", out, "--all-state", "--metrics", metrics, "--threads", "2")
        state = {n: bits(v) for n, v in safetensors.raw(out if os.path.exists(out) else out + ".nonfinite").items()}
        with open(metrics) as f:
            results.append((said.returncode, state, f.read()))
    for what, plain, checked in zip(("exit codes", "states", "metrics"), *results):
        if plain != checked:
            raise Wrong("%s differ with --check-finite" % what)
    return "that is not finite: " in said.stderr


def given(options, name, folder):
    """A NaN in a batch of the object that same_bits made."""
    data = recorded.load(name).arrays("data")
    floats = [n for n, v in data.items() if v.dtype.kind == "f" and v.dtype.itemsize > 2 and v[0].size]
    if not floats:
        return
    where, (poisoned, path) = data[floats[0]][0].size // 2, (data[floats[0]].copy(), os.path.join(folder, "data.safetensors"))
    poisoned[0].flat[where] = np.nan
    safetensors.write(path, {**data, floats[0]: poisoned})
    for what in [os.path.join(folder, "step1.so")], [os.path.join(folder, "model.json"), "--check-finite"]:
        given_to(options, name, what, path, floats[0], where)


def given_to(options, name, what, path, wanted, where):
    said = runner.attempt(options.stepc, "run", *what, "--steps", "1", "--data", path).stderr
    if "training goes on with it" not in said:
        return  # it reaches nothing
    if "which a where may leave out" in said or name in OVERFLOWS:
        return  # what it makes itself comes first
    first = re.search(r"step 1: the first value that is not finite: input (\S+?)" + SAID + r"(?:, element (\d+))?, as it was given\n", said)
    if not first or first.group(1) != wanted or (first.group(2) != str(where) and recorded.family(name) != "mesh" and first.group(2)):
        raise Wrong("a NaN in element %d of input %s, %s: %s" % (where, wanted, what, said))


def one_case(arguments):
    options, name, variant = arguments
    with tempfile.TemporaryDirectory() as folder:
        try:
            if not same_bits(options, name, variant, folder):
                given(options, name, folder)  # it does not make one itself
        except runner.Failed as e:
            return " ".join([name, *variant]), None if e.unsupported else e.brief()
        except (Wrong, OSError) as e:
            return " ".join([name, *variant]), str(e)
    return " ".join([name, *variant]), None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stepc", required=True)
    parser.add_argument("--every", type=int, default=1, help="one recorded document in so many")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("only", nargs="*", help="ops or recorded documents")
    options = parser.parse_args()
    ops, known = table(), {*MAKES, *PASSES, *OTHERS}
    wrong = len(known ^ set(ops))
    if wrong:
        print("ir/ops.def and the tables here differ in", *(known ^ set(ops)))
    ops = [o for o in ops if o not in OTHERS and (not options.only or o in options.only)]
    names = recorded.names([n for n in options.only if n not in known]) if set(options.only) - known or not options.only else []
    # random_conv_2300 pads with -inf
    cases = [(options, n, v) for i, n in enumerate(names) if i % options.every == 0 or n == "random_conv_2300" for v in recorded.load(n).variants]
    with concurrent.futures.ProcessPoolExecutor(options.j) as pool:
        for what, why in [*pool.map(one_op, [(options, o, i) for o in ops for i in (False, True)]), *(f(options) for f in (left_out, elsewhere, product, summed, alike) if not options.only), *pool.map(one_case, cases)]:
            if why:
                print("%s: %s" % (what, why))
                wrong += 1
    print("%d ops, %d recorded documents: %d wrong" % (len(ops), len(cases), wrong))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
