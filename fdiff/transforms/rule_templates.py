"""Rules of ops as templates: traced once for operands of given types, then spliced node by node.

What a rule does depends on the types of the operands, on parameters, and, where it asks for them,
on small constants among the operands. So it is traced into a small tape, whose nodes are entered
in place of the rule from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from ..arraytype import BOOL, ArrayType
from ..ops.elementwise import absolute, square
from ..ops.kink_marks import kink_search
from ..primitive import ZERO
from ..tape import CONSTANT, Constant, Node, Tape
from ..trace import Trace, TracedArray
from ..trace.operation_cache import MOST, SMALL, Op
from .apply_rules import Bar, pull, push, widen
from .simplify import Simplifier, Step, simplify, steps_of
from .template_sizes import Sizes, resizable, resized

Types = tuple[ArrayType, ...]
Ints = tuple[int, ...]
Constants = tuple[tuple[int, Constant], ...]  # by argument
Seeds = tuple[bool | None, ...]  # of each output: None without a cotangent, else whether masked
Targets = list[tuple[int, int, int | None]]  # argument, cotangent and mask among the outputs
Places = list[int | None]  # of each output of a node its tangent, None where it does not move


class Traced(NamedTuple):
    """A rule as a tape, what its outputs are, and whether it asked for the value of a constant."""

    tape: Tape
    targets: Any
    tainted: bool


def pulled(op: Op, detail: tuple[Seeds, Sequence[bool]]) -> Traced:
    """The reverse rule for some cotangents and the arguments that need one.

    The inputs are the cotangents, their masks, the arguments and the outputs; `Targets` tells what
    the outputs are.
    """
    seeds, needed = detail
    given = [(t, s) for t, s in zip(op.types, seeds, strict=True) if s is not None]
    with Trace("vjp", lines=False) as trace:
        values = iter([trace.input(t) for t, _ in given])
        masks = iter([trace.input(ArrayType(t.shape, BOOL)) for t, masked in given if masked])
        plain = [
            ZERO if s is None else Bar(next(values), next(masks) if s else None) for s in seeds
        ]
        args, outs = _arguments(trace, op), [trace.input(t) for t in op.types]
        node = Node(op.primitive, (), op.params, op.types)
        bars = pull(node, plain, args, outs, needed)
        found = [(k, bar) for k, bar in enumerate(bars) if bar is not None]
        there = [b.value for _, b in found] + [b.mask for _, b in found if b.mask is not None]
        tape = trace.builder.finish([trace.lift(x) for x in there])
    masked = len(found)
    targets: Targets = []
    for place, (k, bar) in enumerate(found):
        targets.append((k, place, None if bar.mask is None else masked))
        masked += bar.mask is not None
    return Traced(simplify(tape), targets, trace.tainted)


def pushed(op: Op, moving: Sequence[bool]) -> Traced:
    """The forward rule where some of the arguments move.

    The inputs are the tangents, the arguments and the outputs; `Places` tells what the outputs are.
    """
    with Trace("jvp", lines=False) as trace:
        dots = [trace.input(t[0]) if m else ZERO for t, m in zip(op.given, moving, strict=True)]
        args, outs = _arguments(trace, op), [trace.input(t) for t in op.types]
        found = push(Node(op.primitive, (), op.params, op.types), dots, args, outs)
        there = [dot for dot in found if dot is not ZERO]
        tape = trace.builder.finish([trace.lift(dot) for dot in there])
    count = iter(range(len(there)))
    places: Places = [None if dot is ZERO else next(count) for dot in found]
    return Traced(simplify(tape), places, trace.tainted)


def batched(op: Op, detail: tuple[Sequence[bool], int]) -> Traced:
    """The batching rule; the arguments of the op are those that carry the axis or do not."""
    mapped, size = detail
    with Trace("vmap", lines=False) as trace:
        node = Node(op.primitive, (), op.params, op.types)
        outs = widen(node, _arguments(trace, op), [bool(m) for m in mapped], size)
        tape = trace.builder.finish([trace.lift(out) for out in outs])
    return Traced(simplify(tape), None, trace.tainted)


def _arguments(trace: Trace, op: Op) -> list[TracedArray]:
    """Inputs for the arguments of an op; its constants for those that are."""
    args = [trace.input(types[0]) for types in op.given]
    for k, constant in op.constants:
        args[k] = TracedArray(trace, trace.builder.constant(constant.array), op.given[k][0])
    return args


class RuleTemplate(NamedTuple):
    """A rule to be spliced: `outputs` are places among the operands and the steps.

    `squared` are the operands it squares: the square of an absolute value is an op of its own.
    """

    steps: list[Step]
    outputs: tuple[int, ...]
    targets: Any
    squared: tuple[int, ...]


# What is known of a rule without a template: that it reads constants, or that sizes decide on it.
_READS, _FIXED = "reads", "fixed"
PATIENCE = 3  # times that a rule is asked before a template is made, which costs about as much


class RuleTemplates:
    """The templates of one kind of rule.

    ``trace(op, detail)`` traces the rule; `detail` says what is asked of it, and ends with a size
    if it is `sized`. A template is made when a rule has been met often enough to pay for it, as
    with kernels (`dispatch/tiered_execution.py`). `known` are the templates for types as they are,
    `general` those for all sizes (`template_sizes.py`), with the sizes they were made for.
    """

    def __init__(self, trace: Callable[[Op, Any], Traced], *, sized: bool = False) -> None:
        self.trace = trace
        self.sized = sized
        self.known: dict[object, RuleTemplate | str] = {}
        self.general: dict[object, tuple[RuleTemplate | str, Ints]] = {}
        self.counts: dict[object, int] = {}  # how often a rule was met without a template

    def forget(self) -> None:
        """Drop every template."""
        for memory in (self.known, self.general, self.counts):
            memory.clear()

    def find(
        self,
        builder: Simplifier,
        node: Node,
        detail: object,
        types: Types,
        ids: list[int],
        first: int,
    ) -> RuleTemplate | None:
        """The template for a node whose arguments have these `types`; None to ask the rule.

        `ids` are the operands, from the place `first` on the arguments of the node.
        """
        primitive, _, params, _ = node
        key: tuple[object, ...] = (primitive, params, detail, types)
        known, given = builder.constants, ids[first : first + len(types)]
        some = not known.isdisjoint(given)
        if some:
            key = (*key, *[k for k, a in enumerate(given) if a in known])
        found = self.known.get(key)
        if found is None or found is _READS:
            constants = _constants(builder, given) if some else ()
            found = found or self._met(node, key, constants, reads=False)
            if found is _READS:
                if any(c.array.size > SMALL for _, c in constants):
                    return None
                key = (*key, constants)
                found = self.known.get(key) or self._met(node, key, constants, reads=True)
        if not isinstance(found, RuleTemplate) or kink_search.on:
            return None
        for k in found.squared:
            if builder.nodes[ids[k]].primitive is absolute:
                return None
        return found

    def _met(
        self, node: Node, key: tuple[Any, ...], constants: Constants, *, reads: bool
    ) -> RuleTemplate | str | None:
        """What is known from now on of a rule met for these types: None until that pays."""
        if len(self.known) + len(self.counts) >= MOST:
            self.forget()
        general, sizes = self._general(key) if node.primitive.sizeless else (key, ())
        found, old = self.general.get(general, (None, ()))
        if isinstance(found, RuleTemplate):
            steps, outputs, targets, squared = found
            found = RuleTemplate(resized(steps, old, sizes), outputs, targets, squared)
        if found is None or found is _FIXED:
            counted = key if found is _FIXED else general
            count = self.counts[counted] = self.counts.get(counted, 0) + 1
            if count <= PATIENCE:
                return None
            _, _, detail, types, *_ = key
            op = Op(
                node.primitive, node.params, tuple([(t,) for t in types]), constants, node.types
            )
            found = self._learnt(op, detail, reads=reads)
            if counted is general:
                made = isinstance(found, RuleTemplate)
                fixed = made and not resizable(op.primitive, found.steps, sizes)
                self.general[general] = (_FIXED if fixed else found, sizes)
        self.known[key] = found
        return found

    def _general(self, key: tuple[Any, ...]) -> tuple[object, Ints]:
        """The key for all sizes, and the sizes that it leaves out."""
        primitive, params, detail, types, *constants = key
        sizes = Sizes()
        given = sizes.types(types)
        params = sizes.params(params)
        if self.sized:
            *detail, size = detail
            detail = (*detail, sizes.shape((size,)))
        return (primitive, params, detail, given, *constants), tuple(sizes.numbers)

    def _learnt(self, op: Op, detail: object, *, reads: bool) -> RuleTemplate | str:
        """The template of a rule that `reads` the constants of the op, or may do so."""
        traced = self.trace(op, detail)
        if op.constants and not reads:
            if traced.tainted:
                return _READS
            traced = self.trace(Op(op.primitive, op.params, op.given, (), op.types), detail)
        steps, outputs = steps_of(traced.tape)
        given = len(traced.tape.inputs)
        squared = {k for s in steps if s.primitive is square for k in s.places if k < given}
        return RuleTemplate(steps, outputs, traced.targets, tuple(sorted(squared)))


def _constants(builder: Simplifier, arguments: list[int]) -> Constants:
    nodes = builder.nodes
    return tuple(
        [
            (k, cast("Constant", nodes[a].params[0][1]))
            for k, a in enumerate(arguments)
            if nodes[a].primitive is CONSTANT
        ]
    )


pulls = RuleTemplates(pulled)
pushes = RuleTemplates(pushed)
batches = RuleTemplates(batched, sized=True)


def forget() -> None:
    """Drop every template."""
    for templates in (pulls, pushes, batches):
        templates.forget()
