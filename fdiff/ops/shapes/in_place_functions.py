"""Functions that write into an array: ``out=``, ``+=``, `copyto`, `put`, `putmask`, `place`, ``sort()``.

Each becomes a store through `item_assignment.py`: a new value of the array that the handle stands for.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...arraytype import broadcast, python_type
from ...hooks import hooks
from ...process.forking import late
from ...trace import Array, TracedArray, guarded_value, implements
from ...trace.array_links import is_copy
from ...trace.handler_arguments import resolve
from ...trace.static_arguments import settled
from ..entrywise.operators import BINARY_OPERATORS, operator_of
from .item_assignment import assign, printed, target
from .shaping import traced

put_part = late("masked_entries", __package__, "put_part")

# --- out= and += ----------------------------------------------------------------------------------


@implements(np.copyto)
def copyto(dst: object, src: object, casting: str = "same_kind", where: object = True) -> None:
    """Entries of `src` stored into `dst`, where `where` holds."""
    handle, part = target(dst), traced(src)
    kind = python_type(part.dtype) if part.weak else part.dtype
    if not isinstance(kind, type) and not np.can_cast(kind, handle.dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {kind!r} to {handle.dtype!r} according to the rule '{casting}'"
        )
    assign(handle, part if where is True else np.where(where, part.astype(handle.dtype), handle))


def fill_out(out: object, result: object, where: object, name: str) -> object:
    """Store a result into the array given as ``out=``; that array."""
    handle, part = target(out), traced(result)
    if part.shape != handle.shape and (
        part.ndim > handle.ndim or broadcast(part.shape, handle.shape) != handle.shape
    ):
        raise ValueError(
            f"non-broadcastable output operand with shape {printed(handle.shape)} doesn't match the broadcast shape {printed(part.shape)}"
        )
    if not np.can_cast(part.dtype, handle.dtype, "same_kind"):
        raise np._core._exceptions._UFuncOutputCastingError(
            getattr(np, name, np.add), "same_kind", part.dtype, handle.dtype, 0
        )
    copyto(handle, part, "same_kind", where)
    return out


hooks.fill_out = fill_out


def _in_place(name: str, ufunc: np.ufunc) -> Callable[..., object]:
    compute = operator_of(ufunc)

    def operate(self: TracedArray, other: Array) -> object:
        if self.scalar or self.weak:  # Python falls back on `x = x + other`, but for repeated sequences
            return self * other if ufunc is np.multiply else NotImplemented
        if ufunc is np.matmul and not (self.ndim and np.ndim(other) > 1):
            raise ValueError(
                "inplace matrix multiplication requires the first operand to have at least one dimension"
                " and the second at least two dimensions."
            )
        out = compute(self, resolve(other))
        if out is NotImplemented or put_part(self, out):
            return self if out is not NotImplemented else out
        if ufunc is np.matmul and out.shape != self.shape:
            raise ValueError(f"matmul: the result, {printed(out.shape)}, does not fit the output operand, of shape {printed(self.shape)}")
        return fill_out(self, out, True, name)

    return operate


for _name, _ufunc in BINARY_OPERATORS.items():
    setattr(TracedArray, f"__i{_name}__", _in_place(_ufunc.__name__, _ufunc))


# --- functions that store into their argument -----------------------------------------------------


@implements(np.put)
def put(a: Array, ind: object, v: object, mode: str = "raise") -> None:
    """Values, repeated as needed, stored at flat positions."""
    x, size = target(a), np.size(a)
    index = np.asarray(settled(ind)).ravel()
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
    if traced(value).ndim:
        raise ValueError("setting an array element with a sequence.")
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
        guarded_value(mask, "placed values by a traced mask") if isinstance(mask, TracedArray) else mask,
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
