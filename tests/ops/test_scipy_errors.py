"""Functions of SciPy without a rule: each is named, with the user's line, and nothing is lost."""

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg.blas
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.spatial
import scipy.stats

import fdiff
from fdiff.errors import TraceError, UnsupportedError

X = np.array([0.3, 0.7, 1.2])
KNOTS = np.arange(3.0)

UNSUPPORTED = {
    "scipy.signal.lfilter": lambda x: scipy.signal.lfilter(x, x, x),
    "scipy.ndimage.median_filter": lambda x: scipy.ndimage.median_filter(x, 3),
    "scipy.interpolate.RBFInterpolator": lambda x: scipy.interpolate.RBFInterpolator(X[:, None], x)(
        X[:, None]
    ),
    "scipy.stats": scipy.stats.wald.logpdf,
    "scipy.spatial.distance.hamming": lambda x: scipy.spatial.distance.hamming(x, x),
    "scipy.fft": lambda x: np.real(scipy.fft.fft(x)),
    "scipy.integrate.quad_vec": lambda x: scipy.integrate.quad_vec(lambda t: t * x[0], 0, 1)[0],
    "scipy.optimize.least_squares": lambda x: scipy.optimize.least_squares(lambda t: t - x, X).x,
    "scipy.optimize.fminbound": lambda x: scipy.optimize.fminbound(lambda t: (t - x[0]) ** 2, 0, 9),
    "scipy.optimize.linprog": lambda x: scipy.optimize.linprog(x).x,
    "scipy.optimize.differential_evolution": lambda x: (
        scipy.optimize.differential_evolution(lambda t: t[0] ** 2, [(x[0], 1.0)]).x
    ),
}
REFUSED = {
    "ddot": lambda x: scipy.linalg.blas.ddot(x, x),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_functions_without_a_rule_are_named(name):
    f = UNSUPPORTED[name]
    with pytest.raises(
        UnsupportedError, match=rf"{name}(.|\n)*test_scipy_errors.py:(.|\n)*outside"
    ):
        fdiff.grad(lambda x: np.sum(f(x)))(X)


@pytest.mark.parametrize("name", REFUSED)
def test_compiled_code_gets_no_numbers_of_traced_arrays(name):
    f = REFUSED[name]
    with pytest.raises(TraceError, match=r"drop its derivative(.|\n)*test_scipy_errors.py:"):
        fdiff.grad(f)(X)


def test_captured_data_goes_through():
    def f(x):
        return np.sum(x * scipy.signal.convolve(KNOTS, [0.5, 0.5], mode="same"))

    expected = scipy.signal.convolve(KNOTS, [0.5, 0.5], mode="same")
    np.testing.assert_allclose(fdiff.grad(f)(X), expected)
