"""What a run directory holds, listed in C and in Python alike: whole, damaged at every byte of a manifest, incomplete, empty; and as
`stepc checkpoint ls --json` says. listing.py STEPC STEP.SO LISTING-IN-C FOLDER"""
import json
import os
import shutil
import struct
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../samples"))
import stepc

compiler, step, program, folder = sys.argv[1:]
lister = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def listed(runs):
    """By both; they agree."""
    lister.stdin.write(runs + "\n")
    lister.stdin.flush()
    status, count, *why = lister.stdout.readline().split(maxsplit=2)
    c = [lister.stdout.readline().rstrip("\n") for _ in range(int(count))]
    try:
        there = stepc.checkpoints(runs)
    except OSError as e:
        assert status == "6" and e.strerror in why[0], (status, why)
        return None
    assert status == "0", why
    bits = lambda value: struct.unpack("<Q", struct.pack("<d", abs(value) if value != value else value))[0]
    python = [" ".join(["%d %s [%s] %d %d" % (one.step, one.path, one.time or "", one.bytes, one.complete)] +
                       ["%s=%016x" % (n, bits(v)) for n, v in one.metrics.items()]) for one in there]
    assert c == python, (c, python)
    return there


runs = os.path.join(folder, "listing")
shutil.rmtree(runs, ignore_errors=True)
os.makedirs(os.path.join(runs, "nothing"))
assert listed(os.path.join(runs, "nothing")) == [] and listed(os.path.join(runs, "none")) is None and listed(step) is None
odd = {"": 0.5, "a\"b\\\x01\f\té\u20ac": 1e-310, "inf": np.inf, "less": -np.inf, "nan": np.nan, "third": 1 / 3, "big": -1.7976931348623157e308}
with stepc.Step(step, threads=1) as m:
    m.init()
    shapes = {n: [max(e, 1) for e in t.shape[:t.rank]] for n, t in m._inputs.items()}
    for at in range(12):
        m.step(**{n: np.full(shape, at, "f4") for n, shape in shapes.items()})
        if at in (1, 8, 11):
            with m.checkpoints(runs) as saved:
                saved.save(metrics=odd if at == 8 else {"loss": at / 10})
whole = listed(runs)
assert [c.step for c in whole] == [2, 9, 12] and all(c.complete and c.bytes for c in whole)
assert set(whole[1].metrics) == set(odd) and all(v == odd[n] or v != v for n, v in whole[1].metrics.items()) and whole[0].metrics == {"loss": 0.1}
said = json.loads(subprocess.run([compiler, "checkpoint", "ls", runs, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout)
assert [(c["step"], c["created"], c["bytes"], c["complete"]) for c in said["checkpoints"]] == [(c.step, c.time, c.bytes, True) for c in whole]
for name in ("step-007", "step-", "step-x", "step-18446744073709551616", ".tmp-step-13-0", "latest-step", "step-5-1"):  # not ours
    os.makedirs(os.path.join(runs, name))
with open(os.path.join(runs, "step-30"), "w") as f:  # no folder
    f.write("x")
os.makedirs(os.path.join(runs, "step-31"))  # empty
os.makedirs(os.path.join(runs, "step-32/manifest.json"))
os.makedirs(os.path.join(runs, "step-33"))
os.mkfifo(os.path.join(runs, "step-33/manifest.json"))  # nobody waits for its writer
subprocess.run([compiler, "checkpoint", "ls", runs], check=True, stdout=subprocess.DEVNULL, timeout=20)
assert [(c.step, c.complete) for c in listed(runs)] == [(2, True), (9, True), (12, True), (30, False), (31, False), (32, False), (33, False)]

# Files that are missing or of another size; the manifest is whole and still tells.
one = os.path.join(runs, "step-12")
for name in os.listdir(one):
    path = os.path.join(one, name)
    if name == "manifest.json" or not os.path.isfile(path):
        continue
    os.rename(path, path + ".away")
    gone = listed(runs)[2]
    assert not gone.complete and gone.time == whole[2].time and gone.bytes == whole[2].bytes and gone.metrics == {"loss": 1.1}
    shutil.copy(path + ".away", path)
    with open(path, "ab") as f:
        f.write(b"x")
    assert not listed(runs)[2].complete
    os.replace(path + ".away", path)
    assert listed(runs)[2].complete

# The manifest: every byte, every length; what stands behind it.
manifest = os.path.join(runs, "step-9", "manifest.json")
with open(manifest, "rb") as f:
    kept = f.read()
rng = np.random.default_rng(0)
sums = kept.rfind(b'"self":"') + 8
damages = [kept[:at] + bytes([kept[at] ^ 1 << int(rng.integers(8))]) + kept[at + 1:] for at in range(len(kept)) if at >= sums - 8 or not at % 3]
damages += [kept[:n] for n in range(0, len(kept), 11)] + [kept + b" ", kept + kept, b"", b"{}", b"[" * 100000]


def signed(body):
    return body + b'"self":"' + stepc._xxh3(body).encode() + b'"}'


def alone(content):
    with open(manifest, "wb") as f:
        f.write(content)
    return listed(runs)[1]


def unread():
    """Its tensors are not taken by Python's own reader, and this is no other error."""
    try:
        stepc._open(os.path.dirname(manifest))
    except stepc.StepError as e:
        return e.status
    return 0


assert unread() == 0
for content in damages:
    got = alone(content)
    assert unread() == 7, content
    assert not got.complete and got.time is None and got.metrics == {} and got.bytes == 0, content
body = kept[:sums - 8]
assert signed(body) == kept
for length in list(range(0, 70)) + [1000, 1023, 1024, 1025, 1088, 5000]:  # with a right checksum, of every length
    assert alone(signed(body + b'"more":"' + b"x" * length + b'",')).complete
for old, new in ((b'"stepc_checkpoint":1', b'"stepc_checkpoint":3'), (b'"files":{', b'"files":["'), (b'"bytes":', b'"bites":'), (b'"metrics":{', b'"metrics":{"a":"b",')):
    assert old in body and not alone(signed(body.replace(old, new))).complete, new
    assert unread() == (8 if b"checkpoint" in old else 7 if b"files" in old else 0), new
assert alone(signed(body.replace(b'"stepc_checkpoint":1', b'"stepc_checkpoint":2'))).complete  # of one that is compressed
alone(kept)
lister.stdin.close()
assert lister.wait() == 0
print("run directories, listed in C and in Python alike: %d manifests, all checks passed" % (len(damages) + 80))
