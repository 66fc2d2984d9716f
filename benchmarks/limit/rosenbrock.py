"""Rosenbrock's function, sum of 100 (x[i+1] - x[i]²)² + (1 - x[i])²."""

from __future__ import annotations

import numpy as np

from .settings import kernel

Array = np.ndarray


@kernel
def _value_and_grad(x: Array, slope: Array) -> float:
    """One loop; each entry of the gradient gathers from both terms it occurs in."""
    n = x.size
    d = x[1] - x[0] * x[0]
    e = 1.0 - x[0]
    total = 100.0 * d * d + e * e
    slope[0] = -400.0 * x[0] * d - 2.0 * e
    for i in range(1, n - 1):
        before = x[i] - x[i - 1] * x[i - 1]
        d = x[i + 1] - x[i] * x[i]
        e = 1.0 - x[i]
        total += 100.0 * d * d + e * e
        slope[i] = 200.0 * before - 400.0 * x[i] * d - 2.0 * e
    slope[n - 1] = 200.0 * (x[n - 1] - x[n - 2] * x[n - 2])
    return total


def rosenbrock_value_and_grad(x: Array) -> tuple[float, Array]:
    slope = np.empty_like(x)
    return _value_and_grad(x, slope), slope


@kernel
def _hessian(x: Array, out: Array) -> None:
    """Tridiagonal: the diagonal gathers, the rest is zero."""
    n = x.size
    for i in range(n):
        for j in range(n):
            out[i, j] = 0.0
    for i in range(n - 1):
        out[i, i] = 1200.0 * x[i] * x[i] - 400.0 * x[i + 1] + 2.0
        out[i, i + 1] = out[i + 1, i] = -400.0 * x[i]
    for i in range(1, n - 1):
        out[i, i] += 200.0
    out[n - 1, n - 1] = 200.0


def rosenbrock_hessian(x: Array) -> Array:
    out = np.empty((x.size, x.size))
    _hessian(x, out)
    return out


@kernel
def _hvp(x: Array, v: Array, out: Array) -> None:
    n = x.size
    out[0] = (1200.0 * x[0] * x[0] - 400.0 * x[1] + 2.0) * v[0] - 400.0 * x[0] * v[1]
    for i in range(1, n - 1):
        diagonal = 1200.0 * x[i] * x[i] - 400.0 * x[i + 1] + 202.0
        out[i] = diagonal * v[i] - 400.0 * (x[i] * v[i + 1] + x[i - 1] * v[i - 1])
    out[n - 1] = 200.0 * v[n - 1] - 400.0 * x[n - 2] * v[n - 2]


def rosenbrock_hvp(x: Array, v: Array) -> Array:
    out = np.empty_like(x)
    _hvp(x, v, out)
    return out
