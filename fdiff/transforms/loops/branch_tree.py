"""Paths through a body as one tape, in which values select the path.

Where two paths part, a `switch` is entered, whose branches are their rests. What both compute
before is computed once. Our own: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...arraytype import INT
from ...errors import TapeError
from ...named_tuples import NamedTuple
from ...ops.control.switch import SWITCH
from ...primitive import PRIMITIVES
from ...tape import CONSTANT, ITEM, Tape
from ..activity import needed_nodes
from ..simplify import Simplifier
from .bodies import entered, rearranged


class BranchPath(NamedTuple):
    """A path: its outputs, and its conditions with the truth values that select it."""

    asked: Sequence[tuple[int, bool]]
    outs: Sequence[int]


def branching_body(
    tape: Tape, inputs: Sequence[int], paths: Sequence[BranchPath], depth: int = 0
) -> Tape:
    """The tape ``inputs -> outs`` of the path that is taken, given as nodes of one tape."""
    if len(paths) == 1:
        return rearranged(tape, inputs, paths[0].outs)
    asked = {path.asked[depth][0] for path in paths}
    parts = [[path for path in paths if path.asked[depth][1] is answer] for answer in (False, True)]
    if len(asked) > 1 or not all(parts):
        raise TapeError("paths of a body part where nothing is asked")
    (node,) = asked
    builder = Simplifier()
    ids = {i: builder.input(tape.nodes[i].type) for i in inputs}
    (truth,) = entered(tape, builder, ids, [node])
    items = [i for i, n in enumerate(tape.nodes) if n.primitive is ITEM and n.args[0] in ids]
    entered(tape, builder, ids, [i for i in items if i not in ids])
    goals = [i for path in paths for i in (*path.outs, *[n for n, _ in path.asked[depth + 1 :]])]
    nodes = {i: tape.nodes[i] for i in ids}
    there = {i for i, n in nodes.items() if n.primitive is not CONSTANT and len(n.types) == 1}
    needed = needed_nodes(tape, there, goals)
    read = {a for i in needed for a in tape.nodes[i].args} | {*goals}
    operands = sorted(there & read)
    index = builder.add(PRIMITIVES["convert"], (truth,), (("dtype", INT),))
    branches = tuple([branching_body(tape, operands, part, depth + 1) for part in parts])
    args = (index, *[ids[i] for i in operands])
    switch = builder.add(SWITCH, args, (("branches", branches),))
    return builder.finish(builder.results(switch))


def goes_on(tape: Tape, left: int, demanded: int | None) -> Tape:
    """The condition of a loop whose inputs tell whether it is left, and what is demanded holds."""
    builder = Simplifier()
    inputs = [builder.input(t) for t in tape.input_types]
    node = builder.add(PRIMITIVES["logical_not"], (inputs[left],))
    if demanded is not None:
        node = builder.add(PRIMITIVES["logical_and"], (node, inputs[demanded]))
    return builder.finish([node])
