"""Plain Python loops are traced once: later iterations are compared with the first ones.

The words of this package. *Item*: one call of the user's code on traced arrays. *Period*: the
items of one iteration. *Template*: a period, with the places its handles come from. *Replay*: the
items of a template, run on the inputs of a trace of their own, which gives the body of a loop.
*Trip*: an iteration that is run. Its items are only compared with those of the template
(`checked_trips.py`), and make handles without nodes (`late_handles.py`). Where one differs, the
trips so far become a node of the tape, and the items of the trip that was cut short are run again.

Unlike what is cut out of an unrolled trace, a body from a replay does not depend on what load
forwarding and folding found out of its absolute positions.
"""

from __future__ import annotations

import os

from ..ordinary_trace import Trace
from .call_gates import install
from .call_log import CallLog

__all__ = ["begin"]


FEWEST = 3000  # calls of a loop that is worth a node


def begin(trace: Trace) -> None:
    """Log the calls of the user's code in a trace that begins.

    With ``FDIFF_LOOPS=check`` short loops become nodes as well.
    """
    if trace.lines and not trace.eager:
        install()
        trace.calls = CallLog(trace, 0 if os.environ.get("FDIFF_LOOPS") == "check" else FEWEST)
