"""`cfunc`: a prepared function as a C function, for code that takes the address of one.

What makes it (`c_callables`) is imported when it is called, because few programs need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import InputError, called, choice, failure
from ..process.forking import no_fork
from ..trace.trace_stack import stack
from ..tracebacks import public
from .prepared import Prepared, example_argument

if TYPE_CHECKING:
    from .c_callables import CFunction

MISSES = ("python", "raise")


@public
def cfunc(
    prepared: Callable[..., object], *examples: object, misses: str = "python", **keywords: object
) -> CFunction:
    """A C function of a prepared function, for code that takes the address of one.

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
        What to do where no kernel holds for the arguments, because a branch or a value that decided
        something is another one: ask Python for one more kernel, or fail. By default Python is
        asked; a thread waits for the GIL then, as it does for an angle beyond 2**31 the first time,
        for a result that is to be written over an argument, and for errors. With ``"raise"`` no
        call ever takes the GIL.

    Returns
    -------
    CFunction
        Its `address`, valid while the object lives; `ctypes`, the function for Python, and
        `low_level_callable`, the one for SciPy, which both keep it alive; `header`, its declaration
        in C. A result that is a single number is returned, others (each leaf of a tuple, list or
        dictionary) are written to arrays that the caller passes after the arguments:
        ``double f(double x)``, ``void f(const double *x, double *out)``. Truth values are
        ``int8_t``.

        A call that fails gives NaN in all results, or the smallest integer, and `check()` raises
        its error. A call costs some 40 ns more than its kernel, runs on the thread that calls, has
        its memory on the stack or allocated, and may be made from many threads at once.

    Raises
    ------
    InputError
        If `prepared` is no prepared function, or an argument cannot be passed.
    UnsupportedError
        If an operation has no kernel, code of Python computes with results (a class of the user's
        that they are put into), or the function cannot be traced once for all calls.

    Notes
    -----
    Arrays that the function reads from outside are read where they are: what is changed in place is
    seen, what is bound anew is not. Numba is not needed.

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
        fact = f"expects a prepared function such as grad(f), not {type(prepared).__name__}."
        way = "Write fdiff.cfunc(fdiff.jit(f), *examples) for f itself."
        raise failure(InputError, "cfunc", fact, way)
    way = "Leave it out, so that missing kernels are made by Python, or write misses='raise'."
    misses = choice(misses, MISSES, "misses", "cfunc", way)
    call = f"cfunc({called(prepared.__fdiff__, prepared.__wrapped__)})"
    args = tuple([example_argument(one, call) for one in examples])
    named = {name: example_argument(one, call) for name, one in keywords.items()}
    with no_fork:
        from .c_callables import c_function  # noqa: PLC0415 - as said
    stack.examples = True
    try:
        return c_function(prepared, args, named, misses)
    finally:
        stack.examples = False
