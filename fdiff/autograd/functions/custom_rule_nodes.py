"""Functions with derivative rules (`fdiff.custom_vjp` and others) called with recorded arrays.

Such a call is traced as in any operator of fdiff. Its rules are part of the tape of the call, and
one node of the graph has that tape. The functions are the user's and may read any data from
outside: each call is traced anew, and no tape is reused.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...functional.rules.custom_derivatives import CustomFunction
from ...functional.rules.primitives import OpaqueCall
from ...functional.rules.rule_tracing import closure_error
from ...hooks import hooks
from ...trace import TracedArray
from ...tracebacks import line_of
from ...tree import flatten, unflatten
from ..arrays.recorded_array import RecordedArray, plain
from ..calls.traced_calls import node_of_call, traced_call
from ..thread_state import state


def call_recorded(
    function: CustomFunction[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """``function(*args, **kwargs)`` outside of a trace; recorded where a gradient is required."""
    leaves, spec = flatten((args, kwargs))
    if not any(map(_moves, leaves)) or not (state.grad_enabled or state.pushes(leaves)):
        return _unrecorded(function, args, kwargs)
    places = [k for k, x in enumerate(leaves) if _is_array(x)]

    def rebuild(values: Sequence[object]) -> tuple[tuple[object, ...], dict[str, object]]:
        every = list(leaves)
        for k, x in zip(places, values, strict=True):
            every[k] = x
        return unflatten(spec, every)

    operands = [leaves[k] for k in places]
    traced = traced_call(function, function.call, operands, rebuild)
    return node_of_call(traced, function.name, ruled=True)


def _unrecorded(
    function: CustomFunction[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """The plain function; one that is not traced is given arrays of NumPy."""
    leaves, there = flatten((args, kwargs))[0], isinstance(function.fun, OpaqueCall)
    if not there or not any(isinstance(x, RecordedArray) for x in leaves):
        result = function.fun(*args, **kwargs)
        if state.grad_enabled and any(map(_moves, flatten(result)[0])):
            raise closure_error(function.call, line_of(function.fun))
        return result
    values = [x.value if isinstance(x, RecordedArray) else x for x in args]
    return plain(np.asarray(function.fun(*values, **kwargs)))


def detached(x: object) -> object:
    """A recorded array without its history, for `fdiff.stop_gradient`; anything else as it is."""
    return x.detach() if isinstance(x, RecordedArray) else x


def _moves(x: object) -> bool:
    return isinstance(x, RecordedArray) and x.requires_grad


def _is_array(x: object) -> bool:
    if isinstance(x, RecordedArray):
        return True
    return (
        isinstance(x, np.ndarray | np.generic)
        and not isinstance(x, TracedArray)
        and x.dtype.kind in "biufc"
    )


hooks.recorded_rules = call_recorded
hooks.detached = detached
