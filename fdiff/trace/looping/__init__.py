"""Plain Python loops are traced once: later iterations are compared with the first ones.

The words of this package. *Item*: one call of the user's code on traced arrays. *Period*: the
items of one iteration. *Template*: a period, with the places its handles come from. *Replay*: the
items of a template, run on the inputs of a trace of their own, which gives the body of a loop.
*Trip*: an iteration that is run. Its items are only compared with the template's items
(`checked_trips.py`), and make handles without nodes (`late_handles.py`). Where one differs, the
trips so far become a node of the tape, and the items of the trip that was cut short are run again.

Unlike what is cut out of an unrolled trace, a body from a replay does not depend on what load
forwarding and folding found out of its absolute positions: docs/decisions/plain-loops.md.
Compilers roll up straight code: R. C. O. Rocha et al., Loop Rolling, CGO 2022.
"""

from __future__ import annotations

import sys

from ...process.forking import late
from ..ordinary_trace import Trace
from ..recorder import NEVER, Loops, Recorder
from ..trace_stack import stack
from .call_gates import install
from .code_loops import NAP, loops_under_way, straight_rest

SLEEP = 16  # nodes of a trace before the first look: a look costs as much as two nodes
start_log = late("beginning", __package__, "start_log")  # which code without loops does not need


def begin(trace: Trace) -> None:
    """Look for loops in the run of the user's code that begins, from node `SLEEP` on."""
    if not trace.lines or trace.eager:
        return
    install()
    trace.first_look = first_look
    trace.milestone = len(trace.builder.nodes) + SLEEP
    if not SLEEP:
        start_log(trace, awake=True)


def first_look(trace: Recorder) -> None:
    """Begin the log of a trace if the user's code is in a loop; if not, look again later."""
    nodes, traces = len(trace.builder.nodes), stack.traces
    if not traces or traces[-1] is not trace:
        trace.milestone = nodes + NAP
    elif loops_under_way(sys._getframe(1)):
        start_log(trace)
        if trace.calls is not None:
            trace.calls.look()
    else:
        trace.milestone = nodes + straight_rest(nodes)


def note(trace: Recorder, loops: Loops) -> None:
    """Note the loops of a trace inside `trace`, if loops are looked for there."""
    if looks_for_loops(trace) and trace.calls is not None:
        trace.calls.note(loops)


def looks_for_loops(trace: Recorder) -> bool:
    """Whether loops are looked for in a trace, whose log of calls then begins."""
    if trace.calls is None and trace.milestone < NEVER:
        start_log(trace)
    return trace.calls is not None
