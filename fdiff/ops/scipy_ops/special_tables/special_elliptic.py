"""Elliptic integrals; they and all their derivatives belong to one family of integrals (DLMF 19.2, 19.4)."""

from __future__ import annotations

from functools import lru_cache
from math import pi

import fdiff.intact_numpy as np

from ....arraytype import broadcast_all
from ....trace import Array, TracedArray, apply
from ...entrywise.sample_domains import positive, real, unit
from .special_family import special


@lru_cache(maxsize=2)
def _nodes(per_unit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``1 + x``, ``1 - x`` and weights of the double exponential formula on (-1, 1).

    H. Takahasi and M. Mori, "Double exponential formulas for numerical integration", Publ. RIMS 9
    (1974), equation 3-3: nodes crowd at both ends, where an integrand may be almost singular.
    """
    step = 1.0 / per_unit
    t = np.arange(round(-4.4 * per_unit), round(4.4 * per_unit) + 1) * step
    u = 0.5 * pi * np.sinh(t)
    weight = step * 0.5 * pi * np.cosh(t) / np.square(np.cosh(u))
    return 2.0 / (1.0 + np.exp(-2.0 * u)), 2.0 / (1.0 + np.exp(2.0 * u)), weight


def _part(r: np.ndarray, m1: np.ndarray, p: int, q: int) -> np.ndarray:
    """The integral from 0 to `r`, at most a quarter period."""
    # The closer the singularity, the denser the nodes: 1e-12 of a result within these bounds.
    end = np.where(r == 0.5 * pi, 0.0, np.cos(r))  # complete integrals end at a quarter period, not beside it
    distance = np.abs(np.log(np.maximum(np.maximum(np.abs(m1), end * end), 1e-300)))
    up, down, weight = _nodes(32 if np.all(distance < 10.0) else 192)
    half = 0.5 * r[..., None]
    sine = np.sin(half * up)
    ahead = half * down
    cosine = end[..., None] * np.cos(ahead) + np.sin(r)[..., None] * np.sin(ahead)
    square = sine * sine
    return np.sum(weight * square**p * (cosine * cosine + m1[..., None] * square) ** (-0.5 * q), axis=-1) * np.where(
        distance < 130.0, half[..., 0], np.nan
    )


def _integral(phi: np.ndarray, m1: np.ndarray, *, p: int, q: int) -> np.ndarray:
    """Integral of ``sin(t)**(2 p) (cos(t)**2 + m1 sin(t)**2)**(-q / 2)`` from 0 to `phi`."""
    x, y = broadcast_all(np.asarray(phi, float), np.asarray(m1, float))
    periods = np.rint(x / pi)
    rest = x - periods * pi
    with np.errstate(all="ignore"):
        out = np.sign(rest) * _part(np.abs(rest), y, p, q)
        if np.any(periods):
            out = out + np.where(periods == 0, 0.0, 2.0 * periods * _part(np.full(x.shape, 0.5 * pi), y, p, q))
    return out


def _integrand(phi: TracedArray, m1: TracedArray, p: int, q: int) -> object:
    square = np.square(np.sin(phi))
    return square**p * np.power(np.square(np.cos(phi)) + m1 * square, -0.5 * q)


def _integral_slopes(phi: TracedArray, m1: TracedArray, out: TracedArray, p: TracedArray, q: TracedArray) -> tuple[object, ...]:
    return (lambda: _integrand(phi, m1, p, q), lambda: -0.5 * q * apply(elliptic_integral, phi, m1, p=p + 1, q=q + 2))


INTEGRALS = ({"p": 0, "q": 1}, {"p": 1, "q": 3})
elliptic_integral = special("elliptic_integral", _integral_slopes, real, positive, evaluate=_integral, params=INTEGRALS)


def _by_m(phi: object, m1: object, q: int) -> Array:
    """Slope in m of F (q = 1) and E (q = -1), where `m1` is 1 - m."""
    return 0.5 * q * apply(elliptic_integral, phi, m1, p=1, q=q + 2)


def _quarter(x: TracedArray) -> object:
    """Pi / 2 in the dtype of `x`."""
    return np.asarray(0.5 * pi, x.dtype)


special("ellipk", lambda m, out: _by_m(_quarter(m), 1.0 - m, 1), unit)
special("ellipkm1", lambda p, out: -_by_m(_quarter(p), p, 1), positive)
special("ellipe", lambda m, out: _by_m(_quarter(m), 1.0 - m, -1), unit)
special("ellipkinc", lambda phi, m, out: (lambda: _integrand(phi, 1.0 - m, 0, 1), lambda: _by_m(phi, 1.0 - m, 1)), real, unit)
special("ellipeinc", lambda phi, m, out: (lambda: _integrand(phi, 1.0 - m, 0, -1), lambda: _by_m(phi, 1.0 - m, -1)), real, unit)
