"""Scalars of eager traces: handles that cost as little as Python allows.

Code that branches another way at each call works on single numbers. A scalar is a node of its trace
like any other (an op, its arguments, its value), so every operator differentiates it; what is
spared is the search for the op: types, conversions and templates. The arithmetic is in
`ops/eager_scalar_operators.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, cast

import fdiff.intact_numpy as np

from ...arraytype import BOOL, F4, F8, ArrayType
from ...foreign_errors import hiding
from ..branching.memo_branches import is_denied
from ..operation_cache import Op
from ..trace_stack import stack
from ..traced_array import TracedArray
from .eager_recorder import EagerRecorder

_new = object.__new__


class EagerScalar(TracedArray):
    """A scalar of an eager trace. Its class tells the type, so that only two slots are filled.

    Scalars are immutable: the class holds the other attributes of a handle.
    """

    __slots__ = ()

    home: EagerRecorder
    scalar = True
    weak = False
    link = None

    born = property(cast("Callable[[object], EagerRecorder]", attrgetter("home")))
    made = id = property(cast("Callable[[object], int]", attrgetter("node")))  # type: ignore[override] - a property, as there

    def weakened(self) -> EagerScalar:
        return of_class(PythonFloat, self.home, self.node)

    def __bool__(self) -> bool:
        home, traces = self.home, stack.traces
        if traces and traces[-1] is home:
            return home.guards.saw(home.builder.values[self.node])
        return TracedArray.__bool__(self)


class Float64(EagerScalar):
    """A `numpy.float64`."""

    __slots__ = ()
    type = ArrayType((), F8)


class PythonFloat(EagerScalar):
    """A Python float, which takes the dtype of its partner."""

    __slots__ = ()
    type = ArrayType((), F8)
    weak = True


class Float32(EagerScalar):
    """A `numpy.float32`."""

    __slots__ = ()
    type = ArrayType((), F4)


class Truth(EagerScalar):
    """A `numpy.bool`, the result of a comparison; its node is entered only when it is asked for.

    `pending` are the op, the node and the other operand of the comparison. Once the trace has ended
    there is no node.
    """

    __slots__ = ("entered", "pending", "value")
    type = ArrayType((), BOOL)

    entered: int | None
    pending: tuple[Op, int, object]
    value: object

    @property
    @hiding
    def node(self) -> int:
        if not self.home.alive:
            return -1
        if self.entered is None:
            op, a, other = self.pending
            builder = self.home.builder
            if isinstance(other, EagerScalar):
                b = other.node
            else:
                b = builder.number(other, op.given[1][0].dtype)
            self.entered = builder.enter(op, (a, b))
        return self.entered

    @node.setter
    def node(self, node: int) -> None:
        self.entered = node
        self.value = self.home.builder.values[node]

    def __bool__(self) -> bool:
        home, traces = self.home, stack.traces
        if traces and traces[-1] is home:
            if not home.only_here and (self.entered is not None or self._is_close()):
                is_denied(home, self.node)  # noted: eager traces deny nothing
            return home.guards.saw(self.value)
        return TracedArray.__bool__(self)

    def _is_close(self) -> bool:
        """Whether the operands are equal, or the first is a distance within a tolerance."""
        _, a, other = self.pending
        values: Any = self.home.builder.values
        mine, b = values[a], cast("Any", other)
        b = values[other.node] if isinstance(other, EagerScalar) else b
        return not mine or mine == b or abs(mine) <= abs(b) < TOLERANCE


TOLERANCE = 1e-3  # below it, a number is taken for a tolerance

_CLASSES: dict[tuple[ArrayType, bool], type[EagerScalar]] = {
    (kind.type, kind.weak): kind for kind in (Float64, PythonFloat, Float32, Truth)
}
ENTRIES: dict[np.dtype, type[EagerScalar]] = {F8: Float64, F4: Float32}  # of arrays, by dtype


def class_of(type_: ArrayType, *, weak: bool = False) -> type[EagerScalar] | None:
    """The class of scalars of a type; None where there is none."""
    return _CLASSES.get((type_, weak))


def of_class(kind: type[EagerScalar], trace: EagerRecorder, node: int) -> EagerScalar:
    """A scalar of a class that is known."""
    scalar = _new(kind)
    scalar.home = trace
    scalar.node = node
    return scalar
