"""Calls that would take longer in NumPy than their kernel takes to compile."""

import numpy as np
import pytest

import fdiff
from fdiff.dispatch.tiers import break_even


@pytest.fixture(autouse=True)
def tiers(monkeypatch):
    monkeypatch.delenv("FDIFF_TIER", raising=False)


def swings(trips):
    return lambda p: fdiff.fori_loop(0, trips, lambda i, y: y + 1e-4 * np.sin(p * y), 1.0)


def test_many_trips_are_compiled_before_they_run():
    gradient = fdiff.grad(swings(1_000_000))
    assert np.isfinite(gradient(0.5))
    assert "f8[]: compiled" in repr(gradient)
    few = fdiff.grad(lambda p: fdiff.fori_loop(0, 30, lambda i, y: y + 1e-4 * np.cos(p * y), 1.0))
    few(0.5)
    assert "f8[]: interpreted" in repr(few)


def test_the_nodes_of_trips_count_loops_in_loops():
    def outer(p):
        inner = lambda i, y: fdiff.fori_loop(0, 20, lambda j, z: np.sin(p * z), y)
        return fdiff.fori_loop(0, 30, inner, 1.0)

    one = _nodes_of_trips(swings(7), 0.5)
    assert one % 7 == 0
    assert 30 * 20 * 2 < _nodes_of_trips(outer, 0.5) < 30 * 20 * 10
    assert _nodes_of_trips(np.sin, 0.5) == 0
    entries = lambda x: fdiff.fori_loop(0, 7, lambda i, y: np.sin(x * y), x)
    number, array = (
        break_even._seconds_of_trips(fdiff.make_tape(entries, x)) for x in (0.5, np.ones(9))
    )
    assert 3 * number < array  # arrays take longer than numbers


def _nodes_of_trips(f, x):
    """The predicted time in that of a node of numbers."""
    nodes = break_even._seconds_of_trips(fdiff.make_tape(f, x)) / break_even.NUMBER_SECONDS
    assert abs(nodes - round(nodes)) < 1e-6
    return round(nodes)


def chain(x):
    for _ in range(12):
        x = np.sin(x) * x
    return np.sum(x)


def test_large_arrays_are_compiled_before_they_are_computed_with():
    gradient = fdiff.grad(chain)
    gradient(np.ones(5_000_000))
    assert "f8[5000000]: compiled" in repr(gradient)
    gradient(np.ones(50_000))
    assert "f8[50000]: interpreted" in repr(gradient)
    products = fdiff.make_tape(lambda a: a @ a, np.ones((1100, 1100)))  # NumPy's own routine
    assert break_even._seconds_of_entries(products) == 0
