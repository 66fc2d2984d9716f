"""Prepared functions in code that Numba compiles: `njit`, and their direct use there.

Numba asks a prepared function for its type (`_numba_type_`). A call of it in ``@njit`` code is
typed by a call that is known from Python, from examples or from earlier calls, and its kernels are
called from there by records (`fdiff.kernels.numba.calls`). Neither Numba nor what these calls need
is imported before `njit` is called, or Numba asks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from .. import kernels
from ..errors import InputError, choice, failure
from ..process.forking import no_fork
from ..trace.trace_stack import stack
from ..tracebacks import public
from .annotations import P, R
from .prepared import Prepared, example_argument

if TYPE_CHECKING:
    from .numba_calls import NumbaCallee

MISSES = ("python", "raise")


def _callee(prepared: Prepared[..., Any], misses: str) -> NumbaCallee:
    """What the type of a function asks; it is imported here, because few programs need it."""
    with no_fork:
        from .numba_calls import NumbaCallee  # noqa: PLC0415 - as said
    return NumbaCallee(prepared, misses)


class NumbaFunction(partial[R], Generic[P, R]):
    """A prepared function for ``@njit`` code; from Python it is called like any other."""

    __fdiff__ = "njit"
    callee: NumbaCallee

    def __repr__(self) -> str:
        return f"<fdiff.njit of {self.func!r}>"

    @property
    def __name__(self) -> str:
        """What messages call the function."""
        return str(getattr(self.func, "__name__", "f"))

    @public
    def compile(self, *types: object, **kwargs: object) -> NumbaFunction[P, R]:
        """Make the kernel for arguments of these types now, as `Prepared.compile` does."""
        _compile(self.callee, types, kwargs)
        return self

    @property
    def _numba_type_(self) -> object:
        """Asked by Numba where it finds the function in code that it compiles."""
        if "_type" not in vars(self):
            vars(self)["_type"] = kernels.FunctionType(self.callee)
        return vars(self)["_type"]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the prepared function; records are made anew."""
        return _again, (self.func, self.callee.misses)


def _compile(callee: NumbaCallee, types: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Make the kernel for examples of the arguments."""
    call = f"{callee.name}.compile"
    args = tuple([example_argument(one, call) for one in types])
    named = {name: example_argument(one, call) for name, one in kwargs.items()}
    stack.examples = True
    try:
        callee.compile(args, named)
    finally:
        stack.examples = False


def _again(prepared: Prepared[P, R], misses: str) -> NumbaFunction[P, R]:
    """A function for ``@njit`` code in another process, where nothing is compiled for it yet."""
    made: NumbaFunction[P, R] = NumbaFunction(prepared)
    made.callee = _callee(prepared, misses)
    return made


def _type_of(prepared: Prepared[..., Any]) -> object:
    """Asked by Numba where it finds a prepared function in code that it compiles."""
    made = vars(prepared).get("_numba_type")
    if made is None:
        callee = vars(prepared)["_numba_callee"] = _callee(prepared, "python")
        made = vars(prepared)["_numba_type"] = kernels.FunctionType(callee)
    return made


Prepared._numba_type_ = property(_type_of)  # type: ignore[attr-defined] - for Numba alone


@public
def njit(
    prepared: Prepared[P, R], *examples: object, misses: str = "python", **keywords: object
) -> NumbaFunction[P, R]:
    """A prepared function for calls in the user's own ``@numba.njit`` code.

    In loops, ``prange``, other functions and cfuncs it is called like in Python, at the cost of its
    kernel: no Python runs. Called from Python it is the prepared function itself.

    Parameters
    ----------
    prepared : callable
        What `grad`, `value_and_grad`, `jacobian`, `jacrev`, `jacfwd`, `hessian`, `vjp`, `jvp`,
        `hvp`, `vhp`, `vmap` or `jit` returns.
    *examples, **keywords
        An example of each argument, or for an array a text such as ``"f8[10,3]"``: Numba takes
        from them what kinds of results there are. Arrays, numbers, and tuples of these. More
        kinds of calls are added by ``njit(...).compile(*examples)``. Without examples, calls made
        from Python before are known.
    misses : {"python", "raise"}
        What is done where no kernel was made for the shapes of a call: "python" makes it, holding
        the GIL, once for each shape (milliseconds); "raise" raises `InputError`.

    Returns
    -------
    callable
        Takes the arguments of `prepared` in ``@njit`` code: arrays of any shape with the axes and
        dtypes of an example, in any layout (those that are not contiguous are copied), and floats.
        Python's ints are part of a call's signature, as in Python. ``out=`` takes arrays to write
        to, built like the result, with None where a new array is wanted. A call costs about 30 ns
        beyond its kernel and its results, and runs on one thread.

        Arrays that the function captured are read where they are, so that changes of their entries
        are seen. Everything else that it read from outside is frozen, as Numba freezes globals.
        Branches on values work; each way through them is a kernel of its own.

    Raises
    ------
    InputError
        If an argument or result has no form in ``@njit`` code, or `prepared` is no prepared
        function. In ``@njit`` code: if there is no kernel and `misses` is "raise", if `out` is not
        shaped like the result, or if what the function read from outside has been rebound when
        a kernel is made for a new shape.
    UnsupportedError
        If an operation has no kernel, or code of Python computes with results.
    numba.TypingError
        In ``@njit`` code, if no example has the kinds of arguments of a call.

    Notes
    -----
    A prepared function may also be used in ``@njit`` code directly, once it has been called or
    compiled from Python; this is ``njit(prepared)``.

    References
    ----------
    `numba.njit`; how its code calls a kernel: docs/njit.md.

    Examples
    --------
    >>> import numba
    >>> import numpy as np
    >>> import fdiff
    >>> slope = fdiff.njit(fdiff.grad(lambda x: np.sum(x**4)), "f8[2]")
    >>> @numba.njit
    ... def descend(x, steps):
    ...     for _ in range(steps):
    ...         x = x - 0.1 * slope(x)
    ...     return x
    >>> descend(np.array([1.0, 0.5]), 3).round(3)
    array([0.459, 0.385])
    """
    name = "njit"
    if not isinstance(prepared, Prepared):  # pyright: ignore[reportUnnecessaryIsInstance] - users need not check types
        fact = f"expects a prepared function such as grad(f), not {type(prepared).__name__}."
        way = "Write fdiff.njit(fdiff.jit(f), *examples) for f itself."
        raise failure(InputError, name, fact, way)
    way = "Leave it out, so that Python makes kernels for new shapes, or write misses='raise'."
    misses = choice(misses, MISSES, "misses", name, way)
    made = _again(prepared, misses)
    if examples or keywords:
        _compile(made.callee, examples, keywords)
    return made
