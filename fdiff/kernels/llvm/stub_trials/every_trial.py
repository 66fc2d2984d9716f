"""All trials of the entry stub, and their rehearsal with its text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import CodeType

from ....foreign_errors import is_foreign
from .flat_calls import flat_trials
from .outside_calls import outside_trials
from .rehearsal import Rehearsal
from .structured_calls import structured_trials
from .trial import Trial, TrialKernel


def trials(*, full: bool) -> Iterator[Trial]:
    """All trials of a stub."""
    yield from flat_trials()
    if full:
        yield from structured_trials()
        yield from outside_trials()


def calls(*, full: bool) -> Iterator[Trial]:
    """The trials of machine code in which no step is made to fail."""
    return (trial for trial in trials(full=full) if not (trial.failing[0] or trial.flag))


def fault_of_text(text: str, *, full: bool) -> str:
    """The fault of the stub's text, in words, by a rehearsal of all trials."""
    code = compile(text, "<entry stub>", "exec")
    return next(filter(None, (_rehearsed(code, trial) for trial in trials(full=full))), "")


def _rehearsed(code: CodeType, trial: Trial) -> str:
    kernel = TrialKernel(trial)
    run = Rehearsal(kernel.descriptor, kernel, flag=trial.flag, failing=trial.failing)
    kernel.check, kernel.locked = run.check, lambda: not run.released
    try:
        result = run.run(code, trial.given, trial.named)
        outcome = run.object_at(result) if result else type(run.raised)
    except Exception as error:
        if is_foreign(error):
            raise
        return str(error) or repr(error)  # whatever may come of a wrong text
    kept = [int(kernel.spare[0])] if kernel.spare[0] else []
    if +run.owned != Counter([result] if result else []) or [*run.rooms] != kept:
        return "it loses references or memory, or keeps them"
    if bool(kept) is not (trial.keep and kernel.runs > 0) or kernel.reports != trial.flag:
        return "it keeps another workspace, or reports other flags"
    if run.copies != trial.copies and not trial.failing[0]:
        return "NumPy copies other arrays"
    if (run.raised is None) is not bool(result) or run.released or (kernel.runs and run.flags()):
        return "it returns what it must not, or raises it"
    return kernel.fault(outcome)
