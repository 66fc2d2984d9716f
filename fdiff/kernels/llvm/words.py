"""What kernel texts may call: ``rt.name``, ``math.name`` and ``np.name``.

Elementary functions are formulas (`runtime.maths`), other scalar functions texts of their own
(`runtime.scalar`); the rest are instructions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache

from llvmlite import ir

from ..runtime import maths, scalar
from . import atomics, float_flags
from .expressions import UnknownWordError
from .statements import Writer
from .types import BYTE, WORD, Term, convert, is_pointer, llvm_type, whole, width

_SUM = ("reassoc", "nsz", "contract")  # lets a sum be vectorised; NaN and inf keep their meaning
_LIBM = frozenset(
    [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "fmod",
        "hypot",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "nextafter",
        "pow",
        "sin",
        "sinh",
        "tan",
        "tanh",
        "tgamma",
    ]
)
Function = Callable[[Writer, list[Term]], Term]


def call(to: Writer, home: str, name: str, args: list[Term]) -> Term:
    """``home.name(*args)``."""
    function = _TABLES[home].get(name) if home in _TABLES else None
    if function is not None:
        return function(to, args)
    if not home:
        return _local(to, name, args)
    if home == "rt":
        if name in maths.FORMULAS:
            return _formula(to, name, args)
        if name in scalar.TEXTS:
            return _text(to, name, args)
    if home == "math" and name in _LIBM:
        return _libm(to, name, args)
    raise UnknownWordError(f"{home}.{name}")


def _formula(to: Writer, name: str, args: list[Term]) -> Term:
    """An elementary function."""
    kind = args[0].kind
    if kind[0] != "f":
        if name in scalar.TEXTS:  # `power` of whole numbers
            return _text(to, name, args)
        raise UnknownWordError(f"rt.{name} of {kind}")
    values = [convert(to.code, a, kind).at for a in args]
    out = "b1" if name in maths.TESTS else kind
    return Term(out, maths.call(to.code, maths.FORMULAS[name], values, llvm_type(out)))


def _libm(to: Writer, name: str, args: list[Term]) -> Term:
    """A function of the C library, with an ``f`` at its end for single precision."""
    kind = args[0].kind if args[0].kind[0] == "f" else "f8"
    values = [convert(to.code, a, kind).at for a in args]
    symbol = f"{name}f" if kind == "f4" else name
    return Term(kind, to.code.call(_external(to, symbol, values, kind), values))


def _external(to: Writer, symbol: str, values: list[ir.Value], kind: str) -> ir.Function:
    found = to.module.globals.get(symbol)
    type_ = ir.FunctionType(llvm_type(kind), [v.type for v in values])
    if found is None:
        found = ir.Function(to.module, type_, symbol)
        found.attributes.add("nounwind")
        found.attributes.add("readnone")
    return found


def _ldexp(to: Writer, args: list[Term]) -> Term:
    x, n = args
    values = [x.at, convert(to.code, n, "i4").at]
    symbol = "ldexpf" if x.kind == "f4" else "ldexp"
    return Term(x.kind, to.code.call(_external(to, symbol, values, x.kind), values))


# --- texts ------------------------------------------------------------------------------------


def local(name: str) -> str:
    """The symbol of a function that stands in the same text as those that call it."""
    return f"local_{name}"


def _local(to: Writer, name: str, args: list[Term]) -> Term:
    """A function of the same text."""
    function = to.module.globals.get(local(name))
    if function is None:
        raise UnknownWordError(name)
    values = []
    for term, type_ in zip(args, function.ftype.args, strict=True):
        kind = _KINDS.get(str(type_), term.kind)
        values.append(convert(to.code, term, kind).at)
    out = _KINDS[str(function.ftype.return_type)]
    return Term(out, to.code.call(function, values))


_KINDS = {str(llvm_type(kind)): kind for kind in ("i8", "i4", "f8", "f4")}


@lru_cache(maxsize=256)
def _parsed(name: str, family: str) -> ast.FunctionDef:
    for families, text in scalar.TEXTS[name]:
        if family in families:
            (function,) = ast.parse(text).body
            assert isinstance(function, ast.FunctionDef)
            return function
    raise UnknownWordError(f"rt.{name} of kind {family}")


def _text(to: Writer, name: str, args: list[Term]) -> Term:
    """A function that is compiled from its own text once a module and kind of arguments."""
    node = _parsed(name, args[0].kind[0])
    kinds = [a.kind for a in args]
    out = "b1" if name in scalar.TESTS else kinds[0]
    symbol = f"fdiff_{name}_{'_'.join(kinds)}"
    function = to.module.globals.get(symbol)
    if function is None:
        type_ = ir.FunctionType(llvm_type(out), [llvm_type(k) for k in kinds])
        function = ir.Function(to.module, type_, symbol)
        function.linkage = "internal"
        function.attributes.add("alwaysinline")
        function.attributes.add("nounwind")
        writer = Writer(function, node.body, out, call)
        names = [a.arg for a in node.args.args]
        writer.write({n: Term(k, v) for n, k, v in zip(names, kinds, function.args, strict=True)})
    return Term(out, to.code.call(function, [a.at for a in args]))


# --- instructions -----------------------------------------------------------------------------


def _intrinsic(name: str) -> Function:
    """An LLVM intrinsic of real numbers; whole numbers are what it makes of them."""

    def function(to: Writer, args: list[Term]) -> Term:
        return to.intrinsic(name, args) if args[0].kind[0] == "f" else args[0]

    return function


def _real(name: str) -> Function:
    """An LLVM intrinsic that makes real numbers of whole ones."""

    def function(to: Writer, args: list[Term]) -> Term:
        kind = args[0].kind if args[0].kind[0] == "f" else "f8"
        return to.intrinsic(name, [convert(to.code, a, kind) for a in args])

    return function


def _select(real: str, whole: str) -> Function:
    """The greater or lesser of two numbers."""

    def function(to: Writer, args: list[Term]) -> Term:
        x, y = args[0], convert(to.code, args[1], args[0].kind)
        if x.kind[0] == "f":
            return to.intrinsic(real, [x, y])
        compare = to.code.icmp_signed if x.kind[0] == "i" else to.code.icmp_unsigned
        return Term(x.kind, to.code.select(compare(whole, x.at, y.at), x.at, y.at))

    return function


def _reorderable(real: str, whole: str) -> Function:
    """A sum or product that LLVM may reorder among its like."""

    def function(to: Writer, args: list[Term]) -> Term:
        x, y = args[0], convert(to.code, args[1], args[0].kind)
        if x.kind[0] == "f":
            return Term(x.kind, getattr(to.code, real)(x.at, y.at, flags=_SUM))
        return Term(x.kind, getattr(to.code, whole)(x.at, y.at))

    return function


def _remainder(to: Writer, args: list[Term]) -> Term:
    return Term(args[0].kind, to.code.frem(args[0].at, args[1].at))


def _unvectorised(to: Writer, args: list[Term]) -> Term:
    """Nothing, which LLVM cannot see through: the loop around it is left as it is."""
    nothing = ir.FunctionType(ir.VoidType(), [])
    asm = ir.InlineAsm(nothing, "", "~{memory}", side_effect=True)
    return Term("", to.code.call(asm, []))


def _call(to: Writer, args: list[Term]) -> Term:
    """The status of the routine at an address, which takes memory and whole numbers."""
    code = to.code
    given = [a if is_pointer(a.kind) else convert(code, a, "i8") for a in args[1:]]
    values = [code.bitcast(a.at, BYTE.as_pointer()) if is_pointer(a.kind) else a.at for a in given]
    type_ = ir.FunctionType(WORD, [v.type for v in values])
    target = code.inttoptr(convert(code, args[0], "i8").at, type_.as_pointer())
    return Term("i8", code.call(target, values))


def _fortran(to: Writer, args: list[Term]) -> Term:
    """The routine at an address, called as Fortran is: every argument by its address.

    A whole number becomes an int, a character stays one.
    """
    code, values = to.code, []
    for term in args[1:]:
        if is_pointer(term.kind):
            place = term.at
        else:
            kind = term.kind if term.kind in ("i1", "f4", "f8") else "i4"
            place = to.place(kind)
            code.store(convert(code, term, kind).at, place)
        values.append(code.bitcast(place, BYTE.as_pointer()))
    type_ = ir.FunctionType(ir.VoidType(), [v.type for v in values])
    target = code.inttoptr(convert(code, args[0], "i8").at, type_.as_pointer())
    return Term("", code.call(target, values))


def _at(to: Writer, args: list[Term]) -> Term:
    """The same memory from an entry on."""
    place = convert(to.code, args[1], "i8").at
    return Term(args[0].kind, to.code.gep(args[0].at, [place], inbounds=True))


def _vector(to: Writer, args: list[Term]) -> Term:
    """The entries from a place on: memory, place, count."""
    kind = f"{args[0].kind[:-1]}x{_count(args[2])}"
    return Term(kind, to.code.load(_many(to, args, kind), align=width(kind)))


def _spread(to: Writer, args: list[Term]) -> Term:
    """A vector of so many times the same number."""
    count = _count(args[1])
    kind = f"{args[0].kind}x{count}"
    nothing, first = ir.Constant(llvm_type(kind), ir.Undefined), ir.Constant(ir.IntType(32), 0)
    one = to.code.insert_element(nothing, args[0].at, first)
    mask = ir.Constant(ir.VectorType(ir.IntType(32), count), None)
    return Term(kind, to.code.shuffle_vector(one, nothing, mask))


def _put(to: Writer, args: list[Term]) -> Term:
    """A vector stored from a place on: memory, place, vector."""
    value = args[2]
    to.code.store(value.at, _many(to, args, value.kind), align=width(value.kind))
    return value


def _total(to: Writer, args: list[Term]) -> Term:
    """The sum of the entries of a vector: LLVM adds its halves, their halves, and so on."""
    kind, value = args[0].kind, args[0].at
    assert isinstance(value.type, ir.VectorType)
    entry, count = kind.split("x")
    real = llvm_type(entry)
    name = f"llvm.vector.reduce.fadd.v{count}f{8 * width(entry)}"
    function = to.module.declare_intrinsic(name, (), ir.FunctionType(real, [real, value.type]))
    # without leave to reorder, it would add one entry after the other
    none = ir.Constant(real, -0.0)
    return Term(entry, to.code.call(function, [none, value], fastmath=("reassoc",)))


def _count(term: Term) -> int:
    """A number of entries, which is written out."""
    assert isinstance(term.at, ir.Constant)
    return int(term.at.constant)


def _many(to: Writer, args: list[Term], kind: str) -> ir.Value:
    return to.code.bitcast(_at(to, args).at, llvm_type(kind).as_pointer())


def _share(to: Writer, args: list[Term]) -> Term:
    """Where a part of so many entries begins: entries, part, parts; none is below zero."""
    n, part, parts = (convert(to.code, a, "i8").at for a in args)
    product = to.code.mul(n, part, flags=("nuw", "nsw"))
    return Term("i8", to.code.udiv(product, parts))


def _memory(kind: str) -> Function:
    """The memory at an address."""

    def function(to: Writer, args: list[Term]) -> Term:
        pointer = to.code.inttoptr(convert(to.code, args[0], "i8").at, llvm_type(kind))
        return Term(kind, pointer)

    return function


def _where(to: Writer, args: list[Term]) -> Term:
    """The address of memory."""
    return Term("i8", to.code.ptrtoint(args[0].at, WORD))


def _room(to: Writer, args: list[Term]) -> Term:
    """The address of so many words on the stack."""
    count = convert(to.code, args[0], "i8").at
    return Term("i8", to.code.ptrtoint(to.code.alloca(WORD, count), WORD))


def _bits(to: Writer, args: list[Term]) -> Term:
    """How many bits a number has."""
    return whole(8 * width(args[0].kind))


_TABLES: dict[str, dict[str, Function]] = {
    "rt": {
        "rint": _intrinsic("llvm.rint"),
        "maximum": _select("llvm.maximum", ">"),  # NaN wins
        "minimum": _select("llvm.minimum", "<"),
        "fmax": _select("llvm.maxnum", ">"),  # NaN loses
        "fmin": _select("llvm.minnum", "<"),
        "add": _reorderable("fadd", "add"),
        "multiply": _reorderable("fmul", "mul"),
        "rest": _remainder,
        "bits": _bits,
        "ldexp": _ldexp,
        "unvectorised": _unvectorised,
        "call": _call,
        "fortran": _fortran,
        "at": _at,
        "vector": _vector,
        "spread": _spread,
        "put": _put,
        "total": _total,
        "words": _memory("i8*"),
        "halves": _memory("i4*"),
        "float64": _memory("f8*"),
        "float32": _memory("f4*"),
        "where": _where,
        "share": _share,
        "room": _room,
        "fresh": atomics.fresh,
        "swap": atomics.swap,
        "take": atomics.take,
        "change": atomics.change,
        "pause": atomics.pause,
        "flags": float_flags.flags,
        "clear_flags": float_flags.clear_flags,
        "raise_flag": float_flags.raise_flag,
    },
    "math": {"sqrt": _real("llvm.sqrt"), "copysign": _real("llvm.copysign")},
    "np": {
        "floor": _intrinsic("llvm.floor"),
        "ceil": _intrinsic("llvm.ceil"),
        "trunc": _intrinsic("llvm.trunc"),
    },
}
