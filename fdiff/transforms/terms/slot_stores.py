"""Values stored into slots: by slices where most slots lie at equal distances, else one by one.

The diagonals of a band are stored at equal distances, between each other: they are cut to as many
entries each, so that one loop stores them all and memory is passed once. A sum of windows is cut
where a window ends, so that it is computed where it is stored (docs/decisions/terms-and-cuts.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import fdiff.intact_numpy as np

from ...named_tuples import NamedTuple
from ...ops.entrywise.elementwise import add
from ...ops.shapes.gather_scatter import scatter_set
from ...ops.shapes.view_ops import reshape, unslice, update
from ...tape import Node
from ...trace import Array, TracedArray, apply

SHARED = 0.75  # the part of the longest run that runs of one loop have at least in common
FEW = 16  # entries of a run that is not cut
MANY = 32  # nodes of a sum that is not looked into


class Run(NamedTuple):
    """Values `low` to `high` of a list, and the first of their slots, which are `step` apart."""

    low: int
    high: int
    first: int
    step: int

    def part(self, low: int, high: int) -> Run:
        return Run(low, high, self.first + (low - self.low) * self.step, self.step)


def stored_pieces(data: Array, pieces: Sequence[tuple[TracedArray, np.ndarray]]) -> Array:
    """`data` with the values of each piece in its slots, which all differ."""
    runs: list[Run | None] = [_longest_run(*piece) for piece in pieces]
    for group in _between_each_other(runs):
        for k, run in _of_one_loop({k: r for k in group if (r := runs[k]) is not None}).items():
            runs[k] = run
    for run, (values, slot) in zip(runs, pieces, strict=True):
        if run is None:
            data = apply(scatter_set, data, *as_computed(values, slot))
        elif run.high > run.low:
            own = part_of(values, run.low, run.high)
            data = apply(update, data, own, starts=(run.first,), steps=(run.step,))
    for run, (values, slot) in zip(runs, pieces, strict=True):
        for low, high in () if run is None else _parts_around_run(values, run, len(slot)):
            data = stored_pieces(data, [(part_of(values, low, high), slot[low:high])])
    return data


def as_computed(values: TracedArray, slot: np.ndarray) -> tuple[TracedArray, np.ndarray]:
    """Values in the shape they were computed in, and their slots likewise: no copy is needed."""
    nodes = values.home.builder.nodes
    node = nodes[values.id]
    if node.primitive is not reshape:
        return values, slot
    values = TracedArray(values.home, node.args[0], nodes[node.args[0]].type)
    return values, slot.reshape(values.shape)


def _longest_run(values: TracedArray, slot: np.ndarray) -> Run | None:
    """The longest run of slots at equal distances; None where it is less than half of them."""
    own = as_computed(values, slot)[0]
    if own.size > max(own.shape, default=1):  # a copy would be made of it, as a vector
        return None
    steps = np.diff(slot)
    ends = np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1, [len(steps)]])
    k = int(np.argmax(np.diff(ends)))
    low, high = int(ends[k]), int(ends[k + 1]) + 1
    if 2 * (high - low) <= len(slot):
        return None
    run = Run(low, high, int(slot[low]), int(steps[low]) if high - low > 1 else 1)
    return run if run.step == 1 else _within_windows(values, run)


# --- runs between each other --------------------------------------------------------------------


def _between_each_other(runs: Sequence[Run | None]) -> list[list[int]]:
    """Runs with equal steps above 1, by number."""
    groups: dict[int, list[int]] = {}
    for k, run in enumerate(runs):
        if run is not None and run.step > 1 and run.high - run.low > FEW:
            groups.setdefault(run.step, []).append(k)
    return [group for group in groups.values() if len(group) > 1]


def _of_one_loop(runs: dict[int, Run]) -> dict[int, Run]:
    """The interleaved parts of runs; the runs themselves, if these parts are too short."""
    begins = {k: run.first // run.step for k, run in runs.items()}
    low = max(begins.values())
    high = min(begins[k] + run.high - run.low for k, run in runs.items())
    if high - low < SHARED * max(run.high - run.low for run in runs.values()):
        return runs
    return {k: r.part(r.low + low - begins[k], r.low + high - begins[k]) for k, r in runs.items()}


def _parts_around_run(values: TracedArray, run: Run, count: int) -> list[tuple[int, int]]:
    """The parts of a list before and after a run, cut where a window ends."""
    ends = sorted({0, run.low, run.high, count, *_ends(values)})
    return [(a, b) for a, b in pairwise(ends) if b <= run.low or a >= run.high]


# --- sums of windows ----------------------------------------------------------------------------


def part_of(values: TracedArray, low: int, high: int) -> TracedArray:
    """Some of the values; of a sum of windows, the sum of the windows there."""
    part = _some_values(values, low, high) if _ends(values) else values[low:high]
    return values[low:high] if part is None else part


def _within_windows(values: TracedArray, run: Run) -> Run:
    """The longest part of a run in which each window of a sum has all entries, or none."""
    ends = sorted({run.low, run.high, *[e for e in _ends(values) if run.low < e < run.high]})
    low, high = max(pairwise(ends), key=lambda pair: pair[1] - pair[0])
    return run.part(low, high) if high - low >= SHARED * (run.high - run.low) else run


def _ends(values: TracedArray) -> set[int]:
    """Where the windows of a sum begin and end; none where it has many terms."""
    nodes, due, ends, count = values.home.builder.nodes, [values.id], set[int](), 0
    while due and count < MANY:
        node = nodes[due.pop()]
        count += 1
        if node.primitive is add:
            due += node.args
        elif _is_window(node):
            start = dict(node.params)["starts"][0]
            ends |= {start, start + nodes[node.args[0]].type.size}
    return set() if due else ends


def _is_window(node: Node) -> bool:
    return node.primitive is unslice and node.type.ndim == 1 and dict(node.params)["steps"] == (1,)


def _some_values(values: TracedArray, low: int, high: int) -> TracedArray | None:
    """Some of the values of a sum of windows; None where these are the zeros around a window."""
    nodes = values.home.builder.nodes
    node = nodes[values.id]
    args = [TracedArray(values.home, a, nodes[a].type) for a in node.args]
    if node.primitive is add and all(a.shape == values.shape for a in args):
        first, second = [_some_values(a, low, high) for a in args]
        if first is None or second is None:
            return second if first is None else first
        return apply(add, first, second)
    if _is_window(node):
        start, size = dict(node.params)["starts"][0], args[0].size
        if high <= start or start + size <= low:
            return None
        if start <= low and high <= start + size:
            return args[0][low - start : high - start]
    return values[low:high]
