"""Derivatives of functions that keep results, where the branch around a point is traced, too.

`trace_checking_memos` traces each call. A memo returns a kept number where the argument equals one
of an earlier call, and the number has no derivative. This branch is taken at one point alone. If
the branch around the point gives the same value, `f` has the derivative of that branch: `f` is
traced once more, with conditions that hold at this point alone decided as they are around it.
Stores of that run are dropped. The method is our own.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from functools import partial
from typing import Any

import fdiff.intact_numpy as np

from ..errors import TraceError, message
from ..foreign_errors import not_foreign
from ..interpret import evaluate
from ..named_tuples import NamedTuple
from ..trace.session import Session
from ..transforms.pipeline import JVP, derive
from ..user_lines import Line, user_line
from .arguments import native
from .call_tracing import CallToTrace, trace_once, warn_of_retracing
from .capture_session import CaptureSession
from .variant import Variant

_MOST = 8  # conditions that are tried one by one
_RTOL = 1e-9  # between two computations of a value: NumPy may add in another order
_WAY = (
    "Compare or look up fdiff.stop_gradient(x) if what was kept is meant as a constant;"
    " else leave the cache out."
)


class TraceResult(NamedTuple):
    """A variant, the meaning of the tape's inputs beyond the arguments, and the session of the
    trace.
    """

    variant: Variant
    extra: tuple[object, ...]
    session: Session | None


def trace_checking_memos(request: CallToTrace) -> tuple[Variant, tuple[object, ...]]:
    """A variant of a call, and the meanings of the inputs of its tape beyond the arguments."""
    here = TraceResult(*trace_once(request))
    session = here.session
    if isinstance(session, CaptureSession) and session.met and session.asks_around():
        taken = _AroundAPoint(request, here, session).taken()
        if taken is not None:
            here.variant.release()
            return taken.variant, taken.extra
    return here.variant, here.extra


class _Denied:
    """Lines whose conditions are decided as they are around the point; None means all lines.

    `asked` are the lines that the run reached.
    """

    def __init__(self, lines: Collection[Line | None] | None) -> None:
        self._lines = lines
        self.asked: dict[Line | None, None] = {}

    def __contains__(self, line: Line | None) -> bool:
        if self._lines is not None and line not in self._lines:
            return False
        self.asked[line] = None
        return True


class _Trial:
    """One more trace of a call, which shows the effect of denied branches on `lines` (None: all).

    A run without the last of these denials stores something in the places `before`.
    """

    def __init__(
        self,
        around: _AroundAPoint,
        lines: Collection[Line | None] | None = None,
        before: Container[str] = (),
    ) -> None:
        request, denied = around.request, _Denied(lines)
        call = request._replace(eager=False, once=True, denied=denied)
        result: TraceResult | None = None
        self.error: Exception | None = None
        try:
            result = TraceResult(*trace_once(call))
        except not_foreign(Exception, again=partial(trace_once, call)) as error:
            # The user's code takes a path here that it does not take in the plain call.
            self.error = error
        self.asked = [*denied.asked]
        met, self.differs, self.same_value = around.session.met, True, False
        self.stored, self.more = set[str](), set[str]()
        if result is not None and isinstance(result.session, CaptureSession):
            met, here = result.session.met, around.here.variant.traced
            self.stored = result.session.stored
            self.more = {s for s in self.stored - around.session.stored if s not in before}
            self.differs = here.eager is not None or result.variant.traced.tape != here.tape
            self.same_value = _all_agree(around.session.results, result.session.results)
        self.result = result
        self.strong = any(met.get(line, True) for line in self.asked)
        # A trial counts if it missed a memo, perhaps, and has the same value and a finite
        # derivative: `f` may branch to avoid a singularity.
        may = self.same_value and (self.strong or bool(self.more))
        self.accepted = may and result is not None and _is_smooth(request, result)

    @property
    def lost(self) -> bool:
        """Whether the call used a kept value that `f` does not compute again."""
        failed = self.error is not None
        return self.strong and not self.same_value and (failed or bool(self.more))


class _AroundAPoint:
    """The decision between a trace at a point and traces of the branches around it."""

    def __init__(self, request: CallToTrace, here: TraceResult, session: CaptureSession) -> None:
        self.request = request
        self.here = here
        self.session = session

    def taken(self) -> TraceResult | None:
        """The trace to use in place of the trace at the point; None if the latter is right.

        Raises TraceError if `f` used a value of an earlier call and does not compute it again.
        """
        every = _Trial(self)
        if not every.differs:
            return None
        if every.accepted or len(every.asked) <= 1:
            return self._decided([every])
        accepted, stored, trials = list[Line | None](), set[str](), list[_Trial]()
        for line in every.asked[:_MOST]:
            trial = _Trial(self, [*accepted, line], stored)
            if line in trial.asked:
                trials.append(trial)
                if trial.accepted:
                    accepted.append(line)
                    stored = trial.stored
        return self._decided(trials)

    def _decided(self, trials: Iterable[_Trial]) -> TraceResult | None:
        best = None
        for trial in trials:
            if trial.accepted and trial.differs:
                best = trial
            elif trial.lost:
                raise self._lost(trial)
        if best is None or best.result is None:
            return None
        if not self.request.once:
            warn_of_retracing(self.request, "a value that it has kept", _first_line(best.asked))
        variant = best.result.variant
        variant.conditions = variant.conditions._replace(cacheable=False)
        return best.result

    def _lost(self, trial: _Trial) -> TraceError:
        place = f"`{min(trial.more)}`" if trial.more else "the data that it reads"
        fact = (
            f"`f` found its differentiated argument equal to what an earlier call kept in {place},"
            " and does not compute the same value again: the derivative would be dropped."
        )
        line = _first_line(trial.asked) or user_line()
        error = TraceError(message(self.request.call, fact, _WAY, line))
        error.__cause__ = trial.error
        return error


def _is_smooth(request: CallToTrace, result: TraceResult) -> bool:
    """Whether the derivatives of a trace are finite."""
    traced = result.variant.traced
    tape = derive(JVP, traced.tape, wrt=traced.wrt) if traced.wrt else traced.tape
    arrays = [native(request.leaves[k]) for k in traced.positions]
    dots = [np.ones(t.shape) for t in traced.wrt_types]
    with np.errstate(all="ignore"):
        inputs: tuple[Any, ...] = (*arrays, *result.extra, *dots)
        outs = [np.asarray(out) for out in evaluate(tape, *inputs)]
    return all(np.isfinite(out).all() for out in outs if out.dtype.kind in "fc")


def _first_line(lines: Iterable[Line | None]) -> Line | None:
    return next((line for line in lines if line is not None), None)


def _all_agree(here: dict[str, list[list[object]]], around: dict[str, list[list[object]]]) -> bool:
    """Whether all traces that met such a branch returned the same values, but for rounding."""
    return bool(around) and all(
        len(results) <= len(around.get(call, ())) and all(map(_same_values, results, around[call]))
        for call, results in here.items()
    )


def _same_values(values: list[object], others: list[object]) -> bool:
    return len(values) == len(others) and all(map(_are_close, values, others))


def _are_close(value: object, other: object) -> bool:
    a, b = np.asarray(value), np.asarray(other)
    if a.shape != b.shape or a.dtype.kind not in "fc":
        return a.shape == b.shape
    rtol = max(_RTOL, 1e3 * float(np.finfo(a.dtype).eps))
    scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
    return bool(np.isclose(a, b, rtol, rtol * float(scale), equal_nan=True).all())
