"""The tape: a frozen, typed, hash-consed program in single-assignment form.

A tape is a tuple of nodes; a node's id is its position. Inputs and constants are nodes too.
(R. E. Wengert, "A simple automatic derivative evaluation program", CACM 7(8), pages 463-464, 1964.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fdiff.intact_numpy as np

from .arraytype import ArrayType, type_of
from .foreign_errors import uninterrupted_entry
from .lazy_attributes import cached_property
from .node import (
    CONSTANT,
    INPUT,
    ITEM,
    Constant,
    Node,
    Params,
    Types,
    check_laws,
    infer,
    is_transient,
    new_node,
    operation_text,
)
from .primitive import Primitive
from .process.environment import verifying
from .process.forking import no_fork
from .user_lines import Line, numbered, printable, show_line, with_line

__all__ = [
    "CONSTANT", "INPUT", "ITEM", "Builder", "Constant", "Node", "Params", "Replacement", "Tape",
    "Types", "infer", "new_node", "operation_text", "prune", "rebuild", "verify",
]  # fmt: skip

# Whether every tape is verified when it is made, as in all tests. Looked at once: without it, a
# tape costs no more than before.
VERIFIED = verifying()


@dataclass(frozen=True, eq=False, repr=False)
class Tape:
    """Nodes in evaluation order, the ids of the inputs and of the outputs.

    `lines` maps a node's id to the user's lines that made it; it is no part of the identity.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    lines: Mapping[int, tuple[Line, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if VERIFIED and self.nodes.__class__ is tuple:  # an eager trace makes its nodes when asked
            verify(self)

    @property
    def input_types(self) -> tuple[ArrayType, ...]:
        return tuple(self.nodes[i].type for i in self.inputs)

    @property
    def output_types(self) -> tuple[ArrayType, ...]:
        return tuple(self.nodes[i].type for i in self.outputs)

    @cached_property
    def _hash(self) -> int:
        return hash((self.nodes, self.inputs, self.outputs))

    @cached_property
    def transient(self) -> bool:
        """Whether the user made one of its operations, which may be dropped and then are freed."""
        return any(is_transient(node.primitive, node.params) for node in self.nodes)

    @cached_property
    def constant_bytes(self) -> int:
        """How much memory the arrays take that are part of the tape."""
        values = [node.value for node in self.nodes if node.primitive is CONSTANT]
        return sum(value.nbytes for value in values if value is not None)

    @uninterrupted_entry
    def __hash__(self) -> int:  # also while a weak cache drops what has died
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Tape)
            and self._hash == other._hash
            and (self.nodes, self.inputs, self.outputs)
            == (other.nodes, other.inputs, other.outputs)
        )

    def __len__(self) -> int:
        return len(self.nodes)

    def users(self) -> list[list[int]]:
        """For each node those that read it, in order; twice where both arguments are it."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for a in node.args:
                users[a].append(i)
        return users

    def operations(self) -> Iterator[tuple[int, Node, Line | None]]:
        """The nodes that are no inputs, each with its number and the first line it came from."""
        lines = self.lines
        for i, node in enumerate(self.nodes):
            if node.primitive is not INPUT:
                yield i, node, lines[i][0] if i in lines else None

    def rows(self) -> list[tuple[str, str, str, str]]:
        """One row a node: name, type, operation, the user's line."""
        rows = []
        for i, node in enumerate(self.nodes):
            types = ", ".join(map(str, node.types))
            lines_of_node = dict.fromkeys(map(numbered, self.lines.get(i, ())))
            line = "; ".join(show_line(line).strip() for line in lines_of_node)
            rows.append((f"%{i}", types, printable(operation_text(node)), printable(line)))
        return rows

    def bodies(self) -> Iterator[tuple[int, str, Tape]]:
        """The tapes among the parameters of nodes: the node, how it calls the tape, the tape."""
        for i, node in enumerate(self.nodes):
            for name, value in node.params:
                several = value if isinstance(value, tuple) else (value,)
                for k, tape in enumerate(several):
                    if isinstance(tape, Tape):
                        yield i, f"{name}[{k}]" if several is value else name, tape

    def __str__(self) -> str:
        rows = self.rows()
        left = max((len(a) + len(b) for a, b, _, _ in rows), default=0)
        width = min(max((len(c) for _, _, c, _ in rows), default=0), 60)
        body = [
            f"  {a}: {b:{left - len(a)}} = {c:{width}}  {'# ' + d if d else ''}".rstrip()
            for a, b, c, d in rows
        ]
        for i, name, tape in self.bodies():
            body[i] += "".join(f"\n    {line}" for line in f"{name}: {tape}".split("\n"))
        outs = ", ".join(f"%{i}" for i in self.outputs)
        return "\n".join(["tape", *body, f"  return {outs}"])

    def __repr__(self) -> str:
        return f"<tape of {len(self)} nodes>"

    def _repr_html_(self) -> str:
        with no_fork:
            from html import escape  # noqa: PLC0415 - for notebooks alone

        cells = "".join(
            "<tr>"
            + "".join(f"<td style='text-align:left'><code>{escape(c)}</code></td>" for c in row)
            + "</tr>"
            for row in self.rows()
        )
        outs = ", ".join(f"%{i}" for i in self.outputs)
        head = "".join(f"<th>{h}</th>" for h in ("id", "type", "operation", "line"))
        return (
            f"<table><caption>{len(self)} nodes, returns {outs}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"
        )


class Builder:
    """Grows a tape node by node; an equal node is never entered twice.

    `derivative` tells that what is entered from now on is a derivative's own: products of constants
    that NumPy never computes, which rewrites may put in another order.
    """

    derivative = False

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[int] = []
        self.lines: dict[int, tuple[Line, ...]] = {}
        self._ids: dict[tuple[Primitive, tuple[int, ...], Params], int] = {}

    def input(self, type_: ArrayType) -> int:
        """Enter one more input."""
        params = (("index", len(self.inputs)), ("type_", type_))
        self.inputs.append(len(self.nodes))
        self.nodes.append(Node(INPUT, (), params, (type_,)))
        return self.inputs[-1]

    def constant(self, array: np.ndarray, types: Types | None = None) -> int:
        """Enter a constant; the caller hands over an array nobody else writes to."""
        types = types or (type_of(array),)
        return self.add(CONSTANT, (), (("value", Constant(array)),), None, types)

    def add(
        self,
        primitive: Primitive,
        args: tuple[int, ...],
        params: Params = (),
        line: Line | None = None,
        types: Types | None = None,
    ) -> int:
        """Id of the node, entered now unless an equal one exists; `types` spares the inference."""
        key = (primitive, args, params)
        nodes, count = self.nodes, len(self.nodes)
        if types is None:
            node_id = self._ids.get(key, count)
            if node_id == count:  # known only once the types are: they may be refused
                types = self.infer(primitive, args, params)
                self._ids[key] = count
        else:
            node_id = self._ids.setdefault(key, count)
        if node_id == count:
            nodes.append(new_node(Node, (primitive, args, params, types)))
            if line is not None:
                self.lines[node_id] = (line,)
        elif line is not None and line not in (lines_of_node := self.lines.get(node_id, ())):
            self.lines[node_id] = with_line(lines_of_node, line)
        return node_id

    def infer(self, primitive: Primitive, args: tuple[int, ...], params: Params) -> Types:
        """Types of the outputs of a node."""
        return infer(primitive, params, [self.nodes[a].types for a in args])

    def results(self, node_id: int) -> list[int]:
        """The outputs of a node, each as a node: itself, or an ``item`` for each of several."""
        count = len(self.nodes[node_id].types)
        if count == 1:
            return [node_id]
        return [self.add(ITEM, (node_id,), (("k", k),)) for k in range(count)]

    def type(self, node_id: int) -> ArrayType:
        return self.nodes[node_id].types[0]

    def finish(self, outputs: Iterable[int]) -> Tape:
        """The tape of what has been entered so far, without nodes no output needs."""
        return _live(tuple(self.nodes), tuple(self.inputs), tuple(outputs), self.lines)


def prune(tape: Tape, outputs: Sequence[int]) -> Tape:
    """The tape with these nodes as outputs, without nodes that none of them needs; inputs stay."""
    kept = _live(tape.nodes, tape.inputs, tuple(outputs), tape.lines)
    return tape if (kept.nodes, kept.outputs) == (tape.nodes, tape.outputs) else kept


def _live(
    nodes: tuple[Node, ...],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    lines: Mapping[int, tuple[Line, ...]],
) -> Tape:
    """The tape of those nodes that an output needs, and of the inputs."""
    live = bytearray(len(nodes))
    for i in (*inputs, *outputs):
        live[i] = 1
    for i in range(len(nodes) - 1, -1, -1):
        if live[i]:
            for a in nodes[i].args:
                live[a] = 1
    first = live.find(0)
    if first < 0:
        return Tape(nodes, inputs, outputs, lines)
    kept = list(nodes[:first])
    new_id = list(range(len(nodes)))
    renumbered = new_id.__getitem__
    for i in range(first, len(nodes)):
        if live[i]:
            new_id[i] = len(kept)
            primitive, args, params, types = node = nodes[i]
            if args:
                args = (*map(renumbered, args),)
                node = new_node(Node, (primitive, args, params, types))
            kept.append(node)
    return Tape(
        tuple(kept),
        tuple(new_id[i] for i in inputs),
        tuple(new_id[i] for i in outputs),
        # A builder that goes on shares its lines with the tapes made of it so far.
        {new_id[i]: where for i, where in lines.items() if i < len(nodes) and live[i]},
    )


Ids = dict[int, int]  # a builder's ids of a tape's nodes
# Enters what replaces a node, given the builder and its ids of the nodes before; that node's id.
Replacement = Callable[[Any, Ids], int]


def rebuild(
    tape: Tape, builder: Builder, replacements: Mapping[int, Replacement], ids: Ids | None = None
) -> Tape:
    """The tape with `replacements` of some nodes, without nodes that are then not needed.

    What replaces a node takes over its lines. `ids` are the builder's ids of nodes that are
    not entered; without them, the inputs are the tape's.
    """
    ids = {i: builder.input(tape.nodes[i].type) for i in tape.inputs} if ids is None else ids
    for i, (primitive, args, params, types) in enumerate(tape.nodes):
        if i in ids:
            continue
        count = len(builder.nodes)
        if i in replacements:
            ids[i] = replacements[i](builder, ids)
        else:
            ids[i] = builder.add(primitive, tuple([ids[a] for a in args]), params, None, types)
        for new in (ids[i], *range(count, len(builder.nodes))) if i in tape.lines else ():
            builder.lines.setdefault(new, tape.lines[i])
    return builder.finish([ids[o] for o in tape.outputs])


def verify(tape: Tape) -> Tape:
    """Check every law of the tape; return it, or raise `TapeError` naming the node."""
    check_laws(tape.nodes, tape.inputs, tape.outputs)
    return tape
