"""Apply primitives to traced arrays, and register handlers for functions of NumPy.

`apply` and its kin add a node to the trace that runs, and give the traced array of its result.
`implements` and `replaces` enter handlers into the tables by which NumPy's functions find them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..hooks import hooks
from ..primitive import FUNCTIONS, REPLACEMENTS, Primitive
from ..tape import CONSTANT, Params
from .array_links import ViewLink
from .handler_arguments import taking_out
from .static_arguments import looking
from .trace_stack import current, stack
from .traced_array import TracedArray, handle

Handler = TypeVar("Handler", bound=Callable[..., object])


def apply(
    primitive: Primitive, *args: object, scalar: bool = False, weak: bool = False, **params: object
) -> TracedArray:
    """Record a single-output primitive on lifted arguments."""
    return applied(primitive, args, tuple(sorted(params.items())), scalar=scalar, weak=weak)


def applied(
    primitive: Primitive,
    args: tuple[object, ...],
    params: Params,
    *,
    scalar: bool = False,
    weak: bool = False,
    types: tuple[ArrayType, ...] | None = None,
) -> TracedArray:
    """Record a primitive whose parameters are sorted; `types`, if given, are not inferred."""
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
    node = trace.add(primitive, ids, params, line, types)
    out = handle(trace, node, trace.builder.nodes[node].types[0], scalar, weak)
    if primitive.structure.view and trace.mutable and isinstance(parent := args[0], TracedArray):
        # what NumPy makes of a scalar is an array of its own
        out.link = None if parent.scalar else ViewLink(parent, primitive, params, ids[0], ids[1:])
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


def implements(
    *functions: Callable[..., object], method: str = "", data: tuple[str, ...] = ()
) -> Callable[[Handler], Handler]:
    """Decorator: this handler answers for NumPy `functions` and for the ndarray method named.

    `data` are parameters that hold numbers, though others of that name are part of a program.
    """

    def enter(handler: Handler) -> Handler:
        if data:
            vars(handler)["data"] = data
        public = looking(handler)
        for function in functions:
            FUNCTIONS[np.numpy_function(function)] = public
        if method:
            taking = taking_out(public, method)
            setattr(TracedArray, method, hooks.method_gate(taking) if hooks.method_gate else taking)
        return handler

    return enter


def replaces(*functions: object) -> Callable[[Handler], Handler]:
    """Decorator: traced code that calls one of `functions` calls the decorated function instead.

    For calls that reach no protocol of NumPy: its constructors, Python's own functions, SciPy's.
    """

    def enter(stand_in: Handler) -> Handler:
        for function in functions:
            REPLACEMENTS[id(function)] = function, hooks.gate(stand_in) if hooks.gate else stand_in
        return stand_in

    return enter
