#!/usr/bin/env python3
"""`stepc plot`: curves of what runs wrote, in a terminal, as SVG and as a page. What cannot be drawn is said.

    tests/cli/plot.py STEPC
"""
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner, safetensors

ASCII, UTF8 = {"LANG": "C", "LC_ALL": "", "TERM": "xterm"}, {"LANG": "C.UTF-8", "LC_ALL": "", "TERM": "xterm"}


def lines(count, **more):
    return "".join(json.dumps({"step": i, "loss": 1 / i, **{k: f(i) for k, f in more.items()}}) + "\n" for i in range(1, count + 1))


class Plot(runner.Case):
    def plot(self, *arguments, code=0, env=ASCII):
        return self.stepc("plot", *arguments, code=code, env={**os.environ, **env})

    def test_terminal(self):
        """A straight line is one, its axes say from where to where, a sign for each of several curves."""
        path = self.write("m.jsonl", "".join('{"step": %d, "loss": %d}\n' % (i, i) for i in range(0, 11)))
        shown = self.plot(path).stdout.splitlines()
        drawn = [(x, y) for y, line in enumerate(shown) for x, c in enumerate(line) if c == "*"]
        self.assertEqual(len({x for x, _ in drawn}), 75)  # every column between the axis and the border has its part of it
        self.assertEqual((drawn[0][1], drawn[-1][1]), (1, 16))  # the end is on top, the beginning below
        self.assertEqual([line.split()[0] for line in shown if re.match(r" *\d+ \+", line)], ["10", "8", "6", "4", "2", "0"])
        self.assertEqual(shown[-2].split(), ["0", "2", "4", "6", "8", "10"])
        self.assertEqual(shown[-1].strip(), "step of m.jsonl: 10 at 10")
        braille = self.plot(path, env=UTF8).stdout
        self.assertRegex(braille, "[⠁-⣿]")
        self.assertNotIn("\033", braille)  # no terminal
        two = self.plot(path, "-y", "loss,step", "--color", "always").stdout
        self.assertIn("\033[38;5;33m*\033[0m loss: 10 at 10", two)
        self.assertIn("\033[38;5;208mx\033[0m step: 10 at 10", two)

    def test_choice(self):
        """loss and, where there is one, eval_loss; -x, -y; several files."""
        a = self.write("a.jsonl", lines(40, eval_loss=lambda i: 2 / i if i % 10 == 0 else "NaN", acc=lambda i: i / 40, rows=lambda i: [1, 2]))
        b = self.write("b.jsonl", lines(20))
        done = self.plot(a)
        self.assertIn("36 of 40 values of eval_loss are not drawn", done.stderr)
        self.assertIn("x eval_loss: 0.05 at 40", done.stdout)
        self.assertIn("x b.jsonl: 0.05 at 20", self.plot(a, b, "-y", "loss").stdout)
        os.mkdir(self.path("a"))
        shutil.copy(a, self.path("a/a.jsonl"))  # of one name in two folders
        self.assertEqual(re.findall(r"(?m)^ *[*x] (\S+): 0.025 at 40$", self.plot("a.jsonl", "a/a.jsonl", "-y", "loss").stdout), ["a.jsonl", "a/a.jsonl"])
        self.assertIn("loss of a.jsonl: 1 at 0.025", self.plot(a, "-x", "loss", "-y", "acc").stdout)
        mean = sum(0.5**k / (20 - k) for k in range(20)) / sum(0.5**k for k in range(20))
        self.assertIn("%.6g at 20" % mean, self.plot(b, "--smooth", "0.5").stdout)
        for arguments, code, says in [((a, "-y", "los"), 1, 'did you mean "loss"?; there are step, loss, eval_loss, acc, rows'), ((b, "-x", "time"), 1, 'no metric "time"'),
                                      ((a, "-y", "rows"), 1, "is an array"), ((a, "--smooth", "1"), 2, "below 1"), ((a, "-o", "a.png"), 2, ".svg or .html"),
                                      (("none.jsonl",), 3, "No such file"), ((a, "-o", a), 2, a), ((self.write("e.jsonl", ""),), 1, "no line of metrics"),
                                      ((self.write("t.jsonl", '{"step": 1}\nno\n{"step": 2}\n'),), 1, "t.jsonl:2: no JSON object"),
                                      ((self.write("n.jsonl", '{"step": 1, "loss": "NaN"}\n'),), 1, "nothing to draw"),
                                      ((self.write("h.jsonl", '{"step": 1, "loss": 1e308}\n{"step": 2, "loss": -1e308}\n'),), 1, "2 of 2 values of loss are not drawn: not finite, or beyond 1e300"),
                                      ((self.write("l.jsonl", '{"step": 1e308, "loss": 1}\n'), "--log", "x"), 1, "beyond 1e300"),
                                      ((self.write("z.jsonl", '{"step": 1, "loss": 0}\n'), "--log", "y"), 1, "nothing to draw"),
                                      ((self.write("w.csv", "step,loss\n1,2\n2,x\n"),), 1, 'w.csv:3: column 2: expected a number, found "x"'),
                                      ((self.write("v.csv", "step,loss\n1,2,3\n"),), 1, "no more columns")]:
            self.assertIn(says, self.plot(*arguments, code=code).stderr)

    def test_torn_and_tables(self):
        """The line that a killed run did not end does not count; a table gives the same curves."""
        path, text = self.path("m.jsonl"), lines(30, acc=lambda i: -i)
        self.write("m.jsonl", text + '{"step": 31, "lo')
        torn = self.plot(path)
        self.assertIn("at 30", torn.stdout)
        self.assertIn("m.jsonl:31: the last line is not ended: it is left out", torn.stderr)
        self.write("m.jsonl", text[:-1])  # whole, but for its end
        self.assertEqual(self.plot(path), (0, torn.stdout, ""))
        zeros = self.write("zeros.jsonl", text + "\0" * 8 + "\n" + text)  # after a power cut
        self.assertIn("bytes of value 0", self.plot(zeros, code=1).stderr)
        rows = [json.loads(line) for line in text.splitlines()]
        table = self.write("m.csv", 'step,"odd, ""name""",loss\r\n' + "".join("%r,,%r\r\n" % (r["step"], r["loss"]) for r in rows))
        self.assertEqual(self.plot(path).stdout.replace("m.jsonl", "m.csv"), self.plot(table).stdout)
        self.write("w.csv", 'step,"an ""odd"" name"\n1,2\n2,4\n')
        self.assertIn("4 at 2", self.plot(self.path("w.csv"), "-y", 'an "odd" name').stdout)

    def test_line_breaks(self):
        """A table of our own whose names have some, which stand in quotes."""
        name = 'two\nlines, "odd"\r\n'
        document = {"stepc": 1, "name": "small", "inputs": {"x": {"shape": [8, 4]}}, "model": {"type": "linear", "features": 3, "input": "x"}, "loss": "mean(model**2)",
                    "metrics": {name: "mean(model)", "last": "max(model)"}, "optimizer": {"type": "sgd", "learning_rate": 0.1}}
        safetensors.write(self.path("x.safetensors"), {"x": np.ones((1, 8, 4), np.float32)})
        run = ("run", self.write("m.json", json.dumps(document)), "-q", "--data", self.path("x.safetensors"), "--csv", self.path("m.csv"), "--metrics", self.path("m.jsonl"))
        self.stepc(*run, "--steps", "3", "--save-dir", self.path("saved"))
        self.stepc(*run, "--steps", "5", "--save-dir", self.path("saved"), "--resume", "auto")
        for y in ("loss", "last", "step"):
            self.assertEqual(self.plot(self.path("m.csv"), "-y", y).stdout, self.plot(self.path("m.jsonl"), "-y", y).stdout.replace("m.jsonl", "m.csv"))
        with open(self.path("m.csv"), newline="") as f:
            text = f.read()
        self.write("torn.csv", text[:-3])
        self.assertIn("torn.csv:8: the last line is not ended", self.plot(self.path("torn.csv")).stderr)
        self.write("wrong.csv", text + "6,x\n")
        self.assertIn('wrong.csv:9: column 2: expected a number, found "x"', self.plot(self.path("wrong.csv"), code=1).stderr)
        self.write("open.csv", '"step,loss\n1,2\n')
        self.assertIn("open.csv:1: the last line is not ended", self.plot(self.path("open.csv"), code=1).stderr)

    def test_axes(self):
        """Ends of axes: one point, one value, very large and very small ones, logarithms; there are always two numbers or more."""
        for name, values in {"point": [3], "constant": [2, 2, 2], "zero": [0, 0], "small": [1e-30, 3e-30], "large": [1e30, 1.5e30], "signs": [-1e-3, 1e3], "subnormal": [5e-324], "as good as zero": [-1e-310, 1e-320],
                             "near": [1, 1 + 1e-12], "last digit": [1, 1 + 2**-52], "last digit of a power": [1e300, 9.999999999999998e299], "ends": [-1e300, 1e300], "negative": [-5, -4], "wide": [1e-300, 1e300]}.items():
            path = self.write(name + ".jsonl", "".join('{"step": %d, "loss": %r}\n' % (i + 1, v) for i, v in enumerate(values)))
            for log in ([], ["--log", "xy"]) if min(values) >= 1e-300 else ([],):
                done = self.plot(path, *log)
                self.assertGreaterEqual(len(re.findall(r"(?m)^ *\S+ \+", done.stdout)), 1 if name in ("near", "last digit of a power") else 2, name + done.stdout)
                self.assertIn("*", done.stdout)
                self.assertEqual(self.plot(path, *log, "-o", self.path("x.svg")).stderr, "")
                places = [float(v) for v in re.findall(r"[-\d.]+", " ".join(re.findall(r'points="([^"]*)"', self.saved("x.svg"))))]
                self.assertTrue(places and all(0 <= v <= 960 for v in places), (name, log, places))

    def saved(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def test_pictures(self):
        """Well formed, nothing from elsewhere, the same bytes again, names that are markup are text."""
        path = self.write("a<b>&.jsonl", lines(5000, eval_loss=lambda i: 2 / i))
        odd = os.path.join(os.fsencode(self.folder), b"\x01\xff.jsonl")
        with open(odd, "w") as f:
            f.write(lines(3))
        self.plot(os.fsdecode(odd), "-o", self.path("odd.svg"))  # what is no character is shown as one
        self.assertIn("of \ufffd\ufffd.jsonl", xml.parse(self.path("odd.svg")).getroot().get("aria-label"))
        self.assertIn("2 of 2 values of loss are not drawn", self.plot(self.write("least.jsonl", lines(2).replace("1.0", "5e-324").replace("0.5", "1e-301")), "--log", "y", code=1).stderr)
        for end in ("svg", "html"):
            self.plot(path, "--smooth", "0.9", "--log", "y", "-o", self.path("one." + end))
            self.plot(path, "--smooth", "0.9", "--log", "y", "-o", self.path("two." + end))
            text = self.saved("one." + end)
            self.assertEqual(text, self.saved("two." + end))
            self.assertEqual(set(re.findall(r"\w+://[^\"' ]*", text)), {"http://www.w3.org/2000/svg"})
            self.assertNotIn("<b>", text)
            self.assertIn("prefers-color-scheme:dark", text)
        drawing = xml.fromstring(self.saved("one.svg"))
        curves = [e.get("points").split() for e in drawing.iter("{http://www.w3.org/2000/svg}polyline")]
        self.assertEqual(len(curves), 4)  # two, and their values
        self.assertTrue(all(100 < len(c) < 5000 for c in curves))
        self.assertEqual(len({e.get("class") for e in drawing.iter("{http://www.w3.org/2000/svg}polyline")}), 4)
        self.assertLess(os.path.getsize(self.path("one.svg")), 200000)

    def test_page_in_a_browser(self):
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if not browser:
            self.skipTest("no chromium is installed")
        self.plot(self.write("m.jsonl", lines(300, eval_loss=lambda i: 2 / i)), "-o", self.path("m.html"))
        probe = self.saved("m.html").replace("</body>", "<script>svg.dispatchEvent(new PointerEvent('pointermove',{clientX:svg.getBoundingClientRect().right-30}))</script></body>")
        done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + self.path("browser"), "--dump-dom", "file://" + self.write("probe.html", probe)],
                              capture_output=True, text=True, timeout=120)
        self.assertRegex(done.stdout, r'<div id="at">loss: 0.003\d* at step 2\d\d\neval_loss: 0.00\d* at step 2\d\d<')


if __name__ == "__main__":
    runner.main()
