"""Ints and truth values of Python's that ways through a loop change.

In the loop they are traced. Behind it they are Python's again: a truth value, on which the trace
relies, and an int that is traced beside traced floats. Any other use of it relies on its value. Our
own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import INT
from ...capture.symbolic_numbers import SymbolicNumber
from ...primitive import PRIMITIVES
from ...tape import Tape
from ...trace import Trace, TracedArray, apply
from .variables import FLOAT, TRUTH, WHOLE, RefusedLoopError, Variable

_ADD, _SUBTRACT, _CONVERT = (PRIMITIVES[name] for name in ("add", "subtract", "convert"))
_COMPARING = {
    symbol: PRIMITIVES[name]
    for symbol, name in {
        "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal",
        "!=": "not_equal",
    }.items()
}  # fmt: skip
_NAME = "count"
_TERM = rf"{_NAME}|\({_NAME} \+ -?\d{{1,15}}\)"
_SUM = re.compile(_TERM)
_CONDITION = re.compile(rf"(not )?({_TERM}) (<|<=|>|>=|==|!=) (-?\d{{1,15}})")


class Count:
    """The conditions on an int that a loop has counted, which is a node of a trace."""

    def __init__(self, trace: Trace, node: int, value: int) -> None:
        self.trace, self.node, self.value = trace, node, value

    def constant(self, value: object, /) -> str:
        return repr(value)

    def condition(self, text: str, /) -> None:
        """Rely on a comparison with a number, or on the number itself."""
        parts = _CONDITION.fullmatch(text)
        if parts is None:
            self.fix(text, self.value)
            return
        _, name, symbol, bound = parts.groups()
        truth = apply(_COMPARING[symbol], self._own(name), np.asarray(int(bound), INT))
        self.trace.guards.value(truth.id, "compared a value")
        self.trace.guards.expect(truth.id, value=not text.startswith("not"))

    def fix(self, text: str, value: float, /) -> None:
        self.trace.guards.expect(self.node, self.value)

    def formatted(self, value: object, spec: str, text: str, frame: object, /) -> None:
        self.fix(text, self.value)

    def input(self, text: str, value: float, /) -> object | None:
        """The number as a traced float of Python's; None where it is no sum with a constant."""
        if _SUM.fullmatch(text) is None:
            self.fix(text, value)
            return None
        return apply(_CONVERT, self._own(text), scalar=True, weak=True, dtype=FLOAT.dtype)

    def _own(self, text: str) -> TracedArray:
        """The number, or its sum with a constant."""
        own = TracedArray(self.trace, self.node, WHOLE)
        added = text.strip("()").removeprefix(_NAME).removeprefix(" + ")
        return apply(_ADD, own, np.asarray(int(added), INT)) if added else own


def counted(trace: Trace, variable: Variable, result: TracedArray) -> object:
    """What a variable of Python's numbers holds behind a loop."""
    if not trace.guards.is_known(result.id):
        raise RefusedLoopError(f"{variable.name} counts, and its number is not at hand")
    value: Any = trace.guards.value(result.id, "counted")
    if variable.type == TRUTH:
        trace.guards.expect(result.id, value=value)
        return bool(value)
    number = int(value)
    return SymbolicNumber(Count(trace, result.id, number), _NAME, number)


def size_of_count(tape: Tape, own: int, outs: Iterable[int], variable: Variable, trips: int) -> int:
    """The largest size of an int that trips change; RefusedLoopError where it may be any."""
    if variable.type == TRUTH:
        return 1
    start: Any = variable.start
    grown, fixed = [0], [abs(start)]
    for out in outs:
        node, steps, number = out, 0, 0
        while node != own and (number := _constant(tape, node)) is None:
            primitive, args, *_ = tape.nodes[node]
            added = [n for a in args if (n := _constant(tape, a)) is not None]
            swapped = primitive is _SUBTRACT and _constant(tape, args[0]) is not None
            if primitive not in (_ADD, _SUBTRACT) or len(added) != 1 or swapped:
                raise RefusedLoopError("an int changes otherwise than by adding a constant")
            steps += abs(added[0])
            node = args[0] if _constant(tape, args[0]) is None else args[1]
        if node == own:
            grown.append(steps)
        else:
            fixed.append(abs(number or 0) + steps)
    return max(fixed) + trips * max(grown)


def _constant(tape: Tape, node: int) -> int | None:
    """The int that a node is, if it is a constant."""
    value = tape.nodes[node].value
    return None if value is None else int(value)
