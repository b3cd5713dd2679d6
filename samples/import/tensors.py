"""safetensors files with NumPy and nothing else: tensors are read one at a time, as they lie in the file, and written the same way.

    f = tensors.open_model("model.safetensors")     # also a folder, or a model.safetensors.index.json with its parts
    f.names(), f.dtype(name), f.shape(name), f.array(name)
    tensors.write("out.safetensors", [("name", "F32", (2, 3), lambda: array), ...])

bfloat16 is held as its bits (uint16) with the dtype "BF16"; `widen` and `narrow` go to float32 and back.
"""
import contextlib
import json
import math
import os
import signal
import struct
import sys
import zlib

import numpy as np

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
          "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}

SUM = b'{"__metadata__":{"stepc.crc32":"'  # then 8 digits: the CRC-32 of all that follows


class Bad(Exception):
    """What a user can mend: the message names the file."""


def _unique(pairs):
    """The members of an object, of which none may hide another."""
    found = {}
    for key, value in pairs:
        if key in found:
            raise ValueError("the key \"%s\" is there twice" % key)
        found[key] = value
    return found


def json_object(path, text):
    """JSON text of a file that has to be an object."""
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as e:
        raise Bad("%s: %s" % (path, e))
    if type(found) is not dict:
        raise Bad("%s: expected an object of JSON, found %s" % (path, json.dumps(found)[:40]))
    return found


def read_json(path):
    with open(path, "rb") as f:
        return json_object(path, f.read())


def _naturals(value):
    return type(value) is list and all(type(n) is int and n >= 0 for n in value)


class _File:
    def __init__(self, path):
        try:
            size = os.path.getsize(path)
            with open(path, "rb") as f:
                length = struct.unpack("<Q", f.read(8))[0]
                if length > size - 8:
                    raise ValueError("the header is longer than the file")
                text = f.read(length)
                header = json_object(path, text)
                if text.startswith(SUM) and text[len(SUM):len(SUM) + 8] != b"00000000":  # as stepc writes it, but into pipes
                    f.seek(8 + len(SUM) + 8)
                    crc = 0
                    while part := f.read(1 << 20):
                        crc = zlib.crc32(part, crc)
                    if b"%08x" % crc != text[len(SUM):len(SUM) + 8]:
                        raise Bad("%s: damaged: its bytes do not have its checksum" % path)
        except OSError as e:
            raise Bad("%s: %s" % (path, e.strerror))
        except (ValueError, struct.error) as e:
            raise Bad("%s is no safetensors file: %s" % (path, e))
        self.path, self.metadata = path, header.pop("__metadata__", None)
        self.tensors = header
        if self.metadata is not None and (type(self.metadata) is not dict or not all(type(text) is str for text in self.metadata.values())):
            raise Bad("%s: \"__metadata__\" is no object of texts" % path)
        for name, t in header.items():
            if type(t) is not dict or type(t.get("dtype")) is not str or not _naturals(t.get("shape")) or not _naturals(t.get("data_offsets")) or len(t["data_offsets"]) != 2:
                raise Bad("%s: \"%s\": expected dtype, shape and data_offsets, found %s" % (path, name, json.dumps(t)[:200]))
            if t["dtype"] not in DTYPES:
                raise Bad("%s: \"%s\" has the dtype %s, which is not supported" % (path, name, t["dtype"]))
            begin, end = t["data_offsets"]
            if end - begin != np.dtype(DTYPES[t["dtype"]]).itemsize * math.prod(t["shape"]):
                raise Bad("%s: the range of \"%s\" does not fit its shape or the file" % (path, name))
        at = 0  # as the format has it: no byte belongs to two tensors, or to none
        for begin, end, name in sorted((*t["data_offsets"], name) for name, t in header.items()):
            if begin != at:
                raise Bad("%s: \"%s\" begins at byte %d of the data, where %d is expected" % (path, name, begin, at))
            at = end
        if at != size - 8 - length:
            raise Bad("%s: its tensors end at byte %d of %d of the data" % (path, at, size - 8 - length))
        self.data = np.memmap(path, np.uint8, "r", offset=8 + length) if size > 8 + length else np.zeros(0, np.uint8)


class Model:
    """The tensors of one file, or of several that an index puts together."""

    def __init__(self, files, index=None):
        self.files, self.index = files, index
        self.where = {}
        for f in files:
            for name in f.tensors:
                if name in self.where:
                    raise Bad("\"%s\" is in %s and in %s" % (name, self.where[name].path, f.path))
                self.where[name] = f

    def names(self):
        return list(self.where)

    def dtype(self, name):
        return self.where[name].tensors[name]["dtype"]

    def shape(self, name):
        return tuple(self.where[name].tensors[name]["shape"])

    def array(self, name):
        f = self.where[name]
        begin, end = f.tensors[name]["data_offsets"]
        return f.data[begin:end].view(DTYPES[self.dtype(name)]).reshape(self.shape(name))


def open_model(path):
    if os.path.isdir(path):
        for name in ("model.safetensors.index.json", "model.safetensors"):
            if os.path.exists(os.path.join(path, name)):
                return open_model(os.path.join(path, name))
        raise Bad("%s holds neither model.safetensors nor model.safetensors.index.json" % path)
    if path.endswith(".json"):
        index, folder = read_json(path), os.path.dirname(path)
        places = index.get("weight_map")
        if type(places) is not dict or not places or not all(type(p) is str and p == os.path.basename(p) for p in places.values()):
            raise Bad("%s: \"weight_map\" says of no tensor, or not of each, in which file beside it it is" % path)
        parts = list(dict.fromkeys(places.values()))
        model = Model([_File(os.path.join(folder, p)) for p in parts], index)
        missing = [n for n, p in places.items() if n not in model.where or model.where[n].path != os.path.join(folder, p)]
        if missing:
            raise Bad("%s: \"%s\" is not in its file, %s" % (path, missing[0], places[missing[0]]))
        return model
    return Model([_File(path)])


@contextlib.contextmanager
def replaced(path):
    """A file to write to, which has this name when it is whole: one that is there stays until then, and nothing stays of a program that
    fails or is killed. What is no regular file is written to."""
    folder, name = os.path.split(path)
    temporary = ".%s.%d-%s" % (name[:200], os.getpid(), os.urandom(4).hex())
    try:
        if path.startswith("/dev/std") or os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as f:
                yield f
            return
        at = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _begun(at, temporary) as f:
                yield f
                f.flush()
                os.fsync(f.fileno())
                before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # none between the two names
                try:
                    if not os.path.exists(os.path.join(folder, temporary)):
                        os.link("/proc/self/fd/%d" % f.fileno(), temporary, src_dir_fd=at, dst_dir_fd=at)
                    os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=at)
            os.close(at)
    except OSError as e:
        if e.filename in (None, ".", temporary) or e.filename2 is not None:  # a full disk has no name for what it was to hold
            raise OSError(e.errno, e.strerror, path) from e
        raise


def _begun(at, temporary):
    """A new file in a folder: without a name, so that whatever ends the program ends it too; with one where the file system has no such
    files, or they could not be named later."""
    with contextlib.suppress(OSError):
        if os.path.exists("/proc/self/fd"):
            return open(os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666, dir_fd=at), "wb")
    return open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=at), "wb")


def program(run):
    """Ends with what it returns; interrupted, as the signal ends a program."""
    try:
        sys.exit(run())
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)


def write_json(path, value):
    with replaced(path) as f:
        f.write(json.dumps(value, indent=1).encode() + b"\n")


def write(path, tensors, metadata=None):
    """Tensors as (name, dtype, shape, function that returns the array); one at a time is in memory."""
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, dtype, shape, _ in tensors:
        size = np.dtype(DTYPES[dtype]).itemsize * int(np.prod(shape, dtype=object))
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with replaced(path) as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, dtype, shape, make in tensors:
            a = np.asarray(make(), DTYPES[dtype], order="C")
            if a.shape != tuple(shape):
                raise AssertionError((name, a.shape, shape))
            f.write(a.tobytes())


def need_float(model, name, *more):
    if model.dtype(name) not in ("F32", "F16", "BF16", *more):
        raise Bad("%s: \"%s\" has the dtype %s, which is not supported" % (model.where[name].path, name, model.dtype(name)))


def widen(array, dtype):
    """Any floating-point array to float32; exact for the 16-bit ones."""
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def narrow(array, dtype):
    """float32 to the bits of another floating-point dtype, rounded to the nearest, ties to even; what `widen` made comes back."""
    if dtype == "BF16":
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
        nan = (bits & 0x7FFFFFFF) > 0x7F800000
        return np.where(nan, (bits >> 16) | np.where(bits & 0x7FFF0000 == 0x7F800000, 0x40, 0), rounded).astype(np.uint16)
    return array.astype(DTYPES[dtype])
