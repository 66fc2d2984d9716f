"""The functions that kernel texts may call: one table, the specification of the language's words.

Each row has a word, the types it takes and gives, its formula, and what it means. From the formulas
LLVM code is built; they take an `llvmlite.ir.IRBuilder` and typed values and nothing else, so that
another compiler over llvmlite can build the same code from the same rows.

Types: `f` a real number, `n` a number of any dtype, `i` an integer of 64 bits, `b` a truth value,
`p` a pointer, `v` a vector, `k` a literal, `*` any number of arguments of any type. The same letter
in the result is the type of the first argument of that letter, which the others become. A dtype or
a pointer, such as ``f8`` or ``f8*``, stands for itself.

Unless a row says otherwise, an elementary function has an error of at most 2 ulp, NaN gives NaN,
and the values at infinities and signed zeros are those of the function of this name in NumPy,
SciPy's `special` or C99 (annex F).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from llvmlite import ir

from ..runtime import maths, scalar
from . import atomics, float_flags, time_stamps
from . import instructions as do
from .arithmetic import UnknownWordError
from .function_builder import FunctionBuilder, declare, parameters_of
from .instructions import Formula
from .statements import write
from .types import DTYPES, TypedValue, convert, is_real, llvm_type


class Word(NamedTuple):
    """A row of the table: a function of kernel texts."""

    name: str
    types: str
    formula: Formula
    meaning: str = ""

    @property
    def parameters(self) -> list[str]:
        """The letters of the arguments."""
        return self.types.partition("->")[0].split()

    def result(self, types: Sequence[str]) -> str:
        """The type of the result for arguments of these types; a literal is its own type."""
        letter = self.types.partition("->")[2].strip()
        if letter in _RESULTS:
            return _RESULTS[letter]
        if letter == "v":  # as many entries as the last argument says
            return f"{types[0].removesuffix('*')}x{types[-1]}" if types[-1].isdigit() else types[-1]
        if letter == "f" and types[0][0] != "f":
            return "f8"
        if letter not in _LETTERS:
            return letter
        k = self.parameters.index(letter) if letter in self.parameters else 0
        return types[k].split("x")[0] if self.parameters[k] == "v" else types[k]


_LETTERS = "fnipvk*"
_RESULTS = {"b": "b1", "i": "i8", "": ""}


def call(to: FunctionBuilder, home: str, name: str, args: list[TypedValue]) -> TypedValue:
    """``home.name(*args)``; without a `home`, a word of Python or a function of the same text."""
    word = word_of(f"{home}.{name}" if home else name)
    if word is not None:
        return word.formula(to.code, args)
    if not home:
        return _local(to, name, args)
    raise UnknownWordError(f"{home}.{name}")


def word_of(name: str) -> Word | None:
    """The row of a word; the number of arguments at the end of ``rt.call3`` is no part of it."""
    return WORDS.get(name) or COUNTED.get(name.rstrip("0123456789"))


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
            parameters = [llvm_type(t) for t in types]
            attributes = "alwaysinline nounwind"
            function = declare(
                code.module, symbol, llvm_type(out), parameters, attributes, internal=True
            )
            to = FunctionBuilder(function, call, out)
            write(to, node.body, parameters_of(node, types, function))
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


def _maths(name: str, types: str, meaning: str = "") -> Word:
    return Word(f"rt.{name}", types, _elementary(name), meaning)


def _text(name: str, types: str, meaning: str = "") -> Word:
    return Word(f"rt.{name}", types, _scalar(name), meaning)


_WORDS = (
    # Python's own
    Word("abs", "n -> n", do.absolute, "the smallest integer stays as it is"),
    Word("min", "* -> n", do.first_extremum("<"), "the first of those that no other is less than"),
    Word("max", "* -> n", do.first_extremum(">"), "the first of those that no other is more than"),
    *(Word(f"np.{t}", f"n -> {DTYPES[t]}", do.conversion(DTYPES[t]), "as C") for t in DTYPES),
    # rounding, signs and extrema
    Word("rt.floor", "n -> n", do.rounding("llvm.floor"), "integers stay as they are"),
    Word("rt.ceil", "n -> n", do.rounding("llvm.ceil"), "integers stay as they are"),
    Word("rt.trunc", "n -> n", do.rounding("llvm.trunc"), "integers stay as they are"),
    Word("rt.rint", "n -> n", do.rounding("llvm.rint"), "ties to even; integers stay as they are"),
    Word("math.copysign", "f f -> f", do.real("llvm.copysign")),
    Word("rt.maximum", "n n -> n", do.extremum("llvm.maximum", ">"), "NaN if either is; -0 < 0"),
    Word("rt.minimum", "n n -> n", do.extremum("llvm.minimum", "<"), "NaN if either is; -0 < 0"),
    Word("rt.fmax", "n n -> n", do.extremum("llvm.maxnum", ">"), "NaN if both are; of zeros, any"),
    Word("rt.fmin", "n n -> n", do.extremum("llvm.minnum", "<"), "NaN if both are; of zeros, any"),
    _text("sign", "n -> n", "0 of either zero"),
    _text("heaviside", "f f -> f", "the second argument at either zero"),
    _text("isnan", "n -> b", "true of NaN"),
    _text("isinf", "n -> b", "false of NaN"),
    _text("isfinite", "n -> b", "false of NaN"),
    _text("signbit", "n -> b", "true of -0; of NaN, its sign"),
    _text("spacing", "f -> f", "NaN at infinities"),
    _text("nextafter", "f f -> f"),
    Word("rt.ldexp", "f i -> f", do.ldexp),
    # sums and products
    Word("rt.add", "n n -> n", do.reorderable("fadd", "add"), "LLVM may reorder sums of these"),
    Word("rt.multiply", "n n -> n", do.reorderable("fmul", "mul"), "LLVM may reorder products"),
    Word("rt.frem", "f f -> f", do.remainder, "C's fmod: the sign is that of the dividend"),
    _text("fmod", "n n -> n", "C's fmod; of integers by 0, 0"),
    _text("remainder", "n n -> n", "the divisor's sign; integers by 0: 0"),
    _text("floor_divide", "n n -> n", "x / 0 as `/`; integers by 0: 0"),
    # integers
    _text("invert", "n -> n", "of a truth value, not"),
    _text("left_shift", "n n -> n", "0 beyond the width"),
    _text("right_shift", "n n -> n", "0 or -1 beyond the width"),
    _text("gcd", "n n -> n", "gcd(0, 0) = 0"),
    _text("lcm", "n n -> n", "lcm(0, x) = 0"),
    Word("rt.bits", "n -> i", do.bits, "how many bits a number of this dtype has"),
    Word("rt.part_begin", "i i i -> i", do.share, "n * part // parts; none is negative"),
    # exponentials
    _maths("exp", "f -> f"),
    _maths("exp2", "f -> f", "exact for integers"),
    _maths("expm1", "f -> f", "keeps the sign of zero"),
    _maths("sinh", "f -> f", "keeps the sign of zero"),
    _maths("cosh", "f -> f"),
    _maths("tanh", "f -> f", "keeps the sign of zero; 1 at inf"),
    _maths("expit", "f -> f", "1 / (1 + exp(-x))"),
    _maths("exp_product", "f f -> f", "exp(x y), x y not rounded"),
    _maths("exp_minus_square", "f -> f", "exp(-x x) likewise"),
    _maths("sech_squared", "f -> f", "1 - tanh(x)**2; 0 at inf"),
    _maths("logistic_slope", "f -> f", "derivative of expit"),
    # error functions
    _maths("erf", "f -> f", "keeps the sign of zero; 1 at inf"),
    _maths("erfc", "f -> f", "2 at -inf, 0 at inf"),
    _maths("ndtr", "f -> f", "0 at -inf, 1 at inf"),
    # logarithms
    _maths("log", "f -> f", "-inf at either zero, NaN below"),
    _maths("log1p", "f -> f", "-inf at -1; keeps the sign of zero"),
    _maths("log2", "f -> f", "-inf at either zero, NaN below"),
    _maths("log10", "f -> f", "-inf at either zero, NaN below"),
    _maths("asinh", "f -> f", "keeps the sign of zero"),
    _maths("acosh", "f -> f", "NaN below 1"),
    _maths("atanh", "f -> f", "infinite at 1; keeps the sign of zero"),
    _maths("logaddexp", "f f -> f", "x if both are the same infinity"),
    _maths("logaddexp2", "f f -> f", "x if both are the same infinity"),
    _maths("first_share", "f f -> f", "exp(x) / (exp(x) + exp(y))"),
    _maths("second_share", "f f -> f", "exp(y) / (exp(x) + exp(y))"),
    _maths("first_share2", "f f -> f", "2**x / (2**x + 2**y)"),
    _maths("second_share2", "f f -> f", "2**y / (2**x + 2**y)"),
    # trigonometric functions
    _maths("sin", "f -> f", "keeps the sign of zero; NaN out of range"),
    _maths("cos", "f -> f", "NaN out of range"),
    _maths("tan", "f -> f", "keeps the sign of zero; NaN out of range"),
    _maths("out_of_range", "f -> b", "finite, and beyond 2**31 (f8) or 2**16 (f4)"),
    _maths("asin", "f -> f", "NaN beyond 1; keeps the sign of zero"),
    _maths("acos", "f -> f", "NaN beyond 1"),
    _maths("atan", "f -> f", "keeps the sign of zero; pi / 2 at inf"),
    _maths("atan2", "f f -> f", "quadrants and signed zeros as in C99"),
    # powers and lengths
    _maths("power", "n n -> n", "C99's pow; of integers, wraps around"),
    _maths("power_sum", "f f f -> f", "x**(y + z), y + z not rounded"),
    _maths("power_slope", "f f f -> f", "y x**(y + z) likewise"),
    Word("math.sqrt", "f -> f", do.real("llvm.sqrt"), "correctly rounded; -0 at -0, NaN below"),
    _maths("cbrt", "f -> f", "keeps the sign of zero"),
    _maths("hypot", "f f -> f", "inf if one is infinite, even beside NaN"),
    _maths("first_direction", "f f -> f", "x / hypot, 0 at 0"),
    _maths("second_direction", "f f -> f", "y / hypot, 0 at 0"),
    _maths("first_angle_slope", "f f -> f", "x / hypot**2"),
    _maths("second_angle_slope", "f f -> f", "y / hypot**2"),
    _maths("over_one_plus_square", "f -> f", "1 / (1 + x x)"),
    _maths("over_root_one_plus_square", "f -> f", "1 / sqrt(1 + x x)"),
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
    Word("rt.load_vector", "p i k -> v", do.load_vector, "so many entries from a position on"),
    Word("rt.store_vector", "p i v -> v", do.store_vector, "stores a vector from a position on"),
    Word("rt.broadcast", "f k -> v", do.broadcast, "a vector of so many times the same number"),
    Word("rt.sum_vector", "v -> f", do.total, "the sum of the entries, added in a tree"),
    # memory
    Word("rt.offset", "p i -> p", do.offset, "the same memory from a position on"),
    *(Word(f"rt.{name}", f"i -> {t}*", do.pointer(f"{t}*"), "the memory at an address")
      for name, t in DTYPES.items() if t != "b1"),
    Word("rt.address", "p -> i", do.address, "the address of memory"),
    Word("rt.stack", "i -> i", do.stack_words, "the address of so many words on the stack"),
    # atomic operations on words of memory
    Word("rt.atomic_load", "p i -> i", atomics.load, "the word at a position"),
    Word("rt.atomic_exchange", "p i i -> i", atomics.exchange, "the word before it became another"),
    Word("rt.atomic_add", "p i i -> i", atomics.add, "the word before a number was added to it"),
    Word("rt.compare_exchange", "p i i i -> b", atomics.compare_exchange, "if as expected"),
    Word("rt.pause", " -> ", atomics.pause, "a hint to the processor that a thread spins"),
    # the processor's floating-point flags
    Word("rt.flags", " -> i", float_flags.flags, "not 0 after invalid, division by 0 or overflow"),
    Word("rt.clear_flags", " -> i", float_flags.clear_flags, "clears all flags"),
    Word("rt.raise_flag", " -> i", float_flags.raise_flag, "sets the flag of invalid operations"),
    # the processor's clock
    Word("rt.ticks", " -> i", time_stamps.ticks, "counts at a constant rate; 0 if none is known"),
    # compilation
    Word("rt.keep_scalar", " -> ", do.opaque, "nothing; keeps LLVM from vectorising the loop"),
)  # fmt: skip
WORDS = {word.name: word for word in _WORDS}
_COUNTED = (
    Word("rt.call", "i * -> i", do.call, "the status of a routine at an address"),
    Word(
        "rt.double",
        "i * -> f8",
        do.double,
        "what a C function of doubles gives; integers are C's int",
    ),
    Word("rt.fortran", "i * -> ", do.fortran, "a routine whose arguments are passed by address"),
)
# Calls of any number of arguments: the number stands behind the word, as in ``rt.call3``.
COUNTED = {word.name: word for word in _COUNTED}
