#!/usr/bin/env python3
"""What the recorded cases cover: CASES.md, made from the cases and the names that `stepc doc` lists.

    tests/parity/coverage.py --stepc build/stepc             fails if CASES.md is not what the cases say
    tests/parity/coverage.py --stepc build/stepc --write     writes it
    tests/parity/coverage.py --stepc build/stepc --missing   names that no case has
"""
import argparse
import collections
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import recorded, runner

PAGE = os.path.join(recorded.PARITY, "CASES.md")
# Topics of `stepc doc`, and whether their names stand in the optimizer.
TOPICS = {"layers": False, "structures": False, "initializers": False, "losses": False, "optimizers": True, "schedules": True, "expressions": None}
HEAD = """# Recorded cases

Made by `tests/parity/coverage.py --write`; a test holds that it is up to date. A number is that of the cases with it.

| family | cases | with meshes | steps | tensors | metrics | variants |
|---|---|---|---|---|---|---|
"""


def types(value):
    """Every type that an object of the document names."""
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            yield value["type"]
        value = list(value.values())
    for v in value if isinstance(value, list) else ():
        yield from types(v)


def strings(value):
    if isinstance(value, str):
        yield value
    for v in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(v)


def names_in(document):
    """Topic -> names: types where they can stand, functions that an expression calls and activations that are layers."""
    rest = {k: v for k, v in document.items() if k != "optimizer"}
    of_optimizer, of_rest = set(types(document["optimizer"])), set(types(rest))
    called = {name for text in strings(document) for name in re.findall(r"\b([A-Za-z_]\w*)\s*\(", text)}
    return {topic: called | of_rest if inside is None else of_optimizer if inside else of_rest | called if topic == "losses" else of_rest for topic, inside in TOPICS.items()}


def count(stepc):
    """(rows of families, topic -> name -> cases, all names of a topic)."""
    known = {topic: re.findall(r"^## (\S+)$", runner.call(stepc, "doc", topic), re.M) for topic in TOPICS}
    families, found = {}, {topic: collections.Counter() for topic in (*TOPICS, "settings", "dtypes", "meshes")}
    for name in recorded.names():
        case = recorded.load(name)
        row = families.setdefault(recorded.family(name), collections.Counter())
        meshes = {word for variant in case.variants for flag, word in zip(variant, variant[1:]) if flag == "--mesh"}
        if "mesh" in case.document:
            meshes.add(",".join("%s=%s" % axis for axis in case.document["mesh"]["axes"].items()))
        row.update({"cases": 1, "meshes": bool(meshes), "steps": case.steps, "tensors": len(case.raw("expected")), "metrics": len(case.metrics), "variants": len(case.variants)})
        for topic, names in names_in(case.document).items():
            found[topic].update(names & set(known[topic]))
        found["settings"].update(set(case.document) - {"stepc", "name"})
        found["dtypes"].update(set(re.findall(r'"((?:b?float|u?int)\d+|bool)"', case.text)))
        found["meshes"].update(meshes)
    return families, found, known


def page(families, found):
    total = collections.Counter()
    for row in families.values():
        total.update(row)
    columns = ("cases", "meshes", "steps", "tensors", "metrics", "variants")
    text = HEAD + "".join("| %s | %s |\n" % (name, " | ".join(str(row[c]) for c in columns)) for name, row in (*sorted(families.items()), ("all", total)))
    for topic, names in found.items():
        rows = ", ".join("`%s` %d" % row for row in sorted(names.items()))
        text += "\n## %s: %d\n\n%s\n" % (topic.capitalize(), len(names), rows)
    return text


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default="build/stepc", type=os.path.abspath)
    p.add_argument("--write", action="store_true")
    p.add_argument("--missing", action="store_true")
    options = p.parse_args()
    families, found, known = count(options.stepc)
    if options.missing:
        for topic, names in known.items():
            print("%s: %s" % (topic, " ".join(n for n in names if n not in found[topic]) or "none"))
        return 0
    text = page(families, found)
    if options.write:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(text)
        return 0
    with open(PAGE, encoding="utf-8") as f:
        old = f.read()
    for line in sorted(set(text.splitlines()) ^ set(old.splitlines())):
        print(line[:200])
    if text != old:
        print("tests/parity/CASES.md is not what the cases say: tests/parity/coverage.py --write")
    return text != old


if __name__ == "__main__":
    sys.exit(main())
