"""The floating-point flags of the processor: ``rt.flags``, ``rt.clear_flags``, ``rt.raise_flag``.

On x86 they are in MXCSR, on 64-bit ARM in FPSR; elsewhere none is ever seen.
"""

from __future__ import annotations

from llvmlite import ir

from .machine import target
from .statements import Writer
from .types import BYTE, WORD, Term, whole

_X86 = 0x0D, 0x3F  # of MXCSR: invalid, divide by zero and overflow; every flag
_ARM = 0x07, 0x9F  # of FPSR
_HALF = ir.IntType(32)


def _is_arm() -> bool:
    return target().triple.startswith(("aarch64", "arm64"))


def _read(to: Writer) -> ir.Value | None:
    """The register the flags are in; None on a processor whose register is not known."""
    code = to.code
    if target().is_x86:
        place = to.place("i4")
        _x86(to, "llvm.x86.sse.stmxcsr", place)
        return code.load(place)
    if _is_arm():
        type_ = ir.FunctionType(WORD, [])
        return code.call(to.module.declare_intrinsic("llvm.aarch64.get.fpsr", (), type_), [])
    return None


def _write(to: Writer, value: ir.Value) -> None:
    if target().is_x86:
        place = to.place("i4")
        to.code.store(value, place)
        _x86(to, "llvm.x86.sse.ldmxcsr", place)
        return
    type_ = ir.FunctionType(ir.VoidType(), [WORD])
    to.code.call(to.module.declare_intrinsic("llvm.aarch64.set.fpsr", (), type_), [value])


def _x86(to: Writer, name: str, place: ir.Value) -> None:
    type_ = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer()])
    intrinsic = to.module.declare_intrinsic(name, (), type_)
    to.code.call(intrinsic, [to.code.bitcast(place, BYTE.as_pointer())])


def _masks(value: ir.Value) -> tuple[ir.Constant, ir.Constant]:
    asked, every = _X86 if value.type == _HALF else _ARM
    return ir.Constant(value.type, asked), ir.Constant(value.type, every)


def flags(to: Writer, _: list[Term]) -> Term:
    """Not 0 if something was invalid, divided by zero or overflowed in this thread."""
    value = _read(to)
    if value is None:
        return whole(0)
    found = to.code.and_(value, _masks(value)[0])
    return Term("i8", found if found.type == WORD else to.code.zext(found, WORD))


def clear_flags(to: Writer, _: list[Term]) -> Term:
    """No flag is set from now on."""
    value = _read(to)
    if value is not None:
        _write(to, to.code.and_(value, to.code.not_(_masks(value)[1])))
    return whole(0)


def raise_flag(to: Writer, _: list[Term]) -> Term:
    """A flag is set from now on."""
    value = _read(to)
    if value is not None:
        _write(to, to.code.or_(value, ir.Constant(value.type, 1)))
    return whole(0)
