"""What a traced array knows of memory: whose view it is, and what has been stored and not read.

A traced array is a handle onto a node. A store puts another node behind the handle; a view finds
its entries anew when the handle it was taken from has changed. NumPy itself decides what is a view:
`layout` lays an array of the same strides over memory that is never touched, and the reshape is
tried on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from ..arraytype import ArrayType
from ..primitive import PRIMITIVES, Primitive
from ..tape import INPUT, Params

if TYPE_CHECKING:
    from .recording import Trace
    from .traced_array import TracedArray

_Flag = Literal["readonly", "writeonly", "allocate"]
_SCANS = frozenset(("cumsum", "cumprod", "cummax"))
_STORED = frozenset(("update", "scatter_set"))
_KEPT = _SCANS | _STORED  # laid out as their first operand
_FIRST = _KEPT | {"slice", "transpose", "reshape", "broadcast_to"}  # laid out by it
PARTS = frozenset(("real", "imag"))  # views of part of each entry
SMALL = 4096  # positions of the entries of a view are counted out up to this size


class Link(Protocol):
    """What stands between a handle and its node."""

    def current(self, handle: TracedArray, /) -> int: ...


class Outside:
    """The handle is an array that `f` reads from outside; stores wait until the run is over."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def current(self, handle: TracedArray) -> int:
        return handle.node


class View:
    """The handle is a view of `parent`: ``primitive(parent, *extra, **params)``.

    A view that is `fixed` cannot be written to.
    """

    __slots__ = ("extra", "fixed", "flat", "params", "parent", "primitive", "seen")

    def __init__(
        self,
        parent: TracedArray,
        primitive: Primitive,
        params: Params,
        seen: int,
        extra: tuple[int, ...] = (),
        *,
        fixed: bool = False,
    ) -> None:
        self.parent = parent
        self.primitive = primitive
        self.params = params
        self.seen = seen
        self.extra = extra
        self.fixed = fixed
        self.flat: np.ndarray | None = None

    def current(self, handle: TracedArray) -> int:
        """The node of the view as the parent is now."""
        above = self.parent
        simple = above.link is None and above.home is handle.home
        parent = above.node if simple else handle.home.own(above)
        if parent != self.seen:
            if is_copy(handle):
                handle.link = None
                return handle.node
            args = (parent, *self.extra)
            handle.node = handle.home.add(self.primitive, args, self.params)
            self.seen = parent
        return handle.node

    def step(self, array: np.ndarray) -> np.ndarray:
        """The view taken of a concrete array, by NumPy."""
        if self.primitive.name in PARTS:
            return getattr(array, self.primitive.name)
        return self.primitive.evaluate(array, **dict(self.params))  # type: ignore[return-value] - a view of an array is one


class Stores:
    """Single entries stored into a handle that is no view, by position; not yet one node."""

    __slots__ = ("before", "entries")

    def __init__(self, before: Outside | None) -> None:
        self.before = before
        self.entries: dict[int, int] = {}

    def current(self, handle: TracedArray) -> int:
        """The node with all of them stored."""
        node = handle.home.store(handle.node, handle.type, self.entries)
        handle.link = self.before
        handle.node = as_made(handle, node)
        return handle.node


def outside(handle: TracedArray) -> Outside | None:
    """The link to an array of the user's, where the handle stands for one."""
    link = handle.link.before if isinstance(handle.link, Stores) else handle.link
    return link if isinstance(link, Outside) else None


def store(trace: Trace, base: int, type_: ArrayType, entries: dict[int, int]) -> int:
    """Node of `base` with entries in place: all of them, a few that lie evenly, or scattered."""
    places = sorted(entries)
    parts = tuple(
        [trace.add(PRIMITIVES["reshape"], (entries[k],), (("shape", (1,)),)) for k in places]
    )
    values = (
        parts[0] if len(parts) == 1 else trace.add(PRIMITIVES["concatenate"], parts, (("axis", 0),))
    )
    shape = (("shape", type_.shape),)
    if len(places) == type_.size:
        return trace.add(PRIMITIVES["reshape"], (values,), shape)
    flat = trace.add(PRIMITIVES["reshape"], (base,), (("shape", (type_.size,)),))
    gaps = set(np.diff(places).tolist())
    if len(gaps) <= 1:
        params = (("starts", (places[0],)), ("steps", (gaps.pop() if gaps else 1,)))
        new = trace.add(PRIMITIVES["update"], (flat, values), params)
    else:
        where = trace.builder.constant(np.array(places))
        new = trace.add(PRIMITIVES["scatter_set"], (flat, values, where))
    return trace.add(PRIMITIVES["reshape"], (new,), shape)


def is_copy(handle: TracedArray) -> bool:
    """Whether NumPy would have copied: only a reshape may, and its shadow tells."""
    view = handle.link
    if not isinstance(view, View) or view.primitive.name != "reshape":
        return False
    if handle.type.size == 0 or max(view.parent.ndim, 1) == 1 == handle.ndim:
        return False
    source = layout(view.parent)
    return not np.shares_memory(source, view.step(source))


def layout(handle: TracedArray) -> np.ndarray:
    """An array with the strides NumPy would give the handle's, over memory never touched."""
    if isinstance(handle.link, View) and not handle.link.extra and not is_copy(handle):
        return handle.link.step(layout(handle.link.parent))
    if isinstance(handle.link, View) and handle.link.extra:  # entries apart from one another
        apart = np.empty(tuple(2 * n for n in handle.shape), handle.dtype)
        return apart[(slice(None, None, 2),) * handle.ndim]
    if isinstance(handle.link, View):  # a reshape that copies
        return np.empty(handle.shape, handle.dtype)
    trace = handle.home
    given = outside(handle) is not None or any(map(partial(is_, handle), trace.arguments))
    if given and handle.ndim:
        return _strided(handle.type, _strides(trace, handle.made))
    return _laid_out(trace, handle.made, handle.type)


def memory_layout(array: np.ndarray) -> tuple[int, ...]:
    """Strides counted in entries; () for C order.

    Those of entries that lie in records are as small as they can be with the same gaps.
    """
    if array.flags.c_contiguous:
        return ()
    found, due, step, size = [0] * array.ndim, array.itemsize, 1, array.itemsize
    whole = not any(stride % size for stride in array.strides)
    for k in reversed(slowest_first(array.strides)):
        n, stride = array.shape[k], array.strides[k]
        if n == 1:
            found[k] = step
        elif stride:
            near = step if abs(stride) == due else 2 * step
            found[k] = stride // size if whole else int(np.copysign(near, stride))
            due, step = abs(stride) * n, abs(found[k]) * n
    return tuple(found)


def slowest_first(strides: Sequence[int]) -> list[int]:
    """The axes from the slowest to the fastest in memory."""
    return sorted(range(len(strides)), key=lambda k: (-abs(strides[k]), k))


def _strides(trace: Trace, node_id: int) -> tuple[int, ...]:
    """The layout of an input, which the tape relies on from now on."""
    if (known := trace.layouts.get(node_id)) is None:
        given = trace.looks.given.get(node_id)
        if hasattr(given, "home"):  # of an enclosing trace
            given = layout(given)  # type: ignore[arg-type] - only a traced array has a home
        known = memory_layout(given) if isinstance(given, np.ndarray) else ()
        trace.layouts[node_id] = known
    return known


def _strided(type_: ArrayType, strides: tuple[int, ...]) -> np.ndarray:
    """An array with these strides, counted in entries, over memory never touched."""
    if not strides:
        return np.empty(type_.shape, type_.dtype)
    reach = [(n - 1) * s for n, s in zip(type_.shape, strides, strict=True)]
    first = -sum(r for r in reach if r < 0)
    memory = np.empty(max(sum(map(abs, reach)) + 1, 1), type_.dtype)
    steps = [s * memory.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(memory[first:], type_.shape, steps)


def _laid_out(trace: Trace, node_id: int, type_: ArrayType) -> np.ndarray:
    """Of a fresh array: elementwise results keep the order of their operands, all else is C."""
    return _empty(type_, _axes_in_memory(trace, node_id))


def _empty(type_: ArrayType, order: Sequence[int]) -> np.ndarray:
    """A dense array over memory never touched, its axes in this order."""
    empty = np.empty([type_.shape[k] for k in order], type_.dtype)
    return empty.transpose(sorted(range(len(order)), key=order.__getitem__))


def _axes_in_memory(trace: Trace, node_id: int) -> list[int]:
    """The axes of a node from the slowest to the fastest in memory."""
    known = slowest_first(strides_of(trace, node_id))
    return known or list(range(trace.builder.type(node_id).ndim))


def strides_of(trace: Trace, node_id: int) -> tuple[int, ...]:
    """Strides of a node, counted in entries; () for C order."""
    known, stack = trace.axes, [node_id]
    while stack:
        i = stack[-1]
        models = () if i in known else _models(trace, i)
        if missing := [a for a in models if a not in known]:
            stack += missing
            continue
        if i not in known:
            known[i] = _like(trace, i, models) if models else _strides_of_input(trace, i)
        stack.pop()
    return known[node_id]


def _strides_of_input(trace: Trace, node_id: int) -> tuple[int, ...]:
    node = trace.builder.nodes[node_id]
    return _strides(trace, node_id) if node.primitive is INPUT and node.type.ndim > 1 else ()


def _models(trace: Trace, node_id: int) -> tuple[int, ...]:
    """The operands whose strides decide those of a node; of all others the node lies in C order."""
    node = trace.builder.nodes[node_id]
    name = node.primitive.name
    if name in _FIRST:
        return node.args[:1]
    alike = node.primitive.family == "elementwise" and node.primitive.name != "copy"
    return node.args if node.type.ndim > 1 and (alike or name == "concatenate") else ()


def _like(trace: Trace, node_id: int, models: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a node, as NumPy derives them from those of its operands; () for C order."""
    known, node = trace.axes, trace.builder.nodes[node_id]
    name, shape = node.primitive.name, node.type.shape
    if not any(known[a] for a in models) and name not in {"transpose", "broadcast_to"}:
        return ()
    if name in _KEPT:
        return known[models[0]]
    given = [_strided(trace.builder.type(a), known[a]) for a in models]
    if name == "concatenate":  # NumPy is asked of their first entries: it touches what it joins
        joined = np.concatenate([g[(slice(2),) * g.ndim] for g in given], **dict(node.params))  # type: ignore[call-overload] - parameters are objects to the checker
        return memory_layout(_empty(node.type, slowest_first(joined.strides)))
    if name in _FIRST:
        return memory_layout(node.primitive.evaluate(*given, **dict(node.params)))  # type: ignore[arg-type] - one array, for there is one output
    shown = [np.broadcast_to(g, shape) for g in given]
    read: list[_Flag] = ["readonly"]
    flags: list[list[_Flag]] = [*(read for _ in shown), ["writeonly", "allocate"]]
    dtypes = [*(g.dtype for g in given), node.type.dtype]
    walk = np.nditer([*shown, None], ["zerosize_ok"], flags, dtypes)
    return memory_layout(walk.operands[-1])


def memory_axes(x: TracedArray) -> list[int]:
    """The axes of `x` from the slowest to the fastest in memory."""
    return slowest_first(layout(x).strides)


def laid(trace: Trace, node_id: int, axes: list[int]) -> int:
    """Node of the same entries side by side, its axes in this order, the slowest first.

    Constants are not folded here: equal ones are one node, which has one layout.
    """
    if len(axes) < 2 or not trace.mutable:
        return node_id
    in_c, add, line = list(range(len(axes))), trace.builder.add, trace.where()
    dense = () if axes == in_c else memory_layout(_empty(trace.builder.type(node_id), axes))
    if strides_of(trace, node_id) == dense:
        return node_id
    if axes == in_c:
        return add(PRIMITIVES["copy"], (node_id,), (), line)
    turned = add(PRIMITIVES["transpose"], (node_id,), (("axes", tuple(axes)),), line)
    copied = add(PRIMITIVES["copy"], (turned,), (), line)
    back = tuple(sorted(in_c, key=axes.__getitem__))
    return add(PRIMITIVES["transpose"], (copied,), (("axes", back),), line)


def as_made(handle: TracedArray, node_id: int) -> int:
    """Node to be put behind `handle`, whose entries have places in memory that no store changes."""
    trace = handle.home
    if handle.ndim < 2 or not trace.mutable:
        return node_id
    node = trace.builder.nodes[node_id]
    if node.primitive.name in _STORED and node.args[0] == handle.id:
        return node_id
    viewed = isinstance(handle.link, View)
    axes = memory_axes(handle) if viewed else _axes_in_memory(trace, handle.made)
    return laid(trace, node_id, axes)


def positions(handle: TracedArray) -> tuple[TracedArray, np.ndarray] | None:
    """The handle whose memory a view looks at, and where in it; None for a large one."""
    view = handle.link
    if not isinstance(view, View):
        if handle.type.size > SMALL:
            return None
        return handle, np.arange(handle.type.size).reshape(handle.shape)
    if view.extra or view.primitive.name in PARTS or is_copy(handle):
        return None
    above = positions(view.parent)
    if above is None:
        return None
    if view.flat is None:
        view.flat = view.step(above[1])
    return above[0], view.flat


def root_of(handle: TracedArray) -> TracedArray:
    """The handle whose memory this one looks at: itself if it is no view."""
    while isinstance(handle.link, View) and not is_copy(handle):
        handle = handle.link.parent
    return handle
