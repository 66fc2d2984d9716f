"""A recording under way, and how ops enter their nodes in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Self, TypeVar, cast

import numpy as np

from ..arraytype import ArrayType
from ..errors import InputError, Line, TraceError, message, user_line
from ..primitive import FUNCTIONS, PRIMITIVES, REPLACEMENTS, Primitive
from ..tape import CONSTANT, ITEM, Builder, Constant, Params
from .guards import Looks
from .load_forwarding import SHORTER
from .out_arguments import taking_out
from .session import Session
from .trace_stack import occupied, stack
from .traced_array import TracedArray, current, handle, leaked
from .views import Outside, View, laid, memory_layout, slowest_first, store, strides_of

FOLD_LIMIT = 4096  # constants up to this many entries are folded while tracing


Handler = TypeVar("Handler", bound=Callable[..., object])
_ARRAYS: set[type] = {np.ndarray, np.memmap}


class Trace:
    """One recording under way: its builder, and what it met from outside.

    `call` is the public call, for messages. `extra` holds, for every input beyond the arguments,
    the captured array or the traced array of an enclosing trace that it stands for. `looks` are
    those Python takes at values. `refused` is the first value that was asked for and not given:
    plain code would have got it, so the trace is void. `shown` tells that text was made of a value.
    """

    eager = False  # whether nodes are computed as they are entered

    def __init__(self, call: str, *, lines: bool = True, builder: Builder | None = None) -> None:
        self.builder = builder or Builder()
        self.call = call
        self.lines = lines
        self.mutable = lines  # whether code of the user runs, which may store into arrays
        self.line: Line | None = None  # of the node being differentiated
        self.alive = False
        self.extra: list[np.ndarray | TracedArray] = []
        self.looks = Looks(self)
        self.refused: TraceError | None = None
        self.shown = False
        self.texts: set[str] = set()  # of the outermost trace: those made of what is differentiated
        self.tainted = (
            False  # whether what was entered depended on a constant, not on its type alone
        )
        self.session: Session | None = None  # of the outermost trace
        self.inner: list[Looks] = []  # of the outermost trace: of those that ended within it
        self.arguments: list[TracedArray] = []
        self.layouts: dict[int, tuple[int, ...]] = {}  # of inputs whose layout decided something
        self.axes: dict[int, tuple[int, ...]] = {}  # strides of nodes, counted in entries
        self._known: dict[tuple[int, int], int] = {}
        self._numbers: dict[tuple[object, np.dtype], int] = {}

    def __enter__(self) -> Self:
        self.alive = True
        occupied[self] = None
        stack.traces.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.alive = False
        self.arguments = []
        stack.traces.pop()
        if self.mutable and stack.traces:  # what it made may be among what the user keeps
            stack.traces[0].inner.append(self.looks)
        else:
            self.looks.close()
        for looks in self.inner:
            looks.close()
        self.inner.clear()
        if self not in stack.traces:
            occupied.pop(self, None)

    def begin(self) -> None:
        """Called when the arguments are known and before code of the user runs."""

    def where(self, depth: int = 1) -> Line | None:
        """The line that is being run; at least `depth` frames above this one are not the user's."""
        return user_line(depth + 1) if self.lines else self.line

    def input(self, type_: ArrayType, *, scalar: bool = False, weak: bool = False) -> TracedArray:
        return TracedArray(self, self.builder.input(type_), type_, scalar=scalar, weak=weak)

    def capture(self, array: np.ndarray) -> TracedArray:
        """The input that stands for a captured array."""
        self.extra.append(array)
        type_ = ArrayType(array.shape, array.dtype.newbyteorder("="))
        traced = self.input(type_)
        self.looks.given[traced.node] = array
        traced.link = Outside(array)
        return traced

    def own(self, traced: TracedArray) -> int:
        """Id of `traced` in this trace; a value of an enclosing trace becomes an input."""
        if traced.home is self:
            return traced.id
        if not traced.home.alive:
            raise leaked(traced)
        key = (id(traced.home), traced.id)
        if key not in self._known:
            outer = TracedArray(traced.home, traced.id, traced.type)  # as it is now
            self.extra.append(outer)
            known = self._known[key] = self.builder.input(traced.type)
            self.looks.given[known] = outer
        return self._known[key]

    def lift(self, value: object, dtype: np.dtype | None = None) -> int:
        """Id of `value` as a node of dtype `dtype` (its own where left out)."""
        if not isinstance(value, TracedArray):
            if (handle := getattr(value, "handle", None)) is not None:
                return self.lift(handle, dtype)
            if dtype is not None and type(value) in (int, float):
                return self.number(value, dtype)  # type: ignore[arg-type] - its class was looked at
            array = np.asarray(value)
            if isinstance(value, np.ndarray) and type(value) not in _ARRAYS:
                name = type(value).__name__
                fact = f"an array of type {name} met a traced array, and such are not supported."
                raise self.fail(fact, "Use a plain array: numpy.asarray(a), or a.filled(...).")
            if array.dtype == object:
                return self.lift(assemble(array), dtype)
            if array.dtype.kind not in "biufc":
                raise InputError(
                    message(
                        self.call,
                        f"NumPy arrays of dtype {array.dtype} cannot be traced.",
                        "",
                        self.where(),
                    )
                )
            return self._lift_array(
                array, array.dtype.newbyteorder("=") if dtype is None else dtype
            )
        node = self.own(value)
        if dtype is not None and value.type.dtype != dtype:
            return self.add(PRIMITIVES["convert"], (node,), (("dtype", dtype),))
        return node

    def number(self, value: float, dtype: np.dtype) -> int:
        """Id of the constant that a Python number is."""
        known = self._numbers.get((value, dtype))
        if known is None:
            known = self.builder.constant(np.array(value, dtype), _scalar_types(dtype))
            if value:  # not -0.0, which equals 0.0
                self._numbers[value, dtype] = known
        return known

    def _lift_array(self, array: np.ndarray, dtype: np.dtype) -> int:
        """A constant of the tape; an array of one repeated value is a scalar, broadcast."""
        copied = np.array(array, dtype=dtype, order="C")
        if copied.size > 1 and copied.dtype.kind == "f":
            first = copied.ravel()[:1]
            if copied.tobytes() == first.tobytes() * copied.size:
                scalar = self.builder.constant(first.reshape(()))
                node = self.add(PRIMITIVES["broadcast_to"], (scalar,), (("shape", copied.shape),))
                return self._lying(node, array)
        return self._lying(self.builder.constant(copied), array)

    def _lying(self, node: int, array: np.ndarray) -> int:
        """The node of a constant; of an equal one that lies otherwise in memory, a copy of it."""
        layout = memory_layout(array)
        if array.ndim < 2 or self.axes.setdefault(node, layout) == layout:
            return node
        return laid(self, node, slowest_first(layout) or list(range(array.ndim)))

    def add(
        self,
        primitive: Primitive,
        args: tuple[int, ...],
        params: tuple[tuple[str, object], ...] = (),
        line: Line | None = None,
        types: tuple[ArrayType, ...] | None = None,
    ) -> int:
        """Enter a node; one whose arguments are all small constants is computed at once.

        The `line` is looked for where it is not given, the `types` are inferred.
        """
        builder = self.builder
        if (shorter := SHORTER.get(primitive.name)) is not None:
            found, args = shorter(builder, args, params)
            if found is not None:
                return found
        node_id = builder.add(primitive, args, params, line or self.where(2), types)
        nodes = builder.nodes
        if (
            args
            and nodes[args[0]].primitive is CONSTANT
            and all(nodes[a].primitive is CONSTANT for a in args)
        ):
            types = nodes[node_id].types
            if len(types) == 1 and types[0].size <= FOLD_LIMIT and primitive.name != "broadcast_to":
                with np.errstate(all="ignore"):
                    value = primitive.evaluate(*[nodes[a].value for a in args], **dict(params))
                folded = builder.constant(np.array(value, dtype=types[0].dtype, order="C"))
                return folded if self._lie_alike(folded, node_id) else node_id
        return node_id

    def _lie_alike(self, folded: int, node_id: int) -> bool:
        """Whether the constant may stand for the node: equal constants share one layout."""
        if not self.mutable or self.builder.type(node_id).ndim < 2:
            return True
        layout = strides_of(self, node_id)
        return self.axes.setdefault(folded, layout) == layout

    def store(self, base: int, type_: ArrayType, entries: dict[int, int]) -> int:
        """Node of `base` with single entries stored over it, by flat position."""
        return store(self, base, type_, entries)

    def fail(self, fact: str, way_out: str = "") -> TraceError:
        """The error for something `f` did that cannot go on the tape."""
        return TraceError(message(self.call, fact, way_out, self.where()))


@lru_cache(maxsize=64)
def _scalar_types(dtype: np.dtype) -> tuple[ArrayType, ...]:
    return (ArrayType((), dtype),)


def assemble(array: np.ndarray) -> object:
    """A traced array out of an object array of traced scalars and numbers."""
    entries = list(array.ravel())
    if not any(isinstance(e, TracedArray) for e in entries):
        raise current().fail("an object array met a traced array.", "Use arrays of numbers.")
    stacked = FUNCTIONS[np.stack](
        [np.asarray(e) if not isinstance(e, TracedArray) else e for e in entries]
    )
    return stacked.reshape(array.shape)  # type: ignore[attr-defined] - a traced array, whose methods `fdiff.ops` enters


def apply(
    primitive: Primitive, *args: object, scalar: bool = False, weak: bool = False, **params: object
) -> TracedArray:
    """Record a single-output primitive on lifted arguments."""
    return applied(primitive, args, tuple(sorted(params.items())), scalar=scalar, weak=weak)


def applied(
    primitive: Primitive,
    args: tuple[object, ...],
    given: Params,
    *,
    scalar: bool = False,
    weak: bool = False,
    types: tuple[ArrayType, ...] | None = None,
) -> TracedArray:
    """The same for parameters in order; with `types` those of the node are not inferred."""
    trace = stack.traces[-1] if stack.traces else current(*args)
    ids = tuple(
        [
            a.node
            if type(a) is TracedArray and a.home is trace and a.link is None
            else trace.lift(a)
            for a in args
        ]
    )
    line = None if trace.eager else trace.where(2)
    node = trace.add(primitive, ids, given, line, types)
    out = handle(trace, node, trace.builder.nodes[node].types[0], scalar, weak)
    if primitive.view and trace.mutable and isinstance(parent := args[0], TracedArray):
        # what NumPy makes of a scalar is an array of its own
        out.link = None if parent.scalar else View(parent, primitive, given, ids[0], ids[1:])
    return out


def apply_many(primitive: Primitive, *args: object, **params: object) -> tuple[TracedArray, ...]:
    """Record a primitive with several outputs; one traced array for each."""
    trace = current(*args)
    ids = tuple([trace.lift(a) for a in args])
    node = trace.builder.add(primitive, ids, tuple(sorted(params.items())), trace.where())
    items = [
        trace.builder.add(ITEM, (node,), (("k", k),))
        for k in range(len(trace.builder.nodes[node].types))
    ]
    return tuple(TracedArray(trace, i, trace.builder.type(i)) for i in items)


def constant_value(value: object) -> np.ndarray | None:
    """The value of a constant node of the current trace, or None for anything else."""
    if not isinstance(value, TracedArray):
        return np.asarray(value)
    node = value.home.builder.nodes[value.id]
    if node.primitive is not CONSTANT:
        return None
    value.home.tainted = True
    return cast("Constant", dict(node.params)["value"]).array


def implements(*functions: Callable[..., object], method: str = "") -> Callable[[Handler], Handler]:
    """Decorator: this handler answers for NumPy `functions` and for the ndarray method named."""

    def enter(handler: Handler) -> Handler:
        for function in functions:
            FUNCTIONS[function] = handler
        if method:
            setattr(TracedArray, method, taking_out(handler, method))
        return handler

    return enter


def replaces(*functions: object) -> Callable[[Handler], Handler]:
    """Decorator: private copies of functions find this in place of `functions`.

    For what NumPy hands to no protocol: its constructors, Python's own functions, `scipy.linalg`.
    """

    def enter(stand_in: Handler) -> Handler:
        for function in functions:
            REPLACEMENTS[id(function)] = function, stand_in
        return stand_in

    return enter
