"""Steps of a plan: tapes that are run, or replayed in the trace under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..tape import Tape
from ..tiers import Runner, runner
from ..trace import TracedArray, current, splice
from ..transforms.rearrange import with_check
from ..variant import Variant

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


def execute(step: Step, arrays: Arrays) -> Sequence[object]:
    """Run a step on concrete arrays."""
    outs = step.runner(arrays)  # type: ignore[arg-type]  # the types of the variant are checked
    if step.guarded:
        if not outs[-1]:
            raise Missed
        return outs[:-1]
    return outs


def replay(step: Step, arrays: Arrays) -> Sequence[object]:
    """Record a step's tape in the trace under way."""
    trace = current()
    inputs: list[TracedArray] = []
    for value, type_ in zip(arrays, step.tape.input_types, strict=True):
        node = trace.lift(value, type_.dtype)
        inputs.append(TracedArray(trace, node, type_))
    return splice(step.tape, inputs, trace)
