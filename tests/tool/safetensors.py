"""Safetensors files as maps of names to tensors, read and written whole: 8 bytes with the length of a JSON header (little
endian), the header with dtype, shape and place of each tensor, the data. Of samples/stepc.py it is independent, so that
neither hides a mistake of the other."""
import collections
import json
import struct

import numpy as np

NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4",
         "U16": "<u2", "U8": "u1", "BOOL": "?"}
NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
         "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL"}
BYTES = {"BF16": 2, **{name: np.dtype(kind).itemsize for name, kind in NUMPY.items()}}

# A tensor as it stands in a file: the name of its dtype, a list of extents, bytes. Two are equal if their bits are.
Raw = collections.namedtuple("Raw", "dtype shape data")


def header(path):
    """name -> {"dtype", "shape", "data_offsets"}, and what else the header says."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        return json.loads(f.read(n))


def raw(path):
    """name -> Raw, in the order of the file."""
    with open(path, "rb") as f:
        text = f.read()
    (n,) = struct.unpack("<Q", text[:8])
    out = {}
    for name, t in json.loads(text[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            out[name] = Raw(t["dtype"], t["shape"], text[8 + n + begin:8 + n + end])
    return out


def array(t):
    """A Raw as an array of its own dtype; bfloat16, which NumPy does not have, as float32."""
    if t.dtype == "BF16":
        values = (np.frombuffer(t.data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        values = np.frombuffer(t.data, NUMPY[t.dtype])
    return values.reshape(t.shape)


def read(path):
    """name -> array."""
    return {name: array(t) for name, t in raw(path).items()}


def wide(path):
    """name -> array of float64."""
    return {name: array(t).astype("f8") for name, t in raw(path).items()}


def of_array(value):
    """An array, or anything that is one for NumPy, as Raw."""
    value = np.asarray(value)
    name = NAMES[value.dtype.name]
    return Raw(name, list(value.shape), np.ascontiguousarray(value, NUMPY.get(name)).tobytes())


def bfloat16(value):
    """An array as Raw of the nearest numbers of bfloat16, ties to even; NaN is not asked for."""
    bits = np.ascontiguousarray(value, "<f4").view("<u4")
    return Raw("BF16", list(np.shape(value)), ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes())


def write(path, tensors):
    """A file of the tensors, arrays or Raw, in the order given."""
    entries, at, data = {}, 0, []
    for name, t in tensors.items():
        t = t if isinstance(t, Raw) else of_array(t)
        entries[name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": [at, at + len(t.data)]}
        at += len(t.data)
        data.append(t.data)
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))
