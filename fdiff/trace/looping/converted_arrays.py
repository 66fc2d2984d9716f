"""Local arrays that become traced ones while calls are logged or compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fdiff.intact_numpy as np

from ..local_arrays import LocalArray, is_alone
from ..trace_stack import stack
from ..traced_array import TracedArray
from .checked_trips import MISMATCH, Frame
from .logged_calls import LoggedCall, content, note_result, taken_apart
from .periods import loop_of, user_place


def converted(
    log: Any, array: LocalArray, convert: Callable[[LocalArray], TracedArray]
) -> TracedArray:
    """A local array that becomes a traced one; a call of its own."""
    if log.depth or stack.traces[-1] is not log.trace or not is_alone(array):
        log.spoiled = True
        if not log.depth:
            _note_view(log)
            log.forget()
        return convert(array)
    array_content = np.array(array).view(np.ndarray)
    traced_array = log.run(convert, (array,), {})
    if traced_array.link is not None:
        _note_view(log)
        log.forget()
        return traced_array
    handle: TracedArray = traced_array
    if log.frame is not None:

        def take(frame: Frame) -> object:
            return handle if frame.take_content(array_content, handle) else MISMATCH

        try:
            out = take(log.frame)
        except BaseException as error:
            log.break_off(error)
            raise
        if out is MISMATCH:
            out = log.turn_to(take)
        if out is not MISMATCH:
            return handle
    if not log.awake:
        return handle
    call = LoggedCall()
    call.handles, call.values, call.writes, call.fn = [], [array_content], [], content
    call.shape = taken_apart((array_content,), {}, [], [])
    call.stand_at(user_place())
    call.key = content, call.shape, call.place
    note_result(call, handle, (), {})
    log.append(call)
    log.search()
    return handle


def _note_view(log: Any) -> None:
    """Note why the loop around is not rolled."""
    if log.awake and stack.traces[-1] is log.trace:
        call = LoggedCall()
        call.stand_at(user_place())
        log.reasons[loop_of(call)] = _VIEWED


_VIEWED = (
    "`a[k] += x` makes an array of NumPy's traced by a view of it (`a[k] = a[k] + x` does not)"
)
