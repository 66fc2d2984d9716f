"""The values of a trip that a reverse loop reads from memory; it computes the others again.

Of a sweep over the body, the part that computes values stands before the part that pulls cotangents
back. The values to keep are a minimum cut between the carries and what the second part reads: the
fewest bytes a trip, where what acts entry by entry, or moves entries, is computed again for
nothing, and anything else at a price. Of two equal cuts it is the one nearest to the carries.

An array that trips only store into is *restored*: the reverse loop carries it, beginning with the
last one, and puts the entries back that the trip has overwritten. These alone are kept then.

Some values are kept and the others computed again as in T. Chen, B. Xu, C. Zhang and C. Guestrin,
Training deep nets with sublinear memory cost, arXiv:1604.06174, section 4. A minimum cut chooses
the values as in PyTorch's ``min_cut_rematerialization_partition``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from ...arraytype import ArrayType
from ...named_tuples import NamedTuple
from ...ops.shapes.gather_scatter import gather, scatter_set
from ...ops.shapes.view_ops import slice_, update
from ...tape import Node, Tape
from ...trace import Trace, TracedArray, TracedArrays, apply
from ..activity import needed_nodes
from .minimum_cut import SINK, SOURCE, UNBOUNDED, FlowGraph

_ENTRYWISE = 64  # operations of an entry of a result, up to which it is computed again for nothing
_TRIPS = 1 << 10  # of a loop that ends when it is done
_FREE = frozenset(("elementwise", "leaf", "barrier", ""))


class Restored(NamedTuple):
    """A carried array that the reverse loop restores: its position, and the stores in a trip."""

    carry: int
    stores: tuple[int, ...]

    def bytes_of(self, tape: Tape) -> int:
        """The bytes of the entries that a trip overwrites."""
        return sum(t.nbytes for t in self.types(tape))

    def indices(self, tape: Tape) -> list[int]:
        """The nodes of the indices of the stored entries."""
        return [a for i in self.stores for a in tape.nodes[i].args[2:]]

    def types(self, tape: Tape) -> list[ArrayType]:
        """The types of the entries that each store overwrites."""
        return [tape.nodes[tape.nodes[i].args[1]].type for i in self.stores]

    def before(self, tape: Tape) -> list[int]:
        """The array before each of the stores."""
        return [tape.nodes[i].args[0] for i in self.stores]

    def taken(self, tape: Tape, ids: Mapping[int, int], trace: Trace) -> list[TracedArray]:
        """The entries that each store overwrites, in a trace with nodes of the tape as `ids`."""
        entries: list[TracedArray] = []
        for i in self.stores:
            node = tape.nodes[i]
            array, *indices = [_entered(trace, ids[a]) for a in (node.args[0], *node.args[2:])]
            if node.primitive is scatter_set:
                entries.append(apply(gather, array, *indices))
            else:
                sizes = tape.nodes[node.args[1]].type.shape
                entries.append(apply(slice_, array, sizes=sizes, **dict(node.params)))
        return entries

    def put_back(
        self, tape: Tape, ids: Mapping[int, int], trace: Trace, last: TracedArray, old: TracedArrays
    ) -> TracedArray:
        """The array before a trip, from the array `last` after it and the old entries."""
        for i, part in zip(reversed(self.stores), reversed(old), strict=True):
            node = tape.nodes[i]
            indices = [_entered(trace, ids[a]) for a in node.args[2:]]
            last = apply(node.primitive, last, part, *indices, **dict(node.params))
        return last


def _entered(trace: Trace, i: int) -> TracedArray:
    return TracedArray(trace, i, trace.builder.type(i))


class KeptValues(NamedTuple):
    """The nodes that are kept of a trip, and the carries that are restored."""

    nodes: tuple[int, ...]
    restored: tuple[Restored, ...]


def kept_values(
    swept: Tape, carries: int, rows: Sequence[int], bars: Sequence[int], results: Sequence[int]
) -> KeptValues:
    """The values that are kept for the nodes `results` of a sweep over a body.

    `rows` are the inputs that are entries of rows, `bars` those that are cotangents.
    """
    varying = {*rows}
    needed = needed_nodes(swept, (), results)
    pulled = depending(swept, bars)
    read = {a for i in needed & pulled for a in swept.nodes[i].args} | {*results}
    read -= pulled
    own = {*swept.inputs[:carries]}
    arrays = _restorable(swept, carries)
    # Where as many bytes suffice for the values that are read, no array is carried back.
    prices = {swept.inputs[r.carry]: r.bytes_of(swept) + 1 for r in arrays}
    kept = cut(swept, own, own | varying, read, prices)
    if restored := tuple([r for r in arrays if swept.inputs[r.carry] in kept]):
        read.update([i for r in restored for i in r.indices(swept)])
        own -= {swept.inputs[r.carry] for r in restored}
        kept = cut(swept, own, own | varying, read, {})
    return KeptValues(tuple(sorted(kept)), restored)


def depending(tape: Tape, on: Collection[int]) -> set[int]:
    """The given nodes and all nodes that depend on them."""
    nodes = {*on}
    for i, node in enumerate(tape.nodes):
        if not nodes.isdisjoint(node.args):
            nodes.add(i)
    return nodes


def _restorable(swept: Tape, carries: int) -> list[Restored]:
    """The carries that can be restored: stores overwrite entries at places independent of them."""
    candidates: list[Restored] = []
    for k in range(carries):
        stores: list[int] = []
        node = swept.outputs[k]
        while swept.nodes[node].primitive in (update, scatter_set):
            stores.append(node)
            node = swept.nodes[node].args[0]
        restored = Restored(k, tuple(reversed(stores)))
        own = swept.nodes[swept.inputs[k]].type.nbytes
        if node == swept.inputs[k] and restored.bytes_of(swept) < own:
            candidates.append(restored)
    moved = depending(swept, [swept.inputs[r.carry] for r in candidates])
    return [r for r in candidates if moved.isdisjoint(r.indices(swept))]


def cut(
    swept: Tape, carries: Collection[int], varying: Collection[int], read: Collection[int],
    prices: dict[int, int], entry: int = 0,
) -> set[int]:  # fmt: skip
    """The nodes that are kept, so that what is `read` can be computed from them.

    `varying` are inputs that differ from trip to trip; among them the carries are not at hand.
    `prices` are the bytes of some nodes, where their types do not tell them. An operation on
    entries is worth `entry` bytes for each.
    """
    moved = depending(swept, varying)
    needed = [i for i in sorted(needed_nodes(swept, (), sorted(read))) if i in moved]
    graph = FlowGraph(2 + 2 * len(needed))
    begins = {
        i: 2 + 2 * n for n, i in enumerate(needed)
    }  # where a value is computed; it is at hand
    for i in needed:
        node, begin = swept.nodes[i], begins[i]
        kept = prices.get(i, node.type.nbytes) if len(node.types) == 1 else UNBOUNDED
        graph.connect(begin, begin + 1, kept)
        again = UNBOUNDED if i in carries else computing(swept, node, entry)
        if again:
            graph.connect(SOURCE, begin, again)
        for a in node.args:
            if a in begins:
                graph.connect(begins[a] + 1, begin, UNBOUNDED)
        if i in read:
            graph.connect(begin + 1, SINK, UNBOUNDED)
    side = graph.source_side()
    return {i for i, begin in begins.items() if side[begin] >= 0 and side[begin + 1] < 0}


def computing(tape: Tape, node: Node, entry: int = 0) -> int:
    """The cost of recomputing a node, in bytes that could be kept instead."""
    primitive, args, _, types = node
    if entry and primitive.family == "elementwise":
        return entry * types[0].size
    if (
        primitive.family in _FREE
        or primitive.structure.moves
        or primitive.lowering.spelled
        or primitive is gather
    ):
        return 0
    work = operations(node, [tape.nodes[a].types[0] for a in args])
    is_loop = primitive.family == "loop"
    return work if is_loop or work > _ENTRYWISE * sum(t.size for t in types) else 0


def operations(node: Node, types: Sequence[ArrayType]) -> int:
    """Approximate number of scalar operations of a node."""
    size = max([t.size for t in (*types, *node.types)], default=1)
    params = dict(node.params)
    if node.primitive.family == "loop":
        values = [x for v in params.values() for x in (v if isinstance(v, tuple) else (v,))]
        bodies = [x for x in values if isinstance(x, Tape)]
        once = max(
            sum(operations(n, [body.nodes[a].types[0] for a in n.args]) for n in body.nodes)
            for body in bodies
        )
        return once * params.get("length", 1 if "branches" in params else _TRIPS)
    if "subscripts" in params:
        return 2 * _products(str(params["subscripts"]), types)
    if node.primitive.family == "opaque":
        return 8 * size * max([t.shape[-1] for t in types if t.shape], default=1)
    return size


def _products(subscripts: str, types: Sequence[ArrayType]) -> int:
    """The number of products that a contraction adds up."""
    sizes: dict[str, int] = {}
    for labels, type_ in zip(subscripts.split("->", maxsplit=1)[0].split(","), types, strict=True):
        sizes |= dict(zip(labels, type_.shape, strict=True))
    return prod(sizes.values())
