"""Sums of elementwise functions: one pass, value and slope together."""

from __future__ import annotations

import math

import numpy as np

from .maths import erf, exp, log, log1p, sincos, tanh
from .settings import kernel

Array = np.ndarray

ROOT_HALF = math.sqrt(0.5)
DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


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
        s, c = sincos(v)
        bell, rise, bend = exp(-square), log1p(square), tanh(v)
        total += s * bell + rise * bend
        slope[i] = (
            bell * (c - 2.0 * v * s) + 2.0 * v / (1.0 + square) * bend + rise * (1.0 - bend * bend)
        )
    return total


def chain_value_and_grad(x: Array) -> tuple[float, Array]:
    slope = np.empty_like(x)
    return _chain(x, slope), slope


@kernel
def _black_scholes(
    spot: Array,
    sigma: Array,
    strike: Array,
    time: Array,
    rate: float,
    delta: Array,
    vega: Array,
) -> float:
    """Delta is the distribution function at d1, vega spot sqrt(time) times the density there."""
    total = 0.0
    for i in range(spot.size):
        root_time = math.sqrt(time[i])
        root = sigma[i] * root_time
        drift = (rate + 0.5 * sigma[i] * sigma[i]) * time[i]
        d1 = (log(spot[i] / strike[i]) + drift) / root
        d2 = d1 - root
        bell1, bell2 = exp(-0.5 * d1 * d1), exp(-0.5 * d2 * d2)
        upper = 0.5 + 0.5 * erf(d1 * ROOT_HALF, bell1)
        lower = 0.5 + 0.5 * erf(d2 * ROOT_HALF, bell2)
        total += spot[i] * upper - strike[i] * exp(-rate * time[i]) * lower
        delta[i] = upper
        vega[i] = spot[i] * root_time * DENSITY * bell1
    return total


def black_scholes_value_and_grad(
    spot: Array, sigma: Array, strike: Array, time: Array, rate: float
) -> tuple[float, tuple[Array, Array]]:
    delta, vega = np.empty_like(spot), np.empty_like(spot)
    return _black_scholes(spot, sigma, strike, time, rate, delta, vega), (delta, vega)
