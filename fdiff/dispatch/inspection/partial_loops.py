"""Loops run alone, and for some of their trips only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType
from ...errors import FAULTS
from ...foreign_errors import not_foreign
from ...hooks import hooks
from ...ops.control.loop_operands import operands
from ...ops.control.while_loop import WHILE
from ...tape import Node, Tape
from ...trace import Trace, TracedArray, apply_many, splice

Values = Sequence[Any]
Partial = Callable[[int], Values | None]  # what so many trips give; None where they fail


def laid_out(args: Values) -> list[np.ndarray]:
    """Arguments as runners take them."""
    return [np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x) for x in args]


def alone(node: Node, arrays: Sequence[np.ndarray]) -> Tape:
    """The tape of one node."""
    types = [ArrayType(x.shape, x.dtype) for x in arrays]
    with Trace(node.primitive.name, lines=False) as trace:
        results = apply_many(node.primitive, *[trace.input(t) for t in types], **dict(node.params))
        return trace.builder.finish([x.id for x in results])


def partial_loop(node: Node, args: Values, begin: int) -> Partial:
    """The results of a loop after some trips from `begin` on, its carries first.

    `args` are its arguments there. A loop with a condition may end before.
    """
    if node.primitive is WHILE:
        return _conditional(laid_out(args), **dict(node.params))
    params, arrays = dict(node.params), laid_out(args)
    table = operands(arrays, params["carries"], params["rows"]).rows
    first, count, tape = len(arrays) - len(table), int(args[0]), alone(node, arrays)

    def run(trips: int) -> Values | None:
        shift = trips + begin - count if params["reverse"] else -begin
        rows = [np.roll(x, shift, 0) for x in table] if shift else table
        return _outputs_or_none(tape, [np.asarray(trips), *arrays[1:first], *rows])

    return run


def _conditional(
    arrays: list[np.ndarray], *, body: Tape, cond: Tape, carries: int, **_: object
) -> Partial:
    """`partial_loop` for a loop with a condition: its trips are one more carry, with a limit."""
    types = [ArrayType(x.shape, x.dtype) for x in arrays]

    def counted(
        inner: Tape,
        build: Callable[[list[TracedArray], TracedArray, TracedArray], list[TracedArray]],
    ) -> Tape:
        with Trace("while_loop", lines=False) as trace:
            state = [trace.input(t) for t in types[:carries]]
            trip = trace.input(ArrayType((), INT))
            rest = [trace.input(t) for t in types[carries:]]
            limit = trace.input(ArrayType((), INT))
            outs = build(splice(inner, [*state, *rest], trace), trip, limit)
            return trace.builder.finish([*map(trace.lift, outs)])

    wide = counted(body, lambda outs, trip, _: [*outs, trip + 1])
    test = counted(cond, lambda outs, trip, limit: [outs[0] & (trip < limit)])
    input_types = [*types[:carries], ArrayType((), INT), *types[carries:], ArrayType((), INT)]
    with Trace("while_loop", lines=False) as trace:
        inputs = [trace.input(t) for t in input_types]
        results = apply_many(WHILE, *inputs, body=wide, carries=carries + 1, cond=test, limit=0)
        tape = trace.builder.finish([x.id for x in results])

    def run(trips: int) -> Values | None:
        values = [*arrays[:carries], np.asarray(0), *arrays[carries:], np.asarray(trips)]
        return _outputs_or_none(tape, values)

    return run


def _outputs_or_none(tape: Tape, arrays: Sequence[np.ndarray]) -> Values | None:
    """The outputs of a tape; None where it fails."""
    run = partial(hooks.runner(tape), arrays)
    try:
        return run()
    except not_foreign(*FAULTS, again=run):
        return None
