"""Least squares and curves: NIST's certified errors, SciPy's own results, what is undetermined."""

import inspect
import warnings

import numpy as np
import pytest
import scipy.optimize
from scipy import sparse as sp
from scipy.stats import norm, t
from user_code import nist

from fdiff.errors import InputError, RankWarning
from fdiff.optimize import Problem, curve_fit, least_squares
from fdiff.optimize.covariance import NormalInverse

RNG = np.random.default_rng(3)
X = np.linspace(0.0, 2.0, 25)
Y = 2.0 * np.exp(-0.7 * X) + 0.3 + 0.01 * RNG.normal(size=X.size)
TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}


def decay(x, a, b, c):
    return a * np.exp(-b * x) + c


def residual(p, x, y):
    return p[0] * np.exp(-p[1] * x) + p[2] - y


# Lanczos1 is exact data: its residuals are rounding of the printed digits (tests/data/README.md).
@pytest.mark.parametrize("name", [name for name in nist.MODELS if name != "Lanczos1"])
def test_standard_errors_of_nist_to_nine_digits(name):
    data, model = nist.read(name), nist.MODELS[name]
    popt, pcov = curve_fit(
        lambda x, *p: model(np.array(p), x), data["x"], data["y"], data["b"], **TIGHT
    )
    np.testing.assert_allclose(popt, data["b"], rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(np.diag(pcov)), data["sd"], rtol=1e-9)


def test_a_fit_has_the_certified_errors_too():
    data, model = nist.read("Rat43"), nist.MODELS["Rat43"]
    fit = least_squares(
        lambda p, x, y: model(p, x) - y,
        data["b"],
        args=(data["x"], data["y"]),
        method="lm",
        **TIGHT,
    )
    np.testing.assert_allclose(fit.stderr, data["sd"], rtol=1e-9)
    np.testing.assert_allclose(2 * fit.cost, data["rss"], rtol=1e-9)


SIGMAS = {
    "none": None,
    "deviations": 0.01 + 0.02 * X,
    "covariance": 1e-4 * np.exp(-np.abs(X[:, None] - X)),
}


@pytest.mark.parametrize("sigma", SIGMAS.values(), ids=SIGMAS.keys())
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("method", ["lm", "trf", "dogbox"])
def test_curve_fit_returns_what_scipy_returns(sigma, absolute, method):
    arguments = {"p0": [1, 1, 0], "sigma": sigma, "absolute_sigma": absolute, "method": method}
    popt, pcov = curve_fit(decay, X, Y, **arguments)
    reference, covariance = scipy.optimize.curve_fit(decay, X, Y, **arguments)
    np.testing.assert_allclose(popt, reference, rtol=1e-5)
    np.testing.assert_allclose(pcov, covariance, rtol=1e-3, atol=1e-9)


def test_curve_fit_takes_the_other_arguments_of_scipy():
    popt, _, info, message, status = curve_fit(decay, list(X), list(Y), full_output=True)
    assert status in (1, 2, 3, 4)
    assert info["nfev"] > 0
    assert isinstance(message, str)
    np.testing.assert_allclose(curve_fit(decay, X, Y, bounds=(0, [3, 3, 3]))[0], popt, rtol=1e-5)
    broken = np.array(Y)
    broken[3] = np.nan
    for sigma in (None, np.full(X.size, 0.1)):
        result = curve_fit(decay, X, broken, nan_policy="omit", sigma=sigma)
        expected = curve_fit(decay, np.delete(X, 3), np.delete(Y, 3))
        np.testing.assert_allclose(result[0], expected[0], rtol=1e-6)
        np.testing.assert_allclose(result[1], expected[1], rtol=1e-5)
    with pytest.raises(ValueError, match="NaN"):
        curve_fit(decay, X, broken)
    several = {"first": X, "second": X**2}
    popt, _ = curve_fit(lambda d, a, b: a * d["first"] + b * d["second"], several, 2 * X - X**2)
    np.testing.assert_allclose(popt, [2, -1])
    ours, theirs = inspect.signature(curve_fit), inspect.signature(scipy.optimize.curve_fit)
    assert set(theirs.parameters) - set(ours.parameters) == {"jac"}


@pytest.mark.slow
def test_errors_cover_the_truth_as_often_as_they_say():
    hits = []
    for _ in range(100):
        data = decay(X, 2.0, 0.7, 0.3) + 0.05 * RNG.normal(size=X.size)
        fit = least_squares(residual, [1, 1, 0], args=(X, data), progress=False)
        lower, upper = fit.interval(0.8)
        hits.append((lower < [2.0, 0.7, 0.3]) & (upper > [2.0, 0.7, 0.3]))
    assert np.all(np.abs(np.mean(hits, axis=0) - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 100))


def test_intervals_and_bands_are_those_of_linear_regression():
    matrix = np.stack([np.ones_like(X), X, X**2], axis=1)
    fit = least_squares(lambda p: matrix @ p - Y, [0, 0, 0])
    inverse = np.linalg.inv(matrix.T @ matrix)
    variance = 2 * fit.cost / (X.size - 3)
    np.testing.assert_allclose(fit.covariance, variance * inverse, rtol=1e-9)
    np.testing.assert_allclose(fit.stderr, np.sqrt(np.diag(fit.covariance)))
    np.testing.assert_allclose(np.diag(fit.correlation), 1.0)
    lower, upper = fit.interval(0.9)
    np.testing.assert_allclose(upper - lower, 2 * t.ppf(0.95, X.size - 3) * fit.stderr)
    places = np.linspace(-1.0, 3.0, 8).reshape(2, 4)
    lower, upper = fit.band(lambda p, x: p[0] + p[1] * x + p[2] * x**2, places, 0.9)
    rows = np.stack([np.ones(8), places.ravel(), places.ravel() ** 2], axis=1)
    width = np.sqrt(np.einsum("ij,jk,ik->i", rows, fit.covariance, rows)).reshape(2, 4)
    np.testing.assert_allclose(upper - lower, 2 * t.ppf(0.95, X.size - 3) * width)
    known = least_squares(lambda p: matrix @ p - Y, [0, 0, 0], sigma=0.01, absolute_sigma=True)
    np.testing.assert_allclose(known.covariance, 1e-4 * inverse, rtol=1e-9)
    lower, upper = known.interval(0.9)
    np.testing.assert_allclose(upper - lower, 2 * norm.ppf(0.95) * known.stderr)
    assert "x[0] = " in repr(known)


def chain_residual(x):
    return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1], x[-1:] - 1.0])


def test_a_sparse_jacobian_gives_the_errors_of_a_dense_one():
    start = np.full(60, 0.9)
    result = least_squares(chain_residual, start, ftol=1e-14, xtol=1e-14)
    dense = least_squares(chain_residual, start, ftol=1e-14, xtol=1e-14, sparse=False)
    assert sp.issparse(result.jac)
    assert not sp.issparse(dense.jac)
    np.testing.assert_allclose(result.x, 1.0, atol=1e-6)
    scale = dense._variance / result._variance  # both are rounding errors here
    np.testing.assert_allclose(result.covariance * scale, dense.covariance, rtol=1e-5, atol=1e-40)
    np.testing.assert_allclose(result.stderr**2, np.diag(result.covariance), rtol=1e-9)


def test_undetermined_parameters_have_infinite_variances_and_are_named():
    def redundant(x, scale, first, second, unused):
        return scale * np.exp(-(first + second) * x) + 0.0 * unused

    with pytest.warns(
        RankWarning, match="determine first, second, unused: their variances"
    ) as seen:
        _, pcov = curve_fit(redundant, X, Y, p0=[1, 1, 0, 1], method="trf")
    assert len(seen) == 1
    variances = np.diag(pcov)
    assert np.isinf(variances[1:]).all()
    _, alone = curve_fit(lambda x, a, b: a * np.exp(-b * x), X, Y)
    np.testing.assert_allclose(variances[0], alone[0, 0] * 23 / 21, rtol=1e-5)
    fit = least_squares(lambda p: p[0] + p[1] - Y, [0, 0], sparse=False)
    with pytest.warns(RankWarning, match=r"do not determine x\[0\], x\[1\]"):
        assert np.isinf(fit.stderr).all()
    lower, upper = fit.band(lambda p, x: p[0] * x, X)
    assert np.isinf(upper[1:] - lower[1:]).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_ranks_of_random_matrices_are_found(sparse):
    for size in range(2, 7):
        rows = RNG.normal(size=(20, size))
        rows[:, 0] = rows[:, 1:] @ RNG.normal(size=size - 1) if size > 2 else rows[:, 1] * 3.0
        free = RNG.normal(size=(20, 1)) * 1e-9  # a column of another scale
        matrix = np.concatenate([rows, free], axis=1)
        inverse = NormalInverse(sp.csr_array(matrix) if sparse else matrix)
        assert inverse.undetermined.tolist() == [True] * size + [False]
        assert np.isinf(inverse.matrix()[0]).all()
        full = NormalInverse(sp.csr_array(matrix[:, 1:]) if sparse else matrix[:, 1:])
        assert not full.undetermined.any()
        np.testing.assert_allclose(full.diagonal()[-1], inverse.diagonal()[-1], rtol=1e-6)


def test_as_many_parameters_as_data_leave_errors_infinite():
    fit = least_squares(lambda p: p - np.array([1.0, 2.0]), [0, 0])
    assert np.isinf(fit.stderr).all()
    assert np.isinf(fit.interval()[1]).all()
    assert np.isposinf(fit.covariance).all()
    band = fit.band(lambda p, x: p[0] + p[1] * x, np.zeros(2))
    assert np.isneginf(band[0]).all()
    assert np.isposinf(band[1]).all()
    line = curve_fit(lambda x, a, b: a + b * x, np.array([0.0, 1.0]), np.array([1.0, 3.0]))
    assert np.isposinf(line[1]).all()  # the sign of a covariance that is not there is not told


def test_exact_data_leave_the_errors_of_undetermined_parameters_infinite():
    fit = least_squares(lambda p: p[0] * np.ones(3) - 1.0, [1.0, 1.0])
    with pytest.warns(RankWarning, match=r"do not determine x\[1\]"):
        errors = fit.stderr
    np.testing.assert_array_equal(errors, [0.0, np.inf])
    assert np.isposinf(fit.covariance[1]).all()


@pytest.mark.parametrize("policy", [None, "omit"])
@pytest.mark.parametrize("sigma", [0.5, [0.5]])
def test_one_standard_deviation_holds_for_all_points(sigma, policy):
    options = {"p0": [1, 1, 1], "absolute_sigma": True, "nan_policy": policy}
    result = curve_fit(decay, X, Y, sigma=sigma, **options)
    expected = curve_fit(decay, X, Y, sigma=np.full(len(Y), 0.5), **options)
    np.testing.assert_array_equal(result[1], expected[1])


def test_each_point_is_evaluated_once():
    fit = least_squares(chain_residual, np.full(60, 0.5), verbose=0)
    assert fit.scipy.nfev < 60
    bounded = least_squares(residual, [1, 0.5, 0], args=(X, Y), bounds=([0, 0, 0], [5, 0.6, 5]))
    assert bounded.x[1] <= 0.6
    robust = least_squares(residual, [1, 1, 0], args=(X, Y), loss="soft_l1")
    np.testing.assert_allclose(robust.x, [2.0, 0.7, 0.3], atol=0.1)


WRONG = [
    (
        lambda: least_squares(residual, [1, 1, 0], args=(X, Y), jac="2-point"),
        "jac is what fdiff computes",
    ),
    (lambda: curve_fit(decay, X, Y, jac="2-point"), "jac is what fdiff computes"),
    (
        lambda: least_squares(residual, [1, 1, 0], args=(X, Y), sparse="yes"),
        "sparse must be 'auto'",
    ),
    (lambda: curve_fit(lambda x, *p: x, X, Y), "cannot be counted"),
    (lambda: curve_fit(decay, X, Y, p0=[1.0]), "p0 has 1 entries, and the curve has 3"),
    (lambda: curve_fit(decay, X, Y, p0=[1, 1, 0], sigma=0 * Y), r"sigma\[0\] is 0, and residuals"),
    (
        lambda: least_squares(residual, [1, 1, 0], args=(X, Y), sigma=np.where(X > 0, 0, 1)),
        r"sigma\[\d+\] is 0, and residuals",
    ),
    (
        lambda: Problem(np.sum).minimize([1.0], options=3),
        "options must be a dictionary, not 3",
    ),
    (lambda: Problem(np.sum).minimize([1.0], len), "method must be 'nelder-mead'"),
    (
        lambda: Problem(np.sum, np.sin, lower=0, upper=1).hessian([1.0], [1.0, 2.0]),
        "multipliers has 2 entries, and there are 1 constraints",
    ),
    (
        lambda: least_squares(residual, [1, 1, 0], args=(X, Y)).interval(95),
        "level must lie between 0 and 1",
    ),
]


@pytest.mark.parametrize(("call", "words"), WRONG, ids=[words for _, words in WRONG])
def test_wrong_arguments_say_what_to_write(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_nothing_else_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve_fit(decay, X, Y, p0=[1, 1, 1])
        least_squares(residual, [1, 1, 1], args=(X, Y))
