"""Values that a loop keeps for its reverse loop, which computes fewer operations then.

Of a trip the fewest bytes are kept (`kept_values.py`), and the reverse loop computes the rest
again, such as the stages of a step of Runge-Kutta. Where more rows stay in a cache, it takes less
time to load them. What is kept then is a minimum cut once more, in which an operation on an entry
costs as much as half a number that is stored and loaded.

This is done to tapes that are about to run, whose rows stay as they are: derivatives are taken of
loops that keep the fewest bytes, and values have the same bits wherever they are computed.
Measurements and limits: docs/decisions/what-loops-keep.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..named_tuples import NamedTuple
from ..ops.control.loop import LOOP
from ..tape import INPUT, ITEM, Builder, Node, Replacement, Tape, rebuild
from .activity import needed_nodes
from .loops.bodies import entered, rearranged
from .loops.kept_values import cut, depending
from .loops.loop_pruning import prune_loops
from .loops.loop_systems import Row, systems
from .simplify import Simplifier

CACHE = 1 << 22  # bytes that all trips keep at most, so that they stay in a cache
_ENTRY = 4  # bytes that are stored and loaded in the time of an operation on an entry
_MOST = 64  # rows, so that a body has few arrays


def keep_stages(tape: Tape, limit: int) -> Tape:
    """The tape in which forward loops keep values for reverse loops, in at most `limit` bytes."""
    replacements: dict[int, Replacement] = {}
    for system in systems(tape):
        if len(system.loops) == 2:
            giver, reader = system.loops
            pair = _Pair(tape, giver, reader, system.kept[reader])
            nodes = pair.stages(min(limit, CACHE) // tape.nodes[giver].param("length"))
            if nodes:
                replacements |= pair.replacements(nodes)
    return prune_loops(rebuild(tape, Builder(), replacements)) if replacements else tape


class _Pair(NamedTuple):
    """A loop and the reverse loop that reads its rows: which output each of these rows is."""

    tape: Tape
    giver: int
    reader: int
    kept: Mapping[int, Row]

    @property
    def loops(self) -> tuple[Node, Node]:
        """The nodes of both loops."""
        return self.tape.nodes[self.giver], self.tape.nodes[self.reader]

    @property
    def inputs(self) -> dict[int, int]:
        """By input of the reader's body that is a row of the giver: the output that gives it."""
        node = self.loops[1]
        body: Tape = node.param("body")
        first = len(body.inputs) - node.param("rows")
        return {body.inputs[first + k]: o for k, (_, o) in self.kept.items()}

    def is_early(self, k: int) -> bool:
        """Whether an argument of the reader is computed before the giver."""
        i = self.loops[1].args[k]
        return i < self.giver or self.tape.nodes[i].primitive is INPUT

    def stages(self, room: int) -> tuple[int, ...]:
        """The nodes of the reader's body that the giver is to keep; none to change nothing."""
        node = self.loops[1]
        body: Tape = node.param("body")
        first, rows = node.param("carries"), len(body.inputs) - node.param("rows")
        own = self.inputs
        late = [
            i
            for k, i in enumerate(body.inputs)
            if i not in own and (k < first or not self.is_early(1 + k))
        ]
        pulled = depending(body, late)
        needed = needed_nodes(body, (), body.outputs)
        read = {a for i in needed & pulled for a in body.nodes[i].args}
        read = {*read, *body.outputs} - pulled
        varying = {*own, *body.inputs[rows:]} - pulled
        nodes = cut(body, {*own}, varying, read, {}, _ENTRY)
        types = [body.nodes[i].type for i in nodes]
        fits = len(types) <= _MOST and sum(t.nbytes for t in types) <= room
        return tuple(sorted(nodes)) if fits and nodes - {*own} else ()

    def replacements(self, stages: Collection[int]) -> dict[int, Replacement]:
        """Functions that enter both loops, with the stages among the rows of the reader."""
        giver, reader = self.loops
        body: Tape = reader.param("body")
        new, count = [i for i in stages if i not in self.inputs], len(giver.types)
        shared, rows = self._further(new)
        giving = self._giving(new, shared, rows)
        reading = rearranged(body, [*body.inputs, *new], body.outputs)
        own = len(giver.args) - giver.param("rows")

        def give(builder: Builder, ids: dict[int, int]) -> int:
            args = [*giver.args[:own], *shared, *giver.args[own:], *rows]
            return _loop(builder, giver, [ids[a] for a in args], giving, len(rows))

        def read(builder: Builder, ids: dict[int, int]) -> int:
            more = range(count, count + len(new))
            table = [builder.add(ITEM, (ids[self.giver],), (("k", k),)) for k in more]
            args = [*[ids[a] for a in reader.args], *table]
            return _loop(builder, reader, args, reading, len(new))

        return {self.giver: give, self.reader: read}

    def _further(self, stages: Collection[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Further invariants and rows that the giver reads to compute the stages.

        Given are arguments, as nodes of the tape, with the inputs of the reader's body.
        """
        giver, reader = self.loops
        body: Tape = reader.param("body")
        needed = needed_nodes(body, (), sorted(stages))
        first = len(body.inputs) - reader.param("rows")
        shared, rows = dict[int, int](), dict[int, int]()
        for k, i in enumerate(body.inputs):
            if i in needed and i not in self.inputs:
                (shared if k < first else rows).setdefault(reader.args[1 + k], i)
        own = len(giver.args) - giver.param("rows")
        invariants = giver.args[1 + giver.param("carries") : own]
        return (
            {a: i for a, i in shared.items() if a not in invariants},
            {a: i for a, i in rows.items() if a not in giver.args[own:]},
        )

    def _giving(self, stages: list[int], shared: dict[int, int], rows: dict[int, int]) -> Tape:
        """The giver's body with the stages as further outputs; `shared` and `rows` are new."""
        giver, reader = self.loops
        body, other = giver.param("body"), reader.param("body")
        builder, ids = Simplifier(), dict[int, int]()
        own, last = len(giver.args) - giver.param("rows"), len(other.inputs) - reader.param("rows")
        places = [dict[int, int](), dict[int, int]()]  # invariants and rows by their arguments
        for begin, end, more, place in (
            (1, own, shared, places[0]),
            (own, len(giver.args), rows, places[1]),
        ):
            for k in range(begin, end):
                i = body.inputs[k - 1]
                ids[i] = builder.input(body.nodes[i].type)
                if k > giver.param("carries"):
                    place.setdefault(giver.args[k], ids[i])
            place.update({a: builder.input(other.nodes[i].type) for a, i in more.items()})
        outputs = entered(body, builder, ids, body.outputs)
        there = {i: outputs[o] for i, o in self.inputs.items()}
        for k, i in enumerate(other.inputs):
            place = places[k >= last].get(reader.args[1 + k])
            if place is not None and k >= reader.param("carries"):
                there.setdefault(i, place)
        return builder.finish([*outputs, *entered(other, builder, there, stages)])


def _loop(builder: Builder, old: Node, args: list[int], body: Tape, more: int) -> int:
    """Add a loop like `old` with another body, and with `more` more rows."""
    params = dict(old.params) | {"body": body, "rows": old.param("rows") + more}
    loop = builder.add(LOOP, tuple(args), tuple(sorted(params.items())))
    return loop if len(body.outputs) > 1 else builder.results(loop)[0]
