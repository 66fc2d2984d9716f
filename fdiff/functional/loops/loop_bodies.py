"""Bodies of loops and branches as tapes: a function of the user, traced once for all trips.

Values that a body reads from outside are further inputs of its tape, the *extras*; they are values
of the surrounding trace. Python code may look at extras as anywhere. A value that differs from trip
to trip is never visible to Python code. An idea of T. Johnsson, Lambda lifting: transforming
programs to recursive equations, FPCA 1985.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...capture.printing_functions import refusing
from ...dispatch.arguments import traceable
from ...errors import DtypeError, E, InputError, ShapeError, TraceError, message, shown
from ...named_tuples import NamedTuple
from ...node import Node, is_transient
from ...ops.shapes.shaping import traced
from ...tape import Tape
from ...trace import ArgumentSpec, Recording, Trace, TracedArray, current, record, splice, tracing
from ...trace.handler_arguments import resolve
from ...tracebacks import line_of, name_of
from ...transforms.loops.bodies import rearranged
from ...transforms.pipeline import PREPARE, VALUE, derive
from ...tree import Spec, flatten, paths
from ..rules.ruled_call import OutputLeaf
from .outside_state import OutsideState

CARRY = "A body is run once, not once a trip: make it a carry."
ROWS = (
    "A body is run once, not once a trip: read it before the loop, draw random numbers there as "
    "rows, and make what a trip hands to the next a carry."
)
SHOWN = "A body is run once, not once a trip: give what is shown out, and show it after the loop."
WAYS = "Use numpy.where, fdiff.cond or fdiff.while_loop."


class LoopBody:
    """The user's function that is the body of a loop or a branch, and its name in messages."""

    def __init__(self, call: str, function: Callable[..., object]) -> None:
        self.call, self.function = call, function
        self.name = f"`{name_of(function)}`"
        self.line = line_of(function)

    def error(self, kind: type[E], fact: str, way: str) -> E:
        """The error for a fact about the body."""
        return kind(message(self.call, fact, way, self.line))

    def check_structure(self, new: Spec, old: Spec) -> None:
        """Refuse a carry that is built otherwise than the one before."""
        if new != old:
            listed = " and ".join(
                ", ".join(f"carry{p}" for p in paths(s)) or "none" for s in (old, new)
            )
            fact = f"{self.name} gives a carry of another structure than init: the leaves are"
            raise self.error(InputError, f"{fact} {listed}.", "Return a carry built as init is.")

    def refuse_value(self) -> NoReturn:
        """Refuse to tell Python a value that differs from trip to trip."""
        trace = current()
        fact = f"{self.name} branches on a value that a loop carries."
        raise trace.fail(fact, WAYS)

    def refuse_deed(self, deed: str) -> NoReturn:
        """Refuse an action that would differ from trip to trip."""
        operator, trace = self.call.partition("(")[0], current()
        error = trace.fail(f"the body of `fdiff.{operator}` {deed}.", SHOWN)
        trace.refused = trace.refused or error  # whoever catches it
        raise error

    def leaves(self, tree: object, words: str) -> tuple[list[object], Spec]:
        """The leaves of a structure of numbers and arrays; anything else is refused."""
        values, spec = flatten(tree)
        leaves = [*map(resolve, values)]
        for leaf, path in zip(leaves, paths(spec), strict=True):
            recorded = hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not tracing()
            if not traceable(leaf) and not recorded:
                fact = f"{words}{path} must be a number or an array, not {shown(leaf)}."
                raise self.error(InputError, fact, "Let the function close over it.")
        return leaves, spec


class TracedBody(NamedTuple):
    """A traced body.

    `tape` takes the requested inputs, then the `extras`. `outs` and `spec` are the leaves and the
    structure of the function's result.
    """

    tape: Tape
    extras: list[TracedArray]
    spec: Spec
    outs: list[OutputLeaf]

    @property
    def types(self) -> tuple[ArrayType, ...]:
        return self.tape.output_types


def trace_body(
    body: LoopBody, inputs: Sequence[OutputLeaf], run: Callable[[list[TracedArray]], object]
) -> TracedBody:
    """Trace ``run(inputs)``, which calls the function.

    A body that is in no other is traced twice: its trips differ where its traces do (random
    numbers, iterators, state that is kept between calls).
    """
    flattened: list[tuple[Spec, list[object]]] = []

    def outputs(_: Trace, arguments: list[TracedArray]) -> list[object]:
        leaves, spec = body.leaves(run(arguments), "the result of " + body.name)
        flattened.append((spec, leaves))
        return leaves

    specifications = [
        ArgumentSpec(
            cast("ArrayType", x.type), x.scalar, x.weak, body.refuse_value, active=x.floating
        )
        for x in inputs
    ]
    called = f"the body of `fdiff.{body.call.partition('(')[0]}` "
    outermost = current().outside_store[1] != CARRY
    outside = OutsideState(body.function)

    def recorded() -> Recording:
        trace = Trace(body.call)
        trace.outside_store = (called + "stores into an array made outside.", CARRY)
        before = refusing.get()
        try:
            refusing.set(body.refuse_deed)
            return record(outputs, specifications, body.call, trace)
        finally:
            refusing.set(before)

    recording = recorded()
    if name := outside.changed():
        raise body.error(TraceError, f"{called}stores into {name}, made outside.", CARRY)
    if words := outside.read():
        fact = f"{called}uses {words}, which may differ from trip to trip."
        raise body.error(TraceError, fact, ROWS)
    if outermost and not _are_same_body(recording, recorded()):
        raise body.error(TraceError, called + "computes something else at its second run.", ROWS)
    extras = [cast("TracedArray", x) for x in recording.extra]
    _rely_on(recording.check, inputs, extras)
    spec, leaves = flattened[0]
    weak = [getattr(x, "weak", not isinstance(x, (np.ndarray, np.generic))) for x in leaves]
    kinds = zip(recording.tape.output_types, recording.scalars, weak, strict=True)
    return TracedBody(
        derive(VALUE, derive(PREPARE, recording.tape)),
        extras,
        spec,
        [OutputLeaf(*k) for k in kinds],
    )


def _are_same_body(first: Recording, second: Recording) -> bool:
    """Whether two traces of a body compute the same of the same values."""
    outside = [
        [(x.home, x.id) for x in r.extra if isinstance(x, TracedArray)] for r in (first, second)
    ]
    nodes = first.tape.nodes, second.tape.nodes
    return (
        outside[0] == outside[1]
        and first.tape.outputs == second.tape.outputs
        and len(nodes[0]) == len(nodes[1])
        and all(a == b or _same_operation(a, b) for a, b in zip(*nodes, strict=True))
    )


def _same_operation(first: Node, second: Node) -> bool:
    """Whether two nodes are calls of operations that each run makes anew, of the same values."""
    made_anew = all(is_transient(n.primitive, n.params) for n in (first, second))
    return made_anew and (first.args, first.types) == (second.args, second.types)


def _rely_on(
    check: Tape | None, inputs: Sequence[OutputLeaf], extras: Sequence[TracedArray]
) -> None:
    """Add the guards of a body, which look at the extras alone, to the guards of the surrounding
    trace.
    """
    if check is not None:
        trace = current()
        zeros = [traced(np.zeros(x.type.shape, x.type.dtype)) for x in inputs if x.type is not None]
        (holds,) = splice(check, [*zeros, *extras], trace)
        trace.guards.expect(holds.id, value=True)


def is_number(leaf: object) -> bool:
    """Whether a leaf is a Python number, whose dtype NumPy leaves open."""
    return isinstance(leaf, (bool, int, float, complex)) and not isinstance(leaf, np.generic)


def leaf_kind(leaf: object) -> OutputLeaf:
    """How a leaf given to a loop is traced in its body."""
    array = traced(leaf)
    scalar = array.scalar or not isinstance(leaf, (np.ndarray, TracedArray))
    return OutputLeaf(array.type, scalar=scalar, weak=array.weak)


def with_extras_before(traced: TracedBody, count: int) -> Tape:
    """The tape with its extras as inputs before the last `count` of the others."""
    tape = traced.tape
    first = len(tape.inputs) - len(traced.extras)
    inputs = (
        *tape.inputs[: first - count],
        *tape.inputs[first:],
        *tape.inputs[first - count : first],
    )
    return rearranged(tape, inputs, tape.outputs)


def handles(leaves: Sequence[TracedArray], kinds: Sequence[OutputLeaf]) -> list[TracedArray]:
    """The results of a loop as NumPy arrays and scalars."""
    return [
        TracedArray(x.home, x.id, x.type, scalar=kind.scalar and not x.shape)
        for x, kind in zip(leaves, kinds, strict=True)
    ]


def pair_of(body: LoopBody, result: object) -> tuple[object, object]:
    """The carry and the output that the function of a scan returned."""
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return result[0], result[1]
    fact = f"{body.name} must return a pair, the carry and an output, not {shown(result)}."
    raise body.error(InputError, fact, "Write: return carry, None")


def next_kind(
    body: LoopBody,
    old: OutputLeaf,
    new: OutputLeaf,
    path: str,
    number: bool,  # noqa: FBT001 - one of a row
) -> OutputLeaf:
    """The kind of a carry, from the kind before a trip and the kind of the trip's result."""
    before, after = cast("ArrayType", old.type), cast("ArrayType", new.type)
    if number and before.shape == after.shape:
        return OutputLeaf(after, scalar=True)
    if before == after:
        return old
    kind = ShapeError if before.shape != after.shape else DtypeError
    way = (
        f"Start with np.zeros({after.shape}, np.{after.dtype})."
        if after.shape
        else "Start with 0.0."
    )
    fact = f"the carry{path} is {before} before a trip of {body.name}, and {after} after it."
    raise body.error(kind, fact, way)


def settled_body(
    body: LoopBody,
    leaves: Sequence[object],
    entries: Sequence[OutputLeaf],
    run: Callable[[list[object]], object],
    specs: list[Spec],
    spec: Spec,
) -> tuple[TracedBody, list[OutputLeaf]]:
    """The body traced with carries of the types that it gives; Python numbers take theirs."""
    kinds = [*map(leaf_kind, leaves)]
    numbers = [*map(is_number, leaves)]
    while True:
        traced_kinds = [k for k, number in zip(kinds, numbers, strict=True) if not number]
        traced_body = trace_body(
            body,
            [*traced_kinds, *entries],
            lambda args, own=numbers: run(_merged(leaves, own, args)),
        )
        body.check_structure(specs[0], spec)
        loose = [n or k.weak for n, k in zip(numbers, kinds, strict=True)]
        parts = zip(kinds, traced_body.outs, paths(spec), loose, strict=False)
        new = [next_kind(body, *each) for each in parts]
        if not any(loose):
            return traced_body, kinds
        kinds, numbers = new, [False] * len(kinds)


def _merged(
    leaves: Sequence[object], numbers: Sequence[bool], arguments: Sequence[TracedArray]
) -> list[object]:
    """The arguments of a body, with Python numbers among the leaves as they are."""
    rest = iter(arguments)
    carries = [x if number else next(rest) for x, number in zip(leaves, numbers, strict=True)]
    return [*carries, *rest]


def as_kinds(leaves: Sequence[object], kinds: Sequence[OutputLeaf]) -> list[TracedArray]:
    """The initial carries, converted to the dtypes of the carries that trips return."""
    arrays = [*map(traced, leaves)]
    pairs = zip(arrays, kinds, strict=True)
    return [traced(x.astype(cast("ArrayType", k.type).dtype)) for x, k in pairs]
