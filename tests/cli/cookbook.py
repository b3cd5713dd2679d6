#!/usr/bin/env python3
"""The documents of the cookbook: each is checked and compiled, and holds what the reference shows. With --renew their objects'
sizes and the times of a step on this machine are written into frontend/cli/cookbook.def.

usage: cookbook.py STEPC [--renew]
"""
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner

FOLDER = os.path.join(ROOT, "frontend", "cli")
TABLE = os.path.join(FOLDER, "cookbook.def")
ROW = re.compile(r'^RECIPE\((\w+), (\w+), "([^"]*)", (\d+), (\d+)\)$', re.M)


def rows():
    with open(TABLE, encoding="utf-8") as f:
        return ROW.findall(f.read())


def document(name):
    return os.path.join(FOLDER, "cookbook", name + ".json")


class Cookbook(runner.Case):
    def test_every_document_has_a_row(self):
        names = [name for _, name, *_ in rows()]
        self.assertGreaterEqual(len(names), 30)
        self.assertEqual(sorted(names), sorted(n[:-5] for n in os.listdir(os.path.join(FOLDER, "cookbook"))))

    def test_compiles(self):
        for _, name, text, *_ in rows():
            with self.subTest(name):
                with open(document(name), encoding="utf-8") as f:
                    d = json.load(f)
                self.assertEqual((d["name"], d["//"]), (name, text))
                code, _, error = runner.attempt(self.program, "compile", document(name), "-o", self.path(name + ".so"))
                self.assertEqual((code, error), (0, ""))

    def test_options_exist(self):
        """What a recipe says of the command line is there."""
        helps = "".join(runner.attempt(self.program, command, "--help")[1] for command in ("compile", "run"))
        options = set(re.findall(r"(?m)^ +(?:-\w, )? *(--[a-z-]+)", helps))
        for _, name, text, *_ in rows():
            self.assertEqual((name, set(re.findall(r"--[a-z][a-z-]*", text)) - options), (name, set()))

    def test_is_shown(self):
        for _, name, text, size, _ in rows():
            shown = runner.attempt(self.program, "doc", "cookbook", name)[1]
            with open(document(name), encoding="utf-8") as f:
                document_text = f.read()
            self.assertIn(document_text, shown)
            self.assertIn(text, shown)
            self.assertIn("The object has %s bytes" % size, shown)
            self.assertEqual(runner.attempt(self.program, "init", name)[1], document_text)


def renew(program):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = re.search(r"model name\s*: (.*)", f.read())
    machine = "%s, x86-64-v3, one thread for each device" % (model.group(1).strip() if model else platform.machine())
    with open(TABLE, encoding="utf-8") as f:
        table = f.read()
    with tempfile.TemporaryDirectory() as folder:
        for subject, name, text, size, time in rows():
            path = os.path.join(folder, name + ".so")
            subprocess.run([program, "compile", document(name), "-o", path, "--cpu", "x86-64-v3"], check=True)
            measured = subprocess.run([program, "bench", path, "--threads", "1", "--rounds", "15", "--json"], stdout=subprocess.PIPE, check=True)
            took = round(json.loads(measured.stdout)["objects"][0]["seconds"]["best"] * 1e9)
            print(name, os.path.getsize(path), took)
            table = table.replace('"%s", %s, %s)' % (text, size, time), '"%s", %d, %d)' % (text, os.path.getsize(path), took))
    table = re.sub(r'MACHINE\(".*"\)', 'MACHINE("%s")' % machine, table)
    with open(TABLE, "w", encoding="utf-8") as f:
        f.write(table)


if __name__ == "__main__":
    if "--renew" in sys.argv:
        renew(sys.argv[1])
    else:
        runner.main()
