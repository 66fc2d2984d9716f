"""ADBench's Gaussian mixture: value and gradient, blocks of points in the innermost loops."""

from __future__ import annotations

import math

import numpy as np

from .settings import kernel

Array = np.ndarray


BLOCK = 128  # points at a time: what is computed about them stays in the second-level cache


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
            rows[k, p] = math.exp(rows[k, p] - top[p])
            norm[p] += rows[k, p]
    total = 0.0
    for p in range(width):
        total += top[p] + math.log(norm[p])
        norm[p] = 1.0 / norm[p]
    for k in range(terms):
        for p in range(width):
            rows[k, p] *= norm[p]
    return total


@kernel
def _forward(xc: Array, scale: Array, icf: Array, y: Array) -> None:
    """`y` = M @ `xc`, M with diagonal `scale` and strict lower triangle `icf[d:]` by columns."""
    d, width = xc.shape
    for i in range(d):
        for p in range(width):
            y[i, p] = scale[i] * xc[i, p]
    c = d
    for j in range(d):
        for i in range(j + 1, d):
            for p in range(width):
                y[i, p] += icf[c] * xc[j, p]
            c += 1


@kernel
def _backward(
    weight: Array, xc: Array, scale: Array, icf: Array, y: Array, mean_bar: Array, icf_bar: Array
) -> float:
    """Adds what these points contribute to the gradient of one term; the sum of the weights."""
    (d, width), share = xc.shape, 0.0
    for p in range(width):
        share += weight[p]
    for i in range(d):
        pushed, slope = 0.0, 0.0
        for p in range(width):
            y[i, p] *= weight[p]
            pushed += y[i, p]
            slope += y[i, p] * xc[i, p]
        icf_bar[i] += share - scale[i] * slope
        mean_bar[i] += scale[i] * pushed
        c = d + i - 1
        for j in range(i):  # row i of the triangle
            slope = 0.0
            for p in range(width):
                slope += y[i, p] * xc[j, p]
            icf_bar[c] -= slope
            mean_bar[j] += icf[c] * pushed
            c += d - 2 - j
    return share


@kernel
def _points(
    alphas: Array, means: Array, icf: Array, scales: Array, x: Array, slopes: tuple[Array, ...]
) -> float:
    """The sum over the points (columns of `x`) of their log-likelihoods; adds its gradient."""
    (d, n), terms = x.shape, alphas.size
    alphas_bar, means_bar, icf_bar = slopes
    total = 0.0
    for start in range(0, n, BLOCK):
        width = min(BLOCK, n - start)
        y, xc = np.empty((terms, d, width)), np.empty((terms, d, width))
        inner = np.empty((terms, width))
        for k in range(terms):
            bias = alphas[k]
            for i in range(d):
                bias += icf[k, i]
                for p in range(width):
                    xc[k, i, p] = x[i, start + p] - means[k, i]
            _forward(xc[k], scales[k], icf[k], y[k])
            for p in range(width):
                inner[k, p] = 0.0
            for i in range(d):
                for p in range(width):
                    inner[k, p] += y[k, i, p] * y[k, i, p]
            for p in range(width):
                inner[k, p] = bias - 0.5 * inner[k, p]
        total += _softmax(inner)
        for k in range(terms):
            alphas_bar[k] += _backward(
                inner[k], xc[k], scales[k], icf[k], y[k], means_bar[k], icf_bar[k]
            )
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
    total = _points(alphas, means, icf, scales, np.ascontiguousarray(x.T), slopes)
    total += _prior(icf, scales, d, gamma, m, slopes[2]) - n * _softmax(shares)
    slopes[0][:] -= n * shares[:, 0]
    return total + _constant(n, d, alphas.size, gamma, m), slopes
