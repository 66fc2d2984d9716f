"""Where a few entries come from that are read out of an array to which entries were stored.

Only such stores make one look: their places are part of the structure of a kernel anyway, whereas
what slices read of other slices depends on sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np

from ..primitive import PRIMITIVES
from ..tape import Builder, Node

Ints = tuple[int, ...]
Flat = list[int]  # positions of entries in a node, in C order
Came = tuple[int, Flat] | None  # the operand they are entries of, and where; None if not of one
Rule = Callable[[Builder, Node, Flat], Came]

FEW = 16  # entries that are followed one by one
MOST = 256  # operands of a join, or places of a store, among which an entry is sought


# What a slice is looked at for: nothing is stored, and no number repeated, beneath anything else.
TELLING: Final = frozenset(("reshape", "slice", "broadcast_to", "scatter_set"))


def origin(builder: Builder, source: int, params: dict[str, Ints]) -> int | None:
    """What a slice of a few entries reads, taken from where they were put; None if it does not."""
    sizes = params["sizes"]
    if not 0 < prod(sizes) <= FEW or not _tells(builder, source, prod(sizes)):
        return None
    within = (params["starts"], params["steps"], builder.type(source).shape)
    at = [_sliced(k, sizes, *within) for k in range(prod(sizes))]
    while (rule := _CAME.get((node := builder.nodes[source]).primitive.name)) is not None:
        if (came := rule(builder, node, at)) is None:
            break
        source, at = came
    if (value := node.value) is not None:
        return _constant(builder, value.reshape(-1)[at].reshape(sizes))
    return _run(builder, source, at, sizes)


def _tells(builder: Builder, source: int, count: int) -> bool:
    """Whether entries were stored last, or one of a number repeated is read; through what moves."""
    while (node := builder.nodes[source]).primitive.name in ("reshape", "slice"):
        source = node.args[0]
    if node.primitive.name == "broadcast_to":
        return count == 1 and builder.nodes[node.args[0]].value is not None
    return node.primitive.name == "scatter_set" and _places(builder, node) is not None


def _constant(builder: Builder, value: np.ndarray) -> int:
    """A constant of the tape; one number repeated is a scalar, broadcast."""
    first = value.reshape(-1)[:1]
    if value.size > 1 and value.tobytes() == first.tobytes() * value.size:
        number = builder.constant(np.array(first[0], value.dtype))
        return builder.add(PRIMITIVES["broadcast_to"], (number,), (("shape", value.shape),))
    return builder.constant(np.array(value, value.dtype, order="C"))


def _run(builder: Builder, source: int, at: Flat, sizes: Ints) -> int | None:
    """Entries of a node that follow each other along its last axis, in the shape `sizes`."""
    shape = builder.type(source).shape
    step = at[1] - at[0] if len(at) > 1 else 1
    even = all(b - a == step for a, b in pairwise(at))
    width = shape[-1] if shape else 1
    if not even or not step or min(at) // width != max(at) // width:
        return None
    if len(at) < prod(shape):
        starts = _spot(at[0], shape)
        ones = (1,) * (len(shape) - 1)
        row = (("sizes", (*ones, len(at))), ("starts", starts), ("steps", (*ones, step)))
        source = builder.add(PRIMITIVES["slice"], (source,), row)
    elif step < 0:
        return None
    if builder.type(source).shape == sizes:
        return source
    return builder.add(PRIMITIVES["reshape"], (source,), (("shape", sizes),))


# --- by op: which operand entries come from, and where they are there --------------------------


def _spot(flat: int, shape: Ints) -> Ints:
    """Coordinates of a position."""
    out = []
    for n in reversed(shape):
        flat, k = divmod(flat, n)
        out.append(k)
    return tuple(reversed(out))


def _flat(spot: Ints, shape: Ints) -> int:
    flat = 0
    for n, k in zip(shape, spot, strict=True):
        flat = flat * n + k
    return flat


def _sliced(flat: int, sizes: Ints, starts: Ints, steps: Ints, shape: Ints) -> int:
    """Position in an array of `shape` of an entry of a slice of it."""
    spot = _spot(flat, sizes)
    return _flat(tuple([a + k * s for k, a, s in zip(spot, starts, steps, strict=True)]), shape)


def _of_same(b: Builder, node: Node, at: Flat) -> Came:
    return node.args[0], at


def _of_slice(b: Builder, node: Node, at: Flat) -> Came:
    named: dict[str, Any] = dict(node.params)
    within = (named["sizes"], named["starts"], named["steps"], b.type(node.args[0]).shape)
    return node.args[0], [_sliced(k, *within) for k in at]


def _of_broadcast(b: Builder, node: Node, at: Flat) -> Came:
    """Of a constant, or one entry: several of anything else may be the same one, and no slice."""
    if len(at) > 1 and b.nodes[node.args[0]].value is None:
        return None
    shape, lead = b.type(node.args[0]).shape, len(node.type.shape)
    spots = [_spot(k, node.type.shape)[lead - len(shape) :] for k in at]
    own = [tuple([k if n > 1 else 0 for k, n in zip(s, shape, strict=True)]) for s in spots]
    return node.args[0], [_flat(s, shape) for s in own]


def _of_update(b: Builder, node: Node, at: Flat) -> Came:
    base, part = node.args
    named: dict[str, Any] = dict(node.params)
    sizes = b.type(part).shape
    inside: Flat = []
    for flat in at:
        spot = zip(_spot(flat, node.type.shape), named["starts"], named["steps"], strict=True)
        found = [divmod(k - start, step) for k, start, step in spot]
        if all(r == 0 and 0 <= k < n for (k, r), n in zip(found, sizes, strict=True)):
            inside.append(_flat(tuple([k for k, _ in found]), sizes))
    if len(inside) == len(at):
        return part, inside
    return None if inside else (base, at)


def _of_scatter(b: Builder, node: Node, at: Flat) -> Came:
    """Of values stored in places of a vector; the last counts where a place comes twice."""
    base, values, *_ = node.args
    if (places := _places(b, node)) is None:
        return None
    n = node.type.shape[0]
    last = {int(p) % n: k for k, p in enumerate(places)}
    inside = [last[k] for k in at if k in last]
    if len(inside) == len(at):
        return values, inside
    return None if inside else (base, at)


def _places(b: Builder, node: Node) -> np.ndarray | None:
    """Where entries are stored into a vector, if those places are constant and not many."""
    vector = len(node.args) == 3 and len(node.type.shape) == 1
    places = b.nodes[node.args[2]].value if vector else None
    return places if places is not None and places.ndim == 1 and places.size <= MOST else None


def _of_join(b: Builder, node: Node, at: Flat) -> Came:
    named: dict[str, Any] = dict(node.params)
    axis, shape = named["axis"], node.type.shape
    if len(node.args) > MOST:
        return None
    spots = [_spot(flat, shape) for flat in at]
    lo = 0
    for arg in node.args:
        mine = b.type(arg).shape
        hi = lo + mine[axis]
        here = [lo <= spot[axis] < hi for spot in spots]
        if all(here):
            moved = [(*s[:axis], s[axis] - lo, *s[axis + 1 :]) for s in spots]
            return arg, [_flat(s, mine) for s in moved]
        if any(here):
            return None
        lo = hi
    return None


_CAME: Final[dict[str, Rule]] = {
    "reshape": _of_same,
    "copy": _of_same,
    "slice": _of_slice,
    "broadcast_to": _of_broadcast,
    "update": _of_update,
    "scatter_set": _of_scatter,
    "concatenate": _of_join,
}
