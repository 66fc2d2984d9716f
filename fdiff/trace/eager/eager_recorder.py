"""Eager recorders: nodes are computed as they are added.

For code that branches another way at each call, a tape would be recorded and thrown away. So its
nodes get their values at once, and derivatives are taken from them directly. Nothing is shared,
folded, guarded or kept for another call, except what does not depend on the branches taken: the
operations of `operation_cache.py` and the templates of `operation_templates.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import F8, INT, ArrayType, type_of
from ...facets import EagerRule, Lowering, Rules
from ...primitive import PRIMITIVES, Primitive
from ...tape import CONSTANT, INPUT, Builder, Node, Params, Tape, Types, new_node
from ...user_lines import Line, user_line
from ..branching.guards import GuardSet
from ..node_strides import NodeLayouts
from ..operation_cache import SMALL, STORES_ENTRIES, Op, op_of
from ..provenance import coordinates
from ..recorder import Recorder
from ..trace_stack import stack

# A number beside a scalar, as a node without arguments: it is not active, and no rule reads it.
NUMBER = Primitive("number", "leaf", Rules(lambda *, type_: (type_,), lambda **_: None))


def _stored_type(base: ArrayType, *values: ArrayType, places: tuple[int, ...]) -> tuple[ArrayType]:
    return (base,)


def _stored(base: np.ndarray, *values: object, places: tuple[int, ...]) -> np.ndarray:
    out = np.array(base, order="C")
    out.reshape(-1)[list(places)] = values
    return out


# An array with single entries stored over it, by flat position. Only eager traces have such nodes;
# `transforms/eager` has their derivative rules.
STORE = Primitive(
    "store_entries", "linear", Rules(_stored_type, _stored),
    lowering=Lowering(eager=EagerRule(scalar_rule=STORES_ENTRIES)),
)  # fmt: skip


class _Nodes(Sequence[Node]):
    """The nodes of an eager trace, made when somebody asks for one."""

    def __init__(self, ops: list[Op], args: list[tuple[int, ...]]) -> None:
        self._ops = ops
        self._args = args

    def __len__(self) -> int:
        return len(self._ops)

    def __iter__(self) -> Iterator[Node]:  # that of `Sequence` ends at any IndexError
        return map(self.__getitem__, range(len(self._ops)))

    def __getitem__(self, i: Any) -> Any:
        if i.__class__ is slice:
            return [self[k] for k in range(len(self))[i]]
        op = self._ops[i]
        return new_node(Node, (op.primitive, self._args[i], op.params, op.types))


class EagerBuilder(Builder):
    """Ops with their arguments, their values, and whether they are active: have a derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Op] = []
        self.args: list[tuple[int, ...]] = []
        self.values: list[object] = []
        self.active: list[bool] = []
        self.nodes = _Nodes(self.ops, self.args)  # type: ignore[assignment] - it is only read
        self.wide: dict[float, int] = {}  # nodes of numbers beside float64
        self.single: dict[float, int] = {}  # and beside float32

    def input(self, type_: ArrayType) -> int:
        params = (("index", len(self.inputs)), ("type_", type_))
        node_id = self.leaf(Op(INPUT, params, (), (), (type_,)), None)
        self.inputs.append(node_id)
        return node_id

    def type(self, node_id: int) -> ArrayType:
        return self.ops[node_id].types[0]

    def add(
        self,
        primitive: Primitive,
        args: tuple[int, ...],
        params: Params = (),
        line: Line | None = None,
        types: Types | None = None,
    ) -> int:
        ops = self.ops
        if primitive is CONSTANT:
            return self.enter(Op(CONSTANT, params, (), (), (type_of(params[0][1].array),)), ())
        operand_types = tuple([ops[a].types for a in args])
        fixed = [
            (k, ops[a].params[0][1])
            for k, a in enumerate(args)
            if ops[a].primitive is CONSTANT and ops[a].types[0].size <= SMALL
        ]
        return self.enter(op_of(primitive, params, operand_types, tuple(fixed)), args)

    def enter(self, op: Op, args: tuple[int, ...]) -> int:
        """Compute one more node."""
        values, active = self.values, self.active
        value = op.call(*[values[a] for a in args])
        is_active = False
        if op.floating:
            for a in args:
                if active[a]:
                    is_active = True
                    break
        active.append(is_active)
        self.ops.append(op)
        self.args.append(args)
        values.append(value)
        return len(values) - 1

    def splice(self, steps: Iterable[tuple[Op, tuple[int, ...]]], ids: list[int]) -> None:
        """Enter the steps of a template; `ids` holds its operands, and gets the new nodes."""
        enter = self.enter
        for op, places in steps:
            ids.append(enter(op, tuple([ids[p] for p in places])))

    def leaf(self, op: Op, value: object) -> int:
        """One more node without arguments."""
        self.ops.append(op)
        self.args.append(())
        self.active.append(False)
        self.values.append(value)
        return len(self.values) - 1

    def number(self, value: Any, dtype: np.dtype) -> int:
        """The node of a Python number that meets a scalar: one for all equal numbers of a dtype."""
        nodes = self.wide if dtype == F8 else self.single
        node = nodes.get(value)
        if node is None or not value:  # 0.0 equals -0.0
            node = nodes[value] = self.leaf(number_op(ArrayType((), dtype)), dtype.type(value))
        return node

    def clear(self) -> None:
        """Release all nodes and values."""
        for part in (self.ops, self.args, self.values, self.active, self.inputs):
            part.clear()

    def finish(self, outputs: Iterable[int]) -> Tape:
        return Tape(self.nodes, tuple(self.inputs), tuple(outputs))  # type: ignore[arg-type] - nodes are made when asked for


class EagerGuardSet(GuardSet):
    """Gives Python values that are there already, and adds no guard.

    `answers` are what Python saw, in order: calls with the same answers run the same nodes.
    """

    def __init__(self, trace: EagerRecorder) -> None:
        super().__init__(trace.builder, trace.fail)
        self.trace = trace
        self.values = trace.builder.values
        self.answers, self._depending = list[object](), list[bool]()

    def saw(self, value: object) -> bool:
        """The truth value of a scalar, which Python asked for."""
        self.trace.tainted = True
        truth = bool(value)
        self.answers.append(truth)
        if stack.branches is not None:
            stack.branches[user_line(2)] += 1
        return truth

    def value(self, node_id: int, action: str) -> object:
        self.trace.tainted = True
        array = self.values[node_id]
        self.answers.append(hash(np.asarray(array).tobytes()))
        return array

    def guard(self, node_id: int, action: str) -> np.ndarray:
        return np.asarray(self.value(node_id, action))

    def is_known(self, node_id: int) -> bool:
        return True

    def is_active(self, node_id: int) -> bool:
        return self.trace.builder.active[node_id]

    def depends(self, node_id: int) -> bool:
        builder, depending = self.trace.builder, self._depending
        for i in range(len(depending), node_id + 1):
            args = () if builder.ops[i].primitive.rules.stops else builder.args[i]
            depending.append(builder.active[i] or any(depending[a] for a in args))
        return depending[node_id]

    def expect(self, node_id: int, value: Any) -> None:
        if not np.array_equal(self.guard(node_id, ""), value):
            raise RuntimeError("a program recorded at these values decides otherwise at them")

    def close(self) -> None:
        """Nothing yet: derivatives are taken in the trace after the run (see `release`)."""

    def release(self) -> None:
        """Release the values, and the trace."""
        super().close()
        del self.trace, self.values


class EagerRecorder(Recorder):
    """A recorder whose nodes have values from the start."""

    builder: EagerBuilder
    guards: EagerGuardSet
    eager = True

    def __init__(self, call: str) -> None:
        super().__init__(call, lines=False, builder=EagerBuilder())
        self.guards = EagerGuardSet(self)
        self.layouts = NodeLayouts(self.builder, self.guards)
        self.mutable = True
        self._index_nodes: dict[int, int] = {}  # nodes of the numbers that entries are read at

    def where(self, depth: int = 1) -> Line | None:
        return user_line(depth + 1) if self.mutable else None

    def add(
        self,
        primitive: Primitive,
        args: tuple[int, ...],
        params: tuple[tuple[str, object], ...] = (),
        line: Line | None = None,
        types: Types | None = None,
    ) -> int:
        return self.builder.add(primitive, args, params)

    def read(self, source: int, flat: int) -> int:
        """A node for one entry of another: a gather by numbers."""
        builder, index_nodes = self.builder, self._index_nodes
        type_ = builder.ops[source].types[0]
        at = (flat,) if len(type_.shape) == 1 else coordinates(flat, type_.shape)
        args = [source]
        for k in at:
            node = index_nodes.get(k)
            if node is None:
                node = index_nodes[k] = builder.leaf(_INDEX_NUMBER, k)
            args.append(node)
        values, active = builder.values, builder.active
        values.append(values[source][at])  # type: ignore[index] - the value of an array
        active.append(active[source])
        builder.ops.append(_reader(type_))
        builder.args.append(tuple(args))
        return len(values) - 1

    def store(self, base: int, type_: ArrayType, entries: dict[int, int]) -> int:
        """`base` with entries stored over it, as one node."""
        builder = self.builder
        places = tuple(entries)
        if len(places) == type_.size:  # nothing of it is left
            base = builder.leaf(number_op(type_), np.zeros(type_.shape, type_.dtype))
        types = ((type_,),) + ((ArrayType((), type_.dtype),),) * len(places)
        op = Op(STORE, (("places", places),), types, (), (type_,))
        return builder.enter(op, (base, *entries.values()))

    def cleared(self, node: int, places: tuple[int, ...]) -> int:
        """`node` with zeros at these places."""
        type_ = self.builder.type(node)
        entry = ArrayType((), type_.dtype)
        zero = self.builder.leaf(number_op(entry), type_.dtype.type(0))
        return self.store(node, type_, dict.fromkeys(places, zero))


_INDEX = ArrayType((), INT)


@lru_cache(maxsize=256)
def number_op(type_: ArrayType) -> Op:
    """The operation of numbers of a type, which carry no derivative."""
    return Op(NUMBER, (("type_", type_),), (), (), (type_,))


_INDEX_NUMBER = number_op(_INDEX)


@lru_cache(maxsize=256)
def _reader(type_: ArrayType) -> Op:
    """The op that reads an entry of an array."""
    return op_of(PRIMITIVES["gather"], (), ((type_,), *[(_INDEX,)] * type_.ndim))
