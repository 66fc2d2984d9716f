"""The words that kernel texts may call: one table, the specification of them.

A row says of a word what it takes and gives, what it means and what it costs. Whatever else the
compilers know of words is derived from the rows, but the formulas, which are found by the word's
name: formulas of elementary functions and slopes in `kernels/runtime/maths`, texts in
`kernels/runtime/scalar.py`, and single instructions in `kernels/llvm/llvm_words.py`. This module is
plain data, which passes read without importing a compiler.

Types: `f` a real number, `n` a number of any dtype, `i` an integer of 64 bits, `b` a truth value,
`p` a pointer, `v` a vector, `k` a literal, `*` any number of arguments of any type. The same letter
in the result is the type of the first argument of that letter, which the others become. A dtype or
a pointer, such as ``f8`` or ``f8*``, stands for itself.

Unless a row says otherwise, an elementary function has an error of at most 2 ulp, NaN gives NaN,
and the values at infinities and signed zeros agree with the function of this name in NumPy,
SciPy's `special` or C99 (annex F).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...named_tuples import NamedTuple

# dtypes as texts spell them: ``np.float64(x)``
DTYPES = {
    "bool_": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1",
    "uint16": "u2", "uint32": "u4", "uint64": "u8", "float32": "f4", "float64": "f8",
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Word(NamedTuple):
    """A row of the table: a function of kernel texts.

    A `cheap` word costs as much as an addition, any other as an elementary function. Calls of
    `elementary` ones are counted, because many in one kernel are not inlined. Of a `periodic` one,
    a large argument is out of range. `like` names the elementary function that a word has most of
    its instructions in common with: in one loop with that function it costs little more.
    """

    name: str
    types: str
    meaning: str = ""
    cheap: bool = False
    elementary: bool = False
    like: str = ""
    periodic: bool = False

    @property
    def parameters(self) -> list[str]:
        """The letters of the arguments."""
        return self.types.partition("->")[0].split()

    @property
    def gives(self) -> str:
        """The letter or the type of the result."""
        return self.types.partition("->")[2].strip()

    def result(self, types: Sequence[str]) -> str:
        """The type of the result for arguments of these types; a literal is its own type."""
        letter = self.gives
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


def word_of(name: str) -> Word | None:
    """The row of a word; the number of arguments at the end of ``rt.call3`` is no part of it."""
    return WORDS.get(name) or COUNTED.get(name.rstrip("0123456789"))


def with_periodic_of_libm(text: str) -> str:
    """A text with the periodic functions of libm, which take any argument, one at a time."""
    return _PERIODIC.sub(lambda call: f"math.{call[1]}(", text)


def _function(
    name: str, types: str, meaning: str = "", like: str = "", *, periodic: bool = False
) -> Word:
    like = like and f"rt.{like}"
    return Word(f"rt.{name}", types, meaning, elementary=True, like=like, periodic=periodic)


def _slope(name: str, types: str, meaning: str, like: str = "") -> Word:
    return Word(f"rt.{name}", types, meaning, like=like and f"rt.{like}")


_WORDS = (
    # Python's own
    Word("abs", "n -> n", "the smallest integer stays as it is", cheap=True),
    Word("min", "* -> n", "the first of those that no other is less than", cheap=True),
    Word("max", "* -> n", "the first of those that no other is more than", cheap=True),
    *(Word(f"np.{name}", f"n -> {dtype}", "as C", cheap=True) for name, dtype in DTYPES.items()),
    # rounding, signs and extrema
    Word("rt.floor", "n -> n", "integers stay as they are", cheap=True),
    Word("rt.ceil", "n -> n", "integers stay as they are", cheap=True),
    Word("rt.trunc", "n -> n", "integers stay as they are", cheap=True),
    Word("rt.rint", "n -> n", "ties to even; integers stay as they are"),
    Word("math.copysign", "f f -> f", cheap=True),
    Word("rt.maximum", "n n -> n", "NaN if either is; -0 < 0", cheap=True),
    Word("rt.minimum", "n n -> n", "NaN if either is; -0 < 0", cheap=True),
    Word("rt.fmax", "n n -> n", "NaN if both are; of zeros, any"),
    Word("rt.fmin", "n n -> n", "NaN if both are; of zeros, any"),
    Word("rt.sign", "n -> n", "0 of either zero", cheap=True),
    Word("rt.heaviside", "f f -> f", "the second argument at either zero"),
    Word("rt.isnan", "n -> b", "true of NaN", cheap=True),
    Word("rt.isinf", "n -> b", "false of NaN", cheap=True),
    Word("rt.isfinite", "n -> b", "false of NaN", cheap=True),
    Word("rt.signbit", "n -> b", "true of -0; of NaN, its sign", cheap=True),
    Word("rt.spacing", "f -> f", "NaN at infinities"),
    Word("rt.nextafter", "f f -> f"),
    Word("rt.ldexp", "f i -> f"),
    # sums and products
    Word("rt.add", "n n -> n", "LLVM may reorder sums of these", cheap=True),
    Word("rt.multiply", "n n -> n", "LLVM may reorder products", cheap=True),
    Word("rt.frem", "f f -> f", "C's fmod: the sign is the dividend's"),
    Word("rt.fmod", "n n -> n", "C's fmod; of integers by 0, 0"),
    Word("rt.remainder", "n n -> n", "the divisor's sign; integers by 0: 0"),
    Word("rt.floor_divide", "n n -> n", "x / 0 as `/`; integers by 0: 0", cheap=True),
    # integers
    Word("rt.invert", "n -> n", "of a truth value, not"),
    Word("rt.left_shift", "n n -> n", "0 beyond the width"),
    Word("rt.right_shift", "n n -> n", "0 or -1 beyond the width"),
    Word("rt.gcd", "n n -> n", "gcd(0, 0) = 0"),
    Word("rt.lcm", "n n -> n", "lcm(0, x) = 0"),
    Word("rt.bits", "n -> i", "how many bits a number of this dtype has"),
    Word("rt.part_begin", "i i i -> i", "n * part // parts; none is negative"),
    # exponentials
    _function("exp", "f -> f"),
    _function("exp2", "f -> f", "exact for integers"),
    _function("expm1", "f -> f", "keeps the sign of zero", like="exp"),
    _function("sinh", "f -> f", "keeps the sign of zero"),
    _function("cosh", "f -> f"),
    _function("tanh", "f -> f", "keeps the sign of zero; 1 at inf"),
    _function("expit", "f -> f", "1 / (1 + exp(-x))"),
    _slope("exp_product", "f f -> f", "exp(x y), x y not rounded"),
    _slope("exp_minus_square", "f -> f", "exp(-x x) likewise"),
    _slope("sech_squared", "f -> f", "1 - tanh(x)**2; 0 at inf", like="tanh"),
    _slope("logistic_slope", "f -> f", "derivative of expit", like="expit"),
    # error functions
    _function("erf", "f -> f", "keeps the sign of zero; 1 at inf"),
    _function("erfc", "f -> f", "2 at -inf, 0 at inf"),
    _function("ndtr", "f -> f", "0 at -inf, 1 at inf"),
    # logarithms
    _function("log", "f -> f", "-inf at either zero, NaN below"),
    _function("log1p", "f -> f", "-inf at -1; keeps the sign of zero"),
    _function("log2", "f -> f", "-inf at either zero, NaN below"),
    _function("log10", "f -> f", "-inf at either zero, NaN below"),
    _function("asinh", "f -> f", "keeps the sign of zero"),
    _function("acosh", "f -> f", "NaN below 1"),
    _function("atanh", "f -> f", "infinite at 1; keeps the sign of zero"),
    _function("logaddexp", "f f -> f", "x if both are the same infinity"),
    _function("logaddexp2", "f f -> f", "x if both are the same infinity"),
    _slope("first_share", "f f -> f", "exp(x) / (exp(x) + exp(y))", like="logaddexp"),
    _slope("second_share", "f f -> f", "exp(y) / (exp(x) + exp(y))", like="logaddexp"),
    _slope("first_share2", "f f -> f", "2**x / (2**x + 2**y)", like="logaddexp2"),
    _slope("second_share2", "f f -> f", "2**y / (2**x + 2**y)", like="logaddexp2"),
    # trigonometric functions
    _function("sin", "f -> f", "keeps the sign of zero; NaN out of range", periodic=True),
    _function("cos", "f -> f", "NaN out of range", periodic=True),
    _function("tan", "f -> f", "keeps the sign of zero; NaN out of range", periodic=True),
    Word("rt.out_of_range", "f -> b", "finite, and beyond 2**31 (f8) or 2**16 (f4)"),
    _function("asin", "f -> f", "NaN beyond 1; keeps the sign of zero"),
    _function("acos", "f -> f", "NaN beyond 1"),
    _function("atan", "f -> f", "keeps the sign of zero; pi / 2 at inf"),
    _function("atan2", "f f -> f", "quadrants and signed zeros as in C99"),
    # powers and lengths
    _function("power", "n n -> n", "C99's pow; of integers, wraps around"),
    _slope("power_sum", "f f f -> f", "x**(y + z), y + z not rounded"),
    _slope("power_slope", "f f f -> f", "y x**(y + z) likewise"),
    Word("math.sqrt", "f -> f", "correctly rounded; -0 at -0, NaN below", cheap=True),
    _function("cbrt", "f -> f", "keeps the sign of zero"),
    _function("hypot", "f f -> f", "inf if one is infinite, even beside NaN"),
    _slope("first_direction", "f f -> f", "x / hypot, 0 at 0", like="hypot"),
    _slope("second_direction", "f f -> f", "y / hypot, 0 at 0", like="hypot"),
    _slope("first_angle_slope", "f f -> f", "x / hypot**2"),
    _slope("second_angle_slope", "f f -> f", "y / hypot**2"),
    _slope("over_one_plus_square", "f -> f", "1 / (1 + x x)"),
    _slope("over_root_one_plus_square", "f -> f", "1 / sqrt(1 + x x)"),
    # the C library: any argument, one at a time
    *(Word(f"math.{name}", "f -> f") for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc",
        "exp", "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "tan",
        "tanh", "tgamma",
    )),
    *(Word(f"math.{name}", "f f -> f") for name in (
        "atan2", "fmod", "hypot", "nextafter", "pow",
    )),
    # vectors
    Word("rt.load_vector", "p i k -> v", "so many entries from a position on"),
    Word("rt.store_vector", "p i v -> v", "stores a vector from a position on"),
    Word("rt.broadcast", "f k -> v", "a vector of so many times the same number"),
    Word("rt.sum_vector", "v -> f", "the sum of the entries, added in a tree"),
    # memory
    Word("rt.offset", "p i -> p", "the same memory from a position on"),
    *(Word(f"rt.{name}", f"i -> {dtype}*", "the memory at an address")
      for name, dtype in DTYPES.items() if dtype != "b1"),
    Word("rt.address", "p -> i", "the address of memory"),
    Word("rt.stack", "i -> i", "the address of so many words on the stack"),
    # atomic operations on words of memory
    Word("rt.atomic_load", "p i -> i", "the word at a position"),
    Word("rt.atomic_exchange", "p i i -> i", "the word before it became another"),
    Word("rt.atomic_add", "p i i -> i", "the word before a number was added to it"),
    Word("rt.compare_exchange", "p i i i -> b", "if as expected"),
    Word("rt.pause", " -> ", "a hint to the processor that a thread spins"),
    # the processor's floating-point flags
    Word("rt.flags", " -> i", "not 0 after invalid, division by 0 or overflow"),
    Word("rt.clear_flags", " -> i", "clears all flags"),
    Word("rt.raise_flag", " -> i", "sets the flag of invalid operations"),
    # the processor's clock
    Word("rt.ticks", " -> i", "counts at a constant rate; 0 if none is known"),
    # compilation
    Word("rt.keep_scalar", " -> ", "nothing; keeps LLVM from vectorising the loop"),
)  # fmt: skip
WORDS = {word.name: word for word in _WORDS}
_PERIODIC = re.compile(rf"\brt\.({'|'.join(w.name[3:] for w in _WORDS if w.periodic)})\(")
_COUNTED = (
    Word("rt.call", "i * -> i", "the status of a routine at an address"),
    Word("rt.double", "i * -> f8", "what a C function of doubles gives; integers are C's int"),
    Word("rt.fortran", "i * -> ", "a routine whose arguments are passed by address"),
)
# Calls of any number of arguments: the number stands after the word, as in ``rt.call3``.
COUNTED = {word.name: word for word in _COUNTED}
# Words of kernels for GPUs alone, whose threads are lanes of warps.
_OF_GPUS = (
    Word("rt.exchange", "n i -> n", "the value of the lane whose number differs in these bits"),
    Word("rt.atomic_sum", "p i n -> n", "adds to an entry of memory; threads may do so at once"),
    Word("rt.quotient", "i i -> i", "n // by; n is not negative, and by more than 0"),
    Word("rt.select", "b n n -> n", "the second argument if the first is true, else the third"),
    Word("rt.fma", "f f f -> f", "x y + z, rounded once"),
)
OF_GPUS = {word.name: word for word in _OF_GPUS}
