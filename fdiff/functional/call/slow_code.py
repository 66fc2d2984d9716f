"""A warning about code that stays slow, because it takes other branches at each call.

Such code is differentiated eagerly, operation by operation. It gets faster if the branches are
written as arithmetic, which only the user can do; the warning names the line that branches most.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...dispatch.program import Program
from ...errors import RetraceWarning, warn
from ...process.garbage_collection import collector_paused
from ...trace.eager.eager_trace import EagerTrace
from ...trace.trace_stack import stack
from ...user_lines import Line, show_line

if TYPE_CHECKING:
    from .operator_call import OperatorCall

TIMES = 20.0  # a call is slow if it takes so many times as long as its operations alone
SECONDS = 1.0  # spent in eager calls before anything is said
LOOKS = 3  # calls that are compared with their operations; the fastest call counts


def timed(call: OperatorCall) -> object:
    """The result of a call that may be eager, and is timed.

    Once eager calls took a second in all, branches are counted by lines during the next ones.
    """
    program = call.program
    asked = program.seconds >= SECONDS
    before, stack.branches = stack.branches, Counter() if asked else None
    try:
        with collector_paused():
            begin = perf_counter()
            result = call.go_on()
            if call.variant is not None and (trace := call.variant.traced.eager) is not None:
                seconds = perf_counter() - begin
                program.seconds += seconds
                if stack.branches:
                    program.ratios.append(seconds / replayed(trace))
                    if len(program.ratios) == LOOKS:
                        _warn_if_slow(program, call.variant.traced.call, stack.branches)
            return result
    finally:
        stack.branches = before


def _warn_if_slow(program: Program, call: str, branches: Counter[Line | None]) -> None:
    """Warn if all calls that were looked at were slow. Otherwise start counting again."""
    times, program.ratios, program.seconds = min(program.ratios), [], 0.0
    if times < TIMES:
        return
    program.seconds = float("-inf")
    line, count = branches.most_common(1)[0]
    warn(
        f"{call}: takes about {times:.0f} times as long as the function itself, because the"
        f" function branches another way at each call. Most often ({count:,} times) it does here:"
        f"{show_line(line)}\nResults are right. Write numpy.where(condition, a, b), numpy.maximum"
        " or numpy.minimum in place of the branch, for whole arrays at once if possible.",
        RetraceWarning,
        line,
    )


def replayed(trace: EagerTrace) -> float:
    """Seconds that the operations of a trace take by themselves, as in plain code.

    The first run has given the warnings of plain code; this run gives none.
    """
    builder = trace.builder
    values = builder.values
    calls = [(op.call, a) for op, a in zip(builder.ops, builder.args, strict=True) if a]
    with np.errstate(all="ignore"):
        begin = perf_counter()
        for call, args in calls:
            call(*[values[a] for a in args])
        return max(perf_counter() - begin, 1e-9)
