"""What depends on a differentiated value in a trip whose calls are compared.

Where such a value would lose its derivative, or a condition may hold at this point alone
(`memo_branches.py`), the trace has to decide: the trip is cut short, and asks by itself. Why the
point matters: docs/decisions/branches-at-a-point.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...capture.literal_operands import is_literal
from ...foreign_errors import not_foreign
from ...tape import Node
from ..branching.memo_branches import KEY, a_little_off, is_close
from ..traced_array import TracedArray
from .questions import Question

if TYPE_CHECKING:
    from .trip_values import TripValues


class Movement:
    """Which values of the trips of a frame move with what is differentiated.

    `smooth` have a derivative, `moving` depend on it in any way. Until all slots are filled, they
    are looked for anew.
    """

    def __init__(self, values: TripValues) -> None:
        self.values, self.plan, self.guards = values, values.plan, values.guards
        self.smooth: set[int] = set()
        self.moving: set[int] = set()
        self.filled = -1
        self.points: dict[int, tuple[list[int], list[tuple[int, int, int]]]] = {}

    def decides(self, question: Question, node: int, answer: complex) -> bool:
        """Whether the trace has to answer a question itself."""
        if self.filled != len(self.values.nodes):
            self._look()
        if question.kind in (float, complex):
            return node in self.smooth
        if node not in self.moving:
            return False
        if question.kind is not bool:
            return abs(answer) >= KEY
        look = partial(self._is_at_a_point, node)
        try:
            return look()
        except not_foreign(ArithmeticError, IndexError, TypeError, ValueError, again=look):
            return True

    def _look(self) -> None:
        """Find what moves, through all trips."""
        plan, values = self.plan, self.values
        begin = {i for i, node in values.nodes.items() if self.guards.depends(node)}
        examples = values.frame.template.examples
        begin |= {i for i, e in zip(plan.rows, examples, strict=True) if isinstance(e, TracedArray)}
        self.moving = self._spread(begin, lambda node: node.primitive.rules.stops)
        self.smooth = self._spread(
            begin, lambda node: node.primitive.rules.flat or not any(t.floating for t in node.types)
        )
        self.filled = len(values.nodes)
        self.points.clear()

    def _spread(self, begin: set[int], ends: Callable[[Node], bool]) -> set[int]:
        """The nodes that depend on some inputs, but through those where dependence `ends`."""
        moving, size, nodes = {*begin}, -1, self.plan.tape.nodes
        while len(moving) > size:
            size = len(moving)
            for i in sorted(self.plan.needed):
                if not moving.isdisjoint(nodes[i].args) and not ends(nodes[i]):
                    moving.add(i)
            for carried in self.plan.carried:
                moving.update([i for i, o in carried.items() if o in moving])
        return moving

    def _is_at_a_point(self, node: int) -> bool:
        """Whether a condition may hold where a differentiated value meets another one alone."""
        if node not in self.points:
            visited = [i for i in sorted(self.plan.ancestors([node])) if i in self.moving]
            self.points[node] = visited, [*self._meetings(visited)]
        visited, meetings = self.points[node]
        values = self.values.values
        for _, a, b in meetings:
            x, y = np.asarray(values[a]), np.asarray(values[b])
            if is_close(x, y):
                here, below, above = (
                    self._moved(visited, b, node, sign) for sign in (0.0, -1.0, 1.0)
                )
                if here not in (below, above) or (below != above and np.array_equal(x, y)):
                    return True
        return False

    def _meetings(self, visited: list[int]) -> Iterator[tuple[int, int, int]]:
        """Nodes with two operands: a differentiated one, and one that is not, and no literal."""
        tape = self.plan.tape
        for i in visited:
            args = tape.nodes[i].args
            for b in args if len(args) > 1 else ():
                node = tape.nodes[b]
                if len(node.types) == 1 and node.type.floating and b not in self.moving:
                    value = node.value  # of a constant
                    if value is None or not is_literal(tape.lines.get(i, ()), value):
                        yield from [(i, a, b) for a in args if a in self.moving]

    def _moved(self, visited: list[int], moved: int, node: int, sign: float) -> bool:
        """The truth of a node where a value is a little larger or smaller."""
        values, nodes = self.values.values, self.plan.tape.nodes
        new = {moved: a_little_off(np.asarray(values[moved]), sign)}
        with np.errstate(all="ignore"):
            for i in visited:
                if not new.keys().isdisjoint(nodes[i].args):
                    args = [new.get(a, values[a]) for a in nodes[i].args]
                    new[i] = nodes[i].primitive.rules.evaluate(*args, **dict(nodes[i].params))
        return bool(new.get(node, values[node]))
