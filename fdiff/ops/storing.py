"""Stores into arrays: ``x[key] = value``, ``out=``, ``+=``, `ufunc.at` and the functions that write.

A store puts a node with the new entries behind the handle of the array; a store through a view goes
on to the array it is a view of.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..arraytype import BOOL, INT, ArrayType
from ..primitive import FUNCTIONS, UFUNC_METHODS, UFUNCS, ZERO, Lower, Primitive, Sample, register
from ..trace import TracedArray, apply, constant_value, current, implements, look, unsupported
from ..trace.local import Local, become, resolve
from ..trace.views import Fixed, Stores, View, is_copy, layout, positions, root_of
from .elementwise import _BINARY, _operator
from .indexing import _basic, _lead, gather, iota, item, place
from .shaping import imag, real, spread, traced

Args = Sequence[TracedArray]

# --- scatter_set: x with values stored at indices, the last one where an index comes twice -------


def _set_type(x: ArrayType, values: ArrayType, *indices: ArrayType) -> tuple[ArrayType, ...]:
    return (x,)


def _set(x: np.ndarray, values: np.ndarray, *indices: np.ndarray) -> np.ndarray:
    out = np.array(x)
    out[indices] = values
    return out


def _zeros(like: TracedArray) -> np.ndarray:
    return np.zeros(like.shape, like.dtype)


def _set_jvp(dots: Sequence[object], args: Args, outs: object) -> list[object]:
    moved = [_zeros(a) if d is ZERO else d for d, a in zip(dots[:2], args[:2], strict=True)]
    return [apply(scatter_set, *moved, *args[2:])]


def _set_vjp(bars: Sequence[object], args: Args, outs: object) -> list[object]:
    x, values, *indices = args
    part = apply(gather, bars[0], *indices)
    mine = _last(x, indices)
    if mine is not None:
        mine = mine.reshape((*mine.shape, *(1,) * (values.ndim - mine.ndim)))
        part = np.where(mine, part, np.zeros((), part.dtype))
    return [apply(scatter_set, bars[0], _zeros(values), *indices), part, *[ZERO] * len(indices)]


def _last(x: TracedArray, indices: Args) -> TracedArray | None:
    """Which values are still there: those no later one was stored over; None for all of them."""
    known = [constant_value(i) for i in indices]
    shape = x.shape[: len(indices)]
    if all(k is not None for k in known):
        flat = np.ravel_multi_index(
            [np.where(k < 0, k + n, k) for k, n in zip(known, shape, strict=True)], shape
        )
        if np.unique(flat).size == flat.size:
            return None
    count = indices[0].size
    rank = np.reshape(apply(iota, size=count), indices[0].shape)
    winner = apply(scatter_set, np.zeros(shape, INT), rank, *indices)
    return apply(gather, winner, *indices) == rank


def _set_batch(args: Args, mapped: Sequence[bool], size: int) -> list[object]:
    indices = args[2:]
    full = [
        a if m else apply(spread, a, shape=(size, *a.shape))
        for a, m in zip(args[:2], mapped[:2], strict=True)
    ]
    return [apply(scatter_set, *full, *_lead(indices, mapped[2:], size))]


scatter_set = register(
    Primitive(
        "scatter_set", _set_type, _set, _set_jvp, _set_vjp, _set_batch, Lower("special"), "linear", structural=True,
        samples=(
            Sample(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), np.array([2, -4]))),
            Sample(lambda rng: (rng.normal(size=(4, 2)), rng.normal(size=(3, 2)), np.array([2, 0, -2]))),
        ),
    )
)  # fmt: skip

# --- behind a handle ----------------------------------------------------------------------------


def write(handle: TracedArray, node: int) -> None:
    """Put another node behind `handle` and behind all it is a view of."""
    trace, link = current(handle), handle.link
    if handle.home is not trace and handle.born is trace and link is None:
        handle.node = handle.made = trace.own(handle)  # a copy, made here, of what lies outside
        handle.home = trace
    if handle.home is not trace:
        fact = (
            "an array of an enclosing function was written to while a function inside was traced."
        )
        raise trace.fail(fact, "Write to a copy, and return it.")
    if isinstance(link, Fixed):
        fact = (
            "an array that `f` reads from outside was written to; fdiff never changes your arrays."
        )
        raise trace.fail(fact, "Copy it first: `a = a.copy()`, or pass it as an argument.")
    if not isinstance(link, View) or is_copy(handle):
        handle.link, handle.node = None, node
        return
    put = link.primitive.put
    if put is None or link.fixed:
        raise ValueError("assignment destination is read-only")
    parent = link.parent
    extra = [TracedArray(trace, i, trace.builder.type(i)) for i in link.extra]
    new = put(parent, TracedArray(trace, node, handle.type), *extra, **dict(link.params))
    trace.stored.setdefault(new.id, parent.made)
    write(parent, new.id)
    handle.node, link.seen = node, trace.own(parent)


def assign(handle: TracedArray, value: object) -> None:
    """Store `value`, broadcast and converted, into every entry of `handle`."""
    if handle.scalar or handle.weak:
        kind = "float" if handle.weak else f"numpy.{handle.dtype.name}"
        raise TypeError(f"'{kind}' object does not support item assignment")
    given = traced(value)
    if given.type.dtype.kind == "c" != handle.dtype.kind:
        given = np.real(given)
    part = TracedArray(given.home, given.id, given.type).astype(handle.dtype)
    while part.ndim > handle.ndim and part.shape[0] == 1:
        part = np.reshape(part, part.shape[1:])
    if part.shape != handle.shape:
        try:
            part = np.broadcast_to(part, handle.shape)
        except ValueError:
            raise ValueError(
                f"could not broadcast input array from shape {given.shape} into shape {handle.shape}".replace(
                    " ", " "
                )
            ) from None
    write(handle, part.id)


def target(array: object) -> TracedArray:
    """The traced array to write to, where `array` is one or can become one."""
    if isinstance(array, TracedArray):
        current(array)
        return array
    if isinstance(array, Local):
        return become(array)
    raise current().fail(
        f"a traced value was stored into {'an array' if isinstance(array, np.ndarray) else 'a ' + type(array).__name__}"
        " that fdiff did not see being made; its derivative would be dropped.",
        "Store into a copy made in the function: `a = np.array(a)`.",
    )


# --- x[key] = value -----------------------------------------------------------------------------


def setitem(x: TracedArray, key: object, value: object) -> None:
    """``x[key] = value`` for any key NumPy takes."""
    current(x)
    if x.scalar or x.weak:
        assign(x, value)
    value = resolve(value)
    key = resolve(key)
    if _masked(x, key, value):
        return
    found = place(x, key)
    if found.entry is not None and np.ndim(value) == 0:
        spot = _spot(x, found.entry)
        if spot is not None:
            _store_entry(*spot, value)
            return
    if found.entry is not None:
        assign(_basic(found.view, found.entry), value)
        return
    if not found.indices:
        assign(found.view, value)
        return
    moved, indices = found.view, found.indices
    shape = (*indices[0].shape, *moved.shape[len(indices) :])
    part = TracedArray((t := traced(value)).home, t.id, t.type).astype(x.dtype)
    outer = tuple(shape[k] for k in found.order) if found.order else shape
    while part.ndim > len(outer) and part.shape[0] == 1:
        part = np.reshape(part, part.shape[1:])
    try:
        part = np.broadcast_to(part, outer)
    except ValueError:
        raise ValueError(
            f"shape mismatch: value array of shape {np.shape(value)} could not be broadcast to indexing result of shape {outer}"
        ) from None
    if found.order:
        part = np.transpose(part, sorted(range(len(outer)), key=found.order.__getitem__))
    write(moved, apply(scatter_set, moved, part, *indices).id)


TracedArray.__setitem__ = setitem


def _masked(x: TracedArray, key: object, value: object) -> bool:
    """Store where a traced mask holds, if the value says nothing of how many places those are."""
    first = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if (
        not isinstance(first, TracedArray)
        or first.dtype != BOOL
        or constant_value(first) is not None
        or not first.ndim
    ):
        return False
    behind = x.ndim - first.ndim
    if (
        behind < 0
        or x.shape[: first.ndim] != first.shape
        or (np.ndim(value) > behind and np.size(value) != 1)
    ):
        return False
    part = traced(value)
    part = np.reshape(part, ()) if part.ndim > behind else part
    mask = np.reshape(first, (*first.shape, *(1,) * behind))
    assign(x, np.where(mask, part.astype(x.dtype), x))
    return True


def _spot(x: TracedArray, entry: tuple[int, ...]) -> tuple[TracedArray, int] | None:
    """The handle that owns one entry of `x`, and where it is there."""
    if not isinstance(x.link, View) or is_copy(x):
        flat = 0
        for n, k in zip(x.shape, entry, strict=True):
            flat = flat * n + k
        return None if isinstance(x.link, Fixed) or x.home is not current() else (x, flat)
    found = positions(x)
    if found is None or _read_only(x):
        return None
    root, flat = found
    return (
        None
        if isinstance(root.link, Fixed) or root.home is not current()
        else (root, int(flat[entry]))
    )


def _read_only(x: TracedArray) -> bool:
    while isinstance(x.link, View):
        if x.link.primitive.put is None or x.link.fixed:
            return True
        x = x.link.parent
    return False


def _store_entry(root: TracedArray, flat: int, value: object) -> None:
    if not isinstance(root.link, Stores):
        root.node, root.link = root.id, Stores()
    part = traced(value)
    if part.type.dtype.kind == "c" != root.dtype.kind:
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    part = TracedArray(part.home, part.id, part.type).astype(root.dtype)
    root.link.entries[flat] = current().own(part)


# --- out=, += and ufunc.at ------------------------------------------------------------------------


@implements(np.copyto)
def copyto(dst: object, src: object, casting: str = "same_kind", where: object = True) -> None:
    """Entries of `src` stored into `dst`, where `where` holds."""
    handle, part = target(dst), traced(src)
    kind = float if part.weak else part.dtype
    if not isinstance(kind, type) and not np.can_cast(kind, handle.dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {kind!r} to {handle.dtype!r} according to the rule '{casting}'"
        )
    assign(handle, part if where is True else np.where(where, part.astype(handle.dtype), handle))


def fill_out(out: object, result: object, where: object, name: str) -> object:
    """Store a result into the array given as ``out=``; that array."""
    handle, part = target(out), traced(result)
    if part.shape != handle.shape and (
        part.ndim > handle.ndim or np.broadcast_shapes(part.shape, handle.shape) != handle.shape
    ):
        raise ValueError(
            f"non-broadcastable output operand with shape {handle.shape} doesn't match the broadcast shape {part.shape}"
        )
    if not np.can_cast(part.dtype, handle.dtype, "same_kind"):
        raise np._core._exceptions._UFuncOutputCastingError(
            getattr(np, name, np.add), "same_kind", part.dtype, handle.dtype, 0
        )
    copyto(handle, part, "same_kind", where)
    return out


FUNCTIONS["out"] = fill_out  # type: ignore[index]  # asked for by name: see `TracedArray.__array_ufunc__`


def _in_place(name: str, ufunc: np.ufunc) -> Callable[..., object]:
    compute = _operator(ufunc)

    def operate(self: TracedArray, other: object) -> object:
        if self.scalar or self.weak:
            return NotImplemented  # Python falls back on `x = x + other`, as it does for scalars
        out = compute(self, resolve(other))
        return out if out is NotImplemented else fill_out(self, out, True, name)

    return operate


for _name, _ufunc in _BINARY.items():
    setattr(TracedArray, f"__i{_name}__", _in_place(_ufunc.__name__, _ufunc))


def at(ufunc: np.ufunc) -> Callable[..., None]:
    """``ufunc.at``: repeated indices count each time."""

    def store(a: object, indices: object, b: object = None) -> None:
        x = target(a)
        if ufunc in (np.add, np.subtract) and x.type.floating:
            sign = 1.0 if ufunc is np.add else -1.0
            sums = traced(np.zeros(x.shape, x.dtype))
            _add_at(sums, indices, b)
            assign(x, x + sums * np.array(sign, x.dtype))
            return
        index = place_flat(x, indices)
        operand = None if b is None else np.broadcast_to(traced(b), index.shape).reshape(-1)
        flat = np.reshape(x, -1)
        apart = is_copy(flat)
        for rows in _rounds(index.ravel()):
            picked = flat[index.ravel()[rows]]
            new = UFUNCS[ufunc](picked) if operand is None else UFUNCS[ufunc](picked, operand[rows])
            flat[index.ravel()[rows]] = new
        if apart:
            assign(x, np.reshape(flat, x.shape))

    return store


def _add_at(sums: TracedArray, indices: object, b: object) -> None:
    """Put into `sums` the total of what falls on each entry."""
    from .indexing import scatter_add  # noqa: PLC0415

    found = place(sums, indices)
    if found.entry is not None:
        assign(_basic(found.view, found.entry), b)
        return
    if not found.indices:
        assign(found.view, b)
        return
    moved, index = found.view, found.indices
    shape = (*index[0].shape, *moved.shape[len(index) :])
    outer = tuple(shape[k] for k in found.order) if found.order else shape
    part = np.broadcast_to(traced(b).astype(sums.dtype), outer)
    if found.order:
        part = np.transpose(part, sorted(range(len(outer)), key=found.order.__getitem__))
    write(moved, apply(scatter_add, part, *index, shape=moved.shape).id)


def place_flat(x: TracedArray, indices: object) -> np.ndarray:
    """Flat positions that an index names, which Python must see."""
    numbers = np.arange(x.size).reshape(x.shape)
    key = tuple(_seen(i) for i in indices) if isinstance(indices, tuple) else _seen(indices)
    return np.asarray(numbers[key])


def _seen(index: object) -> object:
    index = resolve(index)
    return (
        look(index, "used a traced array as the index of ufunc.at")
        if isinstance(index, TracedArray)
        else index
    )


def _rounds(flat: np.ndarray) -> list[np.ndarray]:
    """Positions in `flat` split so that no index comes twice in a part, in order."""
    order = np.argsort(flat, kind="stable")
    sorted_ = flat[order]
    first = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]])
    rank = np.arange(flat.size) - np.repeat(first, np.diff(np.r_[first, flat.size]))
    turn = np.empty(flat.size, int)
    turn[order] = rank
    return [np.flatnonzero(turn == k) for k in range(int(turn.max(initial=-1)) + 1)]


UFUNC_METHODS["at"] = at  # type: ignore[index]  # of every ufunc

# --- functions that write -------------------------------------------------------------------------


@implements(np.put)
def put(a: object, ind: object, v: object, mode: str = "raise") -> None:
    """Values, repeated as needed, stored at flat positions."""
    x, size = target(a), np.size(a)
    index = np.asarray(
        look(ind, "put values at traced positions") if isinstance(ind, TracedArray) else ind
    ).ravel()
    index = (
        index % size if mode == "wrap" else np.clip(index, 0, size - 1) if mode == "clip" else index
    )
    values = np.reshape(traced(v), -1)
    flat = np.reshape(x, -1)
    apart = is_copy(flat)
    flat[index] = (
        values[np.arange(index.size) % values.size] if values.size != index.size else values
    )
    if apart:
        assign(x, np.reshape(flat, x.shape))


@implements(method="put")
def put_method(x: TracedArray, indices: object, values: object, mode: str = "raise") -> None:
    put(x, indices, values, mode)


@implements(method="fill")
def fill(x: TracedArray, value: object) -> None:
    assign(target(x), value)


@implements(np.putmask)
def putmask(a: object, mask: object, values: object) -> None:
    """Where the mask holds, the value at the same flat position, values repeated."""
    x, part = target(a), np.reshape(traced(values), -1)
    n = x.size
    full = part if part.size == n else part[np.arange(n) % part.size]
    assign(x, np.where(mask, np.reshape(full.astype(x.dtype), x.shape), x))


@implements(np.place)
def place_values(arr: object, mask: object, vals: object) -> None:
    """Where the mask holds, the first values in order, repeated as needed."""
    x, part = target(arr), np.reshape(traced(vals), -1)
    held = np.asarray(
        look(mask, "placed values by a traced mask") if isinstance(mask, TracedArray) else mask,
        bool,
    )
    where = np.flatnonzero(held)
    put(x, where, part[np.arange(where.size) % part.size])


@implements(np.fill_diagonal)
def fill_diagonal(a: object, val: object, wrap: bool = False) -> None:
    """Values stored on the main diagonal."""
    x = target(a)
    numbers = np.zeros(x.shape, int)
    np.fill_diagonal(numbers, 1, wrap)
    where = np.flatnonzero(numbers)
    values = np.reshape(traced(val), -1)
    put(x, where, values[np.arange(where.size) % values.size])


@implements(np.put_along_axis)
def put_along_axis(arr: object, indices: object, values: object, axis: int | None = -1) -> None:
    """Values stored at positions matched along one axis."""
    x, index = target(arr), indices if isinstance(indices, TracedArray) else np.asarray(indices)
    if axis is None:
        x, axis = np.reshape(x, -1), 0
    at_ = axis % x.ndim
    grid = [
        np.arange(n).reshape([-1 if k == j else 1 for j in range(x.ndim)])
        for k, n in enumerate(index.shape)
    ]
    x[tuple(index if k == at_ else g for k, g in enumerate(grid))] = values


@implements(method="sort")
def sort_method(
    x: TracedArray,
    axis: int = -1,
    kind: object = None,
    order: object = None,
    *,
    stable: object = None,
) -> None:
    assign(x, np.sort(x, axis=axis))


@implements(method="partition")
def partition_method(
    x: TracedArray, kth: object, axis: int = -1, kind: str = "introselect", order: object = None
) -> None:
    assign(x, np.partition(x, kth, axis=axis))


# --- views and copies by other names --------------------------------------------------------------


@implements(method="view")
def view_method(x: TracedArray, dtype: object = None, type: object = None) -> TracedArray:  # noqa: A002 - NumPy's name
    """The same memory as another array."""
    dtype, type = (None, dtype) if dtype is np.ndarray else (dtype, type)  # noqa: A001
    if type is np.ndarray and dtype is None:
        return x
    if type is not None or (
        dtype is not None
        and (not isinstance(dtype, (str, np.dtype, builtins.type)) or np.dtype(dtype) != x.dtype)
    ):
        raise current().fail(
            "a traced array was viewed as another dtype or class, whose entries are other numbers.",
            "Use `.astype`.",
        )
    return x


@implements(method="tolist")
def tolist(x: TracedArray) -> object:
    """Nested lists of Python numbers; floats stay traced."""
    if x.ndim:
        return [tolist(part) for part in x]
    return item(x)


class Flags:
    """``x.flags``: what NumPy would say of the memory; nothing can be set."""

    __slots__ = ("_array",)

    def __init__(self, array: TracedArray) -> None:
        object.__setattr__(self, "_array", array)

    def __getattr__(self, name: str) -> object:
        if name == "writeable":
            return not (_read_only(self._array) or isinstance(root_of(self._array).link, Fixed))
        if name not in ("c_contiguous", "f_contiguous", "contiguous", "forc", "fnc", "aligned"):
            raise unsupported(f"ndarray.flags.{name}")
        return getattr(layout(self._array).flags, name)

    def __getitem__(self, name: str) -> object:
        return getattr(self, _FLAGS.get(name, name.lower()))

    def __setattr__(self, name: str, value: object) -> None:
        raise current().fail(f"the flag {name!r} of a traced array was set.", "Leave the line out, or set it outside of the function.")

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self, _FLAGS.get(name, name.lower()), value)


_FLAGS = {"C": "c_contiguous", "F": "f_contiguous", "CONTIGUOUS": "c_contiguous", "W": "writeable", "A": "aligned"}
TracedArray.flags = property(Flags)


def _set_strides(x: TracedArray, strides: object) -> None:
    raise current(x).fail("the strides of a traced array were set in place.", "Use numpy.lib.stride_tricks.as_strided.")


TracedArray.strides = property(lambda self: layout(self).strides, _set_strides)
TracedArray.__copy__ = np.copy
TracedArray.__deepcopy__ = lambda self, memo: np.copy(self)


class Flat:
    """``x.flat``: the entries in C order, to read, to store and to walk over."""

    __slots__ = ("array",)

    def __init__(self, array: TracedArray) -> None:
        self.array = array

    def __len__(self) -> int:
        return self.array.size

    def __iter__(self) -> Iterator[object]:
        return iter(np.reshape(self.array, -1))

    def __getitem__(self, key: object) -> object:
        out = np.reshape(self.array, -1)[key]
        return out if out.scalar else TracedArray(out.home, out.id, out.type)

    def __setitem__(self, key: object, value: object) -> None:
        x = self.array
        index = np.arange(x.size)[key]
        put(x, index, value) if np.size(value) else None

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.reshape(self.array, -1).__array__(dtype)

    def copy(self) -> TracedArray:
        return np.ravel(self.array).copy()


TracedArray.flat = property(
    Flat, lambda self, value: assign(self, np.resize(traced(value), self.shape))
)

TracedArray.real = property(real, lambda self, value: assign(real(self), value))


def _store_imag(x: TracedArray, value: object) -> None:
    if x.dtype.kind != "c":
        raise TypeError("array does not have imaginary part to set")
    assign(imag(x), value)


TracedArray.imag = property(imag, _store_imag)
