#!/usr/bin/env python3
"""samples/import/hf.py on tiny models that transformers saved: the logits and the loss are those that it computed (recorded), all
tensors go out as they came in, a text is learnt, and what is not covered is refused by name. `stepc checkpoint export --hf` writes the
same tensors as hf.py, `stepc checkpoint import --hf` reads the same, and what is written of the templates computes what they compute.

usage: hugging_face.py STEPC
"""
import itertools
import json
import os
import shutil
import sys

import numpy as np

from hf_case import HERE, KNOWN, MODELS, HfCase, begin, compiled, run  # first: it says where the others are
import hf
import stepc
import tensors
from refused import REFUSED
from tool import runner


class HuggingFace(HfCase):
    bare = False  # files without the names of the model with its head

    def test_logits_and_steps(self):
        """Logits and loss, and, where they were recorded, losses of three steps of PyTorch's AdamW and the logits after them."""
        for name in MODELS:
            with self.subTest(name):
                source = os.path.join(HERE, "models", name)
                expected = tensors.open_model(os.path.join(source, "expected.safetensors"))
                self.assertEqual(run("import", source, "-o", self.folder, "--batch", "2", "--length", "12"), (0, ""))
                with open(self.path("model.json")) as f:
                    document = json.load(f)
                runner.write_json(self.path("model.json"), {**document, "optimizer": {"type": "adamw", "learning_rate": 0.01, "eps": 1e-3, "weight_decay": 0.1}})
                with stepc.Step(compiled(self.folder)) as m:
                    begin(m, self.folder)
                    tokens = expected.array("tokens")
                    np.testing.assert_allclose(m.infer(tokens=tokens), expected.array("logits"), rtol=1e-4, atol=2e-5)
                    self.assertAlmostEqual(m.eval(tokens=tokens).loss, float(expected.array("loss")[0]), delta=1e-5)
                    if "losses" in expected.where:
                        batches = expected.array("batches")
                        np.testing.assert_allclose([m.step(tokens=batch).loss for batch in batches], expected.array("losses"), rtol=1e-5)
                        np.testing.assert_allclose(m.infer(tokens=batches[0]), expected.array("after"), rtol=1e-4, atol=2e-4)

    def test_out_as_it_came(self):
        for name in MODELS:
            with self.subTest(name):
                source, back = os.path.join(HERE, "models", name), os.path.join(self.folder, "back")
                shutil.rmtree(back, ignore_errors=True)
                self.assertEqual(run("import", source, "-o", self.folder), (0, ""))
                self.assertEqual(run("export", source, os.path.join(self.folder, "init.safetensors"), "-o", back), (0, ""))
                self.equal_files(source, back)

    def test_dropout(self):
        """Rates of configurations are layers of the document: no evaluation sees them, steps do."""
        for name, rates in (("llama", ["attention_dropout"]), ("phi", ["attention_dropout", "resid_pdrop", "embd_pdrop"]), ("gpt_neox", ["hidden_dropout"]), ("stablelm", ["hidden_dropout"]),
                            ("starcoder2", ["residual_dropout", "attention_dropout"])):
            for rate in rates:
                with self.subTest(name + " " + rate):
                    expected = tensors.open_model(os.path.join(HERE, "models", name, "expected.safetensors"))
                    with stepc.Step(self.imported(self.copy(name, **{rate: 0.5}), "--batch", "2", "--length", "12")) as m:
                        begin(m, self.folder)
                        tokens = expected.array("tokens")
                        np.testing.assert_allclose(m.infer(tokens=tokens), expected.array("logits"), rtol=1e-4, atol=2e-5)
                        self.assertGreater(abs(m.step(tokens=tokens).loss - float(expected.array("loss")[0])), 1e-3)

    def test_names(self):
        """Rules of equal layers are one; the configuration comes along, but for the dtype of what is written."""
        self.assertEqual(run("import", os.path.join(HERE, "models", "stablelm_parallel"), "-o", self.folder), (0, ""))
        with open(self.path("names.json")) as f:
            names = json.load(f)
        self.assertEqual(names["tensors"]["model.layers.*.self_attn.o_proj.weight"], {"from": "layers.*.self_attn.o_proj.kernel", "inputs": 2, "transpose": True})
        self.assertEqual(names["tensors"]["model.layers.*.self_attn.q_layernorm.norms.2.weight"], "layers.*.self_attn.q_layernorm.norms.2.scale")
        self.assertEqual(names["tied"], {"lm_head.weight": "model.embed_tokens.weight"})
        self.assertEqual((names["config"]["model_type"], "dtype" in names["config"]), ("stablelm", False))

    def names(self, name):
        """How the program is told of a model's names: by the family's, where it has a table, or by the importer's."""
        kind = name.split("_")[0]
        return ("--hf", kind) if kind in KNOWN and not self.bare else ("--names", self.path("names.json"))

    def by_program(self, source, names, like="model.json", code=0):
        """`stepc checkpoint import`: its tensors, or what it said."""
        shutil.rmtree(self.path("runs"), ignore_errors=True)
        names = ("--hf", names) if type(names) is str else names
        p = self.stepc("checkpoint", "import", source, *names, "--like", like, "-o", self.path("runs"), code=code)
        return p.stderr if code else tensors.open_model(self.path("runs/step-0/params.safetensors"))

    def test_by_the_program(self):
        """stepc checkpoint import makes the same tensors of the same files, for a document and for its object, which trains from them."""
        for name in MODELS:
            with self.subTest(name):
                source = os.path.join(HERE, "models", name)
                self.assertEqual(run("import", source, "-o", self.folder, "--batch", "2", "--length", "12"), (0, ""))
                want = tensors.open_model(self.path("init.safetensors"))
                for names in {self.names(name), ("--names", self.path("names.json"))}:
                    like = compiled(self.folder) if "--hf" in names else "model.json"
                    got = self.by_program(source, names, like)
                    self.assertEqual(got.names(), want.names())
                    for n in want.names():
                        self.assertEqual((got.dtype(n), got.shape(n), got.array(n).tobytes()), (want.dtype(n), want.shape(n), want.array(n).tobytes()), n)
        expected, step = tensors.open_model(os.path.join(source, "expected.safetensors")), compiled(self.folder)
        shutil.rmtree(self.path("runs"), ignore_errors=True)
        self.stepc("checkpoint", "import", source, *self.names(name), "--like", step, "-o", self.path("runs"))
        tensors.write(self.path("tokens.safetensors"), [("tokens", "I32", (1, 2, 12), lambda: expected.array("tokens").reshape(1, 2, 12))])
        self.stepc("run", step, "--init", self.path("runs"), "--params-only", "--infer", self.path("out.safetensors"), "--infer-data", self.path("tokens.safetensors"))
        out = tensors.open_model(self.path("out.safetensors"))
        np.testing.assert_allclose(out.array(out.names()[0])[0], expected.array("logits"), rtol=1e-4, atol=2e-5)

    def test_refused_by_the_program(self):
        self.imported(os.path.join(HERE, "models", "llama"))
        for changes, says in (({}, "tell rms_norm_eps 1e-06, max_position_embeddings 64: see that"), ({"model_type": "gemma", "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}},
                              'model_type "gemma", rms_norm_eps 1e-06, max_position_embeddings 64, rope_parameters {"rope_theta":500000.0,"rope_type":"default"}: see that')):
            shutil.rmtree(self.path("runs"), ignore_errors=True)
            self.assertIn(says, self.stepc("checkpoint", "import", self.copy("llama", **changes), "--hf", "llama", "--like", "model.json", "-o", self.path("runs")).stderr)
        source = self.copy("gpt2")
        self.assertEqual(run("import", source, "-o", self.folder), (0, ""))
        path = os.path.join(source, "config.json")
        with open(path) as f:
            config = json.load(f)
        for key, value, code, says in (("n_head", 3 * config["n_head"], 1, '"n_head" is %d; the model of --like has %d' % (3 * config["n_head"], config["n_head"])),
                                       ("layer_norm_epsilon", 0.25, 0, "shapes do not tell layer_norm_epsilon 0.25, "), ("model_type", "other", 0, 'shapes do not tell model_type "other", '),
                                       ("scale_attn_by_inverse_layer_idx", True, 0, ", scale_attn_by_inverse_layer_idx true: see that")):
            with open(path, "w") as f:
                json.dump(dict(config, **{key: value}), f)
            shutil.rmtree(self.path("runs"), ignore_errors=True)
            self.assertIn(says, self.stepc("checkpoint", "import", source, "--hf", "gpt2", "--like", "model.json", "-o", self.path("runs"), code=code).stderr)
        with open(path, "w") as f:
            json.dump(config, f)
        whole = tensors.open_model(source)
        entries = {n: (n, whole.dtype(n), whole.shape(n), lambda n=n: whole.array(n)) for n in whole.names()}
        table, first = entries["transformer.wte.weight"], "transformer.h.0.attn.c_attn.weight"
        wrong = (first, "F32", (12, 24), lambda: np.zeros((12, 24), "f4"))
        for change, says in (({"lm_head.weight": ("lm_head.weight",) + table[1:]}, None), ({"transformer.h.1.attn.bias": ("transformer.h.1.attn.bias", "U8", (1, 1, 4, 4), lambda: np.ones((1, 1, 4, 4)))}, None),
                             ({"lm_head.weight": ("lm_head.weight", "F32", table[2], lambda: np.ones(table[2], "f4"))}, '"lm_head.weight" is not equal to "transformer.wte.weight"'),
                             ({first: None}, '"h.0.attn.%s.kernel" needs "transformer.h.0.attn.c_attn.weight", which is not there'), ({first: wrong}, "[12, 36] is needed"),
                             ({"transformer.more": ("transformer.more", "F32", (1,), lambda: np.zeros(1, "f4"))}, '"transformer.more" is no tensor of the model: it would be left out')):
            tensors.write(os.path.join(source, "model.safetensors"), [e for e in {**entries, **change}.values() if e])
            said = self.by_program(source, "gpt2", code=0 if says is None else 1)
            if says:
                self.assertTrue(any(says.replace("%s", part) in said for part in ("query", "key", "value")), said)
        self.assertIn("no tensor there is", self.by_program(source, "llama", code=1))
        with open(self.path("model.json")) as f:  # what adapters add is none of it
            document = json.load(f)
        self.write("lora.json", dict(document, adapters=[{"type": "lora", "match": ["**.mlp.*"], "rank": 2}]))
        tensors.write(os.path.join(source, "model.safetensors"), list(entries.values()))
        self.assertEqual(self.by_program(source, "gpt2", "lora.json").names(), self.by_program(source, "gpt2").names())
        for args, says in ((("--hf", "gpt2"), "--like MODEL.json or STEP.SO says"), (("--like", "model.json"), "--like goes with"), (("-D", "batch=2"), "--define goes with"), (("--hf", "gpt2", "--like", "model.json", "--dtype", "float16"), "are those of --like")):
            self.assertIn(says, self.stepc("checkpoint", "import", source, *args, "-o", self.path("runs"), code=2).stderr)
        self.assertIn("--peft is for export", self.stepc("checkpoint", "ls", self.path("runs"), "--peft", code=2).stderr)

    def test_through_an_object(self):
        """A step that changes nothing in between: the weights still come back bit for bit, out of the averages too."""
        source, back = os.path.join(HERE, "models", "llama_bands"), os.path.join(self.folder, "back")
        self.assertEqual(run("import", source, "-o", self.folder, "--batch", "2", "--length", "12", "--learning-rate", "0"), (0, ""))
        path = os.path.join(self.folder, "model.json")
        with open(path) as f:
            document = json.load(f)
        document["ema"] = {"decay": 0.5}
        with open(path, "w") as f:
            json.dump(document, f)
        step, data, saved = compiled(self.folder), os.path.join(self.folder, "data.safetensors"), os.path.join(self.folder, "saved.safetensors")
        tensors.write(data, [("tokens", "I32", (1, 2, 12), lambda: np.arange(24).reshape(1, 2, 12))])
        self.stepc("run", step, "--steps", "2", "--data", data, "--init", os.path.join(self.folder, "init.safetensors"), "--save", saved)
        for weights in ("params", "ema"):
            shutil.rmtree(back, ignore_errors=True)
            self.assertEqual(run("export", source, saved, "-o", back, "--weights", weights), (0, ""))
            self.equal_files(source, back)

    def test_parts_prefixes_and_buffers(self):
        """The file of the bare model, as the published GPT-2 has it: no prefix, masks as buffers, a copy of the tied head; in two parts."""
        source = self.copy("gpt2")
        whole = tensors.open_model(source)
        entries = [(n.removeprefix("transformer."), whole.dtype(n), whole.shape(n), lambda n=n: whole.array(n)) for n in whole.names()]
        entries.append(("h.0.attn.bias", "U8", (1, 1, 4, 4), lambda: np.tril(np.ones((1, 1, 4, 4)))))
        table = [e for e in entries if e[0] == "wte.weight"][0]
        entries.append(("lm_head.weight",) + table[1:])
        parts, index = {"model-00001-of-00002.safetensors": entries[:9], "model-00002-of-00002.safetensors": entries[9:]}, {}
        for name, part in parts.items():
            tensors.write(os.path.join(source, name), part, {"format": "pt"})
            index.update({e[0]: name for e in part})
        with open(os.path.join(source, "model.safetensors.index.json"), "w") as f:
            json.dump({"metadata": {}, "weight_map": index}, f)
        os.remove(os.path.join(source, "model.safetensors"))
        back = os.path.join(self.folder, "back")
        self.assertEqual(run("import", source, "-o", self.folder), (0, ""))
        self.assertEqual(run("export", source, os.path.join(self.folder, "init.safetensors"), "-o", back), (0, ""))
        self.equal_files(source, back)
        self.assertEqual(tensors.open_model(back).files[0].metadata, {"format": "pt"})
        got, want = self.by_program(source, "gpt2"), tensors.open_model(self.path("init.safetensors"))
        self.assertEqual([(n, got.array(n).tobytes()) for n in got.names()], [(n, want.array(n).tobytes()) for n in want.names()])

    def test_a_head_by_another_name(self):
        source, back = self.copy("gpt_neox"), os.path.join(self.folder, "back")
        whole = tensors.open_model(source)
        self.assertIn("embed_out.weight", whole.where)
        tensors.write(os.path.join(source, "other"), [(n.replace("embed_out", "lm_head"), whole.dtype(n), whole.shape(n), lambda n=n: whole.array(n)) for n in whole.names()])
        os.replace(os.path.join(source, "other"), os.path.join(source, "model.safetensors"))
        self.assertEqual(run("import", source, "-o", self.folder), (0, ""))
        self.assertEqual(run("export", source, self.path("init.safetensors"), "-o", back), (0, ""))
        self.equal_files(source, back)

    def test_old_rope_keys(self):
        """rope_theta and rope_scaling beside each other, as transformers wrote them before version 5, make the same document."""
        documents = []
        for changes in ({}, {"rope_parameters": "absent", "rope_theta": 1000.0, "rope_scaling": {"type": "linear", "factor": 2.5}}):
            self.assertEqual(run("import", self.copy("llama_linear", **changes), "-o", self.folder), (0, ""))
            with open(os.path.join(self.folder, "model.json")) as f:
                documents.append(json.load(f))
        self.assertEqual(*documents)

    def test_learns_a_text(self):
        with open(os.path.join(HERE, "../../samples", "shakespeare", "tinyshakespeare.txt"), "rb") as f:
            text = np.frombuffer(f.read(200000), np.uint8)
        letters, text = np.unique(text, return_inverse=True)
        for name, vocabulary in (("gpt2", "vocab_size"), ("llama", "vocab_size")):
            with self.subTest(name):
                source = self.copy(name, **{vocabulary: len(letters)})
                whole, random = tensors.open_model(source), np.random.default_rng(0)
                old = whole.shape("transformer.wte.weight" if name == "gpt2" else "model.embed_tokens.weight")[0]
                entries = []
                for n in whole.names():
                    shape = tuple(len(letters) if i == 0 and d == old else d for i, d in enumerate(whole.shape(n)))
                    value = random.standard_normal(shape) * 0.1 if len(shape) > 1 else whole.array(n).copy()
                    entries.append((n, "F32", shape, lambda value=value: value))
                tensors.write(os.path.join(source, "model.safetensors"), entries)
                step = self.imported(source, "--batch", "8", "--length", "16", "--learning-rate", "0.01")
                with stepc.Step(step) as m:
                    begin(m, self.folder)
                    losses = []
                    for _ in range(150):
                        at = random.integers(0, len(text) - 16, 8)
                        losses.append(m.step(tokens=np.stack([text[i:i + 16] for i in at]).astype(np.int32)).loss)
                self.assertLess(np.mean(losses[-20:]), np.mean(losses[:5]) - 0.8)

    def adapted(self, name, **more):
        """The imported model with the recorded adapters of PEFT beside its layers: an object, the tensors of both, what PEFT computed."""
        source = os.path.join(HERE, "models", name)
        self.assertEqual(run("import", source, "-o", self.folder, "--batch", "2", "--length", "12"), (0, ""))
        recorded, init = tensors.open_model(os.path.join(source, "adapters.safetensors")), tensors.open_model(os.path.join(self.folder, "init.safetensors"))
        kind, c = hf.read_config(source)
        parts = {n: w.parts for n, w in hf.table_of(kind.weights(c), hf.prefix_of(tensors.open_model(source), c), c).items()}
        values = {}
        for n in recorded.names():
            if not n.endswith(".lora_A"):
                continue
            a, b = recorded.array(n), recorded.array(n[:-1] + "B")
            [(path, shape)] = parts[n.removesuffix(".lora_A") + ".weight"]
            split = next(i for i in range(len(shape)) if np.prod(shape[:i], dtype=int) == a.shape[1])
            layer = path.removesuffix(".kernel")
            values[layer + ".lora_a"] = a.T.reshape(*shape[:split], -1)
            values[layer + ".lora_b"] = b.T.reshape(-1, *shape[split:])
        with open(os.path.join(self.folder, "model.json")) as f:
            document = json.load(f)
        document.update(adapters=[{"type": "lora", "rank": len(b.T), "match": sorted({n.rpartition(".")[0] for n in values})}], trainable=["@lora"], **more)
        with open(os.path.join(self.folder, "model.json"), "w") as f:
            json.dump(document, f)
        return compiled(self.folder), {n: init.array(n) for n in init.names()}, values, recorded

    def test_adapters(self):
        """They compute what PEFT computes, and the merged model that goes out computes it too, without them."""
        for name in MODELS:
            source, back, saved = os.path.join(HERE, "models", name), os.path.join(self.folder, "back"), os.path.join(self.folder, "saved.safetensors")
            if not os.path.exists(os.path.join(source, "adapters.safetensors")):
                continue
            with self.subTest(name):
                step, init, values, recorded = self.adapted(name, ema={"decay": 0.0})
                tokens = tensors.open_model(os.path.join(source, "expected.safetensors")).array("tokens")
                with stepc.Step(step) as m:
                    m.load(os.path.join(self.folder, "init.safetensors"))  # a base: its adapters are as init left them
                    self.assertTrue(all((m[n] == 0).all() for n in values if n.endswith("lora_b")))
                    for n, value in values.items():
                        m[n] = value
                    np.testing.assert_allclose(m.infer(tokens=tokens), recorded.array("logits"), rtol=1e-4, atol=1e-4)
                    m.save(saved)
                shutil.rmtree(back, ignore_errors=True)
                code, said = run("export", source, saved, "-o", back, "--weights", "params")
                self.assertRegex(said, r"\Ahf.py: note: adapters are merged into \d+ kernels; --peft writes them alone\n\Z")
                before, after = tensors.open_model(source), tensors.open_model(back)
                changed = {n for n in before.names() if before.array(n).tobytes() != after.array(n).tobytes()}
                self.assertEqual(changed, {n.replace(".lora_A", ".weight") for n in recorded.names() if n.endswith(".lora_A")})
                self.assertEqual(run("import", back, "-o", self.folder, "--batch", "2", "--length", "12"), (0, ""))
                with stepc.Step(compiled(self.folder)) as m:
                    begin(m, self.folder)
                    coarse = 0.05 if name.endswith("bfloat16") else 1e-4  # the file's dtype
                    np.testing.assert_allclose(m.infer(tokens=tokens), recorded.array("logits"), rtol=1e-4, atol=coarse)

    def with_peft(self, source, adapter):
        """A folder of PEFT comes in; what one lora_A there is several of here is said."""
        code, said = run("import", source, "--peft", adapter, "-o", self.folder, "--batch", "2", "--length", "12")
        fused = sorted({n.split(".lora_")[0] for n in tensors.open_model(os.path.join(adapter, "adapter_model.safetensors")).names() if ".c_attn." in n})
        self.assertEqual(code, 0, said)
        self.assertEqual(["\"%s\"" % n.removeprefix("base_model.model.") for n in fused], said.strip().split(" for all: ")[1].split(", ") if said else [])

    def through_peft(self, source, saved, tokens):
        """The adapters as a folder of PEFT, imported again: its logits."""
        adapter = os.path.join(self.folder, "adapter")
        shutil.rmtree(adapter, ignore_errors=True)
        self.assertEqual(run("export", source, saved, "-o", adapter, "--peft"), (0, ""))
        return self.through(adapter, source, tokens)

    def through(self, adapter, source, tokens):
        self.with_peft(source, adapter)
        with stepc.Step(compiled(self.folder)) as m:
            m.load(os.path.join(self.folder, "init.safetensors"))
            return m.infer(tokens=tokens)

    def test_peft_folders(self):
        """Scaled adapters, some of them of one fused product: out as PEFT's folder and in again they compute what the object did, and
        so does the merged model; by the real PEFT where it is installed."""
        try:
            import peft
            import torch
            import transformers
        except ImportError as e:
            peft = None
            print("skipped: the folder is not read by the real PEFT (%s)" % e)
        for name, match in (("gpt2", ["h.0.attn.{query,value}", "**.c_fc"]), ("llama", ["layers.*.self_attn.q_proj", "**.down_proj"])):
            with self.subTest(name):
                source, saved, back = os.path.join(HERE, "models", name), os.path.join(self.folder, "saved.safetensors"), os.path.join(self.folder, "back")
                shutil.rmtree(back, ignore_errors=True)
                self.assertEqual(run("import", source, "-o", self.folder, "--batch", "2", "--length", "12"), (0, ""))
                path = os.path.join(self.folder, "model.json")
                with open(path) as f:
                    document = json.load(f)
                document.update(trainable=["@lora"], optimizer={"type": "sgd", "learning_rate": 0.5}, adapters=[
                    {"type": "lora", "rank": 3, "alpha": 6, "match": match[:1], "b_initializer": {"type": "normal", "stddev": 0.3}},
                    {"type": "lora", "rank": 4, "alpha": 4, "rslora": True, "match": match[1:], "b_initializer": {"type": "normal", "stddev": 0.3}}])
                with open(path, "w") as f:
                    json.dump(document, f)
                tokens = tensors.open_model(os.path.join(source, "expected.safetensors")).array("tokens")
                with stepc.Step(compiled(self.folder)) as m:
                    m.load(os.path.join(self.folder, "init.safetensors"))
                    m.step(tokens=tokens)
                    logits = m.infer(tokens=tokens)
                    m.save(saved)
                file = tensors.open_model(saved)
                self.assertEqual(sorted({float(file.array(n)) for n in file.names() if n.endswith("lora_s")}), [2.0, 2.0] if len(match) == 1 else [2.0])
                again = self.through_peft(source, saved, tokens)
                np.testing.assert_allclose(again, logits, rtol=1e-5, atol=1e-5)
                code, said = run("export", source, saved, "-o", back)
                self.assertRegex(said, "merged into")
                self.assertEqual(run("import", back, "-o", self.folder, "--batch", "2", "--length", "12"), (0, ""))
                with stepc.Step(compiled(self.folder)) as m:
                    begin(m, self.folder)
                    np.testing.assert_allclose(m.infer(tokens=tokens), logits, rtol=1e-4, atol=1e-4)
                if peft is None:
                    continue
                shutil.rmtree(os.path.join(self.folder, "runs"), ignore_errors=True)
                runner.call(self.program, "checkpoint", "import", saved, "-o", os.path.join(self.folder, "runs"))
                runner.call(self.program, "checkpoint", "export", os.path.join(self.folder, "runs"), "--hf", name, "--peft", "-o", os.path.join(self.folder, "adapter-" + name))
                for folder in ("adapter", "adapter-" + name):
                    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
                    model = peft.PeftModel.from_pretrained(model, os.path.join(self.folder, folder)).eval()
                    with torch.no_grad():
                        theirs = model(torch.tensor(np.asarray(tokens, np.int64))).logits.numpy()
                        np.testing.assert_allclose(theirs, logits, rtol=1e-4, atol=1e-4)
                # The other way: what PEFT writes of adapters of its own, with random weights.
                model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
                modules = ["c_attn", "c_proj"] if name == "gpt2" else ["q_proj", "v_proj", "gate_proj"]
                model = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_alpha=5, use_rslora=True, target_modules=modules, rank_pattern={modules[1]: 3},
                                                                   lora_dropout=0.1, fan_in_fan_out=name == "gpt2", init_lora_weights=False)).eval()
                theirs_folder = os.path.join(self.folder, "theirs")
                model.save_pretrained(theirs_folder)
                with torch.no_grad():
                    theirs = model(torch.tensor(np.asarray(tokens, np.int64))).logits.numpy()
                self.with_peft(source, theirs_folder)
                with stepc.Step(compiled(self.folder)) as m:
                    m.load(os.path.join(self.folder, "init.safetensors"))
                    np.testing.assert_allclose(m.infer(tokens=tokens), theirs, rtol=1e-4, atol=1e-4)

    def begun(self, adapter, name, tokens, *says):
        """What the program computes of the document in the folder with adapters of PEFT; or, with `says`, how it refuses them."""
        base, out, data = (os.path.join(self.folder, n + ".safetensors") for n in ("base", "out", "tokens"))
        init = tensors.open_model(os.path.join(self.folder, "init.safetensors"))
        tensors.write(base, [(n, init.dtype(n), init.shape(n), lambda n=n: init.array(n)) for n in init.names() if ".lora_" not in n])
        tensors.write(data, [("tokens", "I32", (1,) + tokens.shape, lambda: tokens[None])])
        code, _, said = runner.attempt(self.program, "run", compiled(self.folder), "--init", base, "--peft", adapter, *self.names(name), "--infer", out, "--infer-data", data)
        for part in says:
            self.assertIn(part, said)
        self.assertEqual(code, 1 if says else 0, said)
        if not says:
            self.assertEqual("trained otherwise than one for all: \"transformer.h.0.attn.c_attn\", " in said, name == "gpt2", said)
        return None if says else tensors.open_model(out).array("model").reshape(-1)

    def test_peft_by_the_program(self):
        """`run --peft` computes what PEFT did with folders that it wrote (recorded), `checkpoint export --peft` writes what hf.py writes."""
        for name, self.bare in itertools.product(("gpt2", "llama", "phi3"), (False, True)):
            source, theirs, saved = os.path.join(HERE, "models", name), os.path.join(HERE, "peft", name), os.path.join(self.folder, "saved.safetensors")
            if self.bare:  # as files of the model without its head are called, which PEFT's names do not follow
                source = self.copy(name, architectures=None)
                whole = tensors.open_model(source)
                tensors.write(os.path.join(source, "model.safetensors"), [(n.removeprefix("transformer.").removeprefix("model."), whole.dtype(n), whole.shape(n), lambda n=n: whole.array(n)) for n in whole.names()])
            recorded = tensors.open_model(os.path.join(theirs, "expected.safetensors"))
            tokens, logits = recorded.array("tokens"), recorded.array("logits")
            self.with_peft(source, theirs)
            np.testing.assert_allclose(self.begun(theirs, name, tokens), logits.reshape(-1), rtol=1e-4, atol=1e-4)
            path, steps = os.path.join(self.folder, "model.json"), os.path.join(self.folder, "averages.safetensors")
            with open(path, encoding="utf-8") as f:
                document = json.load(f)
            runner.write_json(path, {**document, "ema": {"decay": 0.5}, "optimizer": {"type": "schedule_free_sgd", "learning_rate": 0.0}})
            data = os.path.join(self.folder, "tokens.safetensors")
            runner.call(self.program, "run", compiled(self.folder), "--init", os.path.join(self.folder, "base.safetensors"), "--peft", theirs, *self.names(name), "--steps", "1", "--data", data, "--save", steps, "--all-state")
            state = tensors.open_model(steps)  # what follows from parameters follows from the adapters that were given
            adapters = [n for n in state.names() if n.startswith("ema.") and ".lora_" in n]
            self.assertTrue(adapters)
            for n in adapters:
                np.testing.assert_allclose(state.array(n), state.array(n[4:]), rtol=1e-6, err_msg=n)
                np.testing.assert_allclose(state.array("opt_state.z." + n[4:]), state.array(n[4:]), rtol=1e-6, err_msg=n)
            runner.write_json(path, document)
            with stepc.Step(compiled(self.folder)) as m:
                m.load(os.path.join(self.folder, "init.safetensors"))
                m.save(saved)
            folders = [os.path.join(self.folder, n) for n in ("by_hf", "by_stepc")]
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
            self.assertEqual(run("export", source, saved, "-o", folders[0], "--peft"), (0, ""))
            shutil.rmtree(os.path.join(self.folder, "runs"), ignore_errors=True)
            runner.call(self.program, "checkpoint", "import", saved, "-o", os.path.join(self.folder, "runs"))
            runner.call(self.program, "checkpoint", "export", os.path.join(self.folder, "runs"), *self.names(name), "--peft", "-o", folders[1])
            a, b = (tensors.open_model(os.path.join(f, "adapter_model.safetensors")) for f in folders)
            self.assertEqual(a.names(), b.names())
            for n in a.names():
                np.testing.assert_array_equal(a.array(n), b.array(n), n)
            configs = []
            for folder in folders:
                with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as f:
                    configs.append(json.load(f))
                if "--hf" in self.names(name):  # the table of a family is made of no folder
                    configs[-1]["base_model_name_or_path"] = None
            self.assertTrue(configs[0]["base_model_name_or_path"] == os.path.abspath(source) or "--hf" in self.names(name))
            self.assertEqual(sorted(configs[0].pop("target_modules")), sorted(configs[1].pop("target_modules")))
            np.testing.assert_allclose(self.through(folders[1], source, tokens), logits, rtol=1e-4, atol=1e-4)
            first = sorted(n[len("base_model.model."):-len(".lora_A.weight")] for n in a.names() if "lora_A" in n)
            full = [{m: (c["rank_pattern"].get(m, c["r"]), c["alpha_pattern"].get(m, c["lora_alpha"])) for m in first} for c in configs]
            self.assertEqual(*full)
            self.assertEqual(*[{k: v for k, v in c.items() if k not in ("r", "lora_alpha", "rank_pattern", "alpha_pattern")} for c in configs])

    def test_peft_alone(self):
        """What was trained beside the adapters is not lost without a word: by what the optimizer keeps, or by the model it came from."""
        source, saved = os.path.join(HERE, "models", "llama"), os.path.join(self.folder, "saved.safetensors")
        self.assertEqual(run("import", source, "-o", self.folder, "--batch", "2", "--length", "12"), (0, ""))
        path, runs, out = (os.path.join(self.folder, n) for n in ("model.json", "runs", "adapter"))
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        tensors.write(os.path.join(self.folder, "tokens.safetensors"), [("tokens", "I32", (1, 2, 12), lambda: np.arange(24, dtype=np.int32).reshape(1, 2, 12) % 7)])
        document["adapters"] = [{"type": "lora", "rank": 2, "match": ["**.q_proj"]}]
        for trainable, optimizer, lost in ((["@lora"], "adam", None), (["@lora", "**.scale"], "adam", "input_layernorm.scale\" (and 4 more) changed"), (["@lora", "norm.**"], "adam", "\"norm.scale\" changed"),
                                           (["@lora", "norm.**"], "sgd", "\"norm.scale\" changed"), (["@lora"], "sgd", None),
                                           (["@lora", "norm.**"], ["@lora"], "\"norm.scale\" changed")):
            with self.subTest(trainable=trainable, optimizer=optimizer):
                by = {"type": optimizer, "learning_rate": 0.1}
                if isinstance(optimizer, list):  # SGD, which keeps nothing, beside Adam
                    by = {"type": "partition", "transforms": {"a": {"type": "adam", "learning_rate": 0.1}, "b": {"type": "sgd", "learning_rate": 0.1}}, "param_labels": {"**.lora_*": "a", "**": "b"}}
                runner.write_json(path, {**document, "trainable": trainable, "optimizer": by, "ema": {"decay": 0.5}})
                for folder in (runs, out):
                    shutil.rmtree(folder, ignore_errors=True)
                runner.call(self.program, "run", compiled(self.folder), "--init", os.path.join(self.folder, "init.safetensors"), "--init-partial", "--steps", "2", "--data", os.path.join(self.folder, "tokens.safetensors"),
                            "--save", saved, "--save-dir", runs)
                copy = os.path.join(self.folder, "converted")
                shutil.rmtree(copy, ignore_errors=True)
                runner.call(self.program, "checkpoint", "convert", runs, "-o", copy)
                for of, more in ((runs, ()), (runs, ("--ema",)), (copy, ())):
                    code, _, said = runner.attempt(self.program, "checkpoint", "export", of, "--hf", "llama", *more, "--peft", "-o", out + "".join(more))
                    self.assertEqual(code, int(bool(lost)), said)
                    self.assertIn(lost or "", said)
                    self.assertTrue(lost or not said)
                    shutil.rmtree(out + "".join(more), ignore_errors=True)
                runner.call(self.program, "checkpoint", "export", runs, "--hf", "llama", "--peft=adapters", "-o", out)
                self.assertEqual(len(tensors.open_model(os.path.join(out, "adapter_model.safetensors")).names()), 4)
                code, said = run("export", source, saved, "-o", out, "--peft", "--weights", "params")
                self.assertEqual(("it would be lost" in said, code), (bool(lost), int(bool(lost))))
                self.assertEqual(run("export", source, saved, "-o", out, "--peft", "--adapters-alone", "--weights", "params"), (0, ""))

    def test_peft_refusals(self):
        """What a folder of PEFT holds and the document has no place for, or the other way round, by name and with the row that fits."""
        theirs, broken = os.path.join(HERE, "peft", "llama"), os.path.join(self.folder, "broken")
        tokens = tensors.open_model(os.path.join(theirs, "expected.safetensors")).array("tokens")
        source = os.path.join(HERE, "models", "llama")
        self.with_peft(source, theirs)
        weights, path = tensors.open_model(os.path.join(theirs, "adapter_model.safetensors")), os.path.join(self.folder, "model.json")
        with open(os.path.join(theirs, "adapter_config.json"), encoding="utf-8") as f:
            config = json.load(f)
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        q = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
        arrays = {n: weights.array(n) for n in weights.names()}
        for change, entries, says in (({"use_dora": True}, {}, ["\"use_dora\": true is not supported"]), ({"peft_type": "IA3"}, {}, ["\"peft_type\": \"IA3\""]), ({"r": 4}, {}, ["no adapter of the rank"]),
                                      *(({key: value}, {}, ["\"%s\": " % key, "is not supported"]) for key, value in (("alpha_pattern", [1]), ("alpha_pattern", {"a": "b"}), ("rank_pattern", 3), ("use_rslora", "true"), ("lora_alpha", -1), ("peft_type", None))),
                                      ({}, {q + "A.weight": arrays[q + "A.weight"].astype("i4")}, ["q_proj.lora_A.weight\" holds no floats"]),
                                      ({"alpha_pattern": {"layers.[\\d].self_attn.q_proj": 9}}, {}, ["is a pattern that is not read here"]),
                                      ({}, {q + "B.weight": arrays[q + "B.weight"][:1]}, ["gives 1 numbers, the layer 16"]),
                                      ({}, {q + "B.weight": None}, ["lacks", "q_proj.lora_B"]), ({}, {q + "A.weight": None}, ["q_proj.lora_B.weight\" is not used"]),
                                      ({}, {q + "A.weight": None, q + "B.weight": None}, ["nothing for \"layers.0.self_attn.q_proj.lora_a\""]),
                                      ({}, {"base_model.model.model.other.lora_A.weight": arrays[q + "A.weight"]}, ["stands beside no layer"]),
                                      ({}, {q + "magnitude_vector": arrays[q + "A.weight"]}, ["magnitude_vector\" is not used"])):
            with self.subTest(change or sorted(entries)):
                shutil.rmtree(broken, ignore_errors=True)
                os.mkdir(broken)
                new = {n: v for n, v in {**arrays, **entries}.items() if v is not None}
                tensors.write(os.path.join(broken, "adapter_model.safetensors"), [(n, "I32" if v.dtype.kind == "i" else "F32", v.shape, lambda v=v: v) for n, v in sorted(new.items())])
                runner.write_json(os.path.join(broken, "adapter_config.json"), {**config, **change})
                self.begun(broken, "llama", tokens, *says)
        for adapters, says in ((document["adapters"][:1], ["has no adapters", '"type": "lora", "rank":']), ([{**document["adapters"][0], "rank": 5}] + document["adapters"][1:], ["of rank 5", '"rank": ']),
                               ([{k: v for k, v in a.items() if k not in ("alpha", "rslora")} for a in document["adapters"]], ["times", '"alpha": '])):
            runner.write_json(path, {**document, "adapters": adapters})
            self.begun(theirs, "llama", tokens, *says)
        for arguments, says in ((["--peft", theirs], "--peft needs --hf"), (["--hf", "llama"], "go with --peft"), (["--init", theirs], "--peft")):
            code, _, said = runner.attempt(self.program, "run", path, *arguments, "--steps", "1", "--data", os.path.join(self.folder, "tokens.safetensors"))
            self.assertIn(code, (1, 2))
            self.assertIn(says, said)

    def test_peft_base_layers(self):
        """The model's own weight beside an adapter, as PEFT writes that of a head, says nothing new; another one would be lost."""
        for name, layer in ("llama", "model.layers.0.self_attn.q_proj"), ("gpt2", "transformer.h.1.attn.c_attn"):
            source, adapter = os.path.join(HERE, "models", name), shutil.copytree(os.path.join(HERE, "peft", name), os.path.join(self.folder, "peft-" + name))
            weights, recorded = tensors.open_model(os.path.join(HERE, "peft", name, "adapter_model.safetensors")), tensors.open_model(os.path.join(adapter, "expected.safetensors"))
            own, tokens = tensors.open_model(source).array(layer + ".weight"), recorded.array("tokens")
            for base, says in ((own, ""), (own + np.eye(*own.shape, dtype="f4"), "\"base_model.model.%s.base_layer.weight\" is not the \"%s.weight\" of the model" % (layer, layer))):
                arrays = {**{n: weights.array(n) for n in weights.names()}, "base_model.model.%s.base_layer.weight" % layer: base}
                tensors.write(os.path.join(adapter, "adapter_model.safetensors"), [(n, "F32", v.shape, lambda v=v: v) for n, v in sorted(arrays.items())])
                code, said = run("import", source, "--peft", adapter, "-o", self.folder, "--batch", "2", "--length", "12")
                self.assertEqual(code, 1 if says else 0, said)
                self.assertIn(says, said)
                found = self.begun(adapter, name, tokens, *([says] if says else []))
                if not says:
                    np.testing.assert_allclose(found, recorded.array("logits").reshape(-1), rtol=1e-4, atol=1e-4)

    def test_nothing_is_lost(self):
        """What a file holds and the model has no place for, by name; which of several sets of weights is said."""
        source, saved = os.path.join(HERE, "models", "llama"), os.path.join(self.folder, "saved.safetensors")
        _, init, values, _ = self.adapted("llama")
        state = {"step": np.array(3, np.int32), "opt_state.1.0.mu.norm.scale": np.zeros(16, np.float32), "rng.dropout.count": np.array(1, np.uint32), "loss_scale": np.float32(1)}
        q = "layers.0.self_attn.q_proj."
        plain = {**init, **state}
        a, b = values[q + "lora_a"], values[q + "lora_b"]
        for change, words in (({}, None), (values, None), ({"ema." + n: v for n, v in init.items()}, ["averages", "\"ema.*\"", "--weights ema"]),
                              ({"slow.norm.scale": init["norm.scale"]}, ["--weights slow"]),
                              ({"extra.kernel": a}, ["\"extra.kernel\"", "would be lost"]), ({"steps": np.array(3, np.int32)}, ["\"steps\""]),
                              ({"data.kernel": a}, ["\"data.kernel\""]), ({"norm.mean": init["norm.scale"]}, ["\"norm.mean\""]),
                              ({q + "lora_a": a}, [saved, "lacks \"%slora_b\"" % q]), ({q + "lora_b": b}, ["lacks \"%slora_a\"" % q]),
                              ({q + "lora_a": a[:, :1], q + "lora_b": b}, [q + "lora_a", "make no kernel"]),
                              ({q + "lora_a": a, q + "lora_b": b[:, ::2]}, [q + "lora_b", "make no kernel"]),
                              ({"norm.lora_a": a, "norm.lora_b": b}, ["\"norm.lora_a\""]),
                              ({"norm.scale": None, "norm.scales": init["norm.scale"]}, ["lacks \"norm.scale\""]),
                              ({"norm.scale": init["norm.scale"][:4]}, ["\"norm.scale\" is [4] instead of [16]"])):
            with self.subTest(list(change)[:2]):
                new = {n: v for n, v in {**plain, **change}.items() if v is not None}
                kinds = {"float32": "F32", "int32": "I32", "uint32": "U32"}
                tensors.write(saved, [(n, kinds[str(v.dtype)], v.shape, lambda v=v: v) for n, v in new.items()])
                code, said = run("export", source, saved, "-o", os.path.join(self.folder, "back"))
                self.assertEqual(code, 1 if words else 0, said)
                for word in words or ():
                    self.assertIn(word, said)
        averages = {**{"ema." + n: v for n, v in init.items()}, "ema." + q + "lora_a": a, "ema." + q + "lora_b": b}
        tensors.write(saved, [(n, "F32", v.shape, lambda v=v: v) for n, v in {**init, **averages}.items()])
        merged = []
        for weights in ("params", "ema"):
            self.assertEqual(run("export", source, saved, "-o", os.path.join(self.folder, "back"), "--weights", weights)[0], 0)
            merged.append(tensors.open_model(os.path.join(self.folder, "back")).array("model.layers.0.self_attn.q_proj.weight"))
        np.testing.assert_allclose(merged[1] - merged[0], np.tensordot(a, b, 1).reshape(16, 16).T, rtol=1e-5, atol=1e-5)
        only = {n: v for n, v in averages.items() if "lora" in n}  # averages of the adapters alone: the rest stands for itself
        tensors.write(saved, [(n, "F32", v.shape, lambda v=v: v) for n, v in {**init, q + "lora_a": a, q + "lora_b": 2 * b, **only}.items()])
        self.assertEqual(run("export", source, saved, "-o", os.path.join(self.folder, "back"), "--weights", "ema")[0], 0)
        again = tensors.open_model(os.path.join(self.folder, "back")).array("model.layers.0.self_attn.q_proj.weight")
        self.assertEqual(again.tobytes(), merged[1].tobytes())
        code, said = run("export", source, saved, "-o", os.path.join(self.folder, "back"), "--weights", "slow")
        self.assertTrue(code == 1 and "no averages \"slow.*\"" in said, said)
        tensors.write(saved, [(n, "F32", v.shape, lambda v=v: v) for n, v in {**init, **averages, "ema.extra": a}.items()])
        code, said = run("export", source, saved, "-o", os.path.join(self.folder, "back"), "--weights", "ema")
        self.assertTrue(code == 1 and "\"ema.extra\"" in said, said)

    def exported(self, saved, names, *more, code=0):
        """What `checkpoint export --hf` makes of a file that was saved: the folder, and what it said."""
        runs, out = (os.path.join(self.folder, n) for n in ("runs", "theirs"))
        for there in (runs, out):
            shutil.rmtree(there, ignore_errors=True)
        self.stepc("checkpoint", "import", saved, "-o", runs, "-q")
        return out, self.stepc("checkpoint", "export", runs, *(("--hf", names) if type(names) is str else names or ()), "-o", out, *more, code=code).stderr

    def equal_tensors(self, a, b):
        x, y = tensors.open_model(a), tensors.open_model(b)
        self.assertEqual(sorted(x.names()), sorted(y.names()))
        for name in x.names():
            self.assertEqual((x.dtype(name), x.shape(name), x.array(name).tobytes()), (y.dtype(name), y.shape(name), y.array(name).tobytes()), name)

    def test_program_writes_the_same(self):
        for name in MODELS:
            with self.subTest(name):
                source, saved, back = os.path.join(HERE, "models", name), os.path.join(self.folder, "init.safetensors"), os.path.join(self.folder, "back")
                self.assertEqual(run("import", source, "-o", self.folder), (0, ""))
                self.assertEqual(run("export", source, saved, "-o", back), (0, ""))
                dtype = ("--dtype", "bfloat16") if name.endswith("bfloat16") else ()
                names = self.names(name)
                config = ("--config", os.path.join(source, "config.json")) if "--hf" in names else ()
                out, said = self.exported(saved, names, *config, "--shard-size", "8KiB", *dtype)
                self.assertEqual(said, "")
                self.equal_tensors(back, out)
                written = tensors.open_model(out)
                self.assertEqual(len(written.files) > 1, sum(written.array(n).size for n in written.names()) * (2 if dtype else 4) > 8 << 10)
                self.assertEqual(tensors.open_model(out).files[0].metadata["format"], "pt")
                configs = []
                for folder in (back, out):
                    with open(os.path.join(folder, "config.json")) as f:
                        configs.append({k: v for k, v in json.load(f).items() if k != "n_inner"})
                self.assertEqual(*configs)
                self.assertEqual(*[{k: type(v) for k, v in c.items()} for c in configs])  # 30.0 stays a float

    def test_program_merges_the_same(self):
        """Adapters, and averages of all or of them alone."""
        source, saved, back = os.path.join(HERE, "models", "llama"), os.path.join(self.folder, "saved.safetensors"), os.path.join(self.folder, "back")
        _, init, values, _ = self.adapted("llama")
        averages = {**{"ema." + n: v + 1 for n, v in init.items()}, **{"ema." + n: 2 * v for n, v in values.items()}}
        for more, weights in (({}, "params"), (averages, "params"), (averages, "ema"), ({n: v for n, v in averages.items() if "lora" in n}, "ema")):
            all_of_it = {**init, **values, **more, "opt_state.0.mu.norm.scale": init["norm.scale"], "step": np.array(3, np.int32)}
            tensors.write(saved, [(n, "I32" if n == "step" else "F32", v.shape, lambda v=v: v) for n, v in all_of_it.items()])
            for dtype, names in (("F32", ()), ("BF16", ("--dtype", "bfloat16"))):
                shutil.rmtree(back, ignore_errors=True)
                original = self.copy("llama")
                whole = tensors.open_model(original)
                tensors.write(os.path.join(original, "other"), [(n, dtype, whole.shape(n), lambda n=n: tensors.narrow(whole.array(n), dtype)) for n in whole.names()])
                os.replace(os.path.join(original, "other"), os.path.join(original, "model.safetensors"))
                self.assertEqual(run("export", original, saved, "-o", back, *(("--weights", weights) if more else ()))[0], 0)
                self.equal_tensors(back, self.exported(saved, "llama", *names, *(["--ema"] if weights == "ema" else []))[0])

    def test_templates_go_out(self):
        """What transformers would read of a template computes what the template computes."""
        for name in ("gpt2", "llama"):
            with self.subTest(name):
                at = lambda what: os.path.join(self.folder, what)
                if os.path.exists(at("model.json")):
                    os.remove(at("model.json"))
                self.stepc("init", name, at("model.json"))
                tokens = np.random.default_rng(0).integers(0, 512, (4, 64)).astype(np.int32)
                with stepc.Step(compiled(self.folder)) as m:
                    m.init()
                    expected = m.infer(tokens=tokens)
                    m.save(at("saved.safetensors"))
                out, said = self.exported(at("saved.safetensors"), name)
                self.assertIn("shapes do not tell", said)
                self.assertEqual(run("import", out, "-o", self.folder, "--batch", "4", "--length", "64"), (0, ""))
                with stepc.Step(compiled(self.folder)) as m:
                    begin(m, self.folder)
                    np.testing.assert_allclose(m.infer(tokens=tokens), expected, rtol=1e-4, atol=1e-5)

    def test_program_loses_nothing(self):
        saved = os.path.join(self.folder, "saved.safetensors")
        _, init, values, _ = self.adapted("llama")
        q = "layers.0.self_attn.q_proj."
        a, b = values[q + "lora_a"], values[q + "lora_b"]
        for change, more, code, words in (
                ({"extra.kernel": a}, (), 1, ["no name for \"extra.kernel\"", "would be lost"]), ({q + "lora_a": a}, (), 1, ["make no kernel of"]),
                ({q + "lora_a": a[:, :1], q + "lora_b": b}, (), 1, ["make no kernel of"]), ({"norm.scale": None}, (), 1, ["\"model.norm.weight\" needs \"norm.scale\""]),
                ({"norm.lora_a": a, "norm.lora_b": b}, (), 1, ["\"norm.lora_a\" and 1 more"]),
                ({"layers.1.input_layernorm.scale": None}, (), 1, ["input_layernorm.scale\" is there 1 times", "2"]),
                ({}, ("--config", os.path.join(HERE, "models", "llama_bands", "config.json")), 1, ["--config", "these parameters have"]),
                ({}, ("--shard-size", "few"), 2, ["--shard-size"]), ({}, ("--ema",), 1, ["no averages"]), ({}, ("--names", saved), 2, ["one of them"])):
            with self.subTest(words[0]):
                new = {n: v for n, v in {**init, **change}.items() if v is not None}
                tensors.write(saved, [(n, "F32", v.shape, lambda v=v: v) for n, v in new.items()])
                out, said = self.exported(saved, "llama", *more, code=code)
                for word in words:
                    self.assertIn(word, said)
                self.assertFalse(os.path.exists(out))
        tensors.write(saved, [(n, "F32", v.shape, lambda v=v: v) for n, v in init.items()])
        out, _ = self.exported(saved, "llama")
        runs = os.path.join(self.folder, "runs")
        self.assertIn("holds config.json already" if os.listdir(out)[0] == "config.json" else "already", self.stepc("checkpoint", "export", runs, "--hf", "llama", "-o", out, code=3).stderr)
        self.assertIn("go with --hf", self.stepc("checkpoint", "export", runs, "--shard-size", "1GiB", "-o", out, code=2).stderr)

    def test_names_of_ones_own(self):
        """A table of names: joined, turned and taken as they are; a file that is none is refused by what is wrong."""
        at = lambda what: os.path.join(self.folder, what)
        one, two, three = (np.arange(n, dtype=np.float32).reshape(shape) for n, shape in ((6, (2, 3)), (8, (2, 2, 2)), (5, (5,))))
        tensors.write(at("saved.safetensors"), [("a.0.kernel", "F32", (2, 3), lambda: one), ("b.0.kernel", "F32", (2, 2, 2), lambda: two), ("c", "F32", (5,), lambda: three)])
        table = {"x.*.weight": {"from": ["a.*.kernel", "b.*.kernel"], "inputs": 1, "transpose": True}, "c": "c", "d": {"from": "d", "optional": True}}
        for rules, words in ((table, None), ({"x": "a.0.kernel", "c": "c"}, "no name for \"b.0.kernel\""), ({**table, "x.*.weight": {"from": ["a.*.kernel", "b.*.kernel"]}}, "\"inputs\" is missing"),
                             ({**table, "x.*.weight": {"from": ["a.*.kernel", "b.*.kernel"], "inputs": 2}}, "another shape"), ({**table, "c": {"form": "c"}}, "\"c\": \"form\""),
                             ({**table, "c": 3}, "no list of names"), ({**table, "e": "e"}, "\"e\" needs \"e\""), ([], "expected JSON")):
            with self.subTest(words):
                with open(at("names.json"), "w") as f:
                    json.dump({"tensors": rules}, f)
                out, said = self.exported(at("saved.safetensors"), None, "--names", at("names.json"), code=1 if words else 0)
                self.assertIn(words or "", said)
        out, _ = self.exported(at("saved.safetensors"), None, "--names", self.write("names.json", json.dumps({"tensors": table})))
        self.assertEqual(sorted(os.listdir(out)), ["model.safetensors"])
        got = tensors.open_model(out)
        np.testing.assert_array_equal(got.array("x.0.weight"), np.concatenate([one, two.reshape(2, 4)], 1).T)
        np.testing.assert_array_equal(got.array("c"), three)

    def test_refused(self):
        for name, changes, words in REFUSED:
            with self.subTest(changes):
                code, said = run("import", self.copy(name, **changes), "-o", self.folder)
                self.assertEqual(code, 1, said)
                for word in words:
                    self.assertIn(word, said)
        self.assertEqual(run("import", self.copy("gpt2", rotary_pct=0.25), "-o", self.folder, "--ignore", "rotary_pct"), (0, ""))
        code, said = run("import", self.copy("gpt2"), "-o", self.folder, "--length", "17")
        self.assertEqual(code, 1)
        self.assertIn("n_positions", said)

    def test_damaged_files(self):
        source = self.copy("gpt2")
        path = os.path.join(source, "model.safetensors")
        with open(path, "rb") as f:
            raw = f.read()
        for cut in (0, 5, 100, len(raw) - 4):
            with open(path, "wb") as f:
                f.write(raw[:cut])
            code, said = run("import", source, "-o", self.folder)
            self.assertEqual(code, 1)
            self.assertIn("model.safetensors", said)
        n = 8 + int.from_bytes(raw[:8], "little")
        whole, a = json.loads(raw[8:n]), "transformer.h.0.ln_1.bias"
        at = whole[a]["data_offsets"]
        for header, words in ([(text, "JSON") for text in ("[]", "null", "3")] + [('{"a":' * 100000, "recursion"), ('{"\udcff":1}', "utf-8")] +
                              [(dict(whole, **{a: dict(whole[a], **change)}), a) for change in ({"dtype": None}, {"dtype": []}, {"dtype": "F8_E4M3"}, {"shape": None}, {"shape": [-12]}, {"shape": [12.0]}, {"shape": [2**62, 2**62]},
                                                                                               {"data_offsets": [0]}, {"data_offsets": [float(x) for x in at]}, {"data_offsets": [x + 4 for x in at]})] + [(dict(whole, **{a: dict(whole[a], data_offsets=[0, 48])}), "begins at byte 0 of the data, where 48 is expected")] +
                              [(dict(whole, **{a: None}), a), (dict(whole, __metadata__=[]), "__metadata__"), (json.dumps(whole)[:-1] + ", " + json.dumps({a: whole[a]})[1:], "twice")]):
            text = (header if isinstance(header, str) else json.dumps(header)).encode(errors="surrogateescape")
            with open(path, "wb") as f:
                f.write(len(text).to_bytes(8, "little") + text + raw[n:])
            with self.subTest(header=str(header)[:200]):
                code, said = run("import", source, "-o", self.path("out"))
                self.assertEqual(code, 1)
                self.assertIn(words, said)
                self.assertFalse(os.path.exists(self.path("out")))
        with open(path, "wb") as f:
            f.write(raw + b"more")
        self.assertIn("its tensors end at byte", run("import", source, "-o", self.path("out"))[1])
        with open(path, "wb") as f:
            f.write(raw)
        for name, text, words in (("config.json", "[]", "an object"), ("config.json", '{"model_type": []}', "model_type"), ("config.json", '{"model_type": "gpt2", "n_layer": 1000000000000}', "layers"),
                                  *(("model.safetensors.index.json", index, "weight_map") for index in ("{}", '{"weight_map": []}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "../b"}}')),
                                  ("model.safetensors.index.json", "{", "Expecting"), ("model.safetensors.index.json", '{"weight_map": {"a": "model.safetensors"}}', "not in its file")):
            was = os.path.join(source, name)
            shutil.copyfile(was, was + ".whole") if os.path.exists(was) else None
            with open(was, "w", encoding="utf-8") as f:
                f.write(text)
            with self.subTest(name=name, text=text):
                code, said = run("import", source, "-o", self.path("out"))
                self.assertEqual(code, 1)
                self.assertIn(words, said)
            os.remove(was)
            os.rename(was + ".whole", was) if os.path.exists(was + ".whole") else None
        adapters = shutil.copytree(os.path.join(HERE, "peft", "gpt2"), self.path("adapters"))
        with open(os.path.join(adapters, "adapter_config.json"), encoding="utf-8") as f:
            config = json.load(f)
        for key, value in (("r", "4"), ("r", None), ("lora_alpha", None), ("lora_alpha", -1), ("lora_alpha", 1e300), ("use_rslora", "false"), ("lora_dropout", "a"), ("rank_pattern", {"(": 4}), ("alpha_pattern", [])):
            runner.write_json(os.path.join(adapters, "adapter_config.json"), dict(config, **{key: value}))
            code, said = run("import", source, "--peft", adapters, "-o", self.path("out"))
            self.assertEqual((code, "\"%s\" is %s; " % (key, json.dumps(value)) in said), (1, True), said)
        runner.write_json(os.path.join(adapters, "adapter_config.json"), config)
        held = tensors.open_model(os.path.join(adapters, "adapter_model.safetensors"))
        first = held.names()[0]
        for dtype, shape in (("I32", held.shape(first)), ("F32", (held.array(first).size,)), ("F32", ())):
            entries = [(n, "F32", held.shape(n), lambda n=n: held.array(n)) for n in held.names() if n != first] + [(first, dtype, shape, lambda: np.zeros(shape))]
            tensors.write(os.path.join(adapters, "other.safetensors"), entries)
            shutil.copyfile(os.path.join(adapters, "other.safetensors"), os.path.join(adapters, "adapter_model.safetensors"))
            code, said = run("import", source, "--peft", adapters, "-o", self.path("out"))
            self.assertEqual((code, first in said), (1, True), said)
            shutil.copyfile(os.path.join(HERE, "peft", "gpt2", "adapter_model.safetensors"), os.path.join(adapters, "adapter_model.safetensors"))
        try:  # nothing of a file that cannot be written whole stays
            tensors.write(self.path("part"), [("a", "F32", (2,), lambda: 1 / 0)])
        except ZeroDivisionError:
            pass
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("part")])
        os.remove(path)
        self.assertIn("neither", run("import", source, "-o", self.folder)[1])

    def test_bfloat16_rounds_to_even(self):
        bits = np.arange(65536, dtype=np.uint16)
        wide = tensors.widen(bits, "BF16")
        np.testing.assert_array_equal(tensors.narrow(wide, "BF16"), bits)
        halfway = np.array([1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20], np.float32)
        np.testing.assert_array_equal(tensors.widen(tensors.narrow(halfway, "BF16"), "BF16"), np.array([1, 1 + 2 ** -6, 1 + 2 ** -7], np.float32))


if __name__ == "__main__":
    runner.main()
