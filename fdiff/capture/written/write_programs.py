"""The writes of a run as two functions, and the outputs and objects that they need.

See docs/decisions/writes-to-the-outside.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...named_tuples import NamedTuple
from ..dependency_nodes import Array
from ..revalidation import Revalidation
from .write_targets import NumberRead, WriteTarget

Before = Callable[[object], bool]
After = Callable[..., object]  # takes the result of a call and values, and returns the result


class BoundWrites(NamedTuple):
    """The two functions, bound to the user's objects `targets`."""

    before: Before
    after: After
    targets: tuple[object, ...]


class ProgramText(NamedTuple):
    """The lines of one of the functions, and what they name: constants, and targets by number."""

    lines: str
    constants: tuple[object, ...]
    targets: tuple[int, ...]

    def on(self, targets: Sequence[object]) -> object:
        """A key, equal for functions that make the same writes to the same objects."""
        return self.lines, self.constants, tuple([id(targets[k]) for k in self.targets])


class Effects(NamedTuple):
    """The writes of a run: the target objects, the outputs that they need, and the functions.

    An output is a node of the tape, or many nodes that form one array. Arrays that are `filled` get
    all their entries; variables of enclosing functions (`in_cells`) belong to one function. With
    `decides`, the run branches on the numbers that it reads, so that other numbers may change its
    course.
    """

    bind: Callable[..., tuple[Before, After]]
    before: ProgramText
    after: ProgramText
    decides: bool
    nodes: tuple[WriteTarget, ...]
    reads: tuple[NumberRead, ...]
    outputs: tuple[tuple[int, ...], ...]
    filled: tuple[Array, ...]
    in_cells: bool

    def bound(self, walk: Revalidation) -> BoundWrites | None:
        """The functions for the objects that a walk has met; None unless it has met each once."""
        if any(id(node) not in walk.targets for node in self.nodes):
            return None
        targets = tuple([walk.targets[id(node)] for node in self.nodes])
        mine = {id(value): id(node) for value, node in zip(targets, self.nodes, strict=True)}
        if len(mine) < len(targets) or any(
            mine.get(value, node) != node for node, value in walk.seen
        ):
            return None  # one of them stands elsewhere too, where the run read it as another
        if self.overlap(cast("Sequence[object]", walk.arrays), walk.arrays):
            return None
        for read in self.reads:
            walk.arrays[read.slot] = read.buffer
        return BoundWrites(*self.bind(*targets), targets)

    def overlap(self, arrays: Sequence[object], captured: Sequence[np.ndarray | None]) -> bool:
        """Whether an array that is written to may share memory with another of these.

        The run was traced as if it did not.
        """
        return any(
            isinstance(array, np.ndarray) and array is not own and np.may_share_memory(array, own)
            for own in [captured[node.slot] for node in self.filled]
            for array in arrays
            if own is not None
        )
