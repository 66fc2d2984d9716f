"""Counting, sets and places: what NumPy answers with integers, and gathers that go by them.

Where the shape of a result depends on values, only what decides the shape is looked at: a mask
or a count, so that other values of the same pattern keep the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index

import numpy as np

from ..arraytype import BOOL, INT, promote
from ..primitive import FUNCTIONS, UFUNC_METHODS, UFUNCS
from ..trace import TracedArray, apply, implements, look, unsupported
from .families import kind_of, refuse
from .indexing import scatter_add, take, take_along_axis
from .joining import concatenate_call
from .reductions import as_scalar
from .sampling import linspace
from .shaping import broadcast_to, normal_axis, traced
from .sorting import argsort, lexsort, searchsorted_call, sort

# --- where something holds --------------------------------------------------------------------


def seen(mask: object, deed: str) -> np.ndarray:
    """The value of a mask that decides a shape."""
    return look(mask, deed) if isinstance(mask, TracedArray) else np.asarray(mask)


def _truth(x: object) -> object:
    array = traced(x)
    return array if array.dtype == BOOL else array != 0


@implements(np.nonzero, method="nonzero")
def nonzero(a: object) -> tuple[np.ndarray, ...]:
    """Places of entries that are not zero."""
    if not np.ndim(a):
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead. If the context of this error is of the form `arr[nonzero(cond)]`, just use `arr[cond]`.")
    return np.nonzero(seen(_truth(a), "asked where an array is not zero, which gives a shape that depends on traced values"))


@implements(np.flatnonzero)
def flatnonzero(a: object) -> np.ndarray:
    return nonzero(traced(a).reshape(-1))[0]


@implements(np.argwhere)
def argwhere(a: object) -> np.ndarray:
    if not np.ndim(a):
        return np.argwhere(seen(_truth(a), "asked where an array is not zero"))
    return np.transpose(nonzero(a))


_choose_between = FUNCTIONS[np.where]


@implements(np.where)
def where(condition: object, *branches: object) -> object:
    """``np.where``: with a condition alone, the places where it holds."""
    return _choose_between(condition, *branches) if branches else nonzero(condition)


@implements(np.trim_zeros)
def trim_zeros(filt: object, trim: str = "fb", axis: object = None) -> TracedArray:
    """The array without the zeros at its ends."""
    array = traced(filt)
    held = seen(_truth(array), "trimmed zeros, which gives a shape that depends on traced values")
    if any(c not in "fb" for c in trim.lower()):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    axes = range(array.ndim) if axis is None else [normal_axis(a, array.ndim) for a in np.atleast_1d(axis)]
    key = [slice(None)] * array.ndim
    for k in axes:
        places = np.flatnonzero(held.any(axis=tuple(j for j in range(held.ndim) if j != k)))
        first = (int(places[0]) if places.size else held.shape[k]) if "f" in trim.lower() else 0
        last = (int(places[-1]) + 1 if places.size else 0) if "b" in trim.lower() else held.shape[k]
        key[k] = slice(first, max(last, first) if places.size else first)
    return array[tuple(key)]


# --- sets -------------------------------------------------------------------------------------


def _distinct(ordered: TracedArray, *, equal_nan: bool) -> np.ndarray:
    """Which entries (rows) of a sorted array differ from the one before; the first does."""
    after, before = ordered[1:], ordered[:-1]
    differ = after != before
    if equal_nan and ordered.type.floating:
        differ = differ & ~(np.isnan(after) & np.isnan(before))
    differ = np.any(differ, axis=1) if ordered.ndim == 2 else differ
    found = seen(differ, "asked for distinct values, whose number depends on traced values")
    return np.concatenate([np.ones(min(1, ordered.shape[0]), bool), found])


@implements(np.unique)
def unique(
    ar: object, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
    equal_nan: bool = True, sorted: bool = True,  # noqa: A002 - NumPy's name
) -> object:  # fmt: skip
    """Distinct values in order, gathered from their first places; counts and the like are integers."""
    array = traced(ar)
    if axis is None:
        rows, back = array.reshape(-1), array.shape
        order = apply(argsort, rows, axis=0, kind="stable")
    else:
        moved = np.moveaxis(array, normal_axis(axis, array.ndim), 0)
        rows, back = moved.reshape((moved.shape[0], -1)), moved.shape[:1]
        order = lexsort(rows.T[::-1]) if rows.shape[1] else traced(np.arange(rows.shape[0]))
    fresh = _distinct(rows[order], equal_nan=equal_nan and axis is None)
    starts = np.flatnonzero(fresh)
    first = order[starts]
    values = rows[first] if axis is None else np.moveaxis(moved[first], 0, axis)
    out: list[object] = [values]
    if return_index:
        out.append(first)
    if return_inverse:
        ranks = traced(np.cumsum(fresh) - 1)
        out.append(ranks[apply(argsort, order, axis=0, kind="stable")].reshape(back))
    if return_counts:
        out.append(np.diff([*starts, fresh.size]))
    return tuple(out) if len(out) > 1 else values


@implements(np.unique_values)
def unique_values(x: object) -> object:
    return unique(x, equal_nan=False)


@implements(np.unique_counts)
def unique_counts(x: object) -> object:
    values, counts = unique(x, return_counts=True, equal_nan=False)
    return _named(np.unique_counts, values, counts)


@implements(np.unique_inverse)
def unique_inverse(x: object) -> object:
    values, inverse = unique(x, return_inverse=True, equal_nan=False)
    return _named(np.unique_inverse, values, inverse)


@implements(np.unique_all)
def unique_all(x: object) -> object:
    values, first, inverse, counts = unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    return _named(np.unique_all, values, first, inverse, counts)


def _named(function: Callable[..., tuple[object, ...]], *parts: object) -> object:
    """The named tuple that `function` gives, of these parts."""
    return type(function(np.zeros(0)))(*parts)


@implements(np.isin)
def isin(element: object, test_elements: object, assume_unique: bool = False, invert: bool = False, *, kind: object = None) -> TracedArray:
    """Which entries are among others: each is looked for in the sorted others."""
    x, others = traced(element), traced(test_elements).reshape(-1)
    if not others.shape[0]:
        return traced(np.full(x.shape, bool(invert)))
    ordered = sort(others)
    place = np.minimum(searchsorted_call(ordered, x), others.shape[0] - 1)
    found = ordered[place] == x
    return ~found if invert else found


@implements(np.union1d)
def union1d(ar1: object, ar2: object) -> object:
    return unique(concatenate_call((ar1, ar2), None))


@implements(np.intersect1d)
def intersect1d(ar1: object, ar2: object, assume_unique: bool = False, return_indices: bool = False) -> object:
    """Values in both arrays, in order; they are gathered from the first."""
    one, two = traced(ar1).reshape(-1), traced(ar2).reshape(-1)
    (one, first), (two, second) = ((a, None) if assume_unique else unique(a, return_index=True) for a in (one, two))
    joined = concatenate_call((one, two))
    order = apply(argsort, joined, axis=0, kind="stable")
    ordered = joined[order]
    same = np.flatnonzero(seen(ordered[1:] == ordered[:-1], "intersected sets, which gives a shape that depends on traced values"))
    values = ordered[same]
    if not return_indices:
        return values
    places = order[same], order[same + 1] - one.shape[0]
    return (values, *(p if k is None else k[p] for p, k in zip(places, (first, second), strict=True)))


@implements(np.setdiff1d)
def setdiff1d(ar1: object, ar2: object, assume_unique: bool = False) -> TracedArray:
    one, two = (traced(ar1).reshape(-1), ar2) if assume_unique else (unique(ar1), ar2)
    return one[np.flatnonzero(seen(isin(one, two, invert=True), "took a set from another, which gives a shape that depends on traced values"))]


@implements(np.setxor1d)
def setxor1d(ar1: object, ar2: object, assume_unique: bool = False) -> TracedArray:
    """Values in one of the arrays only."""
    joined = sort(concatenate_call([traced(a).reshape(-1) if assume_unique else unique(a) for a in (ar1, ar2)]))
    if not joined.shape[0]:
        return joined
    differ = seen(joined[1:] != joined[:-1], "took the difference of sets, which gives a shape that depends on traced values")
    edge = np.concatenate([[True], differ, [True]])
    return joined[np.flatnonzero(edge[1:] & edge[:-1])]


# --- counts and histograms --------------------------------------------------------------------


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
    low, high = (0, -1) if not places.shape[0] else (int(seen(f(places), "counted integers, whose largest decides a shape")) for f in (np.min, np.max))
    if low < 0:
        raise ValueError("'list' argument must have no negative elements")
    return _tally(places, traced(w), max(high + 1, index(minlength)))


@implements(np.digitize)
def digitize(x: object, bins: object, right: bool = False) -> TracedArray:
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


def _doane(x: TracedArray) -> TracedArray:
    """D. P. Doane, The American Statistician 30(4), 1976: Sturges' rule with a term for skewness."""
    if x.size <= 2:
        return traced(0.0)
    spread = np.sqrt(6.0 * (x.size - 2) / ((x.size + 1.0) * (x.size + 3)))
    sigma = np.std(x)
    skew = np.mean(np.power((x - np.mean(x)) / np.where(sigma > 0, sigma, 1.0), 3))
    return np.where(sigma > 0, np.ptp(x) / (1.0 + np.log2(x.size) + np.log2(1.0 + np.absolute(skew) / spread)), 0.0)


_WIDTHS: dict[str, Callable[[TracedArray], TracedArray]] = {
    "sqrt": lambda x: np.ptp(x) / np.sqrt(x.size),
    "sturges": lambda x: np.ptp(x) / (np.log2(x.size) + 1.0),
    "rice": lambda x: np.ptp(x) / (2.0 * x.size ** (1.0 / 3)),
    "scott": lambda x: (24.0 * np.pi**0.5 / x.size) ** (1.0 / 3.0) * np.std(x),
    "fd": lambda x: 2.0 * np.subtract(*np.percentile(x, [75, 25])) * x.size ** (-1.0 / 3.0),
    "doane": _doane,
}  # D. Freedman and P. Diaconis, Z. Wahrscheinlichkeitstheorie 57, 1981; D. W. Scott, Biometrika 66, 1979


def _automatic(a: TracedArray, name: str, low: object, high: object, *, ranged: bool) -> int:
    """The number of bins an estimator chooses."""
    if name not in (*_WIDTHS, "auto", "stone"):
        raise ValueError(f"{name!r} is not a valid estimator for `bins`")
    if name == "stone":
        raise unsupported("numpy.histogram with bins='stone'")
    if ranged:
        a = a[np.flatnonzero(seen((a >= low) & (a <= high), "chose bins for the values in a range"))]
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
    return int(seen(count, "let NumPy choose the number of bins"))


def _outer_edges(a: TracedArray, range_: object) -> tuple[object, object]:
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
    except TypeError as error:
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
def histogram_bin_edges(a: object, bins: object = 10, range: object = None, weights: object = None) -> TracedArray:  # noqa: A002 - NumPy's name
    array, w = _flat_pair(a, weights)
    return _edges(array, bins, range, w)


@implements(np.histogram)
def histogram(a: object, bins: object = 10, range: object = None, density: object = None, weights: object = None) -> tuple[object, TracedArray]:  # noqa: A002 - NumPy's name
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


def _samples(sample: object) -> TracedArray:
    if not isinstance(sample, (list, tuple)) and np.ndim(sample) == 2:
        return traced(sample)
    return np.atleast_2d(np.stack([traced(s) for s in sample]) if isinstance(sample, (list, tuple)) else traced(sample)).T


def _axis_edges(column: TracedArray, k: int, bins: object, range_: object) -> object:
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
        return linspace(low, high, index(bins) + 1)
    except TypeError as error:
        raise TypeError(f"`bins[{k}]` must be an integer, when a scalar") from error


@implements(np.histogramdd)
def histogramdd(sample: object, bins: object = 10, range: object = None, density: object = None, weights: object = None) -> tuple[TracedArray, list[object]]:  # noqa: A002 - NumPy's name
    """Sums of weights (of ones) in boxes; always floating."""
    points = _samples(sample)
    depth = points.shape[1]
    if np.ndim(bins) == 0:
        bins = [bins] * depth
    elif len(bins) != depth:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = (None,) * depth if range is None else range
    if len(ranges) != depth:
        raise ValueError("range argument must have one entry per dimension")
    columns = [points[:, k] for k in np.arange(depth)]
    edges = [_axis_edges(c, k, b, r) for k, (c, b, r) in enumerate(zip(columns, bins, ranges, strict=True))]
    sizes = [np.shape(e)[0] - 1 for e in edges]
    flat: object = 0
    inside: object = True
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
def histogram2d(x: object, y: object, bins: object = 10, range: object = None, density: object = None, weights: object = None) -> tuple[object, ...]:  # noqa: A002 - NumPy's name
    if np.shape(x) != np.shape(y):
        raise ValueError("x and y must have the same length.")
    if np.ndim(bins) and len(bins) not in (1, 2):
        bins = [bins, bins]
    hist, edges = histogramdd([x, y], bins[0] if np.ndim(bins) and len(bins) == 1 else bins, range, density, weights)
    return hist, *edges


# --- places -----------------------------------------------------------------------------------


def _nan_arg(pick: Callable[..., TracedArray], fill: float) -> Callable[..., TracedArray]:
    """The place of an extremum of what is no NaN; 0 where there is nothing else."""

    def place(a: object, axis: int | None = None, out: object = None, *, keepdims: object = np._NoValue) -> TracedArray:
        array = traced(a)
        filled = np.where(np.isnan(array), fill, array) if array.type.floating else array
        return pick(filled, axis, keepdims=keepdims is True)

    return place


nanargmax = implements(np.nanargmax)(_nan_arg(np.argmax, -np.inf))
nanargmin = implements(np.nanargmin)(_nan_arg(np.argmin, np.inf))


@implements(np.choose)
def choose(a: object, choices: object, out: object = None, mode: str = "raise") -> TracedArray:
    """For each entry of `a` the entry of that one of the choices."""
    options = [traced(c) for c in choices]
    shape = np.broadcast_shapes(np.shape(a), *(c.shape for c in options))
    dtype = promote(*map(kind_of, choices))
    rows = np.stack([broadcast_to(c.astype(dtype), shape) for c in options])
    place = a if isinstance(a, TracedArray) else np.asarray(a)
    if place.dtype.kind not in "biu":
        raise TypeError(f"Cannot cast array data from {place.dtype!r} to {INT!r} according to the rule 'safe'")
    n = len(options)
    if mode in ("wrap", "clip"):
        place = np.remainder(place, n) if mode == "wrap" else np.clip(place, 0, n - 1)
    elif not isinstance(place, TracedArray) and np.any((place < 0) | (place >= n)):
        raise ValueError("invalid entry in choice array")
    return as_scalar(take_along_axis(rows, np.broadcast_to(place.astype(INT), shape)[None], 0)[0])


@implements(method="choose")
def choose_method(x: TracedArray, choices: object, out: object = None, mode: str = "raise") -> TracedArray:
    return choose(x, choices, out, mode)


@implements(np.insert)
def insert(arr: object, obj: object, values: object, axis: int | None = None) -> TracedArray:
    """The array with values put in before the places `obj`: a gather from both put end to end.

    NumPy itself inserts counters into a counted line, and so decides where each value goes.
    """
    array = traced(arr)
    array, at = (array.reshape(-1), 0) if axis is None else (array, normal_axis(axis, array.ndim))
    n = array.shape[at]
    places = seen(obj, "inserted at traced places") if isinstance(obj, TracedArray) else obj
    new = traced(values).astype(array.dtype)
    new = new.reshape((*(1,) * (array.ndim - new.ndim), *new.shape))
    whole = np.arange(n)[places] if isinstance(places, slice) else np.asarray(places)
    if whole.ndim == 0:
        new = np.moveaxis(new, 0, at)
    count = new.shape[at] if whole.size == 1 else np.insert(whole[:0], 0, np.flatnonzero(whole) if whole.dtype == BOOL else np.ravel(whole)).size
    line = np.insert(np.arange(n), places, np.arange(n, n + count))
    shape = (*array.shape[:at], count, *array.shape[at + 1 :])
    return take(concatenate_call([array, broadcast_to(new, shape)], at), line, at)


@implements(np.resize)
def resize(a: object, new_shape: object) -> TracedArray:
    """The flattened array over and over, as long as the new shape needs."""
    array = traced(a).reshape(-1)
    shape = tuple(index(n) for n in np.atleast_1d(np.asarray(new_shape, INT)))
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    if not array.size or not prod(shape):
        return traced(np.zeros(shape, array.dtype))
    return array[np.arange(prod(shape)) % array.size].reshape(shape)


@implements(np.ix_)
def ix_(*args: object) -> tuple[object, ...]:
    """Index arrays that span a grid; masks give the places where they hold."""
    out = []
    for k, each in enumerate(args):
        line = each if isinstance(each, TracedArray) else np.asarray(each)
        if line.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        line = line.astype(INT) if line.size == 0 else nonzero(line)[0] if line.dtype == BOOL else line
        out.append(line.reshape([-1 if j == k else 1 for j in range(len(args))]))
    return tuple(out)


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Sequence[object], dims: Sequence[int], mode: object = "raise", order: str = "C") -> TracedArray:
    """Flat places from places along axes."""
    modes = (mode,) * len(dims) if isinstance(mode, str) else mode
    flat: object = 0
    axes = range(len(dims)) if order == "C" else reversed(range(len(dims)))
    for k in axes:
        place = traced(multi_index[k])
        if place.dtype.kind not in "iu":
            raise TypeError("only int indices permitted")
        if modes[k] != "raise":
            place = np.remainder(place, dims[k]) if modes[k] == "wrap" else np.clip(place, 0, dims[k] - 1)
        flat = flat * int(dims[k]) + place
    return as_scalar(flat)


@implements(np.unravel_index)
def unravel_index(indices: object, shape: object, order: str = "C") -> tuple[TracedArray, ...]:
    """Places along axes from flat places."""
    rest = traced(indices)
    if rest.dtype.kind not in "iu":
        raise TypeError("only int indices permitted")
    sizes = [index(n) for n in np.atleast_1d(np.asarray(shape))]
    out: dict[int, TracedArray] = {}
    for k in reversed(range(len(sizes))) if order == "C" else range(len(sizes)):
        out[k] = as_scalar(rest % sizes[k])
        rest = rest // sizes[k]
    return tuple(out[k] for k in range(len(sizes)))


def _by_shape(function: Callable[..., object]) -> None:
    """Register a function that asks for the shape alone."""
    implements(function)(lambda arr, *args, **keywords: function(np.empty(np.shape(arr)), *args, **keywords))


for _function in (np.tril_indices_from, np.triu_indices_from, np.diag_indices_from):
    _by_shape(_function)


def bitwise_count(x: object, **keywords: object) -> TracedArray:
    """Ones among the bits of the absolute value."""
    refuse(np.bitwise_count, keywords)
    value = traced(x)
    if value.dtype.kind not in "biu":
        raise TypeError("ufunc 'bitwise_count' not supported for the input types, and the inputs could not be safely coerced to any supported types according to the casting rule ''safe''")
    bits = np.abs(value).astype(np.uint64)
    ones = [(bits >> np.uint64(k)) & np.uint64(1) for k in np.arange(8 * value.itemsize)]
    return as_scalar(np.sum(np.stack(ones), axis=0).astype(np.uint8))


UFUNCS[np.bitwise_count] = bitwise_count

# --- ufunc.reduceat -----------------------------------------------------------------------------


def _segments(indices: object, n: int) -> list[np.ndarray]:
    """The places each result is made of; a start that is not before the next one stands alone."""
    starts = seen(indices, "reduced between traced places") if isinstance(indices, TracedArray) else np.asarray(indices)
    starts = starts.astype(INT)
    for start in starts:
        if not 0 <= start < n:
            raise IndexError(f"index {start} out-of-bounds in add.reduceat [0, {n})")
    ends = [*starts[1:], n]
    return [np.arange(i, j if i < j else i + 1) for i, j in zip(starts.tolist(), ends, strict=True)]


def reduceat(ufunc: np.ufunc) -> Callable[..., TracedArray]:
    """``ufunc.reduceat``: all segments beside each other, the short ones filled up with the identity.

    A ufunc that has none is reduced segment by segment.
    """
    identity = {np.add: 0, np.multiply: 1}.get(ufunc)

    def answer(array: object, indices: object, axis: int = 0, dtype: object = None) -> TracedArray:
        x = np.moveaxis(traced(array), axis, 0)
        segments = _segments(indices, x.shape[0])
        if identity is None or not segments:
            parts = [ufunc.reduce(x[s], axis=0, **({} if dtype is None else {"dtype": dtype})) for s in segments]
            out = np.stack(parts) if parts else x[:0]
        else:
            longest = max(map(len, segments))
            places = np.stack([np.resize(s, longest) for s in segments])
            held = np.arange(longest) < np.array([[len(s)] for s in segments])
            held = held.reshape((*held.shape, *(1,) * (x.ndim - 1)))
            out = ufunc.reduce(np.where(held, x[places], np.array(identity, x.dtype)), axis=1, dtype=dtype)
        return np.moveaxis(out, 0, axis)

    return answer


for _ufunc in (np.add, np.multiply, np.maximum, np.minimum):
    UFUNC_METHODS[_ufunc, "reduceat"] = reduceat(_ufunc)
