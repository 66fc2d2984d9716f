"""The profiler's records of a public call: the call, and the look-up of its variant."""

from __future__ import annotations

import sys
from types import FrameType

import fdiff.intact_numpy as np

from ...dispatch.arguments import Function
from ...dispatch.program import Program
from ...dispatch.variant import Variant
from ...errors import called
from ...process import observation
from ...process.observation import CACHE, CALL, DISPATCH, TRACE, Observer, Span
from ...trace import tracing
from ...tree import flatten
from ...user_lines import Line, is_internal

DEEPEST = 64  # lines of the user's code that a call is shown with


def observed_call(
    program: Program, f: Function, args: tuple[object, ...], kwargs: dict[str, object]
) -> Span:
    """An open span for a public call; of a call inside a trace, which is recorded there."""
    seen = observation.observer or Observer(())  # the last profile may just have ended
    inner = tracing()
    name = called(program.name, f)
    leaves = flatten((args, kwargs))[0] if seen.shapes else ()
    shapes = [list(getattr(leaf, "shape", ())) for leaf in leaves]
    span = seen.begin(name, TRACE if inner else CALL, shapes, device=program.device)
    if seen.stack and not inner:
        span.lines = user_stack()
    return span


def observed_find(
    program: Program, f: Function, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[Variant, list[np.ndarray]]:
    """`Program.find` with a span around it, and a mark whether it had to trace."""
    around = observation.innermost()
    before = {id(v) for variants in [*program.variants.values()] for v in variants}
    with observation.span("find variant", DISPATCH):
        variant, arrays = program.find(f, args, kwargs)
    observation.mark(f"variant: {'hit' if id(variant) in before else 'miss'}", CACHE)
    if around is not None:
        around.tape = variant.tape
        around.args["variant"] = "eager" if variant.eager is not None else "traced"
    return variant, arrays


def user_stack() -> tuple[Line, ...]:
    """The lines under way in the user's frames, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    lines: list[Line] = []
    while frame is not None and len(lines) < DEEPEST:
        if not is_internal(frame.f_code.co_filename):
            lines.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(lines)
