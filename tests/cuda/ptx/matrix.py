"""Products of matrices by a warp ("Matrix Fragments for mma.m16n8k16", "ldmatrix") and by four ("Asynchronous Warpgroup Level Matrix
Multiply-Accumulate Instructions"). In which order a unit sums is not said; here it is that of the steps, each sum rounded once."""
import numpy as np

from . import machine, memory, numbers

LANE = np.arange(32)
PAIR = np.arange(2)
# Of each register and of each of its two numbers, by lane: row and column.
A_ROW = np.stack([np.broadcast_to((LANE // 4)[:, None] + 8 * (r % 2), (32, 2)) for r in range(4)])
A_COLUMN = np.stack([(LANE % 4 * 2)[:, None] + PAIR + 8 * (r // 2) for r in range(4)])
B_ROW = np.stack([(LANE % 4 * 2)[:, None] + PAIR + 8 * r for r in range(2)])
B_COLUMN = np.stack([np.broadcast_to((LANE // 4)[:, None], (32, 2)) for r in range(2)])
C_ROW = np.stack([LANE // 4 + 8 * (i // 2) for i in range(4)])
C_COLUMN = np.stack([LANE % 4 * 2 + i % 2 for i in range(4)])
TRAIT = {"bf16": numbers.bf16_wide, "f16": lambda bits: bits.view("f2").astype("f4")}


def products(d, a, b):
    """d += a b, step by step: [..., rows, columns], [..., rows, steps], [..., steps, columns]."""
    for k in range(a.shape[-1]):
        p = a[..., :, k, None].astype("f8") * b[..., None, k, :]
        d = numbers.rounded(*numbers.two_sum(p, d.astype("f8")), np.dtype("f4"))
    return numbers.canonical(d)


def mma(m, s):
    kind = s.parts[-2]
    if s.op != "mma.sync.aligned.m16n8k16.row.col.f32.%s.%s.f32" % (kind, kind) or kind not in TRAIT:
        return None
    to, left, right, plus = s.operands
    write = [m.writer(o, "f4") for o in to]
    a, b, c = [m.reader(o, "u4") for o in left], [m.reader(o, "u4") for o in right], [m.reader(o, "f4") for o in plus]

    def matrix(read, rows, columns, row, column, warps):
        out = np.zeros((warps, rows, columns), "u2")
        for r, one in enumerate(read):
            bits = np.ascontiguousarray(np.broadcast_to(one(), 32 * warps)).view("u2").reshape(warps, 32, 2)
            out[:, row[r], column[r]] = bits
        return TRAIT[kind](out)

    def go():
        warps = len(m.whole_warps())
        x, y = matrix(a, 16, 16, A_ROW, A_COLUMN, warps), matrix(b, 16, 8, B_ROW, B_COLUMN, warps)
        d = np.zeros((warps, 16, 8), "f4")
        for i, one in enumerate(c):
            d[:, C_ROW[i], C_COLUMN[i]] = np.broadcast_to(one(), 32 * warps).reshape(warps, 32)
        d = products(d, x, y)
        for i, w in enumerate(write):
            w(d[:, C_ROW[i], C_COLUMN[i]].reshape(-1))
    return go


def ldmatrix(m, s):
    """Lanes 8t to 8t + 7 have the addresses of matrix t's rows; lane l gets of it two numbers of row l / 4, or, .trans, of column l / 4."""
    turned = "trans" in s.parts
    if s.op != "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16" % (".trans" if turned else ""):
        return None
    address, write = m.spaces.address(s.operands[1]), [m.writer(o, "u4") for o in s.operands[0]]

    def go():
        warps, shared = len(m.whole_warps()), m.spaces.shared
        try:
            places = shared.places(np.broadcast_to(address(), 32 * warps), 16, m.here(m.block))
            shared.look(places, 16, m.spaces.who_is_here()._replace(thread=np.full(32 * warps, memory.UNIT)))
        except memory.Outside as e:
            m.fault(e)
        tiles = shared.bytes.view("u2")[(places // 2)[:, None] + np.arange(8)].reshape(warps, 4, 8, 8)
        if turned:
            tiles = tiles.swapaxes(2, 3)
        for t, w in enumerate(write):
            w(np.ascontiguousarray(tiles[:, t]).reshape(warps * 32, 2).view("u4")[:, 0].copy())
    return go


# ---------------------------------------------------------------- by warpgroups

GROUP = 128
# "Matrix Fragments for wgmma.mma_async.m64nNk16": of sum i of a thread
THREAD = np.arange(GROUP)


def proxy_fence(m, s):
    """The unit sees what these warps have stored, once there was a barrier ("Async proxy")."""
    def go():
        m.spaces.shared.fenced[np.unique(m.which() // 32)] = m.steps
    return go


def by_group(m):
    """Whole warpgroups are here; one row of threads for each."""
    lanes = m.which()
    if len(lanes) % GROUP or (lanes.reshape(-1, GROUP)[:, 0] % GROUP != 0).any() or (lanes.reshape(-1, GROUP)[:, -1] - lanes.reshape(-1, GROUP)[:, 0] != GROUP - 1).any() or m.threads % GROUP:
        m.fault("a part of a warpgroup")
    return lanes.reshape(-1, GROUP)


def fence(m, s):
    """Registers that were used before may be those of products now ("wgmma.fence")."""
    def go():
        by_group(m)
        m.state["ordered"] = m.steps
    return go


def commit(m, s):
    def go():
        m.state["groups"] = m.state.get("groups", 0) + 1
        for p in m.state.get("products", []):
            p["group"] = p["group"] or m.state["groups"]
        by_group(m)
    return go


def wait(m, s):
    """Sums are the threads' again when no product is left."""
    but = int(s.operands[0])

    def go():
        by_group(m)
        shared, left = m.spaces.shared, []
        for p in m.state.get("products", []):
            if not p["group"]:
                m.fault("a product without wgmma.commit_group behind it")
            if len(p["lanes"]) != len(m.which()):
                raise machine.Parted("%s: other warpgroups than those of the products" % m.kernel)
            if p["group"] > m.state["groups"] - but:
                left.append(p)
            elif (shared.when[p["grains"]] > p["at"]).any():
                m.fault("shared memory was written while a product read it")
        m.state["products"] = left
        if left:
            return
        for slot, value in m.watched.items():
            m.registers[slot], m.written[slot] = value.view("u4"), m.steps
        m.watched.clear()
    return go


def element_places(m, descriptors, turned, rows, block):
    """Where the bytes of each of `rows` rows and 16 steps are: [groups, rows, 16], by the canonical layouts in units of 16 bytes ("Strides",
    "Canonical Layouts"): T = 8 numbers; W = 1, 8, 4, 2 units side by side, by the swizzle."""
    d = descriptors[:, None, None].astype("i8")
    start, leading, stride = (d & 0x3fff) << 4, (d >> 16 & 0x3fff) << 4, (d >> 32 & 0x3fff) << 4
    mode = descriptors >> np.uint64(62)
    if (descriptors >> np.uint64(49) & np.uint64(7)).any():
        m.fault("a base offset, which is not modelled")
    if (descriptors & np.uint64(0x3000c000c000c000 | 0x01f0 << 48)).any():
        m.fault("bits of a descriptor that have no meaning")
    w = np.array([1, 8, 4, 2])[mode.astype(int)][:, None, None]
    row, step = np.arange(rows)[None, :, None], np.arange(16)[None, None, :]
    if turned:  # neighbours are rows: ((W, n), (8, k)) : ((1, LBO), (W, SBO)); of no swizzle ((1, n), (8, k)) : ((X, SBO), (1, LBO))
        unit, within = row // 8, row % 8
        swizzled = unit % w * 16 + unit // w * leading + step % 8 * w * 16 + step // 8 * stride
        plain = unit * stride + step % 8 * 16 + step // 8 * leading
    else:  # ((8, n), 2) : ((W, SBO), 1); of no swizzle ((8, n), 2) : ((1, SBO), LBO)
        unit, within = step // 8, step % 8
        swizzled = row % 8 * w * 16 + row // 8 * stride + unit * 16
        plain = row % 8 * 16 + row // 8 * stride + unit * leading
    at = start + np.where(w == 1, plain, swizzled) + within * 2
    return (at ^ (at >> 7 & w - 1) << 4) + block[:, None, None] * m.spaces.shared.end


def product(m, s):
    """wgmma.mma_async: d += a b of 64 rows and 16 steps, as soon as this or as late as it is waited for; so that neither what it reads nor its
    sums may be touched meanwhile."""
    parts = s.op.split(".")
    kind = parts[-1]
    if not s.op.startswith("wgmma.mma_async.sync.aligned.m64n") or parts[-3:] != ["f32", kind, kind] or kind not in TRAIT or not parts[4].endswith("k16"):
        return None
    columns = int(parts[4][4:-3])
    sums, left, right, adds, scale_a, scale_b, turned_a, turned_b = s.operands
    if (scale_a, scale_b) != ("1", "1") or {turned_a, turned_b} - {"0", "1"} or len(sums) != columns // 2:
        return None
    slots = [m.slots[o] for o in sums]
    read = [m.reader(o, "f4") for o in sums]
    a, b, add = m.reader(left, "u8"), m.reader(right, "u8"), m.reader(adds, "?")
    i = np.arange(len(sums))
    row = THREAD[:, None] // 32 * 16 + THREAD[:, None] % 32 // 4 + i[None] // 2 % 2 * 8
    column = i[None] // 4 * 8 + THREAD[:, None] % 4 * 2 + i[None] % 2

    def operand(descriptor, turned, rows, groups):
        each = np.broadcast_to(descriptor, groups.size).reshape(groups.shape)
        if (each != each[:, :1]).any():
            m.fault("descriptors differ in a warpgroup")
        block = m.block[groups[:, 0]]
        places = element_places(m, each[:, 0], turned == "1", rows, block)
        shared = m.spaces.shared
        inside = places - block[:, None, None] * shared.end
        if (inside < memory.RESERVED).any() or (inside + 2 > shared.limit).any():
            m.fault("%#x is outside of shared memory" % int(inside.max()))
        flat = places.reshape(-1)
        try:
            for warp in range(4):  # each warp of the group may be the one that reads
                who = m.spaces.who(np.repeat(groups[:, 32 * warp], places[0].size))
                shared.look(flat // shared.grain * shared.grain, shared.grain, who._replace(thread=np.full(len(flat), memory.UNIT)))
        except memory.Outside as e:
            m.fault(e)
        grains = flat // shared.grain
        writer = shared.writer[grains]  # by number in this part of the launch
        if (shared.when[grains] >= shared.ordered[writer]).any():
            m.fault("what was stored without fence.proxy.async and a barrier behind it")
        return TRAIT[kind](shared.bytes.view("u2")[places // 2]), grains

    def go():
        groups = by_group(m)
        if len(m.which()) != m.count:
            raise machine.Parted("%s: by some of the warpgroups, which is not modelled" % m.kernel)
        if "ordered" not in m.state:
            m.fault("no wgmma.fence before it")
        d = np.zeros((len(groups), 64, columns), "f4")
        for k, slot in enumerate(slots):
            if slot in m.watched:
                value = m.watched[slot]
            else:
                if m.written.get(slot, -1) >= m.state["ordered"]:
                    m.fault("a sum was used behind the last wgmma.fence")
                value = read[k]()
            d[:, row[:, k], column[:, k]] = np.broadcast_to(value, groups.size).reshape(groups.shape)
        if not add().all():
            d[:] = 0
        x, x_grains = operand(a(), turned_a, 64, groups)
        y, y_grains = operand(b(), turned_b, columns, groups)
        d = products(d, x, y.swapaxes(1, 2))
        for k, slot in enumerate(slots):
            m.watched[slot] = d[:, row[:, k], column[:, k]].reshape(-1)
        m.state.setdefault("products", []).append({"group": None, "lanes": m.which(), "grains": np.concatenate([x_grains, y_grains]), "at": m.steps})
    return go
