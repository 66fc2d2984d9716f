"""`scipy.interpolate.interp1d`, and `np.interp` which it calls, beside SciPy and NumPy."""

import numpy as np
import pytest
import scipy.interpolate as si

import fdiff

RNG = np.random.default_rng(0)
X = np.array([0.0, 0.5, 1.75, 2.0, 3.25, 4.0, 4.5])
Y = RNG.normal(size=7)
T = np.append(np.linspace(X[0], X[-1], 11)[1:-1], [X[0] - 0.1, X[-1] + 0.2])
KINDS = ["linear", "slinear", 1, "quadratic", "cubic", "nearest", "nearest-up", "previous", "next"]


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")


def test_lines_of_points_that_are_there_twice_are_those_of_numpy():
    points, y = np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 1.0, 5.0, 6.0])
    f = lambda y: si.interp1d(points, y)(np.array([0.5, 1.0, 1.5]))
    np.testing.assert_array_equal(fdiff.jit(f)(y), f(y))
    rows = [[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5]]
    np.testing.assert_array_equal(fdiff.jacobian(f)(y), rows)
    ends = lambda y: np.interp(1.0, points[:3], y)
    assert fdiff.jit(ends)(y[:3]) == ends(y[:3]) == 5.0
    np.testing.assert_array_equal(fdiff.grad(ends)(y[:3]), [0, 0, 1])


@pytest.mark.parametrize("interpolate", [np.interp, lambda t, x, y: si.interp1d(x, y)(t)])
@pytest.mark.parametrize("data", [[0, 1, np.nan, 6], [0, 1, np.inf, 6], [0, np.inf, np.inf, 6]])
def test_lines_beside_data_that_are_not_finite(interpolate, data):
    t, points, y = np.append(np.linspace(0, 3, 7), np.nan), np.arange(4), np.array(data)
    f = lambda y: interpolate(t, points, y)
    np.testing.assert_array_equal(fdiff.jit(f)(y), f(y))
    np.testing.assert_array_equal(
        fdiff.grad(lambda y: interpolate(3.0, points, y))(y), [0, 0, 0, 1]
    )


def test_one_data_point():
    f = lambda t: np.interp(t, [1.0], [5.0])
    np.testing.assert_array_equal(fdiff.jit(f)(np.array([0.0, np.nan])), [5.0, 5.0])


def test_the_derivative_at_the_last_data_point_is_that_of_the_line_before():
    f = lambda t, x, y: np.interp(t, x, y)
    found = fdiff.grad(f, argnums=(0, 1, 2))(
        2.0, np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 4.0])
    )
    for slope, expected in zip(found, (3.0, [0, 0, -3.0], [0, 0, 1.0]), strict=True):
        np.testing.assert_array_equal(slope, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_interp1d_of_nan_and_of_single_precision(kind):
    """At NaN steps give the last value; splines convert their data to float64, lines do not."""
    t = np.array([np.nan, X[0], X[1], X[2] + 0.125])
    for dtype in (np.float64, np.float32):
        y, places = Y.astype(dtype), t.astype(dtype)
        for f, z in (
            (lambda y: si.interp1d(X, y, kind)(t), y),
            (lambda t: si.interp1d(X, y, kind)(t[::2]), places),
        ):
            found, expected = fdiff.jit(f)(z), f(z)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_interp1d_with_values_beyond_the_ends(kind):
    rows = RNG.normal(size=(3, 7, 2))
    fill, t = RNG.normal(size=(3, 2)), np.array([-9.0, X[1], X[2] + 0.125, 99.0])
    made = si.interp1d(X, rows, kind, axis=1, bounds_error=False, fill_value=(fill, 2 * fill))
    for f, z in (
        (lambda t: made(t), t),
        (
            lambda y: si.interp1d(X, y, kind, 1, bounds_error=False, fill_value=(fill, fill[0]))(t),
            rows,
        ),
        (lambda y: si.interp1d(X, y, kind, bounds_error=False, fill_value=None)(t), Y),
        (lambda y: si.interp1d(X, y, kind, bounds_error=False, fill_value=(1.0, [2.5]))(t), Y),
        (
            lambda y: si.interp1d(X, y, kind, bounds_error=False, fill_value=[0.1])(t),
            Y.astype("f4"),
        ),
    ):
        found, expected = fdiff.jit(f)(z), f(z)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.filterwarnings(
    "ignore::fdiff.errors.RetraceWarning"
)  # SciPy keeps None in an object array
def test_an_interp1d_made_before_with_none_beyond_the_ends():
    for y, fill in ((Y, None), (Y * 1j, None), (Y, (1.0, None))):
        made = si.interp1d(X, y, bounds_error=False, fill_value=fill)
        f = lambda t, made=made: made(t)
        np.testing.assert_array_equal(fdiff.jit(f)(T), f(T))


def test_values_beyond_the_ends_that_scipy_refuses():
    for fill, name in (
        ([1.0, 2.0], "fill_value"),
        ((1.0, np.ones((1, 1))), r"fill_value \(above\)"),
    ):
        f = lambda y, fill=fill: si.interp1d(X, y, bounds_error=False, fill_value=fill)(T)
        for call in (f, fdiff.jit(f)):
            with pytest.raises(
                ValueError, match=f"{name} argument must be able to broadcast up to shape"
            ):
                call(Y)


def test_an_interp1d_made_before_is_not_taken_for_one_of_another_degree():
    of = lambda made: lambda t: made(t)
    for kind in ("cubic", "quadratic", "slinear"):
        f = of(si.interp1d(X, Y, kind))
        for _ in range(3):
            np.testing.assert_allclose(fdiff.jit(f)(T[:9]), f(T[:9]), rtol=1e-13)


def test_an_interp1d_that_extrapolates_and_was_made_before_is_never_stale():
    made = si.interp1d(X, Y, fill_value="extrapolate")
    f = fdiff.jit(lambda t: made(t))
    for factor in (1.0, 2.0, 3.0):
        made.y[:] = factor * Y
        np.testing.assert_allclose(f(T), made(T), rtol=1e-13)
