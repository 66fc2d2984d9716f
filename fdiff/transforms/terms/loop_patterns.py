"""Patterns of Jacobians of loops, by propagation of the body's pattern trip by trip.

The terms of a body give its pattern. From trip to trip the rows of the carries are products
with it, until nothing changes. A loop becomes a call that declares these patterns for each of its
outputs, so that a few products with vectors give its entries, for any number of trips.

Propagation of index domains through programs: A. Griewank and A. Walther, Evaluating Derivatives,
2nd ed., SIAM 2008, chapter 7.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

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
    """The pattern of the body of a loop: entries of all outputs one below the other, by input."""

    body: Tape
    carries: int
    first: int  # of the inputs that are rows
    columns: Sequence[csr_array]
    carried: csr_array  # the columns of the carries
    starts: np.ndarray  # where the entries of each output begin, and where the last ones end
    blocks: int  # that have entries


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
    loop = _of_body(body, carries, len(body.inputs) - rows, places)
    if loop is None:
        return None
    columns = [
        _propagated(loop, k, order) if t.floating else [None] * len(body.outputs)
        for k, t in enumerate(body.input_types)
    ]
    return [list(patterns) for patterns in zip(*columns, strict=True)]


def _of_body(body: Tape, carries: int, first: int, places: EntriesOf) -> _BodyPatterns | None:
    """The pattern of a body, full where it is unknown; None if full blocks are large."""
    starts = np.cumsum([0, *(t.size for t in body.output_types)])
    columns: list[csr_array] = []
    blocks = 0
    for k, t in enumerate(body.input_types):
        rows, cols = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        places_of = places(body, k) if t.floating else ()
        for start, out, place in zip(starts, body.output_types, places_of, strict=False):
            if not out.floating:
                continue
            if place is None and out.size * t.size > MOST:
                return None
            own_rows, own_cols = place or np.nonzero(np.ones((out.size, t.size)))
            rows.append(own_rows + start)
            cols.append(own_cols)
            blocks += len(own_rows) > 0
        shape = int(starts[-1]), t.size
        columns.append(_entries(np.concatenate(rows), np.concatenate(cols), shape))
    empty = _entries([], [], (int(starts[-1]), 0))
    carried = cast(
        "csr_array", intact_scipy.sparse.hstack([empty, *columns[:carries]], format="csr")
    )
    return _BodyPatterns(body, carries, first, columns, carried, starts, blocks)


def _entries(rows: Sequence[int] | np.ndarray, cols: object, shape: tuple[int, int]) -> csr_array:
    there = np.ones(len(rows), bool)
    return intact_scipy.sparse.csr_array((there, (rows, cols)), shape=shape)


def _propagated(loop: _BodyPatterns, k: int, order: range | None) -> Patterns:
    """The pattern of each output of the loop by one input; None where it is given up.

    Without an `order` of trips their number is not known: patterns of all numbers are united.
    """
    carries, starts = loop.carries, loop.starts
    given_up: Patterns = [None] * len(loop.body.outputs)
    size, is_row = loop.body.input_types[k].size, k >= loop.first
    most = MOST_PRODUCTS // (1 + loop.blocks)  # trips
    if order is not None and is_row and len(order) > most:  # each trip has a row of its own
        return given_up
    width = size * len(order) if order is not None and is_row else size
    here = np.arange(size if k < carries else 0)
    state = _entries(here + starts[k if k < carries else 0], here, (int(starts[carries]), width))
    outs: dict[int, list[csr_array]] = {}
    total = 0
    trips = range(most + 1) if order is None else order
    for done, trip in enumerate(trips):
        rows = _trip(loop, state, k, size * trip if is_row else 0)
        new: Any = rows[: starts[carries]]
        entries = rows.nnz - new.nnz  # of the rows that the trip gives
        if order is None:
            new = new + state
        same = not is_row and (new != state).nnz == 0
        # What is the same after a trip is the same after all that follow.
        later = trips[done:] if same and order is not None else (trip,)
        outs |= dict.fromkeys(later, _split(rows, starts[carries:]))
        total += len(later) * entries
        state = new
        if total + state.nnz > MOST or (done >= most and not same):
            return given_up
        if same:
            break
    none = [_entries([], [], (0, width))] * (len(given_up) - carries)
    stacked = [
        cast("csr_array", intact_scipy.sparse.vstack(parts, format="csr"))
        for parts in zip(none, *(outs[trip] for trip in sorted(outs)), strict=True)
    ]
    return [*_split(state, starts[: carries + 1]), *stacked]


def _trip(loop: _BodyPatterns, state: csr_array, k: int, shift: int) -> csr_array:
    """The pattern of all outputs of a trip, from the pattern of the carries before it."""
    total = loop.carried @ state
    if k < loop.carries:
        return total
    rows, cols = loop.columns[k].nonzero()
    return total + _entries(rows, cols + shift, cast("tuple[int, int]", total.shape))


def _split(rows: csr_array, starts: np.ndarray) -> list[csr_array]:
    return [rows[i:j] for i, j in itertools.pairwise(starts)]
