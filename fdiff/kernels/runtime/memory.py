"""Flat memory: entries by number, without Numba's treatment of negative indices.

``a[i + start]`` on a Numba array adds the length where the index is negative; LLVM cannot prove it
is not, and then does not vectorise (1.9 ns an entry against 0.35, Rosenbrock's gradient).
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

Generated = tuple[Signature, Callable[..., ir.Value]]
_SUM_FLAGS = (
    "reassoc",
    "nsz",
    "contract",
)  # lets a sum be vectorised; NaN and inf keep their meaning


class FlatType(types.Type):
    """A pointer to entries of one dtype; `owned` memory is freed with its last use."""

    def __init__(self, dtype: types.Type, *, owned: bool) -> None:
        self.dtype = dtype
        self.owned = owned
        super().__init__(name=f"flat({dtype}, {owned})")


@register_model(FlatType)
class FlatModel(models.StructModel):
    """The address of the first entry and, for owned memory, its reference count."""

    def __init__(self, dmm: object, fe_type: FlatType) -> None:
        members = [("data", types.CPointer(fe_type.dtype))]
        if fe_type.owned:
            members.append(("meminfo", types.MemInfoPointer(fe_type.dtype)))
        super().__init__(dmm, fe_type, members)


@intrinsic
def flat(typing_context: object, array: types.Type) -> Generated:
    """The memory of `array`; the caller keeps it alive."""
    result = FlatType(array.dtype, owned=False)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        source = context.make_array(sig.args[0])(context, builder, args[0])
        out = cgutils.create_struct_proxy(result)(context, builder)
        out.data = source.data
        return out._getvalue()

    return result(array), generate


@intrinsic
def empty(typing_context: object, size: types.Type, dtype: types.Type) -> Generated:
    """New memory for `size` entries, aligned for vectors."""
    result = FlatType(dtype.dtype, owned=True)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        word = context.get_value_type(types.intp)
        width = context.get_abi_sizeof(context.get_data_type(result.dtype))
        wanted = builder.mul(args[0], ir.Constant(word, width))
        out = cgutils.create_struct_proxy(result)(context, builder)
        out.meminfo = context.nrt.meminfo_alloc_aligned(
            builder, wanted, ir.Constant(ir.IntType(32), 64)
        )
        raw = context.nrt.meminfo_data(builder, out.meminfo)
        out.data = builder.bitcast(raw, context.get_data_type(types.CPointer(result.dtype)))
        return out._getvalue()

    return result(types.intp, dtype), generate


@intrinsic
def entries(typing_context: object, pointer: types.Type) -> Generated:
    """Memory at a C pointer."""
    result = FlatType(pointer.dtype, owned=False)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        out = cgutils.create_struct_proxy(result)(context, builder)
        out.data = args[0]
        return out._getvalue()

    return result(pointer), generate


@infer_global(operator.getitem)
class _ReadFlat(AbstractTemplate):
    def generic(self, args: tuple[types.Type, ...], kws: object) -> Signature | None:
        if isinstance(args[0], FlatType) and isinstance(args[1], types.Integer):
            return signature(args[0].dtype, args[0], types.intp)
        return None


@infer_global(operator.setitem)
class _WriteFlat(AbstractTemplate):
    def generic(self, args: tuple[types.Type, ...], kws: object) -> Signature | None:
        if isinstance(args[0], FlatType) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], types.intp, args[0].dtype)
        return None


def _entry(
    context: BaseContext, builder: ir.IRBuilder, type_: FlatType, value: ir.Value, at: ir.Value
) -> ir.Value:
    proxy = cgutils.create_struct_proxy(type_)(context, builder, value)
    return builder.gep(proxy.data, [at], inbounds=True)


@lower_builtin(operator.getitem, FlatType, types.Integer)
def _read(
    context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
) -> ir.Value:
    pointer = _entry(context, builder, sig.args[0], args[0], args[1])
    return context.unpack_value(builder, sig.args[0].dtype, pointer)


@lower_builtin(operator.setitem, FlatType, types.Integer, types.Any)
def _write(
    context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
) -> ir.Value:
    pointer = _entry(context, builder, sig.args[0], args[0], args[1])
    context.pack_value(builder, sig.args[0].dtype, args[2], pointer)
    return context.get_dummy_value()


# --- sums that may be reordered ---------------------------------------------------------------


@intrinsic
def add(typing_context: object, x: types.Type, y: types.Type) -> Generated:
    """``x + y`` of a reduction; LLVM may reorder such sums among themselves."""
    return _reorderable(x, "fadd", "add")


@intrinsic
def multiply(typing_context: object, x: types.Type, y: types.Type) -> Generated:
    """``x * y`` of a reduction."""
    return _reorderable(x, "fmul", "mul")


def _reorderable(x: types.Type, real: str, whole: str) -> Generated:
    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        if isinstance(x, types.Float):
            return getattr(builder, real)(*args, flags=_SUM_FLAGS)
        return getattr(builder, whole)(*args)

    return x(x, x), generate


# --- routines of this machine, by their address -----------------------------------------------


@intrinsic
def call(
    typing_context: object, address: types.Type, a: types.Type, b: types.Type, c: types.Type, d: types.Type,
    n0: types.Type, n1: types.Type, n2: types.Type, n3: types.Type,
) -> Generated:  # fmt: skip
    """Status of the routine at `address`, which takes four buffers and four sizes."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        function = ir.FunctionType(word, [pointer] * 4 + [word] * 4)
        target = builder.inttoptr(args[0], function.as_pointer())
        buffers = [
            builder.bitcast(cgutils.create_struct_proxy(t)(context, builder, v).data, pointer)
            for t, v in zip(sig.args[1:5], args[1:5], strict=True)
        ]
        return builder.call(target, [*buffers, *args[5:]])

    return types.int64(types.int64, a, b, c, d, *[types.int64] * 4), generate


@intrinsic
def gemm(
    typing_context: object, flip_a: types.Type, flip_b: types.Type, a: types.Type, at_a: types.Type, b: types.Type,
    at_b: types.Type, c: types.Type, at_c: types.Type, m: types.Type, k: types.Type, n: types.Type,
) -> Generated:  # fmt: skip
    """``c = a @ b`` by BLAS on row-major memory from the given entries on: it computes c' = b' a'."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        char, word, pointer = ir.IntType(8), ir.IntType(64), ir.IntType(8).as_pointer()
        arguments = (
            [char] * 3 + [word] * 3 + [pointer] * 2 + [word, pointer, word] + [pointer] * 2 + [word]
        )
        kind = ir.FunctionType(ir.IntType(32), arguments)
        function = cgutils.get_or_insert_function(builder.module, kind, "numba_xxgemm")
        rows, inner, columns = args[8:]

        def constant(value: float) -> ir.Value:
            slot = cgutils.alloca_once_value(builder, context.get_constant(a.dtype, value))
            return builder.bitcast(slot, pointer)

        def operand(
            flip: ir.Value, base: ir.Value, at: ir.Value, plain: ir.Value, flipped: ir.Value
        ) -> tuple[ir.Value, ...]:
            flag = builder.trunc(flip, ir.IntType(1))
            how = builder.select(flag, ir.Constant(char, ord("t")), ir.Constant(char, ord("n")))
            return (
                how,
                builder.bitcast(builder.gep(base, [at]), pointer),
                builder.select(flag, flipped, plain),
            )

        left, memory_a, lead_a = operand(args[0], args[2], args[3], inner, rows)
        right, memory_b, lead_b = operand(args[1], args[4], args[5], columns, inner)
        letter = ir.Constant(char, ord("d" if a.dtype == types.float64 else "s"))
        result = builder.bitcast(builder.gep(args[6], [args[7]]), pointer)
        builder.call(
            function,
            [
                letter,
                right,
                left,
                columns,
                rows,
                inner,
                constant(1.0),
                memory_b,
                lead_b,
                memory_a,
                lead_a,
                constant(0.0),
                result,
                columns,
            ],
        )
        return context.get_dummy_value()

    word = types.int64
    return types.none(word, word, a, word, b, word, c, word, word, word, word), generate
