"""Loops that choose their branches, and catch errors of matrices and of divisions."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from test_choosing_loops import POINTS, W, counted, unrolled

import fdiff

N = 14


def factors(x):
    s = 0.0
    for k in range(N):
        a = np.array([[1.0 + 1.5 * x[0] * W[k], x[1]], [x[1], 1.0 + x[2]]])
        try:
            c = np.linalg.cholesky(a)
            s = s + np.log(c[0, 0] * c[1, 1])
        except np.linalg.LinAlgError:
            s = s - x[2]
    return s


def raises_the_shift(x):
    shift, y = 0.1 * x[0], x * 1.0
    for k in range(N):
        h = np.outer(y, y) * W[k] + shift * np.eye(3)
        try:
            c = np.linalg.cholesky(h)
        except (LinAlgError, ZeroDivisionError):
            shift = shift * 4
            continue
        else:
            y = y - 0.1 * np.linalg.solve(c, y)
        shift = shift * 0.7
    return np.sum(y) + shift


def leaves(x):
    a, s = np.eye(2), x[0]
    for k in range(N):
        if s > x[2]:
            s = s * 0.9
        try:
            s = s + 0.1 * np.linalg.cholesky(a)[0, 0]
        except LinAlgError:
            break
        a = a + x[1] * np.array([[0.1 * W[k], 0.2 * W[k]], [0.2 * W[k], -0.05]])
    return s


def returns(x):
    a, s = np.eye(2), x[0]
    for k in range(N):
        try:
            c = np.linalg.cholesky(a)
        except LinAlgError:
            return s * k
        s = s + 0.1 * c[0, 0]
        a = a + x[1] * np.array([[0.1 * W[k], 0.2 * W[k]], [0.2 * W[k], -0.05]])
    return s


def inverted(a):
    try:
        return np.linalg.inv(a)
    except LinAlgError:
        return np.eye(2)


def in_a_function(x):
    s = x[0]
    for k in range(N):
        b = inverted(np.array([[s, 1.0], [x[1], max(s * W[k], 0.0)]]))
        s = 0.5 * np.tanh(s + b[0, 0] * 0.1) + 0.3 * x[2]
    return s


def divides(x):
    s = x[0]
    for k in range(N):
        s = 0.9 * s + x[1] * W[k]
        try:
            step = s / (2 * s - x[2])
        except ZeroDivisionError:
            step = 0.1
        s = s - 0.1 * step if step < 2.0 else s
    return s


def around_the_loop(x):
    s = x[0]
    try:
        for k in range(N):
            if s > 0.3:
                s = s * 0.9
            c = np.linalg.cholesky(np.array([[1.5 + W[k] * x[1], 0.6], [0.6, s]]))
            s = s + 0.1 * c[1, 1] * W[k]
    except LinAlgError:
        s = s * 3
    return s


def catches_zero(x):
    s, n = x[0], 3
    for k in range(N):
        s = 0.9 * s + x[1] * W[k]
        n = n - 1 if s > 0.3 else n + 2
        try:
            s = s + 0.1 / (n - 4)
        except ZeroDivisionError:
            s = s + 0.3
    return s


ANEW = around_the_loop, catches_zero


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize(
    "f", [factors, raises_the_shift, leaves, returns, in_a_function, divides, *ANEW]
)
def test_values_and_gradients(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    if f not in ANEW:
        assert [(own.refusals, own.sources) for own in drivers] == [({}, {})] * len(drivers)
        assert len(traces) == 1
    for x, (value, _) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
    for x, (_, slope) in [*zip(POINTS, results, strict=True)][1::2]:
        expected = unrolled(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-13)
