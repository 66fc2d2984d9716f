"""Arrays in variables that a node cannot hold: docs/decisions/loops-that-choose-branches.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...trace import TracedArray
from ...trace.array_links import root_of
from .variables import PathRun, RefusedLoopError, arrays_in, cells_of, check_bound, check_memory

if TYPE_CHECKING:
    from .body_paths import BodyPaths


def check_arrays(paths: BodyPaths) -> None:
    """Refuse arrays that results share, that are stored into by two names, or are views."""
    paths.appended.check(paths.loop, paths.variables)
    for run in paths.runs:
        _check_run(paths, run)
        if paths.nested:
            check_bound(paths.variables, run)
    if any(v.has_array_number and v.stored_into for v in paths.variables):
        raise RefusedLoopError("it stores into an array that two variables may hold")
    starts = [paths.variables[k].start for k in paths.loose]
    if paths.nested and any(isinstance(start, np.ndarray) for start in starts):
        raise RefusedLoopError("a variable may hold an array of another name")
    changed = [v for v in paths.variables if v.stored_into]
    others = [v.start for v in paths.variables]
    others += [a for value in cells_of(paths.body) for a in arrays_in(value)]
    others += [*paths.inner.extra, *paths.rows.arrays()]
    check_memory(changed, others)


def _check_run(paths: BodyPaths, run: PathRun) -> None:
    pairs = [(v.result, a) for v, a in zip(paths.variables, run.values, strict=False)]
    pairs += [(False, a) for a in paths.appended.arrays(run)]
    arrays = [(r, a) for r, a in pairs if isinstance(a, TracedArray) and not a.scalar]
    for result, array in arrays:
        view = root_of(array) is not array and not (result and _is_own(array, run))
        if view or array.home is not paths.inner:
            raise RefusedLoopError("a variable holds a view, or an array from outside")
        axes = paths.inner.layouts.axes(array.made)
        if axes != sorted(axes):
            raise RefusedLoopError("a variable holds an array that is not in C order")
    # Other variables are not read after a result.
    settled = [_is_own(a, run) or paths.loop.flag_of(a) is not None for _, a in arrays]
    kept = [id(root_of(a)) for (r, a), t in zip(arrays, settled, strict=True) if r or not t]
    if any(r and kept.count(id(root_of(a))) > 1 for r, a in arrays):
        raise RefusedLoopError("two variables hold one array")


def _is_own(array: TracedArray, run: PathRun) -> bool:
    """Whether an array looks at memory that a run has made."""
    root = root_of(array)
    return not any(root is h for h in run.inputs)
