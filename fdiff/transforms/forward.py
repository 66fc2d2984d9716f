"""Forward mode: a tape that carries tangents beside its values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import Line
from ..primitive import ZERO
from ..process.progress import Stage
from ..tape import INPUT, ITEM, Node, Tape
from ..trace import Trace, TracedArray
from .apply_rules import push
from .rule_templates import pushes
from .simplify import Simplifier


def jvp(tape: Tape, wrt: Sequence[int]) -> Tape:
    """Tape of ``(*inputs, *dots) -> (*outputs, *output_dots)``, simplified.

    `wrt` are the positions of the inputs that move; there is one tangent for each, and one for
    each output, zeros where an output does not depend on them. The cost is a small multiple of
    the tape's (Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, section 3.1).
    """
    with Trace("jvp", lines=False, builder=Simplifier()) as trace, Stage(made=trace.builder.nodes):
        sweep = _ForwardSweep(tape, trace, [tape.inputs[k] for k in wrt])
        sweep.run()
        results = [sweep.values[o] for o in tape.outputs]
        return trace.builder.finish(results + [sweep.result(o) for o in tape.outputs])


class _ForwardSweep:
    """Tangents of the nodes of a tape, as ids of nodes in a trace, pushed forwards."""

    def __init__(self, tape: Tape, trace: Trace, moving: Sequence[int]) -> None:
        self.tape, self.trace = tape, trace
        self.builder: Simplifier = trace.builder  # type: ignore[assignment] - a transform's trace has this kind
        self.values = [-1] * len(tape.nodes)
        for i in tape.inputs:
            self.values[i] = self.builder.input(tape.nodes[i].type)
        self.dots = {i: self.builder.input(tape.nodes[i].type) for i in moving}
        self.parts: dict[int, dict[int, int]] = {}

    def run(self) -> None:
        """Enter each node, and its tangents behind it."""
        lines, values, dots, builder = self.tape.lines, self.values, self.dots, self.builder
        for i, node in enumerate(self.tape.nodes):
            primitive, args, params, types = node
            if primitive is INPUT:
                continue
            line = lines[i][0] if i in lines else None
            ids = tuple([values[a] for a in args])
            values[i] = builder.add(primitive, ids, params, line, types)
            if primitive is ITEM:
                if (dot := self.parts.get(args[0], {}).get(node.k)) is not None:
                    dots[i] = dot
            elif any(a in dots for a in args) and any(t.floating for t in types):
                self._push(i, node, line)

    def _push(self, i: int, node: Node, line: Line | None) -> None:
        """Tangents of the outputs of one node, by its template or by its rule."""
        nodes, values, dots, args = self.tape.nodes, self.values, self.dots, node.args
        outs = [values[i]] if len(node.types) == 1 else self._items(i, len(node.types))
        moving = tuple([a in dots for a in args])
        ids = [dots[a] for a in args if a in dots]
        first = len(ids)
        ids += [*[values[a] for a in args], *outs]
        types = tuple([nodes[a].types[0] for a in args])
        template = pushes.find(self.builder, node, moving, types, ids, first)
        found: list[int | None]
        if template is None:
            found = self._ask(node, outs, line)
        else:
            self.builder.splice(template.steps, ids, line)
            made = [ids[k] for k in template.outputs]
            found = [None if place is None else made[place] for place in template.targets]
        if len(node.types) > 1:
            self.parts[i] = {k: dot for k, dot in enumerate(found) if dot is not None}
        elif found[0] is not None:
            dots[i] = found[0]

    def _ask(self, node: Node, outs: Sequence[int], line: Line | None) -> list[int | None]:
        """The same by the rule itself."""
        trace, dots = self.trace, self.dots
        trace.line = line
        there = [self._traced(dots[a]) if a in dots else ZERO for a in node.args]
        args = [self._traced(self.values[a]) for a in node.args]
        pushed = push(node, there, args, [self._traced(i) for i in outs])
        return [None if dot is ZERO else trace.lift(dot) for dot in pushed]

    def result(self, o: int) -> int:
        """The tangent of an output."""
        if o in self.dots:
            return self.dots[o]
        return self.trace.lift(materialise(ZERO, self._traced(self.values[o])))

    def _traced(self, i: int) -> TracedArray:
        return TracedArray(self.trace, i, self.builder.nodes[i].types[0])

    def _items(self, i: int, count: int) -> list[int]:
        node = self.values[i]
        return [self.builder.add(ITEM, (node,), (("k", k),)) for k in range(count)]


def replay(trace: Trace, node: Node, values: dict[int, TracedArray]) -> tuple[TracedArray, ...]:
    """Enter `node` in `trace` once more; its outputs there."""
    node_id = trace.builder.add(
        node.primitive, tuple(values[a].id for a in node.args), node.params, trace.line, node.types
    )
    if len(node.types) == 1:
        return (TracedArray(trace, node_id, node.types[0]),)
    items = (
        trace.builder.add(ITEM, (node_id,), (("k", k),), trace.line) for k in range(len(node.types))
    )
    return tuple(TracedArray(trace, i, t) for i, t in zip(items, node.types, strict=True))


def replay_all(
    tape: Tape, trace: Trace, values: dict[int, TracedArray]
) -> dict[int, tuple[TracedArray, ...]]:
    """Replay the tape; fills `values` and gives every node's outputs."""
    outputs: dict[int, tuple[TracedArray, ...]] = {}
    for i, node in enumerate(tape.nodes):
        if node.primitive is INPUT:
            continue
        trace.line = tape.lines.get(i, (None,))[0]
        if node.primitive is ITEM:
            values[i] = outputs[node.args[0]][node.k]
        else:
            outputs[i] = replay(trace, node, values)
            values[i] = outputs[i][0]
    return outputs


def materialise(dot: object, like: TracedArray) -> object:
    """`dot` as an array shaped like the value it belongs to; zeros for `ZERO`."""
    if dot is not ZERO:
        return dot
    dtype = like.dtype if like.type.floating else np.dtype(np.float64)
    return np.zeros(like.shape, dtype)


def depends(tape: Tape, wrt: Sequence[int]) -> list[list[bool]]:
    """``depends[o][k]``: whether output `o` depends on input ``wrt[k]`` with a derivative.

    Dependence is that of the graph, not of values: ``x * 0`` depends on `x`, ``floor(x)`` does not.
    """
    sets: list[int] = []
    bit = {tape.inputs[k]: 1 << n for n, k in enumerate(wrt)}
    for i, node in enumerate(tape.nodes):
        mask = bit.get(i, 0)
        if any(t.floating for t in node.types) and not node.primitive.flat:
            for a in node.args:
                mask |= sets[a]
        sets.append(mask)
    return [[bool(sets[o] >> n & 1) for n in range(len(wrt))] for o in tape.outputs]
