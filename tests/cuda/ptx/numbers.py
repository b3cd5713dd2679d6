"""Arithmetic of PTX on arrays: what is rounded once, whichever way, and conversions ("Floating Point Instructions", "cvt"). NumPy
has neither a fused product and sum nor other roundings: an exact result is a float64 and what that leaves out, of which only the sign
counts: rounded to odd, a second rounding to fewer bits is the first one's (Boldo, Melquiond, "Emulation of FMA and correctly rounded
sums", 2008)."""
import numpy as np

QUIET = {np.dtype("f2"): 0x7fff, np.dtype("f4"): 0x7fffffff, np.dtype("f8"): 0x7fffffffffffffff}
UNSIGNED = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}


def canonical(x):
    """A result that is no number has one form, whatever the operands' ("NaN payload")."""
    lost = x != x
    if lost.any():
        x = np.array(x)
        x.view(UNSIGNED[x.itemsize])[lost] = QUIET[x.dtype]
    return x


def two_sum(a, b):
    """The nearest float64 and the rest."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a, b):
    """The same of a product (Dekker; no overflow in the halves, which the numbers of tests keep)."""
    p = a * b
    c, d = a * 134217729.0, b * 134217729.0
    ah, bh = c - (c - a), d - (d - b)
    al, bl = a - ah, b - bh
    return p, al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def to_odd(s, e):
    """s + e as a float64 whose last bit says that there was more."""
    fix = (e != 0) & np.isfinite(s) & np.isfinite(e)
    bits = np.array(s).view("i8")
    fix &= bits & 1 == 0
    if not fix.any():
        return s
    s, bits = np.array(s), None
    bits = s.view("i8")
    bits[fix] += np.where((e > 0) == (s > 0), 1, -1)[fix] if np.ndim(e) else 0
    return s


def rounded(s, e, dtype, mode="rn"):
    """s + e to a type, one way: nearest even, towards zero, down, up."""
    odd = to_odd(s, e)
    r = odd.astype(dtype)
    if mode == "rn":
        return r
    wide = r.astype("f8")
    over, under = (wide > odd), (wide < odd)
    if dtype == np.dtype("f8"):
        over, under = e < 0, e > 0
        r = np.array(s)
    down, up = {"rm": (over, None), "rp": (None, under), "rz": (over & (odd > 0), under & (odd < 0))}[mode]
    if down is not None:
        r = np.where(down, np.nextafter(r, r.dtype.type(-np.inf)), r)
    if up is not None:
        r = np.where(up, np.nextafter(r, r.dtype.type(np.inf)), r)
    return r


def fma(a, b, c, mode="rn"):
    dtype = np.result_type(a, b, c)
    if dtype == np.dtype("f8"):
        return fma64(a, b, c, mode)
    p = a.astype("f8") * b
    s, e = two_sum(p, c.astype("f8"))
    return canonical(rounded(s, e, dtype, mode))


def fma64(a, b, c, mode):
    if mode != "rn":
        raise NotImplementedError("fma." + mode + ".f64")
    with np.errstate(all="ignore"):
        uh, ul = two_product(a, b)
        th, tl = two_sum(c + 0.0 * uh, ul)
        vh, vl = two_sum(uh, th)
        z = to_odd(*two_sum(tl, vl))
        plain = a * b + c
        r = vh + z
        return canonical(np.where(np.isfinite(r) & np.isfinite(ul), r, plain))


def add(a, b, mode="rn"):
    if mode == "rn":
        return canonical(a + b)
    return canonical(rounded(*two_sum(a.astype("f8"), b.astype("f8")), a.dtype, mode))


def mul(a, b, mode="rn"):
    if mode == "rn":
        return canonical(a * b)
    if a.dtype == np.dtype("f8"):
        return canonical(rounded(*two_product(a, b), a.dtype, mode))
    return canonical(rounded(a.astype("f8") * b, np.zeros(np.shape(a)), a.dtype, mode))


def flushed(x):
    """.ftz: subnormal numbers are zeros of their sign."""
    return np.where(np.abs(x) < np.float32(2.0 ** -126), np.copysign(np.float32(0), x), x)


def approximate(f, x, ftz):
    """.approx: nearer to the function than hardware, within what the ISA allows."""
    x = flushed(x) if ftz else x
    r = f(x.astype("f8")).astype(x.dtype)
    return canonical(flushed(r) if ftz else r)


# ---------------------------------------------------------------- bfloat16, as the upper halves of float32

def bf16_wide(bits):
    return (bits.astype("u4") << np.uint32(16)).view("f4")


def bf16_bits(x):
    """Of a float32, or of a float64 (by a float32 that is rounded to odd)."""
    if x.dtype == np.dtype("f8"):
        r = x.astype("f4")
        wide, bits = r.astype("f8"), r.view("u4")
        fix = (wide != x) & np.isfinite(r) & (bits & 1 == 0)
        r = np.where(fix, np.nextafter(r, np.where(wide < x, np.float32(np.inf), np.float32(-np.inf))), r)
        x = np.asarray(r, "f4")
    bits = np.ascontiguousarray(x).view("u4")
    up = (bits + np.uint32(0x7fff) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(x != x, 0x7fff, up).astype("u2")


def bf16_fma(a, b, c):
    p = bf16_wide(a).astype("f8") * bf16_wide(b)
    return bf16_bits(to_odd(*two_sum(p, bf16_wide(c).astype("f8"))))


# ---------------------------------------------------------------- conversions

ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def to_integer(x, dtype, way):
    """Out of range: the nearest number; none: 0."""
    info = np.iinfo(dtype)
    r = ROUND[way](x.astype("f8"))
    low, high = r <= float(info.min), r >= float(info.max)
    safe = np.where(low | high | (r != r), 0, r).astype(dtype)
    return np.where(r != r, dtype.type(0), np.where(low, info.min, np.where(high, info.max, safe)).astype(dtype))


def integer_to_float(x, dtype, way):
    if way == "rn" or (dtype == np.dtype("f8") and x.itemsize < 8):
        return x.astype(dtype)
    r = x.astype(dtype)
    exact = [int(v) for v in np.ravel(x)]
    wide = [int(v) for v in np.ravel(r).astype("f8")]
    over = np.reshape([w > v for w, v in zip(wide, exact)], np.shape(x))
    under = np.reshape([w < v for w, v in zip(wide, exact)], np.shape(x))
    down = {"rm": over, "rz": over & (x > 0)}.get(way, np.zeros_like(over))
    up = {"rp": under, "rz": under & (x < 0)}.get(way, np.zeros_like(under))
    return np.where(down, np.nextafter(r, dtype.type(-np.inf)), np.where(up, np.nextafter(r, dtype.type(np.inf)), r))


def narrow_integer(x, dtype, saturate):
    if not saturate:
        return x.astype(dtype)
    info = np.iinfo(dtype)
    return np.clip(x.astype("i8") if x.dtype != np.dtype("u8") else x, max(info.min, -2 ** 63), info.max).astype(dtype)
