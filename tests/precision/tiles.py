#!/usr/bin/env python3
"""Who may not use AMX is told so: objects that multiply bfloat16 in tiles name what they need, others do not; where the system refuses the
registers (a filter of system calls does so here) they are not opened, and --cpu native makes objects that do without. Where this processor
and system have AMX, an object trains with it on several threads, as often as asked with the same bits.

    tests/precision/tiles.py build/stepc"""
import ctypes
import errno
import json
import os
import platform
import struct
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

DOCUMENT = {"stepc": 1, "inputs": {"x": {"shape": [40, 200]}, "y": {"shape": [40, 70]}}, "precision": {"compute": "bfloat16"},
            "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 300}, {"type": "gelu"}, {"type": "linear", "features": 70}]},
            "loss": "mean((model - y)**2)", "optimizer": {"type": "sgd", "learning_rate": 0.1}}
STEPS = 3


def refuse():
    """From here on arch_prctl(ARCH_REQ_XCOMP_PERM) fails in this process and those that it starts."""
    number, request, what = 158, 0x1023, 0x50000 | errno.EPERM
    rows = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, request), (0x06, 0, 0, what), (0x06, 0, 0, 0x7fff0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    program = Program(len(rows), ctypes.addressof(code))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.byref(program), 0, 0):  # no new privileges; a filter
        raise OSError(ctypes.get_errno(), "this system takes no filter of system calls")


def needs(stepc, so):
    return json.loads(runner.call(stepc, "explain", so, "--json"))["target"]["features"].split(",")


def main(stepc):
    with tempfile.TemporaryDirectory(prefix="stepc-tiles-") as folder:
        rng = np.random.default_rng(3)
        runner.write_document(folder, DOCUMENT, {k: rng.normal(size=[STEPS] + i["shape"]).astype("f4") for k, i in DOCUMENT["inputs"].items()})
        at = lambda name: os.path.join(folder, name)
        runner.compile_document(stepc, folder, ["--cpu", "sapphirerapids"])
        runner.compile_document(stepc, folder, ["--cpu", "sapphirerapids", "--numerics", "invariant"], "invariant.so")
        runner.compile_document(stepc, folder, ["--cpu", "cooperlake"], "pairs.so")
        tiles = needs(stepc, at("step.so"))
        assert "amx-tile" in tiles and "amx-bf16" in tiles, tiles
        for so in "invariant.so", "pairs.so":
            assert not [n for n in needs(stepc, at(so)) if n.startswith("amx")], so
        run = lambda so, threads, **more: runner.attempt(stepc, "run", at(so), "-q", "--steps", str(STEPS), "--data", at("data.safetensors"), "--threads", threads,
                                                         "--save", at("out" + threads), "--all-state", **more)
        try:
            refused = run("step.so", "2", preexec_fn=refuse)
        except Exception as e:  # subprocess.SubprocessError says no more than that it failed
            print("not refused by a filter, this system takes none: %s" % e)
        else:
            assert refused.returncode == 3, refused
            assert "this CPU or system lacks a" in refused.stderr, refused.stderr  # AMX, or first AVX-512
            runner.compile_document(stepc, folder, [], "own.so")
            runner.call(stepc, "compile", at("model.json"), "-q", "-o", at("native.so"), preexec_fn=refuse)
            refused = needs(stepc, at("native.so"))
            assert "amx-tile" not in refused and ("amx-tile" not in needs(stepc, at("own.so")) or "avx512bf16" not in refused), refused
        runner.compile_document(stepc, folder, [], "native.so")
        if "amx-tile" not in needs(stepc, at("native.so")):
            print("no product in tiles was run: this processor or system has no AMX")
            return 0
        outs = []
        for threads in "1", "2", "2":
            done = run("native.so", threads)
            assert done.returncode == 0, done.stderr
            with open(at("out" + threads), "rb") as f:
                outs.append(f.read())
        assert outs[1] == outs[2], "other bits in a second run"
    return 0


if platform.machine() != "x86_64":
    print("no AMX on this processor")
    sys.exit(0)
sys.exit(main(sys.argv[1]))
