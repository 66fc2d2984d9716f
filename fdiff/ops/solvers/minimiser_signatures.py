"""The signatures of `scipy.optimize.minimize` and `minimize_scalar`.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np
from fdiff.intact_scipy import optimize as so

from ...arraytype import ArrayType
from ...trace import Array, TracedArray, unsupported
from .minimisation import fields, minimum
from .signatures import Arguments, of, options_of, replaces_solver
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
from .solver_call import SolverCall, record_call
from .solver_results import TracedResult, field, field_text
from .user_functions import UserFunction, UserFunctions

_SLOPES = ("cg", "bfgs", "newton-cg", "l-bfgs-b", "tnc", "slsqp", "dogleg", "trust-ncg", "trust-krylov", "trust-exact")


def _limits(bounds: object, n: int) -> dict[str, Array]:
    """Bounds as two arrays; a bound that is None is infinite."""
    if bounds is None:
        return {}
    if hasattr(bounds, "lb"):
        pair = bounds.lb, bounds.ub
    else:
        rows = list(bounds)
        pair = [[-np.inf if low is None else low for low, _ in rows], [np.inf if high is None else high for _, high in rows]]
    lower, upper = (np.broadcast_to(vector(x), (n,)) for x in pair)
    return {"lower": lower, "upper": upper}


class _MinimisationProblem:
    """A call of a minimiser."""

    def __init__(self, name: str, functions: dict[str, UserFunction], starts: dict[str, TracedArray], unknown: ArrayType) -> None:
        self.name, self.names, self.starts, self.unknown = name, tuple(functions), starts, unknown
        self.functions = UserFunctions(list(functions.values()))

    def moves(self, explicit: Sequence[object]) -> bool:
        return bool(self.functions.extras) or not all_captured(explicit)

    def result(self, options: Arguments, *, slopes: bool) -> TracedResult:
        here, static = site(), concrete_options(options, self.name)
        kept = fields(self.unknown, slopes=slopes)
        starts = list(self.starts.values())
        call, outputs, extras = record_call(
            minimum, self.functions, starts,
            lambda bodies: SolverCall(self.name, tuple(self.starts), self.names, bodies, static, kept, here),
        )  # fmt: skip
        x = outputs["x"] if self.unknown.shape else numpy_scalar(outputs["x"])
        numbers = {k: field(outputs[k], x, k, call) for k in outputs if k != "x"}
        fun = numpy_scalar(call.bodies[0].spliced([x], extras)[0].reshape(()))
        text = field_text(call, [*starts, *extras], "message", [outputs["success"], outputs["status"]])
        return TracedResult(self.name, {"x": x, "fun": fun, **numbers}, {"message": text})


def _minimize(taken: Arguments, plain: Callable[[], object]) -> object:
    name = "scipy.optimize.minimize"
    start = vector(taken["x0"])
    if start.ndim > 1:
        raise unsupported(f"{name} with a start of {start.ndim} axes")
    start, rest = start.reshape((start.size,)), bound(taken["args"])
    point = lambda: [value_of(start)]  # noqa: E731 - a line each
    more = 1 + (taken["jac"] is True)
    functions = {"fun": UserFunction(lambda x: taken["fun"](x, *rest), point, (start.type,), more)}
    functions |= {k: UserFunction(lambda x, k=k: taken[k](x, *rest), point, (start.type,)) for k in ("jac", "hess") if callable(taken[k])}
    if taken["hessp"] is not None:
        both = lambda: [value_of(start), np.ones(start.size)]  # noqa: E731 - a line each
        functions["hessp"] = UserFunction(lambda x, p: taken["hessp"](x, p, *rest), both, (start.type, start.type))
    limits = _limits(taken["bounds"], start.size)
    search = _MinimisationProblem(name, functions, {"x0": start, **limits}, start.type)
    if not search.moves([start, *limits.values()]):
        return plain()
    method = str(taken["method"] or ("L-BFGS-B" if limits else "BFGS"))
    for word in ("constraints", "callback"):
        if taken[word] is not None and taken[word] != ():
            raise unsupported(f"{name} with {word}=")
    if callable(taken["method"]) or method.lower() in ("trust-constr", "cobyla", "cobyqa"):
        raise unsupported(f"{name} with method={method!r}")
    options = of(taken, ("method", "tol", "options")) | ({"jac": True} if taken["jac"] is True else {})
    schemes = {k: taken[k] for k in ("jac", "hess") if isinstance(taken[k], str)}
    for word in [k for k, scheme in schemes.items() if scheme == "cs"]:  # what is traced takes no complex numbers
        raise unsupported(f"{name} with {word}='cs'")
    options |= schemes
    return search.result(options, slopes=method.lower() in _SLOPES)


def _minimize_scalar(taken: Arguments, plain: Callable[[], object]) -> object:
    name = "scipy.optimize.minimize_scalar"
    rest, bounds, bracket = bound(taken["args"]), taken["bounds"], taken["bracket"]
    starts: dict[str, TracedArray] = {}
    if bounds is not None:
        ends = tuple(bounds)
        starts = {"lower": number(ends[0]), "upper": number(ends[1])}
    elif bracket is not None:
        starts = {"bracket": vector(bracket)}
    middle = lambda: [np.mean([np.mean(value_of(x)) for x in starts.values()]) if starts else 0.5]  # noqa: E731 - a line each
    functions = {"fun": UserFunction(lambda x: taken["fun"](x, *rest), middle, number_types(1))}
    search = _MinimisationProblem(name, functions, starts, number_types(1)[0])
    if not search.moves(list(starts.values())):
        return plain()
    options = of(taken, ("method", "tol", "options"))
    width = options_of(taken["options"])
    if bounds is not None:
        near = width.get("xatol", taken["tol"] if taken["tol"] is not None else 1e-5)
        options["near"] = 3.0 * float(near)
    return search.result(options, slopes=False)


replaces_solver(so.minimize, _minimize)
replaces_solver(so.minimize_scalar, _minimize_scalar)
