"""`scipy.ndimage`: correlations, convolutions, Gaussian and uniform filters, as sums of weighted, shifted copies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import fdiff.intact_numpy as np
from fdiff.intact_scipy import ndimage as nd

from ...trace import Array, TracedArray, unsupported
from ..scipy_functions import replaces_if_traced
from ..shapes.axis_numbers import normal_axis
from ..shapes.shaping import traced

# The boundary modes of ndimage by their names in `numpy.pad`.
_PADS = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "constant": "constant", "grid-constant": "constant", "nearest": "edge",
    "mirror": "reflect", "wrap": "wrap", "grid-wrap": "wrap",
}  # fmt: skip


def _image(x: object, output: object, name: str) -> TracedArray:
    if output is not None:
        raise unsupported(f"scipy.ndimage.{name} with output=")
    a = traced(x)
    if a.dtype.kind == "c":
        raise unsupported(f"scipy.ndimage.{name} of complex numbers")
    return a


def _padded(x: TracedArray, axis: int, sides: tuple[int, int], mode: str, cval: object) -> TracedArray:
    if mode not in _PADS:
        raise RuntimeError("boundary mode not supported")
    widths = [(0, 0)] * x.ndim
    widths[axis] = sides
    return np.pad(x, widths, mode=_PADS[mode], **({"constant_values": cval} if _PADS[mode] == "constant" else {}))


def _sides(size: int, origin: int) -> tuple[int, int]:
    """How far the filter reaches to either side of its point."""
    before = size // 2 + origin
    if not 0 <= before < size:
        raise ValueError("Invalid origin; origin must satisfy -(weights.shape[k] // 2) <= origin[k] <= (weights.shape[k]-1) // 2")
    return before, size - 1 - before


def _along(x: TracedArray, weights: Array, axis: int, mode: str, cval: object, origin: int) -> TracedArray:
    """Correlation with a line of weights, in double precision as in SciPy."""
    axis, n = normal_axis(axis, x.ndim), len(weights)
    wide = _padded(x.astype(np.float64), axis, _sides(n, origin), mode, cval)
    before = (slice(None),) * axis
    terms = [wide[(*before, slice(k, k + x.shape[axis]))] * weights[k] for k in range(n)]
    return sum(terms[1:], start=terms[0]).astype(x.dtype)


def _all_axes(value: object, count: int) -> Sequence[object]:
    """One value for each axis."""
    if isinstance(value, str) or np.ndim(value) == 0:
        return [value] * count
    if len(value) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return tuple(value)


def _axes(axes: object, ndim: int) -> list[int]:
    chosen = range(ndim) if axes is None else np.atleast_1d(axes)
    return [normal_axis(a, ndim) for a in chosen]


# --- lines ------------------------------------------------------------------------------------


@replaces_if_traced(nd.correlate1d)
def correlate1d(
    input: object, weights: object, axis: int = -1, output: object = None, mode: str = "reflect", cval: object = 0.0, origin: int = 0
) -> TracedArray:
    x, w = _image(input, output, "correlate1d"), traced(weights).astype(np.float64)
    if w.ndim != 1 or not w.size:
        raise RuntimeError("no filter weights given")
    return _along(x, w, axis, mode, cval, origin)


@replaces_if_traced(nd.convolve1d)
def convolve1d(
    input: object, weights: object, axis: int = -1, output: object = None, mode: str = "reflect", cval: object = 0.0, origin: int = 0
) -> TracedArray:
    w = traced(weights)
    return correlate1d(_image(input, output, "convolve1d"), w[::-1], axis, None, mode, cval, -origin - (w.size % 2 == 0))


@replaces_if_traced(nd.uniform_filter1d)
def uniform_filter1d(
    input: object, size: int, axis: int = -1, output: object = None, mode: str = "reflect", cval: object = 0.0, origin: int = 0
) -> TracedArray:
    if size < 1:
        raise RuntimeError("incorrect filter size")
    return _along(_image(input, output, "uniform_filter1d"), np.full(int(size), 1.0 / int(size)), axis, mode, cval, origin)


def _bell(sigma: float, order: int, radius: int) -> Array:
    """Gaussian weights with sum 1; for `order` > 0 weights of its derivative, a Hermite polynomial times the Gaussian."""
    if order < 0:
        raise ValueError("order must be non-negative")
    x = np.arange(-radius, radius + 1.0)
    bell = np.exp(-0.5 * (x / sigma) ** 2)
    bell = bell / np.sum(bell)
    scale, last, now = 1.0 / (sigma * sigma), 0.0 * x, 1.0 + 0.0 * x
    for k in range(order):  # q_{k+1} = -(x q_k + k q_{k-1}) / sigma**2, as phi' = -x / sigma**2 phi
        last, now = now, -scale * (x * now + k * last)
    return now * bell


@replaces_if_traced(nd.gaussian_filter1d)
def gaussian_filter1d(
    input: object, sigma: float, axis: int = -1, order: int = 0, output: object = None, mode: str = "reflect", cval: object = 0.0,
    truncate: float = 4.0, *, radius: int | None = None,
) -> TracedArray:  # fmt: skip
    """The number of weights depends on `sigma`, which may be traced; as long as the number is the same, all is smooth."""
    reach = int(truncate * sigma + 0.5) if radius is None else radius
    if reach < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    return _along(_image(input, output, "gaussian_filter1d"), _bell(sigma, order, reach)[::-1], axis, mode, cval, 0)


# --- any number of axes -----------------------------------------------------------------------


@replaces_if_traced(nd.gaussian_filter)
def gaussian_filter(
    input: object, sigma: object, order: object = 0, output: object = None, mode: object = "reflect", cval: object = 0.0,
    truncate: float = 4.0, *, radius: object = None, axes: object = None,
) -> TracedArray:  # fmt: skip
    x = _image(input, output, "gaussian_filter")
    chosen = _axes(axes, x.ndim)
    rows = [_all_axes(value, len(chosen)) for value in (sigma, order, mode, radius)]
    out = TracedArray(x.home, x.id, x.type)
    for axis, s, k, how, reach in zip(chosen, *rows, strict=True):
        if s > 1e-15:
            out = gaussian_filter1d(out, s, axis, k, None, how, cval, truncate, radius=reach)
    return out


@replaces_if_traced(nd.uniform_filter)
def uniform_filter(
    input: object, size: object = 3, output: object = None, mode: object = "reflect", cval: object = 0.0, origin: object = 0, *,
    axes: object = None,
) -> TracedArray:
    x = _image(input, output, "uniform_filter")
    chosen = _axes(axes, x.ndim)
    rows = [_all_axes(value, len(chosen)) for value in (size, mode, origin)]
    out = TracedArray(x.home, x.id, x.type)
    for axis, n, how, shift in zip(chosen, *rows, strict=True):
        if n > 1:
            out = uniform_filter1d(out, n, axis, None, how, cval, shift)
    return out


def _correlated(x: TracedArray, w: TracedArray, mode: object, cval: object, origins: Sequence[int]) -> TracedArray:
    if not isinstance(mode, str):
        raise RuntimeError("A sequence of modes is not supported")  # noqa: TRY004 - SciPy's class
    if w.ndim != x.ndim:
        raise RuntimeError(f"weights.ndim ({w.ndim}) must match len(axes) ({x.ndim})")
    wide = x.astype(np.float64)
    for axis, (n, origin) in enumerate(zip(w.shape, origins, strict=True)):
        wide = _padded(wide, axis, _sides(n, origin), mode, cval)
    places = product(*map(range, w.shape))
    terms = [wide[tuple(slice(k, k + n) for k, n in zip(place, x.shape, strict=True))] * w[place] for place in places]
    return sum(terms[1:], start=terms[0]).astype(x.dtype)


@replaces_if_traced(nd.correlate)
def correlate(
    input: object, weights: object, output: object = None, mode: str = "reflect", cval: object = 0.0, origin: object = 0, *,
    axes: object = None,
) -> TracedArray:
    if axes is not None:
        raise unsupported("scipy.ndimage.correlate with axes=")
    x, w = _image(input, output, "correlate"), traced(weights).astype(np.float64)
    return _correlated(x, w, mode, cval, _all_axes(origin, x.ndim))


@replaces_if_traced(nd.convolve)
def convolve(
    input: object, weights: object, output: object = None, mode: str = "reflect", cval: object = 0.0, origin: Sequence[int] | int = 0, *,
    axes: object = None,
) -> TracedArray:
    if axes is not None:
        raise unsupported("scipy.ndimage.convolve with axes=")
    x, w = _image(input, output, "convolve"), traced(weights).astype(np.float64)
    origins = [np.negative(k) - (n % 2 == 0) for k, n in zip(_all_axes(origin, x.ndim), w.shape, strict=False)]
    return _correlated(x, w[(slice(None, None, -1),) * w.ndim], mode, cval, origins)
