"""Operators of traced arrays (``+``, ``@``, ``<``, ``-x``), and the methods that NumPy's object arrays call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..capture.data import is_table
from ..primitive import UFUNCS
from ..trace import TracedArray
from ..trace.eager_scalars import weakened
from ..trace.trace_stack import stack
from ..trace.ufunc_fast_path import enter
from .families import kind_of, table_met

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift, "pow": np.power, "matmul": np.matmul,
}  # fmt: skip
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_OPERANDS = (TracedArray, int, float, complex, np.ndarray, np.generic, list, tuple)
_OF_NONE = (np.equal, np.not_equal)  # which NumPy answers entry by entry


def _operator(ufunc: np.ufunc, *, swap: bool = False) -> Callable[..., object]:
    def operate(self: TracedArray, *others: object) -> object:
        operands = (*others, self) if swap else (self, *others)
        home = self.home
        out = None if home.eager else enter(ufunc, operands)
        if out is None:
            if others and not isinstance(others[0], _OPERANDS):
                if is_table(others[0]):
                    raise table_met(others[0])
                if others[0] is None and ufunc in _OF_NONE:
                    return np.full(self.shape, ufunc is np.not_equal)[()]
                return NotImplemented
            eager = home.eager and stack.traces and home is stack.traces[-1]
            out = home.ufunc(ufunc, operands) if eager else UFUNCS[ufunc](*operands)
        if self.weak and out.type.floating and all(isinstance(kind_of(x), type) for x in operands):
            return weakened(out)  # arithmetic of Python floats gives a Python float
        return out

    return operate


for _name, _ufunc in _BINARY.items():
    setattr(TracedArray, f"__{_name}__", _operator(_ufunc))
    setattr(TracedArray, f"__r{_name}__", _operator(_ufunc, swap=True))
for _name, _ufunc in {**_COMPARE, **_UNARY}.items():
    setattr(TracedArray, f"__{_name}__", _operator(_ufunc))
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
    setattr(TracedArray, _name, _operator(_ufunc))
