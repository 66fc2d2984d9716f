"""Sparse Jacobians and Hessians of a tape: where their entries are, and the tape of the values.

Forward mode walks the tape of tangents of each input, reverse mode the tape of cotangents of each
output; whichever is cheaper by the price of its terms. A Hessian is the Jacobian of the gradient,
whose lower triangle is stored twice. Our own: docs/decisions/terms-and-cuts.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...errors import UNNAMED, StructureError, message
from ...foreign_errors import not_signalled
from ...named_tuples import NamedTuple
from ...ops.shapes.gather_scatter import gather
from ...ops.terms import SEED, Entries
from ...process.environment import TAPES, dumped
from ...process.progress import Stage
from ...tape import Tape, prune
from ...trace import TracedArray, apply, splice
from ..derivative_tapes import assembled
from ..pipeline import COLUMNS, FORWARD, REVERSE, ROWS, SPARSE, derive
from ..simplify import SimplifyingTrace, simplify
from .frozen_values import FrozenValues, Known
from .sparse_slots import SparsePlaces, across_slots, filled, mirrored, places_of
from .structures import SparseBlock, SparseTape, StructureFacts, StructureRequest
from .term_sweep import LinearSweep, TooManyError

DENSE = 1 << 22  # entries of a block whose structure cannot be told
WORTH = 1.3  # listed entries for each that is stored, beyond which the other mode is looked at
REFUSALS = (StructureError, NotImplementedError)  # an op may have a rule for one mode alone
WAY = (
    "Use products with vectors: fdiff.hvp, fdiff.jvp, or a LinearOperator of SciPy that calls"
    " them; or differentiate a smaller part."
)

BlockValues = tuple[SparseBlock | None, object]  # a block, if there is one, and its values


class _Part(NamedTuple):
    """Blocks, by number, that one sweep gives, in a tape of their values."""

    tape: Tape
    places: list[int]
    blocks: list[SparseBlock]


class BlockDerivation:
    """The derivation of all blocks in one mode, from the values that inputs have now."""

    def __init__(self, tape: Tape, request: StructureRequest, values: Known, mode: str) -> None:
        self.tape, self.request, self.known, self.mode = tape, request, values, mode
        self.facts = StructureFacts(mode)
        self.parts: list[_Part] = []
        self.frozen: list[FrozenValues] = []
        self.wide = {o for o, t in enumerate(tape.output_types) if t.floating}

    def run(self) -> BlockDerivation:
        wrt = self.request.wrt
        if self.mode == "forward":
            for i, k in enumerate(wrt):
                self._sweep(
                    derive(FORWARD, self.tape, wrt=(k,), of=sorted(self.wide)),
                    [(o, i) for o in sorted(self.wide)],
                )
        else:
            for o in sorted(self.wide):
                self._sweep(
                    derive(REVERSE, self.tape, wrt=wrt, of=(o,)), [(o, i) for i in range(len(wrt))]
                )
        return self

    def walk(self, linear: Tape, trace: SimplifyingTrace, frozen: FrozenValues) -> LinearSweep:
        """The terms of all nodes of a linear tape."""
        sweep = LinearSweep(linear, trace, frozen)
        sweep.run()
        return sweep

    def _sweep(self, linear: Tape, targets: list[tuple[int, int]]) -> None:
        """The blocks that one linear tape gives."""
        if not linear.outputs:
            return
        frozen, width = FrozenValues(linear, self.known), len(self.request.wrt)
        with SimplifyingTrace("jacobian") as trace, Stage(nodes=trace.builder.nodes):
            sweep = self.walk(linear, trace, frozen)
            data: list[object] = []
            places: list[int] = []
            blocks: list[SparseBlock] = []
            for node, (o, i) in zip(linear.outputs, targets, strict=True):
                first, row = o - o % width, o % width  # of a Hessian: its output, and the input
                if self.request.hessian and row < i:  # the transpose of another one
                    continue
                block, mirror = self.block(sweep, node, o, i)
                across = (first + i) * width + row
                for (structure, values), at in ((block, o * width + i), (mirror, across)):
                    if structure is not None:
                        blocks.append(structure)
                        data.append(values)
                        places.append(at)
            tape = simplify(trace.builder.finish([trace.lift(values) for values in data]))
        self.frozen.append(frozen)
        facts = StructureFacts(self.mode, sum(map(len, sweep.terms.values())), sweep.cuts.products)
        facts.cuts = [cut.line for cut in sweep.cuts.all]
        facts.price = sweep.entries + sweep.cuts.products
        self.facts.add(facts)
        self.parts.append(_Part(tape, places, blocks))

    def block(
        self, sweep: LinearSweep, node: int, o: int, i: int
    ) -> tuple[BlockValues, BlockValues]:
        """A block, with its values, and of a Hessian the one across the diagonal."""
        shape = (self.tape.output_types[o].size, self.tape.input_types[self.request.wrt[i]].size)
        entries, dtype = (
            self.entries(sweep, node, o, i, shape),
            self.request.types[o * len(self.request.wrt) + i].dtype,
        )
        self.facts.listed += sum(len(e.rows) for e in entries)
        self.facts.price += 4 * sum(len(e.rows) for e in entries)
        if not self.request.hessian:
            return self._stored(entries, shape, dtype), (None, None)
        if o % len(self.request.wrt) != i:
            turned = (shape[1], shape[0])
            across = [] if self.request.lower else transposed(entries)
            return self._stored(entries, shape, dtype), self._stored(across, turned, dtype)
        entries = lower_entries(entries)
        if self.request.lower:
            return self._stored(entries, shape, dtype), (None, None)
        return self._mirrored(entries, shape, dtype), (None, None)

    def _mirrored(
        self, entries: list[Entries], shape: tuple[int, int], dtype: np.dtype
    ) -> tuple[SparseBlock, object]:
        """An exactly symmetric block: the values of the lower triangle, stored at both places."""
        lower = places_of(entries, shape)
        places, source = mirrored(lower)
        if len(lower.cols) == len(lower.slots):  # nothing is added up: values are stored twice
            slots = across_slots(lower, places, source)
            ends = np.cumsum([len(e.rows) for e in entries])[:-1]
            upper = [
                e.at(at, e.rows[at]) for e in entries for at in [np.flatnonzero(e.rows != e.cols)]
            ]
            parts = [part[part >= 0] for part in np.split(slots, ends)] if entries else []
            both = np.concatenate([places.slots[lower.slots], *parts])
            values = filled([*entries, *upper], both, len(places.cols), dtype)
            return SparseBlock(shape, places.starts, places.cols), values
        values = filled(entries, lower.slots, len(lower.cols), dtype)
        values = (
            apply(gather, values, source) if isinstance(values, TracedArray) else values[source]
        )
        return SparseBlock(shape, places.starts, places.cols), values

    def _stored(
        self, entries: list[Entries], shape: tuple[int, int], dtype: np.dtype
    ) -> tuple[SparseBlock, object]:
        places: SparsePlaces = places_of(entries, shape, by_columns=self.request.by_columns)
        values = filled(entries, places.slots, len(places.cols), dtype)
        return SparseBlock(shape, places.starts, places.cols), values

    def entries(
        self, sweep: LinearSweep, node: int, o: int, i: int, shape: tuple[int, int]
    ) -> list[Entries]:
        """The entries of a block with respect to its input."""
        if node in sweep.opaque:
            return [self._dense(sweep, node, o, i, shape)]
        if node not in sweep.terms:
            return []
        entries = sweep.resolved(sweep.terms[node], sweep.type(node))
        return entries if self.mode == "forward" else transposed(entries)

    def _dense(
        self, sweep: LinearSweep, node: int, o: int, i: int, shape: tuple[int, int]
    ) -> Entries:
        """A block without structure, by dense sweeps."""
        op, line = sweep.opaque[node]
        rows, columns = shape
        if rows * columns > DENSE:
            fact = (
                f"`{op.primitive.name}` has no known structure, and its dense block of"
                f" {rows:,} x {columns:,} entries is too large."
            )
            raise StructureError(message(UNNAMED, fact, WAY, line))
        k, columns_first = self.request.wrt[i], self.mode == "forward"
        way, size = (COLUMNS, columns) if columns_first else (ROWS, rows)
        block = derive(way, self.tape, wrt=(k,), of=(o,), size=size)
        inputs = [TracedArray(sweep.trace, n, sweep.builder.type(n)) for n in sweep.builder.inputs]
        (out,) = splice(block, inputs, sweep.trace)
        flat = np.indices(shape).reshape(2, -1)
        return Entries(flat[0], flat[1], np.reshape(out, (-1,)), SEED)


def lower_entries(entries: Sequence[Entries]) -> list[Entries]:
    """The entries of the lower triangle."""
    lists: list[Entries] = []
    for e in entries:
        places = np.flatnonzero(e.rows >= e.cols)
        if len(places) == len(e.rows):
            lists.append(e)
        elif len(places):
            lists.append(e.at(places, e.rows[places]))
    return lists


def transposed(entries: Sequence[Entries]) -> list[Entries]:
    return [e._replace(rows=e.cols, cols=e.rows) for e in entries]


def sparse_tape(tape: Tape, request: StructureRequest, values: Known) -> SparseTape:
    """The sparse derivative of a tape whose inputs have these `values`, in the cheaper mode.

    Parameters
    ----------
    tape : Tape
        The function; for a Hessian its gradient.
    request : StructureRequest
        What is wanted of it.
    values : sequence of callable or None
        For each input a function that returns its value; None if the value is not there, or the
        input is differentiated.

    Raises
    ------
    StructureError
        If a block without structure, or a structure, is too large.
    """
    rows = sum(t.size for t in tape.output_types if t.floating)
    columns = sum(tape.input_types[k].size for k in request.wrt)
    first, other = ("forward", "reverse") if columns <= 2 * rows else ("reverse", "forward")
    if request.hessian or request.mode != "auto":
        mode = "forward" if request.hessian else request.mode
        return finished(_derived(tape, request, values, mode))
    try:
        derivation = _derived(tape, request, values, first)
    except not_signalled(*REFUSALS) as error:
        try:
            return finished(_derived(tape, request, values, other))
        except not_signalled(*REFUSALS):
            raise error from None
    stored = sum(len(block.indices) for part in derivation.parts for block in part.blocks)
    if derivation.facts.products or derivation.facts.listed > WORTH * stored:
        try:
            second = _derived(tape, request, values, other)
        except not_signalled(*REFUSALS):
            return finished(derivation)
        derivation = second if second.facts.price < derivation.facts.price else derivation
    return finished(derivation)


def _derived(tape: Tape, request: StructureRequest, values: Known, mode: str) -> BlockDerivation:
    try:
        return BlockDerivation(tape, request, values, mode).run()
    except TooManyError as error:
        fact = f"the structure has {error.count:,} entries: here the derivative becomes dense."
        raise StructureError(message(UNNAMED, fact, WAY, error.line)) from None


def finished(derivation: BlockDerivation) -> SparseTape:
    """All blocks in one tape; blocks that no sweep gives have no entries."""
    tape, request = derivation.tape, derivation.request
    width = len(request.wrt)
    by_place = {
        p: block
        for part in derivation.parts
        for p, block in zip(part.places, part.blocks, strict=True)
    }
    blocks: list[SparseBlock] = []
    for o, out in enumerate(tape.output_types):
        for i, k in enumerate(request.wrt):
            shape = (out.size, tape.input_types[k].size)
            empty = SparseBlock(
                shape, np.zeros(shape[request.by_columns] + 1, np.int32), np.zeros(0, np.int32)
            )
            blocks.append(by_place.get(o * width + i, empty))
    types = [
        t if request.dense else ArrayType((len(b.indices),), t.dtype)
        for b, t in zip(blocks, request.types, strict=True)
    ]
    places = [p for part in derivation.parts for p in part.places]
    whole = assembled(tape, [part.tape for part in derivation.parts], places, types)
    whole = derive(SPARSE, whole, types=types)
    pins = {k: a.tobytes() for frozen in derivation.frozen for k, a in frozen.pins.items()}
    index, values = _index_tape(derivation)
    lasting = not any(frozen.lacks for frozen in derivation.frozen)
    derivation.facts.stored += sum(len(b.indices) for b in blocks)
    if TAPES in dumped():
        sys.stderr.write("\n".join(["--- terms and cuts", *derivation.facts.rows(), f"{whole}\n"]))
    return SparseTape(whole, blocks, derivation.facts, pins, index, values, lasting)


def _index_tape(derivation: BlockDerivation) -> tuple[Tape | None, tuple[bytes, ...]]:
    """The tape of index arrays that are computed from floats, and their current values."""
    tapes: list[Tape] = []
    values: list[bytes] = []
    for frozen in derivation.frozen:
        if frozen.computed:
            tapes.append(prune(frozen.tape, [*frozen.computed]))
            values += [array.tobytes() for array in frozen.computed.values()]
    if not tapes:
        return None, ()
    with SimplifyingTrace("jacobian") as trace:
        inputs = [
            TracedArray(trace, trace.builder.input(t), t) for t in derivation.tape.input_types
        ]
        outs: list[int] = []
        for tape in tapes:
            seeds = [
                trace.lift(np.zeros(t.shape, t.dtype)) for t in tape.input_types[len(inputs) :]
            ]
            arguments = [
                *inputs,
                *[TracedArray(trace, s, trace.builder.type(s)) for s in seeds],
            ]
            outs += [out.id for out in splice(tape, arguments, trace)]
        return trace.builder.finish(outs), tuple(values)
