"""`Problem.ipopt` through cyipopt and ipyopt, whichever are installed."""

import importlib
import os
import signal
import threading
import time
from importlib.util import find_spec

import numpy as np
import pytest
from optimal_power_flow import OPTIMA, power_flow

from fdiff.errors import InputError
from fdiff.optimize import Problem, ipopt

PACKAGES = [name for name in ("ipyopt", "cyipopt") if find_spec(name)]


@pytest.fixture(params=PACKAGES, autouse=True)
def package(request, monkeypatch):
    module = importlib.import_module(request.param)
    monkeypatch.setattr(ipopt, "_module", lambda _: module)


def chain(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@pytest.mark.parametrize("name", list(OPTIMA))
def test_published_optima_of_power_flow(name):
    problem, start = power_flow(name)
    result = problem.ipopt(start, options={"tol": 1e-8, "bound_relax_factor": 0.0})
    assert result.success, result.message
    optimum, digit = OPTIMA[name]
    assert abs(result.fun - optimum) < digit
    assert result.infeasibility < 1e-6
    again = problem.ipopt(result.x, warm_start=result)
    assert again.success
    assert again.nit < result.nit / 2


def test_multipliers_satisfy_the_conditions_of_optimality():
    problem = Problem(
        chain, lambda x: x[1:] ** 2 + x[:-1], lower=-np.inf, upper=1.5, bounds=[(-5, 0.8)] * 6
    )
    result = problem.ipopt([0] * 6, options={"tol": 1e-10})
    slope = (
        result.jac
        + problem.jacobian(result.x).T @ result.mult_g
        - result.mult_x_L
        + result.mult_x_U
    )
    np.testing.assert_allclose(slope, 0.0, atol=1e-4)
    assert result.nfev >= result.nit


def test_infeasible_problems_and_iteration_limits_are_results():
    impossible = Problem(
        chain, lambda x: np.sum(x**2)[None], lower=50, upper=np.inf, bounds=[(-1, 1)] * 3
    )
    result = impossible.ipopt(np.full(3, 0.5))
    assert not result.success
    assert result.message.startswith("Infeasible_Problem_Detected")
    assert result.infeasibility > 1
    result = Problem(chain).ipopt(np.zeros(4), options={"max_iter": 2})
    assert (result.success, result.status, result.nit) == (False, -1, 2)
    assert result.message == "Maximum_Iterations_Exceeded: Maximum Number of Iterations Exceeded."


def test_an_exception_ends_the_solve_and_is_raised_with_its_own_traceback():
    def fails(state):
        if state.nit == 2:
            raise ZeroDivisionError("in the user's callback")

    problem = Problem(chain)
    with pytest.raises(ZeroDivisionError, match="in the user's callback") as caught:
        problem.ipopt(np.zeros(4), callback=fails)
    assert caught.traceback[-1].name == "fails"
    assert problem.report.counts["value_and_grad"] < 10
    assert problem.ipopt(np.zeros(4)).success  # nothing is left of it


@pytest.mark.parametrize("part", ["objective", "constraints", "jacobian", "hessian"])
@pytest.mark.parametrize("error", [ValueError("of the user"), KeyboardInterrupt()])
def test_what_a_function_raises_in_the_middle_of_a_solve(part, error):
    problem = Problem(chain, lambda x: x[1:] ** 2 + x[:-1], lower=-np.inf, upper=1.5).compile(
        np.zeros(4)
    )
    evaluation = problem.evaluations[{"objective": "value_and_grad"}.get(part, part)]
    evaluate, left = evaluation.evaluate, [8]

    def failing(point):
        left[0] -= 1
        if left[0] == 0:
            raise error
        return evaluate(point)

    evaluation.evaluate = failing
    if isinstance(error, ValueError):
        with pytest.raises(ValueError, match="of the user"):
            problem.ipopt(np.zeros(4))
        return
    result = problem.ipopt(np.zeros(4))
    assert (result.success, result.status) == (False, 5)
    assert result.message.startswith("User_Requested_Stop")
    assert np.isfinite(result.x).all()
    assert 0 < result.nit < 9


def test_a_function_of_the_user_that_raises_names_his_line():
    def odd(x):
        if np.any(x > 0.5):
            raise ArithmeticError("x is too large")
        return chain(x)

    with pytest.raises(ArithmeticError, match="x is too large") as caught:
        Problem(odd).ipopt(np.zeros(3))
    assert caught.traceback[-1].name == "odd"


def test_stop_iteration_ends_with_the_last_point():
    points = []

    def stop(state):
        points.append(state.x)
        if state.nit == 3:
            raise StopIteration

    result = Problem(chain).ipopt(np.zeros(4), callback=stop)
    assert result.status == 5
    np.testing.assert_array_equal(result.x, points[-1])


def test_nan_is_an_evaluation_error_after_which_steps_are_shorter():
    problem = Problem(
        lambda x: np.sum(x**2 - np.sqrt(x))
    )  # the first Newton step leaves the domain
    result = problem.ipopt(np.full(3, 9.0), options={"tol": 1e-10})
    assert result.success
    np.testing.assert_allclose(result.x, (1 / 16) ** (1 / 3), rtol=1e-8)


def test_unknown_options_and_starts_are_refused():
    with pytest.raises(InputError, match="IPOPT refused the options"):
        Problem(chain).ipopt(np.zeros(3), options={"no_such_option": 1})
    with pytest.raises(InputError, match="warm_start must be a result of this method"):
        Problem(chain).ipopt(np.zeros(3), warm_start=Problem(chain).ipopt(np.zeros(2)))


def test_ctrl_c_at_any_moment_gives_the_last_point():
    size = 3000
    problem = Problem(
        chain, lambda x: x[1:] * x[:-1], lower=-np.inf, upper=0.8, bounds=[(-2, 2)] * size
    ).compile(np.full(size, 0.3))
    begin = time.perf_counter()
    problem.ipopt(np.full(size, 0.3))
    whole, handler, stopped = time.perf_counter() - begin, signal.getsignal(signal.SIGINT), 0
    for k in range(60):
        if stopped == 6:
            break
        moment = whole * (k % 12 + 0.5) / 14
        timer = threading.Timer(moment, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            result = problem.ipopt(np.full(size, 0.3))
            timer.join()
            time.sleep(0.01)  # the signal may reach this thread later
        except KeyboardInterrupt:  # it came before the solve, or when that was over
            continue
        stopped += result.status == 5
        assert np.isfinite(result.x).all()
        assert np.isfinite(result.fun)
    assert stopped == 6
    assert signal.getsignal(signal.SIGINT) is handler
