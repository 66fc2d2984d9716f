"""Functions with derivative rules (`fdiff.custom_vjp` and its like) called with recorded arrays.

Such a call is traced as in any operator of fdiff, so its rules are in the tape of the call, and one
node of the graph has that tape. The functions are the user's and may read anything from outside:
each call is traced anew, and nothing is kept for the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..dispatch.capture_session import NoSessionError
from ..dispatch.numpy_warnings import warn_of_tape
from ..errors import UnsupportedError, failure
from ..functional.custom_derivatives import CustomFunction
from ..functional.primitives import OpaqueCall
from ..functional.rule_tracing import closure_error
from ..primitive import HOOKS
from ..process.float_flags import noted, noting, taken
from ..trace import TracedArray
from ..tracebacks import line_of
from ..transforms.eager.eager_rules import python_function
from ..tree import flatten, unflatten
from ..user_lines import user_line
from .array_kinds import kind_of
from .call_tapes import CallOperand, call_tape
from .recipes import Recipe
from .recorded_array import RecordedArray, plain
from .recording import recorded
from .thread_state import state


def call_recorded(
    function: CustomFunction[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """``function(*args, **kwargs)`` outside of a trace; recorded where a gradient is required."""
    leaves, spec = flatten((args, kwargs))
    pushes = state.pushes(leaves)
    if not any(map(_moves, leaves)) or not (state.grad_enabled or pushes):
        return _unrecorded(function, args, kwargs)
    places = [k for k, x in enumerate(leaves) if _is_array(x)]
    operands: list[Any] = [leaves[k] for k in places]
    for x in operands:
        if x.__class__ is RecordedArray and x.viewing is not None:
            x.viewing.refresh(x)
    values = [x.value if x.__class__ is RecordedArray else x for x in operands]
    kinds = [x.kind if x.__class__ is RecordedArray else kind_of(x) for x in operands]
    found: list[Any] = []  # what the function returns, of which some leaves may be no arrays

    def rebuild(given: Sequence[object]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        every = list(leaves)
        for k, x in zip(places, given, strict=True):
            every[k] = x
        return cast("tuple[tuple[Any, ...], dict[str, Any]]", unflatten(spec, every))

    def call(*args: Any, **kwargs: Any) -> object:
        out = function(*args, **kwargs)
        found[:] = flatten(out)[0]
        return out

    stands = [CallOperand(k.type, k.scalar, k.weak, moves=k.requires_grad) for k in kinds]
    try:
        tape = call_tape(call, stands, values, rebuild)
    except NoSessionError:  # operators are called in it
        tape = call_tape(call, stands, values, rebuild, watches=True)
    if tape.stored:
        fact = "the function stores into an array that it is given."
        raise failure(UnsupportedError, function.call, fact, "Store into a copy.")
    operands += tape.extra
    values += tape.extra
    kinds += [kind_of(x) for x in tape.extra]
    noted.hint = False
    with noting():
        results = python_function(tape.tape)(*values)
    if taken():
        warn_of_tape(tape.tape, values)
    outs = [
        leaf if place is None else np.array(results[place])[()]  # it may be memory of an operand
        for leaf, place in zip(found, tape.places, strict=True)
    ]
    made = Recipe(function.name, kinds, tape, lasting=False, ruled=True)
    result = recorded(made, operands, outs, user_line())
    return state.dual.without_graph(result) if pushes else result


def _unrecorded(
    function: CustomFunction[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The plain function; one that is not traced is given arrays of NumPy."""
    given, there = flatten((args, kwargs))[0], isinstance(function.fun, OpaqueCall)
    if not there or not any(isinstance(x, RecordedArray) for x in given):
        found = function.fun(*args, **kwargs)
        if state.grad_enabled and any(map(_moves, flatten(found)[0])):
            raise closure_error(function.call, line_of(function.fun))
        return found
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


HOOKS["recorded_rules"] = call_recorded  # called by `functional/custom_derivatives.py`
HOOKS["recorded_stop"] = detached  # called by `ops/composite_functions.py`
