"""Integers that a run reads and writes again, as ``self.calls += 1`` does.

Such a number differs at each call. Values computed from it and from constants are kept as the text
of an expression, and comparisons as conditions, so that later calls compute them anew. Beside a
traced float the number is an input of the tape. Any other use fixes the number to its present
value, which a later call must find again.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import Protocol

import fdiff.intact_numpy as np

from ..foreign_errors import hiding
from ..hooks import Function
from .value_kinds import is_traced

LONGEST = 1000  # characters of an expression; a longer expression becomes a number


class ConditionLog(Protocol):
    """The recorder of conditions on the numbers that a run reads and writes again."""

    def condition(self, text: str, /) -> None: ...
    def fix(self, text: str, value: float, /) -> None: ...
    def constant(self, value: object, /) -> str: ...
    def input(self, text: str, value: float, /) -> object | None: ...
    def formatted(self, value: object, spec: str, text: str, frame: FrameType, /) -> str | None: ...
    def result(self, text: str, value: float, /) -> object | None: ...
    def summands(self, text: str, value: float, /) -> list[object] | None: ...


class OtherConditions:
    """Conditions on a number without expression: `rely` is called where the run uses it."""

    def __init__(self, rely: Callable[[], None]) -> None:
        self._rely = rely

    def constant(self, *_: object) -> str:
        self._rely()
        return ""

    condition = fix = input = formatted = result = lambda self, *_: self._rely()

    def summands(self, *_: object) -> None:
        """The number is no sum."""


class SymbolicNumber:
    """A number of Python in one run: an expression, an integer added to it, and its value."""

    __slots__ = ("_added", "_conditions", "_text", "value")

    def __init__(self, conditions: ConditionLog, text: str, value: float, added: int = 0) -> None:
        self._conditions = conditions
        self._text = text
        self._added = added
        self.value = value

    @property
    @hiding
    def text(self) -> str:
        """The expression as Python text."""
        return f"({self._text} + {self._added})" if self._added else self._text

    def belongs_to(self, conditions: ConditionLog) -> bool:
        """Whether these conditions record the number."""
        return self._conditions is conditions

    def plain(self) -> float:
        """The number, which the trace relies on from now on."""
        self._conditions.fix(self.text, self.value)
        return self.value

    def result(self) -> object:
        """The number as a result: a traced array, or the number, which the trace relies on."""
        traced = self._conditions.result(self.text, self.value)
        return self.plain() if traced is None else traced

    def summands(self) -> list[object] | None:
        """The numbers, perhaps traced or symbolic, whose sum this number is; None if unknown."""
        return self._conditions.summands(self.text, self.value)

    def entered(self) -> object | None:
        """The input that stands for the number beside traced floats."""
        return self._conditions.input(self.text, self.value)

    def combined(self, symbol: str, other: object, *, swap: bool = False) -> object:
        """The result of an operator."""
        other = self._other_operand(other)
        compute = _ARITHMETIC[symbol]
        left, right = (other, self) if swap else (self, other)
        if symbol in _SMOOTH and (entered := self._entered(other)) is not None:
            return compute(other, entered) if swap else compute(entered, other)
        if type(other) not in _NUMBERS or len(self._text) > LONGEST:
            return compute(plain_number(left), plain_number(right))
        if symbol in _DIVIDING and isinstance(right, SymbolicNumber):
            bool(right)  # whether it is a zero becomes a condition
        value: float = compute(_value(left), _value(right))
        if type(value) is int and symbol in "+-" and not swap and type(right) is int:
            added = compute(self._added, right)
        elif type(value) is int and symbol == "+" and type(left) is int:
            added = self._added + left
        else:
            text = f"({self._text_of(left)} {symbol} {self._text_of(right)})"
            return SymbolicNumber(self._conditions, text, value)
        return SymbolicNumber(self._conditions, self._text, value, added)

    def compared(self, symbol: str, other: object) -> object:
        """The result of a comparison, which becomes a condition."""
        other = self._other_operand(other)
        compare = _COMPARE[symbol]
        if (entered := self._entered(other)) is not None:
            return compare(entered, other)
        if type(other) not in _NUMBERS:
            return compare(self.plain(), other)
        holds = bool(compare(self.value, _value(other)))
        condition = f"{self.text} {symbol} {self._text_of(other)}"
        self._conditions.condition(condition if holds else f"not {condition}")
        return holds

    def _other_operand(self, other: object) -> object:
        """The other operand; with other conditions, its value, on which the trace relies."""
        foreign = isinstance(other, SymbolicNumber) and not other.belongs_to(self._conditions)
        return plain_number(other) if foreign else other

    def _entered(self, other: object) -> object | None:
        """The input that stands for the number beside a traced float; None beside other values."""
        if not is_traced(other) or getattr(other, "dtype", np.dtype(int)).kind not in "fc":
            return None
        return self.entered()

    def _text_of(self, number: object) -> str:
        is_text = isinstance(number, SymbolicNumber)
        return number.text if is_text else self._conditions.constant(number)

    def __bool__(self) -> bool:
        return bool(self.compared("!=", 0))

    def __neg__(self) -> object:
        return self.combined("*", -1)

    def __pos__(self) -> object:
        return self

    def __format__(self, spec: str) -> str:
        text = format(self.value, spec)
        mark = self._conditions.formatted(self, spec, text, sys._getframe(1))
        return format(self.plain(), spec) if mark is None else mark

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> object:
        return getattr(ufunc, method)(*map(plain_number, inputs), **kwargs)

    def __array__(self, dtype: np.dtype | None = None, copy: object = None) -> np.ndarray:
        return np.array(self.plain(), dtype)

    @hiding
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.plain(), name)


_NUMBERS = frozenset((int, float, bool, SymbolicNumber))
_SMOOTH, _DIVIDING = frozenset("+-*/"), frozenset(("//", "%", "/"))
_ARITHMETIC: dict[str, Function] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
_COMPARE: dict[str, Callable[..., object]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_OF_PLAIN: dict[str, Callable[..., object]] = {
    "index": operator.index, "int": int, "float": float, "complex": complex, "hash": hash,
    "str": str, "repr": repr, "abs": abs, "invert": operator.invert,
    "round": round, "trunc": int, "floor": lambda n: n.__floor__(), "ceil": lambda n: n.__ceil__(),
    "divmod": divmod, "rdivmod": lambda n, other: divmod(other, n),
    "reduce": lambda n: (type(n), (n,)),
}  # fmt: skip


def plain_number(value: object) -> object:
    """The number in place of a symbolic one; any other value as it is."""
    return value.plain() if isinstance(value, SymbolicNumber) else value


def _value(number: object) -> object:
    return number.value if isinstance(number, SymbolicNumber) else number


def _arithmetic(symbol: str, *, swap: bool = False) -> Callable[[SymbolicNumber, object], object]:
    return lambda self, other: self.combined(symbol, other, swap=swap)


def _comparison(symbol: str) -> Callable[[SymbolicNumber, object], object]:
    return lambda self, other: self.compared(symbol, other)


def _of_plain(compute: Callable[..., object], *, swap: bool = False) -> Callable[..., object]:
    """A method that applies `compute` to the plain values of the number and its operands."""

    def method(self: SymbolicNumber, *others: object) -> object:
        operands = [self.plain(), *map(plain_number, others)]
        return compute(*reversed(operands)) if swap else compute(*operands)

    return method


_NAMES = ["add", "sub", "mul", "truediv", "floordiv", "mod"]
for _symbol, _name in zip(_ARITHMETIC, _NAMES, strict=True):
    setattr(SymbolicNumber, f"__{_name}__", _arithmetic(_symbol))
    setattr(SymbolicNumber, f"__r{_name}__", _arithmetic(_symbol, swap=True))
for _symbol, _name in zip(_COMPARE, ["lt", "le", "gt", "ge", "eq", "ne"], strict=True):
    setattr(SymbolicNumber, f"__{_name}__", _comparison(_symbol))
for _name in ["pow", "and", "or", "xor", "lshift", "rshift"]:
    _compute = getattr(operator, f"__{_name}__")
    setattr(SymbolicNumber, f"__{_name}__", _of_plain(_compute))
    setattr(SymbolicNumber, f"__r{_name}__", _of_plain(_compute, swap=True))
for _name, _compute in _OF_PLAIN.items():
    setattr(SymbolicNumber, f"__{_name}__", _of_plain(_compute))
