"""Whole programs for tests of kernels for CUDA: small cases of each way in which threads share."""

from __future__ import annotations

import numpy as np
from user_code import gmm, nist

import fdiff
from benchmarks import problems

_rng = np.random.default_rng(0)
_both = fdiff.value_and_grad
_PLACES = _rng.integers(0, 9, 30)
_I, _J = np.triu_indices(5, 1)


def scatter(x, places):
    out = np.zeros(9)
    np.add.at(out, places, x * x)
    return np.sum(np.exp(-out))


def log_sum_exp(a):
    m = np.max(a, axis=1)
    return np.sum(m + np.log(np.sum(np.exp(a - m[:, None]), axis=1)))


def softmax(a):
    e = np.exp(a - np.max(a, axis=1)[:, None])
    return e / np.sum(e, axis=1)[:, None]


def masked(x):
    y = np.where(x > 0.5, x**3, np.abs(x))
    return np.sum(np.maximum(x, 0.1) * y, where=x < 0.9)


def axis_sums(a):
    return np.sum(np.mean(a, axis=0) ** 2) + np.sum(np.max(a, axis=1))


def pairwise(a, b):
    return np.sum((a[:, None] - b[None, :]) ** 2 * a[:, None])


def outer_and_inner(a):
    """Reductions over the first and the last of three axes."""
    return tuple(f(a, axis=(0, 2)) for f in (np.max, np.min, np.prod, np.sum))


def products_of_rows(x, w, u, v):
    """Products over rows, one of them a result, the others used within the rows alone."""
    h = x @ w
    return h, np.tanh(h) @ u, x @ w @ v


def network():
    shapes = [(3, 4), (4,), (4, 3), (3,), (3, 2), (2,), (6, 3), (6, 2)]
    return tuple(_rng.normal(size=shape) for shape in shapes)


def mixture(d, terms, points):
    shapes = [terms, (terms, d), (terms, d * (d + 1) // 2), (points, d)]
    return (*(_rng.normal(size=shape) for shape in shapes), 1.0, 0)


X = _rng.normal(size=40)
BOX = _rng.random((6, 6))
ROWS = _rng.normal(size=(9, 6))
LABELS = np.sign(_rng.normal(size=20))
_POINTS = _rng.normal(size=(70, 3))


def steps(y, p):
    """Runge-Kutta steps for Lorenz' equations, as a loop on the tape."""

    def slope(y):
        return np.stack(
            [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]
        )

    def step(y, force):
        k1 = slope(y)
        k2 = slope(y + 0.05 * k1)
        return y + 0.05 * (k1 + k2) + force, y[0]

    y, seen = fdiff.scan(step, y, 0.01 * np.arange(5.0))
    return np.sum(y * y) + np.sum(np.sin(seen))


FIT = nist.read("MGH10")
# name: the function and its arguments
PROGRAMS = {
    "elementwise": (_both(problems.chain), (X,)),
    "rosenbrock": (_both(problems.rosenbrock), (X,)),
    "hessian": (fdiff.hessian(problems.rosenbrock), (X[:7],)),
    "hvp": (fdiff.hvp(problems.rosenbrock), (X, np.cos(X))),
    "logistic": (_both(problems.logistic), (X[:4], _rng.normal(size=(20, 4)), LABELS)),
    "log-sum-exp": (_both(log_sum_exp), (ROWS,)),
    "softmax": (softmax, (ROWS,)),
    "outer and inner": (outer_and_inner, (_rng.uniform(0.8, 1.2, size=(13, 5, 3)),)),
    "products of rows": (
        products_of_rows,
        tuple(_rng.normal(size=shape) for shape in ((40, 6), (6, 4), (4, 2), (4, 5))),
    ),
    "rows of three axes": (
        lambda x, a: np.sum(
            np.tanh(np.einsum("nijk,ijk->n", x, a))[:, None, None, None] * x, axis=0
        ),
        (_rng.normal(size=(37, 2, 3, 2)), _rng.normal(size=(2, 3, 2))),
    ),
    "scatter": (_both(scatter), (X[:30], _PLACES)),
    "pairwise": (_both(pairwise, argnums=(0, 1)), (X[:6], X[6:11])),
    "axes": (_both(axis_sums), (ROWS,)),
    "cluster": (_both(problems.lennard_jones), (4 * _rng.random((5, 3)), _I, _J)),
    "bratu": (_both(problems.bratu), (BOX,)),
    "masked": (_both(masked), (X,)),
    "single": (_both(lambda x: np.sum(np.exp(x) * x)), (X.astype(np.float32),)),
    "network": (_both(problems.mlp_loss, argnums=(0, 1, 2, 3, 4, 5)), network()),
    "mixture of components": (_both(gmm.objective, argnums=(0, 1, 2)), mixture(2, 3, 8)),
    "mixture": (_both(gmm.objective, argnums=(0, 1, 2)), mixture(3, 5, 6)),
    "fit": (fdiff.jacobian(nist.MODELS["MGH10"]), (FIT["b"] * 1e-3 + 1, FIT["x"])),
    "running sums": (_both(lambda x: np.sum(np.cumsum(x) ** 2)), (X,)),
    "product": (
        _both(lambda a, b: np.sum(np.tanh(a @ b)), argnums=(0, 1)),
        (_rng.normal(size=(12, 9)), _rng.normal(size=(9, 11))),
    ),
    "far angles": (_both(lambda x: np.sum(np.sin(x) + np.cos(x))), (X * 1e12,)),
    "integers": (lambda n: (n // 3, n % 5, np.sum(n), np.max(n)), (np.arange(-9, 30),)),
    "steps": (_both(steps, argnums=(0, 1)), (ROWS[0, :3], ROWS[1, :3])),
    "steps of many": (fdiff.vmap(_both(steps, argnums=(0, 1))), (_POINTS, _POINTS[::-1])),
    "truths": (lambda x: (x > 0, np.any(x > 2, axis=0), np.all(x < 9)), (ROWS,)),
}


def flat(result):
    """The arrays of a result, in order."""
    if isinstance(result, tuple):
        return [array for part in result for array in flat(part)]
    return [np.asarray(result)]
