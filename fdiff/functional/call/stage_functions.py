"""The stages of a call that most calls need: the variant is found, and its plan is run.

In a trace, the plan of a new variant is recorded instead. Short stages stand here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import fdiff.intact_numpy as np

from ...dispatch.arguments import native
from ...dispatch.plans import (
    ExecuteAndKeep,
    GuardMiss,
    PlanStep,
    execute,
    execute_unchecked,
    replay,
)
from ...dispatch.program import FoundInputs
from ...dispatch.variant import Variant
from ...errors import FAULTS, FdiffError, called
from ...foreign_errors import not_foreign
from ...hooks import hooks
from ...ops.entrywise.kink_marks import kink_search
from ...process import forking, observed_spans
from ...process.float_flags import noted
from ...trace import current, tracing
from ...trace.handler_arguments import resolve
from ...trace.local_arrays import LocalArray
from ...trace.trace_stack import forget_abandoned
from ...tree import map_leaves
from .device_calls import check_outer_device, placed, returned, tracing_for
from .input_checks import check_point, refuse_integers
from .kink_policy import mark_kinks
from .late_functions import late
from .point_conversion import floating

if TYPE_CHECKING:
    from .operator_call import OperatorCall
    from .prepared import Origin

note_place = late("call.numpy_error_lines", "note_place")
warn_after_hint = forking.late("numpy_warnings", "fdiff.dispatch", "warn_after_hint")


def close_abandoned(call: OperatorCall) -> object:
    """Close profiles, and traces of other threads, that exceptions have left open."""
    observed_spans.end_abandoned()
    if not tracing():
        forget_abandoned()
    return call


def recorded_arrays(call: OperatorCall) -> object:
    """The recorded results for recorded arrays; the call itself for plain arrays."""
    recorded, again = hooks.recorded_operator, call.again
    assert recorded is not None
    assert again is not None
    results = recorded(again, call.name, call.f, call.original_args, call.kwargs)
    return call if results is None else results[0]


def of_partitions(f: object, origin: Origin) -> Any:
    """The sum that an operator makes of a sum over partitions; None for other functions."""
    derived = hooks.over_partitions
    return None if derived is None else derived(f, origin)


def over_partitions(call: OperatorCall) -> object:
    """The result of a call that names a sum over partitions and the point; else the call itself."""
    assert call.operator is not None, "the stage applies to calls that name the point"
    inputs: object = call.args[0]
    several = isinstance(inputs, tuple)
    origin = call.operator.origin(tuple(range(len(inputs))) if several else 0)
    if (total := of_partitions(call.f, origin)) is None:
        return call
    return total(*inputs) if several and not call.vectors else total(inputs, *call.vectors)


def on_device(call: OperatorCall) -> object:
    """The result of a call that runs on a device; inside a trace, the call itself."""
    public = called(call.name, call.f)
    if tracing():
        check_outer_device(call.device, public)
        return call
    call.args, call.vectors = placed(call.args, public), placed(tuple(call.vectors), public)
    if call.kwargs:
        call.kwargs = dict(zip(call.kwargs, placed((*call.kwargs.values(),), public), strict=True))
    with tracing_for(call.device):
        return returned(call.go_on())


def at_point(call: OperatorCall) -> object:
    """Check the point that a call passes with `f`, and set the arguments and the program."""
    operator = call.operator
    assert operator is not None, "the stage applies to calls that name the point"
    call.args, argnums = check_point(call.args[0], call.argnums, call.f, operator.name)
    refuse_integers(call.args, operator.name, call.f)
    call.program = operator.program(call.f, argnums)
    return call


def as_floats(call: OperatorCall) -> object:
    """Take integers among the differentiated arguments as floats."""
    args = call.args
    if call.program.argnums == 0 and args and args[0].__class__ is np.ndarray:
        point: Any = args[0]
        if point.dtype.kind == "f":
            return call  # as most points are
    call.args = floating(call.args, call.program, call.f)
    return call


def in_trace(call: OperatorCall) -> object:
    """Record the computation of a new trace's plan in the trace under way."""
    args, kwargs, vectors = map_leaves(_settled, (call.args, call.kwargs, tuple(call.vectors)))
    variant, inputs = call.program.trace(call.f, args, kwargs)
    call.variant = variant
    check = variant.traced.check
    if check is not None:  # the guards of the inner function hold for the outer trace
        (holds,) = replay(PlanStep(check), inputs)
        current().guards.expect(holds.id, True)  # type: ignore[attr-defined] - a check has one traced output
    result = variant.plan.call(inputs, vectors, replay)
    return mark_kinks(result, variant, inputs) if kink_search.on else result


def _settled(leaf: object) -> object:
    """The traced or plain array in place of a local array of the function under way."""
    leaf = resolve(leaf)
    return np.asarray(leaf) if type(leaf) is LocalArray else leaf


def with_reports(
    call: OperatorCall, rest: Callable[[OperatorCall], object] | None = None
) -> object:
    """The result of the later stages (`rest`), with NumPy's warnings.

    The processor's flags hint at a warning. A NumPy error names the trip of a loop.
    """
    try:
        result = call.go_on() if rest is None else rest(call)
        if noted.hint:
            arguments = call.args, call.kwargs
            warn_after_hint(call.program, call.f, arguments, call.variant, call.arrays)
    except FAULTS as error:
        note_place(error, call)
        raise
    return result


def find_variant(call: OperatorCall) -> object:
    """Find the variant that holds for the arguments, and the inputs of its tape; else trace `f`."""
    noted.hint = False
    variant, arrays = call.program.find(call.f, call.args, call.kwargs, sure=call.sure)
    if not variant.plain:
        if variant.traced.eager is not None and not call.eager:
            variant.release()
            variant, inputs = call.program.trace(call.f, call.args, call.kwargs)
            arrays = cast("list[np.ndarray]", inputs)  # no trace is under way
        for k in variant.conditions.swapped:  # captured arrays of another byte order
            arrays[k] = native(arrays[k])
    call.variant, call.arrays = variant, arrays
    return call


def run_plan(call: OperatorCall) -> object:
    """Run the plan of the variant; if a guard fails, run the plan of the variant that holds."""
    variant = call.variant
    assert variant is not None, "a stage before this one finds it"
    if variant.plain or variant.traced.check is None or call.sure or not variant.plan.guards:
        return _result(call, variant)
    try:
        return _result(call, variant)
    except GuardMiss:
        pass
    except not_foreign(FdiffError, *FAULTS, again=partial(_result, call, variant)):
        if variant.guards_hold(call.arrays):  # else another branch is taken, which may not raise
            raise
    # The guards are not evaluated again with the plan: near a tie a kernel may round to the other
    # side than the check did, and no variant would hold.
    call.sure = True
    find_variant(call)
    variant = call.variant
    assert variant is not None, "it has been found"
    return _result(call, variant)


def _result(call: OperatorCall, variant: Variant) -> object:
    """The result of the plan of a variant.

    If the variant was found, not traced for this call, the writes of `f` are repeated. If the plan
    raises, `f` is traced: plain code may write something before it raises.
    """
    arrays, vectors, plan = call.arrays, call.vectors, variant.plan
    after = arrays.after if arrays.__class__ is FoundInputs else None  # type: ignore[attr-defined] - its class was looked at
    if after is None:
        return plan.call(arrays, vectors, execute_unchecked if call.sure else execute)
    run = ExecuteAndKeep(sure=call.sure)
    again = partial(plan.call, arrays, vectors, run)
    try:
        result = again()
        values = variant.written_values(arrays) if run.values is None else run.values
    except not_foreign(ArithmeticError, IndexError, ValueError, again=again):
        variant, inputs = call.program.trace(call.f, call.args, call.kwargs)
        return variant.plan.call(inputs, vectors, execute)
    return after(result, *values)
