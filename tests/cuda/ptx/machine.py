"""Threads of some blocks, all at once: a register is an array with a number per thread, an instruction goes over those that are at it.
Of all threads those that are behind go on first, so that what has parted meets again; what needs a whole warp, or a block, waits for it
("Independent Thread Scheduling", "bar", "barrier", "bar.warp.sync"). What is left waiting had diverged, or has no partner."""
import heapq

import numpy as np

from . import memory, numbers, parse

WARP = 32
MOST_STEPS = 4_000_000
SPECIAL = {"%tid.x": "tid", "%ctaid.x": "ctaid", "%ntid.x": "ntid", "%nctaid.x": "nctaid", "%laneid": "lane", "%tid.y": "zero", "%tid.z": "zero", "%ctaid.y": "zero", "%ctaid.z": "zero"}


class Fault(Exception):
    """What hardware leaves undefined, or this does not know; with the statement."""


class Parted(Fault):
    """Of several blocks some are elsewhere, where this goes over all: they have to run one after the other."""


class Machine:
    """A kernel, ready to run: `code` has a function for each statement."""

    def __init__(self, kernel, instructions):
        self.kernel = kernel
        self.slots = {name: i for i, name in enumerate(kernel.registers)}
        self.widths = list(kernel.registers.values())
        self.names = list(kernel.registers)
        self.at, self.lanes, self.steps = 0, None, 0
        self.watched = {}  # registers of products that are under way: slot -> what they will hold
        self.written = {}  # slot -> step
        self.spaces = memory.Spaces(self)
        self.state = {}
        self.code = []
        for i, s in enumerate(kernel.code):
            try:
                self.code.append(self.compiled(i, s, instructions))
            except Fault:
                raise
            except Exception as e:  # an operand that no row expects
                raise Fault("%s: line %d: %s (%s)" % (kernel, s.line, s.text, e)) from e

    # -------------------------------------------------------------- operands

    def reader(self, o, dtype):
        """A function for an operand's numbers of the threads that are at the statement: one each, or one for all."""
        dtype = np.dtype(dtype)
        if isinstance(o, parse.Not):
            inner = self.reader(str(o), "?")
            return lambda: ~inner()
        if o in self.slots:
            return self.register_reader(self.slots[o], dtype)
        if o in SPECIAL:
            name = SPECIAL[o]
            return lambda: self.here(getattr(self, name)).astype(dtype)
        if o in self.spaces.addresses:
            value = np.array([self.spaces.addresses[o]], "u8").astype(dtype)
        elif dtype == np.dtype("?"):
            value = np.array([parse.number(o) != 0])
        else:
            value = np.array([parse.number(o, dtype.itemsize)], numbers.UNSIGNED[dtype.itemsize]).view(dtype)
        return lambda: value

    def register_reader(self, slot, dtype):
        width, wanted, watched = self.widths[slot], dtype.itemsize, self.watched

        def read():
            a = self.registers[slot]
            if a is None:
                self.fault("%s holds nothing" % self.names[slot])
            if watched and slot in watched:
                self.fault("%s is of a product under way" % self.names[slot])
            a = a if self.lanes is None else a[self.lanes]
            if dtype.kind == "b":
                return a
            return a.view(dtype) if width == wanted else a.astype(numbers.UNSIGNED[wanted]).view(dtype)
        if dtype.kind != "b" and width < wanted:
            raise Fault("%s: line %d: a register of %d bytes for %d" % (self.kernel, self.kernel.code[self.compiling].line, width, wanted))
        return read

    def writer(self, o, dtype):
        """A function that puts numbers, one each or one for all, into an operand; wider ones are extended."""
        if o == "_":
            return lambda v: None
        slot, dtype = self.slots[o], np.dtype(dtype)
        unsigned = np.dtype("?") if dtype.kind == "b" else numbers.UNSIGNED[self.widths[slot]]
        signed = np.dtype("i%d" % unsigned.itemsize)
        if self.widths[slot] < dtype.itemsize:
            raise Fault("%s: line %d: %d bytes into a register of %d" % (self.kernel, self.kernel.code[self.compiling].line, dtype.itemsize, self.widths[slot]))
        wider = self.widths[slot] > dtype.itemsize
        watched, written = self.watched, self.written

        def write(v):
            if watched and slot in watched:
                self.fault("%s is of a product under way" % self.names[slot])
            written[slot] = self.steps
            if v.dtype != dtype:
                self.fault("a result of %s, not %s" % (v.dtype, dtype))
            if wider:
                v = v.astype(signed if dtype.kind == "i" else unsigned)
            v = v.view(unsigned)
            if self.lanes is None:
                if v.shape[0] != self.count:
                    v = np.repeat(v, self.count)
                self.registers[slot] = v
                return
            a = self.registers[slot]
            if a is None:  # of the other threads nothing is known
                a = np.zeros(self.count, unsigned) if unsigned.kind == "b" else np.full(self.count, np.iinfo(unsigned).max // 3 * 2, unsigned)
            else:
                a = a.copy()
            a[self.lanes] = v
            self.registers[slot] = a
        return write

    def here(self, a):
        return a if self.lanes is None else a[self.lanes]

    def which(self):
        """The threads that are at the statement."""
        return self.everyone if self.lanes is None else self.lanes

    def whole_warps(self):
        """The same as an array of warps; none of them lacks a thread."""
        return self.which().reshape(-1, WARP)

    # -------------------------------------------------------------- statements

    def compiled(self, i, s, instructions):
        self.compiling = i
        row = instructions.find(s)
        if row is None:
            raise Fault("%s: line %d: unknown instruction: %s" % (self.kernel, s.line, s.text))
        act = row.make(self, s)
        guard = self.reader(s.guard, "?") if s.guard else None
        if guard and s.negated:
            inner = guard
            guard = lambda: ~inner()
        if row.control:
            return row.control, act, guard
        if not guard:
            return None, act, None

        def guarded():
            p, lanes = guard(), self.lanes
            if p.all():
                act()
            elif p.any():
                self.lanes = self.which()[p]
                act()
                self.lanes = lanes
        return None, guarded, None

    def fault(self, why):
        s = self.kernel.code[self.at]
        raise Fault("%s: line %d: %s: %s" % (self.kernel, s.line, s.text, why))

    # -------------------------------------------------------------- a run

    def start(self, first, blocks, grid, threads, shared, params, heap):
        """The threads of `blocks` blocks from `first` on."""
        self.count, self.blocks, self.threads = blocks * threads, blocks, threads
        self.everyone = np.arange(self.count)
        self.registers = [None] * len(self.widths)
        self.watched.clear()
        self.written.clear()
        u4 = lambda x: x.astype("u4")
        self.tid, self.block = u4(self.everyone % threads), self.everyone // threads
        self.ctaid, self.lane, self.warp = u4(self.block + first), u4(self.tid % WARP), self.everyone // WARP
        self.ntid, self.nctaid, self.zero = np.full(self.count, threads, "u4"), np.full(self.count, grid, "u4"), np.zeros(self.count, "u4")
        self.per_block = per_block = -(-threads // WARP)
        if per_block > 32:
            raise Fault("%s: %d threads" % (self.kernel, threads))
        warps = np.arange(-(-self.count // WARP))
        self.block_of = warps // per_block + first  # of a warp: its block in the grid, and a number of its own
        self.name_of = self.block_of * 32 + warps % per_block
        self.state = {}
        self.spaces.start(shared, params, heap)
        self.places, self.order, self.pool = {}, [], {}
        self.at_barrier = np.full(self.count, -1)  # the number that a thread waits at
        self.behind = np.zeros(self.count, int)  # and where it goes on
        self.put(0, self.everyone)

    def put(self, at, lanes):
        if len(lanes) == 0:
            return
        if at not in self.places:
            self.places[at] = []
            heapq.heappush(self.order, at)
        self.places[at].append(lanes)

    def run(self):
        code = self.code
        with np.errstate(all="ignore"):
            while self.order:
                at = heapq.heappop(self.order)
                groups = self.places.pop(at)
                lanes = groups[0] if len(groups) == 1 else np.sort(np.concatenate(groups))
                limit = self.order[0] if self.order else len(code)
                self.lanes = None if len(lanes) == self.count else lanes
                while True:
                    self.steps += 1
                    self.at = at
                    control, act, guard = code[at]
                    if control:
                        control(self, at, lanes, act, guard)
                        break
                    act()
                    at += 1
                    if at >= limit:
                        self.put(at, lanes)
                        break
                if self.steps > MOST_STEPS:
                    self.fault("no end after %d steps" % self.steps)
        left = [self.kernel.code[at] for at, lanes in self.pool.items() if len(lanes)]
        if left:
            raise Fault("%s: line %d: %s: by a part of a warp" % (self.kernel, left[0].line, left[0].text))
        if (self.at_barrier >= 0).any():
            s = self.kernel.code[self.behind[self.at_barrier >= 0][0] - 1]
            raise Fault("%s: line %d: %s: %d threads wait for others that do not come" % (self.kernel, s.line, s.text, (self.at_barrier >= 0).sum()))
        if self.spaces.copies:
            raise Fault("%s: a copy that nobody waits for" % self.kernel)
        if self.watched:
            raise Fault("%s: a product that nobody waits for" % self.kernel)

    # -------------------------------------------------------------- kinds of control

    def taken(self, lanes, guard):
        """Those that a guard lets through, and the others."""
        if not guard:
            return lanes, lanes[:0]
        p = guard()
        if p.shape[0] != len(lanes):
            p = np.repeat(p, len(lanes))
        return lanes[p], lanes[~p]


def jump(m, at, lanes, act, guard):
    """act() gives the place to go to."""
    go, stay = m.taken(lanes, guard)
    m.put(at + 1, stay)
    m.put(act(), go)


def end(m, at, lanes, act, guard):
    _, stay = m.taken(lanes, guard)
    m.put(at + 1, stay)


def together(m, at, lanes, act, guard):
    """By whole warps: those that have all of their threads here go on."""
    go, stay = m.taken(lanes, guard)
    m.put(at + 1, stay)
    waiting = m.pool.pop(at, None)
    if waiting is not None and len(waiting):
        go = np.sort(np.concatenate([waiting, go]))
    if len(go) != m.count or m.count % WARP:
        here = np.bincount(go // WARP, minlength=-(-m.count // WARP))
        whole = here[go // WARP] == WARP
        if not whole.all():
            m.pool[at] = go[~whole]
            go = go[whole]
    if len(go):
        m.lanes = None if len(go) == m.count else go
        act()
        m.put(at + 1, go)


def barrier(m, at, lanes, act, guard):
    """act() gives the barrier's number and how many threads it is of, one each, and what happens when all are there."""
    go, stay = m.taken(lanes, guard)
    m.put(at + 1, stay)
    m.lanes = None if len(go) == m.count else go
    number, wanted, meet = act()
    if len(go) == m.count and m.count % WARP == 0 and (number == number[0]).all() and (wanted == m.threads).all():
        m.spaces.shared.meet(go)
        meet(go)
        m.put(at + 1, go)
        return
    number, wanted = np.broadcast_to(number, len(go)).astype(int), np.broadcast_to(wanted, len(go)).astype(int)
    if ((number < 0) | (number > 15)).any():
        m.fault("a barrier that there is not")
    if ((wanted % WARP != 0) | (wanted > m.threads) | (wanted < WARP)).any():
        m.fault("a barrier of %s threads" % wanted.max())
    m.at_barrier[go], m.behind[go] = number, at + 1
    m.state.setdefault("wanted", np.zeros(m.count, int))[go] = wanted
    keys = np.where(m.at_barrier >= 0, m.block * 16 + m.at_barrier, -1)
    for key in np.unique(keys[go]):
        there = np.flatnonzero(keys == key)
        if len(there) < m.state["wanted"][there].min():
            continue
        if len(set(m.state["wanted"][there])) > 1 or len(there) != m.state["wanted"][there[0]]:
            m.fault("%d threads at a barrier of %s" % (len(there), sorted(set(m.state["wanted"][there]))))
        if np.bincount(there // WARP).max() != WARP or len(there) != WARP * len(np.unique(there // WARP)):
            m.fault("a part of a warp is at a barrier")
        m.at_barrier[there] = -1
        m.spaces.shared.meet(there)
        meet(there)
        for place in np.unique(m.behind[there]):
            m.put(place, there[m.behind[there] == place])
