"""Prepared functions in code compiled by Numba: `njit`, and direct use in ``@njit`` functions.

Numba asks a prepared function for its type (`_numba_type_`). A call in ``@njit`` code has the types
of a call that Python has made before, from examples or otherwise, and calls its kernels through
records (`fdiff.kernels.numba.calls`). Numba, and the modules that these calls need, are imported
when `njit` is first called or Numba first asks. See docs/decisions/calls-from-njit-code.md.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic

from ... import kernels
from ...errors import InputError, choice, failure
from ...foreign_errors import hiding
from ...process.forking import no_fork
from ...tracebacks import public
from ..annotations import P, R
from ..call.prepared import AnyPrepared, Origin, Prepared, example_arguments
from ..call.stage_functions import of_partitions

if TYPE_CHECKING:
    from .numba_calls import NumbaCallee

MISSES = ("python", "raise")


def _callee(prepared: AnyPrepared, misses: str) -> NumbaCallee:
    """The callee behind a function's type; imported here, because few programs need it."""
    with no_fork:
        from .numba_calls import NumbaCallee  # noqa: PLC0415 - as said
    return NumbaCallee(prepared, misses)


class NumbaFunction(partial[R], Generic[P, R]):
    """A prepared function for ``@njit`` code; Python calls it like any other prepared function."""

    __fdiff__ = "njit"
    callee: NumbaCallee

    def __repr__(self) -> str:
        return f"<fdiff.njit of {self.func!r}>"

    @property
    def __name__(self) -> str:
        """The name of the function in messages."""
        return str(getattr(self.func, "__name__", "f"))

    @public
    def compile(self, *types: object, **kwargs: object) -> NumbaFunction[P, R]:
        """Make the kernel for arguments of these types now, as `Prepared.compile` does.

        Returns
        -------
        NumbaFunction
            The function itself.

        Raises
        ------
        InputError
            If an argument is no type, or no number or array.

        Examples
        --------
        >>> import numpy as np
        >>> import fdiff
        >>> slope = fdiff.njit(fdiff.grad(lambda x: np.sum(x**4))).compile("f8[2]")
        """
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
        return _unpickled_function, (self.func, self.callee.misses)


def _compile(callee: NumbaCallee, types: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Make the kernel for examples of the arguments."""
    call = f"{callee.name}.compile"
    with example_arguments(call, types, kwargs, all_types=True) as (args, named):
        callee.compile(args, named)


def _unpickled_function(prepared: Prepared[P, R], misses: str) -> NumbaFunction[P, R]:
    """A function for ``@njit`` code in another process, where nothing is compiled for it yet."""
    function: NumbaFunction[P, R] = NumbaFunction(prepared)
    function.callee = _callee(prepared, misses)
    return function


def _type_of(prepared: AnyPrepared) -> object:
    """Asked by Numba where it finds a prepared function in code that it compiles."""
    numba_type = vars(prepared).get("_numba_type")
    if numba_type is None:
        callee = vars(prepared)["_numba_callee"] = _callee(prepared, "python")
        numba_type = vars(prepared)["_numba_type"] = kernels.FunctionType(callee)
    return numba_type


Prepared._numba_type_ = property(hiding(_type_of))  # type: ignore[attr-defined] - for Numba alone


@public
def njit(
    prepared: Prepared[P, R], *examples: object, misses: str = "python", **keywords: object
) -> NumbaFunction[P, R]:
    """Make a prepared function callable from the user's own ``@numba.njit`` code.

    It can be called in loops, ``prange``, other functions and cfuncs, as in Python. A call costs as
    much as its kernel, and runs no Python. A call from Python calls the prepared function.

    Parameters
    ----------
    prepared : callable
        What `grad`, `value_and_grad`, `jacobian`, `jacrev`, `jacfwd`, `hessian`, `vjp`, `jvp`,
        `hvp`, `vhp`, `vmap` or `jit` returns.
    *examples, **keywords
        An example of each argument (an array, a number, or a tuple of these), or for an array a
        text such as ``"f8[10,3]"``. They determine the types of the results for Numba.
        ``njit(...).compile(*examples)`` adds further types of calls. Without examples, the types of
        earlier calls from Python are used.
    misses : {"python", "raise"}
        What to do if there is no kernel for the shapes of a call. "python" makes one with the GIL
        held, once for each shape (milliseconds). "raise" raises `InputError`.

    Returns
    -------
    callable
        Takes the arguments of `prepared` in ``@njit`` code: floats, and arrays of any shape with
        the number of axes and the dtype of an example, in any layout (arrays that are not
        contiguous are copied). Each value of an int has a kernel, as in Python. ``out=`` takes
        arrays to write to, with the structure of the result and None for a new array. A call costs
        about 30 ns more than its kernel and its results, and runs on one thread.

        Captured arrays are read where they are, so a call sees changes of their entries. Everything
        else that the function read from outside is frozen, as Numba freezes globals. Branches on
        values work. Each combination of branches has its own kernel.

    Raises
    ------
    InputError
        If an argument or result cannot be represented in ``@njit`` code, or `prepared` is not a
        prepared function. In ``@njit`` code: if there is no kernel and `misses` is "raise", if
        `out` is not shaped like the result, or if what the function read from outside has been
        rebound when a kernel is made for a new shape.
    UnsupportedError
        If an operation has no kernel, or Python code computes with results.
    numba.TypingError
        In ``@njit`` code, if no example has the argument types of a call.

    Notes
    -----
    ``@njit`` code may also call a prepared function directly, after it was called or compiled from
    Python. This is the same as ``njit(prepared)``.

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
        of_partitions(prepared, Origin(njit, {}))  # which refuses them with the reason
        fact = f"expects a prepared function such as grad(f), not {type(prepared).__name__}."
        way = "Write fdiff.njit(fdiff.jit(f), *examples) for f itself."
        raise failure(InputError, name, fact, way)
    way = "Leave it out, so that Python makes kernels for new shapes, or write misses='raise'."
    misses = choice(misses, MISSES, "misses", name, way)
    function = _unpickled_function(prepared, misses)
    if examples or keywords:
        _compile(function.callee, examples, keywords)
    return function
