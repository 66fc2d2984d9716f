"""Where a node of a derivative comes from: the user's line, and the rule that entered the node.

Nothing of this is kept while `wanted` is false. A search for a NaN derives its tapes anew with it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..primitive import Primitive
from ..user_lines import Line


class Derivation(NamedTuple):
    """The rule of an operation: in reverse mode that of one argument, in forward mode of all."""

    primitive: Primitive
    mode: str
    argument: int | None = None


class DerivedLine(tuple[Any, ...]):  # noqa: SLOT001 - a tuple has no slots for attributes
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
    """The line for what a rule of an operation enters."""
    if line is None:
        return None
    made = DerivedLine(line)
    made.derivation, made.base = Derivation(primitive, mode, argument), line
    return made


def derivation_of(line: Line | None) -> Derivation | None:
    """The rule that entered a node with this line; None if it is the user's own operation."""
    return line.derivation if isinstance(line, DerivedLine) else None


def written_line(line: Line | None) -> Line | None:
    """The plain line of the user's operation that everything was derived from."""
    while isinstance(line, DerivedLine):
        line = line.base
    return line
