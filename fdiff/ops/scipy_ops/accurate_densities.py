"""Densities of the gamma, beta and Student distributions, accurate for large parameters too.

C. Loader, "Fast and accurate computation of binomial probabilities" (2000): for a large parameter the density is
expanded around its mode by Stirling's series, so that no large terms cancel.
"""

from __future__ import annotations

from math import pi

import numpy as np
from scipy import special as sc

from ...trace import TracedArray, apply
from ..accurate_partials import power_of_sum, product_error
from ..sample_domains import positive
from .special_family import special
from .special_gamma import digamma_rise

LARGE = 30.0  # from here on Stirling's series
Array = np.ndarray


def _stirling(s: object) -> object:
    """The remainder of Stirling's formula: ``log gamma(s) - ((s - 1/2) log(s) - s + log(2 pi) / 2)`` (DLMF 5.11.1)."""
    w = 1.0 / (s * s)
    return (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w / 1188.0)))) / s


def _less_log(u: Array) -> Array:
    """``u - log(1 + u)``, by its series near 0 (DLMF 15.4.1)."""
    near = np.abs(u) < 0.5
    safe = np.where(near, u, 0.0)
    return np.where(near, 0.5 * safe * safe * sc.hyp2f1(1.0, 2.0, 3.0, -safe), u - np.log1p(np.where(near, 0.0, u)))


def gamma_density(a: Array, x: Array) -> Array:
    """``x**(a - 1) exp(-x) / gamma(a)``."""
    s, y = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    with np.errstate(all="ignore"):
        half = power_of_sum(y, 0.5 * s, np.float64(-0.5)) * np.exp(-0.5 * y)  # the whole may be in the range where its factors are not
        direct = np.where(y > 4000.0, 0.0, half * sc.rgamma(s) * half)
        large = (s > LARGE) & (y > 0.0) & np.isfinite(y)
        c, z = np.where(large, s, LARGE), np.where(large, y, LARGE)
        scaled = np.exp(-c * _less_log((z - c) / c) - _stirling(c)) * np.sqrt(c / (2.0 * pi)) / z
        return np.where(large, scaled, np.where((s > LARGE) & (y == 0.0), 0.0, direct))[()]


def _gamma_slope(a: TracedArray, x: TracedArray, out: TracedArray) -> object:
    zero = x == 0
    at_zero = np.where(a == 1.0, -1.0, (a - 1.0) * np.power(np.where(zero, x, 1.0), a - 2.0))
    return np.where(zero, at_zero, out * ((a - 1.0 - x) / np.where(zero, 1.0, x)))


def _beta_by_powers(a: Array, b: Array, x: Array, y: Array) -> Array:
    return power_of_sum(x, a, np.float64(-1.0)) * power_of_sum(y, b, np.float64(-1.0)) / sc.beta(a, b)


def _beta_by_logarithms(a: Array, b: Array, x: Array, y: Array) -> Array:
    first = (a - 1.0) * np.where(x < 0.5, np.log(x), np.log1p(-y))
    second = (b - 1.0) * np.where(y < 0.5, np.log(y), np.log1p(-x))
    return np.exp(first + second - sc.betaln(a, b))


def _beta_by_mode(a: Array, b: Array, x: Array, y: Array) -> Array:
    n, low = a + b, x <= 0.5  # of 1 - x one is exact
    part, mean = np.where(low, x, y), np.where(low, a, b)
    product = part * n
    beyond = (product - mean) + product_error(part, n, product)
    e = np.where(low, beyond, -beyond)  # x n - a
    far = a * _less_log(e / a) + b * _less_log(-e / b)
    return np.exp(_stirling(n) - _stirling(a) - _stirling(b) - far) * np.sqrt(a / (2.0 * pi)) * np.sqrt(b / n) / (x * y)


def beta_density(a: Array, b: Array, x: Array, y: Array | None = None) -> Array:
    """``x**(a - 1) y**(b - 1) / B(a, b)``, where y = 1 - x may be known better than `x` tells."""
    given = (np.asarray(v, float) for v in (a, b, x, 1.0 - np.asarray(x, float) if y is None else y))
    s, t, u, v = np.broadcast_arrays(*given)
    with np.errstate(all="ignore"):
        inner = (u > 0) & (v > 0)
        both, none = (s > LARGE) & (t > LARGE) & inner, (s <= LARGE) & (t <= LARGE)
        c, d = np.where(both, s, 50.0), np.where(both, t, 50.0)
        mode = _beta_by_mode(c, d, np.where(both, u, 0.5), np.where(both, v, 0.5))
        logarithms = np.where(inner, _beta_by_logarithms(s, t, u, v), _beta_by_powers(s, t, u, v))
        return np.where(both, mode, np.where(none, _beta_by_powers(s, t, u, v), logarithms))[()]


def _density_slopes(a: TracedArray, x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (lambda: out * (np.log(x) - sc.psi(a)), lambda: _gamma_slope(a, x, out))


gamma_density_op = special("gamma_density", _density_slopes, positive, positive, evaluate=gamma_density)


def _power_slope(exponent: TracedArray, x: TracedArray, out: TracedArray) -> object:
    """``exponent * out / x``; 0 where the power is constant."""
    return np.where(exponent == 0, 0.0, exponent * out / np.where(exponent == 0, 1.0, x))


def _beta_density_slopes(a: TracedArray, b: TracedArray, x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (
        lambda: out * (np.log(x) + apply(digamma_rise, a, b)),
        lambda: out * (np.log(y) + apply(digamma_rise, b, a)),
        lambda: _power_slope(a - 1.0, x, out),
        lambda: _power_slope(b - 1.0, y, out),
    )


beta_density_op = special("beta_density", _beta_density_slopes, positive, positive, positive, positive, evaluate=beta_density)


def student_density(df: TracedArray, t: TracedArray) -> object:
    """The density of Student's distribution: ``(1 + t**2 / df)**(-(df + 1) / 2) / (sqrt(df) B(df / 2, 1 / 2))``."""
    large = df > 2.0 * LARGE
    few, many = np.where(large, 1.0, df), np.where(large, df, 4.0 * LARGE)
    power = np.power(np.hypot(t / np.sqrt(few), 1.0), -1.0 - few) / (np.sqrt(few) * sc.beta(0.5 * few, 0.5))
    v = 0.5 * many
    ratio = np.exp(v * np.log1p(0.5 / v) - 0.5 + _stirling(v + 0.5) - _stirling(v)) * np.sqrt(0.5 / pi)
    return np.where(large, ratio * np.exp(-0.5 * (many + 1.0) * np.log1p(t / many * t)), power)
