"""Numbers and truth values that Python asks of traced arrays: the guards of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import LeakError, TraceError
from .branching.guard_nodes import integer, truth
from .branching.memo_branches import is_denied_number
from .recorder import Handle, Recorder
from .trace_stack import current

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
