"""Vector and matrix norms: `numpy.linalg.norm`, `vector_norm`, `matrix_norm`; made of sums, roots and singular values.

G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th ed., Johns Hopkins 2013, sections 2.2 and 2.3.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...trace import Array, TracedArray, implements
from ..along_axes.reductions import as_scalar
from ..along_axes.statistics import root
from ..entrywise.kink_marks import kink_search, marked
from ..shapes.axis_numbers import normal_axes
from ..shapes.shaping import reshape_call, scalar_if_0d, traced

NORM = "numpy.linalg.norm"
_START = ({}, {"initial": 0.0})  # largest of nothing


def _squares(a: TracedArray) -> Array:
    return np.square(a) if a.dtype.kind != "c" else np.square(np.real(a)) + np.square(np.imag(a))


@implements(np.linalg.norm)
def norm(x: object, ord: object = None, axis: object = None, keepdims: bool = False) -> Array:
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


def _vector_norm(a: TracedArray, ord: float | str | None, axis: int, *, keepdims: bool) -> Array:
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


def _matrix_norm(a: TracedArray, ord: object, axes: tuple[int, ...], *, keepdims: bool) -> Array:
    rows, cols = axes
    if ord in (None, "f", "fro"):
        return root(np.sum(_squares(a), axis=axes, keepdims=keepdims), NORM, "0")
    if ord in (1, -1, np.inf, -np.inf):
        inner, outer = (rows, cols) if ord in (1, -1) else (cols, rows)
        sums = np.sum(np.abs(a), axis=inner, keepdims=True)
        pick = np.max if ord in (1, np.inf) else np.min
        best = pick(sums, axis=outer, keepdims=True, **_START[pick is np.max and not a.shape[outer]])
        return best if keepdims else scalar_if_0d(np.squeeze(best, axis=tuple(axes)))
    if ord in (2, -2, "nuc"):
        return _spectral_norm(a, ord, axes, keepdims=keepdims)
    raise ValueError("Invalid norm order for matrices.")


def _spectral_norm(a: TracedArray, ord: object, axes: tuple[int, ...], *, keepdims: bool) -> Array:
    """The norms made of singular values: the largest, the smallest, their sum."""
    s = np.linalg.svd(np.moveaxis(a, axes, (-2, -1)), compute_uv=False)
    if ord == "nuc":
        out = np.sum(s, axis=-1)
    else:
        out = np.max(s, axis=-1, **_START[not s.shape[-1]]) if ord == 2 else np.min(s, axis=-1)
    return out.reshape(tuple(1 if k in axes else n for k, n in enumerate(a.shape))) if keepdims else as_scalar(out)


@implements(np.linalg.vector_norm)
def vector_norm(x: object, /, *, axis: object = None, keepdims: bool = False, ord: object = 2) -> Array:
    """Norm of the array, or along axes, taken as one vector."""
    a = traced(x)
    axes = normal_axes(axis, a.ndim)
    rest = [k for k in range(a.ndim) if k not in axes]
    flat = reshape_call(np.transpose(a, (*rest, *axes)), (*(a.shape[k] for k in rest), -1))
    out = norm(flat, ord, axis=-1)
    kept = tuple(1 if k in axes else n for k, n in enumerate(a.shape))
    return out.reshape(kept) if keepdims else out


@implements(np.linalg.matrix_norm)
def matrix_norm(x: object, /, *, keepdims: bool = False, ord: object = "fro") -> Array:
    return norm(x, ord, axis=(-2, -1), keepdims=keepdims)
