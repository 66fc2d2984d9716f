"""Families of calls: calls that differ in the sizes of their operands alone.

The tapes of most functions know sizes as entries of shapes alone. The recipe of one call therefore
serves calls on arrays of other sizes, as long as the same sizes are equal to each other, to one, or
to zero (`transforms/template_sizes.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import fdiff.intact_numpy as np

from ...transforms.template_sizes import Sizes
from ..arrays.array_kinds import ArrayKind

# What knows sizes as entries of shapes alone: ufuncs, these functions, and these methods.
_FUNCTIONS = frozenset((np.sum, np.max, np.min, np.dot, np.transpose))
_METHODS = frozenset([function.__name__ for function in _FUNCTIONS])
_MEAN = 4  # parts of the key of a mean of all entries: function, tuple, 1, kind


class Family(NamedTuple):
    """The key of a family of calls, and the sizes of one call.

    `entries` is the number of entries of a mean, which its tapes hold as a number; 0 without a
    mean.
    """

    key: object
    sizes: tuple[int, ...]
    entries: int


def family_of(key: object, what: Callable[..., Any]) -> Family | None:
    """The family of a call that is known by `key`; None if it depends on sizes in other ways."""
    if key.__class__ is not tuple:
        return None
    parts = cast("tuple[Any, ...]", key)
    name = getattr(what, "method", None)
    mean = what is np.mean or name == "mean"
    if mean and len(parts) != _MEAN:
        return None
    if not (mean or name in _METHODS or isinstance(what, np.ufunc) or what in _FUNCTIONS):
        return None
    sizes, entries = Sizes(), 0
    description: list[object] = []
    for part in parts:
        if part.__class__ is ArrayKind:
            type_ = part.type
            description += (sizes.shape(type_.shape), type_.dtype, part.scalar, part.weak)
            description += (part.requires_grad, part.outside is part)
            entries = type_.size if mean else 0
        else:
            description.append(part)
    return Family(tuple(description), tuple(sizes.numbers), entries)
