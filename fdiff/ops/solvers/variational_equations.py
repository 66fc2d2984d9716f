"""Sensitivities of solutions of initial value problems: the variational equations, integrated by the user's method.

The state and its sensitivities in several directions are one system. The blocks on the diagonal of its Jacobian are all equal
to the Jacobian of the user's equations, so that one small factorisation serves all directions; below the first of them stands
how the sensitivities move with the state (M. Caracotsios, W. E. Stewart, "Sensitivity analysis of initial value problems with
mixed ODEs and algebraic equations", Comput. Chem. Eng. 9, 1985). LSODA, which factorises the whole matrix, is given some
directions at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse

from ...arraytype import BOOL, F8, INT, ArrayType
from ...primitive import PRIMITIVES, ZERO, LateParams, Sample
from ...trace import Array, TracedArray, apply, apply_many
from ..entrywise.broadcasting import all_mapped
from .exit_status import batch_by_unrolling, solver_op
from .solver_arguments import CallSite, FrozenOption, number_types, unfrozen
from .solver_call import ResultField, SolverCall
from .traced_function import TracedFunction, constant_body

Arrays = Sequence[TracedArray]
Matrix = Callable[[float, np.ndarray], np.ndarray]
FACTORISED = 256  # rows of a matrix that LSODA factorises
COUNT = ArrayType((), INT)
NUMBERS = ("count", "nfev", "njev", "nlu")


def fields(times: int, rows: int, n: int) -> tuple[ResultField, ...]:
    """The fields of a solution: times of the steps, states by row, and counts."""
    real = ("t", ArrayType((times,), F8)), ("y", ArrayType((rows, n), F8))
    return (*real, *((name, COUNT) for name in NUMBERS), ("success", ArrayType((), BOOL)), ("status", COUNT))


# --- the system -----------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _varied(fun: TracedFunction, wrt: tuple[int, ...], directions: int) -> tuple[TracedFunction, TracedFunction]:
    """The right-hand side for the state and its sensitivities in some directions, and its derivative by the state alone.

    The tangents of the extras `wrt` are further extras.
    """
    n = fun.tape.input_types[1].size
    extras = fun.tape.input_types[2:]
    pushforward = fun.pushforward([1, *(2 + k for k in wrt)])
    mapped = [*[False] * (2 + len(extras)), *[True] * (1 + len(wrt))]
    wide = pushforward.batched(mapped, directions)

    def slopes(own: list[TracedArray], parameters: list[TracedArray]) -> list[object]:
        t, z = own
        shared, tangents = parameters[: len(extras)], parameters[len(extras) :]
        y, moved = z[:n], z[n:].reshape((directions, n))
        ahead = wide.spliced([t, y, *shared, moved, *tangents], [])[0]
        return [np.concatenate([fun.spliced([t, y], shared)[0], ahead.reshape((-1,))])]

    own = [number_types(1)[0], ArrayType((n * (1 + directions),), F8)]
    every = [*extras, *(ArrayType((directions, *extras[k].shape), extras[k].dtype) for k in wrt)]
    whole = constant_body(slopes, own, every)
    columns = whole.pushforward([1]).batched([*[False] * (2 + len(every)), True], n)

    def matrix(own: list[TracedArray], parameters: list[TracedArray]) -> list[object]:
        seeds = np.eye(n, n * (1 + directions))
        return [np.transpose(columns.spliced([*own, *parameters, seeds], [])[0])]

    return whole, constant_body(matrix, own, every)


def _tiled(options: tuple[tuple[str, object], ...], times: int) -> tuple[tuple[str, object], ...]:
    """Options for a state that is `times` as long."""
    kept: list[tuple[str, object]] = [("copies", times)]
    for name, value in options:
        each = unfrozen(value)
        if name in ("atol", "rtol") and np.ndim(each):
            kept.append((name, FrozenOption("tuple", tuple(np.tile(each, times).tolist()))))
        elif name not in ("copies", "jac", "jac_sparsity", "lband", "uband", "ml", "mu", "col_deriv", "vectorized"):
            kept.append((name, value))
    return tuple(sorted(kept, key=lambda item: item[0]))


def _wider(call: SolverCall, wrt: tuple[int, ...], directions: int, rows: int) -> SolverCall:
    """The call for the state and its sensitivities, of which times are given."""
    slopes, matrix = _varied(call.bodies[0], wrt, directions)
    n, names = call.bodies[0].tape.input_types[1].size, call.starts
    names = names if "t" in names or "t_eval" in names else (*names, "t_eval")
    kept = tuple(f for f in fields(0, rows, n * (1 + directions)) if f[0] != "t")
    jac = "Dfun" if "t" in names else "jac"
    return call._replace(
        starts=names, functions=(call.functions[0], jac), bodies=(slopes, matrix), fields=kept,
        options=_tiled(call.options, 1 + directions),
    )  # fmt: skip


# --- what SciPy's methods are given ---------------------------------------------------------------


def by_blocks(kind: Any, matrix: Matrix, copies: int) -> type:
    """An implicit method of SciPy's for a system whose Jacobian has copies of one block on the diagonal.

    Its matrices are kept as their first columns, of which ``matrix(t, y)`` gives the columns of the Jacobian.
    """

    class BlockMethod(kind):
        def __init__(self, fun: object, t0: float, y0: np.ndarray, *args: object, **options: object) -> None:
            super().__init__(fun, t0, y0, *args, jac=sparse.csc_matrix((len(y0), len(y0))), **options)
            self.jac = lambda t, y, *_: self._counted(t, y)
            self.J, self.I = self._counted(t0, y0), np.eye(len(y0), len(y0) // copies)
            self.lu, self.solve_lu = self._factorised, _solved

        def _counted(self, t: float, y: np.ndarray) -> np.ndarray:
            self.njev += 1
            return matrix(t, y)

        def _factorised(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """The inverse of the block (many right-hand sides, where LAPACK would start threads), and what is below it."""
            self.nlu += 1
            n = columns.shape[1]
            try:
                return np.linalg.inv(columns[:n]), columns[n:]
            except np.linalg.LinAlgError:  # Newton's method then fails, and the step is shortened
                return np.full((n, n), np.nan), columns[n:]

    return BlockMethod


def _solved(factors: tuple[np.ndarray, np.ndarray], b: np.ndarray) -> np.ndarray:
    """The solution of a system, by the inverse of a block and what stands below the first one."""
    inverse, below = factors
    n = len(inverse)
    first = inverse @ b[:n]
    rest = b[n:].reshape((-1, n)) - below.reshape((-1, n, n)) @ first  # small products: BLAS starts no threads
    return np.concatenate([first, (rest @ inverse.T).reshape(-1)])


def whole(matrix: Matrix, copies: int) -> Matrix:
    """The whole Jacobian of such a system, for LSODA."""

    def jacobian(t: float, y: np.ndarray) -> np.ndarray:
        columns = matrix(t, y)
        n = columns.shape[1]
        full = np.kron(np.eye(copies), columns[:n])
        full[n:, :n] = columns[n:]
        return full

    return jacobian


# --- the op -----------------------------------------------------------------------------------------


def _infer(*types: ArrayType, call: SolverCall, rows: int, wrt: tuple[int, ...]) -> tuple[ArrayType, ...]:
    directions, n = types[-1 - len(wrt)].shape
    return (ArrayType((rows, directions, n), F8),)


def _arguments(args: Sequence[object], call: SolverCall, join: Callable[[object, object], object]) -> list[object]:
    """The arguments of the wider call: the first state with its sensitivities after it."""
    starts, place = len(_names(call)), call.starts.index("y0")
    extras = len(call.bodies[0].tape.input_types) - 2
    begin, tangents = args[starts + extras], args[starts + extras + 1 :]
    return [*args[:place], join(args[place], begin), *args[place + 1 : starts + extras], *tangents]


def _names(call: SolverCall) -> tuple[str, ...]:
    """The traced arguments; the times of the rows are always among them."""
    return call.starts if "t" in call.starts or "t_eval" in call.starts else (*call.starts, "t_eval")


def _evaluate(*args: np.ndarray, call: SolverCall, rows: int, wrt: tuple[int, ...]) -> np.ndarray:
    first = len(args) - 1 - len(wrt)
    directions, n = args[first].shape
    each = directions if dict(call.options).get("method") in ("Radau", "BDF") else max(1, FACTORISED // n - 1)
    parts = [np.zeros((rows, 0, n))]
    for k in range(0, directions, each):
        some = [x[k : k + each] for x in args[first:]]
        parts.append(_run([*args[:first], *some], call, rows, wrt))
    return np.concatenate(parts, axis=1)


def _run(args: Sequence[np.ndarray], call: SolverCall, rows: int, wrt: tuple[int, ...]) -> np.ndarray:
    """The sensitivities in some directions, by one run."""
    directions, n = args[-1 - len(wrt)].shape
    join = lambda y, begin: np.concatenate([y, np.ravel(begin)])  # noqa: E731 - a line
    wide = PRIMITIVES["scipy.ode"].rules.evaluate(*_arguments(args, call, join), call=_wider(call, wrt, directions, rows), mode="rule")
    return np.array(next(iter(wide))[:, n:]).reshape((rows, directions, n))


@lru_cache(maxsize=64)
def _as_solution(call: SolverCall, rows: int, wrt: tuple[int, ...], types: tuple[ArrayType, ...]) -> TracedFunction:
    """The op as the solution of the wider system, which is differentiated as any solution is."""
    directions, n = types[-1 - len(wrt)].shape

    def results(own: list[TracedArray], _: list[TracedArray]) -> list[object]:
        join = lambda y, begin: np.concatenate([y, np.reshape(begin, (-1,))])  # noqa: E731 - a line
        operands = _arguments(own, call, join)
        solution = apply_many(PRIMITIVES["scipy.ode"], *operands, call=_wider(call, wrt, directions, rows), mode="rule")
        return [solution[0][:, n:].reshape((rows, directions, n))]

    return constant_body(results, types, [])


def _jvp(dots: Sequence[object], args: Arrays, outs: Arrays, **params: object) -> list[object]:
    moving = [k for k, dot in enumerate(dots) if dot is not ZERO]
    pushforward = _as_solution(types=tuple([x.type for x in args]), **params).pushforward(moving)
    return [*pushforward.spliced([*args, *(dots[k] for k in moving)], [])]


def _vjp(bars: Sequence[object], args: Arrays, outs: Arrays, *, needed: Sequence[bool], **params: object) -> list[object]:
    if bars[0] is ZERO:
        return [ZERO] * len(args)
    wrt = [k for k, (x, need) in enumerate(zip(args, needed, strict=True)) if need and x.type.floating]
    pullback = _as_solution(types=tuple([x.type for x in args]), **params).cotangents(wrt)
    cotangents = dict(zip(wrt, pullback.spliced([*args, bars[0]], []), strict=True))
    return [cotangents.get(k, ZERO) for k in range(len(args))]


def _batch(args: Arrays, mapped: Sequence[bool], size: int, **params: object) -> list[object]:
    """Directions of all elements in one run, where the solution is the same for all."""
    first = len(args) - 1 - len(params["wrt"])
    if any(mapped[:first]):
        return batch_by_unrolling(variations, args, mapped, size, **params)
    own = all_mapped(args[first:], mapped[first:], size)
    directions, n = args[first].shape[-2:]
    joined = [np.reshape(x, (size * directions, *x.shape[2:])) for x in own]
    out = apply(variations, *args[:first], *joined, **params)
    return [np.moveaxis(np.reshape(out, (out.shape[0], size, directions, n)), 1, 0)]


def right_side(own: Sequence[Array], parameters: Sequence[Array]) -> list[Array]:
    """Two equations ``dy/dt = f(t, y)``, whose solutions are smooth."""
    (t, y), p = own, parameters[0]
    return [np.sin(p[0] * y[::-1]) + p[1] * np.cos(t)]


def sample_call() -> SolverCall:
    """Two equations with two parameters, at three times."""
    two = ArrayType((2,), F8)
    body = constant_body(right_side, [*number_types(1), two], [two])
    kept = tuple(f for f in fields(0, 3, 2) if f[0] != "t")
    options = (("atol", 1e-13), ("rtol", 1e-13))
    return SolverCall("scipy.integrate.odeint", ("y0", "t"), ("fun",), (body,), options, kept, CallSite("sample", ""))


def sample_arrays(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return rng.normal(size=2), np.array([0.0, 0.3, 0.5]), rng.normal(size=2)


_SAMPLE = Sample(
    lambda rng: (*sample_arrays(rng), rng.normal(size=(2, 2)), rng.normal(size=(2, 2))),
    LateParams(lambda: {"call": sample_call(), "rows": 3, "wrt": (0,)}),
)
variations = solver_op("scipy.variations", _infer, _evaluate, _jvp, _vjp, _SAMPLE, batch=_batch, told_needs=True)
