"""Reading with ``x[key]``, for every key that NumPy takes.

Slices, integers and new axes (basic indexing, `basic_indexing.py`) become a slice and a reshape, which are views.
Integer arrays (advanced indexing) become a gather over the leading axes. Masks become the integer arrays of the
entries where they hold, whose number is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType, broadcast
from ...foreign_errors import not_foreign
from ...hooks import hooks
from ...named_tuples import NamedTuple
from ...process.forking import late
from ...trace import TracedArray, apply, current, guarded_value
from ...trace.array_links import PendingStores, ViewLink, positions, root_of, settled
from ...trace.handler_arguments import resolve
from ...trace.trace_stack import asks, stack
from ...trace.traced_array import handle
from .basic_indexing import (
    apply_basic_index,
    basic,
    basic_index_of,
    entry_of,
    expanded,
    inside,
    is_mask,
    is_simple,
)
from .dynamic_slices import windows
from .gather_scatter import gather
from .shaping import fresh, traced, transpose_call
from .view_ops import reshape, slice_

read_part = late("masked_entries", __package__, "read_part")


def _mask_indices(mask: object) -> list[np.ndarray]:
    """Index arrays of a mask, which is looked at: how many entries hold decides a shape."""
    if isinstance(mask, TracedArray):
        mask = guarded_value(mask, "indexed with a boolean mask, which gives a shape that depends on traced values")
    return list(np.nonzero(mask))


class IndexTarget(NamedTuple):
    """The target of ``x[key]``: a view, or a gather with index arrays from the leading axes of a view.

    `order` is the permutation that puts the axes of the gathered array where NumPy has them; `entry` is the
    position of a single entry; `scalar` tells whether NumPy gives a scalar, `viewed` whether it gives a view: where the
    indices are single integers.
    """

    view: TracedArray
    indices: Sequence[TracedArray] = ()
    order: tuple[int, ...] = ()
    entry: tuple[int, ...] | None = None
    scalar: bool = False
    viewed: bool = False


def resolve_key(x: TracedArray, key: object, *, read: bool = False) -> IndexTarget:
    """The target of ``x[key]``; if it is only `read`, a gather may be made from a part of `x`, or become a slice."""
    if (cut := basic_index_of(x, key)) is not None:
        return IndexTarget(apply_basic_index(x, cut)) if cut.entry is None else IndexTarget(x, entry=cut.entry, scalar=cut.scalar)
    items_of_key = key if isinstance(key, tuple) else (key,)
    whole = not any(i is Ellipsis for i in items_of_key)  # an Ellipsis gives an array, if only of 0-d
    items = expanded(items_of_key, x.ndim)
    if any(is_mask(i) for i in items):
        x, items = without_masks(x, items)
    x, items = windows(x, items)
    if not all(is_simple(i) for i in items):
        spots = _spots(items)
        apart = spots[-1] - spots[0] + 1 > len(spots)
        items = [i for i in items if i is not Ellipsis]
        if read and not apart:
            if (counted := _counted(x, items)) is not None:
                return IndexTarget(fresh(basic(x, counted)))
            x, items = _numbers_first(x, items)
        return _advanced(x, items, apart=apart, scalar=whole)
    if (entry := entry_of(x.shape, items)) is not None:
        return IndexTarget(x, entry=entry, scalar=whole)
    return IndexTarget(basic(x, items))


def _spots(items: Sequence[object]) -> list[int]:
    """The places of index arrays, and of integers, which count as such beside them."""
    return [k for k, i in enumerate(items) if not (i is None or i is Ellipsis or isinstance(i, slice))]


def getitem(x: TracedArray, key: object) -> TracedArray:
    """``x[key]`` for any key NumPy takes; scalars and views as NumPy gives them."""
    return x.home.entry(x, key, _getitem) if x.home.eager else _getitem(x, key)


def _getitem(x: TracedArray, key: object) -> TracedArray:
    if key.__class__ is int and len(x.type.shape) == 1 and x.link is None:
        return _number(x, key)
    if (cut := basic_index_of(x, key)) is not None and cut.entry is None:
        return apply_basic_index(x, cut)
    key = resolve(key)
    part = read_part(x, key)
    return _entries(x, key) if part is None else part


def _pick(x: TracedArray, axis: int, mask: TracedArray) -> TracedArray:
    """The entries that a mask of some axes picks, the first of which is given."""
    return _entries(x, (*(slice(None),) * axis, mask))


hooks.pick = _pick


def _entries(x: TracedArray, key: object) -> TracedArray:
    """``x[key]`` of a key without local arrays."""
    target = resolve_key(x, key, read=True)
    view = target.view
    if target.entry is not None:
        stored = _known_entry(view, target.entry) if target.scalar else None
        out = basic(view, target.entry) if stored is None else stored
        return TracedArray(out.home, out.id, out.type, scalar=True) if target.scalar else out
    if not target.indices:
        return view
    out = apply(gather, view, *target.indices)
    if target.viewed and out.ndim and out.home.mutable:
        part = (0,) * len(target.indices)
        out.link = ViewLink(view, gather, (), out.home.own(view), tuple(map(out.home.own, target.indices)), part=part)
        return transpose_call(out, target.order) if target.order else out
    if target.order:
        out = transpose_call(out, target.order)
    return TracedArray(out.home, out.id, out.type, scalar=target.scalar and not out.ndim)


def _number(x: TracedArray, k: int) -> TracedArray:
    """``x[k]`` of a vector, the most frequent read of loops over entries."""
    trace = current(x)
    start = inside(k, x.type.shape[0], 0)
    params = (("sizes", (1,)), ("starts", (start,)), ("steps", (1,)))
    entry, number = _types_of_number(x.type.dtype)
    line = None if trace.eager else trace.where(1)
    entry_node = trace.add(slice_, (trace.own(x),), params, line, entry)
    node = trace.add(reshape, (entry_node,), (("shape", ()),), line, number)
    return handle(trace, node, number[0], True)


@lru_cache(maxsize=64)
def _types_of_number(dtype: np.dtype) -> tuple[tuple[ArrayType], tuple[ArrayType]]:
    """Types of one entry as a slice, and as a scalar."""
    return (ArrayType((1,), dtype),), (ArrayType((), dtype),)


def _known_entry(x: TracedArray, entry: tuple[int, ...]) -> TracedArray | None:
    """An entry of an array with pending stores (load forwarding): the stored value, or an entry that no store covers."""
    if settled(x).link is None:
        return None
    root, flat = x, None
    if isinstance(x.link, ViewLink):
        if not isinstance(root_of(x).link, PendingStores) or (places := positions(x)) is None:
            return None
        root, flat = places[0], int(places[1][entry])
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
    return basic(beside, [int(k) for k in np.unravel_index(flat, root.shape)])


def without_masks(x: TracedArray, items: Sequence[object]) -> tuple[TracedArray, list[object]]:
    """The key with index arrays in place of masks; a bare True or False indexes a new axis of length one."""
    out: list[object] = []
    shape: list[int] = []
    axes = iter(x.shape)
    for item in items:
        if item is None or item is Ellipsis:
            out.append(item)
        elif not is_mask(item):
            out.append(item)
            shape.append(next(axes))
        elif not item.ndim:
            out.append(
                np.zeros(int(guarded_value(item, "indexed with a traced truth value")) if isinstance(item, TracedArray) else int(item), INT)
            )
            shape.append(1)
        else:
            under = [next(axes) for _ in range(item.ndim)]
            for k, (n, m) in enumerate(zip(under, item.shape, strict=True)):
                if n != m:
                    raise IndexError(
                        f"boolean index did not match indexed array along axis {len(shape) + k};"
                        f" size of axis is {n} but size of corresponding boolean axis is {m}"
                    )
            out.extend(_mask_indices(item))
            shape.extend(under)
    return x.reshape(tuple(shape)), out


def _advanced(x: TracedArray, items: Sequence[object], *, apart: bool, scalar: bool) -> IndexTarget:
    """Advanced indexing: slices first, then one gather over the axes that are indexed by arrays.

    The new axes take the place of the index arrays if these are adjacent, and come first where they are `apart`.
    """
    spots = _spots(items)
    sliced = basic(x, [slice(None) if k in spots else i for k, i in enumerate(items)])
    arrays = [i if isinstance(i := items[k], TracedArray) else np.asarray(i) for k in spots]
    try:
        common = broadcast(*(np.shape(a) for a in arrays))
    except not_foreign(ValueError):
        shapes = " ".join(str(np.shape(a)) for a in arrays)
        raise IndexError(f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}") from None
    rest = [k for k in range(sliced.ndim) if k not in spots]
    runs = bool(prod((*common, *(sliced.shape[k] for k in rest))))
    for k, array in zip(spots, arrays, strict=True):
        if prod(common) or not array.ndim:  # as NumPy does
            _check(array, sliced.shape[k], k, runs=runs)
    indices = [traced(np.broadcast_to(a.astype(INT), common)) for a in arrays]
    n, ndim = len(common), len(common) + len(rest)
    order: tuple[int, ...] = ()
    if not apart and spots[0] > 0:
        before = sum(k < spots[0] for k in rest)
        order = (*range(n, n + before), *range(n), *range(n + before, ndim))
    viewed = all(getattr(items[k], "scalar", isinstance(items[k], (int, np.integer))) for k in spots)
    return IndexTarget(transpose_call(sliced, (*spots, *rest)), indices, order, scalar=scalar, viewed=viewed)


def _numbers_first(x: TracedArray, items: list[object]) -> tuple[TracedArray, list[object]]:
    """Apply the integers of a key with index arrays first: ``x[i, 0]`` becomes ``x[:, 0][i]``, with one index array less.

    Returns the sliced array and the remaining items. Index arrays and integers are adjacent, so that the order of axes
    stays. Only where at least half of the sliced part is gathered, because kernels materialise it.
    """
    spots = _spots(items)
    numbers = [k for k in spots if isinstance(items[k], (int, np.integer))]
    if not numbers:
        return x, items
    axes = [i for i in items if i is not None]
    cut = [i if isinstance(i, (int, np.integer)) else slice(None) for i in axes]
    part = [n for n, i in zip(x.shape, axes, strict=True) if not isinstance(i, (int, np.integer, slice))]
    picked = [np.shape(items[k]) for k in spots if k not in numbers]
    if 2 * max(prod(shape) for shape in picked) < prod(part):
        return x, items
    return basic(x, cut), [i for k, i in enumerate(items) if k not in numbers]


FEWEST = 3  # entries of an index array that may be a slice: any two are equally spaced


def _counted(x: TracedArray, items: Sequence[object]) -> list[object] | None:
    """The items with a slice in place of the only index array, if its entries are equally spaced: ``x[np.arange(n) + 1]``.

    Only for index arrays that are constants of the tape, or that a guard fixes, so that the tape is specific to these
    entries anyway.
    """
    arrays = [k for k in _spots(items) if not isinstance(items[k], (int, np.integer))]
    if len(arrays) != 1:
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


def _check(index: object, size: int, axis: int, *, runs: bool) -> None:
    """IndexError if entries of an index array lie outside of the axis, and are known; no gather `runs` for an empty result."""
    if isinstance(index, TracedArray):
        if runs or index.home.guards.is_batched(index.id):
            return
        index = guarded_value(index, "indexed an empty array with traced integers")
    if index.size and not (index.min() >= -size and index.max() < size):
        bad = index.ravel()[(index.ravel() < -size) | (index.ravel() >= size)][0]
        raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {size}")


@asks
def _read(x: TracedArray, key: object, *_: object) -> object:
    """``x[key]``, written by the user: a call that may be logged.

    Python inlines a function of two arguments after some calls, and then names another instruction of the caller.
    """
    traces = stack.traces
    log = traces[-1].listener if traces else None
    if log is not None and not log.depth:
        compares = log.frame is not None and log.trace is traces[-1]
        if compares or not log.is_idle():
            return log.call(_read, (x, key), {})
    return x.home.entry(x, key, _getitem) if x.home.eager else _getitem(x, key)


TracedArray.__getitem__ = _read
