"""The examples through IPOPT and CVODE: published optima, an integrator's word, fewer calls."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from optimal_power_flow import DATA, OPTIMA
from scipy.integrate import solve_ivp

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


@pytest.mark.parametrize("name", list(OPTIMA))
def test_another_formulation_of_power_flow_has_the_same_optima(name):
    names = example("optimal_power_flow")
    result = names["solve"](*names["problem_of"](names["Grid"](DATA / f"pglib_opf_{name}.m")))
    optimum, digit = OPTIMA[name]
    assert result.success
    assert abs(result.fun - optimum) < digit


def test_an_integrator_drives_the_cart_where_the_collocation_says():
    names = example("cart_pole")
    result = names["solve"](*names["problem_of"](500))
    assert result.success
    _, force = names["parts"](result.x)
    times = np.linspace(0.0, 2.0, force.size)
    slope = lambda t, y: names["motion"](y, np.interp(t, times, force))
    exact = {"rtol": 1e-9, "atol": 1e-9, "max_step": 0.05}
    end = solve_ivp(slope, (0.0, 2.0), np.zeros(4), **exact).y[:, -1]
    np.testing.assert_allclose(end, [1.0, np.pi, 0.0, 0.0], atol=0.02)


def test_cvode_needs_fewer_right_hand_sides_than_its_differences():
    names = example("brusselator")
    y = names["start"](1024)
    last, calls = names["by_cvode"](y)
    differences, more = names["by_cvode"](y, exact=False)
    assert y.size == 2048
    assert calls < more
    np.testing.assert_allclose(last, differences, atol=2e-4)
    np.testing.assert_allclose(last, names["by_radau"](y)[0], atol=2e-4)
