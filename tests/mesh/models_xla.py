"""The programs of models.py in JAX, for traffic_xla.py."""
import jax
import jax.numpy as jnp
import optax


def square(y_hat, i):
    return jnp.mean((y_hat - i["y"])**2)


def labels(logits, i):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, i["labels"]))


def rms(m, name, x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * m.p[name + ".scale"]


def conv(m, name, x, padding="SAME"):
    return jax.lax.conv_general_dilated(x, m.p[name + ".kernel"], (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")) + m.p[name + ".bias"]


def two_experts(m, i):
    x = i["x"]
    gate = x @ m.p["gate.kernel"]
    shares = jax.nn.softmax(gate)
    first = jax.nn.one_hot(jnp.argmax(gate, -1), 8)
    second = jax.nn.one_hot(jnp.argmax(shares * (1 - first), -1), 8)
    at_first = jnp.cumsum(first, 1) * first
    at_second = (jnp.cumsum(second, 1) + jnp.sum(first, 1, keepdims=True)) * second
    dispatch = (first * (at_first <= 12))[..., None] * jax.nn.one_hot(at_first - 1, 12) + (second * (at_second <= 12))[..., None] * jax.nn.one_hot(at_second - 1, 12)
    weight = shares * (first + second)
    weight = weight / jnp.sum(weight, -1, keepdims=True)
    sent = m.hold(jnp.einsum("gsec,gsm->egcm", dispatch, x), "model", "batch")
    made = m.hold(jnp.einsum("egch,ehm->egcm", jax.nn.relu(jnp.einsum("egcm,emh->egch", sent, m.p["wi"])), m.p["wo"]), "model", "batch")
    return square(jnp.einsum("gsec,egcm->gsm", dispatch * weight[..., None], made), i)


def vision(split):
    def loss(m, i):
        def held(x):
            return m.hold(x, "batch", "model", None) if split else x
        x = m.linear("embedded", i["patches"])
        x = held(jnp.concatenate((jnp.broadcast_to(m.p["token"], (x.shape[0], 1, 128)), x), 1) + m.p["places"])
        for k in range(2):
            x = m.block("layers.b%d" % k, x, held)
        return labels(m.linear("head", x[:, 0]), i)
    return loss


def t5(m, i):
    def attends(name, x, seen, bias=0, causal=False):
        q, k, v = (jnp.einsum("btm,mhd->bthd", y, m.p["%s_%s.kernel" % (name, p)]) for p, y in (("query", x), ("key", seen), ("value", seen)))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias
        scores = jnp.where(jnp.tri(32, dtype=bool), scores, -1e9) if causal else scores
        return jnp.einsum("bthd,hdm->btm", jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v), m.p[name + "_out.kernel"])

    def mlp(name, x):
        return jax.nn.relu(x @ m.p[name + "_up.kernel"]) @ m.p[name + "_down.kernel"]
    apart = jnp.clip(jnp.arange(32)[None, :] - jnp.arange(32)[:, None], -16, 15) + 16
    encoder, decoder = (jnp.take(m.p[t], apart, axis=0).transpose(2, 0, 1) for t in ("encoder_table", "decoder_table"))
    table = m.p["x0.embedding"]
    x = jnp.take(table, i["tokens"], axis=0)
    n = rms(m, "n0", x)
    x = x + attends("encoder", n, n, encoder)
    x = x + mlp("encoder_mlp", rms(m, "n1", x))
    read, y = rms(m, "read", x), jnp.take(table, i["before"], axis=0)
    n = rms(m, "m0", y)
    y = y + attends("decoder", n, n, decoder, True)
    y = y + attends("across", rms(m, "m1", y), read)
    y = y + mlp("decoder_mlp", rms(m, "m2", y))
    return labels(rms(m, "last", y) @ table.T / 11.3137085, i)


def llama(m, i):
    def split(x):
        return m.hold(x, "batch", "model", None)
    angle = jnp.arange(32, dtype=jnp.float32)[:, None, None] * 0.1**jnp.arange(8, dtype=jnp.float32)

    def turned(x):
        return jnp.concatenate((x[..., :8] * jnp.cos(angle) - x[..., 8:] * jnp.sin(angle), x[..., 8:] * jnp.cos(angle) + x[..., :8] * jnp.sin(angle)), -1)
    x = split(i["x"])
    q, k, v = (jnp.einsum("btm,mhd->bthd", rms(m, "normed", x), m.p[n + ".kernel"]) for n in ("query", "key", "value"))
    x = x + split(jnp.einsum("bthd,hdm->btm", jax.nn.dot_product_attention(turned(q), turned(k), v, is_causal=True), m.p["out.kernel"]))
    inner = rms(m, "inner", x)
    return square(x + split((jax.nn.silu(inner @ m.p["gate.kernel"]) * (inner @ m.p["up.kernel"])) @ m.p["down.kernel"]), i)


def uneven_batch(m, i):
    x = m.hold(i["x"], "batch")
    for k in range(2):
        x = conv(m, "c%d" % k, x)
        mean = jnp.mean(x, (0, 1, 2))
        var = jnp.mean(x * x, (0, 1, 2)) - mean * mean
        x = jax.nn.relu((x - mean) * (jax.lax.rsqrt(var + 1e-5) * m.p["n%d.scale" % k]) + m.p["n%d.bias" % k])
    return labels(m.linear("head", jnp.mean(x, (1, 2))), i)


def adapted(m, i):
    def lora(name, x):
        return x @ m.p[name + ".lora_a"] @ m.p[name + ".lora_b"] + m.linear(name + ".base_module", x)
    x = i["x"]
    for k in "ab":
        x = x + lora(k + ".down", jax.nn.gelu(lora(k + ".up", x)))
    return square(x, i)


def deep(m, i):
    x = i["x"]
    for k in range(6):
        x = x + m.linear("l%d.down" % k, jax.nn.gelu(m.linear("l%d.up" % k, x)))
    return square(x, i)


def token_shift(m, i):
    def split(x):
        return m.hold(x, "batch", "model", None)

    def shifted(x):
        return jnp.concatenate((jnp.zeros_like(x[:, :1]), x[:, :-1]), 1)
    x = split(i["x"])
    normed = m.norm("normed", x)
    mixed = normed * m.p["share"] + shifted(normed) * (1 - m.p["share"])
    value = split(jax.nn.relu(mixed @ m.p["key.kernel"])**2 @ m.p["value.kernel"])
    return square(x + value * m.p["part"] + shifted(value) * (1 - m.p["part"]), i)


def shifted_windows(m, i):
    def held(x):
        return m.hold(x, "batch", "model", None, None)
    x = held(i["x"])
    for n, shift in (("a", 0), ("b", 2)):
        y = jnp.roll(x, (-shift, -shift), (1, 2)) if shift else x
        y = y.reshape(8, 8, 4, 4, 4, 64).transpose(0, 1, 3, 2, 4, 5).reshape(8, 8, 4, 16, 64)
        q, k, v = (jnp.einsum("bijtm,mhd->bijthd", y, m.p["%s_%s.kernel" % (n, p)]) + m.p["%s_%s.bias" % (n, p)] for p in ("query", "key", "value"))
        y = jnp.einsum("bijhqk,bijkhd->bijqhd", jax.nn.softmax(jnp.einsum("bijqhd,bijkhd->bijhqk", q, k)), v)
        y = jnp.einsum("bijthd,hdm->bijtm", y, m.p[n + "_out.kernel"]) + m.p[n + "_out.bias"]
        y = y.reshape(8, 8, 4, 4, 4, 64).transpose(0, 1, 3, 2, 4, 5).reshape(8, 32, 16, 64)
        x = held(x + (jnp.roll(y, (shift, shift), (1, 2)) if shift else y))
    return square(x, i)


def valid(m, i):
    def held(x):
        return m.hold(x, "batch", "model", None, None)
    x = held(i["x"])
    for k in range(2):
        x = held(jax.nn.relu(conv(m, "c%d" % k, x, "VALID")))
    return jnp.mean((held(jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")) - 0.3)**2)


def swapped(m, i):
    x = i["x"]
    for name, spec in (("first", ("data", "model")), ("second", ("model", "data")), ("third", ("data", "model"))):
        x = m.hold(jax.nn.relu(m.linear(name, x)), *spec)
    return square(x, i)


LOSSES = {"swapped": swapped, "swapped_uneven": swapped, "two_experts": two_experts, "vision": vision(False), "vision_sequence": vision(True), "t5": t5, "llama_sequence": llama, "convolution_norm_uneven": uneven_batch, "lora_fsdp": adapted,
          "deep_zero_3": deep, "token_shift": token_shift, "shifted_windows": shifted_windows, "convolution_valid": valid}
