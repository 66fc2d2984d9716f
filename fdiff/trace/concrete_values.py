"""Numbers and truth values that Python asks of traced arrays: the guards of a trace.

Guards: A. Gal et al., Trace-based just-in-time type specialization for dynamic languages, PLDI
2009, section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from ..errors import LeakError, TraceError
from .branching.guard_nodes import integer, truth
from .branching.memo_branches import is_denied_number
from .recorder import Handle, Recorder
from .trace_stack import current, stack

if TYPE_CHECKING:
    from .traced_array import TracedArray
    from .user_calls import ChoosingCalls

Number = TypeVar("Number", bool, int, float, complex)

# By the class of the number that Python asks for: gives the node of what it sees.
_SEEN: dict[object, Callable[[Recorder, int], int]] = {bool: truth, int: integer}


def asked(traced: Handle, kind: type[Number]) -> Number:
    """The number of class `kind` that Python asks of an array of one entry, a guard from now on."""
    trace = current(traced)
    node_id = trace.own(traced)
    of = _SEEN.get(kind)
    action = f"turned a traced array into a Python {kind.__name__}"
    try:
        if of is None and trace.guards.is_active(node_id):
            raise trace.fail(
                f"`f` {action}, which would drop its derivative.",
                "Use numpy functions (numpy.sin for math.sin), f-strings, or fdiff.stop_gradient.",
            )
        seen = node_id if of is None else of(trace, node_id)
        value = trace.guards.guard(seen, action).item()
        if kind is int and is_denied_number(trace, seen, value):
            value += 1
        return kind(value)
    except LeakError:
        raise
    except TraceError as error:
        # Whoever catches the error: plain code would have gone another way.
        trace.refused = trace.refused or error
        raise


def choosing(calls: object) -> ChoosingCalls | None:
    """The log of a loop's body that chooses its branches; None of other logs."""
    return cast("ChoosingCalls", calls) if hasattr(calls, "whole") else None


def whole(traced: TracedArray) -> object:
    """A number cut to an int: what ``int(x)`` gives, which stays traced in loops that choose."""
    log = choosing(stack.traces[-1].calls) if stack.traces else None
    number = None if log is None else log.whole(traced)
    return int(traced) if number is None else number
