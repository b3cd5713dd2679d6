#!/usr/bin/env python3
"""Holds that files which comments and README.md files name exist: every name of a source in a comment of the
product and of the tests, and in a README, is a file of the project, or a row of ELSEWHERE says what else it is.

A path counts from the top of the project or ends the path of a file. Any argument: a folder to check instead of the project."""
import os
import re
import sys
import tokenize

from verdict import verdict

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDERS = ("frontend", "ir", "passes", "codegen", "runtime", "kernels", "samples", "tests")
ENDINGS = r"(?:c|cc|h|def|S|cu|step|py|md)"
NAME = re.compile(r"(?<![\w./*<{$%-])((?:[\w-]+/)*[A-Za-z_]\w*\." + ENDINGS + r")(?![\w/*(-]|\.\w)")
ANY = re.compile(r"(^|[_/])(NAME|X)\.")  # any name
ELSEWHERE = {
    "r.step": "the field of a result in an example",
    "cJSON.h": "cJSON's header",
    "jax/_src/lax/lax.py": "JAX's source",
}
COMMENTS = {"c": re.compile(r"/\*.*?\*/|//[^\n]*", re.S), "step": re.compile(r"#[^\n]*"), "md": re.compile(r".+", re.S)}
KINDS = {"c": "c", "cc": "c", "h": "c", "def": "c", "S": "c", "cu": "c", "py": "py", "cmake": "step", "sh": "step", "step": "step", "md": "md"}


def files():
    yield from (name for name in os.listdir(ROOT) if os.path.isfile(os.path.join(ROOT, name)))
    for folder in FOLDERS:
        for top, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                yield os.path.relpath(os.path.join(top, name), ROOT).replace(os.sep, "/")


def comments(path, kind):
    """Each comment of a file, and the line that it begins in. Of Python the texts that stand alone, too."""
    if kind == "py":
        with open(path, "rb") as f:
            alone = True
            for token in tokenize.tokenize(f.readline):
                if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and alone):
                    yield token.string, token.start[0]
                alone = token.type in (tokenize.ENCODING, tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.COMMENT)
        return
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for comment in COMMENTS[kind].finditer(text):
        yield comment.group(), text.count("\n", 0, comment.start()) + 1


def main():
    paths, faults, used = sorted(files()), [], set()
    ends = {"/" + path.split("/", i)[-1] for path in paths for i in range(path.count("/") + 1)}
    for path in paths:
        kind = KINDS.get(path.rsplit(".", 1)[-1])
        if not kind:
            continue
        for comment, line in comments(os.path.join(ROOT, path), kind):
            for name in NAME.finditer(comment):
                if name.group(1) in ELSEWHERE:
                    used.add(name.group(1))
                elif "/" + name.group(1) not in ends and not ANY.search(name.group(1)):
                    faults.append("%s:%d: no file %s" % (path, line + comment.count("\n", 0, name.start()), name.group(1)))
    faults += ["%s: nobody names it, to be taken off the list" % name for name in sorted(set(ELSEWHERE) - used)]
    return verdict(faults)


if __name__ == "__main__":
    ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ROOT)
    sys.exit(main())
