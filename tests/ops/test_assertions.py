"""Assertions of `numpy.testing` in a differentiated function hold, and fail, as in plain code."""

import numpy as np
import pytest
from numpy.testing import (
    assert_allclose,
    assert_almost_equal,
    assert_array_almost_equal,
    assert_array_equal,
    assert_array_less,
    assert_equal,
)

import fdiff

X = np.array([1.0, 2.0, 3.0])
HOLD = {
    "close": (lambda x: assert_allclose(x[:2], X[:2]), [1, 2, 2.5], [1, 2.5, 3]),
    "close, loosely": (lambda x: assert_allclose(x, X, atol=0.1), X + 0.05, X + 0.2),
    "equal": (lambda x: assert_array_equal(x[0], 1.0), X, 2 * X),
    "equal, any": (lambda x: assert_equal(x * 2, [2, 4, 6]), X, 2 * X),
    "equal, a shape": (lambda x: assert_array_equal(x[: int(x[0])], [1.0]), X, 2 * X),
    "less": (lambda x: assert_array_less(x, x + 1), X, [1, 2, np.inf]),
    "almost": (lambda x: assert_array_almost_equal(x, X, 3), X + 1e-4, X + 1e-2),
    "almost, one": (lambda x: assert_almost_equal(x[1], 2.0), X, 2 * X),
    "nan": (lambda x: assert_allclose(x[2:], [np.nan]), [1, 2, np.nan], X),
}


@pytest.mark.parametrize("name", HOLD)
def test_assertions(name):
    check, good, bad = HOLD[name]

    def f(x):
        check(x)
        return np.sum(x[:2] ** 2)

    gradient = fdiff.value_and_grad(f)
    good, bad = np.array(good, float), np.array(bad, float)
    for _ in range(3):
        f(good)
        value, slope = gradient(good)
        assert value == f(good)
        np.testing.assert_array_equal(slope, [2 * good[0], 2 * good[1], 0])
        with pytest.raises(AssertionError) as plain:
            f(bad)
        with pytest.raises(AssertionError) as ours:
            gradient(bad)
        assert str(plain.value).strip() in str(ours.value)
