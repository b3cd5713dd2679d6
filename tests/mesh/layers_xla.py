"""Models of a few layers in JAX, read from their documents: what programs.py and tests/fuzz/layouts.py draw from."""
import jax
import jax.numpy as jnp


def convolution(m, layer, name, x):
    space = x.ndim - 2
    layout = ("NHWC", "HWIO", "NHWC") if space == 2 else ("NWC", "WIO", "NWC")
    return jax.lax.conv_general_dilated(x, m.p[name + ".kernel"], (layer.get("strides", 1),) * space, "SAME", dimension_numbers=layout,
                                        feature_group_count=layer.get("feature_group_count", 1)) + m.p[name + ".bias"]


def batch_norm(m, layer, name, x):
    rows = tuple(range(x.ndim - 1))
    mean, squares = x.mean(rows), (x * x).mean(rows)
    return (x - mean) * (jax.lax.rsqrt(squares - mean * mean + 1e-5) * m.p[name + ".scale"]) + m.p[name + ".bias"]


EXPRESSIONS = {"transpose(x, (0, 2, 1))": lambda x: x.transpose(0, 2, 1), "mean(x, axis=1)": lambda x: x.mean(1), "mean(x, axis=(1, 2))": lambda x: x.mean((1, 2))}
LAYERS = {
    "linear": lambda m, layer, name, x: m.linear(name, x),
    "layer_norm": lambda m, layer, name, x: m.norm(name, x),
    "multi_head_attention": lambda m, layer, name, x: m.attention(name, x),
    "tanh": lambda m, layer, name, x: jnp.tanh(x),
    "gelu": lambda m, layer, name, x: jax.nn.gelu(x),
    "sharding_constraint": lambda m, layer, name, x: m.hold(x, *layer["spec"]),
    "embed": lambda m, layer, name, x: jnp.take(m.p[name + ".embedding"], x, axis=0),
    "attend": lambda m, layer, name, x: x @ m.p["embedding.embedding"].T,
    "expr": lambda m, layer, name, x: EXPRESSIONS[layer["expr"]](x),
    "conv": convolution,
    "max_pool": lambda m, layer, name, x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, *layer["window_shape"], 1), (1, *layer["strides"], 1), "SAME"),
    "batch_norm": batch_norm,
}


def layers(m, layer, prefix, x):
    name = ".".join(n for n in (prefix, layer.get("name")) if n)
    if "layers" not in layer:
        return LAYERS[layer["type"]](m, layer, name, x)
    y = x
    for inner in layer["layers"]:
        y = layers(m, inner, name, y)
    return x + y if layer["type"] == "residual" else y
