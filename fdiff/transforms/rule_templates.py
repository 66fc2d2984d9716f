"""Rules of ops as templates: traced once for operands of given types, then spliced node by node.

What a rule does depends on the types of the operands, on parameters, and, where it asks for them,
on small constants among the operands. So it is traced into a small tape, whose nodes are entered
in place of the rule from then on.

Partial evaluation of rules for what is known of their operands (N. D. Jones, C. K. Gomard,
P. Sestoft, Partial Evaluation and Automatic Program Generation, 1993, chapter 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..arraytype import BOOL, ArrayType
from ..named_tuples import NamedTuple
from ..node import is_transient
from ..ops.entrywise.elementwise import absolute, square
from ..ops.entrywise.kink_marks import kink_search
from ..primitive import ZERO
from ..tape import Constant, Node, Tape, Types
from ..trace import Trace, TracedArray, TracedArrays
from ..trace.operation_cache import MOST, SMALL, Op, constants_among
from ..trace.template import Template
from ..user_lines import Line
from .apply_rules import pull, push, widen
from .cotangent_masks import Bar
from .resized_templates import Sizes, resizable, resized
from .simplify import Simplifier, SimplifyingTrace, simplify, spliceable

Ints = tuple[int, ...]
Constants = tuple[tuple[int, Constant], ...]  # by argument
Seeds = tuple[bool | None, ...]  # of each output: None without a cotangent, else whether masked
Targets = list[tuple[int, int, int | None]]  # argument, cotangent and mask among the results
TangentPositions = list[int | None]  # by output of a node; None where it does not move
Detail: TypeAlias = Any  # what is asked of a rule, or what its results are: its kind decides


class Rule(NamedTuple):
    """A kind of rule, as a function of traced arrays.

    ``ask(node, detail, seeds, args, outs)`` gives the results and their meanings; `detail` states
    the request. ``types(op, detail)`` are the types of the `seeds` (cotangents, then their masks;
    tangents) and of the outputs of the op, as far as the rule reads them.
    """

    call: str
    types: Callable[[Op, Detail], tuple[Sequence[ArrayType], Types]]
    ask: Callable[
        [Node, Detail, TracedArrays, TracedArrays, TracedArrays], tuple[list[object], Detail]
    ]

    def trace(self, op: Op, detail: Detail) -> tuple[Tape, Detail, bool]:
        """Tape of ``(*seeds, *arguments, *outputs) -> results``; what the results are; and whether
        the rule has asked for the value of a constant.
        """
        seeds, outs = self.types(op, detail)
        with Trace(self.call, lines=False) as trace:
            seed_inputs = [trace.input(t) for t in seeds]
            args = [trace.input(types[0]) for types in op.given]
            for k, constant in op.constants:
                args[k] = TracedArray(trace, trace.builder.constant(constant.array), op.given[k][0])
            node = Node(op.primitive, (), op.params, op.types)
            results, result = self.ask(
                node, detail, seed_inputs, args, [trace.input(t) for t in outs]
            )
            tape = trace.builder.finish([trace.lift(x) for x in results])
        return simplify(tape), result, trace.tainted


def pull_operands(bars: Sequence[tuple[object, object]]) -> tuple[Seeds, list[Any]]:
    """Seeds and operands of a reverse rule, from cotangents and masks of the outputs."""
    seeds = tuple([None if bar is None else mask is not None for bar, mask in bars])
    masks = [mask for _, mask in bars if mask is not None]
    return seeds, [bar for bar, _ in bars if bar is not None] + masks


def _types_of_pull(op: Op, detail: tuple[Seeds, object]) -> tuple[list[ArrayType], Types]:
    seeds = detail[0]
    bars = [t for t, s in zip(op.types, seeds, strict=True) if s is not None]
    masks = [ArrayType(t.shape, BOOL) for t, s in zip(op.types, seeds, strict=True) if s]
    return bars + masks, op.types


def _pull(
    node: Node,
    detail: tuple[Seeds, Sequence[bool]],
    seeds_and_masks: TracedArrays,
    args: TracedArrays,
    outs: TracedArrays,
) -> tuple[list[object], Targets]:
    """The reverse rule for some cotangents and the arguments that need one."""
    seeds, needed = detail
    remaining = iter(seeds_and_masks)
    there = [None if s is None else next(remaining) for s in seeds]
    masks = [next(remaining) if s else None for s in seeds]
    bars = [ZERO if x is None else Bar(x, m) for x, m in zip(there, masks, strict=True)]
    pulled = pull(node, bars, args, outs, needed)
    cotangents = [(k, bar) for k, bar in enumerate(pulled) if bar is not None]
    results: list[object] = [bar.value for _, bar in cotangents]
    targets: Targets = []
    for place, (k, bar) in enumerate(cotangents):
        targets.append((k, place, None if bar.mask is None else len(results)))
        results += [] if bar.mask is None else [bar.mask]
    return results, targets


def _types_of_push(op: Op, moving: Sequence[bool]) -> tuple[list[ArrayType], Types]:
    return [types[0] for types, m in zip(op.given, moving, strict=True) if m], op.types


def _push(
    node: Node, moving: Sequence[bool], dots: TracedArrays, args: TracedArrays, outs: TracedArrays
) -> tuple[list[object], TangentPositions]:
    """The forward rule where some of the arguments move."""
    remaining = iter(dots)
    pushed = push(node, [next(remaining) if m else ZERO for m in moving], args, outs)
    count = iter(range(len(pushed)))
    positions: TangentPositions = [None if dot is ZERO else next(count) for dot in pushed]
    return [dot for dot in pushed if dot is not ZERO], positions


def _batch(
    node: Node, axes: tuple[Sequence[bool], int], _: TracedArrays, args: TracedArrays,
    outs: TracedArrays,
) -> tuple[list[object], None]:  # fmt: skip
    """The batching rule, for the arguments that carry the axis and those that do not."""
    mapped, size = axes
    return [*widen(node, args, [bool(m) for m in mapped], size)], None


# What is known of a rule without a template: that it reads constants, or that sizes decide on it.
_READS, _FIXED = "reads", "fixed"
PATIENCE = 3  # times that a rule is asked before a template is made, which costs about as much


class RuleTemplates:
    """The templates of one kind of rule.

    What is asked of the rule ends with a size if it is `sized`. A template is made when a rule has
    been met often enough to pay for it, as with kernels (`dispatch/tiers/tiered_execution.py`).
    `known` are the templates for types as they are, `general` those for all sizes
    (`resized_templates.py`), with the sizes they were made for.
    """

    def __init__(self, rule: Rule, *, sized: bool = False) -> None:
        self.rule = rule
        self.sized = sized
        self.known: dict[object, Template | str] = {}
        self.general: dict[object, tuple[Template | str, Ints]] = {}
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
    ) -> Template | None:
        """The template for a node whose arguments have these `types`; None to ask the rule.

        `ids` are the operands: seeds, from the place `first` on the arguments of the node, and its
        outputs.
        """
        primitive, _, params, _ = node
        key: tuple[object, ...] = (primitive, params, detail, types)
        constant_ids, operands = builder.constants, ids[first : first + len(types)]
        some = not constant_ids.isdisjoint(operands)
        if some:
            key = (*key, *[k for k, a in enumerate(operands) if a in constant_ids])
        template = self.known.get(key)
        if template is None or template is _READS:
            constants = constants_among(builder.nodes, operands) if some else ()
            template = template or self._learn(node, key, constants, reads=False)
            if template is _READS:
                if any(c.array.size > SMALL for _, c in constants):
                    return None
                key = (*key, constants)
                template = self.known.get(key) or self._learn(node, key, constants, reads=True)
        if not isinstance(template, Template) or kink_search.on:
            return None
        for k in template.squared:
            if builder.nodes[ids[k]].primitive is absolute:
                return None
        return template

    def ask(
        self,
        trace: SimplifyingTrace,
        node: Node,
        detail: object,
        ids: list[int],
        first: int,
        line: Line | None,
    ) -> Template:
        """Enter the results by the rule, as further operands of a template without steps."""
        trace.line = line
        nodes, last, count = trace.builder.nodes, first + len(node.args), len(ids)
        handles = [TracedArray(trace, i, nodes[i].types[0]) for i in ids]
        results, result = self.rule.ask(
            node, detail, handles[:first], handles[first:last], handles[last:]
        )
        ids += [trace.lift(x) for x in results]
        return Template((), tuple(range(count, len(ids))), result)

    def _learn(
        self, node: Node, key: tuple[Any, ...], constants: Constants, *, reads: bool
    ) -> Template | str | None:
        """The template of a rule for these types, or why there is none; None if it is not made yet.

        It is made when the rule has been asked for these types more than `PATIENCE` times.
        """
        if is_transient(node.primitive, node.params) or node.primitive.rules.told_needs:
            return None  # such a rule keeps the tapes that it makes, and asks for the memory budget
        if len(self.known) + len(self.counts) >= MOST:
            self.forget()
        general, sizes = self._general(key) if node.primitive.structure.sizeless else (key, ())
        template, old = self.general.get(general, (None, ()))
        if isinstance(template, Template):
            template = template._replace(steps=resized(template.steps, old, sizes))
        if template is None or template is _FIXED:
            counted = key if template is _FIXED else general
            count = self.counts[counted] = self.counts.get(counted, 0) + 1
            if count <= PATIENCE:
                return None
            _, _, detail, types, *_ = key
            op = Op(
                node.primitive, node.params, tuple([(t,) for t in types]), constants, node.types
            )
            template = self._make(op, detail, reads=reads)
            if counted is general:
                spliced = isinstance(template, Template)
                fixed = spliced and not resizable(op.primitive, template.steps, sizes)
                self.general[general] = (_FIXED if fixed else template, sizes)
        self.known[key] = template
        return template

    def _general(self, key: tuple[Any, ...]) -> tuple[object, Ints]:
        """The key for all sizes, and the sizes that it leaves out."""
        primitive, params, detail, types, *constants = key
        sizes = Sizes()
        symbolic_types = sizes.types(types)
        params = sizes.params(params)
        if self.sized:
            *detail, size = detail
            detail = (*detail, sizes.shape((size,)))
        return (primitive, params, detail, symbolic_types, *constants), tuple(sizes.numbers)

    def _make(self, op: Op, detail: object, *, reads: bool) -> Template | str:
        """The template of a rule that `reads` the constants of the op, or may do so."""
        tape, result, tainted = self.rule.trace(op, detail)
        if op.constants and not reads:
            if tainted:
                return _READS
            free = Op(op.primitive, op.params, op.given, (), op.types)
            tape, result, _ = self.rule.trace(free, detail)
        template, count = spliceable(tape, result), len(tape.inputs)
        squared = {
            k for s in template.steps if s.primitive is square for k in s.places if k < count
        }
        return template._replace(squared=tuple(sorted(squared)))


pulls = RuleTemplates(Rule("vjp", _types_of_pull, _pull))
pushes = RuleTemplates(Rule("jvp", _types_of_push, _push))
batches = RuleTemplates(Rule("vmap", lambda op, detail: ((), ()), _batch), sized=True)


def forget() -> None:
    """Drop every template."""
    for templates in (pulls, pushes, batches):
        templates.forget()
