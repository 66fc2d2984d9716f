"""If-conversion: short branches on traced values become selects, so that one trace serves both outcomes.

R. Allen and K. Kennedy, "Optimizing Compilers for Modern Architectures", Morgan Kaufmann 2001, section 7.2.
``if a > v[i]: v[i] = a`` asks for the truth of a traced value. If the branch does no more than store
one entry (`trace/branching/if_conversion.py` reads that off the bytecode), the entry becomes ``np.where(a > v[i], a,
v[i])``, and Python is told to skip the branch; no guard is needed. This is done only where the branch has no
other effect and can raise nothing: arithmetic of real numbers without divisions by traced ones, entries of
arrays that exist, a store into an array that may be written to. Any other branch becomes a guard.
"""

from __future__ import annotations

import operator
from types import FrameType

import fdiff.intact_numpy as np

from ...errors import TraceError
from ...foreign_errors import not_foreign
from ...hooks import hooks
from ...trace import Array, Operand, TracedArray
from ...trace.branching.if_conversion import Arm, arm_at
from ...trace.local_arrays import LocalArray, TracedLocalArray
from ...trace.trace_stack import stack
from ...user_lines import is_internal

_TRACED = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_OPERATORS = {**_TRACED, "/": operator.truediv, "**": operator.pow}
_NUMBERS = (int, float, np.float64, np.float32)
_STORED = (TracedLocalArray, LocalArray, TracedArray)
_ARRAYS = (*_STORED, np.ndarray)


class _NotConvertible(Exception):  # noqa: N818 - it never leaves this file
    """The branch does something that cannot be converted to a select."""


def select(condition: TracedArray, frame: FrameType) -> bool | None:
    """Record the branch on `condition` at the current position of a frame as a select.

    Returns the truth value with which Python skips the branch; None where the branch cannot be converted.
    """
    code, trace = frame.f_code, stack.traces[-1] if stack.traces else None
    if trace is None or not trace.lines or trace.eager or is_internal(code.co_filename):
        return None
    arm = arm_at(code, frame.f_lasti)
    log = trace.calls
    if arm is None or not (
        (log is not None and log.is_checked(condition))
        or trace.guards.would_guard(trace.own(condition))
    ):
        return None
    try:
        with np.errstate(all="raise"):  # numbers that warn are Python's to compute
            array, key, value = _run(arm, frame)
            old = _entry(array, key)
            pair = (value, old) if arm.when else (old, value)
            array[key] = np.where(condition, *pair)  # a call like the user's calls, which may be logged
    except not_foreign(
        _NotConvertible, TraceError, LookupError, ArithmeticError, TypeError, ValueError,
        again=lambda: _run(arm, frame),
    ):  # fmt: skip
        return None
    return not arm.when


def _run(arm: Arm, frame: FrameType) -> tuple[TracedArray | LocalArray, object, Operand]:
    """Evaluate the steps of a branch: the array, the key and the value that it stores."""
    local, stack = frame.f_locals, list[object]()
    for name, detail in arm.steps:
        if name == "load":
            stack.append(local[detail])
        elif name == "global":
            stack.append(frame.f_globals[detail])
        elif name == "constant":
            stack.append(detail)
        elif name == "tuple":
            stack[-int(detail) :] = [tuple(stack[-int(detail) :])]
        elif name == "copy":
            stack.append(stack[-int(detail)])
        elif name == "swap":
            stack[-1], stack[-int(detail)] = stack[-int(detail)], stack[-1]
        elif name == "negative":
            stack.append(-_number(stack.pop()))
        elif name == "binary":
            b = _number(stack.pop())
            stack.append(_binary(detail, _number(stack.pop()), b))
        elif name == "entry":
            key = stack.pop()
            stack.append(_entry(stack.pop(), key))
    key = stack.pop()
    array = stack.pop()
    value = _number(stack.pop())
    if not isinstance(array, (LocalArray, TracedArray)) or type(array) not in _STORED or _kind(array) != "f":
        raise _NotConvertible
    return array, key, value


def _kind(array: object) -> str:
    return getattr(array, "handle", array).dtype.kind


def _number(value: Operand) -> Operand:
    """A real number, traced or not."""
    if isinstance(value, TracedArray):
        if not (value.scalar or value.weak) or value.dtype.kind != "f":
            raise _NotConvertible
    elif type(value) not in _NUMBERS:
        raise _NotConvertible
    return value


def _binary(sign: str, a: object, b: object) -> object:
    traced = isinstance(a, TracedArray) or isinstance(b, TracedArray)
    if sign not in _OPERATORS or (traced and sign not in _TRACED):
        raise _NotConvertible  # it could divide by zero
    if sign == "**" and type(a) is int:
        raise _NotConvertible  # it could be long
    return _OPERATORS[sign](a, b)


def _entry(array: Array | list[object] | tuple[object, ...], key: object) -> object:
    """One entry of an array or a list, by Python's integers."""
    for k in key if type(key) is tuple else (key,):
        if type(k) is not int and not isinstance(k, np.integer):
            raise _NotConvertible
    if type(array) not in (*_ARRAYS, list, tuple):
        raise _NotConvertible
    return array[key] if type(array) in (list, tuple) else _number(array[key])


hooks.select = select
