"""The runs of the bodies of loops and branches, one by one, for searches for a fault inside.

NumPy runs a body when the next one is asked for. In a loop of many trips the first trip of a kind
is found by bisection: half of the trips take half of the time. Binary search: D. E. Knuth, The Art
of Computer Programming 3, 2nd ed., 1998, section 6.2.1, algorithm B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from ...named_tuples import NamedTuple
from ...ops.control.loop import LOOP, runner_of
from ...ops.control.loop_operands import operands
from ...ops.control.switch import SWITCH
from ...ops.control.while_loop import SIZED, WHILE, sized_tape
from ...tape import Node, Tape
from .partial_loops import Partial, partial_loop

FEW = 256  # trips that are run one by one
ENDLESS = 1 << 62  # more trips than a loop with a condition makes
SEARCHES = 8  # for trips in which there is nothing to be found after all

Arrays = Sequence[Any]
IsBad = Callable[[Partial, int], bool]  # whether so many trips do what is looked for


class BodyCall(NamedTuple):
    """The tape of a body, its arguments, and the number of the trip if it is a loop's."""

    tape: Tape
    arguments: Arrays
    trip: int | None


def has_bodies(node: Node) -> bool:
    """Whether a node runs tapes of its own, of which `body_runs` tells."""
    return node.primitive in (LOOP, WHILE, SWITCH, SIZED)


def is_long(node: Node, args: Arrays) -> bool:
    """Whether NumPy would take long for a node, as far as its arguments tell."""
    if node.primitive is LOOP:
        return int(args[0]) > FEW
    if node.primitive is SWITCH:
        return any(next(branch.bodies(), None) is not None for branch in node.param("branches"))
    return has_bodies(node)


def suspects(node: Node, args: Arrays, is_bad: IsBad | None) -> Iterator[BodyCall]:
    """The runs of the bodies of a node that are worth a look; the search goes on after them.

    In a loop of many trips, that is the trip with which the trips up to it become bad, if `is_bad`
    tells. In other nodes it is any run.
    """
    if is_bad is None or node.primitive not in (LOOP, WHILE) or not is_long(node, args):
        yield from body_runs(node, args)
        return
    begin, carries, first = 0, node.param("carries"), int(node.primitive is LOOP)
    end, several = (int(args[0]), 1) if first else (ENDLESS, 3)  # conditions before and after
    for _ in range(SEARCHES):
        run, good, bad = partial_loop(node, args, begin), 0, end - begin
        if bad < 1 or not is_bad(run, bad):
            return
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if is_bad(run, middle) else (middle, bad)
        if state := run(good):
            args = [*args[:first], *state[:carries], *args[first + carries :]]
        runs = body_runs(node, args, begin := begin + good)
        yield from islice(runs, several)
        if (behind := next(runs, None)) is None:
            return
        begin += 1
        args = [*args[:first], *behind.arguments[:carries], *args[first + carries :]]


def body_runs(node: Node, args: Arrays, begin: int = 0) -> Iterator[BodyCall]:
    """The runs of the bodies of a node; of a loop from a trip on, given the carries there.

    `begin` counts the trips that are left out, whose last carries `args` holds.
    """
    params = dict(node.params)
    if node.primitive is LOOP:
        yield from _trips(args, begin, **params)
    elif node.primitive is WHILE:
        yield from _trips_while(args, begin, **params)
    elif node.primitive is SWITCH:
        branches = params["branches"]
        yield BodyCall(branches[min(max(int(args[0]), 0), len(branches) - 1)], args[1:], None)
    else:
        yield BodyCall(sized_tape(*args, **params), args, None)


def _trips(
    args: Arrays, begin: int, *, body: Tape, carries: int, rows: int, reverse: bool, **_: object
) -> Iterator[BodyCall]:
    trips, state, invariants, table = operands(args, carries, rows)
    run = runner_of(body)
    for k in range(begin, int(trips)):
        row = int(trips) - 1 - k if reverse else k
        arguments = [*state, *invariants, *[x[row] for x in table]]
        yield BodyCall(body, arguments, row)
        state = run(*arguments)[:carries]


def _trips_while(
    args: Arrays, begin: int, *, body: Tape, cond: Tape, carries: int, **_: object
) -> Iterator[BodyCall]:
    """Conditions and trips in turn."""
    state = [*args]
    trip = begin
    while True:
        yield BodyCall(cond, state, trip)
        if not runner_of(cond)(*state)[0]:
            return
        yield BodyCall(body, state, trip)
        state = [*runner_of(body)(*state), *args[carries:]]
        trip += 1
