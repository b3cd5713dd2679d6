"""Launches that the stand-in has recorded (../driver/record.c), carried out again by the emulator, and what both left in memory beside each
other."""
import collections
import os
import re

import numpy as np

from . import instructions, machine, memory, numbers, nvrtc, parse

THREADS = 8192  # at once
MOST_SHARED = 99 << 10  # of a block, of the architectures that have the least (sm_86, sm_89)
# What C++'s library and CUDA's compute to other last places, or the PTX only approximately.
INEXACT = re.compile(r"\b\w*(?:exp|log|tan|sin|cos|pow|erf|gamma|sqrt|cbrt|hypot)\w*\(")
EXACT = re.compile(r"sqrtf?\(|stepc_pow\(")
NARROW = re.compile(r"stepc_b?f16_")
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


def run(m, launch, together=THREADS):
    """The memory that a launch leaves; so many threads run at once."""
    data = m.spaces.data
    heap = memory.Heap([(a, before) for a, before, _ in launch.memory if before] + [(memory.DATA, data)])
    heap.remember(memory.grain(m.kernel, "global"))
    params = parameters(m.kernel, launch.words)
    shared = m.spaces.shared.static - memory.RESERVED + launch.shared
    if shared > MOST_SHARED:
        raise machine.Fault("%s: %d bytes of shared memory" % (launch.kernel, shared))
    if launch.threads > m.kernel.most_threads:
        raise machine.Fault("%s: %d threads, not %d at most" % (launch.kernel, launch.threads, m.kernel.most_threads))
    each = max(together // launch.threads, 1)
    m.steps = 0
    try:
        for first in range(0, launch.blocks, each):
            m.start(first, min(each, launch.blocks - first), launch.blocks, launch.threads, launch.shared, params, heap)
            m.run()
    except machine.Parted:
        if each == 1:
            raise
        return run(m, launch, together=1)
    if (heap.constant & heap.stored).any():
        raise machine.Fault("%s: what ld.global.nc has read is written by the same launch" % launch.kernel)
    return heap


class Replay:
    """Kernels of texts by architecture, each made once."""

    def __init__(self, folder, cache=None):
        self.folder, self.cache, self.library, self.texts, self.machines = folder, cache, nvrtc.library(), {}, {}
        self.change = None  # PTX -> PTX, to see what is found

    def pieces(self, text):
        """What stands before the kernels, and each of them."""
        if text not in self.texts:
            with open(os.path.join(self.folder, text), encoding="utf-8") as f:
                before, *kernels = re.split(r'(?=extern "C" __global__)', f.read())
            self.texts[text] = before, {re.match(r"[^\n]*?\) (\w+)\(", k)[1]: k for k in kernels}
        return self.texts[text]

    def source(self, launch):
        """A kernel's text."""
        return self.pieces(launch.text)[1][launch.kernel]

    def ptx(self, launch, arch):
        """Of a kernel alone, as the others take NVRTC as long."""
        return nvrtc.ptx(self.library, self.pieces(launch.text)[0] + self.source(launch), arch, self.cache)

    def machine(self, launch, arch):
        key = launch.text, launch.kernel, arch
        if key not in self.machines:
            made = self.ptx(launch, arch)
            self.machines[key] = machine.Machine(parse.parse(self.change(made) if self.change else made)[launch.kernel], instructions)
        return self.machines[key]

    def compare(self, launch, arch):
        """What differs, in words; how far it is off, of what may be 1."""
        heap = run(self.machine(launch, arch), launch)
        want = memory.Heap([(a, after) for a, _, after in launch.memory if after] + [(memory.DATA, self.machine(launch, arch).spaces.data)])
        if len(want.bytes) > len(heap.bytes):
            heap.bytes = np.concatenate([heap.bytes, want.bytes[len(heap.bytes):]])
        differ = heap.bytes != want.bytes[:len(heap.bytes)]
        if not differ.any():
            return [], 0.0
        source = self.source(launch)
        way = "exact" if not any(not EXACT.match(x) for x in INEXACT.findall(source)) else "narrow" if NARROW.search(source) else "inexact"
        return judged(heap, want, differ, way, launch.kernel)


def judged(heap, want, differ, way, kernel):
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
        far, how = min(distance(take(heap), take(want), kind, way) for kind in kinds(s, item))
        worst = max(worst, far)
        if far > 1:
            told.append("%s: line %d: %s: %d of %d numbers differ, by %.3g of what they may (%s)" % (kernel, s.line, s.text, off.sum(), len(at), far, how))
    return told, worst


def kinds(s, item):
    """What the numbers of a store may be: a type of the PTX that is no float is one of a few of that size, too."""
    return {8: ("f8", "i8", "f4"), 4: ("f4", "i4", "bf16", "f2"), 2: ("bf16", "f2", "i2"), 1: ("i1",)}[item] if s.parts[-1] not in ("f32", "f64") else ("f8",) if item == 8 else ("f4",)


# Of a number, and of the largest one of its store, of which sums are made: a few last places of the functions, which CUDA and C++ know to one or
# two; of 16 bits, where now and then one is rounded to its neighbour, one place of each.
PLACES = {"f8": (2.0 ** -44, 2.0 ** -44), "f4": (2.0 ** -18, 2.0 ** -18), "bf16": (2.0 ** -7, 2.0 ** -9), "f2": (2.0 ** -10, 2.0 ** -12)}
SUMS_OF_16_BITS = 2.0 ** -12  # float32 that is made of such neighbours
NEIGHBOURS = 8  # one in so many, at most


def same(got, want, kind):
    """To the bit, but for what is no number."""
    equal = (got == want).all(1)
    if kind[0] != "i" and not equal.all():
        a, b = wide(got, kind), wide(want, kind)
        equal |= ((a != a) & (b != b)).all(1)
    return equal


def distance(got, want, kind, way):
    """How far two arrays of bytes are apart, in units of what may be. `way`: exact, inexact, or narrow: with numbers of 16 bits on the way."""
    equal = same(got, want, kind)
    if equal.all() or kind[0] == "i" or way == "exact":
        return (0.0 if equal.all() else np.inf), "to the bit"
    a, b = wide(got, kind), wide(want, kind)
    with np.errstate(invalid="ignore"):
        off = np.where(a == b, 0, np.abs(a - b))
    off[(a != a) & (b != b)] = 0
    of, most = PLACES[kind]
    if kind == "f4" and way == "narrow":
        most = SUMS_OF_16_BITS
    size = np.where(np.isfinite(b), np.abs(b), 0)
    allowed = of * size + most * size.max(initial=0) + 1e-300
    far = np.where(np.isfinite(off), off / allowed, np.inf).max()
    if kind in ("bf16", "f2") and equal.size > 64:
        far = max(far, (~equal).mean() * NEIGHBOURS)
    return float(far), kind


def wide(data, kind):
    return (numbers.bf16_wide(data.view("u2")) if kind == "bf16" else data.view(kind)).astype("f8")
