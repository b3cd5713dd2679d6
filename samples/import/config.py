"""What GPT-2 and the other decoders share: a configuration whose every key is asked for or refused, and the description of a weight."""
import json
import math
from types import SimpleNamespace

import numpy as np

from tensors import Bad

# Keys that change no number of the model: they name things, or speak of generating and of other heads.
HARMLESS = set("""model_type _name_or_path architectures transformers_version torch_dtype dtype use_cache bos_token_id eos_token_id
pad_token_id sep_token_id decoder_start_token_id task_specific_params id2label label2id num_labels problem_type finetuning_task
return_dict output_attentions output_hidden_states torchscript use_bfloat16 gradient_checkpointing name_or_path _attn_implementation
attn_implementation _commit_hash auto_map n_ctx max_length min_length do_sample early_stopping num_beams temperature top_k top_p
typical_p repetition_penalty length_penalty no_repeat_ngram_size num_return_sequences prefix tokenizer_class chunk_size_feed_forward
num_beam_groups diversity_penalty encoder_no_repeat_ngram_size bad_words_ids output_scores return_dict_in_generate
forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens
begin_suppress_tokens tf_legacy_loss unsloth_version is_llama_config _num_labels n_special predict_special_tokens
transformers.js_config cross_attention_hidden_size output_past cache_implementation""".split())


def is_number(value):
    return type(value) in (int, float) and abs(value) <= np.finfo(float).max


class Config:
    """config.json. What is read here counts as known; `finish` refuses the rest."""

    def __init__(self, path, values, ignore=()):
        self.path, self.values, self.seen = path, values, set(HARMLESS) | set(ignore)

    def fail(self, key, text):
        shown = json.dumps(self.values.get(key))
        raise Bad("%s: \"%s\" is %s; %s" % (self.path, key, shown, text))

    def get(self, key, default=None):
        self.seen.add(key)
        value = self.values.get(key)
        return default if value is None else value

    def given(self, key, default=None):
        """As `get`, where null is a value of its own."""
        self.seen.add(key)
        return self.values.get(key, default)

    def positive(self, key, default):
        value = self.number(key, default)
        if value <= 0:
            self.fail(key, "a positive number is needed")
        return value

    def integer(self, key, default=None):
        value = self.get(key, default)
        if value is None:
            raise Bad("%s lacks \"%s\"" % (self.path, key))
        if type(value) is not int or value < 1:
            self.fail(key, "a positive integer is needed")
        return value

    def number(self, key, default):
        value = self.get(key, default)
        if not is_number(value):
            self.fail(key, "a number is needed")
        return float(value)

    def rate(self, key, default):
        value = self.number(key, default)
        if not 0 <= value < 1:
            self.fail(key, "a rate from 0 up to 1 is needed")
        return value

    def flag(self, key, default):
        value = self.get(key, default)
        if type(value) is not bool:
            self.fail(key, "true or false is needed")
        return value

    def only(self, key, value):
        """A key for which one value alone is covered; it is also the default."""
        found = self.get(key, value)
        if found != value:
            self.fail(key, "only %s is supported" % json.dumps(value))

    def finish(self):
        for key in self.values:
            if key not in self.seen:
                self.fail(key, "this key is not known; --ignore %s if it changes no number" % key)


class Weight:
    """One tensor there, one or several here. `split` makes the parts' arrays from it, `join` the inverse; both only move elements.
    `inputs` and `transposed` say the same in the words of a table of names (`stepc checkpoint export --names`)."""

    def __init__(self, name, shape, parts, split=lambda a: [a], join=lambda p: p[0], inputs=None, transposed=False):
        self.name, self.shape, self.parts, self.split, self.join = name, shape, parts, split, join
        self.inputs, self.transposed = inputs, transposed

    def rule(self):
        paths = [path for path, _ in self.parts]
        if self.inputs is None:
            return paths[0]
        return {"from": paths if len(paths) > 1 else paths[0], "inputs": self.inputs, **({"transpose": True} if self.transposed else {})}


def same(name, shape, path):
    return Weight(name, shape, [(path, shape)])


def transposed(name, shape, path, here=None):
    """[out, in] there, [in, out] here; `here` is the shape of [in, out] with its dimensions split."""
    here = here or (shape[1], shape[0])
    rows = next(i for i in range(1, len(here)) if math.prod(here[:i]) == shape[1])
    return Weight(name, shape, [(path, here)], lambda a: [a.T.reshape(here)], lambda p: p[0].reshape(shape[1], shape[0]).T, rows, True)


def flattened(name, shape, path, here):
    """One dimension there, several here."""
    return Weight(name, shape, [(path, here)], lambda a: [a.reshape(here)], lambda p: p[0].reshape(shape), 0)


def training(c, options, model, define, constants):
    """The document around a model over `tokens`: next-token loss as the models of transformers compute it, AdamW."""
    decay = {"weight_decay": options.weight_decay, "mask": ["**.kernel", "**.embedding"]}
    length = options.length or min(c.positions, 1024)
    if not 2 <= length <= c.positions:
        raise Bad("--length %d: from 2 to %d, as \"%s\" says" % (length, c.positions, c.positions_key))
    if options.batch < 1:
        raise Bad("--batch %d: at least 1" % options.batch)
    return {"stepc": 1, "name": c.name,
            "constants": {"batch": options.batch, "length": length, **constants},
            "inputs": {"tokens": {"shape": ["$batch", "$length"], "dtype": "int32", "axes": ["batch", None]}},
            "define": define, "model": model,
            "loss": {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model[:, :-1]", "labels": "tokens[:, 1:]",
                     "reduction": "mean"},
            "optimizer": {"type": "chain", "transforms": [
                {"type": "clip_by_global_norm", "max_norm": 1.0},
                {"type": "adamw", "learning_rate": options.learning_rate, **decay}]},
            "seed": 0}


def namespace(**values):
    return SimpleNamespace(**values)
