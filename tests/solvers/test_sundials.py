"""SUNDIALS' integrators for stiff equations, through scikit-sundae, with sparse Jacobians in place.

CVODE solves ``y' = g(t, y)``, IDA ``F(t, y, y') = 0``. Both want the Jacobian's entries, in the
order of a CSC array, in a buffer of their own.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sksundae.cvode import CVODE
from sksundae.ida import IDA

import fdiff

# scikit-sundae warns that the pattern serves the sparse solver alone where the Jacobian is given.
pytestmark = pytest.mark.filterwarnings("ignore:Custom sparse Jacobian approximation")

TIMES = np.linspace(0.0, 1.0, 5)
START = np.sin(np.linspace(0.0, np.pi, 40))
OPTIONS = {"linsolver": "sparse", "rtol": 1e-8, "atol": 1e-10}


def slope(t, y):
    """A rod that conducts heat and radiates it, with ends that nothing heats."""
    flow = np.zeros_like(y)
    flow[1:-1] = 50.0 * (y[2:] - 2.0 * y[1:-1] + y[:-2])
    return flow - y**3


def residual(t, y, dy):
    return dy - slope(t, y)


@pytest.fixture(scope="module")
def reference():
    exact = {"rtol": 1e-10, "atol": 1e-12}
    return solve_ivp(slope, (0.0, 1.0), START, method="Radau", t_eval=TIMES, **exact).y.T


def test_cvode_takes_entries_and_pattern(reference):
    jacobian = fdiff.jacobian(slope, argnums=1, sparse="csc")

    def right_hand_side(t, y, dy):
        dy[:] = slope(t, y)

    def fill(t, y, dy, entries):
        jacobian.data(t, y, out=entries)

    pattern = jacobian.pattern(0.0, START)
    solver = CVODE(right_hand_side, jacfn=fill, sparsity=pattern, **OPTIONS)
    solution = solver.solve(TIMES, START)
    assert solution.success
    np.testing.assert_allclose(solution.y, reference, rtol=0, atol=1e-6)


def test_ida_takes_the_jacobian_of_a_step(reference):
    """``dF/dy + c dF/dy'``, in one function: ``y'`` moves by ``c`` where ``y`` moves."""

    def moved(t, y, dy, c):
        return residual(t, y, dy + c * (y - fdiff.stop_gradient(y)))

    jacobian = fdiff.jacobian(moved, argnums=1, sparse="csc")

    def fill_residual(t, y, dy, out):
        out[:] = residual(t, y, dy)

    def fill(t, y, dy, out, c, entries):
        jacobian.data(t, y, dy, c, out=entries)

    slopes = slope(0.0, START)
    pattern = jacobian.pattern(0.0, START, slopes, 1.0)
    solver = IDA(fill_residual, jacfn=fill, sparsity=pattern, **OPTIONS)
    solution = solver.solve(TIMES, START, slopes)
    assert solution.success
    np.testing.assert_allclose(solution.y, reference, rtol=0, atol=1e-6)
