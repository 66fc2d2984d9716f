"""What ops do with tangents that are parts: a rule for each that keeps them apart.

A rule gives the parts of the output, or None where all parts are to be merged for the op. Every op
of a tape of tangents is linear in them, so that zeros outside of the parts stay zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..arraytype import Shape
from ..primitive import PRIMITIVES, Primitive
from ..tape import Node
from .subscripts import parse, sizes_by_label
from .tangent_parts import (
    Box,
    TangentPart,
    TangentPartSweep,
    common,
    extent,
    full,
    seeds_of,
    volume,
)

MOST = 2  # a part that is more than one in so many entries is carried with zeros around it
Found = list[TangentPart] | None


# --- ops that move entries: parts stay as they are ----------------------------------------------


def sliced(s: TangentPartSweep, node: Node) -> Found:
    named: dict[str, Any] = dict(node.params)
    taken = list(zip(named["starts"], named["sizes"], named["steps"], strict=True))
    if any(step < 1 for _, _, step in taken):
        return None
    boxes = [(part, _box_in_slice(part.box, taken)) for part in s.parts_of(node.args[0])]
    met = [(part, box) for part, box in boxes if all(lo < hi for lo, hi in box)]
    return [_slice_of_part(s, node, part, box) for part, box in met]


def _box_in_slice(box: Box, taken: Sequence[tuple[int, int, int]]) -> Box:
    """The entries of a slice that lie in a box of its source; none where an axis is empty.

    Entry `k` of the slice is entry ``start + k * step`` of its source.
    """
    spans = zip(taken, box, strict=True)
    return tuple(
        [
            (max(0, -((start - lo) // step)), min(n, -((start - hi) // step)))
            for (start, n, step), (lo, hi) in spans
        ]
    )


def _slice_of_part(s: TangentPartSweep, node: Node, part: TangentPart, box: Box) -> TangentPart:
    """The slice of a part that has the entries `box` of the slice of all."""
    named: dict[str, Any] = dict(node.params)
    spans = zip(named["starts"], named["steps"], box, part.box, strict=True)
    starts = [start + lo * step - begin for start, step, (lo, _), (begin, _) in spans]
    params = {
        "starts": (*(0,) * part.wide, *starts),
        "sizes": (*part.lead, *extent(box)),
        "steps": (*(1,) * part.wide, *named["steps"]),
    }
    return TangentPart(s.emit.add(node.primitive, (part.node,), **params), part.seeds, box)


def unsliced(s: TangentPartSweep, node: Node) -> Found:
    named: dict[str, Any] = dict(node.params)
    if any(step != 1 for step in named["steps"]):
        return None
    return _moved(s, s.parts_of(node.args[0]), named["starts"], node.type.shape)


def _moved(
    s: TangentPartSweep, parts: Sequence[TangentPart], starts: Sequence[int], shape: Shape
) -> list[TangentPart]:
    """Parts of a piece as parts of the array it is put into; a part that fills most of that array
    is made to fill all of it.
    """
    found = []
    for part in parts:
        box = tuple([(lo + a, hi + a) for (lo, hi), a in zip(part.box, starts, strict=True)])
        emit = part._replace(box=box)
        if MOST * volume(box) > prod(shape):
            emit = s.emit.merged([emit], emit.seeds, full(shape))
        found.append(emit)
    return found


def updated(s: TangentPartSweep, node: Node) -> Found:
    named: dict[str, Any] = dict(node.params)
    base, piece = node.args
    if any(step != 1 for step in named["steps"]) or not _others_are_zero(s, node.args):
        return None
    sizes = s.type(piece).shape
    region = tuple([(a, a + n) for a, n in zip(named["starts"], sizes, strict=True)])
    found = (
        []
        if not s.moves(base)
        else [q for p in s.parts_of(base) for q in _without_region(s, node.primitive, p, region)]
    )
    if s.moves(piece):
        found += _moved(s, s.parts_of(piece), named["starts"], node.type.shape)
    return found


def _without_region(
    s: TangentPartSweep, op: Primitive, part: TangentPart, region: Box
) -> list[TangentPart]:
    """What is left of a part where a region is stored over."""
    both = common(part.box, region)
    if both is None:
        return [part]
    if both == part.box:
        return []
    nothing = s.emit.zeros((*part.lead, *extent(both)), s.emit.dtype(part.node))
    ids = (part.node, nothing)
    return [part._replace(node=s.emit.place(op, ids, part.lead, both, part.box))]


def concatenated(s: TangentPartSweep, node: Node) -> Found:
    if not _others_are_zero(s, node.args):
        return None
    named: dict[str, Any] = dict(node.params)
    axis, at, found = named["axis"], 0, []
    for arg in node.args:
        shape = s.type(arg).shape
        if s.moves(arg):
            starts = [at if k == axis else 0 for k in range(len(shape))]
            found += _moved(s, s.parts_of(arg), starts, node.type.shape)
        at += shape[axis]
    return found


def _others_are_zero(s: TangentPartSweep, args: Sequence[int]) -> bool:
    """Whether operands that do not move are zeros, as those that a derivative rule fills in."""
    return all(s.moves(a) or s.is_zero(a) for a in args)


def reshaped(s: TangentPartSweep, node: Node) -> Found:
    source, target = s.type(node.args[0]).shape, node.type.shape
    found = []
    parts = s.parts_of(node.args[0])
    if any(_boxes_of_reshape(source, target, part.box)[0] != part.box for part in parts):
        parts = s.coalesced(node.args[0])  # some have to be carried with zeros around them
    for part in parts:
        before, after = _boxes_of_reshape(source, target, part.box)
        grown = s.emit.merged([part], part.seeds, before)
        shape = (*part.lead, *extent(after))
        found.append(TangentPart(s.emit.reshaped(grown.node, shape), part.seeds, after))
    return found


def _boxes_of_reshape(source: Shape, target: Shape, box: Box) -> tuple[Box, Box]:
    """The least box around the one given that a reshape maps to a box, and that other box."""
    before, after = [*full(source)], [*full(target)]
    left = [k for k, n in enumerate(source) if n != 1]
    right = [k for k, n in enumerate(target) if n != 1]
    while left:
        here, there = [left.pop(0)], [right.pop(0)]
        n, m = source[here[0]], target[there[0]]
        while n != m:  # axes that are split or joined
            if n < m:
                here.append(left.pop(0))
                n *= source[here[-1]]
            else:
                there.append(right.pop(0))
                m *= target[there[-1]]
        if len(here) == len(there) == 1:
            before[here[0]] = after[there[0]] = box[here[0]]
    return tuple(before), tuple(after)


def transposed(s: TangentPartSweep, node: Node) -> Found:
    named: dict[str, Any] = dict(node.params)
    axes = named["axes"]
    found = []
    for part in s.parts_of(node.args[0]):
        order = (0, *[a + 1 for a in axes]) if part.wide else axes
        box = tuple([part.box[a] for a in axes])
        found.append(TangentPart(s.emit.add(node.primitive, (part.node,), axes=order), part.seeds, box))
    return found


# --- ops that compute: parts are put together first ---------------------------------------------


def entrywise(s: TangentPartSweep, node: Node) -> Found:
    """Where one operand moves: the op on each of its parts and the others' entries in its box."""
    moving = [k for k, a in enumerate(node.args) if s.moves(a)]
    if len(moving) != 1:
        return None
    (k,) = moving
    found = []
    for part in s.coalesced(node.args[k]):
        box = _spread_box(part.box, s.type(node.args[k]).shape, node.type.shape)
        ids = [part.node if j == k else _in_box(s, a, box) for j, a in enumerate(node.args)]
        on = [j == k and part.wide for j in range(len(ids))]
        made = s.apply(node, ids, on, len(part.seeds))
        found.append(TangentPart(s.emit.broadcast(made, (*part.lead, *extent(box))), part.seeds, box))
    return found


def numerator(s: TangentPartSweep, node: Node) -> Found:
    """A quotient where the numerator alone moves."""
    return None if s.moves(node.args[1]) else entrywise(s, node)


def _in_box(s: TangentPartSweep, arg: int, box: Box) -> int:
    """The entries of an operand that does not move, beside a box of what it is broadcast to."""
    shape = s.type(arg).shape
    spans = box[len(box) - len(shape) :]
    own = tuple([(0, 1) if n == 1 else b for n, b in zip(shape, spans, strict=True)])
    return s.emit.cut(s.values[arg], own)


def added(s: TangentPartSweep, node: Node) -> Found:
    """All parts of both operands; those with the same seeds and box are added at once."""
    if not _others_are_zero(s, node.args):
        return None
    left, right = (
        [_spread(s, p, a, node) for p in s.parts_of(a)] if s.moves(a) else [] for a in node.args
    )
    found = [_added_to_like(s, node, part, right) for part in left]
    if node.primitive.name == "subtract":
        right = [p._replace(node=s.emit.add(PRIMITIVES["negative"], (p.node,))) for p in right]
    return found + right


def _added_to_like(
    s: TangentPartSweep, node: Node, part: TangentPart, others: list[TangentPart]
) -> TangentPart:
    """A part and the one of `others` with its seeds and box, which leaves these; else the part."""
    other = next((p for p in others if p[1:] == part[1:]), None)
    if other is None:
        return part
    others.remove(other)
    return part._replace(node=s.emit.add(node.primitive, (part.node, other.node)))


def _spread(s: TangentPartSweep, part: TangentPart, arg: int, node: Node) -> TangentPart:
    """A part of an operand broadcast to the shape of an elementwise node."""
    box = _spread_box(part.box, s.type(arg).shape, node.type.shape)
    if box == part.box:
        return part
    ones = (1,) * (len(box) - len(part.box))
    deep = s.emit.reshaped(part.node, (*part.lead, *ones, *extent(part.box)))
    return TangentPart(s.emit.broadcast(deep, (*part.lead, *extent(box))), part.seeds, box)


def _spread_box(box: Box, shape: Shape, target: Shape) -> Box:
    """The box that entries of a box fill when their array is broadcast to `target`."""
    more = len(target) - len(shape)
    spans = zip(target, (1,) * more + shape, ((0, 1),) * more + box, strict=True)
    return tuple([span if n == m else (0, n) for n, m, span in spans])


def contracted(s: TangentPartSweep, node: Node) -> Found:
    """A product with an operand that does not move: with those of its entries each part meets."""
    moving = [k for k, a in enumerate(node.args) if s.moves(a)]
    if len(moving) != 1:
        return None
    left, right = map(s.type, node.args)
    s.count(0, prod(sizes_by_label(node.param("subscripts"), left, right).values()))
    (k,) = moving
    return [_product_of_part(s, node, k, part) for part in s.coalesced(node.args[k])]


def _product_of_part(s: TangentPartSweep, node: Node, k: int, part: TangentPart) -> TangentPart:
    """A product with a part in the place of operand `k`."""
    labels, other = parse(node.param("subscripts")), node.args[1 - k]
    spans = dict(zip(labels[1 - k], full(s.type(other).shape), strict=True))
    spans |= dict(zip(labels[k], part.box, strict=True))
    beside = s.emit.cut(s.values[other], tuple([spans[label] for label in labels[1 - k]]))
    ids = (part.node, beside) if k == 0 else (beside, part.node)
    made = s.apply(node, ids, [j == k and part.wide for j in range(2)], len(part.seeds))
    s.count(len(part.seeds) * volume(tuple(spans.values())), 0)
    return TangentPart(made, part.seeds, tuple([spans[label] for label in labels[2]]))


def summed(s: TangentPartSweep, node: Node) -> Found:
    named: dict[str, Any] = dict(node.params)
    axes = named["axes"]
    found = []
    for part in s.coalesced(node.args[0]):
        gone = tuple([a + part.wide for a in axes])
        box = tuple([span for k, span in enumerate(part.box) if k not in axes])
        made = s.emit.add(node.primitive, (part.node,), axes=gone)
        found.append(TangentPart(made, part.seeds, box))
    return found


def gathered(s: TangentPartSweep, node: Node) -> Found:
    """Rows of parts that have all rows; the axes behind the indexed ones keep their boxes."""
    source, *indices = node.args
    if any(s.moves(a) for a in indices):
        return None
    parts, count = s.coalesced(source), len(indices)
    ends = sorted({part.box[count:] for part in parts})
    return [_picked_rows(s, node, [p for p in parts if p.box[count:] == end]) for end in ends]


def _picked_rows(s: TangentPartSweep, node: Node, parts: Sequence[TangentPart]) -> TangentPart:
    """The rows that a gather picks of parts that differ in their seeds and rows alone."""
    source, *indices = node.args
    count, picked = len(indices), full(s.type(indices[0]).shape)
    end, seeds = parts[0].box[count:], seeds_of(parts)
    rows = s.emit.seeds_behind(parts, seeds, (*full(s.type(source).shape)[:count], *end), count)
    made = s.emit.add(node.primitive, (rows, *[s.values[a] for a in indices]))
    return TangentPart(s.emit.seeds_in_front(made, seeds, len(picked)), seeds, (*picked, *end))
