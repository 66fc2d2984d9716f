"""Rewrite a tape into an equal, shorter one, or make it short from the start.

Common subexpressions merge because the `Builder` never enters an equal node twice (A. P. Ershov,
"On programming of arithmetic operations", CACM 1(8), pages 3-6, 1958); dead nodes go when the tape
is finished (S. S. Muchnick, Advanced Compiler Design and Implementation, 1997, section 18.10); the
rewrites on the records of the ops (`ops/rewrites/`) do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

import fdiff.intact_numpy as np

from ..arraytype import F8, ArrayType
from ..named_tuples import NamedTuple
from ..ops.entrywise.elementwise import add, multiply
from ..ops.rewrites.rewrite_context import SCALED, kind
from ..ops.shapes.view_ops import spread
from ..primitive import ASKED, NOTED, SEEKS, SOUGHT_KINDS, Primitive
from ..process.progress import Stage
from ..tape import CONSTANT, INPUT, Builder, Node, Params, Tape, Types, new_node
from ..trace import FOLD_LIMIT, Trace
from ..trace.load_forwarding import Rule as Shorter
from ..trace.template import Template, template_of
from ..user_lines import Line, with_line

Ids = tuple[int, ...]


class Step(NamedTuple):
    """A step of a template: a node to be entered, whose arguments are `places` in a list of ids.

    `take` picks the arguments. `mode` tells when rewrite rules are asked, `shorter` forwards loads
    from stores, and `noted` tells that rules look for nodes like this.
    """

    primitive: Primitive
    places: Ids
    take: Callable[[list[int]], Ids] | None  # of at least two
    params: Params
    types: Types
    mode: int
    shorter: Shorter | None
    noted: bool


class Simplifier(Builder):
    """A builder that simplifies: it applies the rewrites of an op before it enters a node.

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
        mode, constants = primitive.rewriting, self.constants
        if mode & ASKED or (mode & SEEKS and not self.notable.keys().isdisjoint(args)):
            types = types or self.infer(primitive, args, params)
            shorter_node = (
                self._rewritten(primitive, args, params, types) if len(types) == 1 else None
            )
        else:
            shorter_node = None
        if shorter_node is None and args and args[0] in constants and constants.issuperset(args):
            types = types or self.infer(primitive, args, params)
            shorter_node = self._folded(Node(primitive, args, params, types))
        if shorter_node is None:
            count = len(self.nodes)
            shorter_node = Builder.add(self, primitive, args, params, line, types)
            if mode & NOTED or (primitive is add and args[0] == args[1]):
                self._note(count)
        elif line is not None and shorter_node not in self.lines:
            self.lines[shorter_node] = (line,)
        return shorter_node

    def _note(self, first: int) -> None:
        """Index the nodes from `first` on for later look-ups."""
        nodes = self.nodes
        for i in range(first, len(nodes)):
            node = nodes[i]
            if node[0] is multiply:  # the most of them
                if not self.constants.isdisjoint(node[1]):
                    self.notable[i] = SCALED
                continue
            if node[0] is CONSTANT:
                self.constants.add(i)
            if (sought := kind(node)) in SOUGHT_KINDS:
                self.notable[i] = sought

    def _rewritten(
        self, primitive: Primitive, args: Ids, params: Params, types: Types
    ) -> int | None:
        """The node that a rewrite of its op puts in place of a node; None if no rewrite applies."""
        nodes, count = self.nodes, len(self.nodes)
        kinds = [*map(self.notable.get, args)]
        for rule, sought in primitive.lowering.rewrites:
            if sought is None or not sought.isdisjoint(kinds):
                rewritten = rule(self, args, dict(params))
                if len(nodes) > count:
                    self._note(count)
                    count = len(nodes)
                if rewritten is not None and nodes[rewritten].types == types:
                    return rewritten
        return None

    def _folded(self, node: Node) -> int | None:
        """The value of a small node whose operands are constants, as a constant."""
        if len(node.types) > 1 or node.type.size > FOLD_LIMIT:
            return None
        if not node.primitive.lowering.folds:
            return None
        values = [self.nodes[a].value for a in node.args]
        with np.errstate(all="ignore"):
            value = node.primitive.rules.evaluate(*values, **dict(node.params))
        return self.constant(np.array(value, dtype=node.type.dtype, order="C"))

    def splice(self, steps: Iterable[Step], ids: list[int], line: Line | None) -> None:
        """Enter the steps of a template; `ids` are the ids of its operands, and get the ids of its
        steps.

        As in a recording, loads are forwarded from stores (`trace/load_forwarding.py`). It enters
        what `textbook_splice` enters: a node that no rewrite is asked for, and that is no constant,
        is entered here, without the call of `add`, by what a step knows of its op.
        """
        numbers, nodes, lines = self._ids, self.nodes, self.lines
        notable, constants = self.notable.keys(), self.constants
        for primitive, places, take, params, types, mode, shorter, noted in steps:
            args = take(ids) if take is not None else (ids[places[0]],) if places else ()
            if (
                mode & ASKED
                or (mode & SEEKS and not notable.isdisjoint(args))
                or (args and args[0] in constants and constants.issuperset(args))
            ):
                node_of = None
                if shorter is not None:
                    node_of, args = shorter(self, args, params)
                if node_of is None:
                    node_of = self.add(primitive, args, params, line, types)
                ids.append(node_of)
                continue
            count = len(nodes)
            node_id = numbers.setdefault((primitive, args, params), count)
            if node_id == count:
                nodes.append(new_node(Node, (primitive, args, params, types)))
                if noted or (primitive is add and len(set(args)) == 1):
                    self._note(node_id)
                if line is not None:
                    lines[node_id] = (line,)
            elif line is not None and line not in (there := lines.get(node_id, ())):
                lines[node_id] = with_line(there, line)
            ids.append(node_id)

    def adopt(self, tape: Tape) -> None:
        """Take the nodes of a simplified tape as the first nodes, with their ids."""
        self.nodes, self.inputs, self.lines = [*tape.nodes], [*tape.inputs], {**tape.lines}
        self._ids = {node[:3]: i for i, node in enumerate(tape.nodes)}
        self._note(0)

    def replay(self, tape: Tape, inputs: Sequence[int] | None = None) -> list[int]:
        """Enter the nodes of a tape, and its inputs where none are given; their ids.

        It enters what `textbook_replay` enters: a node that no rewrite is asked for, and that is no
        constant, is entered here, without the call of `add`, and is the tape's own where it can be.
        """
        numbers, nodes, lines, tape_lines = self._ids, self.nodes, self.lines, tape.lines
        notable, constants = self.notable.keys(), self.constants
        ids = [-1] * len(tape.nodes)
        renumbered = ids.__getitem__
        for i, own in zip(tape.inputs, inputs or map(self.input, tape.input_types), strict=True):
            ids[i] = own
        for i, node in enumerate(tape.nodes):
            primitive, args, params, types = node
            if primitive is INPUT:
                continue
            operands = (*map(renumbered, args),)
            mode = primitive.rewriting
            if (
                mode & ASKED
                or (mode & SEEKS and not notable.isdisjoint(operands))
                or (operands and operands[0] in constants and constants.issuperset(operands))
            ):
                node_id = self.add(primitive, operands, params, None, types)
            else:
                count = len(nodes)
                node_id = numbers.setdefault((primitive, operands, params), count)
                if node_id == count:
                    same = operands == args
                    nodes.append(
                        node if same else new_node(Node, (primitive, operands, params, types))
                    )
                    if mode & NOTED or (primitive is add and operands[0] == operands[1]):
                        self._note(count)
            ids[i] = node_id
            if i in tape_lines and node_id not in lines:
                lines[node_id] = tape_lines[i]
        return ids


def textbook_replay(builder: Simplifier, tape: Tape) -> list[int]:
    """The ids that `Simplifier.replay` gives, by one call of `add` for each node.

    It is the reference of `test_textbook_simplifier.py`.
    """
    ids = dict(zip(tape.inputs, map(builder.input, tape.input_types), strict=True))
    for i, (primitive, args, params, types) in enumerate(tape.nodes):
        if primitive is not INPUT:
            ids[i] = builder.add(primitive, tuple([ids[a] for a in args]), params, None, types)
            if i in tape.lines:
                builder.lines.setdefault(ids[i], tape.lines[i])
    return [ids[i] for i in range(len(tape.nodes))]


def textbook_splice(
    builder: Simplifier, steps: Iterable[Step], ids: list[int], line: Line | None
) -> None:
    """`Simplifier.splice` by one call of `add` for each step that no load replaces.

    It is the reference of `test_textbook_simplifier.py`.
    """
    for step in steps:
        args, node_id = tuple([ids[place] for place in step.places]), None
        if step.shorter is not None:
            node_id, args = step.shorter(builder, args, step.params)
        if node_id is None:
            node_id = builder.add(step.primitive, args, step.params, line, step.types)
        ids.append(node_id)


class SimplifyingTrace(Trace):
    """The trace of a transform, whose nodes are simplified as they are entered."""

    builder: Simplifier

    def __init__(self, call: str) -> None:
        super().__init__(call, lines=False, builder=Simplifier())

    def zeros(self, type_: ArrayType) -> int:
        """The derivative of a value of this type that does not move; the derivative of integers is
        real.
        """
        dtype = type_.dtype if type_.floating else F8
        if type_.size < 2 or dtype.kind == "c":
            return self.lift(np.zeros(type_.shape, dtype))
        zero, shape = self.number(0.0, dtype), (("shape", type_.shape),)
        return self.add(spread, (zero,), shape)  # no array, which may be huge


def simplify(tape: Tape) -> Tape:
    """Apply the rewrites in one pass, and remove dead nodes."""
    builder = Simplifier()
    with Stage(nodes=builder.nodes):
        ids = builder.replay(tape)
        return builder.finish([ids[o] for o in tape.outputs])


def spliceable(tape: Tape, result: object = None) -> Template:
    """The tape as a template for `Simplifier.splice`."""
    nodes = tape.nodes

    def step(i: int, places: Ids) -> Step:
        primitive, _, params, types = nodes[i]
        mode, shorter = primitive.rewriting, primitive.lowering.shorten
        noted = bool(mode & NOTED) or kind(nodes[i]) == SCALED
        take = itemgetter(*places) if len(places) > 1 else None
        # What forwards loads is always asked, as some rules are.
        mode |= ASKED if shorter is not None else 0
        return Step(primitive, places, take, params, types, mode, shorter, noted)

    return template_of(tape, step, result)
