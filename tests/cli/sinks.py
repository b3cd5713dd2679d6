#!/usr/bin/env python3
"""What a run says of its steps: --csv and --tensorboard hold the numbers of --metrics, also of a run that continues, of ranks and
interpreted; event files are read by their format, and by TensorBoard itself where it is installed.

    tests/cli/sinks.py STEPC
"""
import csv
import fcntl
import glob
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

DOCUMENT = {
    "stepc": 1, "name": "small", "inputs": {"x": {"shape": [8, 4], "axes": ["batch", None]}},
    "model": {"type": "linear", "features": 3, "input": "x"}, "loss": "mean((model - 1)**2)",
    "metrics": {"largest": "max(model)", "rows": "max(model, axis=1)", "count": "astype(sum(model > 0), 'int32')", 'odd, "name"': "min(model)"},
    "optimizer": {"type": "adam", "learning_rate": 0.01}}


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """Of a message of protocol buffers: number, value."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def events(folder):
    """(step, {tag: float}, what else stands in it) of all event files of a folder, in their order."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        with open(path, "rb") as f:
            data = f.read()
        while data:
            (size, check), event = struct.unpack("<QI", data[:12]), data[12:]
            assert check == crc32c(data[:8]) and struct.unpack("<I", event[size:size + 4])[0] == crc32c(event[:size]), path
            record, data = dict(fields(event[:size])), event[size + 4:]
            values = [dict(fields(v)) for _, v in fields(record.get(5, b""))]
            found.append((record[2], {v[1].decode(): struct.unpack("<f", v[2])[0] for v in values}, {k: v for k, v in record.items() if k in (3, 7)}))
    return found


class Sinks(runner.Case):
    def setUp(self):
        self.model, self.so = self.write("model.json", json.dumps(DOCUMENT)), self.path("step.so")
        self.data = self.path("data.safetensors")
        safetensors.write(self.data, {"x": np.random.default_rng(1).standard_normal((3, 8, 4)).astype(np.float32)})
        self.stepc("compile", self.model, "-o", self.so)

    def all_of(self, *more, what=None, code=0):
        return self.stepc("run", what or self.so, "--data", self.data, "--metrics", self.path("m.jsonl"), "--csv", self.path("m.csv"),
                          "--tensorboard", self.path("events"), *more, code=code)

    def lines(self):
        with open(self.path("m.jsonl")) as f:
            return [json.loads(line) for line in f]

    def table(self):
        with open(self.path("m.csv"), newline="") as f:
            return list(csv.DictReader(f))

    def agree(self):
        """The table has the numbers of the lines, and event files those that are no arrays."""
        lines, table = self.lines(), self.table()
        self.assertEqual(len(table), len(lines))
        for line, row in zip(lines, table):
            flat = {"%s%s" % (k, "" if i is None else "[%d]" % i): x for k, v in line.items() for i, x in ([(None, v)] if not isinstance(v, list) else enumerate(v))}
            self.assertEqual({k: float(v) for k, v in row.items() if v}, {k: float(v) for k, v in flat.items()})
        numbers = [(line["step"], {k: np.float32(v) for k, v in line.items() if k != "step" and not isinstance(v, list)}) for line in lines]
        seen = {step: values for step, values, _ in events(self.path("events")) if values}  # what comes again counts
        self.assertEqual(sorted(seen.items()), numbers)

    def test_zero_below(self):
        """-0.0 is one for readers of JSON, too, which take -0 for an integer."""
        model = self.write("zero.json", json.dumps({**DOCUMENT, "metrics": {"zero": "min(-relu(-abs(model)))", "zeros": "-relu(-abs(model[0]))"}}))
        self.stepc("compile", model, "-o", self.path("zero.so"))
        for what in (self.path("zero.so"), model):
            self.all_of("--steps", "1", what=what)
            self.agree()
            line = self.lines()[0]
            self.assertEqual(["%r" % x for x in (line["zero"], *line["zeros"])], ["-0.0"] * 4)
            self.assertEqual([self.table()[0][k] for k in ("zero", "zeros[0]")], ["-0.0"] * 2)
            self.stepc("run", what, "--data", self.data, "--steps", "1", "--save-dir", self.path("saved"), "--keep", "best=zero:min:1")
            with open(self.path("saved/step-1/manifest.json")) as f:
                self.assertEqual("%r" % json.load(f)["metrics"]["zero"], "-0.0")
            shutil.rmtree(self.path("saved"))

    def test_numbers(self):
        for what in (self.so, self.model):
            self.all_of("--steps", "5", "--eval-data", self.data, "--eval-every", "2", what=what)
            self.agree()
            self.assertEqual([bool(row["eval_loss"]) for row in self.table()], [False, True, False, True, False])
            self.assertIn('odd, "name"', self.table()[0])
            self.assertEqual(events(self.path("events"))[0][2], {3: b"brain.Event:2"})
            for name in os.listdir(self.path("events")):
                os.unlink(os.path.join(self.path("events"), name))
        self.assertEqual(self.stepc("run", self.so, "-q", "--data", self.data, "--steps", "2", "--csv", "-").stdout.splitlines()[1][:2], "1,")

    def test_not_finite(self):
        self.all_of("--steps", "3", "--set", "learning_rate=1e38@2", "-q")
        self.agree()
        self.assertIn("Infinity", self.table()[2]["loss"] + self.table()[2]["largest"] + self.table()[2]["odd, \"name\""])

    def test_continues(self):
        """What a killed run had written after its checkpoint is written again, once."""
        model = self.write("model.json", json.dumps({**DOCUMENT, "optimizer": {"type": "adam", "learning_rate": 0.001}}))
        self.stepc("compile", model, "-o", self.so)
        run = ["--save-dir", self.path("run"), "--resume", "auto"]
        self.all_of(*run, "--steps", "4")
        with open(self.path("m.csv"), "a") as f:
            f.write("5,0.5,0.5\n6,0.25")
        self.all_of(*run, "--steps", "7")
        self.agree()
        self.assertEqual([int(row["step"]) for row in self.table()], [1, 2, 3, 4, 5, 6, 7])
        self.assertIn((5, {}, {7: b"\x08\x01"}), events(self.path("events")))  # older events from step 5 on are not shown
        other = self.write("m.csv", "step,accuracy\n1,2\n")
        self.assertIn("its columns are not those", self.all_of(*run, "--steps", "9", code=3).stderr)
        with open(other) as f:
            self.assertEqual(f.read(), "step,accuracy\n1,2\n")

    def test_continues_evaluations(self):
        """A run in parts, of which the last ones have nothing left to do, leaves what the run in one leaves."""
        rows = {}
        for name, parts in ("one", ["7"]), ("parts", ["4", "7", "7"]):
            for steps in parts:
                self.stepc("run", self.so, "-q", "--data", self.data, "--steps", steps, "--save-dir", self.path(name), "--resume", "auto", "--metrics", self.path(name + ".jsonl"),
                           "--eval-data", self.data, "--eval-every", "3")
            with open(self.path(name + ".jsonl")) as f:
                rows[name] = f.read()
        self.assertEqual(rows["one"], rows["parts"])
        self.assertEqual(rows["one"].count("eval_loss"), 2)
        at = self.stepc("run", self.so, "--data", self.data, "--steps", "7", "--save-dir", self.path("one"), "--resume", "auto", "--eval-data", self.data)
        self.assertIn("eval_loss", at.stdout + at.stderr)  # asked for after the last step, not every so often

    def test_continues_behind_skipped_steps(self):
        """A line for each batch stays, also of the last one, which was skipped, where an evaluation has one of its own."""
        x = np.random.default_rng(1).standard_normal((3, 8, 4)).astype(np.float32)
        x[2] = np.nan
        safetensors.write(self.data, {"x": x})
        run = ["-q", "--on-nonfinite", "skip", "--save-dir", self.path("run"), "--resume", "auto"]
        self.all_of(*run, "--steps", "3")
        for name, more in ("m.jsonl", '{"step":1,"eval_loss":0.5}\n'), ("m.csv", "1,,,,,,,,,,,,,0.5\n"):
            with open(self.path(name)) as f:
                lines = f.readlines()
            at = 1 if name == "m.jsonl" else 2
            with open(self.path(name), "w") as f:
                f.writelines(lines[:at] + [more] + lines[at:])
        self.all_of(*run, "--steps", "4")
        self.assertEqual([line["step"] for line in self.lines()], [1, 1, 2, 3, 3])
        self.assertEqual([row["step"] for row in self.table()], ["1", "1", "2", "3", "3"])

    def test_policies(self):
        """What is done where a step is not finite says nothing of evaluations and inferences."""
        for policy in ("continue", "stop", "skip"):
            self.all_of("--steps", "4", "--on-nonfinite", policy, "--eval-data", self.data, "--eval-every", "2", "--infer", self.path(policy + ".st"))
            self.agree()
            self.assertEqual(sum("eval_loss" in line for line in self.lines()), 2)
            self.assertEqual(safetensors.read(self.path(policy + ".st"))["model"].shape, (3, 8, 3))
            shutil.rmtree(self.path("events"))

    def test_refused(self):
        model = self.write("wide.json", json.dumps({**DOCUMENT, "metrics": {"wide": "reshape(tile(model, [200, 1]), [-1])"}}))
        self.assertIn("4096 columns at most", self.stepc("run", model, "--data", self.data, "--steps", "1", "--csv", self.path("w.csv"), code=1).stderr)
        self.assertIn("Not a directory", self.stepc("run", self.so, "--data", self.data, "--steps", "1", "--tensorboard", os.path.join(self.model, "x"), code=3).stderr)
        self.assertEqual(self.stepc("run", self.so, "--data", self.data, "--steps", "1", "--csv", self.data, code=2).returncode, 2)
        full = self.stepc("run", self.so, "--data", self.data, "--steps", "10", "--csv", "/dev/full", code=3)
        self.assertIn("--csv", full.stderr)

    def test_taken_away(self):
        """A file that another run replaces by its own is lost, and with it what this one says there."""
        for sink in ("--metrics", "--csv"):
            path = self.path("lines" + sink)
            p = subprocess.Popen([self.program, "run", self.so, "-q", "--data", self.data, "--steps", "1000000000", sink, path], stderr=subprocess.PIPE, text=True)
            while not os.path.exists(path):
                self.assertIsNone(p.poll())
            self.stepc("run", self.so, "-q", "--data", self.data, "--steps", "3", sink, path)
            p.send_signal(signal.SIGINT)
            self.assertEqual((p.communicate(timeout=60)[1], p.returncode), ("stepc: error: %s: %s was replaced or removed by another process: these lines are lost\n" % (sink, path), -signal.SIGINT))

    def test_names(self):
        """What is evaluated is called as the metric behind eval_: another metric of that name would be there twice."""
        model = self.write("model.json", {**DOCUMENT, "metrics": {"eval_loss": "max(model)"}})
        self.stepc("run", model, "-q", "--data", self.data, "--steps", "1")
        self.assertIn('"eval_loss" is what an evaluation gives of "loss"', self.stepc("run", model, "--data", self.data, "--steps", "1", "--eval-data", self.data, code=1).stderr)

    def test_losses_are_drawn(self):
        """On a terminal that is wide enough the progress line shows the losses so far."""
        data, shown = os.environ | {"LANG": "C.UTF-8", "TERM": "xterm"}, {}
        data.pop("LC_ALL", None)
        for columns in (100, 60, 40):
            above, below = pty.openpty()
            fcntl.ioctl(below, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
            p = subprocess.Popen([self.program, "run", self.so, "--data", self.data, "--steps", "400000"], stderr=below, stdin=subprocess.DEVNULL, env=data)
            os.close(below)
            text = b""
            try:
                while True:
                    text += os.read(above, 65536)
            except OSError:
                pass  # the other end is closed
            os.close(above)
            self.assertEqual(p.wait(), 0)
            shown[columns] = text.decode()
        self.assertRegex(shown[100], "loss [0-9.]+  [▁-█ ]{3,16}  [0-9.]+ steps/s")
        self.assertNotRegex(shown[60], "[▁-█]")
        lines = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line) for line in re.split("[\r\n]", shown[40]) if "/400000" in line]
        self.assertTrue(lines and max(map(len, lines)) < 40, lines[-1:])  # over itself, not line below line

    def test_tensorboard(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("tensorboard is not installed")
        run = ["--save-dir", self.path("run"), "--resume", "auto"]
        self.all_of(*run, "--steps", "4")
        self.all_of(*run, "--steps", "6")
        accumulator = EventAccumulator(self.path("events"))
        accumulator.Reload()
        self.assertEqual([(e.step, e.value) for e in accumulator.Scalars("loss")], [(line["step"], np.float32(line["loss"])) for line in self.lines()])


if __name__ == "__main__":
    runner.main()
