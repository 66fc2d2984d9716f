"""Pseudo-inverse and least squares: the ops behind `numpy.linalg.pinv` and `lstsq`.

With X = pinv(A): dX = -X dA X + X X' dA' (I - A X) + (I - X A) dA' X' X. Source: G. H. Golub and V. Pereyra,
"The differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate", SIAM J.
Numer. Anal. 10(2), 1973, equation (4.12). Where singular values are cut off, the outer terms solve Stein equations.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, real_dtype
from ...primitive import ZERO, Sample
from ...trace import Array, TracedArray, apply
from ..entrywise.broadcasting import all_mapped
from ..entrywise.families import add_up, opaque_op
from .eigenvalues import hermitian_of_triangle
from .singular_values import matrix_cotangent, matrix_tangent, svdvals_jvp, svdvals_vjp
from .stacked_matrices import (
    Args,
    Bars,
    hermitian_cotangents,
    inverse_jvp,
    inverse_vjp,
    mh,
    mt,
    stacked_op,
    system_rules,
    tape_cotangent,
    well_separated_matrices,
)

INT4 = np.dtype(np.int32)
EPS = float(np.finfo(np.float64).eps)  # NumPy calls LAPACK in double precision, also for float32


def _stein(p: np.ndarray, n: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The solution x of the Stein equation ``x - p x n = r``, by doubling (R. A. Smith, SIAM J. Appl. Math. 16(1), pages 198-201, 1968)."""
    size = np.max(np.abs(p), axis=(-2, -1), keepdims=True, initial=0.0)
    size = np.where(size == 0, 1.0, size)
    p, n, x = p / size, n * size, r
    for _ in range(64):
        step = p @ x @ n
        if not np.any(np.abs(step) > 1e-18 * np.max(np.abs(x), initial=0.0)):
            break
        x, p, n = x + step, p @ p, n @ n
    return (x + p @ x @ n).astype(r.dtype)


def _stein_sample(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return 0.2 * rng.normal(size=(2, 3, 3)), 0.2 * rng.normal(size=(2, 4, 4)), rng.normal(size=(2, 3, 4))


_TERMS = {
    0: (lambda p, n, x: -(p @ x @ n), lambda bar, p, n, x: -(bar @ mt(x @ n))),
    1: (lambda p, n, x: -(p @ x @ n), lambda bar, p, n, x: -(mt(p @ x) @ bar)),
}
_STEIN = system_rules(lambda: stein, lambda p, n, bar: apply(stein, mt(p), mt(n), bar), _TERMS)
stein = opaque_op("stein", lambda p, n, r: (r,), _stein, *_STEIN, _stein_sample)


def rcond_truncates(rcond: object, a: TracedArray) -> bool:
    """Whether `rcond` may cut off singular values that are more than rounding errors."""
    return bool(np.any(np.asarray(rcond) > 10.0 * max(a.shape[-2:]) * np.finfo(a.dtype).eps))


class _PinvDerivative:
    """The derivative of X, the pseudo-inverse of A, in both modes.

    Golub and Pereyra 1973, theorem 4.3: dX = -X dA X + X X' dA' (I - A X) + (I - X A) dA' X' X. Where `rcond` cuts
    off singular values that are not 0, the middle term is the B of B - X X' B N N' = X X' (X dA N' + dA')
    (I - A X) with N = A - A X A, from the derivative of A' A X = X A A', and likewise the last.
    """

    def __init__(self, a: TracedArray, x: TracedArray, *, truncates: bool) -> None:
        self.a, self.x, self.truncates = a, x, truncates
        self.left, self.right = x @ mh(x), mh(x) @ x
        self.cut = a - a @ (x @ a) if truncates else a  # of which only truncation asks

    def off_rows(self, y: Array) -> Array:
        """``y (I - A X)``."""
        return y - (y @ self.a) @ self.x

    def off_columns(self, y: object) -> TracedArray:
        """``(I - X A) y``."""
        return y - self.x @ (self.a @ y)

    def push(self, dot: TracedArray) -> TracedArray:
        x, turned = self.x, mh(dot)
        if not self.truncates:
            return self.left @ self.off_rows(turned) + self.off_columns(turned) @ self.right - x @ dot @ x
        cut = mh(self.cut)
        middle = apply(stein, self.left, self.cut @ cut, self.left @ self.off_rows(x @ dot @ cut + turned))
        last = apply(stein, cut @ self.cut, self.right, self.off_columns(cut @ dot @ x + turned) @ self.right)
        return middle + last - x @ dot @ x

    def pull(self, x_bar: TracedArray) -> Array:
        """The transpose of `push`; the projectors are Hermitian, and so are both operators."""
        x, y, z = self.x, x_bar, x_bar
        if self.truncates:
            cut = mh(self.cut)
            y, z = apply(stein, self.left, self.cut @ cut, x_bar), apply(stein, cut @ self.cut, self.right, x_bar)
        middle, last = self.left @ self.off_rows(y), self.off_columns(z) @ self.right
        out = mh(middle) + mh(last) - mh(x) @ x_bar @ mh(x)
        if self.truncates:
            out = out + mh(x) @ middle @ self.cut + self.cut @ last @ mh(x)
        return out


def _pinv_type(a: ArrayType, rcond: ArrayType, **_: object) -> tuple[ArrayType, ...]:
    return (ArrayType((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),)


def _pinv(a: np.ndarray, rcond: np.ndarray, *, hermitian: bool, truncates: bool) -> np.ndarray:
    return np.linalg.pinv(a, rcond, hermitian)


def _pinv_jvp(dots: Bars, args: Args, outs: Args, *, hermitian: bool, truncates: bool) -> Sequence[object]:
    if dots[0] is ZERO:
        return [ZERO]
    whole = _symmetric_whole(args[0], hermitian=hermitian)
    return [_PinvDerivative(whole, outs[0], truncates=truncates).push(matrix_tangent(dots[0], hermitian=hermitian))]


def _pinv_vjp(bars: Bars, args: Args, outs: Args, *, hermitian: bool, truncates: bool) -> Sequence[object]:
    whole = _symmetric_whole(args[0], hermitian=hermitian)
    a_bar = _PinvDerivative(whole, outs[0], truncates=truncates).pull(hermitian_cotangents(bars)[0])
    return [matrix_cotangent(a_bar, args[0], hermitian=hermitian), ZERO]


def _symmetric_whole(a: TracedArray, *, hermitian: bool) -> Array:
    return hermitian_of_triangle(a, "L") if hermitian else a


def _pinv_batch(args: Args, mapped: Sequence[bool], size: int, **params: object) -> Sequence[object]:
    a, rcond = args
    (a,) = all_mapped([a], mapped[:1], size)
    lines = (size, *(1,) * (a.ndim - 2 - rcond.ndim), *rcond.shape[1:])
    return [apply(pinv, a, rcond.reshape(lines) if mapped[1] else rcond, **params)]


def _pinv_sample(shape: tuple[int, ...], rcond: float, **params: bool) -> Sample:
    return Sample(lambda rng: (rng.normal(size=shape), np.array(rcond)), {"hermitian": False, "truncates": False, **params})


# No derivative in `rcond`, which decides the singular values that count.
_PINVS = [
    _pinv_sample((2, 4, 3), 1e-12), _pinv_sample((2, 3), 1e-12), _pinv_sample((3, 3), 1e-12, hermitian=True),
    _pinv_sample((4, 3), 0.5, truncates=True),
]
pinv = opaque_op("pinv", _pinv_type, _pinv, _pinv_jvp, _pinv_vjp, *_PINVS, batch=_pinv_batch)


def _lstsq_type(a: ArrayType, b: ArrayType, *, rcond: float) -> tuple[ArrayType, ...]:
    *stack, m, n = a.shape
    s = ArrayType((*stack, min(m, n)), real_dtype(a.dtype))
    return ArrayType((*stack, n, b.shape[-1]), a.dtype), ArrayType(tuple(stack), INT4), s


def _lstsq(a: np.ndarray, b: np.ndarray, *, rcond: float) -> tuple[np.ndarray, ...]:
    """NumPy's least squares, which takes no stacks, for each matrix of the stack."""
    if a.ndim == 2:
        x, _, rank, s = np.linalg.lstsq(a, b, rcond)
        return x, np.asarray(rank, INT4)[()], s
    rows = [_lstsq(p, q, rcond=rcond) for p, q in zip(a, b, strict=True)]
    return tuple(np.stack(column) for column in zip(*rows, strict=True))


def _solver(a: TracedArray, rcond: float) -> tuple[TracedArray, _PinvDerivative]:
    """The pseudo-inverse that solves the least squares problem, and its derivative; a negative `rcond` means LAPACK's default."""
    cut = rcond if rcond >= 0 else EPS
    truncates = rcond_truncates(cut, a)
    x = apply(pinv, a, np.array(cut), hermitian=False, truncates=truncates)
    return x, _PinvDerivative(a, x, truncates=truncates)


def _lstsq_jvp(dots: Bars, args: Args, outs: Args, *, rcond: float) -> list[object]:
    (a_dot, b_dot), (a, b) = dots, args
    inverse, parts = _solver(a, rcond)
    x_dot = [ZERO if a_dot is ZERO else parts.push(a_dot) @ b, ZERO if b_dot is ZERO else inverse @ b_dot]
    s_dot = ZERO if a_dot is ZERO else svdvals_jvp([a_dot], [a], outs[2:], hermitian=False)[0]
    return [add_up(x_dot), ZERO, s_dot]


def _lstsq_vjp(bars: Bars, args: Args, outs: Args, *, rcond: float) -> list[object]:
    (a, b), (x_bar, _, s_bar) = args, hermitian_cotangents(bars)
    a_bar, b_bar = ZERO, ZERO
    if x_bar is not ZERO:
        inverse, parts = _solver(a, rcond)
        a_bar, b_bar = tape_cotangent(parts.pull(x_bar @ mh(b)), a), tape_cotangent(mh(inverse) @ x_bar, b)
    if s_bar is not ZERO:
        a_bar = add_up([a_bar, svdvals_vjp([s_bar], [a], outs[2:], hermitian=False)[0]])
    return [a_bar, b_bar]


def _lstsq_sample(rows: int, rcond: float) -> Sample:
    return Sample(lambda rng: (rng.normal(size=(rows, 3)), rng.normal(size=(rows, 2))), {"rcond": rcond})


_FITS = [_lstsq_sample(4, 1e-14), _lstsq_sample(2, -1.0), _lstsq_sample(4, 0.5)]
lstsq_ = opaque_op("lstsq", _lstsq_type, _lstsq, _lstsq_jvp, _lstsq_vjp, *_FITS)


def _inverted(a: np.ndarray) -> np.ndarray:
    """The inverse, NaN for singular matrices."""
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan) if a.ndim == 2 else np.stack([_inverted(matrix) for matrix in a])


# As `inv`, for condition numbers, which are infinite for singular matrices.
inv_or_nan = stacked_op("inv_or_nan", lambda a: (a,), _inverted, inverse_jvp, inverse_vjp, well_separated_matrices(2, 3, 3))
