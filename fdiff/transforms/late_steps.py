"""Steps that few tapes need: their modules are imported when one is first taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..primitive import Primitive
from ..process.forking import late
from ..tape import Tape


def late_step(module: str, name: str) -> Callable[..., Any]:
    """The function `name` of a module of this folder."""
    return late(module, __package__, name)


def step_where(
    ops: Sequence[Primitive], module: str, name: str, least: int = 1
) -> Callable[..., Tape]:
    """The same of a function that changes no tape with fewer than `least` operands of `ops`."""
    step = late_step(module, name)

    def run(tape: Tape, *details: object, **options: object) -> Tape:
        operands = sum([len(node.args) for node in tape.nodes if node.primitive in ops])
        return tape if operands < least else step(tape, *details, **options)

    return run
