"""The life of a call of an operator, from top to bottom.

An `OperatorCall` goes through `STAGES` in order. A stage is one function of the call. It returns
the call, and the next stage goes on; or it returns the result. A stage that works around the later
stages gets their result from ``call.go_on()``. The comment above each stage says to which calls it
applies.
"""

from __future__ import annotations

from ...device_arrays import CPU
from ...hooks import hooks
from ...process import anomaly_watch, observed_spans
from ...trace import tracing
from ...trace.trace_stack import occupied
from .kink_policy import ASKED, policy, refuse_kinks
from .late_functions import late
from .operator_call import CallStage, OperatorCall
from .stage_functions import (
    as_floats,
    at_point,
    close_abandoned,
    find_variant,
    in_trace,
    on_device,
    over_partitions,
    recorded_arrays,
    run_plan,
    with_reports,
)

# Imported by the first call that needs it.
write_to_out = late("call.out_arguments", "write_to_out")
observed = late("call.profiled_calls", "observed")
observed_find = late("call.profiled_calls", "observed_find")
checked_for_anomalies = late("call.anomaly_checked_calls", "checked_for_anomalies")
timed = late("call.slow_code", "timed")


REPORTS: CallStage = (None, with_reports)
TIMED: CallStage = (lambda call: call.program.stability, timed)
VARIANT: CallStage = (lambda call: call.variant is None, find_variant)
PLAN: CallStage = (None, run_plan)
STAGES: tuple[CallStage, ...] = (
    # A profile, a trace or a search for anomalies or kinks is open, in this or another thread.
    (lambda _: occupied, close_abandoned),
    # ``out=``: results are written into arrays of the caller.
    (lambda call: call.writes_out and "out" in call.kwargs, write_to_out),
    # `f` may be a sum over partitions of data (`fdiff.distributed`), and the call names the point.
    (lambda call: hooks.over_partitions and call.operator is not None, over_partitions),
    # Recorded arrays exist, since `fdiff.autograd` was imported, and may be arguments.
    (
        lambda call: hooks.recorded_operator and call.again is not None and not tracing(),
        recorded_arrays,
    ),
    # ``device="cuda"``: arguments go to the device, and results come back.
    (lambda call: call.device != CPU, on_device),
    # The call names the point: the arguments and the program follow from it.
    (lambda call: call.operator is not None, at_point),
    # A profiler sees the call as a span.
    (lambda _: observed_spans.observer is not None, observed),
    # Arguments are differentiated.
    (lambda call: call.program.argnums is not None, as_floats),
    # A trace is under way in this thread: the call becomes part of it, and ends here.
    (lambda _: tracing(), in_trace),
    # ``fdiff.kinks("raise")``: points without a derivative are refused.
    (lambda _: ASKED in occupied and policy.get() == "raise", refuse_kinks),
    # Every call: it may have to warn, or fail, as NumPy does.
    REPORTS,
    # ``detect_anomaly``, ``debug_nans``: an operation that makes NaN or infinity raises an error.
    (lambda _: anomaly_watch.watching(), checked_for_anomalies),
    # `f` branched differently from call to call: fdiff warns of code that stays slow.
    TIMED,
    # A profiler sees how long it takes to find the variant.
    (lambda _: observed_spans.observer is not None, observed_find),
    # Every call: the variant is found, if no stage has found it, and its plan runs.
    VARIANT,
    PLAN,
)


def result_of_call(call: OperatorCall) -> object:
    """The result of a call: computed, or recorded in the trace under way."""
    try:
        if (
            occupied
            or call.device != CPU
            or (call.kwargs and call.writes_out and "out" in call.kwargs)
            or hooks.over_partitions is not None
        ):
            return call.go_through(STAGES)
        return _usual_call(call)
    finally:
        variant = call.variant
        if variant is not None and not variant.plain:
            variant.release()


def _usual_call(call: OperatorCall) -> object:
    """The result of a call to which few stages apply: ``call.go_through(STAGES)``, a microsecond
    faster, since the other stages are not looked at.
    """
    if hooks.recorded_operator is not None and call.again is not None:
        result = recorded_arrays(call)
        if result is not call:
            return result
    if call.operator is not None:
        at_point(call)
    if call.program.argnums is not None:
        as_floats(call)
    if call.program.stability:
        return call.go_through((REPORTS, TIMED, VARIANT, PLAN))
    find_variant(call)
    return with_reports(call, run_plan)
