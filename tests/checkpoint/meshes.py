#!/usr/bin/env python3
"""A checkpoint of any mesh is opened by any other: 12 meshes of 1 to 8 devices, in data, tensors and state, saved by threads and by 1 to 4
ranks, all 132 ordered pairs of them by threads and by ranks; what is loaded is what was saved, bit for bit, in mid-window of
multi_steps too. Ranks write the same state as threads, each the parts that it holds into files of its own. Every third checkpoint has
files of 700 bytes at most, but for single rows, and every other one is compressed.

usage: meshes.py STEPC     where no MPI is installed, by threads alone
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "mesh"), os.path.join(HERE, "..", "..", "samples")]
import mpi
import stepc as host
from tool import runner, safetensors

DATA, TENSOR = {"rules": [["batch", "data"]]}, {"layers.0.kernel": [None, "model"], "layers.4.kernel": ["model"]}
STATE, WHOLE = {"**.kernel": ["data"]}, {"layers.0.kernel": ["data"], "layers.4.kernel": [None, "data"]}  # ZeRO 1; FSDP
MESHES = (  # axes, sharding, ranks
    (None, None, 1), ({"data": 2}, DATA, 2), ({"model": 2}, {"params": TENSOR}, 2), ({"data": 3}, dict(DATA, optimizer_state=STATE), 3),
    ({"data": 4}, dict(DATA, optimizer_state=STATE), 4), ({"data": 4}, dict(DATA, params=WHOLE), 2), ({"data": 2, "model": 2}, dict(DATA, params=TENSOR), 4),
    ({"model": 2, "data": 2}, dict(DATA, params=TENSOR, optimizer_state=STATE), 2), ({"data": 6}, dict(DATA, optimizer_state=STATE), 3),
    ({"data": 3, "model": 2}, dict(DATA, params=TENSOR), 2), ({"data": 8}, dict(DATA, params=WHOLE, optimizer_state=STATE), 4),
    ({"data": 2, "model": 4}, dict(DATA, params=TENSOR, optimizer_state=STATE), 4))
STEPS = 5


def document(axes, sharding):
    model = {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "features": 48}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "dropout", "rate": 0.3}, {"type": "linear", "features": 24}]}
    return {"stepc": 1, "inputs": {n: {"shape": [24, 24], "axes": ["batch", None]} for n in "xy"}, "model": model, "loss": "mean((model - y)**2)", "ema": {"decay": 0.9},
            "optimizer": {"type": "multi_steps", "every_k_schedule": 3, "opt": {"type": "adamw", "learning_rate": 0.01}},
            **({"mesh": {"axes": axes}, "sharding": sharding} if axes else {})}


def wrong(so, count, threads=1):
    """Which of the checkpoints this object does not give back; all ranks read, the first one compares."""
    m, found = host.Step(so, threads=threads), []
    names = None
    for i in range(count):
        wanted = safetensors.read("state%d.safetensors" % i)
        for fresh in (False, True):  # over a state that is there; into an instance that has none
            one = host.Step(so, threads=threads) if fresh else m
            one.load("run%d" % i)
            names = names or [n for role in (host.PARAM, host.EMA, host.OPT_STATE, host.STATE) for n in one.names(role)]
            if set(names) != set(wanted) or any(one[n].tobytes() != wanted[n].tobytes() for n in names):
                found.append(i)
        one.close()
    return found


def told_apart(so):
    """A rank that does not see what the first one resumes from says so, and none begins anew."""
    try:
        host.Step(so).checkpoints("run0" if "0" == os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK")) else "nowhere").resume()
    except host.StepError as e:
        return "rank 0 can read it, this one not" in str(e)
    return False


def run(*command, folder, **env):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=dict(mpi.QUIET, STEPC_VERIFY_EACH="0", **env), stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit("%s: exit %d\n%s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr[-2000:]))
    return done.stdout


def refused(what, *command, folder, said, **env):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=dict(mpi.QUIET, **env), stdin=subprocess.DEVNULL)
    assert done.returncode and said in done.stderr, "%s: exit %d\n%s" % (what, done.returncode, done.stderr[-1500:])


def bounds(stepc, folder, families):
    """A bound of files that is no number, or not the same for all ranks, is refused by name, and nothing is saved."""
    axes, sharding, ranks = next(m for m in MESHES if m[2] == 2)
    command = ["--steps", "1", "--data", "data.safetensors", "--threads", "1", "-q", "--save-dir", "bounds"]
    so = "%d.so" % MESHES.index((axes, sharding, ranks))
    for value in ("8GiB", "0", "-1", "700 "):
        refused(value, stepc, "run", so, *command, folder=folder, said="STEPC_FILE_BYTES=%s: expected a number of bytes above 0" % value, STEPC_FILE_BYTES=value)
    if families:
        one, other = ([*mpi.launcher(families[0], 1), "env", "STEPC_FILE_BYTES=%d" % n, stepc, "run", so, *command, "--transport", "mpi"] for n in (700, 900))
        refused("two bounds", *one, ":", *other[1 + len(mpi.FAMILIES[families[0]]):], folder=folder, said="STEPC_FILE_BYTES is 900 on rank 1 and 700 on rank 0")
        one, other = ([*mpi.launcher(families[0], 1), stepc, "run", so, *command, "--transport", "mpi", *more] for more in ((), ("--compress", "all")))
        refused("two ways", *one, ":", *other[1 + len(mpi.FAMILIES[families[0]]):], folder=folder, said="save: rank 1 asks for other flags than rank 0")
    left = [n for n in os.listdir(os.path.join(folder, "bounds")) if not n.startswith(".")] if os.path.exists(os.path.join(folder, "bounds")) else []
    assert not left, left


def main(stepc):
    begin, pairs = time.monotonic(), {"threads": 0, "ranks": 0}
    families = mpi.installed(stepc)
    if families:
        os.environ["STEPC_PLUGIN_PATH"] = mpi.QUIET["STEPC_PLUGIN_PATH"] = os.path.dirname(stepc)
    with tempfile.TemporaryDirectory(prefix="stepc-meshes-") as folder:
        numbers = np.random.default_rng(7)
        safetensors.write(os.path.join(folder, "data.safetensors"), {n: numbers.standard_normal((4, 24, 24)).astype(np.float32) for n in "xy"})
        for i, (axes, sharding, ranks) in enumerate(MESHES):
            runner.write_json(os.path.join(folder, "%d.json" % i), document(axes, sharding))
            run(stepc, "compile", "%d.json" % i, "-o", "%d.so" % i, "-q", folder=folder)
            command = [stepc, "run", "%d.so" % i, "--steps", str(STEPS), "--data", "data.safetensors", "--threads", "1", "-q", "--all-state"]
            bound = {"STEPC_FILE_BYTES": "700"} if i % 3 == 1 else {}
            if i % 2:
                command += ["--compress", "all" if i % 4 == 1 else "opt_state"]
            run(*command, "--save-dir", "threads%d" % i, "--save", "state%d.safetensors" % i, folder=folder, **bound)
            saved = "threads%d" % i
            if ranks > 1 and families:
                run(*mpi.launcher(families[0], ranks), *command, "--transport", "mpi", "--save-dir", "ranks%d" % i, "--save", "again.safetensors", folder=folder, **bound)
                with open(os.path.join(folder, "again.safetensors"), "rb") as a, open(os.path.join(folder, "state%d.safetensors" % i), "rb") as b:
                    assert a.read() == b.read(), "%d ranks of mesh %d do not end as threads do" % (ranks, i)
                saved = "ranks%d" % i
                with open(os.path.join(folder, saved, "step-%d" % STEPS, "manifest.json")) as f:
                    told = json.load(f)
                assert told["layout"]["processes"] == ranks, told["layout"]
                parts = [n for n in told["files"] if n.startswith("opt_state-")]
                assert len(parts) == ranks or (bound and len(parts) > ranks), parts
                sizes = [t["bytes"] for n, t in told["files"].items() if n.startswith("opt_state-")]
                assert bound or max(sizes) < 1.5 * min(sizes), sizes
            run(stepc, "checkpoint", "verify", "-q", saved, folder=folder)
            with open(os.path.join(folder, saved, "step-%d" % STEPS, "manifest.json")) as f:
                pieces = [p for t in json.load(f)["slots"].values() for p in t["pieces"]]
            held = {p["file"] for p in pieces}
            assert bound or any("stored" in p for p in pieces) == bool(i % 2), "checkpoint %d is not as it was asked for" % i
            for name in held:
                tensors = safetensors.read(os.path.join(folder, saved, "step-%d" % STEPS, name))
                assert not bound or i == 0 or len(tensors) == 1 or sum(t.nbytes for t in tensors.values()) <= 700, (name, len(tensors))
            os.symlink(saved, os.path.join(folder, "run%d" % i))
        bounds(stepc, folder, families)
        os.chdir(folder)
        for i in range(len(MESHES)):  # as hosts in Python read it
            head, data = host._open("run%d" % i)
            wanted = {n: t.tobytes() for n, t in safetensors.read("state%d.safetensors" % i).items()}
            assert {n: data[slice(*t["data_offsets"])] for n, t in head.items()} == wanted, "Python puts checkpoint %d together wrongly" % i
            assert [one.complete for one in host.checkpoints("run%d" % i)] == [True]
        for k, (_, _, ranks) in enumerate(MESHES):
            found = wrong("./%d.so" % k, len(MESHES))
            assert not found, "mesh %d does not give back checkpoints of %s" % (k, found)
            pairs["threads"] += len(MESHES) - 1
            if ranks > 1 and families:
                said = run(*mpi.launcher(families[0], ranks), "env", "STEPC_TRANSPORT=mpi", sys.executable, os.path.abspath(os.path.join(HERE, "meshes.py")), "--rank", "./%d.so" % k, folder=folder)
                assert said.count("good") == ranks and "bad" not in said, "%d ranks of mesh %d: %s" % (ranks, k, said)
            pairs["ranks"] += (len(MESHES) - 1) * bool(families)  # one of one device is a thread
        os.chdir("/")
    print("%d pairs by threads and %d by ranks of %s in %.0f s: all bits are what was saved" % (pairs["threads"], pairs["ranks"], families[0] if families else "none", time.monotonic() - begin))


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        bad = wrong(sys.argv[2], len(MESHES)) or ([] if told_apart(sys.argv[2]) else "nothing that only one rank sees")
        print("good" if not bad else "bad: %s" % bad, flush=True)
    else:
        main(os.path.abspath(sys.argv[1]))
