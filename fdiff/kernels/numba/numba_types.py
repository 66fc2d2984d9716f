"""Types of kernel texts as types of Numba, and back.

`NumbaTypes` is made from a module of Numba types, since a target may have its own.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from numba.core import types
from numba.extending import models, register_model

from ..ir.word_table import DTYPES
from ..llvm.types import llvm_type


class VectorType(types.Type):
    """A vector of numbers in a register; only words take and return it."""

    def __init__(self, spelling: str) -> None:
        self.spelling = spelling  # as in `fdiff.kernels.llvm.types`: f8x4
        super().__init__(name=f"fdiff_vector_{spelling}")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    """A vector is a vector of LLVM's, wherever it is."""

    def __init__(self, manager: object, type_: VectorType) -> None:
        super().__init__(manager, type_, llvm_type(type_.spelling))


class NumbaTypes:
    """The types of one target of Numba: ``f8`` is its ``float64``, ``f8*`` a ``CPointer``."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        names = {dtype: "boolean" if dtype == "b1" else name for name, dtype in DTYPES.items()}
        self._numbers = {dtype: getattr(module, name) for dtype, name in names.items()}
        self._dtypes = {number: dtype for dtype, number in self._numbers.items()}

    def of(self, type_: str) -> types.Type:
        """The type of Numba; nothing, spelt as an empty text, is ``void``."""
        if type_.endswith("*"):
            return self._module.CPointer(self._numbers[type_[:-1]])
        if "x" in type_:
            return VectorType(type_)
        return self._numbers[type_] if type_ else self._module.void

    def spelling(self, kind: Any) -> str | None:
        """How texts spell a type of Numba; None for one that no text has."""
        if isinstance(kind, self._module.CPointer):
            entry = self._dtypes.get(kind.dtype)
            return None if entry is None else f"{entry}*"
        if isinstance(kind, VectorType):
            return kind.spelling
        return self._dtypes.get(self._module.unliteral(kind))


CPU = NumbaTypes(types)
