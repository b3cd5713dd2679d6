#!/usr/bin/env python3
"""`stepc lsp` as an editor uses it: diagnostics, hover, completion and shapes of a document that is being written, from a client of
plain JSON-RPC and, where it is installed, from pygls; messages that are damaged, and documents that are too much.

usage: lsp.py STEPC
"""
import json
import os
import select
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

URI = "file:///model.json"
MODEL = """{
  "stepc": 1,
  "inputs": {"x": {"shape": [8, 6], "axes": ["batch", null]}},
  "model": {"type": "sequential", "input": "x", "layers": [
    {"type": "linear", "features": 16},
    {"type": "relu"},
    {"type": "linear", "features": 3, "use_bias": false}
  ]},
  "loss": "mean(model**2)",
  "optimizer": {"type": "adam", "learning_rate": 0.01}
}
"""


class Client:
    """JSON-RPC over the pipes of a server."""

    def __init__(self, program, *options, opened=True):
        env = {**runner.environment(verify=False), "ASAN_OPTIONS": "detect_leaks=1"}
        self.process = subprocess.Popen([program, "lsp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        self.number, self.kept = 0, []
        if opened:
            self.capabilities = self.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})["result"]["capabilities"]
            self.notify("initialized", {})

    def write(self, body, length=None):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body) if length is None else length, body))
        self.process.stdin.flush()

    def send(self, **message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode())

    def notify(self, method, params):
        self.send(method=method, params=params)

    def read(self, timeout=120):
        if not self.process.stdout.peek(1) and not select.select([self.process.stdout], [], [], timeout)[0]:
            raise AssertionError("no answer")
        head = self.process.stdout.readline()
        assert head.startswith(b"Content-Length: "), head
        assert self.process.stdout.readline() == b"\r\n"
        message = json.loads(self.process.stdout.read(int(head.split(b":")[1])))
        assert message["jsonrpc"] == "2.0"
        return message

    def until(self, wanted):
        while True:
            message = self.read()
            if wanted(message):
                return message
            self.kept.append(message)

    def request(self, method, params):
        self.number += 1
        self.send(id=self.number, method=method, params=params)
        return self.until(lambda m: m.get("id") == self.number and "method" not in m)

    def diagnostics(self, version=None):
        wanted = lambda m: m.get("method") == "textDocument/publishDiagnostics" and version in (None, m["params"].get("version"))
        for message in self.kept:
            if wanted(message):
                self.kept.remove(message)
                return message["params"]["diagnostics"]
        return self.until(wanted)["params"]["diagnostics"]

    def open(self, text, uri=URI, version=1):
        self.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "json", "version": version, "text": text}})

    def change(self, text, version, uri=URI):
        self.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]})

    def end(self):
        """Its exit code, and what it said; with AddressSanitizer that nothing was leaked, too."""
        self.request("shutdown", None)
        self.notify("exit", None)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said.decode()


def place(text, mark="|"):
    """The text without the mark, and where it stood, in lines and UTF-16 units."""
    before, after = text.split(mark)
    line = before.count("\n")
    return before + after, {"line": line, "character": len(before.rsplit("\n", 1)[-1].encode("utf-16-le")) // 2}


def cut(text, r):
    """What a range of the protocol spans."""
    lines = text.split("\n")
    assert r["start"]["line"] == r["end"]["line"], r
    units = lines[r["start"]["line"]].encode("utf-16-le")
    return units[2 * r["start"]["character"]:2 * r["end"]["character"]].decode("utf-16-le")


class Lsp(runner.Case):
    def setUp(self):
        super().setUp()
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            if client.process.poll() is None:
                client.process.kill()
            client.process.communicate()
        super().tearDown()

    def client(self, *options, **more):
        self.clients.append(Client(self.program, *options, **more))
        return self.clients[-1]

    def at(self, client, method, text, **more):
        """The result of a request at the mark of a text."""
        text, position = place(text)
        client.open(text)
        return text, client.request("textDocument/" + method, {"textDocument": {"uri": URI}, "position": position, **more})["result"]

    def labels(self, client, text):
        return [item["label"] for item in self.at(client, "completion", text)[1]]

    def test_diagnostics(self):
        c = self.client()
        self.assertEqual(c.capabilities["textDocumentSync"], {"openClose": True, "change": 1})
        c.open(MODEL)
        self.assertEqual(c.diagnostics(1), [])
        wrong = MODEL.replace('"features": 16', '"//": "\U0001f600 \u00e9", "featuers": 16')
        c.change(wrong, 2)
        found = c.diagnostics(2)
        self.assertEqual([d["code"] for d in found], ["E0107"])
        self.assertEqual((cut(wrong, found[0]["range"]), found[0]["severity"], found[0]["source"]), ('"featuers"', 1, "stepc"))
        self.assertIn('did you mean "features"?', found[0]["message"])
        self.assertEqual(found[0]["data"], {"pointer": "/model/layers/0/featuers", "replacement": '"features"'})
        c.change(MODEL.replace('"mean(model**2)"', '"mean(model - x)"'), 3)  # of shapes, found by the frontend
        found = c.diagnostics(3)
        self.assertEqual(cut(MODEL.replace('"mean(model**2)"', '"mean(model - x)"'), found[0]["range"])[:5], "model", found)
        c.change(MODEL.replace('"mean(model**2)"', '"mean(x**2)"'), 4)  # found when it is differentiated
        self.assertEqual([d["code"] for d in c.diagnostics(4)], ["E0440"])
        c.change(MODEL[:150], 5)
        self.assertTrue(all(d["code"].startswith("E00") for d in c.diagnostics(5)))
        c.change(MODEL, 6)
        self.assertEqual(c.diagnostics(6), [])
        c.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        self.assertEqual(c.diagnostics(), [])
        self.assertEqual(c.end(), (0, ""))

    def test_no_characters(self):
        """A character 0 does not end the text, and half a pair of surrogates does not lose it; a pair and an escaped escape stay."""
        client = Client(self.program)
        client.open(MODEL)
        self.assertEqual(client.diagnostics(1), [])
        for version, (text, code) in enumerate(((MODEL + "\0 and more", "E0003"), (MODEL.replace("relu", "re\0lu"), "E0004"), (MODEL.replace("relu", "re\ud800lu"), "E0105"),
                                                (MODEL.replace('"loss"', '"//": "\\\\u0000 \U0001f600 \\udc00", "loss"'), "E0006"), (MODEL.replace('"loss"', '"//": "\\\\u0000 \U0001f600", "loss"'), None)), 2):
            body = {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": {"uri": URI, "version": version}, "contentChanges": [{"text": text}]}}
            client.write(json.dumps(body).encode())
            self.assertEqual([d["code"] for d in client.diagnostics(version)], [code] if code else [], text)
        self.assertEqual(client.end(), (0, ""))

    def test_same_as_check(self):
        """The messages are those of `stepc check`."""
        text = MODEL.replace('"loss"', '"los"').replace('"optimizer"', '"sed": 1, "optimizer"')
        with open(self.path("wrong.json"), "w", encoding="utf-8") as f:
            f.write(text)
        lines = [json.loads(line) for line in self.stepc("check", self.path("wrong.json"), "--diagnostics", "json", code=1).stderr.splitlines()]
        c = self.client()
        c.open(text)
        found = c.diagnostics(1)
        self.assertEqual(sorted((d["code"], d["data"].get("pointer")) for d in found), sorted((d["code"], d.get("pointer")) for d in lines))
        self.assertGreater(len(found), 1)
        self.assertEqual(c.end(), (0, ""))

    def test_hover(self):
        c = self.client()
        for marked, says in ((MODEL.replace('"learning_rate"', '"learn|ing_rate"'), "size of the step"), (MODEL.replace('"adam"', '"ad|am"'), ""), (MODEL.replace('"use_bias"', '|"use_bias"'), "bias"),
                             (MODEL.replace('"mean(', '"me|an('), "mean("), (MODEL.replace('"loss"', '"lo|ss"'), ""), (MODEL.replace("0.01", "0.0|1"), "size of the step")):
            with self.subTest(marked):
                text, found = self.at(c, "hover", marked)
                self.assertTrue(found, marked)
                self.assertIn(says, found["contents"]["value"].lower())
                self.assertGreater(len(found["contents"]["value"]), 10)
        self.assertIsNone(self.at(c, "hover", MODEL.replace('"loss"', '|  "loss"', 1).replace("|  ", " | "))[1])
        self.assertIsNone(self.at(c, "hover", MODEL.replace('"stepc"', '"no_su|ch_key"'))[1])
        self.assertEqual(c.end(), (0, ""))

    def test_completion(self):
        c = self.client()
        keys = self.labels(c, MODEL.replace('"learning_rate": 0.01', '"|'))
        self.assertIn("b1", keys)
        self.assertIn("learning_rate", keys)
        self.assertNotIn("type", keys)  # it is there
        self.assertNotIn("features", keys)
        layers = MODEL.replace('{"type": "relu"}', '{"type": |}')
        self.assertLessEqual({"linear", "conv", "relu", "sequential"}, set(self.labels(c, layers)))
        self.assertNotIn("adam", self.labels(c, layers))
        self.assertLessEqual({"adam", "sgd", "chain"}, set(self.labels(c, MODEL.replace('"adam"', '"|"'))))
        self.assertIn("cosine_decay_schedule", self.labels(c, MODEL.replace("0.01", '{"type": "|"}')))
        self.assertIn("softmax_cross_entropy", self.labels(c, MODEL.replace('"mean(model**2)"', '{"type": "s|"}')))
        self.assertEqual(set(self.labels(c, MODEL.replace("false", "|"))), {"true", "false"})
        self.assertIn("precision", self.labels(c, "{|"))
        self.assertIn("shape", self.labels(c, '{"inputs": {"x": {|'))
        defined = '{"define": {"mine": {"body": {}}}, "model": {"type": "|"'
        self.assertIn("mine", self.labels(c, defined))
        self.assertEqual(self.labels(c, "|"), [])
        text, items = self.at(c, "completion", MODEL.replace('"features": 16', '"fea|'))
        item = next(i for i in items if i["label"] == "features")
        self.assertEqual((cut(text, item["textEdit"]["range"]), item["textEdit"]["newText"]), ('"fea' + text.split('"fea')[1].split("\n")[0], '"features": '))
        self.assertTrue(item["documentation"])
        self.assertEqual(c.end(), (0, ""))

    def test_inlay_hints(self):
        c = self.client()
        c.open(MODEL)
        ask = lambda first, last: c.request("textDocument/inlayHint", {"textDocument": {"uri": URI}, "range": {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}})["result"]
        hints = ask(0, 100)
        lines = MODEL.split("\n")
        found = {(h["position"]["line"], lines[h["position"]["line"]][:h["position"]["character"]].strip()): h["label"] for h in hints}
        self.assertEqual(found, {(4, '{"type": "linear", "features": 16}'): "\u2192 float32[8, 16] \u00b7 112 parameters", (5, '{"type": "relu"}'): "\u2192 float32[8, 16]",
                                 (6, '{"type": "linear", "features": 3, "use_bias": false}'): "\u2192 float32[8, 3] \u00b7 48 parameters", (7, "]}"): "\u2192 float32[8, 3] \u00b7 160 parameters"})
        self.assertEqual([h["position"]["line"] for h in ask(5, 5)], [5])
        c.change(MODEL.replace("16", "16,"), 2)
        self.assertEqual(ask(0, 100), [])
        self.assertEqual(c.end(), (0, ""))

    def test_options(self):
        c = self.client("-D", "rows=4")
        c.open(MODEL.replace('"inputs"', '"constants": {"rows": 8},\n  "inputs"').replace("[8, 6]", '["$rows", 6]'))
        self.assertIn("float32[4, 16]", json.dumps(c.request("textDocument/inlayHint", {"textDocument": {"uri": URI}})["result"]))
        self.assertEqual(c.end(), (0, ""))

    def test_order(self):
        """What comes too early, too late or twice."""
        c = self.client(opened=False)
        self.assertEqual(c.request("textDocument/hover", {})["error"]["code"], -32002)
        c.open(MODEL)  # not heard
        c.request("initialize", {})
        self.assertEqual(c.request("initialize", {})["error"]["code"], -32600)
        self.assertEqual(c.request("textDocument/hover", {"textDocument": {"uri": URI}})["error"]["code"], -32602)
        self.assertEqual(c.request("textDocument/rename", {})["error"]["code"], -32601)
        c.notify("$/cancelRequest", {"id": 1})
        c.request("shutdown", None)
        self.assertEqual(c.request("textDocument/hover", {})["error"]["code"], -32600)
        c.notify("exit", None)
        self.assertEqual(c.process.wait(60), 0)
        early = self.client()
        early.notify("exit", None)
        self.assertEqual(early.process.wait(60), 1)
        left = self.client()
        left.open(MODEL.replace("relu", "rleu"))
        out, _ = left.process.communicate(timeout=120)  # what was opened is checked before it ends
        self.assertEqual((left.process.returncode, b"E0105" in out), (1, True))

    def test_damaged(self):
        """The server answers, or does not, and goes on."""
        c = self.client()
        hover = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "textDocument/hover", "params": {"textDocument": {"uri": URI}, "position": {"line": 1, "character": 4}}}).encode()
        alive = lambda: self.assertEqual(c.request("textDocument/completion", {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 1}})["result"][0]["kind"], 10)
        c.open(MODEL)
        for body in (b"", b"{", b"nonsense", b"[" * 100000, b"\xff\xfe", b'{"jsonrpc": "2.0", "id": 1, "method": "x', b"null", b"[]", b"1", b'{"id": {}, "method": "shutdown"}', b'{"id": 1}', b'{"method": 5}',
                     b'{"id": 1, "method": "' + b"x" * 100000 + b'"}'):
            with self.subTest(body[:20]):
                c.write(body)
                self.assertIn(c.until(lambda m: "error" in m)["error"]["code"], (-32700, -32600, -32601))
                alive()
        for method in "didOpen", "didChange", "didClose", "hover", "completion", "inlayHint":
            for params in (None, [], 5, {}, {"textDocument": 3}, {"textDocument": {"uri": 4}}, {"textDocument": {"uri": "file:///other"}}, {"textDocument": {"uri": URI, "text": 7}, "position": {"line": -1, "character": 0}},
                           {"textDocument": {"uri": URI}, "position": {"line": "a"}, "contentChanges": {"a": 3}}, {"textDocument": {"uri": URI}, "position": {"line": 1e300, "character": 1}, "contentChanges": [{"range": {}}]}):
                if method == "didClose" and isinstance(params, dict) and params.get("textDocument") not in (3, None) and params["textDocument"]["uri"] == URI:
                    continue
                c.notify("textDocument/" + method, params)
                if not method.startswith("did") and method != "inlayHint":
                    self.assertEqual(c.request("textDocument/" + method, params)["error"]["code"], -32602, (method, params))
        alive()
        self.assertTrue(any(m.get("method") == "window/showMessage" for m in c.kept))
        # Lengths: too small, too large (it takes the head of the next message with it), none, no number, too large for any message.
        c.write(hover, len(hover) - 10)
        self.assertEqual(c.until(lambda m: "error" in m)["error"]["code"], -32700)
        alive()
        c.write(hover, len(hover) + 30)
        c.process.stdin.write(hover + b"\r\n")
        for head in b"\r\n\r\n", b"Content-Length: x\r\n\r\n{}", b"Content-Length: -5\r\n\r\n", b"Content-Length: 99999999999999999999\r\n\r\n{}", b"Content-Length: 999999999\r\n\r\n{}", b"a" * 300000 + b"\r\n", b"\0\0\n":
            c.process.stdin.write(head)
            alive()
        # Places anywhere, and every beginning of a document.
        for line, character in (0, 0), (0, 10**9), (10**9, 0), (4294967295, 4294967295):
            for method in "hover", "completion":
                self.assertIn("result", c.request("textDocument/" + method, {"textDocument": {"uri": URI}, "position": {"line": line, "character": character}}))
        for end in range(0, len(MODEL), 7):
            c.open(MODEL[:end])
            line = MODEL[:end].count("\n")
            for method in "hover", "completion":
                c.request("textDocument/" + method, {"textDocument": {"uri": URI}, "position": {"line": line, "character": 10**6}})
        self.assertEqual(c.end(), (0, ""))

    def test_nonsense_texts(self):
        c = self.client()
        for version, text in enumerate(["", "[" * 200000, '{"a":' * 5000, "}" * 1000, '"', '"\\', "{" + "," * 5000, '{"model": {"type": "', '\r\r\n"', "\u2028\U0001f600" * 500, "module {", ";", '{"type"' * 300 + "[" * 300 + "]" * 300], 1):
            with self.subTest(text[:20]):
                c.open(text, version=version)
                for character in 0, 1, 150, 10**6:
                    for method in "hover", "completion":
                        self.assertIn("result", c.request("textDocument/" + method, {"textDocument": {"uri": URI}, "position": {"line": text.count("\n"), "character": character}}))
                self.assertTrue(c.diagnostics(version))
        self.assertEqual(c.end()[0], 0)

    def test_large(self):
        """A document beyond its limits, one that takes too long, and as many versions as one types: memory stays."""
        c = self.client("--timeout", "1", "--limit", "document=1MiB")
        c.open('{"x": "' + "a" * (2 << 20) + '"}')
        self.assertEqual(len(c.diagnostics(1)), 1)
        self.assertEqual(c.end(), (0, ""))
        long = {"type": "sequential", "input": "x", "layers": [{"type": "repeat", "count": 4096, "block": {"type": "linear", "features": 6}}] * 8}
        for options, says in (("--timeout", "1", "--limit", "values=100000000"), "--timeout: the time is over"), (("-D", "x"), "expected NAME=VALUE"):
            c = self.client(*options)
            c.open(json.dumps({**json.loads(MODEL), "model": long}))
            found = c.diagnostics(1)
            self.assertIn(says, found[0]["message"])
            self.assertEqual((len(found), found[0]["severity"]), (1, 2))
            self.assertEqual(c.request("textDocument/completion", {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 1}})["result"][0]["kind"], 10)
            self.assertEqual(c.end(), (0, ""))

        def resident():
            with open("/proc/%d/statm" % c.process.pid, encoding="ascii") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        c = self.client()
        sizes = []
        for turn in range(3):
            for k in range(60):
                c.change(MODEL + " " * 100000, k) if k % 20 else (c.open(MODEL), c.diagnostics())
                c.request("textDocument/completion", {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 1}})
            sizes.append(resident())
        if "asan" not in self.program:  # which keeps what was freed
            self.assertLess(sizes[2] - sizes[1], 3 << 20)
        self.assertEqual(c.end(), (0, ""))

    def test_pygls(self):
        try:
            import asyncio
            from lsprotocol import types
            from pygls.lsp.client import BaseLanguageClient
        except ImportError:
            self.skipTest("pygls is not installed")

        async def session():
            client, published = BaseLanguageClient("test", "1"), asyncio.Queue()
            client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: published.put_nowait(params))
            await client.start_io(self.program, "lsp")
            known = await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
            self.assertEqual(known.capabilities.position_encoding, "utf-16")
            client.initialized(types.InitializedParams())
            here, wrong = types.TextDocumentIdentifier(URI), MODEL.replace("relu", "rleu")
            client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(URI, "json", 1, wrong)))
            found = await asyncio.wait_for(published.get(), 120)
            self.assertEqual([(d.code, d.range.start.line, d.severity) for d in found.diagnostics], [("E0105", 5, types.DiagnosticSeverity.Error)])
            client.text_document_did_change(types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(version=2, uri=URI), [types.TextDocumentContentChangeWholeDocument(MODEL)]))
            self.assertEqual(list((await asyncio.wait_for(published.get(), 120)).diagnostics), [])
            at = lambda text: types.Position(**place(text)[1])
            hover = await client.text_document_hover_async(types.HoverParams(here, at(MODEL.replace("learning", "lear|ning"))))
            self.assertIn("size of the step", hover.contents.value)
            items = await client.text_document_completion_async(types.CompletionParams(here, at(MODEL.replace("adam", "ad|am"))))
            self.assertIn("adamw", [i.label for i in items])
            hints = await client.text_document_inlay_hint_async(types.InlayHintParams(here, types.Range(types.Position(0, 0), types.Position(99, 0))))
            self.assertEqual([h.label for h in hints][:1], ["\u2192 float32[8, 3] \u00b7 160 parameters"])
            await client.shutdown_async(None)
            client.exit(None)
            await asyncio.wait_for(client._server.wait(), 60)
            self.assertEqual(client._server.returncode, 0)
            await client.stop()

        asyncio.run(session())


if __name__ == "__main__":
    runner.main()
