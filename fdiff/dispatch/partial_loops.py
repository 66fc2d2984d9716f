"""Loops run alone, and for some of their trips: how the first trip of a kind is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..errors import FAULTS
from ..foreign_errors import not_foreign
from ..ops.control.loop import LOOP, operands
from ..tape import Node, Tape
from ..trace import Trace, apply_many
from .tiers.tiered_execution import runner

FEW = 256  # trips that are run one by one

Values = Sequence[Any]
Partial = Callable[[int], Values | None]  # what so many trips give; None where they fail


def laid_out(args: Sequence[Any]) -> list[np.ndarray]:
    """Arguments as runners take them."""
    return [np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x) for x in args]


def alone(node: Node, arrays: Sequence[np.ndarray]) -> Tape:
    """The tape of one node."""
    with Trace("loop", lines=False) as trace:
        inputs = [trace.input(ArrayType(x.shape, x.dtype)) for x in arrays]
        results = apply_many(node.primitive, *inputs, **dict(node.params))
        return trace.builder.finish([x.id for x in results])


def tried(tape: Tape, arrays: Sequence[np.ndarray]) -> Values | None:
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
        outs = tried(tape, [np.asarray(trips), *arrays[1:first], *rows])
        return None if outs is None else outs[:carries]

    return run
