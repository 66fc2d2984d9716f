"""The trip of a loop, and the line of its body, at which NumPy raised an error.

A loop on the tape has one line, and its kernel one status. After an error, the function is traced
anew, with the lines of its derivatives, and its steps are run node by node. In a loop of many trips
the first failing trip is found by bisection: half of the trips take half of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType
from ...dispatch.partial_loops import FEW, Partial, Values, alone, counted, laid_out, tried
from ...dispatch.plans import Inspection
from ...dispatch.tiers.tiered_execution import runner
from ...errors import FAULTS, FdiffError
from ...foreign_errors import not_foreign
from ...interpret import Interpreter, Step
from ...ops.control.loop import LOOP
from ...ops.control.while_loop import WHILE
from ...process.room import budget
from ...tape import Node, Tape
from ...trace import Trace, TracedArray, apply_many, splice
from ...trace.derived_lines import TripLine, as_counted, derived_lines, in_trips, written_line
from ...tracebacks import explain
from ...transforms.custom_calls import inlined
from ...transforms.loops.body_runs import body_runs, has_bodies
from ...user_lines import Line

if TYPE_CHECKING:
    from ..call.operator_call import OperatorCall

FACTOR = 16  # by which a loop with a condition is given more trips, until it fails


class _FaultPlace(Exception):  # noqa: N818 - it never leaves this module
    """The place where a tape fails: the trips of the surrounding loops, outermost first, and the
    line.
    """

    def __init__(self, trips: tuple[int, ...], line: Line | None) -> None:
        super().__init__()
        self.trips, self.line = trips, line


def note_trips(error: Exception, call: OperatorCall) -> None:
    """Note at an error of NumPy's in which trip it was raised, and by which line of the body.

    The function that is called may have no loops.
    """
    if isinstance(error, FdiffError) or call.variant is None or not _has_trips(call.variant.tape):
        return
    before = budget.set(None)  # a budget cuts loops into segments, which are no loops of the user's

    def inspect() -> None:
        with derived_lines():
            variant, inputs = call.program.trace_anew(call.f, call.args, call.kwargs)
            variant.plan.call(inputs, call.vectors, Inspection(_outputs))

    try:
        inspect()
    except _FaultPlace as place:
        explain(error, call.name, call.f, written_line(place.line), in_trips(place.trips))
    except not_foreign(*FAULTS, again=inspect):  # raised by what is not on a tape
        return
    finally:
        budget.reset(before)


def _has_trips(tape: Tape) -> bool:
    """Whether a tape holds loops, or what was computed in loops."""
    lines = [line for told in tape.lines.values() for line in told]
    looped = any(isinstance(line, TripLine) for line in lines)
    return looped or next(tape.bodies(), None) is not None


def _outputs(tape: Tape, arrays: Values) -> list[Any]:
    """The outputs of a tape; `_FaultPlace` where it fails."""
    tape = inlined(tape)

    def at_node(step: Step, *args: Any) -> object:
        node = tape.nodes[step[1]]
        value = partial(_value, node, args) if has_bodies(node) else partial(step[0], *args)
        try:
            return value()
        except not_foreign(*FAULTS, again=value):
            trips, line = _within(node, args)
            own = tape.lines.get(step[1], (None,))[0]
            raise _FaultPlace(as_counted(own, trips), line or own) from None

    plan = Interpreter(tape)
    values = plan.values(arrays, plan.inspected(at_node))
    return [values[o] for o in tape.outputs]


def _value(node: Node, args: Values) -> object:
    """The value of a loop or branch, by whatever tier its number of trips is worth."""
    arrays = laid_out(args)
    outs = runner(alone(node, arrays))(arrays)
    return outs[0] if len(node.types) == 1 else tuple(outs)


def _within(node: Node, args: Values) -> tuple[tuple[int, ...], Line | None]:
    """The trips within a node that fails, and the line; nothing where it has no body."""
    trips: tuple[int, ...] = ()
    try:
        if has_bodies(node):
            start, state = _start(node, args)
            for run in body_runs(node, state, start):
                trips = () if run.trip is None else (run.trip,)
                _outputs(run.tape, run.arguments)
    except _FaultPlace as place:
        return (*trips, *place.trips), place.line
    except not_foreign(*FAULTS):
        return trips, None
    return (), None


# --- loops of many trips --------------------------------------------------------------------------


def _start(node: Node, args: Values) -> tuple[int, Values]:
    """Trips of a loop that do not fail, all but the last of them, and its arguments after them."""
    if node.primitive is LOOP and int(args[0]) > FEW:
        params = dict(node.params)
        run, most = counted(params, args), int(args[0])
        first = 1 + params["carries"]
    elif node.primitive is WHILE:
        run, most = _conditional(dict(node.params), args), FEW
        first = node.param("carries")
        while run(most) is not None:
            most *= FACTOR
        if most == FEW:
            return 0, args
    else:
        return 0, args
    good = 0
    while most - good > 1:
        middle = (good + most) // 2
        good, most = (good, middle) if run(middle) is None else (middle, most)
    state = run(good) or ()
    skipped = first - len(state)
    return good, [*args[:skipped], *state, *args[first:]]


def _conditional(params: dict[str, Any], args: Values) -> Partial:
    """The carries of a loop with a condition after some trips, or fewer if it ends before."""
    body, cond, carries = params["body"], params["cond"], params["carries"]
    arrays = laid_out(args)
    types = [ArrayType(x.shape, x.dtype) for x in arrays]

    def counted(inner: Tape, build: Callable[[list[TracedArray], Any, Any], list[Any]]) -> Tape:
        with Trace("while_loop", lines=False) as trace:
            state = [trace.input(t) for t in types[:carries]]
            trip: Any = trace.input(ArrayType((), INT))
            rest = [trace.input(t) for t in types[carries:]]
            limit: Any = trace.input(ArrayType((), INT))
            outs = build(splice(inner, [*state, *rest], trace), trip, limit)
            return trace.builder.finish([*map(trace.lift, outs)])

    wide = counted(body, lambda outs, trip, _: [*outs, trip + 1])
    test = counted(cond, lambda outs, trip, limit: [outs[0] & (trip < limit)])
    input_types = [*types[:carries], ArrayType((), INT), *types[carries:], ArrayType((), INT)]
    with Trace("while_loop", lines=False) as trace:
        results = apply_many(
            WHILE,
            *[trace.input(t) for t in input_types],
            body=wide,
            carries=carries + 1,
            cond=test,
            limit=0,
        )
        tape = trace.builder.finish([x.id for x in results])

    def run(trips: int) -> Values | None:
        values = [*arrays[:carries], np.asarray(0), *arrays[carries:], np.asarray(trips)]
        outs = tried(tape, values)
        return None if outs is None else outs[:carries]

    return run
