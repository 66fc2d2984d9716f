"""Functions of SciPy that call a function of the user, inside of a differentiated function."""

import tracemalloc
from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from scipy.integrate import odeint, quad, solve_ivp
from scipy.optimize import brentq, fsolve, minimize, minimize_scalar, newton, root, root_scalar

import fdiff
from fdiff.errors import ConvergenceError, TraceError, UnsupportedError

jax.config.update("jax_enable_x64", True)
P = np.array([1.2, 0.8])
OPERATORS = {
    "reverse": fdiff.jacrev,
    "forward": fdiff.jacfwd,
}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")


def quick_first(names, quick):
    """All names; those behind the first few are for the slow tests."""
    return [
        pytest.param(n, marks=pytest.mark.slow if k >= quick else ()) for k, n in enumerate(names)
    ]


def newton_of(f, x):
    """A root by Newton's method, which JAX differentiates step by step."""
    step = lambda _, x: x - jnp.linalg.solve(jax.jacobian(f)(x), f(x))
    return jax.lax.fori_loop(0, 20, step, x)


@cache
def derivatives(exact):
    """Both derivatives at `P`, by JAX in forward mode."""
    return [np.asarray(jax.jit(d)(P)) for d in (jax.jacfwd(exact), jax.jacfwd(jax.jacfwd(exact)))]


def check(f, exact, rtol, second):
    """Values are SciPy's bit for bit; derivatives those of a closed form, by JAX."""
    p = P
    np.testing.assert_array_equal(fdiff.jit(f)(p), f(p))
    first, hessian = derivatives(exact)
    for operator in OPERATORS.values():
        np.testing.assert_allclose(operator(f)(p), first, rtol=rtol, atol=rtol)
    for operator in (
        fdiff.hessian,
        lambda h: fdiff.jacfwd(fdiff.jacfwd(h)),
        lambda h: fdiff.jacrev(fdiff.jacrev(h)),
    ):
        np.testing.assert_allclose(operator(f)(p), hessian, rtol=second, atol=second)


# --- integrals -----------------------------------------------------------------------------------


def scaled(t, a, b):
    return a * np.exp(-b * t)


INTEGRALS = {
    "closure": (
        lambda p: quad(lambda t: p[0] * np.exp(-p[1] * t), 0, np.inf)[0],
        lambda p: p[0] / p[1],
    ),
    "args and limits": (
        lambda p: quad(scaled, p[0], p[1] + 2, args=(p[0], p[1]))[0],
        lambda p: p[0] / p[1] * (jnp.exp(-p[1] * p[0]) - jnp.exp(-p[1] * (p[1] + 2))),
    ),
    "both infinite": (
        lambda p: quad(lambda t: np.exp(-p[0] * t * t + p[1] * t), -np.inf, np.inf)[0],
        lambda p: jnp.sqrt(jnp.pi / p[0]) * jnp.exp(p[1] ** 2 / (4 * p[0])),
    ),
    "weight": (
        lambda p: quad(lambda t: p[0] * t * p[1], 0, 1, weight="cos", wvar=2.0)[0],
        lambda p: p[0] * p[1] * (jnp.cos(2.0) + 2 * jnp.sin(2.0) - 1) / 4,
    ),
    "inside of an integral": (
        lambda p: quad(lambda x: quad(lambda y: p[0] * x * y, 0, x * p[1])[0], 0, 1)[0],
        lambda p: p[0] * p[1] ** 2 / 8,
    ),
    "of a root": (
        lambda p: quad(lambda x: brentq(lambda y: y**3 - p[0] * x, 0, 3), 0, p[1])[0],
        lambda p: p[0] ** (1 / 3) * 0.75 * p[1] ** (4 / 3),
    ),
}


@pytest.mark.parametrize("name", INTEGRALS)
def test_integrals_follow_leibniz(name):
    check(*INTEGRALS[name], rtol=1e-8, second=1e-7)


def test_vmap_of_an_integral():
    f = INTEGRALS["args and limits"][0]
    rows = np.stack([P, P + 0.1])
    np.testing.assert_array_equal(fdiff.vmap(f)(rows), [f(row) for row in rows])
    np.testing.assert_allclose(
        fdiff.vmap(fdiff.grad(f))(rows), [fdiff.grad(f)(row) for row in rows], rtol=1e-13
    )


def test_branches_of_an_integrand_are_followed_at_each_call():
    def f(p):
        def rate(t):
            if t < 0.3:
                return p * t
            return p**2 if t < 0.7 else np.sin(p * t)

        return quad(rate, 0, 1, points=[0.3, 0.7])[0]

    slope = fdiff.grad(f)
    for p in (1.1, 2.0):
        last = quad(lambda t, p=p: t * np.cos(p * t), 0.7, 1)[0]
        np.testing.assert_allclose(slope(p), 0.3**2 / 2 + 2 * p * 0.4 + last, rtol=1e-12)


def test_a_jump_that_moves_is_refused_and_a_kink_at_second_order():
    kink = lambda k: quad(lambda t: np.maximum(t - k, 0.0), 0, 2)[0]
    np.testing.assert_allclose(fdiff.grad(kink)(0.7), -1.3)
    for call in (
        lambda: fdiff.hessian(kink)(np.array(0.7)),
        lambda: fdiff.grad(lambda k: quad(lambda t: 1.0 if t < k else 0.0, 0, 1)[0])(0.4),
        lambda: fdiff.grad(lambda k: quad(lambda t: np.where(t < k, 1.0, 0.0), 0, 1)[0])(0.4),
        lambda: fdiff.grad(lambda k: quad(lambda t: np.floor(t * k), 0, 4)[0])(1.1),
        lambda: fdiff.grad(lambda k: quad(lambda t: np.heaviside(t - k, 0.5), 0, 1)[0])(0.4),
        lambda: fdiff.grad(lambda k: quad(lambda t: np.copysign(1.0, t - k), 0, 1)[0])(0.4),
        lambda: fdiff.grad(lambda k: quad(lambda t: (0.8 * t + k) % 0.5, 0, 1)[0])(0.4),
        lambda: fdiff.grad(lambda k: quad(lambda t: np.fmod(t + k, 0.5), 0, 1)[0])(0.4),
    ):
        with pytest.raises(UnsupportedError, match=r"test_solvers.py:(.|\n)*Split the interval"):
            call()
    split = lambda k: quad(lambda t: 1.0, 0, k)[0] + quad(lambda t: 0.0 * t, k, 1)[0]
    np.testing.assert_allclose(fdiff.grad(split)(0.4), 1.0)


# --- roots ---------------------------------------------------------------------------------------


def cubic(x, a, b):
    return x**3 + b * x - a


def exact_cubic(p):
    step = lambda _, x: x - (x**3 + p[1] * x - p[0]) / (3 * x**2 + p[1])
    return jax.lax.fori_loop(0, 20, step, 0.9)


ROOTS = {
    "brentq": lambda p: brentq(cubic, 0, 3, args=(p[0], p[1])),
    "fsolve": lambda p: fsolve(lambda x: cubic(x, *p), 1.0)[0],
    "loose": lambda p: brentq(lambda x: cubic(x, *p), 0, 3, xtol=1e-3),
    "bracket that moves": lambda p: brentq(lambda x: cubic(x, *p), p[0] - 2, p[1] + 3),
    "bisect": lambda p: scipy.optimize.bisect(lambda x: cubic(x, *p), 0, 3),
    "ridder": lambda p: scipy.optimize.ridder(lambda x: cubic(x, *p), 0, 3),
    "toms748": lambda p: scipy.optimize.toms748(lambda x: cubic(x, *p), 0, 3),
    "newton": lambda p: newton(lambda x: cubic(x, *p), 1.0, fprime=lambda x: 3 * x * x + p[1]),
    "secant": lambda p: newton(lambda x: cubic(x, *p), 1.0),
    "root_scalar": lambda p: root_scalar(cubic, args=(p[0], p[1]), bracket=[0, 3]).root,
    "both": lambda p: (
        root_scalar(lambda x: (cubic(x, *p), 3 * x * x + p[1]), x0=1.0, fprime=True).root
    ),
}


@pytest.mark.parametrize("name", quick_first(ROOTS, 3))
def test_roots_follow_the_implicit_function_theorem(name):
    f = ROOTS[name]
    np.testing.assert_array_equal(fdiff.jit(f)(P), f(P))
    first, second = derivatives(exact_cubic)
    for operator in OPERATORS.values():
        np.testing.assert_allclose(operator(f)(P), first, rtol=1e-13)
    np.testing.assert_allclose(fdiff.hessian(f)(P), second, rtol=1e-11)


def equations(x, a, b):
    return [x[0] ** 2 + a * x[1] - 3, np.sin(x[0]) * b + x[1] ** 3 - 1]


def exact_pair(p):
    def residual(x):
        return jnp.array([x[0] ** 2 + p[0] * x[1] - 3, jnp.sin(x[0]) * p[1] + x[1] ** 3 - 1])

    return newton_of(residual, jnp.array([1.4, 0.6]))


def jacobian_of(x, a, b):
    return np.array([[2 * x[0], a], [np.cos(x[0]) * b, 3 * x[1] ** 2]])


SYSTEMS = {
    "root": lambda p: root(equations, [1.0, 1.0], args=(p[0], p[1])).x,
    "jac": lambda p: root(equations, [1.0, 1.0], args=(p[0], p[1]), jac=jacobian_of).x,
    "krylov": lambda p: root(lambda x: np.array(equations(x, *p)), [1.4, 0.6], method="krylov").x,
    "fsolve": lambda p: fsolve(equations, [1.0, 1.0], args=(p[0], p[1]), full_output=True)[0],
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_follow_the_implicit_function_theorem(name):
    f = SYSTEMS[name]
    np.testing.assert_array_equal(fdiff.jit(f)(P), f(P))
    first, second = derivatives(exact_pair)
    for operator in OPERATORS.values():
        np.testing.assert_allclose(operator(f)(P), first, rtol=1e-12)
    np.testing.assert_allclose(fdiff.hessian(lambda p: f(p)[0])(P), second[0], rtol=1e-10)


def test_fields_of_results_are_those_of_scipy():
    def fields(p):
        found = root(equations, [1.0, 1.0], args=(p[0], p[1]))
        one = root_scalar(cubic, args=(p[0], p[1]), bracket=[0, 3])
        least = minimize(lambda x: np.sum((x - p) ** 2), np.zeros(2))
        assert found.success
        assert found.message.startswith("The solution converged")
        assert one.converged
        assert one.flag == "converged"
        assert one.method == "brentq"
        assert least.success
        assert "terminated" in least["message"]
        return [found.x, found.fun, found.nfev, found.status, one.root, one.iterations], [
            one.function_calls, least.x, least.fun, least.nit, least.nfev, least.jac,
        ]  # fmt: skip

    ours, plain = fdiff.jit(fields)(P), fields(P)
    for a, b in zip([*ours[0], *ours[1]], [*plain[0], *plain[1]], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore:The iteration is not making good progress:RuntimeWarning")
def test_what_did_not_converge_has_a_value_and_no_derivative():
    for f in (
        lambda p: root(lambda x: x**2 + p[0], [1.0]).x[0],
        lambda p: fsolve(lambda x: x**2 + p[0], [1.0])[0],
        lambda p: minimize(lambda x: np.sum(np.exp(-p[0] * x)), [0.0], options={"maxiter": 3}).fun,
    ):
        assert fdiff.jit(f)(P) == f(P)
        with pytest.raises(
            ConvergenceError, match=r"grad(.|\n)*scipy.optimize(.|\n)*test_solvers.py:"
        ):
            fdiff.grad(f)(P)
    guarded = lambda p: s.x[0] if (s := root(lambda x: x**2 + p[0], [1.0])).success else p[0]
    np.testing.assert_array_equal(fdiff.grad(guarded)(P), [1.0, 0.0])


def test_errors_of_scipy_come_and_can_be_caught():
    def f(p):
        try:
            return brentq(lambda x: x**3 - p, 0, 1)
        except ValueError:
            return p * p

    slope = fdiff.grad(f)
    for p in (0.5, 2.0, 0.7, 3.0):  # either way, with one prepared function
        np.testing.assert_allclose(slope(p), p ** (-2 / 3) / 3 if p < 1 else 2 * p, rtol=1e-12)
    with pytest.raises(ValueError, match="different signs"):
        fdiff.grad(lambda p: brentq(lambda x: x**3 - p, 0, 1))(2.0)


def test_closures_over_arrays_are_read_at_each_call():
    data = np.array([1.0, 2.0, 3.0])
    slope = fdiff.grad(lambda p: brentq(lambda x: np.sum(x * data) - p, 0, 9))
    np.testing.assert_allclose(slope(2.0), 1 / 6)
    data[:] = 1.0
    np.testing.assert_allclose(slope(2.0), 1 / 3)


# --- minima --------------------------------------------------------------------------------------


def hill(x, a, b):
    return (x[0] - a) ** 2 + np.cosh(x[1] * b) - x[1] * a + 0.3 * x[0] * x[1]


def slopes_of_hill(x, a, b):
    return np.array([2 * (x[0] - a) + 0.3 * x[1], b * np.sinh(x[1] * b) - a + 0.3 * x[0]])


def exact_minimum(p):
    def g(x):
        first = 2 * (x[0] - p[0]) + 0.3 * x[1]
        return jnp.array([first, p[1] * jnp.sinh(x[1] * p[1]) - p[0] + 0.3 * x[0]])

    return newton_of(g, jnp.array([1.0, 1.0]))


MINIMA = {
    "BFGS": {},
    "L-BFGS-B": {},
    "CG": {},
    "Nelder-Mead": {"tol": 1e-5},
    "SLSQP": {},
    "TNC": {},
    "Newton-CG": {"jac": slopes_of_hill},
}


@pytest.mark.slow
@pytest.mark.parametrize("method", quick_first(MINIMA, 2))
def test_minima_follow_the_implicit_function_theorem(method):
    def least(p):
        return minimize(hill, [0.0, 0.0], args=(p[0], p[1]), method=method, **MINIMA[method])

    f, value = (lambda p: least(p).x), (lambda p: least(p).fun)
    np.testing.assert_allclose(fdiff.jit(f)(P), f(P), rtol=1e-6)
    first, both = derivatives(exact_minimum)
    for operator in OPERATORS.values():
        np.testing.assert_allclose(operator(f)(P), first, rtol=1e-12)
    second = fdiff.hessian(lambda p: f(p)[1])(P)
    np.testing.assert_allclose(second, both[1], rtol=1e-10)
    x, (a, b) = exact_minimum(P), P
    along = np.array([-2 * (x[0] - a) - x[1], x[1] * np.sinh(x[1] * b)])
    np.testing.assert_allclose(fdiff.grad(value)(P), along, rtol=1e-4)


@pytest.mark.slow
def test_variables_at_bounds_move_with_them():
    def f(p):
        return minimize(hill, [0.0, 0.0], args=(1.2, 0.8), bounds=[(p[0], None), (None, p[1])]).x

    p = np.array([1.5, 0.4])
    for operator in OPERATORS.values():
        np.testing.assert_array_equal(operator(f)(p), np.eye(2))
    inside = lambda p: minimize(hill, [0.0, 0.0], args=(p[0], p[1]), bounds=[(-9, 9), (-9, 9)]).x
    np.testing.assert_allclose(
        fdiff.jacobian(inside)(P), jax.jacobian(exact_minimum)(P), rtol=1e-12
    )
    edge = lambda q: minimize_scalar(lambda x: (x - q) ** 2, bounds=(0, q / 2)).x
    np.testing.assert_allclose(fdiff.grad(edge)(1.2), 0.5)


def test_which_of_many_bounds_hold_is_found_without_a_dense_hessian():
    size = 2000
    weights, p = np.linspace(1.0, 2.0, size), np.sin(0.37 * np.arange(size))

    def energy(u, p):
        return np.sum(weights * (u - p) ** 2) + 0.1 * np.sum(np.diff(u) ** 2) + 0.05 * np.sum(u**4)

    def held(p):
        return minimize(energy, np.zeros(size), args=(p,), jac=fdiff.grad(energy),
                        method="L-BFGS-B", bounds=[(-0.3, 0.3)] * size, tol=1e-9).x  # fmt: skip

    tracemalloc.start()
    slope = fdiff.grad(lambda p: np.sum(weights * held(p)))(p)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * size**2 / 2
    x = held(p)
    free = np.abs(x) < 0.3
    assert 0.1 * size < free.sum() < 0.5 * size
    links = 0.2 * (np.eye(size, k=1) + np.eye(size, k=-1))
    fixed = np.diag(2.0 * weights + links.sum(axis=1)) - links
    for _ in range(3):  # the minimum to all digits, as derivatives are at that
        curvature = (fixed + np.diag(0.6 * x**2))[np.ix_(free, free)]
        gradient = fixed @ x - 2.0 * weights * p + 0.2 * x**3
        x[free] -= np.linalg.solve(curvature, gradient[free])
    adjoint = np.linalg.solve(curvature, weights[free])
    np.testing.assert_allclose(slope[free], 2.0 * weights[free] * adjoint, rtol=1e-9)
    np.testing.assert_array_equal(slope[~free], 0.0)


def test_minima_of_one_variable():
    f = lambda p: minimize_scalar(lambda x: np.cosh(p[0] * x) - p[1] * x).x
    exact = lambda p: jnp.arcsinh(p[1] / p[0]) / p[0]
    np.testing.assert_array_equal(fdiff.jit(f)(P), f(P))
    first, second = derivatives(exact)
    for operator in OPERATORS.values():
        np.testing.assert_allclose(operator(f)(P), first, rtol=1e-12)
    np.testing.assert_allclose(fdiff.hessian(f)(P), second, rtol=1e-11)


# --- initial value problems ----------------------------------------------------------------------


def prey(t, y, a, b):
    return [a * y[0] - b * y[0] * y[1], -y[1] + b * y[0] * y[1] * np.cos(0.1 * t)]


def steps_by_hand(p, places, method, steps, ends=(0.0, 1.0)):
    """The same Runge and Kutta steps and values between them, in JAX."""
    f = lambda t, y: jnp.array(
        [p[0] * y[0] - p[1] * y[0] * y[1], -y[1] + p[1] * y[0] * y[1] * jnp.cos(0.1 * t)]
    )
    y, out = jnp.array([p[0], 0.5]), []
    times = ends[0] + (ends[1] - ends[0]) / steps * np.arange(steps + 1)
    for t, new in pairwise(times):
        h, k = new - t, []
        for row, c in zip(method.A, method.C, strict=True):
            k.append(f(t + c * h, y + h * sum((a * b for a, b in zip(row, k, strict=False)), 0.0)))
        ahead = y + h * sum(b * s for b, s in zip(method.B, k, strict=True))
        k.append(f(new, ahead))
        q = jnp.stack(k).T @ method.P
        inside = [s for s in places if (t < s <= new)]
        out += [y + h * q @ ((s - t) / h) ** np.arange(1, q.shape[1] + 1) for s in inside]
        y = ahead
    return jnp.stack(out, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["RK23", "RK45"])
def test_the_derivative_is_that_of_the_accepted_steps(method):
    places = [0.1, 0.5, 0.6, 1.0]

    def f(p):
        steps = {"first_step": 0.5, "max_step": 0.5, "rtol": 0.9}  # coarse: far from the solution
        found = solve_ivp(prey, (0, 1), [p[0], 0.5], method, places, args=(p[0], p[1]), **steps)
        return found.y[:, :4]

    exact = lambda p: steps_by_hand(p, places, getattr(scipy.integrate, method), 2)
    np.testing.assert_array_equal(fdiff.jit(f)(P), f(P))
    np.testing.assert_allclose(f(P), exact(P), rtol=1e-12)
    first, second = derivatives(exact)
    for operator in OPERATORS.values():
        np.testing.assert_allclose(operator(f)(P), first, rtol=1e-11, atol=1e-13)
    found = fdiff.hessian(lambda p: np.sum(f(p)))(P)
    np.testing.assert_allclose(found, second.sum((0, 1)), rtol=1e-10)


METHODS = {"RK45": 1e-7, "DOP853": 1e-7, "LSODA": 1e-5, "Radau": 1e-5, "RK23": 1e-5, "BDF": 1e-4}


@pytest.mark.parametrize("method", quick_first(METHODS, 4))
def test_initial_value_problems_with_ends_that_move(method):
    """``y' = -a y``: start, rate, both ends, and the times between them."""
    tight = (
        {"rtol": 1e-10, "atol": 1e-12} if METHODS[method] < 1e-6 else {"rtol": 1e-8, "atol": 1e-10}
    )

    def last(p):
        found = solve_ivp(lambda t, y: -p[1] * y, (p[2], p[3]), p[:1], method, **tight)
        return found.y[0, -1]

    def between(p):
        found = solve_ivp(lambda t, y: -p[1] * y, (p[2], 3.0), p[:1], method, p[3:], **tight)
        return found.y[0, 0]

    p = np.array([1.3, 0.7, 0.2, 1.9])
    exact = lambda p: p[0] * jnp.exp(-p[1] * (p[3] - p[2]))
    for f in (last, between):
        np.testing.assert_array_equal(fdiff.jit(f)(p), f(p))
        for operator in OPERATORS.values():
            found = operator(f)(p)
            np.testing.assert_allclose(found, jax.grad(exact)(p), rtol=METHODS[method])


def test_odeint_by_the_variational_equations():
    def f(p):
        y = odeint(
            lambda y, t, a: [y[1], -a * y[0]], [p[0], 0.0], p[1] * np.arange(3.0), args=(p[0],)
        )
        return y[2, 0]

    exact = lambda p: p[0] * jnp.cos(jnp.sqrt(p[0]) * 2 * p[1])
    np.testing.assert_array_equal(fdiff.jit(f)(P), f(P))
    for operator in OPERATORS.values():
        np.testing.assert_allclose(operator(f)(P), derivatives(exact)[0], rtol=1e-6)
    np.testing.assert_allclose(fdiff.hessian(f)(P), derivatives(exact)[1], rtol=1e-5)


def test_the_number_of_steps_may_change_from_call_to_call():
    def f(p):
        found = solve_ivp(lambda t, y: -p * y, (0, 2), [1.0], rtol=1e-6, atol=1e-9)
        assert found.t.shape == found.y[0].shape
        assert found.success
        return found.y[0, -1] + found.t[-1] * 0

    slope = fdiff.grad(f)
    for p in (1.0, 30.0, 2.0, 1.0):
        np.testing.assert_allclose(slope(p), -2 * np.exp(-2 * p), rtol=1e-4, atol=1e-6)


def test_what_is_not_supported_is_named():
    for f, words in (
        (lambda p: solve_ivp(prey, (0, 1), p, args=p, events=lambda t, y: y[0]).y, "events="),
        (lambda p: solve_ivp(prey, (0, 1), p, args=p, dense_output=True).y, "dense_output="),
        (lambda p: minimize(hill, p, (*p,), method="COBYLA").x, "method='COBYLA'"),
        (lambda p: minimize(hill, p, (*p,), constraints={"type": "eq", "fun": sum}).x, "constr"),
        (lambda p: minimize(hill, p, (*p,), callback=print).x, "callback="),
        (lambda p: minimize(hill, p, (*p,), jac="cs").x, "jac='cs'"),
        (lambda p: quad(scaled, 0, 1, (*p,), full_output=True)[0], "full_output="),
        (lambda p: root(equations, p[None], (*p,)).x, "2 axes"),
        (lambda p: minimize(hill, p, (*p,)).jac, "`jac` of scipy.optimize.minimize"),
    ):
        with pytest.raises(TraceError, match=rf"{words}(.|\n)*test_solvers.py:"):
            fdiff.jacobian(lambda p, f=f: np.sum(f(p)))(P)


def test_vmap_runs_a_solver_for_each_element():
    rows = np.stack([P, P + 0.1, P - 0.2])
    steps = {"t_eval": [0.5, 1.0], "first_step": 0.5, "max_step": 0.5, "rtol": 0.9}
    for f in (
        ROOTS["brentq"],
        SYSTEMS["root"],
        lambda p: minimize(hill, [0.0, 0.0], args=(p[0], p[1])).x,
        lambda p: solve_ivp(prey, (0, 1), p, args=(p[0], p[1]), **steps).y,
    ):
        for operator in (fdiff.jit, fdiff.jacrev, fdiff.jacfwd):
            one = operator(f)
            expected = [one(row) for row in rows]
            found = fdiff.vmap(one)(rows)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


# --- options that are arguments of the function ---------------------------------------------------

OPTIONS = {
    "solve_ivp": (
        lambda x, **o: solve_ivp(lambda t, y: -x[0] * y, (0, 1), x[1:], **o).y[0, -1],
        {"rtol": 1e-3, "atol": 1e-6},
        {"rtol": 1e-9, "atol": 1e-9, "max_step": 0.1},
    ),
    "odeint": (
        lambda x, **o: odeint(lambda y, t: -x[0] * y, x[1:], np.linspace(0, 1, 3), **o)[-1, 0],
        {"rtol": 1e-3, "atol": 1e-3},
        {"rtol": 1e-9, "atol": 1e-9, "hmax": 0.1},
    ),
    "brentq": (
        lambda x, **o: brentq(lambda z: z**3 - x[0] - x[1], 0, 3, **o),
        {"xtol": 1e-8},
        {"xtol": 1e-13, "maxiter": 200},
    ),
    "newton": (
        lambda x, **o: newton(lambda z: z**3 - x[0], 1.2, **o),
        {"tol": 0.1},
        {"tol": 1e-13},
    ),
    "quad": (
        lambda x, **o: quad(lambda s: x[0] * np.sqrt(s) * x[1], 0, 1, **o)[0],
        {"epsabs": 0.1, "epsrel": 0.1},
        {"epsabs": 1e-11, "limit": 100},
    ),
    "root": (
        lambda x, **o: root(lambda z: z**3 - x, np.ones(2), **o).x.sum(),
        {"tol": 0.1},
        {"options": {"xtol": 1e-13}},
    ),
    "minimize": (
        lambda x, **o: minimize(lambda z: np.sum((z - x) ** 2 + z**4), x * 0.5, **o).x.sum(),
        {"tol": 0.1},
        {"tol": 1e-9, "options": {"maxiter": 90}},
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_solvers_may_be_arguments(name):
    """``f(x, **options)`` hands them on; another tolerance gives what plain code gives with it."""
    f, loose, tight = OPTIONS[name]
    x = np.array([1.3, 2.1])
    g = fdiff.value_and_grad(f)
    written = fdiff.value_and_grad(lambda x: f(x, **tight))(x)
    for options in (tight, loose, tight):
        value, grad = g(x, **options)
        np.testing.assert_allclose(value, f(x, **options), rtol=1e-12)
    np.testing.assert_allclose(grad, written[1], rtol=1e-12)
    with pytest.raises(UnsupportedError, match=f"= of scipy.*{name}"):
        fdiff.grad(lambda x: f(x, **{next(iter(tight)): x[0] * 1e-9}))(x)
