"""Singular values, and the pseudo-inverse and least squares made of them: the ops and their rules.

Formulas: J. Townsend, "Differentiating the singular value decomposition", 2016; G. H. Golub and
V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
variables separate", SIAM J. Numer. Anal. 10(2), 1973. Equal singular values: see `eigenvalues.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arraytype import ArrayType
from ..primitive import ZERO, Primitive, Sample, register
from ..trace import TracedArray, apply, apply_many
from .eigenvalues import (
    _columns,
    _diagonal,
    _drift,
    _eye,
    _folded,
    _gaps,
    _h,
    _hermitian,
    _mirrored,
    _normal,
    _plain,
    _real,
    _reciprocal,
    _released,
    _row,
    _spaced,
    _stacked,
    _turn,
)
from .families import add_up
from .linalg import Args, Bars, _t

INT4 = np.dtype(np.int32)
EPS = float(np.finfo(np.float64).eps)  # NumPy calls LAPACK in double precision, also for float32

# --- singular values --------------------------------------------------------------------------


def _svd_type(a: ArrayType, *, full: bool, hermitian: bool) -> tuple[ArrayType, ...]:
    *stack, m, n = a.shape
    k = min(m, n)
    u, s, vh = (m, m if full else k), (k,), (n if full else k, n)
    return ArrayType((*stack, *u), a.dtype), ArrayType((*stack, *s), _real(a.dtype)), ArrayType((*stack, *vh), a.dtype)


def _moved(dot: TracedArray, *, hermitian: bool) -> TracedArray:
    """The tangent of the matrix that is decomposed: NumPy reads its lower triangle if `hermitian`."""
    return _mirrored(dot, "L") if hermitian else dot


def _unmoved(a_bar: TracedArray, a: TracedArray, *, hermitian: bool) -> TracedArray:
    return _plain(_folded(a_bar, "L") if hermitian else a_bar, a)


def _thin(outs: Args) -> tuple[TracedArray, TracedArray, TracedArray]:
    """``(U, s, V)`` with as many columns as there are singular values."""
    u, s, vh = outs
    k = s.shape[-1]
    return u[..., :k], s, _h(vh[..., :k, :])


def _sums(s: TracedArray) -> TracedArray:
    """``1 / (s[i] + s[j])``, and 0 where both are 0."""
    return _reciprocal(np.expand_dims(s, -2) + np.expand_dims(s, -1))


def _beside(q: TracedArray, x: object) -> TracedArray:
    """What is left of `x` beside the span of the columns of `q`."""
    return x - q @ (_h(q) @ x)


def _widened(q: TracedArray, q_dot: TracedArray, away: TracedArray) -> TracedArray:
    """The tangent of all columns of a unitary `q`, from that of the first ones, `away` beside their span.

    How the other columns turn among themselves is no property of the matrix: they do not.
    """
    k = q_dot.shape[-1]
    return q_dot if q.shape[-1] == k else np.concatenate([q_dot, -(q[..., :k] @ (_h(away) @ q[..., k:]))], axis=-1)


def _narrowed(q: TracedArray, q_bar: TracedArray, k: int) -> TracedArray:
    """The transpose of `_widened`: a cotangent of the first `k` columns; pertains to what is beside their span."""
    rest = q_bar[..., k:]
    return q_bar[..., :k] if q.shape[-1] == k else q_bar[..., :k] - q[..., k:] @ (_h(rest) @ q[..., :k])


def _real_side(u: TracedArray, v: TracedArray, at_u: object, at_v: object) -> tuple[TracedArray, object]:
    """Of both sides the one whose first row the bidiagonal reduction of LAPACK leaves real."""
    return (v, at_v) if u.shape[-2] >= v.shape[-2] else (u, at_u)


def _svd_jvp(dots: Bars, args: Args, outs: Args, *, full: bool, hermitian: bool) -> list[object]:
    """With P = U' dA V and dU = U X, dV = V Y: X - Y = (P - P') / (s + s'), X + Y = (P + P') / (s' - s).

    Townsend's formulas for X and Y have only differences in their denominators. Taken apart, what
    does not depend on the choice of vectors, such as U V', is right at equal singular values too.
    """
    u, s, v = _thin(outs)
    dot = _moved(dots[0], hermitian=hermitian)
    p = _h(u) @ dot @ v
    apart, along = _sums(s) * (p - _h(p)), _gaps(s) * (p + _h(p))
    over = _reciprocal(s)
    u_away, v_away = (_beside(q, _columns(x @ r, over)) for q, x, r in ((u, dot, v), (v, _h(dot), u)))
    u_dot = u @ (0.5 * (along + apart)) + u_away
    v_dot = v @ (0.5 * (along - apart)) + v_away
    if u.dtype.kind == "c":
        held, moved = _real_side(u, v, u_dot, v_dot)
        angle = _drift(moved, held, _row(held, 0))
        u_dot, v_dot = u_dot - 1j * _columns(u, angle), v_dot - 1j * _columns(v, angle)
    s_dot = np.sign(s) * np.real(_diagonal(p))
    return [_widened(outs[0], u_dot, u_away), s_dot, _h(_widened(_h(outs[2]), v_dot, v_away))]


def _turned_back(outs: Args, u_bar: object, v_bar: object) -> tuple[TracedArray, TracedArray]:
    """Cotangents of complex vectors before they were turned together to keep one row real."""
    u, s, v = _thin(outs)
    k = s.shape[-1]
    u_bar, v_bar = (np.zeros(q.shape, q.dtype) if bar is ZERO else bar for q, bar in ((outs[0], u_bar), (_h(outs[2]), v_bar)))
    turn = _turn(u, u_bar[..., :k]) + _turn(v, v_bar[..., :k])
    held, bar = _real_side(u, v, u_bar, v_bar)
    first = _released(bar[..., :k], held, _row(held, 0), turn)
    bar = np.concatenate([first, bar[..., k:]], axis=-1)
    return (u_bar, bar) if held is v else (bar, v_bar)


def _svd_vjp(bars: Bars, args: Args, outs: Args, *, full: bool, hermitian: bool) -> list[object]:
    u, s, v = _thin(outs)
    u_bar, s_bar, vh_bar = _hermitian(bars)
    k, over, none = s.shape[-1], _reciprocal(s), np.zeros(s.shape, s.dtype)
    inner = np.expand_dims(none if s_bar is ZERO else np.sign(s) * s_bar, -1) * _eye(s)
    v_bar = vh_bar if vh_bar is ZERO else _h(vh_bar)
    if u.dtype.kind == "c" and not u_bar is v_bar is ZERO:
        u_bar, v_bar = _turned_back(outs, u_bar, v_bar)
    half_u = half_v = 0.0
    away = []
    if u_bar is not ZERO:
        half_u = 0.5 * (_h(u) @ u_bar[..., :k])
        away.append(_columns(_beside(u, _narrowed(outs[0], u_bar, k)), over) @ _h(v))
    if v_bar is not ZERO:
        half_v = 0.5 * (_h(v) @ v_bar[..., :k])
        away.append(u @ _h(_columns(_beside(v, _narrowed(_h(outs[2]), v_bar, k)), over)))
    if away:
        along, apart = _gaps(s) * (half_u + half_v), _sums(s) * (half_u - half_v)
        inner = inner + (along + _h(along)) + (apart - _h(apart))
    return [_unmoved(add_up([u @ inner @ _h(v), *away]), args[0], hermitian=hermitian)]


def _svdvals_jvp(dots: Bars, args: Args, outs: Args, *, hermitian: bool) -> list[object]:
    u, s, v = _thin(apply_many(svd, args[0], full=False, hermitian=hermitian))
    moved = np.sum(np.conjugate(u) * (_moved(dots[0], hermitian=hermitian) @ v), axis=-2)
    return [np.sign(s) * np.real(moved)]


def _svdvals_vjp(bars: Bars, args: Args, outs: Args, *, hermitian: bool) -> list[object]:
    u, s, v = _thin(apply_many(svd, args[0], full=False, hermitian=hermitian))
    return [_unmoved(_columns(u, np.sign(s) * bars[0]) @ _h(v), args[0], hermitian=hermitian)]


def _svd(a: np.ndarray, *, full: bool, hermitian: bool) -> tuple[np.ndarray, ...]:
    return tuple(np.linalg.svd(a, full, hermitian=hermitian))


svd = _stacked(
    "svd", _svd_type, _svd, _svd_jvp, _svd_vjp, *(
        Sample(_normal(*shape), {"full": False, "hermitian": hermitian})
        for shape, hermitian in (((2, 4, 3), False), ((2, 3), False), ((3, 3), True))
    ),
)  # fmt: skip
# At a singular value of 0 the slope is 0, the mean of those of both sides.
svdvals = _stacked(
    "svdvals", lambda a, *, hermitian: _svd_type(a, full=False, hermitian=hermitian)[1:2],
    lambda a, *, hermitian: np.linalg.svd(a, compute_uv=False, hermitian=hermitian), _svdvals_jvp, _svdvals_vjp,
    Sample(_normal(2, 4, 3), {"hermitian": False}), Sample(_normal(3, 3), {"hermitian": True}),
)  # fmt: skip

# --- pseudo-inverse and least squares ---------------------------------------------------------


def _stein(p: np.ndarray, r: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The x with ``x - p x n = r``, by doubling (R. A. Smith, SIAM J. Appl. Math. 16(1), 1968)."""
    size = np.max(np.abs(p), axis=(-2, -1), keepdims=True, initial=0.0)
    size = np.where(size == 0, 1.0, size)
    p, n, x = p / size, n * size, r
    for _ in range(64):
        step = p @ x @ n
        if not np.any(np.abs(step) > 1e-18 * np.max(np.abs(x), initial=0.0)):
            break
        x, p, n = x + step, p @ p, n @ n
    return (x + p @ x @ n).astype(r.dtype)


def _stein_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    (p, _, n), (p_dot, r_dot, n_dot), x = args, dots, outs[0]
    terms = [r_dot, ZERO if p_dot is ZERO else p_dot @ x @ n, ZERO if n_dot is ZERO else p @ x @ n_dot]
    return [apply(stein, p, add_up(terms), n)]


def _stein_vjp(bars: Bars, args: Args, outs: Args) -> list[object]:
    (p, _, n), x = args, outs[0]
    r_bar = apply(stein, _t(p), bars[0], _t(n))
    return [r_bar @ _t(x @ n), r_bar, _t(p @ x) @ r_bar]


stein = register(
    Primitive(
        "stein", lambda p, r, n: (r,), _stein, _stein_jvp, _stein_vjp,
        lambda args, mapped, size: [apply(stein, *[a if on else np.broadcast_to(a, (size, *a.shape)) for a, on in zip(args, mapped, strict=True)])],
        family="opaque", samples=(Sample(lambda rng: (0.2 * rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 4)), 0.2 * rng.normal(size=(2, 4, 4)))),),
    )
)  # fmt: skip


def _truncates(rcond: object, a: TracedArray) -> bool:
    """Whether `rcond` may cut off singular values that are more than rounding errors."""
    return bool(np.any(np.asarray(rcond) > 10.0 * max(a.shape[-2:]) * np.finfo(a.dtype).eps))


class _PinvDerivative:
    """What the derivative of X, the pseudo-inverse of A, is made of.

    Golub and Pereyra 1973: dX = -X dA X + X X' dA' (I - A X) + (I - X A) dA' X' X. Where `rcond` cuts
    off singular values that are not 0, the middle term is the B of B - X X' B N N' = X X' (X dA N' + dA')
    (I - A X) with N = A - A X A, from the derivative of A' A X = X A A', and likewise the last.
    """

    def __init__(self, a: TracedArray, x: TracedArray, *, truncates: bool) -> None:
        self.a, self.x, self.truncates = a, x, truncates
        self.left, self.right = x @ _h(x), _h(x) @ x
        self.cut = a - a @ (x @ a) if truncates else a  # of which only truncation asks

    def off_rows(self, y: object) -> TracedArray:
        """``y (I - A X)``."""
        return y - (y @ self.a) @ self.x

    def off_columns(self, y: object) -> TracedArray:
        """``(I - X A) y``."""
        return y - self.x @ (self.a @ y)

    def push(self, dot: TracedArray) -> TracedArray:
        x, turned = self.x, _h(dot)
        if not self.truncates:
            return self.left @ self.off_rows(turned) + self.off_columns(turned) @ self.right - x @ dot @ x
        cut = _h(self.cut)
        middle = apply(stein, self.left, self.left @ self.off_rows(x @ dot @ cut + turned), self.cut @ cut)
        last = apply(stein, cut @ self.cut, self.off_columns(cut @ dot @ x + turned) @ self.right, self.right)
        return middle + last - x @ dot @ x

    def pull(self, x_bar: TracedArray) -> TracedArray:
        """The transpose of `push`; the projectors are Hermitian, and so are both operators."""
        x, y, z = self.x, x_bar, x_bar
        if self.truncates:
            cut = _h(self.cut)
            y, z = apply(stein, self.left, x_bar, self.cut @ cut), apply(stein, cut @ self.cut, x_bar, self.right)
        middle, last = self.left @ self.off_rows(y), self.off_columns(z) @ self.right
        out = _h(middle) + _h(last) - _h(x) @ x_bar @ _h(x)
        if self.truncates:
            out = out + _h(x) @ middle @ self.cut + self.cut @ last @ _h(x)
        return out


def _pinv_type(a: ArrayType, rcond: ArrayType, **_: object) -> tuple[ArrayType, ...]:
    return (ArrayType((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),)


def _pinv_jvp(dots: Bars, args: Args, outs: Args, *, hermitian: bool, truncates: bool) -> list[object]:
    if dots[0] is ZERO:
        return [ZERO]
    whole = _symmetric_whole(args[0], hermitian=hermitian)
    return [_PinvDerivative(whole, outs[0], truncates=truncates).push(_moved(dots[0], hermitian=hermitian))]


def _pinv_vjp(bars: Bars, args: Args, outs: Args, *, hermitian: bool, truncates: bool) -> list[object]:
    whole = _symmetric_whole(args[0], hermitian=hermitian)
    a_bar = _PinvDerivative(whole, outs[0], truncates=truncates).pull(_hermitian(bars)[0])
    return [_unmoved(a_bar, args[0], hermitian=hermitian), ZERO]


def _symmetric_whole(a: TracedArray, *, hermitian: bool) -> TracedArray:
    return _mirrored(a, "L") if hermitian else a


def _pinv_batch(args: Args, mapped: Sequence[bool], size: int, **params: object) -> list[object]:
    a, rcond = args
    a = a if mapped[0] else np.broadcast_to(a, (size, *a.shape))
    lines = (size, *(1,) * (a.ndim - 2 - rcond.ndim), *rcond.shape[1:])
    return [apply(pinv, a, rcond.reshape(lines) if mapped[1] else rcond, **params)]


def _pinv_sample(shape: tuple[int, ...], rcond: float, **params: bool) -> Sample:
    return Sample(lambda rng: (rng.normal(size=shape), np.array(rcond)), {"hermitian": False, "truncates": False, **params})


# No slope in `rcond`: it decides which singular values count.
pinv = register(
    Primitive(
        "pinv", _pinv_type, lambda a, rcond, *, hermitian, truncates: np.linalg.pinv(a, rcond, hermitian), _pinv_jvp, _pinv_vjp, _pinv_batch,
        family="opaque", samples=(
            _pinv_sample((2, 4, 3), 1e-12), _pinv_sample((2, 3), 1e-12), _pinv_sample((3, 3), 1e-12, hermitian=True),
            _pinv_sample((4, 3), 0.5, truncates=True),
        ),
    )
)  # fmt: skip


def _lstsq_type(a: ArrayType, b: ArrayType, *, rcond: float) -> tuple[ArrayType, ...]:
    *stack, m, n = a.shape
    s = ArrayType((*stack, min(m, n)), _real(a.dtype))
    return ArrayType((*stack, n, b.shape[-1]), a.dtype), ArrayType(tuple(stack), INT4), s


def _lstsq(a: np.ndarray, b: np.ndarray, *, rcond: float) -> tuple[np.ndarray, ...]:
    """NumPy's least squares, which takes no stacks, for each matrix of the stack."""
    if a.ndim == 2:
        x, _, rank, s = np.linalg.lstsq(a, b, rcond)
        return x, np.asarray(rank, INT4)[()], s
    rows = [_lstsq(p, q, rcond=rcond) for p, q in zip(a, b, strict=True)]
    return tuple(np.stack(column) for column in zip(*rows, strict=True))


def _solver(a: TracedArray, rcond: float) -> tuple[TracedArray, _PinvDerivative]:
    """The pseudo-inverse that least squares apply, and its derivative; below 0, `rcond` is LAPACK's own."""
    cut = rcond if rcond >= 0 else EPS
    truncates = _truncates(cut, a)
    x = apply(pinv, a, np.array(cut), hermitian=False, truncates=truncates)
    return x, _PinvDerivative(a, x, truncates=truncates)


def _lstsq_jvp(dots: Bars, args: Args, outs: Args, *, rcond: float) -> list[object]:
    (a_dot, b_dot), (a, b) = dots, args
    inverse, parts = _solver(a, rcond)
    x_dot = [ZERO if a_dot is ZERO else parts.push(a_dot) @ b, ZERO if b_dot is ZERO else inverse @ b_dot]
    s_dot = ZERO if a_dot is ZERO else _svdvals_jvp([a_dot], [a], outs[2:], hermitian=False)[0]
    return [add_up(x_dot), ZERO, s_dot]


def _lstsq_vjp(bars: Bars, args: Args, outs: Args, *, rcond: float) -> list[object]:
    (a, b), (x_bar, _, s_bar) = args, _hermitian(bars)
    a_bar, b_bar = ZERO, ZERO
    if x_bar is not ZERO:
        inverse, parts = _solver(a, rcond)
        a_bar, b_bar = _plain(parts.pull(x_bar @ _h(b)), a), _plain(_h(inverse) @ x_bar, b)
    if s_bar is not ZERO:
        a_bar = add_up([a_bar, _svdvals_vjp([s_bar], [a], outs[2:], hermitian=False)[0]])
    return [a_bar, b_bar]


def _lstsq_batch(args: Args, mapped: Sequence[bool], size: int, *, rcond: float) -> Sequence[object]:
    wide = [a if on else np.broadcast_to(a, (size, *a.shape)) for a, on in zip(args, mapped, strict=True)]
    return apply_many(lstsq_, *wide, rcond=rcond)


lstsq_ = register(
    Primitive(
        "lstsq", _lstsq_type, _lstsq, _lstsq_jvp, _lstsq_vjp, _lstsq_batch, family="opaque", samples=(
            Sample(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(4, 2))), {"rcond": 1e-14}),
            Sample(lambda rng: (rng.normal(size=(2, 3)), rng.normal(size=(2, 2))), {"rcond": -1.0}),
            Sample(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(4, 2))), {"rcond": 0.5}),
        ),
    )
)  # fmt: skip


def _inverted(a: np.ndarray) -> np.ndarray:
    """The inverse, NaN for singular matrices."""
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan) if a.ndim == 2 else np.stack([_inverted(one) for one in a])


# As `inv`, for condition numbers, which are infinite for singular matrices.
inv_or_nan = _stacked(
    "inv_or_nan", lambda a: (a,), _inverted, lambda dots, args, outs: [-(outs[0] @ dots[0] @ outs[0])],
    lambda bars, args, outs: [-(_t(outs[0]) @ bars[0] @ _t(outs[0]))], Sample(_spaced(2, 3, 3)),
)  # fmt: skip
