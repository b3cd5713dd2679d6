#!/usr/bin/env python3
"""Records cases/op_more_*: losses over a parameter `w`, an input `x` and integers `n`, evaluated and differentiated by JAX from
the same text and trained by SGD. Run from anywhere; `--out DIR` writes them elsewhere, names record just these."""
import ast
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(os.path.dirname(HERE), "fuzz")]
import expressions

import jax
import jax.numpy as jnp
import numpy as np
from tool import command, recorded

# name: (shape of w and x, loss, metrics)
CASES = {
    "updates": ((4, 5), "sum(x * model.at[1].set(2.0) ** 2) + sum(model.at[:, ::2].add(x[:, ::2]) ** 2) + sum(x * model.at[n % 4, 1].add(model[0, 0])) + sum(model.at[n % 4].multiply(0.5) * x) + sum(x * model.at[[0, 0, 2], [1, 1, 3]].set(model[0, :3]))",
                {"most": "max(model.at[n % 4, 0].max(x[0, 0]))", "negative": "model.at[-1, -1].get()"}),
    "methods": ((3, 4), "(model * x).sum(axis=1).mean() + model.reshape(2, 6).max(axis=0).std() + (model.T @ x).ravel().var() + model.transpose(1, 0).clip(-0.5, 0.5).sum()", {"size": "model.size + x.shape[0] * model.ndim"}),
    "spectrum": ((3, 8), "sum(x[:, :5] * abs(rfft(model)) ** 2) + sum(abs(fft(model * x, axis=0))) + sum(x * irfft(rfft(model) * rfft(x))) + sum(real(ifft(model)) * x) + sum(dct(model, norm='ortho') * x)",
                 {"phase": "angle(rfft(model)[0, 1])"}),
    "factors": ((4, 3), "sum(svdvals(model)) + norm(model, ord='nuc') + norm(model @ transpose(model), ord=2) + sum(x[:3, 0] * eigvalsh(transpose(model) @ model)) + sum(abs(qr(model)[0]) * x) + sum(pinv(model) * transpose(x)) + sum(x[:3] * expm(0.3 * model[:3])) + sum(lstsq(model, x[:, 0])[0] ** 2)",
                {"rank": "matrix_rank(model)", "condition": "cond(model)"}),
    "statistics": ((4, 6), "sum(cov(model) * x[:, :4]) + sum(corrcoef(model, rowvar=False)[0] * x[0]) + nanquantile(where(x > 1, nan, model), 0.3) + sum(nanmedian(where(x > 1, nan, model), axis=0)) + sum(quantile(model, asarray([0.25, 0.6]), axis=1) * x[:2, :4]) + sum(histogram(x, bins=4, range=(-2, 2), weights=model)[0] ** 2)",
                   {"bins": "sum(digitize(x, linspace(-1, 1, 5)))", "place": "sum(searchsorted(sort(x[0]), model))"}),
    "gamma": ((3, 4), "sum(x * gammainc(abs(model) + 0.4, abs(x) + 0.2)) + sum(gammaincc(abs(x) + 0.4, abs(model) * 3 + 0.2)) + sum(betainc(2.0, 3.0, sigmoid(model)) * x) + sum(i1(model) + i1e(model)) + sum(exp1(abs(model) + 0.2)) + sum(rel_entr(sigmoid(model), sigmoid(x))) + sum(gamma(abs(model) + 0.5))", {"dilogarithm": "sum(spence(abs(x) + 0.3))", "factorial": "sum(factorial(n % 5))"}),
    "segments": ((6, 3), "sum(segment_sum(model, n[:6] % 3, 4)[:3] * x[:3]) + sum(segment_max(model, n[:6] % 2, 2) ** 2) + sum(take(model, n % 8, axis=0, mode='wrap') * x[:1]) + sum(nan_to_num(take(model, n % 9, axis=0)) ** 2) + sum(take_along_axis(model, n[:6, None] % 3, axis=1))",
                 {"first": "nonzero(x[:, 0] > 0, size=6, fill_value=-1)[0][0]", "all": "sum(unique(n % 3, size=3))"}),
    "long_sort": ((2, 150), "sum(sort(model, axis=1) * x) / 10 + sum(x * model[:, argsort(x[0], descending=True)]) / 10 + sum(top_k(model, 20)[0]) + median(model) + percentile(model, 90)", {"last": "argsort(model[0])[-1]", "tops": "sum(top_k(x, 12)[1])"}),
    "curves": ((3, 5), "sum(interp(model, sort(x[0]), x[1])) + sum(x * unwrap(model * 4)) + sum(polyval(model[0], x) * 0.1) + sum(convolve(model[0], x[0]) ** 2) * 0.1 + sum(gradient(model, axis=1) * x) + trapezoid(model[2], x=sort(x[2])) + sum(polyfit(arange(5.0), model[1], 2)) + sum(diff(model, prepend=0.0) * x)", {"window": "sum(hanning(7) * kaiser(7, 3.0))"}),
    "contrastive": ((4, 5), "ntxent(model, n[:4] % 2, temperature=0.004) * 0.01 + astype(ntxent(astype(model, 'float16'), n[:4] % 2, temperature=0.06), 'float32') * 0.002"
                    " + sum(x * model) * 0.1", {"short": "ntxent(astype(model * 0.001, 'bfloat16'), n[:4] % 2, temperature=0.5)"}),
    "choices": ((4, 4), "sum(choose(n[:4] % 3, [model, model ** 2, x])) + sum(piecewise(model, [x < -0.5, x > 0.5], [1.0, 2.0, 0.5]) * model) + sum(fill_diagonal(model, 0.5, inplace=False) * x) + sum(block([[model[:2, :2], x[:2, :2]], [x[2:, :2], model[2:, 2:]]]) ** 2) + sum(toeplitz(model[0]) * x) + sum(rollaxis(model[None], 2) ** 2) + sum(put_along_axis(model, argmax(x, axis=1, keepdims=True), 0.0, axis=1, inplace=False) * x)",
                {"common": "sum(gcd(n, 12) + lcm(n, 4))", "bits": "sum(bitwise_count(n))", "near": "sum(isclose(model, x, atol=0.5))"}),
}


def value_of(text, w, x, n):
    code = compile(ast.parse(re.sub(r"\bmodel\b", "w_", text), mode="eval"), "expression", "eval")
    return eval(code, {"__builtins__": {}}, dict(expressions.SPACE, w_=w, x=x, n=n))


def record(name, out):
    shape, loss, metrics = CASES[name]
    r = np.random.default_rng(sum(map(ord, name)))
    w, steps = r.normal(size=shape).astype(np.float32), 3
    x, n = r.normal(size=(1,) + shape).astype(np.float32), r.integers(1, 40, size=(1, 10)).astype(np.int32)
    document = {"stepc": 1, "name": "op_more_" + name,
                "inputs": {"x": {"shape": list(shape), "dtype": "float32", "axes": [None] * len(shape)}, "n": {"shape": [10], "dtype": "int32", "axes": [None]}},
                "model": {"type": "param", "name": "w", "shape": list(shape)}, "loss": loss, "metrics": metrics, "optimizer": {"type": "sgd", "learning_rate": 0.05}}
    if not re.search(r"\bn\b", loss + " ".join(metrics.values())):
        del document["inputs"]["n"]
    p, seen = jnp.asarray(w), {k: [] for k in ["loss", *metrics]}
    step = jax.jit(jax.value_and_grad(lambda p: value_of(loss, p, jnp.asarray(x[0]), jnp.asarray(n[0]))))
    measure = jax.jit(lambda p: {k: jnp.asarray(value_of(t, p, jnp.asarray(x[0]), jnp.asarray(n[0])), jnp.float32) for k, t in metrics.items()})
    for _ in range(steps):
        value, g = step(p)
        for k, v in {"loss": value, **measure(p)}.items():
            seen[k].append(float(v))
        p = p - 0.05 * g
    data = {k: v for k, v in {"x": x, "n": n}.items() if k in document["inputs"]}
    recorded.record(document["name"], document, data, {"w": w}, steps, {"w": np.asarray(p)}, seen, 5e-5, 5e-6, out=out)


if __name__ == "__main__":
    command.record(__doc__, list(CASES), record)
