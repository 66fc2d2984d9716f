"""SegmentedLoop loops within a memory budget: trips are run again, segment by segment.

A loop of `n` trips becomes segments of about the square root of it, of which the carries at the
start are kept. The reverse loop goes through the segments from the last to the first, runs each
again and reverses it, in the same way if what it keeps is more than the budget still. All sums are
added up in the same order, so that the budget changes no bit of the result.

Nested checkpoints: A. Griewank and A. Walther, Evaluating Derivatives, SIAM 2008, section 12.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, isqrt
from typing import Any, NamedTuple

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..ops.gather_scatter import iota
from ..ops.loop import LOOP
from ..tape import Tape
from ..trace import TracedArray, apply, apply_many
from .derivative_tapes import choose
from .loop_memory import FEWEST, Pullback, kept_bytes
from .simplify import SimplifyingTrace


class SegmentedLoop(NamedTuple):
    """A loop to be reversed: its pullback, its body in reverse, how many carries, and where to.

    `invariants` and `rows` are those of the loop that the body in reverse reads.
    """

    pulls: Pullback
    body: Tape
    carries: int
    reverse: bool
    invariants: Sequence[int]
    rows: Sequence[int]
    budget: int


class LoopValues(NamedTuple):
    """What a loop is given, and the cotangents that its reverse loop begins with."""

    trips: Any
    state: Sequence[Any]
    invariants: Sequence[Any]
    rows: Sequence[Any]
    start: Sequence[Any]  # cotangents of carries, and sums
    bars: Sequence[Any]  # cotangents of outs, as rows


def reversed_loop(loop: SegmentedLoop, values: LoopValues, length: int) -> Sequence[TracedArray]:
    """The last cotangents and sums, then the cotangents of rows."""
    if length <= FEWEST or length * kept_bytes(loop.pulls) <= loop.budget:
        return _whole(loop, values, length)
    size = isqrt(length - 1) + 1
    count = ceil(length / size)
    rows, bars = ([_segments(x, count, size) for x in part] for part in (values.rows, values.bars))
    numbers = apply(iota, size=count)
    runs = (values.trips + (size - 1)) // size
    body = choose(loop.pulls.saving, range(loop.carries))
    kept = _snapshots(loop, values, body, numbers, rows, runs, size, count)
    return _outer(loop, values, (kept, rows, bars), numbers, runs, size, count)


def _whole(loop: SegmentedLoop, values: LoopValues, length: int) -> Sequence[TracedArray]:
    """The loop run again with all that is kept, and reversed."""
    pulls = loop.pulls
    saved = apply_many(
        LOOP, values.trips, *values.state, *values.invariants, *values.rows, body=pulls.saving,
        carries=loop.carries, length=length, reverse=loop.reverse, rows=len(values.rows),
    )  # fmt: skip
    table = [*[saved[o] for o in pulls.places], *[values.rows[k] for k in loop.rows], *values.bars]
    invariants = [values.invariants[k] for k in loop.invariants]
    return apply_many(
        LOOP, values.trips, *values.start, *invariants, *table, body=loop.body,
        carries=len(values.start), length=length, reverse=not loop.reverse, rows=len(table),
    )  # fmt: skip


def _segments(x: Any, count: int, size: int) -> Any:
    """Rows in segments, with zeros behind the last."""
    if missing := count * size - x.shape[0]:
        x = np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)])
    return np.reshape(x, (count, size, *x.shape[1:]))


def _trips_of(number: Any, trips: Any, size: int) -> Any:
    """The trips of a segment."""
    return np.clip(trips - number * size, 0, size)


def _snapshots(
    loop: SegmentedLoop, values: LoopValues, body: Tape, numbers: Any, rows: Sequence[Any],
    runs: Any,
    size: int, count: int,
) -> Sequence[TracedArray]:  # fmt: skip
    """The carries at the start of each segment."""
    arguments = [*values.state, *values.invariants, values.trips]
    carries = loop.carries

    def segment(flat: list[Any]) -> Sequence[Any]:
        state, rest = flat[:carries], flat[carries:]
        invariants, trips = rest[: len(values.invariants)], rest[len(values.invariants)]
        number, *entries = rest[len(values.invariants) + 1 :]
        new = apply_many(
            LOOP, _trips_of(number, trips, size), *state, *invariants, *entries, body=body,
            carries=carries, length=size, reverse=loop.reverse, rows=len(entries),
        )  # fmt: skip
        return [*new, *state]

    table = [numbers, *rows]
    tape = _taped(segment, arguments, table)
    results = apply_many(
        LOOP, runs, *arguments, *table, body=tape, carries=carries, length=count,
        reverse=loop.reverse, rows=len(table),
    )  # fmt: skip
    return results[carries:]


def _outer(
    loop: SegmentedLoop, values: LoopValues, tables: tuple[Sequence[Any], ...], numbers: Any,
    runs: Any,     size: int, count: int,
) -> Sequence[TracedArray]:  # fmt: skip
    """The loop over the segments, from the last to the first."""
    kept, rows, bars = tables
    start, shared = len(values.start), [*values.invariants, values.trips]

    def body(flat: list[Any]) -> Sequence[Any]:
        state, rest = flat[:start], flat[start:]
        invariants, trips = rest[: len(values.invariants)], rest[len(values.invariants)]
        number, *entries = rest[len(shared) :]
        snapshot, entries = entries[: len(kept)], entries[len(kept) :]
        within = _trips_of(number, trips, size)
        arguments = LoopValues(
            within, snapshot, invariants, entries[: len(rows)], state, entries[len(rows) :]
        )
        return reversed_loop(loop, arguments, size)

    table = [numbers, *kept, *rows, *bars]
    tape = _taped(body, [*values.start, *shared], table)
    results = apply_many(
        LOOP, runs, *values.start, *shared, *table, body=tape, carries=start, length=count,
        reverse=not loop.reverse, rows=len(table),
    )  # fmt: skip
    flat: list[Any] = [np.reshape(x, (count * size, *x.shape[2:])) for x in results[start:]]
    return [*results[:start], *[x[: values.rows[0].shape[0]] for x in flat]]


def _taped(
    function: Callable[[list[Any]], Sequence[Any]], arguments: Sequence[Any], table: Sequence[Any]
) -> Tape:
    """The tape of a function of what a loop is given, and of entries of its rows."""
    types = [ArrayType(x.shape, x.dtype) for x in arguments]
    types += [ArrayType(x.shape[1:], x.dtype) for x in table]
    with SimplifyingTrace("vjp") as trace:
        outs = function([trace.input(t) for t in types])
        return trace.builder.finish([trace.lift(x) for x in outs])
