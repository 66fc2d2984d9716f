"""Operators (`fdiff.grad` and others) called with recorded arrays.

The derivatives that an operator computes are on a tape, so that the call is one node of the graph,
whose rule is the reverse sweep of that tape: `backward` goes through it, to any order. The call is
traced with the values of its arguments; the tape holds whatever values the function read from
outside, and is not reused by the next call. Reverse sweeps: A. Griewank and A. Walther, Evaluating
Derivatives, 2nd ed., SIAM 2008, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_

import fdiff.intact_numpy as np

from ...dispatch.arguments import native
from ...dispatch.call_tracing import CallToTrace
from ...dispatch.memo_derivatives import trace_checking_memos
from ...dispatch.numpy_warnings import warn_of_tape
from ...dispatch.variant import Traced, Variant
from ...errors import called
from ...functional.call.kink_policy import policy
from ...hooks import Args, Named, hooks
from ...ops.tape_to_python import function_of
from ...process import anomaly_watch, observed_spans
from ...process.float_flags import noted, noting, taken
from ...tape import Tape
from ...trace import tracing
from ...trace.trace_stack import occupied
from ...transforms.activity import reached
from ...tree import Spec, flatten, map_leaves, unflatten
from ...user_lines import user_line
from ..arrays.array_kinds import array_kind_of
from ..arrays.recorded_array import Recordable, RecordedArray, plain
from ..thread_state import ported, state
from .call_tapes import CallTape
from .recipes import Recipe
from .recording import recorded

_PLAIN = frozenset((np.ndarray, np.float64, float, int, complex))
# What their tapes compute is what plain code does. Those of others are of derivatives.
_UNDIFFERENTIATED = frozenset(("jit", "vmap"))


def call_operator(
    call: Callable[..., object],
    name: str,
    f: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> tuple[object] | None:
    """The result of an operator of `f` for recorded arrays, in a tuple; None where there are none.

    ``call(*args, **kwargs)`` is the operator. Where no gradient is required, its results are those
    for plain arrays, as recorded arrays without a graph.
    """
    if not kwargs and all(x.__class__ in _PLAIN for x in args):
        return None
    leaves, spec = flatten((args, kwargs))
    if not any(isinstance(x, RecordedArray) for x in leaves):
        return None
    values = [x.value if isinstance(x, RecordedArray) else x for x in leaves]
    moves = any(isinstance(x, RecordedArray) and x.requires_grad for x in leaves)
    pushes = moves and state.pushes(leaves)
    records = moves and (state.grad_enabled or pushes)
    arguments = unflatten(spec, values)
    with ported():
        result = _call_operator(call, name, f, leaves, values, spec, arguments, records=records)
    return (state.dual.without_graph(result) if pushes else result,)


def _call_operator(
    call: Callable[..., object],
    name: str,
    f: Callable[..., object],
    leaves: Sequence[object],
    values: Sequence[object],
    spec: Spec,
    arguments: tuple[Args, Named],
    *,
    records: bool,
) -> object:
    """The results of the operator: recorded arrays, or plain ones for plain `arguments`."""
    result: object = None
    looks = _is_observed()
    if looks or not records:
        result = map_leaves(_without_graph, call(*arguments[0], **arguments[1]))
    if records:
        noted.hint = False
        result, variant, inputs = _recorded(call, name, called(name, f), leaves, values, spec)
        if taken() and not looks:
            # What it reads is no other now: NumPy warns there as it does.
            if variant.conditions.cacheable:
                call(*arguments[0], **arguments[1])
            elif name in _UNDIFFERENTIATED:
                warn_of_tape(variant.traced.tape, inputs)
    return result


def _is_observed() -> bool:
    """Whether someone looks for a NaN, or a kink, or profiles: at calls with plain arrays."""
    return bool(occupied) and (
        tracing()
        or policy.get() == "raise"
        or anomaly_watch.watching()
        or observed_spans.observer is not None
    )


def _without_graph(x: object) -> object:
    return plain(x) if isinstance(x, np.ndarray | np.generic) else x


def _recorded(
    call: Callable[..., object],
    name: str,
    public: str,
    leaves: Sequence[object],
    values: Sequence[object],
    spec: Spec,
) -> tuple[object, Variant, list[Recordable]]:
    """The results of a call as outputs of one node, its trace and the inputs of the trace.

    `public` is the call in messages. Operands that no result was computed from get no edge.
    """
    order = [k for k, x in enumerate(leaves) if isinstance(x, RecordedArray) and x.requires_grad]
    request = CallToTrace(call, call, public, values, spec, order, Spec(None), once=True)
    variant, extra = trace_checking_memos(request)
    traced = variant.traced
    operands = [leaves[k] for k in traced.positions]
    operands = [x if isinstance(x, RecordedArray) else np.asarray(x) for x in (*operands, *extra)]
    inputs = [*[native(values[k]) for k in traced.positions], *extra]
    with noting():
        results = function_of(traced.tape)(*inputs)
    kinds = [x.kind if isinstance(x, RecordedArray) else array_kind_of(x) for x in operands]
    used = _inputs_with_derivative(traced.tape)
    kinds = [k if u or not k.requires_grad else k.other for k, u in zip(kinds, used, strict=True)]
    places, constants = _results(traced, results)
    tape = CallTape(traced.tape, traced.out_spec, places, (), None)
    outs = [
        constant if place is None else np.array(results[place])[()]  # it may be an operand's memory
        for place, constant in zip(places, constants, strict=True)
    ]
    recipe = Recipe(name, kinds, tape, lasting=False, ruled=True)
    return recorded(recipe, operands, outs, user_line()), variant, inputs


def _inputs_with_derivative(tape: Tape) -> list[bool]:
    """For each input of a tape, whether a floating output depends on it."""
    marks = reached(tape, {i: 1 << k for k, i in enumerate(tape.inputs)})
    outs = [i for i in tape.outputs if tape.nodes[i].type.floating]
    bits = reduce(or_, [marks[i] for i in outs], 0)
    return [bool(bits >> k & 1) for k in range(len(tape.inputs))]


def _results(
    traced: Traced, results: Sequence[object]
) -> tuple[tuple[int | None, ...], list[object]]:
    """For each leaf of the results which output of the tape it is, or None, and its value then."""
    numeric = iter(enumerate(traced.numbers))
    places: list[int | None] = []
    constants: list[object] = []
    for fixed in traced.outs:
        place, constant = (None, fixed[0]) if fixed else next(numeric)
        if place is not None and isinstance(constant, type):  # a Python number
            constant = constant(results[place])
        places.append(place if fixed or constant is None else None)
        constants.append(constant)
    return tuple(places), constants


hooks.recorded_operator = call_operator
