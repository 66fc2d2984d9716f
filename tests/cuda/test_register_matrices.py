"""Routines of very small matrices, unrolled so that a thread keeps its matrix in registers.

Each order on Numba's simulator, beside NumPy and SciPy.
"""

import numpy as np
import pytest
from running import TUNING, program_of, run_on_device
from scipy.linalg import solve_triangular

import fdiff

ORDERS = (1, 2, 3, 4, 5, 8)
IN_REGISTERS = TUNING._replace(register_order=8)
IN_MEMORY = TUNING._replace(register_order=0)
STACK = 5


def matrices(n, rng):
    """A stack of regular matrices, each with a row that has to be exchanged."""
    found = rng.normal(size=(STACK, n, n)) + 2 * np.eye(n)
    found[0] = found[0][::-1]
    if n > 1:
        found[1, 0, 0] = 0.0
    return found


def definite(n, rng):
    half = rng.normal(size=(STACK, n, n))
    return half @ np.swapaxes(half, 1, 2) + np.eye(n)


def right(n, rng):
    return rng.normal(size=(STACK, n, 3))


def lower(a, b):
    return solve_triangular(a[0], b[0], lower=True)


def upper(a, b):
    return solve_triangular(a[0], b[0], lower=False)


def unit(a, b):
    return solve_triangular(a[0], b[0], lower=True, unit_diagonal=True)


def weighted_factor(a, weights):
    return np.sum(np.linalg.cholesky(a) * weights)


def determinants(a):
    return np.sum(np.linalg.det(a))


def signs_and_logarithms(a):
    return tuple(np.linalg.slogdet(a))


# name: the function, and what makes its arguments
ROUTINES = {
    "solve": (np.linalg.solve, matrices, right),
    "inv": (np.linalg.inv, matrices),
    "det": (np.linalg.det, matrices),
    "minors": (fdiff.grad(determinants), matrices),
    "slogdet": (signs_and_logarithms, matrices),
    "cholesky": (np.linalg.cholesky, definite),
    "cholesky backwards": (fdiff.grad(weighted_factor), definite, matrices),
    "lower": (lower, matrices, right),
    "upper": (upper, definite, right),
    "unit": (unit, matrices, right),
}
each_routine = pytest.mark.parametrize("name", ROUTINES)


def case(name, n, rng):
    f, *makers = ROUTINES[name]
    arrays = [make(n, rng) for make in makers]
    return f, fdiff.make_tape(f, *arrays), arrays


@each_routine
@pytest.mark.parametrize("n", ORDERS)
def test_values_in_registers(name, n, rng):
    n = min(n, 5) if name == "minors" else n
    f, tape, arrays = case(name, n, rng)
    program, _, _ = program_of(tape, tuning=IN_REGISTERS)
    assert f"_in_registers{n}(" in program.text
    wanted = f(*arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    found = run_on_device(tape, *arrays, tuning=IN_REGISTERS)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


@each_routine
def test_values_in_memory(name, rng):
    """Larger matrices are worked on in memory."""
    f, tape, arrays = case(name, 3, rng)
    program, _, _ = program_of(tape, tuning=IN_MEMORY)
    assert "_in_registers" not in program.text
    wanted = f(*arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for got, want in zip(run_on_device(tape, *arrays, tuning=IN_MEMORY), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["solve", "inv", "cholesky", "lower", "upper"])
def test_what_cannot_be_solved_is_an_error(name, rng):
    _, tape, arrays = case(name, 3, rng)
    arrays[0][0] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        run_on_device(tape, *arrays, tuning=IN_REGISTERS)


def test_determinants_of_singular_matrices(rng):
    a = matrices(4, rng)
    a[2, :, 1] = 0.0
    a[3] = 0.0
    (det,) = run_on_device(fdiff.make_tape(np.linalg.det, a), a, tuning=IN_REGISTERS)
    np.testing.assert_allclose(det, np.linalg.det(a), rtol=1e-12)
    sign, log = run_on_device(fdiff.make_tape(signs_and_logarithms, a), a, tuning=IN_REGISTERS)
    np.testing.assert_allclose(sign, np.linalg.slogdet(a)[0])
    np.testing.assert_allclose(log, np.linalg.slogdet(a)[1], rtol=1e-12)
