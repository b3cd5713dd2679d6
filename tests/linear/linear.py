#!/usr/bin/env python3
"""Factorisations of matrices, of sizes below, at and across their blocks, against NumPy in float64: values, and gradients against finite
differences along a direction; matrices that are singular or nearly so, in float32; batches split over a mesh.

usage: linear.py STEPC [TestLinear.test_NAME]
"""
import os
import sys

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
from tool import runner

turn = lambda a: np.swapaxes(a, -1, -2)
definite = lambda a: a @ turn(a) / a.shape[-1] + np.eye(a.shape[-1])
DEFINITE = "(model @ swapaxes(model, -1, -2) / %d + eye(%d))"
FUNCTIONS = {  # expression of the matrices `model`; b: inputs; the same in NumPy
    "cholesky": ("cholesky(%(definite)s)", lambda a, b: np.linalg.cholesky(definite(a))),
    "upper": ("cholesky(%(definite)s, upper=True)", lambda a, b: turn(np.linalg.cholesky(definite(a)))),
    "solve": ("solve(model + 3 * eye(%(n)d), b)", lambda a, b: np.linalg.solve(a + 3 * np.eye(a.shape[-1]), b)),
    "inv": ("inv(%(definite)s)", lambda a, b: np.linalg.inv(definite(a))),
    "slogdet": ("slogdet(model + 2 * eye(%(n)d))[1] + slogdet(stop_gradient(model))[0]",
                lambda a, b: np.linalg.slogdet(a + 2 * np.eye(a.shape[-1]))[1] + np.linalg.slogdet(a)[0]),
    "lower": ("solve_triangular(%(definite)s, b, lower=True)", lambda a, b: np.linalg.solve(np.tril(definite(a)), b)),
    "lower turned": ("solve_triangular(%(definite)s, b, lower=True, trans=1)", lambda a, b: np.linalg.solve(turn(np.tril(definite(a))), b)),
    "upper solved": ("solve_triangular(%(definite)s, b)", lambda a, b: np.linalg.solve(np.triu(definite(a)), b)),
    "upper turned": ("solve_triangular(%(definite)s, b, trans=1, unit_diagonal=True)",
                     lambda a, b: np.linalg.solve(turn(np.triu(definite(a), 1) / 1 + np.eye(a.shape[-1])), b)),
    "qr, r": ("qr(model)[1]", lambda a, b: np.linalg.qr(a)[1]),
    "qr, q": ("qr(model)[0]", lambda a, b: np.linalg.qr(a)[0]),
    "singular values": ("svd(model)[1]", lambda a, b: np.linalg.svd(a)[1]),
    "singular vectors": ("svd(model + diag(arange(%(n)d)) * 9.0)[0] ** 2 + svd(model + diag(arange(%(n)d)) * 9.0)[2] ** 2",
                         lambda a, b: (lambda u, s, v: u ** 2 + v ** 2)(*np.linalg.svd(a + 9 * np.diag(np.arange(a.shape[-1]))))),
    "vectors beyond": ("swapaxes(svd(model[..., 3:, :])[2][..., -3:, :], -1, -2) @ svd(model[..., 3:, :])[2][..., -3:, :]",
                       lambda a, b: (lambda v: turn(v) @ v)(np.linalg.svd(a[..., 3:, :])[2][..., -3:, :])),
    "eigenvalues": ("eigh(model + swapaxes(model, -1, -2))[0]", lambda a, b: np.linalg.eigh(a + turn(a))[0]),
    "eigenvectors": ("eigh(model + swapaxes(model, -1, -2) + diag(arange(%(n)d)) * 9.0)[1] ** 2",
                     lambda a, b: np.linalg.eigh(a + turn(a) + 9 * np.diag(np.arange(a.shape[-1])))[1] ** 2),
    "triangle": ("qr(model)[1] ** 2", lambda a, b: np.linalg.qr(a)[1] ** 2),
}


def symmetric(n, rng):
    """Matrices that are hard for halving: equal, nearly equal and tiny eigenvalues, halves that are alike, nothing between them."""
    g = rng.standard_normal((n, n))
    q, half, beside = np.linalg.qr(g)[0], n // 2, np.eye(n, k=1) + np.eye(n, k=-1)
    twice = np.zeros((n, n))
    twice[:half, :half] = twice[half:2 * half, half:2 * half] = (g + g.T)[:half, :half]
    return np.stack([g + g.T, np.eye(n), np.zeros((n, n)), g[:, :3] @ g[:, :3].T, np.eye(n) + np.outer(g[0], g[0]), np.ones((n, n)), twice,
                     (q * np.sort(np.resize([1, 2, -3], n))) @ q.T, (q * np.logspace(0, -12, n)) @ q.T, 2 * np.eye(n) - beside, np.diag(g[0]),
                     np.diag(np.abs(np.arange(n) - half)) + beside, 1e30 * (g + g.T), 1e-30 * (g + g.T), 1e-6 * np.diag(g[0] > 0) + np.eye(n) + 1e-7 * beside])


SHAPES = ((100, 100), (3, 40, 40))
EDGES = {"cholesky": ((9, 9), (33, 33), (64, 64), (2, 2, 17, 17)), "solve": ((9, 9), (33, 33), (64, 64), (2, 2, 17, 17)),
         "lower": ((33, 33),), "slogdet": ((9, 9), (33, 33)), "eigenvectors": ((9, 9), (33, 33))}


def document(expression, shape, out, batched=False, **more):
    """The gradient of x is that of sum(f * w), the one of y is f; both start from 0 and are stepped by 1."""
    n, x, y = shape[-1], list(shape), list(out)
    tensor = lambda s: {"shape": s, "dtype": "float32", "axes": (["batch" if batched else None] + [None] * len(s))[:len(s)]}
    words = {"n": n, "definite": DEFINITE % (n, n)}
    zeros = lambda name, s: {"type": "param", "name": name, "shape": s, "init": {"type": "zeros"}}
    return {"stepc": 1, "name": "linear", "inputs": {"a": tensor(x), "b": tensor(x[:-1] + [3]), "w": tensor(y)},
            "model": {"type": "graph", "nodes": [dict(zeros("x", x)), dict(zeros("y", y)), {"name": "m", "type": "expr", "expr": "x + a", "input": "x"}],
                      "output": ["m", "y"]},
            "loss": "sum((%(f)s) * w) + sum(stop_gradient(%(f)s) * model[1])" % {"f": (expression % words).replace("model", "model[0]")},
            "optimizer": {"type": "sgd", "learning_rate": 1.0}, **more}


class TestLinear(runner.Case):
    def played(self, expression, a, b, w, compiled=True, arguments=("-O0",), **more):
        """The gradient of the matrices and the value. Numbers are the same at every -O (precision.levels), and compiled sooner at -O0."""
        runner.write_document(self.folder, document(expression, a.shape, w.shape, **more), {k: v[None].astype("f4") for k, v in (("a", a), ("b", b), ("w", w))})
        state, _ = runner.play(self.program, self.folder, 1, compiled, arguments)
        return -state["x"], -state["y"]

    def agree(self, name, shape, tolerance=2e-4, **more):
        expression, f = FUNCTIONS[name]
        rng = np.random.default_rng(sum(shape))
        a, b = rng.standard_normal(shape).astype("f4").astype("f8"), rng.standard_normal(shape[:-1] + (3,)).astype("f4").astype("f8")
        want = f(a, b)
        w, towards = rng.standard_normal(want.shape).astype("f4").astype("f8"), rng.standard_normal(shape)
        gradient, value = self.played(expression, a, b, w, **more)
        self.assertLessEqual(np.abs(value - want).max(), tolerance * np.abs(want).max(), "%s of %s" % (name, shape))
        step = 1e-6
        slope = ((f(a + step * towards, b) - f(a - step * towards, b)) * w).sum() / (2 * step)
        scale = np.linalg.norm(gradient) * np.sqrt(np.log(2 + gradient.size))
        self.assertLessEqual(abs((gradient * towards).sum() - slope), 10 * tolerance * scale, "gradient of %s of %s" % (name, shape))
        return gradient, value

    def test_values_and_gradients(self):
        for name in FUNCTIONS:
            for shape in SHAPES:
                self.agree(name, shape, arguments=() if shape == SHAPES[-1] else ("-O0",))
            for shape in EDGES.get(name, ()):
                self.agree(name, shape)

    def test_interpreted(self):
        for name in FUNCTIONS:
            self.agree(name, (2, 33, 33), compiled=False)

    def test_mesh(self):
        """Matrices on two devices; one matrix on both; sums whose order no mesh changes."""
        for name in ("cholesky", "solve", "slogdet", "lower turned", "eigenvalues", "singular values", "triangle"):
            self.agree(name, (4, 33, 33), batched=True, arguments=("-O0", "--mesh", "data=2"))
            self.agree(name, (35, 35), arguments=("-O0", "--mesh", "data=2"))
        one, two = (self.agree("solve", (4, 40, 40), batched=True, arguments=("-O0", "--numerics", "invariant", *m)) for m in ((), ("--mesh", "data=2")))
        for x, y in zip(one, two):
            self.assertEqual(x.tobytes(), y.tobytes())

    def value(self, expression, a, b=None, out=None):
        b = np.ones(a.shape[:-1] + (3,)) if b is None else b
        return self.played(expression, a, b, np.zeros(a.shape if out is None else out))[1]

    def parts(self, expression, a, *shapes):
        """What an expression with several results gives, from one document."""
        sizes = [int(np.prod(s)) for s in shapes]
        whole = self.value("concatenate([%s])" % ", ".join("ravel((%s)[%d])" % (expression, i) for i in range(len(shapes))), a, out=(sum(sizes),))
        return [part.reshape(s).astype("f8") for part, s in zip(np.split(whole, np.cumsum(sizes)[:-1]), shapes)]

    def test_nearly_singular(self):
        """Condition numbers of 1e5 in float32: residuals like those of LAPACK."""
        rng = np.random.default_rng(5)
        for n in (32, 70, 200):
            q, p = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
            a, b = (q * np.logspace(0, -5, n)) @ q.T, rng.standard_normal((n, 3)).astype("f4")
            a = ((a + a.T) / 2).astype("f4")
            l = self.value("cholesky(model)", a)
            known = np.linalg.cholesky(a).astype("f8")
            self.assertLessEqual(np.abs(l @ l.T - a).max(), 4 * np.abs(known @ known.T - a).max() + 1e-7)
            a = ((q * np.logspace(0, -5, n)) @ p).astype("f4")
            x = self.value("solve(model, b)", a, b, b.shape)
            self.assertLessEqual(np.linalg.norm(a @ x - b), 1e-6 * np.linalg.norm(a, 2) * np.linalg.norm(x))

    def test_pivots(self):
        """Matrices that need their rows changed, and such as grow without that."""
        n = 50
        rng = np.random.default_rng(6)
        for a in (np.eye(n)[rng.permutation(n)], np.eye(n)[::-1] + 1e-6 * rng.standard_normal((n, n)), rng.standard_normal((n, n)) * np.logspace(-4, 4, n)[:, None]):
            b = rng.standard_normal((n, 3)).astype("f4")
            known = np.linalg.solve(a.astype("f4").astype("f8"), b)
            self.assertLessEqual(np.abs(self.value("solve(model, b)", a, b, b.shape) - known).max(), 1e-2 * np.abs(known).max())

    def test_singular(self):
        for n in (12, 50):
            a = np.random.default_rng(n).standard_normal((n, n)).astype("f4")
            a[:, n // 2] = 0
            self.assertEqual(self.value("slogdet(model)[1]", a, out=()), -np.inf)
            self.assertEqual(self.value("slogdet(model)[0]", a, out=()), 0)
            self.assertEqual(self.value("det(model)", a, out=()), 0)
            self.assertFalse(np.isfinite(self.value("solve(model, b)", a, out=(n, 3))).all())
            l = self.value("cholesky(%s - 1.5 * eye(%d))" % (DEFINITE % (n, n), n), a)
            self.assertTrue(np.isnan(l[np.tril_indices(n)]).all() and (l[np.triu_indices(n, 1)] == 0).all())

    def test_eigenvectors(self):
        """Orthogonal, and eigenvectors, whatever the matrix: errors like those of any float32."""
        for n in (2, 37, 100):
            a = symmetric(n, np.random.default_rng(n)).astype("f4")
            values, q = self.parts("eigh(model)", a, a.shape[:2], a.shape)
            for i, (m, v, u) in enumerate(zip(a.astype("f8"), values, q)):
                size = 2e-7 * (n + 10) * (np.linalg.norm(m, 2) or 1)
                self.assertTrue((np.diff(v) >= 0).all())
                self.assertLessEqual(np.abs(u.T @ u - np.eye(n)).max(), 2e-7 * (n + 10), "vectors of matrix %d of %d" % (i, n))
                self.assertLessEqual(np.abs(m @ u - u * v).max(), size, "residual of matrix %d of %d" % (i, n))
                self.assertLessEqual(np.abs(v - np.linalg.eigvalsh(m)).max(), size, "values of matrix %d of %d" % (i, n))

    def test_singular_vectors(self):
        """Of both sides orthogonal, and factors of the matrix."""
        for n, m in ((2, 2), (37, 37), (40, 20), (24, 45)):
            k, rng = min(n, m), np.random.default_rng(n)
            a = np.concatenate([symmetric(n, rng), rng.standard_normal((3, n, n)) * np.logspace(0, -9, n)])
            a = np.concatenate([a, a], -1)[..., :m].astype("f4") if m != n else a.astype("f4")
            shapes = (a.shape[:-1] + (k,), a.shape[:1] + (k,), a.shape[:1] + (k, m))
            parts = self.parts("svd(model, full_matrices=False)", a, *shapes)
            for i, (x, u, s, v) in enumerate(zip(a.astype("f8"), *parts)):
                size = 2e-7 * (k + 10) * (np.linalg.norm(x, 2) or 1)
                self.assertTrue((np.diff(s) <= 0).all() and (s >= 0).all())
                for q in (u, v.T):
                    self.assertLessEqual(np.abs(q.T @ q - np.eye(k)).max(), 2e-7 * (k + 10), "vectors of matrix %d of %d x %d" % (i, n, m))
                self.assertLessEqual(np.abs((u * s) @ v - x).max(), size, "product of matrix %d of %d x %d" % (i, n, m))
                self.assertLessEqual(np.abs(s - np.linalg.svd(x)[1]).max(), size, "values of matrix %d of %d x %d" % (i, n, m))

    def test_large(self):
        for name in ("cholesky", "solve"):
            self.agree(name, (600, 600))


if __name__ == "__main__":
    runner.main()
