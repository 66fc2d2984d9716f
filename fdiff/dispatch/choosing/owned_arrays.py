"""Arrays that one variable holds and nothing else, as CPython's counts of references tell.

A loop that stores into such an array, and then gives the variable another one, changes nothing
that other code can see. See docs/decisions/stores-into-arguments.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import fdiff.intact_numpy as np

from ...trace import TracedArray
from ...trace.handler_arguments import resolve
from ...trace.local_arrays import LocalArray

_base_of = np.ndarray.base.__get__


class _Held:
    """An object that a variable and a dict hold."""


def _references(values: Mapping[str, object], name: str) -> int:
    """The references to a value of a dict; 0 where Python does not count them."""
    value = values[name]
    count = getattr(sys, "getrefcount", None)
    return 0 if count is None else count(value)


def _references_of_one() -> int:
    """The references to an object that one variable holds, beside a dict.

    0 if Python does not count references, or if a second holder does not raise the count by one.
    """
    variable = _Held()
    values: dict[str, object] = {"": variable}
    alone = _references(values, "")
    values["held elsewhere"] = variable
    return alone if _references(values, "") == alone + 1 else 0


def owned(starts: Mapping[str, object], names: frozenset[str]) -> frozenset[str]:
    """The variables among `names` whose arrays nothing else holds, nor views of these."""
    alone = _references_of_one() if names else 0
    if not alone:
        return frozenset()
    return frozenset(name for name in names if _is_alone(starts, name, alone))


def _is_alone(starts: Mapping[str, object], name: str, alone: int) -> bool:
    """Whether `alone` or fewer references to the array of a variable, and its memory, are there."""
    array = starts[name]
    shared = _references(starts, name) > alone + 1  # `array` is one more
    if shared or not isinstance(array, (LocalArray, TracedArray)):
        return False
    if isinstance(array, LocalArray) and not _owns_memory(array, alone):
        return False
    handle = resolve(array)  # of a local array, to which its views refer
    return handle is array or _references({"": handle}, "") <= alone + 1


def _owns_memory(array: np.ndarray, alone: int) -> bool:
    """Whether nothing but an array refers to the arrays whose memory it looks at."""
    base = _base_of(array)
    while isinstance(base, np.ndarray):
        if _references({"": base}, "") > alone + 1:
            return False
        base = _base_of(base)
    return base is None  # and no buffer
