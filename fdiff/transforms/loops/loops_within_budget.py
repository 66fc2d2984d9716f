"""Loops within a memory budget: values kept for other loops are recomputed, part by part.

Rows that a loop gives to other loops alone, of as many trips, are what is *kept*: so a reverse loop
reads what its forward loop has computed. Where these are more than the budget, the loops of such a
*system* run segment by segment. Of those that give rows, the carries at the start of each segment
are kept; readers of the rows of a segment compute them again, from there. In a segment, which is a
loop too, the same is done where need be.

This is done once, to tapes that are about to run: so it counts the rows as `vmap` has widened them,
and derivatives are taken of loops that are whole. Bodies stay as they are, and all sums are added
up in the same order: the budget changes no bit of a result.

Nested checkpoints: A. Griewank and A. Walther, Evaluating Derivatives, SIAM 2008, chapter 12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isqrt

import fdiff.intact_numpy as np

from ...errors import InputError, message
from ...ops.control.loop import LOOP
from ...ops.control.while_loop import SIZED
from ...ops.shapes.gather_scatter import iota
from ...process.memory_reserve import budget, budget_in_bytes
from ...tape import INPUT, ITEM, Builder, Node, Params, Replacement, Tape, rebuild
from ...trace import Array, TracedArray, apply, apply_many, constant_value
from ..kept_stages import keep_stages
from ..simplify import SimplifyingTrace
from .loop_checkpoints import checkpointed
from .loop_merging import merge_loops
from .loop_parts import LoopCall, RowParts, TripParts, loop_call, taped
from .loop_pruning import prune_loops
from .loop_systems import Row, System, length_of, systems

_COPIES = 4  # a snapshot takes so many times its bytes: loops within loops copy the stack, a carry


def within_budget(tape: Tape, limit: int | None = None) -> Tape:
    """The tape with loops that keep at most `limit` bytes; by default, the budget."""
    if next(tape.bodies(), None) is None:
        return tape
    if limit is None:
        limit = budget_in_bytes()
    tape = _bodies_within(tape, limit)
    large = [s for s in systems(tape) if s.rows * length_of(tape, s) > limit]
    if large:
        return prune_loops(_cut(tape, large, limit))
    return merge_loops(keep_stages(tape, limit))


def _bodies_within(tape: Tape, limit: int) -> Tape:
    replacements: dict[int, Replacement] = {}
    for i in {i: None for i, _, _ in tape.bodies()}:
        params = tape.nodes[i].params
        if tape.nodes[i].primitive is SIZED:
            budget_bytes = budget.get()
            new = dict(params) if budget_bytes is None else dict(params) | {"budget": budget_bytes}
        else:
            new = {k: _limited(value, limit) for k, value in params}
        if (changed := tuple(sorted(new.items()))) != params:
            replacements[i] = _entered(tape.nodes[i], changed)
    return rebuild(tape, Builder(), replacements) if replacements else tape


def _limited(value: object, limit: int) -> object:
    if isinstance(value, Tape):
        return within_budget(value, limit)
    return tuple([_limited(v, limit) for v in value]) if type(value) is tuple else value


def _entered(node: Node, params: Params) -> Replacement:
    return lambda builder, ids: builder.add(
        node.primitive, tuple([ids[a] for a in node.args]), params, None, node.types
    )


# --- cuts -----------------------------------------------------------------------------------------


def _cut(tape: Tape, systems: Sequence[System], limit: int) -> Tape:
    """The tape with these systems of loops cut into segments."""
    with SimplifyingTrace("vjp") as trace:
        ids = {i: trace.input(tape.nodes[i].type).node for i in tape.inputs}

        def value(i: int) -> TracedArray:
            return TracedArray(trace, ids[i], trace.builder.type(ids[i]))

        cuts = {
            i: c
            for c in [_SegmentationPlan(tape, s, value, limit) for s in systems]
            for i in c.system.loops
        }
        outs: dict[int, Sequence[Array | None]] = {}
        for i, (primitive, args, params, types) in enumerate(tape.nodes):
            if i in cuts:
                outs[i] = cuts[i].results(i)
            if primitive is ITEM and args[0] in outs:
                handle = outs[args[0]][tape.nodes[i].k]
            elif i in cuts:
                handle = outs[i][0] if len(types) == 1 else None
            elif primitive is INPUT:
                continue
            else:
                line = tape.lines[i][0] if i in tape.lines else None
                operands = tuple([ids[a] for a in args])
                ids[i] = trace.builder.add(primitive, operands, params, line, types)
                continue
            if handle is not None:
                ids[i] = trace.lift(handle)
        return trace.builder.finish([ids[o] for o in tape.outputs])


class _SegmentationPlan:
    """How a system is cut: into segments, or with snapshots in a binomial schedule."""

    def __init__(
        self, tape: Tape, system: System, value: Callable[[int], TracedArray], limit: int
    ) -> None:
        self.tape, self.nodes, self.system = tape, tape.nodes, system
        self.value, self.limit = value, limit
        self.length = length_of(tape, system)
        self.givers = system.givers
        self.snapshots: dict[int, Sequence[TracedArray]] = {}
        self.slots = 0  # of a binomial schedule
        self.spread_budget()

    def spread_budget(self) -> None:
        """Choose the parts: two levels where these fit, else as few repetitions as possible."""
        n, rows, carries = self.length, self.system.rows, self.system.carries
        levels = [(k * c * carries + c * rows, c) for k, c in enumerate(_parts_per_level(n), 1)]
        least = min(n * rows, _COPIES * carries + rows if self.is_pair else min(levels)[0])
        if self.limit < least:
            if budget.get() is not None:
                raise self.refused(least)
            self.limit = least
        self.parts = TripParts(n, self._size_of_two_levels())
        if self.parts.count * carries + self.parts.size * rows > self.limit:
            if self.is_pair:
                self.parts, self.slots = self._binomial()
            else:
                count = next(c for size, c in levels if size <= self.limit)
                self.parts = TripParts(n, -(-n // count))
        self.left = self.limit - self.parts.count * carries

    def _size_of_two_levels(self) -> int:
        """The trips of a part by which carries and rows take the fewest bytes; a near divisor."""
        n, rows, carries = self.length, self.system.rows, self.system.carries
        size = min(max(isqrt(n * carries // rows) if carries else self.limit // rows, 1), n)
        return next((k for k in range(size, min(2 * size, n)) if n % k == 0), size)

    def _binomial(self) -> tuple[TripParts, int]:
        """Parts whose rows take half of the memory, and as many snapshots as fit beside them."""
        n, rows, snapshot = self.length, self.system.rows, _COPIES * self.system.carries
        size = max(1, min(n, self.limit // (2 * rows), (self.limit - snapshot) // rows))
        slots = min(-(-n // size), max(2, (self.limit - size * rows) // snapshot))
        return TripParts(n, size), slots

    def refused(self, least: int) -> InputError:
        """The error for a budget in which the system cannot run."""
        lines = self.tape.lines.get(self.system.loops[0], ())
        fact = f"a loop keeps {least:,} bytes at least, which is more than {self.limit:,}."
        way = f"Give a budget of {least:,} bytes or more."
        return InputError(message("memory_budget", fact, way, lines[0] if lines else None))

    @property
    def is_pair(self) -> bool:
        """Whether the system is one loop and its reverse loop, which reads its rows."""
        if len(self.system.loops) != 2:
            return False
        giver, taker = (self.nodes[i] for i in self.system.loops)
        return giver.param("reverse") != taker.param("reverse")

    def results(self, i: int) -> Sequence[Array | None]:
        """The results of a loop of the system; None in the places of kept rows."""
        node = self.nodes[i]
        trips, kept = self.value(node.args[0]), self.system.kept[i]
        if not self.slots:
            return self.in_segments(i, trips)
        if i in self.givers:
            return self.call(i).run(trips, self.length)
        giver = self.call(self.system.loops[0])
        rows = {k: out for k, (_, out) in kept.items()}
        return checkpointed(giver, self.call(i), rows, trips, self.parts, self.slots)

    def read_by(self, i: int) -> list[int]:
        """The loops of which a loop reads rows, and those that they read rows of, in order."""
        read: set[int] = set()
        for m in (i, *reversed([m for m in self.system.loops if m < i])):
            if m == i or m in read:
                read |= {loop for loop, _ in self.system.kept[m].values()}
        return sorted(read)

    def entered(self, i: int, rows: RowParts) -> Callable[..., LoopCall]:
        """A function that makes the loop of a part, from carries, part number and earlier outs."""
        call, kept = self.call(i), self.system.kept[i]
        invariants = [rows.share(x) for x in call.invariants]
        makers = {k: rows.rows(x) for k, x in enumerate(call.rows) if k not in kept}

        def make(
            state: Sequence[Array], number: Array, outs: Mapping[int, Sequence[Array]]
        ) -> LoopCall:
            places = range(len(call.rows))
            table = [makers[k](number) if k in makers else _out(outs, kept[k]) for k in places]
            return call._replace(state=state, invariants=[x() for x in invariants], rows=table)

        return make

    def call(self, i: int) -> LoopCall:
        """A loop with its arguments; None in the place of rows that are kept."""
        node = self.nodes[i]
        first = len(node.args) - node.param("rows")
        kept = {first + k for k in self.system.kept[i]}
        return loop_call(
            node, [None if k in kept else self.value(a) for k, a in enumerate(node.args)]
        )

    def in_segments(self, i: int, trips: TracedArray) -> Sequence[Array | None]:
        """A loop of segments, in which the loops whose rows it reads run again."""
        parts, rows, call = self.parts, RowParts(self.parts), self.call(i)
        count = len(call.state)
        members = self.read_by(i)
        makers = {m: self.entered(m, rows) for m in (*members, i)}
        exact = constant_value(trips) is not None and parts.length % parts.size == 0
        all_trips = rows.share(trips)
        first = count + len(rows.shared)
        start = [*call.state, *rows.shared]
        snapshots = {m: range(0) for m in members}
        table: list[Array] = [apply(iota, size=parts.count), *rows.table]
        for m in members:
            snapshots[m] = range(len(table), len(table) + len(self.snapshots[m]))
            table += self.snapshots[m]
        dropped = {
            k for table in self.system.kept.values() for loop, k in table.values() if loop == i
        }

        def segment(flat: list[TracedArray]) -> Sequence[object]:
            own = flat[first:]
            rows.enter(flat[count:first], own[1:])
            within = np.asarray(parts.size) if exact else parts.trips_of(own[0], all_trips())
            outs: dict[int, Sequence[Array]] = {}
            for m, make in makers.items():
                state = flat[:count] if m == i else [own[k] for k in snapshots[m]]
                outs[m] = make(state, own[0], outs).run(within, parts.size)
            rest = [x for k, x in enumerate(outs[i][count:], count) if k not in dropped]
            return [*outs[i][:count], *(flat[:count] if i in self.givers else ()), *rest]

        body = within_budget(prune_loops(taped(segment, start, table)), self.left)
        results = apply_many(
            LOOP, parts.runs(trips), *start, *table, body=body, carries=count, length=parts.count,
            reverse=call.reverse, rows=len(table),
        )  # fmt: skip
        if i in self.givers:
            self.snapshots[i], results = (
                results[count : 2 * count],
                (*results[:count], *results[2 * count :]),
            )
        outs = iter(results[count:])
        places = range(count, len(self.nodes[i].types))
        rest = [None if k in dropped else parts.joined(next(outs)) for k in places]
        return [*results[:count], *rest]


def _out(outs: Mapping[int, Sequence[Array]], row: Row) -> Array:
    return outs[row[0]][row[1]]


def _parts_per_level(n: int) -> list[int]:
    """Numbers of parts per level into which `n` trips are cut, for 2, 3, ... levels."""
    levels = range(2, n.bit_length() + 2)
    return [next(c for c in range(max(2, int(n ** (1 / k))), n + 2) if c**k >= n) for k in levels]
