#!/usr/bin/env python3
"""What the program, its library and an object carry against mistakes in memory, read from their ELF files: addresses of functions that cannot be
overwritten after loading (full RELRO: BIND_NOW), no segment that is written and executed, no executable stack, no folder to look for
libraries in, no text of the folders in which they were built; the program also position independence, canaries on stacks,
fortified functions of the C library and the marks of control-flow enforcement (CET).

usage: hardening.py STEPC"""
import os
import re
import struct
import subprocess
import sys
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner

LOAD, DYNAMIC, STACK, RELRO, PROPERTY = 1, 2, 0x6474E551, 0x6474E552, 0x6474E553
NEEDED, RPATH, TEXTREL, FLAGS, RUNPATH, FLAGS_1 = 1, 15, 22, 30, 29, 0x6FFFFFFB


class Elf:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.raw = f.read()
        self.kind, = struct.unpack_from("<H", self.raw, 16)
        at, = struct.unpack_from("<Q", self.raw, 32)
        size, count = struct.unpack_from("<HH", self.raw, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.raw, at + i * size) for i in range(count)]
        self.dynamic = {}
        for offset, length in self.parts(DYNAMIC):
            for i in range(0, length, 16):
                tag, value = struct.unpack_from("<QQ", self.raw, offset + i)
                self.dynamic.setdefault(tag, value)
                if not tag:
                    break

    def parts(self, kind):
        return [(s[2], s[5]) for s in self.segments if s[0] == kind]

    def features(self):
        """The bits of GNU_PROPERTY_X86_FEATURE_1_AND: 1 indirect branches, 2 shadow stack."""
        bits = 0
        for offset, length in self.parts(PROPERTY):
            at, end = offset + 16, offset + length
            while at + 8 <= end:
                kind, size = struct.unpack_from("<II", self.raw, at)
                if kind == 0xC0000002:
                    bits |= struct.unpack_from("<I", self.raw, at + 8)[0]
                at += 8 + (size + 7) // 8 * 8
        return bits


class Hardening(runner.Case):
    def common(self, elf):
        self.assertTrue(elf.dynamic.get(FLAGS, 0) & 8 or elf.dynamic.get(FLAGS_1, 0) & 1, "BIND_NOW")
        self.assertTrue(elf.parts(RELRO), "RELRO")
        self.assertEqual([s[1] & 1 for s in elf.segments if s[0] == STACK], [0], "a stack that is not executed")
        for s in elf.segments:
            self.assertFalse(s[0] == LOAD and s[1] & 3 == 3, "a segment that is written and executed")
        for tag in (RPATH, RUNPATH, TEXTREL):
            self.assertNotIn(tag, elf.dynamic)
        for folder in (ROOT, os.path.dirname(self.program)):
            self.assertNotIn(os.path.realpath(folder).encode(), elf.raw)

    def test_descriptors(self):
        """What is opened is not handed to programs that the host, or the compiler, starts."""
        found = 0
        for folder in ("frontend", "ir", "passes", "codegen", "runtime"):
            for at, _, names in os.walk(os.path.join(ROOT, folder)):
                for name in sorted(n for n in names if n.endswith(".c")):
                    with open(os.path.join(at, name), encoding="utf-8") as f:
                        calls = re.findall(r"(?<![\w>.])open(?:at)?\([^;]*;", f.read())
                    found += len(calls)
                    for call in calls:
                        self.assertEqual(call.count("O_CLOEXEC"), len(re.findall(r"(?<![\w>.])open(?:at)?\(", call)), "%s: %s" % (name, call))
        self.assertGreater(found, 5)

    def test_program(self):
        elf = Elf(self.program)
        self.common(elf)
        self.assertTrue(elf.kind == 3 and elf.dynamic.get(FLAGS_1, 0) & 0x08000000, "position independent")
        self.assertIn(b"\0__stack_chk_fail\0", elf.raw)
        self.assertIn(b"_chk\0", elf.raw.replace(b"\0__stack_chk_fail\0", b"\0"))
        self.assertTrue(elf.features() & 2, "a shadow stack")
        self.assertGreater(elf.raw.count(b"\xf3\x0f\x1e\xfa"), 1000, "functions that begin with endbr64")

    def test_library(self):
        path = os.path.join(os.path.dirname(self.program), "libstepc_llvm.so")
        if not os.path.exists(path):
            self.skipTest("it was not built")
        self.common(Elf(path))
        needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        self.assertEqual(re.findall(r"NEEDED.*\[(?!ld-linux|lib[cm]\.)(.*)\]", needed), [])

    def test_object(self):
        so = self.path("step.so")
        self.stepc("compile", os.path.join(ROOT, "samples", "digits", "model.json"), "-o", so)
        self.common(Elf(so))
        self.assertTrue(Elf(so).features() & 2, "a shadow stack")
        self.assertNotIn(self.folder.encode(), Elf(so).raw)

    def test_negative_control(self):
        """The readers see what is missing: a copy of the program without the flags fails."""
        with open(self.program, "rb") as f:
            raw = bytearray(f.read())
        elf = Elf(self.program)
        at = [i for i, s in enumerate(elf.segments) if s[0] == RELRO][0]
        start, = struct.unpack_from("<Q", raw, 32)
        struct.pack_into("<I", raw, start + at * 56, 0)
        with open(self.path("soft"), "wb") as f:
            f.write(raw)
        with self.assertRaises(AssertionError):
            self.common(Elf(self.path("soft")))


if __name__ == "__main__":
    runner.main()
