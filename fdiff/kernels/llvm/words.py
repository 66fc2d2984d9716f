"""The functions that kernel texts may call: one table, the specification of the language's words.

Each row has a word, the types it takes and gives, its formula, and what it means. From the formulas
LLVM code is built; they take an `llvmlite.ir.IRBuilder` and typed values and nothing else, so that
another compiler over llvmlite can build the same code from the same rows.

Types: `f` a real number, `n` a number of any dtype, `i` an integer of 64 bits, `b` a truth value,
`p` a pointer, `v` a vector, `k` a literal, `*` any number of arguments of any type. The same letter
in the result is the type of the first argument of that letter, which the others become.

Unless a row says otherwise, an elementary function has an error of at most 2 ulp, NaN gives NaN,
and the values at infinities and signed zeros are those of the function of this name in NumPy,
SciPy's `special` or C99 (annex F).
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import NamedTuple

from llvmlite import ir

from ..runtime import maths, scalar
from . import atomics, float_flags
from . import instructions as do
from .arithmetic import UnknownWordError
from .function_builder import FunctionBuilder
from .instructions import Formula
from .statements import write
from .types import DTYPES, TypedValue, convert, is_real, llvm_type


class Word(NamedTuple):
    """A row of the table: a function of kernel texts."""

    name: str
    types: str
    formula: Formula
    meaning: str = ""


def call(to: FunctionBuilder, home: str, name: str, args: list[TypedValue]) -> TypedValue:
    """``home.name(*args)``; without a `home`, a word of Python or a function of the same text."""
    word = WORDS.get(f"{home}.{name}" if home else name)
    if word is not None:
        return word.formula(to.code, args)
    if not home:
        return _local(to, name, args)
    raise UnknownWordError(f"{home}.{name}")


# --- words that are formulas or texts ---------------------------------------------------------


def _elementary(name: str) -> Formula:
    """A formula of `runtime.maths`; integers are for a text, where there is one."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        type_ = args[0].type
        if not is_real(type_):
            return _scalar(name)(code, args)
        values = [convert(code, a, type_).value for a in args]
        out = "b1" if name in maths.TESTS else type_
        return TypedValue(out, maths.call(code, maths.FORMULAS[name], values, llvm_type(out)))

    return formula


def _scalar(name: str) -> Formula:
    """A text of `runtime.scalar`, compiled once a module for each combination of types."""

    def formula(code: ir.IRBuilder, args: list[TypedValue]) -> TypedValue:
        node = _parsed(name, args[0].type[0])
        types = [a.type for a in args]
        out = "b1" if name in scalar.TESTS else types[0]
        symbol = f"fdiff_{name}_{'_'.join(types)}"
        function = code.module.globals.get(symbol)
        if function is None:
            signature = ir.FunctionType(llvm_type(out), [llvm_type(t) for t in types])
            function = ir.Function(code.module, signature, symbol)
            function.linkage = "internal"
            function.attributes.add("alwaysinline")
            function.attributes.add("nounwind")
            names = [a.arg for a in node.args.args]
            values = map(TypedValue, types, function.args)
            to = FunctionBuilder(function, call, out)
            write(to, node.body, dict(zip(names, values, strict=True)))
        return TypedValue(out, code.call(function, [a.value for a in args]))

    return formula


@lru_cache(maxsize=256)
def _parsed(name: str, family: str) -> ast.FunctionDef:
    """The text for a family of dtypes."""
    for families, text in scalar.TEXTS.get(name, ()):
        if family in families:
            (function,) = ast.parse(text).body
            assert isinstance(function, ast.FunctionDef)
            return function
    raise UnknownWordError(f"rt.{name} of {family}")


def local(name: str) -> str:
    """The symbol of a function that only the text it stands in can call."""
    return f"local_{name}"


_TYPES = {str(llvm_type(type_)): type_ for type_ in ("i8", "i4", "f8", "f4")}


def _local(to: FunctionBuilder, name: str, args: list[TypedValue]) -> TypedValue:
    """A call of an earlier function of the same text."""
    function = to.module.globals.get(local(name))
    if function is None:
        raise UnknownWordError(name)
    values: list[ir.Value] = []
    for x, parameter in zip(args, function.ftype.args, strict=True):
        values.append(convert(to.code, x, _TYPES.get(str(parameter), x.type)).value)
    return TypedValue(_TYPES[str(function.ftype.return_type)], to.code.call(function, values))


# --- the table --------------------------------------------------------------------------------

_WORDS = (
    # Python's own
    Word("abs", "n -> n", do.absolute, "the smallest integer stays as it is"),
    Word("min", "* -> n", do.first_extremum("<"), "the first of those that no other is less than"),
    Word("max", "* -> n", do.first_extremum(">"), "the first of those that no other is more than"),
    *(Word(f"np.{t}", f"n -> {DTYPES[t]}", do.conversion(DTYPES[t]), "as C") for t in DTYPES),
    # rounding, signs and extrema
    Word("np.floor", "n -> n", do.rounding("llvm.floor"), "integers stay as they are"),
    Word("np.ceil", "n -> n", do.rounding("llvm.ceil"), "integers stay as they are"),
    Word("np.trunc", "n -> n", do.rounding("llvm.trunc"), "integers stay as they are"),
    Word("rt.rint", "n -> n", do.rounding("llvm.rint"), "ties to even; integers stay as they are"),
    Word("math.copysign", "f f -> f", do.real("llvm.copysign")),
    Word("rt.maximum", "n n -> n", do.extremum("llvm.maximum", ">"), "NaN if either is; -0 < 0"),
    Word("rt.minimum", "n n -> n", do.extremum("llvm.minimum", "<"), "NaN if either is; -0 < 0"),
    Word("rt.fmax", "n n -> n", do.extremum("llvm.maxnum", ">"), "NaN only if both are"),
    Word("rt.fmin", "n n -> n", do.extremum("llvm.minnum", "<"), "NaN only if both are"),
    Word("rt.sign", "n -> n", _scalar("sign"), "0 of either zero"),
    Word("rt.heaviside", "f f -> f", _scalar("heaviside"), "the second argument at either zero"),
    Word("rt.isnan", "n -> b", _scalar("isnan"), "true of NaN"),
    Word("rt.isinf", "n -> b", _scalar("isinf"), "false of NaN"),
    Word("rt.isfinite", "n -> b", _scalar("isfinite"), "false of NaN"),
    Word("rt.signbit", "n -> b", _scalar("signbit"), "true of -0; of NaN, its sign"),
    Word("rt.spacing", "f -> f", _scalar("spacing"), "NaN at infinities"),
    Word("rt.nextafter", "f f -> f", _scalar("nextafter")),
    Word("rt.ldexp", "f i -> f", do.ldexp),
    # sums and products
    Word("rt.add", "n n -> n", do.reorderable("fadd", "add"), "LLVM may reorder sums of these"),
    Word("rt.multiply", "n n -> n", do.reorderable("fmul", "mul"), "LLVM may reorder products"),
    Word("rt.rest", "f f -> f", do.remainder, "C's fmod: the sign is that of the dividend"),
    Word("rt.fmod", "n n -> n", _scalar("fmod"), "C's fmod; of integers by 0, 0"),
    Word("rt.remainder", "n n -> n", _scalar("remainder"), "the divisor's sign; integers by 0: 0"),
    Word("rt.floor_divide", "n n -> n", _scalar("floor_divide"), "x / 0 as `/`; integers by 0: 0"),
    # integers
    Word("rt.invert", "n -> n", _scalar("invert"), "of a truth value, not"),
    Word("rt.left_shift", "n n -> n", _scalar("left_shift"), "0 beyond the width"),
    Word("rt.right_shift", "n n -> n", _scalar("right_shift"), "0 or -1 beyond the width"),
    Word("rt.gcd", "n n -> n", _scalar("gcd"), "gcd(0, 0) = 0"),
    Word("rt.lcm", "n n -> n", _scalar("lcm"), "lcm(0, x) = 0"),
    Word("rt.bits", "n -> i", do.bits, "how many bits a number of this dtype has"),
    Word("rt.share", "i i i -> i", do.share, "n * part // parts; none is negative"),
    # exponentials
    Word("rt.exp", "f -> f", _elementary("exp")),
    Word("rt.exp2", "f -> f", _elementary("exp2"), "exact for integers"),
    Word("rt.expm1", "f -> f", _elementary("expm1"), "keeps the sign of zero"),
    Word("rt.sinh", "f -> f", _elementary("sinh"), "keeps the sign of zero"),
    Word("rt.cosh", "f -> f", _elementary("cosh")),
    Word("rt.tanh", "f -> f", _elementary("tanh"), "keeps the sign of zero; 1 at inf"),
    Word("rt.expit", "f -> f", _elementary("expit"), "1 / (1 + exp(-x))"),
    Word("rt.exp_product", "f f -> f", _elementary("exp_product"), "exp(x y), x y not rounded"),
    Word("rt.exp_minus_square", "f -> f", _elementary("exp_minus_square"), "exp(-x x) likewise"),
    Word("rt.sech_squared", "f -> f", _elementary("sech_squared"), "1 - tanh(x)**2; 0 at inf"),
    Word("rt.logistic_slope", "f -> f", _elementary("logistic_slope"), "derivative of expit"),
    # error functions
    Word("rt.erf", "f -> f", _elementary("erf"), "keeps the sign of zero; 1 at inf"),
    Word("rt.erfc", "f -> f", _elementary("erfc"), "2 at -inf, 0 at inf"),
    Word("rt.ndtr", "f -> f", _elementary("ndtr"), "0 at -inf, 1 at inf"),
    # logarithms
    Word("rt.log", "f -> f", _elementary("log"), "-inf at either zero, NaN below"),
    Word("rt.log1p", "f -> f", _elementary("log1p"), "-inf at -1; keeps the sign of zero"),
    Word("rt.log2", "f -> f", _elementary("log2"), "-inf at either zero, NaN below"),
    Word("rt.log10", "f -> f", _elementary("log10"), "-inf at either zero, NaN below"),
    Word("rt.asinh", "f -> f", _elementary("asinh"), "keeps the sign of zero"),
    Word("rt.acosh", "f -> f", _elementary("acosh"), "NaN below 1"),
    Word("rt.atanh", "f -> f", _elementary("atanh"), "infinite at 1; keeps the sign of zero"),
    Word("rt.logaddexp", "f f -> f", _elementary("logaddexp"), "x if both are the same infinity"),
    Word("rt.logaddexp2", "f f -> f", _elementary("logaddexp2"), "x if both are the same infinity"),
    Word("rt.first_share", "f f -> f", _elementary("first_share"), "exp(x) / (exp(x) + exp(y))"),
    Word("rt.second_share", "f f -> f", _elementary("second_share"), "exp(y) / (exp(x) + exp(y))"),
    Word("rt.first_share2", "f f -> f", _elementary("first_share2"), "2**x / (2**x + 2**y)"),
    Word("rt.second_share2", "f f -> f", _elementary("second_share2"), "2**y / (2**x + 2**y)"),
    # trigonometric functions
    Word("rt.sin", "f -> f", _elementary("sin"), "keeps the sign of zero; NaN if `rt.far`"),
    Word("rt.cos", "f -> f", _elementary("cos"), "NaN if `rt.far`"),
    Word("rt.tan", "f -> f", _elementary("tan"), "keeps the sign of zero; NaN if `rt.far`"),
    Word("rt.far", "f -> b", _elementary("far"), "finite and beyond 2**31 (f8) or 2**16 (f4)"),
    Word("rt.asin", "f -> f", _elementary("asin"), "NaN beyond 1; keeps the sign of zero"),
    Word("rt.acos", "f -> f", _elementary("acos"), "NaN beyond 1"),
    Word("rt.atan", "f -> f", _elementary("atan"), "keeps the sign of zero; pi / 2 at inf"),
    Word("rt.atan2", "f f -> f", _elementary("atan2"), "quadrants and signed zeros as in C99"),
    # powers and lengths
    Word("rt.power", "n n -> n", _elementary("power"), "C99's pow; of integers, wraps around"),
    Word("rt.power_sum", "f f f -> f", _elementary("power_sum"), "x**(y + z), y + z not rounded"),
    Word("rt.power_slope", "f f f -> f", _elementary("power_slope"), "y x**(y + z) likewise"),
    Word("math.sqrt", "f -> f", do.real("llvm.sqrt"), "correctly rounded; -0 at -0, NaN below"),
    Word("rt.cbrt", "f -> f", _elementary("cbrt"), "keeps the sign of zero"),
    Word("rt.hypot", "f f -> f", _elementary("hypot"), "inf if one is infinite, even beside NaN"),
    Word("rt.first_direction", "f f -> f", _elementary("first_direction"), "x / hypot, 0 at 0"),
    Word("rt.second_direction", "f f -> f", _elementary("second_direction"), "y / hypot, 0 at 0"),
    Word("rt.first_angle_slope", "f f -> f", _elementary("first_angle_slope"), "x / hypot**2"),
    Word("rt.second_angle_slope", "f f -> f", _elementary("second_angle_slope"), "y / hypot**2"),
    Word("rt.over_one_plus_square", "f -> f", _elementary("over_one_plus_square"), "1 / (1 + x x)"),
    Word(
        "rt.over_root_one_plus_square", "f -> f", _elementary("over_root_one_plus_square"),
        "1 / sqrt(1 + x x)",
    ),
    # the C library: any argument, one at a time
    *(Word(f"math.{name}", "f -> f", do.libm(name)) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc",
        "exp", "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "tan",
        "tanh", "tgamma",
    )),
    *(Word(f"math.{name}", "f f -> f", do.libm(name)) for name in (
        "atan2", "fmod", "hypot", "nextafter", "pow",
    )),
    # vectors
    Word("rt.vector", "p i k -> v", do.load_vector, "so many entries of memory from a position on"),
    Word("rt.put", "p i v -> v", do.store_vector, "stores a vector from a position on"),
    Word("rt.spread", "f k -> v", do.broadcast, "a vector of so many times the same number"),
    Word("rt.total", "v -> f", do.total, "the sum of the entries: halves of the vector, and so on"),
    # memory
    Word("rt.at", "p i -> p", do.offset, "the same memory from a position on"),
    Word("rt.words", "i -> p", do.pointer("i8*"), "the integers of 64 bits at an address"),
    Word("rt.halves", "i -> p", do.pointer("i4*"), "the integers of 32 bits at an address"),
    Word("rt.float64", "i -> p", do.pointer("f8*"), "the doubles at an address"),
    Word("rt.float32", "i -> p", do.pointer("f4*"), "the single-precision numbers at an address"),
    Word("rt.where", "p -> i", do.address, "the address of memory"),
    Word("rt.room", "i -> i", do.stack_words, "the address of so many words on the stack"),
    # atomic operations on words of memory
    Word("rt.fresh", "p i -> i", atomics.load, "the word at a position"),
    Word("rt.swap", "p i i -> i", atomics.exchange, "the word before it became another"),
    Word("rt.take", "p i i -> i", atomics.add, "the word before a number was added to it"),
    Word("rt.change", "p i i i -> b", atomics.compare_exchange, "from expected to new, or false"),
    Word("rt.pause", " -> ", atomics.pause, "a hint to the processor that a thread spins"),
    # the processor's floating-point flags
    Word("rt.flags", " -> i", float_flags.flags, "not 0 after invalid, division by 0 or overflow"),
    Word("rt.clear_flags", " -> i", float_flags.clear_flags, "clears all flags"),
    Word("rt.raise_flag", " -> i", float_flags.raise_flag, "sets the flag of invalid operations"),
    # calls
    Word("rt.call", "i * -> i", do.call, "the status of a routine at an address"),
    Word("rt.fortran", "i * -> ", do.fortran, "a routine whose arguments are passed by address"),
    Word("rt.unvectorised", " -> ", do.opaque, "nothing; keeps LLVM from vectorising the loop"),
)  # fmt: skip
WORDS = {word.name: word for word in _WORDS}
