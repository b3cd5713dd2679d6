"""State spaces: what an address reaches, and who reached it before ("State Spaces", "Memory Consistency Model", "cp.async"). Shared memory
knows of each few bytes which warp wrote and read them between which barriers, whether a copy is under way to them, and whether the unit
of products may see them ("Async proxy")."""
import bisect
import collections

import numpy as np

from . import numbers, parse

RESERVED = 1024  # of a block's shared memory, by the driver ("Shared memory" of compute capability 8.0 and later)
WINDOW = {"shared": 1 << 44, "local": 2 << 44, "param": 3 << 44}  # of generic addresses
DATA = 4 << 44  # variables of a module
WINDOW_BYTES = 1 << 44


class Outside(Exception):
    pass


class Heap:
    """Blocks of memory of the device and of the host: (address, bytes)."""

    def __init__(self, blocks):
        self.blocks = sorted(blocks)
        self.starts = [a for a, _ in self.blocks]
        self.bases, at = [], 0
        for a, data in self.blocks:
            at = (at + 255) // 256 * 256 + a % 256
            self.bases.append(at)
            at += len(data)
        self.bytes = np.zeros(at + 256, "u1")
        for base, (_, data) in zip(self.bases, self.blocks):
            self.bytes[base:base + len(data)] = np.frombuffer(data, "u1")
        self.constant, self.stored = np.zeros(len(self.bytes), "u1"), np.zeros(len(self.bytes), "u1")
        self.log = []  # (statement, places, bytes each)
        self.history = None

    def remember(self, grain):
        self.history = History(len(self.bytes) // grain + 1, grain)

    def places(self, a, size):
        """Where `size` bytes at each address lie."""
        low, high = int(a.min()), int(a.max())
        i = bisect.bisect_right(self.starts, low) - 1
        if i >= 0 and high + size <= self.starts[i] + len(self.blocks[i][1]):
            return (a - np.uint64(self.starts[i])).astype("i8") + self.bases[i]
        starts, lengths = np.array(self.starts, "u8"), np.array([len(d) for _, d in self.blocks], "u8")
        of = np.searchsorted(starts, a, "right") - 1
        bad = of < 0
        of = np.maximum(of, 0)
        bad |= (a - starts[of]) + np.uint64(size) > lengths[of]
        if bad.any():
            raise Outside("%#x is outside of every block" % int(a[bad][0]))
        return (a - starts[of]).astype("i8") + np.array(self.bases)[of]


def spread(places, size, item):
    """Indices of the items of each access, item by item."""
    first = places // item
    return first[:, None] + np.arange(size // item) if size > item else first[:, None]


UNIT = 1 << 38  # what a unit reads for a whole warp, which is done with it when the warp goes on
CLOCK = 24  # bits of a clock, behind a number: of a warp in the launch (32 for each block), or of a thread there

Who = collections.namedtuple("Who", "block warp clock thread turn")  # arrays: barriers that a warp has passed, with others and with itself


class History:
    """Who wrote and read each few bytes last. Of two accesses by different threads, one of which writes, a barrier is between, of the block or
    of the warp; none is between blocks."""

    def __init__(self, count, grain):
        self.grain = grain
        self.writer, self.reader, self.writing, self.reading = (np.full(count, -1, "i8") for _ in range(4))  # warps with their clocks, threads with their turns
        self.many, self.foreign = np.zeros(count, bool), np.zeros(count, bool)  # other readers since the last one's barrier; of other blocks

    def between(self, by, thread, who):
        """Is there no barrier between what `by` and `thread` say and these, now?"""
        warps = (by >> CLOCK != who.warp) & ((by >> CLOCK + 5 != who.block) | (by & (1 << CLOCK) - 1 >= who.clock))
        lanes = (by >> CLOCK == who.warp) & (thread >> CLOCK != who.thread) & (thread & (1 << CLOCK) - 1 >= who.turn)
        return (by >= 0) & (warps | lanes)

    def look(self, places, size, who):
        """Who wrote what is read."""
        g = spread(places, size, self.grain)
        who = Who(*(x[:, None] for x in who))
        by = self.writer[g]
        if self.between(by, self.writing[g], who).any():
            raise Outside("what another thread has written is read without a barrier between")
        old = self.reader[g]
        self.foreign[g[(old >= 0) & (old >> CLOCK + 5 != who.block)]] = True
        again = (old >> CLOCK + 5 == who.block) & (old & (1 << CLOCK) - 1 == who.clock) & (old >= 0)
        self.many[g[~again]] = False
        self.many[g[again & (old >> CLOCK != who.warp)]] = True
        now = np.broadcast_to(who.warp << CLOCK | who.clock, g.shape)
        self.reader[g], self.reading[g] = now, np.broadcast_to(who.thread << CLOCK | who.turn * (who.thread != UNIT), g.shape)
        other = self.reader[g] != now  # several in this access
        if other.any():
            self.many[g[other]] = True
            self.foreign[g[other & (self.reader[g] >> CLOCK + 5 != who.block)]] = True
        return by

    def change(self, places, size, who):
        g = spread(places, size, self.grain)
        who = Who(*(x[:, None] for x in who))
        old = self.reader[g]
        late = self.between(old, self.reading[g], who) | (self.many[g] & (old & (1 << CLOCK) - 1 >= who.clock)) | self.foreign[g]
        if late.any():
            raise Outside("what another thread may still read is written without a barrier between")
        if self.between(self.writer[g], self.writing[g], who).any():
            raise Outside("two threads write the same without a barrier between")
        now = np.broadcast_to(who.warp << CLOCK | who.clock, g.shape)
        self.writer[g], self.writing[g] = now, np.broadcast_to(who.thread << CLOCK | who.turn, g.shape)
        if (self.writer[g] != now).any():
            raise Outside("two warps write the same at once")


def grain(kernel, space):
    """Bytes of the least access, which are looked at together."""
    spaces = {"shared", "global", "local", "param", "const"}
    generic = [s for s in kernel.code if s.parts[0] in ("ld", "st") and not spaces & set(s.parts)]
    return 1 if generic else min([width(s) for s in kernel.code if space in s.parts], default=4)


class Shared:
    def __init__(self, machine, static):
        self.m, self.static, self.grain = machine, static, grain(machine.kernel, "shared")

    def start(self, dynamic):
        m = self.m
        self.end = -(-(self.static + dynamic) // 1024) * 1024 if dynamic else -(-self.static // 16) * 16
        self.limit = self.static + dynamic
        count = m.blocks * self.end // self.grain
        self.bytes = np.full(m.blocks * self.end, 0xff, "u1")
        self.history = History(count, self.grain)
        self.writer, self.when, self.flight = np.zeros(count, int), np.zeros(count, int), np.zeros(count, bool)
        warps = -(-m.count // 32)
        self.clock, self.turn = np.zeros(warps, int), np.ones(warps, int)
        self.fenced, self.ordered = np.full(warps, -1), np.full(warps, -1)

    def meet(self, lanes):
        """These have passed a barrier."""
        warps = np.unique(lanes // 32)
        blocks = warps * 32 // self.m.threads
        for b in np.unique(blocks) if len(warps) != len(self.clock) else [None]:
            of = warps if b is None else warps[blocks == b]
            self.clock[of] = self.clock[of].max() + 1
        self.ordered[warps] = self.fenced[warps]
        self.turn[warps] += 1

    def places(self, a, size, block):
        if (a % size).any():
            raise Outside("%#x is no multiple of %d" % (int(a[a % size != 0][0]), size))
        if int(a.min()) < RESERVED or int(a.max()) + size > self.limit:
            raise Outside("%#x is outside of the %d bytes of shared memory" % (int(a.max()), self.limit - RESERVED))
        return a.astype("i8") + block * self.end

    def look(self, places, size, who):
        if self.flight[spread(places, size, self.grain)].any():
            raise Outside("what a copy brings is read before it has arrived")
        if self.history.look(places, size, who).min() < 0:
            raise Outside("shared memory that nobody has written")

    def change(self, places, size, who, arrives=False):
        """`arrives`: what a copy brings that was begun before."""
        g = spread(places, size, self.grain)
        if self.flight[g].any() and not arrives:
            raise Outside("a copy is under way to what is written")
        self.history.change(places, size, who)
        self.when[g], self.writer[g] = self.m.steps, ((who.block - self.m.block_of[0]) * self.m.per_block + who.warp % 32)[:, None]

    def begin_copy(self, places, size, who):
        g = spread(places, size, self.grain)
        self.change(places, size, who)
        self.flight[g] = True

    def end_copy(self, places, size, who):
        self.flight[spread(places, size, self.grain)] = False
        self.change(places, size, who, arrives=True)


def width(s):
    """Bytes of an access, at least."""
    if s.parts[0] in ("ldmatrix", "cp"):
        return 16
    kinds = [p for p in s.parts if p in parse.WIDTHS]
    return parse.WIDTHS[kinds[-1]] if kinds else 1


class Spaces:
    """Where a kernel's variables are, and accesses by threads."""

    def __init__(self, machine):
        self.m = machine
        shared, self.local_bytes, data, self.addresses, dynamic = RESERVED, 0, b"", {}, []
        for v in machine.kernel.variables:
            if v.space == "shared" and v.size == 0:
                dynamic.append(v)
            elif v.space == "shared":
                shared = -(-shared // v.align) * v.align
                self.addresses[v.name] = shared
                shared += v.size
            elif v.space == "local":
                self.local_bytes = -(-self.local_bytes // v.align) * v.align
                self.addresses[v.name] = self.local_bytes
                self.local_bytes += v.size
            else:
                data += bytes(-len(data) % max(v.align, 16))
                self.addresses[v.name] = DATA + len(data)
                data += v.data + bytes(v.size - len(v.data))
        for v in dynamic:
            shared = -(-shared // v.align) * v.align
            self.addresses[v.name] = shared
        for name, (at, _) in machine.kernel.params.items():
            self.addresses[name] = at
        self.local_bytes = -(-self.local_bytes // 16) * 16
        self.data = data
        self.shared = Shared(machine, shared)

    def start(self, shared, params, heap):
        self.heap, self.params = heap, np.frombuffer(params + bytes(-len(params) % 16), "u1")
        self.shared.start(shared)
        self.local = np.full(self.m.count * self.local_bytes, 0xcc, "u1")
        self.copies = []  # under way: (threads, their groups, places, what comes, from)
        self.groups = np.zeros(self.m.count, int)

    def address(self, o):
        """A function for the addresses of an operand [base + offset]."""
        if o.base is None:
            at = np.array([o.offset], "u8")
            return lambda: at
        if o.base in self.addresses:
            at = np.array([self.addresses[o.base] + o.offset], "u8")
            return lambda: at
        read = self.m.reader(o.base, "u%d" % self.m.widths[self.m.slots[o.base]])
        offset = np.uint64(o.offset & (1 << 64) - 1)
        return (lambda: read().astype("u8")) if not o.offset else lambda: read().astype("u8") + offset

    def resolve(self, space, a, size):
        """The space, its bytes, and where in these each access is."""
        if space is None:
            window = int(a[0]) // WINDOW_BYTES
            if (a // np.uint64(WINDOW_BYTES) != window).any() and not (a >= np.uint64(5 << 44)).all():
                raise Outside("generic addresses of several spaces")
            space = {1: "shared", 2: "local", 3: "param"}.get(window, "global")
            if space != "global":
                a = a - np.uint64(WINDOW[space])
        if (a % np.uint64(size)).any():
            raise Outside("%#x is no multiple of %d" % (int(a[a % np.uint64(size) != 0][0]), size))
        if space == "shared":
            return space, self.shared.bytes, self.shared.places(a, size, self.m.here(self.m.block))
        if space == "local":
            if int(a.max()) + size > self.local_bytes:
                raise Outside("%#x is outside of local memory" % int(a.max()))
            return space, self.local, a.astype("i8") + self.m.which() * self.local_bytes
        if space == "param":
            if int(a.max()) + size > self.m.kernel.param_bytes:
                raise Outside("%#x is outside of the parameters" % int(a.max()))
            return space, self.params, a.astype("i8")
        return space, self.heap.bytes, self.heap.places(a, size)

    # -------------------------------------------------------------- accesses

    def who(self, threads):
        warps = self.m.warp[threads]
        return Who(self.m.block_of[warps], self.m.name_of[warps], self.shared.clock[warps], self.m.block_of[warps] * self.m.threads + self.m.tid[threads], self.shared.turn[warps])

    def who_is_here(self):
        return self.who(self.m.which())

    def load(self, space, constant, strong, o, dtype, count):
        """A function for `count` arrays of numbers. Strong accesses may race with each other."""
        address, dtype, m = self.address(o), np.dtype(dtype), self.m
        size = dtype.itemsize * count

        def go():
            try:
                of, data, places = self.resolve(space, address(), size)
                if of == "shared":
                    if len(places) == 1:
                        places = np.repeat(places, len(m.which()))
                    self.shared.look(places, size, self.who_is_here())
                if of == "global" and not strong:
                    self.heap.history.look(np.broadcast_to(places, len(m.which())), size, self.who_is_here())
            except Outside as e:
                m.fault(e)
            if constant and of == "global":
                mark(self.heap.constant, places, size)
            items, first = data.view(dtype) if len(data) % dtype.itemsize == 0 else data[:len(data) // 16 * 16].view(dtype), places // dtype.itemsize
            return [items[first + k] for k in range(count)]
        return go

    def store(self, space, strong, o, dtype, values):
        address, dtype, m, statement = self.address(o), np.dtype(dtype), self.m, self.m.compiling
        size = dtype.itemsize * len(values)

        def go():
            try:
                of, data, places = self.resolve(space, address(), size)
                if of == "param":
                    raise Outside("a parameter is written")
                if len(places) == 1:
                    places = np.repeat(places, len(m.which()))
                if of == "shared":
                    self.shared.change(places, size, self.who_is_here())
                if of == "global" and not strong:
                    self.heap.history.change(places, size, self.who_is_here())
            except Outside as e:
                m.fault(e)
            if of == "global":
                mark(self.heap.stored, places, size)
                self.heap.log.append((m.kernel.code[statement], places, dtype.itemsize, len(values)))
            items, first = data[:len(data) // 16 * 16].view(dtype), places // dtype.itemsize
            for k, value in enumerate(values):
                items[first + k] = value()
        return go

    # -------------------------------------------------------------- copies that threads do not wait for

    def copy(self, to, source, count):
        """cp.async.cg of 16 bytes, of which `count` come and the others are zeros."""
        at, come, m = self.address(to), self.address(source), self.m

        def go():
            n = np.broadcast_to(count(), len(m.which())).astype(int)
            a, b = np.broadcast_to(at(), n.shape), np.broadcast_to(come(), n.shape)
            if not np.isin(n, (0, 16)).all():
                m.fault("%s bytes of a copy" % n)
            try:
                places = self.shared.places(a, 16, m.here(m.block))
                self.shared.begin_copy(places, 16, self.who_is_here())
                some = n == 16
                origin = np.full(len(n), -1)
                if (b % np.uint64(16)).any():
                    raise Outside("a copy from no multiple of 16 bytes")
                if some.any():
                    origin[some] = self.heap.places(b[some], 16)
                    self.heap.history.look(origin[some], 16, self.who(m.which()[some]))
            except Outside as e:
                m.fault(e)
            self.shared.bytes[places[:, None] + np.arange(16)] = 0xff  # rubbish until it has arrived
            self.copies.append([m.which().copy(), self.groups[m.which()].copy(), places, origin, self.taken(origin)])
        return go

    def taken(self, origin):
        data = np.zeros((len(origin), 16), "u1")
        some = origin >= 0
        data[some] = self.heap.bytes[origin[some][:, None] + np.arange(16)]
        return data

    def commit(self):
        self.groups[self.m.which()] += 1

    def wait(self, but):
        """All groups of these threads but the last `but`; None: what is of no group, too."""
        here = np.zeros(self.m.count, bool)
        here[self.m.which()] = True
        left = []
        for threads, groups, places, origin, data in self.copies:
            done = here[threads] & ((groups < self.groups[threads] - but) if but is not None else True)
            if done.any():
                if (self.taken(origin[done]) != data[done]).any():
                    self.m.fault("what a copy takes was changed meanwhile")
                try:
                    self.shared.end_copy(places[done], 16, self.who(threads[done]))
                except Outside as e:
                    self.m.fault(e)
                self.shared.bytes[places[done][:, None] + np.arange(16)] = data[done]
            if not done.all():
                left.append([x[~done] for x in (threads, groups, places, origin, data)])
        self.copies = left


def mark(flags, places, size):
    item = min(size, 8)
    flags[:len(flags) // 16 * 16].view(numbers.UNSIGNED[item])[spread(places, size, item)] = 0x0101010101010101 & (1 << 8 * item) - 1
