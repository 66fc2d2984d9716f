"""Functions that solvers call at single points: in Python, and by kernels, which give the same."""

import numpy as np
import pytest
from scipy.integrate import odeint, quad, solve_ivp
from scipy.optimize import brentq, fsolve, minimize

import fdiff
from fdiff.hooks import hooks
from fdiff.ops.solvers import compiled_callbacks

P = np.array([1.2, 0.8])
TIGHT = {"rtol": 1e-9, "atol": 1e-11}


def swing(t, y, p):
    return np.stack([y[1] * np.cos(t), -p[0] * np.sin(y[0]) - p[1] * y[1]])


def branching(p):
    def rate(t):
        return p[0] * t if t < 0.3 else np.sin(p[1] * t) + p @ p

    return quad(rate, 0.0, 1.0, points=[0.3])[0]


def ode(method):
    ends = (0, 2.0)
    return lambda p: solve_ivp(swing, ends, [p[0], 0.3], method, args=(p,), **TIGHT).y[:, -1] @ p


def vectorised(method):
    slope = lambda t, y: np.array([y[1], -P[0] * y[0]])
    whole = lambda p: lambda t, y: slope(t, y) * p[1]
    return lambda p: solve_ivp(whole(p), (0, 2), [1, 0], method, vectorized=True, **TIGHT).y[0, -1]


def nearest(p):
    return minimize(lambda x: np.sum(np.cosh(x - p) + 0.1 * x**4), P, tol=1e-12).x @ p


SOLVERS = {
    "quad": lambda p: quad(lambda t: np.exp(-p[0] * t) * np.sin(t + p[1]), 0.0, 2.0)[0],
    "quad with a branch": branching,
    "fsolve": lambda p: fsolve(lambda x: x**3 + p * x - np.sum(p), [1.0, 1.0], xtol=1e-13) @ p,
    "brentq": lambda p: brentq(lambda x: np.cos(x) - p[0] * x + p[1], 0.0, 3.0, xtol=1e-14),
    "minimize": nearest,
    "odeint": lambda p: odeint(swing, [p[0], 0.3], [0, 1, 2], (p,), tfirst=True, **TIGHT)[-1] @ p,
    **{method: ode(method) for method in ("RK45", "DOP853", "Radau", "BDF", "LSODA")},
    **{f"{method}, vectorised": vectorised(method) for method in ("RK45", "Radau")},
}


def unused(*_):
    raise AssertionError("a point was computed in Python")


@pytest.mark.parametrize("name", SOLVERS)
def test_kernels_give_what_python_gives(name, monkeypatch):
    f = SOLVERS[name]
    whole = fdiff.value_and_grad(f)
    with monkeypatch.context() as patch:
        patch.setenv("FDIFF_TIER", "compile")
        patch.setattr(compiled_callbacks, "maker", lambda tape, own: lambda *held: unused)
        value, slope = whole(P)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    wanted, wanted_slope = fdiff.value_and_grad(lambda p: f(p))(P)
    np.testing.assert_allclose(value, wanted, rtol=1e-8)
    np.testing.assert_allclose(slope, wanted_slope, rtol=1e-6)


def points_of(f, own, *extras):
    """The runs of a function of `own` and of the extras, and its tape."""
    whole = fdiff.make_tape(lambda *args: f(*args), *own, *extras)
    return compiled_callbacks.PointRuns(whole, len(own))


def test_what_points_do_not_move_is_computed_once():
    matrix, x, t = np.arange(9.0).reshape(3, 3), np.ones(3), 0.5
    runs = points_of(lambda t, x, a: np.sin((a @ a) @ x * t) + np.sum(a), (t, x), matrix)
    assert [n.primitive.name for n in runs.tape.nodes].count("contract") == 1
    assert len(runs.tape.inputs) == 4
    run = runs.at([matrix])
    wanted = np.sin((matrix @ matrix) @ x * t) + np.sum(matrix)
    np.testing.assert_allclose(run(t, x)[0], wanted, rtol=1e-14)
    np.testing.assert_allclose(run(t, [1, 1, 1])[0], wanted, rtol=1e-14)


class Rising:
    """Stands for the runner of a tape, whose kernel is there at the third question."""

    def __init__(self):
        self.asked = []

    def kernel_after(self, seconds):
        self.asked.append(seconds)
        return (lambda *args: [np.full(3, 7.0)]) if len(self.asked) > 2 else None


def test_the_kernel_is_asked_for_now_and_then_and_results_are_new_arrays(monkeypatch):
    runner = Rising()
    monkeypatch.setitem(vars(hooks), "runner", lambda tape: runner)
    run, x, a = points_of(lambda x, a: x, (np.ones(3),), np.ones(3)).at([np.ones(3)]), np.ones(3), 0
    while run(x)[0][0] == 1.0:
        a += 1
        assert not np.shares_memory(run(x)[0], x)
    assert 20 < a < 1e5
    assert runner.asked[0] == 0.0
    assert compiled_callbacks.OFTEN < min(runner.asked[1:]) < 100 * compiled_callbacks.OFTEN
    assert run(x)[0][0] == 7.0
    assert len(runner.asked) == 3
