"""Histograms and counts: `bincount`, `digitize`, `histogram`, `histogram2d`, `histogramdd`.

A sum of weights by bin is a `scatter_add`, so it is linear in the weights; the bins themselves are integers,
without a derivative. Where the number of bins depends on values, that number alone is looked at (a guard).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT, promote
from ...foreign_errors import not_foreign
from ...trace import Array, Operand, TracedArray, apply, implements, unsupported
from ..entrywise.families import kind_of
from ..shapes.gather_scatter import scatter_add
from ..shapes.shaping import traced
from .data_dependent_shapes import look_if_traced
from .reductions import as_scalar
from .sampled_functions import linspace
from .sorting import searchsorted_call


def _tally(places: object, weights: TracedArray, size: int) -> TracedArray:
    """Sum of the weights at each place."""
    return apply(scatter_add, weights, traced(places).astype(INT), shape=(size,))


@implements(np.bincount)
def bincount(x: object, /, weights: object = None, minlength: int = 0) -> TracedArray:
    """How often each integer occurs, or the sum of its weights, in which it is linear."""
    places = traced(x)
    if places.ndim != 1:
        raise ValueError("object too deep for desired array" if places.ndim else "object of too small depth for desired array")
    if places.dtype.kind not in "biu":
        raise TypeError(f"Cannot cast array data from {places.dtype!r} to {INT!r} according to the rule 'safe'")
    if index(minlength) < 0:
        raise ValueError("'minlength' must not be negative")
    w = np.ones(places.shape, INT) if weights is None else traced(weights).astype(np.float64)
    if w.shape != places.shape:
        raise ValueError("The weights and list don't have the same length.")
    low, high = (
        (0, -1)
        if not places.shape[0]
        else (int(look_if_traced(f(places), "counted integers, whose largest decides a shape")) for f in (np.min, np.max))
    )
    if low < 0:
        raise ValueError("'list' argument must have no negative elements")
    return _tally(places, traced(w), max(high + 1, index(minlength)))


@implements(np.digitize)
def digitize(x: object, bins: object, right: bool = False) -> Array:
    """The bin each entry falls into; of traced bins the first and the last tell which way they go."""
    edges, values = traced(bins), traced(x)
    if values.dtype.kind == "c":
        raise TypeError("x may not be complex")
    side = "left" if right else "right"
    if not isinstance(bins, TracedArray):
        steps = np.diff(bins)
        if not (np.all(steps >= 0) or np.all(steps <= 0)):
            raise ValueError("bins must be monotonically increasing or decreasing")
    n = edges.shape[0]
    if n < 2:
        return searchsorted_call(edges, values, side=side)
    falling = edges[0] > edges[-1]
    rising = np.where(falling, edges[::-1], edges)
    down, up = (searchsorted_call(rising, values, side=s) for s in ("left" if side == "left" else "right", side))
    return as_scalar(np.where(falling, n - down, up))


def _doane(x: TracedArray) -> Array:
    """Sturges' rule with a term for skewness: D. P. Doane, The American Statistician 30(4), pages 181-183, 1976."""
    if x.size <= 2:
        return traced(0.0)
    spread = np.sqrt(6.0 * (x.size - 2) / ((x.size + 1.0) * (x.size + 3)))
    sigma = np.std(x)
    skew = np.mean(np.power((x - np.mean(x)) / np.where(sigma > 0, sigma, 1.0), 3))
    return np.where(sigma > 0, np.ptp(x) / (1.0 + np.log2(x.size) + np.log2(1.0 + np.absolute(skew) / spread)), 0.0)


_WIDTHS: dict[str, Callable[[TracedArray], Array]] = {
    "sqrt": lambda x: np.ptp(x) / np.sqrt(x.size),
    "sturges": lambda x: np.ptp(x) / (np.log2(x.size) + 1.0),
    "rice": lambda x: np.ptp(x) / (2.0 * x.size ** (1.0 / 3)),
    "scott": lambda x: (24.0 * np.pi**0.5 / x.size) ** (1.0 / 3.0) * np.std(x),
    "fd": lambda x: 2.0 * np.subtract(*np.percentile(x, [75, 25])) * x.size ** (-1.0 / 3.0),
    "doane": _doane,
}  # D. Freedman and P. Diaconis, Z. Wahrscheinlichkeitstheorie 57, pages 453-476, 1981; D. W. Scott, Biometrika 66, pages 605-610, 1979


def _automatic(a: TracedArray, name: str, low: Array, high: Array, *, ranged: bool) -> int:
    """The number of bins an estimator chooses."""
    if name not in (*_WIDTHS, "auto", "stone"):
        raise ValueError(f"{name!r} is not a valid estimator for `bins`")
    if name == "stone":
        raise unsupported("numpy.histogram with bins='stone'")
    if ranged:
        a = a[np.flatnonzero(look_if_traced((a >= low) & (a <= high), "chose bins for the values in a range"))]
    if not a.size:
        return 1
    if name == "auto":
        wide, narrow = _WIDTHS["sturges"](a), _WIDTHS["fd"](a)
        width = np.where(narrow != 0, np.minimum(narrow, wide), wide)
    else:
        width = _WIDTHS[name](a)
    if a.dtype.kind in "iu":
        width = np.where((width < 1) & (width != 0), 1.0, width)
    count = np.where(width != 0, np.ceil((high - low) / np.where(width != 0, width, 1.0)), 1.0)
    return int(look_if_traced(count, "let NumPy choose the number of bins"))


def _outer_edges(a: TracedArray, range_: Sequence[Operand] | None) -> tuple[Operand, Operand]:
    """The ends of the bins: those given, or the extrema; moved apart where they are equal."""
    if range_ is not None:
        low, high = range_
        if not any(isinstance(end, TracedArray) for end in (low, high)):
            if low > high:
                raise ValueError("max must be larger than min in range parameter.")
            if not (np.isfinite(low) and np.isfinite(high)):
                raise ValueError(f"supplied range of [{low}, {high}] is not finite")
            return (low - 0.5, high + 0.5) if low == high else (low, high)
    else:
        low, high = (0, 1) if not a.size else (np.min(a), np.max(a))
        if not a.size:
            return low, high
    same = traced(low) == high
    return np.where(same, low - 0.5, low), np.where(same, high + 0.5, high)


def _whole(bins: object) -> int:
    try:
        return index(bins)
    except not_foreign(TypeError) as error:
        raise TypeError("`bins` must be an integer, a string, or an array") from error


def _edges(a: TracedArray, bins: object, range_: object, weights: object) -> TracedArray:
    if isinstance(bins, str) or np.ndim(bins) == 0:
        if isinstance(bins, str) and weights is not None:
            raise TypeError("Automated estimation of the number of bins is not supported for weighted data")
        low, high = _outer_edges(a, range_)
        count = _automatic(a, bins, low, high, ranged=range_ is not None) if isinstance(bins, str) else _whole(bins)
        if count < 1:
            raise ValueError("`bins` must be positive, when an integer")
        kind = promote(*map(kind_of, (low, high)), a.dtype)
        return traced(linspace(low, high, count + 1)).astype(kind if kind.kind in "fc" else np.result_type(kind, float))
    if np.ndim(bins) > 1:
        raise ValueError("`bins` must be 1d, when an array")
    if not isinstance(bins, TracedArray) and np.any(np.diff(bins) < 0):
        raise ValueError("`bins` must increase monotonically, when an array")
    return traced(bins)


def _flat_pair(a: object, weights: object) -> tuple[TracedArray, object]:
    array = traced(a)
    if weights is not None and np.shape(weights) != array.shape:
        raise ValueError("weights should have the same shape as a.")
    array = array.astype(np.uint8) if array.dtype == BOOL else array
    return array.reshape(-1), None if weights is None else traced(weights).reshape(-1)


@implements(np.histogram_bin_edges)
def histogram_bin_edges(a: object, bins: object = 10, range: object = None, weights: object = None) -> TracedArray:
    array, w = _flat_pair(a, weights)
    return _edges(array, bins, range, w)


@implements(np.histogram)
def histogram(
    a: object, bins: object = 10, range: object = None, density: object = None, weights: object = None
) -> tuple[object, Array]:
    """Counts are integers; sums of weights are linear in these, and edges made of extrema move with them."""
    array, w = _flat_pair(a, weights)
    edges = _edges(array, bins, range, w)
    n = edges.shape[0] - 1
    place = searchsorted_call(edges, array, side="right") - 1
    place = np.where(array == edges[-1], n - 1, place)
    inside = (array >= edges[0]) & (array <= edges[-1])
    w = traced(np.ones(array.shape, INT)) if w is None else w
    counts = _tally(np.clip(place, 0, n - 1), np.where(inside, w, np.zeros((), w.dtype)), n)
    if density:
        counts = counts / np.diff(edges).astype(np.float64) / np.sum(counts)
    return counts, edges if isinstance(bins, (str, int, np.integer, TracedArray)) else np.asarray(bins)


def _samples(sample: object) -> Array:
    if not isinstance(sample, (list, tuple)) and np.ndim(sample) == 2:
        return traced(sample)
    return np.atleast_2d(np.stack([traced(s) for s in sample]) if isinstance(sample, (list, tuple)) else traced(sample)).T


def _axis_edges(column: TracedArray, k: int, bins: Operand, range_: Sequence[Operand] | None) -> Array:
    if np.ndim(bins) == 1:
        if not isinstance(bins, TracedArray) and np.any(np.diff(bins) < 0):
            raise ValueError(f"`bins[{k}]` must be monotonically increasing, when an array")
        return bins if isinstance(bins, TracedArray) else np.asarray(bins)
    if np.ndim(bins) > 1:
        raise ValueError(f"`bins[{k}]` must be a scalar or 1d array")
    if bins < 1:
        raise ValueError(f"`bins[{k}]` must be positive, when an integer")
    low, high = _outer_edges(column, range_)
    try:
        return traced(linspace(low, high, index(bins) + 1))
    except not_foreign(TypeError) as error:
        raise TypeError(f"`bins[{k}]` must be an integer, when a scalar") from error


@implements(np.histogramdd)
def histogramdd(
    sample: object, bins: object = 10, range: Sequence[Sequence[Operand] | None] | None = None, density: object = None,
    weights: object = None,
) -> tuple[TracedArray, list[Array]]:
    """Sums of weights (of ones) in boxes; always floating."""
    points = _samples(sample)
    depth = points.shape[1]
    each = [bins] * depth if np.ndim(bins) == 0 else list(bins)
    if len(each) != depth:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = (None,) * depth if range is None else range
    if len(ranges) != depth:
        raise ValueError("range argument must have one entry per dimension")
    columns = [points[:, k] for k in np.arange(depth)]
    edges = [_axis_edges(c, k, b, r) for k, (c, b, r) in enumerate(zip(columns, each, ranges, strict=True))]
    sizes = [np.shape(e)[0] - 1 for e in edges]
    flat: Operand = 0
    inside: Array | bool = True
    for column, edge, n in zip(columns, edges, sizes, strict=True):
        place = searchsorted_call(edge, column, side="right") - 1 - (column == edge[-1])
        flat, inside = flat * n + np.clip(place, 0, n - 1), inside & (place >= 0) & (place < n)
    w = np.ones(points.shape[:1]) if weights is None else traced(weights).astype(np.float64)
    hist = _tally(flat, np.where(inside, w, 0.0), prod(sizes)).reshape(tuple(sizes))
    if density:
        total = np.sum(hist)
        for k, edge in enumerate(edges):
            hist = hist / np.diff(edge).reshape([-1 if j == k else 1 for j in np.arange(depth)])
        hist = hist / total
    return hist, edges


@implements(np.histogram2d)
def histogram2d(
    x: Array, y: Array, bins: object = 10, range: object = None, density: object = None, weights: object = None
) -> tuple[object, ...]:
    if np.shape(x) != np.shape(y):
        raise ValueError("x and y must have the same length.")
    if np.ndim(bins) and len(bins) not in (1, 2):
        bins = [bins, bins]
    hist, edges = histogramdd([x, y], next(iter(bins)) if np.ndim(bins) and len(bins) == 1 else bins, range, density, weights)
    return hist, *edges
