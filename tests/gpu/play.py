#!/usr/bin/env python3
"""Recorded cases on a GPU, in two halves, so that the machine with the GPU needs nothing but Python with NumPy and the driver:

    tests/gpu/play.py pack --stepc build/stepc --arch sm_90     compiles them here (NVRTC, no GPU) into build/gpu/NAME.so.gz
    tests/gpu/play.py run                                       plays what is there, each in a process of its own
    tests/gpu/play.py one NAME                                  one of them, for compute-sanitizer
    tests/gpu/play.py device                                    the GPU in words; 77: there is none

STEPC_CUDA_DRIVER names another driver: the stand-in of tests/cuda, with `--arch text`."""
import argparse
import concurrent.futures
import ctypes
import gzip
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(ROOT, "samples")]
from tool import comparison, recorded, runner

import numpy as np

import stepc

SANITIZED = ("attn_causal_mask", "accumulate_ema_clip_adamw", "layer_conv2d", "layer_batch_norm_images", "optimizer_adamw", "optimizer_lamb",
             "random_dropout", "model_rnn_language", "loss_softmax_cross_entropy_with_integer_labels", "precision_bf16_compute")


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


def one_device(case):
    return not case.variants[0] and "mesh" not in case.document


def pack(options):
    os.makedirs(options.into, exist_ok=True)

    def make(name):
        case = recorded.load(name)
        if not one_device(case):
            return name, "a mesh"
        with tempfile.TemporaryDirectory(prefix="stepc-gpu-") as folder:
            so = os.path.join(folder, "step.so")
            try:
                runner.call(options.stepc, "compile", case.unpack(folder), "-o", so, "--target=cuda", "--cuda-arch=" + options.arch, verify=False)
            except runner.Failed as e:
                return name, e.brief()
            with open(so, "rb") as f, open(os.path.join(options.into, name + ".so.gz"), "wb") as to:
                to.write(gzip.compress(f.read(), 6, mtime=0))
        return name, None

    names = recorded.names(options.only)[::options.every]
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        left = [(name, why) for name, why in pool.map(make, names) if why]
    for name, why in left:
        if why != "a mesh":
            print(name, why)
    print("%d packed for %s, %d on meshes left out" % (len(names) - len(left), options.arch, sum(why == "a mesh" for _, why in left)))
    return any(why != "a mesh" for _, why in left)


def widened(m, name):
    """A tensor as numbers, bfloat16 too."""
    value = m[name]
    return (stepc.numbers(value) if value.dtype == np.uint16 else value).astype("f8")


def steps(m, case, init, looser):
    if m.names() or not case.raw("init"):
        m.init()
    if case.raw("init"):
        m.load(init, cast=True)
    data, lines = case.arrays("data"), []
    for k in range(case.steps):
        for name, value in case.keys.get("set", {}).get(str(k + 1), {}).items():
            m.set(name, value)
        r = m.step(**{n: v[k % len(v)] for n, v in data.items()})
        arrays = {name: widened(m, name) for name in case.metrics if name not in r.metrics and name != "loss"}
        lines.append({**r.metrics, **arrays, "loss": r.loss, "step": k + 1})
    case.check({name: widened(m, name) for name in case.wide("expected")}, lines, looser)


def one(options):
    case = recorded.load(options.name)
    with tempfile.TemporaryDirectory(prefix="stepc-gpu-") as folder:
        case.unpack(folder)
        so = os.path.join(folder, "step.so")
        with gzip.open(os.path.join(options.into, options.name + ".so.gz")) as f, open(so, "wb") as to:
            to.write(f.read())
        with stepc.Step(so) as m:
            steps(m, case, os.path.join(folder, "init.safetensors"), options.looser)
    return 0


def play(options):
    names = sorted(f[:-len(".so.gz")] for f in os.listdir(options.into) if f.endswith(".so.gz") and not f.startswith("bench-"))
    names = [n for n in names if not options.only or n in options.only]

    def attempt(name):
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "one", name, "--into", options.into, "--looser", str(options.looser)],
                              capture_output=True, text=True, timeout=600)
        return name, done.returncode, (done.stderr or done.stdout).strip().splitlines()

    failed = []
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for name, code, said in pool.map(attempt, names):
            if code:
                failed.append(name)
                print("failed %s (%d): %s" % (name, code, said[-1][:300] if said else "nothing said"), flush=True)
    print("%d of %d recorded cases pass" % (len(names) - len(failed), len(names)))
    return bool(failed) or not names


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("pack", "run", "one", "device", "sanitized"))
    p.add_argument("name", nargs="?", default="")
    p.add_argument("--stepc", default="build/stepc")
    p.add_argument("--arch", default="sm_90")
    p.add_argument("--into", default=os.path.join(ROOT, "build", "gpu"))
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--looser", type=float, default=1, help="times the tolerances of the cases")
    p.add_argument("-j", type=int, default=os.cpu_count())
    p.add_argument("--only", action="append", default=[])
    options = p.parse_args()
    options.stepc = os.path.abspath(options.stepc)
    if options.what == "device":
        name, arch = device()
        print("%s (%s)" % (name, arch) if name else "no GPU: " + arch)
        return 0 if name else 77
    if options.what == "sanitized":
        there = [n for n in SANITIZED if os.path.exists(os.path.join(options.into, n + ".so.gz"))]
        rest = sorted(f[:-6] for f in os.listdir(options.into) if f.endswith(".so.gz") and not f.startswith("bench-") and f[:-6] not in there)
        print("\n".join((there + rest[::max(1, len(rest) // 10)])[:10]))
        return 0
    try:
        return {"pack": pack, "run": play, "one": one}[options.what](options)
    except (comparison.Differs, stepc.StepError) as e:
        print(e, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
