"""Kinds of values in the text of a kernel, and how one becomes another.

A kind is a dtype (``b1``, ``i1`` to ``i8``, ``u1`` to ``u8``, ``f4``, ``f8``), with a star a
pointer to entries of one, with a count (``f8x8``) a vector of them. Arithmetic on numbers follows
Numba: whole numbers are computed with 64 bits, single precision with anything but small whole
numbers in double precision.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

WORD = ir.IntType(64)
TRUTH = ir.IntType(1)
BYTE = ir.IntType(8)
_REAL = {"f4": ir.FloatType(), "f8": ir.DoubleType()}
_EXACT_IN_SINGLE = ("b1", "i1", "i2", "u1", "u2")


class Term(NamedTuple):
    """A value and its kind."""

    kind: str
    at: ir.Value


def width(kind: str) -> int:
    """Bytes of an entry."""
    return int(kind[1])


def is_pointer(kind: str) -> bool:
    """Whether this is memory."""
    return kind.endswith("*")


def llvm_type(kind: str) -> ir.Type:
    """The type of a value in a register."""
    if is_pointer(kind):
        return stored_type(kind[:-1]).as_pointer()
    if kind == "b1":
        return TRUTH
    if "x" in kind:
        entry, count = kind.split("x")
        return ir.VectorType(llvm_type(entry), int(count))
    return _REAL.get(kind) or ir.IntType(8 * width(kind))


def stored_type(kind: str) -> ir.Type:
    """The type of an entry in memory: truth values take a byte."""
    return BYTE if kind == "b1" else llvm_type(kind)


def constant(value: float, kind: str) -> Term:
    """A number written out."""
    number = float(value) if kind[0] == "f" else int(value)
    return Term(kind, ir.Constant(llvm_type(kind), number))


def whole(value: int) -> Term:
    """A number as texts spell it."""
    return constant(value, "i8")


def convert(code: ir.IRBuilder, term: Term, kind: str) -> Term:
    """The number as one of another kind, as C converts it; what is not zero is true."""
    if term.kind == kind:
        return term
    if isinstance(term.at, ir.Constant) and kind != "b1" and not is_pointer(kind):
        return constant(term.at.constant, kind)
    return Term(kind, _converted(code, term.at, term.kind, kind))


def _converted(code: ir.IRBuilder, value: ir.Value, old: str, new: str) -> ir.Value:
    target = llvm_type(new)
    if is_pointer(new):
        return code.bitcast(value, target)
    if new == "b1":
        zero = ir.Constant(value.type, 0)
        if old[0] == "f":
            return code.fcmp_unordered("!=", value, zero)
        return code.icmp_unsigned("!=", value, zero)
    if old[0] == "f":
        if new[0] == "f":
            return code.fpext(value, target) if new == "f8" else code.fptrunc(value, target)
        return code.fptosi(value, target) if new[0] == "i" else code.fptoui(value, target)
    if new[0] == "f":
        return code.sitofp(value, target) if old[0] == "i" else code.uitofp(value, target)
    if old != "b1" and width(new) <= width(old):
        return value if width(new) == width(old) else code.trunc(value, target)
    return code.sext(value, target) if old[0] == "i" else code.zext(value, target)


def common(a: str, b: str) -> str:
    """The kind in which two numbers meet."""
    if "f" in (a[0], b[0]):
        single = all(k == "f4" or k in _EXACT_IN_SINGLE for k in (a, b))
        return "f4" if single else "f8"
    if a[0] == b[0] == "u":
        return "u8"
    if {a, b} == {"u8", "i8"}:
        return "f8"
    return "u8" if "u8" in (a, b) and "b1" in (a, b) else "i8"


def unified(a: str, b: str) -> str:
    """The kind of what is one or the other."""
    return a if a == b else common(a, b)
