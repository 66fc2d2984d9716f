"""Arithmetic and comparisons of the scalars of eager traces (`trace/eager/eager_scalars.py`).

Two scalars of one class, or a scalar and a number that takes its dtype, enter one node; anything
else goes the way of all traced arrays.
"""

from __future__ import annotations

from functools import lru_cache

import fdiff.intact_numpy as np

from ..arraytype import F4, F8, ArrayType
from ..generated_text import defined
from ..primitive import PRIMITIVES
from ..trace.eager.eager_scalars import EagerScalar, Float32, Float64, PythonFloat, Truth
from ..trace.eager.eager_trace import EagerTrace
from ..trace.operation_cache import op_of
from ..trace.trace_stack import stack
from ..trace.traced_array import TracedArray

_ARITHMETIC = {
    "add": ("add", "+"),
    "sub": ("subtract", "-"),
    "mul": ("multiply", "*"),
    "truediv": ("divide", "/"),
}
_COMPARISONS = {
    "lt": ("less", "<"),
    "le": ("less_equal", "<="),
    "gt": ("greater", ">"),
    "ge": ("greater_equal", ">="),
    "eq": ("equal", "=="),
    "ne": ("not_equal", "!="),
}
_REVERSED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}

def _result(kind: type, other: type) -> type[EagerScalar] | None:
    """The class of what arithmetic of a scalar with an operand of class `other` gives.

    None for operands that have to be converted.
    """
    if kind is Float32:
        return Float32 if other in (Float32, float, np.float32) else None
    if other in (int, float):
        return kind
    if other is PythonFloat:
        return kind
    return Float64 if other in (Float64, np.float64) else None


# An operator as text, because it runs for every operation: `handles` and `numbers` tell the class of
# the result by the class of the operand.
_BINARY = """
def operate(self, other):
    home, traces = self.home, stack.traces
    if not traces or traces[-1] is not home:
        return getattr(TracedArray, special)(self, other)
    builder = home.builder
    found = handles.get(other.__class__)
    if found is not None and other.home is home:
        b = other.node
    else:
        found = numbers.get(other.__class__)
        if found is None:
            return getattr(TracedArray, special)(self, other)
        b = builder.number(other, dtype)
    a = self.node
    {unless}
    values, active = builder.values, builder.active
    values.append(values[{x}] {sign} values[{y}])
    active.append(active[a] or active[b])
    builder.ops.append(op)
    builder.args.append(({x}, {y}))
    made = new(found)
    made.home = home
    made.node = len(values) - 1
    return made
"""
# A term over a sum that it is part of has a slope of its own, which the general way knows.
_UNLESS = """if builder.ops[{y}].primitive in sums:
        return getattr(TracedArray, special)(self, other)"""
_COMPARE = """
def operate(self, other):
    home, traces = self.home, stack.traces
    if not traces or traces[-1] is not home:
        return getattr(TracedArray, special)(self, other)
    values = home.builder.values
    made = new(Truth)
    if other.__class__ in handles and other.home is home:
        made.value = values[self.node] {sign} values[other.node]
    elif other.__class__ in numbers:
        made.value = values[self.node] {sign} other
    else:
        return getattr(TracedArray, special)(self, other)
    made.home = home
    made.entered = None
    made.pending = (op, self.node, other)
    return made
"""


def eager_trace(call: str) -> EagerTrace:
    """A new eager trace; the first one gives the classes of scalars their operators."""
    _install_all()
    return EagerTrace(call)


@lru_cache(maxsize=1)
def _install_all() -> None:
    for kind in (Float64, PythonFloat, Float32):
        _install(kind)
    EagerScalar.__array_ufunc__ = _array_ufunc


def _install(kind: type[EagerScalar]) -> None:
    type_ = ArrayType((), F4 if kind is Float32 else F8)
    results = {o: r for o in _OPERANDS if (r := _result(kind, o)) is not None}
    names: dict[str, object] = {
        "Truth": Truth,
        "TracedArray": TracedArray,
        "sums": (PRIMITIVES["add"], PRIMITIVES["subtract"]),
        "dtype": type_.dtype,
        "handles": {o: r for o, r in results.items() if issubclass(o, EagerScalar)},
        "new": object.__new__,
        "numbers": {o: r for o, r in results.items() if not issubclass(o, EagerScalar)},
        "stack": stack,
    }
    for special, (name, sign) in _ARITHMETIC.items():
        for swap in (False, True):
            x, y = ("b", "a") if swap else ("a", "b")
            unless = _UNLESS.format(y=y) if name == "divide" else ""
            text = _BINARY.format(x=x, y=y, sign=sign, unless=unless)
            _enter(kind, f"__{'r' if swap else ''}{special}__", name, text, names)
    for special, (name, sign) in _COMPARISONS.items():
        _enter(kind, f"__{special}__", name, _COMPARE.format(sign=sign), names)


def _enter(kind: type, special: str, name: str, text: str, namespace: dict[str, object]) -> None:
    """Compile the text of a method and put it into the class."""
    type_ = kind.type
    op = op_of(PRIMITIVES[name], (), ((type_,), (type_,)))
    names = {**namespace, "op": op, "special": special}
    setattr(kind, special, defined("operate", text, names))


_OPERANDS = (Float64, PythonFloat, Float32, int, float, np.float64, np.float32)

# --- ufuncs of scalars: what NumPy numbers ask, as in ``np.float64(2.0) * x`` -------------------

_METHODS = {
    getattr(np, name): (f"__{special}__", f"__r{special}__")
    for special, (name, _) in _ARITHMETIC.items()
} | {
    getattr(np, name): (f"__{special}__", f"__{_REVERSED[special]}__")
    for special, (name, _) in _COMPARISONS.items()
}


def _array_ufunc(
    self: EagerScalar, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
) -> object:
    names = _METHODS.get(ufunc)
    if names is not None and not self.weak and method == "__call__" and not kwargs:
        swap = inputs[0] is not self
        other = inputs[0] if swap else inputs[1]
        if isinstance(other, (EagerScalar, np.float64, np.float32)):
            return getattr(self, names[swap])(other)
    return TracedArray.__array_ufunc__(self, ufunc, method, *inputs, **kwargs)
