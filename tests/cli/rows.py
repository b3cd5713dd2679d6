#!/usr/bin/env python3
"""stepc run --data of rows: NumPy files and archives, tables, tokens, safetensors. The same training as from batches that were made of
the rows by hand, bit for bit; shuffled, resumed, on a mesh and on ranks' threads; wrong files of each kind by name, row and column.

usage: rows.py STEPC
"""
import json
import os
import resource
import struct
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

ROWS, BATCH = 27, 8
MODEL = {
    "stepc": 1, "name": "rows",
    "inputs": {"x": {"shape": [BATCH, 4], "axes": ["batch", None]}, "y": {"shape": [BATCH], "dtype": "int32", "axes": ["batch"]}},
    "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 16}, {"type": "relu"}, {"type": "linear", "features": 3}]},
    "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"},
    "metrics": {"accuracy": "mean(argmax(model, axis=-1) == y)"},
    "optimizer": {"type": "adamw", "learning_rate": 0.01}, "seed": 0}
TEXT = {
    "stepc": 1, "name": "text",
    "inputs": {"tokens": {"shape": [4, 5], "dtype": "int32", "axes": ["batch", None]}, "next": {"shape": [4, 5], "dtype": "int32", "axes": ["batch", None]}},
    "model": {"type": "sequential", "input": "tokens", "layers": [{"type": "embed", "num_embeddings": 1000, "features": 8}, {"type": "linear", "features": 1000}]},
    "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "next", "reduction": "mean"},
    "optimizer": {"type": "adam", "learning_rate": 0.01}, "seed": 0}
KINDS = {"f4": "float32", "f8": "float64", "f2": "float16", "i4": "int32", "i8": "int64", "u1": "uint8", "b1": "bool"}


def one_input(dtype):
    return {"stepc": 1, "name": "typed", "inputs": {"v": {"shape": [8, 4], "dtype": dtype, "axes": ["batch", None]}}, "model": {"type": "param", "name": "w", "shape": [4]},
            "loss": "mean((astype(v, 'float32') - params.w)**2)", "optimizer": {"type": "sgd", "learning_rate": 0.1}, "seed": 0}


class Rows(runner.SharedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = np.random.default_rng(1)
        cls.x, cls.y = random.normal(size=(ROWS, 4)).astype("f4"), random.integers(0, 3, ROWS).astype("i4")
        for name, document in (("model", MODEL), ("mesh", {**MODEL, "mesh": {"axes": {"data": 2}}, "sharding": {"rules": [["batch", "data"]]}}), ("text", TEXT),
                               *((kind, one_input(dtype)) for kind, dtype in KINDS.items())):
            with open(cls.path(name + ".json"), "w") as f:
                json.dump(document, f)
            code, said = cls.run_stepc("compile", cls.path(name + ".json"), "-o", cls.path(name + ".so"))
            assert code == 0, said
        np.save(cls.path("x.npy"), cls.x)
        np.save(cls.path("y.npy"), cls.y)
        np.savez(cls.path("rows.npz"), y=cls.y, x=cls.x)
        safetensors.write(cls.path("rows.st"), {"x": cls.x, "y": cls.y})
        lines = ["%s,%d" % (",".join("%.9g" % v for v in row), label) for row, label in zip(cls.x, cls.y)]
        cls.write("table.csv", "\r\n".join(['"x.0",x.1,x.2, x.3 ,y', *lines, ""]))
        cls.write("x.csv", "\n".join(line.rpartition(",")[0] for line in lines))
        cls.write("y.csv", "label\n" + "".join('"%d.0"\n' % label for label in cls.y))
        cls.tokens = random.integers(0, 1000, 103).astype("<u2")
        cls.tokens.tofile(cls.path("plain.bin"))
        cls.write("head.bin", struct.pack("<256i", 20240520, 1, len(cls.tokens), *[0] * 253) + cls.tokens.tobytes())

    @classmethod
    def write(cls, name, what):
        with open(cls.path(name), "wb") as f:
            f.write(what if isinstance(what, bytes) else what.encode())

    def run_to(self, program, *args, code=0):
        """All state at the end, and what the metrics say."""
        got, said = self.run_stepc("run", self.path(program), *args, "--save", self.path("state.st"), "--all-state", "--metrics", self.path("metrics.jsonl"))
        self.assertEqual(got, code, said)
        if code:
            return said
        with open(self.path("state.st"), "rb") as state, open(self.path("metrics.jsonl")) as metrics:
            return state.read(), metrics.read()

    def batches(self, order, batch=BATCH, **rows):
        """The file of batches that an order of rows makes."""
        order = np.asarray(order)[: len(order) // batch * batch]
        safetensors.write(self.path("batches.st"), {name: a[order].reshape(-1, batch, *a.shape[1:]) for name, a in rows.items()})
        return self.path("batches.st")

    def order(self, seed, rounds, rows=ROWS):
        """The rows as a run takes them, in so many rounds."""
        mask = (1 << 64) - 1

        def mix(x):
            x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
            x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
            return x ^ (x >> 31)

        out = []
        for at in range(rounds):
            state, order = mix(mix((seed + 0x9E3779B97F4A7C15) & mask) + at & mask), list(range(rows))
            for i in range(rows, 1, -1):
                state = (state + 0x9E3779B97F4A7C15) & mask
                k = mix(state) % i
                order[k], order[i - 1] = order[i - 1], order[k]
            self.assertEqual(sorted(order), list(range(rows)))
            out += order
        return out

    def formats(self):
        p = self.path
        return (p("rows.st"),), ("x=" + p("x.npy"), "y=" + p("y.npy")), (p("rows.npz"),), (p("table.csv"),), ("x=" + p("x.csv"), "y=" + p("y.csv"))

    def test_types(self):
        """Numbers of every type from tables and NumPy files, with either head of these; heads that are none."""
        def head(form, text, version=1, length=None):
            text = text.encode().ljust(53) + b"\n"
            return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text) if length is None else length) + text + form
        good = "{'descr': '<f4', 'fortran_order': False, 'shape': (8, 4), }"
        body = np.arange(32, dtype="f4").reshape(8, 4)
        for name in KINDS:
            values = np.arange(32).reshape(8, 4).astype(name) if name != "b1" else np.arange(32).reshape(8, 4) % 3 == 0
            np.save(self.path("v.npy"), values)
            want = self.run_to(name + ".so", "--steps", "2", "--data", "v=" + self.path("v.npy"))
            if name == "f2":
                continue
            self.write("v.csv", "\n".join(",".join("%g" % x for x in row) for row in values) + "\n")
            self.assertEqual(want, self.run_to(name + ".so", "--steps", "2", "--data", "v=" + self.path("v.csv")), name)
        np.save(self.path("v.npy"), body)
        want = self.run_to("f4.so", "--steps", "1", "--data", "v=" + self.path("v.npy"))
        self.write("two.npy", head(body.tobytes(), good, version=2))
        self.assertEqual(want, self.run_to("f4.so", "--steps", "1", "--data", "v=" + self.path("two.npy")))
        for text, says in (((body.tobytes()[:-1], good), "cut off"), ((b"", good, 2, 1 << 31), "header is too long"), ((b"", good, 1, 500), "cut off"),
                           ((body.tobytes(), good.replace("<f4", ">f4")), "type that is not supported"), ((body.tobytes(), good.replace("'descr'", "'d'")), "type that is not supported"),
                           ((body.tobytes(), good.replace("'<f4'", "[('a', '<f4')]")), "type that is not supported"), ((body.tobytes(), good.replace("'<f4'", "'<f44'")), "type that is not supported"),
                           ((body.tobytes(), good.replace("False", "True")), "stored by columns"), ((body.tobytes(), good.replace("'fortran_order'", "'f'")), "stored by columns"),
                           ((body.tobytes(), good.replace("'shape'", "'s'")), "shape cannot be read"), ((body.tobytes(), good.replace("(8, 4)", "[8, 4]")), "shape cannot be read"),
                           ((body.tobytes(), good.replace("(8, 4)", "(8, -4)")), "shape cannot be read"), ((body.tobytes(), good.replace("(8, 4)", "(8, x)")), "shape cannot be read"),
                           ((body.tobytes(), good.replace("(8, 4)", "(1, 1, 1, 1, 1, 1, 1, 8, 4)")), "too many dimensions"), ((body.tobytes(), good.replace("(8, 4)", "(4294967296, 4294967296)")), "cut off")):
            self.write("bad.npy", head(*text))
            self.assertIn(says, self.run_to("f4.so", "--steps", "1", "--data", "v=" + self.path("bad.npy"), code=1))
        for text, says in ((b"\x93NUMPY\x01", "too short"), (b"plain text, long enough", "")):
            self.write("bad.npy", text)
            self.assertIn(says, self.run_to("f4.so", "--steps", "1", "--data", "v=" + self.path("bad.npy"), code=1))

    def test_widths(self):
        """NumPy's 64-bit numbers, and all integers whose values fit, as rows, as steps and read step by step; what would be another number is refused."""
        p, want = self.path, self.run_to("model.so", "--steps", "5", "--data", self.path("rows.st"))
        for kind in ("u1", "i1", "u2", "i2", "u4", "u8", "i8"):
            np.savez(p("wide.npz"), x=self.x.astype("f8"), y=self.y.astype(kind))
            self.assertEqual(self.run_to("model.so", "--steps", "5", "--data", p("wide.npz")), want, kind)
        safetensors.write(p("half.st"), {"x": self.x.astype("f2"), "y": self.y})
        safetensors.write(p("same.st"), {"x": self.x.astype("f2").astype("f4"), "y": self.y})
        self.assertEqual(self.run_to("model.so", "--steps", "5", "--data", p("half.st")), self.run_to("model.so", "--steps", "5", "--data", p("same.st")))
        steps = self.batches(np.arange(16), x=self.x.astype("f8"), y=self.y.astype("i8"))
        self.assertEqual(self.run_to("model.so", "--steps", "2", "--data", steps), self.run_to("model.so", "--steps", "2", "--data", self.batches(np.arange(16), x=self.x, y=self.y)))
        for program, values in (("f8.so", np.arange(32, dtype="f4") / 3), ("i8.so", np.arange(32, dtype="i2") - 7), ("u1.so", np.arange(32))):
            np.save(p("v.npy"), values.reshape(8, 4))
            np.save(p("w.npy"), values.reshape(8, 4).astype(program[:2]))
            self.assertEqual(self.run_to(program, "--steps", "2", "--data", "v=" + p("v.npy")), self.run_to(program, "--steps", "2", "--data", "v=" + p("w.npy")), program)
        for program, value, other, says in (("i4.so", np.int64(2**31), 1, "element [5, 2] is 2147483648, which int32 cannot hold"), ("u1.so", np.int32(-1), 1, "element [5, 2] is -1, which uint8 cannot hold"),
                                            ("u1.so", np.uint16(256), 1, "element [5, 2] is 256, which uint8 cannot hold"), ("i4.so", np.uint64(2**64 - 1), 1, "which int32 cannot hold"),
                                            ("f4.so", np.float64(1e39), 1, "element [5, 2] is 9.9999999999999994e+38, which float32 cannot hold")):
            values = np.full((8, 4), other, dtype=value.dtype)
            values[5, 2] = value
            np.save(p("v.npy"), values)
            self.assertIn(says, self.run_to(program, "--steps", "1", "--data", "v=" + p("v.npy"), code=1))
        for program, kind, says in (("i4.so", "f8", "(NumPy: a.astype(np.int32))"), ("f4.so", "i8", "(NumPy: a.astype(np.float32))"), ("f2.so", "f4", "(NumPy: a.astype(np.float16))"),
                                    ("b1.so", "u1", "(NumPy: a.astype(np.bool))"), ("i8.so", "u8", "(NumPy: a.astype(np.int64))")):
            np.save(p("v.npy"), np.ones((8, 4), kind))
            self.assertIn(says, self.run_to(program, "--steps", "1", "--data", "v=" + p("v.npy"), code=1), program)

    def test_head_of_numbers(self):
        """0,1,2,3 over the columns is a row, and is said to be one."""
        for first, warns in (("0,1,2,3", True), ("0,1,2,4", False)):
            self.write("pandas.csv", "\n".join([first] + ["1,2,3,4"] * 8))
            code, said = self.run_stepc("run", self.path("f4.so"), "--steps", "1", "--data", "v=" + self.path("pandas.csv"))
            self.assertEqual((code, "is taken as a row" in said), (0, warns), said)

    def test_the_same_training(self):
        """Three rounds are 81 rows, 11 batches: the last one takes the first rows of the next round."""
        for more, order in (((), np.arange(4 * ROWS) % ROWS), (("--shuffle",), self.order(0, 4)), (("--shuffle=7",), self.order(7, 4))):
            for program in ("model.so", "model.json", "mesh.so"):
                want = self.run_to(program, "--steps", "11", "--data", self.batches(order, x=self.x, y=self.y))
                for data in self.formats() if program == "model.so" else self.formats()[:1]:
                    self.assertEqual(self.run_to(program, "--epochs", "3", "--data", *data, *more), want, (program, more, data))

    def test_resumed(self):
        data = ("--data", self.path("rows.npz"), "--shuffle=3")
        for program in ("model.so", "model.json"):
            folder = self.path("runs-" + program)
            want = self.run_to(program, "--steps", "13", *data)
            self.run_to(program, "--steps", "6", *data, "--save-dir", folder)
            for wrong, said in ((("--shuffle=4",), "with --shuffle=3, in batches of 8"), ((), "with --shuffle=3")):
                self.assertIn(said, self.run_to(program, "--steps", "13", *data[:2], *wrong, "--save-dir", folder, "--resume", "auto", code=1))
            self.assertEqual(self.run_to(program, "--steps", "13", *data, "--save-dir", folder, "--resume", "auto")[0], want[0])

    def test_stopped_by_a_metric(self):
        """As the metrics of the whole run say it; resumed in between, the same; the best checkpoint stays."""
        data = ("--data", self.path("rows.npz"), "--shuffle", "--eval-data", self.batches(np.arange(24), x=-self.x, y=self.y), "--eval-every", "3")
        for program in ("model.so", "model.json"):
            lines = [json.loads(line) for line in self.run_to(program, "--steps", "60", *data)[1].splitlines()]
            for metric, sign, delta in (("eval_loss", 1, 0), ("eval_accuracy", -1, 0), ("loss", 1, 0.01)):
                rule = "%s:%s:patience=3:delta=%g" % (metric, "min" if sign > 0 else "max", delta)
                best, missed, last = float("inf"), 0, 0
                for line in lines:
                    if metric in line and missed < 3:
                        last, better = line["step"], sign * line[metric] < best - delta
                        best, missed = (sign * line[metric], 0) if better else (best, missed + 1)
                self.assertLess(last, 60)
                folder = self.path("stop-%s-%s" % (program, metric))
                want = self.run_to(program, "--steps", "60", *data, "--stop-when", rule)
                self.assertEqual(json.loads(want[1].splitlines()[-1])["step"], last)
                self.assertIn("stopped after step %d; best was" % last, self.run_stepc("run", self.path(program), "--steps", "60", *data, "--stop-when", rule)[1])
                keep = ("--stop-when", rule, "--save-dir", folder, "--keep-best", rule.split(":patience")[0], "--resume", "auto")
                self.run_to(program, "--steps", str(last - 2), *data, *keep)
                for _ in range(2):  # what is over stays so
                    self.assertEqual(self.run_to(program, "--steps", "60", *data, *keep)[0], want[0])
                kept = {int(name[5:]) for name in os.listdir(folder) if name.startswith("step-")}  # of equally good ones the newest
                values = {line["step"]: sign * line[metric] for line in lines[:last] if metric in line}
                self.assertTrue(last in kept and len(kept) <= 2 and min(values[step] for step in kept if step in values) == min(values.values()), kept)
        odd = 'log(\\ "mean"):minutes:min'  # one that is never finite, in a run of several parts
        self.write("odd.json", json.dumps({**MODEL, "metrics": {odd: "log(mean(model) * 0 - 1)"}}))
        for steps, last in ((3, 3), (4, 4), (9, 5), (12, 5)):
            code, said = self.run_stepc("run", self.path("odd.json"), "--steps", str(steps), *data[:2], "--save-dir", self.path("odd"), "--resume", "auto", "--stop-when", odd + ":max:patience=5")
            self.assertEqual((code, "after step 5; it was never finite" in said), (0, last == 5), said)
            with open(self.path("odd/latest/items/stepc_run.json")) as f:
                self.assertEqual(json.load(f)["stop-when:%s:max" % odd], [last])
        for args, code, says in ((("--reduce-on-plateau", "loss:min:factor=1"), 2, "between 0 and 1"), (("--reduce-on-plateau", "loss:min:of=rate"), 1, "rate"),
                                 (("--reduce-on-plateau", "loss:min:patience=1.5"), 2, "from 1 on"), (("--stop-when", "loss:min:factor=0.5"), 2, "unknown part"),
                                 (("--stop-when", "eval_los:min"), 1, 'did you mean "eval_loss"?'), (("--stop-when", "loss"), 2, "METRIC:min or METRIC:max"),
                                 (("--stop-when", "a\x1b[31m\u009b:min"), 1, 'no metric "a?[31m?" of one'), (("--stop-when", "loss:min:patience=0"), 2, "from 1 on"), (("--stop-when", "loss:min:for=3"), 2, "unknown part"),
                                 (("--stop-when", "loss:min:patience=2:delta=0:patience=3"), 2, "patience is given twice"),
                                 (("--keep-best", "loss:min"), 2, "needs --save-dir"), (("--keep-best", "loss:min:patience=3", "--save-dir", self.path("d")), 2, "unknown part")):
            self.assertIn(says, self.run_to("model.so", "--steps", "1", *data, *args, code=code))
        self.assertIn("--eval-every N", self.run_to("model.so", "--steps", "1", *data[:3], "--stop-when", "eval_loss:min", code=2))

    def test_wide_table(self):
        """Four times as many columns take about four times as long, not sixteen."""
        spent = []
        for wide in (15000, 60000):
            self.write("wide.json", json.dumps({"stepc": 1, "name": "wide", "inputs": {"x": {"shape": [4, wide], "axes": ["batch", None]}}, "model": {"type": "linear", "features": 1, "input": "x"},
                                                "loss": "mean(model**2)", "optimizer": {"type": "sgd", "learning_rate": 0.0}}))
            self.stepc("compile", self.path("wide.json"), "-q", "-o", self.path("wide.so"))
            self.write("wide.csv", ",".join("x.%d" % i for i in range(wide)) + ("\n" + ",".join(["1"] * wide)) * 4)
            best = float("inf")
            for _ in range(3):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                self.stepc("run", self.path("wide.so"), "-q", "--steps", "1", "--data", self.path("wide.csv"))
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                best = min(best, after.ru_utime - before.ru_utime)
            spent.append(best)
        self.assertLess(spent[1], 7 * spent[0] + 0.2)

    def test_tokens(self):
        """20 windows of 5 tokens, the last token only as what follows; over their end as other rows."""
        windows = np.stack([self.tokens[5 * k : 5 * k + 5] for k in range(20)]).astype("i4")
        after = np.stack([self.tokens[5 * k + 1 : 5 * k + 6] for k in range(20)]).astype("i4")
        want = self.run_to("text.so", "--steps", "7", "--data", self.batches(np.arange(40) % 20, 4, tokens=windows, next=after))
        for name in ("plain.bin", "head.bin"):
            self.assertEqual(self.run_to("text.so", "--steps", "7", "--data", "tokens=" + self.path(name), "next=" + self.path(name) + "+1"), want)
        self.write("high.bin", np.where(np.arange(103) == 50, 1000, self.tokens).astype("<u2").tobytes())
        said = self.run_to("text.so", "--epochs", "1", "--data", "tokens=" + self.path("high.bin"), "next=" + self.path("high.bin") + "+1", code=1)
        self.assertIn("is 1000", said)
        self.assertIn("0 <= value < 1000", said)
        self.assertIn("step 3, of rows 8, 9, 10, 11: ", said)

    def test_larger_than_memory(self):
        """More than 1 GiB is read as it is needed; most of this file are holes."""
        wide, rows = 1 << 16, 4200
        inputs = {"x": {"shape": [8, wide], "axes": ["batch", None]}, "t": {"shape": [8, 2], "dtype": "int32", "axes": ["batch", None]}}
        document = {"stepc": 1, "name": "wide", "inputs": inputs, "model": {"type": "linear", "input": "x", "features": 2}, "loss": "mean((model - t / 1000)**2)",
                    "optimizer": {"type": "sgd", "learning_rate": 0.1}, "seed": 0}
        self.write("wide.json", json.dumps(document))
        code, said = self.run_stepc("compile", self.path("wide.json"), "-o", self.path("wide.so"))
        self.assertEqual(code, 0, said)
        x = np.lib.format.open_memmap(self.path("wide.npy"), "w+", "<f4", (rows, wide))
        x[:, 5] = np.random.default_rng(3).normal(size=rows)
        x.flush()
        tokens = (np.arange(2 * rows + 1) * 7 % 1000).astype("<u2")
        tokens.tofile(self.path("wide.bin"))
        t = tokens[: 2 * rows].reshape(rows, 2).astype("i4")
        data = ("--steps", "3", "--data", "x=" + self.path("wide.npy"), "t=" + self.path("wide.bin"))
        self.assertEqual(self.run_to("wide.so", *data), self.run_to("wide.so", "--steps", "3", "--data", self.batches(np.arange(24), x=x, t=t)))
        shuffled = self.order(5, 1, rows)[:24]
        self.assertEqual(self.run_to("wide.so", *data, "--shuffle=5"), self.run_to("wide.so", "--steps", "3", "--data", self.batches(shuffled, x=x, t=t)))

    def test_plateau(self):
        """A learning rate that a metric reduces: the training in which --set says the same values, also when it is resumed."""
        p, data = self.path, ("--data", self.path("rows.npz"), "--eval-data", "x=" + self.path("x.npy"), "y=" + self.path("y.npy"), "--eval-every", "2", "--eval-count", "rows")
        document = {**MODEL, "metrics": {"rows": "shape(y)[0] + 0 * sum(y)"}, "optimizer": {"type": "sgd", "learning_rate": 3.0}}
        with open(p("plateau.json"), "w") as f:
            json.dump(document, f)
        self.assertEqual(self.run_stepc("compile", p("plateau.json"), "-o", p("plateau.so"))[0], 0)
        rule = ("--reduce-on-plateau", "eval_loss:min:patience=2:factor=0.25:least=0.05:delta=0.01")
        for program in ("plateau.so", "plateau.json"):
            want = self.run_to(program, "--steps", "40", *data, *rule)
            said = self.run_stepc("run", p(program), "--steps", "40", *data, *rule)[1]
            best, missed, rate, sets = np.inf, 0, 3.0, []
            for line in map(json.loads, want[1].splitlines()):
                if "eval_loss" not in line:
                    continue
                better = line["eval_loss"] < best - 0.01
                best, missed = (line["eval_loss"], 0) if better else (best, missed + 1)
                if missed == 2 and rate > 0.05:
                    rate = max(rate * 0.25, 0.05)
                    sets += ["--set", "learning_rate=%r@%d" % (rate, line["step"] + 1)]
                    self.assertIn("learning_rate is %g after step %d" % (rate, line["step"]), said)
                missed %= 2
            self.assertGreaterEqual(len(sets), 4)
            self.assertEqual(said.count("learning_rate is"), len(sets) // 2)
            self.assertEqual(want, self.run_to(program, "--steps", "40", *data, *sets))
            for steps in ("11", "40"):
                self.run_to(program, "--steps", steps, *data, *rule, "--save-dir", p("plateau-" + program), "--resume", "auto")
            with open(p("state.st"), "rb") as f:
                self.assertEqual(f.read(), want[0])

    def test_paths(self):
        """An equals sign, spaces and other letters in a path."""
        os.mkdir(self.path("a=b \u00fc"))
        want = self.run_to("model.so", "--steps", "3", "--data", self.path("rows.npz"))
        for name in ("rows.npz", "table.csv", "rows.st"):
            os.link(self.path(name), self.path("a=b \u00fc/" + name))
            self.assertEqual(self.run_to("model.so", "--steps", "3", "--data", self.path("a=b \u00fc/" + name))[0], want[0], name)
        for name in ("x", "y"):
            os.link(self.path(name + ".npy"), self.path("a=b \u00fc/%s=.npy" % name))
        self.assertEqual(self.run_to("model.so", "--steps", "3", "--data", *("%s=%s" % (n, self.path("a=b \u00fc/%s=.npy" % n)) for n in "xy"))[0], want[0])

    def test_compressed(self):
        """np.savez_compressed: the same rows, some of them in several blocks."""
        np.savez_compressed(self.path("packed.npz"), x=self.x, y=self.y)
        args = ("--steps", "9", "--shuffle=2", "--data")
        code, said = self.run_stepc("run", self.path("model.so"), *args, self.path("packed.npz"))
        if "built without (zlib)" in said:
            self.assertEqual(code, 1)
            self.skipTest("this stepc was built without zlib")
        self.assertEqual(self.run_to("model.so", *args, self.path("packed.npz")), self.run_to("model.so", *args, self.path("rows.npz")))
        many = np.random.default_rng(2).normal(size=(200000, 4)).astype("f4")
        labels = np.arange(200000, dtype="i4") % 3
        for save, name in ((np.savez, "many.npz"), (np.savez_compressed, "packed.npz")):
            save(self.path(name), x=many, y=labels)
        args = ("--steps", "50", "--shuffle=2", "--data")
        self.assertEqual(self.run_to("model.so", *args, self.path("packed.npz")), self.run_to("model.so", *args, self.path("many.npz")))
        for rows in (262113, 262115):  # of y little is left behind a block, and nothing of what is packed
            np.savez_compressed(self.path("packed.npz"), x=np.zeros((rows, 4), "f4"), y=np.zeros(rows, "i4"))
            self.assertEqual(self.run_stepc("run", self.path("model.so"), "-q", "--steps", "1", "--data", self.path("packed.npz")), (0, ""), rows)

    def test_wrong_files(self):
        p = self.path
        with open(p("table.csv")) as f:
            lines = f.read().split("\n")
        table = lambda name, text: (self.write(name + ".csv", text), p(name + ".csv"))[1]
        np.savez_compressed(p("small.npz"), x=self.x, y=self.y)
        with open(p("small.npz"), "rb") as f:
            small = f.read()
        at = small.index(b"x.npy") + 200
        self.write("bent.npz", small[:at] + bytes([small[at] ^ 4]) + small[at + 1 :])
        lying = small.index(b"PK\1\2") + 24  # of how many bytes it becomes
        self.write("lying.npz", small[:lying] + b"\xff\xff" + small[lying + 2 :])
        _, said = self.run_stepc("run", p("model.so"), "--steps", "1", "--data", p("small.npz"))
        damaged = "built without (zlib): np.savez(" if "zlib" in said else "is damaged: it does not unpack"
        with open(p("rows.npz"), "rb") as f:
            whole = f.read()
        self.write("cut.npz", whole[:-30])
        at = whole.index(self.x.tobytes()) + 5
        self.write("flipped.npz", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        self.write("version.bin", struct.pack("<256i", 20240520, 7, 3, *[0] * 253) + b"123456")
        self.write("cut.bin", struct.pack("<256i", 20240520, 1, 300, *[0] * 253) + self.tokens.tobytes())
        self.write("odd.bin", b"123")
        self.write("wide.bin", np.arange(7, 600, dtype="<u4").tobytes())  # tokens of 32 bits, with a head of their own and without
        self.write("wide_head.bin", struct.pack("<256i", 20240801, 7, 3, *[0] * 253) + b"123456789012")
        self.write("semicolons.csv", "x.0;x.1\n1;2\n")
        self.write("notes.txt", "{}" + " " * 40)
        self.write("short.bin", b"1234567890")
        np.save(p("few.npy"), self.x[:5])
        np.save(p("fewer.npy"), self.y[:5])
        with open(p("both.npy"), "wb") as f:
            np.save(f, self.x)
            np.save(f, self.x)
        np.save(p("double.npy"), self.y.astype("f8"))
        np.save(p("batches.npy"), self.y[:24].reshape(3, 8))
        np.save(p("column.npy"), self.y[:, None])
        cells = lambda row, column, value: "\n".join(",".join(value if (i, k) == (row, column) else c for k, c in enumerate(line.split(","))) for i, line in enumerate(lines))
        for data, says in ((("x=" + p("both.npy"), "y=" + p("y.npy")), "both.npy: more follows its array"), ((p("bent.npz"),), damaged), ((p("lying.npz"),), damaged), ((p("cut.npz"),), "cut off"), ((p("flipped.npz"),), "x.npy is damaged: checksum"),
                           ((table("word", cells(3, 2, "many")),), 'word.csv:4: column 3 ("x.2"): "many" is no number'),
                           ((table("nan", cells(3, 2, "nan")),), '"nan" is no number'), ((table("quote", cells(2, 0, '"1"2')),), "is no number"),
                           ((table("gap", cells(5, 1, "")),), 'gap.csv:6: column 2 ("x.1"): the cell is empty'),
                           ((table("half", cells(5, 4, "1.5")),), '"1.5" is no whole number'), ((table("large", cells(5, 0, "1e39")),), "does not fit into float32"),
                           ((table("wide", cells(5, 4, "3000000000")),), "does not fit into int32"),
                           ((table("more", cells(2, 4, "1,2")),), "more.csv:3: more cells than the 5 columns"), ((table("less", cells(2, 4, "1").replace(",1\n", "\n", 1)),), "4 cells for 5 columns"),
                           ((table("line", "\n".join(lines[:4] + [""] + lines[4:])),), "line.csv:5: the line is empty"),
                           ((table("mac", "\n".join(lines[:4]) + "\r" + "\n".join(lines[4:])),), "mac.csv:4: a carriage return within the line"),
                           ((table("head", "\n".join(lines[:1])),), "holds no row"), ((table("behind", "\n".join(lines[:1] + [""] + lines[1:])),), "behind.csv:2: the line is empty, and more lines follow"),
                           ((table("before", "\n".join([""] + lines)),), "before.csv:1: the line is empty, and more lines follow"), ((table("none", ""),), "empty"), ((table("bare", "\n".join(lines[1:])),), "no head"),
                           ((table("lost", cells(0, 2, "x.5")),), "lost.csv:1: column \"x.5\": a row of this input has 4 numbers"), ((table("twice", cells(0, 2, "x.1")),), "twice.csv:1: column \"x.1\" is there twice"),
                           ((table("other", cells(0, 4, "Y")),), '"Y" is no input of this step'), (("z=" + p("x.csv"), "y=" + p("y.csv")), '"z" is no input of this step'),
                           (("x=" + p("y.csv"), "y=" + p("y.csv")), '1 column for input "x", of which a row has 4 numbers'),
                           (("x=" + p("few.npy"), "y=" + p("fewer.npy")), "has 5 rows, fewer than a batch of 8"), (("x=" + p("x.npy"), "y=" + p("fewer.npy")), "5 rows in batches of 8; others have 27"),
                           (("x=" + p("x.npy"), "y=" + p("batches.npy")), 'tensor "x" holds rows, float32[27, 4]; those of other inputs do not'), (("x=" + p("x.npy"), "y=" + p("column.npy")), "found int32[27, 1]"),
                           (("x=" + p("x.npy"), "y=" + p("double.npy")), "a.astype(np.int32)"), ((p("semicolons.csv"),), "separated by commas"), ((p("notes.txt"),), "data are .safetensors"), (("x=" + p("plain.bin"), "y=" + p("y.npy")), "takes no tokens")):
            self.assertIn(says, self.run_to("model.so", "--steps", "1", "--data", *data, code=1))
        for name, value, says in (("u1", "256", "does not fit into uint8"), ("b1", "2", "is neither 0 nor 1"), ("i8", "1e16", "is no whole number"),
                                         ("i8", "9223372036854775808", "does not fit into int64"), ("f8", "1e999", "does not fit into float64"), ("f2", "1", "tables are read as")):
            self.write(name + ".csv", "\n".join(["1,0,1,0"] * 7 + ["1,0,1,%s" % value]))
            self.assertIn(says, self.run_to(name + ".so", "--steps", "1", "--data", "v=" + p(name + ".csv"), code=1))
        for name, says in (("version.bin", "version 7"), ("cut.bin", "cut off"), ("odd.bin", "3 bytes are no tokens"), ("short.bin", "no window of 5"), ("plain.bin+2", "at the second"), ("wide.bin", "32 bits each"), ("wide_head.bin", "32 bits each")):
            self.assertIn(says, self.run_to("text.so", "--steps", "1", "--data", "tokens=" + p(name), "next=" + p("plain.bin"), code=1))
        for args, says in (((p("plain.bin"),), "--data NAME="), (("x=" + p("rows.npz"),), "names its arrays itself"), (("x=" + p("notes.txt"),), "one input is read of .npy"),
                           ((self.batches(np.arange(16), x=self.x, y=self.y), "--shuffle"), "plain rows"), ((p("rows.st"), "--shuffle=a"), "expected a whole number")):
            self.assertIn(says, self.run_to("model.so", "--steps", "1", "--data", *args, code=2))


if __name__ == "__main__":
    runner.main()
