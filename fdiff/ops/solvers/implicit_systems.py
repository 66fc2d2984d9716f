"""Linear systems with the Jacobian of equations ``F(x) = 0``: dense, or sparse where they are large and few entries are there.

The solution of a large one is an op, so that the structure may rest on index arrays that the equations read. Its rules follow from
``s = inv(J) r``: ``ds = inv(J) (dr - dJ s)`` (M. B. Giles, "An extended collection of matrix derivative results", Oxford University
Computing Laboratory, NA-08/01, 2008, section 2.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType
from ...errors import StructureError
from ...foreign_errors import not_foreign, not_signalled
from ...named_tuples import NamedTuple
from ...primitive import ZERO, LateParams, Primitive, Sample
from ...trace import Array, Trace, TracedArray, apply, splice
from ...transforms.pipeline import KEEP, derive
from ...transforms.terms.sparse_tapes import StructureRequest, sparse_tape
from ..scipy_ops.sparse.sparse_solves import factors
from .exit_status import solver_op
from .traced_function import TracedFunction, constant_body

Arrays = Sequence[TracedArray]
LARGE = 200  # unknowns from which on
SHARE = 0.1  # of the entries, up to which the Jacobian is taken as sparse
STRUCTURES = 4  # of one system, the latest first
# The entries of the last Jacobian: while they are here, so is its factorisation, which derivatives use.
_latest: list[np.ndarray] = []


class SparseSystem(NamedTuple):
    """A function that gives the entries of a square matrix in the order of its rows, their places, and what these rest on."""

    entries: TracedFunction
    cols: np.ndarray
    starts: np.ndarray
    pins: dict[int, bytes]


@lru_cache(maxsize=128)
def _systems(body: TracedFunction) -> list[SparseSystem | None]:
    """The sparse systems of a function's Jacobian; None if it is dense."""
    return []


def sparse_system(body: TracedFunction, extras: Sequence[np.ndarray]) -> SparseSystem | None:
    """The Jacobian of the first result in the first argument; None if it is small or dense."""
    n = body.tape.input_types[0].size
    if n < LARGE or body.types[0].size != n:
        return None
    kept = _systems(body)
    for system in kept:
        if system is None or all(np.asarray(extras[k - 1]).tobytes() == seen for k, seen in system.pins.items()):
            return system
    kept.insert(0, _sparse_system(body, extras, n))
    del kept[STRUCTURES:]
    return kept[0]


def _sparse_system(body: TracedFunction, extras: Sequence[np.ndarray], n: int) -> SparseSystem | None:
    def constant(k: int) -> Callable[[], np.ndarray]:
        return lambda: np.asarray(extras[k])

    request = StructureRequest((0,), types=(ArrayType((n, n), F8),))
    try:
        structure = sparse_tape(derive((KEEP,), body.tape, keep=(1,)), request, [None, *map(constant, range(len(extras)))])
    except not_signalled(StructureError, NotImplementedError):
        return None
    (block,) = structure.blocks
    if structure.index_tape is not None or len(block.indices) > SHARE * n * n:
        return None
    with Trace("jacobian", lines=False) as trace:
        inputs = [trace.input(t) for t in body.tape.input_types]
        outs = [splice(body.tape, inputs, trace)[0], splice(structure.tape, inputs, trace)[0]]
        entries = TracedFunction(trace.builder.finish([trace.lift(out) for out in outs]), body.own)
    return SparseSystem(entries, block.indices, block.starts, structure.pins)


class NewtonSteps:
    """Residuals of a system of equations, and solutions of linear systems with its Jacobian, at numbers."""

    def __init__(self, body: TracedFunction, extras: Sequence[np.ndarray]) -> None:
        self.sparse = sparse_system(body, extras)
        self._residual = body.bound(extras)
        self._matrix = (body.jacobian() if self.sparse is None else self.sparse.entries).bound(extras)

    def residual(self, x: np.ndarray) -> np.ndarray:
        return np.reshape(self._residual(x[()])[0], x.shape)

    def solve(self, x: np.ndarray, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
        """The solution; raises `LinAlgError` if the Jacobian is singular."""
        entries = self._matrix(x[()])[0]
        if self.sparse is None:
            matrix = np.reshape(entries, (x.size, x.size) if x.shape else ())
            return np.asarray(dense_solution(np.transpose(matrix) if transposed else matrix, right))
        data = np.ascontiguousarray(entries)
        try:
            lu = factors(data, self.sparse.cols, self.sparse.starts, x.size, data, 0)
        except not_foreign(RuntimeError) as error:
            raise np.linalg.LinAlgError(str(error)) from None
        _latest[:] = [data]
        return lu.solve(np.reshape(right, x.shape), "N" if transposed else "T")


def dense_solution(matrix: Array, right: Array) -> Array:
    """Solution of a dense system, of one number too."""
    return np.linalg.solve(matrix, right) if np.ndim(matrix) else right / matrix


def solution(body: TracedFunction, x: TracedArray, extras: Sequence[object], right: Array, *, transposed: bool = False) -> Array:
    """The solution of the system with the Jacobian at `x`, as a value of the current trace."""
    if x.size >= LARGE:
        return apply(solve, x, np.reshape(right, x.shape), *extras, body=body, transposed=transposed)
    matrix = body.jacobian().spliced([x], extras)[0].reshape((x.size, x.size) if x.shape else ())
    return dense_solution(np.transpose(matrix) if transposed else matrix, right)


# --- the op -----------------------------------------------------------------------------------------


def _evaluate(x: np.ndarray, right: np.ndarray, *extras: np.ndarray, body: TracedFunction, transposed: bool) -> np.ndarray:
    return NewtonSteps(body, extras).solve(np.asarray(x), right, transposed=transposed)


def _product(body: TracedFunction, *, transposed: bool) -> TracedFunction:
    """The product of the Jacobian and a vector, the last input."""
    return body.pullback(0) if transposed else body.pushforward([0])


def _jvp(dots: Sequence[object], args: Arrays, outs: Arrays, *, body: TracedFunction, transposed: bool) -> list[object]:
    x, _, *extras = args
    x_dot, right, *rest = dots
    tangents = dict(enumerate([x_dot, *rest]))
    moving = [k for k, dot in tangents.items() if dot is not ZERO]
    if moving:
        moved = _product(body, transposed=transposed).pushforward(moving)
        change = moved.spliced([x], [*extras, outs[0], *(tangents[k] for k in moving)])[0].reshape(x.shape)
        right = -change if right is ZERO else right - change
    return [ZERO if right is ZERO else apply(solve, x, right, *extras, body=body, transposed=transposed)]


def _vjp(bars: Sequence[object], args: Arrays, outs: Arrays, *, body: TracedFunction, transposed: bool) -> list[object]:
    x, _, *extras = args
    right = apply(solve, x, bars[0], *extras, body=body, transposed=not transposed)
    product = _product(body, transposed=transposed)
    seed = np.reshape(right, product.types[0].shape)

    def pullback(k: int) -> Callable[[], object]:
        return lambda: -product.pullback(k).spliced([x], [*extras, outs[0], seed])[0]

    slopes = [pullback(1 + k) if e.type.floating else ZERO for k, e in enumerate(extras)]
    return [pullback(0), right, *slopes]


def _cubic(own: Sequence[Array], parameters: Sequence[Array]) -> list[Array]:
    """A system of two equations, for samples."""
    x, p = own[0], parameters[0]
    return [x + 0.1 * x**3 * p + 0.2 * x[::-1]]


_PAIR = ArrayType((2,), F8)
_SAMPLES = tuple(
    Sample(
        lambda rng: (rng.normal(size=2), rng.normal(size=2), rng.uniform(size=2)),
        LateParams(lambda t=transposed: {"body": constant_body(_cubic, [_PAIR], [_PAIR]), "transposed": t}),
    )
    for transposed in (False, True)
)
solve: Primitive = solver_op("scipy.implicit_solve", lambda x, right, *extras, **_: (x,), _evaluate, _jvp, _vjp, *_SAMPLES)
