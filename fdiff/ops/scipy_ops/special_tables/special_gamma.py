"""Gamma, digamma, zeta and beta functions, binomial coefficients (DLMF 5.2, 5.5, 5.12, 25.11)."""

from __future__ import annotations

from math import comb, factorial, perm, pi

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ....arraytype import broadcast_all
from ....trace import Array, TracedArray, apply, constant_value
from ...entrywise.sample_domains import positive, real
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


def digamma_rise_of(a: np.ndarray, b: np.ndarray, *, n: int = 0) -> np.ndarray:
    """n-th derivative of psi at a + b less that at a.

    Left of 1 by reflection (DLMF 5.5.4, 5.15.6), whose cotangents cancel for whole numbers b, and with them the poles.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    with np.errstate(all="ignore"):
        end = x + y
        right = (x > 0) & (end > 0)
        left, whole = (x < 1) & (end < 1) & ~right, y == np.floor(y)
        if n:  # DLMF 25.11.12
            mirrored = left & whole
            low, high = (sc.zeta(n + 1, np.where(mirrored, 1.0 - v, v)) for v in (x, end))
            return factorial(n) * np.where(mirrored, -1.0, (-1.0) ** (n + 1)) * (high - low)
        inside = (right | left) & np.isfinite(end)
        rise = _shifted(np.where(inside, np.where(left, 1.0 - x, x), 1.0), np.where(inside, np.where(left, -y, y), 0.0))
        if np.all(right & inside):
            return rise
        turned = pi * _sin_pi(y) / (_sin_pi(x) * _sin_pi(end))
        return np.where(inside, rise + np.where(left & ~whole, turned, 0.0), _digamma(end) - _digamma(x))


def _sin_pi(x: np.ndarray) -> np.ndarray:
    nearest = np.rint(x)
    return np.sin(pi * (x - nearest)) * np.where(np.fmod(nearest, 2.0) == 0, 1.0, -1.0)


def _digamma(x: np.ndarray) -> np.ndarray:
    """Also next to its poles, where SciPy's rounds the multiple of pi."""
    return np.where(x < 0, sc.psi(1.0 - x) - pi / np.tan(pi * (x - np.rint(x))), sc.psi(x))


def _rise_slopes(a: TracedArray, b: TracedArray, out: TracedArray, n: int = 0) -> tuple[object, ...]:
    by_b = lambda: (-1.0) ** n * factorial(n + 1) * sc.zeta(n + 2, a + b)  # noqa: E731 - DLMF 25.11.12
    return (lambda: apply(digamma_rise, a, b, n=n + 1), by_b)


# ``psi(a + b) - psi(a)``; the difference of both values would lose all digits for a >> b.
digamma_rise = special("digamma_rise", _rise_slopes, positive, evaluate=digamma_rise_of, params=({}, {"n": 1}))


def order_above_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return order(rng, shape) + np.int8(1)


special("gamma", lambda x, out: out * sc.psi(x), real)
special("rgamma", lambda x, out: _rgamma_slope(x, out), real)
special("gammaln", lambda x, out: sc.psi(x), real)
special("loggamma", lambda x, out: sc.psi(x), positive)
special("psi", lambda x, out: sc.zeta(2, x), real)
special("_zeta", lambda x, q, out: -x * sc.zeta(x + 1, q), order_above_one, positive)
special("_riemann_zeta", lambda x, out: LACKING, order_above_one)
special("beta", lambda a, b, out: (lambda: _beta_by_a(a, b, out), lambda: _beta_by_a(b, a, out)), positive)
special("betaln", lambda a, b, out: (lambda: _log_beta_by_a(a, b), lambda: _log_beta_by_a(b, a)), positive)


def _gamma_derivative(x: np.ndarray, n: int) -> np.ndarray:
    """By Leibniz's rule for ``gamma' = gamma psi``."""
    values = [sc.gamma(x)]
    for k in range(n):
        values.append(sum(comb(k, i) * values[i] * sc.polygamma(k - i, x) for i in range(k + 1)))
    return values[n]


def _rgamma_derivative(x: np.ndarray, n: int) -> np.ndarray:
    """By Leibniz's rule for ``gamma(1 - x) sin(pi x) / pi`` (DLMF 5.5.3)."""
    waves = [pi ** (k - 1) * (-1.0) ** (k // 2) * _sin_pi(x + 0.5 * (k % 2)) for k in range(n + 1)]
    terms = [(-1) ** k * comb(n, k) * _gamma_derivative(1.0 - x, k) * waves[n - k] for k in range(n + 1)]
    return np.sum(terms, axis=0)


def _gamma_quotient(x: np.ndarray, y: np.ndarray, z: np.ndarray, *, i: int, j: int, k: int) -> np.ndarray:
    u, v, w = broadcast_all(x, y, z)
    out, left = np.full(w.shape, np.nan), w < 0.5
    if np.any(left):
        u, v, w = (a[left].astype(float) for a in (u, v, w))
        with np.errstate(all="ignore"):
            out[left] = _gamma_derivative(u, i) * _gamma_derivative(v, j) * _rgamma_derivative(w, k)
    return out


def _gamma_quotient_slopes(x: TracedArray, y: TracedArray, z: TracedArray, out: TracedArray, **orders: int) -> tuple[object, ...]:
    return tuple(lambda n=n: apply(gamma_quotient, x, y, z, **{**orders, n: orders[n] + 1}) for n in "ijk")


def below_half(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(-4.0, 0.4, shape)


# A partial derivative of ``gamma(x) gamma(y) / gamma(z)`` for z < 1/2. At a pole of gamma(z) it is no multiple of the quotient, which is 0.
_ORDERS = ({"i": 0, "j": 0, "k": 1}, {"i": 1, "j": 1, "k": 2})
gamma_quotient = special("gamma_quotient", _gamma_quotient_slopes, positive, positive, below_half, evaluate=_gamma_quotient, params=_ORDERS)


def _at_zero(x: TracedArray, y: object, z: TracedArray) -> Array:
    """The slope in t of ``gamma(x + t) gamma(y) / gamma(z + t)`` at such a zero."""
    return apply(gamma_quotient, x, y, z, i=1, j=0, k=0) + apply(gamma_quotient, x, y, z, i=0, j=0, k=1)


def _beta_by_a(a: TracedArray, b: TracedArray, out: TracedArray) -> object:
    return np.where(pole(a + b) & ~pole(a), _at_zero(a, b, a + b), -out * apply(digamma_rise, a, b))


def _log_beta_by_a(a: TracedArray, b: TracedArray) -> object:
    return -apply(digamma_rise, a, b)


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
    return np.where(pole(z) & ~pole(z + m), _at_zero(z + m, np.ones((), z.dtype), z), slope)


def pole(x: Array) -> Array:
    """Where gamma is infinite. A density with this parameter is 0; it is met as the derivative of one at its end."""
    return (x <= 0) & (x == np.floor(x))


def _by_rgamma(x: TracedArray) -> object:
    return _rgamma_slope(x, sc.rgamma(x))


special("binom", _binom_slopes, lambda rng, shape: rng.uniform(3.2, 6.0, shape), positive)
special("poch", lambda z, m, out: (lambda: _poch_by_z(z, m, out), lambda: out * sc.psi(z + m)), positive)


def _rgamma_slope(x: TracedArray, out: TracedArray) -> object:
    """``-psi(x) / gamma(x)``; left of 1/2 by reflection, so that it is exact at the poles of gamma."""
    left = x < 0.5
    mirror = 1.0 - np.where(left, x, 0.0)
    angle = 180.0 * x
    reflected = sc.gamma(mirror) * (sc.cosdg(angle) - sc.sindg(angle) * sc.psi(mirror) / pi)
    return np.where(left, reflected, -sc.psi(np.where(left, 1.0, x)) * out)
