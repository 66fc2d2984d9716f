"""What answers for scipy.integrate: rules over samples."""

from __future__ import annotations

import numpy as np
from scipy import integrate as si

from ..trace import TracedArray
from .foreign import stands_for
from .reductions import as_scalar
from .shaping import traced


def _sampled(y: object, x: object, dx: object, axis: int) -> tuple[TracedArray, object]:
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


@stands_for(si.trapezoid)
def trapezoid(y: object, x: object = None, dx: object = 1.0, axis: int = -1) -> TracedArray:
    values, d = _sampled(y, x, dx, axis)
    return as_scalar(np.sum(d * (values[..., 1:] + values[..., :-1]) / 2.0, axis=-1))


@stands_for(si.cumulative_trapezoid)
def cumulative_trapezoid(y: object, x: object = None, dx: object = 1.0, axis: int = -1, initial: object = None) -> TracedArray:
    values, d = _sampled(y, x, dx, axis)
    if not values.shape[-1]:
        raise ValueError("At least one point is required along `axis`.")
    if initial is not None and initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    out = np.cumsum(d * (values[..., 1:] + values[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        out = np.concatenate([np.zeros((*out.shape[:-1], 1), out.dtype), out], axis=-1)
    return np.moveaxis(out, -1, axis)


def _ratio(a: object, b: object) -> object:
    """``a / b``, and 0 where b is 0."""
    return np.where(b == 0, 0.0, a / np.where(b == 0, 1.0, b))


def _parabolas(y: TracedArray, d: object) -> object:
    """Simpson's rule for an odd number of samples."""
    first, middle, last = y[..., :-2:2], y[..., 1:-1:2], y[..., 2::2]
    if np.ndim(d) == 0:
        return np.sum(first + 4.0 * middle + last, axis=-1) * (d / 3.0)
    h0, h1 = d[..., ::2], d[..., 1::2]
    total, ratio = h0 + h1, _ratio(h0, h1)
    weighted = first * (2.0 - _ratio(1.0, ratio)) + middle * (total * _ratio(total, h0 * h1)) + last * (2.0 - ratio)
    return np.sum(total / 6.0 * weighted, axis=-1)


@stands_for(si.simpson)
def simpson(y: object, x: object = None, *, dx: object = 1.0, axis: int = -1) -> TracedArray:
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
    alpha = _ratio(2.0 * h1**2 + 3.0 * h0 * h1, 6.0 * (h1 + h0))
    beta = _ratio(h1**2 + 3.0 * h0 * h1, 6.0 * h0)
    eta = _ratio(1.0 * h1**3, 6.0 * h0 * (h0 + h1))
    rest = _parabolas(values[..., :-1], d[..., :-1] if uneven else d)
    return as_scalar(rest + alpha * values[..., -1] + beta * values[..., -2] - eta * values[..., -3])
