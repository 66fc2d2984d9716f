"""Splines, grids and factorisations of SciPy: values bit for bit, derivatives by differences."""

import numpy as np
import pytest
import scipy.interpolate as si
from scipy.sparse import csc_array
from scipy.sparse.linalg import factorized, splu

import fdiff

RNG = np.random.default_rng(0)
X = np.sort(RNG.random(7)).cumsum()
Y = RNG.normal(size=7)
T = np.append(np.linspace(X[0], X[-1], 11)[1:-1], [X[0] - 0.1, X[-1] + 0.2])
ENDS = ((1, 0.2), (2, 0.5))
TWO = ([(1, [0.3, 0.2])], [(2, [0.1, 0.0])])
CURVES = {
    "not-a-knot": lambda x, y, t: si.CubicSpline(x, y)(t),
    "natural": lambda x, y, t: si.CubicSpline(x, y, bc_type="natural")(t, 1),
    "ends": lambda x, y, t: si.CubicSpline(x, y, bc_type=ENDS)(t),
    "periodic": lambda x, y, t: si.CubicSpline(x, np.append(y[:-1], y[0]), bc_type="periodic")(t),
    "four": lambda x, y, t: si.CubicSpline(x[:4], np.append(y[:3], y[0]), bc_type="periodic")(t),
    "two points": lambda x, y, t: si.CubicSpline(x[:2], y[:2])(t),
    "three points": lambda x, y, t: si.CubicSpline(x[:3], y[:3])(t[:3]),
    "axis": lambda x, y, t: si.CubicSpline(x, np.stack([y, y**2]), axis=1)(t),
    "derivative": lambda x, y, t: si.CubicSpline(x, y).derivative()(t),
    "pchip": lambda x, y, t: si.PchipInterpolator(x, y)(t),
    "akima": lambda x, y, t: si.Akima1DInterpolator(x, y)(t[:9]),
    "makima": lambda x, y, t: si.Akima1DInterpolator(x, y, method="makima", extrapolate=True)(t),
    "hermite": lambda x, y, t: si.CubicHermiteSpline(x, y, y[::-1])(t),
    "b-spline": lambda x, y, t: si.make_interp_spline(x, y)(t),
    "even": lambda x, y, t: si.make_interp_spline(x, y, k=2)(t),
    "clamped": lambda x, y, t: si.make_interp_spline(x, np.stack([y, y * y], 1), bc_type=TWO)(t),
    "cubic lines": lambda x, y, t: si.interp1d(x, y, kind="cubic", fill_value="extrapolate")(t),
    "previous": lambda x, y, t: si.interp1d(x, y, kind="previous")(t[:9]),
    "nearest": lambda x, y, t: si.interp1d(x, y, kind="nearest")(t[:9]),
}


def differences(f, z, h=1e-6):
    columns = [(f(z + h * e) - f(z - h * e)) / (2 * h) for e in np.eye(len(z))]
    return np.stack(columns, axis=-1)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")


@pytest.mark.parametrize("name", CURVES)
def test_curves_through_points(name):
    """With respect to the points, the data and the places."""

    def f(z):
        return np.asarray(CURVES[name](z[:7], z[7:14], z[14:]))

    z = np.concatenate([X, Y, T])
    np.testing.assert_array_equal(fdiff.jit(f)(z), f(z))
    slopes = differences(f, z)
    scale = np.max(np.abs(slopes))
    np.testing.assert_allclose(fdiff.jacobian(f)(z), slopes, rtol=1e-5, atol=1e-6 * scale)


# Computed in another order than SciPy's compiled code, or made of curves that were made before.
C = RNG.normal(size=(3, 6))
FIXED = si.CubicSpline(X, Y)
SMOOTHED = si.UnivariateSpline(X, Y, s=0.1)
OTHERS = {
    "antiderivative": lambda x, y, t: si.CubicSpline(x, y).antiderivative()(t),
    "twice": lambda x, y, t: si.CubicSpline(x, y).antiderivative(2)(t),
    "of a negative order": lambda x, y, t: si.PchipInterpolator(x, y).derivative(-1)(t),
    "of a high order": lambda x, y, t: si.CubicSpline(x, y).derivative(4)(t) + y[0],
    "of a derivative": lambda x, y, t: si.CubicSpline(x, y).derivative(2).antiderivative()(t),
    "of a periodic curve": lambda x, y, t: si.CubicSpline(
        x, np.append(y[:-1], y[0]), bc_type="periodic"
    ).antiderivative()(t[:9]),
    "integral": lambda x, y, t: np.stack([si.CubicSpline(x, y).integrate(t[0], t[5]), y[0]]),
    "pieces": lambda x, y, t: si.PPoly(C * y[:6], x)(t) + si.PPoly(C, x).integrate(x[0], t[3]),
    "integral of a fixed curve": lambda x, y, t: y * FIXED.integrate(t[0], t[5]),
    "slope of a fixed curve": lambda x, y, t: FIXED.derivative()(t) + SMOOTHED.derivative()(t),
    "slopes of a b-spline": lambda x, y, t: si.make_interp_spline(x, y).derivative()(t),
    "b-spline": lambda x, y, t: si.BSpline(np.arange(9.0), y[:5], 3)(t + 3.0),
    "lines": lambda x, y, t: si.make_interp_spline(x, y, k=1)(t),
    "splev": lambda x, y, t: si.splev(t, (np.arange(9.0), y[:5], 3), der=1),
    "splev and zeros": lambda x, y, t: si.splev(t + 3.0, (np.arange(9.0), y[:5], 3), ext=1),
    "splev of a spline": lambda x, y, t: si.splev(t, si.make_interp_spline(x, y)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_curves(name):
    """Antiderivatives, integrals, curves from their coefficients."""

    def f(z):
        return np.asarray(OTHERS[name](z[:7], z[7:14], z[14:]))

    z = np.concatenate([X, Y, T])
    expected = f(z)
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(fdiff.jit(f)(z), expected, rtol=1e-12, atol=1e-13 * scale)
    slopes = differences(f, z)
    scale = max(np.max(np.abs(slopes)), 1.0)
    np.testing.assert_allclose(fdiff.jacobian(f)(z), slopes, rtol=1e-5, atol=1e-6 * scale)


Z = Y + 1j * np.array([0.5, -1.0, 2.0, 0.25, -0.75, 1.5, 0.1])
COMPLEX = {
    "cubic": lambda z, t: si.CubicSpline(X, z)(t),
    "cubic inside": lambda z, t: si.CubicSpline(X, z, extrapolate=False)(t),
    "three points": lambda z, t: si.CubicSpline(X[:3], z[:3])(t),
    "periodic": lambda z, t: si.CubicSpline(X, np.append(z[:6], z[0]), bc_type="periodic")(t),
    "hermite": lambda z, t: si.CubicHermiteSpline(X, z, z[::-1])(t),
    "slope": lambda z, t: si.CubicSpline(X, z[::-1])(t, 1),
    "fourth slope": lambda z, t: si.CubicSpline(X, z).derivative(4)(t),
    "b-spline": lambda z, t: si.make_interp_spline(X, z)(t),
    "even": lambda z, t: si.make_interp_spline(X, z, k=2)(t),
    "coefficients": lambda z, t: si.BSpline(np.arange(9.0), z[:5], 3, extrapolate=False)(t + 3),
    "pieces": lambda z, t: si.PPoly(z[:6].reshape(2, 3), X[:4])(t),
    "cubic lines": lambda z, t: si.interp1d(X, z, "cubic", bounds_error=False)(t),
    "quadratic lines": lambda z, t: si.interp1d(X, z, "quadratic", bounds_error=False)(t),
    "lines": lambda z, t: si.interp1d(X, z, bounds_error=False, fill_value=1j)(t),
    "grid": lambda z, t: si.RegularGridInterpolator((X,), z)(t[:9, None]),
    "nearest on a grid": lambda z, t: si.RegularGridInterpolator((X,), z, "nearest")(t[:9, None]),
    "points of a grid": lambda z, t: si.interpn((X,), z, t[:9, None]),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_data(name):
    """Curves are linear in their data: a complex one is two real ones, its derivatives too."""

    def f(parts):
        found = COMPLEX[name](parts[0] + 1j * parts[1], T)
        return np.stack([found.real, found.imag])

    parts = np.stack([Z.real, Z.imag])
    found, expected = fdiff.jit(f)(parts), COMPLEX[name](Z, T)
    np.testing.assert_allclose(found, [expected.real, expected.imag], rtol=1e-12, atol=1e-12)
    unit = np.stack([f(np.stack([e, 0 * e])) for e in np.eye(7)], axis=-1)
    zero = f(np.zeros((2, 7)))[..., None]
    unit = np.nan_to_num(unit - zero)  # the derivative is 0 where a curve has no value
    slopes = np.stack([unit, np.stack([-unit[1], unit[0]])], axis=-2)
    for operator in (fdiff.jacfwd, fdiff.jacrev):
        np.testing.assert_allclose(operator(f)(parts), slopes, rtol=1e-10, atol=1e-10)


CAPTURED = [
    si.CubicSpline(X, Z),
    si.make_interp_spline(X, Z),
    si.RegularGridInterpolator((X,), Z, "cubic"),
    si.interp1d(X, Z, "cubic"),
    si.interp1d(X, Z, "quadratic"),
]


@pytest.mark.parametrize("curve", CAPTURED, ids=lambda curve: type(curve).__name__)
def test_complex_curves_made_before(curve):
    f = lambda t: curve(t[:, None]).reshape(-1)
    np.testing.assert_allclose(fdiff.jit(f)(T[:9]), f(T[:9]), rtol=1e-13)


def test_complex_numbers_where_scipy_takes_real_ones():
    for curve in (si.PchipInterpolator, si.Akima1DInterpolator):
        with pytest.raises(ValueError, match=f"`{curve.__name__}` only works with real values"):
            fdiff.jit(lambda z, curve=curve: curve(X, z)(T))(Z)
    for f in (
        lambda z: si.CubicSpline(X, Y)(z),
        lambda z: si.interp1d(X, Y, "cubic")(z),
        lambda z: si.splev(T, (np.arange(9.0), z[:5], 3)),
        lambda z: si.make_interp_spline(X, z.real, bc_type=([(1, z[0])], [(1, 0.0)]))(T),
        lambda z: si.interp1d(X, z.real, bounds_error=False, fill_value=1j)(T),
    ):
        with pytest.raises(fdiff.errors.UnsupportedError, match=r"np\.real"):
            fdiff.jit(f)(Z)
    with pytest.raises(ValueError, match="of a type compatible with values"):
        fdiff.jit(lambda y: si.RegularGridInterpolator((X,), y, fill_value=1j)(T[:9, None]))(Y)


def test_integrals_of_periodic_curves_are_refused():
    y = np.append(Y[:-1], Y[0])
    with pytest.raises(fdiff.errors.UnsupportedError, match="the integral of a periodic spline"):
        fdiff.grad(lambda y: si.CubicSpline(X, y, bc_type="periodic").integrate(1.0, 2.0))(y)


@pytest.mark.parametrize("method", ["linear", "nearest", "cubic", "slinear"])
def test_grids(method):
    values, places = RNG.normal(size=(5, 6)), RNG.random((4, 2)) * [1, 2]
    grid = si.RegularGridInterpolator((np.linspace(0, 1, 5), np.linspace(0, 2, 6)), values, method)
    f = lambda z: grid(z.reshape(4, 2))
    np.testing.assert_array_equal(fdiff.jit(f)(places.ravel()), f(places.ravel()))
    np.testing.assert_allclose(
        fdiff.jacobian(f)(places.ravel()), differences(f, places.ravel()), rtol=1e-6, atol=1e-7
    )


def test_curves_made_before_are_not_retraced_and_never_stale():
    cubic, lines = si.CubicSpline(X, Y), si.interp1d(X, Y, kind="cubic")
    b, fitted = si.make_interp_spline(X, Y), si.UnivariateSpline(X, Y, s=0.1)

    def f(t):
        return (
            cubic(t) + lines(t) + b(t, 1) + fitted(t) + cubic.derivative()(t) + sum(cubic.roots())
        )

    slope = fdiff.value_and_grad(f)  # a RetraceWarning would be an error
    for t in (1.2, 1.3):
        np.testing.assert_allclose(slope(t), (f(t), (f(t + 1e-6) - f(t - 1e-6)) / 2e-6), rtol=1e-8)
    cubic.c[:] *= 2
    np.testing.assert_allclose(
        slope(1.2), (f(1.2), (f(1.2 + 1e-6) - f(1.2 - 1e-6)) / 2e-6), rtol=1e-8
    )


def test_points_out_of_order_are_refused():
    with pytest.raises(ValueError, match="strictly increasing"):
        fdiff.grad(lambda y: si.CubicSpline(X[::-1], y)(1.0))(Y)


def test_factorisations_made_before():
    matrix = csc_array(np.array([[4.0, 1, 0], [0, 3, 1], [2, 0, 5]]))
    lu, solve, inverse = splu(matrix), factorized(matrix), np.linalg.inv(matrix.toarray())
    x = np.array([1.0, 2.0, 3.0])
    for f in (lambda x: lu.solve(x**2), lambda x: solve(x**2)):
        np.testing.assert_array_equal(fdiff.jit(f)(x), f(x))
        for operator in (fdiff.jacrev, fdiff.jacfwd):
            np.testing.assert_allclose(operator(f)(x), inverse * (2 * x), rtol=1e-14, atol=1e-15)
    squares = lambda x: np.sum(lu.solve(x**2, "T") ** 2)
    by_hand = lambda x: np.sum((inverse.T @ x**2) ** 2)
    np.testing.assert_allclose(fdiff.hessian(squares)(x), fdiff.hessian(by_hand)(x), atol=1e-14)
    rows = np.stack([x, x + 1])
    np.testing.assert_allclose(
        fdiff.vmap(lambda x: lu.solve(x))(rows), rows @ inverse.T, rtol=1e-14
    )
