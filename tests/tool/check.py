#!/usr/bin/env python3
"""tests/tool itself: what is written is read again, what differs is found, and how stepc ends is told.

usage: check.py STEPC
"""
import json
import os
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import comparison, recorded, runner, safetensors


class Tool(runner.Case):
    def test_tensors(self):
        tensors = {name: np.array([[1, 0, 2]]).astype(kind) for name, kind in safetensors.NUMPY.items()}
        tensors["half"] = safetensors.Raw("BF16", [2], np.array([0x3f80, 0xc040], "<u2").tobytes())
        tensors["empty"], tensors["number"] = np.zeros((0, 3), "f4"), np.float32(7)
        safetensors.write(self.path("t"), tensors)
        found = safetensors.read(self.path("t"))
        self.assertEqual(list(found), list(tensors))
        for name, kind in safetensors.NUMPY.items():
            self.assertEqual((found[name].dtype, found[name].shape, found[name].tolist()), (np.dtype(kind), (1, 3), tensors[name].tolist()))
        self.assertEqual(found["half"].tolist(), [1.0, -3.0])
        self.assertEqual((found["empty"].shape, found["number"].shape, float(found["number"])), ((0, 3), (), 7.0))
        self.assertEqual(safetensors.raw(self.path("t"))["half"], tensors["half"])

    def test_comparison(self):
        inf, nan = np.inf, np.nan
        for got, want, more, same in [(1.0, 1.0, {}, True), (1.0, 1.1, {}, False), (1.0, 1.1, {"rtol": 0.1}, True), (1.0, 1.1, {"atol": 0.1001}, True), (1.0, 1.1, {"atol": 0.09}, False),
                                      (nan, nan, {}, True), (nan, 1.0, {"atol": inf}, False), (1.0, nan, {"atol": 1}, False), (inf, inf, {}, True), (inf, -inf, {"rtol": 1}, False),
                                      (1e300, inf, {"atol": 1}, False), (1.0, 2.0, {"slack": 1.0}, True)]:
            self.assertEqual(comparison.difference([got], [want], **more) is None, same, (got, want, more))
        self.assertIn("shape [2], expected [1]", comparison.difference([1, 1], [1]))
        self.assertEqual(comparison.difference([[1, 2], [3, 5]], [[1, 2], [3, 4]]), "[1, 1]: 5, expected 4 (1 of 4 differ)")
        with self.assertRaisesRegex(comparison.Differs, "tensor b is not there; there are a"):
            comparison.all_agree({"a": [1]}, {"b": [1]})
        a, b = safetensors.of_array(np.float32([0.0])), safetensors.of_array(np.float32([-0.0]))
        for got, says in (({"x": b}, "other bits in"), ({"y": a}, "names differ"), ({"x": safetensors.of_array(np.int32([0]))}, "is I32")):
            with self.assertRaisesRegex(comparison.Differs, says):
                comparison.same_bits("s", got, {"x": a})
        self.assertEqual(comparison.numbers(["NaN", "-Infinity", 1]).tolist()[1:], [-inf, 1.0])
        self.assertEqual(comparison.text_of([nan, [inf], 2.0]), ["NaN", ["Infinity"], 2.0])

    def test_cases(self):
        document = {"a": "}\n", "b": [1]}
        self.assertEqual(json.loads(recorded.split(recorded.join({"steps": 2}, document))[1]), document)
        path = self.path("case")
        recorded.write(path, document, {"x": np.ones((2, 3), "f4")}, {"w/v": np.float32(1)}, 2, {"w/v": np.float32(2)}, {"loss": [1.0, np.nan]}, 0.0, 0.1)
        case = recorded.Case(path)
        self.assertEqual((case.document, case.steps, case.metrics, case.variants), (document, 2, {"loss": [1.0, "NaN"]}, [[]]))
        case.unpack(self.path("files"))
        self.assertEqual(sorted(os.listdir(self.path("files"))), ["data.safetensors", "init.safetensors", "model.json"])
        lines = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": "NaN"}]
        case.check({"w/v": np.float64(2.05)}, lines)
        for tensors, metrics, says in (({"w/v": np.float64(2.2)}, lines, "w/v: 2.2, expected 2"), ({"w/v": np.float64(2)}, lines[:1], "step 2 reports no metric loss"),
                                       ({"w/v": np.float64(2)}, [lines[0], dict(lines[1], loss=1.0)], "metric loss at step 2")):
            with self.assertRaisesRegex(comparison.Differs, says):
                case.check(tensors, metrics)
        self.assertEqual(len(recorded.names()), len(recorded.paths()))
        for name, path in recorded.paths().items():
            self.assertEqual(os.path.join(recorded.CASES, recorded.family(name), name), path)

    def test_runner(self):
        self.assertIn("stepc", self.stepc("version").stdout)
        with self.assertRaises(runner.Failed) as caught:
            runner.call(self.program, "check", self.write("bad.json", "{"))
        self.assertEqual((caught.exception.code, caught.exception.refused, caught.exception.unsupported), (1, True, False))
        with self.assertRaisesRegex(runner.Failed, "a time-out"):
            runner.attempt("sleep", "10", timeout=0.01)
        self.assertEqual((runner.environment()[runner.VERIFY], runner.VERIFY in runner.environment(verify=False)), ("1", False))


if __name__ == "__main__":
    runner.main()
