"""Plain Python loops that are traced once, with ``FDIFF_LOOPS=check``, beside unrolled ones."""

import numpy as np
import pytest

import fdiff

POINT = np.array([0.7, 0.3, 0.2])


def in_place(x):
    u = np.zeros(60)
    u[:] = 1.0
    u[0] = x[0]
    for k in range(1, 59):
        u[k] = 0.5 * u[k - 1] + x[1] * u[k + 1] * np.sin(0.1 * k)
    return np.sum(u * u)


def a_row_in_place(x):
    u = np.zeros((60, 3))
    u[:] = x
    for k in range(60):
        row = u[k]
        row *= k + 1.0
    return np.sum(u**2)


def a_view_kept(x):
    u, kept = np.zeros((60, 3)), None
    u[:] = x
    for k in range(60):
        u[k] = np.sin(x) * u[k - 1]
        row = u[k]
        if k == 40:
            kept = row
    u[40] = 2.0 * x
    return np.sum(kept * x)


def a_view_of_the_trip_before(x):
    u = np.zeros((60, 3))
    u[:] = x
    row = u[0]
    for k in range(1, 60):
        u[:] = u * 0.9 + x
        u[k] = row * 0.5
        row = u[k]
    return np.sum(u)


def work_array_changed_outside_of_the_trace(x):
    w, s = np.zeros(3), x
    for k in range(60):
        w[k % 3] += 0.1
        s = s * 0.9 + w * x
    return np.sum(s)


def out_of_range_is_caught(x):
    u, s = np.zeros(30), x[0]
    u[:] = x[1]
    for k in range(200):
        try:
            s = s * 0.9 + u[k]
        except IndexError:
            break
    return s


def several_results(x):
    a, b = x, 2.0 * x
    for _ in range(60):
        parts = np.split(np.concatenate([np.sin(a), b]), 2)
        a, b = parts[1] * 0.5, parts[0]
    return np.sum(a * b)


def orders_in_memory(x):
    a = np.outer(x, x)
    for _ in range(60):
        a = 0.5 * (a.T.copy(order="K") + np.ravel(a, order="K").reshape(3, 3))
    return np.sum(np.ravel(a, order="K") * np.arange(9))


def a_list_of_all(x):
    states = [x]
    for _ in range(60):
        states.append(np.sin(states[-1]) + 0.1 * x)
    return np.sum(np.stack(states) ** 2) + states[7][0] + states[-1][1]


PROGRAMS = [
    in_place, a_row_in_place, a_view_kept, a_view_of_the_trip_before,
    work_array_changed_outside_of_the_trace, out_of_range_is_caught, several_results,
    orders_in_memory, a_list_of_all,
]  # fmt: skip


def derivatives(f, way, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", way)
    fdiff.cache_clear()
    return *fdiff.value_and_grad(f)(POINT), fdiff.hessian(f)(POINT)


@pytest.mark.parametrize("f", PROGRAMS)
def test_checked_loops_compute_what_unrolled_ones_do(f, monkeypatch):
    checked, unrolled = (derivatives(f, way, monkeypatch) for way in ("check", "unroll"))
    for a, b in zip(checked, unrolled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", [in_place, a_row_in_place, out_of_range_is_caught])
def test_loops_are_one_node(f, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    fdiff.cache_clear()
    tape = fdiff.make_tape(f, POINT)
    assert [n.primitive.name for n in tape.nodes].count("loop") == 1
