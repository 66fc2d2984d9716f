"""Types of values in kernel texts, and conversions between them.

A type is spelt as a dtype (``b1``, ``i1`` to ``i8``, ``u1`` to ``u8``, ``f4``, ``f8``; the digit
counts bytes), as a pointer to entries of a dtype (``f8*``) or as a vector of them (``f8x4``). The
type of an operation's result follows Numba (Numba Enhancement Proposal 1, "Changes in integer
typing"): integers are computed with 64 bits, and single precision with any operand but a small
integer is computed in double precision.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ...named_tuples import NamedTuple

WORD = ir.IntType(64)
TRUTH = ir.IntType(1)
BYTE = ir.IntType(8)
_REAL = {"f4": ir.FloatType(), "f8": ir.DoubleType()}
_EXACT_IN_SINGLE = ("b1", "i1", "i2", "u1", "u2")


class TypedValue(NamedTuple):
    """An LLVM value with its type as texts spell it."""

    type: str
    value: ir.Value


Formula = Callable[[ir.IRBuilder, list[TypedValue]], TypedValue]  # of a word of kernel texts


def width(type_: str) -> int:
    """Bytes of an entry."""
    return int(type_[1])


def is_real(type_: str) -> bool:
    """Whether these are floating-point numbers."""
    return type_[0] == "f"


def is_pointer(type_: str) -> bool:
    """Whether this is the address of entries."""
    return type_.endswith("*")


def llvm_type(type_: str) -> ir.Type:
    """LLVM's type of a value in a register."""
    if is_pointer(type_):
        return stored_type(type_[:-1]).as_pointer()
    if type_ == "b1":
        return TRUTH
    if "x" in type_:
        entry, count = type_.split("x")
        return ir.VectorType(llvm_type(entry), int(count))
    return _REAL.get(type_) or ir.IntType(8 * width(type_))


def stored_type(type_: str) -> ir.Type:
    """LLVM's type of an entry in memory: a truth value takes a byte there."""
    return BYTE if type_ == "b1" else llvm_type(type_)


def constant(value: float, type_: str) -> TypedValue:
    """A number as a constant."""
    number = float(value) if is_real(type_) else int(value)
    return TypedValue(type_, ir.Constant(llvm_type(type_), number))


def integer(value: int) -> TypedValue:
    """An integer as a constant of the type that literals have."""
    return constant(value, "i8")


def convert(code: ir.IRBuilder, x: TypedValue, type_: str) -> TypedValue:
    """`x` as another type, with C's conversions; as a truth value, whether it is not zero."""
    if x.type == type_:
        return x
    if isinstance(x.value, ir.Constant) and type_ != "b1" and not is_pointer(type_):
        return constant(x.value.constant, type_)
    return TypedValue(type_, _converted(code, x.value, x.type, type_))


def _converted(code: ir.IRBuilder, value: ir.Value, old: str, new: str) -> ir.Value:
    target = llvm_type(new)
    if is_pointer(new):
        return code.bitcast(value, target)
    if new == "b1":
        zero = ir.Constant(value.type, 0)
        if is_real(old):
            return code.fcmp_unordered("!=", value, zero)
        return code.icmp_unsigned("!=", value, zero)
    if is_real(old):
        if is_real(new):
            return code.fpext(value, target) if new == "f8" else code.fptrunc(value, target)
        return code.fptosi(value, target) if new[0] == "i" else code.fptoui(value, target)
    if is_real(new):
        return code.sitofp(value, target) if old[0] == "i" else code.uitofp(value, target)
    if old != "b1" and width(new) <= width(old):
        return value if width(new) == width(old) else code.trunc(value, target)
    return code.sext(value, target) if old[0] == "i" else code.zext(value, target)


def common(a: str, b: str) -> str:
    """The type in which two numbers are combined."""
    if "f" in (a[0], b[0]):
        single = all(t == "f4" or t in _EXACT_IN_SINGLE for t in (a, b))
        return "f4" if single else "f8"
    if a[0] == b[0] == "u":
        return "u8"
    if {a, b} == {"u8", "i8"}:
        return "f8"
    return "u8" if "u8" in (a, b) and "b1" in (a, b) else "i8"


def unified(a: str, b: str) -> str:
    """The type of a value that is one of two: unlike `common`, equal types stay as they are."""
    return a if a == b else common(a, b)
