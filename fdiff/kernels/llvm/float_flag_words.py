"""The floating-point flags of the processor: ``rt.flags``, ``rt.clear_flags``, ``rt.raise_flag``.

On x86 they are in the register MXCSR, on 64-bit ARM in FPSR; on other processors they are never
set.
"""

from __future__ import annotations

from llvmlite import ir

from .function_builder import stack_slot
from .machine import target
from .types import BYTE, WORD, TypedValue, integer

# Masks of a register: invalid, division by zero and overflow; and every flag.
_X86 = 0x0D, 0x3F
_ARM = 0x07, 0x9F
_HALF = ir.IntType(32)


def _is_arm() -> bool:
    return target().triple.startswith(("aarch64", "arm64"))


def _read(code: ir.IRBuilder) -> ir.Value | None:
    """The register with the flags; None on a processor whose register is not known."""
    if target().is_x86:
        slot = stack_slot(code, _HALF)
        _x86(code, "llvm.x86.sse.stmxcsr", slot)
        return code.load(slot)
    if _is_arm():
        read = ir.FunctionType(WORD, [])
        return code.call(code.module.declare_intrinsic("llvm.aarch64.get.fpsr", (), read), [])
    return None


def _write(code: ir.IRBuilder, value: ir.Value) -> None:
    if target().is_x86:
        slot = stack_slot(code, _HALF)
        code.store(value, slot)
        _x86(code, "llvm.x86.sse.ldmxcsr", slot)
        return
    write = ir.FunctionType(ir.VoidType(), [WORD])
    code.call(code.module.declare_intrinsic("llvm.aarch64.set.fpsr", (), write), [value])


def _x86(code: ir.IRBuilder, name: str, slot: ir.Value) -> None:
    signature = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer()])
    intrinsic = code.module.declare_intrinsic(name, (), signature)
    code.call(intrinsic, [code.bitcast(slot, BYTE.as_pointer())])


def _masks(value: ir.Value) -> tuple[ir.Constant, ir.Constant]:
    serious, every = _X86 if value.type == _HALF else _ARM
    return ir.Constant(value.type, serious), ir.Constant(value.type, every)


def flags(code: ir.IRBuilder, _: list[TypedValue]) -> TypedValue:
    value = _read(code)
    if value is None:
        return integer(0)
    bits = code.and_(value, _masks(value)[0])
    return TypedValue("i8", bits if bits.type == WORD else code.zext(bits, WORD))


def clear_flags(code: ir.IRBuilder, _: list[TypedValue]) -> TypedValue:
    value = _read(code)
    if value is not None:
        _write(code, code.and_(value, code.not_(_masks(value)[1])))
    return integer(0)


def raise_flag(code: ir.IRBuilder, _: list[TypedValue]) -> TypedValue:
    value = _read(code)
    if value is not None:
        _write(code, code.or_(value, ir.Constant(value.type, 1)))
    return integer(0)
