"""Records expr_cases.json: expressions of the language evaluated by JAX over fixed inputs (64-bit types off)."""
import json
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

rng = np.random.default_rng(7)
INPUTS = {
    "x": rng.normal(size=(3, 4)).astype(np.float32),
    "y": rng.normal(size=(3, 4)).astype(np.float32),
    "v": rng.normal(size=(4,)).astype(np.float32),
    "t": rng.normal(size=(2, 3, 4)).astype(np.float32),
    "p": rng.uniform(0.1, 0.9, size=(3, 4)).astype(np.float32),
    "n": np.array([2, 0, 3], np.int32),
    "i": np.array([[1, -1, 0, 3], [2, 2, 1, 0], [-4, 3, 2, 1]], np.int32),
    "b": rng.uniform(size=(3, 4)) > 0.4,
    "s": np.float32(0.75),
    "k": np.int32(2),
}
CASES = """
x + y * 2 - 1 / (y + 10)
-x ** 2
2 ** 3 ** 2 * s
(x > 0) & (y <= 1) | ~b
x // 0.3 + x % 0.3 - (-x) % 0.7
i // 2 * 10 + i % 3
i / 2
n - 1.5
k + 1
b + 1
b * x
b + b
(i & 6) + (i | 1) + (i ^ 5) + (i << 2) + (i >> 1) + ~i
x @ transpose(y)
x @ v
v @ v
t @ transpose(x)
x ** 3 + abs(x) ** 0.5 + abs(x) ** -2
pi * s + e
x[1:, ::2]
x[-1]
x[::-1, 3:0:-2]
x[..., None, :] * v[:, None]
t[:, 1, -2:]
x[n[0] - 1]
x[:, n]
x[n, n]
t[n[:2] - 1, :, n[:2]]
x[[0, 2], [1, 3]]
x[i % 3, i % 4]
v[k]
sum(x) + mean(x) * 10 + max(x) - min(y) + prod(v)
sum(t, axis=(0, 2), keepdims=True)
mean(x, axis=-1) + sum(b, axis=1)
mean(i)
var(x, axis=0, ddof=1) + std(x, axis=0)
any(b, axis=0) & all(b | (x > -9), axis=0)
argmax(x, axis=1) * 10 + argmin(x, axis=1)
argmax(x)
max(x, axis=1, where=b, initial=-1.0) + sum(x, axis=1, where=b)
mean(x, axis=1, where=x > -5)
cumsum(x, axis=1) + cumsum(x, axis=0)
cumprod(x, axis=1)
cumsum(i)
cummax(x, axis=0) + cummin(x, axis=0, reverse=True)
norm(x, axis=1) + norm(x)
top_k(x, 2)[0]
top_k(x, 3)[1]
where(x > y, x, 0)
where(b, 1, i)
clip(x, -0.5, 0.5) + clip(x, None, 0.2)
maximum(x, v) - minimum(x, 0)
logaddexp(x, y) + hypot(x, y) + arctan2(x, y)
round(x * 10, 0) + floor(x) + ceil(y) + trunc(x * 3) + sign(y)
exp(x) + log(p) + sqrt(p) + rsqrt(p) + cbrt(x) + log1p(p) + expm1(x) + exp2(x) + log2(p) + log10(p)
sin(x) + cos(x) + tan(x) + arcsin(p) + arccos(p) + arctan(x) + sinh(x) + cosh(x) + arcsinh(x) + arccosh(p + 1.5) + arctanh(p)
erf(x) + erfc(x) + erfinv(p) + logit(p) + expit(x) + xlogy(p, p) + entr(p) + sinc(x)
isnan(log(x)) | isinf(1 / (x - x)) | isfinite(x)
nan_to_num(log(x), nan=0.5)
reshape(t, (4, -1)) + 1
transpose(t, (2, 0, 1))
swapaxes(t, 0, -1)
moveaxis(t, [0, 2], [2, 0])
expand_dims(x, axis=(0, 2)) + t[:1, :, None, :1]
squeeze(x[:, :1], axis=1)
concatenate([x, y, x[:1]], axis=0)
concatenate([x, i], axis=-1)
stack([x, y], axis=1)
split(x, 2, axis=1)[1] + split(t, [1, 2], axis=1)[0][0, :, :2]
hstack([x, y]) + vstack([x, y])[3, 0]
broadcast_to(v, (2, 3, 4)) * t
flip(x, axis=1) + roll(x, 1, axis=0) + roll(x, 5)
pad(x, ((1, 0), (0, 2))) + pad(x, ((0, 1), (1, 1)), constant_values=2.5)
pad(x, 2, mode='reflect') + pad(x, 2, mode='edge') + pad(x, 2, mode='wrap') + pad(x, 2, mode='symmetric')
repeat(x, 2, axis=0) + tile(y, (2, 1))
repeat(v, 3)
take(x, n, axis=1) + take(v, n)
take_along_axis(x, i % 4, axis=1)
take_along_axis(x, i[:1] % 3, axis=0)
tril(x) + triu(y, k=1) + eye(3, 4) + tri(3, 4, -1)
diag(x[:, :3]) + diag(v[:3])[0] + trace(x)
arange(4) * v + arange(1, 9, 2) + linspace(0, 1, 4)
arange(3.0) + full((3,), 7) + zeros(3) + ones((3,), dtype='int32')
zeros_like(x) + ones_like(i) + full_like(x, 2)
one_hot(n, 4) + one_hot(n, 3, axis=0)[:, 0:1]
astype(x * 3, 'int32') + float32(i)
shape(t)[1] * size(x) + ndim(t) * s
einsum('ij,kj->ik', x, y)
einsum('ij,ij->i', x, y) + einsum('ij->i', x)
einsum('bij,jk->bik', t, transpose(x))
einsum('...ij,kj->...ik', t, x)
einsum('ij,kj,k->i', x, y, v[:3])
einsum('ii->i', x[:, :3]) + einsum('ii', x[:, :3])
einsum('ij,jk', x, transpose(y))
einsum('bij,bkj->bik', t, t)
tensordot(t, x, axes=2) + tensordot(t, t, axes=[[1, 2], [1, 2]])
outer(v, n) + inner(x, y)[0, 0] + vdot(x, y)
matmul(t, transpose(t, (0, 2, 1)))
kron(v, n)
softmax(x) + log_softmax(y, axis=0) + logsumexp(x, axis=1, keepdims=True)
softmax(x, axis=(0, 1)) + logsumexp(x)
softmax(x, where=b | (x > 0)) + logsumexp(x, axis=1, b=p)[:, None]
standardize(x) + glu(x)[0, 0]
relu(x) + gelu(x) + gelu(x, approximate=False) + silu(x) + elu(x, alpha=0.5) + selu(x) + celu(x, 0.7) + softplus(x)
leaky_relu(x) + hard_sigmoid(x * 3) + hard_tanh(x) + hard_silu(x * 3) + log_sigmoid(x) + soft_sign(x) + mish(x) + squareplus(x)
relu6(x * 9) + sparse_plus(x) + sparse_sigmoid(x) + log1mexp(p) + sigmoid(x) + tanh(x) + logmeanexp(x)
make_causal_mask(x)
make_attention_mask(x > 0, y > 0)
combine_masks(make_causal_mask(x[:, :3]), None, make_attention_mask(b[:, :3], b[:, 1:]))
dot_product_attention(t[:, :, :, None], t[:, :2, :, None], t[:, 1:, :, None])
logical_and(i, b) | logical_not(x > 0) ^ logical_or(b, b)
select([x < -0.5, x < 0.5], [x ** 2, y], 3 * x)
isclose(i, i + 1e-6)
isclose(i + 1e-6, i)
isclose(sqrt(x), sqrt(x) + 1e-7, equal_nan=True)
isclose(x, sqrt(x), equal_nan=True) | isclose(sqrt(x), x, equal_nan=True)
array_equal(sqrt(x), sqrt(x))
array_equal(sqrt(x), sqrt(x), equal_nan=True)
array_equal(sqrt(x), abs(sqrt(y)), equal_nan=True)
array_equal(x / x, n[:1] / n[:1])
array_equal(sqrt(-p), sqrt(p), equal_nan=True) | array_equal(sqrt(p), sqrt(-p), equal_nan=True)
array_equal(i, i + 0.0) & array_equal(i + 0.0, i)
array_equal(i, i + 0.5) | array_equal(i + 0.5, i)
array_equiv(i, i + 0.0) & array_equiv(i + 0.0, i)
divmod(x, 0.4)[1] + fmod(x, 0.4) + copysign(x, y) + heaviside(x, 0.5)
diff(x, axis=1) + ediff1d(v)
average(x, axis=1, weights=v) + ptp(x, axis=1) + count_nonzero(b, axis=1) + nansum(x, axis=1)
stop_gradient(x) * 2
squared_error(x, y) + l2_loss(x) + huber_loss(x, y, delta=0.5) + log_cosh(x, y)
sigmoid_binary_cross_entropy(x, p) + sigmoid_focal_loss(x, p, alpha=0.3)
softmax_cross_entropy(x, p) + softmax_cross_entropy(x, p, axis=0)[0]
softmax_cross_entropy_with_integer_labels(x, n)
softmax_cross_entropy_with_integer_labels(x, n, where=b | (x > 0.2))
softmax_cross_entropy_with_integer_labels(t, i[:2, :] % 3, axis=1)
softmax_cross_entropy_with_integer_labels(x, n - 1)
softmax_cross_entropy_with_integer_labels(x, astype((n - 3) * 2, 'uint8'))
softmax_cross_entropy_with_integer_labels(t, i[:2, :] * 2, axis=1)
kl_divergence(log_softmax(x), p) + convex_kl_divergence(log_softmax(x), p) + kl_divergence_with_log_targets(x, log_softmax(y))
hinge_loss(x, sign(y)) + perceptron_loss(x, sign(y))
multiclass_hinge_loss(x, n) + multiclass_perceptron_loss(x, n)
cosine_similarity(x, y) + cosine_distance(x, y, epsilon=0.5)
poly_loss_cross_entropy(x, p, epsilon=1.5) + safe_softmax_cross_entropy(x, p)
smooth_labels(p, 0.1)
i % (i - i) + i // (i - i)
i // 3 + (-i) // 2 + i % -3
astype(i, 'uint32') % 7 + astype(i, 'uint32') // 5
b % b
fmod(b, b)
i ** (i % 4)
3 ** (i % 3)
abs(b)
sinh(x * 60) / 1e20
cosh(x * 60) / 1e20
erfc(x * 6)
ndtr(x * 5)
log_ndtr(x * 20)
ndtri(p) + ndtri(p * 1e-3)
zeta(p + 1.5, p + 0.5)
polygamma(1, p) + polygamma(2, p) + polygamma(0, p)
betaln(p, p + 1)
ldexp(x, i % 3)
xlogy(x * 0, p)
top_k(where(b, x, -inf), 4)[1]
top_k(x * 0 + 1, 3)[1]
diff(b, axis=1)
ediff1d(x[:0, 0])
diag(v, k=1) + diag(v, k=-1)
diag(x, k=1)
diagonal(t, offset=1, axis1=1, axis2=2)
trace(t) + trace(t, offset=1)
trace(i)
max(b, axis=0, initial=-2)
max(i, axis=1, initial=1.5)
logsumexp(x[:0], axis=0)
norm(x, ord=1) + norm(x, ord=inf) + norm(x, ord=-1) + norm(x, ord=-inf)
norm(x * (x > 0), ord=0, axis=1)
var(x, axis=1, where=b, ddof=2)
nanmean(where(b, nan, x), axis=1) + nanmax(where(b, nan, x), axis=1) + nanmin(where(b, nan, x), axis=1)
nanvar(where(b, nan, x)) + nanstd(where(b, nan, x), ddof=1)
nanprod(where(b, nan, x), axis=0, keepdims=True)
searchsorted(sort(v), x)
searchsorted(sort(v), x, side='right')
interp(x, sort(v), p[0])
interp(x, sort(v), p[0], left=-1.0, right=2.5)
trapezoid(x, dx=0.5)
trapezoid(x, x=v, axis=1) + trapezoid(x, x=y)
rot90(x) @ rot90(y, k=2)
rot90(x, k=-1)
vander(v, N=3)
vander(v, increasing=True)
append(x, i)
append(x, y, axis=0)
bincount(n, length=4) + bincount(n, weights=v[:3], length=4)
convolve(v, x[0, :3])
convolve(x[0, :2], v, mode='same')
convolve(v, x[0, :3], mode='valid')
correlate(v, x[0, :3], mode='full') + correlate(x[0, :3], v, mode='full')
inv(x[:, :3] + 3 * eye(3))
det(x[:, :3])
slogdet(x[:, :3])[1]
solve(x[:, :3] + 3 * eye(3), y)
solve(x[:, :3] + 3 * eye(3), v[:3])
cholesky(x @ transpose(x) + eye(3))
block_diag(x[:1], i[:2])
slogdet(eye(40) * 2 + outer(arange(40.0), arange(40.0)) / 1000)[1]
slogdet(-eye(39) * 2 - outer(arange(39.0), arange(39.0)) / 1000)[0]
polyval(v, x)
column_stack([v, x[0], transpose(y)])
dstack([x, y])
meshgrid(v, n)[0] + meshgrid(v, n)[1]
meshgrid(v, n, indexing='ij')[1]
sort(x[:0], axis=0)
sum(x[:0], axis=0) + prod(x[:0], axis=0) + concatenate([x[:0], y])[1]
sum(where(b, 1.0, 0.0)) * astype(x, 'bfloat16')
cumsum(where(b, 1.0, 0.5), axis=1) * astype(x, 'float16')
max(where(b, 2, 1)) * astype(n, 'int8')
median(where(b, 0.5, 0.25)) * astype(v, 'bfloat16')
zeros_like(where(b, 0.5, 0.25)) + astype(x, 'bfloat16')
where(b, 0.5, 0.25).at[0].set(1.0) * astype(x, 'bfloat16')
top_k(where(b, 0.5, 0.25), 2)[0] * astype(x[:, :2], 'bfloat16')
gelu(where(b, 0.5, 0.25)) * astype(x, 'bfloat16')
nan_to_num(where(b, 0.5, 0.25)) * astype(x, 'bfloat16')
xlogy(i * 0, astype(p, 'bfloat16'))
heaviside(i, astype(p, 'bfloat16'))
b / 2 * astype(x, 'bfloat16')
n // 2.0 * astype(v[:3], 'bfloat16')
convolve(astype(v * 100, 'float16'), astype(-v * 100, 'float16'))
xlogy(x * 0, where(b, nan, p))
cov(x, aweights=-v)
""".strip().splitlines()


def names():
    space = {}
    for module in (jax.lax, optax, jax.scipy.linalg, jax.scipy.special, jnp.linalg, jnp, jax.nn, optax.losses):
        for name in dir(module):
            if not name.startswith("_"):
                space[name] = getattr(module, name)
    for name in ("make_causal_mask", "make_attention_mask", "combine_masks"):
        space[name] = getattr(nnx, name)
    space.update(top_k=jax.lax.top_k, norm=jnp.linalg.norm, astype=lambda x, d: x.astype(d), stop_gradient=jax.lax.stop_gradient,
                 rsqrt=jax.lax.rsqrt, cummax=jax.lax.cummax, cummin=jax.lax.cummin, sum=jnp.sum, max=jnp.max, min=jnp.min,
                 abs=jnp.abs, round=jnp.round, any=jnp.any, all=jnp.all, e=np.e, pi=np.pi, select=jnp.select, clip=jnp.clip,
                 reshape=jnp.reshape, transpose=jnp.transpose, concatenate=jnp.concatenate, pad=jnp.pad, squeeze=jnp.squeeze,
                 expand_dims=jnp.expand_dims, broadcast_to=jnp.broadcast_to, argmax=jnp.argmax, argmin=jnp.argmin, divmod=jnp.divmod,
                 log=jnp.log, exp=jnp.exp, full=jnp.full, full_like=jnp.full_like, sign=jnp.sign, cumsum=jnp.cumsum, cumprod=jnp.cumprod,
                 split=jnp.split, square=jnp.square, tile=jnp.tile, erf=jax.lax.erf, softmax=jax.nn.softmax, shape=jnp.shape, trace=jnp.trace, diagonal=jnp.diagonal, nan=np.nan, inf=np.inf, sort=jnp.sort,
                 outer=jnp.outer, matmul=jnp.matmul, tensordot=jnp.tensordot, vdot=jnp.vdot)
    space.update({k: jnp.asarray(v) for k, v in INPUTS.items()})
    return space


def flat(a):
    a = np.asarray(a)
    a = a.astype("f4") if a.dtype.itemsize == 2 and a.dtype.kind == "V" else a  # bfloat16
    return [str(float(v)) if not np.isfinite(float(v)) else (float(v) if a.dtype.kind == "f" else int(v)) for v in a.ravel()]


space = names()
cases = []
for text in CASES:
    try:
        value = jnp.asarray(eval(text, {"__builtins__": {}}, space))
    except Exception as error:
        raise SystemExit(f"{text}: {error}")
    cases.append({"expr": text, "dtype": str(value.dtype), "shape": list(value.shape), "values": flat(value)})
inputs = {k: {"dtype": str(np.asarray(v).dtype), "shape": list(np.shape(v)), "values": flat(v)} for k, v in INPUTS.items()}
# Python's integers have no end, JAX's do: bounds beyond 64 bits are cut as Python cuts them.
x, far = INPUTS["x"], 99999999999999999999999
for text, value in (("x[:%d]", x[:far]), ("x[-%d:]", x[-far:]), ("x[::%d]", x[::far]), ("x[%d::-1, ::-%d]", x[far::-1, ::-far])):
    cases.append({"expr": text.replace("%d", str(far)), "dtype": "float32", "shape": list(value.shape), "values": value.ravel().tolist()})
with open("tests/unit/frontend/expr_cases.json", "w") as f:
    f.write('{"inputs": ' + json.dumps(inputs) + ',\n"cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
print(len(cases), "cases")
