"""A host in Python through samples/stepc.py: plays a recorded case and compares its numbers, asks for what must be
refused, sets all state of another step by name, evaluates and infers. host.py STEP.SO CASE TWO-RATES.SO OUTPUTS.SO; CASE.SO lies
beside the folder CASE with its files."""
import os
import sys
import tempfile

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, ".."), os.path.join(here, "../../samples")]
import refusal
import stepc
from tool import recorded


def refused(status, call):
    refusal.refused(status, "", call)


case = recorded.load(sys.argv[2])
data = case.arrays("data")
with stepc.Step(sys.argv[1], threads=1) as m:
    m.init()
    m.load(os.path.join(os.path.dirname(sys.argv[1]), case.name, "init.safetensors"))
    got = [m.step(**{k: v[i % len(v)] for k, v in data.items()}).loss for i in range(case.steps)]
    np.testing.assert_allclose(got, case.metrics["loss"], rtol=case.rtol, atol=case.atol)
    for name, want in case.arrays("expected").items():
        np.testing.assert_allclose(m[name], want, rtol=case.rtol, atol=case.atol)
    first = {k: v[0] for k, v in data.items()}
    strided = {k: np.asfortranarray(v) for k, v in first.items()}  # other strides, same numbers
    assert m.eval(**first).loss == m.eval(**strided).loss
    y = m.infer(x=first["x"])  # without labels
    np.testing.assert_allclose(np.mean((y - first["y"]) ** 2), m.eval(**first).loss, rtol=1e-5)
    assert not np.array_equal(m.infer("ema", x=first["x"]), y)
    kept = m.state()
    bad = dict(first, x=np.full_like(first["x"], np.nan))
    refused(12, lambda: m.step(on_nonfinite="stop", **bad))
    r = m.step(on_nonfinite="skip", **bad)
    assert not r.finite and not r.accepted
    r = m.step(accept=lambda r: r.finite and r.loss < 0, **first)
    assert r.finite and not r.accepted
    try:
        m.step(accept=lambda r: 1 / 0, **first)
        raise AssertionError("what the host raises is lost")
    except ZeroDivisionError:
        pass
    with m.compute(**first) as r:
        assert r.finite and r.accepted and m.eval(**first).loss == r.loss
    refused(1, r.commit)
    with m.compute(on_nonfinite="skip", **bad) as r:
        assert not r.accepted
        refused(1, r.commit)
    waits = m.compute(**first)
    m["step"] = m["step"]
    refused(1, waits.commit)
    assert all(m[n].tobytes() == v.tobytes() for n, v in kept.items())
    older = m.compute(**first)
    with m.compute(**first) as r:
        refused(1, older.commit)
        older.discard()
        r.commit()
    committed = m.state()
    assert committed["step"] == kept["step"] + 1
    for name, value in kept.items():
        m[name] = value
    after = m.step(**first).loss
    assert after == r.loss and all(m[n].tobytes() == v.tobytes() for n, v in committed.items())
    for name, value in kept.items():
        m[name] = value
    assert m.step(**first).loss == after
    assert set(kept) >= {"step", "hyperparameters.learning_rate", "opt_state.0.count"} and m.hypers() == {"learning_rate": m.get("learning_rate")}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.safetensors")
        m.save(os.fsencode(path))
        after = m.step(**first).loss
        m.load(path)
        assert m.step(**first).loss == after
        with open(path, "r+b") as f:
            f.truncate(100)
        refused(7, lambda: m.load(path))
    refused(2, lambda: m["no.such.tensor"])
    refused(3, lambda: m.step(**{k: v[:, :1] for k, v in first.items()}))
    refused(2, lambda: m.set("no_such_value", 1.0))
with stepc.Step(sys.argv[3], threads=1) as m:  # a first moment in bfloat16, a schedule, a learning rate per part
    m.init()
    rng = np.random.default_rng(0)
    batch = {"x": rng.normal(size=(8, 3)).astype("f4")}
    for _ in range(3):
        m.step(**batch)
    kept = m.state()
    half = "opt_state.inner_states.a.inner_state.0.mu.w"
    m[half] = stepc.numbers(kept[half])
    assert (m[half] == kept[half]).all() and (stepc.bits([1.00390625, 1.01171875, np.inf, -0.0]) == [0x3f80, 0x3f82, 0x7f80, 0x8000]).all()
    assert kept[half].dtype == np.uint16 and m["opt_state.inner_states.b.inner_state.1.count"] == 3
    losses = [m.step(**batch).loss for _ in range(3)]
    for name, value in kept.items():
        m[name] = value
    assert [m.step(**batch).loss for _ in range(3)] == losses
    assert m.hypers() == {"transforms.a.learning_rate": 0.01}
    m.set("transforms.a.learning_rate", 0.5)
    assert m["hyperparameters.transforms.a.learning_rate"] == 0.5
    refused(1, lambda: m.set("transforms.b.learning_rate", 0.5))  # it follows a schedule
    refused(2, lambda: m.set("learning_rate", 0.5))
for threads in (-1, 4097, 2**32 + 1):
    refused(1, lambda: stepc.Step(sys.argv[4], threads=threads))
with stepc.Step(sys.argv[4], threads=1) as m:  # several outputs, files of parameters alone, what must be refused
    rng = np.random.default_rng(1)
    batch = {"tokens": rng.integers(0, 7, (4, 3)).astype("i4"), "x": rng.normal(size=(4, 2)).astype("f4"), "y": rng.normal(size=4).astype("f4")}
    given = {k: batch[k] for k in ("tokens", "x")}
    refused(1, lambda: m.infer(**given))
    for device in (-1, 1, 2**32):
        refused(2, lambda: m.memory(device))
    m.init()
    for _ in range(4):
        m.step(**batch)
    out, r = m.infer(**given), m.eval(**batch)
    assert m.names(stepc.OUTPUT) == ["model.score", "model.class", "model.half"] == list(out)
    assert out["model.class"].dtype == np.int32 and out["model.half"].dtype == np.uint16 and stepc.numbers(out["model.half"]).shape == (4, 6)
    assert abs(np.mean((out["model.score"] - batch["y"]) ** 2) - r.loss) < 1e-5 and np.isnan(r.metrics["grads"]) and r.metrics["error"] > 0
    assert (m.infer(output="model.score", **given) == out["model.score"]).all() and m.eval(**batch).loss == r.loss
    assert (m["rows"] == abs(out["model.score"] - batch["y"])).all()
    records = np.zeros(4, [("a", "i1"), ("y", "f4")])  # a field of records lies at odd addresses
    records["y"] = batch["y"]
    assert m.eval(**dict(batch, y=records["y"])).loss == r.loss == m.eval(**dict(batch, y=batch["y"][::-1].copy()[::-1])).loss
    for status, change in ((3, {"tokens": batch["tokens"].astype("f4")}), (3, {"x": batch["x"][:, :1]}), (3, {"x": "text"}), (3, {"x": batch["x"].astype(complex)}),
                           (4, {"x": np.full((4, 2), -1e39)}), (3, {"x": None}), (3, {"x": [[1], [1, 2]]}), (4, {"tokens": batch["tokens"] + 7}), (2, {"z": 1.0})):
        refused(status, lambda: m.infer(**dict(given, **change)))
    refused(2, lambda: m.step(tokens=batch["tokens"], z=batch["x"], y=batch["y"]))
    refused(2, lambda: m.infer(tokens=batch["tokens"]))
    refused(2, lambda: m.infer(output="model", **given))
    refused(2, lambda: m.infer("slow", **given))
    refused(2, lambda: m.eval(**given))
    tokens, many = rng.integers(0, 7, (11, 3)).astype("i4"), rng.normal(size=(11, 2)).astype("f4")
    rows = m.infer_rows(tokens=tokens, x=many)
    assert {n: v.shape for n, v in rows.items()} == {"model.score": (11,), "model.class": (11,), "model.half": (11, 6)}
    for k in (0, 4, 7):
        part = m.infer(tokens=tokens[k:k + 4], x=many[k:k + 4])
        assert all((part[n] == rows[n][k:k + 4]).all() for n in part)
    assert (m.infer_rows(output="model.score", **given) == out["model.score"]).all() and len(m.infer_rows("ema", "model.score", tokens=tokens[:2], x=many[:2])) == 2
    refused(3, lambda: m.infer_rows(tokens=tokens, x=many[:9]))
    refused(3, lambda: m.infer_rows(tokens=tokens, x=many[:, :1]))
    refused(2, lambda: m.infer_rows(tokens=tokens, z=many))
    with tempfile.TemporaryDirectory() as folder:
        path, other = os.path.join(folder, "state.safetensors"), os.path.join(folder, "other.safetensors")
        m.save(path)
        averaged, averages = m.infer("ema", **given)["model.score"], m.state()
        with stepc.Step(sys.argv[4], threads=1) as fresh:
            fresh.load(path, params_only=True)  # a training begins with them: no count, averages are copies
            assert fresh["step"] == 0 and (fresh["ema.head.kernel"] == fresh["head.kernel"]).all() and (fresh["head.kernel"] == m["head.kernel"]).all()
            assert fresh.eval(**batch).loss != r.loss  # its statistics are those of init
            anew = {n: "reset" for n in ("opt_state.**", "step", "ema.**")}
            fresh.load(path, map=dict(anew, **{"**": "**"}))
            assert fresh.eval(**batch).loss == r.loss and fresh["step"] == 0
            fresh.load(path, map={"ema.head.kernel": "head.kernel", "**": "**"}, partial=True, verify=False)
            assert fresh["step"] == 4 and (fresh["ema.head.kernel"] == m["head.kernel"]).all()
            refused(3, lambda: fresh.load(path, map={"ema.head.kernel": "head.kernel", "head.kernel": "none", "**": "**"}))
            refused(1, lambda: fresh.load(path, map={"{a}": "b"}))
            fresh.load(path, prefix="ema.")
            assert (fresh.infer(output="model.score", **given) == averaged).all()
            fresh.load(path)
            assert fresh["step"] == 4 and all((fresh[n] == v).all() for n, v in averages.items())
        with stepc.Step(sys.argv[1], threads=1) as another:
            refused(3, lambda: another.load(path))  # of another model
            refused(3, lambda: another.load(path, params_only=True))
            another.load(path, partial=True)
            refused(2, lambda: another.infer(x=first["x"], output="model.score"))
        refused(3, lambda: m.load(path, prefix="slow."))
        with open(other, "wb") as f:
            f.write(b"no safetensors file")
        refused(7, lambda: m.load(other))
        refused(7, lambda: m.load(other, params_only=True))
        refused(6, lambda: m.load(os.path.join(folder, "none"), params_only=True))
print("Python host: all checks passed")
with stepc.Step(sys.argv[4], threads=1) as m, tempfile.TemporaryDirectory() as folder:  # checkpoint directories
    runs = os.path.join(folder, "deep", "runs")
    m.init()
    with m.checkpoints(runs, keep="latest=2") as saved:
        assert saved.list() == [] and saved.resume() is None
        for at in range(5):
            r = m.step(**batch)
            saved.save(metrics={"loss": r.loss}, items={"loader": {"at": at}})
    there = stepc.checkpoints(runs)
    assert [c.step for c in there] == [4, 5] and all(c.complete and c.bytes > 100 for c in there) and there[1].metrics == {"loss": r.loss}
    state = m.state()
    m.step(**batch)
    with stepc.Step(sys.argv[4], threads=1) as other:
        again = other.checkpoints(runs)
        assert again.resume() == 5 and again.item("loader") == {"at": 4} and again.item("none") is None
        assert all((other[n] == v).all() for n, v in state.items())
        assert again.resume(4) == 4 and again.item("loader") == {"at": 3}
        assert again.resume(map={"head.*": "init", "**": "**"}) == 5 and not (other["head.kernel"] == state["head.kernel"]).all()
        other.load(runs, params_only=True)
        assert all((other[n] == state[n]).all() for n in other.names())
        refused(6, lambda: again.resume(77))
        refused(6, again.save)  # step-4 is there
    kept = sorted(os.listdir(runs))
    refused(1, lambda: m.checkpoints(runs, keep="most=3").save())
    refused(6, lambda: m.checkpoints("/proc/none").save())
    refused(1, lambda: m.save(runs))  # a file is written by its name, a folder by checkpoints()
    assert sorted(os.listdir(runs)) == kept
    try:
        m.checkpoints(runs + ".safetensors")
        raise AssertionError("the name of a file was taken for a folder's")
    except ValueError as e:
        assert "is one of a file" in str(e), e
    saved.save()
    saved.wait()
    os.truncate(os.path.join(runs, "step-5", "params.safetensors"), 50)
    assert [c.complete for c in stepc.checkpoints(runs)] == [False, True]

