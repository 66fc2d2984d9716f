"""Rewrite a tape into an equal, shorter one, or make it short from the start.

Common subexpressions merge because the `Builder` never enters an equal node twice; dead nodes go
when the tape is finished; the table of `transforms/rewrites.py` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ..arraytype import ArrayType
from ..errors import Line, with_line
from ..primitive import Primitive
from ..tape import CONSTANT, INPUT, Builder, Node, Params, Tape, new_node
from ..trace import FOLD_LIMIT
from ..trace.stores import SHORTER
from .rewrites import ASKED, MODES, NOTABLE, NOTED, SEEKING, SEEKS, kind

Ids = tuple[int, ...]
Types = tuple[ArrayType, ...]


class Step(NamedTuple):
    """A node to be entered: its arguments are places in a list of ids, `take` picks them.

    `special` tells that rules are asked whatever the arguments are, `seeking` that they are asked
    for some, `noted` that rules look for the node.
    """

    primitive: Primitive
    places: Ids
    take: Callable[[list[int]], Ids] | None  # of at least two
    params: Params
    types: Types
    special: bool
    seeking: bool
    noted: bool


class Simplifier(Builder):
    """A builder that enters what the table of rewrites puts in the place of a node.

    `notable` are the nodes that rules look for among the arguments of others, by kind; `constants`
    too are looked for: a node of constants alone is one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.notable: dict[int, str] = {}
        self.constants: set[int] = set()

    def add(
        self,
        primitive: Primitive,
        args: Ids,
        params: Params = (),
        line: Line | None = None,
        types: Types | None = None,
    ) -> int:
        mode, found, constants = MODES.get(primitive, 0), None, self.constants
        if mode & ASKED or (mode & SEEKS and not self.notable.keys().isdisjoint(args)):
            types = types or self.infer(primitive, args, params)
            found = self._rewritten(primitive, args, params, types) if len(types) == 1 else None
        if found is None and args and args[0] in constants and constants.issuperset(args):
            types = types or self.infer(primitive, args, params)
            found = self._folded(Node(primitive, args, params, types))
        if found is None:
            count = len(self.nodes)
            found = Builder.add(self, primitive, args, params, line, types)
            if mode & NOTED:
                self._note(count)
        elif line is not None and found not in self.lines:
            self.lines[found] = (line,)
        return found

    def _note(self, first: int) -> None:
        """Remember what may be looked for among the nodes from `first` on."""
        for i in range(first, len(self.nodes)):
            node = self.nodes[i]
            if node.primitive is CONSTANT:
                self.constants.add(i)
            if (sought := kind(node)) in NOTABLE:
                self.notable[i] = sought

    def _rewritten(
        self, primitive: Primitive, args: Ids, params: Params, types: Types
    ) -> int | None:
        """What a rule of the table puts in the place of a node."""
        nodes, count = self.nodes, len(self.nodes)
        named = dict(params)
        kinds = [self.notable.get(a) for a in args]
        for rule, sought in SEEKING.get(primitive.name, ()):
            if sought is None or not sought.isdisjoint(kinds):
                found = rule(self, args, named)
                self._note(count)
                count = len(nodes)
                if found is not None and nodes[found].types == types:
                    return found
        return None

    def _folded(self, node: Node) -> int | None:
        """The constant that a small node of constants is."""
        if len(node.types) > 1 or node.type.size > FOLD_LIMIT:
            return None
        if node.primitive.name == "broadcast_to":
            return None
        given = [self.nodes[a].value for a in node.args]
        with np.errstate(all="ignore"):
            value = node.primitive.evaluate(*given, **dict(node.params))
        return self.constant(np.array(value, dtype=node.type.dtype, order="C"))

    def splice(self, steps: Iterable[Step], ids: list[int], line: Line | None) -> None:
        """Enter steps; `ids` are those of their operands, and get that of each step as well.

        As with ops that are recorded, a read sees through stores beside it.
        """
        known, nodes, lines = self._ids, self.nodes, self.lines
        notable, constants = self.notable.keys(), self.constants
        where = None if line is None else (line,)
        for primitive, places, take, params, types, special, seeking, noted in steps:
            args = take(ids) if take is not None else tuple([ids[k] for k in places])
            if (
                special
                or (seeking and not notable.isdisjoint(args))
                or (args and args[0] in constants and constants.issuperset(args))
            ):
                if (shorter := SHORTER.get(primitive.name)) is not None:
                    found, args = shorter(self, args, dict(params))  # type: ignore[arg-type] - a count until it is a template
                    if found is not None:
                        ids.append(found)
                        continue
                ids.append(self.add(primitive, args, params, line, types))
                continue
            key = (primitive, args, params)
            count = len(nodes)
            node_id = known.setdefault(key, count)
            if node_id == count:
                nodes.append(new_node(Node, (primitive, args, params, types)))
                if noted:
                    self._note(node_id)
                if where is not None:
                    lines[node_id] = where
            elif line is not None:
                lines[node_id] = with_line(lines.get(node_id, ()), line)
            ids.append(node_id)

    def replay(self, tape: Tape) -> list[int]:
        """Enter the nodes of a tape, the inputs first; their ids."""
        known, nodes, lines, told = self._ids, self.nodes, self.lines, tape.lines
        notable, constants = self.notable.keys(), self.constants
        ids, modes = [-1] * len(tape.nodes), MODES
        renumbered = ids.__getitem__
        for i in tape.inputs:
            ids[i] = self.input(tape.nodes[i].type)
        for i, node in enumerate(tape.nodes):
            primitive, args, params, types = node
            if primitive is INPUT:
                continue
            given = (*map(renumbered, args),)
            mode = modes.get(primitive, 0)
            if (
                mode & (ASKED | NOTED)
                or (mode and not notable.isdisjoint(given))
                or (given and given[0] in constants and constants.issuperset(given))
            ):
                node_id = self.add(primitive, given, params, None, types)
            else:
                key = (primitive, given, params)
                count = len(nodes)
                node_id = known.setdefault(key, count)
                if node_id == count:
                    same = given == args
                    nodes.append(
                        node if same else new_node(Node, (primitive, given, params, types))
                    )
            ids[i] = node_id
            if i in told and node_id not in lines:
                lines[node_id] = told[i]
        return ids


def simplify(tape: Tape) -> Tape:
    """The same program after one pass of the rewrite table and removal of dead nodes."""
    builder = Simplifier()
    ids = builder.replay(tape)
    return builder.finish([ids[o] for o in tape.outputs])


def steps_of(tape: Tape) -> tuple[list[Step], Ids]:
    """The nodes of a tape to be spliced, and the places of its outputs.

    The places are those of a list that begins with the ids given for the inputs.
    """
    place = {i: k for k, i in enumerate(tape.inputs)}
    steps: list[Step] = []
    for i, node in enumerate(tape.nodes):
        primitive, args, params, types = node
        if primitive is not INPUT:
            place[i] = len(tape.inputs) + len(steps)
            mode = MODES.get(primitive, 0)
            special = bool(mode & ASKED) or primitive.name in SHORTER
            noted = primitive is CONSTANT or kind(node) in NOTABLE
            places = tuple([place[a] for a in args])
            take = itemgetter(*places) if len(places) > 1 else None
            seeking = bool(mode & SEEKS)
            steps.append(Step(primitive, places, take, params, types, special, seeking, noted))
    return steps, tuple([place[o] for o in tape.outputs])
