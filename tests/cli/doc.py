#!/usr/bin/env python3
"""The reference that `stepc doc` prints: every topic, and that every optimizer and schedule says its formula, its source,
its arguments and its state.

usage: doc.py STEPC
"""
import json
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner

TOPICS = ("document", "settings", "optimizers", "schedules", "losses", "structures", "layers", "adapters", "initializers", "expressions", "diagnostics")
SOURCE = re.compile(r"\([^()]*((19|20)\d\d|Optax|T5X|stepc)[^()]*\)$")


INPUTS = {"x": {"shape": [4, 8], "axes": ["batch", None]}, "y": {"shape": [4, 8], "axes": ["batch", None]}, "m": {"shape": [4, 4], "axes": ["batch", None]},
          "images": {"shape": [4, 8, 8, 3], "axes": ["batch", None, None, None]}, "i": {"shape": [4], "dtype": "int32", "axes": ["batch"]}}
LINEAR = {"type": "linear", "input": "x", "features": 8}
WITH_EXAMPLES = ("optimizers", "schedules", "losses", "structures", "layers", "adapters", "initializers", "expressions")
EVERY = int(os.environ.get("STEPC_EXAMPLES_EVERY", 1))  # of each topic's examples


def documents(topic, text):
    """Complete documents around an example; one of them compiles. Optimizers may refuse a vector, or be for single examples."""
    example = text if topic in ("losses", "expressions") else json.loads(text)
    doc = {"stepc": 1, "name": "example", "inputs": INPUTS, "model": LINEAR, "loss": "mean(model ** 2) + tree_norm(params)", "optimizer": {"type": "sgd", "learning_rate": 0.1}}
    if topic == "optimizers":
        return [dict(doc, optimizer=example), dict(doc, optimizer=example, model=dict(LINEAR, use_bias=False)),
                dict(doc, optimizer={"type": "identity"}, per_example={"transform": [example]})]
    if topic == "schedules":
        return [dict(doc, optimizer={"type": "sgd", "learning_rate": example})]
    if topic in ("layers", "structures"):
        return [dict(doc, model={"type": "sequential", "layers": [LINEAR, example]})]
    if topic == "initializers":
        return [dict(doc, model={"type": "param", "name": "w", "shape": [3, 3, 4, 4], "init": example})]
    if text.startswith("{") and topic == "losses":
        return [dict(doc, loss=json.loads(text))]
    if topic == "adapters":
        return [dict(doc, adapters=[example])]
    return [dict(doc, metrics={"example": "0.0 * len([%s])" % example})]


def run(*args):
    return runner.attempt(runner.Case.program, "doc", *args)


def entries(topic):
    """Name -> text of the entry."""
    parts = re.split(r"^## (\S+)\n", run(topic)[1], flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


class Doc(runner.Case):
    def test_topics(self):
        code, text, _ = run()
        self.assertEqual(code, 0)
        for topic in TOPICS:
            n = int(re.search(r"stepc doc %s .*: (\d+) entries" % topic, text).group(1))
            found = entries(topic)
            self.assertEqual(len(found), n, topic)
            name = sorted(found)[n // 2]
            self.assertEqual(run(topic, name)[1], "## %s\n%s" % (name, found[name]))

    def test_json(self):
        """The lists: of topics, of the entries of one, of what has a word."""
        told = json.loads(run("--json")[1])
        self.assertEqual((list(told)[0], told["schema"]), ("schema", 1))
        self.assertEqual(["%-12s  %s" % row for row in told["topics"].items()], [re.match(r"stepc doc (.*?)(: \d+ entries)?$", line).group(1) for line in run()[1].splitlines()])
        for topic in TOPICS:
            told = json.loads(run(topic, "--json")[1])
            self.assertEqual((told["schema"], told["topic"], list(told["entries"])), (1, topic, list(entries(topic))))
            self.assertTrue(all(told["entries"].values()), topic)
        self.assertEqual(json.loads(run("custom", "--json")[1])["text"], run("custom")[1])
        told = json.loads(run("clip_by_", "--json")[1])["matches"]
        self.assertEqual([(m["topic"], m["name"]) for m in told], [tuple(line.split()[:2]) for line in run("clip_by_")[1].splitlines()])
        self.assertIn('"betas" of other libraries', json.loads(run("betas", "--json")[1])["elsewhere"])
        self.assertEqual(json.loads(run("schema", "--json")[1]), json.loads(run("schema")[1]))
        for args in (("nothing_has_this", "--json"), ("optimizers", "adam", "--json"), ("--site", "x", "--json")):
            self.assertEqual(run(*args)[0], 2, args)

    def test_signatures(self):
        """Losses and functions say how they are called."""
        for topic in ("losses", "expressions"):
            for name, text in entries(topic).items():
                self.assertRegex(text, r"`%s\([^`]*\)`" % re.escape(name), topic)

    def test_search(self):
        code, text, _ = run("AdamW")
        self.assertEqual(code, 0)
        self.assertTrue(text.startswith("## adamw\n"), text[:80])
        self.assertIn("betas", run("betas")[1])
        self.assertRegex(run("betas")[1], r'"betas" of other libraries \(optimizer\): ')
        lines = run("momentum")[1].splitlines()
        self.assertTrue(any(re.match(r"optimizers +trace ", line) for line in lines), lines)
        words = run("clip_by_")[1].splitlines()
        self.assertTrue(all(line.split()[1].startswith("clip_by") for line in words[:2]), words)

    def test_site(self):
        """Every entry has its place, every link leads somewhere, nothing is fetched from elsewhere."""
        folder = self.path("site")
        self.assertEqual(run("--site", folder)[0], 0)
        self.assertEqual(run("optimizers", "--site", folder)[0], 2)  # there is no site of one topic
        pages = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                pages[name] = f.read()
        ids = {name: set(re.findall(r'<h\d id="([^"]*)"', text)) for name, text in pages.items()}
        for topic in TOPICS + ("cookbook",):
            for name in entries(topic):
                self.assertIn(name, ids[topic + ".html"], topic)
                self.assertIn('["%s","%s",' % (topic, name), pages["entries.js"])
        for name, text in pages.items():
            self.assertNotRegex(text, r'(?:src|href)="(?:https?:)?//|url\(|@import', name)
            for tag in ("p", "ul", "li", "pre", "table", "tr", "td", "code", "section", "div"):
                if name.endswith(".html"):
                    self.assertEqual(len(re.findall(r"<%s[ >]" % tag, text)), text.count("</%s>" % tag), "%s: %s" % (name, tag))
            for page, place in re.findall(r'(?:href|src)="([^"#]*)#?([^"]*)"', text) if name.endswith(".html") else []:
                self.assertIn(page or name, pages)
                self.assertTrue(not place or place in ids[page or name], "%s: %s#%s" % (name, page, place))

    def test_every_argument_means_something(self):
        for topic in TOPICS:
            for name, text in entries(topic).items():
                self.assertNotIn("(null)", text, "%s %s: an argument without a sentence in document/meanings.def" % (topic, name))
                self.assertNotRegex(text, r"(?m)^- `\w+`: *$|^\| `\w+` \|.*\| +\|$", topic + " " + name)
                if topic in ("losses", "expressions"):
                    self.assertRegex(text, r"(?m)^(?!- `)[^`\n].* .*$", "%s %s: what does it give?" % (topic, name))

    def test_examples(self):
        """Every entry has an example, it speaks of the entry, and it compiles."""
        path = self.path("example.json")
        for topic in WITH_EXAMPLES:
            for name, text in list(entries(topic).items())[::EVERY]:
                found = re.search(r"(?m)^Example:\n\n```\n(.*)\n```\n", text)
                self.assertTrue(found, "%s %s: no example" % (topic, name))
                self.assertRegex(found.group(1), r"\b%s\b" % re.escape(name))
                said = []
                for doc in documents(topic, found.group(1)):
                    with open(path, "w", encoding="utf-8") as f:
                        json.dump(doc, f)
                    code, _, error = runner.attempt(self.program, "check", path)
                    said.append(error or str(code))
                    if not code:
                        break
                else:
                    self.fail("%s %s: %s" % (topic, name, "\n".join(said)))

    def test_keys_of_losses_and_activations(self):
        """A key that is not quite one is answered with what the nearest one means."""
        path = self.path("key.json")
        doc = documents("losses", "0")[0]
        for change, says in [({"loss": {"type": "huber_loss", "predictions": "model", "targets": "y", "reduction": "mean", "delto": 1.0}}, '"delta" of loss "huber_loss": absolute error'),
                             ({"model": {"type": "sequential", "layers": [LINEAR, {"type": "leaky_relu", "negative_slop": 0.1}]}}, '"negative_slope" of activation "leaky_relu": slope below zero')]:
            with open(path, "w", encoding="utf-8") as f:
                json.dump(dict(doc, **change), f)
            code, _, error = runner.attempt(self.program, "check", path)
            self.assertEqual(code, 1)
            self.assertIn(says, error)

    def test_pages(self):
        for topic, page in (("custom", "optim/CUSTOM.md"), ("state", "optim/STATE.md"), ("microbatches", "step/MICROBATCHES.md"), ("inference", "step/INFERENCE.md")):
            path = os.path.join(ROOT, "frontend", page)
            with open(path, encoding="utf-8") as f:
                self.assertEqual(run(topic)[1], f.read())

    def test_mistakes(self):
        for args, says in [(("optimizers", "adamww"), 'did you mean "adamw"'),
                           (("schedules", "xyz"), 'no "xyz"'), (("xyzzy",), "nothing has the name"), (("adamww",), 'did you mean "adamw"'), (("optimizers", "adam", "x"), "one argument too many")]:
            code, out, error = run(*args)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(says, error)

    def test_adamw(self):
        text = run("optimizers", "adamw")[1]
        for part in ("(Loshchilov, Hutter 2019)", "`scale_by_adam -> add_decayed_weights -> scale_by_learning_rate`",
                     "| `learning_rate` | a number, a formula of `step` or a schedule | required |", "| `b1` | a number | `0.9` | at least 0 and less than 1 |",
                     "| `mask` | a pattern or an array of patterns or null | `null` |", "| `0.count` | int32 | scalar | - | - |",
                     "| `0.nu.<path>` | float32 | - | [n, m] | [m] |", '`0.mu.<path>` bfloat16 [n, m] [m]'):
            self.assertIn(part, text)

    def test_factored_state(self):
        text = run("optimizers", "scale_by_factored_rms")[1]
        self.assertIn("| `v_row.<path>` | float32 | - | [n] | [1] |", text)
        self.assertIn('With `"factored": false`', text)

    def test_blocks_say_what_they_do(self):
        for topic in ("settings", "structures", "layers"):
            for name, text in entries(topic).items():
                self.assertRegex(text, r"\A\n?[^|\n]+\.\n", topic + " " + name)

    def test_rows_are_complete(self):
        for topic in ("optimizers", "schedules"):
            found = entries(topic)
            for name, text in found.items():
                with self.subTest(topic + " " + name):
                    first = text.strip().split("\n")[0]
                    self.assertRegex(first, SOURCE, "no source: an author with a year, Optax or T5X, in parentheses at the end")
                    others = "|".join(n for n in found if n != name)
                    self.assertTrue("`" in first or "A chain: `" in text or "<- " in text or re.search(r"\b(%s)\b" % others, first) or "| an object | required" in text
                                    or "| an array | required" in text, "no formula (in backticks) and no chain: " + first)
                    self.assertNotIn("depends on the arguments", text, "doc_optimizers.c needs an example of an argument")


if __name__ == "__main__":
    runner.main()
