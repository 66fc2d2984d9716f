"""Functions about positions: `choose`, `insert`, `resize`, `ix_`, `ravel_multi_index`, `nanargmax`, `bitwise_count`.

Positions are integers without a derivative; entries picked by them are gathers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT, broadcast, promote
from ...primitive import UFUNCS
from ...trace import Array, Operand, TracedArray, implements
from ..along_axes.data_dependent_shapes import nonzero
from ..along_axes.reductions import as_scalar
from ..entrywise.families import kind_of, refuse
from .axis_numbers import normal_axis
from .joining_and_splitting import concatenate_call
from .shaping import broadcast_to, traced
from .take_functions import take, take_along_axis


def _nan_arg(pick: Callable[..., TracedArray], fill: float) -> Callable[..., TracedArray]:
    """The position of an extremum among the entries that are not NaN; 0 where all are."""

    def place(a: object, axis: int | None = None, out: object = None, *, keepdims: object = np._NoValue) -> TracedArray:
        array = traced(a)
        filled = np.where(np.isnan(array), fill, array) if array.type.floating else array
        return pick(filled, axis, keepdims=keepdims is True)

    return place


nanargmax = implements(np.nanargmax)(_nan_arg(np.argmax, -np.inf))
nanargmin = implements(np.nanargmin)(_nan_arg(np.argmin, np.inf))


@implements(np.choose)
def choose(a: Array, choices: Sequence[object], out: object = None, mode: str = "raise") -> Array:
    """For each entry of `a`, the entry of the choice with that number."""
    options = [traced(c) for c in choices]
    shape = broadcast(np.shape(a), *(c.shape for c in options))
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
def choose_method(x: TracedArray, choices: object, out: object = None, mode: str = "raise") -> Array:
    return choose(x, choices, out, mode)


@implements(np.insert)
def insert(arr: object, obj: object, values: object, axis: int | None = None) -> TracedArray:
    """The array with values inserted before the positions `obj`: a gather from both, concatenated.

    The indices of the gather come from NumPy's own `insert`, applied to ``arange(n)``.
    """
    array = traced(arr)
    array, at = (array.reshape(-1), 0) if axis is None else (array, normal_axis(axis, array.ndim))
    n = array.shape[at]
    new = traced(values).astype(array.dtype)
    new = new.reshape((*(1,) * (array.ndim - new.ndim), *new.shape))
    whole = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(obj)
    if whole.ndim == 0:
        new = np.moveaxis(new, 0, at)
    count = (
        new.shape[at]
        if whole.size == 1
        else np.insert(whole[:0], 0, np.flatnonzero(whole) if whole.dtype == BOOL else np.ravel(whole)).size
    )
    line = np.insert(np.arange(n), obj, np.arange(n, n + count))
    shape = (*array.shape[:at], count, *array.shape[at + 1 :])
    return take(concatenate_call([array, broadcast_to(new, shape)], at), line, at)


@implements(np.resize)
def resize(a: object, new_shape: object) -> TracedArray:
    """The flattened array, repeated as often as the new shape needs."""
    array = traced(a).reshape(-1)
    shape = tuple(index(n) for n in np.atleast_1d(np.asarray(new_shape, INT)))
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    if not array.size or not prod(shape):
        return traced(np.zeros(shape, array.dtype))
    return array[np.arange(prod(shape)) % array.size].reshape(shape)


@implements(np.ix_)
def ix_(*args: object) -> tuple[object, ...]:
    """Index arrays that span a grid; masks become the positions where they hold."""
    out = []
    for k, each in enumerate(args):
        line = each if isinstance(each, TracedArray) else np.asarray(each)
        if line.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        line = line.astype(INT) if line.size == 0 else nonzero(line)[0] if line.dtype == BOOL else line
        out.append(line.reshape([-1 if j == k else 1 for j in range(len(args))]))
    return tuple(out)


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Sequence[object], dims: Sequence[int], mode: str | Sequence[str] = "raise", order: str = "C") -> Array:
    """Flat positions from positions along axes."""
    modes = (mode,) * len(dims) if isinstance(mode, str) else mode
    flat: Operand = 0
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
    """Positions along axes from flat positions."""
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
    """Register a function that depends on the shape of its argument alone."""
    implements(function)(lambda arr, *args, **keywords: function(np.empty(np.shape(arr)), *args, **keywords))


for _function in (np.tril_indices_from, np.triu_indices_from, np.diag_indices_from):
    _by_shape(_function)


def bitwise_count(x: object, **keywords: object) -> Array:
    """The number of ones among the bits of the absolute value."""
    refuse(np.bitwise_count, keywords)
    value = traced(x)
    if value.dtype.kind not in "biu":
        raise TypeError(
            "ufunc 'bitwise_count' not supported for the input types, and the inputs could not be"
            " safely coerced to any supported types according to the casting rule ''safe''"
        )
    bits = np.abs(value).astype(np.uint64)
    ones = [(bits >> np.uint64(k)) & np.uint64(1) for k in np.arange(8 * value.itemsize)]
    return as_scalar(np.sum(np.stack(ones), axis=0).astype(np.uint8))


UFUNCS[np.bitwise_count] = bitwise_count
