"""Steps of a plan: tapes that are run, or replayed in the trace under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ..arraytype import ArrayType
from ..dispatch.tiers import Runner, runner
from ..dispatch.variant import Variant
from ..tape import Tape
from ..trace import TracedArray, current, splice
from ..trace.eager_trace import EagerTrace
from ..transforms.derivative_tapes import with_check

Arrays = Sequence[object]
Run = Callable[["Step", Arrays], Sequence[object]]


class Missed(Exception):  # noqa: N818 - it never leaves fdiff
    """What Python decided while the program was traced it would decide otherwise now."""


class Step:
    """A tape ready to run, or to be replayed in the trace under way.

    With the `variant` it belongs to, its kernel says as well whether the guards of that hold.
    """

    __slots__ = ("guarded", "runner", "tape")

    def __init__(self, tape: Tape, variant: Variant | None = None) -> None:
        self.tape = tape
        check = None if variant is None else variant.check
        self.guarded = check is not None
        self.runner: Runner = runner(tape if check is None else with_check(tape, check))
        if variant is not None:
            self.runner.call = variant.call


class Plan:
    """What an operator made of a variant: `call` takes the inputs of the tape and further vectors.

    `run` executes a step; inside another trace it replays the step's tape there. `order` says how
    often the function is differentiated, `of` which of its outputs (None: all), `guards` that its
    steps check what the variant relies on.
    """

    guards = False
    order = 1
    of: tuple[int, ...] | None = None

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        raise NotImplementedError

    def step_of_all(self) -> Step | None:
        """The one step that gives everything; None if there are several."""
        return getattr(self, "step", None)

    def steps(self) -> list[Step]:
        """What was made of it by now."""
        step = self.step_of_all()
        return [] if step is None else [step]


class Eagerly(Plan):
    """Mixed into a plan that is for one call: its outputs come from a trace that has values."""

    variant: Variant

    def _step(self) -> Any:
        """None: there is nothing to run."""

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        return super().call(arrays, vectors, lambda _step, given: self._outs(given))

    def _outs(self, given: Arrays) -> Sequence[object]:
        """The outputs that the step of the plan would give for these inputs."""
        raise NotImplementedError

    @property
    def trace(self) -> EagerTrace:
        return cast("EagerTrace", self.variant.eager)

    def node(self, k: int) -> int:
        """Node of output `k` of the function."""
        return self.variant.tape.outputs[k]

    @property
    def inputs(self) -> list[int]:
        """Nodes of the differentiated inputs."""
        return [self.variant.tape.inputs[k] for k in self.variant.wrt]

    def values(self, count: int) -> list[np.ndarray]:
        """The first outputs of the function, the caller's own."""
        known = self.trace.builder.values
        return [np.array(known[o]) for o in self.variant.tape.outputs[:count]]


def settled(found: Sequence[object], types: Sequence[ArrayType]) -> list[np.ndarray]:
    """Derivatives as arrays of these types that nobody else holds; zeros where there is none."""
    return [
        np.zeros(t.shape, t.dtype) if x is None else np.array(np.broadcast_to(x, t.shape), t.dtype)  # type: ignore[call-overload,arg-type] - derivatives are arrays or numbers
        for x, t in zip(found, types, strict=True)
    ]


def execute(step: Step, arrays: Arrays) -> Sequence[object]:
    """Run a step on concrete arrays."""
    outs = step.runner(arrays)  # type: ignore[arg-type] - concrete arrays, of the types of the variant
    if step.guarded:
        if not outs[-1]:
            raise Missed
        return outs[:-1]
    return outs


def unguarded(step: Step, arrays: Arrays) -> Sequence[object]:
    """Run a step of a variant that is known to hold."""
    outs = step.runner(arrays)  # type: ignore[arg-type] - concrete arrays, of the types of the variant
    return outs[:-1] if step.guarded else outs


def replay(step: Step, arrays: Arrays) -> Sequence[object]:
    """Record a step's tape in the trace under way."""
    trace = current()
    inputs: list[TracedArray] = []
    for value, type_ in zip(arrays, step.tape.input_types, strict=True):
        node = trace.lift(value, type_.dtype)
        inputs.append(TracedArray(trace, node, type_))
    return splice(step.tape, inputs, trace)
