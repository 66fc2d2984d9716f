"""The trip of a loop, and the line of its body, at which NumPy raised an error.

A loop on the tape has one line, and its kernel one status. After an error, the function is traced
anew, with the lines of its derivatives, and its steps are run node by node. In a loop of many trips
the first failing trip is found by bisection: half of the trips take half of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType
from ...dispatch.arguments import Function
from ...dispatch.plans import Inspection
from ...dispatch.program import Program
from ...dispatch.tiers.tiered_execution import runner
from ...errors import FAULTS, FdiffError
from ...foreign_errors import not_foreign
from ...interpret import Interpreter, Step
from ...ops.control.loop import LOOP, operands
from ...ops.control.while_loop import WHILE
from ...process.room import budget
from ...tape import Node, Tape
from ...trace import Trace, TracedArray, apply_many, splice
from ...trace.derived_lines import TripLine, as_counted, derived_lines, in_trips, written_line
from ...tracebacks import explain
from ...transforms.custom_calls import inlined
from ...transforms.loops.body_runs import body_runs, has_bodies
from ...user_lines import Line

FEW = 256  # trips that are run one by one
FACTOR = 16  # by which a loop with a condition is given more trips, until it fails

Values = Sequence[Any]
Partial = Callable[[int], Values | None]  # what so many trips give; None where they fail


class _FaultPlace(Exception):  # noqa: N818 - it never leaves this module
    """The place where a tape fails: the trips of the surrounding loops, outermost first, and the
    line.
    """

    def __init__(self, trips: tuple[int, ...], line: Line | None) -> None:
        super().__init__()
        self.trips, self.line = trips, line


def note_trips(
    error: Exception,
    tape: Tape,
    program: Program,
    f: Function,
    call: tuple[Any, Any],
    vectors: Sequence[object],
) -> None:
    """Note at an error of NumPy's in which trip it was raised, and by which line of the body.

    `tape` is the tape of the function, which may have no loops.
    """
    if isinstance(error, FdiffError) or not _has_trips(tape):
        return
    before = budget.set(None)  # a budget cuts loops into segments, which are no loops of the user's

    def inspect() -> None:
        with derived_lines():
            variant, inputs = program.trace_anew(f, *call)
            variant.plan.call(inputs, vectors, Inspection(_outputs))

    try:
        inspect()
    except _FaultPlace as place:
        explain(error, program.name, f, written_line(place.line), in_trips(place.trips))
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


def laid_out(args: Sequence[Any]) -> list[np.ndarray]:
    """Arguments as runners take them."""
    return [np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x) for x in args]


def alone(node: Node, arrays: Sequence[np.ndarray]) -> Tape:
    """The tape of one node."""
    with Trace("loop", lines=False) as trace:
        inputs = [trace.input(ArrayType(x.shape, x.dtype)) for x in arrays]
        results = apply_many(node.primitive, *inputs, **dict(node.params))
        return trace.builder.finish([x.id for x in results])


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


def _tried(tape: Tape, arrays: Sequence[np.ndarray]) -> Values | None:
    """What a tape gives; None where it fails."""
    run = partial(runner(tape), arrays)
    try:
        return run()
    except not_foreign(*FAULTS, again=run):
        return None


def counted(params: dict[str, Any], args: Values, begin: int = 0) -> Partial:
    """The carries of a loop after some trips, by their number, from the trip `begin` on."""
    carries = params["carries"]
    arrays = laid_out(args)
    table = operands(arrays, carries, params["rows"]).rows
    first, count = len(arrays) - len(table), int(args[0])
    with Trace("loop", lines=False) as trace:
        inputs = [trace.input(ArrayType(x.shape, x.dtype)) for x in arrays]
        results = apply_many(LOOP, *inputs, **params)
        tape = trace.builder.finish([x.id for x in results])

    def run(trips: int) -> Values | None:
        shift = trips + begin - count if params["reverse"] else -begin
        rows = [np.roll(x, shift, 0) for x in table] if shift else table
        outs = _tried(tape, [np.asarray(trips), *arrays[1:first], *rows])
        return None if outs is None else outs[:carries]

    return run


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
        outs = _tried(tape, values)
        return None if outs is None else outs[:carries]

    return run
