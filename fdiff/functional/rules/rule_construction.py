"""A call of a function with rules inside a trace: one node of the tape, which holds the rules.

A rule that calls its own function, as ``def fwd(x): return f(x), x`` does, is traced twice: first
with the body of the function in place of that call, to learn which outside values both read; then
with a node that has this same rule, so that derivatives of any order find the rule.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ...errors import TraceError, message
from ...trace import TracedArray, apply_many, current, private
from ...trace.handler_arguments import resolve
from ...tracebacks import line_of
from ...transforms.custom_calls import CALL, CallRule, note_calls
from ...transforms.custom_rules import CustomRule, ValueRule
from ...transforms.derivative_tapes import choose
from ...tree import flatten, unflatten
from .batching_rules import batching_rule
from .derivative_rules import ForwardRule, ReverseRule
from .rule_tracing import FunctionAlone, RuleTapes, RuleTracing, closure_error
from .ruled_call import RuledCall, is_active, is_mapped, is_mapped_here

if TYPE_CHECKING:
    from ..annotations import AnyCustomFunction

MOST_NESTED = 32  # rules that are traced within each other


def call_with_rule(
    function: AnyCustomFunction, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """The output of a `CustomFunction`, in the trace under way."""
    if not function.private and (own := private(function)) is not function:
        return own(*args, **kwargs)
    call = RuledCall(function, function.positional(args, kwargs))
    active = any(map(is_active, call.handles))
    if call.rule.batching is not None and (
        any(map(is_mapped_here, call.handles)) or (not active and any(map(is_mapped, call.handles)))
    ):
        return _entered_alone(call)
    if not active:
        return _without_derivative(call)
    construction = next((c for c in _constructions.under_way if c.call.key == call.key), None)
    if construction is None:
        return entered(call, *_constructed(call))
    construction.met = True
    if construction.rule is None:
        return function.output(call.args)
    construction.check_arguments(call)
    return entered(call, construction.rule, construction.tapes)


def _without_derivative(call: RuledCall) -> object:
    """The result where no argument is differentiated. Raises if a value that it reads is active."""
    result = call.function.output(call.args)
    for leaf in map(resolve, flatten(result)[0]):
        if isinstance(leaf, TracedArray) and is_active(leaf):
            raise closure_error(call.function.call, line_of(call.function.fun))
    return result


def _entered_alone(call: RuledCall) -> object:
    """Enter a call that the user's rule batches, and that is differentiated after that."""
    tapes = FunctionAlone(call).tapes()
    rule = ValueRule(tapes.outs.types, tapes.forward, batching_rule(call))
    return entered(call, rule, tapes)


def entered(call: RuledCall, rule: CallRule, tapes: RuleTapes) -> object:
    """Enter the node of a call; the output of the function."""
    note_calls()
    operands = [*call.handles, *tapes.extras]
    results = iter(apply_many(CALL, *operands, rule=rule) if rule.types else ())
    leaves = [out.of(next(results)) if out.type else out.value for out in tapes.outs.outs]
    return unflatten(tapes.outs.spec, leaves)


class Construction:
    """The construction of the rule of a call, with the state for calls of the same function inside
    it.

    `met` says that such an inner call occurred. In the second pass there is a `rule`, and the
    `tapes` of the first pass. `guarded` says that the tapes hold for the present values alone: then
    only a call with the same arguments may use the rule; `same` are the nodes of these arguments.
    """

    tapes: RuleTapes

    def __init__(self, call: RuledCall) -> None:
        self.call = call
        self.met = self.guarded = False
        self.rule: CustomRule | None = None
        self.same: dict[tuple[int, int], int] = {}

    def traced(self) -> RuleTapes:
        """The tapes of the rules, traced once."""
        extras = [] if self.rule is None else self.tapes.extras
        kind = ForwardRule if self.call.rule.pullback is None else ReverseRule
        tracing = kind(self.call, self.same, extras)
        tapes = tracing.tapes()
        self.guarded |= tracing.guarded
        self._compare(tracing, tapes)
        return tapes

    def _compare(self, tracing: RuleTracing, tapes: RuleTapes) -> None:
        """Refuse a rule whose output differs from the function's; once for each signature."""
        call, function = self.call, self.call.function
        if call.key in function.compared:
            return
        plain = tracing.run(call.output, call.inputs())
        tracing.check.same_outputs(tapes.outs.spec, tapes.outs.types, plain.spec, plain.types)
        function.compared.add(call.key)

    def check_arguments(self, call: RuledCall) -> None:
        """Refuse a call with other arguments where the rule depends on a branch."""
        places = [self.same.get((id(h.home), h.id)) for h in call.handles]
        if self.guarded and places != list(range(len(places))):
            fact = "a rule calls its function with other arguments, and branches on values."
            way = "Use numpy.where for the branch."
            raise TraceError(message(call.function.call, fact, way, current().where()))


class _Constructions(threading.local):
    def __init__(self) -> None:
        self.under_way: list[Construction] = []


_constructions = _Constructions()


def _constructed(call: RuledCall) -> tuple[CustomRule, RuleTapes]:
    """The rule of a call, and the tapes it is made of."""
    under_way, construction = _constructions.under_way, Construction(call)
    if len(under_way) >= MOST_NESTED:
        fact = "its rules call functions with rules in an endless recursion."
        raise TraceError(message(call.function.call, fact, "", current().where()))
    under_way.append(construction)
    try:
        tapes = construction.traced()
        types = tapes.outs.types
        batching = batching_rule(call)
        rule = CustomRule(
            types, call.moving, call.site,
            pulls=call.rule.pullback is not None, batching=batching, op=call.function.op,
        )  # fmt: skip
        if not construction.met:
            return rule.fill(tapes.forward, tapes.given), tapes
        value = choose(tapes.forward, range(len(types)))
        construction.rule, construction.tapes = rule.fill(tapes.forward, tapes.given, value), tapes
        again = construction.traced()
        assert len(again.extras) == len(tapes.extras), "the same functions read the same arrays"
        return rule.fill(again.forward, again.given, value), again
    finally:
        under_way.pop()
