"""The profiler's records of a public call: the call, and the look-up of its variant."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING

from ...errors import called
from ...process import observed_spans
from ...process.observed_spans import CACHE, CALL, DISPATCH, TRACE, Observer
from ...trace import tracing
from ...tree import flatten
from ...user_lines import Line, is_internal
from .stage_functions import find_variant

if TYPE_CHECKING:
    from .operator_call import OperatorCall

DEEPEST = 64  # lines of the user's code that are shown for a call


def observed(call: OperatorCall) -> object:
    """The result of a call, in a span; inside a trace, in a span of that trace."""
    seen = observed_spans.observer or Observer(())  # the last profile may just have ended
    inner = tracing()
    leaves = flatten((call.args, call.kwargs))[0] if seen.shapes else ()
    shapes = [list(getattr(leaf, "shape", ())) for leaf in leaves]
    public, category = called(call.name, call.f), TRACE if inner else CALL
    with seen.begin(public, category, shapes, device=call.device) as span:
        if seen.stack and not inner:
            span.lines = user_stack()
        return call.go_on()


def observed_find(call: OperatorCall) -> object:
    """Find the variant of a call in a span, and mark whether it had to be traced."""
    around = observed_spans.innermost()
    before = {id(v) for variants in [*call.program.variants.values()] for v in variants}
    with observed_spans.span("find variant", DISPATCH):
        find_variant(call)
    variant = call.variant
    assert variant is not None, "the stage has just found it"
    observed_spans.mark(f"variant: {'hit' if id(variant) in before else 'miss'}", CACHE)
    if around is not None:
        around.tape = variant.traced.tape
        around.args["variant"] = "eager" if variant.traced.eager is not None else "traced"
    return call


def user_stack() -> tuple[Line, ...]:
    """The lines under way in the user's frames, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    lines: list[Line] = []
    while frame is not None and len(lines) < DEEPEST:
        if not is_internal(frame.f_code.co_filename):
            lines.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(lines)
