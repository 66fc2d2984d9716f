"""Loops of the next call decide whether it waits for its kernel, or leaves it to the background."""

import numpy as np
import pytest

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
    monkeypatch.setattr(break_even.BreakEven, "_estimate", lambda *_, **__: 1.0)
    account = break_even.Account()
    account.spent = spent
    point = break_even.BreakEven(None, "", account)
    assert point.is_worth_waiting(("C",)) == waits
    assert np.isfinite(point.point(("C",)))
