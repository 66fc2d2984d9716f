"""The rule of `custom_jvp` as tapes: outputs, and output tangents that are linear in the input
tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...dispatch.arguments import traceable
from ...errors import TraceError
from ...trace import ArgumentSpec, TracedArray
from ...trace.handler_arguments import resolve
from ...tracebacks import line_of
from ...transforms.custom_rules import Site
from ...transforms.derivative_tapes import bind, choose
from ...tree import flatten
from .rule_results import RuleResults
from .rule_tracing import RuleTapes, RuleTracing, zeros
from .ruled_call import Handles, RuledCall


class ForwardRule(RuleTracing):
    """The rule of `custom_jvp`: outputs and output tangents, from primals and tangents."""

    pulls = False

    def __init__(self, call: RuledCall, same: dict[tuple[int, int], int], extras: Handles) -> None:
        super().__init__(call, same, extras)
        slopes = [slope for slope in call.rule.slopes if slope is not None]
        rule = call.rule.pushforward or (slopes or [call.function.fun])[0]
        self.site = Site(self.name, line_of(rule))
        self.check = RuleResults(self.name, rule, "rule")

    def tapes(self) -> RuleTapes:
        call = self.call
        dots = [ArgumentSpec(call.types[k], active=True) for k in call.moving]
        seeds = [t.type for t in dots]
        run = self.run(self._pushed, [*call.inputs(), *dots], self._split)
        self.relies_on(run, lambda: [*call.handles, *map(zeros, seeds)])
        whole = self.tape(run, len(call.types), call.types, seeds)
        count, first = len(run.types), len(whole.inputs) - len(seeds)
        value = choose(whole, range(count))
        users = value.users()
        if any(users[k] for k in value.inputs[first:]):
            fact = "gives an output that depends on the tangents."
            raise self.check.error(TraceError, fact, "Compute it from the arguments alone.")
        unread = {first + k: np.zeros(t.shape, t.dtype) for k, t in enumerate(seeds)}
        pushed = choose(whole, range(count, len(whole.outputs)))
        return RuleTapes(bind(value, unread), pushed, self.extras, run)

    def _pushed(self, arguments: list[TracedArray]) -> object:
        call, count = self.call, len(self.call.types)
        self.stand_for(arguments[:count], {h.id: k for k, h in enumerate(arguments[:count])})
        primals = call.differentiable(arguments[:count])
        tangents = call.tangents(arguments[count:])
        if call.rule.slopes:
            return self._added_up(primals, tangents)
        form = "rule(*nondiff, primals, tangents)" if call.nondiff else "rule(primals, tangents)"
        return self.check.ask([*call.nondiff, primals, tangents], form)

    def _added_up(self, primals: tuple[object, ...], tangents: tuple[object, ...]) -> object:
        """The pushforward of `defjvps`: the sum of a tangent by each argument."""
        call = self.call
        out = call.function(*primals)
        total: Any = None
        for slope, dot in zip(call.rule.slopes, tangents, strict=True):
            if slope is not None and dot is not None:
                rule = RuleResults(self.name, slope, "rule")
                term = rule.ask([dot, out, *primals], "rule(dot, out, *args)")
                total = term if total is None else total + term
        return out, total

    def _split(self, result: object) -> tuple[object, Sequence[object], object]:
        out, tangent = self.check.pair(result, "output, tangent")
        leaves = [resolve(leaf) for leaf in flatten(out)[0]]
        types = [out_type(leaf) for leaf in leaves if traceable(leaf) and out_type(leaf).floating]
        wanted = lambda leaf: traceable(leaf) and out_type(leaf).floating  # noqa: E731 - used once
        dots = self.check.derivatives(out, tangent, wanted, "a tangent", "the output")
        return (
            out,
            [x if x is not None else zeros(t) for x, t in zip(dots, types, strict=True)],
            None,
        )


def out_type(leaf: object) -> ArrayType:
    """The type of a number or array that a function returned."""
    if isinstance(leaf, TracedArray):
        return leaf.type
    array = np.asarray(leaf)
    return ArrayType(array.shape, array.dtype.newbyteorder("="))
