#!/usr/bin/env python3
"""Checkpoint directories as users meet them: N steps are k steps, kill -9, --resume and N - k steps, bit for bit; what is
damaged is named and not taken; nothing of others is changed.

usage: checkpoint.py STEPC [TEST...]     DAMAGES=N, KILLS=N and SEED=N in the environment: so many instead of a few
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from unittest import mock

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "samples")]
import stepc as host
from tool import ROOT, runner, safetensors

KILLS, DAMAGES = int(os.environ.get("KILLS", "6")), int(os.environ.get("DAMAGES", "60"))
# Dropout, averages, a window of accumulated gradients, a schedule, running statistics: all that a step leaves to the next one.
MODEL = {"stepc": 1, "inputs": {"x": {"shape": [8, 6], "axes": ["batch", None]}, "y": {"shape": [8, 3], "axes": ["batch", None]}},
         "model": {"type": "sequential", "input": "x", "layers": [
             {"type": "linear", "features": 16}, {"type": "batch_norm"}, {"type": "relu"}, {"type": "dropout", "rate": 0.3},
             {"type": "linear", "features": 3}]},
         "loss": "mean((model - y)**2)", "ema": {"decay": 0.9},
         "optimizer": {"type": "multi_steps", "every_k_schedule": 3, "opt": {"type": "adamw", "learning_rate": {
             "type": "warmup_cosine_decay_schedule", "init_value": 0.0, "peak_value": 0.01, "warmup_steps": 3, "decay_steps": 20}}}}
STEPS = 20


def content(folder):
    """Every file below a folder, and its bytes."""
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            if not os.path.islink(path):
                with open(path, "rb") as f:
                    found[os.path.relpath(path, folder)] = f.read()
    return found


def flip(path, bit):
    with open(path, "r+b") as f:
        f.seek(bit // 8)
        byte = f.read(1)[0]
        f.seek(bit // 8)
        f.write(bytes([byte ^ 1 << bit % 8]))


class Checkpoint(runner.Case):
    verify = False

    def setUp(self):
        self.draw = random.Random(int(os.environ.get("SEED", "7")))
        numbers = np.random.default_rng(7)
        self.model, self.so, self.data = self.write("model.json", MODEL), self.path("step.so"), self.path("data.safetensors")
        safetensors.write(self.data, {"x": numbers.standard_normal((7, 8, 6)).astype(np.float32), "y": numbers.standard_normal((7, 8, 3)).astype(np.float32)})
        self.stepc("compile", self.model, "-o", self.so, "-q")

    def train(self, *more, what=None, steps=STEPS, code=0, quiet=True):
        return self.stepc("run", what or self.so, "--steps", str(steps), "--data", self.data, "--threads", "1", *(["-q"] if quiet else []), *more, code=code)

    def saved(self, name, *more, **how):
        """All state after a run, as bytes."""
        self.train("--save", self.path(name), "--all-state", *more, **how)
        with open(self.path(name), "rb") as f:
            return f.read()

    def test_files(self):
        """One plain file per item, which --save and --init know too, and a manifest."""
        self.train("--save-dir", "runs/a", "--save-every", "8", "--save", "end.safetensors")
        run = self.path("runs/a")
        self.assertEqual(sorted(os.listdir(run)), ["latest", "step-16", "step-20", "step-8"])
        self.assertEqual(os.readlink(run + "/latest"), "step-20")
        files = {"params.safetensors", "ema.safetensors", "opt_state.safetensors", "state.safetensors", "items", "manifest.json"}
        self.assertEqual(set(os.listdir(run + "/step-8")), files)
        end, parameters = safetensors.read(self.path("end.safetensors")), safetensors.read(run + "/step-20/params.safetensors")
        for name, value in parameters.items():
            np.testing.assert_array_equal(value, end[name])
        with open(run + "/step-20/manifest.json") as f:
            manifest = json.load(f)
        self.assertEqual(list(manifest)[0], "stepc_checkpoint")
        self.assertEqual((manifest["step"], manifest["hash"]), (20, "xxh3-128"))
        self.assertEqual(list(manifest["files"]), sorted(manifest["files"]))
        self.assertEqual(list(manifest["slots"]), sorted(manifest["slots"]))
        self.assertEqual({"params.safetensors"}, {p["file"] for n in parameters for p in manifest["slots"][n]["pieces"]})
        for name, told in manifest["files"].items():
            self.assertEqual(os.path.getsize(os.path.join(run, "step-20", name)), told["bytes"])
        self.assertIn("loss", manifest["metrics"])
        self.assertEqual(manifest["layout"], {"mesh": {}, "processes": 1})
        with open(run + "/step-8/items/stepc_run.json") as f:
            self.assertEqual(json.load(f), {"batches": 8, "step": 8, "data": 7})
        shutil.copy(run + "/step-20/params.safetensors", self.path("alone.safetensors"))  # as it is, with its own checksum
        flip(self.path("alone.safetensors"), 8 * os.path.getsize(self.path("alone.safetensors")) - 5)
        self.assertIn("damaged", self.train("--init", "alone.safetensors", code=1).stderr)

    def test_levels(self):
        """The vectors that checksums are made with are those of the object's CPU; the sums are the same, and one goes on with the other's."""
        level = {}
        for name, cpu in (("old", "x86-64-v2"), ("new", "native")):
            level[name] = self.path(name + ".so")
            self.stepc("compile", self.model, "-o", level[name], "-q", "--cpu", cpu)
            self.train("--save-dir", "runs/" + name, what=level[name], steps=6)
            self.stepc("checkpoint", "verify", "-q", "runs/" + name)
        for made, other in (("old", "new"), ("new", "old")):
            there = content(self.path("runs/" + made))
            self.train("--resume", self.path("runs/%s/step-6" % made), what=level[other], steps=9)
            self.assertEqual(there, content(self.path("runs/" + made)))
            path = self.path("runs/%s/step-6/opt_state.safetensors" % made)
            flip(path, 8 * os.path.getsize(path) - 9)
            self.assertIn("checksum", self.train("--resume", self.path("runs/%s/step-6" % made), what=level[other], steps=9, code=1).stderr)
        four_lanes = re.compile(rb"\xc5[\x7d\xfd]\x70.\xf5", re.DOTALL)  # vpshufd $0xf5 of 32 bytes
        with open(level["old"], "rb") as old, open(level["new"], "rb") as new:
            self.assertIsNone(four_lanes.search(old.read()))
            if "avx2" in json.loads(self.stepc("explain", level["new"], "--json").stdout)["target"]["features"]:
                self.assertIsNotNone(four_lanes.search(new.read()))

    def test_resume(self):
        """Every k: the state, the metrics and the numbers of steps are those of one run."""
        for what in (self.so, self.model):
            whole = self.saved("whole.safetensors", "--metrics", "whole.jsonl", what=what)
            with open(self.path("whole.jsonl")) as f:
                metrics = f.read()
            for k in (1, 4, 8, 13, 20) if what == self.so else (7,):
                run = "runs/%d" % k
                shutil.rmtree(self.path(run), ignore_errors=True)
                self.train("--save-dir", run, "--metrics", "part.jsonl", what=what, steps=k)
                rest = self.saved("rest.safetensors", "--save-dir", run, "--resume", "auto", "--metrics", "part.jsonl", what=what)
                self.assertEqual(rest, whole, k)
                with open(self.path("part.jsonl")) as f:
                    self.assertEqual(f.read(), metrics)
                again = self.saved("again.safetensors", "--resume", run + "/step-%d" % k, what=what)
                self.assertEqual(again, whole, k)

    def test_resume_names(self):
        """What a run begins with has to be there, also where a checkpoint is taken instead."""
        run = ("--save-dir", "run", "--resume", "auto")
        self.train(*run, steps=1)
        for option in ("--init", "--peft"):
            said = self.stepc("run", self.so, "--data", self.data, "--steps", "2", "-q", *run, option, "nosuch", code=3).stderr
            self.assertIn("%s: nosuch: No such file" % option, said)
        shutil.copytree(self.path("run/step-1"), self.path("start"))
        self.train(*run, "--init", "start", steps=2)

    def test_items_that_are_no_json(self):
        """A host may save any text as an item: whoever reads it says what it is not."""
        for text in ("{bad", "", "{} {}", "[" * 2000 + "]" * 2000, ' {"a": [1, "\\u0000"]} '):
            shutil.rmtree(self.path("items"), ignore_errors=True)
            with host.Step(self.path(self.so)) as m, mock.patch.object(host, "_json", lambda value, what: text):
                m.init()
                with m.checkpoints(self.path("items")) as runs:
                    runs.save(items={"note": 1})
                    runs.resume()
                    if "u0000" in text:
                        self.assertEqual(runs.item("note"), {"a": [1, "\0"]})
                        self.stepc("checkpoint", "verify", "items")
                    else:
                        self.assertRaisesRegex(host.StepError, 'STEP_ECORRUPT: item "note" is no JSON', runs.item, "note")
                        self.assertIn("items/note.json: an item that is no JSON", self.stepc("checkpoint", "verify", "items", code=1).stderr)

    def test_many_files(self):
        """More than a process may have open, and more than are kept open; also as an object reads them, which has a few of its own open."""
        deep = dict(MODEL, model={"type": "sequential", "input": "x", "layers": [{"type": "repeat", "count": 40, "block": {"type": "linear", "features": 6}}, {"type": "linear", "features": 3}]}, mesh={"axes": {"data": 2}})
        self.stepc("compile", self.write("deep.json", deep), "-o", "deep.so", "-q")
        train = [runner.Case.program, "run", "deep.so", "--data", self.data, "--threads", "1", "-q", "--save-dir", "run", "--resume", "auto", "--steps"]
        for steps, limit in ((2, 1024), (4, 40)):
            done = subprocess.run(["sh", "-c", "ulimit -n %d; exec \"$@\"" % limit, "sh", *train, str(steps)], cwd=self.folder, capture_output=True, text=True,
                                  env=dict(os.environ, STEPC_FILE_BYTES="100"))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(os.listdir(self.path("run/step-4"))), 300)
        self.stepc("checkpoint", "verify", "-q", "run")
        self.stepc("run", "deep.so", "--data", self.data, "--threads", "1", "-q", "--steps", "4", "--save-dir", "other")
        self.stepc("checkpoint", "diff", "run/step-4", "other/step-4")

    def test_counted_out(self):
        """The counter of a state ends at 2^31 - 1, as in JAX; the steps are numbered further, and so are their checkpoints, also where one goes on."""
        most = 2**31 - 1
        m = host.Step(self.so, threads=1)
        m.init()
        m["step"] = np.array(most - 1, np.int32)
        batch = {n: v[0] for n, v in safetensors.read(self.data).items()}
        for k in range(3):
            self.assertEqual(m.step(**batch).step, most + k)
            with m.checkpoints(self.path("run")) as run:
                run.save()
        m.close()
        self.assertEqual(sorted(os.listdir(self.path("run"))), ["latest", "step-%d" % most, "step-%d" % (most + 1), "step-%d" % (most + 2)])
        m = host.Step(self.so, threads=1)
        m.load(self.path("run"))
        self.assertEqual((m.step(**batch).step, int(m["step"])), (most + 3, most))
        m.close()

    def test_skipped_steps(self):
        """A step that is skipped takes a batch; a run that continues knows."""
        data = {n: v.copy() for n, v in safetensors.read(self.data).items()}
        data["x"][3, 0, 0] = np.nan
        safetensors.write(self.data, data)
        whole = self.saved("whole.safetensors", "--on-nonfinite", "skip")
        self.train("--save-dir", "runs/a", "--on-nonfinite", "skip", steps=6)
        with open(self.path("runs/a/latest/items/stepc_run.json")) as f:
            self.assertEqual(json.load(f), {"batches": 6, "step": 5, "data": 7})
        self.assertEqual(self.saved("rest.safetensors", "--save-dir", "runs/a", "--resume", "auto", "--on-nonfinite", "skip"), whole)
        self.train("--metrics", "whole.jsonl", "--csv", "whole.csv", "--on-nonfinite", "skip")
        wanted = [self.lines("whole" + kind) for kind in (".jsonl", ".csv")]
        self.assertEqual([len(lines) for lines in wanted], [STEPS, STEPS + 1])
        for k in range(3, 7):  # before the first step that is skipped, right behind it, and later
            files = ["--save-dir", "k%d" % k, "--metrics", "part.jsonl", "--csv", "part.csv", "--on-nonfinite", "skip"]
            self.train(*files, "--save-every", "1", steps=9)
            self.train("--resume", "k%d/step-%d" % (k, k), "--metrics", "part.jsonl", "--csv", "part.csv", "--on-nonfinite", "skip")
            self.assertEqual([self.lines("part" + kind) for kind in (".jsonl", ".csv")], wanted, k)

    def test_resume_before_the_first_step(self):
        """Of a run that skipped all its steps, or of what was imported, there is step-0; the run goes on from it."""
        data = safetensors.read(self.data)
        safetensors.write(self.path("lost.safetensors"), {n: np.full_like(v, np.nan) for n, v in data.items()})
        self.stepc("run", self.so, "--steps", "2", "--data", "lost.safetensors", "--threads", "1", "-q", "--on-nonfinite", "skip", "--save-dir", "r")
        self.assertEqual(os.readlink(self.path("r/latest")), "step-0")
        self.train("--save-dir", "r", "--resume", "auto", steps=4)
        self.assertEqual(sorted(os.listdir(self.path("r"))), ["latest", "step-0", "step-2"])
        self.saved("some.safetensors", steps=0)
        self.stepc("checkpoint", "import", "some.safetensors", "-o", "i")
        self.train("--save-dir", "i", "--resume", "auto", steps=1)
        self.assertEqual(sorted(os.listdir(self.path("i"))), ["latest", "step-0", "step-1"])

    def test_blocks_called_as_state(self):
        """A file says what its tensors are, so that nothing is lost of blocks called as averages and state are; of an older one names and
        shapes tell, and what they take for no parameter is said."""
        names = "slow", "eval", "ema", "rng", "opt_state", "loss_scale", "hyperparameters", "step", "data"
        block = lambda name: {"type": "sequential", "name": name, "input": "x", "layers": [
            {"type": "linear", "name": "one", "features": 3}, {"type": "batch_norm", "name": "norm"}, {"type": "dropout", "rate": 0.1}]}
        graph = {"type": "graph", "nodes": [block(n) for n in names], "output": " + ".join(names)}
        beside = dict(graph, nodes=[{"type": "linear", "name": "one", "features": 3, "input": "x"}] + graph["nodes"], output=graph["output"] + " + one")
        averaged = {"ema": {"decay": 0.9}, "precision": {"loss_scale": {"type": "dynamic_scale"}}}
        for model, more in ((graph, {}), (graph, averaged), (beside, {})):
            shutil.rmtree(self.path("k"), ignore_errors=True)
            self.stepc("compile", self.write("named.json", dict({k: v for k, v in MODEL.items() if k != "ema"}, model=model, **more)), "-o", "named.so", "-q")
            for state in ([], ["--all-state"]):
                self.train("--save", "a.safetensors", *state, "--save-dir", "k/native", what="named.so", steps=3)
                self.tool("export", "k/native", "-o", "native.safetensors")
                wanted = safetensors.raw(self.path("native.safetensors"))
                self.assertEqual(len(wanted), 6 * len(names) + 2 * (model is beside))
                with open(self.path("a.safetensors"), "rb") as f:
                    text = f.read()
                stripped = bytearray(text.replace(b"stepc.roles", b"other.roles"))
                stripped[40:48] = b"00000000"  # no checksum
                with open(self.path("old.safetensors"), "wb") as f:
                    f.write(stripped)
                for file in "a", "old":
                    told = self.tool("import", file + ".safetensors", "-o", "k/" + file)
                    self.tool("export", "k/" + file, "-o", "out.safetensors")
                    out = safetensors.raw(self.path("out.safetensors"))
                    guessed = {n for n in wanted if n not in out}
                    self.assertEqual(out, {n: t for n, t in wanted.items() if n not in guessed} if file == "old" else wanted)
                    if file == "old":
                        said = told.stderr.split("exported: ")[-1]
                        self.assertTrue(all('"%s"' % n in said for n in guessed) or " more" in said, told.stderr)
                        self.assertLessEqual({n.split(".")[0] for n in guessed}, {"ema", "slow", "eval"} if model is beside and not state else {"ema", "slow", "eval", "opt_state"})
                    else:
                        self.assertNotIn("note", told.stderr)
                        shown = [json.loads(self.tool("show", k, "--json").stdout)["slots"] for k in ("k/a", "k/native")]
                        items = [{n["name"]: n["item"] for n in slots} for slots in shown]
                        self.assertEqual(items[0], {n: i for n, i in items[1].items() if n in items[0]})
                    shutil.rmtree(self.path("k/" + file))
                self.train("--init", "a.safetensors", "--save", "again.safetensors", *state, what="named.so", steps=0)
                self.assertEqual(safetensors.raw(self.path("again.safetensors")), safetensors.raw(self.path("a.safetensors")))
                shutil.rmtree(self.path("k"))
        self.tool("import", "out.safetensors", "-o", "k")
        with open(self.path("bad.safetensors"), "wb") as f:
            f.write(text[:40] + b"00000000" + text[48:].replace(b'opt_state\\"', b'opt_stage\\"'))
        self.assertIn('"stepc.roles" must be', self.tool("import", "bad.safetensors", "-o", "b", code=1).stderr)

    def lines(self, name):
        with open(self.path(name)) as f:
            return f.read().splitlines()

    def test_metrics_not_read(self):
        """What a run that continues cannot read of the rows before it stays as it is, and the run says so."""
        self.train("--save-dir", "run", steps=3)
        os.symlink("rows.jsonl", self.path("rows.jsonl"))
        said = self.train("--save-dir", "run", "--resume", "auto", "--metrics", "rows.jsonl", code=3).stderr
        self.assertIn("rows.jsonl: what is there cannot be read: Too many levels", said)
        self.assertTrue(os.path.islink(self.path("rows.jsonl")))
        with open(self.path("other.jsonl"), "w") as f:
            f.write('{"step": 1, "loss": 2}\n\nnot a row\n{"step": 2, "loss": 2}\n')
        said = self.train("--save-dir", "run", "--resume", "auto", "--metrics", "other.jsonl", code=3).stderr
        self.assertIn("other.jsonl: line 3 is no row of a run", said)

    def test_the_name_of_a_file(self):
        """Saving by such a name makes one file: a run asks for another folder before its first step."""
        said = self.train("--save-dir", "r.safetensors", "--metrics", "m.jsonl", code=2).stderr
        self.assertIn("--save-dir r.safetensors: a name that ends in .safetensors is one of a file", said)
        self.assertFalse(os.path.exists(self.path("r.safetensors")) or os.path.exists(self.path("m.jsonl")))

    def long_path(self, length):
        whole, rest = divmod(length - len(self.folder), 101)
        return self.folder + ("/" + "d" * 100) * (whole - 1) + "/" + "e" * (50 + rest) + "/" + "f" * 49

    def test_long_paths(self):
        """What could not be read again is not begun; what is wrong with a long path is said."""
        longest, longer = self.long_path(3776), self.long_path(3777)
        self.assertEqual((len(longest), len(longer)), (3776, 3777))
        self.train("--save-dir", longest, steps=3)
        self.train("--save-dir", longest, "--resume", "auto", steps=5)
        self.assertIn("step-5: step 5 is whole", self.stepc("checkpoint", "verify", longest).stdout)
        self.stepc("checkpoint", "export", longest, "-o", self.path("exported.safetensors"))
        self.assertIn("--save-dir: a path of 3777 characters", self.train("--save-dir", longer, code=3).stderr)
        self.stepc("checkpoint", "convert", longest, "-o", longer, code=3)
        self.assertFalse(os.path.exists(longer))
        file = self.long_path(3700) + "/" + "g" * 200 + "/" + "h" * 120 + ".safetensors"
        before = time.monotonic()
        self.assertRegex(self.train("--save", file, steps=10**9, code=3).stderr, "^stepc: error: --save: %s: .*File name too long$" % file)
        self.assertLess(time.monotonic() - before, 60)  # before the steps
        self.stepc("checkpoint", "prune", longest, "--keep", "latest=1")
        self.assertEqual(self.stepc("checkpoint", "verify", longest + "/step-4", code=3).stderr, "stepc: error: %s/step-4: No such file or directory\n" % longest)
        with host.Step(self.so) as m:
            m.init()
            for path in (longer, file):
                with self.assertRaises(host.StepError) as refused:
                    m.save(path) if path == file else m.checkpoints(path).save()
                self.assertRegex(str(refused.exception), "(?s)STEP_EIO: .*File name too long$")
            shutil.rmtree(longest)
            m.checkpoints(longest).save()

    def test_many_metrics(self):
        """As many as a checkpoint holds are saved; of more the run says so before its first step."""
        for count, code in ((500, 0), (1100, 1)):
            model = self.write("many.json", dict(MODEL, metrics={"m%d" % i: "loss * %d" % i for i in range(count)}))
            done = self.train("--save-dir", "run%d" % count, "--metrics", "m%d.jsonl" % count, what=model, steps=2, code=code)
            self.assertEqual(os.path.exists(self.path("run%d/step-2" % count)), not code)
        self.assertIn("at most 1024 metrics of one number, this run has 1101", done.stderr)
        self.assertFalse(os.path.exists(self.path("m1100.jsonl")))

    def test_evaluation_cut_short(self):
        """By a signal: who goes on evaluates first, and has the numbers of a run that nobody stopped."""
        rows = {n: np.repeat(v, 6000, axis=0) for n, v in safetensors.read(self.data).items()}
        safetensors.write(self.path("eval.safetensors"), rows)
        more = ["--eval-data", "eval.safetensors", "--eval-every", "4", "--stop-when", "eval_loss:min:patience=2"]
        wanted = {}
        for name in ("whole", "part"):
            arguments = [*more, "--metrics", name + ".jsonl", "--save-dir", name]
            if name == "part":
                p = self.start(*arguments)
                while p.poll() is None and len(self.lines("part.jsonl") if os.path.exists(self.path("part.jsonl")) else ()) < 3:
                    time.sleep(0.002)
                time.sleep(0.02)
                p.send_signal(signal.SIGTERM)
                self.assertEqual(p.wait(), -signal.SIGTERM, p.communicate()[1])
                arguments += ["--resume", "auto"]
            self.train(*arguments)
            rows = [json.loads(line) for line in self.lines(name + ".jsonl")]
            got = {(r["step"], n): v for r in rows for n, v in r.items() if n.startswith("eval")}
            wanted = wanted or got
            self.assertEqual(got, wanted)

    def test_standing_still(self):
        """A job that is stopped for longer than its time-out goes on afterwards."""
        self.stepc("compile", self.write("two.json", dict(MODEL, mesh={"axes": {"data": 2}}, sharding={"rules": [["batch", "data"]]})), "-o", "two.so", "-q")
        p = subprocess.Popen([self.program, "run", "two.so", "--steps", "1000000000", "--data", self.data, "--threads", "1", "--timeout", "1", "-q"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=runner.environment(False))
        for _ in range(3):
            time.sleep(0.3)
            p.send_signal(signal.SIGSTOP)
            time.sleep(1.3)
            p.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        p.send_signal(signal.SIGTERM)
        self.assertEqual((p.wait(), p.communicate()[1]), (-signal.SIGTERM, ""))

    def start(self, *more, steps=STEPS):
        return subprocess.Popen([self.program, "run", self.so, "--steps", str(steps), "--data", self.data, "--threads", "1", "-q", *more],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder, env=runner.environment(False))

    def verified(self, run):
        """Every step-N is complete, and there is nothing else but what one that is gone has left."""
        for name in os.listdir(self.path(run)):
            if name.startswith("step-"):
                self.stepc("run", self.so, "--resume", "%s/%s" % (run, name), "--steps", "0", "--data", self.data, "-q")
            else:
                self.assertTrue(name == "latest" or name.startswith((".tmp-step-", ".del-step-")), name)

    def test_killed(self):
        """kill -9 at random times, again and again, until the run has come to its end: that of a run that nobody killed."""
        steps = 3000
        whole = self.saved("whole.safetensors", steps=steps)
        last = 0
        for kill in range(KILLS):
            p = self.start("--save-dir", "runs/k", "--save-every", "100", "--resume", "auto", steps=steps)
            time.sleep(0.02 + self.draw.random() * 0.3)
            p.kill()
            p.communicate()
            if os.path.isdir(self.path("runs/k")):
                self.verified("runs/k")
                newest = max([int(n[5:]) for n in os.listdir(self.path("runs/k")) if n.startswith("step-")], default=0)
                self.assertGreaterEqual(newest, last)
                last = newest
        self.assertEqual(self.saved("rest.safetensors", "--save-dir", "runs/k", "--save-every", "100", "--resume", "auto", steps=steps), whole)
        self.assertEqual([n for n in os.listdir(self.path("runs/k")) if n.startswith((".tmp", ".del"))], [])

    def test_signals(self):
        """SIGTERM, SIGINT and SIGHUP leave a checkpoint and end as the signal ends; SIGUSR1 leaves one and the run goes on."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            run = "runs/%d" % number
            p = self.start("--save-dir", run, "--metrics", "m.jsonl", steps=100000000)
            end = time.monotonic() + 60
            while not (os.path.exists(self.path("m.jsonl")) and os.path.getsize(self.path("m.jsonl"))) and time.monotonic() < end:
                time.sleep(0.01)
            p.send_signal(number)
            if number == signal.SIGUSR1:
                while not os.path.exists(self.path(run + "/latest")) and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertIsNone(p.poll())
                p.send_signal(signal.SIGTERM)
            said = p.communicate(timeout=60)[1]
            self.assertEqual(p.returncode, -signal.SIGTERM if number == signal.SIGUSR1 else -number, said)
            self.assertEqual(len([n for n in os.listdir(self.path(run)) if n.startswith("step-")]), 2 if number == signal.SIGUSR1 else 1)
            with open(self.path("m.jsonl")) as f:
                last = json.loads(f.readlines()[-1])["step"]
            self.assertEqual(os.readlink(self.path(run + "/latest")), "step-%d" % last)
            self.verified(run)
            os.unlink(self.path("m.jsonl"))

    def load(self, path):
        return runner.attempt(self.program, "run", self.so, "--resume", path, "--steps", "9", "--data", self.data, "--threads", "1", "-q", "--save", "loaded.safetensors",
                              "--all-state", verify=False, cwd=self.folder)

    def outcome(self, what, good):
        """A damaged checkpoint is refused with its reason, or gives the very same; never a signal."""
        done = self.load("runs/d/step-8")
        self.assertIn(done.returncode, (0, 1), "%s: %s" % (what, done.stderr))
        if done.returncode:
            self.assertIn("runs/d/step-8", done.stderr, what)
        else:
            with open(self.path("loaded.safetensors"), "rb") as f:
                self.assertEqual(f.read(), good, what)
        return done.returncode

    def test_damaged(self):
        """Flipped bits, cut and longer files, missing and swapped ones."""
        self.train("--save-dir", "runs/d", "--save-every", "4", steps=8)
        step, other = self.path("runs/d/step-8"), self.path("runs/d/step-4")
        self.assertEqual(self.load("runs/d/step-8").returncode, 0)
        with open(self.path("loaded.safetensors"), "rb") as f:
            good = f.read()
        before, found = content(step), 0
        for _ in range(DAMAGES):
            name = self.draw.choice(sorted(before))
            size = len(before[name])
            kind = self.draw.choice(("flip", "flip", "flip", "cut", "longer", "missing", "swapped"))
            path = os.path.join(step, name)
            where = self.draw.randrange(8 * size)
            if kind == "flip":
                flip(path, where)
            elif kind == "cut":
                os.truncate(path, where // 8)
            elif kind == "longer":
                with open(path, "ab") as f:
                    f.write(b"\0")
            elif kind == "missing":
                os.unlink(path)
            else:
                shutil.copy(os.path.join(other, name), path)
            found += self.outcome("%s %s at %d" % (kind, name, where), good)
            with open(path, "wb") as f:
                f.write(before[name])
        self.assertGreater(found, DAMAGES * 0.8)  # spaces behind a header and the like are without effect
        self.assertEqual(self.outcome("nothing", good), 0)

    def test_damaged_before_init(self):
        """What cannot be loaded into an instance without a state leaves it as it was; and who loads needs no initial values."""
        self.saved("end.safetensors", "--save-dir", "runs/a", steps=4)
        shutil.copytree(self.path("runs/a/step-4"), self.path("bad"))
        flip(self.path("bad/opt_state.safetensors"), 8 * os.path.getsize(self.path("bad/opt_state.safetensors")) - 5)
        batch = {n: v[4] for n, v in safetensors.read(self.data).items()}
        new, old, first = (host.Step(self.so, threads=1) for _ in range(3))
        with self.assertRaisesRegex(host.StepError, "is damaged"):
            new.load(self.path("bad"))
        new.init()
        old.init()
        first.load(self.path("runs/a/step-4"))
        for name, wanted in safetensors.read(self.path("end.safetensors")).items():
            self.assertEqual(first[name].tobytes(), wanted.tobytes(), name)
        names = [n for role in (host.PARAM, host.EMA, host.OPT_STATE, host.STATE) for n in new.names(role)]
        for m in (new, old):
            m.step(**batch)
        self.assertEqual([n for n in names if new[n].tobytes() != old[n].tobytes()], [])
        new.load(self.path("runs/a/step-4"))
        for m in (new, first):
            m.step(**batch)
        self.assertEqual([n for n in names if new[n].tobytes() != first[n].tobytes()], [])

    def test_older_one(self):
        """--resume auto names what is damaged, takes the one before it, and does not stumble over it later."""
        whole = self.saved("whole.safetensors")
        self.train("--save-dir", "runs/a", "--save-every", "4", steps=12)
        flip(self.path("runs/a/step-12/opt_state.safetensors"), 8 * os.path.getsize(self.path("runs/a/step-12/opt_state.safetensors")) - 9)
        os.unlink(self.path("runs/a/step-8/manifest.json"))
        older = content(self.path("runs/a/step-4"))
        said = self.train("--save-dir", "runs/a", "--save-every", "4", "--resume", "auto", "--save", "rest.safetensors", "--all-state", quiet=False).stderr
        self.assertRegex(said, r"step-12: opt_state.safetensors is damaged: \"opt_state\..*\", bytes \d+ to \d+: checksum")
        self.assertRegex(said, r"step-8: manifest.json: No such file")
        self.assertIn("step 4\n", said)
        self.assertIn("saved step 8 in ", said)
        with open(self.path("rest.safetensors"), "rb") as f:
            self.assertEqual(f.read(), whole)
        self.assertEqual(content(self.path("runs/a/step-4")), older)
        self.assertEqual(sorted(os.listdir(self.path("runs/a"))), ["latest", "step-12", "step-12.damaged", "step-16", "step-20", "step-4", "step-8", "step-8.damaged"])
        for step in (4, 8, 12, 16, 20):
            flip(self.path("runs/a/step-%d/manifest.json" % step), 200)
        self.assertIn("manifest.json", self.train("--save-dir", "runs/a", "--resume", "auto", code=1).stderr)  # not anew, in silence

    def test_forsaken(self):
        """What killed writers leave goes with the next save; what others have put there stays, under a name that no writer can give to a checkpoint any more."""
        run = self.path("runs/a")
        for name in (".tmp-step-3-00c0ffee/items", ".del-step-1-00c0ffee", ".tmp-step-5-00c0ffee"):
            os.makedirs(os.path.join(run, name))
        for name in (".tmp-step-3-00c0ffee/params.safetensors", ".tmp-step-3-00c0ffee/items/a.json", ".tmp-step-5-00c0ffee/notes.txt", "notes.txt", ".tmp-other"):
            with open(os.path.join(run, name), "w") as f:
                f.write("mine")
        held = os.open(os.path.join(run, ".del-step-1-00c0ffee"), os.O_RDONLY)
        import fcntl
        fcntl.flock(held, fcntl.LOCK_EX)  # its writer lives
        self.train("--save-dir", "runs/a")
        self.assertEqual(sorted(os.listdir(run)), [".del-step-1-00c0ffee", ".del-step-5-00c0ffee", ".tmp-other", "latest", "notes.txt", "step-20"])
        self.assertEqual(os.listdir(os.path.join(run, ".del-step-5-00c0ffee")), ["notes.txt"])
        os.close(held)
        with open(os.path.join(run, "notes.txt")) as f:
            self.assertEqual(f.read(), "mine")

    def test_refused(self):
        """Before the first step, and with what to do."""
        need = lambda *more, code=2: self.train(*more, code=code).stderr
        self.assertIn("needs --save-dir", need("--save-every", "3"))
        self.assertIn("needs --save-dir", need("--resume", "auto"))
        self.assertIn("--init exclude", need("--save-dir", "r", "--resume", "3", "--init", "x.safetensors"))
        self.write("file", "")
        self.assertIn("Not a directory", need("--save-dir", "file/run", code=3))
        self.assertIn("/proc/none", need("--save-dir", "/proc/none/run", code=3))
        self.assertIn("step-7", need("--save-dir", "r", "--resume", "7", code=3))
        os.mkdir(self.path("mine"))
        for folder in ("new", "new/a//b/", "mine/a"):  # no empty folder stays, but one that was there
            self.assertIn("no metric", need("--save-dir", folder, "--keep", "best=typo:min:1", code=1))
        self.assertFalse(os.path.exists(self.path("new")))
        self.assertEqual(os.listdir(self.path("mine")), [])
        self.train("--save-dir", "r", "--save-every", "5")
        before = content(self.path("r"))
        self.assertIn("holds step-20 already; --resume auto goes on", need("--save-dir", "r", code=1))
        self.assertIn("behind the one that is resumed", need("--save-dir", "r", "--resume", "5", code=1))
        self.assertEqual(content(self.path("r")), before)
        other = self.write("other.json", dict(MODEL, optimizer={"type": "sgd", "learning_rate": 0.1}))
        said = self.train("--save-dir", "r", "--resume", "auto", what=other, code=1).stderr
        self.assertIn("is not one of this object's", said)  # another model is no damage: the one before it is not taken
        self.assertEqual(content(self.path("r")), before)
        self.assertIn("nothing is left to do", self.train("--save-dir", "r", "--resume", "auto", quiet=False).stderr)
        self.assertEqual(content(self.path("r")), before)

    def steps(self, run):
        return sorted(int(n[5:]) for n in os.listdir(self.path(run)) if n.startswith("step-"))

    def test_retention(self):
        """Each rule and several: what any keeps stays, and the newest; files of others keep a checkpoint where it is."""
        self.train("--save-dir", "all", "--save-every", "2", "--metrics", "m.jsonl")
        loss = {line["step"]: line["loss"] for line in runner.metrics(self.path("m.jsonl"))}
        best = sorted(range(2, 21, 2), key=lambda s: loss[s])
        for rules, kept in (("latest=3", [16, 18, 20]), ("every=6", [6, 12, 18, 20]), ("steps=4+6+7", [4, 6, 20]), ("steps=99", [20]),
                            ("latest=1,every=8", [8, 16, 20]), ("since=10000", list(range(2, 21, 2))),
                            ("best=loss:min:2", sorted({*best[:2], 20})), ("best=loss:max:1,latest=2", sorted({best[-1], 18, 20})),
                            ("latest=99", list(range(2, 21, 2))), ("seconds=100000000", [2, 20])):
            run = "r-" + rules.replace(":", ".")
            self.train("--save-dir", run, "--save-every", "2", "--keep", rules)
            if rules.startswith("best"):  # of those that are there, each time
                there = []
                for step in range(2, 21, 2):
                    there.append(step)
                    chosen = {step}
                    for rule in rules.split(","):
                        name, value = rule.split("=")
                        if name == "latest":
                            chosen |= set(there[-int(value):])
                        else:
                            metric, which, n = value.split(":")
                            key = lambda s: loss[s] * (1 if which == "min" else -1)
                            chosen |= set(sorted(sorted(there, reverse=True), key=key)[:int(n)])
                    there = sorted(chosen)
                kept = there
            self.assertEqual(self.steps(run), kept, rules)
            self.assertEqual([n for n in os.listdir(self.path(run)) if n[0] == "."], [])
        step, batch = host.Step(self.so), {n: a[0] for n, a in safetensors.read(self.data).items()}
        step.init()
        with step.checkpoints(self.path("without"), keep="best=none:min:2") as runs:  # those without the metric are the worst, alike
            for _ in range(4):
                step.step(**batch)
                runs.save()
        self.assertEqual(self.steps("without"), [3, 4])
        self.assertIn('no metric "los" of one number; did you mean "loss"?', self.train("--save-dir", "w", "--keep", "latest=1,best=los:min:2", code=1).stderr)
        self.assertIn("--eval-every", self.train("--save-dir", "w", "--keep", "best=eval_loss:min:2", code=2).stderr)
        self.assertFalse(os.path.exists(self.path("w")))
        before = self.steps("all")
        for what in ("ls", "prune"):
            self.assertIn('has a metric "los"; did you mean "loss"?', self.tool(what, "all", "--keep", "best=loss:min:1,best=los:min:2", code=1).stderr)
        self.assertEqual(self.steps("all"), before)
        self.write("all/step-4/notes.txt", "mine")
        flip(self.path("all/step-6/manifest.json"), 99)
        self.train("--save-dir", "all", "--resume", "auto", "--keep", "latest=1", steps=22)
        self.assertEqual(self.steps("all"), [4, 6, 22])  # not removed: one that holds other files, one that cannot be read
        self.assertEqual(content(self.path("all/step-4"))["notes.txt"], b"mine")
        for wrong in ("", "latest", "latest=0", "latest=x", "latest=3,", "best=loss:min", "best=loss:least:1", "newest=3", "every=2;latest=1", "steps="):
            self.assertIn("expected latest=N", self.train("--save-dir", "w", "--keep", wrong, code=2).stderr, wrong)

    def tool(self, *arguments, code=0):
        return self.stepc("checkpoint", *arguments, code=code)

    def test_listing(self):
        self.train("--save-dir", "r", "--save-every", "5", "--eval-data", self.data, "--eval-every", "10", "--metrics", "m.jsonl")
        told = {line["step"]: line for line in runner.metrics(self.path("m.jsonl"))}
        rows = json.loads(self.tool("ls", "r", "--json", "--keep", "every=10").stdout)["checkpoints"]
        self.assertEqual([(r["step"], r["complete"], r["keep"]) for r in rows], [(5, True, False), (10, True, True), (15, True, False), (20, True, True)])
        for row in rows:
            there = {n: v for n, v in told[row["step"]].items() if n != "step"}
            self.assertEqual(set(row["metrics"]), set(there))
            np.testing.assert_allclose([row["metrics"][n] for n in there], list(there.values()), rtol=1e-6)
            self.assertEqual(row["bytes"], sum(len(v) for n, v in content(self.path("r/step-%d" % row["step"])).items() if n != "manifest.json"))
        self.assertEqual(len(self.tool("ls", "r").stdout.splitlines()), 4)
        shown = json.loads(self.tool("show", "r", "--json").stdout)
        self.assertEqual(shown["step"], 20)
        self.assertIn({"name": "ema.layers.0.kernel", "item": "ema", "type": "float32[6,16]"}, shown["slots"])
        self.assertIn("opt_state", self.tool("show", "r/step-5").stdout)
        self.assertEqual(self.tool("verify", "r").stdout.count("is whole"), 4)
        told = json.loads(self.tool("verify", "r", "--json").stdout)
        self.assertEqual([(c["path"], c["step"], c["complete"], c["faults"]) for c in told["checkpoints"]], [("r/step-%d" % n, n, True, []) for n in (5, 10, 15, 20)])
        self.assertEqual((told["schema"], {c["files"] for c in told["checkpoints"]}, {c["tensors"] for c in told["checkpoints"]}), (1, {5}, {len(shown["slots"])}))
        self.assertEqual(json.loads(self.tool("verify", "r/step-5", "--json").stdout)["checkpoints"], told["checkpoints"][:1])
        flip(self.path("r/step-10/params.safetensors"), 8 * 20)  # the header: no tensor of it
        flip(self.path("r/step-15/items/stepc_run.json"), 8 * 20)
        said = self.tool("verify", "r", code=1)
        self.assertIn("error: r/step-10/params.safetensors", said.stderr)
        self.assertIn("r/step-15: items/stepc_run.json is damaged", said.stderr)
        self.assertEqual(said.stdout.count("is whole"), 2)
        told = json.loads(self.tool("verify", "r", "--json", code=1).stdout)["checkpoints"]
        self.assertEqual([c["complete"] for c in told], [True, False, False, True])
        self.assertRegex(told[1]["faults"][0], "^r/step-10/params.safetensors")
        self.assertRegex(told[2]["faults"][0], "items/stepc_run.json is damaged: checksum [0-9a-f]{32} expected")
        self.assertIn("expected ls, show", self.tool("list", "r", code=2).stderr)
        self.assertIn("holds no checkpoint", self.tool("ls", ".", code=1).stderr)
        for what in (("ls",), ("prune", "--keep", "latest=1")):
            self.assertIn("r/step-20 is one checkpoint", self.tool(what[0], "r/step-20", *what[1:], code=1).stderr)
        self.assertIn("none", self.tool("verify", "none", code=3).stderr)

    def test_not_there(self):
        """Whoever names a step that is not there learns which ones are; that nothing is there is not that things differ."""
        self.train("--save-dir", "r", "--save-every", "4")
        there = "r/step-7: No such file or directory; r holds step-20, step-16, step-12 and 2 older"
        for command in (("show", "r/step-7"), ("diff", "r", "r/step-7/"), ("export", "r/step-7", "-o", "x.safetensors"), ("convert", "r/step-7", "-o", "x")):
            said = self.stepc("checkpoint", *command, code=3).stderr
            self.assertIn(there.replace("step-7:", "step-7/:") if "r/step-7/" in command else there, said)
        for how in (("--save-dir", "r", "--resume", "7"), ("--resume", "r/step-7"), ("--init", "r/step-7")):
            self.assertIn(there, self.train(*how, code=3).stderr)
        self.assertRegex(self.stepc("checkpoint", "diff", "r", "q", code=3).stderr, "error: q: No such file or directory\n$")
        self.assertEqual(self.stepc("checkpoint", "diff", "r", "r").stdout, "")
        shutil.copytree(self.path("r/step-4"), self.path("renamed/step-7"))
        self.assertRegex(self.stepc("checkpoint", "ls", "renamed").stdout, r"step 7 .*its state is of step 4\n$")
        self.assertEqual([c.get("state_step") for c in json.loads(self.stepc("checkpoint", "ls", "renamed", "--json").stdout)["checkpoints"]], [4])
        self.assertNotIn("its state", self.stepc("checkpoint", "ls", "r").stdout)
        self.assertIn("is a checkpoint already", self.stepc("checkpoint", "import", "r/step-4", "-o", "x", code=1).stderr)
        self.assertIn("is a folder", self.stepc("checkpoint", "import", "renamed", "-o", "x", code=1).stderr)
        self.stepc("checkpoint", "diff", "r/step-4", "r", code=1)
        self.assertRegex(self.stepc("checkpoint", "show", "q/step-1", code=3).stderr, "error: q/step-1: No such file or directory\n$")

    def test_all_faults(self):
        """verify names every file and every tensor that is damaged."""
        self.train("--save-dir", "r", steps=4)
        at = lambda name: self.path("r/step-4/" + name)
        for name in ("params.safetensors", "opt_state.safetensors"):
            flip(at(name), 8 * os.path.getsize(at(name)) - 5)
        said = self.tool("verify", "r", code=1).stderr
        self.assertEqual([said.count(n) for n in ("params.safetensors is", "opt_state.safetensors is", "ema.safetensors is")], [2, 2, 0], said)
        os.unlink(at("ema.safetensors"))
        os.truncate(at("state.safetensors"), 300)
        faults = json.loads(self.tool("verify", "r", "--json", code=1).stdout)["checkpoints"][0]["faults"]
        self.assertEqual([sum(n in f for f in faults) for n in ("params", "opt_state", "ema", "state.safetensors has 300", "items")], [1, 1, 1, 1, 0], faults)

    def test_compare(self):
        self.train("--save-dir", "a", "--save-every", "19")
        self.train("--save-dir", "b")
        self.assertEqual(self.tool("diff", "a", "b").stdout, "")
        self.assertIn("layers.0.kernel: 96 of 96 differ, at most by ", self.tool("diff", "a/step-19", "b", "--rtol", "1e-9", code=1).stdout)
        self.assertIn("within the tolerances", self.tool("diff", "a/step-19", "b", "--atol", "100").stdout)
        m = host.Step(self.so, threads=1)
        for name, value in (("inf", np.inf), ("less", -np.inf), ("one", 1)):
            m.load(self.path("b"))
            m["layers.0.bias"] = np.full_like(m["layers.0.bias"], value)
            with m.checkpoints(self.path(name)) as run:
                run.save()
        m.close()
        for x, y in (("inf", "one"), ("inf", "less")):  # infinitely far from one another
            self.assertIn("layers.0.bias: 16 of 16 differ, at most by inf", self.tool("diff", x, y, "--rtol", "0.5", "--atol", "1e9", code=1).stdout)
        self.assertEqual(self.tool("diff", "inf", "inf").stdout, "")
        other = self.write("other.json", dict(MODEL, optimizer={"type": "sgd", "learning_rate": 0.1}))
        self.train("--save-dir", "c", what=other)
        self.assertIn("only in a/step-20", self.tool("diff", "a", "c", "--atol", "100", code=1).stdout)
        told = json.loads(self.tool("diff", "a", "b", "--json").stdout)
        self.assertEqual(told, {"schema": 1, "checkpoints": ["a/step-20", "b/step-20"], "tensors": [], "equal": True})
        a, b = (safetensors.read(self.path(n + "/opt_state.safetensors"))["opt_state.acc_grads.layers.0.kernel"] for n in ("a/step-19", "b/step-20"))
        for more, code in ((("--atol", "100"), 0), ((), 1)):
            told = json.loads(self.tool("diff", "a/step-19", "b", "--json", *more, code=code).stdout)
            row = {r["name"]: r for r in told["tensors"]}["opt_state.acc_grads.layers.0.kernel"]
            self.assertEqual((told["equal"], row["elements"], row["differ"], row["beyond_tolerances"]), (not code, 96, (a != b).sum(), 96 if code else 0))
            self.assertEqual(row["absolute"], abs(a.astype(float) - b).max())
            self.assertGreater(row["relative"], 0)
        told = json.loads(self.tool("diff", "a", "c", "--json", code=1).stdout)
        only = {r["name"]: r["only_in"] for r in told["tensors"] if "only_in" in r}
        self.assertEqual(only["opt_state.inner_opt_state.0.mu.layers.0.kernel"], "a/step-20")
        wide = self.write("wide.json", dict(MODEL, model=dict(MODEL["model"], layers=[dict(MODEL["model"]["layers"][0], features=17)] + MODEL["model"]["layers"][1:])))
        self.train("--save-dir", "w", what=wide)
        told = json.loads(self.tool("diff", "b", "w", "--json", code=1).stdout)
        self.assertIn({"name": "layers.0.kernel", "types": ["float32[6,16]", "float32[6,17]"]}, told["tensors"])
        self.assertIn("two paths", self.tool("diff", "a", code=2).stderr)
        self.assertIn("params.safetensors is a file; checkpoint import makes", self.tool("diff", "a", "b/step-20/params.safetensors", code=1).stderr)
        self.assertIn("from 0 on", self.tool("diff", "a", "b", "--rtol", "-1", code=2).stderr)

    def test_compare_small(self):
        """Float8 tensors differ by numbers, all 256 of both kinds; integers of 64 bits by all of their digits."""
        for dtype, bits, bias, text in (("F8_E4M3", 3, 7, "float8_e4m3fn[1]"), ("F8_E5M2", 2, 15, "float8_e5m2[1]")):
            for name in ("zeros", "all"):
                safetensors.write(self.path(name), {"t%d" % i: safetensors.Raw(dtype, [1], bytes([i if name == "all" else 0])) for i in range(256)})
                self.tool("import", name, "-o", dtype + name)
            rows = {r["name"]: r for r in json.loads(self.tool("diff", dtype + "zeros", dtype + "all", "--json", "--rtol", "0.5", code=1).stdout)["tensors"]}
            for i in range(1, 256):
                exponent, mantissa = i >> bits & 127 >> bits, i & (1 << bits) - 1
                value = 2.0**(max(exponent, 1) - bias - bits) * (mantissa + (exponent > 0) * 2**bits)
                finite = i & 127 < (127 if bits == 3 else 124)
                self.assertEqual(rows["t%d" % i]["absolute"], value if finite else "Infinity", (dtype, i))
            self.assertIn(text, self.tool("show", dtype + "all").stdout)
        for name, more in (("one", 0), ("two", 1)):
            safetensors.write(self.path(name), {"n": np.array([2**53 + more, -2**63 + more, more]), "u": np.array([2**64 - 1 - more], "u8")})
            self.tool("import", name, "-o", "runs/" + name)
        rows = json.loads(self.tool("diff", "runs/one", "runs/two", "--json", "--atol", "0.5", code=1).stdout)["tensors"]
        self.assertEqual([(r["absolute"], r["beyond_tolerances"]) for r in rows], [(1, 3), (1, 1)])

    def test_prune_and_export(self):
        self.train("--save-dir", "r", "--save-every", "4")
        before = content(self.path("r"))
        self.assertEqual(self.tool("prune", "r", "--keep", "latest=2", "--dry-run").stdout, "would remove step 4\nwould remove step 8\nwould remove step 12\n")
        self.assertEqual(content(self.path("r")), before)
        with open("/dev/full", "w") as full:  # what would go is not said
            said = subprocess.run([self.program, "checkpoint", "prune", "r", "--keep", "latest=2", "--dry-run"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.assertEqual((said.returncode, "No space left" in said.stderr), (3, True))
        self.tool("prune", "r", "--keep", "latest=2")
        self.assertEqual(self.steps("r"), [16, 20])
        self.assertIn("--keep RULES is missing", self.tool("prune", "r", code=2).stderr)
        state = safetensors.read(self.saved_file("end.safetensors"))
        self.tool("export", "r", "-o", "p.safetensors")
        exported = safetensors.read(self.path("p.safetensors"))
        for name, value in exported.items():
            np.testing.assert_array_equal(value, state[name])
        self.assertIn("layers.1.mean", exported)
        self.tool("export", "r", "--ema", "-o", "e.safetensors")
        for name, value in safetensors.read(self.path("e.safetensors")).items():
            np.testing.assert_array_equal(value, state.get("ema." + name, state[name]))
        self.train("--init", "e.safetensors", steps=1)
        self.assertIn("-o FILE is missing", self.tool("export", "r", code=2).stderr)
        before = content(self.path("r"))
        for inside in ("r/step-20/params.safetensors", "r/step-16/new.safetensors"):
            self.assertIn("lies in a checkpoint", self.tool("export", "r", "-o", inside, code=1).stderr)
        self.assertEqual(content(self.path("r")), before)
        large = {n: np.full_like(v, 1e6) for n, v in exported.items()}
        safetensors.write(self.path("large.safetensors"), large)
        self.train("--init", "large.safetensors", "--params-only", "--save-dir", "large", steps=1)
        self.assertIn("does not fit into float16", self.tool("export", "large", "--dtype", "float16", "-o", "half.safetensors", code=1).stderr)
        self.assertFalse(os.path.exists(self.path("half.safetensors")))
        self.train("--save-dir", "s", "--save-every", "4")
        self.tool("prune", "s", "--keep", "latest=1", "--keep", "every=8")  # both count
        self.assertEqual(self.steps("s"), [8, 16, 20])
        newest = self.path("s/step-20/opt_state.safetensors")
        flip(newest, 8 * os.path.getsize(newest) - 3)  # the others may be all that is left
        self.assertIn("step-20 is damaged", self.tool("prune", "s", "--keep", "latest=1", code=1).stderr)
        with open(newest, "r+b") as f:
            f.truncate(100)
        self.tool("prune", "s", "--keep", "latest=1")  # not counted, nor removed
        self.assertEqual(self.steps("s"), [16, 20])
        self.assertIn("lies in a checkpoint", self.train("--init", "s/step-16", "--save", "s/step-16/params.safetensors", steps=1, code=1).stderr)

    def saved_file(self, name):
        self.saved(name)
        return self.path(name)

    def begun(self, what, source, *more):
        """All state that a run of no steps begins with, and what it says."""
        said = self.train("--init", source, *more, "--save", "begun.safetensors", "--all-state", what=what, steps=0, quiet=False).stderr
        return safetensors.read(self.path("begun.safetensors")), said

    def test_params_only(self):
        """Of a checkpoint, of a directory of them and of files of all state the parameters, for any optimizer; averages are
        copies of them, the rest is as init leaves it, which is said."""
        self.train("--save-dir", "runs", "--save-every", "8", "--save", "whole.safetensors", "--all-state")
        saved = safetensors.read(self.path("whole.safetensors"))
        for name, document in (("sgd", dict(MODEL, optimizer={"type": "sgd", "learning_rate": 0.1})), ("same", MODEL)):
            self.stepc("compile", self.write(name + ".json", document), "-o", self.path(name + ".so"), "-q")
            for what in (name + ".json", name + ".so"):
                self.train("--save", "fresh.safetensors", "--all-state", what=what, steps=0)
                fresh = safetensors.read(self.path("fresh.safetensors"))
                for source in ("runs", "runs/step-20", "whole.safetensors"):
                    state, said = self.begun(what, source, "--params-only")
                    self.assertIn('"layers.1.mean", "layers.1.var", which begin anew', said)
                    self.assertEqual(set(state), set(fresh))
                    for path, value in state.items():
                        of = path.split(".", 1)[1] if path.startswith(("ema.", "eval.")) else path
                        parameter = of.startswith("layers.") and of.split(".")[2] not in ("mean", "var")
                        np.testing.assert_array_equal(value, saved[of] if parameter else fresh[path], path)
                self.assertEqual(state["step"], 0)
                state, said = self.begun(what, "runs/step-20/params.safetensors", "--params-only")
                np.testing.assert_array_equal(state["ema.layers.0.kernel"], saved["layers.0.kernel"])
        self.assertIn("--params-only takes", self.train("--init", "whole.safetensors", what="sgd.so", steps=0, code=1).stderr)
        shorter = {n: v for n, v in saved.items() if n != "layers.4.bias"}
        safetensors.write(self.path("shorter.safetensors"), shorter)
        safetensors.write(self.path("longer.safetensors"), {**saved, "head.bias": saved["layers.4.bias"]})
        for what in (self.model, self.so):
            said = self.train("--init", "shorter.safetensors", "--params-only", what=what, steps=0, code=1).stderr
            self.assertIn('lacks "layers.4.bias"; --init-partial', said)
            said = self.train("--init", "longer.safetensors", "--params-only", what=what, steps=0, code=1).stderr
            self.assertIn('holds what this step has not: "head.bias"; --init-partial', said)
            state, said = self.begun(what, "shorter.safetensors", "--params-only", "--init-partial")
            self.assertIn('lacks "layers.4.bias", which begin anew', said)
            np.testing.assert_array_equal(state["ema.layers.4.kernel"], saved["layers.4.kernel"])

    def test_init_partial(self):
        """What is missing and what is unknown is named; averages follow the parameters that are loaded."""
        self.train("--save-dir", "runs", "--save", "params.safetensors")
        saved = safetensors.read(self.path("params.safetensors"))
        safetensors.write(self.path("params.safetensors"), {n: v for n, v in saved.items() if not n.startswith("ema.")})
        model = dict(MODEL, model=dict(MODEL["model"], layers=MODEL["model"]["layers"][:-1] + [{"type": "linear", "features": 3, "name": "head"}]))
        self.stepc("compile", self.write("head.json", model), "-o", self.path("head.so"), "-q")
        for what in ("head.json", "head.so"):
            self.train("--save", "fresh.safetensors", "--all-state", what=what, steps=0)
            fresh = safetensors.read(self.path("fresh.safetensors"))
            self.train("--init", "params.safetensors", what=what, steps=0, code=1)
            state, said = self.begun(what, "params.safetensors", "--init-partial")
            self.assertIn('lacks "head.kernel", "head.bias", which begin anew', said)
            self.assertIn('holds "layers.4.bias", "layers.4.kernel", which this step has not', said)
            for path, value in state.items():
                of = path.split(".", 1)[1] if path.startswith(("ema.", "eval.")) else path
                np.testing.assert_array_equal(value, saved[of] if of in saved else fresh[path], path)
            state, said = self.begun(what, "runs", "--init-partial")  # all of the state: it goes on, with a head that is new
            self.assertIn('"opt_state.inner_opt_state.0.mu.head.kernel"', said)
            self.assertEqual(state["step"], STEPS)
            np.testing.assert_array_equal(state["ema.layers.0.kernel"], saved["ema.layers.0.kernel"])
            for path in ("head.kernel", "ema.head.kernel"):
                np.testing.assert_array_equal(state[path], fresh["head.kernel"], path)

    def test_cast(self):
        """A state of other float dtypes is taken when that is asked for."""
        self.saved("whole.safetensors")
        saved = safetensors.read(self.path("whole.safetensors"))
        wide = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in saved.items()}
        safetensors.write(self.path("wide.safetensors"), wide)
        for what in (self.model, self.so):
            for option in ("--init", "--resume"):
                self.assertIn("expected float32", self.train(option, "wide.safetensors", what=what, steps=0, code=1).stderr)
                self.train(option, "wide.safetensors", "--cast", "--save", "got.safetensors", "--all-state", what=what, steps=STEPS if option == "--resume" else 0)
                for path, value in safetensors.read(self.path("got.safetensors")).items():
                    np.testing.assert_array_equal(value, saved[path], path)
        kernel = wide["layers.0.kernel"]
        kernel[0, 0] = np.inf
        safetensors.write(self.path("wide.safetensors"), {**wide, "layers.0.kernel": kernel})
        self.train("--init", "wide.safetensors", "--cast", steps=0)
        kernel[0, 0] = -1e300  # which would be infinite, too, but is not
        safetensors.write(self.path("wide.safetensors"), {**wide, "layers.0.kernel": kernel})
        for what in (self.model, self.so):
            for more in (("--cast",), ("--params-only",)):
                self.assertIn('"layers.0.kernel": element 0 does not fit into float32', self.train("--init", "wide.safetensors", *more, what=what, steps=0, code=1).stderr)
        for option in ("--params-only", "--init-partial", "--cast"):
            self.assertIn(option + " needs --init", self.train(option, steps=1, code=2).stderr)
        self.assertIn("takes all of the state", self.train("--resume", "wide.safetensors", "--params-only", code=2).stderr)

    def test_meshes(self):
        """Saved on any mesh, the state is that of any other mesh, bit for bit."""
        sharding = {"rules": [["batch", "data"]], "params": {"layers.0.kernel": [None, "model"], "**": []}, "optimizer_state": {"**.kernel": ["data"]}}
        meshes, objects, states = [None, {"data": 2, "model": 1}, {"data": 1, "model": 2}, {"data": 2, "model": 2}, {"data": 4, "model": 1}], [], []
        for i, mesh in enumerate(meshes):
            document = dict(MODEL, **({"mesh": {"axes": mesh}, "sharding": sharding} if mesh else {}))
            objects.append(self.path("mesh%d.so" % i))
            self.stepc("compile", self.write("mesh%d.json" % i, document), "-o", objects[i], "-q")
            states.append(self.saved("mesh%d.safetensors" % i, "--save-dir", "mesh%d" % i, what=objects[i], steps=7))
            with open(self.path("mesh%d/step-7/manifest.json" % i)) as f:
                self.assertEqual(json.load(f)["layout"], {"mesh": mesh or {}, "processes": 1})
        for i, state in enumerate(states):
            for k, so in enumerate(objects):
                self.assertEqual(self.saved("loaded.safetensors", "--resume", "mesh%d" % i, what=so, steps=0), state, "%s on %s" % (meshes[i], meshes[k]))
            whole = self.saved("whole.safetensors", what=objects[i])
            self.assertEqual(self.saved("rest.safetensors", "--resume", "mesh%d" % i, what=objects[i]), whole)

    def test_other_window(self):
        """A checkpoint in the middle of a window of multi_steps is opened by a step with another one: the window goes on to the new
        length, or ends with the next batch; its mean is that of all gradients in it. The model has neither noise nor statistics."""
        layers = [{"type": "linear", "features": 16}, {"type": "tanh"}, {"type": "linear", "features": 3}]
        rule = lambda k: {"type": "multi_steps", "every_k_schedule": k, "opt": {"type": "sgd", "learning_rate": 0.1}}
        model = lambda k: dict(MODEL, ema=None, model=dict(MODEL["model"], layers=layers), optimizer=rule(k))
        objects = {}
        for k in (2, 3, 4, 5):
            document = {n: v for n, v in model(k).items() if v is not None}
            objects[k] = self.path("window%d.so" % k)
            self.stepc("compile", self.write("window%d.json" % k, document), "-o", objects[k], "-q")
        for done in (3, 2):  # gradients in the window that 4 began
            self.train("--save-dir", "from%d" % done, what=objects[4], steps=done)
            for k in (2, 3, 5):
                end = max(k, done + 1)
                self.train("--resume", "from%d/step-%d" % (done, done), "--save", "got.safetensors", "--all-state", what=objects[k], steps=end)
                got = safetensors.read(self.path("got.safetensors"))
                self.train("--save", "one.safetensors", "--all-state", what=objects[end], steps=end)  # all of them in a window of their own
                wanted = safetensors.read(self.path("one.safetensors"))
                for name in wanted:
                    np.testing.assert_array_equal(got[name], wanted[name], "%s: %d in the window, then %d" % (name, done, k))

    def test_left_out(self):
        so = self.path("files.so")
        self.stepc("compile", self.model, "-o", so, "--without", "directories", "-q")
        self.stepc("compile", self.model, "-o", self.path("none.so"), "--without", "checkpoint", "-q")
        self.stepc("compile", self.model, "-o", self.path("all.so"), "--without", "retention", "-q")
        for part, more, what in (("directories", (), so), ("checkpoint", (), "none.so"), ("retention", ("--keep", "latest=1"), "all.so")):
            refused = self.train("--save-dir", "r", *more, what=what, code=1, quiet=False).stderr
            self.assertIn("--without " + part, refused)
            self.assertNotIn("step", refused.replace("stepc", ""))  # before the first one
            self.assertFalse(os.path.exists(self.path("r")))
        self.train("--save-dir", "r", what="all.so")
        whole = self.saved("a.safetensors", what=so)
        self.saved("b.safetensors", what=so, steps=7)
        self.assertEqual(self.saved("c.safetensors", "--init", "b.safetensors", what=so, steps=STEPS - 7), whole)

    def test_full_disk(self):
        """A save that fails ends the run with code 3 after its step, or is warned of; those before it stay."""
        whole = self.saved("whole.safetensors", steps=40)
        self.train("--save-dir", "r", steps=10)
        before = content(self.path("r/step-10"))
        limited = lambda *more, **how: self.train("--save-dir", "r", "--resume", "auto", "--save-every", "7", *more, steps=40,
                                                  **how)
        import resource
        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        done = runner.attempt(self.program, "run", self.so, "--steps", "40", "--data", self.data, "-q", "--save-dir", "r", "--resume", "auto", "--save-every", "7",
                              verify=False, cwd=self.folder, preexec_fn=small)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("File too large"), 1, done.stderr)  # what ended the run is not tried again
        self.assertEqual(os.listdir(self.path("r")).count("step-14"), 0)
        self.assertEqual([n for n in os.listdir(self.path("r")) if n.startswith(".")], [])
        self.assertEqual(content(self.path("r/step-10")), before)
        done = runner.attempt(self.program, "run", self.so, "--steps", "40", "--data", self.data, "--save-dir", "r", "--resume", "auto", "--save-every", "7",
                              "--on-save-error", "warn", "-q", verify=False, cwd=self.folder, preexec_fn=small)
        self.assertEqual(done.returncode, 3, done.stderr)  # the end is not saved
        self.assertGreaterEqual(done.stderr.count("training goes on"), 4)
        limited()
        self.assertEqual(self.saved("rest.safetensors", "--resume", "r"), whole)

    def test_lost_weights(self):
        """NaN do not take the place of what is good."""
        data = {n: v.copy() for n, v in safetensors.read(self.data).items()}
        data["x"][5, 0, 0] = np.nan
        safetensors.write(self.data, data)
        self.assertIn("NaN", self.train("--save-dir", "r", "--save-every", "2", code=1).stderr)
        steps = sorted(int(n[5:]) for n in os.listdir(self.path("r")) if n.startswith("step-"))
        self.assertTrue(steps and all(np.isfinite(v).all() for s in steps for v in safetensors.read(self.path("r/step-%d/params.safetensors" % s)).values()))
        self.train("--save-dir", "all", "--save-every", "2", "--on-nonfinite", "continue")
        self.assertTrue(os.path.exists(self.path("all/step-20")))


if __name__ == "__main__":
    runner.main()
