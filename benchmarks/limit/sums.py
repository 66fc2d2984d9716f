"""Sums of elementwise functions."""

from __future__ import annotations

import math

import numpy as np

from .settings import kernel

Array = np.ndarray


@kernel
def _squares(x: Array, slope: Array) -> float:
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
        slope[i] = 2.0 * x[i]
    return total


def squares_value_and_grad(x: Array) -> tuple[float, Array]:
    slope = np.empty_like(x)
    return _squares(x, slope), slope


@kernel
def _chain(x: Array, slope: Array) -> float:
    """sin(x) exp(-x²) + log1p(x²) tanh(x)."""
    total = 0.0
    for i in range(x.size):
        v = x[i]
        square = v * v
        s, c, bell = math.sin(v), math.cos(v), math.exp(-square)
        log, tanh = math.log1p(square), math.tanh(v)
        total += s * bell + log * tanh
        slope[i] = (
            bell * (c - 2.0 * v * s) + 2.0 * v / (1.0 + square) * tanh + log * (1.0 - tanh * tanh)
        )
    return total


def chain_value_and_grad(x: Array) -> tuple[float, Array]:
    slope = np.empty_like(x)
    return _chain(x, slope), slope
