#!/usr/bin/env python3
"""What `cmake --install` puts down is used as somebody else would: from a prefix that was moved, by CMake's find_package with
stepc_add_step, by pkg-config, by man and by shells. Manual pages and completions have every command and option of the table.

usage: install.py STEPC BUILD"""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = "libstepc_llvm.so"  # where it was built
DOCUMENT = {
    "stepc": 1, "name": "game", "constants": {"hidden": 6},
    "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8, 3], "axes": ["batch", None]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "features": "$hidden"}, {"type": "tanh"}, {"type": "linear", "features": 3}]},
    "loss": "mean((model - y)**2)", "optimizer": {"type": "adam", "learning_rate": 0.01}}


def start(*arguments, code=0, **more):
    """What it says, on both ways, after it has ended with `code` (None: not with 0)."""
    env = {**os.environ, **more.pop("env", {})}
    for name in ("DESTDIR", "CMAKE_GENERATOR"):
        env.setdefault(name, "")
        env = {k: v for k, v in env.items() if k != name or v}
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, env=env, **more)
    if (done.returncode == 0) != (code == 0):
        raise AssertionError("%s ended with %d: %s" % (" ".join(arguments), done.returncode, done.stdout))
    return done.stdout


def files(folder):
    return sorted(os.path.relpath(os.path.join(top, name), folder) for top, _, names in os.walk(folder) for name in names)


class Installed(runner.SharedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        first = cls.path("first place")
        start("cmake", "--install", BUILD, "--prefix", first)
        cls.prefix = cls.path("moved to a second place")
        os.rename(first, cls.prefix)
        with open(os.path.join(ROOT, "frontend/cli/options.def")) as f:
            table = f.read()
        cls.commands = re.findall(r"^COMMAND\((\w+)", table, re.M)
        cls.options = set(re.findall(r'^OPTION\([^"]*"([\w-]+)"', table, re.M))

    def installed(self, *parts):
        return os.path.join(self.prefix, *parts)

    def text(self, *parts):
        with open(self.installed(*parts), encoding="utf-8") as f:
            return f.read()

    def consumer(self, name, document=DOCUMENT):
        folder = self.path(name)
        os.mkdir(folder)
        for file in ("CMakeLists.txt", "host.c", "host.cpp"):
            shutil.copy(os.path.join(HERE, file), folder)
        runner.write_json(os.path.join(folder, "model.json"), document)
        return folder

    def configure(self, folder, prefix, generator="Ninja", **more):
        return start("cmake", "-S", folder, "-B", os.path.join(folder, "build"), "-G", generator, "-DCMAKE_PREFIX_PATH=" + prefix, **more)

    def test_files(self):
        found = [f for f in files(self.prefix) if not f.startswith("lib/stepc/libstepc_mpi")]
        if os.path.exists(os.path.join(BUILD, OWN)):
            self.assertIn(self.installed("bin", "..", "lib", "stepc", OWN), start(self.installed("bin", "stepc"), "doctor", env={"STEPC_LLVM": ""}))
        wanted = ["bin/stepc", "share/man/man1/stepc.1", "share/man/man3/stepc-step.h.3", "share/man/man3/step.h.3", "share/man/man5/stepc-language.5", "share/pkgconfig/stepc.pc", "share/bash-completion/completions/stepc",
                  "share/zsh/site-functions/_stepc", "share/fish/vendor_completions.d/stepc.fish"]
        wanted += ["share/man/man1/stepc-%s.1" % command for command in self.commands]
        wanted += ["share/cmake/stepc/stepcConfig%s.cmake" % which for which in ("", "Version")]
        wanted += ["include/stepc/" + name for name in os.listdir(os.path.join(ROOT, "runtime/include/stepc")) + ["step.hpp"]]
        wanted += ["share/doc/stepc/" + name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")]
        wanted += ["lib/stepc/" + OWN] * os.path.exists(os.path.join(BUILD, OWN))
        self.assertEqual(found, sorted(wanted))
        for name in found:
            with open(self.installed(name), "rb") as f:
                text = f.read()
            for folder in (self.path("first place"), ROOT, BUILD):
                self.assertFalse(os.fsencode(folder) + b"/" in text, "%s names %s" % (name, folder))

    def test_cmake(self):
        for generator, program in ("Ninja", "ninja"), ("Unix Makefiles", "make"):
            if not shutil.which(program):
                print("skipped: %s is not installed" % program)
                continue
            folder = self.consumer("consumer of " + program)
            build = os.path.join(folder, "build")
            self.configure(folder, self.prefix, generator)
            start("cmake", "--build", build)
            said = start(os.path.join(build, "host"))
            first, last = map(float, said.split())
            self.assertLess(last, first / 2)
            self.assertEqual(said, start(os.path.join(build, "host_cpp")))
            start("ctest", "--test-dir", build)
            with open(os.path.join(build, "game_step", "game.h")) as f:
                self.assertIn("float32[4, 5]", f.read())  # OPTIONS
            made = os.stat(os.path.join(build, "game.so")).st_mtime_ns
            start("cmake", "--build", build)
            self.assertEqual(os.stat(os.path.join(build, "game.so")).st_mtime_ns, made)
            document = dict(DOCUMENT, optimizer={"type": "sgd", "learning_rate": 0.01})
            runner.write_json(os.path.join(folder, "model.json"), document)
            start("cmake", "--build", build)
            self.assertNotEqual(start(os.path.join(build, "host")), said)
            runner.write_json(os.path.join(folder, "model.json"), dict(document, optimizer={"type": "adamm"}))
            self.assertIn('did you mean "adam"', start("cmake", "--build", build, code=1))
            start("cmake", "--install", build, "--prefix", "/usr", env={"DESTDIR": self.path("stage of " + program)})
            self.assertEqual(files(self.path("stage of " + program)), ["usr/lib/consumer/game.so"])

    def test_refusals_of_cmake(self):
        for change, says in ((("MODEL model.json", ""), "expected stepc_add_step(NAME MODEL"), (("step(game", "step(a-b"), "NAME is a name in C"),
                             (("0.1 REQUIRED", "9.0 REQUIRED"), "version"), (("OPTIONS", "OPTION"), "expected stepc_add_step(NAME"),
                             (("headers compiler", "headers python"), '"python" is not in')):
            with self.subTest(change=change):
                folder = self.consumer("refused" + re.sub(r"\W", "_", says))
                path = os.path.join(folder, "CMakeLists.txt")
                with open(path) as f:
                    text = f.read()
                self.assertIn(change[0], text)
                with open(path, "w") as f:
                    f.write(text.replace(*change))
                self.assertIn(says, re.sub(r"\s+", " ", self.configure(folder, self.prefix, code=1)))

    def test_headers_alone(self):
        alone, folder = self.path("headers"), self.consumer("of headers")
        start("cmake", "--install", BUILD, "--prefix", alone, "--component", "headers")
        self.assertFalse(os.path.exists(os.path.join(alone, "bin")))
        self.assertIn('"compiler" is not in', re.sub(r"\s+", " ", self.configure(folder, alone, code=1)))
        with open(os.path.join(folder, "CMakeLists.txt"), "w") as f:
            f.write("cmake_minimum_required(VERSION 3.16)\nproject(consumer LANGUAGES C)\nfind_package(stepc REQUIRED)\n"
                    "add_executable(host host.c)\ntarget_link_libraries(host PRIVATE stepc::headers)\n")
        self.configure(folder, alone)
        start("cmake", "--build", os.path.join(folder, "build"))

    def test_pkg_config(self):
        env = {"PKG_CONFIG_PATH": self.installed("share/pkgconfig")}
        config = lambda *a: start("pkg-config", *a, "stepc", env=env).strip()  # noqa: E731
        self.assertEqual(config("--modversion"), start(self.installed("bin/stepc"), "--version").split()[1])
        compiler, plugins = config("--variable=stepc"), config("--variable=plugindir")
        self.assertTrue(os.path.samefile(compiler.replace("\\", ""), self.installed("bin/stepc")))
        self.assertTrue(plugins.endswith("/lib/stepc"))
        model, step, host = runner.write_json(self.path("model.json"), DOCUMENT), self.path("step.so"), self.path("host")
        start(compiler.replace("\\", ""), "compile", model, "-o", step, "-q")
        flags = re.sub(r"(?<!\\) ", "\n", config("--cflags", "--libs")).replace("\\", "").split("\n")
        start("cc", "-Wall", "-Werror", os.path.join(HERE, "host.c"), "-o", host, *flags)
        first, last = map(float, start(host, step).split())
        self.assertLess(last, first / 2)

    def test_destdir(self):
        stage = self.path("stage")
        start("cmake", "--install", BUILD, "--prefix", "/opt/stepc", env={"DESTDIR": stage})
        self.assertEqual(os.listdir(stage), ["opt"])
        self.assertEqual(files(stage + "/opt/stepc"), files(self.prefix))

    def test_manual_pages(self):
        pages = {c: self.text("share/man/man1/stepc-%s.1" % c).replace("\\-", "-") for c in self.commands}
        for command, page in pages.items():
            listed = set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", start(self.installed("bin/stepc"), command, "--help"), re.M))
            self.assertEqual(set(re.findall(r"^(?:\\fB-\w\\fR, )?\\fB--([\w-]+)", page, re.M)), listed)
            for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES", "SEE ALSO"):
                self.assertIn("\n.SH %s\n" % section, page)
            self.assertIn("stepc-%s\\fR(1)" % command, self.text("share/man/man1/stepc.1").replace("\\-", "-"))
        self.assertEqual({o for page in pages.values() for o in re.findall(r"\\fB--([\w-]+)", page)}, self.options)
        self.assertEqual(set(re.findall(r"^\\fB(STEPC_\w+)", pages["run"], re.M)),
                         set(re.findall(r"^(STEPC_\w+)", start(self.installed("bin/stepc"), "doctor"), re.M)))
        keys = self.text("share/man/man5/stepc-language.5").replace("\\-", "-")
        for key in re.findall(r"^## (\w+)", start(self.installed("bin/stepc"), "doc", "document"), re.M):
            self.assertIn("\n.TP\n\\fB%s\\fR\n" % key, keys)
        paths = [self.installed(f) for f in files(self.prefix) if f.startswith("share/man")]
        if shutil.which("mandoc"):
            faults = start("sh", "-c", 'mandoc -T lint -W warning "$@" || true', "sh", *paths).splitlines()
            self.assertEqual([f for f in faults if "missing date" not in f], [])
        else:
            print("skipped: mandoc is not installed")
        if shutil.which("man") and shutil.which("groff"):
            for path in paths:
                said = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path], env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"},
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
                self.assertEqual((said.returncode, said.stderr), (0, ""))
        else:
            print("skipped: man is not installed")

    def test_shells(self):
        scripts = {"bash": "share/bash-completion/completions/stepc", "zsh": "share/zsh/site-functions/_stepc",
                   "fish": "share/fish/vendor_completions.d/stepc.fish"}
        for shell, path in scripts.items():
            self.assertEqual(self.text(path), start(self.installed("bin/stepc"), "completion", shell))
            if shutil.which(shell):
                start(shell, "-n", self.installed(path))
            else:
                print("skipped: %s is not installed" % shell)
        ask = 'source "$0"; COMP_WORDS=(stepc "$@"); COMP_CWORD=$#; _stepc; echo "${COMPREPLY[*]}"'
        for words, says in ((["comp"], "compile completion"), (["compile", "--numerics", ""], "reproducible invariant mesh-invariant fast"), (["run", "--eval-w"], "--eval-weights")):
            self.assertEqual(start("bash", "-c", ask, self.installed(scripts["bash"]), *words).split(), says.split())
        if shutil.which("fish"):
            ask = 'source "%s"; complete -C "stepc compile --numerics "' % self.installed(scripts["fish"])
            self.assertEqual([line.split("\t")[0] for line in start("fish", "--no-config", "-c", ask).splitlines()], ["fast", "invariant", "mesh-invariant", "reproducible"])


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(2))
    runner.main()
