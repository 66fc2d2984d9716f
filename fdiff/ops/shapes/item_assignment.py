"""Writing with ``x[key] = value``: traced arrays are handles, and a store gives the handle a new value.

The value after a store is a functional update of the value before (``update`` for slices, ``scatter_set`` for index
arrays). A store through a view also updates the array that it is a view of.

Source: NumPy's guide, page "Indexing on ndarrays", section "Assigning values to indexed arrays".
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from opcode import opmap
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import Shape, python_type
from ...foreign_errors import not_foreign
from ...process.forking import late
from ...trace import Array, TracedArray, apply, current
from ...trace.array_links import (
    PendingStores,
    ViewLink,
    in_memory_order,
    is_copy,
    outside,
    positions,
    root_of,
    settled,
)
from ...trace.handler_arguments import resolve
from ...trace.local_arrays import LocalArray, make_traced
from ...trace.recorder import Recorder
from ...user_lines import is_own
from .basic_indexing import basic
from .gather_scatter import scatter_set
from .indexing import IndexTarget, resolve_key
from .shaping import traced

masked_target = late("masked_entries", __package__, "masked_target")
stored_value = late("masked_entries", __package__, "stored_value")

# --- giving a handle another value --------------------------------------------------------------


def write(handle: TracedArray, node: int) -> None:
    """Let `handle` stand for another node, and update all arrays that it is a view of."""
    trace, link = current(handle), settled(handle).link
    if handle.home is not trace and handle.born is trace and link is None:
        handle.node = handle.made = trace.own(handle)  # a copy, made here, of what lies outside
        handle.home = trace
    if handle.home is not trace and handle.home.builder is trace.builder:
        _store_derivative_free(handle, trace)
    if handle.home is not trace:
        raise trace.fail(*trace.outside_store)
    if read_only(handle):
        raise ValueError("assignment destination is read-only")
    node = in_memory_order(handle, node)
    if not isinstance(link, ViewLink) or is_copy(handle):
        if trace.calls is not None:
            trace.calls.stored(handle)
        handle.link, handle.node = outside(handle), node
        return
    put = cast("Callable[..., TracedArray]", link.primitive.structure.put)  # or it would be read-only
    parent = link.parent
    extra = [TracedArray(trace, i, trace.builder.type(i)) for i in link.extra]
    new = put(parent, TracedArray(trace, node, handle.type), *extra, **dict(link.params))
    write(parent, new.id)
    handle.node, link.seen = node, trace.own(parent)


def _store_derivative_free(handle: TracedArray, trace: Recorder) -> None:
    """Let a handle be written to where gradients are off, if none is lost, or where they are on again."""
    if trace.derivative_free and handle.home.guards.depends(handle.id):
        fact = "an array that has a derivative was written to where gradients are off."
        way = "Write to a copy, `a = a.copy()`, or store `fdiff.stop_gradient(value)` where gradients are on."
        raise trace.fail(fact, way)
    handle.home = trace


def assign(handle: TracedArray, value: object) -> None:
    """Store `value`, broadcast and converted, into every entry of `handle`."""
    if handle.scalar or handle.weak:
        kind = python_type(handle.dtype).__name__ if handle.weak else f"numpy.{handle.dtype.name}"
        raise TypeError(f"'{kind}' object does not support item assignment")
    array = traced(value)
    if array.type.dtype.kind == "c" != handle.dtype.kind:
        array = np.real(array)
    part = _of_axes(array, handle.ndim, handle.dtype)
    if part.shape != handle.shape:
        shapes = f"from shape {printed(part.shape)} into shape {printed(handle.shape)}"
        part = stretched(part, handle.shape, f"could not broadcast input array {shapes}")
    write(handle, part.id)


def _of_axes(array: TracedArray, ndim: int, dtype: np.dtype) -> TracedArray:
    """An array in this dtype, without axes of one entry in front of the last `ndim` axes."""
    part = TracedArray(array.home, array.id, array.type).astype(dtype)
    count = next((k for k, n in enumerate(part.shape[: max(part.ndim - ndim, 0)]) if n != 1), part.ndim - ndim)
    return cast("TracedArray", np.reshape(part, part.shape[count:])) if count > 0 else part


def printed(shape: Shape) -> str:
    """A shape as NumPy's messages show it."""
    return str(shape).replace(" ", "")


def stretched(part: TracedArray, shape: Shape, fault: str) -> Array:
    """`part` broadcast to `shape`; ValueError with the message `fault` where that is impossible."""
    try:
        return np.broadcast_to(part, shape)  # NumPy asks the tracer
    except not_foreign(ValueError):
        raise ValueError(fault) from None


def target(array: object) -> TracedArray:
    """The traced array to write to: `array`, if it is traced or was made inside the traced function; else an error."""
    if isinstance(array, TracedArray):
        current(array)
        return array
    if isinstance(array, LocalArray):
        return make_traced(array)
    raise current().fail(
        f"a traced value was stored into {'an array' if isinstance(array, np.ndarray) else 'a ' + type(array).__name__}"
        " that fdiff did not see being made; its derivative would be dropped.",
        "Store into a copy made in the function: `a = np.array(a)`.",
    )


# --- x[key] = value -----------------------------------------------------------------------------


# whose frames stand between a store and the user's; frames that repeat a store are not among them
_GATES = ("fdiff.trace.looping.call_gates", "fdiff.trace.looping.call_log")


def _by_compiled_code() -> bool:
    """Whether the store under way is not one of Python code: that which runs calls something instead."""
    frame = sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_GATES):
        frame = frame.f_back
    return not is_own(frame.f_code.co_filename) and frame.f_code.co_code[frame.f_lasti] != opmap["STORE_SUBSCR"]


def setitem(x: TracedArray, key: object, value: object) -> None:
    """``x[key] = value`` for any key NumPy takes."""
    trace = current(x)
    if (
        key.__class__ is int
        and isinstance(value, TracedArray)
        and settled(value).link.__class__ is ViewLink
        and root_of(value) is root_of(x)
        and _by_compiled_code()
    ):
        fact = (
            "compiled code stored a row of a traced array into the array itself, as `shuffle` of numpy.random does,"
            " which would store one row twice."
        )
        raise current().fail(fact, "For rng.shuffle(x) write x = x[rng.permutation(len(x))], which draws the same order.")
    if x.home.eager and x.home is trace and x.home.put(x, key, value):
        return
    if x.scalar or x.weak:
        assign(x, value)
    value = resolve(value)
    key = resolve(key)
    if _masked(x, key, value):
        return
    index_target = resolve_key(x, key)
    if index_target.entry is not None and np.ndim(value) == 0:
        spot = _memory_position(x, index_target.entry)
        if spot is not None:
            _store_entry(*spot, value)
            return
    if index_target.entry is not None:
        assign(basic(index_target.view, index_target.entry), value)
        return
    if not index_target.indices:
        assign(index_target.view, value)
        return
    shape = picked_shape(index_target)
    part = _of_axes(traced(value), len(shape), x.dtype)
    shapes = f"of shape {printed(np.shape(value))} could not be broadcast to indexing result of shape {printed(shape)}"
    part = as_gathered(stretched(part, shape, f"shape mismatch: value array {shapes}"), index_target)
    write(index_target.view, apply(scatter_set, index_target.view, part, *index_target.indices).id)


def picked_shape(index_target: IndexTarget) -> Shape:
    """The shape of ``x[key]``."""
    if index_target.entry is not None:
        return ()
    indices = index_target.indices
    shape = (*indices[0].shape, *index_target.view.shape[len(indices) :]) if indices else index_target.view.shape
    return tuple(shape[k] for k in index_target.order) if index_target.order else shape


def as_gathered(part: TracedArray, index_target: IndexTarget) -> Array:
    """The stored values with their axes in the order of the gather."""
    return np.transpose(part, np.argsort(index_target.order).tolist()) if index_target.order else part


TracedArray.__setitem__ = setitem


def _masked(x: TracedArray, key: object, value: Array) -> bool:
    """``x[mask] = value`` as a `where`, if the shape of the value does not depend on how many entries the mask has."""
    by = masked_target(x, key)
    if by is None:
        return False
    view, mask, behind = by.view, by.mask, by.type.behind
    part = stored_value(by, value)
    if part is None:
        if np.ndim(value) > behind and np.size(value) != 1:
            return False
        part = traced(value)
        part = np.reshape(part, ()) if part.ndim > behind else part
    mask = np.reshape(mask, (*mask.shape, *(1,) * behind))
    assign(view, np.where(mask, part.astype(view.dtype), view))
    return True


def _memory_position(x: TracedArray, entry: tuple[int, ...]) -> tuple[TracedArray, int] | None:
    """The handle whose memory one entry of `x` lies in, and the entry's flat position there."""
    if not isinstance(settled(x).link, ViewLink) or is_copy(x):
        flat = 0
        for n, k in zip(x.shape, entry, strict=True):
            flat = flat * n + k
        return None if read_only(x) or x.home is not current() else (x, flat)
    places = positions(x)
    if places is None or read_only(x):
        return None
    root, flat = places
    return None if root.home is not current() else (root, int(flat[entry]))


def read_only(x: TracedArray) -> bool:
    """Whether NumPy would refuse a store into `x`."""
    link = settled(x).link
    while isinstance(link, ViewLink) and not is_copy(x):
        if link.primitive.structure.put is None or link.fixed:
            return True
        x = link.parent
        link = settled(x).link
    real = outside(x)
    return real is not None and not real.writeable


def _store_entry(root: TracedArray, flat: int, value: object) -> None:
    part = traced(value)
    if part.type.dtype.kind == "c" != root.dtype.kind:
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    part = TracedArray(part.home, part.id, part.type).astype(root.dtype)
    stored = current().own(part)  # first: a view of `root` reads what waits to be stored there
    if (log := current().calls) is not None:
        log.stored(root)
    if not isinstance(root.link, PendingStores):
        root.node, root.link = root.id, PendingStores(outside(root))
    root.link.entries[flat] = stored
