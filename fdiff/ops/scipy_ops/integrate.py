"""`scipy.integrate` over samples: `trapezoid`, `simpson`, `romb`, `cumulative_simpson`, `fixed_quad`; composed functions.

Integrals of functions and initial value problems are in `solvers/`.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np
from fdiff.intact_scipy import integrate as si
from fdiff.intact_scipy import special as sc

from ...trace import Array, Operand, TracedArray, replaces, unsupported
from ...trace.handler_arguments import resolve
from ..along_axes.reductions import as_scalar
from ..entrywise.elementwise import ratio_or_zero
from ..scipy_functions import replaces_if_traced
from ..shapes.shaping import traced


def _sampled(y: object, x: object, dx: Array, axis: int) -> tuple[TracedArray, Array]:
    """Samples along the last axis, and the distances between them."""
    values = traced(y)
    values = values if values.type.floating else values.astype(np.float64)
    values = np.moveaxis(values, axis, -1)
    if x is None:
        return values, dx
    places = traced(x)
    if places.ndim not in (1, values.ndim):
        raise ValueError("If given, shape of x must be 1-D or the same as y.")
    places = places if places.ndim == 1 else np.moveaxis(places, axis, -1)
    if places.shape[-1] != values.shape[-1]:
        raise ValueError("If given, length of x along axis must be the same as y.")
    return values, np.diff(places)


@replaces_if_traced(si.trapezoid)
def trapezoid(y: object, x: object = None, dx: object = 1.0, axis: int = -1) -> Array:
    values, d = _sampled(y, x, dx, axis)
    return as_scalar(np.sum(d * (values[..., 1:] + values[..., :-1]) / 2.0, axis=-1))


@replaces_if_traced(si.cumulative_trapezoid)
def cumulative_trapezoid(y: object, x: object = None, dx: object = 1.0, axis: int = -1, initial: object = None) -> Array:
    values, d = _sampled(y, x, dx, axis)
    if not values.shape[-1]:
        raise ValueError("At least one point is required along `axis`.")
    if initial is not None and initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    out = np.cumsum(d * (values[..., 1:] + values[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        out = np.concatenate([np.zeros((*out.shape[:-1], 1), out.dtype), out], axis=-1)
    return np.moveaxis(out, -1, axis)


def _parabolas(y: TracedArray, d: Array) -> Array:
    """Simpson's rule for an odd number of samples."""
    first, middle, last = y[..., :-2:2], y[..., 1:-1:2], y[..., 2::2]
    if np.ndim(d) == 0:
        return np.sum(first + 4.0 * middle + last, axis=-1) * (d / 3.0)
    h0, h1 = d[..., ::2], d[..., 1::2]
    total, ratio = h0 + h1, ratio_or_zero(h0, h1)
    weighted = first * (2.0 - ratio_or_zero(1.0, ratio)) + middle * (total * ratio_or_zero(total, h0 * h1)) + last * (2.0 - ratio)
    return np.sum(total / 6.0 * weighted, axis=-1)


@replaces_if_traced(si.simpson)
def simpson(y: object, x: object = None, *, dx: object = 1.0, axis: int = -1) -> Array:
    """Simpson's rule; the last interval of an even number of samples after Cartwright.

    K. V. Cartwright, "Simpson's rule cumulative integration with MS Excel and irregularly-spaced
    data", J. Math. Sci. Math. Educ. 12(2), 2017, equation 8.
    """
    values, d = _sampled(y, x, dx, axis)
    n, uneven = values.shape[-1], np.ndim(d) > 0
    if n % 2:
        return as_scalar(_parabolas(values, traced(d).astype(np.float64) if uneven else d))
    if n == 2:
        return as_scalar(0.5 * (d[..., -1] if uneven else d) * (values[..., -1] + values[..., -2]))
    d = traced(d).astype(np.float64) if uneven else d  # as SciPy does
    h0, h1 = (d[..., -2], d[..., -1]) if uneven else (d, d)
    alpha = ratio_or_zero(2.0 * h1**2 + 3.0 * h0 * h1, 6.0 * (h1 + h0))
    beta = ratio_or_zero(h1**2 + 3.0 * h0 * h1, 6.0 * h0)
    eta = ratio_or_zero(1.0 * h1**3, 6.0 * h0 * (h0 + h1))
    rest = _parabolas(values[..., :-1], d[..., :-1] if uneven else d)
    return as_scalar(rest + alpha * values[..., -1] + beta * values[..., -2] - eta * values[..., -3])


@replaces_if_traced(si.romb)
def romb(y: object, dx: object = 1.0, axis: int = -1, show: object = False) -> Array:
    """Romberg's rule: trapezoids of halved widths, extrapolated."""
    values = _floating(y, axis)
    count = values.shape[-1] - 1
    if count < 1 or count & (count - 1):
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    if show:
        raise unsupported("scipy.integrate.romb with show=")
    h = count * dx
    row = [(values[..., 0] + values[..., -1]) / 2.0 * h]
    step = count
    while step > 1:
        new = [0.5 * (row[0] + h * np.sum(values[..., step // 2 :: step], axis=-1))]
        for j, before in enumerate(row, start=1):
            new.append(new[-1] + (new[-1] - before) / ((1 << (2 * j)) - 1))
        row, step, h = new, step // 2, h / 2.0
    return as_scalar(row[-1])


def _floating(y: object, axis: int) -> TracedArray:
    values = traced(y)
    return np.moveaxis(values if values.type.floating else values.astype(np.float64), axis, -1)


@replaces_if_traced(si.cumulative_simpson)
def cumulative_simpson(y: object, *, x: object = None, dx: object = 1.0, axis: int = -1, initial: object = None) -> TracedArray:
    """Integrals from the first sample to each other one, by parabolas through three samples."""
    values = _floating(y, axis)
    lead, n = values.shape[:-1], values.shape[-1]
    if n < 3:
        out = np.moveaxis(cumulative_trapezoid(y, x, dx, axis), axis, -1)
    elif x is not None:
        places = traced(x)
        places = places if places.ndim == 1 else np.moveaxis(places, axis, -1)
        widths = np.broadcast_to(np.diff(places).astype(np.float64), (*lead, n - 1))
        if not bool(np.all(widths > 0)):
            raise ValueError("Input x must be strictly increasing.")
        out = _summed(values, widths, _unequal)
    else:
        width = traced(dx).astype(np.float64)
        width = np.moveaxis(width, axis, -1) if width.ndim else width
        out = _summed(values, np.broadcast_to(width, (*lead, n - 1)), _equal)
    if initial is not None:
        start = traced(initial).astype(np.float64)
        start = np.broadcast_to(np.moveaxis(start, axis, -1) if start.ndim else start, (*lead, 1))
        out = np.concatenate([start, out + start], axis=-1)
    return np.moveaxis(out, -1, axis)


def _summed(y: TracedArray, d: Array, rule: Callable[..., TracedArray]) -> Array:
    """Integrals over single intervals, each second one from the left, the others from the right."""
    left, right = rule(y, d), np.flip(rule(np.flip(y, -1), np.flip(d, -1)), -1)
    n = left.shape[-1] + 1
    odd = np.arange(n) % 2 == 1
    places = np.minimum(np.arange(n), n - 2)
    parts = np.where(odd, right[..., np.maximum(np.arange(n) - 1, 0)], left[..., places])
    parts = np.concatenate([parts[..., :-1], right[..., -1:]], axis=-1)
    return np.cumsum(parts, axis=-1)


def _equal(y: TracedArray, d: TracedArray) -> TracedArray:
    return d[..., :-1] / 3 * (5 * y[..., :-2] / 4 + 2 * y[..., 1:-1] - y[..., 2:] / 4)


def _unequal(y: TracedArray, d: TracedArray) -> TracedArray:
    x21, x32 = d[..., :-1], d[..., 1:]
    first, second = x21 / (x21 + x32), x21 / x32
    both = first * second
    return x21 / 6 * ((3 - first) * y[..., :-2] + (3 + both + first) * y[..., 1:-1] + -both * y[..., 2:])


@replaces(si.fixed_quad)
def fixed_quad(func: Callable[..., Array], a: Operand, b: Operand, args: tuple[object, ...] = (), n: int = 5) -> tuple[object, None]:
    """Gauss and Legendre's rule of order `n`."""
    places, weights = sc.roots_legendre(n)
    low, high = resolve(a), resolve(b)
    y = (high - low) * (np.real(places) + 1) / 2.0 + low
    return (high - low) / 2.0 * np.sum(weights * func(y, *args), axis=-1), None
