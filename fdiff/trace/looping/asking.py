"""What Python asks as calls are logged or compared: docs/decisions/plain-loops-that-branch.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..recorder import NumberClass
from ..traced_array import TracedArray
from .checked_trips import MISMATCH, Frame
from .periods import user_place
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
            answer = log.turn_to(lambda f: _take(log, f, call.fn, handle), asked=True)
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
            frame.values_fit(item, [answer]) or frame.turn(question, handle, answer)
        ):
            return MISMATCH
        frame.advance()
    except BaseException as error:
        log.break_off(error)
        raise
    return answer
