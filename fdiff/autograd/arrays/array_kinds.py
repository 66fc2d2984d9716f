"""Kinds of arrays: the properties of operands and results that recipes depend on."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import ArrayType


class ArrayKind:
    """Shape, dtype, whether NumPy has a scalar instead, and whether a gradient is required.

    All arrays of one kind share one object, compared by identity.
    """

    __slots__ = ("other", "outside", "requires_grad", "scalar", "type", "weak")

    def __init__(self, type_: ArrayType, *, scalar: bool, requires_grad: bool, weak: bool) -> None:
        self.type = type_
        self.scalar = scalar
        self.requires_grad = requires_grad
        self.weak = weak
        self.other: ArrayKind  # the kind that differs in `requires_grad`
        self.outside = self  # the kind of plain arrays, which are not recorded

    def __repr__(self) -> str:
        return f"<{self.type}{' requires grad' * self.requires_grad}>"


_kinds: dict[object, ArrayKind] = {}


def array_kind_of(value: np.ndarray | np.generic, requires_grad: bool = False) -> ArrayKind:  # noqa: FBT001,FBT002 - asked of every array
    """The kind of an array or NumPy scalar."""
    key = value.shape, value.dtype, value.__class__ is np.ndarray
    kind = _kinds.get(key)
    if kind is None:
        kind = _kinds[key] = _new_kind(value)
    return kind.other if requires_grad else kind


def _new_kind(value: np.ndarray | np.generic) -> ArrayKind:
    dtype = value.dtype
    type_ = ArrayType(value.shape, dtype if dtype.isnative else dtype.newbyteorder("="))
    scalar = isinstance(value, np.generic)
    plain = ArrayKind(type_, scalar=scalar, requires_grad=False, weak=False)
    plain.other = ArrayKind(type_, scalar=scalar, requires_grad=True, weak=False)
    plain.other.other = plain
    plain.outside = ArrayKind(type_, scalar=scalar, requires_grad=False, weak=False)
    return plain


# What stands for a Python number beside an array of floating point.
NUMBER = ArrayKind(
    ArrayType((), np.dtype(np.float64)), scalar=False, requires_grad=False, weak=True
)
NUMBER.other = NUMBER
