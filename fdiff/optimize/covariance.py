"""Covariance of fitted parameters: the inverse of ``J' J``, from factors of the Jacobian `J`.

A dense Jacobian is factored as it is (QR with pivoting), which keeps twice the digits of the normal
equations (G. H. Golub and C. F. Van Loan, Matrix Computations, 4th ed., 2013, section 5.3). A
sparse one is not: its product has a sparse LU.
"""

from __future__ import annotations

from typing import Any

import fdiff.intact_numpy as np
import fdiff.intact_scipy as scipy

from ..foreign_errors import not_foreign

DENSE = 1 << 24  # entries up to which a sparse Jacobian without full rank is factored as dense
DOUBTFUL = 1e-10  # pivots of a product, below which the Jacobian itself tells the rank
COLUMNS = 256  # of the inverse, computed at a time


class NormalInverse:
    """The inverse of ``J' J``, as a map; `undetermined` says which parameters have no variance."""

    def __init__(self, jacobian: Any) -> None:
        norms = np.sqrt(np.asarray((jacobian * jacobian).sum(axis=0)))
        self._scale = 1.0 / np.where(norms > 0.0, norms, 1.0)
        self.undetermined = np.zeros(jacobian.shape[1], bool)
        self._lu = self._half = None
        if scipy.sparse.issparse(jacobian):
            fits = np.prod(jacobian.shape, dtype=float) <= DENSE
            scaled = jacobian @ scipy.sparse.diags_array(self._scale)
            self._lu = _normal_lu(scaled, DOUBTFUL if fits else _rounding(jacobian.shape))
            if self._lu is None and not fits:
                self.undetermined[:] = True
                return
        if self._lu is None:
            dense = jacobian.toarray() if scipy.sparse.issparse(jacobian) else jacobian
            self._factor(dense * self._scale)

    def _factor(self, scaled: np.ndarray) -> None:
        """Factors of a Jacobian with columns of length 1."""
        size = scaled.shape[1]
        factors: Any = scipy.linalg.qr(scaled, mode="r", pivoting=True)
        triangle, order = factors
        pivots = np.abs(np.diagonal(triangle))
        least = _rounding(scaled.shape) * np.max(pivots, initial=0.0)
        rank = int(np.sum(pivots > least))
        corner = triangle[:rank, :rank]
        self._half = np.zeros((size, rank))
        self._half[order[:rank]] = scipy.linalg.solve_triangular(corner, np.eye(rank))
        kernel = np.zeros((size, size - rank))  # directions along which no residual changes
        kernel[order[:rank]] = -scipy.linalg.solve_triangular(corner, triangle[:rank, rank:])
        kernel[order[rank:]] = np.eye(size - rank)
        self.undetermined = np.any(np.abs(kernel) > np.sqrt(np.finfo(float).eps), axis=1)

    def __matmul__(self, right: np.ndarray) -> np.ndarray:
        """The product with a matrix, in which undetermined parameters count as known."""
        scaled = self._scale[:, None] * right
        if self._lu is not None:
            return self._scale[:, None] * self._lu.solve(scaled)
        if self._half is None:
            return np.full(right.shape, np.inf)
        return self._scale[:, None] * (self._half @ (self._half.T @ scaled))

    def diagonal(self) -> np.ndarray:
        """The variances, infinite for undetermined parameters."""
        size = self._scale.size
        if self._half is not None:
            variances = self._scale**2 * np.sum(self._half**2, axis=1)
        else:
            variances = np.empty(size)
            for begin in range(0, size, COLUMNS):
                these = np.arange(begin, min(begin + COLUMNS, size))
                unit = np.zeros((size, these.size))
                unit[these, these - begin] = 1.0
                variances[these] = (self @ unit)[these, these - begin]
        return np.where(self.undetermined, np.inf, variances)

    def matrix(self) -> np.ndarray:
        """The whole matrix, infinite in rows and columns of undetermined parameters."""
        covariance = self @ np.eye(self._scale.size)
        covariance[self.undetermined] = covariance[:, self.undetermined] = np.inf
        return covariance


def _rounding(shape: tuple[int, ...]) -> float:
    """The part of the largest pivot that rounding alone may make."""
    return max(shape) * float(np.finfo(float).eps)


def _normal_lu(scaled: Any, least: float) -> Any:
    """A sparse LU of the product; None if a pivot is below this part of the largest."""
    normal = (scaled.T @ scaled).tocsc()
    try:
        lu = scipy.sparse_linalg.splu(normal, diag_pivot_thresh=0.0, permc_spec="MMD_AT_PLUS_A")
    except not_foreign(RuntimeError):  # exactly singular
        return None
    pivots = np.abs(lu.U.diagonal())
    return lu if pivots.min() > least * pivots.max() else None
