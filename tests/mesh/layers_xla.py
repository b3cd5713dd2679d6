"""Models of a few layers in JAX, read from their documents: what programs.py and tests/fuzz/layouts.py draw from."""
import jax
import jax.numpy as jnp


def convolution(m, layer, name, x):
    stride = layer.get("strides", 1)
    return jax.lax.conv_general_dilated(x, m.p[name + ".kernel"], (stride,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + m.p[name + ".bias"]


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
}


def layers(m, layer, prefix, x):
    name = ".".join(n for n in (prefix, layer.get("name")) if n)
    if "layers" not in layer:
        return LAYERS[layer["type"]](m, layer, name, x)
    y = x
    for inner in layer["layers"]:
        y = layers(m, inner, name, y)
    return x + y if layer["type"] == "residual" else y
