"""The examples about solvers run as they are printed, and what they find is right."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy.integrate import solve_ivp

EXAMPLES = Path(__file__).parents[2] / "examples"


# Those whose files are run here, at small sizes; test_gallery.py runs the others.
TESTED = {"brusselator", "bundle_adjustment", "cart_pole", "hyperelastic_sheet"} | {
    "optimal_power_flow",
    "reaction_rates",
}


@pytest.fixture
def example(monkeypatch, capsys):
    """Run an example from its command line: its names, and what it printed."""
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        names = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return names, capsys.readouterr().out

    return run


@pytest.mark.slow
def test_optimal_power_flow_has_the_published_cost(example):
    _, printed = example("optimal_power_flow")
    assert "38 variables, 88 constraints" in printed
    assert "2178.0804 dollars an hour" in printed  # PGLib-OPF, BASELINE.md: 2178.1


@pytest.mark.slow
def test_cart_pole_obeys_its_equations(example):
    names, printed = example("cart_pole", 20)
    problem, start = names["problem_of"](20)
    result = names["solve"](problem, start)
    assert f"effort {result.fun:.3f}" in printed
    state, force = names["parts"](result.x)
    np.testing.assert_allclose(state[:, -1], [1.0, np.pi, 0.0, 0.0], atol=1e-12)
    assert np.max(np.abs(force)) <= 20.0
    for k in range(20):  # each interval, by hand
        slopes = [names["motion"](state[:, j], force[j]) for j in (k, k + 1)]
        step = 0.1 * (slopes[0] + slopes[1]) / 2
        np.testing.assert_allclose(state[:, k + 1] - state[:, k], step, atol=1e-6)
    assert 58.8 < result.fun < 62.0  # 58.808 with 2,000 intervals


@pytest.mark.slow
def test_pull_of_the_sheet_is_the_slope_of_its_least_energy(example):
    names, printed = example("hyperelastic_sheet", 8)
    assert printed.count("forces left by Newton") == 3
    mesh, step = names["mesh"](8), 1e-4
    _, pull, left = names["pulled"](mesh, 1.3)
    low, high = (names["energy"](names["pulled"](mesh, 1.3 + h)[0], mesh) for h in (-step, step))
    np.testing.assert_allclose(pull, (high - low) / (2 * step), rtol=1e-6)
    assert left[-1] < 1e-11
    assert len(left) <= 7  # Newton's method, whose steps square what is left


def test_a_free_sheet_stretches_as_the_formula_says(example):
    """Without held sides all triangles deform alike: the height minimises the density."""
    names, _ = example("hyperelastic_sheet", 2)
    mesh = names["mesh"](3)
    heights = np.linspace(0.5, 1.0, 7)
    places = [(mesh.nodes * [1.5, height]).ravel() for height in heights]
    values = [names["energy"](place, mesh) for place in places]
    area = 1.5 * heights
    density = (1.5**2 + heights**2 - 2) / 2 - np.log(area) + 2.0 * np.log(area) ** 2
    np.testing.assert_allclose(values, density, rtol=1e-13)


@pytest.mark.slow
def test_radau_solves_the_brusselator_as_lsoda_does(example):
    names, printed = example("brusselator", 30)
    assert "60 unknowns, 236 entries" in printed
    y = names["start"](30)
    last, _ = names["by_radau"](y)
    band = {"lband": 2, "uband": 2, "rtol": 1e-9, "atol": 1e-11}
    reference = solve_ivp(names["slope"], (0.0, 10.0), y, method="LSODA", **band).y[:, -1]
    np.testing.assert_allclose(last, reference, atol=2e-4)


@pytest.mark.slow
def test_rates_of_the_reaction_are_those_published(example):
    names, printed = example("reaction_rates")
    fit = names["fitted"]()
    assert abs(2 * fit.cost - 19.8721) < 1e-3  # COPS 3.0, problem 7
    published = [5.9256, 2.9634, 2.0473, 27.449, 3.9980]
    np.testing.assert_allclose(fit.x, published, rtol=2e-4)
    assert "5.926 ± 0.051" in printed


@pytest.mark.slow
def test_bundle_adjustment_is_off_by_its_standard_errors(example):
    names, printed = example("bundle_adjustment", 80)
    assert "entries of the Jacobian" in printed
    truth = names["scene"](80)
    fit = names["adjusted"](truth)
    right = np.concatenate([truth.cameras[2:].ravel(), truth.points.ravel()])
    errors = (fit.x - right) / fit.stderr
    assert fit.x.size == 264
    assert 0.85 < np.sqrt(np.mean(errors**2)) < 1.15
    assert np.max(np.abs(errors)) < 4.5
