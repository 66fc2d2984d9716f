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
def unvectorised(typing_context: object) -> Generated:
    """Nothing, which LLVM cannot see through: the loop around it is left as it is."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        nothing = ir.FunctionType(ir.VoidType(), [])
        builder.call(ir.InlineAsm(nothing, "", "~{memory}", side_effect=True), [])
        return context.get_dummy_value()

    return types.none(), generate


@intrinsic
def part(
    typing_context: object, array: types.Type, start: types.Type, dtype: types.Type
) -> Generated:
    """The memory of `array`, whatever its dtype, from byte `start` on, as entries of `dtype`."""
    result = FlatType(dtype.dtype, owned=False)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        source = context.make_array(sig.args[0])(context, builder, args[0])
        raw = builder.bitcast(source.data, ir.IntType(8).as_pointer())
        out = cgutils.create_struct_proxy(result)(context, builder)
        wanted = context.get_data_type(types.CPointer(result.dtype))
        out.data = builder.bitcast(builder.gep(raw, [args[1]]), wanted)
        return out._getvalue()

    return result(array, types.intp, dtype), generate


@intrinsic
def empty(typing_context: object, size: types.Type, dtype: types.Type) -> Generated:
    """New memory for `size` entries, aligned for vectors."""
    result = FlatType(dtype.dtype, owned=True)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        return _allocated(context, builder, result, args[0])

    return result(types.intp, dtype), generate


@intrinsic
def empty_like(typing_context: object, memory: types.Type, size: types.Type) -> Generated:
    """New memory of the same dtype."""
    result = FlatType(memory.dtype, owned=True)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        return _allocated(context, builder, result, args[1])

    return result(memory, types.intp), generate


def _allocated(
    context: BaseContext, builder: ir.IRBuilder, result: FlatType, size: ir.Value
) -> ir.Value:
    width = context.get_abi_sizeof(context.get_data_type(result.dtype))
    wanted = builder.mul(size, ir.Constant(context.get_value_type(types.intp), width))
    out = cgutils.create_struct_proxy(result)(context, builder)
    align = ir.Constant(ir.IntType(32), 64)
    out.meminfo = context.nrt.meminfo_alloc_aligned(builder, wanted, align)
    raw = context.nrt.meminfo_data(builder, out.meminfo)
    out.data = builder.bitcast(raw, context.get_data_type(types.CPointer(result.dtype)))
    return out._getvalue()


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


@intrinsic
def at(typing_context: object, memory: types.Type, start: types.Type) -> Generated:
    """The same memory from entry `start` on; the caller keeps it alive."""
    result = FlatType(memory.dtype, owned=False)

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        out = cgutils.create_struct_proxy(result)(context, builder)
        out.data = _entry(context, builder, memory, args[0], args[1])
        return out._getvalue()

    return result(memory, types.intp), generate


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
    typing_context: object,
    address: types.Type,
    a: types.Type,
    b: types.Type,
    c: types.Type,
    d: types.Type,
    sizes: types.Type,
) -> Generated:
    """Status of the routine at `address`, which takes four buffers and these sizes."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: list[ir.Value]
    ) -> ir.Value:
        word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        function = ir.FunctionType(word, [pointer] * 4 + [word] * len(sizes))
        target = builder.inttoptr(args[0], function.as_pointer())
        buffers = [
            builder.bitcast(cgutils.create_struct_proxy(t)(context, builder, v).data, pointer)
            for t, v in zip((a, b, c, d), args[1:5], strict=True)
        ]
        return builder.call(target, [*buffers, *cgutils.unpack_tuple(builder, args[5])])

    return types.int64(types.int64, a, b, c, d, types.UniTuple(types.int64, len(sizes))), generate
