"""Records model_cases.json: blocks of the language beside the same Flax NNX layers: initial values by path, drawn from
a seed, and the output for fixed inputs."""
import json
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

X = np.sin(np.arange(24)).astype(np.float32).reshape(2, 3, 4)
INPUTS = {"x": X, "m": np.cos(np.arange(20)).astype(np.float32).reshape(2, 5, 2), "i": np.array([[1, 3], [0, 4]], np.int32),
          "mask": np.array([[1, 1, 0], [1, 0, 1]]) > 0}
init = nnx.initializers


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(4, rngs=rngs)
        self.up = nnx.Linear(4, 6, rngs=rngs)
        self.down = nnx.Linear(6, 4, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


CASES = [
    ("linear", {"type": "linear", "features": 3}, lambda r: nnx.Linear(4, 3, rngs=r), "x"),
    ("linear_options", {"type": "linear", "features": 3, "in_features": 4, "use_bias": True, "kernel_init": {"type": "he_uniform"},
                        "bias_init": {"type": "normal", "stddev": 0.5}},
     lambda r: nnx.Linear(4, 3, kernel_init=init.he_uniform(), bias_init=init.normal(0.5), rngs=r), "x"),
    ("linear_general", {"type": "linear_general", "features": [2, 2], "axis": [1, 2]}, lambda r: nnx.LinearGeneral((3, 4), (2, 2), axis=(1, 2), rngs=r), "x"),
    ("linear_general_batch", {"type": "linear_general", "features": 3, "batch_axis": {"0": 2}},
     lambda r: nnx.LinearGeneral(4, 3, batch_axis={0: 2}, rngs=r), "x"),
    ("einsum", {"type": "einsum", "einsum_str": "abc,cd->abd", "kernel_shape": [4, 3], "bias_shape": [3]},
     lambda r: nnx.Einsum("abc,cd->abd", (4, 3), (3,), rngs=r), "x"),
    ("embed", {"type": "embed", "num_embeddings": 5, "features": 4}, lambda r: nnx.Embed(5, 4, rngs=r), "i"),
    ("layer_norm", {"type": "layer_norm", "epsilon": 1e-5, "scale_init": {"type": "uniform", "scale": 2}, "bias_init": {"type": "constant", "value": 0.25}},
     lambda r: nnx.LayerNorm(4, epsilon=1e-5, scale_init=init.uniform(2.0), bias_init=init.constant(0.25), rngs=r), "x"),
    ("layer_norm_slow", {"type": "layer_norm", "use_fast_variance": False, "use_bias": False}, lambda r: nnx.LayerNorm(4, use_fast_variance=False, use_bias=False, rngs=r), "x"),
    ("rms_norm", {"type": "rms_norm"}, lambda r: nnx.RMSNorm(4, rngs=r), "x"),
    ("mha", {"type": "multi_head_attention", "num_heads": 2}, lambda r: nnx.MultiHeadAttention(2, 4, rngs=r, decode=False), "x"),
    ("mha_causal", {"type": "multi_head_attention", "num_heads": 2, "mask": "make_causal_mask(x[..., 0])", "qkv_features": 8, "normalize_qk": True},
     lambda r: (lambda m: [m, lambda x: m(x, mask=nnx.make_causal_mask(x[..., 0]))])(nnx.MultiHeadAttention(2, 4, 8, rngs=r, normalize_qk=True, decode=False)), "x"),
    ("mha_is_causal", {"type": "multi_head_attention", "num_heads": 2, "is_causal": True, "use_bias": False},
     lambda r: (lambda m: [m, lambda x: m(x, mask=nnx.make_causal_mask(x[..., 0]))])(nnx.MultiHeadAttention(2, 4, rngs=r, use_bias=False, decode=False)), "x"),
    ("mha_cross", {"type": "multi_head_attention", "num_heads": 2, "out_features": 3, "inputs": ["x", "m"],
                   "mask": "make_attention_mask(mask, ones((2, 5)))"},
     lambda r: (lambda m: [m, lambda x: m(x, jnp.asarray(INPUTS["m"]), mask=nnx.make_attention_mask(INPUTS["mask"], jnp.ones((2, 5))))])(
         nnx.MultiHeadAttention(2, 4, 4, 3, 2, rngs=r, decode=False)), "x"),
    ("dropout_off", {"type": "dropout", "rate": 0.5, "deterministic": True}, lambda r: nnx.Dropout(0.5, deterministic=True, rngs=r), "x"),
    ("residual", {"type": "residual", "layers": [{"type": "layer_norm", "name": "norm"}, {"type": "linear", "features": 6, "name": "up"},
                                                 {"type": "gelu"}, {"type": "linear", "features": 4, "name": "down", "use_bias": False}]}, Block, "x"),
    ("sequential", {"type": "sequential", "layers": [{"type": "linear", "features": 5}, {"type": "relu"}, {"type": "linear", "features": 2}]},
     lambda r: nnx.Sequential(nnx.Linear(4, 5, rngs=r), nnx.relu, nnx.Linear(5, 2, rngs=r)), "x"),
]


def flat(a):
    return [float(v) if np.asarray(a).dtype.kind == "f" else int(v) for v in np.asarray(a).ravel()]


out = []
for seed, (name, block, make, start) in enumerate(CASES):
    made = make(nnx.Rngs(seed))
    module, call = made if isinstance(made, list) else (made, made)
    params = {".".join(map(str, path)): v for path, v in nnx.to_flat_state(nnx.state(module, nnx.Param))}
    model = dict(block) if "inputs" in block else dict(block, input=start)
    out.append({"name": name, "seed": seed, "model": model, "params": {k: flat(v[...]) for k, v in params.items()},
                "shape": list(call(jnp.asarray(INPUTS[start])).shape), "output": flat(call(jnp.asarray(INPUTS[start])))})
inputs = {k: {"dtype": str(v.dtype), "shape": list(v.shape), "values": flat(v)} for k, v in INPUTS.items()}
with open("tests/unit/frontend/model_cases.json", "w") as f:
    f.write('{"inputs": ' + json.dumps(inputs) + ',\n"cases": [\n' + ",\n".join(json.dumps(c) for c in out) + "\n]}\n")
print(len(out), "cases")
