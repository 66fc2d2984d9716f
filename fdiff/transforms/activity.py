"""Activity analysis: dependence among the nodes of a tape.

With a derivative, this is the forward half of activity analysis, after the idea of L. Hascoet and
V. Pascual, The Tapenade automatic differentiation tool, ACM TOMS 39(3), 2013.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..tape import Tape


def reached(tape: Tape, marks: Mapping[int, int], *, smoothly: bool = False) -> list[int]:
    """For each node, the marks (as bits) of the nodes that its floating outputs depend on.

    `marks` are the marks of some nodes. `smoothly`: only dependence with a derivative counts.
    """
    marks_of: list[int] = []
    for i, (primitive, args, _, types) in enumerate(tape.nodes):
        mark = marks.get(i, 0)
        floating = types[0].floating if len(types) == 1 else any(t.floating for t in types)
        if floating and not (smoothly and primitive.rules.flat):
            for a in args:
                mark |= marks_of[a]
        marks_of.append(mark)
    return marks_of


def influenced(tape: Tape, marks: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """For each node, the marks (as bits) of the nodes that its value depends on in any way.

    The second list has the marks of those that it depends on through steps: comparisons, rounding
    and integers, which have no derivative.
    """
    marks_of: list[int] = []
    stepped: list[int] = []
    for i, (primitive, args, _, types) in enumerate(tape.nodes):
        mark, steps = marks.get(i, 0), 0
        for a in args:
            mark |= marks_of[a]
            steps |= stepped[a]
        if primitive.rules.flat or not any(t.floating for t in types):
            steps |= mark
        marks_of.append(mark)
        stepped.append(steps)
    return marks_of, stepped


def depends(tape: Tape, wrt: Sequence[int]) -> list[list[bool]]:
    """``depends[o][k]``: whether output `o` depends on input ``wrt[k]`` with a derivative.

    Dependence follows the graph, not values: ``x * 0`` depends on `x`, ``floor(x)`` does not.
    """
    marks = reached(tape, {tape.inputs[k]: 1 << n for n, k in enumerate(wrt)}, smoothly=True)
    return [[bool(marks[o] >> n & 1) for n in range(len(wrt))] for o in tape.outputs]


def needed_nodes(tape: Tape, there: Collection[int], outputs: Sequence[int]) -> set[int]:
    """The nodes that the outputs need, besides nodes that are already computed."""
    needed = {o for o in outputs if o not in there}
    for i in range(len(tape.nodes) - 1, -1, -1):
        if i in needed:
            needed.update([a for a in tape.nodes[i].args if a not in there])
    return needed
