"""SciPy's `minimize`, which gets what each of its methods takes."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np
import fdiff.intact_scipy as scipy

from ..errors import InputError, choice, failure, shown
from ..functional.operators.hessians import hessian, hvp
from ..functional.operators.jit_programs import make_tape
from ..named_tuples import NamedTuple
from ..transforms.linearity import Degree, Dependence
from .counted_functions import SolveReport, SparseEvaluation, compile_or_call
from .function_wrappers import weighted_sum
from .solver_progress import iterations_shown

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from .problem_functions import ProblemFunctions

LARGE = 300  # variables from which on dense constraints cost more than sparse ones
TABLE = 1 << 20  # entries of a Jacobian up to which its rows are asked for being linear


class _Takes(NamedTuple):
    """The derivatives that a method takes."""

    gradient: bool = True
    hessian: str = ""  # "sparse", "dense" or "products"
    bounds: bool = False
    constraints: bool = False


METHODS = {
    "nelder-mead": _Takes(gradient=False, bounds=True),
    "powell": _Takes(gradient=False, bounds=True),
    "cg": _Takes(),
    "bfgs": _Takes(),
    "newton-cg": _Takes(hessian="sparse"),
    "l-bfgs-b": _Takes(bounds=True),
    "tnc": _Takes(bounds=True),
    "cobyla": _Takes(gradient=False, bounds=True, constraints=True),
    "cobyqa": _Takes(gradient=False, bounds=True, constraints=True),
    "slsqp": _Takes(bounds=True, constraints=True),
    "trust-constr": _Takes(hessian="sparse", bounds=True, constraints=True),
    "dogleg": _Takes(hessian="dense"),
    "trust-ncg": _Takes(hessian="products"),
    "trust-exact": _Takes(hessian="dense"),
    "trust-krylov": _Takes(hessian="products"),
}


def minimize(
    problem: ProblemFunctions,
    x: np.ndarray,
    method: str | None,
    progress: object,
    **options: object,
) -> OptimizeResult:
    """Minimise a compiled problem with a method of SciPy."""
    call = f"{problem.name}.minimize"
    name, takes = _method(problem, method, call)
    if not isinstance(options.get("options"), Mapping | None):
        fact = f"options must be a dictionary, not {shown(options['options'])}."
        raise failure(InputError, call, fact, "Write options={'maxiter': 100}.")
    keywords = _derivatives(problem, takes, x)
    if takes.bounds and np.isfinite(problem.bounds).any():
        keywords["bounds"] = scipy.optimize.Bounds(*problem.bounds)
    if problem.rows:
        keywords["constraints"] = _constraints(problem, name, x)
    problem.restart()
    value = problem.evaluations["value_and_grad"]
    begin = perf_counter()
    with iterations_shown(progress, call) as show:
        value.shown = lambda count, both: show(count, both[0].item(), problem.infeasibility())
        result = scipy.optimize.minimize(
            lambda x: float(value(x)[0].item()), x, method=name, **keywords, **options
        )
    problem.report = SolveReport(problem.evaluations, perf_counter() - begin)
    if name == "dogleg" and not result.success:
        result.message += " dogleg needs positive definite Hessians; method='trust-exact' does not."
    return result


def _method(problem: ProblemFunctions, method: str | None, call: str) -> tuple[str, _Takes]:
    """The method, which is able to keep to bounds and constraints where there are any."""
    bounded = bool(np.isfinite(problem.bounds).any())
    if method is None:
        large = "trust-constr" if problem.size > LARGE else "slsqp"
        name = large if problem.rows else "l-bfgs-b" if bounded else "bfgs"
        return name, METHODS[name]
    way = "Leave it out for SciPy's choice. For IPOPT, write problem.ipopt(x0)."
    name = choice(str(method).lower(), METHODS, "method", call, way)
    takes = METHODS[name]
    for what, there, able in (
        ("bounds", bounded, takes.bounds),
        ("constraints", problem.rows > 0, takes.constraints),
    ):
        if there and not able:
            fact = f"method {method!r} ignores {what}, and the problem has {what}."
            able_ones = [m for m, t in METHODS.items() if getattr(t, what)]
            raise failure(InputError, call, fact, f"Take one of {', '.join(able_ones)}.")
    return name, takes


def _derivatives(problem: ProblemFunctions, takes: _Takes, x: np.ndarray) -> dict[str, object]:
    """Gradient and Hessian of the objective, in the form that a method takes."""
    keywords: dict[str, object] = {}
    value = problem.evaluations["value_and_grad"]
    if takes.gradient:
        keywords["jac"] = lambda x: value(x)[1].copy()
    if takes.hessian == "products":
        products = keywords["hessp"] = hvp(problem.objective)
        compile_or_call(products, x, np.ones_like(x))
    elif takes.hessian:
        entries = SparseEvaluation(hessian(problem.objective, sparse=True), (x,), problem.name)
        problem.evaluations["objective_hessian"] = entries
        dense = takes.hessian == "dense"
        keywords["hess"] = (lambda x: entries.matrix(x).toarray()) if dense else entries.matrix
    return keywords


def _constraints(problem: ProblemFunctions, name: str, x: np.ndarray) -> list[object]:
    lower, upper = problem.limits
    parts, linear = [np.ones(problem.rows, bool)], np.zeros(problem.rows, bool)
    if name == "slsqp":  # which takes equations apart
        parts = [lower == upper, lower < upper]
    elif name == "trust-constr":
        linear = linear_rows(problem, x)
        parts = [~linear]
    constraints = [_linear(problem, x, linear)] if linear.any() else []
    return constraints + [_nonlinear(problem, x, rows, name) for rows in parts if rows.any()]


def linear_rows(problem: ProblemFunctions, x: np.ndarray) -> np.ndarray:
    """Which constraints are linear in `x`, with constant derivatives and without kinks."""
    assert problem.limited is not None
    if problem.evaluations["jacobian"].branches:
        return np.zeros(problem.rows, bool)
    dependence = Dependence(make_tape(problem.limited, x), (0,))
    if dependence[0, 0] is Degree.LINEAR:
        return np.ones(problem.rows, bool)
    degrees = dependence.entries(0, 0) if problem.rows * x.size <= TABLE else None
    if degrees is None:
        return np.zeros(problem.rows, bool)
    rows = degrees.reshape(problem.rows, x.size)
    return np.all((rows == Degree.NONE) | (rows == Degree.LINEAR), axis=1)


def _linear(problem: ProblemFunctions, x: np.ndarray, rows: np.ndarray) -> object:
    matrix = problem.jacobian(x)[np.flatnonzero(rows)]
    at_zero = problem.constraints(x)[rows] - matrix @ x
    return scipy.optimize.LinearConstraint(matrix, *(problem.limits[:, rows] - at_zero))


def _nonlinear(problem: ProblemFunctions, x: np.ndarray, rows: np.ndarray, name: str) -> object:
    values, slopes = problem.evaluations["constraints"], problem.evaluations["jacobian"]
    of = np.flatnonzero(rows)
    keywords: dict[str, object] = {}
    if name == "slsqp":
        table = np.zeros((problem.rows, problem.size))

        def dense(x: np.ndarray) -> np.ndarray:
            table[slopes.rows, slopes.cols] = slopes(x)
            return table[of]

        keywords = {"jac": dense}
    elif METHODS[name].gradient:
        assert problem.limited is not None
        second = hessian(weighted_sum(problem.limited), sparse=True)
        curvature = SparseEvaluation(second, (x, np.ones(problem.rows)), problem.name)
        problem.evaluations["constraint_hessian"] = curvature

        def weighted(x: np.ndarray, v: np.ndarray) -> object:
            weights = np.zeros(problem.rows)
            weights[of] = v
            return curvature.matrix(x, weights)

        keywords = {"jac": lambda x: slopes.matrix(x)[of], "hess": weighted}
    return scipy.optimize.NonlinearConstraint(
        lambda x: values(x)[of], *problem.limits[:, rows], **keywords
    )
