"""The module `cmath` and the class `complex`: traced numbers go to NumPy's functions of the same meaning."""

from __future__ import annotations

import builtins
import cmath
from collections.abc import Callable
from typing import cast

import fdiff.intact_numpy as np

from ...foreign_errors import wraps
from ...trace import Array, TracedArray, apply, replaces
from ...trace.handler_arguments import resolve
from ...trace.local_arrays import TracedLocalArray, holds_traced
from .elementwise import pair


def _double_number(x: object) -> object:
    """A traced number in double precision and without axes, as `cmath` takes it; other values as they are."""
    if not isinstance(x, (TracedArray, TracedLocalArray)):
        return x
    array = cast("TracedArray", resolve(x))
    if array.size != 1:
        complex(np.empty(array.shape, array.dtype))  # raises what NumPy raises
    return array.reshape(()).astype(np.complex128 if array.dtype.kind == "c" else np.float64).as_python_float()


def _is_complex(x: object) -> bool:
    return np.iscomplexobj(x)


def number(re: object, im: object = 0.0) -> TracedArray:
    """A Python complex that stays traced: ``re + 1j * im``, without the product if both are real."""
    x, y = _double_number(re), _double_number(im)
    if _is_complex(x) or _is_complex(y):
        return (np.add(x, np.multiply(1j, y)) if y is not im or y != 0.0 else np.positive(x)).as_python_float()
    return apply(pair, *(np.float64(v) if isinstance(v, (int, float)) else v for v in (x, y))).as_python_float()


class _ComplexMeta(type):
    """The class of `Complex`: what is an instance or subclass of `complex` is one of `Complex`."""

    def __instancecheck__(cls, value: object) -> bool:
        if isinstance(value, TracedArray):
            return (value.weak or value.scalar) and value.dtype == np.complex128
        return isinstance(value, complex)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, complex)

    def __eq__(cls, other: object) -> bool:
        return other is complex or other is cls

    def __hash__(cls) -> int:
        return hash(complex)

    def __call__(cls, *args: object, **keywords: object) -> object:
        if not holds_traced([*args, *keywords.values()]):
            return complex(*args, **keywords)
        parts = dict(zip(("real", "imag"), args, strict=False)) | keywords
        return number(parts.get("real", 0.0), parts.get("imag", 0.0))


class Complex(complex, metaclass=_ComplexMeta):
    """The replacement of `complex`, which cannot hold a traced value; NumPy takes it for the dtype complex128."""

    __slots__ = ()
    dtype = np.dtype(complex)


replaces(builtins.complex)(Complex)


def _answer(function: Callable[..., object], call: Callable[..., object]) -> None:
    """Register `call` for traced numbers; others go to `function` itself."""

    @wraps(function)
    def answer(*args: object, **keywords: object) -> object:
        if not holds_traced([*args, *keywords.values()]):
            return function(*args, **keywords)
        out = call(*map(_double_number, args), **keywords)
        return out.as_python_float() if isinstance(out, TracedArray) and out.type.floating else out

    replaces(function)(answer)


def _log(z: object, base: object = None) -> object:
    return np.log(number(z)) if base is None else np.log(number(z)) / np.log(number(base))


def _rect(r: object, phi: Array) -> object:
    return number(r * np.cos(phi), r * np.sin(phi))


def _is_close(a: object, b: object, *, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> bool:
    x, y = number(a), number(b)
    bound = np.maximum(rel_tol * np.maximum(np.absolute(x), np.absolute(y)), abs_tol)
    return bool((np.absolute(x - y) <= bound) & np.isfinite(x) & np.isfinite(y) | (x == y))


_ALIKE = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh,
    "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "log10": np.log10, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt,
    "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip
for _name, _ufunc in _ALIKE.items():
    _answer(getattr(cmath, _name), lambda z, u=_ufunc: u(number(z)))
for _ufunc in (np.isfinite, np.isinf, np.isnan):
    _answer(getattr(cmath, _ufunc.__name__), lambda z, u=_ufunc: bool(u(z)))
_answer(cmath.log, _log)
_answer(cmath.phase, lambda z: np.angle(number(z)))
_answer(cmath.polar, lambda z: (np.absolute(number(z)).as_python_float(), np.angle(number(z)).as_python_float()))
_answer(cmath.rect, _rect)
_answer(cmath.isclose, _is_close)
