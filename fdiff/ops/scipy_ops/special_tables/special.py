"""Special functions of SciPy, one row each: partial derivatives in ``(*args, out)``.

Error functions, logistic and information functions, powers, integrals, orthogonal polynomials. Formulas: NIST
Digital Library of Mathematical Functions (DLMF), https://dlmf.nist.gov.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log as _log
from math import pi
from math import sqrt as _sqrt

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ....primitive import ZERO
from ....trace import Array, TracedArray, apply
from ...entrywise.accurate_partials import (
    DIRECTION,
    SHARES,
    exp_minus_square,
    exp_product,
    logistic_slope,
    power_sum,
    product_error,
    steep,
    zero_power_log,
)
from ...entrywise.elementwise import power_slopes
from ...entrywise.sample_domains import count, positive, real, unit
from .special_family import LACKING, alias, order, special, special_many

TWO_ROOT_PI = 2.0 / _sqrt(pi)
ROOT_2PI = _sqrt(2.0 * pi)
HALF_ROOT_PI = 0.5 * _sqrt(pi)
DEGREE = pi / 180.0


def share(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Probabilities."""
    return rng.uniform(0.08, 0.92, shape)


def degrees(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(-70.0, 70.0, shape)


def below_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return -rng.uniform(0.3, 3.0, shape)


# --- error functions and the normal distribution (DLMF 7.2, 7.12) -----------------------------


def _double_factorials(t: Array, sign: int) -> Array:
    """``sum of sign**k (2k - 1)!! t**k`` for k = 1 ... 7: asymptotic for t = 1 / (2 x**2)."""
    total: object = 135135.0
    for factor in (10395.0, 945.0, 105.0, 15.0, 3.0, 1.0):
        total = factor + sign * t * total
    return sign * t * total


special("erf", lambda x, out: TWO_ROOT_PI * _gauss(x), real, text="rt.erf", analytic=True)
special("erfc", lambda x, out: -TWO_ROOT_PI * _gauss(x), real, text="rt.erfc", analytic=True)
special("erfcx", lambda x, out: _erfcx_slope(x, out), real)
special("erfi", lambda x, out: TWO_ROOT_PI * apply(exp_product, x, x), real)
special("dawsn", lambda x, out: _dawson_slope(x, out), real)
special("erfinv", lambda y, out: HALF_ROOT_PI * _exp_square(out, 1.0 - np.abs(y)), unit)
special("erfcinv", lambda y, out: -HALF_ROOT_PI * _exp_square(out, np.where(y < 1, y, 2.0 - y)), share)
special("ndtr", lambda x, out: apply(exp_product, -0.5 * x, x) / ROOT_2PI, real, text="rt.ndtr")
special("log_ndtr", lambda x, out: _hazard(x), real)
special("ndtri", lambda y, out: ROOT_2PI * _exp_square(_sqrt(0.5) * out, 2.0 * np.where(y < 0.5, y, 1.0 - y)), share)
special("ndtri_exp", lambda y, out: 1.0 / _hazard(out), below_zero)


def _owens_t_slopes(h: TracedArray, a: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (
        -np.exp(-0.5 * h * h) * sc.erf(h * a * _sqrt(0.5)) / (2.0 * ROOT_2PI),
        np.exp(-0.5 * h * h * (1.0 + a * a)) / (2.0 * pi * (1.0 + a * a)),
    )


special("owens_t", _owens_t_slopes, real)


def _gauss(x: TracedArray) -> Array:
    return np.exp(-x * x) if x.dtype.kind == "c" else apply(exp_minus_square, x)


def _erfcx_slope(x: TracedArray, out: TracedArray) -> object:
    """``2 x erfcx(x) - 2 / sqrt(pi)``; by the asymptotic series (DLMF 7.12.1) where both terms almost cancel."""
    far = x > 25.0
    t = 0.5 / np.square(np.where(far, x, 25.0))
    return np.where(far, TWO_ROOT_PI * _double_factorials(t, -1), 2.0 * x * out - TWO_ROOT_PI)


def _dawson_slope(x: TracedArray, out: TracedArray) -> object:
    """``1 - 2 x dawsn(x)``, as `_erfcx_slope`."""
    far = np.abs(x) > 25.0
    t = 0.5 / np.square(np.where(far, x, 25.0))
    return np.where(far, -_double_factorials(t, 1), 1.0 - 2.0 * x * out)


def _exp_square(z: TracedArray, tail: TracedArray) -> Array:
    """``exp(z**2)`` where erfc(abs(z)) is `tail`; computed from `z`, the rounding error of `z` would be amplified by ``2 z**2``."""
    far = (np.abs(z) > 0.5) & np.isfinite(z) & (tail > 0)
    ratio = sc.erfcx(np.abs(np.where(far, z, 1.0))) / np.where(far, tail, 1.0)
    near = np.where(far, 0.0, z)
    return np.where(far, ratio, apply(exp_product, near, near))


def _hazard(x: TracedArray) -> Array:
    """Normal density over distribution: ``sqrt(2 / pi) / erfcx(-x / sqrt(2))`` below zero."""
    below = x < 0
    scaled = sc.erfcx(np.where(below, -_sqrt(0.5) * x, 0.0))
    return np.where(below, _sqrt(2.0 / pi) / scaled, apply(exp_product, -0.5 * x, x) / (ROOT_2PI * sc.ndtr(np.where(below, 0.0, x))))


# --- logistic and information -----------------------------------------------------------------
special("expit", lambda x, out: apply(logistic_slope, x), real, text="rt.expit")
special("logit", lambda p, out: 1.0 / (p * (1.0 - p)), share)
LOG_EXPIT = "rt.minimum({0}, {T}(-0.0)) - rt.log1p(rt.exp(-abs({0})))"
special("log_expit", lambda x, out: apply(SHARES[np.exp][1], x, np.zeros((), x.dtype)), real, text=LOG_EXPIT)
special("xlogy", lambda x, y, out: (lambda: np.log(y), lambda: _over(x, y)), real, positive)
special("xlog1py", lambda x, y, out: (lambda: np.log1p(y), lambda: _over(x, 1.0 + y)), real, positive)
special("entr", lambda x, out: -np.log(x) - 1.0, positive)
special("rel_entr", lambda x, y, out: (lambda: np.log(x) - np.log(y) + 1.0, lambda: -_over(x, y)), positive)
special("kl_div", lambda x, y, out: (lambda: np.log(x) - np.log(y), lambda: 1.0 - _over(x, y)), positive)


def _huber_slopes(delta: TracedArray, r: TracedArray, out: TracedArray) -> tuple[object, ...]:
    near = np.abs(r) <= delta
    return (np.where(near, 0.0, np.abs(r) - delta), np.where(near & (delta > 0), r, delta * np.sign(r)))


special("huber", _huber_slopes, lambda rng, shape: rng.uniform(0.6, 1.0, shape), real)
special("pseudo_huber", lambda delta, r, out: _pseudo_huber_slopes(delta, r), positive, real)


def _over(x: TracedArray, y: TracedArray) -> Array:
    """``x / y``, and 0 for 0 / 0."""
    return np.where((x == 0) & (y == 0), steep(x), x / y)


def _pseudo_huber_slopes(delta: TracedArray, r: TracedArray) -> tuple[object, object]:
    """Partial derivatives of ``delta (h - delta)`` with ``h = hypot(r, delta)``, without cancellation; no second ones at (0, 0)."""
    h = np.hypot(r, delta)
    less = r * (r / (h + delta))
    return np.where(h == 0, np.sqrt(np.abs(r)), less * (less / h)), delta * apply(DIRECTION[0], r, delta)


# --- powers, exponentials, logarithms ---------------------------------------------------------
for _name in ("log1p", "expm1", "exp2", "cbrt"):
    alias(_name)
special("exp10", lambda x, out: _log(10.0) * out, real)
special("exprel", lambda x, out: 0.5 * sc.hyp1f1(2.0, 3.0, x), real)
special("cosm1", lambda x, out: -np.sin(x), real)
special("powm1", lambda x, y, out: power_slopes(x, y, np.power(x, y)), positive, real)
special("boxcox", lambda x, lmbda, out: (lambda: _power_below(x, lmbda), lambda: _boxcox_slope(np.log(x), lmbda)), positive, real)
special("boxcox1p", lambda x, lmbda, out: (lambda: _power_below(1.0 + x, lmbda), lambda: _boxcox_slope(np.log1p(x), lmbda)), positive, real)


def _inv_boxcox_slopes(y: TracedArray, lmbda: TracedArray, power: TracedArray) -> tuple[object, ...]:
    """Of ``(1 + lmbda y)**(1 / lmbda)``, which is `power`; where that is 0 as of a power of 0, since other formulas have no limit."""
    invertible = lmbda > 1e-30
    zero = invertible & (power == 0)
    base, inverse = np.where(zero, 1.0 + lmbda * y, 1.0), 1.0 / np.where(invertible, lmbda, 1.0)
    at_zero = np.power(base, inverse - 1.0)

    def by_lmbda() -> object:
        by_exponent = np.where(base == 0, apply(zero_power_log, base, inverse), power * np.log(base))
        return np.where(zero, inverse * (y * at_zero - inverse * by_exponent), power * y * y * _log_ratio_slope(lmbda * y))

    return lambda: np.where(zero, at_zero, np.power(power, 1.0 - lmbda)), by_lmbda


special("inv_boxcox", _inv_boxcox_slopes, positive)
special("inv_boxcox1p", lambda y, lmbda, out: _inv_boxcox_slopes(y, lmbda, sc.inv_boxcox(y, lmbda)), positive)
special("wrightomega", lambda z, out: out / (1.0 + out), real)
special("sindg", lambda x, out: DEGREE * sc.cosdg(x), degrees)
special("cosdg", lambda x, out: -DEGREE * sc.sindg(x), degrees)
special("tandg", lambda x, out: DEGREE / np.square(sc.cosdg(x)), degrees)
special("cotdg", lambda x, out: -DEGREE / np.square(sc.sindg(x)), lambda rng, shape: rng.uniform(20.0, 70.0, shape))
special("radian", lambda d, m, s, out: (DEGREE, DEGREE / 60.0, DEGREE / 3600.0), degrees)
for _flat in ("gammasgn", "round"):
    special("round_even" if _flat == "round" else _flat, lambda x, out: ZERO, real, ufunc=getattr(sc, _flat))


def _power_below(x: TracedArray, y: TracedArray) -> object:
    """``x**(y - 1)``, also where y - 1 is no number of the format."""
    return apply(power_sum, x, y, -np.ones((), x.dtype))


def _boxcox_slope(logarithm: Array, lmbda: TracedArray) -> object:
    """The derivative of ``L exprel(lmbda L)`` in lmbda, smooth at lmbda = 0; its limit at x = 0, where L is -inf."""
    zero = np.isneginf(logarithm)
    safe = np.where(zero, 0.0, logarithm)
    limit = np.where(lmbda > 0, 1.0 / np.square(np.where(lmbda > 0, lmbda, 1.0)), np.inf)
    return np.where(zero, limit, 0.5 * safe * safe * sc.hyp1f1(2.0, 3.0, lmbda * safe))


def log_ratio(u: Array) -> Array:
    """``log(1 + u) / u``, smooth at 0: ``2F1(1, 1; 2; -u)`` (DLMF 15.4.1)."""
    near = np.abs(u) < 0.5
    return np.where(near, sc.hyp2f1(1.0, 1.0, 2.0, -np.where(near, u, 0.0)), np.log1p(u) / np.where(near, 1.0, u))


def _log_ratio_slope(u: Array) -> object:
    """Derivative of `log_ratio` (DLMF 15.5.1)."""
    near = np.abs(u) < 0.5
    safe = np.where(near, 1.0, u)
    return np.where(near, -0.5 * sc.hyp2f1(2.0, 2.0, 3.0, -np.where(near, u, 0.0)), (1.0 / (1.0 + safe) - np.log1p(safe) / safe) / safe)


# --- integrals (DLMF 6.2, 7.2, 8.19, 25.12) ---------------------------------------------------
special("expi", lambda x, out: _expi_slope(x), real)
special("exp1", lambda x, out: -np.exp(-x) / x, positive)
special("expn", lambda n, x, out: np.where(n >= 1, -sc.expn(np.maximum(n - 1, 0), x), -(np.exp(-x) + out) / x), count, positive)
special("spence", lambda z, out: _spence_slope(z), positive)


def _spence_slope(z: TracedArray) -> object:
    """``log(z) / (1 - z)``, smooth at 1."""
    low = z < 0.5
    return np.where(low, np.log(np.where(low, z, 0.5)) / (1.0 - np.where(low, z, 0.5)), -log_ratio(np.where(low, 1.0, z) - 1.0))


def _turned(x: np.ndarray, ahead: int) -> np.ndarray:
    """``sin(pi / 2 (x**2 + ahead))``; multiples of a quarter turn are removed from the square and its rounding error exactly."""
    at = np.asarray(x, float)
    with np.errstate(all="ignore"):
        square = at * at
        low, lost = np.fmod(square, 4.0), np.fmod(product_error(at, at, square), 4.0)
        quarters = np.rint(low + lost)
        angle = 0.5 * pi * ((low - quarters) + lost)
        even = np.abs(at) >= 2.0**53  # whose square is a multiple of 4
        quarters, angle = np.where(even, 0.0, quarters), np.where(even, 0.0 * at, angle)
        k = np.where(np.isnan(quarters), 0.0, quarters + ahead).astype(int) % 4
        return np.where(k % 2, np.cos(angle), np.sin(angle)) * np.where(k < 2, 1.0, -1.0)


fresnel_sine = special("fresnel_sine", lambda x, out: pi * x * apply(fresnel_cosine, x), real, evaluate=lambda x: _turned(x, 0))
fresnel_cosine = special("fresnel_cosine", lambda x, out: -pi * x * apply(fresnel_sine, x), real, evaluate=lambda x: _turned(x, 1))
special_many("fresnel", lambda x, s, c: ((apply(fresnel_sine, x),), (apply(fresnel_cosine, x),)), real)


def _expi_slope(x: TracedArray) -> object:
    """``exp(x) / x``, also where only the exponential is infinite."""
    half = np.exp(0.5 * x)
    return half / x * half


# --- orthogonal polynomials: the degree is a constant (DLMF 18.9) -----------------------------


def _lower(n: Array, slope: Array) -> Array:
    """`slope`, which is stated for degrees above 0, and 0 for other whole degrees: SciPy's polynomial is 0 or 1 there."""
    return np.where((n <= 0) & (n == np.floor(n)), 0.0, slope)


def _below(n: Array) -> object:
    return np.where(n == 0, 0, n - 1) if n.dtype.kind == "i" else np.where(n == 0, 0.0, n - 1)


def _legendre(n: TracedArray, x: object) -> Array:
    """Slope of a Legendre polynomial; degree -1 - n has the same slope."""
    degree = np.where(n < 0, -1 - n, n)
    return _lower(degree, sc.eval_gegenbauer(_below(degree), 1.5, x))


def _chebyshev(n: TracedArray, slope: Callable[..., object], x: object) -> Array:
    """Slope of one of the first kind by `slope`, of the second kind; degree -n has the same slope."""
    degree = np.abs(n)
    return degree * slope(_below(degree), x)


def _chebyshev_second(n: TracedArray, x: object) -> Array:
    """Half the slope of a function of the second kind; for degree -2 - n it has the other sign, and is 0 for n = -1."""
    degree = np.where(n == -1, 0, np.abs(n + 1) - 1)
    return np.where(n < -1, -1, 1) * _lower(degree, sc.eval_gegenbauer(_below(degree), 2.0, x))


special("eval_legendre", lambda n, x, out: _legendre(n, x), count, unit)
special("eval_sh_legendre", lambda n, x, out: 2.0 * _legendre(n, 2.0 * x - 1.0), count, share)
special("eval_chebyt", lambda n, x, out: _chebyshev(n, sc.eval_chebyu, x), count, unit)
special("eval_chebyu", lambda n, x, out: 2.0 * _chebyshev_second(n, x), count, unit)
special("eval_chebyc", lambda n, x, out: _chebyshev(n, sc.eval_chebys, x), count, unit)
special("eval_chebys", lambda n, x, out: _chebyshev_second(n, 0.5 * x), count, unit)
special("eval_sh_chebyt", lambda n, x, out: 2.0 * _chebyshev(n, sc.eval_sh_chebyu, x), count, share)
special("eval_sh_chebyu", lambda n, x, out: 4.0 * _chebyshev_second(n, 2.0 * x - 1.0), count, share)
special("eval_hermite", lambda n, x, out: 2.0 * n * sc.eval_hermite(_below(n), x), count, unit)
special("eval_hermitenorm", lambda n, x, out: n * sc.eval_hermitenorm(_below(n), x), count, unit)
special("eval_laguerre", lambda n, x, out: _lower(n, -sc.eval_genlaguerre(_below(n), 1.0, x)), count, unit)


def _genlaguerre_slopes(n: TracedArray, alpha: TracedArray, x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (LACKING, LACKING, _lower(n, -sc.eval_genlaguerre(_below(n), alpha + 1, x)))


def _gegenbauer_slopes(n: TracedArray, alpha: TracedArray, x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (LACKING, LACKING, np.where(alpha == 0, 0.0, _lower(n, 2.0 * alpha * sc.eval_gegenbauer(_below(n), alpha + 1, x))))


special("eval_genlaguerre", _genlaguerre_slopes, count, order, unit)
special("eval_gegenbauer", _gegenbauer_slopes, count, order, unit)


def _jacobi_slopes(n: TracedArray, alpha: TracedArray, beta: TracedArray, x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (
        LACKING,
        LACKING,
        LACKING,
        _lower(n, 0.5 * (n + alpha + beta + 1) * sc.eval_jacobi(_below(n), alpha + 1, beta + 1, x)),
    )


special("eval_jacobi", _jacobi_slopes, count, order, order, unit)


def _shifted_jacobi_slopes(n: TracedArray, p: TracedArray, q: TracedArray, x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (LACKING, LACKING, LACKING, _lower(n, n * sc.eval_sh_jacobi(_below(n), p + 2, q + 1, x)))


special("eval_sh_jacobi", _shifted_jacobi_slopes, count, lambda rng, shape: order(rng, shape) + np.int8(4), order, share)
