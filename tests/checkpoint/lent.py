#!/usr/bin/env python3
"""Saves that nobody waits for, on a disk that is slow: large tensors are written from where they are, while steps go on beside
them. Whatever a host does meanwhile, in any order, each checkpoint holds the state as it was at its save, and the training
that is saved has the bits of one that is not.

    tests/checkpoint/lent.py --stepc build/stepc [NAME...]     SEED=N and RUNS=N in the environment
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "samples")]
import numpy as np

import stepc

ROWS, WIDE = 8, 160  # a matrix of 100 KiB is lent, biases are not
ADAMW = {"type": "adamw", "learning_rate": 1e-2}
MODELS = {
    "adamw": {"ema": {"decay": 0.9}},
    "waits": {"late": True},  # its update waits for the decision whether the step counts
    "frozen": {"deep": 2, "trainable": ["layers.2.**", "layers.4.**"], "optimizer": {"type": "rmsprop", "centered": True, "learning_rate": 1e-2}},  # tensors that no step writes; its update does not wait, so steps that may be refused go beside
    "scaled": {"precision": {"compute": "float16", "loss_scale": {"type": "dynamic_scale", "scale": 1024.0}}},
    "window": {"optimizer": {"type": "multi_steps", "every_k_schedule": 3, "opt": {"type": "adam", "learning_rate": 1e-2}}},
    "data": {"mesh": {"axes": {"data": 2}}, "threads": 2},
    "model": {"mesh": {"axes": {"data": 2}}, "threads": 2, "deep": 3, "sharding": {"rules": [["batch", "data"]], "params": {"layers.0.kernel": [None, "data"]}}},
    "lbfgs": {"optimizer": {"type": "lbfgs", "memory_size": 3}},
    "table": {"table": True},  # rows of which a step writes some
}


class Wrong(Exception):
    pass


def document(how):
    layers = [{"type": "linear", "features": WIDE}, {"type": "relu"}] * how.get("deep", 1) + [{"type": "linear", "features": 5}]
    inputs = {n: {"shape": [ROWS, wide], "axes": ["batch", None]} for n, wide in (("x", WIDE), ("y", 5))}
    if how.get("table"):
        inputs["x"] = {"shape": [ROWS], "axes": ["batch"], "dtype": "int32"}
        layers.insert(0, {"type": "embed", "num_embeddings": 500, "features": 64})
    out = {"stepc": 1, "inputs": inputs, "model": {"type": "sequential", "input": "x", "layers": layers}, "loss": "mean((model - y)**2)",
           "optimizer": ADAMW}
    return dict(out, **{k: v for k, v in how.items() if k not in ("late", "threads", "deep", "table")})


def same(what, got, want):
    for name, value in want.items():
        if got[name].tobytes() != value.tobytes():
            raise Wrong("%s: %s is %s, should be %s" % (what, name, np.ravel(got[name])[:4], np.ravel(value)[:4]))


class Twins:
    """Two of one training, of which one is saved."""

    def __init__(self, so, folder, seed, threads, poisonable):
        self.so, self.folder, self.poisonable = so, folder, poisonable
        self.draw, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.views, self.waiting = [], None  # the state at the last save
        os.makedirs(folder)
        os.environ["STEPC_FILE_BYTES"] = self.draw.choice(["150000", ""])  # of a mesh: tensors in pieces
        self.both = self.saved, self.alone = [stepc.Step(so, threads=threads) for _ in range(2)]
        self.checkpoints = self.saved.checkpoints(folder)
        for m in self.both:
            m.init()

    def batch(self):
        made = {"y": self.numbers.standard_normal((ROWS, 5)).astype(np.float32)}
        made["x"] = self.numbers.standard_normal((ROWS, WIDE)).astype(np.float32) if self.poisonable else self.numbers.integers(500, size=ROWS).astype(np.int32)
        if self.draw.random() < 0.3 and self.saved.hypers():
            made[sorted(self.saved.hypers())[0]] = self.draw.choice([0.1, 0.01])
        return made

    def step(self):
        batch = self.batch()
        for m in self.both:
            m.step(**batch)

    def many(self):
        batch = {n: np.stack([v, v[::-1]]) for n, v in self.batch().items() if np.ndim(v)}
        for m in self.both:
            m.step_n(2, **batch)

    def bad(self):
        """One that is left out, where there is something to put a NaN into."""
        batch = self.batch()
        if self.poisonable:
            batch["x"][3, 5] = np.nan
        for m in self.both:
            m.step(on_nonfinite="skip", **batch)

    def good(self):
        batch = self.batch()
        for m in self.both:
            m.step(on_nonfinite="skip", **batch)

    def blocks(self):
        """Of three blocks each takes its turn, and has what a host has set or written since it had one."""
        for change in (self.hyper, self.write, self.hyper, self.hyper):
            change()
            self.step()
            self.save()
            for _ in range(3):
                self.good()

    def changed(self):
        """Before the next step."""
        for change in (self.write, self.init, self.load):
            self.step()
            self.save()
            change()

    def shown(self):
        for order in (self.save, self.view), (self.view, self.save):
            for call in (*order, self.step, self.step):
                call()
            self.same("shown")
            self.views.clear()

    def committed(self):
        batch = self.batch()
        computed = [m.compute(**batch) for m in self.both]
        self.save()
        for c in computed:
            c.commit()

    def asked(self):
        batch, answer = self.batch(), self.draw.random() < 0.6
        for m in self.both:
            m.step(accept=lambda _: answer, **batch)

    def two_calls(self):
        """With a save in between, and more, sometimes."""
        batch, what = self.batch(), self.draw.choice(["commit", "commit", "discard", "leave"])
        computed = [m.compute(**batch) for m in self.both]
        between = self.draw.choice([None, None, self.save, self.evaluate, self.hyper])
        if between:
            between()
        for c in computed:
            if what != "leave":
                getattr(c, what)()

    def evaluate(self):
        batch = {n: v for n, v in self.batch().items() if n in "xy"}
        losses = [m.eval(**batch).loss for m in self.both]
        if losses[0] != losses[1]:
            raise Wrong("eval: %r and %r" % tuple(losses))

    def hyper(self):
        for name in list(self.saved.hypers())[:1]:
            value = self.draw.uniform(0.005, 0.02)
            for m in self.both:
                m.set(name, value)

    def write(self):
        for name in self.saved.names(stepc.PARAM):
            value = (self.numbers.standard_normal(self.saved[name].shape) / 10).astype(np.float32)
            for m in self.both:
                m[name] = value

    def init(self):
        for m in self.both:
            m.init()

    def load(self):
        path = os.path.join(self.folder, "..", "start.safetensors")
        if not os.path.exists(path):
            self.alone.save(path)
        for m in self.both:
            m.load(path)

    def view(self):
        """Of a tensor where it lies, for as long as it is held."""
        name = self.saved.names(stepc.PARAM)[-1]
        try:
            self.views.append((name, np.asarray(self.saved.view(name))))
        except stepc.StepError as e:
            if e.status != 15:
                raise

    def save(self):
        self.verify()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.waiting = self.alone.state()
        self.checkpoints.compress = self.draw.choice([None, None, "opt_state", "all"])
        self.checkpoints.save()

    def verify(self):
        """What is in the last checkpoint is the state at its save."""
        if self.waiting is None:
            return
        self.checkpoints.wait()
        with stepc.Step(self.so, threads=1) as third:
            third.load(os.path.join(self.folder, "step-%d" % self.waiting["step"]))
            same("the checkpoint", third.state(), self.waiting)
        self.waiting = None

    def same(self, what):
        same(what, self.saved.state(), self.alone.state())
        for name, seen in self.views:
            same("a view", {name: seen}, {name: self.alone[name]})

    def play(self, count):
        first = [self.step, self.committed, self.shown, self.changed, self.blocks]
        others = first[1:] + [self.many, self.bad, self.asked, self.two_calls, self.evaluate, self.hyper, self.write, self.init, self.load, self.view]
        calls = [self.step] * 6 + [self.save] * 4 + [self.good] * 2 + self.draw.sample(others, 3) * 2 + others
        said = []
        for _ in range(count):
            what = first.pop(0) if first else self.draw.choice(calls)
            if self.draw.random() < 0.3:
                self.views.clear()
            said.append(what.__name__)
            what()
            if not all(np.isfinite(self.alone[n]).all() for n in self.saved.names(stepc.PARAM)):  # then all steps are the same
                self.init()
            try:
                self.same(what.__name__)
            except Wrong as e:
                raise Wrong("%s (after %s)" % (e, " ".join(said[-12:]))) from None
        self.verify()
        self.views.clear()
        for m in self.both:
            m.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stepc", required=True)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    seed, runs = int(os.environ.get("SEED", "1")), int(os.environ.get("RUNS", "2"))
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="stepc-lent-") as folder:
        if "STEPC_TEST_WRITE_MS" not in os.environ:  # once more, behind the slow disk
            slow = os.path.join(folder, "lent.so")
            subprocess.run(["cc", "-shared", "-fPIC", os.path.join(HERE, "lent.c"), "-o", slow], check=True)
            before = os.environ.get("LD_PRELOAD", "")
            environment = dict(os.environ, STEPC_TEST_WRITE_MS="4", LD_PRELOAD=" ".join(filter(None, (before, slow))))
            return subprocess.run([sys.executable, *sys.argv], env=environment).returncode
        for name in options.names or MODELS:
            how = MODELS[name]
            model, so = os.path.join(folder, name + ".json"), os.path.join(folder, name + ".so")
            with open(model, "w") as f:
                json.dump(document(how), f)
            environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
            if how.get("late"):
                environment["STEPC_LATE_ALWAYS"] = "1"
            subprocess.run([options.stepc, "compile", model, "-o", so, "-q", "--views", "-O1"], check=True, env=environment)
            for k in range(runs):
                try:
                    Twins(so, os.path.join(folder, "%s-%d" % (name, k), "run"), seed + k, how.get("threads", 1), not how.get("table")).play(45)
                except (Wrong, stepc.StepError) as e:
                    wrong += 1
                    print("%s, SEED=%d: %s" % (name, seed + k, e))
    print("%d of %d differ" % (wrong, runs * len(options.names or MODELS)))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
