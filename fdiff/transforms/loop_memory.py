"""What a loop keeps for its reverse loop: of each trip the values that the pullback reads.

Before a sweep, loops that move are *opened*: they give what is kept as further outs. A loop that is
met unopened is run once more for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..ops.loop import LOOP
from ..tape import ITEM, Builder, Node, Tape, Way, rebuild
from .bodies import Places, moving, pulled_back, read_inputs, rearranged
from .dependence import reached

Sweep = Callable[[Tape, Places, Places], Tape]  # `reverse.vjp`, which imports this module


class Pullback(NamedTuple):
    """How cotangents are pulled back through one trip.

    `swept` is the reverse sweep over the body, ``(*inputs, *bars) -> (*outputs, *input_bars)``. It
    has a cotangent for the outputs `carries` and `outs`, and one of the inputs `carries` and
    `inputs`. Of its nodes the reverse loop is given those that are `kept`, as rows.
    """

    swept: Tape
    carries: Places
    outs: Places
    inputs: Places
    kept: tuple[int, ...]


@lru_cache(maxsize=256)
def pullback_of(
    body: Tape, carries: int, wanted: tuple[bool, ...], seeded: Places, sweep: Sweep
) -> Pullback | None:
    """The pullback of a loop's body; None where nothing is pulled back.

    `wanted` tells which inputs of the body need a cotangent, `seeded` are the outputs of the loop
    that have one.
    """
    wrt = moving(body, carries, wanted)
    pulled, outs = pulled_back(body, carries, wrt, seeded)
    inputs = [k for k in wrt if k >= carries and wanted[k]]
    read = read_inputs(body, [body.outputs[o] for o in (*pulled, *outs)])
    inputs = [k for k in inputs if k in read]
    if not pulled and not inputs:
        return None
    swept = sweep(body, (*pulled, *inputs), (*pulled, *outs))
    read = read_inputs(swept, swept.outputs[len(body.outputs) :])
    kept = [swept.inputs[k] for k in read if k < carries]
    return Pullback(swept, pulled, outs, tuple(inputs), tuple(kept))


def saving(pullback: Pullback, body: Tape, carries: int) -> tuple[Tape, Places]:
    """The body that gives what is kept among its outs, and which of its outputs that is."""
    swept = pullback.swept
    outputs = [*swept.outputs[: len(body.outputs)]]
    places = []
    for i in pullback.kept:
        if i not in outputs[carries:]:
            outputs.append(i)
        places.append(outputs.index(i, carries))
    return rearranged(swept, swept.inputs[: len(body.inputs)], outputs), tuple(places)


def opened_loops(tape: Tape, wrt: Sequence[int], sweep: Sweep) -> Tape:
    """The tape with loops that depend on the inputs `wrt` giving what is kept for a sweep."""
    loops = [i for i, node in enumerate(tape.nodes) if node.primitive is LOOP]
    if not loops:
        return tape
    moves = reached(tape, {tape.inputs[k]: 1 for k in wrt})
    read = _outputs_read(tape)
    ways: dict[int, Way] = {}
    for i in loops:
        node = tape.nodes[i]
        wanted = tuple([bool(moves[a]) for a in node.args[1:]])
        if any(wanted) and (way := _opening(node, wanted, read[i], sweep)) is not None:
            ways[i] = way
    return rebuild(tape, Builder(), ways) if ways else tape


def _outputs_read(tape: Tape) -> dict[int, Places]:
    """Of each loop the outputs that are read by any node, or are outputs of the tape."""
    read: dict[int, set[int]] = {}
    for i, node in enumerate(tape.nodes):
        if node.primitive is LOOP:
            read[i] = {0} if len(node.types) == 1 else set()
        elif node.primitive is ITEM and node.args[0] in read:
            read[node.args[0]].add(node.k)
    return {i: tuple(sorted(places)) for i, places in read.items()}


def _opening(node: Node, wanted: tuple[bool, ...], read: Places, sweep: Sweep) -> Way | None:
    """How the loop is entered that gives what is kept; None where it does so already."""
    params = dict(node.params)
    body: Tape = params["body"]
    seeded = tuple([o for o in read if body.output_types[o].floating])
    pullback = pullback_of(body, params["carries"], wanted, seeded, sweep)
    if pullback is None:
        return None
    opened, _ = saving(pullback, body, params["carries"])
    if len(opened.outputs) == len(body.outputs):
        return None
    params = tuple(sorted((params | {"body": opened}).items()))

    def enter(builder: Builder, ids: dict[int, int]) -> int:
        loop = builder.add(LOOP, tuple([ids[a] for a in node.args]), params)
        return loop if len(node.types) > 1 else builder.results(loop)[0]

    return enter
