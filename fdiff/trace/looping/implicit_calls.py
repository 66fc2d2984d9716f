"""Calls that the user's code does not spell: Python's questions, and conversions of local arrays.

They are logged and compared as other calls: docs/decisions/plain-loops-that-branch.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ..local_arrays import LocalArray, blank, parts_of, stand_for
from ..recorder import NumberClass
from ..trace_stack import stack
from ..traced_array import TracedArray
from .checked_trips import MISMATCH, Frame
from .logged_calls import LoggedCall, content, note_result, taken_apart
from .periods import loop_of, user_place
from .questions import Question, question_of
from .trip_checks import is_sound

if TYPE_CHECKING:
    from .call_log import CallLog


def ask(log: CallLog, kind: NumberClass, handle: TracedArray) -> object:
    """Answer Python's question to a handle for a number of class `kind`, and log or compare it."""
    call = question_of(handle, kind)
    frame = log.frame
    if frame is not None:
        answer = _take(log, frame, call.fn, handle)
        if answer is MISMATCH:
            answer = log.take_elsewhere(lambda f: _take(log, f, call.fn, handle), asked=True)
        if answer is not MISMATCH:
            return answer
    call.stand_at(user_place())
    call.key = call.fn, call.shape, call.place
    log.frame = log.starting(call)
    if log.frame is not None:
        answer = _take(log, log.frame, call.fn, handle)
        if answer is not MISMATCH:
            return answer
        log.frame = None
    try:
        answer = log.run(call.fn, (handle,), {})
    except BaseException:
        log.forget()
        raise
    if not log.awake:
        return answer
    call.values = [answer]
    log.branches.asked = True
    log.append(call)
    log.search()
    return answer


def _take(log: CallLog, frame: Frame, question: Question, handle: TracedArray) -> object:
    """The answer of a question that the template has next; MISMATCH if it leads elsewhere."""
    item = frame.items[frame.at]
    if item.fn is not question or frame.values is None:
        return MISMATCH
    try:
        if not frame.handles_fit(item, [handle]) or not (frame.bound or is_sound(frame)):
            return MISMATCH
        answer = frame.values.answer(question)
        if answer is None or not (
            frame.values_fit(item, [answer]) or frame.switch_path(question, handle, answer)
        ):
            return MISMATCH
        frame.advance()
    except BaseException as error:
        log.break_off(error)
        raise
    return answer


def converted(
    log: CallLog, array: LocalArray, convert: Callable[[LocalArray], TracedArray]
) -> TracedArray:
    """A local array that becomes a traced one, which is a call: of the content of its memory.

    Where other arrays view that memory, further calls take views.
    """
    active = not log.depth and stack.traces[-1] is log.trace
    if active and not log.awake and log.frame is None:
        return convert(array)
    parts = parts_of(array) if active else None
    if parts is None:
        log.spoiled = True
        if active:
            _note_view(log)
            log.forget()
        return convert(array)
    memory, family = parts
    root = _content(log, np.array(memory))
    for part, key in family:
        stand_for(part, root[key] if key else root)
    blank(memory)
    return array.handle


def _content(log: CallLog, array: np.ndarray) -> TracedArray:
    """A traced array of this content; a call of its own."""
    if log.frame is not None:

        def take(frame: Frame) -> object:
            return frame.take_content(array)

        try:
            out = take(log.frame)
        except BaseException as error:
            log.break_off(error)
            raise
        if out is MISMATCH:
            out = log.take_elsewhere(take)
        if out is not MISMATCH:
            assert isinstance(out, TracedArray)
            return out
    handle = log.run(content, (array,), {})
    if not log.awake:
        return handle
    call = LoggedCall()
    call.handles, call.values, call.writes, call.fn = [], [array], [], content
    call.shape = taken_apart((array,), {}, [], [])
    call.stand_at(user_place())
    call.key = content, call.shape, call.place
    note_result(call, handle, (), {})
    log.append(call)
    log.search()
    return handle


def _note_view(log: CallLog) -> None:
    """Note why the loop around is not rolled."""
    if log.awake and stack.traces[-1] is log.trace:
        call = LoggedCall()
        call.stand_at(user_place())
        log.reasons[loop_of(call)] = _VIEWED


_VIEWED = "`a[k] += x` makes a NumPy array traced by a view of it (`a[k] = a[k] + x` does not)"
