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
from typing import TYPE_CHECKING, cast

import fdiff.intact_numpy as np

from ...device_arrays import DeviceArray
from ...dispatch.plans import Arrays, Inspection
from ...dispatch.variant import Variant
from ...errors import AnomalyError, message
from ...interpret import Interpreter
from ...process import anomaly_watch
from ...process.float_flags import noted
from ...tape import Tape
from ...trace.derived_lines import derivation_of, derived_lines
from ...transforms.anomaly_search import Anomaly, first_anomaly, first_made, node_values, not_finite
from ...transforms.custom_calls import inlined
from ...tree import flatten, map_leaves
from ...user_lines import user_line
from .anomaly_reports import Names, anomaly_error
from .device_calls import on_host

if TYPE_CHECKING:
    from .operator_call import OperatorCall

DEFECT = (
    "The interpreter computes finite values where the result is not: please report it, with"
    " what fdiff.doctor() prints."
)


def watched(call: OperatorCall) -> object:
    """The result of a call outside of any trace; `AnomalyError` if it is not finite."""
    call.sure, call.eager = True, False
    result = call.go_on()
    hint, finite, variant = noted.hint, _all_finite(flatten(result)[0]), call.variant
    assert variant is not None, "a stage has found it"
    if not finite or not _function_is_finite(variant, call.arrays):
        _explain(call)  # no error where a derivative discards what looked doubtful
        if not finite:
            fact = "the result is not finite."
            raise AnomalyError(message(variant.call, fact, DEFECT, user_line()))
    noted.hint = hint
    return result


def _all_finite(values: Sequence[object]) -> bool:
    return not any(
        not_finite(on_host(x)).any()
        for x in values
        if isinstance(x, (np.ndarray, np.generic, float, complex, DeviceArray))
    )


def _function_is_finite(variant: Variant, arrays: Sequence[np.ndarray]) -> bool:
    """Whether the outputs of the function are finite, and all it computes where that counts."""
    mode = anomaly_watch.in_force()
    inputs = [cast("np.ndarray", on_host(x)) for x in arrays]
    if mode is not None and mode.discarded:
        tape = inlined(variant.tape)
        values = node_values(tape, inputs)
        anomaly = first_made(tape, values, lambda _: False)
        return anomaly is None and _all_finite([values[o] for o in tape.outputs])
    if not variant.plan.order:
        return True  # they are in the result
    if variant.doubts.plan is None:
        variant.doubts.plan = Interpreter(variant.tape)
    return _all_finite(variant.doubts.plan(*inputs))


# --- finding what made it -------------------------------------------------------------------------


def _explain(call: OperatorCall) -> None:
    """Raise `AnomalyError` for the first NaN or infinity that counts."""
    every = call.args, call.kwargs, tuple(call.vectors)
    args, kwargs, vectors = map_leaves(on_host, every)  # type: ignore[misc] - a tree keeps its structure
    with derived_lines():
        variant, inputs = call.program.trace_anew(call.f, args, kwargs)
        names = Names(variant, flatten((args, kwargs))[1])

        def raise_for(anomaly: Anomaly) -> None:
            raise anomaly_error(variant.call, anomaly, names)

        def outputs(tape: Tape, arrays: Arrays) -> list[object]:
            tape = inlined(tape)
            values = node_values(tape, arrays)
            if (anomaly := first_anomaly(tape, values)) is not None:
                raise_for(anomaly)
            return [values[o] for o in tape.outputs]

        outputs(variant.tape, inputs)
        variant.plan.call(inputs, vectors, Inspection(outputs))
    mode = anomaly_watch.in_force()
    if mode is not None and mode.discarded:
        tape = inlined(variant.tape)
        lines, values = tape.lines, node_values(tape, inputs)
        derived = lambda i: derivation_of(lines.get(i, (None,))[0]) is not None  # noqa: E731 - a condition of one line
        if (anomaly := first_made(tape, values, derived)) is not None:
            raise_for(anomaly)
