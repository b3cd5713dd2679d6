"""Decoders of transformers (Llama and what is like it): one description of all of them, of which families.py says what differs. Rotary
positions, grouped queries, [out, in] matrices (transposed here), a head of its own or the embedding. A tensor there is a tensor here."""
import json
import re

import rope
from config import flattened, namespace, same, training, transposed
from families import row
from gpt2 import ACTIVATIONS


# Keys of every row of which one value alone is covered; the first is also what a file means that does not have it.
NEVER = {"rope_interleaved": (False,), "is_encoder_decoder": (False,), "is_decoder": (False,), "add_cross_attention": (False,), "pruned_heads": ({},)}


def _setting(config, r, key):
    """True or false: as the row says it, or the key of config.json."""
    return key if type(key) is bool else config.flag(key, r["defaults"].get(key, False))


def _kinds(config, r, c):
    """For each layer whether it sees a window alone and whether it has positions; the window."""
    moving, window, windowed = [True] * c.layers, None, [False] * c.layers
    if r["still"]:
        listed, every = config.get("no_rope_layers"), config.integer("no_rope_layer_interval", r["defaults"]["no_rope_layer_interval"])
        moving = [bool((i + 1) % every) for i in range(c.layers)] if listed is None else listed
        if type(moving) is not list or len(moving) != c.layers or not all(n in (0, 1) for n in moving):
            config.fail("no_rope_layers", "a list of %d numbers 0 or 1 is needed" % c.layers)
    if not r["window"]:
        return [(False, bool(m)) for m in moving], None
    if config.given("sliding_window", r["defaults"].get("sliding_window")) is not None:
        window = config.integer("sliding_window", r["defaults"].get("sliding_window"))
    if r["window"] == "all":
        return [(window is not None, True)] * c.layers, window
    if r["window"] == "asked":
        window = window if config.flag("use_sliding_window", False) else None
        first = config.given("max_window_layers", r["defaults"].get("max_window_layers", 0))
        if type(first) is not int or first < 0:
            config.fail("max_window_layers", "a number of layers is needed")
        windowed = [window is not None and (not m if r["still"] else i >= first) for i, m in enumerate(moving)]
    else:
        windowed = [i % 2 == 0 for i in range(c.layers)]
    types = config.get("layer_types")
    if types is not None:
        if type(types) is not list or len(types) != c.layers or not all(t in ("full_attention", "sliding_attention") for t in types):
            config.fail("layer_types", "a list of %d, \"full_attention\" or \"sliding_attention\", is needed" % c.layers)
        windowed = [t == "sliding_attention" for t in types]
    if any(windowed) and window is None:
        config.fail("layer_types" if types else "sliding_window", "layers that see a window need \"sliding_window\"%s" % (", and \"use_sliding_window\"" if r["window"] == "asked" else ""))
    return list(zip(windowed, map(bool, moving))), window


def read(config):
    name = config.values["model_type"]
    r = row(name)
    d = r["defaults"]
    sizes = {k: config.integer(key, d[key]) for k, key in (("width", "hidden_size"), ("heads", "num_attention_heads"), ("inner", "intermediate_size"), ("layers", "num_hidden_layers"),
                                                           ("vocabulary", "vocab_size"), ("positions", "max_position_embeddings"))}
    c = namespace(row=r, name=name, positions_key="max_position_embeddings", epsilon=config.number(r["epsilon"], d.get(r["epsilon"], 1e-6)),
                  stddev=config.number("initializer_range", d["initializer_range"]), tied=config.flag("tie_word_embeddings", d["tie_word_embeddings"]),
                  table=r["embed"] + ".weight", head_name=r["head_names"][0], head_names=r["head_names"] + tuple(r["head"] + ".bias" for _ in range(r["head_bias"])), prefixes=(r["prefix"], ""), **sizes)
    c.depth = config.integer("head_dim", d.get("head_dim", max(c.width // c.heads, 1)))
    if config.given("head_dim", d.get("head_dim")) is None and c.width % c.heads:
        config.fail("num_attention_heads", "\"hidden_size\" (%d) is no multiple of it" % c.width)
    if not r["own_depth"] and c.depth * c.heads != c.width:
        config.fail("head_dim", "only \"hidden_size\" / \"num_attention_heads\" is supported")
    kv = "num_key_value_heads"  # null: as many as queries; not there: what the family says, or as many
    c.kv_heads = c.heads if r["joined"] == "heads" or config.given(kv, d.get(kv)) is None else config.integer(kv, d.get(kv))
    if c.heads % c.kv_heads:
        config.fail(kv, "\"num_attention_heads\" (%d) is no multiple of it" % c.heads)
    c.activation = config.get(r["activation"], d[r["activation"]])
    if not isinstance(c.activation, str) or c.activation not in ACTIVATIONS:
        config.fail(r["activation"], "there are " + ", ".join(ACTIVATIONS))
    c.activation = r["means"].get(c.activation, c.activation)
    other = r["other_activation"] and config.get(r["other_activation"])
    if other is not None and r["means"].get(other, other) != c.activation:
        config.fail(r["other_activation"], "\"%s\" (%s) says another one" % (r["activation"], c.activation))
    for what in ("query_bias", "out_bias", "mlp_bias", "parallel"):
        setattr(c, what, _setting(config, r, r[what]))
    c.query_norm = r["query_norm"] if r["query_norm_if"] is None or config.flag(r["query_norm_if"], False) else None
    for what in ("embed_scale", "residual_scale", "attention_scale", "logit_scale", "attention_cap", "logit_cap"):
        setattr(c, what, r[what](config) if r[what] else None)
    c.dropouts = {where: config.rate(key, 0.0) for where, key in r["dropouts"].items()}
    c.pad = _pad(config, r, c)
    c.base, c.rope, c.scaling, part = rope.read(config, r["rope"], r["theta"], r["theta_key"], r["share"], r["share_key"])
    if r["rope"] is rope.LONG:  # it stands outside of the object, and goes first
        c.scaling["original_max_position_embeddings"] = config.integer("original_max_position_embeddings", d["original_max_position_embeddings"])
    c.turned, c.neighbours = int(c.depth * part), r["neighbours"]
    if c.turned % 2 or not c.turned:
        config.fail("head_dim" if part == 1 else r["share_key"], "rotary positions need an even share of the %d elements of a head" % c.depth)
    if c.rope == "longrope" and not len(c.scaling["short_factor"]) == len(c.scaling["long_factor"]) == c.turned // 2:
        config.fail("rope_parameters" if config.values.get("rope_parameters") else "rope_scaling", "a factor for each of %d pairs is needed" % (c.turned // 2))
    c.kinds, c.window = _kinds(config, r, c)
    for key, values in {**NEVER, **r["only"]}.items():
        if config.get(key, values[0]) not in values:
            config.fail(key, "only %s is supported" % " or ".join(map(json.dumps, values)))
    for key in r["unread"]:
        config.get(key)
    c.unused = tuple("%slayers.*.%s.%s" % (r["prefix"], r["attention"], name) for name in r["buffers"])
    c.skips = lambda n: re.fullmatch(r"(%s)?(layers\.\d+\.)?%s\.(%s)" % (re.escape(r["prefix"]), r["attention"], "|".join(map(re.escape, r["buffers"]))), n) is not None
    return c


def _pad(config, r, c):
    """The token whose row of the table gets no gradient as an input."""
    pad = config.given("pad_token_id", r["defaults"].get("pad_token_id"))
    if not r["pads"] or pad is None:
        return None
    if type(pad) is not int or not -c.vocabulary <= pad < c.vocabulary:
        config.fail("pad_token_id" if "pad_token_id" in config.values else "vocab_size", "token %s is none of \"vocab_size\" (%d)" % (json.dumps(pad), c.vocabulary))
    return pad % c.vocabulary


def _normal(c):
    return {"type": "normal", "stddev": c.stddev}


def _norm(c, name, **more):
    kind = c.row["norm"]
    if kind == "one":
        return {"type": "norm", "name": name, **more}
    layer = {"type": "layer_norm", "name": name, "epsilon": c.epsilon, "use_fast_variance": False}  # as PyTorch, in two passes
    return {**({"type": "rms_norm", "name": name, "epsilon": c.epsilon} if kind == "rms" else layer if kind == "layer" else {**layer, "use_bias": False}), **more}


def _dropout(c, where, **more):
    return [{"type": "dropout", "rate": c.dropouts[where], **more}] if c.dropouts.get(where) else []


def _query_norm(c, name, entry, heads):
    """Queries or keys, [batch, positions, heads, depth], made to one size."""
    if c.query_norm == "apart":  # a module for each head, put beside each other
        nodes = [_norm(c, "norms.%d" % i, input="x[..., %d:%d, :]" % (i, i + 1), use_bias=False) for i in range(heads)]
        return {"type": "graph", "name": name, "input": entry, "nodes": nodes, "output": "concatenate([%s], axis=-2)" % ", ".join(n["name"] for n in nodes)}
    axes = {"head": {}, "heads": {"feature_axes": [-2, -1]}, "all": {"reduction_axes": [-2, -1], "feature_axes": [-2, -1]}}[c.query_norm]
    return _norm(c, name, input=entry, **axes)


def _attention(c, windowed, moving):
    r = c.row
    project = lambda name, heads, depth="$head": {"type": "linear_general", "name": name, "features": [heads, depth], "use_bias": c.query_bias,
                                                  "kernel_init": _normal(c), "input": "x"}
    if r["joined"]:
        [name] = r["query"]
        nodes = [project(name, "$heads + 2 * kv_heads") if r["joined"] == "parts" else project(name, "$heads", "$3 * head")]
        q, k, v = (name + part for part in (("[:, :, :heads]", "[:, :, heads:heads + kv_heads]", "[:, :, heads + kv_heads:]") if r["joined"] == "parts" else
                                            ("[..., :head]", "[..., head:2 * head]", "[..., 2 * head:]")))
    else:
        nodes = [project(name, heads) for name, heads in zip(r["query"], ("$heads", "$kv_heads", "$kv_heads"))]
        q, k, v = r["query"]
    if c.query_norm:
        nodes += [_query_norm(c, name, entry, heads) for name, entry, heads in zip(r["query_norms"], (q, k), (c.heads, c.kv_heads))]
        q, k = r["query_norms"]
    if moving:
        nodes += [{"type": "rope", "name": "q", "input": q}, {"type": "rope", "name": "k", "input": k}]
        q, k = "q", "k"
    scale = None if c.attention_scale is None else "attention_scale"
    mixed = "dot_product_attention(%s, %s, %s, is_causal=True%s%s)" % (q, k, v, ", scale=" + scale if scale else "", ", local_window_size=(window - 1, 0)" if windowed else "")
    if c.attention_cap or c.dropouts.get("attention"):  # what stands between scores, weights and sums
        keys = lambda name: "repeat(%s, heads // kv_heads, -2)" % name if c.heads > c.kv_heads else name
        scores = "einsum('bqhd,bkhd->bhqk', %s, %s) * %s" % (q, keys(k), scale or "head ** -0.5")
        far = "arange(shape(x)[1])[:, None] - arange(shape(x)[1])"
        nodes += [{"type": "expr", "name": "scores", "expr": "attention_cap * tanh(%s / attention_cap)" % scores if c.attention_cap else scores},
                  {"type": "expr", "name": "far", "expr": far},
                  {"type": "expr", "name": "weights", "expr": "softmax(where(%s, scores, -1e38), axis=-1)" % ("(far >= 0) & (far < window)" if windowed else "far >= 0")},
                  *_dropout(c, "attention", name="kept", input="weights")]
        mixed = "einsum('bhqk,bkhd->bqhd', %s, %s)" % ("kept" if c.dropouts.get("attention") else "weights", keys(v))
    out = {"type": "linear_general", "name": r["out"], "features": "$width", "axis": [-2, -1], "use_bias": c.out_bias, "kernel_init": _normal(c), "input": mixed}
    return {"body": {"type": "graph", "nodes": [*nodes, out], "output": r["out"]}}


def _mlp(c):
    *first, last = c.row["mlp"]
    linear = lambda name, features, entry: {"type": "linear", "name": name, "features": features, "use_bias": c.mlp_bias, "kernel_init": _normal(c), "input": entry}
    joined = first == ["gate_up_proj"]
    nodes = [linear(name, "$2 * inner" if joined else "$inner", "x") for name in first]
    turned = first[0] + ("[..., :inner]" if joined else "")
    if c.activation in ("silu", "swish"):
        turned = "silu(%s)" % turned
    else:
        nodes.append({**ACTIVATIONS[c.activation], "name": "gate", "input": turned})
        turned = "gate"
    entry = turned + (" * gate_up_proj[..., inner:]" if joined else " * " + first[1] if first[1:] else "")
    return {"body": {"type": "graph", "nodes": [*nodes, linear(last, "$width", entry)], "output": last}}


def _block(c, attention):
    """A layer: attention and the MLP, one after the other or beside each other, with norms before and after them."""
    names, attend, mlp = c.row["norms"], {"type": attention, "name": c.row["attention"]}, {"type": "mlp", "name": "mlp"}
    scaled = [{"type": "expr", "expr": "residual_scale * x"}] if c.residual_scale is not None else []
    branch = lambda before, what, after: [
        *([_norm(c, before)] if before else []), what, *([_norm(c, after)] if after else []), *_dropout(c, "residual"), *(_dropout(c, "mlp") if what is mlp else []), *scaled]
    if not c.parallel:
        return {"body": {"type": "sequential", "layers": [{"type": "residual", "name": "", "layers": branch(names[0], attend, names[1])},
                                                          {"type": "residual", "name": "", "layers": branch(names[2], mlp, names[3])}]}}
    first, second = names[0], names[0] if c.row["one_norm"] else names[2]
    nodes = [_norm(c, name, input="x") for name in dict.fromkeys((first, second))]
    nodes += [{**attend, "input": first}, {**mlp, "input": second}]
    ends = []
    for what, where in ((attend, ("residual",)), (mlp, ("residual", "mlp"))):
        kept = [node for w in where for node in _dropout(c, w, name="kept_" + what["name"], input=what["name"])]
        nodes += kept
        ends.append(kept[0]["name"] if kept else what["name"])
    return {"body": {"type": "graph", "nodes": nodes, "output": "x + %s + %s" % tuple(ends)}}


def document(c, options):
    r, define, named = c.row, {}, {}
    constants = {"vocabulary": c.vocabulary, "width": c.width, "layers": c.layers, "heads": c.heads, **({} if r["joined"] == "heads" else {"kv_heads": c.kv_heads}), "head": c.depth, "inner": c.inner}
    if any(moving for _, moving in c.kinds):
        define["rope"], more = rope.block(c)
        constants.update(more)
    if r["norm"] == "one":
        define["norm"] = {"body": {"type": "graph", "nodes": [{"type": "rms_norm", "name": "one", "epsilon": c.epsilon, "use_scale": False},
                                                              {"type": "param", "name": "scale", "shape": ["$width"]}], "output": "one * (1 + scale)"}}
    define["mlp"] = _mlp(c)
    for kind in dict.fromkeys(c.kinds):
        windowed, moving = kind
        word = ("windowed_" if windowed and len(set(c.kinds)) > 1 else "") + ("" if moving else "still_")
        define[word + "attention"], named[kind] = _attention(c, windowed, moving), word + "block"
        define[word + "block"] = _block(c, word + "attention")
    if any(windowed for windowed, _ in c.kinds):
        constants["window"] = c.window
    for key in ("embed_scale", "residual_scale", "attention_scale", "logit_scale", "attention_cap", "logit_cap"):
        if getattr(c, key) is not None:
            constants[key] = getattr(c, key)
    layers = {"type": "repeat", "name": "layers", "count": "$layers", "block": {"type": named[c.kinds[0]]}}
    if len(named) > 1:
        layers = {"type": "sequential", "name": "layers", "layers": [{"type": named[kind], "name": str(i)} for i, kind in enumerate(c.kinds)]}
        del constants["layers"]
    expression = lambda text: [{"type": "expr", "expr": text}]
    if c.pad is not None:
        constants["pad"] = c.pad
    model = {"type": "sequential", "input": "tokens", "layers": [
        {"type": "embed", "name": r["embed"], "num_embeddings": "$vocabulary", "features": "$width", "embedding_init": _normal(c)},
        *(expression("where((tokens == pad)[..., None], stop_gradient(x), x)") if c.pad is not None else []),
        *(expression("embed_scale * x") if c.embed_scale is not None else []), *_dropout(c, "embed"),
        layers, _norm(c, r["last_norm"]),
        {"type": "attend", "embedding": r["embed"]} if c.tied else
        {"type": "linear", "name": r["head"], "features": "$vocabulary", "use_bias": r["head_bias"], "kernel_init": _normal(c)},
        *(expression("logit_scale * x") if c.logit_scale is not None else []), *(expression("logit_cap * tanh(x / logit_cap)") if c.logit_cap is not None else [])]}
    return training(c, options, model, define, constants)


def _norm_weights(c, name, width):
    """Of a norm over the width."""
    return [same(name + ".weight", (width,), name + ".scale")] + ([same(name + ".bias", (width,), name + ".bias")] if c.row["norm"] == "layer" else [])


def _query_norm_weights(c, name, heads):
    if c.query_norm == "apart":
        return [same("%s.norms.%d.weight" % (name, i), (c.depth,), "%s.norms.%d.scale" % (name, i)) for i in range(heads)]
    if c.query_norm == "all":
        return [flattened(name + ".weight", (heads * c.depth,), name + ".scale", (heads, c.depth))]
    return [same(name + ".weight", (heads, c.depth), name + ".scale")] if c.query_norm == "heads" else _norm_weights(c, name, c.depth)


def _linear_weights(c, name, shape, bias, here=None, bias_here=None):
    """[out, in] there; `here` and `bias_here` are shapes of [in, out] and [out] with their dimensions split."""
    return [transposed(name + ".weight", shape, name + ".kernel", here)] + (
        [flattened(name + ".bias", shape[:1], name + ".bias", bias_here or shape[:1])] if bias else [])


def weights(c):
    r, w, depth = c.row, c.width, c.depth
    split = {None: ((c.heads, depth), (c.kv_heads, depth), (c.kv_heads, depth)), "parts": ((c.heads + 2 * c.kv_heads, depth),), "heads": ((c.heads, 3 * depth),)}[r["joined"]]
    *first, last = r["mlp"]
    table = [same(r["embed"] + ".weight", (c.vocabulary, w), r["embed"] + ".embedding")]
    for i in range(c.layers):
        at = "layers.%d." % i
        for norm in r["norms"]:
            if norm and not (c.parallel and r["one_norm"] and norm != r["norms"][0]):
                table += _norm_weights(c, at + norm, w)
        there = at + r["attention"] + "."
        for name, (heads, size) in zip(r["query"], split):
            table += _linear_weights(c, there + name, (heads * size, w), c.query_bias, (w, heads, size), (heads, size))
        if c.query_norm:
            for name, heads in zip(r["query_norms"], (c.heads, c.kv_heads)):
                table += _query_norm_weights(c, there + name, heads)
        table += _linear_weights(c, there + r["out"], (w, c.heads * depth), c.out_bias, (c.heads, depth, w))
        for name in first:
            table += _linear_weights(c, at + "mlp." + name, ((2 if name == "gate_up_proj" else 1) * c.inner, w), c.mlp_bias)
        table += _linear_weights(c, at + "mlp." + last, (w, c.inner), c.mlp_bias)
    table += _norm_weights(c, r["last_norm"], w)
    if not c.tied:
        table.append(transposed(c.head_name, (c.vocabulary, w), r["head"] + ".kernel"))
        table += [same(r["head"] + ".bias", (c.vocabulary,), r["head"] + ".bias")] if r["head_bias"] else []
    return table
