"""Joining, splitting and rearranging whole arrays: `concatenate`, `stack`, `split`, `flip`, `roll`, `block`, ...

`concatenate` is linear, and its transpose is one slice for each operand; the others are made of it and of slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, broadcast_all, promote
from ...facets import LayoutRule, Lowering, Structure
from ...kernel_rule import KernelRule, Kind
from ...primitive import Sample
from ...trace import Array, TracedArray, apply, implements
from ...trace.provenance import through_join
from .. import late_term_rules as terms
from ..entrywise.families import multilinear
from . import axis_maps
from .axis_numbers import normal_axes, normal_axis
from .shaping import at_least, broadcast_arrays, deepened, fresh, swapaxes, traced


def _concatenated(*types: ArrayType, axis: int) -> tuple[ArrayType, ...]:
    first = types[0]
    shape = (*first.shape[:axis], sum(t.shape[axis] for t in types), *first.shape[axis + 1 :])
    return (ArrayType(shape, first.dtype),)


def _concatenate_transposes(bar: TracedArray, args: Sequence[TracedArray], *, axis: int) -> list[object]:
    starts = np.cumsum([0, *(a.shape[axis] for a in args)]).tolist()
    before = (slice(None),) * axis
    return [bar[(*before, slice(lo, hi))] for lo, hi in pairwise(starts)]


concatenate = multilinear(
    "concatenate", _concatenated, _concatenate_transposes, evaluate=lambda *xs, axis: np.concatenate(xs, axis=axis),
    structure=Structure(
        structural=True, layout=LayoutRule("join"), provenance=through_join, moves=True, axis_map=axis_maps.concatenated,
        terms=terms.concatenated,
    ),
    lowering=Lowering(KernelRule(Kind.CONCATENATE)),
    samples=(Sample(lambda rng: (rng.normal(size=(2, 3)), rng.normal(size=(2, 1))), {"axis": 1}),),
)

# --- NumPy's functions -------------------------------------------------------------------------


@implements(np.concatenate)
def concatenate_call(arrays: Sequence[object], axis: int | None = 0, *, dtype: object = None, casting: str = "same_kind") -> TracedArray:
    """Join arrays along an existing axis; flattened first where `axis` is None."""
    parts = [traced(a) for a in arrays]
    if axis is None:
        parts, axis = [p.reshape(-1) for p in parts], 0
    _same_rank(parts, axis)
    common = np.dtype(dtype) if dtype is not None else promote(*[p.dtype for p in parts])
    return apply(concatenate, *(p.astype(common) for p in parts), axis=normal_axis(axis, parts[0].ndim))


def _same_rank(parts: Sequence[TracedArray], axis: int) -> None:
    """Raise NumPy's own ValueError if the shapes cannot be concatenated."""
    small = [
        np.empty(tuple(0 if k == normal_axis(axis, p.ndim) else n for k, n in enumerate(p.shape))) if p.ndim else np.empty(())
        for p in parts
    ]
    if all(s.nbytes == 0 for s in small):
        np.concatenate(small, axis=axis)
    else:
        raise ValueError("zero-dimensional arrays cannot be concatenated")


@implements(np.stack)
def stack(arrays: Sequence[object], axis: int = 0, *, dtype: object = None, casting: str = "same_kind") -> TracedArray:
    """Join arrays along a new axis."""
    parts = [traced(a) for a in arrays]
    if len({p.shape for p in parts}) > 1:
        raise ValueError("all input arrays must have the same shape")
    at = normal_axis(axis, parts[0].ndim + 1)
    return concatenate_call([p.reshape((*p.shape[:at], 1, *p.shape[at:])) for p in parts], at, dtype=dtype)


@implements(np.vstack)
def vstack(arrays: Sequence[object], *, dtype: object = None, casting: str = "same_kind") -> TracedArray:
    return concatenate_call([at_least(a, 2) for a in arrays], 0, dtype=dtype)


@implements(np.hstack)
def hstack(arrays: Sequence[object], *, dtype: object = None, casting: str = "same_kind") -> TracedArray:
    parts = [at_least(a, 1) for a in arrays]
    return concatenate_call(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


@implements(np.dstack)
def dstack(arrays: Sequence[object]) -> TracedArray:
    return concatenate_call([at_least(a, 3) for a in arrays], 2)


@implements(np.column_stack)
def column_stack(arrays: Sequence[object]) -> TracedArray:
    parts = [traced(a) for a in arrays]
    return concatenate_call([p.reshape((-1, 1)) if p.ndim < 2 else p for p in parts], 1)


@implements(np.append)
def append(x: object, values: object, axis: int | None = None) -> TracedArray:
    return concatenate_call((x, values), axis)


@implements(np.split)
def split(x: object, indices_or_sections: object, axis: int = 0) -> list[TracedArray]:
    return _split(np.split, x, indices_or_sections, axis)


@implements(np.array_split)
def array_split(x: object, indices_or_sections: object, axis: int = 0) -> list[TracedArray]:
    return _split(np.array_split, x, indices_or_sections, axis)


def _split(function: object, x: object, sections: object, axis: int) -> list[TracedArray]:
    """Parts along `axis`, as slices; NumPy's own function, applied to ``arange(n)``, gives their bounds."""
    array = traced(x)
    at = normal_axis(axis, array.ndim)
    parts = function(np.arange(array.shape[at]), sections)
    before = (slice(None),) * at
    return [array[(*before, slice(int(p[0]), int(p[-1]) + 1) if len(p) else slice(0, 0))] for p in parts]


@implements(np.flip)
def flip(m: object, axis: object = None) -> TracedArray:
    array = traced(m)
    axes = normal_axes(axis, array.ndim)
    return array[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(array.ndim))]


@implements(np.fliplr)
def fliplr(m: object) -> TracedArray:
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: object) -> TracedArray:
    return flip(m, 0)


@implements(np.roll)
def roll(x: object, shift: object, axis: object = None) -> Array:
    """Entries moved cyclically: two slices, concatenated, for each axis."""
    array = traced(x)
    if axis is None:
        return np.copy(roll(array.reshape(-1), shift, 0).reshape(array.shape), "C")
    shifts, axes = broadcast_all(shift, axis)
    for s, a in zip(shifts.ravel().tolist(), axes.ravel().tolist(), strict=True):
        at = normal_axis(a, array.ndim)
        cut = -s % array.shape[at] if array.shape[at] else 0
        before = (slice(None),) * at
        if cut:
            array = concatenate_call([array[(*before, slice(cut, None))], array[(*before, slice(None, cut))]], at)
    return fresh(array)


@implements(np.hsplit)
def hsplit(x: Array, indices_or_sections: object) -> list[TracedArray]:
    return _split(
        np.array_split if not isinstance(indices_or_sections, int) else np.split, x, indices_or_sections, 0 if np.ndim(x) == 1 else 1
    )


@implements(np.vsplit)
def vsplit(x: object, indices_or_sections: object) -> list[TracedArray]:
    return _deep_split(x, indices_or_sections, 0, 2, "vsplit")


@implements(np.dsplit)
def dsplit(x: object, indices_or_sections: object) -> list[TracedArray]:
    return _deep_split(x, indices_or_sections, 2, 3, "dsplit")


def _deep_split(x: Array, sections: object, axis: int, least: int, name: str) -> list[TracedArray]:
    if np.ndim(x) < least:
        raise ValueError(f"{name} only works on arrays of {least} or more dimensions")
    return _split(np.split, x, sections, axis)


@implements(np.unstack)
def unstack(x: object, /, *, axis: int = 0) -> tuple[TracedArray, ...]:
    array = traced(x)
    if not array.ndim:
        raise ValueError("Input array must be at least 1-d.")
    at = normal_axis(axis, array.ndim)
    return tuple(array[(*(slice(None),) * at, k)] for k in range(array.shape[at]))


@implements(np.block)
def block(arrays: object) -> TracedArray:
    """Nested lists joined along the last axes, the innermost along the last."""
    depth = _depth(arrays)
    ndim = max(depth, *(np.ndim(leaf) for leaf in _leaves(arrays)))
    return _block(arrays, depth, ndim)


def _depth(arrays: object) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(a) for a in arrays}
    if len(depths) != 1:
        raise ValueError("List depths are mismatched, or a list is empty.")
    return 1 + depths.pop()


def _leaves(arrays: object) -> list[object]:
    return [leaf for a in arrays for leaf in _leaves(a)] if isinstance(arrays, list) else [arrays]


def _block(arrays: object, depth: int, ndim: int) -> TracedArray:
    if isinstance(arrays, list):
        return concatenate_call([_block(a, depth - 1, ndim) for a in arrays], -depth)
    return deepened(traced(arrays), ndim)


@implements(np.rot90)
def rot90(m: object, k: int = 1, axes: Sequence[int] = (0, 1)) -> TracedArray:
    """A quarter turn, `k` times, from the first of two axes towards the second."""
    array = traced(m)
    a, b = (normal_axis(axis, array.ndim) for axis in axes)
    if a == b:
        raise ValueError("Axes must be different.")
    if k % 4 == 0:
        return array
    if k % 4 == 2:
        return flip(array, (a, b))
    return swapaxes(flip(array, b), a, b) if k % 4 == 1 else flip(swapaxes(array, a, b), b)


@implements(np.meshgrid)
def meshgrid(*xi: object, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[TracedArray, ...]:
    """Coordinate arrays of a grid; with "xy" the first two axes are exchanged."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    grids = [traced(x).reshape([-1 if j == k else 1 for j in range(n)]) for k, x in enumerate(xi)]
    if indexing == "xy" and n > 1:
        grids = [swapaxes(g, 0, 1) for g in grids]
    arrays = tuple(grids) if sparse else broadcast_arrays(*grids)
    return tuple(fresh(x) for x in arrays) if copy else arrays
