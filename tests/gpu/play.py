#!/usr/bin/env python3
"""Recorded cases on a GPU, in two halves, so that the machine with the GPU needs nothing but Python with NumPy and the driver:

    tests/gpu/play.py pack --stepc build/stepc --arch sm_90     compiles them here (NVRTC, no GPU) into build/gpu/NAME.so
    tests/gpu/play.py archive                                   all that is there as one file, build/gpu.tar.xz, a twentieth as large
    tests/gpu/play.py run --log FILE                            plays what is there, a process for many of them
    tests/gpu/play.py one NAME                                  one of them, for compute-sanitizer
    tests/gpu/play.py device                                    the GPU in words; 77: there is none
    tests/gpu/play.py hold                                      keeps the driver in use until its parent ends, or it is killed

Cases come in an order in which the first ones stand for all. So what `--seconds` ends, packing or playing, has seen something of
everything. Each case runs twice, to the same bits; of a mesh all devices are the one GPU. A line of the log is written when a case has ended; those that fail are played again alone, each
launch waited for.

STEPC_CUDA_DRIVER names another driver: the stand-in of tests/cuda, with `--arch text`."""
import argparse
import concurrent.futures
import ctypes
import io
import json
import math
import os
import select
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(ROOT, "samples")]
from tool import comparison, recorded, runner

import numpy as np

import stepc

SANITIZED = ("attn_causal", "accumulate_ema_clip_adamw", "layer_conv2d", "layer_batch_norm_images", "optimizer_adamw", "optimizer_lamb",
             "dropout_random", "model_rnn_language", "loss_softmax_cross_entropy_with_integer_labels", "precision_compute_bfloat16_transformer")
MOST_DEVICES = 4
NEAR = 10  # times the tolerances: what functions that are as exact as CUDA's may be off by in a few cases, where a defect is mostly off by more
GRACE = 8  # seconds for what is under way when there is no time for more


def device():
    """(name, "sm_90"), or a reason why there is none."""
    try:
        driver = ctypes.CDLL(os.environ.get("STEPC_CUDA_DRIVER") or "libcuda.so.1")
    except OSError as e:
        return None, str(e)
    count, name, part = ctypes.c_int(), ctypes.create_string_buffer(100), [ctypes.c_int(), ctypes.c_int()]
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return None, "the driver shows no device"
    driver.cuDeviceGetName(name, 100, 0)
    for i in range(2):
        driver.cuDeviceGetAttribute(ctypes.byref(part[i]), 75 + i, 0)
    return name.value.decode(), "sm_%d%d" % (part[0].value, part[1].value)


def hold(options):
    """Where the driver is in nobody's use, and not told to stay (persistence mode), it lets the GPU go, and whoever comes next waits for
    seconds until it is there again."""
    parent, driver = os.getppid(), ctypes.CDLL(os.environ.get("STEPC_CUDA_DRIVER") or "libcuda.so.1")
    status = driver.cuInit(0)  # a context would be too much where the device takes one process
    while not status and os.getppid() == parent:
        time.sleep(1)
    return status


def alone():
    """Does the device take one process at a time, as its compute mode may say?"""
    mode, attribute, exclusive = ctypes.c_int(), 20, 3
    driver = ctypes.CDLL(os.environ.get("STEPC_CUDA_DRIVER") or "libcuda.so.1")
    return not driver.cuInit(0) and not driver.cuDeviceGetAttribute(ctypes.byref(mode), attribute, 0) and mode.value == exclusive


def variant(case):
    """The arguments of the variant with most devices up to MOST_DEVICES, and how many: all of them are the one GPU."""
    best = None
    for words in case.variants:
        mesh = words[words.index("--mesh") + 1] if "--mesh" in words else ",".join("%s=%d" % a for a in case.document.get("mesh", {}).get("axes", {}).items())
        devices = math.prod(int(a.split("=")[1]) for a in mesh.split(",") if a)
        if devices <= MOST_DEVICES and (best is None or devices > best[1]):
            best = words, devices
    return best


def order(name):
    """The ones for compute-sanitizer, then by chance, but always the same."""
    return SANITIZED.index(name) if name in SANITIZED else len(SANITIZED), zlib.crc32(name.encode())


def path_of(options, name):
    return os.path.join(options.into, name + ".so")


def packed(options):
    return sorted((f[:-len(".so")] for f in os.listdir(options.into) if f.endswith(".so") and not f.startswith("bench-")), key=order)


class Deadline:
    """Seconds until nothing new is begun."""

    def __init__(self, seconds):
        self.end = time.monotonic() + (seconds or 1e9)

    def left(self):
        return max(0, self.end - time.monotonic())


def pack(options):
    os.makedirs(options.into, exist_ok=True)
    deadline, unknown = Deadline(options.seconds), set(SANITIZED) - set(recorded.names())
    assert not unknown, "no such cases: %s" % ", ".join(unknown)

    def make(name):
        case = recorded.load(name)
        if not deadline.left():
            return name, "no time"
        with tempfile.TemporaryDirectory(prefix="stepc-gpu-") as folder:
            try:
                runner.call(options.stepc, "compile", case.unpack(folder), "-o", path_of(options, name), "--target=cuda", "--cuda-arch=" + options.arch,
                            *variant(case)[0], verify=False)
            except runner.Failed as e:
                return name, e.brief()
        return name, None

    names = sorted(recorded.names(options.only)[::options.every], key=order)
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        left = {name: why for name, why in pool.map(make, names) if why}
    late = sum(why == "no time" for why in left.values())
    for name, why in left.items():
        if why != "no time":
            print(name, why)
    print("%d packed for %s%s" % (len(names) - len(left), options.arch, ", %d left out for want of time" % late if late else ""))
    return len(left) > late


def archive(options):
    """Objects are alike for the most part."""
    with tarfile.open(options.into.rstrip("/") + ".tar.xz", "w:xz", preset=3) as to:
        for file in sorted(os.listdir(options.into)):
            to.add(os.path.join(options.into, file), file)


def unpack(options):
    with tarfile.open(options.into.rstrip("/") + ".tar.xz") as f:
        f.extractall(options.into)


def widened(m, name):
    """A tensor as numbers, bfloat16 too."""
    value = m[name]
    return (stepc.numbers(value) if value.dtype == np.uint16 else value).astype("f8")


def steps(m, case, init):
    """What is compared, and all numbers of the run as bytes."""
    if m.names() or not case.raw("init"):
        m.init()
    if case.raw("init"):
        m.load(init, cast=True)
    data, lines = case.arrays("data"), []
    for k in range(case.steps):
        for name, value in case.keys.get("set", {}).get(str(k + 1), {}).items():
            m.set(name, value)
        r = m.step(**{n: v[k % len(v)] for n, v in data.items()})
        arrays = {name: widened(m, name).tolist() for name in case.metrics if name not in r.metrics and name != "loss"}
        lines.append({**r.metrics, **arrays, "loss": r.loss, "step": k + 1})
    names = set(m.names()) | set(m.names(stepc.OPT_STATE))
    bits = [repr(lines).encode(), *(m[name].tobytes() for name in sorted(names) if m._find(name).dtype in stepc._DTYPES)]
    return {name: widened(m, name) for name in case.wide("expected")}, lines, bits


def check(case, run, looser):
    try:
        case.check(*run[:2], looser)
    except comparison.Differs as e:
        try:
            case.check(*run[:2], NEAR * looser)
        except comparison.Differs:
            raise e
        raise comparison.Differs("%s; nearly, within %d times the tolerances" % (e, NEAR))


def play_one(options, name):
    """None, or what is wrong: (whether the device may be lost to this process, a text)."""
    try:
        case = recorded.load(name)
        with tempfile.TemporaryDirectory(prefix="stepc-gpu-") as folder:
            case.unpack(folder)
            runs, devices = [], variant(case)[1]
            for _ in range(options.times):
                with stepc.Step(path_of(options, name), devices="cuda:" + ",".join("0" * devices) if devices > 1 else None) as m:
                    runs.append(steps(m, case, os.path.join(folder, "init.safetensors")))
            check(case, runs[0], options.looser)
            if any(r[2] != runs[0][2] for r in runs):
                raise comparison.Differs("runs differ in their bits, as where threads race")
    except comparison.Differs as e:
        return False, str(e)
    except Exception as e:
        return True, "%s: %s" % (type(e).__name__, e)
    return None


def one(options):
    wrong = play_one(options, options.name)
    if wrong:
        print(wrong[1], file=sys.stderr)
    return wrong is not None


def some(options):
    """Cases whose names come as lines, each answered by a line. The context lives as long as the process: making one takes longer
    than a case."""
    driver, context = ctypes.CDLL(os.environ.get("STEPC_CUDA_DRIVER") or "libcuda.so.1"), ctypes.c_void_p()
    kept = not driver.cuInit(0) and not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    lost = False
    for line in sys.stdin:
        begin, wrong = time.monotonic(), play_one(options, line.strip())
        lost = wrong is not None and wrong[0]
        print(json.dumps({"wrong": wrong and wrong[1], "lost": lost, "seconds": time.monotonic() - begin}), flush=True)
        if lost:
            break
    if kept and not lost:
        driver.cuDevicePrimaryCtxRelease_v2(0)
    return 0


class Player:
    """A process that plays cases; a new one where it has ended or hangs."""

    def __init__(self, options):
        self.options, self.process, self.said = options, None, None

    def arguments(self, verb, *more):
        return [sys.executable, os.path.abspath(__file__), verb, *more, "--into", self.options.into, "--looser", str(self.options.looser), "--times", str(self.options.times)]

    def end(self):
        if self.process:
            self.process.stdin.close()
            try:
                self.process.wait(min(self.options.patience, GRACE))  # what is left to do is to release the context
            except subprocess.TimeoutExpired:
                self.process.kill()
        code, self.process = self.process and self.process.wait(), None
        return code

    def play(self, name, deadline):
        """(seconds, None or what is wrong); None: the deadline came long before its end."""
        begin, patience = time.monotonic(), min(self.options.patience, deadline.left() + GRACE)
        if not self.process:
            self.said = tempfile.TemporaryFile("w+", errors="replace")
            self.process = subprocess.Popen(self.arguments("some"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            there = select.select([self.process.stdout], [], [], patience)[0]
        except BrokenPipeError:
            there = True
        line = self.process.stdout.readline() if there else ""
        if not line:
            if not there:
                self.process.kill()
            code = self.end()
            if not there and patience < self.options.patience:
                return None
            self.said.seek(0)
            return time.monotonic() - begin, "%s; %s" % ("no end after %g s" % self.options.patience if not there else "ended with %s" % code, self.said.read()[-2000:].strip())
        answer = json.loads(line)
        if answer["lost"]:
            self.end()
        return answer["seconds"], answer["wrong"]

    def again(self, name, deadline):
        """What it says alone, each launch waited for."""
        try:
            done = subprocess.run(self.arguments("one", name), capture_output=True, text=True, errors="replace",
                                  timeout=min(self.options.patience, deadline.left() + GRACE), env={**os.environ, "STEPC_CUDA_CHECK": "1"})
        except subprocess.TimeoutExpired:
            return "no end"
        return (done.stderr or done.stdout).strip()[-2000:] or "ended with %d" % done.returncode if done.returncode else "passes"


def play(options):
    names = [n for n in packed(options) if not options.only or n in options.only]
    deadline, lock, log = Deadline(options.seconds), threading.Lock(), open(options.log, "a") if options.log else io.StringIO()
    waiting, failed, passed, nearly = names[::-1], [], [], []

    def note(text):
        log.write(text + "\n")
        log.flush()

    def player():
        p = Player(options)
        while deadline.left():
            with lock:
                name = waiting.pop() if waiting else None
            if name is None:
                break
            ended = p.play(name, deadline)
            if ended is None:
                with lock:
                    note("%s had not ended when the time was over" % name)
                break
            seconds, wrong = ended
            with lock:
                (failed if wrong else passed).append(name)
                nearly.extend([name] if wrong and "; nearly, " in wrong else [])
                note("%s %s %.2f s%s" % ("failed" if wrong else "passed", name, seconds, ": " + wrong if wrong else ""))
                if wrong:
                    print("failed %s: %s" % (name, wrong[:300]), flush=True)
                if len(failed) == options.give_up and not passed and waiting:
                    print("the first %d fail: the others are left" % len(failed))
                    waiting.clear()
                again = wrong and len(failed) <= options.again
            if again:
                said = p.again(name, deadline)
                with lock:
                    note("again, alone, %s: %s" % (name, said))
        code = p.end()
        if code:
            with lock:
                failed.append("a process")
                p.said.seek(0)
                print("a process ended with %s: %s" % (code, p.said.read()[-2000:]), flush=True)

    threads = [threading.Thread(target=player) for _ in range(1 if alone() else options.j)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    played = len(passed) + len(failed)
    print("%d of %d recorded cases pass%s%s" % (len(passed), played, "; %d nearly (%s)" % (len(nearly), ", ".join(sorted(nearly)[:12])) if nearly else "",
                                                "; %d not played" % (len(names) - played) if played < len(names) else ""))
    return bool(failed) or not passed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("pack", "archive", "unpack", "run", "one", "some", "device", "hold", "sanitized"))
    p.add_argument("name", nargs="?", default="")
    p.add_argument("--stepc", default="build/stepc")
    p.add_argument("--arch", default="sm_90")
    p.add_argument("--into", default=os.path.join(ROOT, "build", "gpu"))
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--looser", type=float, default=1, help="times the tolerances of the cases")
    p.add_argument("--times", type=int, default=2, help="runs of a case, whose bits have to be the same")
    p.add_argument("--seconds", type=float, default=0, help="pack, run: nothing new is begun after that; 0: all")
    p.add_argument("--patience", type=float, default=120, help="seconds for a case")
    p.add_argument("--log", help="a file to which a line for each case is added")
    p.add_argument("--give-up", type=int, default=10, help="so many cases fail before one passes")
    p.add_argument("--again", type=int, default=10, help="so many of those that fail are played again alone, each launch waited for")
    p.add_argument("-j", type=int, default=os.cpu_count())
    p.add_argument("--only", action="append", default=[])
    options = p.parse_args()
    options.stepc = os.path.abspath(options.stepc)
    if options.what == "device":
        name, arch = device()
        print("%s (%s)" % (name, arch) if name else "no GPU: " + arch)
        return 0 if name else 77
    if options.what == "sanitized":
        print("\n".join(packed(options)[:len(SANITIZED)]))
        return 0
    return int({"pack": pack, "archive": archive, "unpack": unpack, "run": play, "one": one, "some": some, "hold": hold}[options.what](options) or 0)


if __name__ == "__main__":
    sys.exit(main())
