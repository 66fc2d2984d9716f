"""Elementwise ops, one row each: name, kernel text, partial derivatives in ``(*args, out)``, NumPy's function.

Arithmetic, powers, exponentials, trigonometric and hyperbolic functions, selection (`maximum`, `where`, ...),
rounding, comparisons, logic, bits, conversion of dtypes, complex parts. Both modes follow from the partial
derivatives (`families.py`). At a kink the value given is fdiff's policy (docs/kinks.md): the mean of
both one-sided derivatives at ties of `maximum` and `minimum`, and 0 for `absolute` at 0.

Derivatives of elementary functions: DLMF 4.7, 4.20, 4.34.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log as _log
from math import pi

import fdiff.intact_numpy as np

from ...arraytype import BOOL, broadcast, loop_dtypes, promote, real_dtype
from ...errors import warn
from ...facets import Kink, LayoutRule
from ...hooks import hooks
from ...kernel_rule import KernelRule, Kind
from ...primitive import UFUNCS, ZERO, Primitive
from ...tape import Node
from ...trace import Array, Operand, TracedArray, apply, constant_value, current, implements
from ...trace.operation_cache import LOOKING_BACK
from ...trace.provenance import through_copy
from .. import late_term_rules as terms
from .accurate_partials import (  # fmt: skip
    ANGLE_SLOPE,
    DIRECTION,
    SHARES,
    one_minus_square,
    over_one_plus_square,
    over_root_one_plus_square,
    power_slope,
    power_sum,
    sech_squared,
    zero_power_log,
)
from .families import elementwise, kind_of, refuse, ufunc_caller
from .quotients_of_sums import over_a_sum
from .sample_domains import above_one, count, plane, positive, real, thousand, truth, unit, whole

LN2 = _log(2.0)
PER_LN2, PER_LN10 = 1.0 / LN2, 0.4342944819032518

def share(chosen: Array, tied: Array, like: TracedArray) -> object:
    """Slope of a selection: 1 where chosen, 1/2 at a tie, in the dtype of `like`."""
    return np.where(tied, 0.5, np.where(chosen, 1.0, 0.0)).astype(like.dtype)


# --- where there is no derivative (docs/kinks.md) -------------------------------------------------
AT_ZERO = Kink("0", lambda x: x == 0)
AT_ONE = Kink("1", lambda x: x == 1)
MINUS_ONE = Kink("-1", lambda x: x == -1)
ENDS = Kink("1 and -1", lambda x: (x == 1) | (x == -1))
WHOLE = Kink("whole numbers, where it jumps", lambda x: x == np.floor(x), jumps=True)
WHOLE_BUT_ZERO = Kink("whole numbers but 0, where it jumps", lambda x: (x == np.trunc(x)) & (x != 0), jumps=True)
HALF = Kink("odd multiples of one half, where it jumps", lambda x: np.abs(x - np.trunc(x)) == 0.5, jumps=True)
TIE = Kink("a tie", lambda x, y: x == y)
ORIGIN = Kink("the origin", lambda x, y: (x == 0) & (y == 0))
CUT = Kink("the origin and the cut y = 0, x < 0", lambda y, x: (y == 0) & (x <= 0))
DENOMINATOR = Kink("a denominator of 0", lambda x, y: y == 0)
MULTIPLE = Kink("multiples of the second argument, where it jumps", lambda x, y: np.remainder(x, y) == 0, jumps=True)
MULTIPLE_BUT_ZERO = Kink("multiples of the second argument but 0, where it jumps", lambda x, y: (np.fmod(x, y) == 0) & (x != 0), jumps=True)
FIRST_ZERO = Kink("0, where it jumps", lambda x, y: (x == 0, None), jumps=True)
EITHER_ZERO = Kink("0", lambda x, y: (x == 0, y == 0), jumps=True)

# --- arithmetic -------------------------------------------------------------------------------
add = elementwise("add", (1, 1), text="{0} + {1}")
subtract = elementwise("subtract", (1, -1), text="{0} - {1}")
multiply = elementwise("multiply", lambda x, y, out: (y, x), text="{0} * {1}", terms=terms.multiplied)
divide = elementwise("divide", lambda x, y, out: (1.0 / y, -out / y), text="{0} / {1}", kink=DENOMINATOR)


_general_divide = UFUNCS[np.divide]


def divide_call(x: object, y: object, **keywords: object) -> TracedArray:
    """``x / y``; where y is a sum and x is one of its terms, one op whose derivative loses no digits (`quotients_of_sums.py`)."""
    if (
        not keywords
        and isinstance(x, TracedArray)
        and isinstance(y, TracedArray)
        and x.home is y.home
        and (out := over_a_sum(x, y)) is not None
    ):
        return TracedArray(out.home, out.id, out.type, scalar=not out.shape)
    return _general_divide(x, y, **keywords)


UFUNCS[np.divide] = divide_call
negative = elementwise("negative", (-1,), text="-{0}")
elementwise("reciprocal", lambda x, out: -out * out, text="{T}(1) / {0}", kink=AT_ZERO)
square = elementwise("square", lambda x, out: x + x, text="{0} * {0}")
sqrt = elementwise("sqrt", lambda x, out: 0.5 / out, positive, text="math.sqrt", kink=AT_ZERO)
cbrt = elementwise("cbrt", lambda x, out: 1.0 / (3.0 * out * out), kink=AT_ZERO)
floor_divide = elementwise("floor_divide", None, kink=MULTIPLE)
remainder = elementwise("remainder", lambda x, y, out: (1, -np.floor_divide(x, y)), kink=MULTIPLE)
fmod = elementwise("fmod", lambda x, y, out: (1, -np.rint((x - out) / y)), kink=MULTIPLE_BUT_ZERO)


def power_slopes(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, object]:
    """Partial derivatives ``y x**(y-1)`` and ``x**y log(x)``.

    The first is without rounding of y - 1 for constant exponents, and 0 at exponent 0; the second is 0 for ``0 ** y``, y >= 0.
    """
    value = constant_value(y)
    if value is None:
        return _variable_power_slopes(x, y, out)
    less = np.asarray(value - 1, y.dtype)
    if y.dtype.kind == "f" and np.any(less + np.ones((), y.dtype) != value):
        lower = _power_below(x, y)
    else:
        with np.errstate(all="ignore"):
            lower = np.power(x, less) if np.ndim(value) else power_call(x, value - 1)
    return (ZERO if not np.any(value) else value * lower if np.all(value) else np.where(value == 0, 0.0, value * lower)), ZERO


def _variable_power_slopes(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, object]:
    zero = x == 0
    if x.dtype.kind != "c":
        at_zero = np.where(y == 0, 0.0, apply(zero_power_log, x, y))
        return apply(power_slope, x, y, -np.ones((), y.dtype)), np.where(zero, at_zero, out * np.log(x))
    bound = 0.0 * np.power(x, 0.999 * y)  # of x**y log(x), for small x
    return np.where(zero & (y == 0), 0.0, y * np.power(x, y - 1.0)), np.where(zero & (y >= 0), bound, out * np.log(x))


def _power_below(x: TracedArray, y: TracedArray) -> object:
    """``x**(y - 1)``, also where y - 1 is not representable."""
    one = np.ones((), y.dtype)
    return np.power(x, y - one) if y.dtype.kind == "c" else apply(power_sum, x, y, -one)


def _no_power_slope(x: TracedArray, y: TracedArray) -> tuple[object, object]:
    if x.dtype.kind == "c":
        return ((x == 0) & (np.real(y) < 1) & (y != 0), x == 0)
    return ((x == 0) & (y < 1) & (y != 0), (x == 0) & (y <= 0) | (x < 0))


_POWER = Kink("a base of 0 with an exponent below 1 (in the exponent, also a negative base)", _no_power_slope)
_SMALL_POWERS = ((0, "{T}(1)"), (1, "{0}"), (2, "{0} * {0}"), (3, "{0} * {0} * {0}"), (-1, "{T}(1) / {0}"), (-2, "{T}(1) / ({0} * {0})"))
# LLVM makes a square root of the exponent 0.5.
_POWER_TEXT = KernelRule(Kind.ELEMENTWISE, "rt.power({0}, {1})", _SMALL_POWERS, literals=(0.5,), checks_whole=True)
power = elementwise("power", power_slopes, positive, real, text=_POWER_TEXT, kink=_POWER)
UFUNCS[np.float_power] = ufunc_caller(power, np.float_power)
_general_power = ufunc_caller(power, np.power)


def power_call(x: Array, y: Operand, **keywords: object) -> object:
    """``x ** y``; exponents 1 and 2 are ops of their own, as in NumPy."""
    value = None
    if isinstance(x, TracedArray):
        number = y.__class__ is int or y.__class__ is float
        value = y if number else constant_value(y) if np.ndim(y) == 0 else None
    short = value is not None and not keywords and value in (1, 2)
    if short and x.type.floating and promote(kind_of(x), kind_of(y)) == x.dtype:
        if value == 2:
            return UFUNCS[np.square](x)
        return UFUNCS[np.positive](x)
    return _general_power(x, y, **keywords)


UFUNCS[np.power] = power_call
_general_square = UFUNCS[np.square]


def square_call(x: object, **keywords: object) -> TracedArray:
    """``np.square``; the square of an absolute value is computed without the absolute value, so that it is differentiable at 0."""
    node = x.home.builder.nodes[x.id] if isinstance(x, TracedArray) and not keywords else None
    if node is None or node.primitive.name != "absolute":
        return _general_square(x, **keywords)
    inside = TracedArray(x.home, node.args[0], x.home.builder.type(node.args[0]))
    if inside.dtype.kind != "c":
        return _general_square(inside)
    out = apply(squared_modulus, inside)
    return TracedArray(out.home, out.id, out.type, scalar=not out.shape)


def _inside_absolute(nodes: Sequence[Node], ids: Sequence[int]) -> tuple[object, tuple[int, ...]]:
    node = nodes[ids[0]]
    return (nodes[node.args[0]].types, node.args) if node.primitive.name == "absolute" else (None, ())


UFUNCS[np.square] = square_call
LOOKING_BACK[np.square] = LOOKING_BACK[np.power] = _inside_absolute

# --- exponentials and logarithms --------------------------------------------------------------
exp = elementwise("exp", lambda x, out: out)
exp2 = elementwise("exp2", lambda x, out: out * LN2)
expm1 = elementwise("expm1", lambda x, out: np.exp(x))
log = elementwise("log", lambda x, out: 1.0 / x, positive, kink=AT_ZERO)
log2 = elementwise("log2", lambda x, out: PER_LN2 / x, positive, kink=AT_ZERO)
log10 = elementwise("log10", lambda x, out: PER_LN10 / x, positive, kink=AT_ZERO)
log1p = elementwise("log1p", lambda x, out: 1.0 / (1.0 + x), positive, kink=MINUS_ONE)
logaddexp = elementwise("logaddexp", lambda x, y, out: _shares(np.exp, x, y))
logaddexp2 = elementwise("logaddexp2", lambda x, y, out: _shares(np.exp2, x, y))


def _shares(exp: np.ufunc, x: TracedArray, y: TracedArray) -> tuple[object, object]:
    """Partial derivatives of `logaddexp`: the share of each term in the sum of the exponentials."""
    first, second = SHARES[exp]
    return apply(first, x, y), apply(second, x, y)


# --- trigonometric and hyperbolic -------------------------------------------------------------
sin = elementwise("sin", lambda x, out: np.cos(x))
cos = elementwise("cos", lambda x, out: -np.sin(x))
tan = elementwise("tan", lambda x, out: 1.0 + out * out, unit)
arcsin = elementwise("arcsin", lambda x, out: _arcsine_slope(x), unit, text="rt.asin", kink=ENDS)
arccos = elementwise("arccos", lambda x, out: _arcsine_slope(x, -1.0), unit, text="rt.acos", kink=ENDS)
arctan = elementwise("arctan", lambda x, out: _over_one_plus_square(x), text="rt.atan")
sinh = elementwise("sinh", lambda x, out: np.cosh(x))
cosh = elementwise("cosh", lambda x, out: np.sinh(x))
tanh = elementwise("tanh", lambda x, out: _sech_squared(x, out))
arcsinh = elementwise("arcsinh", lambda x, out: _over_root_one_plus_square(x), text="rt.asinh")
arccosh = elementwise("arccosh", lambda x, out: _arccosh_slope(x), above_one, text="rt.acosh", kink=AT_ONE)
arctanh = elementwise("arctanh", lambda x, out: 1.0 / _one_minus_square(x), unit, text="rt.atanh", kink=ENDS)
arctan2 = elementwise("arctan2", lambda y, x, out: _angle_slopes(y, x), text="rt.atan2", kink=CUT)
hypot = elementwise("hypot", lambda x, y, out: [apply(op, x, y) for op in DIRECTION], kink=ORIGIN)
deg2rad = elementwise("deg2rad", lambda x, out: pi / 180.0, text="{0} * {T}(0.017453292519943295)")
rad2deg = elementwise("rad2deg", lambda x, out: 180.0 / pi, text="{0} * {T}(57.29577951308232)")
UFUNCS[np.radians], UFUNCS[np.degrees] = UFUNCS[np.deg2rad], UFUNCS[np.rad2deg]


def ratio_or_zero(a: object, b: Array) -> Array:
    """``a / b``, and 0 where b is 0."""
    return np.where(b == 0, 0.0, a / np.where(b == 0, 1.0, b))


def _angle_slopes(y: TracedArray, x: TracedArray) -> tuple[object, object]:
    """``(x, -y) / (x**2 + y**2)`` without overflow or underflow, and 0 at the origin."""
    return apply(ANGLE_SLOPE[0], x, y), -apply(ANGLE_SLOPE[1], x, y)


# The ops of `accurate_partials.py` are of real numbers: complex ones keep the formula.


def _one_minus_square(x: TracedArray) -> Array:
    return (1.0 - x) * (1.0 + x) if x.dtype.kind == "c" else apply(one_minus_square, x)


def _arcsine_slope(x: TracedArray, sign: float = 1.0) -> object:
    return sign / np.sqrt(_one_minus_square(x))


def _arccosh_slope(x: TracedArray) -> object:
    return 1.0 / (np.sqrt(x - 1.0) * np.sqrt(x + 1.0))


def _over_one_plus_square(x: TracedArray) -> object:
    return 1.0 / (1.0 + x * x) if x.dtype.kind == "c" else apply(over_one_plus_square, x)


def _over_root_one_plus_square(x: TracedArray) -> object:
    return 1.0 / np.sqrt(x * x + 1.0) if x.dtype.kind == "c" else apply(over_root_one_plus_square, x)


def _sech_squared(x: TracedArray, out: TracedArray) -> object:
    return 1.0 - out * out if x.dtype.kind == "c" else apply(sech_squared, x)


# --- selection and kinks ----------------------------------------------------------------------
def _absolute_jvp(dots: list[object], args: list[TracedArray], outs: list[TracedArray]) -> list[object]:
    x, dot = args[0], dots[0]
    if x.dtype.kind != "c":
        return [dot * np.sign(x)]
    unit = ratio_or_zero(x, outs[0])
    return [np.real(unit) * np.real(dot) + np.imag(unit) * np.imag(dot)]


def _absolute_vjp(bars: list[object], args: list[TracedArray], outs: list[TracedArray]) -> list[object]:
    x, bar = args[0], bars[0]
    return [bar * (np.sign(x) if x.dtype.kind != "c" else np.conjugate(ratio_or_zero(x, outs[0])))]


_ABSOLUTE_RULES = (_absolute_jvp, _absolute_vjp)


absolute = elementwise("absolute", None, text="abs", kink=AT_ZERO, rules=_ABSOLUTE_RULES)
UFUNCS[np.fabs] = ufunc_caller(absolute, np.fabs)


def _larger_shares(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (share(x > y, x == y, out), share(y > x, x == y, out))


def _smaller_shares(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (share(x < y, x == y, out), share(y < x, x == y, out))


_EXTREME = {"chooses": True, "kink": TIE}
maximum = elementwise("maximum", _larger_shares, **_EXTREME)
minimum = elementwise("minimum", _smaller_shares, **_EXTREME)


def _fmax_shares(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (share((x > y) | np.isnan(y), x == y, out), share((y > x) | np.isnan(x), x == y, out))


fmax = elementwise("fmax", _fmax_shares, **_EXTREME)


def _fmin_shares(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (share((x < y) | np.isnan(y), x == y, out), share((y < x) | np.isnan(x), x == y, out))


fmin = elementwise("fmin", _fmin_shares, **_EXTREME)


def _copysign_slopes(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (np.sign(x) * np.copysign(1.0, y).astype(out.dtype), ZERO)


copysign = elementwise("copysign", _copysign_slopes, text="math.copysign", kink=EITHER_ZERO)
sign = elementwise("sign", None, kink=AT_ZERO)
_real_sign = UFUNCS[np.sign]


def sign_call(x: Array, **keywords: object) -> TracedArray:
    """``np.sign``; of a complex number ``x / |x|``, which has a derivative, and 0 at 0."""
    if keywords or promote(kind_of(x)).kind != "c":
        return _real_sign(x, **keywords)
    out = ratio_or_zero(x, np.absolute(x))
    return TracedArray(out.home, out.id, out.type, scalar=not out.shape)


UFUNCS[np.sign] = sign_call


def _step_slopes(x: TracedArray, y: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (ZERO, np.where(x == 0, 1.0, 0.0).astype(out.dtype))


elementwise("heaviside", _step_slopes, kink=FIRST_ZERO)
floor = elementwise("floor", None, kink=WHOLE)
ceil = elementwise("ceil", None, kink=WHOLE)
trunc = elementwise("trunc", None, kink=WHOLE_BUT_ZERO)
rint = elementwise("rint", None, kink=HALF)
nextafter = elementwise("nextafter", lambda x, y, out: (1, ZERO))
spacing = elementwise("spacing", None)
ldexp = elementwise("ldexp", lambda x, n, out: (np.ldexp(np.ones_like(x), n), ZERO), real, count)

# --- comparisons, logic, bits: no derivative --------------------------------------------------



def comparison(name: str, sign: str) -> Primitive:
    """A comparison; of two integers of which one alone has a sign, a negative one is the smaller, as in NumPy."""
    if_first, if_second = sign in ("<", "<=", "!="), sign in (">", ">=", "!=")  # what holds for a negative operand
    first = f"({{0}} < 0) | (np.uint64({{0}}) {sign} {{1}})" if if_first else f"({{0}} >= 0) & (np.uint64({{0}}) {sign} {{1}})"
    second = f"({{1}} < 0) | ({{0}} {sign} np.uint64({{1}}))" if if_second else f"({{1}} >= 0) & ({{0}} {sign} np.uint64({{1}}))"
    return elementwise(name, None, text=KernelRule(Kind.ELEMENTWISE, f"{{0}} {sign} {{1}}", mixed_signs=(first, second)))


equal = comparison("equal", "==")
not_equal = comparison("not_equal", "!=")
less = comparison("less", "<")
less_equal = comparison("less_equal", "<=")
greater = comparison("greater", ">")
greater_equal = comparison("greater_equal", ">=")
logical_and = elementwise("logical_and", None, truth, text="({0} != 0) & ({1} != 0)")
logical_or = elementwise("logical_or", None, truth, text="({0} != 0) | ({1} != 0)")
logical_xor = elementwise("logical_xor", None, truth, text="({0} != 0) != ({1} != 0)")
logical_not = elementwise("logical_not", None, truth, text="{0} == 0")
isnan = elementwise("isnan", None)
isinf = elementwise("isinf", None)
isfinite = elementwise("isfinite", None)
signbit = elementwise("signbit", None)
bitwise_and = elementwise("bitwise_and", None, whole, text="{0} & {1}")
bitwise_or = elementwise("bitwise_or", None, whole, text="{0} | {1}")
bitwise_xor = elementwise("bitwise_xor", None, whole, text="{0} ^ {1}")
invert = elementwise("invert", None, whole)
left_shift = elementwise("left_shift", None, whole, count)
right_shift = elementwise("right_shift", None, whole, count)
elementwise("gcd", None, whole)
elementwise("lcm", None, whole)

# --- ops that are no ufunc --------------------------------------------------------------------


def _chosen(c: np.dtype, x: np.dtype, y: np.dtype) -> np.dtype:
    if c != BOOL or x != y:
        raise TypeError(f"where takes (bool, T, T), not ({c}, {x}, {y})")
    return x


def _where_bars(bar: TracedArray, args: Sequence[TracedArray]) -> list[object]:
    """Rules of `where` select instead of multiplying, so that a NaN of the branch not taken does not spread."""
    return [ZERO, np.where(args[0], bar, 0.0), np.where(args[0], 0.0, bar)]


def _convert_bars(bar: TracedArray, args: Sequence[TracedArray], *, dtype: np.dtype) -> list[object]:
    """The cotangent in the dtype of the argument; a real argument takes the real part."""
    source = args[0].type
    return [(np.real(bar) if source.dtype.kind == "f" else bar).astype(source.dtype) if source.floating else ZERO]


def _converted(x: np.dtype, *, dtype: np.dtype) -> np.dtype:
    if x.kind == "c" and dtype.kind in "iuf":
        raise TypeError(f"convert takes no {x} to {dtype}: that is the real part")
    return dtype


def _convert(x: object, *, dtype: np.dtype) -> object:
    return np.asarray(x).astype(dtype)[()]


def _copied(x: object) -> object:
    return np.array(x)[()]


def _same(x: np.dtype) -> np.dtype:
    return x


_CHOICE = "{1} if {0} else {2}"
where = elementwise("where", None, truth, real, real, text=_CHOICE, loop=_chosen, terms=terms.selected, transposes=_where_bars)
convert = elementwise(
    "convert", None, real, text="{T}({0})", numpy=_convert, loop=_converted, terms=terms.converted, transposes=_convert_bars,
    params={"dtype": np.dtype(np.float32)},
)  # fmt: skip
copy = elementwise("copy", (1,), real, text="{0}", numpy=_copied, loop=_same, layout=LayoutRule("C"), provenance=through_copy)
# The minimum of both, with the derivative of `x` even where the bound is smaller: `logsumexp` bounds infinite terms.
bounded = elementwise("bounded", lambda x, y, out: (1, ZERO), real, thousand, text="rt.minimum", numpy=np.minimum, loop=np.promote_types)
stop = elementwise("stop_gradient", None, text="{0}", numpy=np.positive, loop=_same, stops=True)


@implements(np.where)
def where_call(condition: object, *branches: object) -> object:
    """``np.where`` with three arguments; with one: see `data_dependent_shapes.py`."""
    if not branches:
        raise current().fail(
            "numpy.where(condition) gives arrays whose shape depends on traced values.", "Use numpy.where(condition, x, y)."
        )
    x, y = branches
    trace = current(condition, x, y)
    kinds = [kind_of(x), kind_of(y)]
    dtype = np.result_type(*[k(0) if isinstance(k, type) else k for k in kinds])
    node = trace.add(where, (trace.lift(condition, BOOL), trace.lift(x, dtype), trace.lift(y, dtype)))
    return TracedArray(trace, node, trace.builder.type(node))


@implements(method="astype")
def astype(x: TracedArray, dtype: object, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> TracedArray:
    """`x` in another dtype; a derivative passes between floating dtypes only.

    A complex array that becomes real loses its imaginary part, and NumPy's warning says so.
    """
    target = np.dtype(dtype)
    if target.kind not in "biufc":
        raise current().fail(f"a traced array cannot become {target}.", "Use a dtype of truth values or numbers.")
    if not np.can_cast(x.dtype, target, casting):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {target!r} according to the rule {casting!r}")
    if target == x.dtype:
        if x.scalar or x.weak:
            return TracedArray(x.home, x.id, x.type, scalar=x.scalar)
        return hooks.in_order(x, order, copy=copy or None)
    if x.dtype.kind == "c" and target.kind in "iuf":
        warn("Casting complex values to real discards the imaginary part", np.exceptions.ComplexWarning)
        return astype(np.real(x), target)
    out = _scalar_like(apply(convert, x, dtype=target), x)
    return out if x.scalar or order == "K" else hooks.in_order(out, order)


@implements(np.astype)
def astype_call(x: TracedArray, dtype: object, /, *, copy: bool = True, device: object = None) -> TracedArray:
    return astype(x, dtype, copy=copy)


def _scalar_like(out: TracedArray, x: TracedArray) -> TracedArray:
    out.scalar = x.scalar
    return out


def positive_call(x: object, **keywords: object) -> object:
    """``+x``: the value itself."""
    refuse(np.positive, keywords)
    trace = current(x)
    loop_dtypes(np.positive, (kind_of(x),))
    node = trace.lift(x)
    type_ = trace.builder.type(node)
    return TracedArray(trace, node, type_, scalar=not type_.shape)


UFUNCS[np.positive] = positive_call

# --- complex numbers --------------------------------------------------------------------------
# The pairing of cotangents and tangents is Re(bar * dot), without a conjugate, so that a holomorphic op has the same
# rules as over the reals. These four are linear over the reals only.


def _real_type(x: np.dtype) -> np.dtype:
    if x.kind != "c":
        raise TypeError(f"the parts of complex numbers are taken, not of {x}")
    return real_dtype(x)


def _complex_type(x: np.dtype, y: np.dtype) -> np.dtype:
    if x != y or x.kind != "f":
        raise TypeError(f"complex takes two real numbers of one dtype, not ({x}, {y})")
    return np.result_type(x, np.complex64)


def _paired(x: Array, y: Array) -> object:
    """The complex number with these parts, without a product ``1j * y``, which would make NaN of infinite parts."""
    out = np.empty(broadcast(np.shape(x), np.shape(y)), np.result_type(np.asarray(x).dtype, np.complex64))
    out.real, out.imag = x, y
    return out[()]


def _modulus_jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray]) -> list[object]:
    return [2.0 * (np.real(args[0]) * np.real(dots[0]) + np.imag(args[0]) * np.imag(dots[0]))]


def _modulus_vjp(bars: Sequence[Array], args: Sequence[TracedArray], outs: Sequence[TracedArray]) -> list[object]:
    return [2.0 * bars[0] * np.conjugate(args[0])]


def _squared(x: Array) -> object:
    return np.square(np.absolute(x))


def _real_bar(bar: TracedArray) -> TracedArray:
    return bar.astype(_complex_type(bar.dtype, bar.dtype))


def _imag_bar(bar: TracedArray) -> TracedArray:
    return apply(pair, np.zeros_like(bar), -bar)


def _part(name: str, part: Callable[..., object], whole: Callable[..., object], put: Callable[..., object]) -> Primitive:
    """A part of complex numbers: `whole` makes its cotangent one of the number, ``put(z, part)`` is z with another part."""
    view = {"view": True, "put": put, "layout": LayoutRule("operands", part=name)}
    copied = lambda x: part(np.asarray(x)).copy()[()]  # noqa: E731 - a line
    return elementwise(name, None, plane, text="", numpy=copied, loop=_real_type, transposes=lambda bar, args: [whole(bar)], **view)


conjugate = elementwise("conjugate", None, plane, text="", loop=_same, transposes=lambda bar, args: [np.conjugate(bar)])
real_part = _part("real", np.real, _real_bar, lambda z, x: apply(pair, x, apply(imag_part, z)))
imag_part = _part("imag", np.imag, _imag_bar, lambda z, y: apply(pair, apply(real_part, z), y))
squared_modulus = elementwise("squared_modulus", None, plane, text="", numpy=_squared, loop=_real_type, rules=(_modulus_jvp, _modulus_vjp))


def _pair_bars(bar: TracedArray, args: Sequence[TracedArray]) -> list[object]:
    return [np.real(bar), -np.imag(bar)]


pair = elementwise("complex", None, real, real, text="", numpy=_paired, loop=_complex_type, transposes=_pair_bars)


def conjugate_call(x: object, **keywords: object) -> object:
    """``np.conjugate``: of a real array the array, of bools NumPy makes int8."""
    if (dtype := promote(kind_of(x))).kind != "c":
        return positive_call(apply(convert, x, dtype=np.dtype(np.int8)) if dtype == BOOL else x, **keywords)
    refuse(np.conjugate, keywords)
    out = apply(conjugate, x)
    return TracedArray(out.home, out.id, out.type, scalar=not out.shape)


UFUNCS[np.conjugate] = conjugate_call
