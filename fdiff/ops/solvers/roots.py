"""What answers for the root finders of scipy.optimize: derivatives by the implicit function theorem.

``F(x, p) = 0`` defines the root ``x(p)``, and ``dx = -J^-1 F_p dp`` with ``J = dF/dx``. The rule is
taken at the root that SciPy returned, and is made of ops that depend on it, so that it can be
differentiated again. Starts and brackets have no derivative.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy import optimize as so

from ...arraytype import BOOL, F8, INT, ArrayType
from ...primitive import ZERO, Primitive, Sample
from ...trace import TracedArray, apply
from .body import constant_body
from .calls import SOLVERS, Call, Field, close, require, solver
from .inner import Site, number_types

COUNT, TRUTH, NUMBER = ArrayType((), INT), ArrayType((), BOOL), ArrayType((), F8)


def solved(matrix: TracedArray, right: object) -> object:
    """Solution of a system, of one number too."""
    if not matrix.shape:
        return right / matrix
    return np.linalg.solve(matrix, right)


def _linearised(call: Call, args: Sequence[TracedArray], outs: Sequence[TracedArray]) -> tuple[TracedArray, Callable[[object], object], Sequence[TracedArray]]:
    """Jacobian of the residual at the root, what checks a derivative, and the extras."""
    x, (_, extras) = outs[0], call.split(args)
    body = call.bodies[0]
    matrix = body.jacobian().spliced([x], extras)[0].reshape((x.size, x.size) if x.shape else ())
    residual = body.spliced([x], extras)[0].reshape(x.shape)
    holds = np.logical_and(np.all(outs[call.place("converged")]), close(x, solved(matrix, residual)))
    return matrix, lambda value: apply(require, value, holds, name=call.name, site=call.site), extras


def _jvp(dots: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, call: Call, mode: str) -> list[object]:
    none: list[object] = [ZERO] * (len(outs) - 1)
    count, own = len(call.starts), call.bodies[0].own
    moving = [k for k, dot in enumerate(dots[count:]) if dot is not ZERO]
    if not moving:
        return [ZERO, *none]
    matrix, checked, extras = _linearised(call, args, outs)
    pushed = call.bodies[0].pushed([own + k for k in moving])
    dot = pushed.spliced([outs[0]], [*extras, *(dots[count + k] for k in moving)])[0].reshape(outs[0].shape)
    return [checked(-solved(matrix, dot)), *none]


def _vjp(bars: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray], *, call: Call, mode: str) -> list[object]:
    if bars[0] is ZERO:
        return [ZERO] * len(args)
    body, x = call.bodies[0], outs[0]
    matrix, checked, extras = _linearised(call, args, outs)
    weights = solved(np.transpose(matrix), -bars[0])

    def pulled(k: int) -> object:
        def bar() -> object:
            seed = np.reshape(checked(weights), body.types[0].shape)
            return body.pulled(body.own + k).spliced([x], [*extras, seed])[0]

        return bar if extras[k].type.floating else ZERO

    return [*[ZERO] * len(call.starts), *(pulled(k) for k in range(len(extras)))]


def sample() -> Sample:
    """A cube root."""
    body = constant_body(lambda own, extras: [own[0] ** 3 - extras[0]], number_types(1), number_types(1))
    call = Call("scipy.optimize.brentq", ("a", "b"), ("f",), (body,), (), scalar_fields(()), Site("grad", ""))
    return Sample(lambda rng: (np.array(0.0), np.array(3.0), rng.random() + 1.0), {"call": call, "mode": "rule"})


def scalar_fields(shape: tuple[int, ...]) -> tuple[Field, ...]:
    kind = ArrayType(shape, BOOL)
    return ("root", ArrayType(shape, F8)), ("converged", kind), ("iterations", COUNT), ("function_calls", COUNT)


def vector_fields(n: int) -> tuple[Field, ...]:
    return ("x", ArrayType((n,), F8)), ("converged", TRUTH), ("nfev", COUNT), ("fun", ArrayType((n,), F8)), ("status", COUNT)


# --- SciPy's functions, with results of one form ------------------------------------------------


def _bracketing(function: Callable[..., tuple[float, object]]) -> Callable[..., dict[str, object]]:
    def run(f: object, a: float, b: float, **options: object) -> dict[str, object]:
        return _of_number(function(f, a, b, full_output=True, **options))

    return run


def _of_number(found: tuple[object, object]) -> dict[str, object]:
    root, about = found
    return {"root": root, "converged": about.converged, "iterations": about.iterations, "function_calls": about.function_calls, "flag": about.flag}  # type: ignore[attr-defined]


def _newton(func: object, x0: object, **options: object) -> dict[str, object]:
    if np.ndim(x0) == 0:
        return _of_number(so.newton(func, x0, full_output=True, **options))  # type: ignore[arg-type]
    found = so.newton(func, x0, full_output=True, **options)  # type: ignore[arg-type]
    return {"root": found.root, "converged": found.converged, "iterations": 0, "function_calls": 0}  # type: ignore[attr-defined]


def _root_scalar(f: object, **options: object) -> dict[str, object]:
    about = so.root_scalar(f, **options)  # type: ignore[arg-type]
    return _of_number((about.root, about))


def _fsolve(func: object, x0: np.ndarray, *, quiet: bool, **options: object) -> dict[str, object]:
    x, about, code, words = so.fsolve(func, x0, full_output=True, **options)  # type: ignore[arg-type]
    if code != 1 and not quiet:
        warnings.warn(words, RuntimeWarning, stacklevel=2)  # as SciPy does where nobody asks for all
    return {"x": x, "converged": code == 1, "status": code, "message": words, "fun": about["fvec"], **about}


def _root(fun: object, x0: np.ndarray, **options: object) -> dict[str, object]:
    about = so.root(fun, x0, **options)  # type: ignore[arg-type]
    return {"status": 0, "nfev": 0, **about, "converged": about.success}


SOLVERS.update({f"scipy.optimize.{name}": _bracketing(getattr(so, name)) for name in ("brentq", "brenth", "bisect", "ridder", "toms748")})
SOLVERS.update({"scipy.optimize.newton": _newton, "scipy.optimize.root_scalar": _root_scalar, "scipy.optimize.fsolve": _fsolve, "scipy.optimize.root": _root})

root: Primitive = solver("scipy.root", _jvp, _vjp, (sample(),))
