"""`primitive`: a function that is not traced, with derivatives of the user's, as one operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from ..arraytype import ArrayType
from ..dispatch.arguments import Function
from ..errors import InputError, failure
from ..ops.opaque import OpaqueFunction, entrywise_type, opaque
from ..ops.shaping import traced
from ..trace import apply, tracing
from .custom_derivatives import CustomFunction, custom_jvp, custom_vjp
from .options import check_callable


class OpaqueCall:
    """What stands for the user's function: run on numbers, one node where a trace is under way."""

    __fdiff__ = "primitive"

    def __init__(self, function: OpaqueFunction) -> None:
        self.function = function
        update_wrapper(self, function.function, updated=())

    def __call__(self, *args: object) -> object:
        if not tracing():
            return self.function.run(*map(np.asarray, args))
        out = apply(opaque, *map(traced, args), function=self.function)
        return type(out)(out.home, out.id, out.type, scalar=not out.shape)


def primitive(
    function: Function,
    *,
    partials: Function | None = None,
    vjp: Function | None = None,
    jvp: Function | None = None,
    like: Callable[..., Any] | int | None = None,
) -> CustomFunction[..., Any]:
    """A function as one operation, whose code is not traced: compiled by Numba, or in C.

    Parameters
    ----------
    function : callable
        Takes arrays and returns one array. It is called with numbers: an ``@njit`` function, a
        function of a C library through `ctypes`, or any Python code. It must be pure.
    partials : callable, optional
        For a function that acts entry by entry: ``partials(*args, out)`` gives the partial
        derivative for each argument.
    vjp : callable, optional
        ``vjp(bar, out, *args)`` gives a tuple with a cotangent for each argument.
    jvp : callable, optional
        ``jvp(dots, out, *args)`` gives the tangent of the output; it is linear in the tuple `dots`.
    like : int or callable, optional
        The type of the result: that of the argument at this position, or of what
        ``like(*args)`` gives for arrays of zeros. By default arguments broadcast.

    Returns
    -------
    callable
        A function of arrays, for use in functions that operators of fdiff trace. The rules are
        plain NumPy, may call it again, and hold at every order. Programs with it are interpreted:
        there is no kernel of what is not traced, on a GPU neither.

    Raises
    ------
    InputError
        If there is no derivative or more than one, or the function returns another type than told.

    References
    ----------
    Frostig, Johnson, Leary, "Compiling machine learning programs via high-level tracing",
    SysML 2018, for operations that a trace does not look into.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> square = fdiff.primitive(lambda x: x * x, partials=lambda x, out: (2.0 * x,))
    >>> fdiff.grad(lambda x: np.sum(square(x)))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    check_callable(function, "primitive")
    name = f"primitive({getattr(function, '__name__', type(function).__name__)})"
    given = [rule for rule in (partials, vjp, jvp) if rule is not None]
    if len(given) != 1:
        fact = f"one of partials, vjp and jvp is needed, not {len(given)}."
        raise failure(InputError, name, fact, "The others are derived from it.")
    check_callable(given[0], "primitive")
    entrywise = partials is not None and like is None
    call = OpaqueCall(OpaqueFunction(function, _type_rule(like), name, entrywise=entrywise))
    found: CustomFunction[..., Any]
    if vjp is not None:
        found = custom_vjp(call)
        found.defvjp(partial(_kept, found), partial(_pulled, vjp))
        return found
    found = custom_jvp(call)
    found.defjvp(partial(_pushed, found, jvp) if jvp else partial(_by_slopes, found, partials))
    return found


def _type_rule(like: Any) -> Callable[..., ArrayType]:
    """The type of the result from those of the arguments."""
    if like is None:
        return entrywise_type
    if isinstance(like, int):
        return lambda *types: types[like]

    def rule(*types: ArrayType) -> ArrayType:
        found = np.asarray(like(*[np.zeros(t.shape, t.dtype) for t in types]))
        return ArrayType(found.shape, found.dtype)

    return rule


def _kept(function: Any, *args: Any) -> tuple[Any, Any]:
    out = function(*args)
    return out, (out, args)


def _pulled(vjp: Any, residuals: Any, bar: Any) -> Any:
    out, args = residuals
    return vjp(bar, out, *args)


def _pushed(function: Any, jvp: Any, primals: tuple[Any, ...], dots: tuple[Any, ...]) -> Any:
    out = function(*primals)
    return out, jvp(dots, out, *primals)


def _by_slopes(function: Any, partials: Any, primals: tuple[Any, ...], dots: Any) -> Any:
    out = function(*primals)
    terms = [dot * slope for dot, slope in zip(dots, partials(*primals, out), strict=True)]
    return out, np.broadcast_to(sum(terms[1:], terms[0]), np.shape(out))
