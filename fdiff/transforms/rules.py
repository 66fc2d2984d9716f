"""Derivative rules of ops, each traced once: for eager traces, which ask for the same again.

What a rule does depends on the types of the arguments alone. It is traced into a small tape, which
is then run on values as a Python function, or entered node by node where derivatives are to be
differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arraytype import BOOL, ArrayType
from ..ops.shaping import slices
from ..primitive import ZERO
from ..tape import CONSTANT, INPUT, Node, Tape
from ..trace import Trace, TracedArray
from ..trace.eager import EagerTrace
from ..trace.opkinds import INFIX, Op, caller, op_of
from .batch import batch
from .forward import push
from .reverse import Bar, pull
from .simplify import simplify

Seeds = tuple[bool | None, ...]  # of each output: None without a cotangent, else whether masked
Slices = tuple[slice, ...]


class Pull:
    """The reverse rule of an op, for some of its arguments and some of its cotangents.

    ``run(*cotangents, *masks, *arguments, *outputs)`` gives a tuple; `targets` tells for each
    argument that gets a cotangent where that and its mask are in it, and, if it lies in an array
    of zeros, in which slices. With a `size`, cotangents and masks carry a leading axis.
    """

    __slots__ = ("run", "targets")

    def __init__(self, op: Op, seeds: Seeds, needed: tuple[bool, ...], size: int | None) -> None:
        tape, self.targets = _pulled(op, seeds, needed, size)
        outputs = list(tape.outputs)
        for k, (_, place, mask, _) in enumerate(self.targets):
            node = tape.nodes[outputs[place]]
            if mask is None and node.primitive.name == "unslice":
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
        tape, self.targets = _pulled(op, seeds, needed, None)
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
        with Trace("jvp", lines=False) as trace:
            dots = [trace.input(t[0]) if m else ZERO for t, m in zip(op.given, moving, strict=True)]
            args, outs = _arguments(trace, op)
            found = push(Node(op.primitive, (), op.params, op.types), dots, args, outs)
            there = [dot for dot in found if dot is not ZERO]
            tape = trace.builder.finish([trace.lift(dot) for dot in there])
        count = iter(range(len(there)))
        self.targets = [None if dot is ZERO else next(count) for dot in found]
        self.run = _function(_batched(tape, sum(moving), size))


Targets = list[tuple[int, int, int | None, Slices | None]]


def _pulled(
    op: Op, seeds: Seeds, needed: tuple[bool, ...], size: int | None
) -> tuple[Tape, Targets]:
    """The tape of a reverse rule, and which of its outputs belong to which argument."""
    given = [(t, s) for t, s in zip(op.types, seeds, strict=True) if s is not None]
    with Trace("vjp", lines=False) as trace:
        bars = iter([trace.input(t) for t, _ in given])
        masks = iter([trace.input(ArrayType(t.shape, BOOL)) for t, masked in given if masked])
        plain = [ZERO if s is None else Bar(next(bars), next(masks) if s else None) for s in seeds]
        args, outs = _arguments(trace, op)
        pulled = pull(Node(op.primitive, (), op.params, op.types), plain, args, outs, needed)
        found = [(k, bar) for k, bar in enumerate(pulled) if bar is not None]
        there = [b.value for _, b in found] + [b.mask for _, b in found if b.mask is not None]
        tape = trace.builder.finish([trace.lift(x) for x in there])
    masked = len(found)
    targets: Targets = []
    for place, (k, bar) in enumerate(found):
        targets.append((k, place, None if bar.mask is None else masked, None))
        masked += bar.mask is not None
    return _batched(tape, len(given) + sum(s for _, s in given if s), size), targets


def _arguments(trace: Trace, op: Op) -> tuple[list[TracedArray], list[TracedArray]]:
    """Inputs for the arguments of an op that are no small constants, and for its outputs."""
    args = [trace.input(types[0]) for types in op.given]
    for k, constant in op.constants:
        args[k] = TracedArray(trace, trace.builder.constant(constant.array), op.given[k][0])
    return args, [trace.input(t) for t in op.types]


def _batched(tape: Tape, seeds: int, size: int | None) -> Tape:
    """The tape for `size` seeds at once; the first of its inputs are the seeds."""
    tape = simplify(tape)
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
        elif (sign := INFIX.get(node.primitive.name)) is not None:
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
                        (k, nodes[a].params[0][1])
                        for k, a in enumerate(node.args)
                        if nodes[a].primitive is CONSTANT
                    ]
                )
                op = op_of(node.primitive, node.params, given, fixed)  # type: ignore[arg-type]
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
