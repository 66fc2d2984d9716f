"""Split a tape into nodes that depend on some inputs alone, and all others.

Of the tape of tangents the second part is linear in them: partial evaluation, by which JAX makes
``linearize`` (R. Frostig, M. Johnson, D. Maclaurin, A. Paszke, A. Radul, "Decomposing reverse-mode
automatic differentiation", LAFI 2021).
"""

from __future__ import annotations

from typing import NamedTuple

from ..tape import CONSTANT, Builder, Tape


class Parts(NamedTuple):
    """Both parts of a tape.

    `known` gives the first outputs, then the residuals: values that `rest` reads. `rest` takes
    these, then the other inputs, and gives the other outputs.
    """

    known: Tape
    rest: Tape


def split(tape: Tape, inputs: int, outputs: int) -> Parts:
    """Split a tape: the first `outputs` outputs depend on the first `inputs` inputs alone."""
    moving = set(tape.inputs[inputs:])
    for i, node in enumerate(tape.nodes):
        if not moving.isdisjoint(node.args):
            moving.add(i)
    ends = tape.outputs[outputs:]
    read = [a for i in sorted(moving) for a in tape.nodes[i].args] + list(ends)
    constant = {i for i, node in enumerate(tape.nodes) if node.primitive is CONSTANT}
    residuals = [a for a in dict.fromkeys(read) if a not in moving and a not in constant]
    own = {i for i in range(len(tape.nodes)) if i not in moving}
    computed = _part(tape, own, tape.inputs[:inputs], (*tape.outputs[:outputs], *residuals))
    rest = _part(tape, moving | constant, (*residuals, *tape.inputs[inputs:]), ends)
    return Parts(computed, rest)


def _part(tape: Tape, nodes: set[int], inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Tape:
    """The tape of some nodes; `inputs` are nodes whose values it is given."""
    builder = Builder()
    ids = {i: builder.input(tape.nodes[i].type) for i in inputs}
    for i, (primitive, args, params, types) in enumerate(tape.nodes):
        if i in nodes and i not in ids:
            ids[i] = builder.add(primitive, tuple([ids[a] for a in args]), params, None, types)
            if i in tape.lines:
                builder.lines.setdefault(ids[i], tape.lines[i])
    return builder.finish([ids[o] for o in outputs])
