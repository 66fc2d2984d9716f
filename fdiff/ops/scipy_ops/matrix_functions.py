"""Ops of `scipy.linalg`: `expm`, `sqrtm`, `logm`, triangular systems, LU factors, banded systems.

The Frechet derivative of a matrix function at A towards E is the upper right block of f([[A, E], [0, A]]): N. J.
Higham, "Functions of Matrices", SIAM 2008, theorem 3.6; for the exponential compare A. H. Al-Mohy and N. J. Higham,
SIAM J. Matrix Anal. Appl. 30(4), 2009, algorithm 6.4. Systems: M. B. Giles, "An extended collection of matrix
derivative results", Oxford NA-08/01, 2008, section 2.3.1. LU factors: F. R. de Hoog, R. S. Anderssen, M. A. Lukas,
"Differentiation of matrix functionals using triangular factorization", Math. Comp. 80, pages 1585-1600, 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import fdiff.intact_numpy as np
from fdiff.intact_scipy import linalg as sl

from ...arraytype import ArrayType, broadcast
from ...errors import UnsupportedError, failure
from ...kernel_rule import KernelRule, Kind
from ...primitive import ZERO, Primitive, Sample
from ...trace import Array, TracedArray, apply
from ..entrywise.elementwise import stop
from ..entrywise.families import add_up
from ..linear_algebra.stacked_matrices import (
    Args,
    Bars,
    mt,
    same_type,
    solved_type,
    stacked_op,
    system_rules,
)

INT4 = np.dtype(np.int32)


def _each(function: Callable[..., object], a: np.ndarray, *others: np.ndarray) -> object:
    """`function` applied to each matrix of a stack."""
    stack = broadcast(a.shape[:-2], *(b.shape[:-2] for b in others))
    if not stack:
        return function(a, *others)
    wide = [np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (a, *others)]
    results = [function(*(x[k] for x in wide)) for k in np.ndindex(stack)] or [function(*(np.ones(x.shape[-2:], x.dtype) for x in wide))]
    gather = lambda parts: np.stack(parts)[: int(np.prod(stack))].reshape((*stack, *np.shape(parts[0])))  # noqa: E731 - used twice
    return tuple(map(gather, zip(*results, strict=True))) if isinstance(results[0], tuple) else gather(results)


# --- functions of matrices --------------------------------------------------------------------


def matrix_function(name: str, function: Callable[[np.ndarray], np.ndarray], sample: Callable[..., tuple[np.ndarray, ...]]) -> Primitive:
    """The op of a function of square matrices; its rules take the block of ``f([[A, E], [0, A]])`` (module docstring)."""

    def evaluate(a: np.ndarray) -> np.ndarray:
        out = np.asarray(_each(function, a.astype(np.result_type(a, np.float64))))  # a block matrix needs the digits
        if np.iscomplexobj(out) and not np.iscomplexobj(a):
            fact = "the result of a real matrix came out complex, and fdiff has real results of real arguments only."
            raise failure(UnsupportedError, f"scipy.linalg.{name}", fact, "Pass a complex matrix: a.astype(complex).")
        return out.astype(a.dtype)

    def towards(a: TracedArray, e: TracedArray) -> TracedArray:
        n = a.shape[-1]
        size = np.max(np.abs(apply(stop, e)), axis=(-2, -1), keepdims=True) if n else np.ones((1, 1), a.dtype)
        size = np.where(size > 0, size, 1.0).astype(a.dtype)
        top = np.concatenate([a, e / size], axis=-1)
        block = np.concatenate([top, np.concatenate([np.zeros_like(a), a], axis=-1)], axis=-2)
        return apply(primitive, block)[..., :n, n:] * size

    primitive = stacked_op(
        name, same_type, evaluate,
        lambda dots, args, outs: [towards(args[0], dots[0])], lambda bars, args, outs: [towards(mt(args[0]), bars[0])], Sample(sample),
    )
    return primitive


def _regular(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Matrices close to diagonal ones with positive entries: their principal root and logarithm are real and smooth."""
    return (np.diag(rng.uniform(1.5, 3.0, 3)) + 0.3 * rng.normal(size=(2, 3, 3)),)


expm = matrix_function("expm", sl.expm, lambda rng: (0.7 * rng.normal(size=(2, 3, 3)),))
sqrtm = matrix_function("sqrtm", sl.sqrtm, _regular)
logm = matrix_function("logm", sl.logm, _regular)

# --- Sylvester's equation ``a x + x b = q`` ----------------------------------------------------


def _sylvester(a: np.ndarray, b: np.ndarray, q: np.ndarray) -> object:
    return np.asarray(_each(sl.solve_sylvester, a, b, q)).astype(q.dtype)


def _sylvester_type(a: ArrayType, b: ArrayType, q: ArrayType) -> tuple[ArrayType, ...]:
    return (ArrayType((*broadcast(a.shape[:-2], b.shape[:-2], q.shape[:-2]), *q.shape[-2:]), q.dtype),)


def _sylvester_sample(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    left, right = (rng.normal(size=(2, n, n)) + 4.0 * np.eye(n) for n in (3, 2))
    return left, right, rng.normal(size=(2, 3, 2))


# The transposed equation is as in the note of G. Kitagawa, Int. J. Control 25(5), pages 745-753, 1977.
_TERMS = {0: (lambda a, b, x: a @ x, lambda bar, a, b, x: bar @ mt(x)), 1: (lambda a, b, x: x @ b, lambda bar, a, b, x: mt(x) @ bar)}
_SYLVESTER = system_rules(lambda: sylvester, lambda a, b, bar: apply(sylvester, mt(a), mt(b), bar), _TERMS)
sylvester = stacked_op("solve_sylvester", _sylvester_type, _sylvester, *_SYLVESTER, _sylvester_sample)

# --- triangular systems -----------------------------------------------------------------------


def _triangle(x: TracedArray, *, lower: bool, unit: bool) -> Array:
    """The part of a matrix, or of its tangent, that the triangular solver reads."""
    return np.tril(x, -1 if unit else 0) if lower else np.triu(x, 1 if unit else 0)


def _triangular(a: np.ndarray, b: np.ndarray, *, lower: bool, trans: bool, unit: bool) -> object:
    def solve(m: np.ndarray, y: np.ndarray) -> np.ndarray:
        return sl.solve_triangular(m, y, int(trans), lower, unit, check_finite=False) if m.size else y

    return np.asarray(_each(solve, a, b)).astype(np.result_type(a, b))


def _triangle_product(a: TracedArray, x: TracedArray, *, trans: bool, **part: bool) -> Array:
    return (mt(_triangle(a, **part)) if trans else _triangle(a, **part)) @ x


def _triangle_bar(bar: TracedArray, a: TracedArray, x: TracedArray, *, trans: bool, **part: bool) -> Array:
    return _triangle(x @ mt(bar) if trans else bar @ mt(x), **part)


def _other_triangle(a: TracedArray, bar: object, *, trans: bool, **part: bool) -> Array:
    return apply(triangular, a, bar, trans=not trans, **part)


def _system(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return rng.normal(size=(2, 3, 3)) + 3.0 * np.eye(3), rng.normal(size=(2, 3, 2))


_HOW = [{"lower": lower, "trans": trans, "unit": unit} for lower, trans, unit in product((True, False), repeat=3)]
_TRIANGLES, _SYSTEM = [Sample(_system, how) for how in _HOW], KernelRule(Kind.TRIANGULAR_SYSTEM)
_RULES = system_rules(lambda: triangular, _other_triangle, {0: (_triangle_product, _triangle_bar)})
triangular = stacked_op("solve_triangular", solved_type, _triangular, *_RULES, *_TRIANGLES, kernel=_SYSTEM)

# --- LU: packed factors, pivots, and the permutation with its inverse -------------------------


def _lu_type(a: ArrayType) -> tuple[ArrayType, ...]:
    index = ArrayType(a.shape[:-1], INT4)
    return a, index, index, index


def permutation(pivots: np.ndarray) -> np.ndarray:
    """The permutation of the rows that LAPACK's sequence of exchanges (`pivots`) amounts to."""
    order = np.arange(len(pivots), dtype=INT4)
    for k, other in enumerate(pivots):
        order[[k, other]] = order[[other, k]]
    return order


def _lu_one(a: np.ndarray) -> tuple[np.ndarray, ...]:
    lu, pivots = sl.lu_factor(a, check_finite=False)
    order = permutation(pivots)
    return lu, pivots.astype(INT4), order, np.argsort(order).astype(INT4)


def lower_unit(lu: TracedArray) -> Array:
    return np.tril(lu, -1) + np.eye(lu.shape[-1], dtype=lu.dtype)


def _rows(x: TracedArray, order: TracedArray) -> Array:
    """The rows of each matrix, permuted by `order`."""
    return np.take_along_axis(x, np.broadcast_to(np.expand_dims(order, -1), (*order.shape, x.shape[-1])), axis=-2)


def _lu_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    lu, _, order, _ = outs
    left = apply(triangular, lu, _rows(dots[0], order), lower=True, trans=False, unit=True)
    inner = mt(apply(triangular, lu, mt(left), lower=False, trans=True, unit=False))
    both = np.tril(lower_unit(lu) @ np.tril(inner, -1), -1) + np.triu(np.triu(inner) @ np.triu(lu))
    return [both, ZERO, ZERO, ZERO]


def _lu_vjp(bars: Bars, args: Args, outs: Args) -> Sequence[object]:
    if bars[0] is ZERO:
        return [ZERO]
    lu, _, _, back = outs
    inner = np.tril(mt(lower_unit(lu)) @ np.tril(bars[0], -1), -1) + np.triu(np.triu(bars[0]) @ mt(np.triu(lu)))
    left = apply(triangular, lu, inner, lower=True, trans=True, unit=True)
    return [_rows(mt(apply(triangular, lu, mt(left), lower=False, trans=False, unit=False)), back)]


def _exchanged(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return (rng.normal(size=(2, 3, 3))[:, [1, 2, 0]] + 3.0 * np.eye(3)[[1, 2, 0]],)


lu_factor = stacked_op("lu_factor", _lu_type, lambda a: tuple(_each(_lu_one, a)), _lu_jvp, _lu_vjp, _exchanged)

# --- banded systems: row k of `ab` holds the entries (j + k - u, j) ---------------------------


def _shifted(row: Array, by: int) -> Array:
    """``out[j] = row[j + by]`` along the last axis, 0 beyond the ends."""
    n = row.shape[-1]
    if abs(by) >= n:
        return np.zeros_like(row)
    gap = np.zeros((*row.shape[:-1], abs(by)), row.dtype)
    return np.concatenate([row[..., by:], gap], axis=-1) if by >= 0 else np.concatenate([gap, row[..., :by]], axis=-1)


def flipped(ab: TracedArray, low: int, up: int) -> Array:
    """The band of the transposed matrix, which has `up` diagonals below and `low` above."""
    return np.stack([_shifted(ab[..., up + low - k, :], k - low) for k in range(low + up + 1)], axis=-2)


def _band_product(ab: TracedArray, x: TracedArray, *, low: int, up: int) -> Array:
    """The banded matrix times `x`."""
    columns = mt(x)
    terms = [_shifted(np.expand_dims(ab[..., k, :], -2) * columns, up - k) for k in range(ab.shape[-2])]
    return mt(add_up(terms))


def _banded(ab: np.ndarray, b: np.ndarray, *, low: int, up: int) -> object:
    solve = lambda m, y: sl.solve_banded((low, up), m, y, check_finite=False)  # noqa: E731 - of one matrix
    return np.asarray(_each(solve, ab, b)).astype(b.dtype)


def _band_bar(bar: TracedArray, ab: TracedArray, x: TracedArray, *, low: int, up: int) -> Array:
    left, right = mt(bar), mt(x)
    return np.stack([np.sum(_shifted(left, k - up) * right, axis=-2) for k in range(low + up + 1)], axis=-2)


def _other_band(ab: TracedArray, bar: object, *, low: int, up: int) -> Array:
    return apply(banded, flipped(ab, low, up), bar, low=up, up=low)


def _band(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    ab = rng.normal(size=(2, 4, 5))
    ab[:, 2] += 5.0
    return ab, rng.normal(size=(2, 5, 2))


_BAND = system_rules(lambda: banded, _other_band, {0: (_band_product, _band_bar)})
banded = stacked_op("solve_banded", solved_type, _banded, *_BAND, Sample(_band, {"low": 1, "up": 2}))
