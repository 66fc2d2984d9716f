"""Formulas as instructions: a `Value` is a number in a function that is being written for LLVM.

Operators append one instruction each, without any fast-math flag, so that compensated arithmetic
means what it says wherever the function is inlined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from llvmlite import ir

from ....foreign_errors import wraps
from ....named_tuples import NamedTuple
from ...llvm.builder_choice import for_this_machine
from ...llvm.machine import has, target

TRUTH = ir.IntType(1)


class Format(NamedTuple):
    """A floating-point format of IEEE 754 and the integers of its width."""

    name: str
    real: ir.Type
    whole: ir.IntType
    digits: int  # stored bits of the significand
    bias: int

    @property
    def magic(self) -> float:
        """1.5 * 2**digits: added to a small number it rounds it and leaves it in the last bits.

        AVX2 has no conversion between doubles and 64-bit integers; this needs none.
        """
        return 1.5 * 2.0**self.digits

    @property
    def smallest(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)


F4 = Format("f4", ir.FloatType(), ir.IntType(32), 23, 127)
F8 = Format("f8", ir.DoubleType(), ir.IntType(64), 52, 1023)
_BY_TYPE = {f.real: f for f in (F4, F8)}
Operand: TypeAlias = "Value | float"
Choice = TypeVar("Choice")
Formula = Callable[..., "Value"]


def _element(kind: ir.Type) -> ir.Type:
    return kind.element if isinstance(kind, ir.VectorType) else kind


@dataclass(frozen=True)
class Value:
    """An SSA value with the operators of its type: real, whole (a pattern of bits) or truth.

    Or a vector of them: formulas do not tell.
    """

    code: ir.IRBuilder
    at: ir.Value

    @property
    def format(self) -> Format:
        """The format of this real number."""
        return _BY_TYPE[_element(self.at.type)]

    @property
    def double(self) -> bool:
        """Whether this is a number in double precision."""
        return _element(self.at.type) == F8.real

    def by_format(self, double: Choice, single: Choice) -> Choice:
        """The one of two values that belongs to the precision of this number."""
        return double if self.double else single

    def like(self, other: Operand) -> Value:
        """`other` as a value of this type: numbers are written out."""
        return other if isinstance(other, Value) else self._new(ir.Constant(self.at.type, other))

    def _new(self, at: ir.Value) -> Value:
        return Value(self.code, at)

    def _shaped(self, element: ir.Type) -> ir.Type:
        """A type with as many elements as this value."""
        kind = self.at.type
        return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element

    def _two(self, real: str, whole: str, other: Operand, *, swap: bool = False) -> Value:
        a, b = self.at, self.like(other).at
        name = whole if isinstance(_element(self.at.type), ir.IntType) else real
        return self._new(getattr(self.code, name)(*((b, a) if swap else (a, b))))

    def __add__(self, other: Operand) -> Value:
        return self._two("fadd", "add", other)

    def __radd__(self, other: float) -> Value:
        return self._two("fadd", "add", other, swap=True)

    def __sub__(self, other: Operand) -> Value:
        return self._two("fsub", "sub", other)

    def __rsub__(self, other: float) -> Value:
        return self._two("fsub", "sub", other, swap=True)

    def __mul__(self, other: Operand) -> Value:
        return self._two("fmul", "mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Value:
        return self._two("fdiv", "", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._two("fdiv", "", other, swap=True)

    def __neg__(self) -> Value:
        return self._new(self.code.fneg(self.at))

    def __and__(self, other: Operand) -> Value:
        return self._two("", "and_", other)

    def __or__(self, other: Operand) -> Value:
        return self._two("", "or_", other)

    def __xor__(self, other: Operand) -> Value:
        return self._two("", "xor", other)

    def __lshift__(self, count: int) -> Value:
        return self._two("", "shl", count)

    def __rshift__(self, count: int) -> Value:
        return self._two("", "lshr", count)

    def _compare(self, sign: str, other: Operand) -> Value:
        if isinstance(_element(self.at.type), ir.IntType):
            return self._new(self.code.icmp_unsigned(sign, self.at, self.like(other).at))
        return self._new(self.code.fcmp_ordered(sign, self.at, self.like(other).at))

    def __lt__(self, other: Operand) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Operand) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> Value:
        return self._compare(">=", other)

    def equals(self, other: Operand) -> Value:
        """A test; false for NaN."""
        return self._compare("==", other)

    def is_nan(self) -> Value:
        """Whether this is not a number."""
        return self._new(self.code.fcmp_unordered("uno", self.at, self.at))

    def bits(self) -> Value:
        """The pattern of bits of a real number."""
        return self._new(self.code.bitcast(self.at, self._shaped(self.format.whole)))

    def real(self, form: Format) -> Value:
        """The real number with this pattern of bits."""
        return self._new(self.code.bitcast(self.at, self._shaped(form.real)))

    def to(self, form: Format) -> Value:
        """Return the number, or the nearest to it, in another format."""
        if self.format == form:
            return self
        cast = self.code.fpext if form is F8 else self.code.fptrunc
        return self._new(cast(self.at, self._shaped(form.real)))

    def library(self, name: str, *others: Value) -> Value:
        """A function of the C library, which serves one number at a time."""
        return self._called(name if self.double else f"{name}f", [self, *others])

    def call(self, name: str, *others: Operand) -> Value:
        """An intrinsic function of LLVM that processors have instructions for."""
        count = f"v{self.at.type.count}" if isinstance(self.at.type, ir.VectorType) else ""
        symbol = f"llvm.{name}.{count}f{self.format.whole.width}"
        return self._called(symbol, [self, *(self.like(x) for x in others)])

    def _called(self, symbol: str, values: list[Value]) -> Value:
        module, args = self.code.module, [v.at for v in values]
        kind = ir.FunctionType(self.at.type, [a.type for a in args])
        function = module.globals.get(symbol) or ir.Function(module, kind, symbol)
        return self._new(self.code.call(function, args))


def fused() -> bool:
    """Whether the processor multiplies and adds with one rounding, as all but old x86 do."""
    return not for_this_machine() or not target().is_x86 or has("fma")


FORMULAS: dict[str, Formula] = {}  # of words of the kernel language, by the name without ``rt``


def word(function: Formula) -> Formula:
    """Enter the formula of the word of the kernel language that has its name."""
    FORMULAS[function.__name__] = function
    return function


def libm(symbol: str) -> Callable[[Formula], Formula]:
    """Where operations are not fused, a function of the C library stands in for the formula."""

    def decorate(formula: Formula) -> Formula:
        @wraps(formula)
        def chosen(x: Value, *others: Value) -> Value:
            return formula(x, *others) if fused() else x.library(symbol, *others)

        return chosen

    return decorate


def fma(x: Value, y: Operand, z: Operand) -> Value:
    """``x * y + z`` rounded once."""
    return x.call("fma", y, z) if fused() else x * y + z


def sqrt(x: Value) -> Value:
    """The square root."""
    return x.call("sqrt")


def fabs(x: Value) -> Value:
    """The absolute value."""
    return x.call("fabs")


def copysign(x: Value, y: Operand) -> Value:
    """`x` with the sign of `y`."""
    return x.call("copysign", y)


def flip(x: Value, sign: Value) -> Value:
    """`x`, negated where `sign` (whole) has its first bit set."""
    form = x.format
    first = 1 << (form.whole.width - 1)
    return (x.bits() ^ (sign & first)).real(form)


def where(test: Value, x: Operand, y: Operand) -> Value:
    """`x` where `test` holds, else `y`; one of them must be a value."""
    like = x if isinstance(x, Value) else y
    assert isinstance(like, Value)
    return like._new(test.code.select(test.at, like.like(x).at, like.like(y).at))


def clamp(x: Value, low: float, high: float) -> Value:
    """`x` between bounds; NaN stays."""
    x = where(x < low, low, x)
    return where(x > high, high, x)


class DoubleDouble(NamedTuple):
    """An unevaluated sum: a number, and what it lost to rounding."""

    high: Value
    low: Value


def fast_two_sum(x: Value, y: Value) -> DoubleDouble:
    """``x + y`` for |x| >= |y| (Dekker, Numerische Mathematik 18, 1971, section 4)."""
    high = x + y
    return DoubleDouble(high, x - high + y)


def two_sum(x: Value, y: Value | float) -> DoubleDouble:
    """``x + y``, whichever is larger (Knuth, section 4.2.2, theorem B)."""
    high = x + y
    other = high - x
    return DoubleDouble(high, (x - (high - other)) + (y - other))


def two_product_error(x: Value, y: Value | float, rounded: Value) -> Value:
    """The rounding error of ``x * y``, unfused (T. Ogita et al., SISC 26, 2005, algorithm 3.3)."""
    split = x.by_format(134217729.0, 4097.0)  # halves of the digits, whose products are exact
    shifted = x * split
    high = shifted - (shifted - x)
    upper = y * split - (y * split - y)
    low, lower = x - high, y - upper
    return low * lower - (((rounded - high * upper) - low * upper) - high * lower)


def product(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """Product of two double-doubles, to about twice the precision."""
    high = x.high * y.high
    return DoubleDouble(high, fma(x.high, y.high, -high) + fma(x.high, y.low, x.low * y.high))


def quotient(x: DoubleDouble, y: DoubleDouble) -> Value:
    """Quotient of two double-doubles, nearly as if rounded once."""
    inverse = 1.0 / y.high
    out = x.high * inverse
    rest = fma(-out, y.high, x.high) + fma(-out, y.low, x.low)
    return fma(rest, inverse, out)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with these coefficients, lowest first.

    By Horner's rule, which has the fewest operations; long ones halved until they are short, even
    and odd powers in parallel (Estrin; Knuth, The Art of Computer Programming 2, section 4.6.4):
    a loop of several functions waits for results rather than for units that compute them.
    """
    terms: list[Operand] = list(coefficients)
    while len(terms) > 4:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [fma(x, b, a) for a, b in pairs] + terms[len(terms) // 2 * 2 :]
        x = x * x
    out = x.like(terms.pop())
    while terms:
        out = fma(out, x, terms.pop())
    return out


def nearest(x: Value, factor: float) -> tuple[Value, Value]:
    """The whole number nearest to ``x * factor``, below 2**(digits - 2), and its last bits."""
    moved = fma(x, factor, x.format.magic)
    return moved - x.format.magic, moved.bits()


def power_of_two(k: Value, up: float = 0.0) -> Value:
    """2**(k + up) of whole numbers as a real one, between the exponents of normal numbers."""
    form = k.format
    return ((k + (form.magic + form.bias + up)).bits() << form.digits).real(form)


def _halves_of(k: Value) -> tuple[Value, Value]:
    """Two powers of two whose product is 2**k, and normal numbers where 2**k is far from one."""
    form = k.format
    bits = (k + (form.magic + 2.0 * form.bias)).bits()
    half = bits >> 1
    return (half << form.digits).real(form), ((bits - half) << form.digits).real(form)


def scale(x: Value, k: Value) -> Value:
    """``x * 2**k`` for `x` near 1, rounded once where the result is subnormal."""
    first, second = _halves_of(k)
    return x * first * second


def scale_near(x: Value, k: Value) -> Value:
    """``(1 + x) * 2**k`` for a small `x`, likewise."""
    first, second = _halves_of(k)
    return fma(x, first, first) * second


def scale_by(x: Value, k: Value, by: Value) -> Value:
    """``x * by * 2**k`` for `x` near 1, with all of 2**k at once where that is a normal number.

    In halves a subnormal `by` would be rounded on the way.
    """
    form = k.format
    first = clamp(k, float(2 + form.digits - form.bias), float(form.bias))
    return x * (power_of_two(first) * by) * power_of_two(k - first)
