"""A loop of several paths: its body is a switch: docs/decisions/plain-loops-that-branch.md."""

from __future__ import annotations

from collections.abc import Sequence

from ...arraytype import INT, ArrayType
from ...primitive import PRIMITIVES
from ...tape import Tape
from ..ordinary_trace import Trace
from .loop_template import LoopTemplate, Path, UnrolledError
from .questions import Question


def joined(bodies: Sequence[Tape]) -> Tape:
    """The body that runs one of several; which one, an entry of the last row tells."""
    with Trace("loop", lines=False) as trace:
        builder = trace.builder
        inputs = [builder.input(t) for t in bodies[0].input_types]
        path = builder.input(ArrayType((), INT))
        params = (("branches", tuple(bodies)),)
        node = builder.add(PRIMITIVES["switch"], (path, *inputs), params)
        return builder.finish(builder.results(node))


def check_prefixes(template: LoopTemplate) -> None:
    """Refuse paths that compute what they do alike in different ways: one may turn into another."""
    plan = template.plan
    assert plan is not None
    for a, first in enumerate(template.paths):
        for b, second in enumerate(template.paths[:a]):
            count = sum(
                isinstance(item.fn, Question) for item in first.items[: _alike(first, second) + 1]
            )
            segments = [plan.segments[n][:count] for n in (a, b)]
            asked = [plan.asked[n][:count] for n in (a, b)]
            nodes = [[(i, [step[1:] for step in steps]) for i, steps in s] for s in segments]
            if asked[0] != asked[1] or nodes[0] != nodes[1]:
                raise UnrolledError("its iterations compute the same in several ways")


def _alike(a: Path, b: Path) -> int:
    """How many items two paths share."""
    pairs = zip(a.items, b.items, strict=False)
    return next((k for k, (x, y) in enumerate(pairs) if x is not y), 0)
