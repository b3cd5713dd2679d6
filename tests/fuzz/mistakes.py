#!/usr/bin/env python3
"""One mistake of a user in a valid document: a value of another type, a key given twice, left out, moved to a neighbour or
exchanged with another one, a name that is not there. stepc must refuse or accept it, never crash, and of what it refuses the
first diagnostic must stand at the mistake.

    tests/fuzz/mistakes.py --stepc build/stepc --cases 2000 [--seed 1] [DOCUMENT...]

By default the documents are those of tests/parity/cases. It needs nothing but Python and NumPy.
"""
import collections
import concurrent.futures
import copy
import json
import os
import random
import re
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, recorded, runner


def lines_of(value, mark, indent=0, found=None, line=None):
    """The document's text, one key or element per line, and the lines on which something marked stands."""
    line = [1] if line is None else line
    found = {} if found is None else found
    pad = " " * (indent + 1)
    if isinstance(value, Pairs):
        parts = []
        for key, v, tags in value.items:
            line[0] += 1
            start = line[0]
            text = "%s%s: %s" % (pad, json.dumps(key), lines_of(v, mark, indent + 1, found, line)[0])
            for t in tags:
                found.setdefault(t, []).append((start, line[0]))
            parts.append(text)
        line[0] += 1
        return "{\n%s\n%s}" % (",\n".join(parts), " " * indent), found
    if isinstance(value, list) and value:
        parts = []
        for v in value:
            line[0] += 1
            parts.append(pad + lines_of(v, mark, indent + 1, found, line)[0])
        line[0] += 1
        return "[\n%s\n%s]" % (",\n".join(parts), " " * indent), found
    return json.dumps(value), found


class Pairs:
    """An object that may have a key twice; of every pair, what it is marked as."""

    def __init__(self, pairs):
        self.items = [[k, v, set()] for k, v in pairs]


def objects(value, path=()):
    if isinstance(value, Pairs):
        yield value
        for _, v, _ in value.items:
            yield from objects(v)
    elif isinstance(value, list):
        for v in value:
            yield from objects(v)


def wrong(value, r):
    """Something of another JSON type."""
    pool = {"number": [0.5, -1, 3], "string": ["abc", "x", ""], "bool": [True, False], "null": [None], "list": [[], [1, "a"]], "object": [Pairs([("type", "adam")]), Pairs([])]}
    kind = "bool" if isinstance(value, bool) else "number" if isinstance(value, (int, float)) else "string" if isinstance(value, str) else "null" if value is None else "list" if isinstance(value, list) else "object"
    return copy.deepcopy(r.choice([v for k, vs in sorted(pool.items()) if k != kind for v in vs]))


def type_of_value(root, r):
    o = r.choice([x for x in objects(root) if x.items])
    pair = r.choice(o.items)
    pair[1] = wrong(pair[1], r)
    pair[2].add("here")
    return True


def twice(root, r):
    o = r.choice([x for x in objects(root) if x.items])
    key, value, _ = r.choice(o.items)
    o.items.append([key, copy.deepcopy(value) if r.random() < 0.5 else wrong(value, r), {"here"}])
    return True


def missing(root, r):
    """Whatever is said stands in the object, or where the missing thing is wanted."""
    holders = [(o, pair) for o in objects(root) for pair in o.items if isinstance(pair[1], Pairs) and len(pair[1].items) > 1]
    if not holders:
        return False
    o, pair = r.choice(holders)
    gone = pair[1].items.pop(r.randrange(len(pair[1].items)))
    pair[2].add("inside")
    return gone[0] not in ("name",)


def moved(root, r):
    """A key one object too far out or in."""
    holders = [(o, pair) for o in objects(root) for pair in o.items if isinstance(pair[1], Pairs) and pair[1].items]
    if not holders:
        return False
    o, pair = r.choice(holders)
    inner = pair[1]
    if r.random() < 0.5 or len(o.items) < 2:
        key = inner.items.pop(r.randrange(len(inner.items)))
        pair[2].add("inside")
        o.items.append([key[0], key[1], {"here"}])
    else:
        other = r.choice([x for x in o.items if x is not pair])
        o.items.remove(other)
        inner.items.append([other[0], other[1], {"here"}])
        pair[2].add("around")
    return True


def exchanged(root, r):
    pool = [x for x in objects(root) if len(x.items) > 1]
    if not pool:
        return False
    a, b = r.sample(r.choice(pool).items, 2)
    a[0], b[0] = b[0], a[0]
    a[2].add("here")
    b[2].add("here")
    return True


def unknown_name(root, r):
    pool = [pair for o in objects(root) for pair in o.items if isinstance(pair[1], str) and pair[0] in
            ("loss", "input", "output", "expr", "logits", "labels", "targets", "predictions", "weights", "mask", "where", "embedding", "block") and re.search(r"[a-zA-Z_]", pair[1])]
    if not pool:
        return False
    pair = r.choice(pool)
    words = list(re.finditer(r"[A-Za-z_][A-Za-z_0-9]*", pair[1]))
    m = r.choice(words)
    pair[1] = pair[1][:m.start()] + r.choice(("nothing", m.group() + "s", m.group()[1:] or "q", m.group() + "_1")) + pair[1][m.end():]
    pair[2].add("here")
    return True


def shape(root, r):
    pool = [pair for o in objects(root) for pair in o.items if pair[0] in ("shape", "kernel_size", "window_shape", "axes") and isinstance(pair[1], list) and pair[1]]
    if not pool:
        return False
    pair = r.choice(pool)
    i = r.randrange(len(pair[1]))
    pair[1][i] = r.choice((0, -1, "3", 2.5, None, [2], "$nothing", "$1/0"))
    pair[2].add("here")
    return True


KINDS = {"another type": type_of_value, "twice": twice, "missing": missing, "moved": moved, "exchanged": exchanged, "unknown name": unknown_name, "shape": shape}


def one(options, documents, n, folder):
    r = random.Random(options.seed * 1000003 + n)
    kind = r.choice(sorted(KINDS))
    root = json.loads(r.choice(documents), object_pairs_hook=Pairs)
    if not KINDS[kind](root, r):
        return kind, "nothing to do", "", ""
    text, marks = lines_of(root, None)
    path = os.path.join(folder, "m%d.json" % n)
    with open(path, "w") as f:
        f.write(text + "\n")
    try:
        p = runner.attempt(options.stepc, "check", path, "--diagnostics", "json")
    except runner.Failed as e:
        return kind, "crash", str(e), text
    os.unlink(path)
    if p.returncode not in (0, 1):
        return kind, "crash", "exit %d: %s" % (p.returncode, p.stderr[-300:]), text
    if p.returncode == 0:
        return kind, "accepted", "lines %s" % list(marks.values()), text
    said = [json.loads(line) for line in p.stderr.splitlines() + p.stdout.splitlines() if line.startswith("{")]
    errors = [d for d in said if d["level"] == "error"]
    if not errors or not all(d["spans"] for d in errors):
        return kind, "crash", "refused without a place: " + p.stderr[-300:], text
    first = errors[0]["spans"][0]
    spots = [x for v in marks.values() for x in v]
    lines = {x["line"] for d in errors for x in d["spans"]}
    near = any(a - 1 <= line <= b for line in lines for a, b in spots)
    return kind, "at the place" if near else "elsewhere", "%s:%s %s (the mistake: lines %s)" % (first["line"], first["column"], errors[0]["message"][:160], spots), text


def main():
    options = command.edits(__doc__, 500)
    documents = [open(path).read() for path in options.documents] or [recorded.load(name).text for name in recorded.names()]
    documents = [d for d in documents if len(d) < 20000]
    counts = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory(prefix="stepc-mistakes-") as folder, concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for n, (kind, outcome, why, text) in enumerate(pool.map(lambda n: one(options, documents, n, folder), range(options.cases))):
            counts[kind][outcome] += 1
            if outcome == "crash" or options.v and outcome in ("elsewhere", "accepted"):
                print("%d, %s: %s: %s" % (n, kind, outcome, why), flush=True)
            if outcome in ("crash", "elsewhere", "accepted"):
                command.keep(options, "%s_%d.json" % (kind.replace(" ", "_"), n), text)
    total = collections.Counter()
    for kind in sorted(counts):
        print("%-14s %s" % (kind, command.summary(counts[kind])))
        total += counts[kind]
    refused = total["at the place"] + total["elsewhere"]
    print("%d mutants, %d refused, %.1f %% of them at the place" % (options.cases, refused, 100.0 * total["at the place"] / max(1, refused)))
    return 1 if total["crash"] or total["at the place"] < 0.95 * refused else 0


if __name__ == "__main__":
    sys.exit(main())
