"""Kinks: a tape that finds the points at which a derivative of another tape does not exist.

Derivatives at kinks: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
chapter 14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import fdiff.intact_numpy as np

from ..named_tuples import NamedTuple
from ..ops.entrywise.elementwise import where
from ..ops.entrywise.kink_marks import mark
from ..tape import INPUT, ITEM, Node, Tape
from ..trace import Array, Trace, TracedArray
from ..trace.function_to_tape import splice_all
from ..user_lines import Line
from .activity import reached
from .cotangent_masks import entries_read, entries_taken, masks_of_arguments, narrow_mask

Values = dict[int, TracedArray]
Mask = Array | Literal[True]
Outputs = dict[int, tuple[TracedArray, ...]]


class Check(NamedTuple):
    """A point to search for: `function` has no derivative at `point` of its argument.

    The mask of where that is so and the argument's value are two outputs in succession, from
    `first` on. A mark has no argument to name, and a `fault` is a message that was ready before.
    """

    function: str
    point: str
    argument: int | None
    line: Line | None
    first: int
    fault: bool


def find_kinks(tape: Tape, wrt: Sequence[int], of: Sequence[int]) -> tuple[Tape, list[Check]]:
    """Tape of ``inputs -> masks`` of the points without derivative, in the order of the program.

    Only points count that take part in the derivative of the outputs `of` with respect to the
    inputs `wrt`: not the branch of a `where` that is not taken.
    """
    checks: list[Check] = []
    with Trace("kinks", lines=False) as trace:
        ids = splice_all(tape, [trace.input(t) for t in tape.input_types], trace)
        outputs = {i: _traced(trace, trace.builder.results(k)) for i, k in ids.items()}
        values = {i: outs[0] for i, outs in outputs.items()}
        sources = {tape.inputs[k]: 1 for k in wrt}
        touched, moving = reached(tape, sources), reached(tape, sources, smoothly=True)
        ends = [tape.outputs[k] for k in of if tape.nodes[tape.outputs[k]].type.floating]
        passed = lambda node, a: bool(touched[a]) and not node.primitive.rules.flat  # noqa: E731 - a condition of one line
        live = _live(tape, values, outputs, ends, passed)
        faults = _live_values(tape, values, outputs)
        hits_and_points: list[Array] = []
        for i, node in enumerate(tape.nodes):
            fault = node.primitive is mark and node.param("always")
            where = faults.get(i) if fault else live.get(i) if touched[i] else None
            if node.primitive.rules.kink is None or where is None:
                continue
            arguments = [0] if fault else [k for k, a in enumerate(node.args) if moving[a]]
            for k, hit in _kink_masks(node, arguments, values, where, outputs[i][0]):
                line = tape.lines.get(i, (None,))[0]
                checks.append(Check(*_kink_words(node, k), line, len(hits_and_points), fault))
                hits_and_points += [hit, values[node.args[k]]]
        return trace.builder.finish([trace.lift(x) for x in hits_and_points]), checks


def _traced(trace: Trace, ids: Sequence[int]) -> tuple[TracedArray, ...]:
    return tuple([TracedArray(trace, i, trace.builder.type(i)) for i in ids])


def _kink_words(node: Node, argument: int) -> tuple[str, str, int | None]:
    """Function, point and argument, for the message."""
    if node.primitive is mark:
        params = dict(node.params)
        return str(params["function"]), str(params["point"]), None
    assert node.primitive.rules.kink is not None
    return f"numpy.{node.primitive.name}", node.primitive.rules.kink.point, argument


def _kink_masks(
    node: Node, arguments: Sequence[int], values: Values, where: Mask, out: TracedArray
) -> list[tuple[int, Array]]:
    """The arguments in which `node` may have no derivative, and where: each mask once."""
    args = [values[a] for a in node.args]
    assert node.primitive.rules.kink is not None
    masks = node.primitive.rules.kink.mask(*args, **dict(node.params))
    each = masks if isinstance(masks, tuple) else (masks,) * len(args)
    first_of: dict[int, int] = {}
    for k in arguments:
        if each[k] is not None:
            first_of.setdefault(id(each[k]), k)
    hits = [(k, np.broadcast_to(each[k], out.shape)) for k in first_of.values()]
    return [(k, hit if where is True else np.logical_and(hit, where)) for k, hit in hits]


# --- what takes part ------------------------------------------------------------------------------


def _live_values(tape: Tape, values: Values, outputs: Outputs) -> dict[int, Mask]:
    """Masks of values that any output uses; empty where no mark asks for them."""
    if not any(n.primitive is mark and n.param("always") for n in tape.nodes):
        return {}
    return _live(tape, values, outputs, tape.outputs, lambda *_: True)


def _live(
    tape: Tape,
    values: Values,
    outputs: Outputs,
    ends: Sequence[int],
    passed: Callable[[Node, int], bool],
) -> dict[int, Mask]:
    """The entries of each node that the nodes `ends` depend on; True where it is all of them."""
    live: dict[int, Mask] = dict.fromkeys(ends, True)
    for i in range(len(tape.nodes) - 1, -1, -1):
        node = tape.nodes[i]
        if i not in live or node.primitive is INPUT:
            continue
        if node.primitive is ITEM:
            live[node.args[0]] = True
            continue
        args = [values[a] for a in node.args]
        for a, part in zip(node.args, _read_entries(node, live[i], args, outputs[i]), strict=True):
            if part is not None and passed(node, a):
                live[a] = part if a not in live else _union(live[a], part)
    return live


def _union(mask: Mask, new: Mask) -> Mask:
    return True if mask is True or new is True else np.logical_or(mask, new)


def _read_entries(
    node: Node, mask: Mask, args: Sequence[TracedArray], outs: Sequence[TracedArray]
) -> Sequence[Mask | None]:
    """For each argument, the entries from which the output's entries `mask` are computed."""
    primitive, structure = node.primitive, node.primitive.structure
    floating = outs[0].type.floating
    if structure.chooses and floating:
        return _chosen(node, mask, args, outs)
    if primitive is where or (structure.structural and floating):
        mask = np.ones(outs[0].shape, np.bool_) if mask is True else mask
    elif mask is True or len(outs) > 1 or structure.structural:
        return [True for _ in args]
    return entries_read(node, mask, args, outs)


def _chosen(
    node: Node, mask: Mask, args: Sequence[TracedArray], outs: Sequence[TracedArray]
) -> list[Array | None]:
    """The entries that a maximum or minimum selects, for output entries in `mask`.

    The others have no part in the derivative: their kinks do not count.
    """
    taken = entries_taken(node, np.ones(outs[0].shape, outs[0].dtype), args, outs)
    if mask is not True:
        reduced = node.primitive.family == "reduction"
        whole = masks_of_arguments(node, mask, args, outs) if reduced else [mask] * len(args)
        taken = [t if t is None else t & m for t, m in zip(taken, whole, strict=True)]
    return [t if t is None else narrow_mask(t, a.shape) for t, a in zip(taken, args, strict=True)]
