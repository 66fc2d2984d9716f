"""Krylov methods of `scipy.sparse.linalg` as ops: `cg`, `gmres` and others.

The value is what SciPy's iterations give. Derivatives are derivatives of the exact solution, for which the matrix is
factorised once; so they have all digits, and start, tolerances and preconditioner have none. The implicit function theorem:
A. Griewank and A. Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 15.1. Of a linear system: M. B. Giles,
"An extended collection of matrix derivative results", Oxford University Computing Laboratory, NA-08/01, 2008, section 2.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse_linalg as spl

from ...arraytype import INT, ArrayType
from ...errors import ConvergenceError
from ...foreign_errors import not_foreign
from ...primitive import ZERO, Primitive, Sample
from ...trace import TracedArray, apply, apply_many, unsupported
from ...trace.handler_arguments import resolve
from ..linear_algebra.stacked_matrices import Args, Bars
from ..scipy_functions import involves_traced, replaces_if_traced
from ..scipy_ops.sparse.sparse_functions import matrix_of_dense
from ..scipy_ops.sparse.sparse_ops import Shape, matrix_of, matrix_samples, product_type
from ..scipy_ops.sparse.sparse_solves import AS_SPLU, solve, solve_jvp, solve_vjp
from ..scipy_ops.sparse.traced_sparse import TracedSparse, is_sparse, lifted
from ..shapes.shaping import traced
from .exit_status import solver_op
from .solver_arguments import CallSite, concrete_options, numpy_scalar, site, unfrozen

CLOSE = 1e-2  # how far a result that is told to have converged may be from the solution, relatively

# --- the exact solution ---------------------------------------------------------------------------


def _exact(*args: np.ndarray, name: str, site: CallSite, **params: object) -> np.ndarray:
    *system, x, info = args
    try:
        solution = np.asarray(solve.rules.evaluate(*system, **params, **AS_SPLU))
    except not_foreign(RuntimeError) as error:
        fact = f"what {name} returned has no derivative: the matrix is singular."
        raise ConvergenceError(site.words(fact, "Solve a system that has one solution.")) from error
    if np.any(info) or not np.max(np.abs(solution - x), initial=0.0) <= CLOSE * np.max(np.abs(solution), initial=0.0):
        fact = f"{name} did not converge, so what it returned has no derivative."
        raise ConvergenceError(site.words(fact, "Give more iterations, a smaller rtol or a preconditioner, or call spsolve."))
    return solution


def _exact_type(*types: ArrayType, **params: object) -> tuple[ArrayType, ...]:
    return product_type(*types[:5], **params)


def _exact_jvp(dots: Bars, args: Args, outs: Args, *, name: str, site: CallSite, **params: object) -> Sequence[object]:
    if all(dot is ZERO for dot in dots[:5]):
        return [ZERO]
    return solve_jvp(dots[:5], args[:5], outs, **params, **AS_SPLU)


def _exact_vjp(bars: Bars, args: Args, outs: Args, *, name: str, site: CallSite, **params: object) -> list[object]:
    return [*solve_vjp(bars, args[:5], outs, **params, **AS_SPLU), *[ZERO] * (len(args) - 5)]


# --- the iterations ---------------------------------------------------------------------------------


def _iterations_type(*types: ArrayType, **params: object) -> tuple[ArrayType, ...]:
    return *_exact_type(*types, **params), ArrayType((), INT)


def _iterations(
    *args: np.ndarray, shape: Shape, transposed: bool, name: str, options: tuple[tuple[str, object], ...],
    preconditioner: object, places: bool, **_: object,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """SciPy's run; a traced preconditioner is the four operands after the start."""
    data, cols, starts, b, start, *others = args[0], *args[2:]
    if others:
        preconditioner = matrix_of(others[0], others[2], others[3], shape, transposed=places)
    run = getattr(spl, name.rpartition(".")[2])
    x, info = run(
        matrix_of(data, cols, starts, shape, transposed=transposed), b[:, 0], start, M=preconditioner,
        **{k: unfrozen(v) for k, v in options},
    )  # fmt: skip
    return np.reshape(x, b.shape).astype(b.dtype, copy=False), np.asarray(info, np.int64)


def _at_solution(args: Args, outs: Args, *, shape: Shape, transposed: bool, name: str, site: CallSite, **_: object) -> TracedArray:
    return apply(exact, *args[:5], *outs, shape=shape, transposed=transposed, name=name, site=site)


def _jvp(dots: Bars, args: Args, outs: Args, **params: object) -> list[object]:
    system = {k: params[k] for k in ("shape", "transposed", "name", "site")}
    if all(dot is ZERO for dot in dots[:5]):
        return [ZERO, ZERO]
    return [*_exact_jvp(dots, args, (_at_solution(args, outs, **params),), **system), ZERO]


def _vjp(bars: Bars, args: Args, outs: Args, **params: object) -> list[object]:
    system = {k: params[k] for k in ("shape", "transposed", "name", "site")}
    if bars[0] is ZERO:
        return [ZERO] * len(args)
    return _exact_vjp(bars[:1], args, (_at_solution(args, outs, **params),), **system)


# --- calls -------------------------------------------------------------------------------------------


def _matrix(value: object, name: str, what: str) -> TracedSparse:
    value = resolve(value)
    if is_sparse(value):
        return lifted(value)
    if isinstance(value, (TracedArray, np.ndarray)) and value.ndim == 2:
        return matrix_of_dense(traced(value), "csr", matrix=False)
    raise unsupported(f"{name} with {what} that is not a matrix (a LinearOperator)")


def _fixed(preconditioner: object, size: int) -> object:
    """A preconditioner that is no traced matrix: one that computes numbers; of traced arrays it cannot be, which a try tells."""
    if preconditioner is None:
        return None
    operator = spl.aslinearoperator(preconditioner)
    operator.matvec(np.zeros(size))
    return operator


def _call(name: str, A: object, b: object, x0: object, M: object, options: dict[str, object]) -> tuple[TracedArray, TracedArray]:
    for option in ("callback", "shift", "CU", "outer_v"):  # another system, and what the solver writes to
        if options.pop(option, None):
            raise unsupported(f"{name} with {option}=")
    if isinstance(x0, str):
        raise unsupported(f"{name} with x0={x0!r}")
    matrix, right = _matrix(A, name, "A"), traced(b)
    n = matrix.shape[0]
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"expected square matrix, but got shape={matrix.shape}")
    if right.shape not in ((n,), (n, 1)):
        raise ValueError(f"shapes of A {matrix.shape} and b {right.shape} are incompatible")
    system, params = matrix.system(right.dtype if right.type.floating else np.dtype(float))
    kind = system[0].dtype
    start = traced(np.zeros(n) if x0 is None else x0).reshape(n).astype(kind)
    others, places, fixed = (), False, None
    if involves_traced(M):
        others, about = _matrix(M, name, "M").system(kind)
        places = about["transposed"]
    else:
        fixed = _fixed(M, n)
    x, info = apply_many(
        iterations, *system, right.reshape((n, 1)).astype(kind), start, *others, **params, name=name,
        options=concrete_options(options, name), preconditioner=fixed, places=places, site=site(),
    )  # fmt: skip
    return x[:, 0], numpy_scalar(info)


def _replace(name: str) -> None:
    title = f"scipy.sparse.linalg.{name}"

    @replaces_if_traced(getattr(spl, name))
    def call(A: object, b: object, x0: object = None, *, M: object = None, **options: object) -> tuple[TracedArray, TracedArray]:
        return _call(title, A, b, x0, M, options)


for _name in ("bicg", "bicgstab", "cg", "cgs", "gcrotmk", "gmres", "lgmres", "minres", "tfqmr"):
    _replace(_name)


def _samples(*, exact: bool, **params: object) -> tuple[Sample, ...]:
    """Systems of one column, with a start; or close to one of a known solution, and this."""

    def system(sample: Sample, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        data, *where, b = sample.make(np.random.default_rng(0) if exact else rng)
        if not exact:
            return data, *where, b[:, :1], np.zeros(len(b))
        x = 100 * np.asarray(solve.rules.evaluate(data, *where, b[:, :1], **sample.params, **AS_SPLU))
        near, right = (a + 1e-4 * rng.normal(size=a.shape) for a in (data, 100 * b[:, :1]))
        return near, *where, right, x, np.asarray(0)

    return tuple(
        Sample(partial(system, s), {**s.params, "name": "scipy.sparse.linalg.gmres", "site": CallSite("sample", ""), **params})
        for s in matrix_samples(square=True)
    )


_RUNS = _samples(exact=False, options=(("rtol", 1e-15),), preconditioner=None, places=False)
exact: Primitive = solver_op("scipy.sparse_exact", _exact_type, _exact, _exact_jvp, _exact_vjp, *_samples(exact=True))
iterations: Primitive = solver_op("scipy.sparse_iterations", _iterations_type, _iterations, _jvp, _vjp, *_RUNS)
