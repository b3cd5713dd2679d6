"""A row for each instruction: what it is called, on which types, with which modifiers, and what it does. The sections are those of the PTX
ISA's chapter "Instructions". What has no row is an error, so that nothing is taken for something else."""
import collections

import numpy as np

from . import machine, matrix, numbers, parse

Row = collections.namedtuple("Row", "make control")

TYPES = {"pred": "?", **{kind + str(bits): {"b": "u", "u": "u", "s": "i", "f": "f"}[kind] + str(bits // 8) for kind in "busf" for bits in (8, 16, 32, 64)}}
INTEGERS = {t for t in TYPES if t[0] in "us" and t[1:] != "8"}
FLOATS = {"f32", "f64"}
BITS = {"pred", "b16", "b32", "b64"}
ROUNDINGS = {"rn", "rz", "rm", "rp"}
ELEMENTWISE = {}  # name -> [(types, modifiers, function)]


def row(name, types, modifiers=(), options=()):
    """A function of numbers of the instruction's type; it is told the modifiers where there are any."""
    def put(function):
        ELEMENTWISE.setdefault(name, []).append((set(types), set(modifiers), function, dict(options)))
        return function
    return put


def way(mods):
    return next((x for x in mods if x in ROUNDINGS), "rn")


def u(x):
    return x.view(numbers.UNSIGNED[x.itemsize])


def as_type(x, like):
    return np.asarray(x).astype(like.dtype)


# ---------------------------------------------------------------- "Integer Arithmetic Instructions"

row("add", INTEGERS)(lambda a, b: a + b)
row("sub", INTEGERS)(lambda a, b: a - b)
row("neg", INTEGERS)(lambda a: as_type(0, a) - a)
row("abs", INTEGERS)(np.abs)
row("min", INTEGERS)(np.minimum)
row("max", INTEGERS)(np.maximum)
row("mul", INTEGERS, {"lo"})(lambda a, b, mods: a * b)


def high(a, b):
    """The upper half of the product; of 64 bits by halves."""
    if a.itemsize < 8:
        wide = np.dtype("%s%d" % (a.dtype.kind, 2 * a.itemsize))
        return (a.astype(wide) * b.astype(wide) >> wide.type(8 * a.itemsize)).astype(a.dtype)
    x, y, half, low = u(a), u(b), np.uint64(32), np.uint64(0xffffffff)
    cross = (x & low) * (y >> half) + ((x & low) * (y & low) >> half)
    other = (x >> half) * (y & low) + (cross & low)
    r = (x >> half) * (y >> half) + (cross >> half) + (other >> half)
    if a.dtype.kind == "i":
        r = r - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return r.view(a.dtype)


row("mul", INTEGERS, {"hi"})(lambda a, b, mods: high(a, b))
row("mad", INTEGERS, {"lo"})(lambda a, b, c, mods: a * b + c)
row("mad", INTEGERS, {"hi"})(lambda a, b, c, mods: high(a, b) + c)


def quotient(a, b):
    """Towards zero; by zero it is not defined, here all ones, as long as nobody looks."""
    by = np.where(b == 0, as_type(1, b), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, ~as_type(0, a), a // by)
    negative = (a < 0) != (by < 0)
    q = (np.abs(a).view(u(a).dtype) // np.abs(by).view(u(a).dtype)).view(a.dtype)
    return np.where(b == 0, as_type(-1, a), np.where(negative, as_type(0, a) - q, q))


row("div", INTEGERS)(quotient)
row("rem", INTEGERS)(lambda a, b: np.where(b == 0, a, a - quotient(a, b) * b))


def count_zeros(a):
    n = np.zeros(a.shape, "u4")
    for bit in range(8 * a.itemsize - 1, -1, -1):
        n = np.where((a >> a.dtype.type(bit)) != 0, np.maximum(n, bit + 1), n)
    return (8 * a.itemsize - n).astype("u4")


def count_ones(a):
    return np.unpackbits(np.ascontiguousarray(a).view("u1").reshape(len(a), -1), axis=1).sum(1).astype("u4")


row("clz", {"b32", "b64"}, options={"result": "u4"})(count_zeros)
row("popc", {"b32", "b64"}, options={"result": "u4"})(count_ones)


def field(a, at, bits):
    """bfe: what is beyond is zeros, or the sign."""
    width = 8 * a.itemsize
    at, bits = at & 0xff, bits & 0xff
    out = np.zeros(np.broadcast_shapes(a.shape, at.shape, bits.shape), u(a).dtype)
    x, kind = np.broadcast_to(u(a), out.shape), u(a).dtype.type
    at, bits = np.broadcast_to(at, out.shape), np.broadcast_to(bits, out.shape)
    top = np.minimum(at.astype("i8") + bits - 1, width - 1)
    sign = np.where(bits == 0, kind(0), x >> np.maximum(top, 0).astype(x.dtype) & kind(1)) if a.dtype.kind == "i" else np.zeros(out.shape, x.dtype)
    for i in range(width):
        here = at.astype("i8") + i
        bit = np.where((i < bits) & (here < width), x >> np.minimum(here, width - 1).astype(x.dtype) & kind(1), sign)
        out |= bit.astype(x.dtype) << kind(i)
    return out.view(a.dtype)


row("bfe", {"u32", "s32", "u64", "s64"}, options={"sources": (None, "u4", "u4")})(field)


def inserted(a, b, at, bits):
    """bfi: the lower bits of a at a place of b."""
    kind, width = a.dtype.type, 8 * a.itemsize
    at, bits = np.minimum(at & 0xff, width).astype("i8"), np.minimum(bits & 0xff, width).astype("i8")
    some = shifted_left(np.array([~kind(0)]), bits)
    mask = shifted_left(~some, at)
    return (b & ~mask) | (shifted_left(a, at) & mask)


def shifted_left(a, by):
    return np.where(by >= 8 * a.itemsize, a.dtype.type(0), a << np.minimum(by, 8 * a.itemsize - 1).astype(u(a).dtype))


def shifted_right(a, by):
    """The sign where there is one."""
    most = 8 * a.itemsize - 1
    r = a >> np.minimum(by, most).astype(a.dtype)
    return np.where(by > most, a >> a.dtype.type(most) if a.dtype.kind == "i" else a.dtype.type(0), r)


row("bfi", {"b32", "b64"}, options={"sources": (None, None, "u4", "u4")})(inserted)

# ---------------------------------------------------------------- "Logic and Shift Instructions"

row("and", BITS)(lambda a, b: a & b)
row("or", BITS)(lambda a, b: a | b)
row("xor", BITS)(lambda a, b: a ^ b)
row("not", BITS)(lambda a: ~a)
row("shl", {"b16", "b32", "b64"}, options={"sources": (None, "u4")})(shifted_left)
row("shr", {"b16", "b32", "b64"} | INTEGERS, options={"sources": (None, "u4")})(shifted_right)


def funnel(a, b, c, mods):
    """shf: 64 bits of which b is the upper half, by c modulo 32, or as far as 32."""
    by = (np.minimum(c, 32) if "clamp" in mods else c & 31).astype("u8")
    both = b.astype("u8") << np.uint64(32) | a
    return (both >> by if "r" in mods else (both << by) >> np.uint64(32)).astype("u4")


row("shf", {"b32"}, {"l", "r", "wrap", "clamp"})(funnel)


def logic(a, b, c, table):
    """lop3: a table of eight bits, by those of a, b and c."""
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
    for i in range(8):
        if int(table[0]) >> i & 1:
            out |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return out


row("lop3", {"b32"}, options={"sources": (None, None, None, "u4")})(logic)


def permuted(a, b, c):
    """prmt without a mode: each byte by four bits, of which the upper one spreads the sign."""
    both = b.astype("u8") << np.uint64(32) | a
    out = np.zeros(both.shape if both.shape[0] >= c.shape[0] else c.shape, "u4")
    for i in range(4):
        how = c >> np.uint32(4 * i) & np.uint32(15)
        byte = (both >> ((how & np.uint32(7)) * np.uint32(8)).astype("u8") & np.uint64(255)).astype("u4")
        byte = np.where(how & 8, np.where(byte & 128, np.uint32(255), np.uint32(0)), byte)
        out |= byte << np.uint32(8 * i)
    return out


row("prmt", {"b32"})(permuted)


def dots(a, b, c, lower):
    """dp2a: two halves of a by two bytes of b."""
    first = np.uint32(0 if lower else 16)
    return c + (a & np.uint32(0xffff)) * (b >> first & np.uint32(255)) + (a >> np.uint32(16)) * (b >> (first + np.uint32(8)) & np.uint32(255))


# ---------------------------------------------------------------- "Floating-Point Instructions"

row("add", FLOATS, ROUNDINGS)(lambda a, b, mods: numbers.add(a, b, way(mods)))
row("sub", FLOATS, ROUNDINGS)(lambda a, b, mods: numbers.add(a, -b, way(mods)))
row("mul", FLOATS, ROUNDINGS)(lambda a, b, mods: numbers.mul(a, b, way(mods)))
row("fma", FLOATS, ROUNDINGS)(lambda a, b, c, mods: numbers.fma(a, b, c, way(mods)))
row("fma", {"bf16"}, {"rn"})(lambda a, b, c, mods: numbers.bf16_fma(a, b, c))
row("div", FLOATS, {"rn"})(lambda a, b, mods: numbers.canonical(a / b))
row("rcp", FLOATS, {"rn"})(lambda a, mods: numbers.canonical(a.dtype.type(1) / a))
row("sqrt", FLOATS, {"rn"})(lambda a, mods: numbers.canonical(np.sqrt(a)))
row("neg", FLOATS)(lambda a: -a)
row("abs", FLOATS)(np.abs)
row("copysign", FLOATS)(lambda a, b: np.copysign(b, a))


def least(a, b, mods):
    """A number rather than none, or with .NaN none; -0 is less than 0."""
    r = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    lost = np.where(a != a, b, a)
    odd = (a != a) | (b != b)
    return numbers.canonical(np.where(odd, a + b if "NaN" in mods else lost, r))


row("min", FLOATS, {"NaN"})(least)
row("max", FLOATS, {"NaN"})(lambda a, b, mods: -least(-a, -b, mods) if "NaN" not in mods else numbers.canonical(-least(-a, -b, mods)))

for name, f in (("ex2", np.exp2), ("rcp", lambda x: 1 / x), ("rsqrt", lambda x: 1 / np.sqrt(x)), ("sqrt", np.sqrt), ("lg2", np.log2), ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh)):
    row(name, FLOATS, {"approx", "ftz"})(lambda a, mods, f=f: numbers.approximate(f, a, "ftz" in mods))
row("div", {"f32"}, {"approx", "full", "ftz"})(lambda a, b, mods: numbers.canonical((a.astype("f8") / b).astype("f4")))
TESTS = {"finite": np.isfinite, "infinite": np.isinf, "number": lambda a: a == a, "notanumber": lambda a: a != a}
row("testp", FLOATS, TESTS, {"result": "?"})(lambda a, mods: TESTS[mods[0]](a))

# ---------------------------------------------------------------- how such a row becomes a function


def elementwise(m, s):
    kind = s.parts[-1]
    mods = s.parts[1:-1]
    for types, modifiers, function, options in ELEMENTWISE.get(s.parts[0], ()):
        if kind in types and set(mods) <= modifiers and (mods or not {"lo", "hi", "approx"} & modifiers):
            break
    else:
        return None
    dtype = "u2" if kind == "bf16" else TYPES[kind]
    given = options.get("sources") or (None,) * (len(s.operands) - 1)
    read = [m.reader(o, of or dtype) for o, of in zip(s.operands[1:], given, strict=True)]
    write = m.writer(s.operands[0], options.get("result", dtype))
    more = {"mods": mods} if modifiers else {}
    return lambda: write(function(*(r() for r in read), **more))


# ---------------------------------------------------------------- others, each with a function that reads its statement


def wide(m, s):
    """mul.wide, mad.wide: the whole product."""
    dtype = np.dtype(TYPES[s.parts[-1]])
    twice = np.dtype("%s%d" % (dtype.kind, 2 * dtype.itemsize))
    a, b = (m.reader(o, dtype) for o in s.operands[1:3])
    c = m.reader(s.operands[3], twice) if s.parts[0] == "mad" else None
    write = m.writer(s.operands[0], twice)
    return lambda: write(a().astype(twice) * b().astype(twice) + c() if c else a().astype(twice) * b().astype(twice))


def dp2a(m, s):
    if s.op not in ("dp2a.lo.u32.u32", "dp2a.hi.u32.u32"):
        return None
    read, write = [m.reader(o, "u4") for o in s.operands[1:]], m.writer(s.operands[0], "u4")
    return lambda: write(dots(*(r() for r in read), s.parts[1] == "lo"))


ORDERED = {"eq": lambda a, b: a == b, "ne": lambda a, b: (a < b) | (a > b), "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
COMPARE = {**ORDERED, **{name + "u": lambda a, b, f=f: f(a, b) | (a != a) | (b != b) for name, f in ORDERED.items()}, "num": lambda a, b: (a == a) & (b == b),
           "nan": lambda a, b: (a != a) | (b != b), "lo": ORDERED["lt"], "ls": ORDERED["le"], "hi": ORDERED["gt"], "hs": ORDERED["ge"]}
JOIN = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def setp(m, s):
    """setp.cmp{.join}.type p|q, a, b{, c}"""
    compare, mods, dtype = COMPARE[s.parts[1]], s.parts[2:-1], TYPES[s.parts[-1]]
    if set(mods) - set(JOIN):
        return None
    a, b = (m.reader(o, dtype) for o in s.operands[1:3])
    c = m.reader(s.operands[3], "?") if len(s.operands) > 3 else None
    first, second = s.operands[0] if isinstance(s.operands[0], parse.Pair) else (s.operands[0], "_")
    p, q = m.writer(first, "?"), m.writer(second, "?")
    join = JOIN[mods[0]] if mods else None

    def go():
        r = compare(a(), b())
        p(join(r, c()) if join else r)
        q(join(~r, c()) if join else ~r)
    return go


def selp(m, s):
    dtype = TYPES[s.parts[-1]]
    a, b, p, write = m.reader(s.operands[1], dtype), m.reader(s.operands[2], dtype), m.reader(s.operands[3], "?"), m.writer(s.operands[0], dtype)
    return lambda: write(np.where(p(), a(), b()))


def slct(m, s):
    dtype, of = TYPES[s.parts[-2]], TYPES[s.parts[-1]]
    a, b, c, write = m.reader(s.operands[1], dtype), m.reader(s.operands[2], dtype), m.reader(s.operands[3], of), m.writer(s.operands[0], dtype)
    return lambda: write(np.where(c() >= 0, a(), b()))


def mov(m, s):
    """Also to and from a few parts of a register, the first one the lowest."""
    dtype = np.dtype(TYPES[s.parts[-1]])
    to, source = s.operands
    if isinstance(source, parse.Vector):
        part = numbers.UNSIGNED[dtype.itemsize // len(source)]
        read, write = [m.reader(o, part) for o in source], m.writer(to, dtype)

        def pack():
            shape = max(r().shape for r in read)
            write(np.stack([np.broadcast_to(r(), shape) for r in read], 1).copy().view(dtype)[:, 0].copy())
        return pack
    if isinstance(to, parse.Vector):
        part = numbers.UNSIGNED[dtype.itemsize // len(to)]
        read, write = m.reader(source, dtype), [m.writer(o, part) for o in to]

        def unpack():
            parts = np.ascontiguousarray(read()).view(part).reshape(-1, len(to))
            for k, w in enumerate(write):
                w(parts[:, k].copy())
        return unpack
    read, write = m.reader(source, dtype), m.writer(to, dtype)
    return lambda: write(np.array(read()))


def cvt(m, s):
    """ "cvt": one rounding, to and from; .sat: to the range of integers, of floats to 0 to 1."""
    mods = [p for p in s.parts[1:] if p not in TYPES and p not in ("bf16", "bf16x2", "f16x2")]
    kinds = [p for p in s.parts[1:] if p in TYPES or p in ("bf16", "bf16x2", "f16x2")]
    if set(mods) - ROUNDINGS - set(numbers.ROUND) - {"sat"} or len(kinds) != 2:
        return None
    to, of = kinds
    ways = [x for x in mods if x != "sat"]
    how, saturate = ways[0] if ways else None, "sat" in mods
    if to in ("bf16x2", "f16x2"):
        if how != "rn" or of != "f32" or saturate:
            return None
        upper, lower, write = m.reader(s.operands[1], "f4"), m.reader(s.operands[2], "f4"), m.writer(s.operands[0], "u4")
        bits = numbers.bf16_bits if to == "bf16x2" else half_bits
        return lambda: write(bits(upper()).astype("u4") << np.uint32(16) | bits(lower()))
    if to == "bf16" and of == "f32" and how == "rn":
        read, write = m.reader(s.operands[1], "f4"), m.writer(s.operands[0], "u2")
        return lambda: write(numbers.bf16_bits(read()))
    if "bf16" in kinds:
        return None
    a, b = np.dtype(TYPES[of]), np.dtype(TYPES[to])
    read, write = m.reader(s.operands[1], a), m.writer(s.operands[0], b)
    if a.kind in "iu" and b.kind in "iu":
        return lambda: write(numbers.narrow_integer(read(), b, saturate))
    if b.kind in "iu":
        return (lambda: write(numbers.to_integer(read(), b, how))) if how in numbers.ROUND else None
    if a.kind in "iu":
        return (lambda: write(numbers.integer_to_float(read(), b, how))) if how in ROUNDINGS else None
    if how in numbers.ROUND and a == b:
        change = lambda x: numbers.ROUND[how](x)
    elif b.itemsize < a.itemsize and how == "rn":
        change = lambda x: x.astype(b)
    elif b.itemsize < a.itemsize and how in ROUNDINGS:
        change = lambda x: numbers.rounded(x.astype("f8"), np.zeros(x.shape), b, how)
    elif how is None:
        change = lambda x: x.astype(b)
    else:
        return None
    clamp = (lambda x: np.where(x > 0, np.minimum(x, b.type(1)), b.type(0))) if saturate else lambda x: x
    return lambda: write(clamp(numbers.canonical(change(read()))))


def half_bits(x):
    return numbers.canonical(x.astype("f2")).view("u2")


SPACES = ("global", "shared", "local", "param", "const")
STRONG = {"volatile", "relaxed"}  # "Strong operations"
HINTS = {"volatile", "relaxed", "weak", "nc", "cta", "gpu", "L1", "no_allocate", "ca", "cg", "cs", "lu", "wb", "wt"}


def access(s):
    """The space (None: generic), how many, and the type."""
    space = next((p for p in s.parts[1:] if p in SPACES), None)
    few = next((int(p[1:]) for p in s.parts[1:] if p in ("v2", "v4")), 1)
    rest = set(s.parts[1:]) - set(SPACES) - HINTS - {"v2", "v4"}
    return (space, few, TYPES[s.parts[-1]]) if rest == {s.parts[-1]} and s.parts[-1] in TYPES else None


def ld(m, s):
    known = access(s)
    if not known:
        return None
    space, few, dtype = known
    to = s.operands[0] if isinstance(s.operands[0], parse.Vector) else (s.operands[0],)
    get = m.spaces.load("global" if space == "const" else space, "nc" in s.parts, bool(STRONG & set(s.parts)), s.operands[1], dtype, few)
    write = [m.writer(o, dtype) for o in to]

    def go():
        for w, v in zip(write, get(), strict=True):
            w(v)
    return go


def st(m, s):
    known = access(s)
    if not known:
        return None
    space, few, dtype = known
    values = s.operands[1] if isinstance(s.operands[1], parse.Vector) else (s.operands[1],)
    return m.spaces.store(space, bool(STRONG & set(s.parts)), s.operands[0], dtype, [m.reader(o, dtype) for o in values]) if len(values) == few else None


def cvta(m, s):
    """Between a space's addresses and generic ones; those of global memory are the same."""
    from . import memory
    space = next(p for p in s.parts if p in SPACES)
    window = np.uint64(memory.WINDOW.get(space, 0))
    read, write, back = m.reader(s.operands[1], "u8"), m.writer(s.operands[0], "u8"), "to" in s.parts

    def go():
        a = read()
        if back and window and (a // np.uint64(memory.WINDOW_BYTES) * np.uint64(memory.WINDOW_BYTES) != window).any():
            m.fault("no address of that space")
        write(a - window if back else a + window)
    return go


def cp_async(m, s):
    if s.op == "cp.async.cg.shared.global":
        to, source, count = s.operands[:3]
        if count != "16":
            return None
        return m.spaces.copy(to, source, m.reader(s.operands[3] if len(s.operands) > 3 else "16", "u4"))
    if s.op == "cp.async.commit_group":
        return m.spaces.commit
    if s.op == "cp.async.wait_group":
        return lambda: m.spaces.wait(int(s.operands[0]))
    return (lambda: m.spaces.wait(None)) if s.op == "cp.async.wait_all" else None


def branch(m, s):
    to = m.kernel.labels[s.operands[0]]
    return lambda: to


def nothing(m, s):
    return lambda: None


def bar(m, s):
    """bar.sync a{, b}; bar.red.or.pred p, a{, b}, q"""
    operands = list(s.operands)
    number = None
    if s.op == "bar.sync":
        number, meet, arrive = operands.pop(0), (lambda there: None), (lambda: None)
    elif s.op in ("bar.red.or.pred", "bar.red.and.pred"):
        write, given = m.writer(operands.pop(0), "?"), m.reader(operands.pop(-1), "?")
        number, join = operands.pop(0), np.any if s.parts[2] == "or" else np.all

        def arrive():
            m.state.setdefault(s.line, np.zeros(m.count, bool))[m.which()] = given()

        def meet(there):
            lanes, m.lanes = m.lanes, there
            for block in np.unique(m.block[there]):
                m.lanes = there[m.block[there] == block]
                write(np.full(len(m.lanes), join(m.state[s.line][m.lanes])))
            m.lanes = lanes
    else:
        return None
    of, count = m.reader(number, "u4"), m.reader(operands[0], "u4") if operands else None

    def go():
        arrive()
        return of(), count() if count else np.array([m.threads]), meet
    return go


def shfl(m, s):
    """shfl.sync.mode.b32 d|p, a, b, c, membermask: from the lane that b and c say, if it is one of the segment."""
    mode = s.parts[2]
    to, valid = s.operands[0] if isinstance(s.operands[0], parse.Pair) else (s.operands[0], "_")
    a, b, c, mask = (m.reader(o, "u4") for o in s.operands[1:])
    write, ok = m.writer(to, "u4"), m.writer(valid, "?")

    def go():
        whole(m, mask())
        n = len(m.which())
        value, b_, c_ = (np.broadcast_to(r(), n) for r in (a, b, c))
        lane, clamp, segment = m.here(m.lane).astype("i8"), (c_ & 31).astype("i8"), (c_ >> np.uint32(8) & 31).astype("i8")
        by, most = (b_ & 31).astype("i8"), None
        least = lane & segment
        most = least | (clamp & ~segment & 31)
        j = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": least | (by & ~segment & 31)}[mode]
        inside = j >= most if mode == "up" else j <= most
        j = np.where(inside, j, lane)
        ok(inside)
        write(value[np.arange(n) - lane + j].copy())
    return go


def whole(m, mask):
    if (mask != 0xffffffff).any():
        m.fault("a part of a warp is meant")


def vote(m, s):
    """vote.sync.{any, all, ballot}"""
    mode, kind = s.parts[2], s.parts[3]
    p, mask, write = m.reader(s.operands[1], "?"), m.reader(s.operands[2], "u4"), m.writer(s.operands[0], TYPES[kind])

    def go():
        whole(m, mask())
        given = np.broadcast_to(p(), len(m.which())).reshape(-1, machine.WARP)
        if mode == "ballot":
            r = (given.astype("u8") << np.arange(32, dtype="u8")).sum(1).astype("u4")
        else:
            r = {"any": given.any, "all": given.all}[mode](1)
        write(np.repeat(r, machine.WARP))
    return go


def warp_barrier(m, s):
    mask = m.reader(s.operands[0], "u4")

    def go():
        whole(m, mask())
        m.spaces.shared.turn[np.unique(m.here(m.warp))] += 1
    return go


OTHERS = {
    "setp": (setp, None), "selp": (selp, None), "slct": (slct, None), "mov": (mov, None), "cvt": (cvt, None), "ld": (ld, None), "st": (st, None), "cvta": (cvta, None), "cp": (cp_async, None),
    "dp2a": (dp2a, None), "bra": (branch, machine.jump), "ret": (nothing, machine.end), "exit": (nothing, machine.end), "bar": (bar, machine.barrier),
    "shfl": (shfl, machine.together), "vote": (vote, machine.together), "ldmatrix": (matrix.ldmatrix, machine.together), "mma": (matrix.mma, machine.together),
}
EXACT = {
    "bar.warp.sync": (warp_barrier, machine.together), "membar.cta": (nothing, None), "membar.gl": (nothing, None), "fence.proxy.async.shared::cta": (matrix.proxy_fence, machine.together),
    "wgmma.fence.sync.aligned": (matrix.fence, machine.together), "wgmma.commit_group.sync.aligned": (matrix.commit, machine.together),
    "wgmma.wait_group.sync.aligned": (matrix.wait, machine.together),
}


def checked(make):
    """A row that does not know the statement's modifiers is none."""
    def made(m, s):
        act = make(m, s)
        if act is None:
            raise machine.Fault("%s: line %d: unknown instruction: %s" % (m.kernel, s.line, s.text))
        return act
    return made


def find(s):
    if s.op in EXACT:
        make, control = EXACT[s.op]
    elif s.parts[0] in ("mul", "mad") and "wide" in s.parts:
        make, control = wide, None
    elif s.parts[0] in OTHERS:
        make, control = OTHERS[s.parts[0]]
    elif s.op.startswith("wgmma.mma_async"):
        make, control = matrix.product, machine.together
    elif s.parts[0] in ELEMENTWISE:
        make, control = elementwise, None
    else:
        return None
    return Row(checked(make), control)
