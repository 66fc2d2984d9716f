"""Arrays in variables that a node cannot hold: docs/decisions/loops-that-choose-branches.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...trace import TracedArray
from ...trace.array_links import root_of
from .variables import RefusedLoopError, WayRun, arrays_in, cells_of, check_bound, check_memory

if TYPE_CHECKING:
    from .ways import Ways


def check_arrays(ways: Ways) -> None:
    """Refuse arrays that results share, that are stored into by two names, or are views."""
    ways.appended.check(ways.loop, ways.variables)
    for run in ways.runs:
        _check_run(ways, run)
        if ways.nested:
            check_bound(ways.variables, run)
    if any(v.has_array_number and v.stored_into for v in ways.variables):
        raise RefusedLoopError("it stores into an array that two variables may hold")
    starts = [ways.variables[k].start for k in ways.loose]
    if ways.nested and any(isinstance(start, np.ndarray) for start in starts):
        raise RefusedLoopError("a variable may hold an array of another name")
    changed = [v for v in ways.variables if v.stored_into]
    others = [v.start for v in ways.variables]
    others += [a for value in cells_of(ways.body) for a in arrays_in(value)]
    others += [*ways.inner.extra, *ways.rows.arrays()]
    check_memory(changed, others)


def _check_run(ways: Ways, run: WayRun) -> None:
    pairs = [(v.result, a) for v, a in zip(ways.variables, run.values, strict=False)]
    pairs += [(False, a) for a in ways.appended.arrays(run)]
    arrays = [(r, a) for r, a in pairs if isinstance(a, TracedArray) and not a.scalar]
    for result, array in arrays:
        view = root_of(array) is not array and not (result and _is_own(array, run))
        if view or array.home is not ways.inner:
            raise RefusedLoopError("a variable holds a view, or an array from outside")
        axes = ways.inner.layouts.axes(array.made)
        if axes != sorted(axes):
            raise RefusedLoopError("a variable holds an array that is not in C order")
    # Other variables are not read behind a result.
    told = [_is_own(a, run) or ways.loop.flag_of(a) is not None for _, a in arrays]
    kept = [id(root_of(a)) for (r, a), t in zip(arrays, told, strict=True) if r or not t]
    if any(r and kept.count(id(root_of(a))) > 1 for r, a in arrays):
        raise RefusedLoopError("two variables hold one array")


def _is_own(array: TracedArray, run: WayRun) -> bool:
    """Whether an array looks at memory that a run has made."""
    root = root_of(array)
    return not any(root is h for h in run.inputs)
