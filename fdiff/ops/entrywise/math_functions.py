"""The module `math`: traced numbers go to NumPy's function of the same meaning, and stay traced."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable

import fdiff.intact_numpy as np
from fdiff import intact_scipy

from ...foreign_errors import wraps
from ...trace import Array, Operand, TracedArray, current, guarded_value, record, replaces
from ...trace.concrete_values import whole
from ...trace.exception_context import inside_try
from ...trace.local_arrays import TracedLocalArray, holds_traced
from ..python_builtins import number


def _of_numbers(function: Callable[..., object], call: Callable[..., object]) -> None:
    """Register `call` for traced numbers; others go to `function` itself."""

    @wraps(function)
    def answer(*args: object, **keywords: object) -> object:
        if not holds_traced(args):
            return function(*args, **keywords)
        numbers = [number(a) if isinstance(a, (TracedArray, TracedLocalArray)) else a for a in args]
        out = call(*numbers, **keywords)
        if isinstance(out, tuple):
            return tuple([_of_python(part) for part in out])
        if isinstance(out, TracedArray) and out.type.floating:
            _attempt(function, numbers, out)
        return _of_python(out)

    replaces(function)(answer)


def _of_python(x: object) -> object:
    """A number as Python's `math` gives it; as it is, if it is not traced."""
    return x.as_python_float() if isinstance(x, TracedArray) and x.type.floating else x


def _attempt(function: Callable[..., object], arguments: list[object], out: TracedArray) -> None:
    """Raise what Python's function raises outside its domain, if the user's code would catch it.

    This is checked inside a ``try`` alone, as in `matrix_ops.attempt`; elsewhere the result is NumPy's NaN or infinity.
    """
    trace = current()
    numbers = [g for g in arguments if isinstance(g, TracedArray)]
    if not (trace.mutable and inside_try(record.__code__) and all(trace.guards.is_known(trace.own(g)) for g in numbers)):
        return
    finite = functools.reduce(np.logical_and, [np.isfinite(g) for g in arguments])
    number_less = functools.reduce(np.logical_or, [np.isnan(g) for g in arguments])
    if bool(np.isnan(out) & ~number_less) or bool(np.isinf(out) & finite):
        # Which error it is depends on the function, and for these three on the numbers too (a pole, or an overflow).
        action = "asked whether a number lies in a domain"
        see = (
            guarded_value if function in (math.pow, math.gamma, math.lgamma) else lambda g, action: trace.guards.value(trace.own(g), action)
        )
        function(*[float(see(g, action)) if isinstance(g, TracedArray) else g for g in arguments])


def _log(x: Array, base: Operand = math.e) -> object:
    return np.log(x) if base is math.e else np.log(x) / np.log(base)


def _is_close(a: Array, b: Array, *, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> bool:
    """``math.isclose``: an infinity is close to itself alone."""
    if rel_tol < 0.0 or abs_tol < 0.0:
        raise ValueError("tolerances must be non-negative")
    gap = abs(b - a)
    close = (gap <= abs(rel_tol * b)) | (gap <= abs(rel_tol * a)) | (gap <= abs_tol)
    return bool(np.equal(a, b) | np.isfinite(a) & np.isfinite(b) & close)


def _parts(x: Array) -> tuple[object, int]:
    """``math.frexp``: mantissa and exponent."""
    mantissa, exponent = np.frexp(x)
    return mantissa, int(exponent)


def _sums(values: Iterable[Operand]) -> Operand:
    total: Operand = 0.0
    for value in values:
        total = total + value
    return total


def _length(*parts: object) -> object:
    return np.sqrt(_sums([np.square(p) for p in parts])) if len(parts) != 2 else np.hypot(*parts)


_ALIKE = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan, "atan2": np.arctan2,
    "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": lambda x: whole(np.ceil(x)), "copysign": np.copysign, "cos": np.cos,
    "cosh": np.cosh, "degrees": np.degrees, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "fabs": np.fabs,
    "floor": lambda x: whole(np.floor(x)), "fmod": np.fmod, "hypot": _length, "frexp": _parts, "isclose": _is_close,
    "isfinite": lambda x: bool(np.isfinite(x)),
    "isinf": lambda x: bool(np.isinf(x)), "isnan": lambda x: bool(np.isnan(x)), "log": _log, "log10": np.log10,
    "log1p": np.log1p, "ldexp": np.ldexp, "log2": np.log2, "modf": np.modf, "nextafter": np.nextafter, "pow": np.power,
    "radians": np.radians, "remainder": lambda x, y: x - y * np.rint(x / y),
    "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh, "trunc": lambda x: whole(np.trunc(x)),
    "ulp": lambda x: np.spacing(abs(x)),
}  # fmt: skip
for _name, _call in _ALIKE.items():
    if hasattr(math, _name):
        _of_numbers(getattr(math, _name), _call)


def _special(name: str) -> Callable[..., object]:
    """A function of `math` that NumPy lacks and `scipy.special` has."""

    def call(*args: object) -> object:
        return getattr(intact_scipy.special, name)(*args)

    return call


for _name, _other in (("erf", "erf"), ("erfc", "erfc"), ("gamma", "gamma"), ("lgamma", "gammaln")):
    _of_numbers(getattr(math, _name), _special(_other))


_GIVE_FLOATS = math.fsum, math.dist  # whatever numbers they are given


def _of_sequences(function: Callable[..., object], call: Callable[..., object]) -> None:
    @wraps(function)
    def answer(*args: object, **keywords: object) -> object:
        sequences = [list(a) if hasattr(a, "__iter__") else a for a in args]
        if holds_traced(sequences) or holds_traced(list(keywords.values())):
            out = call(*sequences, **keywords)
            return number(out) if function in _GIVE_FLOATS and isinstance(out, TracedArray) else out
        return function(*sequences, **keywords)

    replaces(function)(answer)


def _product(values: Iterable[Operand], *, start: Operand = 1) -> Operand:
    for value in values:
        start = start * value
    return start


_of_sequences(math.fsum, _sums)
_of_sequences(math.prod, _product)
_of_sequences(math.dist, lambda p, q: _length(*(a - b for a, b in zip(p, q, strict=True))))
if hasattr(math, "sumprod"):
    _of_sequences(math.sumprod, lambda p, q: _sums([a * b for a, b in zip(p, q, strict=True)]))
