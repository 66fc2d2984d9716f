"""Loops of the next call decide whether it waits for its kernel, or leaves it to the background."""

import numpy as np
import pytest

import fdiff
from fdiff.dispatch.tiers import break_even


@pytest.mark.parametrize(
    ("beside", "loops", "spent", "waits"),
    [
        (True, 0.1, 0.95, False),  # a call takes 0.1 s without the kernel, which takes 1 s
        (True, 1.1, 0.0, True),
        (False, 0.1, 0.95, True),
        (False, 0.1, 0.85, False),
    ],
)
def test_a_call_waits_for_no_longer_than_its_loops_take(beside, loops, spent, waits, monkeypatch):
    monkeypatch.setattr(break_even.background, "allowed", lambda: beside)
    monkeypatch.setattr(break_even, "_seconds_of_trips", lambda tape: loops)
    monkeypatch.setattr(break_even, "_seconds_of_entries", lambda tape: 0.0)
    monkeypatch.setattr(break_even.BreakEven, "_estimate", lambda *_, **__: 1.0)
    account = break_even.Account()
    account.spent = spent
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
