"""Arrays and lists that the body of a loop can reach beside its variables.

The body is run once for each path, and not once for each trip. What it changes in place is put
back, and Python runs the loop. Why: docs/decisions/loops-that-choose-branches.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self, cast

import fdiff.intact_numpy as np

from ...foreign_errors import whole_exit
from ...trace.local_arrays import LocalArray
from .variables import CONTAINERS, Container, RefusedLoopError, elements_of, same_elements


class Surroundings:
    """A context that puts back what changes in it in place; RefusedLoopError if something has."""

    def __init__(self, values: Iterable[object]) -> None:
        self.arrays: list[tuple[LocalArray, np.ndarray]] = []
        self.containers: list[tuple[list[object] | dict[object, object], Container]] = []
        seen, waiting = set[int](), [*values]
        while waiting:
            value = waiting.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if type(value) in CONTAINERS:
                waiting += elements_of(value)
            if type(value) is list or type(value) is dict:
                self.containers.append((value, cast("Container", value).copy()))
            elif type(value) is LocalArray and value.flags.writeable:
                self.arrays.append((value, np.array(value).view(np.ndarray)))

    def has(self, array: object) -> bool:
        """Whether an array shares memory with what is here."""
        return any(np.may_share_memory(array, own) for own, _ in self.arrays)

    def __enter__(self) -> Self:
        return self

    @whole_exit
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        changed = False
        for own, before in self.containers:
            if not same_elements(own, before):
                own.clear()
                if isinstance(own, dict):
                    own.update(cast("dict[object, object]", before))
                else:
                    own.extend(before)
                changed = True
        for array, content in self.arrays:
            if array.tobytes() != content.tobytes():
                np.ndarray.__setitem__(array, ..., content)
                changed = True
        if changed and error is None:
            raise RefusedLoopError("it changes an array or a list that is no variable of its own")
