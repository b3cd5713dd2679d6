#!/usr/bin/env python3
"""Mutates documents and asks stepc to check (or compile) them: whatever the mistake, the exit code is 0, 1 or 3 and
no mutant takes long. Prints every mutant that breaks this, and keeps it in --keep.

usage: documents.py STEPC [--rounds N] [--seed N] [--compile] [--keep DIR] [--args ARGS] DOCUMENT...
"""
import argparse
import collections
import concurrent.futures
import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile

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
    ap = argparse.ArgumentParser()
    ap.add_argument("stepc")
    ap.add_argument("documents", nargs="+")
    ap.add_argument("--rounds", type=int, default=200)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--bytes", action="store_true", help="change bytes of the text instead of values")
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--keep")
    ap.add_argument("--args", default="", help="more arguments for stepc, separated by spaces")
    ap.add_argument("-j", type=int, default=os.cpu_count() or 1)
    opt = ap.parse_args()
    seeds = []
    for path in opt.documents:
        with open(path, encoding="utf-8") as f:
            seeds.append(json.load(f))
    folder = tempfile.mkdtemp(prefix="stepc-fuzz-")
    env = dict(os.environ, STEPC_VERIFY_EACH="1")

    def one(n):
        random_ = random.Random(opt.seed * 1000003 + n)
        chosen = random_.choice(seeds)
        text = scramble(json.dumps(chosen, indent=random_.choice((None, 1))), random_) if opt.bytes else json.dumps(mutate(chosen, random_), indent=1).encode()
        path = os.path.join(folder, "m%d.json" % n)
        with open(path, "wb") as f:
            f.write(text)
        argv = [opt.stepc, "compile", path, "-o", path + ".so"] if opt.compile else [opt.stepc, "check", path]
        argv += opt.args.split()
        try:
            p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, cwd=folder, env=env)
            code, said = p.returncode, p.stderr.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            code, said = "time-out", ""
        if os.path.exists(path + ".so"):
            os.unlink(path + ".so")
        bad = code not in (0, 1, 3) or (code == 1 and "error" not in said)
        if bad and opt.keep:
            os.makedirs(opt.keep, exist_ok=True)
            os.replace(path, os.path.join(opt.keep, "seed%d-%d.json" % (opt.seed, n)))
        else:
            os.unlink(path)
        return n, code, said, bad

    counts, kinds = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(opt.j) as pool:
        for n, code, said, bad in pool.map(one, range(opt.rounds)):
            counts[code] += 1
            if not bad:
                continue
            line = next((s for s in said.splitlines() if re.search(r"internal|runtime error|ERROR|Assert", s)), said[:100].strip())
            kind = re.sub(r"\d+", "N", line)
            kinds[kind] += 1
            if kinds[kind] == 1:
                print("seed %d round %d: %s: %s" % (opt.seed, n, code, line), flush=True)
    print("%d mutants: %s" % (opt.rounds, ", ".join("exit %s: %d" % (c, counts[c]) for c in sorted(counts, key=str))))
    for kind, n in kinds.most_common():
        print("%5d  %s" % (n, kind))
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
