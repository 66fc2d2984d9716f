"""Jacobians with respect to parameters that are read one by one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fdiff

pytestmark = pytest.mark.usefixtures("one_interpreter")

T = np.linspace(0.1, 2.0, 7)


def in_place(b):
    out = np.zeros((3, 2), b.dtype)
    out[0, 0] = b[0] * b[1]
    out[1] += np.sin(b[2])
    out[2, 1] -= b[-1] ** 2
    return out


def rotation(b):
    c, s = np.cos(b[0]), np.sin(b[0])
    return np.array([[c, -s], [s, c]]) @ np.array([b[1], b[2] * b[1]])


def branching(b):
    return b[0] * T if b[1] > 0 else b[0] ** 2 * T + b[2]


MODELS = {
    "exponentials": (lambda b: b[0] * np.exp(-b[1] * T) + b[2] * np.exp(-b[3] * T), 4),
    "rational": (lambda b: (b[0] + b[1] * T) / (1.0 + b[2] * T + b[3] * T**2), 4),
    "read twice": (lambda b: np.sin(b[0] * T) * b[0] + b[1], 2),
    "unread": (lambda b: b[0] * T + 0.0 * b[3], 5),
    "a number": (lambda b: b[0] * b[1] - b[2] / b[0], 3),
    "a matrix": (lambda b: np.outer(T, T) * b[0] + b[1], 2),
    "in place": (in_place, 4),
    "rotation": (rotation, 3),
    "branching": (branching, 3),
    "a loop": (lambda b: sum(b[k] * T**k for k in range(6)), 6),
    "one by one": (lambda b: np.array([b[k] ** 2 for k in range(4)]), 4),
}


def complex_step(f, b):
    columns = []
    for k in range(b.size):
        z = b.astype(complex)
        z[k] += 1e-30j
        columns.append(np.imag(f(z)) / 1e-30)
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("name", MODELS)
def test_columns_are_those_of_the_complex_step(name, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    f, count = MODELS[name]
    jac = fdiff.jacobian(f, mode="forward")
    for seed in range(3):
        b = np.random.default_rng(seed).uniform(0.3, 1.5, count)
        wanted = complex_step(lambda z: np.asarray(_of_real_branch(f, z)), b)
        found = jac(b)
        assert found.shape == wanted.shape
        assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
        assert_allclose(fdiff.jacobian(f, mode="reverse")(b), found, rtol=1e-12, atol=1e-13)


def _of_real_branch(f, z):
    return (z[0] * T if z[1].real > 0 else None) if f is branching else f(z)


def test_several_outputs_and_arguments():
    def f(t, b):
        return b[0] * t, np.exp(b[1] * t), np.arange(3)

    jac = fdiff.jacobian(f, argnums=(0, 1))
    b = np.array([2.0, 0.5])
    (dt, db), (et, eb), (it, ib) = jac(T, b)
    assert_allclose(dt, 2.0 * np.eye(7))
    assert_allclose(db, np.stack([T, 0 * T], axis=-1))
    assert_allclose(et, np.diag(0.5 * np.exp(0.5 * T)))
    assert_allclose(eb, np.stack([0 * T, T * np.exp(0.5 * T)], axis=-1))
    assert (it.shape, ib.shape) == ((3, 7), (3, 2))
    assert not it.any()
    assert not ib.any()


def test_single_precision_stays():
    f = lambda b: b[0] * np.exp(-b[1] * T.astype(np.float32))
    found = fdiff.jacobian(f)(np.array([1.0, 2.0], np.float32))
    assert found.dtype == np.float32
    assert_allclose(found, complex_step(f, np.array([1.0, 2.0])), rtol=1e-5)


def test_inside_another_derivative():
    def slopes(b):
        return np.sum(fdiff.jacobian(lambda c: c[0] * np.exp(-c[1] * T))(b) ** 2)

    b = np.array([1.5, 0.5])
    e = np.exp(-b[1] * T)
    wanted = [np.sum(2 * b[0] * T**2 * e**2), np.sum(-2 * T * e**2 * (1 + (b[0] * T) ** 2))]
    assert_allclose(fdiff.grad(slopes)(b), wanted, rtol=1e-12)
