"""Provenance of array entries: which operand a few entries of a node come from.

A slice of a few entries of an array to which entries were stored is followed back to the operand
that holds them, through reshapes, slices, broadcasts, stores and joins. Each op's rule is the
`provenance` of its record: it gets the builder, a node and positions of entries in it, and gives
the operand they come from with the positions there, or None.

Only a slice beneath which entries were stored one by one, or a number repeated, is followed:
the positions of such stores are part of the structure of a kernel anyway, while the results of
following other slices would depend on sizes.

Definitions that reach single entries: an idea of K. Knobe and V. Sarkar, Array SSA form and its use
in parallelization, POPL 1998.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from math import prod

import fdiff.intact_numpy as np

from ..primitive import PRIMITIVES
from ..tape import Builder, Node

Ints = tuple[int, ...]
Flat = list[int]  # positions of entries in a node, in C order
Came = tuple[int, Flat] | None  # the operand that entries come from, and where they are in it

FEW = 16  # entries that are followed one by one
MOST = 256  # operands of a join, or places of a store, among which an entry is sought


def origin(builder: Builder, source: int, params: dict[str, Ints]) -> int | None:
    """Node of what a slice of a few entries reads, taken from where the entries were put.

    `source` is what is sliced. None where it is not known, or no better than the slice.
    """
    sizes = params["sizes"]
    if not 0 < prod(sizes) <= FEW or not _is_followed(builder, source, prod(sizes)):
        return None
    within = (params["starts"], params["steps"], builder.type(source).shape)
    at = [_sliced(k, sizes, *within) for k in range(prod(sizes))]
    while (rule := (node := builder.nodes[source]).primitive.structure.provenance) is not None:
        if (came := rule(builder, node, at)) is None:
            break
        source, at = came
    if (value := node.value) is not None:
        return _constant(builder, value.reshape(-1)[at].reshape(sizes))
    return _strided_entries(builder, source, at, sizes)


def _is_followed(builder: Builder, source: int, count: int) -> bool:
    """Whether, beneath reshapes and slices, entries were scattered or a constant was repeated."""
    while (node := builder.nodes[source]).primitive.structure.provenance in (
        through_reshape,
        through_slice,
    ):
        source = node.args[0]
    if node.primitive.structure.provenance is through_broadcast:
        return count == 1 and builder.nodes[node.args[0]].value is not None
    return (
        node.primitive.structure.provenance is through_scatter
        and _stored_positions(builder, node) is not None
    )


def _constant(builder: Builder, value: np.ndarray) -> int:
    """A constant of the tape; one number repeated is a scalar, broadcast."""
    first = value.reshape(-1)[:1]
    if value.size > 1 and value.tobytes() == first.tobytes() * value.size:
        number = builder.constant(np.array(first[0], value.dtype))
        return builder.add(PRIMITIVES["broadcast_to"], (number,), (("shape", value.shape),))
    return builder.constant(np.array(value, value.dtype, order="C"))


def _strided_entries(builder: Builder, source: int, at: Flat, sizes: Ints) -> int | None:
    """Node of entries at even distances along the last axis of `source`, in the shape `sizes`."""
    shape = builder.type(source).shape
    step = at[1] - at[0] if len(at) > 1 else 1
    even = all(b - a == step for a, b in pairwise(at))
    width = shape[-1] if shape else 1
    if not even or not step or min(at) // width != max(at) // width:
        return None
    if len(at) < prod(shape):
        starts = coordinates(at[0], shape)
        ones = (1,) * (len(shape) - 1)
        row = (("sizes", (*ones, len(at))), ("starts", starts), ("steps", (*ones, step)))
        source = builder.add(PRIMITIVES["slice"], (source,), row)
    elif step < 0:
        return None
    if builder.type(source).shape == sizes:
        return source
    return builder.add(PRIMITIVES["reshape"], (source,), (("shape", sizes),))


# --- rules by op -------------------------------------------------------------------------------


def coordinates(flat: int, shape: Ints) -> Ints:
    """The index along each axis of an entry at this position in C order."""
    out = []
    for n in reversed(shape):
        flat, k = divmod(flat, n)
        out.append(k)
    return tuple(reversed(out))


def position(spot: Ints, shape: Ints) -> int:
    """The position in C order of the entry with these coordinates."""
    flat = 0
    for n, k in zip(shape, spot, strict=True):
        flat = flat * n + k
    return flat


def _sliced(flat: int, sizes: Ints, starts: Ints, steps: Ints, shape: Ints) -> int:
    """Position in an array of `shape` of an entry of a slice of it."""
    spot = coordinates(flat, sizes)
    return position(tuple([a + k * s for k, a, s in zip(spot, starts, steps, strict=True)]), shape)


def through_reshape(b: Builder, node: Node, at: Flat) -> Came:
    """A reshape leaves the positions in C order as they are."""
    return node.args[0], at


def through_copy(b: Builder, node: Node, at: Flat) -> Came:
    """A copy has the same entries."""
    return node.args[0], at


def through_slice(b: Builder, node: Node, at: Flat) -> Came:
    """An entry of a slice is an entry of the sliced array."""
    named = dict(node.params)
    within = (named["sizes"], named["starts"], named["steps"], b.type(node.args[0]).shape)
    return node.args[0], [_sliced(k, *within) for k in at]


def through_broadcast(b: Builder, node: Node, at: Flat) -> Came:
    """An entry is one of the array that was repeated.

    Several entries may be the same one; that is followed for constants alone.
    """
    if len(at) > 1 and b.nodes[node.args[0]].value is None:
        return None
    shape, lead = b.type(node.args[0]).shape, len(node.type.shape)
    spots = [coordinates(k, node.type.shape)[lead - len(shape) :] for k in at]
    own = [tuple([k if n > 1 else 0 for k, n in zip(s, shape, strict=True)]) for s in spots]
    return node.args[0], [position(s, shape) for s in own]


def through_update(b: Builder, node: Node, at: Flat) -> Came:
    """Entries are all of the part that was stored, or all of the base beside it; else unknown."""
    base, part = node.args
    named = dict(node.params)
    sizes = b.type(part).shape
    inside: Flat = []
    for flat in at:
        spot = zip(coordinates(flat, node.type.shape), named["starts"], named["steps"], strict=True)
        places = [divmod(k - start, step) for k, start, step in spot]
        if all(r == 0 and 0 <= k < n for (k, r), n in zip(places, sizes, strict=True)):
            inside.append(position(tuple([k for k, _ in places]), sizes))
    if len(inside) == len(at):
        return part, inside
    return None if inside else (base, at)


def through_scatter(b: Builder, node: Node, at: Flat) -> Came:
    """Entries are all of the values scattered into a vector, or all of the vector; else unknown.

    Where two values go to one place, the last one stays.
    """
    base, values, *_ = node.args
    if (places := _stored_positions(b, node)) is None:
        return None
    n = node.type.shape[0]
    last = {int(p) % n: k for k, p in enumerate(places)}
    inside = [last[k] for k in at if k in last]
    if len(inside) == len(at):
        return values, inside
    return None if inside else (base, at)


def _stored_positions(b: Builder, node: Node) -> np.ndarray | None:
    """The places of entries stored into a vector, if they are constant and few."""
    vector = len(node.args) == 3 and len(node.type.shape) == 1
    places = b.nodes[node.args[2]].value if vector else None
    return places if places is not None and places.ndim == 1 and places.size <= MOST else None


def through_join(b: Builder, node: Node, at: Flat) -> Came:
    """Where entries of a concatenation came from, if one operand holds them all."""
    if len(node.args) > MOST:
        return None
    axis: int = node.param("axis")
    spots = [coordinates(flat, node.type.shape) for flat in at]
    shapes = [b.type(arg).shape for arg in node.args]
    ends = [*accumulate([shape[axis] for shape in shapes])]
    held = {bisect_right(ends, spot[axis]) for spot in spots}
    if len(held) != 1:
        return None
    (k,) = held
    begin = ends[k] - shapes[k][axis]
    moved = [(*s[:axis], s[axis] - begin, *s[axis + 1 :]) for s in spots]
    return node.args[k], [position(s, shapes[k]) for s in moved]
