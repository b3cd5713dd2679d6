#!/usr/bin/env python3
"""Mutates documents and asks stepc to check (or compile) them: whatever the mistake, the exit code is 0, 1 or 3 and
no mutant takes long. Prints every mutant that breaks this, and keeps it in --keep.

    tests/fuzz/documents.py --stepc build/stepc --cases 2000 [--seed 1] [--bytes] [--compile] [DOCUMENT...]
"""
import collections
import concurrent.futures
import copy
import json
import os
import random
import re
import shutil
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, recorded, runner

VALUES = [None, True, False, 0, 1, 2, 3, -1, 7, 2.5, 1e300, 10**12, 2**32, "", "x", "y", "$", "$hidden", "$1/0", [], {}, [[]], [1, 2], [None],
          {"type": "linear", "features": 3}, {"type": "tanh"}, {"type": "sequential", "layers": []}, {"type": "adam", "learning_rate": 1},
          "mean(model)", "model", "x @ x", "x[9]", "x[:, 0]", "sum(x, axis=5)", "params", "grads", "loss", "where(x > 0, x, 0)", "exp(x) / 0",
          "stop_gradient(model)", "argmax(model)", "cumsum(x)", "reshape(x, (-1,))", "**", "*", "int32", "bool", "bfloat16", "mean", "sum", "batch", "data"]


def places(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, path + (key,))


def is_leaf(document, path):
    for key in path:
        document = document[key]
    return not isinstance(document, (dict, list))


def mutate(document, random_):
    document = copy.deepcopy(document)
    for _ in range(random_.choice((1, 1, 2, 3))):
        path = random_.choice([p for p in places(document) if p and (random_.random() < 0.2 or is_leaf(document, p))] or [()])
        if not path:
            return document
        at = document
        for key in path[:-1]:
            at = at[key]
        key, kind = path[-1], random_.randrange(10)
        if kind == 0:
            del at[key]
        elif kind == 1 and isinstance(at, list):
            at.insert(key, copy.deepcopy(at[key]))
        elif kind == 2:
            other = random_.choice(list(places(document)))
            found = document
            for k in other:
                found = found[k]
            at[key] = copy.deepcopy(found)
        elif kind == 3 and isinstance(at, dict):
            at[str(key)[1:] or "q"] = at.pop(key)
        elif kind >= 4 and isinstance(at[key], (int, float)) and not isinstance(at[key], bool):
            at[key] = random_.choice((0, 1, -1, 2, 3, at[key] + 1, at[key] * 2, 0.5, 1e9))
        elif kind == 7 and isinstance(at[key], str) and at[key]:
            n = random_.randrange(len(at[key]))
            at[key] = at[key][:n] + random_.choice("()[]:,.*+x0 -'") + at[key][n + random_.randrange(2):]
        else:
            at[key] = random_.choice(VALUES)
    return document


def scramble(text, random_):
    """Bytes changed, left out, doubled, cut off: mostly no JSON any more."""
    b = bytearray(text.encode())
    for _ in range(random_.choice((1, 1, 2, 8))):
        at, kind = random_.randrange(len(b)), random_.randrange(5)
        if kind == 0:
            b[at] = random_.randrange(256)
        elif kind == 1:
            del b[at:at + random_.choice((1, 1, 3, 40))]
        elif kind == 2:
            b[at:at] = random_.choice((b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"\\ud800", b",", b":", b"\0", b"\xff", b"\xc3", b"1e999", b"-", b"0x", b"null", b"(" * 300, b"[" * 300))
        elif kind == 3:
            b[at:at] = b[at:at + random_.randrange(1, 60)]
        elif random_.random() < 0.2:
            del b[at:]
        b = b or bytearray(b"{")
    return bytes(b)


def main():
    p = command.parser(__doc__, 200)
    p.add_argument("documents", nargs="*", metavar="DOCUMENT", help="by default those of tests/parity/cases")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--bytes", action="store_true", help="change bytes of the text instead of values")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--args", default="", help="more arguments for stepc, separated by spaces")
    p.add_argument("-j", type=int, default=os.cpu_count() or 1)
    options = p.parse_args()
    seeds = [json.load(open(path, encoding="utf-8")) for path in options.documents] or [recorded.load(name).document for name in recorded.names()]
    folder = tempfile.TemporaryDirectory(prefix="stepc-fuzz-")

    def one(n):
        random_ = random.Random(options.seed * 1000003 + n)
        chosen = random_.choice(seeds)
        text = scramble(json.dumps(chosen, indent=random_.choice((None, 1))), random_) if options.bytes else json.dumps(mutate(chosen, random_), indent=1).encode()
        path = os.path.join(folder.name, "m%d.json" % n)
        with open(path, "wb") as f:
            f.write(text)
        arguments = ["compile", path, "-o", path + ".so"] if options.compile else ["check", path]
        try:
            done = runner.attempt(options.stepc, *arguments, *options.args.split(), cwd=folder.name)
            code, said = done.returncode, done.stderr
        except runner.Failed:
            code, said = "time-out", ""
        if os.path.exists(path + ".so"):
            os.unlink(path + ".so")
        bad = code not in (0, 1, 3) or (code == 1 and "error" not in said)
        if bad and options.keep:
            os.makedirs(options.keep, exist_ok=True)
            shutil.move(path, os.path.join(options.keep, "seed%d-%d.json" % (options.seed, n)))
        else:
            os.unlink(path)
        return n, code, said, bad

    counts, kinds = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for n, code, said, bad in pool.map(one, range(options.cases)):
            counts[code] += 1
            if not bad:
                continue
            line = next((s for s in said.splitlines() if re.search(r"internal|runtime error|ERROR|Assert", s)), said[:100].strip())
            kind = re.sub(r"\d+", "N", line)
            kinds[kind] += 1
            if kinds[kind] == 1:
                print("seed %d round %d: %s: %s" % (options.seed, n, code, line), flush=True)
    print("%d mutants: %s" % (options.cases, ", ".join("exit %s: %d" % (c, counts[c]) for c in sorted(counts, key=str))))
    for kind, n in kinds.most_common():
        print("%5d  %s" % (n, kind))
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
