"""One call of NumPy as a tape: the nodes that its handler enters for operands of given types.

The handler of a function in the registry is run once, in a scratch trace, on stand-ins for the
operands. Derivatives of the call are taken from the tape of that trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...dispatch.capture_session import session_of
from ...errors import InputError, message
from ...named_tuples import NamedTuple
from ...tape import Tape
from ...trace import TracedArray
from ...trace.eager.eager_recorder import EagerGuardSet, EagerRecorder
from ...trace.eager.eager_trace import EagerTrace, to_ordinary_tape
from ...trace.handler_arguments import resolve
from ...trace.trace_stack import current, suspended
from ...transforms.pipeline import VALUE, derive
from ...tree import Spec, flatten
from ...user_lines import user_line

CALL = "fdiff.autograd"  # what messages name


class CallOperand(NamedTuple):
    """A stand-in for an operand: its type, and whether it is a NumPy scalar or a Python number.

    An operand that is `fixed` is a constant of the tape. An operand that `moves` is differentiated,
    as far as functions with the user's rules ask.
    """

    type: ArrayType
    scalar: bool
    weak: bool = False
    fixed: bool = False
    moves: bool = False


class CallTape(NamedTuple):
    """A call as a tape of its operands.

    `places` tells for each leaf of the result which output of the tape it is, None for a leaf that
    is not an array. After those outputs come the operands that the call stored into, `stored`. The
    call branched on values of the operands `decisive`; ``None`` among them says that it branched in
    a way that cannot be attributed. The arrays `extra`, which functions in the call read from
    outside, are further inputs of the tape, if it was watched.
    """

    tape: Tape
    spec: Spec
    places: tuple[int | None, ...]
    stored: tuple[int, ...]
    decisive: frozenset[int] | None
    extra: tuple[object, ...] = ()


class _Guards(EagerGuardSet):
    """Remembers the nodes whose values were requested."""

    def __init__(self, trace: EagerRecorder) -> None:
        super().__init__(trace)
        self.asked: list[int] = []
        self.unattributed = False

    def saw(self, value: object) -> bool:
        self.unattributed = True
        return super().saw(value)

    def value(self, node_id: int, action: str) -> object:
        self.asked.append(node_id)
        return super().value(node_id, action)


class ScratchTrace(EagerTrace):
    """The trace of one call, whose operands have values."""

    ported = True  # functions in it are written for recorded arrays, and may call their methods

    def __init__(self) -> None:
        super().__init__(CALL)
        self.guards = self.noted = _Guards(self)
        self.layouts.guards = self.guards

    def captured(self, x: Any) -> TracedArray:
        """The operand that stands for a recorded array which the code of the call reads."""
        array = self.capture(np.asarray(x.value))
        self.extra[-1] = x
        self.guards.active.add(array.node)
        self.builder.active[array.node] = True
        return TracedArray(self, array.node, array.type, scalar=True) if x.kind.scalar else array


def call_tape(
    what: Callable[..., object],
    operands: Sequence[CallOperand],
    values: Sequence[object],
    rebuild: Callable[[Sequence[object]], tuple[tuple[object, ...], dict[str, object]]],
    *,
    watches: bool = False,
) -> CallTape:
    """The tape of ``what(*args, **kwargs)``, where `rebuild` puts operands among the arguments.

    With `watches`, what functions in it read is watched, as operators ask that are called in them.
    """
    with suspended(), ScratchTrace() as trace:
        handles: list[object] = []
        for operand, value in zip(operands, values, strict=True):
            handle = trace.input(operand.type, scalar=operand.scalar, weak=operand.weak)
            trace.guards.given[handle.node] = np.asarray(value)
            if operand.moves:
                trace.guards.active.add(handle.node)
            handles.append(value if operand.fixed else handle)
        trace.begin()
        before = [h.node if isinstance(h, TracedArray) else -1 for h in handles]
        args, kwargs = rebuild(handles)
        with session_of(trace, [], repeats=False) if watches else nullcontext():
            leaves, spec = flatten(what(*args, **kwargs))
        parts = _parts_of_trace(trace, leaves, handles, before)
        extra = tuple(trace.extra)
        trace.release()
        del trace.noted
    return CallTape(parts[0], spec, *parts[1:], extra)


def _parts_of_trace(
    trace: ScratchTrace, leaves: list[object], handles: list[Any], before: list[int]
) -> tuple[Tape, tuple[int | None, ...], tuple[int, ...], frozenset[int] | None]:
    """Tape, places of the leaves, operands stored into, operands that decided."""
    outputs: list[int] = []
    places: list[int | None] = []
    resolved = [resolve(leaf) for leaf in leaves]
    results = [trace.lift(x) if isinstance(x, (TracedArray, np.ndarray)) else -1 for x in resolved]
    stored = tuple(
        [k for k, h in enumerate(handles) if isinstance(h, TracedArray) and h.id != before[k]]
    )
    for leaf, node in zip(resolved, results, strict=True):
        # An operand that was stored into, and given back, is no further output.
        if node < 0 or any(leaf is handles[k] for k in stored):
            places.append(None)
        else:
            places.append(len(outputs))
            outputs.append(node)
    outputs += [handles[k].id for k in stored]
    decisive = _decisive(trace, before)
    tape = derive(VALUE, to_ordinary_tape(trace, outputs))
    return tape, tuple(places), stored, decisive


def _decisive(trace: ScratchTrace, operands: list[int]) -> frozenset[int] | None:
    """The operands that nodes which were asked for their values depend on."""
    guards, args = trace.noted, trace.builder.args
    if guards.unattributed:
        return None
    waiting, seen = list(guards.asked), set(guards.asked)
    while waiting:
        for a in args[waiting.pop()]:
            if a not in seen:
                seen.add(a)
                waiting.append(a)
    return frozenset(k for k, i in enumerate(operands) if i in seen)


def refuse_recorded() -> InputError:
    """The error for a recorded array that requires a gradient, in a function that is traced."""
    trace = current()
    fact = "a recorded array that requires a gradient was used inside a function that is traced."
    way = "Its gradient would be lost: pass it as an argument, or use `.detach()`."
    return InputError(message(trace.call, fact, way, user_line()))
