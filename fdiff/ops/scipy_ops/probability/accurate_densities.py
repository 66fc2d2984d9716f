"""Densities of the gamma, beta and Student distributions, accurate for large parameters too.

C. Loader, "Fast and accurate computation of binomial probabilities" (2000, the whole note): for a large parameter the density is
expanded around its mode by Stirling's series, so that no large terms cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import product
from math import comb, factorial, pi

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ....arraytype import broadcast_all
from ....trace import Array, Operand, TracedArray, apply
from ...entrywise.accurate_partials import power_of_sum, product_error, vanishing
from ...entrywise.sample_domains import positive
from ..special_tables.special_family import special
from ..special_tables.special_gamma import digamma_rise_of, pole

LARGE = 30.0  # from here on Stirling's series


def _stirling(s: Array) -> Array:
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
    s, y = broadcast_all(np.asarray(a, float), np.asarray(x, float))
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


def _products(orders: tuple[int, int], logarithm: Callable[[int, int], Array]) -> dict[tuple[int, int], Operand]:
    """Derivatives of exp(G) up to `orders`, divided by exp(G), from derivatives of G by the product rule from ``exp(G)' = G' exp(G)``."""
    series: dict[tuple[int, int], Operand] = {(0, 0): 1.0}
    for i, j in product(range(orders[0] + 1), range(orders[1] + 1)):
        if (i, j) == (0, 0):
            continue
        di, dj = (1, 0) if i else (0, 1)
        steps = product(range(i - di + 1), range(j - dj + 1))
        series[i, j] = sum(comb(i - di, k) * comb(j - dj, m) * logarithm(k + di, m + dj) * series[i - di - k, j - dj - m] for k, m in steps)
    return series


def _at_end(x: object, a: Array) -> Array:
    """Where ``(a - 1) / x`` times a density is known as the density of one degree less; elsewhere it is infinite or as it says."""
    return (x == 0) & ((a >= 1.0) | pole(a))


def _lower(a: object) -> object:
    """A parameter less one; -1 in place of 0, with which a density is 0 too, but no jump of a distribution function."""
    return a - np.where(a == 1.0, 2.0, 1.0)


def _small(a: Array) -> Array:
    """Parameters next to 0, where gamma has a pole: derivatives of the density over `a`, times `a`."""
    return (a >= 0.0) & (a < 0.5)


def _gamma_density_by_a(a: Array, s: Array, x: Array, *, n: int, k: int, m: int) -> Array:
    """``s**k x**m`` times the n-th derivative in `a` of the gamma density at ``s x``; where that is 0 its limit."""
    with np.errstate(all="ignore"):
        z = np.multiply(s, x)
        end = z == 0
        density = np.where(end & pole(a), 0.0 if n == 0 else np.nan, gamma_density(a, z))
        if n == 0:
            return _weighted(density, a, s, x, k, m)
        small = _small(a) & ~end
        c = a + small
        of = _products((n, 0), lambda i, _: np.log(z) - sc.psi(c) if i == 1 else -_polygamma(i - 1, c))
        over = np.where(a == 0, np.exp(-z) / z, density / np.where(small, a, 1.0))
        usual = np.where(density == 0, 0.0, density * of[n, 0])
        return _weighted(np.where(small, over * (a * of[n, 0] + n * of[n - 1, 0]), usual), a, s, x, k, m)


def _weighted(density: Array, a: Array, s: Array, x: Array, k: int, m: int) -> Array:
    """``s**k x**m`` times a density that is at most infinite as ``(s x)**(a - 1)``; nan where s = x = 0 and the way there matters."""
    if not (k or m):
        return density
    out = density * reduce(np.multiply, [s] * k + [x] * m)
    lost = np.isnan(out)
    if not np.any(lost):
        return out
    infinite = np.isinf(density) | (np.isnan(density) & pole(a))
    limit = np.where((s == x) & (k > 0) & (2.0 * a - 2.0 + k + m <= 0), np.nan, 0.0)
    return np.where(lost & ((density == 0) | (infinite & (np.multiply(s, x) == 0))), limit, out)


def _by_factor(
    factor: TracedArray, power: int, rate: TracedArray, below: TracedArray, terms: list[TracedArray], at_zero: Callable[[], TracedArray]
) -> Array:
    """The slope of ``s**k x**m f(s x)`` in the factor that has this power, without an infinite slope times 0.

    It is ``(rate + power) * below``, where `rate` is the rate of f in log(s x), and `terms`, over the factor. `below` has one power
    less of the factor; with none to spare the factor divides, and where it is 0 the slope is `at_zero`.
    """
    if power:
        return sum(terms, start=(rate + power) * below)
    zero = factor == 0
    over = np.where(zero, 1.0, factor)
    return np.where(zero, at_zero(), sum((term / over for term in terms), start=below * (rate / over)))


def _gamma_density_slopes(
    a: TracedArray, s: TracedArray, x: TracedArray, out: TracedArray, n: int, k: int, m: int
) -> tuple[object, ...]:
    def density(a: object, n: int, k: int, m: int) -> TracedArray:
        return apply(gamma_density_op, a, s, x, n=n, k=k, m=m)

    def by(factor: TracedArray, other: TracedArray, power: int, less: tuple[int, int], more: tuple[int, int]) -> object:
        """`less` and `more` are the powers of both factors, one of this less, one of the other more."""
        powers = less if power else (k, m)
        terms = [n * density(a, n - 1, *powers)] if n else []
        at_zero = lambda: density(a - 1.0, n, *more) - vanishing(other, out)  # noqa: E731 - if needed
        return _by_factor(factor, power, a - 1.0 - s * x, density(a, n, *powers), terms, at_zero)

    return (lambda: density(a, n + 1, k, m), lambda: by(s, x, k, (k - 1, m), (k, m + 1)), lambda: by(x, s, m, (k, m - 1), (k + 1, m)))


_ORDERS = ({"n": 0, "k": 1, "m": 0}, {"n": 1, "k": 0, "m": 1}, {"n": 2, "k": 0, "m": 0})
_SAMPLE = (positive,) * 3
gamma_density_op = special("gamma_density", _gamma_density_slopes, *_SAMPLE, evaluate=_gamma_density_by_a, params=_ORDERS)


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
    arguments = (np.asarray(v, float) for v in (a, b, x, 1.0 - np.asarray(x, float) if y is None else y))
    s, t, u, v = broadcast_all(*arguments)
    with np.errstate(all="ignore"):
        inner = (u > 0) & (v > 0)
        both, none = (s > LARGE) & (t > LARGE) & inner, (s <= LARGE) & (t <= LARGE)
        c, d = np.where(both, s, 50.0), np.where(both, t, 50.0)
        mode = _beta_by_mode(c, d, np.where(both, u, 0.5), np.where(both, v, 0.5))
        logarithms = np.where(inner, _beta_by_logarithms(s, t, u, v), _beta_by_powers(s, t, u, v))
        return np.where(both, mode, np.where(none, _beta_by_powers(s, t, u, v), logarithms))[()]


def _beta_density_by_ab(a: Array, b: Array, x: Array, y: Array, *, i: int, j: int) -> Array:
    """Derivative of order `i` in `a` and `j` in `b` of the beta density; at the ends its limit."""
    with np.errstate(all="ignore"):
        if i == j == 0 and all(np.all(np.greater(v, 0)) for v in (a, b, x, y)):
            return beta_density(a, b, x, y)
        low, high = _small(a) & np.greater(x, 0), _small(b) & np.greater(y, 0)
        density = np.where(((x == 0) & (a > 1.0)) | ((y == 0) & (b > 1.0)), 0.0, beta_density(a, b, x, y))
        density = np.where((low & (a == 0)) | (high & (b == 0)), 0.0, density)
        flat = ((x == 0) & pole(a), (y == 0) & pole(b))
        density = np.where(flat[0], np.nan if i else 0.0, np.where(flat[1], np.nan if j else 0.0, density))
        if i == j == 0:
            return np.where((flat[0] & (a == 0)) | (flat[1] & (b == 0)), np.nan, density)
        low = low & ~flat[1] & ((j == 0) | (y > 0) | (a == 0))  # beside an infinite logarithm the factor stays a part of the density
        high = high & ~flat[0] & ((i == 0) | (x > 0) | (b == 0))
        c, d = a + low, b + high

        def logarithm(k: int, m: int) -> Array:
            if (k, m) == (1, 0):
                return np.log(x) + digamma_rise_of(c, b - low)
            if (k, m) == (0, 1):
                return np.log(y) + digamma_rise_of(d, a - high)
            total = _polygamma(k + m - 1, a + b)
            return total - _polygamma(k - 1, c) if not m else total - _polygamma(m - 1, d) if not k else total

        of = _products((i, j), logarithm)
        usual = np.where(density == 0, 0.0, density * of[i, j])
        if not np.any(low | high):
            return usual
        f, g = np.where(low, a, 1.0), np.where(high, b, 1.0)
        over = np.where(f == 0, np.power(y, b - 1.0) / x / g, np.where(g == 0, np.power(x, a - 1.0) / y / f, density / f / g))
        factors = {(0, 0): f * g, (1, 0): i * low * g, (0, 1): j * high * f, (1, 1): i * low * j * high}
        rate = sum(np.where(r == 0, 0.0, r * of.get((i - k, j - m), 0.0)) for (k, m), r in factors.items())
        return np.where(low | high, np.where(over == 0, 0.0, over * rate), usual)


def _beta_density_slopes(
    a: TracedArray, b: TracedArray, x: TracedArray, y: TracedArray, out: TracedArray, i: int, j: int
) -> tuple[object, ...]:
    def density(a: object, b: object, i: int, j: int) -> Operand:
        return apply(beta_density_op, a, b, x, y, i=i, j=j) if min(i, j) >= 0 else 0.0

    def slope(z: TracedArray, c: TracedArray, below: tuple[object, object], rest: object) -> object:
        inside = ((c - 1.0) * out + rest) / np.where(_at_end(z, c), 1.0, z)
        return np.where(_at_end(z, c), _beta_slope_at_end(density, a + b, below, i, j), inside)

    return (
        lambda: density(a, b, i + 1, j), lambda: density(a, b, i, j + 1),
        lambda: slope(x, a, (_lower(a), b), i * density(a, b, i - 1, j)), lambda: slope(y, b, (a, _lower(b)), j * density(a, b, i, j - 1)),
    )  # fmt: skip


def _beta_slope_at_end(
    density: Callable[..., TracedArray], total: TracedArray, below: tuple[TracedArray, TracedArray], i: int, j: int
) -> TracedArray:
    """The slope in a point that is 0; `total` is ``a + b``, `below` are both parameters, with one less in the parameter of the point."""
    return (total - 1.0) * density(*below, i, j) + i * density(*below, i - 1, j) + j * density(*below, i, j - 1)


_BETA_ORDERS = ({"i": 0, "j": 0}, {"i": 1, "j": 0}, {"i": 0, "j": 1}, {"i": 1, "j": 1})
beta_density_op = special("beta_density", _beta_density_slopes, *_SAMPLE, positive, evaluate=_beta_density_by_ab, params=_BETA_ORDERS)


def odds(s: Array, x: Array) -> tuple[Array, Array]:
    """``r / (1 + r)`` and ``1 / (1 + r)`` for ``r = s x``."""
    r = np.multiply(s, x)
    far, rest = r > 1.0, 1.0 / (1.0 + r)
    return np.where(far, 1.0 / (1.0 + 1.0 / np.where(far, r, 1.0)), r * rest), rest


def _odds_density_by_ab(a: Array, b: Array, s: Array, x: Array, *, i: int, j: int, k: int, m: int) -> Array:
    """``s**k x**m`` times the derivative in both parameters of the density of ``z / (1 - z)`` at ``s x``, where z has the beta density."""
    with np.errstate(all="ignore"):
        z, rest = odds(s, x)
        density = np.where((a == 0) | (b == 0), np.nan, _beta_density_by_ab(a, b, z, rest, i=i, j=j))
        return _weighted(density * rest * rest, a, s, x, k, m)


def _odds_slope(
    density: Callable[..., TracedArray], a: TracedArray, b: TracedArray, s: TracedArray, x: TracedArray, i: int, j: int,
    factor: TracedArray, power: int, powers: tuple[int, int], more: tuple[int, int],
) -> object:  # fmt: skip
    """The slope in a factor of this `power`; `powers` of both are one less of it, if there is one, `more` are one more of the other."""
    z, rest = odds(s, x)
    terms = [i * rest * density(a, b, i - 1, j, *powers)] if i else []
    terms += [-j * z * density(a, b, i, j - 1, *powers)] if j else []
    limit = lambda j: density(_lower(a), b + 1.0, i, j, *more) - density(a, b + 1.0, i, j, *more)  # noqa: E731 - used twice
    at_zero = lambda: b * limit(j) + j * limit(j - 1) if j else b * limit(0)  # noqa: E731 - if needed
    return _by_factor(factor, power, a - 1.0 - (a + b) * z, density(a, b, i, j, *powers), terms, at_zero)


def _odds_density_slopes(
    a: TracedArray, b: TracedArray, s: TracedArray, x: TracedArray, out: TracedArray, i: int, j: int, k: int, m: int
) -> tuple[object, ...]:
    def density(a: object, b: object, i: int, j: int, k: int, m: int) -> TracedArray:
        return apply(odds_density_op, a, b, s, x, i=i, j=j, k=k, m=m)

    by = partial(_odds_slope, density, a, b, s, x, i, j)
    return (
        lambda: density(a, b, i + 1, j, k, m), lambda: density(a, b, i, j + 1, k, m),
        lambda: by(s, k, (max(k - 1, 0), m), (k, m + 1)), lambda: by(x, m, (k, max(m - 1, 0)), (k + 1, m)),
    )  # fmt: skip


_ODDS_ORDERS = ({"i": 0, "j": 0, "k": 1, "m": 0}, {"i": 1, "j": 0, "k": 0, "m": 1}, {"i": 0, "j": 1, "k": 0, "m": 0})
odds_density_op = special("odds_density", _odds_density_slopes, *_SAMPLE, positive, evaluate=_odds_density_by_ab, params=_ODDS_ORDERS)


def student_density(df: TracedArray, t: Array) -> Array:
    """The density of Student's distribution: ``(1 + t**2 / df)**(-(df + 1) / 2) / (sqrt(df) B(df / 2, 1 / 2))``."""
    large = df > 2.0 * LARGE
    few, many = np.where(large, 1.0, df), np.where(large, df, 4.0 * LARGE)
    power = np.power(np.hypot(t / np.sqrt(few), 1.0), -1.0 - few) / (np.sqrt(few) * sc.beta(0.5 * few, 0.5))
    v = 0.5 * many
    ratio = np.exp(v * np.log1p(0.5 / v) - 0.5 + _stirling(v + 0.5) - _stirling(v)) * np.sqrt(0.5 / pi)
    return np.where(large, ratio * np.exp(-0.5 * (many + 1.0) * np.log1p(t / many * t)), power)
