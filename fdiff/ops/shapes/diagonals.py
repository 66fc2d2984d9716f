"""Diagonals, triangles and windows: `diagonal`, `diag`, `trace`, `tril`, `triu`, `sliding_window_view`, `as_strided`."""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, shadow
from ...trace import Array, TracedArray, apply, current, implements, replaces
from ...trace.array_links import ViewLink
from ...trace.handler_arguments import resolve
from ...trace.local_arrays import holds_traced, localised
from .axis_numbers import normal_axis
from .gather_scatter import gather, scatter_add
from .indexing import resolve_key
from .shaping import traced, transpose_call


@implements(np.diagonal, method="diagonal")
def diagonal(x: object, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TracedArray:
    """A diagonal, as a gather over two axes."""
    array = traced(x)
    a, b = normal_axis(axis1, array.ndim), normal_axis(axis2, array.ndim)
    moved = transpose_call(array, (*(k for k in range(array.ndim) if k not in (a, b)), a, b))
    n = np.diagonal(shadow(ArrayType(moved.shape[-2:], array.dtype)), offset).shape[0]
    rows = np.arange(n) + max(-offset, 0)
    return _read_only_view(moved, (..., rows, rows + offset))


def _read_only_view(array: TracedArray, key: tuple[object, ...]) -> TracedArray:
    """``array[key]`` of a key with index arrays, as a view that follows stores into `array`, and into which nothing is stored."""
    target = resolve_key(array, key)
    out = apply(gather, target.view, *target.indices)
    if out.home.mutable:
        out.link = ViewLink(target.view, gather, (), out.home.own(target.view), tuple(map(out.home.own, target.indices)), fixed=True)
    return transpose_call(out, target.order) if target.order else out


def _windows(x: object, window_shape: object, axis: object = None, *, subok: bool = False, writeable: bool = False) -> TracedArray:
    """``sliding_window_view``: each axis becomes places by windows."""
    array = traced(x)
    np.lib.stride_tricks.sliding_window_view(shadow(array.type), window_shape, axis)  # raises what NumPy raises
    rank = array.ndim
    axes = range(rank) if axis is None else axis if np.iterable(axis) else [axis]
    for at, width in zip(axes, window_shape if np.iterable(window_shape) else [window_shape], strict=True):
        before = normal_axis(at, rank)
        places = np.add.outer(np.arange(array.shape[before] - width + 1), np.arange(width))
        array = np.moveaxis(_read_only_view(array, (*(slice(None),) * before, places)), before + 1, -1)
    return array


implements(np.lib.stride_tricks.sliding_window_view)(_windows)


@replaces(np.lib.stride_tricks.as_strided)
def as_strided(
    x: Array, shape: object = None, strides: Sequence[int] | None = None, subok: bool = False, writeable: bool = True
) -> object:
    """``as_strided``, which reads memory: of arrays in C order, as a view into which nothing is stored."""
    if not holds_traced(x):
        return localised(np.lib.stride_tricks.as_strided(x, shape, strides, subok, writeable), (x,))
    array = traced(resolve(x))
    places = np.arange(array.size).reshape(array.shape)
    if strides is not None:
        strides = tuple([s * places.itemsize // array.dtype.itemsize for s in strides])
    view = np.lib.stride_tricks.as_strided(places, shape, strides, writeable=False)
    low, high = np.lib.array_utils.byte_bounds(view)
    first, last = np.lib.array_utils.byte_bounds(places)
    inside = first <= low and high <= last and not any(s % places.itemsize for s in view.strides)
    if not (inside and array.example().flags.c_contiguous):
        fact = "as_strided was given a traced array whose entries do not lie one behind the other, or reads beyond them."
        raise current().fail(fact, "Use slices, or numpy.lib.stride_tricks.sliding_window_view.")
    return _read_only_view(array, np.unravel_index(view, array.shape))


@implements(np.diag)
def diag(x: object, k: int = 0) -> TracedArray:
    """The diagonal of a matrix, or the matrix with a given diagonal."""
    array = traced(x)
    if array.ndim == 2:
        return diagonal(array, k)
    if array.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = array.shape[0] + abs(k)
    rows = np.arange(array.shape[0]) + max(-k, 0)
    return apply(scatter_add, array, rows, rows + k, shape=(n, n))


@implements(np.diagflat)
def diagflat(v: object, k: int = 0) -> TracedArray:
    return diag(traced(v).reshape(-1), k)


@implements(np.trace, method="trace")
def trace_call(x: object, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: object = None, out: object = None) -> TracedArray:
    return np.sum(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)


def _triangle(x: object, k: int, function: object) -> Array:
    array = traced(x)
    mask = function(np.ones(array.shape[-2:], bool), k)
    return np.where(mask, array, np.zeros((), array.dtype))


@implements(np.tril)
def tril(m: object, k: int = 0) -> Array:
    return _triangle(m, k, np.tril)


@implements(np.triu)
def triu(m: object, k: int = 0) -> Array:
    return _triangle(m, k, np.triu)
