"""The functions of an optimisation problem and their derivatives, compiled for one size.

The Lagrangian: J. Nocedal and S. J. Wright, "Numerical Optimization", 2nd ed., Springer 2006,
chapter 12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import fdiff.intact_numpy as np
import fdiff.intact_scipy as scipy

from ..errors import InputError, called, failure
from ..functional.operators.gradients import value_and_grad
from ..functional.operators.hessians import hessian
from ..functional.operators.jacobians import jacobian
from ..functional.operators.jit_programs import jit
from ..functional.options import check_callable
from ..generated_text import Namespace
from ..hooks import Function
from ..process.interrupt_safe_locks import TurnLock
from ..process.progress import Stage
from ..tracebacks import public
from .bounds_checks import bounds_of, limits, vector
from .counted_functions import Evaluation, SolveReport, SparseEvaluation, compile_or_call
from .function_wrappers import lagrangian_of, with_arguments

JOINED = (
    "Join several: lambda x: np.concatenate([a(x), b(x)]), with lower and upper for all of their"
    " rows."
)
EQUATIONS = "Write lower=0.0, upper=0.0 for equations, upper=1.0 for values up to 1."


class ProblemFunctions:
    """Objective and constraints with their derivatives."""

    def __init__(
        self,
        objective: Callable[..., object],
        constraints: Callable[..., object] | None = None,
        *,
        bounds: object = None,
        lower: object = None,
        upper: object = None,
        args: tuple[object, ...] = (),
    ) -> None:
        check_callable(objective, "Problem")
        self.name = called("Problem", objective)
        if constraints is not None and not callable(constraints):
            fact = f"constraints must be one function, not {type(constraints).__name__}."
            raise failure(InputError, self.name, fact, JOINED)
        if (constraints is None) != (lower is None and upper is None):
            have = "lower and upper" if constraints is None else "constraints"
            lack = "constraints" if constraints is None else "lower and upper"
            fact = f"{have} are there, and {lack} are missing."
            raise failure(InputError, self.name, fact, EQUATIONS)
        self.objective = with_arguments(objective, args)
        self.limited = None if constraints is None else with_arguments(constraints, args)
        self._bounds, self._lower, self._upper = bounds, lower, upper
        self.size = 0
        self.report: SolveReport | None = None
        self.evaluations: Namespace = {}  # `Evaluation`, by the name of the function
        self.lock = TurnLock()  # evaluations keep a point and its value: threads take turns

    def __repr__(self) -> str:
        state = f"{self.size} variables, {self.rows} constraints" if self.size else "not compiled"
        return f"<fdiff.optimize.{self.name}: {state}>"

    @public
    def compile(self, x0: object) -> Self:
        """Trace and compile all functions for vectors of the size of `x0`.

        Returns
        -------
        Problem
            The problem itself.

        Raises
        ------
        InputError
            If `x0` is no vector of real numbers, or limits do not fit.

        Examples
        --------
        >>> import numpy as np
        >>> from fdiff.optimize import Problem
        >>> problem = Problem(lambda x: x[0] * x[1], lambda x: x**2, lower=0.0)
        >>> problem.compile([2.0, 3.0])
        <fdiff.optimize.Problem(<lambda>): 2 variables, 2 constraints>
        """
        x = vector(x0, "x0", f"{self.name}.compile")
        if x.size == self.size:
            return self
        with self.lock, Stage("preparing", self.name):
            self._prepare(x)
        return self

    def _prepare(self, x: np.ndarray) -> None:
        self.bounds = bounds_of(self._bounds, x.size, self.name)
        value = value_and_grad(self.objective)
        compile_or_call(value, x)
        evaluations: dict[str, Evaluation] = {"value_and_grad": Evaluation(value)}
        rows = 0
        if self.limited is not None:
            rows, evaluations["constraints"] = self._constraints(self.limited, x)
            derivative = jacobian(self.limited, sparse=True)
            evaluations["jacobian"] = SparseEvaluation(derivative, (x,), self.name)
        names = ("lower", "upper")
        self.limits = limits(self._lower, self._upper, rows, names, self.name)
        lagrangian = lagrangian_of(self.objective, self.limited)
        second = hessian(lagrangian, sparse=True, lower=True)
        example = (x, np.ones(rows), np.asarray(1.0))
        evaluations["hessian"] = SparseEvaluation(second, example, self.name)
        self.rows, self.evaluations, self.size = rows, evaluations, x.size

    def _constraints(self, f: Function, x: np.ndarray) -> tuple[int, Evaluation]:
        """The number of constraints, and their evaluation."""
        prepared = jit(f)
        compile_or_call(prepared, x)
        value: object = prepared(x)
        if not isinstance(value, (np.ndarray, np.number)):
            fact = f"constraints must return one array, not {type(value).__name__}."
            way = "Return np.array([...]) of numbers, or np.concatenate([...]) of arrays."
            raise failure(InputError, self.name, fact, way)
        return np.size(value), Evaluation(lambda x: np.ravel(prepared(x)))

    def _at(self, x: object, call: str) -> np.ndarray:
        """The point of a call, for which all is compiled."""
        if not self.size:
            self.compile(x)
        return vector(x, "x", f"{self.name}.{call}", self.size)

    @public
    def value_and_grad(self, x: object) -> tuple[float, np.ndarray]:
        """The objective and its gradient, an array like `x`.

        Returns
        -------
        float, ndarray
            The gradient is in units of the objective per unit of `x`.

        Raises
        ------
        InputError
            If `x` is no vector of real numbers, or has another size.

        Examples
        --------
        >>> import numpy as np
        >>> from fdiff.optimize import Problem
        >>> problem = Problem(lambda x: x[0] * x[1], lambda x: x**2, lower=0.0)
        >>> problem.value_and_grad([2.0, 3.0])
        (6.0, array([3., 2.]))
        """
        with self.lock:
            point = self._at(x, "value_and_grad")
            value, gradient = self.evaluations["value_and_grad"].fresh(point)
            return float(value.item()), gradient.copy()

    @public
    def constraints(self, x: object) -> np.ndarray:
        """The constraints as a vector.

        Returns
        -------
        ndarray
            Empty if there are none.

        Raises
        ------
        InputError
            If `x` is no vector of real numbers, or has another size.

        Examples
        --------
        >>> import numpy as np
        >>> from fdiff.optimize import Problem
        >>> problem = Problem(lambda x: x[0] * x[1], lambda x: x**2, lower=0.0)
        >>> problem.constraints([2.0, 3.0])
        array([4., 9.])
        """
        with self.lock:
            point = self._at(x, "constraints")
            return self.evaluations["constraints"].fresh(point).copy() if self.rows else np.zeros(0)

    @public
    def jacobian(self, x: object) -> scipy.sparse.csr_array:
        """The Jacobian of the constraints, a ``csr_array`` of shape (constraints, variables).

        Returns
        -------
        scipy.sparse.csr_array
            In units of the constraints per unit of `x`.

        Raises
        ------
        InputError
            If `x` is no vector of real numbers, or has another size.

        Examples
        --------
        >>> import numpy as np
        >>> from fdiff.optimize import Problem
        >>> problem = Problem(lambda x: x[0] * x[1], lambda x: x**2, lower=0.0)
        >>> problem.jacobian([2.0, 3.0]).toarray()
        array([[4., 0.],
               [0., 6.]])
        """
        with self.lock:
            point = self._at(x, "jacobian")
            if not self.rows:
                return scipy.sparse.csr_array((0, self.size))
            entries = self.evaluations["jacobian"]
            entries.restart()
            return entries.matrix(point)

    @public
    def hessian(
        self, x: object, multipliers: object = None, objective_factor: float = 1.0
    ) -> scipy.sparse.csr_array:
        """The lower triangle of the Hessian of the Lagrangian, a ``csr_array``.

        The Lagrangian is ``objective_factor * objective(x) + multipliers @ constraints(x)``.

        Returns
        -------
        scipy.sparse.csr_array
            In units of the Lagrangian per squared unit of `x`.

        Raises
        ------
        InputError
            If `x` or `multipliers` is no vector of real numbers, or has another size.

        Examples
        --------
        >>> import numpy as np
        >>> from fdiff.optimize import Problem
        >>> problem = Problem(lambda x: x[0] * x[1], lambda x: x**2, lower=0.0)
        >>> problem.hessian([2.0, 3.0], [1.0, 1.0]).toarray()
        array([[2., 0.],
               [1., 2.]])
        """
        with self.lock:
            point = self._at(x, "hessian")
            weights = np.zeros(self.rows)
            if multipliers is not None and self.rows:
                weights = vector(multipliers, "multipliers", f"{self.name}.hessian", self.rows)
            entries = self.evaluations["hessian"]
            entries.restart()
            return entries.matrix(point, weights, np.asarray(float(objective_factor)))

    def infeasibility(self) -> float | None:
        """How far the constraints at their last point are beyond their limits."""
        values = self.evaluations["constraints"].latest if self.rows else None
        if values is None:
            return None
        return float(np.max([self.limits[0] - values, values - self.limits[1]]).clip(0.0))

    def restart(self) -> None:
        """Forget points and counts of all functions, at the begin of a solve."""
        for evaluation in self.evaluations.values():
            evaluation.restart()
