"""Sorting, order statistics and what is made of them.

A sort is the primitive `argsort`, which carries no derivative, and a gather, which is linear: at ties
the stable permutation decides. Quantiles are gathers from sorted rows, interpolated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..arraytype import INT, ArrayType, Shape
from ..primitive import ZERO, Primitive, Sample, register
from ..trace import TracedArray, apply, implements
from ..trace.views import memory_axes
from .indexing import take_along_axis
from .kink_marks import marked
from .reductions import as_scalar
from .sample_domains import real
from .shaping import broadcast_to, normal_axes, normal_axis, traced, transpose_call, with_axes

# --- permutations that sort ---------------------------------------------------------------------


def _flat_rules(*_: object, **__: object) -> list[object]:
    return [ZERO]


def _indices_like(x: ArrayType, **_: object) -> tuple[ArrayType, ...]:
    return (ArrayType(x.shape, INT),)


argsort = register(
    Primitive(
        "argsort", _indices_like, lambda x, *, axis, kind: np.argsort(x, axis=axis, kind=kind), _flat_rules, _flat_rules,
        lambda args, mapped, size, *, axis, kind: [apply(argsort, args[0], axis=axis + 1, kind=kind)], family="opaque", flat=True,
        samples=tuple(Sample(lambda rng: (real(rng, (3, 4)),), {"axis": axis, "kind": kind}) for axis, kind in ((0, "stable"), (1, "quicksort"))),
    )
)  # fmt: skip
argpartition = register(
    Primitive(
        "argpartition", _indices_like, lambda x, *, axis, kth: np.argpartition(x, kth, axis=axis), _flat_rules, _flat_rules,
        lambda args, mapped, size, *, axis, kth: [apply(argpartition, args[0], axis=axis + 1, kth=kth)], family="opaque", flat=True,
        samples=(Sample(lambda rng: (real(rng, (3, 4)),), {"axis": 1, "kth": (1, 2)}),),
    )
)  # fmt: skip


def _found(a: ArrayType, v: ArrayType, *, side: str) -> tuple[ArrayType, ...]:
    return (ArrayType(v.shape, INT),)


def _find(a: np.ndarray, v: np.ndarray, *, side: str) -> np.ndarray:
    """Row by row: leading axes of `a` and `v` are those of a batch."""
    out = np.empty(np.shape(v), INT)
    for k in np.ndindex(a.shape[:-1]):
        out[k] = np.searchsorted(a[k], v[k], side)
    return out


def _find_batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int, *, side: str) -> list[object]:
    full = [a if m else np.broadcast_to(a, (size, *a.shape)) for a, m in zip(args, mapped, strict=True)]
    return [apply(searchsorted, *full, side=side)]


def _find_sample(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return np.sort(real(rng, (2, 5)), axis=1), real(rng, (2, 3))


# searchsorted(a, v)[b, i] is the place of v[b, i] in the sorted row a[b].
searchsorted = register(
    Primitive(
        "searchsorted", _found, _find, _flat_rules, lambda *_, **__: [ZERO, ZERO], _find_batch, family="opaque", flat=True,
        samples=(Sample(_find_sample, {"side": "left"}), Sample(_find_sample, {"side": "right"})),
    )
)  # fmt: skip

# --- sort and its relatives ---------------------------------------------------------------------


def _line(x: object, axis: int | None) -> tuple[TracedArray, int]:
    """The array to be sorted and its axis; flattened first where `axis` is None."""
    array = traced(x)
    return (array.reshape(-1), 0) if axis is None else (array, normal_axis(axis, array.ndim))


_KINDS = {"q": "quicksort", "h": "heapsort", "m": "stable", "s": "stable"}


def _kind(kind: str | None, order: object, stable: bool | None) -> str:
    """The algorithm NumPy would take; it decides the places of equal entries."""
    if kind is not None and stable is not None:
        raise ValueError("`kind` and `stable` parameters can't be provided at the same time. Use only one of them.")
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if kind is None:
        return "stable" if stable else "quicksort"
    if kind[:1].lower() not in _KINDS:
        raise ValueError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got '{kind}')")
    return _KINDS[kind[:1].lower()]


@implements(np.sort)
def sort(a: object, axis: int | None = -1, kind: str | None = None, order: object = None, *, stable: bool | None = None) -> TracedArray:
    """Entries in order; equal ones by the stable permutation, whatever the kind."""
    _kind(kind, order, stable)
    array, at = _line(a, axis)
    out = take_along_axis(array, apply(argsort, array, axis=at, kind="stable"), at)
    if array.home.mutable and array.ndim > 1:
        out = with_axes(out, memory_axes(array))
    return marked(out, lambda: _tied(out, at), "numpy.sort", "a tie")


def _tied(x: TracedArray, axis: int) -> TracedArray:
    """Which entries have an equal one along the axis."""
    order = apply(argsort, x, axis=axis, kind="stable")
    row = np.moveaxis(take_along_axis(x, order, axis), axis, -1)
    same = row[..., 1:] == row[..., :-1]
    edge = np.zeros((*row.shape[:-1], 1), bool)
    tied = np.concatenate([edge, same], axis=-1) | np.concatenate([same, edge], axis=-1)
    return take_along_axis(np.moveaxis(tied, -1, axis), apply(argsort, order, axis=axis, kind="stable"), axis)


@implements(np.argsort, method="argsort")
def argsort_call(a: object, axis: int | None = -1, kind: str | None = None, order: object = None, *, stable: bool | None = None) -> TracedArray:
    array, at = _line(a, axis)
    return apply(argsort, array, axis=at, kind=_kind(kind, order, stable))


@implements(np.argpartition, method="argpartition")
def argpartition_call(a: object, kth: object, axis: int | None = -1, kind: str = "introselect", order: object = None) -> TracedArray:
    array, at = _line(a, axis)
    places = tuple(int(k) for k in np.ravel(kth))
    n = array.shape[at]
    for k in places:
        if not -n <= k < n:
            raise ValueError(f"kth(={k}) out of bounds ({n})")
    return apply(argpartition, array, axis=at, kth=tuple(k % n for k in places))


@implements(np.partition)
def partition(a: object, kth: object, axis: int | None = -1, kind: str = "introselect", order: object = None) -> TracedArray:
    """Entries arranged around those at the places `kth` of the sorted array."""
    array, at = _line(a, axis)
    out = take_along_axis(array, argpartition_call(array, kth, at), at)
    return marked(out, lambda: _tied(out, at), "numpy.partition", "a tie")


@implements(np.lexsort)
def lexsort(keys: Iterable[object], axis: int = -1) -> TracedArray:
    """Sorted by the last key first: stable sorts by one key after the other, the least first."""
    rows = [traced(key) for key in keys]
    if not rows:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({row.shape for row in rows}) > 1:
        raise ValueError("all keys need to be the same shape")
    at = normal_axis(axis, rows[0].ndim) if rows[0].ndim else 0
    if not rows[0].ndim:
        return as_scalar(traced(np.zeros((), INT)))
    out = apply(argsort, rows[0], axis=at, kind="stable")
    for row in rows[1:]:
        place = apply(argsort, take_along_axis(row, out, at), axis=at, kind="stable")
        out = take_along_axis(out, place, at)
    return out


@implements(np.sort_complex)
def sort_complex(a: object) -> TracedArray:
    array = sort(a)
    narrow = array.dtype.kind in "iu" and array.dtype.itemsize <= 2
    return array if array.dtype.kind == "c" else array.astype(np.complex64 if narrow else np.complex128)


@implements(np.searchsorted)
def searchsorted_call(a: object, v: object, side: str = "left", sorter: object = None) -> TracedArray:
    """Places where entries would have to be inserted to keep order: integers, no derivative."""
    row, values = traced(a), traced(v)
    if row.ndim != 1:
        raise ValueError("object too deep for desired array" if row.ndim else "object of too small depth for desired array")
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got '{side}')")
    common = np.result_type(row.dtype, values.dtype)
    row = row if sorter is None else row[sorter]
    places = apply(searchsorted, row.astype(common), values.astype(common).reshape(-1), side=side)
    return as_scalar(places.reshape(values.shape))


@implements(method="searchsorted")
def searchsorted_method(x: TracedArray, v: object, side: str = "left", sorter: object = None) -> TracedArray:
    return searchsorted_call(x, v, side, sorter)


# --- order statistics ---------------------------------------------------------------------------


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


def _ordered(x: TracedArray) -> TracedArray:
    return sort(x, -1)


def _at(rows: TracedArray, places: object) -> TracedArray:
    """``rows[..., places]`` where every row has places of its own, in front of the rows' axes."""
    extra = places.ndim - (rows.ndim - 1)
    front = rows.reshape((*(1,) * extra, *rows.shape))
    full = broadcast_to(front, (*places.shape[:extra], *rows.shape))
    index = np.broadcast_to(places, full.shape[:-1])
    return take_along_axis(full, index[..., None], -1)[..., 0]


def _spoiled(rows: TracedArray, out: TracedArray) -> TracedArray:
    """NaN where a sorted row holds one: it is then the last entry."""
    if not rows.type.floating:
        return out
    last = rows[..., -1]
    return np.where(np.isnan(last), last, out).astype(out.dtype)


def _finish(out: TracedArray, rows: ReducedRows, keepdims: object, ahead: Shape = ()) -> TracedArray:
    return out.reshape((*ahead, *rows.kept)) if keepdims is True else as_scalar(out)


def _floats(array: TracedArray) -> TracedArray:
    return array if array.type.floating else array.astype(np.float64)


@implements(np.median)
def median(a: object, axis: object = None, out: object = None, overwrite_input: bool = False, keepdims: object = False) -> TracedArray:
    """The middle entry, or the mean of the two; NaN where there is one."""
    rows = _rows(_floats(traced(a)), axis)
    n = rows.entries.shape[-1]
    if not n:
        return _finish(np.mean(rows.entries, axis=-1), rows, keepdims)
    ordered = _ordered(rows.entries)
    middle = ordered[..., n // 2] if n % 2 else np.mean(ordered[..., n // 2 - 1 : n // 2 + 1], axis=-1)
    return _finish(_spoiled(ordered, middle), rows, keepdims)


@implements(np.nanmedian)
def nanmedian(a: object, axis: object = None, out: object = None, overwrite_input: bool = False, keepdims: object = False) -> TracedArray:
    """The median of what is no NaN; NaN where nothing is left."""
    array = traced(a)
    if not array.type.floating:
        return median(array, axis, None, False, keepdims)
    rows = _rows(array, axis)
    if not rows.entries.shape[-1]:
        return median(array, axis, None, False, keepdims)
    ordered = _ordered(rows.entries)
    count = np.sum(~np.isnan(ordered), axis=-1)
    low, high = (_at(ordered, np.maximum(k, 0)) for k in ((count - 1) // 2, count // 2))
    middle = np.where(count % 2 == 1, low, (low + high) / 2.0).astype(array.dtype)
    return _finish(np.where(count > 0, middle, np.nan).astype(array.dtype), rows, keepdims)


# Sample quantiles by R. J. Hyndman and Y. Fan, The American Statistician 50(4), 1996: the place of
# quantile q among n sorted entries is n q + alpha + q (1 - alpha - beta) - 1.
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3.0, 1 / 3.0), "normal_unbiased": (3 / 8.0, 3 / 8.0),
}  # fmt: skip
METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip


def _boundary(place: object, down: object) -> object:
    """The whole number below where `down` holds, else the one above; never negative."""
    below = np.floor(place)
    return np.maximum(np.where(down, below, below + 1), 0).astype(INT)


def _place(n: object, q: object, method: str) -> object:
    """Where quantile `q` of `n` sorted entries lies; an integer where nothing is interpolated."""
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


def _share(place: object, below: object, method: str) -> object:
    """How far between its neighbours the quantile lies."""
    gamma = place - below
    if method == "averaged_inverted_cdf":
        return np.where(gamma == 0, 0.5, 1.0)
    return np.where(place % 1 == 0, 0.0, 0.5) if method == "midpoint" else gamma


def _blend(low: TracedArray, high: TracedArray, t: object) -> TracedArray:
    """``low + t (high - low)``, from the nearer end, so that equal ends give themselves."""
    step = high - low
    return np.where(t >= 0.5, high - step * (1 - t), low + step * t)


def _interpolated(ordered: TracedArray, count: object, q: object, method: str, *, weak: bool) -> TracedArray:
    """Quantiles of sorted rows of `count` entries each, an axis for each of `q` in front."""
    ahead = q.reshape((*q.shape, *(1,) * (ordered.ndim - 1)))
    place = _place(count, ahead, method)
    if place.dtype.kind in "iu":
        return _at(ordered, _row_shape(np.clip(place, 0, count - 1), ordered))
    below = np.floor(place)
    share = _share(place, below, method)
    outside_low, outside_high = place < 0, place >= count - 1
    low = np.where(outside_high, count - 1, np.where(outside_low, 0, below))
    high = np.where(outside_high, count - 1, np.where(outside_low, 0, below + 1))
    low, high = (_at(ordered, _row_shape(np.where(np.isnan(place), 0, k).astype(INT), ordered)) for k in (low, high))
    out = _blend(low, high, share)
    return out.astype(ordered.dtype) if weak and ordered.type.floating else out


def _row_shape(places: object, rows: TracedArray) -> object:
    """Places with an axis for each of the rows."""
    extra = np.ndim(places) - (rows.ndim - 1)
    return np.broadcast_to(places, (*places.shape[:extra], *rows.shape[:-1]))


def _weighted(rows: TracedArray, weights: TracedArray, count: object, q: object) -> TracedArray:
    """The first entry at which the share of the weights reaches `q` (method ``inverted_cdf``)."""
    order = apply(argsort, rows, axis=rows.ndim - 1, kind="stable")
    ordered = take_along_axis(rows, order, -1)
    shares = np.cumsum(take_along_axis(weights, order, -1), axis=-1, dtype=np.float64)
    shares = shares / shares[..., -1:]
    shares = np.where(shares == 0, -1.0, shares).astype(q.dtype if q.dtype.kind == "f" else np.float64)
    level = q.reshape((*q.shape, *(1,) * ordered.ndim))
    place = np.minimum(np.sum(shares < level, axis=-1), count - 1)
    return _at(ordered, np.maximum(place, 0))


def _check(array: TracedArray, q: object, weights: object, method: str) -> None:
    """What NumPy refuses; of traced quantiles and weights the values are not known here."""
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


def _quantile(a: object, q: object, axis: object, method: str, keepdims: object, weights: object, *, weak: bool, nan: bool) -> TracedArray:
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


def _hundredth(array: object, q: object) -> object:
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
    ) -> TracedArray:  # fmt: skip
        share = _hundredth(a, q) if percent else q
        return _quantile(a, share, axis, method, keepdims, weights, weak=_is_weak(q), nan=nan)


for _function, _percent, _nan in (
    (np.quantile, False, False), (np.percentile, True, False), (np.nanquantile, False, True), (np.nanpercentile, True, True),
):  # fmt: skip
    _quantiles(_function, percent=_percent, nan=_nan)
