"""ADBench's Gaussian mixture: value and gradient in one pass over the points."""

from __future__ import annotations

import math

import numpy as np

from .settings import kernel

Array = np.ndarray


@kernel
def _softmax(row: Array) -> float:
    """log(sum(exp(row))); `row` becomes its softmax."""
    top = row[0]
    for k in range(row.size):
        top = max(top, row[k])
    total = 0.0
    for k in range(row.size):
        row[k] = math.exp(row[k] - top)
        total += row[k]
    for k in range(row.size):
        row[k] /= total
    return top + math.log(total)


@kernel
def _points(
    alphas: Array, means: Array, icf: Array, scales: Array, x: Array, slopes: tuple[Array, ...]
) -> float:
    """The sum over the points of their log-likelihoods, and its gradient.

    The strict lower triangle of each matrix lies in `icf[k, d:]`, column after column.
    """
    (n, d), terms = x.shape, alphas.size
    alphas_bar, means_bar, icf_bar = slopes
    y, inner, bias = np.empty((terms, d)), np.empty(terms), np.empty(terms)
    for k in range(terms):
        bias[k] = alphas[k]
        for i in range(d):
            bias[k] += icf[k, i]
    total = 0.0
    for p in range(n):
        for k in range(terms):
            for i in range(d):
                y[k, i] = scales[k, i] * (x[p, i] - means[k, i])
            c = d
            for j in range(d - 1):
                centred = x[p, j] - means[k, j]
                for i in range(j + 1, d):
                    y[k, i] += icf[k, c + i - j - 1] * centred
                c += d - 1 - j
            square = 0.0
            for i in range(d):
                square += y[k, i] * y[k, i]
            inner[k] = bias[k] - 0.5 * square
        total += _softmax(inner)
        for k in range(terms):
            weight = inner[k]
            alphas_bar[k] += weight
            c = d
            for j in range(d):
                centred = x[p, j] - means[k, j]
                push = y[k, j] * scales[k, j]
                icf_bar[k, j] += weight * (1.0 - push * centred)
                for i in range(j + 1, d):
                    push += icf[k, c + i - j - 1] * y[k, i]
                    icf_bar[k, c + i - j - 1] -= weight * y[k, i] * centred
                c += d - 1 - j
                means_bar[k, j] += weight * push
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
    (n, d), shares = x.shape, alphas.copy()
    slopes = np.zeros_like(alphas), np.zeros_like(means), np.zeros_like(icf)
    scales = np.exp(icf[:, :d])
    total = _points(alphas, means, icf, scales, x, slopes)
    total += _prior(icf, scales, d, gamma, m, slopes[2]) - n * _softmax(shares)
    slopes[0][:] -= n * shares
    return total + _constant(n, d, alphas.size, gamma, m), slopes
