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
    """The counter, read where it stands in the text."""
    signature = ir.FunctionType(WORD, [])
    if target().is_x86:
        count = code.module.declare_intrinsic("llvm.readcyclecounter", (), signature)
        return TypedValue("i8", code.call(count, []))
    if target().triple.startswith(_ARM):
        # Inline assembly would need an assembler, which is not loaded.
        name, register = "llvm.read_volatile_register.i64", code.module.add_metadata(["cntvct_el0"])
        read = code.module.globals.get(name)
        if read is None:
            read = ir.Function(code.module, ir.FunctionType(WORD, [ir.MetaDataType()]), name)
        return TypedValue("i8", code.call(read, [register]))
    return integer(0)
