"""`cfunc`: a prepared function as a C function, for libraries that take function pointers.

`c_callables`, which makes the C function, is imported at the first call, because few programs need
it. See docs/decisions/c-functions.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import InputError, called, choice, failure
from ...process.forking import late
from ...tracebacks import public
from ..call.prepared import Origin, Prepared, example_arguments
from ..call.stage_functions import of_partitions

if TYPE_CHECKING:
    from .c_callables import CFunction

MISSES = ("python", "raise")
c_function = late("c_callables", __package__, "c_function")


@public
def cfunc(
    prepared: Callable[..., object], *examples: object, misses: str = "python", **keywords: object
) -> CFunction:
    """Turn a prepared function into a C function, for code that takes the address of one.

    Parameters
    ----------
    prepared : callable
        What an operator returned: ``grad(f)``, ``value_and_grad(f)``, ``jit(f)`` and so on.
    *examples, **keywords
        An example of each argument, or for an array a text such as ``"f8[10,3]"``: its dtype and
        shape, which all calls have. Floats are passed by value, arrays by the address of their
        entries in C order, and so is each leaf of a tuple, list, dictionary or dataclass. Integers,
        truth values and None are constants, and no parameters.
    misses : {"python", "raise"}
        What to do if no kernel is valid for the arguments, because a branch goes another way or an
        array of integers that determines a shape has other values. "python" calls Python to make a
        kernel, and waits for the GIL. Calls also wait for the GIL for the first angle beyond 2**31,
        for a result that would overwrite an argument, and for errors. With ``"raise"`` such calls
        fail, and no call takes the GIL.

    Returns
    -------
    CFunction
        An object with the attributes `address`, valid as long as the object exists; `ctypes`, the
        function for Python, and `low_level_callable`, the function for SciPy, which both keep the
        object alive; and `header`, the declaration in C. The C function returns a single number. It
        writes other results (each leaf of a tuple, list or dictionary) to arrays that the caller
        passes after the arguments: ``double f(double x)``, ``void f(const double *x, double
        *out)``. Truth values are ``int8_t``.

        If a call fails, all results are NaN or the smallest integer, and `check()` raises its
        error. A call costs about 40 ns more than its kernel. It runs on the calling thread, uses
        memory on the stack or allocates it, and may run on many threads at the same time.

    Raises
    ------
    InputError
        If `prepared` is no prepared function, or an argument cannot be passed.
    UnsupportedError
        If an operation has no kernel, code of Python computes with results (a class of the user's
        that they are put into), or the function cannot be traced once for all calls.

    Notes
    -----
    The C function reads arrays from outside where they are: it sees changes in place, but not a
    name that is bound to another object. Numba is not needed.

    References
    ----------
    `numba.cfunc` has the same purpose and the same attributes.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> from scipy.integrate import quad
    >>> slope = fdiff.cfunc(fdiff.grad(lambda t: np.sin(t) * t), 0.5)
    >>> print(slope.header, end="")
    /* grad(<lambda>) */
    typedef double (*grad_lambda)(double t);
    >>> round(quad(slope.low_level_callable, 0.0, 1.0)[0] - np.sin(1.0), 12)
    np.float64(0.0)
    >>> slope.check()
    """
    if not isinstance(prepared, Prepared):
        of_partitions(prepared, Origin(cfunc, {}))  # which refuses them with the reason
        fact = f"expects a prepared function such as grad(f), not {type(prepared).__name__}."
        way = "Write fdiff.cfunc(fdiff.jit(f), *examples) for f itself."
        raise failure(InputError, "cfunc", fact, way)
    way = "Leave it out, so that missing kernels are made by Python, or write misses='raise'."
    misses = choice(misses, MISSES, "misses", "cfunc", way)
    call = f"cfunc({called(prepared.__fdiff__, prepared.__wrapped__)})"
    with example_arguments(call, examples, keywords, all_types=True) as (args, named):
        return c_function(prepared, args, named, misses)
