"""The origin of a node of a derivative: the user's line, and the rule that entered the node.

Nothing of this is kept while `wanted` is false. A search for a NaN derives its tapes anew with it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import ParamSpec, TypeVar

from ..foreign_errors import contextmanager, wraps
from ..named_tuples import NamedTuple
from ..primitive import Primitive
from ..user_lines import Line

P = ParamSpec("P")
R = TypeVar("R")


class Derivation(NamedTuple):
    """The rule of an operation: in reverse mode for one argument, in forward mode for all."""

    primitive: Primitive
    mode: str
    argument: int | None = None


class DerivedLine(Line):
    """The line of a forward operation, on a node that a derivative rule of it entered.

    `derivation` is that rule; `base` the line on the node that was differentiated, which is of a
    derivative itself where the node is one of a second derivative.
    """

    derivation: Derivation
    base: Line


class _Wanted:
    on = False


wanted = _Wanted()


@contextmanager
def derived_lines() -> Generator[None]:
    """Tapes that are derived in this context tell which rules entered their nodes."""
    before, wanted.on = wanted.on, True
    try:
        yield
    finally:
        wanted.on = before


def derived_line(
    line: Line | None, primitive: Primitive, mode: str, argument: int | None = None
) -> Line | None:
    """The line for the nodes that a rule of an operation enters."""
    if line is None:
        return None
    derived = DerivedLine(line)
    derived.derivation, derived.base = Derivation(primitive, mode, argument), line
    return derived


class TripLine(Line):
    """The line of an operation in the body of a loop, and in which trips of the loops around.

    The first trip is a trip of the outermost loop. In a batch of all trips none is known.
    """

    trips: tuple[int, ...] = ()

    @classmethod
    def of(cls, line: Line, trip: int) -> Line:
        """The line, in this trip of one more loop."""
        line_of_trip = cls(line)
        line_of_trip.trips = (trip, *trips_of_line(line))
        return line_of_trip


class PlainLoopLine(Line):
    """The line of a Python loop that is a node, and how many iterations were unrolled before.

    None if that is not known.
    """

    first: int | None = None

    @classmethod
    def of(cls, line: Line, first: int | None) -> Line:
        """The line, for a node that `first` iterations precede."""
        line_of_loop = cls(line)
        line_of_loop.first = first
        return line_of_loop


def as_counted(line: Line | None, trips: tuple[int, ...]) -> tuple[int, ...]:
    """The trips in the node with a line, the first as the user counts it; none if not known."""
    line = written_line(line)
    if not trips or not isinstance(line, PlainLoopLine):
        return trips
    return () if line.first is None else (line.first + trips[0], *trips[1:])


def trips_of_line(line: Line | None) -> tuple[int, ...]:
    """The trips that a line tells of."""
    line = written_line(line)
    return line.trips if isinstance(line, TripLine) else ()


def in_trips(trips: Sequence[int]) -> str:
    """The trips of the loops around an operation, the outermost first, in words."""
    if len(trips) < 2:
        return f", in trip {trips[0]} of its loop" if trips else ""
    return f", in trips {', '.join(map(str, trips))} of its loops, the outermost first"


def derivation_of(line: Line | None) -> Derivation | None:
    """The rule that entered a node with this line; None if it is the user's own operation."""
    return line.derivation if isinstance(line, DerivedLine) else None


def written_line(line: Line | None) -> Line | None:
    """The plain line of the user's operation that everything was derived from."""
    while isinstance(line, DerivedLine):
        line = line.base
    return line


def kept_by_value(function: Callable[P, R]) -> Callable[P, R]:
    """A function of tapes that is computed once for equal ones.

    Equal tapes may be of different lines, so nothing is kept where lines are asked for.
    """
    kept = lru_cache(maxsize=256)(function)

    @wraps(function)
    def result(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs) if wanted.on else kept(*args, **kwargs)

    return result
