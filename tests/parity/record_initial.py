#!/usr/bin/env python3
"""Records cases/init_bfloat16*, init_float16*: initial values that are drawn in 16 bits, by every initializer and by the layers of
Flax NNX with `param_dtype`. Run from anywhere; `--out DIR` writes them elsewhere."""
import argparse
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "fuzz")]
from tool import recorded

INITIALIZERS = [{"type": "zeros"}, {"type": "ones"}, {"type": "constant", "value": 0.3}, {"type": "normal"}, {"type": "normal", "stddev": 0.37}, {"type": "uniform"},
                {"type": "uniform", "scale": 0.7}, {"type": "truncated_normal"}, {"type": "truncated_normal", "stddev": 0.37, "lower": -1.3, "upper": 0.7},
                {"type": "truncated_normal", "stddev": 1.0, "lower": 0.1, "upper": 1.7}, {"type": "truncated_normal", "stddev": 1.0, "lower": -1, "upper": 0},
                {"type": "truncated_normal", "stddev": 1.0, "lower": -1.05, "upper": 0.33}]
SCALED = [{"type": a + b} for a in ("lecun", "glorot", "xavier", "he", "kaiming") for b in ("_normal", "_uniform")]
SCALED += [{"type": "variance_scaling", "scale": 1.7, "mode": m, "distribution": d} for m in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg") for d in ("truncated_normal", "normal", "uniform")]
SCALED += [{"type": "variance_scaling", "scale": 0.3, "mode": "fan_in", "distribution": "normal", "in_axis": 1, "out_axis": 0}]


def initializer(o):
    make = getattr(jax.nn.initializers, o["type"])
    return make if o["type"] in ("zeros", "ones") else make(**{k: v for k, v in o.items() if k != "type"})


def of_initializers(dtype):
    """A bare parameter by every initializer."""
    rngs, nodes, values = nnx.Rngs(7), [], {}
    for i, o in enumerate(INITIALIZERS + SCALED):
        shape = [5, 7] if i < len(INITIALIZERS) else [9, 6]
        nodes.append({"type": "param", "name": "p%d" % i, "shape": shape, "dtype": dtype, "init": o})
        values["p%d" % i] = initializer(o)(rngs.params(), tuple(shape), jnp.dtype(dtype))
    return nodes, values, {}


def of_layers(dtype):
    """Layers with param_dtype."""
    rngs, nodes, values = nnx.Rngs(11), [], {}
    layers = [("linear", nnx.Linear, (5, 7), {"features": 7}, {}), ("conv", nnx.Conv, (5, 4), {"features": 4, "kernel_size": [3]}, {"kernel_size": (3,)}),
              ("embed", nnx.Embed, (9, 5), {"num_embeddings": 9, "features": 5}, {}), ("layer_norm", nnx.LayerNorm, (5,), {}, {}),
              ("multi_head_attention", nnx.MultiHeadAttention, (), {"num_heads": 2, "qkv_features": 6}, {"num_heads": 2, "in_features": 5, "qkv_features": 6, "decode": False}),
              ("lora", nnx.LoRA, (5, 2, 7), {"features": 7, "lora_rank": 2}, {}), ("linear_general", nnx.LinearGeneral, (5, (2, 3)), {"features": [2, 3]}, {})]
    for kind, make, positional, document, arguments in layers:
        module = make(*positional, **arguments, param_dtype=jnp.dtype(dtype), rngs=rngs)
        nodes.append({"type": kind, "name": kind, "param_dtype": dtype, **document, "input": "i" if kind == "embed" else "x"})
        for path, v in nnx.to_flat_state(nnx.state(module, nnx.Param)):
            values[".".join([kind, *map(str, path)])] = v[...]
    return nodes, values, {}


def of_precision(dtype):
    """The same by `precision`."""
    nodes, values, _ = of_layers(dtype)
    return [{k: v for k, v in n.items() if k != "param_dtype"} for n in nodes], values, {"precision": {"params": dtype}}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", default=recorded.CASES)
    options = p.parse_args()
    for dtype in ("bfloat16", "float16"):
        for name, make, seed in (("initializers", of_initializers, 7), ("layers", of_layers, 11), ("precision", of_precision, 11)):
            nodes, values, more = make(dtype)
            case = "init_%s_%s" % (dtype, name)
            document = {"stepc": 1, "name": case, "inputs": {"x": {"shape": [2, 4, 5], "dtype": "float32"}, "i": {"shape": [2], "dtype": "int32"}}, "seed": seed,
                        "model": {"type": "graph", "nodes": nodes, "output": nodes[0]["name"]}, "loss": "sum(model)", "optimizer": {"type": "sgd", "learning_rate": 0.1}, **more}
            data = {"x": np.zeros((1, 2, 4, 5), np.float32), "i": np.zeros((1, 2), np.int32)}
            recorded.record(case, document, data, None, 0, {k: np.asarray(v, np.float32) for k, v in values.items()}, {}, 1e-6, 0, "drawn in 16 bits", out=options.out)


if __name__ == "__main__":
    main()
