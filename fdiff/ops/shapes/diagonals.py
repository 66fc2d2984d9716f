"""Diagonals and triangles: `diagonal`, `diag`, `diagflat`, `trace`, `tril`, `triu`; gathers, scatters and masks."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, shadow
from ...trace import TracedArray, apply, implements
from ...trace.array_links import ViewLink
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
    target = resolve_key(moved, (..., rows, rows + offset))
    out = apply(gather, target.view, *target.indices)
    if out.home.mutable:  # NumPy gives a read-only view
        out.link = ViewLink(target.view, gather, (), out.home.own(target.view), tuple(map(out.home.own, target.indices)), fixed=True)
    return transpose_call(out, target.order) if target.order else out


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


def _triangle(x: object, k: int, function: object) -> TracedArray:
    array = traced(x)
    mask = function(np.ones(array.shape[-2:], bool), k)
    return np.where(mask, array, np.zeros((), array.dtype))


@implements(np.tril)
def tril(m: object, k: int = 0) -> TracedArray:
    return _triangle(m, k, np.tril)


@implements(np.triu)
def triu(m: object, k: int = 0) -> TracedArray:
    return _triangle(m, k, np.triu)
