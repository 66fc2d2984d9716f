"""Entries of outputs that depend on entries of an input with a derivative, from terms.

Sweeps multiply the zeros of their seeds by whatever stands in their way, so that an entry that does
not exist is no number where that is infinite. `zero_masks` tells which entries these are. Our own
method: docs/decisions/terms-and-cuts.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...errors import FdiffError
from ...foreign_errors import not_signalled
from ...named_tuples import NamedTuple
from ...ops.terms import SEED, rows_key
from ...tape import Tape
from ...trace import Array, Trace, splice
from ..pipeline import derive
from ..simplify import SimplifyingTrace
from .frozen_values import FrozenValues, Known
from .sparse_tapes import FORWARD
from .structures import with_declared_calls
from .term_sweep import LinearSweep, OpaqueError, TooManyError

MOST = 1 << 22  # entries that are listed of a node, if these are more than
WIDE = 8  # for each column


class EntryPlaces(NamedTuple):
    """Flat numbers of the entries of an output, each with the number of an entry it depends on."""

    rows: np.ndarray
    cols: np.ndarray


_NOWHERE = EntryPlaces(np.zeros(0, np.int64), np.zeros(0, np.int64))


def entry_places(tape: Tape, k: int, values: Known = ()) -> list[EntryPlaces | None]:
    """The places of each output for input `k`; None where they are too many or cannot be told.

    `values` are functions that give the values of inputs, as far as they are there.
    """
    wide = [o for o, t in enumerate(tape.output_types) if t.floating]
    places: list[EntryPlaces | None] = [None if t.floating else _NOWHERE for t in tape.output_types]
    try:
        linear = derive(FORWARD, with_declared_calls(tape, entry_places), wrt=(k,), of=wide)
        with SimplifyingTrace("jacobian") as trace:
            frozen = FrozenValues(linear, values or [None] * len(tape.inputs))
            sweep = LinearSweep(linear, trace, frozen)
            sweep.most = max(MOST, WIDE * tape.input_types[k].size)
            sweep.run()
            for o, node in zip(wide, linear.outputs, strict=True):
                places[o] = _places_of(sweep, node)
    except not_signalled(FdiffError, NotImplementedError, OpaqueError, TooManyError):
        return places
    return places


def _places_of(sweep: LinearSweep, node: int) -> EntryPlaces | None:
    """The places of a node; the places of a diagonal are not listed."""
    if node in sweep.opaque:
        return None
    terms = sweep.terms.get(node)
    if not terms:
        return _NOWHERE
    numbers = sweep.grid(sweep.type(node).shape)
    own = [numbers[rows_key(t.rows)] for t in terms]
    pairs = zip(terms, own, strict=True)
    if all(t.source == SEED and sweep.maps.same(t.cols, rows) for t, rows in pairs):
        rows = np.concatenate([part.reshape(-1) for part in own])
        return EntryPlaces(rows, rows)
    entries = sweep.resolved(terms, sweep.type(node))
    if not entries:
        return _NOWHERE
    rows, cols = [e.rows for e in entries], [e.cols for e in entries]
    return EntryPlaces(np.concatenate(rows), np.concatenate(cols))


def zero_masks(tape: Tape, wrt: Sequence[int], values: Known = ()) -> list[np.ndarray | None]:
    """Of each block (output, input) of a Jacobian, which entries there are; None for all of them.

    A block whose structure cannot be told has all of them.
    """
    masks: list[np.ndarray | None] = [None] * (len(tape.outputs) * len(wrt))
    for i, k in enumerate(wrt):
        for o, places in enumerate(entry_places(tape, k, values)):
            shape = (tape.output_types[o].size, tape.input_types[k].size)
            if places is None or shape[0] * shape[1] > MOST:
                continue
            there = np.zeros(shape, bool)
            there[places] = True
            masks[o * len(wrt) + i] = None if there.all() else there
    return masks


def masked(tape: Tape, masks: Sequence[np.ndarray | None]) -> Tape:
    """The tape of blocks, with zeros where masks say so."""
    if all(mask is None for mask in masks):
        return tape
    with Trace("jacobian", lines=False) as trace:
        blocks: list[Array] = [*splice(tape, [trace.input(t) for t in tape.input_types], trace)]
        for o, (block, mask) in enumerate(zip(blocks, masks, strict=True)):
            if mask is not None:
                blocks[o] = np.where(mask.reshape(block.shape), block, np.zeros((), block.dtype))
        return trace.builder.finish([trace.lift(block) for block in blocks])
