"""A trace whose nodes are computed as they are entered: for code that takes another way each time.

Nothing is shared, folded, guarded or kept for another call: what it costs is what a call costs.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from ..arraytype import ArrayType, type_of
from ..errors import Line, user_line
from ..primitive import Primitive
from ..tape import ITEM, Builder, Node, Params, Tape
from .looking import Looks
from .recording import Trace
from .traced import TracedArray


class EagerBuilder(Builder):
    """Nodes with their values."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[object] = []

    def input(self, type_: ArrayType) -> int:
        self.values.append(None)
        return super().input(type_)

    def add(
        self,
        primitive: Primitive,
        args: tuple[int, ...],
        params: Params = (),
        line: Line | None = None,
        types: tuple[ArrayType, ...] | None = None,
    ) -> int:
        values = self.values
        given = [values[a] for a in args]
        value = primitive.evaluate(*given, **dict(params)) if params else primitive.evaluate(*given)
        if types is None:
            several = type(value) is tuple
            types = tuple(map(_type, value)) if several else (_type(value),)  # type: ignore[arg-type]
        self.nodes.append(Node(primitive, args, params, types))
        values.append(value)
        return len(values) - 1

    def finish(self, outputs: object) -> Tape:
        return Tape(tuple(self.nodes), tuple(self.inputs), tuple(outputs))  # type: ignore[arg-type]


def _type(value: object) -> ArrayType:
    return type_of(value if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value))


class EagerLooks(Looks):
    """Looks at values that are there; nothing is relied on."""

    trace: EagerTrace

    def value(self, node_id: int, deed: str) -> object:
        return self.trace.builder.values[node_id]

    def look(self, node_id: int, deed: str) -> np.ndarray:
        return np.asarray(self.trace.builder.values[node_id])

    def knows(self, node_id: int) -> bool:
        return True

    def expect(self, node_id: int, value: object) -> None:
        if not np.array_equal(self.look(node_id, ""), value):
            raise RuntimeError("a program recorded at these values decides otherwise at them")

    def close(self) -> None:
        """The trace goes on: derivatives are taken in it."""


class EagerTrace(Trace):
    """A recording whose nodes have values from the start."""

    builder: EagerBuilder

    def __init__(self, call: str) -> None:
        super().__init__(call, lines=False)
        self.builder = EagerBuilder()
        self.looks = EagerLooks(self)
        self.mutable = True

    def __enter__(self) -> Self:
        self._quiet = np.errstate(all="ignore")
        self._quiet.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._quiet.__exit__(*error)

    def begin(self) -> None:
        for i in self.builder.inputs:
            self.builder.values[i] = np.asarray(self.looks.given[i])[()]

    def where(self) -> Line | None:
        return user_line() if self.mutable else None

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
    ) -> int:
        return self.builder.add(primitive, args, params)

    def items(self, node_id: int) -> tuple[TracedArray, ...]:
        """The outputs of a node."""
        types = self.builder.nodes[node_id].types
        if len(types) == 1:
            return (TracedArray(self, node_id, types[0]),)
        ids = [self.builder.add(ITEM, (node_id,), (("k", k),)) for k in range(len(types))]
        return tuple(TracedArray(self, i, t) for i, t in zip(ids, types, strict=True))
