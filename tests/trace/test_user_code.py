"""Code as users wrote it, unmodified, against values others published.

ADBench's own expected values for GMM, bundle adjustment and LSTM; NIST's certified standard errors
and parameters of 27 regressions.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from user_code import ba, gmm, loaders, lstm, nist

import fdiff
from fdiff.functional.derivative_checks.checked_functions import PlainFunction

ROOT = Path(__file__).parents[2]
ADBENCH = ROOT / "tests" / "data" / "adbench"
PUBLISHED = json.loads((ADBENCH / "expected_published.json").read_text())
ACCEPTED = 1e-8  # relative to the larger of the value and 1: what ADBench itself accepts

sys.path.insert(0, str(ROOT / "examples"))
import fit_nist  # noqa: E402 - the demo's own code is what is tested

TIERS = ("interpret", "compile")


@pytest.fixture
def tier(request, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", request.param)
    return request.param


both_tiers = pytest.mark.parametrize("tier", TIERS, indirect=True)
interpreted = pytest.mark.parametrize("tier", TIERS[:1], indirect=True)


def assert_published(found, published):
    found, published = np.asarray(found), np.asarray(published)
    assert found.shape == published.shape
    error = np.abs(found - published) / np.maximum(np.abs(published), 1.0)
    assert np.max(error) < ACCEPTED


# --- ADBench --------------------------------------------------------------------------------------


@both_tiers
def test_gradient_of_the_gaussian_mixture(tier):
    d = loaders.read_gmm(ADBENCH / "gmm" / "test.txt")
    args = [d[k] for k in ("alphas", "means", "icf", "x", "gamma", "m")]
    value, slope = fdiff.value_and_grad(gmm.objective, argnums=(0, 1, 2))(*args)
    expected = PUBLISHED["gmm"]
    assert_published(value, expected["objective"])
    flat = np.concatenate([s.ravel() for s in slope])
    assert_published(flat, expected["jacobian_calculation_correctness.expected_gradient"])


@both_tiers
def test_jacobian_of_bundle_adjustment(tier):
    """Each observation has two residuals, which depend on its camera, point and weight alone.

    ADBench stores the rows of an observation in turn: camera, point, weight; then the derivatives
    of the weight residuals.
    """
    d = loaders.read_ba(ADBENCH / "ba" / "test.txt")
    cams, points, weights, obs, feats = (d[k] for k in ("cams", "X", "w", "obs", "feats"))
    p = len(weights)
    residuals = ba.residuals(cams, points, weights, obs, feats)
    expected = PUBLISHED["ba"]
    assert_published(
        residuals[: 2 * p], expected["objective_calculation_correctness.expected_reproj_err"]
    )
    assert_published(
        residuals[2 * p :], expected["objective_calculation_correctness.expected_weight_err"]
    )
    by_cam, by_point, by_weight = fdiff.jacobian(ba.residuals, argnums=(0, 1, 2))(
        cams, points, weights, obs, feats
    )
    values = []
    for k, (i, j) in enumerate(obs):
        for row in (2 * k, 2 * k + 1):
            values += [*by_cam[row, i], *by_point[row, j], by_weight[row, k]]
            others = np.delete(by_weight[row], k)
            assert not others.any()
    values += [by_weight[2 * p + k, k] for k in range(p)]
    assert_published(values, expected["jacobian_calculation_correctness.expected_J_values"])


@interpreted  # tens of thousands of nodes: the interpreter is the right tier
def test_gradient_of_the_lstm(tier):
    d = loaders.read_lstm(ADBENCH / "lstm" / "lstm_l2_c1024.txt")
    args = [d[k] for k in ("main", "extra", "state", "seq")]
    value, slope = fdiff.value_and_grad(lstm.objective, argnums=(0, 1))(*args)
    expected = PUBLISHED["lstm"]
    assert_published(value, expected["objective"])
    flat = np.concatenate([s.ravel() for s in slope])
    assert_published(flat, expected["jacobian_calculation_correctness.expected_gradient"])


def test_user_code_is_what_users_wrote():
    """Only loops, lists and NumPy: nothing of ours, so nothing was adapted to us."""
    for path in sorted((ROOT / "tests" / "user_code").glob("*.py")):
        assert "fdiff" not in path.read_text(), path.name


# --- NIST -----------------------------------------------------------------------------------------


def test_there_are_27_regressions():
    assert len(nist.names()) == 27


@pytest.mark.parametrize("name", nist.names())
@both_tiers
def test_standard_errors_have_nine_certified_digits(name, tier):
    p = fit_nist.problem(name)
    found = fit_nist.errors_at_certified(p, p.exact(p.data["b"]))
    if name in fit_nist.NOT_REPRODUCIBLE:
        assert found < 9  # or the exception has no reason any more
    else:
        assert found >= 9


@pytest.mark.parametrize("start", fit_nist.STARTS)
@pytest.mark.parametrize("name", nist.names())
def test_fits_reach_six_certified_digits(name, start, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    p = fit_nist.problem(name)
    assert fit_nist.digits(fit_nist.fit(p, start, p.exact).result.x, p.data["b"]) >= 6


def test_finite_differences_do_not_reach_nine_digits():
    """Without exact derivatives most standard errors have fewer digits: the tests can tell."""
    problems = [fit_nist.problem(name) for name in ("Hahn1", "Bennett5", "MGH10", "Kirby2")]
    for p in problems:
        rough = fit_nist.forward_differences(p.residuals, p.data["b"])
        assert fit_nist.errors_at_certified(p, rough) < 9


@pytest.mark.parametrize("name", ["gmm", "nist"])
def test_second_derivatives_of_user_code(name):
    if name == "gmm":
        d = loaders.read_gmm(ADBENCH / "gmm" / "test.txt")
        fixed = [d[k] for k in ("means", "icf", "x", "gamma", "m")]
        assert fdiff.gradgradcheck(lambda a: gmm.objective(a, *fixed), d["alphas"])
        return
    assert fdiff.gradgradcheck(sum_of_squares(), np.ones(2))


def sum_of_squares():
    """What NIST's Misra1a minimises, with parameters of size one."""
    p = fit_nist.problem("Misra1a")
    return lambda b: np.sum(p.residuals(b * p.data["b"]) ** 2)


def test_rounding_at_a_minimum_is_no_mismatch(monkeypatch):
    """There the slope is what rounding leaves of it, which differs from tier to tier."""

    def by(tier, ask):
        def asked(*args):
            monkeypatch.setenv("FDIFF_TIER", tier)
            return ask(*args)

        return asked

    for name, tier in [("push_one", "compile"), ("push", "interpret")]:
        monkeypatch.setattr(PlainFunction, name, by(tier, getattr(PlainFunction, name)))
    assert fdiff.gradgradcheck(sum_of_squares(), np.ones(2))
