#!/usr/bin/env python3
"""No output replaces an input or another output: every pair of options that name files (options.def), for every command, by the same
name, a hard link, a symbolic link and another spelling.

usage: overwrite.py STEPC
"""
import itertools
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner

with open(os.path.join(ROOT, "frontend/cli/options.def")) as f:
    TEXT = f.read()
OPTIONS = [(re.findall(r"ON\((\w+)\)", on), name, kind) for on, name, kind in
           re.findall(r'^OPTION\(([^"]+), "([\w-]+)", (?:0|\'.\'), (?:NULL|"[^"]*"), (\w+)', TEXT, re.M)]
COMMANDS = re.findall(r'^COMMAND\((\w+), "([^"]*)"', TEXT, re.M)
INPUTS, OUTPUTS = ("CLI_INPUT", "CLI_FILES"), ("CLI_OUTPUT", "CLI_OUTPUTS")
REPLACED = ("init", "save")  # a run that goes on from a file may leave its end there


def content(path):
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return f.read()


class Overwrite(runner.Case):
    def given(self, option, kind, path):
        if kind == "operand":
            return [path]
        return ["--" + option, "what=" + path if kind == "CLI_OUTPUTS" else path]

    def refuse(self, command, files, target):
        """`files`: option, kind and path of each."""
        operands = [path for _, kind, path in files if kind == "operand"] or [self.write("other.json", "{}")]
        if command == "checkpoint":
            operands = ["export", self.folder]
        if command == "plot":
            operands = [self.write("other.jsonl", ""), *operands][-2:]
        rest = sum((self.given(*one) for one in files if one[1] != "operand"), [])
        before = content(target)
        said = self.stepc(command, *operands, *rest, code=2).stderr
        self.assertIn("name one file", said)
        self.assertNotRegex(said, "--[A-Z]")
        self.assertEqual(before, content(target))

    def pairs(self):
        for command, operand in COMMANDS:
            mine = [(name, kind) for on, name, kind in OPTIONS if command in on]
            inputs = [one for one in mine if one[1] in INPUTS] + ([("", "operand")] if operand.startswith(("MODEL", "STEP.SO", "METRICS")) else [])
            outputs = [one for one in mine if one[1] in OUTPUTS]
            for pair in itertools.chain(itertools.product(inputs, outputs), itertools.combinations(outputs, 2)):
                if tuple(name for name, _ in pair) != REPLACED:
                    yield command, pair

    def test_every_pair(self):
        pairs = list(self.pairs())
        self.assertGreater(len(pairs), 18)
        for command in ("compile", "run"):
            self.assertGreater(sum(one[0] == command for one in pairs), 8)
        for command, (a, b) in pairs:
            path = self.write("file", "{}")
            for name in ("hard", "soft"):
                if os.path.lexists(self.path(name)):
                    os.unlink(self.path(name))
            os.link(path, self.path("hard"))
            os.symlink("file", self.path("soft"))
            for other in (path, self.path("hard"), self.path("soft"), os.path.join(self.folder, "..", os.path.basename(self.folder), ".", "file")):
                with self.subTest(command=command, pair=(a, b), other=other):
                    self.refuse(command, [(*a, path), (*b, other)], path)
            if a[1] in OUTPUTS:  # neither is there yet
                new = self.path("new")
                self.refuse(command, [(*a, new), (*b, os.path.join(self.folder, ".", "new"))], new)

    def test_files_of_a_folder(self):
        """What is written into a folder does not replace what is read there."""
        text = self.stepc("compile", os.path.join(ROOT, "samples/cookbook/model.json"), "--stop-after", "autodiff").stdout
        model = self.write("03-model.sir", text)
        self.assertIn("would be overwritten", self.stepc("compile", model, "--dump", "-o", self.path("o.so"), code=2).stderr)
        self.assertIn("would be overwritten", self.stepc("compile", model, "--dump", "--dump-dir", self.folder, "-o", self.path("o.so"), code=2, cwd="/").stderr)
        object_file = self.write("model.ll", text)
        self.assertIn("would be overwritten", self.stepc("compile", object_file, "--save-temps", "-o", self.path("o.so"), code=2).stderr)
        self.stepc("compile", self.write("model.sir", text), "--dump", "--save-temps", "-o", self.path("o.so"))

    def test_weights_that_are_not_finite(self):
        """FILE.nonfinite of --save FILE is an output as FILE is."""
        for option, kind in (("data", "CLI_FILES"), ("metrics", "CLI_OUTPUT"), ("", "operand")):
            path = self.write("w.nonfinite", "{}")
            self.refuse("run", [(option, kind, path), ("save", "CLI_OUTPUT", self.path("w"))], path)

    def test_allowed(self):
        """Devices, different files, and a run that goes on where it began."""
        model, so = os.path.join(ROOT, "samples/cookbook/model.json"), self.path("step.so")
        self.stepc("compile", model, "-o", so, "--emit", "header=" + self.path("h.h"), "--depfile", self.path("d"))
        self.stepc("compile", model, "-o", so)
        self.stepc("compile", model, "-o", "/dev/null", "--depfile", "/dev/null")
        with open(model) as f:
            self.stepc("compile", "-", "-o", so, stdin=f)
        self.write("in.json", content(model))
        with open(self.path("in.json")) as f:
            self.assertIn("name one file", self.stepc("compile", "-", "-o", self.path("in.json"), stdin=f, code=2).stderr)


if __name__ == "__main__":
    runner.main()
