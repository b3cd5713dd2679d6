"""A compiled step in Python: ctypes and NumPy, nothing else.

    m = stepc.Step("step.so")
    m.init()
    r = m.step(x=x, y=y)                 # one training step
    m.step(x=x, y=y, on_nonfinite="skip")            # NaN or infinity: the state stays as it was, bit for bit
    m.step(x=x, y=y, accept=lambda r: r.loss < 10)   # so it does where the host says no; r.accepted tells
    with m.compute(x=x, y=y) as r:       # the same in two calls: it counts if `commit` is called in the block
        if r.loss < 10: r.commit()
    w = m["layers.0.kernel"]             # read a tensor into a new array
    m["layers.0.kernel"] = 2 * w         # write it
    m["opt_state.0.count"]               # all state goes by name: m.names(stepc.OPT_STATE)
    m.set("learning_rate", 3e-4)         # what can be set: m.hypers()
    m.save("final.safetensors")          # everything; m.load of it goes on where the run was
    m.load("other", map={"head.**": "init", "**": "blocks.**"}, params_only=True)    # under other names, of another training
    with m.checkpoints("runs/a", keep="latest=3,best=loss:min:1") as runs:   # directories that are whole or not there
        start = runs.resume()            # the newest whole one: its step, and what was saved beside it in runs.item("loader")
        runs.save(metrics={"loss": r.loss}, items={"loader": {"at": 7}})     # written while training goes on
    stepc.checkpoints("runs/a")          # what is there: step, time, metrics, bytes, complete
    y = m.infer(x=x)                     # the model's output; a dict where it has several
    m.eval(x=x, y=y).loss                # no update, no dropout; m.eval("ema", ...) with averaged weights
    print(r.step, r.loss, r.metrics["grad_norm"])
    m = stepc.compile({"stepc": 1, ...}, target="generic")   # compiles and opens: a dict or a path; options are those of `stepc compile`
    train = m.bind(x=x, y=y)             # the same arrays again and again, written in place: train() costs a call and the step
    v = m.view("layers.0.kernel")        # no copy: np.asarray(v), torch.from_dlpack(v), jax.dlpack.from_dlpack(v) see what steps write
"""
# mypy: disable-error-code="attr-defined,operator"
from __future__ import annotations

import ctypes
import difflib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import types
import zlib
from typing import Any, Callable, Collection, Dict, List, Optional, Tuple, Union

import numpy as np

Path = Union[str, "os.PathLike[str]"]

_DTYPES = {1: np.bool_, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.uint32, 7: np.int32, 8: np.uint64,
           9: np.int64, 12: np.float16, 13: np.uint16, 14: np.float32, 15: np.float64}  # 13: bfloat16, as its bits
_OF_MANIFEST = {"bool": "BOOL", "bfloat16": "BF16", "f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2",
                **{name + bits: letter + bits for name, letter in (("float", "F"), ("int", "I"), ("uint", "U")) for bits in ("8", "16", "32", "64")}}
_OF_DLPACK = {(6, 8): 1, (1, 8): 2, (0, 8): 3, (1, 16): 4, (0, 16): 5, (1, 32): 6, (0, 32): 7, (1, 64): 8, (0, 64): 9,
              (2, 16): 12, (4, 16): 13, (2, 32): 14, (2, 64): 15}
_CODES = {np.dtype(t): code for code, t in _DTYPES.items() if code != 13}
BFLOAT16, FLOAT16 = 13, 12
PARAM, EMA, OPT_STATE, STATE, INPUT, METRIC, OUTPUT = range(1, 8)

_p, _s, _u32, _i32, _u64, _i64, _f64 = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64,
                                        ctypes.c_int64, ctypes.c_double)


def _struct(title: str, /, **fields: Any) -> Callable[..., Any]:
    """A mirror of a struct of stepc/step.h; every one begins with its size."""
    cls = type(title, (ctypes.Structure,), {"_fields_": [("size", ctypes.c_size_t)] + list(fields.items())})
    return lambda **values: cls(size=ctypes.sizeof(cls), **values)


_Tensor = _struct("step_tensor", name=_s, role=_u32, dtype=_u32, rank=_i32, flags=_u32, shape=ctypes.POINTER(_i64),
                  sharding=_s, bytes_global=_u64, bytes_local=_u64)
_ARRAY = type("step_array", (ctypes.Structure,), {"_fields_": [
    ("size", ctypes.c_size_t), ("name", _s), ("data", _p), ("dtype", _u32), ("rank", _i32), ("shape", ctypes.POINTER(_i64)),
    ("strides", ctypes.POINTER(_i64)), ("device_type", _i32), ("device_id", _i32)]})
_Options = _struct("step_options", host=_p, transport=_s, communicator=_p, devices=_s, threads=_u32, flags=_u32,
                   seed=ctypes.POINTER(_u64), timeout_ms=_i64, max_memory=_u64)
_HYPER = type("step_hyper", (ctypes.Structure,), {"_fields_": [("size", ctypes.c_size_t), ("name", _s), ("value", _f64)]})
_Batch = _struct("step_batch", inputs=_p, input_count=ctypes.c_size_t, hypers=_p, hyper_count=ctypes.c_size_t,
                 microbatches=_u32, flags=_u32, accept=_p, user=_p, stream=_p)
_Result = _struct("step_result", step=_u64, loss=_f64, flags=_u32, metric_capacity=_u32, metric_count=_u32,
                  metrics=ctypes.POINTER(_f64), ns_total=_u64, ns_communication=_u64)
_RESULT = type(_Result())
_ACCEPT = ctypes.CFUNCTYPE(ctypes.c_int, _p, ctypes.POINTER(_RESULT))
_POLICIES = ("continue", "stop", "skip")
NONFINITE, SKIPPED = 1, 2
_COMPUTE = 4
_COMPRESS = {None: 0, "opt_state": 1, "all": 2}
_Save = _struct("step_save", directory=_s, slots=_s, items=_p, item_count=ctypes.c_size_t, metrics=_p,
                metric_count=ctypes.c_size_t, keep=_s, flags=_u32)
_ITEM = type("step_item", (ctypes.Structure,), {"_fields_": [("size", ctypes.c_size_t), ("name", _s), ("json", _s)]})
_Memory = _struct("step_memory", **{n: _u64 for n in (
    "parameters averages optimizer_state other_state gradients activations workspace communication code planned_peak "
    "lower_bound measured_peak").split()})
_Load = _struct("step_load", path=_s, map=_s, flags=_u32)

_ENTRIES = ("describe status_name last_error create destroy init tensor_count tensor_at tensor_find read write dlpack "
            "dlpack_legacy hyper_count hyper_at hyper_get hyper_set stage step step_n eval infer save job_wait job_free load "
            "item interrupt abort_peers memory trace commit place agree").split()
_RETURNS = {"describe": _s, "status_name": _s, "last_error": _s, "item": _s, "tensor_count": ctypes.c_size_t,
            "hyper_count": ctypes.c_size_t, "destroy": None, "job_free": None, "interrupt": None, "abort_peers": None}


_FREE = {"describe", "status_name", "last_error", "create", "job_wait", "job_free", "interrupt"}  # of no instance, or from any thread


class _Api(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("abi_major", _u32), ("abi_minor", _u32)] + [(n, _p) for n in _ENTRIES]


def bits(values: Any) -> np.ndarray:
    """Numbers as bfloat16, rounded to nearest: uint16, its bits, of the same shape, since NumPy has no such type."""
    values = np.asarray(values, np.float64)
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    raw = near.view(np.uint32).astype(np.int64)  # rounded to odd first: a number is rounded to nearest once
    raw = np.where(near == values, raw, raw - (abs(near) > abs(values)) | 1)
    return np.where(np.isnan(values), 0x7fc0, (raw + 0x7fff + (raw >> 16 & 1)) >> 16).astype(np.uint16)


def numbers(bits_of_bfloat16: Any) -> np.ndarray:
    """The same back: bits of bfloat16 (uint16) as float32 of the same shape, exactly."""
    return np.left_shift(np.asarray(bits_of_bfloat16, np.uint16), 16, dtype=np.uint32).view(np.float32)


class StepError(RuntimeError):
    """What was refused: `status` is that of stepc/step.h, the text says what was expected and found."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status

    def __str__(self) -> str:
        return self.args[1]


def _is_file_name(path: Path) -> bool:
    name = os.fsdecode(path)
    return name.endswith(".safetensors") and name != ".safetensors"


def _near(name: Any, there: Collection[str]) -> str:
    """The end of a message about an unknown name: the nearest one there is, or all of them where these are few."""
    near = difflib.get_close_matches(str(name), there, 1)
    return '; did you mean "%s"?' % near[0] if near else "; there is " + (", ".join(list(there)[:12]) + (", ..." if len(there) > 12 else "") or "none")


def _c(text: Union[str, bytes]) -> bytes:
    """A name, or an encoded path, for C, which ends at a NUL: what is behind one would be lost, and another file or tensor meant."""
    out = text.encode() if isinstance(text, str) else text
    if 0 in out:
        raise StepError(1, "STEP_EINVAL: %r: a name cannot have a NUL in it" % text)
    return out


def _json(value: Any, what: str) -> str:
    """What `value` is in JSON: NumPy's numbers and arrays as those of Python. Anything else that JSON lacks is named by its place."""
    def plain(one: Any, place: str) -> Any:
        if isinstance(one, (np.generic, np.ndarray)) and one.dtype.kind in "biufU":
            one = one.tolist()
        if isinstance(one, dict):
            for k in one:
                if not isinstance(k, str):
                    raise TypeError("%s: %s has the key %r: keys are strings" % (what, place or "it", k))
            return {k: plain(v, "%s/%s" % (place, k)) for k, v in one.items()}
        if isinstance(one, (list, tuple)):
            return [plain(v, "%s/%d" % (place, i)) for i, v in enumerate(one)]
        if one is None or isinstance(one, (bool, int, str)) or isinstance(one, float) and np.isfinite(one):
            return one
        raise TypeError("%s: %s is %s, which JSON does not have" % (what, place or "all of it", one if isinstance(one, float) else "of type " + type(one).__name__))

    try:
        return json.dumps(plain(value, ""))
    except RecursionError:
        raise TypeError("%s: too deep for JSON, or part of itself" % what) from None


def _compiler() -> str:
    """The program: what STEPC names, the one that was installed with this module, or the first in PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "stepc")
    found = os.environ.get("STEPC") or (own if os.path.exists(own) else shutil.which("stepc"))
    if not found:
        raise StepError(6, "STEP_EIO: stepc: no such program in PATH; the variable STEPC may name it")
    return found


def _main() -> None:
    """The command `stepc` of an installed wheel."""
    import sys
    os.execv(_compiler(), ["stepc", *sys.argv[1:]])


def compile(document: Union[Dict[str, Any], Path], *, output: Optional[Path] = None, threads: int = 0, constants: Optional[Dict[str, Any]] = None,
            views: bool = True, **options: Any) -> Step:
    """Compiles a document (a dict, or the path of a JSON file) and opens it: a Step, before `init`.

    output: a path to keep the object; None: a temporary file, gone when this returns (nothing is cached). threads: per device
    (0: all cores). constants: {"batch": 64} in place of the document's. views=False: an object without `Step.view`, 1.2 kB smaller;
    with target="cuda" there is none. Options are those of `stepc compile`, with _ for -:
    target="generic", remat=True, without=["maps"]. What the compiler refuses is a StepError with its whole message."""
    if not isinstance(document, (dict, str, os.PathLike)):
        raise TypeError("compile: expected a dict or a path, found %s" % type(document).__name__)
    with tempfile.TemporaryDirectory(prefix="stepc-") as folder:
        if isinstance(document, dict):
            source = os.path.join(folder, "model.json")
            with open(source, "w", encoding="utf-8") as f:
                f.write(_json(document, "compile"))
        else:
            source = os.path.abspath(os.fspath(document))
        into = os.path.join(folder, "step.so") if output is None else os.fspath(output)
        command = [_compiler(), "compile", source, "-o", into, "-q"]
        for name, value in (constants or {}).items():
            command += ["-D", "%s=%s" % (name, value if isinstance(value, str) else _json(value, "constants"))]
        options.setdefault("views", views)
        for name, value in options.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                one = one.item() if isinstance(one, np.generic) else one
                if one is not False and one is not None:
                    command += ["--" + name.replace("_", "-")] + ([] if one is True else [str(one)])
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise StepError(1, "stepc compile: exit %d\n%s" % (done.returncode, done.stdout.strip()))
        return Step(into, threads=threads)


_NOTE = bytes([6, 0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0]) + b"stepc\0\0\0"
_SUM = b'{"__metadata__":{"stepc.crc32":"'


def _library(path: str) -> ctypes.CDLL:
    """The library of an object, after the checksum in its note was compared; what was compared is what is loaded (see
    stepc/step_open.h)."""
    try:
        with open(path, "rb") as f:
            raw = f.read()
            at = raw.find(_NOTE) + len(_NOTE)
            if at < len(_NOTE):
                raise StepError(7, "STEP_ECORRUPT: %s: it has no checksum: no object of stepc, or damaged" % path)
            if zlib.crc32(raw[at + 4:], zlib.crc32(raw[:at])) != int.from_bytes(raw[at:at + 4], "little"):
                raise StepError(7, "STEP_ECORRUPT: %s: damaged: its bytes do not have the checksum that it was compiled with" % path)
            # The loader takes a file of a name that it has seen for the one it knows: the checksum is part of the name.
            name = "".join("./" if zlib.crc32(raw) >> i & 1 else "/" for i in range(32))
            return ctypes.CDLL("/proc/self/fd/%s%d" % (name, f.fileno()))
    except OSError as e:
        raise StepError(6, "STEP_EIO: %s: %s" % (path, e.strerror or e)) from None


_SECRET = np.array([
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072, 0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82,
    0x8e2443f7744608b8, 0x4c263a81e69035e0, 0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8, 0xc3ebd33483acc5ea, 0xeb6313faffa081c5,
    0x49daf0b751dd0d17, 0x9e68d429265516d3, 0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af], "<u8").tobytes()
_PRIMES = [0xc2b2ae3d, 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0x85ebca77c2b2ae63, 0x85ebca77, 0x27d4eb2f165667c5, 0x9e3779b1]


def _xxh3(data: bytes) -> str:
    """XXH3-128 of more than 240 bytes (the xxHash specification 0.8), in hexadecimal digits."""
    words = lambda raw, at, n=8: np.frombuffer(raw, "<u8", n, at)
    keys, low, half, last = np.stack([words(_SECRET, 8 * i) for i in range(16)]), np.uint64(0xffffffff), np.uint64(32), (1 << 64) - 1

    def stripes(at: int, n: int, keys: np.ndarray) -> np.ndarray:
        data_of = words(data, at, 8 * n).reshape(n, 8)
        keyed = data_of ^ keys
        return (data_of[:, [1, 0, 3, 2, 5, 4, 7, 6]] + (keyed & low) * (keyed >> half)).sum(0, dtype=np.uint64)

    def merge(at: int, total: int) -> int:
        for a, b in (words(_SECRET, at) ^ sums).reshape(4, 2).tolist():
            total += a * b & last ^ a * b >> 64
        total &= last
        total = (total ^ total >> 37) * 0x165667919e3779f9 & last
        return total ^ total >> 32
    sums, blocks = np.array(_PRIMES, np.uint64), (len(data) - 1) // 1024
    for i in range(blocks):
        sums = sums + stripes(1024 * i, 16, keys)
        sums = (sums ^ sums >> np.uint64(47) ^ words(_SECRET, 128)) * np.uint64(_PRIMES[7])
    rest = (len(data) - 1) % 1024 // 64
    sums = sums + stripes(1024 * blocks, rest, keys[:rest]) + stripes(len(data) - 64, 1, words(_SECRET, 121))
    return "%016x%016x" % (merge(117, ~(len(data) * _PRIMES[2]) & last), merge(11, len(data) * _PRIMES[1]))


def _manifest(path: str) -> Any:
    """What the manifest of a checkpoint says. STEP_EIO; STEP_ECORRUPT: it does not have its checksum."""
    try:
        with open(os.path.join(path, "manifest.json"), "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as f:  # of a pipe: nothing
            raw = f.read() or b""
    except OSError as e:
        raise StepError(6, "STEP_EIO: %s/manifest.json: %s" % (path, e.strerror)) from None
    summed = raw[:-42]  # "self":"<checksum>"} is not
    if len(summed) < 240 or raw != summed + b'"self":"%s"}' % _xxh3(summed).encode():
        raise StepError(7, "STEP_ECORRUPT: %s: manifest.json is damaged: its bytes do not have its checksum" % path)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise StepError(7, "STEP_ECORRUPT: %s: manifest.json: %s" % (path, e)) from None


def checkpoints(folder: Path) -> List[types.SimpleNamespace]:
    """What a run directory holds, the oldest first: step, path, time (text, ISO 8601), metrics (a dict of floats), bytes,
    complete: the manifest has its checksum and all files have their sizes (checksums of the data are compared by `load` and
    `stepc checkpoint verify`). A folder that is not there is an OSError."""
    found = []
    for name in os.listdir(folder):
        if not re.fullmatch("step-(0|[1-9][0-9]{0,18})", name):
            continue
        path = os.path.join(folder, name)
        one = types.SimpleNamespace(step=int(name[5:]), path=path, time=None, metrics={}, bytes=0, complete=False)
        try:
            told = _manifest(path)
            if told["stepc_checkpoint"] in (1, 2):
                sizes = {n: int(file["bytes"]) for n, file in told["files"].items()}
                metrics = {n: float(v) for n, v in told["metrics"].items()}
                one.time, one.metrics, one.bytes = str(told["created"]), metrics, sum(sizes.values())
                one.complete = all(os.path.getsize(os.path.join(path, n)) == size for n, size in sizes.items())
        except (StepError, OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        found.append(one)
    return sorted(found, key=lambda one: one.step)


def _newest(path: str) -> str:
    """The checkpoint itself, or the newest of a run directory."""
    if os.path.exists(os.path.join(path, "manifest.json")):
        return path
    whole = [one.path for one in checkpoints(path) if one.complete]
    if not whole:
        raise StepError(2, "STEP_ENOTFOUND: %s holds no whole checkpoint" % path)
    return whole[-1]


def _unpacked(piece: Dict[str, Any], stored: bytes, item: int) -> bytes:
    """The elements of a piece that is compressed: in each MiB the bytes of one place in an element are a frame of Zstandard; what
    is not compressed stands behind. STEP_ECORRUPT; STEP_EDEVICE: the library is not here."""
    name = os.environ.get("STEPC_ZSTD") or "libzstd.so.1"
    try:
        zstd = ctypes.CDLL(name)
    except OSError:
        raise StepError(9, "STEP_EDEVICE: compressed checkpoints need Zstandard 1.4 or later, and there is none here (%s): install libzstd1, or "
                            "name the file in STEPC_ZSTD" % name) from None
    zstd.ZSTD_findFrameCompressedSize.restype = zstd.ZSTD_decompress.restype = ctypes.c_size_t
    data, at, parts, left = ctypes.create_string_buffer(stored, len(stored)), 0, [], piece["chunked"]
    whole, size = item * int(np.prod(piece["shape"], dtype=np.int64)), ctypes.c_size_t
    while left:
        count = min(left, 1 << 20) // item
        planes, left = np.empty((item, count), np.uint8), left - count * item
        for plane in planes:
            used = zstd.ZSTD_findFrameCompressedSize(ctypes.byref(data, at), size(len(stored) - at))
            if used > len(stored) - at or zstd.ZSTD_decompress(plane.ctypes.data_as(_p), size(count), ctypes.byref(data, at), size(used)) != count:
                raise StepError(7, 'STEP_ECORRUPT: "%s" is not compressed as its manifest says' % piece["key"])
            at += used
        parts.append(planes.T.tobytes())
    return b"".join([*parts, stored[at:at + whole - piece["chunked"]]])


def _whole(slot: Dict[str, Any], files: Dict[str, Tuple[Any, bytes]]) -> Tuple[str, bytes]:
    """The dtype and the bytes of a tensor of a checkpoint, its pieces put together."""
    whole: Any = None
    dtype = _OF_MANIFEST[slot["dtype"]]
    item = 1 if dtype == "BOOL" else int(re.findall("[0-9]+", dtype)[0]) // 8
    for p in slot["pieces"]:
        own, data = files[p["file"]]
        begin, end = own[p["key"]]["data_offsets"]
        elements = _unpacked(p, data[begin:end], item) if "stored" in p else data[begin:end]
        if p["shape"] == slot["shape"]:
            return dtype, elements
        whole = np.empty((*slot["shape"], item), np.uint8) if whole is None else whole
        whole[tuple(slice(a, a + n) for a, n in zip(p["start"], p["shape"]))] = np.frombuffer(elements, np.uint8).reshape(*p["shape"], item)
    return dtype, whole.tobytes()


def _open(path: str) -> Tuple[Dict[str, Any], bytes]:
    """Header and data of a safetensors file, whose checksum is right if it has one, or of all tensors of a checkpoint."""
    if os.path.isdir(path):
        head, parts, at, path = {}, [], 0, _newest(path)
        told = _manifest(path)
        if told.get("stepc_checkpoint") not in (1, 2) or told.get("compression", "zstd") != "zstd":
            raise StepError(8, "STEP_EVERSION: %s: of a newer stepc" % path)
        try:
            files = {n: _open(os.path.join(path, n)) for n in told["files"] if n.endswith(".safetensors")}
            for name, slot in told["slots"].items():
                dtype, data = _whole(slot, files)
                head[name] = {"dtype": dtype, "shape": slot["shape"], "data_offsets": [at, at + len(data)]}
                parts.append(data)
                at += len(data)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as e:
            raise StepError(7, "STEP_ECORRUPT: %s: its files are not what its manifest says: %s" % (path, e)) from None
        return head, b"".join(parts)
    try:
        with open(path, "rb") as f:
            raw = f.read()
    except OSError as e:
        raise StepError(6, "STEP_EIO: %s: %s" % (path, e.strerror)) from None
    begin, digits = 8 + int.from_bytes(raw[:8], "little"), 8 + len(_SUM)
    told = raw[digits:digits + 8]
    if raw[8:digits] == _SUM and told not in (b"00000000", b"%08x" % zlib.crc32(raw[digits + 8:])):
        raise StepError(7, "STEP_ECORRUPT: %s: damaged: its bytes do not have its checksum" % path)
    try:
        head = json.loads(raw[8:begin])
        good = all(name == "__metadata__" or list(map(type, t["data_offsets"])) == [int, int] for name, t in head.items())
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        good = False
    if not good:
        raise StepError(7, "STEP_ECORRUPT: %s is no safetensors file" % path)
    return head, raw[begin:]


class Bound:
    """What a call of `Step.bind` gives, read where the object writes it: of the last step that ran. step: steps done; loss: a float;
    metrics: floats by name; finite: whether loss and update were; seconds: that the step took."""
    __slots__ = ("_result", "_metrics", "_names")

    def __init__(self, result: Any, metrics: Any, names: List[str]) -> None:
        self._result, self._metrics, self._names = result, metrics, names

    @property
    def step(self) -> int:
        return self._result.step

    @property
    def loss(self) -> float:
        return self._result.loss

    @property
    def metrics(self) -> Dict[str, float]:
        return dict(zip(self._names, self._metrics))

    @property
    def finite(self) -> bool:
        return not self._result.flags & NONFINITE

    @property
    def seconds(self) -> float:
        return self._result.ns_total * 1e-9


class Result(types.SimpleNamespace):
    """What a step or an evaluation gives. step: steps done, this one included; loss; metrics: the scalar ones, by name; seconds:
    that it took; finite: whether loss and update were; accepted: whether it counts."""
    step: int
    loss: float
    metrics: Dict[str, float]
    seconds: float
    finite: bool
    accepted: bool


class Computed(Result):
    """What `Step.compute` gives: a result; and the step itself, which counts if `commit` says so."""
    _open: bool
    _decide: Callable[[int], None]

    def commit(self) -> None:
        """The step counts. STEP_EINVAL: it was committed or discarded before, or its policy has refused it."""
        if not self._open:
            raise StepError(1, "STEP_EINVAL: commit: this step was committed or discarded before")
        self._open = False
        self._decide(1)

    def discard(self) -> None:
        """The step does not count; nothing if that was decided before."""
        if self._open:
            self._open = False
            self._decide(0)

    def __enter__(self) -> Computed:
        return self

    def __exit__(self, *_: Any) -> None:
        self.discard()


class _Call:
    """What one call tells the object and hears from it; keep: what that points to, at its end the arrays and the hyper-parameters.
    again: the names of the values that it can be filled with again, for another call; None: it cannot."""

    def __init__(self, batch: Any, keep: List[Any], metrics: List[str], again: Optional[Tuple[str, ...]]) -> None:
        self.batch, self.keep, self.names = batch, keep, metrics
        self.again = again if len(keep) == 2 else None  # else it points to what is the caller's, or a copy of it
        self.arrays, self.hypers, self.metrics = list(keep[-2]), list(keep[-1]), (_f64 * max(len(metrics), 1))()
        self.result = _Result(metrics=self.metrics, metric_capacity=len(metrics))
        self.told, self.heard = ctypes.byref(batch), ctypes.byref(self.result)

    def out(self, r: Any) -> Result:
        return Result(step=r.step, loss=r.loss, metrics=dict(zip(self.names, self.metrics[:])), seconds=r.ns_total * 1e-9,
                      finite=not r.flags & NONFINITE, accepted=not r.flags & SKIPPED)


_DELETER = ctypes.CFUNCTYPE(None, _p)
_CAPSULES = {False: b"dltensor", True: b"dltensor_versioned"}


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", _p), ("device_type", _i32), ("device_id", _i32), ("rank", _i32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(_i64)), ("strides", ctypes.POINTER(_i64)), ("byte_offset", _u64)]


class _Managed(ctypes.Structure):
    """DLPack's struct of version 0, by which a consumer gives back what it got."""
    _fields_ = [("tensor", _DLTensor), ("context", _p), ("deleter", _DELETER)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", _u32), ("minor", _u32), ("context", _p), ("deleter", _DELETER), ("flags", _u64), ("tensor", _DLTensor)]


@ctypes.PYFUNCTYPE(None, _p)
def _unused(capsule: int) -> None:
    """The end of a capsule: what nobody has taken out of it goes back. Who takes it gives it another name."""
    for versioned, name in _CAPSULES.items():
        if _valid(capsule, name):
            managed = _pointer(capsule, name)
            (_Versioned if versioned else _Managed).from_address(managed).deleter(managed)


_valid = ctypes.PYFUNCTYPE(ctypes.c_int, _p, _s)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(_p, _p, _s)(("PyCapsule_GetPointer", ctypes.pythonapi))
_content = ctypes.PYFUNCTYPE(_p, ctypes.py_object, _s)(("PyCapsule_GetPointer", ctypes.pythonapi))
_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, _p, _s, _p)(("PyCapsule_New", ctypes.pythonapi))


class _Pin:
    """Memory of an instance that an array stands in, until the array is gone."""

    def __init__(self, managed: int) -> None:
        self._managed, self._deleter = managed, _Versioned.from_address(managed).deleter

    def __del__(self) -> None:
        self._deleter(self._managed)


class View:
    """A tensor where it lies (`Step.view`): name, shape, dtype, and `__dlpack__` and `__array__`, which copy nothing. Arrays made
    of it are read only (older consumers of DLPack, JAX among them, cannot be told so: do not write) and show at any time what
    the last call has left there, so values that must stay are to be copied. They remain valid when the step is closed: then
    they keep its last values, and the memory of the instance until the last one is gone. One thread is inside the step at
    a time: do not read while another one trains. As long as an array is there, a step that may be refused (on_nonfinite, accept,
    compute) copies the state once more."""
    _handed: Any = None  # the last one: a consumer that refuses it lets go of it with its error pending, when no Python may run (`_unused`)

    def __init__(self, step: Step, name: str) -> None:
        t = step._find(name)
        if t.dtype not in _DTYPES:
            raise StepError(15, 'STEP_EUNSUPPORTED: "%s" has dtype %d, which NumPy lacks' % (name, t.dtype))
        self._step, self.name, self.shape, self.dtype = step, name, tuple(t.shape[:t.rank]), np.dtype(_DTYPES[t.dtype])
        managed = self._managed(True)  # what cannot be viewed is said here
        tensor, _pin = _Versioned.from_address(managed).tensor, _Pin(managed)
        self._device = int(tensor.device_type), int(tensor.device_id)

    def _managed(self, versioned: bool) -> int:
        out = _p()
        entry = self._step._dlpack if versioned else self._step._dlpack_legacy
        self._step._check(entry(self._step._instance, self.name.encode(), ctypes.byref(out)))
        return out.value or 0

    def __repr__(self) -> str:
        return "stepc.View(%r, shape=%s, dtype=%s)" % (self.name, self.shape, self.dtype.name)

    def __dlpack_device__(self) -> Tuple[int, int]:
        """DLPack's code of the CPU (1) or of CUDA (2), and which."""
        return self._device

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None, dl_device: Optional[Tuple[int, int]] = None,
                   copy: Optional[bool] = None) -> Any:
        """A capsule for from_dlpack of NumPy, PyTorch, JAX: of version 1, marked as read only, where max_version allows it. BufferError:
        another device or a copy is asked for. bfloat16 is bfloat16. On a GPU what calls wrote is there for every stream."""
        if dl_device not in (None, self._device) or (stream is not None and self._device[0] == 1):
            raise BufferError('view of "%s": it lies %s: expected device %r%s, found %r, %r' % (
                self.name, "in memory of the host" if self._device[0] == 1 else "on a GPU", self._device, " and no stream" if self._device[0] == 1 else "",
                dl_device, stream))
        if copy:
            raise BufferError('view of "%s": copies are made by reading: m["%s"]' % (self.name, self.name))
        versioned = max_version is not None and max_version[0] >= 1
        managed = self._managed(versioned)
        capsule = self._handed = _capsule(managed, _CAPSULES[versioned], ctypes.cast(_unused, _p))
        return capsule

    def __del__(self) -> None:
        self._handed = None  # here, where Python has put aside an error that is on its way

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        """numpy.asarray(view): a read-only array in the instance's memory; bfloat16 as its bits (see `numbers`). BufferError: on a GPU."""
        if self._device[0] != 1:
            raise BufferError('view of "%s": it lies on a GPU: m["%s"] copies it, from_dlpack of PyTorch, JAX and CuPy does not' % (self.name, self.name))
        managed = self._managed(True)
        pin, tensor = _Pin(managed), _Versioned.from_address(managed).tensor
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        memory: Any = (ctypes.c_uint8 * size).from_address(tensor.data)
        memory._pin = pin
        out = np.frombuffer(memory, self.dtype).reshape(self.shape) if size else np.empty(self.shape, self.dtype)
        out.flags.writeable = False
        if copy is False and dtype is not None and np.dtype(dtype) != self.dtype:
            raise ValueError('view of "%s": another dtype takes a copy' % self.name)
        return out.astype(self.dtype if dtype is None else dtype) if copy or (dtype is not None and np.dtype(dtype) != self.dtype) else out


def _cast(name: str, a: np.ndarray, want: np.dtype) -> np.ndarray:
    """An array as the dtype that is wanted, where that loses no more than the last digits of floats."""
    kinds = a.dtype.kind + want.kind
    if a.dtype == want or a.dtype not in _CODES or kinds not in ("ff", "ii", "iu", "ui", "uu"):
        return a  # the object tells what is wrong
    with np.errstate(over="ignore", invalid="ignore"):
        out = a.astype(want)
    lost = np.isfinite(a) & ~np.isfinite(out) if kinds == "ff" else (out != a) | ((out < 0) != (a < 0))
    if np.any(lost):
        raise StepError(4, 'STEP_ERANGE: "%s": %s does not fit into %s (%d of %d elements)' % (
            name, np.asarray(a)[lost].flat[0], want.name, np.count_nonzero(lost), a.size))
    return out


_REFUSALS = (TypeError, ValueError, RuntimeError, BufferError)  # by which libraries say that they do not give an array


def _refusal(name: str, e: Exception) -> StepError:
    """What a library says of an array that it does not give: PyTorch also says what to do (`.detach()`)."""
    return e if isinstance(e, StepError) else StepError(3, 'STEP_ESHAPE: "%s": not an array: %s' % (name, e))


def _read(name: str, value: Any, code: int) -> np.ndarray:
    """An array of NumPy in the memory of what is given, if that can be; of bfloat16, which NumPy lacks, where it is wanted, its bits."""
    try:
        try:
            a = np.asarray(value)
        except TypeError:
            bits16 = _bits_of(value)  # PyTorch's of bfloat16
            if bits16 is None:
                raise
            if code != BFLOAT16:
                raise StepError(3, 'STEP_ESHAPE: "%s": an array of bfloat16' % name) from None
            return bits16
    except _REFUSALS as e:
        raise _refusal(name, e) from None
    return a.view(np.uint16) if code == BFLOAT16 and a.dtype.name == "bfloat16" else a


def _bits_of(value: Any) -> Optional[np.ndarray]:
    """An array of bfloat16 that only DLPack shows, as its bits where it lies; None: it is none."""
    if not hasattr(value, "__dlpack__"):
        return None
    capsule = value.__dlpack__()  # gives it back when it goes
    t = _Managed.from_address(_content(capsule, _CAPSULES[False])).tensor
    if _OF_DLPACK.get((t.code, t.bits)) != BFLOAT16 or t.device_type != 1:
        return None
    shape, strides = t.shape[:t.rank], t.strides[:t.rank] if t.strides else None
    last = sum((n - 1) * k for n, k in zip(shape, strides)) if strides else int(np.prod(shape, dtype=np.int64)) - 1
    memory: Any = (ctypes.c_uint16 * (last + 1 if all(shape) else 0)).from_address((t.data or 0) + t.byte_offset)
    memory._capsule = capsule
    return np.ndarray(shape, np.uint16, memory, strides=None if strides is None else [2 * k for k in strides])


class Step:
    """One trainer. Arrays go in with the shape that the document declares; any strides. Arrays on the GPU of the
    step (PyTorch, CuPy, JAX: whatever shows __dlpack__) do not go through the host, in C order and in the dtype of the input. Floats are rounded to narrower ones if
    they do not become infinite; integers become others if every value fits; a bfloat16 comes as its bits (see `numbers`). All
    else, floats for integers too, is refused. What is wrong is a StepError with the status of stepc/step.h and a text that says
    what was expected. One thread at a time may be inside (STEP_EBUSY); after `close` every call is STEP_EINVAL; a child of a
    fork opens its own (for GPUs only if the parent had used none); nothing of it can be pickled: save and load."""

    def __init__(self, path: Path, threads: int = 0, devices: Optional[str] = None) -> None:
        """Opens an object. threads: per device (0: all cores, to 4096); devices: "cpu", or GPUs as "cuda:0,1" (STEPC_DEVICES, else what the
        object was compiled for). STEP_EIO: no such file; STEP_ECORRUPT: no object of stepc, or damaged;
        STEP_EVERSION: of another interface; STEP_EDEVICE: this machine lacks a device or a feature that it was compiled for."""
        self._instance, self._ready, self._process = _p(), False, os.getpid()
        self._inside, self._living, self._said = threading.Lock(), threading.RLock(), threading.local()
        self._calls: Dict[Tuple[str, ...], List[_Call]] = {}  # that ended, to be filled again
        path = os.fspath(path)
        if not 0 <= threads <= 4096:  # else ctypes would cut it to 32 bits
            raise StepError(1, "threads: expected 0 (all cores) to 4096, found %d" % threads)
        library = _library(path)
        library.step_query.restype = ctypes.POINTER(_Api)
        api = library.step_query(_u32(1), _u32(2))
        if not api:
            raise StepError(8, path + ": another version of the interface")
        for name in _ENTRIES:
            entry: Any = ctypes.CFUNCTYPE(_RETURNS.get(name, _i32))(getattr(api.contents, name) or 0)
            setattr(self, "_" + name, entry if name in _FREE else self._guarded(name, entry))
        options = _Options(threads=threads, devices=_c(devices) if devices is not None else None)
        self._check(self._create(ctypes.byref(options), ctypes.byref(self._instance)), free=True)
        self._minor = api.contents.abi_minor
        self._inputs = {t.name.decode(): t for t in self._tensors(INPUT)}
        self._as_declared = {name: self._declared(name, t) for name, t in self._inputs.items() if t.dtype in _DTYPES}
        self._outputs = {t.name.decode(): (t.dtype, tuple(t.shape[:t.rank])) for t in self._tensors(OUTPUT)}
        self._metrics = [t.name.decode() for t in self._tensors(METRIC) if t.rank == 0]

    def _guarded(self, name: str, entry: Callable[..., Any]) -> Callable[..., Any]:
        """An entry that wants a living instance in which nobody else is: a thread that closes it would take it from one that steps.
        What it says of a failure is taken while that lasts, too."""
        inside, said, tells, last_error = self._inside, self._said, name not in _RETURNS, self._last_error

        def call(*arguments: Any) -> Any:
            if not inside.acquire(False):
                raise StepError(14, "STEP_EBUSY: %s: another call is inside this instance" % name)
            try:
                if not arguments[0] and name != "destroy":
                    raise StepError(1, "STEP_EINVAL: %s: this step was closed" % name)
                status = entry(*arguments)
                if status and tells:
                    said.text = last_error(arguments[0])
                return status
            finally:
                if name == "destroy":
                    arguments[0].value = None  # for a thread, too, that comes in with it later
                inside.release()
        return call

    def __reduce__(self) -> Any:
        raise TypeError("a Step cannot be pickled or copied: save(path), and load(path) in another one")

    def _check(self, status: int, free: bool = False) -> None:
        """Raises what this thread's last call said; free: one that waits for nobody (create, job_wait)."""
        if status:
            text = (self._last_error(None) if free else self._said.text) or b""
            unknown = re.search(b'no hyper-parameter "(.*)"$', text) if status == 2 else None
            if unknown:
                text += _near(unknown[1].decode(), self.hypers()).encode()
            raise StepError(status, text.decode() or self._status_name(_i32(status)).decode())

    def _tensors(self, role: int) -> List[Any]:
        out = []
        for i in range(self._tensor_count(self._instance, _u32(role))):
            t = _Tensor()
            self._check(self._tensor_at(self._instance, _u32(role), ctypes.c_size_t(i), ctypes.byref(t)))
            out.append(t)
        return out

    @staticmethod
    def _array(name: str, a: np.ndarray, keep: List[Any], code: int) -> Any:
        """Tells the object of an array as it lies in memory, to be read or written there. `a.strides` count whole elements."""
        shape, strides = (_i64 * max(a.ndim, 1))(*a.shape), (_i64 * max(a.ndim, 1))(*[n // a.itemsize for n in a.strides])
        keep += [a, shape, strides]
        return _ARRAY(size=ctypes.sizeof(_ARRAY), name=name.encode(), data=a.ctypes.data, dtype=code, rank=a.ndim,
                      shape=shape, strides=strides)

    def _declared(self, name: str, t: Any) -> Tuple[Any, Tuple[int, ...], Any]:
        """Of an input: dtype and shape of an array that is read as it is, without a look at its strides, and what tells the object of it."""
        dtype, shape = np.dtype(_DTYPES[t.dtype]), tuple(t.shape[:t.rank])
        strides = [int(np.prod(shape[i + 1:], dtype=np.int64)) for i in range(t.rank)]
        own_shape, own_strides = (_i64 * max(t.rank, 1))(*shape), (_i64 * max(t.rank, 1))(*strides)
        return dtype, shape, _ARRAY(size=ctypes.sizeof(_ARRAY), name=name.encode(), dtype=t.dtype, rank=t.rank, shape=own_shape, strides=own_strides)

    def _fits(self, name: str, value: Any) -> bool:
        """Whether this is an array as the document declares it, of which nothing is new but its address."""
        if type(value) is not np.ndarray or name not in self._as_declared:
            return False
        dtype, shape, _ = self._as_declared[name]
        return value.dtype == dtype and value.shape == shape and value.flags.c_contiguous

    def _given(self, name: str, value: Any, keep: List[Any], code: int) -> Any:
        """The same of what the object only reads: in this machine's byte order, and rounded where 16-bit floats are wanted."""
        if self._fits(name, value):
            told = _ARRAY.from_buffer_copy(self._as_declared[name][2])
            told.data = value.ctypes.data
            return told
        if isinstance(value, np.ma.MaskedArray):
            raise StepError(1, 'STEP_EINVAL: "%s": a masked array; the object would read what is masked' % name)
        try:
            if getattr(value, "__dlpack_device__", None) and int(value.__dlpack_device__()[0]) == 2:
                return self._far(name, value, keep)
        except _REFUSALS as e:
            raise _refusal(name, e) from None
        a = _read(name, value, code)
        if not a.dtype.isnative:
            a = a.astype(a.dtype.newbyteorder("="))
        if code in (BFLOAT16, FLOAT16) and a.dtype in (np.float16, np.float32, np.float64):
            with np.errstate(over="ignore"):
                wide, a = a, bits(a) if code == BFLOAT16 else a.astype(np.float16)
            lost = np.isinf(numbers(a) if code == BFLOAT16 else a) & ~np.isinf(wide)
            if lost.any():
                raise StepError(4, 'STEP_ERANGE: "%s": %s does not fit into %s (%d of %d elements)' % (
                    name, wide[lost].flat[0], "bfloat16" if code == BFLOAT16 else "float16", np.count_nonzero(lost), wide.size))
        elif code in _DTYPES and code != BFLOAT16:
            a = _cast(name, a, np.dtype(_DTYPES[code]))
        own = BFLOAT16 if code == BFLOAT16 and a.dtype == np.uint16 else _CODES.get(a.dtype)
        if own is None:
            raise StepError(3, 'STEP_ESHAPE: "%s": an array of %s' % (name, a.dtype))
        if any(n % a.itemsize for n in a.strides):  # a field of records
            a = a.copy()
        return self._array(name, a, keep, own)

    def _far(self, name: str, value: Any, keep: List[Any]) -> Any:
        """An array on a GPU, as DLPack shows it: filled as far as the default stream has come (`_batch`)."""
        if self._minor < 3:
            raise StepError(8, 'STEP_EVERSION: "%s": an array on a GPU, and the object was made before there were such inputs' % name)
        capsule = value.__dlpack__(stream=1)  # gives it back when it goes
        t = _Managed.from_address(_content(capsule, _CAPSULES[False])).tensor
        shape, strides = (_i64 * max(t.rank, 1))(*t.shape[:t.rank]), (_i64 * max(t.rank, 1))(*t.strides[:t.rank]) if t.strides else None
        keep += [capsule, shape, strides]
        return _ARRAY(size=ctypes.sizeof(_ARRAY), name=name.encode(), data=(t.data or 0) + t.byte_offset, dtype=_OF_DLPACK.get((t.code, t.bits), 0),
                      rank=t.rank, shape=shape, strides=strides, device_type=t.device_type, device_id=t.device_id)

    def _room(self, name: str, code: int, shape: Tuple[int, ...], keep: List[Any]) -> Tuple[np.ndarray, Any]:
        """An array for a tensor to be written to, and what tells the object of it."""
        if code not in _DTYPES:
            raise StepError(15, 'STEP_EUNSUPPORTED: "%s" has dtype %d, which NumPy lacks' % (name, code))
        a = np.empty(shape, _DTYPES[code])
        return a, self._array(name, a, keep, code)

    def _batch(self, values: Dict[str, Any], keep: List[Any]) -> Any:
        inputs = [self._given(n, v, keep, self._inputs[n].dtype) for n, v in values.items() if n in self._inputs]
        others = {n: v for n, v in values.items() if n not in self._inputs}
        for n, v in others.items():
            number = np.ndim(v) == 0 and isinstance(v, (int, float, np.number, np.ndarray))
            if not number and n in self.hypers():
                raise StepError(1, 'STEP_EINVAL: "%s": expected a number, found %s' % (n, "an array" if np.ndim(v) else type(v).__name__))
            if np.ndim(v):
                raise StepError(2, 'STEP_ENOTFOUND: there is no input "%s"%s' % (n, _near(n, self._inputs)))
            if not number:
                raise StepError(2, 'STEP_ENOTFOUND: "%s" is no input and no number%s' % (n, _near(n, [*self._inputs, *self.hypers()])))
        hypers = [_HYPER(size=ctypes.sizeof(_HYPER), name=_c(n), value=v) for n, v in others.items()]
        arrays, numbers = (_ARRAY * len(inputs))(*inputs), (_HYPER * len(hypers))(*hypers)
        keep += [arrays, numbers]
        on_gpu = any(a.device_type == 2 for a in inputs)
        return _Batch(stream=1 if on_gpu else None, inputs=ctypes.cast(arrays, _p), input_count=len(inputs), hypers=ctypes.cast(numbers, _p), hyper_count=len(hypers))

    def _call(self, values: Dict[str, Any]) -> _Call:
        """What tells the object of these values, which the caller keeps. Where they are as declared, what an earlier call of the same
        names has left is filled with their addresses: to make it anew takes longer than a small step. It is not in `_calls` until
        it ended: nobody else, in another thread or in an `accept`, writes into what the object reads."""
        addresses, numbers, keep = [], [], []  # type: List[int], List[float], List[Any]
        names = tuple(values)
        for name, value in values.items():
            if self._fits(name, value):
                addresses.append(value.ctypes.data)
            elif type(value) is float and name not in self._inputs:
                numbers.append(value)
            else:
                return _Call(self._batch(values, keep), keep, self._metrics, None)
        try:
            call = self._calls[names].pop()
        except (KeyError, IndexError):
            return _Call(self._batch(values, keep), keep, self._metrics, names)
        for array, address in zip(call.arrays, addresses):
            array.data = address
        for hyper, number in zip(call.hypers, numbers):
            hyper.value = number
        call.batch.flags, call.batch.accept = 0, None
        return call

    def _ended(self, call: _Call) -> None:
        if call.again is not None:
            self._calls.setdefault(call.again, []).append(call)

    def names(self, role: int = PARAM) -> List[str]:
        """The tensors of a role (PARAM, EMA, OPT_STATE, STATE, INPUT, METRIC, OUTPUT), in the document's order."""
        return [t.name.decode() for t in self._tensors(role)]

    def init(self) -> None:
        """The initial values of the document, drawn from its seed. STEP_EUNSUPPORTED: an object without them (`load`)."""
        self._check(self._init(self._instance))
        self._ready = True

    def _run(self, entry: Callable[..., int], values: Dict[str, Any], *more: Any, flags: int = 0, accept: Optional[Callable[[Result], Any]] = None) -> Result:
        call = self._call(values)
        raised: List[BaseException] = []

        def asked(_: Any, r: Any) -> int:
            try:
                return bool(accept and accept(call.out(r.contents)))
            except BaseException as e:  # the step does not count
                raised.append(e)
                return 0
        call.batch.flags = flags
        if accept is not None:
            kept = _ACCEPT(asked)
            call.batch.accept = ctypes.cast(kept, _p)
        self._check(entry(self._instance, call.told, *more, call.heard))
        if raised:
            raise raised[0]
        out = call.out(call.result)
        self._ended(call)
        return out

    def step(self, *, on_nonfinite: str = "continue", accept: Optional[Callable[[Result], Any]] = None, _flags: int = 0, **values: Any) -> Result:
        """One training step: inputs by name, and hyper-parameters for this step only. A step whose loss or update is NaN or infinite
        counts (`continue`), is a StepError (`stop`) or is left out (`skip`); accept(result) is asked before a step counts. What does
        not count leaves every bit of the state as it was; `accepted` of the result tells. An input has the shape that the document
        declares. STEP_ENOTFOUND: no such input; STEP_ESHAPE, STEP_ERANGE: an array that does not fit; STEP_ENONFINITE."""
        if on_nonfinite not in _POLICIES:
            raise ValueError('on_nonfinite="%s": expected %s' % (on_nonfinite, ", ".join(_POLICIES)))
        return self._run(self._step, values, flags=_POLICIES.index(on_nonfinite) | _flags, accept=accept)

    def compute(self, *, on_nonfinite: str = "continue", **values: Any) -> Computed:
        """A step in two calls: until `commit` of what comes back, every bit of the state is as it was; without it, or after
        `discard`, or at the end of a `with`, it stays so. What changes the state in between (another step, init, load, writing
        a tensor) discards it, too."""
        r = self.step(on_nonfinite=on_nonfinite, _flags=_COMPUTE, **values)
        self._computed = mine = object()

        def decide(accept: int) -> None:
            if self._computed is mine:
                self._check(self._commit(self._instance, ctypes.c_int(accept)))
            elif accept:
                raise StepError(1, "STEP_EINVAL: commit: this step was discarded: another one was computed after it")
        return Computed(**vars(r), _open=True, _decide=decide)

    def _stoppable(self, call: Callable[[], int]) -> int:
        """What may take long, on a thread of its own if this is the main one: Python sees Ctrl-C only between its own instructions.
        The step that runs ends whole, what follows is not begun, and KeyboardInterrupt is raised."""
        if threading.current_thread() is not threading.main_thread():
            return call()
        out, raised, ended = [], [], threading.Event()

        def run() -> None:
            try:
                out.append(call())
                if out[0]:  # the texts of errors belong to threads
                    self._check(out[0])
            except BaseException as e:
                raised.append(e)
            finally:
                ended.set()
        threading.Thread(target=run).start()
        stopped = None
        while not ended.is_set():
            try:
                ended.wait()
            except BaseException as e:
                stopped = e
                with self._living:  # it may come when the call has just ended, and another thread closes
                    self._interrupt(self._instance)
        if stopped is not None:
            raise stopped
        if raised:
            raise raised[0]
        return out[0]

    def step_n(self, n: int, **values: Any) -> np.ndarray:
        """n steps in one call; every input has a leading dimension n. Returns the losses, float64 [n]. Ctrl-C ends it after a whole
        step (KeyboardInterrupt). Errors are those of `step`; the steps before stay done."""
        if not 0 <= n < 2**31:
            raise StepError(1, "STEP_EINVAL: step_n: n is %r: expected 0 or more" % (n,))
        keep: List[Any] = []
        size, at = ctypes.sizeof(_RESULT), _RESULT.loss.offset
        results = np.zeros((n, size), np.uint8)  # not objects: their making takes longer than small steps
        results[:, :ctypes.sizeof(ctypes.c_size_t)] = np.frombuffer(bytes(ctypes.c_size_t(size)), np.uint8)
        batch = self._batch(values, keep)
        self._check(self._stoppable(lambda: self._step_n(self._instance, ctypes.byref(batch), _u64(n), results.ctypes.data_as(ctypes.c_void_p))))
        return results[:, at:at + 8].copy().view(np.float64)[:, 0]

    def eval(self, weights: str = "params", **values: Any) -> Result:
        """Loss and metrics of one batch without an update: no dropout, running statistics as they are. weights: "params", "ema",
        "slow" (lookahead) or "eval" (schedule-free). STEP_ENOTFOUND: the document has no such weights; else the errors of `step`."""
        return self._run(self._eval, values, _c(weights))

    def infer(self, weights: str = "params", output: Optional[str] = None, **values: Any) -> Any:
        """The model's output by the inputs that it reads: an array of the shape that `stepc explain` shows, or a dict by name where it
        has several; `output` names one. weights: as in `eval`. STEP_ENOTFOUND: no such output or weights; else the errors of `step`."""
        keep: List[Any] = []
        there = self._outputs
        names = list(there) if output is None else [output]
        if not there or any(n not in there for n in names):
            raise StepError(2, 'STEP_ENOTFOUND: infer has no output "%s"; there is %s' % (output, ", ".join(there) or "none"))
        rooms = [self._room(n, *there[n], keep) for n in names]
        out, arrays = {n: a for n, (a, _) in zip(names, rooms)}, (_ARRAY * len(names))(*(c for _, c in rooms))
        call = self._call(values)
        self._check(self._infer(self._instance, call.told, _c(weights), arrays, ctypes.c_size_t(len(names))))
        self._ended(call)
        return out if len(out) > 1 else out[names[0]]

    def infer_rows(self, weights: str = "params", output: Optional[str] = None, **values: Any) -> Any:
        """infer for as many rows as there are: batches of the size that was compiled are taken from them, zeros fill the last one.
        What has exactly its input's shape is the same for all batches. An output without rows is one per batch, if all are whole.
        STEP_ESHAPE: inputs of different numbers of rows, or none; an output of a row depends on what fills the last batch."""
        values = {n: _read(n, v, self._inputs[n].dtype if n in self._inputs else 0) for n, v in values.items()}
        size = {n: self._inputs[n].shape[0] for n, v in values.items() if n in self._inputs and v.ndim == self._inputs[n].rank > 0}
        split = {n: len(v) for n, v in values.items() if n in size and v.shape[0] != size[n]} or {n: size[n] for n in size}
        if len(set(split.values())) != 1 or len({size[n] for n in split}) != 1:
            raise StepError(3, "STEP_ESHAPE: inputs of different numbers of rows: %s" % ", ".join("%s %d" % item for item in split.items()))
        (rows,), (batch,), parts = set(split.values()), {size[n] for n in split}, []
        if not rows:
            raise StepError(3, "STEP_ESHAPE: there are no rows")
        whole = [n for n in values if n in size and n not in split and len(values[n]) == rows and size[n] == batch]

        def filled(part: Dict[str, Any], left: int, of: Any) -> Dict[str, Any]:
            """A whole batch: behind the rows that are left what `of` makes of the first one."""
            return {n: np.concatenate([v, np.repeat(of(v[:1]), batch - left, 0)]) if n in split or n in whole else v for n, v in part.items()}

        def ask(part: Dict[str, Any]) -> Dict[Optional[str], Any]:
            y = self.infer(weights, output, **part)
            return y if isinstance(y, dict) else {None: y}

        for begin in range(0, rows, batch):
            part = {n: v[begin:begin + batch] if n in split or n in whole else v for n, v in values.items()}
            left = rows - begin
            parts.append(ask(filled(part, left, np.zeros_like) if left < batch else part))
        by_row = lambda y: y.ndim and len(y) == batch
        again = ask(filled(part, left, np.copy)) if rows % batch else {}  # what fills the last batch makes no difference
        for n, y in (parts[0] if rows % batch else {}).items():
            if by_row(y) and again[n][:left].tobytes() != parts[-1][n][:left].tobytes():
                raise StepError(3, 'STEP_ESHAPE: "%s" of a row depends on the others of its batch, and the last %d of %d rows are no whole batch of %d' % (n or output or "model", left, rows, batch))
            if not by_row(y):
                raise StepError(3, 'STEP_ESHAPE: "%s" is one for all rows, and the last %d of %d rows are no whole batch of %d' % (n or output or "model", rows % batch, rows, batch))
        join = lambda all: np.concatenate(all)[:rows] if by_row(all[0]) else np.stack(all)
        out = {n: join([p[n] for p in parts]) for n in parts[0]}
        return out if None not in out else out[None]

    def _find(self, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError("a tensor's name: expected str, found %s" % type(name).__name__)
        t = _Tensor()
        status = self._tensor_find(self._instance, _c(name), ctypes.byref(t))
        if status == 2:
            raise StepError(2, 'STEP_ENOTFOUND: no tensor "%s"%s' % (name, _near(name, [n for role in range(PARAM, OUTPUT + 1) for n in self.names(role)])))
        self._check(status)
        return t

    def __contains__(self, name: Any) -> bool:
        """Is there a tensor of that name?"""
        return isinstance(name, str) and self._tensor_find(self._instance, _c(name), ctypes.byref(_Tensor())) == 0

    def __getitem__(self, name: str) -> np.ndarray:
        """A copy of a tensor: of the whole one, also where devices hold parts; bfloat16 as its bits (`numbers`). STEP_ENOTFOUND: no
        such tensor; STEP_EINVAL: an input, or before `init` or `load`. Metrics and outputs are those of the last call, zeros before."""
        t, keep = self._find(name), []  # type: Any, List[Any]
        out, array = self._room(name, t.dtype, tuple(t.shape[:t.rank]), keep)
        self._check(self._read(self._instance, ctypes.byref(array)))
        return out

    def __setitem__(self, name: str, value: Any) -> None:
        """Writes a tensor of the state; neither its average nor its optimizer state changes. STEP_ESHAPE: another shape or kind;
        STEP_ERANGE: a value that its dtype cannot hold; STEP_EINVAL: a tensor that is computed, or before `init` or `load`."""
        t, keep = self._find(name), []  # type: Any, List[Any]
        array = self._given(name, value, keep, t.dtype)
        self._check(self._write(self._instance, ctypes.byref(array)))

    def view(self, name: str) -> View:
        """A tensor where it lies, without a copy: for numpy.asarray, and from_dlpack of NumPy, PyTorch and JAX; read only. It shows what
        later calls write, and keeps this step open for its lifetime unless `close` is called; arrays made of it stay valid then.
        STEP_EUNSUPPORTED: the object was compiled without --views, the tensor is split over a mesh of several devices, or computed
        when it is read; STEP_ENOTFOUND: no such tensor; STEP_EINVAL: an input, or before `init` or `load`."""
        return View(self, name)

    def state(self) -> Dict[str, np.ndarray]:
        """A copy of everything that a run keeps, by name: parameters, averages, optimizer state, other state."""
        return {n: self[n] for role in (PARAM, EMA, OPT_STATE, STATE) for n in self.names(role)}

    def hypers(self) -> Dict[str, float]:
        """The hyper-parameters that can be set, and their values."""
        out, h = {}, _HYPER(size=ctypes.sizeof(_HYPER))
        for i in range(self._hyper_count(self._instance)):
            self._check(self._hyper_at(self._instance, ctypes.c_size_t(i), ctypes.byref(h)))
            out[h.name.decode()] = h.value
        return out

    def get(self, name: str) -> float:
        """The value of a hyper-parameter. STEP_ENOTFOUND: none of that name; the text names the nearest one."""
        value = _f64()
        self._check(self._hyper_get(self._instance, _c(name), ctypes.byref(value)))
        return value.value

    def set(self, name: str, value: float) -> None:
        """A hyper-parameter, until it is set again; NaN gives a schedule of that name back. STEP_ENOTFOUND: none of that name."""
        self._check(self._hyper_set(self._instance, _c(name), _f64(value)))

    def save(self, path: Path) -> None:
        """All state into one .safetensors file, with a checksum, in one go: whole or not there. STEP_EIO: it cannot be written;
        STEP_EUNSUPPORTED: compiled --without checkpoint; STEP_EINVAL: another name than NAME.safetensors. Directories are
        written by `checkpoints`."""
        if not _is_file_name(path):
            raise StepError(1, "STEP_EINVAL: save: %s: expected NAME.safetensors; checkpoints(folder) writes directories" % os.fspath(path))
        save = _Save(directory=_c(os.fsencode(path)))
        self._check(self._save(self._instance, ctypes.byref(save), None))

    def checkpoints(self, folder: Path, keep: Optional[str] = None, compress: Optional[str] = None) -> Checkpoints:
        """A run directory to save into and to resume from; what the rules do not keep is removed after each save: keep=
        "latest=3,every=1000,best=loss:min:2"; None: all are kept. compress: "opt_state" or "all" by Zstandard (libzstd1, also where
        they are read); with the former parameters and averages stay files that others read. A save raises STEP_EDEVICE where it is not there."""
        return Checkpoints(self, folder, keep, compress)

    def item(self, name: str) -> Any:
        """What was saved under this name beside the state that was loaded last; None: nothing. STEP_ECORRUPT: a host saved no JSON."""
        text = self._item(self._instance, _c(name))
        try:
            return None if text is None else json.loads(text)
        except (ValueError, RecursionError) as e:
            raise StepError(7, 'STEP_ECORRUPT: item "%s" is no JSON: %s' % (name, e)) from None

    def _save_into(self, folder: Path, keep: Optional[str] = None, items: Optional[Dict[str, Any]] = None, metrics: Optional[Dict[str, float]] = None,
                   compress: Optional[str] = None) -> Any:
        """Copies the state and begins to write it: a job."""
        some = [_ITEM(size=ctypes.sizeof(_ITEM), name=_c(n), json=_json(v, "items").encode()) for n, v in (items or {}).items()]
        numbers = [_HYPER(size=ctypes.sizeof(_HYPER), name=_c(n), value=v) for n, v in (metrics or {}).items()]
        beside, told, job = (_ITEM * max(len(some), 1))(*some), (_HYPER * max(len(numbers), 1))(*numbers), _p()
        save = _Save(directory=_c(os.fsencode(folder)), items=ctypes.cast(beside, _p), item_count=len(some), metrics=ctypes.cast(told, _p),
                     metric_count=len(numbers), keep=None if keep is None else _c(keep), flags=_COMPRESS[compress])
        self._check(self._save(self._instance, ctypes.byref(save), ctypes.byref(job)))
        return job

    def load(self, path: Path, map: Optional[Dict[str, str]] = None, partial: bool = False, cast: bool = False, params_only: bool = False,
             verify: bool = True, prefix: str = "") -> None:
        """A checkpoint directory, a run directory (its newest whole checkpoint), a file of all state, with which a training goes on, or of parameters and running statistics, with which one begins.
        map: which tensors are taken under which names, {"encoder.*.**": "blocks.*.**", "head.**": "init", "**": "**"}: the first
        rule that fits (`stepc doc state`). partial: names may be missing, which keep their values, or unknown. cast: floats may have
        another dtype. params_only: parameters alone; all else is as `init` leaves it, or keeps its values in a training.
        verify=False: checksums are not compared. prefix: parameters are the tensors of that prefix: "ema." takes the averages, with
        running statistics.
        What fails leaves the state as it was: STEP_EIO, STEP_ECORRUPT (the place is named), STEP_ENOTFOUND, STEP_ESHAPE and STEP_ERANGE (the tensor is)."""
        path = os.fspath(path)
        with tempfile.TemporaryDirectory() as folder:
            if prefix:
                path = self._parameters_of(path, prefix, os.path.join(folder, os.path.basename(path.rstrip("/"))))
            flags = (1 if partial else 0) | (2 if cast else 0) | (4 if params_only else 0) | (0 if verify else 8)
            load = _Load(path=_c(os.fsencode(path)), map=None if map is None else _json(map, "map").encode(), flags=flags)
            status = self._load(self._instance, ctypes.byref(load)) if self._ready or not (flags & 5 or load.map) else 3
            if status in (1, 3) and not self._ready:  # not all of the state: the rest is what init leaves
                begun = self._init(self._instance) if self._tensors(PARAM) else 0
                if begun not in (0, 15):  # 15: an object without initial values
                    self._check(begun)
                status = self._load(self._instance, ctypes.byref(load))
            self._check(status)
        self._ready = True

    def _parameters_of(self, path: str, prefix: str, out: str) -> str:
        """A file of the parameters, which have a prefix in `path`, and running statistics."""
        head, data = _open(path)
        wanted = {n: prefix + n for n in self.names(PARAM)}
        numbers = {t.name.decode() for t in self._tensors(STATE) if not t.rank}  # a block may be called as these are
        wanted.update((n, n) for n in self.names(STATE) if n not in numbers or n.split(".")[0] not in ("step", "data", "loss_scale", "rng", "hyperparameters"))
        new, parts, at = {}, [], 0
        for name, source in wanted.items():
            if source in head:
                begin, end = head[source]["data_offsets"]
                new[name] = dict(head[source], data_offsets=[at, at + end - begin])
                parts.append(data[begin:end])
                at += end - begin
        text = json.dumps(new).encode()
        with open(out, "wb") as f:
            f.write(len(text).to_bytes(8, "little") + text + b"".join(parts))
        return out

    def memory(self, device: int = 0) -> Any:
        """Bytes by class on one device: parameters, averages, optimizer_state, other_state, gradients, activations, workspace,
        communication, code; planned_peak and measured_peak of its arena, lower_bound. STEP_ENOTFOUND: no such device here."""
        m = _Memory()
        self._check(self._memory(self._instance, _u32(min(max(device, -1), 2**32 - 1)), ctypes.byref(m)))
        return m

    def bind(self, **values: Any) -> Callable[[], Bound]:
        """A function that trains a step on these arrays each time: nothing is looked up, checked or copied again. What is written
        into them in between is seen, so they must be what the document declares (dtype, shape), else StepError; numbers are
        hyper-parameters of these steps. It gives a result whose step, loss and metrics are read where they are asked."""
        for n, v in values.items():
            code = self._inputs[n].dtype if n in self._inputs else None
            if code is not None and not (isinstance(v, np.ndarray) and v.dtype == _DTYPES.get(code) and v.dtype.isnative and
                                         not any(s % v.itemsize for s in v.strides)):
                raise StepError(3, 'STEP_ESHAPE: bind: "%s": expected an array of %s, to be read where it lies; found %s' % (
                    n, "bfloat16 (uint16 of its bits)" if code == BFLOAT16 else np.dtype(_DTYPES.get(code, np.uint8)).name,
                    v.dtype if isinstance(v, np.ndarray) else "%s, which is no array of NumPy" % type(v).__name__))
        keep: List[Any] = [values]
        metrics = (_f64 * max(len(self._metrics), 1))()
        batch, result = self._batch(values, keep), _Result(metrics=metrics, metric_capacity=len(self._metrics))
        keep.append(batch)
        if any(n in self._inputs and k.data != v.ctypes.data for (n, v), k in zip(
                ((n, v) for n, v in values.items() if n in self._inputs), keep[-3])):
            raise StepError(3, "STEP_ESHAPE: bind: an array that cannot be read where it lies")
        bound, entry, run, holder = Bound(result, metrics, self._metrics), self._step, self._check, self
        b, r = ctypes.byref(batch), ctypes.byref(result)

        def call(keep: Any = keep) -> Bound:
            status = entry(holder._instance, b, r)
            if status:
                run(status)
            return bound
        return call

    def close(self) -> None:
        """Waits for a save that runs, then ends threads and frees the memory, or leaves it to the arrays of a `view` that are still
        there. A second time it does nothing; in the child of a fork the parent's is left alone."""
        if self._process == os.getpid():
            with self._living:
                self._destroy(self._instance)
        else:
            self._instance = _p()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Checkpoints:
    """A run directory. One save runs at a time, in the background; what it has met is raised by the next call or at the end."""

    def __init__(self, step: Step, folder: Path, keep: Optional[str] = None, compress: Optional[str] = None) -> None:
        if compress not in _COMPRESS:
            raise ValueError('compress="%s": expected opt_state or all' % compress)
        if _is_file_name(folder):
            raise ValueError("%s: a name that ends in .safetensors is one of a file, not of a folder; save(path) writes it" % os.fspath(folder))
        self.folder, self.keep, self.compress, self._step = os.fspath(folder), keep, compress, step
        self._job: Any = None

    def list(self) -> List[types.SimpleNamespace]:
        """What is there (see `stepc.checkpoints`), the oldest first; nothing if there is no such folder yet."""
        return checkpoints(self.folder) if os.path.isdir(self.folder) else []

    def resume(self, step: Optional[int] = None, **how: Any) -> Optional[int]:
        """Loads the newest whole checkpoint, or that of a step, as `Step.load` says; its step. None: there is none yet. Errors are
        those of `Step.load`."""
        self.wait()
        there = _u64(0)  # for any rank of a mesh: then all of them load
        self._step._check(self._step._agree(self._step._instance, _u64(step is not None or len(self.list()) > 0), ctypes.byref(there)))
        if not there.value:
            return None
        self._step.load(self.folder if step is None else os.path.join(self.folder, "step-%d" % step), **how)
        return int(self._step["step"]) if "step" in self._step.names(STATE) else step

    def item(self, name: str) -> Any:
        """What was saved under this name beside the state that was loaded last; None: nothing."""
        return self._step.item(name)

    def save(self, items: Optional[Dict[str, Any]] = None, metrics: Optional[Dict[str, float]] = None) -> None:
        """Begins once the one before has ended; training goes on meanwhile. items: what JSON can hold, by name; metrics: what
        keep="best=..." asks for. What goes wrong is raised by the next call, or at the end: STEP_EIO."""
        self.wait()
        self._job = self._step._save_into(self.folder, self.keep, items, metrics, self.compress)

    def wait(self) -> None:
        """Until what was saved is on the disk. STEP_EIO: it is not."""
        job, self._job = self._job, None
        if job is None:
            return
        try:
            self._step._check(self._step._job_wait(job, _i64(-1)), free=True)
        finally:
            self._step._job_free(job)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.wait()
        except StepError:
            if kind is None:
                raise
