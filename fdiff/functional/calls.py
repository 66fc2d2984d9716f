"""From a public call to a result: programs of operators, concrete or inside another trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

import numpy as np

from ..errors import InputError, message, user_line
from ..program import Argnums, Function, Program, Variant, program_of
from ..tape import Tape
from ..tiers import Runner, runner
from ..trace import TracedArray, current, splice, tracing
from ..tree import Spec, unflatten

Arrays = Sequence[object]
Run = Callable[["Step", Arrays], Sequence[object]]


class Step:
    """A tape ready to run, or to be replayed in the trace under way."""

    __slots__ = ("runner", "tape")

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.runner: Runner = runner(tape)

    def __call__(self, arrays: Arrays) -> Sequence[object]:
        return self.runner(arrays)  # type: ignore[arg-type]


class Plan:
    """What an operator made of a variant: `call` takes the inputs of the tape and further vectors.

    `run` executes a step; inside another trace it replays the step's tape there.
    """

    def call(self, arrays: list[object], vectors: Sequence[object], run: Run) -> object:
        raise NotImplementedError


def execute(step: Step, arrays: Arrays) -> Sequence[object]:
    """Run a step on concrete arrays."""
    return step.runner(arrays)  # type: ignore[arg-type]


def replay(step: Step, arrays: Arrays) -> Sequence[object]:
    """Record a step's tape in the trace under way."""
    trace = current()
    inputs = []
    for value, type_ in zip(arrays, step.tape.input_types, strict=True):
        node = trace.lift(value, type_.dtype)
        inputs.append(TracedArray(trace, node, type_))
    return splice(step.tape, inputs, trace)


def invoke(program: Program, f: Function, args: tuple[object, ...], kwargs: dict[str, object], vectors: Sequence[object] = ()) -> object:
    """One call of an operator: on the program's kernels, or recorded in the trace under way."""
    if tracing():
        variant, inputs = program.trace(f, args, kwargs)
        return variant.plan.call(inputs, vectors, replay)  # type: ignore[attr-defined]
    variant, arrays = program.find(f, args, kwargs)
    return variant.plan.call(arrays, vectors, execute)  # type: ignore[attr-defined]


def deliver(out: object, scalar: bool) -> object:  # noqa: FBT001 - called for each result
    """A result as NumPy would give it: a scalar, or an array the caller owns."""
    if isinstance(out, TracedArray):
        return TracedArray(out.home, out.id, out.type, scalar=scalar and not out.shape)
    return out[()] if scalar else out  # type: ignore[index]


def results(variant: Variant, outs: Sequence[object]) -> object:
    """The function's result: numeric leaves from `outs`, the others as they were."""
    numeric = iter(zip(outs, variant.scalars, strict=True))
    leaves = [fixed[0] if fixed else deliver(*next(numeric)) for fixed in variant.outs]
    return unflatten(variant.out_spec, leaves)


def gradients(variant: Variant, outs: Sequence[object]) -> object:
    """One array for each differentiated leaf, in the structure of the arguments."""
    leaves = [deliver(out, variant.input_scalars[k]) for out, k in zip(outs, variant.wrt, strict=True)]
    return leaves[0] if variant.in_spec.kind is None else unflatten(variant.in_spec, leaves)


def transformed(f: Function, name: str) -> Callable[[Function], Function]:
    """Decorator of the function an operator returns: named after `f`, known to be fdiff's."""

    def decorate(call: Function) -> Function:
        try:
            call = wraps(f, updated=())(call)
        except (AttributeError, TypeError):
            call.__name__ = name
        call.__fdiff__ = name  # type: ignore[attr-defined]
        return call

    return decorate


def check_callable(f: object, name: str) -> None:
    """Refuse anything that cannot be called."""
    if not callable(f):
        raise InputError(message(name, f"expects a function first, not {type(f).__name__}.", "", user_line()))


def check_argnums(argnums: object, name: str) -> Argnums:
    """An int or a tuple of ints."""
    if isinstance(argnums, (int, np.integer)) and not isinstance(argnums, bool):
        return int(argnums)
    if isinstance(argnums, (tuple, list)) and argnums and all(isinstance(n, (int, np.integer)) for n in argnums):
        return tuple(int(n) for n in argnums)
    raise InputError(message(name, f"argnums must be an int or a tuple of ints, not {argnums!r}.", "", user_line()))


def prepared(f: Function, name: str, argnums: Argnums, options: tuple[object, ...], derive: Callable[[Variant], object]) -> Program:
    """The program behind a prepared function."""
    check_callable(f, name)
    return program_of(f, name, argnums, options, derive)


def leaf_shape_text(variant: Variant) -> str:
    return str(variant.tape.output_types[0].shape) if variant.tape.outputs else "nothing"


def is_leaf(spec: Spec) -> bool:
    return spec.kind is None
