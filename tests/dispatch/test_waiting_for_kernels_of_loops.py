"""Loops of the next call decide whether it waits for its kernel, or leaves it to the background."""

import numpy as np
import pytest

import fdiff
from fdiff.dispatch.tiers import break_even


@pytest.mark.parametrize(
    ("beside", "loops", "spent", "last", "waits"),
    [
        (True, 0.1, 0.95, 0.1, False),  # a call takes 0.1 s without the kernel, which takes 1 s
        (True, 1.1, 0.0, 0.0, True),
        (False, 0.1, 0.95, 0.1, True),
        (False, 0.1, 0.85, 0.1, False),
        (True, 0.1, 1.1, 1.1, True),  # the call before told how long a call takes
        (False, 0.1, 0.6, 0.5, True),
    ],
)
def test_a_call_waits_for_no_longer_than_its_loops_take(
    beside, loops, spent, last, waits, monkeypatch
):
    monkeypatch.setattr(break_even.background, "allowed", lambda: beside)
    monkeypatch.setattr(break_even, "_seconds_of_trips", lambda tape: loops)
    monkeypatch.setattr(break_even, "_seconds_of_entries", lambda tape: 0.0)
    monkeypatch.setattr(break_even.BreakEven, "_estimate", lambda *_, **__: 1.0)
    account = break_even.Account()
    account.spent, account.last = spent, last
    point = break_even.BreakEven(None, "", account)
    assert point.is_worth_waiting(("C",)) == waits
    assert np.isfinite(point.point(("C",)))


def test_no_source_is_written_for_a_call_that_cannot_wait_for_it(monkeypatch):
    """Of a long tape neither, whose source alone takes most of the time that is never waited."""
    asked = []
    monkeypatch.setattr(break_even.kernels, "predict_seconds", lambda *_: asked.append(1) or 9.0)
    monkeypatch.setattr(break_even.background, "allowed", lambda: True)

    def f(x):
        for k in range(1800):
            x = x * 1.5 - x[k % 3]
        return fdiff.fori_loop(0, 40_000, lambda _, y: np.sin(y) * 0.5, x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FDIFF_LOOPS", "unroll")
        tape = fdiff.make_tape(f, np.ones(4))
    writing = break_even.writing_seconds(tape)
    assert writing < break_even.WRITE_FIRST < 2 * writing
    point = break_even.BreakEven(tape, "llvm", break_even.Account())
    assert not point.is_worth_waiting(("C",))
    assert asked == []


def test_branches_count_as_the_longest_of_them():
    def trip(k, x):
        return fdiff.cond(x > k, lambda x: np.sin(np.sin(x) + x), lambda x: x + 0.5, x)

    short, long = (
        fdiff.make_tape(lambda x, n=n: fdiff.fori_loop(0, n, trip, x), 1.0) for n in (10, 1000)
    )
    seconds = break_even._seconds_of_trips
    assert seconds(long) == pytest.approx(100 * seconds(short))
    assert seconds(short) == pytest.approx(10 * 10 * break_even.NUMBER_SECONDS)
