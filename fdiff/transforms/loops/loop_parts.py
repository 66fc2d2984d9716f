"""A loop run part by part: its rows, and the trips of a part: docs/decisions/what-loops-keep.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...named_tuples import NamedTuple
from ...ops.control.loop import LOOP
from ...ops.control.loop_operands import operands
from ...ops.entrywise.elementwise import add
from ...ops.shapes.gather_scatter import iota
from ...ops.shapes.view_ops import spread
from ...tape import Node, Tape
from ...trace import Array, TracedArray, apply, apply_many
from ..simplify import SimplifyingTrace


class LoopCall(NamedTuple):
    """A loop: its body, how many of the inputs are carries, its direction, and what it is given."""

    body: Tape
    carries: int
    reverse: bool
    state: Sequence[Array]
    invariants: Sequence[Array]
    rows: Sequence[Array]

    def run(self, trips: object, length: int) -> tuple[TracedArray, ...]:
        """The last carries and the outs."""
        return apply_many(
            LOOP, trips, *self.state, *self.invariants, *self.rows, body=self.body,
            carries=self.carries, length=length, reverse=self.reverse, rows=len(self.rows),
        )  # fmt: skip


def loop_call(node: Node, args: Sequence[Any]) -> LoopCall:
    """The loop of a node, given arguments in place of its own."""
    params = dict(node.params)
    _, *parts = operands(args, params["carries"], params["rows"])
    return LoopCall(params["body"], params["carries"], params["reverse"], *parts)


@dataclass(frozen=True)
class TripParts:
    """`length` rows in parts of one size; the last part may have fewer, padded by zeros."""

    length: int
    size: int

    @property
    def count(self) -> int:
        return -(-self.length // self.size)

    def runs(self, trips: Array) -> Array:
        """The number of parts that have trips."""
        return (trips + (self.size - 1)) // self.size

    def trips_of(self, number: Array, trips: Array) -> Array:
        """The trips of a part, where `trips` are the trips of all parts."""
        return np.clip(trips - number * self.size, 0, self.size)

    def cut(self, x: Array) -> Array:
        """Rows in parts."""
        if missing := self.count * self.size - self.length:
            x = np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)])
        return np.reshape(x, (self.count, self.size, *x.shape[1:]))

    def joined(self, x: Array) -> Array:
        """Rows that were in parts."""
        return np.reshape(x, (self.count * self.size, *x.shape[2:]))[: self.length]


Maker = Callable[[Array], Array]  # the rows of a part, by its number


class RowParts:
    """Rows of loops in parts, each once; those that count or repeat a number are made in a part.

    `shared` is what all parts read, `table` the rows in parts. `enter` tells a body of its own.
    """

    def __init__(self, parts: TripParts) -> None:
        self.parts = parts
        self.shared: list[Array] = []
        self.table: list[Array] = []
        self.places: dict[tuple[bool, int], int] = {}
        self.within: tuple[Sequence[Array], Sequence[Array]] = ((), ())

    def enter(self, shared: Sequence[Array], table: Sequence[Array]) -> None:
        """Take the values of `shared`, and entries of the `table`, in the body under way."""
        self.within = shared, table

    def share(self, x: Array) -> Callable[[], Array]:
        """A function that returns a value in each part."""
        k = self._place(self.shared, x, cut=False)
        return lambda: self.within[0][k]

    def rows(self, x: Array) -> Maker:
        """A function that returns the rows of a part."""
        array = self._row_maker(x) if isinstance(x, TracedArray) else None
        if array is not None:
            return array
        k = self._place(self.table, x, cut=True)
        return lambda number: self.within[1][k]

    def _place(self, values: list[Array], x: Array, *, cut: bool) -> int:
        key = cut, x.id if isinstance(x, TracedArray) else -id(x)
        if key not in self.places:
            self.places[key] = len(values)
            values.append(self.parts.cut(x) if cut else x)
        return self.places[key]

    def _row_maker(self, x: TracedArray) -> Maker | None:
        """A function that makes rows computed from their number; None for other rows."""
        size, builder = self.parts.size, x.home.builder
        primitive, args, _, _ = builder.nodes[x.id]
        if primitive is iota:
            return lambda number: number * size + apply(iota, size=size)
        if primitive is add and x.ndim == 1:
            pair = [TracedArray(x.home, a, builder.type(a)) for a in args]
            for a, b in (pair, pair[::-1]):
                if not b.ndim and a.ndim and (count := self._row_maker(a)) is not None:
                    first = self.share(b)
                    return lambda number: count(number) + first()
        if primitive is spread and not builder.type(args[0]).shape:
            entry = self.share(TracedArray(x.home, args[0], builder.type(args[0])))
            return lambda number: apply(spread, entry(), shape=(size, *x.shape[1:]))
        return None


def taped(
    function: Callable[[list[TracedArray]], Sequence[object]],
    arguments: Sequence[Array],
    table: Sequence[Array],
) -> Tape:
    """The tape of a function of what a loop is given, and of entries of its rows."""
    types = [ArrayType(x.shape, x.dtype) for x in arguments]
    types += [ArrayType(x.shape[1:], x.dtype) for x in table]
    with SimplifyingTrace("vjp") as trace:
        outs = function([trace.input(t) for t in types])
        return trace.builder.finish([trace.lift(x) for x in outs])
