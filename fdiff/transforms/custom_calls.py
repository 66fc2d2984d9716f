"""Calls of functions with user-defined derivative rules, as nodes of a tape.

`CALL` is one call. What it computes and its rules are tapes too (`CallRule`). Before a sweep
differentiates the node, `opened` puts what the rule computes forwards in its place, and after that
a node `RULED`, which gives the same values and has the user's derivative. When the sweep is done,
`closed` takes these nodes out. So a derivative is made of ordinary nodes, which are differentiated
again as any others. Checkpoints (`checkpoint_rules.py`) are not opened, and their derivatives are
calls. What is left is taken out by `inlined`, because kernels know nothing of calls. The two nodes
are our own: docs/decisions/checkpoints-are-calls.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..facets import Rules
from ..interpret import Interpreter
from ..lazy_attributes import cached_property
from ..named_tuples import NamedTuple
from ..primitive import ZERO, Primitive
from ..tape import ITEM, Builder, Node, Replacement, Tape, rebuild
from ..trace import TracedArray, TracedArrays, apply_many, current, splice
from .activity import reached
from .cotangent_masks import Bar
from .late_steps import late_step, report
from .simplify import Simplifier

entered = late_step("loops.bodies", "entered")


class Tangents(NamedTuple):
    """A rule as a tape ``(*residuals, *arguments, *dots) -> tangents``.

    It has a dot for each of the arguments `moving`, a tangent for each of the results `floating`.
    """

    tape: Tape
    moving: Sequence[int]
    floating: Sequence[int]


class CallRule:
    """The rule of a call: its computation and its derivatives.

    `forward` is a tape ``arguments -> (*results, *residuals)`` with results of the `types`. A rule
    that does not `open` stays a call in derivatives, and keeps no residuals. The nodes of a
    `checkpoint` may be put in place of the call.
    """

    opens = True
    checkpoint = False
    op: Primitive | None = None  # the user's operation that the call is
    batching: object = None  # the user's rule, a `functional.rules.batching_rules.BatchingRule`
    types: tuple[ArrayType, ...]
    forward: Tape

    @cached_property
    def value(self) -> Tape:
        """The tape that computes the results without residuals, and holds no calls."""
        return inlined(self.forward)

    @cached_property
    def run(self) -> Interpreter:
        """The interpreter of `value`."""
        return Interpreter(self.value)

    @property
    def transient(self) -> bool:
        """Whether the rule is kept no longer than its owner."""
        return self.forward.transient

    def pulled(
        self, residuals: TracedArrays, args: TracedArrays, bars: Sequence[object]
    ) -> list[Any]:
        """A cotangent of each argument; `ZERO` where there is none."""
        raise NotImplementedError

    def pushed(
        self, residuals: TracedArrays, args: TracedArrays, dots: Sequence[object]
    ) -> list[object]:
        """A tangent of each result; `ZERO` where there is none."""
        raise NotImplementedError

    def batched(self, mapped: tuple[bool, ...], size: int) -> CallRule:
        """The rule of the call for `size` elements, of the arguments that are `mapped`."""
        raise NotImplementedError

    def tangents(self) -> Tangents | None:
        """The pushforward as a tape; None where there is none."""
        return None


# Whether any call was ever recorded: without one, nobody looks for calls in tapes.
_recorded: list[bool] = []


def note_calls() -> None:
    """Record that tapes may hold calls from now on."""
    _recorded[:] = [True]


# --- the three kinds of nodes ---------------------------------------------------------------------


def _results(*types: ArrayType, rule: CallRule) -> tuple[ArrayType, ...]:
    return rule.types


def _run(*args: np.ndarray, rule: CallRule) -> object:
    outs = rule.run(*args)
    return outs[0] if len(rule.types) == 1 else tuple(outs)


def _residuals(args: TracedArrays, rule: CallRule) -> list[TracedArray]:
    return splice(rule.forward, args, current())[len(rule.types) :] if rule.opens else []


def _push_call(
    dots: Sequence[object], args: TracedArrays, outs: object, *, rule: CallRule
) -> list[object]:
    return rule.pushed(_residuals(args, rule), args, dots)


def _pull_call(
    bars: Sequence[object], args: TracedArrays, outs: object, *, rule: CallRule
) -> list[object]:
    """Cotangents; a checkpoint passes masks on, user-defined rules get none."""
    if not rule.opens:
        return rule.pulled((), args, bars)
    plain = [bar.value if isinstance(bar, Bar) else bar for bar in bars]
    cotangents = rule.pulled(_residuals(args, rule), args, plain)
    return [bar if bar is ZERO else Bar(bar) for bar in cotangents]


def _batch_call(
    args: TracedArrays, mapped: Sequence[bool], size: int, *, rule: CallRule
) -> list[TracedArray]:
    wide = rule.batched(tuple(map(bool, mapped)), size)
    return list(apply_many(CALL, *args, rule=wide))


CALL = Primitive(
    "custom_call", "call",
    Rules(_results, _run, _push_call, _pull_call, _batch_call, pulls_masks=True),
)  # fmt: skip


def _ruled_types(*types: ArrayType, rule: CallRule) -> tuple[ArrayType, ...]:
    return types[: len(rule.types)]


def _ruled_values(*args: np.ndarray, rule: CallRule) -> object:
    return args[0] if len(rule.types) == 1 else args[: len(rule.types)]


def _push_ruled(
    dots: Sequence[object], args: TracedArrays, outs: object, *, rule: CallRule
) -> list[object]:
    """Only the arguments of the call move its results, by the rule."""
    first = len(rule.forward.outputs)
    return rule.pushed(args[len(rule.types) : first], args[first:], dots[first:])


def _pull_ruled(
    bars: Sequence[object], args: TracedArrays, outs: object, *, rule: CallRule
) -> list[object]:
    first = len(rule.forward.outputs)
    return [*[ZERO] * first, *rule.pulled(args[len(rule.types) : first], args[first:], bars)]


def _no_slope(*_: object) -> list[object]:
    return [ZERO]


# The first arguments as they are: results, residuals, then the arguments of the call.
RULED = Primitive("ruled", "call", Rules(_ruled_types, _ruled_values, _push_ruled, _pull_ruled))
# An argument of a call where its forward tape reads it: no derivative passes there.
HELD = Primitive("held", "", Rules(lambda x: (x,), lambda x: x, _no_slope, _no_slope, flat=True))


# --- what is done to tapes ------------------------------------------------------------------------


def batching_calls(tape: Tape) -> list[int]:
    """The calls with a user-defined batching rule."""
    return [i for i in _calls(tape, CALL) if _rule(tape.nodes[i]).batching is not None]


def _calls(tape: Tape, primitive: Primitive) -> list[int]:
    if not _recorded:
        return []
    return [i for i, node in enumerate(tape.nodes) if node[0] is primitive]


def _rule(node: Node) -> CallRule:
    return node.param("rule")


def opened(tape: Tape, wrt: Sequence[int]) -> Tape:
    """The tape with each call that depends on the inputs `wrt` (positions) ready for a sweep."""
    calls = [i for i in _calls(tape, CALL) if _rule(tape.nodes[i]).opens]
    if not calls:
        return tape
    moves = reached(tape, {tape.inputs[k]: 1 for k in wrt})
    replacements: dict[int, Replacement] = {
        i: _opening(tape.nodes[i]) for i in calls if any(moves[a] for a in tape.nodes[i].args)
    }
    return report("open calls", rebuild(tape, Builder(), replacements)) if replacements else tape


def _opening(node: Node) -> Replacement:
    rule = _rule(node)

    def enter(builder: Builder, ids: dict[int, int]) -> int:
        operands = tuple([ids[a] for a in node.args])
        held = [builder.add(HELD, (g,)) for g in operands]
        inner = dict(zip(rule.forward.inputs, held, strict=True))
        outs = entered(rule.forward, builder, inner, rule.forward.outputs)
        return builder.add(RULED, (*outs, *operands), node.params, None, node.types)

    return enter


def closed(tape: Tape) -> Tape:
    """Undo `opened` in the tape that a sweep has returned."""
    ruled, held = set(_calls(tape, RULED)), _calls(tape, HELD)
    arguments = {i: _argument(tape.nodes[i], 0) for i in (*ruled, *held)}
    for i, node in enumerate(tape.nodes):
        if node[0] is ITEM and node.args[0] in ruled:
            arguments[i] = _argument(tape.nodes[node.args[0]], node.k)
    return report("close calls", rebuild(tape, Simplifier(), arguments)) if arguments else tape


def _argument(node: Node, k: int) -> Replacement:
    return lambda builder, ids: ids[node.args[k]]


def inlined(tape: Tape) -> Tape:
    """The tape with the nodes of each call in place of the call, in bodies of loops too."""
    if not _recorded:
        return tape
    tape = _inlined(tape, {i: _rule(tape.nodes[i]).value for i in _calls(tape, CALL)})
    held = {i for i, _, body in tape.bodies() if inlined(body) is not body}
    replacements: dict[int, Replacement] = {i: _with_bodies_inlined(tape.nodes[i]) for i in held}
    return rebuild(tape, Builder(), replacements) if replacements else tape


def _with_bodies_inlined(node: Node) -> Replacement:
    """How a node is entered whose bodies hold no calls."""

    def changed(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        return inlined(value) if isinstance(value, Tape) else value

    params = tuple([(name, changed(value)) for name, value in node.params])
    return lambda builder, ids: builder.add(
        node.primitive, tuple([ids[a] for a in node.args]), params, None, node.types
    )


def checkpoints_inlined(tape: Tape) -> Tape:
    """The tape with checkpoints replaced by what they compute, which has the same derivative."""
    rules = {i: _rule(tape.nodes[i]) for i in _calls(tape, CALL)}
    kept = {i: rule.forward for i, rule in rules.items() if rule.checkpoint}
    return _inlined(tape, {i: checkpoints_inlined(forward) for i, forward in kept.items()})


def batching_calls_shown(tape: Tape) -> Tape:
    """The tape without checkpoints around calls with a user-defined batching rule."""
    tapes: dict[int, Tape] = {}
    for i in _calls(tape, CALL):
        rule = _rule(tape.nodes[i])
        if rule.checkpoint and batching_calls(inner := batching_calls_shown(rule.forward)):
            tapes[i] = inner
    return _inlined(tape, tapes)


def own_calls_inlined(tape: Tape, rule: object, linear: int) -> Tape:
    """The tape with calls of a rule inlined, those that depend on the last `linear` inputs.

    The tape is linear in these inputs, and so is what its own rule computes from them.
    """
    moves = reached(tape, dict.fromkeys(tape.inputs[len(tape.inputs) - linear :], 1))
    own = [i for i in _calls(tape, CALL) if _rule(tape.nodes[i]) is rule]
    calls = [i for i in own if any(moves[a] for a in tape.nodes[i].args)]
    return _inlined(tape, {i: _rule(tape.nodes[i]).value for i in calls})


def _inlined(tape: Tape, calls: Mapping[int, Tape]) -> Tape:
    """The tape with some calls replaced by tapes."""
    if not calls:
        return tape
    replacements: dict[int, Replacement] = {}
    results: dict[int, list[int]] = {}
    for i, inner in calls.items():
        replacements[i] = _inlining(i, inner, tape.nodes[i], results)
    for i, node in enumerate(tape.nodes):
        if node[0] is ITEM and node.args[0] in replacements:
            replacements[i] = _result(node, results)
    return rebuild(tape, Simplifier(), replacements)


def _inlining(i: int, inner: Tape, node: Node, results: dict[int, list[int]]) -> Replacement:
    def enter(builder: Builder, ids: dict[int, int]) -> int:
        operands = dict(zip(inner.inputs, [ids[a] for a in node.args], strict=True))
        results[i] = entered(inner, builder, operands, inner.outputs)
        return results[i][0]

    return enter


def _result(node: Node, results: dict[int, list[int]]) -> Replacement:
    return lambda builder, ids: results[node.args[0]][node.k]
