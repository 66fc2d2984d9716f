"""Which arrays the variables of a loop hold: numbers of arrays, as far as two may hold one.

After ``best = u`` two variables hold one array. In the body of a node they are two carries of equal
values, which nobody can tell apart as long as no store goes there. Of each variable that may share
its array, one more carry is the number of the array, and another one counts the arrays that were
made. After the loop the trace relies on which numbers are equal, and those variables hold one
array again. In the body of another loop, numbers are handed on.
Our own method: docs/decisions/arrays-with-two-names.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...arraytype import INT
from ...primitive import PRIMITIVES
from ...trace import Trace, TracedArray, apply
from ...trace.array_links import root_of
from .variables import WHOLE, PathRun, RefusedLoopError, Variable

if TYPE_CHECKING:
    from .path_runs import Answers

_ADD, _EQUAL = PRIMITIVES["add"], PRIMITIVES["equal"]


class ArrayNumbers:
    """The numbers of the arrays that a run of a body meets.

    `numbers` are nodes, by places of the `inputs`. Arrays that the run makes are counted from the
    node `begin` on, if there is one. The run has `asked` for numbers of other inputs, or for a
    count (-1), which it will have in the next pass.
    """

    def __init__(
        self, trace: Trace, inputs: Sequence[object], numbers: Mapping[int, int], begin: int | None
    ) -> None:
        self.trace, self.asked = trace, set[int]()
        self._begin, self._made = begin, 0
        self._places = {id(h): k for k, h in enumerate(inputs) if isinstance(h, TracedArray)}
        self._numbers = dict[int, int]()  # by the identity of handles
        self._held: list[object] = [*inputs]
        self.handed = set[int]()  # the same, of handles that loops in the body have given
        for k, node in numbers.items():
            self._numbers[id(inputs[k])] = node

    def number(self, array: object) -> int:
        """The node of the number of an array."""
        array = root_of(array) if isinstance(array, TracedArray) else array
        key = id(array)
        if key in self._places and key not in self._numbers:
            self.asked.add(self._places[key])
            return self.trace.builder.constant(np.array(0))
        if key not in self._numbers:
            self._held.append(array)
            self._numbers[key] = self.next()
            self._made += 1
        return self._numbers[key]

    def next(self) -> int:
        """The node of the number of the next array that is made."""
        if self._begin is None:
            self.asked.add(-1)
            return self.trace.builder.constant(np.array(0))
        count = self.trace.builder.constant(np.array(self._made, INT))
        return self.trace.add(_ADD, (self._begin, count)) if self._made else self._begin

    def hand(self, array: object, number: int) -> None:
        """Note the number of an array that a loop in the body gives."""
        self._held.append(array)
        self._numbers[id(array)] = number
        self.handed.add(id(array))

    def go_on(self, begin: int) -> None:
        """Count further arrays from a node on."""
        self._begin, self._made = begin, 0


def sharing(
    values: Sequence[object], inputs: Sequence[object], met: ArrayNumbers, tagged: set[int],
    places: Sequence[int],
) -> set[int]:  # fmt: skip
    """The variables at `places` that may share arrays after a run; `tagged` ones may before it."""
    before = {id(h): k for k, h in enumerate(inputs) if isinstance(h, TracedArray)}
    shared, held = met.asked & {*places}, dict[object, int]()
    for k in places:
        value = values[k]
        if not isinstance(value, TracedArray):
            continue
        key = id(root_of(value))
        origin = before.get(key)
        if key in held:
            shared |= {k, held[key]}
        if key in met.handed or origin in tagged:
            shared.add(k)
        if origin is not None and k in tagged:
            shared.add(origin)
        held[key] = k
    return shared


def handed_on(runs: Sequence[PathRun], places: Sequence[int]) -> set[int]:
    """The variables whose arrays a list gets, too, and another variable gets in the next trip."""
    appended = {id(root_of(v)) for run in runs for v in run.appended if isinstance(v, TracedArray)}
    own = {k for run in runs for k in places if id(run.values[k]) in appended}
    return {
        k for k in own for run in runs for m in places
        if m != k and run.values[m] is run.inputs[k]
    }  # fmt: skip


def numbers_before(
    around: Answers | None, values: Sequence[object], fresh: Sequence[TracedArray]
) -> list[object]:
    """The numbers of arrays before a loop, and of the next one if they are counted."""
    if around is not None:
        met = around.arrays
        nodes = [met.number(v) for v in values] + ([met.next()] if fresh else [])
        return [TracedArray(met.trace, node, WHOLE, scalar=True) for node in nodes]
    numbers = dict[int, int]()
    own = [root_of(v) if isinstance(v, TracedArray) else v for v in values]
    own_numbers = [numbers.setdefault(id(v), len(numbers)) for v in own]
    return [np.array(n, INT) for n in (*own_numbers, *[len(numbers) for _ in fresh])]


def hand_numbers(
    around: Answers, variables: Sequence[Variable], values: Sequence[object],
    tags: Mapping[int, TracedArray], last: Sequence[TracedArray],
) -> None:  # fmt: skip
    """Tell the body around a loop the numbers of arrays after it, and of the next one."""
    for k, number in tags.items():
        value = values[k]
        if isinstance(value, TracedArray) and not variables[k].keeps_binding:
            around.arrays.hand(value, number.id)
            around.shared = max(around.shared, value.id)
    for number in last:
        around.arrays.go_on(number.id)


def equal_pairs(trace: Trace, tags: Mapping[int, TracedArray]) -> list[tuple[int, int]]:
    """The variables that hold one array after an outermost loop, on which the trace relies."""
    each = combinations(tags.items(), 2)
    return [(k, j) for (k, first), (j, other) in each if relied_on(trace, first, other)]


def unify(
    variables: Sequence[Variable], values: list[object], same: Sequence[tuple[int, int]]
) -> None:
    """Give variables that hold one array the same handle."""
    for k, j in same:
        if variables[j].keeps_binding:
            values[k] = values[j]
        else:
            values[j] = values[k]


def relied_on(trace: Trace, numbers: TracedArray, number: TracedArray) -> np.ndarray:
    """Which numbers are equal to another one, on which the trace relies."""
    same, guards = apply(_EQUAL, numbers, number), trace.guards
    if not guards.is_known(same.id) or guards.is_batched(same.id):
        raise RefusedLoopError("two variables may hold one array")
    equal = np.array(guards.value(same.id, "compared arrays"))
    guards.expect(same.id, equal)
    return equal
