"""Bodies of loops and branches as tapes: inputs and outputs chosen, and what moves in them.

What moves in a body is the fixed point of activity analysis, after the idea of L. Hascoet and
V. Pascual, The Tapenade automatic differentiation tool, ACM TOMS 39(3), 2013.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...tape import INPUT, Builder, Tape
from ..activity import needed_nodes, reached
from ..simplify import Simplifier

Places = tuple[int, ...]  # positions among the inputs or outputs of a tape


def rearranged(tape: Tape, inputs: Sequence[int], outputs: Sequence[int]) -> Tape:
    """The tape ``inputs -> outputs``, given as nodes of a tape whose other inputs are not read.

    Nodes that are made inputs are not computed.
    """
    builder = Simplifier()
    ids = {i: builder.input(tape.nodes[i].type) for i in inputs}
    return builder.finish(entered(tape, builder, ids, outputs))


def entered(tape: Tape, builder: Builder, ids: dict[int, int], outputs: Sequence[int]) -> list[int]:
    """Enter the nodes that the outputs need, besides `ids`; return the ids of the outputs."""
    needed = needed_nodes(tape, ids, outputs)
    for i, (primitive, args, params, types) in enumerate(tape.nodes):
        if i in needed:
            assert primitive is not INPUT, "an input that is read was left out"
            ids[i] = builder.add(primitive, tuple([ids[a] for a in args]), params, None, types)
            if i in tape.lines:
                builder.lines.setdefault(ids[i], tape.lines[i])
    return [ids[o] for o in outputs]


def read_inputs(tape: Tape, outputs: Sequence[int], there: Collection[int] = ()) -> Places:
    """The positions of the inputs that these nodes need, besides computed nodes (`there`)."""
    needed = needed_nodes(tape, there, outputs)
    return tuple([k for k, i in enumerate(tape.inputs) if i in needed])


def moving(body: Tape, carries: int, flags: Sequence[bool]) -> Places:
    """The inputs of a loop's body that move if those with `flags` move in the first trip."""
    marked = {k for k, move in enumerate(flags) if move and body.input_types[k].floating}
    while True:
        marks = reached(body, {body.inputs[k]: 1 for k in marked}, smoothly=True)
        more = marked | {k for k in range(carries) if marks[body.outputs[k]]}
        if more == marked:
            return tuple(sorted(marked))
        marked = more


def pulled_back(
    body: Tape, carries: int, wrt: Places, seeded: Sequence[int]
) -> tuple[Places, Places]:
    """The carries that get a cotangent in a reverse loop, and the outs that have one.

    `wrt` are the inputs of the body that move, `seeded` the outputs of the loop with cotangents.
    """
    marks = {body.inputs[k]: 1 << n for n, k in enumerate(wrt)}
    reaching = reached(body, marks, smoothly=True)
    outs = {o for o in seeded if o >= carries and reaching[body.outputs[o]]}
    pulled = {k for k in seeded if k < carries and k in wrt}
    while True:
        reach = 0
        for o in (*pulled, *outs):
            reach |= reaching[body.outputs[o]]
        more = pulled | {k for n, k in enumerate(wrt) if k < carries and reach >> n & 1}
        if more == pulled:
            return tuple(sorted(pulled)), tuple(sorted(outs))
        pulled = more
