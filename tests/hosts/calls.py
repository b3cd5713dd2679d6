"""stepc/step_calls.h as a library: every entry of the table of stepc/step.h is a symbol, and these train. The order of entries by
which other languages find them is that of the header. calls.py STEP.H LIBRARY STEP.SO"""
import ctypes
import os
import re
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../../samples"))
import stepc

with open(sys.argv[1], encoding="utf-8") as f:
    table = re.search(r"struct step_api \{(.*?)\n\};", f.read(), re.S)[1]
entries = re.findall(r"\(\*(\w+)\)\(", table)
assert entries == list(stepc._ENTRIES) and len(entries) > 30
calls = ctypes.CDLL(sys.argv[2])
assert all(hasattr(calls, "step_call_" + name) for name in entries)
api, t, error, p = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(512), ctypes.byref
size = ctypes.c_size_t(len(error))
assert calls.step_call_open(b"/no/such.so", p(api), error, size) == 6 and b"/no/such.so" in error.value
assert calls.step_call_open(sys.argv[3].encode(), p(api), error, size) == 0, error.value
for k, name in enumerate(entries):  # where the header says that they stand
    assert stepc._Api.__dict__[name].offset == 16 + 8 * k
assert calls.step_call_create(api, p(stepc._Options(threads=1)), p(t)) == 0 and calls.step_call_init(api, t) == 0
keep, rng = [], np.random.default_rng(0)
given = [stepc.Step._array(n, rng.normal(size=s).astype("f4"), keep, 14) for n, s in (("x", (32, 2)), ("y", (32, 8)))]
arrays = (stepc._ARRAY * 2)(*given)
batch, r, losses = stepc._Batch(inputs=ctypes.cast(arrays, ctypes.c_void_p), input_count=2), stepc._Result(), []
for _ in range(50):
    assert calls.step_call_step(api, t, p(batch), p(r)) == 0
    losses.append(r.loss)
assert losses[-1] < losses[0] and r.step == 50, losses
calls.step_call_last_error.restype = ctypes.c_char_p
assert calls.step_call_hyper_set(api, t, b"none", ctypes.c_double(1)) == 2 and b"none" in calls.step_call_last_error(api, t)
calls.step_call_destroy(api, t)
