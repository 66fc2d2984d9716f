"""Forward mode: a tape that carries tangents beside its values."""

from __future__ import annotations

from collections.abc import Sequence

from ..process.progress import Stage
from ..tape import ITEM, Node, Tape
from ..trace import derived_lines
from ..user_lines import Line
from .custom_calls import closed, opened
from .rule_templates import pushes
from .simplify import SimplifyingTrace


def jvp(tape: Tape, wrt: Sequence[int]) -> Tape:
    """Tape of ``(*inputs, *dots) -> (*outputs, *output_dots)``, simplified.

    `wrt` are the positions of the inputs that move; there is one tangent for each, and one for
    each output, zeros where an output does not depend on them. The cost is a small multiple of
    the tape's (Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008, section 3.1).
    """
    tape = opened(tape, wrt)
    with SimplifyingTrace("jvp") as trace, Stage(nodes=trace.builder.nodes):
        sweep = _ForwardSweep(tape, trace, [tape.inputs[k] for k in wrt])
        sweep.run()
        results = [sweep.values[o] for o in tape.outputs]
        results += [sweep.result(o) for o in tape.outputs]
        return closed(trace.builder.finish(results))


class _ForwardSweep:
    """Tangents of the nodes of a tape, as ids of nodes in a trace, pushed forwards."""

    def __init__(self, tape: Tape, trace: SimplifyingTrace, moving: Sequence[int]) -> None:
        self.tape, self.trace = tape, trace
        self.builder = trace.builder
        self.values = [-1] * len(tape.nodes)
        for i in tape.inputs:
            self.values[i] = self.builder.input(tape.nodes[i].type)
        self.dots = {i: self.builder.input(tape.nodes[i].type) for i in moving}
        self.parts: dict[int, dict[int, int]] = {}

    def run(self) -> None:
        """Enter each node, followed by its tangents."""
        values, dots, builder = self.values, self.dots, self.builder
        for i, node, line in self.tape.operations():
            primitive, args, params, types = node
            ids = tuple([values[a] for a in args])
            values[i] = builder.add(primitive, ids, params, line, types)
            if primitive is ITEM:
                if (dot := self.parts.get(args[0], {}).get(node.k)) is not None:
                    dots[i] = dot
            elif any(a in dots for a in args) and any(t.floating for t in types):
                self._push(i, node, line)

    def _push(self, i: int, node: Node, line: Line | None) -> None:
        """Tangents of the outputs of one node."""
        nodes, values, dots, args = self.tape.nodes, self.values, self.dots, node.args
        if derived_lines.wanted.on:
            line = derived_lines.derived_line(line, node.primitive, "forward")
        outs = self.builder.results(values[i])
        moving = tuple([a in dots for a in args])
        ids = [dots[a] for a in args if a in dots]
        first = len(ids)
        ids += [*[values[a] for a in args], *outs]
        types = tuple([nodes[a].types[0] for a in args])
        template = pushes.find(self.builder, node, moving, types, ids, first)
        if template is None:
            template = pushes.ask(self.trace, node, moving, ids, first, line)
        self.builder.splice(template.steps, ids, line)
        outputs = template.outputs
        results = [None if place is None else ids[outputs[place]] for place in template.result]
        if len(node.types) > 1:
            self.parts[i] = {k: dot for k, dot in enumerate(results) if dot is not None}
        elif results[0] is not None:
            dots[i] = results[0]

    def result(self, o: int) -> int:
        """The tangent of an output."""
        if o in self.dots:
            return self.dots[o]
        return self.trace.zeros(self.tape.nodes[o].type)
