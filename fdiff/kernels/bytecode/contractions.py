"""Products summed over shared axes, as loops over the result and over the summed axes.

Operands are copied where their rows then lie side by side: packing, as in K. Goto and R. A. van de
Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008, figure 8.
"""

from __future__ import annotations

from math import prod

from ...named_tuples import NamedTuple
from ...tape import Node
from .assembler import Assembler, Lowering, Piece, extent_of
from .opcode_bodies import RANK
from .opcodes import PADDED
from .workspace_layout import Layout, columns, in_order, joined_axes, laid, row_major

SHORT = (1, 2, 3, 4)  # sums of so many terms have an opcode each
WIDE = 16  # rows as long as that are worth a copy of an operand in which they lie side by side
PANEL = 3072  # numbers
Loops = list[tuple[int, ...]]


class _Side(NamedTuple):
    """An operand or the result: its labels, and how it lies."""

    labels: str
    layout: Layout

    def steps(self, names: str) -> tuple[int, ...]:
        """Steps along axes of these names, 0 along those it has not."""
        at = dict(zip(self.labels, self.layout.steps, strict=True))
        return tuple(at.get(x, 0) for x in names)

    def ordered(self, names: str) -> _Side:
        """A side whose axes lie in memory in the order of `names`."""
        size = dict(zip(self.labels, self.layout.shape, strict=True))
        names = "".join(x for x in names if x in self.labels)
        at = dict(zip(names, row_major(tuple(size[x] for x in names)), strict=True))
        steps = tuple(at[x] for x in self.labels)
        return self._replace(layout=laid(self.layout.shape, steps, self.layout.dtype))


def contraction(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    """The lowering of a product of numbers; None for more axes than there are loops."""
    layout = in_order(node.type)
    assert layout is not None
    if layout.dtype != "f8":
        return None
    inputs, labels = str(dict(node.params)["subscripts"]).split("->")
    left, right = (_Side(*pair) for pair in zip(inputs.split(","), sources, strict=True))
    return _rows(left, right, _Side(labels, layout)) or _direct(left, right, _Side(labels, layout))


def _direct(left: _Side, right: _Side, out: _Side) -> Lowering | None:
    """Operands where they are."""
    outer, inner = _loops(out.labels, left, right, out)
    flip = outer[-1][1] == 1 and outer[-1][2] == 0
    if flip:  # the second operand is the one whose entries lie side by side
        outer = [(n, y, x, o) for n, x, y, o in outer]
        inner = [(n, y, x) for n, x, y in inner]
    instruction = _instruction(outer, inner)
    if instruction is None:
        return None
    opcode, numbers = instruction

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        first, second = (assembler.places[x] for x in (node.args[::-1] if flip else node.args))
        place = assembler.make(i, out.layout)
        assembler.emit(opcode, 0, place, first, second, 0, 0, assembler.row(numbers))

    return lowering


def _rows(left: _Side, right: _Side, out: _Side) -> Lowering | None:
    """A product of matrices: rows of the second operand are added up to rows of the result."""
    size = dict(
        zip(left.labels + right.labels, left.layout.shape + right.layout.shape, strict=False)
    )
    stack = "".join(x for x in out.labels if x in left.labels and x in right.labels)
    rows = "".join(x for x in out.labels if x not in right.labels)
    row = "".join(x for x in out.labels if x not in left.labels)
    summed = "".join(x for x in right.labels if x not in out.labels)
    count, width, terms = (prod(size[x] for x in names) for names in (rows, row, summed))
    if count < PADDED or width < WIDE or terms in SHORT:
        return None
    source, packed = right, right.ordered(stack + summed + row)
    result = out.ordered(stack + rows + row)
    outer, inner = _loops(stack + rows + row, left, packed, result)
    outer = _panels(outer, terms)
    instruction = _instruction(outer, inner)
    copied = Piece(source.layout, 0, packed.layout.steps)
    if instruction is None or not copied.copyable:
        return None
    opcode, numbers = instruction

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        a, b = node.args
        second = assembler.places[b]
        if packed.layout is not source.layout:
            second = assembler.lend(extent_of(packed.layout.size), i)
            copied.copy(assembler, second, assembler.places[b])
        place = assembler.make(i, result.layout)
        assembler.emit(opcode, 0, place, assembler.places[a], second, 0, 0, assembler.row(numbers))

    return lowering


def _panels(outer: Loops, terms: int) -> Loops:
    """Rows in parts so short that one of every summed row stays in the first cache."""
    length, *steps = outer[-1]
    parts = next(
        (k for k in range(1, length) if length % k == 0 and length // k * terms <= PANEL), 1
    )
    if parts == 1 or length // parts < WIDE or len(outer) == RANK:
        return outer
    part = length // parts
    return [(parts, *(part * step for step in steps)), *outer[:-1], (part, *steps)]


def _loops(order: str, left: _Side, right: _Side, out: _Side) -> tuple[Loops, Loops]:
    """Loops over the result in that order (length, steps of operands and result), and over sums."""
    sizes = dict(
        zip(left.labels + right.labels, left.layout.shape + right.layout.shape, strict=True)
    )
    summed = "".join(x for x in left.labels if x not in order)
    steps = [side.steps(order) for side in (left, right, out)]
    outer = joined_axes(tuple(sizes[x] for x in order), *steps) or [(1, 0, 0, 1)]
    inner = joined_axes(tuple(sizes[x] for x in summed), *[s.steps(summed) for s in (left, right)])
    return outer, inner


def _instruction(outer: Loops, inner: Loops) -> tuple[str, tuple[int, ...]] | None:
    """Opcode and further numbers; None for more loops than there are."""
    lengths, sums = columns(outer, RANK, 3), columns(inner, 2, 2)
    if lengths is None or sums is None:
        return None
    terms = prod(n for n, *_ in inner)
    if len(inner) <= 1 and terms in SHORT:
        return f"product {terms}", (*lengths, *sums)
    if outer[-1][1:] == (0, 1, 1) and outer[-1][0] >= PADDED:
        return "product rows", (*lengths, *sums)
    return "product dot" if inner[-1][1:] == (1, 1) else "product", (*lengths, *sums)
