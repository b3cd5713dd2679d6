"""Views of tensors in samples/stepc.py: the state itself, whatever a step does with it, valid as long as somebody has one; and the
module's own face: every public name has types and a docstring. NumPy; PyTorch and JAX where they are. views.py STEPC MODEL.JSON DTYPES_FOLDER"""
import gc
import importlib.util
import inspect
import os
import sys
import typing

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../../samples"))
import stepc
from refusal import refused

os.environ["STEPC"], model = sys.argv[1:3]


def data(m, seed):
    rng = np.random.default_rng(seed)
    return {n: rng.normal(size=t.shape[:t.rank]).astype("f4") for n, t in m._inputs.items()}


m, plain = stepc.compile(model, threads=1), stepc.compile(model, threads=1, views=False)
refused(stepc.StepError, "call init or load first", lambda: m.view("layers.0.kernel"))
m.init(), plain.init()
name = "layers.0.kernel"
refused(stepc.StepError, "needs compile --views", lambda: plain.view(name))
refused(stepc.StepError, 'did you mean "layers.0.kernel"', lambda: m.view("layers.0.kernl"))
refused(stepc.StepError, "is an input", lambda: m.view("x"))
views = {n: m.view(n) for role in (stepc.PARAM, stepc.OPT_STATE, stepc.STATE, stepc.METRIC) for n in m.names(role)}
arrays = {n: np.asarray(v) for n, v in views.items()}
assert len(arrays) > 8 and {a.dtype.kind for a in arrays.values()} > {"f"}


def same():
    for n, a in arrays.items():
        assert np.array_equal(a, m[n], equal_nan=True), n


same()
a = arrays[name]
assert not a.flags.writeable and not a.flags.owndata and a.shape == views[name].shape and a.dtype == np.float32
refused(ValueError, "", lambda: a.__setitem__(0, 1))
again = np.from_dlpack(views[name])
assert again.ctypes.data == a.ctypes.data == np.asarray(views[name]).ctypes.data and not again.flags.writeable
assert np.array(views[name], np.float64).dtype == np.float64 and np.array(views[name]).flags.writeable
assert views[name].__dlpack_device__() == (1, 0)
refused(BufferError, "expected device (1, 0)", lambda: views[name].__dlpack__(dl_device=(2, 0)))
refused(BufferError, "copies are made by reading", lambda: views[name].__dlpack__(copy=True))
for _ in range(100):  # capsules that nobody takes are given back
    views[name].__dlpack__(), views[name].__dlpack__(max_version=(1, 1))
# Whatever becomes of a step, the arrays are the state, at the addresses where they were, and the steps those of one without views.
for k in range(6):
    given = data(m, k)
    how = [{}, {"on_nonfinite": "skip"}, {"accept": lambda r: True}, {"accept": lambda r: False}][k % 4]
    assert m.step(**how, **given).loss == plain.step(**how, **given).loss
    same()
    before = a.copy()
    for step in (m, plain):
        with step.compute(**given) as r:
            assert np.array_equal(a, before) or step is plain
            r.commit()
    same()
    assert not np.array_equal(a, before)
bad = {n: np.full_like(v, np.nan) for n, v in given.items()}
before = a.copy()
assert not m.step(on_nonfinite="skip", **bad).accepted and np.array_equal(a, before)
m.step_n(3, **{n: np.stack([v] * 3) for n, v in given.items()}), plain.step_n(3, **{n: np.stack([v] * 3) for n, v in given.items()})
same()
for n in m.names() + m.names(stepc.OPT_STATE):
    assert np.array_equal(m[n], plain[n]), n
m[name] = 2 * a
same()
# What is a view of the state may be given as an input, or written into the state: it is copied first, as a step updates tensors while
# it still reads its inputs, and a tensor that is written from itself would change while it is read.
square = {"stepc": 1, "inputs": {"x": {"shape": [64, 64]}}, "model": {"type": "sequential", "input": "x", "layers": [
    {"type": "linear", "features": 64, "name": "first"}, {"type": "tanh"}, {"type": "linear", "features": 64, "name": "last"}]},
    "loss": "mean((model - x)**2)", "optimizer": {"type": "sgd", "learning_rate": 1.0}}
own, copied = (stepc.compile(square, threads=1) for _ in range(2))
own.init(), copied.init()
for n in ("first.kernel", "last.kernel"):
    seen, shown = np.asarray(own.view(n)), np.asarray(own.view("model"))
    train = own.bind(x=seen)
    for k in range(6):
        result = own.step(x=seen) if k % 2 else train()
        assert result.loss == copied.step(x=copied[n]).loss
        assert all(np.array_equal(own[t], copied[t]) for t in own.names()), (n, k)
    own[n], copied[n] = seen[::-1], copied[n][::-1]
    assert np.array_equal(own[n], copied[n]), n
    own.infer(x=seen)
    assert np.array_equal(own.infer(x=shown), copied.infer(x=copied.infer(x=copied[n])))
m.init()
same()
m.step(**given)
# What is set for a schedule holds until NaN is set; what has no schedule cannot be NaN.
falling = {"type": "linear_schedule", "init_value": 0.5, "end_value": 0.1, "transition_steps": 4}
rate = {**square, "optimizer": {"type": "inject_hyperparams", "opt": {"type": "sgd", "learning_rate": falling, "momentum": 0.5}}, "metrics": {"rate": "hyperparams.learning_rate"}}
scheduled, x = stepc.compile(rate, threads=1), np.ones((64, 64), "f4")
scheduled.init()
rates = []
for value in (None, 0.25, None, np.nan, None):
    if value is not None:
        scheduled.set("learning_rate", value)
    rates.append(scheduled.step(x=x).metrics["rate"])
assert np.allclose(rates, [0.5, 0.25, 0.25, 0.2, 0.1]), rates
finite = "must be finite in float32"
refused(stepc.StepError, finite, lambda: scheduled.set("momentum", np.nan))
for beyond in (np.inf, -np.inf, 1e300):
    for n in ("momentum", "learning_rate"):
        refused(stepc.StepError, finite, lambda: scheduled.set(n, beyond))
        refused(stepc.StepError, finite, lambda: scheduled.step(x=x, **{n: beyond}))
# Others see the same memory.
if importlib.util.find_spec("torch"):
    import torch
    t = torch.from_dlpack(views[name])
    assert t.data_ptr() == a.ctypes.data and t.shape == a.shape and t.dtype == torch.float32
    m.step(on_nonfinite="skip", **given)
    assert np.array_equal(t.numpy(), m[name])
else:
    t = None
    print("skipped: PyTorch is not installed: from_dlpack")
if importlib.util.find_spec("jax"):
    import jax.numpy as jnp
    j = jnp.from_dlpack(views[name])
    assert j.shape == a.shape and np.array_equal(np.asarray(j), m[name])
    del j
else:
    print("skipped: JAX is not installed: from_dlpack")
# Every dtype is what DLPack calls it.
codes = {"bool": (6, 8), "uint8": (1, 8), "uint16": (1, 16), "uint32": (1, 32), "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "float16": (2, 16),
         "bfloat16": (4, 16), "float32": (2, 32)}
with stepc.compile({"stepc": 1, "name": "dtypes", "inputs": {k: {"shape": [4, 3], "dtype": k, "axes": ["batch", None]} for k in codes}, "loss": "sum(float32) + astype(params.w, 'float32')",
                    "model": {"type": "graph", "output": {k: k for k in codes}, "nodes": [{"type": "param", "name": "w", "shape": [], "dtype": "bfloat16"}]},
                    "optimizer": {"type": "sgd", "learning_rate": 1.0}}, threads=1) as every:
    every.init()
    every["w"] = 1.5
    assert stepc.numbers(np.asarray(every.view("w"))) == 1.5 and every.view("w").shape == ()
    for kind, code in {**{"model." + k: c for k, c in codes.items()}, "w": (4, 16)}.items():
        managed = every.view(kind)._managed(True)
        told = stepc._Versioned.from_address(managed)
        assert (told.tensor.code, told.tensor.bits, told.tensor.lanes, told.flags, told.major) == (*code, 1, 1, 1), kind
        assert told.tensor.strides[:told.tensor.rank] == ([] if kind == "w" else [3, 1]), kind
        told.deleter(managed)
        if t is not None:
            assert str(torch.from_dlpack(every.view(kind)).dtype) == "torch." + (kind.split(".")[1] if kind != "w" else "bfloat16")
# Arrays of PyTorch as inputs: those of bfloat16, which NumPy lacks, in any order of memory; what is not given says how.
both = {"stepc": 1, "name": "both", "inputs": {"b": {"shape": [4, 3], "dtype": "bfloat16", "axes": ["batch", None]}, "f": {"shape": [4, 3], "axes": ["batch", None]}},
        "model": {"type": "graph", "output": {"b": "b", "f": "f"}, "nodes": [{"type": "param", "name": "w", "shape": []}]}, "loss": "mean(f) + params.w",
        "optimizer": {"type": "sgd", "learning_rate": 1.0}}
if t is not None:
    with stepc.compile(both, threads=1) as m2:
        m2.init()
        grid = torch.arange(24, dtype=torch.bfloat16)
        plain = torch.ones(4, 3)
        for b in (grid[:12].reshape(4, 3), grid[:12].reshape(3, 4).t(), grid[12:].reshape(4, 3), grid.reshape(4, 6)[:, ::2]):
            assert np.array_equal(stepc.numbers(m2.infer(b=b, f=plain)["model.b"]), b.float().numpy())
            assert np.array_equal(stepc.numbers(m2.infer_rows(b=b, f=plain)["model.b"]), b.float().numpy())
            refused(3, '"f": an array of bfloat16', lambda: m2.infer(b=b, f=b))
        for call in (m2.infer, m2.infer_rows, m2.step):
            for what, text in ((plain.clone().requires_grad_(), "detach()"), (torch.complex(plain, plain).conj().imag, "resolve_neg()"),
                               (plain.to("meta"), "meta"), (plain.to_sparse(), "")):
                refused(3, text, lambda: call(b=grid[:12].reshape(4, 3), f=what))
            for what, text in ((b.clone().requires_grad_(), "detach()"), (torch._neg_view(b), "resolve_neg()"), (b.to("meta"), "meta")):
                refused(3, text, lambda: call(b=what, f=plain))
    del m2, grid, plain, b, what
# A view keeps its step open; arrays keep the memory, also behind close, which frees it with the last one.
last, view = m[name], views[name]
del m, views
gc.collect()
assert np.array_equal(np.asarray(view), last)
view._step.close()
refused(stepc.StepError, "was closed", lambda: np.asarray(view))
del view
gc.collect()
assert np.array_equal(a, last) and np.array_equal(again, last) and (t is None or np.array_equal(t.numpy(), last))
del a, again, t, arrays
gc.collect()


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def once():  # 40 MB of parameters, closed before the array goes
    with stepc.Step(large, threads=1) as step:
        step.init()
        kept = np.asarray(step.view("layers.0.kernel"))
    assert np.isfinite(kept).all()


large = os.path.join(sys.argv[3], "views_large.so")
document = {"stepc": 1, "name": "one", "inputs": {"x": {"shape": [4, 1000], "dtype": "float32", "axes": ["batch", None]}}, "loss": "mean(model**2)", "seed": 0,
            "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 10000}]}, "optimizer": {"type": "sgd", "learning_rate": 0.1}}
stepc.compile(document, output=large, target="cpu").close()
once()
begin = resident()
for _ in range(5):
    once()
assert resident() < begin + 60e6, (begin, resident())
# What NumPy does not take it says itself, and lets go of.
narrow = os.path.join(sys.argv[3], "views_narrow.so")
document["model"]["layers"][0]["param_dtype"] = "bfloat16"
stepc.compile(document, output=narrow, target="cpu").close()
begin = resident()
for k in range(8):  # of 20 MB
    with stepc.Step(narrow, threads=1) as step:
        step.init()
        seen = step.view("layers.0.kernel")
        for taken in (seen, step.view("layers.0.kernel")):
            refused((RuntimeError, BufferError), "", lambda: np.from_dlpack(taken))
        del seen, taken
        gc.collect()
assert resident() < begin + 60e6, (begin, resident())
del document["model"]["layers"][0]["param_dtype"]
# What a mesh splits is refused by name; what all devices have is not.
document["inputs"]["x"]["shape"], document["model"]["layers"][0]["features"] = [4, 8], 16
mesh = stepc.compile({**document, "mesh": {"axes": {"model": 2}}, "sharding": {"params": {"layers.0.kernel": [None, "model"]}}}, threads=1)
mesh.init()
refused(stepc.StepError, '"layers.0.kernel" is split over the mesh of 2 devices', lambda: mesh.view("layers.0.kernel"))
bias = np.asarray(mesh.view("layers.0.bias"))
mesh.step(x=np.ones((4, 8)))
assert np.array_equal(bias, mesh["layers.0.bias"]) and bias.any()
mesh.close()
# Types and docstrings of all that is public.
public = [(n, v) for n, v in vars(stepc).items() if not n.startswith("_") and getattr(v, "__module__", "") == "stepc" and (inspect.isfunction(v) or inspect.isclass(v))]
for n, v in list(public):
    if inspect.isclass(v):
        public += [("%s.%s" % (n, k), f.fget if isinstance(f, property) else f) for k, f in vars(v).items()
                   if (inspect.isfunction(f) or isinstance(f, property)) and (not k.startswith("_") or k in ("__init__", "__getitem__", "__setitem__", "__array__", "__dlpack__"))]
assert len(public) > 40, public
for n, v in public:
    if inspect.isfunction(v):
        hints = typing.get_type_hints(v)
        missing = [p for p in inspect.signature(v).parameters if p not in hints and p != "self"] + [r for r in ("return",) if r not in hints]
        assert not missing, (n, missing)
    assert v.__doc__ or n.startswith(("Bound.", "StepError.")) or n.endswith(".__init__"), n
print("views: whole; %d public names" % len(public))
