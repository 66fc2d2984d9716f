"""Arguments of solver calls: options as static parameters, numbers and arrays, the place of the call.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType
from ...named_tuples import NamedTuple
from ...trace import TracedArray, current, record
from ...trace.exception_context import inside_try
from ...trace.handler_arguments import resolve
from ...user_lines import show_line
from ..scipy_functions import concrete, only_captured, undifferentiated
from ..shapes.creation import array as array_call
from ..shapes.shaping import traced


def number_types(count: int) -> tuple[ArrayType, ...]:
    return (ArrayType((), F8),) * count


def value_of(x: object) -> np.ndarray:
    """The value of a solver's argument at the current arguments of the differentiated function."""
    resolved = resolve(x)
    if not isinstance(resolved, TracedArray):
        return np.asarray(resolved)
    trace = current(resolved)
    return np.asarray(trace.guards.value(trace.own(resolved), "called a solver of SciPy"))


def concrete_options(options: dict[str, object], name: str) -> tuple[tuple[str, object], ...]:
    """Options of a solver as a static parameter (hashable): numbers, text, and sequences of these.

    They may be arguments of the function, which are looked at: another tolerance is another program.
    """
    return tuple(sorted((k, _frozen(v, f"{k}= of {name}")) for k, v in options.items()))


def _frozen(value: object, name: str) -> object:
    value = concrete(value, name, undifferentiated)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return FrozenOption("array", _frozen(value.tolist(), name))
    if isinstance(value, (list, tuple)):
        return FrozenOption(type(value).__name__, tuple(_frozen(v, name) for v in value))
    if isinstance(value, dict):
        return FrozenOption("dict", tuple((k, _frozen(v, name)) for k, v in value.items()))
    raise current().fail(f"{name} holds a value of type {type(value).__name__}, which fdiff does not hand to the solver.", "Leave it out.")


class FrozenOption(NamedTuple):
    """A sequence or a dict among options, hashable."""

    kind: str
    items: object


def unfrozen(value: object) -> object:
    """The option as it was given."""
    if not isinstance(value, FrozenOption):
        return value
    held: Any = value.items
    if value.kind == "dict":
        return {k: unfrozen(v) for k, v in held}
    if value.kind == "array":
        return np.asarray(unfrozen(held))
    items = [unfrozen(v) for v in held]
    return items if value.kind == "list" else tuple(items)


class CallSite(NamedTuple):
    """Where a solver is called, for the messages of errors that are raised when the tape is run."""

    call: str
    line: str

    def words(self, fact: str, way_out: str) -> str:
        return f"{self.call}: {fact}{self.line}\n{way_out}"


def site() -> CallSite:
    trace = current()
    return CallSite(trace.call, show_line(trace.where()))


def bound(args: object) -> tuple[object, ...]:
    """``args=`` of a solver as a tuple; a single value stands for a tuple of one."""
    return args if isinstance(args, tuple) else (args,)


def number(x: object) -> TracedArray:
    """A limit or a start as a float64 number."""
    resolved = resolve(x)
    out = traced(array_call(resolved) if isinstance(resolved, (list, tuple)) else resolved)
    if out.size != 1:
        raise ValueError("a number is expected where an array was given")
    return out.reshape(()).astype(F8)


def vector(x: object) -> TracedArray:
    """A start as an array of float64."""
    out = traced(array_call(resolve(x)))
    return out if out.dtype == F8 else out.astype(F8)


def all_captured(values: Sequence[object]) -> bool:
    """Whether no value depends on an argument of the differentiated function."""
    return all(not isinstance(v, TracedArray) or only_captured(v) for v in map(resolve, values))


def numpy_scalar(x: TracedArray) -> TracedArray:
    return TracedArray(x.home, x.id, x.type, scalar=True)


def inside_user_try() -> bool:
    """Whether the user's code is inside a ``try`` and might catch an error of the solver."""
    return current().mutable and inside_try(record.__code__)
