"""Loops that keep rows for each other, which a budget counts: docs/decisions/what-loops-keep.md."""

from __future__ import annotations

from collections.abc import Sequence

from ...named_tuples import NamedTuple
from ...ops.control.loop import LOOP
from ...ops.control.while_loop import LENGTH
from ...tape import Node, Tape

Row = tuple[int, int]  # a loop, and the number of its output


class System(NamedTuple):
    """Loops of one tape that keep rows for each other, in the order in which they run.

    `kept` tells of each loop which of its rows come from which of the others; `rows` are the bytes
    that a trip keeps, `carries` the bytes of the carries of the loops that give them.
    """

    loops: list[int]
    kept: dict[int, dict[int, Row]]
    rows: int
    carries: int

    @property
    def givers(self) -> set[int]:
        return {loop for rows in self.kept.values() for loop, _ in rows.values()}


def systems(tape: Tape) -> list[System]:
    """The systems of the loops of a tape."""
    nodes = tape.nodes
    loops = [
        i for i, n in enumerate(nodes) if n.primitive is LOOP and 1 < n.param("length") < LENGTH
    ]
    if len(loops) < 2:
        return []
    users, read = tape.users(), {*tape.outputs}
    kept: dict[int, dict[int, Row]] = {}
    leader = {i: i for i in loops}
    for i in loops:
        for row, place in _rows_of(tape, i, users):
            readers = users[place]
            if place not in read and readers and all(_reads(nodes, j, i, place) for j in readers):
                for j in readers:
                    first = len(nodes[j].args) - nodes[j].param("rows")
                    here = [k for k, a in enumerate(nodes[j].args[first:]) if a == place]
                    kept.setdefault(j, {}).update(dict.fromkeys(here, (i, row)))
                    old, new = leader[j], leader[i]
                    leader = {k: new if v == old else v for k, v in leader.items()}
    groups: dict[int, list[int]] = {}
    for i in loops:
        groups.setdefault(leader[i], []).append(i)
    parts: list[System] = []
    for group in groups.values():
        if len(group) > 1:
            own = {i: kept.get(i, {}) for i in group}
            rows = {r for table in own.values() for r in table.values()}
            types = {i: nodes[i].param("body").output_types for i, _ in rows}
            size = sum(types[i][k].nbytes for i, k in rows)
            carries = sum(t.nbytes for i in types for t in types[i][: nodes[i].param("carries")])
            parts.append(System(group, own, size, carries))
    return parts


def _rows_of(tape: Tape, i: int, users: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The rows that a loop returns: output numbers, and the nodes that read them."""
    node = tape.nodes[i]
    if len(node.types) == 1:
        return [(0, i)] if not node.param("carries") else []
    items = [(tape.nodes[j].k, j) for j in users[i]]
    return [(k, j) for k, j in items if k >= node.param("carries")]


def _reads(nodes: Sequence[Node], j: int, i: int, place: int) -> bool:
    """Whether the node `j` is a loop of as many trips as loop `i`, which reads `place` as rows."""
    node, giver = nodes[j], nodes[i]
    if node.primitive is not LOOP or node.args[0] != giver.args[0]:
        return False
    same = node.param("length") == giver.param("length")
    return same and place not in node.args[: len(node.args) - node.param("rows")]


def length_of(tape: Tape, system: System) -> int:
    return tape.nodes[system.loops[0]].param("length")
