#!/usr/bin/env python3
"""`stepc explain --html, --svg, --dot`: what they show is what the report and the document say; the page needs nothing else, and its
script runs in a browser, where there is one.

    tests/cli/page.py STEPC
"""
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

GRAPH = {
    "stepc": 1, "name": "a <graph> & \"more\"", "inputs": {"x": {"shape": [256, 64], "axes": ["batch", None]}, "y": {"shape": [256, 3], "axes": ["batch", None]}},
    "define": {"twice": {"params": {"n": 64}, "body": {"type": "residual", "layers": [{"type": "linear", "features": "$n", "name": "in</script>ner"}, {"type": "relu"}]}}},
    "model": {"type": "graph", "nodes": [
        {"name": "a", "type": "twice", "input": "x"}, {"name": "b", "type": "twice", "input": "a"},
        {"name": "c", "type": "linear", "features": 3, "input": "a + b * 2"}, {"name": "d", "type": "linear", "features": 3, "input": "y"}], "output": "c + d"},
    "loss": "mean((model - y)**2)", "optimizer": {"type": "adam", "learning_rate": 0.01}}


class Page(runner.Case):
    def report(self, model):
        return json.loads(self.stepc("explain", model, "--json").stdout)

    def saved(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def test_outline(self):
        """Blocks in the order of the computation, with what they give and read; parameters are all of the document's."""
        layers = self.report(self.write("graph.json", GRAPH))["layers"]
        self.assertEqual([(b["path"], b["type"], b["parent"]) for b in layers],
                         [("", "graph", -1), ("a", "twice", 0), ("a", "residual", 1), ("a.in</script>ner", "linear", 2), ("a.layers.1", "relu", 2),
                          ("b", "twice", 0), ("b", "residual", 5), ("b.in</script>ner", "linear", 6), ("b.layers.1", "relu", 6), ("c", "linear", 0), ("d", "linear", 0)])
        self.assertEqual([b["from"] for b in layers], [[9, 10], [], ["x", 4], ["x"], [3], [], [2, 8], [2], [7], [2, 6], ["y"]])
        self.assertEqual([b["shape"] for b in layers], [[256, 3]] + 8 * [[256, 64]] + 2 * [[256, 3]])

    def test_templates(self):
        """The last block gives what the model gives; whatever is in the arena lies within it and at no time on something else."""
        for name in ("mlp", "cnn", "gpt2", "llama", "lora", "microbatches"):
            model = self.write(name + ".json", self.stepc("init", name).stdout)
            report = self.report(model)
            given = [t for t in report["tensors"] if t["role"] == "output" and t["name"] == "model"]
            if given and name != "microbatches":
                self.assertEqual((report["layers"][0]["dtype"], report["layers"][0]["shape"]), (given[0]["dtype"], given[0]["shape"]))
            step = next(e for e in report["entries"] if e["name"] == "step")
            self.assertEqual(max(b["offset"] + b["bytes"] for b in step["buffers"]) <= step["memory"]["arena"], True)
            alive = [sum(b["bytes"] for b in step["buffers"] if b["first"] <= c <= b["last"]) for c in range(max(b["last"] for b in step["buffers"]) + 1)]
            self.assertEqual((max(alive), alive[step["peak"]["command"]]), (step["peak"]["bytes"], step["peak"]["bytes"]))
            self.stepc("explain", model, "--svg", self.path("m.svg"), "--dot", self.path("m.dot"))
            texts = [e.text for e in xml.fromstring(self.saved("m.svg")).iter("{http://www.w3.org/2000/svg}text")]
            trained = sum(eval("*".join(map(str, t["shape"])) or "1") for t in report["tensors"] if t["role"] == "param")
            self.assertIn("{:,} parameters".format(trained), texts)
            self.assertEqual(self.saved("m.dot").count(" -> "), sum(len(b["from"]) for b in report["layers"]))
            if shutil.which("dot"):
                subprocess.run(["dot", "-Tsvg", self.path("m.dot"), "-o", self.path("dot.svg")], check=True, timeout=120)

    def test_page(self):
        model, so = self.write("graph.json", GRAPH), self.path("step.so")
        self.stepc("compile", model, "-o", so)
        bench = self.write("bench.json", self.stepc("bench", so, "--rounds", "7", "--by", "kernel", "--json").stdout)
        for what, more in ((model, ()), (model, ("--bench", bench)), (so, ("--bench", bench)), (model, ("--mesh", "data=2"))):
            done = self.stepc("explain", what, "--html", self.path("page.html"), *more)
            self.assertEqual(done.stdout, "")
            page = self.saved("page.html")
            self.assertEqual(set(re.findall(r"\w+://[^\"' )]*", page)), {"http://www.w3.org/2000/svg"})
            self.assertEqual(page.count("</script>"), 1)
            self.assertIn("<title>a &lt;graph&gt; &amp; &quot;more&quot;</title>", page)
            self.assertNotRegex(page, "@[A-Z]+@")
            data = json.loads(re.search(r"const R=(.*);\n", page).group(1))
            self.assertEqual(len(data["layers"]), 11)
            self.assertEqual("null" == re.search(r"const B=(.*?);\n", page, re.S).group(1), "--bench" not in more)
            self.in_a_browser(page, more)

    def in_a_browser(self, page, more):
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if not browser:
            return print("skipped: no chromium is installed: the page was not opened")
        watch = "<script>addEventListener('error',e=>document.documentElement.setAttribute('data-error',e.message))</script>"
        whole = """<script>for(const t of document.querySelectorAll('main svg text')){const b=t.getBBox(),v=t.ownerSVGElement.viewBox.baseVal;
            if(b.y<-1||b.y+b.height>v.height+1||b.x<-1||b.x+b.width>v.width+1)document.documentElement.setAttribute('data-error','cut off: '+t.textContent);}</script>"""
        # In a narrow window a list that is too wide may be scrolled, the page and the numbers of blocks are not cut off.
        narrow = """<script>const cut=document.documentElement.scrollWidth>innerWidth?['the page']:[...document.querySelectorAll('.row .n,.leaf .n')]
            .filter(e=>e.getBoundingClientRect().right>innerWidth).map(e=>e.textContent);if(cut.length)document.documentElement.setAttribute('data-error','cut off: '+cut);</script>"""
        probe = self.write("probe.html", page.replace("<main>", watch + "<main>").replace("</body>", whole + narrow + "</body>"))
        for width in (500, 1200):
            done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=%d,800" % width, "--user-data-dir=" + self.path("browser"), "--dump-dom",
                                   "file://" + probe], capture_output=True, text=True, timeout=120)
            self.assertNotRegex(done.stdout, "<html[^>]*data-error")
        found = re.findall('<section id="(.*?)">', done.stdout)
        wanted = ["model", "memory", "kernels", *(["roofline"] if "--bench" in more else []), "time", *(["collectives"] if "collectives" in found else []), "tensors", "document"]
        self.assertEqual(found, wanted)
        body = done.stdout.split("<main>")[1].split("<script>")[0]
        self.assertNotRegex(body, "NaN|undefined|\\[object")
        self.assertIn("float32[256, 64] \u00b7 4,160 parameters \u00b7 used 2 times", re.sub("<.*?>", "", body))

    def test_lists_too(self):
        model = self.write("graph.json", GRAPH)
        self.assertIn("peak", self.stepc("explain", model, "--svg", self.path("m.svg"), "--memory").stdout)
        self.assertIn("layers", json.loads(self.stepc("explain", model, "--html", self.path("p.html"), "--json").stdout))
        sir = self.path("m.sir")
        self.stepc("compile", model, "--stop-after", "autodiff", "-o", sir)
        self.stepc("explain", sir, "--html", self.path("p.html"), "--dot", self.path("m.dot"))  # a text of IR has no blocks
        self.assertIn("const R=", self.saved("p.html"))

    def test_refused(self):
        model, other = self.write("graph.json", GRAPH), self.write("other.json", '{"objects": [{"name": "other", "seconds": {}}], "machine": {}}')
        for arguments, code, says in [(("--bench", other), 2, "needs --html"), (("--html", self.path("p.html"), "--bench", other), 1, 'measured "other"'),
                                      (("--html", self.path("p.html"), "--bench", model), 1, "expected what `stepc bench"), (("--html", model), 2, model),
                                      (("--html", "/proc/none/x.html"), 3, "/proc/none")]:
            self.assertIn(says, self.stepc("explain", model, *arguments, code=code).stderr)


if __name__ == "__main__":
    runner.main()
