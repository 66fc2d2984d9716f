"""Incomplete gamma and beta functions, and the distribution functions made of them (DLMF 8.8, 8.17)."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...primitive import ZERO
from ...trace import TracedArray, apply
from ..accurate_partials import vanishing
from ..sample_domains import positive, real
from .accurate_densities import beta_density_op, gamma_density_op, student_density
from .incomplete_taylor_series import betainc_by_ab, gammainc_by_a
from .special_family import LACKING, order, special
from .special_gamma import digamma_rise


def gamma_density(a: object, x: object) -> TracedArray:
    return apply(gamma_density_op, a, x, n=0)


def beta_density(a: object, b: object, x: TracedArray, rest: object | None = None) -> TracedArray:
    """The density at `x`; `rest` is 1 - x where it is known better."""
    return apply(beta_density_op, a, b, x, 1.0 - x if rest is None else rest, i=0, j=0)


# --- incomplete gamma -------------------------------------------------------------------------


def _by_a_slopes(a: TracedArray, x: TracedArray, out: TracedArray, n: int) -> tuple[object, ...]:
    return (lambda: apply(gammainc_a, a, x, n=n + 1), lambda: apply(gamma_density_op, a, x, n=n))


gammainc_a = special("gammainc_by_a", _by_a_slopes, positive, positive, evaluate=gammainc_by_a, params=({"n": 1}, {"n": 2}))


def _by_a(a: object, x: object) -> object:
    """Slope of ``gammainc(a, x)`` in its parameter."""
    return apply(gammainc_a, a, x, n=1)


def probability(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.15, 0.85, shape)


special("gammainc", lambda a, x, out: (lambda: _by_a(a, x), lambda: gamma_density(a, x)), positive, positive)
special("gammaincc", lambda a, x, out: (lambda: -_by_a(a, x), lambda: -gamma_density(a, x)), positive, positive)


def _gamma_quantile_slopes(a: TracedArray, out: TracedArray, sign: float) -> tuple[object, ...]:
    """Slopes of the inverse of ``gammainc(a, x)`` in x, or of its complement (`sign` -1): the implicit function theorem."""
    return (lambda: -_by_a(a, out) / gamma_density(a, out), lambda: sign / gamma_density(a, out))


def _chi_square_slopes(v: TracedArray, x: TracedArray, factor: float) -> tuple[object, ...]:
    return (lambda: factor * _by_a(0.5 * v, 0.5 * x), lambda: factor * gamma_density(0.5 * v, 0.5 * x))


special("gammaincinv", lambda a, y, out: _gamma_quantile_slopes(a, out, 1.0), positive, probability)
special("gammainccinv", lambda a, y, out: _gamma_quantile_slopes(a, out, -1.0), positive, probability)
special("chdtr", lambda v, x, out: _chi_square_slopes(v, x, 0.5), positive, positive)
special("chdtrc", lambda v, x, out: _chi_square_slopes(v, x, -0.5), positive, positive)


def _chdtri_slopes(v: TracedArray, p: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (
        lambda: -_by_a(0.5 * v, 0.5 * out) / gamma_density(0.5 * v, 0.5 * out),
        lambda: -2.0 / gamma_density(0.5 * v, 0.5 * out),
    )


special("chdtri", _chdtri_slopes, positive, probability)


def _gdtr_slopes(a: TracedArray, b: TracedArray, x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (lambda: vanishing(x, gamma_density(b, a * x)), lambda: _by_a(b, a * x), lambda: a * gamma_density(b, a * x))


special("gdtr", _gdtr_slopes, positive, positive, positive)


def _gdtrc_slopes(a: TracedArray, b: TracedArray, x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (lambda: -vanishing(x, gamma_density(b, a * x)), lambda: -_by_a(b, a * x), lambda: -a * gamma_density(b, a * x))


special("gdtrc", _gdtrc_slopes, positive, positive, positive)
special("pdtr", lambda k, m, out: (ZERO, lambda: -gamma_density(np.floor(k) + 1.0, m)), order, positive)
special("pdtrc", lambda k, m, out: (ZERO, lambda: gamma_density(np.floor(k) + 1.0, m)), order, positive)

# --- incomplete beta --------------------------------------------------------------------------


def _by_ab_slopes(a: TracedArray, b: TracedArray, x: TracedArray, out: TracedArray, i: TracedArray, j: TracedArray) -> tuple[object, ...]:
    return (
        lambda: apply(betainc_ab, a, b, x, i=i + 1, j=j),
        lambda: apply(betainc_ab, a, b, x, i=i, j=j + 1),
        lambda: apply(beta_density_op, a, b, x, 1.0 - x, i=i, j=j),
    )


betainc_ab = special(
    "betainc_by_ab", _by_ab_slopes, positive, positive, probability, evaluate=betainc_by_ab,
    params=({"i": 1, "j": 0}, {"i": 0, "j": 1}, {"i": 1, "j": 1}),
)


def _beta_slopes(a: object, b: object, x: object, sign: float) -> tuple[object, ...]:
    """Slopes of ``sign * betainc(a, b, x)``."""
    return (
        lambda: sign * apply(betainc_ab, a, b, x, i=1, j=0), lambda: sign * apply(betainc_ab, a, b, x, i=0, j=1),
        lambda: sign * beta_density(a, b, x),
    )  # fmt: skip


def _inverse_slopes(a: object, b: object, x: object, sign: float) -> tuple[object, ...]:
    """Slopes of the x that solves ``betainc(a, b, x) = y``; `sign` is that of dy."""
    by_a, by_b, by_x = _beta_slopes(a, b, x, 1.0)
    return (lambda: -by_a() / by_x(), lambda: -by_b() / by_x(), lambda: sign / by_x())


special("betainc", lambda a, b, x, out: _beta_slopes(a, b, x, 1.0), positive, positive, probability)
special("betainccinv", lambda a, b, y, out: _inverse_slopes(a, b, out, -1.0), positive, positive, probability)
special("betaincinv", lambda a, b, y, out: _inverse_slopes(a, b, out, 1.0), positive, positive, probability)
special("betaincc", lambda a, b, x, out: _beta_slopes(a, b, x, -1.0), positive, positive, probability)


def many(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of trials, in int64, because SciPy deprecates other dtypes here."""
    return rng.integers(6, 10, shape)


special("bdtr", lambda k, n, p, out: (ZERO, LACKING, lambda: -_binomial_density(k, n, p)), order, many, probability)
special("bdtrc", lambda k, n, p, out: (ZERO, LACKING, lambda: _binomial_density(k, n, p)), order, many, probability)
special("nbdtr", lambda k, n, p, out: (ZERO, LACKING, lambda: _failures_density(k, n, p)), order, many, probability)
special("nbdtrc", lambda k, n, p, out: (ZERO, LACKING, lambda: -_failures_density(k, n, p)), order, many, probability)


def _failures_density(k: TracedArray, n: TracedArray, p: TracedArray) -> object:
    """Derivative in p of the probability of at most k failures before the n-th success."""
    return beta_density(np.floor(1.0 * n), np.floor(k) + 1.0, p)


def _binomial_density(k: TracedArray, n: TracedArray, p: TracedArray) -> object:
    """Derivative in p of the probability of more than k successes out of n; 0 from k = n on."""
    low, n = np.floor(k), np.floor(1.0 * n)
    whole = low >= n
    return np.where(whole, 0.0, beta_density(np.where(whole, 1.0, low + 1.0), np.where(whole, 1.0, n - low), p))


def _f_slopes(dfn: TracedArray, dfd: TracedArray, x: TracedArray, sign: float) -> tuple[object, ...]:
    """F distribution: betainc at z = r / (1 + r), r = dfn x / dfd, with half the degrees of freedom."""
    r = dfn * (x / dfd)
    rest = 1.0 / (1.0 + r)
    z = np.where(r > 1.0, 1.0 / (1.0 + 1.0 / np.where(r > 1.0, r, 1.0)), r * rest)
    by_a, by_b, _ = _beta_slopes(0.5 * dfn, 0.5 * dfd, z, sign)
    by_r = lambda: sign * beta_density(0.5 * dfn, 0.5 * dfd, z, rest) * rest * rest  # noqa: E731 - slope in r
    return (
        lambda: 0.5 * by_a() + vanishing(x / dfd, by_r()), lambda: 0.5 * by_b() - vanishing(r / dfd, by_r()), lambda: by_r() * (dfn / dfd)
    )  # fmt: skip


special("fdtr", lambda dfn, dfd, x, out: _f_slopes(dfn, dfd, x, 1.0), positive, positive, positive)
special("fdtrc", lambda dfn, dfd, x, out: _f_slopes(dfn, dfd, x, -1.0), positive, positive, positive)


_SERIES = 9  # terms of 0.01**k


def _t_by_df(df: object, t: object) -> object:
    """Slope in `df`: the tails are ``betainc(df / 2, 1 / 2, df / (df + t**2)) / 2`` each; near 0, where that has a root, a series in t."""
    near = t * t < 0.01 * df / (1.0 + df)
    away = np.where(near, 1.0, t)
    below = df + away * away
    by_a, _, by_z = _beta_slopes(0.5 * df, 0.5, df / below, 1.0)
    inner = by_z() * np.square(away / below)
    return np.where(near, _t_by_df_near_zero(df, np.where(near, t, 0.0)), -0.5 * np.sign(away) * (0.5 * by_a() + inner))


def _t_by_df_near_zero(df: object, t: object) -> object:
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
