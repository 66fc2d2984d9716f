"""Order statistics: `median`, `quantile`, `percentile` and their versions without NaN.

Quantiles are interpolated between entries of the sorted rows, so their derivative goes to these entries. Methods by
R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50(4), 1996, definitions 1 to 9.
"""

from __future__ import annotations

from math import prod

import fdiff.intact_numpy as np

from ...arraytype import INT, Shape
from ...named_tuples import NamedTuple
from ...trace import Array, Operand, TracedArray, apply, implements
from ..shapes.axis_numbers import normal_axes
from ..shapes.shaping import broadcast_to, floating, traced, transpose_call
from ..shapes.take_functions import take_along_axis
from .reductions import as_scalar
from .sorting import argsort, sort


class ReducedRows(NamedTuple):
    """An array whose reduced axes are the last one; `kept` is the result's shape with keepdims."""

    entries: TracedArray
    kept: Shape


def _rows(array: TracedArray, axis: object) -> ReducedRows:
    axes = normal_axes(axis, array.ndim)
    rest = [k for k in range(array.ndim) if k not in axes]
    shape = (*(array.shape[k] for k in rest), prod(array.shape[k] for k in axes))
    kept = tuple(1 if k in axes else n for k, n in enumerate(array.shape))
    return ReducedRows(transpose_call(array, (*rest, *axes)).reshape(shape), kept)


def _ordered(x: TracedArray) -> Array:
    return sort(x, -1)


def _entries_at(rows: TracedArray, places: Array) -> TracedArray:
    """``rows[..., places]``, where each row has its own positions; further axes of `places` come first."""
    extra = places.ndim - (rows.ndim - 1)
    front = rows.reshape((*(1,) * extra, *rows.shape))
    full = broadcast_to(front, (*places.shape[:extra], *rows.shape))
    index = np.broadcast_to(places, full.shape[:-1])
    return take_along_axis(full, index[..., None], -1)[..., 0]


def _spoiled(rows: TracedArray, out: TracedArray) -> Array:
    """NaN for each sorted row that contains one (it is then the last entry), else `out`."""
    if not rows.type.floating:
        return out
    last = rows[..., -1]
    return np.where(np.isnan(last), last, out).astype(out.dtype)


def _finish(out: Array, rows: ReducedRows, keepdims: object, ahead: Shape = ()) -> Array:
    return out.reshape((*ahead, *rows.kept)) if keepdims is True else as_scalar(out)


@implements(np.median)
def median(a: object, axis: object = None, out: object = None, overwrite_input: bool = False, keepdims: object = False) -> Array:
    """The middle entry, or the mean of the two; NaN where there is one."""
    rows = _rows(floating(a), axis)
    n = rows.entries.shape[-1]
    if not n:
        return _finish(np.mean(rows.entries, axis=-1), rows, keepdims)
    ordered = _ordered(rows.entries)
    middle = ordered[..., n // 2] if n % 2 else np.mean(ordered[..., n // 2 - 1 : n // 2 + 1], axis=-1)
    return _finish(_spoiled(ordered, middle), rows, keepdims)


@implements(np.nanmedian)
def nanmedian(a: object, axis: object = None, out: object = None, overwrite_input: bool = False, keepdims: object = False) -> Array:
    """The median of the entries that are not NaN; NaN where all are."""
    array = traced(a)
    if not array.type.floating:
        return median(array, axis, None, False, keepdims)
    rows = _rows(array, axis)
    if not rows.entries.shape[-1]:
        return median(array, axis, None, False, keepdims)
    ordered = _ordered(rows.entries)
    count = np.sum(~np.isnan(ordered), axis=-1)
    low, high = (_entries_at(ordered, np.maximum(k, 0)) for k in ((count - 1) // 2, count // 2))
    middle = np.where(count % 2 == 1, low, (low + high) / 2.0).astype(array.dtype)
    return _finish(np.where(count > 0, middle, np.nan).astype(array.dtype), rows, keepdims)


# Sample quantiles by R. J. Hyndman and Y. Fan, The American Statistician 50(4), 1996, definitions 4 to 9: the place of
# quantile q among n sorted entries is n q + alpha + q (1 - alpha - beta) - 1.
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3.0, 1 / 3.0), "normal_unbiased": (3 / 8.0, 3 / 8.0),
}  # fmt: skip
METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip


def _boundary(place: Array, down: Array) -> Array:
    """The whole number below where `down` holds, else the one above; never negative."""
    below = np.floor(place)
    return np.maximum(np.where(down, below, below + 1), 0).astype(INT)


def _quantile_position(n: Operand, q: Array, method: str) -> Array:
    """The position of quantile `q` among `n` sorted entries; an integer where nothing is interpolated."""
    if method == "inverted_cdf":
        place = n * q - 1
        return _boundary(place, place == np.floor(place))
    if method == "closest_observation":
        place = n * q - 1 - 0.5
        return _boundary(place, (place == np.floor(place)) & (np.floor(place) % 2 == 1))
    if method == "averaged_inverted_cdf":
        return n * q - 1
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        return n * q + (alpha + q * (1 - alpha - beta)) - 1
    place = (n - 1) * q
    if method == "midpoint":
        return 0.5 * (np.floor(place) + np.ceil(place))
    rounded = {"lower": np.floor, "higher": np.ceil, "nearest": np.around}.get(method)
    return place if rounded is None else rounded(place).astype(INT)


def _share(place: Array, below: Array, method: str) -> Array:
    """The weight of the upper neighbour in the interpolation."""
    gamma = place - below
    if method == "averaged_inverted_cdf":
        return np.where(gamma == 0, 0.5, 1.0)
    return np.where(place % 1 == 0, 0.0, 0.5) if method == "midpoint" else gamma


def _blend(low: TracedArray, high: TracedArray, t: Array) -> Array:
    """``low + t (high - low)``, computed from the nearer end, so that it is exact for equal ends."""
    step = high - low
    return np.where(t >= 0.5, high - step * (1 - t), low + step * t)


def _interpolated(ordered: TracedArray, count: Array, q: Array, method: str, *, weak: bool) -> Array:
    """Quantiles of sorted rows of `count` entries each, an axis for each of `q` in front."""
    ahead = q.reshape((*q.shape, *(1,) * (ordered.ndim - 1)))
    place = _quantile_position(count, ahead, method)
    if place.dtype.kind in "iu":
        return _entries_at(ordered, _row_shape(np.clip(place, 0, count - 1), ordered))
    below = np.floor(place)
    share = _share(place, below, method)
    outside_low, outside_high = place < 0, place >= count - 1
    low = np.where(outside_high, count - 1, np.where(outside_low, 0, below))
    high = np.where(outside_high, count - 1, np.where(outside_low, 0, below + 1))
    low, high = (_entries_at(ordered, _row_shape(np.where(np.isnan(place), 0, k).astype(INT), ordered)) for k in (low, high))
    out = _blend(low, high, share)
    return out.astype(ordered.dtype) if weak and ordered.type.floating else out


def _row_shape(places: Array, rows: TracedArray) -> object:
    """Positions broadcast to the axes of the rows."""
    extra = np.ndim(places) - (rows.ndim - 1)
    return np.broadcast_to(places, (*places.shape[:extra], *rows.shape[:-1]))


def _weighted(rows: TracedArray, weights: TracedArray, count: Array, q: Array) -> TracedArray:
    """The first entry at which the share of the weights reaches `q` (method ``inverted_cdf``)."""
    order = apply(argsort, rows, axis=rows.ndim - 1, kind="stable")
    ordered = take_along_axis(rows, order, -1)
    shares = np.cumsum(take_along_axis(weights, order, -1), axis=-1, dtype=np.float64)
    shares = shares / shares[..., -1:]
    shares = np.where(shares == 0, -1.0, shares).astype(q.dtype if q.dtype.kind == "f" else np.float64)
    level = q.reshape((*q.shape, *(1,) * ordered.ndim))
    place = np.minimum(np.sum(shares < level, axis=-1), count - 1)
    return _entries_at(ordered, np.maximum(place, 0))


def _check(array: TracedArray, q: Array, weights: object, method: str) -> None:
    """Raise NumPy's errors for wrong arguments; the values of traced quantiles and weights are not checked."""
    if array.dtype.kind == "c":
        raise TypeError("a must be an array of real numbers")
    if q.ndim > 2:
        raise ValueError("q must be a scalar or 1d")
    if not isinstance(q, TracedArray) and not np.all((q >= 0) & (q <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    if method not in METHODS:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {METHODS}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    if weights is not None and not isinstance(weights, TracedArray) and np.any(np.less(weights, 0)):
        raise ValueError("Weights must be non-negative.")


def _weights(weights: object, array: TracedArray, axis: object) -> TracedArray:
    """Weights of the shape of the array."""
    w = traced(weights)
    if w.shape == array.shape:
        return w
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = normal_axes(axis, array.ndim)
    if w.shape != tuple(array.shape[k] for k in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    return broadcast_to(w.reshape(tuple(n if k in axes else 1 for k, n in enumerate(array.shape))), array.shape)


def _quantile(a: object, q: object, axis: object, method: str, keepdims: object, weights: object, *, weak: bool, nan: bool) -> Array:
    array = traced(a)
    q = q if isinstance(q, TracedArray) else np.asarray(q)
    _check(array, q, weights, method)
    rows = _rows(array, axis)
    if not rows.entries.shape[-1]:
        return _finish(np.mean(rows.entries, axis=-1), rows, keepdims)
    passing = nan and array.type.floating
    held = ~np.isnan(rows.entries) if passing else None
    count = np.sum(held, axis=-1) if passing else rows.entries.shape[-1]
    if weights is not None:
        w = _rows(_weights(weights, array, axis), axis).entries
        ordered = _ordered(rows.entries)
        out = _weighted(rows.entries, np.where(held, w, 0) if passing else w, count, q)
    else:
        ordered = _ordered(rows.entries)
        out = _interpolated(ordered, np.maximum(count, 1) if passing else count, q, method, weak=weak)
    if not passing:
        out = _spoiled(ordered, out)
    return _finish(out, rows, keepdims, q.shape)


def _hundredth(array: object, q: Array) -> object:
    """Percent as a share, in the dtype NumPy takes it in."""
    dtype = traced(array).dtype
    return np.true_divide(q, dtype.type(100) if dtype.kind == "f" else 100)


def _is_weak(q: object) -> bool:
    return q.weak if isinstance(q, TracedArray) else type(q) in (int, float)


def _quantiles(function: object, *, percent: bool, nan: bool) -> None:
    """Register one of the four functions, which differ in the scale of `q` and in NaN."""

    @implements(function)
    def answer(
        a: object, q: object, axis: object = None, out: object = None, overwrite_input: bool = False, method: str = "linear",
        keepdims: object = False, *, weights: object = None,
    ) -> Array:  # fmt: skip
        share = _hundredth(a, q) if percent else q
        return _quantile(a, share, axis, method, keepdims, weights, weak=_is_weak(q), nan=nan)


for _function, _percent, _nan in (
    (np.quantile, False, False), (np.percentile, True, False), (np.nanquantile, False, True), (np.nanpercentile, True, True),
):  # fmt: skip
    _quantiles(_function, percent=_percent, nan=_nan)
