"""Random draws for fuzzers."""
import numpy as np


class Draws:
    """What is drawn from a seed: the same for the same seed."""

    def __init__(self, seed):
        self.r = np.random.default_rng(seed)

    def chance(self, p=0.5):
        return bool(self.r.random() < p)

    def one(self, items):
        items = list(items)
        return items[self.r.integers(len(items))]

    def n(self, low, high):
        return int(self.r.integers(low, high + 1))

    def uniform(self, low, high):
        return float("%.3g" % self.r.uniform(low, high))


def types_in(o):
    """Every type that is named in a document, or in a part of it."""
    if isinstance(o, dict):
        return ([o["type"]] if isinstance(o.get("type"), str) else []) + [n for v in o.values() for n in types_in(v)]
    return [n for v in o for n in types_in(v)] if isinstance(o, list) else []


