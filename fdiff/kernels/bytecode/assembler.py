"""The assembler of bytecode: instructions, and a workspace shared by values that live in turn.

Nodes are encoded in order, by a *lowering* for each op, its parameters and the layouts of its
operands: long tapes have few of them. Views cost nothing, they are a layout and a place. An op
without opcode is left to NumPy between two runs of instructions.

Places are given and taken back in the order of the nodes, as registers by a linear scan
(M. Poletto and V. Sarkar, Linear scan register allocation, ACM TOPLAS 21(5), 1999, figure 1).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import fdiff.intact_numpy as np

from ...arraytype import Shape
from ...named_tuples import NamedTuple
from ...tape import Node, Tape
from .opcode_bodies import RANK
from .opcodes import PADDED, OpcodeTable, table
from .workspace_layout import (
    Layout,
    Steps,
    by_slots,
    columns,
    in_order,
    joined_axes,
    row_major,
    spread,
    width,
)

FOREVER = 1 << 62
Value = tuple[int, Layout]  # where it begins, how it lies
Lowering = Callable[["Assembler", int, Node], None]


class NumpyStep(NamedTuple):
    """A node that NumPy computes: its function, its operands, the places of its results."""

    name: str
    function: Callable[..., object]
    reads: tuple[Value, ...]
    gives: tuple[Value, ...]


class InstructionRange(NamedTuple):
    """Instructions from row `first` up to `last`."""

    first: int
    last: int


class Piece(NamedTuple):
    """An operand that is copied to entries of a result: the first one, and the steps to others."""

    source: Layout
    begin: int
    steps: Steps

    @property
    def loops(self) -> list[tuple[int, ...]]:
        """The loops that copy it."""
        return joined_axes(self.source.shape, self.source.steps, self.steps)

    @property
    def copyable(self) -> bool:
        """Whether one instruction copies it."""
        return columns(self.loops, RANK, 2) is not None

    def copy(self, assembler: Assembler, place: int, at: int) -> None:
        """Copy it from where it lies, `at`, into a result that lies at `place`."""
        source, begin, steps = self
        copied = assembler.copy(source.shape, (place + begin, steps), (at, source.steps))
        assert copied, "it is copyable"

    @property
    def contiguous(self) -> bool:
        """Whether its entries lie side by side in the same order here and there."""
        return self.source.size <= 1 or self.loops == [(self.source.size, 1, 1)]


class RefusedError(Exception):
    """The tape is not for the bytecode interpreter; the message says why."""


@dataclass
class Assembler:
    """The program encoded so far. `last` is, for each node, the last that reads it or a view."""

    tape: Tape
    last: list[int]
    opcodes: OpcodeTable = field(default_factory=table)
    code: array[int] = field(default_factory=lambda: array("i"))
    extra: array[int] = field(default_factory=lambda: array("q"))
    steps: list[NumpyStep | InstructionRange] = field(default_factory=list)
    constants: list[tuple[int, np.ndarray]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    layouts: list[Layout | None] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    items: dict[int, tuple[Value, ...]] = field(default_factory=dict)
    size: int = 0
    done: int = 0  # instructions in runs that have ended

    def __post_init__(self) -> None:
        count = len(self.tape.nodes)
        self.places, self.layouts, self.owners = [0] * count, [None] * count, list(range(count))
        self.read_reshaped: dict[int, Value] = {}  # outputs that are this in another shape
        # What dies with a node is a chain of records: begin, slots, next record. Plain integers, as
        # a long tape would make the garbage collector look at as many lists.
        self.dying: list[int] = [-1] * count
        self.record: list[int] = [-1] * count  # of the value itself
        self.begins: list[int] = []
        self.extents: list[int] = []
        self.next: list[int] = []
        self.free: dict[int, list[int]] = {}
        self.copies: dict[tuple[int, Shape], int] = {}
        self.rows: dict[tuple[int, ...], int] = {}
        self.zero = self.constant(np.zeros(1))

    # --- memory ---------------------------------------------------------------------------------

    def take(self, extent: int) -> int:
        """The place of `extent` free slots; `extent` is one or a multiple of eight."""
        kept = self.free.get(extent)
        if kept:
            return kept.pop()
        if extent == 1:
            place = self.take(PADDED)
            self.free[1] = list(range(place + PADDED - 1, place, -1))
            return place
        place, self.size = self.size, self.size + extent
        return place

    def lend(self, extent: int, until: int) -> int:
        """Place of slots that are free again after node `until`."""
        place = self.take(extent)
        self.enter(place, extent, until)
        return place

    def enter(self, place: int, extent: int, until: int) -> int:
        """The record of slots that die with node `until`."""
        record = len(self.next)
        self.begins.append(place)
        self.extents.append(extent)
        if until == FOREVER:
            self.next.append(-1)
        else:
            self.next.append(self.dying[until])
            self.dying[until] = record
        return record

    def release(self, i: int) -> None:
        """Free the memory of values whose last use is node `i`."""
        record = self.dying[i]
        while record >= 0:
            self.free.setdefault(self.extents[record], []).append(self.begins[record])
            record = self.next[record]

    def constant(self, value: np.ndarray) -> int:
        """Place of an array that stays as it is."""
        place = self.take(extent_of(value.size * (2 if value.dtype.kind == "c" else 1)))
        self.constants.append((place, value))
        return place

    def make(self, i: int, layout: Layout, slack: int = 0) -> int:
        """Allocate the value of node `i`, with `slack` more slots for overhanging vectors."""
        extent = extent_of(layout.slots + slack)
        place = self.take(extent)
        self.places[i], self.layouts[i] = place, layout
        self.record[i] = self.enter(place, extent, self.last[i])
        return place

    def inherit(self, i: int, a: int) -> bool:
        """Give node `i` the memory of its operand `a`, if nobody reads that any more."""
        owner, layout = self.owners[a], self.layouts[a]
        record = self.record[owner]
        if self.last[owner] != i or record < 0 or layout is None or not layout.dense:
            return False
        begin, extent = self.begins[record], self.extents[record]
        self.extents[record] = 0  # nothing is freed with the operand
        self.record[i] = self.enter(begin, extent, self.last[i])
        self.places[i], self.layouts[i] = self.places[a], layout
        return True

    # --- instructions ---------------------------------------------------------------------------

    def emit(self, name: str, *fields: int) -> None:
        """One more instruction that is not elementwise; the fields are `interpreter.FIELDS`."""
        number = self.opcodes.numbers[name, (), ""]
        self.code.extend((number, *fields, *(0,) * (7 - len(fields))))

    def row(self, numbers: tuple[int, ...]) -> int:
        """Where these numbers lie in the table of further numbers."""
        at = self.rows.get(numbers)
        if at is None:
            at = self.rows[numbers] = len(self.extra)
            self.extra.extend(numbers)
        return at

    def copy(
        self, shape: Shape, target: tuple[int, tuple[int, ...]], source: tuple[int, tuple[int, ...]]
    ) -> bool:
        """Copy entries between places with steps; whether that can be done in so few loops."""
        loops = joined_axes(shape, source[1], target[1])
        numbers = columns(loops, RANK, 2)
        if numbers is None:
            return False
        if 0 in shape:
            return True
        if not loops:
            self.emit("move", 1, target[0], source[0])
        elif len(loops) == 1 and loops[0][1:] == (1, 1):
            self.emit("move", loops[0][0], target[0], source[0])
        elif len(loops) == 1 and loops[0][1:] == (0, 1):
            self.emit("fill", loops[0][0], target[0], source[0])
        else:
            self.emit("copy", 0, target[0], source[0], 0, 0, 0, self.row(tuple(numbers)))
        return True

    def dense(self, a: int, shape: Shape | None = None) -> int:
        """Where the entries of node `a`, broadcast to `shape`, lie side by side in order."""
        layout = self.layouts[a]
        assert layout is not None
        shape = layout.shape if shape is None else shape
        if layout.dense and layout.shape == shape:
            return self.places[a]
        place = self.copies.get((a, shape))
        if place is None:
            dtype, size = layout.dtype, int(np.prod(shape))
            place = self.lend(extent_of(size * width(dtype)), self.last[a])
            slots, source = by_slots(shape, spread(layout, shape), dtype)
            if not self.copy(slots, (place, row_major(slots)), (self.places[a], source)):
                raise RefusedError(f"an array of too many axes, {layout.shape}")
            self.copies[a, shape] = place
        return place

    def call_numpy(self, i: int, node: Node) -> None:
        """Let NumPy compute node `i`."""
        self.cut()
        bound = partial(node.primitive.rules.evaluate, **dict(node.params))
        reads = tuple((self.places[a], self.layout(a)) for a in node.args)
        gives: list[Value] = []
        for type_ in node.types:
            layout = in_order(type_)
            assert layout is not None
            gives.append((self.lend(extent_of(layout.slots), self.last[i]), layout))
        self.places[i], self.layouts[i] = gives[0]
        if len(gives) > 1:
            self.items[i] = tuple(gives)
        self.steps.append(NumpyStep(node.primitive.name, bound, reads, tuple(gives)))

    def layout(self, a: int) -> Layout:
        layout = self.layouts[a]
        assert layout is not None
        return layout

    def cut(self) -> None:
        """End the run of instructions here."""
        if len(self.code) // 8 > self.done:
            self.steps.append(InstructionRange(self.done, len(self.code) // 8))
            self.done = len(self.code) // 8


def extent_of(size: int) -> int:
    """The number of slots for `size` entries; vectors are padded."""
    return 1 if size == 1 else -(-size // PADDED) * PADDED
