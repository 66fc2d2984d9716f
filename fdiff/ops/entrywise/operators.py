"""Operators of traced arrays (``+``, ``@``, ``<``, ``-x``), and the methods that NumPy's object arrays call.

Source: Python's Language Reference, section "Emulating numeric types".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import BOOL
from ...foreign_errors import not_foreign
from ...hooks import hooks
from ...primitive import UFUNCS
from ...trace import TracedArray, current
from ...trace.handler_arguments import resolve
from ...trace.masked_parts import MaskedPart
from ...trace.trace_stack import asks, stack
from ...trace.ufunc_fast_path import enter
from .families import kind_of, refuse_foreign

BINARY_OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift, "pow": np.power, "matmul": np.matmul,
}  # fmt: skip
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_NUMERIC: tuple[type, ...] = (TracedArray, int, float, complex, np.ndarray, np.generic)
_EQUALITY = (np.equal, np.not_equal)
_UNEQUAL: tuple[type, ...] = (str, bytes, type(None))  # to any number, which NumPy says entry by entry


def _converted(ufunc: np.ufunc, x: TracedArray, other: object) -> object:
    """An operand beside `x` that is no number and no array, converted as `ufunc` does; NotImplemented to leave it to Python.

    As NumPy has it, arrays and scalars take sequences for arrays, but integers repeat them.
    """
    scalar, text = x.scalar or x.weak, isinstance(other, (str, bytes))
    if not isinstance(other, Sequence) or (scalar and ufunc is np.matmul):
        return NotImplemented
    if ufunc is np.multiply and (text or (scalar and hasattr(other, "__mul__"))):
        if not scalar or x.dtype.kind not in "iu":
            kind = "float" if x.weak else f"numpy.{x.dtype.name if scalar else 'ndarray'}"
            raise TypeError(f"can't multiply sequence by non-int of type '{kind}'")
        return NotImplemented  # Python repeats it, and asks for the integer
    if text or x.weak:
        return NotImplemented
    try:
        data = np.array(memoryview(other))
    except not_foreign(TypeError):  # no buffer
        return resolve(list(other))
    if ufunc in _COMPARE.values() and isinstance(other, (bytearray, memoryview)):  # by Python itself, on the left
        fact = f"a {type(other).__name__} was compared with a traced array."
        raise current().fail(fact, "Make an array of it: `np.frombuffer(data, np.uint8)`.")
    return data


def _is_python(x: object) -> bool:
    """Whether `x` is, or stands for, a Python number."""
    return x is True or x is False or isinstance(kind_of(x), type)


def operator_of(ufunc: np.ufunc, *, swap: bool = False) -> Callable[..., object]:
    @asks
    def operate(*operands: TracedArray) -> object:
        """``ufunc(*operands)``, the second of which may be anything."""
        self = operands[0]
        home = self.home
        if listening := home.listener is not None:
            traces = stack.traces
            log = traces[-1].listener if traces else None
            compares = log is not None and log.frame is not None and log.trace is traces[-1]
            if log is not None and not log.depth and (compares or not log.is_idle()):
                return log.call(operate, operands, {})
        ordered = operands[::-1] if swap else operands
        out = None if home.eager else enter(ufunc, ordered)
        if out is None:
            log = stack.traces[-1].listener if stack.traces and not listening else None
            if log is not None and not log.depth and not log.is_idle():
                return log.call(operate, operands, {})
            if MaskedPart in map(type, ordered):
                part = hooks.computed_part(ufunc, ordered)
                if part is not None:
                    return part
            if operands[1:] and not isinstance(operands[1], _NUMERIC):
                refuse_foreign(operands[1])
                if ufunc in _EQUALITY and not self.weak and isinstance(operands[1], _UNEQUAL):
                    return np.full(self.shape, ufunc is np.not_equal)[()]
                if (other := _converted(ufunc, self, operands[1])) is NotImplemented:
                    return other
                ordered = (other, self) if swap else (self, other)
            eager = home.eager and stack.traces and home is stack.traces[-1]
            out = home.ufunc(ufunc, ordered) if eager else UFUNCS[ufunc](*ordered)
        if self.weak and out.type.dtype != BOOL and all(_is_python(x) for x in ordered):
            return out.weakened()  # arithmetic of Python numbers gives Python numbers
        return out

    return operate


for _name, _ufunc in BINARY_OPERATORS.items():
    setattr(TracedArray, f"__{_name}__", operator_of(_ufunc))
    setattr(TracedArray, f"__r{_name}__", operator_of(_ufunc, swap=True))
for _name, _ufunc in {**_COMPARE, **_UNARY}.items():
    setattr(TracedArray, f"__{_name}__", operator_of(_ufunc))
# What NumPy's loops over object arrays ask of each entry; tests/trace/test_object_arrays.py asks NumPy.
OBJECT_METHODS = {
    name: getattr(np, name)
    for name in (
        "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
        "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "rint", "fabs", "deg2rad",
        "rad2deg", "degrees", "radians", "arctan2", "hypot", "fmod", "logical_xor",
    )
} | {"bit_count": np.bitwise_count}  # fmt: skip
for _name, _ufunc in OBJECT_METHODS.items():
    setattr(TracedArray, _name, operator_of(_ufunc))
