"""The flags of a loop's variables on which the trace around relies.

A flag says whether a variable is new after the loop. If it is not, it may hold a Python float.
Our own method: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...capture.sources.loop_rewriting import UNBOUND
from ...trace import Trace, TracedArray
from .variables import FLOAT, RefusedLoopError, TooFewTripsError, is_new

if TYPE_CHECKING:
    from .body_paths import BodyPaths


def rely_on(trace: Trace, flag: TracedArray, error: type[RefusedLoopError], refusal: str) -> None:
    """Rely on a flag; an error where it is false, or not known while the loop is traced."""
    if error is TooFewTripsError and not _at_hand(trace, flag):
        raise error(refusal)
    if not trace.guards.value(flag.id, "compared a value"):
        raise error(refusal)
    trace.guards.expect(flag.id, value=True)


def python_floats(
    paths: BodyPaths, trace: Trace, results: Sequence[TracedArray], flags: Mapping[int, TracedArray]
) -> dict[int, object]:
    """The Python floats that variables hold after the loop, where their `flags` say so.

    Such a float is the one from before the loop, if no trip has assigned the variable; else the
    trace relies on it, too. It has no derivative.
    """
    floats, guards, told = dict[int, object](), trace.guards, _are_constants(paths)
    for (k, v, type_), result in zip(paths.carried, results, strict=False):
        if (flag := flags.get(k)) is None:
            continue
        assigned = [run.values[k] for run in paths.runs if run.values[k] is not run.inputs[k]]
        kept = type(v.start) is float and all(map(paths.is_new, assigned))
        constant = told and type_ == FLOAT and v.start is not UNBOUND
        new = not (kept or constant) or not _at_hand(trace, flag)
        if new or guards.value(flag.id, "compared a value"):
            rely_on(trace, flag, RefusedLoopError, "a variable holds what it held before")
            continue
        guards.expect(flag.id, value=False)
        floats[k] = v.own
        if not kept:
            value = np.asarray(guards.value(result.id, "compared a value"))
            guards.expect(result.id, value)
            floats[k] = value.item()
    return floats


def _at_hand(trace: Trace, flag: TracedArray) -> bool:
    return trace.guards.is_known(flag.id) and not trace.guards.is_batched(flag.id)


def _are_constants(paths: BodyPaths) -> bool:
    """Whether no Python float that trips give to variables has a derivative."""
    weak = all(type(v.start) is float for _, v, _ in paths.carried if v.weak)
    values = [run.values[k] for k in paths.loose for run in paths.runs]
    values = [x for x in values if x is not UNBOUND and paths.loop.flag_of(x) is None]
    starts = [x for k in paths.loose if (x := paths.variables[k].start) is not UNBOUND]
    return weak and all(type(x) is float or is_new(x) for x in [*starts, *values])
