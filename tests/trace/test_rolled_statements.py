"""Statements in loops that become nodes: ranges that run backwards, masks, copies, powers."""

import numpy as np
import pytest

import fdiff
from fdiff.trace import looping

POINT = np.array([0.6371, 0.4853, 0.7139])


def backwards(x):
    u = np.zeros(20)
    u[19] = x[0]
    for k in range(18, -1, -1):
        u[k] = 0.9 * u[k + 1] + 0.1 * x[1]
    return np.sum(u * x[2])


def in_reverse(x):
    s = x[0]
    for k in reversed(range(20)):
        s = 0.9 * s + np.sin(x[1] * k)
    return s


def from_the_end(x):
    s, y = x[0] * 0.0, np.outer(np.ones(7), x).ravel()
    for k in range(-1, -20, -1):
        s = 0.9 * s + np.sin(y[k])
    return s


def copies(x):
    a, b = np.zeros(3), np.zeros(3)
    a[:] = x
    for _ in range(20):
        np.copyto(b, np.sin(a))
        a = 0.9 * a + 0.1 * b
    return np.sum(a)


def masks(x):
    u = 1.0 * np.outer(np.ones(4), x).ravel()
    mask = np.arange(12) % 2 == 0
    for _ in range(20):
        u[mask] = 0.9 * u[mask] + 0.01
        u[~mask] = 0.8 * u[~mask] + 0.01 * np.sum(u)
    return np.sum(u)


def masks_of_values(x):
    u = np.outer(np.ones(4), x).ravel()
    for _ in range(20):
        v = 1.01 * u
        v[v > 0.7] = 0.5
        u = v
    return np.sum(u * u)


def powers(x):
    s = x[0] * 0.0
    for k in range(20):
        s = 0.5 * s + x[1] ** k
    return s


@pytest.mark.parametrize(
    "f", [backwards, in_reverse, from_the_end, copies, masks, masks_of_values, powers]
)
def test_statements(f, monkeypatch):
    monkeypatch.setattr(looping, "SLEEP", 0)
    results = {}
    for way in ("unroll", "check"):
        monkeypatch.setenv("FDIFF_LOOPS", way)
        fdiff.cache_clear()
        tape = fdiff.make_tape(f, POINT)
        results[way] = [fdiff.jit(f)(POINT), fdiff.grad(f)(POINT), fdiff.hessian(f)(POINT)]
    assert next(tape.bodies(), None) is not None
    for result, exact in zip(results["check"], results["unroll"], strict=True):
        np.testing.assert_allclose(result, exact, rtol=1e-12, atol=1e-12)
