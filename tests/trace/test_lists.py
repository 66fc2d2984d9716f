"""NumPy functions called with lists of traced values, and those private copies find answers for.

Values are NumPy's, derivatives those of differences.
"""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial

import fdiff

X = np.array([0.7, -0.4, 1.3, 2.1])
P = np.array([0.5, 1.25, 2.0])
MODULES = {m.__name__.rpartition(".")[2]: m for m in (chebyshev, hermite, hermite_e, laguerre)}
MODULES |= {"legendre": legendre, "polynomial": polynomial}
TEXT = (Path(__file__).parents[1] / "cases" / "lists.txt").read_text(encoding="utf-8")
CASES = [c.strip() for c in re.split(r"[;\n]", TEXT) if c.strip() and not c.startswith("[")]


def function_of(case):
    """The function a user would write: a lambda over the globals of a module."""
    scope = {"np": np, "p": P, **MODULES, "__name__": "user"}
    return eval(f"lambda x: {case}", scope)


def differences(f, x):
    """Derivative along each entry: central differences, extrapolated twice."""
    columns = []
    for e in np.eye(x.size):
        steps = (4e-3, 2e-3, 1e-3)
        rows = [(np.asarray(f(x + h * e)) - np.asarray(f(x - h * e))) / (2 * h) for h in steps]
        for factor in (4.0, 16.0):
            rows = [(factor * b - a) / (factor - 1) for a, b in pairwise(rows)]
        columns.append(rows[0])
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_numpy_and_slopes_those_of_differences(case):
    f = function_of(case)
    value = np.asarray(f(X))
    narrow = value.dtype == np.float32
    plain = fdiff.jit(f)(X)
    assert np.asarray(plain).dtype == value.dtype
    np.testing.assert_allclose(plain, value, rtol=1e-5 if narrow else 1e-12, atol=1e-13)
    if narrow:
        return
    slopes = fdiff.jacobian(f)(X)
    np.testing.assert_allclose(slopes, differences(f, X), rtol=1e-7, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.complex64])
@pytest.mark.parametrize(
    ("module", "prefix"),
    [(polynomial, "poly"), (chebyshev, "cheb"), (legendre, "leg"), (laguerre, "lag"),
     (hermite, "herm"), (hermite_e, "herme")],
)  # fmt: skip
def test_series_have_the_types_of_numpy(module, prefix, kind):
    c = np.array([1.0, -0.5, 2.0, 0.25], kind)
    f = lambda name: getattr(module, prefix + name)
    calls = (
        lambda c: f("val")(c, c), lambda c: f("val")(0.5, c), lambda c: f("der")(c, 2, 3.0),
        lambda c: f("int")(c, 2, [1.0, 2.0], 0.5, 2.0), lambda c: f("add")(c, c[:2]),
        lambda c: f("sub")(c[:2], c), lambda c: f("mul")(c, c), lambda c: f("vander")(c, 2),
    )  # fmt: skip
    for call in calls:
        result, expected = fdiff.jit(call)(c), call(c)
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-5)
