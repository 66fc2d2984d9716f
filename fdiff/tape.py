"""The tape: a frozen, typed, hash-consed program in single-assignment form.

A tape is a tuple of nodes; a node's id is its position. Inputs and constants are nodes too.
(R. E. Wengert, "A simple automatic derivative evaluation program", CACM 7(8), 1964.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .arraytype import ArrayType, type_of
from .attributes import cached_property
from .errors import Line, TapeError, numbered, show_line, with_line
from .kernel_rule import KernelRule, Kind
from .primitive import Primitive, register
from .process.forking import no_fork

Params = tuple[tuple[str, Any], ...]  # hashable; which names and types there are, the op decides


Types = tuple[ArrayType, ...]  # of the outputs of a node


class Constant:
    """An array held by the tape, compared by dtype, shape and bytes; never written to."""

    __slots__ = ("_hash", "array")

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._hash: int | None = None

    def _key(self) -> tuple[object, ...]:
        return self.array.dtype, self.array.shape, self.array.tobytes()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Constant) and self._key() == other._key())

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.array.tobytes())
        return self._hash

    def __repr__(self) -> str:
        if self.array.size > 6:
            return f"<{type_of(self.array)}>"
        return np.array2string(self.array, separator=", ").replace("\n", "")


INPUT = register(
    Primitive(
        "input",
        lambda *, type_, **_: (type_,),
        lambda **_: None,
        kernel=KernelRule(Kind.INPUT),
        family="leaf",
    )
)
CONSTANT = register(
    Primitive(
        "constant",
        lambda *, value: (type_of(value.array),),
        lambda *, value: value.array[()],
        kernel=KernelRule(Kind.VALUE),
        family="leaf",
    )
)


class Node(NamedTuple):
    """One operation: primitive, ids of its arguments, static parameters, types of its outputs.

    A node with several outputs is read through ``item`` nodes only.
    """

    primitive: Primitive
    args: tuple[int, ...]
    params: Params
    types: Types

    @property
    def type(self) -> ArrayType:
        return self.types[0]

    @property
    def value(self) -> np.ndarray | None:
        """The array of a constant; None for any other node."""
        return self.params[0][1].array if self.primitive is CONSTANT else None

    def param(self, name: str) -> Any:
        """A static parameter of the op."""
        return dict(self.params)[name]

    @property
    def k(self) -> int:
        """Which output an `item` node projects."""
        return self.params[0][1]


new_node = tuple.__new__  # ``new_node(Node, (...))``: half the time of ``Node(...)``


def _infer_item(source: tuple[ArrayType, ...], *, k: int) -> tuple[ArrayType, ...]:
    return (source[k],)


ITEM = register(
    Primitive(
        "item",
        _infer_item,
        lambda outs, *, k: outs[k],
        kernel=KernelRule(Kind.ITEM),
        family="leaf",
    )
)


@dataclass(frozen=True, eq=False, repr=False)
class Tape:
    """Nodes in evaluation order, the ids of the inputs and of the outputs.

    `lines` maps a node's id to the user's lines that made it; it is no part of the identity.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    lines: Mapping[int, tuple[Line, ...]] = field(default_factory=dict)

    @property
    def input_types(self) -> tuple[ArrayType, ...]:
        return tuple(self.nodes[i].type for i in self.inputs)

    @property
    def output_types(self) -> tuple[ArrayType, ...]:
        return tuple(self.nodes[i].type for i in self.outputs)

    @cached_property
    def _hash(self) -> int:
        return hash((self.nodes, self.inputs, self.outputs))

    def __hash__(self) -> int:
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

    def rows(self) -> list[tuple[str, str, str, str]]:
        """One row a node: name, type, operation, the user's line."""
        rows = []
        for i, node in enumerate(self.nodes):
            types = ", ".join(map(str, node.types))
            told = dict.fromkeys(map(numbered, self.lines.get(i, ())))
            line = "; ".join(show_line(line).strip() for line in told)
            rows.append((f"%{i}", types, operation_text(node), line))
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        left = max((len(a) + len(b) for a, b, _, _ in rows), default=0)
        width = min(max((len(c) for _, _, c, _ in rows), default=0), 60)
        body = [
            f"  {a}: {b:{left - len(a)}} = {c:{width}}  {'# ' + d if d else ''}".rstrip()
            for a, b, c, d in rows
        ]
        outs = ", ".join(f"%{i}" for i in self.outputs)
        return "\n".join(["tape", *body, f"  return {outs}"])

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


def operation_text(node: Node) -> str:
    """A node as it is shown: ``sum(%2, axes=(0,))``."""
    params = [f"{k}={v}" for k, v in node.params if k != "type_"]
    return f"{node.primitive.name}({', '.join([*(f'%{a}' for a in node.args), *params])})"


def infer(primitive: Primitive, params: Params, given: Sequence[Types]) -> Types:
    """Types of the outputs of a node, given those of the outputs of each argument."""
    if primitive is ITEM:
        return primitive.infer(given[0], **dict(params))
    return primitive.infer(*[types[0] for types in given], **dict(params))


_MOST = 1 << 13  # type rules whose answers are remembered
_inferred: dict[tuple[object, ...], Types] = {}


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
        # Not inferred: what was inferred is remembered, and would keep the array.
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
        elif line is not None and line not in (known := self.lines.get(node_id, ())):
            self.lines[node_id] = with_line(known, line)
        return node_id

    def infer(self, primitive: Primitive, args: tuple[int, ...], params: Params) -> Types:
        """Types of the outputs of a node."""
        given = [self.nodes[a].types for a in args]
        key = (primitive, params, *given)
        types = _inferred.get(key)
        if types is None:
            if len(_inferred) >= _MOST:
                _inferred.clear()
            types = _inferred[key] = infer(primitive, params, given)
        return types

    def results(self, node_id: int) -> list[int]:
        """The outputs of a node, each as a node: itself, or an `item` for each of several."""
        count = len(self.nodes[node_id].types)
        if count == 1:
            return [node_id]
        return [self.add(ITEM, (node_id,), (("k", k),)) for k in range(count)]

    def type(self, node_id: int) -> ArrayType:
        return self.nodes[node_id].types[0]

    def finish(self, outputs: Iterable[int]) -> Tape:
        """The tape of what has been entered so far, without nodes no output needs."""
        return prune(Tape(tuple(self.nodes), tuple(self.inputs), tuple(outputs), self.lines))


def prune(tape: Tape) -> Tape:
    """The same program without the nodes that no output needs; inputs stay."""
    nodes = tape.nodes
    live = bytearray(len(nodes))
    for i in (*tape.inputs, *tape.outputs):
        live[i] = 1
    for i in range(len(nodes) - 1, -1, -1):
        if live[i]:
            for a in nodes[i].args:
                live[a] = 1
    first = live.find(0)
    if first < 0:
        return tape
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
    # A builder that goes on shares its lines with the tapes made of it so far.
    lines = {new_id[i]: where for i, where in tape.lines.items() if i < len(nodes) and live[i]}
    return Tape(
        tuple(kept),
        tuple(new_id[i] for i in tape.inputs),
        tuple(new_id[i] for i in tape.outputs),
        lines,
    )


# Enters what stands for a node, given the builder and its ids of the nodes before; that node's id.
Way = Callable[[Any, dict[int, int]], int]


def rebuild(
    tape: Tape, builder: Builder, ways: Mapping[int, Way], ids: dict[int, int] | None = None
) -> Tape:
    """The tape with some nodes entered in other ways, and what is then not needed left out.

    What is entered for a node takes over its lines. `ids` are the builder's ids of nodes that are
    not entered; without them, the inputs are those of the tape.
    """
    ids = {i: builder.input(tape.nodes[i].type) for i in tape.inputs} if ids is None else ids
    for i, (primitive, args, params, types) in enumerate(tape.nodes):
        if i in ids:
            continue
        count = len(builder.nodes)
        if i in ways:
            ids[i] = ways[i](builder, ids)
        else:
            ids[i] = builder.add(primitive, tuple([ids[a] for a in args]), params, None, types)
        if i in tape.lines:
            for new in (ids[i], *range(count, len(builder.nodes))):
                builder.lines.setdefault(new, tape.lines[i])
    return builder.finish([ids[o] for o in tape.outputs])


def verify(tape: Tape, place: str = "") -> Tape:
    """Check every law of the tape; return it, or raise `TapeError` naming the node.

    `place` says where it was made, for the message.
    """
    try:
        _check_laws(tape)
    except TapeError as error:
        raise TapeError(f"{error} {place}".rstrip()) from None
    return tape


def _check_laws(tape: Tape) -> None:
    seen: set[tuple[Primitive, tuple[int, ...], Params]] = set()
    for i, node in enumerate(tape.nodes):
        _check(all(0 <= a < i for a in node.args), i, node, "reads a later node")
        _check(node[:3] not in seen, i, node, "is entered twice")
        seen.add(node[:3])
        given = [tape.nodes[a].types for a in node.args]
        if node.primitive is ITEM:
            _check(len(given[0]) > 1, i, node, "projects a single output")
        else:
            single = all(len(types) == 1 for types in given)
            _check(single, i, node, "reads several outputs without `item`")
        types = infer(node.primitive, node.params, given)
        _check(types == node.types, i, node, f"has types {node.types}, inferred {types}")
    inputs = [i for i, node in enumerate(tape.nodes) if node.primitive is INPUT]
    if sorted(tape.inputs) != inputs or len(set(tape.inputs)) != len(inputs):
        raise TapeError(f"inputs {tape.inputs} are not the input nodes {inputs}")
    if not all(0 <= o < len(tape.nodes) and len(tape.nodes[o].types) == 1 for o in tape.outputs):
        raise TapeError(f"outputs {tape.outputs} are not single-output nodes")


def _check(holds: bool, i: int, node: Node, fault: str) -> None:  # noqa: FBT001 - private
    if not holds:
        raise TapeError(f"node %{i} = {operation_text(node)} {fault}")
