"""Index arrays that a structure rests on, as they are now: docs/decisions/terms-and-cuts.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...tape import CONSTANT, INPUT, ITEM, Tape

Known = Sequence[Callable[[], np.ndarray | None] | None]


class FrozenValues:
    """Values of nodes that do not depend on what is differentiated, and which of them were asked
    for.

    `values` are functions that give the inputs of the tape, None for those that are differentiated.
    `pins` are the integer inputs that values rest on, `computed` the nodes whose values rest on
    other inputs, too.
    """

    def __init__(self, tape: Tape, values: Known) -> None:
        self.tape = tape
        self._known = dict(zip(tape.inputs, values, strict=False))
        self._values: dict[int, object] = {}
        self._rests_on: dict[int, frozenset[int]] = {}
        self.pins: dict[int, np.ndarray] = {}
        self.computed: dict[int, np.ndarray] = {}
        self.lacks = False  # whether an input was asked for whose value is not there

    def of(self, i: int) -> np.ndarray | None:
        """The value of a node; None if it depends on what is differentiated."""
        value = self._value(i)
        if value is None:
            return None
        array = np.asarray(value)
        below = self._rests_on[i]
        if all(not self.tape.nodes[b].type.floating for b in below):
            self.pins |= {self.tape.inputs.index(b): np.asarray(self._values[b]) for b in below}
        else:
            self.computed[i] = array
        return array

    def settled(self, i: int) -> np.ndarray | None:
        """The value of a node that rests on constants and pinned values alone."""
        due, met, inputs = [i], {i}, self.tape.inputs
        while due:
            k = due.pop()
            node = self.tape.nodes[k]
            if node.primitive is INPUT and inputs.index(k) not in self.pins:
                return None
            due += [a for a in node.args if a not in met]
            met.update(node.args)
        return self.of(i)

    def _value(self, i: int) -> object:
        """The value of a node and of its operands, without recursion, because tapes are long."""
        due = [i]
        while due:
            k = due[-1]
            if k in self._values:
                due.pop()
                continue
            node = self.tape.nodes[k]
            missing = [a for a in node.args if a not in self._values]
            if missing:
                due += missing
                continue
            due.pop()
            self._values[k] = self._evaluated(k)
            own = (
                [frozenset([k])]
                if node.primitive is INPUT
                else [self._rests_on[a] for a in node.args]
            )
            self._rests_on[k] = frozenset().union(*own)
        return self._values[i]

    def _evaluated(self, k: int) -> object:
        primitive, args, params, _ = node = self.tape.nodes[k]
        if primitive is INPUT:
            if (read := self._known.get(k)) is None:
                return None
            value = read()
            self.lacks |= value is None
            return value
        if primitive is CONSTANT:
            return node.value
        operands = [self._values[a] for a in args]
        if any(value is None for value in operands):
            return None
        if primitive is ITEM:
            return operands[0][node.k]  # type: ignore[index] - the outputs of a node that has several
        with np.errstate(all="ignore"):
            return primitive.rules.evaluate(*operands, **dict(params))
