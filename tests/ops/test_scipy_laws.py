"""Distributions of scipy.stats that are formulas: every function of every one, against SciPy."""

import numpy as np
import pytest
import scipy.stats as st

import fdiff
from fdiff.ops.scipy_ops.probability.more_distributions import MORE_DISTRIBUTIONS

# Parameters by name of the distribution; all others take none, or one.
SHAPES = {
    "betabinom": (5.0, 1.3, 2.1),
    "loguniform": (0.4, 3.0),
    "nbinom": (2.3, 0.4),
    "geom": (0.35,),
    "bernoulli": (0.3,),
    "truncnorm": (-0.7, 1.9),
}
FIXED = {"betabinom": 1}  # leading parameters that are whole numbers
CONTINUOUS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf")
QUANTILES = ("ppf", "isf")
DISCRETE = ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf")
LAWS = {law.name: (real, law) for real, law in MORE_DISTRIBUTIONS}


def parameters(real, name):
    return np.array(SHAPES.get(name, (1.7,) * real.numargs))


def has(law, name):
    """Whether there is a formula, or what it is made of."""
    return (
        name in law.formulas
        or name.removeprefix("log") in law.formulas
        or f"log{name}" in law.formulas
    )


def differences(f, z, h=1e-6):
    return np.stack([(f(z + h * e) - f(z - h * e)) / (2 * h) for e in np.eye(len(z))], axis=-1)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")


def points_of(real, law, shapes):
    if "logpmf" in law.formulas:
        return np.array([-1.0, 0, 1, 2, 3, 4, 8])
    inside = real.ppf([0.1, 0.45, 0.8], *shapes)
    low, high = real.support(*shapes)
    ends = [x for x in (low - 0.5, high + 0.5) if np.isfinite(x)]
    return np.concatenate([inside, ends])


@pytest.mark.parametrize("name", LAWS)
def test_values_and_derivatives_are_those_of_scipy(name):
    real, law = LAWS[name]
    shapes = parameters(real, name)
    fixed = FIXED.get(name, 0)
    discrete = "logpmf" in law.formulas
    x = points_of(real, law, shapes)
    names = [n for n in (DISCRETE if discrete else CONTINUOUS) if has(law, n)]

    def every(z):
        points = x if discrete else z[: len(x)]
        given = (*shapes[:fixed], *z[len(x) :])
        return np.concatenate([getattr(real, n)(points, *given) for n in names])

    z = np.concatenate([x, shapes[fixed:]])
    with np.errstate(all="ignore"):
        expected, slopes = every(z), differences(every, z)
    np.testing.assert_allclose(fdiff.jit(every)(z), expected, rtol=2e-13, atol=1e-15)
    found = fdiff.jacobian(every)(z)
    known = np.isfinite(slopes)
    assert np.all(np.isfinite(found) | ~known)
    np.testing.assert_allclose(found[known], slopes[known], rtol=2e-6, atol=2e-8)


@pytest.mark.parametrize("name", [n for n, (_, law) in LAWS.items() if "ppf" in law.formulas])
def test_quantiles_are_those_of_scipy(name):
    real, law = LAWS[name]
    names = [n for n in QUANTILES if n in law.formulas]
    q = np.array([0.05, 0.3, 0.9])

    def every(z):
        return np.concatenate([getattr(real, n)(z[:3], *z[3:]) for n in names])

    z = np.concatenate([q, parameters(real, name)])
    np.testing.assert_allclose(fdiff.jit(every)(z), every(z), rtol=1e-13)
    np.testing.assert_allclose(
        fdiff.jacobian(every)(z), differences(every, z), rtol=2e-6, atol=1e-7
    )


def test_a_frozen_distribution_made_outside_takes_traced_points():
    life = st.weibull_min(1.4, scale=2.0)
    np.testing.assert_allclose(
        fdiff.grad(lambda t: life.logsf(t))(1.1), -life.pdf(1.1) / life.sf(1.1), rtol=1e-12
    )
