"""Time to a given loss: stepc's L-BFGS, optax.lbfgs in a jitted loop, and SciPy's L-BFGS-B. Part of bench.py, whose functions it
is given as `bench`."""
import json
import os
import time

import numpy as np


def minimisation(options, bench, document, start, inputs, value, value_and_grad, optax_args, target):
    """Time until the loss is at most `target`: ours in calls of forty steps, the jitted loop of optax.lbfgs, SciPy's L-BFGS-B
    with the gradient in NumPy. `value` takes a dict of arrays; `value_and_grad` one float64 vector."""
    import stepc
    chunk, m = 40, stepc.Step(bench.compiled(options, document), threads=1)
    batch = {n: np.broadcast_to(v, (chunk, *v.shape)).copy() for n, v in inputs.items()}

    def ours():
        m.init()
        for n, v in start.items():
            m[n] = v
        begin, reached = time.perf_counter(), False
        for _ in range(100):
            reached = min(m.step_n(chunk, **batch)) <= target
            if reached:
                break
        seconds = time.perf_counter() - begin
        if not reached:
            raise SystemExit("the loss stays above %g" % target)
        return seconds
    sides = {"stepc": ours}
    if bench.have("jax") and bench.have("optax"):
        import jax
        import optax
        tx = optax.lbfgs(**optax_args)
        gradient = optax.value_and_grad_from_state(value)

        def loop(p):
            def body(carry):
                p, s, _, n = carry
                v, g = gradient(p, state=s)
                u, s = tx.update(g, s, p, value=v, grad=g, value_fn=value)
                return optax.apply_updates(p, u), s, optax.tree.get(s, "value"), n + 1
            return jax.lax.while_loop(lambda c: (c[2] > target) & (c[3] < 1000), body, (p, tx.init(p), np.float32(np.inf), 0))
        jitted, p = jax.jit(loop), {n: jax.numpy.array(v) for n, v in start.items()}
        if not jitted(p)[2] <= target:
            raise SystemExit("optax.lbfgs: the loss stays above %g" % target)
        sides["optax.lbfgs"] = lambda: bench.timed(lambda: jax.block_until_ready(jitted(p)), 1)
    if bench.have("scipy"):
        import scipy.optimize
        x = np.concatenate([v.ravel() for v in start.values()]).astype(np.float64)

        def stop(intermediate_result):
            if intermediate_result.fun <= target:
                raise StopIteration

        def peer():
            return scipy.optimize.minimize(value_and_grad, x, jac=True, method="L-BFGS-B", callback=stop,
                                           options={"maxcor": 10, "ftol": 0, "gtol": 0, "maxiter": 10000, "maxfun": 100000})
        if not peer().fun <= target:
            raise SystemExit("scipy: the loss stays above %g" % target)
        sides["scipy L-BFGS-B"] = lambda: bench.timed(peer, 1)
    return bench.report(bench.interleave(sides, options.rounds))


def lbfgs(options, bench):
    with open(os.path.join(bench.ROOT, "samples/cookbook/model.json")) as f:
        document = json.load(f)
    document = {k: document[k] for k in ("stepc", "name", "inputs", "model", "loss")}
    random = np.random.default_rng(0)
    x, y = random.standard_normal((32, 2), np.float32), random.standard_normal((32, 8), np.float32)
    shapes = {"layers.0.kernel": (2, 8), "layers.0.bias": (8,), "layers.1.kernel": (8, 8), "layers.1.bias": (8,)}
    start = {n: np.float32(0.5) * random.standard_normal(s, np.float32) for n, s in shapes.items()}

    def toy_gradient(v):
        k0, b0, k1, b1 = (a.reshape(s) for a, s in zip(np.split(v, [16, 24, 88]), shapes.values()))
        h = x @ k0 + b0
        d = h @ k1 + b1 - y
        g = 2 / d.size * d
        back = g @ k1.T
        return (d * d).mean(), np.concatenate([a.ravel() for a in (x.T @ back, back.sum(0), h.T @ g, g.sum(0))])

    def chained(v):
        d, e = v[1:] - v[:-1] ** 2, 1 - v[:-1]
        g = np.zeros_like(v)
        g[1:] += 200 * d
        g[:-1] -= 400 * d * v[:-1] + 2 * e
        return 100 * d @ d + e @ e, g

    def paired(v):
        a, b = v[::2], v[1::2]
        d, e, g = b - a * a, 1 - a, np.empty_like(v)
        g[1::2] = 200 * d
        g[::2] = -400 * d * a - 2 * e
        return 100 * d @ d + e @ e, g

    def rosenbrock(n, left, right, gradient, target):
        texts = [i % "model" for i in (left, right)]
        document = {"stepc": 1, "name": "rosenbrock", "inputs": {"x": {"shape": [1], "dtype": "float32", "axes": [None]}},
                    "model": {"type": "param", "name": "w", "shape": [n]},
                    "loss": "sum(100 * (%s - %s**2)**2 + (1 - %s)**2)" % (texts[1], texts[0], texts[0]), "optimizer": {"type": "lbfgs"}}
        start = {"w": np.tile(np.float32([-1.2, 1.0]), n // 2)}
        value = eval("lambda p: (100 * (%s - %s**2)**2 + (1 - %s)**2).sum()" % (right % 'p["w"]', left % 'p["w"]', left % 'p["w"]'))
        return minimisation(options, bench, document, start, {"x": np.zeros(1, np.float32)}, value, gradient, {}, target)
    best = 1.001 * np.linalg.lstsq(np.c_[x, np.ones(32)], y, rcond=None)[1].sum() / y.size
    results = {
        "toy": minimisation(options, bench, dict(document, optimizer={"type": "lbfgs", "learning_rate": 1e-3}), start, {"x": x, "y": y},
                            lambda p: ((bench.mlp(np, None, p, x, False) - y) ** 2).mean(), toy_gradient, {"learning_rate": 1e-3}, best),
        "rosenbrock 2": rosenbrock(2, "%s[:-1]", "%s[1:]", chained, 1e-3),
        "rosenbrock 100": rosenbrock(100, "%s[:-1]", "%s[1:]", chained, 50.0),
        "rosenbrock 10000": rosenbrock(10000, "%s[::2]", "%s[1::2]", paired, 1.0)}
    return {"%s, %s" % (problem, side): values for problem, sides in results.items() for side, values in sides.items()}
