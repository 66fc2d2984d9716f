"""From a public call to a result: programs of operators, concrete or inside another trace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..dispatch.arguments import Argnums, Function, called, native
from ..dispatch.fast_path import Immediate, Quick, Shortcuts, never
from ..dispatch.numpy_warnings import answer
from ..dispatch.plans import (
    Arrays,
    EagerStep,
    GuardMiss,
    OperatorPlan,
    PlanStep,
    Run,
    execute,
    execute_unchecked,
    replay,
)
from ..dispatch.program import MOST, Derive, Program, immediates, program_of
from ..dispatch.variant import Variant
from ..errors import FdiffError, message, user_line
from ..ops.kink_marks import kink_search
from ..process.collector import collector_paused
from ..process.float_flags import noted
from ..trace import TracedArray, current, tracing
from ..trace.local_arrays import Local, resolve
from ..trace.trace_stack import occupied
from ..tracebacks import trim
from ..transforms.pipeline import VALUE, derive
from ..tree import map_leaves, unflatten
from .eager_results import output_values
from .kink_policy import ASKED, policy, refuse_kinks, warn_outside
from .out_arguments import call_into
from .points import body_of, floating
from .prepared import Origin, Prepared, made
from .slow_code import timed


def invoke(
    program: Program,
    f: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    vectors: Sequence[object] = (),
) -> object:
    """One call of an operator: on the program's kernels, or recorded in the trace under way."""
    if program.argnums is not None:
        args = floating(args, program.argnums, lists=program.lists)
    if tracing():
        args, kwargs, vectors = map_leaves(_given, (args, kwargs, tuple(vectors)))  # type: ignore[misc,assignment] - a tree keeps its structure
        variant, inputs = program.trace(f, args, kwargs)
        if variant.check is not None:  # what was decided inside holds for the trace around it
            (holds,) = replay(PlanStep(variant.check), inputs)
            current().looks.expect(holds.id, True)  # type: ignore[attr-defined] - a check has one traced output
        result = variant.plan.call(inputs, vectors, replay)
        return warn_outside(result, variant, inputs) if kink_search.on else result
    if ASKED in occupied and policy.get() == "raise":
        refuse_kinks(program, f, args, kwargs)
    if program.ways:  # it may be eager
        with collector_paused(), timed(program) as found:
            return _concrete(program, f, args, kwargs, vectors, found)
    return _concrete(program, f, args, kwargs, vectors)


def _concrete(
    program: Program,
    f: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    vectors: Sequence[object],
    taken: list[Variant] | None = None,
) -> object:
    """A call whose arguments are arrays; its variant goes to the list `taken`, or is released."""
    noted.hint = False
    first, arrays = program.find(f, args, kwargs)
    if taken is not None:
        taken.append(first)
    try:
        if first.special:
            result, variant = _special(program, f, args, kwargs, (first, arrays), vectors)
        else:
            result, variant = first.plan.call(arrays, vectors, execute), first
        if noted.hint:
            answer(program, f, (args, kwargs), variant, arrays)
        return result
    finally:
        if taken is None:
            first.release()


def _special(
    program: Program,
    f: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    found: tuple[Variant, list[np.ndarray]],
    vectors: Sequence[object],
) -> tuple[object, Variant]:
    """A call of a variant that has guards, or reads arrays of another byte order.

    Another variant may hold in the end; its inputs take the place of those that are given.
    """
    variant, arrays = found
    for k in variant.swapped:
        arrays[k] = native(arrays[k])
    if variant.check is None or not variant.plan.guards:
        return variant.plan.call(arrays, vectors, execute), variant
    try:
        return variant.plan.call(arrays, vectors, execute), variant
    except GuardMiss:
        pass
    except (ArithmeticError, IndexError, ValueError):
        if variant.decides(arrays):
            raise
    # The check decides alone: next to a tie a kernel may round its guards to the other side.
    noted.hint = False
    variant, arrays[:] = program.find(f, args, kwargs, sure=True)
    for k in variant.swapped:
        arrays[k] = native(arrays[k])
    return variant.plan.call(arrays, vectors, execute_unchecked), variant


def _given(leaf: object) -> object:
    """An argument made by the function under way, as what it stands for."""
    leaf = resolve(leaf)
    return np.asarray(leaf) if type(leaf) is Local else leaf


def deliver(out: object, scalar: bool) -> object:  # noqa: FBT001 - called for each result
    """A result as NumPy would give it: a scalar, or an array the caller owns."""
    if isinstance(out, TracedArray):
        return TracedArray(out.home, out.id, out.type, scalar=scalar and not out.shape)
    return out[()] if scalar else out  # type: ignore[index] - an array, if not a traced one


def results(variant: Variant, outs: Sequence[object]) -> object:
    """The function's result: numeric leaves from `outs`, Python numbers and others as they were."""
    numeric = iter(zip(outs, variant.scalars, variant.numbers, strict=True))
    leaves: list[object] = []
    for fixed in variant.outs:
        if fixed:
            leaves.append(fixed[0])
            continue
        out, scalar, number = next(numeric)
        leaves.append(deliver(out, scalar) if number is None else number)
    return unflatten(variant.out_spec, leaves)


def tangents(variant: Variant, outs: Sequence[object]) -> object:
    """One array for each output, in the structure of the outputs."""
    leaves = [deliver(out, scalar) for out, scalar in zip(outs, variant.scalars, strict=True)]
    return unflatten(variant.out_spec, leaves)


def gradients(variant: Variant, outs: Sequence[object]) -> object:
    """One array for each differentiated leaf, in the structure of the arguments."""
    scalars = variant.input_scalars
    leaves = [deliver(out, scalars[k]) for out, k in zip(outs, variant.wrt, strict=True)]
    return leaves[0] if variant.in_spec.kind is None else unflatten(variant.in_spec, leaves)


class ValuePlan(OperatorPlan):
    """The function itself, interpreted until a kernel pays."""

    guards = True
    order = 0

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        if variant.eager is not None:
            self.step = EagerStep(partial(output_values, variant, None))
        else:
            self.step = variant.step(derive(VALUE, variant.tape))

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        return results(self.variant, run(self.step, arrays))


def again(f: object, inputs: object, derive: Derive) -> Quick:
    """The shortcut of an immediate call; without one, what gives None.

    Nothing need be checked before: a shortcut takes only what the call it was made for had.
    """
    if occupied:
        return never
    try:  # a code is slow to hash
        return immediates[id(f.__code__), inputs.__class__, derive].quick  # type: ignore[attr-defined] - what has none has no shortcut
    except (AttributeError, KeyError, TypeError):  # a class need not be hashable
        return never


def immediate(
    f: Function,
    name: str,
    inputs: object,
    options: tuple[object, ...],
    derive: Derive,
    checked: tuple[tuple[object, ...], Argnums],
    vectors: tuple[object, ...] = (),
) -> object:
    """One call of an operator that is given the function and the point at once.

    `derive` is one object for all calls with the same name and options, `checked` are the arguments
    and argnums that `inputs` stand for. No shortcut has led to the result (`again`); perhaps one is
    found for the next call.
    """
    args, argnums = checked
    code = getattr(f, "__code__", None)
    program = operated(f, name, argnums, options, derive)
    result = invoke(program, f, args, {}, vectors)
    if code is not None and not occupied:
        key = id(code), inputs.__class__, derive
        short = immediates.get(key)
        if short is None:
            short = immediates[key] = Immediate(code)
            if len(immediates) > MOST:
                immediates.pop(next(iter(immediates)), None)
        short.look(program, f, (inputs, *vectors), spread=argnums != 0)
    return result


def operated(
    f: Function,
    name: str,
    argnums: Argnums,
    options: tuple[object, ...],
    derive: Derive,
) -> Program:
    """The program of `f` under an operator, which may take lists of numbers for arrays."""
    body = body_of(name, argnums)
    return program_of(f, name, argnums, options, derive, body, lists=body is not None)


def prepared(
    f: Function,
    name: str,
    argnums: Argnums,
    options: tuple[object, ...],
    derive: Derive,
    origin: Origin,
) -> Prepared[..., Any]:
    """The function of the arguments of `f` that an operator returns."""
    program = operated(f, name, argnums, options, derive)
    short = Shortcuts(program, f)

    def call(*args: object, **kwargs: object) -> object:
        try:
            if "out" in kwargs and short.serves:
                return call_into(call, called(name, f), short, args, kwargs)
            result = invoke(program, f, args, kwargs)
            if not occupied:
                short.look(args, kwargs)
        except BaseException as error:
            trim(error)
            raise
        return result

    return made(call, f, program, lambda args: (args, ()), short, origin)


def failure(kind: type[FdiffError], call: str, fact: str, way_out: str = "") -> FdiffError:
    """The error for `fact`, with the user's line that called fdiff."""
    return kind(message(call, fact, way_out, user_line()))
