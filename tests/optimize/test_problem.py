"""`fdiff.optimize.Problem`: derivatives, one evaluation a point, and what SciPy's methods get."""

import sys
import threading

import numpy as np
import pytest
from optimal_power_flow import power_flow
from scipy.optimize import Bounds, NonlinearConstraint, rosen, rosen_der
from scipy.optimize import minimize as scipy_minimize

from fdiff.errors import InputError, StructureError
from fdiff.optimize import Problem
from fdiff.optimize.scipy_methods import METHODS, linear_rows

RNG = np.random.default_rng(7)


def cost(x):
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


def limited(x):
    return np.array([np.prod(x), np.sum(x * x), x[0] + 2.0 * x[2]])


LIMITS = {"bounds": [(1, 5)] * 4, "lower": [25, 40, -np.inf], "upper": [np.inf, 40, 9]}


def chain(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def hock_schittkowski():
    return Problem(cost, limited, **LIMITS)


def complex_step(f, x):
    """Derivatives by SciPy's reference of analytic functions: steps along the imaginary axis."""
    return np.stack([np.imag(f(x + 1e-30j * unit)) / 1e-30 for unit in np.eye(len(x))], axis=-1)


def test_derivatives_are_those_of_the_functions():
    problem, x = hock_schittkowski(), RNG.uniform(1, 5, 4)
    value, gradient = problem.value_and_grad(x)
    np.testing.assert_allclose(value, cost(x), rtol=1e-15)
    np.testing.assert_allclose(gradient, complex_step(cost, x), rtol=1e-14)
    np.testing.assert_allclose(problem.jacobian(x).toarray(), complex_step(limited, x), rtol=1e-14)
    np.testing.assert_allclose(problem.constraints(x), limited(x), rtol=1e-15)
    weights, factor = np.array([0.5, -2.0, 3.0]), 0.7

    def slope(x):
        """The gradient of the Lagrangian by hand."""
        a, b, c, d = x
        of_cost = np.array([d * (2 * a + b + c), a * d, a * d + 1, a * (a + b + c)])
        of_product = np.array([b * c * d, a * c * d, a * b * d, a * b * c])
        return (
            factor * of_cost
            + weights[0] * of_product
            + weights[1] * 2 * x
            + weights[2] * np.array([1, 0, 2, 0])
        )

    lower = problem.hessian(x, weights, factor)
    np.testing.assert_allclose(lower.toarray(), np.tril(complex_step(slope, x)), rtol=1e-13)


def test_each_point_is_evaluated_once_and_buffers_may_be_reused():
    problem = hock_schittkowski().compile(np.ones(4))
    calls, x = problem.callbacks(), np.array([1.0, 2.0, 3.0, 4.0])
    first = [calls.objective(x), calls.gradient(x).copy(), calls.jacobian(x).copy()]
    again = [calls.objective(x), calls.gradient(x), calls.jacobian(x)]
    assert problem.evaluations["value_and_grad"].count == problem.evaluations["jacobian"].count == 1
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    x[0] = 2.0  # the solver's buffer, in place
    np.testing.assert_allclose(calls.objective(x), cost(x), rtol=1e-15)
    np.testing.assert_allclose(calls.gradient(x), complex_step(cost, x), rtol=1e-14)
    assert problem.evaluations["value_and_grad"].count == 2
    x[1] = np.nan
    calls.objective(x), calls.objective(x)
    assert problem.evaluations["value_and_grad"].count == 3


def test_what_the_functions_read_may_change_between_calls():
    scale = np.ones(3)
    problem = Problem(lambda x: np.sum(scale * x * x))
    x = np.arange(3.0)
    before = problem.value_and_grad(x)[0]
    scale[:] = 2.0
    assert problem.value_and_grad(x)[0] == 2.0 * before
    np.testing.assert_array_equal(problem.hessian(x).toarray(), np.diag([4.0, 4.0, 4.0]))


def test_other_entries_than_those_told_are_an_error_and_never_stored_at_wrong_places():
    def branches(x):
        return x[0] * x[1] if x[0] > 0.0 else x[1] * x[2]

    problem = Problem(branches).compile([1.0, 1.0, 1.0])
    np.testing.assert_array_equal(
        problem.hessian([2.0, 1.0, 1.0]).toarray(), [[0, 0, 0], [1, 0, 0], [0, 0, 0]]
    )
    with pytest.raises(StructureError, match="other entries than at the start"):
        problem.hessian([-1.0, 1.0, 1.0])

    def chain_or_not(x):  # as many entries in each branch
        return x[0] * x[1] if x[0] > 0.0 else x[1] * np.exp(x[2])

    for other in (branches, chain_or_not):
        calls = Problem(other).compile([1.0, 1.0, 1.0]).callbacks()
        for _ in range(3):
            calls.hessian(RNG.uniform(1, 2, 3), np.zeros(0), 1.0)
        with pytest.raises(StructureError, match=r"Write np\.where for branches"):
            calls.hessian(np.array([-1.0, 1.0, 1.0]), np.zeros(0), 1.0)
    places = np.array([0, 1])
    problem = Problem(lambda x: np.sum(x[places] ** 2))
    assert problem.hessian(np.ones(4)).nnz == 2
    places[:] = [2, 3]
    with pytest.raises(StructureError, match="For other index arrays, call Problem"):
        problem.hessian(np.ones(4))


def test_meshes_that_change_between_solves_are_seen_also_if_another_problem_has_them():
    def on_mesh(places):
        return Problem(chain, lambda x: x[places] * x[-1], lower=0.0, upper=1.0)

    meshes, x = [np.array([0, 1]), np.array([1, 2])], np.array([1.0, 2.0, 3.0, 4.0])
    problems = [on_mesh(mesh).compile(x) for mesh in meshes]
    for _ in range(3):
        for problem, (a, b) in zip(problems, meshes.copy(), strict=True):
            problem.restart()
            calls, jacobian = problem.callbacks(), np.zeros((2, 4))
            jacobian[calls.jacobianstructure()] = calls.jacobian(x)
            expected = np.zeros((2, 4))
            expected[[0, 1], [a, b]], expected[:, 3] = x[3], x[[a, b]]
            np.testing.assert_array_equal(jacobian, expected)
    meshes[0][:] = meshes[1]
    for _ in range(3):
        problems[0].restart()
        with pytest.raises(StructureError, match="other entries than at the start"):
            problems[0].callbacks().jacobian(x)
        problems[1].callbacks().jacobian(x)


def first_or_second(x):
    return np.array([x[0] * x[1]]) if x[0] > 0.0 else np.array([x[0] * x[2]])


def more_or_fewer(x):
    return np.array([x[0] * x[1]]) if x[0] > 0.0 else np.array([x[0] * x[1] * x[2]])


@pytest.mark.parametrize("constraints", [first_or_second, more_or_fewer])
def test_a_branch_met_during_a_solve_stores_nothing_at_wrong_places(constraints):
    problem = Problem(chain, constraints, lower=0, upper=1).compile([1.0, 2.0, 3.0])
    calls, jacobian = problem.callbacks(), np.zeros(3)
    for _ in range(3):
        jacobian[calls.jacobianstructure()[1]] = calls.jacobian(np.array([1.0, 2.0, 3.0]))
        np.testing.assert_array_equal(jacobian, [2.0, 1.0, 0.0])
        with pytest.raises(StructureError, match="other entries than at the start"):
            calls.jacobian(np.array([-1.0, 2.0, 3.0]))


def test_branches_of_the_same_entries_are_followed_during_a_solve():
    def slope(x):
        return x[:1] * (2.0 if x[0] > 0.0 else 3.0) + x[1]

    problem = Problem(lambda x: (x[0] + 3.0) ** 2 + x[1] ** 2, slope, lower=-1.0, upper=np.inf)
    calls = problem.compile([1.0, 2.0]).callbacks()
    for k, x in enumerate([1.0, -1.0, -2.0, 2.0, -3.0, 3.0, -4.0, 4.0]):
        expected = [2.0, 1.0] if x > 0 else [3.0, 1.0]
        np.testing.assert_array_equal(calls.jacobian(np.array([x, 1.0 + k])), expected)
    # A constraint that is linear in each branch is not linear.
    assert not linear_rows(problem, np.array([1.0, 2.0])).any()
    result = problem.minimize([1.0, 2.0], "trust-constr")
    np.testing.assert_allclose(result.x, [-0.6, 0.8], atol=1e-3)


def test_threads_take_turns_with_a_problem():
    problem, wrong, interval = hock_schittkowski(), [], sys.getswitchinterval()

    def work(seed):
        for x in np.random.default_rng(seed).uniform(1, 5, (60, 4)):
            right = np.isclose(problem.value_and_grad(x)[0], cost(x))
            right &= np.allclose(problem.constraints(x), limited(x))
            jacobian = problem.jacobian(x).toarray()
            right &= np.allclose(jacobian[1:], [2 * x, [1, 0, 2, 0]])
            if not right:
                wrong.append(x)
        solved = problem.minimize([1, 5, 5, 1], "slsqp")
        if abs(solved.fun - 17.0140173) > 1e-4:
            wrong.append(solved)

    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


UNBOUNDED = [name for name, takes in METHODS.items() if not takes.constraints]


@pytest.mark.parametrize("method", [name for name in UNBOUNDED if name != "dogleg"])
def test_every_method_gets_what_it_takes(method):
    start = np.full(5, 0.5)
    many = {"maxiter": 20_000, "maxfev": 20_000} if method in ("nelder-mead", "powell") else None
    result = Problem(chain).minimize(start, method, tol=1e-9, options=many)
    np.testing.assert_allclose(result.x, 1.0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name, takes in METHODS.items() if takes.constraints])
def test_constrained_methods_reach_the_published_optimum(method):
    problem = hock_schittkowski()
    result = problem.minimize([1, 5, 5, 1], method, tol=1e-9)  # problem 71 of Hock and Schittkowski
    assert abs(result.fun - 17.0140173) < (1e-3 if not METHODS[method].gradient else 2e-5)
    assert problem.report.counts["value_and_grad"] >= 5
    assert problem.report.seconds["solver"] > 0
    assert "value_and_grad" in repr(problem.report)


def test_scipy_alone_takes_as_many_evaluations():
    start = np.array([1.3, 0.7, 0.8, 1.9, 1.2])
    reference = scipy_minimize(rosen, start, jac=rosen_der, method="BFGS")
    result = Problem(chain).minimize(start, "BFGS")
    assert result.nfev == reference.nfev
    np.testing.assert_allclose(result.x, reference.x, atol=1e-9)


def test_linear_constraints_are_found_row_by_row_and_kinks_are_not_linear():
    def rows(x):
        return np.array(
            [x[0] + 2 * x[1], np.abs(x[1]), x[0] * x[1], np.where(x[0] > 0, x[0], 2 * x[0])]
        )

    problem = Problem(chain, rows, lower=-1, upper=1).compile(np.ones(2))
    np.testing.assert_array_equal(linear_rows(problem, np.ones(2)), [True, False, False, False])
    linear = Problem(chain, lambda x: 3 * x[1:] - x[:-1], lower=0, upper=1).compile(np.ones(6))
    assert linear_rows(linear, np.ones(6)).all()
    shifted = Problem(lambda x: np.sum(x**2), lambda x: x[:1] + x[1:] + 5.0, lower=6, upper=6)
    np.testing.assert_allclose(shifted.minimize([3.0, 0.0], "trust-constr").x, 0.5, atol=1e-6)


def test_slsqp_is_that_of_scipy_with_the_same_constraints():
    problem = hock_schittkowski()
    found = problem.minimize([1, 5, 5, 1])
    reference = scipy_minimize(
        cost, [1, 5, 5, 1], method="SLSQP", bounds=Bounds(1, 5), constraints=[
            NonlinearConstraint(lambda x: limited(x)[1], 40, 40),
            NonlinearConstraint(lambda x: limited(x)[0], 25, np.inf),
            NonlinearConstraint(lambda x: limited(x)[2], -np.inf, 9)],
    )  # fmt: skip
    np.testing.assert_allclose(found.x, reference.x, atol=1e-6)


def test_power_flow_has_the_stored_patterns():
    problem, x = power_flow("case118_ieee")
    problem.compile(x)
    assert problem.jacobian(x).nnz == 5925
    assert problem.hessian(x, np.ones(problem.rows)).nnz == 1868


def test_a_callback_of_scipy_and_progress():
    seen = []
    Problem(chain).minimize(
        np.zeros(3), "BFGS", callback=lambda x: seen.append(x.copy()), progress=False
    )
    assert len(seen) > 3
    with pytest.raises(InputError, match="progress must be None, True, False or 'tqdm'"):
        Problem(chain).minimize(np.zeros(3), progress="bar")


def test_dogleg_says_what_to_write_for_indefinite_hessians():
    result = Problem(chain).minimize([-1.2, 1.0, 2.0], "dogleg")
    if not result.success:
        assert "method='trust-exact'" in result.message
    saddle = Problem(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4).minimize([1.0, 0.1], "dogleg")
    assert not saddle.success
    assert "method='trust-exact' does not" in saddle.message


WRONG = [
    (
        lambda: Problem(chain, [limited]),
        r"(?s)constraints must be one function, not list.*Join several",
    ),
    (lambda: Problem(chain, {"fun": limited}), "constraints must be one function, not dict"),
    (lambda: Problem(chain, limited), "constraints are there, and lower and upper are missing"),
    (lambda: Problem(chain, lower=0), "lower and upper are there, and constraints are missing"),
    (
        lambda: Problem(chain, bounds=[(0, 1)] * 2).compile(np.ones(3)),
        "there are 2 pairs of bounds for 3 variables",
    ),
    (
        lambda: Problem(chain, bounds=[(2, 1)] * 2).compile(np.ones(2)),
        r"lower bound\[0\] = 2.0 is not below",
    ),
    (lambda: Problem(chain, bounds=[1, 2]).compile(np.ones(2)), "bounds must be pairs of numbers"),
    (
        lambda: Problem(chain, limited, lower=[1, 2], upper=3).compile(np.ones(4)),
        "lower must be a number or 3 numbers",
    ),
    (
        lambda: Problem(chain, limited, lower=np.nan, upper=3).compile(np.ones(4)),
        r"lower\[0\] = nan is not below",
    ),
    (lambda: Problem(chain).compile(np.ones((2, 2))), r"Pass x0.ravel\(\)"),
    (lambda: Problem(chain).compile(["a"]), "x0 must be a vector of real numbers"),
    (
        lambda: Problem(chain).compile(np.ones(2)).value_and_grad(np.ones(3)),
        "x has 3 entries, and there are 2",
    ),
    (
        lambda: Problem(chain, lambda x: [x, x], lower=0, upper=1).compile(np.ones(2)),
        "must return one array, not list",
    ),
    (
        lambda: Problem(chain, bounds=[(0, 1)] * 2).minimize(np.ones(2), "BFGS"),
        "method 'BFGS' ignores bounds",
    ),
    (
        lambda: Problem(chain, limited, lower=0, upper=1).minimize(np.ones(4), "TNC"),
        "ignores constraints",
    ),
    (lambda: Problem(chain).minimize(np.ones(2), "newton"), "method must be 'nelder-mead'"),
    (lambda: Problem(chain).callbacks(), r"Call compile\(x0\) first"),
]


@pytest.mark.parametrize(("call", "words"), WRONG, ids=[words[:40] for _, words in WRONG])
def test_wrong_arguments_say_what_to_write(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_another_size_is_compiled_anew_and_integers_are_converted():
    problem = Problem(chain)
    assert problem.minimize([0, 0]).x.size == 2
    assert problem.minimize([0, 0, 0]).x.size == 3
    assert "3 variables, 0 constraints" in repr(problem)
    assert problem.jacobian(np.ones(3)).shape == (0, 3)
