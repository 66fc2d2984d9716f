"""Optimisation problems, minimised by SciPy or by IPOPT."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import InputError, failure
from ..tracebacks import public
from .bounds_checks import vector
from .ipopt import IpoptCallbacks, solve
from .problem_functions import ProblemFunctions
from .scipy_methods import minimize

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


class Problem(ProblemFunctions):
    """Minimise a function within bounds and constraints.

    fdiff makes all derivatives that a solver takes, sparse ones included, and compiles them before
    the first iteration. Each function is evaluated once at each point, in whatever order the solver
    asks.

    Parameters
    ----------
    objective : callable
        ``objective(x, *args)`` returns one number for a vector `x`.
    constraints : callable, optional
        ``constraints(x, *args)`` returns one array, whose entries are to lie between `lower` and
        `upper`.
    bounds : scipy.optimize.Bounds or sequence of pairs, optional
        Bounds of the variables. None in a pair means no bound.
    lower, upper : float or array_like, optional
        Limits of the constraints. Equal limits make an equation.
    args : tuple
        Further arguments of both functions. They are constant.

    Raises
    ------
    InputError
        If limits have the wrong size, are missing or in the wrong order.
    StructureError
        If the sparse derivatives have too many entries, or change with `x`.

    Notes
    -----
    Integer vectors are converted to float64. One kernel computes value and gradient; constraints
    have a kernel, and their Jacobian has another. The functions are compiled for the size of the
    first `x`: NumPy code with Python branches on values has other entries in each branch, so write
    `numpy.where`.

    References
    ----------
    A. Wächter and L. T. Biegler, "On the implementation of an interior-point filter line-search
    algorithm for large-scale nonlinear programming", Math. Program. 106, 2006, algorithm A.

    Examples
    --------
    >>> import numpy as np
    >>> from fdiff.optimize import Problem
    >>> def cost(x):
    ...     return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]
    >>> def limited(x):
    ...     return np.array([np.prod(x), np.sum(x * x)])
    >>> problem = Problem(
    ...     cost, limited, bounds=[(1, 5)] * 4, lower=[25, 40], upper=[np.inf, 40]
    ... )
    >>> result = problem.minimize([1, 5, 5, 1])
    >>> result.success, np.round(result.x, 3)
    (True, array([1.   , 4.743, 3.821, 1.379]))
    >>> problem.jacobian(result.x).shape
    (2, 4)
    """

    @public
    def minimize(
        self,
        x0: object,
        method: str | None = None,
        *,
        tol: float | None = None,
        options: dict[str, object] | None = None,
        callback: Callable[..., object] | None = None,
        progress: object = None,
    ) -> OptimizeResult:
        """Minimise with `scipy.optimize.minimize`, which gets what `method` takes.

        These are the gradient, a sparse Hessian for ``trust-constr`` and ``Newton-CG``, a dense
        one for ``dogleg`` and ``trust-exact``, products for ``trust-ncg`` and ``trust-krylov``.
        Linear constraints are passed to ``trust-constr`` as such. Without a method, SciPy's own
        choice holds; above 300 variables with constraints it is ``trust-constr``. `tol`, `options`
        and `callback` are SciPy's. `progress` is None, False or ``"tqdm"``.

        Returns
        -------
        scipy.optimize.OptimizeResult
            SciPy's result; `x` has the size of `x0`.

        Raises
        ------
        InputError
            If `x0` is no vector of real numbers, or limits do not fit.

        Examples
        --------
        >>> import numpy as np
        >>> from fdiff.optimize import Problem
        >>> problem = Problem(lambda x: np.sum((x - 1.0) ** 2), bounds=[(2.0, None)])
        >>> problem.minimize([3.0]).x
        array([2.])
        """
        call = f"{self.name}.minimize"
        x = vector(x0, "x0", call)
        with self.lock:
            self.compile(x)
            return minimize(self, x, method, progress, tol=tol, options=options, callback=callback)

    @public
    def ipopt(
        self,
        x0: object,
        *,
        options: dict[str, object] | None = None,
        warm_start: OptimizeResult | None = None,
        callback: Callable[[OptimizeResult], object] | None = None,
        progress: object = None,
    ) -> OptimizeResult:
        """Minimise with IPOPT, through cyipopt if it is installed, else through ipyopt.

        `options` are IPOPT's. `warm_start` is an earlier result, whose multipliers are taken over.
        `callback` gets `x`, ``fun``, ``nit`` and ``infeasibility`` of each iteration, and may raise
        StopIteration. `progress` is None, False or ``"tqdm"``. The result has IPOPT's
        `status`, its ``message``, and multipliers ``mult_g``, ``mult_x_L``, ``mult_x_U``. Ctrl-C
        ends the solve, and the result has the last `x`. An exception of a function ends the solve
        and is raised. A NaN is an evaluation error, after which IPOPT takes a shorter step.

        Returns
        -------
        scipy.optimize.OptimizeResult
            As of `minimize`.

        Raises
        ------
        ImportError
            If neither cyipopt nor ipyopt is installed.
        InputError
            If `x0` is no vector of real numbers, or IPOPT has no option of a name.
        """
        call = f"{self.name}.ipopt"
        x = vector(x0, "x0", call)
        with self.lock:
            self.compile(x)
            return solve(self, x, options or {}, warm_start, callback, progress)

    @public
    def callbacks(self) -> IpoptCallbacks:
        """The object that ``cyipopt.Problem`` takes as ``problem_obj``.

        Returns
        -------
        IpoptCallbacks
            Methods ``objective``, ``gradient``, ``constraints``, ``jacobian``, ``hessian``.

        Raises
        ------
        InputError
            If the problem has no size yet.

        Examples
        --------
        >>> import numpy as np
        >>> from fdiff.optimize import Problem
        >>> problem = Problem(lambda x: np.sum(x**2)).compile([1.0, 2.0])
        >>> problem.callbacks().gradient(np.array([1.0, 2.0]))
        array([2., 4.])
        """
        if not self.size:
            fact = "the problem has no size yet."
            raise failure(InputError, f"{self.name}.callbacks", fact, "Call compile(x0) first.")
        self.restart()
        return IpoptCallbacks(self)
