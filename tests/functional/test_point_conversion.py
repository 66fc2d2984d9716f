"""Points and results as SciPy takes them: ints, lists of numbers, trees of parameters."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import curve_fit, fsolve, least_squares, minimize, newton, root

import fdiff
from fdiff.errors import DtypeError, VectorError

X = np.array([1.5, 2.0])
V = np.array([1.0, -2.0])


def listed(x):
    return [x[0] ** 2 + x[1] - 1, x[0] - x[1] ** 3]


def tupled(x):
    return x[0] ** 2 + x[1] - 1, x[0] - x[1] ** 3


def nested(x):
    return [[x[0], x[1] ** 2], (3.0, x[0] * x[1])]


def mixed(x):
    return [x[0] * x[1], 2, np.float64(3.0)]


def value(x):
    return [np.sum(np.sin(x) * x[0])]


@pytest.mark.parametrize("f", [listed, tupled, nested, mixed])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_lists_of_numbers_are_arrays_for_the_jacobian(f, mode):
    want = fdiff.jacobian(lambda x: np.array(f(x)), mode=mode)(X)
    for found in (fdiff.jacobian(f, X, mode=mode), fdiff.jacobian(f, mode=mode)(X)):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("f", [listed, nested, mixed])
def test_lists_of_numbers_are_arrays_for_products(f):
    plain = lambda x: np.array(f(x))
    w = np.ones(np.shape(f(X)))
    for op, v in ((fdiff.vjp, w), (fdiff.jvp, V)):
        for found, want in zip(op(f, X, v), op(plain, X, v), strict=True):
            np.testing.assert_array_equal(found, want)
        found, want = op(f)(X, v.tolist()), op(plain)(X, v)
        np.testing.assert_array_equal(found[1], want[1])


def test_second_derivatives_of_a_list_with_one_number():
    plain = lambda x: value(x)[0]
    np.testing.assert_array_equal(fdiff.hessian(value, X), fdiff.hessian(plain, X))
    np.testing.assert_array_equal(fdiff.hvp(value)(X, V), fdiff.hvp(plain)(X, V))


def test_tuples_stay_tuples_where_they_are_torchs():
    assert isinstance(fdiff.jacobian(tupled, (X,)), tuple)
    assert isinstance(fdiff.jacobian(tupled, argnums=(0,))(X), tuple)
    assert isinstance(fdiff.jacobian(lambda x: (x, x**2), X), tuple)
    assert isinstance(fdiff.vjp(tupled, X, (1.0, 2.0))[0], tuple)
    assert isinstance(fdiff.jacrev(listed)(X), list)


@pytest.mark.parametrize("point", [[1.5, 2.0], [1, 2], [1, 2.0], [np.float64(1.5), 2]])
@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "hvp", "vhp"])
def test_a_list_of_numbers_is_a_point(name, point):
    op = getattr(fdiff, name)
    f = (
        (lambda x: np.sum(x**3) * x[0])
        if name in ("hessian", "hvp", "vhp")
        else (lambda x: x**2 * x[::-1])
    )
    v = () if name in ("jacobian", "hessian") else (V,)
    want = op(f)(np.array(point, float), *v)
    np.testing.assert_equal(op(f)(point, *v), want)
    now = op(f, point, *v)
    np.testing.assert_equal(now[1] if name in ("hvp", "vhp") else now, want)


def test_python_ints_are_floats():
    assert fdiff.grad(np.sin)(1) == np.cos(1.0)
    assert fdiff.grad(lambda a, b: a * b**2, argnums=(0, -1))(2, 3) == (9.0, 12.0)
    assert fdiff.value_and_grad(lambda p: np.sin(p["alpha"]))({"alpha": 1}) == (
        np.sin(1.0),
        {"alpha": np.cos(1.0)},
    )
    assert fdiff.grad(lambda p: p[0] * p[1])([2, 3]) == [3.0, 2.0]
    assert fdiff.grad(lambda x, n: x**n)(2, 3) == 12.0
    assert fdiff.grad(lambda x: fdiff.grad(np.square)(3) * x)(1) == 6.0
    assert "compiled" in repr(fdiff.grad(np.sin).compile(1))
    with pytest.raises(DtypeError):
        fdiff.grad(np.sin)(10**400)
    with pytest.raises(DtypeError):
        fdiff.grad(np.sin)(True)


def test_solvers_take_prepared_functions_as_they_are():
    f, jac = listed, fdiff.jacobian(listed)
    for method in ("hybr", "lm"):
        assert np.allclose(f(root(f, [1, 1], jac=jac, method=method).x), 0, atol=1e-9)
    assert np.allclose(f(fsolve(f, [1, 1], fprime=jac)), 0, atol=1e-9)
    assert np.allclose(f(least_squares(f, [1, 1], jac=jac).x), 0, atol=1e-9)
    assert newton(lambda t: t**2 - 2, 1, fprime=fdiff.grad(lambda t: t**2 - 2)) == pytest.approx(
        np.sqrt(2)
    )
    bowl = lambda x: (x[0] - 1) ** 2 + x[1] ** 4 + x[1] ** 2
    found = minimize(
        bowl, [3, 4], jac=fdiff.grad(bowl), hess=fdiff.hessian(bowl), method="trust-exact", tol=1e-9
    )
    assert np.allclose(found.x, [1, 0], atol=1e-6)
    turn = lambda t, y: [y[1], -y[0]]
    end = solve_ivp(
        turn, (0, 1), [1, 0], method="Radau", jac=fdiff.jacobian(turn, argnums=1), rtol=1e-8
    )
    assert end.y[:, -1] == pytest.approx([np.cos(1), -np.sin(1)], rel=1e-6)


def test_curve_fit_takes_a_jacobian_in_one_line():
    def model(t, a, b):
        return a * np.exp(-b * t)

    t = np.linspace(0, 1, 20)
    jac = lambda t, *p: fdiff.jacobian(lambda p: model(t, *p), list(p))
    found, _ = curve_fit(model, t, model(t, 2.0, 3.0), p0=[1, 1], jac=jac)
    assert found == pytest.approx([2, 3])


TREE = {"a": 1.5, "b": np.array([2.0, 3.0]), "c": [np.array(0.5), (np.array([1.0]),)]}
MOVE = {"c": [np.array(0.25), (np.array([2.0]),)], "b": np.array([-1.0, 1.0]), "a": 1.0}


def of_tree(p):
    return np.sin(p["a"]) * np.sum(p["b"] ** 2) * p["c"][0] * p["c"][1][0][0]


def flat_of(p):
    return np.concatenate([[p["a"]], p["b"], [p["c"][0]], p["c"][1][0]])


def of_flat(x):
    return of_tree({"a": x[0], "b": x[1:3], "c": [x[3], (x[4:],)]})


@pytest.mark.parametrize("name", ["hvp", "vhp"])
def test_trees_of_parameters_in_products_of_second_order(name):
    op = getattr(fdiff, name)
    want = fdiff.hessian(of_flat)(flat_of(TREE)) @ flat_of(MOVE)
    np.testing.assert_allclose(flat_of(op(of_tree)(TREE, MOVE)), want, rtol=1e-13)
    out, product = op(of_tree, TREE, MOVE)
    np.testing.assert_allclose(flat_of(product), want, rtol=1e-13)
    assert out == pytest.approx(of_tree(TREE))
    assert list(product) == list(TREE)


def test_trees_of_parameters_in_other_operators():
    slope = flat_of(fdiff.grad(of_tree)(TREE))
    np.testing.assert_allclose(fdiff.jvp(of_tree)(TREE, MOVE)[1], slope @ flat_of(MOVE), rtol=1e-13)
    np.testing.assert_allclose(flat_of(fdiff.vjp(of_tree)(TREE, 2.0)[1]), 2 * slope, rtol=1e-13)
    for found in (fdiff.jacobian(of_tree)(TREE), fdiff.jacobian(of_tree, TREE)):
        np.testing.assert_allclose(flat_of(found), slope, rtol=1e-13)
    rows = fdiff.hessian(of_tree, TREE)
    assert rows["a"]["b"].shape == (2,)
    np.testing.assert_allclose(
        rows["b"]["a"], fdiff.hessian(of_flat)(flat_of(TREE))[1:3, 0], rtol=1e-13
    )


@pytest.mark.parametrize(
    "v", [None, 1.0, X, {"a": 1.0}, {**MOVE, "d": 1.0}, {**MOVE, "c": [1.0]}, [MOVE]]
)
def test_a_vector_that_is_not_built_like_the_point(v):
    with pytest.raises(VectorError, match=r"built like the inputs|can only be None"):
        fdiff.hvp(of_tree)(TREE, v)
