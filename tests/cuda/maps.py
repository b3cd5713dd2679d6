#!/usr/bin/env python3
"""Maps of a GPU (codegen/lower/lower_turn.c, print_few of codegen/cuda/cuda_emit.c) on a stand-in for the driver: what is read across goes through shared memory by
blocks, whose extents divide nothing; elements of a flat map that do not lie side by side. What is added to rows of tables (lower_scatter_rows.c): indices by many, by parts,
and the last ones. Steps beside those of the interpreter.

    tests/cuda/maps.py STEPC   (STEPC_CUDA_DRIVER names the stand-in)
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
from tool import runner

import products
from products import step

TURNED = {
    "one": step({"x": [70, 45]}, "swapaxes(x, 0, 1) * w", {"w": [45, 70]}), "whole": step({"x": [64, 96]}, "tanh(x).T + w", {"w": [96, 64]}),
    "several": step({"x": [33, 50]}, "x.T * w + exp(v).T - u", {"w": [50, 33], "v": [33, 50], "u": [33]}),
    "batch": step({"x": [3, 40, 37]}, "swapaxes(x, 1, 2) * w", {"w": [3, 37, 40]}), "channels": step({"x": [2, 18, 5, 7]}, "transpose(x, (0, 2, 3, 1)) * w", {"w": [2, 5, 7, 18]}),
    "outermost": step({"x": [20, 3, 50]}, "transpose(x, (2, 1, 0)) * w", {"w": [50, 3, 20]}), "padded": step({"x": [40, 37]}, "pad(x.T, ((1, 2), (3, 0))) * w", {"w": [40, 43]}),
    "bfloat16": step({"x": [40, 66]}, "x.T * w", {"w": [66, 40]}, "bfloat16"), "float64": step({"x": [40, 66]}, "x.T * w", {"w": [66, 40]}, "float64"),
    "twice": step({"x": [48, 48]}, "(x + x.T) * w", {"w": [48, 48]}), "where": step({"x": [50, 41]}, "where((x > 0).T, w, -w)", {"w": [41, 50]}),
}
LEFT = ("padded", "twice")  # which are right and go their own way: positions that a pad takes apart, a tensor that is read along as well
STRAY = {
    "joined": step({"x": [7, 33]}, "concatenate([x * w, x - v, cos(x)], axis=0)", {"w": [33], "v": [7, 33]}),
    "few_channels": step({"x": [3, 9, 11, 3]}, "pad(x, ((0, 0), (1, 1), (2, 1), (0, 0))) * w", {"w": [11, 14, 3]}),
}

TABLES = {"many_and_some": (3000, 2200, 512), "many": (4096, 40, 36), "parts": (1000, 30, 300), "one_part": (100, 70, 8), "each_often": (5000, 3, 20), "of_a_block": (128, 2112, 257)}


def table(count, rows, columns):
    return {"stepc": 1, "inputs": {"x": {"shape": [count], "dtype": "int32"}},
            "model": {"type": "embed", "num_embeddings": rows, "features": columns, "input": "x", "embedding_init": {"type": "normal", "stddev": 1.0}},
            "loss": "mean(model * cos(model))", "optimizer": {"type": "sgd", "learning_rate": 100.0}}


class Maps(runner.Case):
    verify = False
    check = products.Products.check

    def test_turned(self):
        for name, o in TURNED.items():
            with self.subTest(name=name):
                text = self.check(name, o, "text")
                self.assertEqual("[1056];" in text, name not in LEFT)

    def test_tables(self):
        for name, (count, rows, columns) in TABLES.items():
            with self.subTest(name=name):
                text = self.check(name, {**table(count, rows, columns), "precision": {}}, "text")
                self.assertEqual("2048ll" in text, count > 2048)

    def test_stray(self):
        for name, o in STRAY.items():
            with self.subTest(name=name):
                self.check(name, o, "text")


if __name__ == "__main__":
    runner.main()
