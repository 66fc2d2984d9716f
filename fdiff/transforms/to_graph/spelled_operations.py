"""Operations that no kernel computes, spelled in operations that kernels compute."""

from __future__ import annotations

from collections.abc import Callable

from ...tape import Builder, Node, Tape, rebuild
from ...trace import Trace, TracedArray


def spell_operations(tape: Tape) -> Tape:
    """The tape with such operations replaced by what `Lowering.spelled` gives for them."""
    places = [i for i, node in enumerate(tape.nodes) if node.primitive.lowering.spelled is not None]
    if not places:
        return tape
    with Trace("kernel", lines=False) as trace:
        replacements = {i: _spelling(trace, tape.nodes[i]) for i in places}
        return rebuild(tape, trace.builder, replacements)


def _spelling(trace: Trace, node: Node) -> Callable[[Builder, dict[int, int]], int]:
    def enter(builder: Builder, ids: dict[int, int]) -> int:
        assert node.primitive.lowering.spelled is not None
        args = [TracedArray(trace, ids[a], builder.type(ids[a])) for a in node.args]
        return trace.lift(node.primitive.lowering.spelled(*args, **dict(node.params)))

    return enter
