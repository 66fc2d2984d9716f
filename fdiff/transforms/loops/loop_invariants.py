"""Loop invariants: computations that are equal in all trips run once, before the loop.

A value that depends on invariants alone is taken out where that saves a trip work and makes it read
no more: results of systems, large products and loops; sums and elementary functions that are no
larger than what they are computed from, and anything that is smaller. What is left is cheaper to
compute than to read.

Loop-invariant code motion: S. S. Muchnick, Advanced Compiler Design and Implementation, 1997,
section 13.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.control.loop import LOOP
from ...tape import CONSTANT, INPUT, ITEM, Builder, Node, Replacement, Tape, rebuild
from ...trace.derived_lines import wanted
from ..activity import needed_nodes
from .bodies import entered, rearranged
from .kept_values import computing, operations
from .loop_pruning import prune_loops

_WORK = 8  # operations of an entry that take as long as to read it
_MOVABLE = frozenset(("elementwise", "leaf", "linear", "reduction", "bilinear", "opaque", "loop"))


def hoist_and_prune(tape: Tape) -> Tape:
    """The tape with loop invariants hoisted, and outputs pruned that nobody reads."""
    return prune_loops(hoist_invariants(tape))


def hoist_invariants(tape: Tape) -> Tape:
    """Move computations that are equal in all trips before their loops.

    Loops that may have no trips stay as they are: what they do not compute may be an error.
    """
    loops = [i for i, node in enumerate(tape.nodes) if node.primitive is LOOP]
    if not loops or wanted.on:  # a search for the lines of trips sees them as they are written
        return tape
    replacements: dict[int, Replacement] = {}
    for i in loops:
        node = tape.nodes[i]
        body = hoist_invariants(node.param("body"))
        trips = tape.nodes[node.args[0]].value
        moved = _invariant_nodes(node, body) if trips is not None and trips > 0 else []
        if moved or body is not node.param("body"):
            replacements[i] = _loop_without(node, body, moved)
    return rebuild(tape, Builder(), replacements) if replacements else tape


def _invariant_nodes(loop: Node, body: Tape) -> list[int]:
    """The nodes of a body that are taken out of the loop."""
    first, last = loop.param("carries"), len(body.inputs) - loop.param("rows")
    invariants = {*body.inputs[first:last]}
    alike = {*invariants}
    for i, (primitive, args, _, _) in enumerate(body.nodes):
        movable = primitive is CONSTANT or primitive is ITEM or primitive.family in _MOVABLE
        if primitive is not INPUT and movable and alike.issuperset(args):
            alike.add(i)
    rest = [n for i, n in enumerate(body.nodes) if i not in alike]
    read = {a for n in rest for a in n.args if a in alike}
    asked, moved = sorted(read | (alike & {*body.outputs}), reverse=True), list[int]()
    seen: set[int] = set()
    while asked:
        i = asked.pop()
        if i in seen or body.nodes[i].primitive in (INPUT, CONSTANT):
            continue
        seen.add(i)
        if len(body.nodes[i].types) == 1 and _pays(body, i, invariants):
            moved.append(i)
        else:
            asked += body.nodes[i].args
    return sorted(moved)


def _pays(body: Tape, i: int, invariants: set[int]) -> bool:
    """Whether it pays to compute a node outside, and to read it in each trip."""
    nodes = [body.nodes[k] for k in needed_nodes(body, invariants, [i])]
    if any(computing(body, node) for node in nodes):
        return True
    read = {a for node in nodes for a in node.args if a in invariants}
    before, own = sum(body.nodes[k].type.nbytes for k in read), body.nodes[i].type
    work = sum(_work(body, node) for node in nodes)
    if own.nbytes < before and own.size > 1:
        return work > 0
    return own.nbytes <= before and work > _WORK * own.size


def _work(body: Tape, node: Node) -> int:
    """Approximate number of scalar operations of a node, moves of entries apart."""
    primitive, args, _, _ = node
    if primitive.structure.moves or primitive.structure.view or primitive.family == "leaf":
        return 0
    rule = primitive.lowering.kernel
    is_function = rule is not None and any("." in t for t in rule.texts)
    times = 2 * _WORK if is_function and not primitive.rules.unit_slopes else 1
    return times * operations(node, [body.nodes[a].types[0] for a in args])


def _loop_without(loop: Node, body: Tape, moved: Sequence[int]) -> Replacement:
    """A function that enters the loop with these nodes of its body as further invariants."""
    params = dict(loop.params)
    carries, rows = params["carries"], params["rows"]
    last = len(body.inputs) - rows
    inputs = (*body.inputs[:last], *moved, *body.inputs[last:])
    params["body"] = rearranged(body, inputs, body.outputs) if moved else body
    new = tuple(sorted(params.items()))

    def enter(builder: Builder, ids: dict[int, int]) -> int:
        args = [ids[a] for a in loop.args]
        operands = dict(zip(body.inputs[carries:last], args[1 + carries : 1 + last], strict=True))
        outside = entered(body, builder, operands, moved)
        return builder.add(LOOP, (*args[: 1 + last], *outside, *args[1 + last :]), new)

    return enter
