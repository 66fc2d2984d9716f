"""The structure of a tape without its sizes and values: the source and the key of a kernel.

Each distinct size other than 1 becomes a symbol ``n0, n1, ...`` in order of first appearance;
slice starts and constants become entries ``m0, m1, ...`` of an integer table and ``f0, f1, ...`` of
a float table, one for each use, so that no coincidence of values makes another kernel. Only what
changes the code stays: the exponents an op has a shorter text for, and zeros that fill an array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import Shape
from ...errors import TapeError
from ...kernel_rule import KernelRule, Kind
from ...tape import CONSTANT, INPUT, Constant, Node, Tape
from ...transforms.pipeline import TO_GRAPH, derive
from .control_parameters import bodies_of, carries_of, control_parameters, slots_read
from .graph_draft import Draft, disjoint_stores_above, slices, stored_slice
from .kernel_graph import Data, KernelGraph, Operation, SliceParameters, Values
from .small_sizes import many_rows, small_sizes
from .stored_entries import bounds

# Kinds that have no parameters but what their shapes tell.
_OF_SHAPES = (Kind.RESHAPE, Kind.BROADCAST, Kind.IOTA, Kind.SCATTER_ADD)
_DTYPES = frozenset(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])


def supported(tape: Tape) -> bool:
    """Whether a kernel can be made of `tape`."""
    return next(_refused(tape), None) is None


def missing(tape: Tape) -> list[str]:
    """The ops of `tape` that no kernel can be made of, or the dtypes they give."""
    return list(dict.fromkeys(_refused(tape)))


def no_kernel(tape: Tape) -> TapeError:
    """The error of one who asks for a kernel of a tape of which none can be made."""
    return TapeError(f"a kernel was asked for that cannot be made: no {', '.join(missing(tape))}")


def has_kernel(node: Node) -> bool:
    """Whether a node can be part of a kernel."""
    return next(_refused_in(node), None) is None


def _refused(tape: Tape) -> Iterator[str]:
    for node in tape.nodes:
        yield from _refused_in(node)


def _refused_in(node: Node) -> Iterator[str]:
    if node.primitive.lowering.kernel is None and node.primitive.lowering.spelled is None:
        yield node.primitive.name
    for body in bodies_of(node):
        yield from _refused(body)
    for t in node.types:
        if t.dtype.str[1:] not in _DTYPES:
            yield f"{node.primitive.name} of {t.dtype}"


def kernel_graph(tape: Tape, layouts: tuple[str, ...]) -> tuple[KernelGraph, Values]:
    """Split `tape` into its structure and its values; layouts are ``"C"`` or ``"A"`` an input."""
    draft = Draft(_prepared(tape), layouts)
    graph, sizes = _graph_of(draft), [n for n, _ in draft.symbols]
    values = Values(
        (*sizes, *draft.ints), tuple(draft.floats), tuple(draft.arrays), tuple(draft.owners)
    )
    return graph, values


def _prepared(tape: Tape) -> Tape:
    """The tape as a graph is made of it."""
    return derive(TO_GRAPH, tape, small_sizes=small_sizes)


def _graph_of(draft: Draft) -> KernelGraph:
    """The graph of the draft's tape, of which nothing is entered yet."""
    _enter_operations(draft)
    tape, place = draft.tape, draft.place
    rows = 0 if draft.is_body else many_rows(tape, draft.small)
    return KernelGraph(
        tuple(draft.ops),
        tuple(place[i] for i in tape.inputs),
        tuple(place[o] for o in tape.outputs),
        len(draft.symbols),
        len(draft.ints),
        len(draft.floats),
        len(draft.arrays),
        draft.symbols.get((rows, False), ""),
        tuple((name, n) for (n, literal), name in draft.symbols.items() if literal),
        draft.carries,
    )


def nodes_of_operations(tape: Tape, layouts: tuple[str, ...]) -> dict[int, int]:
    """The node of `tape` that each operation of its kernel graph stands for; numbers have none.

    Empty where the graph is made of a tape that `TO_GRAPH` has changed.
    """
    if _prepared(tape) is not tape:
        return {}
    draft = Draft(tape, layouts)
    _enter_operations(draft)
    return {op: node for node, op in draft.place.items()}


def _enter_operations(draft: Draft) -> None:
    """Enter the operations of the draft's tape, and what else its nodes become."""
    tape, outputs = draft.tape, set(draft.tape.outputs)
    for i in _canonical_order(tape):
        node = tape.nodes[i]
        if i in outputs or not _is_number(node):
            op = _operation(draft, i, node)
            draft.place[i] = draft.add(op)


def _canonical_order(tape: Tape) -> list[int]:
    """Inputs, then nodes as the outputs call for them: the same however a tape was built."""
    order = list(tape.inputs)
    seen = set(order)
    stack = [(o, False) for o in reversed(tape.outputs)]
    while stack:
        i, ready = stack.pop()
        if ready:
            order.append(i)
        elif i not in seen:
            seen.add(i)
            stack.append((i, True))
            args = [tape.nodes[i].args[slot] for slot in slots_read(tape, tape.nodes[i])]
            stack.extend((a, False) for a in reversed(args) if a not in seen)
    return order


def _is_number(node: Node) -> bool:
    """Whether the node is a constant of one entry: each use of it has an operation of its own."""
    return node.primitive is CONSTANT and node.type.size == 1


def _operation(draft: Draft, i: int, node: Node) -> Operation:
    dtypes, shapes = _dtypes_of(node), tuple([draft.dims(t.shape) for t in node.types])
    if node.primitive is CONSTANT:
        return _number(draft, node) if _is_number(node) else _array(draft, i, node)
    if node.primitive is INPUT:
        k = draft.tape.inputs.index(i)
        layout = draft.layouts[k] if shapes[0] else "C"
        return Operation(Kind.INPUT, "", (), dtypes, shapes, (k, layout))
    rule = node.primitive.lowering.kernel
    if rule is None:
        raise no_kernel(draft.tape)
    name = node.primitive.name if rule.kind in (Kind.ELEMENTWISE, Kind.ROUTINE) else ""
    if rule.steps:
        return _last_step(draft, node, rule)
    if rule.kind.is_elementwise:
        text, used = _expression(draft, node, rule)
        args = tuple([_argument(draft, node, slot) for slot in range(used)])
        return Operation(rule.kind, text, args, dtypes, shapes, (), name)
    if bodies := bodies_of(node):
        pairs = zip(bodies, carries_of(node), strict=True)
        graphs = tuple([_body(draft, body, carries) for body, carries in pairs])
        args = tuple([_argument(draft, node, slot) for slot in slots_read(draft.tape, node)])
        data = (("bodies", graphs), *control_parameters(draft, node))
        return Operation(rule.kind, "", args, dtypes, shapes, data)
    args = tuple([_argument(draft, node, slot) for slot in range(len(node.args))])
    data = _data(draft, i, node, rule.kind)
    return Operation(rule.kind, "", args, dtypes, shapes, data, name, rule.routine)


def _dtypes_of(node: Node) -> tuple[str, ...]:
    return tuple([t.dtype.str[1:] for t in node.types])


def _argument(draft: Draft, node: Node, slot: int) -> int:
    """The operation that is read; a number becomes a table entry, or text if that changes code."""
    a = node.args[slot]
    source = draft.tape.nodes[a]
    if not _is_number(source):
        return draft.place[a]
    if not _is_literal(node, slot, _item(source)):
        return draft.add(_number(draft, source))
    shape = draft.dims(source.type.shape)
    op = Operation(Kind.VALUE, repr(_item(source).item()), (), _dtypes_of(source), (shape,))
    if op not in draft.literals:
        draft.literals[op] = draft.add(op)
    return draft.literals[op]


def _item(node: Node) -> np.generic:
    value = dict(node.params)["value"]
    assert isinstance(value, Constant)
    return value.array.reshape(-1)[0]


def _is_literal(user: Node, slot: int, item: np.generic) -> bool:
    if item.dtype.kind == "b":
        return True
    rule = user.primitive.lowering.kernel
    assert rule is not None
    if rule.kind is Kind.BROADCAST:
        return bool(item == 0) and not np.signbit(item)
    return bool(rule.literals) and slot == 1 and float(item) in rule.literals


def _number(draft: Draft, node: Node) -> Operation:
    """A number as the name of a new table entry; a bool as text."""
    item = _item(node)
    dtypes, shapes = _dtypes_of(node), (draft.dims(node.type.shape),)
    if item.dtype.kind == "b":
        return Operation(Kind.VALUE, repr(item.item()), (), dtypes, shapes)
    if item.dtype.kind == "f":
        return Operation(Kind.VALUE, draft.real(float(item)), (), dtypes, shapes)
    wrapped = int(item) - (1 << 64) if int(item) >= 1 << 63 else int(item)
    return Operation(Kind.VALUE, draft.integer(wrapped), (), dtypes, shapes)


def _array(draft: Draft, i: int, node: Node) -> Operation:
    """A constant array: one more argument of the kernel. Positions in axes are not checked there.

    `data` has its number, and the lengths that are above all of its entries.
    """
    value = dict(node.params)["value"]
    assert isinstance(value, Constant)
    array, (dtype,), below = value.array, _dtypes_of(node), ()
    if i in draft.stores.indexed:
        below = tuple(map(draft.dim, bounds(array, draft.stores.indexed[i])))
        if dtype == "i8" and below and array.size and array.max() < 1 << 31:
            array, dtype = array.astype(np.int32), "i4"
    draft.arrays.append(np.ascontiguousarray(array).reshape(-1))
    shape = draft.dims(node.type.shape)
    return Operation(Kind.ARRAY, "", (), (dtype,), (shape,), (len(draft.arrays) - 1, *below))


def _expression(draft: Draft, node: Node, rule: KernelRule) -> tuple[str, int]:
    """Text of an elementwise op and how many of its operands it reads."""
    if rule.constants and len(node.args) == 2 and _is_number(draft.tape.nodes[node.args[1]]):
        text = dict(rule.constants).get(float(_item(draft.tape.nodes[node.args[1]])))
        if text is not None:
            return text, 1
    if rule.mixed_signs is not None:
        kinds = [draft.tape.nodes[a].type.dtype.str[1:] for a in node.args]
        if {*kinds} == {"i8", "u8"}:
            return rule.mixed_signs[kinds.index("i8")], len(node.args)
    return rule.text, len(node.args)


def _last_step(draft: Draft, node: Node, rule: KernelRule) -> Operation:
    """The last of several expressions of an elementwise op; those before it are entered."""
    places = [_argument(draft, node, slot) for slot in range(len(node.args))]
    if rule.address is not None:
        draft.owners.append(rule.address.owner)
        number = draft.integer(rule.address.value)
        places.append(draft.add(Operation(Kind.VALUE, number, (), ("i8",), ((),))))
    (dtype,), shape = _dtypes_of(node), draft.dims(node.type.shape)
    ops: list[Operation] = []
    for text, args, own in rule.steps:
        operands = tuple([places[a] for a in args])
        name = node.primitive.name
        ops.append(Operation(rule.kind, text, operands, (own or dtype,), (shape,), (), name))
        if len(ops) < len(rule.steps):
            places.append(draft.add(ops[-1]))
    return ops[-1]


def _body(draft: Draft, tape: Tape, carries: int) -> KernelGraph:
    """The graph of a body, whose sizes and values go to the tables of the whole kernel.

    Equal bodies have one graph.
    """
    graph = draft.bodies.get((tape, carries))
    if graph is None:
        own = replace(
            draft, tape=_prepared(tape), layouts=("C",) * len(tape.inputs), carries=carries, ops=[],
            place={}, literals={}, regions={}, shifts={},
        )  # fmt: skip
        graph = draft.bodies[tape, carries] = _graph_of(own)
    return graph


def _data(draft: Draft, i: int, node: Node, kind: Kind) -> Data:
    """Structural parameters; slice starts and odd steps by the name of their table entry."""
    params = dict(node.params)
    if kind in (Kind.SLICE, Kind.UNSLICE, Kind.UPDATE):
        moved = draft.tape.nodes[node.args[-1]].type.shape
        outer, inner = (moved, node.type.shape) if kind is Kind.SLICE else (node.type.shape, moved)
        starts, steps = cast("Shape", params["starts"]), cast("Shape", params["steps"])
        if kind is Kind.UPDATE:
            return stored_slice(draft, i, node, starts, steps)
        pairs = slices(draft, starts, steps, outer, inner)
        if kind is Kind.UNSLICE:
            wide = all(2 * n > full for n, full in zip(inner, outer, strict=True))
            return SliceParameters(pairs, wide=wide)
        beside = disjoint_stores_above(draft, node, starts, steps) if draft.above else 0
        return SliceParameters(pairs, beside)
    if kind is Kind.SCATTER_SET:
        return SliceParameters((), *draft.stores.of(i))
    if kind in _OF_SHAPES:
        return ()
    return tuple(
        sorted(
            (k, repr(v) if not isinstance(v, (int, tuple, str)) else v) for k, v in params.items()
        )
    )
