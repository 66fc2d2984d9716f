"""Dense Jacobians by functions whose operations mix the entries of operands that have none."""

import numpy as np
import pytest
import scipy.linalg

import fdiff

X = np.linspace(0.3, 1.1, 6)
OPERATIONS = {
    "cholesky": lambda a: np.linalg.cholesky(a.T @ a + np.eye(a.shape[1])),
    "cho_solve": lambda a: scipy.linalg.cho_solve((np.eye(a.shape[0]), True), a),
    "cumprod": lambda a: np.cumprod(a, axis=0),
    "fft": lambda a: np.abs(np.fft.fft(np.append(a, X))),
    "inv": lambda a: np.linalg.inv(a @ a.T + np.eye(a.shape[0])),
    "slogdet": lambda a: np.linalg.slogdet(a.T @ a + np.eye(a.shape[1]))[1],
    "solve": lambda a: np.linalg.solve(2.0 * np.eye(a.shape[0]), a),
    "solve_triangular": lambda a: scipy.linalg.solve_triangular(np.eye(a.shape[0]), a),
    "sort": lambda a: np.sort(a, axis=0),
}


@pytest.mark.parametrize("mode", ["jacobian", "jacfwd", "jacrev"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operands_without_entries_move_nothing(name, shape, mode):
    """A Jacobian from terms asked for the source of none."""
    apart = lambda x: OPERATIONS[name](np.reshape(x[:0], shape) + np.zeros(shape) * np.sum(x))
    beside = lambda x: np.append(apart(x), np.sin(x))
    for f in (apart, beside):
        jacobian = getattr(fdiff, mode)(f)(X)
        assert jacobian.shape == (*np.shape(f(X)), X.size)
        want = np.diag(np.cos(X)) if f is beside else np.zeros((0, 6))
        rest = jacobian.reshape(-1, X.size)[: jacobian.size // X.size - len(want)]
        np.testing.assert_array_equal(rest, 0.0)
        np.testing.assert_allclose(jacobian.reshape(-1, X.size)[len(rest) :], want, rtol=1e-15)
