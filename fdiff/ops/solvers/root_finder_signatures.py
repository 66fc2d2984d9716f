"""The signatures of SciPy's root finders: `brentq`, `newton`, `root_scalar`, `fsolve`, `root`, ...

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import fdiff.intact_numpy as np
from fdiff.intact_scipy import optimize as so

from ...arraytype import ArrayType
from ...trace import TracedArray, current, unsupported
from .root_finding import root as primitive
from .root_finding import scalar_fields, vector_fields
from .signatures import Arguments, of, replaces_solver
from .solver_arguments import (
    all_captured,
    bound,
    concrete_options,
    number,
    number_types,
    numpy_scalar,
    site,
    value_of,
    vector,
)
from .solver_call import ResultField, SolverCall, record_call
from .solver_results import TracedResult, field, field_text
from .traced_function import TracedFunction
from .user_functions import UserFunction, UserFunctions


class RootProblem:
    """A call of a root finder: functions of the unknown, starts, options."""

    def __init__(
        self, name: str, functions: Mapping[str, tuple[Callable[..., object], int]], starts: Mapping[str, TracedArray], unknown: ArrayType,
        args: tuple[object, ...], at: Callable[[], object],
    ) -> None:
        self.name, self.starts, self.unknown = name, starts, unknown
        self.names = tuple(functions)

        def closed(f: Callable[..., object]) -> Callable[..., object]:
            return lambda x: f(x, *args)

        self.functions = UserFunctions([UserFunction(closed(f), lambda: [at()], (unknown,), results) for f, results in functions.values()])

    def moves(self, explicit: Sequence[object]) -> bool:
        """Whether the result depends on an argument of the differentiated function."""
        return bool(self.functions.extras) or not all_captured(explicit)

    def enter(self, options: Arguments, fields: tuple[ResultField, ...]) -> tuple[SolverCall, dict[str, TracedArray], list[TracedArray]]:
        here, static = site(), concrete_options(options, self.name)
        starts = list(self.starts.values())

        def make(bodies: tuple[TracedFunction, ...]) -> SolverCall:
            return SolverCall(self.name, tuple(self.starts), self.names, bodies, static, fields, here)

        call, outputs, extras = record_call(primitive, self.functions, starts, make)
        return call, outputs, [*starts, *extras]


def _with_slopes(taken: Mapping[str, object], main: str, others: Sequence[str]) -> dict[str, tuple[object, int]]:
    """The function with the number of values it returns, and its derivatives if they are functions; True means that it returns them too."""
    returned = 1 + sum(taken.get(k) is True for k in others)
    functions: dict[str, tuple[object, int]] = {main: (taken[main], returned)}
    functions |= {k: (taken[k], 1) for k in others if callable(taken.get(k))}
    return functions


def _number_result(name: str, method: object, problem: RootProblem, options: Arguments) -> tuple[TracedArray, TracedResult]:
    call, values, args = problem.enter(options, scalar_fields(problem.unknown.shape))
    root = values["root"].as_python_float()
    fields = {"root": root, **{k: field(values[k], root, k, call) for k in ("converged", "iterations", "function_calls")}, "method": method}
    return root, TracedResult(name, fields, {"flag": field_text(call, args, "flag", [values["converged"]])})


# --- one unknown --------------------------------------------------------------------------------


def _bracketed(function: Callable[..., object]) -> None:
    name = f"scipy.optimize.{function.__name__}"

    def handler(taken: Arguments, plain: Callable[[], object]) -> object:
        a, b = taken["a"], taken["b"]
        rest = bound(taken["args"])
        at = lambda: 0.5 * (float(value_of(a)) + float(value_of(b)))  # noqa: E731 - a line each
        problem = RootProblem(name, {"f": (taken["f"], 1)}, {"a": number(a), "b": number(b)}, number_types(1)[0], rest, at)
        if not problem.moves([a, b]):
            return plain()
        options = of(taken, ("xtol", "rtol", "maxiter", "disp", "k"))
        root, result = _number_result(name, function.__name__, problem, options)
        return (root, result) if taken["full_output"] else root

    replaces_solver(function, handler)


for _function in (so.brentq, so.brenth, so.bisect, so.ridder, so.toms748):
    _bracketed(_function)


def _newton(taken: Arguments, plain: Callable[[], object]) -> object:
    name = "scipy.optimize.newton"
    start = vector(taken["x0"])
    functions = _with_slopes(taken, "func", ("fprime", "fprime2"))
    starts = {"x0": start} | ({"x1": number(taken["x1"])} if taken["x1"] is not None else {})
    problem = RootProblem(name, functions, starts, start.type, bound(taken["args"]), lambda: value_of(start))
    if not problem.moves([taken["x0"], taken["x1"]]):
        return plain()
    options = of(taken, ("tol", "maxiter", "rtol", "disp"))
    if not start.shape:
        root, result = _number_result(name, "newton", problem, options)
        return (root, result) if taken["full_output"] else numpy_scalar(root)
    if taken["full_output"]:
        raise unsupported(f"{name} of an array with full_output=True")
    return problem.enter(options, scalar_fields(start.shape))[1]["root"]


def _root_scalar(taken: Arguments, plain: Callable[[], object]) -> object:
    name = "scipy.optimize.root_scalar"
    explicit = [taken[k] for k in ("bracket", "x0", "x1") if taken[k] is not None]
    starts = {k: vector(taken[k]) if k == "bracket" else number(taken[k]) for k in ("bracket", "x0", "x1") if taken[k] is not None}
    functions = _with_slopes(taken, "f", ("fprime", "fprime2"))
    slopes = {k: True for k in ("fprime", "fprime2") if taken[k] is True}
    at = lambda: np.mean([np.mean(value_of(x)) for x in starts.values()]) if starts else 0.0  # noqa: E731 - a line each
    problem = RootProblem(name, functions, starts, number_types(1)[0], bound(taken["args"]), at)
    if not problem.moves(explicit):
        return plain()
    options = of(taken, ("method", "xtol", "rtol", "maxiter", "options")) | slopes
    method = taken["method"] or (
        "brentq" if "bracket" in starts else "newton" if "fprime" in options or "fprime" in functions else "secant"
    )
    return _number_result(name, method, problem, options)[1]


replaces_solver(so.newton, _newton)
replaces_solver(so.root_scalar, _root_scalar)

# --- several unknowns ---------------------------------------------------------------------------


def start_of(x0: object, name: str) -> TracedArray:
    start = vector(x0)
    if start.ndim > 1:
        raise unsupported(f"{name} with a start of {start.ndim} axes")
    return start.reshape((start.size,))


def checked_square(problem: RootProblem, n: int) -> None:
    shape = problem.functions.bodies()[0].types[0].shape
    if shape != (n,) and not (n == 1 and shape == ()):
        raise current().fail(
            f"{problem.name} was given {n} unknowns and a function that returns an array of shape {shape}.",
            "Give as many equations as unknowns, as a vector.",
        )


def _fsolve(taken: Arguments, plain: Callable[[], object]) -> object:
    name = "scipy.optimize.fsolve"
    start = start_of(taken["x0"], name)
    problem = RootProblem(
        name, _with_slopes(taken, "func", ("fprime",)), {"x0": start}, start.type, bound(taken["args"]), lambda: value_of(start)
    )
    if not problem.moves([taken["x0"]]):
        return plain()
    checked_square(problem, start.size)
    options = of(taken, ("col_deriv", "xtol", "maxfev", "band", "epsfcn", "factor", "diag"))
    call, result, args = problem.enter({**options, "quiet": bool(taken["full_output"])}, vector_fields(start.size))
    if not taken["full_output"]:
        return result["x"]
    about = {"nfev": field(result["nfev"], result["x"], "nfev", call), "fvec": field(result["fun"], result["x"], "fvec", call)}
    message = field_text(call, args, "message", [result["status"]])()
    return result["x"], about, numpy_scalar(result["status"]), message


def _root(taken: Arguments, plain: Callable[[], object]) -> object:
    name = "scipy.optimize.root"
    if taken["callback"] is not None:
        raise unsupported(f"{name} with callback=")
    start = start_of(taken["x0"], name)
    problem = RootProblem(
        name, _with_slopes(taken, "fun", ("jac",)), {"x0": start}, start.type, bound(taken["args"]), lambda: value_of(start)
    )
    if not problem.moves([taken["x0"]]):
        return plain()
    checked_square(problem, start.size)
    options = of(taken, ("method", "tol", "options")) | ({"jac": True} if taken["jac"] is True else {})
    call, result, args = problem.enter(options, vector_fields(start.size))
    x = result["x"]
    extras = args[1:]
    fields = {k: field(result[k], x, k, call) for k in ("status", "nfev")}
    fun = call.bodies[0].spliced([x], extras)[0]
    whole = {"x": x, "success": numpy_scalar(result["converged"]), "fun": fun, "method": taken["method"], **fields}
    return TracedResult(name, whole, {"message": field_text(call, args, "message", [result["converged"], result["status"]])})


replaces_solver(so.fsolve, _fsolve)
replaces_solver(so.root, _root)
