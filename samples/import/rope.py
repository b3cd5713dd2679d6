"""Rotary positions as the decoders of transformers have them: what config.json says of the frequencies, and the block that turns."""
import math

from config import is_number

# rope_type -> numbers that it needs, and others that it takes.
KINDS = {"default": ((), ()), "linear": (("factor",), ()),
         "llama3": (("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"), ()),
         "dynamic": (("factor",), ("original_max_position_embeddings",)),
         "yarn": (("factor",), ("attention_factor", "beta_fast", "beta_slow", "original_max_position_embeddings", "truncate"))}
LONG = {"default": KINDS["default"], "longrope": (("short_factor", "long_factor"), ("factor", "attention_factor", "original_max_position_embeddings"))}


def read(config, kinds, theta, theta_key, share, share_key):
    """The base, the kind, its numbers, and which share of a head is turned. Newer files have all of it in "rope_parameters", older ones
    "rope_scaling" beside keys of their own; what an object says goes first, as there. `share_key` None: all of a head, always."""
    parameters = config.get("rope_parameters", {})
    key = "rope_parameters" if parameters else "rope_scaling"
    scaling = parameters or config.get("rope_scaling", {})
    config.get("rope_scaling")
    if type(scaling) is not dict:
        config.fail(key, "an object is needed")
    scaling = dict(scaling)
    base, outside = scaling.pop("rope_theta", None), config.number(theta_key, theta)
    base = outside if base is None else base
    if not is_number(base) or base <= 1:
        config.fail(key if theta_key not in config.values else theta_key, "a base above 1 is needed")
    kind = scaling.pop("rope_type", None) or scaling.pop("type", None) or "default"
    scaling.pop("type", None)
    kind = "longrope" if kind in ("su", "yarn") and kinds is LONG else kind  # former names of it in Phi-3's files
    if type(kind) is not str or kind not in kinds:
        config.fail(key, "its rope_type \"%s\" is not supported; there are %s" % (kind, ", ".join(kinds)))
    partial = scaling.pop("partial_rotary_factor", None)
    if share_key is None:
        config.only("partial_rotary_factor", 1.0)
        if partial not in (None, 1.0):
            config.fail(key, "\"partial_rotary_factor\" is not supported")
        partial = 1.0
    else:
        outside = config.number(share_key, share)
        partial = outside if partial is None else partial
        if not is_number(partial) or not 0 < partial <= 1:
            config.fail(key if share_key not in config.values else share_key, "a share of a head, above 0 and at most 1, is needed")
    wanted, optional = kinds[kind]
    for name in wanted:
        lists = name.endswith("_factor") and kind == "longrope"
        good = (lambda v: type(v) is list and v and all(is_number(n) and n > 0 for n in v)) if lists else (lambda v: is_number(v) and v > 0)
        if not good(scaling.get(name)):
            config.fail(key, "rope_type \"%s\" needs a %s\"%s\"" % (kind, "list of positive numbers " if lists else "positive ", name))
    for name, value in scaling.items():
        if name not in wanted and value is not None and (type(value) is not bool if name == "truncate" else not is_number(value) or value <= 0):
            config.fail(key, "\"%s\" of rope_type \"%s\": %s is needed" % (name, kind, "true or false" if name == "truncate" else "a positive number"))
    extra = sorted(name for name in scaling if name not in wanted + optional)
    if extra:
        config.fail(key, "\"%s\" is not supported" % extra[0])
    return float(base), kind, scaling, float(partial)


def _yarn(c, plain):
    """Peng et al. 2023: pairs that turn often keep their frequency, slow ones are divided by the factor, a ramp between them."""
    s = c.scaling
    length = s.get("original_max_position_embeddings") or c.positions
    pair = lambda turns: c.turned * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(c.base))
    low, high = pair(s.get("beta_fast") or 32), pair(s.get("beta_slow") or 1)
    if s.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, c.turned - 1)
    ramp = "clip((arange(half) - rope_low) / (rope_high - rope_low), 0, 1)"
    return "(%s) * (1 - %s * (1 - 1 / rope_factor))" % (plain, ramp), {
        "rope_factor": s["factor"], "rope_low": low, "rope_high": high + (0.001 if low == high else 0),
        "rope_scale": s.get("attention_factor") or (0.1 * math.log(s["factor"]) + 1.0 if s["factor"] > 1 else 1.0)}


def _long(c, plain):
    """Ding et al. 2024: a factor for every pair, others for texts that are longer than those of the first training."""
    s = c.scaling
    first = s["original_max_position_embeddings"]
    factor = s.get("factor") or c.positions / first
    scale = s.get("attention_factor") or (math.sqrt(1 + math.log(factor) / math.log(first)) if factor > 1 else 1.0)
    return "(%s) / where(shape(x)[1] > rope_length, array(%s), array(%s))" % (plain, [float(n) for n in s["long_factor"]], [float(n) for n in s["short_factor"]]), {
        "rope_length": first, "rope_scale": scale}


def frequencies(c):
    """An expression for the frequencies of the pairs, [half], and the constants in it."""
    plain = "rope_base ** (-arange(half) / half)"
    if c.rope in ("default", "dynamic"):  # dynamic: until a text is longer than the model's positions
        return plain, {}
    if c.rope in ("yarn", "longrope"):
        return (_yarn if c.rope == "yarn" else _long)(c, plain)
    s = c.scaling
    if c.rope == "linear":
        return "%s / rope_factor" % plain, {"rope_factor": s["factor"]}
    names = {"rope_factor": s["factor"], "rope_low": s["low_freq_factor"], "rope_high": s["high_freq_factor"],
             "rope_length": s["original_max_position_embeddings"]}
    # Waves longer than length/low are slowed down, those shorter than length/high are not, between them it blends.
    blend = "clip((rope_length * {f} / (2 * pi) - rope_low) / (rope_high - rope_low), 0, 1)".format(f="(%s)" % plain)
    return "({f}) * ({b} + (1 - {b}) / rope_factor)".format(f=plain, b=blend), names


def block(c):
    """The body of the block that turns x, and its constants. Pairs are an element of the first half and one of the second, or neighbours."""
    text, constants = frequencies(c)
    scaled = " * rope_scale" if "rope_scale" in constants else ""
    part = c.turned < c.depth
    first, second = ("x[..., :2 * half:2]", "x[..., 1:2 * half:2]") if c.neighbours else ("x[..., :half]", "x[..., half:2 * half]" if part else "x[..., half:]")
    a, b = "%s * c - %s * s" % (first, second), "%s * c + %s * s" % (second, first)
    rest = ", x[..., 2 * half:]" if part else ""
    turned = "concatenate([%s, %s%s], axis=-1)" % (a, b, rest)
    if c.neighbours:
        turned = "stack([%s, %s], axis=-1).reshape(shape(x)[0], shape(x)[1], shape(x)[2], 2 * half)" % (a, b)
        turned = "concatenate([%s%s], axis=-1)" % (turned, rest) if part else turned
    return {"params": {"half": "$turned // 2"}, "body": {"type": "graph", "nodes": [
        {"type": "expr", "name": "angle", "expr": "arange(shape(x)[1])[:, None] * (%s)" % text},
        {"type": "expr", "name": "c", "expr": "cos(angle)[:, None]%s" % scaled},
        {"type": "expr", "name": "s", "expr": "sin(angle)[:, None]%s" % scaled}],
        "output": turned}}, {"turned": c.turned, "rope_base": c.base, **constants}
