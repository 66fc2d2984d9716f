"""The signature of a C function, and how its calls may fail."""

from __future__ import annotations

from enum import IntEnum

import fdiff.intact_numpy as np

from ..named_tuples import NamedTuple


class CStatus(IntEnum):
    """Why a call failed, beside the statuses of kernels (`runtime.status_errors`).

    ``MISS``: no kernel holds for the arguments. ``OVERLAP``: a result lies over something that is
    read. ``WRONG_COUNT``: SciPy passes another number of variables. ``FAILED``: Python has the
    error.
    """

    MISS = -16
    OVERLAP = -17
    NO_MEMORY = -18
    WRONG_COUNT = -19
    FAILED = -20


class CParameter(NamedTuple):
    """A parameter or result of a C function: a number, or a pointer to an array of this shape.

    A `constant` result is no output of the kernel: records hold its value.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    pointer: bool
    constant: bool = False

    @property
    def size(self) -> int:
        """Bytes of the number or the array."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def type(self) -> str:
        """The type in texts."""
        return self.dtype.str[1:] + "*" * self.pointer


class CSignature(NamedTuple):
    """The parameters of a C function and its results.

    There is a parameter for each argument, and a pointer for each result that is not the number
    that the function returns. A `packed` function has numbers, or one array, as SciPy passes them:
    ``double f(int n, double *xx)``, with a pointer for an array after them.
    """

    name: str
    given: tuple[CParameter, ...]
    made: tuple[CParameter, ...]
    packed: bool = False

    @property
    def table(self) -> tuple[CParameter, ...]:
        """Arguments and results as the table of their addresses has them: constants come last."""
        return (*self.given, *sorted(self.made, key=lambda parameter: parameter.constant))

    @property
    def returned(self) -> CParameter | None:
        """The number that the function returns."""
        return next((parameter for parameter in self.made if not parameter.pointer), None)

    @property
    def variables(self) -> int:
        """How many numbers a packed function is given."""
        numbers = sum(not parameter.pointer for parameter in self.given)
        return numbers or self.given[0].size // self.given[0].dtype.itemsize
