"""`scipy.optimize.rosen`: values and derivatives are SciPy's own, which it states by hand."""

import numpy as np
import scipy.optimize as so
from calculus import check_calculus

import fdiff


def test_derivatives_are_those_of_scipy():
    for x in (np.array([1.3, 0.7, 0.8, 1.9, 1.2]), np.array([0.5, -2.0])):
        np.testing.assert_allclose(fdiff.grad(so.rosen)(x), so.rosen_der(x), rtol=1e-14)
        np.testing.assert_allclose(fdiff.hessian(so.rosen)(x), so.rosen_hess(x), rtol=1e-14)
        np.testing.assert_allclose(fdiff.jacobian(so.rosen_der)(x), so.rosen_hess(x), rtol=1e-14)
        np.testing.assert_allclose(
            fdiff.hvp(so.rosen, x, x)[1], so.rosen_hess_prod(x, x), rtol=1e-13
        )


def test_several_points_at_once():
    x = np.random.default_rng(0).normal(size=(4, 3))
    check_calculus(so.rosen, x)
    check_calculus(so.rosen_der, x)


def test_as_an_objective():
    derivatives = {"jac": fdiff.grad(so.rosen), "hess": fdiff.hessian(so.rosen)}
    result = so.minimize(so.rosen, [1.3, 0.7, 0.8], method="trust-exact", tol=1e-10, **derivatives)
    np.testing.assert_allclose(result.x, 1.0, rtol=1e-7)
