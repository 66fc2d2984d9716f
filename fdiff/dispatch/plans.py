"""Plans: the derivative tapes that an operator made of a traced function, and how they are run.

A plan belongs to a variant (one trace of the user's function). It holds the derivative tapes of the
operator as plan steps, runs them by the function that its caller passes (`execute` for arrays,
`replay` inside another trace), and puts their outputs into the structure of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ..device_arrays import CPU
from ..process.observed_spans import TRANSFORM
from ..process.progress import Stage
from ..tape import Tape
from ..trace import TracedArray, current, splice
from ..transforms.pipeline import GUARD, Pipeline, derive
from .tiers.runner_choice import runner_on

if TYPE_CHECKING:
    from .variant import Traced

Arrays = Sequence[object]
Run = Callable[["Step", Arrays], Sequence[object]]


class Effort:
    """The expected effort of making the tapes of an operator, and the word for it (`what`).

    `seconds` are for each node of the trace; the whole takes `sweeps` times as long as its reverse
    sweep. If both are 0, the effort depends on sparsity patterns.
    """

    def __init__(
        self, what: str = "deriving", *, seconds: float = 0.0, sweeps: float = 0.0
    ) -> None:
        self.what, self.seconds, self.sweeps = what, seconds, sweeps

    def stage(self, call: str, length: int = 0) -> Stage:
        """The stage in which the tapes of a public call are made from a trace of `length` nodes.

        Without `length`, a profiler sees it as a transform.
        """
        seconds, category = self.seconds * length, "" if length else TRANSFORM
        return Stage(
            self.what, call, size=length, seconds=seconds, sweeps=self.sweeps, category=category
        )


DERIVING, PREPARING = Effort(), Effort("preparing")  # PREPARING: without derivatives
deriving = DERIVING.stage


class GuardMiss(Exception):  # noqa: N818 - it never leaves fdiff
    """A guard of the trace fails for these arguments: Python would take another branch."""


class PlanStep:
    """A derivative tape and its runner.

    With `check`, the tape that evaluates the guards of the trace, the runner computes the check as
    well, as its last output. The outputs of `written`, values that `f` writes to the outside, come
    before it. `call` is the public call, for messages; `device` is the device that runs the step.
    """

    __slots__ = ("guarded", "runner", "tape", "written")

    def __init__(
        self,
        tape: Tape,
        check: Tape | None = None,
        call: str = "",
        device: str = CPU,
        written: Tape | None = None,
    ) -> None:
        self.tape = tape
        self.guarded = check is not None
        self.written = 0 if written is None else len(written.outputs)
        whole = tape if written is None else derive(GUARD, tape, check=written)
        whole = whole if check is None else derive(GUARD, whole, check=check)
        self.runner = runner_on(device, whole)
        if call:
            self.runner.account.call = call

    def compile_when_called(self, compiler: str) -> None:
        """Make the first call compile a kernel, by this compiler if it is named."""
        if compiler:
            call, self.runner = self.runner.account.call, self.runner.with_compiler(compiler)
            self.runner.account.call = call
        self.runner.account.asked = True


class EagerStep:
    """A plan step that is computed at once in an eager trace, for a single call.

    `runner` takes the inputs and vectors that a plan step would take, and returns its outputs.
    """

    __slots__ = ("runner",)
    guarded = False
    written = 0

    def __init__(self, runner: Callable[[Arrays], list[np.ndarray]]) -> None:
        self.runner = runner


Step = PlanStep | EagerStep


def derived_step(
    traced: Traced,
    pipeline: Pipeline,
    values: Callable[[Traced, Arrays], list[np.ndarray]],
    **request: object,
) -> Step:
    """The step of a plan: the tape that `pipeline` derives, or `values` of an eager trace."""
    if traced.eager is not None:
        return EagerStep(partial(values, traced))
    return traced.step(derive(pipeline, traced.tape, **request))


class OperatorPlan:
    """Base class of plans: `call` takes the inputs of the tape and the vectors of a product.

    `run` executes a step, or inside another trace replays its tape. `order` is the order of the
    derivative, `of` are the differentiated outputs (None: all), and `guards` says whether the steps
    check the guards of the trace, so that callers need not check them.
    """

    guards = False
    order = 1
    of: tuple[int, ...] | None = None
    step: Step

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        raise NotImplementedError

    def derived_at(self, arrays: Arrays) -> Sequence[str]:
        """Make the derivatives that hold for these inputs alone; returns lines for reports."""
        return ()

    def only_step(self) -> PlanStep | None:
        """The step that computes everything; None if there are several, or none yet."""
        step = getattr(self, "step", None)
        return step if isinstance(step, PlanStep) else None

    def steps(self) -> list[PlanStep]:
        """The steps made so far."""
        step = self.only_step()
        return [] if step is None else [step]


def execute(step: Step, arrays: Arrays) -> Sequence[object]:
    """Outputs of a step at concrete arrays; raises `GuardMiss` if a guard of the trace fails."""
    outs = step.runner(arrays)  # type: ignore[arg-type] - concrete arrays, of the types of the variant
    if step.guarded:
        if not outs[-1]:
            raise GuardMiss
        outs = outs[:-1]
    return outs[: -step.written] if step.written else outs


def execute_unchecked(step: Step, arrays: Arrays) -> Sequence[object]:
    """Outputs of a step of a variant whose guards are known to hold."""
    outs = step.runner(arrays)  # type: ignore[arg-type] - concrete arrays, of the types of the variant
    end = len(outs) - step.guarded - step.written
    return outs if end == len(outs) else outs[:end]


class ExecuteAndKeep:
    """Executes steps, and keeps the values that `f` writes to the outside (`values`, if a step has
    any).

    With `sure`, the guards are already known to hold.
    """

    __slots__ = ("sure", "values")

    def __init__(self, *, sure: bool) -> None:
        self.sure = sure
        self.values: Sequence[object] | None = None

    def __call__(self, step: Step, arrays: Arrays) -> Sequence[object]:
        outs = step.runner(arrays)  # type: ignore[arg-type] - concrete arrays, of the types of the variant
        if step.guarded:
            if not self.sure and not outs[-1]:
                raise GuardMiss
            outs = outs[:-1]
        if step.written:
            self.values, outs = outs[-step.written :], outs[: -step.written]
        return outs


class Inspection:
    """Has an interpreter look at each node of the steps: ``outputs(tape, arrays)`` runs them."""

    def __init__(self, outputs: Callable[[Tape, Arrays], Sequence[object]]) -> None:
        self.outputs = outputs

    def __call__(self, step: Step, arrays: Arrays) -> Sequence[object]:
        assert isinstance(step, PlanStep), "calls that are inspected are not traced eagerly"
        return self.outputs(step.tape, arrays)


def executes(run: Run) -> bool:
    """Whether steps are executed for a call, not replayed, compiled or looked at."""
    return run in {execute, execute_unchecked} or isinstance(run, ExecuteAndKeep)


def replay(step: Step, arrays: Arrays) -> Sequence[object]:
    """Outputs of a step whose tape is recorded in the trace under way."""
    assert isinstance(step, PlanStep), "an eager trace is never inside another trace"
    trace = current()
    inputs: list[TracedArray] = []
    for value, type_ in zip(arrays, step.tape.input_types, strict=True):
        node = trace.lift(value, type_.dtype)
        inputs.append(TracedArray(trace, node, type_))
    return splice(step.tape, inputs, trace)
