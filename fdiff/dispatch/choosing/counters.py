"""Python numbers that paths through a loop change: ints, truth values and floats.

In the loop they are traced. After it they are Python numbers again: truth values, on which the
trace relies, and ints or floats, which are traced beside traced floats. Any other use relies on
the value.
Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import INT
from ...capture.symbolic_numbers import SymbolicNumber
from ...primitive import PRIMITIVES, Primitive
from ...tape import Tape
from ...trace import Trace, TracedArray, apply
from .path_runs import enclosing_loop
from .variables import FLOAT, TRUTH, WHOLE, RefusedLoopError, Variable

_ADD, _SUBTRACT, _CONVERT = (PRIMITIVES[name] for name in ("add", "subtract", "convert"))
_COMPARING: dict[type[ast.cmpop], Primitive] = {
    kind: PRIMITIVES[name]
    for kind, name in {
        ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
        ast.Eq: "equal", ast.NotEq: "not_equal",
    }.items()
}  # fmt: skip
_NAME, _LARGE = "count", 10**15
_SUM = re.compile(rf"{_NAME}( \+ -?\d{{1,15}})?")
_COMPUTING: dict[type[ast.operator], Callable[..., object]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


class Count:
    """The conditions on an int that a loop has counted, which is a node of a trace."""

    def __init__(self, trace: Trace, node: int, value: float) -> None:
        self.trace, self.node, self.value = trace, node, value

    def constant(self, value: object, /) -> str:
        return repr(value)

    def condition(self, text: str, /) -> None:
        """Rely on a comparison with a number, or on the number itself."""
        test = ast.parse(text.removeprefix("not "), mode="eval").body
        number = bound = None
        if isinstance(test, ast.Compare):
            number, bound = self._compared(test.left), self._bound(test.comparators[0])
        if not isinstance(test, ast.Compare) or number is None or bound is None:
            self.fix(text, self.value)
            return
        truth = apply(_COMPARING[type(test.ops[0])], number, np.asarray(bound, number.dtype))
        self.trace.guards.value(truth.id, "compared a value")
        self.trace.guards.expect(truth.id, value=not text.startswith("not"))

    def fix(self, text: str, value: float, /) -> None:
        self.trace.guards.expect(self.node, self.value)

    def formatted(self, value: object, spec: str, text: str, frame: object, /) -> None:
        self.fix(text, self.value)

    def input(self, text: str, value: float, /) -> object | None:
        """The number as a traced Python float; None where `_computed` does not compute it."""
        number = self._computed(ast.parse(text, mode="eval").body)
        if number is None:
            self.fix(text, value)
        return number

    def result(self, text: str, value: float, /) -> TracedArray | None:
        """The number as a result of the tape; None where `_compared` does not compute it."""
        number = self._compared(ast.parse(text, mode="eval").body)
        if number is None:
            return None
        return TracedArray(number.home, number.id, number.type, scalar=True, weak=True)

    def summands(self, text: str, value: float, /) -> list[object] | None:
        """The number as an output of the tape."""
        number = self.result(text, value)
        return None if number is None else [number]

    def _bound(self, node: ast.expr) -> float | None:
        """A bound in a comparison that the tape can hold."""
        bound = _constant(node)
        return bound if type(bound) is int and abs(bound) < _LARGE else None

    def _compared(self, node: ast.expr) -> TracedArray | None:
        """The number that is compared, an int; None where it is more than a sum with a constant."""
        text = ast.unparse(node)
        return self._own(text) if _SUM.fullmatch(text) is not None else None

    def _computed(self, node: ast.expr) -> TracedArray | None:
        """The count, or its sum with an int, and numbers computed of these and of floats."""
        if (own := self._compared(node)) is not None:
            return apply(_CONVERT, own, scalar=True, weak=True, dtype=FLOAT.dtype)
        if not isinstance(node, ast.BinOp) or type(node.op) not in _COMPUTING:
            return None
        sides = node.left, node.right
        values = [number if type(number := _constant(side)) is float else None for side in sides]
        if values == [None, None]:
            return None
        parts = zip(values, sides, strict=True)
        left, right = (self._computed(side) if n is None else n for n, side in parts)
        if left is None or right is None:
            return None
        return cast("TracedArray", _COMPUTING[type(node.op)](left, right))

    def _own(self, text: str) -> TracedArray:
        """The number, or its sum with a constant."""
        own = TracedArray(self.trace, self.node, WHOLE)
        added = text.removeprefix(_NAME).removeprefix(" + ")
        return apply(_ADD, own, np.asarray(int(added), INT)) if added else own


class Measure(Count):
    """The conditions on a Python float that a loop has changed."""

    def _bound(self, node: ast.expr) -> float | None:
        bound = _constant(node)
        return None if bound is None or abs(bound) >= _LARGE else float(bound)

    def _compared(self, node: ast.expr) -> TracedArray | None:
        return self._computed(node)

    def _computed(self, node: ast.expr) -> TracedArray | None:
        if isinstance(node, ast.Name) and node.id == _NAME:
            return TracedArray(self.trace, self.node, FLOAT, scalar=True, weak=True)
        if not isinstance(node, ast.BinOp) or type(node.op) not in _COMPUTING:
            return None
        sides = node.left, node.right
        values = [_constant(side) for side in sides]
        if values == [None, None]:
            return None
        parts = zip(values, sides, strict=True)
        left, right = (self._computed(side) if n is None else n for n, side in parts)
        if left is None or right is None:
            return None
        return cast("TracedArray", _COMPUTING[type(node.op)](left, right))


class CountedSum(Count):
    """The conditions on the sum of an int, which each call reads anew, and what a loop has counted.

    All but stores, sums with ints and computations with traced floats rely on both numbers.
    """

    def __init__(self, trace: Trace, start: SymbolicNumber, count: SymbolicNumber) -> None:
        super().__init__(trace, -1, start.value + count.value)
        self.parts = start, count

    def condition(self, text: str, /) -> None:
        self.fix(text, self.value)

    def fix(self, text: str, value: float, /) -> None:
        for part in self.parts:
            part.plain()

    def result(self, text: str, value: float, /) -> None:
        """No such sum is a result of the tape."""

    def summands(self, text: str, value: float, /) -> list[object] | None:
        match = _SUM.fullmatch(text.removeprefix("(").removesuffix(")"))
        return None if match is None else [*self.parts, int((match[1] or "0").strip(" +"))]

    def _computed(self, node: ast.expr) -> TracedArray | None:
        parts = self.summands(ast.unparse(node), self.value)
        if parts is None:
            return super()._computed(node)
        start, count = [part.entered() for part in self.parts]
        if start is None or count is None:
            return None
        return cast("TracedArray", start) + count + float(cast("int", parts[-1]))

    def _compared(self, node: ast.expr) -> None:
        """No such sum is compared on the tape."""


def total(trace: Trace, start: SymbolicNumber, count: object) -> SymbolicNumber:
    """The sum of an int that is read anew at each call, and what a loop has counted."""
    assert isinstance(count, SymbolicNumber), "a loop counts ints"
    return SymbolicNumber(CountedSum(trace, start, count), _NAME, start.value + count.value)


def is_read_anew(number: object) -> bool:
    """Whether a number is an int that each call reads anew, or a sum with such an int."""
    if not isinstance(number, SymbolicNumber) or type(number.value) is not int:
        return False
    parts = number.summands()
    return parts is None or any(isinstance(part, SymbolicNumber) for part in parts)


def check_offsets(
    variables: Sequence[Variable], tape: Tape, order: Sequence[int],
    results: Sequence[Sequence[int]], questions: Sequence[Sequence[tuple[int, bool]]],
) -> None:  # fmt: skip
    """Refuse variables that count from an offset, if something depends on their values."""
    asked = {node for path in questions for node, _ in path}
    for i, v in enumerate(variables):
        if v.offset is None:
            continue
        others = asked.union(*[{*own[:i], *own[i + 1 :]} for own in results])
        if not _is_counted_alone(tape, order[i], {own[i] for own in results}, others):
            raise RefusedLoopError(f"{v.name} is more than counted")


def _is_counted_alone(
    tape: Tape, number: int, outs: Collection[int], others: Collection[int]
) -> bool:
    """Whether `outs` are sums with a number on which no other node that is asked for depends."""
    sums = {number}
    for k, (primitive, args, *_) in enumerate(tape.nodes):
        own = [a for a in args if a in sums]
        differs = primitive is _SUBTRACT and own == [*args[:1]]
        if own and (len(own) > 1 or not (primitive is _ADD or differs)):
            return False
        if own:
            sums.add(k)
    return sums.issuperset(outs) and sums.isdisjoint(others)


def _constant(node: ast.expr) -> float | None:
    """The int or float that an expression is, if it is one."""
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    value: object = getattr(getattr(node, "operand", node), "value", None)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return sign * value


def counted(trace: Trace, variable: Variable, result: TracedArray, *, new: bool) -> object:
    """The value of a variable with Python numbers after a loop; a number that is not `new` is old.

    An old number was another variable's before the loop; nothing more is known of its size.
    """
    if (outer := enclosing_loop(trace)) is not None:  # in the body of another one
        number = TracedArray(trace, result.id, result.type, scalar=True, weak=variable.of_python)
        if variable.python is not None and variable.growth is not None:
            outer.numbers.append((number, variable.python))
            if new:
                outer.counts[result.id] = variable.growth
        return number
    if not trace.guards.is_known(result.id):
        raise RefusedLoopError(f"{variable.name} counts, and its number is not at hand")
    value = trace.guards.value(result.id, "counted")
    if variable.type == TRUTH:
        trace.guards.expect(result.id, value=value)
        return bool(value)
    return _symbolic(trace, result.id, np.asarray(value))


def _symbolic(trace: Trace, node: int, value: np.ndarray) -> SymbolicNumber:
    """A node as a Python number, by its value."""
    number = value.item()
    kind = Measure if type(number) is float else Count
    return SymbolicNumber(kind(trace, node, number), _NAME, number)


def number_of(result: TracedArray, kind: type) -> object:
    """A result of a tape that is a Python number, in the trace around it."""
    trace, node = result.home, result.id
    if (
        kind is not bool
        and isinstance(trace, Trace)
        and enclosing_loop(trace) is None
        and trace.guards.is_known(node)
    ):
        return _symbolic(trace, node, np.asarray(trace.guards.value(node, "counted")))
    return TracedArray(trace, node, result.type, scalar=True, weak=True)
