"""The user's rules as tapes: each rule runs in a trace of its own, where the function is called.

Only that run shows which outside values a rule reads. Such values are inputs of the tapes too, the
*extras*, after the arguments of the call. Outside values as inputs: an idea of T. Johnsson, Lambda
lifting, FPCA 1985.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...dispatch.arguments import traceable
from ...errors import TraceError, message
from ...named_tuples import NamedTuple
from ...tape import Tape
from ...trace import ArgumentSpec, Recording, Trace, TracedArray, current, record, splice
from ...trace.handler_arguments import resolve
from ...transforms.pipeline import PREPARE, VALUE, derive
from ...tree import Spec, flatten
from ...user_lines import Line
from .rule_results import RuleResults
from .ruled_call import Handles, OutputLeaf, RuledCall, is_active

Types = Sequence[ArrayType]


class TracedRule(NamedTuple):
    """One run of a function of the user: its recording, and the structure and leaves of the output.

    Results beside the output are further outputs of the tape, and `rest`.
    """

    recording: Recording
    spec: Spec
    outs: list[OutputLeaf]
    rest: Any

    @property
    def types(self) -> list[ArrayType]:
        """Types of the outputs that are numbers."""
        return [out.type for out in self.outs if out.type is not None]

    @property
    def floating(self) -> list[ArrayType]:
        """The types of the arguments that have a derivative."""
        return [t for t in self.types if t.floating]

    @property
    def extra(self) -> tuple[TracedArray, ...]:
        """Values read from outside: captured arrays and values of enclosing traces."""
        return cast("tuple[TracedArray, ...]", self.recording.extra)


# What a function returned, as its output, further arrays, and anything else.
Split = Callable[[object], tuple[object, Sequence[object], object]]


def closure_error(name: str, line: Line | None) -> TraceError:
    """The error of a function, or a rule, that closes over a differentiated value."""
    fact = (
        "the function, or its rule, reads a differentiated value from outside, for which there is"
        " no rule."
    )
    return TraceError(message(name, fact, "Pass it as an argument.", line))


class RuleTapes(NamedTuple):
    """The tapes of the rules of a call.

    `forward` and `given` are the tapes of `transforms.custom_rules.CustomRule`, which pulls back if
    the user's does. `extras` are values of the surrounding trace.
    """

    forward: Tape
    given: Tape
    extras: list[TracedArray]
    outs: TracedRule


class RuleTracing:
    """The tracing of the rules of one call; `extras` are values that are already inputs.

    `same` maps nodes of the running rule's trace to arguments of the call. `guarded` says whether
    the tapes hold for the present values alone.
    """

    closes_over_active = False
    check: RuleResults

    def __init__(self, call: RuledCall, same: dict[tuple[int, int], int], extras: Handles) -> None:
        self.call, self.same, self.extras = call, same, [*extras]
        self.name = call.function.call
        self.trace = current()
        self.guarded = False

    def tapes(self) -> RuleTapes:
        raise NotImplementedError

    def run(
        self,
        function: Callable[[list[TracedArray]], object],
        inputs: Sequence[ArgumentSpec],
        split: Split = lambda outputs: (outputs, (), None),
    ) -> TracedRule:
        """The recording of a function of traced arrays, and the structure of its result."""
        outs: list[object] = []
        structure: list[tuple[Spec, object]] = []

        def run(_: Trace, arguments: list[TracedArray]) -> list[object]:
            out, more, rest = split(function(arguments))
            leaves, spec = flatten(out)
            outs.extend(map(resolve, leaves))
            structure.append((spec, rest))
            if any(a.id != a.made for a in arguments):
                raise self._error("stores into an array that it is given.", "Store into a copy.")
            return [*[x for x in outs if traceable(x)], *more]

        recording = record(run, inputs, self.name)
        kinds = iter(zip(recording.tape.output_types, recording.scalars, strict=True))
        outputs = [
            OutputLeaf(*next(kinds), getattr(x, "weak", False))
            if traceable(x)
            else OutputLeaf(None, value=x)
            for x in outs
        ]
        return TracedRule(recording, structure[0][0], outputs, structure[0][1])

    def _error(self, fact: str, way: str) -> TraceError:
        fact = f"the function, or its rule, {fact}"
        return TraceError(message(self.name, fact, way, self.call.site.line))

    def stand_for(self, handles: Handles, places: Mapping[int, int]) -> None:
        """Tell which nodes of the trace under way stand for which arguments of the call."""
        self.same.clear()
        self.same.update({(id(h.home), h.id): places[h.id] for h in handles if h.id in places})

    def relies_on(self, run: TracedRule, inputs: Callable[[], Handles]) -> None:
        """Record the outside reads of a run, and add its guards to the guards of the surrounding
        trace.

        ``inputs()`` are values of that trace for the inputs of the recording.
        """
        ids = {(id(x.home), x.id) for x in self.extras}
        for x in run.extra:
            if not self.closes_over_active and is_active(x):
                raise closure_error(self.name, self.call.site.line)
            if (id(x.home), x.id) not in ids:
                self.extras.append(x)
        self.trace.shown |= run.recording.shown
        if run.recording.check is not None:
            self.guarded = True
            (holds,) = splice(run.recording.check, [*inputs(), *run.extra], self.trace)
            self.trace.guards.expect(holds.id, value=True)

    def tape(self, run: TracedRule, taken: int, lead: Types, tail: Types) -> Tape:
        """The tape of a run, with inputs of the types ``(*lead, *extras, *tail)``.

        Its own inputs are the first `taken` of `lead`, and `tail`.
        """
        with Trace(self.name, lines=False) as trace:
            handles = [trace.input(t) for t in lead][:taken]
            place = {(id(x.home), x.id): trace.input(x.type) for x in self.extras}
            handles += [trace.input(t) for t in tail]
            inputs = [*handles, *(place[id(x.home), x.id] for x in run.extra)]
            outs = splice(run.recording.tape, inputs, trace)
            tape = trace.builder.finish([out.id for out in outs])
        return derive(VALUE, derive(PREPARE, tape))


class FunctionAlone(RuleTracing):
    """The function without a rule: for a checkpoint, or a call that needs no derivative.

    The function may read differentiated values from outside.
    """

    closes_over_active = True

    def __init__(self, call: RuledCall) -> None:
        super().__init__(call, {}, [])

    def tapes(self) -> RuleTapes:
        call = self.call
        run = self.run(call.output, call.inputs())
        self.relies_on(run, lambda: call.handles)
        tape = self.tape(run, len(call.types), call.types, ())
        return RuleTapes(tape, tape, self.extras, run)


def zeros(type_: ArrayType) -> TracedArray:
    """Zeros of a type in the trace under way."""
    trace = current()
    return TracedArray(trace, trace.lift(np.zeros(type_.shape, type_.dtype)), type_)
