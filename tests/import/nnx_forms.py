"""Rows for nnx_agree.py in the forms of Flax's examples that are NNX: mnist, gemma, the toys; needs flax. What they do is written anew here,
small; see nnx_rows.py."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.lax.linalg import cholesky, triangular_solve
from jax.scipy.linalg import cho_factor, cho_solve, solve_triangular
from jax.scipy.special import betainc, gammainc, zeta

from nnx_rows import F, I, Row

ROWS = {}


def row(name, *arguments, **more):
    assert name not in ROWS, name
    ROWS[name] = Row(*arguments, **more)


def of(variable):
    """Its value; `[...]` is not there in older versions."""
    return variable.value


# ---------------------------------------------------------------- mnist: convolutions, statistics, dropout whose numbers come with the call

class Digits(nnx.Module):
    def __init__(self, rngs, rate):
        self.conv1, self.norm1, self.drop1 = nnx.Conv(1, 4, kernel_size=(3, 3), rngs=rngs), nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(rate=rate)
        self.conv2, self.norm2 = nnx.Conv(4, 6, kernel_size=(3, 3), rngs=rngs), nnx.BatchNorm(6, rngs=rngs)
        self.pool = functools.partial(nnx.avg_pool, window_shape=(2, 2), strides=(2, 2))
        self.linear1, self.drop2, self.linear2 = nnx.Linear(24, 8, rngs=rngs), nnx.Dropout(rate=rate), nnx.Linear(8, 5, rngs=rngs)

    def __call__(self, x, rngs):
        x = self.pool(nnx.relu(self.norm1(self.drop1(self.conv1(x), rngs=rngs))))
        x = self.pool(nnx.relu(self.norm2(self.conv2(x))))
        x = nnx.relu(self.drop2(self.linear1(x.reshape(x.shape[0], -1)), rngs=rngs))
        return self.linear2(x)


IMAGES = {"image": F(6, 8, 8, 1)}
row("mnist", lambda rngs: Digits(rngs, 0.0), IMAGES, call=lambda m, image: m(image, nnx.Rngs(dropout=0)))


def evaluated(model):
    model.eval()
    return model


row("mnist_eval", lambda rngs: evaluated(Digits(rngs, 0.025)), IMAGES, call=lambda m, image: m(image, None))

# ---------------------------------------------------------------- gemma: a decoder

BIG = -2.3819763e38


class Scale(nnx.Module):
    """Root mean square in float32, times 1 + scale."""

    def __init__(self, width, dtype=jnp.float32):
        self.scale, self.dtype = nnx.Param(jnp.linspace(-0.1, 0.1, width)), dtype

    def __call__(self, x):
        x = jnp.asarray(x, jnp.float32)
        x = jnp.asarray(x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6), self.dtype)
        return x * (1.0 + jnp.asarray(of(self.scale), self.dtype))


class Table(nnx.Embed):
    """A table whose rows are scaled up when they are looked up."""

    def __call__(self, x):
        return super().__call__(x) * jnp.sqrt(self.features)


def rotated(x, positions, base, factor):
    half = x.shape[-1] // 2
    angle = positions[..., None] / (base ** (2 * jnp.arange(half) / x.shape[-1]))[None, None, :]
    angle = angle[..., None, :] / factor
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * jnp.cos(angle) - second * jnp.sin(angle), second * jnp.cos(angle) + first * jnp.sin(angle)], axis=-1).astype(x.dtype)


class Heads(nnx.Module):
    def __init__(self, heads, groups, width, depth, rngs, window=None, cap=None, normalized=False, rate=0.0, sow=False, **dtypes):
        self.heads, self.groups, self.window, self.cap, self.sowing, self.depth = heads, groups, window, cap, sow, depth
        if heads == groups:
            self.qkv = nnx.Einsum("BTD,SNDH->SBTNH", (3, heads, width, depth), rngs=rngs, **dtypes)
        else:
            self.q = nnx.Einsum("BTD,NDH->BTNH", (heads, width, depth), rngs=rngs, **dtypes)
            self.kv = nnx.Einsum("BTD,CKDH->CBTKH", (2, groups, width, depth), rngs=rngs, **dtypes)
        self.out = nnx.Einsum("BTNH,NHD->BTD", (heads, depth, width), rngs=rngs, **dtypes)
        if normalized:
            self.q_norm, self.k_norm = Scale(depth), Scale(depth)
        self.normalized, self.drop = normalized, nnx.Dropout(rate)

    def __call__(self, x, positions, mask, rngs=None):
        q, k, v = self.qkv(x) if self.heads == self.groups else (self.q(x), *self.kv(x))
        if self.normalized:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotated(q, positions, 10000, 1.0) * self.depth ** -0.5, rotated(k, positions, 10000, 2.0 if self.window else 1.0)
        batch, length = x.shape[:2]
        grouped = self.heads > self.groups > 1
        if grouped:
            logits = jnp.einsum("BTKGH,BSKH->BTKGS", q.reshape(batch, length, self.groups, self.heads // self.groups, -1), k).reshape(batch, length, self.heads, -1)
        else:
            logits = jnp.einsum("BTNH,BSNH->BTNS", q, k)
        if self.cap:
            logits = jnp.tanh(logits / self.cap) * self.cap
        if self.window:
            ones = jnp.ones(mask.shape, mask.dtype)
            mask = jnp.triu(ones, 1 - self.window) * jnp.tril(ones, self.window - 1) * mask
        logits = jnp.where(jnp.expand_dims(mask, -2), logits, BIG)
        if self.sowing:
            self.sow(nnx.Intermediate, "logits", logits)
        weights = self.drop(jax.nn.softmax(logits, axis=-1).astype(k.dtype), rngs=rngs)
        if grouped:
            y = jnp.einsum("BTKGS,BSKH->BTKGH", weights.reshape(batch, length, self.groups, self.heads // self.groups, -1), v).reshape(batch, length, self.heads, -1)
        else:
            y = jnp.einsum("BTNS,BSNH->BTNH", weights, v)
        return self.out(y)


class Feed(nnx.Module):
    def __init__(self, width, hidden, rngs):
        self.gate, self.up, self.down = (nnx.Linear(a, b, use_bias=False, rngs=rngs) for a, b in ((width, hidden), (width, hidden), (hidden, width)))

    def __call__(self, x):
        return self.down(nnx.gelu(self.gate(x)) * self.up(x))


class Block(nnx.Module):
    def __init__(self, heads, groups, rngs, after=True, **more):
        self.before_attention, self.attention = Scale(8), Heads(heads, groups, 8, 4, rngs, **more)
        self.before_feed, self.feed, self.after = Scale(8), Feed(8, 12, rngs), after
        if after:
            self.after_attention, self.after_feed = Scale(8), Scale(8)

    def __call__(self, x, positions, mask):
        y = self.attention(self.before_attention(x), positions, mask)
        x += self.after_attention(y) if self.after else y
        y = self.feed(self.before_feed(x))
        return x + (self.after_feed(y) if self.after else y)


class Gemma(nnx.Module):
    def __init__(self, blocks, rngs, cap=None):
        self.table, self.cap, self.final = Table(11, 8, rngs=rngs), cap, Scale(8)
        self.blocks = nnx.Dict({"block%d" % i: b for i, b in enumerate(blocks)}) if hasattr(nnx, "Dict") else blocks

    def __call__(self, tokens, positions, mask):
        x = self.table(tokens)
        for i in range(len([k for k in vars(self.blocks) if k.startswith("block")])):
            x = self.blocks["block%d" % i](x, positions, mask)
        logits = self.table.attend(self.final(x))
        return jnp.tanh(logits / self.cap) * self.cap if self.cap else logits


WORDS = {"tokens": I(11, 2, 6), "positions": np.tile(np.arange(6, dtype=np.int32), (2, 1)), "mask": np.tile(np.tril(np.ones((6, 6), np.int32)), (2, 1, 1))}
POINTS = {"x": F(2, 6, 8), "positions": WORDS["positions"], "mask": WORDS["mask"]}
row("gemma_norm", lambda rngs: Scale(8), {"x": F(2, 6, 8)})
row("gemma_table", lambda rngs: Table(11, 8, rngs=rngs), {"tokens": I(11, 2, 6)})
row("gemma_feed", lambda rngs: Feed(8, 12, rngs), {"x": F(2, 6, 8)})
row("gemma_heads", lambda rngs: Heads(2, 2, 8, 4, rngs), POINTS)
row("gemma_heads_groups", lambda rngs: Heads(4, 2, 8, 4, rngs), POINTS)
row("gemma_heads_one_group", lambda rngs: Heads(4, 1, 8, 4, rngs), POINTS)
row("gemma_heads_window", lambda rngs: Heads(2, 2, 8, 4, rngs, window=3), POINTS)
row("gemma_heads_cap", lambda rngs: Heads(2, 2, 8, 4, rngs, cap=5.0), POINTS)
row("gemma_heads_normalized", lambda rngs: Heads(4, 2, 8, 4, rngs, normalized=True), POINTS)
row("gemma_heads_sow", lambda rngs: Heads(2, 2, 8, 4, rngs, sow=True), POINTS)
row("gemma_heads_half", lambda rngs: Heads(2, 2, 8, 4, rngs, dtype=jnp.bfloat16), POINTS, loose=1000)
row("gemma_block", lambda rngs: Block(4, 2, rngs), POINTS)
row("gemma_block_plain", lambda rngs: Block(2, 2, rngs, after=False), POINTS)
row("gemma2", lambda rngs: Gemma([Block(2, 2, rngs, window=4, cap=5.0), Block(2, 2, rngs, cap=5.0)], rngs, cap=3.0), WORDS)
row("gemma3", lambda rngs: Gemma([Block(4, 2, rngs, window=4, normalized=True), Block(4, 2, rngs, normalized=True)], rngs), WORDS)

# ---------------------------------------------------------------- the toys

class Product(nnx.Module):
    def __init__(self, a, b, rngs):
        self.w, self.b = nnx.Param(jax.random.uniform(rngs.params(), (a, b))), nnx.Param(jnp.zeros((b,)))

    def __call__(self, x):
        return x @ of(self.w) + of(self.b)


class Count(nnx.Variable):
    pass


class Counting(nnx.Module):
    """Toys 1, 2, 3: a count of calls that nothing depends on."""

    def __init__(self, rngs):
        self.count = Count(jnp.array(0))
        self.one, self.two = Product(1, 8, rngs), Product(8, 1, rngs)

    def __call__(self, x):
        self.count.value += 1
        return self.two(jax.nn.relu(self.one(x) * 0.5))


class Dense(nnx.Module):
    """Toys 4, 8, 9: two layers of Flax."""

    def __init__(self, rngs):
        self.one, self.two = nnx.Linear(3, 8, rngs=rngs), nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        return self.two(nnx.relu(self.one(x)))


class Extra(nnx.Variable):
    pass


class Drawing(nnx.Module):
    """Toy 5: an encoder that draws, and keeps a loss of its own."""

    def __init__(self, rngs, draws):
        self.one, self.mean, self.deviation, self.back = (nnx.Linear(a, b, rngs=rngs) for a, b in ((12, 8), (8, 3), (8, 3), (3, 12)))
        self.draws = draws
        if draws:
            self.rngs = rngs

    def __call__(self, x):
        h = jax.nn.relu(self.one(x.reshape(x.shape[0], -1)))
        mean, deviation = self.mean(h), jnp.exp(self.deviation(h))
        kept = jnp.mean(0.5 * jnp.mean(-jnp.log(deviation ** 2) - 1.0 + deviation ** 2 + mean ** 2, axis=-1))
        if self.draws:
            mean = mean + deviation * jax.random.normal(self.rngs.noise(), mean.shape)
        return {"logits": self.back(mean + 0.1 * deviation).reshape(x.shape), "kl": kept}


class Part(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.norm, self.drop = nnx.Linear(4, 4, rngs=rngs), nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.0, rngs=rngs)

    def __call__(self, x):
        return jax.nn.gelu(self.drop(self.norm(self.linear(x))))


class Scanned(nnx.Module):
    """Toy 6: layers made by vmap and applied by scan."""

    def __init__(self, rngs):
        @nnx.split_rngs(splits=3)
        @nnx.vmap(axis_size=3)
        def make(rngs):
            return Part(rngs)
        self.layers = make(rngs)

    def __call__(self, x):
        @nnx.scan
        def step(x, block):
            return block(x), None
        return step(x, self.layers)[0]


class Again(nnx.Module):
    """Blocks made by vmap, computed again for their gradients and applied by scan, as large models are written."""

    def __init__(self, rngs):
        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def make(rngs):
            return nnx.Sequential(nnx.LayerNorm(3, rngs=rngs), nnx.Linear(3, 3, rngs=rngs))
        self.layers = make(rngs)

    def __call__(self, x):
        step = nnx.remat(lambda x, block: x + nnx.gelu(block(x)))
        return nnx.scan(step, in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)(x, self.layers)


class Leaves(nnx.Module):
    """Toy 7: arrays that are no variables: nothing says that they are trained."""

    def __init__(self, rngs):
        self.w, self.v = jax.random.normal(rngs.params(), (3, 4)), nnx.Param(jnp.linspace(0.5, 1.5, 4))

    def __call__(self, x):
        return (x @ self.w) * of(self.v)


class Placed(nnx.Module):
    """Toy 10: parameters that carry notes, such as how they are laid out over devices."""

    def __init__(self, rngs):
        self.w1 = nnx.Param(nnx.initializers.lecun_normal()(rngs.params(), (3, 8)), description="over columns")
        self.b1, self.w2 = nnx.Param(jnp.zeros((8,)), description="alike"), nnx.Param(nnx.initializers.lecun_normal()(rngs.params(), (8, 2)))

    def __call__(self, x):
        return nnx.relu(x @ of(self.w1) + of(self.b1)) @ of(self.w2)


class Statistics(nnx.Module):
    """The toy of mutable arrays: batch normalisation by hand, its averages kept by the module."""

    def __init__(self, rngs, use):
        self.w, self.use = nnx.Param(jax.random.normal(rngs.params(), (3, 4))), use
        self.mean, self.var = nnx.BatchStat(jnp.zeros((4,))), nnx.BatchStat(jnp.ones((4,)))
        self.scale = nnx.Param(jnp.ones((4,)))

    def __call__(self, x):
        x = x @ of(self.w)
        mean, var = jnp.mean(x, axis=0), jnp.var(x, axis=0)
        if self.use:
            mean, var = of(self.mean), of(self.var)
        else:
            self.mean.value = jax.lax.stop_gradient(0.9 * of(self.mean) + 0.1 * mean)
            self.var.value = jax.lax.stop_gradient(0.9 * of(self.var) + 0.1 * var)
        return jax.nn.gelu((x - mean[None]) / jnp.sqrt(var[None] + 1e-5) * of(self.scale))


X1, X3 = {"x": F(6, 1)}, {"x": F(6, 3)}
row("toy_counts", lambda rngs: Counting(rngs), X1)
row("toy_dense", lambda rngs: Dense(rngs), X3)
row("toy_dense_jit", lambda rngs: Dense(rngs), X3, call=lambda m, x: nnx.jit(lambda m, x: m(x))(m, x))
row("toy_dense_remat", lambda rngs: Dense(rngs), X3, call=lambda m, x: nnx.remat(lambda m, x: m(x))(m, x))
row("toy_drawing", lambda rngs: Drawing(rngs, True), {"x": F(4, 3, 4)}, refused="random numbers")
row("toy_not_drawing", lambda rngs: Drawing(rngs, False), {"x": F(4, 3, 4)})
row("toy_scan", lambda rngs: Scanned(rngs), {"x": F(6, 4)}, refused="statistics")
row("toy_scan_remat", lambda rngs: Again(rngs), X3, rate=0.02)
row("toy_leaves", lambda rngs: Leaves(rngs), X3)
row("toy_placed", lambda rngs: Placed(rngs), X3)
row("toy_statistics", lambda rngs: Statistics(rngs, False), X3, refused="mean: running statistics")
row("toy_statistics_used", lambda rngs: Statistics(rngs, True), X3)


class Constants(nnx.Module):
    """A table that is computed once and never trained, and a mask in a variable."""

    def __init__(self, rngs):
        self.linear, self.table = nnx.Linear(3, 4, rngs=rngs), nnx.Variable(jnp.sin(jnp.arange(24.0).reshape(6, 4)))
        self.mask = nnx.Cache(jnp.arange(4) % 2 == 0)

    def __call__(self, x):
        return jnp.where(of(self.mask), self.linear(x) + of(self.table), 0.5)


class Moving(nnx.Module):
    """State that the next step depends on, which no layer of a document has."""

    def __init__(self, rngs):
        self.linear, self.last = nnx.Linear(3, 4, rngs=rngs), nnx.Variable(jnp.zeros((6, 4)))

    def __call__(self, x):
        y = self.linear(x) + 0.5 * of(self.last)
        self.last.value = jax.lax.stop_gradient(y)
        return y


class Frozen(nnx.Module):
    """A kernel that is a variable but no parameter is not trained."""

    def __init__(self, rngs):
        self.one, self.two = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)
        self.one.kernel = nnx.Variable(of(self.one.kernel))

    def __call__(self, x):
        return self.two(self.one(x))


class Changed(nnx.Module):
    """What is done to parameters before the layer is called."""

    def __init__(self, rngs, how):
        self.one, self.how = nnx.Linear(3, 4, rngs=rngs), how

    def __call__(self, x):
        kernel = of(self.one.kernel)
        self.one.kernel.value = self.how(kernel)
        y = self.one(x)
        self.one.kernel.value = kernel
        return y


row("constants", lambda rngs: Constants(rngs), X3)
row("moving_state", lambda rngs: Moving(rngs), X3, refused="last")
row("frozen_kernel", lambda rngs: Frozen(rngs), X3)
row("kernel_masked", lambda rngs: Changed(rngs, lambda k: k * (jnp.arange(12).reshape(3, 4) % 2)), X3)
row("kernel_standardised", lambda rngs: Changed(rngs, lambda k: (k - k.mean(axis=0)) / (k.std(axis=0) + 1e-5)), X3)
row("kernel_quantised", lambda rngs: Changed(rngs, lambda k: k + jax.lax.stop_gradient(jnp.round(k * 8) / 8 - k)), X3)


# ---------------------------------------------------------------- places of arrays, functions that a document has whole

class Formula(nnx.Module):
    """What `of` makes of a parameter of this shape and the inputs."""

    def __init__(self, rngs, formula, shape):
        self.weight, self.formula = nnx.Param(0.5 * jax.random.normal(rngs.params(), shape) + 1.0), formula

    def __call__(self, *given):
        return self.formula(of(self.weight), *given)


WAYS = "left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"  # of triangular_solve
PLACES = {"x": F(6, 3), "i": np.array([0, 3, 3, -1, 5, 2], np.int32), "j": np.array([1, 4, 4, -2, 0, 4], np.int32)}
FORMULAS = {
    "at_add": (lambda w, x, i, j: w.at[i].add(x), (7, 3)),
    "at_two": (lambda w, x, i, j: w.at[i, j].max(x), (7, 5, 3)),
    "at_apart": (lambda w, x, i, j: w.at[i, :, j].add(x[:, :2]), (7, 2, 5)),
    "at_middle": (lambda w, x, i, j: w.at[:, j].min(x[:2, None]), (2, 5, 3)),
    "at_of_each": (lambda w, x, i, j: jax.vmap(lambda a, k: a.at[k].set(0.0))(w, i) + x.sum(), (6, 7)),
    "get_two": (lambda w, x, i, j: w[i, j] * x, (7, 5, 3)),
    "get_apart": (lambda w, x, i, j: w[i, :, j].sum(1) * x[:, 0], (7, 2, 5)),
    "get_of_each": (lambda w, x, i, j: jax.vmap(lambda a, k: a[k])(w, jnp.stack([i, j], 1)).sum(1) * x, (6, 7, 3)),
    "segments": (lambda w, x, i, j: jax.ops.segment_sum(x * w, jnp.abs(i), 7) / (1.0 + jax.ops.segment_max(x**2, jnp.abs(j), 7).clip(0.0)), (6, 3)),
    "spread": (lambda w, x, i, j: jax.lax.pad(x * w, 1.5, ((1, 2, 1), (2, -1, 2))), (6, 3)),
    "scan_of_pairs": (lambda w, x, i, j: jax.lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x * w, x))[1], (6, 3)),
    "sorted_beside": (lambda w, x, i, j: jax.lax.sort((x, x * w), dimension=0, num_keys=1)[1], (6, 3)),
    "chosen": (lambda w, x, i, j: jax.lax.select_n((i % 3)[:, None] * jnp.ones((1, 3), jnp.int32), x, w, x * w), (6, 3)),
    "integers": (lambda w, x, i, j: w * ((i << 2) // 3 + jax.lax.div(i * 5, 3 - 2 * j) + (j >> 1))[:, None] + x // 0.5, (6, 3)),
    "inverse": (lambda w, x, i, j: x @ jnp.linalg.inv(w + 4 * jnp.eye(3)) + jnp.linalg.solve(w + 5 * jnp.eye(3), x.T).T, (3, 3)),
    "cholesky": (lambda w, x, i, j: x @ jnp.linalg.cholesky(w @ w.T + jnp.eye(3), upper=True) + jnp.linalg.slogdet(w + 4 * jnp.eye(3))[1], (3, 3)),
    "triangular": (lambda w, x, i, j: solve_triangular(w + 3 * jnp.eye(3), x.T, lower=True).T + cho_solve((jnp.linalg.cholesky(w @ w.T + jnp.eye(3)), True), x[0]), (3, 3)),
    "triangular_ways": (lambda w, x, i, j: jnp.stack([triangular_solve(w / 2 + 2 * jnp.eye(3), x.reshape(2, 3, 3), **{name: bool(k >> i & 1) for i, name in enumerate(WAYS)})
                                                      for k in range(32)]).reshape(64, 9) * (1.0 + jnp.arange(64.0) / 64)[:, None], (2, 3, 3)),
    "spectrum": (lambda w, x, i, j: jnp.abs(jnp.fft.rfft(x * w, axis=0)) + jnp.fft.fft(x).real[:4], (6, 3)),
    "looked_up": (lambda w, x, i, j: jnp.interp(x, jnp.arange(-2.0, 2.0), w) + w[jnp.searchsorted(jnp.array([-1.0, 0.0, 1.0]), x, side="right")], (4,)),
    "filtered": (lambda w, x, i, j: jnp.convolve(x[:, 0], w, mode="same"), (3,)),
    "branches": (lambda w, x, i, j: jax.lax.cond(x.sum() > 0, lambda: x * w, lambda: x - w), (6, 3)),
    "branch_not_finite": (lambda w, x, i, j: jax.lax.cond(w.sum() > 1e6, lambda: w * jnp.sqrt(-1 - x**2) + jnp.log(w - w), lambda: x * w**2), (6, 3)),
    "branches_nested": (lambda w, x, i, j: jax.lax.cond(x[0, 0] > 0, lambda a: jax.lax.cond(a[1, 1] > 0, jnp.sin, jnp.cos, a) * w, lambda a: jax.lax.switch(i[1] % 3, [jnp.exp, jnp.tanh, lambda b: b * w], a), x), (6, 3)),
    "switched": (lambda w, x, i, j: jax.lax.switch(i[2] + 1, [lambda a, b: (a * b, a.sum()), lambda a, b: (a - b, b.sum()), lambda a, b: (b, a[0, 0])], x, w)[0], (6, 3)),
    "while_known": (lambda w, x, i, j: w * jax.lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 2, jnp.tanh(s[1] + s[1])), (0, jax.lax.stop_gradient(x)))[1], (6, 3)),
    "while_until": (lambda w, x, i, j: (lambda n, a: w * a + n)(*jax.lax.while_loop(lambda s: (s[0] < 8) & (jnp.abs(s[1]).max() > 0.2), lambda s: (s[0] + 1, 0.7 * s[1]),
                                                                                     (0, jax.lax.stop_gradient(x)))), (6, 3)),
    "fori": (lambda w, x, i, j: jax.lax.fori_loop(0, 4, lambda t, a: a.at[t].add(w[t] * t) * 0.9, x), (6, 3)),
    "fori_of_nothing": (lambda w, x, i, j: jax.lax.fori_loop(0, 0, lambda t, a: a + w, x) * w, (6, 3)),
    "padded": (lambda w, x, i, j: jnp.pad(x * w, ((1, 0), (0, 2))) + jnp.pad(x[1:, :2], ((1, 1), (2, 1)), mode="edge"), (6, 3)),
    "fori_of_arrays": (lambda w, x, i, j: w * jax.lax.fori_loop(jnp.int32(1), jnp.int32(4), lambda t, a: a + t * jnp.cos(a), jax.lax.stop_gradient(x)), (6, 3)),
    "results": (lambda w, x, i, j: (x * w, [x.sum(0)][0]), (6, 3)),
    "left_of_nothing": (lambda w, x, i, j: w * x + 0.01 * w * (jax.lax.rem(i * 5, j) + jax.lax.rem((i * 5).astype(jnp.uint8), j.astype(jnp.uint8)))[:, None], (6, 3)),
    "cholesky_of_triangle": (lambda w, x, i, j: 0.3 * x @ cholesky(w @ w.T / 4 + jnp.eye(3) + 0.1 * w, symmetrize_input=False) + 0.1 * cho_solve(cho_factor(w @ w.T + jnp.eye(3)), x.T).T, (3, 3)),
    "cholesky_of_large": (lambda w, x, i, j: 0.3 * x @ jnp.linalg.cholesky(w @ w.T / 9 + 5 * jnp.eye(12) + 0.1 * w, symmetrize_input=False, upper=True)[:3], (12, 12)),
    "orthogonal": (lambda w, x, i, j: sum(0.1 * a @ b for a, b in zip((x, x), jnp.linalg.qr(w + 2 * jnp.eye(3)))), (3, 3)),
    "spectrum_of_planes": (lambda w, x, i, j: jnp.fft.irfft2(jnp.fft.rfft2(x * w) * (0.5 + 0.25j), s=(6, 3)) + jnp.fft.ifftn(jnp.fft.fftn(x) * jnp.fft.fftn(w)).real, (6, 3)),
    "spectrum_mixed": (lambda w, x, i, j: jnp.fft.irfft(jnp.pad(jnp.einsum("kc,kcd->kd", jnp.fft.rfft(x, axis=0)[:3], w[:3] + 1j * w[3:]), ((0, 1), (0, 0))), n=6, axis=0), (6, 3, 3)),
    "recurrence_of_turns": (lambda w, x, i, j: (lambda turn: (jax.lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (jnp.broadcast_to(turn, x.shape), x @ (w[3:] + 1j * w[:3])))[1]
                                                              @ jnp.conj(w[:3] + 0.5j)).real)(jnp.exp(-jnp.exp(w[0]) + 1j * w[1])), (6, 3)),
    "slopes_of_named": (lambda w, x, i, j: jax.grad(lambda v: (jax.nn.silu(v @ w) + jnp.logaddexp(v, 0.5)).sum())(x) + jax.grad(lambda v: jax.scipy.special.xlogy(x**2, v).sum())(jnp.abs(x @ w) + 0.5), (3, 3)),
    "rounds_of_many": (lambda w, x, i, j: jax.lax.scan(lambda h, u: (0.9 * h + u * w,) * 2, x, jnp.tile(x, (25, 1)))[1][-6:, 0], (6, 3)),
    "rounds_of_turns": (lambda w, x, i, j: jax.lax.scan(lambda h, u: (h * jnp.exp(1j * w[0] - 0.5) + u,) * 2, jnp.zeros(3, jnp.complex64), x)[1].imag, (6, 3)),
    "planes": (lambda w, x, i, j: (lambda z: jnp.concatenate([jnp.sqrt(z + 2.0), jnp.tanh(z)]).real + jnp.where(jnp.abs(z) > 1.0, jnp.log(z), z**1.5).imag.sum())(jax.lax.complex(x * w, w)), (6, 3)),
    "places_of_planes": (lambda w, x, i, j: (lambda z: jnp.abs(jnp.zeros((8, 3), z.dtype).at[1:7].set(z).at[jnp.abs(i)].add(0.5 * z).at[0].set(1.0))[:6])(x + 1j * w), (6, 3)),
    "turned_of_each": (lambda w, x, i, j: jnp.take_along_axis(w, ((jnp.array([[3], [1]]) - 1 - jnp.arange(3)) % 3 + jnp.abs(i[0]))[..., None], axis=1).reshape(6, 3) * x, (2, 3, 3)),
    "filled": (lambda w, x, i, j: w.at[i + 3].get(mode="fill", fill_value=0.5) * x + jnp.take_along_axis(w, jnp.abs(j)[:, None], 1, mode="fill", fill_value=2.0), (6, 3)),
    "clamped": (lambda w, x, i, j: x.at[i + 3].add(w, mode="clip").at[i + 2, jnp.abs(j)].add(w[:, 0], mode="clip"), (6, 3)),
    "at_slices": (lambda w, x, i, j: x.at[1:3].add(w[:2]).at[0, 1:].max(w[0, 1:]).at[:, 2].min(w[:, 0]).at[3, 1].add(w[0, 0]).at[jnp.array([7])].add(w[:1]), (6, 3)),
    "sorted_by_three": (lambda w, x, i, j: w[jnp.lexsort((x[:, 0], jnp.abs(i) % 2, jnp.abs(j) % 3))] * x + jax.lax.sort((jnp.round(x), w, x * w), dimension=0, num_keys=2)[2], (6, 3)),
    "bits": (lambda w, x, i, j: w * x + 0.01 * w * (jax.lax.shift_right_logical(i - 10, jnp.abs(j) + 24) + jax.lax.population_count(i)
                                                    + ((i.astype(jnp.uint32) ^ jnp.full(6, 4070199207, jnp.uint32)) >> 27).astype(jnp.int32))[:, None], (6, 3)),
    "drawn_before": (lambda w, x, i, j: w * jax.random.bernoulli(jax.random.key(1), 0.5, (6, 3)) + w[jax.random.choice(jax.random.key(5), 6, (6,))] * x, (6, 3)),
    "unstacked": (lambda w, x, i, j: jnp.stack(jnp.unstack(w, axis=1)[::-1], 1) * x, (6, 3)),
    "special": (lambda w, x, i, j: gammainc(2.5, jnp.abs(w) + 0.1) * x + betainc(2.0, 3.0, jax.nn.sigmoid(x)) * w + zeta(3.0, 1 + jnp.abs(w)), (6, 3))}
for name, (formula, shape) in FORMULAS.items():
    row("formula_" + name, lambda rngs, formula=formula, shape=shape: Formula(rngs, formula, shape), PLACES)
IMAGES = {"x": F(2, 6, 5, 4), "z": F(2, 3)}
NHWC = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
CONVOLUTIONS = {
    "standardised": (lambda w, x, z: jax.lax.conv_general_dilated(x, (w - w.mean((0, 1, 2))) / (w.std((0, 1, 2)) + 1e-5), (1, 1), "SAME", **NHWC), (3, 3, 4, 6)),
    "channels_first": (lambda w, x, z: jax.lax.conv(x.transpose(0, 3, 1, 2), w, (2, 1), "VALID"), (6, 4, 3, 2)),
    "in_groups": (lambda w, x, z: jax.lax.conv_general_dilated(x, w, (1, 2), [(1, 0), (2, -1)], rhs_dilation=(2, 1), feature_group_count=2, **NHWC), (3, 2, 2, 6)),
    "spread": (lambda w, x, z: jax.lax.conv_transpose(x, w, (2, 3), "SAME", **NHWC), (3, 3, 4, 2)),
    "patches": (lambda w, x, z: jax.lax.conv_general_dilated_patches(x, (3, 2), (1, 1), "VALID", **NHWC) @ w, (24, 3)),
    "own_of_each": (lambda w, x, z: jax.vmap(lambda image, k: jax.lax.conv_general_dilated(image[None], k.reshape(3, 3, 4, 1), (1, 1), "SAME", **NHWC)[0])(x, z @ w), (3, 36)),
    "of_lines": (lambda w, x, z: jax.lax.conv_general_dilated(x[:, 0], w, (1,), [(2, 0)], dimension_numbers=("NWC", "WIO", "NWC")), (3, 4, 2))}
for name, (formula, shape) in CONVOLUTIONS.items():
    row("convolution_" + name, lambda rngs, formula=formula, shape=shape: Formula(rngs, formula, shape), IMAGES)
row("formula_lent_derivative", lambda rngs: Formula(rngs, lambda w, x, i, j: jax.custom_gradient(lambda a: (a, lambda g: -g))(w) * x, (6, 3)), PLACES, refused="a derivative of its own")
row("formula_lent_root", lambda rngs: Formula(rngs, lambda w, x, i, j: x * jax.lax.custom_root(lambda s: s * s - w**2 - 1, jnp.ones((6, 3)), lambda g, y: jax.lax.fori_loop(0, 3, lambda k, s: s - g(s) / (2 * s), y),
                                                                                               lambda g, y: y / g(jnp.ones((6, 3)))), (6, 3)), PLACES, refused="a derivative of its own")
row("formula_rounds_of_too_many", lambda rngs: Formula(rngs, lambda w, x, i, j: jax.lax.scan(lambda h, u: (jnp.sin(h) * u + w, None), x, jnp.ones(4000))[0], (6, 3)), PLACES, refused="a loop of 4000 rounds of 3")
row("formula_narrow", lambda rngs: Formula(rngs, lambda w, x, i, j: w * x.astype(jnp.float8_e4m3fn).astype(jnp.float32), (6, 3)), PLACES, refused="the dtype float8_e4m3fn")
row("formula_unknown_end", lambda rngs: Formula(rngs, lambda w, x, i, j: w * jax.lax.fori_loop(0, i[1], lambda t, a: a + x, x), (6, 3)), PLACES, refused="more than 100 rounds")
row("formula_complex_triangular", lambda rngs: Formula(rngs, lambda w, x, i, j: solve_triangular(w + 1j * x[:3], x[:3]).real, (3, 3)), PLACES, refused="complex")
row("formula_nested_results", lambda rngs: Formula(rngs, lambda w, x, i, j: ((x * w, x), x), (6, 3)), PLACES, refused="several results")


class Chosen(nnx.Module):
    """Layers of a document inside of branches, and one that has the name of an input."""

    def __init__(self, rngs):
        self.wide, self.x = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x):
        y = jax.lax.cond(x.sum() > 0.0, lambda a: jnp.sin(self.wide(a)), lambda a: jnp.tanh(self.wide(a) * a[:, :1]), x)
        y += jax.lax.cond(x.sum() > 1e6, lambda a: jnp.sqrt(-1.0 - self.wide(jnp.log(a - a)) ** 2), lambda a: a[:, :1] * self.x(y), x)
        return y + self.x(self.wide(x)) * x[:, 1:2]


class Both(nnx.Module):
    """Sequences of different lengths, read from both ends."""

    def __init__(self, rngs):
        cell = nnx.RNN(nnx.GRUCell(3, 4, rngs=rngs), reverse=True, keep_order=True)
        self.layer = nnx.Bidirectional(nnx.RNN(nnx.OptimizedLSTMCell(3, 4, rngs=rngs)), cell)

    def __call__(self, x, lengths):
        return self.layer(x, seq_lengths=lengths)


class Unused(nnx.Module):
    """A bias that no derivative of the network depends on: trained with a gradient of 0."""

    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(2, 6, rngs=rngs), nnx.Linear(6, 1, rngs=rngs)

    def __call__(self, x):
        u = lambda p: self.last(jnp.tanh(self.first(p)))[0]
        return jax.vmap(jax.grad(u))(x)[:, 0] - jax.vmap(jax.hessian(u))(x)[:, 1, 1]


row("lengths_from_both_ends", lambda rngs: Both(rngs), {"x": F(3, 5, 3), "lengths": np.array([5, 2, 3], np.int32)})
row("parameter_unused", lambda rngs: Unused(rngs), {"x": F(6, 2)})
row("branches_of_layers", lambda rngs: Chosen(rngs), {"x": F(6, 3)}, around=False)
