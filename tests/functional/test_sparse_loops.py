"""Sparse derivatives through loops: their structure is that of the body, trip after trip."""

import numpy as np
import pytest

import fdiff
from fdiff.transforms.terms import loop_patterns

N, TRIPS = 30, 3
RNG = np.random.default_rng(0)
U, X = RNG.normal(size=N), RNG.normal(size=(TRIPS, N))


def heat(u, c=0.1):
    """One step: each entry reads its neighbours."""
    v = u.copy()
    v[1:-1] = u[1:-1] + c * (u[2:] - 2 * u[1:-1] + u[:-2]) - 0.05 * u[1:-1] * (u[2:] - u[:-2])
    return v


def band(width):
    """The entries of a band of this width on each side, but for the two rows at the ends."""
    near = np.abs(np.subtract.outer(np.arange(N), np.arange(N))) <= width
    near[[0, -1]] = np.eye(N, dtype=bool)[[0, -1]]
    return near


def last(u):
    return fdiff.fori_loop(0, TRIPS, lambda i, u: heat(u), u)


def rows(u):
    return fdiff.scan(lambda u, _: (heat(u), 2 * u[1:]), u, None, TRIPS)[1]


def forced(x):
    return fdiff.scan(lambda u, f: (heat(u) + f**2, None), U, x)[0]


def forced_backwards(x):
    return fdiff.scan(lambda u, f: (heat(u) * f, None), U, x, reverse=True)[0]


def shared(c):
    """Coefficients that all trips read."""
    return fdiff.fori_loop(0, TRIPS, lambda i, u: heat(u, c[1:-1]), U)


def until(u):
    """Of a number of trips that a run tells, patterns of all numbers are united."""
    step = lambda s: (s[0] + 1, s[1] * s[1][::-1])
    return fdiff.while_loop(lambda s: s[0] < TRIPS, step, (0, u))[1]


def nested(u):
    return fdiff.fori_loop(0, 2, lambda i, u: fdiff.fori_loop(0, 2, lambda j, u: heat(u), u), u)


def swapped(u):
    """Two halves that change places, and come back."""
    step = lambda i, s: (np.sin(s[1]), s[0] * 2)
    a, b = fdiff.fori_loop(0, TRIPS, step, (u[:15], u[15:]))
    return np.concatenate([a, b])


def of_two(u):
    """The last carry and the rows."""
    v, ys = fdiff.scan(lambda u, _: (heat(u), u[:2]), u, None, TRIPS)
    return np.concatenate([v, ys.reshape(-1)])


PROGRAMS = {
    f.__name__: (f, at)
    for f, at in (
        (last, U), (rows, U), (forced, X), (forced_backwards, X), (shared, U), (until, U),
        (nested, U), (swapped, U), (of_two, U),
    )
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_structures_are_those_of_trips(name):
    f, at = PROGRAMS[name]
    found, dense = fdiff.jacobian(f, sparse=True)(at), fdiff.jacobian(f)(at)
    dense = dense.reshape(-1, at.size)
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-13, atol=1e-14)
    assert found.nnz == np.count_nonzero(dense)
    for mode in ("forward", "reverse"):
        other = fdiff.jacobian(f, sparse=True, mode=mode)(at)
        np.testing.assert_allclose(other.toarray(), dense, rtol=1e-13, atol=1e-14)


def test_hessians_through_loops():
    f = lambda u: np.sum(last(u) ** 3)
    found, dense = fdiff.hessian(f, sparse=True)(U), fdiff.hessian(f)(U)
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-13)
    assert found.nnz == np.count_nonzero(dense) < N * N / 2


@pytest.mark.parametrize("trips", [0, 1, 2, 5, 100])
def test_each_trip_adds_a_band_until_the_matrix_is_full(trips):
    f = lambda u: fdiff.fori_loop(0, trips, lambda i, u: heat(u), u)
    pattern = fdiff.jacobian(f, sparse=True).pattern(U)
    expected = band(trips)
    full = 2 * np.count_nonzero(expected) >= N * N
    assert pattern.nnz == (N * N if full else np.count_nonzero(expected))


def test_a_body_whose_structure_is_not_known_is_dense():
    f = lambda u: fdiff.fori_loop(0, 2, lambda i, u: u * u[np.argmax(u)], u)
    found = fdiff.jacobian(f, sparse=True)(U)
    np.testing.assert_allclose(found.toarray(), fdiff.jacobian(f)(U), rtol=1e-13, atol=1e-14)
    assert found.nnz == N * N


@pytest.mark.parametrize("trips", [500, 20_000])
def test_patterns_of_loops_of_many_trips_cost_a_bounded_number_of_products(trips, monkeypatch):
    """A Hessian by two numbers took as many as there are trips, with an array for each trip."""
    done = []
    trip = loop_patterns._trip
    monkeypatch.setattr(loop_patterns, "_trip", lambda *args: done.append(1) or trip(*args))
    rows = np.sin(np.arange(float(trips)))

    def f(p):
        step = lambda y, z: (p[0] * np.sin(y) + 0.1 * z, y * z * p[1])
        last, ys = fdiff.scan(step, p[1], rows)
        return last + np.sum(ys * ys) / trips

    found = fdiff.hessian(f)
    x = np.array([0.5, 0.3])
    first = found(x)
    np.testing.assert_array_equal(found(x), first)
    assert len(done) <= 4 * loop_patterns.MOST_PRODUCTS
    np.testing.assert_allclose(first, first.T, rtol=1e-12)
    assert np.all(first != 0)
