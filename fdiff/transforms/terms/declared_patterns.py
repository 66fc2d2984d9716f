"""Calls of operations that declare where their Jacobians have entries (`fdiff.primitive`).

Before a sparse derivative is taken, each such call becomes one that keeps its pattern: its tangents
and cotangents are calls that are linear in their last arguments, and have patterns, too. So the
columns of one can be coloured, and a few products with vectors give all of its entries. What the
call computes is put in its place when the tape of the values is there. A few products for all
entries are an idea of A. R. Curtis, M. J. D. Powell and J. K. Reid, On the estimation of sparse
Jacobian matrices, J. Inst. Math. Appl. 13, 1974.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import fdiff.intact_numpy as np
from fdiff import intact_scipy

from ...ops.control.loop import LOOP
from ...ops.control.while_loop import WHILE
from ...primitive import ZERO
from ...tape import ITEM, Builder, Node, Replacement, Tape, rebuild
from ...trace import Trace, TracedArrays, apply_many
from ..checkpoint_rules import CheckpointRule
from ..cotangent_masks import Bar
from ..custom_calls import CALL
from ..loops.loop_pruning import prune_loops
from ..patterns.jacobian_pattern import pattern
from ..pipeline import COTANGENTS, INLINE_CHECKPOINTS, TANGENTS, derive
from .loop_patterns import EntriesOf, loop_patterns

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from ...trace.traced_array import Array

Pattern: TypeAlias = "csr_array | None"  # truth values, (size of the result, of the argument)


class DeclaredCall(CheckpointRule):
    """A call with one real result, and the pattern of its Jacobian for each argument.

    None is a pattern without zeros. The result is linear in the last `linear` arguments together.
    """

    def __init__(self, forward: Tape, patterns: Sequence[Pattern], linear: int = 0) -> None:
        super().__init__(forward)
        self.patterns, self.plain = tuple(patterns), len(patterns) - linear
        self._derived: dict[tuple[str, tuple[int, ...]], DeclaredCall] = {}

    def pushed(
        self, residuals: TracedArrays, args: TracedArrays, dots: Sequence[object]
    ) -> list[object]:
        """The tangent: this call for the arguments it is linear in, one more for all others."""
        plain = self.plain
        moving = tuple([k for k, dot in enumerate(dots[:plain]) if dot is not ZERO])
        parts: list[Array] = []
        if moving:
            rule = self._tangents(moving)
            parts += apply_many(CALL, *args, *[dots[k] for k in moving], rule=rule)
        if any(dot is not ZERO for dot in dots[plain:]):
            seeds = [
                np.zeros(a.shape, a.dtype) if dot is ZERO else dot
                for a, dot in zip(args[plain:], dots[plain:], strict=True)
            ]
            parts += apply_many(CALL, *args[:plain], *seeds, rule=self)
        return [sum(parts[1:], parts[0])]

    def pulled(
        self, residuals: TracedArrays, args: TracedArrays, bars: Sequence[object]
    ) -> list[object]:
        """A cotangent of each real argument, by a call for each."""
        (bar,) = bars
        if not isinstance(bar, Bar):
            return [ZERO] * len(args)
        return [
            Bar(apply_many(CALL, *args, bar.value, rule=self._cotangent(k))[0])
            if a.type.dtype.kind == "f"
            else ZERO
            for k, a in enumerate(args)
        ]

    def _tangents(self, moving: tuple[int, ...]) -> DeclaredCall:
        """The call ``(*arguments, *dots) -> tangent``.

        A row of it reads of an argument what that row of the result reads.
        """
        key = "tangents", moving
        if key not in self._derived:
            tape = derive(TANGENTS, self.forward, wrt=moving, of=(0,))
            patterns = [*self.patterns, *[self.patterns[k] for k in moving]]
            self._derived[key] = DeclaredCall(tape, patterns, len(moving))
        return self._derived[key]

    def _cotangent(self, k: int) -> DeclaredCall:
        """The call ``(*arguments, bar) -> cotangent of argument k``.

        Its entry for a column reads of an argument what the rows with that column read.
        """
        key = "cotangent", (k,)
        if key not in self._derived:
            tape = derive(COTANGENTS, self.forward, wrt=(k,), of=(0,))
            own = self.patterns[k]
            across = None if own is None else intact_scipy.sparse.csr_array(own.T)
            patterns = [None if across is None or p is None else across @ p for p in self.patterns]
            self._derived[key] = DeclaredCall(tape, [*patterns, across], 1)
        return self._derived[key]


def declared_pattern(node: Node, k: int) -> Pattern:
    """The pattern that a call declares for argument `k`; None where there is none."""
    if node.primitive is not CALL:
        return None
    rule = node.param("rule")
    if isinstance(rule, DeclaredCall):
        return rule.patterns[k]
    if rule.op is None or rule.op.structure.sparsity is None:
        return None
    there = pattern(rule.value, k)
    return None if there is None else intact_scipy.sparse.csr_array(there)


def with_declared_calls(tape: Tape, places: EntriesOf | None = None) -> Tape:
    """The tape without checkpoints, in which calls keep the patterns that they declare.

    So do loops, where `places` gives the entries of their bodies (`entry_places`): they are made
    calls.
    """
    tape = derive((INLINE_CHECKPOINTS,), tape)
    replacements: dict[int, Replacement] = {}
    for i, node in enumerate(tape.nodes):
        if node.primitive is CALL and (rule := _declared(tape, node)) is not None:
            replacements[i] = _entering(node.args, node, rule)
        elif places is not None and node.primitive in (LOOP, WHILE):
            replacements |= _loop_as_calls(tape, i, places)
    return rebuild(tape, Builder(), replacements) if replacements else tape


def _loop_as_calls(tape: Tape, i: int, places: EntriesOf) -> dict[int, Replacement]:
    """How the outputs of a loop are entered whose Jacobians have a pattern: by a call for each."""
    node = tape.nodes[i]
    patterns = loop_patterns(tape, node, places)
    if patterns is None:
        return {}
    first = int(node.primitive is LOOP)  # after the number of trips, which is a constant
    types = [tape.nodes[a].type for a in node.args[first:]]
    replacements: dict[int, Replacement] = {}
    items = [j for j, n in enumerate(tape.nodes) if n.primitive is ITEM and n.args[0] == i]
    for j in items or [i]:
        o = tape.nodes[j].k if items else 0
        if not node.types[o].floating or not any(map(_pays, patterns[o])):
            continue
        with Trace("jacobian", lines=False) as trace:
            trips = [tape.nodes[a].value for a in node.args[:first]]
            inputs = [trace.input(t) for t in types]
            outs = apply_many(node.primitive, *trips, *inputs, **dict(node.params))
            forward = prune_loops(trace.builder.finish([outs[o].id]))
        rule = DeclaredCall(forward, patterns[o])
        replacements[j] = _entering(node.args[first:], tape.nodes[j], rule)
    return replacements


def _pays(pattern: Pattern) -> bool:
    """Whether a pattern leaves out so much that products for its colours are worth while."""
    if pattern is None:
        return False
    rows, cols = cast("tuple[int, int]", pattern.shape)
    return 2 * pattern.nnz < rows * cols


def _declared(tape: Tape, node: Node) -> DeclaredCall | None:
    """The call with its patterns; None where it declares none, or is not real."""
    op = node.param("rule").op
    types = [tape.nodes[a].type for a in node.args]
    floats = [k for k, t in enumerate(types) if t.floating]
    if op is None or op.structure.sparsity is None or len(node.types) > 1:
        return None
    if any(t.dtype.kind == "c" for t in (node.type, *types)) or not node.type.floating:
        return None
    patterns = [declared_pattern(node, k) if k in floats else None for k in range(len(types))]
    if all(p is None for p in patterns):
        return None
    with Trace("jacobian", lines=False) as trace:
        outs = apply_many(CALL, *[trace.input(t) for t in types], **dict(node.params))
        forward = trace.builder.finish([out.id for out in outs])
    return DeclaredCall(forward, patterns)


def _entering(args: Sequence[int], node: Node, rule: DeclaredCall) -> Replacement:
    def enter(builder: Builder, ids: dict[int, int]) -> int:
        arguments = tuple([ids[a] for a in args])
        return builder.add(CALL, arguments, (("rule", rule),), None, node.types)

    return enter
