"""Words of kernel texts that are instructions of the processor: atomics, flags, the clock.

Source: LLVM Language Reference, section "Atomic Memory Ordering Constraints".
"""

from __future__ import annotations

from llvmlite import ir

from .function_builder import stack_slot
from .machine import target
from .types import BYTE, WORD, TypedValue, convert, integer
from .word_instructions import opaque

# Masks of a register: invalid, division by zero and overflow; and every flag.
_X86 = 0x0D, 0x3F
_ARM = 0x07, 0x9F
_HALF = ir.IntType(32)


def _is_arm() -> bool:
    return target().triple.startswith(("aarch64", "arm64"))


# --- atomic operations on words of memory ---------------------------------------------------------
# All are sequentially consistent: a thread that sees a word written by another thread sees
# everything that the other thread wrote before it.


def _address(code: ir.IRBuilder, memory: TypedValue, index: TypedValue) -> ir.Value:
    return code.gep(memory.value, [convert(code, index, "i8").value], inbounds=True)


def atomic_load(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    return TypedValue("i8", code.load_atomic(_address(code, args[0], args[1]), "seq_cst", 8))


def atomic_exchange(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    return _modified(code, "xchg", args)


def atomic_add(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    return _modified(code, "add", args)


def _modified(code: ir.IRBuilder, how: str, args: list[TypedValue]) -> TypedValue:
    value = convert(code, args[2], "i8").value
    where = _address(code, args[0], args[1])
    return TypedValue("i8", code.atomic_rmw(how, where, value, "seq_cst"))


def compare_exchange(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    where = _address(code, args[0], args[1])
    old, new = (convert(code, a, "i8").value for a in args[2:])
    pair = code.cmpxchg(where, old, new, "seq_cst", "seq_cst")
    return TypedValue("b1", code.extract_value(pair, 1))


def pause(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    """The processor's hint that a thread spins, where there is one."""
    if not target().is_x86:
        return opaque(code, args)
    signature = ir.FunctionType(ir.VoidType(), [])
    hint = code.module.declare_intrinsic("llvm.x86.sse2.pause", (), signature)
    return TypedValue("", code.call(hint, []))


# --- floating-point flags -------------------------------------------------------------------------
# On x86 they are in the register MXCSR, on 64-bit ARM in FPSR; elsewhere they are never set.


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


# --- the clock, by which a profile times the loop nests of a kernel -------------------------------
# On x86 it is the time stamp counter, on 64-bit ARM the virtual counter; elsewhere it is 0. Both
# count at a constant rate whatever the processor's frequency is.


def has_clock() -> bool:
    """Whether `ticks` counts on this processor."""
    return target().is_x86 or _is_arm()


def ticks(code: ir.IRBuilder, _: list[TypedValue]) -> TypedValue:
    """The counter, read where it stands in the text."""
    signature = ir.FunctionType(WORD, [])
    if target().is_x86:
        count = code.module.declare_intrinsic("llvm.readcyclecounter", (), signature)
        return TypedValue("i8", code.call(count, []))
    if _is_arm():
        # Inline assembly would need an assembler, which is not loaded.
        name, register = "llvm.read_volatile_register.i64", code.module.add_metadata(["cntvct_el0"])
        read = code.module.globals.get(name)
        if read is None:
            read = ir.Function(code.module, ir.FunctionType(WORD, [ir.MetaDataType()]), name)
        return TypedValue("i8", code.call(read, [register]))
    return integer(0)
