"""What a program may do to samples/stepc.py beside training: bind arrays, misspell, close twice or while another thread is inside,
fork, pickle, press Ctrl-C: an error by name or what was meant, never a crash. threads.py STEPC DIGITS.JSON"""
import json
import os
import pickle
import signal
import sys
import tempfile
import threading

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../../samples"))
import stepc
from refusal import refused

os.environ["STEPC"] = sys.argv[1]

m = stepc.compile(sys.argv[2], constants={"batch": 8, "hidden": 64}, threads=1)  # so large that 300,000 steps take seconds
m.init()
rng = np.random.default_rng(0)
image, digit = rng.random((8, 64)).astype("f4"), np.arange(8, dtype="i4")
# bind: the steps of `step`, bit for bit; what is written into the arrays is seen
state = m.state()
want = [m.step(image=image * k, digit=digit).loss for k in (1, 2, 3)]
for name, value in state.items():
    m[name] = value
mine, got = image.copy(), []
train = m.bind(image=mine, digit=digit)
for k in (1, 2, 3):
    mine[...] = image * k
    r = train()
    got.append(r.loss)
assert got == want and r.step == 3 and 0 <= r.metrics["accuracy"] <= 1 and r.finite, (got, want)
refused(stepc.StepError, "expected an array of float32", lambda: m.bind(image=image.astype("f8"), digit=digit))
refused(stepc.StepError, "expected an array of int32", lambda: m.bind(image=image, digit=digit.tolist()))
refused(stepc.StepError, "found float32, which is no array of NumPy", lambda: m.bind(image=np.float32(1), digit=digit))
refused(stepc.StepError, "float32[8, 64]", m.bind(image=image[:, :3], digit=digit))
# names
refused(stepc.StepError, 'no tensor "layers.0.kernl"; did you mean "layers.0.kernel"?', lambda: m["layers.0.kernl"])
assert "layers.0.kernel" in m and "layers.0.kernl" not in m and 0 not in m, "which names there are"
refused(stepc.StepError, 'no tensor "layers.0.kernl"; did you mean', lambda: m.__setitem__("layers.0.kernl", 1))
refused(stepc.StepError, 'no input "imag"; did you mean "image"?', lambda: m.step(imag=image, digit=digit))
refused(stepc.StepError, "no input and no number", lambda: m.step(image=image, digit=digit, rate="a"))
refused(TypeError, "expected str, found int", lambda: m[0])
refused(stepc.StepError, "E0102", lambda: stepc.compile({"stepc": 1, "inpts": {}}))
refused(TypeError, "a dict or a path", lambda: stepc.compile([1]))
# NumPy's numbers are those of JSON; what JSON lacks is named by its place
with open(sys.argv[2]) as f:
    document = json.load(f)
known = dict(document, seed=np.int64(3), optimizer={"type": "adam", "learning_rate": np.float32(0.5), "nesterov": np.bool_(True)})
with stepc.compile(known, constants={"batch": np.int64(8), "hidden": np.int16(4)}, threads=np.int64(1), optimize=np.uint8(0), check_finite=np.bool_(True)) as small:
    assert small.get("learning_rate") == 0.5
    small.init()
    refused(1, '"learning_rate": expected a number, found NoneType', lambda: small.step(image=image, digit=digit, learning_rate=None))
    refused(1, '"learning_rate": expected a number, found an array', lambda: small.step(image=image, digit=digit, learning_rate=np.ones(1)))
refused(TypeError, "compile: /optimizer/learning_rate is of type set", lambda: stepc.compile(dict(document, optimizer={"learning_rate": {1}})))
refused(TypeError, "compile: /a/1 is nan", lambda: stepc.compile(dict(document, a=[1, float("nan")])))
refused(TypeError, "has the key 1", lambda: stepc.compile({1: 2}))
document["self"] = document
refused(TypeError, "part of itself", lambda: stepc.compile(document))
# what is behind a NUL would be lost: another file would be written
with tempfile.TemporaryDirectory() as folder:
    refused(1, "NUL", lambda: m.checkpoints(folder + "/runs\0more").save())
    refused(1, "NUL", lambda: m.save(folder + "/a\0b.safetensors"))
    refused(1, "NUL", lambda: m.load(folder + "\0b.safetensors"))
    refused(TypeError, "items: /best is inf", lambda: m.checkpoints(folder + "/runs").save(items={"loader": {"best": float("inf")}}))
    here = os.getcwd()
    os.chdir(folder)  # a name that is no UTF-8, without a folder before it
    m.save("odd\udcff.safetensors")
    assert os.path.exists(b"odd\xff.safetensors")
    m.load("odd\udcff.safetensors")
    os.chdir(here)
    with m.checkpoints(folder + "/runs") as runs:
        runs.save(items={"loader": {"at": np.int64(7)}})
        assert runs.resume() == int(m["step"]) and runs.item("loader") == {"at": 7}
refused(1, "NUL", lambda: m.get("learning_rate\0"))
refused(1, "NUL", lambda: m["layers.0.kernel\0"])
refused(TypeError, "cannot be pickled", lambda: pickle.dumps(m))
refused(stepc.StepError, "0 or more", lambda: m.step_n(-1))
assert str(pickle.loads(pickle.dumps(stepc.StepError(3, "a")))) == "a"
# Ctrl-C in a long call: the step ends whole, and the next one goes on
n = 300000
images, digits = np.zeros((n, 8, 64), "f4"), np.zeros((n, 8), "i4")
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    m.step_n(n, image=images, digit=digits)
    raise AssertionError("Ctrl-C was lost")
except KeyboardInterrupt:
    pass
before = int(m["step"])
assert 3 < before < n and m.step(image=image, digit=digit).step == before + 1
# what a failure says is read before another thread may come in, and what is interrupted cannot be closed meanwhile


class Watched(stepc.Step):
    def __setattr__(self, name, value):
        def watched(*arguments):
            other = threading.Thread(target=lambda: held.append((name, getattr(self, held_by[name]).acquire(False))))
            other.start()
            other.join()
            return value(*arguments)
        object.__setattr__(self, name, watched if name in held_by else value)


held, held_by = [], {"_last_error": "_inside", "_interrupt": "_living"}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "step.so")
    stepc.compile(sys.argv[2], constants={"batch": 8, "hidden": 64}, output=path).close()
    with Watched(path, threads=1) as w:
        w.init()
        refused(stepc.StepError, "float32[8, 64]", lambda: w.step(image=image[:, :3], digit=digit))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        refused(KeyboardInterrupt, "", lambda: w.step_n(n, image=images, digit=digits))
assert {name for name, _ in held} == set(held_by) and not any(free for _, free in held), held
# the child of a fork is told; what it closes is not the parent's
child = os.fork()
if not child:
    try:
        m.step(image=image, digit=digit)
    except stepc.StepError as e:
        m.close()
        os._exit(0 if "before fork" in str(e) else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0 and m.step(image=image, digit=digit).step == before + 2
# closing inside a step: from its own callback, which is inside for sure
told = []


def accept(r):
    for call in (m.close, lambda: m.step(image=image, digit=digit), lambda: m["step"]):
        try:
            call()
        except stepc.StepError as e:
            told.append(e.status)
    return True


assert m.step(image=image, digit=digit, accept=accept).accepted and told == [14, 14, 14], told
with tempfile.TemporaryDirectory() as folder:  # a save that runs when its step is closed
    runs = m.checkpoints(os.path.join(folder, "runs"))
    runs.save()
    runs.wait()
    waits = m.compute(image=image, digit=digit)
    m.close()
    m.close()
for call in (train, lambda: m["step"], m.names, m.hypers, m.memory, m.init, waits.commit, runs.save, lambda: m.item("a"), lambda: m.step_n(1, image=images[:1], digit=digits[:1]),
             lambda: m.infer(image=image), lambda: m.save("/nowhere.safetensors"), lambda: m.set("a", 1)):
    refused(stepc.StepError, "closed", call)
# closing between the steps of other threads: they are told, whenever it is
switch = sys.getswitchinterval()
sys.setswitchinterval(1e-6)


def until_closed(m, told):
    while not told or told[-1] == 14:
        try:
            m.step(image=image, digit=digit)
        except stepc.StepError as e:
            told.append(e.status)


def closed_at_last(m):
    while True:
        try:
            return m.close()
        except stepc.StepError as e:
            assert e.status == 14, e


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "step.so")
    stepc.compile(sys.argv[2], constants={"batch": 8, "hidden": 8}, output=path).close()
    for _ in range(40):
        m, told = stepc.Step(path, threads=1), [[] for _ in range(3)]
        m.init()
        others = [threading.Thread(target=until_closed, args=(m, one)) for one in told]
        others += [threading.Thread(target=closed_at_last, args=(m,)) for _ in range(2)]
        for one in others:
            one.start()
        for one in others:
            one.join()
        assert [one[-1] for one in told] == [1] * 3, told
sys.setswitchinterval(switch)
print("Python host, beside training: all checks passed")
