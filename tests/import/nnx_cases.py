"""Models of Flax NNX with optimizers of Optax for nnx.py; needs flax and optax."""
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import stepc_optax as optax

R = np.random.default_rng(0)
F = lambda *shape: R.standard_normal(shape).astype(np.float32)
I = lambda limit, *shape: R.integers(0, limit, shape).astype(np.int32)
SQUARED = lambda out, x, y: jnp.mean((out - y) ** 2)
LABELS = {"type": "softmax_cross_entropy_with_integer_labels", "logits": "model", "labels": "y", "reduction": "mean"}


class Own(nnx.Module):
    """Arithmetic of its own between layers, a bare parameter, a list, a layer used twice."""

    def __init__(self, rngs):
        self.fc, self.norm = nnx.Linear(4, 8, rngs=rngs), nnx.LayerNorm(4, rngs=rngs)
        self.blocks = nnx.List([nnx.Linear(8, 4, use_bias=i > 0, rngs=rngs) for i in range(2)])
        self.scale = nnx.Param(jnp.linspace(0.5, 1.5, 4))

    def __call__(self, x):
        h = nnx.gelu(self.fc(self.norm(x)))
        for block in self.blocks:
            x = x + block(h) * self.scale.value
        h = nnx.relu(self.fc(x))
        return jnp.concatenate([jnp.mean(h, axis=1), jax.nn.softmax(x[:, 0])], axis=-1)


class Transformer(nnx.Module):
    def __init__(self, rngs):
        self.embed, self.positions = nnx.Embed(11, 8, rngs=rngs), nnx.Param(jax.random.normal(rngs.params(), (6, 8)) * 0.1)
        self.norm, self.attention = nnx.RMSNorm(8, rngs=rngs), nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, x):
        h = self.embed(x) + self.positions.value
        h = h + self.attention(self.norm(h), mask=nnx.make_causal_mask(x))
        h = h + self.down(nnx.silu(self.up(h)))
        return h @ self.embed.embedding.value.T


class Pictures(nnx.Module):
    """Convolutions both ways, pooling by functions, what layers there are between them; the last row is used twice."""

    def __init__(self, rngs):
        self.down, self.norm = nnx.Conv(2, 4, (3, 3), padding="VALID", rngs=rngs), nnx.BatchNorm(4, rngs=rngs)
        self.up, self.instance, self.slope = nnx.ConvTranspose(4, 3, (3,), strides=(2,), rngs=rngs), nnx.InstanceNorm(3, rngs=rngs), nnx.PReLU()
        self.drop, self.head = nnx.Dropout(0.0, rngs=rngs), nnx.LoRALinear(3, 3, lora_rank=2, rngs=rngs)
        self.adapted = nnx.LoRA(3, 2, 3, base_module=nnx.Linear(3, 3, rngs=rngs), rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.norm(self.down(x)))
        x = nnx.max_pool(x, (2, 2), (2, 2)) + nnx.avg_pool(x, (3, 3), (2, 2), padding=((1, 0), (1, 0)))
        x = self.slope(self.instance(self.up(x.mean(axis=1))))
        return self.head(self.drop(x[:, -1] + self.adapted(x[:, 0])))


class Tagger(nnx.Module):
    """Recurrent layers over a table that is also the output; a position by an index that is computed."""

    def __init__(self, rngs):
        self.embed = nnx.Embed(7, 6, rngs=rngs)
        self.lstm = nnx.RNN(nnx.LSTMCell(6, 5, gate_fn=jax.nn.hard_sigmoid, rngs=rngs))
        self.both = nnx.Bidirectional(nnx.RNN(nnx.GRUCell(5, 3, rngs=rngs)), nnx.RNN(nnx.SimpleCell(5, 3, activation_fn=nnx.relu, rngs=rngs)))
        self.positions = nnx.Param(jax.random.normal(rngs.params(), (5, 6)))

    def __call__(self, x):
        h = self.embed(x) + self.positions.value[x % 5]
        return self.embed.attend(self.both(self.lstm(h, seq_lengths=jnp.sum(x > 0, axis=1))))


class Mixed(nnx.Module):
    """A table that is computed once, a block that is computed again in the backward pass, states that begin elsewhere, two results."""

    def __init__(self, rngs):
        self.inner, self.start = nnx.Linear(6, 6, rngs=rngs), nnx.Linear(6, 4, rngs=rngs)
        self.rnn, self.turn = nnx.RNN(nnx.GRUCell(6, 4, rngs=rngs)), nnx.Einsum("bta,ac->btc", (4, 5), rngs=rngs)

    @nnx.remat
    def block(self, x):
        return x + nnx.tanh(self.inner(x))

    def __call__(self, x):
        angles = jnp.arange(5)[:, None] * jnp.exp(jnp.arange(0, 6, 2) * -0.7)
        x = self.block(x + jnp.zeros((5, 6)).at[:, 0::2].set(jnp.sin(angles)).at[:, 1::2].set(jnp.cos(angles)))
        h = self.turn(self.rnn(x, initial_carry=self.start(x[:, 0])), einsum_str="bta,ac->bct")
        return {"logits": h.mean(axis=-1), "best": jax.lax.top_k(h[:, 0], 2)[0]}


def mixed_loss(out, x, y):
    import optax as plain
    return plain.softmax_cross_entropy_with_integer_labels(out["logits"], y).mean() + 0.1 * jnp.mean(out["best"] ** 2)


class Changed(nnx.Module):
    """What is done to the parameters of layers before they are called: a mask, weights made standard, weights that are rounded; a product
    of one's own in two layers, a layer that is called as it is first; a parameter by the name of an input, a counter, statistics that
    no longer change, and a constant."""

    def __init__(self, rngs):
        self.pruned, self.standard, self.rounded = (nnx.Linear(4, 4, rngs=rngs) for _ in range(3))
        self.mask, self.calls, self.x = nnx.Variable(jnp.eye(4)[::-1] + jnp.eye(4)), nnx.Variable(jnp.zeros((), jnp.int32)), nnx.Param(jnp.ones(4))
        self.doubled = nnx.Linear(4, 6, dot_general=lambda a, b, dims, **more: 2 * jax.lax.dot_general(a, b, dims), rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 6, decode=False, rngs=rngs,
                                                qkv_dot_general=lambda a, b, dims, **more: jax.lax.dot_general(a * 0.5, b, dims))
        self.norm = nnx.BatchNorm(6, use_running_average=True, rngs=rngs)
        self.norm.mean.value = jnp.linspace(-1, 1, 6)

    def changed(self, layer, change, x):
        kernel = layer.kernel.value
        layer.kernel.value = change(kernel)
        out = layer(x)
        layer.kernel.value = kernel
        return out

    def __call__(self, x):
        self.calls.value = self.calls.value + 1
        x = self.pruned(x * self.x.value) + self.changed(self.pruned, lambda k: k * self.mask.value, x)
        x = self.changed(self.standard, lambda k: (k - k.mean(0)) / (k.std(0) + 1e-5), x)
        x = self.changed(self.rounded, lambda k: k + jax.lax.stop_gradient(jnp.round(k * 16) / 16 - k), nnx.tanh(x)) + self.rounded(x)
        return self.norm(self.attention(self.doubled(x)))


class Stacked(nnx.Module):
    """Layers whose parameters are stacked, one after the other and beside one another; a recurrent layer around a cell of one's own."""

    def __init__(self, rngs):
        stack = nnx.vmap(lambda key: nnx.Linear(4, 4, rngs=nnx.Rngs(key)), in_axes=0, out_axes=0)
        self.deep, self.wide = stack(jax.random.split(rngs.params(), 3)), stack(jax.random.split(rngs.params(), 2))
        self.times = nnx.RNN(Cell(rngs))

    def __call__(self, x):
        x = nnx.scan(lambda x, layer: jnp.tanh(layer(x)), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)(x, self.deep)
        x = nnx.vmap(lambda layer, x: layer(x), in_axes=(0, None))(self.wide, x).sum(0)
        return self.times(x)


class Again(nnx.Module):
    """Layers that are called twice and not alike, one Param in two layers, names that the converter might have made itself."""

    def __init__(self, rngs):
        self.attention, self.norm = nnx.MultiHeadAttention(2, 4, decode=False, rngs=rngs), nnx.LayerNorm(4, rngs=rngs)
        self.t1, self.norm_again1 = nnx.Linear(4, 4, rngs=rngs), nnx.Linear(4, 4, rngs=rngs)
        self.times, self.drop = nnx.RNN(nnx.GRUCell(4, 4, rngs=rngs)), nnx.Dropout(0.5, rngs=rngs)
        self.norm_again1.bias = self.t1.bias

    def __call__(self, x):
        x = self.attention(self.attention(x, mask=nnx.make_causal_mask(x[..., 0]))) + self.drop(x, deterministic=True)
        x = self.norm(self.t1(x), mask=x > -1) + self.norm(self.norm_again1(x)) + self.norm(x)
        return self.times(self.times(x, reverse=True), initial_carry=nnx.tanh(x[:, 0]))


class Cell(nnx.Module):
    num_feature_axes = 1

    def __init__(self, rngs):
        self.inner = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, carry, x):
        carry = 0.9 * carry + nnx.tanh(self.inner(x))
        return carry, carry

    def initialize_carry(self, input_shape, rngs=None, carry_init=None):
        return jnp.zeros(input_shape[:-1] + (4,))


MATRICES = lambda params: jax.tree.map(lambda p: p.ndim > 1, params)
CASES = {
    "mixed": lambda: (Mixed(nnx.Rngs(0)), optax.adam(1e-2), {"x": F(3, 5, 6), "y": I(5, 3)}, mixed_loss),
    "alone": lambda: (nnx.Conv(2, 4, (3,), padding="CAUSAL", rngs=nnx.Rngs(0)), optax.sgd(0.1), {"x": F(3, 5, 2), "y": F(3, 5, 4)}, SQUARED),
    "pictures": lambda: (Pictures(nnx.Rngs(0)), optax.chain(optax.masked(optax.add_decayed_weights(0.1), MATRICES), optax.rmsprop(1e-2)),
                         {"x": F(4, 8, 8, 2), "y": I(3, 4)}, LABELS),
    "tagger": lambda: (Tagger(nnx.Rngs(0)), optax.partition({"matrix": optax.contrib.muon(1e-2), "rest": optax.adam(1e-2)},
                                                            lambda params: jax.tree.map(lambda p: "matrix" if p.ndim == 2 else "rest", params)),
                       {"x": I(7, 3, 5), "y": I(7, 3, 5)}, LABELS),
    "sequential": lambda: (nnx.Sequential(nnx.Linear(4, 8, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(8, 3, rngs=nnx.Rngs(1))),
                           optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 10), weight_decay=0.1), {"x": F(6, 4), "y": I(3, 6)}, LABELS),
    "own": lambda: (Own(nnx.Rngs(0)), optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(optax.exponential_decay(0.1, 2, 0.9), momentum=0.9)),
                    {"x": F(3, 5, 4), "y": F(3, 12)}, SQUARED),
    "transformer": lambda: (Transformer(nnx.Rngs(0)), optax.MultiSteps(optax.adam(1e-2), 2), {"x": I(11, 2, 6), "y": I(11, 2, 6)}, LABELS),
    "images": lambda: (nnx.Sequential(nnx.Conv(2, 8, (3, 3), strides=(2, 2), rngs=nnx.Rngs(0)), nnx.BatchNorm(8, rngs=nnx.Rngs(1)), nnx.relu,
                                      nnx.GroupNorm(8, num_groups=2, rngs=nnx.Rngs(1)), lambda x: jnp.max(x, axis=(1, 2)), nnx.Linear(8, 3, rngs=nnx.Rngs(2))),
                       optax.inject_hyperparams(optax.lion)(learning_rate=1e-2), {"x": F(4, 6, 6, 2), "y": I(3, 4)}, LABELS),
    "changed": lambda: (Changed(nnx.Rngs(0)), optax.adam(1e-2), {"x": F(3, 5, 4), "weights": F(6)}, lambda out, x, weights: jnp.mean((out * weights) ** 2)),
    "stacked": lambda: (Stacked(nnx.Rngs(0)), optax.adam(1e-2), {"x": F(3, 5, 4), "a_target": F(3, 5, 4)}, lambda out, x, a_target: jnp.mean((out - a_target) ** 2)),
    "again": lambda: (Again(nnx.Rngs(0)), optax.sgd(0.1), {"x": F(3, 5, 4), "y": F(3, 5, 4)}, SQUARED),
}


def losses(model, optimizer, inputs, loss, steps=5):
    """What Flax and Optax themselves compute."""
    import optax as plain
    if not callable(loss):
        loss = lambda out, x, y: plain.softmax_cross_entropy_with_integer_labels(out, y).mean()
    state = nnx.Optimizer(model, optimizer, wrt=nnx.Param)
    out = []
    for _ in range(steps):
        value, grads = nnx.value_and_grad(lambda m: loss(m(next(iter(inputs.values()))), **inputs))(model)
        state.update(model, grads)
        out.append(float(value))
    return out
