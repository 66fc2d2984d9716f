"""Derivative rules of ops for eager traces, which ask for the same again.

The tape of a rule (`rule_templates.py`) is run on values as a Python function, or entered node by
node where derivatives are to be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ...ops.view_ops import slices, unslice
from ...tape import CONSTANT, INPUT, Constant, Tape
from ...trace.eager_trace import EagerTrace
from ...trace.operation_cache import Op, caller, op_of
from ..batch import batch
from ..rule_templates import Seeds, pulled, pushed
from ..simplify import simplify

Slices = tuple[slice, ...]


class Pull:
    """The reverse rule of an op, for some of its arguments and some of its cotangents.

    ``run(*cotangents, *masks, *arguments, *outputs)`` gives a tuple; `targets` tells for each
    argument that gets a cotangent where that and its mask are in it, and, if it lies in an array
    of zeros, in which slices. With a `size`, cotangents and masks carry a leading axis.
    """

    __slots__ = ("run", "targets")

    def __init__(self, op: Op, seeds: Seeds, needed: tuple[bool, ...], size: int | None) -> None:
        tape, found, _ = pulled(op, (seeds, needed))
        given = sum(1 + s for s in seeds if s is not None)
        tape = _batched(tape, given, size)
        self.targets: list[tuple[int, int, int | None, Slices | None]]
        self.targets = [(*target, None) for target in found]
        outputs = list(tape.outputs)
        for k, (_, place, mask, _) in enumerate(self.targets):
            node = tape.nodes[outputs[place]]
            if mask is None and node.primitive is unslice:
                named: dict[str, Any] = dict(node.params)
                outputs[place] = node.args[0]
                sizes = tape.nodes[node.args[0]].type.shape
                within = slices(named["starts"], sizes, named["steps"])
                self.targets[k] = (*self.targets[k][:3], within)
        self.run = _function(Tape(tape.nodes, tape.inputs, tuple(outputs)))


class EnteredPull:
    """The same for ids: ``enter(trace, ids)`` enters the nodes of the rule."""

    __slots__ = ("steps", "targets")

    def __init__(self, op: Op, seeds: Seeds, needed: tuple[bool, ...]) -> None:
        tape, found, _ = pulled(op, (seeds, needed))
        self.targets = [(*target, None) for target in found]
        self.steps = _Steps(tape)

    def enter(self, trace: EagerTrace, ids: Sequence[int]) -> list[int]:
        return self.steps.enter(trace, ids)


class Push:
    """The forward rule of an op where some of its arguments move.

    ``run(*tangents, *arguments, *outputs)`` gives tangents of the outputs; `targets` tells for each
    output where in the tuple its tangent is, None where it does not move.
    """

    __slots__ = ("run", "targets")

    def __init__(self, op: Op, moving: tuple[bool, ...], size: int | None) -> None:
        tape, self.targets, _ = pushed(op, moving)
        self.run = _function(_batched(tape, sum(moving), size))


def _batched(tape: Tape, seeds: int, size: int | None) -> Tape:
    """The tape for `size` seeds at once; the first of its inputs are the seeds."""
    if size is None:
        return tape
    return simplify(batch(tape, [k < seeds for k in range(len(tape.inputs))], size))


def _function(tape: Tape) -> Callable[..., tuple[Any, ...]]:
    """A tape as a Python function of its inputs."""
    names: dict[str, Any] = {}
    body: list[str] = []
    uses = {a for node in tape.nodes for a in node.args} | set(tape.outputs)
    for i, node in enumerate(tape.nodes):
        if node.primitive is INPUT or i not in uses:
            continue
        args = [f"v{a}" for a in node.args]
        if node.primitive is CONSTANT:
            names[f"v{i}"] = node.primitive.evaluate(**dict(node.params))
        elif sign := node.primitive.eager.sign:
            body.append(f"    v{i} = {f' {sign} '.join(args)}")
        else:
            given = tuple(tape.nodes[a].types for a in node.args)
            names[f"f{i}"] = caller(node.primitive, node.params, given, node.types)
            body.append(f"    v{i} = f{i}({', '.join(args)})")
    inputs = ", ".join(f"v{i}" for i in tape.inputs)
    outputs = "".join(f"v{o}, " for o in tape.outputs)
    text = "\n".join([f"def rule({inputs}):", *body, f"    return ({outputs})"])
    exec(text, names)  # noqa: S102 - our own text
    return names["rule"]


class _Steps:
    """A tape as ops to be entered in place of its inputs."""

    __slots__ = ("inputs", "outputs", "size", "steps")

    def __init__(self, tape: Tape) -> None:
        nodes = tape.nodes
        self.inputs, self.outputs, self.size = tape.inputs, tape.outputs, len(nodes)
        self.steps: list[tuple[int, Op, tuple[int, ...]]] = []
        for i, node in enumerate(nodes):
            if node.primitive is CONSTANT:
                self.steps.append((i, Op(CONSTANT, node.params, (), (), node.types), ()))
            elif node.primitive is not INPUT:
                given = tuple([nodes[a].types for a in node.args])
                fixed = tuple(
                    [
                        (k, cast("Constant", nodes[a].params[0][1]))
                        for k, a in enumerate(node.args)
                        if nodes[a].primitive is CONSTANT
                    ]
                )
                op = op_of(node.primitive, node.params, given, fixed)
                self.steps.append((i, op, node.args))

    def enter(self, trace: EagerTrace, ids: Sequence[int]) -> list[int]:
        """Enter them for operands `ids`; ids of the outputs."""
        place = [0] * self.size
        for i, given in zip(self.inputs, ids, strict=True):
            place[i] = given
        enter = trace.builder.enter
        for i, op, args in self.steps:
            place[i] = enter(op, tuple([place[a] for a in args]))
        return [place[o] for o in self.outputs]
