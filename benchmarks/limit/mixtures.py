"""Gaussian mixtures with plain parameters: value and gradient, a block of points at a time."""

from __future__ import annotations

import numpy as np

from .maths import exp, log
from .mixture import MEMORY, _exponents, _softmax, _weigh
from .settings import kernel

Array = np.ndarray


@kernel
def _stacked(
    means: Array, logs: Array, low: Array, m: Array, shift: Array, bias: Array, scales: Array
) -> None:
    """The factors below each other, their products with the means; log-diagonals are added."""
    terms, d = means.shape
    for k in range(terms):
        for i in range(d):
            row = k * d + i
            bias[k] += logs[k, i]
            total = 0.0
            for j in range(i):
                m[row, j] = low[k, i, j]
                total += low[k, i, j] * means[k, j]
            m[row, i] = scales[k, i]
            shift[row] = total + scales[k, i] * means[k, i]


@kernel
def _unstacked(
    m: Array, means: Array, scales: Array, sums: tuple[Array, ...], slopes: tuple[Array, ...]
) -> None:
    """The gradient, from the sums of y x', of y and of the weights."""
    products, pushed, shares = sums
    alphas_bar, means_bar, logs_bar, low_bar = slopes
    terms, d = means.shape
    for k in range(terms):
        alphas_bar[k] = shares[k]
        for i in range(d):
            row = k * d + i
            slope = products[row, i] - pushed[row] * means[k, i]
            logs_bar[k, i] = shares[k] - scales[k, i] * slope
            for j in range(i):
                low_bar[k, i, j] = -(products[row, j] - pushed[row] * means[k, j])
            for j in range(i + 1):
                means_bar[k, j] += m[row, j] * pushed[row]


@kernel
def _full(
    alphas: Array, means: Array, logs: Array, low: Array, x: Array, slopes: tuple[Array, ...]
) -> float:
    (n, d), terms = x.shape, alphas.size
    m, shift, bias = np.zeros((terms * d, d)), np.empty(terms * d), alphas.copy()
    scales = np.exp(logs)
    _stacked(means, logs, low, m, shift, bias, scales)
    sums = np.zeros((terms * d, d)), np.zeros(terms * d), np.zeros(terms)
    total, block = 0.0, max(64, MEMORY // (terms * d))
    for start in range(0, n, block):
        some = x[start : min(start + block, n)]
        y, inner = np.dot(m, some.T), np.empty((terms, some.shape[0]))
        _exponents(y, shift, bias, inner)
        total += _softmax(inner)
        _weigh(y, inner, sums[1], sums[2])
        products = np.dot(y, some)
        for i in range(terms * d):
            for j in range(d):
                sums[0][i, j] += products[i, j]
    _unstacked(m, means, scales, sums, slopes)
    return total


def full_value_and_grad(
    alphas: Array, means: Array, logs: Array, low: Array, x: Array
) -> tuple[float, tuple[Array, ...]]:
    """Each term has a triangular factor: `low` below the diagonal, which is exp(`logs`)."""
    slopes = tuple(np.zeros_like(a) for a in (alphas, means, logs, low))
    shares = alphas.reshape(-1, 1).copy()
    total = _full(alphas, means, logs, low, x, slopes) - len(x) * _softmax(shares)
    slopes[0][:] -= len(x) * shares[:, 0]
    return total, slopes


@kernel
def _distances(xt: Array, means: Array, scales: Array, bias: Array, s: Array, width: int) -> None:
    """The exponents of a block of points, the rows of `xt` being their coordinates."""
    for k in range(s.shape[0]):
        for p in range(width):
            s[k, p] = bias[k]
        for j in range(xt.shape[0]):
            mean, scale = means[k, j], scales[k, j]
            for p in range(width):
                z = (xt[j, p] - mean) * scale
                s[k, p] -= 0.5 * z * z


@kernel
def _moments(xt: Array, means: Array, s: Array, width: int, slopes: tuple[Array, ...]) -> None:
    """Adds the weights, and the first and second moments around the means."""
    alphas_bar, means_bar, logs_bar = slopes
    for k in range(s.shape[0]):
        for p in range(width):
            alphas_bar[k] += s[k, p]
        for j in range(xt.shape[0]):
            mean, first, second = means[k, j], 0.0, 0.0
            for p in range(width):
                z = xt[j, p] - mean
                first += s[k, p] * z
                second += s[k, p] * z * z
            means_bar[k, j] += first
            logs_bar[k, j] += second


@kernel
def _normalised(s: Array, width: int, top: Array, norm: Array) -> float:
    """`_softmax` of the first `width` columns."""
    terms, total = s.shape[0], 0.0
    for p in range(width):
        top[p], norm[p] = s[0, p], 0.0
    for k in range(1, terms):
        for p in range(width):
            top[p] = max(top[p], s[k, p])
    for k in range(terms):
        for p in range(width):
            s[k, p] = exp(s[k, p] - top[p])
            norm[p] += s[k, p]
    for p in range(width):
        total += top[p] + log(norm[p])
        norm[p] = 1.0 / norm[p]
    for k in range(terms):
        for p in range(width):
            s[k, p] *= norm[p]
    return total


@kernel
def _diagonal(
    alphas: Array, means: Array, logs: Array, x: Array, slopes: tuple[Array, ...]
) -> float:
    (n, d), terms = x.shape, alphas.size
    block = max(8, min(512, 16384 // terms))
    s, xt, norm, top = (
        np.empty((terms, block)),
        np.empty((d, block)),
        np.empty(block),
        np.empty(block),
    )
    scales, bias, total = np.exp(logs), alphas + np.sum(logs, axis=1), 0.0
    for start in range(0, n, block):
        width = min(block, n - start)
        for j in range(d):
            for p in range(width):
                xt[j, p] = x[start + p, j]
        _distances(xt, means, scales, bias, s, width)
        total += _normalised(s, width, top, norm)
        _moments(xt, means, s, width, slopes)
    for k in range(terms):
        for j in range(d):
            square = scales[k, j] * scales[k, j]
            slopes[1][k, j] *= square
            slopes[2][k, j] = slopes[0][k] - square * slopes[2][k, j]
    return total


def diagonal_value_and_grad(
    alphas: Array, means: Array, logs: Array, x: Array
) -> tuple[float, tuple[Array, ...]]:
    """Each term has a diagonal precision, exp(2 `logs`)."""
    slopes = tuple(np.zeros_like(a) for a in (alphas, means, logs))
    shares = alphas.reshape(-1, 1).copy()
    total = _diagonal(alphas, means, logs, x, slopes) - len(x) * _softmax(shares)
    slopes[0][:] -= len(x) * shares[:, 0]
    return total, slopes
