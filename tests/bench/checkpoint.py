#!/usr/bin/env python3
"""Checkpoints of a model of 100 M parameters with Adam (1.2 GB): how long the step waits that saves, when the save is on the
disk, how long restoring takes, and how many bytes it is; beside them what the disk and the memory give: dd with fsync, reading
the same bytes, copying them once. Orbax (asynchronous, composite) and torch.distributed.checkpoint save and restore the same
arrays, where they are installed. Each side runs in a process of its own, rounds interleaved within it.

    tests/bench/checkpoint.py [--stepc build/stepc] [--rounds N] [--folder DIR] [--width N] [--json FILE] [SIDE...]
    tests/bench/checkpoint.py --bytes-of runs/a/step-300

Sides: stepc, stepc-state and stepc-all (the optimizer's state, or all of it, compressed), orbax, dcp. Restoring is measured warm, and cold where /proc/sys/vm/drop_caches may be written.
"""
import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples")]
LAYERS, BATCH = 4, 64
BESIDE = 5  # steps that go on while a save is written: what they and the save take longer than as many that do not save
clock = time.perf_counter


def median(values):
    return float(np.median(values))


def bytes_in(path):
    return sum(os.path.getsize(os.path.join(at, n)) for at, _, names in os.walk(path) for n in names)


def drop_caches():
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("1")
        return True
    except OSError:
        return False


def timed(work):
    begin = clock()
    kept = work()
    return clock() - begin, kept


def dd(folder, size):
    """Seconds that dd takes for so many bytes with its fsync."""
    path = os.path.join(folder, "dd")
    seconds, _ = timed(lambda: subprocess.run(["dd", "if=/dev/zero", "of=" + path, "bs=4M", "count=%d" % -(-size // (4 << 20)), "conv=fsync"],
                                              check=True, stderr=subprocess.DEVNULL))
    os.unlink(path)
    return seconds


def read_all(path):
    """Into memory that is new, for all of it at once, as a restore needs it."""
    kept = []
    for at, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(at, name), "rb", buffering=0) as f:
                size = os.fstat(f.fileno()).st_size
                into, n = memoryview(np.empty(size, np.uint8)), 0
                kept.append(into)
                while n < size:
                    n += f.readinto(into[n:n + (1 << 30)])


# ---------------------------------------------------------------- sides: step(), save(folder) -> job, wait(job), restore(path)

class Stepc:
    compress = None

    def __init__(self, options, folder):
        import stepc
        self.stepc, width = stepc, options.width
        document = {"stepc": 1, "inputs": {"x": {"shape": [BATCH, width], "axes": ["batch", None]}},
                    "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": width, "use_bias": False}] * LAYERS},
                    "loss": "mean(model**2)", "optimizer": {"type": "adam", "learning_rate": 1e-4}}
        model, self.so = os.path.join(folder, "model.json"), os.path.join(folder, "step.so")
        with open(model, "w") as f:
            json.dump(document, f)
        subprocess.run([options.stepc, "compile", "-q", model, "-o", self.so], check=True)
        self.m = stepc.Step(self.so, threads=options.threads)
        self.m.init()
        self.x = np.random.default_rng(0).standard_normal((BATCH, width)).astype("f4")

    def step(self):
        self.m.step(x=self.x)

    def save(self, folder, _):
        return self.m._save_into(folder, compress=self.compress)

    def wait(self, job):
        self.m._check(self.m._job_wait(job, self.stepc._i64(-1)))
        self.m._job_free(job)

    def path(self, folder, _):
        return os.path.join(folder, max(os.listdir(folder), key=lambda n: int(n[5:]) if n.startswith("step-") else -1))

    def fresh(self):
        return self.stepc.Step(self.so)

    def restore(self, path, into):
        into.load(path)

    def end(self, into):
        into.close()


class StepcState(Stepc):
    compress = "opt_state"


class StepcAll(Stepc):
    compress = "all"


class Orbax:
    def __init__(self, options, folder):
        import jax
        import jax.numpy as jnp
        import optax
        import orbax.checkpoint as ocp
        self.jax, self.ocp = jax, ocp
        self.tx = optax.adam(1e-4)
        key = jax.random.key(0)
        params = {"layer_%d" % i: jax.random.normal(jax.random.fold_in(key, i), (options.width, options.width)) / options.width**0.5 for i in range(LAYERS)}
        self.state = (params, self.tx.init(params))
        self.x = jax.random.normal(key, (BATCH, options.width))

        def loss(p, x):
            for i in range(LAYERS):
                x = x @ p["layer_%d" % i]
            return jnp.mean(x**2)

        def step(state, x):
            params, opt = state
            updates, opt = self.tx.update(jax.grad(loss)(params, x), opt, params)
            return optax.apply_updates(params, updates), opt

        self.jit = jax.jit(step, donate_argnums=0)
        self.checkpointer = ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler())

    def step(self):
        self.state = self.jax.block_until_ready(self.jit(self.state, self.x))

    def save(self, folder, n):
        save = self.ocp.args.PyTreeSave
        self.checkpointer.save(os.path.join(folder, str(n)), args=self.ocp.args.Composite(params=save(self.state[0]), opt_state=save(self.state[1])))

    def wait(self, _):
        self.checkpointer.wait_until_finished()

    def path(self, folder, n):
        return os.path.join(folder, str(n))

    def fresh(self):
        return self.jax.tree.map(lambda a: self.jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), self.state)

    def restore(self, path, into):
        args = lambda item: self.ocp.args.PyTreeRestore(item, restore_args=self.ocp.checkpoint_utils.construct_restore_args(item))
        found = self.checkpointer.restore(path, args=self.ocp.args.Composite(params=args(into[0]), opt_state=args(into[1])))
        self.jax.block_until_ready([found["params"], found["opt_state"]])

    def end(self, into):
        pass


class Dcp:
    def __init__(self, options, folder):
        import torch
        import torch.distributed.checkpoint as dcp
        self.torch, self.dcp = torch, dcp
        if options.threads:
            torch.set_num_threads(options.threads)
        self.params = [torch.nn.Parameter(torch.randn(options.width, options.width) / options.width**0.5) for _ in range(LAYERS)]
        self.optimizer = torch.optim.Adam(self.params, lr=1e-4, fused=True)
        self.x = torch.randn(BATCH, options.width)

    def step(self):
        x = self.x
        for p in self.params:
            x = x @ p
        self.optimizer.zero_grad()
        (x**2).mean().backward()
        self.optimizer.step()

    def state(self):
        moments = {"%s.%d" % (k, i): v for i, p in enumerate(self.params) for k, v in self.optimizer.state[p].items()}
        return {"params": {str(i): p.detach() for i, p in enumerate(self.params)}, "opt_state": moments}

    def save(self, folder, n):
        return self.dcp.async_save(self.state(), checkpoint_id=os.path.join(folder, str(n)), no_dist=True)

    def wait(self, job):
        job.result()

    def path(self, folder, n):
        return os.path.join(folder, str(n))

    def fresh(self):
        return {k: {n: self.torch.empty_like(t) for n, t in v.items()} for k, v in self.state().items()}

    def restore(self, path, into):
        self.dcp.load(into, checkpoint_id=path, no_dist=True)

    def end(self, into):
        pass


SIDES = {"stepc": (Stepc, ()), "stepc-state": (StepcState, ()), "stepc-all": (StepcAll, ()), "orbax": (Orbax, ("orbax", "jax", "optax")), "dcp": (Dcp, ("torch",))}


def beside(side, folder, n):
    """Seconds of the step after a save, of the save and the steps that go on, and until it is on the disk."""
    runs = os.path.join(folder, "beside-%d" % n)
    os.mkdir(runs)
    begin = clock()
    job = side.save(runs, n)
    saved = clock()
    side.step()
    following = clock() - saved
    for _ in range(BESIDE - 1):
        side.step()
    training = clock() - begin
    side.wait(job)
    durable = clock() - begin
    shutil.rmtree(runs)
    return following, training, durable


def measure(options, name):
    out = {k: [] for k in ("step", "saving step", "stall", "next step", "steps beside", "durable beside", "durable", "dd", "restore", "reading", "restore cold", "reading cold")}
    with tempfile.TemporaryDirectory(prefix="stepc-bench-", dir=options.folder) as folder:
        side = SIDES[name][0](options, folder)
        for _ in range(3):
            side.step()
        for n in range(options.rounds + 1):
            runs = os.path.join(folder, "runs-%d" % n)
            os.mkdir(runs)
            ordinary = median([timed(side.step)[0] for _ in range(5)])
            begin = clock()
            job = side.save(runs, n)
            stall = clock() - begin
            side.wait(job)
            durable = clock() - begin
            path = side.path(runs, n)
            side.step()
            following, training, durable_beside = beside(side, folder, n)
            size = bytes_in(path)
            written = dd(folder, size)
            if n:  # the first one makes what later ones use again
                for key, value in (("step", ordinary), ("stall", stall), ("saving step", stall + ordinary), ("durable", durable), ("dd", written),
                                   ("next step", following), ("steps beside", training - BESIDE * ordinary), ("durable beside", durable_beside)):
                    out[key].append(value)
            else:
                first, first_step = stall, following
            for _ in range(3):  # a virtual machine gives memory back that was free for a while: whoever comes first pays for it
                into = side.fresh()
                out["restore"].append(timed(lambda: side.restore(path, into))[0])
                side.end(into)
                del into
                out["reading"].append(timed(lambda: read_all(path))[0])
            if options.cold and drop_caches():
                into = side.fresh()
                out["restore cold"].append(timed(lambda: side.restore(path, into))[0])
                side.end(into)
                del into
                drop_caches()
                out["reading cold"].append(timed(lambda: read_all(path))[0])
            shutil.rmtree(runs)
    found = {k: median(v) for k, v in out.items() if v}
    return dict(found, **{"first stall": first, "first next step": first_step, "bytes": size, "saving step / step": median(np.divide(out["saving step"], out["step"])),
                          "dd / durable": median(np.divide(out["dd"], out["durable"])), "restore / reading": median(np.divide(out["restore"], out["reading"])),
                          **({"cold restore / reading": median(np.divide(out["restore cold"], out["reading cold"]))} if out["reading cold"] else {})})


def bytes_of(path):
    """What a checkpoint of a trained model takes, and the same tensors as Orbax and torch.distributed.checkpoint write them."""
    from tool import safetensors
    files = {n: safetensors.read(os.path.join(path, n)) for n in sorted(os.listdir(path)) if n.endswith(".safetensors")}
    found = {"tensors": sum(v.nbytes for tensors in files.values() for v in tensors.values()), "stepc": bytes_in(path)}
    with tempfile.TemporaryDirectory(prefix="stepc-bench-") as folder:
        if not [m for m in SIDES["orbax"][1] if importlib.util.find_spec(m) is None]:
            import jax
            import orbax.checkpoint as ocp
            items = {n.replace(".safetensors", ""): ocp.args.PyTreeSave(jax.tree.map(jax.numpy.asarray, tensors)) for n, tensors in files.items()}
            with ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
                checkpointer.save(os.path.join(folder, "orbax"), args=ocp.args.Composite(**items))
                checkpointer.wait_until_finished()
            found["orbax"] = bytes_in(os.path.join(folder, "orbax"))
        if importlib.util.find_spec("torch"):
            import torch
            import torch.distributed.checkpoint as dcp
            state = {n: {k: torch.from_numpy(np.array(v)) for k, v in tensors.items()} for n, tensors in files.items()}
            dcp.save(state, checkpoint_id=os.path.join(folder, "dcp"), no_dist=True)
            found["dcp"] = bytes_in(os.path.join(folder, "dcp"))
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepc", default=os.path.join(HERE, "..", "..", "build", "stepc"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--width", type=int, default=5000)
    p.add_argument("--folder")
    p.add_argument("--cold", action="store_true", help="also with an empty page cache")
    p.add_argument("--json")
    p.add_argument("--bytes-of", metavar="STEP", help="measure nothing but what this checkpoint of a trained model takes on each side")
    p.add_argument("--here", help=argparse.SUPPRESS)
    p.add_argument("sides", nargs="*", choices=[*SIDES, []], default=[])
    options = p.parse_args()
    if options.here:
        print(json.dumps(measure(options, options.here)))
        return
    if options.bytes_of:
        print(*("%s %d" % pair for pair in bytes_of(options.bytes_of).items()), sep="\n")
        return
    results = {}
    for name in options.sides or SIDES:
        missing = [module for module in SIDES[name][1] if importlib.util.find_spec(module) is None]
        if missing:
            print("%s: skipped, %s is not installed" % (name, ", ".join(missing)))
            continue
        done = subprocess.run([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--here", name], stdout=subprocess.PIPE, text=True, check=True)
        results[name] = json.loads(done.stdout.splitlines()[-1])
        print(name, *("%s %.4g" % pair for pair in results[name].items()), sep="\n    ", flush=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
