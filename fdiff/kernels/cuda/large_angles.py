"""Sine, cosine and tangent of any angle, for NVVM: large ones are reduced exactly.

Formulas of `runtime.maths` take angles up to ``REACH``. Beyond, the angle is multiplied by as many
bits of 2/pi as matter for it (M. Payne and R. Hanek, Radian reduction for trigonometric functions,
SIGNUM Newsletter 18(1), pages 19-24, 1983; Muller, Elementary Functions, 3rd ed., 2016, section
11.4). CUDA's own functions keep these bits on the stack, which is slow; here they are in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import cast

from llvmlite import ir

from ..runtime.maths.trigonometric import cos as near_cos
from ..runtime.maths.trigonometric import out_of_range
from ..runtime.maths.trigonometric import sin as near_sin
from ..runtime.maths.trigonometric import tan as near_tan
from ..runtime.maths.value import F4, F8, Formula, Value, fma, where
from .nvvm_builder import NvvmBuilder

WORD = ir.IntType(64)
# 64 zeros, then the first 1216 bits of 2/pi.
TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
_HALF_PI = 1.5707963267948966, 6.123233995736766e-17


def _table(code: NvvmBuilder) -> ir.Value:
    """The bits in constant memory."""
    name = "fdiff_two_over_pi"
    table: object = code.module.globals.get(name)
    if table is None:
        type_ = ir.ArrayType(WORD, len(TWO_OVER_PI))
        table = ir.GlobalVariable(code.module, type_, name, addrspace=4)
        table.global_constant = True
        table.linkage = "internal"
        table.initializer = ir.Constant(type_, TWO_OVER_PI)
    return table


def _constant(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)


def _bits_from(code: NvvmBuilder, position: ir.Value) -> list[ir.Value]:
    """Three words of the table from a bit on, the most significant first."""
    table = _table(code)
    number, shift = code.lshr(position, _constant(6)), code.and_(position, _constant(63))
    words: list[ir.Value] = []
    for k in range(4):
        place = code.gep(table, [_constant(0), code.add(number, _constant(k))], inbounds=True)
        words.append(code.load(place))
    out: list[ir.Value] = []
    for high, low in pairwise(words):
        # in two steps, because a shift by 64 has no meaning
        rest = code.lshr(code.lshr(low, _constant(1)), code.sub(_constant(63), shift))
        out.append(code.or_(code.shl(high, shift), rest))
    return out


def _high_product(code: NvvmBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return code.call(code.declared("__nv_umul64hi", WORD, [WORD, WORD]), [x, y])


def _carry(code: NvvmBuilder, total: ir.Value, term: ir.Value) -> ir.Value:
    """1 if a sum with this term has wrapped around."""
    return code.zext(code.icmp_unsigned("<", total, term), WORD)


def reduced(x: Value) -> tuple[Value, Value]:
    """``|x| - k pi/2`` for a double beyond the reach of the formulas, and the last bits of `k`."""
    code = cast("NvvmBuilder", x.code)
    bits = code.bits(x.at)
    exponent = code.and_(code.lshr(bits, _constant(52)), _constant(0x7FF))
    digits = code.or_(code.and_(bits, _constant((1 << 52) - 1)), _constant(1 << 52))
    # The bits before this one contribute multiples of 4 to the quotient by pi/2.
    first, second, third = _bits_from(code, code.add(exponent, _constant(64 - 1075 - 2)))
    p0 = code.mul(digits, third)
    lower, carried = code.mul(digits, second), _high_product(code, digits, third)
    p1 = code.add(lower, carried)
    p2 = code.add(code.mul(digits, first), _high_product(code, digits, second))
    p2 = code.add(p2, _carry(code, p1, lower))
    # The first two bits are the quadrant, the others its fraction, taken with a sign.
    high = code.or_(code.shl(p2, _constant(2)), code.lshr(p1, _constant(62)))
    low = code.or_(code.shl(p1, _constant(2)), code.lshr(p0, _constant(62)))
    quadrant = code.add(code.lshr(p2, _constant(62)), code.lshr(high, _constant(63)))
    negative = code.icmp_signed("<", high, _constant(0))
    mask = code.sext(negative, WORD)
    low, high = code.xor(low, mask), code.xor(high, mask)
    carry = code.zext(negative, WORD)
    low = code.add(low, carry)
    high = code.add(high, code.and_(carry, _carry(code, low, carry)))
    upper = code.uitofp(code.and_(high, _constant(~0x7FF & (1 << 64) - 1)), F8.real)
    rest = code.or_(code.shl(high, _constant(53)), code.lshr(low, _constant(11)))
    a = Value(code, upper) * 2.0**-64
    b = Value(code, code.uitofp(rest, F8.real)) * 2.0**-117
    product = a * _HALF_PI[0]
    lost = fma(a, _HALF_PI[0], -product) + fma(b, _HALF_PI[0], a * _HALF_PI[1])
    r = product + lost
    return where(Value(code, negative), -r, r), Value(code, quadrant)


def _with_far(near: Formula, far: Formula, name: str) -> Formula:
    """A formula that branches to another one for angles out of range."""

    def formula(x: Value) -> Value:
        if not x.double:
            near_out = near(x)
            return _near_or_far(x, near_out, lambda: formula(x.to(F8)).to(F4))
        return _near_or_far(x, near(x), lambda: far(x))

    formula.__name__ = name
    return formula


def _near_or_far(x: Value, near: Value, far: Callable[[], Value]) -> Value:
    """`near`, or what `far` gives where `x` is out of range."""
    code = x.code
    test = out_of_range(x).at
    before = code.block
    with code.if_then(test, likely=False):
        remote = far()
        inside = code.block
    out = code.phi(x.at.type)
    out.add_incoming(near.at, before)
    out.add_incoming(remote.at, inside)
    return Value(code, out)


def _far_sin(x: Value) -> Value:
    r, quadrant = reduced(x)
    return _signed(_of_quadrant(quadrant, near_sin(r), near_cos(r)), quadrant, x.bits())


def _far_cos(x: Value) -> Value:
    r, quadrant = reduced(x)
    return _signed(_of_quadrant(quadrant, near_cos(r), near_sin(r)), quadrant + 1, quadrant.like(0))


def _far_tan(x: Value) -> Value:
    r, quadrant = reduced(x)
    t = near_tan(r)
    out = _of_quadrant(quadrant, t, -1.0 / t)
    sign = x.bits() & (1 << 63)
    return (out.bits() ^ sign).real(F8)


def _of_quadrant(quadrant: Value, even: Value, odd: Value) -> Value:
    return where((quadrant & 1).equals(0), even, odd)


def _signed(x: Value, quadrant: Value, sign: Value) -> Value:
    """`x`, negated by the second bit of a quadrant and by the first bit of `sign`."""
    flips = ((quadrant << 62) ^ sign) & (1 << 63)
    return (x.bits() ^ flips).real(F8)


FAR: dict[str, Formula] = {
    "sin": _with_far(near_sin, _far_sin, "sin"),
    "cos": _with_far(near_cos, _far_cos, "cos"),
    "tan": _with_far(near_tan, _far_tan, "tan"),
}
