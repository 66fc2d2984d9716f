"""How each op becomes instructions, by its parameters and the layouts of its operands."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...arraytype import Shape, broadcast
from ...kernel_rule import Kind
from ...tape import Node
from .assembler import Assembler, Lowering, room_of
from .contractions import contraction
from .layout import Layout, columns, in_order, joined, laid, row_major
from .opcode_bodies import RANK
from .opcodes import PADDED

LoweringRule = Callable[[Node, tuple[Layout, ...]], Lowering | None]


def blocks(size: int) -> int:
    """How many times so many entries fill a vector."""
    return -(-size // PADDED)


def result(node: Node) -> Layout:
    layout = in_order(node.type)
    assert layout is not None
    return layout


# --- reductions and scans -----------------------------------------------------------------------


def _split(shape: Shape, axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Entries before, along and behind axes that lie side by side; None if they do not."""
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
    parts = _split(source.shape, axes)
    opcode = f"{kind} {'f8' if source.dtype == 'f8' else 'i8'}"
    if parts is None:
        return _turned_reduction(opcode, source, axes, out)
    outer, along, inner = parts

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        place = assembler.dense(node.args[0])
        assembler.emit(opcode, outer, assembler.make(i, out), place, along, inner)

    return lowering


def _turned_reduction(
    opcode: str, source: Layout, axes: tuple[int, ...], out: Layout
) -> Lowering | None:
    """Over axes that lie apart: of a copy in which they are the last."""
    kept = tuple(a for a in range(len(source.shape)) if a not in axes)
    order = (*kept, *axes)
    shape = tuple(source.shape[a] for a in order)
    steps = tuple(source.steps[a] for a in order)
    along = prod(source.shape[a] for a in axes)
    if columns(joined(shape, steps, row_major(shape)), RANK, 2) is None:
        return None

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        place = assembler.lend(room_of(source.size), i)
        assembler.copy(shape, (place, row_major(shape)), (assembler.places[node.args[0]], steps))
        assembler.emit(opcode, out.size, assembler.make(i, out), place, along, 1)

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


# --- joining, slices put back, stores -----------------------------------------------------------


def _moved(node: Node, pieces: list[tuple[Layout, int, tuple[int, ...]]]) -> bool:
    """Whether every piece can be copied to its place, given by where it begins and its steps."""
    return all(
        columns(joined(p.shape, p.steps, steps), RANK, 2) is not None for p, _, steps in pieces
    )


def concatenation(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    axis, out = dict(node.params)["axis"], result(node)
    assert isinstance(axis, int)
    starts = np.cumsum([0, *(s.shape[axis] for s in sources)])[:-1]
    pieces = [
        (s, int(k) * out.steps[axis], out.steps) for s, k in zip(sources, starts, strict=True)
    ]
    if not _moved(node, pieces):
        return None
    padded = prod(out.shape[:axis]) == 1 and all(s.dense for s in sources)

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        place = assembler.make(i, out, PADDED if padded else 0)
        for a, (source, begin, steps) in zip(node.args, pieces, strict=True):
            if padded and source.size > 1:  # each next one writes over what hangs over
                assembler.emit(
                    "move padded", blocks(source.size), place + begin, assembler.places[a]
                )
            else:
                target = (place + begin, steps)
                assembler.copy(source.shape, target, (assembler.places[a], source.steps))

    return lowering


def _window(node: Node, part: Layout, out: Layout) -> tuple[int, tuple[int, ...]]:
    """Where a slice begins and its steps."""
    params = dict(node.params)
    starts, steps = params["starts"], params["steps"]
    begin = sum(a * s for a, s in zip(starts, out.steps, strict=True)) if part.size else 0
    return begin, tuple(a * s for a, s in zip(steps, out.steps, strict=True))


def unslice(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    (part,), out = sources, result(node)
    begin, steps = _window(node, part, out)
    if not _moved(node, [(part, begin, steps)]):
        return None
    loops = joined(part.shape, part.steps, steps)
    side_by_side = part.size > 1 and len(loops) == 1 and loops[0][1:] == (1, 1)

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        place = assembler.make(i, out, PADDED if side_by_side else 0)
        source = assembler.places[node.args[0]]
        if not side_by_side:
            assembler.emit("fill", out.size, place, assembler.zero)
            assembler.copy(part.shape, (place + begin, steps), (source, part.steps))
            return
        if begin:
            assembler.emit("fill", begin, place, assembler.zero)
        assembler.emit("move padded", blocks(part.size), place + begin, source)
        rest = out.size - begin - part.size
        if rest:
            assembler.emit("fill", rest, place + begin + part.size, assembler.zero)

    return lowering


def _kept(assembler: Assembler, i: int, node: Node) -> int:
    """Memory of node `i` with what its first operand holds: that operand's own if it is free."""
    x, *others = node.args
    shared = any(assembler.owners[a] == assembler.owners[x] for a in others)
    if not shared and assembler.inherit(i, x):
        return assembler.places[i]
    source, out = assembler.layout(x), result(node)
    place = assembler.make(i, out)
    if not assembler.copy(out.shape, (place, out.steps), (assembler.places[x], source.steps)):
        dense = assembler.dense(x)
        assembler.emit("move", out.size, place, dense)
    return place


def update(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    whole, part = sources
    out = result(node)
    begin, steps = _window(node, part, out)
    if not _moved(node, [(part, begin, steps), (whole, 0, out.steps)]):
        return None

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        source = assembler.places[node.args[1]]
        assembler.copy(part.shape, (_kept(assembler, i, node) + begin, steps), (source, part.steps))

    return lowering


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


def _scattered(
    name: str, node: Node, bar: Layout, indices: tuple[Layout, ...]
) -> Callable[[Assembler, int, int, tuple[int, ...]], None] | None:
    """Entries of `bar` put at places of the result; None for shapes that are not expected."""
    out, count = result(node), len(indices)
    lead = broadcast(*(i.shape for i in indices))
    shape = (*lead, *out.shape[count:])
    if not _fits(indices) or broadcast(bar.shape, shape) != shape:
        return None

    def emit(assembler: Assembler, place: int, values: int, at: tuple[int, ...]) -> None:
        row = assembler.row(_indexed(assembler, at, place, out))
        source = assembler.dense(values, shape)
        assembler.emit(name, prod(lead), source, 0, count, prod(out.shape[count:]), 0, row)

    return emit


def scatter_add(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    bar, *indices = sources
    if bar.dtype == "b1":
        return None
    emit, out = _scattered(f"scatter_add {bar.dtype}", node, bar, tuple(indices)), result(node)
    if emit is None:
        return None

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        place = assembler.make(i, out)
        assembler.emit("fill", out.size, place, assembler.zero)
        emit(assembler, place, node.args[0], node.args[1:])

    return lowering


def scatter_set(node: Node, sources: tuple[Layout, ...]) -> Lowering | None:
    emit = _scattered("scatter_set", node, sources[1], sources[2:])
    if emit is None or not _moved(node, [(sources[0], 0, result(node).steps)]):
        return None

    def lowering(assembler: Assembler, i: int, node: Node) -> None:
        place = _kept(assembler, i, node)
        emit(assembler, place, node.args[1], node.args[2:])

    return lowering


LOWERING_RULES: dict[Kind, LoweringRule] = {
    **dict.fromkeys((k for k in Kind if k.is_reduction), reduction),
    **dict.fromkeys((k for k in Kind if k.is_extremum or k.is_scan), along_axis),
    Kind.CONCATENATE: concatenation,
    Kind.UNSLICE: unslice,
    Kind.UPDATE: update,
    Kind.GATHER: gather,
    Kind.SCATTER_ADD: scatter_add,
    Kind.SCATTER_SET: scatter_set,
    Kind.CONTRACT: contraction,
}
