#!/usr/bin/env python3
"""stepc bench: what it measures adds up, what it compares it judges, and what it cannot measure it says. No time is held to anything.

    tests/cli/bench.py STEPC
"""
import collections
import json
import os
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

SGD = {"type": "sgd", "learning_rate": 0.01}


def dense(rows, features):
    return {"stepc": 1, "name": "dense", "inputs": {"x": {"shape": [rows, 64]}, "y": {"shape": [rows, features]}},
            "model": {"type": "linear", "features": features, "input": "x"}, "loss": "mean((model - y)**2)", "optimizer": SGD}


TOKENS = {"stepc": 1, "name": "tokens", "inputs": {"t": {"shape": [4, 16], "dtype": "int32"}, "label": {"shape": [4, 16], "dtype": "int32"}},
          "model": {"type": "sequential", "input": "t", "layers": [{"type": "embed", "num_embeddings": 50, "features": 8}, {"type": "linear", "features": 50}]},
          "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "label", "reduction": "mean"}, "optimizer": SGD}


class Bench(runner.Case):
    def document(self, name, of):
        return self.write(name + ".json", json.dumps(of))

    def compiled(self, name, of):
        self.stepc("compile", self.document(name, of), "-o", self.path(name + ".so"))
        return self.path(name + ".so")

    def measured(self, *arguments):
        return json.loads(self.stepc("bench", *arguments, "--rounds", "3", "--threads", "1", "--json").stdout)

    def test_one(self):
        """An object and its document give the same kind of numbers, which agree with each other."""
        so = self.compiled("dense", dense(32, 16))
        for path in (so, self.path("dense.json")):
            got = self.measured(path)
            one = got["objects"][0]
            seconds = one["seconds"]
            self.assertEqual((got["rounds"], got["machine"]["threads"], one["name"], one["path"]), (3, 1, "dense", path))
            self.assertTrue(0 < seconds["best"] <= seconds["low"] <= seconds["median"] <= seconds["high"], seconds)
            self.assertTrue(seconds["p5"] <= seconds["median"] <= seconds["p95"], seconds)
            self.assertAlmostEqual(one["rows_per_second"] * seconds["median"], 32)
            self.assertNotIn("tokens_per_second", one)
            self.assertGreaterEqual(one["flops_per_second"] * seconds["median"], 2 * 2 * 32 * 64 * 16)
            self.assertEqual(one["memory_predicted"], one["memory_measured"])
            self.assertGreater(min(got["machine"]["flops_per_second"], got["machine"]["bytes_per_second"], one["share_of_flops"], one["share_of_bytes"]), 0)
        self.assertRegex(self.stepc("bench", so, "--rounds", "1", "--threads", "1").stdout,
                         r"^\S+: dense: 1,040 parameters .*\nstep  .*\nrate  .*\nwork  .*\nmemory  .*\nmachine   peaks of 1 thread ")
        self.assertEqual([n for n in os.listdir(self.folder) if n not in ("dense.so", "dense.json")], [])

    def test_compare(self):
        """With a file of before: what machines of then and now reach is taken into account."""
        so = self.compiled("dense", dense(32, 16))
        before = self.measured(so)
        for faster in (4, 1):  # all was slower; only the step was
            old = json.loads(json.dumps(before))
            old["machine"] = {k: v / faster if k != "threads" else v for k, v in old["machine"].items()}
            old["objects"] = [{"name": "other", "seconds": {"median": 1e9}}, {"name": "dense", "seconds": {"median": 4 * before["objects"][0]["seconds"]["median"]}}]
            got = self.measured(so, "--compare", self.write("old.json", json.dumps(old)))
            self.assertEqual(got["compared"]["path"], self.path("old.json"))
            self.assertAlmostEqual(got["compared"]["speedup"] * got["objects"][0]["seconds"]["median"] / old["objects"][1]["seconds"]["median"], 1)
            probe = "flops_per_second" if got["objects"][0]["share_of_flops"] >= got["objects"][0]["share_of_bytes"] else "bytes_per_second"
            self.assertAlmostEqual(got["compared"]["speedup_even"] / got["compared"]["speedup"], old["machine"][probe] / got["machine"][probe])
        self.assertIn("faster now;", self.stepc("bench", so, "--rounds", "1", "--compare", self.path("old.json"), "--fail-above", "1e6").stdout)
        self.assertIn("--fail-above 1e-9: ", self.stepc("bench", so, "--rounds", "1", "--compare", self.path("old.json"), "--fail-above", "1e-9", code=1).stderr)
        self.assertIn("is not what", self.stepc("bench", so, "--rounds", "1", "--compare", self.path("dense.json"), code=1).stderr)
        self.stepc("bench", so, "--compare", self.path("none"), code=3)

    def test_document(self):
        """What compiling is told reaches it; what only a document can be given is refused where there is none."""
        model = dict(dense(8, 3), constants={"rows": 8})
        model["inputs"] = {"x": {"shape": ["$rows", 64]}, "y": {"shape": ["$rows", 3]}}
        path = self.document("sized", model)
        one = self.measured(path, "-D", "rows=32", "--cpu", "x86-64-v2", "--numerics", "invariant", "--timeout", "100")["objects"][0]
        self.assertAlmostEqual(one["rows_per_second"] * one["seconds"]["median"], 32)
        so = self.compiled("dense", dense(8, 3))
        self.assertIn("cpu x86-64-v2\n", self.stepc("bench", path, so, "-D", "rows=16", "--cpu", "x86-64-v2", "--rounds", "1").stdout)
        for option in (("-D", "rows=4"), ("--mesh", "data=2"), ("--cpu", "x86-64-v2"), ("-O", "0"), ("--blas", "own"), ("--numerics", "invariant")):
            self.assertIn("is for documents; %s is compiled already" % so, self.stepc("bench", so, *option, code=2).stderr)

    def test_inputs(self):
        """Integers that index are drawn from what they may be, and all of it; labels that are no input directly may be 0."""
        so = self.compiled("tokens", TOKENS)
        ranges = {t["name"]: t.get("range") for t in json.loads(self.stepc("explain", so, "--json").stdout)["tensors"] if t["role"] == "input"}
        self.assertEqual(ranges, {"t": [0, 50], "label": [0, 50]})
        one = self.measured(so)["objects"][0]
        self.assertAlmostEqual(one["tokens_per_second"] * one["seconds"]["median"], 64)
        self.assertTrue(0 < one["loss"] < 5, one)
        shifted = dict(TOKENS, loss=dict(TOKENS["loss"], labels="label * 49"))
        self.measured(self.document("shifted", shifted))

    def test_two(self):
        """Sixteen times the work takes longer, whichever is named first, and only then --fail-above fails."""
        small, large = self.compiled("small", dense(64, 64)), self.compiled("large", dense(1024, 64))
        self.assertGreater(self.measured(small, large)["speedup"]["median"], 2)
        self.assertIn("verdict   %s: " % large, self.stepc("bench", large, small, "--rounds", "7", "--threads", "1").stdout)
        self.stepc("bench", small, large, "--rounds", "3", "--fail-above", "3%")
        failed = self.stepc("bench", large, small, "--rounds", "3", "--fail-above", "1.5", code=1)
        self.assertRegex(failed.stderr, r"--fail-above 1.5: \S+large.so takes [\d.]+ times as long as \S+small.so")

    def test_data(self):
        so, data = self.compiled("dense", dense(8, 3)), self.path("data.safetensors")
        import numpy as np
        from tool import safetensors
        safetensors.write(data, {"x": np.ones((2, 8, 64), "f4"), "y": np.zeros((2, 8, 3), "f4")})
        self.assertLess(self.measured(so, "--data", data)["objects"][0]["loss"], 1e-3)  # that can be learned
        safetensors.write(data, {"x": np.ones((2, 8, 64), "f4")})
        self.assertIn('no tensor for input "y"', self.stepc("bench", so, "--data", data, code=1).stderr)

    def test_kernels(self):
        """Kernels and layers share the time of the step and do the work that the manifest says."""
        model = dense(256, 256)
        model["model"] = {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 256}, {"type": "relu"}, {"type": "linear", "features": 256}]}
        so = self.compiled("deep", model)
        step = next(e for e in json.loads(self.stepc("explain", so, "--json").stdout)["entries"] if e["name"] == "step")
        got = {}
        for by in ("kernel", "layer"):
            one = json.loads(self.stepc("bench", so, "--rounds", "1", "--by", by, "--json").stdout)["objects"][0]
            self.assertAlmostEqual(sum(r["flops"] for r in one["by"]) / step["flops"], 1, delta=0.01)
            self.assertTrue(0 < sum(r["seconds"] for r in one["by"]) <= one["seconds_traced"], one)
            got[by] = one["by"]
        self.assertEqual(len(got["kernel"]), step["kernels"])
        self.assertEqual(sum(r["kernels"] for r in got["layer"]), step["kernels"])
        self.assertTrue({"/model/layers/0", "/model/layers/2"} <= {r["place"] for r in got["layer"]}, got["layer"])
        text = self.stepc("bench", so, "--rounds", "1", "--by", "layer").stdout
        self.assertRegex(text, r"traced: .* per step, workers wait .* of it for others\n +share +time +FLOP/s +B/s +of roof +layer\n +[\d.]+ % .*\(\d+ kernels?\)\n")

    def test_trace(self):
        """A mesh's trace: devices are processes, what workers do lies within their calls and does not overlap, collectives are there on each."""
        model = dict(dense(64, 64), mesh={"axes": {"data": 2}}, sharding={"inputs": {"x": ["data", None], "y": ["data", None]}})
        so, data, path = self.compiled("two", model), self.path("data.safetensors"), self.path("trace.json")
        import numpy as np
        from tool import safetensors
        safetensors.write(data, {"x": np.ones((2, 64, 64), "f4"), "y": np.zeros((2, 64, 64), "f4")})
        run = ["run", so, "--steps", "3", "--data", data, "--threads", "2", "-q", "--save"]
        self.stepc(*run, self.path("plain.safetensors"))
        self.stepc(*run, self.path("traced.safetensors"), "--trace", path)
        with open(self.path("plain.safetensors"), "rb") as a, open(self.path("traced.safetensors"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        with open(path) as f:
            events = json.load(f)["traceEvents"]
        by_variable = {"STEPC_TRACE": self.path("variable.json")}  # without an option, which wins
        self.stepc(*run, self.path("traced.safetensors"), "--trace", path, env=by_variable)
        self.assertFalse(os.path.exists(self.path("variable.json")))
        self.stepc(*run, self.path("traced.safetensors"), env=by_variable)
        with open(self.path("variable.json")) as f:
            of_steps = lambda found: collections.Counter((e["name"], e["pid"]) for e in found if e["ph"] == "X" and e["args"]["entry"] == "step" and e["cat"] == "collective")
            self.assertEqual(of_steps(json.load(f)["traceEvents"]), of_steps(events))
        with open(self.path("plain.safetensors"), "rb") as a, open(self.path("traced.safetensors"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertIn("trace: /none/t.json", self.stepc(*run, self.path("no.safetensors"), env={"STEPC_TRACE": "/none/t.json"}, code=3).stderr)
        tracks = {}
        for e in events:
            if e["ph"] == "X":
                tracks.setdefault((e["pid"], e["tid"]), []).append(e)
        self.assertEqual({device for device, _ in tracks}, {0, 1})
        for track in tracks.values():
            calls = [e for e in track if e["cat"] == "call" and e["args"]["entry"] == "step"]
            self.assertEqual([e["args"]["step"] for e in calls], [1, 2, 3])
            inner, last = [e for e in track if e["cat"] != "call" and e["args"]["entry"] == "step"], 0
            for e in inner:
                self.assertTrue(any(c["ts"] <= e["ts"] and e["ts"] + e["dur"] <= c["ts"] + c["dur"] + 0.002 for c in calls), e)
                self.assertGreaterEqual(e["ts"] + 0.002, last)
                last = e["ts"] + e["dur"]
        for device in (0, 1):
            kernels = [e for (of, _), track in tracks.items() if of == device for e in track if e["cat"] == "kernel"]
            self.assertIn("/model", " ".join(e["args"].get("place", "") for e in kernels))  # whoever is free takes a chunk
            self.assertTrue(any(e["cat"] == "collective" and e["name"].startswith(("all_reduce", "reduce_scatter")) for e in tracks[device, 0]))
        self.stepc("compile", self.path("two.json"), "-o", so, "--without", "trace")
        self.assertIn("compiled --without trace", self.stepc("run", so, "--steps", "1", "--data", data, "--trace", path, code=1).stderr)
        self.assertIn("trace: one function, or compiled --without trace", self.stepc("run", so, "--steps", "1", "--data", data, env=by_variable).stderr)
        self.assertIn("compiled --without trace", self.stepc("bench", so, "--rounds", "1", "--by", "kernel", code=1).stderr)
        self.assertIn("--trace", self.stepc("run", so, "--steps", "1", "--data", data, "--trace", data, code=2).stderr)

    def test_mistakes(self):
        so = self.compiled("dense", dense(8, 3))
        for arguments, code, words in (([self.path("none.so")], 3, "cannot read"), ([so, "--fail-above", "2"], 2, "needs a second object"),
                                       ([so, so, "--fail-above", "x"], 2, "expected a ratio"), ([so, "--rounds", "0"], 2, "--rounds: 1 to 1000"),
                                       ([self.document("bad", dict(dense(8, 3), optimiser={}))], 1, 'unknown key "optimiser"')):
            self.assertIn(words, self.stepc("bench", *arguments, code=code).stderr)
        with open(so, "r+b") as f:
            f.seek(5000)
            f.write(b"damaged")
        self.assertIn("checksum", self.stepc("bench", so, code=1).stderr)


if __name__ == "__main__":
    runner.main()
