"""Pullbacks of loops: the reverse sweep of a body, and the values of each trip that it reads.

Before a sweep, loops that move are *opened*: they give what is kept as further outs, and hold how
they are pulled back (`closed_loops` takes that out again). A loop that is met unopened is run once
more for it. Our own: docs/decisions/what-loops-keep.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...named_tuples import NamedTuple
from ...ops.control.loop import LOOP
from ...ops.entrywise.elementwise import where
from ...tape import ITEM, Builder, Node, Replacement, Tape, rebuild
from ...trace.derived_lines import kept_by_value
from ..activity import reached
from ..late_steps import report
from ..needless_masks import behind_poles, has_poles
from ..simplify import SimplifyingTrace
from .bodies import Places, entered, moving, pulled_back, read_inputs
from .kept_values import KeptValues, kept_values

# `reverse.masked_vjp`, which imports this module.
Sweep = Callable[[Tape, Places, Places, Places | None], tuple[Tape, tuple[bool, ...]]]


class Pullback(NamedTuple):
    """How cotangents are pulled back through one trip.

    `swept` is the reverse sweep over the body, ``(*inputs, *bars) -> (*outputs, *input_bars)``. It
    has a cotangent for the outputs `carries` and `outs`, and one of the inputs `carries` and
    `inputs`. The body `saving` gives what is kept of a trip among its outs, as the outputs
    `places`: values, which the reverse loop has in place of the nodes `kept.nodes` of the sweep,
    then the entries that are stored over, of which it restores the carries `kept.restored`.

    The sweep also takes masks of the outputs `masked`, after all cotangents. It gives masks of the
    carries among these, and of the inputs `left_out`.
    """

    swept: Tape
    carries: Places
    outs: Places
    inputs: Places
    kept: KeptValues
    saving: Tape
    places: Places
    masked: Places = ()
    left_out: Places = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The inputs of the sweep that are cotangents and masks, as nodes."""
        count = len(self.carries) + len(self.outs) + len(self.masked)
        return self.swept.inputs[len(self.swept.inputs) - count :]

    @property
    def results(self) -> tuple[int, ...]:
        """The outputs of the sweep that are cotangents and masks, as nodes."""
        masks = sum(k in self.masked for k in self.carries) + len(self.left_out)
        return self.swept.outputs[-len(self.carries) - len(self.inputs) - masks :]


@kept_by_value
def pullback_of(
    body: Tape,
    carries: int,
    rows: int,
    wanted: tuple[bool, ...],
    seeded: Places,
    masked: Places,
    sweep: Sweep,
    *,
    beyond: bool = False,
) -> Pullback | None:
    """The pullback of a loop's body; None where nothing is pulled back.

    The last `rows` of the inputs are entries of rows. `wanted` tells which inputs of the body need
    a cotangent, `seeded` are the outputs of the loop that have one, `masked` those with a mask.
    Where cotangents of the inputs may meet infinite slopes `beyond` the loop, they have masks, too.
    """
    wrt = moving(body, carries, wanted)
    pulled, outs = pulled_back(body, carries, wrt, seeded)
    read = read_inputs(body, [body.outputs[o] for o in (*pulled, *outs)])
    inputs = tuple([k for k in wrt if k >= carries and wanted[k] and k in read])
    if not pulled and not inputs:
        return None
    swept, _ = sweep(body, (*pulled, *inputs), (*pulled, *outs), None)
    left_out: Places = ()
    if beyond or has_poles(swept, swept.outputs[len(body.outputs) :]):
        swept, masked, left_out = _with_masks(body, pulled, outs, inputs, masked, sweep)
    else:
        masked = ()
    results, first = swept.outputs[len(body.outputs) :], len(body.inputs)
    entries = swept.inputs[first - rows : first]
    kept = kept_values(swept, carries, entries, swept.inputs[first:], results)
    saving, places = _saving(swept, body, carries, kept)
    return Pullback(swept, pulled, outs, inputs, kept, saving, places, masked, left_out)


def _with_masks(
    body: Tape, pulled: Places, outs: Places, inputs: Places, masked: Places, sweep: Sweep
) -> tuple[Tape, Places, Places]:
    """The sweep over a body with masks: of which outputs, and of which further inputs."""
    wrt, of = (*pulled, *inputs), (*pulled, *outs)
    there = {o for o in masked if o in of}
    while True:
        swept, has = sweep(body, wrt, of, tuple(sorted(there)))
        more = there | {k for k, mask in zip(pulled, has, strict=False) if mask}
        if more == there:
            break
        there = more
    left_out = tuple([k for k, mask in zip(inputs, has[len(pulled) :], strict=True) if mask])
    return swept, tuple([o for o in of if o in there]), left_out


def _saving(swept: Tape, body: Tape, carries: int, kept: KeptValues) -> tuple[Tape, Places]:
    """The body that returns kept values among its outs, and the positions of these outputs."""
    count = len(body.outputs)
    with SimplifyingTrace("vjp") as trace:
        ids = {i: trace.input(swept.nodes[i].type).node for i in swept.inputs[: len(body.inputs)]}
        read = [i for r in kept.restored for i in (*r.before(swept), *r.indices(swept))]
        asked = [*swept.outputs[:count], *kept.nodes, *read]
        outputs = entered(swept, trace.builder, ids, asked)[: count + len(kept.nodes)]
        for restored in kept.restored:
            outputs += [x.node for x in restored.taken(swept, ids, trace)]
        own = [*dict.fromkeys(outputs[carries:])]
        saved = [*outputs[carries:count], *[i for i in own if i not in outputs[carries:count]]]
        saving = trace.builder.finish([*outputs[:carries], *saved])
    return saving, tuple([carries + saved.index(i) for i in outputs[count:]])


def opened_loops(
    tape: Tape, wrt: Sequence[int], of: Sequence[int], sweep: Sweep, *, beyond: bool = False
) -> Tape:
    """The tape with its loops ready for a sweep from the outputs `of` to the inputs `wrt`.

    Cotangents of the inputs may meet infinite slopes `beyond` the tape.
    """
    loops = [i for i, node in enumerate(tape.nodes) if node.primitive is LOOP]
    moves = reached(tape, {tape.inputs[k]: 1 for k in wrt})
    seeded = _outputs_with_cotangents(tape, moves, of)
    masked = _outputs_with_masks(tape, moves)
    fragile = behind_poles(tape, moves, beyond=beyond)
    replacements: dict[int, Replacement] = {}
    for i in loops:
        node = tape.nodes[i]
        wanted = tuple([bool(moves[a]) for a in node.args[1:]])
        params = dict(node.params)
        pullback = pullback_of(
            params["body"], params["carries"], params["rows"], wanted, seeded[i], masked[i], sweep,
            beyond=any(a in fragile for a in node.args),
        )  # fmt: skip
        if pullback is not None:
            replacements[i] = entering(node, {"body": pullback.saving, "pulls": pullback})
    return report("open loops", rebuild(tape, Builder(), replacements)) if replacements else tape


def closed_loops(tape: Tape) -> Tape:
    """Undo `opened_loops` in the tape that a sweep has returned."""
    loops = [(i, node) for i, node in enumerate(tape.nodes) if node.primitive is LOOP]
    opened = [(i, node) for i, node in loops if "pulls" in dict(node.params)]
    replacements = {i: entering(node, {"pulls": None}) for i, node in opened}
    return report("close loops", rebuild(tape, Builder(), replacements)) if replacements else tape


def _outputs_with_cotangents(
    tape: Tape, moves: Sequence[int], of: Sequence[int]
) -> dict[int, Places]:
    """Of each loop the outputs that a sweep from the outputs `of` has cotangents of."""
    pulled = {tape.outputs[o] for o in of}
    places: dict[int, set[int]] = {}
    for i in range(len(tape.nodes) - 1, -1, -1):
        node = tape.nodes[i]
        if node.primitive is LOOP:
            places.setdefault(i, {0} if i in pulled else set())
        if i in pulled and node.primitive is ITEM:
            places.setdefault(node.args[0], set()).add(node.k)
        if i in pulled or places.get(i):
            pulled.update([a for a in node.args if moves[a]])
    return {i: tuple(sorted(places[i])) for i in places}


def _outputs_with_masks(tape: Tape, moves: Sequence[int]) -> dict[int, Places]:
    """Of each loop the outputs whose cotangents may leave entries out."""
    left_out: set[int] = set()
    places: dict[int, Places] = {}
    for i in range(len(tape.nodes) - 1, -1, -1):
        node = tape.nodes[i]
        if node.primitive is ITEM and i in left_out:
            places[node.args[0]] = (*places.get(node.args[0], ()), node.k)
        elif node.primitive is LOOP:
            places[i] = places.get(i, (0,) if i in left_out else ())
        if (
            node.primitive.structure.selects
            or node.primitive is where
            or i in left_out
            or places.get(i)
        ):
            left_out.update([a for a in node.args if moves[a]])
    return places


def entering(node: Node, change: dict[str, object]) -> Replacement:
    """How a loop is entered with other parameters, and perhaps with more outputs."""
    params = tuple(sorted([p for p in (dict(node.params) | change).items() if p[1] is not None]))

    def enter(builder: Builder, ids: dict[int, int]) -> int:
        loop = builder.add(LOOP, tuple([ids[a] for a in node.args]), params)
        return loop if len(node.types) > 1 else builder.results(loop)[0]

    return enter
