"""How each op becomes instructions: a plan for its parameters and the layouts of its operands."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...arraytype import Shape, broadcast
from ...kernel_rule import Kind
from ...tape import Node
from .assembler import Encoder, Plan, room_of
from .contractions import contraction
from .layout import Layout, columns, in_order, joined, laid, row_major
from .opcode_bodies import RANK
from .opcodes import PADDED

Maker = Callable[[Node, tuple[Layout, ...]], Plan | None]


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


def reduction(node: Node, sources: tuple[Layout, ...]) -> Plan | None:
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

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        place = encoder.dense(node.args[0])
        encoder.put(opcode, outer, encoder.make(i, out), place, along, inner)

    return plan


def _turned_reduction(
    opcode: str, source: Layout, axes: tuple[int, ...], out: Layout
) -> Plan | None:
    """Over axes that lie apart: of a copy in which they are the last."""
    kept = tuple(a for a in range(len(source.shape)) if a not in axes)
    order = (*kept, *axes)
    shape = tuple(source.shape[a] for a in order)
    steps = tuple(source.steps[a] for a in order)
    along = prod(source.shape[a] for a in axes)
    if columns(joined(shape, steps, row_major(shape)), RANK, 2) is None:
        return None

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        place = encoder.lend(room_of(source.size), i)
        encoder.copy(shape, (place, row_major(shape)), (encoder.places[node.args[0]], steps))
        encoder.put(opcode, out.size, encoder.make(i, out), place, along, 1)

    return plan


def along_axis(node: Node, sources: tuple[Layout, ...]) -> Plan | None:
    """Positions of extrema, and scans."""
    params, kind, source = dict(node.params), node.primitive.kind, sources[0]
    assert kind is not None
    recurrence = kind is Kind.RECURRENCE
    if kind.is_scan and (source.dtype == "b1" or (recurrence and source.dtype != "f8")):
        return None
    parts = _split(source.shape, (params["axis"],))  # type: ignore[arg-type] - parameters are objects to the checker
    assert parts is not None
    outer, along, inner = parts
    opcode = kind.value if recurrence else f"{kind} {'f8' if source.dtype == 'f8' else 'i8'}"
    out, backwards = result(node), int(bool(params.get("reverse")))

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        places = [encoder.dense(a) for a in node.args]
        second = places[1] if len(places) > 1 else along
        row = encoder.row((along,)) if len(places) > 1 else 0
        encoder.put(opcode, outer, encoder.make(i, out), places[0], second, inner, backwards, row)

    return plan


# --- joining, slices put back, stores -----------------------------------------------------------


def _moved(node: Node, pieces: list[tuple[Layout, int, tuple[int, ...]]]) -> bool:
    """Whether every piece can be copied to its place, given by where it begins and its steps."""
    return all(
        columns(joined(p.shape, p.steps, steps), RANK, 2) is not None for p, _, steps in pieces
    )


def concatenation(node: Node, sources: tuple[Layout, ...]) -> Plan | None:
    axis, out = dict(node.params)["axis"], result(node)
    assert isinstance(axis, int)
    starts = np.cumsum([0, *(s.shape[axis] for s in sources)])[:-1]
    pieces = [
        (s, int(k) * out.steps[axis], out.steps) for s, k in zip(sources, starts, strict=True)
    ]
    if not _moved(node, pieces):
        return None
    padded = prod(out.shape[:axis]) == 1 and all(s.dense for s in sources)

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        place = encoder.make(i, out, PADDED if padded else 0)
        for a, (source, begin, steps) in zip(node.args, pieces, strict=True):
            if padded and source.size > 1:  # each next one writes over what hangs over
                encoder.put("move padded", blocks(source.size), place + begin, encoder.places[a])
            else:
                target = (place + begin, steps)
                encoder.copy(source.shape, target, (encoder.places[a], source.steps))

    return plan


def _window(node: Node, part: Layout, out: Layout) -> tuple[int, tuple[int, ...]]:
    """Where a slice begins and its steps."""
    params = dict(node.params)
    starts, steps = params["starts"], params["steps"]
    begin = sum(a * s for a, s in zip(starts, out.steps, strict=True)) if part.size else 0  # type: ignore[call-overload] - laid out before it is read
    return begin, tuple(a * s for a, s in zip(steps, out.steps, strict=True))  # type: ignore[call-overload] - laid out before it is read


def unslice(node: Node, sources: tuple[Layout, ...]) -> Plan | None:
    (part,), out = sources, result(node)
    begin, steps = _window(node, part, out)
    if not _moved(node, [(part, begin, steps)]):
        return None
    loops = joined(part.shape, part.steps, steps)
    side_by_side = part.size > 1 and len(loops) == 1 and loops[0][1:] == (1, 1)

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        place = encoder.make(i, out, PADDED if side_by_side else 0)
        source = encoder.places[node.args[0]]
        if not side_by_side:
            encoder.put("fill", out.size, place, encoder.zero)
            encoder.copy(part.shape, (place + begin, steps), (source, part.steps))
            return
        if begin:
            encoder.put("fill", begin, place, encoder.zero)
        encoder.put("move padded", blocks(part.size), place + begin, source)
        rest = out.size - begin - part.size
        if rest:
            encoder.put("fill", rest, place + begin + part.size, encoder.zero)

    return plan


def _kept(encoder: Encoder, i: int, node: Node) -> int:
    """Memory of node `i` with what its first operand holds: that operand's own if it is free."""
    x, *others = node.args
    shared = any(encoder.owners[a] == encoder.owners[x] for a in others)
    if not shared and encoder.inherit(i, x):
        return encoder.places[i]
    source, out = encoder.layout(x), result(node)
    place = encoder.make(i, out)
    if not encoder.copy(out.shape, (place, out.steps), (encoder.places[x], source.steps)):
        dense = encoder.dense(x)
        encoder.put("move", out.size, place, dense)
    return place


def update(node: Node, sources: tuple[Layout, ...]) -> Plan | None:
    whole, part = sources
    out = result(node)
    begin, steps = _window(node, part, out)
    if not _moved(node, [(part, begin, steps), (whole, 0, out.steps)]):
        return None

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        source = encoder.places[node.args[1]]
        encoder.copy(part.shape, (_kept(encoder, i, node) + begin, steps), (source, part.steps))

    return plan


# --- index arrays -------------------------------------------------------------------------------


def _indexed(
    encoder: Encoder, indices: tuple[int, ...], base: int, axes: Layout
) -> tuple[int, ...]:
    """Numbers an instruction needs of index arrays for the leading axes of something at `base`."""
    lead = broadcast(*(encoder.layout(a).shape for a in indices))
    numbers: list[int] = []
    for k, a in enumerate(indices):
        numbers += [encoder.dense(a, lead), axes.shape[k], axes.steps[k]]
    return (*numbers, base)


def _fits(indices: tuple[Layout, ...]) -> bool:
    return all(i.dtype == "i8" for i in indices)


def gather(node: Node, sources: tuple[Layout, ...]) -> Plan | None:
    x, *indices = sources
    out, count = result(node), len(indices)
    if not _fits(tuple(indices)):
        return None
    rest = x.shape[count:]
    straight = x.steps[count:] == row_major(rest) or prod(rest) == 1
    axes = x if straight else laid(x.shape, row_major(x.shape), x.dtype)
    lead = prod(broadcast(*(i.shape for i in indices)))

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        base = encoder.places[node.args[0]] if straight else encoder.dense(node.args[0])
        row = encoder.row(_indexed(encoder, node.args[1:], base, axes))
        encoder.put("gather", lead, encoder.make(i, out), 0, count, prod(rest), 0, row)

    return plan


def _scattered(
    name: str, node: Node, bar: Layout, indices: tuple[Layout, ...]
) -> Callable[[Encoder, int, int, tuple[int, ...]], None] | None:
    """Entries of `bar` put at places of the result; None for shapes that are not expected."""
    out, count = result(node), len(indices)
    lead = broadcast(*(i.shape for i in indices))
    shape = (*lead, *out.shape[count:])
    if not _fits(indices) or broadcast(bar.shape, shape) != shape:
        return None

    def put(encoder: Encoder, place: int, values: int, at: tuple[int, ...]) -> None:
        row = encoder.row(_indexed(encoder, at, place, out))
        source = encoder.dense(values, shape)
        encoder.put(name, prod(lead), source, 0, count, prod(out.shape[count:]), 0, row)

    return put


def scatter_add(node: Node, sources: tuple[Layout, ...]) -> Plan | None:
    bar, *indices = sources
    if bar.dtype == "b1":
        return None
    put, out = _scattered(f"scatter_add {bar.dtype}", node, bar, tuple(indices)), result(node)
    if put is None:
        return None

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        place = encoder.make(i, out)
        encoder.put("fill", out.size, place, encoder.zero)
        put(encoder, place, node.args[0], node.args[1:])

    return plan


def scatter_set(node: Node, sources: tuple[Layout, ...]) -> Plan | None:
    put = _scattered("scatter_set", node, sources[1], sources[2:])
    if put is None or not _moved(node, [(sources[0], 0, result(node).steps)]):
        return None

    def plan(encoder: Encoder, i: int, node: Node) -> None:
        place = _kept(encoder, i, node)
        put(encoder, place, node.args[1], node.args[2:])

    return plan


MAKERS: dict[Kind, Maker] = {
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
