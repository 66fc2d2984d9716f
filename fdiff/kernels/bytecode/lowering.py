"""Instructions of each op, by parameters and layouts: docs/decisions/bytecode-interpreter.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from math import prod

from ...arraytype import Shape, broadcast
from ...kernel_rule import Kind
from ...tape import Node
from .assembler import Assembler, Lowering, Piece, extent_of
from .contractions import contraction
from .opcodes import PADDED
from .workspace_layout import Layout, in_order, laid, row_major

LoweringRule = Callable[[Node, tuple[Layout, ...]], Lowering | None]


def blocks(size: int) -> int:
    """The number of vectors that hold `size` entries."""
    return -(-size // PADDED)


def result(node: Node) -> Layout:
    layout = in_order(node.type)
    assert layout is not None
    return layout


# --- reductions and scans -----------------------------------------------------------------------


def _split(shape: Shape, axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Entries before, along and after axes that lie side by side; None if they do not."""
    axes = tuple(a for a in axes if shape[a] != 1)
    if not axes:
        return prod(shape), 1, 1
    first, last = min(axes), max(axes)
    if any(shape[a] != 1 for a in range(first, last + 1) if a not in axes):
        return None
    return prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :])


# The reduction of truth values that each is.
_OF_TRUTH = {
    Kind.SUM: Kind.ANY, Kind.MAX: Kind.ANY, Kind.ANY: Kind.ANY,
    Kind.PROD: Kind.ALL, Kind.MIN: Kind.ALL, Kind.ALL: Kind.ALL,
}  # fmt: skip


def reduction(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    (source,) = sources
    kind, out = node.primitive.kind, result(node)
    axes = dict(node.params)["axes"]
    assert isinstance(axes, tuple)
    assert kind is not None
    kind = _OF_TRUTH[kind] if source.dtype == "b1" else kind
    if kind in (Kind.ANY, Kind.ALL) and source.dtype != "b1":
        return None
    parts, moved = _split(source.shape, axes), None
    if parts is None:  # axes that are not adjacent: of a copy in which they are the last
        order = (*(a for a in range(len(source.shape)) if a not in axes), *axes)
        shape, steps = (tuple(of[a] for a in order) for of in (source.shape, source.steps))
        moved = Piece(laid(shape, steps, source.dtype), 0, row_major(shape))
        parts = out.size, prod(source.shape[a] for a in axes), 1
        if not moved.copyable:
            return None
    outer, along, inner = parts
    opcode = f"{kind} {'f8' if source.dtype == 'f8' else 'i8'}"

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        if moved is None:
            place = assembler.dense(node.args[0])
        else:
            place = assembler.lend(extent_of(source.size), i)
            moved.copy(assembler, place, assembler.places[node.args[0]])
        assembler.emit(opcode, outer, assembler.make(i, out), place, along, inner)

    return lowering


def along_axis(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    """Positions of extrema, and scans."""
    params, kind, source = dict(node.params), node.primitive.kind, sources[0]
    assert kind is not None
    recurrence = kind is Kind.RECURRENCE
    if kind.is_scan and (source.dtype == "b1" or (recurrence and source.dtype != "f8")):
        return None
    parts = _split(source.shape, (params["axis"],))
    assert parts is not None
    outer, along, inner = parts
    opcode = kind.value if recurrence else f"{kind} {'f8' if source.dtype == 'f8' else 'i8'}"
    out, backwards = result(node), int(bool(params.get("reverse")))

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        places = [assembler.dense(a) for a in node.args]
        second = places[1] if len(places) > 1 else along
        row = assembler.row((along,)) if len(places) > 1 else 0
        assembler.emit(
            opcode, outer, assembler.make(i, out), places[0], second, inner, backwards, row
        )

    return lowering


# --- operands at places of the result: joins, slices put back, stores ---------------------------


def _pieces(node: Node, sources: tuple[Layout, ...], out: Layout) -> list[Piece]:
    """The operands that are copied into the result; the last ones, where others are not."""
    params = dict(node.params)
    if node.primitive.kind is Kind.CONCATENATE:
        axis = params["axis"]
        ends = accumulate((s.shape[axis] for s in sources), initial=0)
        starts = zip(sources, ends, strict=False)
        return [Piece(s, start * out.steps[axis], out.steps) for s, start in starts]
    begin = sum(a * s for a, s in zip(params["starts"], out.steps, strict=True))
    steps = tuple(a * s for a, s in zip(params["steps"], out.steps, strict=True))
    return [Piece(sources[-1], begin if sources[-1].size else 0, steps)]


def placement(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    """A join, a slice put back among zeros, or a store into a slice."""
    kind, out = node.primitive.kind, result(node)
    pieces = _pieces(node, sources, out)
    base = [Piece(sources[0], 0, out.steps)] if kind is Kind.UPDATE else []
    if not all(piece.copyable for piece in (*base, *pieces)):
        return None
    some = any(piece.source.size > 1 for piece in pieces)
    in_a_row = some and not base and all(piece.contiguous for piece in pieces)

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        if base:
            place = _inherited(assembler, i, node)
        else:
            place = assembler.make(i, out, PADDED if in_a_row else 0)
        moved = [assembler.places[a] for a in node.args[len(base) :]]
        if in_a_row:
            _move_in_a_row(assembler, place, out.size, zip(pieces, moved, strict=True))
            return
        if kind is Kind.UNSLICE:
            assembler.emit("fill", out.size, place, assembler.zero)
        for piece, at in zip(pieces, moved, strict=True):
            piece.copy(assembler, place, at)

    return lowering


def _move_in_a_row(
    assembler: Assembler, place: int, size: int, pieces: Iterable[tuple[Piece, int]]
) -> None:
    """Contiguous pieces, each copied to its place in the result, and zeros between them.

    Whole vectors are moved: the next piece overwrites the garbage after a piece.
    """
    end = 0
    for piece, at in pieces:
        begin, length = piece.begin, piece.source.size
        if not length:  # it stands nowhere: what begins there may be written already
            continue
        if begin > end:
            assembler.emit("fill", begin - end, place + end, assembler.zero)
        if length > 1:
            assembler.emit("move padded", blocks(length), place + begin, at)
        else:
            piece.copy(assembler, place, at)
        end = begin + length
    if size > end:
        assembler.emit("fill", size - end, place + end, assembler.zero)


def _inherited(assembler: Assembler, i: int, node: Node) -> int:
    """Memory of node `i` with the content of its first operand: the operand's own if free."""
    x, *others = node.args
    shared = any(assembler.owners[a] == assembler.owners[x] for a in others)
    if not shared and assembler.inherit(i, x):
        return assembler.places[i]
    out = result(node)
    place = assembler.make(i, out)
    Piece(assembler.layout(x), 0, out.steps).copy(assembler, place, assembler.places[x])
    return place


# --- index arrays -------------------------------------------------------------------------------


def _indexed(
    assembler: Assembler, indices: tuple[int, ...], base: int, axes: Layout
) -> tuple[int, ...]:
    """Numbers an instruction needs of index arrays for the leading axes of something at `base`."""
    lead = broadcast(*(assembler.layout(a).shape for a in indices))
    numbers: list[int] = []
    for k, a in enumerate(indices):
        numbers += [assembler.dense(a, lead), axes.shape[k], axes.steps[k]]
    return (*numbers, base)


def _fits(indices: tuple[Layout, ...]) -> bool:
    return all(i.dtype == "i8" for i in indices)


def gather(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    x, *indices = sources
    out, count = result(node), len(indices)
    if not _fits(tuple(indices)):
        return None
    rest = x.shape[count:]
    straight = x.steps[count:] == row_major(rest) or prod(rest) == 1
    axes = x if straight else laid(x.shape, row_major(x.shape), x.dtype)
    lead = prod(broadcast(*(i.shape for i in indices)))

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        base = assembler.places[node.args[0]] if straight else assembler.dense(node.args[0])
        row = assembler.row(_indexed(assembler, node.args[1:], base, axes))
        assembler.emit("gather", lead, assembler.make(i, out), 0, count, prod(rest), 0, row)

    return lowering


def scatter(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    """Entries added to zeros, or stored into the first operand, at places that are looked up."""
    add, out = node.primitive.kind is Kind.SCATTER_ADD, result(node)
    bar, *indices = sources if add else sources[1:]
    lead = broadcast(*(index.shape for index in indices))
    rest = out.shape[len(indices) :]
    shape = (*lead, *rest)
    if not _fits(tuple(indices)) or broadcast(bar.shape, shape) != shape:
        return None
    if add and bar.dtype == "b1":
        return None
    if not add and not Piece(sources[0], 0, out.steps).copyable:
        return None

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        values, *at = node.args if add else node.args[1:]
        if add:
            place = assembler.make(i, out)
            assembler.emit("fill", out.size, place, assembler.zero)
        else:
            place = _inherited(assembler, i, node)
        row = assembler.row(_indexed(assembler, tuple(at), place, out))
        source = assembler.dense(values, shape)
        name = f"scatter_add {bar.dtype}" if add else "scatter_set"
        assembler.emit(name, prod(lead), source, 0, len(indices), prod(rest), 0, row)

    return lowering


LOWERING_RULES: dict[Kind, LoweringRule] = {
    **dict.fromkeys((k for k in Kind if k.is_reduction), reduction),
    **dict.fromkeys((k for k in Kind if k.is_extremum or k.is_scan), along_axis),
    **dict.fromkeys((Kind.CONCATENATE, Kind.UNSLICE, Kind.UPDATE), placement),
    Kind.GATHER: gather,
    **dict.fromkeys((Kind.SCATTER_ADD, Kind.SCATTER_SET), scatter),
    Kind.CONTRACT: contraction,
}
