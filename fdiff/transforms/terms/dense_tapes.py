"""Dense Jacobians and Hessians from terms, where that is cheaper than sweeps over all columns.

Columns stand side by side where each term has a run of them; else entries are stored into zeros. So
an entry that does not exist is zero, whatever infinities stand beside it. A Hessian is computed on
and below its diagonal, and stored on both sides of it. Our own: docs/decisions/terms-and-cuts.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...foreign_errors import not_signalled
from ...ops.shapes.shaping import traced
from ...ops.terms import SEED, Entries, LinearTerm, ones_like, taken, whole
from ...tape import Node, Tape
from ...trace import Array, TracedArray
from ..activity import reached
from ..simplify import SimplifyingTrace
from .frozen_values import FrozenValues, Known
from .gathered_rows import columns_of_gathered_rows
from .slot_stores import stored_pieces
from .sparse_slots import filled, places_of
from .sparse_tapes import REFUSALS, BlockDerivation, BlockValues, finished, lower_entries
from .structures import SparseBlock, SparseTape, StructureRequest
from .term_merging import Merging
from .term_sweep import LinearSweep, OpaqueError, TooManyError

LISTED = 32  # bytes of a listed entry: row, column, place and value
COPIES = 4  # times the budget that results may take: NumPy copies them for each list of entries
CHEAP = 1 << 12  # a price that needs no comparison
NARROW = 8  # columns that are filled with zeros between entries
FULL = 0.75  # the part of the price of sweeps that is worth it where no entry is zero
SPARSE = 1.25  # and where some are
CALLS = 100  # in which the walk over a long tape has to pay for itself
TERM = 1 << 17  # entries that sweeps compute in the time that it takes to find a term
TRIED = 256  # terms that are found in any case
FEW = 5  # terms of a node on average
_NOTHING = np.zeros(0, np.int32)


class NotWorthError(Exception):
    """Sweeps over all columns are cheaper; it never leaves this module."""


class DenseSweep(LinearSweep):
    """A walk that ends where structure cannot be told, or costs more than sweeps would.

    `swept` is the price of sweeps: the entries of all nodes that move, for each column. No node has
    more than `most` entries, nor have all lists together. `saved` counts the entries that terms
    have spared so far, and `found` the terms: to find one takes as long as sweeps take for `TERM`
    entries, so that a long chain of small arrays is left to them after a few. A walk that spares an
    eighth of the `full` entries of its `nodes`, with `kept` at most `FEW` terms for each, goes on.
    """

    def __init__(
        self, tape: Tape, trace: SimplifyingTrace, frozen: FrozenValues, most: int
    ) -> None:
        marks = reached(tape, {tape.inputs[-1]: 1})
        moving = [node.types for node, mark in zip(tape.nodes, marks, strict=True) if mark]
        sizes = [sum(t.size for t in types) for types in moving]
        self.most = most
        self.swept = tape.nodes[tape.inputs[-1]].type.size * sum(sizes)
        self.saved = self.found = self.kept = self.nodes = self.full = 0
        self.tried = max(TRIED, self.swept * CALLS // (64 * TERM))
        if len(sizes) > TRIED + CALLS * self.swept // TERM:  # each has a term at least
            raise NotWorthError
        super().__init__(tape, trace, frozen)

    def bounded(self, terms: list[LinearTerm], type_: ArrayType) -> list[LinearTerm]:
        few = super().bounded(terms, type_)
        full = self.cuts.columns * type_.size
        self.nodes, self.full = self.nodes + 1, self.full + full
        self.found, self.kept = self.found + len(terms), self.kept + len(few)
        self.saved += full - sum(t.size for t in few)
        sparse = 8 * self.saved > self.full and self.kept <= FEW * self.nodes
        if not sparse and self.found > self.tried + CALLS * max(self.saved, 0) // TERM:
            raise NotWorthError
        return few

    def hide(self, i: int, node: Node) -> None:
        raise OpaqueError

    def check(self, count: int) -> None:
        super().check(count)
        if count > self.most or self.entries + self.cuts.products > max(CHEAP, SPARSE * self.swept):
            raise NotWorthError

    def allow(self, count: int) -> None:
        total = self.cuts.products + count
        if total > self.most or self.entries + total > max(CHEAP, SPARSE * self.swept):
            raise NotWorthError

    def judge(self, outputs: Sequence[int]) -> None:
        """Raise `NotWorthError` where sweeps cost no more."""
        stored = sum(t.size for o in outputs for t in self.terms.get(o, ()))
        full = self.cuts.columns * sum(self.type(o).size for o in outputs)
        price = self.entries + self.cuts.products + stored
        worth = FULL * self.swept if stored >= full else max(CHEAP, SPARSE * self.swept)
        if price > worth or stored > self.most:
            raise NotWorthError


class DenseDerivation(BlockDerivation):
    """The derivation of dense blocks in one mode."""

    def walk(self, linear: Tape, trace: SimplifyingTrace, frozen: FrozenValues) -> LinearSweep:
        sweep = DenseSweep(linear, trace, frozen, self.request.budget // LISTED)
        sweep.run()
        sweep.judge(linear.outputs)
        return sweep

    def block(
        self, sweep: LinearSweep, node: int, o: int, i: int
    ) -> tuple[BlockValues, BlockValues]:
        width = len(self.request.wrt)
        type_ = self.request.types[o * width + i]
        shape = (self.tape.output_types[o].size, self.tape.input_types[self.request.wrt[i]].size)
        symmetric = self.request.hessian and o % width == i
        matrix = None if symmetric else side_by_side(sweep, node)
        if matrix is None:
            entries = self.entries(sweep, node, o, i, shape)
            lists = self._listed(entries, shape, type_.dtype, symmetric=symmetric)
            matrix = np.reshape(in_places(lists, shape, type_.dtype), shape)
        else:
            self.facts.stored += sum(t.size for t in sweep.terms.get(node, ()))
            matrix = np.transpose(matrix) if self.mode == "reverse" else matrix
        block = SparseBlock(shape, _NOTHING, _NOTHING), np.reshape(matrix, type_.shape)
        if not self.request.hessian or symmetric:
            return block, (None, None)
        across = np.reshape(
            np.transpose(matrix), self.request.types[(o - o % width + i) * width + o % width].shape
        )
        return block, (SparseBlock((shape[1], shape[0]), _NOTHING, _NOTHING), across)

    def _listed(
        self, entries: list[Entries], shape: tuple[int, int], dtype: np.dtype, *, symmetric: bool
    ) -> list[Entries]:
        """Each entry of a block once; of a symmetric block the lower triangle, and its mirror."""
        entries = lower_entries(entries) if symmetric else entries
        self.facts.listed += sum(len(e.rows) for e in entries)
        lists = each_once(entries, shape, dtype)
        lists += [_mirrored_entries(e) for e in lists] if symmetric else []
        self.facts.stored += sum(len(e.rows) for e in lists)
        return lists


def dense_tape(tape: Tape, request: StructureRequest, values: Known) -> SparseTape | None:
    """The dense derivative of a tape whose inputs have these `values`, in the mode asked for.

    None where sweeps do as well, where the structure cannot be told, and where it rests on indices
    that are computed from floats.
    """
    if sum(t.nbytes for t in request.types) > COPIES * request.budget:
        return None
    try:
        derivation = DenseDerivation(tape, request, values, request.mode).run()
    except not_signalled(*REFUSALS, OpaqueError, TooManyError, NotWorthError):
        return None
    if any(frozen.computed for frozen in derivation.frozen):
        return None
    return finished(derivation)


def side_by_side(sweep: LinearSweep, node: int) -> Array | None:
    """The Jacobian of a node as a matrix, where the columns of each term are a run, the same in all
    rows, or few; else None.
    """
    type_, columns = sweep.type(node), sweep.cuts.columns
    if not columns or not type_.size:
        return None
    gathered = columns_of_gathered_rows(sweep, node)
    if gathered is not None:
        return gathered
    merging = Merging(sweep.maps, sweep.lift, type_.dtype)
    blocks: list[tuple[int, Array]] = []
    for t in merging.side_by_side(sweep.terms.get(node, ())):
        more = _blocks_of(sweep, t, type_)
        if not more:
            return None
        blocks += more
    return _joined(sorted(blocks, key=lambda pair: pair[0]), type_, columns)


def _joined(blocks: list[tuple[int, Array]], type_: ArrayType, columns: int) -> Array | None:
    """A matrix of blocks, each with its first column, and zeros between; None if blocks overlap."""
    parts: list[Array] = []
    at = 0
    for first, block in [*blocks, (columns, None)]:
        if first < at:
            return None
        if first > at:
            parts.append(np.zeros((type_.size, first - at), type_.dtype))
        if block is not None:
            parts.append(block)
            at = first + block.shape[1]
    return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


def _blocks_of(sweep: LinearSweep, t: LinearTerm, type_: ArrayType) -> list[tuple[int, Array]]:
    """Runs of columns of a term, each with the first one; none if they are others in each row."""
    count = type_.ndim
    if t.source != SEED or t.rows != whole(type_.shape):
        return []
    columns, factor = t.cols.reshape(-1), sweep.lift(ones_like(t, type_.dtype))
    flat = np.reshape(np.broadcast_to(factor, t.domain), (type_.size, prod(t.extra)))
    if prod(t.cols.shape[:count]) == 1:
        ends = [0, *np.flatnonzero(np.diff(columns) != 1) + 1, len(columns)]
        if t.cols.shape[count:] != t.extra or len(ends) > NARROW:
            return []
        return [(int(columns[a]), flat[:, a:b]) for a, b in pairwise(ends)]
    first, width = int(columns.min()), int(np.ptp(columns)) + 1
    if t.extra or width > NARROW:
        return []
    chosen = np.broadcast_to(t.cols, t.domain).reshape((-1, 1)) == first + np.arange(width)
    return [(first, np.where(chosen, flat, np.zeros((), type_.dtype)))]


def in_places(lists: Sequence[Entries], shape: tuple[int, int], dtype: np.dtype) -> Array:
    """The flat matrix with these entries, which have distinct places."""
    size = shape[0] * shape[1]
    pieces: list[tuple[TracedArray, np.ndarray]] = []
    for e in lists:
        slots = e.rows * shape[1] + e.cols
        values = (
            np.ones(len(slots), dtype) if e.values is None else e.values.astype(dtype, copy=False)
        )
        if len(slots) == size and np.array_equal(slots, np.arange(size)):
            return values
        if len(slots):
            pieces.append((traced(values), slots))
    return stored_pieces(np.broadcast_to(traced(np.zeros((), dtype)), (size,)), pieces)


def _mirrored_entries(e: Entries) -> Entries:
    """Entries beside the diagonal, on the other side of it."""
    off = np.flatnonzero(e.rows != e.cols)
    return Entries(e.cols[off], e.rows[off], taken(e.values, off), e.source)


def each_once(entries: Sequence[Entries], shape: tuple[int, int], dtype: np.dtype) -> list[Entries]:
    """Lists without a place that occurs twice: those that share places are added up, constants
    are one.
    """
    if not entries:
        return []
    places = places_of(entries, shape)
    often = np.bincount(places.slots)
    slots = np.split(places.slots, np.cumsum([len(e.rows) for e in entries])[:-1])
    lists: list[Entries] = []
    groups: tuple[list[int], list[int]] = ([], [])  # with shared places, and constants
    for k, e in enumerate(entries):
        if np.any(often[slots[k]] > 1):
            groups[0].append(k)
        elif isinstance(e.values, TracedArray):
            lists.append(e)
        else:
            groups[1].append(k)
    rows, cols = places.rows, places.cols.astype(np.int64)
    for group in filter(None, groups):
        there, numbers = np.unique(np.concatenate([slots[k] for k in group]), return_inverse=True)
        values = filled([entries[k] for k in group], numbers, len(there), dtype)
        lists.append(Entries(rows[there], cols[there], values, SEED))
    return lists
