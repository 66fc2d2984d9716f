"""Whole programs under ``@njit`` around derivatives: those of `examples/whole_programs.py`."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import fdiff

FILE = Path(__file__).parents[2] / "examples" / "whole_programs.py"


@pytest.fixture(scope="module")
def programs():
    return runpy.run_path(str(FILE))


@pytest.mark.slow
def test_newtons_method(programs):
    # From np.linspace(0.5, 1.5, 10), say, the last bit of the start decides which root is reached,
    # and in how many steps; from zeros all starts within 1e-13 take the same number.
    for n in (10, 4):  # another shape than that of the example
        x, steps = programs["newton"](np.zeros(n))
        np.testing.assert_allclose(x, 1.0, rtol=1e-12)
        assert steps < 20


@pytest.mark.slow
def test_the_adjoint_of_steps_is_the_gradient_of_the_loop(programs):
    def last(y, p):
        for _ in range(200):
            y = programs["runge_kutta"](y, p, 0.01)
        return y[0]

    start, rates = programs["START"], programs["RATES"]
    y, y_bar, p_bar = programs["sensitivities"](start, rates, 0.01, 200)
    want = fdiff.grad(last, argnums=(0, 1))(start, rates)
    assert y[0] == pytest.approx(last(start, rates), rel=1e-13)
    np.testing.assert_allclose(y_bar, want[0], rtol=1e-11)
    np.testing.assert_allclose(p_bar, want[1], rtol=1e-11)


@pytest.mark.slow
def test_many_starts_in_parallel(programs):
    found, values = programs["multistart"](programs["STARTS"])
    slopes = np.array([fdiff.grad(programs["styblinski_tang"])(x) for x in found])
    assert np.max(np.abs(slopes)) < 1e-6  # each is a minimum
    best = np.argmin(values)
    assert values[best] == pytest.approx(-39.16616570377142 * 8, rel=1e-13)
    np.testing.assert_allclose(found[best], -2.903534, atol=1e-6)
