"""Every dtype that an object reads and writes, through samples/stepc.py: inputs and state of every form that NumPy has (strides,
order, byte order, read-only, at odd addresses), every path that reads, on one device and on a mesh. dtypes.py STEPC FOLDER"""
import json
import os
import subprocess
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "../../samples")]
import stepc
from refusal import refused

FLOATS = ("float16", "bfloat16", "float32")
KINDS = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float64", *FLOATS)
NARROWED = {"uint64": "uint32", "int64": "int32", "float64": "float32"}  # JAX without x64 computes with these


def document(**more):
    """Inputs go out as they came in; parameters of every floating-point dtype, whose gradient is 1 each."""
    shapes, total = {"row": [4, 3], "one": []}, " + ".join("sum(astype(params.%s_row_w, 'float32')) + astype(params.%s_one_w, 'float32')" % (k, k) for k in FLOATS)
    name = lambda k, form: "%s_%s" % (k, form)
    return {"stepc": 1, "name": "dtypes",
            "inputs": {name(k, f): {"shape": s, "dtype": k, **({"axes": ["batch", None]} if s else {})} for k in KINDS for f, s in shapes.items()},
            "model": {"type": "graph", "output": {name(k, f): name(k, f) for k in KINDS for f in shapes},
                      "nodes": [{"type": "param", "name": name(k, f) + "_w", "shape": s, "dtype": k} for k in FLOATS for f, s in shapes.items()]},
            "loss": "%s + 0 * sum(float32_row)" % total,
            "metrics": {"twice_" + name(k, f): "2 * params.%s_w" % name(k, f) for k in FLOATS for f in shapes},
            "optimizer": {"type": "sgd", "learning_rate": 1.0}, **more}


def values(kind, shape, seed):
    """Numbers that the dtype holds exactly, extreme ones among them; bfloat16 as its bits."""
    rng = np.random.default_rng(seed)
    if kind == "bool":
        return np.array(rng.integers(0, 2, shape), bool)
    if kind == "bfloat16":
        return np.array(rng.integers(0, 2**15, shape) % 0x7f80 | rng.integers(0, 2, shape) << 15, np.uint16)
    if "float" in kind:
        out = np.array(rng.normal(size=shape), NARROWED.get(kind, kind)).astype(kind)
        out.flat[0] = np.finfo(NARROWED.get(kind, kind)).max
        return out
    limits = np.iinfo(NARROWED.get(kind, kind))
    out = np.array(rng.integers(limits.min, limits.max, shape, np.int64), kind)
    out.flat[0], out.flat[-1] = limits.max, limits.min
    return out


def odd(a):
    """At an address that no element of more than one byte may have."""
    room = np.empty(a.nbytes + 1, np.uint8)
    out = np.ndarray(a.shape, a.dtype, room.data, 1)
    out[...] = a
    return out


def records(a):
    out = np.zeros(a.shape, [("before", "i1"), ("value", a.dtype), ("after", "i2")])
    out["value"] = a
    return out["value"]


def frozen(a):
    out = a.copy()
    out.flags.writeable = False
    return out


ANY = {"copy": lambda a: a.copy(), "read-only": frozen, "odd address": odd, "records": records,
       "other byte order": lambda a: a.astype(a.dtype.newbyteorder()), "records of the other byte order": lambda a: records(a.astype(a.dtype.newbyteorder())),
       "inside": lambda a: np.pad(a[None], [(1, 1)] + [(0, 0)] * a.ndim)[1]}
ROWS = {"Fortran": np.asfortranarray, "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1], "every second": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
        "transposed": lambda a: a.T.copy().T, "list": lambda a: a.tolist(), "matrix": np.asmatrix, "reversed every second": lambda a: np.repeat(a[::-1], 2, 0)[::-2]}
SAME = {"broadcast": lambda a: np.broadcast_to(a[:1], a.shape), "broadcast columns": lambda a: np.broadcast_to(a[:, :1], a.shape),
        "one element": lambda a: np.broadcast_to(a[0, 0], a.shape)}


def same(got, want, what):
    assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes(), (what, got, want)


def forms(a):
    yield from ((form, make(a)) for form, make in ANY.items())
    if a.ndim:
        yield from ((form, make(a)) for form, make in {**ROWS, **SAME}.items())


def lists_lose(kind, form):
    """A list of the bits of bfloat16 is one of integers; whether they are meant as numbers is not guessed."""
    return form == "list" and kind == "bfloat16"


def plays(path):
    with stepc.Step(path, threads=1) as m:
        m.init()
        batch = {n: values(n.split("_")[0], t.shape[:t.rank], i) for i, (n, t) in enumerate(m._inputs.items())}
        tried = 0
        for name, a in batch.items():
            kind = name.split("_")[0]
            for form, given in forms(a):
                what, given_batch = (path, name, form), {**batch, name: given}
                if lists_lose(kind, form):
                    refused(3, name, lambda: m.infer(**given_batch))
                    continue
                want = np.asarray(given).astype(a.dtype)
                want = want.astype(NARROWED.get(kind, want.dtype))
                out = m.infer(**given_batch)
                same(out["model." + name], want, what)
                for other, was in batch.items():  # nor is another one touched
                    if other != name:
                        same(out["model." + other], was.astype(NARROWED.get(other.split("_")[0], was.dtype)), (what, other))
                same(m.infer(output="model." + name, **given_batch), want, what)
                tried += 1
        for name in m.names(stepc.PARAM):
            kind = name.split("_")[0]
            tensor = values(kind, m[name].shape, 7)
            for form, given in forms(tensor):
                m[name] = np.zeros_like(tensor)
                if lists_lose(kind, form):
                    refused(3, name, lambda: m.__setitem__(name, given))
                    continue
                m[name] = given
                want = np.asarray(given).astype(tensor.dtype)
                same(m[name], want, (path, name, form))
                same(m.state()[name], want, (path, name, form))
                tried += 1
        for name in m.names(stepc.PARAM):
            m[name] = np.full(m[name].shape, 0.5, "f4")
        m.step(**batch)
        for name in m.names(stepc.PARAM):
            number = stepc.numbers if name.startswith("bfloat16") else np.asarray
            got = number(m[name]), number(m["twice_" + name[:-2]])
            assert (got[0] == -0.5).all() and (got[1] == 1).all(), (name, got)
        rows = {n: a for n, a in batch.items() if a.ndim}
        ones = {n: a for n, a in batch.items() if not a.ndim}
        more = {**{n: np.concatenate([a, a[:3]]) for n, a in rows.items()}, **ones}
        for n, a in rows.items():
            same(m.infer_rows(output="model." + n, **more), np.concatenate([a, a[:3]]).astype(NARROWED.get(n.split("_")[0], a.dtype)), ("infer_rows", n))
        whole = m.infer_rows(**{n: np.concatenate([a, a]) for n, a in rows.items()}, **ones)
        same(whole["model.int32_one"], np.array([batch["int32_one"]] * 2), "an output per batch")
        refused(3, "is one for all rows, and the last 3 of 7", lambda: m.infer_rows(output="model.int32_one", **more))
        refused(3, "no rows", lambda: m.infer_rows(**{n: a[:0] for n, a in rows.items()}, **ones))
        bad = {"a masked array": (1, np.ma.masked_array(batch["float32_row"], True)), "complex64": (3, batch["float32_row"].astype("c8")),
               "object": (3, batch["float32_row"].astype(object)), "datetime64": (3, np.zeros((4, 3), "M8[s]")), "<U3": (3, np.full((4, 3), "abc")),
               "|S0": (3, np.empty((4, 3), "S0")), "[0, 3]": (3, np.zeros((0, 3), "f4")),
               "does not fit into float32": (4, np.full((4, 3), 1e39)), "found int32": (3, np.zeros((4, 3), "i4")), "float128": (3, np.zeros((4, 3), np.longdouble))}
        for text, (status, given) in bad.items():
            refused(status, text if given.dtype.kind not in "S" else "an array of", lambda: m.infer(**{**batch, "float32_row": given}))
            refused(status, text if given.dtype.kind not in "S" else "an array of", lambda: m.__setitem__("float32_row_w", given))
        refused(3, "float128", lambda: m.infer(**{**batch, "float16_row": np.zeros((4, 3), np.longdouble)}))
        refused(3, "int64", lambda: m.infer(**{**batch, "float16_row": np.zeros((4, 3), np.int64)}))
        for kind, wider in (("int32", "int64"), ("uint8", "int64"), ("uint32", "int64"), ("int64", "uint64"), ("int8", "uint8"), ("uint16", "int8")):
            name, limits, wide = kind + "_row", np.iinfo(kind), np.iinfo(wider)
            fits = np.full((4, 3), 7, wider)
            same(m.infer(output="model." + name, **{**batch, name: fits}), fits.astype(NARROWED.get(kind, kind)), (kind, wider))
            for bad in (limits.max + 1, limits.min - 1):
                if wide.min <= bad <= wide.max:
                    refused(4, '"%s": %d does not fit into %s (1 of 12' % (name, bad, kind), lambda: m.infer(**{**batch, name: np.where(np.arange(12).reshape(4, 3) == 5, np.array(bad, wider), fits)}))
        exact = np.full((4, 3), 0.1)
        same(m.infer(output="model.float32_row", **{**batch, "float32_row": exact}), exact.astype("f4"), "rounded")
        return tried


def rounding():
    """Into 16 bits a number is rounded once: these lie beside the middle of two neighbours by less than float32 tells."""
    at = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 - 2.0**-40, -1 - 2.0**-8 - 2.0**-40, 1e300, -1e300, 1e-300, 2.0**-133, 2.0**-134,
                   2.0**-134 + 2.0**-180, 3.3895e38, np.nan, np.inf, -np.inf, -0.0])
    want = [0x3f81, 0x3f80, 0x3f82, 0x3f80, 0xbf81, 0x7f80, 0xff80, 0, 1, 0, 1, 0x7f7f, 0x7fc0, 0x7f80, 0xff80, 0x8000]
    assert stepc.bits(at).tolist() == want, [hex(b) for b in stepc.bits(at)]
    every = np.arange(65536).astype(np.uint16)
    finite = every[~np.isnan(stepc.numbers(every))]
    assert (stepc.bits(stepc.numbers(finite)) == finite).all()


tried = 0
for what, more in (("one", {}), ("mesh", {"mesh": {"axes": {"data": 2}}, "sharding": {"rules": [["batch", "data"]], "params": {"*_row_w": ["data", None], "**": []}}})):
    path = os.path.join(sys.argv[2], "dtypes_%s" % what)
    with open(path + ".json", "w") as f:
        json.dump(document(**more), f)
    subprocess.run([sys.argv[1], "compile", path + ".json", "-o", path + ".so"], check=True)
    tried += plays(path + ".so")
rounding()
print("dtypes in Python: %d forms of arrays, all checks passed" % tried)
