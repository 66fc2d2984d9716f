"""Reading with ``x[key]``, for every key that NumPy takes.

Slices, integers and new axes (basic indexing) become a slice and a reshape, which are views. Integer arrays
(advanced indexing) become a gather over the leading axes. Masks become the integer arrays of the entries where
they hold, whose number is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ..arraytype import BOOL, INT, ArrayType, Shape, broadcast
from ..tape import Params
from ..trace import TracedArray, applied, apply, current, guarded_value
from ..trace.out_arguments import resolve
from ..trace.traced_array import handle
from ..trace.views import PendingStores, ViewLink, positions, root_of
from .gather_scatter import gather
from .shaping import fresh, traced, transpose_call
from .view_ops import reshape, slice_

# --- x[key] -----------------------------------------------------------------------------------


def _expanded(key: tuple[object, ...], ndim: int) -> list[object]:
    """The key as a list with one item per axis (None for new axes); Ellipsis is written out as slices."""
    items: list[object] = [i if _simple(i) else _frozen(_array_index(i)) for i in key]
    used = sum(0 if i is None else i.ndim if _boolean(i) else 1 for i in items if i is not Ellipsis)
    if sum(i is Ellipsis for i in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    at = next(k for k, i in enumerate(items) if i is Ellipsis)
    return [*items[:at], *[slice(None)] * (ndim - used), *items[at + 1 :]]


def _simple(item: object) -> bool:
    return item is None or item is Ellipsis or (isinstance(item, (slice, int, np.integer)) and not isinstance(item, bool))


def _boolean(item: object) -> bool:
    return not _simple(item) and item.dtype == BOOL


def _array_index(item: object) -> object:
    """An index array, traced or concrete; NumPy's IndexError for anything else."""
    array = item if isinstance(item, TracedArray) else np.asarray(item)
    if array.dtype == object:
        array = traced(array)
    if not isinstance(array, TracedArray) and array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(INT)
    if array.dtype.kind not in "biu":
        raise IndexError("only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices")
    return array


def _frozen(index: object) -> object:
    """A traced scalar index as a Python integer, where a guard fixes its value already: it then needs no gather."""
    if not isinstance(index, TracedArray) or not index.scalar or index.dtype.kind not in "iu":
        return index
    home = index.home
    if home.eager or not home.guards.is_pinned(index.id):
        return index
    return int(home.guards.value(index.id, "was indexed by a traced integer"))


def _mask_indices(mask: object) -> list[np.ndarray]:
    """Index arrays of a mask, which is looked at: how many entries hold decides a shape."""
    if isinstance(mask, TracedArray):
        mask = guarded_value(mask, "indexed with a boolean mask, which gives a shape that depends on traced values")
    return list(np.nonzero(mask))


class IndexTarget(NamedTuple):
    """What ``x[key]`` refers to: a view, or a gather with index arrays from the leading axes of a view.

    `order` is the permutation that puts the axes of the gathered array where NumPy has them; `entry` is the
    position of a single entry; `scalar` tells whether NumPy gives a scalar.
    """

    view: TracedArray
    indices: Sequence[TracedArray] = ()
    order: tuple[int, ...] = ()
    entry: tuple[int, ...] | None = None
    scalar: bool = False


class BasicIndex(NamedTuple):
    """A key without arrays as the parameters of a slice and of a reshape, None where that op is not needed.

    `entry` and `scalar` as in `IndexTarget`; `types` is the output type of the slice, if it is known.
    """

    within: Params | None
    shape: Params | None
    entry: tuple[int, ...] | None = None
    scalar: bool = False
    types: tuple[ArrayType, ...] | None = None


def resolve_key(x: TracedArray, key: object, *, read: bool = False) -> IndexTarget:
    """What ``x[key]`` refers to; if it is only `read`, a gather may be made from a part of `x`, or become a slice."""
    if (cut := _basic_index_of(x, key)) is not None:
        return IndexTarget(_apply_basic_index(x, cut)) if cut.entry is None else IndexTarget(x, entry=cut.entry, scalar=cut.scalar)
    given = key if isinstance(key, tuple) else (key,)
    whole = not any(i is Ellipsis for i in given)  # an Ellipsis gives an array, if only of 0-d
    items = _expanded(given, x.ndim)
    if any(_boolean(i) for i in items):
        x, items = without_masks(x, items)
    if not all(_simple(i) for i in items):
        if read and (counted := _counted(x, items)) is not None:
            return IndexTarget(fresh(_basic(x, counted)))
        return _advanced(*_numbers_first(x, items) if read else (x, items), scalar=whole)
    if (entry := _entry(x.shape, items)) is not None:
        return IndexTarget(x, entry=entry, scalar=whole)
    return IndexTarget(_basic(x, items))


def _entry(shape: Shape, items: Sequence[object]) -> tuple[int, ...] | None:
    """The position of a single entry, if the key consists of integers; else None."""
    if not all(isinstance(i, (int, np.integer)) for i in items):
        return None
    return tuple([_inside(int(i), n, k) for k, (i, n) in enumerate(zip(items, shape, strict=True))])


def _basic_index_of(x: TracedArray, key: object) -> BasicIndex | None:
    """The basic index for a key of Python integers, slices of these, None and Ellipsis; None for any other key."""
    parts: list[object] = []
    for item in key if key.__class__ is tuple else (key,):  # type: ignore[attr-defined] - its class was looked at
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
    """The same by type and key, kept."""
    shape = type_.shape
    given = tuple([slice(*part) if isinstance(part, tuple) else part for part in parts])
    items = _expanded(given, len(shape))
    entry = _entry(shape, items)
    if entry is not None:
        return BasicIndex(None, None, entry, Ellipsis not in given)
    cut = _basic_index(shape, items)
    return cut if cut.within is None else cut._replace(types=slice_.infer(type_, **dict(cut.within)))


def getitem(x: TracedArray, key: object) -> TracedArray:
    """``x[key]`` for any key NumPy takes; scalars and views as NumPy gives them."""
    return x.home.entry(x, key, _getitem) if x.home.eager else _getitem(x, key)


def _getitem(x: TracedArray, key: object) -> TracedArray:
    if key.__class__ is int and len(x.type.shape) == 1 and x.link is None:
        return _number(x, key)
    if (cut := _basic_index_of(x, key)) is not None and cut.entry is None:
        return _apply_basic_index(x, cut)
    found = resolve_key(x, resolve(key), read=True)
    view = found.view
    if found.entry is not None:
        known = _known_entry(view, found.entry) if found.scalar else None
        out = _basic(view, found.entry) if known is None else known
        return TracedArray(out.home, out.id, out.type, scalar=True) if found.scalar else out
    if not found.indices:
        return view
    out = apply(gather, view, *found.indices)
    if found.order:
        out = transpose_call(out, found.order)
    return TracedArray(out.home, out.id, out.type, scalar=found.scalar and not out.ndim)


def _number(x: TracedArray, k: int) -> TracedArray:
    """``x[k]`` of a vector, the most frequent read of loops over entries."""
    trace = current(x)
    start = _inside(k, x.type.shape[0], 0)
    params = (("sizes", (1,)), ("starts", (start,)), ("steps", (1,)))
    entry, number = _types_of_number(x.type.dtype)
    line = None if trace.eager else trace.where(1)
    one = trace.add(slice_, (trace.own(x),), params, line, entry)
    node = trace.add(reshape, (one,), (("shape", ()),), line, number)
    return handle(trace, node, number[0], True)


@lru_cache(maxsize=64)
def _types_of_number(dtype: np.dtype) -> tuple[tuple[ArrayType], tuple[ArrayType]]:
    """Types of one entry as a slice, and as a scalar."""
    return (ArrayType((1,), dtype),), (ArrayType((), dtype),)


def _known_entry(x: TracedArray, entry: tuple[int, ...]) -> TracedArray | None:
    """An entry of an array with pending stores (load forwarding): the stored value, or an entry that no store covers."""
    if x.link is None:
        return None
    root, flat = x, None
    if isinstance(x.link, ViewLink):
        if not isinstance(root_of(x).link, PendingStores) or (found := positions(x)) is None:
            return None
        root, flat = found[0], int(found[1][entry])
    if not isinstance(root.link, PendingStores):
        return None
    if flat is None:
        flat = 0
        for n, k in zip(x.shape, entry, strict=True):
            flat = flat * n + k
    node = root.link.entries.get(flat)
    if node is not None:
        return TracedArray(root.home, node, root.home.builder.type(node))
    beside = TracedArray(root.home, root.node, root.type)
    return _basic(beside, [int(k) for k in np.unravel_index(flat, root.shape)])


def _inside(k: int, n: int, axis: int) -> int:
    if not -n <= k < n:
        raise IndexError(f"index {k} is out of bounds for axis {axis} with size {n}")
    return k % n


def without_masks(x: TracedArray, items: Sequence[object]) -> tuple[TracedArray, list[object]]:
    """The key with index arrays in place of masks; a bare True or False indexes a new axis of length one."""
    out: list[object] = []
    shape: list[int] = []
    axes = iter(x.shape)
    for item in items:
        if item is None:
            out.append(item)
        elif not _boolean(item):
            out.append(item)
            shape.append(next(axes))
        elif not item.ndim:
            out.append(np.zeros(int(guarded_value(item, "indexed with a traced truth value")) if isinstance(item, TracedArray) else int(item), INT))
            shape.append(1)
        else:
            under = [next(axes) for _ in range(item.ndim)]
            for k, (n, m) in enumerate(zip(under, item.shape, strict=True)):
                if n != m:
                    raise IndexError(f"boolean index did not match indexed array along axis {len(shape) + k}; size of axis is {n} but size of corresponding boolean axis is {m}")
            out.extend(_mask_indices(item))
            shape.extend(under)
    return x.reshape(tuple(shape)), out


def _basic(x: TracedArray, items: Sequence[object]) -> TracedArray:
    """Basic indexing: at most one slice and one reshape, a view of `x`."""
    return _apply_basic_index(x, _basic_index(x.shape, items))


def _apply_basic_index(x: TracedArray, cut: BasicIndex) -> TracedArray:
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
            lo, size, step = _inside(int(item), n, axis), 1, 1
        starts.append(lo if size else 0)
        sizes.append(size)
        steps.append(step if size > 1 else 1)
        axis += 1
    same = tuple(sizes) == source and all(s == 1 for s in steps)
    within = (("sizes", tuple(sizes)), ("starts", tuple(starts)), ("steps", tuple(steps)))
    return BasicIndex(None if same else within, None if shape == sizes else (("shape", tuple(shape)),))


def _whole(value: object) -> object:
    return value.__index__() if isinstance(value, TracedArray) else value


def _advanced(x: TracedArray, items: Sequence[object], *, scalar: bool) -> IndexTarget:
    """Advanced indexing: slices first, then one gather over the axes that are indexed by arrays.

    The new axes take the place of the index arrays if these are adjacent, and come first otherwise. An integer
    beside an index array counts as an index array, as in NumPy.
    """
    spots = [k for k, i in enumerate(items) if i is not None and not isinstance(i, slice)]
    side_by_side = spots[-1] - spots[0] + 1 == len(spots)
    sliced = _basic(x, [slice(None) if k in spots else i for k, i in enumerate(items)])
    arrays = [_checked(items[k], sliced.shape[k], k) for k in spots]
    try:
        common = broadcast(*(np.shape(a) for a in arrays))
    except ValueError:
        shapes = " ".join(str(np.shape(a)) for a in arrays)
        raise IndexError(f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}") from None
    indices = [traced(np.broadcast_to(a.astype(INT), common)) for a in arrays]
    rest = [k for k in range(sliced.ndim) if k not in spots]
    n, ndim = len(common), len(common) + len(rest)
    order: tuple[int, ...] = ()
    if side_by_side and spots[0] > 0:
        before = sum(k < spots[0] for k in rest)
        order = (*range(n, n + before), *range(n), *range(n + before, ndim))
    return IndexTarget(transpose_call(sliced, (*spots, *rest)), indices, order, scalar=scalar)


def _numbers_first(x: TracedArray, items: list[object]) -> tuple[TracedArray, list[object]]:
    """Apply the integers of a key with index arrays first: ``x[i, 0]`` becomes ``x[:, 0][i]``, with one index array less.

    Returns the sliced array and the remaining items. Only where index arrays and integers are adjacent, so that the
    order of axes stays, and where at least half of the sliced part is gathered, because kernels materialise it.
    """
    spots = [k for k, i in enumerate(items) if i is not None and not isinstance(i, slice)]
    numbers = [k for k in spots if isinstance(items[k], (int, np.integer))]
    if not numbers or spots[-1] - spots[0] + 1 > len(spots):
        return x, items
    axes = [i for i in items if i is not None]
    cut = [i if isinstance(i, (int, np.integer)) else slice(None) for i in axes]
    part = [n for n, i in zip(x.shape, axes, strict=True) if not isinstance(i, (int, np.integer, slice))]
    picked = [np.shape(items[k]) for k in spots if k not in numbers]
    if 2 * max(prod(shape) for shape in picked) < prod(part):
        return x, items
    return _basic(x, cut), [i for k, i in enumerate(items) if k not in numbers]


FEWEST = 3  # entries of an index array that may be a slice: any two are equally spaced


def _counted(x: TracedArray, items: Sequence[object]) -> list[object] | None:
    """The items with a slice in place of the only index array, if its entries are equally spaced: ``x[np.arange(n) + 1]``.

    Only for index arrays that are constants of the tape, or that a guard fixes, so that the tape is specific to these
    entries anyway. Not where NumPy moves the new axis to the front.
    """
    spots = [k for k, i in enumerate(items) if i is not None and not isinstance(i, slice)]
    arrays = [k for k in spots if not isinstance(items[k], (int, np.integer))]
    if len(arrays) != 1 or spots[-1] - spots[0] + 1 != len(spots):
        return None
    (at,) = arrays
    entries = _settled(items[at])
    if entries is None or entries.ndim != 1 or len(entries) < FEWEST:
        return None
    size = x.shape[sum(i is not None for i in items[:at])]
    low, high = int(entries.min()), int(entries.max())
    if low < -size or high >= size or low < 0 <= high:
        return None  # out of range, which is reported for the array, or indices from both ends of the axis
    first, step = int(entries[0]), int(entries[1]) - int(entries[0])
    if not step or not np.array_equal(entries, first + step * np.arange(len(entries))):
        return None
    first += size if low < 0 else 0
    end = first + step * len(entries)
    return [*items[:at], slice(first, end if end >= 0 else None, step), *items[at + 1 :]]


def _settled(index: object) -> np.ndarray | None:
    """The integers of an index array that is constant, or that a guard fixes; None where they may change."""
    if isinstance(index, TracedArray):
        if index.home.eager or not index.home.guards.is_pinned(index.id):
            return None
        index = index.home.guards.value(index.id, "was indexed by a traced array of integers")
    return np.asarray(index).astype(INT)


def _checked(index: object, size: int, axis: int) -> object:
    """An index array; IndexError if its values are known and one lies outside of the axis."""
    if isinstance(index, TracedArray):
        return index
    array = np.asarray(index)
    if array.size and not (array.min() >= -size and array.max() < size):
        bad = array.ravel()[(array.ravel() < -size) | (array.ravel() >= size)][0]
        raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {size}")
    return array


TracedArray.__getitem__ = getitem
