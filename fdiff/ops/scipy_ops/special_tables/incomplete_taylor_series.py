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

from ....arraytype import broadcast, broadcast_all
from ..probability.accurate_densities import beta_density, gamma_density, odds

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
        lower_terms = sum((q[k, m] * out[i - k, j - m] for k, m in _lower(i, j) if k or m), start=np.zeros_like(p[0, 0]))
        out[i, j] = (p[i, j] - lower_terms) / q[0, 0]
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
    return _exp(logarithm, np.where(a == 0, np.exp(-x), x / a * gamma_density(a, x)))


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


def gammainc_by_a(a: np.ndarray, s: np.ndarray, x: np.ndarray, *, n: int) -> np.ndarray:
    """n-th derivative in `a` of the regularised lower incomplete gamma function at ``s x``, n > 0."""
    shape = broadcast(np.shape(a), np.shape(s), np.shape(x))
    with np.errstate(all="ignore"):
        c, y = (np.ravel(v).astype(float) for v in broadcast_all(a, np.multiply(s, x)))
        out = np.full(c.shape, np.nan)
        valid = (c >= 0) & (y >= 0) & (c + y > 0) & np.isfinite(c)
        out[valid & ((y == 0) | np.isinf(y))] = 0.0
        inner = valid & (y > 0) & np.isfinite(y)
        for part, rule in ((inner & (y <= c + 1.0), _gamma_series), (inner & (y > c + 1.0), _gamma_fraction)):
            if np.any(part):
                out[part] = rule(c[part], y[part], n)
    return out.reshape(shape)


def _beta_fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray, i: int, j: int) -> np.ndarray:
    """Derivatives in `a` and `b` of I_x(a, b), for x below its mean (DLMF 8.17.22)."""
    orders = (i, j)

    def line(value: np.ndarray, by_a: float = 0.0, by_b: float = 0.0) -> Jet:
        return _linear(value, by_a, by_b, orders)

    one = line(np.ones_like(x))

    def terms() -> object:
        yield _over(-x * line(a + b, 1.0, 1.0), line(a + 1.0, 1.0)), one
        for k in range(2, _MOST):
            m = k // 2
            ends = _times(line(a + 2 * m, 1.0), line(a + 2 * m + (-1 if k % 2 == 0 else 1), 1.0))
            steps = _times(line(a + m, 1.0), line(a + b + m, 1.0, 1.0)) if k % 2 else line(b - m, 0.0, 1.0)
            yield _over((-x if k % 2 else m * x) * steps, ends), one

    logarithm = _log_gamma(a + b + 1.0, 1, 1, orders) - _log_gamma(a + 1.0, 1, 0, orders) - _log_gamma(b + 1.0, 0, 1, orders)
    logarithm += line(np.zeros_like(x), 1.0) * np.log(x) + line(np.zeros_like(x), 0.0, 1.0) * np.log1p(-x)
    usual = beta_density(a, b, x) * x * (1.0 - x) / a * ((a + b) / b)
    front = _exp(logarithm, np.where((a == 0) | (b == 0), np.power(x, a) * np.power(1.0 - x, b), usual))
    front = _over(_times(front, line(b, 0.0, 1.0)), line(a + b, 1.0, 1.0))
    return factorial(i) * factorial(j) * _over(front, _fraction(one, terms()))[i, j]


def betainc_by_ab(a: np.ndarray, b: np.ndarray, x: np.ndarray, *, i: int, j: int) -> np.ndarray:
    """Derivative of order `i` in `a` and `j` in `b` of I_x(a, b), i + j > 0."""
    shape = broadcast(np.shape(a), np.shape(b), np.shape(x))
    s, t, y = (np.ravel(v).astype(float) for v in broadcast_all(a, b, x))
    out = np.full(s.shape, np.nan)
    valid = (s >= 0) & (t >= 0) & (s + t > 0) & (y >= 0) & (y <= 1) & np.isfinite(s) & np.isfinite(t)
    out[valid & ((y == 0) | (y == 1))] = 0.0
    inner = valid & (y > 0) & (y < 1)
    low = y <= (s + 1.0) / (s + t + 2.0)
    with np.errstate(all="ignore"):
        if np.any(part := inner & low):
            out[part] = _beta_fraction(s[part], t[part], y[part], i, j)
        if np.any(part := inner & ~low):
            out[part] = -_beta_fraction(t[part], s[part], 1.0 - y[part], j, i)
    return out.reshape(shape)


def betainc_of_odds(a: np.ndarray, b: np.ndarray, s: np.ndarray, x: np.ndarray, *, i: int, j: int) -> np.ndarray:
    """As `betainc_by_ab` at ``r / (1 + r)`` with ``r = s x``; a distribution with 0 degrees of freedom is none."""
    with np.errstate(all="ignore"):
        return np.where((a == 0) | (b == 0), np.nan, betainc_by_ab(a, b, odds(s, x)[0], i=i, j=j))


# --- quantiles next to the start of a distribution --------------------------------------------


def _log_scale(a: np.ndarray, b: np.ndarray | None, orders: tuple[int, int]) -> Jet:
    """Taylor series of log(c), where ``x**a / c`` is the first term of the distribution function at x = 0 (DLMF 8.7.1, 8.17.7)."""
    out = _log_gamma(a + 1.0, 1, 0, orders)
    if b is None:
        out[0, 0] = sc.gammaln(a + 1.0)
        return out
    out += _log_gamma(b, 0, 1, orders) - _log_gamma(a + b, 1, 1, orders)
    out[0, 0] = np.log(a) + sc.betaln(a, b)
    return out


def _over_start(a: np.ndarray, b: np.ndarray | None, terms: int, j: int, root: int) -> Jet:
    """The root of ``x / u`` as a series in ``u = (c y)**(1 / a)``, whose other axis are the powers of the increment of `b`.

    With L = log(x / u), ``1 + u L' = exp(-a L) e**x``, or ``(1 - x)**(1 - b)`` in place of e**x, gives one coefficient after the other.
    """
    orders = terms - 1, j
    logarithm = np.zeros((terms, j + 1, *a.shape))
    for m in range(1, terms):
        x = np.zeros_like(logarithm)
        x[1:] = _exp(logarithm, np.ones_like(a))[:-1]
        rest = x
        if b is not None:  # (b - 1) times the series of -log(1 - x)
            rest = np.zeros_like(x)
            for k in range(m, 0, -1):
                rest = _times(x, rest + _linear(np.full_like(a, 1.0 / k), 0.0, 0.0, orders))
            rest = _times(rest, _linear(b - 1.0, 0.0, 1.0, orders))
        logarithm[m] = _exp(rest - a * logarithm, np.ones_like(a))[m] / (m + a)
    return _exp(logarithm / root, np.ones_like(a))


def _of_powers(a: np.ndarray, b: np.ndarray | None, y: np.ndarray, j: int, n: int, root: int) -> np.ndarray:
    """The derivative of order `j` in `b` and `n` in y next to y = 0, where ``x**(1 / root)`` is a power series in y."""
    first = np.rint(1.0 / (root * a)).astype(int)
    term = -((first - n) // (root * first))  # the first one that is not lost; its power is first (1 + root term)
    power = 1.0 * first * (1 + root * term)
    series = _over_start(a, b, n, j, root)[term, :, np.arange(a.size)].T[None]
    scale = _log_scale(a, b, (0, j))
    size = np.exp(power * scale[0, 0]) * np.prod([power - k for k in range(n)], axis=0) * np.power(y, power - n)
    scale[0, 0] = 0.0
    return factorial(j) * _times(series, _exp(power * scale, size))[0, j]


def _of_first_term(a: np.ndarray, b: np.ndarray | None, y: np.ndarray, orders: tuple[int, int], n: int, root: int) -> np.ndarray:
    """Derivatives of the root of u: of order `n` in y, and in the parameters."""
    one = _linear(np.ones_like(a), 0.0, 0.0, orders)
    inverse = _over(one, root * _linear(a, 1.0, 0.0, orders))
    exponent = _log_scale(a, b, orders)
    exponent[0, 0] += np.log(y)
    exponent, factor = _times(inverse, exponent), one
    constant = exponent[0, 0].copy()
    exponent[0, 0] = 0.0
    for k in range(n):
        factor = _times(factor, inverse - k * one)
    size = np.exp(constant - n * np.log(y))
    out = _times(factor, _exp(exponent, size))[orders]
    return np.where(size == 0, 0.0, factorial(orders[0]) * factorial(orders[1]) * out)


def quantile_at_start(
    a: np.ndarray, b: np.ndarray | None, start: np.ndarray, y: np.ndarray, *, i: int, j: int, n: int, root: int = 1
) -> np.ndarray:
    """Derivative of order `i` in `a`, `j` in `b` and `n` in y of a root of x, where ``gammainc(a, x) = y`` or ``betainc(a, b, x) = y``.

    Where x is so small that it is the first term of its series (`start`), and 0 elsewhere. At y = 0 it is the slope of a power of y:
    0, infinite, or nan where it has none, unless the exponent is a whole number.
    """
    out = np.zeros(broadcast(*[np.shape(v) for v in (a, b, start, y) if v is not None]))
    if np.any(start):
        at = np.broadcast_to(start, out.shape)
        with np.errstate(all="ignore"):
            power = 1.0 / (root * np.asarray(a))  # in the format of the parameter, in which it may be whole
            s, t, q, e = (None if v is None else np.broadcast_to(v, out.shape)[at].astype(float) for v in (a, b, y, power))
            out[at] = _next_to_start(s, t, q, e, (i, j), n, root)
    return out


def _next_to_start(
    s: np.ndarray, t: np.ndarray | None, q: np.ndarray, power: np.ndarray, orders: tuple[int, int], n: int, root: int
) -> np.ndarray:
    falling = np.prod([power - k for k in range(n)], axis=0)
    limit = np.inf * np.sign(falling) if orders == (0, 0) else np.nan
    out = np.where(power > n, 0.0, limit)
    if np.any(inner := (q > 0) & (s > 0)):
        out[inner] = _of_first_term(s[inner], None if t is None else t[inner], q[inner], orders, n, root)
    whole = (power == np.rint(power)) & (power >= 1) & (power <= n)
    if orders[0] == 0 and np.any(whole):
        out[whole] = _of_powers(s[whole], None if t is None else t[whole], q[whole], orders[1], n, root)
    return out
