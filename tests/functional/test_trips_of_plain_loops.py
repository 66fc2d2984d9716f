"""Errors in Python's loops name the iteration, counted as the user does, where they name one."""

import numpy as np
import pytest

import fdiff
from fdiff.errors import AnomalyError
from fdiff.trace import looping


@pytest.fixture(autouse=True)
def _short_loops(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    monkeypatch.setattr(looping, "SLEEP", 0)
    fdiff.cache_clear()


def pick(x, places):
    total = 0.0
    for k in range(20):
        total = 0.5 * total + x[places[k]]
    return total


def from_five(x, places):
    total = 0.0
    for k in range(5, 45, 2):
        total = 0.5 * total + x[places[(k - 5) // 2]]
    return total


def enumerated(x, places):
    total = 0.0
    weights = [0.1 * k for k in range(20)]
    for k, weight in enumerate(weights):
        total = 0.5 * total + weight * x[places[k]]
    return total


def in_a_loop(x, places):
    total = 0.0
    for i in range(20):
        total = total * x[0]
        for _ in range(13):
            total = 0.5 * total + x[places[i]]
    return total


def by_condition(x, places):
    total, k = 0.0, 0
    while k < 20:
        total = 0.5 * total + x[places[k]]
        k += 1
    return total


def two_by_two(x, places):
    total = 0.0
    for k in range(40):
        total = np.sin(total) if k % 2 else 0.5 * total + x[places[k // 2]]
    return total


WORDS = {
    pick: "in trip 17 of its loop",
    from_five: "in trip 17 of its loop",
    enumerated: "in trip 17 of its loop",
    in_a_loop: "in trips 17, ",
    by_condition: "",
    two_by_two: "",
}


@pytest.mark.parametrize("f", WORDS)
def test_an_index_that_leaves_the_array(f, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")  # a kernel's words name no index
    places = np.arange(20) % 3
    slope = fdiff.grad(f)
    slope(np.ones(3), places)
    places[17] = 7
    with pytest.raises(IndexError, match="index 7 is out of bounds") as raised:
        slope(np.ones(3), places)
    note = raised.value.__notes__[0]
    assert "x[places[" in note
    assert WORDS[f] in note
    assert WORDS[f] or "in trip" not in note


def test_a_singular_matrix():
    def f(x):
        total = x[0]
        for k in range(20):
            total = 0.5 * total + np.linalg.solve(np.diag(x - k), x)[1]
        return total

    with pytest.raises(np.linalg.LinAlgError) as raised:
        fdiff.grad(f)(np.array([50.5, 16.0]))
    assert "in trip 16 of its loop" in raised.value.__notes__[0]


def test_the_first_nan():
    def f(x):
        total = x[0]
        for k in range(20):
            total = 0.5 * total + np.sqrt(x[1] - k)
        return total

    with fdiff.debug_nans(), pytest.raises(AnomalyError, match="in trip 15 of its loop"):
        fdiff.grad(f)(np.array([1.0, 14.5]))
