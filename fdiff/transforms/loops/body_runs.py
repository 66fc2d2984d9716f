"""The runs of the bodies of loops and branches, one by one: what looks for a fault inside of them.

Whoever asks for the next run has the one before it run by NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...ops.control.loop import LOOP, operands, runner_of
from ...ops.control.switch import SWITCH
from ...ops.control.while_loop import SIZED, WHILE, sized_tape
from ...tape import Node, Tape

Arrays = Sequence[Any]


class BodyRun(NamedTuple):
    """A tape, its arguments, and which trip of a loop it is; None where it is no loop."""

    tape: Tape
    arguments: Arrays
    trip: int | None


def has_bodies(node: Node) -> bool:
    """Whether a node runs tapes of its own, of which `body_runs` tells."""
    return node.primitive in (LOOP, WHILE, SWITCH, SIZED)


def body_runs(node: Node, args: Arrays, begin: int = 0) -> Iterator[BodyRun]:
    """The runs of the bodies of a node; of a loop from a trip on, given the carries there.

    `begin` counts the trips that are left out, whose last carries `args` holds.
    """
    params: dict[str, Any] = dict(node.params)
    if node.primitive is LOOP:
        yield from _trips(args, begin, params)
    elif node.primitive is WHILE:
        yield from _trips_while(args, begin, params)
    elif node.primitive is SWITCH:
        branches = params["branches"]
        yield BodyRun(branches[min(max(int(args[0]), 0), len(branches) - 1)], args[1:], None)
    else:
        yield BodyRun(sized_tape(*args, **params), args, None)


def _trips(args: Arrays, begin: int, params: dict[str, Any]) -> Iterator[BodyRun]:
    body, carries = params["body"], params["carries"]
    trips, state, invariants, table = operands(args, carries, params["rows"])
    run = runner_of(body)
    for k in range(begin, int(trips)):
        row = int(trips) - 1 - k if params["reverse"] else k
        arguments = [*state, *invariants, *[x[row] for x in table]]
        yield BodyRun(body, arguments, row)
        state = run(*arguments)[:carries]


def _trips_while(args: Arrays, begin: int, params: dict[str, Any]) -> Iterator[BodyRun]:
    """Conditions and trips in turn."""
    body, cond, carries = params["body"], params["cond"], params["carries"]
    state: list[Any] = [*args]
    trip = begin
    while True:
        yield BodyRun(cond, state, trip)
        if not runner_of(cond)(*state)[0]:
            return
        yield BodyRun(body, state, trip)
        state = [*runner_of(body)(*state), *args[carries:]]
        trip += 1
