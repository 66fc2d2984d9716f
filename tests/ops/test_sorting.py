"""Sorting of arrays long enough for the quicker sort, against NumPy's stable one."""

import numpy as np
import pytest

import fdiff


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(5000,), (3, 4000), (4000, 3)])
def test_long_arrays_are_sorted_as_by_a_stable_sort(shape, dtype):
    """Different numbers, ties, NaN, and numbers in order already."""
    rng = np.random.default_rng(0)
    x, bar = rng.normal(size=shape).astype(dtype), rng.normal(size=shape).astype(dtype)
    axis = int(np.argmax(shape))
    spoilt = x.copy()
    spoilt[np.unravel_index([7, 5, 9], shape)] = np.nan
    for given in (x, np.round(x, 1), spoilt, np.sort(x, axis)):
        want = np.zeros(shape, dtype)
        order = np.argsort(given, axis=axis, kind="stable")
        np.put_along_axis(want, order, bar, axis)
        with np.errstate(invalid="ignore"):
            got = fdiff.vjp(lambda x: np.sort(x, axis=axis), given, bar)[1]
        np.testing.assert_array_equal(got, want)
