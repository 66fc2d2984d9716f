"""Sparse factorisations made outside of the function: ``lu = splu(B)``, then ``lu.solve(x)`` inside.

A factorisation never changes, so the solve is a linear op of the right-hand side, and its transpose is the solve
with the transposed matrix.
"""

from __future__ import annotations

from scipy.sparse import csc_array

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse_linalg as spl

from ....arraytype import ArrayType
from ....primitive import LIBRARY_OBJECTS, Sample
from ....trace import TracedArray, apply
from ...entrywise.families import linear
from ...shapes.shaping import traced
from .sparse_functions import TracedFactors
from .sparse_solves import SuperLU

_OTHER = {"N": "T", "T": "N"}


def _infer(b: ArrayType, *, lu: object, trans: str) -> tuple[ArrayType, ...]:
    return (b,)


def _evaluate(b: np.ndarray, *, lu: SuperLU, trans: str) -> np.ndarray:
    kind = lu.L.dtype
    if b.dtype.kind == "c" and kind.kind != "c":
        return (lu.solve(b.real.astype(kind), trans) + 1j * lu.solve(b.imag.astype(kind), trans)).astype(b.dtype)
    return lu.solve(np.asarray(b, kind), trans).astype(b.dtype)


def _batched(b: TracedArray, *, lu: object, trans: str) -> TracedArray:
    size, n, k = b.shape
    wide = np.moveaxis(b, 0, 1).reshape((n, size * k))
    return np.moveaxis(apply(factored, wide, lu=lu, trans=trans).reshape((n, size, k)), 1, 0)


def _transpose(bar: TracedArray, src: ArrayType, *, lu: object, trans: str) -> TracedArray:
    return apply(factored, bar, lu=lu, trans=_OTHER[trans])


_FACTORS = spl.splu(csc_array([[4.0, 1, 0], [0, 3, 1], [2, 0, 5]]))
_SAMPLE = Sample(lambda rng: (rng.normal(size=(3, 2)),), {"lu": _FACTORS, "trans": "N"})
factored = linear("factored_solve", _infer, _transpose, evaluate=_evaluate, batch=_batched, samples=(_SAMPLE,))


class CapturedFactors(TracedFactors):
    """The counterpart of a `SuperLU` that was made outside of the function."""

    def __init__(self, real: object) -> None:
        super().__init__(None, real)

    def solve(self, rhs: object, trans: str = "N") -> object:
        right = traced(rhs)
        if right.ndim not in (1, 2) or right.shape[0] != self._real.shape[0]:
            raise ValueError(f"matrix - rhs dimension mismatch ({self._real.shape} - {right.shape[:1]})")
        kind = np.result_type(right.dtype, self._real.L.dtype)
        columns = (right[:, None] if right.ndim == 1 else right).astype(kind)
        if trans == "H":
            out = np.conjugate(apply(factored, np.conjugate(columns), lu=self._real, trans="T"))
        else:
            out = apply(factored, columns, lu=self._real, trans=trans)
        return out[:, 0] if right.ndim == 1 else out

    def __call__(self, b: object) -> object:
        return self.solve(b)


LIBRARY_OBJECTS[spl.SuperLU] = (), CapturedFactors
