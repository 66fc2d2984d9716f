"""Functions of polynomials in powers of x, the highest first: `polyval`, `polyfit`, `roots`, `poly1d` arithmetic.

Zeros are eigenvalues of a companion matrix: G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th ed.,
Johns Hopkins 2013, section 7.4.6.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index

import fdiff.intact_numpy as np

from ...trace import Array, Operand, TracedArray, implements
from ..along_axes.data_dependent_shapes import look_if_traced
from ..along_axes.sampled_functions import convolve
from ..along_axes.sorting import sort
from ..shapes.joining_and_splitting import concatenate_call
from ..shapes.shaping import traced
from .eigenvalues import eigvals_real_if_possible


def _coefficients(p: object) -> Array:
    return np.atleast_1d(traced(p.coeffs if isinstance(p, np.poly1d) else p))


def _wrapped(value: Array, *operands: object) -> object:
    """`value` as the ``poly1d`` it is if one of the arguments was one."""
    return np.poly1d(value) if any(isinstance(p, np.poly1d) for p in operands) else value


def _sum(a1: object, a2: object, combine: np.ufunc) -> object:
    left, right = _coefficients(a1), _coefficients(a2)
    n = max(left.shape[0], right.shape[0])
    full = [concatenate_call([np.zeros(n - a.shape[0], a.dtype), a]) if a.shape[0] < n else a for a in (left, right)]
    return _wrapped(combine(*full), a1, a2)


@implements(np.polyadd)
def polyadd(a1: object, a2: object) -> object:
    return _sum(a1, a2, np.add)


@implements(np.polysub)
def polysub(a1: object, a2: object) -> object:
    return _sum(a1, a2, np.subtract)


def _without_lead(p: TracedArray) -> TracedArray:
    """Coefficients from the first that is not zero; one of them at least."""
    held = look_if_traced(p != 0, "multiplied polynomials, whose leading zeros decide a shape")
    first = int(np.argmax(held)) if held.any() else p.shape[0] - 1
    return p[first:]


@implements(np.polymul)
def polymul(a1: object, a2: object) -> object:
    return _wrapped(convolve(_without_lead(_coefficients(a1)), _without_lead(_coefficients(a2))), a1, a2)


@implements(np.polydiv)
def polydiv(u: object, v: object) -> tuple[object, object]:
    """Quotient and remainder by long division."""
    rest, divisor = _coefficients(u) + 0.0, _coefficients(v) + 0.0
    m, n = rest.shape[0] - 1, divisor.shape[0] - 1
    quotient = []
    for k in range(m - n + 1):
        factor = rest[k] / divisor[0]
        quotient.append(factor)
        rest = concatenate_call([rest[:k], rest[k : k + n + 1] - factor * divisor, rest[k + n + 1 :]])
    near = look_if_traced(np.abs(rest) <= 1e-8, "divided polynomials, where zeros of the remainder decide a shape")
    first = min(int(np.argmin(near)) if not near.all() else m, m)
    q = np.stack(quotient) if quotient else np.zeros(1, rest.dtype)
    return _wrapped(q, u, v), _wrapped(rest[first:], u, v)


def _order(m: object, other: str) -> int:
    if int(m) < 0:
        raise ValueError(f"Order of {'derivative' if other == 'polyint' else 'integral'} must be positive (see {other})")
    return int(m)


@implements(np.polyder)
def polyder(p: object, m: int = 1) -> object:
    c = _coefficients(p)
    for _ in range(_order(m, "polyint")):
        c = c[:-1] * np.arange(c.shape[0] - 1, 0, -1)
    return _wrapped(c, p)


@implements(np.polyint, data=("k",))
def polyint(p: object, m: int = 1, k: object = None) -> object:
    """Antiderivative of order `m`; `k` are the constants, of the last integral last."""
    times = _order(m, "polyder")
    constants = np.atleast_1d(np.zeros(times) if k is None else k)
    if constants.shape[0] < times and constants.shape[0] != 1:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    c = _coefficients(p)
    for j in range(times):
        c = concatenate_call([c / np.arange(c.shape[0], 0, -1), constants[min(j, constants.shape[0] - 1)].reshape(1)])
    return _wrapped(c, p)


@implements(np.poly)
def poly(seq_of_zeros: object) -> Operand:
    """Coefficients from the zeros, or of the characteristic polynomial of a matrix."""
    zeros = np.atleast_1d(traced(seq_of_zeros))
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] != 0:
        zeros = np.linalg.eigvals(zeros)
    elif zeros.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    elif zeros.dtype.kind in "biu":
        zeros = zeros.astype(np.float64)
    if not zeros.shape[0]:
        return 1.0
    out, nothing = traced(np.ones(1, zeros.dtype)), np.zeros(1, zeros.dtype)
    for zero in zeros:
        out = concatenate_call([out, nothing]) - zero * concatenate_call([nothing, out])
    if out.dtype.kind == "c" and look_if_traced(np.all(sort(zeros) == sort(np.conj(zeros))), "asked whether zeros come in conjugate pairs"):
        out = np.real(out)
    return out


@implements(np.roots)
def roots(p: object) -> object:
    """Zeros: eigenvalues of the companion matrix, and 0 for each power of x that divides."""
    c = _coefficients(p)
    if c.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    held = np.flatnonzero(look_if_traced(c != 0, "asked for the roots of a polynomial, whose zeros decide a shape"))
    if not held.size:
        return np.array([])
    behind = c.shape[0] - int(held[-1]) - 1
    c = c[int(held[0]) : int(held[-1]) + 1]
    c = c if c.type.floating else c.astype(np.float64)
    n = c.shape[0]
    if n < 2:
        return np.zeros(behind)
    below = np.eye(n - 2, n - 1, dtype=c.dtype)
    eigenvalues = eigvals_real_if_possible(concatenate_call([(-c[1:] / c[0])[None], below]) if n > 2 else (-c[1:] / c[0])[None])
    return concatenate_call([eigenvalues, np.zeros(behind, eigenvalues.dtype)]) if behind else eigenvalues


@implements(np.vander)
def vander(x: object, N: int | None = None, increasing: bool = False) -> Array:
    """Columns of powers."""
    line = traced(x)
    if line.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = line.shape[0] if N is None else index(N)
    powers = np.arange(n) if increasing else np.arange(n)[::-1]
    wide = line.astype(np.promote_types(line.dtype, int))
    return np.power(wide[:, None], powers) if n else traced(np.zeros((line.shape[0], 0), wide.dtype))


def fit_matrix(
    x: object, y: object, deg: int, w: object, columns: Callable[[TracedArray, int], TracedArray]
) -> tuple[TracedArray, TracedArray, TracedArray, TracedArray, object]:
    """Points, checked; the scaled matrix and right side of a weighted fit, and its column scales."""
    at, data = traced(x) + 0.0, traced(y) + 0.0
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if at.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if not at.size:
        raise TypeError("expected non-empty vector for x")
    if not 1 <= data.ndim <= 2:
        raise TypeError("expected 1D or 2D array for y")
    if at.shape[0] != data.shape[0]:
        raise TypeError("expected x and y to have same length")
    matrix, right = columns(at, deg), data
    if w is not None:
        weights = traced(w) + 0.0
        if weights.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if weights.shape[0] != data.shape[0]:
            raise TypeError("expected w and y to have the same length")
        matrix = matrix * weights[:, None]
        right = right * (weights[:, None] if right.ndim == 2 else weights)
    scale = np.sqrt(np.sum(matrix * matrix, axis=0))
    return at, matrix / scale, right, scale, data


@implements(np.polyfit)
def polyfit(x: object, y: object, deg: int, rcond: object = None, full: bool = False, w: object = None, cov: object = False) -> object:
    """Least-squares coefficients; with `cov` their covariance too."""
    order = int(deg) + 1
    at, matrix, right, scale, data = fit_matrix(x, y, deg, w, lambda line, d: vander(line, d + 1))
    limit = at.shape[0] * np.finfo(at.dtype).eps if rcond is None else rcond
    c, residuals, rank, singular = np.linalg.lstsq(matrix, right, limit)
    c = (c.T / scale).T
    if full:
        return c, residuals, rank, singular, limit
    if not cov:
        return c
    base = np.linalg.inv(np.dot(matrix.T, matrix)) / np.outer(scale, scale)
    factor: object = 1
    if cov != "unscaled":
        if at.shape[0] <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (at.shape[0] - order)
    return c, base * factor if data.ndim == 1 else base[:, :, None] * factor


@implements(np.polyval)
def polyval(p: object, x: Array) -> object:
    """A polynomial by Horner's rule, the highest power first."""
    out: object = np.zeros_like(x)
    for coefficient in traced(p):
        out = out * x + coefficient
    return out
