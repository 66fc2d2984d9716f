"""A recording under way in terms of nodes: what traced arrays ask of the trace they belong to.

A `Recorder` adds nodes to a tape that grows, lifts Python values to nodes, and holds what is known
of the run: its guard set, the memory layouts of its nodes, the errors it has met. A `Handle` is the
part of a traced array that a recorder deals with: the node it names. Two classes are derived from
these: `TracedArray`, which NumPy takes for an array, and `Trace`, which hands out traced arrays.
Tapes by overloading: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
section 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, cast

import fdiff.intact_numpy as np

from ..arraytype import ArrayType, example_of
from ..errors import InputError, LeakError, TraceError, failure, message
from ..foreign_errors import hiding
from ..primitive import FUNCTIONS, PRIMITIVES, Primitive
from ..tape import CONSTANT, Builder
from ..user_lines import Line, show_line, user_line
from .branching.guards import GuardSet
from .node_strides import (
    NodeLayouts,
    dense_example,
    memory_layout,
    slowest_first,
)
from .session import Session

if TYPE_CHECKING:
    from .user_calls import UserCalls

NEVER = 1 << 62
FOLD_LIMIT = 4096  # constants up to this many entries are folded while tracing
KEEP_NO_TRACED = "Return it from the function instead of storing it."

# Classes of arrays that may become constants; `local_arrays.py` adds its own.
ARRAY_CLASSES: set[type] = {np.ndarray, np.memmap}

TracedHandle = TypeVar("TracedHandle", bound="Handle")
NumberClass = type[bool] | type[int] | type[float] | type[complex]  # that Python asks for

# Python loops by the line where each begins: how often it became a node, of at most how many trips,
# of how many calls, and of several paths how many; or else why it was unrolled.
Loops = tuple[tuple[Line, int, int, int, str], ...]


class Link(Protocol):
    """A link between a handle and its node: a view, pending stores, the caller's array."""

    def current(self, handle: Handle, /) -> int:
        """The node that holds the entries now."""
        ...

    def example(self, handle: Handle, /) -> np.ndarray | None:
        """An untouched array of the strides that the link decides; None where it decides none."""
        ...


class Handle:
    """Names a node of a trace: all that a recorder knows of a traced array.

    `home` is the trace of the node, `born` the trace that ran when the handle was made. `node` is
    the node as it is now and `made` the one it was made for, whose layout it keeps. `scalar` tells
    that NumPy would give a scalar, `weak` that it stands for a Python number.
    """

    __slots__ = ("born", "home", "link", "made", "node", "scalar", "type", "weak")

    home: Recorder
    born: Recorder
    node: int
    made: int
    type: ArrayType
    scalar: bool
    weak: bool
    link: Link | None

    @property
    @hiding
    def id(self) -> int:
        """The node that holds the entries now."""
        link = self.link
        return self.node if link is None else link.current(self)

    def weakened(self) -> Self:
        """The scalar as a Python number, which takes the dtype of its partner."""
        self.weak = True
        return self

    def example(self) -> np.ndarray:
        """An array with the strides NumPy would give this one, whose memory is never touched."""
        link, trace = self.link, self.home
        if link is not None and (linked := link.example(self)) is not None:
            return linked
        if self.type.shape and any(self is argument for argument in trace.arguments):
            return example_of(self.type, trace.layouts.of_input(self.made))
        return dense_example(self.type, trace.layouts.axes(self.made))


class Recorder:
    """One recording under way: its builder, and what it met from outside.

    `call` is the public call, for messages. `refused` is the first value that was asked for and not
    given, or why the run ends: the trace is void. `shown` tells that text was made of a value.
    `tainted` tells that what was entered depended on a value, not on types alone.
    The outermost trace of a thread holds `session`, which captures what `f` reads from outside,
    `texts` made of differentiated values, those `printed` by ``%``, and `inner`, the guard sets of
    traces that ended in it.
    """

    eager = False  # whether nodes are computed as they are entered
    derivative_free = False  # whether nothing that is entered has a derivative
    outside_store: tuple[
        str, str
    ] = (  # of a store into an array of a trace around: the fact, and the way out
        "an array of an enclosing function was written to while a function inside was traced.",
        "Write to a copy, and return it.",
    )
    calls: UserCalls | None = None  # the log of the user's calls, from the first look on
    listener: UserCalls | None = None  # the same, while each call asks it
    first_look: Callable[[Recorder], None] | None = None  # before there is a log
    milestone = NEVER  # the node at which it is looked for loops; none where loops are unrolled
    ported = False  # whether arrays have the methods of recorded arrays, of which it read some

    def __init__(self, call: str, *, lines: bool = True, builder: Builder | None = None) -> None:
        self.builder = builder or Builder()
        self.call = call
        self.lines = lines  # whether nodes remember the user's line that runs
        self.mutable = lines  # whether code of the user runs, which may store into arrays
        self.line: Line | None = None  # where `lines` is off: the line of every node
        self.alive = False
        self.guards = GuardSet(self.builder, self.fail)
        self.layouts = NodeLayouts(self.builder, self.guards)
        self.arguments: Sequence[Handle] = ()
        self.refused: BaseException | None = None
        self.shown = False
        self.only_here = False  # whether a condition was asked that holds at this point alone
        self.ties: set[tuple[int, int, bool]] = set()  # equal nodes, of which one was to be larger
        self.tainted = False
        self.session: Session | None = None
        self.texts: set[str] = set()
        self.printed: list[float] = []
        self.inner: list[GuardSet] = []
        self.written: Sequence[int] = ()  # nodes whose values later calls are to write
        self._numbers: dict[tuple[object, np.dtype], int] = {}

    def where(self, depth: int = 1) -> Line | None:
        """The line that is being run; at least `depth` frames above this one are not the user's."""
        return user_line(depth + 1) if self.lines else self.line

    def fail(self, fact: str, way_out: str = "") -> TraceError:
        """The error for something `f` did that cannot go on the tape."""
        return TraceError(message(self.call, fact, way_out, self.where()))

    def ufunc(self, ufunc: np.ufunc, operands: tuple[object, ...]) -> object:
        """``ufunc(*operands)``, in a trace whose nodes are computed as they are entered."""
        raise NotImplementedError

    def look(self) -> None:
        """Look whether the user's code is in a loop that may be worth logging."""
        if self.calls is not None:
            self.calls.look()
        elif self.first_look is not None:
            self.first_look(self)

    def close(self) -> None:
        """End the recording under way."""
        raise NotImplementedError

    def give_up(self) -> None:
        """End it as far as this thread can, where it does not run any more."""
        raise NotImplementedError

    def is_running(self) -> bool:
        """Whether the code runs that has begun it."""
        raise NotImplementedError

    # --------------------------------------------------------------------------- values as nodes

    def own(self, handle: Handle) -> int:
        """Id of a traced array in this trace; one of an enclosing trace becomes an input."""
        if handle.home is self:
            return handle.id
        if not handle.home.alive:
            raise leaked(handle)
        if handle.home.builder is self.builder:  # the same trace: see `derivative_free_trace.py`
            return handle.id
        return self.enclosing(handle)

    def adopt(self, handle: Handle) -> None:
        """Take a handle that was made while this trace was running."""

    def seen(self, handle: TracedHandle) -> TracedHandle:
        """A handle as NumPy's functions are given it."""
        return handle

    def enclosing(self, handle: Handle) -> int:
        """Id of the input that stands for a traced array of an enclosing trace."""
        raise NotImplementedError

    def lift(self, value: object, dtype: np.dtype | None = None) -> int:
        """Id of `value` as a node of dtype `dtype` (its own where left out)."""
        if not isinstance(value, Handle):
            if (handle := getattr(value, "handle", None)) is not None:
                return self.lift(handle, dtype)
            if dtype is not None and type(value) in (int, float):
                return self.number(cast("float", value), dtype)
            return self._lift_plain(value, dtype)
        node = self.own(value)
        if dtype is not None and value.type.dtype != dtype:
            return self.add(PRIMITIVES["convert"], (node,), (("dtype", dtype),))
        return node

    def _lift_plain(self, value: object, dtype: np.dtype | None) -> int:
        """Id of the constant that an array, or what NumPy makes an array of, is."""
        array = np.asarray(value)
        if isinstance(value, np.ndarray) and type(value) not in ARRAY_CLASSES:
            name = type(value).__name__
            fact = f"an array of type {name} met a traced array, and such arrays are not supported."
            raise self.fail(fact, "Use a plain array: numpy.asarray(a), or a.filled(...).")
        if array.dtype == object:
            return self.lift(assemble(array, self), dtype)
        if array.dtype.kind not in "biufc":
            fact = f"NumPy arrays of dtype {array.dtype} cannot be traced."
            raise InputError(message(self.call, fact, "Use arrays of numbers.", self.where()))
        return self._lift_array(array, array.dtype.newbyteorder("=") if dtype is None else dtype)

    def number(self, value: float, dtype: np.dtype) -> int:
        """Id of the constant that a Python number is."""
        node = self._numbers.get((value, dtype))
        if node is None:
            node = self.builder.constant(np.array(value, dtype), _scalar_types(dtype))
            if value:  # not -0.0, which equals 0.0
                self._numbers[value, dtype] = node
        return node

    def _lift_array(self, array: np.ndarray, dtype: np.dtype) -> int:
        """A constant of the tape; an array of one repeated value is a scalar, broadcast."""
        copied = np.array(array, dtype=dtype, order="C")
        if copied.size > 1 and copied.dtype.kind in "fb":
            first = copied.ravel()[:1]
            if copied.tobytes() == first.tobytes() * copied.size:
                scalar = self.builder.constant(first.reshape(()))
                node = self.add(PRIMITIVES["broadcast_to"], (scalar,), (("shape", copied.shape),))
                return self._with_layout_of(array, node)
        return self._with_layout_of(array, self.builder.constant(copied))

    def _with_layout_of(self, array: np.ndarray, node: int) -> int:
        """The node of a constant, or a copy of it if an equal one has another layout."""
        layout = memory_layout(array)
        if array.ndim < 2 or self.layouts.agrees(node, layout):
            return node
        return self.copy_in_order(node, slowest_first(layout) or list(range(array.ndim)))

    # ------------------------------------------------------------------------------------- nodes

    def add(
        self,
        primitive: Primitive,
        args: tuple[int, ...],
        params: tuple[tuple[str, object], ...] = (),
        line: Line | None = None,
        types: tuple[ArrayType, ...] | None = None,
    ) -> int:
        """Add a node; one whose arguments are all small constants is computed at once.

        The `line` is looked for where it is not given, the `types` are inferred.
        """
        builder = self.builder
        if primitive.lowering.shorten is not None:
            shorter, args = primitive.lowering.shorten(builder, args, params)
            if shorter is not None:
                return shorter
        node_id = builder.add(primitive, args, params, line or self.where(2), types)
        nodes = builder.nodes
        if (
            args
            and nodes[args[0]].primitive is CONSTANT
            and all(nodes[a].primitive is CONSTANT for a in args)
        ):
            types = nodes[node_id].types
            if len(types) == 1 and types[0].size <= FOLD_LIMIT and primitive.lowering.folds:
                with np.errstate(all="ignore"):
                    value = primitive.rules.evaluate(
                        *[nodes[a].value for a in args], **dict(params)
                    )
                folded = builder.constant(np.array(value, dtype=types[0].dtype, order="C"))
                return folded if self._same_layout(folded, node_id) else node_id
        return node_id

    def _same_layout(self, folded: int, node_id: int) -> bool:
        """Whether the constant may take the place of the node: equal constants share one layout."""
        if not self.mutable or self.builder.type(node_id).ndim < 2:
            return True
        return self.layouts.agrees(folded, self.layouts.of(node_id))

    def copy_in_order(self, node_id: int, axes: list[int]) -> int:
        """Node of the same entries without gaps, its axes in this order, the slowest first.

        Constants are not folded here: equal ones are one node, which has one layout.
        """
        if len(axes) < 2 or not self.mutable:
            return node_id
        in_c, add, line = list(range(len(axes))), self.builder.add, self.where()
        type_ = self.builder.type(node_id)
        dense = () if axes == in_c else memory_layout(dense_example(type_, axes))
        if self.layouts.of(node_id) == dense:
            return node_id
        if axes == in_c:
            return add(PRIMITIVES["copy"], (node_id,), (), line)
        turned = add(PRIMITIVES["transpose"], (node_id,), (("axes", tuple(axes)),), line)
        copied = add(PRIMITIVES["copy"], (turned,), (), line)
        back = tuple(sorted(in_c, key=axes.__getitem__))
        return add(PRIMITIVES["transpose"], (copied,), (("axes", back),), line)

    def store(self, base: int, type_: ArrayType, entries: dict[int, int]) -> int:
        """Node of `base` with single entries, by flat position, stored over it.

        All entries make a new array, a few at even distances an update, others a scatter.
        """
        places = sorted(entries)
        unit_shape = (("shape", (1,)),)
        parts = tuple([self.add(PRIMITIVES["reshape"], (entries[k],), unit_shape) for k in places])
        values = parts[0]
        if len(parts) > 1:
            values = self.add(PRIMITIVES["concatenate"], parts, (("axis", 0),))
        shape = (("shape", type_.shape),)
        if len(places) == type_.size:
            return self.add(PRIMITIVES["reshape"], (values,), shape)
        flat = self.add(PRIMITIVES["reshape"], (base,), (("shape", (type_.size,)),))
        gaps = set(np.diff(places).tolist())
        if len(gaps) <= 1:
            params = (("starts", (places[0],)), ("steps", (gaps.pop() if gaps else 1,)))
            new = self.add(PRIMITIVES["update"], (flat, values), params)
        else:
            where = self.builder.constant(np.array(places))
            new = self.add(PRIMITIVES["scatter_set"], (flat, values, where))
        return self.add(PRIMITIVES["reshape"], (new,), shape)


@lru_cache(maxsize=64)
def _scalar_types(dtype: np.dtype) -> tuple[ArrayType, ...]:
    return (ArrayType((), dtype),)


def assemble(array: np.ndarray, trace: Recorder) -> object:
    """A traced array out of an object array of traced scalars and numbers."""
    entries = list(array.ravel())
    if not any(isinstance(e, Handle) for e in entries):
        raise objects_met(trace)
    stacked = FUNCTIONS[np.stack](
        [np.asarray(e) if not isinstance(e, Handle) else e for e in entries]
    )
    return cast("np.ndarray", stacked).reshape(array.shape)  # a traced array, to NumPy's stubs


def objects_met(trace: Recorder) -> TraceError:
    """The error for an object array without traced scalars."""
    return trace.fail("an object array met a traced array.", "Use arrays of numbers.")


def leaked(handle: Handle, *, elsewhere: bool = False) -> LeakError:
    """The error for a traced array that outlived its trace; says where it was made.

    Or for one that is used in another thread, while its trace goes on `elsewhere`.
    """
    line = handle.home.builder.lines.get(handle.id, (None,))[0]
    where = "It was made in a loop." if handle.node < 0 else "It is an argument of the function."
    where = f"It was made here:{show_line(line)}" if line else where
    how = "in another thread than the function's" if elsewhere else "after its trace had ended"
    fact = f"a traced array was used {how}. {where}\nIt was used here:"
    way = "Call it in the thread of the function." if elsewhere else KEEP_NO_TRACED
    return failure(LeakError, handle.home.call, fact, way)
