"""Functions of `numpy.linalg` on square matrices and products: `solve`, `inv`, `det`, `cholesky`, `matrix_power`, ...

The primitives and their rules are in `matrix_ops.py` and `cholesky.py`, norms in `norms.py`, decompositions in
`decompositions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import fdiff.intact_numpy as np

from ...arraytype import promote
from ...trace import Array, TracedArray, apply, apply_many, implements, unsupported
from ..entrywise.families import kind_of
from ..shapes.shaping import reshape_call, scalar_if_0d, traced
from .cholesky import cholesky_
from .matrix_ops import attempt, det, inv, slogdet, solve
from .stacked_matrices import mt

# --- Cholesky: of the lower triangle, the upper one is never read -----------------------------


# The cotangent of A from the factor L and its cotangent B: phi(S + S') with S = inv(L') phi(L' B) inv(L). It is an op
# because kernels compute it block by block with a fifth of the work (Murray 2016, section 4). Its own tangent, for any
# regular L, with M = phi(dL' B) and N = inv(L') dL' (S + S'): phi(inv(L') (M + M') inv(L) - N - N').


# --- NumPy's functions -------------------------------------------------------------------------


def _square(x: object, name: str) -> TracedArray:
    """`x` as a stack of square matrices of floating-point numbers, or NumPy's own error."""
    a = traced(x)
    if a.ndim < 2:
        raise np.linalg.LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    if a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if a.dtype.kind not in ("biufc" if name in ("solve", "inv", "det") else "biuf"):
        raise unsupported(f"numpy.linalg.{name} of {a.dtype}")
    return a if a.type.floating else a.astype(np.float64)


@implements(np.linalg.solve)
def solve_call(a: object, b: object) -> TracedArray:
    """Solution of ``a x = b`` for a vector or a matrix `b`."""
    left, right = _square(a, "solve"), traced(b)
    if left.shape[-1] != right.shape[0 if right.ndim == 1 else -2]:
        raise ValueError(
            "solve: Input operand 1 has a mismatch in its core dimension 0"
            f" (size {right.shape[0 if right.ndim == 1 else -2]} is different from {left.shape[-1]})"
        )
    dtype = promote(kind_of(left), kind_of(right))
    left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
    attempt("solve", left)
    if right.ndim == 1:
        return reshape_call(apply(solve, left, right.reshape((-1, 1))), (*left.shape[:-2], -1))
    return apply(solve, left, right)


@implements(np.linalg.inv)
def inv_call(a: object) -> TracedArray:
    matrix = _square(a, "inv")
    attempt("inv", matrix)
    return apply(inv, matrix)


@implements(np.linalg.det)
def det_call(a: object) -> TracedArray:
    """Determinant; its gradient is exact for singular matrices too."""
    return scalar_if_0d(apply(det, _square(a, "det")))


@implements(np.linalg.slogdet)
def slogdet_call(a: object) -> object:
    """Sign and logarithm of the determinant, as NumPy's named tuple."""
    sign, logabs = apply_many(slogdet, _square(a, "slogdet"))
    result = type(np.linalg.slogdet(np.eye(1)))
    return result(scalar_if_0d(sign), scalar_if_0d(logabs))


@implements(np.linalg.cholesky)
def cholesky(a: object, /, *, upper: bool = False) -> Array:
    """Lower factor of a symmetric positive definite matrix; the lower triangle is read."""
    matrix = _square(a, "cholesky")
    attempt("cholesky", mt(matrix) if upper else matrix)
    low = apply(cholesky_, mt(matrix) if upper else matrix)
    return mt(low) if upper else low


# --- the array API's names, and products ------------------------------------------------------


for _function, _like in ((np.linalg.matmul, np.matmul), (np.linalg.vecdot, np.vecdot), (np.linalg.matrix_transpose, np.matrix_transpose)):
    implements(_function)(_like)


@implements(np.linalg.outer)
def outer(x1: Array, x2: Array, /) -> Array:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError("Input arrays must be one-dimensional")
    return np.outer(traced(x1), x2)


@implements(np.linalg.cross)
def cross(x1: object, x2: Array, /, *, axis: int = -1) -> Array:
    return np.cross(traced(x1), x2, axis=axis)


@implements(np.linalg.diagonal)
def diagonal_call(x: object, /, *, offset: int = 0) -> Array:
    return np.diagonal(traced(x), offset, -2, -1)


@implements(np.linalg.trace)
def trace_call(x: object, /, *, offset: int = 0, dtype: object = None) -> TracedArray:
    return np.trace(traced(x), offset, -2, -1, dtype)


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
