"""What the body of a loop computes of the number of a trip, which is an int of Python's."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import BOOL
from ...primitive import PRIMITIVES
from ...tape import Tape
from .variables import RefusedLoopError

_DOUBLE = (np.dtype(float), np.dtype(complex))
_POWER = PRIMITIVES["power"]
_DIVIDING = {_POWER, *[PRIMITIVES[name] for name in ("divide", "floor_divide", "remainder")]}
_FACTORS = 3  # products of integers, which do not leave 64 bits
_MULTIPLY = PRIMITIVES["multiply"]
_EQUAL = {PRIMITIVES[name] for name in ("equal", "not_equal")}
_OF_INTEGERS = {_MULTIPLY, *_EQUAL} | {
    PRIMITIVES[name]
    for name in ("add", "subtract", "negative", "convert", "less", "less_equal", "greater",
                 "greater_equal", "logical_and", "logical_or", "logical_not")
}  # fmt: skip


def check_numbers(tape: Tape, index: int, *, divides: bool) -> None:
    """Refuse what NumPy may compute otherwise than Python does.

    These are quotients and long products of numbers that depend on the number of the trip alone,
    its node being `index`; single precision, where numbers of Python's are weaker than others; and
    quotients where a variable may hold a number of Python's, unless `divides`.
    """
    moving, own, factors = {*tape.inputs} - {index}, {index}, 0
    for i, (primitive, args, _, types) in enumerate(tape.nodes):
        if any(t.dtype.kind in "fc" and t.dtype not in _DOUBLE for t in types):
            raise RefusedLoopError("it computes in single precision")
        if not divides and primitive in _DIVIDING:
            raise RefusedLoopError("it divides, and a variable becomes a number of Python's")
        if not moving.isdisjoint(args):
            moving.add(i)
        elif not own.isdisjoint(args):
            own.add(i)
            factors += primitive is _MULTIPLY
            exact = types[0].floating or primitive in _OF_INTEGERS
            if primitive in _DIVIDING:
                divisor = tape.nodes[args[1]].value
                positive = divisor is not None and bool(np.all(divisor > 0))
                exact = positive and primitive is not _POWER
            if not exact or factors > _FACTORS:
                raise RefusedLoopError(f"it computes {primitive.name} of the number of a trip")


def check_condition(tape: Tape, node: int) -> None:
    """Refuse a condition that may hold at one point alone: that numbers are equal."""
    waiting, seen = [node], {node}
    while waiting:
        primitive, args, *_ = tape.nodes[waiting.pop()]
        numbers = any(tape.nodes[a].type.floating for a in args)
        if numbers and primitive in _EQUAL:
            raise RefusedLoopError("a condition may hold at one point alone")
        more = [a for a in args if tape.nodes[a].type.dtype == BOOL and a not in seen]
        seen.update(more)
        waiting += more
