"""A trace whose nodes are computed as they are entered: for code that takes another way each time.

Nothing is shared, folded, guarded or kept for another call but what does not depend on the way: the
ops of `trace/opkinds.py` and the templates of `trace/templates.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self, cast

import numpy as np

from ..arraytype import ArrayType, type_of
from ..errors import Line, user_line
from ..floatflags import noting
from ..primitive import Primitive
from ..tape import CONSTANT, INPUT, Builder, Constant, Node, Params, Tape
from .looking import Looks
from .opkinds import SMALL, Op, Types, op_of
from .recording import Trace
from .templates import Template, of_entry, of_ufunc
from .traced import TracedArray


class EagerBuilder(Builder):
    """Nodes with their ops, their values, and whether the differentiated inputs move them."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Op] = []
        self.values: list[object] = []
        self.moves: list[bool] = []

    def input(self, type_: ArrayType) -> int:
        node_id = super().input(type_)
        self.ops.append(Op(INPUT, self.nodes[node_id].params, (), (), (type_,)))
        self.values.append(None)
        self.moves.append(False)
        return node_id

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
        self.nodes.append(Node(op.primitive, args, op.params, op.types))
        values.append(value)
        return len(values) - 1

    def finish(self, outputs: Iterable[int]) -> Tape:
        return Tape(tuple(self.nodes), tuple(self.inputs), tuple(outputs))


class EagerLooks(Looks):
    """Looks at values that are there; nothing is relied on."""

    trace: EagerTrace

    def value(self, node_id: int, deed: str) -> object:
        self.trace.tainted = True
        return self.trace.builder.values[node_id]

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
        self.looks = EagerLooks(self)
        self.mutable = True

    def __enter__(self) -> Self:
        self._quiet = noting()
        self._quiet.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._quiet.__exit__(None, None, None)

    def begin(self) -> None:
        builder = self.builder
        for i in builder.inputs:
            builder.values[i] = np.asarray(self.looks.given[i])[()]
            builder.moves[i] = i in self.looks.moving

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

    def entry(self, x: TracedArray, key: object, getitem: Callable[..., object]) -> object:
        """``x[key]`` for integers, likewise; other keys and views are left to `getitem`."""
        return of_entry(self, x, key, getitem)

    def run(self, template: Template, ids: list[int]) -> TracedArray:
        """The nodes of a template, entered for the operands `ids`."""
        enter = self.builder.enter
        for op, refs in template.steps:
            ids.append(enter(op, tuple([ids[r] for r in refs])))
        return template.handle(self, ids[template.out])
