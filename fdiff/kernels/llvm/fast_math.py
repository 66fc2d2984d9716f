"""Sums and products that LLVM may reorder: the words of kernel texts with fast-math flags.

All other arithmetic of kernels is done in the order of the text, as IEEE 754 rounds it. Source:
LLVM Language Reference, section "Fast-Math Flags".
"""

from __future__ import annotations

from llvmlite import ir

from .types import Formula, TypedValue, convert, is_real, llvm_type, width

# Lets LLVM vectorise a sum by reordering it; NaN and infinities keep their meaning.
_REORDERABLE = ("reassoc", "nsz", "contract")


def reorderable(on_reals: str, on_integers: str) -> Formula:
    """A sum or product that LLVM may reorder with others of its kind."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        x, y = args[0], convert(code, args[1], args[0].type)
        if is_real(x.type):
            return TypedValue(x.type, getattr(code, on_reals)(x.value, y.value, flags=_REORDERABLE))
        return TypedValue(x.type, getattr(code, on_integers)(x.value, y.value))

    return formula


def total(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    """The sum of a vector's entries, by halves."""
    type_, value = args[0]
    assert isinstance(value.type, ir.VectorType)
    entry, count = type_.split("x")
    number = llvm_type(entry)
    name = f"llvm.vector.reduce.fadd.v{count}f{8 * width(entry)}"
    signature = ir.FunctionType(number, [number, value.type])
    function = code.module.declare_intrinsic(name, (), signature)
    # Without "reassoc" LLVM would add one entry after the other, not halves of the vector.
    start = ir.Constant(number, -0.0)
    return TypedValue(entry, code.call(function, [start, value], fastmath=("reassoc",)))
