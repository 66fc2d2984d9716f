"""A reverse loop with few snapshots: its forward loop is run again from the nearest one.

The loop runs in parts of a few trips. Before a part is reversed, the forward loop runs from the
last snapshot before it up to this part, and leaves snapshots on its way, in the places that are
free. Where they go is the binomial schedule: with `s` snapshots, binom(s + r, s) parts are reversed
if no trip is run more than `r` times, which is the least possible. It is found at run time, so that
it holds for any number of trips.

A. Griewank and A. Walther, Algorithm 799: revolve, ACM TOMS 26(1), 2000.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import fdiff.intact_numpy as np

from ...ops.control.loop import LOOP
from ...ops.control.while_loop import WHILE
from ...ops.shapes.gather_scatter import gather, iota, scatter_set
from ...ops.shapes.view_ops import spread
from ...trace import Array, TracedArray, apply, apply_many
from ..derivative_tapes import choose
from .loop_parts import LoopCall, RowParts, TripParts, taped


def checkpointed(
    giver: LoopCall,
    taker: LoopCall,
    kept: Mapping[int, int],
    trips: Array,
    parts: TripParts,
    slots: int,
) -> list[Array]:
    """The results of `taker`, which reads outs of `giver` in the place of the rows `kept`.

    It goes the other way. At most `slots` snapshots are kept at a time, two at least.
    """
    walk, rows, count = _Walk(giver, trips, parts, slots), RowParts(parts), len(taker.state)
    invariants = [rows.share(x) for x in taker.invariants]
    makers = {k: rows.rows(x) for k, x in enumerate(taker.rows) if k not in kept}
    start = [*taker.state, *walk.start()]
    shared = [*walk.shared, *rows.shared]
    table = [apply(iota, size=parts.count), *rows.table]
    last, runs = len(start) + len(walk.shared), walk.runs

    def part(flat: list[TracedArray]) -> Sequence[Array]:
        number = flat[len(start) + len(shared)]
        walk.enter(flat[len(start) : last])
        rows.enter(flat[last : len(start) + len(shared)], flat[len(start) + len(shared) + 1 :])
        position = walk.position(number)
        top, places, *stacks = walk.walked(flat[count : len(start)], position)
        state = [apply(gather, x, top) for x in stacks]
        outs = walk.run(state, number)
        row_values = [
            outs[kept[k]] if k in kept else makers[k](number) for k in range(len(taker.rows))
        ]
        again = taker._replace(
            state=flat[:count], invariants=[x() for x in invariants], rows=row_values
        )
        results = again.run(walk.trips_of(number), parts.size)
        return [*results[:count], top - 1, places, *stacks, *results[count:]]

    results = apply_many(
        LOOP, runs, *start, *shared, *table, body=taped(part, [*start, *shared], table),
        carries=len(start), length=parts.count, reverse=taker.reverse, rows=len(table),
    )  # fmt: skip
    return [*results[:count], *[parts.joined(x) for x in results[len(start) :]]]


class _Walk:
    """A forward loop that is run from the last snapshot to a part, and the stack of snapshots.

    A part is told by its number, or by its position, in which the loop comes to it. `shared` is
    what its bodies are given, and `enter` there.
    """

    def __init__(self, loop: LoopCall, trips: Array, parts: TripParts, slots: int) -> None:
        self.loop, self.parts, self.slots = loop, parts, slots
        self.rows = RowParts(parts)
        self.invariants = [self.rows.share(x) for x in loop.invariants]
        self.makers = [self.rows.rows(x) for x in loop.rows]
        self.all_trips, self.runs = trips, parts.runs(trips)
        self.shared = [trips, self.runs, *self.rows.shared, *self.rows.table]

    def enter(self, values: Sequence[Array]) -> None:
        """Take the values of `shared` in the body under way."""
        first = 2 + len(self.rows.shared)
        self.all_trips, self.runs = values[:2]
        self.rows.enter(values[2:first], values[first:])

    def position(self, number: Array) -> Array:
        """Execution position of part `number`; its own inverse."""
        return self.runs - 1 - number if self.loop.reverse else number

    def trips_of(self, number: Array) -> Array:
        return self.parts.trips_of(number, self.all_trips)

    def start(self) -> list[Array]:
        """The initial stack: the number of the last snapshot, their positions, the snapshots."""

        def stack(x: Array) -> Array:
            zeros = apply(spread, np.zeros((), x.dtype), shape=(self.slots - 1, *x.shape))
            return np.concatenate([np.expand_dims(x, 0), zeros])

        return [np.asarray(0), np.zeros(self.slots, np.int64), *map(stack, self.loop.state)]

    def run(self, state: Sequence[Array], number: Array) -> tuple[TracedArray, ...]:
        """Run one part of the loop."""
        table = self.rows.within[1]
        self.rows.within = self.rows.within[0], [apply(gather, x, number) for x in table]
        rows = [make(number) for make in self.makers]
        self.rows.within = self.rows.within[0], table
        invariants = [x() for x in self.invariants]
        loop = self.loop._replace(state=state, invariants=invariants, rows=rows)
        return loop.run(self.trips_of(number), self.parts.size)

    def walked(self, stack: Sequence[Array], position: Array) -> tuple[TracedArray, ...]:
        """The stack with a snapshot at this position, and with snapshots on the way to it."""
        count, arguments = len(stack), [position, *self._values()]

        def runs(flat: list[TracedArray]) -> Sequence[Array]:
            return [apply(gather, flat[1], flat[0]) < flat[count]]

        def leave(flat: list[TracedArray]) -> Sequence[Array]:
            self.enter(flat[count + 1 :])
            top, places, *stacks = flat[:count]
            at = apply(gather, places, top)
            free = self.slots - 2 - top
            trips = _parts_to_next_snapshot(flat[count] - at + 1, np.maximum(free, 0) + 1)
            trips = np.where(free > 0, trips, flat[count] - at)
            state = self._advanced([apply(gather, x, top) for x in stacks], at, trips)
            top = top + 1
            stored = zip((places, *stacks), (at + trips, *state), strict=True)
            return [top, *[apply(scatter_set, x, value, top) for x, value in stored]]

        values = self._values()
        outputs = _repeated(runs, leave, stack, arguments)
        self.enter(values)
        return outputs

    def _values(self) -> list[Array]:
        return [self.all_trips, self.runs, *self.rows.within[0], *self.rows.within[1]]

    def _advanced(self, state: Sequence[Array], at: Array, count: Array) -> Sequence[Array]:
        """The carries after some parts, from a position on."""
        values = self._values()
        size = len(state) + 1
        whole = self.loop
        self.loop = whole._replace(body=choose(whole.body, range(whole.carries)))

        def step(flat: list[TracedArray]) -> Sequence[Array]:
            self.enter(flat[size:])
            number = self.position(flat[size - 1])
            return [*self.run(flat[: size - 1], number), flat[size - 1] + 1]

        carries = [*state, at]
        results = apply_many(
            LOOP, count, *carries, *values, body=taped(step, [*carries, *values], []),
            carries=size, length=self.parts.count, reverse=False, rows=0,
        )  # fmt: skip
        self.loop = whole
        self.enter(values)
        return results[:-1]


def _parts_to_next_snapshot(length: Array, snapshots: Array) -> Array:
    """Parts to the next snapshot, where `length` parts and `snapshots` snapshots are left.

    With ``b(s, r) = binom(s + r, s)`` and the least `r` for which ``b(s, r) >= length``, any step
    with at most ``b(s - 1, r)`` parts after it and ``b(s, r - 1)`` before it is best.
    """

    def runs(flat: list[TracedArray]) -> Sequence[Array]:
        return [flat[1] < flat[2]]

    def more(flat: list[TracedArray]) -> Sequence[Array]:
        r = flat[0] + 1
        return [r, flat[1] * (flat[3] + r) // r]

    r, most = _repeated(runs, more, [np.asarray(0), np.asarray(1)], [length, snapshots])[:2]
    before = most * r // (snapshots + r)
    behind = before * snapshots // np.maximum(snapshots + r - 1, 1)
    return np.minimum(before, length - behind)


def _repeated(
    runs: Callable[[list[TracedArray]], Sequence[Array]],
    step: Callable[[list[TracedArray]], Sequence[Array]],
    state: Sequence[Array],
    shared: Sequence[Array],
) -> tuple[TracedArray, ...]:
    """The state after a loop that runs while a condition holds."""
    arguments = [*state, *shared]
    cond, body = (taped(function, arguments, []) for function in (runs, step))
    return apply_many(
        WHILE, *arguments, body=body, carries=len(state), cond=cond, limit=0
    )[:-1]  # fmt: skip
