"""Variables that hold a Python float at first, and numbers of single precision from then on.

In ``t = 0.0`` and then ``t = t + s``, where `s` is of single precision, the first `t` adapts to
`s`. The body of a loop gets a view of the carry of single precision, which is as weak as a float of
Python's. Where each operation converts the view to single precision, the two cannot be told apart.

See docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...primitive import PRIMITIVES
from ...trace import Trace, TracedArray, apply
from .variables import FLOAT, SINGLE, PathRun, RefusedLoopError, Variable

_CONVERT = PRIMITIVES["convert"]
_REASON = "a Python number becomes one of single precision"


def views_of(variables: Sequence[Variable], inputs: Sequence[object]) -> list[object]:
    """The values that a body gets for its inputs: weak views of those that are narrow."""
    return [
        apply(_CONVERT, x, scalar=True, weak=True, dtype=FLOAT.dtype)
        if v.narrow and isinstance(x, TracedArray)
        else x
        for v, x in zip(variables, inputs, strict=True)
    ]


def check_views(
    trace: Trace, variables: Sequence[Variable], views: Sequence[object], runs: Sequence[PathRun]
) -> None:
    """Refuse operations that tell a Python float from one of single precision."""
    narrow = [k for k, v in enumerate(variables) if v.narrow]
    nodes = {h.node for k in narrow if isinstance(h := views[k], TracedArray)}
    for node in trace.builder.nodes:
        converts = node.primitive is _CONVERT and node.types[0].dtype == SINGLE.dtype
        if not (converts or nodes.isdisjoint(node.args)):
            raise RefusedLoopError(_REASON)
    for run in runs:
        others = [(run.inputs[k], v) for k in narrow for j, v in enumerate(run.values) if j != k]
        if any(value is own for own, value in others):
            raise RefusedLoopError(_REASON)
