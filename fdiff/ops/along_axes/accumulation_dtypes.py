"""The dtypes in which NumPy adds and multiplies entries up, in reductions and scans."""

from __future__ import annotations

from functools import lru_cache

import fdiff.intact_numpy as np

from ...trace import TracedArray


def wide(x: TracedArray, dtype: object, ufunc: np.ufunc) -> TracedArray:
    """`x` in the dtype NumPy accumulates in (small integers and bools become int64)."""
    return x.astype(np.dtype(dtype) if dtype is not None else total_dtype(ufunc, x.dtype))


@lru_cache(maxsize=256)
def total_dtype(ufunc: np.ufunc, dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy accumulates entries of `dtype`."""
    return ufunc.reduce(np.zeros(1, dtype)).dtype
