"""Object arrays of traced scalars: what NumPy's own loops over them ask of each entry."""

from contextlib import suppress

import numpy as np
import pytest

import fdiff
from fdiff.ops.entrywise.operators import OBJECT_METHODS
from fdiff.primitive import UFUNCS


class Asked:
    """An entry that has no method, and notes which one NumPy looks for."""

    def __init__(self, names):
        self.names = names

    def __getattr__(self, name):
        if not name.startswith("__"):
            self.names.add(name)
        raise AttributeError(name)


def test_the_methods_are_those_that_numpy_asks_for():
    names = set()
    entries = np.empty(1, object)
    entries[0] = Asked(names)
    for ufunc in [u for u in UFUNCS if u.nout == 1 and u.signature is None]:
        with suppress(TypeError, AttributeError):  # some, such as equal, need no method
            ufunc(*[entries] * ufunc.nin)
    # `conjugate` is a method of arrays, which traced arrays have for their own sake.
    assert names - {"conjugate"} == set(OBJECT_METHODS)


@pytest.mark.parametrize("name", ["degrees", "radians", "sqrt", "exp", "arctan2", "hypot"])
def test_entries_are_differentiated(name):
    ufunc = getattr(np, name)

    def f(x):
        boxed = np.empty(2, object)
        boxed[0], boxed[1] = x[0], x[1]
        found = ufunc(*[boxed] * ufunc.nin)
        return found[0] + 2.0 * found[1]

    def plain(x):
        found = ufunc(*[x] * ufunc.nin)
        return found[0] + 2.0 * found[1]

    x = np.array([0.5, 1.5])
    value, slope = fdiff.value_and_grad(f)(x)
    assert value == pytest.approx(plain(x), rel=1e-15)
    steps = [plain(x + h) - plain(x - h) for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(slope, np.array(steps) / 2e-6, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x + [x[0], 0.5, x[1]],  # noqa: RUF005 - that is what it tests
        lambda x: (x[0], 0.5, 1) * x,
        lambda x: [x[0], 1, x[2]] + x[0],
        lambda x: np.maximum(x, [x[0], x[1], 2]),
        lambda x: np.add([x[0], x[1]], 1.5),
    ],
)
def test_lists_beside_arrays_have_the_type_of_arrays_of_them(f):
    """A number of Python's in a list is a number of 64 bits, and not weak."""
    x = np.array([0.5, 1.5, 2.0], np.float32)
    value, plain = fdiff.jit(f)(x), f(x)
    assert value.dtype == plain.dtype
    np.testing.assert_allclose(value, plain, rtol=1e-6)
