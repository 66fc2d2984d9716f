"""The clock of the processor: ``rt.ticks``, by which a profile times the loop nests of a kernel.

On x86 it is the time stamp counter, on 64-bit ARM the virtual counter; elsewhere it is 0. Both
count at a constant rate whatever the processor's frequency is.
"""

from __future__ import annotations

from llvmlite import ir

from .machine import target
from .types import WORD, TypedValue, integer

_ARM = ("aarch64", "arm64")


def has_clock() -> bool:
    """Whether `ticks` counts on this processor."""
    return target().is_x86 or target().triple.startswith(_ARM)


def ticks(code: ir.IRBuilder, _: list[TypedValue]) -> TypedValue:
    """The counter; instructions before and after it stay where they are in the text."""
    signature = ir.FunctionType(WORD, [])
    if target().is_x86:
        count = code.module.declare_intrinsic("llvm.readcyclecounter", (), signature)
        return TypedValue("i8", code.call(count, []))
    if target().triple.startswith(_ARM):
        read = ir.InlineAsm(signature, "mrs $0, cntvct_el0", "=r,~{memory}", side_effect=True)
        return TypedValue("i8", code.call(read, []))
    return integer(0)
