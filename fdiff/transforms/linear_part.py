"""Split a tape into nodes that depend on some inputs alone, and all others.

Of the tape of tangents the second part is linear in them: partial evaluation, by which JAX makes
``linearize`` (R. Frostig, M. Johnson, D. Maclaurin, A. Paszke, A. Radul, "Decomposing reverse-mode
automatic differentiation", LAFI 2021, the whole abstract).
"""

from __future__ import annotations

from ..tape import CONSTANT, Tape
from .late_steps import late_step

rearranged = late_step("loops.bodies", "rearranged")


def split(tape: Tape, inputs: int, outputs: int) -> tuple[Tape, Tape]:
    """Split a tape: the first `outputs` outputs depend on the first `inputs` inputs alone.

    The first tape gives these outputs, then the residuals: values that the second tape reads. The
    second tape takes the residuals, then the other inputs, and gives the other outputs.
    """
    moving = set(tape.inputs[inputs:])
    for i, node in enumerate(tape.nodes):
        if not moving.isdisjoint(node.args):
            moving.add(i)
    ends = tape.outputs[outputs:]
    read = [a for i in sorted(moving) for a in tape.nodes[i].args] + list(ends)
    constant = {i for i, node in enumerate(tape.nodes) if node.primitive is CONSTANT}
    residuals = [a for a in dict.fromkeys(read) if a not in moving and a not in constant]
    computed = rearranged(tape, tape.inputs[:inputs], (*tape.outputs[:outputs], *residuals))
    rest = rearranged(tape, (*residuals, *tape.inputs[inputs:]), ends)
    return computed, rest
