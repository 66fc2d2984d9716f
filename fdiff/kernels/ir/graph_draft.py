"""Kernel graphs in the making, and which entries slices and stores of a tape are about."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import fdiff.intact_numpy as np

from ...arraytype import Shape
from ...kernel_rule import Kind
from ...lazy_attributes import cached_property
from ...tape import Node, Tape
from .index_expressions import Slices, part, plus
from .kernel_graph import KernelGraph, Operation, SliceParameters
from .small_sizes import MOST_LITERAL, MOST_LITERAL_STEP, SMALL, small_sizes
from .stored_entries import MOST_COMPARED, StoredEntries

_LARGE = 4  # a store of a quarter of an array is a large one


@dataclass
class Draft:
    """A graph in the making: its operations, and the tables for what it leaves out.

    That of a body, which has some `carries`, shares the tables of the whole kernel. There sizes are
    components up to 4, and literals up to 64: their loops stand inside of all trips.
    """

    tape: Tape
    layouts: tuple[str, ...]
    symbols: dict[tuple[int, bool], str] = field(default_factory=dict)  # of sizes, literals apart
    carries: int = -1
    ints: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    owners: list[object] = field(default_factory=list)
    ops: list[Operation] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    literals: dict[Operation, int] = field(default_factory=dict)
    regions: dict[tuple[object, ...], Slices] = field(default_factory=dict)
    shifts: dict[tuple[int, int, int], str] = field(default_factory=dict)
    bodies: dict[tuple[Tape, int], KernelGraph] = field(default_factory=dict)  # of the whole kernel

    @property
    def is_body(self) -> bool:
        return self.carries >= 0

    @cached_property
    def small(self) -> frozenset[int]:
        return SMALL if self.is_body else small_sizes(self.tape)

    @cached_property
    def stores(self) -> StoredEntries:
        return StoredEntries(self.tape)

    @cached_property
    def above(self) -> dict[int, int]:
        """The store into each array; -1 where there are several."""
        out: dict[int, int] = {}
        for i, node in enumerate(self.tape.nodes):
            if node.primitive.kind is Kind.UPDATE:
                out[node.args[0]] = -1 if node.args[0] in out else i
        return out

    def add(self, op: Operation) -> int:
        self.ops.append(op)
        return len(self.ops) - 1

    def dim(self, n: int) -> str:
        if n == 1 or n in self.small:
            return str(n)
        literal = self.is_body and n <= MOST_LITERAL
        return self.symbols.setdefault((n, literal), f"n{len(self.symbols)}")

    def dims(self, shape: Shape) -> tuple[str, ...]:
        return tuple([self.dim(n) for n in shape])

    def integer(self, value: int) -> str:
        self.ints.append(value)
        return f"m{len(self.ints) - 1}"

    def shift(self, start: int, n: int, full: int) -> str:
        """Where a slice begins: one name for equal slices of more than half of an axis.

        A slice of a stencil and the adjoint of it are then known to read the same entries.
        """
        if 2 * n <= full:
            return self.integer(start)
        if (start, n, full) not in self.shifts:
            self.shifts[start, n, full] = self.integer(start)
        return self.shifts[start, n, full]

    def real(self, value: float) -> str:
        self.floats.append(value)
        return f"f{len(self.floats) - 1}"


def stored_slice(draft: Draft, i: int, node: Node, starts: Shape, steps: Shape) -> SliceParameters:
    """The entries stored into, by the same names for each store there into one array."""
    base, inner = node.args[0], draft.tape.nodes[node.args[1]].type.shape
    key = (base, starts, steps, inner)
    if key not in draft.regions:
        literal = draft.stores.side_by_side(i)
        draft.regions[key] = slices(draft, starts, steps, node.type.shape, inner, literal=literal)
    large = _LARGE * math.prod(inner) >= node.type.size
    return SliceParameters(draft.regions[key], *draft.stores.of(i), large=large)


def disjoint_stores_above(draft: Draft, node: Node, starts: Shape, steps: Shape) -> int:
    """How many stores into the array that is read, one upon the other, are of other entries."""
    count, above = 0, draft.above.get(node.args[0], -1)
    while count < MOST_COMPARED and above >= 0:
        if not draft.stores.misses(above, node.type.shape, starts=starts, steps=steps):
            break
        count, above = count + 1, draft.above.get(above, -1)
    return count


def slices(
    draft: Draft, starts: Shape, steps: Shape, outer: Shape, inner: Shape, *, literal: bool = False
) -> Slices:
    """Per axis ``(start, step)`` as text; ``("0", "1")`` for an axis that is taken whole.

    In bodies, positions along axes of literal sizes are literals: LLVM sees which slices have no
    entry in common. With `literal`, small steps are numbers, not entries of a table, and so is
    where slices begin between each other: LLVM then stores the entries of several at once.
    """
    out: list[tuple[str, str]] = []
    for start, step, n, full in zip(starts, steps, inner, outer, strict=True):
        if n == full and (n <= 1 or (start == 0 and step == 1)):
            out.append(("0", "1"))
            continue
        if full in draft.small or (draft.is_body and full <= MOST_LITERAL):
            begin = str(int(start) if n else 0), str(int(step) if n > 1 else 1)
            out.append(begin if full in draft.small else part(*begin))
            continue
        is_text = n <= 1 or step in (1, -1) or (literal and 1 < step <= MOST_LITERAL_STEP)
        text = ("1" if n <= 1 else str(int(step))) if is_text else draft.integer(int(step))
        begin = int(start) if n else 0
        if is_text and text not in ("1", "-1"):
            out.append((plus(draft.shift(begin - begin % step, n, n), str(begin % step)), text))
        else:
            out.append((draft.shift(begin, n, full) if text == "1" else draft.integer(begin), text))
    return tuple(out)
