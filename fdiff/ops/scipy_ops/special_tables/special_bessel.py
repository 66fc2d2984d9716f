"""Bessel, Struve, Airy and spherical Bessel functions, in their argument; orders are constants (DLMF 9, 10, 11)."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from math import sqrt as _sqrt

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ....arraytype import broadcast_all
from ....primitive import Primitive
from ....trace import Array, TracedArray, apply
from ...along_axes.reductions import as_scalar
from ...entrywise.sample_domains import positive, real
from ...scipy_functions import replaces_if_traced
from ...shapes.shaping import traced
from .special_family import LACKING, order, special, special_many

TINY = 1e-150  # below, SciPy's functions of order 2 and above may give nan for 0

# --- of order 0 and 1 -------------------------------------------------------------------------
special("j0", lambda x, out: -sc.j1(x), real)
special("j1", lambda x, out: 0.5 * (sc.j0(x) - sc.jv(2, x)), real)
special("y0", lambda x, out: -sc.y1(x), positive)
special("y1", lambda x, out: 0.5 * (sc.y0(x) - sc.yv(2, x)), positive)
special("i0", lambda x, out: sc.i1(x), real)
special("i1", lambda x, out: 0.5 * (sc.i0(x) + _second(sc.iv, x)), real)
special("i0e", lambda x, out: _unless_far("i", 0, np.abs(x), np.sign(x), sc.i1e(x) - np.sign(x) * out), real)


def _i1e_slopes(x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    near = 0.5 * (sc.i0e(x) + _second(sc.ive, x)) - np.sign(x) * out
    return (_unless_far("i", 1, np.abs(x), 1.0, near),)


def _second(function: np.ufunc, x: TracedArray) -> object:
    """``I_2(x)``, or that times ``exp(-|x|)``: by its power series (DLMF 10.25.2) where SciPy's may be nan."""
    tiny = np.abs(x) < TINY
    square = np.square(np.where(tiny, x, 0.0))
    return np.where(tiny, square / 8.0 * sc.hyp0f1(3.0, square / 4.0), function(2, np.where(tiny, 1.0, x)))


special("i1e", _i1e_slopes, real)
special("k0", lambda x, out: -sc.k1(x), positive)
special("k1", lambda x, out: -sc.k0(x) - out / x, positive)
special("k0e", lambda x, out: _unless_far("k", 0, x, 1.0, out - sc.k1e(x)), positive)
special("k1e", lambda x, out: _unless_far("k", 1, x, 1.0, out - sc.k0e(x) - out / x), positive)


# --- scaled by exp(-x) and exp(x): for large x the derivatives cancel ----------------------------
FAR, _TERMS = 30.0, 18  # the least argument of the asymptotic series, and its terms


def _scaled_tail(v: np.ndarray, x: np.ndarray, *, kind: str, m: int) -> np.ndarray:
    """m-th derivative of ``exp(-x) I_v(x)`` or ``exp(x) K_v(x)`` for large x (DLMF 10.40.1 and 10.40.2)."""
    at, order = np.asarray(x, float), 4.0 * np.square(np.asarray(v, float))
    powers = np.arange(_TERMS)[:, None] + 0.5 + np.arange(m)
    sign, scale = (-1.0, 0.5 / pi) if kind == "i" else (1.0, 0.5 * pi)
    term, total = 1.0, np.prod(powers[0])
    for k in range(1, _TERMS):
        term = term * (sign * (order - (2 * k - 1) ** 2) / (8.0 * k) / at)
        total = total + np.prod(powers[k]) * term
    return np.sqrt(scale / at) * total / (-at) ** m


def _tail_slope(v: TracedArray, x: TracedArray, out: object, kind: str, m: int) -> object:
    return apply(scaled_tail, v, x, kind=kind, m=m + 1)


def far(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(50.0, 90.0, shape)


_TAILS = ({"kind": "i", "m": 1}, {"kind": "k", "m": 1})
scaled_tail = special("scaled_tail", _tail_slope, order, far, evaluate=_scaled_tail, params=_TAILS)


def _unless_far(kind: str, v: Array, x: Array, sign: object, near: Array) -> object:
    """The derivative `near`, or the asymptotic series' where `x` is large compared with the order."""
    far = x > FAR + v * v
    return np.where(far, sign * apply(scaled_tail, v, np.where(far, x, FAR), kind=kind, m=1), near)


# --- of any order -----------------------------------------------------------------------------


def _whole(n: TracedArray) -> Array:
    """The order that SciPy takes: the integer part of a float."""
    return np.trunc(n) if n.dtype.kind == "f" else n


special("jv", lambda v, z, out: 0.5 * (sc.jv(v - 1, z) - sc.jv(v + 1, z)), order, positive)
special("jve", lambda v, z, out: 0.5 * (sc.jve(v - 1, z) - sc.jve(v + 1, z)), order, positive)
special("yv", lambda v, z, out: 0.5 * (sc.yv(v - 1, z) - sc.yv(v + 1, z)), order, positive)
special("yve", lambda v, z, out: 0.5 * (sc.yve(v - 1, z) - sc.yve(v + 1, z)), order, positive)
special("yn", lambda n, x, out: 0.5 * (sc.yn(_whole(n) - 1, x) - sc.yn(_whole(n) + 1, x)), order, positive)
special("iv", lambda v, z, out: 0.5 * (sc.iv(v - 1, z) + sc.iv(v + 1, z)), order, positive)


def _ive_slopes(v: TracedArray, z: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (LACKING, _unless_far("i", v, z, 1.0, 0.5 * (sc.ive(v - 1, z) + sc.ive(v + 1, z)) - np.sign(z) * out))


special("ive", _ive_slopes, order, positive)
special("kv", lambda v, z, out: -0.5 * (sc.kv(v - 1, z) + sc.kv(v + 1, z)), order, positive)
special("kve", lambda v, z, out: _unless_far("k", v, z, 1.0, out - 0.5 * (sc.kve(v - 1, z) + sc.kve(v + 1, z))), order, positive)
special("kn", lambda n, x, out: -0.5 * (sc.kn(np.abs(_whole(n) - 1), x) + sc.kn(_whole(n) + 1, x)), order, positive)


# --- Struve functions: at 0 the terms of the recurrence may be infinite, and the power series has all derivatives --


def _struve_series(v: np.ndarray, x: np.ndarray, sign: float, n: int) -> np.ndarray:
    """n-th derivative of DLMF 11.2.1 (`sign` -1) and 11.2.2, term by term."""
    total = np.zeros_like(x)
    for k in range(20):
        power = 2.0 * k + 1.0 + v
        factor = sign**k * sc.rgamma(k + 1.5) * sc.rgamma(k + 1.5 + v) * np.prod([power - j for j in range(n)], axis=0)
        total += np.where(factor == 0, 0.0, factor * np.power(0.5 * x, power - n))
    return total * 0.5**n


def _struve_recurrence(v: np.ndarray, x: np.ndarray, sign: float, n: int) -> np.ndarray:
    """n-th derivative of a Struve function by the recurrences of DLMF 11.4.23 and 11.4.25."""
    if n == 0:
        return (sc.struve if sign < 0 else sc.modstruve)(v, x)
    source = np.power(0.5 * x, v - n + 1.0) * sc.rgamma(v + 1.5) / _sqrt(pi) * np.prod([0.5 * (v - j) for j in range(n - 1)], axis=0)
    return 0.5 * (_struve_recurrence(v - 1.0, x, sign, n - 1) + sign * _struve_recurrence(v + 1.0, x, sign, n - 1) + source)


def _struve_by_x(v: np.ndarray, x: np.ndarray, *, sign: float, n: int) -> np.ndarray:
    orders, at = broadcast_all(np.asarray(v, float), np.asarray(x, float))
    out, near = np.empty(at.shape), (np.abs(at) < 1.0) & (orders > -10.0)
    with np.errstate(all="ignore"):
        for part, rule in ((near, _struve_series), (~near, _struve_recurrence)):
            if np.any(part):
                out[part] = rule(orders[part], at[part], sign, n)
    return out


def _struve_slope(v: TracedArray, x: TracedArray, out: object, sign: float, n: int) -> object:
    return apply(struve_by_x, v, x, sign=sign, n=n + 1)


_STRUVE = ({"sign": -1.0, "n": 1}, {"sign": 1.0, "n": 2})
struve_by_x = special("struve_by_x", _struve_slope, order, positive, evaluate=_struve_by_x, params=_STRUVE)
special("struve", lambda v, x, out: apply(struve_by_x, v, x, sign=-1.0, n=1), order, positive)
special("modstruve", lambda v, x, out: apply(struve_by_x, v, x, sign=1.0, n=1), order, positive)


# --- Airy functions (DLMF 9.2), and scaled by exp(+-2/3 x**1.5) for x > 0 ---------------------
special_many("airy", lambda x, ai, aip, bi, bip: ((aip,), (x * ai,), (bip,), (x * bi,)), real)


def _scaled_airy(x: TracedArray, ai: TracedArray, aip: TracedArray, bi: TracedArray, bip: TracedArray) -> tuple[tuple[object], ...]:
    root = np.where(x < 0, 0.0, np.sqrt(x))
    return ((aip + root * ai,), (x * ai + root * aip,), (bip - root * bi,), (x * bi - root * bip,))


special_many("airye", _scaled_airy, positive)

# --- spherical Bessel functions (DLMF 10.51) --------------------------------------------------


def _spherical(name: str, function: Callable[..., object], below: int, above: int) -> Primitive:
    """``(2n + 1) f_n' = below n f_(n-1) + above (n + 1) f_(n+1)``."""

    def slope(n: TracedArray, z: TracedArray) -> Array:
        wide = n.astype(z.dtype)
        neighbours = below * wide * apply(primitive, np.maximum(n - 1, 0), z) + above * (wide + 1.0) * apply(primitive, n + 1, z)
        return neighbours / (2.0 * wide + 1.0)

    primitive = special(name, lambda n, z, out: slope(n, z), order, positive, evaluate=function)

    @replaces_if_traced(function)
    def call(n: object, z: object, derivative: bool = False) -> Array:
        degree, argument = _integers(n, name), traced(z)
        argument = argument if argument.type.floating else argument.astype(np.float64)
        return as_scalar(slope(degree, argument) if derivative else apply(primitive, degree, argument))

    return primitive


def _integers(n: object, name: str) -> TracedArray:
    """Degrees as SciPy takes them."""
    degree = traced(n)
    return degree if degree.dtype == np.int64 else degree.astype(np.int64)


spherical_jn = _spherical("spherical_jn", sc.spherical_jn, 1, -1)
spherical_yn = _spherical("spherical_yn", sc.spherical_yn, 1, -1)
spherical_in = _spherical("spherical_in", sc.spherical_in, 1, 1)
spherical_kn = _spherical("spherical_kn", sc.spherical_kn, -1, -1)

# --- sine, cosine and hyperbolic integrals (DLMF 6.2): sin(x) / x and sinh(x) / x, smooth at 0 -
special_many("sici", lambda x, si, ci: ((apply(spherical_jn, 0, x),), (np.cos(x) / x,)), positive)
special_many("shichi", lambda x, shi, chi: ((_sinh_ratio(x),), (np.cosh(x) / x,)), positive)


def _sinh_ratio(x: TracedArray) -> object:
    """``sinh(x) / x``, smooth at 0."""
    near = np.abs(x) < 1e-4  # where the next term is below 1e-26
    square = np.square(np.where(near, x, 0.0))
    return np.where(near, 1.0 + square / 6.0 * (1.0 + square / 20.0), apply(spherical_in, 0, np.where(near, 1.0, x)))
