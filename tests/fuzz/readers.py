#!/usr/bin/env python3
"""Fuzzes the readers of what comes from outside (readers/readers.c) with libFuzzer or AFL++, or replays what they found.

    tests/fuzz/readers.py --replay PROGRAM           the files of readers/corpus, none of which may end the program; its control must
    tests/fuzz/readers.py --long --minutes 30        all readers in turn, with what was found before; a line per reader in LEDGER.md
    tests/fuzz/readers.py --long --engine afl json   one of them by AFL++
    tests/fuzz/readers.py --control                  a planted defect must be found within a minute

Needs clang with its runtime (Debian: clang), or afl++, for all but --replay. The build (--folder, build-fuzz) keeps the inputs
that were found, so that a run goes on where the one before ended. A finding becomes a file of readers/corpus/READER.
"""
import argparse
import datetime
import glob
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..")]
from tool import ROOT

CORPUS = os.path.join(HERE, "readers", "corpus")
LEDGER = os.path.join(HERE, "LEDGER.md")
# The longest input, seconds of CPU time that one may take, and the share of a long run: those that compile are slow, and find more.
READERS = {"json": (4096, 1, 1), "document": (4096, 10, 6), "expression": (512, 10, 6), "define": (256, 5, 2), "ir": (8192, 5, 3), "plans": (16384, 20, 4),
           "safetensors": (4096, 1, 1), "npy": (512, 1, 1), "note": (4096, 1, 1), "report": (4096, 2, 1), "glob": (256, 1, 1)}
CONTROL = (64, 1, 1)
BUSY = 10  # times as many seconds by the clock, on a machine that does other things
COMPILERS = {"libfuzzer": "clang", "afl": "afl-clang-fast"}
INSTRUMENTED = {"afl": {"AFL_QUIET": "1"}}
SANITIZERS = "abort_on_error=1:symbolize=0:detect_leaks=0:allocator_may_return_null=1"


# ---------------------------------------------------------------- inputs to begin with, from the repository

def texts(pattern, limit):
    for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
        with open(path, "rb") as f:
            data = f.read()
        if len(data) <= limit:
            yield data


def documents(limit):
    yield from texts("frontend/cli/templates/*.json", limit)
    for data in list(texts("tests/parity/cases/*/*.json", 1 << 20)) + list(texts("tests/parity/errors/*.json", 1 << 16)):
        at = data.find(b'\n"document": ')
        if 0 <= at and len(data) - at < limit:
            yield data[at + 13:data.rindex(b"\n}")]


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def expressions():
    for data in documents(1 << 16):
        try:
            yield from (text.encode() for text in strings(json.loads(data)) if re.search(r"[(*+/-]", text))
        except ValueError:
            pass
    for data in texts("tests/fuzz/written_expressions.txt", 1 << 20):
        yield from (line for line in data.split(b"\n") if line and not line.startswith(b"#"))


def plans(stepc):
    yield from texts("tests/golden/*/*.sir", 16384)
    yield from texts("tests/golden/*/*.out", 16384)
    for path in sorted(glob.glob(os.path.join(ROOT, "frontend/cli/templates/*.json")))[:3]:
        for stage in ("autodiff", "fuse", "schedule", "memplan"):
            done = subprocess.run([stepc, "compile", path, "--stop-after", stage], capture_output=True)
            if done.returncode == 0 and len(done.stdout) < 16384:
                yield done.stdout


def safetensors_files():
    for header, data in (({}, b""), ({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}, bytes(24)),
                         ({"__metadata__": {"step": "3"}, "x": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
                           "y": {"dtype": "BF16", "shape": [1, 0], "data_offsets": [8, 8]}}, bytes(8))):
        text = json.dumps(header).encode()
        yield struct.pack("<Q", len(text)) + text + data


def npy_files():
    for version in (1, 2):
        for descr, shape, data in (("<f4", "(3,)", bytes(12)), ("|b1", "()", b"\1"), ("<i8", "(2, 1, 0)", b"")):
            text = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)).ljust(117).encode() + b"\n"
            yield b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def note_files():
    for report in (b"{}", b'{"name": "m", "entries": []}'):
        desc = report + bytes(-len(report) % 4)
        note = struct.pack("<III", 6, len(desc), 1) + b"stepc\0\0\0" + desc
        section = struct.pack("<IIQQQQIIQQ", 0, 7, 2, 0, 128, len(note), 0, 0, 4, 0)
        head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 1, 0)
        yield head + section + note


def reports(stepc):
    for path in sorted(glob.glob(os.path.join(ROOT, "frontend/cli/templates/*.json")))[:3]:
        yield subprocess.run([stepc, "explain", "--json", path], capture_output=True).stdout


def begin_with(reader, stepc):
    return {"json": lambda: documents(2048), "document": lambda: documents(4096), "expression": expressions,
            "define": lambda: (b"4", b"0.5", b'"a"', b"true", b"[1, 2]", b"1e400", b"-"), "ir": lambda: plans(stepc), "plans": lambda: plans(stepc),
            "safetensors": safetensors_files, "npy": npy_files, "note": note_files, "report": lambda: reports(stepc),
            "glob": lambda: (b"**.{a,b}\nx.a", b"*.kernel\nlayers.0.kernel", b"a.**.b\na.b"),
            "control": lambda: (b"fuss",)}[reader]()


# ---------------------------------------------------------------- building and running

def build(options, *targets):
    compiler = shutil.which(COMPILERS[options.engine]) or sys.exit("skipped: no %s" % COMPILERS[options.engine])
    folder = os.path.join(options.folder, options.engine)
    for command in (["cmake", "--preset", "fuzz", "-B", folder, "-DCMAKE_C_COMPILER=" + compiler], ["cmake", "--build", folder, "--", *(targets or ("readers", "stepc"))]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **INSTRUMENTED.get(options.engine, {})})
        if done.returncode:
            sys.exit((done.stdout + done.stderr)[-3000:])
    return os.path.join(folder, "readers"), os.path.join(folder, "stepc")


def inputs(options, reader, stepc):
    """The folder of what is known of a reader, filled if it is new."""
    folder = os.path.join(options.folder, "inputs", reader)
    if not os.path.isdir(folder):
        os.makedirs(folder)
        for i, data in enumerate(begin_with(reader, stepc)):
            with open(os.path.join(folder, "seed-%d" % i), "wb") as f:
                f.write(data)
    for path in glob.glob(os.path.join(CORPUS, reader, "*")) if reader in READERS else ():  # what the control has is to be found
        shutil.copy(path, folder)
    return folder


def dictionary(options):
    """A file of what documents and texts are made of."""
    found = set()
    for pattern in ("frontend/*/*.def", "frontend/model/layers/*.def", "ir/ops.def"):
        for data in texts(pattern, 1 << 20):
            found |= set(re.findall(rb'"([a-z_]{3,24})"', data)) | set(re.findall(rb"^\w*\((\w+),", data, re.M))
    path = os.path.join(options.folder, "words")
    with open(path, "w") as f:
        f.writelines('"%s"\n' % w.decode() for w in sorted(found))
    return path


def replayed(program, reader, path):
    """CPU seconds of one input."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, path], capture_output=True, env={**os.environ, "READER": reader, "ASAN_OPTIONS": SANITIZERS})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime


def libfuzzer(options, program, stepc, reader, seconds):
    """(executions, findings)"""
    longest, patience, _ = READERS.get(reader, CONTROL)
    findings = os.path.join(options.folder, "findings", reader)
    os.makedirs(findings, exist_ok=True)
    before, begun, executed = set(os.listdir(findings)), time.monotonic(), 0
    while time.monotonic() - begun < seconds and len(set(os.listdir(findings)) - before) < options.most:
        left = max(1, int(seconds - (time.monotonic() - begun)))
        done = subprocess.run([program, inputs(options, reader, stepc), "-max_len=%d" % longest, "-timeout=%d" % (BUSY * patience),
                               "-rss_limit_mb=3000", "-malloc_limit_mb=2000", "-print_final_stats=1", "-close_fd_mask=3", "-max_total_time=%d" % left,
                               "-artifact_prefix=" + findings + "/", "-dict=" + dictionary(options), "-reload=0", "-detect_leaks=0"],
                              capture_output=True, text=True, errors="replace", cwd=options.folder,
                              env={**os.environ, "READER": reader, "ASAN_OPTIONS": SANITIZERS, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:symbolize=0"})
        for path in glob.glob(os.path.join(findings, "timeout-*")):
            if replayed(program, reader, path) < patience:
                os.remove(path)
        executed += sum(map(int, re.findall(r"stat::number_of_executed_units: (\d+)", done.stderr)))
        if done.returncode not in (0, 70) and not set(os.listdir(findings)) - before:  # 70: a time-out
            sys.exit("libFuzzer ended with %d: %s" % (done.returncode, done.stderr[-1500:]))
    return executed, sorted(set(os.listdir(findings)) - before)


def afl(options, program, stepc, reader, seconds):
    longest, patience, _ = READERS.get(reader, CONTROL)
    out = os.path.join(options.folder, "findings-afl", reader)
    again = os.path.exists(os.path.join(out, "default", "fuzzer_stats"))
    os.makedirs(out, exist_ok=True)
    stats = lambda: dict(re.findall(r"^(\w+) *: (.*)$", open(os.path.join(out, "default", "fuzzer_stats")).read(), re.M))
    before = int(stats()["execs_done"]) if again else 0
    done = subprocess.run(["afl-fuzz", "-i", "-" if again else inputs(options, reader, stepc), "-o", out, "-V", str(int(seconds)), "-m", "none",
                           "-t", str(1000 * BUSY * patience), "-x", dictionary(options), "-G", str(longest), "--", program], capture_output=True, text=True, errors="replace", cwd=options.folder,
                          env={**os.environ, "READER": reader, "AFL_SKIP_CPUFREQ": "1", "AFL_NO_UI": "1", "AFL_NO_AFFINITY": "1", "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1",
                               "ASAN_OPTIONS": SANITIZERS, "AFL_IGNORE_PROBLEMS": "1"})
    if not os.path.exists(os.path.join(out, "default", "fuzzer_stats")):
        sys.exit("afl-fuzz ended with %d: %s" % (done.returncode, (done.stdout + done.stderr)[-1500:]))
    found = [name for name in sorted(os.listdir(os.path.join(out, "default", "crashes"))) if name.startswith("id:")]
    return int(stats()["execs_done"]) - before, found


ENGINES = {"libfuzzer": libfuzzer, "afl": afl}


def long(options):
    program, stepc = build(options)
    names, failed = options.readers or list(READERS), False
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip() or "-"
    shares = sum(READERS[reader][2] for reader in names)
    for reader in names:
        executed, found = ENGINES[options.engine](options, program, stepc, reader, 60 * options.minutes * READERS[reader][2] / shares)
        print("%s: %d executions, %s" % (reader, executed, ", ".join(found) or "nothing found"), flush=True)
        failed |= bool(found)
        with open(options.ledger, "a", encoding="utf-8") as f:
            f.write("| %s | %s | %s, %s | - | %d | %s |\n" % (datetime.date.today(), commit, reader, options.engine, executed, "%d inputs" % len(found) if found else "none"))
    return failed


def control(options):
    """The defect is planted in readers.c: an input that begins with four letters."""
    program, stepc = build(options, "readers_control")
    executed, found = ENGINES[options.engine](options, program + "_control", stepc, "control", 60)
    for folder in "findings", "findings-afl", "inputs":
        shutil.rmtree(os.path.join(options.folder, folder, "control"), ignore_errors=True)
    print("the planted defect was %s after %d executions" % ("found" if found else "not found", executed))
    return not found


def replay(options):
    """Each file alone, so that one that ends the program is named."""
    failed, count = [], 0
    for reader in sorted(os.listdir(CORPUS)):
        paths = sorted(glob.glob(os.path.join(CORPUS, reader, "*")))
        done = subprocess.run([options.replay, *paths], capture_output=True, env={**os.environ, "READER": reader}, timeout=600)
        count += len(paths)
        if (done.returncode == 0) == (reader == "control"):
            failed.append("%s: %s" % (reader, done.stderr[-2000:].decode(errors="replace") or "the planted defect was not noticed"))
    print("\n".join(failed + ["%d files of %d readers" % (count, len(os.listdir(CORPUS)))]))
    return bool(failed)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--replay", metavar="PROGRAM")
    what.add_argument("--long", action="store_true")
    what.add_argument("--control", action="store_true")
    p.add_argument("--minutes", type=float, default=30, help="of a long run, in all")
    p.add_argument("--engine", choices=ENGINES, default="libfuzzer")
    p.add_argument("--most", type=int, default=10, help="findings of a reader after which the next one is tried")
    p.add_argument("--folder", default=os.path.join(ROOT, "build-fuzz"), type=os.path.abspath)
    p.add_argument("--ledger", default=LEDGER)
    p.add_argument("readers", nargs="*", metavar="READER", help="of " + ", ".join(READERS))
    options = p.parse_args()
    if set(options.readers) - set(READERS):
        p.error("no reader %s; there are %s" % (", ".join(sorted(set(options.readers) - set(READERS))), ", ".join(READERS)))
    return int(replay(options) if options.replay else long(options) if options.long else control(options))


if __name__ == "__main__":
    sys.exit(main())
