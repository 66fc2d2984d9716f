"""Newton's method and fixed points as loops on the tape, which kernels run and `vmap` batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fdiff.intact_numpy as np

from ..errors import ConvergenceError, InputError, called, failure, shown
from ..functional.loops.branches import while_loop
from ..functional.operators.jacobians import jacobian
from ..functional.options import check_callable, is_int
from ..process.forking import imported
from ..trace import tracing
from ..tracebacks import public

# Relative size of a step of Newton's method, below which a step that is no smaller is rounding.
ROUNDING = 1e-8
Size = np.ndarray | np.float64
State = tuple[np.ndarray, Size, Size]  # the unknown, and the sizes of the last two steps


@public
def newton(
    f: Callable[..., object], x0: object, *args: object, tol: float = 1e-12, max_steps: int = 50
) -> Any:
    """Solve ``f(x, *args) = 0`` by Newton's method, as a loop that a kernel runs.

    Inside of a differentiated function, the iterations are one `while_loop`: compiled with what
    stands around it, and batched by `vmap`. The root is differentiable in `args` and in what `f`
    reads, in both modes and at every order, by the implicit function theorem: the iterations are
    not differentiated.

    Parameters
    ----------
    f : callable
        Returns as many numbers as there are unknowns: a number, or a vector.
    x0 : array_like
        Start, a number or a vector of few entries. It has no derivative.
    *args
        Further arguments of `f`.
    tol : float
        Size of the last step, relative to ``1 + max(abs(x))``. A root that rounding keeps from it
        counts, too.
    max_steps : int
        Steps at most.

    Returns
    -------
    float or ndarray
        The root. A step costs a dense Jacobian and a linear system with it, a derivative one more.

    Raises
    ------
    ConvergenceError
        If there is no root after `max_steps`.
    LinAlgError
        If the Jacobian of a vector is singular on the way. A slope of zero of one number leads away
        from all roots, so that there is none after `max_steps`.
    TraceError
        If `f` branches on `x` or returns another number of equations.

    See Also
    --------
    root : with a line search and sparse Jacobians, for starts far away and large systems.

    References
    ----------
    J. Nocedal and S. J. Wright, "Numerical Optimization", 2nd ed., Springer 2006, algorithm 11.1;
    A. Griewank and A. Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 15.1.

    Examples
    --------
    Kepler's equation, for a thousand orbits at once:

    >>> import numpy as np
    >>> import fdiff
    >>> from fdiff.optimize import newton
    >>> def anomaly(e, m):
    ...     return newton(lambda x: x - e * np.sin(x) - m, m)
    >>> eccentricities = np.linspace(0.1, 0.9, 1000)
    >>> slopes = fdiff.vmap(fdiff.grad(anomaly), in_axes=(0, None))(eccentricities, 1.0)
    >>> slopes[[0, -1]].round(6)
    array([0.929061, 0.761142])
    """
    check_callable(f, "newton")
    return _solved("newton", f, x0, args, tol, max_steps)


@public
def fixed_point(
    f: Callable[..., object], x0: object, *args: object, tol: float = 1e-12, max_steps: int = 1000
) -> Any:
    """Iterate ``x = f(x, *args)`` until it stays, as a loop that a kernel runs.

    Inside of a differentiated function, the iterations are one `while_loop`, as in `newton`. The
    derivatives follow from the implicit function theorem at the point that is returned: they are
    as exact as this point.

    Parameters
    ----------
    f : callable
        Returns the next value of `x`, a number or a vector. It has to be a contraction near the
        fixed point.
    x0 : array_like
        Start, a number or a vector of few entries. It has no derivative.
    *args
        Further arguments of `f`.
    tol : float
        Change of `x` in the last step, relative to ``1 + max(abs(x))``.
    max_steps : int
        Steps at most.

    Returns
    -------
    float or ndarray
        The fixed point. A derivative costs a dense Jacobian of `f` and a linear system with it.

    Raises
    ------
    ConvergenceError
        If `x` changes still after `max_steps`.
    TraceError
        If `f` branches on `x` or returns another number of values.

    References
    ----------
    A. Griewank and A. Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 15.1.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> from fdiff.optimize import fixed_point
    >>> f = lambda p: fixed_point(lambda x: np.cos(p * x), 0.5)
    >>> f(1.0).round(9)
    np.float64(0.739085133)
    >>> fdiff.grad(f)(1.0).round(9)
    np.float64(-0.297474342)
    """
    check_callable(f, "fixed_point")
    return _solved("fixed_point", f, x0, args, tol, max_steps)


def _solved(
    name: str,
    f: Callable[..., object],
    x0: object,
    args: tuple[object, ...],
    tol: float,
    max_steps: int,
) -> object:
    """The result of either loop, in a trace or not."""
    if not is_int(max_steps) or max_steps < 1:
        fact = f"max_steps must be a number of steps, not {shown(max_steps)}."
        raise failure(InputError, called(name, f), fact, "Give an int above 0.")
    if not _is_size(tol):
        fact = f"tol must be a number from 0 on, not {shown(tol)}."
        raise failure(InputError, called(name, f), fact, "Give a float: tol=1e-12.")
    fixed = name == "fixed_point"
    unknowns = imported("fdiff.ops.solvers.loop_unknowns")
    if tracing():
        unknown = unknowns.Unknown(f, x0, args, f"fdiff.optimize.{name}", fixed=fixed)
    else:
        start = np.asarray(x0)
        if start.dtype.kind not in "fiub" or start.ndim > 1 or not start.size:
            fact = f"x0 {unknowns.NO_START.format(start.shape, start.dtype)}"
            raise failure(InputError, called(name, f), fact, unknowns.way_to_start(start.dtype))
        unknown = _Plain(f, start, args, called(name, f), fixed=fixed)
    rounding = tol if fixed else ROUNDING

    def goes_on(state: State) -> object:
        _, size, last = state
        return ~((size <= tol) | ((size >= last) & (size <= rounding)))

    def step(state: State) -> State:
        x, size, _ = state
        new = unknown.next(x)
        with np.errstate(invalid="ignore"):  # where the iterations leave the finite numbers
            return new, np.max(np.abs(new - x)) / (1.0 + np.max(np.abs(x))), size

    far = np.float64(np.inf)
    try:
        end = while_loop(goes_on, step, (unknown.start, far, far), limit=max_steps)
    except ConvergenceError:  # in a trace it comes when the loop is run
        fact = f"there is no solution after max_steps={max_steps} steps."
        way = "Start elsewhere, or give more steps."
        raise failure(ConvergenceError, called(name, f), fact, way) from None
    return unknown.result(end[0])


def _is_size(value: object) -> bool:
    """Whether a value is a number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0.0 <= value < np.inf


class _Plain:
    """The unknown of a loop outside of a trace."""

    def __init__(
        self,
        f: Callable[..., object],
        x0: np.ndarray,
        args: tuple[object, ...],
        call: str,
        *,
        fixed: bool,
    ) -> None:
        self.start = x0.astype(float)[()]
        self.f, self.call, self.fixed = (lambda x: np.array(f(x, *args))), call, fixed
        self.slopes = jacobian(self.f)

    def next(self, x: np.ndarray) -> np.ndarray:
        """The value after one step."""
        value = np.asarray(self.f(x))[()]
        if value.shape != x.shape or value.dtype.kind not in "fiub":
            kind = f"an array of shape {value.shape} and dtype {value.dtype}"
            fact = f"x has shape {x.shape}, and f returned {kind}."
            raise failure(InputError, self.call, fact, "Return as many real numbers as x has.")
        value = value.astype(float)
        if self.fixed:
            return value
        matrix = self.slopes(x)
        if x.ndim:
            return x - np.linalg.solve(matrix, value)
        with np.errstate(divide="ignore", invalid="ignore"):  # no convergence is an error later
            return x - value / matrix

    def result(self, x: object) -> object:
        return x
