#!/usr/bin/env python3
"""The PTX that NVRTC makes of kernels beside the same kernels on the stand-in: launches that it has recorded (driver/record.c) are carried out
again by an emulator of the PTX ISA (ptx/), which knows nothing of the stand-in's twins of what a CPU has not, and finds what
hardware leaves undefined. Bytes have to be the same, but where functions are approximate.

    tests/cuda/ptx.py build/stepc [TEST...]                    a few documents   (STEPC_CUDA_DRIVER names the stand-in, STAND_IN_CACHE a folder that keeps PTX, too)
    tests/cuda/ptx.py build/stepc --all [PATTERN...]           all of ptx/documents.py
    tests/cuda/ptx.py build/stepc --recorded PATTERN...        recorded cases
    tests/cuda/ptx.py build/stepc --folder FOLDER              launches of any program that ran with STAND_IN_LAUNCHES=FOLDER
    --every N (of recorded cases)   --arch compute_80 (default: compute_90; for text_90a compute_90a, and compute_90 of warpgroups)   --text text_90a   -v: each launch
"""
import argparse
import fnmatch
import fractions
import glob
import os
import re
import sys
import tempfile
import time
import unittest

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
from ptx import documents, instructions, launches, machine, numbers, nvrtc, parse
from tool import recorded, runner

# By the text's architecture. Those without wgmma multiply the panels of warpgroups by mma.sync, which the stand-in never does. NVVM makes of
# a text the same for sm_80 as for sm_90.
ARCHS = {"text": ("compute_90",), "text_90a": ("compute_90a", "compute_90")}
LOOSE = "0.05"  # the stand-in's own results are compared by other tests


def cache():
    folder = os.environ.get("STAND_IN_CACHE")
    return folder and os.path.join(folder, "ptx")


def settings(folder, more):
    return {"STAND_IN_LAUNCHES": folder, **more}


def record(stepc, folder, entry):
    """Launches of three steps of a document, in its folder."""
    document, arch, env = entry
    model, so = runner.write_json(os.path.join(folder, "model.json"), document), os.path.join(folder, "step.so")
    runner.call(stepc, "compile", model, "-q", "-o", so, "--target", "cuda", "--cuda-arch", arch, env=env, verify=False)
    runner.call(stepc, "check", model, "--against", so, "--rtol", LOOSE, "--atol", LOOSE, env=settings(folder, env), verify=False)


def record_case(stepc, folder, case, arch, env):
    model, so = case.unpack(folder), os.path.join(folder, "step.so")
    runner.call(stepc, "compile", model, "-q", "-o", so, "--target", "cuda", "--cuda-arch", arch, env=env, verify=False)
    init = ["--init", os.path.join(folder, "init.safetensors")] if case.raw("init") else []
    runner.call(stepc, "run", so, "--steps", str(min(case.steps, 3)), "--data", os.path.join(folder, "data.safetensors"), "-q", *init, *case.sets(), env=settings(folder, env), verify=False)


def unlike(replay, arch, kernels=None, show=None):
    """What differs or is undefined in the launches of the folder, and how many there are."""
    told, count = [], 0
    for path in sorted(glob.glob(os.path.join(replay.folder, "*.launch"))):
        launch = launches.read(path)
        if kernels and not re.search(kernels, replay.source(launch)):
            continue
        begin, count = time.monotonic(), count + 1
        try:
            wrong, worst = replay.compare(launch, arch)
        except machine.Fault as e:
            wrong, worst = [str(e)], np.inf
        told += wrong
        if show:
            show("  %-10s %5d x %4d  %.1f s  %.2g of what may be%s" % (launch.kernel, launch.blocks, launch.threads, time.monotonic() - begin, worst, "".join("\n    " + w for w in wrong)))
    return told if count or kernels else ["no launch was recorded (STAND_IN_LAUNCHES_MOST bytes of memory, and no more, are)"], count


class Numbers(unittest.TestCase):
    """The emulator's arithmetic beside that of fractions."""

    def some(self, dtype, n=3000):
        rng = np.random.default_rng(5)
        unsigned = numbers.UNSIGNED[np.dtype(dtype).itemsize]
        near = rng.integers(0, 1 << 30, n).astype(dtype) * np.dtype(dtype).type(2.0 ** -20)
        wild = rng.integers(0, np.iinfo(unsigned).max, n, dtype=unsigned).view(dtype)
        wild = np.where(np.isfinite(wild) & (np.abs(wild) < 1e15) & (np.abs(wild) > 1e-15), wild, 1)
        return np.where(rng.random(n) < 0.5, near, wild) * rng.choice([-1, 1], n).astype(dtype)

    def check(self, exact, got, dtype, mode):
        """Nothing between the exact result and the number that a rounding gives."""
        for e, g in zip(exact, got):
            if not np.isfinite(g):
                continue
            f = fractions.Fraction(float(g))
            if f == e:
                continue
            up = np.nextafter(g, np.dtype(dtype).type(np.inf if f < e else -np.inf))
            gap = abs(fractions.Fraction(float(up)) - f)
            off = abs(f - e)
            self.assertTrue(2 * off < gap or 2 * off == gap and g.view(numbers.UNSIGNED[g.itemsize]) % 2 == 0 if mode == "rn" else off < gap, (e, g, mode))
            if mode != "rn":
                self.assertTrue({"rm": f < e, "rp": f > e, "rz": abs(f) < abs(e)}[mode], (e, g, mode))

    def test_fused(self):
        for dtype, modes in ("f4", ("rn", "rz", "rm", "rp")), ("f8", ("rn",)):
            a, b, c = (self.some(dtype)[shift:][:1500] for shift in (0, 700, 1400))
            c = np.where(np.arange(1500) % 3, c, -(a * b))
            exact = [fractions.Fraction(float(x)) * fractions.Fraction(float(y)) + fractions.Fraction(float(z)) for x, y, z in zip(a, b, c)]
            for mode in modes:
                self.check(exact, numbers.fma(a, b, c, mode), dtype, mode)
            for mode in modes[:4]:
                self.check([fractions.Fraction(float(x)) + fractions.Fraction(float(y)) for x, y in zip(a, c)], numbers.add(a, c, mode), dtype, mode)

    def test_bfloat16(self):
        x = self.some("f4")
        bits = numbers.bf16_bits(x)
        for value, of in zip(x, bits):
            near = [numbers.bf16_wide(np.array([int(of) + d & 0xffff], "u2"))[0] for d in (-1, 0, 1)]
            off = [abs(fractions.Fraction(float(n)) - fractions.Fraction(float(value))) for n in near]
            self.assertTrue(off[1] <= min(off) and (off.count(off[1]) == 1 or of % 2 == 0), value)


HEAD = """
.visible .entry k(.param .u64 k_param_0) .maxntid 128, 1, 1 {
.reg .pred %p<4>; .reg .b16 %rs<4>; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %rd<8>;
.shared .align 16 .b8 s[1024];
mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; setp.lt.u32 %p1, %r2, 16; setp.lt.u32 %p2, %r1, 64;
mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.s32 %r5, %r3, %r4; xor.b32 %r6, %r4, 4; add.s32 %r6, %r3, %r6; xor.b32 %r7, %r4, 128; add.s32 %r7, %r3, %r7;
ld.param.u64 %rd1, [k_param_0]; cvt.u64.u32 %rd2, %r4; add.s64 %rd3, %rd1, %rd2;
"""
HAZARDS = (  # what a kernel does, and what is said
    ("st.shared.u32 [%r5], %r1; bar.sync 0; ld.shared.u32 %r8, [%r7]; st.global.u32 [%rd3], %r8;", None),
    ("st.shared.u32 [%r5], %r1; bar.warp.sync -1; ld.shared.u32 %r8, [%r6]; st.global.u32 [%rd3], %r8;", None),
    ("st.shared.u32 [%r5], %r1; ld.shared.u32 %r8, [%r7];", "another thread has written is read"), ("st.shared.u32 [%r5], %r1; ld.shared.u32 %r8, [%r6];", "another thread has written is read"),
    ("st.shared.u32 [%r5], %r1; bar.sync 0; ld.shared.u32 %r8, [%r7]; st.shared.u32 [%r5], %r8;", "another thread may still read"),
    ("st.shared.u32 [%r5], %r1; bar.sync 0; ld.shared.u32 %r8, [%r7]; bar.sync 0; st.shared.u32 [%r5], %r8;", None), ("st.shared.u32 [%r3], %r1;", "two warps write the same at once"),
    ("ld.shared.u32 %r8, [%r5];", "nobody has written"), ("add.s32 %r8, %r9, 1;", "%r9 holds nothing"), ("st.shared.v2.u32 [%r5], {%r1, %r1};", "no multiple of 8"), ("ld.shared.u32 %r8, [%r5+1024];", "outside"),
    ("ld.global.u32 %r8, [%rd3+512];", "outside of every block"), ("ld.global.u32 %r8, [%rd3+2];", "no multiple of 4"), ("brev.b32 %r8, %r1;", "unknown instruction"),
    ("cvt.u16.u32 %rs1, %r1; add.s32 %r8, %rs1, 1;", "a register of 2 bytes for 4"), ("@%p2 bar.sync 0; st.global.u32 [%rd3], %r1;", "wait for others that do not come"),
    ("@%p2 bar.sync 1, 64; @!%p2 bar.sync 2, 64; st.global.u32 [%rd3], %r1;", None), ("bar.sync 1, 96;", "threads at a barrier|do not come"), ("@%p1 bar.sync 0;", "a part of a warp|do not come"),
    ("@%p1 shfl.sync.bfly.b32 %r8, %r1, 1, 31, -1;", "by a part of a warp"), ("@%p1 bra $L1; mov.u32 %r8, 1; bra.uni $L2; $L1: mov.u32 %r8, 2; $L2: shfl.sync.bfly.b32 %r9, %r8, 16, 31, -1; st.global.u32 [%rd3], %r9;", None),
    ("mov.u32 %r8, 0; $L1: @%p1 bra $L3; add.s32 %r8, %r8, 1; $L3: bra.uni $L2; $L2: st.global.u32 [%rd3], %r8;", None), ("ld.global.nc.u32 %r8, [%rd3]; st.global.u32 [%rd3], %r8;", "ld.global.nc has read is written"),
    ("st.global.u32 [%rd1], %r1;", "two warps write the same at once"), ("@%p2 st.global.u32 [%rd3], %r1; @!%p2 ld.global.u32 %r8, [%rd3+-256];", "another thread has written is read"),
    ("ld.volatile.global.u32 %r8, [%rd1]; or.b32 %r8, %r8, 1; st.volatile.global.u32 [%rd1], %r8;", None),
    ("cp.async.cg.shared.global [%r3], [%rd1], 16, 16;", "two|nobody waits|under way"), ("setp.eq.u32 %p3, %r1, 0; @%p3 cp.async.cg.shared.global [%r3], [%rd1], 16, 16;", "a copy that nobody waits for"),
    ("setp.eq.u32 %p3, %r1, 0; @%p3 cp.async.cg.shared.global [%r3], [%rd1], 16, 16; cp.async.commit_group; cp.async.wait_group 1; bar.sync 0; ld.shared.u32 %r8, [%r3];", "before it has arrived"),
    ("setp.eq.u32 %p3, %r1, 0; @%p3 cp.async.cg.shared.global [%r3], [%rd1], 16, 16; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r8, [%r3];", "another thread has written is read"),
    ("setp.eq.u32 %p3, %r1, 0; @%p3 cp.async.cg.shared.global [%r3], [%rd1], 16, 16; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r8, [%r3]; st.global.u32 [%rd3], %r8;", None),
)


class Hazards(unittest.TestCase):
    """What the emulator says of small kernels, of 128 threads and 512 bytes of memory."""

    def test_each(self):
        for code, says in HAZARDS:
            with self.subTest(code=code):
                try:
                    kernel = parse.parse(HEAD + code.replace(":", ":\n") + " ret;\n}\n")["k"]
                    m = machine.Machine(kernel, instructions)
                    launches.run(m, launches.Launch("k", "", 1, 128, 0, [1 << 20], [(1 << 20, bytes(512), bytes(512))]))
                    said = None
                except machine.Fault as e:
                    said = str(e)
                self.assertTrue(said is None if says is None else said and re.search(says, said), said)


class Documents(runner.SharedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if nvrtc.library() is None:
            raise unittest.SkipTest("no NVRTC")

    def recorded(self, name):
        folder = self.path(name)
        if not os.path.exists(folder):
            os.mkdir(folder)
            record(self.program, folder, documents.ALL[name])
        return launches.Replay(folder, cache())

    def test_few(self):
        for name in documents.FEW:
            with self.subTest(name=name):
                for arch in ARCHS[documents.ALL[name][1]] if name == documents.FEW[0] else ARCHS[documents.ALL[name][1]][:1]:
                    told, count = unlike(self.recorded(name), arch, KERNELS)
                    self.assertEqual(told, [])
                    self.assertGreater(count, 0)

    def test_options(self):
        """PTX is made as the compiler makes it."""
        with open(os.path.join(HERE, "..", "..", "codegen", "cuda", "cuda_nvrtc.c"), encoding="utf-8") as f:
            self.assertEqual(tuple(re.findall(r'"(--[^"%]*)"', f.read().split("options[] = {")[1].split("}")[0])), nvrtc.OPTIONS)

    def test_architectures(self):
        """What is replayed for sm_90 is what sm_80 has."""
        replay = self.recorded("product_two_blocks_bfloat16")
        launch = next(x for x in map(launches.read, sorted(glob.glob(os.path.join(replay.folder, "*.launch")))) if "stepc_copy(" in replay.source(x))
        texts = [re.sub(r"\.target sm_\d+", "", replay.ptx(launch, arch)) for arch in ("compute_80", "compute_90")]
        self.assertEqual(*texts)

    def changed(self, name, kernel, old, new, says, last=False):
        """What is said where one place of the PTX is another one."""
        replay = self.recorded(name)

        def change(text):
            places = list(re.finditer(old, text, re.S))
            self.assertTrue(places, old)
            at = places[-1 if last else 0]
            return text[:at.start()] + at.expand(new) + text[at.end():]
        replay.change = change
        told, _ = unlike(replay, ARCHS[documents.ALL[name][1]][0], kernel)
        self.assertRegex("\n".join(told), says, (name, old))

    def test_changed(self):
        """It finds what it is there for."""
        of, unit = "product_two_blocks_bfloat16", r"stepc_copy\("
        for old, new, says in COPIES:
            self.changed(of, unit, old, new, says, last=True)
        for name, changes in WARPGROUPS.items():
            for old, new, says in changes:
                self.changed(name, r"stepc_warpgroup_", old, new, says)


WARPGROUPS_TEXT = "stepc_warpgroup_"
KERNELS = r"stepc_(matrix|warpgroup|copy|fold|threefry|load_tiles)|__shared__"
COPIES = (
    (r"bar\.sync\s+0;", "", "without a barrier between"), (r"cp\.async\.wait_group \d+;", "", "before it has arrived|nobody waits for"),
    (r"cp\.async\.commit_group;", "", "before it has arrived|nobody waits"), (r"(x4\.(?:trans\.)?shared\.b16 \{)(%\w+), (%\w+)", r"\1\3, \2", "numbers differ"),
    (r"(mma\.sync\S* \{.*?\}, \{)(%\w+), (%\w+)", r"\1\3, \2", "numbers differ"), (r"(ldmatrix\S* \{.*?\}, \[%\w+)\]", r"\1+4]", "is no multiple of 16"),
    (r"(ldmatrix\S* \{.*?\}, \[%\w+)\]", r"\1+131072]", "outside"), (r"cvt\.rn\.bf16x2\.f32", "cvt.rp.bf16x2.f32", "unknown instruction"),
)
WARPGROUPS = {
    "warpgroups_one_block_bfloat16": (
        (r"bar\.sync\s+0;(?=(?:(?!bar\.sync).)*?wgmma\.mma)", "", "without|fence"),
        (r"fence\.proxy\.async\S*;(?=(?:(?!fence\.proxy).)*?wgmma\.mma)", "", r"without fence\.proxy\.async"), (r"wgmma\.fence\S*;", "", r"wgmma\.fence"),
        (r"wgmma\.commit_group\S*;", "", r"without wgmma\.commit_group"), (r"(adds, 1, 1, )(\d)", r"\g<1>7", "unknown instruction"),
        (r"wgmma\.wait_group\S* 0;(?!.*wgmma\.wait_group)", "", "under way|nobody waits|was written while")),
    "warpgroups_wide": (
        (r"wgmma\.wait_group\S* 1;", "", "was written while"), (r"wgmma\.wait_group\S* 1;", "wgmma.wait_group.sync.aligned 2;", "was written while"),
        (r"cp\.async\.wait_group 1;", "cp.async.wait_group 2;", "before it has arrived"), (r"(wgmma\.wait_group\S* 1;.*?)bar\.sync\s+0;", r"\1", "without|fence|while")),
}


def several(arguments):
    """The command line behind --all or --recorded: how many have something wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("stepc")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--arch")
    parser.add_argument("--text")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("patterns", nargs="*")
    options = parser.parse_intermixed_args(arguments)
    stepc = os.path.abspath(options.stepc)
    if nvrtc.library() is None:
        sys.exit("no NVRTC")
    if options.folder:
        told, count = unlike(launches.Replay(options.folder, cache()), options.arch or "compute_90", show=print if options.v else None)
        print("%d launches%s" % (count, "".join("\n  " + t for t in told)))
        return len(told)
    asked = lambda name: not options.patterns or any(fnmatch.fnmatch(name, p) for p in options.patterns)
    names = [n for n in documents.ALL if asked(n)] if options.all else [c for c in recorded.names() if asked(c)][::options.every]
    if not names:
        sys.exit("no %s is named like %s" % ("document" if options.all else "recorded case", ", ".join(options.patterns)))
    bad = 0
    for name in names:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="stepc-ptx-") as folder:
            try:
                if options.all:
                    entry = documents.ALL[name]
                    text = options.text or entry[1]
                    record(stepc, folder, (entry[0], text, entry[2]))
                else:
                    text = options.text or "text"
                    record_case(stepc, folder, recorded.load(name), text, {"STEPC_WARPGROUPS_ALWAYS": "1"} if text == "text_90a" else {})
            except runner.Failed as e:
                print("%s: not recorded: %s" % (name, e.brief(200)), flush=True)
                bad += 1
                continue
            told, count = [], 0
            for arch in (options.arch,) if options.arch else ARCHS[text]:
                some, n = unlike(launches.Replay(folder, cache()), arch, WARPGROUPS_TEXT if arch != "compute_90a" and text == "text_90a" and not options.arch else None, show=print if options.v else None)
                told, count = told + some, count + n
        print("%s: %d launches, %.0f s%s" % (name, count, time.monotonic() - begin, "".join("\n  " + t for t in told)), flush=True)
        bad += bool(told)
    print("%d of %d documents have something wrong" % (bad, len(names)))
    return bad


if __name__ == "__main__":
    if {"--all", "--recorded", "--folder"} & set(sys.argv):
        sys.exit(bool(several(sys.argv[1:])))
    runner.main()
