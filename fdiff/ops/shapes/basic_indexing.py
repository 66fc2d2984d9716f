"""Basic indexing: keys of integers, slices and new axes, which are a slice and a reshape, both views.

A key is first written with one item for each axis (`expanded`); what it holds of arrays and masks is left to
`indexing.py`.

Source: NumPy's guide, page "Indexing on ndarrays", section "Basic indexing".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT, ArrayType, Shape
from ...named_tuples import NamedTuple
from ...tape import Params
from ...trace import Array, TracedArray, applied
from .shaping import traced
from .view_ops import reshape, slice_


class BasicIndex(NamedTuple):
    """A key without arrays as the parameters of a slice and of a reshape, None where that op is not needed.

    `entry` is the position of a single entry; `scalar` tells whether NumPy gives a scalar; `types` is the output type
    of the slice, if it is known.
    """

    within: Params | None
    shape: Params | None
    entry: tuple[int, ...] | None = None
    scalar: bool = False
    types: tuple[ArrayType, ...] | None = None


def expanded(key: tuple[object, ...], ndim: int) -> list[object]:
    """The key as a list with one item per axis (None for new axes); Ellipsis is written out as slices.

    Among index arrays, an Ellipsis that stands for no axes stays: NumPy takes arrays on both sides of it for apart.
    """
    items: list[object] = [i if is_simple(i) else _frozen(_array_index(i)) for i in key]
    used = sum(0 if i is None else i.ndim if is_mask(i) else 1 for i in items if i is not Ellipsis)
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    elif used == ndim and not all(map(is_simple, items)):
        return items
    at = next(k for k, i in enumerate(items) if i is Ellipsis)
    return [*items[:at], *[slice(None)] * (ndim - used), *items[at + 1 :]]


def is_simple(item: object) -> bool:
    return item is None or item is Ellipsis or (isinstance(item, (slice, int, np.integer)) and not isinstance(item, bool))


def is_mask(item: Array) -> bool:
    return not is_simple(item) and item.dtype == BOOL


def _array_index(item: object) -> object:
    """An index array, traced or concrete; NumPy's IndexError for anything else."""
    array = item if isinstance(item, TracedArray) else np.asarray(item)
    if array.dtype == object:
        array = traced(array)
    if not isinstance(array, TracedArray) and array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(INT)
    if array.dtype.kind not in "biu":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
        )
    return array


def _frozen(index: object) -> object:
    """A traced scalar index as a Python integer, where a guard fixes its value already: it then needs no gather."""
    if not isinstance(index, TracedArray) or not index.scalar or index.dtype.kind not in "iu":
        return index
    home = index.home
    if home.eager or not home.guards.is_pinned(index.id):
        return index
    return int(home.guards.value(index.id, "was indexed by a traced integer"))


def basic_index_of(x: TracedArray, key: object) -> BasicIndex | None:
    """The basic index for a key of Python integers, slices of these, None and Ellipsis; None for any other key."""
    parts: list[object] = []
    for item in key if type(key) is tuple else (key,):
        kind = item.__class__
        if kind is slice:
            start, stop, step = part = item.start, item.stop, item.step
            if not (
                (start is None or start.__class__ is int)
                and (stop is None or stop.__class__ is int)
                and (step is None or step.__class__ is int)
            ):
                return None
            parts.append(part)
        elif kind is int or item is None or item is Ellipsis:
            parts.append(item)
        else:
            return None
    return _cached_basic_index(x.type, tuple(parts))


@lru_cache(maxsize=4096)
def _cached_basic_index(type_: ArrayType, parts: tuple[object, ...]) -> BasicIndex:
    """The basic index of a key on an array of this type, remembered; slices come as tuples, which can be hashed."""
    shape = type_.shape
    key = tuple([slice(*part) if isinstance(part, tuple) else part for part in parts])
    items = expanded(key, len(shape))
    entry = entry_of(shape, items)
    if entry is not None:
        return BasicIndex(None, None, entry, Ellipsis not in key)
    cut = _basic_index(shape, items)
    return cut if cut.within is None else cut._replace(types=slice_.rules.infer(type_, **dict(cut.within)))


def entry_of(shape: Shape, items: Sequence[object]) -> tuple[int, ...] | None:
    """The position of a single entry, if the key consists of integers; else None."""
    if not all(isinstance(i, (int, np.integer)) for i in items):
        return None
    return tuple([inside(int(i), n, k) for k, (i, n) in enumerate(zip(items, shape, strict=True))])


def inside(k: int, n: int, axis: int) -> int:
    if not -n <= k < n:
        raise IndexError(f"index {k} is out of bounds for axis {axis} with size {n}")
    return k % n


def basic(x: TracedArray, items: Sequence[object]) -> TracedArray:
    """Basic indexing: at most one slice and one reshape, a view of `x`."""
    return apply_basic_index(x, _basic_index(x.shape, items))


def apply_basic_index(x: TracedArray, cut: BasicIndex) -> TracedArray:
    out = x
    if cut.within is not None:
        out = applied(slice_, (x,), cut.within, types=cut.types)
    elif cut.shape is None:
        out = traced(x)
    if cut.shape is not None:
        out = applied(reshape, (out,), cut.shape)
    return TracedArray(out.home, out.id, out.type) if x.scalar else out


def _basic_index(source: Shape, items: Sequence[object]) -> BasicIndex:
    """The slice and the reshape for slices, integers and new axes on an array of shape `source`."""
    starts, sizes, steps, shape = [], [], [], []
    axes = iter(source)
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        n = next(axes)
        if isinstance(item, slice):
            ends = (item.start, item.stop, item.step)
            traced_end = any(isinstance(v, TracedArray) for v in ends)
            lo, hi, step = (slice(*map(_whole, ends)) if traced_end else item).indices(n)
            size = len(range(lo, hi, step))
            shape.append(size)
        else:
            lo, size, step = inside(int(item), n, axis), 1, 1
        starts.append(lo if size else 0)
        sizes.append(size)
        steps.append(step if size > 1 else 1)
        axis += 1
    same = tuple(sizes) == source and all(s == 1 for s in steps)
    within = (("sizes", tuple(sizes)), ("starts", tuple(starts)), ("steps", tuple(steps)))
    return BasicIndex(None if same else within, None if shape == sizes else (("shape", tuple(shape)),))


def _whole(value: object) -> object:
    return value.__index__() if isinstance(value, TracedArray) else value
