"""A network with two hidden layers, and products of matrices: BLAS between fused passes."""

from __future__ import annotations

import numpy as np

from .maths import tanh
from .settings import kernel

Array = np.ndarray


@kernel
def _activate(z: Array, b: Array) -> None:
    """`z` becomes tanh(z + b), row by row."""
    for i in range(z.shape[0]):
        for k in range(z.shape[1]):
            z[i, k] = tanh(z[i, k] + b[k])


@kernel
def _error(z: Array, b: Array, y: Array) -> float:
    """The mean squared error of z + b; `z` becomes its slope."""
    total, scale = 0.0, 1.0 / z.shape[0]
    for i in range(z.shape[0]):
        for k in range(z.shape[1]):
            e = z[i, k] + b[k] - y[i, k]
            total += e * e
            z[i, k] = 2.0 * scale * e
    return total * scale


@kernel
def _damp(bar: Array, h: Array, b_bar: Array) -> None:
    """`bar` times the slope of tanh where its value is `h`; its sum over the rows too."""
    for k in range(b_bar.size):
        b_bar[k] = 0.0
    for i in range(bar.shape[0]):
        for k in range(bar.shape[1]):
            bar[i, k] *= 1.0 - h[i, k] * h[i, k]
            b_bar[k] += bar[i, k]


@kernel
def _loss(
    w1: Array, b1: Array, w2: Array, b2: Array, w3: Array, b3: Array, x: Array, y: Array
) -> tuple:
    h1 = np.dot(x, w1)
    _activate(h1, b1)
    h2 = np.dot(h1, w2)
    _activate(h2, b2)
    out = np.dot(h2, w3)
    value = _error(out, b3, y)
    b3_bar = np.zeros_like(b3)
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            b3_bar[k] += out[i, k]
    w3_bar = np.dot(h2.T, out)
    bar, b2_bar = np.dot(out, w3.T), np.empty_like(b2)
    _damp(bar, h2, b2_bar)
    w2_bar = np.dot(h1.T, bar)
    bar1, b1_bar = np.dot(bar, w2.T), np.empty_like(b1)
    _damp(bar1, h1, b1_bar)
    return value, np.dot(x.T, bar1), b1_bar, w2_bar, b2_bar, w3_bar, b3_bar


def mlp_loss_value_and_grad(*args: Array) -> tuple[float, tuple[Array, ...]]:
    value, *slopes = _loss(*args)
    return value, tuple(slopes)


@kernel
def _through(w: Array, h: Array) -> Array:
    """w' with columns scaled by 1 - h², in new memory, rows of it along memory."""
    out = np.empty((w.shape[1], w.shape[0]))
    for k in range(w.shape[1]):
        for i in range(w.shape[0]):
            out[k, i] = w[i, k] * (1.0 - h[i] * h[i])
    return out


@kernel
def _jacobian(x: Array, w1: Array, b1: Array, w2: Array, b2: Array, w3: Array, b3: Array) -> Array:
    """From the outputs backwards, which are fewer than the inputs here."""
    h1 = np.dot(x, w1)
    for k in range(h1.size):
        h1[k] = tanh(h1[k] + b1[k])
    h2 = np.dot(h1, w2)
    for k in range(h2.size):
        h2[k] = tanh(h2[k] + b2[k])
    rows = np.dot(_through(w3, h2), w2.T)
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            rows[i, k] *= 1.0 - h1[k] * h1[k]
    return np.dot(rows, w1.T)


def mlp_jacobian(*args: Array) -> Array:
    return _jacobian(*args)


@kernel
def _dense(x: Array, a: Array, b: Array) -> Array:
    z = np.dot(a, x)
    for k in range(z.size):
        h = tanh(z[k])
        z[k] = 1.0 - h * h
    scaled = np.empty_like(b)
    for i in range(b.shape[0]):
        for k in range(b.shape[1]):
            scaled[i, k] = b[i, k] * z[k]
    return np.dot(scaled, a)


def dense_jacobian(x: Array, a: Array, b: Array) -> Array:
    return _dense(x, a, b)
