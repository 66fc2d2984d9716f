"""The implicit function theorem: derivatives of the solution of a system of equations.

``F(x, p) = 0`` defines ``x(p)`` with ``dx = -inv(J) F_p dp``, where ``J = dF/dx``; in reverse, ``p_bar = -F_p' inv(J') x_bar``
(A. Griewank and A. Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 15.1). Solvers stop at a tolerance, but
derivatives are taken at the exact solution, to which a few steps of Newton's method lead (the op `exact`). That op
has this same derivative rule, so derivatives of all orders are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType
from ...errors import ConvergenceError
from ...primitive import ZERO, LateParams, Primitive, Sample, Zero
from ...trace import Array, TracedArray
from .exit_status import solver_op
from .implicit_systems import NewtonSteps, solution
from .solver_arguments import CallSite
from .traced_function import TracedFunction, constant_body

Arrays = Sequence[TracedArray]
STEPS = 30  # of Newton's method at most


def tangent(body: TracedFunction, x: TracedArray, extras: Arrays, dots: Sequence[Array | Zero]) -> Array | Zero:
    """The tangent of the solution from the tangents of the extras."""
    moving = [k for k, dot in enumerate(dots) if dot is not ZERO]
    if not moving:
        return ZERO
    pushforward = body.pushforward([1 + k for k in moving])
    right = pushforward.spliced([x], [*extras, *(dots[k] for k in moving)])[0].reshape(x.shape)
    return -solution(body, x, extras, right)


def cotangents(body: TracedFunction, x: TracedArray, extras: Arrays, bar: TracedArray) -> list[object]:
    """The cotangents of the extras from the solution's; each is a function, called only if it is
    needed.
    """
    solved: list[object] = []

    def weights() -> object:
        if not solved:
            solved.append(np.reshape(solution(body, x, extras, -bar, transposed=True), body.types[0].shape))
        return solved[0]

    def pullback(k: int) -> Callable[[], object]:
        return lambda: body.pullback(1 + k).spliced([x], [*extras, weights()])[0]

    return [pullback(k) if e.type.floating else ZERO for k, e in enumerate(extras)]


# --- the exact solution ---------------------------------------------------------------------------


def _newton(start: np.ndarray, extras: Sequence[np.ndarray], body: TracedFunction) -> np.ndarray:
    """Newton's method, until its steps stop getting smaller."""
    x, last = np.asarray(start, float), np.inf
    steps = NewtonSteps(body, extras)
    for _ in range(STEPS):
        step = steps.solve(x, steps.residual(x))
        size = float(np.max(np.abs(step), initial=0.0))
        if not size < last:  # no smaller than before, or no number
            break
        negligible = size <= 1e-15 * float(np.max(np.abs(x), initial=0.0))
        if negligible and steps.sparse is not None:
            break  # where the factorisation was made, which derivatives use
        x, last = x - step, size
        if negligible:
            break
    return x


def _evaluate(x: np.ndarray, sure: np.ndarray, *extras: np.ndarray, body: TracedFunction, name: str, site: CallSite) -> np.ndarray:
    try:
        with np.errstate(all="ignore"):
            root = _newton(x, extras, body)
    except np.linalg.LinAlgError:
        fact = f"what {name} returned has no derivative: the Jacobian (of a minimum, the Hessian) is singular there."
        raise ConvergenceError(site.words(fact, "Look for a root or minimum that is alone.")) from None
    moved = np.abs(root - x)
    if not (np.all(moved <= 1e-2 * (1.0 + np.abs(x))) and (np.all(sure) or np.all(moved <= 1e-4 * np.abs(x) + 1e-10))):
        fact = f"{name} did not converge, so what it returned has no derivative."
        raise ConvergenceError(
            site.words(fact, "Give a better start or more iterations, or ask `.success` (`.converged`) before the result is used.")
        )
    return root


def _jvp(dots: Sequence[object], args: Arrays, outs: Arrays, *, body: TracedFunction, **_: object) -> Sequence[object]:
    return [tangent(body, outs[0], args[2:], dots[2:])]


def _vjp(bars: Sequence[object], args: Arrays, outs: Arrays, *, body: TracedFunction, **_: object) -> list[object]:
    return [ZERO, ZERO, *cotangents(body, outs[0], args[2:], bars[0])]


def monotone(own: Sequence[Array], parameters: Sequence[Array]) -> list[Array]:
    """A system of two equations with one solution, for samples."""
    x, p = own[0], parameters[0]
    return [x + 0.1 * x**3 + 0.2 * x[::-1] - p]


def near_solution(rng: np.random.Generator) -> tuple[np.ndarray, Array]:
    """The parameters of `monotone`, after a point that is close to the solution for any of these."""
    x = 2.5 + 1e-3 * rng.normal(size=2)
    return x, monotone([x], [np.zeros(2)])[0] + 1e-4 * rng.normal(size=2)


PAIR = ArrayType((2,), F8)


def _near_and_sure(rng: np.random.Generator) -> tuple[Array, ...]:
    x, p = near_solution(rng)
    return x, np.asarray(True), p


_SAMPLE = Sample(
    _near_and_sure,
    LateParams(lambda: {"body": constant_body(monotone, [PAIR], [PAIR]), "name": "sample", "site": CallSite("sample", "")}),
)
exact: Primitive = solver_op("scipy.exact", lambda x, sure, *extras, **_: (x,), _evaluate, _jvp, _vjp, _SAMPLE)
