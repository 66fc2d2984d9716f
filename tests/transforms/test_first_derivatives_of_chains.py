"""What is derived for a Jacobian or a Hessian of an unrolled loop: each tape once, few terms."""

import numpy as np
import pytest
import references
from numpy.testing import assert_allclose

import fdiff
from fdiff.transforms import late_steps
from fdiff.transforms.terms import dense_tapes

STEPS = 40


def lorenz(y):
    for _ in range(STEPS):
        slope = np.stack([10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - y[2]])
        y = y + 0.01 * slope
    return y


def numbers(y):
    x, v = y[0], y[1]
    for _ in range(8 * STEPS):
        x, v = x + 0.01 * v, v - 0.01 * np.sin(x)
    return np.stack([x, v])


def burgers(u):
    for _ in range(STEPS):
        new = u.copy()
        new[1:-1] = u[1:-1] + 0.1 * (u[2:] ** 2 - u[:-2] ** 2) + 0.05 * (u[2:] - u[:-2])
        u = new
    return u


def matrices(p):
    x, cov, found = np.ones(2), np.eye(2), []
    for _ in range(2 * STEPS):
        cov = cov + np.exp(p[0]) * np.eye(2)
        gain = cov[:, 0] / (cov[0, 0] + np.exp(p[1]))
        x, cov = x + gain * np.cos(x[0]), cov - np.outer(gain, cov[0])
        found.append(x[1])
    return np.stack(found)


CASES = {
    "lorenz": (lorenz, np.array([1.0, 1.1, 0.9])),
    "numbers": (numbers, np.array([1.0, 0.5])),
    "burgers": (burgers, 1.0 + 0.1 * np.sin(np.linspace(0.0, 6.28, 48))),
    "matrices": (matrices, np.array([-1.0, 0.2])),
}


@pytest.fixture(autouse=True)
def unrolled(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")


@pytest.fixture
def made(monkeypatch):
    """The nodes that each step gives, by name, and the terms that were found in all."""
    nodes, terms = {}, []
    watch = lambda name, tape: nodes.setdefault(name, []).append(0 if tape is None else len(tape))
    monkeypatch.setattr(late_steps, "WATCHERS", [watch])
    bounded = dense_tapes.DenseSweep.bounded
    counted = lambda self, few, type_: terms.extend(few) or bounded(self, few, type_)
    monkeypatch.setattr(dense_tapes.DenseSweep, "bounded", counted)
    fdiff.dispatch.program.forget_programs()
    return nodes, terms


@pytest.mark.parametrize("case", CASES)
def test_a_jacobian_derives_each_tape_once(case, made):
    f, x = CASES[case]
    found = fdiff.jacobian(f, mode="forward")(x)
    nodes, terms = made
    assert len(nodes["push forward"]) == 1
    once = {"matrix functions", "stop shifts", "reroll", "batch loops", "split", "push forward"}
    assert all(len(nodes[name]) == 1 for name in once)
    whole = sum(sum(nodes[name]) for name in nodes if name in {"simplify", "unit tangents"})
    assert whole <= 1.1 * nodes["push forward"][0]  # each node of the result is entered once
    assert len(terms) <= 2 * dense_tapes.TRIED
    assert_allclose(found, references.jacobian(f, (x,), 0), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_hessian_derives_each_tape_once(case, made):
    f, x = CASES[case]
    g = lambda x: np.sum(f(x) ** 2)
    found = fdiff.hessian(g)(x)
    nodes, terms = made
    assert len(nodes["push forward"]) == len(nodes["pull back 1"]) == 1
    whole = sum(sum(nodes[name]) for name in nodes if name in {"simplify", "unit tangents"})
    assert whole <= 1.1 * nodes["push forward"][0]
    assert len(terms) <= 2 * dense_tapes.TRIED
    slope, h = fdiff.grad(g), 1e-6
    columns = [(slope(x + h * e) - slope(x - h * e)) / (2 * h) for e in np.eye(x.size)]
    assert_allclose(found, columns, rtol=1e-5, atol=1e-6)


def test_a_long_chain_of_large_sparse_arrays_is_taken_from_terms(made):
    """A diagonal stays one, whatever the number of steps: that pays at once."""

    def f(x):
        for _ in range(100):
            x = x + 0.1 * np.sin(x) * np.cos(x)
        return x

    x = np.linspace(0.1, 0.9, 200)
    found = fdiff.jacobian(f)(x)
    assert np.count_nonzero(found) == x.size
    assert "unit tangents" not in made[0]
    assert_allclose(np.diag(found), fdiff.jvp(f, x, np.ones(200))[1], rtol=1e-12)


def wavy(x):
    return np.cumsum(x[::-1] * np.sin(x)) * x[0]


def test_chunks_of_one_size_are_one_tape():
    """Also where they do not divide the columns: the last two overlap."""
    x = np.linspace(0.5, 1.5, 11)
    for mode in ("forward", "reverse"):
        found = fdiff.jacobian(wavy, chunk_size=4, mode=mode)(x)
        assert_allclose(found, references.jacobian(wavy, (x,), 0), rtol=1e-12, atol=1e-13)
    g = lambda x: np.sum(wavy(x)) ** 2
    assert_allclose(fdiff.hessian(g, chunk_size=4)(x), fdiff.hessian(g)(x), rtol=1e-12)
