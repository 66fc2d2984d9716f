"""Loops without what nobody reads: outs, carries that neither outs nor readers need, and inputs.

What a sweep or a choice of outputs leaves unread is taken out of bodies, as dead nodes are taken
out of tapes (S. S. Muchnick, Advanced Compiler Design and Implementation, 1997, section 18.10).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.control.loop import LOOP
from ...tape import ITEM, Builder, Node, Replacement, Tape, rebuild
from .bodies import Places, read_inputs, rearranged
from .loop_pullbacks import entering


def prune_loops(tape: Tape) -> Tape:
    """The tape with its loops pruned; itself where nothing is to be done."""
    while True:
        read: dict[int, set[int]] = {}
        for i, node in enumerate(tape.nodes):
            if node.primitive is LOOP:
                read[i] = {0} if len(node.types) == 1 else set()
            elif node.primitive is ITEM and node.args[0] in read:
                read[node.args[0]].add(node.k)
        replacements: dict[int, Replacement] = {}
        for i, outputs in read.items():
            body = tape.nodes[i].param("body")
            if (within := prune_loops(body)) is not body:  # which may read less, then
                replacements[i] = entering(tape.nodes[i], {"body": within})
            elif (kept := _needed_places(tape.nodes[i], outputs)) is not None:
                replacements[i] = _pruned(tape.nodes[i], *kept)
                items = [
                    j for j, n in enumerate(tape.nodes) if n.primitive is ITEM and n.args[0] == i
                ]
                replacements |= {j: _item(i, tape.nodes[j].k, kept[1]) for j in items}
        if not replacements:
            return tape
        tape = rebuild(tape, Builder(), replacements)


def _needed_places(node: Node, outputs: set[int]) -> tuple[Places, Places] | None:
    """The inputs and outputs of a loop's body that are needed; None where all are."""
    body: Tape = node.param("body")
    carries = node.param("carries")
    while True:
        read = read_inputs(body, [body.outputs[o] for o in sorted(outputs)])
        more = outputs | {k for k in read if k < carries}
        if more == outputs:
            break
        outputs = more
    kept = {*read, *[o for o in outputs if o < carries]}
    if not outputs or (len(kept), len(outputs)) == (len(body.inputs), len(body.outputs)):
        return None
    return tuple(sorted(kept)), tuple(sorted(outputs))


def _pruned(node: Node, inputs: Places, outputs: Places) -> Replacement:
    """A function that enters the loop with only these inputs and outputs of its body."""
    params = dict(node.params)
    body, last = params["body"], len(node.args) - 1 - params["rows"]
    nodes: Sequence[int] = body.inputs
    params["body"] = rearranged(
        body, [nodes[k] for k in inputs], [body.outputs[o] for o in outputs]
    )
    params["rows"] = sum(k >= last for k in inputs)
    params["carries"] = sum(o < params["carries"] for o in outputs)
    args = (node.args[0], *[node.args[1 + k] for k in inputs])
    new = tuple(sorted(params.items()))
    return lambda builder, ids: builder.add(LOOP, tuple([ids[a] for a in args]), new)


def _item(loop: int, k: int, outputs: Places) -> Replacement:
    """A function that reads an output of the pruned loop."""
    if len(outputs) == 1:
        return lambda builder, ids: ids[loop]
    return lambda builder, ids: builder.add(ITEM, (ids[loop],), (("k", outputs.index(k)),))
