"""Sensitivities of initial value problems: right for stiff ones, too, and of one run."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import odeint, solve_ivp
from scipy.linalg import expm

import fdiff
from fdiff.ops.solvers import ode_derivatives, solver_call

assert ode_derivatives.smooth, "imported, since it enters the solvers"
METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")
TIMES = np.linspace(0.5, 3.0, 4)
TIGHT = {"rtol": 1e-10, "atol": 1e-12}
P = np.linspace(0.5, 1.2, 6)


def solved(method, slope, start, p, times=TIMES, **options):
    """The states at some times, by row."""
    options = {**TIGHT, **options}
    if method == "odeint":
        whole = np.concatenate([np.zeros(1), times])
        return odeint(lambda y, t: slope(t, y, p), start, whole, **options)[1:]
    return solve_ivp(slope, (0, times[-1]), start, method, times, args=(p,), **options).y.T


def chain(t, y, p):
    """Substances that become each other; the solution is linear in the start."""
    flow = p[:3] * y
    return np.stack([-flow[0], flow[0] - flow[1] * p[3], flow[1] * p[4] - flow[2] * p[5]])


def exact(p):
    a, b, c, d, e, f = p
    matrix = np.array([[-a, 0, 0], [a, -b * d, 0], [0, b * e, -c * f]])
    return np.stack([expm(matrix * t) @ [1.0, 0.5, 0.2] for t in TIMES])


def complex_step(f, p):
    columns = [f(p + 1e-30j * e).imag / 1e-30 for e in np.eye(p.size)]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("method", [*METHODS, "odeint"])
def test_jacobians_are_those_of_the_exact_solution(method, mode):
    tolerance = 1e-6 if method in ("RK23", "BDF", "LSODA", "odeint") else 1e-7
    options = {"rtol": 1e-7} if method == "RK23" else {}
    f = lambda p: solved(method, chain, [1.0, 0.5, 0.2], p, **options)
    found = fdiff.jacobian(f, mode=mode)(P)
    assert_allclose(found, complex_step(exact, P), rtol=30 * tolerance, atol=tolerance)


@pytest.mark.parametrize("method", [*METHODS, "odeint"])
def test_a_jacobian_is_one_run_beside_the_plain_one(method, monkeypatch):
    """Whatever the number of parameters, and the start among them; in both modes."""
    runs = []
    for name in ("scipy.integrate.solve_ivp", "scipy.integrate.odeint"):
        run = solver_call.SOLVERS[name]
        counted = lambda *a, run=run, **k: runs.append(k.get("copies", 1)) or run(*a, **k)
        monkeypatch.setitem(solver_call.SOLVERS, name, counted)
    f = lambda p: solved(method, chain, p[:3], p, rtol=1e-6)
    for mode in ("forward", "reverse"):
        call = fdiff.jacobian(f, mode=mode)
        call(P)
        runs.clear()
        call(P * 1.0001)
        explicit = method in ("RK23", "RK45", "DOP853")
        assert runs.count(1) <= 1
        assert len(runs) - runs.count(1) <= (0 if explicit else 1 if mode == "forward" else 2)


def robertson(t, y, p):
    """Three reactions, of which one is a million times as fast (H. H. Robertson 1966)."""
    first, back, last = p[0] * y[0], 1e4 * p[1] * y[1] * y[2], 3e7 * p[2] * y[1] ** 2
    return np.stack([back - first, first - back - last, last])


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA", "odeint"])
def test_stiff_equations_take_as_many_factorisations_as_without_sensitivities(method, monkeypatch):
    p, times = np.array([0.04, 1.0, 1.0]), np.array([0.1, 10.0, 40.0])
    f = lambda p: solved(method, robertson, [1.0, 0.0, 0.0], p, times, rtol=1e-8, atol=1e-13)
    counts = []
    name = "scipy.integrate.odeint" if method == "odeint" else "scipy.integrate.solve_ivp"
    run = solver_call.SOLVERS[name]

    def counted(*args, **options):
        found = run(*args, **options)
        counts.append([int(found[k]) for k in ("nfev", "njev", "nlu")])
        return found

    monkeypatch.setitem(solver_call.SOLVERS, name, counted)
    found = fdiff.jacobian(f)(p)
    plain, wide = counts[0], counts[-1]
    assert wide[0] < 2.5 * plain[0]
    assert wide[2] <= 1.5 * plain[2]
    options = {"times": times, "rtol": 1e-10, "atol": 1e-15}
    tight, h = partial(solved, "LSODA", robertson, [1.0, 0.0, 0.0], **options), 1e-3 * p
    ends = [[tight(p + k * h * e) for k in (-2, -1, 1, 2)] for e in np.eye(3)]
    wanted = [(a - 8 * b + 8 * c - d) / (12 * h[k]) for k, (a, b, c, d) in enumerate(ends)]
    assert_allclose(found, np.stack(wanted, axis=-1), rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_second_derivatives_go_through_sensitivities():
    f = lambda p, method: np.sum(solved(method, chain, [1.0, 0.5, 0.2], p)[-1] ** 2)
    wanted = fdiff.hessian(lambda p: f(p, "DOP853"))(P)
    for method in ("Radau", "LSODA"):
        found = fdiff.hessian(lambda p, m=method: f(p, m))(P)
        assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
