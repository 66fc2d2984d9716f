"""Newton's method with a line search, as a solver inside of differentiated functions: `fdiff.optimize.root`.

J. Nocedal and S. J. Wright, "Numerical Optimization", 2nd ed., Springer 2006, section 11.2.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...errors import ConvergenceError, failure
from ...trace import TracedArray
from .implicit_systems import NewtonSteps
from .root_finder_signatures import RootProblem, checked_square, start_of
from .root_finding import vector_fields
from .solver_arguments import value_of
from .solver_call import SOLVERS
from .traced_function import TracedFunction

NAME = "fdiff.optimize.root"
SHORTEST = 1e-8  # part of a step below which the line search gives up
ROUNDING = 1e-8  # relative size of a step below which a residual that does not decrease is rounding
Vector = np.ndarray


def newton(
    residual: Callable[[Vector], Vector], step_at: Callable[[Vector, Vector], Vector], start: Vector, tol: float, max_steps: int
) -> tuple[Vector, Vector, int]:
    """The root, the residual there, and the number of steps. Raises `ConvergenceError` if there is none."""
    x, rest = start, residual(start)
    for count in range(max_steps):
        length = float(np.linalg.norm(rest))
        if length == 0.0:
            return x, rest, count
        if not np.isfinite(length):
            raise _failure("the residual is not finite at the start.", "Start within the domain.")
        try:
            step = step_at(x, rest)
        except np.linalg.LinAlgError:
            raise _failure(f"the Jacobian is singular after {count} steps.", "Start elsewhere.") from None
        size = float(np.max(np.abs(step), initial=0.0)) / (1.0 + float(np.max(np.abs(x), initial=0.0)))
        part, new = 1.0, x - step
        at = residual(new)
        while not np.linalg.norm(at) <= (1.0 - 1e-4 * part) * length:
            if size <= max(tol, ROUNDING):
                return x, rest, count
            part *= 0.5
            if part < SHORTEST:
                fact = f"no step decreases the residual of norm {length:.2e} after {count} steps."
                raise _failure(fact, "Start elsewhere: there may be no root near by.")
            new = x - part * step
            at = residual(new)
        x, rest = new, at
        if part == 1.0 and size <= tol:
            return x, rest, count + 1
    raise _failure(f"the residual has norm {float(np.linalg.norm(rest)):.2e} after {max_steps} steps.", "Give more: max_steps=200.")


def _failure(fact: str, way: str) -> ConvergenceError:
    return failure(ConvergenceError, NAME, fact, way)


def _run(fun: TracedFunction, x0: np.ndarray, *, tol: float, max_steps: int) -> dict[str, object]:
    steps = NewtonSteps(fun.body, fun.extras)
    x, rest, count = newton(steps.residual, steps.solve, np.asarray(x0, float), tol, max_steps)
    return {"x": x, "converged": True, "nfev": count, "fun": rest, "status": 1}


SOLVERS[NAME] = _run


def traced_root(residual: Callable[..., object], x0: object, args: tuple[object, ...], tol: float, max_steps: int) -> TracedArray:
    """The root as a value of the current trace."""
    start = start_of(x0, NAME)
    problem = RootProblem(NAME, {"fun": (residual, 1)}, {"x0": start}, start.type, args, lambda: value_of(start))
    checked_square(problem, start.size)
    _, outputs, _ = problem.enter({"tol": tol, "max_steps": max_steps}, vector_fields(start.size))
    return outputs["x"]
