"""The marginal likelihood of a Gaussian process: LAPACK on one triangle, the rest in two passes.

Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equations 5.8 and 5.9.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from .maths import exp
from .settings import kernel

Array = np.ndarray


@kernel
def _covariance(theta: Array, squares: Array, signal: Array, full: Array) -> None:
    """The lower triangles of the signal's covariance, and of that with noise."""
    amplitude, inverse = 2.0 * theta[0], math.exp(-2.0 * theta[1])
    noise = math.exp(2.0 * theta[2])
    for i in range(squares.shape[0]):
        for j in range(i + 1):
            signal[i, j] = exp(amplitude - 0.5 * inverse * squares[i, j])
            full[i, j] = signal[i, j]
        full[i, i] += noise


@kernel
def _slopes(
    theta: Array, squares: Array, signal: Array, inverse: Array, alpha: Array, out: Array
) -> None:
    """Half the trace of (K⁻¹ - α α') dK for each parameter; off-diagonal entries count twice."""
    n, length = squares.shape[0], math.exp(-2.0 * theta[1])
    by_amplitude, by_length, by_noise = 0.0, 0.0, 0.0
    for i in range(n):
        a, row0, row1 = alpha[i], 0.0, 0.0
        for j in range(i):
            weight = (inverse[i, j] - a * alpha[j]) * signal[i, j]
            row0 += weight
            row1 += weight * squares[i, j]
        middle = inverse[i, i] - a * a
        by_amplitude += 2.0 * row0 + middle * signal[i, i]
        by_length += 2.0 * row1 + middle * signal[i, i] * squares[i, i]
        by_noise += middle
    out[0] = by_amplitude
    out[1] = 0.5 * by_length * length
    out[2] = by_noise * math.exp(2.0 * theta[2])


@kernel
def _value(full: Array, y: Array, alpha: Array) -> float:
    total = 0.5 * y.size * math.log(2.0 * math.pi)
    for i in range(y.size):
        total += 0.5 * y[i] * alpha[i] + math.log(full[i, i])
    return total


def process_value_and_grad(theta: Array, squares: Array, eye: Array, y: Array) -> tuple:
    """Transposed, a lower triangle by rows is the upper one by columns that LAPACK wants."""
    signal, full, slope = np.empty_like(squares), np.empty_like(squares), np.empty(3)
    _covariance(theta, squares, signal, full)
    factor, status = dpotrf(full.T, lower=0, clean=0, overwrite_a=1)
    assert status == 0
    alpha, _ = dpotrs(factor, y, lower=0)
    value = _value(factor.T, y, alpha)
    inverse, _ = dpotri(factor, lower=0, overwrite_c=1)
    _slopes(theta, squares, signal, inverse.T, alpha, slope)
    return value, slope
