"""Scalar functions with NumPy's own meaning, NaN, infinities, signed zeros and integers included.

Formulas follow numpy/_core/src/npymath (divmod) and the ufunc loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, overload

from . import maths

Function = Callable[..., object]
Generated = tuple[Signature, Callable[..., ir.Value]]
_OPTIONS = {"error_model": "numpy", "nogil": True}


def _real(x: types.Type) -> bool:
    return isinstance(x, types.Float)


def _dtype(x: types.Type) -> type:
    return getattr(np, str(x)) if not isinstance(x, types.Boolean) else np.bool_


def _provide(name: str, choose: Callable[..., Function | None]) -> Function:
    """A name for kernels; ``choose(*types)`` gives what is compiled for these types."""

    def stub(*_: object) -> None:
        raise NotImplementedError(f"{name} runs in kernels only")

    stub.__name__ = name
    overload(stub, jit_options=_OPTIONS, strict=False)(choose)
    return stub


# --- by LLVM or libm --------------------------------------------------------------------------


def _instruction(name: str) -> Function:
    """An LLVM intrinsic of floating-point numbers, of one or two arguments."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(args[0].type, [a.type for a in args])
        return builder.call(builder.module.declare_intrinsic(name, [args[0].type], kind), args)

    return generate


def _unary(name: str) -> Function:
    @intrinsic
    def function(typing_context: object, x: types.Type) -> Generated:
        return x(x), _instruction(name)

    return function


rint = _unary("llvm.rint")


def _libm(name: str) -> Function:
    """A function of libm, with an ``f`` at its end for single precision."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        suffix = "f" if sig.return_type == types.float32 else ""
        kind = ir.FunctionType(args[0].type, [a.type for a in args])
        module = builder.module
        found = module.globals.get(name + suffix)
        return builder.call(found or ir.Function(module, kind, name + suffix), args)

    return generate


@intrinsic
def nextafter(typing_context: object, x: types.Type, y: types.Type) -> Generated:
    """The next number from `x` towards `y`."""
    return x(x, x), _libm("nextafter")


@intrinsic
def _fmod(typing_context: object, x: types.Type, y: types.Type) -> Generated:
    return x(x, x), _libm("fmod")


# --- selection --------------------------------------------------------------------------------


def _select(real: str, whole: str) -> Function:
    @intrinsic
    def function(typing_context: object, x: types.Type, y: types.Type) -> Generated:
        def generate(
            context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
        ) -> ir.Value:
            if isinstance(x, types.Float):
                return _instruction(real)(context, builder, sig, args)
            signed = isinstance(x, types.Integer) and x.signed
            compare = builder.icmp_signed if signed else builder.icmp_unsigned
            return builder.select(compare(whole, *args), *args)

        return x(x, x), generate

    return function


maximum = _select("llvm.maximum", ">")  # NaN wins
minimum = _select("llvm.minimum", "<")
fmax = _select("llvm.maxnum", ">")  # NaN loses
fmin = _select("llvm.minnum", "<")


def _sign(x: types.Type) -> Function:
    one, zero = _dtype(x)(1), _dtype(x)(0)
    if _real(x):
        return lambda x: one if x > zero else -one if x < zero else zero if x == zero else x
    minus = _dtype(x)(-1) if x.signed else zero
    return lambda x: one if x > zero else minus if x < zero else zero


def _heaviside(x: types.Type, h: types.Type) -> Function:
    one, zero = _dtype(x)(1), _dtype(x)(0)
    return lambda x, h: h if x == zero else zero if x < zero else one if x > zero else x


sign = _provide("sign", _sign)
heaviside = _provide("heaviside", _heaviside)

# --- tests ------------------------------------------------------------------------------------


def _isinf(x: types.Type) -> Function:
    return (lambda x: abs(x) == math.inf) if _real(x) else (lambda x: False)


def _isfinite(x: types.Type) -> Function:
    return (lambda x: abs(x) < math.inf) if _real(x) else (lambda x: True)


isnan = _provide("isnan", lambda x: lambda x: x != x)  # noqa: PLR0124 - NaN alone differs from itself
isinf = _provide("isinf", _isinf)
isfinite = _provide("isfinite", _isfinite)
signbit = _provide(
    "signbit", lambda x: (lambda x: math.copysign(1.0, x) < 0.0) if _real(x) else (lambda x: x < 0)
)

# --- division ---------------------------------------------------------------------------------


def _remainder(x: types.Type, y: types.Type) -> Function:
    zero = _dtype(x)(0)

    def real(x: float, y: float) -> float:
        r = _fmod(x, y)
        if r != zero:
            return r + y if (y < zero) != (r < zero) else r
        return math.copysign(zero, y)

    def whole(x: int, y: int) -> int:
        return zero if y == zero else x % y

    return real if _real(x) else whole


def _floor_divide(x: types.Type, y: types.Type) -> Function:
    dtype = _dtype(x)
    zero, one, half = dtype(0), dtype(1), dtype(0.5)

    def real(x: float, y: float) -> float:
        if y == zero:
            return x / y
        r = _fmod(x, y)
        q = (x - r) / y
        if r != zero and (y < zero) != (r < zero):
            q = q - one
        if q == zero:
            return math.copysign(zero, x / y)
        whole = dtype(math.floor(q)) if abs(q) < 1e18 else q
        return whole + one if q - whole > half else whole

    def whole(x: int, y: int) -> int:
        return zero if y == zero else x // y

    return real if _real(x) else whole


def _remainder_c(x: types.Type, y: types.Type) -> Function:
    zero = _dtype(x)(0)
    if _real(x):
        return lambda x, y: _fmod(x, y)  # noqa: PLW0108 - Numba compiles a function of its own

    def whole(x: int, y: int) -> int:
        if y == zero:
            return zero
        r = x % y
        return r - y if r != zero and (x < zero) != (y < zero) else r

    return whole


remainder = _provide("remainder", _remainder)
floor_divide = _provide("floor_divide", _floor_divide)
fmod = _provide("fmod", _remainder_c)

# --- powers -----------------------------------------------------------------------------------


def _whole_power(dtype: type) -> Function:
    one = dtype(1)

    def function(x: int, y: int) -> int:
        out = one
        while y > 0:
            if y & 1:
                out = dtype(out * x)
            x = dtype(x * x)
            y = y >> 1
        return out

    return function


@intrinsic
def power(typing_context: object, x: types.Type, y: types.Type) -> Generated:
    """`x` to the power `y`."""

    def whole(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        return context.compile_internal(builder, _whole_power(_dtype(x)), sig, args)

    return x(x, x), maths.generator(maths.real_power) if _real(x) else whole


ldexp = _provide("ldexp", lambda x, n: lambda x, n: math.ldexp(x, np.int32(n)))


def _spacing(x: types.Type) -> Function:
    dtype = _dtype(x)
    zero, tiny, far = dtype(0), np.finfo(dtype).smallest_subnormal, dtype(np.inf)

    def function(x: float) -> float:
        return tiny if x == zero else nextafter(x, math.copysign(far, x)) - x

    return function


spacing = _provide("spacing", _spacing)

# --- bits and whole numbers -------------------------------------------------------------------


def _shift_left(x: types.Type, n: types.Type) -> Function:
    zero, bits = _dtype(x)(0), x.bitwidth
    return lambda x, n: x << n if 0 <= n < bits else zero


def _shift_right(x: types.Type, n: types.Type) -> Function:
    zero, bits = _dtype(x)(0), x.bitwidth
    gone = _dtype(x)(-1) if x.signed else zero
    return lambda x, n: x >> n if 0 <= n < bits else gone if x < 0 else zero


def _greatest(x: types.Type, y: types.Type) -> Function:
    def function(x: int, y: int) -> int:
        a, b = abs(x), abs(y)
        while b != 0:
            a, b = b, a % b
        return a

    return function


def _least(x: types.Type, y: types.Type) -> Function:
    zero = _dtype(x)(0)

    def function(x: int, y: int) -> int:
        g = gcd(x, y)
        return zero if g == 0 else abs(x) // g * abs(y)

    return function


invert = _provide(
    "invert", lambda x: (lambda x: not x) if isinstance(x, types.Boolean) else (lambda x: ~x)
)
left_shift = _provide("left_shift", _shift_left)
right_shift = _provide("right_shift", _shift_right)
gcd = _provide("gcd", _greatest)
lcm = _provide("lcm", _least)
