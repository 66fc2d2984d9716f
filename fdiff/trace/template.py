"""Templates: fragments of tapes with holes, recorded once and entered again for other operands.

What a handler of NumPy enters in an eager trace is kept as a template (`operation_templates.py`),
and what a derivative rule enters (`transforms/rule_templates.py`, `transforms/eager`). So a handler
or rule is specialised to types of operands, which is partial evaluation (N. D. Jones, C. K. Gomard
and P. Sestoft, Partial Evaluation and Automatic Program Generation, 1993, chapter 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..named_tuples import NamedTuple
from ..tape import INPUT, Node, Tape

Places = tuple[int, ...]


class Template(NamedTuple):
    """A fragment of a tape: `steps` to be entered one after the other, and its `outputs`.

    Arguments of steps and outputs are *places* in a list that begins with the ids of the operands,
    and to which each step adds the id of its node. A builder enters them by its method ``splice``:
    steps are what that takes. `result` says what the outputs are. `squared` are the operands that
    are squared: the square of an absolute value is an op of its own.
    """

    steps: Sequence[Any]
    outputs: Places
    result: Any
    squared: Places = ()


def fragment(
    nodes: Sequence[Node],
    cut: Iterable[int],
    operands: Sequence[int],
    outputs: Iterable[int],
    step: Callable[[int, Places], object],
) -> tuple[list[object], Places] | None:
    """The steps for the nodes `cut` out of others, and the places of the outputs.

    ``step(i, places)`` makes the step of node `i`. None where something else than the operands is
    read.
    """
    places = {node_id: k for k, node_id in reversed([*enumerate(operands)])}
    steps: list[object] = []
    for i in cut:
        args = nodes[i].args
        if any(a not in places for a in args):
            return None
        steps.append(step(i, tuple([places[a] for a in args])))
        places[i] = len(operands) + len(steps) - 1
    if any(o not in places for o in outputs):
        return None
    return steps, tuple([places[o] for o in outputs])


def template_of(tape: Tape, step: Callable[[int, Places], object], result: object) -> Template:
    """The template that does what a tape does; its operands are the inputs of the tape."""
    cut = [i for i, node in enumerate(tape.nodes) if node.primitive is not INPUT]
    parts = fragment(tape.nodes, cut, tape.inputs, tape.outputs, step)
    assert parts is not None
    return Template(*parts, result)
