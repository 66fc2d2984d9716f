"""The sizes of Python ints that paths through a loop count.

Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...primitive import PRIMITIVES
from ...tape import Tape
from ...trace import TracedArray
from .variables import TRUTH, Growth, RefusedLoopError, Variable

_ADD, _SUBTRACT = PRIMITIVES["add"], PRIMITIVES["subtract"]
_OUTERMOST = 47  # bits of an int that an outermost loop counts; each loop in it has one more


class CountSizes:
    """The sizes of ints on the tape of a loop's body, by their nodes.

    `largest` has the sizes of the numbers of trips; `counts` are ints that loops in the body count.
    An int that the loop counts itself grows by what each trip adds. The loop stands in `depth`
    others, which may count it, too.
    """

    def __init__(
        self, tape: Tape, largest: Mapping[int, int], counts: Mapping[int, Growth], depth: int
    ) -> None:
        self.tape, self.largest, self.counts = tape, {**largest}, counts
        self._start = 1 << min(_OUTERMOST + depth, 52)

    def growth(self, variable: Variable, own: int, outs: Iterable[int], trips: int) -> Growth:
        """How large a variable gets whose nodes are `own` before a trip and `outs` after it."""
        start = variable.start
        if variable.type == TRUTH:
            return Growth(None, 0, 1)
        steps, fixed = 0, abs(start) if isinstance(start, int) else 0
        for out in outs:
            more, other = self._grown(out, own)
            steps, fixed = max(steps, more), max(fixed, other)
        node = start.node if isinstance(start, TracedArray) else None
        return Growth(node, trips * steps, fixed + trips * steps)

    def _grown(self, node: int, own: int) -> tuple[int, int]:
        """By how much a node may be larger than `own`; and how large it may be otherwise."""
        steps, fixed = 0, 0
        while node != own:
            growth, size = self.counts.get(node), self.size(node)
            if size is not None:
                return 0, max(fixed, size + steps)
            if growth is not None and growth.start is not None:
                fixed = max(fixed, growth.fixed + steps)
                node, steps = growth.start, steps + growth.steps
                continue
            primitive, args, *_ = self.tape.nodes[node]
            sizes = [self.size(a) for a in args]
            added = [n for n in sizes if n is not None]
            swapped = primitive is _SUBTRACT and sizes[0] is not None
            if primitive not in (_ADD, _SUBTRACT) or len(added) != 1 or swapped:
                raise RefusedLoopError("an int changes otherwise than by adding a constant")
            node, steps = args[sizes.index(None)], steps + added[0]
        return steps, fixed

    def size(self, node: int) -> int | None:
        """The largest size of a node; None if that is not known."""
        value, growth = self.tape.nodes[node].value, self.counts.get(node)
        if value is not None:
            return abs(int(value))
        if growth is None:
            return self.largest.get(node)
        start = 0 if growth.start is None else self.size(growth.start)
        return None if start is None else max(growth.fixed, start + growth.steps)

    def note(self, node: int, growth: Growth) -> None:
        """Note the size of what the loop counts."""
        start = 0 if growth.start is None else self._start
        self.largest[node] = max(growth.fixed, start + growth.steps)

    def all(self) -> dict[int, int]:
        """The sizes of all ints; RefusedLoopError where a loop in the body was promised less."""
        sizes = {node: size for node in self.counts if (size := self.size(node)) is not None}
        starts = [g.start for g in self.counts.values() if g.start is not None]
        if any((self.size(start) or 0) >= 2 * self._start for start in starts):
            raise RefusedLoopError("it counts further than floats tell numbers apart")
        return {**self.largest, **sizes}
