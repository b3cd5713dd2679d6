"""The one runner of stepc: time limits, environment, exit codes, what was said; documents and tensors in a folder, compiled or
interpreted there, and read back. The verifier runs around every pass, but where time or sizes are measured."""
import collections
import functools
import json
import os
import re
import resource
import select
import subprocess
import sys
import tempfile
import threading
import unittest

from . import comparison, safetensors

TIMEOUT = 600
VERIFY = "STEPC_VERIFY_EACH"

Done = collections.namedtuple("Done", "returncode stdout stderr")


class Failed(Exception):
    """stepc did not end with 0. `refused`: the document is at fault; `unsupported`: it says "not supported yet"."""

    def __init__(self, verb, code, said):
        super().__init__("%s ended with %s: %s" % (verb, code, said.strip() or "nothing said"))
        self.verb, self.code, self.said = verb, code, said
        self.refused, self.unsupported = code == 1, code == 1 and "not supported yet" in said

    def brief(self, length=700):
        return re.sub(r"\s+", " ", str(self))[:length]


def environment(verify=True, **more):
    """That of this process with the verifier on or off."""
    env = {**os.environ, VERIFY: "1", **more}
    if not verify:
        del env[VERIFY]
    return env


class Server:
    """stepc as server.c starts it, once: a program for those that start it thousands of times. A process for each thread."""

    def __init__(self, path):
        self.path, self.local = path, threading.local()

    @classmethod
    def of(cls, program):
        """That of a program, where it was built beside it; else the program."""
        program = os.path.abspath(program)
        return cls(program + "_server") if os.path.exists(program + "_server") else program

    def process(self):
        if getattr(self.local, "process", None) is None or self.local.process.poll() is not None:
            self.local.folder = tempfile.TemporaryDirectory(prefix="stepc-server-")
            self.local.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
        return self.local.process

    def attempt(self, arguments, timeout):
        process = self.process()
        said = [os.path.join(self.local.folder.name, name) for name in ("stdout", "stderr")]
        request = [*said, "stepc", *arguments]
        process.stdin.write(b"%d\n" % len(request) + b"".join(os.fsencode(a) + b"\0" for a in request))
        process.stdin.flush()
        if not select.select([process.stdout], [], [], timeout)[0]:
            process.kill()  # and its child with it
            raise Failed(arguments[0], "a time-out", "it took more than %g s" % timeout)
        answer = process.stdout.readline()
        if not answer:
            raise Failed(arguments[0], "no answer", "the server ended with %s" % process.wait())
        return Done(int(answer), *(open(path, encoding="utf-8", errors="replace").read() for path in said))


def attempt(program, *arguments, timeout=TIMEOUT, verify=True, env=None, **more):
    """However it ends: exit code, what it printed and what it said. Failed if it takes longer than `timeout` seconds."""
    if isinstance(program, Server):
        return program.attempt(arguments, timeout)
    try:
        done = subprocess.run([program, *arguments], stdin=more.pop("stdin", subprocess.DEVNULL), capture_output=True, timeout=timeout,
                              env=environment(verify, **(env or {})), **more)
    except subprocess.TimeoutExpired:
        raise Failed(arguments[0], "a time-out", "it took more than %g s" % timeout) from None
    return Done(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def call(program, *arguments, **more):
    """What stepc prints, or Failed with all that it said."""
    done = attempt(program, *arguments, **more)
    if done.returncode:
        raise Failed(arguments[0], done.returncode, done.stderr + done.stdout)
    return done.stdout


def seconds(program, *arguments):
    """CPU time of a command without the verifier, the least of three."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        call(program, *arguments, verify=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(spent)


# ---------------------------------------------------------------- a document in a folder

def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
    return path


def write_document(folder, document, data, init=None):
    """model.json, data.safetensors (a leading dimension counts steps) and, unless stepc draws them, init.safetensors."""
    os.makedirs(folder, exist_ok=True)
    write_json(os.path.join(folder, "model.json"), document)
    safetensors.write(os.path.join(folder, "data.safetensors"), data)
    if init is not None:
        safetensors.write(os.path.join(folder, "init.safetensors"), init)


def compile_document(program, folder, arguments=(), into="step.so", timeout=TIMEOUT):
    call(program, "compile", os.path.join(folder, "model.json"), "-q", "-o", os.path.join(folder, into), *arguments, timeout=timeout)


def processes(named):
    """Pids and command lines (bytes, NUL between words) of other processes whose command line holds that text."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                command = f.read()
        except OSError:
            continue  # it has just ended
        if named.encode() in command and pid != os.getpid():
            yield pid, command


def metrics(path):
    """A map of metrics per step."""
    with open(path) as f:
        return [json.loads(line) for line in f]


def train(program, folder, steps, what="model.json", data="data.safetensors", arguments=(), threads=1, timeout=TIMEOUT):
    """The tensors that are saved and a list of metrics per step, by an object or, for a document, by the interpreter."""
    at = lambda name: os.path.join(folder, name)
    init = ["--init", at("init.safetensors")] if os.path.exists(at("init.safetensors")) else []
    call(program, "run", at(what), "--steps", str(steps), "--data", at(data), *init, "--save", at("out.safetensors"), "--metrics", at("metrics.jsonl"),
         "-q", *(["--threads", str(threads)] if threads else []), *arguments, timeout=timeout)
    return safetensors.wide(at("out.safetensors")), metrics(at("metrics.jsonl"))


def play(program, folder, steps, compiled, compile_arguments=()):
    """What `train` gives for the document of the folder."""
    if compiled:
        compile_document(program, folder, compile_arguments)
    return train(program, folder, steps, "step.so" if compiled else "model.json")


def series(lines, names):
    """name -> its values in the order of steps."""
    return {k: [comparison.numbers(line.get(k, "NaN")) for line in lines] for k in names}


# ---------------------------------------------------------------- unit tests

class Case(unittest.TestCase):
    """A test with a folder of its own, in which `stepc` runs."""
    program = None  # the path of stepc: `main` sets it
    verify = True

    @functools.cached_property
    def folder(self):
        made = tempfile.TemporaryDirectory(prefix="stepc-test-")
        self.addCleanup(made.cleanup)
        return made.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        """A text, or a document, in the folder: its path."""
        with open(self.path(name), "w") as f:
            f.write(content if isinstance(content, str) else json.dumps(content, indent=1))
        return self.path(name)

    def stepc(self, *arguments, code=0, **more):
        """Done, after it has ended with `code`."""
        done = attempt(Case.program, *arguments, verify=self.verify, **{"cwd": self.folder, **more})
        self.assertEqual(done.returncode, code, "stepc %s: %s%s" % (" ".join(arguments), done.stdout, done.stderr))
        return done


class SharedCase(Case):
    """Tests that share a folder, for what is made once for all of them."""

    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory(prefix="stepc-test-")
        cls.addClassCleanup(made.cleanup)
        cls.folder = made.name

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def run_stepc(cls, *arguments):
        done = attempt(cls.program, *arguments)
        return done.returncode, done.stderr


def main():
    """The command line of a file of unit tests: STEPC, then what unittest takes."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: %s STEPC [TEST...]" % sys.argv[0])
    Case.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
