"""Formulas of kernel texts as LLVM instructions that NVVM takes.

NVVM reads the LLVM of an older release, without ``fneg`` and with few intrinsic functions. Others
are written here in bits and comparisons, or are functions of NVIDIA's libdevice, such as
``__nv_lgamma``, of which Numba links the code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

# Intrinsic functions of LLVM, and functions of C, by their names in libdevice.
_LIBDEVICE = {
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "maxnum": "fmax",
    "minnum": "fmin",
}  # fmt: skip
_C_LIBRARY = frozenset([
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "atan2", "cbrt", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "expm1", "fmod", "hypot", "ldexp", "lgamma", "log", "log10", "log1p",
    "log2", "nextafter", "pow", "sin", "sinh", "tan", "tanh", "tgamma",
])  # fmt: skip
_WHOLE = {"float": ir.IntType(32), "double": ir.IntType(64)}


class NvvmBuilder(ir.IRBuilder):
    """Appends instructions to a block, in NVVM's own way where other targets differ."""

    def fneg(self, arg: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        """``-arg``, with the sign of a zero changed as well."""
        return self.fsub(ir.Constant(arg.type, -0.0), arg, name, flags)

    def fmul(
        self, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> ir.Value:
        """A rounded product: NVVM would fuse it with a sum, against compensated formulas."""
        if flags or str(lhs.type) not in _WHOLE:
            return super().fmul(lhs, rhs, name, flags)
        symbol = "__nv_dmul_rn" if str(lhs.type) == "double" else "__nv_fmul_rn"
        return super().call(self.declared(symbol, lhs.type, [lhs.type, rhs.type]), [lhs, rhs])

    def frem(
        self, lhs: ir.Value, rhs: ir.Value, name: str = "", flags: Sequence[str] = ()
    ) -> ir.Value:
        """C's fmod."""
        del name, flags
        return self._libdevice("fmod", [lhs, rhs])

    def call(
        self, fn: ir.Value, args: Sequence[ir.Value], *rest: str, **options: Sequence[str]
    ) -> ir.Value:
        """A call, in which functions that NVVM lacks are replaced."""
        name = getattr(fn, "name", "")
        if name.startswith("llvm."):
            short = name.split(".")[1]
            if short in _WRITTEN:
                return _WRITTEN[short](self, *args)
            if short in _LIBDEVICE:
                return self._libdevice(_LIBDEVICE[short], args)
        single = name.endswith("f") and len(args) > 0 and str(args[0].type) == "float"
        plain = name[:-1] if single else name
        if plain in _C_LIBRARY:
            return self._libdevice(plain, args)
        return super().call(fn, args, *rest, **options)

    def _libdevice(self, name: str, args: Sequence[ir.Value]) -> ir.Value:
        """A function of libdevice; the name of one of single precision ends in ``f``."""
        type_ = args[0].type
        symbol = f"__nv_{name}{'f' if str(type_) == 'float' else ''}"
        return super().call(self.declared(symbol, type_, [a.type for a in args]), args)

    def declared(self, symbol: str, out: ir.Type, types: Sequence[ir.Type]) -> ir.Function:
        """A function of another module."""
        function = self.module.globals.get(symbol)
        return function or ir.Function(self.module, ir.FunctionType(out, types), symbol)

    def bits(self, x: ir.Value) -> ir.Value:
        """The pattern of bits of a real number."""
        return self.bitcast(x, _integer_type(x))


def _fabs(code: NvvmBuilder, x: ir.Value) -> ir.Value:
    size = code.and_(code.bits(x), _integer_type(x)(_sign_bit(x) - 1))
    return code.bitcast(size, x.type)


def _copysign(code: NvvmBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    sign = _sign_bit(x)
    size = code.and_(code.bits(x), _integer_type(x)(sign - 1))
    signed = code.or_(size, code.and_(code.bits(y), _integer_type(x)(sign)))
    return code.bitcast(signed, x.type)


def _integer_type(x: ir.Value) -> ir.IntType:
    """The integers of a real number's width."""
    return _WHOLE[str(x.type)]


def _sign_bit(x: ir.Value) -> int:
    return 1 << (_integer_type(x).width - 1)


def _extremum(sign: str, of_bits: str) -> Callable[[NvvmBuilder, ir.Value, ir.Value], ir.Value]:
    """The larger or smaller of two numbers, NaN if either is; -0 is less than 0."""

    def formula(code: NvvmBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        first = code.select(code.fcmp_unordered(sign, x, y), x, y)
        chosen = code.select(code.fcmp_unordered("uno", y, y), y, first)
        zeros = code.bitcast(getattr(code, of_bits)(code.bits(x), code.bits(y)), x.type)
        return code.select(code.fcmp_ordered("==", x, y), zeros, chosen)

    return formula


_WRITTEN: dict[str, Callable[..., ir.Value]] = {
    "fabs": _fabs,
    "copysign": _copysign,
    "maximum": _extremum(">", "and_"),
    "minimum": _extremum("<", "or_"),
}
