"""From a public call to a result, the general way: find the variant, run its plan.

`prepared_function` makes the functions that operators such as `grad` return; `immediate_call`
answers calls that name the function and the point at once. Both call `invoke`. Outside of a trace,
`invoke` finds the variant that holds for the arguments and executes its plan on arrays; inside a
trace, it traces the function anew and replays the plan's tapes. After a general call, fdiff looks
for a fast path (`fdiff.dispatch.fast_paths.fast_path`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...device_arrays import CPU
from ...dispatch.arguments import Argnums, Function, native
from ...dispatch.fast_paths.fast_path import FastPath, immediate_fast_path
from ...dispatch.plans import Arrays, GuardMiss, OperatorPlan, PlanStep, Run, replay
from ...dispatch.program import MakePlan, Program, program_of
from ...dispatch.variant import Variant
from ...errors import FAULTS, FdiffError, called
from ...foreign_errors import not_foreign
from ...hooks import hooks
from ...ops.entrywise.kink_marks import kink_search
from ...process import anomaly_watch, forking, observation
from ...process.collector import collector_paused
from ...process.float_flags import noted
from ...trace import TracedArray, current, tracing
from ...trace.handler_arguments import resolve
from ...trace.local_arrays import LocalArray
from ...trace.trace_stack import forget_abandoned, occupied
from ...tracebacks import trim
from ...transforms.pipeline import VALUE
from ...tree import map_leaves, unflatten
from ..operators.points import body_of_operator, floating, refuse_integers
from ..options import check_callable
from .device_calls import Invoke, invoke_on_device, placed
from .input_checks import check_point
from .kink_policy import ASKED, mark_kinks, policy, refuse_kinks
from .late_operators import late, of_partitions, step_of, total_at
from .prepared import Origin, Prepared, prepare

if TYPE_CHECKING:
    from ...dispatch.fast_paths.recorded_plans import Split

Check = Callable[[Variant, str], object]
Call = tuple[tuple[object, ...], dict[str, object]]  # positional and keyword arguments
# Imported by the first call that needs it.
output_values = late("operators.eager_results", "output_values")
observed_call = late("call.observed_calls", "observed_call")  # in profiles
observed_find = late("call.observed_calls", "observed_find")
watched = late("call.watched_calls", "watched")  # for those who look for a NaN
timed = late("call.slow_code", "timed")
warn_after_hint = forking.late("numpy_warnings", "fdiff.dispatch", "warn_after_hint")
note_trips = late("loops.loop_faults", "note_trips")
call_into = late("call.out_arguments", "call_into")


def invoke(
    program: Program,
    f: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    vectors: Sequence[object] = (),
    *,
    seen: bool = False,
) -> object:
    """The result of an operator: computed, or recorded in the trace under way.

    `seen` says that a profiler, if there is one, sees the call already.
    """
    if occupied and not seen:
        observation.end_abandoned()
    if occupied and not seen and observation.observer is not None:
        with observed_call(program, f, args, kwargs):
            return invoke(program, f, args, kwargs, vectors, seen=True)
    if program.argnums is not None:
        args = floating(args, program, f)
    if tracing():
        return _invoke_traced(program, f, args, kwargs, vectors)
    if occupied:  # traces of other threads, or something that is to be looked for
        forget_abandoned()
        if ASKED in occupied and policy.get() == "raise":
            refuse_kinks(program, f, args, kwargs)
        if anomaly_watch.watching():
            return watched(program, f, args, kwargs, vectors)
    if program.stability:  # the call may be eager
        with collector_paused(), timed(program) as runs:
            return _invoke_concrete(program, f, args, kwargs, vectors, runs)
    return _invoke_concrete(program, f, args, kwargs, vectors)


def _invoke_traced(
    program: Program,
    f: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    vectors: Sequence[object],
) -> object:
    """A call inside another trace, which records what the plan would compute."""
    args, kwargs, vectors = map_leaves(_plain_argument, (args, kwargs, tuple(vectors)))  # type: ignore[misc,assignment] - a tree keeps its structure
    variant, inputs = program.trace(f, args, kwargs)
    if variant.check is not None:  # the guards of the inner function hold for the outer trace
        (holds,) = replay(PlanStep(variant.check), inputs)
        current().guards.expect(holds.id, True)  # type: ignore[attr-defined] - a check has one traced output
    result = variant.plan.call(inputs, vectors, replay)
    return mark_kinks(result, variant, inputs) if kink_search.on else result


def _invoke_concrete(
    program: Program,
    f: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    vectors: Sequence[object],
    taken: list[Variant] | None = None,
) -> object:
    """A call whose arguments are arrays; its variant goes to the list `taken`, or is released."""
    noted.hint = False
    if occupied and observation.observer is not None:
        first, arrays = observed_find(program, f, args, kwargs)
    else:
        first, arrays = program.find(f, args, kwargs)
    if taken is not None:
        taken.append(first)
    try:
        if first.special:
            result, variant, arrays = _invoke_special(
                program, f, (args, kwargs), (first, arrays), vectors
            )
        else:
            result = program.run(f, (args, kwargs), (first, arrays), vectors)
            variant = first
        if noted.hint:
            warn_after_hint(program, f, (args, kwargs), variant, arrays)
    except FAULTS as error:
        note_trips(error, first.tape, program, f, (args, kwargs), vectors)
        raise
    else:
        return result
    finally:
        if taken is None:
            first.release()


def _invoke_special(
    program: Program,
    f: Function,
    call: Call,
    variant_and_arrays: tuple[Variant, list[np.ndarray]],
    vectors: Sequence[object],
) -> tuple[object, Variant, list[np.ndarray]]:
    """A call of a variant that has guards, or reads arrays of another byte order.

    If a guard fails while the plan runs, another variant is found. Gives the variant that was
    taken, with its inputs.
    """
    variant, arrays = variant_and_arrays
    _to_native_order(variant, arrays)
    if variant.check is None or not variant.plan.guards:
        return program.run(f, call, (variant, arrays), vectors), variant, arrays
    run = partial(program.run, f, call, (variant, arrays), vectors)
    try:
        return run(), variant, arrays
    except GuardMiss:
        pass
    except not_foreign(FdiffError, *FAULTS, again=run):
        if variant.guards_hold(arrays):  # else it may be about a branch that is not taken
            raise
    # The guards are not evaluated again with the plan: near a tie a kernel may round to the other
    # side than the check did, and no variant would hold.
    noted.hint = False
    variant, arrays = program.find(f, *call, sure=True)
    _to_native_order(variant, arrays)
    return program.run(f, call, (variant, arrays), vectors, sure=True), variant, arrays


def _to_native_order(variant: Variant, arrays: list[np.ndarray]) -> None:
    """Convert captured arrays of another byte order than the machine's, in the list."""
    for k in variant.swapped:
        arrays[k] = native(arrays[k])


def _plain_argument(leaf: object) -> object:
    """The traced or plain array in place of a local array of the function under way."""
    leaf = resolve(leaf)
    return np.asarray(leaf) if type(leaf) is LocalArray else leaf


# --- results in the structure that the caller expects --------------------------------------------


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
    """The plan of the function itself, interpreted until a kernel pays off."""

    guards = True
    order = 0

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.step = step_of(variant, VALUE, output_values)

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        return results(self.variant, run(self.step, arrays))


# --- immediate calls, and prepared functions ------------------------------------------------------


class Operator:
    """A public operator with its settings checked; all calls with equal settings share one object.

    `function` is the public function, `settings` are its arguments other than `argnums`. `plan`
    makes the plan of a traced function, after ``check(variant, name)`` has refused functions
    without a derivative. Programs and fast paths are cached by operator.
    """

    __slots__ = ("check", "device", "function", "name", "plan", "settings")

    def __init__(
        self,
        function: Function,
        settings: dict[str, object],
        plan: MakePlan,
        check: Check | None = None,
    ) -> None:
        self.device = str(settings.get("device", CPU))
        self.function = function
        self.name = function.__name__
        self.settings = settings
        self.plan = plan
        self.check = check

    def make_plan(self, variant: Variant) -> OperatorPlan:
        """The plan of a traced function, where it has one."""
        if self.check is not None:
            self.check(variant, self.name)
        return self.plan(variant)

    def program(self, f: Function, argnums: Argnums) -> Program:
        """The program of `f` under this operator."""
        body = body_of_operator(self.name, argnums)
        return program_of(
            f,
            (self, argnums),
            lambda: Program(self.name, argnums, self.make_plan, body, device=self.device),
        )

    def origin(self, argnums: Argnums) -> Origin:
        """From what the prepared function of this operator is made again."""
        settings = self.settings if argnums is None else {"argnums": argnums, **self.settings}
        return Origin(self.function, settings)


def immediate_call(
    operator: Operator,
    f: Function,
    inputs: object,
    argnums: object,
    vectors: tuple[object, ...] = (),
) -> object:
    """One call of an operator that is given the function and the point at once.

    No fast path was known; the next call may have one.
    """
    check_callable(f, operator.name)
    if (total := total_at(f, operator.origin, inputs, vectors)) is not None:
        return total[0]

    def again(inputs: object, *vectors: object) -> object:
        return immediate_call(operator, f, inputs, argnums, vectors)

    if (total := of_recorded_arrays(again, operator.name, f, (inputs, *vectors), {})) is not None:
        return total[0]
    if operator.device != CPU and not tracing():
        inputs, *vectors = placed((inputs, *vectors), called(operator.name, f))  # type: ignore[misc,assignment] - a tree keeps its structure
    args, differentiated = check_point(inputs, argnums, f, operator.name)
    refuse_integers(args, called(operator.name, f))
    program = operator.program(f, differentiated)
    result = _general_way(program)(program, f, args, {}, vectors)
    if not occupied:
        fast_path = immediate_fast_path(f, inputs, operator)
        if fast_path is not None:
            fast_path.seek(program, f, (inputs, *vectors), spread=differentiated != 0)
    if type(f) is not FunctionType:  # an object of its own, which is not kept alive
        program.held.clear()
    return result


def of_recorded_arrays(
    call: Function, name: str, f: Function, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[object] | None:
    """The result of an operator called with recorded arrays, which is recorded; else None."""
    recorded = hooks.recorded_operator
    if recorded is None or tracing():
        return None
    return recorded(call, name, f, args, kwargs)


def _general_way(program: Program) -> Invoke:
    """What answers calls of a program, on the CPU or on a device."""
    return invoke if program.device == CPU else partial(invoke_on_device, invoke)


def prepared_operator(operator: Operator, f: Function, argnums: Argnums) -> Prepared[..., Any]:
    """The prepared function of an operator whose calls take the arguments of `f`."""
    program = operator.program(f, argnums)
    return prepared_function(program, f, no_vectors, operator.origin(argnums))


def no_vectors(args: tuple[object, ...]) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """How arguments are split that are all for the function."""
    return args, ()


def prepared_function(
    program: Program,
    f: Function,
    split: Split,
    origin: Origin,
    *,
    arrange: Callable[..., Call] | None = None,
    out: bool = True,
) -> Prepared[..., Any]:
    """The function that an operator returns.

    `split` separates its positional arguments into arguments of `f` and vectors, once `arrange` has
    put arguments given by keyword into their places. Unless `out`, a keyword of that name is for
    `f`.
    """
    if (total := of_partitions(f, origin)) is not None:
        return total
    fast_path = FastPath(program, f, out=out)
    name, invoke = program.name, _general_way(program)

    def answer(args: tuple[object, ...], kwargs: dict[str, Any], every: dict[str, Any]) -> object:
        if (recorded := of_recorded_arrays(call, name, f, args, kwargs)) is not None:
            return recorded[0]
        own, vectors = (args, ()) if split is no_vectors else split(args)
        result = invoke(program, f, own, kwargs, vectors)
        if program.held:
            fast_path.hold()
        if not occupied:
            fast_path.seek(args, every)
        return result

    def call(*args: object, **kwargs: object) -> object:
        try:
            if arrange is not None:
                args, kwargs = arrange(*args, **kwargs)
            if "out" in kwargs and fast_path.writes_out:
                return call_into(answer, called(name, f), args, kwargs)
            return answer(args, kwargs, kwargs)
        except BaseException as error:
            trim(error, name, f)
            raise

    return prepare(call, f, program, split, fast_path, origin)
