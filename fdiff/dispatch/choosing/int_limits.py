"""Limits of ints that change otherwise than by adding a constant, as ``n = 3 * n + 1``.

Python ints have any size, and a tape's have 64 bits. So a trip demands that such an int is within
a limit before the trip and after it. The limit is the largest one by which the trip computes
nothing that floats of 64 bits do not tell apart.

See docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import fdiff.intact_numpy as np

from ...primitive import PRIMITIVES
from ...trace import TracedArray, apply
from .count_sizes import CountSizes
from .variables import Growth, PathRun, RefusedLoopError, Variable

LIMITS = 1 << 50, 1 << 40, 1 << 31, 1 << 26, 1 << 20
T = TypeVar("T")
_ABSOLUTE, _LESS_EQUAL = PRIMITIVES["absolute"], PRIMITIVES["less_equal"]


class IntLimits:
    """The limits of the ints that a loop changes, by which `sizes` of other numbers are told."""

    def __init__(self, sizes: CountSizes) -> None:
        self.sizes = sizes
        self.places: list[tuple[Variable, int]] = []

    def growth(self, variable: Variable, own: int, outs: Iterable[int], trips: int) -> Growth:
        """How large a variable gets, within a limit if that is not told otherwise."""
        if variable.limit is None:
            try:
                return self.sizes.growth(variable, own, outs, trips)
            except RefusedLoopError:
                self.places.append((variable, own))
        return Growth(None, 0, variable.limit or LIMITS[0])

    def checked(self, check: Callable[[], T]) -> T:
        """The result of a check with the largest limit that passes it."""
        for limit in LIMITS if self.places else ():
            for variable, own in self.places:
                self.sizes.note(own, Growth(None, 0, limit))
                variable.limit = limit
            try:
                return check()
            except RefusedLoopError:
                continue
        return check()


def demand_limits(variables: Sequence[Variable], runs: Sequence[PathRun]) -> None:
    """Demand of each run that ints are within their limits before it and after it."""
    for k, variable in enumerate(variables):
        limit = variable.limit
        for run in runs if limit is not None else ():
            assert limit is not None, "variables of other kinds have no limits"
            for value in (run.inputs[k], run.values[k]):
                if isinstance(value, TracedArray):
                    size = apply(_ABSOLUTE, value)
                    run.demands.append(apply(_LESS_EQUAL, size, np.asarray(limit)).id)
                elif isinstance(value, int) and abs(value) > limit:
                    raise RefusedLoopError(f"{variable.name} becomes a large int")
