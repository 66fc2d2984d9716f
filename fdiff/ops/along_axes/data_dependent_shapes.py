"""Functions whose result has a shape that depends on values: `nonzero`, `where` with one argument, `unique`, sets.

Only what decides the shape is looked at (a mask, a count), and becomes a guard: other values with the same
pattern reuse the tape. The entries of the results are gathers from the argument, so they have derivatives.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...arraytype import BOOL
from ...primitive import FUNCTIONS
from ...trace import Array, TracedArray, apply, guarded_value, implements
from ..shapes.axis_numbers import normal_axis
from ..shapes.joining_and_splitting import concatenate_call
from ..shapes.shaping import traced
from .sorting import argsort, lexsort, searchsorted_call, sort

# --- where something holds --------------------------------------------------------------------


def look_if_traced(mask: object, action: str) -> np.ndarray:
    """The value of a mask or count that decides a shape; a traced one is looked at, which becomes a guard."""
    return guarded_value(mask, action) if isinstance(mask, TracedArray) else np.asarray(mask)


def _truth(x: object) -> object:
    array = traced(x)
    return array if array.dtype == BOOL else array != 0


@implements(np.nonzero, method="nonzero")
def nonzero(a: Array) -> tuple[np.ndarray, ...]:
    """Positions of the entries that are not zero."""
    if not np.ndim(a):
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead."
            " If the context of this error is of the form `arr[nonzero(cond)]`, just use `arr[cond]`."
        )
    return np.nonzero(look_if_traced(_truth(a), "asked where an array is not zero, which gives a shape that depends on traced values"))


@implements(np.flatnonzero)
def flatnonzero(a: object) -> np.ndarray:
    return nonzero(traced(a).reshape(-1))[0]


@implements(np.argwhere)
def argwhere(a: Array) -> np.ndarray:
    if not np.ndim(a):
        return np.argwhere(look_if_traced(_truth(a), "asked where an array is not zero"))
    return np.transpose(nonzero(a))


_choose_between = FUNCTIONS[np.where]


@implements(np.where)
def where(condition: object, *branches: object) -> object:
    """``np.where``; with a condition alone, the positions where it holds."""
    return _choose_between(condition, *branches) if branches else nonzero(condition)


@implements(np.trim_zeros)
def trim_zeros(filt: object, trim: str = "fb", axis: object = None) -> TracedArray:
    """The array without the zeros at its ends."""
    array = traced(filt)
    held = look_if_traced(_truth(array), "trimmed zeros, which gives a shape that depends on traced values")
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
    """Mask of the entries (rows) of a sorted array that differ from the one before, and of the first."""
    after, before = ordered[1:], ordered[:-1]
    differ = after != before
    if equal_nan and ordered.type.floating:
        differ = differ & ~(np.isnan(after) & np.isnan(before))
    differ = np.any(differ, axis=1) if ordered.ndim == 2 else differ
    differs = look_if_traced(differ, "asked for distinct values, whose number depends on traced values")
    return np.concatenate([np.ones(min(1, ordered.shape[0]), bool), differs])


@implements(np.unique)
def unique(
    ar: object, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
    equal_nan: bool = True, sorted: bool = True,
) -> TracedArray | tuple[object, ...]:  # fmt: skip
    """Distinct values in order: a gather of their first occurrences; positions and counts are integers."""
    array = traced(ar)
    if axis is None:
        rows = moved = array.reshape(-1)
        back = array.shape
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
    """These parts as the named tuple that `function` returns."""
    return type(function(np.zeros(0)))(*parts)


@implements(np.isin)
def isin(element: object, test_elements: object, assume_unique: bool = False, invert: bool = False, *, kind: object = None) -> TracedArray:
    """Mask of the entries that occur among others, by a search in the sorted others."""
    x, others = traced(element), traced(test_elements).reshape(-1)
    if not others.shape[0]:
        return traced(np.full(x.shape, bool(invert)))
    ordered = sort(others)
    place = np.minimum(searchsorted_call(ordered, x), others.shape[0] - 1)
    equal = ordered[place] == x
    return ~equal if invert else equal


@implements(np.union1d)
def union1d(ar1: object, ar2: object) -> object:
    return unique(concatenate_call((ar1, ar2), None))


@implements(np.intersect1d)
def intersect1d(ar1: object, ar2: object, assume_unique: bool = False, return_indices: bool = False) -> object:
    """Values in both arrays, in order; they are gathered from the first."""
    left, right = traced(ar1).reshape(-1), traced(ar2).reshape(-1)
    (left, first), (right, second) = ((a, None) if assume_unique else unique(a, return_index=True) for a in (left, right))
    joined = concatenate_call((left, right))
    order = apply(argsort, joined, axis=0, kind="stable")
    ordered = joined[order]
    same = np.flatnonzero(
        look_if_traced(ordered[1:] == ordered[:-1], "intersected sets, which gives a shape that depends on traced values")
    )
    values = ordered[same]
    if not return_indices:
        return values
    places = order[same], order[same + 1] - left.shape[0]
    return (values, *(p if k is None else traced(k)[p] for p, k in zip(places, (first, second), strict=True)))


@implements(np.setdiff1d)
def setdiff1d(ar1: object, ar2: object, assume_unique: bool = False) -> TracedArray:
    left = traced(ar1).reshape(-1) if assume_unique else traced(unique(ar1))
    return left[
        np.flatnonzero(
            look_if_traced(isin(left, ar2, invert=True), "took a set from another, which gives a shape that depends on traced values")
        )
    ]


@implements(np.setxor1d)
def setxor1d(ar1: object, ar2: object, assume_unique: bool = False) -> Array:
    """Values in one of the arrays only."""
    joined = sort(concatenate_call([traced(a).reshape(-1) if assume_unique else unique(a) for a in (ar1, ar2)]))
    if not joined.shape[0]:
        return joined
    differ = look_if_traced(joined[1:] != joined[:-1], "took the difference of sets, which gives a shape that depends on traced values")
    edge = np.concatenate([[True], differ, [True]])
    return joined[np.flatnonzero(edge[1:] & edge[:-1])]
