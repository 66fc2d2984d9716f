"""Elementwise functions at extreme points: exact slopes and curvatures by mpmath.

Each row: the function on arrays, and its derivatives as formulas of mpmath's in which nothing
cancels that the precision does not hold.
"""
# ruff: noqa: E501 - a table

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mpmath
import numpy as np
from mpmath import mp, mpf
from scipy import special as sc

Exact = Callable[..., object]

PRECISION = 200  # bits
POINTS = [
    0.0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e-155, 1e-100, 1e-40, 1e-20, 1e-16, 1e-8, 1e-4, 0.1, 0.25,
    0.4999999999999999, 0.5, 0.75, 0.9, 0.999, 1.0 - 1e-8, 1.0 - 2.0**-53, 1.0, 1.0 + 2.0**-52, 1.0 + 1e-8, 1.001, 1.5, 2.0,
    2.718281828459045, 3.141592653589793, 4.75, 5.5, 7.0, 10.0, 19.0, 25.5, 26.5, 30.0, 37.5, 40.0, 88.0, 100.0, 354.5, 372.3, 500.0,
    700.0, 709.7, 710.4, 744.5, 745.1, 1022.5, 1e4, 1e8, 1e10, 1e16, 1e20, 1e100, 1e154, 1e155, 1e160, 1e200, 1e300,
    1.7976931348623157e308,
]  # fmt: skip
SINGLE = [
    0.0, 1e-45, 1e-40, 1.1754944e-38, 1e-30, 1e-19, 1e-10, 1e-8, 1e-4, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999, 1.0 - 2.0**-24, 1.0,
    1.0 + 2.0**-23, 1.001, 1.5, 2.0, 2.7182817, 3.1415927, 4.75, 5.5, 7.0, 9.0, 10.0, 13.0, 19.0, 30.0, 43.0, 51.5, 70.0, 87.3, 88.5, 89.3,
    103.2, 127.5, 200.0, 1e4, 65000.0, 1e7, 1e8, 1e10, 1e16, 1e19, 1e20, 1e30, 3.4028235e38,
]  # fmt: skip


class Function(NamedTuple):
    """A function of one number: on arrays, its slope and its curvature."""

    call: Callable[..., object]
    slope: Exact
    curvature: Exact
    inside: Callable[[float], bool] = lambda x: True


def positive(x: float) -> bool:
    return x > 0


def below_one(x: float) -> bool:
    return abs(x) < 1


# Exponents from which one cannot be subtracted exactly, in double and in single precision.
_A, _B = 0.25 + 2.0**-54, 0.25 + 2.0**-25


def _ln(n: int) -> object:
    return mp.log(n)


def _density(x: object) -> object:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def _logistic(x: object) -> object:
    e = mp.exp(-abs(x))
    return e / (1 + e) ** 2


def _gauss(x: object) -> object:
    return 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)


# fmt: off
UNARY = {
    "reciprocal": Function(np.reciprocal, lambda x: -1 / x**2, lambda x: 2 / x**3, bool),
    "square": Function(np.square, lambda x: 2 * x, lambda x: mpf(2)),
    "sqrt": Function(np.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), lambda x: -1 / (4 * x * mp.sqrt(x)), positive),
    "cbrt": Function(np.cbrt, lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2), lambda x: -mp.sign(x) * 2 / (9 * mp.cbrt(abs(x)) ** 5), bool),
    "exp": Function(np.exp, mp.exp, mp.exp),
    "exp2": Function(np.exp2, lambda x: mpf(2) ** x * _ln(2), lambda x: mpf(2) ** x * _ln(2) ** 2),
    "expm1": Function(np.expm1, mp.exp, mp.exp),
    "log": Function(np.log, lambda x: 1 / x, lambda x: -1 / x**2, positive),
    "log2": Function(np.log2, lambda x: 1 / (x * _ln(2)), lambda x: -1 / (x**2 * _ln(2)), positive),
    "log10": Function(np.log10, lambda x: 1 / (x * _ln(10)), lambda x: -1 / (x**2 * _ln(10)), positive),
    "log1p": Function(np.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2, lambda x: x > -1),
    "sin": Function(np.sin, mp.cos, lambda x: -mp.sin(x)),
    "cos": Function(np.cos, lambda x: -mp.sin(x), lambda x: -mp.cos(x)),
    "tan": Function(np.tan, lambda x: 1 / mp.cos(x) ** 2, lambda x: 2 * mp.sin(x) / mp.cos(x) ** 3),
    "arcsin": Function(np.arcsin, lambda x: 1 / mp.sqrt(1 - x * x), lambda x: x / mp.sqrt(1 - x * x) ** 3, below_one),
    "arccos": Function(np.arccos, lambda x: -1 / mp.sqrt(1 - x * x), lambda x: -x / mp.sqrt(1 - x * x) ** 3, below_one),
    "arctan": Function(np.arctan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    "sinh": Function(np.sinh, mp.cosh, mp.sinh),
    "cosh": Function(np.cosh, mp.sinh, mp.cosh),
    "tanh": Function(np.tanh, lambda x: mp.sech(x) ** 2, lambda x: -2 * mp.tanh(x) * mp.sech(x) ** 2),
    "arcsinh": Function(np.arcsinh, lambda x: 1 / mp.sqrt(1 + x * x), lambda x: -x / mp.sqrt(1 + x * x) ** 3),
    "arccosh": Function(np.arccosh, lambda x: 1 / mp.sqrt(x * x - 1), lambda x: -x / mp.sqrt(x * x - 1) ** 3, lambda x: x > 1),
    "arctanh": Function(np.arctanh, lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2, below_one),
    "deg2rad": Function(np.deg2rad, lambda x: mp.pi / 180, lambda x: mpf(0)),
    "rad2deg": Function(np.rad2deg, lambda x: 180 / mp.pi, lambda x: mpf(0)),
    "absolute": Function(np.abs, mp.sign, lambda x: mpf(0), bool),
    "x / (1 + x)": Function(lambda x: x / (1.0 + x), lambda x: 1 / (1 + x) ** 2, lambda x: -2 / (1 + x) ** 3, lambda x: x != -1),
    "x / (1 - x)": Function(lambda x: x / (1.0 - x), lambda x: 1 / (1 - x) ** 2, lambda x: 2 / (1 - x) ** 3, lambda x: x != 1),
    "x / (x - 1)": Function(lambda x: x / (x - 1.0), lambda x: -1 / (1 - x) ** 2, lambda x: -2 / (1 - x) ** 3, lambda x: x != 1),
    "x * x / (1 + x * x)": Function(lambda x: x * x / (1.0 + x * x), lambda x: 2 * x / (1 + x * x) ** 2, lambda x: (2 - 6 * x * x) / (1 + x * x) ** 3, lambda x: 1e-6 < abs(x) < 1e6),
    "exp(x) / (1 + exp(x))": Function(lambda x: np.exp(x) / (1.0 + np.exp(x)), _logistic, lambda x: -mp.tanh(x / 2) * _logistic(x), lambda x: abs(x) < 40),
    "exp(-x) / (exp(-x) + 1)": Function(lambda x: np.exp(-x) / (np.exp(-x) + 1.0), lambda x: -_logistic(x), lambda x: mp.tanh(x / 2) * _logistic(x), lambda x: abs(x) < 40),
    "1 / (1 + 1 / x)": Function(lambda x: 1.0 / (1.0 + 1.0 / x), lambda x: 1 / (1 + x) ** 2, lambda x: -2 / (1 + x) ** 3, lambda x: 1e-10 < x < 1e10),
    "1 / (1 + exp(-x))": Function(lambda x: 1.0 / (1.0 + np.exp(-x)), _logistic, lambda x: -mp.tanh(x / 2) * _logistic(x)),
    "x**x": Function(lambda x: x**x, lambda x: x**x * (1 + mp.log(x)), lambda x: x**x * ((1 + mp.log(x)) ** 2 + 1 / x), positive),
    "x**(0.25 + 2**-54)": Function(lambda x: x**_A, lambda x: mpf(_A) * x ** (mpf(_A) - 1), lambda x: mpf(_A) * (mpf(_A) - 1) * x ** (mpf(_A) - 2), positive),
    "x**1.5": Function(lambda x: x**1.5, lambda x: mpf(1.5) * x ** mpf(0.5), lambda x: mpf(0.75) * x ** mpf(-0.5), positive),
    "x**0.25": Function(lambda x: x**_B, lambda x: mpf(_B) * x ** (mpf(_B) - 1), lambda x: mpf(_B) * (mpf(_B) - 1) * x ** (mpf(_B) - 2), positive),
    "x**-2.75": Function(lambda x: x**-2.75, lambda x: mpf(-2.75) * x ** mpf(-3.75), lambda x: mpf(2.75) * mpf(3.75) * x ** mpf(-4.75), positive),
    "0.75**x": Function(lambda x: 0.75**x, lambda x: mpf(0.75) ** x * mp.log(mpf(0.75)), lambda x: mpf(0.75) ** x * mp.log(mpf(0.75)) ** 2),
    "logaddexp(x, 0)": Function(lambda x: np.logaddexp(x, 0.0), lambda x: 1 / (1 + mp.exp(-x)), _logistic),
    "logaddexp2(x, 0)": Function(lambda x: np.logaddexp2(x, 0.0), lambda x: 1 / (1 + mpf(2) ** -x), lambda x: _ln(2) * _logistic(x * _ln(2))),
    "hypot(x, 1)": Function(lambda x: np.hypot(x, 1.0), lambda x: x / mp.sqrt(1 + x * x), lambda x: 1 / mp.sqrt(1 + x * x) ** 3),
    "arctan2(x, 1)": Function(lambda x: np.arctan2(x, 1.0), lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    "arctan2(1, x)": Function(lambda x: np.arctan2(1.0, x), lambda x: -1 / (1 + x * x), lambda x: 2 * x / (1 + x * x) ** 2),
    "erf": Function(sc.erf, _gauss, lambda x: -2 * x * _gauss(x)),
    "erfc": Function(sc.erfc, lambda x: -_gauss(x), lambda x: 2 * x * _gauss(x)),
    "erfi": Function(sc.erfi, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(x * x), lambda x: 4 * x / mp.sqrt(mp.pi) * mp.exp(x * x), lambda x: abs(x) < 1e4),
    "ndtr": Function(sc.ndtr, _density, lambda x: -x * _density(x)),
    "expit": Function(sc.expit, _logistic, lambda x: -mp.tanh(x / 2) * _logistic(x)),
    "log_expit": Function(sc.log_expit, lambda x: 1 / (1 + mp.exp(x)), lambda x: -_logistic(x)),
    "logit": Function(sc.logit, lambda x: 1 / (x * (1 - x)), lambda x: (2 * x - 1) / (x * (1 - x)) ** 2, lambda x: 0 < x < 1),
    "entr": Function(sc.entr, lambda x: -mp.log(x) - 1, lambda x: -1 / x, positive),
    "exp10": Function(sc.exp10, lambda x: mpf(10) ** x * _ln(10), lambda x: mpf(10) ** x * _ln(10) ** 2),
    "cosm1": Function(sc.cosm1, lambda x: -mp.sin(x), lambda x: -mp.cos(x)),
    "xlogy(x, x)": Function(lambda x: sc.xlogy(x, x), lambda x: mp.log(x) + 1, lambda x: 1 / x, positive),
    "xlog1py(1, x)": Function(lambda x: sc.xlog1py(1.0, x), lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2, lambda x: x > -1),
    "pseudo_huber(1, x)": Function(lambda x: sc.pseudo_huber(1.0, x), lambda x: x / mp.sqrt(1 + x * x), lambda x: 1 / mp.sqrt(1 + x * x) ** 3),
    "expi": Function(sc.expi, lambda x: mp.exp(x) / x, lambda x: mp.exp(x) * (x - 1) / x**2, bool),
    "exp1": Function(sc.exp1, lambda x: -mp.exp(-x) / x, lambda x: mp.exp(-x) * (x + 1) / x**2, positive),
    "gammaln": Function(sc.gammaln, lambda x: mp.digamma(x), lambda x: mp.polygamma(1, x), lambda x: x > 0),
    "psi": Function(sc.psi, lambda x: mp.polygamma(1, x), lambda x: mp.polygamma(2, x), lambda x: x > 0),
    "j0": Function(sc.j0, lambda x: -mp.besselj(1, x), lambda x: (mp.besselj(2, x) - mp.besselj(0, x)) / 2, lambda x: abs(x) < 1e4),
    "i0": Function(sc.i0, lambda x: mp.besseli(1, x), lambda x: (mp.besseli(0, x) + mp.besseli(2, x)) / 2, lambda x: abs(x) < 1e4),
    "ellipk": Function(sc.ellipk, lambda m: (mp.ellipe(m) / (1 - m) - mp.ellipk(m)) / (2 * m), lambda m: mp.diff(mp.ellipk, m, 2), lambda x: 1e-20 < x < 1),
    "erfcx": Function(sc.erfcx, lambda x: 2 * x * mp.exp(x * x) * mp.erfc(x) - 2 / mp.sqrt(mp.pi),
        lambda x: (2 + 4 * x * x) * mp.exp(x * x) * mp.erfc(x) - 4 * x / mp.sqrt(mp.pi), lambda x: -25 < x < 1e3),
    "log_ndtr": Function(sc.log_ndtr, lambda x: _density(x) / mp.ncdf(x), lambda x: -(_density(x) / mp.ncdf(x)) * (x + _density(x) / mp.ncdf(x)), lambda x: -1e3 < x < 30),
}
# fmt: on


# Of two numbers: slopes in both. In the domain of all: a positive first number.
BINARY: dict[str, tuple[Callable[..., object], Exact, Exact]] = {
    "multiply": (np.multiply, lambda x, y: y, lambda x, y: x),
    "divide": (np.divide, lambda x, y: 1 / y, lambda x, y: -x / y**2),
    "hypot": (np.hypot, lambda x, y: x / mp.hypot(x, y), lambda x, y: y / mp.hypot(x, y)),
    "arctan2": (np.arctan2, lambda x, y: y / (x * x + y * y), lambda x, y: -x / (x * x + y * y)),
    "logaddexp": (
        np.logaddexp,
        lambda x, y: 1 / (1 + mp.exp(y - x)),
        lambda x, y: 1 / (1 + mp.exp(x - y)),
    ),
    "logaddexp2": (
        np.logaddexp2,
        lambda x, y: 1 / (1 + mpf(2) ** (y - x)),
        lambda x, y: 1 / (1 + mpf(2) ** (x - y)),
    ),
    "power": (np.power, lambda x, y: y * x ** (y - 1), lambda x, y: x**y * mp.log(x)),
    "x / (x + y)": (
        lambda x, y: x / (x + y),
        lambda x, y: y / (x + y) ** 2,
        lambda x, y: -x / (x + y) ** 2,
    ),
    "xlogy": (
        sc.xlogy,
        lambda x, y: mp.log(abs(y)) if y > 0 else mp.nan,
        lambda x, y: x / y if y > 0 else mp.nan,
    ),
}


def pairs(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of every third point, the second of both signs."""
    some = np.array((POINTS if dtype is np.float64 else SINGLE)[1::3], dtype)
    x, y = np.meshgrid(some, np.concatenate([some, -some]))
    return x.ravel(), y.ravel()


def points(name: str, dtype: type) -> np.ndarray:
    """Points within the domain, of both signs."""
    listed = POINTS if dtype is np.float64 else SINGLE
    inside = UNARY[name].inside
    both = [x for p in listed for x in (p, -p) if inside(x) and inside(float(dtype(x)))]
    return np.array(both, dtype)


def exact(formula: Exact, *arguments: float) -> object:
    """A value in high precision."""
    with mpmath.workprec(PRECISION):
        return formula(*(mpf(float(x)) for x in arguments))


def ulps(got: np.ndarray, want: list[object]) -> np.ndarray:
    """Distances in units of the last place of the exact value; 0 where that leaves the range and `got` is infinite."""
    info = np.finfo(got.dtype)
    found = []
    for g, w in zip(got.ravel(), want, strict=True):
        size = abs(w)
        if size >= float(info.max):
            found.append(
                0.0
                if np.isinf(g) and (g > 0) == (w > 0)
                else float(size / float(info.max))
                if size < float(info.max) * 1.0001 and np.isfinite(g)
                else np.inf
            )
            continue
        if not np.isfinite(g):
            found.append(np.inf)
            continue
        with mpmath.workprec(PRECISION):
            unit = max(
                mpf(2) ** (mp.floor(mp.log(size, 2)) - info.nmant) if size else 0,
                float(info.smallest_subnormal),
            )
            found.append(float(abs(mpf(float(g)) - w) / unit))
    return np.array(found)
