"""More distributions of `scipy.stats` in standard form, from `weibull_min` to `betabinom`.

Formulas are SciPy's own, in its order of operations. N. L. Johnson, S. Kotz, N. Balakrishnan, "Continuous Univariate
Distributions", 2nd ed., Wiley 1994-1995, chapters 12 to 33.
"""

from __future__ import annotations

from math import log, pi, sqrt

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc
from fdiff.intact_scipy import stats as st

from ....trace import Array
from ..special_tables.special_incomplete import root_of_gamma_quantile
from .distributions import (
    INF,
    ROOT,
    Law,
    count_log,
    flat_start,
    law,
    log_normal,
    power_density,
    times_log,
)


def _log_mass(a: Array, b: Array) -> Array:
    """Logarithm of the normal probability of an interval, accurate in the tails."""
    right, left = a > 0, b <= 0
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    tail = right | left
    head, rest = sc.log_ndtr(np.where(tail, high, 0.0)), sc.log_ndtr(np.where(tail, low, -1.0))
    middle = np.log1p(-sc.ndtr(np.where(tail, -1.0, a)) - sc.ndtr(np.where(tail, -1.0, -b)))
    return np.where(tail, head + np.log1p(-np.exp(rest - head)), middle)


def _log_nbinom(k: object, n: object, p: Array) -> Array:
    return _nbinom_ways(k, n) + n * np.log(p) + count_log(k, -p, sc.xlog1py)


def _nbinom_ways(k: Array, n: object) -> Array:
    return sc.gammaln(n + k) - sc.gammaln(k + 1.0) - sc.gammaln(n)


def _nbinom(k: Array, n: object, p: Array) -> object:
    """By powers where `p` is 1, because ``log(1 - p)`` has no derivative there."""
    sure = p == 1
    at = np.where(sure, p, 0.5)
    by_powers = np.exp(_nbinom_ways(k, n)) * np.power(at, n) * np.power(1.0 - at, k)
    return np.where(sure, by_powers, np.exp(_log_nbinom(k, n, np.where(sure, 0.5, p))))


def _geometric_tail(k: Array, p: Array) -> object:
    """``(1 - p)**k``, by logarithms where 1 - p is rounded."""
    small = p < 0.5
    return np.where(small, np.exp(k * np.log1p(-np.where(small, p, 0.25))), np.power(1.0 - np.where(small, 0.5, p), k))


def _geometric(k: Array, p: Array) -> object:
    """``1 - (1 - p)**k``."""
    small = p < 0.5
    return np.where(small, -np.expm1(k * np.log1p(-np.where(small, p, 0.25))), 1.0 - np.power(1.0 - np.where(small, 0.5, p), k))


def _log_geometric(k: Array, p: Array) -> object:
    return count_log(k - 1.0, -p, sc.xlog1py) + np.log(p)


def _log_beta_binomial(k: Array, n: Array, a: Array, b: object) -> object:
    ways = -np.log(n + 1.0) - sc.betaln(n - k + 1.0, k + 1.0)
    return ways + sc.betaln(k + a, n - k + b) - sc.betaln(a, b)


def _log_chi_rest(x: Array, df: Array) -> Array:
    return log(2.0) - 0.5 * log(2.0) * df - sc.gammaln(0.5 * df) - 0.5 * x**2


def _log_nakagami_rest(x: Array, nu: object) -> Array:
    return log(2.0) + sc.xlogy(nu, nu) - sc.gammaln(nu) - nu * x**2


def _log_logistic(x: Array, c: Array) -> object:
    low = x < 1.0
    power = np.power(np.where(low, x, 1.0), c)
    return np.where(low, power / (1.0 + power), 1.0 / (1.0 + np.power(np.where(low, 1.0, x), -c)))


def _laplace(x: Array) -> object:
    upper = x > 0
    return np.where(upper, 1.0 - 0.5 * np.exp(-np.where(upper, x, 0.0)), 0.5 * np.exp(np.where(upper, 0.0, x)))


def _cotangent(turn: Array) -> Array:
    """``1 / tan(turn)`` up to half a turn; next to a quarter, where that has a pole in between, as a tangent."""
    near = np.abs(turn - 0.5 * pi) < 0.5
    return np.where(near, np.tan(0.5 * pi - np.where(near, turn, 0.5 * pi)), 1.0 / np.tan(np.where(near, 0.5, turn)))


def _laplace_quantile(q: Array) -> Array:
    upper = q > 0.5
    return np.where(upper, -np.log(2.0 * (1.0 - np.where(upper, q, 0.75))), np.log(2.0 * np.where(upper, 0.25, q)))


def _logistic(x: Array) -> object:
    return x - 2.0 * np.logaddexp(0.0, x)


MORE_DISTRIBUTIONS = (
    (st.weibull_min, law(
        "weibull_min", 1.0, 0.0, INF,
        logpdf=lambda x, c: np.log(c) + times_log(c - 1.0, x) - np.power(x, c),
        pdf=lambda x, c: power_density(x, c - 1.0, np.log(c) - np.power(x, c)), cdf=lambda x, c: -np.expm1(-np.power(x, c)),
        sf=lambda x, c: np.exp(-np.power(x, c)), logsf=lambda x, c: -np.power(x, c),
        ppf=lambda q, c: np.power(-np.log1p(-q), 1.0 / c), isf=lambda q, c: np.power(-np.log(q), 1.0 / c),
    )),
    (st.weibull_max, law(
        "weibull_max", -1.0, -INF, 0.0,
        logpdf=lambda x, c: np.log(c) + times_log(c - 1.0, -x) - np.power(-x, c),
        pdf=lambda x, c: power_density(-x, c - 1.0, np.log(c) - np.power(-x, c)), cdf=lambda x, c: np.exp(-np.power(-x, c)),
        logcdf=lambda x, c: -np.power(-x, c), sf=lambda x, c: -np.expm1(-np.power(-x, c)), ppf=lambda q, c: -np.power(-np.log(q), 1.0 / c),
    )),
    (st.invweibull, law(
        "invweibull", 1.0, 0.0, INF, inner_only=True, steep=True,
        logpdf=flat_start(lambda x, c: np.log(c) - (c + 1.0) * np.log(x) - np.power(x, -c)), cdf=lambda x, c: np.exp(-np.power(x, -c)),
        logcdf=lambda x, c: -np.power(x, -c), sf=lambda x, c: -np.expm1(-np.power(x, -c)),
        ppf=lambda q, c: np.power(-np.log(q), -1.0 / c), isf=lambda q, c: np.power(-np.log1p(-q), -1.0 / c),
    )),
    (st.cauchy, law(
        "cauchy", 0.5, -INF, INF,
        pdf=lambda x: 1.0 / pi / (1.0 + x * x), logpdf=lambda x: np.log(1.0 / pi / (1.0 + x * x)),
        cdf=lambda x: np.arctan2(1.0, -x) / pi, sf=lambda x: np.arctan2(1.0, x) / pi,
        ppf=lambda q: -_cotangent(pi * q), isf=lambda q: _cotangent(pi * q),
    )),
    (st.halfcauchy, law(
        "halfcauchy", 1.0, 0.0, INF,
        pdf=lambda x: 2.0 / pi / (1.0 + x * x), logpdf=lambda x: log(2.0 / pi) - np.log1p(x * x), cdf=lambda x: 2.0 / pi * np.arctan(x),
        sf=lambda x: 2.0 / pi * np.arctan2(1.0, x), ppf=lambda q: np.tan(pi / 2.0 * q), isf=lambda q: _cotangent(pi * q / 2.0),
    )),
    (st.logistic, law(
        "logistic", 0.5, -INF, INF,
        logpdf=_logistic, cdf=sc.expit, logcdf=sc.log_expit, sf=lambda x: sc.expit(-x), logsf=lambda x: sc.log_expit(-x),
        ppf=sc.logit, isf=lambda q: -sc.logit(q),
    )),
    (st.laplace, law(
        "laplace", 0.5, -INF, INF,
        pdf=lambda x: 0.5 * np.exp(-np.abs(x)), logpdf=lambda x: np.log(0.5) - np.abs(x), cdf=_laplace, sf=lambda x: _laplace(-x),
        ppf=_laplace_quantile, isf=lambda q: -_laplace_quantile(q),
    )),
    (st.gumbel_r, law(
        "gumbel_r", 0.5, -INF, INF, logpdf=lambda x: -x - np.exp(-x), cdf=lambda x: np.exp(-np.exp(-x)), logcdf=lambda x: -np.exp(-x),
        sf=lambda x: -np.expm1(-np.exp(-x)),
        ppf=lambda q: -np.log(-np.log(q)), isf=lambda q: -np.log(-np.log1p(-q)),
    )),
    (st.gumbel_l, law(
        "gumbel_l", 0.5, -INF, INF,
        logpdf=lambda x: x - np.exp(x), cdf=lambda x: -np.expm1(-np.exp(x)), sf=lambda x: np.exp(-np.exp(x)), logsf=lambda x: -np.exp(x),
        ppf=lambda q: np.log(-np.log1p(-q)), isf=lambda q: np.log(-np.log(q)),
    )),
    (st.rayleigh, law(
        "rayleigh", 1.0, 0.0, INF,
        pdf=lambda r: r * np.exp(-0.5 * r * r), logpdf=lambda r: np.log(r) - 0.5 * r * r, cdf=lambda r: -np.expm1(-0.5 * r * r),
        sf=lambda r: np.exp(-0.5 * r * r), logsf=lambda r: -0.5 * r * r,
        ppf=lambda q: np.sqrt(-2.0 * np.log1p(-q)),
        isf=lambda q: np.sqrt(0.0 - 2.0 * np.log(q)),  # not of -0.0, whose slope has the other sign
    )),
    (st.maxwell, law(
        "maxwell", 1.0, 0.0, INF, inner_only=True,
        pdf=lambda x: sqrt(2.0 / pi) * x * x * np.exp(-x * x / 2.0), logpdf=lambda x: log(sqrt(2.0 / pi)) + 2.0 * np.log(x) - 0.5 * x * x,
        cdf=lambda x: sc.gammainc(1.5, x * x / 2.0), sf=lambda x: sc.gammaincc(1.5, x * x / 2.0),
        ppf=lambda q: np.sqrt(2.0 * sc.gammaincinv(1.5, q)), isf=lambda q: np.sqrt(2.0 * sc.gammainccinv(1.5, q)),
    )),
    (st.chi, law(
        "chi", 1.0, 0.0, INF, inner_only=True,
        logpdf=lambda x, df: times_log(df - 1.0, x) + _log_chi_rest(x, df),
        pdf=lambda x, df: power_density(x, df - 1.0, _log_chi_rest(x, df)),
        cdf=lambda x, df: sc.gammainc(0.5 * df, 0.5 * x**2), sf=lambda x, df: sc.gammaincc(0.5 * df, 0.5 * x**2),
        ppf=lambda q, df: root_of_gamma_quantile(0.5 * df, q, 2.0, upper=False),
        isf=lambda q, df: root_of_gamma_quantile(0.5 * df, q, 2.0, upper=True),
    )),
    (st.nakagami, law(
        "nakagami", 1.0, 0.0, INF, inner_only=True,
        logpdf=lambda x, nu: times_log(2.0 * nu - 1.0, x) + _log_nakagami_rest(x, nu),
        pdf=lambda x, nu: power_density(x, 2.0 * nu - 1.0, _log_nakagami_rest(x, nu)),
        cdf=lambda x, nu: sc.gammainc(nu, nu * x * x), sf=lambda x, nu: sc.gammaincc(nu, nu * x * x),
        ppf=lambda q, nu: root_of_gamma_quantile(nu, q, 1.0 / nu, upper=False),
        isf=lambda q, nu: root_of_gamma_quantile(nu, q, 1.0 / nu, upper=True),
    )),
    (st.halfnorm, law(
        "halfnorm", 1.0, 0.0, INF,
        pdf=lambda x: 2.0 / ROOT * np.exp(-x * x / 2.0), logpdf=lambda x: 0.5 * log(2.0 / pi) - x * x / 2.0,
        cdf=lambda x: sc.erf(x / sqrt(2.0)), sf=lambda x: 2.0 * sc.ndtr(-x), ppf=lambda q: sc.ndtri((1.0 + q) / 2.0),
        isf=lambda q: -sc.ndtri(q / 2.0),
    )),
    (st.pareto, law(
        "pareto", 2.0, 1.0, INF, pdf=lambda x, b: b * np.power(x, -b - 1.0), logpdf=lambda x, b: np.log(b) - (b + 1.0) * np.log(x),
        cdf=lambda x, b: 1.0 - np.power(x, -b),
        sf=lambda x, b: np.power(x, -b), ppf=lambda q, b: np.power(1.0 - q, -1.0 / b), isf=lambda q, b: np.power(q, -1.0 / b),
    )),
    (st.lomax, law(
        "lomax", 1.0, 0.0, INF,
        logpdf=lambda x, c: np.log(c) - (c + 1.0) * np.log1p(x), cdf=lambda x, c: -np.expm1(-c * np.log1p(x)),
        sf=lambda x, c: np.exp(-c * np.log1p(x)), logsf=lambda x, c: -c * np.log1p(x),
        ppf=lambda q, c: np.expm1(-np.log1p(-q) / c), isf=lambda q, c: np.power(q, -1.0 / c) - 1.0,
    )),
    (st.powerlaw, law(
        "powerlaw", 0.5, 0.0, 1.0, pdf=lambda x, a: power_density(x, a - 1.0, np.log(a)),
        logpdf=lambda x, a: np.log(a) + times_log(a - 1.0, x), cdf=np.power, logcdf=lambda x, a: a * np.log(x),
        sf=lambda x, a: 1.0 - np.power(x, a),
        ppf=lambda q, a: np.power(q, 1.0 / a),
    )),
    (st.invgamma, law(
        "invgamma", 1.0, 0.0, INF, inner_only=True, steep=True,
        logpdf=flat_start(lambda x, a: -(a + 1.0) * np.log(x) - sc.gammaln(a) - 1.0 / x), cdf=lambda x, a: sc.gammaincc(a, 1.0 / x),
        sf=lambda x, a: sc.gammainc(a, 1.0 / x), ppf=lambda q, a: 1.0 / sc.gammainccinv(a, q), isf=lambda q, a: 1.0 / sc.gammaincinv(a, q),
    )),
    (st.levy, law(
        "levy", 1.0, 0.0, INF, inner_only=True,
        logpdf=flat_start(lambda x: -0.5 * np.log(2.0 * pi * x) - np.log(x) - 1.0 / (2.0 * x)), cdf=lambda x: sc.erfc(np.sqrt(0.5 / x)),
        sf=lambda x: sc.erf(np.sqrt(0.5 / x)), ppf=lambda q: 1.0 / sc.ndtri(q / 2.0) ** 2,
    )),
    (st.fisk, law(
        "fisk", 1.0, 0.0, INF, logpdf=lambda x, c: np.log(c) + times_log(c - 1.0, x) - 2.0 * np.log1p(np.power(x, c)),
        pdf=lambda x, c: power_density(x, c - 1.0, np.log(c) - 2.0 * np.log1p(np.power(x, c))), cdf=_log_logistic,
        sf=lambda x, c: 1.0 / (1.0 + np.power(x, c)), ppf=lambda q, c: np.power(q / (1.0 - q), 1.0 / c),
        isf=lambda q, c: np.power((1.0 - q) / q, 1.0 / c),
    )),
    (st.gompertz, law(
        "gompertz", 1.0, 0.0, INF, logpdf=lambda x, c: np.log(c) + x - c * np.expm1(x), cdf=lambda x, c: -np.expm1(-c * np.expm1(x)),
        sf=lambda x, c: np.exp(-c * np.expm1(x)),
        logsf=lambda x, c: -c * np.expm1(x), ppf=lambda q, c: np.log1p(-1.0 / c * np.log1p(-q)), isf=lambda q, c: np.log1p(-np.log(q) / c),
    )),
    (st.vonmises, law(
        "vonmises", 0.5, -INF, INF, logpdf=lambda x, kappa: kappa * sc.cosm1(x) - log(2.0 * pi) - np.log(sc.i0e(kappa)),
    )),
    (st.skewnorm, law(
        "skewnorm", 0.5, -INF, INF, lambda a: a == a,  # noqa: PLR0124 - any number but NaN
        logpdf=lambda x, a: log(2.0) + log_normal(x) + sc.log_ndtr(a * x), cdf=lambda x, a: sc.ndtr(x) - 2.0 * sc.owens_t(x, a),
        sf=lambda x, a: sc.ndtr(-x) + 2.0 * sc.owens_t(x, a),
    )),
    (st.loguniform, Law(
        "loguniform", 1.0, lambda a, b: (a, b), lambda a, b: (a > 0) & (b > a),
        {"logpdf": lambda x, a, b: -np.log(x) - np.log(np.log(b) - np.log(a)),
         "cdf": lambda x, a, b: (np.log(x) - np.log(a)) / (np.log(b) - np.log(a)),
         "sf": lambda x, a, b: (np.log(b) - np.log(x)) / (np.log(b) - np.log(a)),
         "ppf": lambda q, a, b: np.exp(np.log(a) + q * (np.log(b) - np.log(a)))},
    )),
    (st.truncnorm, Law(
        "truncnorm", 0.0, lambda a, b: (a, b), lambda a, b: a < b,
        {"logpdf": lambda x, a, b: log_normal(x) - _log_mass(a, b), "logcdf": lambda x, a, b: _log_mass(a, x) - _log_mass(a, b),
         "cdf": lambda x, a, b: np.exp(_log_mass(a, x) - _log_mass(a, b)), "logsf": lambda x, a, b: _log_mass(x, b) - _log_mass(a, b),
         "sf": lambda x, a, b: np.exp(_log_mass(x, b) - _log_mass(a, b))}, inner_only=True,
    )),
    (st.nbinom, law(
        "nbinom", 1.0, 0.0, INF, lambda n, p: (n > 0) & (p > 0) & (p <= 1),
        logpmf=_log_nbinom, pmf=_nbinom, cdf=lambda k, n, p: sc.betainc(n, k + 1.0, p),
        sf=lambda k, n, p: sc.betaincc(n, k + 1.0, p),
    )),
    (st.geom, law(
        "geom", 1.0, 1.0, INF, lambda p: (p > 0) & (p <= 1),
        logpmf=_log_geometric, pmf=lambda k, p: np.power(1.0 - p, k - 1.0) * p, cdf=_geometric,
        sf=_geometric_tail, logsf=lambda k, p: k * np.log1p(-p),
    )),
    (st.bernoulli, law(
        "bernoulli", 0.0, 0.0, 1.0, lambda p: (p >= 0) & (p <= 1),
        logpmf=lambda k, p: count_log(k, p) + count_log(1.0 - k, -p, sc.xlog1py), pmf=lambda k, p: np.where(k == 1, p, 1.0 - p),
        cdf=lambda k, p: np.where(k >= 1, 1.0, 1.0 - p), sf=lambda k, p: np.where(k >= 1, 0.0, p),
    )),
    (st.betabinom, Law(
        "betabinom", 0.0, lambda n, a, b: (0.0, n), lambda n, a, b: (n >= 0) & (np.floor(n) == n) & (a > 0) & (b > 0),
        {"logpmf": _log_beta_binomial},
    )),
)  # fmt: skip
