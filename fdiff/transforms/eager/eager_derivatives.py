"""Derivatives where the forward pass has computed every value: for one call of a function.

Cotangents are pulled backwards, and tangents pushed forwards, through the nodes of an eager trace
by the rules of their ops (`eager_rules.py`), as values, or as further nodes of the trace where
they are to be differentiated themselves.

Forward and reverse mode, node by node: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed.,
SIAM 2008, sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import fdiff.intact_numpy as np

from ...ops.entrywise.elementwise import add, logical_or
from ...tape import ITEM
from ...trace.eager.eager_trace import EagerTrace
from ...trace.operation_cache import STORES_ENTRIES, Op
from ...trace.template import Places
from ..rule_templates import Seeds, pull_operands
from .cotangents import Cotangents, EagerValue
from .eager_rules import Flags, PullTargets, pull_function, pull_template, push_function
from .eager_scalar_rules import enter_pull_store, pull_store, push_store, scalar_pull

Numbered = Mapping[int, object]  # values, by the numbers of their nodes


def pull_values(
    trace: EagerTrace, bars: Numbered, wrt: Sequence[int], size: int | None = None
) -> list[EagerValue]:
    """Cotangents of the nodes `wrt`, from the cotangents of other nodes; None where there is none.

    With a `size`, all of them carry a leading axis of that length.
    """
    with np.errstate(all="ignore"):
        return PullSweep(trace, size).run(bars, wrt)


def enter_gradient(trace: EagerTrace, out: int, wrt: Sequence[int]) -> list[int | None]:
    """Nodes of the gradients of node `out`, which has one element, entered in the trace."""
    type_ = trace.builder.nodes[out].type
    unit_seed = trace.builder.constant(np.ones(type_.shape, type_.dtype))
    with np.errstate(all="ignore"):
        return EnteredPullSweep(trace, None).run({out: unit_seed}, wrt)


def push_values(
    trace: EagerTrace, dots: Numbered, outs: Sequence[int | None], size: int | None = None
) -> list[EagerValue]:
    """Tangents of the nodes `outs`, from other tangents; None where a node does not move."""
    builder = trace.builder
    every, ops, values, active = builder.args, builder.ops, builder.values, builder.active
    tangents: list[object] = [None] * len(ops)
    parts: dict[int, list[EagerValue]] = {}
    for i, dot in dots.items():
        tangents[i] = dot
    with np.errstate(all="ignore"):
        for i in range(max([o for o in outs if o is not None], default=-1) + 1):
            if not active[i] or tangents[i] is not None:
                continue
            op, args = ops[i], every[i]
            if op.primitive is ITEM:
                if args[0] in parts:
                    tangents[i] = parts[args[0]][op.params[0][1]]
                continue
            operand_tangents = [tangents[a] for a in args]
            active_args = tuple([dot is not None for dot in operand_tangents])
            if True not in active_args:
                continue
            if op.scalar_rule == STORES_ENTRIES:
                tangents[i] = push_store(op, operand_tangents, size)
                continue
            rule = op.rules.get((active_args, size, "push"))
            if rule is None:
                rule = op.rules[active_args, size, "push"] = push_function(op, active_args, size)
            several = len(op.types) > 1
            outputs: EagerValue = values[i] if several else (values[i],)
            operand_tangents = [dot for dot in operand_tangents if dot is not None]
            run, targets = rule
            pushed = run(*operand_tangents, *[values[a] for a in args], *outputs)
            pushed_parts = [None if place is None else pushed[place] for place in targets]
            if several:
                parts[i] = pushed_parts
            else:
                tangents[i] = pushed_parts[0]
    return [None if o is None else tangents[o] for o in outs]


class PullSweep(Cotangents):
    """The nodes of a trace, walked backwards."""

    def run(self, seeds: Numbered, wrt: Sequence[int]) -> list[EagerValue]:
        every, ops, active = self.builder.args, self.builder.ops, self.active
        bars, parts, kept = self.bars, self.parts, set(wrt)
        for i, bar in seeds.items():
            if active[i]:
                bars[i] = bar
        for i in range(max(seeds, default=-1), -1, -1):
            bar = bars[i]
            if (bar is None and i not in parts) or i in kept:
                continue
            op, args = ops[i], every[i]
            if op.scalar_rule and self._pull_scalar(i, op, args, bar):
                pass
            elif op.primitive is ITEM:
                mask = self.masks.pop(i, None)
                parts.setdefault(args[0], {})[op.params[0][1]] = bar, mask
            else:
                if op.primitive.structure.selects and (mask := self.mask_of(i, args)) is not None:
                    self.masks[i] = mask
                self._pull(i, op, args, tuple([active[a] for a in args]))
            bars[i] = None
        return [bars[i] for i in wrt]

    def _pull_scalar(self, i: int, op: Op, args: tuple[int, ...], bar: object) -> bool:
        """Pull back through a node of single numbers; False if it needs the general rule."""
        if op.scalar_rule == STORES_ENTRIES:
            pull_store(self, i, op, args)
            return True
        if self.masks and i in self.masks:
            if self.size is not None:
                return False
            if not self.masks.pop(i):
                return True
        rule = op.rules.get("scalar")
        if rule is None:
            rule = op.rules["scalar"] = scalar_pull(op)
        rule(self, i, args, bar)
        return True

    def _pull(self, i: int, op: Op, args: tuple[int, ...], needed: tuple[bool, ...]) -> None:
        """Pull back through one node; the common case has one output, and no masks."""
        if self.masks or len(op.types) > 1:
            self._pull_general(i, op, args, needed)
            return
        rule = op.rules.get((needed, self.size))
        if rule is None:
            rule = op.rules[needed, self.size] = pull_function(op, (False,), needed, self.size)
        run, targets = rule
        values = self.builder.values
        results = run(self.bars[i], *[values[a] for a in args], values[i])
        for k, place, mask, within in targets:
            self.accumulate(
                args[k], results[place], None if mask is None else results[mask], within
            )

    def _pull_general(
        self, i: int, op: Op, args: tuple[int, ...], needed: tuple[bool, ...]
    ) -> None:
        parts = self.parts.pop(i, None)
        if parts is None:
            bars = [(self.bars[i], self.masks.pop(i, None))]
        else:
            bars = [parts.get(k, (None, None)) for k in range(len(op.types))]
        seeds, operands = pull_operands(bars)
        results, targets = self._apply(i, op, args, operands, seeds, needed)
        for k, place, mask, within in targets:
            self.accumulate(
                args[k], results[place], None if mask is None else results[mask], within
            )

    def _apply(
        self, i: int, op: Op, args: Places, seeds: list[object], flags: Seeds, needed: Flags
    ) -> tuple[Sequence[object], PullTargets]:
        """The results of the rule of a node, and which operand each of them is a cotangent of."""
        rule = op.rules.get((flags, needed, self.size))
        if rule is None:
            rule = pull_function(op, flags, needed, self.size)
            op.rules[flags, needed, self.size] = rule
        values: list[EagerValue] = self.builder.values
        outs = (values[i],) if len(op.types) == 1 else values[i]
        run, targets = rule
        return run(*seeds, *[values[a] for a in args], *outs), targets


class EnteredPullSweep(PullSweep):
    """A reverse sweep whose cotangents are nodes of the trace, so that they are differentiable."""

    def _pull_scalar(self, i: int, op: Op, args: tuple[int, ...], bar: object) -> bool:
        if op.scalar_rule != STORES_ENTRIES:
            return False
        enter_pull_store(self, i, op, args)
        return True

    def _pull(self, i: int, op: Op, args: tuple[int, ...], needed: tuple[bool, ...]) -> None:
        self._pull_general(i, op, args, needed)

    def _apply(
        self, i: int, op: Op, args: Places, seeds: list[EagerValue], flags: Seeds, needed: Flags
    ) -> tuple[Sequence[object], PullTargets]:
        rule = op.rules.get((flags, needed, "enter"))
        if rule is None:
            rule = op.rules[flags, needed, "enter"] = pull_template(op, flags, needed)
        ids = [*seeds, *args, *self.builder.results(i)]
        self.builder.splice(rule.steps, ids)
        return [ids[o] for o in rule.outputs], rule.result

    def all_entries(self, i: int) -> int:
        return self.builder.constant(super().all_entries(i))

    def _add(self, a: int, b: int) -> int:
        return self.builder.add(add, (a, b))

    def _either(self, a: int, b: int) -> int:
        return a if a == b else self.builder.add(logical_or, (a, b))
