"""Arguments of many lengths in turn: how many traces are kept, and what they hold."""

import numpy as np
import pytest

import fdiff
from fdiff.dispatch import program
from fdiff.dispatch.program import Program


@pytest.fixture(autouse=True)
def nothing_traced():
    """Functions of the same code share their traces."""
    fdiff.cache_clear()


@pytest.fixture
def traces(monkeypatch):
    """How often something was traced: a list that grows."""
    before, every = Program.trace, []

    def trace(self, *args, **kwargs):
        every.append(self.name)
        return before(self, *args, **kwargs)

    monkeypatch.setattr(Program, "trace", trace)
    return every


def weighted(scale):
    return lambda x: np.sum(scale * x**2)


def in_turn(prepared, lengths, rounds=3):
    points = [np.linspace(0.0, 1.0, n) for n in lengths]
    for _ in range(rounds):
        for x in points:
            np.testing.assert_array_equal(prepared(x), 6.0 * x)


@pytest.mark.slow
@pytest.mark.parametrize("count", [program.VARIANTS - 1, program.VARIANTS + 1, 300])
def test_lengths_in_turn_are_traced_once_each(count, traces):
    in_turn(fdiff.grad(weighted(3.0)), range(1, count + 1))
    assert len(traces) == count


def test_captured_arrays_of_many_traces_are_seen_to_change(traces):
    scale = np.array(3.0)
    prepared, lengths = fdiff.grad(weighted(scale)), range(1, 200)
    in_turn(prepared, lengths)
    scale[...] = 5.0
    for n in lengths:
        np.testing.assert_array_equal(prepared(np.ones(n)), np.full(n, 10.0))
    assert len(traces) == len(lengths)


@pytest.mark.slow
def test_traces_are_dropped_where_their_tapes_are_long(monkeypatch, traces):
    monkeypatch.setattr(program, "NODES", 400)
    prepared = fdiff.grad(weighted(3.0))
    in_turn(prepared, range(1, 301), rounds=1)
    kept = prepared.program.variants
    assert len(kept) == program.VARIANTS  # of them so many are kept, however long they are
    in_turn(prepared, range(200, 301), rounds=1)
    assert len(traces) == 300


def test_there_is_an_end_to_how_many_are_kept(monkeypatch):
    monkeypatch.setattr(program, "MOST_VARIANTS", 150)
    prepared = fdiff.grad(weighted(3.0))
    in_turn(prepared, range(1, 200), rounds=1)
    assert len(prepared.program.variants) == 150
