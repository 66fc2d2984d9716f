"""Which loops became nodes, and why others did not, by line: docs/decisions/plain-loops.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...user_lines import Line
from ..recorder import Loops


def all_loops(
    reasons: Mapping[Line | None, str],
    rolled: Iterable[tuple[Line | None, int, int, int]],
    inner: Iterable[tuple[Line, int, int, int, str]],
    refusals: Mapping[Line, str],
) -> Loops:
    """The loops of a trace and of the traces inside.

    `reasons` say why loops were not rolled. Of those that were, `rolled` has the line, the trips,
    the calls of a trip and how many paths there are; of several, the reason tells that. `refusals`
    say why loops do not choose their branches.
    """
    loops = {line: (line, 0, 0, 0, why) for line, why in reasons.items() if line}
    nodes = [
        (line, 1, trips, calls, f"each on one of {paths} paths" if paths > 1 else "")
        for line, trips, calls, paths in rolled
        if line and trips > 1
    ]
    for line, times, trips, calls, why in (*nodes, *inner):
        if times or line not in loops:
            _, before, most, *_ = loops.get(line, (line, 0, 0, 0, ""))
            loops[line] = line, before + times, max(most, trips), calls, why
    for line, why in refusals.items():
        *what, reason = loops.get(line, (line, 0, 0, 0, ""))
        loops[line] = *what, f"{reason}; {why}" if reason else why  # type: ignore[assignment] - five parts
    return (*loops.values(),)
