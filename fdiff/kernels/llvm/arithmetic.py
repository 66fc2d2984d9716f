"""Operators of kernel texts on numbers, as LLVM instructions.

Source: LLVM Language Reference, section "Binary Operations".
"""

from __future__ import annotations

import ast

from llvmlite import ir

from .types import TypedValue, common, constant, convert, is_real

_REAL = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_INTEGER = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_BITWISE = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}


class UnknownWordError(Exception):
    """A text uses a construct or a function that the language of kernel texts does not have."""


def binary(
    code: ir.IRBuilder, op: type[ast.operator], a: TypedValue, b: TypedValue, *, wraps: bool = True
) -> TypedValue:
    """``a op b``, computed in the type `common` to both.

    Integers wrap around; where that is known not to happen, as for addresses, LLVM is told so.
    """
    if "u" in (a.type[0], b.type[0]):
        a, b = _adapted(code, a, b), _adapted(code, b, a)
    real_quotient = op is ast.Div and "f" not in a.type + b.type
    type_ = "f8" if real_quotient else common(a.type, b.type)
    if op in _BITWISE and a.type == b.type == "b1":
        type_ = "b1"
    x, y = convert(code, a, type_).value, convert(code, b, type_).value
    if op in _BITWISE:
        return TypedValue(type_, getattr(code, _BITWISE[op])(x, y))
    if is_real(type_) and op in _REAL:
        return TypedValue(type_, getattr(code, _REAL[op])(x, y))
    if is_real(type_):
        raise UnknownWordError(op.__name__)
    if op in _INTEGER:
        flags = () if wraps else ("nsw",)
        return TypedValue(type_, getattr(code, _INTEGER[op])(x, y, flags=flags))
    if op in (ast.LShift, ast.RShift):
        right = code.ashr if type_[0] == "i" else code.lshr
        return TypedValue(type_, (code.shl if op is ast.LShift else right)(x, y))
    if op in (ast.FloorDiv, ast.Mod):
        return TypedValue(type_, _floored(code, x, y, type_, quotient=op is ast.FloorDiv))
    raise UnknownWordError(op.__name__)


def _floored(
    code: ir.IRBuilder, x: ir.Value, y: ir.Value, type_: str, *, quotient: bool
) -> ir.Value:
    """``x // y`` or ``x % y`` of integers, rounded down as in Python; division by zero gives 0."""
    zero, one = ir.Constant(x.type, 0), ir.Constant(x.type, 1)
    by_zero = code.icmp_unsigned("==", y, zero)
    y = code.select(by_zero, one, y)
    if type_[0] == "u":
        out = code.udiv(x, y) if quotient else code.urem(x, y)
        return code.select(by_zero, zero, out)
    # The smallest integer divided by -1 overflows, which is a trap: -1 is treated by itself.
    by_minus_one = code.icmp_unsigned("==", y, ir.Constant(x.type, -1))
    divisor = code.select(by_minus_one, one, y)
    q, r = code.sdiv(x, divisor), code.srem(x, divisor)
    truncated_up = code.and_(
        code.icmp_unsigned("!=", r, zero),
        code.icmp_signed("<", code.xor(r, y), zero),
    )
    if quotient:
        negative = code.neg(x)
        out = code.select(by_minus_one, negative, code.select(truncated_up, code.sub(q, one), q))
    else:
        out = code.select(truncated_up, code.add(r, y), r)
    return code.select(by_zero, zero, out)


def negated(code: ir.IRBuilder, x: TypedValue) -> TypedValue:
    """``-x``; small integers become 64 bits wide, as in any arithmetic."""
    if isinstance(x.value, ir.Constant):
        return constant(-x.value.constant, x.type)
    if is_real(x.type):
        return TypedValue(x.type, code.fneg(x.value))
    x = convert(code, x, common(x.type, x.type))
    return TypedValue(x.type, code.neg(x.value))


def compared(code: ir.IRBuilder, sign: str, a: TypedValue, b: TypedValue) -> ir.Value:
    """The truth value of a comparison; with NaN only ``!=`` is true."""
    if a.type != b.type and "f" not in (a.type[0], b.type[0]):
        a, b = _adapted(code, a, b), _adapted(code, b, a)
    type_ = a.type if a.type == b.type else common(a.type, b.type)
    x, y = convert(code, a, type_).value, convert(code, b, type_).value
    if is_real(type_):
        return (code.fcmp_unordered if sign == "!=" else code.fcmp_ordered)(sign, x, y)
    return (code.icmp_signed if type_[0] == "i" else code.icmp_unsigned)(sign, x, y)


def _adapted(code: ir.IRBuilder, a: TypedValue, b: TypedValue) -> TypedValue:
    """A literal that is not negative, in the integer type of the other operand."""
    literal = isinstance(a.value, ir.Constant) and a.type == "i8" and a.value.constant >= 0
    return convert(code, a, b.type) if literal and b.type[0] in "iu" else a
