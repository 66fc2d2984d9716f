"""Root finders of `scipy.optimize` as ops: derivatives by the implicit function theorem.

Starts and brackets have no derivative: the root does not depend on them. A. Griewank and A. Walther, "Evaluating
Derivatives", 2nd ed., SIAM 2008, chapter 15.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np
from fdiff.intact_scipy import optimize as so

from ...arraytype import BOOL, F8, INT, ArrayType
from ...primitive import ZERO, LateParams, Primitive, Sample
from ...trace import Array, TracedArray, apply
from .exit_status import solver_op
from .implicit_function_theorem import PAIR, cotangents, exact, monotone, near_solution, tangent
from .solver_arguments import CallSite
from .solver_call import SOLVERS, ResultField, SolverCall, evaluate, infer
from .traced_function import constant_body

COUNT, TRUTH = ArrayType((), INT), ArrayType((), BOOL)


def _jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, call: SolverCall, mode: str) -> list[object]:
    _, extras = call.split(args)
    none: list[object] = [ZERO] * (len(outs) - 1)
    if all(dot is ZERO for dot in dots[len(call.starts) :]):
        return [ZERO, *none]
    return [tangent(call.bodies[0], _exact(call, outs, extras), extras, dots[len(call.starts) :]), *none]


def _vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, call: SolverCall, mode: str) -> list[object]:
    if bars[0] is ZERO:
        return [ZERO] * len(args)
    _, extras = call.split(args)
    return [*[ZERO] * len(call.starts), *cotangents(call.bodies[0], _exact(call, outs, extras), extras, bars[0])]


def _exact(call: SolverCall, outs: Sequence[TracedArray], extras: Sequence[TracedArray]) -> TracedArray:
    """The exact root."""
    sure = np.all(outs[call.place("converged")])
    return apply(exact, outs[0], sure, *extras, body=call.bodies[0], name=call.name, site=call.site)


def scalar_fields(shape: tuple[int, ...]) -> tuple[ResultField, ...]:
    kind = ArrayType(shape, BOOL)
    return ("root", ArrayType(shape, F8)), ("converged", kind), ("iterations", COUNT), ("function_calls", COUNT)


def vector_fields(n: int) -> tuple[ResultField, ...]:
    return ("x", ArrayType((n,), F8)), ("converged", TRUTH), ("nfev", COUNT), ("fun", ArrayType((n,), F8)), ("status", COUNT)


# --- SciPy's functions, with results as mappings ------------------------------------------------


def _bracketing(function: Callable[..., tuple[float, object]]) -> Callable[..., dict[str, object]]:
    def run(f: object, a: float, b: float, **options: object) -> dict[str, object]:
        return _of_number(function(f, a, b, full_output=True, **options))

    return run


def _of_number(answer: tuple[object, object]) -> dict[str, object]:
    root, about = answer
    return {
        "root": root, "converged": about.converged, "iterations": about.iterations, "function_calls": about.function_calls,
        "flag": about.flag,
    }


def _newton(func: object, x0: Array, **options: object) -> dict[str, object]:
    if np.ndim(x0) == 0:
        return _of_number(so.newton(func, x0, full_output=True, **options))
    result = so.newton(func, x0, full_output=True, **options)
    return {"root": result.root, "converged": result.converged, "iterations": 0, "function_calls": 0}


def _root_scalar(f: object, **options: object) -> dict[str, object]:
    about = so.root_scalar(f, **options)
    return _of_number((about.root, about))


def _fsolve(func: object, x0: np.ndarray, *, quiet: bool, **options: object) -> dict[str, object]:
    x, about, code, words = so.fsolve(func, x0, full_output=True, **options)
    if code != 1 and not quiet:
        warnings.warn(words, RuntimeWarning, stacklevel=2)  # as SciPy does where nobody asks for all
    return {"x": x, "converged": code == 1, "status": code, "message": words, "fun": about["fvec"], **about}


def _root(fun: object, x0: np.ndarray, **options: object) -> dict[str, object]:
    about = so.root(fun, x0, **options)
    return {"status": 0, "nfev": 0, **about, "converged": about.success}


SOLVERS.update({f"scipy.optimize.{name}": _bracketing(getattr(so, name)) for name in ("brentq", "brenth", "bisect", "ridder", "toms748")})
SOLVERS.update(
    {
        "scipy.optimize.newton": _newton, "scipy.optimize.root_scalar": _root_scalar, "scipy.optimize.fsolve": _fsolve,
        "scipy.optimize.root": _root,
    }
)

def _sample_call() -> dict[str, object]:
    options, name = (("quiet", True), ("xtol", 1e-14)), "scipy.optimize.fsolve"
    bodies = (constant_body(monotone, [PAIR], [PAIR]),)
    return {"call": SolverCall(name, ("x0",), ("func",), bodies, options, vector_fields(2), CallSite("sample", "")), "mode": "value"}


root: Primitive = solver_op("scipy.root", infer, evaluate, _jvp, _vjp, Sample(near_solution, LateParams(_sample_call)))
