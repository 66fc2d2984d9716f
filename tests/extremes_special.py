"""SciPy's functions at extreme points: exact slopes by mpmath, for `test_tails.py`.

Each row: the function of one argument on arrays, its slope, and where it is defined. Parameters
are written out; the derivative in a parameter has a row of its own.
"""
# ruff: noqa: E501 - a table

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from extremes import POINTS, Exact, below_one, positive
from mpmath import mp, mpf
from scipy import special as sc


class Slope(NamedTuple):
    """A function of one number on arrays, and its slope."""

    call: Callable[..., object]
    slope: Exact
    inside: Callable[[float], bool] = positive


def share(x: float) -> bool:
    return 0 < x < 1


def _inner(x: float) -> bool:
    return 1e-20 < x < 1


def _within(low: float, high: float) -> Callable[[float], bool]:
    return lambda x: low <= x <= high


def _erfcinv(y: object) -> object:
    """By Newton's method for ``log erfc``, which is almost a parabola."""
    if y > 1:
        return -_erfcinv(2 - y)
    start = mp.sqrt(-mp.log(y)) if y < 0.01 else mp.erfinv(1 - y)
    goal = mp.log(y)
    x = start + 0
    for _ in range(30):
        e = mp.erfc(x)
        step = (mp.log(e) - goal) * e / (-2 / mp.sqrt(mp.pi) * mp.exp(-x * x))
        x -= step
        if abs(step) <= abs(x) * mp.eps * 4:
            break
    return x


def _normal(z: object) -> object:
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


def _ndtri_exp_slope(y: object) -> object:
    z = -mp.sqrt(2) * _erfcinv(2 * mp.exp(y))
    return mp.exp(y) / _normal(z)


def _gamma_density(a: object, x: object) -> object:
    a = mpf(a)
    return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


def _beta_density(a: object, b: object, x: object) -> object:
    a, b = mpf(a), mpf(b)
    return mp.exp(
        (a - 1) * mp.log(x)
        + (b - 1) * mp.log(1 - x)
        - mp.loggamma(a)
        - mp.loggamma(b)
        + mp.loggamma(a + b)
    )


def _f_density(m: object, n: object, x: object) -> object:
    m, n = mpf(m), mpf(n)
    return mp.exp(
        m / 2 * mp.log(m / n) + (m / 2 - 1) * mp.log(x) - (m + n) / 2 * mp.log(1 + m * x / n)
    ) / mp.beta(m / 2, n / 2)


def _t_density(df: object, t: object) -> object:
    df = mpf(df)
    return mp.exp(-(df + 1) / 2 * mp.log(1 + t * t / df)) / (
        mp.sqrt(df) * mp.beta(df / 2, mpf(1) / 2)
    )


def _inverse_slope(value: Exact, density: Exact, start: Callable[[float], float]) -> Exact:
    """``1 / density`` where `value` is y, by Newton's method from an approximation of SciPy's."""

    def slope(y: object) -> object:
        x = mpf(float(start(float(y))))
        for _ in range(12):
            step = (value(x) - y) / density(x)
            x -= step
            if abs(step) <= abs(x) * mp.eps * 64:
                break
        return 1 / density(x)

    return slope


def _bessel(f: Callable[..., object], v: float, below: int, above: int) -> Exact:
    return lambda x: (below * f(v - 1, x) + above * f(v + 1, x)) / 2


_BESIDE = mpf(2) ** -120  # mpmath is fast at orders that are no whole numbers


def _beside(f: Exact, v: float, x: object) -> object:
    if v != int(v):
        return f(v, x)
    with mp.extraprec(140):
        return f(v + _BESIDE, x)


def _besselk(v: float, x: object) -> object:
    return _beside(mp.besselk, v, x)


def _bessely(v: float, x: object) -> object:
    return _beside(mp.bessely, v, x)


def _scaled_i(v: float) -> Exact:
    return lambda x: (
        mp.exp(-abs(x))
        * ((mp.besseli(abs(v - 1), x) + mp.besseli(v + 1, x)) / 2 - mp.sign(x) * mp.besseli(v, x))
    )


def _scaled_k(v: float) -> Exact:
    return lambda x: mp.exp(x) * (_besselk(v, x) - (_besselk(v - 1, x) + _besselk(v + 1, x)) / 2)


def _spherical(f: Callable[..., object], n: int, sign: int) -> Exact:
    """Of ``sqrt(pi / 2 / x) f(n + 1/2, x)``: ``n / x f_n - sign f_(n + 1)``."""
    scale = lambda x: mp.sqrt(mp.pi / (2 * x))
    return lambda x: scale(x) * (n / x * f(n + mpf(0.5), x) + sign * f(n + mpf(1.5), x))


def _boxcox_by_lambda(x: object, y: object) -> object:
    """Of ``(x**y - 1) / y`` in y."""
    return (x**y * (y * mp.log(x) - 1) + 1) / y**2


def _inv_boxcox_by_lambda(y: object, a: object) -> object:
    u = y * a
    return (1 + u) ** (1 / a) * (y / (a * (1 + u)) - mp.log(1 + u) / a**2)


_FAR = _within(1e-300, 1e3)
_SOME = frozenset(
    [1e-40, 1e-8, 0.1, 0.9, 2.0, 5.5, 19.0, 26.5, 30.0, 100.0]
)  # where mpmath is slow


def _some(x: float) -> bool:
    return x in _SOME


_N = 7

# fmt: off
SLOPES = {
    # error functions
    "dawsn": Slope(sc.dawsn, lambda x: 1 - x * mp.sqrt(mp.pi) * mp.exp(-x * x) * mp.erfi(x), _within(-1e4, 1e4)),
    "erfinv": Slope(sc.erfinv, lambda y: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(y) ** 2), lambda y: abs(y) <= 0.999),
    "erfcinv": Slope(sc.erfcinv, lambda y: -mp.sqrt(mp.pi) / 2 * mp.exp(_erfcinv(y) ** 2), lambda y: 0 < y < 2),
    "ndtri": Slope(sc.ndtri, lambda p: 1 / _normal(mp.sqrt(2) * _erfcinv(2 * p)), share),
    "ndtri_exp": Slope(sc.ndtri_exp, _ndtri_exp_slope, lambda y: -700 < y < -1e-30),
    "owens_t(x, 0.5)": Slope(lambda x: sc.owens_t(x, 0.5), lambda h: -mp.exp(-h * h / 2) * mp.erf(h / 2 / mp.sqrt(2)) / (2 * mp.sqrt(2 * mp.pi)), bool),
    "owens_t(0.5, x)": Slope(lambda x: sc.owens_t(0.5, x), lambda a: mp.exp(-(1 + a * a) / 8) / (2 * mp.pi * (1 + a * a)), bool),
    # gamma and its kin
    "gamma": Slope(sc.gamma, lambda x: mp.gamma(x) * mp.digamma(x), _within(1e-150, 171)),
    "rgamma": Slope(sc.rgamma, lambda x: -mp.digamma(x) * mp.rgamma(x), lambda x: abs(x) < 170 and (x > 0 or x != round(x))),
    "loggamma": Slope(sc.loggamma, mp.digamma),
    "zeta(2, x)": Slope(lambda x: sc.zeta(2.0, x), lambda x: mp.polygamma(2, x), _within(1e-100, 1e100)),
    "beta(x, 2.5)": Slope(lambda x: sc.beta(x, 2.5), lambda x: mp.beta(x, 2.5) * (mp.digamma(x) - mp.digamma(x + 2.5)), _within(1e-150, 1e100)),
    "beta(x, 1e-20)": Slope(lambda x: sc.beta(x, 1e-20), lambda x: mp.beta(x, mpf(1e-20)) * (mp.digamma(x) - mp.digamma(x + mpf(1e-20))), _within(1e-150, 1e100)),
    "betaln(x, 2.5)": Slope(lambda x: sc.betaln(x, 2.5), lambda x: mp.digamma(x) - mp.digamma(x + 2.5), _within(1e-300, 1e300)),
    "betaln(x, 1e-20)": Slope(lambda x: sc.betaln(x, 1e-20), lambda x: mp.digamma(x) - mp.digamma(x + mpf(1e-20)), _within(1e-150, 1e150)),
    "binom(x, 2.5)": Slope(lambda x: sc.binom(x, 2.5), lambda n: mp.binomial(n, 2.5) * (mp.digamma(n + 1) - mp.digamma(n - mpf(1.5))), _within(3, 1e100)),
    "poch(x, 2.5)": Slope(lambda x: sc.poch(x, 2.5), lambda z: mp.gamma(z + 2.5) / mp.gamma(z) * (mp.digamma(z + 2.5) - mp.digamma(z)), _within(1e-150, 1e100)),
    "poch(2.5, x)": Slope(lambda x: sc.poch(2.5, x), lambda m: mp.gamma(m + 2.5) / mp.gamma(2.5) * mp.digamma(m + 2.5), _within(0, 100)),
    # information, powers
    "rel_entr(x, 2)": Slope(lambda x: sc.rel_entr(x, 2.0), lambda x: mp.log(x / 2) + 1),
    "kl_div(x, 2)": Slope(lambda x: sc.kl_div(x, 2.0), lambda x: mp.log(x / 2)),
    "kl_div(x, 1 + 2**-52)": Slope(lambda x: sc.kl_div(x, 1 + 2.0**-52), lambda x: mp.log(x / (1 + mpf(2)**-52))),
    "kl_div(2, x)": Slope(lambda x: sc.kl_div(2.0, x), lambda y: 1 - 2 / y),
    "huber(1, x)": Slope(lambda x: sc.huber(1.0, x), lambda r: r if abs(r) <= 1 else mp.sign(r), bool),
    "powm1(x, 2.5)": Slope(lambda x: sc.powm1(x, 2.5), lambda x: mpf(2.5) * x ** mpf(1.5)),
    "powm1(2.5, x)": Slope(lambda x: sc.powm1(2.5, x), lambda y: mpf(2.5) ** y * mp.log(mpf(2.5)), bool),
    "boxcox(x, 0.1)": Slope(lambda x: sc.boxcox(x, 0.1), lambda x: x ** (mpf(0.1) - 1)),
    "boxcox(0.3, x)": Slope(lambda x: sc.boxcox(0.3, x), lambda y: _boxcox_by_lambda(mpf(0.3), y), lambda y: 1e-40 < abs(y) < 1e3),
    "boxcox1p(x, 0.1)": Slope(lambda x: sc.boxcox1p(x, 0.1), lambda x: (1 + x) ** (mpf(0.1) - 1)),
    "inv_boxcox(x, 0.1)": Slope(lambda x: sc.inv_boxcox(x, 0.1), lambda y: (1 + mpf(0.1) * y) ** (1 / mpf(0.1) - 1)),
    "inv_boxcox(0.5, x)": Slope(lambda x: sc.inv_boxcox(0.5, x), lambda a: _inv_boxcox_by_lambda(mpf(0.5), a), _within(1e-30, 1e300)),
    "inv_boxcox1p(x, 0.1)": Slope(lambda x: sc.inv_boxcox1p(x, 0.1), lambda y: (1 + mpf(0.1) * y) ** (1 / mpf(0.1) - 1)),
    "exprel": Slope(sc.exprel, lambda x: (x * mp.exp(x) - mp.expm1(x)) / x**2, lambda x: 1e-150 < abs(x) < 1e4),
    "wrightomega": Slope(sc.wrightomega, lambda z: mp.lambertw(mp.exp(z)).real / (1 + mp.lambertw(mp.exp(z)).real), _within(-700, 700)),
    "sindg": Slope(sc.sindg, lambda x: mp.pi / 180 * mp.cospi(x / 180), _within(-1e4, 1e4)),
    "cosdg": Slope(sc.cosdg, lambda x: -mp.pi / 180 * mp.sinpi(x / 180), _within(-1e4, 1e4)),
    "tandg": Slope(sc.tandg, lambda x: mp.pi / 180 / mp.cospi(x / 180) ** 2, _within(-1e4, 1e4)),
    "cotdg": Slope(sc.cotdg, lambda x: -mp.pi / 180 / mp.sinpi(x / 180) ** 2, _within(1e-150, 1e4)),
    # hypergeometric functions and integrals
    "hyp0f1(2.5, x)": Slope(lambda x: sc.hyp0f1(2.5, x), lambda x: mp.hyp0f1(3.5, x) / 2.5, _within(-1e3, 1e3)),
    "hyp1f1(1.5, 2.5, x)": Slope(lambda x: sc.hyp1f1(1.5, 2.5, x), lambda x: mpf(1.5) / 2.5 * mp.hyp1f1(2.5, 3.5, x), _within(-600, 600)),
    "hyp2f1(0.5, 1.5, 2.5, x)": Slope(lambda x: sc.hyp2f1(0.5, 1.5, 2.5, x), lambda x: mpf(0.75) / 2.5 * mp.hyp2f1(1.5, 2.5, 3.5, x), lambda x: abs(x) < 0.9999),
    "hyperu(1.5, 2.5, x)": Slope(lambda x: sc.hyperu(1.5, 2.5, x), lambda x: -1.5 * mp.hyperu(2.5, 3.5, x), _within(1e-4, 1e4)),
    "expn(1, x)": Slope(lambda x: sc.expn(1, x), lambda x: -mp.exp(-x) / x),
    "expn(3, x)": Slope(lambda x: sc.expn(3, x), lambda x: -mp.expint(2, x), _within(1e-300, 1e3)),
    "spence": Slope(sc.spence, lambda z: mp.log(z) / (1 - z) if z != 1 else mpf(-1)),
    "fresnel, first": Slope(lambda x: sc.fresnel(x)[0], lambda x: mp.sinpi(x * x / 2), bool),
    "fresnel, second": Slope(lambda x: sc.fresnel(x)[1], lambda x: mp.cospi(x * x / 2), bool),
    "sici, first": Slope(lambda x: sc.sici(x)[0], lambda x: mp.sin(x) / x),
    "sici, second": Slope(lambda x: sc.sici(x)[1], lambda x: mp.cos(x) / x),
    "shichi, first": Slope(lambda x: sc.shichi(x)[0], lambda x: mp.sinh(x) / x, _within(1e-300, 700)),
    "shichi, second": Slope(lambda x: sc.shichi(x)[1], lambda x: mp.cosh(x) / x, _within(1e-300, 700)),
    # orthogonal polynomials
    "eval_legendre(7, x)": Slope(lambda x: sc.eval_legendre(_N, x), lambda x: mp.gegenbauer(_N - 1, 1.5, x), below_one),
    "eval_sh_legendre(7, x)": Slope(lambda x: sc.eval_sh_legendre(_N, x), lambda x: 2 * mp.gegenbauer(_N - 1, 1.5, 2 * x - 1), share),
    "eval_chebyt(7, x)": Slope(lambda x: sc.eval_chebyt(_N, x), lambda x: _N * mp.chebyu(_N - 1, x), below_one),
    "eval_chebyu(7, x)": Slope(lambda x: sc.eval_chebyu(_N, x), lambda x: 2 * mp.gegenbauer(_N - 1, 2, x), below_one),
    "eval_chebyc(7, x)": Slope(lambda x: sc.eval_chebyc(_N, x), lambda x: _N * mp.chebyu(_N - 1, x / 2), lambda x: abs(x) < 2),
    "eval_chebys(7, x)": Slope(lambda x: sc.eval_chebys(_N, x), lambda x: mp.gegenbauer(_N - 1, 2, x / 2), lambda x: abs(x) < 2),
    "eval_sh_chebyt(7, x)": Slope(lambda x: sc.eval_sh_chebyt(_N, x), lambda x: 2 * _N * mp.chebyu(_N - 1, 2 * x - 1), share),
    "eval_sh_chebyu(7, x)": Slope(lambda x: sc.eval_sh_chebyu(_N, x), lambda x: 4 * mp.gegenbauer(_N - 1, 2, 2 * x - 1), share),
    "eval_hermite(7, x)": Slope(lambda x: sc.eval_hermite(_N, x), lambda x: 2 * _N * mp.hermite(_N - 1, x), _within(-1e8, 1e8)),
    "eval_hermitenorm(7, x)": Slope(lambda x: sc.eval_hermitenorm(_N, x), lambda x: _N * mp.hermite(_N - 1, x / mp.sqrt(2)) / 8, _within(-1e8, 1e8)),
    "eval_laguerre(7, x)": Slope(lambda x: sc.eval_laguerre(_N, x), lambda x: -mp.laguerre(_N - 1, 1, x), _within(0, 1e8)),
    "eval_genlaguerre(7, 0.5, x)": Slope(lambda x: sc.eval_genlaguerre(_N, 0.5, x), lambda x: -mp.laguerre(_N - 1, 1.5, x), _within(0, 1e8)),
    "eval_gegenbauer(7, 0.5, x)": Slope(lambda x: sc.eval_gegenbauer(_N, 0.5, x), lambda x: mp.gegenbauer(_N - 1, 1.5, x), below_one),
    "eval_jacobi(7, 0.5, 1.5, x)": Slope(lambda x: sc.eval_jacobi(_N, 0.5, 1.5, x), lambda x: mpf(_N + 3) / 2 * mp.jacobi(_N - 1, 1.5, 2.5, x), below_one),
    "eval_sh_jacobi(7, 2, 1.5, x)": Slope(lambda x: sc.eval_sh_jacobi(_N, 2.0, 1.5, x), lambda x: (_N + 2) * mp.jacobi(_N - 1, 1.5, 1.5, 2 * x - 1) / mp.binomial(2 * _N + 1, _N), share),
    # Bessel functions
    "j1": Slope(sc.j1, _bessel(mp.besselj, 1, 1, -1), _within(-1e4, 1e4)),
    "y0": Slope(sc.y0, lambda x: -_bessely(1, x), _some),
    "y1": Slope(sc.y1, _bessel(_bessely, 1, 1, -1), _some),
    "i1": Slope(sc.i1, _bessel(mp.besseli, 1, 1, 1), _within(-700, 700)),
    "i0e": Slope(sc.i0e, _scaled_i(0), lambda x: 1e-30 < abs(x) <= 1e8),
    "i1e": Slope(sc.i1e, _scaled_i(1), lambda x: 1e-30 < abs(x) <= 1e8),
    "k0": Slope(sc.k0, lambda x: -_besselk(1, x), _some),
    "k1": Slope(sc.k1, _bessel(_besselk, 1, -1, -1), _some),
    "k0e": Slope(sc.k0e, _scaled_k(0), _some),
    "k1e": Slope(sc.k1e, _scaled_k(1), _some),
    "jv(2.5, x)": Slope(lambda x: sc.jv(2.5, x), _bessel(mp.besselj, 2.5, 1, -1), _FAR),
    "jve(2.5, x)": Slope(lambda x: sc.jve(2.5, x), _bessel(mp.besselj, 2.5, 1, -1), _FAR),
    "yv(2.5, x)": Slope(lambda x: sc.yv(2.5, x), _bessel(_bessely, 2.5, 1, -1), _within(1e-50, 1e3)),
    "yve(2.5, x)": Slope(lambda x: sc.yve(2.5, x), _bessel(_bessely, 2.5, 1, -1), _within(1e-50, 1e3)),
    "yn(2, x)": Slope(lambda x: sc.yn(2, x), _bessel(_bessely, 2, 1, -1), _some),
    "iv(2.5, x)": Slope(lambda x: sc.iv(2.5, x), _bessel(mp.besseli, 2.5, 1, 1), _within(1e-100, 700)),
    "ive(2.5, x)": Slope(lambda x: sc.ive(2.5, x), _scaled_i(2.5), _within(1e-100, 1e8)),
    "kv(2.5, x)": Slope(lambda x: sc.kv(2.5, x), _bessel(_besselk, 2.5, -1, -1), _within(1e-50, 700)),
    "kve(2.5, x)": Slope(lambda x: sc.kve(2.5, x), _scaled_k(2.5), _within(1e-20, 1e4)),
    "kn(2, x)": Slope(lambda x: sc.kn(2, x), _bessel(_besselk, 2, -1, -1), _some),
    "struve(1.5, x)": Slope(lambda x: sc.struve(1.5, x), lambda x: mp.struveh(0.5, x) - 1.5 / x * mp.struveh(1.5, x), _within(1e-100, 500)),
    "modstruve(1.5, x)": Slope(lambda x: sc.modstruve(1.5, x), lambda x: mp.struvel(0.5, x) - 1.5 / x * mp.struvel(1.5, x), _within(1e-100, 500)),
    "airy, first": Slope(lambda x: sc.airy(x)[0], lambda x: mp.airyai(x, derivative=1), _within(-100, 100)),
    "airy, third": Slope(lambda x: sc.airy(x)[2], lambda x: mp.airybi(x, derivative=1), _within(-100, 100)),
    "airye, first": Slope(lambda x: sc.airye(x)[0], lambda x: mp.exp(2 * x**1.5 / 3) * (mp.airyai(x, derivative=1) + mp.sqrt(x) * mp.airyai(x)), _within(1e-300, 1e4)),
    "airye, third": Slope(lambda x: sc.airye(x)[2], lambda x: mp.exp(-2 * x**1.5 / 3) * (mp.airybi(x, derivative=1) - mp.sqrt(x) * mp.airybi(x)), _within(1e-300, 1e4)),
    "spherical_jn(2, x)": Slope(lambda x: sc.spherical_jn(2, x), _spherical(mp.besselj, 2, -1), _within(1e-100, 1e3)),
    "spherical_yn(2, x)": Slope(lambda x: sc.spherical_yn(2, x), _spherical(_bessely, 2, -1), _within(1e-50, 1e3)),
    "spherical_in(2, x)": Slope(lambda x: sc.spherical_in(2, x), _spherical(mp.besseli, 2, 1), _within(1e-100, 700)),
    "spherical_kn(2, x)": Slope(lambda x: sc.spherical_kn(2, x), _spherical(_besselk, 2, -1), _within(1e-50, 700)),
    # elliptic integrals
    "ellipkm1": Slope(sc.ellipkm1, lambda p: -(mp.ellipe(1 - p) / p - mp.ellipk(1 - p)) / (2 * (1 - p)), _within(1e-20, 0.999)),
    "ellipe": Slope(sc.ellipe, lambda m: (mp.ellipe(m) - mp.ellipk(m)) / (2 * m), _within(1e-20, 0.999)),
    "ellipkinc(x, 0.5)": Slope(lambda x: sc.ellipkinc(x, 0.5), lambda p: 1 / mp.sqrt(1 - mp.sin(p) ** 2 / 2), _within(-100, 100)),
    "ellipeinc(x, 0.5)": Slope(lambda x: sc.ellipeinc(x, 0.5), lambda p: mp.sqrt(1 - mp.sin(p) ** 2 / 2), _within(-100, 100)),
    # incomplete gamma and beta, and distributions
    "gammainc(0.3, x)": Slope(lambda x: sc.gammainc(0.3, x), lambda x: _gamma_density(0.3, x)),
    "gammainc(2.5, x)": Slope(lambda x: sc.gammainc(2.5, x), lambda x: _gamma_density(2.5, x)),
    "gammainc(500, x)": Slope(lambda x: sc.gammainc(500.0, x), lambda x: _gamma_density(500, x)),
    "gammainc(1e8, x)": Slope(lambda x: sc.gammainc(1e8, x), lambda x: _gamma_density(1e8, x), lambda x: abs(x - 1e8) <= 1e5),
    "gammaincc(2.5, x)": Slope(lambda x: sc.gammaincc(2.5, x), lambda x: -_gamma_density(2.5, x)),
    "gammainc(x, 2.5)": Slope(lambda x: sc.gammainc(x, 2.5), lambda a: mp.diff(lambda s: mp.gammainc(s, 0, 2.5, regularized=True), a), _within(0.1, 100)),
    "gammaincc(x, 2.5)": Slope(lambda x: sc.gammaincc(x, 2.5), lambda a: mp.diff(lambda s: mp.gammainc(s, 2.5, regularized=True), a), _within(0.1, 100)),
    "chdtr(3, x)": Slope(lambda x: sc.chdtr(3.0, x), lambda x: _gamma_density(1.5, x / 2) / 2),
    "chdtrc(3, x)": Slope(lambda x: sc.chdtrc(3.0, x), lambda x: -_gamma_density(1.5, x / 2) / 2),
    "gdtr(2, 1.5, x)": Slope(lambda x: sc.gdtr(2.0, 1.5, x), lambda x: 2 * _gamma_density(1.5, 2 * x)),
    "pdtr(2, x)": Slope(lambda x: sc.pdtr(2, x), lambda m: -_gamma_density(3, m)),
    "betainc(2.5, 3.5, x)": Slope(lambda x: sc.betainc(2.5, 3.5, x), lambda x: _beta_density(2.5, 3.5, x), share),
    "betainc(0.3, 0.4, x)": Slope(lambda x: sc.betainc(0.3, 0.4, x), lambda x: _beta_density(0.3, 0.4, x), share),
    "betainc(500, 700, x)": Slope(lambda x: sc.betainc(500.0, 700.0, x), lambda x: _beta_density(500, 700, x), share),
    "betainc(1e8, 1e8, x)": Slope(lambda x: sc.betainc(1e8, 1e8, x), lambda x: _beta_density(1e8, 1e8, x), _within(0.4999, 0.5001)),
    "betaincc(2.5, 3.5, x)": Slope(lambda x: sc.betaincc(2.5, 3.5, x), lambda x: -_beta_density(2.5, 3.5, x), share),
    "betainc(x, 2.5, 0.3)": Slope(lambda x: sc.betainc(x, 2.5, 0.3), lambda a: mp.diff(lambda s: mp.betainc(s, 2.5, 0, mpf(0.3), regularized=True), a), _within(0.1, 100)),
    "bdtr(2, 7, x)": Slope(lambda x: sc.bdtr(2.0, 7, x), lambda p: -_beta_density(3, 5, p), share),
    "nbdtr(2, 7, x)": Slope(lambda x: sc.nbdtr(2, 7, x), lambda p: _beta_density(7, 3, p), share),
    "fdtr(3, 5, x)": Slope(lambda x: sc.fdtr(3.0, 5.0, x), lambda x: _f_density(3, 5, x)),
    "fdtrc(3, 5, x)": Slope(lambda x: sc.fdtrc(3.0, 5.0, x), lambda x: -_f_density(3, 5, x)),
    "stdtr(3, x)": Slope(lambda x: sc.stdtr(3.0, x), lambda t: _t_density(3, t), bool),
    "stdtr(0.5, x)": Slope(lambda x: sc.stdtr(0.5, x), lambda t: _t_density(0.5, t), bool),
    "stdtr(1e6, x)": Slope(lambda x: sc.stdtr(1e6, x), lambda t: _t_density(1e6, t), bool),
    "pdtrc(2, x)": Slope(lambda x: sc.pdtrc(2, x), lambda m: _gamma_density(3, m)),
    "gdtrc(2, 1.5, x)": Slope(lambda x: sc.gdtrc(2.0, 1.5, x), lambda x: -2 * _gamma_density(1.5, 2 * x)),
    "bdtrc(2, 7, x)": Slope(lambda x: sc.bdtrc(2.0, 7, x), lambda p: _beta_density(3, 5, p), share),
    "nbdtrc(2, 7, x)": Slope(lambda x: sc.nbdtrc(2, 7, x), lambda p: -_beta_density(7, 3, p), share),
    "gammaincinv(2.5, x)": Slope(lambda y: sc.gammaincinv(2.5, y),
        _inverse_slope(lambda x: mp.gammainc(2.5, 0, x, regularized=True), lambda x: _gamma_density(2.5, x), lambda y: sc.gammaincinv(2.5, y)), _inner),
    "gammainccinv(2.5, x)": Slope(lambda y: sc.gammainccinv(2.5, y),
        _inverse_slope(lambda x: mp.gammainc(2.5, x, regularized=True), lambda x: -_gamma_density(2.5, x), lambda y: sc.gammainccinv(2.5, y)), _inner),
    "chdtri(3, x)": Slope(lambda y: sc.chdtri(3.0, y),
        _inverse_slope(lambda x: mp.gammainc(1.5, x / 2, regularized=True), lambda x: -_gamma_density(1.5, x / 2) / 2, lambda y: sc.chdtri(3.0, y)), _inner),
    "betaincinv(2.5, 3.5, x)": Slope(lambda y: sc.betaincinv(2.5, 3.5, y),
        _inverse_slope(lambda x: mp.betainc(2.5, 3.5, 0, x, regularized=True), lambda x: _beta_density(2.5, 3.5, x), lambda y: sc.betaincinv(2.5, 3.5, y)), _inner),
    "betainccinv(2.5, 3.5, x)": Slope(lambda y: sc.betainccinv(2.5, 3.5, y),
        _inverse_slope(lambda x: mp.betainc(2.5, 3.5, x, 1, regularized=True), lambda x: -_beta_density(2.5, 3.5, x), lambda y: sc.betainccinv(2.5, 3.5, y)), _inner),
    "stdtrit(3, x)": Slope(lambda p: sc.stdtrit(3.0, p),
        _inverse_slope(lambda t: (mp.atan(t / mp.sqrt(3)) + t * mp.sqrt(3) / (3 + t * t)) / mp.pi + mpf(0.5), lambda t: _t_density(3, t), lambda p: sc.stdtrit(3.0, p)), _inner),
    "radian(x, 0, 0)": Slope(lambda x: sc.radian(x, 0.0, 0.0), lambda x: mp.pi / 180, bool),
}
# fmt: on


def slope_points(name: str) -> np.ndarray:
    """Points within the domain, of both signs."""
    inside = SLOPES[name].inside
    more = [1e8 - 3e4, 1e8 + 1.0, 1e8 + 2e4, 0.49995, 0.50003]  # next to the means of sharp peaks
    return np.array([x for p in [*POINTS, *more] for x in (p, -p) if inside(x)])


def settled(formula: Exact, x: float, most: int = 6400) -> object:
    """A value whose precision is doubled until nothing changes: what cancels may need any."""
    precision, before = 64, None
    while precision <= most:
        precision *= 2
        with mp.workprec(precision):
            now = mpf(mp.re(formula(mpf(float(x)))))
            if before is not None and now and abs(now - before) <= abs(now) * mpf(2) ** -62:
                return now
        before = now
    if now == 0:
        return now
    raise ArithmeticError(f"no digits at {x!r}")
