"""The one comparison of numbers: what is computed agrees with what is expected if |got - expected| <= atol + rtol * |expected|,
if both are the same infinity or both NaN. Shapes are compared, dtypes where the caller gives them, and nothing is broadcast."""
import numpy as np


class Differs(Exception):
    """Says which number of what differs, and how."""


def numbers(value):
    """A metric as recorded or reported, a number, "NaN" and the like, or nested lists, as an array of float64."""
    return np.array([numbers(v) for v in value]) if isinstance(value, list) else np.float64(value)


def text_of(x):
    """A number, or nested lists, as JSON can have it: what `numbers` reads."""
    if isinstance(x, (list, tuple)):
        return [text_of(y) for y in x]
    return "NaN" if x != x else "Infinity" if x == np.inf else "-Infinity" if x == -np.inf else x


def differences(got, want, rtol=0.0, atol=0.0, slack=0.0):
    """Where two arrays of one shape disagree; `slack` adds to the tolerance, element by element if it is an array."""
    got, want = np.asarray(got, "f8"), np.asarray(want, "f8")
    with np.errstate(invalid="ignore", over="ignore"):
        tolerance = atol + rtol * np.where(np.isfinite(want), np.abs(want), 0) + slack  # nothing is near an infinity
        return ~((np.abs(got - want) <= tolerance) | (got == want) | (np.isnan(got) & np.isnan(want)))


def difference(got, want, rtol=0.0, atol=0.0, slack=0.0):
    """None, or in words how two arrays differ: the first place, and how many there are."""
    got, want = np.asarray(got, "f8"), np.asarray(want, "f8")
    if got.shape != want.shape:
        return ": shape %s, expected %s" % (list(got.shape), list(want.shape))
    return in_words(got, want, differences(got, want, rtol, atol, slack))


def in_words(got, want, bad):
    """None, or the first place where `bad` says that the arrays differ, and how many there are."""
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return "%s: %.9g, expected %.9g (%d of %d differ)" % (list(at) if at else "", got[at], want[at], bad.sum(), bad.size)


def agree(what, got, want, rtol=0.0, atol=0.0, slack=0.0):
    """Raises Differs if they do not."""
    said = difference(got, want, rtol, atol, slack)
    if said:
        raise Differs(what + said)


def all_agree(got, want, rtol=0.0, atol=0.0, what="tensor "):
    """Every tensor of `want` is there and agrees."""
    for name, value in want.items():
        if name not in got:
            raise Differs("%s%s is not there; there are %s" % (what, name, ", ".join(sorted(got))[:200]))
        agree(what + name, got[name], value, rtol, atol)


def same_bits(what, got, want):
    """Maps of names to safetensors.Raw: the same names, dtypes, shapes and bits."""
    if set(got) != set(want):
        raise Differs("%s: names differ: %s" % (what, sorted(set(got) ^ set(want))[:5]))
    for name, value in want.items():
        if got[name][:2] != value[:2]:
            raise Differs("%s: %s is %s %s, expected %s %s" % (what, name, *got[name][:2], *value[:2]))
    different = [name for name in sorted(want) if got[name] != want[name]]
    if different:
        raise Differs("%s: other bits in %s" % (what, different[:5]))
