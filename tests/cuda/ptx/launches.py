"""Launches that the stand-in has recorded (../driver/record.c), carried out again by the emulator, and what both left in memory beside each
other."""
import collections
import os
import re

import numpy as np

from . import instructions, machine, memory, nvrtc, parse

THREADS = 8192  # at once
# What C++'s library and CUDA's compute to other last places, or the PTX only approximately.
INEXACT = re.compile(r"\b(?:\w*(?:exp|log|tan|sin|cos|pow|erf|gamma|sqrt|cbrt|hypot)\w*)\(")
EXACT = re.compile(r"\bsqrtf?\(|stepc_pow\(")
Launch = collections.namedtuple("Launch", "kernel text blocks threads shared words memory")  # memory: (address, before, after)


def read(path):
    with open(path, "rb") as f:
        head, _, data = f.read().partition(b"\n\n")
    lines = [line.split() for line in head.decode().split("\n")]
    of = {line[0]: line[1:] for line in lines if line[0] != "block"}
    blocks, at = [], 0
    for address, size, changed in (map(int, line[1:]) for line in lines if line[0] == "block"):
        before = data[at:at + size]
        at += size
        after = data[at:at + size] if changed else before
        at += size * changed
        blocks.append((address, before, after))
    return Launch(of["kernel"][0], of["text"][0], *map(int, of["grid"]), list(map(int, of["words"])), blocks)


def parameters(kernel, words):
    """Each parameter's bytes at its place: words, but for the first one, which may be a table of several."""
    out = bytearray(kernel.param_bytes)
    at = 0
    for place, size in kernel.params.values():
        n = max(size // 8, 1)
        data = b"".join((w & (1 << 64) - 1).to_bytes(8, "little") for w in words[at:at + n])
        out[place:place + size] = data[:size]
        at += n
    return bytes(out)


class Replay:
    """Kernels of texts by architecture, each made once."""

    def __init__(self, folder, cache=None):
        self.folder, self.cache, self.library, self.modules, self.machines = folder, cache, nvrtc.library(), {}, {}
        self.change = None  # PTX -> PTX, to see what is found

    def text(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as f:
            return f.read()

    def machine(self, text, kernel, arch):
        if (text, arch) not in self.modules:
            made = nvrtc.ptx(self.library, self.text(text), arch, self.cache)
            self.modules[text, arch] = parse.parse(self.change(made) if self.change else made)
        if (text, kernel, arch) not in self.machines:
            self.machines[text, kernel, arch] = machine.Machine(self.modules[text, arch][kernel], instructions)
        return self.machines[text, kernel, arch]

    def run(self, launch, arch):
        """The memory that is left."""
        m = self.machine(launch.text, launch.kernel, arch)
        data = m.spaces.data
        heap = memory.Heap([(a, before) for a, before, _ in launch.memory if before] + ([(memory.DATA, data)] if data else []))
        params = parameters(m.kernel, launch.words)
        each = max(THREADS // launch.threads, 1)
        m.steps = 0
        for first in range(0, launch.blocks, each):
            m.start(first, min(each, launch.blocks - first), launch.blocks, launch.threads, launch.shared, params, heap)
            m.run()
        if (heap.constant & heap.stored).any():
            raise machine.Fault("%s: what ld.global.nc has read is written by the same launch" % launch.kernel)
        return heap

    def source(self, launch):
        """A kernel's text."""
        for piece in self.text(launch.text).split('extern "C" __global__')[1:]:
            if re.match(r"[^\n]*\b%s\(" % launch.kernel, piece):
                return piece
        return ""

    def compare(self, launch, arch):
        """What differs, in words; how far it is off, of what may be 1."""
        heap = self.run(launch, arch)
        want = memory.Heap([(a, after) for a, _, after in launch.memory if after] + [(memory.DATA, self.machine(launch.text, launch.kernel, arch).spaces.data)])
        if len(want.bytes) > len(heap.bytes):
            heap.bytes = np.concatenate([heap.bytes, want.bytes[len(heap.bytes):]])
        differ = heap.bytes != want.bytes[:len(heap.bytes)]
        if not differ.any():
            return [], 0.0
        inexact = [x for x in INEXACT.findall(self.source(launch)) if not EXACT.match(x)]
        return judged(heap, want, differ, bool(inexact), launch.kernel)


def judged(heap, want, differ, inexact, kernel):
    """By what wrote it: each number is of the type of the last store, and may differ as much as the numbers of that store allow."""
    last = np.full(len(heap.bytes), -1)
    stores, statements = {}, []
    for s, places, item, count in heap.log:
        if s not in statements[-1:]:
            statements.append(s)
        which = stores.setdefault(s.line, (s, item, []))
        at = (places[:, None] + np.arange(count) * item).reshape(-1)
        which[2].append(at)
        last[(at[:, None] + np.arange(item)).reshape(-1)] = s.line
    told, worst = [], 0.0
    if (differ & (last < 0)).any():
        at = np.flatnonzero(differ & (last < 0))
        told.append("%s: %d bytes that it does not write, the first one %d" % (kernel, len(at), at[0]))
    for line, (s, item, places) in stores.items():
        at = np.unique(np.concatenate(places))
        at = at[last[at] == line]
        off = differ[at[:, None] + np.arange(item)].any(1)
        if not off.any():
            continue
        take = lambda of: of.bytes[at[:, None] + np.arange(item)].copy()
        far, how = min(distance(take(heap), take(want), item, kind, inexact) for kind in kinds(s, item))
        worst = max(worst, far)
        if far > 1:
            told.append("%s: line %d: %s: %d of %d numbers differ, by %.3g of what they may (%s)" % (kernel, s.line, s.text, off.sum(), len(at), far, how))
    return told, worst


def kinds(s, item):
    """What the numbers of a store may be: a type of the PTX that is no float is one of a few of that size, too."""
    return {8: ("f8", "i8", "f4"), 4: ("f4", "i4", "bf16", "f2"), 2: ("bf16", "f2", "i2"), 1: ("i1",)}[item] if s.parts[-1] not in ("f32", "f64") else ("f8",) if item == 8 else ("f4",)


PLACES = {"f8": 2.0 ** -30, "f4": 2.0 ** -17, "bf16": 2.0 ** -7.5, "f2": 2.0 ** -9.5}


def distance(got, want, item, kind, inexact):
    """How far two arrays of bytes are apart, in units of what may be: not at all where all operations are exact, otherwise a few last places of
    the largest numbers of the same store, of which sums are made; of 16 bits one place of each."""
    if kind[0] == "i" or not inexact:
        same = (got == want).all(1)
        if not same.all() and kind[0] == "f" or kind == "bf16":
            a, b = wide(got, kind), wide(want, kind)
            same |= (a != a).all(1) & (b != b).all(1)
        return (0.0 if same.all() else np.inf), "to the bit"
    a, b = wide(got, kind), wide(want, kind)
    lost = (a != a) | (b != b)
    if (lost & ~((a != a) & (b != b))).any():
        return np.inf, "no number"
    a, b = np.where(lost, 0, a), np.where(lost, 0, b)
    if (np.isinf(a) | np.isinf(b)).any() and (a[np.isinf(a) | np.isinf(b)] != b[np.isinf(a) | np.isinf(b)]).any():
        return np.inf, "no end"
    a, b = np.where(np.isinf(a), 0, a), np.where(np.isinf(b), 0, b)
    scale = np.abs(b).max(initial=0)
    allowed = PLACES[kind] * np.abs(b) + min(PLACES[kind], 2.0 ** -12) * scale + 1e-300
    return float((np.abs(a - b) / allowed).max(initial=0)), kind


def wide(data, kind):
    if kind == "bf16":
        data, n = data.view("u2"), "bf16"
        return (data.astype("u4") << np.uint32(16)).view("f4").astype("f8")
    return data.view(kind).astype("f8")
