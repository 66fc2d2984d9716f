"""A trace hands out traced arrays; ops enter their nodes in it.

`Trace` adds traced arrays to a `Recorder`: those of the arguments, of captured arrays, and of
values of enclosing traces. `apply` and its kin record an op on traced arrays, `implements` and
`answers` register what answers for a function of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

import numpy as np

from ..arraytype import ArrayType
from ..primitive import FUNCTIONS, REPLACEMENTS, Primitive
from ..tape import CONSTANT, Builder, Params
from .out_arguments import taking_out
from .recorder import Handle, Recorder
from .trace_stack import current, occupied, stack
from .traced_array import TracedArray, handle
from .views import CapturedLink, ViewLink

Handler = TypeVar("Handler", bound=Callable[..., object])


class Trace(Recorder):
    """One recording under way, and the traced arrays that stand for its inputs.

    `extra` holds, for every input beyond the arguments, what it stands for: a captured array, or
    the traced array of an enclosing trace.
    """

    def __init__(self, call: str, *, lines: bool = True, builder: Builder | None = None) -> None:
        super().__init__(call, lines=lines, builder=builder)
        self.extra: list[np.ndarray | TracedArray] = []
        self._enclosing: dict[tuple[int, int], int] = {}

    def __enter__(self) -> Self:
        self.alive = True
        occupied[self] = None
        stack.traces.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.alive = False
        self.arguments = ()
        stack.traces.pop()
        if self.mutable and stack.traces:  # what it made may be among what the user keeps
            stack.traces[0].inner.append(self.guards)
        else:
            self.guards.close()
        for guards in self.inner:
            guards.close()
        self.inner.clear()
        if self not in stack.traces:
            occupied.pop(self, None)

    def begin(self) -> None:
        """Called when the arguments are known and before code of the user runs."""

    def input(self, type_: ArrayType, *, scalar: bool = False, weak: bool = False) -> TracedArray:
        """A traced array for one more input."""
        return TracedArray(self, self.builder.input(type_), type_, scalar=scalar, weak=weak)

    def capture(self, array: np.ndarray) -> TracedArray:
        """The input that stands for a captured array."""
        self.extra.append(array)
        type_ = ArrayType(array.shape, array.dtype.newbyteorder("="))
        traced = self.input(type_)
        self.guards.given[traced.node] = array
        traced.link = CapturedLink(array)
        return traced

    def enclosing(self, handle: Handle) -> int:
        """Id of the input that stands for a traced array of an enclosing trace, as it is now."""
        key = (id(handle.home), handle.id)
        if key not in self._enclosing:
            outer = TracedArray(handle.home, handle.id, handle.type)
            self.extra.append(outer)
            node_id = self._enclosing[key] = self.builder.input(handle.type)
            self.guards.given[node_id] = outer
        return self._enclosing[key]


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
        out.link = None if parent.scalar else ViewLink(parent, primitive, given, ids[0], ids[1:])
    return out


def apply_many(primitive: Primitive, *args: object, **params: object) -> tuple[TracedArray, ...]:
    """Record a primitive with several outputs; one traced array for each."""
    trace = current(*args)
    ids = tuple([trace.lift(a) for a in args])
    node = trace.builder.add(primitive, ids, tuple(sorted(params.items())), trace.where())
    items = trace.builder.results(node)
    return tuple(TracedArray(trace, i, trace.builder.type(i)) for i in items)


def constant_value(value: object) -> np.ndarray | None:
    """The value of a constant node of the current trace, or None for anything else."""
    if not isinstance(value, TracedArray):
        return np.asarray(value)
    node = value.home.builder.nodes[value.id]
    if node.primitive is not CONSTANT:
        return None
    value.home.tainted = True
    return node.param("value").array


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
