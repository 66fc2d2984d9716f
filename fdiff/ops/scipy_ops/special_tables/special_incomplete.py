"""Incomplete gamma and beta functions, and the distribution functions made of them (DLMF 8.8, 8.17)."""

from __future__ import annotations

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ....primitive import ZERO
from ....trace import Array, TracedArray, apply
from ...entrywise.sample_domains import positive, real
from ..probability.accurate_densities import (
    beta_density_op,
    gamma_density_op,
    odds_density_op,
    student_density,
)
from .incomplete_taylor_series import (
    betainc_by_ab,
    betainc_of_odds,
    gammainc_by_a,
    quantile_at_start,
)
from .special_family import LACKING, order, special
from .special_gamma import digamma_rise


def gamma_density(a: object, x: TracedArray) -> TracedArray:
    return apply(gamma_density_op, a, np.ones((), x.dtype), x, n=0, k=0, m=0)


def beta_density(a: object, b: object, x: TracedArray) -> TracedArray:
    return apply(beta_density_op, a, b, x, 1.0 - x, i=0, j=0)


def probability(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.15, 0.85, shape)


def everywhere(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, fill_value=True)


# --- incomplete gamma -------------------------------------------------------------------------


def _gamma_slopes(a: TracedArray, s: object, x: TracedArray, sign: float = 1.0, n: int = 0) -> tuple[object, ...]:
    """Slopes of ``sign`` times the n-th derivative of ``gammainc(a, s x)`` in `a`."""
    return (
        lambda: sign * apply(gammainc_a, a, s, x, n=n + 1),
        lambda: sign * apply(gamma_density_op, a, s, x, n=n, k=0, m=1),
        lambda: sign * apply(gamma_density_op, a, s, x, n=n, k=1, m=0),
    )


def _by_a_slopes(a: TracedArray, s: TracedArray, x: TracedArray, out: TracedArray, n: int) -> tuple[object, ...]:
    return _gamma_slopes(a, s, x, n=n)


gammainc_a = special("gammainc_by_a", _by_a_slopes, positive, evaluate=gammainc_by_a, params=({"n": 1}, {"n": 2}))


def _unscaled(a: TracedArray, x: Array, sign: float) -> tuple[object, ...]:
    return (lambda: sign * apply(gammainc_a, a, np.ones((), x.dtype), x, n=1), lambda: sign * gamma_density(a, x))


def _chi_square_slopes(v: TracedArray, x: TracedArray, sign: float) -> tuple[object, ...]:
    by_a, _, by_x = _gamma_slopes(0.5 * v, np.full((), 0.5, x.dtype), x, sign)
    return (lambda: 0.5 * by_a(), by_x)


special("gammainc", lambda a, x, out: _unscaled(a, x, 1.0), positive)
special("gammaincc", lambda a, x, out: _unscaled(a, x, -1.0), positive)
special("chdtr", lambda v, x, out: _chi_square_slopes(v, x, 1.0), positive)
special("chdtrc", lambda v, x, out: _chi_square_slopes(v, x, -1.0), positive)


def _at_start_slopes(a: TracedArray, start: TracedArray, y: TracedArray, out: TracedArray, i: int, n: int, root: int) -> tuple[object, ...]:
    by = lambda i, n: lambda: apply(gamma_start, a, start, y, i=i, n=n, root=root)  # noqa: E731 - a rule each
    return (by(i + 1, n), ZERO, by(i, n + 1))


def _at_start(a: np.ndarray, start: np.ndarray, y: np.ndarray, *, i: int, n: int, root: int) -> np.ndarray:
    return quantile_at_start(a, None, start, y, i=i, j=0, n=n, root=root)


# Derivatives of ``gammaincinv(a, y)``, or of a root of it, where that is 0: the theorem on implicit functions divides by 0 or infinity.
_FIRST = ({"i": 0, "n": 1, "root": 1}, {"i": 1, "n": 0, "root": 2})
gamma_start = special("gammaincinv_at_start", _at_start_slopes, positive, everywhere, probability, evaluate=_at_start, params=_FIRST)


def root_of_gamma_quantile(a: object, y: Array, factor: Array, *, upper: bool) -> object:
    """``sqrt(factor * gammaincinv(a, y))``, or of its complement (`upper`), with the derivatives that it has where that is 0."""
    x = sc.gammainccinv(a, y) if upper else sc.gammaincinv(a, y)
    zero = x == 0
    at_start = apply(gamma_start, a, zero, 1.0 - y if upper else y, i=0, n=0, root=2)
    return np.where(zero, np.sqrt(factor) * at_start, np.sqrt(factor * np.where(zero, 1.0, x)))


def _gamma_quantile_slopes(a: TracedArray, y: TracedArray, x: TracedArray, sign: float) -> tuple[object, ...]:
    """Slopes of the inverse of ``gammainc(a, x)`` in x, or of its complement (`sign` -1): the implicit function theorem."""
    zero = x == 0
    inner = np.where(zero, 1.0, x)
    by_a, by_x = _unscaled(a, inner, 1.0)
    at_start = lambda i, n: apply(gamma_start, a, zero, y if sign > 0 else 1.0 - y, i=i, n=n, root=1)  # noqa: E731 - if needed
    return (
        lambda: np.where(zero, at_start(1, 0), -by_a() / by_x()),
        lambda: np.where(zero, sign * at_start(0, 1), sign / by_x()),
    )


def _chdtri_slopes(v: TracedArray, p: TracedArray, out: TracedArray) -> tuple[object, ...]:
    by_a, by_p = _gamma_quantile_slopes(0.5 * v, p, 0.5 * out, -1.0)
    return (by_a, lambda: 2.0 * by_p())


special("gammaincinv", lambda a, y, out: _gamma_quantile_slopes(a, y, out, 1.0), positive, probability)
special("gammainccinv", lambda a, y, out: _gamma_quantile_slopes(a, y, out, -1.0), positive, probability)
special("chdtri", _chdtri_slopes, positive, probability)


def _gdtr_slopes(a: TracedArray, b: TracedArray, x: TracedArray, sign: float) -> tuple[object, ...]:
    by_b, by_a, by_x = _gamma_slopes(b, a, x, sign)
    return (by_a, by_b, by_x)


special("gdtr", lambda a, b, x, out: _gdtr_slopes(a, b, x, 1.0), positive)
special("gdtrc", lambda a, b, x, out: _gdtr_slopes(a, b, x, -1.0), positive)
special("pdtr", lambda k, m, out: (ZERO, lambda: -gamma_density(np.floor(k) + 1.0, m)), order, positive)
special("pdtrc", lambda k, m, out: (ZERO, lambda: gamma_density(np.floor(k) + 1.0, m)), order, positive)

# --- incomplete beta --------------------------------------------------------------------------


_AB = ({"i": 1, "j": 0}, {"i": 0, "j": 1}, {"i": 1, "j": 1})


def _by_ab_slopes(a: TracedArray, b: TracedArray, x: TracedArray, out: TracedArray, i: TracedArray, j: TracedArray) -> tuple[object, ...]:
    return (
        lambda: apply(betainc_ab, a, b, x, i=i + 1, j=j),
        lambda: apply(betainc_ab, a, b, x, i=i, j=j + 1),
        lambda: apply(beta_density_op, a, b, x, 1.0 - x, i=i, j=j),
    )


betainc_ab = special("betainc_by_ab", _by_ab_slopes, positive, positive, probability, evaluate=betainc_by_ab, params=_AB)


def _beta_slopes(a: object, b: object, x: Array, sign: float) -> tuple[object, ...]:
    """Slopes of ``sign * betainc(a, b, x)``."""
    return (
        lambda: sign * apply(betainc_ab, a, b, x, i=1, j=0), lambda: sign * apply(betainc_ab, a, b, x, i=0, j=1),
        lambda: sign * beta_density(a, b, x),
    )  # fmt: skip


def _beta_start_slopes(
    a: TracedArray, b: TracedArray, start: TracedArray, y: TracedArray, out: TracedArray, i: int, j: int, n: int
) -> tuple[object, ...]:
    by = lambda i, j, n: lambda: apply(beta_start, a, b, start, y, i=i, j=j, n=n)  # noqa: E731 - a rule each
    return (by(i + 1, j, n), by(i, j + 1, n), ZERO, by(i, j, n + 1))


# Derivatives of ``betaincinv(a, b, y)`` where that is 0, and so of ``1 - betaincinv(b, a, 1 - y)``.
_START = ({"i": 0, "j": 0, "n": 1}, {"i": 1, "j": 0, "n": 0}, {"i": 0, "j": 1, "n": 0})
_SAMPLE = (positive, positive, everywhere, probability)
beta_start = special("betaincinv_at_start", _beta_start_slopes, *_SAMPLE, evaluate=quantile_at_start, params=_START)


def _inverse_slopes(a: TracedArray, b: TracedArray, y: TracedArray, x: TracedArray, sign: float) -> tuple[object, ...]:
    """Slopes of the x that solves ``betainc(a, b, x) = y``, or `betaincc` (`sign` -1)."""
    is_zero, is_one = x == 0, x == 1
    end = is_zero | is_one
    by_a, by_b, by_x = _beta_slopes(a, b, np.where(end, 0.5, x), 1.0)
    below, above = (y, 1.0 - y) if sign > 0 else (1.0 - y, y)

    def at_end(i: int, j: int, n: int) -> Array:
        at_one = apply(beta_start, b, a, is_one, above, i=j, j=i, n=n)
        return np.where(is_zero, apply(beta_start, a, b, is_zero, below, i=i, j=j, n=n), at_one if n else -at_one)

    return (
        lambda: np.where(end, at_end(1, 0, 0), -by_a() / by_x()),
        lambda: np.where(end, at_end(0, 1, 0), -by_b() / by_x()),
        lambda: np.where(end, sign * at_end(0, 0, 1), sign / by_x()),
    )


special("betainc", lambda a, b, x, out: _beta_slopes(a, b, x, 1.0), positive, positive, probability)
special("betainccinv", lambda a, b, y, out: _inverse_slopes(a, b, y, out, -1.0), positive, positive, probability)
special("betaincinv", lambda a, b, y, out: _inverse_slopes(a, b, y, out, 1.0), positive, positive, probability)
special("betaincc", lambda a, b, x, out: _beta_slopes(a, b, x, -1.0), positive, positive, probability)


def many(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of trials, in int64, because SciPy deprecates other dtypes here."""
    return rng.integers(6, 10, shape)


special("bdtr", lambda k, n, p, out: (ZERO, LACKING, lambda: -_binomial_density(k, n, p)), order, many, probability)
special("bdtrc", lambda k, n, p, out: (ZERO, LACKING, lambda: _binomial_density(k, n, p)), order, many, probability)
special("nbdtr", lambda k, n, p, out: (ZERO, LACKING, lambda: _failures_density(k, n, p)), order, many, probability)
special("nbdtrc", lambda k, n, p, out: (ZERO, LACKING, lambda: -_failures_density(k, n, p)), order, many, probability)


def _failures_density(k: TracedArray, n: TracedArray, p: TracedArray) -> Array:
    """Derivative in p of the probability of at most k failures before the n-th success."""
    return beta_density(np.floor(1.0 * n), np.trunc(1.0 * k) + 1.0, p)  # SciPy takes -0.5 for 0


def _binomial_density(k: TracedArray, n: TracedArray, p: TracedArray) -> Array:
    """Derivative in p of the probability of more than k successes out of n; 0 from k = n on, and below 0."""
    low, count = np.floor(k), np.floor(1.0 * n)
    sure = (low >= count) | (low < 0)
    return np.where(sure, 0.0, beta_density(np.where(sure, 1.0, low + 1.0), np.where(sure, 1.0, count - low), p))


# The F distribution: betainc at ``r / (1 + r)`` with r = s x, where s = dfn / dfd, and half the degrees of freedom.


def _odds_slopes(
    a: TracedArray, b: TracedArray, s: TracedArray, x: TracedArray, out: object, i: int = 0, j: int = 0, sign: float = 1.0
) -> tuple[object, ...]:
    return (
        lambda: sign * apply(odds_ab, a, b, s, x, i=i + 1, j=j), lambda: sign * apply(odds_ab, a, b, s, x, i=i, j=j + 1),
        lambda: sign * apply(odds_density_op, a, b, s, x, i=i, j=j, k=0, m=1),
        lambda: sign * apply(odds_density_op, a, b, s, x, i=i, j=j, k=1, m=0),
    )  # fmt: skip


odds_ab = special("betainc_of_odds_by_ab", _odds_slopes, positive, evaluate=betainc_of_odds, params=_AB)


def _f_slopes(dfn: TracedArray, dfd: TracedArray, x: TracedArray, sign: float) -> tuple[object, ...]:
    a, b, s = 0.5 * dfn, 0.5 * dfd, dfn / dfd
    by_a, by_b, _, by_x = _odds_slopes(a, b, s, x, None, sign=sign)
    by_log_s = lambda: sign * apply(odds_density_op, a, b, s, x, i=0, j=0, k=1, m=1)  # noqa: E731 - if needed
    return (lambda: 0.5 * by_a() + by_log_s() / dfn, lambda: 0.5 * by_b() - by_log_s() / dfd, by_x)


special("fdtr", lambda dfn, dfd, x, out: _f_slopes(dfn, dfd, x, 1.0), positive)
special("fdtrc", lambda dfn, dfd, x, out: _f_slopes(dfn, dfd, x, -1.0), positive)


_SERIES = 9  # terms of 0.01**k


def _t_by_df(df: Array, t: Array) -> Array:
    """Slope in `df`: the tails are ``betainc(df / 2, 1 / 2, df / (df + t**2)) / 2`` each; near 0, where that has a root, a series in t."""
    near = t * t < 0.01 * df / (1.0 + df)
    away = np.where(near, 1.0, t)
    below = df + away * away
    by_a, _, by_z = _beta_slopes(0.5 * df, 0.5, df / below, 1.0)
    inner = by_z() * np.square(away / below)
    return np.where(near, _t_by_df_near_zero(df, np.where(near, t, 0.0)), -0.5 * np.sign(away) * (0.5 * by_a() + inner))


def _t_by_df_near_zero(df: Array, t: Array) -> Array:
    """The integral of the derivative in `df` of ``(1 + t**2 / df)**(-(df + 1) / 2)``, times the density at 0, term by term."""
    z = t * t / df
    term: object = 1.0  # of the series of the power, and its logarithmic derivative
    slope = 0.5 * apply(digamma_rise, 0.5 * df, np.full((), 0.5)) - 0.5 / df
    total: object = 0.0
    for k in range(_SERIES):
        total = total + term * slope / (2.0 * k + 1.0)
        term = term * (-z * (0.5 * (df + 1.0) + k) / (k + 1.0))
        slope = slope + 1.0 / (df + 1.0 + 2.0 * k) - 1.0 / df
    return student_density(df, np.zeros_like(t)) * t * total


special("stdtr", lambda df, t, out: (lambda: _t_by_df(df, t), lambda: student_density(df, t)), positive, real)


def _stdtrit_slopes(df: TracedArray, p: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (lambda: -_t_by_df(df, out) / student_density(df, out), lambda: 1.0 / student_density(df, out))


special("stdtrit", _stdtrit_slopes, positive, probability)
