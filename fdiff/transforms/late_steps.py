"""Steps that few tapes need, imported late; reports of steps: docs/decisions/late-imports.md."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from ..hooks import Function
from ..primitive import Primitive
from ..process.environment import TAPES, dumped
from ..process.forking import late
from ..tape import Tape

# Called with the name of each step and what it gives: tests see the way taken.
WATCHERS: list[Callable[[str, Tape], object]] = []
IN_SWEEPS = {  # what `forward.py` and `reverse.py` do in a sweep of a tape that has calls or loops
    "open calls": "calls with rules stand beside what their rules compute",
    "open loops": "loops give what their reverse reads as further outputs",
    "close calls": "of opened calls, what their rules compute is left",
    "close loops": "loops hold no more how they are pulled back",
}


def report(step: str, tape: Tape, leaves: str = "", *, changed: bool = True) -> Tape:
    """The tape that a step gave, shown to watchers and, under ``FDIFF_DUMP=tapes``, on stderr."""
    if TAPES in dumped():
        text = tape if changed else "(unchanged)"
        sys.stderr.write(f"--- {step}: {leaves or IN_SWEEPS[step]}\n{text}\n")
    for watcher in WATCHERS:
        watcher(step, tape)
    return tape


def announce(steps: Sequence[str], tape: Tape) -> None:
    """Under ``FDIFF_DUMP=tapes``, tell what a list of steps begins with."""
    if TAPES in dumped():
        types = ", ".join(map(str, tape.input_types))
        sys.stderr.write(f"=== {', '.join(steps)}: of {len(tape)} nodes, inputs {types}\n")


def late_step(module: str, name: str) -> Function:
    """The function `name` of a module of this folder."""
    return late(module, __package__, name)


def step_where(
    ops: Sequence[Primitive], module: str, name: str, least: int = 1
) -> Callable[..., Tape]:
    """A `late_step` that returns tapes with fewer than `least` operands of `ops` unchanged."""
    step = late_step(module, name)

    def run(tape: Tape, *details: object, **options: object) -> Tape:
        operands = sum([len(node.args) for node in tape.nodes if node.primitive in ops])
        return tape if operands < least else step(tape, *details, **options)

    return run
