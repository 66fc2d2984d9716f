"""Sorting and searching: `sort`, `argsort`, `partition`, `lexsort`, `searchsorted`.

A sort is the primitive `argsort`, which has no derivative, followed by a gather, which is linear. At ties the
stable permutation decides.
"""

from __future__ import annotations

from collections.abc import Iterable

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType
from ...primitive import Sample
from ...trace import Array, TracedArray, apply, implements
from ...trace.array_links import memory_axes
from ..entrywise.families import flat_op
from ..entrywise.kink_marks import marked
from ..entrywise.sample_domains import real
from ..shapes.axis_numbers import normal_axis
from ..shapes.shaping import traced, with_axes
from ..shapes.take_functions import take_along_axis
from .reductions import as_scalar

# --- permutations that sort ---------------------------------------------------------------------


def _indices_like(x: ArrayType, **_: object) -> tuple[ArrayType, ...]:
    return (ArrayType(x.shape, INT),)


LONG = 2_000  # numbers of which NumPy's quicksort, in vector instructions, takes a fifth of its stable sort's time


def _argsort(x: np.ndarray, *, axis: int, kind: str) -> np.ndarray:
    """The order of `x`; for different numbers a stable sort finds the order that any sort finds."""
    if kind == "stable" and x.dtype.kind == "f" and x.shape[axis] >= LONG:
        order = np.argsort(x, axis=axis)
        ordered = np.swapaxes(np.take_along_axis(x, order, axis), axis, -1)
        if np.all(ordered[..., 1:] > ordered[..., :-1]):
            return order
    return np.argsort(x, axis=axis, kind=kind)


_ORDERS = [Sample(lambda rng: (real(rng, (3, 4)),), {"axis": a, "kind": kind}) for a, kind in ((0, "stable"), (1, "quicksort"))]
argsort = flat_op("argsort", _indices_like, _argsort, *_ORDERS)


def _argpartition(x: np.ndarray, *, axis: int, kth: object) -> np.ndarray:
    return np.argpartition(x, kth, axis=axis)


_ROWS = Sample(lambda rng: (real(rng, (3, 4)),), {"axis": 1, "kth": (1, 2)})
argpartition = flat_op("argpartition", _indices_like, _argpartition, _ROWS)


def _searchsorted_types(a: ArrayType, v: ArrayType, *, side: str) -> tuple[ArrayType, ...]:
    return (ArrayType(v.shape, INT),)


def _find(a: np.ndarray, v: np.ndarray, *, side: str) -> np.ndarray:
    """Row by row: leading axes of `a` and `v` are the axes of a batch."""
    out = np.empty(np.shape(v), INT)
    for k in np.ndindex(a.shape[:-1]):
        out[k] = np.searchsorted(a[k], v[k], side)
    return out


def _find_sample(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return np.sort(real(rng, (2, 5)), axis=1), real(rng, (2, 3))


_SIDES = [Sample(_find_sample, {"side": side}) for side in ("left", "right")]
# searchsorted(a, v)[b, i] is the position of v[b, i] in the sorted row a[b].
searchsorted = flat_op("searchsorted", _searchsorted_types, _find, *_SIDES)

# --- sort and its relatives ---------------------------------------------------------------------


def _line(x: object, axis: int | None) -> tuple[TracedArray, int]:
    """The array to be sorted and its axis; flattened first where `axis` is None."""
    array = traced(x)
    return (array.reshape(-1), 0) if axis is None else (array, normal_axis(axis, array.ndim))


_KINDS = {"q": "quicksort", "h": "heapsort", "m": "stable", "s": "stable"}


def _kind(kind: str | None, order: object, stable: bool | None) -> str:
    """The name of the algorithm that NumPy would use; it decides the order of equal entries."""
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
def sort(a: object, axis: int | None = -1, kind: str | None = None, order: object = None, *, stable: bool | None = None) -> Array:
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
def argsort_call(
    a: object, axis: int | None = -1, kind: str | None = None, order: object = None, *, stable: bool | None = None
) -> TracedArray:
    array, at = _line(a, axis)
    return apply(argsort, array, axis=at, kind=_kind(kind, order, stable))


@implements(np.argpartition, method="argpartition")
def argpartition_call(a: object, kth: Array, axis: int | None = -1, kind: str = "introselect", order: object = None) -> TracedArray:
    array, at = _line(a, axis)
    places = tuple(int(k) for k in np.ravel(kth))
    n = array.shape[at]
    for k in places:
        if not -n <= k < n:
            raise ValueError(f"kth(={k}) out of bounds ({n})")
    return apply(argpartition, array, axis=at, kth=tuple(k % n for k in places))


@implements(np.partition)
def partition(a: object, kth: object, axis: int | None = -1, kind: str = "introselect", order: object = None) -> Array:
    """Entries partitioned around those at the positions `kth` of the sorted array."""
    array, at = _line(a, axis)
    out = take_along_axis(array, argpartition_call(array, kth, at), at)
    return marked(out, lambda: _tied(out, at), "numpy.partition", "a tie")


@implements(np.lexsort)
def lexsort(keys: Iterable[object], axis: int = -1) -> Array:
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
def sort_complex(a: object) -> Array:
    array = sort(a)
    narrow = array.dtype.kind in "iu" and array.dtype.itemsize <= 2
    return array if array.dtype.kind == "c" else array.astype(np.complex64 if narrow else np.complex128)


@implements(np.searchsorted)
def searchsorted_call(a: object, v: object, side: str = "left", sorter: object = None) -> Array:
    """Positions at which entries would have to be inserted to keep the order: integers, without a derivative."""
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
def searchsorted_method(x: TracedArray, v: object, side: str = "left", sorter: object = None) -> Array:
    return searchsorted_call(x, v, side, sorter)
