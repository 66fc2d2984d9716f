"""Roots of systems of equations by Newton's method with sparse Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fdiff.intact_numpy as np
import fdiff.intact_scipy as scipy

from ..errors import InputError, called, failure
from ..foreign_errors import not_foreign
from ..functional.operators.jacobians import jacobian
from ..functional.operators.jit_programs import jit
from ..functional.options import check_callable
from ..hooks import Function
from ..process.forking import imported
from ..process.progress import Stage
from ..trace import tracing
from ..tracebacks import public
from .bounds_checks import vector
from .counted_functions import compile_or_call, sparse_jacobian

LARGE = 200  # unknowns from which on the Jacobian is asked for as sparse


@public
def root(
    residual: Callable[..., object],
    x0: object,
    *args: object,
    tol: float = 1e-12,
    max_steps: int = 50,
) -> Any:
    """Solve ``residual(x, *args) = 0`` by Newton's method with a line search.

    Inside of a differentiated function, the root is differentiable in `args` and in what `residual`
    reads, in both modes and at every order, by the implicit function theorem: the iterations are
    not differentiated. From 200 unknowns on a Jacobian with few entries is factorised as a sparse
    matrix, once for value and derivatives.

    Parameters
    ----------
    residual : callable
        Returns as many equations as there are unknowns, a vector.
    x0 : array_like
        Start, a vector. It has no derivative.
    *args
        Further arguments of `residual`.
    tol : float
        Size of the last step, relative to ``1 + max(abs(x))``. A root that rounding keeps from it
        counts, too.
    max_steps : int
        Steps at most.

    Returns
    -------
    ndarray
        The root.

    Raises
    ------
    ConvergenceError
        If there is no root after `max_steps`, the Jacobian is singular, or no step along Newton's
        direction decreases the residual.
    InputError
        If there are not as many equations as unknowns.

    References
    ----------
    J. Nocedal and S. J. Wright, "Numerical Optimization", 2nd ed., Springer 2006, section 11.2;
    A. Griewank and A. Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 15.1.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> from fdiff.optimize import root
    >>> def equations(x, p):
    ...     return np.array([x[0] + x[1] ** 2 - p, x[0] * x[1] - 1.0])
    >>> x = root(equations, [1, 1], 2.0)
    >>> x
    array([1., 1.])
    >>> fdiff.jacobian(lambda p: root(equations, [1.5, 0.5], p))(3.0)
    array([ 1.091..., -0.131...])
    """
    newton = imported("fdiff.ops.solvers.newton")
    if tracing():
        return newton.traced_root(residual, x0, args, tol, max_steps)
    check_callable(residual, "root")
    call = called("root", residual)
    x = vector(x0, "x0", call)
    with Stage("preparing", call):
        values, step = _compiled(residual, x, args, call)
    return newton.newton(values, step, x, tol, max_steps)[0]


def _compiled(
    residual: Function, x: np.ndarray, args: tuple[object, ...], call: str
) -> tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]:
    """The residual, and the steps with its Jacobian."""
    value = jit(residual)
    compile_or_call(value, x, *args)
    shape = np.shape(value(x, *args))
    if shape != x.shape:
        fact = f"there are {x.size} unknowns, and the equations have shape {shape}."
        raise failure(InputError, call, fact, "Give as many equations as unknowns, as a vector.")
    sparse = None
    if x.size >= LARGE:
        sparse = sparse_jacobian(residual, x.size**2, x, *args, format="csc")
    slopes = sparse or jacobian(residual)
    compile_or_call(slopes, x, *args)

    def step(x: np.ndarray, rest: np.ndarray) -> np.ndarray:
        matrix = slopes(x, *args)
        if sparse is None:
            return np.linalg.solve(matrix, rest)
        try:
            return scipy.sparse_linalg.splu(matrix).solve(rest)
        except not_foreign(RuntimeError) as error:
            raise np.linalg.LinAlgError(str(error)) from None

    return lambda x: np.array(value(x, *args)), step
