"""Loops whose trips do not wait for each other, as one batch: `map`, `scan` without carries, sums.

A loop without carries computes its body for all rows at once, as `vmap` does; a carry that each
trip adds to, and that nothing else reads, is the sum of what is added. So trips run in vector
registers and on threads, and derivatives know which entry depends on which row. Sums of a batch
are added in pairs, as `numpy.sum` does.

Bodies that hold loops or branches stay as they are: in a batch all branches are computed.

Loops without dependences are vectorised: R. Allen and K. Kennedy, Optimizing Compilers for Modern
Architectures, Morgan Kaufmann 2001, section 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...arraytype import ArrayType
from ...named_tuples import NamedTuple
from ...node import is_transient
from ...ops.along_axes.reductions import sum_
from ...ops.control.loop import LOOP
from ...ops.entrywise.elementwise import add, subtract
from ...ops.linear_algebra.contraction import contract
from ...ops.shapes.dynamic_slices import window_indices
from ...ops.shapes.subscripts import sizes_by_label
from ...tape import CONSTANT, ITEM, Builder, Node, Replacement, Tape, rebuild
from ...trace.derived_lines import TripLine, wanted
from ..activity import needed_nodes
from ..batch import batch
from ..custom_calls import CALL
from ..loops.bodies import entered, rearranged
from ..loops.loop_pruning import prune_loops

MOST = 1 << 27  # bytes of all values of a body, for all trips together
# Products whose axes all have so many entries are fast one by one, and what they are made of still
# lies in the cache; where all trips multiply one array, a batch has to be put in another order.
LARGE, LARGE_SHARED = 64, 16
WIDE_SUM = 16  # entries of a carry from which on additions of trips fill vector registers


def batch_loops(tape: Tape) -> Tape:
    """Replace loops whose trips are independent by batches.

    Where a search asks for the lines of trips, they stay loops.
    """
    if wanted.on or not any(node.primitive is LOOP for node in tape.nodes):
        return tape
    tape = prune_loops(tape)
    replacements: dict[int, Replacement] = {}
    for i, node in enumerate(tape.nodes):
        if node.primitive is LOOP and (parts := _parallel_trips(tape, node)) is not None:
            replacements |= _entering(tape, i, parts)
    return rebuild(tape, Builder(), replacements) if replacements else tape


class _ParallelTrips(NamedTuple):
    """The computation of a loop's trips: terms of its carries, then its outs.

    `body` takes the inputs `read` of the loop's body. A carry without a term stays as it is.
    """

    body: Tape
    read: Sequence[int]
    terms: Sequence[tuple[int, bool] | None]  # of each carry: the node, and whether it is added


def _parallel_trips(tape: Tape, node: Node) -> _ParallelTrips | None:
    """The trips of a loop; None where one waits for another, or a batch does not pay."""
    body: Tape = node.param("body")
    carries, length = node.param("carries"), node.param("length")
    trips = tape.nodes[node.args[0]]
    if trips.primitive is not CONSTANT or not length or trips.value != length:
        return None
    if not _pays(body, len(body.inputs) - node.param("rows"), length):
        return None
    users = body.users()
    terms: list[tuple[int, bool] | None] = []
    for k in range(carries):
        if body.outputs[k] == body.inputs[k]:
            terms.append(None)
        elif (term := _term(body, users, k)) is not None:
            terms.append(term)
        else:
            return None
    outputs = [term[0] for term in terms if term is not None] + [*body.outputs[carries:]]
    needed = needed_nodes(body, (), outputs)
    read = [k for k, i in enumerate(body.inputs) if i in needed]
    inner = rearranged(body, [body.inputs[k] for k in read], outputs)
    return _ParallelTrips(inner, read, terms)


def _pays(body: Tape, first: int, length: int) -> bool:
    """Whether the values of all trips fit in memory, and a batch is not slower.

    The rows of the loop begin at the input `first`.
    """
    if next(body.bodies(), None) is not None or any(map(_stays, body.nodes)):
        return False
    rows, size = {*body.inputs[first:]}, 0
    for i, node in enumerate(body.nodes):
        if not rows.isdisjoint(node.args):
            rows.add(i)
            size += sum([t.nbytes for t in node.types])
            types = [body.nodes[a].type for a in node.args]
            if multiplies_large(node, types, shared=not rows.issuperset(node.args)):
                return False
    return length * size <= MOST


def multiplies_large(node: Node, types: Sequence[ArrayType], *, shared: bool) -> bool:
    """Whether this is a product of matrices so large that a batch of them would be slower.

    `types` are the types of its operands, one of which may be `shared` by all trips.
    """
    if node.primitive is not contract:
        return False
    sizes = sizes_by_label(node.param("subscripts"), *types).values()
    return len(sizes) > 2 and min(sizes) >= (LARGE_SHARED if shared else LARGE)


def _stays(node: Node) -> bool:
    """Whether a node is computed trip by trip.

    Operations of the user's may do anything; cotangents of windows that overlap are added to what
    is in the cache.
    """
    own = node.primitive is CALL or is_transient(node.primitive, node.params)
    return own or node.primitive is window_indices


def _term(body: Tape, users: Sequence[Sequence[int]], k: int) -> tuple[int, bool] | None:
    """The term that a trip adds to, or subtracts from, a carry that nothing else reads."""
    i, out = body.inputs[k], body.outputs[k]
    node = body.nodes[out]
    alone = [*users[i]] == [out] and not users[out] and body.outputs.count(out) == 1
    if not alone or i in body.outputs or node.type.dtype.kind not in "fc":
        return None
    if node.type.size >= WIDE_SUM:
        return None
    if node.primitive is add and node.args.count(i) == 1:
        return node.args[node.args[0] == i], True
    if node.primitive is subtract and node.args[0] == i != node.args[1]:
        return node.args[1], False
    return None


def _entering(tape: Tape, i: int, parts: _ParallelTrips) -> dict[int, Replacement]:
    """A function that enters the results of a loop."""
    node = tape.nodes[i]
    first = len(node.args) - 1 - node.param("rows")
    mapped = [k >= first for k in parts.read]
    wide = batch(parts.body, mapped, node.param("length"), spread=[True] * len(parts.body.outputs))
    results: list[int] = []

    def enter(builder: Builder, ids: dict[int, int]) -> int:
        own = [ids[a] for a in node.args[1:]]
        operands = {x: own[k] for x, k in zip(wide.inputs, parts.read, strict=True)}
        first = len(builder.nodes)
        outs = iter(entered(wide, builder, operands, wide.outputs))
        for j in range(first, len(builder.nodes)):  # an error there asks for the trip
            if j in builder.lines:
                builder.lines[j] = tuple([TripLine(line) for line in builder.lines[j]])
        for k, term in enumerate(parts.terms):
            last = own[k]
            if term is not None:
                total = builder.add(sum_, (next(outs),), (("axes", (0,)),))
                last = builder.add(add if term[1] else subtract, (last, total))
            results.append(last)
        results.extend(outs)
        return results[0]

    items = [j for j, n in enumerate(tape.nodes) if n.primitive is ITEM and n.args[0] == i]
    replacements: dict[int, Replacement] = {i: enter}
    for j in items:
        replacements[j] = lambda _builder, _ids, k=tape.nodes[j].k: results[k]
    return replacements
