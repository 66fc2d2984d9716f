"""Loops outside of traced functions: plain Python, with the results and errors of a trace."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...dispatch.arguments import Function
from ...errors import InputError, ShapeError, failure, shown
from ...foreign_errors import contextmanager
from ...ops.control.loop_operands import exceed
from ...trace import TracedArray, current, tracing
from ...trace.derived_lines import TripLine
from ...trace.handler_arguments import shape_of
from ...tree import flatten, paths, unflatten
from ..options import is_int
from ..rules.ruled_call import OutputLeaf
from .loop_bodies import LoopBody, is_number, next_kind, pair_of


class Rows:
    """The arrays that a loop goes through, and their length."""

    def __init__(self, xs: object, length: object, call: str) -> None:
        self.leaves, self.spec = flatten(xs)
        shapes = [shape_of(x) for x in self.leaves]
        named = [f"xs{path}" for path in paths(self.spec)]
        if () in shapes:
            fact = f"{named[shapes.index(())]} has no axis to go along."
            raise failure(ShapeError, call, fact, "Give arrays with axes; close over numbers.")
        lengths = {name: shape[0] for name, shape in zip(named, shapes, strict=True)}
        if len({*lengths.values()}) > 1:
            listed = ", ".join(f"{name} has {n}" for name, n in lengths.items())
            fact = f"xs must have one length along axis 0: {listed}."
            raise failure(ShapeError, call, fact, "Give arrays of one length.")
        if length is None and not lengths:
            raise failure(
                InputError,
                call,
                "xs is None, and length too.",
                "Give the number of trips: length=10.",
            )
        if length is not None and (not is_int(length) or length < 0):
            raise failure(
                InputError,
                call,
                f"length must be a number of trips, not {shown(length)}.",
                "Give an int.",
            )
        own = next(iter(lengths.values()), None)
        if length is not None and own is not None and own != length:
            fact = f"length is {shown(length)}, and xs have {own} rows."
            raise failure(ShapeError, call, fact, "Leave length out.")
        self.length = int(cast("int", length if own is None else own))

    def entry(self, k: int) -> object:
        """A copy of the row of a trip."""
        return unflatten(self.spec, [_copied_leaf(x[k]) for x in self.leaves])  # type: ignore[index] - arrays


def plain_scan(
    body: LoopBody,
    f: Callable[[object, object], object],
    init: object,
    rows: Rows,
    *,
    reverse: bool = False,
) -> tuple[object, object]:
    """A scan in plain Python, of at least one trip."""
    leaves, spec = body.leaves(init, "init")
    named = paths(spec)
    numbers = [*map(is_number, leaves)]
    kinds = [OutputLeaf(_type(x), weak=n) for x, n in zip(leaves, numbers, strict=True)]
    outs: list[list[object]] = []
    built = spec
    order = range(rows.length - 1, -1, -1) if reverse else range(rows.length)

    def trip(k: int, flags: list[bool]) -> tuple[list[object], list[object]]:
        nonlocal kinds, built
        with _within_trip(body, k):
            returned = f(unflatten(spec, [*map(_copied_leaf, leaves)]), rows.entry(k))
        carry, out = pair_of(body, returned)
        new, own = body.leaves(carry, "the carry of " + body.name)
        body.check_structure(own, spec)
        parts = zip(kinds, [OutputLeaf(_type(x)) for x in new], named, flags, strict=True)
        kinds = [next_kind(body, *each) for each in parts]
        flat, built = body.leaves(out, "the output of " + body.name)
        return new, flat

    if any(numbers):
        trip(order[0], numbers)
        leaves = [
            _converted(x, cast("ArrayType", k.type)) for x, k in zip(leaves, kinds, strict=True)
        ]
    for k in order:
        leaves, out = trip(k, [False] * len(leaves))
        outs.append([_copied_leaf(x) for x in out])
    if reverse:
        outs.reverse()
    columns = [np.stack(column) for column in zip(*outs, strict=True)]
    last = [_converted(x, cast("ArrayType", k.type)) for x, k in zip(leaves, kinds, strict=True)]
    return unflatten(spec, last), unflatten(built, columns)


def _type(leaf: object) -> ArrayType:
    dtype = getattr(leaf, "dtype", None)
    return ArrayType(shape_of(leaf), np.asarray(leaf).dtype if dtype is None else np.dtype(dtype))


def _copied_leaf(leaf: object) -> object:
    """A leaf that the body may store into."""
    return leaf.copy() if isinstance(leaf, (np.ndarray, TracedArray)) and leaf.ndim else leaf


def _converted(leaf: object, type_: ArrayType) -> object:
    """A Python number as NumPy's scalar of the type of a carry; anything else as it is."""
    return type_.dtype.type(leaf) if is_number(leaf) else leaf


@contextmanager
def _within_trip(body: LoopBody, trip: int) -> Generator[None]:
    """A context for one trip, whose number is added to errors and to lines of traced nodes."""
    first = len(current().builder.nodes) if tracing() else 0
    try:
        yield
    except Exception as error:
        error.add_note(f"{body.call}: it was raised in trip {trip}.")
        raise
    if tracing():
        lines = current().builder.lines
        for i in range(first, len(current().builder.nodes)):
            if i in lines:
                lines[i] = tuple([TripLine.of(line, trip) for line in lines[i]])


def plain_while(
    body: LoopBody, cond: Function, function: Function, init: object, limit: int | None
) -> object:
    """A loop with a condition in plain Python."""
    leaves, spec = body.leaves(init, "init")
    named = paths(spec)
    flags = [*map(is_number, leaves)]
    kinds = [OutputLeaf(_type(x), weak=n) for x, n in zip(leaves, flags, strict=True)]
    trips, test = 0, LoopBody(body.call, cond)
    while True:
        with _within_trip(test, trips):
            answer = cond(unflatten(spec, [*map(_copied_leaf, leaves)]))
        if not _truth_of_condition(test, answer):
            break
        if limit is not None and trips == limit:
            exceed(limit)
        with _within_trip(body, trips):
            returned = function(unflatten(spec, [*map(_copied_leaf, leaves)]))
        out, own = body.leaves(returned, "the value")
        body.check_structure(own, spec)
        parts = zip(kinds, [OutputLeaf(_type(x)) for x in out], named, flags, strict=True)
        kinds = [next_kind(body, *each) for each in parts]
        if any(flags):  # the first trip again, with numbers of the dtype that it gives
            leaves = [
                _converted(x, cast("ArrayType", k.type)) for x, k in zip(leaves, kinds, strict=True)
            ]
            flags = [False] * len(leaves)
            continue
        leaves, trips = out, trips + 1
    last = [_converted(x, cast("ArrayType", k.type)) for x, k in zip(leaves, kinds, strict=True)]
    return unflatten(spec, last)


def _truth_of_condition(test: LoopBody, answer: object) -> bool:
    """The truth value that a condition returned; an error if it is no such value."""
    if shape_of(answer):
        fact = f"{test.name} must return one truth value, not {_type(answer)}."
        raise test.error(ShapeError, fact, "Use numpy.all or numpy.any.")
    return bool(answer)
