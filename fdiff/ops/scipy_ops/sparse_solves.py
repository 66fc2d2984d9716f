"""Solutions of sparse systems as an op. A matrix is factorised once, for the value and for all derivatives of it.

Factorisations are kept while the entries that they were made of are in memory: as long as a tape runs, and of a
constant matrix as long as the tape exists.
"""

from __future__ import annotations

import threading
import warnings
from functools import partial
from typing import Any
from weakref import ref

import fdiff.intact_numpy as np
from fdiff.intact_scipy import sparse as sp
from fdiff.intact_scipy import sparse_linalg as spl

from ...primitive import ZERO, Primitive, register
from ...trace import apply
from ..families import add_up
from ..stacked_matrices import Args, Bars
from .sparse_ops import Shape, batched, matrix_samples, product, product_type, sampled

MOST = 2**29  # bytes of all factorisations that are kept beside the last one
# With references whose ends drop them: `pop` is C's, as an exception that arrives in Python code is lost then.
_kept: dict[tuple[object, ...], tuple[Any, ref[np.ndarray]]] = {}
_lock = threading.Lock()


def factors(data: np.ndarray, cols: np.ndarray, starts: np.ndarray, shape: Shape) -> Any:
    """SuperLU's factorisation of the transpose of a matrix that is stored by rows."""
    key = shape, data.dtype.char, data.tobytes(), cols.tobytes(), starts.tobytes()
    with _lock:
        found = _kept.pop(key, None)
    if found is None:
        lu = spl.splu(sp.csc_array((data, cols, starts), shape=shape[::-1]))
        found = lu, ref(data, partial(_kept.pop, key))
    with _lock:
        _kept[key] = found
        while len(_kept) > 1 and sum(k.nnz * (data.itemsize + 4) for k, _ in _kept.values()) > MOST:
            del _kept[next(iter(_kept))]
    return found[0]


def _solve(
    data: np.ndarray, rows: np.ndarray, cols: np.ndarray, starts: np.ndarray, b: np.ndarray, *, shape: Shape, transposed: bool,
    singular: str,
) -> np.ndarray:  # fmt: skip
    if not b.size:
        return np.zeros_like(b)
    try:
        lu = factors(data, cols, starts, shape)
    except RuntimeError as error:
        if singular == "error" or "singular" not in str(error):
            raise
        warnings.warn("Matrix is exactly singular", spl.MatrixRankWarning, stacklevel=2)
        return np.full_like(b, np.nan)
    return lu.solve(b, "N" if transposed else "T").astype(b.dtype, copy=False)


def solve_jvp(dots: Bars, args: Args, outs: Args, *, shape: Shape, transposed: bool, singular: str) -> list[object]:
    """``dx = inv(A) (db - dA x)``."""
    (data, rows, cols, starts, _), (data_dot, *_, b_dot) = args, dots
    where = rows, cols, starts
    moved = ZERO if data_dot is ZERO else -apply(product, data_dot, *where, outs[0], shape=shape, transposed=transposed)
    return [apply(solve, data, *where, add_up([b_dot, moved]), shape=shape, transposed=transposed, singular=singular)]


def solve_vjp(bars: Bars, args: Args, outs: Args, *, shape: Shape, transposed: bool, singular: str) -> list[object]:
    data, rows, cols, starts, _ = args
    b_bar = apply(solve, data, rows, cols, starts, bars[0], shape=shape, transposed=not transposed, singular=singular)
    left, right = (outs[0], b_bar) if transposed else (b_bar, outs[0])
    return [lambda: -sampled(left, right, rows, cols), ZERO, ZERO, ZERO, b_bar]


solve = register(
    Primitive(
        "sparse_solve", product_type, _solve, solve_jvp, solve_vjp, batched(lambda: solve), None, "opaque",
        samples=matrix_samples(square=True, singular="error"),
    )
)  # fmt: skip
