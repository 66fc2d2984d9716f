"""Values of trips: what is asked in a trip whose calls are compared, computed from its inputs.

A tape beside the body has the values asked and what the trip hands to the next as outputs. Of it,
NumPy runs as much as questions depend on, in this trip and, by the carries, in those before. The
part that runs is a backward slice (idea of M. Weiser, Program slicing, IEEE Trans. Softw. Eng.
10(4), 1984): docs/decisions/plain-loops-that-branch.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...foreign_errors import not_foreign
from ...tape import CONSTANT, INPUT, Tape
from ..traced_array import TracedArray
from .questions import Question
from .trip_points import Movement

if TYPE_CHECKING:
    from .checked_trips import Frame

Step = tuple[
    Callable[..., object], int, tuple[int, ...]
]  # a function, its node, and the nodes of its arguments
Segment = tuple[list[int], list[Step]]  # the inputs that are needed, and the steps


class AskedPlan:
    """Segments of a trip's computations: before each question, and at the end.

    The inputs of the tape are, in this order, what stands in the `slots`, and the rows. Its outputs
    are, for each path, what is `asked` so often, and then what stands in the first slots, the
    `carried` ones, in the next trip.
    """

    def __init__(
        self, tape: Tape, slots: Sequence[int], carried: int, asked: Sequence[int]
    ) -> None:
        self.tape = tape
        self.slots = dict(zip(slots, tape.inputs, strict=False))
        self.rows = [*tape.inputs[len(slots) :]]
        outputs = iter(tape.outputs)
        self.asked = [[next(outputs) for _ in range(count + carried)] for count in asked]
        sources = [
            zip(tape.inputs, o[n:], strict=False) for o, n in zip(self.asked, asked, strict=True)
        ]
        self.sources = [*map(dict, sources)]
        self.asked = [o[:n] for o, n in zip(self.asked, asked, strict=True)]
        self.needed = self.ancestors([i for o in self.asked for i in o], self.sources)
        self.carried = [{i: o for i, o in s.items() if i in self.needed} for s in self.sources]
        self.segments = [*map(self._segments, self.asked, self.carried)]
        self.constants = [(i, n.value) for i, n in enumerate(tape.nodes) if n.primitive is CONSTANT]

    def ancestors(self, nodes: Sequence[int], sources: Sequence[dict[int, int]] = ()) -> set[int]:
        """The nodes that others depend on, nodes of the trips before among them."""
        seen, waiting = set(nodes), [*nodes]
        while waiting:
            i = waiting.pop()
            more = [*self.tape.nodes[i].args, *[s[i] for s in sources if i in s]]
            waiting += [a for a in more if a not in seen]
            seen.update(more)
        return seen

    def _segments(self, asked: Sequence[int], carried: dict[int, int]) -> list[Segment]:
        """The segments of a path: before each question, and at its end."""
        done: set[int] = set()
        segments = [self._segment([node], done) for node in asked]
        return [*segments, self._segment([*carried.values()], done)]

    def _segment(self, nodes: Sequence[int], done: set[int]) -> Segment:
        """The inputs and the steps that nodes need, which are done then."""
        new = sorted(self.ancestors(nodes) - done)
        done.update(new)
        steps, tape = [], self.tape.nodes
        for i in new:
            primitive, args, params, _ = tape[i]
            if primitive is not INPUT and primitive is not CONSTANT:
                run = (
                    partial(primitive.rules.evaluate, **dict(params))
                    if params
                    else primitive.rules.evaluate
                )
                steps.append((run, i, args))
        return [i for i in new if tape[i].primitive is INPUT], steps


class TripValues:
    """The values of the trip of a frame under way, by node of the tape."""

    def __init__(self, frame: Frame, plan: AskedPlan) -> None:
        self.frame, self.plan = frame, plan
        self.guards = frame.trace.guards
        self.values: list[object] = [None] * len(plan.tape.nodes)
        for i, value in plan.constants:
            self.values[i] = value
        self.nodes: dict[int, int] = {}  # by input: the node of what stands in the slot at first
        self.asked = 0
        self.failed = False
        self.movement = Movement(self)

    def fill(self, slot: int, handle: TracedArray) -> None:
        """Note what stands in a slot, if it is needed."""
        i = self.plan.slots.get(slot, -1)
        if i in self.plan.needed:
            self.nodes[i] = self.frame.trace.own(handle)

    def answer(self, question: Question) -> complex | None:
        """The answer to Python's next question; None where the trace has to decide."""
        path, k = self.frame.path, self.asked
        if not self._run(*self.plan.segments[path][k]):
            return None
        node = self.plan.asked[path][k]
        answer = question.answer(self.values[node])
        if answer is None or self.movement.decides(question, node, answer):
            return None
        self.asked += 1
        return answer

    def end_trip(self) -> None:
        """Hand on what the next trip begins with."""
        path = self.frame.path
        if self._run(*self.plan.segments[path][-1]):
            new = [(i, self.values[o]) for i, o in self.plan.carried[path].items()]
            for i, value in new:
                self.values[i] = value
        self.asked = 0

    def enter(self, outs: Sequence[int]) -> None:
        """Rely on all answers after the loop, whose last carries are `outs`; note their values."""
        self.guards.expect(outs[-1], value=True)
        if not self.failed:
            for i, out in zip(self.plan.tape.inputs, outs, strict=False):
                if i in self.plan.carried[0]:
                    self.guards.note(out, self.values[i])

    def _run(self, inputs: Sequence[int], steps: Sequence[Step]) -> bool:
        """Compute what a question needs; whether that went well."""
        compute = partial(self._compute, inputs, steps)
        try:
            compute()
        except not_foreign(Exception, again=compute):
            self.failed = True  # the user's code meets it where the trip is run again
        return not self.failed

    def _compute(self, inputs: Sequence[int], steps: Sequence[Step]) -> None:
        values = self.values
        for i in inputs:
            if values[i] is None or i in self.plan.rows:
                values[i] = self._input(i)
        with np.errstate(all="ignore"):
            for run, i, args in steps:
                values[i] = run(*[values[a] for a in args])

    def _input(self, i: int) -> object:
        if i not in self.nodes:
            row = self.plan.rows.index(i)
            entry = self.frame.rows[row][self.frame.trips]
            if not isinstance(entry, TracedArray):
                return np.asarray(entry, self.plan.tape.nodes[i].type.dtype)
            return self.guards.value(self.frame.trace.own(entry), "compared a value")
        return self.guards.value(self.nodes[i], "compared a value")
