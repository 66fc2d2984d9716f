"""Linear systems, inverse and determinants of stacks of matrices, with their adjoints.

For x = inv(A) b: dx = inv(A) (db - dA x), b_bar = inv(A') x_bar, A_bar = -b_bar x'. For C = inv(A):
dC = -C dA C. For the determinant the cotangent is the cofactor matrix, which exists for singular
matrices too. Source: M. B. Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation", Advances in Automatic Differentiation, Springer 2008, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import fdiff.intact_numpy as np

from ...arraytype import BOOL, ArrayType, broadcast
from ...primitive import PRIMITIVES, ZERO, Sample
from ...trace import Array, TracedArray, apply, current
from ...trace.concrete_values import choosing
from ...trace.exception_context import inside_try
from ...trace.function_to_tape import record
from ..entrywise.broadcasting import stretch, unbroadcast
from ..entrywise.families import add_up, flat_op
from .stacked_matrices import (
    Args,
    Bars,
    inverse_jvp,
    inverse_vjp,
    mt,
    regular_matrices,
    same_type,
    solved_type,
    stacked_op,
    system_rules,
)


def _systems(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return *regular_matrices(3)(rng), rng.normal(size=(2, 3, 2))


_PRODUCT = {0: (lambda a, x: a @ x, lambda bar, a, x: bar @ mt(x))}
_SOLVE = system_rules(lambda: solve, lambda a, bar: apply(solve, mt(a), bar), _PRODUCT)
solve = stacked_op("solve", solved_type, np.linalg.solve, *_SOLVE, _systems, scratch=1, columns=True, inline=4)


def _scalar_each(a: ArrayType) -> tuple[ArrayType, ...]:
    return (ArrayType(a.shape[:-2], a.dtype),)


def _two_each(a: ArrayType) -> tuple[ArrayType, ...]:
    return _scalar_each(a) * 2


def _weighted(bar: Array, matrix: TracedArray) -> Array:
    """A number for each matrix of the stack times that matrix."""
    return np.expand_dims(bar, (-2, -1)) * matrix


def _paired(a: Array, b: Array) -> TracedArray:
    """The inner product of two matrices, for each matrix of the stack."""
    return np.sum(a * b, axis=(-2, -1))


inv = stacked_op("inv", same_type, np.linalg.inv, inverse_jvp, inverse_vjp, regular_matrices(3), scratch=1, inline=4)


def cofactors(a: np.ndarray) -> np.ndarray:
    """Cofactor matrix, the gradient of the determinant, also where the matrix is singular.

    With A = U diag(s) V', cof(A) = det(U) det(V') U diag(products of the other s) V', and where
    these are complex the conjugates of U and V'.
    """
    if a.shape[-1] == 0:
        return np.zeros_like(a)
    u, s, vt = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.stack([np.prod(np.delete(s, k, axis=-1), axis=-1) for k in range(n)], axis=-1)
    sign = np.linalg.det(u) * np.linalg.det(vt)
    return (sign[..., None, None] * (u.conj() * others[..., None, :]) @ vt.conj()).astype(a.dtype)


def _singular_products(s: np.ndarray) -> np.ndarray:
    """Products of all singular values except numbers i and j, at ``[i, j]``; 0 on the diagonal."""
    n = s.shape[-1]
    kept = np.where(np.eye(n, dtype=bool), 1.0, s[..., None, :])
    ones = np.ones((*kept.shape[:-1], 1))
    before = np.concatenate([ones, np.cumprod(kept, axis=-1)[..., :-1]], axis=-1)
    after = np.concatenate([np.cumprod(kept[..., ::-1], axis=-1)[..., -2::-1], ones], axis=-1)
    return before * after * (1.0 - np.eye(n))


def _first_minors(a: np.ndarray, dot: np.ndarray) -> np.ndarray:
    """Derivative of the cofactor matrix in the direction `dot`, also where `a` is singular.

    With A = U S V' and P = U' dA V, the cofactors of the diagonal S have the derivative M: M[i, j] = -c[i, j] P[j, i],
    M[i, i] = sum over j of c[i, j] P[j, j], where c[i, j] is the product of the other singular values.
    """
    u, s, vh = np.linalg.svd(a)
    p = np.swapaxes(u.conj(), -1, -2) @ dot @ np.swapaxes(vh.conj(), -1, -2)
    c = _singular_products(s)
    middle = -c * np.swapaxes(p, -1, -2)
    k = np.arange(s.shape[-1])
    middle[..., k, k] = np.sum(c * np.diagonal(p, 0, -2, -1)[..., None, :], axis=-1)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return sign[..., None, None] * (u.conj() @ middle @ vh.conj())


def _minors(a: np.ndarray, *dots: np.ndarray) -> np.ndarray:
    """Derivative of the cofactor matrix of `a` in one or more directions.

    It is a polynomial of the matrix: from the second direction on, the coefficient of t in the value at
    ``a + t dot``, from values at roots of unity (J. N. Lyness and C. B. Moler, SIAM J. Numer. Anal. 4(2), pages 202-210, 1967).
    """
    n, shape = a.shape[-1], broadcast(a.shape, *(d.shape for d in dots))
    if n < 2:
        return np.zeros(shape, a.dtype)
    *others, last = dots
    if not others:
        return _first_minors(a, last).astype(a.dtype)
    count = max(n - 1, 2)
    unit = np.exp(2j * np.pi * np.arange(count) / count).reshape(-1, *(1,) * len(shape))
    size = np.max(np.abs(last), initial=0.0)
    step = unit * (np.max(np.abs(a), initial=0.0) / size if size and np.any(a) else 1.0)
    out = np.mean(_minors(a + step * last, *others) / step, axis=0)
    return (out if a.dtype.kind == "c" else out.real).astype(a.dtype)


def _minors_type(a: ArrayType, *dots: ArrayType) -> tuple[ArrayType, ...]:
    return (ArrayType(broadcast(a.shape, *(d.shape for d in dots)), a.dtype),)


def _minors_sample(count: int) -> Sample:
    return Sample(lambda rng: tuple(rng.normal(size=(count + 1, 2, 3, 3))))


def _minors_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    a, *rest = args
    terms = [ZERO if d is ZERO else apply(minors, a, *rest[:k], d, *rest[k + 1 :]) for k, d in enumerate(dots[1:])]
    total = add_up([ZERO if dots[0] is ZERO else apply(minors, a, *rest, dots[0]), *terms])
    return [stretch(total, outs[0].shape)]


def _minors_vjp(bars: Bars, args: Args, outs: Args) -> list[object]:
    """A derivative of the determinant is symmetric in its directions, and the cotangent is one more."""
    a, *rest = args
    whole = [apply(minors, a, *rest, bars[0]), *(apply(minors, a, *rest[:k], bars[0], *rest[k + 1 :]) for k in range(len(rest)))]
    return [unbroadcast(bar, arg.shape) for bar, arg in zip(whole, args, strict=True)]


def _cofactor_moves(moves: Bars, args: Args, outs: Args) -> list[object]:
    """The rule of both modes."""
    return [apply(minors, args[0], moves[0])]


minors = stacked_op("minors", _minors_type, _minors, _minors_jvp, _minors_vjp, _minors_sample(1), _minors_sample(2))
# Minors are exact at any rank by singular values, for which there is no routine.
_REGULAR, _ROUTINE = Sample(regular_matrices(3), cotangent_kernels=False), {"scratch": 2, "scratch_dtype": "f8", "inline": 2}
cofactor = stacked_op("cofactor", same_type, cofactors, _cofactor_moves, _cofactor_moves, _REGULAR, **_ROUTINE)


def _det_jvp(dots: Bars, args: Args, outs: Args) -> Sequence[object]:
    return [_paired(apply(cofactor, args[0]), dots[0])]


def _det_vjp(bars: Bars, args: Args, outs: Args) -> Sequence[object]:
    return [_weighted(bars[0], apply(cofactor, args[0]))]


def _slogdet_jvp(dots: Bars, args: Args, outs: Args) -> Sequence[object]:
    return [ZERO, _paired(mt(apply(inv, args[0])), dots[0])]


def _slogdet_vjp(bars: Bars, args: Args, outs: Args) -> Sequence[object]:
    return [ZERO if bars[1] is ZERO else _weighted(bars[1], mt(apply(inv, args[0])))]


def _slogdet(a: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.linalg.slogdet(a))


det = stacked_op("det", _scalar_each, np.linalg.det, _det_jvp, _det_vjp, regular_matrices(3), scratch=1, inline=4)
slogdet = stacked_op("slogdet", _two_each, _slogdet, _slogdet_jvp, _slogdet_vjp, regular_matrices(3), scratch=1, inline=4)


def _refused(a: np.ndarray, *, name: str, lead: int) -> np.ndarray:
    """Whether the op raises LinAlgError, for each entry of the leading axes."""
    out = np.zeros(a.shape[:lead], bool)
    for k in np.ndindex(out.shape):
        try:
            PRIMITIVES[name].rules.evaluate(a[k], *([np.zeros((*a.shape[-1:], 1))] if name == "solve" else []))
        except np.linalg.LinAlgError:
            out[k] = True
    return out[()]


def _refused_type(a: ArrayType, *, name: str, lead: int) -> tuple[ArrayType, ...]:
    return (ArrayType(a.shape[:lead], BOOL),)


def _refused_batch(args: Args, mapped: object, size: int, *, name: str, lead: int) -> list[object]:
    return [apply(refused, args[0], name=name, lead=lead + 1)]


_SAMPLE = Sample(lambda rng: (np.stack([np.eye(2), np.zeros((2, 2))]),), {"name": "inv", "lead": 1})
refused = flat_op("refused", _refused_type, _refused, _SAMPLE, batch=_refused_batch)


def attempt(name: str, a: TracedArray) -> None:
    """Raise LinAlgError while tracing, if the user's code would catch it.

    This is checked inside a ``try`` alone; whether the matrix is refused then becomes a guard. Elsewhere the op
    raises when the tape is run.
    """
    trace = current()
    if not (trace.mutable and inside_try(record.__code__)):
        return
    refusal = partial(apply, refused, a, name=name, lead=0)
    log = choosing(trace.calls)
    raises = None if log is None else log.caught(refusal)
    if raises is None and trace.guards.is_known(trace.own(a)):
        raises = bool(refusal())
    if raises:
        words = "Matrix is not positive definite" if name == "cholesky" else "Singular matrix"
        raise np.linalg.LinAlgError(words)
