#!/usr/bin/env python3
"""Records cases/noise_*: models that draw random numbers while they run, beside Flax NNX and jax.random. `--out DIR` writes
them elsewhere."""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import command, recorded

STEPS = 4


class Autoencoder(nnx.Module):
    def __init__(self, rngs):
        self.noise = rngs.noise.fork()
        self.encoder = nnx.List([nnx.Linear(16, 12, rngs=rngs), nnx.Linear(12, 8, rngs=rngs)])
        self.decoder = nnx.List([nnx.Linear(4, 12, rngs=rngs), nnx.Linear(12, 16, rngs=rngs)])

    def __call__(self, x):
        h = self.encoder[1](nnx.relu(self.encoder[0](x)))
        mean, log_variance = h[:, :4], h[:, 4:]
        z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(self.noise(), mean.shape)
        return self.decoder[1](nnx.relu(self.decoder[0](z))), mean, log_variance


def autoencoder_loss(model, x):
    out, mean, log_variance = model(x)
    return jnp.mean(jnp.sum((out - x)**2, -1) - 0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance), -1)), {}


def dense(first, second):
    return [{"type": "linear", "features": first}, {"type": "relu"}, {"type": "linear", "features": second}]


AUTOENCODER = {
    "inputs": {"x": {"shape": [8, 16], "axes": ["batch", None]}},
    "model": {"type": "graph", "nodes": [
        {"name": "encoder", "type": "sequential", "input": "x", "layers": dense(12, 8)},
        {"name": "noise", "type": "noise", "input": "encoder[:, :4]"},
        {"name": "decoder", "type": "sequential", "input": "encoder[:, :4] + exp(0.5 * encoder[:, 4:]) * noise", "layers": dense(12, 16)}],
        "output": {"out": "decoder", "mean": "encoder[:, :4]", "log_variance": "encoder[:, 4:]"}},
    "loss": "mean(sum((model.out - x)**2, axis=-1) - 0.5 * sum(1 + model.log_variance - model.mean**2 - exp(model.log_variance), axis=-1))"}
DISTRIBUTIONS = {
    "normal": ({}, lambda k, s: jax.random.normal(k, s)),
    "uniform": ({"minval": -1.5, "maxval": 0.25}, lambda k, s: jax.random.uniform(k, s, minval=-1.5, maxval=0.25)),
    "truncated_normal": ({"lower": -1, "upper": 0.5}, lambda k, s: jax.random.truncated_normal(k, -1, 0.5, s)),
    "bernoulli": ({"p": 0.3}, lambda k, s: jax.random.bernoulli(k, 0.3, s)),
    "rademacher": ({}, lambda k, s: jax.random.rademacher(k, s)), "exponential": ({}, lambda k, s: jax.random.exponential(k, s)),
    "gumbel": ({}, lambda k, s: jax.random.gumbel(k, s)), "logistic": ({}, lambda k, s: jax.random.logistic(k, s)),
    "laplace": ({}, lambda k, s: jax.random.laplace(k, s)), "cauchy": ({}, lambda k, s: jnp.arctan(jax.random.cauchy(k, s))),
    "randint": ({"minval": -5, "maxval": 100000}, lambda k, s: jax.random.randint(k, s, -5, 100000))}


class Distributions(nnx.Module):
    def __init__(self, rngs):
        self.forks = nnx.List([rngs.noise.fork() for _ in DISTRIBUTIONS])
        self.head = nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, x):
        drawn = [draw(fork(), x.shape) for fork, (_, draw) in zip(self.forks, DISTRIBUTIONS.values())]
        return self.head(x + sum(d.astype(jnp.float32) for d in drawn[:4])), drawn


def distributions_loss(model, x):
    out, drawn = model(x)
    return jnp.mean(out**2), {name: d.astype(jnp.float32) for name, d in zip(DISTRIBUTIONS, drawn)}


def distributions():
    nodes = [dict({"name": name, "type": "noise", "distribution": name, "input": "x"}, **more) for name, (more, _) in DISTRIBUTIONS.items()]
    nodes.append({"name": "head", "type": "linear", "features": 2, "input": "x + " + " + ".join(list(DISTRIBUTIONS)[:4])})
    names = {name: "arctan(cauchy)" if name == "cauchy" else name for name in DISTRIBUTIONS}
    return {"inputs": {"x": {"shape": [6, 3], "axes": ["batch", None]}},
            "model": {"type": "graph", "nodes": nodes, "output": dict(names, head="head")}, "loss": "mean(model.head**2)",
            "metrics": {name: "astype(model.%s, 'float32')" % name for name in DISTRIBUTIONS}}


CASES = {"noise_autoencoder": (AUTOENCODER, Autoencoder, autoencoder_loss, [[], ["--mesh", "data=2"], ["--mesh", "data=4"]]),
         # the numbers are those of the whole batch, however it is split: the same is expected
         "noise_microbatches": (dict(AUTOENCODER, accumulate={"microbatch_size": 2}), Autoencoder, autoencoder_loss, [[], ["--mesh", "data=2"]]),
         "noise_per_example": (dict(AUTOENCODER, per_example={"microbatch_size": 4, "accumulator": "mean"}), Autoencoder, autoencoder_loss, [[]]),
         "noise_distributions": (distributions(), Distributions, distributions_loss, [[], ["--mesh", "data=2"]])}


def path_of(path):
    return ".".join("layers.%d" % (2 * p) if isinstance(p, int) else p for p in path)  # an activation lies between two


def record(name, out):
    document, module, loss, variants = CASES[name]
    document = dict({"stepc": 1, "name": name}, **document, optimizer={"type": "adam", "learning_rate": 0.01},
                    seed={"params": 1, "noise": 5})
    shape = document["inputs"]["x"]["shape"]
    data = np.random.default_rng(3).normal(size=[STEPS] + shape).astype(np.float32)
    model = module(nnx.Rngs(params=1, noise=5))
    opt = nnx.Optimizer(model, optax.adam(0.01), wrt=nnx.Param)
    expected = {"loss": []}
    for x in data:
        (value, metrics), grads = nnx.value_and_grad(lambda m: loss(m, x), has_aux=True)(model)
        opt.update(model, grads)
        for key, v in dict(metrics, loss=value).items():
            expected.setdefault(key, []).append(np.asarray(v, np.float32).tolist())
    final = nnx.to_flat_state(nnx.state(model, nnx.Param))
    recorded.record(name, document, {"x": data}, None, STEPS, {path_of(path): np.asarray(value[...]) for path, value in final}, expected, 2e-4, 2e-5, variants=variants, out=out)


if __name__ == "__main__":
    command.record(__doc__, list(CASES), record)
