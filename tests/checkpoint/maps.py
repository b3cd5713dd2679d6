#!/usr/bin/env python3
"""What is loaded under other names: maps, of files and of checkpoints, from the command line and from C; parameters alone; what
matches nothing, or not what was meant, is named and nothing is loaded; a damaged checkpoint is not taken for the newest.

usage: maps.py STEPC [TEST...]
"""
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples")]
import stepc as host
from tool import runner, safetensors

PARTIAL, CAST, PARAMS_ONLY = 1, 2, 4


def document(names, optimizer="adamw", **more):
    """Two layers and a head."""
    layers = [{"type": "linear", "features": 5, "name": names[0]}, {"type": "relu"}, {"type": "linear", "features": 5, "name": names[1]}, {"type": "batch_norm", "name": "norm"},
              {"type": "linear", "features": 3, "name": names[2]}]
    return {"stepc": 1, "inputs": {"x": {"shape": [4, 5], "axes": ["batch", None]}, "y": {"shape": [4, 3], "axes": ["batch", None]}},
            "model": {"type": "sequential", "input": "x", "layers": layers}, "loss": "mean((model - y)**2)", "ema": {"decay": 0.9},
            "optimizer": {"type": optimizer, "learning_rate": 0.01}, **more}


class Maps(runner.Case):
    verify = False

    def setUp(self):
        numbers = np.random.default_rng(3)
        self.data = self.path("data.safetensors")
        safetensors.write(self.data, {"x": numbers.standard_normal((3, 4, 5)).astype(np.float32), "y": numbers.standard_normal((3, 4, 3)).astype(np.float32)})
        self.old, self.new = self.object("old", document(("one", "two", "head"))), self.object("new", document(("blocks_1", "blocks_2", "head")))
        self.run_steps(self.old, 4, "--save-dir", "run", "--save-every", "2", "--save", "all.safetensors", "--all-state")
        self.saved = safetensors.read(self.path("all.safetensors"))
        self.run_steps(self.new, 0, "--save", "fresh.safetensors", "--all-state")
        self.fresh = safetensors.read(self.path("fresh.safetensors"))

    def object(self, name, what):
        self.stepc("compile", self.write(name + ".json", what), "-o", self.path(name + ".so"), "-q")
        return self.path(name + ".so")

    def run_steps(self, what, steps, *more, code=0):
        return self.stepc("run", what, "--steps", str(steps), "--data", self.data, "--threads", "1", *more, code=code).stderr

    def mapped(self, rules, *more, what=None, source="run", option="--init", steps=0, code=0):
        self.write("map.json", rules)
        said = self.run_steps(what or self.new, steps, option, source, "--map", "map.json", "--save", "got.safetensors", "--all-state", *more, code=code)
        return said if code else safetensors.read(self.path("got.safetensors"))

    def same(self, got, wanted):
        """Name by name; wanted: name -> where from, in `saved`, or an array."""
        for name, value in wanted.items():
            np.testing.assert_array_equal(got[name], self.saved[value] if isinstance(value, str) else value, name)

    RENAMED = {"**.blocks_1.*": "**.one.*", "**.blocks_2.*": "**.two.*", "**": "**"}

    def test_statistics_without_a_name(self):
        """An import names the running statistics that its table leaves out: a run begins with their initial values, or is refused."""
        model = self.write("model.json", json.dumps({"stepc": 1, "inputs": {"x": {"shape": [4, 3], "axes": ["batch", None]}}, "model": {"type": "sequential", "input": "x", "layers": [
            {"type": "batch_norm", "name": "one"}, {"type": "batch_norm", "name": "two"}]}, "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.1}}))
        weights, data = self.path("weights.safetensors"), self.path("data.safetensors")
        table = {n: n for n in ("one.bias", "one.mean", "one.scale", "one.var", "two.bias", "two.scale")}
        safetensors.write(weights, {n: np.ones(3, np.float32) for n in table})
        safetensors.write(data, {"x": np.ones((4, 3), np.float32)})
        arguments = "checkpoint", "import", weights, "--names", self.write("names.json", json.dumps({"tensors": table})), "--like", model, "-o", self.path("runs")
        said = self.stepc(*arguments)
        self.assertIn("6 tensors", said.stdout)
        self.assertIn('names no "two.mean", "two.var": ', said.stderr)
        self.assertNotIn("one.mean", said.stderr)
        run_of_it = "run", model, "--steps", "1", "--data", data, "--init", self.path("runs")
        self.assertIn('"two.mean" is missing', self.stepc(*run_of_it, code=1).stderr)
        self.assertIn('lacks "two.mean", "two.var"', self.stepc(*run_of_it, "--init-partial").stderr)

    def test_import_stopped(self):
        """What convert and import have written of a checkpoint goes where a signal ends them: it may be many gigabytes."""
        large = self.path("large.safetensors")
        safetensors.write(large, {"w%d" % i: np.zeros(1 << 18, np.float32) for i in range(96)})
        stopped = 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) * 4:
            p = subprocess.Popen([self.program, "checkpoint", "import", large, "-o", "runs/i"], cwd=self.folder, stdout=subprocess.DEVNULL)
            while p.poll() is None and not any(n.startswith(".tmp-step") for n in (os.listdir(self.path("runs/i")) if os.path.isdir(self.path("runs/i")) else [])):
                pass
            p.send_signal(number)
            code = p.wait(60)
            self.assertIn(code, (0, -number))
            there = os.listdir(self.path("runs/i")) if os.path.isdir(self.path("runs/i")) else []
            self.assertEqual([n for n in there if n.startswith(".")], [])
            stopped += not there
            shutil.rmtree(self.path("runs/i"), ignore_errors=True)
        self.assertGreater(stopped, 0)

    def test_export_stopped(self):
        """Nor do the first files of a model stay, which would be in the way of another try."""
        large, out, stopped = self.path("large.safetensors"), self.path("out"), 0
        safetensors.write(large, {"w.%d" % i: np.zeros(1 << 16, np.float32) for i in range(96)})
        self.stepc("checkpoint", "import", large, "-o", self.path("runs"))
        names = self.write("names.json", json.dumps({"tensors": {"v.*": "w.*"}}))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) * 4:
            p = subprocess.Popen([self.program, "checkpoint", "export", self.path("runs"), "--names", names, "--shard-size", "256KiB", "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while p.poll() is None and not (os.path.isdir(out) and os.listdir(out)):
                pass
            p.send_signal(number)
            self.assertIn(p.wait(60), (0, -number))
            self.assertIn(len(os.listdir(out)), (0, 97))
            stopped += not os.listdir(out)
            shutil.rmtree(out)
        self.assertGreater(stopped, 0)

    def test_renamed(self):
        """All state under other names: the run goes on bit for bit, objects and documents, files and directories."""
        whole = self.run_steps(self.old, 7, "--save", "whole.safetensors", "--all-state") and safetensors.read(self.path("whole.safetensors"))
        back = lambda name: name.replace("blocks_1", "one").replace("blocks_2", "two")
        for source in ("run", "run/step-4", "all.safetensors"):
            for what in (self.new, self.path("new.json")):
                got = self.mapped(self.RENAMED, what=what, source=source)
                self.assertEqual({back(n) for n in got}, set(self.saved))
                self.same(got, {n: back(n) for n in got})
        for option, source, steps in (("--resume", "run/step-4", 7), ("--init", "run", 3)):
            got = self.mapped(self.RENAMED, source=source, option=option, steps=steps)
            for name, value in got.items():
                np.testing.assert_array_equal(value, whole[back(name)], name)

    def test_fresh_and_kept(self):
        """init and reset: as init leaves it, averages too; averages from parameters; copies of one source."""
        got = self.mapped(dict({"head.*": "init", "opt_state.**": "reset", "ema.**": "init", "step": "reset"}, **self.RENAMED))
        self.same(got, {"blocks_1.kernel": "one.kernel", "norm.mean": "norm.mean", "head.kernel": self.fresh["head.kernel"],
                        "ema.blocks_1.kernel": "one.kernel", "ema.head.kernel": self.fresh["head.kernel"], "step": self.fresh["step"],
                        **{n: v for n, v in self.fresh.items() if n.startswith("opt_state.")}})
        got = self.mapped({"ema.blocks_1.*": "one.*", "ema.blocks_2.*": "ema.one.*", **self.RENAMED}, "--init-partial")
        self.same(got, {"ema.blocks_1.kernel": "one.kernel", "ema.blocks_2.kernel": "ema.one.kernel", "blocks_2.kernel": "two.kernel", "ema.head.bias": "ema.head.bias"})

    def test_parameters(self):
        """Parameters under other names for another optimizer; what is cast."""
        sgd = self.object("sgd", document(("blocks_1", "blocks_2", "head"), "sgd"))
        for source in ("run", "all.safetensors"):
            got = self.mapped(self.RENAMED, "--params-only", what=sgd, source=source)
            self.same(got, {"blocks_1.kernel": "one.kernel", "ema.blocks_2.bias": "two.bias", "head.bias": "head.bias", "norm.mean": self.fresh["norm.mean"]})
        half = {n: v.astype(np.float16) if v.dtype == np.float32 else v for n, v in self.saved.items()}
        safetensors.write(self.path("half.safetensors"), half)
        self.assertIn("found float16", self.mapped(self.RENAMED, source="half.safetensors", code=1))
        got = self.mapped(self.RENAMED, "--cast", source="half.safetensors")
        self.same(got, {"blocks_1.kernel": half["one.kernel"].astype(np.float32)})

    def test_mistakes(self):
        for rules, why in (
                ({"**": "**"}, '"blocks_1.kernel" is missing; expected float32[5, 5]'),
                ({"**.blocks_3.*": "**.one.*", **self.RENAMED}, 'map: "**.blocks_3.*" matches no tensor of this object'),
                ({**self.RENAMED, "head.kernel": "head.kernel"}, 'map: "head.kernel": rules before it have taken all that it matches'),
                ({**self.RENAMED, "**.blocks_1.*": "**.three.*"}, 'tensor "blocks_1.bias": the map takes "three.bias", which is not there'),
                ({"head.kernel": "one.kernel", **self.RENAMED}, 'the map takes "one.kernel" for "head.kernel"'),
                ({"head.kernel": "one.kernel", **self.RENAMED}, 'expected float32[5, 3]'),
                ({**self.RENAMED, "**.blocks_1.*": "**.two.*"}, 'of the file are asked for by no rule'),
                ({"blocks_1.*": "one.*"}, 'tensor "head.kernel": no rule of the map is for it'),
                ({"head.*": "head.*.*"}, 'map: "head.*": "head.*.*": each * or ** on the right'),
                ({"{one,two}.*": "a.*"}, "braces are not part of a map"),
                ([1], "map: byte 0"),
                ('{"a": "b", "a": "c"}', "is there twice"),
                ('{"a": 1}', "map: byte")):
            said = self.mapped(rules if not isinstance(rules, str) else rules, code=1)
            self.assertIn(why, said)
        self.assertIn("--map needs --init PATH", self.run_steps(self.new, 1, "--map", "map.json", code=2))
        self.assertIn("--resume auto", self.run_steps(self.new, 1, "--save-dir", "run", "--resume", "auto", "--map", "map.json", code=2))
        self.assertIn("cannot read", self.run_steps(self.new, 1, "--init", "run", "--map", "none.json", code=3))
        so = self.path("less.so")
        self.stepc("compile", self.path("new.json"), "-o", so, "--without", "maps", "-q")
        self.assertIn("--without maps", self.mapped(self.RENAMED, what=so, code=1))

    def load(self, m, path, rules=None, flags=0):
        m._check(m._load(m._instance, ctypes.byref(host._Load(path=self.path(path).encode(), map=rules and json.dumps(rules).encode(), flags=flags))))

    def test_host(self):
        """In C: skip keeps what is there, in mid-training too, and a refused load changes nothing; parameters alone need no PARTIAL."""
        m = host.Step(self.new, threads=1)
        with self.assertRaisesRegex(host.StepError, "has no value to keep"):
            self.load(m, "run", {"head.*": "skip", **self.RENAMED})
        m.init()
        data = safetensors.read(self.data)
        for k in range(5):
            m.step(x=data["x"][k % 3], y=data["y"][k % 3])
        names = [n for role in (host.PARAM, host.EMA, host.OPT_STATE, host.STATE) for n in m.names(role)]
        before = {n: m[n] for n in names}
        for rules in ({"head.*": "skip", "opt_state.**": "reset", "**": "**"}, {"nothing.*": "skip", **self.RENAMED}, {"head.*": "init", "norm.*": "gone.*", **self.RENAMED}):
            with self.assertRaises(host.StepError):
                self.load(m, "run", rules)
            for n in names:
                np.testing.assert_array_equal(m[n], before[n], n)
        self.load(m, "run", {"**.head.*": "skip", "opt_state.**": "reset", **self.RENAMED})
        self.same({n: m[n] for n in names}, {"blocks_1.kernel": "one.kernel", "head.kernel": before["head.kernel"], "ema.head.bias": before["ema.head.bias"], "step": "step",
                                             "opt_state.0.mu.head.kernel": before["opt_state.0.mu.head.kernel"],
                                             "opt_state.0.mu.blocks_1.kernel": self.fresh["opt_state.0.mu.blocks_1.kernel"], "opt_state.0.count": self.fresh["opt_state.0.count"]})
        sgd = host.Step(self.object("sgd", document(("one", "two", "head"), "sgd")), threads=1)
        sgd.init()
        for source in ("run", "run/step-4", "all.safetensors"):
            self.load(sgd, source, flags=PARAMS_ONLY)
            np.testing.assert_array_equal(sgd["two.kernel"], self.saved["two.kernel"])
        safetensors.write(self.path("more.safetensors"), {**self.saved, "tail.kernel": self.saved["head.kernel"]})
        with self.assertRaisesRegex(host.StepError, "tail.kernel"):
            self.load(sgd, "more.safetensors", flags=PARAMS_ONLY)
        self.load(sgd, "more.safetensors", flags=PARAMS_ONLY | PARTIAL)

    def test_export(self):
        """Under other names, and without what is left out; the file is then one of a step that has these names."""
        self.write("names.json", {"blocks_1.*": "one.*", "blocks_2.*": "two.*", "**": "**"})
        self.stepc("checkpoint", "export", "run", "--map", "names.json", "-o", "out.safetensors")
        got = safetensors.read(self.path("out.safetensors"))
        self.same(got, {"blocks_1.kernel": "one.kernel", "blocks_2.bias": "two.bias", "head.kernel": "head.kernel", "norm.mean": "norm.mean"})
        self.run_steps(self.new, 1, "--init", "out.safetensors")
        for rules, why in (({"a": "one.kernel"}, 'no rule takes "head.bias"'), ({"**": "skip"}, "no tensor is left"), ({"**": "init"}, "no tensor is left"), ({"a.*": "{o}"}, "braces"), ({"same": "one.*", "**": "**"}, "each * or **"),
                           ({"x.*": "one.*", "nothing": "zero", "**": "**"}, '"nothing" takes no tensor'), ({"x.*": "one.*", "x.kernel": "two.kernel", "**": "**"}, 'two tensors become "x.kernel"')):
            self.write("names.json", rules)
            self.assertIn(why, self.stepc("checkpoint", "export", "run", "--map", "names.json", "-o", "out.safetensors", code=1).stderr)

    def test_names_with_statistics(self):
        """Running statistics that a table names go out and come back; a number of dimensions is a whole one."""
        table = {"n.weight": "norm.scale", "n.bias": "norm.bias", "n.running_mean": "norm.mean", "n.running_var": "norm.var"}
        for name in ("one", "two", "head"):
            table.update({name + ".weight": {"from": name + ".kernel", "inputs": 1, "transpose": True}, name + ".bias": name + ".bias"})
        self.write("names.json", {"tensors": table})
        self.stepc("checkpoint", "export", "run", "--names", "names.json", "-o", "out")
        self.stepc("checkpoint", "import", "out", "--names", "names.json", "--like", "old.json", "-o", "back")
        self.run_steps(self.old, 0, "--init", "back", "--save", "got.safetensors")
        got = safetensors.read(self.path("got.safetensors"))
        self.same(got, {n: n for n in got if not n.startswith("ema.")})
        self.assertTrue({"norm.mean", "norm.var", "one.kernel"} <= set(got))
        del table["n.running_var"]
        self.write("names.json", {"tensors": table})
        said = self.stepc("checkpoint", "import", "out", "--names", "names.json", "--like", "old.json", "-o", "other", code=1).stderr
        self.assertIn('"n.running_var" is no tensor of the model: it would be left out', said)
        table["one.weight"]["inputs"] = 1.5
        self.write("names.json", {"tensors": table})
        self.assertIn('"one.weight": "inputs"', self.stepc("checkpoint", "export", "run", "--names", "names.json", "-o", "none", code=1).stderr)

    def test_convert(self):
        """A checkpoint under other names, which another step goes on from bit for bit; a selection; other dtypes; the same again."""
        tool = lambda *arguments, code=0: self.stepc("checkpoint", *arguments, code=code)
        self.write("names.json", {"**.blocks_1.*": "**.one.*", "**.blocks_2.*": "**.two.*", "**": "**"})
        self.assertEqual(tool("convert", "run", "--map", "names.json", "-o", "deep/new").stdout, "deep/new/step-4: %d tensors\n" % len(self.saved))
        tool("verify", "deep/new")
        self.assertEqual(sorted(os.listdir(self.path("deep/new"))), ["latest", "step-4"])
        self.run_steps(self.new, 3, "--init", "deep/new", "--save", "got.safetensors", "--all-state")
        self.run_steps(self.old, 7, "--save", "whole.safetensors", "--all-state")
        got, whole = safetensors.read(self.path("got.safetensors")), safetensors.read(self.path("whole.safetensors"))
        self.assertEqual(len(got), len(whole))
        for name, value in got.items():
            np.testing.assert_array_equal(value, whole[name.replace("blocks_1", "one").replace("blocks_2", "two")], name)
        tool("convert", "run/step-2", "-o", "same")
        self.assertTrue(json.loads(tool("diff", "run/step-2", "same", "--json").stdout)["equal"])
        shown = [json.loads(tool("show", p, "--json").stdout) for p in ("run/step-2", "same")]
        for one in shown:
            one.pop("created")
        self.assertEqual(shown[0], shown[1])
        kept = [{k: v for k, v in json.load(open(self.path(p + "/step-2/manifest.json"))).items() if k in ("hyperparameters", "model", "metrics")} for p in ("run", "same")]
        self.assertEqual(kept[0], kept[1])
        for name in ("params", "ema", "opt_state", "state"):
            with open(self.path("run/step-2/%s.safetensors" % name), "rb") as a, open(self.path("same/step-2/%s.safetensors" % name), "rb") as b:
                self.assertEqual(a.read(), b.read())
        self.write("names.json", {"head.kernel": "head.kernel", "**": "skip"})
        self.assertIn("braces", tool("convert", "run", "--map", self.write("bad.json", {"{a}": "b"}), "-o", "few", code=1).stderr)
        tool("convert", "run", "--map", "names.json", "--dtype", "bfloat16", "-o", "few")
        kept = json.loads(tool("show", "few", "--json").stdout)["slots"]
        self.assertEqual(kept, [{"name": "head.kernel", "item": "params", "type": "bfloat16[5,3]"}])
        tool("convert", "run", "--dtype", "bfloat16", "-o", "half")
        types = {s["name"]: s["type"] for s in json.loads(tool("show", "half", "--json").stdout)["slots"]}
        self.assertEqual([types[n][:8] for n in ("one.kernel", "ema.one.kernel", "norm.mean", "step", "opt_state.0.mu.one.kernel")], ["bfloat16", "bfloat16", "float32[", "int32[]", "float32["])
        self.assertIn("found bfloat16", self.run_steps(self.old, 4, "--init", "half", code=1))
        self.run_steps(self.old, 0, "--init", "half", "--cast", "--save", "got.safetensors")
        got = safetensors.read(self.path("got.safetensors"))
        np.testing.assert_array_equal(got["one.kernel"], host.numbers(host.bits(self.saved["one.kernel"])))
        tool("export", "run", "--dtype", "float64", "-o", "wide.safetensors")
        np.testing.assert_array_equal(safetensors.read(self.path("wide.safetensors"))["two.kernel"], self.saved["two.kernel"].astype("f8"))
        self.assertEqual(safetensors.read(self.path("wide.safetensors"))["norm.mean"].dtype, np.float32)
        for arguments, code, why in ((("convert", "run/step-2", "-o", "same"), 3, "exists already"), (("convert", "run", "-o", "run"), 2, "name one file"), (("convert", "run"), 2, "-o DIR is missing"), (("convert", "none", "-o", "x"), 3, "No such file"),
                                     (("convert", "run", "-o", "x", "--ema"), 2, "--ema is for export"), (("convert", "run", "-o", "x", "--cast"), 2, "--dtype"),
                                     (("convert", "run", "-o", "x", "--dtype", "int8"), 2, "int8"), (("convert", "run", "-o", "old.so/x"), 3, "old.so"),
                                     (("export", "run", "-o", "x", "--hf", "gpt3"), 2, "gpt2"), (("convert", "run", "-o", "x", "--hf", "gpt2"), 2, "--hf is for export"), (("import", "model.safetensors.index.json", "-o", "x"), 3, "cannot read model.safetensors.index.json"),
                                     (("import", "old.json", "-o", "x"), 1, "weight_map"), (("import", "old.so", "-o", "x"), 1, "old.so"), (("import", "gone", "-o", "x"), 3, "gone")):
            self.assertIn(why, tool(*arguments, code=code).stderr)
        with open(self.path("run/step-4/opt_state.safetensors"), "r+b") as f:
            f.seek(-3, 2)
            f.write(b"\xaa\x55\xaa")
        self.assertIn("checksum", tool("convert", "run/step-4", "-o", "x", code=1).stderr)
        self.assertFalse(os.path.exists(self.path("x")))
        with open(self.path("run/step-4/params.safetensors"), "r+b") as f:
            f.seek(-3, 2)
            f.write(b"\xaa\x55\xaa")
        self.assertIn("checksum", tool("export", "run/step-4", "-o", "y", code=1).stderr)
        self.assertFalse(os.path.exists(self.path("y")))

    def test_import(self):
        """A file of all state or of parameters as a checkpoint: a training goes on from it, or begins with it."""
        tool = lambda *arguments, code=0: self.stepc("checkpoint", *arguments, code=code)
        tool("import", "all.safetensors", "-o", "made", "-q")
        self.assertEqual(set(os.listdir(self.path("made/step-4"))), set(os.listdir(self.path("run/step-4"))) - {"items"})
        self.run_steps(self.old, 7, "--resume", "made/step-4", "--save", "got.safetensors", "--all-state")
        self.run_steps(self.old, 7, "--save", "whole.safetensors", "--all-state")
        self.same(safetensors.read(self.path("got.safetensors")), safetensors.read(self.path("whole.safetensors")))
        tool("export", "run", "-o", "some.safetensors")
        tool("import", "some.safetensors", "-o", "some", "--map", self.write("names.json", {"blocks_1.*": "one.*", "blocks_2.*": "two.*", "**": "**"}))
        self.run_steps(self.new, 1, "--init", "some", "--save", "a.safetensors", "--all-state")
        self.run_steps(self.old, 1, "--init", "some.safetensors", "--save", "b.safetensors", "--all-state")
        a, b = safetensors.read(self.path("a.safetensors")), safetensors.read(self.path("b.safetensors"))
        self.assertEqual(len(a), len(b))
        self.same(a, {n: b[n.replace("blocks_1", "one").replace("blocks_2", "two")] for n in a})
        with open(self.path("all.safetensors"), "r+b") as f:
            f.seek(-3, 2)
            f.write(b"\xaa\x55\xaa")
        self.assertIn("all.safetensors", tool("import", "all.safetensors", "-o", "x", code=1).stderr)

    def test_import_shards(self):
        """A model in several files, by their index or folder; what does not fit the index is refused, and nothing is written."""
        tool = lambda *arguments, code=0: self.stepc("checkpoint", *arguments, code=code)
        tool("export", "run", "-o", "one.safetensors")
        tensors = safetensors.read(self.path("one.safetensors"))
        names, file = sorted(tensors), "model-%05d-of-00004.safetensors"
        where = {n: file % (1 + i % 4) for i, n in enumerate(names)}

        def write(index, extra={}, lacking=()):
            folder = tempfile.mkdtemp(dir=self.folder)
            for part in sorted(set(where.values())):
                held = {n: tensors[n] for n in names if where[n] == part and n not in lacking}
                safetensors.write(os.path.join(folder, part), dict(held, **extra.get(part, {})))
            with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
                f.write(index if isinstance(index, str) else json.dumps({"metadata": {"total_size": 1}, "weight_map": index}))
            return folder

        good = write(where)
        tool("import", "one.safetensors", "-o", "one", "-q")
        for at, path in (("index", os.path.join(good, "model.safetensors.index.json")), ("folder", good)):
            tool("import", path, "-o", at, "-q")
            self.assertEqual(json.loads(tool("diff", at, "one", "--json").stdout)["tensors"], [])
            tool("export", at, "-o", "back.safetensors")
            self.same(safetensors.read(self.path("back.safetensors")), tensors)
        first, zeros = names[0], np.zeros(2, np.float32)
        wrong = {"tensor \"%s\" is not in %s" % (first, where[first]): write(where, lacking=[first]),
                 "tensor \"%s\" is in %s, and its weight_map names %s" % (first, file % 2, where[first]): write(where, {file % 2: {first: zeros}}),
                 "tensor \"more\" of %s is not in its weight_map" % (file % 3): write(where, {file % 3: {"more": zeros}}),
                 "its weight_map names 3 of 4 files": write({n: p for n, p in where.items() if p != file % 4}),
                 "expected the name of a .safetensors file beside it": write(dict(where, **{first: "../" + where[first]})),
                 "\"%s\": expected the name of a file" % first: write(dict(where, **{first: 1})),
                 "expected {\"weight_map\"": write("{}"), "byte 15": write('{"weight_map":{')}
        twice = json.dumps({"weight_map": where})
        wrong["duplicate"] = write(twice[:-2] + ', "%s": "%s"}}' % (first, file % 2))
        missing = write(where)
        os.unlink(os.path.join(missing, file % 3))
        wrong["%s: No such file" % (file % 3)] = missing
        for said, folder in wrong.items():
            self.assertIn(said, tool("import", folder, "-o", "none", code=3 if folder == missing else 1).stderr)
            self.assertFalse(os.path.exists(self.path("none")), said)

    def test_damaged(self):
        """Data that do not have their checksum, a header, a manifest: the one before is taken, and that is said."""
        before = safetensors.read(self.path("run/step-2/params.safetensors"))
        whole = {}
        for name in ("params.safetensors", "manifest.json"):
            with open(self.path("run/step-4/" + name), "rb") as f:
                whole[name] = f.read()
        for name, at in (("params.safetensors", -3), ("params.safetensors", 20), ("manifest.json", 100)):
            for name_of, content in whole.items():
                with open(self.path("run/step-4/" + name_of), "wb") as f:
                    f.write(content)
            with open(self.path("run/step-4/" + name), "r+b") as f:
                f.seek(at, 2 if at < 0 else 0)
                byte = f.read(1)
                f.seek(-1, 1)
                f.write(bytes([byte[0] ^ 1]))
            for more in ((), ("--params-only",), ("--init-partial",)):
                said = self.run_steps(self.old, 0, "--init", "run", *more, "--save", "got.safetensors")
                if name == "params.safetensors":
                    self.assertRegex(said, "step-4.*params.safetensors")
                self.same(safetensors.read(self.path("got.safetensors")), {n: v for n, v in before.items()})
        with open(self.path("run/step-2/params.safetensors"), "r+b") as f:
            f.truncate(100)
        self.run_steps(self.old, 0, "--init", "run", "--params-only", code=1)


if __name__ == "__main__":
    runner.main()
