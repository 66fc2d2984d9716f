"""Derivatives that are products of matrices: BLAS between fused passes, in blocks of rows."""

from __future__ import annotations

import numpy as np

from .maths import cos, exp, sigmoid, tanh
from .settings import kernel

Array = np.ndarray

ROWS = 1 << 15  # numbers in a block of rows
RIDGE = 0.01


@kernel
def logistic_hessian(w: Array, x: Array, y: Array) -> Array:
    """x' D x + ridge: a block of rows is scaled while the cache holds it, and multiplied there."""
    n, d = x.shape
    block = min(n, max(1, ROWS // d))
    out, scaled = np.zeros((d, d)), np.empty((block, d))
    part = np.empty((d, d))
    for start in range(0, n, block):
        some = x[start : start + block]
        margin = np.dot(some, w)
        for i in range(margin.size):
            rest = exp(-abs(margin[i]))
            margin[i] = rest / ((1.0 + rest) * (1.0 + rest) * n)
        copy = scaled[: margin.size]
        for i in range(margin.size):
            for k in range(d):
                copy[i, k] = margin[i] * some[i, k]
        np.dot(copy.T, some, part)
        for i in range(d):
            for k in range(d):
                out[i, k] += part[i, k]
    for i in range(d):
        out[i, i] += RIDGE
    return out


@kernel
def tanh_between(x: Array, a: Array, b: Array) -> Array:
    """b D a."""
    z = np.dot(a, x)
    for k in range(z.size):
        h = tanh(z[k])
        z[k] = 1.0 - h * h
    scaled = np.empty_like(b)
    for i in range(b.shape[0]):
        for k in range(b.shape[1]):
            scaled[i, k] = b[i, k] * z[k]
    return np.dot(scaled, a)


@kernel
def sine_outside(x: Array, a: Array, b: Array) -> Array:
    """D a b."""
    z = np.dot(a, np.dot(b, x))
    out = np.dot(a, b)
    for i in range(out.shape[0]):
        slope = cos(z[i])
        for k in range(out.shape[1]):
            out[i, k] *= slope
    return out


@kernel
def _rows_through(w: Array, slope: Array, out: Array) -> None:
    """For each row of `slope`, w' with columns scaled by it: rows of all in one matrix."""
    inner, outer = w.shape
    for s in range(slope.shape[0]):
        for k in range(outer):
            for i in range(inner):
                out[s * outer + k, i] = w[i, k] * slope[s, i]


@kernel
def _damped(rows: Array, slope: Array) -> None:
    """The rows of each sample times its slopes."""
    each = rows.shape[0] // slope.shape[0]
    for s in range(slope.shape[0]):
        for k in range(each):
            for i in range(slope.shape[1]):
                rows[s * each + k, i] *= slope[s, i]


@kernel
def _backwards(s1: Array, w1: Array, s2: Array, w2: Array, w3: Array) -> Array:
    """From the outputs backwards, the rows of all samples in one product each."""
    rows = np.empty((s2.shape[0] * w3.shape[1], w3.shape[0]))
    _rows_through(w3, s2, rows)
    rows = np.dot(rows, w2.T)
    _damped(rows, s1)
    return np.dot(rows, w1.T).reshape(s1.shape[0], w3.shape[1], w1.shape[0])


@kernel
def tanh_network(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, w3: Array, b3: Array
) -> Array:
    h1 = np.dot(x, w1)
    s1 = np.empty_like(h1)
    for i in range(h1.shape[0]):
        for k in range(h1.shape[1]):
            h = tanh(h1[i, k] + b1[k])
            h1[i, k], s1[i, k] = h, 1.0 - h * h
    s2 = np.dot(h1, w2)
    for i in range(s2.shape[0]):
        for k in range(s2.shape[1]):
            h = tanh(s2[i, k] + b2[k])
            s2[i, k] = 1.0 - h * h
    return _backwards(s1, w1, s2, w2, w3)


@kernel
def relu_network(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, w3: Array, b3: Array
) -> Array:
    h1 = np.dot(x, w1)
    s1 = np.empty_like(h1)
    for i in range(h1.shape[0]):
        for k in range(h1.shape[1]):
            h = h1[i, k] + b1[k]
            h1[i, k], s1[i, k] = max(h, 0.0), 1.0 if h > 0.0 else 0.0
    s2 = np.dot(h1, w2)
    for i in range(s2.shape[0]):
        for k in range(s2.shape[1]):
            s2[i, k] = 1.0 if s2[i, k] + b2[k] > 0.0 else 0.0
    return _backwards(s1, w1, s2, w2, w3)


@kernel
def sigmoid_network(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, w3: Array, b3: Array
) -> Array:
    h1 = np.dot(x, w1)
    s1 = np.empty_like(h1)
    for i in range(h1.shape[0]):
        for k in range(h1.shape[1]):
            h = sigmoid(h1[i, k] + b1[k])
            h1[i, k], s1[i, k] = h, h * (1.0 - h)
    s2 = np.dot(h1, w2)
    for i in range(s2.shape[0]):
        for k in range(s2.shape[1]):
            h = sigmoid(s2[i, k] + b2[k])
            s2[i, k] = h * (1.0 - h)
    return _backwards(s1, w1, s2, w2, w3)
