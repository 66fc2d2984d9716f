"""The writes of a run as two functions, and what they need of the tape and of user's objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import fdiff.intact_numpy as np

from .dependency_nodes import Array
from .revalidation import Revalidation
from .write_targets import NumberRead, WriteTarget

Before = Callable[[object], bool]
After = Callable[..., object]  # takes the result of a call and values, and returns the result


class Effects(NamedTuple):
    """The writes of a run: the objects they go to, the outputs they need, and the function.

    An output is a node of the tape, or many that are given as one array. Arrays that are `filled`
    get all their entries; variables of enclosing functions (`in_cells`) belong to one function.
    """

    bind: Callable[..., tuple[Before, After]]
    nodes: tuple[WriteTarget, ...]
    reads: tuple[NumberRead, ...]
    outputs: tuple[tuple[int, ...], ...]
    filled: tuple[Array, ...]
    in_cells: bool

    def bound(self, walk: Revalidation) -> tuple[Before, After] | None:
        """The functions for the objects that a walk has met; None unless it has met each once."""
        if any(id(node) not in walk.targets for node in self.nodes):
            return None
        found = [walk.targets[id(node)] for node in self.nodes]
        mine = {id(value): id(node) for value, node in zip(found, self.nodes, strict=True)}
        if len(mine) < len(found) or any(
            mine.get(value, node) != node for node, value in walk.seen
        ):
            return None  # one of them stands elsewhere too, where the run read it as another
        if self.overlap(cast("Sequence[object]", walk.arrays), walk.arrays):
            return None
        for read in self.reads:
            walk.arrays[read.slot] = read.buffer
        return self.bind(*found)

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
