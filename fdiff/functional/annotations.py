"""Types of what operators take and return, as editors and type checkers see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")  # the arguments of the user's function
R = TypeVar("R")  # its result
T = TypeVar("T")

Array = np.ndarray[
    tuple[Any, ...], np.dtype[Any]
]  # NDArray[Any], whose module takes long to import
Point = Array | np.number[Any] | complex | Sequence[float] | Sequence[Sequence[float]]
