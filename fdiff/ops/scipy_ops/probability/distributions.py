"""Distributions of `scipy.stats` in standard form (location 0, scale 1): support, densities, distribution functions.

`stats.py` shifts and scales them. Derivatives follow from the formulas, in all parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, pi, sqrt

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc
from fdiff.intact_scipy import stats as st

from ....named_tuples import NamedTuple
from ....trace import Array, Operand, TracedArray, unsupported
from ...shapes.shaping import traced

Formula = Callable[..., Array]
INF = float("inf")


def of_reals(x: object) -> TracedArray:
    """`x` on the tape; complex numbers are refused."""
    a = traced(x)
    if a.dtype.kind == "c":
        raise unsupported("scipy.stats of complex numbers")
    return a


class Law(NamedTuple):
    """A distribution in standard form (location 0, scale 1).

    `inside` is a point in the support whatever the parameters; `support` gives the ends of the support and `allowed`
    the condition for valid parameters, both as functions of the parameters; `formulas` are its functions by name.
    At an end of the support derivatives are those from within, if the formulas of distribution functions have them there
    (not ``inner_only``). Quantiles leave a `steep` start faster than any power: their slopes there are infinite, of every order.
    """

    name: str
    inside: float
    support: Callable[..., tuple[Operand, Operand]]
    allowed: Callable[..., object]
    formulas: Mapping[str, Formula]
    inner_only: bool = False
    steep: bool = False

    def formula(self, name: str) -> Formula:
        """The formula of a function; one that is not given is composed of the others, as in SciPy."""
        if (own_formula := self.formulas.get(name)) is not None:
            return own_formula
        if name in ("pdf", "pmf"):
            return lambda *args: exp_of(self.formula(f"log{name}")(*args))
        if name in ("logcdf", "logsf"):
            return lambda *args: np.log(self.formula(name[3:])(*args))
        raise unsupported(f"scipy.stats.{self.name}.{name}")


def positive(*parameters: Operand) -> Array | bool:
    """Whether all of them are."""
    good: Array | bool = True
    for p in parameters:
        good = good & (p > 0)
    return good


def law(
    name: str, inside: float, low: float, high: float, allowed: Formula = positive, *,
    inner_only: bool = False, steep: bool = False, **formulas: Formula,
) -> Law:
    return Law(name, inside, lambda *_: (low, high), allowed, formulas, inner_only, steep)


# --- the distributions ------------------------------------------------------------------------
ROOT = sqrt(2.0 * pi)


def exp_of(logarithm: Array) -> Array:
    """``exp(logarithm)``; 0 with derivative 0 where the logarithm is -inf, whose own derivative is infinite there."""
    none = logarithm == -INF
    return np.where(none, 0.0, np.exp(np.where(none, 0.0, logarithm)))


def power_density(x: Array, c: Array, log_rest: Array) -> object:
    """``x**c exp(log_rest)``: in logarithms, and at x = 0, where these have no derivative, by the power itself."""
    zero = x == 0
    at_zero = np.power(np.where(zero, x, 1.0), c) * np.exp(log_rest)
    return np.where(zero, at_zero, np.exp(sc.xlogy(c, np.where(zero, 1.0, x)) + log_rest))


def _beta(x: Array, a: Array, b: Array) -> object:
    end = (x == 0) | (x == 1)
    at = np.where(end, x, 0.5)
    by_powers = np.power(at, a - 1.0) * np.power(1.0 - at, b - 1.0) * np.exp(-sc.betaln(a, b))
    return np.where(end, by_powers, np.exp(_log_beta(np.where(end, 0.5, x), a, b)))


def times_log(c: Array, x: Array, log_of: Formula = sc.xlogy) -> Array:
    """``c log(x)``, or ``c log1p(x)``; for a constant c = 0 the derivative is 0, also at x = 0."""
    if isinstance(c, TracedArray):
        return log_of(c, x)
    none = np.equal(c, 0)
    return np.where(none, 0.0, log_of(c, np.where(none, 0.5, x))) if np.any(none) else log_of(c, x)


def count_log(k: object, x: Array, log_of: Formula = sc.xlogy) -> Array:
    """``k log(x)`` for a number of events k, which has no derivative; 0 where k is 0."""
    return np.where(k == 0, 0.0, log_of(k, np.where(k == 0, 0.5, x)))


def log_normal(x: Array) -> Array:
    return -0.5 * x * x - log(ROOT)


def _log_student(x: Array, df: Array) -> object:
    """Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 2, 28.1; normal for infinite df."""
    endless = np.isinf(df)
    n = np.where(endless, 1.0, df)
    student = -0.5 * (n + 1.0) * np.log1p(x * x / n) - sc.betaln(0.5 * n, 0.5) - 0.5 * np.log(n)
    return np.where(endless, log_normal(x), student)


def _log_gamma(x: Array, a: Array) -> object:
    return times_log(a - 1.0, x) - x - sc.gammaln(a)


def _log_beta(x: Array, a: Array, b: Array) -> Array:
    return times_log(b - 1.0, -x, sc.xlog1py) + times_log(a - 1.0, x) - sc.betaln(a, b)


def flat_start(log_density: Formula) -> Formula:
    """A logarithm of a density that is 0 at x = 0 with all its derivatives."""
    return lambda x, *shapes: np.where(x == 0, -INF, log_density(np.where(x == 0, 1.0, x), *shapes))


def _log_lognormal(x: Array, s: Array) -> object:
    return log_normal(np.log(x) / s) - np.log(s * x)


def _log_chi2(x: Array, df: Array) -> object:
    return times_log(0.5 * df - 1.0, x) - 0.5 * x - sc.gammaln(0.5 * df) - 0.5 * log(2.0) * df


def _log_poisson(k: Array, mu: object) -> Array:
    return count_log(k, mu) - sc.gammaln(k + 1.0) - mu


def _poisson(k: Array, mu: Array) -> object:
    """By powers where `mu` is 0, because ``log(mu)`` has no derivative there."""
    none = mu == 0
    few = np.power(np.where(none, mu, 0.0), k) * np.exp(np.where(none, -mu, 0.0)) / sc.gamma(k + 1.0)
    return np.where(none, few, np.exp(_log_poisson(k, np.where(none, 1.0, mu))))


def _log_binomial(k: Array, n: Array, p: Array) -> object:
    ways = sc.gammaln(n + 1.0) - (sc.gammaln(k + 1.0) + sc.gammaln(n - k + 1.0))
    return ways + count_log(k, p) + count_log(n - k, -p, sc.xlog1py)


def _binomial(k: Array, n: object, p: Array) -> object:
    """By powers where `p` is 0 or 1, because the logarithms have no derivatives there."""
    edge = (p == 0) | (p == 1)
    at, ways = np.where(edge, p, 0.0), sc.binom(n, k)
    sure = np.where(np.isinf(ways), 0.0, ways) * np.power(at, k) * np.power(1.0 - at, n - k)
    return np.where(edge, sure, exp_of(_log_binomial(k, n, np.where(edge, 0.5, p))))


def _log_f_rest(x: Array, m: Array, n: Array) -> Array:
    """The density of Fisher's distribution without the power of x, in logarithms."""
    return 0.5 * (m * np.log(m) + n * np.log(n)) - 0.5 * (m + n) * np.log(n + m * x) - sc.betaln(0.5 * m, 0.5 * n)


DISTRIBUTIONS = (
    (st.norm, law(
        "norm", 0.0, -INF, INF,
        pdf=lambda x: np.exp(-0.5 * x * x) / ROOT, logpdf=log_normal, cdf=sc.ndtr, logcdf=sc.log_ndtr,
        sf=lambda x: sc.ndtr(-x), logsf=lambda x: sc.log_ndtr(-x), ppf=sc.ndtri, isf=lambda q: -sc.ndtri(q),
    )),
    (st.expon, law(
        "expon", 1.0, 0.0, INF,
        pdf=lambda x: np.exp(-x), logpdf=lambda x: -x, cdf=lambda x: -np.expm1(-x), sf=lambda x: np.exp(-x), logsf=lambda x: -x,
        ppf=lambda q: -np.log1p(-q), isf=lambda q: -np.log(q),
    )),
    (st.uniform, law(
        "uniform", 0.5, 0.0, 1.0,
        pdf=lambda x: 1.0, logpdf=lambda x: 0.0, cdf=lambda x: x, sf=lambda x: 1.0 - x, ppf=lambda q: q, isf=lambda q: 1.0 - q,
    )),
    (st.lognorm, law(
        "lognorm", 1.0, 0.0, INF, inner_only=True, steep=True,
        logpdf=flat_start(_log_lognormal), cdf=lambda x, s: sc.ndtr(np.log(x) / s), logcdf=lambda x, s: sc.log_ndtr(np.log(x) / s),
        sf=lambda x, s: sc.ndtr(-np.log(x) / s), logsf=lambda x, s: sc.log_ndtr(-np.log(x) / s),
        ppf=lambda q, s: np.exp(s * sc.ndtri(q)), isf=lambda q, s: np.exp(-s * sc.ndtri(q)),
    )),
    (st.t, law(
        "t", 0.5, -INF, INF,
        logpdf=_log_student, cdf=lambda x, df: sc.stdtr(df, x), sf=lambda x, df: sc.stdtr(df, -x),
        ppf=lambda q, df: sc.stdtrit(df, q), isf=lambda q, df: -sc.stdtrit(df, q),
    )),
    (st.gamma, law(
        "gamma", 1.0, 0.0, INF,
        logpdf=_log_gamma, pdf=lambda x, a: power_density(x, a - 1.0, -x - sc.gammaln(a)),
        cdf=lambda x, a: sc.gammainc(a, x), sf=lambda x, a: sc.gammaincc(a, x),
        ppf=lambda q, a: sc.gammaincinv(a, q), isf=lambda q, a: sc.gammainccinv(a, q),
    )),
    (st.beta, law(
        "beta", 0.5, 0.0, 1.0,
        logpdf=_log_beta, pdf=_beta, cdf=lambda x, a, b: sc.betainc(a, b, x), sf=lambda x, a, b: sc.betaincc(a, b, x),
        ppf=lambda q, a, b: sc.betaincinv(a, b, q), isf=lambda q, a, b: sc.betainccinv(a, b, q),
    )),
    (st.chi2, law(
        "chi2", 1.0, 0.0, INF,
        logpdf=_log_chi2, pdf=lambda x, df: power_density(x, 0.5 * df - 1.0, -0.5 * x - sc.gammaln(0.5 * df) - 0.5 * log(2.0) * df),
        cdf=lambda x, df: sc.chdtr(df, x), sf=lambda x, df: sc.chdtrc(df, x),
        ppf=lambda q, df: 2.0 * sc.gammaincinv(0.5 * df, q), isf=lambda q, df: sc.chdtri(df, q),
    )),
    (st.f, law(
        "f", 1.0, 0.0, INF, inner_only=True,
        logpdf=lambda x, m, n: times_log(0.5 * m - 1.0, x) + _log_f_rest(x, m, n),
        pdf=lambda x, m, n: power_density(x, 0.5 * m - 1.0, _log_f_rest(x, m, n)),
        cdf=lambda x, m, n: sc.fdtr(m, n, x), sf=lambda x, m, n: sc.fdtrc(m, n, x),
    )),
    (st.poisson, law(
        "poisson", 0.0, 0.0, INF, lambda mu: mu >= 0,
        pmf=_poisson, logpmf=_log_poisson, cdf=sc.pdtr, sf=sc.pdtrc,
    )),
    (st.binom, Law(
        "binom", 0.0, lambda n, p: (0.0, n), lambda n, p: (n >= 0) & (np.floor(n) == n) & (p >= 0) & (p <= 1),
        {"pmf": _binomial, "logpmf": _log_binomial,
         "cdf": lambda k, n, p: sc.betainc(n - k, k + 1.0, 1.0 - p), "sf": lambda k, n, p: sc.betainc(k + 1.0, n - k, p)},
    )),
)  # fmt: skip
