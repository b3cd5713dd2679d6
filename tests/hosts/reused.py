"""Calls of samples/stepc.py that use again what an earlier one told the object: whatever the arrays of one call were, and whoever
called meanwhile, the next one computes with its own. reused.py STEPC DIGITS.JSON"""
import json
import os
import sys
import threading
import warnings
import weakref

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../../samples"))
import stepc
from refusal import refused

os.environ["STEPC"] = sys.argv[1]

with open(sys.argv[2], encoding="utf-8") as f:
    document = json.load(f)
document["optimizer"]["learning_rate"] = 3e-3  # not of a schedule: it can be given with a call
m = stepc.compile(document, constants={"batch": 8, "hidden": 16}, threads=1)
m.init()
rng = np.random.default_rng(0)
images = [(rng.integers(0, 17, (8, 64)) / 16).astype("f4") for _ in range(4)]
digits = [rng.integers(0, 10, 8).astype("i4") for _ in range(4)]
state = m.state()


def anew():
    for name, value in state.items():
        m[name] = value


def fresh(call, **values):
    """What a call gives in which nothing is used again."""
    m._calls.clear()
    return call(**values)


def same(a, b):
    assert repr((a.step, a.loss, a.metrics, a.finite, a.accepted)) == repr((b.step, b.loss, b.metrics, b.finite, b.accepted)), (a, b)
    return b


wanted = [fresh(m.eval, image=i, digit=d) for i, d in zip(images, digits)]
assert len({r.loss for r in wanted}) == 4 and repr(wanted[0]).startswith("Result(step=0, loss=") and wanted[0] != wanted[1]
# arrays of every kind in turn under the same names; what was given is not kept
kinds = {"as declared": lambda a: a.copy(), "float64, int64": lambda a: a.astype(a.dtype.kind + "8"), "read only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
         "backwards": lambda a: a[::-1].copy()[::-1], "another byte order": lambda a: a.astype(a.dtype.newbyteorder()), "in Fortran's order": np.asfortranarray,
         "an equal dtype": lambda a: a.view(np.dtype(a.dtype, metadata={"a": 1})), "a list": lambda a: a.tolist() if a.dtype.kind == "i" else a, "of records": lambda a: np.rec.fromarrays([a, a], names="a,b")["a"],
         "at an odd address": lambda a: np.frombuffer(b"a" + a.tobytes(), a.dtype, a.size, 1).reshape(a.shape)}
with warnings.catch_warnings():
    warnings.simplefilter("error")
    for name, other in kinds.items():
        for k, (image, digit) in enumerate(zip(images, digits)):
            given = other(image), other(digit)
            gone = weakref.ref(given[0])
            same(m.eval(image=given[0], digit=given[1]), wanted[k])
            same(m.eval(digit=digit, image=given[0]), wanted[k])
            same(m.eval(image=image, digit=digit), wanted[k])
            del given
            assert gone() is None or gone() is image, name
assert {names: len(calls) for names, calls in m._calls.items()} == {("image", "digit"): 1, ("digit", "image"): 1}, m._calls
moved = np.zeros((8, 64), "f4")
for k, (image, digit) in enumerate(zip(images, digits)):  # one array in other memory
    moved.resize(1 << 16 + k, refcheck=False)
    moved.resize((8, 64), refcheck=False)
    moved[...] = image
    same(m.eval(image=moved, digit=digit), wanted[k])
# what does not fit, after what did
for call in (m.step, m.eval, m.infer):
    given = {"image": images[0]} if call == m.infer else {"image": images[0], "digit": digits[0]}
    refused(stepc.StepError, "float32[8, 64]", lambda: call(**dict(given, image=images[0][:, :3])))
    refused(stepc.StepError, "float32[8, 64]", lambda: call(**dict(given, image=np.zeros((0, 64), "f4"))))
    refused(stepc.StepError, "masked", lambda: call(**dict(given, image=np.ma.masked_array(images[0]))))
    refused(stepc.StepError, "no input and no number", lambda: call(**dict(given, rate="a")))
    for _ in range(2):
        refused(stepc.StepError, 'no hyper-parameter "rate"', lambda: call(**dict(given, rate=0.5)))
        refused(stepc.StepError, 'input "image" is missing', lambda: call(digit=digits[0]))
        refused(stepc.StepError, "missing", call)
anew()
same(m.eval(image=images[1], digit=digits[1]), wanted[1])
assert all(("rate" not in names) for names in m._calls)
# what one call says beside its arrays is of that call: policies, accept, compute, hyper-parameters
bad = np.full_like(images[0], np.nan)
asked = []


def in_turn(call):
    anew()
    out = [call(m.step, image=images[0], digit=digits[0], on_nonfinite="skip"), call(m.eval, image=images[0], digit=digits[0]),
           call(m.step, image=images[0], digit=digits[0], accept=lambda r: asked.append(r.loss)), call(m.step, image=images[1], digit=digits[1]),
           call(m.step, image=images[0], digit=digits[0], learning_rate=0.5), call(m.step, image=images[0], digit=digits[0], learning_rate=0.25), call(m.step, image=images[2], digit=digits[2]),
           call(m.step, image=bad, digit=digits[0], on_nonfinite="skip"), call(m.eval, image=images[0], digit=digits[0])]
    with m.compute(image=images[1], digit=digits[1]):
        pass
    refused(stepc.StepError, "not finite", lambda: m.step(image=bad, digit=digits[0], on_nonfinite="stop"))
    out += [call(m.step, image=images[1], digit=digits[1])]
    call(m.step, image=bad, digit=digits[0], on_nonfinite="skip")
    return out, call(m.infer, image=images[1], digit=digits[1]).tobytes(), {n: v.tobytes() for n, v in m.state().items()}


(given, one, last), (again, two, final) = in_turn(fresh), in_turn(lambda call, **values: call(**values))
assert [same(a, b) for a, b in zip(given, again)][-1].step == 6 and one == two and last == final and len(asked) == 2
# a result and an output stay what they were
first, output = m.eval(image=images[0], digit=digits[0]), m.infer(image=images[0])
kept, copy = repr(first), output.copy()
m.eval(image=images[1], digit=digits[1]), m.infer(image=images[1])
assert repr(first) == kept and (output == copy).all()
# somebody calls while a call is inside: from its `accept`, and from another thread
anew()
want, after = fresh(m.step, image=images[0], digit=digits[0]), fresh(m.step, image=images[1], digit=digits[1])
told = []


def busy():
    for call in (m.step, m.eval):
        try:
            told.append(call(image=images[2], digit=digits[2]))
        except stepc.StepError as e:
            told.append(e.status)


def accept(r):
    busy()
    thread = threading.Thread(target=busy)
    thread.start()
    thread.join()
    assert (r.loss, r.metrics) == (want.loss, want.metrics)
    return True


for _ in range(3):
    anew()
    same(m.step(image=images[0], digit=digits[0], accept=accept), want)
    same(m.step(image=images[1], digit=digits[1]), after)
assert told == [14] * 12, told
# several threads at once: who gets in computes with what it gave
anew()
wrong, done = [], [0] * 4
switch = sys.getswitchinterval()
sys.setswitchinterval(1e-6)


def evaluate(k):
    for _ in range(2000):
        try:
            r = m.eval(image=images[k], digit=digits[k])
            done[k] += 1
            if (r.loss, r.metrics) != (wanted[k].loss, wanted[k].metrics):
                wrong.append((k, r))
        except stepc.StepError as e:
            if e.status != 14:
                wrong.append((k, e))


threads = [threading.Thread(target=evaluate, args=(k,)) for k in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
sys.setswitchinterval(switch)
assert not wrong and sum(done) > 0, wrong[:3]
assert sum(map(len, m._calls.values())) < 16, m._calls
m.close()
for call in (m.step, m.eval):
    refused(stepc.StepError, "closed", lambda: call(image=images[0], digit=digits[0]))
refused(stepc.StepError, "closed", lambda: m.infer(image=images[0]))
print("Python host, calls that use the one before: all checks passed")
