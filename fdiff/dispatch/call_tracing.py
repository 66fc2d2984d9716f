"""The trace of a call: its function is run on traced arguments once, and the tape is prepared."""

from __future__ import annotations

from collections.abc import Container, Sequence
from types import FunctionType
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ..bounded_cache import keep
from ..capture import Dependencies
from ..capture.proxies.class_proxies import can_be_proxied
from ..capture.written.repeated_writes import never_repeat
from ..device_arrays import CPU
from ..errors import RetraceWarning, warn
from ..named_tuples import NamedTuple
from ..process.forking import late
from ..process.observed_spans import TRANSFORM
from ..process.progress import Stage
from ..tape import Tape
from ..trace import Recording, Trace, TracedArray, record
from ..trace.session import Session
from ..transforms.pipeline import PREPARE, VALUE, derive
from ..tree import Spec, flatten, unflatten
from ..user_lines import Line, numbered, show_line, user_line
from .arguments import (
    NUMBERS,
    Function,
    ResultNumber,
    as_input,
    check_leaf,
    fixed,
    immutable,
    is_direct,
    is_static,
    traceable,
)
from .capture_session import CaptureSession, own_result, session_of
from .run_errors import RunAgainError
from .variant import Conditions, Traced, Variant

if TYPE_CHECKING:
    from ..trace.eager.eager_trace import EagerTrace

eager_trace = late("eager_scalar_operators", "fdiff.ops", "eager_trace")


class CallToTrace(NamedTuple):
    """A call whose function is to be traced.

    `body` runs the user's function `f` on traced arguments, `call` is the public call. `leaves` and
    `spec` are the flattened arguments, `wrt` the positions of the differentiated leaves, `in_spec`
    the structure of these. The tapes run on `device`. An `eager` trace is for this call alone; so
    is a trace made `once`, whatever the function reads. With `repeats`, later calls may repeat the
    writes of the run to the outside. Conditions on `denied` lines are decided as they are around
    the point (`memo_derivatives.py`). With `restarts`, a run that asks for many values ends with
    ManyQuestionsError, if `f` has written nothing so far.
    """

    body: Function
    f: Function
    call: str
    leaves: Sequence[object]
    spec: Spec
    wrt: Sequence[int]
    in_spec: Spec
    device: str = CPU
    eager: bool = False
    once: bool = False
    repeats: bool = True
    denied: Container[Line | None] | None = None
    restarts: bool = False


def trace_once(request: CallToTrace) -> tuple[Variant, tuple[object, ...], Session | None]:
    """Run the function of a call on traced arguments once.

    Returns the variant without a plan, the meanings of the inputs of its tape beyond the arguments,
    and the session.
    """
    call, leaves, wrt = request.call, request.leaves, request.wrt
    for k, leaf in enumerate(leaves):
        check_leaf(leaf, call, request.spec, k, differentiate=k in wrt)
    positions = tuple(k for k, leaf in enumerate(leaves) if not is_static(leaf))
    inputs = [as_input(leaves[k], differentiate=k in wrt) for k in positions]
    run = _Run(request, positions)
    trace: EagerTrace | None = eager_trace(call) if request.eager else None
    try:
        recording = record(run, inputs, call, trace)
    except RunAgainError:
        again = trace_once(request._replace(repeats=False))
        never_repeat(request.f)
        return again
    # The tape of an eager trace is not shortened, because values are stored by ids of its nodes.
    check, written = recording.check, recording.written
    numeric = [out for out in run.outs if traceable(out)]
    traced = Traced(
        call,
        _shortened(recording.tape) if trace is None else recording.tape,
        wrt=tuple(positions.index(k) for k in wrt),
        in_spec=request.in_spec,
        out_spec=run.out_spec,
        outs=tuple(None if traceable(out) else (out,) for out in run.outs),
        numbers=tuple(map(_number, numeric)),
        scalars=recording.scalars,
        input_scalars=tuple(i.scalar or i.weak for i in inputs),
        positions=positions,
        direct=len(positions) == len(leaves) and all(map(is_direct, leaves)),
        check=None if check is None else derive(VALUE, check),
        written=None if written is None else derive(PREPARE, written),
        eager=trace,
        device=request.device,
        loops=recording.loops,
    )
    conditions = _conditions(request, run, recording, [leaves[k] for k in positions], trace)
    return Variant(_unless_complex(traced), conditions), recording.extra, recording.session


def _number(out: object) -> object:
    """A Python number in a result, or its type if the tape computes it; None for others."""
    if isinstance(out, ResultNumber):
        return out.python
    return out if type(out) in NUMBERS else None


def _conditions(
    request: CallToTrace,
    run: _Run,
    recording: Recording,
    arguments: Sequence[object],
    trace: EagerTrace | None,
) -> Conditions:
    """The conditions of a trace, whose first inputs are `arguments`."""
    session, inputs, count = recording.session, [*arguments, *recording.extra], len(arguments)
    captured = [(k, x) for k, x in enumerate(inputs) if k >= count and isinstance(x, np.ndarray)]
    inner = [(g if k else getattr(g, "__code__", None), r) for k, (g, r) in enumerate(run.inner)]
    return Conditions(
        inner=tuple(inner),
        order=session.order() if isinstance(session, CaptureSession) else (),
        pinned=tuple((k, np.asarray(inputs[k]).tobytes()) for k in recording.pinned),
        layouts=recording.layouts,
        swapped=tuple(k for k, array in captured if not array.dtype.isnative),
        guards=recording.guards,
        path=0 if trace is None else hash(tuple(trace.guards.answers)),
        cacheable=not request.eager and _may_be_used_again(request, run, shown=recording.shown),
    )


class _Run:
    """The run of a function on traced arguments: its result, and the functions that ran.

    Traced arrays replace the leaves at `positions`.
    """

    def __init__(self, request: CallToTrace, positions: Sequence[int]) -> None:
        self._request, self._positions = request, positions
        self.outs: list[object] = []
        self.out_spec = Spec(None)
        self.inner: list[tuple[Function, Dependencies]] = []

    def __call__(self, trace: Trace, arguments: list[TracedArray]) -> list[object]:
        """The numeric leaves of the result."""
        request = self._request
        leaves = list(request.leaves)
        for k, stand_in in zip(self._positions, arguments, strict=True):
            leaves[k] = stand_in
        args, kwargs = unflatten(request.spec, leaves)
        later = not request.eager and (not request.once or request.denied is not None)
        repeats = request.repeats and request.device == CPU and later
        with session_of(trace, self.inner, repeats=repeats, denied=request.denied) as session:
            if request.restarts and all(map(_keeps_nothing, leaves)):
                trace.guards.exceeded = session.restart
            result = own_result(request.body(*args, **kwargs), session)
            self.outs, self.out_spec = flatten(result)
        numeric = [out for out in self.outs if traceable(out)]
        return [out.traced if isinstance(out, ResultNumber) else out for out in numeric]


def _keeps_nothing(leaf: object) -> bool:
    """Whether what a run does to an argument is dropped with the run, or it cannot change."""
    proxied = isinstance(leaf, FunctionType) or can_be_proxied(type(leaf))
    return not is_static(leaf) or immutable(leaf) or proxied


def _unless_complex(traced: Traced) -> Traced:
    """The trace; its tape is ordinary if numbers are complex, as eager derivatives are real."""
    tape, trace = traced.tape, traced.eager
    types = (*tape.output_types, *traced.wrt_types)
    if trace is None or all(t.dtype.kind != "c" for t in types):
        return traced
    ordinary = traced.ordinary()
    trace.release()
    return ordinary


def _shortened(tape: Tape) -> Tape:
    """The tape after the rewrites that make it short (see `fdiff.transforms.pipeline`)."""
    with Stage("preparing", size=len(tape), category=TRANSFORM):
        return derive(PREPARE, tape)


def _may_be_used_again(request: CallToTrace, run: _Run, *, shown: bool) -> bool:
    """Whether later calls may use this trace; if not, the user is told the reason, once.

    `shown` says whether text was made from a traced value.
    """
    if any(isinstance(leaf, TracedArray) for leaf in request.leaves) or any(
        reads.traced for _, reads in run.inner
    ):
        return False  # part of an outer trace, whose values belong to this call
    reasons = _reasons_to_retrace(request, run, shown=shown)
    if reasons and not request.once:
        warn_of_retracing(request, *reasons[0])
    return not reasons and not any(reads.once for _, reads in run.inner)


def _reasons_to_retrace(
    request: CallToTrace, run: _Run, *, shown: bool
) -> list[tuple[str, Line | None]]:
    """Reads that later calls cannot compare, in words, with their lines."""
    reasons: list[tuple[str, Line | None]] = [
        (f"an argument of type {type(leaf).__name__}", None)
        for leaf in request.leaves
        if is_static(leaf) and not fixed(leaf)
    ]
    reasons += [
        (f"a result of type {type(out).__name__}", None)
        for out in run.outs
        if not (traceable(out) or immutable(out))
    ]
    for _, reads in run.inner:
        reasons += zip(reads.opaque, reads.lines, strict=True)
    reasons += [("text made of a traced value, or printed,", None)] if shown else []
    return reasons


def warn_of_retracing(request: CallToTrace, reason: str, line: Line | None) -> None:
    """Warn, once for each function, that the function is traced at each call."""
    where, code = line or user_line(), getattr(request.f, "__code__", None)
    if code is None:
        key = type(request.f).__qualname__, request.call, where and numbered(where)
    else:
        key = code.co_filename, code.co_firstlineno, hash(code)
    if key in _warned:
        return
    keep(_warned, key, None, _MOST_WARNED)
    warn(
        f"{request.call}: traced again at each call, because {reason} cannot be compared."
        " Results are right; pass the data as an argument to make calls faster."
        f"{show_line(where)}",
        RetraceWarning,
        where,
    )


_warned: dict[object, None] = {}  # no objects of the user, which would live as long
_MOST_WARNED = 4096
