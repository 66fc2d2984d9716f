"""Logistic regression: rows in blocks, which stay in the cache from product to product."""

from __future__ import annotations

import numpy as np

from .maths import exp, log1p
from .settings import kernel

Array = np.ndarray

MEMORY = 1 << 15  # numbers in a block of rows
RIDGE = 0.01  # twice the factor of the squared weights


@kernel
def _losses(margin: Array, y: Array) -> float:
    """The sum of log(1 + exp(-y margin)); `margin` becomes its slopes."""
    total = 0.0
    for i in range(margin.size):
        rest = exp(-y[i] * margin[i])
        total += log1p(rest)
        margin[i] = -y[i] * rest / (1.0 + rest)
    return total


@kernel
def _value_and_grad(w: Array, x: Array, y: Array, slope: Array) -> float:
    """BLAS multiplies a block by a vector, and again by another while the cache still holds it."""
    n, d = x.shape
    block, total = max(1, MEMORY // d), 0.0
    for start in range(0, n, block):
        some, labels = x[start : start + block], y[start : start + block]
        push = np.dot(some, w)
        total += _losses(push, labels)
        part = np.dot(push, some)
        for k in range(d):
            slope[k] += part[k]
    ridge = 0.0
    for k in range(d):
        slope[k] = slope[k] / n + RIDGE * w[k]
        ridge += w[k] * w[k]
    return total / n + 0.5 * RIDGE * ridge


def logistic_value_and_grad(w: Array, x: Array, y: Array) -> tuple[float, Array]:
    slope = np.zeros_like(w)
    return _value_and_grad(w, x, y, slope), slope


@kernel
def _scaled(margin: Array, x: Array, out: Array) -> None:
    """The rows of x times p (1 - p) / n, p the probability of their label."""
    n, d = x.shape
    for i in range(n):
        rest = exp(-abs(margin[i]))
        margin[i] = rest / ((1.0 + rest) * (1.0 + rest) * n)
    for i in range(n):
        for k in range(d):
            out[i, k] = margin[i] * x[i, k]


def logistic_hessian(w: Array, x: Array, y: Array) -> Array:
    """x' D x + ridge: the product by BLAS."""
    scaled = np.empty_like(x)
    _scaled(np.dot(x, w), x, scaled)
    out = np.dot(scaled.T, x)
    out[np.diag_indices_from(out)] += RIDGE
    return out
