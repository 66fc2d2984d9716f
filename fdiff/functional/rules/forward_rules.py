"""The rule of `custom_jvp` as tapes: outputs, and output tangents that are linear in the input
tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...dispatch.arguments import Function, traceable
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
        function: Any = call.function
        self.rule: Function | None = function.rule
        self.slopes: tuple[Function | None, ...] = function.slopes
        shown = self.rule or next(s for s in self.slopes if s)
        self.site = Site(self.name, line_of(shown))
        self.check = RuleResults(self.name, shown, "rule")

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
        if self.rule is not None:
            form = (
                "rule(*nondiff, primals, tangents)" if call.nondiff else "rule(primals, tangents)"
            )
            return self.check.ask([*call.nondiff, primals, tangents], form)
        return self._added_up(primals, tangents)

    def _added_up(self, primals: tuple[object, ...], tangents: tuple[object, ...]) -> object:
        """What `defjvps` means: a tangent by each argument, added up."""
        function: Any = self.call.function
        out = function(*primals)
        total: object = None
        for slope, dot in zip(self.slopes, tangents, strict=True):
            if slope is not None and dot is not None:
                check = RuleResults(self.name, slope, "rule")
                part = check.ask([dot, out, *primals], "rule(dot, out, *args)")
                total = part if total is None else cast("Any", total) + part
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
