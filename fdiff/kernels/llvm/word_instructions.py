"""Words of kernel texts that are an LLVM instruction or two: numbers, vectors, memory and calls.

Each function here is a formula of `words`: it appends to `code` the instructions that compute the
word's result from `args`. Sums that LLVM may reorder stand in `fast_math`.
"""

from __future__ import annotations

from llvmlite import ir

from .arithmetic import compared
from .function_builder import declare, stack_slot
from .types import (
    BYTE,
    WORD,
    Formula,
    TypedValue,
    convert,
    integer,
    is_pointer,
    is_real,
    llvm_type,
    unified,
    width,
)


def intrinsic(code: ir.IRBuilder, name: str, args: list[TypedValue]) -> TypedValue:
    """A function that LLVM knows, of numbers that become the type of the first."""
    type_ = args[0].type
    values = [convert(code, a, type_).value for a in args]
    signature = ir.FunctionType(values[0].type, [v.type for v in values])
    function = code.module.declare_intrinsic(name, [values[0].type], signature)
    return TypedValue(type_, code.call(function, values))


# --- numbers ----------------------------------------------------------------------------------


def rounding(name: str) -> Formula:
    """An LLVM intrinsic that rounds real numbers; integers stay as they are."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        return intrinsic(code, name, args) if is_real(args[0].type) else args[0]

    return formula


def real(name: str) -> Formula:
    """An LLVM intrinsic of real numbers, which integers become."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        type_ = args[0].type if is_real(args[0].type) else "f8"
        return intrinsic(code, name, [convert(code, a, type_) for a in args])

    return formula


def extremum(name: str, sign: str) -> Formula:
    """The larger or smaller of two numbers: by an intrinsic, or a comparison of integers."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        x, y = args[0], convert(code, args[1], args[0].type)
        if is_real(x.type):
            return intrinsic(code, name, [x, y])
        compare = code.icmp_signed if x.type[0] == "i" else code.icmp_unsigned
        return TypedValue(x.type, code.select(compare(sign, x.value, y.value), x.value, y.value))

    return formula


def first_extremum(sign: str) -> Formula:
    """Python's ``min`` and ``max`` of any number of arguments."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        out = args[0]
        for other in args[1:]:
            type_ = unified(out.type, other.type)
            a, b = convert(code, out, type_), convert(code, other, type_)
            out = TypedValue(type_, code.select(compared(code, sign, b, a), b.value, a.value))
        return out

    return formula


def absolute(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    (x,) = args
    if is_real(x.type):
        return intrinsic(code, "llvm.fabs", [x])
    if x.type[0] in "ub":
        return x
    negative = code.icmp_signed("<", x.value, ir.Constant(x.value.type, 0))
    return TypedValue(x.type, code.select(negative, code.neg(x.value), x.value))


def conversion(type_: str) -> Formula:
    """A number as another type."""
    return lambda code, args: convert(code, args[0], type_)


def remainder(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    return TypedValue(args[0].type, code.frem(args[0].value, args[1].value))


def bits(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    return integer(8 * width(args[0].type))


def share(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    n, part, parts = (convert(code, a, "i8").value for a in args)
    product = code.mul(n, part, flags=("nuw", "nsw"))
    return TypedValue("i8", code.udiv(product, parts))


# --- functions of the C library, BLAS and LAPACK ----------------------------------------------


def libm(name: str) -> Formula:
    """A function of the C library, whose name ends in ``f`` for single precision."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        type_ = args[0].type if is_real(args[0].type) else "f8"
        values = [convert(code, a, type_).value for a in args]
        return TypedValue(type_, code.call(_external(code, name, values, type_), values))

    return formula


def ldexp(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    x, n = args
    values = [x.value, convert(code, n, "i4").value]
    return TypedValue(x.type, code.call(_external(code, "ldexp", values, x.type), values))


def _external(code: ir.IRBuilder, name: str, values: list[ir.Value], type_: str) -> ir.Function:
    symbol = f"{name}f" if type_ == "f4" else name
    if symbol in code.module.globals:
        return code.module.globals[symbol]
    types = [v.type for v in values]
    return declare(code.module, symbol, llvm_type(type_), types, "nounwind readnone")


def call(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    values_at = [a if is_pointer(a.type) else convert(code, a, "i8") for a in args[1:]]
    values = [_bytes(code, a.value) if is_pointer(a.type) else a.value for a in values_at]
    return TypedValue("i8", _call_at(code, args[0], WORD, values))


def double(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    numbers = [convert(code, a, "f8" if is_real(a.type) else "i4") for a in args[1:]]
    return TypedValue("f8", _call_at(code, args[0], llvm_type("f8"), [a.value for a in numbers]))


def fortran(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    values: list[ir.Value] = []
    for x in args[1:]:
        where = x.value
        if not is_pointer(x.type):
            type_ = x.type if x.type in ("i1", "f4", "f8") else "i4"
            where = stack_slot(code, llvm_type(type_))
            code.store(convert(code, x, type_).value, where)
        values.append(_bytes(code, where))
    return TypedValue("", _call_at(code, args[0], ir.VoidType(), values))


def _call_at(
    code: ir.IRBuilder, address: TypedValue, out: ir.Type, values: list[ir.Value]
) -> ir.Value:
    """The call of a function at an address."""
    signature = ir.FunctionType(out, [v.type for v in values])
    target = code.inttoptr(convert(code, address, "i8").value, signature.as_pointer())
    return code.call(target, values)


def _bytes(code: ir.IRBuilder, where: ir.Value) -> ir.Value:
    return code.bitcast(where, BYTE.as_pointer())


def opaque(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    """An empty piece of assembly, which LLVM can neither remove nor vectorise."""
    signature = ir.FunctionType(ir.VoidType(), [])
    assembly = ir.InlineAsm(signature, "", "~{memory}", side_effect=True)
    return TypedValue("", code.call(assembly, []))


# --- vectors ----------------------------------------------------------------------------------


def load_vector(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    type_ = f"{args[0].type[:-1]}x{_literal(args[2])}"
    return TypedValue(type_, code.load(_vector_at(code, args, type_), align=width(type_)))


def store_vector(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    x = args[2]
    code.store(x.value, _vector_at(code, args, x.type), align=width(x.type))
    return x


def broadcast(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    count = _literal(args[1])
    type_ = f"{args[0].type}x{count}"
    undefined = ir.Constant(llvm_type(type_), ir.Undefined)
    single = code.insert_element(undefined, args[0].value, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), count), None)
    return TypedValue(type_, code.shuffle_vector(single, undefined, mask))


def _literal(x: TypedValue) -> int:
    """A number of entries, which stands in the text as a literal."""
    assert isinstance(x.value, ir.Constant)
    return int(x.value.constant)


def _vector_at(code: ir.IRBuilder, args: list[TypedValue], type_: str) -> ir.Value:
    return code.bitcast(offset(code, args).value, llvm_type(type_).as_pointer())


# --- memory -----------------------------------------------------------------------------------


def offset(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    where = convert(code, args[1], "i8").value
    return TypedValue(args[0].type, code.gep(args[0].value, [where], inbounds=True))


def pointer(type_: str) -> Formula:
    """An address as a pointer to entries of a type."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        address = convert(code, args[0], "i8").value
        return TypedValue(type_, code.inttoptr(address, llvm_type(type_)))

    return formula


def address(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    return TypedValue("i8", code.ptrtoint(args[0].value, WORD))


def stack_words(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
    count = convert(code, args[0], "i8").value
    if isinstance(count, ir.Constant):  # taken once, where LLVM can make registers of it
        with code.goto_entry_block():
            return TypedValue("i8", code.ptrtoint(code.alloca(WORD, count), WORD))
    return TypedValue("i8", code.ptrtoint(code.alloca(WORD, count), WORD))
