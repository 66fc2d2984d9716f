"""The operands of a loop by role, and the limits of its trips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, NoReturn, SupportsIndex, TypeVar

from ...errors import ConvergenceError, message

T = TypeVar("T")


class Operands(NamedTuple, Generic[T]):
    """The operands of a loop, by role."""

    trips: T
    carries: Sequence[T]
    invariants: Sequence[T]
    rows: Sequence[T]


def operands(args: Sequence[T], carries: int, rows: int) -> Operands[T]:
    """Split the arguments of a loop by the numbers of its carries and rows."""
    last = len(args) - rows
    return Operands(args[0], args[1 : 1 + carries], args[1 + carries : last], args[last:])


def checked_trips(trips: SupportsIndex, length: int) -> int:
    """The number of trips of a loop, which has that many rows at least."""
    if not 0 <= (count := int(trips)) <= length:
        raise ValueError(f"a loop over {length} rows has {count} trips")
    return count


def exceed(limit: int) -> NoReturn:
    """Raise the error of a loop with more trips than its limit."""
    raise ConvergenceError(exceeded(limit))


def exceeded(limit: int) -> str:
    """The message for a loop with more trips than its limit."""
    fact = f"the condition still holds after limit={limit} trips."
    way = "Give a higher limit (`max_steps` of newton and fixed_point), or a condition that ends."
    return message("while_loop", fact, way)
