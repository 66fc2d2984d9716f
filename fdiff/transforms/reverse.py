"""Reverse mode: a tape that pulls cotangents back from outputs to inputs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import fdiff.intact_numpy as np

from ..arraytype import BOOL, ArrayType
from ..errors import TapeError
from ..ops.control.loop import LOOP
from ..ops.entrywise.elementwise import add, logical_not, logical_or, multiply, negative, square
from ..ops.rewrites.rewrite_context import SCALED
from ..ops.shapes.view_ops import spread
from ..primitive import ZERO, Primitive
from ..process.progress import Stage
from ..tape import CONSTANT, INPUT, ITEM, Node, Tape
from ..trace import TracedArray, derived_lines
from ..user_lines import Line
from .activity import reached
from .apply_rules import pull
from .cotangent_masks import Bar
from .custom_calls import closed, opened
from .late_steps import step_where
from .needless_masks import CertainEntries, Fragility
from .rule_templates import Seeds, Targets, pull_operands, pulls
from .simplify import SimplifyingTrace

# Kinds of nodes that `constant_factors.py` finds factors in.
_SCALED = (SCALED, negative.name, spread.name)
_PLAIN: Seeds = (False,)
_MASKED: Seeds = (True,)
opened_loops = step_where((LOOP,), "loops.loop_pullbacks", "opened_loops")
closed_loops = step_where((LOOP,), "loops.loop_pullbacks", "closed_loops")


def vjp(
    tape: Tape,
    wrt: Sequence[int],
    of: Sequence[int] | None = None,
    seeds: Sequence[np.ndarray] | None = None,
) -> Tape:
    """Tape of ``(*inputs, *bars) -> (*outputs, *input_bars)``, simplified.

    There is one cotangent for each floating output (or for those at the positions `of`), and one
    result for each input in `wrt`. Where the cotangents are known, as `seeds`, they are no inputs.
    Walks the nodes once, backwards: the work is at most a small multiple of the tape's, whatever
    the number of inputs (Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
    section 3.3).
    """
    outputs = range(len(tape.outputs)) if of is None else of
    tape = opened_loops(opened(tape, wrt), wrt, outputs, masked_vjp)
    with SimplifyingTrace("vjp") as trace, Stage(nodes=trace.builder.nodes):
        sweep = _ReverseSweep(tape, trace, [tape.inputs[k] for k in wrt])
        remaining = iter(seeds or ())
        for o in [tape.outputs[k] for k in outputs]:
            type_ = tape.nodes[o].type
            if type_.floating:
                seed = trace.lift(next(remaining)) if seeds is not None else trace.input(type_).node
                sweep.seed(o, seed)
        with Stage(counter=sweep.order):
            sweep.run()
        results = [sweep.values[o] for o in tape.outputs]
        results += [sweep.result(tape.inputs[k]) for k in wrt]
        return closed_loops(closed(trace.builder.finish(results)))


def textbook_vjp(tape: Tape, wrt: Sequence[int]) -> Tape:
    """The tape of `vjp` by the sweep of textbooks: the reference of `test_textbook_reverse.py`.

    Each node's rule is asked for the cotangents of its arguments, which are added up where an
    argument is used several times. What `_ReverseSweep` adds: it visits what moves with `wrt`,
    splices templates in place of rules, and keeps masks of entries that are certain to be zero.
    """
    nodes, bars = tape.nodes, dict[tuple[int, int], Any]()  # by node, and which of its outputs
    with SimplifyingTrace("vjp") as trace:
        values, builder = trace.builder.replay(tape), trace.builder

        def traced(ids: Sequence[int]) -> list[TracedArray]:
            return [TracedArray(trace, i, builder.nodes[i].type) for i in ids]

        def add_to(i: int, k: int, bar: object) -> None:
            bars[i, k] = bars[i, k] + bar if (i, k) in bars else bar

        for o in tape.outputs:
            if nodes[o].type.floating:
                add_to(o, 0, trace.input(nodes[o].type))
        for i in range(len(nodes) - 1, -1, -1):
            node = nodes[i]
            seeds = [bars.get((i, k)) for k in range(len(node.types))]
            if node.primitive in (INPUT, CONSTANT) or all(seed is None for seed in seeds):
                continue
            if node.primitive is ITEM:
                add_to(node.args[0], node.k, seeds[0])
                continue
            args = traced([values[a] for a in node.args])
            outs = traced(builder.results(values[i]))
            pulled = pull(
                node,
                [ZERO if seed is None else Bar(seed) for seed in seeds],
                args,
                outs,
                [x.type.floating for x in args],
            )
            for a, bar in zip(node.args, pulled, strict=True):
                if bar is not None:
                    add_to(a, 0, bar.value)
        ends = [(bars.get((tape.inputs[k], 0)), nodes[tape.inputs[k]].type) for k in wrt]
        cotangents = [trace.zeros(t) if bar is None else trace.lift(bar) for bar, t in ends]
        return builder.finish([*[values[o] for o in tape.outputs], *cotangents])


def masked_vjp(
    tape: Tape,
    wrt: Sequence[int],
    of: Sequence[int],
    masked: Sequence[int] | None = None,
    always: Sequence[int] | None = None,
) -> tuple[Tape, tuple[bool, ...]]:
    """The tape that `vjp` gives, with masks of cotangents; and which of the inputs have one.

    The outputs at the positions `masked` have a mask each, after all cotangents. So have results:
    the cotangent of an input is zero outside of its mask. The inputs at the positions `always` (at
    `masked` if not given) have a mask in any case. None gives the tape of `vjp`.
    """
    if masked is None:
        return vjp(tape, wrt, of), (False,) * len(wrt)
    tape = opened_loops(opened(tape, wrt), wrt, of, masked_vjp, beyond=True)
    with SimplifyingTrace("vjp") as trace:
        sweep = _ReverseSweep(tape, trace, [tape.inputs[k] for k in wrt], inner=True)
        sweep.fragile.beyond = True
        types = [tape.nodes[tape.outputs[k]].type for k in of]
        bars = [trace.input(t).node for t in types]
        places = [(k, t) for k, t in zip(of, types, strict=True) if k in masked]
        masks = {k: trace.input(ArrayType(t.shape, BOOL)).node for k, t in places}
        for k, bar in zip(of, bars, strict=True):
            sweep.seed(tape.outputs[k], bar, masks.get(k))
        sweep.run()
        ends = [tape.inputs[k] for k in wrt]
        end_masks = [sweep.masks.get(i) for i in ends]
        for n, (k, i) in enumerate(zip(wrt, ends, strict=True)):
            if k in (masked if always is None else always) and end_masks[n] is None:
                end_masks[n] = sweep.whole_mask(tape.nodes[i].type, i in sweep.bars)
        results = [sweep.values[o] for o in tape.outputs]
        results += [*map(sweep.result, ends), *[mask for mask in end_masks if mask is not None]]
        swept = closed_loops(closed(trace.builder.finish(results)))
        return swept, tuple([mask is not None for mask in end_masks])


def pull_back(
    tape: Tape, wrt: Sequence[int], seeds: Seeds, *, starts: bool = False
) -> tuple[Tape, list[int], Targets]:
    """A reverse sweep from some outputs, whose cotangents may have masks: see `Seeds`.

    Gives the tape of ``(*inputs, *cotangents, *masks) -> results``, from which nothing is pruned
    yet; the nodes of the outputs in it; and what each of the results is. If a mask `starts` at an
    input, the slopes of later operations may be infinite.
    """
    with SimplifyingTrace("backward") as trace:
        sweep = _ReverseSweep(tape, trace, [tape.inputs[k] for k in wrt], inner=True)
        sweep.fragile.beyond = starts
        seeded = [o for o, s in zip(tape.outputs, seeds, strict=True) if s is not None]
        masked = [o for o, s in zip(tape.outputs, seeds, strict=True) if s]
        bars = [trace.input(tape.nodes[o].type).node for o in seeded]
        masks = {o: trace.input(ArrayType(tape.nodes[o].type.shape, BOOL)).node for o in masked}
        for o, bar in zip(seeded, bars, strict=True):
            sweep.seed(o, bar, masks.get(o))
        sweep.run()
        results: list[int] = []
        targets: Targets = []
        for k in wrt:
            i = tape.inputs[k]
            has_cotangent = i in sweep.bars  # if not, it is zero, whatever its operands are
            mask = (
                sweep.masks.get(i) if has_cotangent else sweep.whole_mask(tape.nodes[i].type, False)
            )
            targets.append((k, len(results), None if mask is None else len(results) + 1))
            results += [sweep.result(i)] if mask is None else [sweep.result(i), mask]
        builder = trace.builder
        swept = Tape(tuple(builder.nodes), tuple(builder.inputs), tuple(results), builder.lines)
        return swept, [sweep.values[o] for o in tape.outputs], targets


class CotangentSums:
    """Cotangents as ids of nodes in a trace, added up while they are pulled backwards.

    `bars` holds them by what they belong to. One that has a mask is zero outside of it
    (`cotangent_masks.Bar`).
    """

    def __init__(self, trace: SimplifyingTrace) -> None:
        self.trace = trace
        self.builder = trace.builder
        self.bars: dict[Hashable, int] = {}
        self.masks: dict[Hashable, int] = {}
        self.certain = CertainEntries(trace.builder)

    def accumulate(self, a: Hashable, bar: int, mask: int | None, line: Line | None) -> None:
        """Add to the cotangent of a node; the mask of a sum is the union of the masks."""
        bars, masks = self.bars, self.masks
        before = bars.get(a)
        if before is None:
            bars[a] = bar
        else:
            bars[a] = self._combined(add, before, bar, line)
            old_mask = masks.pop(a, None) if masks else None
            if old_mask is None or mask is None or self._are_complementary(old_mask, mask):
                return
            if old_mask != mask:
                mask = self._combined(logical_or, old_mask, mask, line)
        if mask is not None and not self.certain.is_full(mask):
            masks[a] = self.certain.settled(mask)

    def whole_mask(self, type_: ArrayType, kept: bool) -> int:  # noqa: FBT001 - what the mask says
        """The mask that keeps all entries of a cotangent of this type, or none."""
        entry = self.builder.constant(np.asarray(kept))
        return (
            self.builder.add(spread, (entry,), (("shape", type_.shape),)) if type_.shape else entry
        )

    def _are_complementary(self, mask: int, other: int) -> bool:
        """Whether one of two masks is true where the other is not: the masks of both branches."""
        nodes = self.builder.nodes
        return any(
            nodes[i].primitive is logical_not and nodes[i].args == (j,)
            for i, j in ((mask, other), (other, mask))
        )

    def _combined(self, primitive: Primitive, a: int, b: int, line: Line | None) -> int:
        """The sum of two cotangents or masks of one type."""
        types = self.builder.nodes[a].types
        if self.builder.nodes[b].types != types:
            raise TapeError(f"cotangents of types {types} and {self.builder.nodes[b].types} met")
        return self.builder.add(primitive, (a, b), (), line, types)


class _ReverseSweep(CotangentSums):
    """Cotangents of the nodes of a tape, pulled backwards."""

    def __init__(
        self, tape: Tape, trace: SimplifyingTrace, wrt: Sequence[int], *, inner: bool = False
    ) -> None:
        super().__init__(trace)
        self.inner = inner  # cotangents of inputs are pulled further, so that their masks matter
        self.tape = tape
        self.values = self.builder.replay(tape)
        self.types = [node.types[0] for node in tape.nodes]
        self.wanted = reached(tape, dict.fromkeys(wrt, 1))
        self.fragile = Fragility(tape.nodes, self.wanted)
        self.value_of, self.type_of = self.values.__getitem__, self.types.__getitem__
        self.is_wanted = self.wanted.__getitem__
        self.parts: dict[int, dict[int, tuple[int, int | None]]] = {}
        self.order = iter(range(len(tape) - 1, -1, -1))  # progress asks how many are left

    def seed(self, i: int, bar: int, mask: int | None = None) -> None:
        """Set the initial cotangent of node `i`."""
        if self.wanted[i]:
            self.accumulate(i, bar, mask, None)

    def result(self, i: int) -> int:
        """The cotangent of an input."""
        if i in self.bars:
            return self.bars[i]
        return self.trace.zeros(self.tape.nodes[i].type)

    def run(self) -> None:
        """Walk the nodes backwards, leaving cotangents of the inputs."""
        nodes, lines, wanted = self.tape.nodes, self.tape.lines, self.wanted
        bars, masks, parts = self.bars, self.masks, self.parts
        self.builder.derivative = True
        for i in self.order:
            if not wanted[i] or (i not in bars and i not in parts):
                continue
            node = nodes[i]
            primitive = node[0]
            if primitive is multiply and node[1][0] == node[1][1]:
                node = self._as_square(node, bars.get(i))
            if primitive is INPUT:
                continue
            line = lines[i][0] if i in lines else None
            if i in parts:
                self._pull_parts(i, node, line)
                continue
            bar = bars.pop(i)
            mask = masks.pop(i, None) if masks else None
            if mask is None and primitive.structure.selects and self.fragile.of_any(node[1]):
                mask = self.whole_mask(node.type, True)
            if primitive is ITEM:
                parts.setdefault(node.args[0], {})[node.k] = bar, mask
            elif mask is None:
                self._pull(node, _PLAIN, [bar], [self.values[i]], line)
            else:
                self._pull(node, _MASKED, [bar, mask], [self.values[i]], line)

    def _as_square(self, node: Node, bar: int | None) -> Node:
        """``x * x`` as a square, where the cotangent has a constant factor to merge with 2.

        The slope of a square is ``2 * x``, the slope of the product the sum of two equal
        cotangents. Where there is no factor to merge, the sum is cheaper to differentiate again.
        """
        meets = bar is not None and self.builder.notable.get(bar) in _SCALED
        if not meets or node.type.dtype.kind != "f":
            return node
        return Node(square, node.args[:1], (), node.types)

    def _pull_parts(self, i: int, node: Node, line: Line | None) -> None:
        """Pull back through a node with several outputs, some of which have cotangents."""
        parts = self.parts.pop(i)
        if node.primitive.structure.selects and self.fragile.of_any(node.args):
            for k, (bar, mask) in parts.items():
                parts[k] = bar, self.whole_mask(node.types[k], True) if mask is None else mask
        seeds, operands = pull_operands(
            [parts.get(k, (None, None)) for k in range(len(node.types))]
        )
        self._pull(node, seeds, operands, self.builder.results(self.values[i]), line)

    def _pull(
        self,
        node: Node,
        seeds: Seeds,
        operands: list[int],
        outs: list[int],
        line: Line | None,
        argument: int | None = None,
    ) -> None:
        """Add the cotangents of the arguments of one node, or of one `argument` alone.

        `operands` are the cotangents of its outputs, then their masks. The rule is asked as in
        `textbook_vjp`; from the fourth time on, a template enters what the rule entered before. An
        argument with one reader takes its cotangent as it is, without a sum.
        """
        args = node[1]
        if derived_lines.wanted.on and argument is None:
            for k, a in enumerate(args):
                if self.wanted[a]:
                    derived = derived_lines.derived_line(line, node.primitive, "reverse", k)
                    self._pull(node, seeds, operands, outs, derived, k)
            return
        types: tuple[ArrayType, ...]
        if len(args) == 2:  # in half the time: it is asked of every node
            a, b = args
            ids = [*operands, self.values[a], self.values[b], *outs]
            types, needed = (self.types[a], self.types[b]), (self.wanted[a], self.wanted[b])
        else:
            ids = [*operands, *map(self.value_of, args), *outs]
            types, needed = (*map(self.type_of, args),), (*map(self.is_wanted, args),)
        if argument is not None:
            needed = (*[k == argument for k in range(len(args))],)
        detail, first = (seeds, needed), len(operands)
        template = pulls.find(self.builder, node, detail, types, ids, first)
        if template is None:
            template = pulls.ask(self.trace, node, detail, ids, first, line)
        steps, outputs, targets, _ = template
        if steps:
            self.builder.splice(steps, ids, line)
        bars = self.bars
        for k, place, masked in targets:
            if masked is None and args[k] not in bars:
                bars[args[k]] = ids[outputs[place]]
                continue
            mask = None if masked is None else ids[outputs[masked]]
            if mask is not None and not self.inner and not self.fragile.of_any(args[k : k + 1]):
                mask = None
            self.accumulate(args[k], ids[outputs[place]], mask, line)
