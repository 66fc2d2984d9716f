"""ADBench's Gaussian mixture: value and gradient, a block of points at a time.

With the K lower triangular matrices one below the other, all products with a block of points are
one product by BLAS, forward and back; what lies between takes two fused passes.
"""

from __future__ import annotations

import math

import numpy as np

from .maths import exp, log
from .settings import kernel

Array = np.ndarray

MEMORY = 1 << 16  # numbers in a block's products: they stay in the second-level cache


@kernel
def _softmax(rows: Array) -> float:
    """The sum over the columns of log(sum(exp(column))); each column becomes its softmax."""
    terms, width = rows.shape
    top, norm = rows[0].copy(), np.zeros(width)
    for k in range(1, terms):
        for p in range(width):
            top[p] = max(top[p], rows[k, p])
    for k in range(terms):
        for p in range(width):
            rows[k, p] = exp(rows[k, p] - top[p])
            norm[p] += rows[k, p]
    total = 0.0
    for p in range(width):
        total += top[p] + log(norm[p])
        norm[p] = 1.0 / norm[p]
    for k in range(terms):
        for p in range(width):
            rows[k, p] *= norm[p]
    return total


@kernel
def _exponents(y: Array, shift: Array, bias: Array, inner: Array) -> None:
    """`y` becomes M (x - mean); `inner[k]` = bias[k] - |y[k]|² / 2."""
    terms, width = inner.shape
    d = y.shape[0] // terms
    for k in range(terms):
        for p in range(width):
            inner[k, p] = bias[k]
        for i in range(k * d, k * d + d):
            for p in range(width):
                y[i, p] -= shift[i]
                inner[k, p] -= 0.5 * y[i, p] * y[i, p]


@kernel
def _weigh(y: Array, weight: Array, pushed: Array, shares: Array) -> None:
    """`y[k]` times the weights of term k; adds up its rows, and the weights."""
    terms, width = weight.shape
    d = y.shape[0] // terms
    for k in range(terms):
        share = 0.0
        for p in range(width):
            share += weight[k, p]
        shares[k] += share
        for i in range(k * d, k * d + d):
            total = 0.0
            for p in range(width):
                y[i, p] *= weight[k, p]
                total += y[i, p]
            pushed[i] += total


@kernel
def _stacked(icf: Array, scales: Array, means: Array, m: Array, shift: Array, bias: Array) -> None:
    """The matrices M below each other, M @ mean; the sum of their log-diagonals is added."""
    terms, d = means.shape
    for k in range(terms):
        c = d
        for j in range(d):
            bias[k] += icf[k, j]
            m[k * d + j, j] = scales[k, j]
            for i in range(j + 1, d):
                m[k * d + i, j] = icf[k, c]
                c += 1
        for i in range(d):
            total = 0.0
            for j in range(i + 1):
                total += m[k * d + i, j] * means[k, j]
            shift[k * d + i] = total


@kernel
def _unstacked(
    m: Array, means: Array, scales: Array, sums: tuple[Array, ...], slopes: tuple[Array, ...]
) -> None:
    """Adds the gradient to `slopes`, from the sums of y x', of y and of the weights."""
    products, pushed, shares = sums
    alphas_bar, means_bar, icf_bar = slopes
    terms, d = means.shape
    for k in range(terms):
        alphas_bar[k] += shares[k]
        c = d
        for j in range(d):
            row = k * d + j
            slope = products[row, j] - pushed[row] * means[k, j]
            icf_bar[k, j] += shares[k] - scales[k, j] * slope
            means_bar[k, j] += scales[k, j] * pushed[row]
            for i in range(j + 1, d):
                row = k * d + i
                icf_bar[k, c] -= products[row, j] - pushed[row] * means[k, j]
                means_bar[k, j] += m[row, j] * pushed[row]
                c += 1


@kernel
def _points(
    alphas: Array, means: Array, icf: Array, scales: Array, x: Array, slopes: tuple[Array, ...]
) -> float:
    """The sum over the points of their log-likelihoods; adds its gradient."""
    (n, d), terms = x.shape, alphas.size
    m, shift, bias = np.zeros((terms * d, d)), np.empty(terms * d), alphas.copy()
    _stacked(icf, scales, means, m, shift, bias)
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


@kernel
def _prior(icf: Array, scales: Array, d: int, gamma: float, m: int, icf_bar: Array) -> float:
    """The Wishart prior of each matrix, constants apart; its gradient is added to `icf_bar`."""
    total = 0.0
    for k in range(icf.shape[0]):
        for i in range(icf.shape[1]):
            v = scales[k, i] if i < d else icf[k, i]
            total += 0.5 * gamma * gamma * v * v
            icf_bar[k, i] += gamma * gamma * (v * v if i < d else v)
            if i < d:
                total -= m * icf[k, i]
                icf_bar[k, i] -= m
    return total


def _constant(n: int, d: int, terms: int, gamma: float, m: int) -> float:
    degrees = d + m + 1
    gammas = sum(math.lgamma(0.5 * (degrees - j)) for j in range(d))
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + gammas
    norm = degrees * d * math.log(gamma / math.sqrt(2.0)) - log_gamma
    return -0.5 * n * d * math.log(2 * math.pi) - terms * norm


def gmm_value_and_grad(
    alphas: Array, means: Array, icf: Array, x: Array, gamma: float, m: int
) -> tuple[float, tuple[Array, ...]]:
    (n, d), shares = x.shape, alphas.reshape(-1, 1).copy()
    slopes = np.zeros_like(alphas), np.zeros_like(means), np.zeros_like(icf)
    scales = np.exp(icf[:, :d])
    total = _points(alphas, means, icf, scales, x, slopes)
    total += _prior(icf, scales, d, gamma, m, slopes[2]) - n * _softmax(shares)
    slopes[0][:] -= n * shares[:, 0]
    return total + _constant(n, d, alphas.size, gamma, m), slopes
