"""Variants: one trace of a function, and the conditions under which it is used again.

`trace_once` runs the function on traced arguments and prepares the tape. A variant serves one
signature of arguments (types of float arrays, values of all other leaves), as long as the values
that the function read from outside compare equal and its guards hold. Arrays that the function
captured are inputs of the tape, so that a change of their entries is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import fdiff.intact_numpy as np

from ..bounded_cache import keep
from ..capture import Dependencies
from ..capture.written.repeated_writes import never_repeat
from ..device_arrays import CPU
from ..errors import RetraceWarning, warn
from ..foreign_errors import not_foreign
from ..ops.eager_scalar_operators import install
from ..process.float_flags import Doubts
from ..process.observation import TRANSFORM
from ..process.progress import Stage
from ..tape import Tape
from ..trace import Recording, Trace, TracedArray, memory_layout, record
from ..trace.eager.eager_trace import EagerTrace, to_ordinary_tape
from ..trace.session import Session
from ..transforms.pipeline import PREPARE, VALUE, derive
from ..tree import Spec, flatten, unflatten
from ..user_lines import Line, numbered, show_line, user_line
from .arguments import (
    NUMBERS,
    Function,
    as_input,
    check_leaf,
    fixed,
    immutable,
    is_direct,
    is_static,
    traceable,
)
from .capture_session import CaptureSession, RunAgainError, own_result, watched
from .plans import OperatorPlan, PlanStep
from .tiers.cuda_runner import runner_on

if TYPE_CHECKING:
    from ..capture.written.write_programs import After

NO_PLAN = OperatorPlan()  # before the operator has made one, and after an eager call


@dataclass(eq=False, repr=False)
class Variant:
    """One trace of a function, and what must hold for it to be used again.

    What was computed: the inputs of `tape` are the traced leaves of the arguments (`traced` are
    their positions), then the captured arrays; its outputs are the numeric leaves of the result.
    `wrt` are the positions of the differentiated inputs, `in_spec` the structure of these,
    `out_spec` the structure of the result. `outs` holds None for each leaf of the result that
    varies, and the object itself for each leaf that is the same at every call; `numbers` the
    Python numbers among the numeric leaves; `scalars` and `input_scalars` which are NumPy scalars.
    With `direct`, the arguments are the inputs as they stand.

    What must hold: `inner` are the functions that ran with what each read from outside (the
    function itself by its code alone, as calls are given one), `order`
    which of them captured each array. `pinned` inputs must have the values they had, `layouts`
    those strides; `check` is the tape of the guards, `guards` their number. Captured arrays
    `swapped` are in another byte order than the machine's.

    What `f` writes to the outside is written again after each later call (`after`), with the
    outputs of `written`, a tape of the same inputs.

    A variant that was merged from others has these as `ways`. `loops` are the user's.

    `plan` is what the operator made of the variant. An `eager` trace is for one call; `path` is the
    hash of what Python saw in it. The tapes run on `device`.
    """

    call: str
    tape: Tape
    wrt: tuple[int, ...]
    in_spec: Spec
    out_spec: Spec
    outs: tuple[tuple[object] | None, ...]
    numbers: tuple[object, ...]
    scalars: tuple[bool, ...]
    traced: tuple[int, ...]
    inner: tuple[tuple[object, Dependencies], ...]
    order: tuple[tuple[int, int], ...]
    pinned: tuple[tuple[int, bytes], ...]
    cacheable: bool
    input_scalars: tuple[bool, ...]
    direct: bool
    check: Tape | None = None
    layouts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    swapped: tuple[int, ...] = ()
    eager: EagerTrace | None = None
    path: int = 0
    guards: int = 0
    written: Tape | None = None
    device: str = CPU
    ways: tuple[Variant, ...] = ()
    loops: tuple[tuple[Line, int, int, int, str], ...] = ()
    plan: OperatorPlan = NO_PLAN
    doubts: Doubts = field(default_factory=Doubts)

    def __post_init__(self) -> None:
        # refresh(f): the captured arrays as they are now; None if anything else read has changed.
        self.refresh = self.inner[0][1].refresh if len(self.inner) == 1 else self._refresh_all
        self.conditional = bool(self.pinned or self.layouts or self.check)
        self.special = bool(self.swapped or self.check)
        self._checks = None if self.check is None else runner_on(self.device, self.check)
        self._writer: Callable[..., Sequence[object]] | None = None

    def _refresh_all(self, f: Callable[..., object]) -> list[np.ndarray] | None:
        parts = [reads.refresh(g if k else f) for k, (g, reads) in enumerate(self.inner)]
        if any(part is None for part in parts):
            return None
        return [parts[p][j] for p, j in self.order]  # type: ignore[index] - none is None here

    def leaves(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[object]:
        """The leaves of arguments that are inputs of the tape."""
        every = flatten((args, kwargs))[0]
        return [every[k] for k in self.traced]

    def step(self, tape: Tape) -> PlanStep:
        """A derivative tape made ready to run, which checks the guards of this trace as well."""
        return PlanStep(tape, self.check, self.call, self.device, self.written)

    @property
    def repeats(self) -> bool:
        """Whether something is to be done around each later call: numbers read, values written."""
        return self.inner[0][1].effects is not None if self.inner else False

    def after(self, f: Callable[..., object]) -> After | None:
        """What writes the values of `written` after a call of `f`, once it was refreshed."""
        pins = self.inner[0][1].pins(f)
        return None if pins is None or pins.writes is None else pins.writes.after

    def fills_argument(self, arrays: Sequence[object], captured: Sequence[np.ndarray]) -> bool:
        """Whether an argument may share memory with an array that `f` writes to."""
        effects = self.inner[0][1].effects
        return effects is not None and effects.overlap(arrays, captured)

    def written_values(self, arrays: Sequence[object]) -> Sequence[object]:
        """The outputs of `written`, for a plan whose steps do not have them."""
        if self.written is None:
            return ()
        if self._writer is None:
            self._writer = runner_on(self.device, self.written)
        return self._writer(arrays)  # type: ignore[arg-type] - concrete arrays, of the types of the variant

    def taken(self, arrays: Sequence[np.ndarray]) -> tuple[Variant, Sequence[np.ndarray]]:
        """The way that is taken at these inputs, and its inputs: what plain code would compute."""
        count = len(self.traced)
        for k, way in enumerate(self.ways):
            begin = count + self.inner[0][1].first[k]  # type: ignore[attr-defined] - merged ones
            end = begin + len(way.tape.inputs) - count
            own = [*arrays[:count], *arrays[begin:end]]
            if way.guards_hold(own):
                return way, own
        return self, arrays

    def release(self) -> None:
        """Let go of an eager trace, so that no cycle of references outlives the call."""
        if self.eager is not None:
            self.eager.release()
            self.plan = NO_PLAN

    def holds(self, arrays: Sequence[np.ndarray], *, sure: bool) -> bool:
        """Whether Python would see and decide at these inputs what it did during the trace.

        Guards are left to the plan if that checks them, unless they have to be checked now
        (`sure`).
        """
        for k, seen in self.pinned:
            if np.asarray(arrays[k]).tobytes() != seen:
                return False
        for k, layout in self.layouts:
            if memory_layout(arrays[k]) != layout:
                return False
        return (not sure and self.plan.guards) or self.guards_hold(arrays)

    def guards_hold(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether every guard holds."""
        if self._checks is None:
            return True
        try:
            return bool(self._checks(arrays)[0])
        except not_foreign(
            ArithmeticError, IndexError, ValueError, again=partial(self._checks, arrays)
        ):  # raised by what an earlier guard excludes
            return False


class CallToTrace(NamedTuple):
    """A call whose function is to be traced.

    `body` runs the user's function `f` on traced arguments, `call` is the public call. `leaves` and
    `spec` are the flattened arguments, `wrt` the positions of the differentiated leaves, `in_spec`
    the structure of these. The tapes shall run on `device`; an `eager` trace is for this call, and
    a trace that is wanted `once` is kept for no other, whatever the function reads. With `repeats`,
    later calls may do again what the run writes to the outside. Conditions on `denied` lines are
    taken as they are around the point (`around_a_point.py`).
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


def trace_once(request: CallToTrace) -> tuple[Variant, tuple[object, ...], Session | None]:
    """Run the function of a call on traced arguments once.

    Returns the variant, without a plan, what the inputs of its tape beyond the arguments stand for,
    and the session.
    """
    call, leaves, wrt = request.call, request.leaves, request.wrt
    for k, leaf in enumerate(leaves):
        check_leaf(leaf, call, request.spec, k, differentiate=k in wrt)
    traced = tuple(k for k, leaf in enumerate(leaves) if not is_static(leaf))
    inputs = [as_input(leaves[k], differentiate=k in wrt) for k in traced]
    run = _Run(request, traced)
    trace = _eager_trace(call) if request.eager else None
    try:
        recording = record(run, inputs, call, trace)
    except RunAgainError:
        again = trace_once(request._replace(repeats=False))
        never_repeat(request.f)
        return again
    session, inner = recording.session, enumerate(run.inner)
    everything = [*(leaves[k] for k in traced), *recording.extra]
    variant = Variant(
        call=call,
        wrt=tuple(traced.index(k) for k in wrt),
        in_spec=request.in_spec,
        out_spec=run.out_spec,
        traced=traced,
        inner=tuple((g if k else getattr(g, "__code__", None), r) for k, (g, r) in inner),
        order=session.order() if isinstance(session, CaptureSession) else (),
        cacheable=not request.eager and _may_be_used_again(request, run, shown=recording.shown),
        input_scalars=tuple(i.scalar or i.weak for i in inputs),
        direct=len(traced) == len(leaves) and all(map(is_direct, leaves)),
        device=request.device,
        **_recorded(recording, run.outs, everything, len(traced), trace),
    )
    variant = _unless_complex(variant, trace) if trace else variant
    return variant, recording.extra, session


class _Run:
    """The run of a function on traced arguments: its result, and the functions that ran.

    `traced` are the positions of the leaves that were replaced by traced arrays.
    """

    def __init__(self, request: CallToTrace, traced: Sequence[int]) -> None:
        self._given, self._traced = request, traced
        self.outs: list[object] = []
        self.out_spec = Spec(None)
        self.inner: list[tuple[Function, Dependencies]] = []

    def __call__(self, trace: Trace, arguments: list[TracedArray]) -> list[object]:
        """The numeric leaves of the result."""
        leaves = list(self._given.leaves)
        for k, stand_in in zip(self._traced, arguments, strict=True):
            leaves[k] = stand_in
        args, kwargs = unflatten(self._given.spec, leaves)
        request = self._given
        later = not request.eager and (not request.once or request.denied is not None)
        repeats = request.repeats and request.device == CPU and later
        with watched(trace, self.inner, repeats=repeats, denied=request.denied) as session:
            result = own_result(self._given.body(*args, **kwargs), session)
            self.outs, self.out_spec = flatten(result)
        return [out for out in self.outs if traceable(out)]


def _eager_trace(call: str) -> EagerTrace:
    install()
    return EagerTrace(call)


def _unless_complex(variant: Variant, trace: EagerTrace) -> Variant:
    """The eager variant; an ordinary one where numbers are complex: eager derivatives are real."""
    types = (*variant.tape.output_types, *(variant.tape.input_types[k] for k in variant.wrt))
    if all(t.dtype.kind != "c" for t in types):
        return variant
    plain = replace(variant, tape=to_ordinary_tape(trace, variant.tape.outputs), eager=None)
    trace.release()
    return plain


def _recorded(
    recording: Recording,
    outs: Sequence[object],
    everything: Sequence[object],
    arguments: int,
    trace: EagerTrace | None,
) -> dict[str, Any]:
    """The fields of a variant that come from the recording.

    The first `given` of `everything` are leaves of arguments, the others captured arrays. The tape
    of an eager `trace` stays as it is, because values are known by the ids of its nodes.
    """
    return {
        "tape": _shortened(recording.tape) if trace is None else recording.tape,
        "eager": trace,
        "path": 0 if trace is None else hash(tuple(trace.guards.answers)),
        "scalars": recording.scalars,
        "outs": tuple(None if traceable(out) else (out,) for out in outs),
        "numbers": tuple(out if type(out) in NUMBERS else None for out in outs if traceable(out)),
        "pinned": tuple((k, np.asarray(everything[k]).tobytes()) for k in recording.pinned),
        "check": None if recording.check is None else derive(VALUE, recording.check),
        "guards": recording.guards,
        "written": None if recording.written is None else derive(PREPARE, recording.written),
        "layouts": recording.layouts,
        "loops": recording.loops,
        "swapped": tuple(k for k, a in enumerate(everything) if k >= arguments and _swapped(a)),
    }


def _shortened(tape: Tape) -> Tape:
    """The tape after the rewrites that make it short (see `fdiff.transforms.pipeline`)."""
    with Stage("preparing", size=len(tape), category=TRANSFORM):
        return derive(PREPARE, tape)


def _swapped(value: object) -> bool:
    return isinstance(value, np.ndarray) and not value.dtype.isnative


def _may_be_used_again(request: CallToTrace, run: _Run, *, shown: bool) -> bool:
    """Whether later calls may use this trace. Where they may not, the user is told why, once.

    `shown`: whether text was made of a traced value.
    """
    if any(isinstance(leaf, TracedArray) for leaf in request.leaves) or any(
        reads.traced for _, reads in run.inner
    ):
        return False  # part of a trace under way, whose values are of this call
    reasons = _reasons_to_retrace(request, run, shown=shown)
    if reasons and not request.once:
        warn_of_retracing(request, *reasons[0])
    return not reasons and not any(reads.once for _, reads in run.inner)


def _reasons_to_retrace(
    request: CallToTrace, run: _Run, *, shown: bool
) -> list[tuple[str, Line | None]]:
    """What a later call cannot compare with this one, in words, and where it was read."""
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
    """Say once for each function that it is traced at each call."""
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


_warned: dict[object, None] = {}  # nothing of the user's, which would live as long
_MOST_WARNED = 4096
