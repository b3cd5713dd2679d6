#!/usr/bin/env python3
"""Changes one thing in the compiler or its runtime, builds it and asks the tests whether they notice. A change that no test
notices (it "survived") shows what is not tested, or code that does nothing.

    tests/mutants/mutants.py --seeds 1-50            play these; those that LEDGER.md has are left out, so a campaign goes on
    tests/mutants/mutants.py --again survived --thorough   play the survivors of the ledger again, as the tests are now
    tests/mutants/mutants.py --show 17               what seed 17 would change
    tests/mutants/mutants.py --control               the unchanged sources must survive, sources that compute 2 - 3 for 2 + 3 must not
    tests/mutants/mutants.py --check                 the mutator and the ledger themselves, in a second; of 300 and more at least 95 % are killed

A seed stands for one change of the sources as they are: the folder goes round by the seed, a kind of change is drawn, then one of
all places where it is possible. Changes are made in a copy (--folder), which keeps its build. The first test that fails ends it;
those come first that killed most per second in the same folder, and a test whose programs kept their bytes is not asked. Outcomes:
`killed` (by a test, or by a compiler's error that is no accident of types), `survived`, `unbuilt` (it does not compile: no
mutant), `equivalent` (the compiler makes the same programs of it; or looked at by a person: no input can tell, or only speed and
memory change; the reason stands beside it).
Kinds of change and the way from many to few follow DeMillo, Lipton and Sayward, "Hints on test data selection" (1978).
"""
import argparse
import collections
import copy
import fcntl
import hashlib
import json
import math
import multiprocessing
import os
import pickle
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import ROOT

LEDGER = os.path.join(HERE, "LEDGER.md")
FOLDERS = ("frontend", "ir", "passes", "codegen", "runtime")
OUTCOMES = ("killed", "survived", "unbuilt", "equivalent")
GOAL, ENOUGH = 0.95, 300  # the goal is one of a campaign: fewer changes say little
KNOWN = {"parity.interpreted": 4, "parity.some": 4, "cli": 5}  # as if they had killed that many before
LEFT_OUT = re.compile(r"^(lint|mutants|tool|depth|times|limits|faults.soak)")
COSTS = os.path.join("Testing", "Temporary", "CTestCostData.txt")
# What a pattern finds, and what may stand there instead. Patterns see code without comments, texts and lines of the preprocessor.
SWAPS = {
    "operator": ((r"(?<=[\w)\] ]) ([-+*/%]) (?=[\w(&*!~-])", {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/"}),
                 (r" (&&|\|\|) ", {"&&": "||", "||": "&&"}), (r" ([-+|])= ", {"+": "-", "-": "+", "|": "&"}),
                 (r" (<<|>>) ", {"<<": ">>", ">>": "<<"})),
    "comparison": ((r" (<=|>=|<|>|==|!=) ", {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}),),
    "flag": ((r"\b(true|false)\b", {"true": "false", "false": "true"}), (r"(?<=[( ])(!)(?=[\w(])", {"!": ""}),
             (r"( \| [A-Z][A-Z0-9_]+)\b", None)),
    "constant": ((r"(?<![\w.{])(\d+)(?![\w.])", None), (r"(?<![\w.])(\d+\.\d+(?:e-?\d+)?)(?!\w)", None)),
}
LOOP = re.compile(r"\bfor \((?:[^;()]|\([^()]*\))*;((?:[^;()]|\([^()]*\))*);((?:[^;()]|\([^()]*\))*)\)")
STATEMENT = re.compile(r"^[ ]+(?!(?:return|break|continue|goto|case|default|else|typedef|struct|enum|union|static|extern|const|for|while|do|switch)\b)"
                       r"(?!\w+(?: \w+)* \**\w+(?:\[[^\]]*\])? = )(?!\w+ \**\w+(?:\[\w*\])*(?:, \**\w+)*;)(if \(.*\) )?[\w*(].*(?:\(|=|\+\+|--).*;$")
KINDS = ("operator", "comparison", "flag", "constant", "loop", "statement")
DEFENSIVE = re.compile(r"\b(BUG|assert|_Static_assert)\b")
ROW = re.compile(r"^\| (\d+) \| (\S+) \| (\S+):(\d+) \| (\w+) \| `(.*?)` \| `(.*?)` \| (\w+) \| (.*) \|$")


# ---------------------------------------------------------------- places and changes

def sources(root):
    for folder in FOLDERS:
        for top, folders, names in os.walk(os.path.join(root, folder)):
            folders.sort()
            for name in sorted(names):
                if re.search(r"\.(c|h|def|step)$", name):
                    yield os.path.relpath(os.path.join(top, name), root)


def blank(text, formulas):
    """The text with spaces for comments, texts and lines of the preprocessor."""
    if formulas:
        pattern = r"#[^\n]*|'[^'\n]*'"
    else:
        pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ ]*#(?!define)[^\n]*|^[ ]*#define \w+'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S | re.M if not formulas else re.M)


def changed_constant(text):
    if "." in text:
        return text + " * 1.5" if float(text) else "0.5"
    return "1" if text == "0" else "0" if text == "1" else str(int(text) + 1)


def places(path, text):
    """kind -> list of (offset, length, replacement)"""
    found = {kind: [] for kind in KINDS}
    code = blank(text, path.endswith(".step"))
    starts = [0] + [m.end() for m in re.finditer("\n", code)]
    lines = code.split("\n")
    skip = [bool(DEFENSIVE.search(line)) for line in lines]
    line_of = lambda offset: code.count("\n", 0, offset)

    def add(kind, offset, length, replacement):
        if not skip[line_of(offset)] and text[offset:offset + length].strip():
            found[kind].append((offset, length, replacement))

    for kind, rows in SWAPS.items():
        if path.endswith(".def") and kind in ("operator", "comparison"):
            continue
        for pattern, swap in rows:
            for m in re.finditer(pattern, code):
                old = m.group(1)
                add(kind, m.start(1), len(old), swap[old] if swap else "" if kind == "flag" else changed_constant(old))
    if path.endswith((".c", ".h")):
        for m in LOOP.finditer(code):  # the bound, one more or one less, or one less to begin with
            for n in re.finditer(r" (<|<=|>|>=) ", m.group(1)):
                old = n.group(1)
                add("loop", m.start(1) + n.start(1), len(old), {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[old])
            for n in re.finditer(r" = (0|1)(?=[,;])", code[m.start():m.start(1)]):
                add("loop", m.start() + n.start(1), 1, "1" if n.group(1) == "0" else "0")
        for i, line in enumerate(lines):
            before = next((lines[j].strip() for j in range(i - 1, -1, -1) if lines[j].strip()), "")
            if STATEMENT.match(line) and line.count("(") == line.count(")") and re.search(r"[;{}:)]$|\belse$|^$", before):
                found["statement"].append((starts[i] + len(line) - len(line.lstrip()), len(line.strip()), ";")) if not skip[i] else None
    return found


def every_place(root):
    """(folder, kind) -> list of (path, offset, length, replacement)"""
    found = {(folder, kind): [] for folder in FOLDERS for kind in KINDS}
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            text = f.read()
        for kind, rows in places(path, text).items():
            found[path.split(os.sep)[0], kind] += [(path, *row) for row in rows]
    return found


class Change:
    """What stands at a line of a file and what shall stand there."""

    def __init__(self, path, number, kind, before, after):
        self.path, self.number, self.kind, self.before, self.after = path, number, kind, before, after

    @staticmethod
    def draw(root, found, seed):
        draw = random.Random(seed)
        kind = draw.choice(KINDS)
        path, offset, length, replacement = draw.choice(found[FOLDERS[seed % len(FOLDERS)], kind])
        with open(os.path.join(root, path), encoding="utf-8") as f:
            text = f.read()
        first, last = text.rfind("\n", 0, offset) + 1, text.find("\n", offset + length)
        before, after = text[first:last], text[first:offset] + replacement + text[offset + length:last]
        return Change(path, text.count("\n", 0, offset) + 1, kind, before.strip(), after.strip())

    def apply(self, root):
        """The text of before, or None: the line is no longer there. Of equal lines the nearest to where it was is changed."""
        at = os.path.join(root, self.path)
        if not os.path.exists(at):
            return None
        with open(at, encoding="utf-8") as f:
            text = f.read()
        lines = text.split("\n")
        same = [i for i, line in enumerate(lines) if line.strip() == self.before]
        if not same:
            return None
        i = min(same, key=lambda i: abs(i + 1 - self.number))
        lines[i] = lines[i].replace(self.before, self.after)
        self.number = i + 1
        with open(at, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        return text

    def __str__(self):
        return "%s:%d (%s)\n  - %s\n  + %s" % (self.path, self.number, self.kind, self.before, self.after)


# ---------------------------------------------------------------- the ladder of tests

class Test:
    """A test of CTest: what it starts, and which programs of the build that needs."""

    def __init__(self, listed, at, costs):
        given = {p["name"]: p["value"] for p in listed.get("properties", ())}
        self.name, self.command = listed["name"], listed["command"]
        self.where, self.environment = given.get("WORKING_DIRECTORY"), dict(e.split("=", 1) for e in given.get("ENVIRONMENT", ()))
        self.skipped, self.cost = given.get("SKIP_RETURN_CODE", 0), costs.get(self.name, 10.0)
        self.programs = [a for a in self.command if a.startswith(at + os.sep) and os.path.isfile(a)]

    def but(self, name, *arguments, share=1.0):
        other = copy.copy(self)
        other.name, other.command, other.cost = name, [*self.command, *arguments], self.cost * share
        return other


def tests_of(folder, name="build"):
    """All that say whether a program does what it should. What measures time says too often that the machine is busy."""
    at = os.path.join(folder, name)
    listed = json.loads(subprocess.run(["ctest", "--test-dir", at, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout)["tests"]
    costs = {}
    if os.path.exists(os.path.join(folder, "build", COSTS)):
        with open(os.path.join(folder, "build", COSTS), encoding="utf-8") as f:
            costs = {m.group(1): float(m.group(2)) for m in re.finditer(r"^(\S+) \d+ (\S+)$", f.read(), re.M)}
    tests = [Test(t, at, costs) for t in listed if "command" in t and not LEFT_OUT.match(t["name"])]
    parity = {t.name: t for t in tests if t.name.startswith("parity.")}
    return [t.but(t.name, "--first", "-j", "1", "--timeout", "300") if t.name in ("parity.compiled", "parity.interpreted", "parity.spread") else t for t in tests] + [
        parity["parity.compiled"].but("parity.some", "--supported", "--first", "-j", "1", "--timeout", "300", "--every", "40", share=0.08)]


def ladder(tests, path, reached, rows, quick):
    """(what is quick for what it kills, what is slow), the quickest first: by seconds per change in the same folder that a test ended, as the ledger tells."""
    kills, part = collections.Counter(KNOWN), path.split("/")[0]
    for m in rows:
        if m.group(8) == "killed" and m.group(3).split("/")[0] == part:
            kills.update(t.name for t in tests if re.search(r"(^| )%s($|:)" % re.escape(t.name), m.group(9)))
    tests = [t for t in tests if path.startswith("runtime/include") or not t.programs or any(p in reached for p in t.programs)]
    rank = lambda t: (t.cost + 0.05) / (1 + kills[t.name])
    tests.sort(key=rank)
    return [t for t in tests if rank(t) <= quick], [t for t in tests if rank(t) > quick]


def limited(seconds, little):
    os.setsid()
    if little:
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def call(command, seconds, folder, little=True, where=None, environment=None):
    """(exit code, output); a process that computes for too long ends, and so does all after ten times that: others may be at work."""
    log = os.path.join(folder, "log")
    with open(log, "w", encoding="utf-8") as f:
        done = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT, cwd=where or folder,
                                preexec_fn=lambda: limited(math.ceil(seconds), little),
                                env={**os.environ, "TMPDIR": os.path.join(folder, "tmp"), "ASAN_OPTIONS": "detect_leaks=0", **(environment or {}), "CK_TIMEOUT_MULTIPLIER": "60"})
        try:
            code = done.wait(10 * seconds)
        except subprocess.TimeoutExpired:
            code = "time"
        try:
            os.killpg(done.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        done.wait()
    with open(log, encoding="utf-8", errors="replace") as f:
        return code, f.read()


def build(folder, name="build"):
    return call(["cmake", "--build", os.path.join(folder, name), "-j", "2"], 1800, folder)


def configure(folder, name, *more):
    return call(["cmake", "-G", "Ninja", "-S", os.path.join(folder, "source"), "-B", os.path.join(folder, name), "-DCMAKE_BUILD_TYPE=Debug",
                 "-DCMAKE_C_FLAGS_DEBUG=-O1", *(["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld"] if shutil.which("ld.lld") else []), *more], 300, folder)


def digests(tests):
    """program -> what its bytes are"""
    found = {}
    for program in {p for t in tests for p in t.programs}:
        with open(program, "rb") as f:
            found[program] = hashlib.sha256(f.read()).digest()
    return found


def climb(folder, tests, patience=1, little=True):
    """What killed, or None."""
    for t in tests:
        shutil.rmtree(os.path.join(folder, "tmp"), ignore_errors=True)
        os.makedirs(os.path.join(folder, "tmp"))
        code, said = call(t.command, patience * (10 + 5 * t.cost), folder, little, t.where, t.environment)
        if code and code != t.skipped:
            failed = re.search(r"^failed +(\S+)", said, re.M)
            return t.name + (": too slow" if code == "time" else ": " + failed.group(1).rstrip(":") if failed else "")
    return None


def judge(folder, change, rows, quick=8, thorough=False):
    """(outcome, by)"""
    with open(os.path.join(folder, "unchanged"), "rb") as f:
        unchanged = pickle.load(f)
    code, said = build(folder)
    if code == "time":
        return "killed", "build: too slow"
    if code:
        fault = next((line for line in said.split("\n") if re.search(r"error:|FAILED", line)), said[-200:])
        return "unbuilt", fault.strip()[-120:]
    tests = tests_of(folder)
    reached = {p for p, d in digests(tests).items() if d != unchanged.get(p)}
    if not reached and change.path.endswith(".c"):
        return "equivalent", "the compiler makes the same programs of it"
    first, slow = ladder(tests, change.path, reached, rows, quick)
    by = climb(folder, first)
    if by or not thorough:
        return ("killed", by) if by else ("survived", "the quick ladder")
    # What reads or writes beside its memory shows under ASan and UBSan alone.
    if configure(folder, "build-asan", "-DSTEPC_SANITIZE=address,undefined")[0] or build(folder, "build-asan")[0]:
        return "survived", "no build with sanitizers"
    names = {t.name for t in first if t.cost <= quick} | {"parity.interpreted"}
    by = climb(folder, [t for t in tests_of(folder, "build-asan") if t.name in names], 8, False)
    if by:
        return "killed", "sanitizers, " + by
    by = climb(folder, slow)
    return ("killed", by) if by else ("survived", "all tests")


def prepare(folder, like=None):
    """A copy of the sources as they are committed, and a build of it; tests take there what they take in the copy `like`."""
    source = os.path.join(folder, "source")
    os.makedirs(source, exist_ok=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]
    for path in listed:
        at, to = os.path.join(ROOT, path), os.path.join(source, path)
        if not os.path.exists(at):
            continue
        with open(at, "rb") as f:
            new = f.read()
        if os.path.exists(to):
            with open(to, "rb") as f:
                if f.read() == new:
                    continue
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(at, to)
    for path in [p for p in sources(source) if p not in set(listed)]:
        os.remove(os.path.join(source, path))
    code, said = configure(folder, "build")
    if not code:
        code, said = build(folder)
    if code:
        sys.exit("the unchanged sources do not build:\n" + said[-3000:])
    costs = os.path.join(folder, "build", COSTS)
    if not os.path.exists(costs):  # how long each test takes; and without a change none may fail
        if like:
            os.makedirs(os.path.dirname(costs), exist_ok=True)
            shutil.copy(os.path.join(like, "build", COSTS), costs)
        else:
            code, said = call(["ctest", "--test-dir", os.path.join(folder, "build"), "-j", "2", "-E", LEFT_OUT.pattern], 7200, folder, False)
            if code:
                sys.exit("the unchanged sources fail:\n" + said[-3000:])
    with open(os.path.join(folder, "unchanged"), "wb") as f:
        pickle.dump(digests(tests_of(folder)), f)
    return source


# ---------------------------------------------------------------- the ledger

def read_ledger(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        rows = [ROW.match(line.rstrip("\n")) for line in f]
    return {int(m.group(1)): m for m in rows if m}


def cell(text):
    return text.replace("|", "¦").replace("`", "ˋ")


def uncell(text):
    return text.replace("¦", "|").replace("ˋ", "`")


def row(seed, commit, change, outcome, by):
    return "| %d | %s | %s:%d | %s | `%s` | `%s` | %s | %s |\n" % (seed, commit, change.path, change.number, change.kind, cell(change.before), cell(change.after),
                                                                  outcome, cell(by) or "-")


def write_ledger(path, seed, line):
    with open(path, "a+", encoding="utf-8") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        lines = f.read().split("\n")
        old = [i for i, text in enumerate(lines) if text.startswith("| %d |" % seed)]
        if old:
            lines[old[0]] = line.rstrip("\n")
            f.truncate(0)
            f.write("\n".join(lines))
        else:
            f.write(line)


def summary(ledger):
    count = {o: sum(m.group(8) == o for m in ledger.values()) for o in OUTCOMES}
    judged = count["killed"] + count["survived"]
    return count, count["killed"] / judged if judged else 1.0


# ---------------------------------------------------------------- the command line

def work(options, number, jobs, results):
    """One worker: takes changes from a queue and plays each in its own copy, until there is None or the time is over."""
    folder, begun = worker_folder(options, number), time.monotonic()
    for seed, change in iter(jobs.get, None):
        if time.monotonic() - begun > 60 * options.minutes:
            break
        known = read_ledger(options.ledger).get(seed)
        if known and known.group(8) != options.again:  # another worker, or a person
            continue
        text, begun_one = change.apply(os.path.join(folder, "source")), time.monotonic()
        if text is None:
            results.put((seed, change, "gone", "", 0))
            continue
        try:
            outcome, by = judge(folder, change, read_ledger(options.ledger).values(), options.quick, options.thorough)
        finally:
            with open(os.path.join(folder, "source", change.path), "w", encoding="utf-8") as f:
                f.write(text)
        results.put((seed, change, outcome, by, time.monotonic() - begun_one))
    results.put(None)


def worker_folder(options, number):
    return "%s-%d" % (options.folder, number)


def control(folder):
    source = prepare(folder)
    wrong = Change("ir/eval_ewise.c", 1, "operator", *CONTROL)
    if wrong.apply(source) is None:
        sys.exit("the line of the negative control is gone from %s" % wrong.path)
    with open(os.path.join(ROOT, wrong.path), encoding="utf-8") as f:
        clean = f.read()
    outcome, by = judge(folder, wrong, [], thorough=True)
    with open(os.path.join(source, wrong.path), "w", encoding="utf-8") as f:
        f.write(clean)
    print("a sum that is a difference: %s by %s" % (outcome, by))
    code, said = build(folder)
    by = code or climb(folder, tests_of(folder))
    same, why = ("killed", str(by)) if by else ("survived", "")
    print("unchanged sources: %s%s" % (same, why and " by " + why))
    return 0 if outcome == "killed" and same == "survived" else 1


CONTROL = ("BINARY(add, x + y)", "BINARY(add, x - y)")


def check():
    """The mutator on a text, the negative control's line, the ledger: what is wrong, as lines."""
    faults = []
    text = 'int f(int n) /* 1 < 2 */\n{\n    int s = 0;\n    for (int i = 0; i < n; i++) s += g(i, "a < b");\n    h(s);\n    return s > 3 && !n;\n}\n'
    drawn = {kind: [(text[a:a + n], new) for a, n, new in rows] for kind, rows in places("a.c", text).items()}
    expected = {"operator": [("&&", "||"), ("+", "-")], "comparison": [("<", "<="), (">", ">=")], "flag": [("!", "")],
                "constant": [("0", "1"), ("0", "1"), ("3", "4")], "loop": [("<", "<="), ("0", "1")], "statement": [("h(s);", ";")]}
    faults += ["%s: drawn %s, expected %s" % (kind, drawn[kind], expected[kind]) for kind in KINDS if drawn[kind] != expected[kind]]
    found = every_place(ROOT)
    first, again = (str(Change.draw(ROOT, found, 7)) for _ in range(2))
    if first != again:
        faults.append("seed 7 drew two changes:\n%s\n%s" % (first, again))
    with open(os.path.join(ROOT, "ir/eval_ewise.c"), encoding="utf-8") as f:
        if not any(line.strip() == CONTROL[0] for line in f):
            faults.append("the line of the negative control is gone from ir/eval_ewise.c")
    ledger = read_ledger(LEDGER)
    with open(LEDGER, encoding="utf-8") as f:
        faults += ["no row of the ledger: %s" % line.rstrip() for line in f if re.match(r"\| \d", line) and not ROW.match(line.rstrip("\n"))]
    for seed, m in ledger.items():
        if m.group(8) not in OUTCOMES:
            faults.append("seed %d: no outcome %s" % (seed, m.group(8)))
        if m.group(8) == "equivalent" and len(m.group(9)) < 12:
            faults.append("seed %d: equivalent, and no reason" % seed)
    count, rate = summary(ledger)
    print("%s; %.1f %% of those that can be told are killed" % (", ".join("%d %s" % (n, o) for o, n in count.items()), 100 * rate))
    if rate < GOAL and count["killed"] + count["survived"] >= ENOUGH:
        faults.append("less than %.0f %% are killed" % (100 * GOAL))
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--seeds", metavar="FIRST-LAST")
    what.add_argument("--again", choices=OUTCOMES)
    what.add_argument("--show", type=int, metavar="SEED")
    what.add_argument("--control", action="store_true")
    what.add_argument("--check", action="store_true")
    p.add_argument("--quick", type=float, default=8, metavar="SECONDS", help="what takes longer, and has not killed for that, is for --thorough alone (8)")
    p.add_argument("--thorough", action="store_true", help="all tests, and the quick ones under ASan and UBSan")
    p.add_argument("--folder", default=os.path.join(ROOT, "build-mutants"), type=os.path.abspath, help="of the copies and their builds: FOLDER-1 and so on")
    p.add_argument("--workers", default=1, type=int, help="how many changes at a time, each in its own copy")
    p.add_argument("--ledger", default=LEDGER)
    p.add_argument("--minutes", type=float, default=1e9, help="begin no change after that")
    options = p.parse_args()
    if options.check:
        return check()
    if options.show is not None:
        print(Change.draw(ROOT, every_place(ROOT), options.show))
        return 0
    if options.control:
        return control(worker_folder(options, 1))
    ledger = read_ledger(options.ledger)
    source = prepare(worker_folder(options, 1))
    for number in range(2, options.workers + 1):
        prepare(worker_folder(options, number), worker_folder(options, 1))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    if options.again:
        changes = [(seed, Change(m.group(3), int(m.group(4)), m.group(5), uncell(m.group(6)), uncell(m.group(7))))
                   for seed, m in sorted(ledger.items()) if m.group(8) == options.again]
    else:
        first, last = map(int, (options.seeds.split("-") * 2)[:2])
        found = every_place(source)
        changes = [(seed, Change.draw(source, found, seed)) for seed in range(first, last + 1) if seed not in ledger]
    jobs, results = multiprocessing.Queue(), multiprocessing.Queue()
    for job in [*changes, *[None] * options.workers]:
        jobs.put(job)
    for number in range(1, options.workers + 1):
        multiprocessing.Process(target=work, args=(options, number, jobs, results), daemon=True).start()
    for _ in range(options.workers):
        for seed, change, outcome, by, seconds in iter(results.get, None):
            print("%d: %s\n  %s by %s, %.0f s" % (seed, change, outcome, by or "nothing", seconds), flush=True)
            if outcome != "gone":
                write_ledger(options.ledger, seed, row(seed, commit, change, outcome, by))
    count, rate = summary(read_ledger(options.ledger))
    print("%s; %.1f %%" % (", ".join("%d %s" % (n, o) for o, n in count.items()), 100 * rate))
    return 0


if __name__ == "__main__":
    sys.exit(main())
