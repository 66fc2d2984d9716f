"""Gamma, digamma, zeta and beta functions, binomial coefficients (DLMF 5.2, 5.5, 5.12, 25.11)."""

from __future__ import annotations

from math import perm, pi

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ...trace import TracedArray, apply, constant_value
from ..sample_domains import positive, real
from .special_family import LACKING, order, special

_SHIFT = 12  # from here on seven terms of Stirling's series hold all digits
_STIRLING = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)  # B(2k) / (2k), DLMF 5.11.2


def _shifted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``psi(a + b) - psi(a)`` for a > 0 and a + b > 0, as a sum without cancellation of large terms."""
    end = a + b
    total = np.zeros_like(end)
    for k in range(_SHIFT):  # psi(x + 1) = psi(x) + 1 / x, DLMF 5.5.2
        total += b / (a + k) / (end + k)
    p, q = 1.0 / (a + _SHIFT), 1.0 / (end + _SHIFT)
    between = b * p * q  # p - q
    total += np.log1p(b * p) + 0.5 * between
    powers, last = np.ones_like(p), np.ones_like(p)  # (p**2k - q**2k) / (p**2 - q**2)
    for coefficient in _STIRLING:
        total += coefficient * between * (p + q) * powers
        last = last * q * q
        powers = powers * p * p + last
    return total


def digamma_rise_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x, y = np.asarray(a, float), np.asarray(b, float)
    with np.errstate(all="ignore"):
        end = x + y
        inside = (x > 0) & (end > 0) & np.isfinite(end)
        rise = _shifted(np.where(inside, x, 1.0), np.where(inside, y, 0.0))
        return np.where(inside, rise, sc.psi(end) - sc.psi(x))


def _rise_slopes(a: TracedArray, b: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (lambda: sc.zeta(2, a + b) - sc.zeta(2, a), lambda: sc.zeta(2, a + b))


# ``psi(a + b) - psi(a)``; the difference of both values would lose all digits for a >> b.
digamma_rise = special("digamma_rise", _rise_slopes, positive, positive, evaluate=digamma_rise_of)

special("gamma", lambda x, out: (out * sc.psi(x),), real)
special("rgamma", lambda x, out: (_rgamma_slope(x, out),), real)
special("gammaln", lambda x, out: (sc.psi(x),), real)
special("loggamma", lambda x, out: (sc.psi(x),), positive)
special("psi", lambda x, out: (sc.zeta(2, x),), real)
special("_zeta", lambda x, q, out: (LACKING, -x * sc.zeta(x + 1, q)), lambda rng, shape: order(rng, shape) + np.int8(1), positive)
special("_riemann_zeta", lambda x, out: (LACKING,), lambda rng, shape: order(rng, shape) + np.int8(1))
special("beta", lambda a, b, out: (lambda: -out * apply(digamma_rise, a, b), lambda: -out * apply(digamma_rise, b, a)), positive, positive)
special("betaln", lambda a, b, out: (lambda: -apply(digamma_rise, a, b), lambda: -apply(digamma_rise, b, a)), positive, positive)


def _binom_slopes(n: TracedArray, k: TracedArray, out: TracedArray) -> tuple[object, ...]:
    rest = n - k + 1.0
    return (
        lambda: _binom_by_n(n, k, out),
        lambda: np.where(
            pole(rest) | pole(k + 1.0),
            sc.gamma(n + 1.0) * (_by_rgamma(k + 1.0) * sc.rgamma(rest) - sc.rgamma(k + 1.0) * _by_rgamma(rest)),
            out * apply(digamma_rise, k + 1.0, n - k - k),
        ),
    )


_MOST = 30  # the largest degree of a polynomial whose slope is a sum


def _degree(k: TracedArray) -> int | None:
    """The degree of the polynomial that a constant whole number `k` makes of `binom` and `poch`."""
    value = constant_value(k)
    if value is None or value.size != 1 or not 0 <= value <= _MOST or value != np.floor(value):
        return None
    return int(value.item())


def _binom_by_n(n: TracedArray, k: TracedArray, out: TracedArray) -> object:
    """Slope in `n`; of a polynomial the sum of ``-(-1)**j binom(n, k - j) / j`` where n < k: there gamma has poles."""
    rest = n - k + 1.0
    slope = out * apply(digamma_rise, rest, k)
    if (degree := _degree(k)) is not None:
        terms = [-((-1.0) ** j) / j * sc.binom(n, float(degree - j)) for j in range(1, degree + 1)]
        return np.where(n < k, sum(terms, start=0.0 * n), slope)
    at_pole = sc.gamma(n + 1.0) * sc.rgamma(k + 1.0) * (sc.psi(n + 1.0) * sc.rgamma(rest) + _by_rgamma(rest))
    return np.where(pole(rest) | pole(k + 1.0), at_pole, slope)


def _poch_by_z(z: TracedArray, m: TracedArray, out: TracedArray) -> object:
    """Slope in `z`; of a polynomial the sum of ``m! / (m - j)! poch(z, m - j) / j`` where z is not positive."""
    slope = out * apply(digamma_rise, z, m)
    if (degree := _degree(m)) is not None:
        terms = [perm(degree, j) / j * sc.poch(z, float(degree - j)) for j in range(1, degree + 1)]
        return np.where(z > 0, slope, sum(terms, start=0.0 * z))
    at_pole = sc.gamma(z + m) * (sc.psi(z + m) * sc.rgamma(z) + _by_rgamma(z))
    return np.where(pole(z), at_pole, slope)


def pole(x: object) -> object:
    """Where gamma is infinite. A density with this parameter is 0; it is met as the derivative of one at its end."""
    return (x <= 0) & (x == np.floor(x))


def _by_rgamma(x: TracedArray) -> object:
    return _rgamma_slope(x, sc.rgamma(x))


special("binom", _binom_slopes, lambda rng, shape: rng.uniform(3.2, 6.0, shape), positive)
special("poch", lambda z, m, out: (lambda: _poch_by_z(z, m, out), lambda: out * sc.psi(z + m)), positive, positive)


def _rgamma_slope(x: TracedArray, out: TracedArray) -> object:
    """``-psi(x) / gamma(x)``; left of 1/2 by reflection, so that it is exact at the poles of gamma."""
    left = x < 0.5
    mirror = 1.0 - np.where(left, x, 0.0)
    angle = 180.0 * x
    reflected = sc.gamma(mirror) * (sc.cosdg(angle) - sc.sindg(angle) * sc.psi(mirror) / pi)
    return np.where(left, reflected, -sc.psi(np.where(left, 1.0, x)) * out)
