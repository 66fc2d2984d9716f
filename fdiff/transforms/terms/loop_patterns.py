"""Patterns of the Jacobians of loops: the pattern of the body, trip after trip.

The terms of a body give its pattern. From trip to trip the rows of the carries are products
with it, until nothing changes. A loop becomes a call that declares these patterns for each of its
outputs, so that a few products with vectors give its entries, for any number of trips.

Propagation of index domains through programs: A. Griewank and A. Walther, Evaluating Derivatives,
2nd ed., SIAM 2008, section 7.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np
from fdiff import intact_scipy

from ...named_tuples import NamedTuple
from ...ops.control.loop import LOOP
from ...ops.control.while_loop import WHILE
from ...tape import CONSTANT, Node, Tape
from ...trace.derived_lines import kept_by_value

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST = 1 << 22  # entries of the patterns of a loop
MOST_PRODUCTS = 1 << 12  # of patterns, a second: what changes for more trips is given up

Patterns = list["csr_array | None"]  # None is a pattern that is not known


# Of each output of a tape rows and columns of the entries, for an input; None if nothing is told.
EntriesOf = Callable[[Tape, int], "Sequence[tuple[np.ndarray, np.ndarray] | None]"]


class _BodyPatterns(NamedTuple):
    """The patterns of the body of a loop: of each output by each input."""

    body: Tape
    carries: int
    first: int  # of the inputs that are rows
    blocks: Sequence[Patterns]


def loop_patterns(tape: Tape, node: Node, places: EntriesOf) -> Sequence[Patterns] | None:
    """Of each output of a loop its pattern by each input of the body; None where none is known."""
    if node.primitive is LOOP:
        trips = tape.nodes[node.args[0]]
        length = node.param("length")
        if trips.primitive is not CONSTANT or trips.value != length:
            return None
        order = range(length)[:: -1 if node.param("reverse") else 1]
        rows: int = node.param("rows")
        return _patterns(node.param("body"), node.param("carries"), rows, order, places)
    if node.primitive is WHILE:
        patterns = _patterns(node.param("body"), node.param("carries"), 0, None, places)
        return patterns and [*patterns, [None] * len(patterns[0])]
    return None


@kept_by_value
def _patterns(
    body: Tape, carries: int, rows: int, order: range | None, places: EntriesOf
) -> Sequence[Patterns] | None:
    """The patterns of a loop with trips in this order; a run tells their number if it is None."""
    types = (*body.input_types, *body.output_types)
    if any(t.dtype.kind == "c" for t in types):
        return None
    blocks = _blocks(body, places)
    if blocks is None:
        return None
    loop = _BodyPatterns(body, carries, len(body.inputs) - rows, blocks)
    columns = [
        _propagated(loop, k, order) if t.floating else [None] * len(body.outputs)
        for k, t in enumerate(body.input_types)
    ]
    return [list(patterns) for patterns in zip(*columns, strict=True)]


def _blocks(body: Tape, places: EntriesOf) -> list[Patterns] | None:
    """The patterns of a body, full ones where they are unknown; None if full ones are large."""
    blocks: list[Patterns] = [[] for _ in body.outputs]
    for k, t in enumerate(body.input_types):
        places_of = places(body, k) if t.floating else [None] * len(body.outputs)
        for o, (out, place) in enumerate(zip(body.output_types, places_of, strict=True)):
            shape = out.size, t.size
            if not (t.floating and out.floating):
                blocks[o].append(_empty(*shape))
            elif place is not None:
                blocks[o].append(_entries(place[0], place[1], shape))
            elif out.size * t.size <= MOST:
                rows, cols = np.nonzero(np.ones(shape))
                blocks[o].append(_entries(rows, cols, shape))
            else:
                return None
    return blocks


def _entries(rows: Sequence[int] | np.ndarray, cols: object, shape: tuple[int, int]) -> csr_array:
    there = np.ones(len(rows), bool)
    return intact_scipy.sparse.csr_array((there, (rows, cols)), shape=shape)


def _empty(rows: int, cols: int) -> csr_array:
    return intact_scipy.sparse.csr_array((rows, cols), dtype=bool)


def _propagated(loop: _BodyPatterns, k: int, order: range | None) -> Patterns:
    """The pattern of each output of the loop by one input; None where it is given up.

    Without an `order` of trips their number is not known: patterns of all numbers are united.
    """
    types, carries = loop.body.output_types, loop.carries
    size, is_row = loop.body.input_types[k].size, k >= loop.first
    products = 1 + sum(b is not None and b.nnz > 0 for row in loop.blocks for b in row)
    most = MOST_PRODUCTS // products  # trips
    if order is not None and is_row and len(order) > most:  # each trip has a row of its own
        return [None] * len(types)
    width = size * len(order) if order is not None and is_row else size
    state = [_empty(t.size, width) for t in types[:carries]]
    if k < carries:
        state[k] = _entries(range(size), range(size), (size, size))
    outs: list[dict[int, csr_array]] = [{} for _ in types[carries:]]
    total = 0
    trips = range(most + 1) if order is None else order
    for done, trip in enumerate(trips):
        rows = _trip(loop, state, k, width, size * trip if is_row else 0)
        new = rows[:carries]
        if order is None:
            new = [a + b for a, b in zip(new, state, strict=True)]
        pairs: list[tuple[Any, Any]] = [*zip(new, state, strict=True)]
        same = not is_row and all((a != b).nnz == 0 for a, b in pairs)
        # What is the same after a trip is the same after all that follow.
        last = same and order is not None and outs
        for later in trips[done:] if last else (trip,):
            for rows_of_trips, row in zip(outs, rows[carries:], strict=True):
                rows_of_trips[later] = row
                total += row.nnz
        state = new
        if total + sum(p.nnz for p in state) > MOST or (done >= most and not same):
            return [None] * len(types)
        if same:
            break
    stacked = [
        intact_scipy.sparse.vstack([by_trip[t] for t in sorted(by_trip)], format="csr")
        if by_trip
        else _empty(0, width)
        for by_trip in outs
    ]
    return [*state, *stacked]


def _trip(
    loop: _BodyPatterns, state: Sequence[csr_array], k: int, width: int, shift: int
) -> list[csr_array]:
    """The pattern of each output of a trip, from the patterns of the carries before it."""
    totals: list[csr_array] = []
    for o, blocks in enumerate(loop.blocks):
        total = _empty(loop.body.output_types[o].size, width)
        for block, before in zip(blocks, state, strict=False):
            if block is not None and block.nnz and before.nnz:
                total = total + block @ before
        own = blocks[k] if k >= loop.carries else None
        if own is not None and own.nnz:
            rows, cols = own.nonzero()
            height = loop.body.output_types[o].size
            total = total + _entries(rows, cols + shift, (height, width))
        totals.append(total)
    return totals
