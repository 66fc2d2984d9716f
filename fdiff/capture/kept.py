"""Values that `f` keeps from call to call: whether two of them agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from .kinds import MISSING

RTOL = 1e-9  # of values computed twice: tiers and NumPy may round sums in other orders


def agree(one: object, other: object) -> bool:
    """Whether two values are equal but for rounding: numbers, arrays, containers of them."""
    if one is other:
        return one is not MISSING
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        mine, found = cast("Mapping[object, object]", one), cast("Mapping[object, object]", other)
        return mine.keys() == found.keys() and all(agree(mine[key], found[key]) for key in mine)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        items, others = cast("Sequence[object]", one), cast("Sequence[object]", other)
        return len(items) == len(others) and all(map(agree, items, others))
    try:
        a, b = np.asarray(one), np.asarray(other)
        if a.dtype.kind in "fc" and b.dtype.kind in "biufc":
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
            close = np.isclose(a, b, RTOL, RTOL * float(scale), equal_nan=True)
            return a.shape == b.shape and bool(close.all())
        return a.shape == b.shape and bool(np.all(a == b))
    except (TypeError, ValueError):
        return False
