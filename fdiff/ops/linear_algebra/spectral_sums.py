"""Functions of symmetric matrices, ``V f(w) V'`` with the eigenvalues `w` and eigenvectors `V`, and their derivatives.

``spectral_sum(a, E1, ..., Ek, p...)`` is ``V S V'`` with ``S[i0, ik] = sum f[w[i0], ..., w[ik]] X1[i0, i1] ... Xk[..., ik]``, where
``Xr = V' Er V`` and ``f[...]`` is a divided difference: the matrix function for k = 0, its derivative in the direction E1 for k = 1
(Yu. L. Daleckii and S. G. Krein, 1965; N. J. Higham, Functions of Matrices, SIAM 2008, theorem 3.11). A derivative with respect to
the matrix puts the direction in at each place between the others, so that one op has all orders; and since no difference of
eigenvalues is divided by where they are close, nothing is lost or NaN where they are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import factorial

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, broadcast, broadcast_all
from ...facets import Rules
from ...hooks import hooks
from ...primitive import ZERO, Primitive
from ...tape import CONSTANT, INPUT, Tape
from ...trace import TracedArray, apply
from ..entrywise.broadcasting import unbroadcast
from ..entrywise.families import add_up
from .eigenvalues import hermitian_of_triangle, triangle_cotangent
from .stacked_matrices import Args, Bars, align_stacks, mt

TERMS = 5  # of Taylor's series, of which the second is 0
ROUNDED = 4 * np.finfo(np.float64).eps  # the relative error of a value of `f`
LOST = 128 * ROUNDED  # the relative error of a quotient that is left as it is


@lru_cache(maxsize=256)
def _slope(f: Tape, k: int) -> Tape:
    """The partial derivative of a function of numbers."""
    return hooks.slope(f, k)


def _value(f: Tape, *arguments: np.ndarray) -> np.ndarray:
    """A function of numbers for arrays of these."""
    inputs, values = iter(arguments), list[np.ndarray]()
    with np.errstate(all="ignore"):
        for node in f.nodes:
            if node.primitive is INPUT:
                values.append(next(inputs))
            elif node.primitive is CONSTANT:
                values.append(np.asarray(node.value))
            else:
                operands = [values[a] for a in node.args]
                values.append(np.asarray(node.primitive.rules.evaluate(*operands, **dict(node.params))))
    shape = broadcast(*[np.shape(x) for x in arguments])
    return np.broadcast_to(values[f.outputs[0]], shape)


def divided_differences(f: Tape, points: Sequence[np.ndarray], numbers: Sequence[np.ndarray]) -> np.ndarray:
    """``f[x0, ..., xk]``, entry by entry; the further arguments of `f` are `numbers`.

    Where points are close, a quotient of differences loses digits. Where these are more than `LOST`, Taylor's series at the mean
    is taken if its last term is below the error of that quotient, and if it agrees with the quotient up to this error.
    """
    *points, = broadcast_all(*points, *numbers)
    points, numbers = points[: len(points) - len(numbers)], points[len(points) - len(numbers) :]
    x = np.sort(np.stack(points, -1), -1)
    table = [_value(f, x[..., i], *numbers) for i in range(x.shape[-1])]
    errors = [ROUNDED * np.abs(value) for value in table]
    slopes = [f]
    while len(slopes) < x.shape[-1] + TERMS - 1:
        slopes.append(_slope(slopes[-1], 0))
    with np.errstate(all="ignore"):
        for m in range(1, x.shape[-1]):
            for i in range(x.shape[-1] - m):
                gap = x[..., i + m] - x[..., i]
                quotient, bound = (table[i + 1] - table[i]) / gap, (errors[i] + errors[i + 1]) / gap
                at = ~(bound <= LOST * np.abs(quotient))
                series, last = _series(slopes[m : m + TERMS], m, x[at][:, i : i + m + 1], [p[at] for p in numbers])
                close = (last <= bound[at]) & (np.abs(series - quotient[at]) <= 8 * bound[at])
                close |= gap[at] == 0
                quotient[at] = np.where(close, series, quotient[at])
                bound[at] = np.where(close, last + ROUNDED * np.abs(series), bound[at])
                table[i], errors[i] = quotient, bound
    return table[0]


def _series(slopes: Sequence[Tape], m: int, x: np.ndarray, numbers: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Taylor's series of a divided difference of order `m`, and the size of its last term.

    Its coefficients are complete homogeneous symmetric polynomials of the distances from the mean (C. de Boor, "Divided
    differences", Surveys in Approximation Theory 1, pages 46-69, 2005).
    """
    mean = np.where(x[..., 0] == x[..., -1], x[..., 0], np.mean(x, -1))
    second, third, fourth = (np.sum((x - mean[..., None]) ** k, -1) for k in (2, 3, 4))
    weights = [1.0, None, second / 2, third / 3, fourth / 4 + second**2 / 8]
    terms = [
        np.where(weight == 0, 0.0, weight * _value(slope, mean, *numbers) / factorial(m + q))
        for q, (weight, slope) in enumerate(zip(weights, slopes, strict=True))
        if weight is not None
    ]
    return sum(terms[1:], start=terms[0]), np.abs(terms[-1])


def _type(a: ArrayType, *others: ArrayType, f: Tape, count: int, uplo: str) -> tuple[ArrayType, ...]:
    stacks = [t.shape[:-2] for t in (a, *others[:count])] + [t.shape for t in others[count:]]
    return (ArrayType((*broadcast(*stacks), *a.shape[-2:]), a.dtype),)


def _evaluate(a: np.ndarray, *others: np.ndarray, f: Tape, count: int, uplo: str) -> np.ndarray:
    w, v = np.linalg.eigh(np.asarray(a, np.float64), uplo)
    points = [w.reshape((*w.shape[:-1], *[w.shape[-1] if k == r else 1 for k in range(count + 1)])) for r in range(count + 1)]
    numbers = [np.reshape(p, (*np.shape(p), *(1,) * (count + 1))) for p in others[count:]]
    inner = [np.swapaxes(v, -1, -2) @ e @ v for e in others[:count]]
    sums = divided_differences(f, points, numbers)
    if not count:
        return ((v * sums[..., None, :]) @ np.swapaxes(v, -1, -2)).astype(a.dtype)
    labels = "abcdefgh"[: count + 1]
    pairs = ",".join(f"...{labels[r : r + 2]}" for r in range(count))
    sums_of = np.einsum(f"...{labels},{pairs}->...{labels[0]}{labels[-1]}", sums, *inner)
    return (v @ sums_of @ np.swapaxes(v, -1, -2)).astype(a.dtype)


def _sum(a: TracedArray, matrices: Sequence[object], numbers: Sequence[object], f: Tape, uplo: str) -> TracedArray:
    return apply(spectral_sum, a, *matrices, *numbers, f=f, count=len(matrices), uplo=uplo)


def _jvp(dots: Bars, args: Args, outs: Args, *, f: Tape, count: int, uplo: str) -> Sequence[object]:
    a, matrices, numbers = args[0], args[1 : count + 1], args[count + 1 :]
    terms: list[object] = []
    if dots[0] is not ZERO:
        way = hermitian_of_triangle(dots[0], uplo)
        terms = [_sum(a, [*matrices[:r], way, *matrices[r:]], numbers, f, uplo) for r in range(count + 1)]
    for r, dot in enumerate(dots[1 : count + 1]):
        if dot is not ZERO:
            terms.append(_sum(a, [*matrices[:r], dot, *matrices[r + 1 :]], numbers, f, uplo))
    for k, dot in enumerate(dots[count + 1 :]):
        if dot is not ZERO:
            terms.append(np.expand_dims(dot, (-2, -1)) * _sum(a, matrices, numbers, _slope(f, k + 1), uplo))
    return [add_up(terms)]


def _vjp(bars: Bars, args: Args, outs: Args, *, f: Tape, count: int, uplo: str) -> list[object]:
    """A trace stays where matrices go round: what stood before a place comes first there, transposed, then the cotangent."""
    a, matrices, numbers = args[0], args[1 : count + 1], args[count + 1 :]
    turned = [mt(e) for e in matrices][::-1]

    def around(left: int, right: int) -> TracedArray:
        return _sum(a, [*turned[count - left :], bars[0], *turned[: count - right]], numbers, f, uplo)

    def of_number(k: int) -> TracedArray:
        return np.sum(bars[0] * _sum(a, matrices, numbers, _slope(f, k + 1), uplo), axis=(-2, -1))

    whole = lambda: triangle_cotangent(add_up([around(r, r) for r in range(count + 1)]), uplo)  # noqa: E731 - if needed
    each = [lambda r=r, e=e: unbroadcast(around(r, r + 1), e.shape) for r, e in enumerate(matrices)]
    first = lambda: unbroadcast(whole(), a.shape)  # noqa: E731 - if needed
    return [first, *each, *[lambda k=k, p=p: unbroadcast(of_number(k), p.shape) for k, p in enumerate(numbers)]]


def _batch(args: Args, mapped: Sequence[bool], size: int, *, f: Tape, count: int, uplo: str) -> list[object]:
    core = [2] * (count + 1) + [0] * (len(args) - count - 1)
    return [apply(spectral_sum, *align_stacks(args, mapped, core), f=f, count=count, uplo=uplo)]


# It is entered by `transforms/prepare/spectral_functions.py` alone, which knows `f`.
spectral_sum = Primitive("spectral_sum", "opaque", Rules(_type, _evaluate, _jvp, _vjp, _batch))


def _known_jvp(dots: Bars, args: Args, outs: Args, **params: object) -> Sequence[object]:
    return _jvp([dots[0], *dots[2:]], [args[0], *args[2:]], outs, count=0, **params)


def _known_vjp(bars: Bars, args: Args, outs: Args, **params: object) -> list[object]:
    first, *rest = _vjp(bars, [args[0], *args[2:]], outs, count=0, **params)
    return [first, ZERO, *rest]


def _known_batch(args: Args, mapped: Sequence[bool], size: int, **params: object) -> Sequence[object]:
    core = [2, 2] + [0] * (len(args) - 2)
    x = args[1] if mapped[1] else np.broadcast_to(args[1], (size, *args[1].shape))
    a, _, *numbers = align_stacks([args[0], x, *args[2:]], [mapped[0], True, *mapped[2:]], core)
    return [apply(known_function, a, x, *numbers, **params)]


# The matrix function of the first argument, whose value is the second: the program has computed it.
_KNOWN = Rules(lambda a, x, *numbers, **_: (x,), lambda a, x, *numbers, **_: x, _known_jvp, _known_vjp, _known_batch)
known_function = Primitive("matrix_function", "opaque", _KNOWN)
