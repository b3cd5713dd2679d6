#!/usr/bin/env python3
"""Natural mistakes of those who come from PyTorch, Keras, Hugging Face, DeepSpeed or Optax: each is refused, and answered with what is
written here. What an answer shows can be pasted: every whole fragment of frontend/document/foreign.def compiles where it belongs.

    tests/cli/mistakes.py STEPC
"""
import json
import os
import re
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import ROOT, runner

ADAM = {"type": "adam", "learning_rate": 1e-3}
LOSS = {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "label", "reduction": "mean"}


def document(**more):
    return {"stepc": 1, "inputs": {"x": {"shape": [32, 784], "axes": ["batch", None]}, "label": {"shape": [32], "dtype": "int32", "axes": ["batch"]}},
            "model": {"type": "sequential", "input": "x", "layers": [{"type": "linear", "features": 10}]}, "loss": LOSS, "optimizer": ADAM, **more}


def without(key, **more):
    made = document(**more)
    del made[key]
    return made


def layer(block, shape=(32, 784)):
    made = document()
    made["inputs"]["x"] = {"shape": list(shape), "axes": ["batch"] + [None] * (len(shape) - 1)}
    made["model"]["layers"].insert(0, block)
    return made


def optimizer(**more):
    return document(optimizer={**ADAM, **more})


def loss(**more):
    return document(loss={**LOSS, **more})


def inputs(shape, **more):
    return document(inputs={"x": {"shape": [shape, 784], **more}, "label": {"shape": [shape], "dtype": "int32"}})


IMAGES = (32, 28, 28, 1)
MISTAKES = [  # a document, and what the answer must show
    (document(optimizer={"type": "adam", "lr": 1e-3}), '"learning_rate": 1e-3'), (optimizer(betas=[0.9, 0.999]), '"b1": 0.9, "b2": 0.999'), (optimizer(beta_1=0.9), '"b1": 0.9'),
    (optimizer(beta2=0.99), '"b2": 0.999'), (optimizer(epsilon=1e-8), '"eps": 1e-8'), (optimizer(weight_decay=0.01), '"add_decayed_weights"'), (optimizer(amsgrad=True), '"type": "amsgrad"'),
    (optimizer(momentum=0.9), '"b1"'), (optimizer(clipnorm=1.0), '"clip_by_global_norm"'), (optimizer(params=[]), '"partition"'), (optimizer(warmup_steps=100), '"warmup_cosine_decay_schedule"'),
    (optimizer(fused=True), "one fused pass"), (document(optimizer={"type": "AdamW", "learning_rate": 1e-3}), '"adamw"'), (document(optimizer={"type": "optax.adamw", "learning_rate": 1e-3}), '"adamw"'),
    (document(optimizer={"type": "torch.optim.SGD", "learning_rate": 1e-3}), '"sgd"'), (document(optimizer="adamw"), '{"type": "adamw", "learning_rate": 1e-3}'), (document(optimizer=[ADAM]), '"type": "chain"'),
    (document(clip_grad_norm=1.0), '"clip_by_global_norm"'), (document(max_grad_norm=1.0), '"clip_by_global_norm"'), (document(gradient_clip_val=1.0), '"clip_by_global_norm"'),
    (document(gradient_accumulation_steps=4), '"microbatch_size"'), (document(batch_size=32), '"shape": [32, 784]'), (document(per_device_train_batch_size=8), '"$batch"'), (document(bf16=True), '"compute": "bfloat16"'),
    (document(fp16=True), '"compute": "float16"'), (document(mixed_precision="bf16"), '"compute": "bfloat16"'), (document(precision="bf16"), '"compute": "bfloat16"'), (document(epochs=3), "--epochs"),
    (document(max_steps=3), "--steps"), (document(device="cuda"), "--target"), (document(random_seed=1), '"seed": 0'), (document(ema_decay=0.999), '"decay": 0.999'), (document(lr_scheduler={}), '"learning_rate": {"type"'),
    (document(mesh={"data": 2}, sharding={"rules": [["batch", "data"]]}), '"mesh": {"axes": {"data": 2}}'),
    (document(scheduler="cosine"), '"learning_rate": {"type"'), (document(learning_rate=1e-3), '"optimizer": {"type": "adamw", "learning_rate": 1e-3'), (without("model", layers=[]), '"type": "sequential"'),
    (document(model=[{"type": "linear", "features": 10}]), '"type": "sequential"'), (document(lora={"r": 8}), '"type": "lora"'), (document(zero_optimization={"stage": 2}), '"optimizer_state"'), (document(fsdp=True), '"params"'),
    (document(requires_grad=False), '"trainable"'), (document(gradient_checkpointing=True), '"remat"'), (document(metrics=["accuracy"]), '{"accuracy": "mean('), (without("inputs", input={"x": {"shape": [32, 784]}}), '"inputs"'),
    (without("loss", criterion="mse"), '"loss"'), (document(output_dir="runs"), "--save-dir"), (document(train_data="x.npy"), "--data"),
    (inputs(None), '"$batch"'), (inputs("batch"), '"$batch"'), (inputs(32, dtype="float"), '"float32"'), (document(loss="sum(model) / $batch"), "batch, not $batch"),
    (document(loss="MSELoss"), "mean((model - y)**2)"), (document(loss={"type": "MSELoss", "predictions": "model", "targets": "x"}), '"squared_error"'), (document(loss="sparse_categorical_crossentropy"), '"softmax_cross_entropy_with_integer_labels"'),
    (document(loss={"type": "CrossEntropyLoss", "input": "model", "target": "label"}), '"softmax_cross_entropy_with_integer_labels"'), (document(loss={"type": "nn.BCEWithLogitsLoss", "input": "model", "target": "x"}), '"sigmoid_binary_cross_entropy"'),
    (loss(label_smoothing=0.1), "smooth_labels"), (loss(ignore_index=-100), '"where"'), (loss(from_logits=True), "take logits"), (loss(reduction="none"), "mean"), (loss(class_weight=[1, 2]), '"weights"'),
    (layer({"type": "nn.Flatten"}, (32, 28, 28)), '"flatten"'), (layer({"type": "flatten", "start": 2}, (32, 28, 28)), 'start_dim, end_dim'),
    (document(loss={"type": "softmax_cross_entropy", "logits": "model", "labels": "label", "reduction": "mean"}), "softmax_cross_entropy_with_integer_labels"), (layer({"type": "nn.ReLU"}), '"relu"'),
    (layer({"type": "BatchNorm1d", "num_features": 784}), '"batch_norm"'), (layer({"type": "batch_norm", "num_channels": 784}), "inferred"), (layer({"type": "MaxPool2d", "kernel_size": 2}, IMAGES), '"max_pool"'),
    (layer({"type": "max_pool", "kernel_size": 2}, IMAGES), '"window_shape"'), (layer({"type": "linear", "out_features": 10}), '"features"'), (layer({"type": "Dense", "units": 64}), '"linear"'), (layer({"type": "linear", "units": 64}), '"features"'),
    (layer({"type": "linear", "features": 64, "activation": "relu"}), '{"type": "relu"}'), (layer({"type": "linear", "features": 64, "bias": False}), '"use_bias": false'), (layer({"type": "conv", "filters": 8, "kernel_size": [3, 3]}, IMAGES), '"features"'),
    (layer({"type": "conv", "features": 8, "kernel_size": [3, 3], "stride": 2}, IMAGES), '"strides"'), (layer({"type": "conv", "features": 8, "kernel_size": [3, 3], "groups": 2}, IMAGES), '"feature_group_count"'),
    (layer({"type": "dropout", "p": 0.5}), '"rate": 0.5'), (layer({"type": "nn.Embedding", "num_embeddings": 100, "embedding_dim": 8}), '"embed"'), (layer({"type": "LSTM", "hidden_size": 64}, (32, 10, 8)), '"lstm_cell"'),
    (layer({"type": "multi_head_attention", "nhead": 4}, (32, 10, 8)), '"num_heads"'), (layer({"type": "TransformerEncoderLayer", "d_model": 64}, (32, 10, 8)), "stepc init gpt2"), (layer({"type": "Softmax", "dim": 1}), '"softmax"'),
    (layer({"type": "GlobalAveragePooling2D"}, IMAGES), "mean(x, axis=[1, 2])"), (layer({"type": "expr", "expr": "x.view(32, -1)"}), "reshape"), (layer({"type": "keras.layers.Dense", "features": 3}), '"linear"'),
    # schedules, initializers, structures
    (optimizer(learning_rate={"type": "StepLR", "step_size": 10, "gamma": 0.1}), '"piecewise_constant_schedule"'), (optimizer(learning_rate={"type": "OneCycleLR", "max_lr": 0.1, "total_steps": 100}), '"cosine_onecycle_schedule"'),
    (optimizer(learning_rate={"type": "cosine_decay_schedule", "init_value": 0.1, "T_max": 100}), '"decay_steps"'), (optimizer(learning_rate={"type": "CosineAnnealingLR"}), '"cosine_decay_schedule"'),
    (optimizer(learning_rate={"type": "exponential_decay", "init_value": 0.1, "gamma": 0.9, "transition_steps": 1}), '"decay_rate"'), (optimizer(learning_rate={"type": "warmup_cosine_decay_schedule", "max_lr": 0.1}), '"peak_value"'),
    (optimizer(learning_rate={"type": "ReduceLROnPlateau"}), "--reduce-on-plateau"), (optimizer(learning_rate="0.1 / epoch"), '"step" counts updates from 0'),
    (layer({"type": "linear", "features": 8, "kernel_init": "xavier_uniform"}), '"kernel_init": {"type": "xavier_uniform"}'), (layer({"type": "linear", "features": 8, "kernel_initializer": "he_normal"}), '"kernel_init"'),
    (layer({"type": "linear", "features": 8, "kernel_init": {"type": "normal", "std": 0.02}}), '"stddev"'), (layer({"type": "repeat", "n": 2, "block": {"type": "relu"}}), '"count"'),
    (document(model={"type": "sequential", "input": "x", "modules": []}), '"layers"'), (document(model={"type": "sequential", "input": "x", "layers": ["relu"]}), '{"type": "relu"}'),
    (document(model={"type": "sequential", "layers": [{"type": "linear", "features": 10}]}), '"input": "x"'), (layer({"type": "dropout", "dropout": 0.1}), '"rate"'), (layer({"type": "multi_head_attention", "num_heads": 2, "causal": True}, (32, 10, 8)), '"is_causal": true'),
    # optimizers, losses, expressions
    (document(optimizer={"type": "rmsprop", "learning_rate": 0.1, "alpha": 0.99}), '"decay": 0.99'), (document(optimizer={"type": "sgd", "learning_rate": 0.1, "momentum": 0.9, "dampening": 0.1}), '"ema"'),
    (document(optimizer={"type": "adagrad", "learning_rate": 0.1, "lr_decay": 0.1}), '"learning_rate": {"type"'), (document(optimizer={"type": "adamw", "learning_rate": 0.1, "no_decay": ["bias"]}), '"mask": ["**.kernel"]'),
    (document(optimizer={"name": "adam", "learning_rate": 0.1}), '{"type": "adam"}'), (document(loss="mean(model, dim=1)"), '"axis"'), (document(loss="mean(model, axis=1, keepdim=True)"), "keepdims"), (document(loss="mean((y_pred - x[:, :10])**2)"), '"model"'),
    (document(loss="mean((model - y_true)**2)"), '"inputs"'), (document(loss="F.cross_entropy(model, label)"), '"softmax_cross_entropy_with_integer_labels"'), (document(metrics={"acc": {"type": "accuracy"}}), "argmax(model"),
    # documents
    (document(mesh={"shape": [2, 4], "axis_names": ["data", "model"]}), '"mesh": {"axes"'), (document(num_gpus=4), '"mesh": {"axes"'), (document(accumulate=4), '"microbatch_size"'), (document(ema=0.999), '"ema": {"decay"'),
    (document(precision={"dtype": "bfloat16"}), '"compute": "bfloat16"'), (document(lr_scheduler_type="cosine"), '"learning_rate": {"type"'), (document(validation_split=0.2), "--eval-data"), (document(shuffle=True), "--shuffle"),
    (document(torch_dtype="bfloat16"), '"compute": "bfloat16"'), (document(tie_word_embeddings=True), '"attend"'), (document(comment="of mine"), '"//"'), (document(optim="adamw_torch"), '"adamw"'), (document(inputs={"x": [32, 784]}), '{"shape": [...]}'),
]


def fragments():
    """Whole JSON of the answers: (key or None, value)."""
    with open(os.path.join(ROOT, "frontend/document/foreign.def"), encoding="utf-8") as f:
        text = f.read()
    for shown in re.findall(r'"((?:[^"\\]|\\.)*)"', text):
        shown, at = shown.replace('\\"', '"'), 0
        while at < len(shown):
            for begin in (r'"(\w+)": (?=[{"\[])', r"(?=\{\"type\")"):
                match = re.compile(begin).match(shown, at)
                if not match:
                    continue
                try:
                    value, length = json.JSONDecoder().raw_decode(shown[match.end():])
                except ValueError:
                    continue
                yield match[1] if match.groups() else None, value
                at = match.end() + length
                break
            else:
                at += 1


class Mistakes(runner.Case):
    def test_answers(self):
        self.assertGreaterEqual(len(MISTAKES), 70)
        missed = []
        for number, (wrong, shows) in enumerate(MISTAKES):
            done = self.stepc("check", self.write("%d.json" % number, wrong), code=1)
            said = "".join(line for line in done.stderr.splitlines(True) if "did you mean" in line or "hint:" in line or "error[" in line)
            if shows not in said:
                missed.append("%s: %s is not in\n%s" % (json.dumps(wrong), shows, said))
        self.assertFalse(missed, "\n".join(missed))

    def test_channels_first(self):
        """It is a warning, said once: sizes alone do not tell."""
        flat = {"type": "flatten"}
        for shape, warned in (((32, 3, 28, 28), True), ((32, 1, 28, 28), True), ((32, 28, 28, 3), False), ((32, 3, 28, 16), False), ((32, 16, 16, 16), False)):
            made = layer(flat, shape)
            made["model"]["layers"].insert(0, {"type": "conv", "features": 8, "kernel_size": [3, 3]})
            said = self.stepc("check", self.write("images.json", made)).stderr
            self.assertEqual(said.count("channels came first"), int(warned), shape)
            self.assertEqual("transpose(x, [0, 2, 3, 1])" in said, warned)

    def test_other_names(self):
        """Optax's param_labels is labels, flatten is torch's; both are the same program as what is written in another way."""
        groups, labels = {"a": ADAM, "b": {"type": "sgd", "learning_rate": 0.1}}, {"**.kernel": "a", "**": "b"}
        said = [self.stepc("compile", self.write("labels.json", document(name="same", optimizer={"type": "partition", "transforms": groups, key: labels})), "--stop-after", "simplify", "-o", "-").stdout
                for key in ("labels", "param_labels")]
        self.assertEqual(*(re.sub(r" @\d+", "", text[text.index('func "step"'):text.index('func "init"')]) for text in said))
        both = document(optimizer={"type": "partition", "transforms": groups, "labels": labels, "param_labels": labels})
        self.assertIn("are the same", self.stepc("check", self.write("both.json", both), code=1).stderr)
        shapes = []
        for block in ({"type": "flatten"}, {"type": "flatten", "start_dim": 0, "end_dim": 1}, {"type": "flatten", "start_dim": -2}, {"type": "flatten", "start_dim": 2, "end_dim": 2}):
            made = {**layer(block, (32, 4, 5, 6)), "loss": "mean(model**2)"}
            made["model"]["layers"] = [{"type": "linear", "features": 6}, block]
            text = self.stepc("compile", self.write("flatten.json", made), "--stop-after", "simplify", "-o", "-").stdout
            shapes.append(re.search(r'slot \d+ "model" output float32\[([^\]]*)\]', text)[1])
        self.assertEqual(shapes, ["32, 120", "128, 5, 6", "32, 4, 30", "32, 4, 5, 6"])
        for block in ({"type": "flatten", "start_dim": 4}, {"type": "flatten", "start_dim": 2, "end_dim": 1}):
            self.assertIn("E0212", self.stepc("check", self.write("flatten.json", layer(block, (32, 4, 5, 6))), code=1).stderr)

    def test_never_written(self):
        """A foreign word is answered; --fix writes none of them, and says that something is left."""
        for wrong in (optimizer(betas=[0.9, 0.999]), document(batch_size=32), layer({"type": "nn.ReLU"}), document(optimizer="adamw")):
            path = self.write("fixed.json", wrong)
            with open(path) as f:
                before = f.read()
            self.stepc("check", "--fix", path, code=1)
            with open(path) as f:
                self.assertEqual(f.read(), before)

    def test_fragments(self):
        """What is shown whole compiles at its place."""
        y = {"shape": [32, 10], "axes": ["batch", None]}
        tried = 0
        for key, value in fragments():
            made = document(constants={"batch": 32}) if key != "constants" else document()
            made["inputs"]["y"] = y
            kind = value.get("type") if isinstance(value, dict) else None
            if key in document() or key in ("precision", "accumulate", "ema", "mesh", "sharding", "adapters", "trainable", "metrics", "constants", "seed"):
                made[key] = {**made[key], **value} if key == "inputs" else value
                if key == "sharding":
                    made["mesh"] = {"axes": {"data": 4}}
            elif key == "learning_rate":
                made["optimizer"] = {"type": "adam", key: value}
            elif kind == "squared_error" or kind == "softmax_cross_entropy":
                made["loss"] = value
                if "label" in value.get("labels", ""):
                    made["inputs"]["label"] = document()["inputs"]["label"]
            elif kind and (kind.endswith("_schedule") or kind == "exponential_decay"):
                made["optimizer"] = {"type": "adam", "learning_rate": value}
            elif kind == "normal":
                made["model"]["layers"][0]["kernel_init"] = value
            elif kind in ("add_decayed_weights", "clip_by_global_norm", "ema", "reduce_on_plateau"):
                made["optimizer"] = {"type": "chain", "transforms": [value, ADAM]}
            elif kind in ("amsgrad",):
                made["optimizer"] = value
            elif kind and key is None:
                expression = json.dumps(value)
                shape = (32, 28, 28, 1) if "[1, 2]" in expression or "shape[3]" in expression or "[1, 1], [1, 1]" in expression else (32, 7, 10) if kind == "rnn" or "[0, 2, 1]" in expression else (32, 784)
                made["inputs"]["x"] = {"shape": list(shape)}
                flat = {"type": "flatten"}
                made["model"]["layers"] = [value, flat, {"type": "linear", "features": 10}]
            else:
                continue
            self.stepc("check", "-q", self.write("m.json", made))
            tried += 1
        self.assertGreater(tried, 25)


if __name__ == "__main__":
    runner.main()
