"""NumPy's error state after an exception that arrived before `errstate.__exit__` had run."""

import sys

import numpy as np
import pytest

import fdiff
from fdiff import error_state


class StopError(Exception):
    """What a signal handler raises."""


def left_without_exit():
    """A frame that has entered a state, and ends where `__exit__` has not run."""
    error_state.errstate(all="call", call=print).__enter__()
    # The frame that entered is this one, and it ends here.


@pytest.mark.parametrize("times", [1, 3])
def test_a_state_ends_with_its_frame(times):
    before = np.geterr()
    for _ in range(times):
        left_without_exit()
    assert np.geterr() != before
    error_state.restore()
    assert np.geterr() == before


def test_states_of_frames_that_run_stay():
    with np.errstate(all="ignore"), error_state.errstate(divide="raise"):
        left_without_exit()
        with error_state.errstate(over="raise"):
            left_without_exit()
            error_state.restore()
            assert np.geterr()["over"] == np.geterr()["divide"] == "raise"
        error_state.restore()
        assert np.geterr()["divide"] == "raise"
        assert np.geterr()["over"] == "ignore"


def test_the_error_of_a_call_restores_what_the_call_has_left():
    def model(x):
        if armed:
            left_without_exit()
            raise StopError
        return x * 2.0

    for operator in (fdiff.grad, fdiff.jit, fdiff.jacobian):
        armed, slope = False, operator(model)
        slope(1.0)
        before, armed = np.geterr(), True
        with pytest.raises(StopError):
            slope(2.0)
        assert np.geterr() == before


def test_an_exception_at_any_line_of_the_interpreter_leaves_numpy_as_it_was(monkeypatch):
    """Also at the line of a ``with`` statement that has ended."""
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    slope, before = fdiff.grad(lambda x: np.sum(np.sin(x) / x)), np.geterr()
    x = np.ones(3)
    slope(x)
    for at in range(1, 400):
        count, mine = 0, sys.gettrace()

        def trace(frame, event, _, at=at):
            nonlocal count
            if not frame.f_code.co_filename.endswith("interpret.py"):
                return trace
            count += 1
            if count == at:
                sys.settrace(None)
                raise StopError
            return trace

        sys.settrace(trace)
        try:
            slope(x)
        except StopError:
            pass
        finally:
            sys.settrace(mine)
        assert np.geterr() == before, at
        if count < at:
            break
    assert 20 < at < 399
