#!/usr/bin/env python3
"""What a continuous build or an editor's user asks of a document and its object: check --against, --watch, -W, explain --assert,
compile --dump-changed, --time-trace.

usage: checks.py STEPC
"""
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

DOCUMENT = {
    "stepc": 1, "name": "small",
    "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}, "y": {"shape": [8], "dtype": "int32", "axes": ["batch"]}},
    "model": {"type": "sequential", "input": "x", "layers": [
        {"type": "linear", "features": 6}, {"type": "batch_norm"}, {"type": "tanh"}, {"type": "dropout", "rate": 0.25}, {"type": "linear", "features": 3}]},
    "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"},
    "optimizer": {"type": "adam", "learning_rate": 0.01}}
MESH = {"mesh": {"axes": {"data": 2}}, "sharding": {"rules": [["batch", "data"]]}}


class Checks(runner.Case):
    def document(self, name="model.json", **change):
        return self.write(name, json.dumps({**DOCUMENT, **change}, indent=1))

    def compiled(self, name="step.so", **change):
        self.stepc("compile", self.document("compiled.json", **change), "-o", self.path(name))
        return self.path(name)

    def test_code(self):
        """What has no code yet is found without making any."""
        for count in ("arange(10**12)", "arange(3000000000)", "one_hot(y, 2**40)"):
            document = self.document(loss="mean(%s) + mean(model)" % count)
            for command in (["check"], ["explain"], ["explain", "--target", "cuda"], ["compile", "-o", self.path("no.so")]):
                said = self.stepc(*command, document, code=1).stderr
                self.assertIn("error[E0111]: counting beyond 2147483647 elements", said)
                self.assertIn("at /loss", said)
                self.assertEqual(said.count("error["), 1, said)
            self.assertFalse(os.path.exists(self.path("no.so")))

    # ------------------------------------------------------------ check --against

    def test_agree(self):
        """Noise of gradients that are zero but for rounding (the bias before a batch_norm), random numbers, meshes, 16 bits."""
        for change in ({}, MESH, {"precision": {"compute": "bfloat16"}}, {"optimizer": {"type": "lion", "learning_rate": 0.01}}, {"accumulate": {"microbatch_size": 4}}):
            said = self.stepc("check", self.document(**change), "--against", self.compiled(**change)).stdout
            self.assertRegex(said, r"\nagainst .*step.so: 3 steps, \d+ tensors agree")

    def test_data(self):
        data = self.path("data.safetensors")
        safetensors.write(data, {"x": np.linspace(-1, 1, 64, dtype="f4").reshape(2, 8, 4), "y": np.arange(16, dtype="i4").reshape(2, 8) % 3})
        self.assertIn(": 5 steps,", self.stepc("check", self.document(), "--against", self.compiled(), "--data", data, "--steps", "5").stdout)

    def test_differ(self):
        """Another formula, number, precision, initial value: each is found and named."""
        layers = DOCUMENT["model"]["layers"]
        relu = dict(DOCUMENT["model"], layers=[dict(l, type="relu") if l["type"] == "tanh" else l for l in layers])
        for change, says in (({"model": relu}, r"step 1: loss: 1 of 1 elements differ by more than rounding does \([0-9.e-]+\): \[0\] is [0-9.e-]+, the document's"),
                             ({"optimizer": {"type": "adam", "learning_rate": 0.0101}}, r"^initial value: hyperparameters.learning_rate: "),
                             ({"optimizer": {"type": "adam", "learning_rate": 0.01, "b1": 0.901}}, r"step 1: opt_state.0.mu.layers.1.scale: 6 of 6"),
                             ({"precision": {"compute": "bfloat16"}}, "step 1: "),
                             ({"seed": 1}, "^initial value: layers.0.kernel: 24 of 24")):
            p = self.stepc("check", self.document(), "--against", self.compiled(**change), code=1)
            self.assertRegex(p.stdout.split("\n", 1)[1], re.compile(says, re.M))
            self.assertNotIn("agree", p.stdout)

    def test_wrong(self):
        so, model = self.compiled(), self.document()
        for args, code, says in ((("--against", model), 2, "expected an object"), (("--against", self.path("none.so")), 3, "cannot read"), (("--steps", "3"), 2, "--steps needs --against"),
                                 (("--against", so, "--rtol", "x"), 2, "expected a number from 0 on"), (("--data", "x"), 2, "--data needs --grad or --against")):
            self.assertIn(says, self.stepc("check", model, *args, code=code).stderr)
        other = self.document("other.json", optimizer={"type": "sgd", "learning_rate": 0.01})
        self.assertIn('has a tensor "opt_state.0.count", ', self.stepc("check", other, "--against", so, code=1).stderr)
        wide = self.document("wide.json", inputs=dict(DOCUMENT["inputs"], x={"shape": [8, 5], "axes": ["batch", None]}))
        self.assertIn("has another type in ", self.stepc("check", wide, "--against", so, code=1).stderr)

    # ------------------------------------------------------------ check --watch

    def test_watch(self):
        model = self.document()
        with subprocess.Popen([self.program, "check", "--watch", model], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
            def until(text):
                for line in p.stdout:
                    if text in line:
                        return
                self.fail("ended before it said: " + text)
            until("parameters")
            until("waiting for another")
            self.document(optimizer={"type": "adamm"})
            until('did you mean "adam"')
            until("waiting for another")
            self.document()
            until("parameters")
            until("waiting for another")
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.wait(60), -signal.SIGINT)
        self.assertIn("needs a file", self.stepc("check", "--watch", "-", code=2).stderr)
        self.assertIn("needs --grad", self.stepc("check", "--watch", model, "--data", "x", code=2).stderr)

    # ------------------------------------------------------------ -W

    def test_warnings(self):
        model = self.document(sharding=MESH["sharding"])
        for args, code, says in (((), 0, "warning[W0406]"), (("-Werror",), 1, "error[W0406]"), (("-Wno-W0406",), 0, ""), (("-Werror=W0406",), 1, "error[W0406]"), (("-Wall",), 0, "warning[W0406]"),
                                 (("-Werror=W0429",), 0, "warning[W0406]"), (("-Werror", "-Wno-error=W0406"), 0, "warning[W0406]"), (("-Wno-W0406", "-Werror"), 1, "error[W0406]"),
                                 (("-Wextra",), 2, "expected error"), (("-Wno-W0460",), 2, 'there is no warning "W0460"; did you mean "W0406"?')):
            p = self.stepc("check", model, *args, code=code)
            self.assertIn(says, p.stderr)
            self.assertEqual(says == "", p.stderr == "")
        self.stepc("compile", model, "-Werror", "-o", self.path("no.so"), code=1)
        self.assertFalse(os.path.exists(self.path("no.so")))
        self.assertIn("W0406: ", self.stepc("explain", "W0406").stdout)

    # ------------------------------------------------------------ explain --assert

    def test_assert(self):
        model = self.document(**MESH)
        step = next(e for e in json.loads(self.stepc("explain", model, "--json").stdout)["entries"] if e["name"] == "step")
        count, sent = sum(c["times"] for c in step["collectives"]), sum(c["times"] * c["ring"] for c in step["collectives"])
        self.assertGreater(count, 0)
        good = ["comm == %d" % count, "comm.sent==%d" % sent, "comm.data.sent <= %.6fKiB" % (sent / 1024 + 0.001), "comm.all_gather < 1", "comm.all_reduce > 0", "memory.peak <= 1GB", "eval.kernels >= 1",
                'name == "small"', 'name != "large"', "kernels == %d" % step["kernels"], "mesh.data == 2", "memory.workspace >= 0", "memory.arena_lower_bound > 0"]
        said = self.stepc("explain", model, *(x for g in good for x in ("--assert", g))).stdout
        self.assertEqual(said.count("holds"), len(good))
        for text, code, says in (("comm < %d" % count, 1, "it is %d" % count), ('name == "large"', 1, "it is small"), ("comm.all_gathr == 0", 2, 'did you mean "comm.all_gather"?'),
                                 ("comm", 2, "expected NAME"), ("comm == many", 2, "is no number"), ("name == 3", 2, "is a text"), ("name < \"x\"", 2, "is a text")):
            self.assertIn(says, self.stepc("explain", model, "--assert", good[0], "--assert", text, code=code).stderr)
        so = self.compiled(**MESH)  # objects hold a brief report
        self.stepc("explain", so, *(x for g in good for x in ("--assert", g)))
        self.assertEqual(json.loads(self.stepc("explain", so, "--json", "--assert", good[0]).stdout)["name"], "small")

    def test_memory_of_objects(self):
        """As that of the document, whole."""
        for document in (MESH, {}):
            of = [json.loads(self.stepc("explain", what, "--json").stdout) for what in (self.document(**document), self.compiled(**document))]
            self.assertEqual(of[0]["memory"], of[1]["memory"])
            self.assertEqual(list(of[0]["memory"]), list(of[1]["memory"]))

    # ------------------------------------------------------------ explain --fit

    def test_fit(self):
        model = self.document()
        report = json.loads(self.stepc("explain", model, "--fit", "1GiB", "--devices", "4", "--json").stdout)
        self.assertEqual([(m["mesh"], m["fits"], m["max_memory"]) for m in report["meshes"]], [("data=4", True, False)] * 2)
        for m in report["meshes"]:  # the edit that it shows gives what it says
            given = json.loads(self.stepc("explain", self.document("edited.json", **m["document"]), "--json").stdout)
            step = next(e for e in given["entries"] if e["name"] == "step")
            self.assertEqual((given["devices"], given["memory"]["peak"], step["flops"], sum(c["ring"] * c["times"] for c in step["collectives"])), (4, m["peak"], m["flops"], m["sent"]))
        parts = self.document("parts.json", accumulate={"microbatch_size": 4})  # a GPU makes them together
        for m in json.loads(self.stepc("explain", parts, "--fit", "1GiB", "--devices", "4", "--target", "cuda", "--json").stdout)["meshes"]:
            edited = self.document("edited.json", accumulate={"microbatch_size": 4}, **m["document"])
            peaks = [json.loads(self.stepc("explain", edited, "--json", "--target", target).stdout)["memory"]["peak"] for target in ("cuda", "cpu")]
            self.assertEqual(peaks[0], m["peak"])
            self.assertNotEqual(*peaks)
        split = min(report["meshes"], key=lambda m: m["peak"])
        self.assertEqual(split["document"]["sharding"]["optimizer_state"], {"**": ["data"]})
        said = self.stepc("explain", model, "--fit", str(int(split["peak"])), "--devices", "4").stdout  # the other one no more
        self.assertIn("too large", said)
        self.assertRegex(said, r'\nbest .*"mesh":{"axes":{"data":4}},"sharding":{"rules":\[\["batch","data"\]\],"optimizer_state"')
        self.assertIn("none fits", self.stepc("explain", model, "--fit", "1KiB", "--devices", "2", code=1).stdout)
        two = self.document("two.json", mesh={"axes": {"data": 2, "model": 2}}, sharding={"rules": [["batch", "data"]], "params": {"layers.0.kernel": [None, "model"]}})
        meshes = json.loads(self.stepc("explain", two, "--fit", "1GiB", "--devices", "6", "--json").stdout)["meshes"]
        self.assertEqual({m["mesh"] for m in meshes}, {"data=%d,model=%d" % (n, 6 // n) for n in (1, 2, 3, 6)})
        for args, says in ((("--fit", "much"), "whole number of bytes"), (("--fit", "1GiB", "--devices", "5000"), "1 to 4096"), (("--devices", "2"), "--devices needs --fit"), (("--fit", "1GiB", "--mesh", "data=2"), "--fit tries meshes")):
            self.assertIn(says, self.stepc("explain", model, *args, code=2).stderr)
        self.assertIn("is compiled already", self.stepc("explain", self.compiled(), "--fit", "1GiB", code=2).stderr)

    # ------------------------------------------------------------ passes

    def test_dump_changed(self):
        folders = [self.path(n) for n in ("all", "changed")]
        for folder, option in zip(folders, ("--dump", "--dump-changed")):
            os.mkdir(folder)
            self.stepc("compile", self.document(), option, "--dump-dir", folder, "-o", self.path("step.so"))
        every, changed = (sorted(os.listdir(f)) for f in folders)
        before, expected = None, []
        for name in every:
            with open(os.path.join(folders[0], name)) as f:
                text = re.sub(r" after \w+", "", f.read(), count=1)
            if text != before:
                expected.append(name)
            before = text
        self.assertEqual(changed, expected)
        self.assertLess(len(changed), len(every))

    def test_time_trace(self):
        self.stepc("compile", self.document(), "--time-trace", self.path("trace.json"), "-o", self.path("step.so"))
        with open(self.path("trace.json")) as f:
            events = json.load(f)["traceEvents"]
        self.assertLessEqual({"document", "autodiff", "fuse", "memplan", "machine code, linking", "first steps"}, {e["name"] for e in events})
        passes = [e for e in events if "args" in e]
        self.assertTrue(all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(passes, passes[1:])))


if __name__ == "__main__":
    runner.main()
