"""Loops that branch: values that the branch of a trip does not read have no part in derivatives.

A loop computes a root, a logarithm or a quotient, and then decides whether to use it. At points
where its slope is infinite the reverse loop must not multiply this slope by a cotangent of zero.
"""

import numpy as np
import pytest

import fdiff

CENTRES = np.array([0.0, 0.5, 1.0, 1.5])


def pair_energy(x):
    energy = 0.0
    for k in range(200):
        d = x[k % 3] - CENTRES[k % 4]
        r = np.sqrt(d * d)
        if r > 1e-9:
            energy = energy + np.exp(-r)
    return energy


def pair_energy_by_continue(x):
    energy, pairs = 0.0, 0
    for k in range(200):
        d = x[k % 3] - CENTRES[k % 4]
        r = np.sqrt(d * d)
        if r < 1e-9:
            continue
        energy = energy + 1.0 / (r + 0.1)
        pairs += 1
    return energy / pairs


def root_before_the_loop(x):
    root, total = np.sqrt(np.abs(x[0] - 0.5)), 1.0
    for _ in range(200):
        if total > x[1]:
            total = 0.5 * total
        elif x[0] > 0.6:
            total = total + root
        else:
            total = total + 0.1 * x[2] ** 2
    return total


def root_of_the_trip_before(x):
    total, root = x[1], 0.0
    for _ in range(200):
        if total < 0.3:
            total = total + 0.5
            if x[0] != 0.5:
                total = total + root
        else:
            total = 0.7 * total
        root = np.sqrt(np.abs(x[0] - 0.5)) * total
    return total


def entries_of_roots(x):
    total = x[1]
    for _ in range(150):
        roots = np.sqrt(np.abs(x - 0.5))
        if total > 1.0:
            total = 0.4 * total + 0.1 * roots[1] * roots[2]
        else:
            total = total + 0.3 * np.sum(roots[1:])
    return total


def safe_logarithms(x):
    total, bad = 0.0, 0
    for k in range(150):
        value = np.log((x[k % 3] - 0.5) ** 2)
        if value > -50:
            total = total + value
        else:
            bad += 1
    return total * 0.01 + bad


PROGRAMS = [
    pair_energy, pair_energy_by_continue, root_before_the_loop, root_of_the_trip_before,
    entries_of_roots, safe_logarithms,
]  # fmt: skip
REGULAR = np.array([[1.3, 0.2, 0.9], [-0.4, 1.7, 0.3], [0.7, 0.1, 1.2]])
SINGULAR = np.array([[0.5, 0.3, 1.1], [0.5, 1.2, 0.9]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_what_a_branch_does_not_read_has_no_part(f):
    grad, ahead = fdiff.grad(f), fdiff.jacfwd(f)
    for x in (REGULAR[0], SINGULAR[0], REGULAR[1], SINGULAR[1], REGULAR[2], SINGULAR[0]):
        expected = ahead(x)
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(grad(x), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_kernels_and_second_derivatives():
    compiled, ahead = fdiff.jit(fdiff.grad(pair_energy)), fdiff.jacfwd(pair_energy)
    hessian = fdiff.hessian(pair_energy)
    for x in (REGULAR[0], SINGULAR[0], REGULAR[1]):
        np.testing.assert_allclose(compiled(x), ahead(x), rtol=1e-10, atol=1e-12)
        assert np.isfinite(hessian(x)).all()
