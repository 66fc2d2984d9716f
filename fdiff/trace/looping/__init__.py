"""Plain Python loops are traced once: later iterations are compared with the first ones.

The words of this package. *Item*: one call of the user's code on traced arrays. *Period*: the
items of one iteration. *Template*: a period, with the places its handles come from. *Replay*: the
items of a template, run on the inputs of a trace of their own, which gives the body of a loop.
*Trip*: an iteration that is run. Its items are only compared with the template's items
(`checked_trips.py`), and make handles without nodes (`late_handles.py`). Where one differs, the
trips so far become a node of the tape, and the items of the trip that was cut short are run again.

Unlike what is cut out of an unrolled trace, a body from a replay does not depend on what load
forwarding and folding found out of its absolute positions: docs/decisions/plain-loops.md.
Compilers roll up straight code, an idea of R. C. O. Rocha et al., Loop Rolling, CGO 2022.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from ...foreign_errors import environment_value
from ...process.forking import late
from ..ordinary_trace import Trace
from ..recorder import NEVER, Loops, Recorder
from ..trace_stack import stack
from .call_gates import install
from .code_loops import NAP, loops_under_way, straight_rest

if TYPE_CHECKING:
    from .trip_counts import Prospects

SLEEP = 16  # nodes of a trace before the first look: a look costs as much as two nodes
FEWEST = 600  # calls of a loop that is worth a node
# Code without loops needs neither of them, code without long loops no log.
new_prospects = late("trip_counts", __package__, "Prospects")
start_log = late("log_beginning", __package__, "start_log")


def begin(trace: Trace) -> None:
    """Look for loops in the run of the user's code that begins, from node `SLEEP` on."""
    if not trace.lines or trace.eager:
        return
    install()
    trace.first_look = first_look
    trace.milestone = len(trace.builder.nodes) + SLEEP
    if not SLEEP:
        start_log(trace, _fewest(), awake=True)


def _fewest() -> int:
    """The calls of a loop that is worth a node; with ``FDIFF_LOOPS=check`` short ones are, too."""
    return 0 if environment_value("FDIFF_LOOPS") == "check" else FEWEST


def first_look(trace: Recorder, prospects: Prospects | None = None) -> None:
    """Begin the log of a trace if a loop of the user's may be worth it; if not, look again later.

    `prospects` saw the loops at earlier looks.
    """
    nodes, traces = len(trace.builder.nodes), stack.traces
    if not traces or traces[-1] is not trace:
        rest = NAP
    elif prospects is None and not loops_under_way(sys._getframe(1)):
        rest = straight_rest(nodes)
    else:
        seen: Prospects = prospects or new_prospects(_fewest())
        trace.first_look, prospects = partial(first_look, prospects=seen), seen
        rest = seen.rest(nodes, {})
    trace.milestone = nodes + rest
    if not rest:
        start_log(trace, _fewest(), prospects=prospects)
        if trace.calls is not None:
            trace.calls.look()


def note(trace: Recorder, loops: Loops) -> None:
    """Note the loops of a trace inside `trace`, if loops are looked for there."""
    if looks_for_loops(trace) and trace.calls is not None:
        trace.calls.note(loops)


def looks_for_loops(trace: Recorder) -> bool:
    """Whether loops are looked for in a trace, whose log of calls then begins."""
    if trace.calls is None and trace.milestone < NEVER:
        start_log(trace, _fewest())
    return trace.calls is not None
