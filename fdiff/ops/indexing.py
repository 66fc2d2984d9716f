"""Indexing of every kind: slices, gathers and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ..arraytype import BOOL, INT, ArrayType, Shape, broadcast, shadow
from ..kernel_rule import KernelRule, Kind
from ..primitive import PRIMITIVES, ZERO, Primitive, Sample, register
from ..tape import Params
from ..trace import TracedArray, applied, apply, current, implements, look, unsupported
from ..trace.local_arrays import resolve
from ..trace.traced_array import handle
from ..trace.views import Stores, View, positions, root_of
from .joining_and_splitting import concatenate_call
from .shaping import deepened, fresh, normal_axis, reshape, slice_, traced, transpose_call

# --- gather and its transpose -----------------------------------------------------------------


def _gathered(x: ArrayType, *indices: ArrayType) -> tuple[ArrayType, ...]:
    return (ArrayType((*broadcast(*(i.shape for i in indices)), *x.shape[len(indices) :]), x.dtype),)


def _scattered(bar: ArrayType, *indices: ArrayType, shape: Shape) -> tuple[ArrayType, ...]:
    return (ArrayType(shape, bar.dtype),)


def _scatter(bar: np.ndarray, *indices: np.ndarray, shape: Shape) -> np.ndarray:
    out = np.zeros(shape, np.asarray(bar).dtype)
    np.add.at(out, indices, bar)
    return out


def _gather_jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: object) -> list[object]:
    return [apply(gather, dots[0], *args[1:])]


def _gather_vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: object) -> list[object]:
    return [apply(scatter_add, bars[0], *args[1:], shape=args[0].shape), *_none(args)]


def _scatter_jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: object, *, shape: Shape) -> list[object]:
    return [apply(scatter_add, dots[0], *args[1:], shape=shape)]


def _scatter_vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: object, *, shape: Shape) -> list[object]:
    return [apply(gather, bars[0], *args[1:]), *_none(args)]


def _none(args: Sequence[TracedArray]) -> list[object]:
    return [ZERO] * (len(args) - 1)


def _lead(indices: Sequence[TracedArray], mapped: Sequence[bool], size: int) -> list[TracedArray]:
    """Indices of a batch: a leading axis each, and a first index that counts the batch."""
    ndim = max(i.ndim - m for i, m in zip(indices, mapped, strict=True))
    shape = (size, *indices[mapped.index(True)].shape[1:]) if any(mapped) else (size, *indices[0].shape)
    full = [i if m else np.broadcast_to(i, shape) for i, m in zip(indices, mapped, strict=True)]
    rows = np.broadcast_to(apply(iota, size=size).reshape((size, *(1,) * ndim)), shape)
    return [rows, *full]


def _gather_batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int) -> list[object]:
    x, *indices = args
    if not mapped[0]:
        return [apply(gather, x, *_same_shape(indices, mapped[1:], size))]
    if any(mapped[1:]):
        return [apply(gather, x, *_lead(indices, mapped[1:], size))]
    k, n = len(indices), indices[0].ndim
    behind = transpose_call(x, (*range(1, k + 1), 0, *range(k + 1, x.ndim)))
    out = apply(gather, behind, *indices)
    return [transpose_call(out, (n, *range(n), *range(n + 1, out.ndim)))]


def _same_shape(indices: Sequence[TracedArray], mapped: Sequence[bool], size: int) -> list[object]:
    return [i if m else np.broadcast_to(i, (size, *i.shape)) for i, m in zip(indices, mapped, strict=True)]


def _scatter_batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int, *, shape: Shape) -> list[object]:
    bar, *indices = args
    if any(mapped[1:]):
        full = bar if mapped[0] else np.broadcast_to(bar, (size, *bar.shape))
        return [apply(scatter_add, full, *_lead(indices, mapped[1:], size), shape=(size, *shape))]
    k, n = len(indices), indices[0].ndim
    behind = transpose_call(bar, (*range(1, n + 1), 0, *range(n + 1, bar.ndim)))
    out = apply(scatter_add, behind, *indices, shape=(*shape[:k], size, *shape[k:]))
    return [transpose_call(out, (k, *range(k), *range(k + 1, out.ndim)))]


def _gather_sample(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return rng.normal(size=(4, 3, 2)), rng.integers(-4, 4, (2, 3)), rng.integers(-3, 3, (2, 3))


def _scatter_sample(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return rng.normal(size=(5, 2)), rng.integers(-3, 3, 5)


# gather(x, i, j)[...] = x[i[...], j[...]]: indices of one shape, for the leading axes of x.
gather = register(
    Primitive(
        "gather", _gathered, lambda x, *indices: x[indices], _gather_jvp, _gather_vjp, _gather_batch, KernelRule(Kind.GATHER),
        "linear", structural=True, put=lambda parent, new, *indices: apply(PRIMITIVES["scatter_set"], parent, new, *indices),
        sizeless=True, samples=(Sample(_gather_sample),),
    )
)  # fmt: skip
scatter_add = register(
    Primitive(
        "scatter_add", _scattered, _scatter, _scatter_jvp, _scatter_vjp, _scatter_batch, KernelRule(Kind.SCATTER_ADD),
        "linear", structural=True, sizeless=True, samples=(Sample(_scatter_sample, {"shape": (3, 2)}),),
    )
)  # fmt: skip
iota = register(
    Primitive(
        "iota", lambda *, size: (ArrayType((size,), INT),), lambda *, size: np.arange(size), kernel=KernelRule(Kind.IOTA),
        family="leaf", samples=(Sample(lambda rng: (), {"size": 4}),),
    )
)  # fmt: skip

# --- x[key] -----------------------------------------------------------------------------------


def _expanded(key: tuple[object, ...], ndim: int) -> list[object]:
    """The key as a list with one entry per axis (None for new axes), Ellipsis filled in."""
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
    """An index array, traced or concrete; anything else is NumPy's IndexError."""
    array = item if isinstance(item, TracedArray) else np.asarray(item)
    if array.dtype == object:
        array = traced(array)
    if not isinstance(array, TracedArray) and array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(INT)
    if array.dtype.kind not in "biu":
        raise IndexError("only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices")
    return array


def _frozen(index: object) -> object:
    """A scalar index that the tape relies on anyway as the number it is: what it names is a slice then."""
    if not isinstance(index, TracedArray) or not index.scalar or index.dtype.kind not in "iu":
        return index
    home = index.home
    if home.eager or not home.looks.settled(index.id):
        return index
    return int(home.looks.value(index.id, "was indexed by a traced integer"))


def _mask_indices(mask: object) -> list[np.ndarray]:
    """Index arrays of a mask whose values can be seen; its count decides a shape."""
    if isinstance(mask, TracedArray):
        mask = look(mask, "indexed with a boolean mask, which gives a shape that depends on traced values")
    return list(np.nonzero(mask))


class IndexTarget(NamedTuple):
    """What a key names: a view, or what index arrays pick from the leading axes of one.

    `order` are the axes of what is picked in the order in which NumPy gives them, `entry` is the
    position of a single entry, `scalar` tells that NumPy gives a scalar.
    """

    view: TracedArray
    indices: Sequence[TracedArray] = ()
    order: tuple[int, ...] = ()
    entry: tuple[int, ...] | None = None
    scalar: bool = False


class BasicIndex(NamedTuple):
    """What a key without arrays takes: parameters of a slice and of a reshape, None where none is needed.

    `entry` and `scalar` as in `Place`; `types` are those of the slice, where they are known.
    """

    within: Params | None
    shape: Params | None
    entry: tuple[int, ...] | None = None
    scalar: bool = False
    types: tuple[ArrayType, ...] | None = None


def resolve_key(x: TracedArray, key: object, *, read: bool = False) -> IndexTarget:
    """Where ``x[key]`` is; if it is only to be `read`, it may be picked from a part of `x`."""
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
    """The position of the entry that integers alone name; None for any other key."""
    if not all(isinstance(i, (int, np.integer)) for i in items):
        return None
    return tuple([_inside(int(i), n, k) for k, (i, n) in enumerate(zip(items, shape, strict=True))])


def _basic_index_of(x: TracedArray, key: object) -> BasicIndex | None:
    """What a key of Python's integers, slices of such, None and Ellipsis takes; None for any other."""
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
    """What such a key takes from an array of a type."""
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
    """``x[k]`` of a vector: what loops over entries ask for most."""
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
    """An entry that was stored and not read since, or one beside those."""
    if x.link is None:
        return None
    root, flat = x, None
    if isinstance(x.link, View):
        if not isinstance(root_of(x).link, Stores) or (found := positions(x)) is None:
            return None
        root, flat = found[0], int(found[1][entry])
    if not isinstance(root.link, Stores):
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
    """Masks turned into index arrays; a bare True or False indexes a new axis of length one."""
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
            out.append(np.zeros(int(look(item, "indexed with a traced truth value")) if isinstance(item, TracedArray) else int(item), INT))
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
    """Slices, integers and new axes: at most one slice and one reshape, a view of `x`."""
    return _apply_basic_index(x, _basic_index(x.shape, items))


def _apply_basic_index(x: TracedArray, cut: BasicIndex) -> TracedArray:
    out = x
    if cut.within is not None:
        out = applied(slice_, (x,), cut.within, types=cut.types)
    if cut.shape is not None:
        out = applied(reshape, (out,), cut.shape)
    return TracedArray(out.home, out.id, out.type) if x.scalar else out


def _basic_index(source: Shape, items: Sequence[object]) -> BasicIndex:
    """What slices, integers and new axes take from an array of a shape."""
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
    """Integer arrays among the items: slices first, then one gather over the indexed axes.

    The new axes stand where the index arrays stood if those were side by side, else in front.
    An integer beside an index array counts as an index array, as in NumPy.
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
    """What ``x[i, 0]`` picks from, ``x[:, 0]``, and the items that are left: one index array less.

    Only where index arrays and numbers are side by side, so that the new axes stand where they would, and where
    at least half as much is picked as the part has, because kernels lay it out in memory.
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


FEWEST = 3  # entries of an index array: any two are equally spaced, by accident


def _counted(x: TracedArray, items: Sequence[object]) -> list[object] | None:
    """The items with a slice for the only index array, where that counts: ``x[np.arange(n) + 1]``.

    Only arrays that the tape holds as constants, or that it relies on anyway, so that the program is for these very
    entries in any case. Not where NumPy moves the new axis to the front.
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
        return None  # an error, which is told of the array, or both ends of an axis
    first, step = int(entries[0]), int(entries[1]) - int(entries[0])
    if not step or not np.array_equal(entries, first + step * np.arange(len(entries))):
        return None
    first += size if low < 0 else 0
    end = first + step * len(entries)
    return [*items[:at], slice(first, end if end >= 0 else None, step), *items[at + 1 :]]


def _settled(index: object) -> np.ndarray | None:
    """The integers of an index array, where they are those of the tape's own; None where they may change."""
    if isinstance(index, TracedArray):
        if index.home.eager or not index.home.looks.settled(index.id):
            return None
        index = index.home.looks.value(index.id, "was indexed by a traced array of integers")
    return np.asarray(index).astype(INT)


def _checked(index: object, size: int, axis: int) -> object:
    """An index array whose values, where they can be seen now, lie inside the axis."""
    if isinstance(index, TracedArray):
        return index
    array = np.asarray(index)
    if array.size and not (array.min() >= -size and array.max() < size):
        bad = array.ravel()[(array.ravel() < -size) | (array.ravel() >= size)][0]
        raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {size}")
    return array


TracedArray.__getitem__ = getitem

# --- what answers for NumPy -------------------------------------------------------------------


@implements(np.take, method="take")
def take(x: object, indices: object, axis: int | None = None, out: object = None, mode: str = "raise") -> TracedArray:
    """Entries by index along an axis; indices out of range raise, wrap or are clipped."""
    array = traced(x)
    if axis is None:
        array, axis = array.reshape(-1), 0
    at, n = normal_axis(axis, array.ndim), array.shape[axis]
    if mode == "wrap":
        indices = np.remainder(indices, n)
    elif mode == "clip":
        indices = np.clip(indices, 0, n - 1)
    whole = indices if isinstance(indices, (TracedArray, int, np.integer)) else np.asarray(indices)
    return array[(*(slice(None),) * at, whole)]


@implements(np.take_along_axis)
def take_along_axis(x: object, indices: object, axis: int | None = -1) -> TracedArray:
    """Entries matched along one axis."""
    array, index = traced(x), indices if isinstance(indices, TracedArray) else np.asarray(indices)
    if index.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        return array.reshape(-1)[index.reshape(-1)]
    if index.ndim != array.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    at = normal_axis(axis, array.ndim)
    grid = [np.arange(n).reshape([-1 if k == j else 1 for j in range(array.ndim)]) for k, n in enumerate(index.shape)]
    return array[tuple(index if k == at else g for k, g in enumerate(grid))]


@implements(np.repeat, method="repeat")
def repeat(x: object, repeats: object, axis: int | None = None) -> TracedArray:
    """Each entry several times, by a gather of counted indices."""
    array = traced(x)
    if axis is None:
        array, axis = array.reshape(-1), 0
    if isinstance(repeats, TracedArray):
        repeats = look(repeats, "repeated entries by traced counts")
    return take(array, np.repeat(np.arange(array.shape[axis]), repeats), axis)


@implements(np.tile)
def tile(x: object, reps: object) -> TracedArray:
    """The array laid side by side with itself."""
    array = traced(x)
    times = (reps,) if isinstance(reps, (int, np.integer)) else tuple(reps)
    array = deepened(array, len(times))
    times = (*(1,) * (array.ndim - len(times)), *times)
    paired = array.reshape(tuple(n for m in array.shape for n in (1, m)))
    full = np.broadcast_to(paired, tuple(n for r, m in zip(times, array.shape, strict=True) for n in (r, m)))
    return fresh(full.reshape(tuple(r * m for r, m in zip(times, array.shape, strict=True))))



@implements(np.diagonal, method="diagonal")
def diagonal(x: object, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TracedArray:
    """A diagonal, as a gather over two axes."""
    array = traced(x)
    a, b = normal_axis(axis1, array.ndim), normal_axis(axis2, array.ndim)
    moved = transpose_call(array, (*(k for k in range(array.ndim) if k not in (a, b)), a, b))
    n = np.diagonal(shadow(ArrayType(moved.shape[-2:], array.dtype)), offset).shape[0]
    rows = np.arange(n) + max(-offset, 0)
    found = resolve_key(moved, (..., rows, rows + offset))
    out = apply(gather, found.view, *found.indices)
    if out.home.mutable:  # a view that NumPy lets nobody write to
        out.link = View(found.view, gather, (), found.view.id, tuple(i.id for i in found.indices), fixed=True)
    return transpose_call(out, found.order) if found.order else out


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


@implements(np.diff)
def diff(a: object, n: int = 1, axis: int = -1, prepend: object = np._NoValue, append: object = np._NoValue) -> TracedArray:
    """Differences of neighbours, `n` times."""
    array = traced(a)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    at = normal_axis(axis, array.ndim)
    ends = []
    for end in (prepend, append):
        if end is not np._NoValue:
            part = traced(end)
            shape = (*array.shape[:at], 1, *array.shape[at + 1 :])
            ends.append(np.broadcast_to(part, shape) if part.ndim == 0 else part)
        else:
            ends.append(None)
    parts = [p for p in (ends[0], array, ends[1]) if p is not None]
    array = concatenate_call(parts, at) if len(parts) > 1 else array
    before = (slice(None),) * at
    for _ in range(n):
        array = array[(*before, slice(1, None))] - array[(*before, slice(None, -1))]
    return array


@implements(np.ediff1d)
def ediff1d(ary: object, to_end: object = None, to_begin: object = None) -> TracedArray:
    """Differences of neighbours of the flattened array, between given ends."""
    array = traced(ary).reshape(-1)
    ends = [[] if end is None else [traced(end).reshape(-1).astype(array.dtype)] for end in (to_begin, to_end)]
    return concatenate_call([*ends[0], diff(array), *ends[1]])


@implements(np.delete)
def delete(arr: object, obj: object, axis: int | None = None) -> TracedArray:
    """The array without the entries (or rows) `obj` names."""
    array = traced(arr)
    if axis is None:
        array, axis = array.reshape(-1), 0
    return take(array, np.delete(np.arange(array.shape[normal_axis(axis, array.ndim)]), obj), axis)


@implements(np.compress)
def compress(condition: object, a: object, axis: int | None = None, out: object = None) -> TracedArray:
    """Entries along an axis where a concrete condition holds."""
    held = look(condition, "picked entries by a traced condition") if isinstance(condition, TracedArray) else np.asarray(condition)
    return take(a, np.flatnonzero(held), axis)


@implements(method="compress")
def compress_method(x: TracedArray, condition: object, axis: int | None = None, out: object = None) -> TracedArray:
    return compress(condition, x, axis)


@implements(np.extract)
def extract(condition: object, arr: object) -> TracedArray:
    return compress(np.ravel(condition), traced(arr).reshape(-1))


_MODES = ("edge", "reflect", "symmetric", "wrap")  # each copies entries: one gather an axis


@implements(np.pad)
def pad(array: object, pad_width: object, mode: str = "constant", **keywords: object) -> TracedArray:
    """The array with a border: of a constant, or of copies of its entries."""
    x = traced(array)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - x.ndim, (0, 0))) for k in range(x.ndim)]
    widths = np.broadcast_to(pad_width, (x.ndim, 2)).tolist()
    if mode in _MODES and keywords.get("reflect_type", "even") == "even":
        for axis, (n, width) in enumerate(zip(x.shape, widths, strict=True)):
            x = take(x, np.pad(np.arange(n), width, mode), axis) if any(width) else x
        return x
    if mode != "constant":
        raise unsupported(f"numpy.pad with mode={mode!r} and {keywords}")
    for axis, (width, fill) in enumerate(zip(widths, _fills(keywords.get("constant_values", 0), x.ndim), strict=True)):
        edges = [np.broadcast_to(traced(f).astype(x.dtype), (*x.shape[:axis], n, *x.shape[axis + 1 :])) for f, n in zip(fill, width, strict=True)]
        x = concatenate_call([edges[0], x, edges[1]], axis) if any(width) else x
    return x


def _fills(values: object, ndim: int) -> list[list[object]]:
    """The two constants of each axis."""
    if isinstance(values, TracedArray):
        full = np.broadcast_to(values, (ndim, 2))
        return [[full[k, 0], full[k, 1]] for k in range(ndim)]
    return np.broadcast_to(values, (ndim, 2)).tolist()


@implements(method="item")
def item(x: TracedArray, *place: int) -> object:
    """One entry as a Python number: a float stays traced, an integer is looked at."""
    if len(place) == 1 and isinstance(place[0], tuple):
        (place,) = place
    if place:
        x = x.reshape(-1)[place[0]] if len(place) == 1 else x[place]
    elif x.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    x = x.reshape(())
    if not x.type.floating:
        return look(x, "turned a traced array into a Python number").item()
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return TracedArray(wide.home, wide.id, wide.type, scalar=True, weak=True)


@implements(np.nonzero, np.flatnonzero, np.argwhere, np.unique, method="nonzero")
def data_dependent(*_: object, **__: object) -> object:
    """Functions whose result has a shape that depends on values."""
    raise current().fail("a function was called whose result has a shape that depends on traced values.", "Use numpy.where(condition, x, y).")
