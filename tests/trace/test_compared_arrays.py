"""Arrays and lists among the arguments of calls that are only compared: what differs is seen."""

import numpy as np
import pytest

import fdiff

TRIPS = 900
X = np.array([0.3, -0.4])


def in_place(x):
    """An array that the loop changes in place, at one trip alone."""
    a, u = np.array([0.99, 1.01]), x * 1.0
    for k in range(TRIPS):
        if k == 700:
            a[1] = 0.5
        u = np.sin(a * u) + 0.1 * x
    return np.sum(u)


def sign_of_zero(x):
    a, u = np.array([0.0, 1.0]), x * 1.0
    for k in range(TRIPS):
        if k == 600:
            a = np.array([-0.0, 1.0])
        u = 0.5 * u + 0.1 * np.arctan2(a * 1.0, u - 2.0)
    return np.sum(u)


def number_of_numpy(x):
    c, u = np.float64(0.0), x * 1.0
    for k in range(TRIPS):
        if k == 500:
            c = np.float64(-0.0)
        u = 0.9 * u + 0.01 * np.arctan2(c, u - 3.0)
    return np.sum(u)


def order_in_memory(x):
    """The same entries in another order of the axes in memory, which `ravel("K")` shows."""
    m, u = np.array([[1.0, 2.0], [3.0, 4.0]]), x * 1.0
    for k in range(TRIPS):
        a = np.asfortranarray(m) if k % 300 == 299 else m
        u = 0.5 * u + 0.01 * (a * u).ravel("K")[1:3]
    return np.sum(u)


def other_dtype(x):
    a, u = np.array([1, 2]), x * 1.0
    for k in range(TRIPS):
        if k == 650:
            a = np.array([1.0, 2.5])
        u = 0.4 * u * a + 0.1
    return np.sum(u)


def views(x):
    """Equal content by other strides, and then other content."""
    table, u = np.repeat(np.array([0.5, 0.25]), 6).reshape(2, 6).T.copy(), x * 1.0
    table[5] = 0.75
    for k in range(TRIPS):
        a = table[k % 5] if k % 2 else table[:, 0][k % 5 : k % 5 + 1] * np.array([1.0, 0.5])
        u = u * a + 0.3 * x
        if k == 800:
            table[2] = 0.1
    return np.sum(u)


def lists(x):
    """Lists of what is carried, one of whose entries is another handle at one trip."""
    a, b = x[0], x[1]
    for k in range(TRIPS):
        pair = np.stack([a, b]) if k != 777 else np.stack([b, a])
        a, b = 0.9 * pair[0] + 0.05 * pair[1], 0.8 * b
    return a * b


def longer_list(x):
    a = x[0]
    for k in range(TRIPS):
        a = 0.5 * a + 0.1 * np.sum(np.array([a, x[1]] if k != 400 else [a, x[1], x[0]]))
    return a


def tuple_then_list(x):
    a = x[0]
    for k in range(TRIPS):
        a = 0.5 * a + 0.1 * np.sum(np.array((a, x[1]) if k > 400 else [a, x[1]]))
    return a


CASES = (
    in_place, sign_of_zero, number_of_numpy, order_in_memory, other_dtype, views, lists,
    longer_list, tuple_then_list,
)  # fmt: skip


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_what_differs_is_seen(f, monkeypatch):
    value, gradient = fdiff.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    step = [f(X + 1e-30j * e).imag / 1e-30 for e in np.eye(2)] if f not in ANGLES else None
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")
    other = fdiff.value_and_grad(lambda x: f(x))(X)
    np.testing.assert_allclose(gradient, other[1], rtol=1e-12, atol=1e-300)
    if step is not None:
        np.testing.assert_allclose(gradient, step, rtol=1e-12)


ANGLES = sign_of_zero, number_of_numpy  # which have no complex values


def table_of_each_step(x):
    u = x * 1.0
    for _ in range(TRIPS):
        a = np.zeros(2)
        a[:1] += u[1:]
        u = 0.5 * u + 0.1 * a
    return np.sum(u)


def test_what_keeps_a_loop_unrolled_is_named():
    words = str(fdiff.explain(fdiff.grad(table_of_each_step), X))
    assert "one node for" in words or "by a view" in words
