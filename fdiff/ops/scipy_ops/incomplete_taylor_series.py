"""Derivatives of the incomplete gamma and beta functions in their parameters, by truncated Taylor series.

The series are carried through the power series and the continued fractions of the functions: R. J. Moore,
"Algorithm AS 187: Derivatives of the incomplete gamma integral", Applied Statistics 31 (1982), and R. J. Boik
and J. F. Robison-Cox, "Derivatives of the incomplete beta function", J. Statistical Software 3(1) (1998), here
to any order.

A series is an array (`Jet`) whose two leading axes are the powers of the increments of `a` and `b`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import factorial

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from .accurate_densities import beta_density, gamma_density

Jet = np.ndarray
_EPS = 1e-17
_MOST = 100_000  # terms: about six times the square root of the largest parameter are taken


def _lower(i: int, j: int) -> Sequence[tuple[int, int]]:
    return tuple(product(range(i + 1), range(j + 1)))


def _times(p: Jet, q: Jet) -> Jet:
    out = np.zeros_like(p)
    for i, j in _lower(p.shape[0] - 1, p.shape[1] - 1):
        for k, m in _lower(i, j):
            out[i, j] += p[k, m] * q[i - k, j - m]
    return out


def _over(p: Jet, q: Jet) -> Jet:
    out = np.zeros_like(p)
    for i, j in _lower(p.shape[0] - 1, p.shape[1] - 1):
        known = sum((q[k, m] * out[i - k, j - m] for k, m in _lower(i, j) if k or m), start=np.zeros_like(p[0, 0]))
        out[i, j] = (p[i, j] - known) / q[0, 0]
    return out


def _linear(value: np.ndarray, by_a: float, by_b: float, orders: tuple[int, int]) -> Jet:
    """``value + by_a da + by_b db``."""
    out = np.zeros((orders[0] + 1, orders[1] + 1, *np.shape(value)))
    out[0, 0] = value
    if orders[0]:
        out[1, 0] = by_a
    if orders[1]:
        out[0, 1] = by_b
    return out


def _exp(p: Jet, value: np.ndarray) -> Jet:
    """``value * exp(p)`` for a jet without a constant term."""
    total = term = _linear(np.ones_like(p[0, 0]), 0.0, 0.0, (p.shape[0] - 1, p.shape[1] - 1))
    for k in range(1, p.shape[0] + p.shape[1] - 1):
        term = _times(term, p) / k
        total = total + term
    return value * total


def _log_gamma(s: np.ndarray, by_a: int, by_b: int, orders: tuple[int, int]) -> Jet:
    """Taylor series of ``log gamma(s + by_a da + by_b db)``, without its constant term."""
    out = np.zeros((orders[0] + 1, orders[1] + 1, *s.shape))
    for i, j in _lower(*orders):
        if i + j and (by_a or not i) and (by_b or not j):
            out[i, j] = sc.polygamma(i + j - 1, s) / (factorial(i) * factorial(j))
    return out


def _fraction(start: Jet, terms: object) -> Jet:
    """Continued fraction ``b0 + a1 / (b1 + a2 / ...)`` by the modified Lentz method.

    Thompson and Barnett, "Coulomb and Bessel functions of complex arguments and order", J. Comput.
    Phys. 64 (1986), section III.
    """
    orders = start.shape[0] - 1, start.shape[1] - 1
    one = _linear(np.ones_like(start[0, 0]), 0.0, 0.0, orders)
    value = upper = start
    lower = np.zeros_like(start)
    for _, (a, b) in zip(range(_MOST), terms, strict=False):
        lower = _over(one, b + _times(a, lower))
        upper = b + _over(a, upper)
        step = _times(upper, lower)
        value = _times(value, step)
        change = np.abs(step - one)
        if np.all((change <= 4e-16 * np.maximum(1.0, np.abs(value / value[0, 0]))) | ~np.isfinite(change)):
            break
    return value


def _front(a: np.ndarray, x: np.ndarray, n: int) -> Jet:
    """Taylor series of ``x**a exp(-x) / gamma(a + 1)`` in `a`."""
    logarithm = -_log_gamma(a + 1.0, 1, 0, (n, 0))
    logarithm[1, 0] += np.log(x)
    return _exp(logarithm, x / a * gamma_density(a, x))


def _gamma_series(a: np.ndarray, x: np.ndarray, n: int) -> np.ndarray:
    """n-th derivative in `a` of P(a, x), by its power series (DLMF 8.7.1)."""
    term = _front(a, x, n)
    total = term.copy()
    for k in range(1, _MOST):
        term = _over(x * term, _linear(a + k, 1.0, 0.0, (n, 0)))
        total += term
        if np.all((np.abs(term) <= _EPS * np.abs(total)) | ~np.isfinite(term)):
            break
    return factorial(n) * total[n, 0]


def _gamma_fraction(a: np.ndarray, x: np.ndarray, n: int) -> np.ndarray:
    """n-th derivative in `a` of P(a, x), by the continued fraction of Q(a, x) (DLMF 8.9.2, contracted)."""
    orders = (n, 0)
    terms = ((_linear(-k * (k - a), float(k), 0.0, orders), _linear(x + 1.0 - a + 2.0 * k, -1.0, 0.0, orders)) for k in range(1, _MOST))
    value = _fraction(_linear(x + 1.0 - a, -1.0, 0.0, orders), terms)
    front = _times(_front(a, x, n), _linear(a, 1.0, 0.0, orders))
    return -factorial(n) * _over(front, value)[n, 0]


def gammainc_by_a(a: np.ndarray, x: np.ndarray, *, n: int) -> np.ndarray:
    """n-th derivative in `a` of the regularised lower incomplete gamma function, n > 0."""
    s, y = (np.ravel(v).astype(float) for v in np.broadcast_arrays(a, x))
    out = np.full(s.shape, np.nan)
    valid = (s > 0) & (y >= 0) & np.isfinite(s)
    out[valid & ((y == 0) | np.isinf(y))] = 0.0
    inner = valid & (y > 0) & np.isfinite(y)
    with np.errstate(all="ignore"):
        for part, rule in ((inner & (y <= s + 1.0), _gamma_series), (inner & (y > s + 1.0), _gamma_fraction)):
            if np.any(part):
                out[part] = rule(s[part], y[part], n)
    return out.reshape(np.broadcast_shapes(np.shape(a), np.shape(x)))


def _beta_fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray, i: int, j: int) -> np.ndarray:
    """Derivatives in `a` and `b` of I_x(a, b), for x below its mean (DLMF 8.17.22)."""
    orders = (i, j)

    def line(value: np.ndarray, by_a: float = 0.0, by_b: float = 0.0) -> Jet:
        return _linear(value, by_a, by_b, orders)

    one = line(np.ones_like(x))

    def terms() -> object:
        for k in range(_MOST):
            m = k // 2
            ends = _times(line(a + 2 * m, 1.0), line(a + 2 * m + (-1 if k % 2 == 0 else 1), 1.0))
            if k % 2:
                yield _over(-x * _times(line(a + m, 1.0), line(a + b + m, 1.0, 1.0)), ends), one
            elif m:
                yield _over(m * x * line(b - m, 0.0, 1.0), ends), one

    logarithm = _log_gamma(a + b + 1.0, 1, 1, orders) - _log_gamma(a + 1.0, 1, 0, orders) - _log_gamma(b + 1.0, 0, 1, orders)
    logarithm += line(np.zeros_like(x), 1.0)  * np.log(x) + line(np.zeros_like(x), 0.0, 1.0) * np.log1p(-x)
    front = _exp(logarithm, beta_density(a, b, x) * x * (1.0 - x) / a * ((a + b) / b))
    front = _over(_times(front, line(b, 0.0, 1.0)), line(a + b, 1.0, 1.0))
    return factorial(i) * factorial(j) * _over(front, _fraction(one, terms()))[i, j]


def betainc_by_ab(a: np.ndarray, b: np.ndarray, x: np.ndarray, *, i: int, j: int) -> np.ndarray:
    """Derivative of order `i` in `a` and `j` in `b` of I_x(a, b), i + j > 0."""
    shape = np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(x))
    s, t, y = (np.ravel(v).astype(float) for v in np.broadcast_arrays(a, b, x))
    out = np.full(s.shape, np.nan)
    valid = (s > 0) & (t > 0) & (y >= 0) & (y <= 1) & np.isfinite(s) & np.isfinite(t)
    out[valid & ((y == 0) | (y == 1))] = 0.0
    inner = valid & (y > 0) & (y < 1)
    low = y <= (s + 1.0) / (s + t + 2.0)
    with np.errstate(all="ignore"):
        if np.any(part := inner & low):
            out[part] = _beta_fraction(s[part], t[part], y[part], i, j)
        if np.any(part := inner & ~low):
            out[part] = -_beta_fraction(t[part], s[part], 1.0 - y[part], j, i)
    return out.reshape(shape)
