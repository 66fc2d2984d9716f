"""Calls of traced code on recorded arrays: each is one node, with the tape of the call.

The values that such code reads from outside may differ at the next call: each call is traced anew,
and no tape is reused. Recorded arrays that the code reads are operands of the node, like its
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...capture.proxies.proxy_rules import BY_TYPE, Pair, rule_by_question
from ...dispatch.numpy_warnings import warn_of_tape
from ...dispatch.run_errors import NoSessionError
from ...errors import UnsupportedError, failure
from ...named_tuples import NamedTuple
from ...ops.tape_to_python import function_of
from ...process.float_flags import noted, noting, taken
from ...trace.trace_stack import stack
from ...tree import flatten
from ...user_lines import user_line
from ..arrays.array_kinds import ArrayKind, array_kind_of
from ..arrays.recorded_array import Recordable, RecordedArray
from ..thread_state import state
from .call_tapes import CallOperand, CallTape, ScratchTrace, call_tape
from .recipes import Rebuild, Recipe
from .recording import recorded


class TracedCall(NamedTuple):
    """A call as a tape of its operands; `leaves` are the leaves of its result, some of which are
    arrays.
    """

    tape: CallTape
    operands: list[object]
    leaves: list[object]


def traced_call(
    call: Callable[..., object],
    title: str,
    operands: Sequence[object],
    rebuild: Rebuild,
    *,
    watches: bool = False,
) -> TracedCall:
    """The tape of ``call(*args, **kwargs)``, where `rebuild` puts operands among the arguments.

    `title` is the call in messages. With `watches`, functions in it are watched from the start.
    """
    leaves: list[object] = []

    def noting_leaves(*args: object, **kwargs: object) -> object:
        out = call(*args, **kwargs)
        leaves[:] = flatten(out)[0]
        return out

    for x in operands:
        if type(x) is RecordedArray and x.viewing is not None:
            x.viewing.refresh(x)
    kinds = [*map(_kind, operands)]
    stands = [CallOperand(k.type, k.scalar, k.weak, moves=k.requires_grad) for k in kinds]
    values = [*map(_value, operands)]
    try:
        tape = call_tape(noting_leaves, stands, values, rebuild, watches=watches)
    except NoSessionError:  # operators are called in it
        tape = call_tape(noting_leaves, stands, values, rebuild, watches=True)
    if tape.stored:
        fact = "the function stores into an array that it is given."
        raise failure(UnsupportedError, title, fact, "Store into a copy.")
    return TracedCall(tape, [*operands, *tape.extra], leaves)


def node_of_call(traced: TracedCall, name: str, *, ruled: bool = False) -> Recordable:
    """The results of a call, as outputs of one node of this name.

    `ruled` says that it has rules of the user's.
    """
    tape, operands, leaves = traced
    pushes = state.pushes(operands)
    recipe = Recipe(name, [*map(_kind, operands)], tape, lasting=False, ruled=ruled)
    outs = _values(tape, [*map(_value, operands)], leaves)
    result = recorded(recipe, operands, outs, user_line())
    return state.dual.without_graph(result) if pushes else result


def _values(tape: CallTape, values: list[np.ndarray], leaves: list[object]) -> list[object]:
    """The numbers of the results, computed by the tape of the call."""
    noted.hint = False
    with noting():
        results = function_of(tape.tape)(*values)
    if taken():
        warn_of_tape(tape.tape, values)
    return [
        leaf if place is None else np.array(results[place])[()]  # it may be memory of an operand
        for leaf, place in zip(leaves, tape.places, strict=True)
    ]


def _kind(x: Recordable) -> ArrayKind:
    return x.kind if type(x) is RecordedArray else array_kind_of(x)


def _value(x: object) -> Recordable:
    return x.value if type(x) is RecordedArray else x


def _read(run: object, value: RecordedArray, where: object) -> Pair:
    """The value that a private copy reads in place of a recorded array."""
    trace = stack.traces[0] if stack.traces else None
    proxy, node = rule_by_question(value)(run, value, where)
    if isinstance(trace, ScratchTrace) and value.requires_grad:
        return trace.captured(value), node
    return proxy, node


BY_TYPE[RecordedArray] = _read
