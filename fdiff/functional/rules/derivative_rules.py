"""Rules as tapes: of `custom_jvp` (`ForwardRule`) and of `custom_vjp` (`ReverseRule`).

The rule of `custom_jvp` gives outputs, and output tangents that are linear in the input tangents.
The rules of `custom_vjp` give outputs and residuals, and cotangents from residuals. Source: J.
Bradbury et al., JAX, 2018: entries ``jax.custom_jvp`` and ``jax.custom_vjp``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...dispatch.arguments import traceable
from ...errors import TraceError
from ...interpret import evaluate
from ...trace import ArgumentSpec, TracedArray, splice
from ...trace.handler_arguments import resolve
from ...transforms.derivative_tapes import bind, choose
from ...tree import flatten, unflatten
from .rule_results import RuleResults
from .rule_tracing import RuleTapes, RuleTracing, TracedRule, zeros
from .ruled_call import Handles, OutputLeaf, RuledCall


class ForwardRule(RuleTracing):
    """The rule of `custom_jvp`: outputs and output tangents, from primals and tangents."""

    def __init__(self, call: RuledCall, same: dict[tuple[int, int], int], extras: Handles) -> None:
        super().__init__(call, same, extras)
        self.check = RuleResults(self.name, call.rule.derivative or call.function.fun, "rule")

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
        """The pushforward of ``defjvps``: the sum of a tangent by each argument."""
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


class ReverseRule(RuleTracing):
    """The rules of `custom_vjp`: arguments to outputs and residuals, residuals to cotangents."""

    def __init__(self, call: RuledCall, same: dict[tuple[int, int], int], extras: Handles) -> None:
        super().__init__(call, same, extras)
        assert call.rule.forward is not None, "a pullback comes with a forward rule"
        assert call.rule.pullback is not None, "asked before"
        self.check = RuleResults(self.name, call.rule.forward, "forward rule")
        self.checked = RuleResults(self.name, call.rule.pullback, "backward rule")

    def tapes(self) -> RuleTapes:
        call = self.call
        forward = self.run(self._forward, call.inputs(), self._split)
        self.relies_on(forward, lambda: call.handles)
        residuals = self._residuals(forward)
        bars = [
            ArgumentSpec(out.type, out.scalar, active=True)
            for out in forward.outs
            if out.type is not None and out.floating
        ]
        backward = self.run(
            lambda arguments: self._backward(forward, arguments),
            [*residuals, *bars],
            lambda result: ((), self._cotangents(result), None),
        )
        self.relies_on(backward, lambda: self._spliced(forward))
        kept = [r.type for r in residuals]
        ahead = self.tape(forward, len(call.types), call.types, ())
        pulled = self.tape(backward, len(kept), [*kept, *call.types], forward.floating)
        return RuleTapes(ahead, pulled, self.extras, forward)

    def _forward(self, arguments: list[TracedArray]) -> object:
        self.stand_for(arguments, {h.id: k for k, h in enumerate(arguments)})
        return self.check.ask(self.call.with_leaves(arguments), "forward(*args)")

    def _split(self, result: object) -> tuple[object, Sequence[object], object]:
        out, residuals = self.check.pair(result, "output, residuals")
        leaves, spec = flatten(residuals)
        leaves = [*map(resolve, leaves)]
        traced = [x for x in leaves if isinstance(x, TracedArray)]
        kinds = [(x.scalar, x.weak) for x in traced]
        others = [None if isinstance(x, TracedArray) else (x,) for x in leaves]
        return out, traced, (spec, others, kinds)

    def _residuals(self, forward: TracedRule) -> list[ArgumentSpec]:
        """The specs by which the backward rule is traced on residuals, whose values it may ask."""
        tape, count = forward.recording.tape, len(forward.types)
        values_of_residuals: list[object] = []

        def value(k: int) -> Callable[[], np.ndarray]:
            def look() -> np.ndarray:
                if not values_of_residuals:
                    outside = [*self.call.handles, *forward.extra]
                    values = [h.home.guards.value(h.id, "looked at a residual") for h in outside]
                    values_of_residuals.extend(evaluate(tape, *map(np.asarray, values)))
                return np.asarray(values_of_residuals[k])

            return look

        return [
            ArgumentSpec(tape.output_types[count + k], scalar, weak, value(count + k), active=True)
            for k, (scalar, weak) in enumerate(forward.rest[2])
        ]

    def _backward(self, forward: TracedRule, arguments: list[TracedArray]) -> object:
        spec, others, kinds = forward.rest
        residuals, bars = arguments[: len(kinds)], arguments[len(kinds) :]
        tape, count = forward.recording.tape, len(forward.types)
        place = {o: k for k, o in enumerate(tape.inputs[: len(self.call.types)])}
        pairs = zip(residuals, tape.outputs[count:], strict=True)
        self.stand_for(residuals, {h.id: place[o] for h, o in pairs if o in place})
        arrays, seeds = iter(residuals), iter(bars)
        leaves = [next(arrays) if other is None else other[0] for other in others]
        bar = unflatten(forward.spec, [_seed(out, seeds) for out in forward.outs])
        nondiff = self.call.nondiff
        form = "backward(*nondiff, residuals, bar)" if nondiff else "backward(residuals, bar)"
        return self.checked.ask([*nondiff, unflatten(spec, leaves), bar], form)

    def _cotangents(self, result: object) -> list[object]:
        """The cotangents of the moving leaves, zeros where there is none."""
        call = self.call
        own = call.differentiable(call.handles)
        parts = zip(call.places, own, self.checked.tuple_of(result, len(own)), strict=True)
        wanted = lambda leaf: isinstance(leaf, TracedArray) and leaf.type.floating  # noqa: E731 - used once
        each = [
            self.checked.derivatives(arg, part, wanted, "a cotangent", f"argument {k}")
            for k, arg, part in parts
        ]
        types = [call.types[k] for k in call.moving]
        return [
            zeros(t) if bar is None else _conjugated(bar)
            for bar, t in zip(chain(*each), types, strict=True)
        ]

    def _spliced(self, forward: TracedRule) -> list[TracedArray]:
        """The residuals, and zeros for cotangents, as values of the trace around."""
        outs = splice(forward.recording.tape, [*self.call.handles, *forward.extra], self.trace)
        return [*outs[len(forward.types) :], *map(zeros, forward.floating)]


def _seed(out: OutputLeaf, bars: Iterator[TracedArray]) -> object:
    """The cotangent of a leaf of the output, as the user's rule gets it."""
    if out.floating:
        return _conjugated(next(bars))
    return None if out.type is None else np.zeros(out.type.shape)[()]


def _conjugated(bar: TracedArray) -> TracedArray:
    """Between cotangents of public calls and cotangents of tapes (`derivative_tapes.pullback`)."""
    if bar.type.dtype.kind != "c":
        return bar
    return cast("TracedArray", np.conjugate(bar))
