"""The arguments of calls: the key of a call, the arrays among its arguments, and replacements."""

from __future__ import annotations

from collections.abc import Iterator

import fdiff.intact_numpy as np

from ...ops.entrywise.families import refuse_foreign
from ...trace import TracedArray
from ..arrays.array_kinds import NUMBER, ArrayKind, array_kind_of
from ..arrays.recorded_array import Recordable, RecordedArray


def call_key(
    what: object, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[list[object], list[Recordable]]:
    """The key of a call, and the arrays among its arguments."""
    key: list[object] = [what]
    operands: list[object] = []
    enter_argument(args, key, operands)
    if kwargs:
        enter_argument(kwargs, key, operands)
    return key, operands


def operand_kind(x: object) -> ArrayKind:
    if type(x) is RecordedArray:
        if x.viewing is not None:
            x.viewing.refresh(x)
        return x.kind
    return array_kind_of(x) if isinstance(x, (np.ndarray, np.generic)) else NUMBER


_STATIC = frozenset((int, str, bool, type(None)))


def enter_argument(x: Recordable, key: list[object], operands: list[object]) -> None:
    """Enter `x` in the key of a call, and the arrays in it among the operands."""
    kind = x.__class__
    if kind is RecordedArray:
        if x.viewing is not None:
            x.viewing.refresh(x)
        key.append(x.kind)
        operands.append(x)
    elif kind in _STATIC:
        key += (kind, x)
    elif kind is tuple or kind is list:
        key += (kind, len(x))
        for part in x:
            enter_argument(part, key, operands)
    elif kind is float or kind is complex:
        key += (kind, str(x))  # -0.0 is not 0.0, and NaN is not itself
    elif kind is dict:
        key += (dict, *x)
        for part in x.values():
            enter_argument(part, key, operands)
    elif kind is slice:
        key.append(slice)
        for part in (x.start, x.stop, x.step):
            enter_argument(part, key, operands)
    elif isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc":
        key.append(array_kind_of(x))
        operands.append(x)
    elif isinstance(x, TracedArray):
        key.append(TracedArray)
    else:
        refuse_foreign(x, "fdiff.autograd")
        key.append(x)


def rebuilt(x: Recordable, operands: Iterator[object]) -> Recordable:
    """`x` with other operands in place of its own, in order."""
    kind = x.__class__
    if kind is RecordedArray:
        return next(operands)
    if kind is tuple:
        return tuple([rebuilt(part, operands) for part in x])
    if kind is list:
        return [rebuilt(part, operands) for part in x]
    if kind is dict:
        return {k: rebuilt(part, operands) for k, part in x.items()}
    if kind is slice:
        return slice(*[rebuilt(part, operands) for part in (x.start, x.stop, x.step)])
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc":
        return next(operands)
    return x
