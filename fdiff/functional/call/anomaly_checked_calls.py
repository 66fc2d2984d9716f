"""Calls of operators while anomalies are looked for (`anomaly_contexts`).

A watched call goes the general way, in any tier. Then its results are checked, and the value of the
function, which the result of `grad` does not contain. If all values are finite, the call is done:
intermediate values do not count, because the branch of a ``where`` that is not taken is often NaN,
and fdiff's derivatives leave that branch out exactly.

If a value is not finite, the function is traced anew, its derivatives are derived anew so that
their nodes name the rule that made them, and the tapes are interpreted node by node up to the node
that made the NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...device_arrays import DeviceArray
from ...dispatch.inspection.anomalies import Anomaly, first_anomaly, first_made, not_finite
from ...dispatch.inspection.inspector import Inspector
from ...dispatch.plans import Arrays, Inspection
from ...dispatch.variant import Variant
from ...errors import AnomalyError, message
from ...process import anomaly_watch
from ...process.float_flags import noted
from ...tape import Tape
from ...trace.derived_lines import derivation_of, derived_lines
from ...tree import flatten
from ...user_lines import user_line
from .anomaly_reports import Names, anomaly_error
from .device_calls import on_host

if TYPE_CHECKING:
    from .operator_call import OperatorCall

DEFECT = (
    "The interpreter computes finite values where the result is not: please report it, with"
    " what fdiff.doctor() prints."
)


def checked_for_anomalies(call: OperatorCall) -> object:
    """The result of a call outside of any trace; `AnomalyError` if it is not finite."""
    call.sure, call.eager = True, False
    result = call.go_on()
    hint, finite, variant = noted.hint, _all_finite(flatten(result)[0]), call.variant
    assert variant is not None, "a stage has found it"
    if not finite or not _function_is_finite(variant, call.arrays):
        _explain(call)  # no error if a derivative discards the doubtful values
        if not finite:
            fact = "the result is not finite."
            raise AnomalyError(message(variant.traced.call, fact, DEFECT, user_line()))
    noted.hint = hint
    return result


def _all_finite(values: Sequence[object]) -> bool:
    return not any(
        not_finite(on_host(x)).any()
        for x in values
        if isinstance(x, (np.ndarray, np.generic, float, complex, DeviceArray))
    )


def _function_is_finite(variant: Variant, arrays: Sequence[np.ndarray]) -> bool:
    """Whether the outputs, and if discarded values count all values, of the function are finite."""
    inputs = [*map(on_host, arrays)]
    if _counts_discarded():
        inspector = Inspector(variant.traced.tape, keeps=True)
        values = inspector.values(inputs)
        outputs = [values[o] for o in inspector.tape.outputs]
        return first_made(inspector, values) is None and _all_finite(outputs)
    if not variant.plan.order:
        return True  # the result contains the outputs
    doubts = variant.doubts
    doubts.inspector = doubts.inspector or Inspector(variant.traced.tape)
    return _all_finite(doubts.inspector.outputs(inputs))


def _counts_discarded() -> bool:
    mode = anomaly_watch.in_force()
    return mode is not None and mode.discarded


# --- the node that made the value -----------------------------------------------------------------


def _explain(call: OperatorCall) -> None:
    """Raise `AnomalyError` for the first NaN or infinity that counts."""
    with derived_lines():
        variant, inputs, vectors = call.traced_anew()
        names = Names(variant.traced, flatten((call.args, call.kwargs))[1])

        def raise_for(anomaly: Anomaly | None) -> None:
            if anomaly is not None:
                raise anomaly_error(variant.traced.call, anomaly, names)

        def outputs(tape: Tape, arrays: Arrays) -> list[object]:
            inspector = Inspector(tape, keeps=True)
            values = inspector.values(arrays)
            raise_for(first_anomaly(inspector, values))
            return [values[o] for o in inspector.tape.outputs]

        outputs(variant.traced.tape, inputs)
        variant.plan.call(inputs, vectors, Inspection(outputs))
    if _counts_discarded():
        inspector = Inspector(variant.traced.tape, keeps=True)
        derived = lambda i: derivation_of(inspector.line(i)) is not None  # noqa: E731 - a condition of one line
        raise_for(first_made(inspector, inspector.values(inputs), derived))
