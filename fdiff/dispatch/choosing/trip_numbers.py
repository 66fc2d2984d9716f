"""What the body of a loop computes of the number of a trip, which is an int of Python's."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import BOOL
from ...tape import Tape
from .variables import RefusedError

_DIVIDING = frozenset(("divide", "floor_divide", "remainder", "power"))
_FACTORS = 3  # products of integers, which do not leave 64 bits
_OF_INTEGERS = frozenset(
    ("add", "subtract", "negative", "multiply", "convert", "equal", "not_equal", "less",
     "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_not")
)  # fmt: skip


def check_numbers(tape: Tape, index: int, *, divides: bool) -> None:
    """Refuse what NumPy may compute otherwise than Python does.

    These are quotients and long products of numbers that depend on the number of the trip alone,
    its node being `index`; single precision, where numbers of Python's are weaker than others; and
    quotients where a variable may hold a number of Python's, unless `divides`.
    """
    moving, own, factors = {*tape.inputs} - {index}, {index}, 0
    for i, (primitive, args, _, types) in enumerate(tape.nodes):
        name = primitive.name
        if any(t.dtype.kind in "fc" and t.dtype.itemsize not in (8, 16) for t in types):
            raise RefusedError("it computes in single precision")
        if not divides and name in _DIVIDING:
            raise RefusedError("it divides, and a variable becomes a number of Python's")
        if not moving.isdisjoint(args):
            moving.add(i)
        elif not own.isdisjoint(args):
            own.add(i)
            factors += name == "multiply"
            exact = types[0].floating or name in _OF_INTEGERS
            if name in _DIVIDING:
                divisor = tape.nodes[args[1]].value
                exact = divisor is not None and name != "power" and bool(np.all(divisor > 0))
            if not exact or factors > _FACTORS:
                raise RefusedError(f"it computes {name} of the number of a trip")


def check_condition(tape: Tape, node: int) -> None:
    """Refuse a condition that may hold at one point alone: that numbers are equal."""
    waiting, seen = [node], {node}
    while waiting:
        primitive, args, *_ = tape.nodes[waiting.pop()]
        numbers = any(tape.nodes[a].type.floating for a in args)
        if numbers and primitive.name in ("equal", "not_equal"):
            raise RefusedError("a condition may hold at one point alone")
        more = [a for a in args if tape.nodes[a].type.dtype == BOOL and a not in seen]
        seen.update(more)
        waiting += more
