"""Densities of the gamma, beta and Student distributions, accurate for large parameters too.

C. Loader, "Fast and accurate computation of binomial probabilities" (2000): for a large parameter the density is
expanded around its mode by Stirling's series, so that no large terms cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import comb, factorial, pi

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ...trace import TracedArray, apply
from ..accurate_partials import power_of_sum, product_error
from ..sample_domains import positive
from .special_family import special
from .special_gamma import digamma_rise_of, pole

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


def _polygamma(m: int, x: Array) -> Array:
    """Derivative of order `m` of digamma (DLMF 5.15.1)."""
    return sc.psi(x) if m == 0 else (-1.0) ** (m + 1) * factorial(m) * sc.zeta(m + 1, x)


def _products(orders: tuple[int, int], logarithm: Callable[[int, int], Array]) -> object:
    """Derivatives of exp(G), divided by exp(G), from those of G: by the product rule from ``exp(G)' = G' exp(G)``."""
    known: dict[tuple[int, int], object] = {(0, 0): 1.0}
    for i, j in product(range(orders[0] + 1), range(orders[1] + 1)):
        if (i, j) == (0, 0):
            continue
        di, dj = (1, 0) if i else (0, 1)
        steps = product(range(i - di + 1), range(j - dj + 1))
        known[i, j] = sum(comb(i - di, k) * comb(j - dj, m) * logarithm(k + di, m + dj) * known[i - di - k, j - dj - m] for k, m in steps)
    return known[orders]


def _at_end(x: object, a: object) -> object:
    """Where ``(a - 1) / x`` times a density is known as the density of one degree less; elsewhere it is infinite or as it says."""
    return (x == 0) & ((a >= 1.0) | pole(a))


def _gamma_density_by_a(a: Array, x: Array, *, n: int) -> Array:
    """n-th derivative in `a` of the gamma density; at x = 0 its limit."""
    with np.errstate(all="ignore"):
        density = np.where((x == 0) & pole(a), 0.0 if n == 0 else np.nan, gamma_density(a, x))
        factor = _products((n, 0), lambda i, _: np.log(x) - sc.psi(a) if i == 1 else -_polygamma(i - 1, a))
        return np.where(density == 0, 0.0, density * factor)


def _gamma_density_slopes(a: TracedArray, x: TracedArray, out: TracedArray, n: int) -> tuple[object, ...]:
    def by_x() -> object:
        zero = x == 0
        safe = np.where(zero, 1.0, x)
        inside = out * ((a - 1.0 - x) / safe)
        inside = inside + n * apply(gamma_density_op, a, x, n=n - 1) / safe if n else inside
        return np.where(zero, apply(gamma_density_op, a - 1.0, x, n=n) - out, inside)

    return (lambda: apply(gamma_density_op, a, x, n=n + 1), by_x)


_ORDERS = ({"n": 0}, {"n": 1}, {"n": 2})
gamma_density_op = special("gamma_density", _gamma_density_slopes, positive, positive, evaluate=_gamma_density_by_a, params=_ORDERS)


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


def _beta_density_by_ab(a: Array, b: Array, x: Array, y: Array, *, i: int, j: int) -> Array:
    """Derivative of order `i` in `a` and `j` in `b` of the beta density; at the ends its limit."""

    def logarithm(k: int, m: int) -> Array:
        if (k, m) == (1, 0):
            return np.log(x) + digamma_rise_of(a, b)
        if (k, m) == (0, 1):
            return np.log(y) + digamma_rise_of(b, a)
        total = _polygamma(k + m - 1, a + b)
        return total - _polygamma(k - 1, a) if not m else total - _polygamma(m - 1, b) if not k else total

    with np.errstate(all="ignore"):
        density = np.where(((x == 0) & (a > 1.0)) | ((y == 0) & (b > 1.0)), 0.0, beta_density(a, b, x, y))
        density = np.where((x == 0) & pole(a), np.nan if i else 0.0, density)
        density = np.where((y == 0) & pole(b), np.nan if j else 0.0, density)
        return np.where(density == 0, 0.0, density * _products((i, j), logarithm))


def _beta_density_slopes(
    a: TracedArray, b: TracedArray, x: TracedArray, y: TracedArray, out: TracedArray, i: int, j: int
) -> tuple[object, ...]:
    def density(a: object, b: object, i: int, j: int) -> object:
        return apply(beta_density_op, a, b, x, y, i=i, j=j) if min(i, j) >= 0 else 0.0

    def slope(z: TracedArray, c: TracedArray, below: tuple[object, object], di: int, dj: int) -> object:
        """In the point `z` of parameter `c`; `below` are both parameters where that is one less."""
        end = _at_end(z, c)
        order = di * i + dj * j
        inside = ((c - 1.0) * out + order * density(a, b, i - di, j - dj)) / np.where(end, 1.0, z)
        at_end = (a + b - 1.0) * density(*below, i, j) + i * density(*below, i - 1, j) + j * density(*below, i, j - 1)
        return np.where(end, at_end, inside)

    return (
        lambda: density(a, b, i + 1, j),
        lambda: density(a, b, i, j + 1),
        lambda: slope(x, a, (a - 1.0, b), 1, 0),
        lambda: slope(y, b, (a, b - 1.0), 0, 1),
    )


beta_density_op = special(
    "beta_density", _beta_density_slopes, positive, positive, positive, positive, evaluate=_beta_density_by_ab,
    params=({"i": 0, "j": 0}, {"i": 1, "j": 0}, {"i": 0, "j": 1}, {"i": 1, "j": 1}),
)  # fmt: skip


def student_density(df: TracedArray, t: TracedArray) -> object:
    """The density of Student's distribution: ``(1 + t**2 / df)**(-(df + 1) / 2) / (sqrt(df) B(df / 2, 1 / 2))``."""
    large = df > 2.0 * LARGE
    few, many = np.where(large, 1.0, df), np.where(large, df, 4.0 * LARGE)
    power = np.power(np.hypot(t / np.sqrt(few), 1.0), -1.0 - few) / (np.sqrt(few) * sc.beta(0.5 * few, 0.5))
    v = 0.5 * many
    ratio = np.exp(v * np.log1p(0.5 / v) - 0.5 + _stirling(v + 0.5) - _stirling(v)) * np.sqrt(0.5 / pi)
    return np.where(large, ratio * np.exp(-0.5 * (many + 1.0) * np.log1p(t / many * t)), power)
