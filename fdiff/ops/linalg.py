"""Linear algebra on square matrices, stacked along leading axes as NumPy does.

Formulas: M. B. Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation", Advances in Automatic Differentiation, Springer 2008; Cholesky:
I. Murray, "Differentiation of the Cholesky decomposition", arXiv:1602.07527 (2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index

import numpy as np

from ..arraytype import BOOL, ArrayType, broadcast, promote
from ..kernel_rule import KernelRule, Kind, Routine
from ..primitive import PRIMITIVES, ZERO, Primitive, Sample, register
from ..trace import TracedArray, apply, apply_many, current, implements, unsupported
from ..trace.exception_context import inside_try
from ..trace.record import record
from .families import add_up, kind_of, stretch, unbroadcast
from .kink_marks import kink_search, marked
from .reductions import as_scalar
from .shaping import normal_axes, reshape_call, traced
from .statistics import root

Args = Sequence[TracedArray]
Bars = Sequence[object]


def _t(x: object) -> TracedArray:
    return np.swapaxes(x, -1, -2)


def _regular(n: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.normal(size=(2, n, n)) + 3.0 * np.eye(n),)


def _spd(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    a = rng.normal(size=(2, 3, 3))
    return (a @ np.swapaxes(a, -1, -2) + 2.0 * np.eye(3),)


def _leading(args: Args, mapped: Sequence[bool], core: Sequence[int]) -> list[TracedArray]:
    """Mapped arguments with ones behind the batch axis, so that stacks line up."""
    stacks = max(a.ndim - m - c for a, m, c in zip(args, mapped, core, strict=True))
    return [
        a.reshape((a.shape[0], *(1,) * (stacks - (a.ndim - 1 - c)), *a.shape[1:])) if m else a
        for a, m, c in zip(args, mapped, core, strict=True)
    ]


# --- solve ------------------------------------------------------------------------------------


def _solved(a: ArrayType, b: ArrayType) -> tuple[ArrayType, ...]:
    return (ArrayType((*broadcast(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype),)


def _solve_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    (a_dot, b_dot), a, x = dots, args[0], outs[0]
    moved = ZERO if a_dot is ZERO else -(a_dot @ x)
    return [stretch(apply(solve, a, add_up([b_dot, moved])), x.shape)]


def _solve_vjp(bars: Bars, args: Args, outs: Args) -> list[object]:
    b_bar = apply(solve, _t(args[0]), bars[0])
    a_bar = -(b_bar @ _t(outs[0]))
    return [unbroadcast(a_bar, args[0].shape), unbroadcast(b_bar, args[1].shape)]


solve = register(
    Primitive(
        "solve", _solved, np.linalg.solve, _solve_jvp, _solve_vjp,
        lambda args, mapped, size: [apply(solve, *_leading(args, mapped, (2, 2)))],
        KernelRule(Kind.SOLVE, routine=Routine("solve", scratch=1, columns=True)), "opaque", samples=(Sample(lambda rng: (*_regular(3)(rng), rng.normal(size=(2, 3, 2)))),),
    )
)  # fmt: skip

# --- inverse and determinants -----------------------------------------------------------------


def _same(a: ArrayType) -> tuple[ArrayType, ...]:
    return (a,)


def _scalar_each(a: ArrayType) -> tuple[ArrayType, ...]:
    return (ArrayType(a.shape[:-2], a.dtype),)


def _two_each(a: ArrayType) -> tuple[ArrayType, ...]:
    return _scalar_each(a) * 2


def _weighted(bar: object, matrix: TracedArray) -> TracedArray:
    """A number for each matrix of the stack times that matrix."""
    return np.expand_dims(bar, (-2, -1)) * matrix


def _paired(a: object, b: object) -> TracedArray:
    """Sum over entries of the product, for each matrix of the stack."""
    return np.sum(a * b, axis=(-2, -1))


def opaque(
    name: str, routine: Routine, infer: Callable[..., tuple[ArrayType, ...]], evaluate: Callable[..., object], jvp: Callable[..., Sequence[object]],
    vjp: Callable[..., Sequence[object]], sample: Callable[..., tuple[np.ndarray, ...]], kind: Kind = Kind.ROUTINE,
) -> Primitive:  # fmt: skip
    """An op of one stack of matrices, batched by one more leading axis."""

    def batch(args: Args, mapped: object, size: int) -> Sequence[object]:
        return apply_many(primitive, args[0]) if len(infer(args[0].type)) > 1 else [apply(primitive, args[0])]

    primitive = Primitive(name, infer, evaluate, jvp, vjp, batch, KernelRule(kind, routine=routine), "opaque", samples=(Sample(sample),))
    return register(primitive)


inv = opaque(
    "inv", Routine("inv", scratch=1), _same, np.linalg.inv, lambda dots, args, outs: [-(outs[0] @ dots[0] @ outs[0])],
    lambda bars, args, outs: [-(_t(outs[0]) @ bars[0] @ _t(outs[0]))], _regular(3),
)  # fmt: skip


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
    """Products of all singular values but those of numbers i and j, at ``[i, j]``; 0 on the diagonal."""
    n = s.shape[-1]
    kept = np.where(np.eye(n, dtype=bool), 1.0, s[..., None, :])
    one = np.ones((*kept.shape[:-1], 1))
    before = np.concatenate([one, np.cumprod(kept, axis=-1)[..., :-1]], axis=-1)
    after = np.concatenate([np.cumprod(kept[..., ::-1], axis=-1)[..., -2::-1], one], axis=-1)
    return before * after * (1.0 - np.eye(n))


def _first_minors(a: np.ndarray, dot: np.ndarray) -> np.ndarray:
    """Derivative of the cofactor matrix in the direction `dot`, also where `a` is singular.

    With A = U S V' and P = U' dA V that of the cofactors of the diagonal S is M: M[i, j] = -c[i, j] P[j, i],
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
    ``a + t dot``, from values at roots of unity (J. N. Lyness and C. B. Moler, SIAM J. Numer. Anal. 4(2), 1967).
    """
    n, shape = a.shape[-1], np.broadcast_shapes(a.shape, *(d.shape for d in dots))
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


minors = register(
    Primitive(
        "minors", lambda a, *dots: (ArrayType(broadcast(a.shape, *(d.shape for d in dots)), a.dtype),), _minors, _minors_jvp, _minors_vjp,
        lambda args, mapped, size: [apply(minors, *_leading(args, mapped, (2,) * len(args)))],
        family="opaque", samples=tuple(
            Sample(lambda rng, count=count: tuple(rng.normal(size=(count + 1, 2, 3, 3)))) for count in (1, 2)
        ),
    )
)  # fmt: skip
cofactor = opaque(
    "cofactor", Routine("cofactor", scratch=2, scratch_dtype="f8"), _same, cofactors, lambda dots, args, outs: [apply(minors, args[0], dots[0])],
    lambda bars, args, outs: [apply(minors, args[0], bars[0])], _regular(3),
)  # fmt: skip
det = opaque(
    "det", Routine("det", scratch=1), _scalar_each, np.linalg.det, lambda dots, args, outs: [_paired(apply(cofactor, args[0]), dots[0])],
    lambda bars, args, outs: [_weighted(bars[0], apply(cofactor, args[0]))], _regular(3),
)  # fmt: skip
slogdet = opaque(
    "slogdet", Routine("slogdet", scratch=1), _two_each, lambda a: tuple(np.linalg.slogdet(a)),
    lambda dots, args, outs: [ZERO, _paired(_t(apply(inv, args[0])), dots[0])],
    lambda bars, args, outs: [ZERO if bars[1] is ZERO else _weighted(bars[1], _t(apply(inv, args[0])))], _regular(3),
)  # fmt: skip

# --- Cholesky: of the lower triangle, the upper one is never read -----------------------------


def _phi(x: TracedArray) -> TracedArray:
    """Lower triangle with the diagonal halved."""
    n = x.shape[-1]
    weight = np.tril(np.ones((n, n), x.dtype)) - 0.5 * np.eye(n, dtype=x.dtype)
    return x * weight.astype(x.dtype)


def _cholesky_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    low = outs[0]
    symmetric = np.tril(dots[0]) + _t(np.tril(dots[0], -1))
    half = apply(solve, low, symmetric)
    return [low @ _phi(_t(apply(solve, low, _t(half))))]


def _cholesky_vjp(bars: Bars, args: Args, outs: Args) -> list[object]:
    return [apply(cholesky_bar, outs[0], bars[0])]


cholesky_ = opaque(
    "cholesky", Routine("cholesky"), _same, np.linalg.cholesky, _cholesky_jvp, _cholesky_vjp, _spd, Kind.CHOLESKY
)  # fmt: skip

# The cotangent of a matrix whose factor is L with cotangent B: phi(S + S') with S = inv(L') phi(L' B) inv(L). It is
# an op because kernels do it block by block with a fifth of the work. Its rules hold for any regular L:
# with M = phi(dL' B), N = inv(L') dL' (S + S') it moves by phi(inv(L') (M + M') inv(L) - N - N').


def _low_bar(low: np.ndarray, bar: np.ndarray) -> np.ndarray:
    n = low.shape[-1]
    weight = np.tril(np.ones((n, n), low.dtype)) - (0.5 * np.eye(n)).astype(low.dtype)
    up = np.swapaxes(low, -1, -2)
    half = np.linalg.solve(up, (up @ bar) * weight)
    full = np.linalg.solve(up, np.swapaxes(half, -1, -2))
    return (full + np.swapaxes(full, -1, -2)) * weight


def _low_bar_jvp(dots: Bars, args: Args, outs: Args) -> list[object]:
    (low_dot, bar_dot), (low, bar), out = dots, args, outs[0]
    moved = ZERO if bar_dot is ZERO else apply(cholesky_bar, low, bar_dot)
    if low_dot is not ZERO:
        middle = _phi(_t(low_dot) @ bar)
        half = apply(solve, _t(low), middle + _t(middle))
        turned = apply(solve, _t(low), _t(low_dot)) @ (out + _t(out))
        moved = add_up([moved, _phi(apply(solve, _t(low), _t(half)) - turned - _t(turned))])
    return [stretch(moved, out.shape)]


def _low_bar_vjp(bars: Bars, args: Args, outs: Args) -> list[object]:
    (low, bar), out, weighted = args, outs[0], _phi(bars[0])
    half = apply(solve, low, weighted + _t(weighted))
    middle = _phi(_t(apply(solve, low, _t(half))))
    low_bar = bar @ _t(middle) - (out + _t(out)) @ _t(half)
    return [unbroadcast(low_bar, low.shape), unbroadcast(low @ middle, bar.shape)]


cholesky_bar = register(
    Primitive(
        "cholesky_bar", lambda low, bar: (ArrayType(broadcast(low.shape, bar.shape), low.dtype),), _low_bar, _low_bar_jvp, _low_bar_vjp,
        lambda args, mapped, size: [apply(cholesky_bar, *_leading(args, mapped, (2, 2)))],
        KernelRule(Kind.ROUTINE, routine=Routine("cholesky_bar", broadcast=True)), "opaque",
        samples=(Sample(lambda rng: (np.linalg.cholesky(*_spd(rng)), rng.normal(size=(2, 3, 3)))),),
    )
)  # fmt: skip

# --- matrices that NumPy refuses ----------------------------------------------------------------


def _refused(a: np.ndarray, *, name: str, lead: int) -> np.ndarray:
    """Whether the op raises LinAlgError, for each entry of the leading axes."""
    out = np.zeros(a.shape[:lead], bool)
    for k in np.ndindex(out.shape):
        try:
            PRIMITIVES[name].evaluate(a[k], *([np.zeros((*a.shape[-1:], 1))] if name == "solve" else []))
        except np.linalg.LinAlgError:
            out[k] = True
    return out[()]


refused = register(
    Primitive(
        "refused", lambda a, *, name, lead: (ArrayType(a.shape[:lead], BOOL),), _refused,
        batch=lambda args, mapped, size, *, name, lead: [apply(refused, args[0], name=name, lead=lead + 1)], flat=True,
        samples=(Sample(lambda rng: (np.stack([np.eye(2), np.zeros((2, 2))]),), {"name": "inv", "lead": 1}),),
    )
)  # fmt: skip


def attempt(name: str, a: TracedArray) -> None:
    """Raise here, where the user would catch it, what the op would raise when it is run.

    Only code inside a ``try`` asks; whether the matrix was refused is then a guard of the tape.
    """
    trace = current()
    if not (trace.mutable and inside_try(record.__code__) and trace.looks.knows(trace.own(a))):
        return
    if bool(apply(refused, a, name=name, lead=0)):
        words = "Matrix is not positive definite" if name == "cholesky" else "Singular matrix"
        raise np.linalg.LinAlgError(words)


# --- what answers for NumPy -------------------------------------------------------------------


def _square(x: object, name: str) -> TracedArray:
    """A stack of square floating matrices, or NumPy's own error."""
    a = traced(x)
    if a.ndim < 2:
        raise np.linalg.LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    if a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if a.dtype.kind not in ("biufc" if name in ("solve", "inv", "det") else "biuf"):
        raise unsupported(f"numpy.linalg.{name} of {a.dtype}")
    return a if a.type.floating else a.astype(np.float64)


def _scalar(x: TracedArray) -> TracedArray:
    return TracedArray(x.home, x.id, x.type, scalar=not x.shape)


@implements(np.linalg.solve)
def solve_call(a: object, b: object) -> TracedArray:
    """Solution of ``a x = b`` for a vector or a matrix `b`."""
    left, right = _square(a, "solve"), traced(b)
    if left.shape[-1] != right.shape[0 if right.ndim == 1 else -2]:
        raise ValueError(f"solve: Input operand 1 has a mismatch in its core dimension 0 (size {right.shape[0 if right.ndim == 1 else -2]} is different from {left.shape[-1]})")
    dtype = promote(kind_of(left), kind_of(right))
    left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
    attempt("solve", left)
    if right.ndim == 1:
        return reshape_call(apply(solve, left, right.reshape((-1, 1))), (*left.shape[:-2], -1))
    return apply(solve, left, right)


@implements(np.linalg.inv)
def inv_call(a: object) -> TracedArray:
    given = _square(a, "inv")
    attempt("inv", given)
    return apply(inv, given)


@implements(np.linalg.det)
def det_call(a: object) -> TracedArray:
    """Determinant; its gradient is exact for singular matrices too."""
    return _scalar(apply(det, _square(a, "det")))


@implements(np.linalg.slogdet)
def slogdet_call(a: object) -> object:
    """Sign and logarithm of the determinant, as NumPy's named tuple."""
    sign, logabs = apply_many(slogdet, _square(a, "slogdet"))
    result = type(np.linalg.slogdet(np.eye(1)))
    return result(_scalar(sign), _scalar(logabs))


@implements(np.linalg.cholesky)
def cholesky(a: object, /, *, upper: bool = False) -> TracedArray:
    """Lower factor of a symmetric positive definite matrix; the lower triangle is read."""
    given = _square(a, "cholesky")
    attempt("cholesky", _t(given) if upper else given)
    low = apply(cholesky_, _t(given) if upper else given)
    return _t(low) if upper else low


NORM = "numpy.linalg.norm"
_START = ({}, {"initial": 0.0})  # largest of nothing


def _squares(a: TracedArray) -> TracedArray:
    return np.square(a) if a.dtype.kind != "c" else np.square(np.real(a)) + np.square(np.imag(a))


@implements(np.linalg.norm)
def norm(x: object, ord: object = None, axis: object = None, keepdims: bool = False) -> TracedArray:  # noqa: A002 - NumPy's word
    """Vector and matrix norms of every order.

    The 2-norm at 0 has slope 0. Spectral and nuclear norms are made of singular values.
    """
    a = traced(x)
    a = a if a.type.floating else a.astype(np.float64)
    if axis is None and (ord is None or (ord in ("f", "fro") and a.ndim == 2) or (ord == 2 and a.ndim == 1)):
        flat = root(np.sum(_squares(a.reshape(-1))), NORM, "0")
        return flat.reshape((1,) * a.ndim) if keepdims else flat
    axes = normal_axes(axis, a.ndim)
    if len(axes) == 1:
        return _vector_norm(a, ord, axes[0], keepdims=keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    return _matrix_norm(a, ord, axes if axis is None else tuple(int(k) % a.ndim for k in np.atleast_1d(axis)), keepdims=keepdims)


def _vector_norm(a: TracedArray, ord: object, axis: int, *, keepdims: bool) -> TracedArray:  # noqa: A002 - NumPy's word
    size = np.abs(a)
    keep = {"axis": axis, "keepdims": keepdims}
    if ord is None or ord == 2:
        return root(np.sum(_squares(a), **keep), NORM, "0")
    if ord == np.inf:
        return np.max(size, **keep, **_START[not a.shape[axis]])
    if ord == -np.inf:
        return np.min(size, **keep)
    if ord == 0:
        return np.sum((a != 0).astype(size.dtype), **keep)
    if ord == 1:
        return np.sum(size, **keep)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")  # noqa: TRY004 - NumPy's error
    if kink_search.on and ord > 1:  # |x| ** ord has a slope at 0
        size = np.where(a == 0, 0.0, size)
    total = np.sum(size**ord, **keep)
    safe = np.where(total == 0, 1.0, total)
    out = as_scalar(np.where(total == 0, 0.0, safe ** (1.0 / ord)).astype(size.dtype))
    return marked(out, lambda: total == 0, NORM, "0")


def _matrix_norm(a: TracedArray, ord: object, axes: tuple[int, ...], *, keepdims: bool) -> TracedArray:  # noqa: A002 - as above
    rows, cols = axes
    if ord in (None, "f", "fro"):
        return root(np.sum(_squares(a), axis=axes, keepdims=keepdims), NORM, "0")
    if ord in (1, -1, np.inf, -np.inf):
        inner, outer = (rows, cols) if ord in (1, -1) else (cols, rows)
        sums = np.sum(np.abs(a), axis=inner, keepdims=True)
        pick = np.max if ord in (1, np.inf) else np.min
        best = pick(sums, axis=outer, keepdims=True, **_START[pick is np.max and not a.shape[outer]])
        return best if keepdims else _scalar(np.squeeze(best, axis=tuple(axes)))
    if ord in (2, -2, "nuc"):
        return _spectral_norm(a, ord, axes, keepdims=keepdims)
    raise ValueError("Invalid norm order for matrices.")


def _spectral_norm(a: TracedArray, ord: object, axes: tuple[int, ...], *, keepdims: bool) -> TracedArray:  # noqa: A002 - as above
    """The norms made of singular values: the largest, the smallest, their sum."""
    s = np.linalg.svd(np.moveaxis(a, axes, (-2, -1)), compute_uv=False)
    if ord == "nuc":
        out = np.sum(s, axis=-1)
    else:
        out = np.max(s, axis=-1, **_START[not s.shape[-1]]) if ord == 2 else np.min(s, axis=-1)
    return out.reshape(tuple(1 if k in axes else n for k, n in enumerate(a.shape))) if keepdims else as_scalar(out)


# --- the array API's names, and products ------------------------------------------------------


for _function, _like in ((np.linalg.matmul, np.matmul), (np.linalg.vecdot, np.vecdot), (np.linalg.matrix_transpose, np.matrix_transpose)):
    implements(_function)(_like)


@implements(np.linalg.outer)
def outer(x1: object, x2: object, /) -> TracedArray:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError("Input arrays must be one-dimensional")
    return np.outer(traced(x1), x2)


@implements(np.linalg.cross)
def cross(x1: object, x2: object, /, *, axis: int = -1) -> TracedArray:
    return np.cross(traced(x1), x2, axis=axis)


@implements(np.linalg.diagonal)
def diagonal_call(x: object, /, *, offset: int = 0) -> TracedArray:
    return np.diagonal(traced(x), offset, -2, -1)


@implements(np.linalg.trace)
def trace_call(x: object, /, *, offset: int = 0, dtype: object = None) -> TracedArray:
    return np.trace(traced(x), offset, -2, -1, dtype)


@implements(np.linalg.vector_norm)
def vector_norm(x: object, /, *, axis: object = None, keepdims: bool = False, ord: object = 2) -> TracedArray:  # noqa: A002 - as above
    """Norm of the array, or along axes, taken as one vector."""
    a = traced(x)
    axes = normal_axes(axis, a.ndim)
    rest = [k for k in range(a.ndim) if k not in axes]
    flat = reshape_call(np.transpose(a, (*rest, *axes)), (*(a.shape[k] for k in rest), -1))
    out = norm(flat, ord, axis=-1)
    kept = tuple(1 if k in axes else n for k, n in enumerate(a.shape))
    return out.reshape(kept) if keepdims else out


@implements(np.linalg.matrix_norm)
def matrix_norm(x: object, /, *, keepdims: bool = False, ord: object = "fro") -> TracedArray:  # noqa: A002 - as above
    return norm(x, ord, axis=(-2, -1), keepdims=keepdims)


@implements(np.linalg.matrix_power)
def matrix_power(a: object, n: int) -> TracedArray:
    """Power of a matrix by repeated squaring."""
    n = index(n)
    base = _square(a, "matrix_power") if n < 0 else traced(a)
    if base.ndim < 2 or base.shape[-1] != base.shape[-2]:
        _square(base, "matrix_power")
    if n < 0:
        base, n = apply(inv, base), -n
    out: object = np.broadcast_to(np.eye(base.shape[-1], dtype=base.dtype), base.shape) if n == 0 else None
    while n:
        if n % 2:
            out = base if out is None else out @ base
        n //= 2
        base = base @ base if n else base
    return traced(out)


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[object], *, out: object = None) -> TracedArray:
    """Product of matrices in the order that costs least; the first and last may be vectors."""
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    letters = "abcdefghijklmnopqrstuvwxyz"
    terms = [letters[k : k + 2] for k in range(len(arrays))]
    if np.ndim(arrays[0]) == 1:
        terms[0] = terms[0][1:]
    if np.ndim(arrays[-1]) == 1:
        terms[-1] = terms[-1][:1]
    ends = "".join(t for t in (terms[0][:-1], terms[-1][1:]))
    return np.einsum(",".join(terms) + "->" + ends, *[traced(a) for a in arrays])
