"""BLAS and LAPACK as SciPy carries them, called as Fortran is: every argument by its address.

Numba's own bindings lack the solve with many right-hand sides (``trsm``), and its ``np.linalg``
takes a second or more to compile for each function. Matrices here are in row-major order, so
Fortran sees each as its transpose.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import get_cython_function_address, intrinsic

from .memory import FlatType

_BLAS = ("gemm", "gemv", "trsm")
_LAPACK = ("getrf", "potrf")
_PREFIX = {types.float32: "s", types.float64: "d"}


def provide() -> None:
    """Make the functions known to LLVM; to be called before a routine is compiled or loaded."""
    for module, names in (("blas", _BLAS), ("lapack", _LAPACK)):
        for name in (letter + name for letter in _PREFIX.values() for name in names):
            address = get_cython_function_address(f"scipy.linalg.cython_{module}", name)
            binding.add_symbol(f"fdiff_{name}", address)


@intrinsic(prefer_literal=True)
def fortran(
    typing_context: object, name: types.Type, memory: types.Type, rest: types.Type
) -> tuple[Signature, Callable[..., ir.Value]]:
    """``fortran("getrf", a, (m, n, a, ...))`` in the precision of `a`.

    A whole number becomes an int, an int8 a character, memory its address.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        byte, integer = ir.IntType(8), ir.IntType(32)
        values = []
        for type_, value in zip(rest, cgutils.unpack_tuple(builder, args[2]), strict=True):
            if isinstance(type_, FlatType):
                proxy = cgutils.create_struct_proxy(type_)(context, builder, value)
                place = proxy.data
            elif isinstance(type_, types.Float):
                narrow = memory.dtype == types.float32 and type_ == types.float64
                place = cgutils.alloca_once_value(
                    builder, builder.fptrunc(value, ir.FloatType()) if narrow else value
                )
            else:
                character = getattr(type_, "bitwidth", 64) == 8
                cut = value if character else builder.trunc(value, integer)
                place = cgutils.alloca_once_value(builder, cut)
            values.append(builder.bitcast(place, byte.as_pointer()))
        kind = ir.FunctionType(ir.VoidType(), [v.type for v in values])
        symbol = f"fdiff_{_PREFIX[memory.dtype]}{name.literal_value}"
        builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), values)
        return context.get_dummy_value()

    return types.none(name, memory, rest), generate
