"""A trace whose nodes are computed as they are entered: for code that takes another way each time.

Nothing is shared, folded, guarded or kept for another call but what does not depend on the way: the
ops of `trace/operation_cache.py` and the templates of `trace/operation_templates.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Self, cast

import numpy as np

from ..arraytype import F8, INT, ArrayType, type_of
from ..errors import Line, user_line
from ..primitive import PRIMITIVES, Primitive
from ..process.float_flags import noting
from ..tape import CONSTANT, INPUT, Builder, Constant, Node, Params, Tape, new_node
from .eager_scalars import ENTRIES, NUMBER, STORE, EagerScalar, class_of, of_class
from .guards import Looks
from .operation_cache import SMALL, Op, Types, op_of
from .operation_templates import Template, of_entry, of_ufunc
from .recording import Trace
from .trace_stack import stack
from .traced_array import TracedArray
from .views import Outside, Stores, View, root_of


class _Nodes(Sequence[Node]):
    """The nodes of an eager trace, made when somebody asks for one."""

    def __init__(self, ops: list[Op], args: list[tuple[int, ...]]) -> None:
        self._ops = ops
        self._args = args

    def __len__(self) -> int:
        return len(self._ops)

    def __getitem__(self, i: Any) -> Any:
        if i.__class__ is slice:
            return [self[k] for k in range(len(self))[i]]
        op = self._ops[i]
        return new_node(Node, (op.primitive, self._args[i], op.params, op.types))


class EagerBuilder(Builder):
    """Ops with their arguments, their values, and whether the differentiated inputs move them."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Op] = []
        self.args: list[tuple[int, ...]] = []
        self.values: list[object] = []
        self.moves: list[bool] = []
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
            held = cast("Constant", params[0][1])
            return self.enter(Op(CONSTANT, params, (), (), (type_of(held.array),)), ())
        given = tuple([ops[a].types for a in args])
        fixed = [
            (k, cast("Constant", ops[a].params[0][1]))
            for k, a in enumerate(args)
            if ops[a].primitive is CONSTANT and ops[a].types[0].size <= SMALL
        ]
        return self.enter(op_of(primitive, params, given, tuple(fixed)), args)

    def enter(self, op: Op, args: tuple[int, ...]) -> int:
        """Compute one more node."""
        values, moves = self.values, self.moves
        value = op.call(*[values[a] for a in args])
        moving = False
        if op.floating:
            for a in args:
                if moves[a]:
                    moving = True
                    break
        moves.append(moving)
        self.ops.append(op)
        self.args.append(args)
        values.append(value)
        return len(values) - 1

    def leaf(self, op: Op, value: object) -> int:
        """One more node without arguments."""
        self.ops.append(op)
        self.args.append(())
        self.moves.append(False)
        self.values.append(value)
        return len(self.values) - 1

    def number(self, value: Any, dtype: np.dtype) -> int:
        """A number beside a scalar, in its dtype: one node for all equal ones."""
        known = self.wide if dtype == F8 else self.single
        node = known.get(value)
        if node is None or not value:  # 0.0 equals -0.0
            node = known[value] = self.leaf(number_op(ArrayType((), dtype)), dtype.type(value))
        return node

    def clear(self) -> None:
        """Let go of all nodes and values."""
        for part in (self.ops, self.args, self.values, self.moves, self.inputs):
            part.clear()

    def finish(self, outputs: Iterable[int]) -> Tape:
        return Tape(self.nodes, tuple(self.inputs), tuple(outputs))  # type: ignore[arg-type] - nodes are made when asked for


class EagerLooks(Looks):
    """Looks at values that are there; nothing is relied on.

    `answers` are what Python saw, in order: calls with the same answers take the same way.
    """

    trace: EagerTrace

    def __init__(self, trace: EagerTrace) -> None:
        super().__init__(trace)
        self.answers: list[object] = []

    def saw(self, value: object) -> bool:
        """The truth value of a scalar, which Python asked for."""
        self.trace.tainted = True
        found = bool(value)
        self.answers.append(found)
        if stack.branches is not None:
            stack.branches[user_line(2)] += 1
        return found

    def value(self, node_id: int, deed: str) -> object:
        self.trace.tainted = True
        found = self.trace.builder.values[node_id]
        self.answers.append(hash(np.asarray(found).tobytes()))
        return found

    def look(self, node_id: int, deed: str) -> np.ndarray:
        return np.asarray(self.value(node_id, deed))

    def knows(self, node_id: int) -> bool:
        return True

    def expect(self, node_id: int, value: Any) -> None:
        if not np.array_equal(self.look(node_id, ""), value):
            raise RuntimeError("a program recorded at these values decides otherwise at them")

    def close(self) -> None:
        """The trace goes on: derivatives are taken in it."""


class EagerTrace(Trace):
    """A recording whose nodes have values from the start."""

    builder: EagerBuilder
    eager = True

    def __init__(self, call: str) -> None:
        super().__init__(call, lines=False)
        self.builder = EagerBuilder()
        self.looks: EagerLooks = EagerLooks(self)
        self.mutable = True
        self._entries: dict[int, dict[int, EagerScalar]] = {}  # what was read, by node and position
        self._spots: dict[int, int] = {}  # nodes of the numbers that entries are read at

    def __enter__(self) -> Self:
        self._quiet = noting()
        self._quiet.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._quiet.__exit__(None, None, None)
        if error[0] is not None:
            self.release()

    def begin(self) -> None:
        builder = self.builder
        for i in builder.inputs:
            builder.values[i] = np.asarray(self.looks.given[i])[()]
            builder.moves[i] = i in self.looks.moving

    def release(self) -> None:
        """Let go of everything once the results are there, so that no reference goes round."""
        self.builder.clear()
        self._entries.clear()
        self._spots.clear()
        Looks.close(self.looks)

    def input(self, type_: ArrayType, *, scalar: bool = False, weak: bool = False) -> TracedArray:
        made = super().input(type_, scalar=scalar, weak=weak)
        kind = class_of(type_, weak=weak) if scalar else None
        return made if kind is None else of_class(kind, self, made.node)

    def where(self, depth: int = 1) -> Line | None:
        return user_line(depth + 1) if self.mutable else None

    def capture(self, array: np.ndarray) -> TracedArray:
        traced = super().capture(array)
        native = array if array.dtype.isnative else array.astype(traced.dtype)
        self.builder.values[traced.node] = native[()]
        return traced

    def add(
        self,
        primitive: Primitive,
        args: tuple[int, ...],
        params: tuple[tuple[str, object], ...] = (),
        line: Line | None = None,
        types: Types | None = None,
    ) -> int:
        return self.builder.add(primitive, args, params)

    # ------------------------------------------------------------------------------ templates

    def ufunc(self, ufunc: np.ufunc, operands: tuple[object, ...]) -> object:
        """``ufunc(*operands)``, as the last time for operands of these types."""
        return of_ufunc(self, ufunc, operands)

    def entry(self, x: TracedArray, key: Any, getitem: Callable[..., object]) -> object:
        """``x[key]``: single entries are scalars, other keys of integers go by their templates."""
        type_ = x.type
        kind = ENTRIES.get(type_.dtype)
        spot = None if kind is None else _spot(type_.shape, key)
        if spot is None or kind is None:
            return of_entry(self, x, key, getitem)
        link = x.link
        if link.__class__ is Stores:
            found = link.entries.get(spot)  # type: ignore[union-attr] - its class was looked at
            if found is not None:
                return of_class(kind, self, found)
            source = x.node
        elif link is None or link.__class__ is Outside:
            source = x.node
        elif link.__class__ is View and root_of(x).link.__class__ is not Stores:
            source = x.id
        else:
            return of_entry(self, x, key, getitem)
        known = self._entries.get(source)
        if known is None:
            known = self._entries[source] = {}
        made = known.get(spot)
        if made is None:
            made = known[spot] = of_class(kind, self, self.read(source, spot))
        return made

    def read(self, source: int, flat: int) -> int:
        """A node for one entry of another: a gather by numbers."""
        builder, spots = self.builder, self._spots
        type_ = builder.ops[source].types[0]
        at = (flat,) if len(type_.shape) == 1 else _spots(type_.shape, flat)
        args = [source]
        for k in at:
            node = spots.get(k)
            if node is None:
                node = spots[k] = builder.leaf(_SPOT, k)
            args.append(node)
        values, moves = builder.values, builder.moves
        values.append(values[source][at])  # type: ignore[index] - the value of an array
        moves.append(moves[source])
        builder.ops.append(_reader(type_))
        builder.args.append(tuple(args))
        return len(values) - 1

    def put(self, x: TracedArray, key: object, value: object) -> bool:
        """``x[key] = value`` for one entry and a number of its dtype; False: not done."""
        link = x.link
        if not (link is None or link.__class__ is Stores) or x.scalar or x.weak:
            return False
        dtype = x.type.dtype
        flat = _spot(x.type.shape, key)
        if flat is None or dtype.kind != "f":
            return False
        if isinstance(value, EagerScalar):
            if value.home is not self or value.type.dtype != dtype:
                return False
            node = value.node
        elif value.__class__ is float or value.__class__ is dtype.type:
            node = self.builder.number(value, dtype)
        else:
            return False
        if link is None:
            x.link = link = Stores(None)
        link.entries[flat] = node  # type: ignore[union-attr] - it has entries
        return True

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
        """A node with zeros at these places of another."""
        type_ = self.builder.type(node)
        entry = ArrayType((), type_.dtype)
        zero = self.builder.leaf(number_op(entry), type_.dtype.type(0))
        return self.store(node, type_, dict.fromkeys(places, zero))

    def run(self, template: Template, ids: list[int]) -> TracedArray:
        """The nodes of a template, entered for the operands `ids`."""
        enter = self.builder.enter
        for op, refs in template.steps:
            ids.append(enter(op, tuple([ids[r] for r in refs])))
        node = ids[template.out]
        kind = template.kind
        return template.handle(self, node) if kind is None else of_class(kind, self, node)


_INDEX = ArrayType((), INT)


@lru_cache(maxsize=256)
def number_op(type_: ArrayType) -> Op:
    """The op of numbers of a type that no derivative reaches."""
    return Op(NUMBER, (("type_", type_),), (), (), (type_,))


_SPOT = number_op(_INDEX)


@lru_cache(maxsize=256)
def _reader(type_: ArrayType) -> Op:
    """The op that reads an entry of an array."""
    return op_of(PRIMITIVES["gather"], (), ((type_,), *[(_INDEX,)] * type_.ndim))


def _spots(shape: tuple[int, ...], flat: int) -> tuple[int, ...]:
    return tuple([int(k) for k in np.unravel_index(flat, shape)])


def _spot(shape: tuple[int, ...], key: Any) -> int | None:
    """The flat position of the entry that Python's integers name; None for any other key."""
    if key.__class__ is int:
        if len(shape) != 1:
            return None
        n = shape[0]
        return key if 0 <= key < n else key + n if -n <= key < 0 else None
    if key.__class__ is not tuple or len(key) != len(shape) or not shape:
        return None
    flat = 0
    for k, n in zip(key, shape, strict=True):
        if k.__class__ is not int or not -n <= k < n:
            return None
        flat = flat * n + (k if k >= 0 else k + n)
    return flat
