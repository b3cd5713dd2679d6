#!/usr/bin/env python3
"""The command line from outside: exit codes, messages, and what happens to files when something fails.

usage: cli.py STEPC
"""
import fcntl
import json
import os
import pty
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner, safetensors

DOCUMENT = {
    "stepc": 1, "name": "small", "constants": {"hidden": 6},
    "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8, 3], "axes": ["batch", None]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "name": "first", "features": "$hidden"}, {"type": "tanh"}, {"type": "linear", "features": 3}]},
    "loss": "mean((model - y)**2)", "optimizer": {"type": "adam", "learning_rate": 0.01}}
VALUES = np.float32([(i * 37 % 64) / 32 - 1 for i in range(168)])


class Cli(runner.Case):
    def setUp(self):
        self.model = self.write("model.json", json.dumps(DOCUMENT, indent=1))
        self.bad = self.write("bad.json", json.dumps(dict(DOCUMENT, optimiser={}), indent=1))

    def no_leavings(self):
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith(".tmp") or ".so." in n], [])

    def test_usage(self):
        for args, says in [((), "examples"), (("compil",), 'did you mean "compile"'), (("compile",), "needs MODEL"),
                           (("compile", "a", "b"), "one argument too many"), (("compile", "a", "--outptu", "b"), '"--output"'),
                           (("compile", "a"), "-o FILE"), (("compile", "a", "-o", "-"), "an object is a file"), (("compile", "a", "-o"), "needs a value"), (("compile", "a", "-o", "b", "--stop-after="), "--stop-after needs a value: PASS"), (("run", "a", "--save", "b", "--save", "c"), "--save is b and c: one alone"),
                           (("compile", "a", "-o", "b", "-O7"), "0|1|2|3"), (("compile", "a", "-o", "b", "--blas", "onw"), '"own"'),
                           (("compile", "a", "-o", "b", "--stop-after", "fuze"), '"fuse"'), (("help", "rum"), '"run"'),
                           (("run", "a", "--steps", "x"), "whole number"), (("explain", "E9999"), "no diagnostic")]:
            p = self.stepc(*args, code=2)
            self.assertIn(says, p.stderr)
            self.assertEqual(p.stdout, "")

    def test_forgotten_values(self):
        """An option is no value of the one before it, and what is empty names no file: nothing is trained first, nothing is written."""
        before = sorted(os.listdir(self.folder))
        for args, says in [(("--save", "--all-state"), "--save needs a value: FILE; --all-state is an option (--save=--all-state where it is the value)"),
                           (("--metrics", "--save=x"), "--save=x is an option"), (("--data", "--steps", "2"), "--data needs a value: FILE..."), (("--save", "-q"), "-q is an option"),
                           (("--save",), "--save needs a value: FILE"), (("--save=",), "--save needs a value: FILE"), (("--trace", ""), "--trace needs a value"),
                           (("--save-dir", ""), "--save-dir needs a value: DIR"), (("--data", ""), "--data needs a value"), (("--init=",), "--init needs a value")]:
            p = self.stepc("run", self.model, "--steps", "2", *args, code=2)
            self.assertIn(says, p.stderr)
        self.assertIn("-o needs a value: FILE; -D is an option (-o-D where it is the value)", self.stepc("compile", self.model, "-o", "-D", "x=1", code=2).stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_help(self):
        listed = self.stepc("--help").stdout
        for command in ("compile", "run", "check", "explain", "version"):
            self.assertIn(command, listed)
            text = self.stepc(command, "--help").stdout
            self.assertLess(text.index("examples"), text.index("options"))
            self.assertEqual(text, self.stepc("help", command).stdout)
        for page, name in (("stepc", None), ("stepc-run", "run"), ("stepc-step.h", "step.h"), ("stepc-language", "language")):  # as man(1) calls them
            self.assertEqual(self.stepc("man", page).stdout, self.stepc("man", *([name] if name else [])).stdout)
        self.assertIn('"run"', self.stepc("man", "stepc-rum", code=2).stderr)

    def test_launcher_that_sleeps(self):
        """An mpirun that has seen its ranks end and sleeps all the same is ended, and the code is that of the ranks: Open MPI sleeps
        for half a minute behind SIGTERM where one of them was refused, though none is left."""
        asleep = self.write("mpirun", "#!%s\nimport subprocess, sys, time\nfor rank in range(2):\n"
                            "    subprocess.run([a for a in sys.argv[3:] if a != '--transport=mpi'])\ntime.sleep(120)\n" % sys.executable)
        os.chmod(asleep, 0o755)
        so, data, env = self.path("step.so"), self.batches(), dict(os.environ, PATH=os.path.dirname(asleep) + ":" + os.environ["PATH"])
        self.stepc("compile", self.model, "-o", so)
        for more, code in (((), 0), (("--save-dir", "run", "--keep", "best=typo:min:1"), 1), (("--resume", "gone"), 3)):
            begin = time.monotonic()
            done = subprocess.run([self.program, "run", "-n", "2", so, "--data", data, "--steps", "2", "-q", *more], capture_output=True, text=True, env=env, cwd=self.folder, timeout=100)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertNotIn("lost", done.stderr)
            self.assertLess(time.monotonic() - begin, 60)

    def test_launcher_that_starts_nothing(self):
        """As that of Open MPI does for root, or where there are not enough slots: no document is wrong then."""
        refusing = self.write("mpirun", "#!%s\nimport sys\nsys.exit('not for root')\n" % sys.executable)
        os.chmod(refusing, 0o755)
        self.stepc("compile", self.model, "-o", "step.so")
        done = self.stepc("run", "-n", "2", "step.so", "--data", self.batches(), "--steps", "2", code=3, env={"PATH": self.folder + ":" + os.environ["PATH"]})
        self.assertIn("not for root", done.stderr)
        self.assertIn("mpirun ended with 1 before a rank began here", done.stderr)

    def test_saved_hyper_parameters_are_told(self):
        """A learning rate that is saved holds, also over another one in the document of a run that continues, which says so."""
        data = self.batches()
        for name, rate in (("a", 0.25), ("b", 0.5)):
            self.stepc("compile", self.write(name + ".json", dict(DOCUMENT, optimizer={"type": "sgd", "learning_rate": rate})), "-o", name + ".so")
        run = lambda name, *more: self.stepc("run", name + ".so", "--data", data, "--steps", "4", *more).stderr
        run("a", "--save-dir", "runs", "--save", "all.safetensors", "--all-state")
        said = "note: learning_rate is 0.25, as it was saved; the document has 0.5 (--set learning_rate=0.5)"
        for restored in (("--resume", "runs", "--steps", "6"), ("--init", "runs"), ("--init", "all.safetensors")):
            self.assertIn(said, run("b", *restored))
            for silent in (run("a", *restored), run("b", *restored, "--set", "learning_rate=0.5"), run("b", *restored, "-q")):
                self.assertNotIn("as it was saved", silent)
        self.assertNotIn("as it was saved", run("b", "--init", "runs", "--params-only"))

    def test_names_of_other_formats(self):
        """What is written is safetensors, and not found again by a name for which --data looks for something else."""
        for option, name in (("--save", "a.npz"), ("--infer", "a.npy"), ("--save", "a.csv")):
            said = self.stepc("run", self.model, "--data", self.batches(), "--steps", "1", option, name, code=2).stderr
            self.assertIn("%s %s: it gets safetensors" % (option, name), said)
            self.assertFalse(os.path.exists(self.path(name)))

    def test_evaluation_that_never_comes(self):
        """A run that ends before its first evaluation says so."""
        data = self.batches()
        run = lambda every: self.stepc("run", self.model, "--data", data, "--steps", "3", "--eval-data", data, "--eval-every", every).stderr
        self.assertIn("warning: --eval-every 4: the run ends with step 3; nothing is evaluated", run("4"))
        self.assertNotIn("warning", run("3"))

    def test_not_there_yet(self):
        """What users of other tools look for gets an answer of its own; an entry of something that is there would be a lie."""
        with open(os.path.join(ROOT, "frontend/cli/later.def")) as f:
            entries = re.findall(r'^LATER\("(\w*)", "([\w-]+)", "(.*)"\)$', f.read(), re.M)
        self.assertGreater(len(entries), 4)
        commands = self.stepc("--help").stdout
        for command, name, instead in entries:
            p = self.stepc(*((command, "--" + name, "3") if command else (name, "x")), code=2)
            self.assertIn("%s%s is not supported yet" % ("--" if command else "stepc ", name), p.stderr)
            self.assertIn(instead.replace("\\", ""), p.stderr)
            self.assertNotRegex(self.stepc(command, "--help").stdout if command else commands, (r"--%s " if command else r"\n  %s ") % name)

    def test_header_and_dependencies(self):
        document = dict(DOCUMENT, name="a.b*/", metrics={"x": "loss", "x/y": "loss"}, ema={"decay": 0.5}, inputs=dict(DOCUMENT["inputs"], **{
            "x": {"shape": [8, 4]}}))
        model, so, header = self.write("my model.json", json.dumps(document)), self.path("a b.so"), self.path("names.h")
        self.stepc("compile", model, "-o", so, "--emit", "header=" + header, "-MF", self.path("a.d"))
        with open(self.path("a.d")) as f:
            self.assertEqual(f.read(), "%s: %s\n" % (so.replace(" ", "\\ "), model.replace(" ", "\\ ")))
        listing = json.loads(self.stepc("explain", so, "--json").stdout)["tensors"]
        use = self.write("use.c", '#include "names.h"\n#include "names.h"\nint main(void) { return A_B___PARAM_COUNT != %d || A_B___METRIC_COUNT != 3 '
                         '|| sizeof A_B___METRIC_x_y_NAME != 4 || A_B___INPUT_x_ELEMENTS != 32 || A_B___EMA_COUNT != (int)A_B___PARAM_COUNT || '
                         'A_B___PARAM_first_bias != 1; }\n' % sum(t["role"] == "param" for t in listing))
        for compiler in (["gcc", "-std=c99"], ["g++", "-x", "c++", "-std=c++11"]):
            subprocess.run([*compiler, "-pedantic", "-Wall", "-Wextra", "-Werror", use, "-o", self.path("use")], check=True, timeout=600)
            subprocess.run([self.path("use")], check=True, timeout=600)
        for args, says in ((("--emit", "header"), "expected header=FILE"), (("--emit", "c=x"), "expected header=FILE"),
                           (("--emit", "header=x", "--stop-after", "fuse"), "need an object")):
            self.assertIn(says, self.stepc("compile", model, "-o", so, *args, code=2).stderr)
        before = os.stat(so).st_ino  # the object is last: where a new one stands, so does what goes beside it
        for other in ("--emit", "header=/nonexistent/x"), ("--emit", "header=/dev/full"), ("-MF", "/nonexistent/x"):
            self.stepc("compile", model, "-o", so, *other, code=3)
            self.assertEqual(os.stat(so).st_ino, before)

    def test_interrupted_link(self):
        """Ctrl-C while the linker works leaves neither a folder nor half an object."""
        folder = self.path("tmp")
        os.mkdir(folder)
        for pause in (0, 0.01, 0.03):
            p = subprocess.Popen([self.program, "compile", self.model, "-o", self.path("a.so")], stderr=subprocess.PIPE, cwd=self.folder,
                                 env=runner.environment(TMPDIR=folder), start_new_session=True)
            while p.poll() is None and not os.listdir(folder):
                pass
            time.sleep(pause)
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGINT)
            p.communicate(timeout=600)
            self.assertIn(p.returncode, (0, -signal.SIGINT))
            self.assertEqual(os.listdir(folder), [])
            self.no_leavings()

    def test_timeout(self):
        self.stepc("compile", self.model, "-o", self.path("a.so"), "--timeout", "100")
        fifo = self.path("never.json")
        os.mkfifo(fifo)
        for command in (("compile", fifo, "-o", self.path("b.so")), ("check", fifo)):
            self.assertIn("--timeout: the time is over\n", self.stepc(*command, "--timeout", "1", code=3).stderr)

    def test_without_end(self):
        """What is no file and never ends is refused, and a text that is too long before it fills the memory."""
        for command in (("explain", "/dev/zero"), ("check", "/dev/zero"), ("plot", "/dev/zero"), ("verify", "/dev/zero")):
            self.assertIn("cannot read /dev/zero: it is a device, not a file", self.stepc(*command, code=1).stderr)
        self.assertIn("the text is empty", self.stepc("explain", "/dev/null", code=1).stderr)
        writes = "import sys\nwhile True: sys.stdout.write('y\\n' * 65536)"
        with subprocess.Popen([sys.executable, "-c", writes], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as endless:
            done = subprocess.run([self.program, "explain", "-"], stdin=endless.stdout, capture_output=True, text=True)
            endless.kill()
        self.assertEqual((done.returncode, done.stderr), (1, "stepc: error: standard input has more than 67108864 bytes, which is the limit\n"))

    def test_templates(self):
        """Every starter document is sound, compiles and trains."""
        names = [line.split()[0] for line in self.stepc("init").stdout.splitlines()]
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            model, so = self.path(name + ".json"), self.path(name + ".so")
            self.stepc("init", name, model)
            with open(model) as f:
                text = f.read()
            self.assertEqual(self.stepc("init", name).stdout, text)
            self.stepc("init", name, model, code=3)  # no file is replaced
            self.stepc("compile", model, "-o", so)
            inputs = [t for t in json.loads(self.stepc("explain", so, "--json").stdout)["tensors"] if t["role"] == "input"]
            data = self.tensors("data.safetensors", **{t["name"]: (np.arange(np.prod(t["shape"])) * 7 % 10).reshape([1] + t["shape"]).astype(t["dtype"]) for t in inputs})
            lines = self.stepc("run", so, "--steps", "6", "--data", data, "--metrics", "-", "-q").stdout.splitlines()
            self.assertLess(json.loads(lines[-1])["loss"], json.loads(lines[0])["loss"], name)
        self.assertIn('did you mean "mlp"?', self.stepc("init", "mpl", code=2).stderr)

    def test_gradient(self):
        self.assertRegex(self.stepc("check", self.model, "--grad").stdout, r"\ngradient: 4 tensors agree with differences of the loss\n")
        for more in ({"ema": {"decay": 0.5}, "metrics": {"g": "global_norm(grads)"}}, {"accumulate": {"microbatch_size": 2, "metrics": {"l": "sum"}}, "metrics": {"l": "loss"}},
                     {"precision": {"compute": "bfloat16"}}, {"per_example": {"transform": [{"type": "clip_by_global_norm", "max_norm": 0.01}]}},
                     {"optimizer": {"type": "lbfgs"}}, {"trainable": ["first.*"]}, {"mesh": {"axes": {"data": 2}}, "sharding": {"rules": [["batch", "data"]]}}):
            text = self.stepc("check", self.write("more.json", json.dumps(dict(DOCUMENT, **more))), "--grad", "-D", "hidden=3").stdout
            self.assertIn("gradient: %d tensors agree" % (2 if "trainable" in more else 4), text)
        stopped = self.write("stopped.json", json.dumps(dict(DOCUMENT, loss="mean((stop_gradient(model) * model - y)**2)")))
        text = self.stepc("check", stopped, "--grad", code=1).stdout
        self.assertRegex(text, r"\nfirst\.kernel: along a random direction the gradient says [-0-9.e]+, differences of the loss [-0-9.e]+\n")
        self.assertIn("gradient: 4 of 4 tensors differ", text)
        self.stepc("check", self.bad, "--grad", code=1)
        self.assertIn("--data needs --grad", self.stepc("check", self.model, "--data", "x", code=2).stderr)
        for shape, code in (((1, 8, 4), 0), ((2, 8, 4), 0), ((8, 4), 1)):
            data = self.tensors("data.safetensors", x=np.reshape(np.arange(np.prod(shape)) % 5 - np.float32(2), shape).astype("f4"))
            p = self.stepc("check", self.model, "--grad", "--data", data, code=code)
            self.assertIn("expected float32[8, 4] behind a dimension of steps" if code else "agree", p.stdout + p.stderr)

    def test_weights(self):
        def write(**shapes):
            return self.tensors("w.safetensors", **{name.replace("__", "."): np.zeros(shape, safetensors.NUMPY[dtype]) for name, (dtype, *shape) in shapes.items()})
        good = dict(first__kernel=("F32", 4, 6), first__bias=("F16", 6), layers__2__kernel=("F32", 6, 3), layers__2__bias=("F32", 3))
        self.assertIn("fit\n", self.stepc("check", self.model, "--weights", write(**good)).stdout)
        for change, says in (({"first__bias": ("F32", 5)}, 'tensor "first.bias": expected float32[6], found float32[5]'), ({"first__bias": ("I32", 6)}, "found int32[6]"),
                             ({"first__bais": ("F32", 6)}, 'did you mean "first.bias"?')):
            self.assertIn(says, self.stepc("check", self.model, "--weights", write(**dict(good, **change)), code=1).stdout)
        del good["first__kernel"]
        self.assertIn('"first.kernel" is missing; expected float32[4, 6]', self.stepc("check", self.model, "--weights", write(**good), code=1).stdout)
        self.stepc("check", self.model, "--weights", self.path("none"), code=3)

    def test_completion_and_doctor(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../frontend/cli/options.def")) as f:
            table = f.read()
        options = set(re.findall(r'^OPTION\([^"]*"([\w-]+)"', table, re.M))
        for shell in ("bash", "zsh", "fish"):
            script = self.stepc("completion", shell).stdout
            for name in options:
                self.assertRegex(script, r"(--|-l )%s\b" % name)
            for name in re.findall(r"^COMMAND\((\w+)", table, re.M):
                self.assertRegex(script, r"\b%s\b" % name)
        subprocess.run(["bash", "-n"], input=self.stepc("completion", "bash").stdout, text=True, check=True, timeout=600)
        self.stepc("completion", "tcsh", code=2)
        text = self.stepc("doctor", env={"STEPC_LOG": "info"}).stdout
        self.assertRegex(text, r"STEPC_LOG +=? info|STEPC_LOG += info")
        for folder in ("runtime", "codegen", "passes", "frontend"):
            for name in os.listdir(os.path.join(ROOT, folder)):
                if name.endswith(".c"):
                    with open(os.path.join(ROOT, folder, name)) as f:
                        for variable in re.findall(r'(?:getenv|variable)\((?:s, |&s, )?"(STEPC_\w+)"', f.read()):
                            self.assertIn(variable, text)
        self.assertTrue(self.stepc("doctor", "--json").stdout.endswith("}\n"))
        told = json.loads(self.stepc("doctor", "--json", env={"STEPC_LOG": "info"}).stdout)
        self.assertEqual(list(told)[0], "schema")
        self.assertEqual(told["variables"]["STEPC_LOG"], "info")
        self.assertEqual(set(told["variables"]), set(re.findall(r"^STEPC_\w+", text, re.M)))
        self.assertEqual([name for name, found in told["machine"].items() if found is None], list(told["lacks"]))
        for name, found in {**told["machine"], **told["lacks"]}.items():
            self.assertIn(name, text)
            self.assertIn(found or "", text)
        self.assertEqual(told["limits"]["time"], 600)
        self.assertEqual(self.stepc("schema").stdout, self.stepc("doc", "schema").stdout)

    def test_templates_as_json(self):
        listed = json.loads(self.stepc("init", "--json").stdout)["templates"]
        self.assertEqual(["%-14s %s" % row for row in listed.items()], self.stepc("init").stdout.splitlines())
        self.assertIn("--json is for the list", self.stepc("init", "mlp", "--json", code=2).stderr)

    def test_llvm_is_opened_by_what_needs_it(self):
        """All but an object is made without it; a library that is missing or another one is the environment's fault."""
        none = {"STEPC_LLVM": "/nonexistent/libLLVM.so"}
        for arguments in (["--version"], ["--help"], ["doc", "optimizers", "adam"], ["check", self.model, "--grad"], ["explain", self.model],
                          ["compile", self.model, "--stop-after", "fuse"]):
            self.stepc(*arguments, env=none)
        said = self.stepc("compile", self.model, "-o", "step.so", env=none, code=3).stderr
        self.assertRegex(said, r"needs LLVM \d+, which cannot be opened: /nonexistent/libLLVM.so: .*STEPC_LLVM=")
        self.assertIn("missing: install", self.stepc("doctor", env=none, code=3).stdout)
        self.assertRegex(self.stepc("compile", self.model, "-o", "step.so", env={"STEPC_LLVM": "libc.so.6"}, code=3).stderr,
                         r"libc.so.6 is not LLVM \d+, for which this program is made: it lacks LLVM")
        self.assertFalse(os.path.exists(self.path("step.so")))
        needed = subprocess.run(["readelf", "-d", runner.Case.program], capture_output=True, text=True, check=True).stdout
        self.assertRegex(needed, r"NEEDED.*libc\.so")
        self.assertNotRegex(needed, r"NEEDED.*(LLVM|stdc)")

    def test_version(self):
        self.assertRegex(self.stepc("version").stdout, r"^stepc \d+\.\d+\.\d+\n")
        self.assertEqual(json.loads(self.stepc("version", "--json").stdout)["schema"], 1)

    def test_switches_of_the_environment(self):
        for name in ("STEPC_VERIFY_EACH", "STEPC_LATE_ALWAYS", "STEPC_WARPGROUPS_ALWAYS"):
            for value, code in ("0", 0), ("1", 0), ("", 0), ("yes", 2):
                done = self.stepc("compile", self.model, "-q", "-o", "switched.so", env={name: value}, code=code)
                self.assertEqual(done.stderr.splitlines()[:1], ["stepc: error: %s=yes: expected 1 or 0" % name] if code else [])

    def test_disabled_passes(self):
        """What only makes a step faster can be left out, what it needs cannot."""
        for name in ("outline", "ghost", "simplify", "join", "outline_more"):
            self.stepc("compile", self.model, "-o", self.path("without.so"), "--disable", name)
        for name in ("autodiff", "shard", "fuse", "memplan"):
            self.assertIn(name, self.stepc("compile", self.model, "-o", self.path("without.so"), "--disable", name, code=1).stderr)

    def test_explain_code(self):
        self.assertIn("learning_rate", self.stepc("explain", "E0107").stdout)

    def test_files(self):
        so = self.path("step.so")
        for args, says in [(("nothing.json", "-o", so), "nothing.json: No such file"), ((self.folder, "-o", so), "Is a directory"),
                           ((self.model, "-o", self.folder), "Is a directory"),
                           ((self.model, "-o", self.path("none/step.so")), "none/step.so")]:
            text = self.stepc("compile", *args, code=3).stderr
            self.assertIn(says, text)
            self.assertNotIn(".tmp", text)
        if os.geteuid() != 0:
            os.chmod(self.model, 0)
            self.assertIn("Permission denied", self.stepc("compile", self.model, "-o", so, code=3).stderr)
        self.assertFalse(os.path.exists(so))
        self.no_leavings()

    def test_failing_compile_keeps_output(self):
        so = self.write("step.so", "precious")
        self.stepc("compile", self.bad, "-o", so, code=1)
        full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        p = self.stepc("compile", self.model, "-o", so, code=3, preexec_fn=full)
        self.assertIn("too large", p.stderr)
        with open(so) as f:
            self.assertEqual(f.read(), "precious")
        self.no_leavings()

    def test_output_device_full(self):
        if os.path.exists("/dev/full"):
            with open("/dev/full", "w") as full:
                p = subprocess.run([self.program, "version"], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(p.returncode, 3)
            self.assertIn("No space left", p.stderr)
        so, data = self.path("step.so"), self.batches()
        self.stepc("compile", self.model, "-o", so)
        for out, says in (("-", "--save - is standard output, which is closed"), ("/dev/stdout", "--save: /dev/stdout: Is a directory")):  # of what is closed
            p = self.stepc("run", so, "--steps", "3", "--data", data, "--save", out, "-q", code=3, preexec_fn=lambda: os.close(1))
            self.assertIn(says, p.stderr)

    def test_diagnostics(self):
        p = self.stepc("check", self.bad, code=1)
        self.assertRegex(p.stderr, r'bad\.json:\d+:2: error\[E0107\]: unknown key "optimiser" in the document\n')
        self.assertIn("   at /optimiser\n", p.stderr)
        self.assertNotIn("\033", p.stderr)
        self.assertIn("\033", self.stepc("check", self.bad, "--color", "always", code=1).stderr)
        lines = [json.loads(line) for line in self.stepc("check", self.bad, "--diagnostics=json", code=1).stderr.splitlines()]
        self.assertEqual([(d["level"], d["code"], d["pointer"]) for d in lines], [("error", "E0107", "/optimiser")])
        span = lines[0]["spans"][0]
        with open(self.bad, "rb") as f:
            self.assertEqual(f.read()[span["byte_start"]:span["byte_end"]], b'"optimiser"')
        self.assertEqual(lines[0]["rendered"], p.stderr)

    def test_a_line_is_one_write(self):
        """Of programs that share a terminal or a pipe, as ranks do, no message tears another. A socket of datagrams keeps writes apart."""
        for args, code in ((("run", "nothing"), 3), (("run", "n" * 6000), 3), (("compil",), 2), (("check", self.bad), 1)):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs:
                self.assertEqual(subprocess.run([self.program, *args], stderr=theirs.fileno(), stdout=subprocess.DEVNULL).returncode, code)
                theirs.close()
                writes = list(iter(lambda: ours.recv(1 << 16), b""))
            self.assertTrue(all(w.endswith(b"\n") for w in writes), writes)
            self.assertEqual(b"".join(writes).decode(), self.stepc(*args, code=code).stderr)

    def test_standard_input(self):
        with open(self.bad) as f:
            self.assertIn("-:", self.stepc("check", "-", code=1, stdin=f).stderr)

    def test_names_listed_once(self):
        text = self.stepc("check", self.write("bad2.json", json.dumps(dict(DOCUMENT, trainable=["encoder.9"]))), code=1).stderr
        listed = re.search(r"expected one of: (.*)", text).group(1).split(", ")
        self.assertIn("**.kernel", listed)
        self.assertEqual(len(listed), len(set(listed)))

    def test_foreign_word_is_one_error(self):
        """What is told under its name in another library is not said to be missing, too."""
        for optimizer, says in (({"type": "adam", "lr": 0.01}, '"learning_rate": 1e-3'), ({"type": "adam", "pace": 0.01}, None)):
            found = [json.loads(line) for line in self.stepc("check", self.write("one.json", json.dumps(dict(DOCUMENT, optimizer=optimizer))), "--diagnostics=json", code=1).stderr.splitlines()]
            self.assertEqual([d["code"] for d in found], ["E0107"] if says else ["E0102", "E0107"])
            self.assertIn(says or "", found[-1]["rendered"])

    def test_one_mistake_one_error(self):
        param = {"type": "param", "shape": [8, 3], "init": {"type": "zeros"}}
        for change, says in [({"seed": "abc"}, "expected a number"), ({"seed": {"params": []}}, "expected a number"),
                             ({"metrics": {"g": "global_norm(grad)"}}, 'did you mean "grads"'),
                             ({"loss": "mean(make_fenchel_young_loss('logsumexp(scores)', model, model))"}, "in a loss object"),
                             ({"model": param}, "this parameter has no name")]:
            p = self.stepc("check", self.write("one.json", json.dumps(dict(DOCUMENT, **change))), code=1)
            self.assertIn(says, p.stderr)
            self.assertEqual(len(re.findall(r"error\[", p.stderr)), 1, p.stderr)

    def test_many_errors(self):
        layers = [{"type": "linear", "features": 3, "k%d" % i: 0} for i in range(50)]
        path = self.write("many.json", json.dumps(dict(DOCUMENT, model={"type": "sequential", "input": "x", "layers": layers}), indent=1))
        text = self.stepc("check", path, code=1).stderr
        self.assertLessEqual(len(re.findall(r"error\[", text)), 20)

    def test_streams_of_the_seed(self):
        for seed, warns in (({"params": 1, "dropout": 2}, False), ({"paramss": 1, "default": 2}, True), ({"default": 2}, False)):
            said = self.stepc("check", self.write("streams.json", json.dumps(dict(DOCUMENT, seed=seed)))).stderr
            self.assertEqual('W0115]: nothing draws from the stream "paramss"' in said and 'did you mean "params"?' in said, warns, said)
            self.assertEqual("warning" in said, warns, said)

    def test_check(self):
        p = self.stepc("check", self.model)
        self.assertRegex(p.stdout, r"^small: 51 parameters, .*FLOP per step, [\d,]+ B of memory per device\n$")
        self.assertEqual(p.stderr, "")
        self.assertEqual(self.stepc("check", "-q", self.model).stdout, "")

    def test_explain(self):
        so = self.path("step.so")
        self.stepc("compile", self.model, "-o", so)
        with open(so, "rb") as f:
            self.assertEqual(f.read(4), b"\x7fELF")
        for what in (self.model, so):
            text = self.stepc("explain", what).stdout
            for section in ("small: 51 parameters in 4 tensors, 1 device", "\nmemory ", "\ntensors ", "\nstate ", "\nfusion ", "\ncomm     none"):
                self.assertIn(section, text)
            self.assertLess(text.count("\n"), 20)  # one screen; the lists stand behind flags
            for line in self.on_terminal(60, "explain", what):
                self.assertLessEqual(len(line), 60)
            listed = self.stepc("explain", what, "--tensors").stdout
            self.assertRegex(listed, r"first\.kernel +float32\[4,6\] +param")
            self.assertIn("at /model/layers/0", listed)
            self.assertEqual(len(re.findall(r" param\b", listed)), int(re.search(r"(\d+) param[,;]", text)[1]))
            for flag in ("--tensors", "--memory", "--flops", "--fusion", "--comm", "--sharding", "--state"):
                self.assertTrue(self.stepc("explain", what, flag).stdout)
            report = json.loads(self.stepc("explain", what, "--json").stdout)
            self.assertEqual(list(report)[0], "schema")
            step = next(e for e in report["entries"] if e["name"] == "step")
            self.assertGreater(step["memory"]["peak"], 0)
            self.assertGreaterEqual(step["memory"]["peak"], step["memory"]["lower_bound"])
            self.assertGreaterEqual(step["memory"]["peak"], report["state_bytes"] + step["memory"]["arena"])
        self.no_leavings()

    def test_explain_large_groups(self):
        """A group of many operations takes one line as wide as the terminal, which says how many it leaves out; --json has all."""
        terms = ["sin(model * %d.5) / (%d + model**2)" % (i, i + 1) for i in range(40)]
        long = self.write("long.json", json.dumps(dict(DOCUMENT, loss="mean((%s)**2)" % " + ".join(terms))))
        report = json.loads(self.stepc("explain", long, "--json").stdout)
        groups = next(e for e in report["entries"] if e["name"] == "step")["groups"]
        self.assertGreater(max(g["count"] for g in groups), 100)
        for g in groups:
            self.assertEqual(len(g["ops"]), g["count"])
        for lines, width in ((self.stepc("explain", long, "--fusion").stdout.splitlines(), 160),
                             (self.on_terminal(100, "explain", long, "--fusion"), 100)):
            self.assertLessEqual(max(map(len, lines)), width)
            shown = [re.match(r"(?:fusion)? +#(\d+) +\w+ +([\w+]+)(?: more)? ->", line) for line in lines]
            shown = {int(m[1]): m[2].split("+") for m in shown if m}
            self.assertEqual(sorted(shown), sorted(g["command"] for g in groups))
            for g in groups:
                ops = shown[g["command"]]
                count = len(ops) - 1 + int(ops[-1]) if ops[-1].isdigit() else len(ops)
                self.assertEqual(count, g["count"])

    def on_terminal(self, columns, *arguments):
        """Lines that stepc prints where standard output is a terminal of so many columns."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([self.program, *arguments], stdout=its) as child:
            os.close(its)
            out = b""
            try:
                while more := os.read(ours, 65536):
                    out += more
            except OSError:  # its other end is closed
                pass
            self.assertEqual(child.wait(), 0)
        os.close(ours)
        return out.decode().splitlines()

    def test_help_fits_the_terminal(self):
        """Texts of options and of what is found go on in the next line; where there is no terminal they are one line each."""
        words = lambda lines: " ".join(" ".join(lines).split())
        for arguments in (["--help"], *([command, "--help"] for command in ("compile", "run", "checkpoint")), ["doc", "momentum"]):
            plain = self.stepc(*arguments).stdout
            for columns in (60, 100):
                lines = self.on_terminal(columns, *arguments)
                long = [line for line in lines if len(line) > columns and not line.startswith("  stepc ") and "usage:" not in line and "|" not in line and "other libraries" not in line and len(line.split()) > 1]  # a word stays whole
                self.assertEqual(long, [], "%s in %d columns" % (arguments, columns))
                self.assertEqual(words(lines), words(plain.splitlines()))

    def test_names_act_on_no_terminal(self):
        """Names are what the authors of documents, objects and files wrote: a terminal gets '?' for what it would act on."""
        name, step, data = "a\x1b[31m\u009b\x7fb", self.path("step.so"), self.path("data.safetensors")
        layers = [dict(DOCUMENT["model"]["layers"][0], name=name), *DOCUMENT["model"]["layers"][1:]]
        model = self.write("named.json", dict(DOCUMENT, name=name, metrics={name: "mean(model)"}, model=dict(DOCUMENT["model"], layers=layers)))
        safetensors.write(data, {"x": VALUES[:32].reshape(1, 8, 4), "y": VALUES[:24].reshape(1, 8, 3)})
        self.stepc("compile", model, "-o", step)
        said = self.stepc("run", step, "--steps", "1", "--data", data, "--save-dir", "runs", "--tensorboard", "board").stderr
        self.assertIn("a?[31m??b: ", said)
        self.assertNotIn("\x1b", said)
        for arguments in (["check", model], ["explain", step, "--tensors"], ["checkpoint", "ls", self.path("runs")], ["checkpoint", "show", self.path("runs")]):
            shown = "\n".join(self.on_terminal(100, *arguments))
            self.assertIn("a?[31m??b", shown)
            self.assertFalse(set("\x1b\u009b\x7f") & set(shown), arguments)
            self.assertIn(name, self.stepc(*arguments).stdout)

    def test_small_object(self):
        """A toy stays a small file: tables, runtime and manifest grow unseen otherwise."""
        with open(os.path.join(ROOT, "samples/cookbook/model.json")) as f:
            document = json.load(f)
        del document["ema"]
        toy, so = self.write("toy.json", json.dumps(document)), self.path("toy.so")
        for cpu in ("x86-64-v3", "x86-64-v4"):
            self.stepc("compile", toy, "-o", so, "--cpu", cpu, "--without", "directories")
            alone = os.path.getsize(so)
            self.assertLessEqual(alone, 64 * 1024 + 416)  # these for what says which number another dtype makes infinite, for evaluations that are interrupted, and for STEPC_TRACE
            self.stepc("compile", toy, "-o", so, "--cpu", cpu, "--without", "retention,compression")
            directories = os.path.getsize(so)
            self.assertLessEqual(directories, alone + 24 * 1024 + 192)  # these for paths that are too long
            self.stepc("compile", toy, "-o", so, "--cpu", cpu, "--without", "maps,compression")
            retention = os.path.getsize(so)
            self.assertLessEqual(retention, directories + 2816)
            self.stepc("compile", toy, "-o", so, "--cpu", cpu, "--without", "compression")
            maps = os.path.getsize(so)
            self.assertLessEqual(maps, retention + 4608)
            self.stepc("compile", toy, "-o", so, "--cpu", cpu)
            self.assertLessEqual(os.path.getsize(so), maps + 3072)
            self.stepc("compile", toy, "-o", so, "--cpu", cpu, "--without", "checkpoint")
            self.assertLessEqual(os.path.getsize(so), 50 * 1024)
        self.assertIn('did you mean "checkpoint"', self.stepc("compile", toy, "-o", so, "--without", "checkpont", code=2).stderr)

    def test_part_left_out(self):
        """An object without checkpoint trains; what it cannot load is refused, and stepc saves for it."""
        so, weights, data = self.path("small.so"), self.path("w.safetensors"), self.batches()
        self.stepc("compile", self.model, "-o", so, "--without=checkpoint")
        self.stepc("run", so, "--data", data, "--steps", "2", "--save", weights)
        refused = self.stepc("run", so, "--data", data, "--steps", "1", "--init", weights, code=1)
        self.assertIn("compiled --without checkpoint", refused.stderr)

    def test_large_mesh(self):
        """The program of one device does not grow with the mesh, and a mesh that this machine has not is compiled for all the same."""
        document = dict(DOCUMENT, mesh={"axes": {"data": 2, "model": 2}}, sharding={"rules": [["batch", "data"]], "params": {"first.kernel": [None, "model"]}}, constants={"hidden": 128},
                        inputs={k: dict(i, shape=[128, i["shape"][1]]) for k, i in DOCUMENT["inputs"].items()})
        model, so = self.write("wide.json", json.dumps(document)), self.path("wide.so")
        self.stepc("compile", model, "-o", so)
        small = os.path.getsize(so)
        self.stepc("compile", model, "--mesh", "data=64,model=64", "-o", so)
        self.assertLessEqual(os.path.getsize(so), small + 8192)
        self.assertIn("4,096 devices", self.stepc("explain", so, "--comm").stdout)

    def test_mesh_of_many_threads(self):
        """A collective has no small number of members: 128 devices, some without rows, learn what one does."""
        document = dict(DOCUMENT, sharding={"rules": [["batch", ["data", "more"]]]}, mesh={"axes": {"data": 1, "more": 1}}, inputs={k: dict(i, shape=[96, i["shape"][1]]) for k, i in DOCUMENT["inputs"].items()})
        model, so = self.write("many.json", json.dumps(document)), self.path("many.so")
        values, losses = np.sin(np.arange(96 * 7)).astype("f4"), []
        data = self.tensors("data.safetensors", x=values[:384].reshape(1, 96, 4), y=values[384:].reshape(1, 96, 3))
        for mesh in ("data=1,more=1", "data=16,more=8"):
            self.stepc("compile", model, "--mesh", mesh, "-o", so)
            lines = self.stepc("run", so, "--steps", "3", "--data", data, "--metrics", "-", "-q").stdout.splitlines()
            losses.append([json.loads(line)["loss"] for line in lines])
        np.testing.assert_allclose(*losses, rtol=1e-5)
        self.assertIn("at most 4096", self.stepc("compile", model, "--mesh", "data=128,more=128", "-o", so, code=2).stderr)

    def test_explain_sharding(self):
        """Every tensor with its layout and who decided it, and what collectives send."""
        ruled = {"rules": [["batch", "data"]], "params": {"first.kernel": [None, "model"]}}
        layers = [*DOCUMENT["model"]["layers"], {"type": "sharding_constraint", "spec": ["batch"]}]
        document = dict(DOCUMENT, sharding=ruled, mesh={"axes": {"data": 2, "model": 2}}, model=dict(DOCUMENT["model"], layers=layers))
        model, so = self.write("laid.json", json.dumps(document)), self.path("laid.so")
        text = self.stepc("explain", model, "--sharding").stdout
        self.assertRegex(text, r"sharding +param float32\[\d+,4\]  sharding \[data, -\], as the document says")
        self.assertRegex(text, r"param float32\[4,6\]  sharding \[-, model\], as the document says  at /model/layers/0\n")
        self.assertRegex(text, r"param float32\[6\]  sharding \[-\], as nothing is said of it")
        self.assertRegex(text, r"dot float32\[\d+,6\]  sharding \[data, model\], as its operands")
        self.assertRegex(text, r"sharding_constraint float32\[\d+,3\]  sharding \[data, -\], by the constraint")
        text = self.stepc("explain", model, "--comm").stdout
        lines = re.findall(r"([\d,]+) B sent, (\d+) times", text)
        total = re.search(r"in all ([\d,]+) B\n", text).group(1)
        self.assertAlmostEqual(sum(int(b.replace(",", "")) * int(n) for b, n in lines), int(total.replace(",", "")), delta=len(lines))
        over = {k: int(b.replace(",", "")) for k, b in re.findall(r"over ([a-z ]+): each device sends ([\d,]+) B per step", text)}
        text = self.stepc("explain", model, "--link", "data=1kB/s,model=0.5MB/s").stdout
        self.assertIn('axis "data" is given twice', self.stepc("explain", model, "--link", "data=1kB/s,data=1GB/s", code=2).stderr)
        found = float(re.search(r"over data: .*, ([\d.e+]+) ms\n", text).group(1))
        self.assertAlmostEqual(found / over["data"], 1, delta=0.01)
        timed = lambda *o: self.stepc("explain", model, *o).stdout
        rounds = {k: int(n) for k, n in re.findall(r"over ([a-z ]+): .* in (\d+) rounds", text)}
        text = timed("--link", "data=1TB/s:1s,model=1TB/s:2s")
        took = {k: float(t) for k, t in re.findall(r"over ([a-z ]+): .*, ([\d.e+]+) ms\n", text)}
        for axes, n in rounds.items():  # a latency for every round, that of the slowest axis
            self.assertAlmostEqual(took[axes] / (1000 * n * (2 if "model" in axes else 1)), 1, delta=0.01)
        usual = float(re.search(r"([\d.e+-]+) ms of comm", timed("--link", "data=1TB/s,model=1TB/s")).group(1)) / sum(rounds.values())
        self.assertAlmostEqual(usual, 5e-3, delta=1e-4)
        step = lambda *o: [float(t) for t in re.search(r"([\d.e+-]+) ms of communication per step, ([\d.e+-]+) ms of it while kernels run; a step takes ([\d.e+-]+) ms", timed(*o)).groups()]
        slow, fast = step("--link", "data=1TB/s:1s,model=1TB/s:1s", "--device", "1GFLOP/s"), step("--link", "data=1TB/s:1ns,model=1TB/s:1ns", "--device", "1FLOP/s:1kB/s")
        self.assertLess(slow[0] - slow[1] - slow[2], 0)  # a step is no shorter than what nothing hides
        self.assertLess(abs(slow[2] / (slow[0] - slow[1]) - 1), 0.01)
        self.assertGreater(fast[2], 1000)  # nothing but kernels
        for device, said in (("1", "what one computes"), ("1GFLOP/s:1", "what one computes")):
            self.assertIn(said, self.stepc("explain", model, "--link", "data=1GB/s,model=1GB/s", "--device", device, code=2).stderr)
        self.assertIn("by --link", self.stepc("explain", model, "--device", "1GFLOP/s", code=2).stderr)
        for link, said in (("data=1", "expected a rate"), ("data=1GB/s:5", "expected a latency"), ("data=1GB/s:", "expected a latency"), ("data", "AXIS=RATE"), ("date=1GB/s", 'did you mean "data"'), ("model=1GB/s", 'how fast "data" is')):
            self.assertIn(said, self.stepc("explain", model, "--link", link, code=2).stderr)
        self.stepc("compile", model, "-o", so)
        self.assertIn("explain the document", self.stepc("explain", so, "--sharding").stdout)
        self.assertIn("there is one device", self.stepc("explain", self.model, "--sharding").stdout)

    def test_explain_state(self):
        ruled = {"rules": [["batch", "data"]], "params": {"first.kernel": [None, "model"], "**": []}, "optimizer_state": {"**": ["data"]}}
        document = dict(DOCUMENT, optimizer={"type": "adafactor", "learning_rate": 0.1, "min_dim_size_to_factor": 2}, sharding=ruled,
                        mesh={"axes": {"data": 2, "model": 2}}, ema={"decay": 0.9})
        model, so = self.write("split.json", json.dumps(document)), self.path("split.so")
        self.stepc("compile", model, "-o", so)
        for what in (model, so):
            text = self.stepc("explain", what, "--state").stdout
            self.assertRegex(text, r"first\.kernel +float32\[4,6\] +96 B +48 B per device +param +sharding \[-, model\]\n")
            self.assertRegex(text, r"opt_state\.0\.v_row\.first\.kernel +float32\[4\] +16 B +8 B per device +opt_state +sharding \[data\]\n")
            self.assertRegex(text, r"opt_state\.0\.v_col\.first\.kernel +float32\[6\] +24 B +24 B per device +opt_state +sharding \[-\]\n")
            self.assertRegex(text, r"\nbytes +parameters +204 B +156 B per device\n +averages +204 B")
            self.assertIn("\nset      learning_rate = 0.1\n", text)
            report = json.loads(self.stepc("explain", what, "--state", "--json").stdout)
            slots = {t["name"]: t for t in report["state"]}
            self.assertEqual(slots["ema.first.kernel"]["sharding"], [[], ["model"]])
            self.assertEqual(sum(t["bytes_per_device"] for t in report["state"]), report["totals"]["bytes_per_device"])
            self.assertEqual(report["hyperparameters"], [{"name": "learning_rate", "slot": "hyperparameters.learning_rate", "settable": True, "value": 0.1}])

    def test_explain_does_not_load(self):
        for size in (0, 3, 4, 63, 64, 100):
            self.write("cut.so", "")
            with open(self.path("cut.so"), "wb") as f:
                f.write((b"\x7fELF\x02\x01\x01" + b"\xff" * 200)[:size])
            self.stepc("explain", self.path("cut.so"), code=1)
        self.stepc("explain", self.program, code=1)

    def test_damaged_objects(self):
        so = self.path("step.so")
        self.stepc("compile", self.model, "-o", so)
        with open(so, "rb") as f:
            whole = f.read()
        for size in (4, 63, 64, 200, 5000, len(whole) // 2):
            with open(self.path("cut.so"), "wb") as f:
                f.write(whole[:size])
            self.assertIn("damaged", self.stepc("run", self.path("cut.so"), "--steps", "1", code=1).stderr)
        with open(self.path("noise.so"), "wb") as f:
            f.write(b"\x01\x00\xfe" * 100)
        for args in (("run", "--steps", "1"), ("explain",), ("check",), ("compile", "-o", self.path("x.so"))):
            self.assertIn("binary data", self.stepc(args[0], self.path("noise.so"), *args[1:], code=1).stderr)

    def tensors(self, name, **arrays):
        """A file of them: its path."""
        safetensors.write(self.path(name), arrays)
        return self.path(name)

    def batches(self, values=np.zeros(168, "f4")):
        """Three batches for DOCUMENT."""
        return self.tensors("data.safetensors", x=values[:96].reshape(3, 8, 4), y=values[96:].reshape(3, 8, 3))

    def test_run(self):
        so, data = self.path("step.so"), self.batches()
        self.stepc("compile", self.model, "-o", so)
        text = self.stepc("run", so, "--steps", "2000", "--data", data).stderr
        self.assertRegex(text, r"^small: 51 parameters in 4 tensors, 1 device, cpu \S+\nmemory   peak [\d.]+ k?B: parameters 204 B, ")
        self.assertNotIn("averages", text)
        self.assertRegex(text, r"\nrun      2,000 steps, data for 3 \(used again from the start\)\n")
        self.assertRegex(text, r"\n2,000 steps in \S+ (us|ms|s), mean \S+ (us|ms|s), best \S+ (us|ms|s) per step, loss ")
        self.assertRegex(self.stepc("run", so, "--steps", "0", "--data", data).stderr, r"\n0 steps; peak memory ")
        self.assertTrue(self.stepc("run", self.model, "--steps", "1", "--data", data).stderr.startswith("small: 51 parameters in 4 tensors, interpreted\n"))
        self.assertEqual(self.stepc("run", so, "--steps", "1", "--data", data, "-q").stderr, "")

    def test_metrics_of_every_dtype(self):
        """Elements of arrays are numbers whatever their dtype, of an object and interpreted."""
        dtypes = {"float32": [0.5, -1.25, 3, 100], "float16": [0.5, -1.25, 3, 100], "bfloat16": [0.5, -1.25, 3, 100],
                  "int32": [0, -1, 3, 100], "uint32": [0, 1, 3, 100], "int8": [0, -1, 3, 100], "bool": [1, 1, 1, 1]}
        metrics = {d: f"astype(array({[0.5, -1.25, 3, 100] if d != 'uint32' else [0.5, 1.25, 3, 100]}) + 0 * x[0, 0], '{d}')" for d in dtypes}
        model, so, data = self.write("dtypes.json", json.dumps(dict(DOCUMENT, metrics=metrics))), self.path("dtypes.so"), self.batches()
        self.stepc("compile", model, "-o", so)
        for what in (model, so):
            line = json.loads(self.stepc("run", what, "-q", "--steps", "1", "--data", data, "--metrics", "-").stdout)
            self.assertEqual({d: line[d] for d in dtypes}, dtypes)

    def test_metrics_without_elements(self):
        """An extent of 0 is as good as another one, wherever it stands."""
        metrics = {"first": "reshape(x, (-1,))[:0]", "last": "zeros((4, 0)) + mean(x)", "middle": "zeros((4, 0, 3)) + mean(x)"}
        model, so, data = self.write("none.json", json.dumps(dict(DOCUMENT, metrics=metrics))), self.path("none.so"), self.batches()
        self.stepc("compile", model, "-o", so)
        for what in (model, so):
            line = json.loads(self.stepc("run", what, "-q", "--steps", "1", "--data", data, "--metrics", "-").stdout)
            self.assertEqual([line[m] for m in metrics], [[], [[]] * 4, [[]] * 4])

    def test_metrics_can_be_followed(self):
        so, data, metrics = self.path("step.so"), self.batches(), self.write("metrics", "precious")
        self.stepc("compile", self.model, "-o", so)
        self.stepc("run", so, "--steps", "1", "--data", data, "--metrics", metrics, "--set", "lr=1", code=1)
        with open(metrics) as f:
            self.assertEqual(f.read(), "precious")
        p = subprocess.Popen([self.program, "run", so, "--steps", "1000000000", "--data", data, "--metrics", metrics], stderr=subprocess.DEVNULL)
        lines = self.followed(p, metrics)
        p.kill()
        p.wait()
        self.assertEqual(json.loads(lines[1])["step"], 2)
        with open(metrics) as f:
            self.assertGreaterEqual(len(f.readlines()), len(lines))
        self.assertEqual([n for n in os.listdir(self.folder) if ".tmp" in n], [])

    def followed(self, process, metrics):
        """Some lines of metrics that a process writes, as soon as they are there."""
        lines = []
        while len(lines) <= 3 and process.poll() is None:
            time.sleep(0.05)
            if os.path.exists(metrics):
                with open(metrics) as f:
                    lines = f.readlines()
        return lines

    def test_metrics_to_a_device(self):
        """/dev/stdout may lead to a file and is never replaced."""
        so, data, output = self.path("step.so"), self.batches(), self.path("output")
        self.stepc("compile", self.model, "-o", so)
        with open(output, "w") as f:
            subprocess.run([self.program, "run", so, "-q", "--steps", "2", "--data", data, "--metrics", "/dev/stdout"], stdout=f, check=True, timeout=600)
        with open(output) as f:
            self.assertEqual([json.loads(line)["step"] for line in f], [1, 2])

    def test_standard_output(self):
        """- is standard output of whatever is one file, not a file of that name; no two outputs go there."""
        so, data = self.path("step.so"), self.batches()
        self.stepc("compile", self.model, "-o", so)
        run = ("run", so, "--steps", "2", "--data", data, "-q")
        self.stepc(*run, "--save", self.path("saved"), "--save-dir", self.path("run"), "--infer", self.path("inferred"))
        self.stepc("checkpoint", "export", self.path("run"), "-o", self.path("exported"))
        for args, name in [((*run, "--save", "-"), "saved"), ((*run, "--infer", "-"), "inferred"), (("checkpoint", "export", self.path("run"), "-o", "-"), "exported")]:
            with open(self.path("piped"), "wb") as f:
                f.write(subprocess.run([self.program, *args], stdout=subprocess.PIPE, check=True, timeout=600, cwd=self.folder).stdout)
            got, want = safetensors.read(self.path("piped")), safetensors.read(self.path(name))
            self.assertEqual({k: v.tobytes() for k, v in got.items()}, {k: v.tobytes() for k, v in want.items()})
            if name != "inferred":
                self.stepc(*run, "--init", self.path("piped"))
        wide = self.write("wide.json", json.dumps(dict(DOCUMENT, constants={"hidden": 3000})))
        self.stepc("compile", wide, "-o", self.path("wide.so"))
        self.assertIn("traceEvents", self.stepc("run", self.path("wide.so"), *run[2:], "--trace", "-").stdout)
        self.assertIn("--metrics and --save name one file: -", self.stepc(*run, "--metrics", "-", "--save", "-", code=2).stderr)
        for args in (("convert", self.path("run")), ("import", self.path("saved")), ("export", self.path("run"), "--hf", "gpt2")):
            self.assertIn("-o -: a folder is written; name one", self.stepc("checkpoint", *args, "-o", "-", code=2).stderr)
        self.assertFalse(os.path.exists("-") or os.path.exists(self.path("-")))

    def test_files_to_pipes(self):
        """What is no regular file is written to, never replaced: objects, headers, temporaries."""
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
        self.stepc("compile", self.model, "-o", pipe)
        piped = reader.communicate(timeout=600)[0]
        self.assertTrue(os.path.exists(pipe) and not os.path.isfile(pipe))
        self.stepc("compile", self.model, "-o", self.path("step.so"))
        self.assertEqual(piped, self.saved("step.so"))
        with open(self.path("header.h"), "w") as f:
            subprocess.run([self.program, "compile", self.model, "-o", self.path("step.so"), "--emit", "header=/dev/stdout"], stdout=f, check=True, timeout=600, env=runner.environment())
        self.assertIn(b"#ifndef STEPC_SMALL_H", self.saved("header.h"))
        self.assertIn("no such folder", self.stepc("compile", self.model, "-o", self.path("step.so"), "--save-temps=none", code=3).stderr)
        none = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        p = self.stepc("compile", self.model, "-o", self.path("step.so"), "--save-temps", code=3, preexec_fn=none)
        self.assertNotIn("LLVM", p.stderr)  # whose own printing would end the program
        self.assertFalse([name for name in os.listdir(self.folder) if name.endswith((".ll", ".o", ".nests"))])
        self.assertIn("--reproducer none: there is no such folder", self.stepc("compile", self.model, "-o", self.path("step.so"), "--reproducer=none", code=3).stderr)
        for suffix in ("ll", "opt.ll", "o", "nests", "cu", "cu.nests"):  # what is asked for and cannot be kept
            path = self.path("kept/" + suffix + ".so")
            os.makedirs(self.path("kept"), exist_ok=True)
            os.symlink("/dev/full", path[:-2] + suffix)
            said = self.stepc("compile", self.model, "-o", path, "--target=cpu,cuda", "--cuda-arch=text", "--save-temps=" + self.path("kept"), code=3).stderr
            self.assertIn("--save-temps: cannot write %s: No space" % (path[:-2] + suffix), said)
            self.assertFalse(os.path.exists(path))
        self.no_leavings()

    def test_metrics_without_a_line(self):
        """The metrics of the run before stay if this one writes none."""
        so, data, kept = self.path("step.so"), self.batches(), self.write("metrics", "precious")
        self.stepc("compile", self.model, "-o", so)
        none = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        self.stepc("run", so, "--steps", "3", "--data", data, "--metrics", kept, code=3, preexec_fn=none)
        self.assertEqual(self.saved("metrics"), b"precious")
        self.no_leavings()

    def test_reader_that_leaves(self):
        """`| head` is no failure worth a message."""
        p = subprocess.Popen([self.program, "doc", "optimizers"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
        p.stdout.read(10)
        p.stdout.close()
        self.assertEqual((p.stderr.read(), p.wait(timeout=600)), (b"", 3))
        p.stderr.close()
        for command in (["help"], ["help", "run"], ["run", "--help"], ["doc"], ["verify", self.path("step.so")]):
            self.stepc("compile", self.model, "-o", self.path("step.so"))
            reads, writes = os.pipe()
            os.close(reads)
            p = subprocess.run([self.program, *command], stdout=writes, stderr=subprocess.PIPE, timeout=600)
            os.close(writes)
            self.assertEqual((p.stderr, p.returncode), (b"", 3), command)

    def test_fix(self):
        """Names that are nearly right are written over, also those behind them; what has no near name stays and is reported."""
        text = json.dumps(DOCUMENT, indent=1).replace('"adam"', '"Adam"').replace("learning_rate", "lerning_rate").replace("model - y", "modle - y").replace('"linear"', '"linaer"', 1)
        path = self.write("mend.json", text)
        line = json.loads(self.stepc("check", path, "--diagnostics", "json", code=1).stderr.splitlines()[0])
        self.assertEqual((line["fix"]["text"], text[line["fix"]["byte_start"]:line["fix"]["byte_end"]]), ('"linear"', '"linaer"'))
        said = self.stepc("check", path, "--fix").stderr
        self.assertIn("4 names replaced by the nearest", said)
        for change in ('mend.json:%d:' % (1 + text[:text.index("lerning")].count("\n")), '"lerning_rate" is now "learning_rate"', '"Adam" is now "adam"', "modle is now model"):
            self.assertIn(change, said)
        for short in (text.replace('"Adam"', '"adma"'), json.dumps(DOCUMENT).replace('"float32"', '"Float32"').replace('"shape": [', '"dtype": "Float32", "shape": [', 1)):
            path = self.write("short.json", short)  # too short to be sure of, and a dtype
            self.assertIn("did you mean", self.stepc("check", path, "--fix", code=1).stderr)
            self.assertIn("adma" if "adma" in short else "Float32", self.saved("short.json").decode())
        for own, mended in (('"learning_rate"', 0), ('"LearningRate"', 1)):  # a key that is there, or is to be, is not made once more
            path = self.write("twice.json", json.dumps(DOCUMENT).replace('"learning_rate"', own + ': 0.1, "lerning_rate"'))
            said = self.stepc("check", path, "--fix", code=1).stderr
            self.assertIn('unknown key "lerning_rate"', said)
            self.assertEqual((said.count("is now"), said.count("size of the step"), self.saved("twice.json").count(b'"learning_rate"')), (mended, 1, 1))
        path = self.write("mend.json", json.dumps(DOCUMENT, indent=1))
        self.assertEqual(self.saved("mend.json").decode(), json.dumps(DOCUMENT, indent=1))
        far = self.write("far.json", text.replace("Adam", "zzzzzzzz"))
        self.assertIn('unknown optimizer "zzzzzzzz"', self.stepc("check", far, "--fix", code=1).stderr)
        self.assertNotIn("linaer", self.saved("far.json").decode())
        real = self.write("real.json", text)
        os.chmod(real, 0o640)
        os.symlink("real.json", self.path("link.json"))  # the document is mended where it lies, and may be read by whom it could be
        self.stepc("check", self.path("link.json"), "--fix")
        self.assertEqual((os.path.islink(self.path("link.json")), os.stat(real).st_mode & 0o777, b'"linaer"' in self.saved("real.json")), (True, 0o640, False))
        if os.geteuid() != 0:
            locked = self.write("locked.json", text)
            os.chmod(locked, 0o444)
            self.assertIn("Permission denied", self.stepc("check", locked, "--fix", code=3).stderr)
        before = os.stat(self.model).st_mtime_ns
        self.stepc("check", self.model, "--fix")
        self.assertEqual(os.stat(self.model).st_mtime_ns, before)

    def test_idle_mesh(self):
        note = "nothing is split over the 2 devices"
        self.assertIn(note, self.stepc("check", self.model, "--mesh", "data=2").stderr)
        self.assertEqual(self.stepc("check", self.model, "--mesh", "data=2", "-q").stderr, "")
        split = self.write("split.json", json.dumps(dict(DOCUMENT, mesh={"axes": {"data": 2}}, sharding={"rules": [["batch", "data"]]})))
        self.assertEqual(self.stepc("check", split).stderr, "")
        self.assertEqual(self.stepc("check", split, "--mesh", "data=1").stderr, "")
        self.assertIn('of the mesh along "model"', self.stepc("check", split, "--mesh", "data=2,model=2").stderr)
        self.assertIn('of the mesh along "dta"', self.stepc("check", split, "--mesh", "data=1,dta=4").stderr)

    def test_options_without_use(self):
        """An option that could do nothing is refused before the first step."""
        so, data = self.path("step.so"), self.batches()
        self.stepc("compile", self.model, "-o", so)
        for args, code, says in [(("--limit", "memory=1"), 2, "--limit and -W are for a document"), (("-Werror",), 2, "--limit and -W are for a document"),
                                 (("--on-save-error", "warn"), 2, "--on-save-error needs --save-dir DIR"), (("--eval-weights", "ema"), 2, "--eval-weights needs --eval-data or --infer FILE"),
                                 (("--eval-weights", "ema", "--eval-data", data), 1, 'there are no weights "ema"'), (("--eval-weights", "slow", "--infer", self.path("x")), 1, 'there are no weights "slow"')]:
            for what in (so,) if "--limit" in args or "-Werror" in args else (so, self.model):
                text = self.stepc("run", what, "--steps", "1", "--data", data, *args, code=code).stderr
                self.assertIn(says, text)
                self.assertNotIn("1 step", text)

        for args, says in [(("explain", so, "--remat", "1"), "--remat is for documents"), (("explain", so, "--max-memory", "1GiB"), "--max-memory is for documents"),
                           (("explain", so, "--blas", "own"), "--blas is for documents"), (("explain", so, "-Werror"), "--warnings is for documents"),
                           (("explain", "E0107", "--json"), "--json is for documents and objects; E0107 is a diagnostic"), (("explain", "E0107", "--html", self.path("x")), "E0107 is a diagnostic"),
                           (("compile", self.model, "-o", self.path("a\nb.so"), "-MF", self.path("d")), "cannot stand in a rule of make"),
                           (("compile", self.model, "-o", so, "--remat", str(2**32 + 1)), "--remat 4294967297: a level is at most 2147483647"),
                           (("run", so, "--steps", "1", "--data", data, "--shuffle=" + "9" * 20), "a whole number below 2^64"),
                           (("compile", self.model, "-o", so, "--cuda-arch", "sm_90"), "--cuda-arch needs --target cuda"),
                           (("compile", self.model, "-o", so, "--dump-dir", self.folder), "--dump-dir needs --dump or --dump-changed")]:
            self.assertIn(says, self.stepc(*args, code=2).stderr)

    def test_save_is_tried_first(self):
        so, data = self.path("step.so"), self.batches()
        self.stepc("compile", self.model, "-o", so)
        for where in ("none/final", ".", "long" * 64):
            text = self.stepc("run", so, "--steps", "1", "--data", data, "--save", self.path(where), code=3).stderr
            self.assertEqual(len(text.splitlines()), 1, text)
        kept = self.write("kept", "precious")
        self.stepc("run", so, "--steps", "1", "--data", self.path("missing"), "--save", kept, code=3)
        with open(kept) as f:
            self.assertEqual(f.read(), "precious")
        self.no_leavings()

    def saved(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def test_continue_after_interrupt(self):
        """What Ctrl-C leaves is a state to go on from: the same bytes as without it."""
        so, data = self.path("step.so"), self.batches()
        self.stepc("compile", self.model, "-o", so)
        p = subprocess.Popen([self.program, "run", so, "--steps", "1000000000", "--data", data, "--save", self.path("part"), "--all-state", "--metrics", self.write("metrics", "")],
                             stderr=subprocess.DEVNULL)
        self.followed(p, self.path("metrics"))
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=600)
        self.assertEqual(p.returncode, -signal.SIGTERM)
        steps = int(safetensors.header(self.path("part"))["__metadata__"]["step"])
        self.assertGreater(steps, 0)
        self.stepc("run", so, "--init", self.path("part"), "--steps", "7", "--data", data, "--save", self.path("rest"), "--all-state")
        self.stepc("run", so, "--steps", str(steps + 7), "--data", data, "--save", self.path("whole"), "--all-state")
        self.assertEqual(self.saved("rest"), self.saved("whole"))
        self.stepc("run", so, "--init", self.path("rest"), "--steps", "1", "--data", data, "--save", self.path("rest"), "--all-state")
        self.assertNotEqual(self.saved("rest"), self.saved("whole"))
        self.no_leavings()

    def test_disk_full(self):
        """A state that cannot be written leaves the one before it; metrics that cannot be written do not cost the state."""
        so, data, kept = self.path("step.so"), self.batches(), self.write("kept", "precious")
        self.stepc("compile", self.model, "-o", so)
        full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
        p = self.stepc("run", so, "--steps", "3", "--data", data, "--save", kept, "--all-state", code=3, preexec_fn=full)
        self.assertIn("kept", p.stderr)
        self.assertIn("too large", p.stderr)
        self.assertEqual(self.saved("kept"), b"precious")
        if os.path.exists("/dev/full"):
            self.assertIn("No space left", self.stepc("run", so, "--steps", "3", "--data", data, "--save", "/dev/full", code=3).stderr)
            p = self.stepc("run", so, "--steps", "3", "--data", data, "--metrics", "/dev/full", "--save", kept, "--all-state", code=3)
            self.assertIn("the state after step 1", p.stderr)
            self.stepc("run", so, "--steps", "1", "--data", data, "--init", kept)
        self.no_leavings()

    def test_wrong_state(self):
        so, data = self.path("step.so"), self.batches()
        self.stepc("compile", self.model, "-o", so)
        run = lambda *more, code=0: self.stepc("run", so, "--steps", "1", "--data", data, *more, code=code).stderr
        run("--save", self.path("whole"), "--all-state")
        run("--save", self.path("params"))
        whole = self.saved("whole")
        for name, content, code, says in [("cut", whole[:-4], 1, "damaged"), ("noise", bytes(range(256)) * 9, 1, "noise"), ("empty", b"", 1, "0 bytes")]:
            with open(self.path(name), "wb") as f:
                f.write(content)
            text = run("--init", self.path(name), "--save", self.path("never"), code=code)
            self.assertIn(says, text)
            self.assertEqual(len(text.splitlines()), 1, text)
        self.assertIn("No such file", run("--init", self.path("missing"), code=3))
        self.assertIn("--init", run("--init", self.folder, code=1))
        self.assertIn("--init", run("--init", so, code=1))
        other = self.write("other.json", json.dumps(dict(DOCUMENT, optimizer={"type": "sgd", "learning_rate": 0.1})))
        text = self.stepc("run", other, "--steps", "1", "--data", data, "--init", self.path("whole"), code=1).stderr
        self.assertIn('"opt_state.0.count" is not one of', text)
        self.assertIn("must hold all state", text)
        self.stepc("run", other, "--steps", "1", "--data", data, "--init", self.path("params"))
        wide = self.write("wide.json", json.dumps(dict(DOCUMENT, constants={"hidden": 7})))
        text = self.stepc("run", wide, "--steps", "1", "--data", data, "--init", self.path("params"), code=1).stderr
        self.assertIn('tensor "first.kernel": expected float32[4, 7], found float32[4, 6]', text)
        self.assertIn("--all-state needs --save", run("--all-state", code=2))
        self.assertFalse(os.path.exists(self.path("never")))

    def test_copies_follow_parameters(self):
        """Averages and slow weights begin where the parameters are given, unless they are given too, or with a whole state."""
        data = self.batches(VALUES)
        lookahead = {"type": "lookahead", "fast_optimizer": DOCUMENT["optimizer"], "sync_period": 2, "slow_step_size": 0.5}
        model = self.write("copies.json", json.dumps(dict(DOCUMENT, optimizer=lookahead, ema={"decay": 0.9})))
        self.stepc("compile", model, "-o", self.path("copies.so"))
        for what in (model, self.path("copies.so")):
            run = lambda steps, *more: self.stepc("run", what, "-q", "--steps", str(steps), "--data", data, *more)
            run(3, "--save", self.path("params"))
            run(3, "--save", self.path("state"), "--all-state")
            params, kernel = safetensors.raw(self.path("params")), "first.kernel"
            self.assertEqual(sorted(params), sorted(p + n for p in ("", "ema.", "slow.") for n in ("first.kernel", "first.bias", "layers.2.kernel", "layers.2.bias")))
            alone = {n: t for n, t in params.items() if not n.startswith(("ema.", "slow."))}
            run(0, "--init", self.tensors("alone", **alone), "--save", self.path("got"), "--all-state")
            got = safetensors.raw(self.path("got"))
            self.assertEqual([got[p + kernel].data for p in ("", "ema.", "slow.")], [alone[kernel].data] * 3)
            self.assertEqual(got["opt_state.fast_state.0.count"].data, bytes(4))
            run(0, "--init", self.path("params"), "--save", self.path("got"))
            self.assertEqual(safetensors.raw(self.path("got")), params)
            self.assertNotEqual(params["ema." + kernel], params[kernel])
            run(0, "--init", self.path("state"), "--save", self.path("got"), "--all-state")
            self.assertEqual(self.saved("got"), self.saved("state"))

    def test_set(self):
        data = self.batches(VALUES)
        for optimizer, name, says in [({"type": "adam", "learning_rate": 0.01}, "lerning_rate", 'did you mean "learning_rate"?; there is learning_rate'),
                                      ({"type": "adam", "learning_rate": {"type": "constant_schedule", "value": 0.1}}, "learning_rate", "it follows a schedule"),
                                      ({"type": "scale", "step_size": -0.1}, "learning_rate", "none can be set"),
                                      ({"type": "chain", "transforms": [{"type": "sgd", "learning_rate": 0.1}, {"type": "adam", "learning_rate": 0.1}]},
                                       "learning_rate", "there are transforms.0.learning_rate, transforms.1.learning_rate")]:
            path = self.write("set.json", json.dumps(dict(DOCUMENT, optimizer=optimizer)))
            self.assertIn(says, self.stepc("run", path, "--steps", "1", "--data", data, "--set", name + "=0.5", code=1).stderr)
        self.assertIn("the run ends with step 2; nothing is set", self.stepc("run", self.model, "--steps", "2", "--data", data, "--set", "learning_rate=1@3").stderr)
        for bad in ("learning_rate", "learning_rate=x", "learning_rate=1@0", "learning_rate=1@x", "=1", "learning_rate=inf", "learning_rate=-inf@2", "learning_rate=1e39"):
            self.stepc("run", self.model, "--steps", "1", "--data", data, "--set", bad, code=2)
        for at in ("", "@2"):
            said = self.stepc("run", self.model, "--steps", "3", "--data", data, "--set", "learning_rate=1" + at, "--set", "learning_rate=2" + at, code=2).stderr
            self.assertIn("it is given for that step already: 1", said)
        losses = lambda *more: [json.loads(line)["loss"] for line in self.stepc(
            "run", self.model, "-q", "--steps", "6", "--data", data, "--metrics", "-", *more).stdout.splitlines()]
        plain, early, late = losses(), losses("--set", "learning_rate=0.5"), losses("--set", "learning_rate=0.5@3", "--set", "learning_rate=0.01@4")
        self.assertEqual(plain[0], early[0])
        self.assertNotEqual(plain[1], early[1])
        self.assertEqual(plain[:3], late[:3])
        self.assertNotEqual(plain[3], late[3])

    def test_interrupted(self):
        so, data = self.path("step.so"), self.batches()
        self.stepc("compile", self.model, "-o", so)
        p = subprocess.Popen([self.program, "run", so, "--steps", "1000000000", "--data", data, "--save", self.path("final"),
                              "--metrics", self.write("metrics", "")], stderr=subprocess.PIPE, text=True)
        self.followed(p, self.path("metrics"))
        p.send_signal(signal.SIGINT)
        self.assertIn(" steps in ", p.communicate(timeout=600)[1])
        self.assertEqual(p.returncode, -signal.SIGINT)
        with open(self.path("metrics")) as f:
            steps = json.loads(f.readlines()[-1])["step"]
        self.assertEqual(int(safetensors.header(self.path("final"))["__metadata__"]["step"]), steps)
        self.no_leavings()

    def test_positions_of_initial_values(self):
        """Tensors are drawn as one row, as long as a position along it is an int32."""
        for features, row in ((40000, "iota dim=0 : uint32[1600000000]"), (50000, "iota dim=0 : uint32[50000, 50000]")):
            document = {"stepc": 1, "name": "huge", "inputs": {"x": {"shape": [1, features], "axes": ["batch", None]}}, "loss": "mean(model)",
                        "model": {"type": "linear", "input": "x", "features": features}, "optimizer": {"type": "sgd", "learning_rate": 0.1}}
            self.assertIn(row, self.stepc("compile", self.write("huge.json", json.dumps(document)), "--stop-after", "inline").stdout)

    def test_stop_and_continue(self):
        text = self.stepc("compile", self.model, "--stop-after", "autodiff").stdout
        self.assertTrue(text.startswith("module"))
        sir = self.write("half.sir", text)
        self.assertEqual(self.stepc("compile", sir, "-o", self.path("step.so"), "--remat", "1", "--check-finite", "--disable", "simplify", "--stop-after", "inline").stderr, "")
        self.stepc("compile", sir, "-o", self.path("step.so"))
        self.stepc("compile", self.model, "-o", self.path("same.so"))
        self.assertTrue(os.path.exists(self.path("step.so")))
        sir = self.write("late.sir", self.stepc("compile", self.model, "--stop-after", "memplan").stdout)  # what has been done is done
        said = self.stepc("compile", sir, "-o", self.path("step.so"), "--remat", "1", "--chunk-rows", "8", "--check-finite", "--disable", "simplify,join").stderr
        self.assertEqual(re.findall(r"--(\S+).*?: pass \"(\w+)\" has run", said), [("chunk-rows", "chunk"), ("remat", "remat"), ("check-finite", "memplan"), ("disable", "simplify"), ("disable", "join")], said)
        self.assertIn("W0109", self.stepc("compile", sir, "-o", self.path("step.so"), "--remat", "0", "-W", "error", code=1).stderr)

    def test_defined_twice(self):
        """One of two values for a constant would be the other one's."""
        self.assertIn("-D hidden is given twice: 3 and 4", self.stepc("check", self.model, "-D", "hidden=3", "-D", "hidden=4", code=2).stderr)

    def test_dump(self):
        os.mkdir(self.path("ir"))
        self.stepc("compile", self.model, "-o", self.path("step.so"), "--dump=autodiff,fuse", "--dump-dir", self.path("ir"))
        self.assertEqual(len(os.listdir(self.path("ir"))), 2)

    def test_same_bytes(self):
        for name in ("a.so", "b.so"):
            self.stepc("compile", self.model, "-o", self.path(name))
        with open(self.path("a.so"), "rb") as a, open(self.path("b.so"), "rb") as b:
            self.assertEqual(a.read(), b.read())


if __name__ == "__main__":
    runner.main()
