"""What new users write first with SciPy's solvers works, or the error says what to write."""

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, curve_fit, minimize

import fdiff
from fdiff.errors import InputError
from fdiff.optimize import Problem

X = np.linspace(0.0, 2.0, 25)


def model(x, a, b):
    return a * np.exp(-b * x)


def con(x):
    return np.array([x[0] ** 2 + x[1] ** 2])


def cost(x):
    return (x[0] - 2.0) ** 2 + x[1] ** 2


def test_curve_fit_with_a_jacobian_by_several_arguments_says_the_line():
    columns = fdiff.jacobian(model, argnums=(1, 2))
    with pytest.raises(InputError, match=r"Write fdiff\.optimize\.curve_fit, without") as caught:
        curve_fit(model, X, model(X, 2.0, 0.7), jac=columns)
    assert "np.stack(fdiff.jacobian(f, argnums=(1, 2))(x, *p), axis=-1)" in str(caught.value)
    written = lambda x, *p: np.stack(fdiff.jacobian(model, argnums=(1, 2))(x, *p), axis=-1)
    popt, _ = curve_fit(model, X, model(X, 2.0, 0.7), p0=[1, 1], jac=written)
    np.testing.assert_allclose(popt, [2.0, 0.7])
    popt, _ = fdiff.optimize.curve_fit(model, X, model(X, 2.0, 0.7), p0=[1, 1])
    np.testing.assert_allclose(popt, [2.0, 0.7])


def test_the_hessian_of_a_constraint_says_the_line():
    wrong = NonlinearConstraint(con, -np.inf, 1, jac=fdiff.jacobian(con), hess=fdiff.hessian(con))
    with pytest.raises(TypeError) as caught:
        minimize(cost, [0.5, 0.2], jac=fdiff.grad(cost), hess=fdiff.hessian(cost),
                 constraints=wrong, method="trust-constr")  # fmt: skip
    line = "hess=fdiff.hessian(lambda x, v: numpy.dot(v, con(x)))"
    assert line in "\n".join(caught.value.__notes__)
    right = eval(f"dict({line})", {"fdiff": fdiff, "numpy": np, "con": con})
    limit = NonlinearConstraint(con, -np.inf, 1, jac=fdiff.jacobian(con), **right)
    found = minimize(cost, [1, 0], jac=fdiff.grad(cost), hess=fdiff.hessian(cost),
                     constraints=limit, method="trust-constr")  # fmt: skip
    np.testing.assert_allclose(found.x, [1.0, 0.0], atol=1e-3)


def test_integer_starts_are_taken_by_every_solver():
    assert Problem(cost).minimize([1, 1]).success
    assert fdiff.optimize.least_squares(lambda x: con(x) - 1.0, [1, 1]).cost < 1e-10
    np.testing.assert_allclose(fdiff.optimize.root(lambda x: x**2 - 4.0, [1]), 2.0)
    assert minimize(
        cost, [1, 1], jac=fdiff.grad(cost), hess=fdiff.hessian(cost), method="dogleg"
    ).success
