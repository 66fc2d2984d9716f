"""Load forwarding and its like, applied when a node is added to a tape.

- Store-to-load forwarding: a slice of what was just stored is the stored value; a slice beside the
  store reads what lay under it.
- Dead store elimination: a store over another store of the same entries replaces it; a store of
  what is there already is none.
- A reshape of a reshape is one reshape.

Each rule is the `shorten` of an op's record. It gets the builder, the arguments and the parameters
of a node to be added; it gives the id of an equal node, or None, and the arguments to add it with.

Values that are known of parts of an array: K. Knobe and V. Sarkar, Array SSA form and its use in
parallelization, POPL 1998. Dead stores: S. S. Muchnick, Advanced Compiler Design and
Implementation, Morgan Kaufmann 1997, section 18.10.
"""

from __future__ import annotations

from collections.abc import Callable

from ..arraytype import disjoint, without_ones
from ..tape import Builder, Node, Params
from .provenance import origin

Ids = tuple[int, ...]
Ints = tuple[int, ...]
Rule = Callable[[Builder, Ids, Params], tuple[int | None, Ids]]


def _is_store(node: Node) -> bool:
    return node.primitive.lowering.shorten is forward_store


def forward_load(builder: Builder, args: Ids, items: Params) -> tuple[int | None, Ids]:
    """Rule of slices: read the stored value, or the array below a store that does not overlap."""
    (source,) = args
    if builder.nodes[source].primitive.structure.provenance is None:
        return None, args
    params: dict[str, Ints] = dict(items)
    read = params["sizes"], params["starts"], params["steps"]
    while _is_store(node := builder.nodes[source]):
        put: dict[str, Ints] = dict(node.params)
        stored = builder.type(node.args[1]).shape, put["starts"], put["steps"]
        if stored == read:
            return node.args[1], args
        if not any(map(disjoint, *read, *stored)):
            break
        source = node.args[0]
    return origin(builder, source, params), (source,)


def forward_store(builder: Builder, args: Ids, items: Params) -> tuple[int | None, Ids]:
    """Rule of stores of a slice: over another one of the same entries, or of what is there."""
    params, (base, part) = dict(items), args
    node = builder.nodes[base]
    if _is_store(node) and dict(node.params) == params:
        if node.args[1] == part:
            return base, args
        if builder.type(node.args[1]).shape == builder.type(part).shape:
            base = node.args[0]
    node = builder.nodes[part]
    if node.primitive.lowering.shorten is forward_load and node.args[0] == base:
        read = dict(node.params)
        if (read["starts"], read["steps"]) == (params["starts"], params["steps"]):
            return base, args
    return None, (base, part)


def join_reshapes(builder: Builder, args: Ids, items: Params) -> tuple[int | None, Ids]:
    """Rule of reshapes: of another reshape, or to the shape that is there.

    A reshape in between that may have copied stays, because its result is in C order.
    """
    (source,) = args
    shape: Ints = items[0][1]
    while (node := builder.nodes[source]).primitive.lowering.shorten is join_reshapes:
        before, between = builder.type(node.args[0]).shape, node.type.shape
        if min(len(before), len(shape)) > 1 and without_ones(before) != without_ones(between):
            break
        source = node.args[0]
    return (source if node.types[0].shape == shape else None), (source,)
